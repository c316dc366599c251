//! Flows as entries: of the receipt, and of what a pull may bring.

use crate::event::Event;
use crate::flow::Over;
use crate::run::end::End;
use std::sync::Arc;
use thalweg_wire::message::Outcome;
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

/// Has a flow that is over in the receipt.
pub(super) fn stated(end: &mut End, over: &Over) {
    end.settled(&of_over(over), &over.outcome);
}

/// What is told of a flow that is over.
pub(super) fn event(over: Over) -> Event {
    Event::Settled(Arc::new(of_over(&over)), over.outcome)
}

/// Under the name that it has at the destination, if it is whole there. Of one that failed one side may not know that
/// name.
fn of_over(over: &Over) -> Entry {
    let Over { begin, name, bytes, outcome } = over;
    let name = name.as_ref().filter(|_| matches!(outcome, Outcome::Done { .. }));
    of(begin.flow, name.unwrap_or(&begin.path), begin.mode, *bytes)
}

/// A flow as an entry.
pub(super) fn of(id: EntryId, path: &RelativePath, mode: u32, bytes: u64) -> Entry {
    Entry {
        id,
        path: path.clone(),
        kind: Kind::File { sparse: false, marked: false },
        mode,
        uid: 0,
        gid: 0,
        evidence: Evidence { size: bytes, ..Evidence::default() },
        xattrs: Vec::new(),
    }
}
