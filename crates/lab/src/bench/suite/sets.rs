//! The same data in more and more files, over a path: what `files` and `whole-files` have in common.
//!
//! Two thirds of the data go in three of the numbers of files besides: of one size alone nobody can tell what is paid
//! for each byte from what is paid once, nor whether the condition `a_ck < a_trs` of 001 Eq 6 holds.

use super::{count, scaled, size};
use crate::bench::Bench;
use crate::bench::network::{PathWish, Testbed};
use crate::bench::record::{Sample, Scaled};
use crate::bench::workspace::{Daemon, Workspace};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::path::PathBuf;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::Result;

/// A number of files, and the bytes of all of them together at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Set {
    pub files: u64,
    pub bytes: u64,
}

impl Set {
    /// All numbers of files with all of the data; then the second size, in a few of them from the fewest on. `counts`:
    /// one or more.
    pub fn all(counts: &[u64], budget_bytes: u64) -> Vec<Set> {
        let mut few = [0, counts.len() / 3, counts.len() * 2 / 3].map(|at| counts[at]).to_vec();
        few.dedup();
        let smaller = few.into_iter().map(|files| Set { files, bytes: budget_bytes * 2 / 3 });
        let all = counts.iter().map(|&files| Set { files, bytes: budget_bytes });
        all.chain(smaller).collect()
    }

    pub fn spec(self, seed: u64) -> DatasetSpec {
        let sizes = vec![((self.bytes / self.files).max(1), 1)];
        DatasetSpec { files: self.files, sizes, seed, ..DatasetSpec::default() }
    }

    /// As it is called in the workspace.
    fn name(self) -> String {
        format!("set-{}-{}", self.files, self.bytes)
    }
}

/// In what the data are other than in 001. `counts`: one or more, rising.
pub(super) fn changes(counts: &[u64], at_once: &str, budget_bytes: u64) -> Vec<Scaled> {
    let all = size(budget_bytes);
    vec![
        scaled("data", "1.2 TiB (001 section 5)", {
            format!(
                "{all}, and two thirds of that in some of the numbers of files: Eq 6's parameters take two sizes"
            )
        }),
        scaled("files", "128 to 8192, 64 to 128 at once", {
            format!("{} to {}, {at_once}", counts[0], counts[counts.len() - 1])
        }),
    ]
}

/// A set whose turn it is to be copied, to `copy` of the daemon.
pub(super) struct Turn<'a> {
    pub workspace: &'a Workspace,
    pub testbed: &'a Testbed,
    pub daemon: &'a Daemon,
    pub files: u64,
    /// So many of them at once.
    pub at_once: u64,
    pub spec: DatasetSpec,
    /// Where its files are.
    pub source: PathBuf,
    has_all: bool,
}

impl Turn<'_> {
    /// The series that it is of: each size has its own.
    pub fn series(&self, name: &str) -> String {
        let of_it = if self.has_all { "" } else { ", two thirds of the data" };
        format!("{name}{of_it}")
    }
}

/// Makes all sets, and has `one` measure each in its turn, with a daemon at the far end of the path. `counts`: numbers
/// of files, one or more, for each number of them at once.
///
/// # Errors
/// If the sets find no room, or there is no testbed to be had; the first of `one`.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    counts: &[(u64, Vec<u64>)],
    path: &PathWish,
    mut one: impl FnMut(&Turn<'_>) -> Result<Sample>,
) -> Result<()> {
    let (budget_bytes, seed) = (bench.budget_bytes(), bench.wishes.seed());
    let of = |(at_once, counts): &(u64, Vec<u64>)| {
        let at_once = *at_once;
        Set::all(counts, budget_bytes).into_iter().map(move |set| (at_once, set))
    };
    let cases: Vec<(u64, Set)> = counts.iter().flat_map(of).collect();
    // The same files for each number at once.
    let mut sets: Vec<Set> = Vec::new();
    for (_, set) in &cases {
        if !sets.contains(set) {
            sets.push(*set);
        }
    }
    bench.workspace.needs(sets.iter().map(|set| set.bytes).sum::<u64>() + budget_bytes)?;
    for set in &sets {
        dataset::make(&bench.workspace.path(&set.name()), &set.spec(seed))?;
    }
    let testbed = Testbed::up(&bench.workspace, bench.suite.name, path, TUNED)?;
    let daemon = bench.workspace.daemon(Some(&testbed.right))?;
    bench.take_turns(cases, |bench, _, (at_once, set)| {
        let sample = one(&Turn {
            workspace: &bench.workspace,
            testbed: &testbed,
            daemon: &daemon,
            files: set.files,
            at_once: *at_once,
            spec: set.spec(seed),
            source: bench.workspace.path(&set.name()),
            has_all: set.bytes == budget_bytes,
        })?;
        bench.workspace.remove(&daemon.path("copy"))?;
        Ok(Some(sample.with("files", count(set.files as f64))))
    })
}
