//! What the operator of a server lets all of its sessions move together, or all transfers of one of its exports, both
//! directions in one.
//!
//! [`Line`] decides when whose bytes go; here are the clock and the waiting. A session is a member with an
//! equal part, however many transfers and streams it has; of an export a transfer is one. What is sent waits before
//! it is sealed, a frame at a time. What is received waits before more of it is read from its socket, so that TCP
//! holds its sender back, whatever that one wants.
//!
//! Counted are payloads as they are sent and frames as they come. Not counted is what goes over control
//! connections: names, digests, acknowledgements, and what is read without a transfer.

use crate::admission::share::{Line, Member};
use crate::mutex::lock;
use crate::run::steer::Rate;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::account::LimitAccount;

/// Longest single pause: a stream looks up between two of them, and sees that the rate is another.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// What is taken from a socket at once takes so long at the rate, so that a stream shows a sign of life while
/// it waits; but no less than a few packets.
const PORTION: Duration = Duration::from_millis(10);
const PORTION_BYTES_MIN: usize = 16 << 10;
/// Which of two limits binds is told by waits of about so long, of all streams together: limits change while a session
/// lasts, and what bound for hours may bind no more.
const RECENT: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct Total {
    rate: Arc<Rate>,
    machine: String,
    /// The export that it is of, if not of all.
    export: Option<String>,
    began: Instant,
    members: AtomicU64,
    line: Mutex<Line>,
}

/// How a wait for a share ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// For how long it was.
    pub time: Duration,
    /// The bytes count as gone. Else they count for nothing: who has them all the same
    /// [charges](Share::charge) them.
    pub goes: bool,
}

/// The share of one session, or transfer. It is the others' when this value is dropped.
#[derive(Debug)]
pub struct Share {
    total: Arc<Total>,
    member: Member,
    waits: Mutex<Waits>,
}

/// For how long a share was waited for of late, and the one that holds beside it, in nanoseconds, of all streams
/// together.
#[derive(Debug, Default)]
struct Waits {
    own: u64,
    beside: u64,
}

impl Waits {
    /// What was before counts half where there is more than what is [`RECENT`].
    fn note(&mut self, own: u64, beside: u64) {
        self.own = self.own.saturating_add(own);
        self.beside = self.beside.saturating_add(beside);
        while self.own.saturating_add(self.beside) > nanos(RECENT) {
            (self.own, self.beside) = (self.own / 2, self.beside / 2);
        }
    }
}

impl Total {
    /// At most `rate`, which may change at any time, on a machine of this name. Without one nothing waits.
    pub fn new(rate: Arc<Rate>, machine: String) -> Arc<Total> {
        Total::of(rate, machine, None)
    }

    /// The same for what one export there moves.
    pub fn of_export(rate: Arc<Rate>, machine: String, export: String) -> Arc<Total> {
        Total::of(rate, machine, Some(export))
    }

    fn of(rate: Arc<Rate>, machine: String, export: Option<String>) -> Arc<Total> {
        let (members, line) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Total { rate, machine, export, began: Instant::now(), members, line })
    }

    /// For one more session, or transfer.
    pub fn share(self: &Arc<Self>) -> Share {
        let member = Member(self.members.fetch_add(1, Ordering::Relaxed));
        Share { total: self.clone(), member, waits: Mutex::default() }
    }

    /// The rate, if there is one now, with its count of changes. That is read first: a count that comes with
    /// an older rate would keep it.
    fn rate(&self) -> Option<(u64, u64)> {
        let changes = self.rate.changes();
        Some((self.rate.bytes_per_s()?, changes))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }

    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }
}

impl Share {
    /// Waits until so many bytes may go, while `goes_on`, and says for how long; `None` if they go at once.
    /// Before it waits, and only then, it calls `before`, whose time does not count.
    pub fn wait(&self, bytes: u64, goes_on: impl FnMut() -> bool, before: impl FnOnce()) -> Option<Waited> {
        let waited = self.wait_in_line(bytes, goes_on, before)?;
        self.note(waited.time);
        Some(waited)
    }

    /// For so long it was waited for.
    fn note(&self, waited: Duration) {
        lock(&self.waits).note(nanos(waited).max(1), 0);
    }

    /// So long the same bytes waited for the share that holds beside this one.
    pub fn note_beside(&self, waited: Duration) {
        lock(&self.waits).note(0, nanos(waited).max(1));
    }

    /// Whether it was waited for longer than the one beside it, of late; `None` if neither was.
    pub fn is_what_binds(&self) -> Option<bool> {
        let Waits { own, beside } = *lock(&self.waits);
        (own > 0 || beside > 0).then_some(own >= beside)
    }

    fn wait_in_line(
        &self,
        bytes: u64,
        mut goes_on: impl FnMut() -> bool,
        before: impl FnOnce(),
    ) -> Option<Waited> {
        let total = &*self.total;
        let (rate, changes) = total.rate().filter(|_| bytes > 0)?;
        let request = {
            let mut line = total.line();
            let now = total.now();
            line.set_rate(rate, changes, now);
            line.ask(self.member, bytes, now)?
        };
        before();
        let since = Instant::now();
        loop {
            let limit = total.rate();
            // Without the lock: it may take others.
            let rate = limit.filter(|_| goes_on());
            let left = {
                let mut line = total.line();
                let Some((rate, changes)) = rate else {
                    let waited = line.give_up(request);
                    // Without a limit it goes.
                    return Some(Waited { time: since.elapsed(), goes: !waited || limit.is_none() });
                };
                let now = total.now();
                line.set_rate(rate, changes, now);
                line.wait(request, now, nanos(PAUSE_MAX))
            };
            let Some(left) = left else { return Some(Waited { time: since.elapsed(), goes: true }) };
            std::thread::sleep(Duration::from_nanos(left));
        }
    }

    /// So many bytes came, and nobody waits for them any more: who comes next does.
    pub fn charge(&self, bytes: u64) {
        let total = &*self.total;
        let Some((rate, changes)) = total.rate().filter(|_| bytes > 0) else { return };
        let mut line = total.line();
        let now = total.now();
        line.set_rate(rate, changes, now);
        line.charge(self.member, bytes, now);
    }

    /// Whether both are shares of the same: what one of them was charged, the other waits for.
    pub fn is_of_one_total_with(&self, other: &Share) -> bool {
        Arc::ptr_eq(&self.total, &other.total)
    }

    /// Bytes that are taken from a socket at once.
    pub fn portion_bytes(&self) -> usize {
        let portion = |rate: u64| {
            let bytes = u128::from(rate) * PORTION.as_nanos() / 1_000_000_000;
            usize::try_from(bytes).unwrap_or(usize::MAX).max(PORTION_BYTES_MIN)
        };
        self.total.rate.bytes_per_s().map_or(usize::MAX, portion)
    }

    /// The limit as the other side is told it, if there is one now.
    pub fn told(&self) -> Option<LimitAccount> {
        let bytes_per_s = self.total.rate.bytes_per_s()?;
        let (machine, export) = (self.total.machine.clone(), self.total.export.clone());
        Some(LimitAccount { bytes_per_s, machine, export })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.total.line().forget(self.member);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn total(bytes_per_s: Option<u64>) -> Arc<Total> {
        Total::new(Arc::new(Rate::new(bytes_per_s)), "dtn1".to_owned())
    }

    impl Total {
        /// How long who asks now would wait.
        pub(crate) fn owes(&self) -> Duration {
            let mut line = self.line();
            let (now, member) = (self.now(), Member(u64::MAX));
            let Some(request) = line.ask(member, 1, now) else { return Duration::ZERO };
            let left = line.wait(request, now, u64::MAX).unwrap_or(0);
            line.give_up(request);
            line.forget(member);
            Duration::from_nanos(left)
        }
    }

    #[test]
    fn without_a_limit_nothing_waits_and_nothing_is_told() {
        let share = total(None).share();
        assert_eq!(share.wait(u64::MAX, || true, || panic!("it waits")), None);
        assert_eq!((share.told(), share.portion_bytes()), (None, usize::MAX));
    }

    #[test]
    fn all_sessions_have_one_limit() {
        let total = total(Some(1_000_000));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let share = total.share();
                scope.spawn(move || {
                    for _ in 0..5 {
                        share.wait(10_000, || true, || {});
                    }
                });
            }
        });
        // 200,000 bytes at 1 MB/s, the first 10,000 at once.
        assert!(began.elapsed() >= Duration::from_millis(190));
    }

    #[test]
    fn who_waits_notices_another_limit_and_its_own_end() {
        let total = total(Some(1));
        let share = total.share();
        assert_eq!(share.wait(1 << 40, || true, || {}), None);
        assert_eq!(share.told().map(|told| (told.bytes_per_s, told.machine)), Some((1, "dtn1".to_owned())));
        // At a byte a second these would take for ever.
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| share.wait(1 << 40, || !is_over.load(Ordering::Acquire), || {}));
            is_over.store(true, Ordering::Release);
            assert!(waits.join().expect("it ends").is_some_and(|waited| !waited.goes));
            let waits = scope.spawn(|| share.wait(1 << 40, || true, || {}));
            total.rate.set(None);
            assert!(waits.join().expect("it goes").is_none_or(|waited| waited.goes));
        });
        assert_eq!(share.told(), None);
    }

    #[test]
    fn a_limit_that_was_away_for_a_while_owes_nothing_of_before() {
        let total = total(Some(1));
        let share = total.share();
        assert_eq!(share.wait(1 << 40, || true, || {}), None);
        assert!(share.wait(1, || false, || {}).is_some());
        total.rate.set(None);
        total.rate.set(Some(1));
        assert_eq!(share.wait(1, || false, || {}), None);
    }

    #[test]
    fn of_two_limits_the_one_that_is_waited_for_of_late_binds_whatever_was_before() {
        let share = total(None).share();
        assert_eq!(share.is_what_binds(), None);
        share.note(Duration::from_secs(36_000));
        share.note_beside(Duration::from_secs(1));
        assert_eq!(share.is_what_binds(), Some(true));
        // The other one is made narrower.
        (0..60).for_each(|_| share.note_beside(Duration::from_secs(2)));
        assert_eq!(share.is_what_binds(), Some(false));
        share.note_beside(Duration::from_secs(36_000));
        (0..60).for_each(|_| share.note(Duration::from_secs(2)));
        assert_eq!(share.is_what_binds(), Some(true));
    }

    #[test]
    fn what_came_last_on_a_stream_is_waited_for_by_the_next() {
        let total = total(Some(1));
        let share = total.share();
        share.charge(1 << 40);
        assert!(total.share().wait(1, || false, || {}).is_some());
        total.rate.set(None);
        share.charge(1 << 40);
    }
}
