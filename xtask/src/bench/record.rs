//! Results: a file of JSON lines. First what they were measured on, then one object for each run, and one for each tool
//! that was left out, with the reason. Tables and pages are made from these files only.

use crate::bench::yard::Times;
use crate::tools;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use thalweg_lab::bench::statistics::Series;

/// The result file called `name`.
pub fn path(name: &str) -> PathBuf {
    tools::root().join("bench/results").join(format!("{name}.jsonl"))
}

/// One run of one tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub scenario: String,
    /// `warm` or `cold`, where a suite has both.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cache: String,
    pub tool: String,
    /// Round; the first counted one is 1.
    pub run: usize,
    pub bytes: u64,
    pub files: u64,
    /// Seconds, the final sync included.
    pub wall_s: f64,
    /// Seconds until the tool had ended, before the final sync (which is in here for a tool that syncs by itself).
    #[serde(default)]
    pub unsynced_s: f64,
    /// CPU seconds of all processes of both sides.
    pub cpu_s: f64,
    /// What else a suite measures.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub more: Value,
}

impl Sample {
    /// Payload, in Gbit/s.
    pub fn gbit_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e9 / self.wall_s
    }

    pub fn files_per_s(&self) -> f64 {
        self.files as f64 / self.wall_s
    }

    /// CPU seconds for 10^9 bytes of payload.
    pub fn cpu_s_per_gb(&self) -> f64 {
        self.cpu_s / (self.bytes as f64 / 1e9)
    }
}

/// What was copied, before it is known how long it took.
pub struct Load<'a> {
    pub scenario: &'a str,
    pub tool: &'a str,
    pub run: usize,
    pub bytes: u64,
    pub files: u64,
}

impl Load<'_> {
    /// With the times that it took.
    pub fn took(&self, times: &Times) -> Sample {
        Sample {
            scenario: self.scenario.to_owned(),
            cache: String::new(),
            tool: self.tool.to_owned(),
            run: self.run,
            bytes: self.bytes,
            files: self.files,
            wall_s: times.wall_s,
            unsynced_s: times.unsynced_s,
            cpu_s: times.cpu_s,
            more: Value::Null,
        }
    }
}

/// A tool that did not run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Skipped {
    pub skipped: String,
    pub why: String,
}

/// A result file in the making: below a hidden name until it is whole, so that a run that fails leaves the former one.
pub struct Log {
    file: fs::File,
    hidden: PathBuf,
    path: PathBuf,
}

impl Log {
    /// Begins it with what is measured on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(name: &str, about: &Value) -> Result<Log> {
        let path = path(name);
        let hidden = path.with_file_name(format!(".{name}.jsonl"));
        fs::create_dir_all(path.parent().context("bench/results")?)?;
        let mut file = fs::File::create(&hidden)?;
        writeln!(file, "{about}")?;
        Ok(Log { file, hidden, path })
    }

    /// Adds a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn sample(&mut self, sample: &Sample) -> Result<()> {
        Ok(writeln!(self.file, "{}", serde_json::to_string(sample)?)?)
    }

    /// Adds a tool that does not run, and says so.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn skipped(&mut self, tool: &str, why: &str) -> Result<()> {
        eprintln!("left out: {tool}: {why}");
        // What is committed is not to tell where somebody's checkout is.
        let why = why.replace(&tools::root().display().to_string(), ".");
        let line = Skipped { skipped: tool.to_owned(), why };
        Ok(writeln!(self.file, "{}", serde_json::to_string(&line)?)?)
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn end(self) -> Result<PathBuf> {
        fs::rename(&self.hidden, &self.path)?;
        Ok(self.path)
    }
}

/// A result file, read.
#[derive(Default)]
pub struct Results {
    /// The file itself.
    pub path: PathBuf,
    pub about: Value,
    pub samples: Vec<Sample>,
    pub skipped: Vec<Skipped>,
}

impl Results {
    /// Reads one; none if there is none.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn read(name: &str) -> Result<Option<Results>> {
        let path = path(name);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        let results = Self::parse(&text).with_context(|| path.display().to_string())?;
        Ok(Some(Results { path, ..results }))
    }

    fn parse(text: &str) -> Result<Results> {
        let mut lines = text.lines();
        let mut about: Value = serde_json::from_str(lines.next().context("an empty result file")?)?;
        let mut results = Results { about: about["about"].take(), ..Results::default() };
        for line in lines {
            match serde_json::from_str(line) {
                Ok(skipped) => results.skipped.push(skipped),
                Err(_) => results.samples.push(serde_json::from_str(line).with_context(|| line.to_owned())?),
            }
        }
        Ok(results)
    }

    /// A figure of one tool in one scenario, by round.
    pub fn series(&self, scenario: &str, tool: &str, figure: impl Fn(&Sample) -> f64) -> Series {
        self.of(scenario, tool).map(|sample| (sample.run, figure(sample))).collect()
    }

    /// The runs of one tool in one scenario.
    pub fn of(&self, scenario: &str, tool: &str) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.scenario == scenario && sample.tool == tool)
    }

    /// Tools that ran in a scenario, in the order in which they first did.
    pub fn tools(&self, scenario: &str) -> Vec<&str> {
        let mut tools: Vec<&str> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.scenario == scenario) {
            if !tools.contains(&sample.tool.as_str()) {
                tools.push(&sample.tool);
            }
        }
        tools
    }

    /// Scenarios, in the order in which they first ran.
    pub fn scenarios(&self) -> Vec<&str> {
        let mut scenarios: Vec<&str> = Vec::new();
        for sample in &self.samples {
            if !scenarios.contains(&sample.scenario.as_str()) {
                scenarios.push(&sample.scenario);
            }
        }
        scenarios
    }

    /// Counted runs of each tool: the fewest.
    pub fn runs(&self) -> usize {
        let mut fewest = usize::MAX;
        for scenario in self.scenarios() {
            for tool in self.tools(scenario) {
                fewest = fewest.min(self.of(scenario, tool).count());
            }
        }
        if fewest == usize::MAX { 0 } else { fewest }
    }
}

/// What it is measured on. `load` is what the machine was busy with before it began: the mean of one minute.
///
/// # Errors
/// If the system does not tell.
pub fn about(suite: &str, command: &str) -> Result<Value> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kib: u64 = kib.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    let target = tools::root().join("target").display().to_string();
    Ok(json!({"about": {
        "suite": suite,
        "command": command,
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism()?.get(),
        "memory_gib": kib >> 20,
        "load": load.split(' ').next().unwrap_or_default(),
        "kernel": says("uname", &["-sr"]),
        "file_system": says("findmnt", &["-n", "-o", "FSTYPE", "-T", &target]),
        "congestion_control": fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?.trim(),
        "rsync": says("rsync", &["--version"]),
        "commit": says("git", &["describe", "--always", "--dirty"]),
        "date": says("date", &["-u", "+%F"]),
    }}))
}

/// The first line of what a program says; nothing, if it is not there.
fn says(program: &str, words: &[&str]) -> String {
    let says = tools::says(Command::new(program).args(words).current_dir(tools::root()));
    says.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let load = Load { scenario: "large", tool: "scp", run: 2, bytes: 1_000_000_000, files: 1 };
        let sample = load.took(&Times { wall_s: 2.0, unsynced_s: 1.5, cpu_s: 3.0 });
        let skipped = Skipped { skipped: "xrootd".into(), why: "not there".into() };
        let text = format!(
            "{}\n{}\n{}\n",
            json!({"about": {"suite": "large"}}),
            serde_json::to_string(&skipped).unwrap(),
            serde_json::to_string(&sample).unwrap(),
        );
        let results = Results::parse(&text).unwrap();
        assert_eq!(results.about["suite"], "large");
        assert_eq!(results.skipped[0].why, "not there");
        assert_eq!(results.series("large", "scp", Sample::gbit_per_s), Series::from([(2, 4.0)]));
        assert_eq!(results.series("large", "scp", Sample::cpu_s_per_gb), Series::from([(2, 3.0)]));
        assert_eq!(
            (results.tools("large"), results.scenarios(), results.runs()),
            (vec!["scp"], vec!["large"], 1)
        );
        assert!(Results::parse("").is_err());
        assert!(Results::parse("{}\n{\"wall_s\": 1}\n").is_err());
    }
}
