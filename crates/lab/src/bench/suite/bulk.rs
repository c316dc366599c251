//! `sweep bulk`: throughput by size of file, powers of two from 1 KiB to 1 TiB, sets of 1 TiB or 2^20 files or both
//! (000 sections III-B.2 and IV, Figs 5 and 8).

use super::{
    MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, bytes, encrypted, kind_of_paths, of_copy, paths_by_rtt,
    rtts_left_out, scaled, seconds, size,
};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::record::Sample;
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, counted};

pub const SUITE: Suite = Suite {
    name: "sweep bulk",
    asks: "how does throughput depend on the size of files? (000 section III-B.2, Figs 5 and 8)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { rtt: Values::Many, is_path_by_rtt: true, max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed_by_rtt,
    plan: super::untold,
    run,
};

/// 1 KiB to 1 TiB: 31 sets.
const EXPONENTS: std::ops::RangeInclusive<u32> = 10..=40;

/// What a set has in 000: 1 TiB, or so many files.
const SET_BYTES: u64 = 1 << 40;
const SET_FILES: u64 = 1 << 20;

/// Round trip times of 000 Fig 8.
const PAPER_RTTS_MS: [u64; 3] = [10, 50, 100];

/// Of the line, where it is an emulated one.
const RATE_BITS_PER_S: u64 = super::GBIT;

struct Set {
    file_bytes: u64,
    files: u64,
}

/// A set over a path; none: the loopback.
struct Case {
    set: usize,
    path: Option<PathWish>,
}

fn sets(budget_bytes: u64, files_max: u64) -> Vec<Set> {
    EXPONENTS
        .map(|exponent| 1u64 << exponent)
        .filter(|file_bytes| *file_bytes <= budget_bytes)
        .map(|file_bytes| {
            let wanted = (SET_BYTES / file_bytes).min(SET_FILES);
            Set { file_bytes, files: wanted.min(budget_bytes / file_bytes).min(files_max).max(1) }
        })
        .collect()
}

/// What of the paper is not measured, and why not.
fn left_out(wishes: &Wishes) -> Vec<(String, String)> {
    let mut left_out = Vec::new();
    let largest = sets(SUITE.budget_bytes(wishes), wishes.files_max()).last().map_or(1, |set| set.file_bytes);
    let left = EXPONENTS.end() - largest.ilog2();
    if left > 0 {
        let why = "larger than the budget: `--budget` takes more, up to 1TiB".to_owned();
        left_out.push((format!("the {left} largest sizes, to 1 TiB"), why));
    }
    if let Some(missing) = rtts_left_out(&PAPER_RTTS_MS, &wishes.rtts) {
        let why = match wishes.rtts.is_empty() {
            true => format!("they take root, for the emulated path: `--rtt {missing}`"),
            false => "--rtt asks for others".to_owned(),
        };
        left_out.push((format!("round trip times of {missing} (000 Fig 8)"), why));
    }
    left_out
}

/// Over which distances the sets are copied, and how wide the line is.
fn path_told(wishes: &Wishes) -> String {
    let each: Vec<String> = wishes.rtts.iter().map(|rtt| format!("{} ms", rtt.as_secs_f64() * 1e3)).collect();
    match each.is_empty() {
        true => "the loopback".to_owned(),
        false => {
            let rate_bits_per_s = wishes.rate_bits_per_s.unwrap_or(RATE_BITS_PER_S);
            format!("{} Gbit/s, {}", rate_bits_per_s as f64 / 1e9, each.join(", "))
        }
    }
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let budget_bytes = SUITE.budget_bytes(wishes);
    let sets = sets(budget_bytes, wishes.files_max());
    if sets.is_empty() {
        let cause = "no set of files has room in this --budget: at least 1KiB";
        return Err(Failure::new(FailureKind::Usage, MEASURE, cause));
    }
    let paths = paths_by_rtt(wishes, RATE_BITS_PER_S);
    let most = sets.iter().map(|set| set.file_bytes * set.files).max().unwrap_or(0);
    Ok(Prepared {
        path: kind_of_paths(&paths),
        encryption: encrypted(),
        verification: VERIFIED.to_owned(),
        changes: vec![
            scaled("data set", "1 TiB or 2^20 files (000 section III-B.2)", {
                format!("{} or {}", size(most), counted(wishes.files_max(), "file", "files"))
            }),
            scaled("sizes of files", "1 KiB to 1 TiB, 31 sets", {
                let largest = size(1 << budget_bytes.ilog2().min(40));
                format!("1 KiB to {largest}, {}", counted(sets.len() as u64, "set", "sets"))
            }),
            scaled("path", "100 Gbit/s, 10, 50 and 100 ms (000 Fig 8)", path_told(wishes)),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let sets = sets(bench.budget_bytes(), bench.wishes.files_max());
    // One copy of one set at a time.
    let all: u64 = sets.iter().map(|set| set.file_bytes * set.files).sum();
    bench.workspace.needs(all + bench.budget_bytes())?;
    for set in &sets {
        dataset::make(&bench.workspace.path(&set.name()), &set.spec(bench.wishes.seed()))?;
    }
    for (what, why) in left_out(bench.wishes) {
        bench.leave_out(&what, &why)?;
    }
    let paths = paths_by_rtt(bench.wishes, RATE_BITS_PER_S);
    let mut paths: Vec<Option<PathWish>> = paths.into_iter().map(Some).collect();
    let first = paths.first().copied().flatten();
    let testbed = first.map(|path| Testbed::up(&bench.workspace, "sweep", &path, TUNED)).transpose()?;
    let (client, server) = testbed.as_ref().map(|testbed| (&testbed.left, &testbed.right)).unzip();
    let daemon = bench.workspace.daemon(server)?;
    if paths.is_empty() {
        paths.push(None);
    }
    let cases =
        (0..sets.len()).flat_map(|set| paths.iter().map(move |path| Case { set, path: *path })).collect();
    bench.take_turns(cases, |bench, run, case| {
        let set = &sets[case.set];
        if let (Some(testbed), Some(path)) = (&testbed, &case.path) {
            testbed.set(path)?;
        }
        bench.workspace.settle()?;
        let (source, to) = (bench.workspace.path(&set.name()), "copy");
        let words = ["cp".to_owned(), format!("{}/", source.display()), daemon.url(to)];
        let measure = || -> Result<Sample> {
            let copied = bench.workspace.copy(client, Some(&daemon), &words)?;
            let (bytes_, files) = (set.file_bytes * set.files, set.files);
            Ok(of_copy("files to files", &copied, bytes_, files).with("file_size", bytes(set.file_bytes)))
        };
        let sample = match (&testbed, case.path) {
            (Some(testbed), Some(path)) => {
                super::over(testbed, measure)?.with("rtt", seconds(path.rtt.as_secs_f64()))
            }
            _ => measure()?,
        };
        if run == 0 {
            super::sound(&daemon.path(to), &set.spec(bench.wishes.seed()))?;
        }
        bench.workspace.remove(&daemon.path(to))?;
        Ok(Some(sample))
    })
}

impl Set {
    fn name(&self) -> String {
        format!("set-{}", self.file_bytes)
    }

    fn spec(&self, seed: u64) -> DatasetSpec {
        DatasetSpec { files: self.files, sizes: vec![(self.file_bytes, 1)], seed, ..DatasetSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn without_a_budget_the_sets_are_those_of_the_paper() {
        let sets = sets(SET_BYTES, SET_FILES);
        assert_eq!(sets.len(), 31);
        assert!(sets.iter().all(|set| set.files == SET_FILES || set.files * set.file_bytes == SET_BYTES));
        assert_eq!((sets[0].files, sets[30].files), (SET_FILES, 1));
    }

    #[test]
    fn what_of_the_paper_is_not_measured_is_told_and_how_it_is_had() {
        let told = |wishes: &Wishes| -> Vec<String> {
            left_out(wishes).into_iter().map(|(what, why)| format!("{what}: {why}")).collect()
        };
        assert_eq!(
            told(&Wishes::default()),
            [
                "the 14 largest sizes, to 1 TiB: larger than the budget: `--budget` takes more, up to 1TiB",
                "round trip times of 10ms,50ms,100ms (000 Fig 8): they take root, for the emulated path: `--rtt \
                 10ms,50ms,100ms`",
            ]
        );
        assert_eq!(path_told(&Wishes::default()), "the loopback");
        let rtts = PAPER_RTTS_MS.map(Duration::from_millis).to_vec();
        let all = Wishes { rtts, budget_bytes: Some(SET_BYTES), ..Wishes::default() };
        assert!(told(&all).is_empty(), "{:?}", told(&all));
        assert_eq!(path_told(&all), "1 Gbit/s, 10 ms, 50 ms, 100 ms");
    }

    #[test]
    fn a_budget_bounds_every_set() {
        for set in sets(64 * MIB, 1000) {
            assert!(set.files * set.file_bytes <= 64 * MIB && (1..=1000).contains(&set.files));
        }
    }
}
