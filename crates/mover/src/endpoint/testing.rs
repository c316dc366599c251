//! `null:` for tests: with steps that end when a test lets them, or that panic.

use super::synthetic::NullDestination;
use super::together::Together;
use super::{
    Conclusion, Decision, Destination, Listing, PartialFile, Reading, Ready, ScanSink, Small, Source,
    SourceFile, Staged,
};
use crate::failure::{Failure, FailureKind, Result};
use std::sync::Arc;
use thalweg_wire::message::{Loss, Outcome, ScanTotals};
use thalweg_wire::{Digest, Entry, EntryId};

/// What comes before a step of a destination, in the thread that takes it. Nothing, where a test says nothing.
pub trait Hold: Send + Sync {
    /// Before [`Destination::decide`].
    fn decide(&self, _reading: Reading<'_>) {}

    /// After [`Destination::decide`]: what is decided in place of that.
    fn decided(&self, _entry: &Entry, decision: Decision) -> Decision {
        decision
    }

    /// Before [`Destination::begin`].
    fn begin(&self) {}

    /// Before [`Destination::existing`].
    fn existing(&self) {}

    /// Before [`Destination::taken`].
    fn taken(&self, _lane: u32, _number: u64) {}

    /// As [`Destination::may_be_named_early`].
    fn may_be_named_early(&self) -> bool {
        false
    }

    /// Before [`Destination::discard`].
    fn discard(&self, _ready: &Ready) {}

    /// Before [`Destination::sync`].
    fn sync(&self) {}

    /// Before [`Destination::finish`].
    fn finish(&self) {}

    /// As [`Destination::streams`].
    fn streams(&self) -> u16 {
        1
    }

    /// Before [`Destination::gone`].
    fn gone(&self, _id: EntryId) {}

    /// Before [`Destination::conclude`].
    fn conclude(&self) {}

    /// Before [`Destination::close`].
    fn close(&self) {}
}

/// A defect: what panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panics {
    /// [`Source::scan`].
    Scan,
    /// [`Destination::decide`].
    Decide,
    /// [`Destination::sync`].
    Sync,
    /// [`Destination::finish`].
    Finish,
    /// [`Destination::conclude`].
    Conclude,
}

impl Panics {
    /// Before a step.
    fn at(self, step: Panics) {
        assert_ne!(self, step, "as a test wants it");
    }
}

impl Hold for Panics {
    fn decide(&self, _: Reading<'_>) {
        self.at(Panics::Decide);
    }

    fn sync(&self) {
        self.at(Panics::Sync);
    }

    fn finish(&self) {
        self.at(Panics::Finish);
    }

    fn conclude(&self) {
        self.at(Panics::Conclude);
    }
}

/// Has nothing, and panics if it is to scan.
impl Source for Panics {
    fn scan(&self, _: &mut dyn ScanSink) -> ScanTotals {
        self.at(Panics::Scan);
        ScanTotals { complete: true, ..ScanTotals::default() }
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        Err(Failure::new(FailureKind::NotFound, "open", "there is none").at(&entry.path))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        Err(Failure::new(FailureKind::NotFound, "look", "there is none").at(&entry.path))
    }
}

/// See the module.
#[derive(Default)]
pub struct HeldUp<H> {
    /// What holds it up.
    pub hold: H,
    null: NullDestination,
}

impl<H: Hold> HeldUp<H> {
    /// Held up by this.
    pub fn new(hold: H) -> Self {
        HeldUp { hold, null: NullDestination::default() }
    }
}

impl<H: Hold> Destination for HeldUp<H> {
    fn decide(&self, entry: &Entry, reading: Reading<'_>) -> Decision {
        self.hold.decide(reading);
        self.hold.decided(entry, self.null.decide(entry, reading))
    }

    fn link(&self, entry: &Entry) -> Decision {
        self.null.link(entry)
    }

    fn begin(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>> {
        self.hold.begin();
        self.null.begin(entry)
    }

    fn existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        self.hold.existing();
        self.null.existing(entry)
    }

    fn keep(&self, entry: &Entry, digest: Digest) -> Decision {
        self.null.keep(entry, digest)
    }

    fn stage(&self, lane: u32, files: &[Small<'_>], together: &mut Together) -> Vec<Result<Staged>> {
        self.null.stage(lane, files, together)
    }

    fn taken(&self, lane: u32, number: u64) {
        self.hold.taken(lane, number);
        self.null.taken(lane, number);
    }

    fn may_be_named_early(&self, _: &Staged) -> bool {
        self.hold.may_be_named_early()
    }

    fn sync(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        self.hold.sync();
        self.null.sync(partials)
    }

    fn read_staged_back(&self, staged: &Staged, bytes: u64) -> Result<Digest> {
        self.null.read_staged_back(staged, bytes)
    }

    fn record(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        self.null.record(chunks)
    }

    fn finish(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        self.hold.finish();
        self.null.finish(entry, ready, digest)
    }

    fn streams(&self) -> u16 {
        self.hold.streams()
    }

    fn discard(&self, ready: Ready) {
        self.hold.discard(&ready);
        self.null.discard(ready);
    }

    fn settled(&self, entry: &Entry, outcome: &Outcome) {
        self.null.settled(entry, outcome);
    }

    fn gone(&self, id: EntryId) {
        self.hold.gone(id);
        self.null.gone(id);
    }

    fn conclude(&self, listing: Listing, goes_on: &dyn Fn() -> bool) -> Conclusion {
        self.hold.conclude();
        self.null.conclude(listing, goes_on)
    }

    fn close(&self, success: bool) {
        self.hold.close();
        self.null.close(success);
    }
}
