//! The producer's end: numbers frames, and keeps each until the hub has it.

use super::clock::UNKNOWN;
use super::frame::Payload;
use super::lane::{Outgoing, Window, cost};
use super::{PUSH, not_said_by, protocol};
use crate::failure::{Failure, FailureKind, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_wire::limits;
use thalweg_wire::message::{ClockOffset, FrameHead, FramesMessage, ProducerId};

/// A frame that is kept.
#[derive(Debug, Clone)]
pub struct Made {
    /// All but its payload.
    pub head: FrameHead,
    /// Its payload.
    pub payload: Payload,
}

/// See the module.
#[derive(Debug)]
pub struct Producer {
    id: ProducerId,
    window: Window,
    /// `None` before the hub stood for the first time.
    lane: Option<Outgoing<Arc<Made>>>,
    /// Declared, and maybe not over.
    sets: BTreeMap<u64, u32>,
    /// Where its last declarations stand among its frames, of those that the hub has not yet come to.
    declared_at: VecDeque<u64>,
    /// It makes no more of these, and the sequence before which that was said.
    ended: BTreeMap<u64, u64>,
    finish: bool,
    finished: bool,
    clock: ClockOffset,
    /// The hub said that it holds everything below this, as the level wants it.
    held: u64,
    says: VecDeque<FramesMessage>,
    /// Consumers that the hub waits for no more, and of which nobody was told.
    passed_over: VecDeque<String>,
}

/// Declarations of one producer that may run ahead of the frames between them: they go another way, and of too many
/// open sets, of all producers, a hub takes the oldest for over.
const DECLARED_AHEAD_MAX: usize = limits::SETS_OPEN_MAX / 4;
/// Names of consumers that are kept until somebody is told of them; of more, the newest.
const PASSED_OVER_MAX: usize = 16;

impl Producer {
    /// Of this name, that keeps so much.
    pub fn new(id: ProducerId, window: Window) -> Producer {
        Producer {
            id,
            window,
            lane: None,
            sets: BTreeMap::new(),
            declared_at: VecDeque::new(),
            ended: BTreeMap::new(),
            finish: false,
            finished: false,
            clock: UNKNOWN,
            held: 0,
            says: VecDeque::new(),
            passed_over: VecDeque::new(),
        }
    }

    /// Its name.
    pub fn id(&self) -> &ProducerId {
        &self.id
    }

    /// What it keeps.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The lowest sequence that it can still give; `None` before the hub stood.
    pub fn first(&self) -> Option<u64> {
        self.lane.as_ref().map(Outgoing::first)
    }

    /// Whether a frame of this size may be pushed: the hub stands, and there is room.
    pub fn has_room(&self, payload_bytes: u64, metadata_bytes: usize) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.has_room(cost(payload_bytes, metadata_bytes)))
    }

    /// Numbers a frame and keeps it. There must be room.
    ///
    /// # Errors
    /// `Usage` after the end, and for what no hub takes.
    pub fn push(&mut self, mut head: FrameHead, payload: Payload) -> Result<u64> {
        let usage = |cause: &str| Failure::new(FailureKind::Usage, PUSH, cause);
        if self.finish {
            return Err(usage("the producer has finished"));
        }
        let Some(lane) = &mut self.lane else { return Err(usage("the hub is not there yet")) };
        head.producer = self.id.clone();
        head.sequence = lane.end();
        head.check().map_err(|error| usage(&error.to_string()))?;
        let bytes = cost(head.payload_bytes, head.metadata.len());
        Ok(lane.push(Arc::new(Made { head, payload }), bytes))
    }

    /// Whether this set may be declared without going ahead of the frames between its declarations: the hub has those
    /// before all but the last. One that was declared before, or that nothing was given before, goes ahead of none.
    pub fn may_declare(&mut self, set: u64) -> bool {
        if self.sets.contains_key(&set) || self.declared_at.back() == Some(&self.frames()) {
            return true;
        }
        let first = self.first().unwrap_or(0);
        while self.declared_at.front().is_some_and(|&at| at <= first) {
            self.declared_at.pop_front();
        }
        self.declared_at.len() < DECLARED_AHEAD_MAX
    }

    /// A set has so many frames.
    ///
    /// # Errors
    /// `Usage` for none, too many, another number than before, or after the end.
    pub fn declare(&mut self, set: u64, frames: u32) -> Result<()> {
        let known = self.sets.get(&set).copied();
        if self.finish
            || !(1..=limits::SET_FRAMES_MAX).contains(&frames)
            || known.is_some_and(|known| known != frames)
        {
            let most = limits::SET_FRAMES_MAX;
            let cause =
                format!("a set has from 1 to {most} frames, always as many, and is declared before the end");
            return Err(Failure::new(FailureKind::Usage, super::DECLARE, cause));
        }
        if self.sets.len() >= limits::SETS_OPEN_MAX && known.is_none() {
            self.sets.pop_first();
        }
        self.sets.insert(set, frames);
        let at = self.frames();
        if known.is_none() && self.declared_at.back() != Some(&at) {
            if self.declared_at.len() >= DECLARED_AHEAD_MAX {
                self.declared_at.pop_front();
            }
            self.declared_at.push_back(at);
        }
        self.say(FramesMessage::Declare { set, frames });
        Ok(())
    }

    /// No more of a set will come.
    ///
    /// # Errors
    /// `Usage` after the end.
    pub fn end_set(&mut self, set: u64) -> Result<()> {
        if self.finish {
            return Err(Failure::new(FailureKind::Usage, super::END_SET, "the producer has finished"));
        }
        let next = self.frames();
        if self.ended.len() >= limits::SETS_OPEN_MAX && !self.ended.contains_key(&set) {
            self.ended.pop_first();
        }
        self.ended.insert(set, next);
        self.say(FramesMessage::EndSet { set, next });
        Ok(())
    }

    /// No more will come.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.finish, true) {
            self.say_finish();
        }
    }

    fn say_finish(&mut self) {
        if let Some(lane) = &self.lane {
            self.say(FramesMessage::Finish { frames: lane.end() });
        }
    }

    /// Says it if the hub stands. Else it is said when the hub does, in its order: an end that came before the sets
    /// that are said again would be believed without them.
    fn say(&mut self, message: FramesMessage) {
        if self.epoch().is_some() {
            self.says.push_back(message);
        }
    }

    /// Its clock against the hub's.
    pub fn set_clock(&mut self, clock: ClockOffset) {
        if clock != self.clock {
            self.clock = clock;
            self.say(FramesMessage::ClockIs(clock));
        }
    }

    /// The hub said something.
    ///
    /// # Errors
    /// `Protocol`; `Conflict` if somebody else makes frames under our name; `Damage`.
    pub fn hear(&mut self, message: FramesMessage) -> Result<()> {
        match message {
            FramesMessage::Stand { epoch, next } => {
                let window = self.window;
                let lane = self.lane.get_or_insert_with(|| Outgoing::new(window, next));
                if next > lane.end() {
                    let cause = "somebody else makes frames under this name";
                    return Err(Failure::new(FailureKind::Conflict, "push frames", cause));
                }
                lane.stand(epoch, next)?;
                self.says.clear();
                if self.clock != UNKNOWN {
                    self.says.push_back(FramesMessage::ClockIs(self.clock));
                }
                let declared = self.sets.iter().map(|(&set, &frames)| FramesMessage::Declare { set, frames });
                self.says.extend(declared);
                let ended = self.ended.iter().map(|(&set, &next)| FramesMessage::EndSet { set, next });
                self.says.extend(ended);
                if self.finish {
                    self.say_finish();
                }
                Ok(())
            }
            FramesMessage::Taken { next } => {
                self.lane_mut()?.taken(next)?;
                self.held = self.held.max(next);
                Ok(())
            }
            FramesMessage::Again { number } => self.lane_mut()?.damaged(number),
            FramesMessage::Finished { frames } => {
                let end = self.lane_mut()?.end();
                if !self.finish || frames != end {
                    return Err(protocol("the hub finished what has not ended"));
                }
                self.lane_mut()?.taken(end)?;
                self.finished = true;
                Ok(())
            }
            FramesMessage::PassedOver { consumer } => {
                if self.passed_over.len() >= PASSED_OVER_MAX {
                    self.passed_over.pop_front();
                }
                self.passed_over.push_back(consumer);
                Ok(())
            }
            other => Err(not_said_by("a hub", &other)),
        }
    }

    /// A consumer that took nothing for too long, and for which the hub does not hold this producer up any more.
    pub fn take_passed_over(&mut self) -> Option<String> {
        self.passed_over.pop_front()
    }

    fn lane_mut(&mut self) -> Result<&mut Outgoing<Arc<Made>>> {
        self.lane.as_mut().ok_or_else(|| protocol("the hub does not stand"))
    }

    /// What to say next.
    pub fn take_message(&mut self) -> Option<FramesMessage> {
        self.says.pop_front()
    }

    /// The next frame for a stream, with its epoch.
    pub fn next(&mut self, stream: u16) -> Option<(u16, Arc<Made>)> {
        let lane = self.lane.as_mut()?;
        let (number, epoch) = lane.next(stream)?;
        lane.item(number).map(|made| (epoch, made.clone()))
    }

    /// Epoch of the link that stands.
    pub fn epoch(&self) -> Option<u16> {
        self.lane.as_ref().and_then(Outgoing::epoch)
    }

    /// There is no link. What was to be said is said again over the next one.
    pub fn unlink(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.unlink();
        }
        self.says.clear();
    }

    /// A stream broke.
    pub fn stream_lost(&mut self, stream: u16) {
        if let Some(lane) = &mut self.lane {
            lane.stream_lost(stream);
        }
    }

    /// The hub has everything.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the hub holds all that was made under this name before this producer, as its level wants it.
    pub fn has_earlier(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.first() <= self.held)
    }

    /// Its next sequence; 0 before the hub stood.
    pub fn frames(&self) -> u64 {
        self.lane.as_ref().map_or(0, Outgoing::end)
    }

    /// Frames and bytes that the hub has not.
    pub fn waiting(&self) -> (u64, u64) {
        self.lane.as_ref().map_or((0, 0), |lane| (lane.end() - lane.first(), lane.kept_bytes()))
    }

    /// Frames sent again.
    pub fn again(&self) -> u64 {
        self.lane.as_ref().map_or(0, Outgoing::again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::digest::Digest;

    #[test]
    fn declarations_wait_for_the_frames_between_them_and_not_where_there_are_none() {
        let window = Window { bytes: 1 << 20, items: 1000 };
        let mut producer = Producer::new(ProducerId::new("cam").unwrap(), window);
        producer.hear(FramesMessage::Stand { epoch: 1, next: 0 }).unwrap();
        let give = |producer: &mut Producer| {
            let digest = Digest(*blake3::hash(b"x").as_bytes());
            let head = FrameHead::bare(producer.id().clone(), 0, 1, digest);
            producer.push(head, Payload::from(b"x".to_vec())).unwrap();
        };
        // A scan may be declared as a whole before it begins, and a set again with each of its frames.
        for set in 0..2 * DECLARED_AHEAD_MAX as u64 {
            assert!(producer.may_declare(set));
            producer.declare(set, 1).unwrap();
        }
        let last = 2 * DECLARED_AHEAD_MAX as u64 - 1;
        for _ in 0..2 * DECLARED_AHEAD_MAX {
            give(&mut producer);
            assert!(producer.may_declare(last));
            producer.declare(last, 1).unwrap();
        }
        for set in (1000..).take(DECLARED_AHEAD_MAX) {
            give(&mut producer);
            assert!(producer.may_declare(set));
            producer.declare(set, 1).unwrap();
        }
        give(&mut producer);
        assert!(!producer.may_declare(9999));
        // All but those frames are at the hub.
        let next = producer.frames() - DECLARED_AHEAD_MAX as u64 / 2;
        std::iter::from_fn(|| producer.next(0)).for_each(drop);
        producer.hear(FramesMessage::Taken { next }).unwrap();
        assert!(producer.may_declare(9999));
    }

    #[test]
    fn an_end_is_not_said_on_a_new_link_before_the_sets_are() {
        let window = Window { bytes: 1 << 20, items: 4 };
        let mut producer = Producer::new(ProducerId::new("cam").unwrap(), window);
        producer.hear(FramesMessage::Stand { epoch: 1, next: 0 }).unwrap();
        producer.declare(7, 2).unwrap();
        producer.end_set(7).unwrap();
        // What was said was lost with the link.
        producer.unlink();
        producer.finish();
        assert_eq!(producer.take_message(), None, "the hub does not stand yet");
        producer.hear(FramesMessage::Stand { epoch: 2, next: 0 }).unwrap();
        let said: Vec<FramesMessage> = std::iter::from_fn(|| producer.take_message()).collect();
        let wanted = [
            FramesMessage::Declare { set: 7, frames: 2 },
            FramesMessage::EndSet { set: 7, next: 0 },
            FramesMessage::Finish { frames: 0 },
        ];
        assert_eq!(said, wanted);
        assert_eq!(producer.end_set(8).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn an_end_of_a_set_that_is_said_again_takes_the_place_of_no_other() {
        let window = Window { bytes: 1 << 20, items: 4 };
        let mut producer = Producer::new(ProducerId::new("cam").unwrap(), window);
        let all = limits::SETS_OPEN_MAX as u64;
        (0..all).chain([all - 1; 3]).for_each(|set| producer.end_set(set).unwrap());
        producer.hear(FramesMessage::Stand { epoch: 1, next: 0 }).unwrap();
        let said = std::iter::from_fn(|| producer.take_message());
        let ended = said.filter(|said| matches!(said, FramesMessage::EndSet { .. }));
        assert_eq!(ended.count() as u64, all);
    }
}
