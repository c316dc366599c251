//! A consumer, or a group that shares, as its hub knows it.

use super::earlier::Earlier;
use super::log::{Disk, HeldFrame, Kind, Logged};
use super::producers::KnownProducer;
use super::retired::Before;
use crate::frames::lane::{Outgoing, Window, cost_of};
use crate::frames::sets::OpenSets;
use crate::frames::spill::Location;
use crate::frames::tails::Tails;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::limits;
use thalweg_wire::message::{
    ConsumerStatus, FrameFrom, FramePolicy, GroupSet, Item, LossReason, LostRange, ProducerId, SetOver,
};

/// Notes that may wait for a consumer that takes nothing: then what follows waits as well.
const NOTES_MAX: usize = 64 << 10;

/// A word that is handed out.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub item: Item,
    /// Where it stands in the log; `None`: it was made for this consumer.
    pub position: Option<u64>,
}

impl Note {
    /// One that stands nowhere.
    pub fn made(item: Item) -> Note {
        Note { item, position: None }
    }
}

/// Something handed out.
#[derive(Debug, Clone)]
pub(super) enum Handed {
    Note(Note),
    /// A frame in memory.
    Frame(u64, Arc<HeldFrame>),
    /// A frame that has to be read.
    OnDisk {
        position: u64,
        at: Location,
        cost: u64,
        producer: Arc<ProducerId>,
        sequence: u64,
        set: Option<(u64, u32)>,
    },
}

impl Handed {
    /// Whether it is to be read there.
    pub fn is_at(&self, there: Location) -> bool {
        matches!(self, Handed::OnDisk { at, .. } if *at == there)
    }

    /// Its position, if it has one.
    pub fn position(&self) -> Option<u64> {
        match self {
            Handed::Frame(position, _) | Handed::OnDisk { position, .. } => Some(*position),
            Handed::Note(_) => None,
        }
    }

    /// What it takes in a lane.
    pub fn cost(&self) -> u64 {
        match self {
            Handed::Frame(_, held) => held.cost(),
            Handed::OnDisk { cost, .. } => *cost,
            Handed::Note(note) => cost_of(&note.item),
        }
    }

    /// Whether it goes to another member of a group if the one that has it leaves: all were handed the rest.
    pub fn is_owed(&self) -> bool {
        let Handed::Note(note) = self else { return true };
        !matches!(note.item, Item::End | Item::GroupSet(_) | Item::ProducerOver { .. })
    }

    /// As it stands in the log, and where; `None`: it was made for this consumer.
    pub fn into_logged(self) -> Option<(u64, Logged)> {
        Some(match self {
            Handed::Note(Note { item, position }) => {
                (position?, Logged { kind: Kind::Note(item), held: None, disk: Disk::No })
            }
            Handed::Frame(position, held) => {
                let kind = Kind::Frame {
                    producer: Arc::new(held.head.producer.clone()),
                    sequence: held.head.sequence,
                    cost: held.cost(),
                    set: held.head.set,
                };
                (position, Logged { kind, held: Some(held), disk: Disk::No })
            }
            Handed::OnDisk { position, at, cost, producer, sequence, set } => {
                let kind = Kind::Frame { producer, sequence, cost, set };
                (position, Logged { kind, held: None, disk: Disk::At(at) })
            }
        })
    }

    /// The set that it is a frame of.
    fn set(&self) -> Option<u64> {
        match self {
            Handed::Note(_) => None,
            Handed::Frame(_, held) => held.head.set.map(|(set, _)| set),
            Handed::OnDisk { set, .. } => set.map(|(set, _)| set),
        }
    }
}

#[derive(Debug)]
pub(super) struct Member {
    pub lane: Outgoing<Handed>,
    /// The attachment that it has: one end of a lane, in one session.
    pub attachment: Option<u64>,
    /// The process that it is.
    pub process: [u8; 16],
    /// The link of that stands no more, and it may be replaced.
    pub is_lost: bool,
    /// The attachment that it had last.
    pub last_attachment: u64,
    /// Where it is, or was last.
    pub address: Option<String>,
    /// Its window is smaller than it asked for.
    pub is_narrow: bool,
    /// It goes on behind another process of its name.
    pub goes_on: bool,
    /// The end was handed out.
    pub ended: bool,
    /// Number of its lane.
    pub instance: u64,
    /// The first report that it was not handed.
    pub report: u64,
}

impl Member {
    pub fn new(window: Window, process: [u8; 16], instance: u64, report: u64) -> Member {
        Member {
            lane: Outgoing::new(window, 0),
            attachment: None,
            process,
            is_lost: false,
            last_attachment: 0,
            address: None,
            is_narrow: false,
            goes_on: false,
            ended: false,
            instance,
            report,
        }
    }

    /// What is in its lane and goes to another if it leaves.
    pub fn owed(&self) -> usize {
        self.lane.iter().filter(|handed| handed.is_owed()).count()
    }

    /// Frames in its lane.
    pub fn frames(&self) -> usize {
        self.lane.iter().filter(|handed| !matches!(handed, Handed::Note(_))).count()
    }
}

/// What a consumer had of sets is known in so many runs of them, 256 KiB or so: of older sets than fit it is not told,
/// who goes on behind it, and their frames count as missing there. In as many messages it is told.
const HAD_RUNS_MAX: usize = 2048;

#[derive(Debug)]
pub(super) struct Subscription {
    pub name: String,
    pub policy: FramePolicy,
    pub from: FrameFrom,
    /// Nothing before it came to this hub is owed to it.
    pub begins_now: bool,
    /// The position that it began with.
    pub begun: u64,
    /// The log has its position.
    pub is_noted: bool,
    pub members: BTreeMap<[u8; 16], Member>,
    /// The next position to hand out.
    pub cursor: u64,
    /// What members had that went away, by position.
    pub returned: BTreeMap<u64, Handed>,
    /// The next sequence of each producer to be handed out or named.
    pub expect: BTreeMap<Arc<ProducerId>, u64>,
    /// What comes before the cursor.
    pub pending: VecDeque<Note>,
    pub producers: u32,
    /// What it knows of producers from an earlier hub.
    pub earlier: Earlier,
    /// Producers that the hub had forgotten when it came: of the others it was told everything.
    pub retired_before: u64,
    /// It was told what it did not get of those, or nothing of theirs is owed to it.
    pub is_told_of_retired: bool,
    pub taken: u64,
    /// So many were taken when it was noted in the log how far it is, and when that was.
    pub noted_taken: u64,
    pub noted_ns: u64,
    pub bytes: u64,
    pub lost: BTreeMap<LossReason, u64>,
    /// It blocked for too long, and is not waited for until it takes something.
    pub is_passed_over: bool,
    /// Since when it has held producers up, took nothing, and nothing left for it.
    pub held_since: Option<Duration>,
    /// The same, whatever left for it.
    pub untaken_since: Option<Duration>,
    pub tails: Tails,
    pub group: Option<GroupSets>,
    /// What a consumer by itself took of sets of which it was not told that they are over: another process under its
    /// name does not know.
    pub had: OpenSets,
}

/// What the members of a group have of sets: each alone could not say whether one is complete. And what each of them is
/// told.
#[derive(Debug)]
pub(super) struct GroupSets {
    /// What members took.
    taken: OpenSets,
    /// Sets that are over, of which members may still have frames that they did not take.
    over: BTreeMap<u64, SetOver>,
    /// Reports of sets, and who is over, that not every member was handed; and the number of the first.
    reports: VecDeque<Note>,
    first: u64,
}

/// Reports that wait for a member: then what follows waits as well.
const REPORTS_MAX: usize = 1024;

impl GroupSets {
    fn new() -> GroupSets {
        // As a consumer: the hub says that the lowest is over a little after the frame that was one set too many.
        let taken = OpenSets::new(2 * limits::SETS_OPEN_MAX);
        GroupSets { taken, over: BTreeMap::new(), reports: VecDeque::new(), first: 0 }
    }

    fn end(&self) -> u64 {
        self.first + self.reports.len() as u64
    }

    /// A member took this frame of a set.
    pub fn took(&mut self, set: u64, index: u32) {
        if let Some(open) = self.taken.make_room(set) {
            open.bits.insert(index);
        }
    }

    /// A set was reported before.
    pub fn forget(&mut self, set: u64) {
        self.taken.close(set);
    }

    fn report(&mut self, over: SetOver) {
        let bits = self.taken.close(over.set).map(|open| open.bits).unwrap_or_default();
        let missing = bits.missing(over.frames);
        let delivered = over.frames - missing.count;
        let set = GroupSet { over, delivered, missing: missing.ranges };
        self.reports.push_back(Note::made(Item::GroupSet(set)));
    }
}

impl Subscription {
    pub fn new(name: String, is_group: bool, policy: FramePolicy, from: FrameFrom, cursor: u64) -> Self {
        Subscription {
            name,
            policy,
            from,
            begins_now: false,
            begun: cursor,
            is_noted: false,
            members: BTreeMap::new(),
            cursor,
            returned: BTreeMap::new(),
            expect: BTreeMap::new(),
            pending: VecDeque::new(),
            producers: 1,
            earlier: Earlier::default(),
            retired_before: 0,
            is_told_of_retired: false,
            taken: 0,
            noted_taken: 0,
            noted_ns: 0,
            bytes: 0,
            lost: BTreeMap::new(),
            is_passed_over: false,
            held_since: None,
            untaken_since: None,
            tails: Tails::default(),
            group: is_group.then(GroupSets::new),
            had: OpenSets::new(2 * limits::SETS_OPEN_MAX),
        }
    }

    /// The number of the next report.
    pub fn reports_end(&self) -> u64 {
        self.group.as_ref().map_or(0, GroupSets::end)
    }

    /// The next report for a member that was handed those below `from`.
    pub fn report_from(&self, from: u64) -> Option<Note> {
        let group = self.group.as_ref()?;
        let index = usize::try_from(from.checked_sub(group.first)?).ok()?;
        group.reports.get(index).cloned()
    }

    /// A producer is over: of a group each member is told, for each knows some of its frames.
    pub fn tell_over(&mut self, over: Note) {
        match &mut self.group {
            Some(group) => group.reports.push_back(over),
            None => self.pending.push_back(over),
        }
    }

    /// Whether a set is over and not reported.
    pub fn awaits_report(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.over.is_empty())
    }

    /// A member took a frame.
    pub fn took(&mut self, held: &HeldFrame) {
        self.taken += 1;
        self.bytes += held.head.payload_bytes;
        let Some((set, index)) = held.head.set else { return };
        match &mut self.group {
            Some(group) => group.took(set, index),
            None => self.had.note(set, index, HAD_RUNS_MAX),
        }
    }

    /// A member took this word.
    pub fn was_told(&mut self, item: &Item) {
        if let Item::SetOver(over) = item {
            self.had.close(over.set);
        }
    }

    /// Reports that a member was not handed, from this number on.
    pub fn untold(&self, from: u64) -> impl Iterator<Item = Note> {
        (from..self.reports_end()).filter_map(|number| self.report_from(number))
    }

    /// Reports the sets that are over and of which no member has a frame that it did not take; whether there was one.
    /// Forgets what all members were handed. All members must be there.
    pub fn report_sets(&mut self) -> bool {
        let Subscription { group: Some(group), members, returned, .. } = self else { return false };
        let told = members.values().map(|member| member.report).min().unwrap_or(group.end());
        while group.first < told && group.reports.pop_front().is_some() {
            group.first += 1;
        }
        if group.over.is_empty() {
            return false;
        }
        let on_the_way: BTreeSet<u64> = members
            .values()
            .flat_map(|member| member.lane.iter())
            .chain(returned.values())
            .filter_map(Handed::set)
            .collect();
        let ready: Vec<SetOver> =
            group.over.values().filter(|over| !on_the_way.contains(&over.set)).copied().collect();
        for over in &ready {
            group.over.remove(&over.set);
            group.report(*over);
        }
        !ready.is_empty()
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
        for note in self.pending.iter_mut().rev() {
            match &mut note.item {
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
        self.pending.push_back(Note::made(Item::Lost(lost)));
    }

    /// Whether it had all of one that was forgotten, or was told what it did not get.
    pub fn knows(&self, before: Before) -> bool {
        self.is_told_of_retired || self.retired_before <= before.number
    }

    /// Names what was never handed out of a producer of which the log has nothing more.
    pub fn lose_rest(&mut self, known: &KnownProducer) {
        self.lose_before(&known.id, known.first_here, known.next);
        self.expect(&known.id, known.next.max(self.expected(&known.id)));
    }

    /// The same of one whose sequence goes on with `next`, and of which the hub took `first_here` first: what was
    /// before, another hub had.
    pub fn lose_before(&mut self, id: &ProducerId, first_here: u64, next: u64) {
        let expected = self.expected(id);
        let restart = first_here.clamp(expected, next.max(expected));
        self.lose(id, expected, restart, LossReason::HubRestart);
        self.lose(id, restart, next, LossReason::Forgotten);
    }

    /// Goes past what is at its cursor without handing it out: a frame is named as lost, a note stays to be handed out.
    /// False: too many notes wait.
    pub fn pass(&mut self, logged: Option<&Logged>, reason: LossReason) -> bool {
        match logged.map(|logged| &logged.kind) {
            Some(Kind::Frame { producer, sequence, .. }) => {
                let expected = self.expected(producer);
                if *sequence >= expected {
                    self.lose(producer, expected, *sequence, LossReason::Forgotten);
                    self.lose(producer, *sequence, *sequence + 1, reason);
                    self.expect(producer, *sequence + 1);
                }
            }
            // Of the log, not of consumers.
            Some(Kind::Note(Item::SetBegun { .. } | Item::ConsumerAt(_))) => {}
            Some(Kind::Note(item @ (Item::SetOver(_) | Item::ProducerOver { .. })))
                if self.group.is_some() =>
            {
                let Some(group) = &mut self.group else { return false };
                if group.reports.len() + group.over.len() >= REPORTS_MAX {
                    return false;
                }
                match item {
                    Item::SetOver(over) => {
                        group.over.insert(over.set, *over);
                    }
                    _ => self.tell_over(Note { item: item.clone(), position: Some(self.cursor) }),
                }
            }
            Some(Kind::Note(_)) if self.pending.len() >= NOTES_MAX => return false,
            Some(Kind::Note(item)) => {
                self.pending.push_back(Note { item: item.clone(), position: Some(self.cursor) });
            }
            Some(Kind::Nothing) | None => {}
        }
        self.cursor += 1;
        true
    }

    /// Whether it drops rather than waits.
    pub fn drops(&self) -> bool {
        let is_policy = matches!(self.policy, FramePolicy::DropOldest { .. } | FramePolicy::LatestOnly);
        is_policy || self.is_passed_over
    }

    /// Whether what it has not been handed must stay.
    pub fn needs(&self, position: u64) -> bool {
        position >= self.cursor
    }

    /// How it stands; one that is passed over with the policy that it is treated by.
    pub fn status(&self, behind: u64) -> ConsumerStatus {
        let policy = if self.is_passed_over { FramePolicy::DropOldest { depth: 0 } } else { self.policy };
        let addresses: BTreeSet<&String> =
            self.members.values().filter_map(|member| member.address.as_ref()).collect();
        ConsumerStatus {
            name: self.name.clone(),
            addresses: addresses.into_iter().take(limits::STATUS_ADDRESSES_MAX).cloned().collect(),
            members: self.members.values().filter(|member| member.attachment.is_some()).count() as u32,
            policy,
            behind: behind + self.returned.len() as u64,
            in_flight: self.members.values().map(|member| member.frames() as u64).sum(),
            taken: self.taken,
            bytes: self.bytes,
            lost: self.lost.iter().map(|(reason, count)| (*reason, *count)).collect(),
            tail_ns: self.tails.four(),
        }
    }
}
