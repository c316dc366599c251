//! Flows as entries: of the receipt, and of what a pull may bring.

use crate::event::{Event, Events};
use crate::flow::Over;
use crate::run::end::End;
use std::sync::Arc;
use thalweg_wire::message::Outcome;
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

/// Has a flow that is over in the receipt, and tells of it.
pub(super) fn settled(end: &mut End, events: &Events, over: Over) {
    let Over { begin, name, bytes, outcome } = over;
    // Under the name that it has at the destination, if it is whole there. Of one that failed one side may not know that
    // name.
    let name = name.filter(|_| matches!(outcome, Outcome::Done { .. }));
    let entry = of(begin.flow, name.as_ref().unwrap_or(&begin.path), begin.mode, bytes);
    end.settled(&entry, &outcome);
    events(Event::Settled(Arc::new(entry), outcome));
}

/// Tells of a flow that is over and of which no receipt knows: who sends now never began it.
pub(super) fn forgotten(events: &Events, over: Over) {
    let Over { begin, bytes, outcome, .. } = over;
    events(Event::Settled(Arc::new(of(begin.flow, &begin.path, begin.mode, bytes)), outcome));
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
