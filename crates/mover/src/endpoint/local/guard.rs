//! What a destination does not do although it could: as who lets others write there has said.
//!
//! Nothing that stands there is replaced: what differs is refused when it is decided, where content has to be compared
//! first when it would get its name. What is the same stays, and gets the metadata of its entry.
//!
//! Room is kept free: a file whose room is reserved finds that out before a byte of it comes. Of all else (small files,
//! sparse ones, what others write) who runs the transfer looks from time to time.

use super::destination::LocalDestination;
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use thalweg_sys::{Dir, FileSystem};
use thalweg_wire::RelativePath;

/// What fails where something would take the place of what stands there, and may not.
pub const REPLACE: &str = "replace";

/// See the module. The default forbids nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guard {
    /// Nothing that stands there is replaced.
    pub no_replace: bool,
    /// So much is kept free.
    pub min_free: Option<MinFree>,
}

/// Room that is left on a file system, for others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MinFree {
    /// So many bytes.
    Bytes(u64),
    /// This share of all its bytes, from 0 to 1.
    Share(f64),
}

impl MinFree {
    /// Whether so much is free where this directory is. Where nobody can say it is.
    ///
    /// # Errors
    /// `StorageFull` if less is.
    pub fn check(self, dir: &Dir) -> io::Result<()> {
        let Ok(system) = dir.file_system() else { return Ok(()) };
        let (left, least) = (system.bytes_available, self.bytes_of(&system));
        if left >= least {
            return Ok(());
        }
        let cause = format!("{left} bytes are left there, and {least} are kept free (min-free)");
        Err(io::Error::new(io::ErrorKind::StorageFull, cause))
    }

    fn bytes_of(self, system: &FileSystem) -> u64 {
        match self {
            MinFree::Bytes(bytes) => bytes,
            MinFree::Share(share) => (system.bytes_total as f64 * share) as u64,
        }
    }
}

impl LocalDestination {
    /// The same, which does nothing that it is guarded against. Of its room it tells what may be taken.
    pub fn guarded(mut self, guard: Guard) -> LocalDestination {
        self.guard = guard;
        if let (Some(min_free), Some(root)) = (guard.min_free, &self.root)
            && let Ok(system) = root.dir.file_system()
        {
            let least = min_free.bytes_of(&system);
            self.free_bytes = self.free_bytes.map(|free| free.saturating_sub(least));
        }
        self
    }

    /// Something stands at this path, and is to give way.
    ///
    /// # Errors
    /// `Permission` if nothing is replaced here.
    pub(super) fn check_replacing(&self, path: &RelativePath) -> Result<()> {
        match self.guard.no_replace {
            true => Err(no_replace(path)),
            false => Ok(()),
        }
    }

    /// Room was reserved where this directory is.
    ///
    /// # Errors
    /// As [`MinFree::check`].
    pub(super) fn check_room(&self, dir: &Dir) -> io::Result<()> {
        self.guard.min_free.map_or(Ok(()), |min_free| min_free.check(dir))
    }
}

/// The failure of an entry that would replace what stands at its path.
pub(super) fn no_replace(path: &RelativePath) -> Failure {
    let cause = "another one stands there, and nothing that does is replaced (no-replace)";
    Failure::new(FailureKind::Permission, REPLACE, cause).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_free_by_bytes_or_by_a_share_of_all() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let system = FileSystem { bytes_total: 1000, ..dir.file_system().unwrap() };
        assert_eq!(MinFree::Bytes(7).bytes_of(&system), 7);
        assert_eq!(MinFree::Share(0.1).bytes_of(&system), 100);
        assert!(MinFree::Bytes(0).check(&dir).is_ok());
        let error = MinFree::Bytes(u64::MAX).check(&dir).unwrap_err();
        let failure = crate::failure::of_io("write", &error);
        assert_eq!(failure.kind, FailureKind::Space, "{failure}");
        assert!(failure.cause.ends_with("are kept free (min-free)"), "{failure}");
    }
}
