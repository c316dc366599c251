//! What was found, in numbers and words, and what the next step need not look at.

use super::{Found, Tell, Told};
use crate::verify::{Sample, Sampled, looked};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::run::copy::Meter;
use thalweg_wire::{Digest, RelativePath};

/// Paths told to be different, or unreadable at a side, whose hashes are kept: 36 MiB for each of the three.
const KNOWN_MAX: usize = 2 << 20;

/// Counts and tells.
pub(super) struct Differences<'a, 'b> {
    meter: &'a Meter,
    tell: &'a mut Tell<'b>,
    pub(super) found: Found,
    pub(super) known: Known,
    /// What could not be listed, looked at or read, at each side.
    pub(super) closed: [Known; 2],
}

impl<'a, 'b> Differences<'a, 'b> {
    /// None so far. `extra`: whether somebody looks for what is extra.
    pub(super) fn new(extra: bool, meter: &'a Meter, tell: &'a mut Tell<'b>) -> Differences<'a, 'b> {
        meter.came(0);
        let found = Found { extra: extra.then_some(0), ..Found::default() };
        Differences { meter, tell, found, known: Known::default(), closed: Default::default() }
    }

    /// One more file is to be compared, of so many bytes.
    pub(super) fn alike(&self, bytes: u64) {
        self.meter.entries_found.fetch_add(1, Ordering::Relaxed);
        self.meter.bytes_found.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All that was drawn is to be compared.
    pub(super) fn drawn(&mut self, sample: &Sample) {
        self.found.drawn = sample.drawn.files;
        self.found.sampled = Some(Sampled { files: 0, bytes: 0, ..sample.drawn });
        self.meter.entries_found.fetch_add(sample.drawn.files, Ordering::Relaxed);
        self.meter.bytes_found.fetch_add(sample.drawn.bytes, Ordering::Relaxed);
    }

    /// One more of the files that were drawn was read at both sides. What came since they were drawn does not count.
    pub(super) fn sampled(&mut self, bytes: u64) {
        if let Some(sampled) = &mut self.found.sampled {
            sampled.files = self.found.drawn.min(sampled.files + 1);
            sampled.bytes = sampled.of_bytes.min(sampled.bytes.saturating_add(bytes));
        }
    }

    /// Both sides have digested it.
    pub(super) fn pair(
        &mut self,
        path: &RelativePath,
        source: (u64, Digest),
        destination: (u64, Digest),
    ) -> Result<()> {
        self.found.files += 1;
        self.found.bytes += source.0;
        self.looked(source.0);
        if source != destination {
            return self.differs(path, "content");
        }
        self.found.same += 1;
        Ok(())
    }

    /// One more was.
    pub(super) fn looked(&self, bytes: u64) {
        looked(self.meter, bytes);
    }

    /// One side alone told it. Where the other could not look, nobody knows whether it has it too.
    pub(super) fn alone(&mut self, side: usize, path: &RelativePath) -> Result<()> {
        match (self.closed[1 - side].may_cover(path), side) {
            (true, _) => Ok(()),
            (false, 0) => self.missing(path, "only at the source"),
            (false, _) => {
                *self.found.extra.get_or_insert(0) += 1;
                (self.tell)(Told::Difference("extra", path, "only at the destination"))
            }
        }
    }

    pub(super) fn missing(&mut self, path: &RelativePath, why: &str) -> Result<()> {
        self.found.missing += 1;
        (self.tell)(Told::Difference("missing", path, why))
    }

    pub(super) fn differs(&mut self, path: &RelativePath, why: &str) -> Result<()> {
        self.found.differing += 1;
        (self.tell)(Told::Difference("differs", path, why))
    }

    /// Tells it once: what cannot be listed cannot be digested either.
    pub(super) fn trouble(&mut self, side: usize, failure: &Failure) -> Result<()> {
        if let Some(path) = &failure.path {
            if self.closed[side].has(path) {
                return Ok(());
            }
            self.closed[side].insert(path);
        }
        self.found.unreadable += 1;
        (self.tell)(Told::Trouble(side, failure))
    }
}

/// Paths that are told to be different, or unreadable: their content is not asked for. As hashes: another path that has
/// the same one is not compared, among places that are different anyway.
#[derive(Default)]
pub(super) struct Known {
    hashes: HashSet<u64>,
    state: RandomState,
    /// There were more than are kept.
    pub(super) is_cut: bool,
}

impl Known {
    pub(super) fn insert(&mut self, path: &RelativePath) {
        if self.hashes.len() < KNOWN_MAX {
            self.hashes.insert(self.state.hash_one(path.as_bytes()));
        } else {
            self.is_cut = true;
        }
    }

    pub(super) fn has(&self, path: &RelativePath) -> bool {
        self.has_bytes(path.as_bytes())
    }

    /// Whether this path or a directory that it is in is among them, or may be.
    pub(super) fn may_cover(&self, path: &RelativePath) -> bool {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = std::iter::once(0).chain(ends).chain([bytes.len()]);
        self.is_cut || (!self.hashes.is_empty() && ends.any(|end| self.has_bytes(&bytes[..end])))
    }

    fn has_bytes(&self, path: &[u8]) -> bool {
        self.hashes.contains(&self.state.hash_one(path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::{AHEAD, Met, Order, Piece, Side, pair_all};
    use super::*;
    use std::sync::mpsc::sync_channel;
    use thalweg_mover::failure::FailureKind;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    fn nobody(_: Told<'_>) -> Result<()> {
        Ok(())
    }

    #[test]
    fn what_a_side_could_not_list_is_not_told_to_be_missing_there_and_what_is_beside_it_is() {
        for (closed, counts) in [(0, (0, Some(1), 0)), (1, (1, Some(0), 0))] {
            let mut hear = [0, 1].map(|side| {
                let (tell, hear) = sync_channel(AHEAD);
                let names: &[&str] =
                    if side == closed { &["k", "z"] } else { &["k", "k/d", "k/d/f", "k-too", "z"] };
                for name in names {
                    tell.send(Piece::Item(path(name), ())).unwrap();
                    if side == closed && *name == "k" {
                        let denied = Failure::new(FailureKind::Permission, "list", "Permission denied");
                        tell.send(Piece::Trouble(denied.at(&path("k")))).unwrap();
                    }
                }
                tell.send(Piece::End(Ok(()))).unwrap();
                Side::new(hear, Order::Listed)
            });
            let mut tell = nobody;
            let meter = Meter::default();
            let mut report = Differences::new(true, &meter, &mut tell);
            pair_all(&mut hear, &mut |met| match met {
                Met::Pair(..) => Ok(()),
                Met::Alone(side, path, ()) => report.alone(side, &path),
                Met::Trouble(side, failure) => report.trouble(side, &failure),
            })
            .unwrap();
            let Found { missing, extra, differing, unreadable, .. } = report.found;
            assert_eq!(((missing, extra, differing), unreadable), (counts, 1), "closed at {closed}");
            // Who digests comes upon it again.
            let again = Failure::new(FailureKind::Permission, "list", "").at(&path("k"));
            report.trouble(closed, &again).unwrap();
            assert_eq!(report.found.unreadable, 1);
        }
    }

    #[test]
    fn a_directory_covers_what_is_in_it_and_no_name_that_begins_like_it() {
        let mut closed = Known::default();
        assert!(!closed.may_cover(&path("a")));
        closed.insert(&path("a/b"));
        let covered = ["a", "a/b", "a/b/c/d", "a/bc", "b"].map(|name| closed.may_cover(&path(name)));
        assert_eq!(covered, [false, true, true, false, false]);
        closed.insert(&RelativePath::root());
        assert!(closed.may_cover(&path("b")));
    }
}
