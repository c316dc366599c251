//! A producer at work, and its end of the lane in one session.

use super::segments::{Going, Outlets};
use super::{FramesLink, new_link, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::clock::ClockFilter;
use crate::frames::lane::Window;
use crate::frames::producer::Producer;
use crate::frames::{NewFrame, ProducerId, ProducerReport, SenderFigures};
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::run::{Clock, Outbox};
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Stage, Stopwatch};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::Digest;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FrameHead, FramesMessage, Terms, TransferMessage, TransferNumber};

/// See the module. Outlives sessions.
pub struct ProduceRun {
    producer: ProducerId,
    window: Window,
    accounts: Accounts,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    machine: Producer,
    link: Option<Linked>,
    filter: ClockFilter,
    asks: Asks,
    failed: Option<Failure>,
    frames: u64,
    bytes: u64,
    blocked: Duration,
    outages: u64,
    taken_bytes: u64,
    is_over: bool,
}

impl State {
    /// Asks what time it is at the hub, if it is time to.
    fn ask(&mut self) {
        if self.asks.is_due() {
            say(self, FramesMessage::ClockAsk { asked_ns: wall_ns() });
        }
    }
}

struct Linked {
    id: u64,
    number: TransferNumber,
    outbox: Arc<dyn Outbox>,
}

/// When the hub's clock is asked for: some times at first, then every second.
#[derive(Default)]
pub(super) struct Asks {
    asked: u32,
    last: Option<Instant>,
}

impl Asks {
    /// Whether nothing was asked yet.
    pub fn is_new(&self) -> bool {
        self.asked == 0
    }

    /// Whether it is time.
    pub fn is_due(&mut self) -> bool {
        let pause = if self.asked < ASKS_AT_FIRST { Duration::ZERO } else { ASK_EVERY };
        let is_due = self.last.is_none_or(|last| last.elapsed() >= pause);
        if is_due {
            self.asked += 1;
            self.last = Some(Instant::now());
        }
        is_due
    }
}

const ASKS_AT_FIRST: u32 = 8;
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks of who waits.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl ProduceRun {
    /// Of this name; nothing is said before it has a link.
    pub fn new(producer: ProducerId, window: Window) -> Arc<ProduceRun> {
        Arc::new(ProduceRun {
            state: Mutex::new(State {
                machine: Producer::new(producer.clone(), window),
                link: None,
                filter: ClockFilter::default(),
                asks: Asks::default(),
                failed: None,
                frames: 0,
                bytes: 0,
                blocked: Duration::ZERO,
                outages: 0,
                taken_bytes: 0,
                is_over: false,
            }),
            producer,
            window,
            accounts: Accounts::default(),
            clock: Clock::start(),
            changed: Condvar::new(),
        })
    }

    /// Its name.
    pub fn producer(&self) -> &ProducerId {
        &self.producer
    }

    /// Its window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The lowest sequence that it can still give.
    pub fn first(&self) -> Option<u64> {
        self.lock().machine.first()
    }

    /// From now on it is transfer `number` of the session of `outbox`.
    pub fn attach(
        self: &Arc<Self>,
        number: TransferNumber,
        terms: Terms,
        outbox: Box<dyn Outbox>,
    ) -> Arc<dyn FramesLink> {
        let id = new_link();
        let mut state = self.lock();
        state.machine.unlink();
        state.asks = Asks::default();
        state.link = Some(Linked { id, number, outbox: outbox.into() });
        Arc::new(ProduceLink { run: self.clone(), id, number, terms, outlets: Outlets::default() })
    }

    /// Gives a frame, and returns its sequence. Waits for room at most so long.
    ///
    /// # Errors
    /// `Usage`, `Busy` without room in time, or why it failed as a whole.
    pub fn push(&self, frame: NewFrame, timeout: Option<Duration>) -> Result<u64> {
        let mut watch = Stopwatch::start(&self.accounts);
        let (payload_bytes, metadata_bytes) = (frame.payload.len() as u64, frame.metadata.len());
        let mut head = FrameHead {
            producer: self.producer.clone(),
            sequence: 0,
            set: frame.set,
            time_ns: frame.time_ns.unwrap_or_else(wall_ns),
            deadline_ns: frame.deadline_ns,
            dtype: frame.dtype,
            shape: frame.shape,
            metadata: frame.metadata,
            payload_bytes,
            digest: Digest::default(),
            stamp: None,
        };
        let usage = |error: thalweg_wire::DecodeError| {
            Failure::new(FailureKind::Usage, "push a frame", error.to_string())
        };
        // Before it is digested.
        head.check().map_err(usage)?;
        head.digest = Digest(*blake3::hash(&frame.payload).as_bytes());
        watch.lap(Stage::Digest, payload_bytes);
        let mut state = self.lock();
        let began = Instant::now();
        while !state.machine.has_room(payload_bytes, metadata_bytes) {
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) || state.failed.is_some() {
                break;
            }
            state = self.wait(state, left);
        }
        state.blocked += began.elapsed();
        if let Some(failure) = &state.failed {
            return Err(failure.clone());
        }
        if !state.machine.has_room(payload_bytes, metadata_bytes) {
            let cause = "the hub takes no more at the moment: its consumers are slower";
            return Err(Failure::new(FailureKind::Busy, "push a frame", cause));
        }
        let sequence = state.machine.push(head, frame.payload)?;
        state.frames += 1;
        state.bytes += payload_bytes;
        self.pump(&mut state);
        Ok(sequence)
    }

    /// A set has so many frames.
    ///
    /// # Errors
    /// `Usage`, or why it failed as a whole.
    pub fn declare(&self, set: u64, frames: u32) -> Result<()> {
        let mut state = self.lock();
        if let Some(failure) = &state.failed {
            return Err(failure.clone());
        }
        state.machine.declare(set, frames)?;
        self.pump(&mut state);
        Ok(())
    }

    /// Says that no more will come, and waits until the hub has everything.
    ///
    /// # Errors
    /// `Busy` if that took longer; why it failed as a whole.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<ProducerReport> {
        let began = Instant::now();
        let mut state = self.lock();
        state.machine.finish();
        self.pump(&mut state);
        loop {
            if state.machine.is_finished() {
                state.is_over = true;
                break;
            }
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                let cause = "the hub has not everything yet";
                return Err(Failure::new(FailureKind::Busy, "finish", cause));
            }
            state = self.wait(state, left);
        }
        say(&state, FramesMessage::Leave);
        let frames = state.machine.frames();
        drop(state);
        Ok(ProducerReport { producer: self.producer.to_string(), frames, figures: self.figures() })
    }

    /// Ends at once.
    pub fn abort(&self) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        state.is_over = true;
        let failure = Failure::new(FailureKind::Stopped, "push frames", "the producer was ended");
        if let Some(link) = &state.link {
            link.outbox.say(link.number, TransferMessage::Abort(failure.clone()));
        }
        state.failed.get_or_insert(failure);
        drop(state);
        self.changed.notify_all();
    }

    /// It cannot go on.
    pub fn fail(&self, failure: Failure) {
        self.lock().failed.get_or_insert(failure);
        self.changed.notify_all();
    }

    /// Whether nobody needs a link any more.
    pub fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_over || state.failed.is_some()
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.lock().failed.clone()
    }

    /// Whether the hub stood already.
    pub fn is_standing(&self) -> bool {
        self.lock().machine.epoch().is_some()
    }

    /// Figures so far.
    pub fn figures(&self) -> SenderFigures {
        let state = self.lock();
        let (waiting, waiting_bytes) = state.machine.waiting();
        SenderFigures {
            frames: state.frames,
            bytes: state.bytes,
            waiting,
            waiting_bytes,
            again: state.machine.again(),
            blocked_ns: u64::try_from(state.blocked.as_nanos()).unwrap_or(u64::MAX),
            outages: state.outages,
            clock: state.filter.offset(),
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Option<Duration>) -> MutexGuard<'a, State> {
        let most = left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        self.changed.wait_timeout(state, most).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn pump(&self, state: &mut State) {
        while state.link.is_some()
            && let Some(message) = state.machine.take_message()
        {
            say(state, message);
        }
        if let Some(link) = &state.link {
            link.outbox.work();
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn say(state: &State, message: FramesMessage) {
    if let Some(link) = &state.link {
        link.outbox.say(link.number, TransferMessage::Frames(message));
    }
}

/// The producer in one session.
struct ProduceLink {
    run: Arc<ProduceRun>,
    id: u64,
    number: TransferNumber,
    terms: Terms,
    outlets: Outlets,
}

impl ProduceLink {
    /// The state, as long as this is the link.
    fn current(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.run.lock();
        state.link.as_ref().is_some_and(|link| link.id == self.id).then_some(state)
    }
}

impl FramesLink for ProduceLink {
    fn number(&self) -> TransferNumber {
        self.number
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn accounts(&self) -> &Accounts {
        &self.run.accounts
    }

    fn sends(&self) -> bool {
        true
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        let Some(mut state) = self.current() else { return Ok(()) };
        match message {
            TransferMessage::Frames(FramesMessage::ClockTell { asked_ns, hub_ns }) => {
                state.filter.answered(asked_ns, hub_ns, wall_ns(), self.run.clock.now());
                if let Some(offset) = state.filter.offset() {
                    state.machine.set_clock(offset);
                }
                state.ask();
            }
            TransferMessage::Frames(message) => {
                let before = state.machine.waiting().1;
                state.machine.hear(message)?;
                let taken = before.saturating_sub(state.machine.waiting().1);
                state.taken_bytes += taken;
                if state.asks.is_new() {
                    state.ask();
                }
            }
            TransferMessage::Abort(failure) => drop(state.failed.get_or_insert(failure)),
            TransferMessage::Accounts(_) => {}
            _ => return Err(Failure::new(FailureKind::Protocol, "hear", "a hub does not say this")),
        }
        self.run.pump(&mut state);
        Ok(())
    }

    fn link_up(&self) {
        if let Some(mut state) = self.current() {
            // The hub stands anew.
            state.machine.unlink();
            state.outages += 1;
        }
    }

    fn detach(&self) {
        if let Some(mut state) = self.current() {
            state.machine.unlink();
            state.link = None;
            state.outages += 1;
        }
    }

    fn tick(&self) {
        if let Some(mut state) = self.current() {
            state.ask();
        }
    }

    fn stream_lost(&self, stream: u16) {
        self.outlets.lost(stream);
        if let Some(mut state) = self.current() {
            state.machine.stream_lost(stream);
        }
    }

    fn work(&self, stream: u16, buffer: &mut FrameBuffer, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let Some(epoch) = self.current().map(|state| state.machine.epoch()) else { return Ok(Did::Over) };
        let sink = (buffer, outlet, self.terms.segment_bytes as usize);
        let next = || {
            let made = self.current().and_then(|mut state| state.machine.next(stream));
            let Some((epoch, made)) = made else { return Ok(None) };
            Going::frame(epoch, made.head.sequence, &made.head, made.payload.clone()).map(Some)
        };
        self.outlets.work(stream, self.number, epoch, sink, &self.run.accounts, next)
    }

    fn take(&self, _: u16, _: &Inner, _: &[u8]) -> Result<()> {
        Err(Failure::new(FailureKind::Protocol, "receive", "a hub sends no frames to a producer"))
    }

    fn moved_bytes(&self) -> u64 {
        self.run.lock().taken_bytes
    }

    fn awaits_peer(&self) -> bool {
        self.current().is_some_and(|state| state.machine.waiting().0 > 0 && !state.is_over)
    }
}
