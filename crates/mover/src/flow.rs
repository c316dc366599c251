//! Flows: content that is still being made, as a pair of state machines without I/O.
//!
//! A *flow* is a sequence of bytes that somebody still writes: a pipe, or a file that grows. The [`sender`] takes its
//! bytes in order, as *pieces*, and keeps each until it is told that it is durable; the [`receiver`] takes pieces in
//! any order, hands them on to be written in theirs, and moves the *mark*: so many bytes are durable, with this digest.
//! Each piece is held against its digest when it comes; at every mark, and at the end, both sides hold the digest of
//! all bytes so far against each other, each computed from what it read or wrote itself.
//!
//! Guaranteed, whatever is lost, repeated, late or restarted: a mark never goes back; no byte below it is missing,
//! other than it was read, or written twice; what is kept in memory has a bound, however many flows come and go.
//!
//! A flow that failed is over. What may pass is begun again as another flow of the same file ([`crate::retry`]).
//!
//! Not decided here: when a source is complete, and what its name is at the destination (see [`crate::endpoint::feed`]
//! and [`crate::endpoint::flow_destination`]).

pub mod choice;

pub mod numbers;

pub mod sender;

pub mod receiver;

use crate::failure::{Failure, FailureKind};
use thalweg_wire::message::{FlowBegin, Outcome};
use thalweg_wire::{Digest, RelativePath};

/// Times that one piece may come damaged before the flow is given up.
pub const DAMAGED_MAX: u8 = 8;

/// A flow that is over: all that is left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// What it began with.
    pub begin: FlowBegin,
    /// Its name at the destination, if that is known and another than it began with.
    pub name: Option<RelativePath>,
    /// So many bytes of it were read; at the receiver, written.
    pub bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// BLAKE3 of no bytes: where every flow begins.
pub(crate) fn digest_of_nothing() -> Digest {
    Digest(*blake3::hash(b"").as_bytes())
}

/// Memory of what a flow is called, in bytes.
fn name_bytes(begin: &FlowBegin, name: Option<&RelativePath>) -> usize {
    begin.path.as_bytes().len() + name.map_or(0, |name| name.as_bytes().len())
}

fn protocol(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "stream", cause)
}
