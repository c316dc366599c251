//! Options as Python says them: texts, numbers, times, names, rules.

use std::time::Duration;
use thalweg_client::options::{names, units};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::filter::parse_filter_line;
use thalweg_wire::message::{FilterRule, PartOf};
use thalweg_wire::{RelativePath, limits};

/// What a text means, if there is one.
pub fn read<T>(
    name: &str,
    asked: Option<&str>,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<Option<T>> {
    asked.map(|text| parsed(name, text, parse)).transpose()
}

/// What a text means.
pub fn parsed<T>(
    name: &str,
    text: &str,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<T> {
    parse(text).map_err(|why| odd(format!("{name}={text:?}: {why}")))
}

/// What a number means, if there is one.
pub fn within<T>(
    name: &str,
    asked: Option<u64>,
    check: impl Fn(u64) -> std::result::Result<T, String>,
) -> Result<Option<T>> {
    let checked = |number| check(number).map_err(|why| odd(format!("{name}={number}: {why}")));
    asked.map(checked).transpose()
}

/// An option that has no such value.
pub fn odd(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "read options", cause)
}

/// As many streams as the program takes.
pub fn streams(operation: &str, asked: Option<u16>) -> Result<Option<u16>> {
    const MOST: u16 = limits::STREAMS_MAX;
    match asked {
        Some(streams) if !(1..=MOST).contains(&streams) => {
            Err(Failure::new(FailureKind::Usage, operation, format!("streams: from 1 to {MOST}")))
        }
        _ => Ok(asked),
    }
}

/// A part and how many there are, if it is not all.
pub fn part(operation: &str, asked: Option<(u32, u32)>) -> Result<Option<PartOf>> {
    const MOST: u32 = limits::PARTS_MAX;
    let Some((number, count)) = asked else { return Ok(None) };
    match PartOf::new(number, count) {
        Some(part) => Ok(Some(part)),
        None => {
            let cause =
                format!("part=({number}, {count}): (K, N) is part K of N, from 1 to N, of at most {MOST}");
            Err(Failure::new(FailureKind::Usage, operation, cause))
        }
    }
}

/// A time as Python says it. What is over already, as a difference of two times may be, is no time, and so is what is
/// no number; infinity is as long as anything takes.
pub fn seconds(seconds: f64) -> Duration {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => time.min(units::TIME_MAX),
        Err(_) if seconds > 0.0 => units::TIME_MAX,
        Err(_) => Duration::ZERO,
    }
}

/// Names that a list has, if there is one.
pub fn only(listed: Option<&[Vec<u8>]>) -> Result<Option<Vec<RelativePath>>> {
    listed.map(|listed| names::relative(listed.iter().map(Vec::as_slice))).transpose()
}

/// What filter lines say.
pub fn rules(lines: &[String]) -> Result<Vec<FilterRule>> {
    let mut rules = Vec::new();
    for line in lines {
        rules.extend(parse_filter_line(line)?);
    }
    Ok(rules)
}
