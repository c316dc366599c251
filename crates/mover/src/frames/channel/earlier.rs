//! What consumers of an earlier hub know of producers that this one may not know.
//!
//! 1. A consumer that comes back says which producers it met, and of which it was told that they are over. So it does
//!    to the hub that gave it up, which forgot what it had said.
//! 2. Who is over counts among those that it waits for, though this hub never hears of them: a producer that has
//!    finished does not come back to tell it.
//! 3. Who is not over may come back. Until the consumer's patience is over it is told of no end without them; then they
//!    are gone.

use super::consumers::ConsumerKey;
use super::subscription::{Note, Subscription};
use super::{Action, Channel};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_wire::limits;
use thalweg_wire::message::{Consume, HasOf, Item, ProducerId};

/// Producers that are remembered for a consumer, or for all of a group.
const MET_MAX: usize = 4 * limits::PRODUCERS_MAX;

/// What one consumer, or a group, knows.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// They are over.
    over: BTreeSet<ProducerId>,
    /// They may come back, and what is next of each.
    absent: BTreeMap<ProducerId, u64>,
    patience: Duration,
    /// Since when they are waited for.
    since: Option<Duration>,
    /// That was long enough.
    is_done: bool,
    /// Some did not come.
    lacks: bool,
}

impl Earlier {
    /// A consumer, or another member of a group, met these that its hub does not know, and has this patience.
    pub fn met(&mut self, unknown: &[HasOf], patience_ms: u32) {
        if unknown.is_empty() {
            return;
        }
        self.patience = self.patience.max(Duration::from_millis(patience_ms.into()));
        for HasOf { producer, next, is_over } in unknown {
            let is_known = self.over.contains(producer) || self.absent.contains_key(producer);
            if !is_known && self.over.len() + self.absent.len() >= MET_MAX {
                continue;
            }
            if *is_over {
                self.absent.remove(producer);
                self.over.insert(producer.clone());
            } else if !self.over.contains(producer) && self.absent.insert(producer.clone(), *next).is_none() {
                // Those that were waited for before are over by now: for this one the wait begins.
                if std::mem::take(&mut self.is_done) {
                    self.since = None;
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.over.is_empty() && self.absent.is_empty()
    }
}

impl Channel {
    fn knows(&self, id: &ProducerId) -> bool {
        self.producers.contains_key(id) || self.retired.has(id)
    }

    /// The producers that who asks met and this hub does not know. One whose lane goes on said so when that began.
    pub(super) fn met_elsewhere(&self, key: &ConsumerKey, asks: &Consume) -> Vec<HasOf> {
        let member = self.subscriptions.get(key).and_then(|one| one.members.get(&asks.consumer));
        if member.is_some_and(|member| asks.instance == Some(member.instance)) {
            return Vec::new();
        }
        asks.has.iter().filter(|has| !self.knows(&has.producer)).cloned().collect()
    }

    /// Whether a consumer that waits for so many producers had them, where this hub knows so many. Before it knows one
    /// nobody can tell who comes back, until that was waited for.
    pub(super) fn has_enough(&self, earlier: &Earlier, known: u64, wanted: u64) -> bool {
        let over_before = || earlier.over.iter().filter(|id| !self.knows(id)).count() as u64;
        let is_settled = known > 0 || earlier.is_done;
        known >= wanted || earlier.lacks || is_settled && known + over_before() >= wanted
    }

    /// Whether a consumer waits for a producer that it met at an earlier hub.
    pub(super) fn awaits(&self, earlier: &Earlier) -> bool {
        earlier.absent.keys().any(|id| !self.knows(id))
    }

    /// Producers of an earlier hub are waited for no longer than each consumer has patience: the others hear that they
    /// are gone. `now` counts from any moment.
    pub fn give_up_earlier(&mut self, now: Duration) {
        let waits = |one: &Subscription| !one.earlier.is_done && !one.earlier.is_empty();
        let waiting = self.subscriptions.iter().filter(|(_, one)| waits(one));
        let waiting: Vec<_> = waiting.map(|(key, _)| key.clone()).collect();
        for key in waiting {
            let Some(one) = self.subscriptions.get_mut(&key) else { continue };
            let since = *one.earlier.since.get_or_insert(now);
            if now.saturating_sub(since) < one.earlier.patience {
                continue;
            }
            one.earlier.is_done = true;
            let absent = std::mem::take(&mut one.earlier.absent);
            let gone: Vec<_> = absent.into_iter().filter(|(id, _)| !self.knows(id)).collect();
            let Some(one) = self.subscriptions.get_mut(&key) else { continue };
            one.earlier.lacks |= !gone.is_empty();
            for (producer, frames) in gone {
                one.earlier.over.insert(producer.clone());
                one.tell_over(Note::made(Item::ProducerOver { producer, frames, is_gone: true }));
            }
            self.actions.push_back(Action::Wake);
        }
    }
}
