//! A consumer, or a group that shares, as its hub knows it.

use super::log::{Held, Kind, Slot};
use crate::frames::lane::{Outgoing, Window};
use crate::frames::spill::Location;
use crate::frames::tails::Tails;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_wire::message::{
    ConsumerStatus, FrameFrom, FramePolicy, Item, LossReason, LostRange, ProducerId,
};

/// Notes that may wait for a consumer that takes nothing: then what follows waits as well.
const NOTES_MAX: usize = 64 << 10;

/// Something handed out.
#[derive(Debug, Clone)]
pub(super) enum Handed {
    Note(Item),
    /// A frame in memory.
    Frame(u64, Arc<Held>),
    /// A frame that has to be read.
    OnDisk {
        place: u64,
        at: Location,
        cost: u64,
        producer: Arc<ProducerId>,
        sequence: u64,
    },
}

#[derive(Debug)]
pub(super) struct Member {
    pub lane: Outgoing<Handed>,
    /// The link that it has.
    pub link: Option<u64>,
    /// That link stands no more, and may be replaced.
    pub is_lost: bool,
    /// The link that it had last.
    pub last_link: u64,
    /// The end was handed out.
    pub ended: bool,
    /// Number of its lane.
    pub instance: u64,
}

impl Member {
    pub fn new(window: Window, instance: u64) -> Member {
        Member {
            lane: Outgoing::new(window, 0),
            link: None,
            is_lost: false,
            last_link: 0,
            ended: false,
            instance,
        }
    }

    /// Frames in its lane.
    pub fn frames(&self) -> usize {
        self.lane.iter().filter(|handed| !matches!(handed, Handed::Note(_))).count()
    }
}

#[derive(Debug)]
pub(super) struct Subscription {
    pub name: String,
    pub policy: FramePolicy,
    pub from: FrameFrom,
    pub members: BTreeMap<[u8; 16], Member>,
    /// The next place to hand out.
    pub cursor: u64,
    /// What members had that went away, by place.
    pub returned: BTreeMap<u64, Handed>,
    /// The next sequence of each producer to be handed out or named.
    pub expect: BTreeMap<Arc<ProducerId>, u64>,
    /// What comes before the cursor.
    pub pending: VecDeque<Item>,
    pub producers: u32,
    pub taken: u64,
    pub bytes: u64,
    pub lost: BTreeMap<LossReason, u64>,
    pub tails: Tails,
}

impl Subscription {
    pub fn new(name: String, policy: FramePolicy, from: FrameFrom, cursor: u64) -> Self {
        Subscription {
            name,
            policy,
            from,
            members: BTreeMap::new(),
            cursor,
            returned: BTreeMap::new(),
            expect: BTreeMap::new(),
            pending: VecDeque::new(),
            producers: 1,
            taken: 0,
            bytes: 0,
            lost: BTreeMap::new(),
            tails: Tails::default(),
        }
    }

    /// The next sequence of a producer to be handed out or named.
    pub fn expected(&self, producer: &ProducerId) -> u64 {
        let first = match self.from {
            FrameFrom::Sequence(first) => first,
            FrameFrom::Start | FrameFrom::Now => 0,
        };
        self.expect.get(producer).copied().unwrap_or(first)
    }

    /// Sets that.
    pub fn expect(&mut self, producer: &Arc<ProducerId>, next: u64) {
        match self.expect.get_mut(producer) {
            Some(expected) => *expected = next,
            None => drop(self.expect.insert(producer.clone(), next)),
        }
    }

    /// Names these as lost, before whatever is handed out next.
    pub fn lose(&mut self, producer: &ProducerId, first: u64, end: u64, reason: LossReason) {
        if first >= end {
            return;
        }
        *self.lost.entry(reason).or_default() += end - first;
        for item in self.pending.iter_mut().rev() {
            match item {
                Item::Lost(lost) if lost.producer == *producer => {
                    if lost.end == first && lost.reason == reason {
                        lost.end = end;
                        return;
                    }
                    break;
                }
                Item::Lost(_) => {}
                _ => break,
            }
        }
        let lost = LostRange { producer: producer.clone(), first, end, reason };
        self.pending.push_back(Item::Lost(lost));
    }

    /// Goes past what is at its cursor without handing it out: a frame is named as lost, a note stays to be handed out.
    /// False: too many notes wait.
    pub fn pass(&mut self, slot: Option<&Slot>, reason: LossReason) -> bool {
        match slot.map(|slot| &slot.kind) {
            Some(Kind::Frame { producer, sequence, .. }) => {
                let expected = self.expected(producer);
                if *sequence >= expected {
                    self.lose(producer, expected, *sequence, LossReason::Forgotten);
                    self.lose(producer, *sequence, *sequence + 1, reason);
                    self.expect(producer, *sequence + 1);
                }
            }
            Some(Kind::Note(_)) if self.pending.len() >= NOTES_MAX => return false,
            Some(Kind::Note(item)) => self.pending.push_back(item.clone()),
            Some(Kind::Nothing) | None => {}
        }
        self.cursor += 1;
        true
    }

    /// Whether it drops rather than waits.
    pub fn drops(&self) -> bool {
        matches!(self.policy, FramePolicy::DropOldest { .. } | FramePolicy::LatestOnly)
    }

    /// Whether what it has not been handed must stay.
    pub fn needs(&self, place: u64) -> bool {
        place >= self.cursor
    }

    pub fn status(&self, behind: u64) -> ConsumerStatus {
        ConsumerStatus {
            name: self.name.clone(),
            members: self.members.values().filter(|member| member.link.is_some()).count() as u32,
            policy: self.policy,
            behind: behind + self.returned.len() as u64,
            in_flight: self.members.values().map(|member| member.frames() as u64).sum(),
            taken: self.taken,
            bytes: self.bytes,
            lost: self.lost.iter().map(|(reason, count)| (*reason, *count)).collect(),
            tail_ns: self.tails.four(),
        }
    }
}
