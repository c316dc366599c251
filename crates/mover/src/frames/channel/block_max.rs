//! A bound on how long a consumer with `block` may hold producers up and take nothing.
//!
//! Beyond it the consumer is passed over: what it was not handed goes as with `drop-oldest`, when there has to be room,
//! and is named to it. Its producers are told whom. As soon as it takes something it blocks as before.
//!
//! One that is away takes nothing either. One to which parts of a large frame leave is at work, for [`AT_WORK`] times
//! as long: it says that it took it when it has all of it, and one with a name, when that is put away. One that comes
//! and goes has the same parts sent again and again.
//!
//! Not bounded: a consumer that is slow, and takes something now and then; one with `spill`, whose log is slow; that
//! the log has not written yet what could go then; and that nobody is there.

use super::subscription::Subscription;
use super::{Action, Channel, cost_of};
use std::time::Duration;
use thalweg_wire::message::{FramePolicy, FramesMessage};

/// So many times the bound has a consumer to which parts leave.
const AT_WORK: u32 = 10;

impl Channel {
    /// Who blocks and takes nothing holds producers up for so long at most, from now on; `None`: for as long as it is
    /// there.
    pub fn set_block_max(&mut self, most: Option<Duration>) {
        self.block_max = most;
    }

    /// From time to time, by a clock that no jump moves: passes over who has held producers up for too long. Their
    /// names.
    pub fn bound_block(&mut self, now: Duration, now_ns: u64) -> Vec<String> {
        let Some(most) = self.block_max else { return Vec::new() };
        let next = self.next_waiting().and_then(|id| self.producers.get(&id)?.lane.peek().map(cost_of));
        let first_to_go = next.and_then(|cost| self.first_to_go(cost));
        let mut names = Vec::new();
        for one in self.subscriptions.values_mut() {
            let holds = one.blocks() && first_to_go.is_some_and(|position| one.cursor <= position);
            if one.holds_too_long(holds, now, most) {
                names.push(one.name.clone());
            }
        }
        if names.is_empty() {
            return names;
        }
        let producers: Vec<u64> = self.producers.values().filter_map(|known| known.attachment).collect();
        for consumer in &names {
            let tell = |to: &u64| Action::Tell(*to, FramesMessage::PassedOver { consumer: consumer.clone() });
            self.actions.extend(producers.iter().map(tell));
        }
        self.admit(now_ns);
        names
    }
}

impl Subscription {
    /// Whether producers wait for it.
    pub fn blocks(&self) -> bool {
        self.policy == FramePolicy::Block && !self.is_passed_over
    }

    /// It took something.
    pub fn is_at_work(&mut self) {
        (self.is_passed_over, self.held_since, self.untaken_since) = (false, None, None);
    }

    /// A part of what goes to it left.
    pub fn advances(&mut self) {
        self.held_since = None;
    }

    /// Whether it has held producers up for longer than this: then it is passed over from now on.
    fn holds_too_long(&mut self, holds: bool, now: Duration, most: Duration) -> bool {
        if !holds {
            (self.held_since, self.untaken_since) = (None, None);
            return false;
        }
        let (since, untaken) = (*self.held_since.get_or_insert(now), *self.untaken_since.get_or_insert(now));
        let all = most.saturating_mul(AT_WORK);
        self.is_passed_over = now.saturating_sub(since) > most || now.saturating_sub(untaken) > all;
        self.is_passed_over
    }
}
