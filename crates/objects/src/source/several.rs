//! Several places in buckets as one source: each an object or a directory with a name of its own.

use super::ObjectSource;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use thalweg_mover::endpoint::{OPEN, Removal, ScanSink, Source, SourceFile};
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, EntryId, Evidence, RelativePath};

/// Sources that are listed ahead of the one whose entries are offered, each by as much as that one is: many small ones
/// take a round trip each otherwise.
pub(super) const SOURCES_AHEAD: usize = 2;

/// See the module. Their entries come one after the other.
pub struct ObjectSources {
    sources: Vec<ObjectSource>,
    /// So many of them have offered entries, or are about to.
    offered: AtomicUsize,
}

impl ObjectSources {
    /// These.
    ///
    /// # Errors
    /// `Usage` if one gives what is in it and no name, or two give the same. That of one which is none.
    pub fn of(sources: impl IntoIterator<Item = Result<ObjectSource>>) -> Result<ObjectSources> {
        let in_turn = |(number, source): (usize, Result<ObjectSource>)| Ok(source?.in_turn(number));
        let sources: Vec<ObjectSource> =
            sources.into_iter().enumerate().map(in_turn).collect::<Result<_>>()?;
        let has_none = sources.iter().any(|source| source.top.is_empty());
        let is_twice = |at: usize| sources[..at].iter().any(|other| other.top == sources[at].top);
        if has_none || (0..sources.len()).any(is_twice) {
            let cause = "of several places in buckets each has to give a name of its own";
            return Err(Failure::new(FailureKind::Usage, super::OPEN_SOURCE, cause));
        }
        Ok(ObjectSources { sources, offered: AtomicUsize::new(0) })
    }

    /// The one that a path is of.
    fn of_path(&self, path: &RelativePath) -> Result<&ObjectSource> {
        let top = path.as_bytes().split(|&byte| byte == b'/').next().unwrap_or_default();
        self.sources.iter().find(|source| source.top == top).ok_or_else(|| {
            Failure::new(FailureKind::NotFound, OPEN, "no source of this copy has such a name").at(path)
        })
    }
}

impl Source for ObjectSources {
    /// One that is only listed ahead ends nothing before its turn comes: the others are copied.
    fn lost(&self) -> Option<Failure> {
        let offered = self.offered.load(Ordering::Acquire);
        self.sources.iter().take(offered).find_map(|source| source.lost())
    }

    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut sink = Stoppable { sink, is_stopped: false };
        let mut totals = ScanTotals { complete: true, ..ScanTotals::default() };
        thread::scope(|scope| {
            let (mut rest, mut begun) = ((1..).zip(&self.sources), VecDeque::new());
            loop {
                let room = SOURCES_AHEAD + 1 - begun.len();
                let next = rest.by_ref().take(room);
                begun.extend(next.map(|(number, source)| (number, source, source.begin(scope))));
                let Some((number, source, ahead)) = begun.pop_front() else { return };
                if sink.is_stopped {
                    totals.complete = false;
                    return;
                }
                self.offered.fetch_max(number, Ordering::AcqRel);
                let more = source.scan_begun(ahead, &mut sink);
                totals.entries += more.entries;
                totals.bytes = totals.bytes.saturating_add(more.bytes);
                totals.failed += more.failed;
                totals.complete &= more.complete;
                totals.empty += more.empty;
            }
        });
        totals
    }

    fn expect_reads(&self, are_likely: bool) {
        self.sources.iter().for_each(|source| source.expect_reads(are_likely));
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        self.of_path(&entry.path)?.open(entry)
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        self.of_path(&entry.path)?.look_again(entry)
    }

    fn remove(&self, path: &RelativePath, seen: &Evidence, is_end: bool) -> Result<Removal> {
        self.of_path(path)?.remove(path, seen, is_end)
    }

    fn read_small(&self, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
        self.of_path(&entry.path)?.read_small(entry, buffer)
    }
}

/// Knows that nothing more is wanted.
struct Stoppable<'a> {
    sink: &'a mut dyn ScanSink,
    is_stopped: bool,
}

impl ScanSink for Stoppable<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        let taken = self.sink.entry(entry);
        self.is_stopped |= taken.is_none();
        taken
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.sink.trouble(path, failure);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        self.sink.skipped(path, reason);
    }
}
