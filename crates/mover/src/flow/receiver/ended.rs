//! Flows that are over, as far as their sender may ask about them again.
//!
//! What is over is not kept. Of a flow that ended its sender may not have heard, if the link broke: then it begins it
//! again, and is told again. The outcomes that were said last are enough for that, [`TOLD_KEPT_MAX`] of them. Words of
//! one link come in order: when one was heard, all before it were. So the words that a break took are of flows that are
//! under way for the sender, at most [`FLOWS_MAX`](limits::FLOWS_MAX). Over the next link it begins all of those again
//! before anything that is new, in the order of their numbers. Until one of them has begun, nothing ends but others of
//! them, and what was under way here, at most as many. Of flows that ended before that only the numbers are kept, as
//! ranges: they have as many gaps as flows are under way. Names aside may be more; each says itself how it ended.

use super::Slot;
use crate::failure::{Failure, Result};
use crate::flow::numbers::FlowNumbers;
use crate::flow::{Over, name_bytes, protocol};
use crate::retry;
use std::collections::BTreeMap;
use thalweg_wire::message::{FlowBegin, Origin, Outcome};
use thalweg_wire::{EntryId, RelativePath, limits};

/// Outcomes that are kept, because their sender may not have heard of them.
pub const TOLD_KEPT_MAX: usize = 2 * limits::FLOWS_MAX;
/// Ranges of numbers of flows that are over: a correct sender has no more gaps, with the complete flows that it asks
/// about again.
pub(crate) const ENDED_RANGES_MAX: usize = limits::FLOWS_DONE_KEPT_MAX + 4 * limits::FLOWS_MAX;

/// How a flow ended.
pub struct KeptOutcome {
    slot: Slot,
    over: Over,
    /// When that was said last, in the order of such words.
    order: u64,
}

/// Memory of what is kept of a flow that is over, in bytes; about.
fn bytes_of(over: &Over) -> usize {
    2 * size_of::<KeptOutcome>() + name_bytes(&over.begin, over.name.as_ref()) + over.outcome.heap_bytes()
}

/// See the module.
#[derive(Default)]
pub struct Ended {
    /// Numbers of all, by the sender that stands now.
    pub(super) numbers: FlowNumbers,
    /// The latest of those.
    pub(super) told: BTreeMap<EntryId, KeptOutcome>,
    /// The same, in the order in which that was said.
    pub(super) told_order: BTreeMap<u64, EntryId>,
    next_told: u64,
    /// Flows of another sender that failed for good, and that the one that stands now has not begun.
    failed_before: BTreeMap<(RelativePath, Origin), (Slot, Over)>,
    /// Of all that is kept here.
    held_bytes: usize,
}

impl Ended {
    /// Whether a flow of the sender that stands now is over.
    pub fn has(&self, flow: EntryId) -> bool {
        self.numbers.has(flow)
    }

    /// Whether there are more gaps between their numbers than a correct sender leaves.
    pub fn is_full(&self) -> bool {
        self.numbers.ranges() >= ENDED_RANGES_MAX
    }

    /// How a flow of the sender that stands now ended, in case that its word is lost with the link.
    pub fn remember(&mut self, slot: Slot, over: Over) {
        let flow = over.begin.flow;
        self.numbers.add(flow);
        let order = self.next_told;
        self.next_told += 1;
        self.forget(flow);
        self.held_bytes += bytes_of(&over);
        self.told.insert(flow, KeptOutcome { slot, over, order });
        self.told_order.insert(order, flow);
        if self.told_order.len() > TOLD_KEPT_MAX
            && let Some((_, first)) = self.told_order.pop_first()
        {
            self.forget(first);
        }
    }

    /// What was told of it, which is kept no more.
    fn forget(&mut self, flow: EntryId) -> Option<KeptOutcome> {
        let told = self.told.remove(&flow)?;
        self.told_order.remove(&told.order);
        self.held_bytes -= bytes_of(&told.over);
        Some(told)
    }

    /// Memory of what is remembered, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// How a flow ended that its sender begins again, if that is remembered: it did not hear of it.
    ///
    /// # Errors
    /// `Protocol` if it begins as another.
    pub fn again(&mut self, begin: &FlowBegin) -> Result<Option<Outcome>> {
        let Some(KeptOutcome { slot, over, .. }) = self.forget(begin.flow) else { return Ok(None) };
        if over.begin != *begin {
            return Err(protocol("a flow began again as another"));
        }
        let outcome = over.outcome.clone();
        self.remember(slot, over);
        Ok(Some(outcome))
    }

    /// A flow that the sender that stands now begins, and that failed for good with another: it is over for this one
    /// too.
    pub fn failed_again(&mut self, begin: &FlowBegin) -> Option<(Slot, Over)> {
        // What it began itself under another number is over for it: the file has grown since, and goes on anew.
        let (slot, mut over) = self.failed_before.remove(&(begin.path.clone(), begin.origin))?;
        self.held_bytes -= bytes_of(&over);
        over.begin = begin.clone();
        self.remember(slot, over.clone());
        Some((slot, over))
    }

    /// Another sender speaks from now on, with numbers of its own.
    pub fn rebind(&mut self) {
        self.numbers = FlowNumbers::default();
        self.told_order.clear();
        for KeptOutcome { slot, over, .. } in std::mem::take(&mut self.told).into_values() {
            self.held_bytes -= bytes_of(&over);
            self.keep_failed(slot, over);
        }
    }

    /// Another sender hears of what failed, if it begins it. What may have passed by then, and what is beyond the
    /// bound, it tries again.
    pub fn keep_failed(&mut self, slot: Slot, over: Over) {
        let is_for_good = |failure: &Failure| !retry::may_pass(&over.begin.origin, failure.kind);
        if matches!(&over.outcome, Outcome::Failed(failure) if is_for_good(failure))
            && self.failed_before.len() < TOLD_KEPT_MAX
        {
            self.held_bytes += bytes_of(&over);
            let older = self.failed_before.insert((over.begin.path.clone(), over.begin.origin), (slot, over));
            self.held_bytes -= older.map_or(0, |(_, older)| bytes_of(&older));
        }
    }
}
