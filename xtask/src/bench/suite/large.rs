//! One large file, beside others.

use super::{Row, Suite, limit, loopback, row};
use crate::bench::Bench;
use crate::bench::copies::{self, Scenario};
use crate::bench::record::Results;
use crate::bench::tell::{self, Goal};
use crate::toolchain;
use anyhow::Result;
use std::fmt::Write;
use thalweg_lab::bench::statistics;

pub const SUITE: Suite = Suite {
    name: "large",
    title: Some("A large file, beside others"),
    asks: "How long does one large warm file take to be durable at the far side, beside other tools? Goals, in wall time \
           with the final sync: at least as fast as the best that neither encrypts nor verifies; at least twice as fast \
           as the best that encrypts; at least six times as fast as the best that reads both ends again to compare them; \
           max/min of our wall time at most 1.10. \
           (thalweg, by default, and rsync compare what they received with what was read; rsync counts by whether it \
           encrypts, and stands in the table.)",
    takes: "about 20 minutes, 9 GB of disk",
    runs: 5,
    path: loopback,
    rows,
    run,
    tell,
};

const SCENARIO: &str = "large";
const OURS: &str = "thalweg daemon";

const NAMES: [&str; 15] = [
    OURS,
    "thalweg ssh",
    "rsync daemon",
    "rsync ssh",
    "scp",
    "tar ssh",
    "tar socket",
    "GridFTP",
    "GridFTP checksums",
    "GridFTP private",
    "GridFTP private checksums",
    "xrootd",
    "xrootd TLS",
    "rclone webdav",
    "rclone sftp",
];

/// The goals: times as fast as the best of these.
const GOALS: [(&str, f64, &[&str]); 3] = [
    ("that does not encrypt", 1.0, &["rsync daemon", "tar socket", "GridFTP", "xrootd", "rclone webdav"]),
    ("that encrypts", 2.0, &["rsync ssh", "scp", "tar ssh", "GridFTP private", "xrootd TLS"]),
    ("that reads both ends again", 6.0, &["GridFTP checksums", "GridFTP private checksums", "rclone sftp"]),
];

fn rows() -> Vec<Row> {
    NAMES.iter().map(|name| row(SCENARIO, *name)).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let bytes = bench.large_bytes(4096);
    let source = bench.workspace.directory("large")?;
    toolchain::make_large_file(&toolchain::directory()?, &source.join("file"), bytes)?;
    let export = bench.workspace.directory("export")?;
    let scenario =
        Scenario { name: SCENARIO.to_owned(), source, bytes, files: 1, small_bytes: None, few: None };
    let tools = copies::chosen(bench, &NAMES)?;
    copies::compete(bench, &export, &scenario, &tools)
}

/// The best of the tools of a kind that ran.
struct Best {
    tool: &'static str,
    /// How many times our time it took, round by round.
    times: Vec<f64>,
    /// All of the kind that ran.
    of: Vec<&'static str>,
}

/// What the best other tools of each kind are, the goal, and the best that ran.
fn best(results: &Results) -> Vec<(&'static str, f64, Option<Best>)> {
    let wall = |tool: &str| results.series(SCENARIO, tool, |sample| sample.wall_s);
    let best_of = |names: &[&'static str]| {
        let of: Vec<&str> = names.iter().copied().filter(|name| !wall(name).is_empty()).collect();
        let ran = of.iter().copied();
        let tool = ran.min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b))))?;
        Some(Best { tool, times: statistics::ratios(&wall(tool), &wall(OURS)), of })
    };
    GOALS.iter().map(|(what, goal, names)| (*what, *goal, best_of(names))).collect()
}

/// For README.md, in a sentence, with all tools that the best is the best of: others may not have run; nothing if
/// nothing was measured.
pub fn in_short(results: &Results) -> String {
    let bytes = results.samples.first().map_or(0, |sample| sample.bytes);
    let parts: Vec<String> = best(results)
        .into_iter()
        .filter_map(|(what, _, best)| {
            let Best { tool, times, of } = best?;
            Some(format!(
                "{} × as fast as {tool}, the best {what} (of {})",
                tell::number(statistics::median(&times)),
                of.join(", ")
            ))
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(
        "One warm file of {:.2} GB through a daemon, encrypted and verified, until it is durable, beside the tools that ran: \
         {}. `cargo xtask bench --suite {}`.",
        bytes as f64 / 1e9,
        parts.join("; "),
        SUITE.name,
    )
}

fn tell(results: &Results) -> Result<String> {
    let bytes = results.samples.first().map_or(0, |sample| sample.bytes);
    let mut out = format!("One file of {:.2} GB, over loopback.\n\n", bytes as f64 / 1e9);
    out += "| the best | it is | times as fast as it | goal |\n|---|---|---|---|\n";
    for (what, times, best) in best(results) {
        let goal = Goal::AtLeast(times);
        match best {
            Some(Best { tool, times, .. }) => {
                writeln!(out, "| {what} | {tool} | {} | {} |", tell::shown(&times), goal.verdict_of(&times))?
            }
            None => writeln!(out, "| {what} | none ran | | {} |", goal.verdict(f64::NAN))?,
        }
    }
    let wall = results.series(SCENARIO, OURS, |sample| sample.wall_s);
    if !wall.is_empty() {
        let spread = tell::spread_of(&wall);
        writeln!(out, "\nmax/min of {OURS}: {spread:.2}; {}.", limit::SPREAD.verdict(spread))?;
    }
    writeln!(out, "\n{}", copies::table(results, SCENARIO, OURS)?)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Load;
    use crate::bench::workspace::Times;

    #[test]
    fn how_far_apart_our_runs_are_is_a_goal_as_well() {
        let of = |(run, wall_s): (usize, f64)| {
            let load = Load { scenario: SCENARIO, tool: OURS, run, bytes: 1 << 32, files: 1 };
            load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 })
        };
        let told = |walls: [f64; 3]| {
            let samples = (1..).zip(walls).map(of).collect();
            tell(&Results { samples, ..Results::default() }).unwrap()
        };
        assert!(told([2.0, 2.1, 2.125]).contains("max/min of thalweg daemon: 1.06; at most 1.1: met."));
        assert!(told([1.0, 1.2, 1.1]).contains("1.20; at most 1.1: **missed by 9.1 %**."));
    }
}
