//! Frames from process to process, beside ZeroMQ and a plain socket.

use super::{Row, Suite, loopback, row};
use crate::bench::record::{Load, Results, Sample, cpu_s_per_gb, files_per_s, gbit_per_s};
use crate::bench::tell;
use crate::bench::workspace::{self, Times};
use crate::bench::{Bench, control_group::Group};
use crate::{checkout, command, python, servers};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub const SUITE: Suite = Suite {
    name: NAME,
    title: Some("Frames, memory to memory"),
    asks: "At what rate do frames go from one process to another over loopback, and what do they cost? A Python process \
           gives frames of one size, another takes them: by thalweg (its hub within the process that takes), by ZeroMQ's \
           push and pull in clear and with CURVE, by a plain TCP socket in clear. Only thalweg verifies a digest of each \
           frame, keeps it until it was taken, and names what is lost; only CURVE and thalweg encrypt.",
    takes: "about 6 minutes, no disk",
    runs: 5,
    path: loopback,
    rows,
    run,
    tell,
};

/// As it is typed.
pub const NAME: &str = "beside-zeromq";

/// What it is beside.
const PYZMQ: &str = "pyzmq==27.3.0";

const PEER: &str = "xtask/src/bench/frames/peer.py";

/// Bytes of a frame, and how many of them.
const SIZES: [(u64, u64); 3] = [(64 << 10, 16_384), (1 << 20, 2048), (8 << 20, 256)];

/// As the peer knows it, as it is told, and what it does.
const TOOLS: [(&str, &str, &str); 4] = [
    ("thalweg", "thalweg", "AES-128-GCM; BLAKE3 of each frame"),
    ("zeromq", "ZeroMQ", "in clear"),
    ("curve", "ZeroMQ, CURVE", "XSalsa20-Poly1305"),
    ("tcp", "plain TCP", "in clear"),
];

fn rows() -> Vec<Row> {
    let of = |(bytes, _): (u64, u64)| TOOLS.map(|(_, tool, _)| row(name(bytes), tool));
    SIZES.into_iter().flat_map(of).collect()
}

/// Installs what it needs while there is a network: the wheel of this checkout, optimised, and ZeroMQ beside it.
///
/// # Errors
/// If something cannot be built or had.
pub fn prepare() -> Result<()> {
    let installed = python::install(false, true)?;
    command::run(Command::new(&installed.python).args(["-m", "pip", "install", "-q", PYZMQ]))
}

/// What a side says at its end.
#[derive(Deserialize)]
struct Said {
    began: f64,
    ended: f64,
    cpu_s: f64,
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let python = python::home().join("venv/bin/python");
    ensure!(python.exists(), "there is no Python in {}", python.display());
    let mut cases = Vec::new();
    for (bytes, frames) in SIZES.into_iter().filter(|(bytes, _)| bench.wants(&name(*bytes))) {
        // For small tries.
        let frames = bench.args.large_mib.map_or(frames, |mib| ((mib << 20) / bytes).clamp(1, frames));
        cases.extend(TOOLS.map(|(tool, told, _)| (tool, told, bytes, frames)));
    }
    cases.retain(|(tool, told, ..)| *tool == "thalweg" || told.contains(&bench.args.tool));
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    workspace::rounds(runs, cases, |run, (tool, told, bytes, frames)| {
        let directory = workspace.directory(&format!("frames-{tool}-{bytes}-{run}"))?;
        let words = [tool.to_string(), frames.to_string(), bytes.to_string()];
        let times = once(&workspace.group, &python, &words, &directory)?;
        eprintln!("{told}, {} {run}: {:.2} s", name(*bytes), times.wall_s);
        if run == 0 {
            return Ok(());
        }
        let load = Load { scenario: &name(*bytes), tool: told, run, bytes: bytes * frames, files: *frames };
        log.sample(&load.took(&times))
    })
}

/// Both sides, from the first frame that counts until the last was taken.
fn once(group: &Group, python: &Path, words: &[String], directory: &Path) -> Result<Times> {
    let side = |role: &str| {
        let mut command = Command::new(python);
        command.arg(checkout::root().join(PEER)).arg(role).args(words).arg(directory);
        Side::start(group.enter(command))
    };
    let (mut taker, mut giver) = (side("take")?, side("give")?);
    let place = taker.line()?;
    giver.say(&place)?;
    let first = taker.line()?;
    ensure!(first == "first", "the taking side says {first}");
    giver.say("go")?;
    let (given, taken): (Said, Said) =
        (serde_json::from_str(&giver.line()?)?, serde_json::from_str(&taker.line()?)?);
    ensure!(taken.ended >= given.began, "the clocks of both sides differ");
    let wall_s = taken.ended - given.began;
    ensure!(taken.began <= given.began, "it began before the first frame was there");
    Ok(Times { wall_s, unsynced_s: wall_s, cpu_s: given.cpu_s + taken.cpu_s })
}

/// A process that is talked with; ends with the value.
struct Side {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl Side {
    fn start(mut command: Command) -> Result<Side> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting Python")?;
        let says = BufReader::new(child.stdout.take().context("its output")?);
        let hears = child.stdin.take().context("its input")?;
        Ok(Side { child, says, hears })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        ensure!(!line.is_empty(), "a side ended without a word");
        Ok(line.trim().to_owned())
    }

    fn say(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.hears, "{line}")?)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        servers::end(&mut self.child);
    }
}

fn name(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

/// For README.md, in a sentence: frames of 1 MiB; nothing if nothing was measured.
pub fn in_short(results: &Results) -> String {
    let scenario = name(1 << 20);
    let told: Vec<String> = TOOLS
        .iter()
        .filter_map(|(_, tool, _)| {
            let series = |figure: fn(&Sample) -> f64| results.series(&scenario, tool, figure);
            let (rate, cpu) = (series(gbit_per_s), series(cpu_s_per_gb));
            (!rate.is_empty()).then(|| {
                let [rate, cpu] = [rate, cpu].map(|series| tell::number(tell::median_of(&series)));
                format!("{tool} {rate} Gbit/s at {cpu} CPU-s/GB")
            })
        })
        .collect();
    if told.is_empty() {
        return String::new();
    }
    format!(
        "Frames of {scenario} from one process to another: {}. Only thalweg verifies them; only thalweg and CURVE encrypt. \
         `cargo xtask bench --suite {NAME}`.",
        told.join(", "),
    )
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::from(
        "| frame | tool | protection | Gbit/s | frames/s | CPU-s/GB | rate against thalweg | CPU against thalweg |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (bytes, _) in SIZES {
        let scenario = name(bytes);
        let ours = |figure: fn(&Sample) -> f64| results.series(&scenario, TOOLS[0].1, figure);
        for (_, tool, protection) in TOOLS {
            let series = |figure: fn(&Sample) -> f64| results.series(&scenario, tool, figure);
            if series(gbit_per_s).is_empty() {
                continue;
            }
            writeln!(
                out,
                "| {scenario} | {tool} | {protection} | {} | {:.0} | {} | {} | {} |",
                tell::with_interval(&series(gbit_per_s)),
                tell::median_of(&series(files_per_s)),
                tell::with_interval(&series(cpu_s_per_gb)),
                tell::ratio(&series(gbit_per_s), &ours(gbit_per_s)),
                tell::ratio(&series(cpu_s_per_gb), &ours(cpu_s_per_gb)),
            )?;
        }
    }
    Ok(out)
}
