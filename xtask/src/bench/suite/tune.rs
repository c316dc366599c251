//! Whether the control loop that turns knobs while a copy runs is worth it (`crates/mover/src/tune`).
//!
//! Each shape is an emulated path with a first guess that is right, or wrong. Every fixed number of streams runs once;
//! the best of them then competes with the control loop and with `--no-tune` in interleaved rounds. The search is the
//! round that warms up. Each copy has a state directory of its own, so that none begins with what another one learned.

use super::{Suite, emulated};
use crate::bench::network::Testbed;
use crate::bench::record::{Load, Results, SEARCH, Sample, cpu_s_per_gb, scenario_of};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::Times;
use crate::bench::{Bench, data, workspace};
use crate::servers::Daemon;
use crate::{toolchain, trees};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_lab::bench::table::told;

pub const SUITE: Suite = Suite {
    name: "tune",
    title: Some("Knobs that are turned while a copy runs"),
    asks: "Is the control loop worth it, which tries other numbers of streams while a copy runs? Copies of one file with it \
           (the default), with `--no-tune`, and with the best fixed number of streams of a small search, over emulated \
           paths. On two of them the first guess is right: trials are to cost nothing. On three it is wrong: the path \
           becomes long in the middle, packets are lost, the source answers slowly. Goals, in wall time against \
           `--no-tune`: at most 1.02 where nothing is to be won, at most 0.95 where something is.",
    takes: "about 14 minutes, 4 GB of disk; needs `thalweg testbed`",
    runs: 3,
    path: || emulated(Some(1_000_000_000)),
    rows: Vec::new,
    run,
    tell,
};

const TUNED: &str = "control loop";
const STILL: &str = "--no-tune";
const RATE: &str = "1Gbit/s";

/// Where nothing is to be won, a trial may cost no more than what nobody notices; else the loop has to be faster by
/// more than runs differ.
const COSTS_NOTHING: Goal = Goal::AtMost(1.02);
const GAINS: Goal = Goal::AtMost(0.95);

/// Where a copy comes from.
enum Origin {
    /// A warm file of the far side, pulled into `null:`.
    Far,
    /// A simulated array of this side, pushed to the far side's disk: its seek time, rate, devices and stripes.
    Array(&'static str),
}

struct Shape {
    name: &'static str,
    /// In words, beside the rate of the line.
    path: &'static str,
    rtt: &'static str,
    loss: &'static str,
    /// So long after a copy began its path has this round trip time.
    becomes: Option<(Duration, &'static str)>,
    from: Origin,
    /// Options of all copies.
    options: &'static [&'static str],
    mib: u64,
    /// Numbers of streams that are tried, all of a copy.
    fixed: [&'static str; 2],
    goal: Goal,
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "near, full",
        path: "0.2 ms",
        rtt: "0.2ms",
        loss: "0",
        becomes: None,
        from: Origin::Far,
        options: &[],
        mib: 1280,
        fixed: ["4", "8"],
        goal: COSTS_NOTHING,
    },
    Shape {
        name: "far, full",
        path: "20 ms",
        rtt: "20ms",
        loss: "0",
        becomes: None,
        from: Origin::Far,
        options: &[],
        mib: 1280,
        fixed: ["4", "16"],
        goal: COSTS_NOTHING,
    },
    // Eight streams with such windows fill 2 ms, and a third of 100 ms.
    Shape {
        name: "becomes long",
        path: "2 ms, after 3 s 100 ms; windows of 512 KiB",
        rtt: "2ms",
        loss: "0",
        becomes: Some((Duration::from_secs(3), "100ms")),
        from: Origin::Far,
        options: &["--window", "512KiB"],
        mib: 1024,
        fixed: ["16", "32"],
        goal: GAINS,
    },
    // With 10⁻⁴ a copy of some seconds is still in its start, in which loss does not hold it yet.
    Shape {
        name: "lossy",
        path: "50 ms, a loss of 10⁻³",
        rtt: "50ms",
        loss: "0.001",
        becomes: None,
        from: Origin::Far,
        options: &[],
        mib: 256,
        fixed: ["16", "32"],
        goal: GAINS,
    },
    // A stream reads one segment at a time: of 16 devices two streams use two.
    Shape {
        name: "slow source",
        path: "0.2 ms; 16 simulated devices of 20 MB/s, each segment on one",
        rtt: "0.2ms",
        loss: "0",
        becomes: None,
        from: Origin::Array("seek=0ms,rate=20MB,devices=16,stripe=1MiB"),
        options: &[],
        mib: 768,
        fixed: ["4", "8"],
        goal: GAINS,
    },
];

impl Shape {
    /// Options of the testbed, as a copy finds its path.
    fn path_words(&self) -> [&'static str; 6] {
        ["--rtt", self.rtt, "--rate", RATE, "--loss", self.loss]
    }
}

/// What a copy is told.
#[derive(Clone)]
struct Settings {
    name: String,
    words: Vec<&'static str>,
}

impl Settings {
    fn fixed(streams: &'static str) -> Settings {
        Settings { name: format!("{streams} streams"), words: vec!["--no-tune", "--streams", streams] }
    }

    /// The control loop, and without.
    fn both() -> [Settings; 2] {
        [(TUNED, vec![]), (STILL, vec![STILL])].map(|(name, words)| Settings { name: name.to_owned(), words })
    }
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(why) = Testbed::is_missing(&bench.workspace) {
        bail!("{why}; --thalweg names another");
    }
    for shape in &SHAPES {
        if bench.wants(shape.name) {
            contest(bench, shape).context(shape.name)?;
        }
    }
    Ok(())
}

/// The search, then the rounds.
fn contest(bench: &mut Bench<'_>, shape: &Shape) -> Result<()> {
    let (runs, bytes) = (bench.runs(), bench.large_bytes(shape.mib));
    let source = bench.workspace.directory("source")?;
    if matches!(shape.from, Origin::Far) {
        toolchain::make_large_file(&toolchain::directory()?, &source.join("file"), bytes)?;
    }
    let export = bench.workspace.directory("export")?;
    // Buffers as wide as a path may want, so that only what a shape narrows is narrow.
    let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let congestion = format!("net.ipv4.tcp_congestion_control={}", congestion.trim());
    let up = [&shape.path_words()[..], &["--tuned", "--sysctl", &congestion]].concat();
    let workspace = &bench.workspace;
    let testbed = Testbed::up(workspace, &up)?;
    let exports = [format!("source={}:ro", source.display()), format!("export={}", export.display())];
    let enter = |command| workspace.group.enter(testbed.enter("right", &command));
    let address = format!("{}:8487", testbed.address);
    let daemon = Daemon::start_at(&address, &workspace.thalweg, &workspace.scratch, &exports, enter)?;
    let site = Site { workspace, testbed: &testbed, daemon: &daemon, shape, source, export, bytes };
    let log = &mut bench.log;
    let search = format!("{}{SEARCH}", shape.name);
    let mut found = Vec::new();
    for settings in shape.fixed.map(Settings::fixed) {
        let sample = site.measure(&settings, &search, 1)?;
        eprintln!("{}", told(&sample));
        log.sample(&sample)?;
        found.push((sample.wall_s, settings));
    }
    let best = found.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, settings)| settings);
    let competing: Vec<Settings> = Settings::both().into_iter().chain(best).collect();
    workspace::rounds(runs, competing, |run, settings| {
        if run == 0 {
            return Ok(());
        }
        let sample = site.measure(settings, shape.name, run)?;
        eprintln!("{}", told(&sample));
        log.sample(&sample)
    })
}

/// Both sides of the path.
struct Site<'a> {
    workspace: &'a workspace::Workspace,
    testbed: &'a Testbed<'a>,
    daemon: &'a Daemon,
    shape: &'a Shape,
    source: PathBuf,
    export: PathBuf,
    bytes: u64,
}

impl Site<'_> {
    fn measure(&self, settings: &Settings, scenario: &str, run: usize) -> Result<Sample> {
        // A copy before may have left another one.
        self.testbed.set(&self.shape.path_words())?;
        let load = Load { scenario, tool: &settings.name, run, bytes: self.bytes, files: 1 };
        self.testbed.over(|| Ok(load.took(&self.copy(settings)?)))
    }

    fn copy(&self, settings: &Settings) -> Result<Times> {
        let state = self.workspace.nothing_known()?;
        let mut command = self.workspace.thalweg();
        command.env("THALWEG_STATE", &state).args(["cp", "-q", "--ticket"]).arg(&self.daemon.ticket);
        command.args(self.shape.options).args(&settings.words);
        let (address, copied) = (&self.daemon.address, self.export.join("copied"));
        match self.shape.from {
            Origin::Far => {
                data::warm(&self.source)?;
                command.args([format!("tw://{address}/source/file"), "null:".to_owned()]);
            }
            Origin::Array(like) => {
                let array = format!("sim:{like},size={}", self.bytes);
                command.args([array, format!("tw://{address}/export/copied")]);
            }
        }
        let command = self.testbed.enter("left", &command);
        let times = match self.shape.becomes {
            None => self.workspace.time(command, None)?,
            Some((after, rtt)) => std::thread::scope(|scope| {
                let copy = scope.spawn(|| self.workspace.time(command, None));
                std::thread::sleep(after);
                let changed = self.testbed.set(&["--rtt", rtt]);
                let times = copy.join().map_err(|_| anyhow::anyhow!("a panic"))?;
                changed.and(times)
            })?,
        };
        if matches!(self.shape.from, Origin::Array(_)) {
            let bytes = take_away(&copied)?;
            ensure!(bytes == self.bytes, "{bytes} bytes came of {}", self.bytes);
        }
        Ok(times)
    }
}

/// Removes a file, or a directory of files; how many bytes they had.
fn take_away(path: &Path) -> Result<u64> {
    if path.is_dir() {
        let files = trees::files_below(path)?;
        let bytes =
            files.iter().map(|file| fs::metadata(file).map(|file| file.len())).sum::<Result<u64, _>>();
        fs::remove_dir_all(path)?;
        return Ok(bytes?);
    }
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    fs::remove_file(path)?;
    Ok(bytes)
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::from(
        "All over 1 Gbit/s. *To be won* is the time with `--no-tune` against that of the best fixed number.\n\n\
         | shape | path | the best fixed | its wall s | `--no-tune`, s | control loop, s | against `--no-tune` | goal | against \
         the best fixed | to be won | CPU-s/GB, `--no-tune` | control loop | the path's own CPU-s/GB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for shape in &SHAPES {
        let Shape { name, path, goal, .. } = shape;
        let wall = |tool: &str| results.series(name, tool, |sample| sample.wall_s);
        let best = results.tools(name).into_iter().find(|tool| ![TUNED, STILL].contains(tool));
        let Some(best) = best else {
            let verdict = goal.verdict(f64::NAN);
            writeln!(out, "| {name} | {path} | not measured | | | | | {verdict} | | | | | |")?;
            continue;
        };
        let cpu = |tool: &str| tell::with_interval(&results.series(name, tool, cpu_s_per_gb));
        writeln!(
            out,
            "| {name} | {path} | {best} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            tell::with_interval(&wall(best)),
            tell::with_interval(&wall(STILL)),
            tell::with_interval(&wall(TUNED)),
            tell::ratio(&wall(TUNED), &wall(STILL)),
            goal.verdict_of_ratio(&wall(TUNED), &wall(STILL)),
            tell::ratio(&wall(TUNED), &wall(best)),
            tell::ratio(&wall(STILL), &wall(best)),
            cpu(STILL),
            cpu(TUNED),
            tell::wire_cost(results, name, TUNED),
        )?;
    }
    let searched = results.samples.iter().filter(|sample| scenario_of(sample).ends_with(SEARCH)).count();
    if searched > 0 {
        writeln!(out, "\nThe search tried {searched} fixed numbers, each once; the result has all of them.")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_cli::config;

    fn is_understood(words: &[&[&str]]) {
        let words: Vec<&str> = std::iter::once("thalweg").chain(words.concat()).collect();
        let understood = config::command().try_get_matches_from(words.clone());
        assert!(understood.is_ok(), "{words:?}: {}", understood.unwrap_err());
    }

    #[test]
    fn what_the_program_is_told_of_each_shape_is_understood() {
        for shape in &SHAPES {
            is_understood(&[&["testbed", "up", "--tuned"], &shape.path_words()]);
            if let Some((_, rtt)) = shape.becomes {
                is_understood(&[&["testbed", "set", "--rtt", rtt]]);
            }
            let from = match shape.from {
                Origin::Far => "tw://far/source/file".to_owned(),
                Origin::Array(like) => format!("sim:{like},size=1"),
            };
            for settings in Settings::both().into_iter().chain(shape.fixed.map(Settings::fixed)) {
                is_understood(&[&["cp", "-q"], shape.options, &settings.words, &[&from, "null:"]]);
            }
        }
    }

    fn sample(scenario: &str, tool: &str, run: usize, wall_s: f64) -> Sample {
        let load = Load { scenario, tool, run, bytes: 1 << 30, files: 1 };
        load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 })
    }

    #[test]
    fn a_trial_that_costs_is_told_as_missed_and_a_gain_with_what_was_to_be_won() {
        let [full, long] = [SHAPES[0].name, SHAPES[2].name];
        let mut samples = vec![sample(&format!("{long}{SEARCH}"), "32 streams", 1, 10.0)];
        for run in 1..=3 {
            for (scenario, tool, wall_s) in [
                (full, TUNED, 11.0),
                (full, STILL, 10.0),
                (full, "4 streams", 10.0),
                (long, TUNED, 12.0),
                (long, STILL, 20.0),
                (long, "32 streams", 10.0),
            ] {
                samples.push(sample(scenario, tool, run, wall_s));
            }
        }
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let costs =
            "| 10.0 [10.0–10.0] | 11.0 [11.0–11.0] | 1.10 [1.10–1.10] | at most 1.02: **missed by 7.8 %** |";
        assert!(told.contains(costs), "{told}");
        let gains = "| 0.600 [0.600–0.600] | at most 0.95: met | 1.20 [1.20–1.20] | 2.00 [2.00–2.00] |";
        assert!(told.contains(gains), "{told}");
        assert!(
            told.contains("| becomes long | 2 ms, after 3 s 100 ms; windows of 512 KiB | 32 streams |"),
            "{told}"
        );
        assert!(told.contains("| lossy | 50 ms, a loss of 10⁻³ | not measured |"), "{told}");
        assert!(told.contains("tried 1 fixed numbers"), "{told}");
    }

    #[test]
    fn what_came_is_counted_and_taken_away_be_it_a_file_or_a_directory() {
        let scratch = crate::scratch::Scratch::new("tune").unwrap();
        let path = scratch.path("copied");
        fs::write(&path, [0; 9]).unwrap();
        assert_eq!((take_away(&path).unwrap(), path.exists()), (9, false));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("sim"), [0; 7]).unwrap();
        assert_eq!((take_away(&path).unwrap(), path.exists()), (7, false));
        assert!(take_away(&path).is_err());
    }
}
