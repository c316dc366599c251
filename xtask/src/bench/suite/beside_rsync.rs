//! Three kinds of data, warm and cold, beside rsync: the table of README.md.

use super::{Suite, loopback};
use crate::bench::copies;
use crate::bench::peers::{Job, Servers};
use crate::bench::record::{CACHE, Load};
use crate::bench::workspace;
use crate::bench::{Bench, data};
use crate::{toolchain, trees};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use table::{TOOLS, table};

mod table;

pub const SUITE: Suite = Suite {
    name: "beside-rsync",
    title: None,
    asks: "A large file, small files and a real tree, warm and cold, beside rsync by daemon and by ssh: the table in \
           README.md.",
    takes: "about 15 minutes, 15 GB of disk",
    runs: 5,
    path: loopback,
    rows: Vec::new,
    run,
    tell: table,
};

/// Files of the small scenario, and bytes of each.
const SMALL: (u32, usize) = (20_000, 4096);

struct Scenario {
    name: &'static str,
    source: PathBuf,
    bytes: u64,
    files: u64,
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let scenarios = make_scenarios(bench)?;
    let export = bench.workspace.directory("export")?;
    let tools = copies::chosen(bench, &TOOLS)?;
    let runs = bench.runs();
    let caches: &[&str] = if bench.args.warm_only { &["warm"] } else { &["warm", "cold"] };
    let (servers, missing) = Servers::start(&bench.workspace, &export, &tools)?;
    if let Some((tool, why)) = missing.first() {
        anyhow::bail!("{}: {why}", tool.name);
    }
    let (workspace, log) = (&bench.workspace, &mut bench.log);
    for scenario in &scenarios {
        for cache in caches {
            workspace::rounds(runs, tools.clone(), |run, tool| {
                let destination = export.join(format!("{run}-{}", tool.name.replace(' ', "-")));
                data::warm(&scenario.source)?;
                if *cache == "cold" {
                    fs::write("/proc/sys/vm/drop_caches", "3")
                        .context("dropping the page cache (needs root)")?;
                }
                let job = Job {
                    source: &scenario.source,
                    destination: &destination,
                    has_many_files: scenario.files > 1,
                };
                let times = workspace.time(tool.command(&servers, &job)?, Some(&destination))?;
                tool.compare(&job)?;
                data::free(&destination)?;
                eprintln!("{} {cache} {} {run}: {:.2} s", scenario.name, tool.name, times.wall_s);
                if run == 0 {
                    return Ok(());
                }
                let Scenario { name: scenario, bytes, files, .. } = *scenario;
                let sample = Load { scenario, tool: tool.name, run, bytes, files }.took(&times);
                log.sample(&sample.with(CACHE, (*cache).into()))
            })?;
            // Not between runs: creating after a mass deletion is slow on ext4. The first round warms up.
            for entry in fs::read_dir(&export)? {
                fs::remove_dir_all(entry?.path())?;
            }
        }
    }
    Ok(())
}

fn make_scenarios(bench: &Bench<'_>) -> Result<Vec<Scenario>> {
    let toolchain = toolchain::directory()?;
    let mut scenarios = Vec::new();
    if bench.wants("large") {
        let (source, bytes) = (bench.workspace.directory("large")?, bench.large_bytes(2048));
        toolchain::make_large_file(&toolchain, &source.join("file"), bytes)?;
        scenarios.push(Scenario { name: "large", source, bytes, files: 1 });
    }
    if bench.wants("small") {
        let source = bench.workspace.directory("small")?;
        let (files, bytes) = SMALL;
        data::make_small_files(&source, files, bytes)?;
        scenarios.push(Scenario {
            name: "small",
            source,
            bytes: u64::from(files) * bytes as u64,
            files: files.into(),
        });
    }
    if bench.wants("mixed") {
        let source = bench.args.mixed.clone().unwrap_or(toolchain);
        let (mut bytes, mut files) = (0, 0);
        for file in trees::files_below(&source)? {
            bytes += fs::metadata(file)?.len();
            files += 1;
        }
        scenarios.push(Scenario { name: "mixed", source, bytes, files });
    }
    ensure!(!scenarios.is_empty(), "there is no scenario `{}`", bench.args.only);
    Ok(scenarios)
}
