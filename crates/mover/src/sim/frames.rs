//! Frames in virtual time: the real machines of [`crate::frames`], simulated links and a simulated spill log, and a
//! check after each step.
//!
//! One seed is one story: some producers that push frames of any size, of sets some of them; some consumers, alone or
//! in a group, each by a policy, and each with the window that it asks for or, in a third of the stories, with less; a
//! channel with little memory, maybe with a spill log that is small too; in some stories, where the hub stays,
//! producers that come late and consumers that wait for all of them; and faults, by `seed % 7`: none; consumers that
//! stall; streams that break; links that break, with whatever was on its way, some for longer than the hub waits for a
//! consumer; kills of producers and consumers; restarts of the hub, which takes what was in memory with it, and of the
//! log what was not synced; all of these.
//!
//! # What is checked
//! 1. Each consumer is delivered the frames of a producer in order, none twice, each as it was pushed.
//! 2. Every sequence is delivered or named, exactly once; with `block` and `spill` (and room in the log), where no hub
//!    was restarted, every one is delivered, also to the only consumer after the hub had given it up.
//! 3. Members of a group together get each frame once, or one of them is told of its loss; after one was killed or
//!    given up, or the hub killed, none is missing, and some may come again.
//! 4. A set is reported as it was delivered; to the members of a group, as it was to all of them together.
//! 5. Frames that a producer was told are durable survive the hub.
//! 6. Memory has its bound.
//! 7. Neither machine calls the other's words a breach of protocol.
//! 8. A consumer that waits for so many producers hears of no end before as many are over, also where some come late.
//! 9. When faults stop, everything ends, however long consumers wait for producers of an earlier hub.
//!
//! # Not simulated
//! Files (the real log is tested by itself), clocks, hostile peers, threads and locks.

// What strikes.
mod faults;

// What is checked.
mod checks;

use super::random::Random;
use crate::frames::channel::{Action, Channel, ConsumerKey, Record, What, Work};
use crate::frames::consumer::Consumer;
use crate::frames::frame::{Delivery, Payload};
use crate::frames::lane::Window;
use crate::frames::producer::Producer;
use crate::frames::spill::{Location, SpillTerms};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thalweg_wire::Digest;
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelWishes, Consume, FrameFrom, FrameHead, FramePolicy, FramesMessage, HeldLevel, Item, LossReason,
    ProducerId,
};

/// Streams of each link.
const STREAMS: u16 = 2;
/// Steps in which faults may strike, and after which everything must have ended.
const FAULTY_STEPS: u64 = 700;
const STEPS_MAX: u64 = 100_000;
/// Classes of faults.
const CLASSES: u64 = 7;
/// Of consumers; what blocks its producers is drawn twice as often.
const POLICIES: [FramePolicy; 6] = [
    FramePolicy::Block,
    FramePolicy::Block,
    FramePolicy::Spill,
    FramePolicy::DropOldest { depth: 0 },
    FramePolicy::DropOldest { depth: 3 },
    FramePolicy::LatestOnly,
];
/// A hub that has less for a consumer has this part of what it asks for.
const NARROW: u64 = 5;
/// Records of a simulated file.
const FILE_BYTES: u64 = 4_000;

/// A link, for one attachment: what is on its way.
struct Wire {
    attachment: u64,
    up: bool,
    /// The hub does not know the session any more.
    needs_session: bool,
    to_hub: VecDeque<FramesMessage>,
    from_hub: VecDeque<FramesMessage>,
    /// Items on each stream, whole: epoch, number, item, payload.
    streams: Vec<VecDeque<(u16, u64, Item, Payload)>>,
}

struct Made {
    machine: Producer,
    id: ProducerId,
    level: HeldLevel,
    wire: Wire,
    frames: u64,
    pushed: u64,
    /// The step from which on it comes.
    begins_at: u64,
    sets: Option<u32>,
    is_dead: bool,
    finished: bool,
    /// Frames of which a hub knows: one that has finished does not come back to the next hub to tell it.
    known: u64,
}

struct Taker {
    machine: Consumer,
    asks: Consume,
    key: ConsumerKey,
    wire: Wire,
    window: Window,
    /// What it was delivered or told, in order: producer, sequence.
    next: BTreeMap<String, u64>,
    delivered: BTreeMap<String, BTreeSet<u64>>,
    lost: BTreeMap<LossReason, u64>,
    /// What it was told that it does not get.
    named: BTreeMap<String, BTreeSet<u64>>,
    in_sets: BTreeMap<u64, BTreeSet<u32>>,
    reported: BTreeSet<u64>,
    stalled_until: u64,
    is_dead: bool,
    /// The hub waited for it no longer, and it came back.
    was_given_up: bool,
    ended: bool,
}

struct World {
    random: Random,
    class: u64,
    /// The hub has less for consumers than they ask for.
    is_narrow: bool,
    hub: Channel,
    wishes: ChannelWishes,
    memory_max: u64,
    spill: Option<SpillTerms>,
    /// The log: position, record, where; and how far it is synced.
    stored: VecDeque<(u64, Record, Location)>,
    writes: VecDeque<(u64, Record)>,
    at: (u64, u64),
    written_through: u64,
    synced_through: u64,
    makers: Vec<Made>,
    takers: Vec<Taker>,
    attachments: u64,
    now: u64,
    step: u64,
    faults: u64,
    restarts: u64,
    kills: u64,
    given_up: u64,
    /// Frames that a producer was told the hub has for good.
    promised: BTreeMap<ProducerId, u64>,
    spilled: u64,
    read_back: u64,
    retired: u64,
    narrowed: u64,
    late: u64,
}

/// What happened in a story: who runs many sees whether there was anything to be checked.
#[derive(Debug, Clone, Default)]
pub struct StoryTally {
    /// Faults that struck.
    pub faults: u64,
    /// Frames that consumers by themselves were told they do not get.
    pub lost: BTreeMap<LossReason, u64>,
    /// The same of members of groups.
    pub lost_in_groups: BTreeMap<LossReason, u64>,
    /// Frames that went to a log that has only what memory has no room for.
    pub spilled: u64,
    /// Frames that were read out of such a log to be handed out.
    pub read_back: u64,
    /// Producers that the hub forgot while consumers were there.
    pub retired: u64,
    /// Consumers that were told that their window is smaller than they asked for.
    pub narrowed: u64,
    /// Consumers that the hub waited for no longer, and that came back.
    pub given_up: u64,
    /// Producers that came late, and that consumers waited for.
    pub late: u64,
}

impl StoryTally {
    /// Adds another story's.
    pub fn add(&mut self, other: &StoryTally) {
        self.faults += other.faults;
        self.spilled += other.spilled;
        self.read_back += other.read_back;
        self.retired += other.retired;
        self.narrowed += other.narrowed;
        self.given_up += other.given_up;
        self.late += other.late;
        for (sums, more) in [(&mut self.lost, &other.lost), (&mut self.lost_in_groups, &other.lost_in_groups)]
        {
            more.iter().for_each(|(reason, count)| *sums.entry(*reason).or_default() += count);
        }
    }
}

/// Runs one seed; how many faults struck.
///
/// # Errors
/// What was violated.
pub fn check(seed: u64) -> Result<u64, String> {
    story(seed).map(|told| told.faults)
}

/// The same, with what happened.
///
/// # Errors
/// What was violated.
pub fn story(seed: u64) -> Result<StoryTally, String> {
    let mut world = World::new(seed);
    for step in 0..STEPS_MAX {
        world.step = step;
        world.now += world.random.below(1_000_000);
        if step < FAULTY_STEPS {
            world.strike()?;
        } else {
            world.heal()?;
        }
        world.go()?;
        world.look()?;
        if world.is_over() {
            world.at_end()?;
            return Ok(world.told());
        }
    }
    let ends = world.takers.iter_mut().map(|taker| {
        let epoch = world.hub.consumer_epoch(taker.wire.attachment, &taker.key, &taker.asks.consumer);
        let ways: Vec<usize> = taker.wire.streams.iter().map(VecDeque::len).collect();
        let (up, held, said) = (taker.wire.up, taker.machine.held_bytes(), taker.wire.to_hub.len());
        format!("{:?} up {up} epoch {epoch:?} ways {ways:?} holds {held} said {said}", taker.asks.policy)
    });
    let ends: Vec<String> = ends.collect();
    Err(format!("it does not end: {ends:?} {:?}", world.hub.status()))
}

impl Wire {
    fn new(attachment: u64) -> Wire {
        Wire {
            attachment,
            up: true,
            needs_session: false,
            to_hub: VecDeque::new(),
            from_hub: VecDeque::new(),
            streams: (0..STREAMS).map(|_| VecDeque::new()).collect(),
        }
    }

    /// The other end is gone, with its session.
    fn lose(&mut self) {
        self.clear();
        (self.up, self.needs_session) = (false, true);
    }

    fn clear(&mut self) {
        self.to_hub.clear();
        self.from_hub.clear();
        self.streams.iter_mut().for_each(VecDeque::clear);
    }
}

fn payload_of(producer: &ProducerId, sequence: u64, bytes: u64) -> Payload {
    let mut out = vec![0; bytes as usize];
    let mut hasher = blake3::Hasher::new();
    hasher.update(producer.as_str().as_bytes()).update(&sequence.to_le_bytes());
    hasher.finalize_xof().fill(&mut out);
    out.into()
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed ^ 0x00f4_a3e5);
        let is_recorded = random.percent(40);
        let spill_max = random.pick(&[12_000u64, 100_000, 10_000_000]);
        let wishes = ChannelWishes { is_recorded, ..ChannelWishes::default() };
        let memory_max = random.pick(&[3_000u64, 10_000, 100_000]);
        let mut world = World {
            class: seed % CLASSES,
            is_narrow: (seed / CLASSES).is_multiple_of(3),
            hub: Channel::new(&wishes, memory_max, 0),
            wishes,
            memory_max,
            spill: None,
            stored: VecDeque::new(),
            writes: VecDeque::new(),
            at: (0, 0),
            written_through: 0,
            synced_through: 0,
            makers: Vec::new(),
            takers: Vec::new(),
            attachments: 0,
            now: 1_000_000_000,
            step: 0,
            faults: 0,
            restarts: 0,
            kills: 0,
            given_up: 0,
            promised: BTreeMap::new(),
            spilled: 0,
            read_back: 0,
            retired: 0,
            narrowed: 0,
            late: 0,
            random,
        };
        let spills = world.draw_takers();
        if spills || is_recorded {
            world.spill = Some(SpillTerms { is_recorded, bytes_max: spill_max });
            world.hub.set_spill(SpillTerms { is_recorded, bytes_max: spill_max });
        }
        world.draw_makers(is_recorded);
        world.draw_waits(seed);
        for index in 0..world.makers.len() {
            if world.makers[index].begins_at == 0 {
                world.attach_maker(index).unwrap_or_default();
            }
        }
        for index in 0..world.takers.len() {
            world.attach_taker(index).unwrap_or_default();
        }
        world
    }

    /// Consumers, each by itself or all in one group. Returns whether one of them wants what memory has no room for.
    fn draw_takers(&mut self) -> bool {
        let random = &mut self.random;
        let consumers = random.within(1, 3);
        let is_group = random.percent(20);
        let group_policy = random.pick(&POLICIES);
        for number in 0..consumers {
            let policy = if is_group { group_policy } else { random.pick(&POLICIES) };
            let asks = Consume {
                consumer: [number as u8 + 1; 16],
                process: [number as u8 + 1; 16],
                name: None,
                group: is_group.then(|| "all".to_owned()),
                policy,
                from: if random.percent(70) { FrameFrom::Start } else { FrameFrom::Now },
                instance: None,
                has: Vec::new(),
                producers: 1,
                keep_ms: 0,
                patience_ms: 0,
            };
            self.takers.push(Taker::new(asks, random.pick(&[1_000u64, 5_000, 50_000])));
        }
        self.takers.iter().any(|taker| taker.asks.policy == FramePolicy::Spill)
    }

    /// Producers, with what each has to push. Where it is recorded some wait until it is on disk.
    fn draw_makers(&mut self, is_recorded: bool) {
        let random = &mut self.random;
        for number in 0..random.within(1, 3) {
            let name = format!("p{number}");
            let Ok(id) = ProducerId::new(&name) else { continue };
            let window =
                Window { bytes: random.pick(&[1_000u64, 5_000, 50_000]), items: random.pick(&[1, 4, 64]) };
            let level = match is_recorded && random.percent(50) {
                true => HeldLevel::Durable,
                false => HeldLevel::Memory,
            };
            let frames = random.pick(&[0u64, 1, 7, 60]);
            let sets = random.percent(50).then(|| random.pick(&[1u32, 5, 20]));
            self.makers.push(Made {
                machine: Producer::new(id.clone(), window),
                id,
                level,
                wire: Wire::new(0),
                frames,
                pushed: 0,
                begins_at: 0,
                sets,
                is_dead: false,
                finished: false,
                known: frames,
            });
        }
    }

    /// For how many producers consumers wait, and for how long for those of an earlier hub. By random numbers of its
    /// own: what else is drawn is the same without.
    fn draw_waits(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ 0x0077_a175);
        for taker in &mut self.takers {
            taker.asks.patience_ms = random.pick(&[0u32, 2, 20]);
        }
        // For one that only a hub knew which is gone they would wait for ever, and rightly.
        let makers = self.makers.len();
        if self.class >= 5 || makers < 2 || !random.percent(40) {
            return;
        }
        self.takers.iter_mut().for_each(|taker| taker.asks.producers = makers as u32);
        for maker in self.makers.iter_mut().skip(1) {
            maker.begins_at = random.within(1, 300);
            maker.wire.lose();
            self.late += 1;
        }
    }

    fn told(&self) -> StoryTally {
        let mut told = StoryTally {
            faults: self.faults,
            spilled: self.spilled,
            read_back: self.read_back,
            retired: self.retired,
            narrowed: self.narrowed,
            given_up: self.given_up,
            late: self.late,
            ..StoryTally::default()
        };
        for taker in &self.takers {
            let sums = match taker.asks.group {
                Some(_) => &mut told.lost_in_groups,
                None => &mut told.lost,
            };
            taker.lost.iter().for_each(|(reason, count)| *sums.entry(*reason).or_default() += count);
        }
        told
    }

    fn new_attachment(&mut self) -> u64 {
        self.attachments += 1;
        self.attachments
    }

    /// A new session of a producer.
    fn attach_maker(&mut self, index: usize) -> Result<(), String> {
        let attachment = self.new_attachment();
        let maker = &mut self.makers[index];
        let old = maker.wire.attachment;
        maker.wire.clear();
        maker.wire = Wire::new(attachment);
        maker.machine.unlink();
        (0..STREAMS).for_each(|stream| maker.machine.stream_lost(stream));
        self.hub.detach(old);
        let (id, first, level) = (maker.id.clone(), maker.machine.first(), maker.level);
        let window = maker.machine.window();
        let process = [index as u8 + 1; 16];
        self.hub
            .attach(attachment, (&id, process), first, level, window)
            .map_err(|error| error.to_string())?;
        self.pump()
    }

    /// A new session of a consumer.
    fn attach_taker(&mut self, index: usize) -> Result<(), String> {
        let attachment = self.new_attachment();
        let taker = &mut self.takers[index];
        self.hub.unlink_consumer(taker.wire.attachment, &taker.key, &taker.asks.consumer);
        taker.wire.clear();
        taker.wire = Wire::new(attachment);
        taker.machine.unlink();
        let asks =
            Consume { instance: taker.machine.instance(), has: taker.machine.has(), ..taker.asks.clone() };
        let asked = taker.window;
        let window = Window { bytes: asked.bytes / if self.is_narrow { NARROW } else { 1 }, ..asked };
        let subscribed = self.hub.subscribe(attachment, &asks, window).map_err(|error| error.to_string())?;
        let taker = &mut self.takers[index];
        taker.machine.subscribed(subscribed.instance);
        if window.bytes < asked.bytes {
            self.hub.tell_window(attachment, &taker.key, &asks.consumer);
        }
        self.pump()
    }

    fn go(&mut self) -> Result<(), String> {
        let maker = self.random.below(self.makers.len() as u64) as usize;
        let taker = self.random.below(self.takers.len() as u64) as usize;
        match self.random.below(9) {
            0 => self.push(maker)?,
            1 => self.send(maker),
            2 => self.hub_hears(maker)?,
            3 => self.maker_hears(maker)?,
            4 => self.hand_out(taker)?,
            5 => self.taker_hears(taker)?,
            6 => self.take(taker)?,
            7 => self.write(),
            _ => {
                self.hub.tick(self.now);
                self.takers[taker].machine.tick();
                let maker = &self.makers[maker];
                let is_over = |hub: &Channel| {
                    hub.status().producers.iter().any(|row| row.producer == maker.id && row.is_finished)
                };
                if maker.finished && is_over(&self.hub) {
                    // It leaves, and is forgotten as where a channel has too many.
                    self.hub.detach(maker.wire.attachment);
                    self.retired += u64::from(self.hub.retire_one());
                }
            }
        }
        self.pump()
    }

    fn push(&mut self, index: usize) -> Result<(), String> {
        let maker = &mut self.makers[index];
        if maker.is_dead || maker.machine.first().is_none() {
            return Ok(());
        }
        if maker.pushed == maker.frames {
            maker.machine.finish();
            return Ok(());
        }
        let bytes = self.random.pick(&[0u64, 1, 100, 700]);
        if !maker.machine.has_room(bytes, 0) {
            return Ok(());
        }
        let payload = payload_of(&maker.id, maker.pushed, bytes);
        // Each producer has sets of its own.
        let set = maker.sets.map(|frames| {
            let number = maker.pushed / u64::from(frames) * 10 + index as u64;
            (number, (maker.pushed % u64::from(frames)) as u32)
        });
        if let (Some((set, 0)), Some(frames)) = (set, maker.sets) {
            maker.machine.declare(set, frames).map_err(|error| error.to_string())?;
        }
        let digest = Digest(*blake3::hash(&payload).as_bytes());
        let bare = FrameHead::bare(maker.id.clone(), 0, bytes, digest);
        let head = FrameHead { set, time_ns: self.now, ..bare };
        let sequence = maker.machine.push(head, payload).map_err(|error| error.to_string())?;
        if sequence != maker.pushed {
            return Err(format!("{} numbers {sequence} after {} frames", maker.id, maker.pushed));
        }
        maker.pushed += 1;
        Ok(())
    }

    fn send(&mut self, index: usize) {
        let maker = &mut self.makers[index];
        let stream = self.random.below(STREAMS.into()) as u16;
        if maker.wire.up
            && let Some((epoch, made)) = maker.machine.next(stream)
        {
            let item = Item::Frame(Box::new(made.head.clone()));
            let on = (epoch, made.head.sequence, item, made.payload.clone());
            maker.wire.streams[usize::from(stream)].push_back(on);
        }
    }

    fn hub_hears(&mut self, index: usize) -> Result<(), String> {
        let maker = &mut self.makers[index];
        let attachment = maker.wire.attachment;
        if self.random.percent(50) {
            let Some(message) = maker.wire.to_hub.pop_front() else { return Ok(()) };
            return self.hub.hear(attachment, message, self.now).map_err(|error| format!("the hub: {error}"));
        }
        let stream = self.random.below(STREAMS.into()) as usize;
        let Some((epoch, number, item, payload)) = maker.wire.streams[stream].pop_front() else {
            return Ok(());
        };
        if self.hub.begin(attachment, epoch, number, &item).map_err(|error| format!("the hub: {error}"))? {
            if self.class == 6 && self.random.percent(2) {
                let damaged = self.hub.damaged(attachment, epoch, number);
                return damaged.map_err(|error| format!("the hub: {error}"));
            }
            self.hub.arrived(attachment, epoch, number, item, payload, self.now);
        }
        Ok(())
    }

    fn maker_hears(&mut self, index: usize) -> Result<(), String> {
        let maker = &mut self.makers[index];
        let Some(message) = maker.wire.from_hub.pop_front() else { return Ok(()) };
        if let (FramesMessage::Taken { next }, HeldLevel::Durable) = (&message, maker.level) {
            let promised = self.promised.entry(maker.id.clone()).or_default();
            *promised = (*promised).max(*next);
        }
        maker.machine.hear(message).map_err(|error| format!("{}: {error}", maker.id))?;
        maker.finished |= maker.machine.is_finished();
        Ok(())
    }

    fn hand_out(&mut self, index: usize) -> Result<(), String> {
        let taker = &mut self.takers[index];
        if !taker.wire.up {
            return Ok(());
        }
        let (attachment, who) = (taker.wire.attachment, taker.asks.consumer);
        let stream = self.random.below(STREAMS.into()) as u16;
        if self.random.percent(30)
            && let Some(message) = taker.wire.to_hub.pop_front()
        {
            let heard = self.hub.hear_consumer(attachment, &taker.key, &who, message, self.now);
            return heard.map_err(|error| format!("the hub: {error}"));
        }
        match self.hub.next(attachment, &taker.key, &who, stream) {
            None => {}
            Some(Work::Send { number, epoch, what }) => {
                let (item, payload) = match what {
                    What::Note(item) => (item, Payload::default()),
                    What::Frame(held) => (Item::Frame(Box::new(held.head.clone())), held.payload.clone()),
                };
                taker.wire.streams[usize::from(stream)].push_back((epoch, number, item, payload));
            }
            Some(Work::Read { number, at, position }) => {
                let mut stored = self.stored.iter();
                let found = stored.find(|(stored, _, stands)| *stored == position && *stands == at);
                let held = found.and_then(|(_, record, _)| match record {
                    Record::Frame(held) => Some(held.clone()),
                    Record::Note(_) => None,
                });
                if held.is_none() {
                    return Err(format!("what stood at position {position} is not in the log"));
                }
                self.read_back += u64::from(!self.wishes.is_recorded);
                self.hub.loaded(&taker.key, &who, number, at, held);
                self.hub.admit(self.now);
            }
        }
        Ok(())
    }

    fn taker_hears(&mut self, index: usize) -> Result<(), String> {
        let taker = &mut self.takers[index];
        match taker.wire.from_hub.pop_front() {
            Some(FramesMessage::GoesOn) => taker.machine.goes_on(),
            Some(FramesMessage::SetHad { set, taken }) => taker.machine.had(set, &taken),
            Some(FramesMessage::WindowIs { bytes }) => {
                self.narrowed += 1;
                taker.machine.window_is(bytes);
            }
            Some(other) => return Err(format!("a consumer does not hear this: {other:?}")),
            None => {}
        }
        let stream = self.random.below(STREAMS.into()) as usize;
        let Some((epoch, number, item, payload)) = taker.wire.streams[stream].pop_front() else {
            return Ok(());
        };
        let breach = |error: crate::Failure| format!("a consumer: {error}");
        if taker.machine.begin(epoch, number, &item).map_err(breach)? {
            if self.class == 6 && self.random.percent(2) {
                taker.machine.damaged(epoch, number).map_err(breach)?;
            } else {
                taker.machine.arrived(epoch, number, item, payload, self.now).map_err(breach)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize) -> Result<(), String> {
        let taker = &mut self.takers[index];
        if taker.stalled_until > self.step || taker.is_dead {
            return Ok(());
        }
        let Some(delivery) = taker.machine.take_next() else { return Ok(()) };
        let single = taker.asks.group.is_none();
        match delivery {
            Delivery::Frame(frame) => {
                let id = ProducerId::new(&frame.producer).map_err(|error| error.to_string())?;
                let truth = payload_of(&id, frame.sequence, frame.payload.len() as u64);
                if *truth != *frame.payload {
                    return Err(format!("{} {} is not what was pushed", frame.producer, frame.sequence));
                }
                taker.expect(&frame.producer, frame.sequence, frame.sequence + 1, single)?;
                let is_new =
                    taker.delivered.entry(frame.producer.clone()).or_default().insert(frame.sequence);
                // A new hub does not know what of its log the members of a group had taken, nor does one that gave
                // them all up.
                if !is_new && (single || self.restarts + self.given_up == 0) {
                    return Err(format!("{} {} was delivered twice", frame.producer, frame.sequence));
                }
                if let Some((set, index)) = frame.set {
                    taker.in_sets.entry(set).or_default().insert(index);
                }
            }
            Delivery::Lost(lost) => {
                taker.expect(lost.producer.as_str(), lost.first, lost.end, single)?;
                *taker.lost.entry(lost.reason).or_default() += lost.count();
                let pushed = self.makers.iter().find(|maker| maker.id == lost.producer);
                if pushed.is_none_or(|maker| lost.end > maker.pushed) {
                    return Err(format!("what was never pushed is named as lost: {lost:?}"));
                }
                let named = taker.named.entry(lost.producer.as_str().to_owned()).or_default();
                for sequence in lost.first..lost.end {
                    if !named.insert(sequence) && self.restarts + self.kills + self.given_up == 0 {
                        return Err(format!("{} {sequence} was named twice", lost.producer));
                    }
                }
            }
            Delivery::Set(report) => {
                taker.reported.insert(report.set);
                let of = |taker: &Taker| taker.in_sets.get(&report.set).cloned().unwrap_or_default();
                let had: BTreeSet<u32> = match single {
                    true => of(taker),
                    false => self.takers.iter().flat_map(of).collect(),
                };
                let count = had.iter().filter(|&&index| index < report.frames).count() as u32;
                let missing: BTreeSet<u32> =
                    report.missing.iter().flat_map(|(first, end)| *first..*end).collect();
                let adds_up = report.delivered + missing.len() as u32 == report.frames;
                // Who comes back after a kill may add to a set of a group that was over; a new hub begins its count
                // anew.
                let is_exact = single || self.restarts + self.kills + self.given_up == 0;
                let is_true = match is_exact {
                    true => report.delivered == count && missing.is_disjoint(&had),
                    false => report.delivered <= count,
                };
                if !adds_up || !is_true {
                    return Err(format!("the report of a set is wrong: {report:?}, {had:?} were delivered"));
                }
            }
            Delivery::End(_) => {
                let is_over = |maker: &&Made| maker.is_dead || maker.pushed == maker.frames;
                let (over, wanted) = (self.makers.iter().filter(is_over).count(), taker.asks.producers);
                if self.late > 0 && (over as u64) < u64::from(wanted) {
                    return Err(format!("a consumer ended after {over} of {wanted} producers"));
                }
                taker.ended = true;
                taker.wire.to_hub.push_back(FramesMessage::Leave);
            }
        }
        Ok(())
    }

    /// The log's thread does one thing.
    fn write(&mut self) {
        if self.random.percent(30) {
            self.synced_through = self.written_through;
            self.hub.synced(self.synced_through);
            return;
        }
        let Some((position, record)) = self.writes.pop_front() else { return };
        let bytes = match &record {
            Record::Frame(held) => held.cost(),
            Record::Note(_) => 100,
        };
        if self.at.1 >= FILE_BYTES.min(self.spill.map_or(FILE_BYTES, |spill| spill.bytes_max / 8)) {
            self.at = (self.at.0 + 1, 0);
        }
        let at = Location { file: self.at.0, offset: self.at.1, bytes };
        self.at.1 += bytes;
        self.written_through = self.written_through.max(position + 1);
        self.stored.push_back((position, record.clone(), at));
        self.hub.written(position, at, &record, self.now);
    }

    fn pump(&mut self) -> Result<(), String> {
        while let Some(action) = self.hub.take_action() {
            match action {
                Action::Tell(attachment, message) => {
                    let is_its = |wire: &Wire| wire.attachment == attachment && wire.up;
                    let to = self.makers.iter_mut().find(|maker| is_its(&maker.wire));
                    if let Some(maker) = to {
                        maker.wire.from_hub.push_back(message);
                        continue;
                    }
                    let to = self.takers.iter_mut().find(|taker| is_its(&taker.wire));
                    if let Some(taker) = to {
                        taker.wire.from_hub.push_back(message);
                    }
                }
                Action::Wake => {}
                Action::Write(position, record) => {
                    self.spilled += u64::from(!self.wishes.is_recorded);
                    self.writes.push_back((position, record));
                }
                Action::Forget(file) => self.stored.retain(|(.., at)| at.file != file),
            }
        }
        for maker in self.makers.iter_mut().filter(|maker| maker.wire.up) {
            while let Some(message) = maker.machine.take_message() {
                maker.wire.to_hub.push_back(message);
            }
        }
        for taker in self.takers.iter_mut().filter(|taker| taker.wire.up) {
            while let Some(message) = taker.machine.take_message() {
                taker.wire.to_hub.push_back(message);
            }
        }
        Ok(())
    }
}

impl Taker {
    fn new(asks: Consume, window_bytes: u64) -> Taker {
        let items = match asks.policy {
            FramePolicy::LatestOnly => 2,
            _ if asks.group.is_some() => 4,
            _ => limits::LANE_ITEMS_MAX,
        };
        let window = Window { bytes: window_bytes, items };
        Taker {
            machine: Consumer::new(window, asks.from, asks.group.is_some()),
            key: ConsumerKey::of(&asks),
            asks,
            wire: Wire::new(0),
            window,
            next: BTreeMap::new(),
            delivered: BTreeMap::new(),
            lost: BTreeMap::new(),
            named: BTreeMap::new(),
            in_sets: BTreeMap::new(),
            reported: BTreeSet::new(),
            stalled_until: 0,
            is_dead: false,
            was_given_up: false,
            ended: false,
        }
    }

    /// These come next of a producer, delivered or named.
    fn expect(&mut self, producer: &str, first: u64, end: u64, single: bool) -> Result<(), String> {
        let known = self.next.get(producer).copied();
        let expected = known.unwrap_or(if self.asks.from == FrameFrom::Start { 0 } else { first });
        if single && first != expected {
            return Err(format!("{producer} {first} comes where {expected} is next"));
        }
        self.next.insert(producer.to_owned(), end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seed_breaks_a_promise_of_frames() {
        let mut told = StoryTally::default();
        for seed in 0..300 {
            match story(seed) {
                Ok(one) => told.add(&one),
                Err(what) => panic!("seed {seed}: {what}; cargo xtask sim --frames --seed {seed}"),
            }
        }
        // Nothing of this is checked where it does not happen.
        let (alone, together) = (&told.lost, &told.lost_in_groups);
        for reason in [LossReason::Dropped, LossReason::Superseded, LossReason::HubRestart] {
            assert!(alone.contains_key(&reason) && together.contains_key(&reason), "{reason:?}: {told:?}");
        }
        assert!(alone.contains_key(&LossReason::Forgotten), "{told:?}");
        assert!(told.faults > 0 && told.spilled > 0 && told.read_back > 0 && told.retired > 0, "{told:?}");
        assert!(told.narrowed > 0 && told.given_up > 0 && told.late > 0, "{told:?}");
    }
}
