//! Turns what the kernel says into a [`Failure`] with an operation, a place and a class.

use std::io;
pub use thalweg_wire::message::{Failure, FailureKind};

/// Result of everything in the mover that a user may hear of.
pub type Result<T> = std::result::Result<T, Failure>;

/// The failure of `operation` for the reason that the kernel gave.
pub fn of_io(operation: &str, error: &io::Error) -> Failure {
    Failure::new(kind_of_io(error), operation, describe(error))
}

/// What fails where there is no memory for a stream's frames.
pub const NO_MEMORY: &str = "get memory for a stream";

/// What fails where a congestion control is asked for that is not permitted.
pub const CHOOSE_CONGESTION: &str = "choose the congestion control";

/// As [`of_io`], where memory for a stream's frames was asked for: none is a matter of space, not of the stream.
pub fn of_memory(operation: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Failure::new(FailureKind::Space, NO_MEMORY, describe(error)),
        _ => of_io(operation, error),
    }
}

/// The class that a kernel error belongs to.
pub fn kind_of_io(error: &io::Error) -> FailureKind {
    use io::ErrorKind as E;
    match error.kind() {
        E::NotFound | E::NotADirectory => FailureKind::NotFound,
        E::PermissionDenied => FailureKind::Permission,
        E::StorageFull | E::QuotaExceeded | E::ReadOnlyFilesystem | E::FileTooLarge => FailureKind::Space,
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
        E::AlreadyExists | E::IsADirectory | E::DirectoryNotEmpty => FailureKind::Conflict,
        E::Unsupported => FailureKind::Unsupported,
        E::InvalidInput | E::InvalidData | E::InvalidFilename => FailureKind::Usage,
        _ => FailureKind::Io,
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

    #[test]
    fn a_full_disk_is_a_matter_of_space_and_says_so_in_one_line() {
        let failure = of_io("write", &io::Error::from_raw_os_error(28)).in_range(4096, 8192);
        assert_eq!(failure.kind, FailureKind::Space);
        assert_eq!(failure.to_string(), "write failed at bytes 4096..8192: No space left on device");
    }
}
