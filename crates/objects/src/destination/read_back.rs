//! What was put, read again from the store and digested.

use super::ObjectDestination;
use crate::store::{Removed, Seen};
use std::time::Instant;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::digest::{Rule, join};
use thalweg_wire::{Digest, EntryId};

pub(super) const READ_BACK: &str = "read the object back";

/// Read at once of what is read back.
const READ_BYTES: u64 = 4 << 20;

impl ObjectDestination {
    /// Digest of a whole version, read again.
    pub(super) fn read_again(&self, key: &str, seen: &Seen, is_marked: bool) -> Result<Digest> {
        {
            let mut read_back = lock(&self.read_back);
            *read_back = (read_back.0 + 1, Some(Instant::now()));
        }
        let digest = match is_marked && seen.size > 0 {
            true => self.marked_digest(key, seen),
            false => self.digest(key, seen),
        };
        lock(&self.read_back).0 -= 1;
        digest
    }

    pub(super) fn digest(&self, key: &str, seen: &Seen) -> Result<Digest> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; seen.size.min(READ_BYTES) as usize];
        let mut at = 0;
        while at < seen.size {
            let bytes = (seen.size - at).min(READ_BYTES) as usize;
            self.read_all(key, seen, at, &mut buffer[..bytes])?;
            hasher.update(&buffer[..bytes]);
            at += bytes as u64;
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }

    /// That of a file whose holes are marked.
    fn marked_digest(&self, key: &str, seen: &Seen) -> Result<Digest> {
        let segment_bytes = u64::from(self.terms.segment_bytes);
        let rule = Rule { file_bytes: seen.size, segment_bytes, marked: true };
        let mut buffer = vec![0; seen.size.min(segment_bytes) as usize];
        let (mut chunks, mut segments, mut at) = (Vec::new(), Vec::new(), 0);
        while at < seen.size {
            let bytes = (seen.size - at).min(segment_bytes) as usize;
            self.read_all(key, seen, at, &mut buffer[..bytes])?;
            segments.extend(rule.segment(at, &buffer[..bytes]));
            at += bytes as u64;
            if at == seen.size || at.is_multiple_of(self.terms.chunk_bytes) {
                chunks.push(join(&segments, chunks.is_empty() && at == seen.size));
                segments.clear();
            }
        }
        Ok(join(&chunks, true))
    }

    fn read_all(&self, key: &str, seen: &Seen, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            let bytes = self.shared.bucket.read(key, seen, offset + filled as u64, seen.size, rest)?;
            if bytes == 0 {
                let cause = "the object is shorter than it was written";
                return Err(Failure::new(FailureKind::Io, READ_BACK, cause));
            }
            filled += bytes;
            lock(&self.read_back).1 = Some(Instant::now());
        }
        Ok(())
    }

    /// Removes an object of ours that is not what was put, if it is still that; one that may be left is not taken for
    /// the file the next time. What is put again goes by what is left. Best effort.
    pub(super) fn remove_ours(&self, id: EntryId, key: &str, etag: &str) {
        let left = match self.shared.bucket.head(key) {
            Ok(None) => None,
            Ok(Some(head)) if head.seen.etag == etag && !etag.is_empty() => {
                match self.shared.bucket.remove(key, &head.seen) {
                    Ok(Removed::Ours | Removed::Gone) => None,
                    Ok(Removed::Other) => return,
                    Err(failure) => {
                        tracing::warn!(%failure, "an object that is damaged is left in the store");
                        self.note_damaged(id);
                        Some(head.seen)
                    }
                }
            }
            // Somebody else's: a conflict.
            Ok(Some(_)) if !etag.is_empty() => return,
            // It may be ours.
            Ok(Some(_)) | Err(_) => {
                self.note_damaged(id);
                return;
            }
        };
        if let Some(flight) = lock(&self.flights).all.get_mut(&id) {
            flight.seen = left;
        }
    }
}
