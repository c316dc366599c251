//! `files`: the same data in more and more files (001 section 5, Eq 6). `thalweg model fit` fits its result. A mover
//! that checks whole files, as that of 001 Fig 9 does, is in `whole-files`.

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, count, encrypted, of_copy, scaled, sets,
    testbed_kind, words,
};
use crate::bench::network::PathWish;
use crate::bench::{Bench, Prepared, Wishes};
use std::time::Duration;
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "files",
    asks: "how long does the same data take in more files? (001 Eq 6)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { max_files: Values::One, files_min: CONCURRENCY, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
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

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, Duration::from_millis(6), GBIT)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let (path, counts) = (path(wishes), counts(wishes.files_max()));
    let packed = counts.iter().find(|files| SUITE.budget_bytes(wishes) / **files <= MIB);
    let at_once = format!("{CONCURRENCY} at once");
    let mut changes = sets::changes(&counts, &at_once, SUITE.budget_bytes(wishes));
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
    let (path, counts) = (path(bench.wishes), counts(bench.wishes.files_max()));
    sets::measure(bench, &[(CONCURRENCY, counts)], &path, |turn| {
        turn.workspace.settle()?;
        let at_once = CONCURRENCY.to_string();
        let mut line = words(&["cp", "--no-tune", "--concurrency", &at_once, "--streams", &at_once]);
        line.extend([format!("{}/", turn.source.display()), turn.daemon.url("copy")]);
        let series = turn.series(&format!("{CONCURRENCY} at once"));
        let sample = super::over(turn.testbed, || {
            let copied = turn.workspace.copy(Some(&turn.testbed.left), Some(turn.daemon), &line)?;
            Ok(of_copy(&series, &copied, turn.spec.bytes(), turn.files))
        })?;
        Ok(sample.with("concurrency", count(CONCURRENCY as f64)))
    })
}

#[cfg(test)]
mod tests {
    use super::sets::Set;
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
        let all = Set::all(&counts(4096), 64 * MIB);
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
            let measured = Set::all(&counts(files_max), 64 * MIB).into_iter().map(|set| {
                let work = Work { bytes: set.spec(0).bytes() as f64, concurrency: CONCURRENCY as f64 };
                let time_s = costs.time_s(work, set.files as f64).unwrap();
                Measurement { files: set.files as f64, work, time_s }
            });
            let fitted = fit(&measured.collect::<Vec<_>>()).unwrap();
            assert_eq!((fitted.is_split_known, fitted.condition()), (true, Condition::Holds), "{files_max}");
            assert!((fitted.costs.once_s - 0.2).abs() < 0.01, "{fitted:?}");
        }
        assert_eq!(Set::all(&counts(1), 0), [Set { files: 4, bytes: 0 }; 2]);
    }
}
