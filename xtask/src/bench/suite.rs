//! The suites: one file for each question, with what is run and how it is told.

use crate::bench::Bench;
use crate::bench::record::Results;
use anyhow::Result;

mod limit;

mod large;

mod small;

mod distance;

mod size;

mod verify;

mod auto;

mod beside_rsync;

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
    /// Whether it wants a network name space of its own.
    pub has_own_network: bool,
    pub run: fn(&mut Bench<'_>) -> Result<()>,
    pub tell: fn(&Results) -> Result<String>,
}

/// All of them, in the order of the page.
pub const SUITES: [Suite; 8] = [
    limit::SUITE,
    large::SUITE,
    small::SUITE,
    distance::SUITE,
    size::SUITE,
    verify::SUITE,
    auto::SUITE,
    beside_rsync::SUITE,
];
