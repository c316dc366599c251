//! What other users of the same machine, and of the same line, suffer from a copy.
//!
//! - Cached files: a program reads one again and again, and one rests in the page cache, while a file is copied that
//!   the memory could not hold. All of them have the memory of a control group, so that nothing depends on how large
//!   the machine is. A copy by `cp` beside it shows what the page cache loses otherwise.
//! - Cores: a program that only computes, as many times as there are cores, beside copies with and without `--nice`.
//!   All are in one control group: between groups `nice` decides nothing.
//! - The line: one flow of iperf3 beside a copy, beside one that yields (`--class scavenger`), and beside a second
//!   flow.
//!
//! Copies of the first two stay on this machine: a daemon keeps the priority that it was started with.

use super::{Row, Suite, loopback, row};
use crate::bench::control_group::Memory;
use crate::bench::network::Testbed;
use crate::bench::record::{self, Load, PATH, Results, Sample};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::Times;
use crate::bench::{Bench, data, workspace};
use crate::servers::{Daemon, Running};
use crate::{command, toolchain, trees};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use thalweg_lab::bench::MTU_BYTES;
use thalweg_lab::bench::record::PathKind;
use thalweg_lab::bench::statistics::{self, Series};

pub const SUITE: Suite = Suite {
    name: "fair",
    title: Some("Beside other users"),
    asks: "What do others suffer from a copy? A program that reads a cached file again and again, and a cached file that \
           rests, in 2 GiB of memory together with the copy of a file of 4 GiB that is not cached; a program on each core \
           that only computes; one flow of TCP on a line of 100 Mbit/s and 20 ms, from when the copy has run for 3 s. Goals: at \
           least 0.95 of the file that rests is still cached after the copy; beside a copy of the class scavenger the flow \
           has at least 0.75 of its rate alone. The other figures have no goal.",
    takes: "about 15 minutes, 12 GB of disk; the line needs `thalweg testbed`",
    runs: 5,
    // Of most samples; those over the line say theirs.
    path: loopback,
    rows,
    run,
    tell,
};

const CACHE: &str = "cached files";
const CORES: &str = "cores";
const LINE: &str = "a line";

const ALONE: &str = "nothing";
const OURS: &str = "a copy";
const BY_CP: &str = "a copy by cp";
const NICE: [(&str, &str); 2] = [("a copy, --nice 10", "10"), ("a copy, --nice 19", "19")];
const SCAVENGER: &str = "a copy, --class scavenger";
const FLOW: &str = "a second flow";

/// What is beside the foreign program, in the order of the tables.
const BESIDE_FILES: [&str; 3] = [ALONE, OURS, BY_CP];
const BESIDE_CORES: [&str; 4] = [ALONE, OURS, NICE[0].0, NICE[1].0];
const BESIDE_LINE: [&str; 4] = [ALONE, FLOW, OURS, SCAVENGER];

/// SPEC.md 48e and 48g; the kernel may take a few pages of its own accord.
const STAYS: Goal = Goal::AtLeast(0.95);
/// SPEC.md 45d: what others leave, which is next to nothing where they fill the line.
const YIELDS: Goal = Goal::AtLeast(0.75);

const LARGE_MIB: u64 = 4096;
/// For the cached files and the copy together.
const MEMORY_BYTES: u64 = 2 << 30;
const RESTING_BYTES: u64 = 512 << 20;
const BUSY_BYTES: u64 = 256 << 20;
/// So long a foreign program is measured with nothing beside it, about as long as a copy takes.
const ALONE_TIME: Duration = Duration::from_secs(4);
/// Of /proc, on Linux whatever the kernel's own ticks are.
const TICKS_PER_S: f64 = 100.0;

const LINE_WORDS: [&str; 4] = ["--rtt", "20ms", "--rate", "100Mbit/s"];
const LINE_BITS_PER_S: u64 = 100_000_000;
const LINE_RTT_S: f64 = 0.02;
const FLOW_S: &str = "12";
/// So long what is beside a flow runs before it: a copy is past its start then.
const BEFORE: Duration = Duration::from_secs(3);
/// The whole line carries 225 MB until a flow is over, tries of iperf3 included.
const SENT_BYTES: u64 = 320 << 20;
/// Of the flow, and of the second one.
const PORTS: [&str; 2] = ["5201", "5202"];

/// What is measured of the foreign program: what it read, its share of all cores, what arrived of it.
const READ: &str = "foreign_read_rate";
const SHARE: &str = "foreign_share_of_cores";
const ARRIVED: &str = "foreign_rate";
/// Of the file that rests, which share is in the page cache at the end.
const CACHED: &str = "cached_share";

fn rows() -> Vec<Row> {
    let files = BESIDE_FILES.map(|tool| row(CACHE, tool));
    let cores = BESIDE_CORES.map(|tool| row(CORES, tool));
    files.into_iter().chain(cores).chain(BESIDE_LINE.map(|tool| row(LINE, tool))).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    if bench.wants(CACHE) {
        cached_files(bench).context(CACHE)?;
    }
    if bench.wants(CORES) {
        cores(bench).context(CORES)?;
    }
    if bench.wants(LINE) {
        match Testbed::is_missing(&bench.workspace) {
            Some(why) => bench.log.left_out(LINE, &why)?,
            None => line(bench).context(LINE)?,
        }
    }
    Ok(())
}

/// A directory with one file of so many bytes.
fn file_of(workspace: &workspace::Workspace, name: &str, bytes: u64) -> Result<PathBuf> {
    let directory = workspace.directory(name)?;
    toolchain::make_large_file(&toolchain::directory()?, &directory.join("file"), bytes)?;
    Ok(directory)
}

/// Bytes of a file that are in the page cache now.
fn cached_bytes(file: &Path) -> Result<u64> {
    let mut fincore = Command::new("fincore");
    let told = command::says(fincore.args(["--bytes", "--noheadings", "--output", "RES"]).arg(file))?;
    told.parse().context("what fincore says")
}

fn cached_files(bench: &mut Bench<'_>) -> Result<()> {
    let (runs, bytes) = (bench.runs(), bench.large_bytes(LARGE_MIB));
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let source = file_of(workspace, "source", bytes)?;
    let resting = file_of(workspace, "resting", RESTING_BYTES)?;
    let busy = file_of(workspace, "busy", BUSY_BYTES)?;
    let (resting_file, busy_file) = (resting.join("file"), busy.join("file"));
    if let Err(error) = cached_bytes(&resting_file) {
        return log.left_out(CACHE, &format!("{error:#}"));
    }
    let memory = match Memory::of(MEMORY_BYTES) {
        Ok(memory) => memory,
        Err(error) => return log.left_out(CACHE, &format!("{error:#}")),
    };
    let destination = workspace.directory("export")?.join("copy");
    workspace::rounds(runs, BESIDE_FILES.to_vec(), |run, tool| {
        command::run(&mut Command::new("sync"))?;
        for directory in [&source, &resting, &busy] {
            data::cool(directory)?;
        }
        for file in [&resting_file, &busy_file] {
            let mut cat = Command::new("cat");
            cat.arg(file);
            let read = memory.enter(cat).stdout(Stdio::null()).status()?;
            ensure!(read.success(), "cat ended with {read}");
        }
        let passes = workspace.scratch.path("passes");
        fs::write(&passes, "")?;
        let mut again = Command::new("sh");
        again.args(["-c", "while cat \"$0\" > /dev/null; do printf . >> \"$1\"; done"]);
        again.args([&busy_file, &passes]);
        let reader = Running::start(memory.enter(again), "a reader")?;
        sleep(Duration::from_millis(500));
        let read = || fs::metadata(&passes).map(|file| file.len());
        let (before, began) = (read()?, Instant::now());
        let times = beside(workspace, tool, &source, &destination, |command| memory.enter(command))?;
        let (passed, elapsed_s) = (read()? - before, began.elapsed().as_secs_f64());
        drop(reader);
        let cached = cached_bytes(&resting_file)? as f64 / RESTING_BYTES as f64;
        take_away(tool, &source, &destination)?;
        let rate = (passed * BUSY_BYTES) as f64 / 1e9 / elapsed_s;
        eprintln!("{CACHE}, beside {tool} {run}: {rate:.2} GB/s, {cached:.3} still cached");
        if run == 0 {
            return Ok(());
        }
        let sample = Load { scenario: CACHE, tool, run, bytes: copied(tool, bytes), files: 1 }.took(&times);
        log.sample(&sample.measured(READ, rate, "10^9 B/s").measured(CACHED, cached, "1"))
    })
}

/// Nothing for a while, or a copy until it is durable.
fn beside(
    workspace: &workspace::Workspace,
    tool: &str,
    source: &Path,
    destination: &Path,
    enter: impl Fn(Command) -> Command,
) -> Result<Times> {
    let nice = NICE.iter().find(|(name, _)| *name == tool);
    let mut copy = match tool {
        ALONE => {
            sleep(ALONE_TIME);
            let wall_s = ALONE_TIME.as_secs_f64();
            return Ok(Times { wall_s, unsynced_s: wall_s, cpu_s: 0.0 });
        }
        BY_CP => {
            let mut cp = Command::new("cp");
            cp.arg("-r").arg(source);
            cp
        }
        _ => {
            let mut ours = workspace.thalweg();
            ours.args(["cp", "-q"]);
            if let Some((_, nice)) = nice {
                ours.args(["--nice", *nice]);
            }
            ours.arg(format!("{}/", source.display()));
            ours
        }
    };
    copy.arg(destination);
    workspace.time(enter(copy), Some(destination))
}

/// Compares what was copied, and removes it.
fn take_away(tool: &str, source: &Path, destination: &Path) -> Result<()> {
    if tool == ALONE {
        return Ok(());
    }
    trees::same_content(source, destination)?;
    Ok(fs::remove_dir_all(destination)?)
}

/// So much a copy of so many bytes moves.
fn copied(tool: &str, bytes: u64) -> u64 {
    if tool == ALONE { 0 } else { bytes }
}

fn cores(bench: &mut Bench<'_>) -> Result<()> {
    // With `--nice 19` a copy has a few hundredths of the cores.
    let (runs, bytes) = (bench.runs(), bench.large_bytes(LARGE_MIB) / 4);
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let source = file_of(workspace, "computed-beside", bytes)?;
    let destination = workspace.directory("export")?.join("copy");
    let count = std::thread::available_parallelism()?.get();
    workspace::rounds(runs, BESIDE_CORES.to_vec(), |run, tool| {
        data::warm(&source)?;
        let compute = || {
            let mut compute = Command::new("sh");
            compute.args(["-c", "while :; do :; done"]);
            Running::start(workspace.group.enter(compute), "a program that computes")
        };
        let foreign = (0..count).map(|_| compute()).collect::<Result<Vec<Running>>>()?;
        sleep(Duration::from_millis(200));
        let used_s = || foreign.iter().map(|one| cpu_s(one.pid())).sum::<Result<f64>>();
        let (before_s, began) = (used_s()?, Instant::now());
        let times = beside(workspace, tool, &source, &destination, |command| command)?;
        let share = (used_s()? - before_s) / began.elapsed().as_secs_f64() / count as f64;
        // What the group counted is theirs as well.
        let cpu_s = (times.cpu_s - (used_s()? - before_s)).max(0.0);
        drop(foreign);
        take_away(tool, &source, &destination)?;
        eprintln!("{CORES}, beside {tool} {run}: {share:.3} of the cores, {:.2} s", times.wall_s);
        if run == 0 {
            return Ok(());
        }
        let load = Load { scenario: CORES, tool, run, bytes: copied(tool, bytes), files: 1 };
        log.sample(&load.took(&Times { cpu_s, ..times }).measured(SHARE, share, "1"))
    })
}

/// CPU time of a process so far, without its children.
fn cpu_s(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("a program that computes")?;
    cpu_s_of(&stat).context("/proc/PID/stat")
}

/// User and system time: the 14th and 15th word, of which the second is a name that may have spaces in it.
fn cpu_s_of(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut words = behind_name.split_whitespace().skip(11);
    let ticks: f64 = words.next()?.parse::<f64>().ok()? + words.next()?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_S)
}

fn line(bench: &mut Bench<'_>) -> Result<()> {
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let source = file_of(workspace, "sent", SENT_BYTES)?;
    let export = workspace.directory("received")?;
    let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let congestion = format!("net.ipv4.tcp_congestion_control={}", congestion.trim());
    let up = [&LINE_WORDS[..], &["--tuned", "--sysctl", &congestion]].concat();
    let testbed = Testbed::up(workspace, &up)?;
    let exports = [format!("bench={}", export.display())];
    let enter = |command| workspace.group.enter(testbed.enter("right", &command));
    let address = format!("{}:8487", testbed.address);
    let daemon = Daemon::start_at(&address, &workspace.thalweg, &workspace.scratch, &exports, enter)?;
    let serve = |port: &str| {
        let mut iperf = Command::new("iperf3");
        Running::start(testbed.enter("right", iperf.args(["--server", "--port", port])), "iperf3")
    };
    let _servers = [serve(PORTS[0])?, serve(PORTS[1])?];
    let (rtt_s, rate_bits_per_s) = (Some(LINE_RTT_S), Some(LINE_BITS_PER_S));
    let path = PathKind::Testbed { rtt_s, rate_bits_per_s, loss: None, mtu_bytes: MTU_BYTES }.to_string();
    workspace::rounds(runs, BESIDE_LINE.to_vec(), |run, tool| {
        // Nothing is to be warm but the source, which is read here.
        if run == 0 {
            return data::warm(&source);
        }
        let name = format!("{run}-{}", tool.replace([' ', ','], "-"));
        let start =
            |command: &Command| Running::start(workspace.group.enter(testbed.enter("left", command)), tool);
        let sample = testbed.over(|| {
            let mut other = match *tool {
                ALONE => None,
                FLOW => {
                    let mut flow = Command::new("iperf3");
                    flow.args(["--client", &testbed.address, "--port", PORTS[1], "--time", "60"]);
                    Some(start(&flow)?)
                }
                _ => {
                    let mut copy = workspace.thalweg();
                    copy.env("THALWEG_STATE", workspace.nothing_known()?);
                    copy.args(["cp", "-q", "--ticket"]).arg(&daemon.ticket);
                    if *tool == SCAVENGER {
                        copy.args(["--class", "scavenger"]);
                    }
                    copy.arg(format!("{}/", source.display()));
                    copy.arg(format!("tw://{}/bench/{name}", daemon.address));
                    Some(start(&copy)?)
                }
            };
            sleep(BEFORE);
            let bits_per_s = testbed.iperf(&["--port", PORTS[0], "--time", FLOW_S])?;
            // Beside what was over before, a flow is alone.
            if let Some(other) = &mut other {
                ensure!(!other.is_over()?, "{tool} was over before the flow");
            }
            let wall_s: f64 = FLOW_S.parse()?;
            let bytes = (bits_per_s / 8.0 * wall_s) as u64;
            let load = Load { scenario: LINE, tool, run, bytes, files: 0 };
            let sample = load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 0.0 });
            Ok(sample.measured(ARRIVED, bits_per_s, "bit/s").with(PATH, path.as_str().into()))
        })?;
        let mbit_per_s = record::measured(&sample, ARRIVED) / 1e6;
        eprintln!("{LINE}, beside {tool} {run}: {mbit_per_s:.1} Mbit/s");
        // What was stopped in the middle is no copy; who wrote it may not have noticed yet.
        let _ = fs::remove_dir_all(export.join(&name));
        log.sample(&sample)
    })
}

fn tell(results: &Results) -> Result<String> {
    let of = |scenario: &str, tool: &str, name: &str| -> Series {
        results.series(scenario, tool, |sample| record::measured(sample, name))
    };
    let wall = |scenario: &str, tool: &str| match tool {
        ALONE => "–".to_owned(),
        _ => tell::with_interval(&results.series(scenario, tool, |sample: &Sample| sample.wall_s)),
    };
    let against = |scenario: &str, tool: &str, name: &str| match tool {
        ALONE => "1".to_owned(),
        _ => tell::ratio(&of(scenario, tool, name), &of(scenario, ALONE, name)),
    };
    let mut out = String::from(
        "| cached files, beside | the copy, s | reads, GB/s | against alone | of the file that rests, still cached | goal |\n\
         |---|---|---|---|---|---|\n",
    );
    for tool in BESIDE_FILES {
        let cached = of(CACHE, tool, CACHED);
        let verdict = match tool {
            OURS => STAYS.verdict_of(&statistics::values(&cached)),
            _ => String::new(),
        };
        writeln!(
            out,
            "| {tool} | {} | {} | {} | {} | {verdict} |",
            wall(CACHE, tool),
            tell::with_interval(&of(CACHE, tool, READ)),
            against(CACHE, tool, READ),
            tell::with_interval(&cached),
        )?;
    }
    out += "\n| a program on each core, beside | the copy, s | its share of all cores | against alone |\n|---|---|---|---|\n";
    for tool in BESIDE_CORES {
        writeln!(
            out,
            "| {tool} | {} | {} | {} |",
            wall(CORES, tool),
            tell::with_interval(&of(CORES, tool, SHARE)),
            against(CORES, tool, SHARE),
        )?;
    }
    out += "\n| one flow, beside | Mbit/s | against alone | goal | the path's own CPU-s/GB |\n|---|---|---|---|---|\n";
    for tool in BESIDE_LINE {
        let rate = of(LINE, tool, ARRIVED);
        let verdict = match tool {
            SCAVENGER => YIELDS.verdict_of_ratio(&rate, &of(LINE, ALONE, ARRIVED)),
            _ => String::new(),
        };
        let mbit: Series = rate.iter().map(|(run, bits)| (*run, bits / 1e6)).collect();
        writeln!(
            out,
            "| {tool} | {} | {} | {verdict} | {} |",
            tell::with_interval(&mbit),
            against(LINE, tool, ARRIVED),
            tell::wire_cost(results, LINE, tool),
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_cli::config;

    #[test]
    fn what_the_program_is_told_is_understood() {
        let copies = [vec!["--class", "scavenger"], vec!["--nice", NICE[0].1], vec!["--nice", NICE[1].1]];
        let copies = copies.map(|options| [vec!["thalweg", "cp", "-q"], options, vec!["a/", "b"]].concat());
        let up = [&["thalweg", "testbed", "up", "--tuned"][..], &LINE_WORDS].concat();
        for words in copies.into_iter().chain([up]) {
            let understood = config::command().try_get_matches_from(words.clone());
            assert!(understood.is_ok(), "{words:?}: {}", understood.unwrap_err());
        }
    }

    #[test]
    fn the_time_of_a_process_is_read_behind_its_name_whatever_that_has_in_it() {
        let stat = "7 (a ) name) R 1 7 7 0 -1 4194304 100 0 0 0 150 25 9 9 20 0 1 0 12345";
        assert_eq!(cpu_s_of(stat), Some(1.75));
        assert_eq!(cpu_s_of("7 (short) R 1"), None);
    }

    #[test]
    fn a_cache_that_was_emptied_and_a_scavenger_that_does_not_yield_are_missed_goals() {
        let of = |scenario: &str, tool: &str, numbers: &[(&str, f64)]| -> Vec<Sample> {
            let runs = (1..=3).map(|run| {
                let load = Load { scenario, tool, run, bytes: 1 << 30, files: 1 };
                let sample = load.took(&Times { wall_s: 2.0, unsynced_s: 2.0, cpu_s: 1.0 });
                numbers.iter().fold(sample, |sample, (name, value)| sample.measured(name, *value, "1"))
            });
            runs.collect()
        };
        let told = |cached: f64, flow: f64| {
            let samples = [
                of(CACHE, ALONE, &[(READ, 8.0), (CACHED, 1.0)]),
                of(CACHE, OURS, &[(READ, 4.0), (CACHED, cached)]),
                of(LINE, ALONE, &[(ARRIVED, 95e6)]),
                of(LINE, SCAVENGER, &[(ARRIVED, flow)]),
            ];
            tell(&Results { samples: samples.concat(), ..Results::default() }).unwrap()
        };
        let good = told(1.0, 95e6);
        let row = "| a copy | 2.00 [2.00–2.00] | 4.00 [4.00–4.00] | 0.500 [0.500–0.500] | 1.00 [1.00–1.00] | at least \
                   0.95: met |";
        assert!(good.contains(row), "{good}");
        let row = "| a copy, --class scavenger | 95.0 [95.0–95.0] | 1.00 [1.00–1.00] | at least 0.75: met |";
        assert!(good.contains(row), "{good}");
        assert!(
            good.contains("| a copy, --nice 19 | not measured | not measured | not measured |"),
            "{good}"
        );
        let bad = told(0.19, 57e6);
        assert!(bad.contains("| at least 0.95: **missed by 80.0 %** |"), "{bad}");
        assert!(bad.contains("| at least 0.75: **missed by 20.0 %** |"), "{bad}");
    }
}
