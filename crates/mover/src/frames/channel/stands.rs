//! Where consumers stand, for the hub that goes on with a recorded log.
//!
//! 1. A group, and whoever begins now, has its position noted in the log when it comes.
//! 2. The position of a group is noted again as its members take frames: everything below was taken, and reported.
//! 3. In the next hub who was there before goes on with that position. What was taken since the note comes again.
//!
//! What a consumer by itself took is not noted: it says so when it comes back. Nor is how far a group is that drops
//! frames, or that was told of damaged ones: the log still has them, and a report of a set would count them.

use super::Channel;
use super::consumers::ConsumerKey;
use super::log::{Kind, Log};
use super::subscription::Subscription;
use thalweg_wire::limits;
use thalweg_wire::message::{Consume, ConsumerAt, Item, LossReason};

/// Between two notes of a group: so much of what it took comes again after a kill of its hub.
const NOTE_EVERY_NS: u64 = 1_000_000_000;
/// Positions that such notes may take where frames have taken all of theirs.
const NOTES_MAX: usize = 32 << 10;

/// The position that a consumer began with, and the first of which something is owed to it.
pub(super) type Positions = (u64, u64);

impl ConsumerKey {
    fn at(&self, positions: Option<Positions>) -> Item {
        Item::ConsumerAt(match self {
            ConsumerKey::Single(consumer) => ConsumerAt { consumer: *consumer, group: None, positions },
            ConsumerKey::Group(group) => {
                ConsumerAt { consumer: [0; 16], group: Some(group.clone()), positions }
            }
        })
    }
}

impl From<&ConsumerAt> for ConsumerKey {
    fn from(at: &ConsumerAt) -> ConsumerKey {
        match &at.group {
            Some(group) => ConsumerKey::Group(group.clone()),
            None => ConsumerKey::Single(at.consumer),
        }
    }
}

impl Channel {
    /// The log has this of a consumer.
    pub(super) fn restore_stand(&mut self, at: &ConsumerAt) {
        match at.positions {
            Some(positions) => self.stands.insert(at.into(), positions),
            None => self.stands.remove(&at.into()),
        };
    }

    /// Where the log says that who asks stands: if it was at the hub that noted it, and not only has its name.
    pub(super) fn stand_of(&self, key: &ConsumerKey, asks: &Consume) -> Option<Positions> {
        self.stands.get(key).copied().filter(|_| self.is_of_earlier(asks))
    }

    /// Whether who asks has a lane that this hub did not number: an earlier one's, whose clock may have been ahead of
    /// ours.
    pub(super) fn is_of_earlier(&self, asks: &Consume) -> bool {
        asks.instance.is_some_and(|lane| lane <= self.serial || lane > self.instances)
    }

    /// Notes where a consumer begins, or goes on: one by itself only if what it has does not say it, or if the log has
    /// the place of another process under its name.
    pub(super) fn note_begun(&mut self, key: &ConsumerKey, begins_now: bool) {
        let is_group = matches!(key, ConsumerKey::Group(_));
        if let Some(one) = self.subscriptions.get_mut(key)
            && (is_group || begins_now || self.stands.contains_key(key))
        {
            one.is_noted = true;
            let positions = (one.begun, one.cursor);
            self.note_stand(key, Some(positions));
        }
    }

    /// A consumer leaves: another one of this name begins anew.
    pub(super) fn note_left(&mut self, key: &ConsumerKey) {
        if self.subscriptions.get(key).is_some_and(|one| one.is_noted) {
            self.note_stand(key, None);
        }
    }

    /// Notes how far all groups are, if it is time or the hub ends.
    pub(super) fn note_groups(&mut self, now_ns: Option<u64>) {
        let due = self.subscriptions.iter().filter(|(_, one)| self.is_recorded() && one.is_note_due(now_ns));
        let due: Vec<ConsumerKey> = due.map(|(key, _)| key.clone()).collect();
        due.iter().for_each(|key| self.note_group(key, now_ns));
    }

    /// The same of this one.
    pub(super) fn note_group(&mut self, key: &ConsumerKey, now_ns: Option<u64>) {
        let is_recorded = self.is_recorded();
        let one = self.subscriptions.get_mut(key).filter(|one| is_recorded && one.is_note_due(now_ns));
        let Some((one, settled)) = one.and_then(|one| one.settled().map(|settled| (one, settled))) else {
            return;
        };
        (one.noted_taken, one.noted_ns) = (one.taken, now_ns.unwrap_or(one.noted_ns));
        let positions = (one.begun, settled);
        self.note_stand(key, Some(positions));
    }

    fn note_stand(&mut self, key: &ConsumerKey, positions: Option<Positions>) {
        if self.is_recorded() && self.log.len() < limits::CHANNEL_FRAMES_MAX + NOTES_MAX {
            self.note(key.at(positions));
        }
    }

    fn is_recorded(&self) -> bool {
        self.spill.is_some_and(|spill| spill.is_recorded)
    }
}

impl Subscription {
    /// Whether it took frames that can be told by a position, and it is time to.
    fn is_note_due(&self, now_ns: Option<u64>) -> bool {
        let is_time = now_ns.is_none_or(|now_ns| now_ns.abs_diff(self.noted_ns) >= NOTE_EVERY_NS);
        let is_sound = !self.drops() && !self.lost.contains_key(&LossReason::Damaged);
        is_time && is_sound && self.group.is_some() && self.taken != self.noted_taken
    }

    /// The first position of which something is owed to it; `None` while more is on the way than frames.
    fn settled(&self) -> Option<u64> {
        let end = self.reports_end();
        let is_told = self.pending.is_empty() && !self.awaits_report();
        if !is_told || self.members.values().any(|member| member.report != end) {
            return None;
        }
        let lanes = self.members.values().flat_map(|member| member.lane.iter());
        let mut on_the_way = lanes.chain(self.returned.values()).map(|handed| handed.position());
        on_the_way.try_fold(self.cursor, |first, position| Some(first.min(position?)))
    }

    /// Goes on where it stood: what is before in the log it had, or began behind.
    pub fn go_on(&mut self, (begun, next): Positions, log: &Log) {
        (self.begun, self.cursor) = (begun, next.clamp(log.base(), log.end()));
        self.expect.clear();
        for position in log.base()..self.cursor {
            match log.get(position).map(|logged| &logged.kind) {
                Some(Kind::Frame { producer, sequence, set, .. }) => {
                    self.expect(producer, self.expected(producer).max(sequence + 1));
                    if let (Some(group), Some((set, index))) = (&mut self.group, *set)
                        && position >= begun
                    {
                        group.took(set, index);
                    }
                }
                Some(Kind::Note(Item::ProducerOver { producer, frames, .. })) => {
                    let next = self.expected(producer).max(*frames);
                    self.expect(&producer.clone().into(), next);
                }
                Some(Kind::Note(Item::SetOver(over))) => {
                    if let Some(group) = &mut self.group {
                        group.forget(over.set);
                    }
                }
                _ => {}
            }
        }
    }
}
