//! Producers as their channel knows them.

use super::Channel;
use crate::frames::clock::UNKNOWN;
use crate::frames::frame::Payload;
use crate::frames::lane::{Incoming, Window};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use thalweg_wire::limits;
use thalweg_wire::message::{ClockOffset, FramesMessage, HeldLevel, ProducerId, ProducerStatus, TakenBefore};

/// Whether more comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    No,
    Finished,
    Gone,
}

#[derive(Debug)]
pub(super) struct KnownProducer {
    pub id: Arc<ProducerId>,
    /// The process that made its last frames; `None`: only the log knows it.
    pub process: Option<[u8; 16]>,
    /// The attachment that it has: one end of a lane, in one session.
    pub attachment: Option<u64>,
    /// The link of that stands no more, and it may be replaced.
    pub is_lost: bool,
    /// The attachment that it had last.
    pub last_attachment: u64,
    pub lane: Incoming<Payload>,
    pub window: Window,
    pub level: HeldLevel,
    /// The sequence that is taken next.
    pub next: u64,
    /// What this hub took first of it.
    pub first_here: u64,
    pub bytes: u64,
    /// Frames that these are of, and bytes of the last.
    counted: u64,
    last_bytes: u64,
    /// It said that it made so many.
    pub finish: Option<u64>,
    pub over: Over,
    pub clock: ClockOffset,
    /// Positions and sequences that are not synced, of one whose level is durable.
    pub unsynced: VecDeque<(u64, u64)>,
    /// Everything below is synced.
    pub durable: u64,
    /// Place of its newest frame.
    pub last_position: u64,
    /// Place of the word that it is over.
    pub over_position: u64,
    /// Sets that it declared or gave frames of before they were over: the highest that a producer says again.
    sets: BTreeSet<u64>,
    /// Sets of which it makes no more, and its next sequence when it said so: the highest that a producer says again.
    ended: BTreeMap<u64, u64>,
    /// It declared sets to an earlier hub, and this one may not know which.
    is_of_earlier: bool,
    told_durable: u64,
}

impl KnownProducer {
    pub fn new(id: Arc<ProducerId>, next: u64) -> KnownProducer {
        let window = Window { bytes: 0, items: 1 };
        KnownProducer {
            id,
            process: None,
            attachment: None,
            is_lost: false,
            last_attachment: 0,
            lane: Incoming::new(window, next),
            window,
            level: HeldLevel::Memory,
            next,
            first_here: next,
            bytes: 0,
            counted: 0,
            last_bytes: 0,
            finish: None,
            over: Over::No,
            clock: UNKNOWN,
            unsynced: VecDeque::new(),
            durable: next,
            last_position: 0,
            over_position: 0,
            sets: BTreeSet::new(),
            ended: BTreeMap::new(),
            is_of_earlier: false,
            told_durable: next,
        }
    }

    /// One that was here before, from `first_here` on, and goes on with `next`.
    pub fn again(id: Arc<ProducerId>, next: u64, first_here: u64) -> KnownProducer {
        KnownProducer { first_here, ..KnownProducer::new(id, next) }
    }

    /// A frame of so many bytes is taken.
    pub fn count(&mut self, payload_bytes: u64) {
        self.bytes += payload_bytes;
        self.counted += 1;
        self.last_bytes = payload_bytes;
    }

    /// A new attachment: what waits of the old one is asked for again, and the clock is measured anew, maybe that of
    /// another machine.
    pub fn attach(&mut self, attachment: u64, process: [u8; 16], level: HeldLevel, window: Window) {
        self.process = Some(process);
        self.attachment = Some(attachment);
        self.last_attachment = attachment;
        self.is_lost = false;
        self.level = level;
        self.window = window;
        self.clock = UNKNOWN;
        self.over = Over::No;
        self.finish = None;
        self.renew();
    }

    /// It is the process that was here before, or another one under its name: what that declared is not its own.
    pub fn comes(&mut self, is_back: bool) {
        if !is_back {
            self.sets.clear();
            self.ended.clear();
        }
        self.is_of_earlier = is_back && (self.is_of_earlier || self.last_attachment == 0);
    }

    /// It makes a set that is not over.
    pub fn makes_set(&mut self, set: u64) {
        self.sets.insert(set);
        if self.sets.len() > limits::SETS_OPEN_MAX {
            self.sets.pop_first();
        }
    }

    /// It makes no more of a set behind `next`.
    pub fn ends_set(&mut self, set: u64, next: u64) {
        self.ended.insert(set, next);
        if self.ended.len() > limits::SETS_OPEN_MAX {
            self.ended.pop_first();
        }
    }

    /// The sets of which it makes no more, and all that it made is here.
    pub fn take_ended(&mut self) -> Vec<u64> {
        let next = self.next;
        let ended: Vec<u64> = self.ended.iter().filter(|(_, at)| **at <= next).map(|(set, _)| *set).collect();
        self.ended.retain(|_, at| *at > next);
        ended
    }

    /// Whether it may have made a set before that was over.
    pub fn made_set(&self, set: u64) -> bool {
        self.is_of_earlier || self.sets.contains(&set)
    }

    /// The lane begins again behind what was taken: a frame that waited for room is sent again.
    pub fn renew(&mut self) {
        let epoch = self.lane.epoch();
        self.lane = Incoming::resumed(self.window, self.next, epoch);
    }

    /// Everything below this counts as held.
    pub fn held(&self) -> u64 {
        match self.level {
            HeldLevel::Memory => self.next,
            HeldLevel::Durable => self.durable,
        }
    }

    /// What to tell it of that.
    pub fn tell(&mut self, whatever: bool) -> Option<FramesMessage> {
        if self.level == HeldLevel::Memory {
            return self.lane.tell(whatever).map(|next| FramesMessage::Taken { next });
        }
        // A sync is a round of its own: what it made durable is told at once.
        (self.durable > self.told_durable).then(|| {
            self.told_durable = self.durable;
            FramesMessage::Taken { next: self.durable }
        })
    }

    /// Everything below `position` is synced.
    pub fn synced(&mut self, position: u64) {
        while let Some(&(at, sequence)) = self.unsynced.front()
            && at < position
        {
            self.durable = sequence + 1;
            self.unsynced.pop_front();
        }
    }

    /// Whether it said that it ends, and all of it is held.
    pub fn is_complete(&self) -> bool {
        self.finish.is_some_and(|frames| self.next >= frames && self.held() >= frames)
    }

    pub fn status(&self) -> ProducerStatus {
        ProducerStatus {
            producer: (*self.id).clone(),
            frames: self.next,
            bytes: self.bytes,
            waiting: self.lane.waiting() as u64,
            is_linked: self.attachment.is_some(),
            is_finished: self.over == Over::Finished,
            is_gone: self.over == Over::Gone,
            clock: self.clock,
        }
    }
}

impl Channel {
    /// What it took of this producer, if it knows all of that: an earlier hub may have had some, or it was forgotten.
    pub fn taken_before(&self, id: &ProducerId) -> Option<TakenBefore> {
        let known = self.producers.get(id).filter(|known| known.counted == known.next)?;
        Some(TakenBefore { bytes: known.bytes, last_bytes: known.last_bytes })
    }
}
