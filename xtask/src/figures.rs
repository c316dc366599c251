//! docs/figures: the papers' figures repeated with this program, drawn from the results of `thalweg bench` in
//! `bench/results`.

use crate::bench::page;
use crate::{findings, tools};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::record::{About, Results};
use thalweg_lab::plot::{Figure, WIDTH, svg};
use thalweg_lab::report::{figures, sentence};

/// Where they are.
pub const DIRECTORY: &str = "docs/figures";

const RESULTS: &str = "bench/results";

/// Suites, and which of their figures are shown, in the order of the papers; a report has all of them. A `*` at the end
/// is for all figures whose names begin so, one for each value of a parameter.
const SHOWN: &[(&str, &[&str])] = &[
    ("latency", &["latency-rate", "latency-beside-000-fig-2"]),
    ("sweep bulk", &["sweep-bulk-rate", "sweep-bulk-beside-000-fig-8"]),
    (
        "sweep streaming",
        &["sweep-streaming-rate*", "sweep-streaming-beside-000-fig-6", "sweep-streaming-end*"],
    ),
    ("cca", &["cca-rate", "cca-beside-000-figs-4-to-6"]),
    ("storage", &["storage-rate-*", "storage-latency-*"]),
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
    ("files", &["files-fit", "files-beside-001-fig-9"]),
    ("layout", &["layout-time", "layout-beside-002-table-ii"]),
    ("hop", &["hop-time", "hop-beside-002-table-i"]),
    ("congest", &["congest-worst", "congest-beside-003-fig-2", "congest-score", "congest-shares"]),
    ("slots", &["slots-worst", "slots-lag", "slots-shares"]),
    ("frames", &["frames-time-*", "frames-after-*", "frames-beside-003-fig-4"]),
    ("lag", &["lag-shares-*", "lag-p99"]),
    ("streams", &["streams-rate"]),
    ("order", &["order-threads-*", "order-requests-*", "order-beside-004-section-iv-d"]),
    ("path", &["path-rtt", "path-rate", "path-loss"]),
    ("predict", &["predict-off"]),
];

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from bench/results. Do not edit. -->

# The papers' figures, repeated here

Drawn by `thalweg plot` from the result files in [bench/results](../../bench/results): raw samples, with the command \
that repeats them. How to read them, and what the papers say wrongly: [docs/guide/report.md](../guide/report.md). Timings are \
of one shared machine with two cores; the emulated path runs on the same cores. Which result is *weak*, and why, stands \
beside it, as in [docs/performance.md](../performance.md).
";

/// Pages and drawings, by their path.
///
/// # Errors
/// If a result cannot be read, or has not a figure that is named here.
pub fn files() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut page = HEAD.to_owned();
    let committed = results()?;
    for (suite, shown) in SHOWN {
        let Some((path, results)) = plainest(&committed, suite) else { continue };
        let about = &results.about;
        let _ =
            write!(page, "\n## {suite}\n\n{}\n\n```sh\n{}\n```\n", sentence(&about.question), about.command);
        if *suite == "congest"
            && let Some((_, slots)) = plainest(&committed, "slots")
            && let Some(told) = findings::cold_starts(results, slots)
        {
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
        let _ =
            writeln!(page, "\nResult: [{0}](../../{0}){1}{2}.", path.display(), commit(about), weak(about));
    }
    files.insert(Path::new(DIRECTORY).join("README.md"), page.into_bytes());
    Ok(files)
}

/// The result of a suite; of several, near and far, the one with the plainest name.
fn plainest<'a>(results: &'a [(PathBuf, Results)], suite: &str) -> Option<&'a (PathBuf, Results)> {
    let of_it = results.iter().filter(|(_, results)| results.about.suite == suite);
    of_it.min_by_key(|(path, _)| path.as_os_str().len())
}

/// The result files of samples: those of rows, and of an older form, which lie beside them, are passed over.
///
/// # Errors
/// If the directory cannot be read.
pub fn results() -> Result<Vec<(PathBuf, Results)>> {
    let mut all = Vec::new();
    for file in tools::files_below(&tools::root().join(RESULTS))? {
        // What a run that was stopped had by then.
        if file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        let Ok(results) = Results::read(&file) else { continue };
        let path = file.strip_prefix(tools::root()).unwrap_or(&file).to_owned();
        all.push((path, results));
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(all)
}

/// The day on which a result was begun: `2026-11-22`.
pub fn day(about: &About) -> &str {
    about.date.split('T').next().unwrap_or_default()
}

/// Which commit of the program made a result, as it is put behind something else; nothing where the result does not say
/// it.
pub fn commit(about: &About) -> String {
    about.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"))
}

/// That a result is to be taken with care, and why, as the other pages say it; nothing where there is no reason.
pub fn weak(about: &About) -> String {
    let reasons = page::weak_reasons(about);
    if reasons.is_empty() { String::new() } else { format!("; weak: {}", reasons.join("; ")) }
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
    fn a_weak_result_is_said_to_be_weak_beside_its_figures() {
        let files = files().unwrap();
        let page = String::from_utf8(files[&Path::new(DIRECTORY).join("README.md")].clone()).unwrap();
        let mut weak_ones = 0;
        for (path, results) in results().unwrap() {
            let (path, reasons) = (path.display().to_string(), page::weak_reasons(&results.about));
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
