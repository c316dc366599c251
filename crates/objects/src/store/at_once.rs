//! How many requests are under way at once: more to a store that is far, where each waits for its answer most of the
//! time.

use super::Store;
use crate::http::REQUESTS_MAX;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Content that requests have under way together, from which on more of them only share the same path: each new
/// connection begins slowly.
const UNDER_WAY_BYTES: u64 = 256 << 20;

/// How many requests of one kind, with so many bytes of content each, are to be under way to a store that answers in
/// this time: one for each millisecond of it, so that distance alone keeps nobody below a thousand small objects a
/// second; at least `least`, which are enough near, and at most [`REQUESTS_MAX`], with no more than 256 MiB together.
pub(crate) fn requests_at_once(answers_in: Duration, bytes: u64, least: usize) -> usize {
    let by_distance = usize::try_from(answers_in.as_millis()).unwrap_or(usize::MAX);
    let by_size = usize::try_from(UNDER_WAY_BYTES / bytes.max(1)).unwrap_or(usize::MAX);
    least.max(by_distance.min(by_size).min(REQUESTS_MAX))
}

impl Store {
    /// How many requests of one kind, with so many bytes of content each, are to be under way to it by now; at least
    /// `least`, which are enough near. More to one that is far, as for all that goes to it.
    pub fn requests_at_once(&self, bytes: u64, least: usize) -> usize {
        requests_at_once(self.answers_in(), bytes, least)
    }

    /// In what time it answered a request soonest, content included; zero before it ever did. Mostly a round trip and a
    /// little more.
    pub fn answers_in(&self) -> Duration {
        match (self.soonest_ns.load(Ordering::Relaxed), self.first_ns.load(Ordering::Relaxed)) {
            (u64::MAX, u64::MAX) => Duration::ZERO,
            // What it takes beside the round trips is in that, too: a little too much, until there is another.
            (u64::MAX, first) => Duration::from_nanos(first / self.round_trips_of_first),
            (soonest, _) => Duration::from_nanos(soonest),
        }
    }

    /// It answered in this time: the first time also how long it took to look its name up and to make a connection.
    pub(super) fn answered_in(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (known, new) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.first_ns.compare_exchange(u64::MAX, nanos, new, known).is_err() {
            self.soonest_ns.fetch_min(nanos, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farther_a_store_is_the_more_requests_are_under_way_within_bounds() {
        let at = |micros| requests_at_once(Duration::from_micros(micros), 64 << 10, 16);
        assert_eq!([0, 900, 16_999, 50_000, 100_500, 150_000].map(at), [16, 16, 16, 50, 100, 128]);
        let of = |mib: u64| requests_at_once(Duration::from_millis(150), mib << 20, 16);
        assert_eq!([0, 1, 4, 8, 16, 64].map(of), [128, 128, 64, 32, 16, 16]);
        assert_eq!(requests_at_once(Duration::MAX, u64::MAX, 16), 16);
        assert_eq!(requests_at_once(Duration::from_millis(20), 0, 32), 32);
    }
}
