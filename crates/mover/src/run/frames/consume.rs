//! A consumer at work, and its end of the lane in one session.

use super::client_end::{ClientEnd, State};
use super::segments::{Inlets, Whole};
use super::{Head, add_moved, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::channel::What;
use crate::frames::consumer::Consumer;
use crate::frames::lane::Window;
use crate::frames::{ConsumerReport, Delivery, FrameFrom, Payload, ReceiverFigures, not_said_by};
use crate::memory::Shelf;
use crate::run::Outbox;
use crate::run::transfer::{Crossed, PeerNow, Reception, Transfer, limited};
use crate::stage::Stage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, HasOf, Heartbeat, Item, Terms, TransferMessage, TransferNumber};

/// See the module. Outlives sessions.
pub struct ConsumeRun {
    end: ClientEnd<Consumer>,
    /// Memory of payloads that nobody has any more, as far as it is within the window with those that somebody has.
    shelf: Shelf,
    is_let_go: AtomicBool,
}

impl ConsumeRun {
    /// One that has nothing; nothing is heard before it has a link.
    pub fn new(window: Window, from: FrameFrom, is_group: bool) -> Arc<ConsumeRun> {
        let machine = Consumer::new(window, from, is_group);
        let shelf = Shelf::new(usize::try_from(window.bytes).unwrap_or(usize::MAX));
        let end = ClientEnd::new(window, machine, ());
        Arc::new(ConsumeRun { end, shelf, is_let_go: AtomicBool::new(false) })
    }

    /// Its window.
    pub fn window(&self) -> Window {
        self.end.window
    }

    /// Number of its lane.
    pub fn instance(&self) -> Option<u64> {
        self.end.lock().machine.instance()
    }

    /// What it has of each producer.
    pub fn has(&self) -> Vec<HasOf> {
        self.end.lock().machine.has()
    }

    /// From now on it is transfer `number` of the session of `outbox`, and its lane has this number.
    pub fn attach(
        self: &Arc<Self>,
        number: TransferNumber,
        terms: Terms,
        instance: u64,
        outbox: Box<dyn Outbox>,
    ) -> Arc<dyn Transfer> {
        let (id, mut state) = self.end.attach(number, outbox);
        state.machine.subscribed(instance);
        let head = Head { number, terms, accounts: self.end.accounts.clone(), sends: false };
        let inlets = Inlets::new(self.shelf.clone());
        Arc::new(ConsumeLink { run: self.clone(), id, head, inlets })
    }

    /// Says what there is to say, now that the session knows the link.
    pub fn begin(&self) {
        let mut state = self.end.lock();
        state.ask();
        self.end.pump(&mut state);
    }

    /// What the link could carry: a score is reckoned with it.
    pub fn set_link(&self, bits_per_s: Option<u64>) {
        self.end.lock().machine.set_link(bits_per_s);
    }

    /// What comes next; waits at most so long.
    ///
    /// # Errors
    /// Why it failed as a whole.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Delivery>> {
        let began = Instant::now();
        let mut state = self.end.lock();
        loop {
            let next = state.machine.take_next();
            if next.is_some() {
                self.end.pump(&mut state);
            }
            if let Some(Delivery::End(_)) = &next
                && !state.machine.is_unsettled()
            {
                self.leave_at(&mut state);
            }
            match next {
                // With the outages, of which the machine knows nothing.
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
            let is_over = state.is_over || state.machine.is_ended();
            if is_over || left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            state = self.end.wait(state, left);
        }
    }

    /// From now on what is delivered is taken only when it is [settled](ConsumeRun::settle).
    pub fn hold(&self) {
        self.end.lock().machine.hold();
    }

    /// Whether so much waits to be settled that the hub would soon have to wait for that.
    pub fn wants_settling(&self) -> bool {
        self.end.lock().machine.wants_settling()
    }

    /// What was delivered so far is put away. After the end it leaves the channel.
    pub fn settle(&self) {
        let mut state = self.end.lock();
        state.machine.settle();
        self.end.pump(&mut state);
        if state.machine.is_ended() && !state.machine.has_next() {
            self.leave_at(&mut state);
        }
        drop(state);
        self.end.notify();
    }

    /// Whether the hub goes on behind what another process under its name took.
    pub fn has_gone_on(&self) -> bool {
        self.end.lock().machine.has_gone_on()
    }

    /// Ends, and leaves its place at the hub to the process that comes back under its name, which gets what was not
    /// settled.
    pub fn let_go(&self) {
        let mut state = self.end.lock();
        if !std::mem::replace(&mut state.is_over, true) {
            self.is_let_go.store(true, Ordering::Release);
            state.machine.tick();
            self.end.pump(&mut state);
        }
        drop(state);
        self.end.notify();
    }

    /// Whether its place at the hub is left to who comes back under its name.
    pub(super) fn is_let_go(&self) -> bool {
        self.is_let_go.load(Ordering::Acquire)
    }

    fn leave_at(&self, state: &mut State<Consumer, ()>) {
        if !std::mem::replace(&mut state.is_over, true) {
            state.say(FramesMessage::Leave);
        }
    }

    /// Leaves the channel, and returns what it got.
    pub fn leave(&self) -> ConsumerReport {
        let mut state = self.end.lock();
        if !state.is_over {
            // What was taken and not told of yet would go to others of a group.
            state.machine.tick();
            self.end.pump(&mut state);
            self.leave_at(&mut state);
        }
        drop(state);
        self.end.notify();
        self.report()
    }

    /// An item of a hub in this process.
    ///
    /// # Errors
    /// `Protocol` for what no correct hub hands out.
    pub(super) fn hand_over(&self, epoch: u16, number: u64, what: What) -> Result<()> {
        let (item, payload) = match what {
            What::Note(item) => (item, Payload::default()),
            What::Frame(held) => (Item::Frame(Box::new(held.head.clone())), held.payload.clone()),
        };
        let mut state = self.end.lock();
        if state.machine.begin(epoch, number, &item)? {
            state.machine.arrived(epoch, number, item, payload, wall_ns())?;
            self.end.pump(&mut state);
        }
        Ok(())
    }

    /// It cannot go on.
    pub fn fail(&self, failure: Failure) {
        self.end.fail(failure);
    }

    /// Whether nobody needs a link any more.
    pub fn is_over(&self) -> bool {
        self.end.is_over()
    }

    /// Figures so far.
    pub fn figures(&self) -> ReceiverFigures {
        let state = self.end.lock();
        ReceiverFigures { outages: state.outages, ..state.machine.figures() }
    }

    fn report(&self) -> ConsumerReport {
        let report = self.end.lock().machine.report();
        ConsumerReport { figures: self.figures(), ..report }
    }
}

/// The consumer in one session.
struct ConsumeLink {
    run: Arc<ConsumeRun>,
    id: u64,
    head: Head,
    inlets: Inlets,
}

impl ConsumeLink {
    fn take_segment(&self, connection: u64, inner: &Inner, payload: &[u8]) -> Result<()> {
        let begin = |epoch, number, item: &_| match self.run.end.current(self.id) {
            Some(mut state) => state.machine.begin(epoch, number, item),
            None => Ok(false),
        };
        let whole = self.inlets.take(connection, inner, payload, &self.head.accounts, begin)?;
        let Some(whole) = whole else { return Ok(()) };
        let Some(mut state) = self.run.end.current(self.id) else { return Ok(()) };
        if !self.inlets.is_current(connection, &whole) {
            return Ok(());
        }
        let Whole { epoch, number, item, payload, is_sound, .. } = whole;
        match is_sound {
            true => state.machine.arrived(epoch, number, item, payload, wall_ns())?,
            false => state.machine.damaged(epoch, number)?,
        }
        self.run.end.pump(&mut state);
        Ok(())
    }
}

impl Transfer for ConsumeLink {
    fn terms(&self) -> &Terms {
        &self.head.terms
    }

    fn sends(&self) -> bool {
        self.head.sends
    }

    fn crossed(&self) -> Crossed {
        self.head.crossed(self.head.accounts.bytes(Stage::Verify))
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        let state = self.run.end.lock();
        let is_held_up = state.machine.has_next() || state.machine.is_unsettled();
        drop(state);
        add_moved(heartbeat, self.head.accounts.bytes(Stage::Verify), is_held_up);
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        peer.is_silent
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        let Some(mut state) = self.run.end.current(self.id) else { return Ok(()) };
        match self.run.end.hear(&mut state, message)? {
            Some(FramesMessage::GoesOn) => state.machine.goes_on(),
            Some(FramesMessage::SetHad { set, taken }) => state.machine.had(set, &taken),
            Some(FramesMessage::WindowIs { bytes }) => state.machine.window_is(bytes),
            Some(other) => return Err(not_said_by("a hub", &other)),
            None => {}
        }
        drop(state);
        self.run.end.notify();
        Ok(())
    }

    fn link_up(&self) {
        if let Some(mut state) = self.run.end.current(self.id) {
            state.outages += 1;
            state.machine.unlink();
            state.machine.link_up();
            self.run.end.pump(&mut state);
        }
    }

    fn detach(&self) {
        self.run.end.detach(self.id);
    }

    fn tick(&self) {
        self.run.shelf.tidy(Instant::now());
        let Some(mut state) = self.run.end.current(self.id) else { return };
        state.machine.tick();
        state.ask();
        self.run.end.pump(&mut state);
    }

    fn book_limit(&self, held: Duration) {
        self.head.accounts.book(Stage::Limit, limited(held));
    }

    fn take(&self, connection: u64, inner: &Inner, payload: &[u8], received: &Reception) -> Result<()> {
        received.book(&self.head.accounts);
        self.take_segment(connection, inner, payload).or_else(|failure| match failure.kind {
            FailureKind::Protocol => Err(failure),
            // Another stream would not help.
            _ => {
                self.run.fail(failure);
                Ok(())
            }
        })
    }

    fn connection_over(&self, connection: u64) {
        self.inlets.over(connection);
    }
}
