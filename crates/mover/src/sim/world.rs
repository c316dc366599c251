//! Two movers, the link between them and the disks at both ends, in one thread and virtual time.

use super::destination::{Destination, Ready, Staged};
use super::disk::{Disk, Inode, Loss, Name, Node};
use super::plan::{BATCH_MAX, Fault, Plan};
use super::random::Random;
use super::source::{self, Source, chunk_digest, file_digest};
use crate::failure::{Failure, FailureKind};
use crate::transfer::Copy;
use crate::transfer::receiver::{self, Claim, Decided, Finished, Named, Receiver, RoundResult, RoundStep};
use crate::transfer::sender::{self, Next, Retry, Sender, Work};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest;
use thalweg_wire::message::{
    AckLevel, Message, Outcome, Run, ScanTotals, Steer, TransferMessage as Say, TransferNumber,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, Time};

mod checks;
mod content;
mod faults;
mod link;
mod receiving;
mod sending;

/// What a run of the simulation came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Hash of everything that happened, in order.
    pub trace: u64,
    /// Events.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// Faults that struck.
    pub faults: u64,
    /// Attempts of the command.
    pub runs: u64,
    /// Power cuts tried on copies of the disk.
    pub cuts_tried: u64,
    /// Entries settled at the sender.
    pub settled: u64,
}

impl Report {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.time += other.time;
        self.faults += other.faults;
        self.runs += other.runs;
        self.cuts_tried += other.cuts_tried;
        self.settled += other.settled;
    }
}

pub(super) struct World {
    plan: Plan,
    random: Random,
    now: Duration,
    sequence: u64,
    queue: BTreeMap<(Duration, u64), Event>,
    log: bool,
    report: Report,

    source: Source,
    disk: Disk,
    /// What stood at the destination before.
    before: BTreeMap<RelativePath, Vec<u8>>,
    /// Names that were given or kept: nobody else touches them.
    ours: BTreeSet<RelativePath>,

    sender: Option<SenderSide>,
    receiver: Option<ReceiverSide>,
    instances: u64,
    conns: Vec<Conn>,
    streams: Vec<Stream>,

    faults: u64,
    steers: u64,
    damage_frame: bool,
    damage_write: bool,
    /// Chunks acknowledged as durable, and over which connection.
    acked: BTreeMap<(RelativePath, Time), BTreeMap<u64, usize>>,
    /// Chunks sent by a stream that died before it could tell the sender.
    untold: BTreeSet<(EntryId, u64)>,
    done: bool,
    /// No receiver starts before.
    down_until: Duration,
    /// The last run, after everything: nothing may be sent.
    is_repetition: bool,
    /// No fault may strike any more from here on; the end must come within a bound.
    calm_since: Option<Duration>,
    calm_steps: u64,
}

#[derive(Debug, Clone)]
enum Event {
    StartRun,
    Scan { run: u64 },
    Connect { run: u64 },
    ReceiverLinked(usize),
    SenderLinked(usize),
    StreamUp { conn: usize, number: u16 },
    SenderNotices(usize),
    ReceiverNotices(usize),
    ToReceiver(usize),
    ToSender(usize),
    Worker(usize),
    WakeWorker(usize),
    StreamLost(usize),
    Deliver(usize),
    Written(usize),
    TakeFrame(usize),
    Decide(u64),
    Round(u64),
    Finish(u64),
    Compared { instance: u64, does: Comparing },
    Conclude(u64),
    Tick(u64),
    Pump(u64),
    Fault,
    Steer,
    DiskFreed,
}

/// What a receiver does with the file that stands at the destination.
#[derive(Debug, Clone)]
enum Comparing {
    Copy(Arc<Entry>, u64, Digest),
    Holes(Arc<Entry>, Run),
    Keep(Arc<Entry>, Digest),
}

struct SenderSide {
    run: u64,
    started: Duration,
    machine: Sender,
    conn: Option<usize>,
    linked: bool,
    scan_at: usize,
    scan_totals: ScanTotals,
    scanning: bool,
    ids: BTreeMap<RelativePath, EntryId>,
    account: BTreeMap<RelativePath, Option<Outcome>>,
}

struct ReceiverSide {
    instance: u64,
    machine: Receiver,
    destination: Destination,
    conn: Option<usize>,
    decides: VecDeque<(bool, Arc<Entry>)>,
    deciding: bool,
    round: Option<RoundWork>,
    finishes: VecDeque<FinishWork>,
    entries: BTreeMap<EntryId, Arc<Entry>>,
    partials: BTreeMap<EntryId, u64>,
    staged: BTreeMap<EntryId, Staged>,
    tick_at: Option<Duration>,
    pump_at: Option<Duration>,
}

struct RoundWork {
    step: RoundStep,
    mark: u64,
    inodes: Vec<Inode>,
    journal: usize,
}

struct FinishWork {
    entries: Vec<(EntryId, Digest)>,
    may_wait: bool,
    results: Finished,
}

#[derive(Default)]
struct Conn {
    born: Duration,
    lost: bool,
    to_receiver: VecDeque<Say>,
    to_sender: VecDeque<Say>,
    last_to_receiver: Duration,
    last_to_sender: Duration,
}

struct Stream {
    number: u16,
    conn: usize,
    instance: u64,
    sender_alive: bool,
    receiver_alive: bool,
    worker: Worker,
    blocked: Option<Frame>,
    network: VecDeque<Frame>,
    arrived: VecDeque<Frame>,
    writing: Option<Writing>,
    assembly: Option<Assembly>,
    last_arrival: Duration,
    stalled_until: Duration,
    wake_at: Option<Duration>,
    /// Nothing will be sent on it any more, and its receiving end does not know yet.
    cut: bool,
}

enum Worker {
    Idle,
    /// Without a copy, only its digest is told.
    Chunk {
        entry: Arc<Entry>,
        chunk: u64,
        offset: u64,
        digests: Vec<Digest>,
        copy: Option<Copy>,
    },
    ChunkOut {
        entry: Arc<Entry>,
        chunk: u64,
        digest: Digest,
        compare: bool,
    },
    HolesFound {
        entry: Arc<Entry>,
        chunk: u64,
        run: Run,
    },
    Pack {
        entries: Vec<Arc<Entry>>,
        at: usize,
        half: Option<Vec<u8>>,
        items: Vec<PackItem>,
    },
    PackOut {
        asked: Vec<EntryId>,
        sent: Vec<EntryId>,
    },
    Check {
        entry: Arc<Entry>,
    },
    Look {
        entry: Arc<Entry>,
        then: Box<Worker>,
    },
}

type PackItem = (EntryId, Vec<u8>, Digest);

#[derive(Clone)]
enum Frame {
    Segment { entry: EntryId, offset: u64, bytes: Vec<u8>, digest: Digest, copy: Copy },
    Pack(Vec<PackItem>),
    Compare { entry: EntryId, chunk: u64, digest: Digest },
}

struct Assembly {
    entry: EntryId,
    chunk: u64,
    offset: u64,
    digests: Vec<Digest>,
    bad: bool,
}

enum Writing {
    Segment { entry: Arc<Entry>, inode: Inode, chunk: u64, offset: u64, bytes: Vec<u8> },
    Pack(Vec<(Arc<Entry>, Vec<u8>, Digest)>),
    Comparison { entry: EntryId, chunk: u64, digest: Digest, found: Option<Digest> },
    Nothing,
}

/// What strangers write.
const STRANGE: &[u8] = b"a stranger's";

/// After the last fault, this much virtual time is enough for every plan here.
const CALM_TIME_MAX: Duration = Duration::from_secs(200);
const CALM_STEPS_MAX: u64 = 400_000;

impl World {
    pub(super) fn new(plan: Plan, log: bool) -> Self {
        let mut random = Random::new(plan.seed);
        let source = Source::new(&mut random, plan.tree, &plan.terms);
        let mut world = World {
            random,
            now: Duration::ZERO,
            sequence: 0,
            queue: BTreeMap::new(),
            log,
            report: Report::default(),
            source,
            disk: Disk::new(),
            before: BTreeMap::new(),
            ours: BTreeSet::new(),
            sender: None,
            receiver: None,
            instances: 0,
            conns: Vec::new(),
            streams: Vec::new(),
            faults: plan.faults_max,
            steers: plan.steers,
            damage_frame: false,
            damage_write: false,
            acked: BTreeMap::new(),
            untold: BTreeSet::new(),
            done: false,
            down_until: Duration::ZERO,
            is_repetition: false,
            calm_since: None,
            calm_steps: 0,
            plan,
        };
        world.put_old_content();
        world.at(Duration::ZERO, Event::StartRun);
        if world.plan.faults.is_empty() {
            world.calm();
        } else {
            let first = world.random.around(world.plan.fault_every);
            world.after(first, Event::Fault);
        }
        world.steer_later();
        world
    }

    pub(super) fn run(mut self) -> Report {
        while !self.done {
            let Some(((time, _), event)) = self.queue.pop_first() else {
                self.violation("nothing happens any more, and the command has not ended");
            };
            self.now = self.now.max(time);
            self.report.steps += 1;
            self.trace(&event);
            let lazily = matches!(event, Event::Pump(_));
            self.handle(event);
            self.pump(lazily);
            self.look();
        }
        self.report.time = self.now;
        self.report
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::StartRun => self.start_run(),
            Event::Scan { run } => self.scan(run),
            Event::Connect { run } => self.connect(run),
            Event::ReceiverLinked(conn) => self.receiver_linked(conn),
            Event::SenderLinked(conn) => self.sender_linked(conn),
            Event::StreamUp { conn, number } => self.stream_up(conn, number),
            Event::SenderNotices(conn) => self.sender_notices(conn),
            Event::ReceiverNotices(conn) => self.receiver_notices(conn),
            Event::ToReceiver(conn) => self.receiver_hears(conn),
            Event::ToSender(conn) => self.sender_hears(conn),
            Event::Worker(stream) => self.work(stream),
            // It is asked after every event.
            Event::WakeWorker(stream) => self.streams[stream].wake_at = None,
            Event::StreamLost(stream) => self.stream_lost(stream),
            Event::Deliver(stream) => self.deliver(stream),
            Event::Written(stream) => self.written(stream),
            Event::TakeFrame(stream) => self.take_frame(stream),
            Event::Decide(instance) => self.decide(instance),
            Event::Round(instance) => self.round(instance),
            Event::Finish(instance) => self.finish_next(instance),
            Event::Compared { instance, does } => self.compared(instance, does),
            Event::Conclude(instance) => self.conclude(instance),
            Event::Tick(instance) => self.tick(instance),
            Event::Pump(instance) => {
                if let Some(receiver) = self.receiver.as_mut().filter(|r| r.instance == instance) {
                    receiver.pump_at = None;
                    self.pump_receiver();
                }
            }
            Event::Fault => self.strike(),
            Event::Steer => self.steer(),
            Event::DiskFreed => self.disk.full = false,
        }
    }

    // Time.

    fn at(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), event);
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn soon(&mut self, mean: Duration, event: Event) {
        let delay = self.random.around(mean);
        self.after(delay, event);
    }

    fn trace(&mut self, event: &Event) {
        let mut note = |word: u64| {
            self.report.trace = (self.report.trace ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        };
        note(self.now.as_nanos() as u64);
        match event {
            Event::Worker(n)
            | Event::Deliver(n)
            | Event::Written(n)
            | Event::ToSender(n)
            | Event::ToReceiver(n) => {
                note(*n as u64 + 99);
            }
            _ => note(7),
        }
        if self.log {
            eprintln!("{:>12.6} {event:?}", self.now.as_secs_f64());
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.log {
            eprintln!("{:>12.6}      {}", self.now.as_secs_f64(), text());
        }
    }

    fn violation(&self, what: impl std::fmt::Display) -> ! {
        panic!("{what} (at {:?}, step {})", self.now, self.report.steps);
    }

    // Knobs.

    fn steer_later(&mut self) {
        if self.steers > 0 {
            self.steers -= 1;
            self.soon(self.plan.steer_every, Event::Steer);
        }
    }

    /// As the tuner does: fewer streams work, or all again, with another depth.
    fn steer(&mut self) {
        self.steer_later();
        let streams = self.random.within(1, u64::from(self.plan.streams)) as u16;
        let depth = self.random.percent(50).then(|| self.random.within(1, 4) as u32);
        let Some(sender) = &mut self.sender else { return };
        let concurrency = Some(self.plan.sender.concurrency as u32);
        let knobs = Steer { streams: Some(streams), depth, concurrency, ..Steer::default() };
        sender.machine.steer(&knobs);
        self.note(|| format!("{knobs:?}"));
    }

    fn calm(&mut self) {
        self.calm_since = Some(self.now);
        self.calm_steps = self.report.steps;
        self.disk.full = false;
    }

    // The command.

    fn start_run(&mut self) {
        self.report.runs += 1;
        let run = self.report.runs;
        self.note(|| format!("run {run}"));
        self.sender = Some(SenderSide {
            run,
            started: self.now,
            machine: {
                let mut machine = Sender::new(self.plan.terms.clone(), self.plan.sender.clone());
                machine.keep_pieces();
                machine.tell_redundant();
                machine
            },
            conn: None,
            linked: false,
            scan_at: 0,
            scan_totals: ScanTotals { complete: true, ..ScanTotals::default() },
            scanning: false,
            ids: BTreeMap::new(),
            account: BTreeMap::new(),
        });
        self.receiver = None;
        self.soon(self.plan.latency, Event::Connect { run });
    }

    fn end_run(&mut self) {
        self.conns.iter_mut().for_each(|conn| conn.lost = true);
        self.sender = None;
        self.receiver = None;
        for stream in &mut self.streams {
            stream.sender_alive = false;
            stream.receiver_alive = false;
        }
        self.after(Duration::from_millis(5), Event::StartRun);
    }

    // Actions.

    fn pump(&mut self, taken: bool) {
        if let Some(receiver) = &mut self.receiver
            && let Some(time) = receiver.machine.tick(self.now)
            && receiver.tick_at.is_none_or(|at| at > time)
        {
            receiver.tick_at = Some(time);
            let instance = receiver.instance;
            self.at(time, Event::Tick(instance));
        }
        if self.plan.lazy.is_zero() {
            self.pump_receiver();
        } else if taken {
            // Just now.
        } else if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.pump_at.is_none()) {
            let instance = receiver.instance;
            receiver.pump_at = Some(self.now);
            self.soon(self.plan.lazy, Event::Pump(instance));
        }
        self.pump_sender();
        for at in 0..self.streams.len() {
            if self.streams[at].sender_alive {
                self.ask_for_work(at);
            }
        }
        // Asking may have said something too.
        self.pump_sender();
        if let Some(sender) = &mut self.sender
            && sender.linked
            && !sender.scanning
            && sender.scan_at != usize::MAX
            && sender.machine.has_room(0)
        {
            sender.scanning = true;
            let run = sender.run;
            self.soon(self.plan.decide_time, Event::Scan { run });
        }
    }

    fn tick(&mut self, instance: u64) {
        if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) {
            receiver.tick_at = None;
        }
    }

    fn finished(&mut self) {
        let Some(sender) = &self.sender else { return };
        self.report.trace ^= sender.machine.progress().bytes_sent;
        if let Some((path, _)) = sender.account.iter().find(|(_, outcome)| outcome.is_none()) {
            self.violation(format!("`{path}` is forgotten"));
        }
        let progress = sender.machine.progress();
        let entries = sender.scan_totals.entries;
        if progress.entries_settled != progress.entries_offered || progress.entries_offered != entries {
            self.violation(format!("the sender's counts do not add up: {progress:?} of {entries} entries"));
        }
        let failed = sender
            .account
            .values()
            .any(|outcome| matches!(outcome, Some(Outcome::Failed(f)) if f.kind != FailureKind::Permission));
        self.note(|| "finished".into());
        self.check_everything_durable();
        if self.plan.faults.is_empty() && !self.is_repetition {
            self.check_sent_once();
        }
        if self.is_repetition {
            self.done = true;
            return;
        }
        // The power goes at once. Then the same command again has nothing to do, if nothing failed.
        self.calm();
        self.faults = 0;
        let loss = self.any_loss();
        self.disk.power_cut(loss, &mut self.random);
        self.check_names();
        if failed || self.plan.faults.contains(&Fault::SourceChange) {
            self.done = true;
            return;
        }
        self.is_repetition = true;
        self.end_run();
    }
}
