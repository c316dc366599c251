//! Copies by several tools, interleaved, and how they are told.

use crate::bench::Bench;
use crate::bench::data;
use crate::bench::peers::{self, Job, Servers, TOOLS, Tool};
use crate::bench::record::{self, Load, Results, Sample};
use crate::bench::tell;
use crate::bench::workspace;
use crate::{cargo, trees};
use anyhow::{Result, ensure};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_lab::bench::statistics::Series;

/// What is copied.
pub struct Scenario {
    pub name: String,
    pub source: PathBuf,
    pub bytes: u64,
    pub files: u64,
    /// Bytes of each file, if there are many small ones that a bare loop is to make as well.
    pub small_bytes: Option<u64>,
    /// What tools copy instead that take so long for a file that all of them would take minutes.
    pub few: Option<Few>,
}

/// Fewer files of the same size: what a tool takes for one is the same, but for its start.
pub struct Few {
    pub source: PathBuf,
    pub bytes: u64,
    pub files: u64,
    /// Who copies these.
    pub tools: &'static [&'static str],
}

impl Scenario {
    /// Where this tool copies from, how many bytes, and in how many files.
    fn load_of(&self, tool: &str) -> (&Path, u64, u64) {
        match &self.few {
            Some(few) if few.tools.contains(&tool) => (few.source.as_path(), few.bytes, few.files),
            _ => (self.source.as_path(), self.bytes, self.files),
        }
    }
}

/// The name under which the bare local loop stands among the tools.
pub const BARE: &str = "bare loop";

enum Runner {
    Tool(&'static Tool),
    /// `primitives small`
    Bare(PathBuf),
}

/// How a result says that a tool did not run in a scenario.
pub fn left_out((scenario, tool): (&str, &str)) -> String {
    format!("{tool} ({scenario})")
}

/// The tools of these names that `--tool` lets through.
///
/// # Errors
/// If there is none of such a name.
pub fn chosen(bench: &Bench<'_>, names: &[&str]) -> Result<Vec<&'static Tool>> {
    let mut tools = names.iter().map(|name| peers::tool(name)).collect::<Result<Vec<_>>>()?;
    tools.retain(|tool| tool.is_ours() || tool.name.contains(&bench.args.tool));
    Ok(tools)
}

/// All rounds of a scenario, into a directory `export` that is on the file system to be measured. A peer that cannot
/// run or does not copy right is left out from then on, and the result says so.
///
/// # Errors
/// If ours fails.
pub fn compete(
    bench: &mut Bench<'_>,
    export: &Path,
    scenario: &Scenario,
    tools: &[&'static Tool],
) -> Result<()> {
    let runs = bench.runs();
    let (servers, missing) = Servers::start(&bench.workspace, export, tools)?;
    let mut left_out = HashSet::new();
    for (tool, why) in missing {
        bench.log.left_out(&self::left_out((scenario.name.as_str(), tool.name)), &why)?;
        left_out.insert(tool.name);
    }
    let mut runners: Vec<Runner> = tools.iter().map(|tool| Runner::Tool(tool)).collect();
    if scenario.small_bytes.is_some() {
        runners.push(Runner::Bare(cargo::build_primitives()?));
    }
    let log = &mut bench.log;
    workspace::rounds(runs, runners, |run, runner| {
        let name = match runner {
            Runner::Tool(tool) => tool.name,
            Runner::Bare(_) => BARE,
        };
        if left_out.contains(name) {
            return Ok(());
        }
        let destination = export.join(format!("{run}-{}", name.replace(' ', "-")));
        let (source, bytes, files) = scenario.load_of(name);
        let has_many_files = scenario.small_bytes.is_some();
        let job = Job { source, destination: &destination, has_many_files };
        data::warm(source)?;
        let copied = match runner {
            Runner::Tool(tool) => tool.command(&servers, &job).and_then(|command| {
                let times = bench.workspace.time(command, Some(&destination))?;
                tool.compare(&job)?;
                Ok(times)
            }),
            Runner::Bare(primitives) => {
                let times = bench.workspace.time(bare(primitives, scenario, &destination), None)?;
                let made = trees::files_below(&destination)?.len();
                ensure!(made as u64 == scenario.files, "the bare loop made {made} files");
                Ok(times)
            }
        };
        let times = match (copied, runner) {
            (Ok(times), _) => times,
            (Err(error), Runner::Tool(tool)) if !tool.is_ours() => {
                left_out.insert(tool.name);
                let what = self::left_out((scenario.name.as_str(), tool.name));
                return log.left_out(&what, &format!("{error:#}"));
            }
            (Err(error), _) => return Err(error),
        };
        data::free(&destination)?;
        eprintln!("{} {name} {run}: {:.2} s", scenario.name, times.wall_s);
        if run == 0 {
            return Ok(());
        }
        log.sample(&Load { scenario: &scenario.name, tool: name, run, bytes, files }.took(&times))
    })
}

fn bare(primitives: &Path, scenario: &Scenario, destination: &Path) -> Command {
    let mut command = Command::new(primitives);
    command.arg("small").arg(destination).arg(scenario.files.to_string());
    command.arg(scenario.small_bytes.unwrap_or_default().to_string());
    command
}

/// Seconds for what all tools of a scenario copied: less of it by some stands for all of it.
pub fn seconds(results: &Results, scenario: &str, tool: &str) -> Series {
    let most = results.samples.iter().filter(|sample| record::scenario_of(sample) == scenario);
    let most = most.map(|sample| sample.bytes).max().unwrap_or(0);
    results.series(scenario, tool, |sample| sample.wall_s * most as f64 / sample.bytes as f64)
}

/// A table of one scenario: what each tool takes, and how many times as long as `ours`.
///
/// # Errors
/// None but those of formatting.
pub fn table(results: &Results, scenario: &str, ours: &str) -> Result<String> {
    let first = results.samples.iter().find(|sample| record::scenario_of(sample) == scenario);
    let is_small = first.is_some_and(|sample| sample.files > 1);
    let mut out = String::new();
    let rate = if is_small { "files/s" } else { "Gbit/s" };
    let cpu = if is_small { "CPU-µs/file" } else { "CPU-s/GB" };
    writeln!(
        out,
        "| tool | encrypts | verifies | s with sync | max/min | s before sync | {rate} | {cpu} | time against {ours} |\n\
         |---|---|---|---|---|---|---|---|---|"
    )?;
    let most = results.samples.iter().filter(|sample| record::scenario_of(sample) == scenario);
    let most = most.map(|sample| sample.files).max().unwrap_or(0);
    let mut notes = String::new();
    let mut tools = results.tools(scenario);
    tools.sort_by_key(|tool| TOOLS.iter().position(|known| known.name == *tool));
    for name in tools {
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        let (encrypts, verifies) = tool.map_or(("–", "–"), |tool| (tool.encrypts, tool.verifies));
        let figures = |figure: fn(&Sample) -> f64| tell::median_of(&results.series(scenario, name, figure));
        let (rate, cpu) = match is_small {
            true => (
                format!("{:.0}", figures(record::files_per_s)),
                format!("{:.1}", figures(record::cpu_us_per_file)),
            ),
            false => (
                format!("{:.2}", figures(record::gbit_per_s)),
                format!("{:.3}", figures(record::cpu_s_per_gb)),
            ),
        };
        let against = match name == ours {
            true => "1".to_owned(),
            false => tell::ratio(&seconds(results, scenario, name), &seconds(results, scenario, ours)),
        };
        let wall = results.series(scenario, name, |sample| sample.wall_s);
        writeln!(
            out,
            "| {name} | {encrypts} | {verifies} | {} | {:.2} | {:.2} | {rate} | {cpu} | {against} |",
            tell::with_interval(&wall),
            tell::spread_of(&wall),
            figures(record::unsynced_s),
        )?;
        if let Some(few) = results.of(scenario, name).next().filter(|sample| sample.files < most) {
            write!(
                notes,
                "\n{name} copied {} of these files, because it takes long for each: its seconds are of those, and its time is \
                 compared by the file.\n",
                few.files
            )?;
        }
    }
    Ok(out + &notes)
}
