//! Every observable event of a transfer, once. Log, report, progress and `--json` derive from it.

use crate::admission::SlotHeld;
use crate::plan::Plan;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::account::RoomAccount;
use thalweg_wire::message::{Failure, Outcome, ScanTotals, Totals};
use thalweg_wire::{Entry, RelativePath};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// An entry came to its end.
    Settled(Arc<Entry>, Outcome),
    /// A name that was never offered came to its end.
    Aside(RelativePath, Outcome),
    /// A name that the source lacks was removed at the destination, or would be in a dry run.
    Deleted(RelativePath),
    /// A name of the source, which the destination has, was removed, or would be in a dry run.
    SourceRemoved(RelativePath),
    /// A name of the source was to be removed, and stays: why.
    SourceKept(Failure),
    /// The whole source was listed.
    ScanEnded(ScanTotals),
    /// Chunks or small files came damaged and are sent again.
    Repaired(u64),
    /// The link is gone, and why; the transfer tries to get it back.
    LinkLost(Failure),
    /// The link stands again after so long.
    LinkUp(Duration),
    /// One stream of several broke and is replaced.
    StreamLost(u16, Failure),
    /// A file of a stream goes on behind so many bytes, which the destination has by now: at the beginning, and after
    /// each outage. 0: from its beginning.
    Stands(RelativePath, u64),
    /// A file of a stream failed, and is tried again after so long. Told once for each class of failure, until it has
    /// come right.
    TriedAgain(Failure, Duration),
    /// What a transfer goes by, before its first byte. Of a copy: once the far side, if there is one, has opened the
    /// place.
    Planned(Box<Plan>),
    /// A knob was turned while the transfer runs, and why.
    Knob(String),
    /// When a stream may send, and what is promised by that; again when it changes.
    Slot(Box<SlotHeld>),
    /// More is to come than the destination had room for when the transfer began; if `is_all`, there is no more of it.
    /// Told once.
    LacksRoom {
        /// The room, and what is to come into it.
        room: RoomAccount,
        /// Whether all of that is known.
        is_all: bool,
    },
    /// The transfer is over.
    Finished(Totals),
    /// Something that a person may want to know.
    Note(String),
    /// Something for a person who wants to know more.
    Detail(String),
}

/// Takes events, from any thread. Must not block for long: it is called where the work is done.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// Whether who hears events has more of them by now than it can hand on: what is not begun yet waits meanwhile. Asked
/// often, from any thread, where the work is done: answers at once.
pub type Behind = Arc<dyn Fn() -> bool + Send + Sync>;

/// Throws events away.
pub fn nobody() -> Events {
    Arc::new(|_| {})
}
