//! The worst transfer beside the ideal one, the tail of many, and what a time is good for.

use super::{ModelError, Result, not_negative, positive};
use serde::Serialize;

/// Streaming Speed Score: `SSS = T_worst / T_theoretical` (003 Eq 11). `worst_s`: the longest transfer under load.
/// `theoretical_s`: data / bandwidth of the link ([`super::volume::time_s`]), positive. 1 is ideal.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn speed_score(worst_s: f64, theoretical_s: f64) -> Result<f64> {
    Ok(not_negative("worst time", worst_s)? / positive("theoretical time", theoretical_s)?)
}

/// What a completion time is good for (003 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Tier 1, below 1 s: real-time analysis.
    RealTime,
    /// Tier 2, below 10 s: near real-time.
    NearRealTime,
    /// Tier 3, below 60 s: quasi real-time.
    QuasiRealTime,
}

impl Tier {
    /// All, strictest first.
    pub const ALL: [Tier; 3] = [Tier::RealTime, Tier::NearRealTime, Tier::QuasiRealTime];

    /// The time that it must stay below, in seconds.
    pub fn limit_s(self) -> f64 {
        match self {
            Tier::RealTime => 1.0,
            Tier::NearRealTime => 10.0,
            Tier::QuasiRealTime => 60.0,
        }
    }

    /// The strictest that this time is good for. `None`: for none of them.
    pub fn of(time_s: f64) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| time_s < tier.limit_s())
    }
}

/// Of fewer times not even the longest is sure to be beyond P99: 0.99^298 is more than [`DOUBT`].
pub const TIMES_FOR_P99: usize = 299;

/// Share of cases in which [`Tail::p99_bound_s`] may be too short.
const DOUBT: f64 = 0.05;

/// The distribution of measured times, in seconds (003 Fig 3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tail {
    /// So many were measured.
    pub count: usize,
    /// Half took no longer.
    pub p50_s: f64,
    /// 90 of 100 took no longer.
    pub p90_s: f64,
    /// 99 of 100 took no longer. With fewer than 100 it is the longest. Of further times one of a hundred is likely to
    /// take longer: no promise is made by it.
    pub p99_s: f64,
    /// One of them that is no shorter than P99 of all times to come, with 95 % confidence; `None` of fewer than
    /// [`TIMES_FOR_P99`]. Assumes that they are independent of each other.
    pub p99_bound_s: Option<f64>,
    /// The longest.
    pub max_s: f64,
}

/// The tail of measured times, by nearest rank: each figure was measured, none is interpolated.
///
/// # Errors
/// `OutOfRange` if one is negative or no number; `TooFew` without any.
pub fn tail(times_s: &[f64]) -> Result<Tail> {
    let mut sorted = Vec::with_capacity(times_s.len());
    for &time_s in times_s {
        sorted.push(not_negative("time", time_s)?);
    }
    sorted.sort_by(f64::total_cmp);
    let Some(&max_s) = sorted.last() else {
        return Err(ModelError::TooFew { have: 0, need: 1 });
    };
    let rank = |percent| nearest_rank(&sorted, percent);
    let p99_bound_s = longer_than_bound(sorted.len()).map(|longer| sorted[sorted.len() - 1 - longer]);
    Ok(Tail { count: sorted.len(), p50_s: rank(50), p90_s: rank(90), p99_s: rank(99), p99_bound_s, max_s })
}

/// How many of `count` independent times may be longer than one that bounds P99 from above with 95 % confidence (one
/// side, by order statistics; David & Nagaraja, *Order Statistics*, 7.1): the most of which no more are beyond P99 with
/// a probability of at most [`DOUBT`]. `None` of too few times.
fn longer_than_bound(count: usize) -> Option<usize> {
    const BEYOND: f64 = 0.01;
    let all = count as f64;
    // The probability that exactly so many are beyond P99, as its logarithm: of many times that of none is too small
    // for a number.
    let mut exactly_ln = all * (1.0 - BEYOND).ln();
    let mut at_most = exactly_ln.exp();
    let mut longer = None;
    for beyond in 0..count {
        if at_most > DOUBT {
            break;
        }
        longer = Some(beyond);
        let done = beyond as f64;
        exactly_ln += ((all - done) / (done + 1.0) * (BEYOND / (1.0 - BEYOND))).ln();
        at_most += exactly_ln.exp();
    }
    longer
}

/// The smallest of `sorted` values such that `percent` of 100 are no larger (nearest rank). Not a number if there are
/// none.
pub fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// 003 section 4.1: 0.5 GB at 25 Gbit/s ideally take 0.16 s; more than 5 s under load; 0.2 s if scheduled.
    #[test]
    fn scores_of_figure_2() {
        let ideal = super::super::volume::time_s(0.5e9, 25e9).unwrap();
        assert!(speed_score(5.0, ideal).unwrap() > 31.0);
        assert!((speed_score(0.2, ideal).unwrap() - 1.25).abs() < 1e-9);
        assert!(speed_score(1.0, 0.0).is_err());
    }

    #[test]
    fn tiers_end_below_1_10_and_60_seconds() {
        for (time_s, tier) in [
            (0.98, Some(Tier::RealTime)),
            (1.0, Some(Tier::NearRealTime)),
            (9.9, Some(Tier::NearRealTime)),
            (10.0, Some(Tier::QuasiRealTime)),
            (60.0, None),
            (f64::NAN, None),
        ] {
            assert_eq!(Tier::of(time_s), tier, "{time_s}");
        }
    }

    #[test]
    fn ranks_are_measured_times() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let tail_of_hundred = tail(&hundred).unwrap();
        assert_eq!(
            (tail_of_hundred.p50_s, tail_of_hundred.p90_s, tail_of_hundred.p99_s, tail_of_hundred.max_s),
            (50.0, 90.0, 99.0, 100.0)
        );
        let one = tail(&[3.0]).unwrap();
        assert_eq!((one.p50_s, one.p99_s, one.max_s), (3.0, 3.0, 3.0));
        assert_eq!(tail(&[]), Err(ModelError::TooFew { have: 0, need: 1 }));
        assert!(tail(&[1.0, f64::NAN]).is_err());
    }

    /// By hand: 0.99^299 = 0.0495; of 473 times none or one is beyond P99 with 0.0498.
    #[test]
    fn a_bound_of_p99_is_one_of_at_least_299_times() {
        let bound_s = |count: u32| {
            let times: Vec<f64> = (1..=count).map(f64::from).collect();
            tail(&times).unwrap().p99_bound_s
        };
        for (count, bound) in [
            (1, None),
            (100, None),
            (298, None),
            (299, Some(299.0)),
            (472, Some(472.0)),
            (473, Some(472.0)),
            (1000, Some(996.0)),
        ] {
            assert_eq!(bound_s(count), bound, "{count}");
        }
        // Of so many P99 is nearly measured: 1.645 x sqrt(1e5 x 0.01 x 0.99) = 52 ranks beyond it.
        let many = bound_s(100_000).unwrap();
        assert!((99_048.0..99_056.0).contains(&many), "{many}");
    }

    proptest! {
        #[test]
        fn a_score_has_no_unit_and_grows_with_the_worst_alone(
            worst in 0.0..1e4, ideal in 1e-6..1e4, by in 1.0..100.0
        ) {
            let score = speed_score(worst, ideal).unwrap();
            prop_assert!(is_near(speed_score(worst * by, ideal * by).unwrap(), score, 1e-9));
            prop_assert!(is_near(speed_score(ideal * by, ideal).unwrap(), by, 1e-9));
            prop_assert!(speed_score(worst * by, ideal).unwrap() >= score);
            prop_assert!(speed_score(worst, ideal * by).unwrap() <= score);
        }

        #[test]
        fn ranks_are_in_order_and_among_the_times(times in proptest::collection::vec(0.0..1e6, 1..600)) {
            let tail = tail(&times).unwrap();
            prop_assert!(tail.p50_s <= tail.p90_s && tail.p90_s <= tail.p99_s && tail.p99_s <= tail.max_s);
            for rank in [tail.p50_s, tail.p90_s, tail.p99_s, tail.max_s].into_iter().chain(tail.p99_bound_s) {
                prop_assert!(times.contains(&rank));
            }
            prop_assert_eq!(tail.p99_bound_s.is_some(), times.len() >= TIMES_FOR_P99);
            prop_assert!(tail.p99_bound_s.is_none_or(|bound_s| bound_s >= tail.p99_s));
        }
    }
}
