//! The receiving side of a transfer at work: a thread that decides, a thread for rounds, and what streams
//! tell the machine.

use crate::endpoint::{Destination, PartialFile, Ready};
use crate::event::{Behind, Event, Events};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::FrameBuffer;
use crate::mutex::lock;
use crate::numbers::NumberMap;
use crate::order;
use crate::run::expected::Expected;
use crate::run::party::{self, Common, Party, State};
use crate::run::session::payload_max;
use crate::run::transfer::{Crossed, PeerNow, Transfer, add_received, limited, sends_on, works_on};
use crate::run::{Clock, Ended, LineSink, Outbox, ReceiptPart, thread};
use crate::stage::receiving::{OpenPartial, Receiving};
use crate::stage::round::{self, HeldContent, Job, next_job};
use crate::stage::turn::Gate;
use crate::stage::{Stage, Stopwatch};
use crate::transfer::receiver::{Action, Limits, Receiver};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender as Queue};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use thalweg_sys::{Buffer, Pool};
use thalweg_wire::account::{RenamedAccount, RoomAccount, SideAccounts};
use thalweg_wire::digest::Rule;
use thalweg_wire::message::{
    FlowMessage, Heartbeat, Outcome, ScanTotals, Terms, Totals, TransferMessage, TransferNumber, WaitingFor,
};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath, limits};

use deciding::Decide;
use sources::FarSources;

mod deciding;

mod sources;

mod receiving;

/// A transfer's receiving side. Shared by the stream threads, the control thread and its own three.
pub struct ReceiveRun {
    common: Common<Receiver>,
    /// Where it writes.
    pub destination: Arc<dyn Destination>,
    /// What it had room for at the beginning.
    free_bytes: Option<u64>,
    events: Events,
    /// Whether who hears them is behind, if that is known.
    behind: OnceLock<Behind>,
    /// Nothing is decided for that.
    is_held_back: AtomicBool,
    clock: Clock,
    held: Mutex<NumberMap<EntryId, HeldContent>>,
    /// Paths of entries whose partial is being begun, and who waits for that.
    beginning: Mutex<BTreeSet<RelativePath>>,
    begun: Condvar,
    decisions: Queue<Decide>,
    jobs: Queue<Job>,
    finishes: Queue<Job>,
    /// Entries that are settled and wait to be noted.
    unnoted: AtomicUsize,
    busy: Mutex<Busy>,
    /// What an earlier attempt left is read again: when that went on last.
    reading: Mutex<Option<Instant>>,
    /// It failed or is closed: nobody waits for what is decided.
    is_given_up: AtomicBool,
    /// A pull from somebody who may lie: what it asked for.
    expected: OnceLock<Expected>,
    /// A pull whose sender removes its files.
    sources: OnceLock<FarSources>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    buffers: Pool,
    gate: Option<Gate>,
}

/// Memory of frames in the writes of one transfer, at most: 28 streams with the usual four writes of 512 KiB in flight
/// on a far path, eight with those of 1 MiB, each on a huge page, on a near one.
/// Streams that find none left write and wait.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Frames of the largest requests too come in twos for two streams: one receives while the other is written.
const IN_FLIGHT_MIN: usize = 4;

/// See [`ReceiveRun::wait_for_notes`].
const UNNOTED_MAX: usize = limits::ENTRIES_IN_FLIGHT_MAX;

/// What the disk is doing right now: told to the sender, so that it need not guess why nothing moves.
#[derive(Default)]
struct Busy {
    since: Option<(WaitingFor, Instant)>,
}

impl ReceiveRun {
    /// A receiver for transfer `number`, with its threads.
    ///
    /// # Errors
    /// If there are no threads or no memory to be had: the destination is closed then.
    pub fn start(
        number: TransferNumber,
        destination: Arc<dyn Destination>,
        terms: Terms,
        limits: Limits,
        outbox: Box<dyn Outbox>,
        events: Events,
    ) -> Result<Arc<Self>> {
        // They are filled with the lock held, and so must not wait. Of each entry in flight they have what the machine
        // wants next (of one that is compared a chunk at a time, and holes that are new), besides one round.
        let (decisions, decide_queue) = mpsc::channel();
        let (jobs, job_queue) = mpsc::channel();
        let (finishes, finish_queue) = mpsc::channel();
        let frame_bytes = FrameBuffer::memory_bytes(payload_max(&terms));
        let count_max = IN_FLIGHT_BYTES_MAX / Buffer::memory_bytes(frame_bytes);
        let buffers = Pool::new(frame_bytes, count_max.max(IN_FLIGHT_MIN)).map_err(|error| {
            destination.close(false);
            failure::of_memory(failure::START_TRANSFER, &error).because(Reason::NoThreads)
        })?;
        let gate = Gate::of(terms.disk.destination.order.unwrap_or(order::DESTINATION));
        let machine = Receiver::new(terms.clone(), limits);
        let run = Arc::new(ReceiveRun {
            common: Common::new(terms, destination.device(), (machine, ()), (number, Some(outbox))),
            free_bytes: destination.free_bytes(),
            destination,
            events,
            behind: OnceLock::new(),
            is_held_back: AtomicBool::new(false),
            clock: Clock::start(),
            held: Mutex::default(),
            beginning: Mutex::default(),
            begun: Condvar::new(),
            decisions,
            jobs,
            finishes,
            unnoted: AtomicUsize::new(0),
            busy: Mutex::default(),
            reading: Mutex::default(),
            is_given_up: AtomicBool::new(false),
            expected: OnceLock::new(),
            sources: OnceLock::new(),
            threads: Mutex::default(),
            buffers,
            gate,
        });
        if let Err(failure) = run.start_threads(decide_queue, job_queue, finish_queue) {
            // Those that were started keep the run, and the run their queues: they would wait for ever, and the
            // destination would stay taken.
            run.close();
            return Err(failure);
        }
        Ok(run)
    }

    fn start_threads(
        self: &Arc<Self>,
        decisions: mpsc::Receiver<Decide>,
        jobs: mpsc::Receiver<Job>,
        finishes: mpsc::Receiver<Job>,
    ) -> Result<()> {
        let run = self.clone();
        self.spawn("decide", move || run.decide(&decisions))?;
        let run = self.clone();
        self.spawn("rounds", move || round::work(&*run, &jobs, Stage::Sync))?;
        let run = self.clone();
        self.spawn("names", move || round::work(&*run, &finishes, Stage::Finish))
    }

    fn spawn(self: &Arc<Self>, name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let run = self.clone();
        let thread = thread::guarded(name, move |failure| run.fail(failure), work)?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Counters so far.
    pub fn totals(&self) -> Totals {
        self.lock().machine.totals()
    }

    /// Entries that failed so far because their content was damaged, and stayed so.
    pub fn damaged_entries(&self) -> u64 {
        self.lock().machine.damaged_entries()
    }

    /// Bytes of holes that count as verified, and of which nothing is made here; see [`Receiver::compared_hole_bytes`].
    pub fn compared_hole_bytes(&self) -> u64 {
        self.lock().machine.compared_hole_bytes()
    }

    /// Content bytes verified and durable so far, entries settled, and what holds it up, for how long: while what an
    /// earlier attempt left is read again, or what has its name, since that went on last.
    pub fn progress(&self) -> Heartbeat {
        let state = self.lock();
        let (verified_bytes, durable_bytes) = state.machine.verified_and_durable_bytes();
        let totals = state.machine.totals();
        drop(state);
        let busy = lock(&self.busy).since;
        let reading = (*lock(&self.reading)).or_else(|| self.destination.reads_on());
        let busy = reading.map(|went_on| (WaitingFor::Read, went_on)).or(busy);
        Heartbeat {
            arrived_bytes: 0,
            verified_bytes,
            durable_bytes,
            settled_entries: totals.done + totals.unchanged + totals.skipped + totals.failed,
            waiting_for: busy.map(|(what, _)| what),
            waiting_ms: busy
                .map_or(0, |(_, since)| u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX)),
        }
    }

    /// What the scan found, once the sender said so.
    pub fn scan_totals(&self) -> Option<ScanTotals> {
        self.lock().machine.scan_totals().cloned()
    }

    /// Entries offered so far, and their content bytes.
    pub fn offered(&self) -> (u64, u64) {
        self.lock().machine.offered()
    }

    /// Content bytes of hard links that come as files, which what the scan found does not count.
    pub fn unlinked_bytes(&self) -> u64 {
        self.lock().machine.unlinked_bytes()
    }

    /// Content bytes that do not come, of entries settled.
    pub fn unmoved_bytes(&self) -> u64 {
        self.lock().machine.unmoved_bytes()
    }

    /// Whether it waits for the sender rather than for its own disk.
    pub fn awaits_peer(&self) -> bool {
        let state = self.lock();
        state.end.ended.is_none() && state.machine.awaits_peer()
    }

    /// Has the lines of the receipt told, from now on: call it before the first entry settles. The last ones come
    /// with [`Party::take_root`].
    pub fn tell_lines(&self, sink: LineSink) {
        let mut state = self.lock();
        state.machine.keep_pieces();
        state.end.tell_lines(sink);
    }

    /// From now on nothing more is decided while who hears its events is behind.
    pub fn keep_pace_with(&self, behind: Behind) {
        let _ = self.behind.set(behind);
    }

    /// From now on only these names are taken. Call before it is added to its session.
    pub fn expect(&self, expected: Expected) {
        let _ = self.expected.set(expected);
    }

    fn check_expected(&self, message: &TransferMessage) -> Result<()> {
        match (self.expected.get(), message) {
            (Some(expected), TransferMessage::Offer(entries)) => {
                entries.iter().try_for_each(|entry| expected.check(entry))
            }
            _ => Ok(()),
        }
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        let mut state = self.lock();
        state.machine.abort(failure);
        self.pump(&mut state);
    }

    /// Ends the transfer if its destination is lost: no other entry would fare better.
    fn ends_if_lost(&self) -> bool {
        let lost = self.destination.lost();
        lost.map(|failure| self.abort(failure)).is_some()
    }

    /// Ends the transfer as a full disk does: what is complete gets its name first. One that concludes goes on.
    pub fn run_out(&self, failure: Failure) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.run_out(failure, now);
        self.pump(&mut state);
    }

    /// Ends the transfer from this side, in whatever state it is: one of its threads panicked. The machine is not
    /// asked, which may be what panicked.
    pub(super) fn fail(&self, failure: Failure) {
        self.is_given_up.store(true, Ordering::Release);
        // Nothing goes on any more that a stall would be excused by.
        self.set_busy(None);
        *lock(&self.reading) = None;
        let mut state = self.lock();
        state.say(TransferMessage::Abort(failure.clone()));
        state.end.come(Ended::Failed(failure));
        drop(state);
        self.common.notify();
    }

    /// Notes what the disk is doing.
    pub fn set_busy(&self, what: Option<WaitingFor>) {
        lock(&self.busy).since = what.map(|what| (what, Instant::now()));
    }

    fn decide_soon(&self, work: Decide) {
        self.common.accounts.queued(Stage::Decide);
        let _ = self.decisions.send(work);
    }

    fn do_soon(&self, job: Job) {
        self.common.accounts.queued(Stage::Sync);
        let _ = self.jobs.send(job);
    }

    fn finish_soon(&self, job: Job) {
        self.common.accounts.queued(Stage::Finish);
        let _ = self.finishes.send(job);
    }

    fn open_for(&self, entry: Arc<Entry>, partial: Arc<dyn PartialFile>) -> OpenPartial {
        let marked = matches!(entry.kind, Kind::File { marked: true, .. });
        let rule = Rule {
            file_bytes: entry.evidence.size,
            segment_bytes: u64::from(self.common.terms.segment_bytes),
            marked,
        };
        OpenPartial { entry, partial, rule }
    }

    /// Carries out what the machine wants. Called with the lock held, so that what is said keeps its order.
    fn pump(&self, state: &mut State<Receiver, ()>) {
        let mut settled = Vec::new();
        loop {
            // A peer that takes nothing for the time being: what is to be said stays where it is until it does.
            if state.machine.has_to_say() && state.is_backed_up() {
                break;
            }
            let Some(action) = state.machine.take_action() else { break };
            tracing::trace!(?action);
            if matches!(action, Action::Conclude(_) | Action::Finished(_) | Action::Failed(_)) {
                self.note_soon(&mut settled);
            }
            match action {
                Action::Say(message) => state.say(message),
                Action::Decide(entry) => self.decide_soon(Decide::Look(entry)),
                Action::Link(entry) => self.decide_soon(Decide::Link(entry)),
                Action::Keep(entry, digest) => self.decide_soon(Decide::Keep(entry, digest)),
                Action::Copy(entry, chunk, digest) => {
                    self.do_soon(Job::Copy(entry, chunk, digest));
                }
                Action::CompareHoles(entry, holes) => {
                    self.do_soon(Job::CompareHoles(entry, holes));
                }
                Action::Round(step) => {
                    self.set_busy(Some(WaitingFor::Sync));
                    self.do_soon(Job::Step(step));
                }
                Action::Finish { entries, may_wait } => self.finish_soon(Job::Finish(entries, may_wait)),
                // Taken out at once: what comes for the same number after this is new. A partial that is being begun
                // goes when it is there.
                Action::Discard(id) => {
                    if let Some(ready) = self.take_content(id) {
                        match &ready {
                            // What comes in its place is decided next, and must not find it.
                            Ready::Staged(staged) if self.destination.may_be_named_early(staged) => {
                                self.destination.discard(ready);
                            }
                            _ => self.do_soon(Job::Discard(ready)),
                        }
                    }
                }
                // In its place among what is to be decided.
                Action::OfferedBefore(path) => self.decide_soon(Decide::OfferedBefore(path)),
                Action::Settled(entry, outcome) => {
                    // At once: its other names are decided next, and by then it may not be noted.
                    if matches!(outcome, Outcome::Skipped(_) | Outcome::Failed(_)) {
                        self.destination.came_to_nothing(&entry);
                    }
                    state.end.settled(&entry, &outcome);
                    settled.push((entry.clone(), outcome.clone()));
                    (self.events)(Event::Settled(entry, outcome));
                }
                Action::Pieces(entry, pieces) => {
                    state.end.tell([ReceiptPart::Pieces(entry.path.clone(), pieces)]);
                }
                Action::Aside(id, path, outcome) => {
                    if let Some(id) = id {
                        state.end.skipped(id);
                    }
                    // With a number: of the source's.
                    if let (Some(_), Outcome::Skipped(_)) = (id, &outcome) {
                        self.do_soon(Job::Skipped(path.clone()));
                    }
                    (self.events)(Event::Aside(path, outcome));
                }
                Action::Gone(id) => {
                    state.end.skipped(id);
                    // Behind its decision, which may be under way.
                    self.decide_soon(Decide::Gone(id));
                }
                Action::Deleted(path) => (self.events)(Event::Deleted(path)),
                Action::Conclude(listing) => {
                    self.set_busy(Some(WaitingFor::Write));
                    self.do_soon(Job::Conclude(listing));
                }
                Action::Finished(totals) => {
                    self.tell_out_of_turn();
                    state.end.come(Ended::Finished(totals));
                    self.common.notify();
                }
                Action::Failed(failure) => {
                    self.tell_out_of_turn();
                    self.is_given_up.store(true, Ordering::Release);
                    state.end.come(Ended::Failed(failure));
                    self.common.notify();
                }
            }
        }
        self.note_soon(&mut settled);
    }

    fn tell_out_of_turn(&self) {
        if let Some(told) = self.gate.as_ref().and_then(|gate| gate.told("destination")) {
            (self.events)(Event::Note(told));
        }
    }

    /// Has what settled noted in the catalogue: together, for a thread is not woken for each.
    fn note_soon(&self, settled: &mut Vec<(Arc<Entry>, Outcome)>) {
        if !settled.is_empty() {
            self.unnoted.fetch_add(settled.len(), Ordering::AcqRel);
            self.do_soon(Job::Settled(std::mem::take(settled)));
        }
    }

    /// Waits until no more entries are settled and not noted than may be in flight. While a sync takes its time, nobody
    /// notes; and what is unchanged settles without one. And waits while who hears of what settles is behind.
    fn wait_for_notes(&self) {
        loop {
            let is_behind = self.behind.get().is_some_and(|is_behind| is_behind());
            self.is_held_back.store(is_behind, Ordering::Release);
            if !is_behind && self.unnoted.load(Ordering::Acquire) <= UNNOTED_MAX {
                return;
            }
            let state = self.lock();
            if state.end.is_closed {
                return;
            }
            drop(self.common.wait_in(state, Duration::from_millis(5)));
        }
    }

    /// Tells the machine something, and does what it wants then.
    fn tell(&self, what: impl FnOnce(&mut Receiver, Duration)) {
        let mut state = self.lock();
        what(&mut state.machine, self.clock.now());
        self.pump(&mut state);
    }

    fn held(&self) -> MutexGuard<'_, NumberMap<EntryId, HeldContent>> {
        lock(&self.held)
    }

    fn lock(&self) -> MutexGuard<'_, State<Receiver, ()>> {
        self.common.lock()
    }
}

/// Numbers of which many never come, of entries, of flows or of names aside, would have the lines of all
/// others kept for ever.
pub(super) fn check_receipt(message: &TransferMessage, held_bytes: usize) -> Result<()> {
    match message {
        TransferMessage::Offer(_)
        | TransferMessage::Aside(_)
        | TransferMessage::Flow(FlowMessage::Begin(_))
            if held_bytes > limits::RECEIPT_BYTES_HELD_MAX =>
        {
            let cause = "more entries are settled behind some that are not than a receipt may wait for";
            Err(Failure::new(FailureKind::Protocol, "receive", cause))
        }
        _ => Ok(()),
    }
}

impl Party for ReceiveRun {
    type Machine = Receiver;
    type Beside = ();

    fn common(&self) -> &Common<Receiver> {
        &self.common
    }

    fn own_accounts(&self) -> SideAccounts {
        let (wanted_bytes, (files, bytes)) = {
            let state = self.lock();
            (state.machine.wanted_bytes(), state.machine.renamed())
        };
        let room = self.free_bytes.map(|free_bytes| RoomAccount { free_bytes, wanted_bytes });
        let renamed = self.common.terms.finds_renames.then(|| {
            let is_cut = self.destination.is_elsewhere_cut();
            RenamedAccount { files, bytes, is_cut }
        });
        SideAccounts { room, renamed, ..self.common.own_accounts() }
    }

    /// Ends its threads and closes the destination: after success nothing hidden stays there, else
    /// everything stays for the next attempt. Waits for what the disk is doing, not for what is to be
    /// decided. The second call does nothing.
    fn close(&self) {
        let Some(success) = self.common.close() else { return };
        self.is_given_up.store(true, Ordering::Release);
        self.decide_soon(Decide::Stop);
        self.do_soon(Job::Stop);
        self.finish_soon(Job::Stop);
        // Who waits for our last word hears why it does not come yet.
        self.set_busy(Some(WaitingFor::Write));
        party::join(&self.threads);
        lock(&self.held).clear();
        let mut watch = Stopwatch::start(&self.common.accounts);
        // A thread that ended may have said otherwise.
        self.tell_busy(Some(WaitingFor::Write));
        self.destination.close(success);
        self.tell_busy(None);
        watch.lap(Stage::Conclude, 0);
    }

    fn tell_busy(&self, what: Option<WaitingFor>) {
        self.set_busy(what);
    }
}

impl Transfer for ReceiveRun {
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
        state.machine.held_bytes() + state.end.held_bytes() + self.destination.held_bytes()
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        add_received(self, &self.progress(), heartbeat);
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        // While we work, or are held back, what the peer may send is bounded, and it waits for us. It may read for long
        // what it has sent already.
        let is_held_back = self.is_held_back.load(Ordering::Acquire);
        let is_excused = is_held_back || works_on(&self.progress()) || sends_on(&peer.heartbeat);
        self.awaits_peer() && (peer.is_silent || !is_excused)
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        let mut state = self.lock();
        if let Some(message) = state.end.hear(message) {
            let now = self.clock.now();
            let is_end = matches!(message, TransferMessage::OfferEnd(_));
            let heard = match self.hear_sources(&message, state.machine.offered().0) {
                Some(heard) => heard,
                None => self
                    .check_expected(&message)
                    .and_then(|()| check_receipt(&message, state.end.held_bytes()))
                    .and_then(|()| state.machine.hear(message, now)),
            };
            if let Err(failure) = heard {
                state.machine.abort(failure.clone());
                self.pump(&mut state);
                return Err(failure);
            }
            if let (true, Some(totals)) = (is_end, state.machine.scan_totals()) {
                (self.events)(Event::ScanEnded(totals.clone()));
            }
        }
        self.pump(&mut state);
        self.common.notify();
        Ok(())
    }

    /// The sender will offer what is not settled.
    fn link_up(&self) {
        let mut state = self.lock();
        state.begin_to_speak();
        state.machine.link_up();
        self.pump(&mut state);
        state.say_last_again();
    }

    fn last_word(&self) -> Option<TransferMessage> {
        self.common.last_word()
    }

    fn drop_unsaid(&self) {
        self.common.fall_silent().machine.link_lost();
    }

    /// Whoever waits for it hears why it ended.
    fn session_ends(&self, _: u64, why: &Failure) {
        if self.ended().is_none() {
            self.abort(why.clone());
        }
        self.common.cut_off(why);
    }

    fn put_away(&self) {
        self.close();
    }

    fn tick(&self) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.tick(now);
        self.pump(&mut state);
    }

    fn tell_accounts(&self) {
        Party::tell_accounts(self);
    }

    fn book_limit(&self, held: Duration) {
        self.common.accounts.book(Stage::Limit, limited(held));
    }

    fn kept_window_bytes(&self) -> Option<u64> {
        self.common.terms.window_bytes
    }

    fn files_receiver(self: Arc<Self>) -> Option<Arc<dyn Receiving>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_opens_a_block_of_the_receipt_is_refused_where_too_much_is_held() {
        let most = limits::RECEIPT_BYTES_HELD_MAX;
        let begin = TransferMessage::Flow(FlowMessage::Begin(Vec::new()));
        for message in [TransferMessage::Offer(Vec::new()), TransferMessage::Aside(Vec::new()), begin] {
            assert!(check_receipt(&message, most).is_ok());
            let refused = check_receipt(&message, most + 1).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Protocol);
        }
        // What frees some of it is heard.
        assert!(check_receipt(&TransferMessage::Heard(Vec::new()), most + 1).is_ok());
    }
}
