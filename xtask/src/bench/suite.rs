//! The suites: one file for each question, with what is run and how it is told.

use crate::bench::Bench;
use crate::bench::record::Results;
use crate::bench::tell;
use anyhow::Result;
use thalweg_lab::bench::record::PathKind;
use thalweg_lab::bench::{MTU_BYTES, stale, suite};

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
    /// Scenario and tool of each row that a whole run has; none where that depends on what is measured.
    pub rows: fn() -> Vec<Row>,
    pub run: fn(&mut Bench<'_>) -> Result<()>,
    pub tell: fn(&Results) -> Result<String>,
}

/// Scenario and tool.
pub type Row = (String, String);

/// The same, of words.
fn row(scenario: impl Into<String>, tool: impl Into<String>) -> Row {
    (scenario.into(), tool.into())
}

/// Of a result that was asked for a part of its suite, or for less than it has.
const PART: [&str; 3] = [" --only", " --tool", " --large-mib"];

impl Suite {
    /// The rows that a result lacks, and those that the suite has no more, in short: then it is not what the suite
    /// would give today. What it says it left out is not missing; one of which only a part was asked for is not held
    /// against the whole.
    pub fn difference(&self, results: &Results) -> Option<String> {
        let rows = (self.rows)();
        let is_part = PART.iter().any(|option| results.about.command.contains(option));
        if rows.is_empty() || is_part {
            return None;
        }
        let of = |scenario| results.tools(scenario).into_iter().map(move |tool| row(scenario, tool));
        let had: Vec<Row> = results.scenarios().into_iter().flat_map(of).collect();
        let is_left_out = |row: &Row| results.left_out.iter().any(|line| leaves_out(&line.what, row));
        let lacked = by_tool(rows.iter().filter(|row| !had.contains(*row) && !is_left_out(row)));
        let more = by_tool(had.iter().filter(|row| !rows.contains(*row)));
        let lacked = lacked.into_iter().map(|rows| format!("lacks {rows}"));
        let more = more.into_iter().map(|rows| format!("has {rows}, as the suite has not any more"));
        stale::in_short(lacked.chain(more).collect())
    }

    /// Why a result with so many runs of each case is to be taken with care, in sentences behind others: ` Weak: ….
    /// Stale: ….`; nothing where there is no reason.
    pub fn care(&self, results: &Results, runs: usize) -> String {
        let about = &results.about;
        let (load, cores) = tell::busyness(about);
        let few_or_busy = tell::weak(runs, tell::fewer(runs, Some(self.runs)), load, cores);
        let rootless = tell::rootless_why(about.commit.as_deref()).map(str::to_owned);
        let weak: Vec<String> = [few_or_busy, rootless].into_iter().flatten().collect();
        let weak = (!weak.is_empty()).then(|| weak.join("; "));
        let said = [("Weak", weak), ("Stale", self.difference(results))];
        said.into_iter().filter_map(|(word, why)| Some(format!(" {word}: {}.", why?))).collect()
    }
}

/// Whether a row did not run because a result left this out: the tool, the scenario or a part of its name (a congestion
/// control, a shape), or the tool in such.
fn leaves_out(what: &str, (scenario, tool): &Row) -> bool {
    let parts: Vec<&str> = scenario.split(", ").collect();
    let is_place = |place: &str| place.split(", ").all(|part| parts.contains(&part));
    let inside = what.strip_prefix(tool.as_str()).and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
    what == tool || is_place(what) || inside.is_some_and(is_place)
}

/// Rows in words, those of one tool together.
fn by_tool<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<String> {
    let mut tools: Vec<(&str, Vec<&str>)> = Vec::new();
    for (scenario, tool) in rows {
        match tools.iter_mut().find(|known| known.0 == tool.as_str()) {
            Some((_, scenarios)) => scenarios.push(scenario.as_str()),
            None => tools.push((tool.as_str(), vec![scenario.as_str()])),
        }
    }
    let told = |(tool, scenarios): (&str, Vec<&str>)| match scenarios[..] {
        [one] => format!("{tool} in `{one}`"),
        _ => format!("{tool} in {} scenarios", scenarios.len()),
    };
    tools.into_iter().map(told).collect()
}

/// Counted runs that the suite of this name makes unless others are asked for, be it one of ours or of `thalweg bench`.
pub fn usual_runs(name: &str) -> Option<usize> {
    let ours = SUITES.iter().find(|suite| suite.name == name).map(|suite| suite.runs);
    ours.or_else(|| suite::Suite::find(name).map(|suite| suite.runs as usize))
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
    use thalweg_lab::bench::record::LeftOut;

    #[test]
    fn a_result_does_not_say_that_copies_over_a_distance_took_the_loopback() {
        for suite in SUITES {
            let is_far = ["distance", "distance-tools", "tune", "objects-distance"].contains(&suite.name);
            assert_eq!((suite.path)() == PathKind::Loopback, !is_far, "{}", suite.name);
        }
    }

    /// A result with these rows.
    fn with(rows: &[Row]) -> Results {
        let times = Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 };
        let load = |(scenario, tool): &Row| Load { scenario, tool, run: 1, bytes: 1, files: 1 }.took(&times);
        Results { samples: rows.iter().map(load).collect(), ..Results::default() }
    }

    #[test]
    fn a_result_is_stale_without_any_row_that_its_suite_has_and_only_searches_do_not_say_theirs() {
        let mut silent = Vec::new();
        for suite in SUITES {
            let rows = (suite.rows)();
            if rows.is_empty() {
                silent.push(suite.name);
                continue;
            }
            assert_eq!(suite.difference(&with(&rows)), None, "{}", suite.name);
            for at in 0..rows.len() {
                let mut less = rows.clone();
                let (scenario, tool) = less.remove(at);
                let lacks = format!("lacks {tool} in `{scenario}`");
                assert_eq!(suite.difference(&with(&less)), Some(lacks), "{}", suite.name);
            }
        }
        // The last stands in README.md alone.
        assert_eq!(silent, ["auto", "tune", "beside-rsync"]);
    }

    #[test]
    fn what_a_result_lacks_is_told_by_tools_and_what_it_left_out_is_not_lacking() {
        let mut less = (distance_tools::SUITE.rows)();
        less.retain(|(_, tool)| !tool.starts_with("rclone") && tool != "xrootd" && tool != "scp");
        less.retain(|it| *it != row("two pairs of hosts, 100ms", "rsync daemon"));
        less.push(row("a large file, 20ms", "folklore"));
        let mut results = with(&less);
        let told = distance_tools::SUITE.difference(&results).unwrap();
        let lacks = ["scp", "xrootd", "rclone webdav"].map(|tool| format!("lacks {tool} in 6 scenarios"));
        assert_eq!(told, format!("{}; and 3 more", lacks.join("; ")));
        let lines =
            ["scp", "xrootd", "rclone webdav", "rclone sftp", "rsync daemon (two pairs of hosts, 100ms)"];
        let line = |what: &str| LeftOut { what: what.to_owned(), why: "it is not there".to_owned() };
        results.left_out = Vec::from(lines.map(line));
        let told = distance_tools::SUITE.difference(&results).unwrap();
        assert_eq!(told, "has folklore in `a large file, 20ms`, as the suite has not any more");
    }

    #[test]
    fn a_row_is_left_out_by_its_tool_by_its_scenario_or_by_a_part_of_that() {
        let copy = row("reno, 200ms", "thalweg");
        for what in ["thalweg", "reno, 200ms", "reno", "thalweg (reno, 200ms)", "thalweg (reno)"] {
            assert!(leaves_out(what, &copy), "{what}");
        }
        for what in ["cubic", "thalweg (cubic)", "thalweg ssh", "iperf3 (reno)", "reno, 100ms", ""] {
            assert!(!leaves_out(what, &copy), "{what}");
        }
        let object = row("1,000 x 1 MiB, up", "s5cmd");
        assert!(leaves_out("s5cmd (1,000 x 1 MiB)", &object) && !leaves_out("s5cmd (1 large)", &object));
    }

    #[test]
    fn the_usual_runs_of_a_suite_are_known_by_its_name_whoever_has_it() {
        assert_eq!(usual_runs("limit"), Some(limit::SUITE.runs));
        assert_eq!(usual_runs("latency"), Some(suite::Suite::find("latency").unwrap().runs as usize));
        assert_eq!(usual_runs("folklore"), None);
        assert!(SUITES.iter().all(|ours| suite::Suite::find(ours.name).is_none()));
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
