//! `concurrency`: files at once, streams, depth, each apart (001 section 3, Figs 4 and 5).

use super::{
    GBIT, MIB, OVER_A_PATH, Planned, Suite, Takes, VERIFIED, Values, count, encrypted, of_copy, scaled, size,
    testbed_kind, words,
};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::record::Sample;
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Result, counted};

pub const SUITE: Suite = Suite {
    name: "concurrency",
    asks: "how many files at once, how many streams, how deep? (001 Figs 4 and 5)",
    runs: 3,
    budget_bytes: 256 * MIB,
    takes: Takes { max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

/// Files of the set,
const FILES: u64 = 256;

/// and the least that one has, if the budget has so much: what is no larger than a segment (1 MiB near by) travels in
/// packs, whose number no concurrency bounds.
const FILE_BYTES_MIN: u64 = 4 * MIB;

const CONCURRENCY: [u32; 5] = [1, 2, 4, 8, 16];
/// More, as 001 Fig 5 has them, where the set has as many files as the paper's: of a smaller one most would be under
/// way at once.
const CONCURRENCY_OF_ALL: [u32; 3] = [32, 64, 128];
const STREAMS: [u32; 4] = [1, 2, 4, 8];
const DEPTHS: [u32; 4] = [2, 4, 8, 16];

struct Case {
    concurrency: u32,
    streams: u32,
    depth: u32,
}

impl Case {
    /// The series that it is of.
    fn series(&self) -> String {
        let streams = match self.streams {
            1 => "1 stream".to_owned(),
            many => format!("{many} streams"),
        };
        if self.depth == 1 { streams } else { format!("depth, {streams}") }
    }

    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        Sample { series: self.series(), ..sample }
            .with("concurrency", count(self.concurrency))
            .with("streams", count(self.streams))
            .with("depth", count(self.depth))
    }
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let of = |case: &Case| Planned::of(case.told_in(Sample::default()), Vec::new());
    cases(set(wishes).files).iter().map(of).collect()
}

/// Fig 4 and 5 have files at once and streams; depth goes beside one stream and one file, and beside four of both.
fn cases(files: u64) -> Vec<Case> {
    let more: &[u32] = if files < FILES { &[] } else { &CONCURRENCY_OF_ALL };
    let mut cases = Vec::new();
    for streams in STREAMS {
        let all = CONCURRENCY.iter().chain(more);
        cases.extend(all.map(|&concurrency| Case { concurrency, streams, depth: 1 }));
    }
    for both in [1, 4] {
        cases.extend(DEPTHS.map(|depth| Case { concurrency: both, streams: both, depth }));
    }
    cases
}

/// What of the paper is not measured, and why not.
fn left_out(set: &DatasetSpec) -> Option<(&'static str, String)> {
    let budget = size(FILES * FILE_BYTES_MIN);
    let why = format!(
        "the set has {} instead of {FILES}, of which most would be under way at once: `--budget {}`",
        counted(set.files, "file", "files"),
        budget.replace(' ', "")
    );
    (set.files < FILES).then_some(("32, 64 and 128 files at once (001 Fig 5)", why))
}

fn path(wishes: &Wishes) -> PathWish {
    // 001 section 2.1: 6 ms.
    super::path_wish(wishes, Duration::from_millis(6), GBIT)
}

fn set(wishes: &Wishes) -> DatasetSpec {
    let budget_bytes = SUITE.budget_bytes(wishes);
    let files = FILES.min(wishes.files_max()).min(budget_bytes / FILE_BYTES_MIN).max(1);
    let file_bytes = (budget_bytes / files).max(1);
    DatasetSpec { files, sizes: vec![(file_bytes, 1)], seed: wishes.seed(), ..DatasetSpec::default() }
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let (path, set) = (path(wishes), set(wishes));
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: VERIFIED.to_owned(),
        changes: vec![
            scaled("data set", "256 files of 4.8 GiB (001 section 3)", {
                format!("{} of {}", counted(set.files, "file", "files"), size(set.sizes[0].0))
            }),
            scaled("line", "100 Gbit/s, 12 and 28 hosts", {
                format!("{} Gbit/s, one host on each side", path.rate_bits_per_s as f64 / 1e9)
            }),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let set = set(bench.wishes);
    if let Some((what, why)) = left_out(&set) {
        bench.leave_out(what, &why)?;
    }
    bench.workspace.needs(3 * set.bytes())?;
    let source = bench.workspace.path("source");
    dataset::make(&source, &set)?;
    let testbed = Testbed::up(&bench.workspace, "concurrency", &path(bench.wishes), TUNED)?;
    let daemon = bench.workspace.daemon(Some(&testbed.right))?;
    bench.take_turns(cases(set.files), |bench, _, case| {
        bench.workspace.settle()?;
        let mut line = words(&["cp", "--no-tune", "--concurrency"]);
        line.extend([case.concurrency.to_string(), "--streams".into(), case.streams.to_string()]);
        line.extend(["--depth".into(), case.depth.to_string()]);
        line.extend([format!("{}/", source.display()), daemon.url("copy")]);
        let sample = super::over(&testbed, || {
            let copied = bench.workspace.copy(Some(&testbed.left), Some(&daemon), &line)?;
            Ok(of_copy("", &copied, set.bytes(), set.files))
        })?;
        bench.workspace.remove(&daemon.path("copy"))?;
        Ok(Some(case.told_in(sample)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::plan;

    #[test]
    fn one_stream_is_told_as_one() {
        let series: Vec<String> = cases(1).iter().map(Case::series).collect();
        for expected in ["1 stream", "4 streams", "depth, 1 stream", "depth, 4 streams"] {
            assert!(series.iter().any(|name| name == expected), "{series:?}");
        }
        assert!(!series.iter().any(|name| name.ends_with("1 streams")), "{series:?}");
    }

    #[test]
    fn the_paper_s_files_at_once_are_had_with_a_budget_for_its_files_and_else_told_to_be_left_out() {
        let of = |budget_bytes| {
            let set = set(&Wishes { budget_bytes, ..Wishes::default() });
            let most = cases(set.files).iter().map(|case| case.concurrency).max();
            (set.files, most, left_out(&set).map(|(_, why)| why))
        };
        assert_eq!(of(Some(FILES * FILE_BYTES_MIN)), (256, Some(128), None));
        let (files, most, why) = of(None);
        assert_eq!((files, most), (64, Some(16)));
        let why = why.unwrap();
        assert!(
            why.starts_with("the set has 64 files instead of 256") && why.ends_with("`--budget 1GiB`"),
            "{why}"
        );
        assert_eq!(cases(FILES).len(), cases(1).len() + STREAMS.len() * CONCURRENCY_OF_ALL.len());
    }

    #[test]
    fn files_are_such_that_their_number_at_once_counts() {
        for budget_bytes in [None, Some(64 * MIB), Some(4 << 30)] {
            let set = set(&Wishes { budget_bytes, ..Wishes::default() });
            assert_eq!(plan::files_in_chunks(set.files, set.bytes(), MIB as u32), set.files);
            assert!(set.files >= u64::from(CONCURRENCY[CONCURRENCY.len() - 1]), "{}", set.files);
            assert_eq!(set.bytes(), budget_bytes.unwrap_or(SUITE.budget_bytes));
        }
    }
}
