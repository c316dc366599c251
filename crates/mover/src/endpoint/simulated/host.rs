//! The host of the threads that use an array, in numbers: how late a thread makes a request that it has taken. Pure.
//!
//! Threads share a host. While one gets ready for its request, what others have under way is handled as well, and
//! which of them comes first is chance. So a thread is late by up to the time that the host takes for all of the
//! others: never, if it is alone, and by much among many. 004 (section II-A.3) says what that does without an order:
//! requests that were taken in a row come out of order.

use crate::endpoint::content::mixed;
use std::time::Duration;

/// A thread is held up by this at most, whatever the numbers say: orders wait for it.
const LATE_MAX: Duration = Duration::from_secs(1);

/// What the threads of a host have under way.
#[derive(Debug)]
pub struct Host {
    bytes_per_s: Option<u64>,
    seed: u64,
    under_way_bytes: u64,
}

impl Host {
    /// An idle one. It handles so many bytes in a second, at least 1; `None`: nobody is ever late. By how much, of what
    /// is possible, comes from the seed.
    pub fn new(bytes_per_s: Option<u64>, seed: u64) -> Host {
        Host { bytes_per_s, seed, under_way_bytes: 0 }
    }

    /// How late a thread is that has taken the request at `offset` now; at most a second. The same for the same seed,
    /// offset and bytes under way.
    pub fn late(&self, offset: u64) -> Duration {
        let Some(bytes_per_s) = self.bytes_per_s else { return Duration::ZERO };
        // Another stream of numbers than that of the places of stripes.
        let chance = (mixed(!self.seed, offset) >> 11) as f64 / (1_u64 << 53) as f64;
        let longest_s = self.under_way_bytes as f64 / bytes_per_s as f64;
        Duration::from_secs_f64((chance * longest_s).min(LATE_MAX.as_secs_f64()))
    }

    /// A thread gets ready for a request of so many bytes, or makes it. [`Host::end`] must follow.
    pub fn begin(&mut self, bytes: u64) {
        self.under_way_bytes = self.under_way_bytes.saturating_add(bytes);
    }

    /// It is ready, or its request has ended.
    pub fn end(&mut self, bytes: u64) {
        self.under_way_bytes = self.under_way_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_alone_is_never_late_and_one_among_others_by_what_they_have_under_way_at_most() {
        let mut host = Host::new(Some(1000), 7);
        assert_eq!(host.late(0), Duration::ZERO);
        host.begin(100);
        host.begin(100);
        let all: Vec<Duration> = (0..1000).map(|offset| host.late(offset)).collect();
        assert!(all.iter().all(|late| *late < Duration::from_millis(200)), "{all:?}");
        assert!(all.iter().any(|late| *late > Duration::from_millis(150)), "{all:?}");
        assert!(all.iter().any(|late| *late < Duration::from_millis(50)), "{all:?}");
        let again = Host { under_way_bytes: 200, ..Host::new(Some(1000), 7) };
        assert!((0..1000).map(|offset| again.late(offset)).eq(all.iter().copied()));
        assert!((0..1000).map(|offset| Host { seed: 8, ..again }.late(offset)).ne(all));
        host.begin(u64::MAX);
        assert!((0..1000).all(|offset| host.late(offset) <= LATE_MAX));
        host.end(u64::MAX);
        assert_eq!(host.late(5), Duration::ZERO);
    }

    #[test]
    fn where_the_host_is_no_matter_nobody_is_late() {
        let mut host = Host::new(None, 7);
        host.begin(1 << 40);
        assert_eq!(host.late(1), Duration::ZERO);
    }
}
