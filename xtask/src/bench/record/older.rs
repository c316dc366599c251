//! Results of the form that `cargo xtask` wrote before it had that of `thalweg bench`, read as if they had the newer
//! one: what is committed stays what pages are made of until it is measured anew.
//!
//! ```text
//! {"about":{"suite":"large","cpu":"AMD EPYC","cores":2,"memory_gib":23,"load":"1.94","rsync":"rsync  version 3.5.0"}}
//! {"skipped":"xrootd","why":"not there"}
//! {"scenario":"large","tool":"scp","run":1,"bytes":4294967296,"files":1,"wall_s":1.9,"unsynced_s":1.8,"cpu_s":2.9}
//! ```

use super::{CACHE, CONGESTION_CONTROL, Load, RSYNC, Results, Sample, with_told};
use crate::bench::workspace::Times;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use thalweg_lab::bench::record::{About, LOST_BY_A_SLOW_MACHINE, LeftOut, Machine};

/// A result of this form; none if it is of another.
///
/// # Errors
/// The line that is neither a run nor a tool that was left out.
pub fn parse(text: &str) -> Result<Option<Results>> {
    let mut lines = text.lines();
    let Some(about) = lines.next().and_then(about) else { return Ok(None) };
    let mut results = Results { about, ..Results::default() };
    for line in lines {
        match serde_json::from_str::<Skipped>(line) {
            Ok(Skipped { skipped, why }) => results.left_out.push(LeftOut { what: skipped, why }),
            Err(_) => {
                let run: Run = serde_json::from_str(line).with_context(|| line.to_owned())?;
                results.samples.push(run.sample());
            }
        }
    }
    Ok(Some(results))
}

/// What a first line of this form says; none if it is of another.
pub fn about(first: &str) -> Option<About> {
    let first: Value = serde_json::from_str(first).ok()?;
    let about = first.get("about")?.as_object()?;
    if about.contains_key("machine") {
        return None;
    }
    let word = |key: &str| about.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| about.get(key).and_then(Value::as_u64).unwrap_or(0);
    let machine = Machine {
        cpu: word("cpu").unwrap_or_default(),
        cores: u32::try_from(number("cores")).unwrap_or(u32::MAX),
        memory_bytes: number("memory_gib") << 30,
        kernel: word("kernel").unwrap_or_default(),
        file_system: word("file_system").unwrap_or_default(),
        hypervisor: None,
        // It is a word there.
        load: word("load").and_then(|load| load.parse().ok()).unwrap_or(0.0),
    };
    let more = [(CONGESTION_CONTROL, word("congestion_control")), (RSYNC, word("rsync"))];
    Some(About {
        suite: word("suite").unwrap_or_default(),
        date: word("date").unwrap_or_default(),
        program: "thalweg".to_owned(),
        commit: word("commit"),
        command: word("command").unwrap_or_default(),
        machine,
        more: more.into_iter().filter_map(|(name, is)| Some((name.to_owned(), is?))).collect(),
        ..About::default()
    })
}

/// A tool that did not run.
#[derive(Deserialize)]
struct Skipped {
    skipped: String,
    why: String,
}

/// One run of one tool.
#[derive(Deserialize)]
struct Run {
    scenario: String,
    #[serde(default)]
    cache: String,
    tool: String,
    run: usize,
    bytes: u64,
    files: u64,
    wall_s: f64,
    #[serde(default)]
    unsynced_s: f64,
    cpu_s: f64,
    wire: Option<Wire>,
    /// What else a suite measured.
    #[serde(default)]
    more: Value,
}

/// What an emulated path carried, in both directions together, and what that cost.
#[derive(Deserialize)]
struct Wire {
    bytes: u64,
    cpu_s: f64,
    /// Packets that it lost because the machine was too slow for it.
    trouble: u64,
}

impl Run {
    fn sample(&self) -> Sample {
        let Run { scenario, tool, run, bytes, files, .. } = self;
        let load = Load { scenario, tool, run: *run, bytes: *bytes, files: *files };
        let times = Times { wall_s: self.wall_s, unsynced_s: self.unsynced_s, cpu_s: self.cpu_s };
        let mut sample = with_told(load.took(&times), &self.more);
        if !self.cache.is_empty() {
            sample = sample.with(CACHE, self.cache.as_str().into());
        }
        if let Some(Wire { bytes, cpu_s, trouble }) = self.wire {
            sample.wire_cpu_s_per_gb = (bytes > 0).then(|| cpu_s / (bytes as f64 / 1e9));
            sample = sample.measured(LOST_BY_A_SLOW_MACHINE, trouble as f64, "1");
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cache_of, measured, scenario_of, unsynced_s};
    use super::*;
    use crate::bench::tell::{busy, busyness};

    #[test]
    fn what_was_written_before_is_read_with_all_that_it_says() {
        let text = r#"{"about":{"suite":"limit","command":"cargo xtask bench","commit":"98b5487","cpu":"AMD EPYC","cores":2,"memory_gib":23,"load":"2.28","kernel":"Linux 6.18","file_system":"ext4","congestion_control":"cubic","rsync":"rsync 3.5.0","date":"2026-11-22"}}
{"skipped":"xrootd","why":"not there"}
{"scenario":"large","cache":"warm","tool":"scp","run":2,"bytes":1000000000,"files":1,"wall_s":2.0,"unsynced_s":1.5,"cpu_s":3.0}
{"scenario":"far","tool":"thalweg","run":1,"bytes":1,"files":1,"wall_s":1.0,"cpu_s":0.0,"wire":{"bytes":3000000000,"cpu_s":1.5,"trouble":7},"more":{"short_bytes":5,"read":{"cpu_s_per_gb":0.5},"ended_s":[1.0,2.0]}}
"#;
        let results = Results::parse(text).unwrap();
        let about = &results.about;
        let (load, cores) = busyness(about);
        assert_eq!(busy(load, cores).unwrap(), "busy machine: load 2.28 before it began, on 2 cores");
        assert_eq!((about.machine.memory_bytes >> 30, about.commit.as_deref()), (23, Some("98b5487")));
        assert!(about.more[CONGESTION_CONTROL] == "cubic" && about.more[RSYNC] == "rsync 3.5.0");
        let left_out = LeftOut { what: "xrootd".into(), why: "not there".into() };
        assert_eq!(results.left_out, [left_out]);
        let (near, far) = (&results.samples[0], &results.samples[1]);
        assert_eq!((scenario_of(near), cache_of(near)), ("large", "warm"));
        assert_eq!((near.series.as_str(), near.run), ("scp", 2));
        assert_eq!((unsynced_s(near), near.cpu_s, near.is_emulated()), (1.5, Some(3.0), false));
        assert_eq!((far.wire_cpu_s_per_gb, far.is_emulated(), far.counts()), (Some(0.5), true, false));
        assert_eq!((measured(far, "short_bytes"), measured(far, "read_cpu_s_per_gb")), (5.0, 0.5));
        assert_eq!(far.distributions["ended_s"].values, [1.0, 2.0]);
        assert!(parse(&text.replace("\"tool\":\"scp\",", "")).is_err(), "a line that is neither");
    }
}
