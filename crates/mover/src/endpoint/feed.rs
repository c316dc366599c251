//! What is still being made, as a source: pipes, files that grow, directories in which they do.
//!
//! A feed runs on a thread of its own and hands bytes to a [`Taker`] in order. It decides what is a flow, and when one
//! is complete; where it goes on after an outage the taker says.

use crate::failure::{Failure, Result};
use crate::retry::{Again, Rule};
use std::time::Duration;
use thalweg_wire::message::{FlowLeft, FlowMark, Origin};
use thalweg_wire::{Digest, EntryId, RelativePath};

// One pipe.
pub mod pipe;

// Files that somebody else writes.
pub mod files;

// From words to one of these.
pub mod open;

mod file;

/// What became of bytes that were handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// They are kept until they are durable at the destination.
    Taken,
    /// The flow does not go on there: ask for the position, or for what is wanted.
    Elsewhere,
    /// The transfer is over.
    Over,
}

/// What a taker wants of a feed.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Read the flow up to there, compare, and go on behind it; say so by [`Taker::rewound`].
    Rewind {
        /// How far, and with which digest.
        at: FlowMark,
        /// What the destination has is of an earlier attempt at this flow.
        is_ours: bool,
        /// That attempt said that it is all.
        is_over: bool,
    },
    /// The flow goes on from now: its position is known again.
    GoesOn {
        /// Which one.
        flow: EntryId,
    },
    /// The flow is over.
    LetGo {
        /// Which one.
        flow: EntryId,
        /// `None`: the destination has all of it.
        failure: Option<Failure>,
    },
}

/// Takes flows from a feed.
pub trait Taker: Send + Sync {
    /// What earlier attempts began at the destination and did not complete, and how many there are besides; `None`: the
    /// destination has not said it yet. Waits for it at most so long.
    fn left(&self, at_most: Duration) -> Option<(Vec<FlowLeft>, u64)>;
    /// A flow begins, of this origin; whether that is certain says [`FlowBegin`](thalweg_wire::message::FlowBegin).
    ///
    /// # Errors
    /// If there are too many.
    fn begin(&self, path: RelativePath, origin: (Origin, bool), mode: u32) -> Result<EntryId>;
    /// Whether another flow may begin: not while too many lines of the receipt wait for flows that are not over. Ask
    /// again when one of those is.
    fn has_room(&self) -> bool;
    /// Where a flow goes on; `None`: not now.
    fn position(&self, flow: EntryId) -> Option<u64>;
    /// BLAKE3 of what was handed on of a flow so far.
    fn digest(&self, flow: EntryId) -> Option<Digest>;
    /// The next bytes, which begin at `offset`. Waits while there is no room or no link.
    fn push(&self, flow: EntryId, offset: u64, bytes: &[u8]) -> Pushed;
    /// The flow has no more bytes: also without a link.
    fn end(&self, flow: EntryId);
    /// The flow cannot go on.
    fn give_up(&self, flow: EntryId, failure: Failure);
    /// No other flow will begin.
    fn last(&self);
    /// What is wanted now; waits for it at most so long.
    fn wanted(&self, at_most: Duration) -> Vec<Wanted>;
    /// A flow was read up to where [`Wanted::Rewind`] has it, by this hasher; or cannot be.
    fn rewound(&self, at: &FlowMark, result: Result<blake3::Hasher>);
    /// A flow that was let go with a failure is begun again after a pause, as another flow; or not. Without this word
    /// it is told as failed when all is over.
    fn begins_again(&self, flow: EntryId, again: Option<Again>);
    /// This was to be a flow, or to have some in it, and could not be read: it is not at the destination.
    fn missed(&self, path: RelativePath, failure: Failure);
    /// Something that a person may want to know.
    fn note(&self, text: String);
    /// It cannot go on at all.
    fn failed(&self, failure: Failure);
    /// Whether nothing more is to be read.
    fn is_over(&self) -> bool;
}

/// Makes flows of something.
pub trait Feed: Send {
    /// Which flows that fail it begins again.
    fn rule(&self) -> Rule {
        Rule::Never
    }

    /// Whether it reads a pipe: what is asked of files does nothing there.
    fn is_pipe(&self) -> bool {
        false
    }

    /// It begins none again: the destination takes nothing a second time.
    fn begins_nothing_again(&mut self) {}

    /// Until all flows are complete, or the transfer is over.
    fn run(self: Box<Self>, taker: &dyn Taker);
}
