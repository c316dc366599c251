//! Holds a sender to a rate: all streams of a transfer together, whoever sets it and whenever it changes.

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
    /// When the next byte may go.
    next: Option<Instant>,
    /// Changes so far: whoever waits by an older rate reckons anew.
    changes: u64,
}

/// Streams together have their packets spaced for so many times the rate: what is handed to the kernel at once shall not
/// leave in one burst, and the rate itself is kept here.
pub const SPACED_TIMES: u64 = 2;

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

    /// Waits until `bytes` may go. `go_on` is asked between pauses; false ends the wait.
    pub fn wait(&self, bytes: u64, go_on: impl Fn() -> bool) {
        'reckon: loop {
            let (start, changes) = {
                let mut state = self.lock();
                let Some(rate) = state.rate() else { return };
                let now = Instant::now();
                let start = state.next.unwrap_or(now).max(now);
                let takes = Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(Duration::MAX);
                // A rate so low that its end is beyond all clocks holds until it is changed.
                state.next = start.checked_add(takes.min(FOREVER));
                (start, state.changes)
            };
            loop {
                let left = start.saturating_duration_since(Instant::now());
                if left.is_zero() || !go_on() {
                    return;
                }
                std::thread::sleep(left.min(PAUSE_MAX));
                if self.lock().changes != changes {
                    continue 'reckon;
                }
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        let before = state.rate();
        change(&mut state);
        if state.rate() != before {
            // What was reckoned by the old rate is owed to nobody.
            state.next = None;
            state.changes += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Longer than any transfer.
const FOREVER: Duration = Duration::from_secs(365 * 86400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_one_rate() {
        let pace = Pace::new(Some(1_000_000));
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| pace.wait(10_000, || true)));
            }
        });
        // 200,000 bytes at 1 MB/s, the first 10,000 at once.
        assert!(started.elapsed() >= Duration::from_millis(190));
        Pace::new(None).wait(u64::MAX, || true);
    }

    #[test]
    fn the_lower_rate_holds_and_who_waits_notices_a_change() {
        let pace = Pace::new(Some(1));
        pace.leave(Some(5));
        assert_eq!(pace.rate(), Some(1));
        pace.ask(Some(7));
        assert_eq!(pace.rate(), Some(5));
        pace.ask(Some(1));
        pace.wait(1 << 40, || true);
        std::thread::scope(|scope| {
            // At a byte a second this would take for ever.
            scope.spawn(|| pace.wait(1 << 40, || true));
            std::thread::sleep(Duration::from_millis(50));
            pace.ask(None);
            pace.leave(None);
        });
        assert_eq!(pace.rate(), None);
    }
}
