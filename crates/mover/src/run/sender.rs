//! The sending side of a transfer at work: a scan thread, and what streams do with the machine's decisions.

use self::likely::Answers;
use self::removing::{Removes, Removing};
use self::told::Untold;
use crate::endpoint::Source;
use crate::event::{Behind, Event, Events};
use crate::failure::{self, Failure};
use crate::link::FrameBuffer;
use crate::mutex::lock;
use crate::order;
use crate::run::party::{Common, Party, State};
use crate::run::session::payload_max;
use crate::run::transfer::{Crossed, PeerNow, Spacing, Transfer, works_on};
use crate::run::{Clock, Ended, LineSink, Outbox, ReceiptPart, thread};
use crate::stage::ahead::Ahead;
use crate::stage::compress::Packer;
use crate::stage::pace::Pace;
use crate::stage::read::OpenFiles;
use crate::stage::send::Outlet;
use crate::stage::turn::Gate;
use crate::stage::{Booking, Stage};
use crate::transfer::Copy;
use crate::transfer::sender::{Action, Limits, Next, Progress, Sender, Work};
use crate::tune::ledbat::{Ledbat, Sample};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use thalweg_wire::Entry;
use thalweg_wire::message::{
    Heartbeat, ScanTotals, Steer, Terms, TransferMessage, TransferNumber, WaitingFor,
};

mod sending;

mod scan;

mod removing;

mod told;

mod likely;

pub use removing::Sources;

/// A transfer's sending side. Shared by the scan thread, the stream threads and the control thread.
pub struct SendRun {
    common: Common<Sender>,
    /// Of all its life: asked for each frame.
    number: TransferNumber,
    source: Arc<dyn Source>,
    pace: Pace,
    /// Streams that hand a frame over at this moment.
    putting: AtomicU32,
    /// Streams that read from the source.
    reading: AtomicU32,
    /// For orders that have turns.
    gate: Option<Gate>,
    /// Content is compressed also where it does not pay.
    compresses_always: AtomicBool,
    /// The source cannot be read past the page cache, though that was asked for: told once.
    direct_is_missed: AtomicBool,
    /// How much is left to it, if it yields.
    ledbat: Mutex<Ledbat>,
    /// Bytes sent when that was last looked at, and what was sent lately: of each look half as much as of the next.
    sent: Mutex<(u64, f64)>,
    /// Removes what of the source may go, if that was asked for.
    removing: OnceLock<Removing>,
    /// What the receiver is to be told of that, where it asked for it.
    untold: Mutex<Untold>,
    /// What the source is told of what it offers goes by them.
    answers: Mutex<Answers>,
    events: Events,
    /// Whether who hears them is behind, if that is known.
    behind: OnceLock<Behind>,
    clock: Clock,
}

/// What one stream keeps between pieces of work.
pub struct SendLane {
    /// Number of the stream.
    pub stream: u16,
    files: OpenFiles,
    packer: Option<Packer>,
    buffer: FrameBuffer,
    /// Since when there is nothing to do, and whether that is because nothing more may be under way.
    idle: Option<(Instant, bool)>,
    ahead: Ahead,
    /// The chunk that it sends next: it has its turn, and its first segments may be under way.
    drawn: Option<(Arc<Entry>, u64, Copy)>,
}

impl SendLane {
    /// For stream `stream`, with a buffer for `terms`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(stream: u16, terms: &Terms) -> io::Result<Self> {
        let payload_bytes = payload_max(terms);
        Ok(SendLane {
            stream,
            files: OpenFiles::default(),
            packer: if terms.compress { Some(Packer::new(payload_bytes)?) } else { None },
            buffer: FrameBuffer::new(payload_bytes)?,
            idle: None,
            ahead: Ahead::new(terms.disk, payload_bytes),
            drawn: None,
        })
    }

    /// Bytes of payloads for which one has memory under `terms`: what is packed lies beside what it is made of.
    pub fn payload_bytes(terms: &Terms) -> u64 {
        let payload_bytes = payload_max(terms) as u64;
        if terms.compress { 2 * payload_bytes } else { payload_bytes }
    }
}

/// What a stream found to do.
pub enum Did {
    /// Something; ask again at once.
    Work,
    /// Nothing now, for at most so long.
    Nothing(Option<Duration>),
    /// Nothing, whatever there is to do, until others than now take work.
    StandBy,
    /// Nothing, ever.
    Over,
}

impl SendRun {
    /// A sender for transfer `number`; starts to scan with [`SendRun::start`].
    pub fn new(
        number: TransferNumber,
        source: Arc<dyn Source>,
        terms: Terms,
        limits: Limits,
        outbox: Box<dyn Outbox>,
        events: Events,
    ) -> Arc<Self> {
        let pace = Pace::new(terms.rate_bytes_per_s);
        let ledbat = Ledbat::new(terms.segment_bytes);
        if terms.yields {
            pace.leave(Some(ledbat.rate()));
        }
        let gate = Gate::of(terms.disk.source.order.unwrap_or(order::SOURCE));
        source.expect_requests(u64::from(terms.segment_bytes));
        let machine = Sender::new(terms.clone(), limits);
        Arc::new(SendRun {
            common: Common::new(terms, source.device(), (machine, ()), (number, Some(outbox))),
            number,
            source,
            gate,
            compresses_always: AtomicBool::new(false),
            direct_is_missed: AtomicBool::new(false),
            pace,
            putting: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            ledbat: Mutex::new(ledbat),
            sent: Mutex::default(),
            removing: OnceLock::new(),
            untold: Mutex::default(),
            answers: Mutex::default(),
            events,
            behind: OnceLock::new(),
            clock: Clock::start(),
        })
    }

    /// From now on nothing more is offered while who hears its events is behind.
    pub fn keep_pace_with(&self, behind: Behind) {
        let _ = self.behind.set(behind);
    }

    /// Turns its knobs, from now on.
    pub fn steer(&self, steer: &Steer) {
        self.pace.ask(steer.rate_bytes_per_s);
        let mut state = self.lock();
        state.machine.steer(steer);
        self.count_streams(&state);
        state.work_for_all();
    }

    /// Called with the lock held: streams that stand by have no part in what the others do.
    fn count_streams(&self, state: &State<Sender, ()>) {
        self.common.accounts.work_with(Stage::Read, state.machine.streams_at_work());
    }

    /// Streams that take work; others stand by.
    pub fn streams_at_work(&self) -> usize {
        self.lock().machine.streams_at_work()
    }

    /// The rate that it is held to now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// The rate that was asked for last, in bytes a second.
    pub fn asked_rate(&self) -> Option<u64> {
        self.pace.asked()
    }

    /// Whether a rate that was asked for is all that it waits for: nothing that is to go is held up by anybody else.
    pub fn is_paced(&self) -> bool {
        self.pace.is_waited_for() && self.putting.load(Ordering::Relaxed) == 0
    }

    /// Reads from the source, which [`Transfer::is_reading`] tells meanwhile.
    fn reads<T>(&self, read: impl FnOnce() -> T) -> T {
        self.reading.fetch_add(1, Ordering::Relaxed);
        let result = read();
        self.reading.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// What it sent lately, to compare with others of its session. Called once for each sample of the streams.
    pub fn sent_lately(&self) -> f64 {
        let sent = self.common.accounts.bytes(Stage::Send);
        let mut state = lock(&self.sent);
        let before = std::mem::replace(&mut state.0, sent);
        // What left a moment ago is acknowledged now.
        state.1 = state.1 / 2.0 + sent.saturating_sub(before) as f64;
        state.1
    }

    /// Whether it is to yield to others.
    pub fn yields(&self) -> bool {
        self.common.terms.yields
    }

    /// Yields to others by what its streams show.
    pub fn leave_room(&self, sample: &Sample) {
        let mut ledbat = lock(&self.ledbat);
        let rate = ledbat.sample(self.clock.now(), sample);
        tracing::debug!(?sample, queue = ?ledbat.queue(), rate, "yielding");
        self.pace.leave(Some(rate));
    }

    /// Yields to nobody: nothing shows what others leave.
    pub fn leave_all(&self) {
        self.pace.leave(None);
    }

    /// Removes source files from now on, each when the destination has it, verified and durable; if lines of a
    /// receipt are told by now, all when both sides have agreed. In a dry run only tells of them. `removed` counts
    /// them. Call it before [`SendRun::start`].
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn remove_sources(self: &Arc<Self>, removed: Arc<AtomicU64>) -> failure::Result<()> {
        if self.common.terms.dry_run {
            // Each attempt tells of all.
            removed.store(0, Ordering::Relaxed);
        }
        let waits = self.lock().end.tells_lines();
        self.start_removing(removed, waits, self.events.clone())
    }

    fn start_removing(
        self: &Arc<Self>,
        removed: Arc<AtomicU64>,
        waits: bool,
        events: Events,
    ) -> failure::Result<()> {
        let (waking, aborting) = (Arc::downgrade(self), Arc::downgrade(self));
        let dry_run = self.common.terms.dry_run;
        let by = Removes { source: self.source.clone(), events, dry_run, waits, removed };
        let wakes = move || {
            if let Some(run) = waking.upgrade() {
                run.common.notify();
            }
        };
        let on_panic = move |failure| {
            if let Some(run) = aborting.upgrade() {
                run.abort(failure);
            }
        };
        let removing = Removing::start(by, wakes, on_panic)?;
        self.lock().machine.tell_redundant();
        let _ = self.removing.set(removing);
        Ok(())
    }

    /// Removes the rest of the source files that may go, until somebody asks for a stop: both sides have agreed. What
    /// became of all of them.
    pub fn finish_removing(&self, is_stopped: &dyn Fn() -> bool) -> Sources {
        self.removing.get().map_or_else(Sources::default, |removing| removing.finish(is_stopped))
    }

    /// As [`SendRun::finish_removing`], where both sides will not agree: without those that wait for that.
    pub fn drain_removing(&self, is_stopped: &dyn Fn() -> bool) {
        if let Some(removing) = self.removing.get() {
            removing.drain(is_stopped);
        }
    }

    /// Removes no more source files, from when this returns on.
    pub fn stop_removing(&self) {
        if let Some(removing) = self.removing.get() {
            removing.stop();
        }
    }

    /// Starts the scan on a thread of its own. If that panics, the transfer fails.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(self: &Arc<Self>) -> failure::Result<()> {
        let (run, aborting) = (self.clone(), self.clone());
        thread::guarded("scan", move |failure| aborting.abort(failure), move || run.scan()).map(drop)
    }

    /// Counters so far.
    pub fn progress(&self) -> Progress {
        self.lock().machine.progress()
    }

    /// What the scan found, when it is over.
    pub fn scan_totals(&self) -> Option<ScanTotals> {
        self.lock().machine.scan_totals().cloned()
    }

    /// Whether something waits for the receiver's word.
    pub fn awaits_peer(&self) -> bool {
        self.lock().machine.awaits_peer()
    }

    /// Has the lines of the receipt told, from now on: call it before the first entry settles. The last ones come
    /// with [`Party::take_root`].
    pub fn tell_lines(&self, sink: LineSink) {
        let mut state = self.lock();
        state.machine.keep_pieces();
        state.end.tell_lines(sink);
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        self.common.abort(failure);
    }

    /// Ends the transfer if its source is lost: no other entry would fare better.
    fn ends_if_lost(&self) -> bool {
        let lost = self.source.lost();
        lost.map(|failure| self.abort(failure)).is_some()
    }

    /// Does the next piece of work of this transfer on a stream.
    ///
    /// # Errors
    /// When the stream is gone. Everything else is told to the machine.
    pub fn work(&self, lane: &mut SendLane, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let (next, turn, is_drawn, is_held_back, stands_by) = {
            let mut state = self.lock();
            if state.end.is_closed {
                return Ok(Did::Over);
            }
            if outlet.is_over() {
                return Ok(Did::Nothing(None));
            }
            // It may have been taken back meanwhile.
            let drawn = lane.drawn.take();
            let drawn =
                drawn.filter(|(entry, chunk, _)| state.machine.still_has(lane.stream, entry.id, *chunk));
            let is_drawn = drawn.is_some();
            let next = match drawn {
                Some((entry, chunk, copy)) => Next::Work(Work::Chunk(entry, chunk, copy)),
                None => state.machine.next_work(lane.stream, self.clock.now()),
            };
            // In the order in which chunks are handed out.
            let is_read = !is_drawn && matches!(next, Next::Work(Work::Chunk(..) | Work::Compare(..)));
            let turn = self.gate.as_ref().filter(|_| is_read).map(Gate::draw);
            self.pump(&mut state);
            let stands_by = matches!(next, Next::Wait(_)) && state.machine.stands_by(lane.stream);
            (next, turn, is_drawn, state.machine.is_held_back(lane.stream), stands_by)
        };
        if !is_drawn {
            // Of a chunk that was broken off, or taken back.
            lane.ahead.forget();
        }
        let idle = matches!(next, Next::Wait(_)).then(|| (Instant::now(), is_held_back));
        if let Some((since, was_held_back)) = std::mem::replace(&mut lane.idle, idle) {
            let waited = since.elapsed();
            let booking = match was_held_back {
                true => Booking { output: waited, ..Booking::default() },
                false => Booking { input: waited, ..Booking::default() },
            };
            self.common.accounts.book(Stage::Read, booking);
        }
        match next {
            Next::Done => return Ok(Did::Over),
            Next::Wait(_) if stands_by => return Ok(Did::StandBy),
            Next::Wait(until) => {
                return Ok(Did::Nothing(until.map(|until| until.saturating_sub(self.clock.now()))));
            }
            Next::Work(Work::Chunk(entry, chunk, copy)) => {
                self.send_chunk(lane, outlet, &entry, (chunk, copy), turn)?
            }
            Next::Work(Work::Compare(entry, chunk)) => {
                self.compare_chunk(lane, outlet, &entry, chunk, turn)?
            }
            Next::Work(Work::Pack(entries)) => self.send_pack(lane, outlet, &entries)?,
            Next::Work(Work::Check(entry)) => self.check(lane, &entry),
        }
        Ok(Did::Work)
    }

    /// Carries out what the machine wants. Called with the lock held, so that what is said keeps its order. What a link
    /// that is backed up cannot take yet stays with the machine: all that is offered again may be more than ends it.
    /// Whether there was anything: then streams were told that there may be work.
    fn pump(&self, state: &mut State<Sender, ()>) -> bool {
        let mut any = false;
        loop {
            if state.machine.has_to_say() && state.is_backed_up() {
                break;
            }
            let Some(action) = state.machine.take_action() else { break };
            tracing::trace!(?action);
            any = true;
            match action {
                Action::Say(message) => state.say(message),
                Action::Settled(entry, outcome) => {
                    state.end.settled(&entry, &outcome);
                    (self.events)(Event::Settled(entry, outcome));
                }
                Action::SettledBefore(entry, outcome) => state.end.settled(&entry, &outcome),
                Action::Gone(id) => state.end.skipped(id),
                Action::MayGo(entry, fate) => {
                    if let Some(removing) = self.removing.get() {
                        removing.note(&entry, fate);
                    }
                }
                Action::Pieces(entry, pieces) => {
                    state.end.tell([ReceiptPart::Pieces(entry.path.clone(), pieces)]);
                }
                Action::Aside(id, path, outcome) => {
                    if let Some(id) = id {
                        state.end.skipped(id);
                    }
                    (self.events)(Event::Aside(path, outcome));
                }
                Action::Deleted(path) => (self.events)(Event::Deleted(path)),
                Action::Finished(totals) => {
                    state.end.come(Ended::Finished(totals));
                }
                Action::Failed(failure) => {
                    state.end.come(Ended::Failed(failure));
                }
            }
        }
        self.say_sources(state);
        if any {
            self.common.notify();
            state.work();
        }
        any
    }

    fn lock(&self) -> MutexGuard<'_, State<Sender, ()>> {
        self.common.lock()
    }
}

impl Party for SendRun {
    type Machine = Sender;
    type Beside = ();

    fn common(&self) -> &Common<Sender> {
        &self.common
    }

    fn number(&self) -> TransferNumber {
        self.number
    }

    fn unread(&self) -> u64 {
        self.progress().entries_unread
    }
}

impl Transfer for SendRun {
    fn terms(&self) -> &Terms {
        &self.common.terms
    }

    fn sends(&self) -> bool {
        true
    }

    fn removes_for(&self, job_key: &[u8; 16]) -> bool {
        let is_at_it = |removing: &Removing| !removing.is_stopped();
        self.common.terms.job_key == *job_key && self.removing.get().is_some_and(is_at_it)
    }

    fn crossed(&self) -> Crossed {
        let progress = self.progress();
        Crossed {
            verified_bytes: progress.bytes_verified,
            durable_bytes: progress.bytes_durable,
            kept_bytes: progress.bytes_durable,
            settled: progress.entries_settled,
            ..Crossed::sent(self)
        }
    }

    fn held_bytes(&self) -> usize {
        let removal_bytes = self.removal_bytes();
        let state = self.lock();
        state.machine.held_bytes() + state.end.held_bytes() + removal_bytes
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        // At a low rate a frame may take longer than a stall is borne; and so may a read.
        if (self.is_paced() || self.is_reading()) && heartbeat.waiting_for.is_none() {
            heartbeat.waiting_for = Some(WaitingFor::Read);
        }
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        // The rate that was asked for is ours; a peer that is silent is another matter.
        let is_excused = self.is_paced() || works_on(&peer.heartbeat);
        self.awaits_peer() && (peer.is_silent || !is_excused)
    }

    /// Whether the source is all that it waits for: a disk that takes its time in the middle of a chunk is no
    /// stall of the link.
    fn is_reading(&self) -> bool {
        self.reading.load(Ordering::Relaxed) > 0 && self.putting.load(Ordering::Relaxed) == 0
    }

    fn hear(&self, message: TransferMessage) -> failure::Result<()> {
        let mut state = self.lock();
        match state.end.hear(message) {
            None => self.common.notify(),
            Some(TransferMessage::SourcesHeard) => self.sources_are_heard(),
            Some(message) => {
                self.foresee(&message);
                let repairs = state.machine.progress().repairs;
                state.machine.hear(message)?;
                let repaired = state.machine.progress().repairs - repairs;
                if repaired > 0 {
                    (self.events)(Event::Repaired(repaired));
                }
            }
        }
        // What was wanted or asked for again is work, whether or not there was something to say.
        if !self.pump(&mut state) {
            state.work();
        }
        Ok(())
    }

    fn link_up(&self) {
        let mut state = self.lock();
        state.begin_to_speak();
        // A link that takes the place of another may come before anybody saw the other's streams end.
        state.machine.link_up();
        self.count_streams(&state);
        self.pump(&mut state);
        state.say_last_again();
    }

    /// A statement is said again by who receives; what became of source files answers that.
    fn last_word(&self) -> Option<TransferMessage> {
        let said = self.lock().end.last_word.clone();
        let done = said.filter(|word| matches!(word, TransferMessage::SourcesDone(_)));
        done.or_else(|| self.common.why_failed())
    }

    fn drop_unsaid(&self) {
        self.common.fall_silent().machine.link_lost();
    }

    fn stream_up(&self, stream: u16) {
        let mut state = self.lock();
        // Told twice by a stream that comes while the transfer is added.
        state.machine.stream_up(stream);
        self.count_streams(&state);
    }

    fn stream_lost(&self, stream: u16) {
        let mut state = self.lock();
        state.machine.stream_lost(stream);
        self.count_streams(&state);
        self.pump(&mut state);
        state.work_for_all();
    }

    /// Whoever waits for it hears why it ended.
    fn session_ends(&self, why: &Failure) {
        if self.ended().is_none() {
            self.abort(why.clone());
        }
        self.common.cut_off(why);
    }

    /// Says what waited while the link was backed up.
    fn tick(&self) {
        let mut state = self.lock();
        self.pump(&mut state);
    }

    fn tell_accounts(&self) {
        Party::tell_accounts(self);
    }

    fn steer(&self, steer: &Steer) {
        SendRun::steer(self, steer);
    }

    fn spacing(&self) -> Option<Spacing> {
        Some(Spacing { rate: self.rate(), in_slot: 0, at_work: self.streams_at_work() })
    }

    fn files_sender(self: Arc<Self>) -> Option<Arc<SendRun>> {
        Some(self)
    }

    fn lane_bytes(&self) -> Option<u64> {
        Some(SendLane::payload_bytes(&self.common.terms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::synthetic::NoiseSource;
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    use thalweg_wire::EntryId;
    use thalweg_wire::frame::Inner;
    use thalweg_wire::message::{Outcome, Want};

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    struct Nowhere;

    impl Outlet for Nowhere {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            Ok(())
        }
    }

    /// An outbox behind which so many bytes wait, and which counts what is said.
    #[derive(Clone, Default)]
    struct Waiting {
        bytes: Arc<AtomicUsize>,
        said: Arc<AtomicUsize>,
    }

    impl Waiting {
        /// Nobody takes anything, or everything is taken.
        fn set_taken(&self, is_taken: bool) {
            self.bytes.store(if is_taken { 0 } else { usize::MAX }, Ordering::SeqCst);
        }

        fn said(&self) -> usize {
            self.said.load(Ordering::SeqCst)
        }
    }

    impl Outbox for Waiting {
        fn say(&self, _: TransferNumber, _: TransferMessage) {
            self.said.fetch_add(1, Ordering::SeqCst);
        }

        fn work(&self) {}

        fn queued_bytes(&self) -> usize {
            self.bytes.load(Ordering::SeqCst)
        }
    }

    /// A stream that is lost when it was asked for that so many times.
    struct Cut(Cell<u32>);

    impl Outlet for Cut {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            panic!("nothing is sent on it");
        }

        fn is_over(&self) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left == 0
        }
    }

    /// A sender of two small files that wait to be wanted.
    fn run(terms: &Terms) -> Arc<SendRun> {
        run_of(2, terms, Limits::for_path(terms, None))
    }

    fn run_of(files: u64, terms: &Terms, limits: Limits) -> Arc<SendRun> {
        let run = not_scanned(files, terms, limits, Box::new(Nobody));
        run.scan();
        run
    }

    fn not_scanned(files: u64, terms: &Terms, limits: Limits, outbox: Box<dyn Outbox>) -> Arc<SendRun> {
        let source = Arc::new(NoiseSource { bytes: files << 10, file_bytes: 1 << 10 });
        let events = crate::event::nobody();
        let run = SendRun::new(TransferNumber(0), source, terms.clone(), limits, outbox, events);
        run.stream_up(0);
        run
    }

    /// Sends one of them; how many frames a rate was asked about so far.
    fn frames_paced(run: &SendRun, lane: &mut SendLane, entry: u64) -> u64 {
        run.hear(TransferMessage::Want(vec![(EntryId(entry), Want::Whole)])).unwrap();
        assert!(matches!(run.work(lane, &mut Nowhere).unwrap(), Did::Work));
        run.own_accounts().stage(Stage::Pace as u8).items
    }

    #[test]
    fn a_rate_that_is_set_while_a_copy_runs_holds_though_it_began_without_one() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        assert_eq!(frames_paced(&run, &mut lane, 0), 0);
        run.steer(&Steer { rate_bytes_per_s: Some(1 << 30), ..Steer::default() });
        assert_eq!(frames_paced(&run, &mut lane, 1), 1);
    }

    #[test]
    fn a_stream_that_is_lost_while_it_waits_for_its_turn_sends_nothing() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        run.steer(&Steer { rate_bytes_per_s: Some(1), ..Steer::default() });
        assert_eq!(frames_paced(&run, &mut lane, 0), 1);
        run.hear(TransferMessage::Want(vec![(EntryId(1), Want::Whole)])).unwrap();
        let lost = run.work(&mut lane, &mut Cut(Cell::new(1))).map(drop).map_err(|error| error.kind());
        assert_eq!(lost, Err(io::ErrorKind::BrokenPipe));
        assert_eq!(run.own_accounts().stage(Stage::Pace as u8).items, 1);
    }

    /// A stream that is held to a share.
    struct Held;

    impl Outlet for Held {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            Ok(())
        }

        fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
            assert!(bytes > 0 && goes_on());
            true
        }
    }

    #[test]
    fn what_waits_for_a_share_is_booked_as_that() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
        assert!(matches!(run.work(&mut lane, &mut Held).unwrap(), Did::Work));
        let accounts = run.own_accounts();
        assert_eq!(accounts.stage(Stage::Limit as u8).items, 1);
        assert_eq!(accounts.stage(Stage::Limit as u8).bytes, 1 << 10);
        assert_eq!(accounts.limit, None);
    }

    /// A stream that is lost while it is held to a share.
    struct HeldThenLost<'a> {
        run: &'a SendRun,
        is_lost: bool,
    }

    impl Outlet for HeldThenLost<'_> {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            panic!("nothing goes on it any more")
        }

        fn is_over(&self) -> bool {
            self.is_lost
        }

        fn wait_for_share(&mut self, _: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
            std::thread::sleep(Duration::from_millis(1));
            assert!(goes_on());
            let limit = self.run.own_accounts().stage(Stage::Limit as u8);
            assert!(limit.busy_nanos > 0, "it is told while it waits");
            self.is_lost = true;
            true
        }
    }

    #[test]
    fn a_wait_for_a_share_is_booked_as_it_goes_and_not_lost_with_its_stream() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
        let mut held = HeldThenLost { run: &run, is_lost: false };
        let lost = run.work(&mut lane, &mut held).map(drop).map_err(|error| error.kind());
        assert_eq!(lost, Err(io::ErrorKind::BrokenPipe));
        let limit = run.own_accounts().stage(Stage::Limit as u8);
        assert!(limit.busy_nanos > 0);
        assert_eq!((limit.items, limit.bytes), (0, 0), "nothing went");
    }

    #[test]
    fn a_stream_that_was_lost_and_whose_thread_has_not_seen_it_takes_no_work() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
        // Another has its number by now: what was taken for it would be that one's.
        assert!(matches!(run.work(&mut lane, &mut Cut(Cell::new(0))), Ok(Did::Nothing(None))));
        assert!(matches!(run.work(&mut lane, &mut Nowhere), Ok(Did::Work)), "it is there for the other");
    }

    /// One file in each block of the receipt takes its time, the others do not.
    #[test]
    fn the_scan_waits_while_too_much_is_settled_behind_what_is_not() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = run_of(1024, &terms, Limits { receipt_bytes: 50_000, ..Limits::for_path(&terms, None) });
        let has_room = || {
            let state = run.lock();
            state.machine.has_room(state.end.held_bytes())
        };
        let settle = |ids: Vec<u64>| {
            let outcome = Outcome::Done { digest: None, losses: Vec::new() };
            let settled = ids.into_iter().map(|id| (EntryId(id), outcome.clone())).collect();
            run.hear(TransferMessage::Settled(settled)).unwrap();
        };
        settle((1..100).collect());
        assert!(has_room());
        settle((100..1024).filter(|id| *id != 512).collect());
        assert!(!has_room());
        settle(vec![512]);
        settle(vec![0]);
        assert!(has_room());
    }

    #[test]
    fn what_is_offered_again_waits_for_a_peer_that_takes_nothing() {
        let (terms, outbox) = (Terms::of(4 << 20, 1 << 20), Waiting::default());
        let run = not_scanned(2, &terms, Limits::for_path(&terms, None), Box::new(outbox.clone()));
        run.scan();
        let before = outbox.said();
        outbox.set_taken(false);
        run.link_up();
        run.tick();
        assert_eq!(outbox.said(), before);
        outbox.set_taken(true);
        run.tick();
        let after = outbox.said();
        assert!(after > before);
        // What waited for a link is not said to the next one.
        outbox.set_taken(false);
        run.link_up();
        run.link_lost();
        outbox.set_taken(true);
        run.tick();
        assert_eq!(outbox.said(), after);
    }

    #[test]
    fn the_scan_waits_for_a_peer_that_takes_nothing() {
        let (terms, outbox) = (Terms::of(4 << 20, 1 << 20), Waiting::default());
        let run = not_scanned(1024, &terms, Limits::for_path(&terms, None), Box::new(outbox.clone()));
        outbox.set_taken(false);
        let scanning = {
            let run = run.clone();
            std::thread::spawn(move || run.scan())
        };
        // Long enough for all of them, if it did not wait.
        std::thread::sleep(Duration::from_millis(200));
        assert!(run.progress().entries_offered < 1024);
        outbox.set_taken(true);
        run.tick();
        scanning.join().unwrap();
        assert_eq!(run.progress().entries_offered, 1024);
    }

    #[test]
    fn the_scan_waits_while_who_hears_of_what_settles_is_behind() {
        let terms = Terms::of(4 << 20, 1 << 20);
        let run = not_scanned(1024, &terms, Limits::for_path(&terms, None), Box::new(Nobody));
        let is_behind = Arc::new(AtomicBool::new(true));
        let asked = is_behind.clone();
        run.keep_pace_with(Arc::new(move || asked.load(Ordering::SeqCst)));
        let scanning = {
            let run = run.clone();
            std::thread::spawn(move || run.scan())
        };
        // Long enough for all of them, if it did not wait.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(run.progress().entries_offered, 0);
        assert!(!run.awaits_peer(), "nobody is to blame");
        is_behind.store(false, Ordering::SeqCst);
        scanning.join().unwrap();
        assert_eq!(run.progress().entries_offered, 1024);
    }

    #[test]
    fn a_stream_of_a_link_that_was_replaced_counts_once() {
        let run = run(&Terms::of(4 << 20, 1 << 20));
        let threads = || run.common.accounts.threads(Stage::Read);
        run.link_up();
        run.stream_up(0);
        run.stream_up(0);
        assert_eq!(threads(), 1);
        run.stream_lost(0);
        // Its thread saw the end later than the session.
        run.stream_lost(0);
        (0..2).for_each(|stream| run.stream_up(stream));
        assert_eq!(threads(), 2);
        // One that is not to take work stands by.
        run.steer(&Steer { streams: Some(1), ..Steer::default() });
        assert_eq!(threads(), 1);
        run.stream_up(2);
        assert_eq!(threads(), 1);
    }

    #[test]
    fn who_yields_is_held_to_what_others_leave_though_no_rate_was_asked_for() {
        let terms = Terms { yields: true, ..Terms::of(4 << 20, 1 << 20) };
        let run = run(&terms);
        let mut lane = SendLane::new(0, &terms).unwrap();
        assert_eq!(frames_paced(&run, &mut lane, 0), 1);
    }
}
