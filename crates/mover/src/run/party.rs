//! What every side of a transfer has, whatever it moves and whichever way: one lock around what it decides with, whom
//! it speaks to and how it ended; and what may be asked of it from outside.

use crate::failure::Failure;
use crate::mutex::lock;
use crate::run::end::End;
use crate::run::ledger::Ledger;
use crate::run::{Ended, LineSink, Outbox};
use crate::stage::Accounts;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::Digest;
use thalweg_wire::account::{SideAccounts, StreamAccount};
use thalweg_wire::message::{Terms, TransferMessage, TransferNumber, WaitingFor};
use thalweg_wire::receipt::Signed;

/// A side of a transfer at work: a sender or a receiver, of files or of flows.
pub trait Party {
    /// What it decides with.
    type Machine;
    /// What else is behind its lock.
    type Beside;

    /// What it has like every other.
    fn common(&self) -> &Common<Self::Machine, Self::Beside>;

    /// Of a sender: entries whose digest is the receiver's word alone.
    fn unread(&self) -> u64 {
        0
    }

    /// Of a receiver: ends its threads and puts away what it received. A sender has nothing to put away.
    fn close(&self) {}

    /// Of a receiver: who waits for our last word hears why it does not come yet.
    fn tell_busy(&self, _what: Option<WaitingFor>) {}

    /// Our accounts as they are now.
    fn own_accounts(&self) -> SideAccounts {
        self.common().own_accounts()
    }

    /// Number in its session.
    fn number(&self) -> TransferNumber {
        self.common().lock().number
    }

    /// What both sides agreed on at the beginning.
    fn terms(&self) -> &Terms {
        &self.common().terms
    }

    /// Where its time goes.
    fn accounts(&self) -> &Accounts {
        &self.common().accounts
    }

    /// How it ended, if it has.
    fn ended(&self) -> Option<Ended> {
        self.common().lock().end.ended.clone()
    }

    /// Waits for the end, at most so long.
    fn wait(&self, patience: Duration) -> Option<Ended> {
        self.common().wait_for(patience, |state| state.end.ended.clone(), |_| false)
    }

    /// Root and number of entries of its receipt. `None` before the end, and the second time.
    fn take_root(&self) -> Option<(Digest, u64)> {
        self.common().lock().end.take_root()
    }

    /// The other side's signed statement, once it came; waits at most so long, not counting outages, and for some
    /// seconds if it `is_given_up`.
    fn peer_receipt(&self, patience: Duration, is_given_up: &dyn Fn() -> bool) -> Option<Signed> {
        let is_over = |end: &End| end.is_closed || end.is_unsigned || end.no_word.is_some();
        let look = |end: &End| end.peer_receipt.clone();
        let is_over = |state: &State<_, _>| is_over(&state.end);
        self.common().wait_for_word((patience, is_given_up), |state| look(&state.end), is_over)
    }

    /// Whether the other side has said its last word of a transfer that nobody signs; waits as
    /// [`Party::peer_receipt`] does.
    fn peer_is_done(&self, patience: Duration, is_given_up: &dyn Fn() -> bool) -> bool {
        let look = |end: &End| end.is_unsigned.then_some(());
        let is_over = |end: &End| end.is_closed || end.no_word.is_some();
        let is_over = |state: &State<_, _>| is_over(&state.end);
        self.common().wait_for_word((patience, is_given_up), |state| look(&state.end), is_over).is_some()
    }

    /// Why the other side's statement does not come any more, if that is known.
    fn why_no_statement(&self) -> Option<Failure> {
        self.common().lock().end.why_no_statement()
    }

    /// Says its last word to the other side, which hears it again with each link that takes the place of
    /// this one.
    fn say_last(&self, word: TransferMessage) {
        let mut state = self.common().lock();
        state.say(word.clone());
        state.end.last_word = Some(word);
    }

    /// The root that it stated to the other side, if it has, whatever came of it.
    fn stated_root(&self) -> Option<Digest> {
        let state = self.common().lock();
        match &state.end.last_word {
            Some(TransferMessage::Receipt(signed)) => Some(signed.statement.root),
            _ => None,
        }
    }

    /// The other side's accounts, as it told them last.
    fn peer_accounts(&self) -> SideAccounts {
        self.common().lock().end.peer_accounts.clone()
    }

    /// Says something of its own to the other side.
    fn say(&self, message: TransferMessage) {
        self.common().lock().say(message);
    }

    /// Tells the other side our accounts.
    fn tell_accounts(&self) {
        self.say(TransferMessage::Accounts(Box::new(self.own_accounts())));
    }
}

/// Between two looks whether the time of a wait for the peer's last word counts.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Who wakes so much later than it wanted stood still itself: it was stopped (Ctrl-Z, a debugger, a virtual machine
/// that moved), or the machine had no time for it.
pub(super) const STOOD_STILL: Duration = Duration::from_secs(1);
/// So long it does not count at most, whatever the peer says of itself.
const EXCUSED_MAX: Duration = Duration::from_secs(600);
/// So long it is waited for at most where somebody asked to stop: most often it is on its way.
const GIVEN_UP_MAX: Duration = Duration::from_secs(2);

/// See the module. `M` is what the side decides with, `B` what else it keeps behind the lock.
pub struct Common<M, B = ()> {
    pub(super) terms: Terms,
    pub(super) accounts: Accounts,
    ledger: Ledger,
    /// What earlier transfers had of the streams that stood at the beginning.
    streams_before: Vec<StreamAccount>,
    state: Mutex<State<M, B>>,
    changed: Condvar,
}

pub(super) struct State<M, B> {
    pub machine: M,
    pub end: End,
    /// Number in its session.
    pub number: TransferNumber,
    /// How often it was attached to a session: see [`Common::leave`].
    pub attachment: u64,
    /// None between two sessions.
    pub outbox: Option<Arc<dyn Outbox>>,
    /// Between two links: the next one may be in place before its peer may be told anything.
    is_mute: bool,
    pub beside: B,
}

impl<M, B> Common<M, B> {
    /// By these terms. `device` is the number of what the source or destination rests on. Nothing is said without an
    /// outbox.
    pub(super) fn new(
        terms: Terms,
        device: Option<u64>,
        (machine, beside): (M, B),
        (number, outbox): (TransferNumber, Option<Box<dyn Outbox>>),
    ) -> Self {
        let outbox: Option<Arc<dyn Outbox>> = outbox.map(Arc::from);
        let streams_before = outbox.as_ref().map(|outbox| outbox.streams()).unwrap_or_default();
        Common {
            terms,
            accounts: Accounts::default(),
            ledger: Ledger::begin(device),
            streams_before,
            state: Mutex::new(State {
                machine,
                end: End::new(),
                number,
                attachment: 0,
                outbox,
                is_mute: false,
                beside,
            }),
            changed: Condvar::new(),
        }
    }

    /// From now on it is transfer `number` of the session of `outbox`; `lines` hears the receipt, which begins anew.
    pub(super) fn attach(
        &self,
        number: TransferNumber,
        outbox: Box<dyn Outbox>,
        lines: Option<LineSink>,
    ) -> MutexGuard<'_, State<M, B>> {
        let mut state = self.lock();
        state.number = number;
        state.attachment += 1;
        state.outbox = Some(outbox.into());
        state.is_mute = false;
        state.end.restart(lines);
        state
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<M, B>> {
        lock(&self.state)
    }

    /// Wakes who waits for something of it.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Gives the lock away until something changed, at most so long.
    pub(super) fn wait_in<'a>(
        &'a self,
        state: MutexGuard<'a, State<M, B>>,
        at_most: Duration,
    ) -> MutexGuard<'a, State<M, B>> {
        self.changed.wait_timeout(state, at_most).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// Waits until there is what `look` looks for, at most so long; `None` if there is not, or if `is_over`.
    pub(super) fn wait_for<T>(
        &self,
        at_most: Duration,
        mut look: impl FnMut(&State<M, B>) -> Option<T>,
        is_over: impl Fn(&State<M, B>) -> bool,
    ) -> Option<T> {
        let waiting = |state: &mut State<M, B>| look(state).is_none() && !is_over(state);
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, waiting);
        look(&waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0)
    }

    /// The same, for the peer's last word: time does not count without a link, nor while the peer says that it puts
    /// away what it has; for [`EXCUSED_MAX`] in all, and not when it `is_given_up`.
    pub(super) fn wait_for_word<T>(
        &self,
        (at_most, is_given_up): (Duration, &dyn Fn() -> bool),
        mut look: impl FnMut(&State<M, B>) -> Option<T>,
        is_over: impl Fn(&State<M, B>) -> bool,
    ) -> Option<T> {
        let began = Instant::now();
        let mut left = at_most;
        let mut is_excused = false;
        loop {
            let since = Instant::now();
            // Without that little that is left would be waited for again and again.
            let step = if is_excused { LOOK_AGAIN } else { left.min(LOOK_AGAIN) };
            let word = self.wait_for(step, &mut look, &is_over);
            let state = self.lock();
            // One may have come since, maybe the last thing before the end.
            let word = word.or_else(|| look(&state));
            if word.is_some() || is_over(&state) {
                return word;
            }
            let outbox = state.outbox.clone();
            drop(state);
            let is_given_up = is_given_up();
            let may_excuse = !is_given_up && began.elapsed() < EXCUSED_MAX;
            let was_excused = is_excused;
            is_excused = may_excuse && outbox.is_some_and(|outbox| outbox.excuses_peer());
            if !was_excused && !is_excused {
                // While we stand still ourselves (Ctrl-Z) nobody keeps us waiting.
                left = left.saturating_sub(since.elapsed().min(step + STOOD_STILL));
            }
            if is_given_up {
                left = left.min(GIVEN_UP_MAX);
            }
            if left.is_zero() {
                return None;
            }
        }
    }

    /// Ends the transfer from the side that sends.
    pub(super) fn abort(&self, failure: Failure) {
        let mut state = self.lock();
        state.say(TransferMessage::Abort(failure.clone()));
        state.end.come(Ended::Failed(failure));
        state.end.is_closed = true;
        state.work();
        drop(state);
        self.notify();
    }

    /// The session ends, for this reason: nobody waits for the peer's last word any more.
    pub(super) fn cut_off(&self, why: &Failure) {
        self.lock().end.no_word.get_or_insert_with(|| why.clone());
        self.notify();
    }

    /// The session that it had this [`State::attachment`] to ends, for this reason: nothing is said there any more, and
    /// nobody waits for the peer's last word. `None` if it goes on in another one by now: who ends the one may be held
    /// up for longer than it takes to begin the next.
    pub(super) fn leave(&self, attachment: u64, why: &Failure) -> Option<MutexGuard<'_, State<M, B>>> {
        let mut state = self.lock();
        if state.attachment != attachment {
            return None;
        }
        state.outbox = None;
        state.end.no_word.get_or_insert_with(|| why.clone());
        self.notify();
        Some(state)
    }

    /// The link is lost: what is said until [`State::begin_to_speak`] is lost with it, even where another is in place
    /// by then. That is told everything anew, and twice would be a breach.
    pub(super) fn fall_silent(&self) -> MutexGuard<'_, State<M, B>> {
        let mut state = self.lock();
        state.is_mute = true;
        state
    }

    /// Our last word, once it was said, or why it failed.
    pub(super) fn last_word(&self) -> Option<TransferMessage> {
        self.lock().end.said_last()
    }

    /// The word that says why it failed, if it has.
    pub(super) fn why_failed(&self) -> Option<TransferMessage> {
        self.lock().end.why_failed()
    }

    /// Closes the side that receives: whether what it received is whole. `None` the second time.
    pub(super) fn close(&self) -> Option<bool> {
        let success = self.lock().end.close();
        self.notify();
        success
    }

    /// Our accounts as they are now.
    pub(super) fn own_accounts(&self) -> SideAccounts {
        let (outbox, number) = {
            let state = self.lock();
            (state.outbox.clone(), state.number)
        };
        let mut streams = outbox.as_ref().map(|outbox| outbox.streams()).unwrap_or_default();
        streams.iter_mut().for_each(|stream| since(stream, &self.streams_before));
        let limit = outbox.and_then(|outbox| outbox.limit(number));
        SideAccounts { limit, ..self.ledger.side(&self.accounts, streams) }
    }
}

/// Bytes that may wait for the peer before what is said in bulk waits too: far below what ends the link.
const QUEUE_BYTES_PACED: usize = 4 << 20;

impl<M, B> State<M, B> {
    /// Whether the peer is to take some of what was said before much more is.
    pub fn is_backed_up(&self) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| outbox.queued_bytes() > QUEUE_BYTES_PACED)
    }

    /// A link stands: what is said from now on is for that.
    pub fn begin_to_speak(&mut self) {
        self.is_mute = false;
    }

    /// Says something to the other side, if there is a session with a link. With the lock held, so that what is said
    /// keeps its order.
    pub fn say(&self, message: TransferMessage) {
        if let Some(outbox) = self.outbox.as_ref().filter(|_| !self.is_mute) {
            outbox.say(self.number, message);
        }
    }

    /// Says again what was said last, which may be lost with the link that was before: its last word, if it has said
    /// one, or why it failed. A peer for which it is over ignores the second time.
    pub fn say_last_again(&self) {
        if let Some(word) = self.end.said_last() {
            self.say(word);
        }
    }

    /// There may be new work for the streams.
    pub fn work(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.work();
        }
    }

    /// The same, also for those that stood by.
    pub fn work_for_all(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.work_for_all();
        }
    }
}

/// Takes from a stream's totals what it had done before; one that came in the place of another begins anew.
fn since(stream: &mut StreamAccount, before: &[StreamAccount]) {
    let is_same = |then: &&StreamAccount| {
        then.stream == stream.stream
            && then.acked_bytes <= stream.acked_bytes
            && then.busy_nanos <= stream.busy_nanos
            && then.sent_bytes <= stream.sent_bytes
    };
    let Some(then) = before.iter().find(is_same) else { return };
    stream.acked_bytes -= then.acked_bytes;
    stream.busy_nanos -= then.busy_nanos;
    stream.sent_bytes -= then.sent_bytes;
    stream.rwnd_limited_nanos = stream.rwnd_limited_nanos.saturating_sub(then.rwnd_limited_nanos);
    stream.sndbuf_limited_nanos = stream.sndbuf_limited_nanos.saturating_sub(then.sndbuf_limited_nanos);
    stream.retransmitted_bytes = stream.retransmitted_bytes.saturating_sub(then.retransmitted_bytes);
    stream.overflow_bytes = stream.overflow_bytes.saturating_sub(then.overflow_bytes);
    stream.queued_nanos = stream.queued_nanos.saturating_sub(then.queued_nanos);
}

/// Waits for threads that were told to stop, but not for who waits.
pub(super) fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    let threads = std::mem::take(&mut *lock(threads));
    for thread in threads {
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_a_stream_carried_for_an_earlier_transfer_is_not_this_ones() {
        let of = |stream, acked_bytes, busy_nanos| StreamAccount {
            stream,
            acked_bytes,
            sent_bytes: acked_bytes + 10,
            busy_nanos,
            rwnd_limited_nanos: busy_nanos / 2,
            ..StreamAccount::default()
        };
        let before = [of(0, 1000, 100), of(1, 1000, 100)];
        let left = |mut stream: StreamAccount| {
            since(&mut stream, &before);
            (stream.acked_bytes, stream.sent_bytes, stream.busy_nanos, stream.rwnd_limited_nanos)
        };
        assert_eq!(left(of(0, 1500, 300)), (500, 500, 200, 100));
        // In the place of one that broke, and one that is new.
        assert_eq!(left(of(1, 400, 40)), (400, 410, 40, 20));
        assert_eq!(left(of(2, 400, 40)), (400, 410, 40, 20));
    }

    #[test]
    fn a_word_that_comes_as_the_wait_ends_is_heard() {
        let terms = Terms::of(1 << 20, 1 << 20);
        let common: Common<()> = Common::new(terms, None, ((), ()), (TransferNumber(1), None));
        // The last look of the wait finds nothing, the next one does.
        let looks = Cell::new(0);
        let look = |_: &State<(), ()>| {
            looks.set(looks.get() + 1);
            (looks.get() == 2).then_some(())
        };
        let is_over = |_: &State<(), ()>| {
            looks.set(0);
            false
        };
        assert!(common.wait_for_word((Duration::ZERO, &|| false), look, is_over).is_some());
    }

    #[test]
    fn what_a_queue_lost_in_an_earlier_transfer_is_not_this_ones() {
        let of = |overflow_bytes, queued_nanos| StreamAccount {
            overflow_bytes,
            queued_nanos,
            ..StreamAccount::default()
        };
        let mut stream = of(5000, 700);
        since(&mut stream, &[of(3000, 300)]);
        assert_eq!((stream.overflow_bytes, stream.queued_nanos), (2000, 400));
    }
}
