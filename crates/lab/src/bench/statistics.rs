//! What is said of a handful of samples: mean, median, how sure it is, spread, percentiles, ratios within a round.
//! Pure.

use serde::Serialize;
use std::collections::BTreeMap;
use thalweg_mover::model::score::nearest_rank;

/// Values of one thing, by the number of the round.
pub type Series = BTreeMap<usize, f64>;

/// How sure an interval must be.
pub const CONFIDENCE: f64 = 0.95;

/// Between which two values the median lies, and how surely (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Probability that the median of what was drawn from is between them.
    pub confidence: f64,
}

impl Interval {
    /// Whether the two have no value in common: the medians differ, as surely as the less sure of the two intervals is.
    /// Of a single value nothing is sure.
    pub fn is_apart_from(&self, other: &Interval) -> bool {
        let is_sure = self.confidence > 0.0 && other.confidence > 0.0;
        is_sure && (self.low > other.high || other.low > self.high)
    }
}

/// By this factor a difference of two copies may be above what the line carries: of copies that fill it for ten
/// seconds, start and end of a program are known to some 10 ms.
const ABOVE_THE_LINE_MAX: f64 = 1.001;

/// What a copy that is the longer one of two, in bytes and seconds each, carries in a second after its start: of what
/// it has more, in the time that it takes longer; what both have (handshakes, slow start, the end) cancels. `None` if
/// it does not take longer by a tenth: the rest would be noise. `None` too if it is more than `line_bytes_per_s`, the
/// payload that the line carries in a second: what both have was not the same.
pub fn rate_after_start(long: (u64, f64), short: (u64, f64), line_bytes_per_s: f64) -> Option<f64> {
    let (bytes, seconds) = (long.0.saturating_sub(short.0), long.1 - short.1);
    let bytes_per_s = bytes as f64 / seconds;
    let is_known = seconds > 0.1 * long.1 && bytes_per_s <= ABOVE_THE_LINE_MAX * line_bytes_per_s;
    is_known.then_some(bytes_per_s)
}

/// All of it, of the same values and in their unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// The middle one.
    pub median: f64,
    /// Of the sample (n - 1 below); none of a single value.
    pub standard_deviation: Option<f64>,
    /// Of the median: see [`median_interval`].
    pub interval: Interval,
    /// Half of them are no larger, by nearest rank.
    pub p50: f64,
    /// Nine of ten are no larger.
    pub p90: f64,
    /// 99 of 100 are no larger; of fewer than 100 the largest.
    pub p99: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of values that are numbers; none for no values.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (interval, &min, &max) = (median_interval(values)?, sorted.first()?, sorted.last()?);
        Some(Summary {
            count: values.len(),
            mean: mean(values),
            median: median(values),
            standard_deviation: standard_deviation(values),
            interval,
            p50: nearest_rank(&sorted, 50),
            p90: nearest_rank(&sorted, 90),
            p99: nearest_rank(&sorted, 99),
            min,
            max,
        })
    }
}

/// The arithmetic mean; not a number if there are none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of the sample: the root of the sum of squared distances from the mean over n - 1. None below two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The middle value, of an even number the mean of the middle two; not a number if there are none.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// The narrowest pair of order statistics, equally far from both ends, between which the median of what was drawn from
/// lies with 95 % confidence; the smallest and the largest, with what confidence they give, where there are too few. No
/// assumption about the distribution: the number of values below the median is binomial with 1/2 (David & Nagaraja,
/// Order Statistics, 7.1). None for no values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let count = sorted.len();
    let mut best = None;
    for (cut, below) in (0..count.div_ceil(2)).zip(tails(count)) {
        let confidence = 1.0 - 2.0 * below;
        if cut > 0 && confidence < CONFIDENCE {
            break;
        }
        best = Some(Interval { low: sorted[cut], high: sorted[count - 1 - cut], confidence });
    }
    best
}

/// Largest over smallest; 1 is no spread.
pub fn spread(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match (sorted.first(), sorted.last()) {
        (Some(least), Some(most)) => most / least,
        _ => f64::NAN,
    }
}

/// `above / below` of each round in which both ran: what drifts during the runs cancels out.
pub fn ratios(above: &Series, below: &Series) -> Vec<f64> {
    above.iter().filter_map(|(round, value)| below.get(round).map(|other| value / other)).collect()
}

/// The values alone.
pub fn values(series: &Series) -> Vec<f64> {
    series.values().copied().collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// That of `count` throws of a coin at most 0, 1, 2, … are heads. Terms are held as a number and a power of two:
/// 1/2^1100 is no number of 64 bits.
fn tails(count: usize) -> impl Iterator<Item = f64> {
    const STEP: i32 = 512;
    let mut power = -i32::try_from(count).unwrap_or(i32::MAX);
    let (mut term, mut sum) = (1.0f64, 0.0);
    (0..=count).map(move |heads| {
        if heads > 0 {
            term *= (count + 1 - heads) as f64 / heads as f64;
        }
        if term > 2f64.powi(STEP) {
            (term, power) = (term * 0.5f64.powi(STEP), power + STEP);
        }
        sum += term * 2f64.powi(power);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn seven_runs_give_their_ends_and_nine_one_less_on_each_side() {
        let seven: Vec<f64> = (1..=7).map(f64::from).collect();
        let interval = median_interval(&seven).unwrap();
        // 1 - 2 / 2^7; one less on each side would have 1 - 2 * 8 / 2^7 = 0.875.
        assert_eq!((interval.low, interval.high, interval.confidence), (1.0, 7.0, 1.0 - 2.0 / 128.0));
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        let interval = median_interval(&nine).unwrap();
        // 1 - 2 * (1 + 9) / 2^9
        assert_eq!((interval.low, interval.high, interval.confidence), (2.0, 8.0, 1.0 - 20.0 / 512.0));
    }

    #[test]
    fn twenty_runs_give_the_published_order_statistics() {
        // Tables of the sign test: n = 20, the 6th and the 15th, 95.86 %.
        let twenty: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let interval = median_interval(&twenty).unwrap();
        assert_eq!((interval.low, interval.high), (6.0, 15.0));
        assert!((interval.confidence - 0.9586).abs() < 1e-4, "{interval:?}");
    }

    /// Beyond 1074 throws one half to their power is no number of 64 bits, and with 100,000 nobody waits for a sum over
    /// sums.
    #[test]
    fn of_many_values_the_interval_is_that_of_the_normal_distribution() {
        for count in [1000, 1074, 1075, 3000, 100_000] {
            let values: Vec<f64> = (1..=count).map(f64::from).collect();
            let interval = median_interval(&values).unwrap();
            // n/2 - 0.98 sqrt(n), in ranks.
            let rank = f64::from(count) / 2.0 - 0.98 * f64::from(count).sqrt();
            assert!((interval.low - rank).abs() < 2.0, "{count}: {interval:?}, {rank}");
            assert_eq!(interval.low + interval.high, f64::from(count) + 1.0);
            assert!((0.95..0.96).contains(&interval.confidence), "{count}: {interval:?}");
        }
    }

    #[test]
    fn too_few_runs_say_how_little_they_prove() {
        let interval = median_interval(&[2.0, 1.0, 3.0]).unwrap();
        assert_eq!((interval.low, interval.high, interval.confidence), (1.0, 3.0, 0.75));
        assert_eq!(median_interval(&[5.0]).unwrap().confidence, 0.0);
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_only_where_both_ran() {
        let above = Series::from([(1, 2.0), (2, 40.0), (3, 9.0)]);
        let below = Series::from([(1, 1.0), (2, 20.0)]);
        assert_eq!(ratios(&above, &below), [2.0, 2.0]);
        assert_eq!(spread(&[2.0, 1.0, 4.0]), 4.0);
        assert!(spread(&[]).is_nan());
    }

    #[test]
    fn a_difference_of_two_copies_is_no_rate_if_it_is_noise_or_more_than_the_line_carries() {
        let of = |long_s, short_s| rate_after_start((400, long_s), (100, short_s), 100.0);
        assert_eq!(of(5.0, 2.0), Some(100.0), "all that the line carries");
        assert_eq!(of(5.0, 2.002), Some(300.0 / (5.0 - 2.002)), "as far as the time is known");
        assert_eq!((of(5.0, 2.1), of(4.0, 3.9), of(4.0, 4.5)), (None, None, None));
    }

    #[test]
    fn a_summary_has_figures_that_can_be_checked_by_hand() {
        let eight = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let summary = Summary::of(&eight).unwrap();
        // Squared distances from 5: 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32.
        assert_eq!((summary.mean, summary.standard_deviation), (5.0, Some((32.0f64 / 7.0).sqrt())));
        assert_eq!((summary.median, summary.p50, summary.p90, summary.max), (4.5, 4.0, 9.0, 9.0));
        assert_eq!(Summary::of(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(Summary::of(&[]), None);
    }

    proptest! {
        #[test]
        fn figures_are_in_order_whatever_the_values(values in proptest::collection::vec(-1e9..1e9, 1..200)) {
            let summary = Summary::of(&values).unwrap();
            prop_assert!(summary.min <= summary.p50 && summary.p50 <= summary.p90);
            prop_assert!(summary.p90 <= summary.p99 && summary.p99 <= summary.max);
            let interval = summary.interval;
            prop_assert!(interval.low <= summary.median && summary.median <= interval.high);
            prop_assert!((0.0..=1.0).contains(&interval.confidence));
        }
    }
}
