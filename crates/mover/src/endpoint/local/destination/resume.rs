//! What an earlier attempt left of an entry: chunks that the journal names, as far as their bytes still have their
//! digest.

use super::decide::is_sparse;
use super::recheck::{Chunks, sound_chunks};
use super::{LocalDestination, Place};
use crate::endpoint::local::staging::partial::LocalPartial;
use crate::endpoint::local::staging::partial_name;
use crate::endpoint::local::{errno, failed, is_no_room, lock};
use crate::endpoint::{Decision, Left, PartialFile, Reading};
use crate::failure::{self, Failure, FailureKind};
use std::io;
use std::sync::Arc;
use thalweg_sys::process::lacks_descriptors;
use thalweg_wire::digest::{self, Rule};
use thalweg_wire::{Digest, Entry, Kind};

impl LocalDestination {
    /// A partial of the same content from an earlier attempt, as far as it is sound, and what may be there in the
    /// file that stands there; else everything is wanted.
    pub(super) fn resume(
        &self,
        entry: &Entry,
        place: &Place,
        candidate: Option<u64>,
        reading: Reading<'_>,
    ) -> Result<Decision, Failure> {
        let without_partial = || match candidate {
            Some(_) => Decision::Wanted { left: None, candidate },
            None => Decision::Fresh,
        };
        let (found, other) = match &*lock(&self.journal) {
            Some(journal) => {
                let found = journal.find(&entry.path, &entry.evidence);
                (found, journal.find_path(&entry.path).filter(|number| Some(*number) != found))
            }
            None => return Ok(without_partial()),
        };
        if let Some(number) = other {
            self.drop_partial(number, place);
        }
        let Some(number) = found else { return Ok(without_partial()) };
        match self.resumed(number, entry, place, reading) {
            Ok(Some(left)) => return Ok(Decision::Wanted { left: Some(left), candidate }),
            Ok(None) => {}
            // It stays as it is, for the next attempt.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                let cause = "nobody waits for it any more";
                return Err(Failure::new(FailureKind::Stopped, "read what is there", cause).at(&entry.path));
            }
            // It got its name, and that was not recorded any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if is_for_now(&error, || is_local(place)) => {
                return Err(failed("go on with what is there", &entry.path, &error));
            }
            Err(error) => {
                tracing::warn!(%error, path = %entry.path, "what an earlier attempt left cannot be read");
            }
        }
        self.drop_partial(number, place);
        Ok(without_partial())
    }

    fn drop_partial(&self, number: u64, place: &Place) {
        self.flights.close(number);
        if let Ok(staging) = self.staging_at(place) {
            let _ = staging.dir.remove_file(partial_name(number).as_bytes());
        }
        if let Some(journal) = &mut *lock(&self.journal) {
            journal.end(number);
        }
    }

    /// `None` if nothing of it is of use.
    fn resumed(
        &self,
        number: u64,
        entry: &Entry,
        place: &Place,
        reading: Reading<'_>,
    ) -> io::Result<Option<Left>> {
        let of_journal = |why: Failure| {
            let is_full = why.kind == FailureKind::Space;
            let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
            failure::io_because(kind, why.reason, why.cause)
        };
        let (recorded, chunks) = match &*lock(&self.journal) {
            Some(journal) => {
                let now = self.terms.chunk_bytes;
                let recorded_in = journal.chunk_bytes_of(number).unwrap_or(now);
                (journal.chunks(number).map_err(of_journal)?, Chunks { recorded_in, now })
            }
            None => return Ok(None),
        };
        let partial = match self.flights.partial(number) {
            Some(partial) => partial,
            None => {
                let staging = self.staging_at(place)?;
                let file = staging.dir.open_read_write(partial_name(number).as_bytes())?;
                self.partial_of(entry, number, file, &staging, place)
            }
        };
        if recorded.is_empty() || partial.file.stat()?.size != entry.evidence.size {
            return Ok(None);
        }
        let marked = matches!(entry.kind, Kind::File { marked: true, .. });
        let rule = Rule {
            file_bytes: entry.evidence.size,
            segment_bytes: u64::from(self.terms.segment_bytes),
            marked,
        };
        let present = sound_chunks(&partial.file, &rule, chunks, recorded, reading)?;
        if present.is_empty() {
            return Ok(None);
        }
        if chunks.recorded_in != chunks.now
            && let Some(journal) = &mut *lock(&self.journal)
        {
            journal.record(&[(number, present.clone())]).map_err(of_journal)?;
        }
        self.clear_gaps((&partial, place), &rule, &present, entry)?;
        self.flights.opened(number, partial.clone());
        let partial: Arc<dyn PartialFile> = partial;
        Ok(Some(Left { partial, present }))
    }

    /// Makes zeros of everything that is not present: holes are never written, so nothing may show through. Where no
    /// hole can be punched all stays as it is and is written, also what is a hole. That costs as much as to begin anew,
    /// and none of what is present; but of marked holes the partial does not hear.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` only of a file with marked holes.
    fn clear_gaps(
        &self,
        (partial, place): (&LocalPartial, &Place),
        rule: &Rule,
        present: &[(u64, Digest)],
        entry: &Entry,
    ) -> io::Result<()> {
        let file = &partial.file;
        let chunk_bytes = self.terms.chunk_bytes;
        let (mut at, mut wanted) = (0, 0);
        let ends = [(digest::chunk_count(rule.file_bytes, chunk_bytes), Digest::default())];
        for (chunk, _) in present.iter().chain(&ends) {
            let start = at * chunk_bytes;
            let end = (chunk * chunk_bytes).min(rule.file_bytes);
            let gap = end.saturating_sub(start);
            wanted += gap;
            match file.punch_hole(start, gap) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported && !rule.marked => {
                    partial.write_over_gaps();
                    break;
                }
                other => other?,
            }
            at = chunk + 1;
        }
        // More than may be taken is not reserved: what is there stays, and those who look at the room end it.
        if !is_sparse(entry) && self.check_room(&place.dir, wanted).is_ok() {
            match file.preallocate(0, rule.file_bytes) {
                Err(error) if is_no_room(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether another attempt may go on with what is there: there is no room or descriptor, or its device or server is
/// away. Of a server that is away some file systems say what a broken disk says.
fn is_for_now(error: &io::Error, is_local: impl FnOnce() -> bool) -> bool {
    match error.raw_os_error() {
        Some(errno::STALE | errno::NO_DEVICE | errno::DEVICE_GONE | errno::REMOTE_IO) => true,
        Some(errno::IO) => !is_local(),
        _ => is_no_room(error) || lacks_descriptors(error),
    }
}

fn is_local(place: &Place) -> bool {
    place.dir.file_system().is_ok_and(|system| system.kind.is_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_given_up_for_what_stays_and_not_for_what_passes() {
        let of = |number, is_local| is_for_now(&io::Error::from_raw_os_error(number), || is_local);
        // ENOSPC, EROFS and EDQUOT.
        let passing = [errno::TOO_MANY_OPEN, errno::TABLE_FULL, errno::STALE, errno::NO_DEVICE, 28, 30, 122];
        for is_local in [true, false] {
            assert!(passing.into_iter().all(|number| of(number, is_local)));
            assert!(of(errno::DEVICE_GONE, is_local) && of(errno::REMOTE_IO, is_local));
            // EACCES is the third.
            let lasting = [errno::DAMAGED, errno::BAD_CHECKSUM, 13];
            assert!(!lasting.into_iter().any(|number| of(number, is_local)));
            assert_eq!(of(errno::IO, is_local), !is_local);
        }
    }
}
