//! A producer at work, and its end of the lane in one session.

use super::client_end::{ClientEnd, State};
use super::segments::{Going, Outlets};
use super::{Head, add_moved, wall_ns};
use crate::admission::SlotHeld;
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::frames::lane::Window;
use crate::frames::producer::{Made, Producer};
use crate::frames::{FINISH, NewFrame, PUSH, ProducerId, ProducerReport, SenderFigures, WRITE_LOG};
use crate::link::FrameBuffer;
use crate::run::Outbox;
use crate::run::flow::lags::{Lag, Lags, LatePiece};
use crate::run::flow::slot::SlotGate;
use crate::run::sender::Did;
use crate::run::transfer::{Crossed, PeerNow, Reception, Transfer};
use crate::stage::send::Outlet;
use crate::stage::{Stage, Stopwatch};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{
    FrameHead, FramesMessage, Heartbeat, TakenBefore, Terms, TransferMessage, TransferNumber, WaitingFor,
};
use thalweg_wire::path::Sentence;
use thalweg_wire::{Digest, EntryId};

/// See the module. Outlives sessions.
pub struct ProduceRun {
    producer: ProducerId,
    end: ClientEnd<Producer, Counts>,
    /// What the first hub had taken under this name.
    before: OnceLock<Option<TakenBefore>>,
}

/// A frame that was digested. Cloning copies no payload.
#[derive(Debug, Clone)]
pub struct Prepared {
    made: Made,
    /// When it was tried first: its clones are other tries of the same frame, and a deadline knows one wait.
    ready: Arc<OnceLock<Instant>>,
}

/// What it did so far.
#[derive(Default)]
struct Counts {
    frames: u64,
    bytes: u64,
    /// Time in which it waited for room.
    blocked: Duration,
    /// Bytes that the hub has.
    taken_bytes: u64,
    /// When the first frame was pushed.
    first_push: Option<Instant>,
    /// Holds frames back until their window.
    slot: Option<Arc<SlotGate>>,
    /// What the slot promises, and how late frames were that were pushed with one.
    held: Option<SlotHeld>,
    lags: Lags,
    /// Why the hub takes nothing, as it says itself, if that is not its consumers.
    trouble: Option<String>,
}

/// For so long a declaration waits for the frames before it: who makes frames may not be held up by words.
const DECLARE_WAIT: Duration = Duration::from_millis(250);
/// What going on behind an earlier producer of the name is called where it fails.
const GO_ON: &str = "go on with a push";

/// All frames of a producer, to who reckons how late they are.
const ALL: EntryId = EntryId(0);

impl ProduceRun {
    /// Of this name; nothing is said before it has a link.
    pub fn new(producer: ProducerId, window: Window) -> Arc<ProduceRun> {
        let machine = Producer::new(producer.clone(), window);
        let end = ClientEnd::new(window, machine, Counts::default());
        Arc::new(ProduceRun { producer, end, before: OnceLock::new() })
    }

    /// The hub took this under its name before. What a later one says is of what it gave itself, too.
    pub fn note_before(&self, before: Option<TakenBefore>) {
        let _ = self.before.set(before);
    }

    /// What the hub took under its name before its first frame, if it knows all of it.
    pub fn taken_before(&self) -> Option<TakenBefore> {
        self.before.get().copied().flatten()
    }

    /// Its name.
    pub fn producer(&self) -> &ProducerId {
        &self.producer
    }

    /// Its window.
    pub fn window(&self) -> Window {
        self.end.window
    }

    /// Has frames wait for the windows of a slot, and counts those that the hub has later than its deadline.
    pub fn set_slot(&self, gate: Arc<SlotGate>, deadline: Duration) {
        let mut state = self.end.lock();
        state.beside.lags.set_deadline(deadline);
        state.beside.slot = Some(gate);
    }

    /// This is promised now.
    pub fn note_slot(&self, held: SlotHeld) {
        self.end.lock().beside.held = Some(held);
    }

    /// A consumer that took nothing for too long, and is not waited for: each is told once.
    pub fn take_passed_over(&self) -> Option<String> {
        self.end.lock().machine.take_passed_over()
    }

    /// Why the hub takes nothing, if that is not its consumers; `None`: it takes something, or waits for them. Says
    /// whether that is news.
    pub fn set_trouble(&self, trouble: Option<String>) -> bool {
        let mut state = self.end.lock();
        let is_news = state.beside.trouble != trouble;
        state.beside.trouble = trouble;
        is_news
    }

    /// What its slot promises, if it has one, and how late frames were so far: from pushed to known to be at the hub.
    pub fn slot(&self) -> Option<(SlotHeld, Lag)> {
        let state = self.end.lock();
        state.beside.held.map(|held| (held, state.beside.lags.so_far()))
    }

    /// When the first frame was pushed; waits for it, at most so long.
    pub fn first_push(&self, patience: Duration) -> Option<Instant> {
        let began = Instant::now();
        let mut state = self.end.lock();
        loop {
            let left = patience.saturating_sub(began.elapsed());
            let is_over = state.is_over || state.failed.is_some();
            if state.beside.first_push.is_some() || is_over || left.is_zero() {
                return state.beside.first_push;
            }
            state = self.end.wait(state, Some(left));
        }
    }

    /// When the last burst was that a slot's windows may be placed at, if there was any.
    pub fn latest_burst(&self) -> Option<Instant> {
        let state = self.end.lock();
        let seen = state.beside.slot.as_ref().and_then(|slot| slot.latest_burst());
        seen.or(state.beside.first_push)
    }

    /// The first frame that was later than the deadline of its slot, said once.
    pub fn take_first_late(&self) -> Option<LatePiece> {
        self.end.lock().beside.lags.take_first_late()
    }

    /// The lowest sequence that it can still give.
    pub fn first(&self) -> Option<u64> {
        self.end.lock().machine.first()
    }

    /// From now on it is transfer `number` of the session of `outbox`.
    pub fn attach(
        self: &Arc<Self>,
        number: TransferNumber,
        terms: Terms,
        outbox: Box<dyn Outbox>,
    ) -> Arc<dyn Transfer> {
        let (id, state) = self.end.attach(number, outbox);
        drop(state);
        let head = Head { number, terms, accounts: self.end.accounts.clone(), sends: true };
        Arc::new(ProduceLink { run: self.clone(), id, head, outlets: Outlets::default() })
    }

    /// Digests a frame, so that it can be given, also after it was tried in vain.
    ///
    /// # Errors
    /// `Usage` for one beyond the limits, or whose shape does not fit.
    pub fn prepare(&self, frame: NewFrame) -> Result<Prepared> {
        let mut watch = Stopwatch::start(&self.end.accounts);
        let payload_bytes = frame.payload.len() as u64;
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
        let usage =
            |error: thalweg_wire::DecodeError| Failure::new(FailureKind::Usage, PUSH, error.to_string());
        // Before it is digested.
        head.check().map_err(usage)?;
        head.digest = Digest(*blake3::hash(&frame.payload).as_bytes());
        watch.lap(Stage::Digest, payload_bytes);
        Ok(Prepared { made: Made { head, payload: frame.payload }, ready: Arc::default() })
    }

    /// Gives a frame, and returns its sequence. Waits for room at most so long.
    ///
    /// # Errors
    /// `Busy` without room in time, and for nothing else: it may be tried again. Else why it failed as a whole:
    /// `Connection` where the hub did not let it back in.
    pub fn push(&self, prepared: Prepared, timeout: Option<Duration>) -> Result<u64> {
        let Prepared { made: Made { head, payload }, ready } = prepared;
        let (payload_bytes, metadata_bytes) = (head.payload_bytes, head.metadata.len());
        let mut state = self.end.lock();
        let began = Instant::now();
        let ready = *ready.get_or_init(|| began);
        while !state.machine.has_room(payload_bytes, metadata_bytes) {
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) || state.failed.is_some() {
                break;
            }
            state = self.end.wait(state, left);
        }
        state.beside.blocked += began.elapsed();
        state.check()?;
        if !state.machine.has_room(payload_bytes, metadata_bytes) {
            let cause = "the hub takes no more at the moment: its consumers are slower";
            return Err(state.held_up(PUSH, cause));
        }
        let sequence = state.machine.push(head, payload)?;
        state.beside.first_push.get_or_insert(ready);
        if state.beside.slot.is_some() {
            state.beside.lags.read(ALL, sequence + 1, ready);
        }
        state.beside.frames += 1;
        state.beside.bytes += payload_bytes;
        self.pump(&mut state);
        let slot = state.beside.slot.clone();
        drop(state);
        if let Some(slot) = slot {
            slot.came(ready, Instant::now());
        }
        Ok(sequence)
    }

    /// A set has so many frames. Waits until the hub has the frames that were given before all but the last few dozens
    /// of such words, which would overtake them, but for no longer than [`DECLARE_WAIT`].
    ///
    /// # Errors
    /// `Usage`, or why it failed as a whole.
    pub fn declare(&self, set: u64, frames: u32) -> Result<()> {
        let mut state = self.end.lock();
        let until = Instant::now() + DECLARE_WAIT;
        while state.failed.is_none() && !state.machine.may_declare(set) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.end.wait(state, Some(left));
        }
        state.check()?;
        state.machine.declare(set, frames)?;
        self.pump(&mut state);
        Ok(())
    }

    /// No more of a set will come.
    ///
    /// # Errors
    /// `Usage` after the end, or why it failed as a whole.
    pub fn end_set(&self, set: u64) -> Result<()> {
        let mut state = self.end.lock();
        state.check()?;
        state.machine.end_set(set)?;
        self.pump(&mut state);
        Ok(())
    }

    /// The sequence of its next frame; 0 before the hub stood.
    pub fn next_sequence(&self) -> u64 {
        self.end.lock().machine.frames()
    }

    /// Waits until the hub has all that was pushed. More may follow.
    ///
    /// # Errors
    /// `Busy` if that took longer; why it failed as a whole.
    pub fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        let began = Instant::now();
        let mut state = self.end.lock();
        loop {
            state.check()?;
            if state.machine.waiting().0 == 0 {
                return Ok(());
            }
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(state.held_up(FINISH, "the hub has not everything yet"));
            }
            state = self.end.wait(state, left);
        }
    }

    /// Waits until the hub holds all that was made under this name before, as the level wants it. To be asked before
    /// the first push.
    ///
    /// # Errors
    /// `Busy` if that took longer; `Connection` if the link was lost meanwhile, for the next hub may not have it; why
    /// it failed as a whole.
    pub fn wait_for_earlier(&self, timeout: Option<Duration>) -> Result<()> {
        let began = Instant::now();
        let mut state = self.end.lock();
        loop {
            state.check()?;
            if state.outages > 0 {
                let cause = "the link was lost before the hub had written what it has of this name";
                return Err(Failure::new(FailureKind::Connection, GO_ON, cause));
            }
            if state.machine.has_earlier() {
                return Ok(());
            }
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(state.held_up(GO_ON, "the hub has not written yet what it has of this name"));
            }
            state = self.end.wait(state, left);
        }
    }

    /// Says that no more will come, and waits until the hub has everything.
    ///
    /// # Errors
    /// `Busy` if that took longer, and for nothing else; why it failed as a whole, as [`ProduceRun::push`].
    pub fn finish(&self, timeout: Option<Duration>) -> Result<ProducerReport> {
        let began = Instant::now();
        let mut state = self.end.lock();
        state.machine.finish();
        self.pump(&mut state);
        loop {
            if state.machine.is_finished() {
                state.is_over = true;
                break;
            }
            state.check()?;
            let left = timeout.map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(state.held_up(FINISH, "the hub has not everything yet"));
            }
            state = self.end.wait(state, left);
        }
        state.say(FramesMessage::Leave);
        let frames = state.machine.frames();
        drop(state);
        Ok(ProducerReport { producer: self.producer.to_string(), frames, figures: self.figures() })
    }

    /// Ends at once.
    pub fn abort(&self) {
        let mut state = self.end.lock();
        if state.is_over {
            return;
        }
        state.is_over = true;
        let failure = Failure::new(FailureKind::Stopped, "push frames", "the producer was ended");
        state.say_any(TransferMessage::Abort(failure.clone()));
        state.failed.get_or_insert(failure);
        drop(state);
        self.end.notify();
    }

    /// It cannot go on.
    pub fn fail(&self, failure: Failure) {
        self.end.fail(failure);
    }

    /// Whether nobody needs a link any more.
    pub fn is_over(&self) -> bool {
        self.end.is_over()
    }

    /// Whether the hub stood already.
    pub fn is_standing(&self) -> bool {
        self.end.lock().machine.epoch().is_some()
    }

    /// Figures so far.
    pub fn figures(&self) -> SenderFigures {
        let state = self.end.lock();
        let (waiting, waiting_bytes) = state.machine.waiting();
        SenderFigures {
            frames: state.beside.frames,
            bytes: state.beside.bytes,
            waiting,
            waiting_bytes,
            again: state.machine.again(),
            blocked_ns: u64::try_from(state.beside.blocked.as_nanos()).unwrap_or(u64::MAX),
            outages: state.outages,
            clock: state.clock_offset(),
        }
    }

    fn pump(&self, state: &mut State<Producer, Counts>) {
        self.end.pump(state);
        state.work();
    }
}

/// Of a hub that tries again until it can; `why` in its words.
pub(super) fn cannot_write(why: &str) -> String {
    format!("the hub takes no more at the moment: it cannot write its log ({})", Sentence(why))
}

impl State<Producer, Counts> {
    /// It may be tried again: `cause`, unless the hub said why.
    fn held_up(&self, operation: &str, cause: &str) -> Failure {
        match &self.beside.trouble {
            Some(why) => {
                Failure::new(FailureKind::Busy, WRITE_LOG, cannot_write(why)).because(Reason::LogNotWritten)
            }
            None => Failure::new(FailureKind::Busy, operation, cause).because(Reason::ConsumersSlow),
        }
    }

    /// Why it failed for good, if it did. A hub that is `Busy` when a producer comes back has no more of it than one
    /// that cannot be reached; and `Busy` is what who waits for room is told, and goes on.
    fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(failure) if failure.kind == FailureKind::Busy => {
                Err(Failure { kind: FailureKind::Connection, ..failure.clone() })
            }
            Some(failure) => Err(failure.clone()),
        }
    }
}

/// The producer in one session.
struct ProduceLink {
    run: Arc<ProduceRun>,
    id: u64,
    head: Head,
    outlets: Outlets,
}

impl ProduceLink {
    /// Bytes of frames that the hub took.
    fn moved_bytes(&self) -> u64 {
        self.run.end.lock().beside.taken_bytes
    }

    /// Whether something waits for the hub's word.
    fn awaits_peer(&self) -> bool {
        self.run.end.current(self.id).is_some_and(|state| state.machine.waiting().0 > 0 && !state.is_over)
    }

    /// Whether it sends in this session, and there is more to come.
    fn stands(&self) -> bool {
        self.run.end.current(self.id).is_some() && !self.run.is_over()
    }

    /// Waits until the next bytes of a frame may go, of which `sent` went before; false if the stream is gone
    /// before that.
    fn wait_for_slot(&self, outlet: &dyn Outlet, sequence: u64, sent: usize, bytes: usize) -> bool {
        let slot = self.run.end.current(self.id).and_then(|state| state.beside.slot.clone());
        let Some(slot) = slot else { return true };
        let mut watch = Stopwatch::start(&self.run.end.accounts);
        let goes = slot.wait(bytes as u64, || self.stands() && !outlet.is_over());
        if !goes && outlet.is_over() {
            return false;
        }
        watch.lap_out(Stage::Pace, bytes as u64);
        if sent == 0 {
            self.run.end.lock().beside.lags.sent(ALL, sequence + 1, Instant::now());
        }
        true
    }
}

impl Transfer for ProduceLink {
    fn terms(&self) -> &Terms {
        &self.head.terms
    }

    fn sends(&self) -> bool {
        self.head.sends
    }

    fn crossed(&self) -> Crossed {
        self.head.crossed(self.moved_bytes())
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        add_moved(heartbeat, self.moved_bytes(), false);
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        // Consumers may take their time; a peer that is silent is another matter.
        let is_excused = peer.heartbeat.waiting_for == Some(WaitingFor::Consumer);
        peer.is_silent || (self.awaits_peer() && !is_excused)
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        let Some(mut state) = self.run.end.current(self.id) else { return Ok(()) };
        if let Some(message) = self.run.end.hear(&mut state, message)? {
            let before = state.machine.waiting().1;
            state.machine.hear(message)?;
            let taken = before.saturating_sub(state.machine.waiting().1);
            state.beside.taken_bytes += taken;
            let has = state.machine.frames() - state.machine.waiting().0;
            state.beside.lags.marked(ALL, has, Instant::now());
            state.ask_first();
        }
        self.run.pump(&mut state);
        Ok(())
    }

    fn link_up(&self) {
        if let Some(mut state) = self.run.end.current(self.id) {
            // The hub stands anew.
            state.machine.unlink();
            state.outages += 1;
        }
    }

    fn detach(&self) {
        self.run.end.detach(self.id);
    }

    fn tick(&self) {
        if let Some(mut state) = self.run.end.current(self.id) {
            state.ask();
        }
    }

    fn stream_lost(&self, stream: u16) {
        self.outlets.lost(stream);
        if let Some(mut state) = self.run.end.current(self.id) {
            state.machine.stream_lost(stream);
        }
    }

    fn work(&self, stream: u16, buffer: &mut FrameBuffer, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let Some(epoch) = self.run.end.current(self.id).map(|state| state.machine.epoch()) else {
            return Ok(Did::Over);
        };
        let sink = (buffer, outlet, self.head.terms.segment_bytes as usize);
        let next = |outlet: &dyn Outlet| {
            let state = self.run.end.current(self.id).filter(|_| !outlet.is_over());
            let made = state.and_then(|mut state| state.machine.next(stream));
            let Some((epoch, made)) = made else { return Ok(None) };
            Going::frame(epoch, made.head.sequence, &made.head, made.payload.clone()).map(Some)
        };
        let pass = |outlet: &dyn Outlet, sequence: u64, sent: usize, bytes: usize| {
            self.wait_for_slot(outlet, sequence, sent, bytes)
        };
        let asks = (next, pass, || self.stands());
        self.outlets.work(stream, self.head.number, epoch, sink, &self.head.accounts, asks)
    }

    fn take(&self, _: u64, _: &Inner, _: &[u8], _: &Reception) -> Result<()> {
        Err(Failure::new(FailureKind::Protocol, "receive", "a hub sends no frames to a producer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_does_not_let_a_producer_back_in_ends_it_and_is_not_waited_for() {
        let window = Window { bytes: 1 << 20, items: 4 };
        let run = ProduceRun::new(ProducerId::new("cam").unwrap(), window);
        let made = || run.prepare(NewFrame { payload: vec![1; 10].into(), ..NewFrame::default() }).unwrap();
        let short = Some(Duration::from_millis(1));
        // No hub yet: that may pass.
        assert_eq!(run.push(made(), short).unwrap_err().kind, FailureKind::Busy);
        assert_eq!(run.finish(short).unwrap_err().kind, FailureKind::Busy);
        let why = Failure::new(FailureKind::Busy, "get a window of the hub", "others have it");
        run.fail(why.clone());
        let over = Failure { kind: FailureKind::Connection, ..why };
        assert_eq!(run.push(made(), None).unwrap_err(), over);
        assert_eq!(run.declare(1, 1).unwrap_err(), over);
        assert_eq!(run.finish(None).unwrap_err(), over);
    }

    /// Else what a killed hub had in memory only would be missing though everything behind it is durable.
    #[test]
    fn who_goes_on_waits_until_the_hub_holds_what_it_took_before_and_does_not_believe_another_hub() {
        let short = Some(Duration::from_millis(1));
        for is_cut in [false, true] {
            let run = ProduceRun::new(ProducerId::new("cam").unwrap(), Window { bytes: 1 << 20, items: 4 });
            let hear = |message| run.end.lock().machine.hear(message).unwrap();
            assert_eq!(run.wait_for_earlier(short).unwrap_err().kind, FailureKind::Busy);
            hear(FramesMessage::Stand { epoch: 1, next: 5 });
            hear(FramesMessage::Taken { next: 3 });
            assert_eq!(run.wait_for_earlier(short).unwrap_err().kind, FailureKind::Busy);
            if is_cut {
                run.end.lock().outages += 1;
            }
            hear(FramesMessage::Taken { next: 5 });
            let waited = run.wait_for_earlier(short).map_err(|failure| failure.kind);
            assert_eq!(waited, if is_cut { Err(FailureKind::Connection) } else { Ok(()) });
        }
    }

    #[test]
    fn a_frame_that_found_no_room_is_as_late_as_its_first_try_says() {
        let run = ProduceRun::new(ProducerId::new("cam").unwrap(), Window { bytes: 1 << 20, items: 4 });
        run.set_slot(Arc::new(SlotGate::new()), Duration::from_millis(50));
        let frame = NewFrame { payload: vec![1; 10].into(), ..NewFrame::default() };
        let (made, each) = (run.prepare(frame).unwrap(), Duration::from_millis(20));
        for _ in 0..4 {
            assert_eq!(run.push(made.clone(), Some(each)).unwrap_err().kind, FailureKind::Busy);
        }
        // The hub is there, and has it.
        run.end.lock().machine.hear(FramesMessage::Stand { epoch: 1, next: 0 }).unwrap();
        assert_eq!(run.push(made, None).unwrap(), 0);
        let mut state = run.end.lock();
        state.beside.lags.marked(ALL, 1, Instant::now());
        let lag = state.beside.lags.so_far();
        assert!(lag.worst >= 4 * each, "{lag:?}");
        assert_eq!((lag.pieces, lag.late), (1, 1));
        assert!(state.beside.first_push.is_some_and(|first| first.elapsed() >= lag.worst));
    }

    #[test]
    fn who_waits_for_a_hub_whose_disk_is_full_is_told_that_and_not_of_its_consumers() {
        let run = ProduceRun::new(ProducerId::new("cam").unwrap(), Window { bytes: 1 << 20, items: 4 });
        let made = || run.prepare(NewFrame { payload: vec![1; 10].into(), ..NewFrame::default() }).unwrap();
        let short = Some(Duration::from_millis(1));
        let why = || Some("write the spill log: No space left on device".to_owned());
        assert!(run.set_trouble(why()));
        assert!(!run.set_trouble(why()), "told once");
        for told in [run.push(made(), short).unwrap_err(), run.finish(short).unwrap_err()] {
            assert_eq!(told.kind, FailureKind::Busy);
            assert!(told.cause.contains("No space left on device"), "{told}");
        }
        assert!(run.set_trouble(None));
        let told = run.push(made(), short).unwrap_err();
        assert!(told.cause.contains("its consumers are slower"), "{told}");
    }

    #[test]
    fn why_a_hub_cannot_write_its_log_is_no_order_to_a_terminal() {
        let told = cannot_write("`a\\x0ab`: full\u{1b}]0;x\u{7}");
        assert!(told.ends_with("(`a\\x0ab`: full\\x1b]0;x\\x07)"), "{told}");
    }
}
