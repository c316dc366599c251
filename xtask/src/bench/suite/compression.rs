//! Whether compression that decides by itself (`-z`) slows nothing, and does as well as always and never
//! (`crates/mover/src/stage/compress.rs`).
//!
//! Three kinds of data (`thalweg dataset`), three ways: over the loopback into memory, where nothing is narrow but the
//! cores; over an emulated line of 1 Gbit/s; over the loopback to the disk. Each is pushed without `-z`, with it, and
//! with what `-z` would be if it compressed each segment (`--compress-always`, an option for this suite alone), all
//! with `--no-tune`, so that they differ in nothing else.

use super::{Row, Suite, loopback, row};
use crate::bench::network::{self, Testbed};
use crate::bench::record::{self, Load, PATH, Results, Sample, cpu_s_per_gb};
use crate::bench::tell::{self, Goal};
use crate::bench::{Bench, data, workspace};
use crate::servers::Daemon;
use crate::{command, trees};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_lab::bench::MTU_BYTES;
use thalweg_lab::bench::record::PathKind;
use thalweg_lab::bench::statistics::Series;
use thalweg_lab::bench::table::told;

pub const SUITE: Suite = Suite {
    name: "compression",
    title: Some("Compression"),
    asks: "Does compression that decides by itself (`-z`) slow nothing, and does it as well as the better of always and never? \
           Noise, frames of a detector and lines of text are pushed over the loopback into memory, over a line of 1 Gbit/s, \
           and over the loopback to the disk. Goals, in wall time, for each kind of data on each way: at most 1.02 × that of \
           no compression; at most 1.1 × that of the better of none and always. The second is more than the first, because \
           up to two bytes of 34 go out as they are, so that it is known what sending costs by now: where always is the \
           better, those bytes alone take 1.06 × as long.",
    takes: "about 14 minutes, 6 GB of disk and 5 GiB of memory; the line needs `thalweg testbed`",
    runs: 5,
    // Of two of three ways; each sample says which path its own is.
    path: loopback,
    rows,
    run,
    tell,
};

const SLOWS_NOTHING: Goal = Goal::AtMost(1.02);
const AS_WELL: Goal = Goal::AtMost(1.1);

/// As `thalweg dataset` calls it, and what it is.
const CONTENTS: [(&str, &str); 3] =
    [("noise", "noise"), ("frames", "frames of a detector"), ("text", "lines of text")];

const OFF: &str = "none";
const AUTOMATIC: &str = "automatic";
const ALWAYS: &str = "always";
const MODES: [(&str, &[&str]); 3] =
    [(OFF, &[]), (AUTOMATIC, &["-z"]), (ALWAYS, &["-z", "--compress-always"])];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Memory,
    Line,
    Disk,
}

const WAYS: [Way; 3] = [Way::Memory, Way::Line, Way::Disk];
const LINE: [&str; 4] = ["--rtt", "0.2ms", "--rate", "1Gbit/s"];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Memory => "loopback, into memory",
            Way::Line => "1 Gbit/s",
            Way::Disk => "loopback, to the disk",
        }
    }

    /// Of each copy: some seconds over the line, and one at least where nothing is narrow.
    fn mib(self) -> u64 {
        match self {
            Way::Line => 512,
            Way::Memory | Way::Disk => 2048,
        }
    }

    /// Its path, in words.
    fn path(self) -> String {
        match self {
            Way::Line => {
                let (rtt_s, rate_bits_per_s) = (Some(0.0002), Some(1_000_000_000));
                PathKind::Testbed { rtt_s, rate_bits_per_s, loss: None, mtu_bytes: MTU_BYTES }.to_string()
            }
            Way::Memory | Way::Disk => PathKind::Loopback.to_string(),
        }
    }
}

fn scenario(content: &str, way: Way) -> String {
    format!("{content}, {}", way.name())
}

fn rows() -> Vec<Row> {
    let scenarios = CONTENTS.iter().flat_map(|(content, _)| WAYS.map(|way| scenario(content, way)));
    scenarios.flat_map(|scenario| MODES.map(|(tool, _)| row(scenario.as_str(), tool))).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    for (content, _) in CONTENTS {
        for way in WAYS {
            let scenario = scenario(content, way);
            if !bench.wants(&scenario) {
                continue;
            }
            match Testbed::is_missing(&bench.workspace).filter(|_| way == Way::Line) {
                Some(why) => bench.log.left_out(&scenario, &why)?,
                None => contest(bench, content, way).context(scenario)?,
            }
        }
    }
    Ok(())
}

/// All modes of one kind of data on one way.
fn contest(bench: &mut Bench<'_>, content: &str, way: Way) -> Result<()> {
    let (runs, bytes) = (bench.runs(), bench.large_bytes(way.mib()));
    let workspace = &bench.workspace;
    let source = workspace.scratch.path("source");
    let mut make = workspace.thalweg();
    make.args(["dataset", "make"]).arg(&source).args(["--content", content, "--size", &bytes.to_string()]);
    command::says(&mut make)?;
    let memory = match way {
        Way::Memory => Some(Memory::new(workspace.directory("memory")?, bytes)?),
        Way::Line | Way::Disk => None,
    };
    let export = match &memory {
        Some(memory) => memory.0.clone(),
        None => workspace.directory("export")?,
    };
    let testbed = match way {
        Way::Line => Some(Testbed::up(workspace, &LINE)?),
        Way::Memory | Way::Disk => None,
    };
    let exports = [format!("bench={}", export.display())];
    let enter = |command| match &testbed {
        Some(testbed) => workspace.group.enter(testbed.enter("right", &command)),
        None => workspace.group.enter(command),
    };
    let daemon = match &testbed {
        Some(testbed) => {
            let address = format!("{}:8487", testbed.address);
            Daemon::start_at(&address, &workspace.thalweg, &workspace.scratch, &exports, enter)?
        }
        None => Daemon::start(&workspace.thalweg, &workspace.scratch, &exports, enter)?,
    };
    let site = Site { workspace, testbed: testbed.as_ref(), daemon: &daemon, source: &source, export };
    let (log, scenario) = (&mut bench.log, scenario(content, way));
    workspace::rounds(runs, MODES.to_vec(), |run, (tool, words)| {
        let load = Load { scenario: &scenario, tool, run, bytes, files: 1 };
        let sample = site.measure(&load, words)?.with(PATH, way.path().as_str().into());
        eprintln!("{}", told(&sample));
        if run == 0 { Ok(()) } else { log.sample(&sample) }
    })?;
    Ok(fs::remove_dir_all(&source)?)
}

/// A file system in memory.
struct Memory(PathBuf);

impl Memory {
    /// With room for one copy of so many bytes.
    fn new(path: PathBuf, bytes: u64) -> Result<Memory> {
        let options = format!("size={}", bytes + (64 << 20));
        command::run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path))?;
        Ok(Memory(path))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The daemon whose export it was has just been ended. What stays goes with the mount name space.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// Both sides.
struct Site<'a> {
    workspace: &'a workspace::Workspace,
    testbed: Option<&'a Testbed<'a>>,
    daemon: &'a Daemon,
    source: &'a Path,
    export: PathBuf,
}

impl Site<'_> {
    fn measure(&self, load: &Load<'_>, words: &[&str]) -> Result<Sample> {
        data::warm(self.source)?;
        let destination = self.export.join("copy");
        let mut command = self.workspace.thalweg();
        command.args(["cp", "-q", "--no-tune", "--ticket"]).arg(&self.daemon.ticket).args(words);
        command.arg(format!("{}/", self.source.display()));
        command.arg(format!("tw://{}/bench/copy", self.daemon.address));
        let sample = match self.testbed {
            Some(testbed) => {
                let command = testbed.enter("left", &command);
                testbed.over(|| Ok(load.took(&self.workspace.time(command, Some(&destination))?)))?
            }
            None => {
                let before = network::loopback_bytes()?;
                let sample = load.took(&self.workspace.time(command, Some(&destination))?);
                sample.measured(ON_LOOPBACK, (network::loopback_bytes()? - before) as f64, "B")
            }
        };
        trees::same_content(self.source, &destination)?;
        fs::remove_dir_all(&destination)?;
        Ok(sample)
    }
}

/// Bytes that passed meanwhile, headers included: of the loopback in both directions together, of a testbed in that of
/// the copy.
const ON_LOOPBACK: &str = "bytes_on_the_loopback";
const ON_THE_WIRE: &str = "bytes_forward_on_the_wire";

/// The same for each byte of content.
fn passed_share(sample: &Sample) -> f64 {
    let [loopback, wire] = [ON_LOOPBACK, ON_THE_WIRE].map(|name| record::measured(sample, name));
    (if loopback.is_nan() { wire } else { loopback }) / sample.bytes as f64
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::from(
        "| data | way | none, s | automatic, s | always, s | automatic against none | goal | against the better of both | goal \
         |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut costs = String::from(
        "\nBytes that passed for each byte of content, headers included, and CPU-s/GB of content; and what the emulated \
         path itself cost of what it carried:\n\n\
         | data | way | passed, none | automatic | always | CPU-s/GB, none | automatic | always | the path's own CPU-s/GB, \
         none | automatic | always |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (content, shown) in CONTENTS {
        for way in WAYS {
            let scenario = scenario(content, way);
            let series = |tool: &str, figure: fn(&Sample) -> f64| results.series(&scenario, tool, figure);
            let wall = |tool: &str| series(tool, |sample| sample.wall_s);
            let [off, automatic, always] = [OFF, AUTOMATIC, ALWAYS].map(wall);
            let better: &Series =
                if tell::median_of(&always) < tell::median_of(&off) { &always } else { &off };
            let against = |other: &Series, goal: Goal| {
                let verdict = goal.verdict_of_ratio(&automatic, other);
                format!("{} | {verdict}", tell::ratio(&automatic, other))
            };
            writeln!(
                out,
                "| {shown} | {} | {} | {} | {} | {} | {} |",
                way.name(),
                tell::with_interval(&off),
                tell::with_interval(&automatic),
                tell::with_interval(&always),
                against(&off, SLOWS_NOTHING),
                against(better, AS_WELL),
            )?;
            let cells = |figure: fn(&Sample) -> f64| {
                let cell = |tool: &str| tell::with_interval(&series(tool, figure));
                [OFF, AUTOMATIC, ALWAYS].map(cell).join(" | ")
            };
            let of_wire = |tool: &str| match way {
                Way::Line => tell::wire_cost(results, &scenario, tool),
                Way::Memory | Way::Disk => tell::NO_WIRE.to_owned(),
            };
            writeln!(
                costs,
                "| {shown} | {} | {} | {} | {} |",
                way.name(),
                cells(passed_share),
                cells(cpu_s_per_gb),
                [OFF, AUTOMATIC, ALWAYS].map(of_wire).join(" | "),
            )?;
        }
    }
    Ok(out + &costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workspace::Times;
    use thalweg_cli::config;

    fn sample(scenario: &str, tool: &str, run: usize, (wall_s, passed): (f64, f64)) -> Sample {
        let load = Load { scenario, tool, run, bytes: 1_000_000_000, files: 1 };
        let sample = load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 });
        sample.measured(ON_LOOPBACK, passed, "B")
    }

    fn is_understood(words: &[&str]) {
        let words = [&["thalweg"][..], words].concat();
        let understood = config::command().try_get_matches_from(words.clone());
        assert!(understood.is_ok(), "{words:?}: {}", understood.unwrap_err());
    }

    #[test]
    fn what_the_program_is_told_is_understood() {
        for (_, words) in MODES {
            is_understood(&[&["cp", "--no-tune"][..], words, &["a", "tw://far/b"]].concat());
        }
        for (content, _) in CONTENTS {
            is_understood(&["dataset", "make", "d", "--content", content, "--size", "2147483648"]);
        }
        is_understood(&[&["testbed", "up"][..], &LINE].concat());
    }

    #[test]
    fn each_kind_of_data_is_judged_against_none_and_against_the_better_of_none_and_always() {
        let (fast, slow) = (scenario("noise", Way::Memory), scenario("text", Way::Disk));
        let mut samples = Vec::new();
        for run in 1..=3 {
            samples.push(sample(&fast, OFF, run, (1.0, 1.05e9)));
            samples.push(sample(&fast, AUTOMATIC, run, (1.05, 1.05e9)));
            samples.push(sample(&fast, ALWAYS, run, (2.0, 1.05e9)));
            samples.push(sample(&slow, OFF, run, (10.0, 1.05e9)));
            samples.push(sample(&slow, AUTOMATIC, run, (2.4, 0.25e9)));
            samples.push(sample(&slow, ALWAYS, run, (2.0, 0.2e9)));
        }
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let missed = "at most 1.02: **missed by 2.9 %** | 1.05 [1.05–1.05] | at most 1.1: met |";
        assert!(told.contains(missed), "the better is none: {told}");
        let missed = "| 0.240 [0.240–0.240] | at most 1.02: met | 1.20 [1.20–1.20] | at most 1.1: **missed by 9.1 %** |";
        assert!(told.contains(missed), "the better is always: {told}");
        let passed =
            "| lines of text | loopback, to the disk | 1.05 [1.05–1.05] | 0.250 [0.250–0.250] | 0.200";
        assert!(told.contains(passed), "{told}");
        assert!(told.contains("| – | – | – |\n"), "the loopback is no emulated path: {told}");
        assert!(told.contains("| frames of a detector | 1 Gbit/s | not measured |"), "{told}");
    }

    #[test]
    fn what_passed_over_a_line_is_what_its_testbed_counted_in_the_direction_of_the_copy() {
        let sample = Sample { bytes: 100, ..Sample::default() };
        assert_eq!(passed_share(&sample.clone().measured(ON_THE_WIRE, 25.0, "B")), 0.25);
        assert!(passed_share(&sample).is_nan());
    }
}
