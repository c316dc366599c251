//! What is to be done and said, in order, and what was told.

use super::{Action, SETTLED_MAX};
use std::collections::{BTreeMap, VecDeque};
use thalweg_wire::message::{AckLevel, Outcome, Run, TransferMessage as Say, Want, first_batch};
use thalweg_wire::{EntryId, limits};

/// What is to be done and said.
#[derive(Default)]
pub(super) struct Outbox {
    pub actions: VecDeque<Action>,
    // Told together, in one message each, after those.
    pub wants: Vec<(EntryId, Want)>,
    pub settled: Vec<(EntryId, Outcome)>,
    acks: Vec<(EntryId, Run)>,
}

impl Outbox {
    /// Next action, in order. Short messages that came together go out together.
    pub(super) fn take(&mut self) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let max = limits::MESSAGE_ITEMS_MAX / 2;
        let batch = |items: usize| items.min(max);
        if !self.wants.is_empty() {
            let n = batch(self.wants.len());
            return Some(Action::Say(Say::Want(self.wants.drain(..n).collect())));
        }
        if !self.acks.is_empty() {
            let n = batch(self.acks.len());
            return Some(Action::Say(Say::Ack(AckLevel::Verified, self.acks.drain(..n).collect())));
        }
        if !self.settled.is_empty() {
            return Some(Action::Say(self.first_settled()));
        }
        None
    }

    /// Whether the next action is to say something.
    pub(super) fn has_to_say(&self) -> bool {
        matches!(self.actions.front(), Some(Action::Say(_)))
    }

    /// Nothing that was to be said is said.
    pub(super) fn unsay(&mut self) {
        self.actions.retain(|action| !matches!(action, Action::Say(_)));
    }

    /// Nor what was collected to be told together.
    pub(super) fn forget_collected(&mut self) {
        self.wants.clear();
        self.acks.clear();
        self.settled.clear();
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn say(&mut self, say: Say) {
        self.act(Action::Say(say));
    }

    /// This chunk is verified; 0 for a small file.
    pub(super) fn ack(&mut self, id: EntryId, chunk: u64) {
        self.acks.push((id, Run { first: chunk, count: 1 }));
    }

    /// Says what was collected so far, where something must not overtake it.
    pub(super) fn say_acks(&mut self) {
        while !self.acks.is_empty() {
            let n = self.acks.len().min(limits::MESSAGE_ITEMS_MAX / 2);
            let batch = self.acks.drain(..n).collect();
            self.say(Say::Ack(AckLevel::Verified, batch));
        }
    }

    /// The same of outcomes.
    pub(super) fn say_settled(&mut self) {
        while !self.settled.is_empty() {
            let batch = self.first_settled();
            self.say(batch);
        }
    }

    /// The first outcomes, as many as go in one message: each may carry texts.
    fn first_settled(&mut self) -> Say {
        let bytes_of = |(_, outcome): &(EntryId, Outcome)| SETTLED_BYTES + outcome.heap_bytes();
        let count = first_batch(&self.settled, SETTLED_MAX, bytes_of);
        Say::Settled(self.settled.drain(..count).collect())
    }
}

/// Memory of an outcome that is told, beside its texts.
const SETTLED_BYTES: usize = size_of::<(EntryId, Outcome)>();

/// Memory of an outcome that was told, beside its texts.
const TOLD_BYTES: usize = 2 * size_of::<(EntryId, Outcome, u64)>();

/// Outcomes told that the sender may not have heard.
#[derive(Default)]
pub(super) struct Told {
    /// With the content bytes that each of them is about.
    pub outcomes: BTreeMap<EntryId, (Outcome, u64)>,
    /// Memory of those.
    pub bytes: usize,
}

impl Told {
    /// It was told, and is kept until the sender has heard it.
    pub(super) fn remember(&mut self, id: EntryId, outcome: Outcome, bytes: u64) {
        self.forget(id);
        self.bytes += TOLD_BYTES + outcome.heap_bytes();
        self.outcomes.insert(id, (outcome, bytes));
    }

    /// What was told of it, which is kept no more.
    pub(super) fn forget(&mut self, id: EntryId) -> Option<(Outcome, u64)> {
        let told = self.outcomes.remove(&id)?;
        self.bytes -= TOLD_BYTES + told.0.heap_bytes();
        Some(told)
    }
}
