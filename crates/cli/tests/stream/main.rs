//! Streams by the real program: pipes, files and trees that grow, and what happens to them when anything breaks.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

#[path = "../support/mod.rs"]
mod support;

// Pipes.
mod pipes;

// Files and trees.
mod growing;

// What happens to their names while nobody looks.
mod rotated;

// What the kernel tells of them, or does not.
mod events;

// How late bytes are.
mod lag;

// Kills, cuts and restarts.
mod breaks;

// Producers and consumers that are killed.
mod kills;

// Receipts and reports.
mod receipts;

// Disks that are full, and power that is cut.
mod disks;

// Names that somebody made to hurt.
mod names;

// Others need more of it.
#[allow(dead_code)]
#[path = "../support/sshd.rs"]
mod sshd;

// By ssh.
mod by_ssh;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Scratch, wait_until};

/// Longest that any of these may take.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Options of a mover that waits for nobody for long.
pub const IMPATIENT: [&str; 4] = ["--stall-timeout", "5s", "--patience", "6s"];
/// Longer than that one waits for anything.
pub const REST: Duration = Duration::from_secs(12);

/// `thalweg stream`, with the ticket of the daemon here if there is one.
pub fn command(scratch: &Scratch) -> Command {
    let mut command = scratch.thalweg();
    command.env("THALWEG_TICKET", scratch.path("ticket"));
    command.env("THALWEG_PATIENCE", "40s").arg("stream");
    command
}

/// The same, with stdin to be written.
pub fn piped(scratch: &Scratch, place: &str, more: &[&str]) -> Child {
    let mut command = command(scratch);
    command.args(more).args(["-", place]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Waits until a file has this content.
pub fn holds(path: &Path, bytes: &[u8]) -> bool {
    wait_until(LIMIT, || std::fs::read(path).is_ok_and(|content| content == bytes))
}

/// Appends to a file, which is made if need be.
pub fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file that grows");
    file.write_all(bytes).expect("it grows");
}

/// `thalweg mark`: bytes, and whether no stream writes the file (any more).
pub fn mark(scratch: &Scratch, path: &Path) -> (u64, bool) {
    let said = scratch.ok([std::ffi::OsStr::new("mark"), path.as_os_str()]);
    let mut words = said.split('\t');
    let bytes = words.next().and_then(|word| word.parse().ok()).expect("bytes");
    (bytes, words.next() == Some("no-stream"))
}

/// A writer that keeps a file open.
pub struct Writer(File);

impl Writer {
    /// Of this file, which is made if need be.
    pub fn new(path: PathBuf) -> Writer {
        Writer(OpenOptions::new().create(true).append(true).open(path).expect("a file that grows"))
    }

    /// Appends.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it grows");
    }
}
