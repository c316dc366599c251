//! How many requests are under way at once: more to a store that is far, where each waits for its answer most of the
//! time.

use super::Store;
use crate::http::REQUESTS_MAX;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_mover::plan::STREAMS_PLANNED_MAX;

/// Streams that read a store that is near.
const STREAMS_NEAR: usize = 16;

/// How many requests of one kind are to be under way to a store that answers in this time: one for each millisecond of
/// it, so that distance alone keeps nobody below a thousand small objects a second; at least `least`, which are enough
/// near, and at most [`REQUESTS_MAX`].
pub(crate) fn requests_at_once(answers_in: Duration, least: usize) -> usize {
    let by_distance = usize::try_from(answers_in.as_millis()).unwrap_or(usize::MAX);
    least.max(by_distance.min(REQUESTS_MAX))
}

impl Store {
    /// In what time it answered a request soonest, content and the making of a connection included; zero before it
    /// ever did. Mostly a round trip and a little more.
    pub fn answers_in(&self) -> Duration {
        match self.soonest_ns.load(Ordering::Relaxed) {
            u64::MAX => Duration::ZERO,
            soonest => Duration::from_nanos(soonest),
        }
    }

    /// It answered in this time.
    pub(super) fn answered_in(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.soonest_ns.fetch_min(nanos, Ordering::Relaxed);
    }

    /// Streams that read it, if nobody asks for a number: 16, more where it is far, at most 32.
    pub fn streams(&self) -> u16 {
        let streams = requests_at_once(self.answers_in(), STREAMS_NEAR);
        u16::try_from(streams).map_or(STREAMS_PLANNED_MAX, |streams| streams.min(STREAMS_PLANNED_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farther_a_store_is_the_more_requests_are_under_way_within_bounds() {
        let at = |micros| requests_at_once(Duration::from_micros(micros), 16);
        assert_eq!([0, 900, 16_999, 50_000, 100_500, 150_000].map(at), [16, 16, 16, 50, 100, 128]);
        assert_eq!(requests_at_once(Duration::MAX, 16), REQUESTS_MAX);
        assert_eq!(requests_at_once(Duration::from_millis(20), 32), 32);
    }
}
