//! Results: a file of JSON lines. First what they were measured on, then one object for each run, and one for each tool
//! that was left out, with the reason. Tables and pages are made from these files only.

use crate::bench::workspace::Times;
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
    /// Of the emulated path that it was taken over; `None` without one, and in results that are older than this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// What else a suite measures.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub more: Value,
}

impl Sample {
    /// Whether its figures count: the emulated path that it was taken over, if any, lost no packets of its own accord.
    pub fn counts(&self) -> bool {
        self.wire.is_none_or(|wire| wire.trouble == 0)
    }

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

/// What an emulated path carried, in both directions together, and what that cost this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// Headers, acknowledgements and what was sent again included.
    pub bytes: u64,
    /// CPU seconds of the path's own process: not in [`Sample::cpu_s`].
    pub cpu_s: f64,
    /// Packets that it lost because this machine was too slow for it: anything but 0 spoils the figures.
    pub trouble: u64,
}

impl Wire {
    /// From `status` of what `thalweg testbed status --json` says; none if something is missing in it.
    pub fn of_status(status: &Value) -> Option<Wire> {
        let both = |of: fn(&Value) -> Option<u64>| Some(of(&status["forward"])? + of(&status["back"])?);
        Some(Wire {
            bytes: both(|lane| lane["counters"]["bytes"].as_u64())?,
            cpu_s: status["cpu_seconds"].as_f64()?,
            trouble: both(|lane| lane["trouble"].as_u64())?,
        })
    }

    /// From then to now.
    pub fn since(&self, then: &Wire) -> Wire {
        Wire {
            bytes: self.bytes.saturating_sub(then.bytes),
            cpu_s: (self.cpu_s - then.cpu_s).max(0.0),
            trouble: self.trouble.saturating_sub(then.trouble),
        }
    }

    /// CPU seconds for 10^9 bytes that it carried; none if it carried nothing.
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s / (self.bytes as f64 / 1e9))
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
            wire: None,
            more: Value::Null,
        }
    }
}

/// Ends the name of a scenario in which every tool runs once, so that the best are found, which then compete in rounds.
pub const SEARCH: &str = ", search";

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

    /// The runs of one tool in one scenario that count: see [`Sample::counts`].
    pub fn of(&self, scenario: &str, tool: &str) -> impl Iterator<Item = &Sample> {
        let is_it = move |sample: &&Sample| sample.scenario == scenario && sample.tool == tool;
        self.samples.iter().filter(is_it).filter(|sample| sample.counts())
    }

    /// What the emulated path itself cost in these runs of one tool in one scenario, in CPU seconds for 10^9 bytes
    /// carried; empty where nobody noted it.
    pub fn wire_cpu_s_per_gb(&self, scenario: &str, tool: &str) -> Series {
        let of = |sample: &Sample| Some((sample.run, sample.wire?.cpu_s_per_gb()?));
        self.of(scenario, tool).filter_map(of).collect()
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
        "commit": commit(),
        "date": says("date", &["-u", "+%F"]),
    }}))
}

/// The commit that is measured, and whether anything but results was changed since.
fn commit() -> String {
    let asked = |words: &[&str]| first_line(tools::says(&mut tools::git(words)));
    let changed = asked(&["status", "--porcelain", "--", ":/", ":(top,exclude)bench/results"]);
    asked(&["describe", "--always"]) + if changed.is_empty() { "" } else { "-dirty" }
}

/// The first line of what a program says; nothing, if it is not there.
fn says(program: &str, words: &[&str]) -> String {
    first_line(tools::says(Command::new(program).args(words).current_dir(tools::root())))
}

fn first_line(said: Result<String>) -> String {
    said.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
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
        let found = Sample { scenario: format!("large{SEARCH}"), ..sample.clone() };
        let again = Sample { run: 3, ..sample.clone() };
        let searched = Results { samples: vec![found, sample, again], ..Results::default() };
        assert_eq!(searched.runs(), 2, "a search is no round");
        assert!(Results::parse("").is_err());
        assert!(Results::parse("{}\n{\"wall_s\": 1}\n").is_err());
    }

    /// As `thalweg testbed status --json` has it (`crates/lab/src/testbed/daemon.rs`).
    #[test]
    fn what_a_path_cost_is_told_from_what_it_carried_meanwhile_and_an_older_result_has_none() {
        use thalweg_lab::testbed::daemon::LaneStatus;
        let status = |bytes: u64, cpu_seconds: f64| {
            let lane = |bytes: u64, trouble: u64| {
                let counters = thalweg_lab::testbed::wire::Counters { bytes, ..Default::default() };
                LaneStatus { counters, own_ns: 0, held: 0, held_max: 0, trouble }
            };
            json!({"cpu_seconds": cpu_seconds, "forward": lane(bytes, 2), "back": lane(1_000_000_000, 1)})
        };
        let before = Wire::of_status(&status(0, 1.0)).unwrap();
        let after = Wire::of_status(&status(3_000_000_000, 2.5)).unwrap();
        assert_eq!((before.bytes, before.trouble), (1_000_000_000, 3));
        let wire = after.since(&before);
        assert_eq!((wire.cpu_s_per_gb(), wire.trouble), (Some(0.5), 0));
        assert_eq!(before.since(&before).cpu_s_per_gb(), None);
        assert_eq!(Wire::of_status(&json!({"cpu_seconds": 1.0})), None);

        let load = Load { scenario: "far", tool: "thalweg", run: 1, bytes: 1, files: 1 };
        let plain = load.took(&Times::default());
        assert!(!serde_json::to_string(&plain).unwrap().contains("wire"));
        let over = Sample { run: 2, wire: Some(wire), ..plain.clone() };
        let lines = [plain, over].map(|sample| serde_json::to_string(&sample).unwrap());
        let results = Results::parse(&format!("{{}}\n{}\n", lines.join("\n"))).unwrap();
        assert_eq!(results.wire_cpu_s_per_gb("far", "thalweg"), Series::from([(2, 0.5)]));
    }
}
