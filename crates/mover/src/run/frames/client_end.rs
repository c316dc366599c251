//! The client's end of a lane, of a producer or a consumer alike: what outlives sessions, and the attachment in one of
//! them.

use super::{new_attachment, wall_ns};
use crate::failure::{Failure, Result};
use crate::frames::clock::{ClockFilter, UNKNOWN};
use crate::frames::consumer::Consumer;
use crate::frames::lane::Window;
use crate::frames::producer::Producer;
use crate::frames::{ClockOffset, not_said_by};
use crate::mutex::lock;
use crate::run::{Clock, Outbox};
use crate::stage::Accounts;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::message::{FramesMessage, TransferMessage, TransferNumber};

/// Between two looks of who waits.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What decides at this end.
pub(super) trait Machine {
    /// What to say next.
    fn take_message(&mut self) -> Option<FramesMessage>;
    /// There is no link.
    fn unlink(&mut self);
    /// Our clock against the hub's.
    fn set_clock(&mut self, clock: ClockOffset);
}

/// See the module. `B` is what the end keeps besides.
pub(super) struct ClientEnd<M, B = ()> {
    pub window: Window,
    pub accounts: Arc<Accounts>,
    clock: Clock,
    state: Mutex<State<M, B>>,
    changed: Condvar,
}

pub(super) struct State<M, B> {
    pub machine: M,
    pub beside: B,
    attachment: Option<Linked>,
    filter: ClockFilter,
    asks: Asks,
    pub failed: Option<Failure>,
    pub outages: u64,
    /// It has ended, or nobody wants more.
    pub is_over: bool,
}

struct Linked {
    id: u64,
    number: TransferNumber,
    outbox: Arc<dyn Outbox>,
}

/// When the hub's clock is asked for: some times at first, then every second.
#[derive(Default)]
struct Asks {
    asked: u32,
    last: Option<Instant>,
}

const ASKS_AT_FIRST: u32 = 8;
const ASK_EVERY: Duration = Duration::from_secs(1);

impl<M: Machine, B> ClientEnd<M, B> {
    /// Nothing is said or heard before it has a link.
    pub fn new(window: Window, machine: M, beside: B) -> Self {
        ClientEnd {
            window,
            accounts: Arc::default(),
            clock: Clock::start(),
            state: Mutex::new(State {
                machine,
                beside,
                attachment: None,
                filter: ClockFilter::default(),
                asks: Asks::default(),
                failed: None,
                outages: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// From now on it is transfer `number` of the session of `outbox`. Returns the number of the attachment.
    pub fn attach(
        &self,
        number: TransferNumber,
        outbox: Box<dyn Outbox>,
    ) -> (u64, MutexGuard<'_, State<M, B>>) {
        let id = new_attachment();
        let mut state = self.lock();
        // The hub may be another one, with another clock.
        (state.asks, state.filter) = (Asks::default(), ClockFilter::default());
        state.attachment = Some(Linked { id, number, outbox: outbox.into() });
        state.machine.unlink();
        state.machine.set_clock(UNKNOWN);
        (id, state)
    }

    /// The state, as long as this is the attachment.
    pub fn current(&self, attachment: u64) -> Option<MutexGuard<'_, State<M, B>>> {
        let state = self.lock();
        state.attachment.as_ref().is_some_and(|current| current.id == attachment).then_some(state)
    }

    /// The session of this attachment is gone.
    pub fn detach(&self, attachment: u64) {
        if let Some(mut state) = self.current(attachment) {
            // Who is over needs no link.
            state.outages += u64::from(!state.is_over);
            state.machine.unlink();
            state.attachment = None;
        }
    }

    /// Says what there is to say.
    pub fn pump(&self, state: &mut State<M, B>) {
        while state.attachment.is_some()
            && let Some(message) = state.machine.take_message()
        {
            state.say(message);
        }
        self.notify();
    }

    /// The hub said something that both kinds hear alike; returns what is for the machine.
    ///
    /// # Errors
    /// `Protocol` for what no hub says.
    pub fn hear(&self, state: &mut State<M, B>, message: TransferMessage) -> Result<Option<FramesMessage>> {
        match message {
            TransferMessage::Frames(FramesMessage::ClockTell { asked_ns, hub_ns }) => {
                state.filter.answered(asked_ns, hub_ns, wall_ns(), self.clock.now());
                if let Some(offset) = state.filter.offset() {
                    state.machine.set_clock(offset);
                }
                state.ask();
            }
            TransferMessage::Frames(message) => return Ok(Some(message)),
            TransferMessage::Abort(failure) => drop(state.failed.get_or_insert(failure)),
            TransferMessage::Accounts(_) => {}
            other => return Err(not_said_by("a hub", &other)),
        }
        Ok(None)
    }

    /// It cannot go on.
    pub fn fail(&self, failure: Failure) {
        self.lock().failed.get_or_insert(failure);
        self.notify();
    }

    /// Whether nobody needs a link any more.
    pub fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_over || state.failed.is_some()
    }

    /// Gives the lock away until something changed, at most so long and never for long.
    pub fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State<M, B>>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State<M, B>> {
        let most = left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
        self.changed.wait_timeout(state, most).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    pub fn notify(&self) {
        self.changed.notify_all();
    }

    pub fn lock(&self) -> MutexGuard<'_, State<M, B>> {
        lock(&self.state)
    }
}

impl<M, B> State<M, B> {
    /// Says something, if there is a link.
    pub fn say(&self, message: FramesMessage) {
        self.say_any(TransferMessage::Frames(message));
    }

    /// As [`State::say`], for what is not of frames alone.
    pub fn say_any(&self, message: TransferMessage) {
        if let Some(attachment) = &self.attachment {
            attachment.outbox.say(attachment.number, message);
        }
    }

    /// There may be new work for the streams.
    pub fn work(&self) {
        if let Some(attachment) = &self.attachment {
            attachment.outbox.work();
        }
    }

    /// Asks what time it is at the hub, if it is time to.
    pub fn ask(&mut self) {
        if self.asks.is_due() {
            self.say(FramesMessage::ClockAsk { asked_ns: wall_ns() });
        }
    }

    /// Asks what time it is at the hub, if it was not asked yet.
    pub fn ask_first(&mut self) {
        if self.asks.asked == 0 {
            self.ask();
        }
    }

    /// Its clock against the hub's.
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        self.filter.offset()
    }
}

impl Asks {
    /// Whether it is time.
    fn is_due(&mut self) -> bool {
        let pause = if self.asked < ASKS_AT_FIRST { Duration::ZERO } else { ASK_EVERY };
        let is_due = self.last.is_none_or(|last| last.elapsed() >= pause);
        if is_due {
            self.asked += 1;
            self.last = Some(Instant::now());
        }
        is_due
    }
}

impl Machine for Producer {
    fn take_message(&mut self) -> Option<FramesMessage> {
        Producer::take_message(self)
    }

    fn unlink(&mut self) {
        Producer::unlink(self);
    }

    fn set_clock(&mut self, clock: ClockOffset) {
        Producer::set_clock(self, clock);
    }
}

impl Machine for Consumer {
    fn take_message(&mut self) -> Option<FramesMessage> {
        Consumer::take_message(self)
    }

    fn unlink(&mut self) {
        Consumer::unlink(self);
    }

    fn set_clock(&mut self, clock: ClockOffset) {
        Consumer::set_clock(self, clock);
    }
}
