//! Tails of measured times, one for each case of a file: what went at another load, or began in another way, is another
//! distribution, and all of them together are the tail of nothing.

use super::measurements::{bad_line, failure_about, lines, of_bench, read_text};
use crate::{json, units};
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

/// Sizes, lines and loads that differ by less than this factor are the same.
const ALIKE: f64 = 1.2;

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
    /// Bytes of a transfer, the fewest and the most; `None` where that is not known, as of times without a series.
    transfer_bytes: Option<(f64, f64)>,
    /// The line of an emulated path, likewise.
    line_bits_per_s: Option<f64>,
}

/// What the times are to answer.
pub struct Asked {
    /// Of a transfer.
    pub bytes: f64,
    /// Of the line.
    pub bandwidth_bits_per_s: f64,
    /// Share of the line that such transfers take, if they come again and again.
    pub load: Option<f64>,
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

    /// Why its times say nothing of what is asked: they are of less data, or of more, or of a line that is wider or met
    /// less. What is not known of them is not held against them.
    fn unlike(&self, asked: &Asked) -> Option<String> {
        let (bytes, rate) = (asked.bytes, asked.bandwidth_bits_per_s);
        let size = self.transfer_bytes.and_then(|(fewest, most)| match () {
            () if bytes > fewest * ALIKE => Some(fewest),
            () if bytes * ALIKE < most => Some(most),
            () => None,
        });
        if let Some(size) = size {
            let (measured, asked) = (units::decimal_size(size), units::decimal_size(bytes));
            return Some(format!("they are of transfers of {measured}, and --data is {asked}"));
        }
        if let Some(line) = self.line_bits_per_s.filter(|line| *line > rate * ALIKE) {
            let (measured, asked) = (units::bit_rate(line), units::bit_rate(rate));
            return Some(format!("they are of a line of {measured}, and --bandwidth is {asked}"));
        }
        let (measured, load) = self.load().zip(asked.load).filter(|(own, load)| *load > own * ALIKE)?;
        let (measured, load) = (units::share(measured), units::share(load));
        Some(format!("the line had a load of {measured}, and --data in --every are {load} of it"))
    }

    fn is(&self, wanted: &CaseArgs) -> bool {
        let is_near = |load: f64| self.load().is_some_and(|own| (own - load).abs() < LOADS_APART);
        wanted.series.as_ref().is_none_or(|series| self.series.as_ref() == Some(series))
            && wanted.load.is_none_or(is_near)
    }
}

/// Times of a case, as they are read.
#[derive(Default)]
struct Gathered {
    sample: Option<Sample>,
    times: Vec<f64>,
    transfer_bytes: Option<(f64, f64)>,
    line_bits_per_s: Option<f64>,
}

impl Gathered {
    /// The times of one more sample; its bytes are those of all its transfers.
    fn add(&mut self, sample: Sample, line_bits_per_s: Option<f64>) {
        let before = self.times.len();
        match sample.distributions.get("transfer_time") {
            Some(distribution) => self.times.extend(&distribution.values),
            None => self.times.push(sample.wall_s),
        }
        let transfers = self.times.len() - before;
        if sample.bytes > 0 && transfers > 0 {
            let bytes = sample.bytes as f64 / transfers as f64;
            let (fewest, most) = self.transfer_bytes.unwrap_or((bytes, bytes));
            self.transfer_bytes = Some((fewest.min(bytes), most.max(bytes)));
        }
        self.line_bits_per_s = match (self.line_bits_per_s, line_bits_per_s) {
            (Some(widest), Some(line)) => Some(widest.max(line)),
            (widest, line) => widest.or(line),
        };
        self.sample.get_or_insert(sample);
    }
}

/// Reads times and gives the tail of each case that is `wanted`. Of a result file of `thalweg bench` they are its
/// `transfer_time`s, or how long each sample took; all runs of a case are together, but those that are void or failed.
/// Other times are of one case.
///
/// # Errors
/// `Usage` with the line that makes no sense, if there is no time, or none of what is wanted; what the kernel says.
pub fn read(file: &Path, wanted: &CaseArgs) -> Result<Vec<Case>> {
    let mut all: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut line_bits_per_s = None;
    for (number, line) in lines(&read_text(file)?) {
        let value: Value = serde_json::from_str(line).map_err(|error| bad_line(file, number, &error))?;
        if let Some(sample) = of_bench(&value, file, number)? {
            if !sample.counts() {
                continue;
            }
            let key = format!("{}\n{}", sample.series, table::parameters(&sample));
            all.entry(key).or_default().add(sample, line_bits_per_s);
            continue;
        }
        // Other lines of a result file. A time may have such keys as well: when it ended, for instance.
        let has_one_key = value.as_object().is_some_and(|line| line.len() == 1);
        if has_one_key && ["about", "left_out", "end"].iter().any(|key| value.get(key).is_some()) {
            if value.get("about").is_some() {
                line_bits_per_s = value.pointer("/about/path/rate_bits_per_s").and_then(Value::as_f64);
            }
            continue;
        }
        let seconds =
            value.as_f64().or_else(|| value.get("seconds")?.as_f64()).filter(|&seconds| seconds >= 0.0);
        let seconds = seconds.ok_or_else(|| bad_line(file, number, &"is no time in seconds"))?;
        all.entry(String::new()).or_default().times.push(seconds);
    }
    if all.is_empty() {
        all.insert(String::new(), Gathered::default());
    }
    let mut cases = Vec::with_capacity(all.len());
    for Gathered { sample, times, transfer_bytes, line_bits_per_s } in all.into_values() {
        let tail = score::tail(&times).map_err(|error| failure_about(file, &error))?;
        let (series, parameters) = sample.map(|sample| (sample.series, sample.parameters)).unzip();
        let parameters = parameters.unwrap_or_default();
        cases.push(Case { series, parameters, tail, transfer_bytes, line_bits_per_s });
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
/// As [`read`]; `Usage` with the choices if there are several, or if it is of other transfers than are asked about.
pub fn read_one(file: &Path, wanted: &CaseArgs, asked: &Asked) -> Result<score::Tail> {
    let cases = read(file, wanted)?;
    match cases.as_slice() {
        [case] => match case.unlike(asked) {
            None => Ok(case.tail),
            Some(unlike) => {
                let why = format!(
                    "holds times that say nothing of these transfers: {unlike}; measure such transfers, or give \
                     --score, which `thalweg model tail` tells of these times with their --data and --rate"
                );
                Err(failure_about(file, &why))
            }
        },
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
