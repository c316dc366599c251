//! One measurement, and what can be asked of it.

use super::quantity::{Quantity, UNITS, keep_in_base_unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Several measurements of one thing within a sample: times of transfers, lags, latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Of each value.
    pub unit: String,
    /// In the order in which they came.
    pub values: Vec<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Which line of a plot: samples of one series differ in their parameters and runs only.
    pub series: String,
    /// What was set: values of x axes among them (`rtt`, `file_size`, `streams`, …).
    pub parameters: BTreeMap<String, Quantity>,
    /// Round, the first is 1.
    pub run: u32,
    /// Place among all samples of the file, the first is 1: how they were interleaved.
    pub order: u32,
    /// Payload, 10^0 bytes.
    pub bytes: u64,
    /// Files that held it.
    pub files: u64,
    /// From start to end, making the copy durable included.
    pub wall_s: f64,
    /// CPU of all processes of both sides, user and system; `None` where it could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// What else was measured, one number each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Quantity>,
    /// What else was measured, many numbers each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Distribution>,
    /// What a law says `measured` or `wall_s` should be, under the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predicted: BTreeMap<String, Quantity>,
    /// What the emulated path itself cost, in CPU seconds for 10^9 bytes carried: not in `cpu_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_cpu_s_per_gb: Option<f64>,
}

impl Sample {
    /// Whether all of its figures can have been measured.
    ///
    /// # Errors
    /// The one that cannot.
    pub fn check(&self) -> Result<(), String> {
        let is_figure = |value: &f64| {
            *value == 0.0 || (value.is_finite() && (FIGURE_MIN..=FIGURE_MAX).contains(&value.abs()))
        };
        let numbers = [&self.parameters, &self.measured, &self.predicted].into_iter().flatten();
        let numbers = numbers.filter_map(|(name, quantity)| Some((name.as_str(), quantity.value()?)));
        let many = self
            .distributions
            .iter()
            .flat_map(|(name, one)| one.values.iter().map(move |value| (name.as_str(), *value)));
        let own = [Some(("wall_s", self.wall_s)), self.cpu_s.map(|cpu_s| ("cpu_s", cpu_s))];
        let own =
            own.into_iter().flatten().chain(self.wire_cpu_s_per_gb.map(|cost| ("wire_cpu_s_per_gb", cost)));
        match numbers.chain(many).chain(own).find(|(_, value)| !is_figure(value)) {
            Some((name, value)) => Err(format!("`{}` cannot be {value:e}", name.escape_debug())),
            None if self.wall_s <= 0.0 => {
                Err(format!("`wall_s` must be more than 0, and is {}", self.wall_s))
            }
            None => {
                let costs = [("cpu_s", self.cpu_s), ("wire_cpu_s_per_gb", self.wire_cpu_s_per_gb)];
                match costs.into_iter().find(|(_, cost)| cost.is_some_and(|cost| cost < 0.0)) {
                    Some((name, _)) => Err(format!("`{name}` cannot be less than 0")),
                    None => Ok(()),
                }
            }
        }
    }

    /// The same with its quantities in seconds, bytes, bits a second and plain numbers.
    ///
    /// # Errors
    /// The parameter whose unit is not known: axes are made of them. What was measured may be in any.
    pub fn in_base_units(mut self) -> Result<Sample, String> {
        for (name, quantity) in &mut self.parameters {
            if let Quantity::Number { value, unit } = quantity
                && !keep_in_base_unit(std::iter::once(value), unit)
            {
                let known: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
                let (name, unit, known) = (name.escape_debug(), unit.escape_debug(), known.join(", "));
                return Err(format!("`{name}` is in `{unit}`; units of parameters are {known}"));
            }
        }
        for quantity in self.measured.values_mut().chain(self.predicted.values_mut()) {
            if let Quantity::Number { value, unit } = quantity {
                keep_in_base_unit(std::iter::once(value), unit);
            }
        }
        for distribution in self.distributions.values_mut() {
            keep_in_base_unit(distribution.values.iter_mut(), &mut distribution.unit);
        }
        Ok(self)
    }

    /// Whether it was taken through an emulated path: each such sample says what that lost.
    pub fn is_emulated(&self) -> bool {
        self.measured.contains_key(LOST_BY_A_SLOW_MACHINE)
    }

    /// Whether its disks are simulated.
    pub fn is_simulated(&self) -> bool {
        self.series.contains(SIMULATED)
    }

    /// Whether the emulated path lost packets because this machine was too slow for it: then its figures are void.
    pub fn is_void(&self) -> bool {
        self.measured.get(LOST_BY_A_SLOW_MACHINE).and_then(Quantity::value).is_some_and(|lost| lost > 0.0)
    }

    /// Whether something that had to be exact was not: then its figures are of something that failed.
    pub fn is_wrong(&self) -> bool {
        self.measured.get(NOT_ACCOUNTED).and_then(Quantity::value).is_some_and(|frames| frames > 0.0)
    }

    /// Whether its figures count: they are neither void nor of something that failed. Whatever is made of several
    /// samples (a median, an interval, a law's error, a goal) is made of those for which this holds: see
    /// [`super::counting`].
    pub fn counts(&self) -> bool {
        !self.is_void() && !self.is_wrong()
    }

    /// Payload, in bits a second.
    pub fn rate_bits_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.wall_s
    }

    /// The rate that figures and tables show: where a suite has one of its own, as of what runs already, that one.
    pub fn shown_rate_bits_per_s(&self) -> f64 {
        self.measured.get(RATE).and_then(Quantity::value).unwrap_or_else(|| self.rate_bits_per_s())
    }

    /// CPU seconds of both sides for 10^9 bytes of payload.
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s.map(|cpu_s| cpu_s / (self.bytes as f64 / 1e9)))?
    }

    /// The number of a parameter.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name)?.value()
    }

    /// One more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: Quantity) -> Sample {
        self.parameters.insert(name.to_owned(), value);
        self
    }

    /// One more measured number.
    #[must_use]
    pub fn measured(mut self, name: &str, value: f64, unit: &str) -> Sample {
        self.measured.insert(name.to_owned(), Quantity::number(value, unit));
        self
    }

    /// One more distribution, of values in the order in which they came. Of more than [`VALUES_MAX`] some are kept:
    /// they lie evenly among all by their size, the smallest and the largest with them, so that percentiles stay; how
    /// many there were is a number of its own.
    #[must_use]
    pub fn distributed(self, name: &str, unit: &str, values: Vec<f64>) -> Sample {
        self.distributed_in(VALUES_MAX, name, unit, values)
    }

    /// The same, of at most `most` values, two or more: for a suite of many samples, whose result would be too large.
    #[must_use]
    pub fn distributed_in(self, most: usize, name: &str, unit: &str, values: Vec<f64>) -> Sample {
        let count = values.len();
        let values = thinned(values, most);
        let mut sample = match values.len() < count {
            true => self.measured(&format!("{name}_values"), count as f64, "1"),
            false => self,
        };
        sample.distributions.insert(name.to_owned(), Distribution { unit: unit.to_owned(), values });
        sample
    }

    /// One more number from a law.
    #[must_use]
    pub fn predicted(mut self, name: &str, value: f64, unit: &str) -> Sample {
        self.predicted.insert(name.to_owned(), Quantity::number(value, unit));
        self
    }
}

/// Figures are 0 or between these, whatever their sign: nothing that is measured is outside, and axes have ends.
const FIGURE_MIN: f64 = 1e-30;
const FIGURE_MAX: f64 = 1e30;

/// Measured: the rate that is meant, where that is not payload by time.
pub const RATE: &str = "rate";
/// Beside it, in older results of `latency`: the rate with the start. See [`super::Results::without_choice`].
pub const RATE_WITH_START: &str = "whole";

/// Among what is measured over an emulated path: packets that it lost because this machine was too slow for it.
pub const LOST_BY_A_SLOW_MACHINE: &str = "packets_lost_by_a_slow_machine";

/// In the names of series whose disks are simulated.
pub const SIMULATED: &str = "simulated";

/// Measured: frames of which it is not so that each is taken once as it was given, or named as lost once.
pub const NOT_ACCOUNTED: &str = "not_accounted";

/// Values of a distribution that a sample keeps at most, unless its suite says fewer: percentiles of them are off by
/// 1/4000 of their number.
pub const VALUES_MAX: usize = 4000;

fn thinned(values: Vec<f64>, most: usize) -> Vec<f64> {
    let most = most.max(2);
    if values.len() <= most {
        return values;
    }
    let mut by_size: Vec<usize> = (0..values.len()).collect();
    by_size.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let last = (values.len() - 1) as u128;
    let rank = |step: usize| (step as u128 * last / (most as u128 - 1)) as usize;
    let mut kept: Vec<usize> = (0..most).map(|step| by_size[rank(step)]).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| values[at]).collect()
}
