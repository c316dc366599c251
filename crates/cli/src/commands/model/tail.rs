//! Tails of measured times, one for each case of a file: what went at another load, or began in another way, is another
//! distribution, and all of them together are the tail of nothing.

use super::{bad_line, failure_about, lines, of_bench, read_text};
use crate::json;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use thalweg_cli::args::model::CaseArgs;
use thalweg_lab::bench::record::{Quantity, Sample};
use thalweg_lab::bench::table;
use thalweg_mover::failure::Result;
use thalweg_mover::model::score;
use thalweg_wire::path::Escaped;

/// Loads this near to each other are the same: they are named with two digits, and what is named can be typed.
const LOADS_APART: f64 = 0.0051;

/// Series that are named where one is to be chosen, and loads of each.
const NAMED_MAX: usize = 16;

/// The tail of what was measured in one way.
pub struct Case {
    /// Of a result file of `thalweg bench`.
    pub series: Option<String>,
    /// What was set, likewise.
    pub parameters: BTreeMap<String, Quantity>,
    /// Of all its times.
    pub tail: score::Tail,
}

impl Case {
    /// Series and parameters, of a result file, for a terminal.
    pub fn words(&self) -> Option<String> {
        let series = self.series.clone()?;
        let parameters = self.parameters.clone();
        let set = table::parameters(&Sample { parameters, ..Sample::default() });
        let words = if set.is_empty() { series } else { format!("{series}: {set}") };
        Some(shown(&words))
    }

    fn load(&self) -> Option<f64> {
        self.parameters.get("load")?.value()
    }

    fn is(&self, wanted: &CaseArgs) -> bool {
        let is_near = |load: f64| self.load().is_some_and(|own| (own - load).abs() < LOADS_APART);
        wanted.series.as_ref().is_none_or(|series| self.series.as_ref() == Some(series))
            && wanted.load.is_none_or(is_near)
    }
}

/// Reads times and gives the tail of each case that is `wanted`. Of a result file of `thalweg bench` they are its
/// `transfer_time`s, or how long each sample took; all runs of a case are together, but those that are void or failed.
/// Other times are of one case.
///
/// # Errors
/// `Usage` with the line that makes no sense, if there is no time, or none of what is wanted; what the kernel says.
pub fn read(file: &Path, wanted: &CaseArgs) -> Result<Vec<Case>> {
    let mut all: BTreeMap<String, (Option<Sample>, Vec<f64>)> = BTreeMap::new();
    for (number, line) in lines(&read_text(file)?) {
        let value: Value = serde_json::from_str(line).map_err(|error| bad_line(file, number, &error))?;
        if let Some(sample) = of_bench(&value, file, number)? {
            if !sample.counts() {
                continue;
            }
            let key = format!("{}\n{}", sample.series, table::parameters(&sample));
            let (_, times) = all.entry(key).or_insert_with(|| (Some(sample.clone()), Vec::new()));
            match sample.distributions.get("transfer_time") {
                Some(distribution) => times.extend(&distribution.values),
                None => times.push(sample.wall_s),
            }
            continue;
        }
        // Other lines of a result file. A time may have such keys as well: when it ended, for instance.
        let has_one_key = value.as_object().is_some_and(|line| line.len() == 1);
        if has_one_key && ["about", "left_out", "end"].iter().any(|key| value.get(key).is_some()) {
            continue;
        }
        let seconds =
            value.as_f64().or_else(|| value.get("seconds")?.as_f64()).filter(|&seconds| seconds >= 0.0);
        let seconds = seconds.ok_or_else(|| bad_line(file, number, &"is no time in seconds"))?;
        all.entry(String::new()).or_default().1.push(seconds);
    }
    if all.is_empty() {
        all.insert(String::new(), (None, Vec::new()));
    }
    let mut cases = Vec::with_capacity(all.len());
    for (_, (sample, times)) in all {
        let tail = score::tail(&times).map_err(|error| failure_about(file, &error))?;
        let (series, parameters) = sample.map(|sample| (sample.series, sample.parameters)).unzip();
        cases.push(Case { series, parameters: parameters.unwrap_or_default(), tail });
    }
    // By the number: as words 0.96 would be behind 0.128.
    let load = |case: &Case| case.load().unwrap_or(0.0);
    cases.sort_by(|a, b| a.series.cmp(&b.series).then(load(a).total_cmp(&load(b))));
    let (chosen, others): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| case.is(wanted));
    match chosen.is_empty() {
        false => Ok(chosen),
        true => {
            let why = format!("holds no such series at such a load, but {}", choices(&others));
            Err(failure_about(file, &why))
        }
    }
}

/// The only one that is wanted.
///
/// # Errors
/// As [`read`]; `Usage` with the choices if there are several.
pub fn read_one(file: &Path, wanted: &CaseArgs) -> Result<score::Tail> {
    let cases = read(file, wanted)?;
    match cases.as_slice() {
        [case] => Ok(case.tail),
        several => {
            let why = format!(
                "holds {} cases, each with a tail of its own: choose one with --series and --load, of {}",
                several.len(),
                choices(several)
            );
            Err(failure_about(file, &why))
        }
    }
}

/// Series with their loads, as they are to be typed.
fn choices(cases: &[Case]) -> String {
    let mut out = String::new();
    let mut series: Vec<Option<&String>> = cases.iter().map(|case| case.series.as_ref()).collect();
    series.dedup();
    for (at, name) in series.iter().take(NAMED_MAX).enumerate() {
        let of = || cases.iter().filter(|case| case.series.as_ref() == *name);
        let mut loads: Vec<String> = of().filter_map(Case::load).map(|load| format!("{load:.2}")).collect();
        loads.dedup();
        let more = if loads.len() > NAMED_MAX { ", …" } else { "" };
        loads.truncate(NAMED_MAX);
        let name =
            name.map_or_else(|| "times without a series".to_owned(), |name| format!("`{}`", shown(name)));
        let loads = match loads.is_empty() {
            // What tells them apart has no option.
            true => format!(" ({} of it: put one into a file of its own)", of().count()),
            false => format!(" at {}{more}", loads.join(", ")),
        };
        // Writing to a string does not fail.
        let _ = write!(out, "{}{name}{loads}", if at == 0 { "" } else { "; " });
    }
    if series.len() > NAMED_MAX {
        let _ = write!(out, "; and {} more", series.len() - NAMED_MAX);
    }
    out
}

fn shown(text: &str) -> String {
    json::inert(&Escaped(text.as_bytes()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_whatever_stands_beside_it_and_other_lines_of_a_result_are_none() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("times");
        let times = [
            r#"{"about":{}}"#,
            r#"{"seconds":1.0,"start":0,"end":1}"#,
            r#"{"seconds":2.0,"about":"the second"}"#,
            r#"{"seconds":3.0,"left_out":false}"#,
            r#"{"left_out":{"what":"x","why":"y"}}"#,
            r#"{"end":{}}"#,
        ];
        std::fs::write(&file, times.join("\n")).unwrap();
        let cases = read(&file, &CaseArgs::default()).unwrap();
        let counts: Vec<usize> = cases.iter().map(|case| case.tail.count).collect();
        assert_eq!(counts, [3]);
    }
}
