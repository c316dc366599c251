//! The sending side of a transfer at work: a scan thread, and what streams do with the machine's decisions.

use crate::endpoint::{ScanSink, Source, SourceFile};
use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind};
use crate::link::FrameBuffer;
use crate::order::{self, Layout};
use crate::run::end::{self, End};
use crate::run::ledger::Ledger;
use crate::run::{Clock, Ended, LineSink, Outbox, Told};
use crate::stage::ahead::Ahead;
use crate::stage::compress::Packer;
use crate::stage::pace::Pace;
use crate::stage::read::{self, ChunkReader, OpenFiles, Pack, Segment};
use crate::stage::send::Outlet;
use crate::stage::turn::{Gate, Turn};
use crate::stage::{Accounts, Booking, Stage, Stopwatch};
use crate::transfer::Copy;
use crate::transfer::sender::{Action, Limits, Next, Progress, Retry, Sender, Work};
use crate::tune::ledbat::{Ledbat, Sample};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_sys::usage::thread_cpu;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::digest::chunk_length;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{
    Order, Outcome, ScanTotals, Steer, Terms, TransferMessage, TransferNumber, VerifyLevel,
};
use thalweg_wire::receipt::Signed;
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath};

/// A transfer's sending side. Shared by the scan thread, the stream threads and the control thread.
pub struct SendRun {
    number: TransferNumber,
    /// What both sides agreed on.
    pub terms: Terms,
    /// Where its time goes.
    pub accounts: Accounts,
    ledger: Ledger,
    source: Arc<dyn Source>,
    pace: Pace,
    /// For orders that have turns.
    gate: Option<Gate>,
    /// The source does not say where files lie: told once.
    layout_is_missed: AtomicBool,
    /// How much is left to it, if it yields.
    ledbat: Mutex<Ledbat>,
    outbox: Box<dyn Outbox>,
    events: Events,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    machine: Sender,
    end: End,
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
}

impl SendLane {
    /// For stream `stream`, with a buffer for `terms`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(stream: u16, terms: &Terms) -> io::Result<Self> {
        let payload_bytes = crate::run::session::payload_max(terms);
        Ok(SendLane {
            stream,
            files: OpenFiles::default(),
            packer: if terms.compress { Some(Packer::new(payload_bytes)?) } else { None },
            buffer: FrameBuffer::new(payload_bytes)?,
            idle: None,
            ahead: Ahead::new(terms.disk, payload_bytes),
        })
    }
}

/// What a stream found to do.
pub enum Did {
    /// Something; ask again at once.
    Work,
    /// Nothing now, for at most so long.
    Nothing(Option<Duration>),
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
        Arc::new(SendRun {
            number,
            accounts: Accounts::default(),
            ledger: Ledger::begin(source.device()),
            source,
            gate: Gate::of(terms.disk.source.order.unwrap_or(order::SOURCE)),
            layout_is_missed: AtomicBool::new(false),
            pace,
            ledbat: Mutex::new(ledbat),
            outbox,
            events,
            clock: Clock::start(),
            state: Mutex::new(State { machine: Sender::new(terms.clone(), limits), end: End::new() }),
            changed: Condvar::new(),
            terms,
        })
    }

    /// Number in its session.
    pub fn number(&self) -> TransferNumber {
        self.number
    }

    /// Turns its knobs, from now on.
    pub fn steer(&self, steer: &Steer) {
        self.pace.ask(steer.rate_bytes_per_s);
        self.lock().machine.steer(steer);
        self.outbox.work();
    }

    /// The rate that it is held to now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// Yields to others by what its streams show.
    pub fn leave_room(&self, sample: &Sample) {
        let mut ledbat = self.ledbat.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let rate = ledbat.sample(self.clock.now(), sample);
        tracing::debug!(?sample, queue = ?ledbat.queue(), rate, "yielding");
        self.pace.leave(Some(rate));
    }

    /// Starts the scan on a thread of its own.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let run = self.clone();
        std::thread::Builder::new().name("scan".into()).spawn(move || run.scan())?;
        Ok(())
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

    /// The receiver's accounts, as it told them last.
    pub fn peer_accounts(&self) -> SideAccounts {
        self.lock().end.peer_accounts.clone()
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.lock().end.ended.clone()
    }

    /// Waits for the end, at most so long.
    pub fn wait(&self, patience: Duration) -> Option<Ended> {
        end::wait_for(&self.state, &self.changed, patience, |state| state.end.ended.clone(), |_| false)
    }

    /// Root and number of entries of its receipt. `None` before the end, and the second time.
    pub fn take_root(&self) -> Option<(Digest, u64)> {
        self.lock().end.take_root()
    }

    /// Has the lines of the receipt told, from now on: call it before the first entry settles. The last ones come
    /// with [`SendRun::take_root`].
    pub fn tell_lines(&self, sink: LineSink) {
        let mut state = self.lock();
        state.machine.keep_pieces();
        state.end.tell_lines(sink);
    }

    /// The receiver's signed statement, once it came; waits at most so long.
    pub fn peer_receipt(&self, patience: Duration) -> Option<Signed> {
        let receipt = |state: &State| state.end.peer_receipt.clone();
        end::wait_for(&self.state, &self.changed, patience, receipt, |state| state.end.is_closed)
    }

    /// The receiver said something.
    ///
    /// # Errors
    /// `Protocol`; the session ends then.
    pub fn hear(&self, message: TransferMessage) -> failure::Result<()> {
        let mut state = self.lock();
        match message {
            TransferMessage::Receipt(signed) => {
                state.end.peer_receipt = Some(*signed);
                self.changed.notify_all();
            }
            TransferMessage::Accounts(accounts) => state.end.peer_accounts = *accounts,
            message => {
                let repairs = state.machine.progress().repairs;
                state.machine.hear(message)?;
                let repaired = state.machine.progress().repairs - repairs;
                if repaired > 0 {
                    (self.events)(Event::Repaired(repaired));
                }
            }
        }
        self.pump(&mut state);
        drop(state);
        // What was wanted or asked for again is work, whether or not there was something to say.
        self.outbox.work();
        Ok(())
    }

    /// Says something of its own to the receiver.
    pub fn say(&self, message: TransferMessage) {
        self.outbox.say(self.number, message);
    }

    /// Our accounts as they are now.
    pub fn side(&self) -> SideAccounts {
        self.ledger.side(&self.accounts, self.outbox.streams())
    }

    /// Tells the peer our accounts.
    pub fn tell_accounts(&self) {
        self.say(TransferMessage::Accounts(Box::new(self.side())));
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        self.outbox.say(self.number, TransferMessage::Abort(failure.clone()));
        let mut state = self.lock();
        state.end.come(Ended::Failed(failure));
        state.end.is_closed = true;
        drop(state);
        self.changed.notify_all();
        self.outbox.work();
    }

    /// The link stands (again).
    pub fn link_up(&self) {
        let mut state = self.lock();
        state.machine.link_up();
        self.pump(&mut state);
    }

    /// A stream is ready.
    pub fn stream_up(&self, stream: u16) {
        // Told twice by a stream that comes while the transfer is added.
        if self.lock().machine.stream_up(stream) {
            self.accounts.enter(Stage::Read);
        }
    }

    /// A stream is gone.
    pub fn stream_lost(&self, stream: u16) {
        self.accounts.leave(Stage::Read);
        let mut state = self.lock();
        state.machine.stream_lost(stream);
        self.pump(&mut state);
    }

    /// Does the next piece of work of this transfer on a stream.
    ///
    /// # Errors
    /// When the stream is gone. Everything else is told to the machine.
    pub fn work(&self, lane: &mut SendLane, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let (next, turn, is_held_back) = {
            let mut state = self.lock();
            if state.end.is_closed {
                return Ok(Did::Over);
            }
            let next = state.machine.next_work(lane.stream, self.clock.now());
            // In the order in which chunks are handed out.
            let is_read = matches!(next, Next::Work(Work::Chunk(..) | Work::Compare(..)));
            let turn = self.gate.as_ref().filter(|_| is_read).map(Gate::draw);
            self.pump(&mut state);
            (next, turn, state.machine.is_held_back(lane.stream))
        };
        let idle = matches!(next, Next::Wait(_)).then(|| (Instant::now(), is_held_back));
        if let Some((since, was_held_back)) = std::mem::replace(&mut lane.idle, idle) {
            let waited = since.elapsed();
            let booking = match was_held_back {
                true => Booking { output: waited, ..Booking::default() },
                false => Booking { input: waited, ..Booking::default() },
            };
            self.accounts.book(Stage::Read, booking);
        }
        match next {
            Next::Done => return Ok(Did::Over),
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

    fn send_chunk(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entry: &Arc<Entry>,
        (chunk, copy): (u64, Copy),
        mut turn: Option<Turn<'_>>,
    ) -> io::Result<()> {
        let mut watch = Stopwatch::start(&self.accounts);
        let Some(mut reader) = self.open_chunk(lane, entry, chunk) else { return Ok(()) };
        let mut digests = Vec::new();
        // Of a chunk that was broken off.
        lane.ahead.forget();
        if let Some(turn) = &turn {
            turn.issue();
        }
        while let Some(offset) = reader.next_offset() {
            let segment = match reader.read_ahead(&mut lane.buffer, &mut lane.ahead) {
                Ok(segment) => segment,
                // The receiver drops the beginning of the chunk when the next one starts.
                Err(failure) => {
                    self.unreadable(lane, entry, failure);
                    return Ok(());
                }
            };
            if reader.next_offset().is_none() {
                // Its last read ended.
                drop(turn.take());
            }
            let (kind, raw, digest) = match segment {
                Segment::Data(bytes) => {
                    watch.lap(Stage::Read, bytes as u64);
                    let digest = reader.rule.segment(offset, &lane.buffer.payload_mut()[..bytes]);
                    (FrameKind::Segment, bytes, digest)
                }
                Segment::Zeros(bytes) => (FrameKind::Zeros, bytes as usize, reader.rule.zeros(offset, bytes)),
            };
            let Some(digest) = digest else {
                let failure =
                    Failure::new(FailureKind::Internal, "digest", "a segment that the file does not have");
                self.unreadable(lane, entry, failure);
                return Ok(());
            };
            digests.push(digest);
            watch.lap(Stage::Digest, raw as u64);
            let mut inner = Inner {
                kind,
                encoding: Encoding::Raw,
                transfer: self.number,
                raw_bytes: raw as u32,
                entry: entry.id,
                offset,
                digest,
                is_again: copy == Copy::Again,
            };
            let payload = if kind == FrameKind::Zeros { 0 } else { raw };
            let payload = self.compress(lane, payload, &mut inner, &mut watch);
            self.put(lane, outlet, payload, &inner, &mut watch, raw as u64)?;
        }
        let mut state = self.lock();
        state.machine.chunk_sent(lane.stream, entry.id, chunk, reader.join(&digests));
        self.pump(&mut state);
        Ok(())
    }

    /// Tells the digest of a chunk that the receiver may have.
    fn compare_chunk(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entry: &Arc<Entry>,
        chunk: u64,
        turn: Option<Turn<'_>>,
    ) -> io::Result<()> {
        let mut watch = Stopwatch::start(&self.accounts);
        let Some(reader) = self.open_chunk(lane, entry, chunk) else { return Ok(()) };
        if let Some(turn) = &turn {
            turn.issue();
        }
        let digest = match reader.digest(lane.buffer.payload_mut()) {
            Ok(digest) => digest,
            Err(failure) => {
                self.unreadable(lane, entry, failure);
                return Ok(());
            }
        };
        drop(turn);
        let inner = Inner {
            kind: FrameKind::Compare,
            encoding: Encoding::Raw,
            transfer: self.number,
            raw_bytes: 0,
            entry: entry.id,
            offset: chunk * self.terms.chunk_bytes,
            digest,
            is_again: false,
        };
        watch.lap(Stage::Read, chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes));
        self.put(lane, outlet, 0, &inner, &mut watch, 0)?;
        let mut state = self.lock();
        state.machine.chunk_told(lane.stream, entry.id, chunk, digest);
        self.pump(&mut state);
        Ok(())
    }

    /// A chunk ready to be read; `None` if it cannot be, or lies in a marked hole, which the machine was told.
    fn open_chunk(&self, lane: &mut SendLane, entry: &Arc<Entry>, chunk: u64) -> Option<ChunkReader> {
        let opened = lane.files.get(entry, &*self.source).and_then(|file| {
            let reader = ChunkReader::new(file, entry, chunk, &self.terms);
            let hole = reader.marked_hole(&self.terms).map_err(|error| failure::of_io("read", &error))?;
            Ok((reader, hole))
        });
        match opened {
            Ok((reader, None)) => Some(reader),
            Ok((_, Some(run))) => {
                let mut state = self.lock();
                state.machine.chunks_are_holes(lane.stream, entry.id, chunk, run);
                self.pump(&mut state);
                None
            }
            Err(failure) => {
                self.unreadable(lane, entry, failure);
                None
            }
        }
    }

    fn send_pack(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entries: &[Arc<Entry>],
    ) -> io::Result<()> {
        let asked: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
        let (pack, packed) =
            Pack::read(entries, &*self.source, lane.buffer.payload_mut(), self.terms.verify, &self.accounts);
        let content_bytes = pack.bytes as u64;
        // Before it goes out: the receiver may have the last word on it before we are back here.
        self.lock().machine.small_read(pack.digests());
        let (raw, files) = pack.close(lane.buffer.payload_mut());
        if files > 0 {
            let mut watch = Stopwatch::start(&self.accounts);
            let mut inner = Inner {
                kind: FrameKind::Pack,
                encoding: Encoding::Raw,
                transfer: self.number,
                raw_bytes: raw as u32,
                entry: EntryId(files),
                offset: 0,
                digest: Digest::default(),
                is_again: false,
            };
            let payload = self.compress(lane, raw, &mut inner, &mut watch);
            self.put(lane, outlet, payload, &inner, &mut watch, content_bytes)?;
        }
        let mut state = self.lock();
        state.machine.pack_sent(lane.stream, &asked, &packed.sent);
        for (id, failure) in packed.failed {
            state.machine.failed(id, failure);
        }
        self.pump(&mut state);
        drop(state);
        for entry in packed.changed {
            self.changed(&entry);
        }
        Ok(())
    }

    fn compress(&self, lane: &mut SendLane, raw: usize, inner: &mut Inner, watch: &mut Stopwatch) -> usize {
        let Some(packer) = lane.packer.as_mut().filter(|_| raw > 0) else { return raw };
        let packed = packer.pack(lane.buffer.payload_mut(), raw);
        watch.lap(Stage::Compress, raw as u64);
        match packed {
            Some(packed) => {
                inner.encoding = Encoding::Zstd;
                packed
            }
            None => raw,
        }
    }

    /// Sends a frame that carries so many bytes of content, no faster than asked.
    fn put(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        payload: usize,
        inner: &Inner,
        watch: &mut Stopwatch,
        content_bytes: u64,
    ) -> io::Result<()> {
        let began = lane.packer.is_some().then(Instant::now);
        if self.terms.rate_bytes_per_s.is_some() && payload > 0 {
            self.pace.wait(payload as u64, || self.ended().is_none());
            watch.lap(Stage::Pace, content_bytes);
        }
        outlet.put(&mut lane.buffer, payload, inner)?;
        match outlet.books_itself() {
            true => watch.skip(),
            false => watch.lap_out(Stage::Send, content_bytes),
        }
        if let (Some(packer), Some(began)) = (&mut lane.packer, began) {
            packer.sent(payload, began.elapsed());
        }
        Ok(())
    }

    fn check(&self, lane: &mut SendLane, entry: &Arc<Entry>) {
        let evidence = lane.files.get(entry, &*self.source).and_then(|file| {
            if self.terms.verify == VerifyLevel::Paranoid {
                self.read_again(&file, lane.buffer.payload_mut(), entry)?;
            }
            file.evidence().map_err(|error| failure::of_io("read", &error))
        });
        lane.files.forget(entry.id);
        match evidence {
            Ok(evidence) => {
                let mut state = self.lock();
                let retry = state.machine.checked(lane.stream, entry.id, evidence);
                self.pump(&mut state);
                drop(state);
                if retry == Retry::LookAgain {
                    self.look_again(entry);
                }
            }
            Err(failure) => self.unreadable(lane, entry, failure),
        }
    }

    fn read_again(
        &self,
        file: &Arc<dyn SourceFile>,
        buffer: &mut [u8],
        entry: &Arc<Entry>,
    ) -> failure::Result<()> {
        let mut watch = Stopwatch::start(&self.accounts);
        let second = read::digest_again(file, entry, &self.terms, buffer)?;
        watch.lap(Stage::Read, entry.evidence.size);
        let first = self.lock().machine.digest_read(entry.id);
        // A file that changed between the two is told apart by its evidence, looked at next.
        let is_same_moment = file.evidence().is_ok_and(|now| now == entry.evidence);
        if first.is_some() && first != second && is_same_moment {
            Err(read::read_differently())
        } else {
            Ok(())
        }
    }

    fn unreadable(&self, lane: &mut SendLane, entry: &Arc<Entry>, failure: Failure) {
        lane.files.forget(entry.id);
        if failure.kind == FailureKind::Changed {
            self.changed(entry);
        } else {
            let mut state = self.lock();
            state.machine.failed(entry.id, failure);
            self.pump(&mut state);
        }
    }

    fn changed(&self, entry: &Arc<Entry>) {
        let mut state = self.lock();
        let retry = state.machine.changed(entry.id);
        self.pump(&mut state);
        drop(state);
        if retry == Retry::LookAgain {
            self.look_again(entry);
        }
    }

    fn look_again(&self, entry: &Entry) {
        let now = self.source.look_again(entry);
        let mut state = self.lock();
        state.machine.offer_again(entry.id, now);
        // The old number will never settle, unless it was given up.
        state.end.skipped(entry.id);
        self.pump(&mut state);
    }

    /// Where the chunks of an entry lie, if that is asked for and can be known.
    fn layout(&self, entry: &Entry) -> Option<Layout> {
        let size = entry.evidence.size;
        let is_of_chunks = matches!(entry.kind, Kind::File { .. }) && size > self.terms.chunk_bytes;
        if self.terms.disk.source.order != Some(Order::Layout) || !is_of_chunks {
            return None;
        }
        match self.source.layout(entry) {
            Ok(placed) => Some(Layout::of(&placed, size, self.terms.chunk_bytes)),
            Err(failure) => {
                if !self.layout_is_missed.swap(true, Ordering::Relaxed) {
                    (self.events)(Event::Note(format!("order layout: by offset instead: {failure}")));
                }
                None
            }
        }
    }

    fn scan(&self) {
        self.accounts.enter(Stage::Scan);
        let mut sink = Sink {
            run: self,
            waited: Duration::ZERO,
            since: Instant::now(),
            cpu: thread_cpu(),
            items: 0,
            bytes: 0,
        };
        let totals = self.source.scan(&mut sink);
        sink.book();
        let mut state = self.lock();
        state.machine.scan_ended(totals.clone());
        (self.events)(Event::ScanEnded(totals));
        self.pump(&mut state);
    }

    /// Carries out what the machine wants. Called with the lock held, so that what is said keeps its order.
    fn pump(&self, state: &mut State) {
        let mut any = false;
        while let Some(action) = state.machine.take_action() {
            tracing::trace!(?action);
            any = true;
            match action {
                Action::Say(message) => self.outbox.say(self.number, message),
                Action::Settled(entry, outcome) => {
                    state.end.settled(&entry, &outcome);
                    (self.events)(Event::Settled(entry, outcome));
                }
                Action::Pieces(entry, pieces) => {
                    state.end.tell([Told::Pieces(entry.path.clone(), pieces)]);
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
        if any {
            self.changed.notify_all();
            self.outbox.work();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Hands what the scan finds to the machine, no faster than it is settled.
struct Sink<'a> {
    run: &'a SendRun,
    /// Time without room since the last booking, which was at `since`.
    waited: Duration,
    since: Instant,
    cpu: Duration,
    items: u64,
    bytes: u64,
}

/// Entries between two bookings of the scan.
const SCAN_ITEMS: u64 = 256;

impl Sink<'_> {
    /// Books what the scan did since the last time.
    fn book(&mut self) {
        let (now, cpu) = (Instant::now(), thread_cpu());
        let wall = now.saturating_duration_since(std::mem::replace(&mut self.since, now));
        let output = std::mem::take(&mut self.waited);
        let booking = Booking {
            busy: wall.saturating_sub(output),
            output,
            cpu: cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu)),
            bytes: std::mem::take(&mut self.bytes),
            items: std::mem::take(&mut self.items),
            ..Booking::default()
        };
        self.run.accounts.book(Stage::Scan, booking);
    }

    fn room(&mut self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.run.lock();
        if !state.machine.has_room() && !state.end.is_closed {
            state.machine.flush_offers();
            self.run.pump(&mut state);
            let since = Instant::now();
            while !state.machine.has_room() && !state.end.is_closed && state.end.ended.is_none() {
                let waited = self.run.changed.wait_timeout(state, Duration::from_millis(500));
                state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            }
            self.waited += since.elapsed();
            drop(state);
            self.book();
            state = self.run.lock();
        }
        (!state.end.is_closed && state.end.ended.is_none()).then_some(state)
    }
}

impl ScanSink for Sink<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        let run = self.run;
        self.items += 1;
        self.bytes += entry.content_bytes();
        if self.items >= SCAN_ITEMS {
            self.book();
        }
        let layout = run.layout(&entry);
        let mut state = self.room()?;
        let id = state.machine.offer_soon(entry);
        if let Some(layout) = layout {
            state.machine.lay_out(id, layout);
        }
        run.pump(&mut state);
        Some(id)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        let run = self.run;
        let Some(mut state) = self.room() else { return };
        state.machine.aside(path.clone(), Outcome::Failed(failure.at(&path)));
        run.pump(&mut state);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        let run = self.run;
        let Some(mut state) = self.room() else { return };
        state.machine.aside(path, Outcome::Skipped(reason.to_owned()));
        run.pump(&mut state);
    }
}
