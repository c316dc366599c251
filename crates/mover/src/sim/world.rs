//! Two movers, the link between them and the disks at both ends, in one thread and virtual time.

use super::destination::{Destination, Ready, Staged};
use super::disk::{Disk, Inode, Loss, Name, Node};
use super::plan::{BATCH_MAX, Fault, Plan};
use super::random::Random;
use super::source::{self, Source, chunk_digest, file_digest};
use crate::failure::{Failure, FailureKind};
use crate::transfer::receiver::{self, Claim, Decided, Receiver, RoundResult, RoundStep};
use crate::transfer::sender::{self, Next, Retry, Sender, Work};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest;
use thalweg_wire::message::{
    AckLevel, Message, Outcome, Run, ScanTotals, TransferMessage as Say, TransferNumber,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, Time};

mod checks;

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
    Compared { instance: u64, does: Comparing },
    Conclude(u64),
    Tick(u64),
    Pump(u64),
    Fault,
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
    results: Vec<(EntryId, crate::failure::Result<Vec<thalweg_wire::message::Loss>>)>,
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
    Chunk { entry: Arc<Entry>, chunk: u64, offset: u64, digests: Vec<Digest>, compare: bool },
    ChunkOut { entry: Arc<Entry>, chunk: u64, digest: Digest, compare: bool },
    HolesFound { entry: Arc<Entry>, chunk: u64, run: Run },
    Pack { entries: Vec<Arc<Entry>>, at: usize, half: Option<Vec<u8>>, items: Vec<PackItem> },
    PackOut { asked: Vec<EntryId>, sent: Vec<EntryId> },
    Check { entry: Arc<Entry> },
    Look { entry: Arc<Entry>, then: Box<Worker> },
}

type PackItem = (EntryId, Vec<u8>, Digest);

#[derive(Clone)]
enum Frame {
    Segment { entry: EntryId, offset: u64, bytes: Vec<u8>, digest: Digest },
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

    fn scan(&mut self, run: u64) {
        let Some(sender) = self.sender.as_mut().filter(|sender| sender.run == run) else { return };
        sender.scanning = false;
        let batch = self.random.within(1, BATCH_MAX as u64);
        let mut entries = Vec::new();
        let first = sender.machine.next_id().0;
        for _ in 0..batch {
            let room = sender.machine.has_room() && sender.scan_at < self.source.nodes.len();
            if !room {
                break;
            }
            let at = sender.scan_at;
            sender.scan_at += 1;
            let (path, node) = &self.source.nodes[at];
            let aside = match node {
                source::Node::Skipped => Some(Outcome::Skipped("excluded".into())),
                source::Node::Trouble => {
                    Some(Outcome::Failed(Failure::new(FailureKind::Permission, "list", "Permission denied")))
                }
                _ => None,
            };
            if let Some(outcome) = aside {
                if !entries.is_empty() {
                    // Numbers are given in order.
                    sender.scan_at -= 1;
                    break;
                }
                sender.account.insert(path.clone(), None);
                sender.scan_totals.failed += u64::from(matches!(outcome, Outcome::Failed(_)));
                sender.machine.aside(path.clone(), outcome);
                break;
            }
            let ids = &sender.ids;
            let Some(entry) = self.source.entry(at, |first| ids.get(first).copied()) else { continue };
            sender.account.insert(path.clone(), None);
            sender.ids.insert(path.clone(), EntryId(first + entries.len() as u64));
            sender.scan_totals.entries += 1;
            sender.scan_totals.bytes += entry.content_bytes();
            entries.push(entry);
        }
        if !entries.is_empty() {
            sender.machine.offer(entries);
        }
        let progress = sender.machine.progress();
        let unsettled = progress.entries_offered - progress.entries_settled;
        if unsettled > (self.plan.sender.entries + BATCH_MAX) as u64 {
            self.violation(format!("{unsettled} entries in flight"));
        }
        if sender.scan_at == self.source.nodes.len() {
            let totals = sender.scan_totals.clone();
            sender.machine.scan_ended(totals);
            sender.scan_at = usize::MAX;
        }
    }

    fn connect(&mut self, run: u64) {
        if self.sender.as_ref().is_none_or(|sender| sender.run != run) {
            return;
        }
        if self.sender.as_ref().is_some_and(|sender| sender.conn.is_some()) {
            return;
        }
        let retry = self.plan.latency * 20 + Duration::from_millis(50);
        if let Some(last) = self.conns.last_mut() {
            if !last.lost && self.now < last.born + retry {
                return;
            }
            last.lost = true;
        }
        // Until it stands, it is tried again.
        self.after(retry, Event::Connect { run });
        if self.now < self.down_until {
            return;
        }
        if self.receiver.is_none() {
            self.instances += 1;
            let instance = self.instances;
            self.note(|| format!("receiver {instance} starts"));
            let destination = Destination::open(&mut self.disk, &self.plan.terms, &mut self.random);
            self.receiver = Some(ReceiverSide {
                instance,
                machine: {
                    let mut machine = Receiver::new(self.plan.terms.clone(), self.plan.receiver.clone());
                    machine.keep_pieces();
                    machine
                },
                destination,
                conn: None,
                decides: VecDeque::new(),
                deciding: false,
                round: None,
                entries: BTreeMap::new(),
                partials: BTreeMap::new(),
                staged: BTreeMap::new(),
                tick_at: None,
                pump_at: None,
            });
        }
        let conn = self.conns.len();
        self.conns.push(Conn { born: self.now, ..Conn::default() });
        self.soon(self.plan.latency, Event::ReceiverLinked(conn));
        self.soon(self.plan.latency, Event::SenderLinked(conn));
    }

    fn receiver_linked(&mut self, conn: usize) {
        let Some(receiver) = &mut self.receiver else { return };
        if self.conns[conn].lost || receiver.conn.is_some_and(|old| old > conn) {
            return;
        }
        receiver.machine.link_up();
        receiver.conn = Some(conn);
    }

    fn sender_linked(&mut self, conn: usize) {
        let streams = self.plan.streams;
        let Some(sender) = &mut self.sender else { return };
        if self.conns[conn].lost || sender.conn.is_some() {
            return;
        }
        let run = sender.run;
        sender.machine.link_up();
        sender.conn = Some(conn);
        if !std::mem::replace(&mut sender.linked, true) {
            self.after(Duration::from_micros(1), Event::Scan { run });
        }
        for number in 0..streams {
            self.soon(self.plan.latency, Event::StreamUp { conn, number });
        }
    }

    fn stream_up(&mut self, conn: usize, number: u16) {
        let (Some(sender), Some(receiver)) = (&mut self.sender, &self.receiver) else { return };
        if sender.conn != Some(conn) || self.conns[conn].lost {
            return;
        }
        sender.machine.stream_up(number);
        self.streams.push(Stream {
            number,
            conn,
            instance: receiver.instance,
            sender_alive: true,
            receiver_alive: true,
            worker: Worker::Idle,
            blocked: None,
            network: VecDeque::new(),
            arrived: VecDeque::new(),
            writing: None,
            assembly: None,
            last_arrival: Duration::ZERO,
            stalled_until: Duration::ZERO,
            wake_at: None,
            cut: false,
        });
    }

    // The link.

    fn send_to_receiver(&mut self, say: Say) {
        let Some(conn) = self.sender.as_ref().and_then(|sender| sender.conn) else { return };
        if self.conns[conn].lost {
            return;
        }
        let say = self.over_the_wire(say);
        let delay = self.plan.latency + self.random.around(self.plan.jitter);
        let link = &mut self.conns[conn];
        link.last_to_receiver = link.last_to_receiver.max(self.now + delay);
        let time = link.last_to_receiver;
        link.to_receiver.push_back(say);
        self.at(time, Event::ToReceiver(conn));
    }

    fn send_to_sender(&mut self, say: Say) {
        let Some(conn) = self.receiver.as_ref().and_then(|receiver| receiver.conn) else { return };
        if self.conns[conn].lost {
            return;
        }
        let say = self.over_the_wire(say);
        let delay = self.plan.latency + self.random.around(self.plan.jitter);
        let link = &mut self.conns[conn];
        link.last_to_sender = link.last_to_sender.max(self.now + delay);
        let time = link.last_to_sender;
        link.to_sender.push_back(say);
        self.at(time, Event::ToSender(conn));
    }

    fn over_the_wire(&self, say: Say) -> Say {
        let message = Message::Transfer(TransferNumber(1), say);
        let there =
            message.encode().and_then(|bytes| Message::decode(&bytes[thalweg_wire::message::LENGTH_BYTES..]));
        match there {
            Ok(Message::Transfer(_, say)) => say,
            other => self.violation(format!("a message does not pass the wire: {other:?}")),
        }
    }

    fn receiver_hears(&mut self, conn: usize) {
        let Some(receiver) = &mut self.receiver else { return };
        if receiver.conn != Some(conn) {
            // It has not come up yet, or never will.
            if receiver.conn.is_none_or(|old| old < conn) && !self.conns[conn].lost {
                self.after(Duration::from_millis(1), Event::ToReceiver(conn));
            }
            return;
        }
        let Some(say) = self.conns[conn].to_receiver.pop_front() else { return };
        let text = self.log.then(|| format!("-> {say:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(receiver) = &mut self.receiver else { return };
        if let Err(failure) = receiver.machine.hear(say, self.now) {
            self.violation(format!("the receiver cannot follow: {failure}"));
        }
    }

    fn sender_hears(&mut self, conn: usize) {
        let Some(sender) = &mut self.sender else { return };
        if sender.conn != Some(conn) {
            if sender.conn.is_none() && !self.conns[conn].lost {
                self.after(Duration::from_millis(1), Event::ToSender(conn));
            }
            return;
        }
        let Some(say) = self.conns[conn].to_sender.pop_front() else { return };
        let text = self.log.then(|| format!("<- {say:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(sender) = &mut self.sender else { return };
        if let Err(failure) = sender.machine.hear(say) {
            self.violation(format!("the sender cannot follow: {failure}"));
        }
    }

    /// Everything between the movers breaks; what was under way may arrive in part.
    fn lose_link(&mut self, conn: usize, outage: Duration) {
        if std::mem::replace(&mut self.conns[conn].lost, true) {
            return;
        }
        let link = &mut self.conns[conn];
        let keep = self.random.below(link.to_receiver.len() as u64 + 1) as usize;
        link.to_receiver.truncate(keep);
        let keep = self.random.below(link.to_sender.len() as u64 + 1) as usize;
        link.to_sender.truncate(keep);
        for at in 0..self.streams.len() {
            if self.streams[at].conn == conn {
                self.cut_stream(at);
            }
        }
        self.down_until = self.down_until.max(self.now + outage);
        self.soon(self.plan.latency * 4, Event::SenderNotices(conn));
        self.soon(self.plan.latency * 4, Event::ReceiverNotices(conn));
    }

    fn sender_notices(&mut self, conn: usize) {
        let tells = self.random.percent(70);
        let Some(sender) = self.sender.as_mut().filter(|sender| sender.conn == Some(conn)) else { return };
        sender.conn = None;
        let run = sender.run;
        for stream in self.streams.iter_mut().filter(|stream| stream.conn == conn && stream.sender_alive) {
            stream.sender_alive = false;
            if let Worker::ChunkOut { entry, chunk, .. } = &stream.worker {
                self.untold.insert((entry.id, *chunk));
            }
            if tells {
                sender.machine.stream_lost(stream.number);
            }
        }
        self.conns[conn].lost = true;
        self.at(self.down_until.max(self.now), Event::Connect { run });
    }

    fn receiver_notices(&mut self, conn: usize) {
        if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.conn == Some(conn)) {
            receiver.conn = None;
        }
    }

    /// A stream carries nothing new; what is in it is lost, or comes very late.
    fn cut_stream(&mut self, at: usize) {
        let late = self.random.percent(30);
        let delay = self.random.up_to_micros(3_000_000);
        self.soon(self.plan.latency, Event::TakeFrame(at));
        let stream = &mut self.streams[at];
        stream.cut = true;
        if late {
            stream.stalled_until = stream.stalled_until.max(self.now + delay);
        } else {
            stream.receiver_alive = false;
            stream.network.clear();
            stream.arrived.clear();
        }
    }

    fn stream_lost(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let (conn, number) = (stream.conn, stream.number);
        let is_linked = self.sender.as_ref().is_some_and(|sender| sender.conn == Some(conn));
        if !is_linked || !std::mem::take(&mut stream.sender_alive) {
            return;
        }
        if let Worker::ChunkOut { entry, chunk, .. } = &stream.worker {
            self.untold.insert((entry.id, *chunk));
        }
        stream.cut = true;
        self.after(Duration::from_micros(1), Event::TakeFrame(at));
        let Some(sender) = &mut self.sender else { return };
        sender.machine.stream_lost(number);
        self.soon(self.plan.latency * 3, Event::StreamUp { conn, number });
    }

    // Stream workers of the sender.

    fn ask_for_work(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let Some(sender) = &mut self.sender else { return };
        if !stream.sender_alive || !matches!(stream.worker, Worker::Idle) || sender.conn != Some(stream.conn)
        {
            return;
        }
        match sender.machine.next_work(stream.number, self.now) {
            Next::Wait(None) | Next::Done => {}
            Next::Wait(Some(time)) => {
                let time = time.max(self.now + Duration::from_micros(1));
                if stream.wake_at.is_none_or(|at| at > time) {
                    stream.wake_at = Some(time);
                    self.at(time, Event::WakeWorker(at));
                }
            }
            Next::Work(work) => {
                if self.log {
                    eprintln!("{:>12.6}      stream {at}: {}", self.now.as_secs_f64(), describe(&work));
                }
                let conn = stream.conn;
                let compare = matches!(work, Work::Compare(..));
                let worker = match work {
                    Work::Chunk(entry, chunk) | Work::Compare(entry, chunk) => {
                        if !compare {
                            self.check_not_durable(&entry, chunk, conn);
                        }
                        let offset = chunk * self.plan.terms.chunk_bytes;
                        Worker::Chunk { entry, chunk, offset, digests: Vec::new(), compare }
                    }
                    Work::Pack(entries) => Worker::Pack { entries, at: 0, half: None, items: Vec::new() },
                    Work::Check(entry) => Worker::Check { entry },
                };
                let sends = !matches!(worker, Worker::Check { .. } | Worker::Chunk { compare: true, .. });
                if self.is_repetition && sends {
                    self.violation("content is sent again although everything is there");
                }
                self.streams[at].worker = worker;
                self.soon(self.plan.read_time, Event::Worker(at));
            }
        }
    }

    fn check_not_durable(&self, entry: &Entry, chunk: u64, conn: usize) {
        let durable =
            self.acked.get(&(entry.path.clone(), entry.evidence.ctime)).and_then(|chunks| chunks.get(&chunk));
        if durable.is_some_and(|&acked| acked < conn) && !self.untold.contains(&(entry.id, chunk)) {
            self.violation(format!("chunk {chunk} of `{}` is read again although it is durable", entry.path));
        }
    }

    fn work(&mut self, at: usize) {
        if !self.streams[at].sender_alive || self.streams[at].blocked.is_some() || self.sender.is_none() {
            return;
        }
        let worker = std::mem::replace(&mut self.streams[at].worker, Worker::Idle);
        let next = match worker {
            Worker::Idle => Worker::Idle,
            Worker::Chunk { entry, chunk, offset, digests, compare } => {
                self.read_segment(at, entry, chunk, offset, digests, compare)
            }
            Worker::Pack { entries, at: item, half, items } => {
                self.read_small(at, entries, item, half, items)
            }
            Worker::ChunkOut { entry, chunk, digest, compare } => {
                let number = self.streams[at].number;
                match compare {
                    true => self.sender().chunk_told(number, entry.id, chunk, digest),
                    false => self.sender().chunk_sent(number, entry.id, chunk, digest),
                }
                Worker::Idle
            }
            Worker::HolesFound { entry, chunk, run } => {
                let number = self.streams[at].number;
                self.sender().chunks_are_holes(number, entry.id, chunk, run);
                Worker::Idle
            }
            Worker::PackOut { asked, sent } => {
                let number = self.streams[at].number;
                self.sender().pack_sent(number, &asked, &sent);
                Worker::Idle
            }
            Worker::Check { entry } => {
                let number = self.streams[at].number;
                match self.source.look_again(&entry) {
                    Err(failure) => {
                        self.sender().failed(entry.id, failure);
                        Worker::Idle
                    }
                    Ok(now) => match self.sender().checked(number, entry.id, now.evidence) {
                        Retry::LookAgain => Worker::Look { entry, then: Box::new(Worker::Idle) },
                        Retry::No => Worker::Idle,
                    },
                }
            }
            Worker::Look { entry, then } => {
                let now = self.source.look_again(&entry);
                self.sender().offer_again(entry.id, now);
                *then
            }
        };
        self.streams[at].worker = next;
        if !matches!(self.streams[at].worker, Worker::Idle) && self.streams[at].blocked.is_none() {
            self.soon(self.plan.read_time, Event::Worker(at));
        }
    }

    fn sender(&mut self) -> &mut Sender {
        match &mut self.sender {
            Some(sender) => &mut sender.machine,
            None => panic!("a worker outlives its process"),
        }
    }

    fn look_or(&mut self, entry: Arc<Entry>, then: Worker) -> Worker {
        match self.sender().changed(entry.id) {
            Retry::LookAgain => Worker::Look { entry, then: Box::new(then) },
            Retry::No => then,
        }
    }

    fn read_segment(
        &mut self,
        at: usize,
        entry: Arc<Entry>,
        chunk: u64,
        offset: u64,
        mut digests: Vec<Digest>,
        compare: bool,
    ) -> Worker {
        let terms = self.plan.terms.clone();
        let size = entry.evidence.size;
        let start = chunk * terms.chunk_bytes;
        let end = start + digest::chunk_length(chunk, size, terms.chunk_bytes);
        let marked = matches!(entry.kind, Kind::File { marked: true, .. });
        if marked && offset == start {
            let content = self.source.read(&entry, start, size.saturating_sub(start)).unwrap_or_default();
            let holes = content
                .chunks_exact(terms.chunk_bytes as usize)
                .take_while(|bytes| digest::is_zero(bytes))
                .count() as u64;
            let whole = (size / terms.chunk_bytes).saturating_sub(chunk);
            let count = holes.min(whole);
            if count > 0 {
                return Worker::HolesFound { entry, chunk, run: Run { first: chunk, count } };
            }
        }
        let want = (end - offset).min(u64::from(terms.segment_bytes));
        let bytes = match self.source.read(&entry, offset, want) {
            Ok(bytes) if bytes.len() as u64 == want => bytes,
            Ok(_) => return self.look_or(entry, Worker::Idle),
            Err(failure) => {
                self.sender().failed(entry.id, failure);
                return Worker::Idle;
            }
        };
        let rule = digest::Rule { file_bytes: size, segment_bytes: u64::from(terms.segment_bytes), marked };
        let Some(digest) = rule.segment(offset, &bytes) else { self.violation("no such segment") };
        digests.push(digest);
        let next = offset + want;
        let joined = (next >= end).then(|| digest::join(&digests, size <= terms.chunk_bytes));
        match joined {
            Some(digest) if compare => self.push(at, Frame::Compare { entry: entry.id, chunk, digest }),
            _ if compare => {}
            _ => self.push(at, Frame::Segment { entry: entry.id, offset, bytes, digest }),
        }
        match joined {
            Some(digest) => Worker::ChunkOut { entry, chunk, digest, compare },
            None => Worker::Chunk { entry, chunk, offset: next, digests, compare },
        }
    }

    fn read_small(
        &mut self,
        at: usize,
        entries: Vec<Arc<Entry>>,
        item: usize,
        half: Option<Vec<u8>>,
        mut items: Vec<PackItem>,
    ) -> Worker {
        let Some(entry) = entries.get(item).cloned() else {
            let asked: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
            let sent: Vec<EntryId> = items.iter().map(|(id, ..)| *id).collect();
            if !items.is_empty() {
                self.push(at, Frame::Pack(items));
            }
            return Worker::PackOut { asked, sent };
        };
        let size = entry.evidence.size;
        let unchanged = self.source.look_again(&entry).map(|now| now.evidence == entry.evidence);
        let (offset, want) = if half.is_none() { (0, size / 2) } else { (size / 2, size - size / 2) };
        let read = unchanged.and_then(|same| Ok((same, self.source.read(&entry, offset, want)?)));
        match read {
            Err(failure) => {
                self.sender().failed(entry.id, failure);
                Worker::Pack { entries, at: item + 1, half: None, items }
            }
            Ok((true, bytes)) if bytes.len() as u64 == want => match half {
                None => Worker::Pack { entries, at: item, half: Some(bytes), items },
                Some(mut content) => {
                    content.extend(bytes);
                    let digest = digest::of_piece(0, &content, size);
                    items.push((entry.id, content, digest));
                    Worker::Pack { entries, at: item + 1, half: None, items }
                }
            },
            Ok(_) => self.look_or(entry, Worker::Pack { entries, at: item + 1, half: None, items }),
        }
    }

    fn push(&mut self, at: usize, mut frame: Frame) {
        if self.damage_frame {
            self.damage_frame = !flip(&mut frame, &mut self.random);
        }
        let stream = &mut self.streams[at];
        if stream.network.len() + stream.arrived.len() >= self.plan.window_frames {
            stream.blocked = Some(frame);
            return;
        }
        let kib = 1 + frame_bytes(&frame) / 1024;
        let start = stream.last_arrival.saturating_sub(self.plan.latency).max(self.now);
        let arrival = start + self.plan.latency + self.plan.kib_time * kib as u32;
        let arrival = (arrival + self.random.up_to_micros(self.plan.jitter.as_micros() as u64))
            .max(stream.last_arrival);
        stream.last_arrival = arrival;
        stream.network.push_back(frame);
        self.at(arrival, Event::Deliver(at));
    }

    // Stream workers of the receiver.

    fn deliver(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if !stream.receiver_alive || stream.network.is_empty() {
            return;
        }
        if stream.stalled_until > self.now {
            let time = stream.stalled_until;
            self.at(time, Event::Deliver(at));
            return;
        }
        if let Some(frame) = stream.network.pop_front() {
            stream.arrived.push_back(frame);
        }
        self.take_frame(at);
    }

    fn take_frame(&mut self, at: usize) {
        self.pump_receiver();
        let stream = &mut self.streams[at];
        let Some(receiver) = self.receiver.as_mut().filter(|r| r.instance == stream.instance) else { return };
        let is_dry = !stream.receiver_alive || (stream.network.is_empty() && stream.arrived.is_empty());
        if stream.cut && stream.writing.is_none() && is_dry {
            stream.cut = false;
            receiver.machine.writer_gone(at as u64);
        }
        if !stream.receiver_alive || stream.writing.is_some() {
            return;
        }
        let Some(frame) = stream.arrived.pop_front() else { return };
        let again = frame.clone();
        let writing = match frame {
            Frame::Segment { entry, offset, bytes, digest } => {
                let writer = at as u64;
                take_segment(
                    receiver,
                    stream,
                    writer,
                    &mut self.disk,
                    &self.plan,
                    self.now,
                    (entry, offset, bytes, digest),
                )
            }
            Frame::Pack(items) => {
                let wanted = receiver.machine.small_wanted(items.iter().map(|(id, ..)| *id));
                let mut good = Vec::new();
                for ((id, bytes, digest), entry) in items.into_iter().zip(wanted) {
                    assert!(receiver.machine.was_offered(id), "data of an entry never offered");
                    let Some(entry) = entry else { continue };
                    if digest::of_piece(0, &bytes, bytes.len() as u64) == digest {
                        good.push((entry, bytes, digest));
                    } else {
                        receiver.machine.damaged(id, 0);
                    }
                }
                Some(Writing::Pack(good))
            }
            Frame::Compare { entry: id, chunk, digest } => {
                let Ok(wanted) = receiver.machine.compare_wanted(id, chunk) else {
                    panic!("a comparison that no correct sender makes")
                };
                Some(wanted.map_or(Writing::Nothing, |entry| {
                    let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                    let found = found.map(|(_, digest)| digest);
                    Writing::Comparison { entry: id, chunk, digest, found }
                }))
            }
        };
        if writing.is_none() {
            stream.arrived.push_front(again);
            self.soon(self.plan.write_time, Event::TakeFrame(at));
            return;
        }
        stream.writing = writing;
        if let Some(frame) = stream.blocked.take() {
            self.push(at, frame);
            if self.streams[at].blocked.is_none() {
                self.soon(self.plan.read_time, Event::Worker(at));
            }
        }
        self.soon(self.plan.write_time, Event::Written(at));
    }

    fn written(&mut self, at: usize) {
        // What the machine wants thrown away is thrown away before it hears of anything new by the same id.
        self.pump_receiver();
        let stream = &mut self.streams[at];
        let Some(writing) = stream.writing.take() else { return };
        let Some(receiver) = self.receiver.as_mut().filter(|r| r.instance == stream.instance) else { return };
        match writing {
            Writing::Nothing => {}
            Writing::Comparison { entry, chunk, digest, found } if found == Some(digest) => {
                receiver.machine.chunk_same(entry, chunk, digest, self.now);
            }
            Writing::Comparison { entry, chunk, .. } => {
                receiver.machine.chunk_differs(entry, chunk, self.now);
            }
            Writing::Segment { entry, inode, chunk, offset, mut bytes } => {
                if self.damage_write && !bytes.is_empty() {
                    let place = self.random.below(bytes.len() as u64) as usize;
                    bytes[place] ^= 1 << self.random.below(8);
                    self.damage_write = false;
                }
                let last = {
                    let chunk_bytes = self.plan.terms.chunk_bytes;
                    chunk * chunk_bytes + digest::chunk_length(chunk, entry.evidence.size, chunk_bytes)
                };
                if offset + bytes.len() as u64 != last {
                    receiver.machine.segment_written(at as u64, entry.id, chunk);
                }
                if self.disk.write(inode, offset as usize, &bytes) {
                    if let Some(assembly) = &mut stream.assembly {
                        let size = entry.evidence.size;
                        let chunk_bytes = self.plan.terms.chunk_bytes;
                        let end = chunk * chunk_bytes + digest::chunk_length(chunk, size, chunk_bytes);
                        if assembly.chunk == chunk && offset + bytes.len() as u64 == end && !assembly.bad {
                            let digest = digest::join(&assembly.digests, size <= chunk_bytes);
                            stream.assembly = None;
                            receiver.machine.chunk_written(entry.id, chunk, digest, self.now);
                        }
                    }
                } else {
                    receiver.machine.write_failed(entry.id, no_space(), self.now);
                }
                self.check_inode(inode);
            }
            Writing::Pack(items) => {
                let mut files = Vec::new();
                let mut staged = Vec::new();
                for (entry, mut bytes, digest) in items {
                    if self.damage_write && !bytes.is_empty() {
                        let place = self.random.below(bytes.len() as u64) as usize;
                        bytes[place] ^= 1 << self.random.below(8);
                        self.damage_write = false;
                    }
                    match receiver.destination.stage(&mut self.disk, u32::from(stream.number), &bytes) {
                        Ok(file) => {
                            files.push((entry.id, digest));
                            staged.push(file);
                        }
                        Err(failure) => receiver.machine.write_failed(entry.id, failure, self.now),
                    }
                }
                let taken = receiver.machine.files_staged(&files, self.now);
                for (((id, _), file), taken) in files.into_iter().zip(staged).zip(taken) {
                    if taken {
                        receiver.staged.insert(id, file);
                    } else {
                        receiver.destination.discard(&mut self.disk, Ready::Staged(file));
                    }
                }
            }
        }
        self.take_frame(at);
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
            && sender.machine.has_room()
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

    fn pump_sender(&mut self) {
        while let Some(action) = self.sender.as_mut().and_then(|sender| sender.machine.take_action()) {
            match action {
                sender::Action::Say(say) => self.send_to_receiver(say),
                sender::Action::Settled(entry, outcome) => {
                    self.note(|| format!("sender: `{}` {outcome:?}", entry.path));
                    self.report.settled += 1;
                    self.check_outcome(&entry, &outcome, true);
                    self.settle(&entry.path, outcome);
                }
                sender::Action::Pieces(entry, pieces) => self.check_pieces(&entry, &pieces),
                sender::Action::Aside(_, path, outcome) => self.settle(&path, outcome),
                sender::Action::Finished(_) => self.finished(),
                sender::Action::Failed(failure) => {
                    self.note(|| format!("sender: the transfer failed: {failure}"));
                    self.check_failure(&failure);
                    self.disk.full = false;
                    self.end_run();
                }
            }
        }
    }

    fn settle(&mut self, path: &RelativePath, outcome: Outcome) {
        let Some(sender) = &mut self.sender else { return };
        match sender.account.get_mut(path) {
            Some(slot @ None) => *slot = Some(outcome),
            Some(Some(_)) => self.violation(format!("`{path}` is settled twice")),
            None => self.violation(format!("`{path}` is settled and was never seen")),
        }
    }

    fn pump_receiver(&mut self) {
        while let Some(receiver) = &mut self.receiver {
            let Some(action) = receiver.machine.take_action() else { break };
            let instance = receiver.instance;
            match action {
                receiver::Action::Say(say) => {
                    self.note_durable(&say);
                    self.send_to_sender(say);
                }
                receiver::Action::Decide(entry) => self.enqueue_decide(false, entry),
                receiver::Action::Link(entry) => self.enqueue_decide(true, entry),
                receiver::Action::Copy(entry, chunk, digest) => {
                    let does = Comparing::Copy(entry, chunk, digest);
                    self.soon(self.plan.write_time, Event::Compared { instance, does });
                }
                receiver::Action::CompareHoles(entry, run) => {
                    let does = Comparing::Holes(entry, run);
                    self.soon(self.plan.decide_time, Event::Compared { instance, does });
                }
                receiver::Action::Keep(entry, digest) => {
                    let does = Comparing::Keep(entry, digest);
                    self.soon(self.plan.decide_time, Event::Compared { instance, does });
                }
                receiver::Action::Round(step) => self.start_round_step(step),
                receiver::Action::Discard(id) => {
                    let partial = receiver.partials.remove(&id).map(Ready::Partial);
                    let staged = receiver.staged.remove(&id).map(Ready::Staged);
                    for ready in partial.into_iter().chain(staged) {
                        receiver.destination.discard(&mut self.disk, ready);
                    }
                    if let Some(entry) = receiver.entries.get(&id) {
                        self.acked.remove(&(entry.path.clone(), entry.evidence.ctime));
                    }
                }
                receiver::Action::Settled(entry, outcome) => {
                    if let Some(partial) = receiver.partials.remove(&entry.id) {
                        receiver.destination.settled(&mut self.disk, partial);
                    }
                    receiver.staged.remove(&entry.id);
                    receiver.entries.remove(&entry.id);
                    self.acked.remove(&(entry.path.clone(), entry.evidence.ctime));
                    self.note(|| format!("receiver: `{}` {outcome:?}", entry.path));
                    self.check_outcome(&entry, &outcome, false);
                }
                receiver::Action::Pieces(entry, pieces) => self.check_pieces(&entry, &pieces),
                receiver::Action::Aside(..) => {}
                receiver::Action::Gone(id) => {
                    if let Some(partial) = receiver.partials.remove(&id) {
                        receiver.destination.settled(&mut self.disk, partial);
                    }
                    receiver.staged.remove(&id);
                    receiver.entries.remove(&id);
                }
                receiver::Action::Conclude(_) => self.soon(self.plan.sync_time, Event::Conclude(instance)),
                receiver::Action::Finished(_) => self.check_everything_durable(),
                receiver::Action::Failed(failure) => {
                    self.note(|| format!("receiver: the transfer failed: {failure}"));
                    self.check_failure(&failure);
                    self.receiver_gone();
                }
            }
        }
    }

    /// The receiving process ends; what it said may still arrive.
    fn receiver_gone(&mut self) {
        let Some(receiver) = self.receiver.take() else { return };
        for stream in self.streams.iter_mut().filter(|stream| stream.instance == receiver.instance) {
            stream.receiver_alive = false;
        }
        for conn in 0..self.conns.len() {
            let notice = self.plan.latency * 10 + self.plan.jitter * 10 + Duration::from_millis(5);
            self.after(notice, Event::SenderNotices(conn));
        }
    }

    fn enqueue_decide(&mut self, link: bool, entry: Arc<Entry>) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.entries.insert(entry.id, entry.clone());
        receiver.decides.push_back((link, entry));
        if !std::mem::replace(&mut receiver.deciding, true) {
            let instance = receiver.instance;
            self.soon(self.plan.decide_time, Event::Decide(instance));
        }
    }

    fn decide(&mut self, instance: u64) {
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        receiver.deciding = false;
        let Some((link, entry)) = receiver.decides.pop_front() else { return };
        let decided = if link {
            let outcome = receiver.destination.link(&mut self.disk, &entry);
            let made = matches!(outcome, Outcome::Done { .. });
            Decided::Settled { outcome, made }
        } else {
            let (decided, partial) = receiver.destination.decide(&mut self.disk, &entry);
            if let Some(partial) = partial {
                receiver.partials.insert(entry.id, partial);
            }
            decided
        };
        if !receiver.decides.is_empty() {
            receiver.deciding = true;
            self.soon(self.plan.decide_time, Event::Decide(instance));
        }
        self.check_resumed(&entry, &decided);
        self.check_name(&entry.path);
        if let Decided::Settled { outcome, .. } = &decided {
            self.ours.insert(entry.path.clone());
            self.check_settled_kind(&entry, outcome);
        }
        let Some(receiver) = &mut self.receiver else { return };
        receiver.machine.decided(entry.id, decided, self.now);
        if receiver.machine.chunks_wanted(entry.id).is_none() {
            receiver.partials.remove(&entry.id);
        }
    }

    fn compared(&mut self, instance: u64, does: Comparing) {
        self.pump_receiver();
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        let machine = &mut receiver.machine;
        match does {
            Comparing::Keep(entry, digest) => {
                let kept = receiver.destination.keep(&mut self.disk, &entry, digest);
                if kept.is_some() {
                    self.ours.insert(entry.path.clone());
                }
                machine.kept(entry.id, kept, self.now);
            }
            Comparing::Holes(entry, run) => {
                let is_hole = (run.first..run.first + run.count).all(|chunk| {
                    let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                    found.is_some_and(|(bytes, _)| digest::is_zero(&bytes))
                });
                machine.holes_compared(entry.id, is_hole, self.now);
            }
            Comparing::Copy(entry, chunk, digest) => {
                let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                let Some((bytes, _)) = found.filter(|(_, found)| *found == digest) else {
                    machine.copied(entry.id, chunk, false, self.now);
                    return;
                };
                if machine.chunks_wanted(entry.id).is_none() {
                    return;
                }
                let inode = match partial_of(receiver, &mut self.disk, &entry) {
                    Ok(inode) => inode,
                    Err(failure) => {
                        receiver.machine.write_failed(entry.id, failure, self.now);
                        return;
                    }
                };
                let offset = (chunk * self.plan.terms.chunk_bytes) as usize;
                if self.disk.write(inode, offset, &bytes) {
                    receiver.machine.copied(entry.id, chunk, true, self.now);
                } else {
                    receiver.machine.write_failed(entry.id, no_space(), self.now);
                }
            }
        }
    }

    fn start_round_step(&mut self, step: RoundStep) {
        let text = self.log.then(|| format!("round {step:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(receiver) = &mut self.receiver else { return };
        if receiver.round.is_some() {
            self.violation("two rounds at once");
        }
        let mut work =
            RoundWork { step, mark: self.disk.mark(), inodes: Vec::new(), journal: 0, results: Vec::new() };
        let inode_of = |receiver: &ReceiverSide, id: &EntryId| {
            let partial = receiver.partials.get(id)?;
            Some(receiver.destination.partial(*partial)?.inode)
        };
        match &work.step {
            RoundStep::Sync { partials, staged } => {
                work.inodes = partials.iter().filter_map(|id| inode_of(receiver, id)).collect();
                if *staged > 0 {
                    work.inodes.extend(receiver.staged.values().map(|staged| staged.inode));
                }
            }
            RoundStep::Record(chunks) => {
                let chunks: Vec<_> = chunks
                    .iter()
                    .filter_map(|(id, chunks)| Some((*receiver.partials.get(id)?, chunks.clone())))
                    .collect();
                match receiver.destination.record(&mut self.disk, &chunks) {
                    Ok(journal) => work.journal = journal,
                    Err(failure) => {
                        receiver.machine.round_done(RoundResult::Failed(failure), self.now);
                        return;
                    }
                }
            }
            RoundStep::ReadBack { .. } | RoundStep::Finish(_) => {}
        }
        let instance = receiver.instance;
        receiver.round = Some(work);
        self.soon(self.plan.sync_time, Event::Round(instance));
    }

    fn round(&mut self, instance: u64) {
        let terms = self.plan.terms.clone();
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        let Some(mut work) = receiver.round.take() else { return };
        let result = match &work.step {
            RoundStep::Sync { .. } => {
                if self.disk.sync(work.mark, work.inodes.iter().copied(), &mut self.random) {
                    RoundResult::Done
                } else {
                    RoundResult::Failed(Failure::new(FailureKind::Io, "sync", "Input/output error"))
                }
            }
            RoundStep::Record(_) => {
                if std::mem::take(&mut self.disk.fail_sync) {
                    RoundResult::Failed(Failure::new(FailureKind::Io, "sync", "Input/output error"))
                } else {
                    self.disk.sync_journal(work.journal);
                    RoundResult::Done
                }
            }
            RoundStep::ReadBack { chunks, files } => {
                let mut damaged = Vec::new();
                for (id, chunks) in chunks {
                    let (Some(entry), Some(partial)) = (receiver.entries.get(id), receiver.partials.get(id))
                    else {
                        continue;
                    };
                    let Some(partial) = receiver.destination.partial(*partial) else { continue };
                    let rule = receiver.destination.rule(entry);
                    for &(chunk, digest) in chunks {
                        let start = chunk * terms.chunk_bytes;
                        let end = start + digest::chunk_length(chunk, entry.evidence.size, terms.chunk_bytes);
                        let bytes = &self.disk.medium(partial.inode)[start as usize..end as usize];
                        if chunk_digest(rule, start, bytes, terms.chunk_bytes) != digest {
                            damaged.push((*id, chunk));
                        }
                    }
                }
                for (id, digest) in files {
                    let Some(staged) = receiver.staged.get(id) else { continue };
                    let bytes = self.disk.medium(staged.inode);
                    if digest::of_piece(0, bytes, bytes.len() as u64) != *digest {
                        damaged.push((*id, 0));
                    }
                }
                RoundResult::Damaged(damaged)
            }
            RoundStep::Finish(entries) => {
                // One name at a time: a crash may come between any two.
                let (id, digest) = entries[work.results.len()];
                let result = finish(receiver, &mut self.disk, id);
                let finished = result.is_ok();
                if let (true, Some(entry)) = (finished, receiver.entries.get(&id)) {
                    self.ours.insert(entry.path.clone());
                }
                work.results.push((id, result.map(|()| Vec::new())));
                let over = work.results.len() == entries.len();
                let entry = receiver.entries.get(&id).cloned();
                if over {
                    let results = std::mem::take(&mut work.results);
                    receiver.machine.round_done(RoundResult::Finished(results), self.now);
                } else {
                    receiver.round = Some(work);
                    self.soon(self.plan.write_time, Event::Round(instance));
                }
                if let Some(entry) = entry.filter(|_| finished) {
                    self.check_finished(&entry, digest);
                }
                return;
            }
        };
        receiver.machine.round_done(result, self.now);
    }

    fn conclude(&mut self, instance: u64) {
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        self.disk.fail_sync = false;
        let mark = self.disk.mark();
        self.disk.sync(mark, std::iter::empty(), &mut self.random);
        receiver.machine.concluded(Vec::new(), 0, Vec::new());
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

    fn any_loss(&mut self) -> Loss {
        match self.random.below(4) {
            0 => Loss::All,
            1 => Loss::Nothing,
            _ => Loss::Percent(self.random.within(5, 95)),
        }
    }

    // Faults.

    fn strike(&mut self) {
        if self.faults == 0 || self.is_repetition {
            if self.calm_since.is_none() {
                self.calm();
            }
            return;
        }
        self.faults -= 1;
        self.report.faults += 1;
        self.soon(self.plan.fault_every, Event::Fault);
        let fault = self.random.pick(&self.plan.faults.clone());
        self.note(|| format!("*** {fault:?}"));
        let alive: Vec<usize> = (0..self.streams.len()).filter(|&at| self.streams[at].sender_alive).collect();
        let conn = self.sender.as_ref().and_then(|sender| sender.conn).filter(|&conn| !self.conns[conn].lost);
        let outage = self.random.around(Duration::from_millis(300));
        match fault {
            Fault::StreamReset if !alive.is_empty() => {
                let at = self.random.pick(&alive);
                self.cut_stream(at);
                self.soon(self.plan.latency * 2, Event::StreamLost(at));
            }
            Fault::StreamStall if !alive.is_empty() => {
                let at = self.random.pick(&alive);
                let time = self.random.around(Duration::from_secs(3));
                self.streams[at].stalled_until = self.now + time;
                if time > self.plan.stall_cut {
                    let cut = self.plan.stall_cut;
                    self.after(cut, Event::StreamLost(at));
                }
            }
            Fault::LinkLoss => {
                if let Some(conn) = conn {
                    self.lose_link(conn, outage);
                }
            }
            Fault::ReceiverKill | Fault::PowerCut | Fault::Rot => {
                self.kill_receiver(outage);
                if fault == Fault::PowerCut {
                    let loss = self.any_loss();
                    self.disk.power_cut(loss, &mut self.random);
                    self.check_names();
                }
                if fault == Fault::Rot {
                    self.acked.clear();
                    self.disk.rot(&mut self.random);
                }
            }
            Fault::SenderKill if self.sender.is_some() => self.end_run(),
            Fault::SourceChange => {
                for _ in 0..self.random.within(1, 3) {
                    self.source.change(&mut self.random, self.now, &self.plan.terms);
                }
            }
            Fault::DamagedFrame => self.damage_frame = true,
            Fault::DamagedWrite => self.damage_write = true,
            Fault::DiskFull => {
                self.disk.full = true;
                self.after(outage * 3, Event::DiskFreed);
            }
            Fault::SyncError => self.disk.fail_sync = true,
            Fault::Stranger => self.stranger_writes(),
            _ => {}
        }
    }

    /// Somebody puts a file where one stands at the destination: what was there before, or content of his own.
    fn stranger_writes(&mut self) {
        let is_ours = |path: &RelativePath| self.ours.contains(path);
        let paths: Vec<RelativePath> = self.before.keys().filter(|path| !is_ours(path)).cloned().collect();
        if paths.is_empty() || self.disk.full {
            return;
        }
        let path = paths[self.random.below(paths.len() as u64) as usize].clone();
        let is_same = self.random.percent(50);
        let bytes = if is_same { self.before[&path].clone() } else { STRANGE.to_vec() };
        let inode = self.disk.create(Name::Final(path), bytes.len());
        self.disk.write(inode, 0, &bytes);
        // His sync does not fail in place of ours.
        let fails = std::mem::take(&mut self.disk.fail_sync);
        let mark = self.disk.mark();
        self.disk.sync(mark, [inode].into_iter(), &mut self.random);
        self.disk.fail_sync = fails;
    }

    fn kill_receiver(&mut self, outage: Duration) {
        let Some(receiver) = self.receiver.take() else { return };
        for stream in self.streams.iter_mut().filter(|stream| stream.instance == receiver.instance) {
            stream.receiver_alive = false;
        }
        self.down_until = self.now + outage;
        for conn in 0..self.conns.len() {
            self.lose_link(conn, outage);
        }
    }
}

fn take_segment(
    receiver: &mut ReceiverSide,
    stream: &mut Stream,
    writer: u64,
    disk: &mut Disk,
    plan: &Plan,
    now: Duration,
    (id, offset, bytes, digest): (EntryId, u64, Vec<u8>, Digest),
) -> Option<Writing> {
    assert!(receiver.machine.was_offered(id), "data of an entry never offered");
    let chunk_bytes = plan.terms.chunk_bytes;
    let chunk = offset / chunk_bytes;
    if offset.is_multiple_of(chunk_bytes) {
        stream.assembly = Some(Assembly { entry: id, chunk, offset, digests: Vec::new(), bad: false });
    }
    let Some(assembly) = &mut stream.assembly else { return Some(Writing::Nothing) };
    if assembly.entry != id || assembly.chunk != chunk || assembly.offset != offset {
        panic!("segments of a chunk come out of order");
    }
    let is_first = offset.is_multiple_of(chunk_bytes);
    assembly.offset += bytes.len() as u64;
    if assembly.bad {
        return Some(Writing::Nothing);
    }
    let Some(entry) = receiver.machine.chunks_wanted(id) else {
        assembly.bad = true;
        return Some(Writing::Nothing);
    };
    if receiver.destination.rule(&entry).segment(offset, &bytes) != Some(digest) {
        assembly.bad = true;
        receiver.machine.damaged(id, chunk);
        return Some(Writing::Nothing);
    }
    match receiver.machine.claim_chunk(writer, id, chunk, is_first) {
        Claim::Write(_) => {}
        Claim::Busy => return None,
        Claim::Unwanted => {
            assembly.bad = true;
            return Some(Writing::Nothing);
        }
    }
    assembly.digests.push(digest);
    match partial_of(receiver, disk, &entry) {
        Ok(inode) => Some(Writing::Segment { entry, inode, chunk, offset, bytes }),
        Err(failure) => {
            receiver.machine.write_failed(id, failure, now);
            Some(Writing::Nothing)
        }
    }
}

/// The partial of a wanted entry, begun if need be.
fn partial_of(receiver: &mut ReceiverSide, disk: &mut Disk, entry: &Entry) -> crate::failure::Result<Inode> {
    let number = match receiver.partials.get(&entry.id) {
        Some(number) => *number,
        None => {
            let number = receiver.destination.begin(disk, entry)?;
            receiver.partials.insert(entry.id, number);
            number
        }
    };
    match receiver.destination.partial(number) {
        Some(partial) => Ok(partial.inode),
        None => panic!("the partial of a wanted entry is gone"),
    }
}

fn finish(receiver: &mut ReceiverSide, disk: &mut Disk, id: EntryId) -> crate::failure::Result<()> {
    let Some(entry) = receiver.entries.get(&id).cloned() else { panic!("an unknown entry is finished") };
    let ready = match (receiver.staged.get(&id), receiver.partials.get(&id)) {
        (Some(staged), _) => Ready::Staged(staged.clone()),
        (None, Some(partial)) => Ready::Partial(*partial),
        // All hole: nothing was ever written.
        (None, None) => {
            let number = receiver.destination.begin(disk, &entry)?;
            receiver.partials.insert(id, number);
            Ready::Partial(number)
        }
    };
    receiver.destination.finish(disk, &entry, &ready)
}

fn describe(work: &Work) -> String {
    match work {
        Work::Chunk(entry, chunk) => format!("chunk {chunk} of {}", entry.id.0),
        Work::Compare(entry, chunk) => format!("compare chunk {chunk} of {}", entry.id.0),
        Work::Pack(entries) => {
            format!("pack {:?}", entries.iter().map(|entry| entry.id.0).collect::<Vec<_>>())
        }
        Work::Check(entry) => format!("check {}", entry.id.0),
    }
}

fn frame_bytes(frame: &Frame) -> usize {
    match frame {
        Frame::Segment { bytes, .. } => bytes.len(),
        Frame::Pack(items) => items.iter().map(|(_, bytes, _)| bytes.len() + 48).sum(),
        Frame::Compare { .. } => 0,
    }
}

/// Flips a bit of content; false if there is none.
fn flip(frame: &mut Frame, random: &mut Random) -> bool {
    let bytes = match frame {
        Frame::Segment { bytes, .. } => bytes,
        Frame::Pack(items) => {
            let at = random.below(items.len() as u64) as usize;
            &mut items[at].1
        }
        Frame::Compare { .. } => return false,
    };
    let at = random.below(bytes.len() as u64) as usize;
    match bytes.get_mut(at) {
        Some(byte) => {
            *byte ^= 1 << random.below(8);
            true
        }
        None => false,
    }
}

fn no_space() -> Failure {
    Failure::new(FailureKind::Space, "write", "No space left on device")
}
