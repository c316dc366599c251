//! The sending side of a transfer at work: a scan thread, and what streams do with the machine's decisions.

use self::likely::Answers;
use self::removing::Removing;
use self::told::Untold;
use crate::endpoint::Source;
use crate::event::{Behind, Event, Events};
use crate::failure::{self, Failure, counted};
use crate::link::FrameBuffer;
use crate::mutex::lock;
use crate::order;
use crate::run::party::{Common, Party, State};
use crate::run::session::payload_max;
use crate::run::transfer::{Crossed, PeerNow, Spacing, Transfer, told_ms, works_on};
use crate::run::{Clock, Ended, LineSink, Outbox, ReceiptPart, thread};
use crate::stage::ahead::{Ahead, Spare};
use crate::stage::compress::Packer;
use crate::stage::pace::Pace;
use crate::stage::read::OpenFiles;
use crate::stage::send::Outlet;
use crate::stage::turn::Gate;
use crate::stage::{Booking, Stage, UnderWay};
use crate::transfer::Copy;
use crate::transfer::sender::{Action, Limits, Next, Progress, Sender, Work};
use crate::tune::ledbat::Ledbat;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use thalweg_wire::Entry;
use thalweg_wire::message::{
    Heartbeat, ScanTotals, Steer, Terms, TransferMessage, TransferNumber, WaitingFor,
};

mod sending;

mod rate;

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
    /// Streams that read from the source, or open something there.
    reading: AtomicU32,
    /// How often one of them began to, or went on: counted for each segment, where a clock would cost more.
    read_times: AtomicU64,
    /// What that was when somebody looked, and since when it is: by the clock.
    read_seen: Mutex<(u64, Duration)>,
    /// For what its streams read ahead.
    spare: Arc<Spare>,
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
    /// Reads of it that are under way, once there were some.
    under_way: Option<UnderWay>,
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
            under_way: None,
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
        let spare = Spare::new(payload_max(&terms));
        let machine = Sender::new(terms.clone(), limits);
        Arc::new(SendRun {
            common: Common::new(terms, source.device(), (machine, ()), (number, Some(outbox))),
            number,
            source,
            spare,
            gate,
            compresses_always: AtomicBool::new(false),
            direct_is_missed: AtomicBool::new(false),
            pace,
            putting: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            read_times: AtomicU64::new(0),
            read_seen: Mutex::default(),
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

    /// Reads from the source, which [`Transfer::is_reading`] tells meanwhile.
    fn reads<T>(&self, read: impl FnOnce() -> T) -> T {
        self.note_read();
        self.reading.fetch_add(1, Ordering::Relaxed);
        let result = read();
        self.reading.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// A stream begins to read, or goes on with it.
    fn note_read(&self) {
        self.read_times.fetch_add(1, Ordering::Relaxed);
    }

    /// What it has to say while it reads, or sends no faster than was asked for: and when that went on last, as a file
    /// that is read a second time shows in no number. Asked some times a second, which is how exact it is.
    fn reading(&self) -> Heartbeat {
        if !self.is_paced() && !self.is_reading() {
            return Heartbeat::default();
        }
        let (times, now) = (self.read_times.load(Ordering::Relaxed), self.clock.now());
        let mut seen = lock(&self.read_seen);
        if seen.0 != times {
            *seen = (times, now);
        }
        let waiting_ms = told_ms(now.saturating_sub(seen.1));
        Heartbeat { waiting_for: Some(WaitingFor::Read), waiting_ms, ..Heartbeat::default() }
    }

    /// Counts what a stream has under way. Where nothing is read ahead that is nothing.
    fn count_reads(&self, lane: &mut SendLane) {
        let count = lane.ahead.under_way();
        if count > 0 || lane.under_way.is_some() {
            let under_way = || self.common.accounts.under_way(Stage::Read);
            lane.under_way.get_or_insert_with(under_way).set(count);
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
            self.count_reads(lane);
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
            Next::Work(Work::Check(entry)) => self.check(lane, outlet, &entry)?,
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
                    self.tell_out_of_turn();
                    self.tell_taken_over(state.machine.progress().taken_over);
                    state.end.come(Ended::Finished(totals));
                }
                Action::Failed(failure) => {
                    self.tell_out_of_turn();
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

    fn tell_taken_over(&self, count: u64) {
        if count > 0 {
            let pieces = counted(count, "piece", "pieces");
            let text = format!("{pieces} of work, late on one stream, went by another one too");
            (self.events)(Event::Detail(text));
        }
    }

    fn tell_out_of_turn(&self) {
        if let Some(told) = self.gate.as_ref().and_then(|gate| gate.told("source")) {
            (self.events)(Event::Note(told));
        }
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
        let beside = self.removal_bytes() + self.source.held_bytes();
        let state = self.lock();
        state.machine.held_bytes() + state.end.held_bytes() + beside
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        // At a low rate a frame may take longer than a stall is borne; and so may a read.
        if heartbeat.waiting_for.is_none() {
            let Heartbeat { waiting_for, waiting_ms, .. } = self.reading();
            (heartbeat.waiting_for, heartbeat.waiting_ms) = (waiting_for, waiting_ms);
        }
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        // The rate that was asked for is ours, and so is a source that is read; a peer that is silent is another
        // matter.
        let is_excused = self.is_paced() || works_on(&self.reading()) || works_on(&peer.heartbeat);
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
    fn session_ends(&self, _: u64, why: &Failure) {
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
        let (at_work, yields) = (self.streams_at_work(), self.yields());
        Some(Spacing { rate: self.rate(), in_slot: 0, at_work, yields })
    }

    fn files_sender(self: Arc<Self>) -> Option<Arc<SendRun>> {
        Some(self)
    }

    fn lane_bytes(&self) -> Option<u64> {
        Some(SendLane::payload_bytes(&self.common.terms))
    }
}

#[cfg(test)]
mod tests;
