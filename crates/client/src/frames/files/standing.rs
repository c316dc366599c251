//! Frames that stand in files here, and may come again from a hub that does not know who took them.
//!
//! Indexes are read from the last one back, each when a frame comes that may be in it, so that what is new is written
//! at once, and little is remembered. A file that was finished before a frame was made does not have it; and a
//! producer that is known is looked for no further back than the first frame of it that is known.

use super::index::each_row;
use super::{Mark, STANDING_FILES_MAX, STANDING_MAX, mark_of};
use crate::frames::Frame;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_mover::failure::{FailureKind, Result};

/// So far clocks may be apart, of who made a frame and of who wrote it down. Where they are further, a frame may be
/// written twice.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Standing {
    /// Files from this number on were read, or are not looked at.
    unread_end: u64,
    /// None below is looked at.
    first: u64,
    /// Lines that were read and name frames, but for those that were too many.
    lines: usize,
    /// Where each producer stands in `known`: what names them repeats in every line.
    producers: BTreeMap<String, usize>,
    /// By sequence what tells a frame from others of it; `None`: what comes of that producer is new.
    known: Vec<Option<BTreeMap<u64, Mark>>>,
}

impl Standing {
    /// What stands in the files below this number.
    pub(super) fn below(number: u64) -> Standing {
        Standing {
            unread_end: number,
            first: number.saturating_sub(STANDING_FILES_MAX),
            lines: 0,
            producers: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    /// Whether this frame stands here. If not, all that comes of its producer is new. `path_of`: the index of a number.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub(super) fn has(&mut self, frame: &Frame, path_of: impl Fn(u64) -> PathBuf) -> Result<bool> {
        let producer = self.number_of(&frame.producer);
        while self.may_be_further_back(producer, frame.sequence)
            && let Some((index, changed_ns)) = self.next_index(&path_of)
            && !is_made_after(frame.time_ns, changed_ns)
        {
            self.read(&index)?;
        }
        let Some(known) = self.known.get_mut(producer) else { return Ok(false) };
        let mark = known.as_ref().and_then(|known| known.get(&frame.sequence).copied());
        let stands = mark.is_some_and(|mark| mark == mark_of(frame.time_ns, &frame.digest.to_string()));
        if !stands {
            *known = None;
        }
        Ok(stands)
    }

    /// Indexes that were not read yet.
    #[cfg(test)]
    pub(super) fn unread(&self) -> u64 {
        self.unread_end - self.first
    }

    fn number_of(&mut self, producer: &str) -> usize {
        if let Some(number) = self.producers.get(producer) {
            return *number;
        }
        let number = self.known.len();
        self.known.push(Some(BTreeMap::new()));
        self.producers.insert(producer.to_owned(), number);
        number
    }

    fn may_be_further_back(&self, producer: usize, sequence: u64) -> bool {
        let Some(Some(known)) = self.known.get(producer) else { return false };
        known.first_key_value().is_none_or(|(first, _)| sequence < *first)
    }

    /// The last index that was not read, and when it was changed.
    fn next_index(&mut self, path_of: impl Fn(u64) -> PathBuf) -> Option<(PathBuf, u64)> {
        while self.unread_end > self.first {
            let index = path_of(self.unread_end - 1);
            // A pipe that somebody put there would be waited for.
            let found = std::fs::symlink_metadata(&index).ok().filter(std::fs::Metadata::is_file);
            if let Some(found) = found {
                return Some((index, found.modified().map_or(u64::MAX, ns_of)));
            }
            self.unread_end -= 1;
        }
        None
    }

    fn read(&mut self, index: &Path) -> Result<()> {
        self.unread_end -= 1;
        let room = STANDING_MAX - self.lines;
        let mut rows = VecDeque::new();
        let read = each_row(index, &mut |_, row| {
            if let Some(((producer, sequence), time_ns)) = row.made.zip(row.frame.time_ns) {
                rows.push_back((self.number_of(&producer), sequence, mark_of(time_ns, &row.digest)));
            }
            if rows.len() > room {
                rows.pop_front();
            }
            Ok(())
        });
        match read {
            Err(failure) if !matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage) => {
                return Err(failure);
            }
            // What has no index, or one that is not ours, is not ours.
            _ => {}
        }
        self.lines += rows.len();
        // Of two of one sequence the later one counts.
        for (producer, sequence, mark) in rows.into_iter().rev() {
            if let Some(Some(known)) = self.known.get_mut(producer) {
                known.entry(sequence).or_insert(mark);
            }
        }
        if self.lines >= STANDING_MAX {
            self.unread_end = self.first;
        }
        Ok(())
    }
}

/// Whether a frame was made when a file had been changed for the last time. Of a clock that is ahead nobody knows.
fn is_made_after(made_ns: u64, changed_ns: u64) -> bool {
    let apart_ns = u64::try_from(CLOCKS_APART.as_nanos()).unwrap_or(u64::MAX);
    made_ns > changed_ns.saturating_add(apart_ns) && made_ns <= ns_of(SystemTime::now())
}

/// Nanoseconds since 1970.
fn ns_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
