//! Measured times, as they are read: lines of JSON, or a result file of `thalweg bench`.

use crate::units;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use thalweg_lab::bench::record::Sample;
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};
use thalweg_mover::model::files::Work;
use thalweg_mover::model::fit::Measurement;

/// Bytes of a file of measurements that are read at most: about a million of them.
const INPUT_BYTES_MAX: u64 = 128 << 20;

/// Measurements by concurrency.
pub struct Measurements {
    /// The measurements of each concurrency.
    pub groups: BTreeMap<u64, Vec<Measurement>>,
    /// Lines that were something else.
    pub passed_over: usize,
}

/// Of a sample whose figures count.
fn concurrency_of(sample: &Sample) -> Option<f64> {
    sample.parameter("concurrency").filter(|_| sample.counts())
}

/// Reads lines of JSON: `files`, `bytes`, `concurrency`, `seconds`; or a result file of `thalweg bench`, of which
/// samples with the parameter `concurrency` count, unless their run was void or failed.
///
/// # Errors
/// `Usage` with the line that makes no sense, or if there is no measurement; what the kernel says.
pub fn read_measurements(file: &Path) -> Result<Measurements> {
    const KEYS: [&str; 4] = ["files", "bytes", "concurrency", "seconds"];
    let mut read = Measurements { groups: BTreeMap::new(), passed_over: 0 };
    for (number, line) in lines(&read_text(file)?) {
        let object: Value = serde_json::from_str(line).map_err(|error| bad_line(file, number, &error))?;
        let object = of_bench(&object, file, number)?.map_or(object, |sample| match concurrency_of(&sample) {
            Some(concurrency) => json!({
                "files": sample.files, "bytes": sample.bytes, "concurrency": concurrency, "seconds": sample.wall_s,
            }),
            None => Value::Null,
        });
        let values = KEYS.map(|key| object.get(key));
        if values.iter().all(Option::is_none) {
            read.passed_over += 1;
            continue;
        }
        let mut numbers = [0.0; 4];
        for (at, value) in values.iter().enumerate() {
            let value = value.and_then(Value::as_f64).filter(|&value| value > 0.0);
            numbers[at] = value.ok_or_else(|| {
                bad_line(file, number, &format_args!("`{}` must be a positive number", KEYS[at]))
            })?;
        }
        let [files, bytes, concurrency, time_s] = numbers;
        if concurrency.fract() != 0.0 || files < concurrency {
            let why = "`concurrency` must be a whole number, and not more than `files`";
            return Err(bad_line(file, number, &why));
        }
        let work = Work { bytes, concurrency };
        read.groups.entry(concurrency as u64).or_default().push(Measurement { files, work, time_s });
    }
    match read.groups.is_empty() {
        true => Err(failure_about(file, &"holds no measurement")),
        false => Ok(read),
    }
}

/// The sample of a line of a result file; `None` of any other line.
///
/// # Errors
/// `Usage` if it says that it is a sample, and is none.
pub(super) fn of_bench(object: &Value, file: &Path, number: usize) -> Result<Option<Sample>> {
    let Some(sample) = object.get("sample").cloned() else { return Ok(None) };
    let sample: Sample = serde_json::from_value(sample).map_err(|error| bad_line(file, number, &error))?;
    let checked = sample.in_base_units().and_then(|sample| sample.check().map(|()| sample));
    checked.map(Some).map_err(|why| bad_line(file, number, &why))
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

pub(super) fn read_text(file: &Path) -> Result<String> {
    let mut text = String::new();
    let limit = INPUT_BYTES_MAX + 1;
    let done = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(limit).read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_string(&mut text)),
    };
    if let Err(error) = done {
        return Err(at_path(of_io("read measurements", &error), file));
    }
    match text.len() as u64 > INPUT_BYTES_MAX {
        true => Err(failure_about(file, &format_args!("is larger than {}", units::size(INPUT_BYTES_MAX)))),
        false => Ok(text),
    }
}

pub(super) fn bad_line(file: &Path, number: usize, why: &dyn std::fmt::Display) -> Failure {
    failure_about(file, &format_args!("line {number}: {why}"))
}

pub(super) fn failure_about(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    at_path(Failure::new(FailureKind::Usage, "read measurements", why), file)
}
