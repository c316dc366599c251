//! One clock against another, by round trips.
//!
//! The asker notes when it asked and when the answer came; the answer says what the other clock showed. Whatever the two ways
//! took, the other clock showed it between both, so the middle is wrong by at most half the round trip (Cristian 1989). The
//! sample with the shortest round trip counts (as in NTP's clock filter, RFC 5905 section 10); it is given up for a newer one
//! after [`AGE`], because clocks drift.

use std::collections::VecDeque;
use std::time::Duration;
use thalweg_wire::message::ClockOffset;

/// Samples that are kept.
const SAMPLES: usize = 32;
/// What is older does not count: at a drift of 50 millionths it would be wrong by 30 ms.
const AGE: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct ClockFilter {
    samples: VecDeque<(Duration, ClockOffset)>,
}

impl ClockFilter {
    /// An answer: asked and heard by our clock, and what the other one showed, all in nanoseconds since 1970. `now` only says
    /// how old samples are. An answer from before its question does not count.
    pub fn answered(&mut self, asked_ns: u64, hub_ns: u64, heard_ns: u64, now: Duration) {
        let Some(round_trip) = heard_ns.checked_sub(asked_ns) else { return };
        let middle = i128::from(asked_ns) + i128::from(round_trip / 2);
        let offset = i128::from(hub_ns) - middle;
        let offset_ns = offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        while self.samples.len() >= SAMPLES
            || self.samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > AGE)
        {
            self.samples.pop_front();
        }
        self.samples.push_back((now, ClockOffset { offset_ns, bound_ns: round_trip.div_ceil(2) }));
    }

    /// The best that is known.
    pub fn offset(&self) -> Option<ClockOffset> {
        self.samples.iter().map(|(_, sample)| *sample).min_by_key(|sample| sample.bound_ns)
    }
}

/// A moment of a clock by the other one.
pub fn moved(time_ns: u64, offset: ClockOffset) -> u64 {
    time_ns.saturating_add_signed(offset.offset_ns)
}

/// Nanoseconds from a moment of one clock to a moment of another, both moved to a third; with what it may be wrong by. `None`
/// where one of them was not measured. What seems to go back is 0: it is within the bound.
pub fn between(from: (u64, ClockOffset), to: (u64, ClockOffset)) -> Option<(u64, u64)> {
    if from.1.bound_ns == u64::MAX || to.1.bound_ns == u64::MAX {
        return None;
    }
    let time = moved(to.0, to.1).saturating_sub(moved(from.0, from.1));
    Some((time, from.1.bound_ns.saturating_add(to.1.bound_ns)))
}

/// A clock that was not measured.
pub const UNKNOWN: ClockOffset = ClockOffset { offset_ns: 0, bound_ns: u64::MAX };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_error_is_never_more_than_the_bound(
            truth in -1_000_000_000i64..1_000_000_000,
            trips in proptest::collection::vec((0u64..50_000_000, 0u64..50_000_000), 1..40),
        ) {
            let mut filter = ClockFilter::default();
            let mut ours = 1_000_000_000_000u64;
            for (step, (there, back)) in trips.into_iter().enumerate() {
                let hub = (ours + there).saturating_add_signed(truth);
                filter.answered(ours, hub, ours + there + back, Duration::from_secs(step as u64));
                ours += 1_000_000_000;
                let offset = filter.offset().unwrap();
                prop_assert!(offset.offset_ns.abs_diff(truth) <= offset.bound_ns + 1);
            }
        }
    }

    #[test]
    fn the_shortest_round_trip_counts_until_it_is_old() {
        let mut filter = ClockFilter::default();
        filter.answered(0, 1_000, 100, Duration::ZERO);
        filter.answered(0, 9_000, 10_000, Duration::from_secs(1));
        assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: 950, bound_ns: 50 }));
        filter.answered(0, 9_000, 10_000, Duration::from_secs(700));
        assert_eq!(filter.offset().unwrap().bound_ns, 5_000);
        filter.answered(10, 9_000, 5, Duration::from_secs(700));
        assert_eq!(filter.offset().unwrap().bound_ns, 5_000, "an answer before its question");
    }
}
