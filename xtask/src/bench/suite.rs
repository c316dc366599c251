//! The suites: one file for each question, with what is run and how it is told.

use crate::bench::record::Results;
use crate::bench::{Bench, copies};
use anyhow::Result;
use thalweg_lab::bench::MTU_BYTES;
use thalweg_lab::bench::record::PathKind;

mod limit;

pub mod large;

pub mod small;

mod distance;

mod distance_tools;

mod size;

mod verify;

mod auto;

mod tune;

mod fair;

mod compression;

pub mod beside_rsync;

pub mod beside_zeromq;

pub mod objects;

/// See the module.
pub struct Suite {
    /// As it is typed, and the name of its result file.
    pub name: &'static str,
    /// Its heading in docs/performance.md; none if it is told elsewhere.
    pub title: Option<&'static str>,
    /// The question that it answers, with the goals.
    pub asks: &'static str,
    /// How long it takes and how much of the disk, with its own number of runs.
    pub takes: &'static str,
    /// Counted runs, unless others are asked for.
    pub runs: usize,
    /// Over which path it runs.
    pub path: fn() -> PathKind,
    /// Scenario and tool of each row that a whole run has; none where a suite does not say.
    pub rows: fn() -> Vec<Row>,
    pub run: fn(&mut Bench<'_>) -> Result<()>,
    pub tell: fn(&Results) -> Result<String>,
}

/// Scenario and tool.
pub type Row = (&'static str, &'static str);

impl Suite {
    /// The first row that a result lacks, or that the suite has no more, in words: then it is not what the suite would
    /// give today. What it says it left out is not missing; one of which only a part was asked for is not held against
    /// the whole.
    pub fn difference(&self, results: &Results) -> Option<String> {
        let rows = (self.rows)();
        let is_part = [" --only", " --tool"].iter().any(|option| results.about.command.contains(option));
        if rows.is_empty() || is_part {
            return None;
        }
        let has = |(scenario, tool): Row| results.tools(scenario).contains(&tool);
        let is_left_out = |row: Row| results.left_out.iter().any(|line| line.what == copies::left_out(row));
        if let Some((scenario, tool)) = rows.iter().find(|row| !has(**row) && !is_left_out(**row)) {
            return Some(format!("lacks {tool} in `{scenario}`"));
        }
        for scenario in results.scenarios() {
            for tool in results.tools(scenario) {
                if !rows.contains(&(scenario, tool)) {
                    return Some(format!("has {tool} in `{scenario}`, as the suite has not any more"));
                }
            }
        }
        None
    }
}

/// Without an emulated path.
fn loopback() -> PathKind {
    PathKind::Loopback
}

/// An emulated path of this rate, if all samples have the same; distances and losses are told with the scenarios.
fn emulated(rate_bits_per_s: Option<u64>) -> PathKind {
    PathKind::Testbed { rtt_s: None, rate_bits_per_s, loss: None, mtu_bytes: MTU_BYTES }
}

/// All of them, in the order of the page.
pub const SUITES: [Suite; 15] = [
    limit::SUITE,
    large::SUITE,
    small::SUITE,
    distance::SUITE,
    distance_tools::SUITE,
    size::SUITE,
    verify::SUITE,
    auto::SUITE,
    tune::SUITE,
    fair::SUITE,
    compression::SUITE,
    beside_rsync::SUITE,
    beside_zeromq::SUITE,
    objects::SUITE,
    objects::distance::SUITE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Load;
    use crate::bench::workspace::Times;

    #[test]
    fn a_result_does_not_say_that_copies_over_a_distance_took_the_loopback() {
        for suite in SUITES {
            let is_far = ["distance", "distance-tools", "tune", "objects-distance"].contains(&suite.name);
            assert_eq!((suite.path)() == PathKind::Loopback, !is_far, "{}", suite.name);
        }
    }

    #[test]
    fn each_suite_that_has_figures_is_there() {
        for name in thalweg_lab::report::OF_CHORE {
            assert!(SUITES.iter().any(|suite| suite.name == *name), "{name}");
        }
    }

    #[test]
    fn a_page_can_be_made_of_results_in_which_everything_is_missing() {
        let times = Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 };
        let load = Load { scenario: "another", tool: "unknown", run: 1, bytes: 1 << 30, files: 1 };
        for suite in SUITES.iter().filter(|suite| suite.title.is_some()) {
            for samples in [Vec::new(), vec![load.took(&times)]] {
                let told = (suite.tell)(&Results { samples, ..Results::default() });
                assert!(told.is_ok_and(|text| !text.contains("met")), "{}", suite.name);
            }
        }
    }
}
