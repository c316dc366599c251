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
    /// Degrees of freedom that `sd_ln` has; not asked of what nobody observed (a count of 0).
    pub freedom: f64,
}

/// Observations that the prior counts for.
pub const PRIOR_WEIGHT: f64 = 4.0;
/// Standard deviation of the logarithm before anything is known of it: times differ by a third from run to run.
pub const PRIOR_SPREAD: f64 = 0.3;
/// By how much what a copy costs differs from what a probe of its way found, as a standard deviation of the logarithm:
/// the root mean square of the errors of all copies of `thalweg bench predict`. Most of it is of the way, which a probe
/// knows too well or too little, and the same from one copy to the next; what copies of a way differ by is in it too.
/// Measured: docs/measurements.md, how far copies differ from predictions.
pub const PROBED_SPREAD: f64 = 0.46;
/// So many ways that is of: the degrees of freedom that it has, as its mean is taken to be nothing.
const PROBED_WAYS: f64 = 6.0;
/// What a stream may have under way before the first answer: ten segments (RFC 6928).
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;
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
        let freedom = PRIOR_WEIGHT + n - 1.0;
        let variance = (PRIOR_WEIGHT * PRIOR_SPREAD.powi(2) + squares) / freedom;
        let sd_ln = (variance * (1.0 + 1.0 / n)).sqrt().min(SPREAD_MAX);
        Some(Known { mean_ln, sd_ln, count, freedom })
    }

    /// One that was measured once, with the spread that it showed as a standard deviation of the logarithm.
    pub fn measured(cost: f64, spread: f64) -> Known {
        // By it and the next one.
        let sd_ln = (spread.max(PRIOR_SPREAD) * std::f64::consts::SQRT_2).min(SPREAD_MAX);
        Known { mean_ln: cost.max(FLOOR_S).ln(), sd_ln, count: 1, freedom: PRIOR_WEIGHT }
    }

    /// What a probe found of it, with the spread that it showed as a standard deviation of the logarithm.
    pub fn probed(cost: f64, spread: f64) -> Known {
        let sd_ln = PROBED_SPREAD.max(spread * std::f64::consts::SQRT_2).min(SPREAD_MAX);
        Known { mean_ln: cost.max(FLOOR_S).ln(), sd_ln, count: 1, freedom: PROBED_WAYS }
    }

    /// The same where each costs so much more, in seconds; 0 or more.
    fn and(self, more_s: f64) -> Known {
        Known { mean_ln: (self.median() + more_s).ln(), ..self }
    }

    /// The median, in seconds.
    pub fn median(&self) -> f64 {
        self.mean_ln.exp()
    }

    /// Degrees of freedom that [`Known::sd_ln`] has; what nobody observed is as it was said to be.
    pub(super) fn freedom(&self) -> f64 {
        if self.count == 0 { f64::INFINITY } else { self.freedom }
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

/// What the first bytes of a transfer take longer than at the full rate, in seconds, as TCP has to find that out:
/// `rtt (log2(W / W_0) - 1)`, and at least 0. What is under way doubles in each round trip, from an initial window
/// `W_0` (RFC 6928) up to `W`, which fills the path (rate x rtt), or is all of the content if that is less. What came
/// meanwhile is one window. Valid of one stream without loss; of more it is less by `rtt log2(streams)`.
/// `bytes_per_s`: positive.
pub fn slow_start_s(bytes_per_s: f64, bytes: f64, rtt_s: f64) -> f64 {
    let window_bytes = (bytes_per_s * rtt_s).min(bytes).max(INITIAL_WINDOW_BYTES);
    rtt_s * ((window_bytes / INITIAL_WINDOW_BYTES).log2() - 1.0).max(0.0)
}

impl Knowledge {
    /// The same, with a start and an end as they are usual where no transfer has shown them, each by a factor of four
    /// or five either way (95 %); and where none has, what is known of a byte is a rate to which slow start comes.
    #[must_use]
    pub fn completed(self, rtt_s: f64, work: &Work) -> Knowledge {
        const UNKNOWN: f64 = 0.55;
        let [start, end] =
            usual_s(rtt_s).map(|seconds| Some(Known { count: 0, ..Known::measured(seconds, UNKNOWN) }));
        let byte = match self.byte {
            Some(byte) if self.start.is_none() && work.bytes > 0.0 => {
                let slow_s = slow_start_s(1.0 / byte.median(), work.bytes, rtt_s);
                Some(byte.and(slow_s / work.bytes))
            }
            byte => byte,
        };
        Knowledge { start: self.start.or(start), end: self.end.or(end), byte, ..self }
    }

    /// Whether the rate of such bytes is known: it was seen, or their rate limit was kept up to before.
    pub fn knows_bytes(&self, work: &Work) -> bool {
        self.byte.is_some() || work.bytes_per_s_max.is_some_and(|limit| self.carries(work.bytes, limit))
    }

    /// Whether anything is known of bytes here, be it only that a limit was kept up to, or that they took no time.
    pub(super) fn has_seen_bytes(&self) -> bool {
        self.byte.is_some() || self.byte_limited.is_some() || self.bytes_quick.amount > 0.0
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

    /// What it showed of itself counts where that is more than what probes are known to be off by.
    #[test]
    fn a_probe_is_as_unsure_as_probes_were_seen_to_be_or_as_it_was_itself() {
        let even = Known::probed(2.0, 0.01);
        assert!(is_near(even.sd_ln, PROBED_SPREAD, 1e-9) && is_near(even.median(), 2.0, 1e-9));
        assert_eq!((even.count, even.freedom()), (1, PROBED_WAYS));
        assert!(is_near(Known::probed(2.0, 0.5).sd_ln, 0.5 * 2f64.sqrt(), 1e-9));
        assert_eq!(Known::probed(1.0, 1e9).sd_ln, SPREAD_MAX);
    }

    /// By hand: 1 Gbit/s over 50 ms is 6.25 MB under way, 428 initial windows or 8.74 doublings.
    #[test]
    fn slow_start_costs_a_round_trip_for_each_doubling_but_one() {
        assert!(is_near(slow_start_s(1.25e8, 1e9, 0.05), 0.05 * 7.742, 1e-3));
        // Less content than fills the path: 1 MB is 6.1 doublings.
        assert!(is_near(slow_start_s(1.25e8, 1e6, 0.05), 0.05 * 5.098, 1e-3));
        for nothing in
            [slow_start_s(1.25e8, 1e9, 0.0), slow_start_s(1e6, 1e9, 0.01), slow_start_s(1e9, 0.0, 1.0)]
        {
            assert_eq!(nothing, 0.0);
        }
    }

    #[test]
    fn slow_start_is_added_to_a_rate_that_no_transfer_has_shown_and_to_no_other() {
        let work = Work { bytes: 1e9, ..Work::default() };
        let probed = Knowledge { byte: Some(Known::probed(8e-9, 0.1)), ..Knowledge::default() };
        let byte_s = |knowledge: Knowledge| knowledge.completed(0.05, &work).byte.unwrap().median();
        assert!(is_near(byte_s(probed), 8e-9 + slow_start_s(1.25e8, 1e9, 0.05) / 1e9, 1e-9));
        let seen = Knowledge { start: Known::of(&[0.2]), byte: Known::of(&[8e-9]), ..probed };
        assert!(is_near(byte_s(seen), 8e-9, 1e-9));
        assert_eq!(probed.completed(0.05, &Work::default()).byte, probed.byte);
    }
}
