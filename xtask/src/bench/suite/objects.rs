//! Trees into a bucket and back, beside the tools that users have for it.

use super::{Row, Suite, loopback, row};
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::{self, Times, Workspace};
use crate::bench::{Bench, data};
use crate::{toolchain, trees};
use anyhow::Result;
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_lab::bench::statistics;

mod store;

mod tools;

pub mod distance;

use store::{Store, Took};
use tools::{Job, OURS, TOOLS, Tool, Way};

pub const SUITE: Suite = Suite {
    name: NAME,
    title: Some("Object stores, beside others"),
    asks: "How long does a tree take into a bucket and back, beside the tools that users have for that (000 Fig 11): \
           aws-cli, rclone and s5cmd, each set as its documentation advises for the shape? All speak https to one store, \
           versitygw with its objects as files on the same disk, over the loopback. Into the bucket (up) counts until \
           the tool ends, and the store syncs nothing; out of it (down) counts until the files are durable: thalweg sees \
           to that itself, for the others a sync follows. Source and objects are in the page cache. In each round a tool \
           gets back what it has put. Goals: in each shape, up and down, at least as fast as the best of the three.",
    takes: "about 25 minutes, 10 GB of disk",
    runs: 5,
    path: loopback,
    rows,
    run,
    tell,
};

/// As it is typed.
pub const NAME: &str = "objects";

/// What is copied.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    files: u32,
    /// Of each.
    bytes: u64,
}

/// As many of the smallest as let a round of everything end within some four minutes on two cores.
const SHAPES: [Shape; 3] = [
    Shape { name: "1 large", files: 1, bytes: 2 << 30 },
    Shape { name: "1,000 x 1 MiB", files: 1000, bytes: 1 << 20 },
    Shape { name: "5,000 x 4 KiB", files: 5000, bytes: 4096 },
];

impl Shape {
    fn scenario(&self, way: Way) -> String {
        format!("{}, {}", self.name, way.name())
    }
}

fn rows() -> Vec<Row> {
    let scenarios = SHAPES.iter().flat_map(|shape| Way::ALL.map(|way| shape.scenario(way)));
    let of = |scenario: String| TOOLS.iter().map(move |tool| row(scenario.as_str(), tool.name));
    scenarios.flat_map(of).collect()
}

/// Parameter: which version of the tool.
const VERSION: &str = "version";
/// Measured: the store's part of the CPU seconds, and how many requests it was asked.
const STORE_CPU: &str = "store_cpu_s";
const REQUESTS: &str = "requests";

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let store = Store::start(&bench.workspace)?;
    let tools = installed(bench, |_| true)?;
    for (number, shape) in SHAPES.into_iter().enumerate() {
        if !bench.wants(shape.name) {
            continue;
        }
        let set = Set::make(bench, number, shape)?;
        compete(bench, &store, &set, &tools)?;
        if shape.files == 1 {
            fs::remove_dir_all(&set.source)?;
        }
    }
    Ok(())
}

/// Those of the tools of a suite that `--tool` lets through and that are there, with their versions. What is missing is
/// told to be left out.
fn installed(
    bench: &mut Bench<'_>,
    is_of_suite: impl Fn(&Tool) -> bool,
) -> Result<Vec<(&'static Tool, String)>> {
    let mut tools = Vec::new();
    for tool in TOOLS.iter().filter(|tool| is_of_suite(tool)) {
        if !tool.is_ours() && !tool.name.contains(&bench.args.tool) {
            continue;
        }
        match tool.version(&bench.workspace) {
            Ok(version) => tools.push((tool, version)),
            Err(error) if tool.is_ours() => return Err(error),
            Err(error) => bench.log.left_out(tool.name, &format!("{error:#}"))?,
        }
    }
    Ok(tools)
}

/// What is there to be copied.
struct Set {
    /// Of the shape.
    number: usize,
    shape: Shape,
    source: PathBuf,
}

impl Set {
    /// Makes it; one large file is as large as `--large-mib` says.
    fn make(bench: &Bench<'_>, number: usize, mut shape: Shape) -> Result<Set> {
        let source = bench.workspace.directory(&format!("source-{number}"))?;
        if shape.files == 1 {
            shape.bytes = bench.large_bytes(shape.bytes >> 20);
            toolchain::make_large_file(&toolchain::directory()?, &source.join("file"), shape.bytes)?;
        } else {
            data::make_small_files(&source, shape.files, usize::try_from(shape.bytes)?)?;
        }
        Ok(Set { number, shape, source })
    }

    /// All of it together.
    fn bytes(&self) -> u64 {
        self.shape.bytes * u64::from(self.shape.files)
    }
}

/// All rounds of a shape. A peer that cannot run or does not copy right is left out from then on, and the result says
/// so.
fn compete(bench: &mut Bench<'_>, store: &Store, set: &Set, tools: &[(&'static Tool, String)]) -> Result<()> {
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let mut left_out = HashSet::new();
    workspace::rounds(runs, tools.to_vec(), |run, (tool, version)| {
        if left_out.contains(tool.name) {
            return Ok(());
        }
        let shape = set.shape;
        let bucket = format!("{}-{run}-{}", set.number, tool.name);
        let both = up_and_down(workspace, store, set, tool, &bucket, |way, command, synced| {
            Ok((way, store.time(workspace, command, synced)?))
        });
        let both = match both {
            Ok(both) => both,
            Err(error) if tool.is_ours() => return Err(error),
            Err(error) => {
                left_out.insert(tool.name);
                return log.left_out(&format!("{} ({})", tool.name, shape.name), &format!("{error:#}"));
            }
        };
        for (way, took) in both {
            let scenario = shape.scenario(way);
            eprintln!("{scenario}: {} {run}: {:.2} s", tool.name, took.times.wall_s);
            if run == 0 {
                continue;
            }
            let files = u64::from(shape.files);
            let load = Load { scenario: &scenario, tool: tool.name, run, bytes: set.bytes(), files };
            log.sample(&sample(&load, &took, version))?;
        }
        Ok(())
    })
}

/// Into a bucket of its own and out of it again, both times compared with the source. `time` runs a command and, if it
/// is given a directory, makes durable what is there.
fn up_and_down<T>(
    workspace: &Workspace,
    store: &Store,
    set: &Set,
    tool: &Tool,
    bucket: &str,
    time: impl Fn(Way, Command, Option<&Path>) -> Result<T>,
) -> Result<[T; 2]> {
    // What is truncated rather than deleted is in nobody's way: each run has a bucket and a directory of its own.
    let objects = store.make_bucket(bucket)?;
    let back = workspace.directory("back")?.join(bucket);
    let command = |way, directory: &Path| {
        let job = Job { way, directory, bucket, has_many_files: set.shape.files > 1 };
        tool.command(workspace, store, &job)
    };
    data::warm(&set.source)?;
    let up = time(Way::Up, command(Way::Up, &set.source), None)?;
    trees::same_content(&set.source, &objects)?;
    data::warm(&objects)?;
    let down = time(Way::Down, command(Way::Down, &back), Some(back.as_path()))?;
    trees::same_content(&set.source, &back)?;
    data::free(&objects)?;
    data::free(&back)?;
    Ok([up, down])
}

/// CPU seconds of a sample are those of tool and store together.
fn sample(load: &Load<'_>, took: &Took, version: &str) -> Sample {
    let Times { wall_s, unsynced_s, cpu_s } = took.times;
    let sample = load.took(&Times { wall_s, unsynced_s, cpu_s: cpu_s + took.store_cpu_s });
    let sample = sample.with(VERSION, version.into()).measured(STORE_CPU, took.store_cpu_s, "s");
    sample.measured(REQUESTS, took.requests as f64, "1")
}

fn store_cpu_s(sample: &Sample) -> f64 {
    record::measured(sample, STORE_CPU)
}

fn tool_cpu_s(sample: &Sample) -> f64 {
    sample.cpu_s.unwrap_or(f64::NAN) - store_cpu_s(sample)
}

/// CPU seconds for 10^9 bytes; where there are many objects, microseconds for each.
fn cost(sample: &Sample, cpu_s: f64) -> f64 {
    match sample.files {
        1 => cpu_s / (sample.bytes as f64 / 1e9),
        files => cpu_s * 1e6 / files as f64,
    }
}

/// The best of the others, and how many times our time it took, round by round.
fn best(results: &Results, scenario: &str) -> Option<(&'static str, Vec<f64>)> {
    let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
    let others = TOOLS.iter().filter(|tool| !tool.is_ours()).map(|tool| tool.name);
    let ran = others.filter(|name| !wall(name).is_empty());
    let best = ran.min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b))))?;
    Some((best, statistics::ratios(&wall(best), &wall(OURS))))
}

fn tell(results: &Results) -> Result<String> {
    let mut out =
        String::from("| shape | the best other | times as fast as it | goal |\n|---|---|---|---|\n");
    let scenarios: Vec<String> =
        SHAPES.iter().flat_map(|shape| Way::ALL.map(|way| shape.scenario(way))).collect();
    for scenario in &scenarios {
        let goal = Goal::AtLeast(1.0);
        match best(results, scenario) {
            Some((name, ratios)) => writeln!(
                out,
                "| {scenario} | {name} | {} | {} |",
                tell::shown(&ratios),
                goal.verdict_of(&ratios)
            )?,
            None => writeln!(out, "| {scenario} | none ran | | {} |", goal.verdict(f64::NAN))?,
        }
    }
    out += "\n| tool | version | set |\n|---|---|---|\n";
    for tool in &TOOLS {
        let ran = results.samples.iter().find(|sample| sample.series == tool.name);
        let version = ran.and_then(|sample| sample.parameters.get(VERSION)?.word());
        writeln!(out, "| {} | {} | {} |", tool.name, version.unwrap_or("did not run"), tool.set)?;
    }
    for scenario in scenarios.iter().filter(|scenario| !results.tools(scenario).is_empty()) {
        writeln!(out, "\n{}", table(results, scenario)?.trim_end())?;
    }
    Ok(out)
}

/// What each tool takes in one scenario.
fn table(results: &Results, scenario: &str) -> Result<String> {
    let first = results.samples.iter().find(|sample| record::scenario_of(sample) == scenario);
    let (bytes, files) = first.map_or((0, 0), |sample| (sample.bytes, sample.files));
    let [rate, cpu] = if files > 1 { ["objects/s", "CPU-µs/object"] } else { ["Gbit/s", "CPU-s/GB"] };
    let mut out = format!("### {scenario}\n\n{:.2} GB.\n\n", bytes as f64 / 1e9);
    writeln!(
        out,
        "| tool | s | max/min | s before sync | {rate} | {cpu}, tool | {cpu}, store | requests | time against {OURS} |\n\
         |---|---|---|---|---|---|---|---|---|"
    )?;
    let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
    for name in TOOLS.iter().map(|tool| tool.name).filter(|name| !wall(name).is_empty()) {
        let figure = |of: fn(&Sample) -> f64| tell::median_of(&results.series(scenario, name, of));
        let rate = match files > 1 {
            true => format!("{:.0}", figure(record::files_per_s)),
            false => format!("{:.2}", figure(record::gbit_per_s)),
        };
        let against = match name == OURS {
            true => "1".to_owned(),
            false => tell::ratio(&wall(name), &wall(OURS)),
        };
        writeln!(
            out,
            "| {name} | {} | {:.2} | {:.2} | {rate} | {} | {} | {:.0} | {against} |",
            tell::with_interval(&wall(name)),
            tell::spread_of(&wall(name)),
            figure(record::unsynced_s),
            tell::number(figure(|sample| cost(sample, tool_cpu_s(sample)))),
            tell::number(figure(|sample| cost(sample, store_cpu_s(sample)))),
            figure(|sample| record::measured(sample, REQUESTS)),
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall_s: f64, cpu_s: f64, store_cpu_s: f64, requests: u64) -> Took {
        Took { times: Times { wall_s, unsynced_s: wall_s, cpu_s }, store_cpu_s, requests }
    }

    #[test]
    fn the_best_of_the_others_is_the_goal_and_tool_and_store_are_told_apart() {
        let mut results = Results::default();
        let mut add = |shape: &Shape, way, tool, run, took: Took| {
            let (scenario, files) = (shape.scenario(way), u64::from(shape.files));
            let load = Load { scenario: &scenario, tool, run, bytes: shape.bytes * files, files };
            results.samples.push(sample(&load, &took, "1.2"));
        };
        let [large, _, small] = &SHAPES;
        for run in 1..=3 {
            add(large, Way::Up, OURS, run, took(2.0, 2.147_483_648, 4.294_967_296, 132));
            add(large, Way::Up, "aws-cli", run, took(8.0, 9.0, 5.0, 260));
            add(large, Way::Up, "s5cmd", run, took(3.0, 4.0, 5.0, 44));
            add(small, Way::Down, OURS, run, took(1.0, 0.5, 1.0, 10_001));
            add(small, Way::Down, "s5cmd", run, took(0.5, 0.75, 1.0, 10_001));
        }
        let page = tell(&results).unwrap();
        for line in [
            "| 1 large, up | s5cmd | 1.50 [1.50–1.50] | at least 1: met |",
            "| 1 large, down | none ran | | at least 1: not measured |",
            "| 5,000 x 4 KiB, down | s5cmd | 0.500 [0.500–0.500] | at least 1: **missed by 50.0 %** |",
            "| thalweg | 1.2 | its defaults |",
            "| thalweg | 2.00 [2.00–2.00] | 1.00 | 2.00 | 8.59 | 1.00 | 2.00 | 132 | 1 |",
            "| thalweg | 1.00 [1.00–1.00] | 1.00 | 1.00 | 5000 | 100 | 200 | 10001 | 1 |",
            "| s5cmd | 0.500 [0.500–0.500] | 1.00 | 0.50 | 10000 | 150 | 200 | 10001 | 0.500 [0.500–0.500] |",
        ] {
            assert!(page.lines().any(|told| told == line), "{line}\n{page}");
        }
        assert!(!page.contains("### 1,000 x 1 MiB"), "{page}");
        let both = results.samples[0].cpu_s.unwrap();
        assert!((both - 6.442_450_944).abs() < 1e-9, "{both}");
    }
}
