//! Holds a sender to a rate: all streams of a transfer together.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A rate, shared by all streams of a transfer. Without one, nothing is held back.
#[derive(Debug, Default)]
pub struct Pace {
    bytes_per_s: Option<u64>,
    /// When the next byte may go.
    next: Mutex<Option<Instant>>,
}

/// Longest single pause: a stream looks up between two of them.
const PAUSE_MAX: Duration = Duration::from_millis(250);

impl Pace {
    /// At most so many bytes a second.
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        Pace { bytes_per_s: bytes_per_s.filter(|&rate| rate > 0), next: Mutex::default() }
    }

    /// Waits until `bytes` may go. `go_on` is asked between pauses; false ends the wait.
    pub fn wait(&self, bytes: u64, go_on: impl Fn() -> bool) {
        let Some(rate) = self.bytes_per_s else { return };
        let now = Instant::now();
        let start = {
            let mut next = self.next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let start = next.unwrap_or(now).max(now);
            *next = Some(start + Duration::from_secs_f64(bytes as f64 / rate as f64));
            start
        };
        loop {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() || !go_on() {
                return;
            }
            std::thread::sleep(left.min(PAUSE_MAX));
        }
    }
}

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
}
