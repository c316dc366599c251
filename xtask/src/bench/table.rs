//! The table in README.md, made from the results of the suite `beside-rsync`.

use crate::bench::page;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
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

/// A Markdown table of a result file: medians of wall time with the shortest and the longest run, thalweg and rsync
/// side by side over the same kind of link, and how many times the time and the CPU seconds of thalweg rsync took,
/// within a round.
///
/// # Errors
/// If the file cannot be read or holds something else.
pub fn table(path: &Path) -> Result<String> {
    of(&fs::read_to_string(path).with_context(|| path.display().to_string())?)
}

/// The same of its text.
fn of(text: &str) -> Result<String> {
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let about = lines.next().context("an empty result file")??;
    let mut rows: BTreeMap<(String, usize), Runs> = BTreeMap::new();
    for line in lines {
        let sample = line?;
        let word = |key: &str| sample[key].as_str().with_context(|| format!("no {key} in {sample}"));
        let number = |key: &str| sample[key].as_f64().with_context(|| format!("no {key} in {sample}"));
        let tool = word("tool")?;
        let place = TOOLS.iter().position(|known| *known == tool);
        let scenario = format!("{}, {}", word("scenario")?, word("cache")?);
        let runs = rows.entry((scenario, place.with_context(|| format!("no tool {tool}"))?)).or_default();
        (runs.bytes, runs.files) = (number("bytes")?, number("files")?);
        let round = number("run")? as usize;
        runs.wall_s.insert(round, number("wall_s")?);
        runs.cpu_s_per_gb.insert(round, number("cpu_s")? / (runs.bytes / 1e9));
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
            let against = |of: fn(&Runs) -> &Series| page::ratio_median(of(theirs), of(ours));
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
    let about = &about["about"];
    // rsync says its version with more spaces than it needs.
    let of = |key: &str| {
        let words: Vec<&str> = about[key].as_str().unwrap_or("?").split_whitespace().collect();
        words.join(" ")
    };
    let (load, cores) = page::busyness(about);
    let rootless = page::rootless_why(about["commit"].as_str()).map(str::to_owned);
    let weak: Vec<String> = [page::weak(runs, load, cores), rootless].into_iter().flatten().collect();
    let weak = if weak.is_empty() { String::new() } else { format!(" Weak: {}.", weak.join("; ")) };
    write!(
        out,
        "\nSeconds are medians of {runs} interleaved runs over loopback (shortest–longest), final sync included; every copy was \
         compared afterwards. CPU is that of all processes of both sides. {}. rsync's daemon does not encrypt. \
         {} ({} cores), {}, {}; {}; {}, commit {}.{weak}\n",
        sizes.join("; "),
        of("cpu"),
        about["cores"],
        of("kernel"),
        of("file_system"),
        of("rsync"),
        of("date"),
        of("commit"),
    )?;
    Ok(out)
}

impl Runs {
    fn shown(&self) -> String {
        let (least, most) = self
            .wall_s
            .values()
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
        format!("{:.2} ({least:.2}–{most:.2})", page::median_of(&self.wall_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// thalweg took 1, 2 and 3 s, rsync 3, 2 and 9 s: three times as long in two rounds of three.
    #[test]
    fn ratios_are_those_within_a_round_and_few_runs_are_weak() {
        let told = |rounds: &[(u32, f64, f64)], commit: &str| {
            let mut text = format!("{}\n", serde_json::json!({"about": {"commit": commit}}));
            for (run, ours, theirs) in rounds {
                for (tool, wall_s) in [(TOOLS[0], ours), (TOOLS[1], theirs)] {
                    let line = serde_json::json!({
                        "scenario": "large", "cache": "warm", "tool": tool, "run": run, "files": 1,
                        "bytes": 1_000_000_000, "wall_s": wall_s, "cpu_s": wall_s,
                    });
                    writeln!(text, "{line}").unwrap();
                }
            }
            of(&text).unwrap()
        };
        let rounds = [(1, 1.0, 3.0), (2, 2.0, 2.0), (3, 3.0, 9.0)];
        let whole = told(&rounds, "bc7c365");
        assert!(whole.contains("| 3.00 ×, 3.00 × |") && !whole.contains("Weak"), "{whole}");
        assert!(told(&rounds[1..], "bc7c365").contains(" Weak: 2 runs, fewer than 3."));
        assert!(told(&rounds, "unknown").contains(" Weak: the program's commit is not known."));
    }
}
