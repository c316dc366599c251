//! What is known of a way: its unit costs, each as a log-normal.

use super::{BYTES_FREE, LIMIT_MISSED_MAX, Work};
use serde::{Deserialize, Serialize};

/// What is known of a unit cost, in logarithms of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Mean.
    pub mean_ln: f64,
    /// Standard deviation of the next one.
    pub sd_ln: f64,
    /// Observations.
    pub count: usize,
}

/// Observations that the prior counts for.
pub const PRIOR_WEIGHT: f64 = 4.0;
/// Standard deviation of the logarithm before anything is known of it: times differ by a third from run to run.
pub const PRIOR_SPREAD: f64 = 0.3;
/// The most that costs of one way are taken to differ by, as a standard deviation of the logarithm: one in six more
/// than four times the median. What was further apart was of another kind, and a log-normal as wide as that has a mean
/// that no transfer ever takes.
pub const SPREAD_MAX: f64 = 1.5;
/// Seconds and unit costs below this are nothing: logarithms need a floor.
pub(super) const FLOOR_S: f64 = 1e-15;

impl Known {
    /// From observed unit costs, in seconds; `None` without any.
    pub fn of(observed: &[f64]) -> Option<Known> {
        let logs: Vec<f64> =
            observed.iter().filter(|cost| cost.is_finite()).map(|cost| cost.max(FLOOR_S).ln()).collect();
        let count = logs.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean_ln = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean_ln).powi(2)).sum();
        let variance = (PRIOR_WEIGHT * PRIOR_SPREAD.powi(2) + squares) / (PRIOR_WEIGHT + n - 1.0);
        let sd_ln = (variance * (1.0 + 1.0 / n)).sqrt().min(SPREAD_MAX);
        Some(Known { mean_ln, sd_ln, count })
    }

    /// One that was measured once, with the spread that it showed as a standard deviation of the logarithm.
    pub fn measured(cost: f64, spread: f64) -> Known {
        // By it and the next one.
        let sd_ln = (spread.max(PRIOR_SPREAD) * std::f64::consts::SQRT_2).min(SPREAD_MAX);
        Known { mean_ln: cost.max(FLOOR_S).ln(), sd_ln, count: 1 }
    }

    /// The median, in seconds.
    pub fn median(&self) -> f64 {
        self.mean_ln.exp()
    }

    /// Degrees of freedom that [`Known::sd_ln`] has; what nobody observed is as it was said to be.
    pub(super) fn freedom(&self) -> f64 {
        if self.count == 0 { f64::INFINITY } else { PRIOR_WEIGHT + self.count as f64 - 1.0 }
    }
}

/// What passed too quickly to be told from start and end by a clock.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Quick {
    /// Bytes or entries.
    pub amount: f64,
    /// What they took by what their stages worked, in seconds.
    pub seconds: f64,
}

impl Quick {
    /// What one of them costs where there are no more of them; `None` where that is nothing, or not known.
    pub(super) fn cost(self, amount: f64) -> Option<Known> {
        (amount <= self.amount && self.seconds > 0.0)
            .then(|| Known::measured(self.seconds / self.amount, PRIOR_SPREAD))
    }
}

/// What is known of a way; costs in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Knowledge {
    /// Start-up.
    pub start: Option<Known>,
    /// For each entry.
    pub entry: Option<Known>,
    /// For each byte.
    pub byte: Option<Known>,
    /// For each byte read back.
    pub back: Option<Known>,
    /// After the last byte.
    pub end: Option<Known>,
    /// A byte costs no more than this: so it came where a rate limit was the bound.
    #[serde(default)]
    pub byte_limited: Option<f64>,
    /// The most bytes that are known to pass so.
    #[serde(default)]
    pub bytes_quick: Quick,
    /// The most entries likewise.
    #[serde(default)]
    pub entries_quick: Quick,
}

/// What a start and an end mostly take, in seconds: dialling and TLS four round trips and some computing, the last
/// round of syncs half a second.
pub fn usual_s(rtt_s: f64) -> [f64; 2] {
    [0.1, 0.5].map(|seconds| seconds + 4.0 * rtt_s)
}

impl Knowledge {
    /// The same, with a start and an end as they are usual where no transfer has shown them; each by a factor of four
    /// or five either way (95 %).
    #[must_use]
    pub fn completed(self, rtt_s: f64) -> Knowledge {
        const UNKNOWN: f64 = 0.55;
        let [start, end] =
            usual_s(rtt_s).map(|seconds| Some(Known { count: 0, ..Known::measured(seconds, UNKNOWN) }));
        Knowledge { start: self.start.or(start), end: self.end.or(end), ..self }
    }

    /// Whether the rate of such bytes is known: it was seen, or their rate limit was kept up to before.
    pub fn knows_bytes(&self, work: &Work) -> bool {
        self.byte.is_some() || work.bytes_per_s_max.is_some_and(|limit| self.carries(work.bytes, limit))
    }

    /// Whether so many bytes are known to pass as fast as a limit lets them, in bytes a second.
    pub(super) fn carries(&self, bytes: f64, bytes_per_s: f64) -> bool {
        bytes <= BYTES_FREE.max(self.bytes_quick.amount)
            || self.byte_limited.is_some_and(|cost| cost * bytes_per_s <= LIMIT_MISSED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;

    /// By hand: one observation knows nothing of its spread, so 0.3 x sqrt(2); four equal ones 0.3 x sqrt(4/7 x 5/4).
    #[test]
    fn few_observations_are_not_certain() {
        assert_eq!(Known::of(&[]), None);
        assert!(is_near(Known::of(&[2.0]).unwrap().sd_ln, 0.3 * 2f64.sqrt(), 1e-9));
        let four = Known::of(&[2.0; 4]).unwrap();
        assert!(is_near(four.sd_ln, 0.3 * (5.0f64 / 7.0).sqrt(), 1e-9) && is_near(four.median(), 2.0, 1e-9));
        assert!(Known::of(&[1.0, 2.0, 4.0]).unwrap().sd_ln > Known::of(&[2.0; 3]).unwrap().sd_ln);
        // Bounded, whatever was observed.
        assert_eq!(Known::of(&[1e-15, 1.0]).unwrap().sd_ln, SPREAD_MAX);
        assert_eq!(Known::measured(1.0, 1e9).sd_ln, SPREAD_MAX);
    }
}
