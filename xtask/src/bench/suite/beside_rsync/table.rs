//! The table that tells this suite, in README.md.

use crate::bench::record::{self, Results};
use crate::bench::tell;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use thalweg_lab::bench::statistics::Series;

/// The tools in it: ours and rsync over the same kind of link, one after the other.
pub const TOOLS: [&str; 4] = ["thalweg daemon", "rsync daemon", "thalweg ssh", "rsync ssh"];

/// Wall and CPU seconds of the runs of one tool in one scenario, by the number of the round.
#[derive(Default)]
struct Runs {
    wall_s: Series,
    cpu_s_per_gb: Series,
    bytes: f64,
    files: f64,
}

/// A Markdown table of a result: medians of wall time with the shortest and the longest run, thalweg and rsync
/// side by side over the same kind of link, and how many times the time and the CPU seconds of thalweg rsync took,
/// within a round.
///
/// # Errors
/// If a tool of it is not known.
pub fn table(results: &Results) -> Result<String> {
    let mut rows: BTreeMap<(String, usize), Runs> = BTreeMap::new();
    for sample in &results.samples {
        let tool = &sample.series;
        let place = TOOLS.iter().position(|known| known == tool);
        let scenario = format!("{}, {}", record::scenario_of(sample), record::cache_of(sample));
        let runs = rows.entry((scenario, place.with_context(|| format!("no tool {tool}"))?)).or_default();
        (runs.bytes, runs.files) = (sample.bytes as f64, sample.files as f64);
        let round = sample.run as usize;
        runs.wall_s.insert(round, sample.wall_s);
        runs.cpu_s_per_gb.insert(round, record::cpu_s_per_gb(sample));
    }
    let mut out = String::from("| data, cache |");
    for link in TOOLS.chunks(2) {
        let [ours, theirs] = link else { unreachable!("tools come in pairs") };
        write!(out, " {ours}, s | {theirs}, s | rsync took: time, CPU |")?;
    }
    out.push_str("\n|---|---|---|---|---|---|---|\n");
    let scenarios: BTreeSet<&str> = rows.keys().map(|(scenario, _)| scenario.as_str()).collect();
    for scenario in scenarios {
        write!(out, "| {scenario} |")?;
        for ours in (0..TOOLS.len()).step_by(2) {
            let runs = |place| rows.get(&(scenario.to_owned(), place));
            let (Some(ours), Some(theirs)) = (runs(ours), runs(ours + 1)) else {
                write!(out, " | | |")?;
                continue;
            };
            let against = |of: fn(&Runs) -> &Series| tell::ratio_median(of(theirs), of(ours));
            let (wall, cpu) = (against(|runs| &runs.wall_s), against(|runs| &runs.cpu_s_per_gb));
            write!(out, " {} | {} | {wall:.2} ×, {cpu:.2} × |", ours.shown(), theirs.shown())?;
        }
        out.push('\n');
    }
    let runs = rows.values().map(|runs| runs.wall_s.len()).min().unwrap_or(0);
    let mut sizes: Vec<String> = rows
        .iter()
        .map(|((scenario, _), runs)| {
            let name = scenario.split(',').next().unwrap_or_default();
            let files = if runs.files == 1.0 { "file" } else { "files" };
            format!("{name}: {} {files}, {:.2} GB", runs.files, runs.bytes / 1e9)
        })
        .collect();
    sizes.dedup();
    let about = &results.about;
    // It says its version with more spaces than it needs.
    let rsync = about.more.get(record::RSYNC).map_or("rsync", String::as_str);
    let rsync: Vec<&str> = rsync.split_whitespace().collect();
    write!(
        out,
        "\nSeconds are medians of {runs} interleaved runs over loopback (shortest–longest), final sync included; every copy was \
         compared afterwards. What rsync took is the median of the rounds' ratios, not the ratio of the medians. CPU is that \
         of all processes of both sides. {}. rsync's daemon does not encrypt. \
         {}; {}; {}{}.{}\n",
        sizes.join("; "),
        tell::machine_of(about),
        rsync.join(" "),
        tell::day(about),
        tell::commit(about),
        super::SUITE.care(results, runs),
    )?;
    Ok(out)
}

impl Runs {
    fn shown(&self) -> String {
        let (least, most) = self
            .wall_s
            .values()
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
        format!("{:.2} ({least:.2}–{most:.2})", tell::median_of(&self.wall_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{CACHE, Load};
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::About;

    /// rsync took 3, 1, 3, 2 and 4 times as long: in the median 3.
    #[test]
    fn ratios_are_those_within_a_round_and_few_runs_are_weak() {
        let rounds = [(1, 1.0, 3.0), (2, 2.0, 2.0), (3, 3.0, 9.0), (4, 1.0, 2.0), (5, 1.0, 4.0)];
        let told = |rounds: &[(usize, f64, f64)], commit: &str| {
            let about = About { commit: Some(commit.into()), ..About::default() };
            let mut results = Results { about, ..Results::default() };
            for &(run, ours, theirs) in rounds {
                for (tool, wall_s) in [(TOOLS[0], ours), (TOOLS[1], theirs)] {
                    let load = Load { scenario: "large", tool, run, bytes: 1_000_000_000, files: 1 };
                    let sample = load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: wall_s });
                    results.samples.push(sample.with(CACHE, "warm".into()));
                }
            }
            table(&results).unwrap()
        };
        let whole = told(&rounds, "bc7c365");
        assert!(whole.contains("| 3.00 ×, 3.00 × |") && !whole.contains("Weak"), "{whole}");
        assert!(told(&rounds[..3], "bc7c365").contains(" Weak: 3 runs, 5 by default."));
        assert!(told(&rounds[..2], "bc7c365").contains(" Weak: 2 runs, fewer than 3."));
        assert!(told(&rounds, "unknown").contains(" Weak: the program's commit is not known."));
    }
}
