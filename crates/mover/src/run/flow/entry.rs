//! Flows as entries: of the receipt, and of what a pull may bring.

use crate::event::{Event, Events};
use crate::run::end::End;
use std::sync::Arc;
use thalweg_wire::message::{FlowBegin, Outcome};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

/// What a machine knows of a flow that is over: how it began, its name at the destination if that is known, its bytes.
pub(super) type Over<'a> = (&'a FlowBegin, Option<&'a RelativePath>, u64);

/// Has a flow that is over in the receipt, and tells of it.
pub(super) fn settled(
    end: &mut End,
    events: &Events,
    flow: EntryId,
    over: Option<Over<'_>>,
    outcome: Outcome,
) {
    let Some((begin, name, bytes)) = over else { return };
    // Under the name that it has at the destination, if it is whole there. Of one that failed one side may not know that
    // name.
    let name = name.filter(|_| matches!(outcome, Outcome::Done { .. }));
    let entry = of(flow, name.unwrap_or(&begin.path), begin.mode, bytes);
    end.settled(&entry, &outcome);
    events(Event::Settled(Arc::new(entry), outcome));
}

/// Tells of a flow that is over and of which no receipt knows: who sends now never began it.
pub(super) fn forgotten(events: &Events, flow: EntryId, over: Option<Over<'_>>, outcome: Outcome) {
    let Some((begin, _, bytes)) = over else { return };
    events(Event::Settled(Arc::new(of(flow, &begin.path, begin.mode, bytes)), outcome));
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
