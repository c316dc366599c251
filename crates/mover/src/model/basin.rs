//! The whole way as a row of stages that all work at once: what it carries, by the capacity of each (000 sections II
//! and III-B, 004 section II).
//!
//! This predicts from capacities that are known beforehand. What was narrow in a transfer that took place is judged
//! from its accounts, in `crate::basin`.

use super::{ModelError, Result, not_negative, positive};
use serde::Serialize;

/// A stage of the way: storage, a host, a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// The most that it carries, in bits a second; positive.
    pub capacity_bits_per_s: f64,
    /// How long a byte is in it, in seconds; 0 or more.
    pub latency_s: f64,
}

/// A stage beside the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Width {
    /// How many times as wide as the narrowest.
    pub times_narrowest: f64,
    /// Growth of the whole rate for each per cent that this stage is widened, in per cent: 1 of the only narrowest, 0
    /// of all others.
    pub sensitivity: f64,
    /// The rate of the whole way, in bits a second, if this stage were infinitely wide.
    pub rate_without_bits_per_s: f64,
    /// Bytes that must be in it at once to keep the rate: rate x latency. Fewer, for want of requests or of a window,
    /// and this stage is narrower than its capacity.
    pub in_flight_bytes: f64,
}

/// What a way carries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Basin {
    /// Place of the narrowest stage in the row; the first of several.
    pub narrowest: usize,
    /// What the way carries, in bits a second.
    pub rate_bits_per_s: f64,
    /// How long a byte is under way, in seconds.
    pub latency_s: f64,
    /// One for each stage, in their order.
    pub widths: Vec<Width>,
}

/// The basin of a row of stages.
///
/// # Errors
/// `TooFew` without any; `OutOfRange`.
pub fn basin(stages: &[Stage]) -> Result<Basin> {
    let mut latency_s = 0.0;
    for stage in stages {
        positive("capacity", stage.capacity_bits_per_s)?;
        latency_s += not_negative("latency", stage.latency_s)?;
    }
    let capacities = || stages.iter().map(|stage| stage.capacity_bits_per_s);
    let Some((narrowest, rate)) = capacities().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Err(ModelError::TooFew { have: 0, need: 1 });
    };
    let width = |(at, stage): (usize, &Stage)| {
        let others = capacities().enumerate().filter(|&(other, _)| other != at).map(|(_, capacity)| capacity);
        let rate_without_bits_per_s = others.fold(f64::INFINITY, f64::min);
        Width {
            times_narrowest: stage.capacity_bits_per_s / rate,
            sensitivity: f64::from(u8::from(rate_without_bits_per_s > rate)),
            rate_without_bits_per_s,
            in_flight_bytes: rate * stage.latency_s / 8.0,
        }
    };
    let widths = stages.iter().enumerate().map(width).collect();
    Ok(Basin { narrowest, rate_bits_per_s: rate, latency_s, widths })
}

impl Basin {
    /// Seconds for so many bytes: the latency of the way, then the narrowest stage's time.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn time_s(&self, bytes: f64) -> Result<f64> {
        Ok(self.latency_s + super::volume::time_s(bytes, self.rate_bits_per_s)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    fn stage(name: &str, gbit: f64, latency_s: f64) -> Stage {
        Stage { name: name.to_owned(), capacity_bits_per_s: gbit * 1e9, latency_s }
    }

    /// 000 section III-B: 1 PB over a line of 100 Gbit/s, from hardware limited to 80: at 76.63 it took 29 h.
    #[test]
    fn a_wider_line_would_not_have_helped_the_petabyte() {
        let stages = [stage("storage", 120.0, 0.001), stage("hosts", 80.0, 0.0), stage("line", 100.0, 0.037)];
        let basin = basin(&stages).unwrap();
        assert_eq!(basin.narrowest, 1);
        assert_eq!(basin.rate_bits_per_s, 80e9);
        assert_eq!(basin.widths.iter().map(|width| width.sensitivity).collect::<Vec<_>>(), [0.0, 1.0, 0.0]);
        assert_eq!(basin.widths[2].rate_without_bits_per_s, 80e9, "paradigm 4: bandwidth is not the rate");
        assert_eq!(basin.widths[1].rate_without_bits_per_s, 100e9);
        assert!(basin.time_s(1e15).unwrap() / 3600.0 < 29.0);
        assert_eq!(basin.widths[2].in_flight_bytes, 80e9 * 0.037 / 8.0);
    }

    /// 001 section 3.3: 12 hosts of 10 Gbit/s each before a line of 100; section 4: verification reads all again, so 93
    /// Gbit/s want 186 of the source's storage.
    #[test]
    fn hosts_and_storage_of_a_petabyte_a_day() {
        let with = |hosts: f64, read: f64| {
            let stages =
                [stage("read", read, 0.0), stage("hosts", hosts * 10.0, 0.0), stage("line", 100.0, 0.003)];
            basin(&stages).unwrap()
        };
        assert!(with(12.0, 186.0).rate_bits_per_s >= 93e9);
        assert!(with(9.0, 186.0).rate_bits_per_s < 93e9, "at least 10 hosts");
        assert_eq!(with(12.0, 186.0 / 2.0).narrowest, 0, "read twice, storage is the narrowest");
    }

    /// 004 sections II and IV: storage of 829 MB/s before an OC192 of 9.6 Gbit/s.
    #[test]
    fn five_stages_of_004() {
        let stages = [
            stage("source storage", 829e6 * 8.0 / 1e9, 0.0),
            stage("source host", 10.0, 0.0),
            stage("network", 9.6, 0.0814),
            stage("destination host", 10.0, 0.0),
            stage("destination storage", 8.0, 0.0),
        ];
        let basin = basin(&stages).unwrap();
        assert_eq!(basin.narrowest, 0);
        assert!(is_near(basin.widths[0].rate_without_bits_per_s, 8e9, 1e-12), "then the writes");
    }

    #[test]
    fn two_equally_narrow_stages_gain_only_together() {
        let basin = basin(&[stage("a", 1.0, 0.0), stage("b", 1.0, 0.0)]).unwrap();
        assert!(basin.widths.iter().all(|width| width.sensitivity == 0.0));
        assert!(super::basin(&[]).is_err() && super::basin(&[stage("a", 0.0, 0.0)]).is_err());
    }

    proptest! {
        #[test]
        fn the_rate_is_the_least_and_widening_never_harms(
            gbits in proptest::collection::vec(0.001..1000.0, 1..8), at in 0_usize..8, by in 1.0..10.0
        ) {
            let stages: Vec<Stage> = gbits.iter().map(|&gbit| stage("s", gbit, 0.01)).collect();
            let before = basin(&stages).unwrap();
            for width in &before.widths {
                prop_assert!(width.times_narrowest >= 1.0);
                prop_assert!(width.rate_without_bits_per_s >= before.rate_bits_per_s);
            }
            let mut wider = stages.clone();
            let at = at % stages.len();
            wider[at].capacity_bits_per_s *= by;
            let after = basin(&wider).unwrap().rate_bits_per_s;
            prop_assert!(after >= before.rate_bits_per_s);
            prop_assert!(after <= before.widths[at].rate_without_bits_per_s.max(before.rate_bits_per_s * by));
        }
    }
}
