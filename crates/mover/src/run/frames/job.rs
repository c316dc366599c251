//! A producer or a consumer and the sessions that it rides in: one after the other, as long as outages are borne.

use super::consume::ConsumeRun;
use super::held_up;
use super::hub::HubChannel;
use super::local::Joined;
use super::produce::{self, ProduceRun};
use super::windows::is_of_window;
use crate::admission::SlotAsked;
use crate::event::{Event, Events};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::lane::Window;
use crate::frames::{ChannelWishes, FrameFrom, FramePolicy, HeldLevel, OPEN_CHANNEL, ProducerId};
use crate::mutex::lock;
use crate::plan::{self, Asked, Path, Plan};
use crate::retry::attempts::{Attempts, Policy};
use crate::run::chance;
use crate::run::client::{Client, LinkSettings};
use crate::run::copy::Stop;
use crate::run::far_mover::FarMover;
use crate::run::flow::lags::LatePiece;
use crate::run::flow::slot::{InSlot, TakenSlot, Word, fit_pieces};
use crate::run::thread;
use crate::run::transfer::Transfer;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::hex::hex;
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelStatus, ChannelTerms, Check, Consume, Direction, FrameRole, FrameTerms, Open, Place, Question,
    Reply, Request, Terms, TransferNumber,
};
use thalweg_wire::path::Sentence;

/// Streams that are opened without being asked for: frames come one after the other, more streams only let them
/// overtake.
const FRAME_STREAMS_MAX: u16 = 4;
/// What heals once the hub stood: all that is busy, too. The longer the pause, the more frames wait.
const HEALS: Policy = Policy {
    first_max: 1,
    away: &[],
    handshake: false,
    busy: true,
    pause: Duration::from_millis(300),
    pause_max: Duration::from_millis(300),
};
/// Between two looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A hub that takes nothing for so long is asked why, and then so often.
const ASK_WHY_AFTER: Duration = Duration::from_secs(1);
const ASK_WHY_EVERY: Duration = Duration::from_secs(5);
/// For so long a producer is held up before it is told by whom, and not again before so long.
const TELL_AFTER: Duration = Duration::from_secs(5);
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Items under way to a consumer that shares: whoever is free takes the next.
const SHARED_ITEMS: u32 = 16;
/// Items under way to a consumer that gets only the latest: one to work on, one to come, and what was lost before each.
const LATEST_ITEMS: u32 = 4;

/// Where a channel is, and what is wanted of the way to it.
#[derive(Clone)]
pub struct Opening {
    /// The far mover that has it.
    pub far: Arc<FarMover>,
    /// Its place there.
    pub place: Place,
    /// The link.
    pub link: LinkSettings,
    /// TCP connections.
    pub streams: Option<u16>,
    /// How the channel is kept.
    pub channel: ChannelWishes,
    /// Bytes under way.
    pub window_bytes: u64,
    /// Hears of the link.
    pub events: Events,
}

/// What a producer wants.
pub struct ProduceWishes {
    /// Its name; `None`: a random one.
    pub producer: Option<String>,
    /// When the hub has a frame.
    pub level: HeldLevel,
    /// Send only in windows that the server promises; refused, nothing is sent.
    pub slot: Option<SlotAsked>,
}

/// What a consumer wants.
pub struct ConsumeWishes {
    /// What happens when it is slow.
    pub policy: FramePolicy,
    /// Whom it shares with.
    pub group: Option<String>,
    /// Where it begins.
    pub from: FrameFrom,
    /// A name to come back under.
    pub name: Option<String>,
    /// It ends when so many producers have.
    pub producers: u32,
    /// For so long its place is kept.
    pub keep: Duration,
    /// What the link could carry.
    pub link_bits_per_s: Option<u64>,
}

/// Keeps a link. Stopped when dropped.
pub struct Keeper {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    /// Ends the link in order, after the last words.
    pub fn stop(&self) {
        self.stop.stop();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens a channel as a producer. Returns when the hub stands.
///
/// With a smaller window, which is told, where the hub has no room for the one that was asked for.
///
/// # Errors
/// Why it cannot begin; `Busy` with the reason for a slot that cannot be promised.
pub fn produce(opening: Opening, wishes: ProduceWishes) -> Result<(Arc<ProduceRun>, Keeper)> {
    let name = match wishes.producer {
        Some(name) => name,
        None => hex(&random()?),
    };
    let producer = ProducerId::new(&name)
        .map_err(|error| Failure::new(FailureKind::Usage, OPEN_CHANNEL, error.to_string()))?;
    let asks = Produce {
        producer: producer.clone(),
        process: random()?,
        level: wishes.level,
        keep_ms: keep_ms(opening.link.patience),
        slot: wishes.slot,
    };
    let mut opening = opening;
    loop {
        let window = window(opening.window_bytes, limits::LANE_ITEMS_MAX)?;
        let run = ProduceRun::new(producer.clone(), window);
        let end = End::Producer(run.clone(), asks.clone());
        match keep(opening.clone(), end) {
            Ok(keeper) => return Ok((run, keeper)),
            // What is under way is ours to choose: half of it costs nothing where the hub is near.
            Err(failure) if is_of_window(&failure) && opening.window_bytes > limits::LANE_BYTES_MIN => {
                opening.window_bytes = (opening.window_bytes / 2).max(limits::LANE_BYTES_MIN);
                (opening.events)(Event::Note(tries_with(&failure, opening.window_bytes)));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// What is told where a hub refused a window, in its words, and another one is asked for.
fn tries_with(refused: &Failure, window_bytes: u64) -> String {
    format!("{}: trying with {window_bytes} bytes", Sentence(&refused.cause))
}

/// Opens a channel as a consumer.
///
/// # Errors
/// Why it cannot begin.
pub fn consume(opening: Opening, wishes: ConsumeWishes) -> Result<(Arc<ConsumeRun>, Keeper)> {
    let (run, asks) = consumer(opening.window_bytes, wishes, opening.link.patience)?;
    let keeper = keep(opening, End::Consumer(run.clone(), asks))?;
    Ok((run, keeper))
}

/// The same of a channel whose hub is in this process. Nothing travels; a hub that is stopped ends the consumer.
///
/// # Errors
/// Why it cannot begin.
pub fn consume_within(
    channel: Arc<HubChannel>,
    wishes: ConsumeWishes,
    (window_bytes, kept): (u64, ChannelWishes),
    terms: Terms,
) -> Result<(Arc<ConsumeRun>, Keeper)> {
    // Between it and its hub is no link.
    let (run, asks) = consumer(window_bytes, wishes, Duration::ZERO)?;
    let window = run.window();
    let frames = FrameTerms {
        window_bytes: window.bytes,
        window_items: window.items,
        channel: kept,
        role: FrameRole::Consume(Box::new(asks)),
    };
    let joined = Joined::begin(run.clone(), channel, &frames, terms)?;
    let stop = Arc::new(Stop::default());
    let (asked, failing) = (stop.clone(), run.clone());
    let ride = move || joined.ride(&asked);
    let thread = thread::guarded("frames", move |failure| failing.fail(failure), ride)?;
    Ok((run, Keeper { stop, thread: Mutex::new(Some(thread)) }))
}

/// What decides for a consumer, and what it asks the hub for. `patience`: how long it bears an outage.
fn consumer(
    window_bytes: u64,
    wishes: ConsumeWishes,
    patience: Duration,
) -> Result<(Arc<ConsumeRun>, Consume)> {
    let items = match wishes.policy {
        FramePolicy::LatestOnly => LATEST_ITEMS,
        _ if wishes.group.is_some() => SHARED_ITEMS,
        FramePolicy::DropOldest { depth } if depth > 0 => depth.clamp(LATEST_ITEMS, limits::LANE_ITEMS_MAX),
        _ => limits::LANE_ITEMS_MAX,
    };
    let window = window(window_bytes, items)?;
    let consumer = match &wishes.name {
        Some(name) => {
            let mut id = [0; 16];
            let key = blake3::derive_key("thalweg 2026-11 name of a consumer of frames", name.as_bytes());
            id.copy_from_slice(&key[..16]);
            id
        }
        None => random()?,
    };
    if let Some(group) = &wishes.group {
        ProducerId::new(group)
            .map_err(|error| Failure::new(FailureKind::Usage, OPEN_CHANNEL, error.to_string()))?;
    }
    let run = ConsumeRun::new(window, wishes.from, wishes.group.is_some());
    run.set_link(wishes.link_bits_per_s);
    let asks = Consume {
        consumer,
        process: random()?,
        name: wishes.name.filter(|name| ProducerId::new(name).is_ok()),
        group: wishes.group,
        policy: wishes.policy,
        from: wishes.from,
        instance: None,
        has: Vec::new(),
        producers: wishes.producers,
        keep_ms: keep_ms(wishes.keep),
        patience_ms: keep_ms(patience),
    };
    Ok((run, asks))
}

/// As long as a hub keeps a place at most.
fn keep_ms(keep: Duration) -> u32 {
    u32::try_from(keep.as_millis()).unwrap_or(u32::MAX).min(limits::KEEP_MS_MAX)
}

fn window(bytes: u64, items: u32) -> Result<Window> {
    let (least, most) = (limits::LANE_BYTES_MIN, limits::LANE_BYTES_MAX);
    if !(least..=most).contains(&bytes) {
        let cause = format!("the bytes under way are from {} KiB to {} MiB", least >> 10, most >> 20);
        return Err(Failure::new(FailureKind::Usage, OPEN_CHANNEL, cause));
    }
    Ok(Window { bytes, items })
}

fn random() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id)
        .map_err(|_| Failure::new(FailureKind::Internal, OPEN_CHANNEL, "no random numbers"))?;
    Ok(id)
}

/// What a producer asks for.
#[derive(Clone)]
struct Produce {
    producer: ProducerId,
    process: [u8; 16],
    level: HeldLevel,
    keep_ms: u32,
    slot: Option<SlotAsked>,
}

/// The end that we are.
#[derive(Clone)]
enum End {
    Producer(Arc<ProduceRun>, Produce),
    Consumer(Arc<ConsumeRun>, Consume),
}

impl End {
    fn direction(&self) -> Direction {
        match self {
            End::Producer(..) => Direction::Push,
            End::Consumer(..) => Direction::Pull,
        }
    }

    fn role(&self) -> FrameRole {
        match self {
            End::Producer(run, asks) => FrameRole::Produce {
                producer: asks.producer.clone(),
                process: asks.process,
                first: run.first(),
                level: asks.level,
                keep_ms: asks.keep_ms,
            },
            End::Consumer(run, asks) => FrameRole::Consume(Box::new(Consume {
                instance: run.instance(),
                has: run.has(),
                ..asks.clone()
            })),
        }
    }

    fn window(&self) -> Window {
        match self {
            End::Producer(run, ..) => run.window(),
            End::Consumer(run, _) => run.window(),
        }
    }

    /// Opens its lane at the hub: its end of the link, for the session; and how the channel is kept.
    fn attach(
        &self,
        open: Open,
        client: &Client,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<(Arc<dyn Transfer>, ChannelTerms)> {
        let (number, terms, outbox) = (open.transfer, open.terms.clone(), client.session.outbox());
        match self {
            End::Producer(run, ..) => {
                let (channel, before) = client.open_producer(open, is_given_up)?;
                run.note_before(before);
                Ok((run.attach(number, terms, outbox), channel))
            }
            End::Consumer(run, _) => {
                let (instance, channel) = client.open_consumer(open, is_given_up)?;
                Ok((run.attach(number, terms, instance, outbox), channel))
            }
        }
    }

    fn begin(&self) {
        if let End::Consumer(run, _) = self {
            run.begin();
        }
    }

    /// Whether the hub stands, where that must be known before anything is pushed.
    fn is_ready(&self) -> bool {
        match self {
            End::Producer(run, ..) => run.is_standing(),
            End::Consumer(..) => true,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            End::Producer(run, ..) => run.is_over(),
            End::Consumer(run, _) => run.is_over(),
        }
    }

    fn fail(&self, failure: Failure) {
        match self {
            End::Producer(run, ..) => run.fail(failure),
            End::Consumer(run, _) => run.fail(failure),
        }
    }
}

/// A producer that sends in a slot.
struct Pushing {
    run: Arc<ProduceRun>,
    events: Events,
}

impl InSlot for Pushing {
    fn first_ready(&self, patience: Duration) -> Option<Instant> {
        self.run.first_push(patience)
    }

    fn is_over(&self) -> bool {
        self.run.is_over()
    }

    fn first_late(&self) -> Option<LatePiece> {
        self.run.take_first_late()
    }

    fn tell(&self, text: String) {
        (self.events)(Event::Note(text));
    }
}

/// How long a hub has taken nothing of a producer.
struct HeldUp {
    /// Frames that it has.
    taken: u64,
    since: Instant,
    asked_at: Option<Instant>,
    /// When it was told last, also of an earlier time.
    told_at: Option<Instant>,
}

/// How a channel stands. Only its hub knows: its producers see no more than that it takes nothing. A hub that does not
/// answer is not waited for any more when `is_done` says so.
fn status_of(client: &Client, place: &Place, is_done: &dyn Fn() -> bool) -> Option<ChannelStatus> {
    let mut status = None;
    let mut answers = client.ask(Question::Channel { place: place.clone() }).ok()?;
    while let Some(reply) = answers.piece(is_done) {
        if let Reply::Channel(told) = reply.ok()? {
            status = Some(*told);
        }
    }
    status
}

/// Has a thread keep the link, and waits until it stands for the first time.
fn keep(opening: Opening, end: End) -> Result<Keeper> {
    let stop = Arc::new(Stop::default());
    let (tells, first) = mpsc::sync_channel(1);
    let (asked, failing) = (stop.clone(), end.clone());
    let work = move || {
        let attempts = Attempts::new(HEALS, opening.link.patience, Instant::now());
        let mut job = Job { opening, end, stop: asked, first: Some(tells), attempts };
        if let Err(failure) = job.run() {
            if let Some(first) = job.first.take() {
                let _ = first.send(Err(failure.clone()));
            }
            job.end.fail(failure);
        }
    };
    let thread = thread::guarded("frames", move |failure| failing.fail(failure), work)?;
    let keeper = Keeper { stop, thread: Mutex::new(Some(thread)) };
    match first.recv() {
        Ok(begun) => begun.map(|()| keeper),
        Err(_) => Err(thread::panicked("frames")),
    }
}

/// A ride is over. With a lost connection the session ends first: that has the hub keep the place of its end, where the
/// reason by itself would have it give that up for good.
fn conclude(client: &Client, number: TransferNumber, failure: Option<&Failure>) {
    if let Some(lost) = failure.filter(|failure| failure.kind == FailureKind::Connection) {
        client.session.close(Some(lost.clone()));
    }
    client.conclude(number, failure);
}

struct Job {
    opening: Opening,
    end: End,
    stop: Arc<Stop>,
    /// Hears how the first attempt went.
    first: Option<SyncSender<Result<()>>>,
    /// All is well while there is a link.
    attempts: Attempts,
}

impl Job {
    /// One session after the other.
    fn run(&mut self) -> Result<()> {
        loop {
            let failure = match self.attempt() {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if self.is_done() {
                return Ok(());
            }
            let again = self.attempts.failed(&failure, Instant::now(), chance());
            let Some(pause) = again else { return Err(failure) };
            tracing::info!(%failure, "no link to the hub");
            std::thread::sleep(pause);
        }
    }

    fn is_done(&self) -> bool {
        self.stop.is_asked() || self.end.is_over()
    }

    fn attempt(&mut self) -> Result<()> {
        let Opening { far, link, events, .. } = &self.opening;
        self.attempts.begin();
        let settings = LinkSettings { spent: self.attempts.dial(Instant::now()), ..link.clone() };
        let (client, number) = far.transfer(settings, events.clone())?;
        let result = self.ride(&client, number);
        conclude(&client, number, result.as_ref().err());
        result
    }

    fn ride(&mut self, client: &Arc<Client>, number: TransferNumber) -> Result<()> {
        let mut plan = self.plan(client);
        let mut slot = self.take_slot(client)?;
        if let Some((run, slot)) = &mut slot {
            let held = slot.held();
            fit_pieces(&mut plan, held.slot.bytes);
            run.set_slot(slot.gate(), held.deadline);
            slot.keep(Arc::new(Pushing { run: run.clone(), events: self.opening.events.clone() }))?;
        }
        let mut told = None;
        let terms = Terms { check: Check::Digest, ..self.opening.link.terms(&plan) };
        let (link, channel) = self.end.attach(self.open(number, terms), client, &|| self.is_done())?;
        if self.first.is_some()
            && let Some(text) = held_up::unlike(&self.opening.channel, &channel)
        {
            (self.opening.events)(Event::Note(text));
        }
        client.add(number, link)?;
        client.want_streams(plan.streams.value, &plan);
        self.end.begin();
        let mut held_up = HeldUp { taken: 0, since: Instant::now(), asked_at: None, told_at: None };
        loop {
            self.look_why(client, &mut held_up);
            if client.session.is_closed() {
                return Err(client.session.why_closed("move frames"));
            }
            if let Some((run, slot)) = &slot {
                if let Some(news) = slot.news(&mut told) {
                    run.note_slot(news);
                    (self.opening.events)(Event::Slot(Box::new(news)));
                }
                slot.look_for_late();
                slot.failure().map_or(Ok(()), Err)?;
            }
            if client.session.lost_since().is_none() {
                self.attempts.goes_well(Instant::now());
            }
            if self.is_done() {
                return Ok(());
            }
            if self.end.is_ready()
                && let Some(first) = self.first.take()
            {
                self.attempts.linked();
                let _ = first.send(Ok(()));
            }
            std::thread::sleep(if self.first.is_some() { LOOK_AGAIN / 10 } else { LOOK_AGAIN });
        }
    }

    /// Asks a hub that takes nothing whether it is its log that cannot be written, or for which consumer it waits, and
    /// tells it: who makes frames sees neither.
    fn look_why(&self, client: &Client, held_up: &mut HeldUp) {
        let End::Producer(run, ..) = &self.end else { return };
        while let Some(consumer) = run.take_passed_over() {
            (self.opening.events)(Event::Note(held_up::passed_over(&consumer)));
        }
        let figures = run.figures();
        let taken = figures.frames.saturating_sub(figures.waiting);
        if figures.waiting == 0 || taken != held_up.taken {
            *held_up = HeldUp { taken, since: Instant::now(), asked_at: None, ..*held_up };
            run.set_trouble(None);
            return;
        }
        let is_asked = held_up.asked_at.is_some_and(|at| at.elapsed() < ASK_WHY_EVERY);
        let is_lost = client.session.lost_since().is_some() || client.session.is_closed();
        if held_up.since.elapsed() < ASK_WHY_AFTER || is_asked || is_lost {
            return;
        }
        let status = status_of(client, &self.opening.place, &|| self.is_done());
        held_up.asked_at = Some(Instant::now());
        let Some(status) = status else { return };
        if let Some(why) = &status.spill_trouble {
            if run.set_trouble(Some(why.clone())) {
                (self.opening.events)(Event::Note(produce::cannot_write(why)));
            }
            return;
        }
        let held = held_up.since.elapsed();
        let is_told = held_up.told_at.is_some_and(|at| at.elapsed() < TELL_AGAIN);
        if held >= TELL_AFTER
            && !is_told
            && let Some(by) = held_up::by_whom(&status, run.producer())
        {
            held_up.told_at = Some(Instant::now());
            (self.opening.events)(Event::Note(format!("held up {} s: {by}", held.as_secs())));
        }
    }

    /// Of a producer that wants one. All that it may have under way has to have room.
    fn take_slot(&self, client: &Arc<Client>) -> Result<Option<(Arc<ProduceRun>, TakenSlot)>> {
        let End::Producer(run, Produce { level, slot: Some(asked), .. }) = &self.end else {
            return Ok(None);
        };
        let word = match level {
            HeldLevel::Memory => Word::Held,
            HeldLevel::Durable => Word::Durable(Duration::ZERO),
        };
        let ready = run.latest_burst();
        let stall = self.opening.link.stall_timeout;
        let slot = TakenSlot::take(client, *asked, (word, stall), ready, &|| self.is_done())?;
        let (needed, most) = (slot.buffer_bytes(), run.window().bytes);
        if needed > most {
            let cause = format!(
                "{needed} bytes would have to be kept until the hub has them, and {most} may be: smaller bursts, or a \
                larger --window"
            );
            return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
        }
        Ok(Some((run.clone(), slot)))
    }

    fn plan(&self, client: &Client) -> Plan {
        let (sender, receiver) = client.systems(self.end.direction());
        let why = "frames come one after the other: more streams only let them overtake";
        let streams_most = Some((FRAME_STREAMS_MAX, why));
        let asked = Asked { streams: self.opening.streams, streams_most, ..Asked::default() };
        let path = Path { rtt: Some(client.rtt), sender, receiver, learned: None, tuned: None };
        let plan = plan::plan(&asked, &path);
        (self.opening.events)(Event::Planned(Box::new(plan.clone())));
        plan
    }

    fn open(&self, transfer: TransferNumber, terms: Terms) -> Open {
        let window = self.end.window();
        let frames = FrameTerms {
            window_bytes: window.bytes,
            window_items: window.items,
            channel: self.opening.channel,
            role: self.end.role(),
        };
        Open::of(transfer, Request::Frames { place: self.opening.place.clone(), frames }, terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::LONG;
    use crate::run::client::tests::{link, server_without_a_link, without_a_link};

    #[test]
    fn a_hub_hears_of_a_lost_connection_as_the_end_of_the_session() {
        let (client, server) = (without_a_link(), server_without_a_link());
        link(&client, &server);
        let refused = Failure::new(FailureKind::Usage, OPEN_CHANNEL, "refused");
        conclude(&client, TransferNumber(1), Some(&refused));
        conclude(&client, TransferNumber(2), None);
        assert!(!client.session.is_closed(), "others may be in it");
        let lost = Failure::new(FailureKind::Connection, OPEN_CHANNEL, "the server did not answer");
        conclude(&client, TransferNumber(3), Some(&lost));
        assert!(client.session.is_closed());
        let until = Instant::now() + LONG;
        while !server.session.is_closed() {
            assert!(Instant::now() < until, "it is not told");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(server.session.failure().map(|why| why.kind), Some(FailureKind::Connection));
    }

    #[test]
    fn why_a_hub_gives_no_such_window_is_no_order_to_a_terminal() {
        let refused = Failure::new(FailureKind::Busy, OPEN_CHANNEL, "no room\u{1b}[2J");
        assert_eq!(tries_with(&refused, 7), "no room\\x1b[2J: trying with 7 bytes");
    }
}
