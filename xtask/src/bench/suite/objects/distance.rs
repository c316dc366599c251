//! Objects into a bucket and out of it, near and far (000 Fig 11): the store runs in the far host of an emulated path
//! (`thalweg testbed`), each tool in the near one.

use super::store::Store;
use super::tools::{OURS, TOOLS, Tool, Way};
use super::{REQUESTS, Set, Shape, best, installed, sample, up_and_down};
use crate::bench::network::Testbed;
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::suite::{Row, Suite, emulated, row};
use crate::bench::tell::{self, Goal};
use crate::bench::{Bench, workspace};
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use thalweg_lab::bench::record::Quantity;
use thalweg_lab::bench::statistics::{self, Series};
use thalweg_lab::bench::table::told;

pub const SUITE: Suite = Suite {
    name: NAME,
    title: Some("Object stores over a distance"),
    asks: "How much longer do objects take into a bucket and out of it, the farther the store is (000 Fig 11)? The store is \
           versitygw, by https, in the far host of an emulated path of 1 Gbit/s without loss, with cubic; the hosts' \
           buffers are those of 000 Table III. Each tool has as many requests under way as it has by itself, or as its \
           documentation advises for the shape. 000 copied 1.2 TiB at 10 Gbit/s, over 63 and 10,851 km, and does not tell \
           its round trip times: here they are 2 to 150 ms, with the three classes of its Table IV. Into the bucket (up) \
           counts until the tool ends, out of it (down) until the files are durable. Goals: up, one large object takes \
           at 150 ms at most 1.76 times as long as at 2 ms, as with zx; in each shape at each distance thalweg is at \
           least 0.95 times as fast as the best of the others, for whoever fills the line is as fast as everybody who \
           does.",
    takes: "about 35 minutes, 5 GB of disk; needs `thalweg testbed`",
    runs: 3,
    path: || emulated(Some(1_000_000_000)),
    rows,
    run,
    tell,
};

/// As it is typed.
pub const NAME: &str = "objects-distance";

/// rclone is not among them: over the loopback it was never the best, and takes the longest for a large object.
const NAMES: [&str; 3] = [OURS, "aws-cli", "s5cmd"];

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, way) in SHAPES.iter().flat_map(|shape| Way::ALL.map(|way| (shape, way))) {
        for scenario in DISTANCES.map(|distance| scenario(shape, way, distance)) {
            rows.extend(NAMES.map(|name| row(scenario.as_str(), name)));
        }
    }
    rows
}

/// What is copied: an object of many parts, objects of one request each, and small ones, as many as take some ten
/// seconds at the longest distance with 16 at once.
const SHAPES: [Shape; 3] = [
    Shape { name: LARGE, files: 1, bytes: 512 << 20 },
    Shape { name: "64 x 4 MiB", files: 64, bytes: 4 << 20 },
    Shape { name: "1,000 x 64 KiB", files: 1000, bytes: 64 << 10 },
];
const LARGE: &str = "1 large";

/// A round trip time: as the testbed is told, and in seconds.
#[derive(Clone, Copy)]
struct Distance {
    rtt: &'static str,
    rtt_s: f64,
}

/// Within a region, 000 Table IV, and over an ocean.
const DISTANCES: [Distance; 5] = [
    Distance { rtt: "2ms", rtt_s: 0.002 },
    Distance { rtt: "10ms", rtt_s: 0.01 },
    Distance { rtt: "50ms", rtt_s: 0.05 },
    Distance { rtt: "100ms", rtt_s: 0.1 },
    Distance { rtt: "150ms", rtt_s: 0.15 },
];
const NEAREST: Distance = DISTANCES[0];
const FARTHEST: Distance = DISTANCES[DISTANCES.len() - 1];

/// 000 Fig 11: zx takes 39.97 minutes instead of 22.66.
const DISTANCE_COSTS: Goal = Goal::AtMost(1.76);
/// Where the line is full, runs differ by a few hundredths.
const AS_FAST: Goal = Goal::AtLeast(0.95);

/// Parameters, by which figures are made: `crates/lab/src/report`.
const RTT: &str = "rtt";
const OBJECT_BYTES: &str = "file_size";
const WAY: &str = "way";

/// One thing that is run at one distance.
struct Case<'a> {
    set: &'a Set,
    distance: Distance,
    tool: &'static Tool,
    version: &'a str,
}

impl Case<'_> {
    fn scenario(&self, way: Way) -> String {
        scenario(&self.set.shape, way, self.distance)
    }
}

fn scenario(shape: &Shape, way: Way, distance: Distance) -> String {
    format!("{}, {}", shape.scenario(way), distance.rtt)
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(why) = Testbed::is_missing(&bench.workspace) {
        bail!("{why}; --thalweg names another");
    }
    let tools = installed(bench, |tool| NAMES.contains(&tool.name))?;
    let mut sets = Vec::new();
    for (number, shape) in SHAPES.into_iter().enumerate() {
        sets.push(Set::make(bench, number, shape)?);
    }
    let mut cases = Vec::new();
    for set in &sets {
        for distance in DISTANCES {
            cases.extend(tools.iter().map(|(tool, version)| Case { set, distance, tool, version }));
        }
    }
    cases.retain(|case| Way::ALL.iter().any(|way| bench.wants(&case.scenario(*way))));
    let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let congestion = format!("net.ipv4.tcp_congestion_control={}", congestion.trim());
    let up = ["--tuned", "--sysctl", &congestion, "--rtt", NEAREST.rtt, "--rate", "1Gbit/s"];
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let testbed = Testbed::up(workspace, &up)?;
    let store = Store::start_at(&testbed.address, workspace, |command| testbed.enter("right", &command))?;
    let mut left_out = HashSet::new();
    workspace::rounds(runs, cases, |run, case| {
        let Case { set, distance, tool, version } = *case;
        let key = (set.number, distance.rtt, tool.name);
        if left_out.contains(&key) {
            return Ok(());
        }
        testbed.set(&["--rtt", distance.rtt])?;
        let bucket = format!("{}-{run}-{}-{}", set.number, tool.name, distance.rtt);
        let both = up_and_down(workspace, &store, set, tool, &bucket, |way, command, synced| {
            let scenario = case.scenario(way);
            let files = u64::from(set.shape.files);
            let load = Load { scenario: &scenario, tool: tool.name, run, bytes: set.bytes(), files };
            testbed.over(|| {
                let took = store.time(workspace, testbed.enter("left", &command), synced)?;
                Ok(placed(sample(&load, &took, version), set.shape.bytes, way, distance))
            })
        });
        match both {
            Ok(samples) => {
                for sample in &samples {
                    eprintln!("{}", told(sample));
                    if run > 0 {
                        log.sample(sample)?;
                    }
                }
                Ok(())
            }
            Err(error) if tool.is_ours() => Err(error.context(case.scenario(Way::Up))),
            Err(error) => {
                left_out.insert(key);
                let what = format!("{} ({}, {})", tool.name, set.shape.name, distance.rtt);
                log.left_out(&what, &format!("{error:#}"))
            }
        }
    })
}

/// With what figures go by.
fn placed(sample: Sample, object_bytes: u64, way: Way, distance: Distance) -> Sample {
    let sample = sample.with(RTT, Quantity::number(distance.rtt_s, "s"));
    let sample = sample.with(OBJECT_BYTES, Quantity::number(object_bytes as f64, "B"));
    sample.with(WAY, way.name().into())
}

fn wall_s(results: &Results, scenario: &str, tool: &str) -> Series {
    results.series(scenario, tool, |sample| sample.wall_s)
}

/// Of a tool the time at the longest distance over that at the shortest, round by round.
fn far_over_near(results: &Results, shape: &Shape, way: Way, tool: &str) -> Vec<f64> {
    let at = |distance| wall_s(results, &scenario(shape, way, distance), tool);
    statistics::ratios(&at(FARTHEST), &at(NEAREST))
}

fn tell(results: &Results) -> Result<String> {
    let both = || SHAPES.iter().flat_map(|shape| Way::ALL.map(|way| (shape, way)));
    let mut out = format!(
        "| shape | tool | time at {} against {} | goal |\n|---|---|---|---|\n",
        FARTHEST.rtt, NEAREST.rtt
    );
    for (shape, way) in both() {
        for name in NAMES {
            let ratios = far_over_near(results, shape, way, name);
            let has_goal = shape.name == LARGE && way == Way::Up && name == OURS;
            let goal = match has_goal {
                true => DISTANCE_COSTS.verdict_of(&ratios),
                false => String::new(),
            };
            let ratios = tell::shown(&ratios);
            writeln!(out, "| {} | {name} | {ratios} | {goal} |", shape.scenario(way))?;
        }
    }
    out += "\n| scenario | the best other | times as fast as it | goal |\n|---|---|---|---|\n";
    for (shape, way) in both() {
        for distance in DISTANCES {
            let scenario = scenario(shape, way, distance);
            let (name, ratios) = best(results, &scenario).unwrap_or(("none ran", Vec::new()));
            let goal = AS_FAST.verdict_of(&ratios);
            writeln!(out, "| {scenario} | {name} | {} | {goal} |", tell::shown(&ratios))?;
        }
    }
    out += "\n| tool | set |\n|---|---|\n";
    for tool in TOOLS.iter().filter(|tool| NAMES.contains(&tool.name)) {
        writeln!(out, "| {} | {} |", tool.name, tool.set)?;
    }
    for (shape, way) in both() {
        let ran = |distance: &Distance| !results.tools(&scenario(shape, way, *distance)).is_empty();
        if DISTANCES.iter().any(ran) {
            writeln!(out, "\n{}", table(results, shape, way)?.trim_end())?;
        }
    }
    Ok(out + &costs(results)?)
}

/// What the emulated path itself cost beside each figure.
fn costs(results: &Results) -> Result<String> {
    let mut out = "\n### The path's own CPU-s/GB\n\n| scenario | tool |".to_owned();
    for distance in DISTANCES {
        write!(out, " {} |", distance.rtt)?;
    }
    writeln!(out, "\n|---|---|{}", "---|".repeat(DISTANCES.len()))?;
    for (shape, way) in SHAPES.iter().flat_map(|shape| Way::ALL.map(|way| (shape, way))) {
        for name in NAMES {
            write!(out, "| {} | {name} |", shape.scenario(way))?;
            for distance in DISTANCES {
                write!(out, " {} |", tell::wire_cost(results, &scenario(shape, way, distance), name))?;
            }
            out.push('\n');
        }
    }
    Ok(out)
}

/// What each tool makes of each distance, one way.
fn table(results: &Results, shape: &Shape, way: Way) -> Result<String> {
    let is_one = shape.files == 1;
    let unit = if is_one { "Gbit/s" } else { "objects/s" };
    let rate: fn(&Sample) -> f64 = if is_one { record::gbit_per_s } else { record::files_per_s };
    let scenarios = DISTANCES.map(|distance| scenario(shape, way, distance));
    let is_of_it = |sample: &&Sample| scenarios.iter().any(|name| record::scenario_of(sample) == name);
    let bytes = results.samples.iter().find(is_of_it).map_or(0, |sample| sample.bytes);
    let mut out = format!("### {}\n\n{:.2} GB, {unit}.\n\n| tool |", shape.scenario(way), bytes as f64 / 1e9);
    for distance in DISTANCES {
        write!(out, " {} |", distance.rtt)?;
    }
    writeln!(
        out,
        " requests under way at {}, at least |\n|---|{}---|",
        FARTHEST.rtt,
        "---|".repeat(DISTANCES.len())
    )?;
    for name in NAMES {
        write!(out, "| {name} |")?;
        for scenario in &scenarios {
            write!(out, " {} |", tell::with_interval(&results.series(scenario, name, rate)))?;
        }
        // Each takes a round trip or more: on the average so many are under way, or all would not be done in that time.
        let under_way = |sample: &Sample| record::measured(sample, REQUESTS) * FARTHEST.rtt_s / sample.wall_s;
        let under_way = results.series(&scenario(shape, way, FARTHEST), name, under_way);
        writeln!(out, " {} |", tell::with_interval(&under_way))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::store::Took;
    use super::*;
    use crate::bench::workspace::Times;

    fn add(results: &mut Results, (shape, way, distance): (&Shape, Way, Distance), tool: &str, wall_s: f64) {
        for run in 1..=3 {
            let (scenario, files) = (scenario(shape, way, distance), u64::from(shape.files));
            let load = Load { scenario: &scenario, tool, run, bytes: shape.bytes * files, files };
            let times = Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 };
            let took = Took { times, store_cpu_s: 1.0, requests: 1000 };
            let mut sample = placed(sample(&load, &took, "1.2"), shape.bytes, way, distance);
            sample.wire_cpu_s_per_gb = Some(3.0);
            results.samples.push(sample);
        }
    }

    #[test]
    fn what_a_distance_costs_is_told_of_each_tool_and_ours_has_the_goal_of_the_paper() {
        let mut results = Results::default();
        let [large, _, small] = &SHAPES;
        for (tool, near_s, far_s) in [(OURS, 5.0, 7.5), ("aws-cli", 6.0, 24.0), ("s5cmd", 5.0, 7.0)] {
            add(&mut results, (large, Way::Up, NEAREST), tool, near_s);
            add(&mut results, (large, Way::Up, FARTHEST), tool, far_s);
        }
        add(&mut results, (small, Way::Down, FARTHEST), OURS, 10.0);
        let page = tell(&results).unwrap();
        for line in [
            "| 1 large, up | thalweg | 1.50 [1.50–1.50] | at most 1.76: met |",
            "| 1 large, up | aws-cli | 4.00 [4.00–4.00] |  |",
            "| 1 large, down | thalweg | not measured |  |",
            "| 1 large, up, 2ms | s5cmd | 1.00 [1.00–1.00] | at least 0.95: met |",
            "| 1 large, up, 150ms | s5cmd | 0.933 [0.933–0.933] | at least 0.95: **missed by 1.8 %** |",
            "| 1 large, up, 50ms | none ran | not measured | at least 0.95: not measured |",
            "0.54 GB, Gbit/s.",
            "### 1,000 x 64 KiB, down",
            "| 1 large, down | s5cmd | not measured | not measured | not measured | not measured | not measured |",
            "| 1,000 x 64 KiB, down | thalweg | not measured | not measured | not measured | not measured | 3.00 [3.00–3.00] |",
        ] {
            assert!(page.lines().any(|told| told == line), "{line}\n{page}");
        }
        // 1000 requests of 150 ms in 10 s.
        let small = page.lines().rfind(|line| line.starts_with("| thalweg |")).unwrap();
        assert!(small.ends_with("| 100 [100–100] | 15.0 [15.0–15.0] |"), "{small}");
        assert!(!page.contains("### 64 x 4 MiB"), "{page}");
    }

    #[test]
    fn each_distance_is_as_long_for_the_testbed_as_for_figures() {
        for distance in DISTANCES {
            let told_ms: f64 = distance.rtt.trim_end_matches("ms").parse().unwrap();
            assert_eq!(told_ms / 1e3, distance.rtt_s, "{}", distance.rtt);
        }
        assert!(NAMES.iter().all(|name| TOOLS.iter().any(|tool| tool.name == *name)));
    }
}
