//! docs/figures: the papers' figures repeated with this program, drawn from the results of `thalweg bench` in
//! `bench/results`.

use crate::bench::suite::SUITES;
use crate::bench::{record, stale, tell};
use crate::checkout;
use crate::generate::{bench_guide, results};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::record::{Quantity, Results, Sample};
use thalweg_lab::bench::table;
use thalweg_lab::plot::unit::Unit;
use thalweg_lab::plot::{Figure, WIDTH, svg};
use thalweg_lab::report::{figures, sentence};

/// Where they are.
pub const DIRECTORY: &str = "docs/figures";

/// Suites, and which of their figures are shown, in the order of the papers; a report has all of them. A `*` at the end
/// is for all figures whose names begin so, one for each value of a parameter.
const SHOWN: &[(&str, &[&str])] = &[
    ("latency", &["latency-rate", "latency-beside-000-fig-2"]),
    ("sweep bulk", &["sweep-bulk-rate", "sweep-bulk-beside-000-fig-8"]),
    (
        "sweep streaming",
        &["sweep-streaming-rate*", "sweep-streaming-beside-000-fig-6", "sweep-streaming-end*"],
    ),
    ("cca", &["cca-rate*", "cca-beside-000-figs-4-to-6"]),
    ("storage", &["storage-rate-*", "storage-latency-*"]),
    ("objects-distance", &["objects-distance-rate-*", "objects-distance-beside-000-fig-11"]),
    (
        "concurrency",
        &[
            "concurrency-streams",
            "concurrency-files",
            "concurrency-depth",
            "concurrency-beside-001-section-4",
        ],
    ),
    (
        "faults",
        &[
            "faults-rate",
            "faults-concurrency",
            "faults-resent",
            "faults-rate-over-time",
            "faults-cpu-over-time",
        ],
    ),
    ("files", &["files-fit"]),
    ("whole-files", &["whole-files-fit", "whole-files-beside-001-fig-9"]),
    ("layout", &["layout-time", "layout-beside-002-table-ii"]),
    ("hop", &["hop-time", "hop-beside-002-table-i"]),
    ("congest", &["congest-worst*", "congest-beside-003-fig-2", "congest-score*", "congest-shares*"]),
    ("slots", &["slots-worst", "slots-lag", "slots-shares"]),
    ("frames", &["frames-time-*", "frames-after-*", "frames-beside-003-fig-4"]),
    ("lag", &["lag-shares-*", "lag-p99"]),
    ("streams", &["streams-rate"]),
    ("order", &["order-threads-*", "order-requests-*", "order-beside-004-section-iv-d"]),
    ("path", &["path-rtt", "path-rate", "path-loss"]),
    ("predict", &["predict-off"]),
];

/// What stands before the first suite.
fn head() -> String {
    format!(
        "\
<!-- Made by `cargo xtask gen` from bench/results. Do not edit. -->

# The papers' figures, repeated here

Drawn by `thalweg plot` from the result files in [bench/results]({}bench/results): raw samples, with the command that \
repeats them. How to read them, and what the papers say wrongly: [docs/guide/report.md](../guide/report.md). Timings \
are of one shared machine with two cores; the emulated path runs on the same cores. Which result is *weak*, and why, \
stands beside it, as in [docs/performance.md](../performance.md); so does which is *stale*.
",
        checkout::PUBLISHED
    )
}

/// Pages and drawings, by their path.
///
/// # Errors
/// If a result cannot be read, or has not a figure that is named here.
pub fn files() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut page = head();
    let committed = results::all()?;
    for (suite, shown) in SHOWN {
        let Some((path, results)) = plainest(&committed, suite) else { continue };
        let about = &results.about;
        let _ =
            write!(page, "\n## {suite}\n\n{}\n\n```sh\n{}\n```\n", sentence(&about.question), about.command);
        if *suite == "congest"
            && let Some((_, slots)) = plainest(&committed, "slots")
            && let Some(told) = bench_guide::cold_starts(results, slots)
        {
            let _ = writeln!(page, "\n{told}");
        }
        for told in table::storage_rules(results).iter().map(rule) {
            let _ = writeln!(page, "\n{told}");
        }
        let all = figures(std::slice::from_ref(results));
        for wanted in *shown {
            let is_it = |figure: &&Figure| match wanted.strip_suffix('*') {
                Some(beginning) => figure.name.starts_with(beginning),
                None => figure.name == *wanted,
            };
            let found: Vec<&Figure> = all.iter().filter(is_it).collect();
            // Results that were taken before a suite looked at each moment have none over time.
            if found.is_empty() && !wanted.ends_with("-over-time") {
                bail!("{suite} has no figure {wanted}");
            }
            found.into_iter().for_each(|figure| draw(figure, &mut page, &mut files));
        }
        let _ = writeln!(
            page,
            "\nResult: [{0}]({1}{0}){2}{3}{4}.",
            path.display(),
            checkout::PUBLISHED,
            tell::commit(about),
            tell::weak_behind(about),
            tell::stale_behind(differs(suite, results)),
        );
    }
    files.insert(Path::new(DIRECTORY).join("README.md"), page.into_bytes());
    Ok(files)
}

/// Which ways of asking a disk hold the storage rule, by order and size, with the depths at which they do.
fn rule(rule: &table::StorageRule<'_>) -> String {
    let target = Unit::BitsPerS.show(rule.target_bits_per_s);
    let mut out = format!(
        "Storage rule (000 section III-D), {}: {} of {} ways past the page cache have {target} and answer in time \
         ([docs/guide/bench.md](../guide/bench.md)).",
        rule.direction,
        rule.hold.len(),
        rule.ways
    );
    let word =
        |sample: &Sample, name: &str| sample.parameters.get(name).and_then(Quantity::word).map(str::to_owned);
    // By size as a number, which is whole.
    let mut depths: BTreeMap<(Vec<String>, u64), Vec<f64>> = BTreeMap::new();
    for sample in &rule.hold {
        let way = ["order", "space"].iter().filter_map(|name| word(sample, name)).collect();
        let bytes = sample.parameter("request_size").unwrap_or_default() as u64;
        depths.entry((way, bytes)).or_default().extend(sample.parameter("depth"));
    }
    if depths.is_empty() {
        return out;
    }
    out += "\n\n| way | request | depths |\n|---|---|---|\n";
    for ((way, bytes), mut depths) in depths {
        depths.sort_by(f64::total_cmp);
        let depths: Vec<String> = depths.iter().map(f64::to_string).collect();
        let (way, size) = (way.join(", space "), Unit::Bytes.show(bytes as f64));
        let _ = writeln!(out, "| {way} | {size} | {} |", depths.join(", "));
    }
    out.trim_end().to_owned()
}

/// In what a result differs from what its suite would give today.
fn differs(suite: &str, results: &Results) -> Option<String> {
    // Of those that a chore measures there are figures too.
    match SUITES.iter().find(|chore| chore.name == suite) {
        Some(chore) => {
            let Results { about, samples, left_out, .. } = results.clone();
            chore.difference(&record::Results { about, samples, left_out })
        }
        None => stale::difference(results),
    }
}

/// The result of a suite; of several, near and far, the one with the plainest name.
fn plainest<'a>(results: &'a [(PathBuf, Results)], suite: &str) -> Option<&'a (PathBuf, Results)> {
    let of_it = results.iter().filter(|(_, results)| results.about.suite == suite);
    of_it.min_by_key(|(path, _)| path.as_os_str().len())
}

fn draw(figure: &Figure, page: &mut String, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let alternative = figure.alternative().replace(['[', ']', '\n'], " ");
    let _ = writeln!(page, "\n![{alternative}]({}.svg)", figure.name);
    let path = Path::new(DIRECTORY).join(format!("{}.svg", figure.name));
    files.insert(path, svg(figure, WIDTH).into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_of_cold_starts_reads_beside_them_what_windows_over_standing_streams_take() {
        let files = files().unwrap();
        let page = String::from_utf8(files[&Path::new(DIRECTORY).join("README.md")].clone()).unwrap();
        let section = page.split("\n## ").find(|section| section.starts_with("congest\n")).unwrap();
        assert!(section.contains("Scheduled starts are cold here"), "{section}");
        assert!(page.contains("\n## slots\n"), "where the link leads");
    }

    #[test]
    fn which_ways_hold_the_storage_rule_stands_beside_what_was_measured_of_the_disk() {
        let way = |depth: f64, space: &str| {
            Sample::default()
                .with("order", "sequential".into())
                .with("space", space.into())
                .with("request_size", Quantity::number(1_048_576.0, "B"))
                .with("depth", Quantity::number(depth, "1"))
        };
        let ways = [way(16.0, "reserved before"), way(4.0, "reserved before"), way(4.0, "as it comes")];
        let held = table::StorageRule {
            direction: "write",
            target_bits_per_s: 8e9,
            ways: 30,
            hold: ways.iter().collect(),
        };
        let told = rule(&held);
        assert!(told.contains("write: 3 of 30 ways past the page cache have 8 Gbit/s"), "{told}");
        assert!(told.ends_with("| sequential, space reserved before | 1 MiB | 4, 16 |"), "{told}");
        assert!(told.contains("| sequential, space as it comes | 1 MiB | 4 |\n"), "{told}");
        assert!(!rule(&table::StorageRule { hold: Vec::new(), ..held }).contains('|'));
        let files = files().unwrap();
        let page = String::from_utf8(files[&Path::new(DIRECTORY).join("README.md")].clone()).unwrap();
        for (_, results) in results::all().unwrap() {
            for told in table::storage_rules(&results).iter().map(rule) {
                assert!(page.contains(&told), "{told}");
            }
        }
    }

    #[test]
    fn a_stale_result_says_beside_its_figures_what_differs() {
        let files = files().unwrap();
        let page = String::from_utf8(files[&Path::new(DIRECTORY).join("README.md")].clone()).unwrap();
        for (suite, _) in SHOWN {
            let committed = results::all().unwrap();
            let Some((path, results)) = plainest(&committed, suite) else { continue };
            let path = path.display().to_string();
            let is_it = |line: &&str| line.starts_with("Result: ") && line.contains(&path);
            let line = page.lines().find(is_it).unwrap();
            match differs(suite, results) {
                Some(why) => assert!(line.contains(&format!("; stale: {why}")), "{line}"),
                None => assert!(!line.contains("; stale: "), "{line}"),
            }
        }
    }

    /// One that lost a part of itself is seen, whichever it is.
    #[test]
    fn a_committed_result_without_one_of_its_series_is_stale() {
        let told = ["order", "slots", "storage", "frames", "path"];
        let committed = results::all().unwrap();
        let of_them = |results: &Results| told.contains(&results.about.suite.as_str());
        for (path, mut results) in committed.into_iter().filter(|(_, results)| of_them(results)) {
            let first = results.samples[0].series.clone();
            results.samples.retain(|sample| sample.series != first);
            let why = stale::difference(&results).unwrap_or_default();
            assert!(why.starts_with("lacks "), "{}: {why}", path.display());
        }
    }

    #[test]
    fn a_weak_result_is_said_to_be_weak_beside_its_figures() {
        let files = files().unwrap();
        let page = String::from_utf8(files[&Path::new(DIRECTORY).join("README.md")].clone()).unwrap();
        let mut weak_ones = 0;
        for (path, results) in results::all().unwrap() {
            let (path, reasons) = (path.display().to_string(), tell::weak_reasons(&results.about));
            let Some(line) = page.lines().find(|line| line.starts_with("Result: ") && line.contains(&path))
            else {
                continue;
            };
            assert_eq!(line.contains("; weak: "), !reasons.is_empty(), "{line}");
            assert!(reasons.iter().all(|why| line.contains(why)), "{line}");
            weak_ones += usize::from(!reasons.is_empty());
        }
        assert!(weak_ones == 0 || page.contains("is *weak*"));
    }
}
