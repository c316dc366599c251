//! Turns what the kernel says into a [`Failure`] with an operation, a place and a class.

use std::io;
use std::path::Path;
use thalweg_sys::errno;
use thalweg_sys::process::lacks_descriptors;
pub use thalweg_wire::message::{Failure, FailureKind, Reason};
use thalweg_wire::path::Escaped;

/// Result of everything in the mover that a user may hear of.
pub type Result<T> = std::result::Result<T, Failure>;

/// The failure of `operation` for the reason that the kernel gave; or whoever else was asked ([`to_io`]).
pub fn of_io(operation: &str, error: &io::Error) -> Failure {
    if let Some(told) = told_by(error) {
        return Failure { operation: operation.to_owned(), ..told.clone() };
    }
    Failure::new(kind_of_io(error), operation, describe(error)).because(reason_of_io(error))
}

/// An error that is this failure, where one of the kernel is expected: [`of_io`] makes it a failure of the same kind
/// and cause again.
pub fn to_io(failure: Failure) -> io::Error {
    io::Error::other(failure)
}

fn told_by(error: &io::Error) -> Option<&Failure> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>())
}

/// The same failure, with what stands `before` its cause: a path as the user wrote it.
pub fn with_words(failure: Failure, before: &str) -> Failure {
    let cause = format!("{before}: {}", failure.cause);
    // Anew, which cuts it to what may be said to a peer.
    let cut = Failure::new(failure.kind, &failure.operation, cause);
    Failure { reason: failure.reason, path: failure.path, range: failure.range, ..cut }
}

/// The same failure, with the `path` that it is about before its cause, as the user wrote it.
pub fn at_path(failure: Failure, path: &Path) -> Failure {
    with_words(failure, &format!("`{}`", shown_path(path.as_os_str().as_encoded_bytes())))
}

/// Bytes of a path in a sentence: two of them leave what is said of them room.
const SHOWN_BYTES_MAX: usize = 768;

/// A path of the user's, for people: inert, and cut where it would leave the sentence that it stands in no room.
pub fn shown_path(path: &[u8]) -> String {
    let mut shown = Escaped(path).to_string();
    if shown.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|&at| shown.is_char_boundary(at)).unwrap_or(0);
        shown.truncate(end);
        shown.push_str("...");
    }
    shown
}

/// So many of something, for people: `1 entry`, `2 entries`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What fails where there is no memory for a stream's frames.
pub const NO_MEMORY: &str = "get memory for a stream";

/// An error with the reason that its number does not tell.
#[derive(Debug)]
struct Because {
    reason: Reason,
    words: String,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Because {}

/// An error in these words, the failure of which has this reason.
pub(crate) fn io_because(kind: io::ErrorKind, reason: Reason, words: String) -> io::Error {
    io::Error::new(kind, Because { reason, words })
}

/// What fails where what moves bytes cannot begin.
pub const START_TRANSFER: &str = "start the transfer";

/// What fails where the account or the control group may have no more threads, or memory for them.
pub const START_THREAD: &str = "start a thread";

/// What fails where a thread panicked.
pub const RUN_THREAD: &str = "run a thread";

/// What fails where content is not what its digest says, and where that is looked at.
pub const VERIFY: &str = "verify";

/// What fails where what is kept between copies has no directory.
const CREATE_STATE: &str = "create the state directory";

/// What fails of a benchmark.
pub const MEASURE: &str = "measure";

/// What fails where the hosts of a testbed do not begin.
pub const START_TESTBED: &str = "start a testbed";

/// What fails where nobody lets us make a host of a testbed.
const MAKE_NAMESPACE: &str = "make a network namespace";

/// What fails where a congestion control is asked for that is not permitted, or not there.
pub const CHOOSE_CONGESTION: &str = "choose the congestion control";

/// As [`of_io`], where memory for a stream's frames was asked for: none is a matter of space, not of the stream.
pub(crate) fn of_memory(operation: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::OutOfMemory => no_memory(describe(error)),
        _ => of_io(operation, error),
    }
}

/// There is no memory for a stream's frames.
pub(crate) fn no_memory(cause: impl ToString) -> Failure {
    Failure::new(FailureKind::Space, NO_MEMORY, cause).because(Reason::NoMemory)
}

/// As [`of_io`], where a thread was to begin.
pub fn of_thread(error: &io::Error) -> Failure {
    of_io(START_THREAD, error).because(Reason::NoThreads)
}

/// As [`of_io`], where what is kept between copies was to get its directory.
pub fn of_state(error: &io::Error) -> Failure {
    of_io(CREATE_STATE, error).because(Reason::NoState)
}

/// As [`of_io`], where a host of a testbed was to be made.
pub fn of_namespace(error: &io::Error) -> Failure {
    of_io(MAKE_NAMESPACE, error).because(Reason::NoNamespace)
}

/// The class that a kernel error belongs to.
pub fn kind_of_io(error: &io::Error) -> FailureKind {
    use io::ErrorKind as E;
    if let Some(told) = told_by(error) {
        return told.kind;
    }
    match error.kind() {
        // A limit that is used up, as that of a quota is.
        _ if lacks_descriptors(error) => FailureKind::Space,
        E::NotFound | E::NotADirectory => FailureKind::NotFound,
        // It leads to nothing.
        _ if error.raw_os_error() == Some(errno::LOOP) => FailureKind::NotFound,
        E::PermissionDenied => FailureKind::Permission,
        E::StorageFull | E::QuotaExceeded | E::ReadOnlyFilesystem => FailureKind::Space,
        E::ConnectionRefused
        | E::ConnectionReset
        | E::ConnectionAborted
        | E::NotConnected
        | E::BrokenPipe
        | E::HostUnreachable
        | E::NetworkUnreachable
        | E::NetworkDown
        | E::AddrNotAvailable
        | E::TimedOut
        | E::UnexpectedEof => FailureKind::Connection,
        // Between two places of one file system: the kernel keeps projects and keys apart.
        E::AlreadyExists | E::IsADirectory | E::DirectoryNotEmpty | E::CrossesDevices => {
            FailureKind::Conflict
        }
        // Something uses it: a mount, or another machine's program that has it open on a file server. The disk works.
        E::ResourceBusy => FailureKind::Busy,
        // No room that is made helps a file that is too large, and others may be made.
        E::Unsupported | E::FileTooLarge => FailureKind::Unsupported,
        E::InvalidInput | E::InvalidData | E::InvalidFilename => FailureKind::Usage,
        _ => FailureKind::Io,
    }
}

/// What a kernel error is the reason of, where somebody goes by that.
fn reason_of_io(error: &io::Error) -> Reason {
    let told = error.get_ref().and_then(|inner| inner.downcast_ref::<Because>());
    match error.raw_os_error() {
        _ if lacks_descriptors(error) => Reason::NoDescriptors,
        _ if error.kind() == io::ErrorKind::FileTooLarge => Reason::FileTooLarge,
        // It fails, was pulled out, or its server is not what it was.
        Some(
            errno::IO
            | errno::REMOTE_IO
            | errno::DAMAGED
            | errno::BAD_CHECKSUM
            | errno::NO_DEVICE
            | errno::DEVICE_GONE
            | errno::STALE,
        ) => Reason::DiskFailed,
        _ => told.map_or(Reason::Other, |told| told.reason),
    }
}

/// The kernel's sentence without Rust's `(os error N)`.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use thalweg_wire::message::Message;

    #[test]
    fn a_failure_at_a_long_path_keeps_its_cause_and_may_be_said_to_a_peer() {
        let of = |path: &[u8]| {
            let failure = of_io("open", &io::Error::from_raw_os_error(2)).in_range(0, 7);
            at_path(failure, Path::new(OsStr::from_bytes(path)))
        };
        assert_eq!(of(b"/data").to_string(), "open failed at bytes 0..7: `/data`: No such file or directory");
        for path in [vec![b'a'; 4095], vec![0xff; 4095], "ä".repeat(2047).into_bytes()] {
            let failure = of(&path);
            assert!(failure.cause.ends_with("...`: No such file or directory"), "{failure}");
            assert_eq!((failure.kind, failure.range), (FailureKind::NotFound, Some((0, 7))));
            let failure = failure.because(Reason::NotExpanded);
            // However often it is said where it was.
            let failure = (0..9).fold(failure, |failure, _| with_words(failure, &shown_path(&path)));
            assert_eq!(failure.reason, Reason::NotExpanded);
            let said = Message::Goodbye(Some(failure));
            let bytes = said.encode().unwrap();
            assert_eq!(Message::decode(&bytes[thalweg_wire::message::LENGTH_BYTES..]).unwrap(), said);
        }
    }

    #[test]
    fn a_want_of_descriptors_is_a_limit_that_is_used_up_and_no_broken_disk() {
        // ENFILE, EMFILE.
        for number in [23, 24] {
            let failure = of_io("write", &io::Error::from_raw_os_error(number));
            assert_eq!((failure.kind, failure.reason), (FailureKind::Space, Reason::NoDescriptors));
        }
    }

    #[test]
    fn a_loop_of_links_leads_to_nothing_and_is_no_broken_disk() {
        let failure = of_io("open the source", &io::Error::from_raw_os_error(errno::LOOP));
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert_eq!(failure.to_string(), "open the source failed: Too many levels of symbolic links");
    }

    #[test]
    fn a_file_that_is_too_large_is_one_that_cannot_be_made_and_no_full_disk() {
        // EFBIG.
        let failure = of_io("write", &io::Error::from_raw_os_error(27));
        assert_eq!(failure.kind, FailureKind::Unsupported);
        assert_eq!(at_path(failure, Path::new("run7/f")).reason, Reason::FileTooLarge);
        assert_eq!(of_io("write", &io::Error::from_raw_os_error(28)).reason, Reason::Other);
    }

    #[test]
    fn what_a_disk_does_is_told_from_what_else_the_kernel_refuses() {
        let of = |number| of_io("write", &io::Error::from_raw_os_error(number));
        // EIO, ENXIO, ENODEV, EBADMSG, ESTALE, EUCLEAN, EREMOTEIO.
        for number in [5, 6, 19, 74, 116, 117, 121] {
            let failure = of(number);
            assert_eq!((failure.kind, failure.reason), (FailureKind::Io, Reason::DiskFailed), "{number}");
        }
        // EAGAIN, ENOMEM, ENOSPC.
        for number in [11, 12, 28] {
            assert_eq!(of(number).reason, Reason::Other, "{number}");
        }
    }

    #[test]
    fn a_reason_that_no_number_tells_goes_with_the_error_and_its_words_are_as_they_were() {
        let error = io_because(io::ErrorKind::StorageFull, Reason::NoInodes, "no inodes left".to_owned());
        let failure = of_io("write", &error);
        assert_eq!((failure.kind, failure.reason), (FailureKind::Space, Reason::NoInodes));
        assert_eq!(failure.to_string(), "write failed: no inodes left");
    }

    #[test]
    fn a_failure_that_went_as_an_error_has_its_kind_cause_and_reason_again() {
        let told = Failure::new(FailureKind::Changed, "read the object", "another version stands there")
            .because(Reason::NotReplaced);
        let failure = of_io("read", &to_io(told)).in_range(0, 7);
        assert_eq!((failure.kind, failure.reason), (FailureKind::Changed, Reason::NotReplaced));
        assert_eq!(failure.to_string(), "read failed at bytes 0..7: another version stands there");
    }

    #[test]
    fn a_thread_and_memory_that_are_not_to_be_had_are_told_from_each_other_and_from_descriptors() {
        let thread = |number| of_thread(&io::Error::from_raw_os_error(number)).reason;
        let memory = |number| of_memory("receive", &io::Error::from_raw_os_error(number)).reason;
        // EAGAIN, EMFILE, ENOMEM, EIO.
        assert_eq!((thread(11), thread(24)), (Reason::NoThreads, Reason::NoDescriptors));
        assert_eq!((memory(12), memory(5)), (Reason::NoMemory, Reason::DiskFailed));
    }

    #[test]
    fn what_cannot_be_renamed_or_is_busy_costs_itself_and_is_no_broken_disk() {
        // EBUSY, EXDEV.
        for (number, kind) in [(16, FailureKind::Busy), (18, FailureKind::Conflict)] {
            assert_eq!(of_io("rename", &io::Error::from_raw_os_error(number)).kind, kind);
        }
    }

    #[test]
    fn a_full_disk_is_a_matter_of_space_and_says_so_in_one_line() {
        let failure = of_io("write", &io::Error::from_raw_os_error(28)).in_range(4096, 8192);
        assert_eq!(failure.kind, FailureKind::Space);
        assert_eq!(failure.to_string(), "write failed at bytes 4096..8192: No space left on device");
    }
}
