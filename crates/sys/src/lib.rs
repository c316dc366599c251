//! The kernel, behind safe types: held directories, files, buffers, sockets, extents, the process and its machine.
//!
//! All `unsafe` of the project is in this crate. Where rustix has a safe call, it is used; each block that
//! remains says what safe code cannot do (JUSTIFICATION) and why it is sound (SAFETY).
//!
//! For the whole crate:
//! - Names are bytes. They are never assumed to be UTF-8 and never printed.
//! - Errors are [`std::io::Error`] with the kernel's error number where there is one; the operation and the
//!   path are added by the caller, who knows both ([`atomic_file`] adds the path). Refused arguments are of
//!   kind `InvalidInput` and make no system call.
//! - A call interrupted by a signal is made again.
//! - Nothing panics on an answer of the kernel.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let scratch = tempfile::tempdir()?;
//! use thalweg_sys::{Dir, Links, Replace};
//! let root = Dir::open(scratch.path())?;
//! root.make_dir(b"run7", 0o755)?;
//! let run = root.open_beneath(b"run7", Links::Refuse)?;
//! let file = run.create_new(b".partial", 0o644)?;
//! file.write_all_at(b"beam on", 0)?;
//! file.sync_data()?;
//! run.rename(b".partial", &run, b"log", Replace::Never)?;
//! run.sync()?;
//! assert!(root.open_beneath(b"../etc", Links::Beneath).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! Not here: policy. Nothing in this crate decides when to use direct I/O, which order to write in or how
//! long to wait.

#[cfg(not(target_os = "linux"))]
compile_error!("thalweg-sys speaks to Linux only");

// Directories held by descriptor: the project's only way from a name to a file.
pub mod dir;

// What the kernel says about an entry.
pub mod stat;

// Open files.
pub mod file;

// Files that appear whole: written under a hidden name, then renamed.
pub mod atomic_file;

// What changes in directories.
pub mod watch;

// Where a file's bytes lie on the medium.
pub mod layout;

// Which disks a file lies on.
pub mod disks;

// Page-aligned memory and the bounded pool it comes from.
pub mod buffer;

// Reads and writes in flight.
pub mod queue;

// Socket options, TCP's own account of a connection, and blocking I/O on descriptors.
pub mod socket;

// Numbers of errors.
pub mod errno;

// The clock of the day.
pub mod clock;

// CPU time used.
pub mod cpu_time;

// Limits, umask and signals of this process.
pub mod process;

// Whom this process acts as, and what it may do.
pub mod user;

// What this process takes from others.
pub mod priority;

// Child processes.
pub mod child;

// Processes that are no children.
pub mod other_process;

// What the machine charges a process, and what it withholds.
pub mod host;

// Which machine this is, and what its CPUs are to this process.
pub mod machine;

// Whether heat slows the CPUs, or a quota holds this process.
pub mod heat;

// What energy the machine has used.
pub mod energy;

// Network and mount namespaces.
pub mod namespace;

// Network cards, as their drivers tell of them.
pub mod card;

// The addresses of this machine.
pub mod address;

mod xattr;

pub use buffer::{Buffer, Memory, Pool, PooledBuffer};
pub use dir::{Dir, DirEntry, Entries, FileSystem, FileSystemKind, Inheritance, Links, Pinned, Replace};
pub use file::{Advice, DirectAlignment, File};
pub use layout::{Extent, extents};
pub use queue::{Done, Engine, Operation, Queue, Request};
pub use stat::{Kind, Stat, Time};
pub use watch::{Changed, Watch, WatchId};

use std::io;

/// Makes a call until no signal interrupts it.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// An error about an argument, made before any system call.
fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
