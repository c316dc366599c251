//! A consumer at work, and its end of the lane in one session.

use super::produce::Asks;
use super::segments::{Inlets, Whole};
use super::{FramesLink, new_link, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::clock::ClockFilter;
use crate::frames::consumer::Consumer;
use crate::frames::lane::Window;
use crate::frames::{ConsumerReport, Delivery, FrameFrom, ProducerId, ReceiverFigures};
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::run::{Clock, Outbox};
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Stage};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, Terms, TransferMessage, TransferNumber};

/// See the module. Outlives sessions.
pub struct ConsumeRun {
    window: Window,
    accounts: Accounts,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    machine: Consumer,
    link: Option<Linked>,
    filter: ClockFilter,
    asks: Asks,
    failed: Option<Failure>,
    outages: u64,
    /// The end was delivered, or nobody wants more.
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

/// Between two looks of who waits.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl ConsumeRun {
    /// One that has nothing; nothing is heard before it has a link.
    pub fn new(window: Window, from: FrameFrom, is_group: bool) -> Arc<ConsumeRun> {
        Arc::new(ConsumeRun {
            window,
            accounts: Accounts::default(),
            clock: Clock::start(),
            state: Mutex::new(State {
                machine: Consumer::new(window, from, is_group),
                link: None,
                filter: ClockFilter::default(),
                asks: Asks::default(),
                failed: None,
                outages: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Its window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Number of its lane.
    pub fn instance(&self) -> Option<u64> {
        self.lock().machine.instance()
    }

    /// What it has of each producer.
    pub fn has(&self) -> Vec<(ProducerId, u64)> {
        self.lock().machine.has()
    }

    /// From now on it is transfer `number` of the session of `outbox`, and its lane has this number.
    pub fn attach(
        self: &Arc<Self>,
        number: TransferNumber,
        terms: Terms,
        instance: u64,
        outbox: Box<dyn Outbox>,
    ) -> Arc<dyn FramesLink> {
        let id = new_link();
        let mut state = self.lock();
        state.asks = Asks::default();
        state.link = Some(Linked { id, number, outbox: outbox.into() });
        state.machine.unlink();
        state.machine.subscribed(instance);
        Arc::new(ConsumeLink { run: self.clone(), id, number, terms, inlets: Inlets::default() })
    }

    /// Says what there is to say, now that the session knows the link.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.ask();
        self.pump(&mut state);
    }

    /// What the link could carry: a score is reckoned with it.
    pub fn set_link(&self, bits_per_s: Option<u64>) {
        self.lock().machine.set_link(bits_per_s);
    }

    /// What comes next; waits at most so long.
    ///
    /// # Errors
    /// Why it failed as a whole.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Delivery>> {
        let began = Instant::now();
        let mut state = self.lock();
        loop {
            let next = state.machine.take_next();
            if let Some(Delivery::End(_)) = &next {
                state.is_over = true;
            }
            if next.is_some() {
                self.pump(&mut state);
                if state.is_over {
                    say(&state, FramesMessage::Leave);
                }
            }
            match next {
                // As it is now: the one that came with the end is some frames old.
                Some(Delivery::End(_)) => {
                    drop(state);
                    return Ok(Some(Delivery::End(Box::new(self.report()))));
                }
                Some(delivery) => return Ok(Some(delivery)),
                None => {}
            }
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if state.is_over || left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let most = left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
            state = self.changed.wait_timeout(state, most).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// Leaves the channel, and returns what it got.
    pub fn leave(&self) -> ConsumerReport {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_over, true) {
            // What was taken and not told of yet would go to others of a group.
            state.machine.tick();
            self.pump(&mut state);
            say(&state, FramesMessage::Leave);
        }
        drop(state);
        self.changed.notify_all();
        self.report()
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

    /// Figures so far.
    pub fn figures(&self) -> ReceiverFigures {
        let state = self.lock();
        ReceiverFigures { outages: state.outages, ..state.machine.figures() }
    }

    fn report(&self) -> ConsumerReport {
        let report = self.lock().machine.report();
        ConsumerReport { figures: self.figures(), ..report }
    }

    fn pump(&self, state: &mut State) {
        while state.link.is_some()
            && let Some(message) = state.machine.take_message()
        {
            say(state, message);
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

/// The consumer in one session.
struct ConsumeLink {
    run: Arc<ConsumeRun>,
    id: u64,
    number: TransferNumber,
    terms: Terms,
    inlets: Inlets,
}

impl ConsumeLink {
    /// The state, as long as this is the link.
    fn current(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.run.lock();
        state.link.as_ref().is_some_and(|link| link.id == self.id).then_some(state)
    }

    fn take_segment(&self, stream: u16, inner: &Inner, payload: &[u8]) -> Result<()> {
        let begin = |epoch, number, item: &_| match self.current() {
            Some(mut state) => state.machine.begin(epoch, number, item),
            None => Ok(false),
        };
        let whole = self.inlets.take(stream, inner, payload, &self.run.accounts, begin)?;
        let Some(Whole { epoch, number, item, payload, is_sound }) = whole else { return Ok(()) };
        let Some(mut state) = self.current() else { return Ok(()) };
        match is_sound {
            true => state.machine.arrived(epoch, number, item, payload, wall_ns())?,
            false => state.machine.damaged(epoch, number)?,
        }
        self.run.pump(&mut state);
        Ok(())
    }
}

impl FramesLink for ConsumeLink {
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
        false
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
            TransferMessage::Frames(FramesMessage::GoesOn) => state.machine.goes_on(),
            TransferMessage::Abort(failure) => drop(state.failed.get_or_insert(failure)),
            TransferMessage::Accounts(_) => {}
            _ => return Err(Failure::new(FailureKind::Protocol, "hear", "a hub does not say this")),
        }
        drop(state);
        self.run.changed.notify_all();
        Ok(())
    }

    fn link_up(&self) {
        if let Some(mut state) = self.current() {
            state.outages += 1;
            state.machine.unlink();
            state.machine.link_up();
            self.run.pump(&mut state);
        }
    }

    fn detach(&self) {
        if let Some(mut state) = self.current() {
            state.outages += 1;
            state.machine.unlink();
            state.link = None;
        }
    }

    fn tick(&self) {
        let Some(mut state) = self.current() else { return };
        state.machine.tick();
        state.ask();
        self.run.pump(&mut state);
    }

    fn stream_lost(&self, _: u16) {}

    fn work(&self, _: u16, _: &mut FrameBuffer, _: &mut dyn Outlet) -> io::Result<Did> {
        Ok(Did::Over)
    }

    fn take(&self, stream: u16, inner: &Inner, payload: &[u8]) -> Result<()> {
        self.take_segment(stream, inner, payload).or_else(|failure| match failure.kind {
            FailureKind::Protocol => Err(failure),
            // Another stream would not help.
            _ => {
                self.run.fail(failure);
                Ok(())
            }
        })
    }

    fn is_held_up(&self) -> bool {
        self.run.lock().machine.has_next()
    }

    fn moved_bytes(&self) -> u64 {
        self.run.accounts.bytes(Stage::Verify)
    }

    fn awaits_peer(&self) -> bool {
        false
    }
}
