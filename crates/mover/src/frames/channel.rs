//! A channel: takes frames of its producers, holds them, and hands them out by each consumer's policy.
//!
//! 1. Frames come in lanes, one for each producer, and wait there until there is room: so a producer is held up.
//! 2. With room, they are taken in turn, each producer's in its order, and get a *position*. Whatever happens to a
//!    frame from then on, each consumer is handed it or told of its loss, by position.
//! 3. Room is made by what nobody needs any more; by what the spill log has; by what consumers drop by their policy;
//!    and else not at all.
//! 4. A producer that is over, and of which nothing is left to be handed out or told, is forgotten when another needs
//!    room.
//!
//! Memory: at most the channel's bytes, what the windows of its producers and consumers, and of the consumer that left
//! last, let wait or be under way, and about a hundred bytes for each of at most [`limits::CHANNEL_FRAMES_MAX`]
//! positions and 65,536 producers that are forgotten.

mod block_max;

mod consumers;

mod counts;

mod earlier;

mod log;

mod next;

mod retired;

mod room;

mod set_ends;

mod producers;

mod stands;

mod subscription;

pub use consumers::{ConsumerKey, Subscribed, What, Work};
pub use counts::{ChannelCounts, ConsumerCounts};
pub use log::HeldFrame;

use super::frame::Payload;
use super::lane::{Window, cost, cost_of};
use super::sets::OpenSets;
use super::spill::{Files, Location, SpillTerms};
use super::{DECLARE, JOIN, OPEN_CHANNEL, PUSH, TAKE_NAME, not_said_by, protocol};
use crate::failure::{Failure, FailureKind, Reason, Result};
use log::{Disk, Kind, Log, Logged};
use producers::{KnownProducer, Over};
use retired::{Before, Retired};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use subscription::Subscription;
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelStatus, ChannelTerms, ChannelWishes, FrameHead, FramesMessage, HeldLevel, HubStamp, Item,
    ProducerId, SetOver,
};

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Say this to what is attached under this number.
    Tell(u64, FramesMessage),
    /// There may be something for consumers.
    Wake,
    /// Append this to the spill log; answered by [`Channel::written`].
    Write(u64, Record),
    /// Remove this file of the spill log.
    Forget(u64),
}

/// A record for the spill log.
#[derive(Debug, Clone)]
pub enum Record {
    /// A frame with its payload.
    Frame(Arc<HeldFrame>),
    /// Anything else.
    Note(Item),
}

impl Record {
    /// About what it takes in the log.
    fn cost(&self) -> u64 {
        match self {
            Record::Frame(held) => held.cost(),
            Record::Note(item) => cost_of(item),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Channel {
    memory_bytes_max: u64,
    is_unattended: bool,
    spill: Option<SpillTerms>,
    /// Of a recorded log nothing is forgotten to make room.
    keeps_all: bool,
    /// For so long a consumer with `block` that takes nothing may hold producers up.
    block_max: Option<Duration>,
    files: Files,
    spill_trouble: Option<String>,
    log: Log,
    producers: BTreeMap<ProducerId, KnownProducer>,
    /// Producers that are over and forgotten but for their sequence.
    retired: Retired,
    subscriptions: BTreeMap<ConsumerKey, Subscription>,
    /// Where the log says that consumers of an earlier hub stand.
    stands: BTreeMap<ConsumerKey, stands::Positions>,
    /// Without consumers, what stands at this position or later waits for one: what none that was here took.
    hold_from: u64,
    /// The last consumer that went would have had that in the spill log rather than hold up producers.
    holds_for_spill: bool,
    sets: OpenSets,
    /// Who declared a set or gave frames of it, and has not finished.
    makers: BTreeMap<u64, BTreeSet<ProducerId>>,
    /// Sets that are over: they are not begun again by a producer that repeats itself.
    closed: BTreeSet<u64>,
    actions: VecDeque<Action>,
    /// Whose frame was taken last.
    turn: Option<ProducerId>,
    instances: u64,
    /// Lanes with a number up to this were another hub's.
    serial: u64,
    forgotten: u64,
    /// It had as many frames as it can remember.
    was_full: bool,
}

/// Sets that are over and remembered.
const CLOSED_MAX: usize = 64 << 10;
/// Positions that notes may take where frames have taken all of theirs.
const NOTES_MAX: usize = 64 << 10;
/// Whoever takes something, no room is made by it.
const FULL_FOR_GOOD: &str = "the recorded log is full, and nothing is deleted (no-delete)";

impl Channel {
    /// An empty one. Lanes are numbered from `serial` on, which no earlier hub of this channel may have used: a
    /// consumer knows by it that its lane begins anew.
    pub fn new(wishes: &ChannelWishes, memory_bytes_max: u64, serial: u64) -> Channel {
        Channel {
            memory_bytes_max,
            is_unattended: wishes.is_unattended,
            spill: None,
            keeps_all: false,
            block_max: None,
            files: Files::default(),
            spill_trouble: None,
            log: Log::default(),
            producers: BTreeMap::new(),
            retired: Retired::default(),
            subscriptions: BTreeMap::new(),
            stands: BTreeMap::new(),
            hold_from: 0,
            holds_for_spill: false,
            sets: OpenSets::new(limits::SETS_OPEN_MAX),
            makers: BTreeMap::new(),
            closed: BTreeSet::new(),
            actions: VecDeque::new(),
            turn: None,
            instances: serial,
            serial,
            forgotten: 0,
            was_full: false,
        }
    }

    /// There is a spill log, from now on.
    pub fn set_spill(&mut self, terms: SpillTerms) {
        self.spill = Some(terms);
    }

    /// Whether a recorded log that is full takes no more, where else its oldest frames go.
    pub fn set_keeps_all(&mut self, keeps_all: bool) {
        self.keeps_all = keeps_all;
    }

    /// While nobody consumes, frames go nowhere, from now on.
    pub fn set_unattended(&mut self) {
        self.is_unattended = true;
    }

    /// How it is kept.
    pub fn terms(&self) -> ChannelTerms {
        ChannelTerms {
            memory_bytes: self.memory_bytes_max,
            spill_bytes: self.spill.map(|spill| spill.bytes_max),
            is_unattended: self.is_unattended,
        }
    }

    /// Its terms, if there is one.
    pub fn spill(&self) -> Option<SpillTerms> {
        self.spill
    }

    /// What the log has, in order, before anybody attaches: a frame or a note at this position.
    pub fn restore(&mut self, position: u64, record: Item, at: Location) {
        if self.log.len() == 0 {
            self.log = Log::starting(position);
        }
        // What a damaged file had is missing: nobody gets it, and the next sequence shows it.
        while self.log.end() < position && self.log.len() < limits::CHANNEL_FRAMES_MAX {
            self.log.push(Logged { kind: Kind::Nothing, held: None, disk: Disk::No });
        }
        if self.log.end() != position {
            return;
        }
        self.files.found(position, at);
        let kind = match record {
            Item::Frame(head) => {
                let id = Arc::new(head.producer.clone());
                let known = self
                    .producers
                    .entry(head.producer.clone())
                    .or_insert_with(|| KnownProducer::new(id, head.sequence));
                (known.next, known.durable) = (head.sequence + 1, head.sequence + 1);
                (known.last_position, known.over) = (position, Over::No);
                known.count(head.payload_bytes);
                if let Some((set, index)) = head.set
                    && !self.closed.contains(&set)
                    && let Some(open) = self.sets.open(set)
                {
                    open.bits.insert(index);
                    known.makes_set(set);
                    self.makers.entry(set).or_default().insert(head.producer.clone());
                }
                let cost = cost(head.payload_bytes, head.metadata.len());
                Kind::Frame { producer: known.id.clone(), sequence: head.sequence, cost, set: head.set }
            }
            Item::SetOver(over) => {
                self.makers.remove(&over.set);
                self.sets.close(over.set);
                self.closed.insert(over.set);
                Kind::Note(record)
            }
            Item::ProducerOver { ref producer, frames, is_gone } => {
                // Of one that the log has no frames of it is known that it made them.
                let unknown = || KnownProducer::again(Arc::new(producer.clone()), frames, 0);
                let known = self.producers.entry(producer.clone()).or_insert_with(unknown);
                known.over = if is_gone { Over::Gone } else { Over::Finished };
                known.over_position = position;
                // What the log lacks of it before that went with a hub that had not written it.
                if frames > known.next {
                    (known.next, known.first_here, known.durable) = (frames, frames, frames);
                }
                for by in self.makers.values_mut() {
                    by.remove(producer);
                }
                Kind::Note(record)
            }
            Item::SetBegun { ref producer, set, frames } => {
                if !self.closed.contains(&set)
                    && let Some(open) = self.sets.open(set)
                {
                    open.frames = Some(frames);
                    self.makers.entry(set).or_default().insert(producer.clone());
                }
                Kind::Note(record)
            }
            Item::ConsumerAt(ref at) => {
                self.restore_stand(at);
                Kind::Note(record)
            }
            other => Kind::Note(other),
        };
        self.log.push(Logged { kind, held: None, disk: Disk::At(at) });
    }

    /// Nothing more of the log follows: what it shows to be over and does not say, because it was cut there, is.
    pub fn restored(&mut self) {
        self.close_ended();
        let open: Vec<u64> = self.sets.iter().map(|(set, _)| set).collect();
        open.into_iter().for_each(|set| self.close_if_complete(set));
    }

    /// A producer comes, or comes back, by this attachment. Frames that it gives are numbered from the answer's `next`
    /// on.
    ///
    /// # Errors
    /// `Busy` if it is connected already; `Conflict` if it comes back and another process made frames under its name
    /// meanwhile; `Unsupported` for durable frames without a recording log; `Busy` for too many that are not over, or
    /// of which something is left to be taken.
    pub fn attach(
        &mut self,
        attachment: u64,
        (id, process): (&ProducerId, [u8; 16]),
        first: Option<u64>,
        level: HeldLevel,
        window: Window,
    ) -> Result<()> {
        if level == HeldLevel::Durable && !self.spill.is_some_and(|spill| spill.is_recorded) {
            let cause = "frames are durable in a channel that records them only";
            return Err(Failure::new(FailureKind::Unsupported, OPEN_CHANNEL, cause));
        }
        let known = self.producers.get(id);
        let last = known.map_or_else(|| self.retired.process(id), |known| known.process);
        if first.is_some() && last.is_some_and(|last| last != process) {
            // What this one kept has numbers that are other frames' by now.
            let cause = format!("another process makes frames as {id} since this one lost its link");
            return Err(Failure::new(FailureKind::Conflict, TAKE_NAME, cause).because(Reason::NameTaken));
        }
        let is_another = |other: u64| other != attachment;
        if known.is_some_and(|known| !known.is_lost && known.attachment.is_some_and(is_another)) {
            let cause = format!("the producer {id} is connected already");
            return Err(Failure::new(FailureKind::Busy, TAKE_NAME, cause).because(Reason::NameTaken));
        }
        let is_known = known.is_some();
        if !is_known && self.producers.len() >= limits::PRODUCERS_MAX && !self.retire_one() {
            let cause = format!(
                "it has {} producers that are not over, or whose frames were not taken: more than a channel knows",
                self.producers.len()
            );
            return Err(Failure::new(FailureKind::Busy, JOIN, cause).because(Reason::ChannelCrowded));
        }
        let before = if is_known { None } else { self.retired.take(id) };
        // A new process under a name that consumers know from an earlier hub: what it makes is not what they have.
        let had = self.subscriptions.values().filter_map(|one| one.expect.get(id).copied());
        let had = had.filter(|next| *next < limits::FRAME_SEQUENCE_END / 2).max();
        let begins = match before {
            // One that was forgotten goes on with its sequence.
            Some(before) => before.next.max(first.unwrap_or(0)),
            None => first.or(had).unwrap_or(0),
        };
        if !is_known {
            for one in self.subscriptions.values_mut() {
                let next = match before {
                    Some(before) if one.knows(before) => before.next,
                    // What it made before this hub knew it was before their now.
                    _ if one.begins_now => begins,
                    _ => continue,
                };
                one.expect.entry(Arc::new(id.clone())).or_insert(next);
            }
        }
        let begun = || match before {
            Some(Before { next, first_here, .. }) => {
                KnownProducer::again(Arc::new(id.clone()), next, first_here)
            }
            None => KnownProducer::new(Arc::new(id.clone()), begins),
        };
        let known = self.producers.entry(id.clone()).or_insert_with(begun);
        // What lies between was held by a hub that is gone.
        if let Some(first) = first
            && first > known.next
        {
            (known.next, known.first_here) = (first, first);
            known.durable = known.durable.max(if known.unsynced.is_empty() { first } else { 0 });
        }
        known.comes(first.is_some());
        known.attach(attachment, process, level, window);
        self.stand(id);
        Ok(())
    }

    /// Forgets the producer that was over first of those of which nothing is left: no link, no frame or word in the
    /// log, and what consumers were never given of it is named to them now. False: there is none.
    pub(crate) fn retire_one(&mut self) -> bool {
        self.trim();
        let base = self.log.base();
        let is_done = |known: &&KnownProducer| {
            known.over != Over::No
                && known.attachment.is_none()
                && known.last_position.max(known.over_position) < base
                && known.unsynced.is_empty()
        };
        let first = self.producers.values().filter(is_done).min_by_key(|known| known.over_position);
        let Some(id) = first.map(|known| (*known.id).clone()) else { return false };
        let Some(known) = self.producers.remove(&id) else { return false };
        for one in self.subscriptions.values_mut() {
            one.lose_rest(&known);
            one.expect.remove(&*known.id);
        }
        self.retired.add(&known);
        self.actions.push_back(Action::Wake);
        true
    }

    /// The link of a producer was replaced below its session.
    pub fn link_up(&mut self, attachment: u64) {
        if let Some(known) = self.known_by(attachment) {
            known.is_lost = false;
            let id = (*known.id).clone();
            self.stand(&id);
        }
    }

    /// The link of a producer was lost: it may come back, or another may take its place.
    pub fn link_lost(&mut self, attachment: u64) {
        if let Some(known) = self.known_by(attachment) {
            known.is_lost = true;
        }
    }

    /// Whether a producer's last attachment was this.
    pub fn is_last_attachment(&self, attachment: u64, id: &ProducerId) -> bool {
        self.producers.get(id).is_some_and(|known| known.last_attachment == attachment)
    }

    fn stand(&mut self, id: &ProducerId) {
        let Some(known) = self.producers.get_mut(id) else { return };
        let Some(attachment) = known.attachment else { return };
        known.renew();
        let (epoch, next) = known.lane.stand();
        let held = known.held();
        self.actions.push_back(Action::Tell(attachment, FramesMessage::Stand { epoch, next }));
        self.actions.push_back(Action::Tell(attachment, FramesMessage::Taken { next: held }));
    }

    /// The producer's link is gone; it may come back.
    pub fn detach(&mut self, attachment: u64) {
        if let Some(known) = self.known_by(attachment) {
            known.attachment = None;
            known.renew();
        }
    }

    /// The producer of this attachment is not waited for any more.
    pub fn give_up(&mut self, attachment: u64, id: &ProducerId) {
        let Some(known) = self.producers.get_mut(id) else { return };
        if known.last_attachment != attachment {
            return;
        }
        known.attachment = None;
        known.renew();
        if known.over == Over::No {
            self.producer_over(id, Over::Gone);
        }
    }

    /// Producers that only the log knows are not waited for any more.
    pub fn give_up_absent(&mut self) {
        let is_absent = |known: &&KnownProducer| known.last_attachment == 0 && known.over == Over::No;
        let absent = self.producers.values().filter(is_absent);
        let absent: Vec<ProducerId> = absent.map(|known| (*known.id).clone()).collect();
        absent.iter().for_each(|id| self.producer_over(id, Over::Gone));
    }

    fn known_by(&mut self, attachment: u64) -> Option<&mut KnownProducer> {
        self.producers.values_mut().find(|known| known.attachment == Some(attachment))
    }

    /// A producer said something.
    ///
    /// # Errors
    /// `Protocol`; `Usage` for a set that was declared with another number of frames; `Conflict` for one that was over
    /// before this producer made anything of it; `Busy` for too many.
    pub fn hear(&mut self, attachment: u64, message: FramesMessage, now_ns: u64) -> Result<()> {
        let Some(known) = self.known_by(attachment) else { return Ok(()) };
        match message {
            FramesMessage::ClockIs(clock) => known.clock = clock,
            FramesMessage::Finish { frames } => {
                if frames < known.next {
                    return Err(protocol("a producer ends before what it made"));
                }
                known.finish = Some(frames);
                let id = (*known.id).clone();
                self.conclude(&id);
            }
            FramesMessage::Declare { set, frames } => {
                let id = (*known.id).clone();
                self.declare(&id, set, frames)?;
            }
            FramesMessage::EndSet { set, next } => {
                known.ends_set(set, next);
                let id = known.id.clone();
                self.end_sets(&id);
            }
            other => return Err(not_said_by("a producer", &other)),
        }
        self.admit(now_ns);
        Ok(())
    }

    fn declare(&mut self, id: &ProducerId, set: u64, frames: u32) -> Result<()> {
        if self.closed.contains(&set) {
            // Who made it may say it again after an outage, or so late that another one's word was enough.
            return match self.producers.get(id).is_some_and(|known| known.made_set(set)) {
                true => Ok(()),
                false => {
                    let cause = format!("the set {set} is over");
                    Err(Failure::new(FailureKind::Conflict, DECLARE, cause).because(Reason::SetOver))
                }
            };
        }
        self.check_notes()?;
        self.make_set_room(set);
        let Some(open) = self.sets.open(set) else { return Ok(()) };
        if open.frames.is_some_and(|known| known != frames) {
            let cause = format!("the set {set} was declared with another number of frames");
            return Err(Failure::new(FailureKind::Usage, DECLARE, cause));
        }
        if let Some(known) = self.producers.get_mut(id) {
            known.makes_set(set);
        }
        let is_new = open.frames.replace(frames).is_none();
        let is_new = self.makers.entry(set).or_default().insert(id.clone()) || is_new;
        if is_new && self.spill.is_some_and(|spill| spill.is_recorded) {
            self.note(Item::SetBegun { producer: id.clone(), set, frames });
        }
        self.close_if_complete(set);
        Ok(())
    }

    /// Notes wait for no room as frames do, but who makes nothing else is stopped.
    fn check_notes(&mut self) -> Result<()> {
        if self.log.len() < limits::CHANNEL_FRAMES_MAX + NOTES_MAX {
            return Ok(());
        }
        self.trim();
        if self.log.len() < limits::CHANNEL_FRAMES_MAX + NOTES_MAX || self.forget_oldest() {
            return Ok(());
        }
        if self.forgets_nothing() {
            return Err(Failure::new(FailureKind::Busy, DECLARE, FULL_FOR_GOOD));
        }
        let cause = "the channel holds as many frames and sets as it can, and its consumers take none";
        Err(Failure::new(FailureKind::Busy, DECLARE, cause).because(Reason::ConsumersSlow))
    }

    /// Where too many are open, the lowest is over, complete or not.
    fn make_set_room(&mut self, set: u64) {
        if self.sets.open(set).is_none()
            && let Some(lowest) = self.sets.lowest()
        {
            self.close_set(lowest);
        }
    }

    /// Ends the sets that were declared and that nobody makes any more.
    fn close_ended(&mut self) {
        let is_over = |(set, makers): (&u64, &BTreeSet<ProducerId>)| makers.is_empty().then_some(*set);
        let ended: Vec<u64> = self.makers.iter().filter_map(is_over).collect();
        for set in ended {
            if self.sets.open(set).is_some_and(|open| open.frames.is_some()) {
                self.close_set(set);
            }
        }
    }

    fn close_if_complete(&mut self, set: u64) {
        let complete = self
            .sets
            .open(set)
            .is_some_and(|open| open.frames.is_some_and(|frames| open.bits.count_below(frames) == frames));
        if complete {
            self.close_set(set);
        }
    }

    fn close_set(&mut self, set: u64) {
        self.makers.remove(&set);
        let Some(open) = self.sets.close(set) else { return };
        self.closed.insert(set);
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_first();
        }
        if let Some(frames) = open.frames {
            let taken = open.bits.count_below(frames);
            self.note(Item::SetOver(SetOver { set, frames, taken }));
        }
    }

    /// The first bytes of a frame came: whether the rest is wanted.
    ///
    /// # Errors
    /// `Protocol` for what no producer sends; `Usage` for a frame that the channel can never hold.
    pub fn begin(&mut self, attachment: u64, epoch: u16, number: u64, item: &Item) -> Result<bool> {
        let memory_max = self.memory_bytes_max;
        // With this, what is written and what is yet to be never fill the log alone.
        let spill_max = self.spill.map_or(u64::MAX, |spill| spill.bytes_max / 4);
        let Some(known) = self.known_by(attachment) else { return Ok(false) };
        let Item::Frame(head) = item else { return Err(protocol("a producer gives frames only")) };
        if head.producer != *known.id || head.sequence != number || head.stamp.is_some() {
            return Err(protocol("a frame that is not what its position says"));
        }
        let cost = cost_of(item);
        if cost > memory_max || cost > spill_max {
            let of = match cost > memory_max {
                true => {
                    format!("{memory_max} bytes of memory (--memory, within the daemon's --frames-memory)")
                }
                false => format!("{spill_max} bytes in a quarter of its log (--spill-size)"),
            };
            let bytes = head.payload_bytes;
            let cause = format!("a frame of {bytes} bytes is more than the channel holds: it has {of}");
            return Err(Failure::new(FailureKind::Usage, PUSH, cause));
        }
        known.lane.begin(epoch, number, item)
    }

    /// A frame that was begun is whole and sound.
    pub fn arrived(
        &mut self,
        attachment: u64,
        epoch: u16,
        number: u64,
        item: Item,
        payload: Payload,
        now_ns: u64,
    ) {
        if let Some(known) = self.known_by(attachment) {
            known.lane.arrived(epoch, number, item, payload);
        }
        self.admit(now_ns);
    }

    /// A frame that was begun is damaged.
    ///
    /// # Errors
    /// `Damage` when nothing sound comes any more.
    pub fn damaged(&mut self, attachment: u64, epoch: u16, number: u64) -> Result<()> {
        let Some(known) = self.known_by(attachment) else { return Ok(()) };
        if known.lane.damaged(epoch, number)? {
            self.actions.push_back(Action::Tell(attachment, FramesMessage::Again { number }));
        }
        Ok(())
    }

    /// Takes what waits, as long as there is room, each producer in its turn.
    pub fn admit(&mut self, now_ns: u64) {
        while let Some(id) = self.next_waiting() {
            let waits = self.producers.get(&id).and_then(|known| known.lane.peek()).map(cost_of);
            let Some(cost) = waits else { break };
            if !self.make_room(cost) {
                break;
            }
            self.accept(&id, now_ns);
            self.turn = Some(id);
        }
        self.trim();
    }

    fn next_waiting(&self) -> Option<ProducerId> {
        let waits = |(_, known): &(&ProducerId, &KnownProducer)| known.lane.peek().is_some();
        let after = self.turn.as_ref().and_then(|turn| {
            let behind = (std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded);
            self.producers.range::<ProducerId, _>(behind).find(waits)
        });
        after.or_else(|| self.producers.iter().find(waits)).map(|(id, _)| id.clone())
    }

    fn accept(&mut self, id: &ProducerId, now_ns: u64) {
        let Some(known) = self.producers.get_mut(id) else { return };
        let Some((number, item, payload)) = known.lane.pop() else { return };
        let cost = cost_of(&item);
        let Item::Frame(mut head) = item else { return };
        head.stamp = Some(HubStamp { taken_ns: now_ns, clock: known.clock });
        let (set, payload_bytes) = (head.set, head.payload_bytes);
        let head: FrameHead = *head;
        let sequence = head.sequence;
        let kind = Kind::Frame { producer: known.id.clone(), sequence, cost, set };
        let held = Arc::new(HeldFrame { head, payload });
        let position = self.push(kind, Some(held));
        let Some(known) = self.producers.get_mut(id) else { return };
        known.next = sequence + 1;
        known.last_position = position;
        known.count(payload_bytes);
        if known.level == HeldLevel::Durable {
            known.unsynced.push_back((position, sequence));
        } else {
            known.durable = known.next;
        }
        known.lane.take(number, cost);
        let attachment = known.attachment;
        if let (Some(attachment), Some(message)) = (attachment, known.tell(false)) {
            self.actions.push_back(Action::Tell(attachment, message));
        }
        if let Some((set, index)) = set
            && !self.closed.contains(&set)
        {
            self.make_set_room(set);
            if let Some(open) = self.sets.open(set) {
                open.bits.insert(index);
                if let Some(known) = self.producers.get_mut(id) {
                    known.makes_set(set);
                }
                let makers = self.makers.entry(set).or_default();
                if !makers.contains(id) {
                    makers.insert(id.clone());
                }
            }
            self.close_if_complete(set);
        }
        self.conclude(id);
    }

    /// Something gets its position.
    fn push(&mut self, kind: Kind, held: Option<Arc<HeldFrame>>) -> u64 {
        let position = self.log.end();
        let mut disk = Disk::No;
        if self.spill.is_some_and(|spill| spill.is_recorded) {
            let record = match (&kind, &held) {
                (Kind::Note(item), _) => Some(Record::Note(item.clone())),
                (_, Some(held)) => Some(Record::Frame(held.clone())),
                _ => None,
            };
            if let Some(record) = record {
                disk = Disk::Writing;
                self.files.begin(record.cost());
                self.actions.push_back(Action::Write(position, record));
            }
        }
        self.log.push(Logged { kind, held, disk });
        self.actions.push_back(Action::Wake);
        position
    }

    fn note(&mut self, item: Item) -> u64 {
        self.push(Kind::Note(item), None)
    }

    /// Whether a producer has ended, and all of it is held.
    fn conclude(&mut self, id: &ProducerId) {
        self.end_sets(id);
        let Some(known) = self.producers.get_mut(id) else { return };
        if !known.is_complete() {
            return;
        }
        let (attachment, frames) = (known.attachment, known.next);
        if known.over == Over::No {
            self.producer_over(id, Over::Finished);
        }
        if let Some(attachment) = attachment {
            self.actions.push_back(Action::Tell(attachment, FramesMessage::Finished { frames }));
        }
    }

    fn producer_over(&mut self, id: &ProducerId, over: Over) {
        let Some(known) = self.producers.get_mut(id) else { return };
        known.over = over;
        let frames = known.next;
        let all: Vec<u64> = self.makers.keys().copied().collect();
        all.into_iter().for_each(|set| self.makes_no_more(id, set));
        self.close_ended();
        let position =
            self.note(Item::ProducerOver { producer: id.clone(), frames, is_gone: over == Over::Gone });
        if let Some(known) = self.producers.get_mut(id) {
            known.over_position = position;
        }
    }

    /// A record is written.
    pub fn written(&mut self, position: u64, at: Location, record: &Record, now_ns: u64) {
        self.files.written(position, at, record.cost());
        if let Some(logged) = self.log.get_mut(position) {
            logged.disk = Disk::At(at);
        }
        self.spill_trouble = None;
        self.admit(now_ns);
    }

    /// Everything below `position` that was written is synced.
    pub fn synced(&mut self, position: u64) {
        let mut told = Vec::new();
        for known in self.producers.values_mut() {
            known.synced(position);
            if known.level == HeldLevel::Durable
                && let (Some(attachment), Some(message)) = (known.attachment, known.tell(true))
            {
                told.push((attachment, message, (*known.id).clone()));
            }
        }
        for (attachment, message, id) in told {
            self.actions.push_back(Action::Tell(attachment, message));
            self.conclude(&id);
        }
    }

    /// Whether anybody waits for a sync.
    pub fn wants_sync(&self) -> bool {
        self.producers.values().any(|known| !known.unsynced.is_empty())
    }

    /// The log cannot be written for now.
    pub fn trouble(&mut self, why: String) {
        self.spill_trouble = Some(why);
    }

    /// From time to time: tells what was not told yet.
    pub fn tick(&mut self, now_ns: u64) {
        for known in self.producers.values_mut() {
            if let (Some(attachment), Some(message)) = (known.attachment, known.tell(true)) {
                self.actions.push_back(Action::Tell(attachment, message));
            }
        }
        self.note_groups(Some(now_ns));
        self.admit(now_ns);
    }

    /// The hub ends: the next one goes on here, if it records.
    pub fn close(&mut self) {
        self.note_groups(None);
    }

    /// What to do next.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether a producer of this attachment waits for room, or for a log that cannot be written: consumers or the disk
    /// hold it up, not the link.
    pub fn is_held_up(&self, attachment: u64) -> bool {
        let is_written = self.spill_trouble.is_none();
        let waits = |known: &KnownProducer| {
            known.lane.peek().is_some()
                || (!is_written && known.level == HeldLevel::Durable && !known.unsynced.is_empty())
        };
        self.producers.values().any(|known| known.attachment == Some(attachment) && waits(known))
    }

    /// Whether nobody is attached.
    pub fn is_idle(&self) -> bool {
        self.subscriptions.is_empty() && self.producers.values().all(|known| known.attachment.is_none())
    }

    /// Whether nobody is here or comes back, and nothing is owed to who may come: no frame, or none that its log does
    /// not keep.
    pub fn is_spent(&self) -> bool {
        let is_kept = self.spill_trouble.is_none() && self.spill.is_some_and(|spill| spill.is_recorded);
        let is_over = |known: &KnownProducer| known.attachment.is_none() && known.over != Over::No;
        let is_left = self.subscriptions.is_empty() && self.producers.values().all(is_over);
        is_left && (is_kept || !self.has_frames())
    }

    /// Bytes of payloads in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.log.memory_bytes()
    }

    /// Whether there is a frame that can be had.
    pub fn has_frames(&self) -> bool {
        self.places_there().next().is_some()
    }

    /// Why the log takes nothing for now, if it does not: it cannot be written, or is full for good and somebody waits.
    pub fn spill_trouble(&self) -> Option<&str> {
        self.spill_trouble.as_deref().or_else(|| self.waits_for_good().then_some(FULL_FOR_GOOD))
    }

    /// Whether no producer was ever here.
    pub fn has_no_producers(&self) -> bool {
        self.producers.is_empty() && self.retired.away() == 0
    }

    /// How it stands.
    pub fn status(&self) -> ChannelStatus {
        let end = self.log.end();
        ChannelStatus {
            memory_bytes: self.log.memory_bytes(),
            memory_bytes_max: self.memory_bytes_max,
            frames: self.places_there().count() as u64,
            spill_bytes: self.files.bytes(),
            spill_bytes_max: self.spill.map_or(0, |spill| spill.bytes_max),
            spill_trouble: self.spill_trouble().map(str::to_owned),
            forgotten: self.forgotten,
            was_full: self.was_full,
            producers: self
                .producers
                .values()
                .map(KnownProducer::status)
                .take(limits::STATUS_ROWS_MAX)
                .collect(),
            consumers: self
                .subscriptions
                .values()
                .map(|subscription| subscription.status(end.saturating_sub(subscription.cursor)))
                .take(limits::STATUS_ROWS_MAX)
                .collect(),
            sets: self
                .sets
                .iter()
                .filter_map(|(set, open)| {
                    let frames = open.frames?;
                    Some((set, frames, open.bits.count_below(frames)))
                })
                .take(limits::STATUS_ROWS_MAX)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
