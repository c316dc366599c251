//! The same volume in files of one size.

use super::{Row, Suite, loopback, row};
use crate::bench::copies::Scenario;
use crate::bench::data;
use crate::bench::peers::{self, Job, Servers};
use crate::bench::record::{Load, Results, Sample, cpu_s_per_gb, files_per_s, gbit_per_s};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::Volume;
use crate::bench::{Bench, workspace};
use crate::toolchain;
use anyhow::Result;
use std::fmt::Write;

pub const SUITE: Suite = Suite {
    name: "size",
    title: Some("File size"),
    asks: "At what rate do warm files of one size become durable at the far side? Goals: from 4 MiB up every size within \
           5 % of the rate of the largest; files of 64 KiB at least half of it.",
    takes: "about 14 minutes, 17 GB of disk",
    // The first number whose interval leaves out the smallest and the largest: one odd run of five decides a verdict.
    runs: 9,
    path: loopback,
    rows,
    run,
    tell,
};

/// Bytes of a file, and how many of them: 2 GiB, and less where files are so small that they take long anyway.
const SIZES: [(u64, u64); 11] = [
    (1 << 10, 20_000),
    (4 << 10, 20_000),
    (16 << 10, 16_384),
    (64 << 10, 16_384),
    (256 << 10, 4096),
    (1 << 20, 1024),
    (4 << 20, 512),
    (16 << 20, 128),
    (64 << 20, 32),
    (256 << 20, 8),
    (1 << 30, 2),
];
const FLAT_FROM: u64 = 4 << 20;
const HALF_AT: u64 = 64 << 10;
const TOOL: &str = "thalweg daemon";

fn rows() -> Vec<Row> {
    SIZES.iter().map(|(bytes, _)| row(name(*bytes), TOOL)).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let toolchain = toolchain::directory()?;
    let runs = bench.runs();
    // A file system that nothing was deleted from: creating on ext4 is slow for minutes after that.
    let made = SIZES.iter().map(|(_, files)| files).sum::<u64>() * (runs as u64 + 1);
    let volume = Volume::new(&bench.workspace.scratch, "volume", made)?;
    let export = volume.path.join("export");
    std::fs::create_dir(&export)?;
    let mut scenarios = Vec::new();
    for (bytes, files) in SIZES.into_iter().filter(|(bytes, _)| bench.wants(&name(*bytes))) {
        // For small tries.
        let files = bench.args.large_mib.map_or(files, |mib| ((mib << 20) / bytes).clamp(1, files));
        let source = bench.workspace.directory(&format!("source-{bytes}"))?;
        data::make_files(&toolchain, &source, files, bytes)?;
        scenarios.push(Scenario {
            name: name(bytes),
            source,
            bytes: bytes * files,
            files,
            small_bytes: None,
            few: None,
        });
    }
    let tool = peers::tool(TOOL)?;
    let (servers, _) = Servers::start(&bench.workspace, &export, &[tool])?;
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    workspace::rounds(runs, scenarios, |run, scenario| {
        let destination = export.join(format!("{run}-{}", scenario.name.replace(' ', "-")));
        let job = Job { source: &scenario.source, destination: &destination, has_many_files: false };
        data::warm(&scenario.source)?;
        let times = workspace.time(tool.command(&servers, &job)?, Some(&destination))?;
        tool.compare(&job)?;
        data::free(&destination)?;
        eprintln!("{} {run}: {:.2} s", scenario.name, times.wall_s);
        if run == 0 {
            return Ok(());
        }
        let Scenario { name: ref scenario, bytes, files, .. } = *scenario;
        log.sample(&Load { scenario, tool: TOOL, run, bytes, files }.took(&times))
    })
}

fn name(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

fn tell(results: &Results) -> Result<String> {
    let rate = |bytes: u64| results.series(&name(bytes), TOOL, gbit_per_s);
    let (largest, _) = SIZES[SIZES.len() - 1];
    let mut out = String::from(
        "| size | files | Gbit/s | max/min | files/s | CPU-s/GB | rate against 1 GiB | goal |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (bytes, _) in SIZES {
        let files = results.of(&name(bytes), TOOL).map(|sample| sample.files).max().unwrap_or(0);
        let series = |figure: fn(&Sample) -> f64| results.series(&name(bytes), TOOL, figure);
        let verdict = |goal: Goal| goal.verdict_of_ratio(&rate(bytes), &rate(largest));
        let goal = match bytes {
            _ if bytes == largest => String::new(),
            FLAT_FROM.. => verdict(Goal::AtLeast(0.95)),
            HALF_AT => verdict(Goal::AtLeast(0.5)),
            _ => String::new(),
        };
        writeln!(
            out,
            "| {} | {files} | {} | {:.2} | {:.0} | {} | {} | {goal} |",
            name(bytes),
            tell::with_interval(&rate(bytes)),
            tell::spread_of(&rate(bytes)),
            tell::median_of(&series(files_per_s)),
            tell::with_interval(&series(cpu_s_per_gb)),
            tell::ratio(&rate(bytes), &rate(largest)),
        )?;
    }
    Ok(out)
}
