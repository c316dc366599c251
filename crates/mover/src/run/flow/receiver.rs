//! The receiving side of a transfer of flows.

use crate::endpoint::flow_destination::{FlowDestination, FlowFile, Standing};
use crate::endpoint::reread::Reread;
use crate::event::{Event, Events};
use crate::failure::{Failure, FailureKind, Result};
use crate::flow::Over;
use crate::flow::receiver::{Action, Receiver, Slot, Stood};
use crate::link::FrameBuffer;
use crate::memory::{Bytes, Shelf};
use crate::mutex::lock;
use crate::retry::Rule;
use crate::run::expected::Expected;
use crate::run::flow::entry;
use crate::run::flow::failing::Failing;
use crate::run::party::{self, Common, Party, State};
use crate::run::receiver::check_receipt;
use crate::run::transfer::{Crossed, PeerNow, Reception, Transfer, add_received, limited};
use crate::run::{Clock, Ended, LineSink, Outbox, thread};
use crate::stage::send::Outlet;
use crate::stage::{Stage, Stopwatch};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender as Queue};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{
    FlowBegin, FlowLeft, FlowMessage, FlowTerms, Heartbeat, Origin, Outcome, Terms, TransferMessage,
    TransferNumber, WaitingFor, batches,
};
use thalweg_wire::path::{Escaped, Sentence};
use thalweg_wire::{Digest, limits};

/// See the module. Shared by the stream threads, the control thread and its own three.
pub struct FlowReceive {
    common: Common<Receiver>,
    destination: Arc<dyn FlowDestination>,
    events: Events,
    clock: Clock,
    /// Of what came and is not written.
    shelf: Shelf,
    opens: Queue<Job>,
    writes: Queue<Job>,
    rounds: Queue<Job>,
    /// What the writing thread is doing, since when.
    writing: Mutex<Option<Instant>>,
    /// What is there is read again: when that went on last.
    reading: Mutex<Option<Instant>>,
    /// Of the rounds since it was last asked for.
    longest_round: Mutex<Option<Duration>>,
    files: Mutex<HashMap<Slot, Opened>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A pull from somebody who may lie: what it asked for.
    expected: OnceLock<Expected>,
    /// The sender that stands now has said something.
    is_heard: AtomicBool,
    /// What failed and may be begun again. Locked inside of the state, if at all.
    failing: Mutex<Failing>,
    /// How often a far source noted something.
    notes: AtomicU32,
}

/// A flow's number at the destination, and what takes its bytes.
#[derive(Clone)]
struct Opened {
    number: u64,
    file: Arc<dyn FlowFile>,
    /// With so many bytes, then.
    stood: (u64, Instant),
}

enum Job {
    Open(Slot, FlowBegin),
    /// A flow is there: what hashes it, and how far it is written.
    Begin(Slot, Box<blake3::Hasher>),
    Write(Slot, u64, Bytes),
    Sync(Vec<(Slot, u64, Digest)>),
    Complete(Slot, u64),
    Settled(Slot),
    /// There is a time by which a mark is due.
    Look,
    Stop,
}

impl FlowReceive {
    /// By these terms, with its threads; nothing is heard before [`FlowReceive::attach`].
    ///
    /// # Errors
    /// If there are no threads to be had: the destination is closed then.
    pub fn start(
        destination: Arc<dyn FlowDestination>,
        terms: Terms,
        flow: &FlowTerms,
        events: Events,
    ) -> Result<Arc<FlowReceive>> {
        // They are filled with the lock held, and so must not wait. The machine bounds them: flows that are opened or
        // go on, bytes of a window, one round.
        let (opens, open_queue) = mpsc::channel();
        let (writes, write_queue) = mpsc::channel();
        let (rounds, round_queue) = mpsc::channel();
        let machine = Receiver::new(flow, terms.segment_bytes as usize);
        let run = Arc::new(FlowReceive {
            common: Common::new(terms, destination.device(), (machine, ()), (TransferNumber(0), None)),
            destination,
            events,
            clock: Clock::start(),
            shelf: Shelf::new(usize::try_from(flow.window_bytes).unwrap_or(usize::MAX)),
            opens,
            writes,
            rounds,
            writing: Mutex::default(),
            reading: Mutex::default(),
            longest_round: Mutex::default(),
            files: Mutex::default(),
            threads: Mutex::default(),
            expected: OnceLock::new(),
            is_heard: AtomicBool::new(false),
            failing: Mutex::default(),
            notes: AtomicU32::new(0),
        });
        let started = run
            .spawn("open", open_queue, FlowReceive::open)
            .and_then(|()| run.spawn("write", write_queue, FlowReceive::write))
            .and_then(|()| run.spawn("marks", round_queue, FlowReceive::rounds));
        if let Err(failure) = started {
            // Those that were started keep the run, and the run their queues: they would wait for ever, and the
            // destination would stay taken.
            run.close();
            return Err(failure);
        }
        Ok(run)
    }

    fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        queue: mpsc::Receiver<Job>,
        work: fn(&FlowReceive, &mpsc::Receiver<Job>),
    ) -> Result<()> {
        let (run, aborting) = (self.clone(), self.clone());
        let work = move || work(&run, &queue);
        let thread = thread::guarded(name, move |failure| aborting.abort(failure), work)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Marks what comes early enough for a sender that keeps at most so many bytes: what the source of the next session
    /// grants. Call before it is attached.
    pub fn fit_window(&self, window_bytes: u64) {
        self.lock().machine.fit_window(window_bytes);
    }

    /// From now on it is transfer `number` of the session of `outbox`; who sends begins its flows anew. `lines` hears
    /// the receipt, which begins anew.
    pub fn attach(&self, number: TransferNumber, outbox: Box<dyn Outbox>, lines: Option<LineSink>) {
        let mut state = self.common.attach(number, outbox, lines);
        state.end.outlive();
        state.machine.rebind();
        self.is_heard.store(false, Ordering::Release);
        self.say_left(&state);
        self.pump(&mut state);
    }

    /// A sender that looks for files waits for it.
    fn say_left(&self, state: &State<Receiver, ()>) {
        let (left, more) = self.destination.left();
        let bytes_of =
            |left: &FlowLeft| size_of::<FlowLeft>() + left.path.as_bytes().len() + left.name.as_bytes().len();
        let mut batches = batches(&left, limits::OFFER_ENTRIES_MAX, bytes_of).peekable();
        loop {
            let batch = batches.next().unwrap_or_default().to_vec();
            let more = batches.peek().is_none().then_some(more);
            state.say(TransferMessage::Flow(FlowMessage::Left(batch, more)));
            if more.is_some() {
                return;
            }
        }
    }

    /// How often a flow failed because it was damaged.
    pub fn damaged(&self) -> u64 {
        self.lock().machine.flows_damaged()
    }

    /// Bytes written and marked so far, and what holds it up.
    pub fn progress(&self) -> Heartbeat {
        let state = self.lock();
        let (verified_bytes, durable_bytes) = state.machine.written_and_marked_bytes();
        let totals = state.machine.totals();
        drop(state);
        let writing = *lock(&self.writing);
        let what = match self.destination.is_consumer() {
            true => WaitingFor::Consumer,
            false => WaitingFor::Write,
        };
        let reading = *lock(&self.reading);
        let (what, since) = match reading {
            Some(went_on) => (WaitingFor::Read, Some(went_on)),
            None => (what, writing),
        };
        let millis = |since: Instant| u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX);
        Heartbeat {
            arrived_bytes: 0,
            verified_bytes,
            durable_bytes,
            settled_entries: totals.done + totals.failed,
            waiting_for: since.map(|_| what),
            waiting_ms: since.map_or(0, millis),
        }
    }

    /// How long it took at worst to make durable what was written, since this was last asked; `None`: nothing was.
    pub fn take_longest_round(&self) -> Option<Duration> {
        lock(&self.longest_round).take()
    }

    /// Whether it waits for the sender rather than for its own disk.
    pub fn awaits_peer(&self) -> bool {
        let state = self.lock();
        state.end.ended.is_none() && state.machine.awaits_peer()
    }

    /// What a far source says of its files. Nobody is told more than anybody reads, whatever it says.
    fn hear_note(&self, text: &str) {
        match self.notes.fetch_add(1, Ordering::AcqRel) {
            before if before < NOTES_MAX => (self.events)(Event::Note(Sentence(text).to_string())),
            NOTES_MAX => (self.events)(Event::Note("the source notes more, which is in its log".into())),
            _ => {}
        }
    }

    /// From now on only these names are taken. Call before it is attached.
    pub fn expect(&self, expected: Expected) {
        let _ = self.expected.set(expected);
    }

    /// Of what fails the far feed begins this again, and who tells people of it is here. Call before it is attached.
    pub fn begins_again(&self, rule: Rule) {
        self.failing().set_rule(rule);
    }

    /// Tells what failed and is not complete: nothing is begun again any more.
    pub fn tell_failing(&self) {
        let state = self.lock();
        self.failing().end(|begin, bytes| state.machine.goes_on(begin, bytes), &self.events);
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        lock(&self.failing)
    }

    fn check_expected(&self, message: &TransferMessage) -> Result<()> {
        match (self.expected.get(), message) {
            (Some(expected), TransferMessage::Flow(FlowMessage::Begin(begins))) => begins
                .iter()
                .try_for_each(|begin| expected.check(&entry::of(begin.flow, &begin.path, begin.mode, 0))),
            _ => Ok(()),
        }
    }

    /// Takes one frame, whose payload is `payload`.
    ///
    /// # Errors
    /// `Protocol` for what no correct sender sends: the session ends.
    pub fn take(&self, inner: &Inner, payload: &[u8]) -> Result<()> {
        if inner.kind != FrameKind::Segment || inner.encoding != Encoding::Raw {
            let cause = "a frame that no flow has";
            return Err(Failure::new(FailureKind::Protocol, "receive", cause));
        }
        let mut watch = Stopwatch::start(&self.common.accounts);
        let is_sound = blake3::hash(payload).as_bytes() == &inner.digest.0;
        let bytes = self.shelf.copy(payload);
        watch.lap(Stage::Verify, payload.len() as u64);
        let mut state = self.lock();
        while state.machine.is_behind() && !state.end.is_closed {
            state = self.common.wait_in(state, IDLE);
        }
        if state.end.is_closed {
            return Ok(());
        }
        match is_sound {
            true => state.machine.arrived(inner.entry, inner.offset, bytes)?,
            false => {
                (self.events)(Event::Repaired(1));
                state.machine.damaged(inner.entry, inner.offset);
            }
        }
        self.pump(&mut state);
        Ok(())
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        let mut state = self.lock();
        state.say(TransferMessage::Abort(failure.clone()));
        state.end.come(Ended::Failed(failure));
        drop(state);
        self.common.notify();
    }

    fn open(&self, queue: &mpsc::Receiver<Job>) {
        while let Ok(Job::Open(slot, begin)) = queue.recv() {
            {
                let mut state = self.lock();
                if !state.machine.is_opening(slot) {
                    // It was withdrawn meanwhile.
                    state.machine.not_opened();
                    continue;
                }
            }
            let opened = self.look_at(slot, &begin);
            let mut state = self.lock();
            if state.end.is_closed {
                return;
            }
            if !state.machine.is_opening(slot) {
                state.machine.not_opened();
                continue;
            }
            let standing = match opened {
                Ok(Standing { number, bytes, digest, hasher, is_ours, is_over, file, name, renamed }) => {
                    if let Some(place) = renamed {
                        let text = format!("{} goes to {place}", Escaped(begin.path.as_bytes()));
                        (self.events)(Event::Note(text));
                    }
                    lock(&self.files).insert(slot, Opened { number, file, stood: (bytes, Instant::now()) });
                    let _ = self.writes.send(Job::Begin(slot, Box::new(hasher)));
                    Ok(Stood { bytes, digest, is_ours, is_over, name })
                }
                Err(failure) => Err(failure),
            };
            state.machine.opened(slot, standing);
            self.pump(&mut state);
        }
    }

    /// What is there of a flow. While it is read, the peer knows that it waits for that, and people how far it is.
    fn look_at(&self, slot: Slot, begin: &FlowBegin) -> Result<Standing> {
        let told: Mutex<Option<Reread>> = Mutex::default();
        let reading = |done: u64, of: u64| {
            let now = Instant::now();
            *lock(&self.reading) = Some(now);
            let what = || format!("the destination, {},", Escaped(begin.path.as_bytes()));
            let mut told = told.lock().unwrap_or_else(|p| p.into_inner());
            if let Some(text) = told.get_or_insert_with(|| Reread::new(what(), of)).look(done, now) {
                (self.events)(Event::Note(text));
            }
            let state = self.lock();
            !state.end.is_closed && state.machine.is_opening(slot)
        };
        let opened = self.destination.open(begin, &reading);
        *lock(&self.reading) = None;
        opened
    }

    fn write(&self, queue: &mpsc::Receiver<Job>) {
        self.common.accounts.enter(Stage::Write);
        let mut hashers: HashMap<Slot, Box<blake3::Hasher>> = HashMap::new();
        loop {
            let mut watch = Stopwatch::start(&self.common.accounts);
            let Ok(job) = queue.recv() else { break };
            watch.idle(Stage::Write);
            let (slot, offset, bytes) = match job {
                Job::Begin(slot, hasher) => {
                    hashers.insert(slot, hasher);
                    continue;
                }
                Job::Write(slot, offset, bytes) => (slot, offset, bytes),
                Job::Settled(slot) => {
                    hashers.remove(&slot);
                    continue;
                }
                _ => break,
            };
            if self.lock().end.is_closed {
                break;
            }
            let file = self.file(slot);
            let (Some(hasher), Some(Opened { file, .. })) = (hashers.get_mut(&slot), file) else {
                self.lock().machine.skipped(bytes.len());
                self.common.notify();
                continue;
            };
            let written = {
                let _since = Since::now(&self.writing);
                file.write(&bytes, offset)
            };
            hasher.update(&bytes);
            let digest = Digest(*hasher.finalize().as_bytes());
            watch.lap(Stage::Write, bytes.len() as u64);
            let mut state = self.lock();
            let now = self.clock.now();
            let was_due = state.machine.due();
            if let Err(failure) = written {
                state.machine.failed(slot, failure);
            }
            state.machine.written(slot, bytes.len(), digest, now);
            self.pump(&mut state);
            if was_due.is_none() && state.machine.due().is_some() {
                let _ = self.rounds.send(Job::Look);
            }
        }
        self.common.accounts.leave(Stage::Write);
    }

    /// Makes marks, and sees that none is late.
    fn rounds(&self, queue: &mpsc::Receiver<Job>) {
        self.common.accounts.enter(Stage::Sync);
        loop {
            let due = self.lock().machine.due();
            let pause = due.map_or(IDLE, |due| due.saturating_sub(self.clock.now()));
            let mut watch = Stopwatch::start(&self.common.accounts);
            let job = queue.recv_timeout(pause.min(IDLE));
            watch.idle(Stage::Sync);
            let now = self.clock.now();
            match job {
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if due.is_none() {
                        // Nothing was written for a while.
                        self.shelf.clear();
                    }
                    let mut state = self.lock();
                    state.machine.tick(now);
                    self.pump(&mut state);
                }
                Ok(Job::Sync(marks)) => {
                    let began = Instant::now();
                    let failed = self.make_durable(&marks, &mut watch);
                    let took = Some(began.elapsed());
                    let mut longest = lock(&self.longest_round);
                    *longest = longest.max(took);
                    drop(longest);
                    let mut state = self.lock();
                    for (slot, failure) in failed {
                        state.machine.failed(slot, failure);
                    }
                    let now = self.clock.now();
                    state.machine.synced(&marks, now);
                    self.pump(&mut state);
                }
                // Another sender may stand since, whose source has more.
                Ok(Job::Complete(slot, bytes)) if !self.lock().machine.is_completing(slot, bytes) => {}
                Ok(Job::Complete(slot, bytes)) => {
                    let result = match self.file(slot) {
                        Some(Opened { file, .. }) => file.complete(bytes),
                        None => {
                            let cause = "the file is not open";
                            Err(Failure::new(FailureKind::Internal, "complete the stream", cause))
                        }
                    };
                    watch.lap(Stage::Finish, 0);
                    let mut state = self.lock();
                    state.machine.completed(slot, result);
                    self.pump(&mut state);
                }
                Ok(Job::Look) => {}
                _ => break,
            }
        }
        self.common.accounts.leave(Stage::Sync);
    }

    /// Syncs, then notes. What could not be made durable is not noted; what could not be noted failed.
    fn make_durable(&self, marks: &[(Slot, u64, Digest)], watch: &mut Stopwatch) -> Vec<(Slot, Failure)> {
        let mut failed = Vec::new();
        let (mut slots, mut noted) = (Vec::new(), Vec::new());
        for (slot, bytes, digest) in marks {
            let Some(Opened { number, file, .. }) = self.file(*slot) else { continue };
            match file.sync() {
                Ok(()) => {
                    slots.push(*slot);
                    noted.push((number, *bytes, *digest));
                }
                Err(failure) => failed.push((*slot, failure)),
            }
        }
        watch.lap(Stage::Sync, 0);
        if let Err(failure) = self.destination.record(&noted) {
            failed.extend(slots.into_iter().map(|slot| (slot, failure.clone())));
        }
        watch.lap(Stage::Record, 0);
        failed
    }

    fn file(&self, slot: Slot) -> Option<Opened> {
        lock(&self.files).get(&slot).cloned()
    }

    fn pump(&self, state: &mut State<Receiver, ()>) {
        let mut done = false;
        while let Some(action) = state.machine.take_action() {
            match action {
                Action::Say(message) => {
                    self.tell_stands(state, &message);
                    state.say(message);
                }
                Action::Open(slot, begin) => drop(self.opens.send(Job::Open(slot, begin))),
                Action::Write(slot, offset, bytes) => drop(self.writes.send(Job::Write(slot, offset, bytes))),
                Action::Sync(marks) => drop(self.rounds.send(Job::Sync(marks))),
                Action::Complete(slot, bytes) => drop(self.rounds.send(Job::Complete(slot, bytes))),
                Action::Settled(slot, over) => {
                    if is_given_up(&over) {
                        self.destination.given_up(&over.begin);
                    }
                    entry::stated(&mut state.end, &over);
                    self.let_go(slot, *over);
                }
                Action::Forgotten(slot, over) => self.let_go(slot, *over),
                Action::Conclude => state.machine.concluded(),
                Action::Finished(totals) => {
                    state.end.come(Ended::Finished(totals));
                    done = true;
                }
            }
        }
        if done {
            self.common.notify();
        }
    }

    fn tell_stands(&self, state: &State<Receiver, ()>, message: &TransferMessage) {
        let TransferMessage::Flow(FlowMessage::Stand(stands)) = message else { return };
        for stand in stands {
            if let Some(begin) = state.machine.begun(stand.at.flow) {
                (self.events)(Event::Stands(begin.path.clone(), stand.at.bytes));
            }
        }
    }

    /// A flow is over. One of which nothing more was written since it was opened has not gone on.
    fn let_go(&self, slot: Slot, over: Over) {
        let opened = lock(&self.files).remove(&slot);
        let _ = self.writes.send(Job::Settled(slot));
        let went_on = opened.filter(|opened| over.bytes > opened.stood.0);
        let went_on_for = went_on.map_or(Duration::ZERO, |opened| opened.stood.1.elapsed());
        let (flow, mut failing) = (over.begin.flow, self.failing());
        if failing.settled(over, &self.events) {
            failing.decide(flow, went_on_for, &self.events);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<Receiver, ()>> {
        self.common.lock()
    }
}

impl Party for FlowReceive {
    type Machine = Receiver;
    type Beside = ();

    fn common(&self) -> &Common<Receiver> {
        &self.common
    }

    /// Ends its threads and closes the destination: after success nothing hidden stays there, else what is marked stays
    /// for the next attempt. Does not wait for a program that takes nothing. The second call does nothing.
    fn close(&self) {
        let Some(success) = self.common.close() else { return };
        for queue in [&self.opens, &self.writes, &self.rounds] {
            let _ = queue.send(Job::Stop);
        }
        let is_stuck = self.destination.is_consumer() && lock(&self.writing).is_some();
        // Who waits for our last word hears why it does not come yet.
        let _since = (!is_stuck).then(|| Since::now(&self.writing));
        if !is_stuck {
            party::join(&self.threads);
        }
        lock(&self.files).clear();
        if !is_stuck {
            self.destination.close(success);
        }
    }
}

impl Transfer for FlowReceive {
    fn terms(&self) -> &Terms {
        &self.common.terms
    }

    fn sends(&self) -> bool {
        false
    }

    fn writes_for(&self, job_key: &[u8; 16]) -> bool {
        self.common.terms.job_key == *job_key
    }

    fn crossed(&self) -> Crossed {
        Crossed::received(self, &self.progress())
    }

    fn held_bytes(&self) -> usize {
        let state = self.lock();
        state.machine.held_bytes() + state.end.held_bytes()
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        add_received(self, &self.progress(), heartbeat);
    }

    fn blames(&self, _: &PeerNow) -> bool {
        self.awaits_peer()
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        self.is_heard.store(true, Ordering::Release);
        let mut state = self.lock();
        match state.end.hear(message) {
            None => {}
            Some(TransferMessage::Abort(failure)) => state.end.come(Ended::Failed(failure)),
            Some(TransferMessage::Flow(FlowMessage::Note(text))) => self.hear_note(&text),
            Some(message) => {
                let now = self.clock.now();
                self.check_expected(&message)?;
                check_receipt(&message, state.end.held_bytes())?;
                state.machine.hear(message, now)?;
            }
        }
        self.pump(&mut state);
        drop(state);
        self.common.notify();
        Ok(())
    }

    /// The sender begins its flows again.
    fn link_up(&self) {
        let mut state = self.lock();
        state.begin_to_speak();
        state.machine.link_up();
        // The word may be lost with the link that was before.
        if !self.is_heard.load(Ordering::Acquire) {
            self.say_left(&state);
        }
        state.say_last_again();
    }

    fn drop_unsaid(&self) {
        drop(self.common.fall_silent());
    }

    fn last_word(&self) -> Option<TransferMessage> {
        self.common.last_word()
    }

    fn attachment(&self) -> u64 {
        self.lock().attachment
    }

    fn session_ends(&self, attachment: u64, why: &Failure) {
        drop(self.common.leave(attachment, why));
    }

    fn tell_accounts(&self) {
        Party::tell_accounts(self);
    }

    fn book_limit(&self, held: Duration) {
        self.common.accounts.book(Stage::Limit, limited(held));
    }

    fn take(&self, _: u64, inner: &Inner, payload: &[u8], received: &Reception) -> Result<()> {
        received.book(&self.common.accounts);
        FlowReceive::take(self, inner, payload)
    }
}

/// Has it stand since when something goes on, until it is dropped: a thread that panicked is stuck in nothing.
struct Since<'a>(&'a Mutex<Option<Instant>>);

impl<'a> Since<'a> {
    fn now(since: &'a Mutex<Option<Instant>>) -> Self {
        *lock(since) = Some(Instant::now());
        Since(since)
    }
}

impl Drop for Since<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

/// Whether its sender says that nothing more comes of it, also if it is asked again: it is another now, or gone.
fn is_given_up(over: &Over) -> bool {
    let kind = match over.begin.origin == Origin::default() {
        true => FailureKind::NotFound,
        false => FailureKind::Changed,
    };
    matches!(&over.outcome, Outcome::Failed(failure) if failure.kind == kind)
}

/// Notes of a far source that are told.
const NOTES_MAX: u32 = 10_000;

/// Without anything to do.
const IDLE: Duration = Duration::from_millis(250);

/// Inside one process: straight into the receiving side.
pub struct Inlet(pub Arc<FlowReceive>);

impl Outlet for Inlet {
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()> {
        self.0.take(inner, &buffer.payload_mut()[..payload]).map_err(io::Error::other)
    }

    fn books_itself(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
