//! One large file against the limit L that the parts of a transfer set when each runs alone.

use super::{Row, Suite, loopback, row};
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::{self, Times};
use crate::bench::{Bench, data};
use crate::servers::Daemon;
use crate::{cargo, command, toolchain, trees};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Instant;
use thalweg_lab::bench::record::Quantity;
use thalweg_lab::bench::statistics::{self, Series};

pub const SUITE: Suite = Suite {
    name: "limit",
    title: Some("A large file, against the limit"),
    asks: "What does a copy of a large warm file cost beside the sum L of its parts, each measured alone in the same \
           round: read, BLAKE3, AES-128-GCM seal, TCP over loopback, open, BLAKE3 again (and the disk's direct write)? \
           Goals: pulled into `null:` at most 1.15 × L in CPU-s/GB; pushed to the disk at most 1.5 × L, at a rate of at \
           least 0.85 of the disk's own direct write; max/min of the wall time over seven runs at most 1.10.",
    takes: "about 7 minutes, 9 GB of disk",
    runs: 7,
    path: loopback,
    rows,
    run,
    tell,
};

const SCENARIO: &str = "large";
/// Largest over smallest wall time of a copy's counted runs.
pub(super) const SPREAD: Goal = Goal::AtMost(1.10);
const PARTS: &str = "parts alone";
const INTO_NULL: &str = "pull into null:";
const DURABLE: &str = "push to disk";
const READBACK: &str = "push to disk, --verify readback";
const TOOLS: [&str; 4] = [PARTS, INTO_NULL, DURABLE, READBACK];

/// What each connection of TCP's part cost, in CPU-s/GB.
const TCP_TURNS: &str = "tcp_turns_cpu_s_per_gb";

/// The parts of L without the write; the digest is taken on both sides.
const NULL_PARTS: [&str; 6] = ["read", "digest", "seal", "tcp", "open", "digest"];

fn rows() -> Vec<Row> {
    TOOLS.map(|tool| row(SCENARIO, tool)).to_vec()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let bytes = bench.large_bytes(4096);
    let runs = bench.runs();
    let export = bench.workspace.directory("export")?;
    let source = bench.workspace.directory("export/source")?;
    let file = source.join("file");
    toolchain::make_large_file(&toolchain::directory()?, &file, bytes)?;
    let primitives = cargo::build_primitives()?;
    let exports = [format!("bench={}", export.display())];
    let workspace = &bench.workspace;
    let daemon = Daemon::start(&workspace.thalweg, &workspace.scratch, &exports, |command| {
        workspace.group.enter(command)
    })?;
    let log = &mut bench.log;
    workspace::rounds(runs, TOOLS.to_vec(), |run, tool| {
        data::warm(&source)?;
        let (into, destination) = (format!("tw://{}/bench/", daemon.address), export.join("copy"));
        let load = Load { scenario: SCENARIO, tool, run, bytes, files: 1 };
        let sample = if *tool == PARTS {
            let (mut command, began) = (Command::new(&primitives), Instant::now());
            let told = command::says(command.arg(&file).arg(&export).arg("1"))?;
            let wall_s = began.elapsed().as_secs_f64();
            let sample = load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 0.0 });
            record::with_told(sample, &serde_json::from_str(&told)?)
        } else {
            let mut command = workspace.thalweg();
            command.args(["cp", "-q", "--cipher", "aes128", "--ticket"]).arg(&daemon.ticket);
            match *tool {
                INTO_NULL => command.args([format!("{into}source/file"), "null:".to_owned()]),
                DURABLE => command.args([format!("{}/", source.display()), format!("{into}copy")]),
                _ => {
                    let places = [format!("{}/", source.display()), format!("{into}copy")];
                    command.args(["--verify", "readback"]).args(places)
                }
            };
            let times = workspace.time(command, None)?;
            if *tool != INTO_NULL {
                trees::same_tree(&source, &destination)?;
                fs::remove_dir_all(&destination)?;
            }
            load.took(&times)
        };
        eprintln!("{tool} {run}: {:.2} s", sample.wall_s);
        if run == 0 { Ok(()) } else { log.sample(&sample) }
    })
}

/// Of the parts, in each round.
fn of_parts(results: &Results, names: &[&str], figure: &str) -> Result<Series> {
    let mut series = Series::new();
    for sample in results.of(SCENARIO, PARTS) {
        let mut sum = 0.0;
        for name in names {
            let part = sample.measured.get(&format!("{name}_{figure}")).and_then(Quantity::value);
            sum += part.with_context(|| format!("no {name} in a round"))?;
        }
        series.insert(sample.run as usize, sum);
    }
    Ok(series)
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::from("| part alone | CPU-s/GB | GB/s |\n|---|---|---|\n");
    for part in ["read", "digest", "seal", "tcp", "open", "write"] {
        let figure = |figure| of_parts(results, &[part], figure).map(|series| tell::with_interval(&series));
        writeln!(out, "| {part} | {} | {} |", figure("cpu_s_per_gb")?, figure("gb_per_s")?)?;
    }
    out += &by_connections(results);
    let null = of_parts(results, &NULL_PARTS, "cpu_s_per_gb")?;
    let with_write = [NULL_PARTS.as_slice(), &["write"]].concat();
    let durable = of_parts(results, &with_write, "cpu_s_per_gb")?;
    let disk = of_parts(results, &["write"], "gb_per_s")?;
    writeln!(
        out,
        "\nL into `null:` is {} CPU-s/GB, to the disk {}.\n",
        tell::with_interval(&null),
        tell::with_interval(&durable)
    )?;
    out += "| copy | CPU-s/GB | max/min | × L | goal | wall s | max/min | Gbit/s | of the disk's own rate |\n\
            |---|---|---|---|---|---|---|---|---|\n";
    for (tool, limit, goal) in [
        (INTO_NULL, &null, Some(Goal::AtMost(1.15))),
        (DURABLE, &durable, Some(Goal::AtMost(1.5))),
        (READBACK, &durable, None),
    ] {
        let series = |figure: fn(&Sample) -> f64| results.series(SCENARIO, tool, figure);
        let (cpu, wall) = (series(record::cpu_s_per_gb), series(|sample| sample.wall_s));
        let rate = series(|sample| sample.bytes as f64 / 1e9 / sample.wall_s);
        let of_disk = match tool {
            INTO_NULL => String::new(),
            DURABLE => {
                let verdict = Goal::AtLeast(0.85).verdict_of_ratio(&rate, &disk);
                format!("{}; {verdict}", tell::ratio(&rate, &disk))
            }
            _ => tell::ratio(&rate, &disk),
        };
        let verdict = goal.map(|goal| goal.verdict_of_ratio(&cpu, limit)).unwrap_or_default();
        writeln!(
            out,
            "| {tool} | {} | {:.2} | {} | {verdict} | {} | {:.2}; {} | {:.2} | {of_disk} |",
            tell::with_interval(&cpu),
            tell::spread_of(&cpu),
            tell::ratio(&cpu, limit),
            tell::with_interval(&wall),
            tell::spread_of(&wall),
            SPREAD.verdict(tell::spread_of(&wall)),
            tell::median_of(&series(record::gbit_per_s)),
        )?;
    }
    out += &by_cores(results, &disk);
    Ok(out)
}

/// How far apart the connections were of which TCP's part is the cheapest; nothing where a result has only one.
fn by_connections(results: &Results) -> String {
    let apart = |sample: &Sample| Some((sample.run as usize, statistics::spread(turns(sample)?)));
    let apart: Series = results.of(SCENARIO, PARTS).filter_map(apart).collect();
    let connections = results.of(SCENARIO, PARTS).filter_map(|sample| Some(turns(sample)?.len())).max();
    match connections {
        Some(connections) => format!(
            "\ntcp is the cheapest of {connections} connections of a round; the dearest cost {} times as much.\n",
            tell::with_interval(&apart)
        ),
        None => String::new(),
    }
}

fn turns(sample: &Sample) -> Option<&[f64]> {
    sample.distributions.get(TCP_TURNS).map(|turns| turns.values.as_slice())
}

/// How fast the cores alone let a durable copy be: both sides run on them, and the disk does not wait for the link as
/// it would on two machines.
fn by_cores(results: &Results, disk: &Series) -> String {
    let cores = results.about.machine.cores;
    let costs = results.series(SCENARIO, DURABLE, record::cpu_s_per_gb);
    if cores == 0 || costs.is_empty() {
        return String::new();
    }
    let most: Series = costs.into_iter().map(|(run, cost)| (run, f64::from(cores) / cost)).collect();
    format!(
        "\nBoth sides share {cores} cores: at its CPU-s/GB a durable copy could pass {} GB/s there if no core ever waited, {} of \
         the disk's own rate.\n",
        tell::with_interval(&most),
        tell::ratio(&most, disk),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn how_far_apart_the_connections_were_is_told_where_a_result_has_them() {
        let part = json!({"cpu_s_per_gb": 0.1, "gb_per_s": 10.0});
        let tcp = json!({"cpu_s_per_gb": 0.1, "gb_per_s": 10.0, "turns_cpu_s_per_gb": [0.125, 0.1, 0.2]});
        let told = |tcp: &serde_json::Value| {
            let load = Load { scenario: SCENARIO, tool: PARTS, run: 1, bytes: 1 << 30, files: 1 };
            let mut parts = serde_json::Map::new();
            for name in ["read", "digest", "seal", "open", "write"] {
                parts.insert(name.to_owned(), part.clone());
            }
            parts.insert("tcp".to_owned(), tcp.clone());
            let sample = load.took(&Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 });
            let samples = vec![record::with_told(sample, &serde_json::Value::Object(parts))];
            tell(&Results { samples, ..Results::default() }).unwrap()
        };
        let by_turns = told(&tcp);
        assert!(
            by_turns.contains("tcp is the cheapest of 3 connections of a round; the dearest cost 2.00 times"),
            "{by_turns}"
        );
        assert!(by_turns.contains("| tcp | 0.100 | 10.0 |"), "{by_turns}");
        assert!(!told(&part).contains("dearest"), "a result of before has one connection");
    }
}
