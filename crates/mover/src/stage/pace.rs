//! Holds a sender to a rate: all streams of a transfer together, whoever sets it and whenever it changes.

use crate::mutex::lock;
#[cfg(doc)]
use crate::tune::ledbat;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A rate, shared by all streams of a transfer: the lower of what was asked for and what yielding to others leaves.
/// Without either, nothing is held back.
#[derive(Debug, Default)]
pub struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    asked: Option<u64>,
    left: Option<u64>,
    /// When the next byte may go, behind everything that waits.
    next: Option<Instant>,
    /// The same if nothing waited: what went has had its time by then.
    free: Option<Instant>,
    /// Changes so far: whoever waits by an older rate reckons anew.
    changes: u64,
    /// Who waits now.
    waiting: usize,
    /// When somebody went last, or the first of those who wait began to.
    went: Option<Instant>,
}

/// Streams together have their packets spaced for so many times the rate: what is handed to the kernel at once shall
/// not leave in one burst, and the rate itself is kept here. Those that yield to others: for [`ledbat::SPACED_TIMES`].
pub(crate) const SPACED_TIMES: f64 = 2.0;

/// Longest single pause: a stream looks up between two of them.
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl State {
    fn rate(&self) -> Option<u64> {
        self.asked.into_iter().chain(self.left).min()
    }
}

impl Pace {
    /// At most so many bytes a second.
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        let pace = Pace::default();
        pace.ask(bytes_per_s);
        pace
    }

    /// From now on at most so many bytes a second; 0 and `None`: as many as there are. Those who wait notice.
    pub fn ask(&self, bytes_per_s: Option<u64>) {
        self.change(|state| state.asked = bytes_per_s.filter(|&rate| rate > 0));
    }

    /// As [`Pace::ask`], for what others on the path leave to a transfer that yields.
    pub fn leave(&self, bytes_per_s: Option<u64>) {
        self.change(|state| state.left = bytes_per_s.filter(|&rate| rate > 0));
    }

    /// The rate that holds now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.lock().rate()
    }

    /// The rate that was asked for last, whatever others leave.
    pub fn asked(&self) -> Option<u64> {
        self.lock().asked
    }

    /// Whether anybody waits at this moment.
    pub fn is_waited_for(&self) -> bool {
        self.lock().waiting > 0
    }

    /// For how long nobody went, while somebody waits; no time at all while nobody does.
    pub fn stood_for(&self) -> Duration {
        let state = self.lock();
        let went = state.went.filter(|_| state.waiting > 0);
        went.map_or(Duration::ZERO, |went| went.elapsed())
    }

    /// Waits until `bytes` may go, and says whether they may. `go_on` is asked between pauses; false ends the wait, and
    /// the time that was kept for these bytes is that of others.
    pub fn wait(&self, bytes: u64, go_on: impl FnMut() -> bool) -> bool {
        {
            let mut state = self.lock();
            if state.waiting == 0 {
                state.went = Some(Instant::now());
            }
            state.waiting += 1;
        }
        let goes = self.wait_in_line(bytes, go_on);
        let mut state = self.lock();
        state.waiting -= 1;
        if goes {
            state.went = Some(Instant::now());
        }
        goes
    }

    fn wait_in_line(&self, bytes: u64, mut go_on: impl FnMut() -> bool) -> bool {
        'reckon: loop {
            let (start, end, changes) = {
                let mut state = self.lock();
                let Some(rate) = state.rate() else { return true };
                let now = Instant::now();
                let start = state.next.unwrap_or(now).max(now);
                let takes = Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(Duration::MAX);
                // A rate so low that its end is beyond all clocks holds until it is changed.
                state.next = start.checked_add(takes.min(FOREVER));
                (start, state.next, state.changes)
            };
            loop {
                let left = start.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let mut state = self.lock();
                    if state.changes != changes {
                        continue 'reckon;
                    }
                    state.free = state.free.max(end);
                    return true;
                }
                std::thread::sleep(left.min(PAUSE_MAX));
                if !go_on() {
                    self.give_back(changes);
                    return false;
                }
                if self.lock().changes != changes {
                    continue 'reckon;
                }
            }
        }
    }

    /// What was reckoned at this count of changes does not go: who waits behind it moves up.
    fn give_back(&self, changes: u64) {
        let mut state = self.lock();
        if state.changes == changes {
            state.next = state.free;
            state.changes += 1;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        let before = state.rate();
        change(&mut state);
        if state.rate() != before {
            // What was reckoned by the old rate is owed to nobody.
            (state.next, state.free) = (None, None);
            state.changes += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

/// Longer than any transfer.
const FOREVER: Duration = Duration::from_secs(365 * 86400);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn streams_share_one_rate() {
        let pace = Pace::new(Some(1_000_000));
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert!((0..5).all(|_| pace.wait(10_000, || true))));
            }
        });
        // 200,000 bytes at 1 MB/s, the first 10,000 at once.
        assert!(started.elapsed() >= Duration::from_millis(190));
        assert!(Pace::new(None).wait(u64::MAX, || true));
    }

    /// Each frame takes a quarter of an hour; 19 streams wait with one, and are lost.
    #[test]
    fn the_time_of_who_gives_up_is_that_of_others() {
        let pace = Pace::new(Some(1));
        let is_lost = AtomicBool::new(false);
        assert!(pace.wait(1000, || true), "the first goes at once");
        let first = pace.lock().next.unwrap();
        std::thread::scope(|scope| {
            let wait = || pace.wait(1000, || !is_lost.load(Ordering::Acquire));
            let waits: Vec<_> = (0..19).map(|_| scope.spawn(wait)).collect();
            let all = first + Duration::from_secs(19_000);
            while pace.lock().next.is_none_or(|next| next < all) {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_lost.store(true, Ordering::Release);
            assert!(waits.into_iter().all(|wait| !wait.join().unwrap()));
        });
        assert_eq!(pace.lock().next, Some(first), "who comes next waits for what went, and for nothing else");
    }

    #[test]
    fn how_long_nobody_went_is_known_while_somebody_waits() {
        let pace = Pace::new(Some(1));
        assert!(pace.wait(1000, || true), "the first goes at once");
        assert_eq!(pace.stood_for(), Duration::ZERO, "nobody waits");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| pace.wait(1000, || true));
            while !pace.is_waited_for() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let since = Instant::now();
            std::thread::sleep(Duration::from_millis(2));
            let at_least = since.elapsed();
            assert!(pace.stood_for() >= at_least);
            pace.ask(None);
            assert!(waits.join().unwrap());
        });
        assert_eq!(pace.stood_for(), Duration::ZERO);
    }

    #[test]
    fn who_waits_moves_up_when_one_before_it_gives_up() {
        let pace = Pace::new(Some(1));
        let (is_lost, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        assert!(pace.wait(1000, || true));
        let first = pace.lock().next.unwrap();
        // Seconds that are kept behind the first.
        let until = |seconds| {
            while pace.lock().next != Some(first + Duration::from_secs(seconds)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| pace.wait(700, || !is_lost.load(Ordering::Acquire)));
            until(700);
            scope.spawn(|| pace.wait(50, || !is_over.load(Ordering::Acquire)));
            until(750);
            is_lost.store(true, Ordering::Release);
            until(50);
            is_over.store(true, Ordering::Release);
        });
        assert_eq!(pace.lock().next, Some(first));
    }

    #[test]
    fn the_lower_rate_holds_and_who_waits_notices_a_change() {
        let pace = Pace::new(Some(1));
        pace.leave(Some(5));
        assert_eq!(pace.rate(), Some(1));
        pace.ask(Some(7));
        assert_eq!(pace.rate(), Some(5));
        pace.ask(Some(1));
        assert!(pace.wait(1 << 40, || true));
        std::thread::scope(|scope| {
            // At a byte a second this would take for ever.
            scope.spawn(|| assert!(pace.wait(1 << 40, || true)));
            std::thread::sleep(Duration::from_millis(50));
            pace.ask(None);
            pace.leave(None);
        });
        assert_eq!(pace.rate(), None);
    }
}
