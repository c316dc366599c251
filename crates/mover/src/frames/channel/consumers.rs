//! Consumers of a channel: who they are, and what is handed to them next.

use super::log::HeldFrame;
use super::producers::{KnownProducer, Over};
use super::retired::Retired;
use super::subscription::{Handed, Member, Note, Subscription};
use super::{Channel, next};
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::frames::lane::{Window, cost_of};
use crate::frames::spill::Location;
use crate::frames::{JOIN, OPEN_CHANNEL, TAKE_NAME, not_said_by};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_wire::hex::hex;
use thalweg_wire::limits;
use thalweg_wire::message::{
    Consume, FrameFrom, FramePolicy, FramesMessage, HasOf, Item, LossReason, LostRange, ProducerId,
};

/// What tells one consumer, or one group, from the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsumerKey {
    /// One that is handed everything.
    Single([u8; 16]),
    /// All that share.
    Group(String),
}

impl ConsumerKey {
    /// Of who asks.
    pub fn of(consume: &Consume) -> ConsumerKey {
        match &consume.group {
            Some(group) => ConsumerKey::Group(group.clone()),
            None => ConsumerKey::Single(consume.consumer),
        }
    }
}

/// What a consumer is told when it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscribed {
    /// Number of its lane: another one than before means that the lane begins anew.
    pub instance: u64,
}

/// What a stream shall do for a consumer.
#[derive(Debug)]
pub enum Work {
    /// Send this item.
    Send {
        /// Its number.
        number: u64,
        /// The epoch that the consumer stands in.
        epoch: u16,
        /// What it is.
        what: What,
    },
    /// Read this record, then tell [`Channel::loaded`].
    Read {
        /// Number of the item.
        number: u64,
        /// Where it is.
        at: Location,
        /// The position it was written for.
        position: u64,
    },
}

/// An item to be sent.
#[derive(Debug, Clone)]
pub enum What {
    /// Without a payload.
    Note(Item),
    /// A frame.
    Frame(Arc<HeldFrame>),
}

impl Channel {
    /// A consumer joins, or comes back, by this attachment.
    ///
    /// # Errors
    /// `Busy` if it is connected already or there are too many; `Conflict` for another policy than that of its group,
    /// or if it comes back and another process has its name meanwhile; `Unsupported` for a policy that needs a spill
    /// log where there is none.
    pub fn subscribe(&mut self, attachment: u64, consume: &Consume, window: Window) -> Result<Subscribed> {
        let refuse = |kind, cause: &str| Err(Failure::new(kind, OPEN_CHANNEL, cause));
        if consume.policy == FramePolicy::Spill && self.spill.is_none() {
            return refuse(FailureKind::Unsupported, "the channel has no spill log");
        }
        let key = ConsumerKey::of(consume);
        let members: usize = self.subscriptions.values().map(|one| one.members.len()).sum();
        // The now of one that was here before is long over: it is owed all that came since.
        let was_here = consume.instance.is_some() || !consume.has.is_empty();
        let begins_now = consume.from == FrameFrom::Now && !was_here;
        let stand = self.stand_of(&key, consume);
        let unknown = self.met_elsewhere(&key, consume);
        let cursor = if begins_now { self.log.end() } else { self.log.base() };
        let is_new = !self.subscriptions.contains_key(&key);
        let name = match &consume.group {
            Some(group) => group.clone(),
            None => consume.name.clone().unwrap_or_else(|| hex(&consume.consumer[..6])),
        };
        let one = self.subscriptions.entry(key.clone()).or_insert_with(|| {
            let is_group = consume.group.is_some();
            let one = Subscription::new(name, is_group, consume.policy, consume.from, cursor);
            Subscription { retired_before: self.retired.count(), ..one }
        });
        if one.policy != consume.policy {
            return refuse(FailureKind::Conflict, "its group, or it itself before, has another policy");
        }
        one.producers = consume.producers.max(1);
        if is_new {
            one.begins_now = begins_now;
            one.is_told_of_retired = begins_now;
            if begins_now {
                self.producers.values().for_each(|known| one.expect(&known.id, known.next));
            }
        }
        // Others of its group that are new may have begun behind it.
        let goes_on = stand.filter(|(_, next)| is_new || *next < one.cursor);
        if let Some(positions) = goes_on {
            one.go_on(positions, &self.log);
        }
        // What a member of a group has the others have not, and the other way round.
        if is_new && consume.group.is_none() {
            for HasOf { producer, next, .. } in &consume.has {
                let next = one.expect.get(producer).map_or(*next, |expected| *next.max(expected));
                one.expect(&Arc::new(producer.clone()), next);
            }
        }
        one.earlier.met(&unknown, consume.patience_ms);
        if !one.members.contains_key(&consume.consumer) && members >= limits::CONSUMERS_MAX {
            if one.members.is_empty() {
                self.subscriptions.remove(&key);
            }
            let cause = format!("it has {} consumers, as many as it may have", limits::CONSUMERS_MAX);
            return Err(Failure::new(FailureKind::Busy, JOIN, cause).because(Reason::ChannelCrowded));
        }
        let instance = join(one, &mut self.instances, attachment, consume, window)?;
        if is_new || goes_on.is_some() {
            self.note_begun(&key, begins_now);
        }
        // Those who are new in a group leave it to those who come back.
        if stand.is_some() || consume.group.is_none() {
            self.stands.remove(&key);
        }
        self.tell_had(attachment, &key, &consume.consumer);
        Ok(Subscribed { instance })
    }

    /// A consumer that goes on behind another process under its name is told so, and what that took of sets that are
    /// not over; on each link, for what was said to one that broke may not have been heard.
    fn tell_had(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        let Some(one) = self.subscriptions.get(key) else { return };
        if !one.members.get(who).is_some_and(|member| member.goes_on) {
            return;
        }
        let had = one.had.iter().flat_map(|(set, open)| {
            let ranges = open.bits.ranges();
            let pieces: Vec<Vec<_>> = ranges.chunks(limits::SET_RANGES_MAX).map(<[_]>::to_vec).collect();
            pieces.into_iter().map(move |taken| FramesMessage::SetHad { set, taken })
        });
        let told = std::iter::once(FramesMessage::GoesOn).chain(had);
        self.actions.extend(told.map(|message| super::Action::Tell(attachment, message)));
    }

    /// This consumer has a smaller window than it asked for: it is told, so that it says often enough what it took.
    pub fn tell_window(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        let Some(member) = self.member(attachment, key, who) else { return };
        member.is_narrow = true;
        let bytes = member.lane.window().bytes;
        self.actions.push_back(super::Action::Tell(attachment, FramesMessage::WindowIs { bytes }));
    }

    /// A consumer said something.
    ///
    /// # Errors
    /// `Protocol`, `Damage`.
    pub fn hear_consumer(
        &mut self,
        attachment: u64,
        key: &ConsumerKey,
        who: &[u8; 16],
        message: FramesMessage,
        now_ns: u64,
    ) -> Result<()> {
        let Some(one) = self.subscriptions.get_mut(key) else { return Ok(()) };
        let Some(member) = one.members.get_mut(who).filter(|member| member.attachment == Some(attachment))
        else {
            return Ok(());
        };
        match message {
            FramesMessage::Stand { epoch, next } => member.lane.stand(epoch, next)?,
            FramesMessage::Again { number } => member.lane.damaged(number)?,
            FramesMessage::Taken { next } => {
                let taken = member.lane.taken(next)?;
                if !taken.is_empty() {
                    one.is_at_work();
                }
                for handed in taken {
                    match handed {
                        Handed::Frame(_, held) => {
                            one.took(&held);
                            let since = held.head.stamp.map_or(now_ns, |stamp| stamp.taken_ns);
                            one.tails.add(now_ns.saturating_sub(since), 0);
                        }
                        // It lies: that is still being read for it. The file is not held for it any more.
                        Handed::OnDisk { at, .. } => self.files.pin(at.file, false),
                        Handed::Note(note) => one.was_told(&note.item),
                    }
                }
            }
            FramesMessage::Leave => self.leave(attachment, key, who),
            other => return Err(not_said_by("a consumer", &other)),
        }
        self.note_group(key, Some(now_ns));
        self.admit(now_ns);
        self.actions.push_back(super::Action::Wake);
        Ok(())
    }

    /// The consumer's link is gone; it may come back.
    pub fn unlink_consumer(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        if let Some(member) = self.member(attachment, key, who) {
            member.attachment = None;
            member.lane.unlink();
        }
    }

    /// The link of a consumer was replaced: nothing is sent before it stands anew.
    pub fn pause_consumer(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        let Some(member) = self.member(attachment, key, who) else { return };
        member.is_lost = false;
        member.lane.unlink();
        if member.is_narrow {
            // What was said of it may not have been heard.
            self.tell_window(attachment, key, who);
        }
        self.tell_had(attachment, key, who);
    }

    /// The link of a consumer was lost: it may come back, or another may take its place.
    pub fn consumer_link_lost(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        if let Some(member) = self.member(attachment, key, who) {
            member.is_lost = true;
            member.lane.unlink();
        }
    }

    /// A consumer is at this IP address.
    pub fn set_consumer_address(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16], at: String) {
        if let Some(member) = self.member(attachment, key, who) {
            member.address = Some(at);
        }
    }

    /// Whether a consumer's last attachment was this.
    pub fn is_last_consumer_attachment(&self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) -> bool {
        let member = self.subscriptions.get(key).and_then(|one| one.members.get(who));
        member.is_some_and(|member| member.last_attachment == attachment)
    }

    /// A part of an item left for a consumer.
    pub fn consumer_advances(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        if self.member(attachment, key, who).is_some()
            && let Some(one) = self.subscriptions.get_mut(key)
        {
            one.advances();
        }
    }

    /// The epoch that a consumer stands in.
    pub fn consumer_epoch(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) -> Option<u16> {
        self.member(attachment, key, who).and_then(|member| member.lane.epoch())
    }

    fn member(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) -> Option<&mut Member> {
        let one = self.subscriptions.get_mut(key)?;
        one.members.get_mut(who).filter(|member| member.attachment == Some(attachment))
    }

    /// A stream to a consumer broke.
    pub fn consumer_stream_lost(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16], stream: u16) {
        if let Some(member) = self.member(attachment, key, who) {
            member.lane.stream_lost(stream);
        }
    }

    /// A consumer goes for good. What a member of a group had not taken goes to the others; what the last consumer of
    /// all had not taken waits for the next.
    pub fn leave(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        let Some(one) = self.subscriptions.get_mut(key) else { return };
        if one.members.get(who).is_some_and(|member| member.last_attachment != attachment) {
            return;
        }
        let Some(mut member) = one.members.remove(who) else { return };
        if one.members.is_empty() {
            self.note_left(key);
            if let Some(one) = self.subscriptions.remove(key) {
                self.holds_for_spill = one.policy == FramePolicy::Spill;
                let untold = one.untold(member.report).map(Handed::Note);
                let lane = member.lane.drain().into_iter().chain(untold).collect();
                self.hold_untaken(one, lane);
            }
        } else {
            for handed in member.lane.drain().into_iter().rev().filter(Handed::is_owed) {
                match handed {
                    Handed::Note(note) => one.pending.push_front(note),
                    Handed::Frame(position, _) | Handed::OnDisk { position, .. } => {
                        one.returned.insert(position, handed);
                    }
                }
            }
        }
        self.actions.push_back(super::Action::Wake);
        self.trim();
    }

    /// A consumer has gone, with this in its lane. What none that was here took stands in the log as long as nobody
    /// comes.
    fn hold_untaken(&mut self, one: Subscription, lane: Vec<Handed>) {
        let mut untaken = BTreeMap::new();
        let pending = one.pending.into_iter().map(Handed::Note);
        for handed in lane.into_iter().chain(one.returned.into_values()).chain(pending) {
            if let Handed::OnDisk { at, .. } = &handed {
                self.files.pin(at.file, false);
            }
            untaken.extend(handed.into_logged().filter(|(position, _)| *position >= self.hold_from));
        }
        let first = untaken.first_key_value().map_or(one.cursor, |(position, _)| one.cursor.min(*position));
        self.hold_from = self.hold_from.max(first);
        if self.subscriptions.is_empty() && !self.is_unattended {
            for (position, logged) in untaken.into_iter().rev() {
                self.log.put_back(position, logged, limits::CHANNEL_FRAMES_MAX);
            }
        }
    }

    /// Whether a consumer was handed the end, and took it.
    pub fn has_ended(&self, key: &ConsumerKey, who: &[u8; 16]) -> bool {
        let member = self.subscriptions.get(key).and_then(|one| one.members.get(who));
        member.is_none_or(|member| member.ended && member.lane.end() == member.lane.first())
    }

    /// The next work of a stream for a consumer.
    pub fn next(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16], stream: u16) -> Option<Work> {
        self.hand_out(attachment, key, who);
        let one = self.subscriptions.get_mut(key)?;
        let member = one.members.get_mut(who).filter(|member| member.attachment == Some(attachment))?;
        let (number, epoch) = member.lane.next(stream)?;
        match member.lane.item_mut(number)? {
            Handed::Note(note) => Some(Work::Send { number, epoch, what: What::Note(note.item.clone()) }),
            Handed::Frame(_, held) => Some(Work::Send { number, epoch, what: What::Frame(held.clone()) }),
            Handed::OnDisk { position, at, .. } => {
                let (position, at) = (*position, *at);
                Some(Work::Read { number, at, position })
            }
        }
    }

    /// What [`Work::Read`] asked for; `None`: it is not there, or not what it was.
    pub fn loaded(
        &mut self,
        key: &ConsumerKey,
        who: &[u8; 16],
        number: u64,
        at: Location,
        held: Option<Arc<HeldFrame>>,
    ) {
        let Some(one) = self.subscriptions.get_mut(key) else { return };
        let Some(member) = one.members.get_mut(who) else { return };
        // While it was read, the lane may have begun anew, and the number is another item's.
        let asked = member.lane.item_mut(number).filter(|handed| handed.is_at(at));
        let Some(handed) = asked else { return };
        if let Handed::OnDisk { position, producer, sequence, .. } = handed {
            self.files.pin(at.file, false);
            *handed = match held {
                Some(held) => Handed::Frame(*position, held),
                None => {
                    *one.lost.entry(LossReason::Damaged).or_default() += 1;
                    Handed::Note(Note::made(Item::Lost(LostRange {
                        producer: (**producer).clone(),
                        first: *sequence,
                        end: *sequence + 1,
                        reason: LossReason::Damaged,
                    })))
                }
            };
        }
        member.lane.put_back(number);
    }

    /// Fills the lane of a consumer, as far as its window goes.
    fn hand_out(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16]) {
        let is_over = self.is_over(key);
        let Some(begun) = self.subscriptions.get(key).map(|one| one.cursor) else { return };
        while self.fill(attachment, key, who, is_over) {}
        if self.subscriptions.get(key).is_some_and(|one| one.cursor != begun) {
            self.trim();
        }
    }

    /// Hands out what there is and has room. True: that brought forth more.
    fn fill(&mut self, attachment: u64, key: &ConsumerKey, who: &[u8; 16], is_over: bool) -> bool {
        let Channel { subscriptions, log, producers, files, retired, actions, .. } = self;
        let Some(one) = subscriptions.get_mut(key) else { return false };
        let reports = one.reports_end();
        one.report_sets();
        let Some(mut member) = one.members.remove(who) else { return false };
        if member.attachment != Some(attachment) || member.lane.epoch().is_none() || member.ended {
            one.members.insert(*who, member);
            return false;
        }
        while let Some((found, bytes)) = next::next(one, &member, log, producers) {
            if !member.lane.has_room(bytes) {
                break;
            }
            if let Some(handed) = next::take(one, &mut member, found, files) {
                member.lane.push(handed, bytes);
            }
        }
        // What the others of a group have may yet come back.
        let is_last = one.members.values().all(|other| other.owed() == 0);
        let mut is_more = false;
        if is_over && is_last && is_through(one, &member, log.end()) {
            end(one, &mut member, producers, retired);
            // Nothing is before it: what has no room yet is waited for with all that follows.
            is_more = one.pending.front().is_some_and(|note| member.lane.has_room(cost_of(&note.item)));
        }
        one.members.insert(*who, member);
        let is_reported = one.report_sets();
        if one.reports_end() != reports {
            actions.push_back(super::Action::Wake);
        }
        is_more || is_reported
    }

    /// Whether all producers are over, and as many as this consumer waits for.
    fn is_over(&self, key: &ConsumerKey) -> bool {
        if self.producers.values().any(|known| known.over == Over::No) {
            return false;
        }
        let known = self.producers.len() as u64 + self.retired.away();
        let Some(one) = self.subscriptions.get(key) else { return known >= 1 };
        self.has_enough(&one.earlier, known, one.producers.into()) && !self.awaits(&one.earlier)
    }
}

/// A member joins, or comes back, by this attachment. Gives the number of its lane, after `instances` if that is a new
/// one.
///
/// # Errors
/// `Busy`, `Conflict`: see [`Channel::subscribe`].
fn join(
    one: &mut Subscription,
    instances: &mut u64,
    attachment: u64,
    consume: &Consume,
    window: Window,
) -> Result<u64> {
    let is_new = !one.members.contains_key(&consume.consumer);
    let reports = one.reports_end();
    let member = one.members.entry(consume.consumer).or_insert_with(|| {
        *instances += 1;
        Member::new(window, consume.process, *instances, reports)
    });
    if consume.instance.is_some() && member.process != consume.process {
        let cause = "another process has this consumer's name since this one lost its link";
        return Err(Failure::new(FailureKind::Conflict, TAKE_NAME, cause).because(Reason::NameTaken));
    }
    if !member.is_lost && member.attachment.is_some_and(|other| other != attachment) {
        let failure = Failure::new(FailureKind::Busy, TAKE_NAME, "this consumer is connected already");
        return Err(failure.because(Reason::NameTaken));
    }
    (member.attachment, member.last_attachment, member.is_lost) = (Some(attachment), attachment, false);
    member.process = consume.process;
    member.lane.unlink();
    member.lane.set_window(window);
    member.is_narrow = false;
    if !is_new && consume.instance != Some(member.instance) {
        *instances += 1;
        member.instance = *instances;
        member.lane.restart();
        member.goes_on = true;
    }
    Ok(member.instance)
}

/// Whether a member was handed all that there is up to this position, and told of it.
fn is_through(one: &Subscription, member: &Member, log_end: u64) -> bool {
    let is_told = member.report == one.reports_end() && !one.awaits_report();
    one.cursor >= log_end && one.pending.is_empty() && one.returned.is_empty() && is_told
}

/// Hands a member the end, behind what was never here for it and nothing followed that would show it.
fn end(
    one: &mut Subscription,
    member: &mut Member,
    producers: &BTreeMap<ProducerId, KnownProducer>,
    retired: &Retired,
) {
    producers.values().for_each(|known| one.lose_rest(known));
    if !std::mem::replace(&mut one.is_told_of_retired, true) {
        for (id, before) in retired.before(one.retired_before) {
            one.lose_before(id, before.first_here, before.next);
        }
    }
    if one.pending.is_empty() && member.lane.has_room(cost_of(&Item::End)) {
        member.lane.push(Handed::Note(Note::made(Item::End)), cost_of(&Item::End));
        member.ended = true;
    }
}
