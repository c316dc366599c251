//! Results, in the form of `thalweg bench` (`crates/lab/src/bench/record`): what they were measured on, a sample for
//! each run, and each tool that was left out, with the reason. The series of a sample is its tool. Tables and pages are
//! made from these files only.

use crate::bench::workspace::Times;
use crate::{checkout, command};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_lab::bench::machine;
use thalweg_lab::bench::record::{self, About, LeftOut, Line, Quantity};
use thalweg_lab::bench::statistics::Series;

pub use thalweg_lab::bench::record::Sample;

mod older;

/// The result file called `name`: all that lie there are committed, and shown.
pub fn path(name: &str) -> PathBuf {
    checkout::root().join("bench/results").join(format!("{name}.jsonl"))
}

/// Where a trial of this name is written, which is neither.
pub fn path_of_trial(name: &str) -> PathBuf {
    checkout::root().join("target/bench").join(format!("{name}.jsonl"))
}

/// What was copied, before it is known how long it took.
pub struct Load<'a> {
    pub scenario: &'a str,
    pub tool: &'a str,
    /// Round; the first counted one is 1.
    pub run: usize,
    pub bytes: u64,
    pub files: u64,
}

impl Load<'_> {
    /// With the times that it took.
    pub fn took(&self, times: &Times) -> Sample {
        let sample = Sample {
            series: self.tool.to_owned(),
            run: u32::try_from(self.run).unwrap_or(u32::MAX),
            bytes: self.bytes,
            files: self.files,
            wall_s: times.wall_s,
            cpu_s: Some(times.cpu_s),
            ..Sample::default()
        };
        sample.with(SCENARIO, self.scenario.into()).measured(UNSYNCED, times.unsynced_s, "s")
    }
}

/// Parameters: what was copied; where a suite has both, whether that was `warm` or `cold`; and over which path, in
/// words, where not all samples of a suite take the one that the result names.
const SCENARIO: &str = "scenario";
pub const CACHE: &str = "cache";
pub const PATH: &str = "path";

/// Measured: seconds until the tool had ended, before the final sync (which is in here for a tool that syncs by
/// itself).
const UNSYNCED: &str = "unsynced_s";

/// Ends the name of a scenario in which the best tools are searched, which then compete in rounds: those that were not
/// among the best ran less often, some once.
pub const SEARCH: &str = ", search";

/// What was copied.
pub fn scenario_of(sample: &Sample) -> &str {
    word(sample, SCENARIO)
}

/// `warm` or `cold`; nothing where a suite has not both.
pub fn cache_of(sample: &Sample) -> &str {
    word(sample, CACHE)
}

fn word<'a>(sample: &'a Sample, name: &str) -> &'a str {
    sample.parameters.get(name).and_then(Quantity::word).unwrap_or_default()
}

/// What a suite measured besides, by its name; not a number where it did not.
pub fn measured(sample: &Sample, name: &str) -> f64 {
    sample.measured.get(name).and_then(Quantity::value).unwrap_or(f64::NAN)
}

/// Seconds until the tool had ended, before the final sync.
pub fn unsynced_s(sample: &Sample) -> f64 {
    measured(sample, UNSYNCED)
}

/// Payload, in Gbit/s.
pub fn gbit_per_s(sample: &Sample) -> f64 {
    sample.bytes as f64 * 8.0 / 1e9 / sample.wall_s
}

pub fn files_per_s(sample: &Sample) -> f64 {
    sample.files as f64 / sample.wall_s
}

/// CPU seconds of all processes of both sides for 10^9 bytes of payload.
pub fn cpu_s_per_gb(sample: &Sample) -> f64 {
    sample.cpu_s.unwrap_or(f64::NAN) / (sample.bytes as f64 / 1e9)
}

/// The same for a file, in microseconds.
pub fn cpu_us_per_file(sample: &Sample) -> f64 {
    sample.cpu_s.unwrap_or(f64::NAN) * 1e6 / sample.files as f64
}

/// The sample with what a program told of it in JSON: numbers, lists of numbers, and objects of both, which have the
/// name of the object before their own.
pub fn with_told(sample: Sample, told: &Value) -> Sample {
    with_named(sample, "", told)
}

fn with_named(sample: Sample, name: &str, told: &Value) -> Sample {
    match told {
        Value::Number(number) => sample.measured(name, number.as_f64().unwrap_or(f64::NAN), unit_of(name)),
        Value::Array(values) => {
            sample.distributed(name, unit_of(name), values.iter().filter_map(Value::as_f64).collect())
        }
        Value::Object(parts) => parts.iter().fold(sample, |sample, (part, told)| match name {
            "" => with_named(sample, part, told),
            _ => with_named(sample, &format!("{name}_{part}"), told),
        }),
        _ => sample,
    }
}

/// By the end of its name.
fn unit_of(name: &str) -> &'static str {
    // `GB/s` would become bits a second when it is read.
    let units = [("gb_per_s", "10^9 B/s"), ("cpu_s_per_gb", "CPU-s/GB"), ("_bytes", "B"), ("_s", "s")];
    units.into_iter().find(|(end, _)| name.ends_with(end)).map_or("1", |(_, unit)| unit)
}

/// A result file in the making: below a hidden name until it is whole, so that a run that fails leaves the former one.
pub struct Log {
    log: record::Log,
    path: PathBuf,
}

impl Log {
    /// Begins it with what is measured on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(path: PathBuf, about: About) -> Result<Log> {
        fs::create_dir_all(path.parent().context("a result file without a directory")?)?;
        let log = record::Log::begin(&path, about).with_context(|| path.display().to_string())?;
        Ok(Log { log, path })
    }

    /// Adds a run.
    ///
    /// # Errors
    /// If it cannot be written, or its figures cannot have been measured.
    pub fn sample(&mut self, sample: &Sample) -> Result<()> {
        Ok(self.log.sample(sample.clone())?)
    }

    /// Adds a tool that does not run, and says so.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn left_out(&mut self, tool: &str, why: &str) -> Result<()> {
        eprintln!("left out: {tool}: {why}");
        // What is committed is not to tell where somebody's checkout is.
        Ok(self.log.left_out(tool, &why.replace(&checkout::root().display().to_string(), "."))?)
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn end(self) -> Result<PathBuf> {
        let ended = self.log.end().map_err(|(error, _)| error);
        ended.with_context(|| self.path.display().to_string())?;
        Ok(self.path)
    }
}

/// A result file, read.
#[derive(Default)]
pub struct Results {
    pub about: About,
    pub samples: Vec<Sample>,
    pub left_out: Vec<LeftOut>,
}

impl Results {
    /// Reads one; none if there is none.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn read(name: &str) -> Result<Option<Results>> {
        let path = path(name);
        if path.exists() { Self::read_at(&path).map(Some) } else { Ok(None) }
    }

    /// Of this file.
    ///
    /// # Errors
    /// If there is none, or it holds something else.
    pub fn read_at(path: &Path) -> Result<Results> {
        let text = fs::read_to_string(path)?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Of such a text.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Results> {
        if let Some(results) = older::parse(text)? {
            return Ok(results);
        }
        let record::Results { about, samples, left_out, .. } = record::Results::parse(text.as_bytes())?;
        Ok(Results { about, samples, left_out })
    }

    /// A figure of one tool in one scenario, by round.
    pub fn series(&self, scenario: &str, tool: &str, figure: impl Fn(&Sample) -> f64) -> Series {
        self.of(scenario, tool).map(|sample| (sample.run as usize, figure(sample))).collect()
    }

    /// The runs of one tool in one scenario that count: see [`Sample::counts`].
    pub fn of(&self, scenario: &str, tool: &str) -> impl Iterator<Item = &Sample> {
        let is_it = move |sample: &&Sample| scenario_of(sample) == scenario && sample.series == tool;
        self.samples.iter().filter(is_it).filter(|sample| sample.counts())
    }

    /// Tools that ran in a scenario, in the order in which they first did.
    pub fn tools(&self, scenario: &str) -> Vec<&str> {
        let mut tools: Vec<&str> = Vec::new();
        for sample in self.samples.iter().filter(|sample| scenario_of(sample) == scenario) {
            if !tools.contains(&sample.series.as_str()) {
                tools.push(&sample.series);
            }
        }
        tools
    }

    /// Scenarios, in the order in which they first ran.
    pub fn scenarios(&self) -> Vec<&str> {
        let mut scenarios: Vec<&str> = Vec::new();
        for scenario in self.samples.iter().map(scenario_of) {
            if !scenarios.contains(&scenario) {
                scenarios.push(scenario);
            }
        }
        scenarios
    }

    /// Counted runs of each tool: the fewest, but for searches.
    pub fn runs(&self) -> usize {
        let mut fewest = usize::MAX;
        for scenario in self.scenarios().into_iter().filter(|scenario| !scenario.ends_with(SEARCH)) {
            for tool in self.tools(scenario) {
                fewest = fewest.min(self.of(scenario, tool).count());
            }
        }
        if fewest == usize::MAX { 0 } else { fewest }
    }
}

/// What the first line of a result says.
///
/// # Errors
/// If it is none.
pub fn about_of(first: &str) -> Result<About> {
    if let Some(about) = older::about(first) {
        return Ok(about);
    }
    match serde_json::from_str::<Line>(first)? {
        Line::About(about) => Ok(*about),
        _ => bail!("the first line must be `about`"),
    }
}

/// Further things that are told of what was measured.
pub const CONGESTION_CONTROL: &str = "congestion control";
pub const RSYNC: &str = "rsync";

/// What it is measured on, beside what, and built from which commit.
///
/// # Errors
/// If the system does not tell.
pub fn about(suite: &str, command: &str) -> Result<About> {
    let congestion_control = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let more =
        [(CONGESTION_CONTROL, congestion_control.trim().to_owned()), (RSYNC, says("rsync", &["--version"]))];
    Ok(About {
        suite: suite.to_owned(),
        date: says("date", &["-u", "+%FT%TZ"]),
        program: format!("thalweg {}", env!("CARGO_PKG_VERSION")),
        commit: Some(commit()),
        command: command.to_owned(),
        machine: machine::here(&checkout::root().join("target")),
        more: more.into_iter().map(|(name, is)| (name.to_owned(), is)).collect(),
        ..About::default()
    })
}

/// The commit that is measured, and whether anything but results was changed since.
fn commit() -> String {
    let asked = |words: &[&str]| first_line(command::says(&mut checkout::git(words)));
    let changed = asked(&["status", "--porcelain", "--", ":/", ":(top,exclude)bench/results"]);
    asked(&["describe", "--always"]) + if changed.is_empty() { "" } else { "-dirty" }
}

/// The first line of what a program says; nothing, if it is not there.
fn says(program: &str, words: &[&str]) -> String {
    first_line(command::says(Command::new(program).args(words).current_dir(checkout::root())))
}

fn first_line(said: Result<String>) -> String {
    said.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again() {
        let load = Load { scenario: "large", tool: "scp", run: 2, bytes: 1_000_000_000, files: 1 };
        let sample = load.took(&Times { wall_s: 2.0, unsynced_s: 1.5, cpu_s: 3.0 });
        let sample = with_told(sample, &json!({"read": {"gb_per_s": 9.5}, "ended_s": [1.0, 2.0]}));
        let left_out = LeftOut { what: "xrootd".into(), why: "not there".into() };
        let about = About { suite: "large".into(), ..About::default() };
        let lines = [
            Line::About(about.into()),
            Line::LeftOut(left_out),
            Line::Sample(sample.clone().with(CACHE, "warm".into())),
        ];
        let text = lines.map(|line| serde_json::to_string(&line).unwrap()).join("\n");
        let results = Results::parse(&text).unwrap();
        assert_eq!(results.about.suite, "large");
        assert_eq!(about_of(text.lines().next().unwrap()).unwrap(), results.about);
        assert_eq!(results.left_out[0].why, "not there");
        assert_eq!(results.series("large", "scp", gbit_per_s), Series::from([(2, 4.0)]));
        assert_eq!(results.series("large", "scp", cpu_s_per_gb), Series::from([(2, 3.0)]));
        assert_eq!(results.series("large", "scp", unsynced_s), Series::from([(2, 1.5)]));
        let told = |sample: &Sample| measured(sample, "read_gb_per_s");
        assert_eq!(results.series("large", "scp", told), Series::from([(2, 9.5)]), "as it was told");
        assert_eq!(results.samples[0].distributions["ended_s"].values, [1.0, 2.0]);
        assert_eq!(cache_of(&results.samples[0]), "warm");
        assert_eq!(
            (results.tools("large"), results.scenarios(), results.runs()),
            (vec!["scp"], vec!["large"], 1)
        );
        let found = sample.clone().with(SCENARIO, format!("large{SEARCH}").as_str().into());
        let again = Sample { run: 3, ..sample.clone() };
        let searched = Results { samples: vec![found, sample, again], ..Results::default() };
        assert_eq!(searched.runs(), 2, "a search is no round");
        assert!(Results::parse("").is_err());
        assert!(Results::parse("{}\n{\"wall_s\": 1}\n").is_err());
        assert!(about_of(text.lines().last().unwrap()).is_err() && about_of("{}").is_err());
    }
}
