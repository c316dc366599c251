//! The sending side of a transfer of flows.

use crate::endpoint::feed::{Feed, Pushed, Taker, Wanted};
use crate::event::{Event, Events};
use crate::failure::{Failure, FailureKind, Result};
use crate::flow::choice::{Choice, LEFT_MAX, Verdict};
use crate::flow::sender::{Action, Piece, Progress, Sender};
use crate::link::FrameBuffer;
use crate::memory::Shelf;
use crate::mutex::lock;
use crate::retry::Again;
use crate::run::flow::entry;
use crate::run::flow::failing::Failing;
use crate::run::flow::lags::{Lag, Lags, LatePiece};
use crate::run::flow::slot::SlotGate;
use crate::run::party::{Common, Party, State};
use crate::run::sender::Did;
use crate::run::transfer::{Crossed, PeerNow, Spacing, Transfer, told_ms, works_on};
use crate::run::{Ended, LineSink, Outbox, thread};
use crate::stage::pace::Pace;
use crate::stage::send::Outlet;
use crate::stage::{Booking, Stage, Stopwatch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{
    FlowLeft, FlowMark, FlowMessage, FlowStand, FlowTerms, Heartbeat, Origin, Outcome, Steer, Terms,
    TransferMessage, TransferNumber, WaitingFor,
};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, EntryId, RelativePath, limits};

/// How long a feed that waits for room looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// See the module. Shared by the thread that reads, the stream threads and the control thread.
pub struct FlowSend {
    common: Common<Sender, Feeding>,
    /// What both sides agreed on, of flows.
    pub flow: FlowTerms,
    pace: Pace,
    /// Streams that hand a piece over at this moment.
    putting: AtomicU32,
    events: Events,
    /// Of what is kept.
    shelf: Shelf,
    /// What hashed each flow so far. Locked by the thread that reads, and never for long.
    hashers: Mutex<BTreeMap<EntryId, blake3::Hasher>>,
    /// When the thread that reads had handed over what it last had, or could first hand over anything.
    handed_at: Mutex<Option<Instant>>,
    /// No more flows begin.
    is_last: AtomicBool,
    /// Who asked for the flows is at the other end, and hears what is noted.
    notes_there: AtomicBool,
}

/// What a sender of flows knows besides, of who reads and of its streams.
#[derive(Default)]
pub struct Feeding {
    wanted: VecDeque<Wanted>,
    /// Flows of which it became known where they go on. No reason to do something else than to hand on what was read.
    goes_on: BTreeSet<EntryId>,
    /// Holds pieces back until their window.
    slot: Option<Arc<SlotGate>>,
    lags: Lags,
    /// When the first byte was read.
    first_read: Option<Instant>,
    choice: Choice,
    /// What the receiver said that earlier attempts left there, and how many there are besides, once that is known:
    /// said by the first that listens.
    left: (Vec<FlowLeft>, Option<u64>),
    /// Names at the destination that were told, because they stand beside an older one.
    told: BTreeSet<RelativePath>,
    /// What failed and may be begun again.
    failing: Failing,
    is_stopped: bool,
    /// Nobody reads any more.
    is_fed: bool,
    /// Why reading ended for all flows.
    failed: Option<Failure>,
}

type Shared = State<Sender, Feeding>;

impl FlowSend {
    /// By these terms; nothing is said before [`FlowSend::attach`].
    pub fn new(terms: Terms, flow: FlowTerms, events: Events) -> Arc<FlowSend> {
        let pace = Pace::new(terms.rate_bytes_per_s);
        let machine = Sender::new(flow.window_bytes);
        let shelf = Shelf::new(usize::try_from(flow.window_bytes).unwrap_or(usize::MAX));
        Arc::new(FlowSend {
            common: Common::new(terms, None, (machine, Feeding::default()), (TransferNumber(0), None)),
            flow,
            pace,
            putting: AtomicU32::new(0),
            events,
            shelf,
            hashers: Mutex::default(),
            handed_at: Mutex::default(),
            is_last: AtomicBool::new(false),
            notes_there: AtomicBool::new(false),
        })
    }

    /// Who asked for the flows is at the other end: what becomes of their files is said there too.
    pub fn note_there(&self) {
        self.notes_there.store(true, Ordering::Release);
    }

    /// Reads on a thread of its own. If that panics, the transfer fails.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(self: &Arc<Self>, feed: Box<dyn Feed>) -> Result<()> {
        let (run, aborting) = (self.clone(), self.clone());
        self.lock().beside.failing.set_rule(feed.rule());
        let work = move || {
            run.common.accounts.enter(Stage::Read);
            run.wait_begins();
            feed.run(&*run);
            run.fed();
        };
        let on_panic = move |failure| {
            aborting.abort(failure);
            aborting.fed();
        };
        thread::guarded("read", on_panic, work).map(drop)
    }

    /// Keeps at most what the receiver of the next session grants, until it is marked.
    ///
    /// # Errors
    /// `Unsupported` if another granted more, and more is kept by now: only that one can take it.
    pub fn fit_window(&self, window_bytes: u64) -> Result<()> {
        let mut state = self.lock();
        if state.machine.fit_window(window_bytes) {
            return Ok(());
        }
        let kept = state.machine.progress().kept_bytes;
        let cause = format!(
            "{kept} bytes that were read are not durable there, and the destination keeps at most {window_bytes} by now: \
             give it as much memory as it had"
        );
        Err(Failure::new(FailureKind::Unsupported, "go on with the stream", cause))
    }

    /// From now on it is transfer `number` of the session of `outbox`, and begins to talk. `lines` hears the receipt,
    /// which begins anew.
    pub fn attach(&self, number: TransferNumber, outbox: Box<dyn Outbox>, lines: Option<LineSink>) {
        let mut state = self.common.attach(number, outbox, lines);
        state.end.outlive();
        state.beside.choice = Choice::default();
        state.machine.rebind();
        let forgotten = state.machine.forgotten();
        self.pump(&mut state);
        drop(state);
        if forgotten > 0 {
            (self.events)(Event::Note(format!(
                "{forgotten} files that were complete before are too many to ask the destination about again: they are \
                 there, and the receipt begins after them"
            )));
        }
    }

    /// Turns its knobs.
    pub fn steer(&self, steer: &Steer) {
        self.pace.ask(steer.rate_bytes_per_s);
    }

    /// The rate that it is held to now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// Whether a rate that was asked for is all that it waits for: no piece that is to go is held up by anybody else.
    fn is_paced(&self) -> bool {
        self.pace.is_waited_for() && self.putting.load(Ordering::Relaxed) == 0
    }

    /// Has pieces wait for the windows of a slot, and counts what is later than its deadline; `None`: no more.
    pub fn set_slot(&self, slot: Option<(Arc<SlotGate>, Duration)>) {
        let mut state = self.lock();
        if let Some((_, deadline)) = &slot {
            state.beside.lags.set_deadline(*deadline);
        }
        state.beside.slot = slot.map(|(gate, _)| gate);
    }

    /// The rate of its slot's windows, in bytes a second, if it has one.
    pub fn slot_rate(&self) -> Option<u64> {
        let slot = self.lock().beside.slot.clone();
        slot.and_then(|slot| slot.bytes_per_s())
    }

    /// How late bytes were so far: from read to known to be durable.
    pub fn lag(&self) -> Lag {
        self.lock().beside.lags.so_far()
    }

    /// When the first byte was read; waits for it, at most so long.
    pub fn first_read(&self, patience: Duration) -> Option<Instant> {
        let is_over = |state: &Shared| state.end.ended.is_some();
        self.common.wait_for(patience, |state| state.beside.first_read, is_over)
    }

    /// When the last burst was that a slot's windows may be placed at, if there was any.
    pub fn latest_burst(&self) -> Option<Instant> {
        let state = self.lock();
        let seen = state.beside.slot.as_ref().and_then(|slot| slot.latest_burst());
        seen.or(state.beside.first_read)
    }

    /// The first piece that was later than the deadline of its slot, said once.
    pub fn take_first_late(&self) -> Option<LatePiece> {
        self.lock().beside.lags.take_first_late()
    }

    /// Counters so far; a flow that was begun again is the one that it was.
    pub fn progress(&self) -> Progress {
        let state = self.lock();
        let (progress, superseded) = (state.machine.progress(), state.beside.failing.superseded());
        let less = |count: u64| count.saturating_sub(superseded);
        Progress { flows: less(progress.flows), settled: less(progress.settled), ..progress }
    }

    /// Tells what failed and is not complete: nothing is begun again any more.
    pub fn tell_failing(&self) {
        let mut state = self.lock();
        let State { machine, beside, .. } = &mut *state;
        beside.failing.end(|begin, bytes| machine.goes_on(begin, bytes), &self.events);
    }

    /// Whether something waits for the receiver's word.
    pub fn awaits_peer(&self) -> bool {
        let state = self.lock();
        state.end.ended.is_none() && state.machine.awaits_peer()
    }

    /// Ends reading: what was read goes on to the destination, and no flow is complete.
    pub fn stop_reading(&self) {
        self.lock().beside.is_stopped = true;
        self.common.notify();
    }

    /// Why reading ended for all flows, if it did.
    pub fn read_failure(&self) -> Option<Failure> {
        self.lock().beside.failed.clone()
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        self.common.abort(failure);
    }

    fn pump(&self, state: &mut Shared) {
        while let Some(action) = state.machine.take_action() {
            match action {
                Action::Say(message) => state.say(message),
                Action::Rewind { at, .. } if state.beside.is_fed => {
                    state.machine.rewound(&at, Err(read_no_more()));
                }
                Action::Rewind { at, is_ours, is_over } => {
                    state.beside.lags.forget(at.flow);
                    state.beside.wanted.push_back(Wanted::Rewind { at, is_ours, is_over });
                }
                Action::Settled(over) => {
                    let flow = over.begin.flow;
                    let failure = match &over.outcome {
                        Outcome::Done { .. } => None,
                        Outcome::Failed(failure) => Some(failure.clone()),
                        Outcome::Unchanged { .. } | Outcome::Skipped(_) => Some(left_out()),
                    };
                    if failure.is_none() {
                        state.beside.lags.marked(flow, u64::MAX, Instant::now());
                    }
                    state.beside.lags.forget(flow);
                    entry::stated(&mut state.end, &over);
                    state.beside.failing.settled(*over, &self.events);
                    self.hashers().remove(&flow);
                    state.beside.wanted.push_back(Wanted::LetGo { flow, failure });
                }
                Action::Gone(numbers) => state.end.skipped_all(numbers),
                Action::Finished(totals) => state.end.come(Ended::Finished(totals)),
            }
        }
        self.common.notify();
        state.work();
    }

    /// Nobody reads any more: what was asked of who read has its answer.
    fn fed(&self) {
        self.common.accounts.leave(Stage::Read);
        let mut state = self.lock();
        state.beside.is_fed = true;
        for wanted in std::mem::take(&mut state.beside.wanted) {
            if let Wanted::Rewind { at, .. } = wanted {
                state.machine.rewound(&at, Err(read_no_more()));
            }
        }
        self.pump(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.common.lock()
    }

    /// What the thread that reads did since it handed over what it had: it waited for more, and read that.
    fn book_wait(&self, goes_on: bool) {
        let mut handed_at = lock(&self.handed_at);
        if let Some(since) = *handed_at {
            let now = Instant::now();
            self.common.accounts.book(Stage::Read, Booking { input: now - since, ..Booking::default() });
            *handed_at = goes_on.then_some(now);
        }
    }

    fn wait_begins(&self) {
        *lock(&self.handed_at) = Some(Instant::now());
    }

    fn push_now(&self, flow: EntryId, offset: u64, bytes: &[u8]) -> Pushed {
        let read = Instant::now();
        let mut watch = Stopwatch::start(&self.common.accounts);
        let digest = Digest(*blake3::hash(bytes).as_bytes());
        let mut hasher = match self.hashers().get(&flow) {
            Some(hasher) => hasher.clone(),
            None => return Pushed::Elsewhere,
        };
        hasher.update(bytes);
        let prefix = Digest(*hasher.finalize().as_bytes());
        let piece = Piece { flow, offset, bytes: self.shelf.copy(bytes), digest, prefix };
        watch.lap(Stage::Digest, bytes.len() as u64);
        let mut state = self.lock();
        loop {
            if state.end.ended.is_some() || state.beside.is_stopped {
                return Pushed::Over;
            }
            match state.machine.position(flow) {
                Some(position) if position != offset => return Pushed::Elsewhere,
                Some(_) if state.machine.has_room() => break,
                // The thread that reads is to do something else first.
                _ if !state.beside.wanted.is_empty() => return Pushed::Elsewhere,
                _ => {}
            }
            state = self.common.wait_in(state, LOOK_AGAIN);
        }
        watch.lap_out(Stage::Digest, 0);
        if state.machine.push(piece).is_err() {
            return Pushed::Elsewhere;
        }
        state.beside.lags.read(flow, offset + bytes.len() as u64, read);
        let is_first = state.beside.first_read.is_none();
        state.beside.first_read.get_or_insert(read);
        let (outbox, slot) = (state.outbox.clone(), state.beside.slot.clone());
        drop(state);
        if let Some(slot) = slot {
            slot.came(read, Instant::now());
        }
        if is_first {
            self.common.notify();
        }
        self.hashers().insert(flow, hasher);
        if let Some(outbox) = outbox {
            outbox.work();
        }
        Pushed::Taken
    }

    fn hashers(&self) -> MutexGuard<'_, BTreeMap<EntryId, blake3::Hasher>> {
        lock(&self.hashers)
    }
}

/// Names that are told; of more there is no end.
const TOLD_MAX: usize = 1000;

impl Feeding {
    /// More of what the receiver says of earlier attempts. With the next link it may begin again.
    fn hear_left(&mut self, left: Vec<FlowLeft>, more: Option<u64>) -> Result<()> {
        let (known, is_whole) = &mut self.left;
        if is_whole.is_some() {
            // Of another receiver: what it left, we began.
            return Ok(());
        }
        known.extend(left);
        if known.len() > 2 * limits::FLOWS_LEFT_MAX {
            let cause = "more is left of earlier streams than may be said";
            return Err(Failure::new(FailureKind::Protocol, "stream", cause));
        }
        *is_whole = more;
        Ok(())
    }

    /// Whether a flow has a name at the destination beside that of an older one, and nobody was told.
    fn is_to_be_told(&mut self, path: &RelativePath, name: &RelativePath) -> bool {
        let is_beside = || name.as_bytes().rsplit(|&byte| byte == b'.').next().is_some_and(is_generation);
        name != path && is_beside() && self.told.len() < TOLD_MAX && self.told.insert(name.clone())
    }
}

/// `~2~`
fn is_generation(ending: &[u8]) -> bool {
    let number = ending.strip_prefix(b"~").and_then(|ending| ending.strip_suffix(b"~"));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

fn left_out() -> Failure {
    Failure::new(FailureKind::Protocol, "stream", "the destination left it out, which nobody asked for")
}

fn read_no_more() -> Failure {
    let cause = "the destination lost what it had, and the source is not read any more";
    Failure::new(FailureKind::Damage, "go on with the stream", cause)
}

impl Party for FlowSend {
    type Machine = Sender;
    type Beside = Feeding;

    fn common(&self) -> &Common<Sender, Feeding> {
        &self.common
    }

    fn own_accounts(&self) -> SideAccounts {
        // A wait that is not over counts as far as it went.
        self.book_wait(true);
        self.common.own_accounts()
    }
}

impl Transfer for FlowSend {
    fn terms(&self) -> &Terms {
        &self.common.terms
    }

    fn sends(&self) -> bool {
        true
    }

    fn crossed(&self) -> Crossed {
        let progress = self.progress();
        Crossed {
            durable_bytes: progress.marked_bytes,
            kept_bytes: progress.marked_bytes,
            settled: progress.settled,
            ..Crossed::sent(self)
        }
    }

    fn held_bytes(&self) -> usize {
        let state = self.lock();
        state.machine.held_bytes() + state.end.held_bytes()
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        // At a low rate a piece may take longer than a stall is borne.
        if self.is_paced() && heartbeat.waiting_for.is_none() {
            heartbeat.waiting_for = Some(WaitingFor::Read);
            heartbeat.waiting_ms = told_ms(self.pace.stood_for());
        }
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        // The rate that was asked for is ours. A program may take its time, and so may who makes what it gets; a peer
        // that is silent is another matter.
        let is_consumer = peer.heartbeat.waiting_for == Some(WaitingFor::Consumer);
        let is_excused = self.is_paced() || is_consumer || works_on(&peer.heartbeat);
        self.awaits_peer() && (peer.is_silent || !is_excused)
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        let mut state = self.lock();
        match state.end.hear(message) {
            None => {}
            Some(TransferMessage::Abort(failure)) => state.end.come(Ended::Failed(failure)),
            Some(TransferMessage::Flow(FlowMessage::Left(left, more))) => {
                state.beside.hear_left(left, more)?
            }
            Some(message) => {
                let (marks, stands) = match &message {
                    TransferMessage::Flow(FlowMessage::Mark(marks)) => (marks.clone(), Vec::new()),
                    TransferMessage::Flow(FlowMessage::Stand(stands)) => {
                        // What it says may end one of them.
                        let path = |stand: &FlowStand| {
                            let begin = state.machine.begun(stand.at.flow)?;
                            Some((begin.path.clone(), stand.clone()))
                        };
                        (Vec::new(), stands.iter().filter_map(path).collect())
                    }
                    _ => (Vec::new(), Vec::new()),
                };
                state.machine.hear(message)?;
                for (path, stand) in stands {
                    let flow = stand.at.flow;
                    (self.events)(Event::Stands(path.clone(), stand.at.bytes));
                    if state.machine.position(flow).is_some() {
                        state.beside.goes_on.insert(flow);
                    }
                    if let Some(name) = stand.name.filter(|name| state.beside.is_to_be_told(&path, name)) {
                        let [from, to] = [&path, &name].map(|path| Escaped(path.as_bytes()).to_string());
                        (self.events)(Event::Note(format!("{from} goes to {to} at the destination")));
                    }
                }
                let now = Instant::now();
                for FlowMark { flow, bytes, .. } in marks {
                    state.beside.lags.marked(flow, bytes, now);
                }
                if state.machine.progress().is_at_rest() {
                    self.shelf.clear();
                }
            }
        }
        self.pump(&mut state);
        drop(state);
        self.common.notify();
        Ok(())
    }

    fn link_up(&self) {
        let mut state = self.lock();
        state.begin_to_speak();
        state.machine.link_up();
        self.pump(&mut state);
        state.say_last_again();
    }

    fn last_word(&self) -> Option<TransferMessage> {
        self.common.why_failed()
    }

    fn drop_unsaid(&self) {
        drop(self.common.fall_silent());
    }

    fn stream_lost(&self, stream: u16) {
        let mut state = self.lock();
        state.beside.choice.forget(stream);
        state.machine.stream_lost(stream);
        // The others have its pieces to carry.
        state.work();
    }

    fn attachment(&self) -> u64 {
        self.lock().attachment
    }

    fn session_ends(&self, attachment: u64, why: &Failure) {
        if let Some(mut state) = self.common.leave(attachment, why) {
            state.beside.choice = Choice::default();
            state.machine.unlink();
        }
    }

    fn tell_accounts(&self) {
        Party::tell_accounts(self);
    }

    fn steer(&self, steer: &Steer) {
        FlowSend::steer(self, steer);
    }

    fn spacing(&self) -> Option<Spacing> {
        let slot = self.slot_rate();
        let rate = self.rate().into_iter().chain(slot).min();
        Some(Spacing { rate, in_slot: slot.unwrap_or(0), at_work: usize::MAX, yields: false })
    }

    fn work(&self, stream: u16, buffer: &mut FrameBuffer, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let is_behind = outlet.unsent_bytes() > 0;
        let (piece, to) = {
            let mut state = self.lock();
            if state.end.ended.is_some() {
                return Ok(Did::Over);
            }
            if outlet.is_over() {
                return Ok(Did::Nothing(None));
            }
            let waiting = state.machine.waiting();
            let piece = match state.beside.choice.ask(stream, waiting, is_behind, Instant::now()) {
                Verdict::Take => state.machine.next_piece(stream),
                Verdict::Leave { is_news } => {
                    if is_news {
                        state.work();
                    }
                    None
                }
            };
            let Some(piece) = piece else {
                return Ok(Did::Nothing(state.beside.choice.is_left().then_some(LEFT_MAX)));
            };
            (piece, (state.number, state.beside.slot.clone()))
        };
        // While it has a piece: those that none is left for stand by.
        self.common.accounts.enter(Stage::Send);
        let carried = self.carry(&piece, to, buffer, outlet);
        self.common.accounts.leave(Stage::Send);
        carried.map(|()| Did::Work)
    }
}

impl FlowSend {
    /// Hands a piece over to a stream when it may go: in a transfer of this number, and in the windows of a slot.
    fn carry(
        &self,
        piece: &Piece,
        (number, slot): (TransferNumber, Option<Arc<SlotGate>>),
        buffer: &mut FrameBuffer,
        outlet: &mut dyn Outlet,
    ) -> io::Result<()> {
        let bytes = piece.bytes.len() as u64;
        let mut watch = Stopwatch::start(&self.common.accounts);
        if self.pace.rate().is_some() {
            let goes = self.pace.wait(bytes, || {
                // As it goes: at a low rate a single wait takes long.
                watch.lap_many(Stage::Pace, 0, 0);
                self.ended().is_none() && !outlet.is_over()
            });
            if !goes && outlet.is_over() {
                // The piece went back when the stream was lost.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            watch.lap(Stage::Pace, bytes);
        }
        if let Some(slot) = slot {
            let goes = slot.wait(bytes, || self.ended().is_none() && !outlet.is_over());
            if !goes && outlet.is_over() {
                // As above: the next window may be minutes away, and others have the piece.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // No limit is to be turned where it waits for its windows; and by a rate none of it went, or did already.
            watch.lap_out(Stage::Pace, 0);
        }
        let mut goes_on = || {
            // As it goes: at a low limit a single wait takes long, and its stream may be lost.
            watch.lap_many(Stage::Limit, 0, 0);
            self.ended().is_none()
        };
        if outlet.wait_for_share(bytes, &mut goes_on) {
            if outlet.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            watch.lap(Stage::Limit, bytes);
        }
        self.lock().beside.lags.sent(piece.flow, piece.offset + bytes, Instant::now());
        buffer.payload_mut()[..piece.bytes.len()].copy_from_slice(&piece.bytes);
        let inner = Inner {
            kind: FrameKind::Segment,
            encoding: Encoding::Raw,
            transfer: number,
            raw_bytes: piece.bytes.len() as u32,
            entry: piece.flow,
            offset: piece.offset,
            digest: piece.digest,
            is_again: false,
        };
        self.putting.fetch_add(1, Ordering::Relaxed);
        let put = outlet.put(buffer, piece.bytes.len(), &inner);
        self.putting.fetch_sub(1, Ordering::Relaxed);
        put?;
        match outlet.books_itself() {
            true => watch.skip(),
            // What the path does not take is no work of ours.
            false => watch.lap_out(Stage::Send, bytes),
        }
        Ok(())
    }
}

impl Taker for FlowSend {
    fn left(&self, at_most: Duration) -> Option<(Vec<FlowLeft>, u64)> {
        let mut state = self.lock();
        if state.beside.left.1.is_none() {
            state = self.common.wait_in(state, at_most);
        }
        let (left, more) = &mut state.beside.left;
        more.map(|more| (std::mem::take(left), more))
    }

    fn begin(&self, path: RelativePath, origin: (Origin, bool), mode: u32) -> Result<EntryId> {
        let mut state = self.lock();
        let flow = state.machine.begin(path, origin, mode)?;
        self.hashers().insert(flow, blake3::Hasher::new());
        self.pump(&mut state);
        Ok(flow)
    }

    fn has_room(&self) -> bool {
        let state = self.lock();
        state.machine.may_begin(state.end.held_bytes())
    }

    fn position(&self, flow: EntryId) -> Option<u64> {
        self.lock().machine.position(flow)
    }

    fn digest(&self, flow: EntryId) -> Option<Digest> {
        self.hashers().get(&flow).map(|hasher| Digest(*hasher.finalize().as_bytes()))
    }

    fn push(&self, flow: EntryId, offset: u64, bytes: &[u8]) -> Pushed {
        self.book_wait(false);
        let pushed = self.push_now(flow, offset, bytes);
        self.wait_begins();
        pushed
    }

    fn end(&self, flow: EntryId) {
        // Behind the last flow nothing is waited for.
        self.book_wait(!self.is_last.load(Ordering::Acquire));
        let mut state = self.lock();
        state.machine.end(flow);
        self.pump(&mut state);
    }

    fn give_up(&self, flow: EntryId, failure: Failure) {
        let mut state = self.lock();
        state.machine.give_up(flow, failure);
        self.pump(&mut state);
    }

    fn last(&self) {
        self.is_last.store(true, Ordering::Release);
        let mut state = self.lock();
        state.machine.last();
        self.pump(&mut state);
    }

    fn wanted(&self, at_most: Duration) -> Vec<Wanted> {
        let mut state = self.lock();
        let is_empty = state.beside.wanted.is_empty() && state.beside.goes_on.is_empty();
        if is_empty && !at_most.is_zero() {
            state = self.common.wait_in(state, at_most);
        }
        let goes_on = std::mem::take(&mut state.beside.goes_on);
        let goes_on = goes_on.into_iter().map(|flow| Wanted::GoesOn { flow });
        state.beside.wanted.drain(..).chain(goes_on).collect()
    }

    fn rewound(&self, at: &FlowMark, result: Result<blake3::Hasher>) {
        let (hasher, result) = match result {
            Ok(hasher) => (Some(hasher), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        let mut state = self.lock();
        if state.machine.rewound(at, result)
            && let Some(hasher) = hasher
        {
            self.hashers().insert(at.flow, hasher);
        }
        self.pump(&mut state);
    }

    fn begins_again(&self, flow: EntryId, again: Option<Again>) {
        self.lock().beside.failing.decided(flow, again, &self.events);
    }

    fn missed(&self, path: RelativePath, failure: Failure) {
        let mut state = self.lock();
        state.machine.missed(path, failure);
        self.pump(&mut state);
    }

    fn note(&self, text: String) {
        if self.notes_there.load(Ordering::Acquire) {
            self.say(TransferMessage::Flow(FlowMessage::note(text.clone())));
        }
        (self.events)(Event::Note(text));
    }

    fn failed(&self, failure: Failure) {
        self.lock().beside.failed.get_or_insert(failure.clone());
        self.abort(failure);
    }

    fn is_over(&self) -> bool {
        let state = self.lock();
        state.end.ended.is_some() || state.beside.is_stopped
    }
}

#[cfg(test)]
mod tests;
