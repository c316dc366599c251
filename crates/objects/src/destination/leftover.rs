//! Uploads that attempts left and did not complete: which there are by the notes, and that they are ended.

use super::{ObjectDestination, notes};
use crate::bucket::Bucket;
use crate::store::{Store, Upload};
use std::path::Path;
use std::time::SystemTime;
use thalweg_mover::failure;
use thalweg_mover::{Failure, FailureKind, Result};

impl ObjectDestination {
    /// Uploads of transfers to this bucket, as the state directory knows them, job by job. As long as `each` has those
    /// of one, no transfer takes them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn leftovers(store: &Store, state: &Path, each: &mut dyn FnMut(&mut Leftovers)) -> Result<()> {
        leftovers_of(&store.name(), state, each)
    }
}

/// An upload that is not complete.
#[derive(Debug, Clone)]
pub struct Leftover {
    /// The key that its object was to have.
    pub key: String,
    /// Its name at the store.
    pub upload: String,
    /// Bytes of its parts, as far as they are noted.
    pub bytes: u64,
    number: u64,
}

/// Uploads of one job. A transfer of it that begins meanwhile waits for two seconds, and is `Busy` then.
pub struct Leftovers {
    found: notes::Found,
    has_ended: bool,
}

impl Leftovers {
    /// All of them.
    pub fn uploads(&self) -> Vec<Leftover> {
        let of_note = |(number, noted): (u64, notes::Noted)| Leftover {
            bytes: noted.parts.values().map(|part| part.bytes).sum(),
            key: noted.key,
            upload: noted.id,
            number,
        };
        self.found.notes.all().into_iter().map(of_note).collect()
    }

    /// Whether a transfer has them: then they stay.
    pub fn are_in_use(&self) -> bool {
        self.found.is_running
    }

    /// When something was noted of any of them last, if the file system tells it.
    pub fn noted_at(&self) -> Option<SystemTime> {
        self.found.noted_at
    }

    /// Ends one; one that is gone is ended. The note of the job goes with the last.
    ///
    /// # Errors
    /// `Busy` if a transfer has it; as [`Store::abort`].
    pub fn end(&mut self, store: &Store, left: &Leftover) -> Result<()> {
        self.end_in(store, left)
    }

    pub(super) fn end_in(&mut self, bucket: &dyn Bucket, left: &Leftover) -> Result<()> {
        if self.are_in_use() {
            return Err(Failure::new(FailureKind::Busy, "end the upload", "a transfer has it"));
        }
        abort(bucket, &Upload { key: left.key.clone(), id: left.upload.clone(), begun: None, mark: None })?;
        self.found.notes.end(left.number);
        self.has_ended = true;
        Ok(())
    }
}

pub(super) fn leftovers_of(bucket: &str, state: &Path, each: &mut dyn FnMut(&mut Leftovers)) -> Result<()> {
    let mut look = |found| {
        let mut left = Leftovers { found, has_ended: false };
        each(&mut left);
        if left.has_ended {
            left.found.notes.close();
        }
    };
    notes::each_of(state, bucket, &mut look)
        .map_err(|error| failure::of_io("look for unfinished uploads", &error))
}

/// Ends an upload; one that is gone is ended.
pub(super) fn abort(bucket: &dyn Bucket, upload: &Upload) -> Result<()> {
    match bucket.abort(upload) {
        Err(failure) if failure.kind != FailureKind::NotFound => Err(failure),
        _ => Ok(()),
    }
}
