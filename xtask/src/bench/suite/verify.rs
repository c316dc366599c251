//! What verification costs where something else is the narrowest, and what damage costs.

use super::{Row, Suite, loopback, row};
use crate::bench::control_group::{SlowDisk, Way};
use crate::bench::network;
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::tell::{self, Goal};
use crate::bench::{Bench, data, peers, workspace};
use crate::servers::Daemon;
use crate::{command, toolchain, trees};
use anyhow::{Result, bail};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use thalweg_lab::bench::statistics::{self, Series};

pub const SUITE: Suite = Suite {
    name: "verify",
    title: Some("Verification"),
    asks: "What does verification cost where the link or the disk is the narrowest stage? Goals: with `--verify written` \
           (the default) at most 1 % more wall time than something that verifies nothing over the same link or disk; with \
           `--verify readback` at most 5 % more than `written` where the disk has the rate to spare; of n chunks, k \
           damaged ones cost k/n of the traffic.",
    takes: "about 15 minutes, 4 GB of disk",
    runs: 5,
    path: loopback,
    rows,
    run,
    tell,
};

const THIN_LINK: &str = "thin link";
const SLOW_DISK: &str = "slow disk";
const REPAIR: &str = "repair";
const MODES: [&str; 3] = ["written", "readback", "paranoid"];
/// What verifies nothing, over the link and onto the disk.
const TAR: &str = "tar socket";
const DD: &str = "dd, direct";
/// Decimal, as tc has it.
const LINK_BITS_PER_S: u64 = 1_000_000_000;
const DISK_BYTES_PER_S: u64 = 200_000_000;
const CHUNK_BYTES: u64 = 4 << 20;
const LARGE_MIB: u64 = 1024;
/// Chunks damaged, of all there are.
const DAMAGED: [u64; 5] = [0, 1, 8, 32, 128];

fn rows() -> Vec<Row> {
    let of =
        |(scenario, control): (&'static str, &'static str)| tools(control).map(|tool| row(scenario, tool));
    let modes = [(THIN_LINK, TAR), (SLOW_DISK, DD)].into_iter().flat_map(of);
    let chunks = (LARGE_MIB << 20) / CHUNK_BYTES;
    modes.chain(DAMAGED.map(|count| row(REPAIR, repaired(count, chunks)))).collect()
}

/// Every way to verify, and the tool that does not.
fn tools(control: &'static str) -> [&'static str; 4] {
    let [written, readback, paranoid] = MODES;
    [written, readback, paranoid, control]
}

/// The tool of a repair.
fn repaired(count: u64, chunks: u64) -> String {
    format!("{count} of {chunks}")
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let bytes = bench.large_bytes(LARGE_MIB);
    let source = bench.workspace.directory("source")?;
    toolchain::make_large_file(&toolchain::directory()?, &source.join("file"), bytes)?;
    let export = bench.workspace.directory("export")?;
    if bench.wants(THIN_LINK) {
        network::thin_loopback(LINK_BITS_PER_S)?;
        modes(bench, THIN_LINK, &source, &export, bytes, None)?;
        network::wide_loopback()?;
    }
    if bench.wants(SLOW_DISK) {
        match SlowDisk::new(&export, Way::Write, DISK_BYTES_PER_S) {
            Ok(slow) => modes(bench, SLOW_DISK, &source, &export, bytes, Some(&slow))?,
            Err(error) => bench.log.left_out(SLOW_DISK, &format!("{error:#}"))?,
        }
    }
    if bench.wants(REPAIR) {
        repair(bench, &source, &export, bytes)?;
    }
    Ok(())
}

/// All [`tools`] of a scenario.
fn modes(
    bench: &mut Bench<'_>,
    scenario: &str,
    source: &Path,
    export: &Path,
    bytes: u64,
    slow: Option<&SlowDisk>,
) -> Result<()> {
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let exports = [format!("bench={}", export.display())];
    let daemon = Daemon::start(&workspace.thalweg, &workspace.scratch, &exports, |command| {
        let command = workspace.group.enter(command);
        match slow {
            Some(slow) => slow.enter(command),
            None => command,
        }
    })?;
    let control = if slow.is_some() { DD } else { TAR };
    workspace::rounds(runs, tools(control).to_vec(), |run, tool| {
        data::warm(source)?;
        let destination = export.join(tool.replace([' ', ','], "-"));
        let job = peers::Job { source, destination: &destination, has_many_files: false };
        let command = match (*tool, slow) {
            (DD, Some(slow)) => {
                fs::create_dir(&destination)?;
                let mut dd = Command::new("dd");
                dd.arg(format!("if={}", source.join("file").display()));
                dd.arg(format!("of={}", destination.join("file").display()));
                dd.args(["bs=1M", "oflag=direct", "conv=fsync", "status=none"]);
                slow.enter(dd)
            }
            (TAR, _) => peers::tar_socket(&job)?,
            _ => {
                let mut command = workspace.thalweg();
                command.args(["cp", "-q", "--verify", tool, "--ticket"]).arg(&daemon.ticket);
                let to = format!("tw://{}/bench/{tool}", daemon.address);
                command.args([format!("{}/", source.display()), to]);
                command
            }
        };
        let times = workspace.time(command, Some(&destination))?;
        trees::same_content(source, &destination)?;
        fs::remove_dir_all(&destination)?;
        eprintln!("{scenario} {tool} {run}: {:.2} s", times.wall_s);
        if run == 0 {
            return Ok(());
        }
        log.sample(&Load { scenario, tool, run, bytes, files: 1 }.took(&times))
    })
}

/// A copy of which some chunks were damaged afterwards is copied again; what counts is the traffic.
fn repair(bench: &mut Bench<'_>, source: &Path, export: &Path, bytes: u64) -> Result<()> {
    let runs = bench.runs();
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    let exports = [format!("bench={}", export.display())];
    let daemon = Daemon::start(&workspace.thalweg, &workspace.scratch, &exports, |command| {
        workspace.group.enter(command)
    })?;
    let chunks = bytes / CHUNK_BYTES;
    let damaged: Vec<u64> = DAMAGED.iter().map(|count| (*count).min(chunks)).collect();
    let destination = export.join("damaged");
    workspace::rounds(runs, damaged, |run, count| {
        // Made anew each time: the one before it was repaired, and is remembered.
        let _ = fs::remove_dir_all(&destination);
        command::run(Command::new("cp").args(["-a"]).args([source, &destination]))?;
        damage(&destination.join("file"), chunks, *count)?;
        data::warm(source)?;
        let before = network::loopback_bytes()?;
        let mut command = workspace.thalweg();
        command.args(["cp", "-q", "--check", "digest", "--chunk", "4MiB", "--ticket"]).arg(&daemon.ticket);
        let to = format!("tw://{}/bench/damaged", daemon.address);
        command.args([format!("{}/", source.display()), to]);
        let times = workspace.time(command, Some(&destination))?;
        let traffic = network::loopback_bytes()? - before;
        trees::same_content(source, &destination)?;
        eprintln!("{REPAIR} {count} of {chunks} {run}: {:.2} s, {traffic} bytes", times.wall_s);
        if run == 0 {
            return Ok(());
        }
        let tool = repaired(*count, chunks);
        let sample = Load { scenario: REPAIR, tool: &tool, run, bytes, files: 1 }.took(&times);
        let sample = sample.measured("traffic_bytes", traffic as f64, "B");
        log.sample(&sample.measured("damaged_bytes", (count * CHUNK_BYTES) as f64, "B"))
    })?;
    Ok(fs::remove_dir_all(&destination)?)
}

/// Flips a bit in `count` chunks, evenly spread.
fn damage(file: &Path, chunks: u64, count: u64) -> Result<()> {
    let file = fs::OpenOptions::new().read(true).write(true).open(file)?;
    for number in 0..count {
        let at = number * chunks / count * CHUNK_BYTES + CHUNK_BYTES / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1], at)?;
    }
    Ok(file.sync_all()?)
}

fn tell(results: &Results) -> Result<String> {
    let link = format!("a link of {} Gbit/s", LINK_BITS_PER_S as f64 / 1e9);
    let disk = format!("a destination disk of {} MB/s", DISK_BYTES_PER_S / 1_000_000);
    let mut out = String::new();
    out += &tell_modes(results, (THIN_LINK, TAR), &link, LINK_BITS_PER_S / 8)?;
    out += &tell_modes(results, (SLOW_DISK, DD), &disk, DISK_BYTES_PER_S)?;
    out += &tell_repairs(results)?;
    Ok(out)
}

/// What each way to verify costs in a scenario, beside its control; `narrow` lets so many bytes through. Empty if that
/// was not measured.
fn tell_modes(
    results: &Results,
    (scenario, control): (&str, &str),
    narrow: &str,
    bytes_per_s: u64,
) -> Result<String> {
    let mut out = String::new();
    let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
    if wall(MODES[0]).is_empty() {
        return Ok(out);
    }
    writeln!(
        out,
        "Through {narrow}:\n\n| verified | wall s | against {control}, which verifies nothing | against written | goal |\n\
         |---|---|---|---|---|\n| {control} | {} | 1 | | |",
        tell::with_interval(&wall(control))
    )?;
    for mode in MODES {
        let verdict = match mode {
            "written" => Goal::AtMost(1.01).verdict_of_ratio(&wall(mode), &wall(control)),
            // Elsewhere the disk has no rate to spare.
            "readback" if scenario == THIN_LINK => {
                Goal::AtMost(1.05).verdict_of_ratio(&wall(mode), &wall(MODES[0]))
            }
            _ => String::new(),
        };
        writeln!(
            out,
            "| {mode} | {} | {} | {} | {verdict} |",
            tell::with_interval(&wall(mode)),
            tell::ratio(&wall(mode), &wall(control)),
            tell::ratio(&wall(mode), &wall(MODES[0])),
        )?;
    }
    // The control has costs of its own, behind which those of verifying could hide.
    let alone = |sample: &Sample| sample.bytes as f64 / bytes_per_s as f64;
    let alone = results.series(scenario, MODES[0], alone);
    writeln!(
        out,
        "\nThe bytes alone, at the rate of {narrow}, take {:.2} s: start, headers, verifying and the final sync together, \
         {} of that with `written`.\n",
        tell::median_of(&alone),
        tell::ratio(&wall(MODES[0]), &alone),
    )?;
    Ok(out)
}

/// What the repair of damaged chunks costs. Empty if that was not measured.
fn tell_repairs(results: &Results) -> Result<String> {
    let mut out = String::new();
    let repairs = results.tools(REPAIR);
    if repairs.is_empty() {
        return Ok(out);
    }
    out += "Chunks of a copy damaged by one bit each, found and repaired by `cp --check digest`:\n\n\
            | damaged chunks | wall s | traffic, MB | traffic beyond that without damage, against k/n of the file |\n\
            |---|---|---|---|\n";
    let figure = |tool: &str, key: &str| -> Series {
        results.series(REPAIR, tool, |sample| record::measured(sample, key))
    };
    let mut repairs: Vec<(f64, &str)> =
        repairs.into_iter().map(|tool| (tell::median_of(&figure(tool, "damaged_bytes")), tool)).collect();
    repairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(none) = repairs.first().filter(|first| first.0 == 0.0) else { bail!("no run without damage") };
    let base = figure(none.1, "traffic_bytes");
    for (damaged, tool) in &repairs {
        let traffic = figure(tool, "traffic_bytes");
        let beyond: Series = traffic
            .iter()
            .filter_map(|(run, bytes)| Some((*run, (bytes - base.get(run)?) / damaged)))
            .collect();
        let verdict = match *damaged > 0.0 {
            true => format!(
                "{}; {}",
                tell::with_interval(&beyond),
                Goal::AtMost(1.05).verdict_of(&statistics::values(&beyond))
            ),
            false => String::new(),
        };
        let megabytes: Series = traffic.iter().map(|(run, bytes)| (*run, bytes / 1e6)).collect();
        writeln!(
            out,
            "| {tool} | {} | {} | {verdict} |",
            tell::with_interval(&results.series(REPAIR, tool, |sample| sample.wall_s)),
            tell::with_interval(&megabytes),
        )?;
    }
    out += "\nThe wall time does not go with k: the file as it stands is never written to, so the chunks that are sound are copied \
            into a new one, which then takes its name.\n";
    Ok(out)
}
