//! Counters of a copy while it runs, and what follows from them: how fast it is, and how long the rest takes.

use crate::mutex::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use thalweg_wire::message::ErrandCounts;

/// The rate is that of so long: what came before says little of what comes next.
const WINDOW: Duration = Duration::from_secs(30);

/// Time between two looks that are kept.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Counters of a copy while it runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// Entries found so far.
    pub entries_found: AtomicU64,
    /// Content bytes found so far.
    pub bytes_found: AtomicU64,
    /// Whether that is all.
    pub scan_over: AtomicBool,
    /// Entries settled.
    pub entries_settled: AtomicU64,
    /// Those of them whose content came, where we are the receiver.
    pub entries_moved: AtomicU64,
    /// Content bytes verified at the destination.
    pub bytes_verified: AtomicU64,
    /// Content bytes that do not come, of entries settled: those that were there already, were left out, or failed.
    pub bytes_unmoved: AtomicU64,
    /// What of that is told apart by who adds up many copies.
    pub counted: Counted,
    began: OnceLock<Instant>,
    pace: Mutex<Pace>,
}

/// How what is settled came to be so, in the attempt that is under way.
#[derive(Debug, Default)]
pub struct Counted {
    /// Of the content bytes verified those that an earlier attempt had left.
    pub bytes_resumed: AtomicU64,
    /// Of the content bytes verified those that were only compared with what stood there, and are the same.
    pub bytes_compared: AtomicU64,
    /// Chunks that came damaged and were sent again.
    pub chunks_repaired: AtomicU64,
    /// Of the entries settled those that failed.
    pub entries_failed: AtomicU64,
    /// Of these those whose content was damaged, and stayed so.
    pub entries_damaged: AtomicU64,
}

impl Meter {
    /// Content bytes for which nothing more is to be done: verified at the destination, or of entries that came to
    /// their end without.
    pub fn bytes_settled(&self) -> u64 {
        let moved = self.bytes_verified.load(Ordering::Relaxed);
        let settled = moved.saturating_add(self.bytes_unmoved.load(Ordering::Relaxed));
        // What changed at the source and came again is found once.
        match self.scan_over.load(Ordering::Relaxed) {
            true => settled.min(self.bytes_found.load(Ordering::Relaxed)),
            false => settled,
        }
    }

    /// Time since it began; zero before.
    pub fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Content bytes that came in a second, in the last half minute; `None` if none did. What was at the destination
    /// before, also from an earlier attempt, did not come.
    pub fn bytes_per_s(&self) -> Option<f64> {
        lock(&self.pace).bytes_per_s(self.elapsed())
    }

    /// How long the rest of the content takes at that rate. `None` until all is found, without a rate, and when all of
    /// it is settled: then it is not bytes that are waited for.
    pub fn left(&self) -> Option<Duration> {
        self.left_at(self.bytes_per_s()?)
    }

    fn left_at(&self, bytes_per_s: f64) -> Option<Duration> {
        if !self.scan_over.load(Ordering::Relaxed) {
            return None;
        }
        let left = self.bytes_found.load(Ordering::Relaxed).saturating_sub(self.bytes_settled());
        let seconds = (left > 0).then(|| left as f64 / bytes_per_s)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// All counters, for who is told of them elsewhere.
    pub fn counts(&self) -> ErrandCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ErrandCounts {
            entries_found: count(&self.entries_found),
            bytes_found: count(&self.bytes_found),
            scan_over: self.scan_over.load(Ordering::Relaxed),
            entries_settled: count(&self.entries_settled),
            entries_moved: count(&self.entries_moved),
            bytes_verified: count(&self.bytes_verified),
            bytes_unmoved: count(&self.bytes_unmoved),
        }
    }

    /// Counts as it is counted elsewhere, as if that were a copy of this machine.
    pub fn count_as(&self, counts: &ErrandCounts) {
        for (counter, number) in [
            (&self.entries_found, counts.entries_found),
            (&self.bytes_found, counts.bytes_found),
            (&self.entries_settled, counts.entries_settled),
            (&self.entries_moved, counts.entries_moved),
            (&self.bytes_verified, counts.bytes_verified),
            (&self.bytes_unmoved, counts.bytes_unmoved),
        ] {
            counter.store(number, Ordering::Relaxed);
        }
        self.scan_over.store(counts.scan_over, Ordering::Relaxed);
        self.came(counts.bytes_verified);
    }

    /// So many content bytes came by now, in this attempt. The first call begins the time.
    pub fn came(&self, bytes: u64) {
        let elapsed = self.began.get_or_init(Instant::now).elapsed();
        lock(&self.pace).note(elapsed, bytes);
    }
}

/// What came of late.
#[derive(Debug, Default)]
struct Pace {
    /// Times and bytes, [`LOOK_EVERY`] apart, back to the begin of the [`WINDOW`].
    looks: VecDeque<(Duration, u64)>,
    /// The last that was heard.
    bytes: u64,
}

impl Pace {
    fn note(&mut self, now: Duration, bytes: u64) {
        // Another attempt counts anew.
        if bytes < self.bytes {
            self.looks.clear();
        }
        self.bytes = bytes;
        if self.looks.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= LOOK_EVERY) {
            self.looks.push_back((now, bytes));
        }
        while self.looks.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    fn bytes_per_s(&self, now: Duration) -> Option<f64> {
        let (at, before) = self.looks.front()?;
        let (bytes, seconds) = (self.bytes.saturating_sub(*before), now.saturating_sub(*at).as_secs_f64());
        (bytes > 0 && seconds > 0.0).then(|| bytes as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_already_is_settled_and_takes_no_time() {
        let meter = Meter::default();
        meter.bytes_found.store(10_000, Ordering::Relaxed);
        meter.bytes_verified.store(100, Ordering::Relaxed);
        meter.bytes_unmoved.store(9_500, Ordering::Relaxed);
        assert_eq!(meter.bytes_settled(), 9_600);
        assert_eq!(meter.left_at(100.0), None, "more may be found");
        meter.scan_over.store(true, Ordering::Relaxed);
        assert_eq!(meter.left_at(100.0), Some(Duration::from_secs(4)));
        assert_eq!(meter.left(), None, "nothing came yet");
        // One that changed came twice.
        meter.bytes_verified.store(600, Ordering::Relaxed);
        assert_eq!((meter.bytes_settled(), meter.left_at(100.0)), (10_000, None));
    }

    #[test]
    fn the_rate_is_that_of_the_last_half_minute_and_falls_while_nothing_comes() {
        let mut pace = Pace::default();
        let second = Duration::from_secs;
        assert_eq!(pace.bytes_per_s(second(1)), None);
        (0..=1000).for_each(|at| pace.note(second(at), 1000 * at));
        assert_eq!(pace.bytes_per_s(second(1000)), Some(1000.0));
        (1001..=1060).for_each(|at| pace.note(second(at), 1_000_000 + 50 * (at - 1000)));
        assert_eq!(pace.bytes_per_s(second(1060)), Some(50.0));
        assert!(pace.looks.len() <= 32, "{}", pace.looks.len());
        assert_eq!(pace.bytes_per_s(second(1090)), Some(25.0));
        // After an outage, from the first byte.
        pace.note(second(1090), 0);
        pace.note(second(1092), 500);
        assert_eq!(pace.bytes_per_s(second(1092)), Some(250.0));
    }
}
