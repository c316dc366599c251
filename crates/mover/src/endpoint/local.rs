//! Local file systems, in four rooms; the head of each says which of its files does what:
//!
//! - [`source`] is scanned and read, and loses what may go;
//! - [`staging`] has what is unfinished, in hidden directories;
//! - [`destination`] looks at what stands there, takes bytes into staging, makes them durable, gives them their names,
//!   and cleans up at the end;
//! - [`flow_destination`] takes flows, under their final names.
//!
//! [`survey`] answers questions that need no transfer. All of them use [`walk`], which goes through a tree, [`held`]
//! directories, [`metadata`], and [`place`], from the words for a destination to its root. [`overlap`] refuses copies
//! into themselves.
//!
//! For all of it: inside a transfer's root nothing is reached but by a held directory and one name in it, so a
//! component that is swapped for a link meanwhile leads nowhere. A directory that a local user moves elsewhere
//! while we hold it is still worked in. Where links of a source are followed, [`follow`](mod@source::follow) says
//! which lead where.
//!
//! Not kept: access times, inode flags, birth times, sockets, attributes that mean something only where they are
//! ([`metadata`]). Hard links are found again as long as the set of link sets that are still open stays below
//! [`source::scan::LINK_BYTES_MAX`]; where none can be made, each name becomes a file of its own.

use crate::failure::{self, Failure, FailureKind, Reason};
use crate::journal::staging_names::is_staging;
use crate::mutex::lock;
use std::io;
use std::os::unix::ffi::OsStrExt;
use thalweg_sys::{Dir, FileSystem, Stat, Time, errno};
use thalweg_wire::{Evidence, RelativePath};

pub mod source;

pub mod staging;

pub mod destination;

pub mod flow_destination;

mod held;

mod walk;

mod place;

pub mod overlap;

mod metadata;

pub mod survey;

pub use destination::{DestinationPlace, LocalDestination};
pub use source::{LocalSource, ScanOptions, SourceRoot};

/// What fails where a source cannot be had.
pub const OPEN_SOURCE: &str = "open the source";
/// What fails where what is unfinished has no place, or another transfer has it.
pub const OPEN_STAGING: &str = "open the staging directory";
/// Why nothing is staged, where it is only asked what a copy would do.
const DRY_RUN: &str = "a dry run writes nothing";
/// What fails where another stream notes what grows there.
pub const MARK_GROWING: &str = "mark what grows";
/// What fails where a file lost its name while it was written.
pub const KEEP_NAME: &str = "keep the name";
/// What fails where a symbolic link is to be followed.
pub(crate) const FOLLOW_LINKS: &str = "follow links";
/// What fails where another file has the name of one that is read in pieces.
pub const READ_ON: &str = "read on";

/// Whether a directory is a staging directory or in one, whatever links led to it. Of what it is asked for `below`,
/// what is above that is whoever's who opened it: a trial writes to a scratch directory of its own in there.
pub(in crate::endpoint) fn is_in_staging(dir: &Dir, below: Option<&Dir>) -> bool {
    let Some(path) = dir.real_path() else { return false };
    let top = below.and_then(Dir::real_path);
    let path = top.and_then(|top| path.strip_prefix(top).ok()).unwrap_or(&path);
    path.components().any(|part| is_staging(part.as_os_str().as_bytes()))
}

fn is_errno(error: &io::Error, number: i32) -> bool {
    error.raw_os_error() == Some(number)
}

fn wire_time(time: Time) -> thalweg_wire::Time {
    thalweg_wire::Time { seconds: time.seconds, nanos: time.nanos }
}

fn sys_time(time: thalweg_wire::Time) -> Time {
    Time { seconds: time.seconds, nanos: time.nanos }
}

fn evidence_of(stat: &Stat) -> Evidence {
    Evidence {
        size: stat.size,
        mtime: wire_time(stat.mtime),
        ctime: wire_time(stat.ctime),
        device: stat.device,
        inode: stat.inode,
    }
}

/// The failure of `operation` on `path`.
fn failed(operation: &str, path: &RelativePath, error: &io::Error) -> Failure {
    failure::of_io(operation, error).at(path)
}

/// A failure that names a path as the user wrote it.
fn failed_at_words(operation: &str, words: &std::path::Path, error: &io::Error) -> Failure {
    at_words(failure::of_io(operation, error), words)
}

/// The failure of `operation` at a place that is looked up in an export, or not: there, what a link leads out to is not
/// told from what is not there.
pub(in crate::endpoint) fn failed_at_place(
    operation: &str,
    words: &std::path::Path,
    is_in_export: bool,
    error: &io::Error,
) -> Failure {
    match is_in_export && leads_nowhere(error) {
        true => not_in_export(operation, words),
        false => failed_at_words(operation, words, error),
    }
}

/// The failure of who looks for a source: a pattern that nobody expanded is told from a name that is missing.
pub(in crate::endpoint) fn of_source(failure: Failure, words: &std::path::Path) -> Failure {
    let is_pattern = words.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte));
    match is_pattern && failure.kind == FailureKind::NotFound {
        true => failure.because(Reason::NotExpanded),
        false => failure,
    }
}

/// Whether what was looked up below a directory leads to no place in it.
fn leads_nowhere(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::NotFound | E::NotADirectory | E::CrossesDevices) || is_errno(error, errno::LOOP)
}

/// One sentence for all that a client need not tell apart.
fn not_in_export(operation: &str, words: &std::path::Path) -> Failure {
    Failure::new(FailureKind::NotFound, operation, format!("the export has no {}", shown(words)))
}

/// The same failure, with a path as the user wrote it.
fn at_words(failure: Failure, words: &std::path::Path) -> Failure {
    failure::with_words(failure, &shown(words))
}

/// Why a reservation of space that failed must not be passed over. File systems that cannot reserve say so in many
/// ways (some of FUSE: not permitted), and the bytes come all the same.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    let refusals = [E::StorageFull, E::QuotaExceeded, E::FileTooLarge, E::ReadOnlyFilesystem];
    refusals.contains(&error.kind()) || is_errno(error, errno::IO)
}

/// The error of who was to make something in `dir`: the kernel says the same where there is no room for bytes and where
/// there are no inodes left, and who is told the one looks for the other in vain.
fn of_room(dir: &Dir, error: io::Error) -> io::Error {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    match is_full && dir.file_system().is_ok_and(|system| lacks_inodes(&system)) {
        true => {
            let words = failure::of_io("", &error).cause;
            let words = format!("{words}: no inodes left");
            failure::io_because(io::ErrorKind::StorageFull, Reason::NoInodes, words)
        }
        false => error,
    }
}

/// Without room for bytes XFS, which makes inodes as it needs them, says that it has none of these either.
fn lacks_inodes(system: &FileSystem) -> bool {
    system.inodes_available == Some(0) && system.bytes_available > 0
}

/// The failure of an `operation` that takes the `name` in `dir` from what stands there: something that is mounted there
/// keeps it, and the kernel calls it busy.
fn failed_to_take(
    operation: &str,
    path: &RelativePath,
    dir: &Dir,
    name: &[u8],
    error: &io::Error,
) -> Failure {
    let is_mounted = || match (dir.stat(name), dir.stat_self()) {
        (Ok(there), Ok(here)) => there.mount_id != here.mount_id,
        _ => false,
    };
    match error.kind() == io::ErrorKind::ResourceBusy && is_mounted() {
        true => mounted(operation, path),
        false => failed(operation, path, error),
    }
}

/// The failure of an `operation` that takes a name where something is mounted.
fn mounted(operation: &str, path: &RelativePath) -> Failure {
    Failure::new(FailureKind::Conflict, operation, "another file system is mounted there").at(path)
}

fn conflict(path: &RelativePath, cause: impl ToString) -> Failure {
    Failure::new(FailureKind::Conflict, "put in place", cause).at(path)
}

/// A path of the user's, for people.
fn shown(words: &std::path::Path) -> String {
    let words = words.as_os_str().as_encoded_bytes();
    // The export itself, or the working directory, has no words.
    format!("`{}`", failure::shown_path(if words.is_empty() { &b"."[..] } else { words }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_inodes_left_is_told_from_no_room() {
        let root = Dir::open(std::path::Path::new("/")).unwrap().file_system().unwrap();
        let lacks = |inodes_available, bytes_available| {
            lacks_inodes(&FileSystem { inodes_available, bytes_available, ..root })
        };
        assert!(lacks(Some(0), 4096));
        assert!(!lacks(Some(1), 4096) && !lacks(None, 4096) && !lacks(Some(0), 0));
    }

    #[test]
    fn a_pattern_that_is_not_there_is_told_from_a_name_that_is_not_and_from_one_that_is_closed() {
        let reason = |path: &str, number| {
            let failure = failure::of_io("open", &io::Error::from_raw_os_error(number));
            of_source(failure, std::path::Path::new(path)).reason
        };
        // ENOENT, EACCES.
        for path in ["run7/f*", "run?", "[ab]"] {
            assert_eq!((reason(path, 2), reason(path, 13)), (Reason::NotExpanded, Reason::Other), "{path}");
        }
        assert_eq!(reason("run7/f", 2), Reason::Other);
    }

    #[test]
    fn what_is_busy_and_no_mount_point_is_not_called_one() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("f"), "x").unwrap();
        let (dir, path) = (Dir::open(scratch.path()).unwrap(), RelativePath::new(b"f".to_vec()).unwrap());
        // EBUSY: as of a file that another program has open on a file server.
        let busy = io::Error::from_raw_os_error(16);
        let failure = failed_to_take("rename", &path, &dir, b"f", &busy);
        assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    }

    #[test]
    fn what_is_busy_as_it_is_a_mount_point_is_called_one() {
        if !tells_mounts_apart() {
            eprintln!("skipped: `/proc` is no mount point that the kernel tells apart");
            return;
        }
        let root = Dir::open(std::path::Path::new("/")).unwrap();
        let path = RelativePath::new(b"proc".to_vec()).unwrap();
        let failure = failed_to_take("rename", &path, &root, b"proc", &io::Error::from_raw_os_error(16));
        assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
        assert_eq!(failure.to_string(), "rename failed on `proc`: another file system is mounted there");
    }

    /// Whether `/proc` is a mount point that the kernel tells from what is around it.
    fn tells_mounts_apart() -> bool {
        let root = Dir::open(std::path::Path::new("/")).unwrap();
        let mount = |stat: io::Result<Stat>| stat.ok().and_then(|stat| stat.mount_id);
        let (there, here) = (mount(root.stat(b"proc")), mount(root.stat_self()));
        there.is_some() && there != here
    }
}
