//! `files`: the same data in more and more files (001 section 5, Fig 9, Eq 6). `thalweg model fit` fits its result.

use super::{GBIT, MIB, Suite, VERIFIED, count, encrypted, of_copy, scaled, size, testbed_kind, words};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "files",
    asks: "how long does the same data take in more files? (001 Fig 9, Eq 6)",
    runs: 3,
    budget_bytes: 64 * MIB,
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

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, Duration::from_millis(6), GBIT)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Testbed::check()?;
    let (path, counts) = (path(wishes), counts(wishes.files_max));
    let packed = counts.iter().find(|files| SUITE.budget_bytes(wishes) / **files <= MIB);
    let mut changes = vec![
        scaled("data", "1.2 TiB (001 section 5)", size(SUITE.budget_bytes(wishes))),
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
    let (budget_bytes, seed) = (bench.budget_bytes(), bench.wishes.seed);
    let spec = |files: u64| DatasetSpec {
        files,
        sizes: vec![((budget_bytes / files).max(1), 1)],
        seed,
        ..DatasetSpec::default()
    };
    let counts = counts(bench.wishes.files_max);
    bench.yard.needs((counts.len() as u64 + 1) * budget_bytes)?;
    let source = |files: u64| format!("set-{files}");
    for &files in &counts {
        dataset::make(&bench.yard.path(&source(files)), &spec(files))?;
    }
    let testbed = Testbed::up(&bench.yard, "files", &path(bench.wishes), TUNED)?;
    let daemon = bench.yard.daemon(Some(&testbed.right))?;
    bench.take_turns(counts, |bench, _, &files| {
        bench.yard.settle()?;
        let at_once = CONCURRENCY.to_string();
        let mut line = words(&["cp", "--no-tune", "--concurrency", &at_once, "--streams", &at_once]);
        line.extend([format!("{}/", bench.yard.path(&source(files)).display()), daemon.url("copy")]);
        let sample = super::over(&testbed, || {
            let copied = bench.yard.copy(Some(&testbed.left), Some(&daemon), &line)?;
            Ok(of_copy(&format!("{CONCURRENCY} at once"), &copied, spec(files).bytes(), files))
        })?;
        bench.yard.remove(&daemon.path("copy"))?;
        Ok(Some(sample.with("files", count(files as f64)).with("concurrency", count(CONCURRENCY as f64))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_files_are_powers_of_two_from_one_for_each_process() {
        assert_eq!(counts(40), [4, 8, 16, 32]);
        assert_eq!(counts(1), [4]);
    }
}
