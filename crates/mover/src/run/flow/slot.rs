//! A slot as its producer has it: taken of the server, kept as long as there is something to send, and obeyed.
//!
//! 1. It is taken before the transfer is opened: what cannot be promised is refused before anything is sent.
//! 2. Where the promise needs bursts that are ready a period apart, nothing goes before the first of them is: then the
//!    windows are moved to it, or it is refused.
//! 3. It is asked for again every few seconds, which keeps the lease, and tells when the next window opens.
//! 4. Bursts that come later or earlier than their windows, one after the other, have these moved to them
//!    ([`crate::admission::drift`]). Where there is no room the old ones stay, and a person is told at once.
//!
//! **Clocks.** The server says how long it is, after it heard the question, until a window opens. Bytes that are sent
//! that long after the producer *asked* are there when the window opens: they take the same way as the question did. So
//! no clocks are compared, and the way back does not matter. What counts is the quickest of the last answers; those
//! before it are forgotten, because clocks drift.

use super::lags::LatePiece;
use super::sender::FlowSend;
use crate::admission::drift::{Drift, Off};
use crate::admission::gate::{self, Gate, ramp};
use crate::admission::{Margin, SlotAsked, SlotHeld};
use crate::endpoint::feed::Taker;
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use crate::plan::Plan;
use crate::run::client::Client;
use crate::run::party::Party;
use crate::run::thread;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{LeaseId, Question, Reply, Rhythm, Slot, SlotAsk, SlotTable, SlotWish};

/// Between two questions: a third of the shortest lease that a server gives.
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// Answers of which the quickest counts: a drift of 50 ppm is 1 ms in the time that they span.
const ANSWERS: usize = 4;
/// What threads and queues of a machine that is not idle make of a time, at least.
const GUARD_MIN: Duration = Duration::from_millis(5);
/// How often who waits looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Who sends in a slot.
pub trait InSlot: Send + Sync {
    /// When the first byte was ready; waits for it, at most so long.
    fn first_ready(&self, patience: Duration) -> Option<Instant>;
    /// Whether nothing more will be sent.
    fn is_over(&self) -> bool;
    /// The first piece that was later than its deadline, said once.
    fn first_late(&self) -> Option<LatePiece>;
    /// Something that a person may want to know.
    fn tell(&self, text: String);
}

impl InSlot for FlowSend {
    fn first_ready(&self, patience: Duration) -> Option<Instant> {
        self.first_read(patience)
    }

    fn is_over(&self) -> bool {
        self.ended().is_some()
    }

    fn first_late(&self) -> Option<LatePiece> {
        self.take_first_late()
    }

    fn tell(&self, text: String) {
        self.note(text);
    }
}

/// When a server says that it has what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// When it is durable: marks are so far apart.
    Durable(Duration),
    /// As soon as it is in memory.
    Held,
}

/// Holds pieces back until their window. Closed until it is opened. Hears when bytes become ready, and says when
/// windows are to be moved to them.
#[derive(Debug)]
pub struct SlotGate {
    began: Instant,
    held: Mutex<GateState>,
    /// Windows are elsewhere.
    changed: Condvar,
    /// They are to be, or it is over.
    news: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    gate: Option<Gate>,
    /// The slot that its windows are of.
    lease: LeaseId,
    /// How often windows were put elsewhere.
    moves: u32,
    drift: Option<Drift>,
    /// Since when who reads waits, as long as nobody watches.
    waits_since: Option<u64>,
    off: Option<Off>,
    is_over: bool,
}

impl SlotGate {
    pub(in crate::run) fn new() -> SlotGate {
        let (changed, news) = (Condvar::new(), Condvar::new());
        SlotGate { began: Instant::now(), held: Mutex::default(), changed, news }
    }

    /// Waits until so many bytes may go, and says whether they may. `go_on` is asked between pauses; false ends
    /// the wait. What waits when windows are moved waits for the new ones.
    pub fn wait(&self, bytes: u64, go_on: impl Fn() -> bool) -> bool {
        let mut passed: Option<(u32, u64)> = None;
        loop {
            let mut held = self.lock();
            let moves = held.moves;
            if passed.is_none_or(|(at, _)| at != moves) {
                passed = held.gate.as_mut().map(|gate| (moves, gate.pass(self.now(), bytes)));
            }
            drop(held);
            let left = || match passed {
                Some((_, goes)) => Duration::from_nanos(goes.saturating_sub(self.now())).min(LOOK_AGAIN),
                None => LOOK_AGAIN,
            };
            if left().is_zero() {
                return true;
            }
            if !go_on() {
                return false;
            }
            let is_same = |held: &mut GateState| held.moves == moves;
            let waited = self.changed.wait_timeout_while(self.lock(), left(), is_same);
            drop(waited.unwrap_or_else(|p| p.into_inner()));
        }
    }

    /// Bytes were ready at `ready`; since `free` who reads waits for more.
    pub fn came(&self, ready: Instant, free: Instant) {
        let mut held = self.lock();
        let (ready, free) = (self.at(ready), self.at(free));
        let GateState { gate: Some(gate), drift: Some(drift), .. } = &mut *held else {
            held.waits_since = Some(free);
            return;
        };
        if let Some(off) = drift.came(ready, free, gate.next_opening(ready)) {
            held.off = Some(off);
            self.news.notify_all();
        }
    }

    /// When the last burst was ready, if it was seen.
    pub fn latest_burst(&self) -> Option<Instant> {
        let latest = self.lock().drift.as_ref().and_then(Drift::latest);
        latest.map(|latest| self.began + Duration::from_nanos(latest))
    }

    /// When the next window opens; `None` while it is closed.
    pub fn next_opening(&self) -> Option<Instant> {
        let held = self.lock();
        held.gate.as_ref().map(|gate| self.began + Duration::from_nanos(gate.next_opening(self.now())))
    }

    /// The rate within a window, in bytes a second; `None` while it is closed.
    pub fn bytes_per_s(&self) -> Option<u64> {
        self.lock().gate.as_ref().map(Gate::bytes_per_s)
    }

    /// What waits for windows that stand at bursts is let through from `opens` on: they were placed at the one that was
    /// ready at `ready`.
    pub(super) fn place(&self, slot: &Slot, guard_micros: u64, opens: Instant, ready: Option<Instant>) {
        let opens = self.at(opens);
        let (period, length) = (slot.period_micros * 1000, slot.length_micros * 1000);
        let mut held = self.lock();
        let now = self.now();
        match &mut held.gate {
            Some(gate) => gate.move_to(opens, now),
            None => held.gate = Some(Gate::new(opens, period, length, slot.bytes_per_s, guard_micros * 1000)),
        }
        if let Some(ready) = ready {
            let waits_since = held.waits_since.take();
            let drift =
                held.drift.get_or_insert_with(|| Drift::new(period, guard_micros * 1000, waits_since));
            drift.placed(self.at_in(ready, period), opens, now);
        }
        (held.lease, held.moves) = (slot.lease, held.moves + 1);
        drop(held);
        self.changed.notify_all();
    }

    /// By what was heard since, a window opens at `opens`.
    fn correct(&self, opens: Instant) {
        let opens = self.at(opens);
        if let Some(gate) = &mut self.lock().gate {
            gate.set_opening(opens);
        }
    }

    /// Waits until windows are to be moved, at most so long.
    fn wait_for_news(&self, at_most: Duration) -> Option<(Off, Instant)> {
        let nothing = |held: &mut GateState| held.off.is_none() && !held.is_over;
        let waited = self.news.wait_timeout_while(self.lock(), at_most, nothing);
        let off = waited.unwrap_or_else(|p| p.into_inner()).0.off.take();
        off.map(|off| (off, self.began + Duration::from_nanos(off.ready)))
    }

    /// Windows that were to be moved were not.
    fn answer(&self, is_refused: bool) {
        let mut held = self.lock();
        let now = self.now();
        match &mut held.drift {
            Some(drift) if is_refused => drift.refused(now),
            Some(drift) => drift.put_off(),
            None => {}
        }
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.news.notify_all();
    }

    fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }

    fn at(&self, time: Instant) -> u64 {
        nanos(time.saturating_duration_since(self.began))
    }

    /// As [`SlotGate::at`]; of what was before there was a gate, the first time that it would be again.
    fn at_in(&self, time: Instant, period: u64) -> u64 {
        match nanos(self.began.saturating_duration_since(time)) {
            0 => self.at(time),
            before => (period - before % period) % period,
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        lock(&self.held)
    }
}

/// A slot that was taken. It is left when the value goes.
pub struct TakenSlot {
    inner: Arc<Inner>,
    keeper: Option<JoinHandle<()>>,
    /// Who sends in it.
    run: Option<Arc<dyn InSlot>>,
}

struct Inner {
    client: Arc<Client>,
    asked: SlotAsked,
    word: Word,
    /// What is not the calendar's to promise.
    margin: Margin,
    wish: SlotWish,
    gate: Arc<SlotGate>,
    state: Mutex<State>,
}

struct State {
    slot: Slot,
    /// Of the last answers: how long each took, and when a window opens by it.
    openings: VecDeque<(Duration, Instant)>,
    failure: Option<Failure>,
    /// How often its windows were moved since the first burst.
    moves: u32,
}

impl TakenSlot {
    /// Asks for a slot. `word`: when the server says that it has what came; `stall`: after so long without a word a
    /// link counts as stalled; `ready`: when the first burst was, if it was. Else the windows are moved when it is.
    ///
    /// # Errors
    /// `Busy` with the reason if it cannot be promised, `Unsupported` by a server without slots, `Usage` for a deadline
    /// that leaves nothing, and for bursts so far apart that the link would count as stalled; `Stopped` if it
    /// `is_given_up` meanwhile, which is looked at some times a second.
    pub fn take(
        client: &Arc<Client>,
        asked: SlotAsked,
        (word, stall): (Word, Duration),
        ready: Option<Instant>,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<TakenSlot> {
        if let Rhythm::Bursts { period_micros, .. } = asked.rhythm
            && Duration::from_micros(period_micros) * 2 > stall
        {
            let cause =
                "between two bursts there is more than half of what counts as a stall (--stall-timeout)";
            return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
        }
        client.wait_for_link(is_given_up);
        let table = |reply: Reply| match reply {
            Reply::Slots(table) => Some(table),
            _ => None,
        };
        let (table, _, took) = ask_one(client, SlotAsk::All, table, is_given_up)?;
        let way_back = client.rtt.max(took);
        let (mark, settle) = match word {
            Word::Held => (Duration::ZERO, Duration::ZERO),
            // What comes while a mark is made waits for the next.
            Word::Durable(every) => {
                let settle = Duration::from_micros(table.settle_micros);
                (every.max(settle), settle)
            }
        };
        let late = gate::OVERRUN;
        let margin = Margin { mark, settle, way_back, late, guard: Duration::ZERO };
        let wish = wish(&asked, &margin, client.rtt, &table)?;
        let margin = Margin { guard: Duration::from_micros(wish.guard_micros), ..margin };
        let inner = Inner {
            client: client.clone(),
            asked,
            word,
            margin,
            wish,
            gate: Arc::new(SlotGate::new()),
            state: Mutex::new(State { slot: NO_SLOT, openings: VecDeque::new(), failure: None, moves: 0 }),
        };
        inner.take(None, ready, is_given_up)?;
        let is_ready = ready.is_some() || inner.state().slot.is_any_time;
        if is_ready {
            inner.open(ready);
        }
        Ok(TakenSlot { inner: Arc::new(inner), keeper: None, run: None })
    }

    /// Keeps it from now on, on a thread of its own, and moves it to the first burst of `run` if need be. If that
    /// thread panics, the slot is lost.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn keep(&mut self, run: Arc<dyn InSlot>) -> Result<()> {
        let (inner, losing) = (self.inner.clone(), self.inner.clone());
        self.run = Some(run.clone());
        let on_panic = move |failure| {
            losing.state().failure = Some(failure);
        };
        self.keeper = Some(thread::guarded("slot", on_panic, move || inner.keep(&*run))?);
        Ok(())
    }

    /// What holds pieces back.
    pub fn gate(&self) -> Arc<SlotGate> {
        self.inner.gate.clone()
    }

    /// What is promised now.
    pub fn held(&self) -> SlotHeld {
        let state = self.inner.state();
        let slot = state.slot;
        let margin = self.inner.margin;
        let worst = Duration::from_micros(slot.worst_micros) + margin.beside_window();
        let opens = self.inner.gate.next_opening().unwrap_or_else(|| opening(&state.openings));
        let moves = state.moves;
        SlotHeld { slot, deadline: self.inner.asked.deadline, worst, margin, opens, moves }
    }

    /// Tells of the first piece that is late, when it is. Called now and then.
    pub fn look_for_late(&self) {
        let Some(run) = &self.run else { return };
        let Some(late) = run.first_late() else { return };
        let (known, deadline) = (late.lag.as_secs_f64(), self.inner.asked.deadline.as_secs_f64());
        let has = match self.inner.word {
            Word::Held => "at the hub",
            Word::Durable(_) => "durable",
        };
        run.tell(format!(
            "a piece is late: it was known to be {has} {known:.3} s after it was ready, and is to be in {deadline:.3} s; \
            {:.3} s of these it waited here. How many are late is told at the end",
            late.until_sent.as_secs_f64()
        ));
    }

    /// What is promised, if that is not what was `told` last; nothing while the gate is closed, or windows are
    /// being moved.
    pub fn news(&self, told: &mut Option<SlotHeld>) -> Option<SlotHeld> {
        self.inner.gate.next_opening()?;
        let held = self.held();
        if self.inner.gate.lock().lease != held.slot.lease {
            return None;
        }
        let is_news = told.replace(held).is_none_or(|told| told.slot.lease != held.slot.lease);
        is_news.then_some(held)
    }

    /// What must be kept in memory here, so that nothing that is ready waits to be read: all that is not durable at
    /// once, or what the way carries until it is.
    pub fn buffer_bytes(&self) -> u64 {
        let held = self.held();
        let slot = &held.slot;
        let windows = held.worst.as_micros() / u128::from(slot.period_micros.max(1)) + 1;
        let all = u128::from(slot.bytes) * windows;
        let under_way = u128::from(slot.bytes_per_s) * held.margin.beside_window().as_micros() / 1_000_000;
        let piece = u128::from(crate::plan::NEAR_SEGMENT_BYTES);
        // The receiver begins a mark by a quarter of the buffer: while it is made the rest goes on.
        let bytes = all.min(under_way * 4 / 3) + 2 * piece;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Why it is lost, if it is.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.state().failure.clone()
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        self.inner.gate.end();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        let lease = self.inner.state().slot.lease;
        if self.inner.client.session.lost_since().is_none() {
            // Not waited for: without it the lease ends by time.
            drop(self.inner.client.ask(Question::Slot(SlotAsk::Leave(lease))));
        }
    }
}

impl Inner {
    fn take(
        &self,
        instead: Option<LeaseId>,
        ready: Option<Instant>,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut wish = self.wish;
        if let (Some(ready), Rhythm::Bursts { period_micros, .. }) = (ready, wish.rhythm) {
            wish.ready_ago_micros = micros(ready.elapsed() + self.client.rtt / 2) % period_micros;
        }
        let ask = SlotAsk::Take { wish, instead };
        let (slot, asked_at, took) = ask_one(&self.client, ask, slot_of, is_given_up)?;
        let mut state = self.state();
        state.openings.clear();
        state.heard(slot, asked_at, took);
        Ok(())
    }

    /// Keeps the slot until it is over: who ends it waits for no answer.
    fn keep(&self, run: &dyn InSlot) {
        if !self.state().slot.is_any_time && self.gate.next_opening().is_none() {
            let Some(ready) = self.first_burst(run) else { return };
            let lease = self.state().slot.lease;
            if let Err(failure) = self.take(Some(lease), Some(ready), &|| self.gate.is_over()) {
                if !self.gate.is_over() {
                    self.state().failure = Some(failure);
                }
                return;
            }
            self.open(Some(ready));
        }
        let mut heard = Instant::now();
        let mut told = Told::default();
        loop {
            let left = KEEP_EVERY.saturating_sub(heard.elapsed());
            let off = self.gate.wait_for_news(if left.is_zero() { RETRY } else { left });
            if self.gate.is_over() {
                return;
            }
            let slot = self.state().slot;
            let (lease, lasts) = (slot.lease, Duration::from_millis(slot.lease_millis.into()));
            let kept = match &off {
                Some((off, ready)) => self.follow(off, *ready, &mut told, run),
                None => self.keep_once(lease, &mut told, run),
            };
            match kept {
                Ok(true) => heard = Instant::now(),
                Ok(false) => {}
                // The link may come back; until the lease has ended the slot is ours.
                Err(failure) if failure.kind == FailureKind::Connection && heard.elapsed() < lasts => {}
                Err(_) if self.gate.is_over() => return,
                Err(failure) => {
                    let cause = format!("the slot is lost: {}", failure.cause);
                    self.state().failure = Some(Failure::new(FailureKind::Connection, "keep a slot", cause));
                    return;
                }
            }
        }
    }

    fn keep_once(&self, lease: LeaseId, told: &mut Told, run: &dyn InSlot) -> Result<bool> {
        let is_over = || self.gate.is_over();
        let (slot, asked_at, took) = ask_one(&self.client, SlotAsk::Keep(lease), slot_of, &is_over)?;
        let opens = {
            let mut state = self.state();
            state.heard(slot, asked_at, took);
            opening(&state.openings)
        };
        self.gate.correct(opens);
        told.look(&slot, self, run);
        Ok(true)
    }

    /// Has the windows moved to bursts that are elsewhere; whether they were.
    fn follow(&self, off: &Off, ready: Instant, told: &mut Told, run: &dyn InSlot) -> Result<bool> {
        let slot = self.state().slot;
        // The windows would stand so far behind the bursts: the next one serves better. Without a link too.
        let most = Duration::from_micros(slot.period_micros) / STALE;
        if ready.elapsed() > most || self.client.session.lost_since().is_some() {
            self.gate.answer(false);
            return Ok(false);
        }
        match self.take(Some(slot.lease), Some(ready), &|| self.gate.is_over()) {
            Ok(()) => {
                self.state().moves += 1;
                self.open(Some(ready));
                told.moved(off, &slot, run);
                Ok(true)
            }
            Err(failure) => {
                let is_refused = failure.kind == FailureKind::Busy;
                self.gate.answer(is_refused);
                if !is_refused {
                    return Err(failure);
                }
                told.not_moved(off, &failure.cause, (&slot, &self.margin), run);
                Ok(false)
            }
        }
    }

    /// When the first byte was read; `None` if it is over before.
    fn first_burst(&self, run: &dyn InSlot) -> Option<Instant> {
        loop {
            if let Some(ready) = run.first_ready(LOOK_AGAIN) {
                return Some(ready);
            }
            if self.gate.is_over() || run.is_over() {
                return None;
            }
        }
    }

    /// What was promised last stands; `ready`: when the burst was that it was placed at.
    fn open(&self, ready: Option<Instant>) {
        let (slot, opens) = {
            let state = self.state();
            (state.slot, opening(&state.openings))
        };
        let ready = ready.filter(|_| !slot.is_any_time);
        self.gate.place(&slot, self.wish.guard_micros, opens, ready);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// What the user was told of what the server said.
#[derive(Default)]
struct Told {
    is_slow: bool,
    is_over: bool,
    is_moved: bool,
    left_at: Option<Instant>,
}

impl Told {
    /// Once: a producer that drifts has its windows moved again and again.
    fn moved(&mut self, off: &Off, slot: &Slot, run: &dyn InSlot) {
        if std::mem::replace(&mut self.is_moved, true) {
            return;
        }
        run.tell(format!(
            "bursts come {} than their windows: these were moved to them, and will be again without a word. {}",
            off_by(off),
            apart(off, slot)
        ));
    }

    /// Seldom: where others have windows, bursts that drift come by again and again.
    fn not_moved(&mut self, off: &Off, why: &str, (slot, margin): (&Slot, &Margin), run: &dyn InSlot) {
        if self.left_at.is_some_and(|at| at.elapsed() < TOLD_APART) {
            return;
        }
        self.left_at = Some(Instant::now());
        let whole = Duration::from_micros(slot.period_micros + slot.length_micros) + margin.beside_window();
        run.tell(format!(
            "bursts come {} than their windows, and these cannot be moved to them: {why}. The promise holds only for bursts \
            a period apart. {}: ask for that period, or for a deadline of {:.3} s, which leaves a whole period to wait",
            off_by(off),
            apart(off, slot),
            whole.as_secs_f64()
        ));
    }

    fn look(&mut self, slot: &Slot, Inner { word, margin, .. }: &Inner, run: &dyn InSlot) {
        let settle = Duration::from_micros(slot.settle_micros);
        let is_slow = *word != Word::Held && settle > margin.settle + SETTLE_MORE;
        if is_slow && !std::mem::replace(&mut self.is_slow, true) {
            run.tell(format!(
                "making durable what arrived takes {:.3} s at the daemon now; the slot was promised with {:.3} s",
                settle.as_secs_f64(),
                margin.settle.as_secs_f64()
            ));
        }
        if slot.over_bytes > 0 && !std::mem::replace(&mut self.is_over, true) {
            run.tell(format!(
                "{} bytes came beyond what the slot is for: the daemon takes such only when nobody else has a window",
                slot.over_bytes
            ));
        }
    }
}

impl State {
    fn heard(&mut self, slot: Slot, asked_at: Instant, took: Duration) {
        self.slot = slot;
        self.openings.push_back((took, asked_at + Duration::from_micros(slot.opens_micros)));
        if self.openings.len() > ANSWERS {
            self.openings.pop_front();
        }
    }
}

fn off_by(off: &Off) -> String {
    let word = if off.is_late { "later" } else { "earlier" };
    format!("{:.1} ms {word}", off.by.as_secs_f64() * 1e3)
}

/// With as many digits as are known.
fn apart(off: &Off, slot: &Slot) -> String {
    let asked = Duration::from_micros(slot.period_micros);
    let digits = -off.period_to.as_secs_f64().max(1e-6).log10();
    let digits = digits.floor().max(3.0) as usize;
    let (seen, asked) = (off.period.as_secs_f64(), asked.as_secs_f64());
    format!("They are about {seen:.digits$} s apart, and {asked:.digits$} s were asked for")
}

/// Between two words about windows that could not be moved.
const TOLD_APART: Duration = Duration::from_secs(600);
/// Parts of a period: windows are moved to a burst only within the first of them.
const STALE: u32 = 8;
/// A disk that is slower by less is not worth a word.
const SETTLE_MORE: Duration = Duration::from_millis(10);
/// Without a link.
const RETRY: Duration = Duration::from_secs(1);

/// Pieces that a window has room for: a piece goes as a whole.
pub(crate) fn fit_pieces(plan: &mut Plan, window_bytes: u64) {
    let most = (window_bytes / 2).max(limits::SEGMENT_BYTES_MIN);
    let segment = u64::from(plan.segment_bytes.value).min(1 << most.ilog2());
    if segment != u64::from(plan.segment_bytes.value) {
        plan.segment_bytes.value = segment as u32;
        plan.segment_bytes.why = "a window of the slot has room for two of them".into();
    }
}

/// Stands until the first answer.
const NO_SLOT: Slot = Slot {
    lease: [0; 16],
    lease_millis: 0,
    period_micros: 1,
    length_micros: 1,
    opens_micros: 0,
    bytes: 0,
    bytes_per_s: 1,
    worst_micros: 0,
    is_any_time: false,
    settle_micros: 0,
    over_bytes: 0,
};

/// By the quickest answer.
fn opening(openings: &VecDeque<(Duration, Instant)>) -> Instant {
    openings.iter().min_by_key(|(took, _)| *took).map_or_else(Instant::now, |(_, opens)| *opens)
}

/// What to ask the server for: what is left of the deadline, and how late bytes may be on their way.
fn wish(asked: &SlotAsked, margin: &Margin, rtt: Duration, table: &SlotTable) -> Result<SlotWish> {
    let usage = |cause: String| Err(Failure::new(FailureKind::Usage, "take a slot", cause));
    let left = asked.deadline.checked_sub(margin.beside_window()).filter(|left| !left.is_zero());
    let Some(left) = left else {
        return usage(format!(
            "the deadline is {:.3} s, and until what arrived is durable and known to be takes up to {:.3} s: \
            {:.3} s to the next mark (of a stream: --mark-every), {:.3} s for the daemon's disk, {:.3} s for the way back",
            asked.deadline.as_secs_f64(),
            margin.beside_window().as_secs_f64(),
            margin.mark.as_secs_f64(),
            margin.settle.as_secs_f64(),
            margin.way_back.as_secs_f64()
        ));
    };
    if micros(asked.deadline) > limits::SLOT_DEADLINE_MICROS_MAX {
        return usage("a deadline of a slot is at most 10 minutes".to_owned());
    }
    let piece = Duration::from_secs_f64(limits::SEGMENT_BYTES_MIN as f64 / table.bytes_per_s.max(1) as f64);
    let mut guard = GUARD_MIN.max(rtt / 8);
    if rtt > NEAR && thalweg_sys::socket::slow_start_after_idle() {
        guard += ramp(rtt, table.bytes_per_s, SEGMENT_BYTES);
    }
    let rhythm = match asked.rhythm {
        Rhythm::Bursts { period_micros, bytes } => Rhythm::Bursts {
            period_micros,
            bytes: bytes.saturating_add((bytes / CATCH_UP).max(limits::SEGMENT_BYTES_MIN)),
        },
        Rhythm::Steady { bytes_per_s } => {
            // A piece goes as a whole.
            guard += piece;
            Rhythm::Steady { bytes_per_s: bytes_per_s.saturating_add(bytes_per_s / CATCH_UP) }
        }
    };
    Ok(SlotWish { rhythm, deadline_micros: micros(left), ready_ago_micros: 0, guard_micros: micros(guard) })
}

/// So much of a window is room to catch up: without, what missed its window once would be a period late for ever. At
/// least a piece, because a piece goes as a whole.
const CATCH_UP: u64 = 8;
/// Round trips below this are within a building: their windows are full at once.
const NEAR: Duration = Duration::from_millis(1);
/// Bytes in a segment of TCP over Ethernet.
const SEGMENT_BYTES: u64 = 1448;

/// One question with one answer: it, when it was asked, and how long it took.
fn ask_one<T>(
    client: &Client,
    ask: SlotAsk,
    of: impl Fn(Reply) -> Option<T>,
    is_given_up: &dyn Fn() -> bool,
) -> Result<(T, Instant, Duration)> {
    let asked_at = Instant::now();
    let mut found = None;
    let mut answers = client.ask(Question::Slot(ask))?;
    while let Some(reply) = answers.piece(is_given_up) {
        let took = asked_at.elapsed();
        found = found.or(of(reply?).map(|value| (value, asked_at, took)));
    }
    found.ok_or_else(|| match is_given_up() {
        true => Failure::new(FailureKind::Stopped, "ask for a slot", "stopped on request"),
        false => {
            let cause = "the server did not answer what was asked";
            Failure::new(FailureKind::Protocol, "ask for a slot", cause)
        }
    })
}

fn slot_of(reply: Reply) -> Option<Slot> {
    match reply {
        Reply::Slot(slot) => Some(slot),
        _ => None,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::LONG;
    use crate::run::client::tests::{link, server_without_a_link, without_a_link};

    #[test]
    fn who_is_stopped_waits_for_no_slot() {
        let (client, server) = (Arc::new(without_a_link()), server_without_a_link());
        link(&client, &server);
        let asked = SlotAsked { rhythm: Rhythm::Steady { bytes_per_s: 1 << 20 }, deadline: LONG };
        let taken = TakenSlot::take(&client, asked, (Word::Held, LONG), None, &|| true);
        assert_eq!(taken.map(drop).unwrap_err().kind, FailureKind::Stopped);
    }
}
