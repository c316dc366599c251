//! One clock against another, by round trips.
//!
//! The asker notes when it asked and when the answer came; the answer says what the other clock showed. Whatever the
//! two ways took, the other clock showed it between both, so the middle is wrong by at most half the round trip
//! (Cristian 1989). Clocks drift: with its age each answer may be wrong by more. The one counts that is wrong by the
//! least now (as in NTP's clock filter, RFC 5905 section 10).
//!
//! Clocks are set as well. What ours is set by shows in how far it is ahead of a clock that nobody sets, and every
//! older answer may be wrong by so much more. That the other one was set shows when an answer contradicts older ones:
//! they are given up.

use std::collections::VecDeque;
use std::time::Duration;
use thalweg_wire::message::ClockOffset;

/// Answers that are kept.
const SAMPLES: usize = 32;
/// Two clocks drift apart by not more than one nanosecond in so many: each quartz by 50 millionths.
const DRIFT_ONE_IN: u128 = 10_000;
/// An answer counts until the next one is there.
const UNTIL_NEXT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct ClockFilter {
    samples: VecDeque<Sample>,
    /// As the last answer came: how far our clock was ahead of the one that nobody sets.
    ahead_ns: Option<i128>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    ahead_ns: i128,
    offset_ns: i64,
    bound_ns: u64,
}

impl Sample {
    /// What it may be wrong by when it has this age and our clock was set since.
    fn bound_ns(&self, now: Duration, ahead_ns: i128) -> u64 {
        let drift = now.saturating_sub(self.at).as_nanos().div_ceil(DRIFT_ONE_IN);
        let drift = u64::try_from(drift).unwrap_or(u64::MAX);
        let set = u64::try_from(ahead_ns.abs_diff(self.ahead_ns)).unwrap_or(u64::MAX);
        self.bound_ns.saturating_add(drift).saturating_add(set)
    }
}

impl ClockFilter {
    /// An answer: asked and heard by our clock, and what the other one showed, all in nanoseconds since 1970. `now` is
    /// by a clock that nobody sets. An answer from before its question does not count.
    pub fn answered(&mut self, asked_ns: u64, hub_ns: u64, heard_ns: u64, now: Duration) {
        let Some(round_trip) = heard_ns.checked_sub(asked_ns) else { return };
        let middle = i128::from(asked_ns) + i128::from(round_trip / 2);
        let offset = i128::from(hub_ns) - middle;
        let offset_ns = offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let ahead_ns = i128::from(heard_ns) - now.as_nanos() as i128;
        // It may have been set between question and answer.
        let set = ahead_ns.abs_diff(self.ahead_ns.replace(ahead_ns).unwrap_or(ahead_ns));
        let bound_ns = round_trip.div_ceil(2).saturating_add(u64::try_from(set).unwrap_or(u64::MAX));
        self.samples.retain(|older| {
            let bound = older.bound_ns(now, ahead_ns).saturating_add(bound_ns);
            older.offset_ns.abs_diff(offset_ns) <= bound
        });
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at: now, ahead_ns, offset_ns, bound_ns });
    }

    /// The best that is known, for the time from the last answer to the next.
    pub fn offset(&self) -> Option<ClockOffset> {
        let last = self.samples.back()?;
        let until = last.at + UNTIL_NEXT;
        let offset = |sample: &Sample| ClockOffset {
            offset_ns: sample.offset_ns,
            bound_ns: sample.bound_ns(until, last.ahead_ns),
        };
        self.samples.iter().map(offset).min_by_key(|offset| offset.bound_ns)
    }
}

/// A moment of a clock by the other one.
pub fn moved(time_ns: u64, offset: ClockOffset) -> u64 {
    time_ns.saturating_add_signed(offset.offset_ns)
}

/// Nanoseconds from a moment of one clock to a moment of another, both moved to a third; with what it may be wrong by.
/// `None` where one of them was not measured. What seems to go back is 0: it is within the bound.
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
        /// The other clock drifts by up to 100 millionths, and ours is set now and then.
        #[test]
        fn the_error_is_never_more_than_the_bound(
            truth in -1_000_000_000i64..1_000_000_000,
            drift_ppm in -100i64..=100,
            trips in proptest::collection::vec(
                (0u64..50_000_000, 0u64..50_000_000, proptest::option::weighted(0.1, -2_000_000_000i64..2_000_000_000)),
                1..100,
            ),
        ) {
            let mut filter = ClockFilter::default();
            let (mut set, mut time_ns) = (0i64, 0u64);
            let ours = |time_ns: u64, set: i64| (1_000_000_000_000 + time_ns).saturating_add_signed(set);
            let theirs = |time_ns: u64| {
                let drift = time_ns as i64 / 1_000_000 * drift_ppm;
                (1_000_000_000_000 + time_ns).saturating_add_signed(truth + drift)
            };
            for (there, back, is_set) in trips {
                set += is_set.unwrap_or(0);
                let asked = ours(time_ns, set);
                let hub = theirs(time_ns + there);
                time_ns += there + back;
                filter.answered(asked, hub, ours(time_ns, set), Duration::from_nanos(time_ns));
                // Until the next answer is there.
                for later_ns in [time_ns, time_ns + 900_000_000] {
                    let offset = filter.offset().unwrap();
                    let truth = theirs(later_ns).wrapping_sub(ours(later_ns, set)) as i64;
                    prop_assert!(offset.offset_ns.abs_diff(truth) <= offset.bound_ns + 200);
                }
                time_ns += 900_000_000;
            }
        }
    }

    const S: u64 = 1_000_000_000;
    /// What an answer may be wrong by in the second until the next.
    const SECOND_NS: u64 = 100_000;

    /// An answer after so many seconds by a clock that nobody sets, with this round trip; ours is set by `set_ns`.
    fn answered(filter: &mut ClockFilter, at_s: u64, round_trip_ns: u64, (set_ns, hub_ns): (u64, u64)) {
        let heard = at_s * S + set_ns;
        let hub = at_s * S + hub_ns - round_trip_ns / 2;
        filter.answered(heard - round_trip_ns, hub, heard, Duration::from_secs(at_s));
    }

    #[test]
    fn the_shortest_round_trip_counts_until_the_clocks_may_have_drifted_too_far() {
        let mut filter = ClockFilter::default();
        answered(&mut filter, 10, 100, (0, 950));
        assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: 950, bound_ns: 50 + SECOND_NS }));
        answered(&mut filter, 11, 10_000_000, (0, 4_000));
        assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: 950, bound_ns: 50 + 2 * SECOND_NS }));
        // After a minute the worse one is no worse than the better one was.
        answered(&mut filter, 71, 10_000_000, (0, 4_000));
        assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: 4_000, bound_ns: 5_000_000 + SECOND_NS }));
        let known = filter.offset();
        filter.answered(10, 9_000, 5, Duration::from_secs(72));
        assert_eq!(filter.offset(), known, "an answer before its question");
    }

    #[test]
    fn a_clock_that_was_set_is_known_by_the_second_answer_whichever_it_was() {
        for (set_ns, hub_ns) in [(3600 * S, 0), (0, 3600 * S)] {
            let mut filter = ClockFilter::default();
            (1..20).for_each(|at| answered(&mut filter, at, 100, (0, 0)));
            assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: 0, bound_ns: 50 + SECOND_NS }));
            answered(&mut filter, 20, 10_000, (set_ns, hub_ns));
            answered(&mut filter, 21, 10_000, (set_ns, hub_ns));
            let wanted = hub_ns as i64 - set_ns as i64;
            assert_eq!(filter.offset(), Some(ClockOffset { offset_ns: wanted, bound_ns: 5_000 + SECOND_NS }));
        }
    }
}
