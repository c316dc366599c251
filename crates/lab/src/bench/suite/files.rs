//! `files`: the same data in more and more files (001 section 5, Eq 6). `thalweg model fit` fits its result. A mover
//! that checks whole files, as that of 001 Fig 9 does, is in `whole-files`.
//!
//! Two thirds of the data go in three of the numbers of files besides: of one size alone nobody can tell what is paid
//! for each byte from what is paid once, nor whether the equation's condition `a_ck < a_trs` holds.

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, count, encrypted, of_copy, scaled, size,
    testbed_kind, words,
};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "files",
    asks: "how long does the same data take in more files? (001 Eq 6)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { max_files: Values::One, files_min: CONCURRENCY, ..OVER_A_PATH },
    prepare,
    run,
};

/// Files at once, and streams: the fewest files of a set.
const CONCURRENCY: u64 = 4;

fn counts(files_max: u64) -> Vec<u64> {
    let most = files_max.max(CONCURRENCY);
    std::iter::successors(Some(CONCURRENCY), |files| Some(files * 2))
        .take_while(|files| *files <= most)
        .collect()
}

/// A number of files, and the bytes of all of them together at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Set {
    pub files: u64,
    pub bytes: u64,
}

/// All numbers of files with all of the data; then the second size, in a few of them from the fewest on. `counts`: one
/// or more.
pub(super) fn sets(counts: &[u64], budget_bytes: u64) -> Vec<Set> {
    let mut few = [0, counts.len() / 3, counts.len() * 2 / 3].map(|at| counts[at]).to_vec();
    few.dedup();
    let smaller = few.into_iter().map(|files| Set { files, bytes: budget_bytes * 2 / 3 });
    let all = counts.iter().map(|&files| Set { files, bytes: budget_bytes });
    all.chain(smaller).collect()
}

impl Set {
    pub fn spec(self, seed: u64) -> DatasetSpec {
        let sizes = vec![((self.bytes / self.files).max(1), 1)];
        DatasetSpec { files: self.files, sizes, seed, ..DatasetSpec::default() }
    }

    /// As it is called in the workspace.
    pub fn name(self) -> String {
        format!("set-{}-{}", self.files, self.bytes)
    }
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, Duration::from_millis(6), GBIT)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Testbed::check()?;
    let (path, counts) = (path(wishes), counts(wishes.files_max()));
    let packed = counts.iter().find(|files| SUITE.budget_bytes(wishes) / **files <= MIB);
    let mut changes = vec![
        scaled("data", "1.2 TiB (001 section 5)", {
            let all = size(SUITE.budget_bytes(wishes));
            format!(
                "{all}, and two thirds of that in some of the numbers of files: Eq 6's parameters take two sizes"
            )
        }),
        scaled("files", "128 to 8192, 64 to 128 at once", {
            format!("{CONCURRENCY} to {}, {CONCURRENCY} at once", counts[counts.len() - 1])
        }),
    ];
    if let Some(files) = packed {
        let to = format!("from {files} files on, of 1 MiB and less, many in one piece");
        changes.push(scaled("how files travel", "each by itself", to));
    }
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: format!("{VERIFIED}: beside the transfer, not behind it"),
        changes,
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (budget_bytes, seed) = (bench.budget_bytes(), bench.wishes.seed());
    let sets = sets(&counts(bench.wishes.files_max()), budget_bytes);
    bench.workspace.needs(sets.iter().map(|set| set.bytes).sum::<u64>() + budget_bytes)?;
    for set in &sets {
        dataset::make(&bench.workspace.path(&set.name()), &set.spec(seed))?;
    }
    let testbed = Testbed::up(&bench.workspace, "files", &path(bench.wishes), TUNED)?;
    let daemon = bench.workspace.daemon(Some(&testbed.right))?;
    bench.take_turns(sets, |bench, _, set| {
        bench.workspace.settle()?;
        let at_once = CONCURRENCY.to_string();
        let mut line = words(&["cp", "--no-tune", "--concurrency", &at_once, "--streams", &at_once]);
        line.extend([format!("{}/", bench.workspace.path(&set.name()).display()), daemon.url("copy")]);
        let of_it = if set.bytes < budget_bytes { ", two thirds of the data" } else { "" };
        let series = format!("{CONCURRENCY} at once{of_it}");
        let sample = super::over(&testbed, || {
            let copied = bench.workspace.copy(Some(&testbed.left), Some(&daemon), &line)?;
            Ok(of_copy(&series, &copied, set.spec(seed).bytes(), set.files))
        })?;
        bench.workspace.remove(&daemon.path("copy"))?;
        let files = count(set.files as f64);
        Ok(Some(sample.with("files", files).with("concurrency", count(CONCURRENCY as f64))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::model::files::{Costs, Work};
    use thalweg_mover::model::fit::{Condition, Measurement, fit};

    #[test]
    fn numbers_of_files_are_powers_of_two_from_one_for_each_process() {
        assert_eq!(counts(40), [4, 8, 16, 32]);
        assert_eq!(counts(1), [4]);
    }

    /// With 64 MiB a fifth more is carried than without the second size; none of the sets is larger than the budget.
    #[test]
    fn a_second_size_tells_what_is_paid_once_and_costs_little() {
        let all = sets(&counts(4096), 64 * MIB);
        let (full, fewer): (Vec<Set>, Vec<Set>) = all.iter().copied().partition(|set| set.bytes == 64 * MIB);
        assert_eq!(full.len(), 11);
        assert_eq!(fewer.iter().map(|set| set.files).collect::<Vec<_>>(), [4, 32, 512]);
        assert!(fewer.iter().all(|set| set.bytes == 64 * MIB * 2 / 3));
        let bytes = |sets: &[Set]| sets.iter().map(|set| set.spec(0).bytes()).sum::<u64>() as f64;
        assert!(bytes(&fewer) < 0.2 * bytes(&full));
        // What it measures is enough for all four parameters, also where there are few numbers of files.
        for files_max in [16, 4096] {
            let costs = Costs {
                transfer_s_per_byte: 3e-8,
                transfer_start_s: 1e-3,
                check_s_per_byte: 1e-8,
                once_s: 0.2,
            };
            let measured = sets(&counts(files_max), 64 * MIB).into_iter().map(|set| {
                let work = Work { bytes: set.spec(0).bytes() as f64, concurrency: CONCURRENCY as f64 };
                let time_s = costs.time_s(work, set.files as f64).unwrap();
                Measurement { files: set.files as f64, work, time_s }
            });
            let fitted = fit(&measured.collect::<Vec<_>>()).unwrap();
            assert_eq!((fitted.is_split_known, fitted.condition()), (true, Condition::Holds), "{files_max}");
            assert!((fitted.costs.once_s - 0.2).abs() < 0.01, "{fitted:?}");
        }
        assert_eq!(sets(&counts(1), 0), [Set { files: 4, bytes: 0 }; 2]);
    }
}
