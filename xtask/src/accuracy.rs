//! The table of docs/guide/testbed.md: how well the emulated path keeps what it is asked to, from the committed result of
//! `thalweg bench path`.

use crate::{figures, tools};
use anyhow::{Context, Result};
use std::fmt::Write;
use thalweg_lab::bench::record::{Quantity, Results, Sample};
use thalweg_lab::bench::statistics::median;
use thalweg_lab::plot::unit::Unit;

/// The guide, and where the table stands in it.
pub const PAGE: &str = "docs/guide/testbed.md";
const MARKS: [&str; 2] =
    ["<!-- Made by `cargo xtask gen` from bench/results. -->\n", "<!-- End of results. -->"];

/// The guide with the table between its marks.
///
/// # Errors
/// If the guide has no marks, or a result cannot be read.
pub fn page() -> Result<String> {
    let text = std::fs::read_to_string(tools::root().join(PAGE))?;
    let (before, rest) =
        text.split_once(MARKS[0]).with_context(|| format!("{PAGE} has no mark for results"))?;
    let (_, after) =
        rest.split_once(MARKS[1]).with_context(|| format!("{PAGE} has no mark for their end"))?;
    let results = figures::results()?;
    let found = results.iter().find(|(_, results)| results.about.suite == "path");
    let table = found.map_or_else(
        || "Not measured yet: `thalweg bench path --out bench/results/path.jsonl` (root), then `cargo xtask gen`.\n".into(),
        |(_, results)| table(results),
    );
    Ok([before, MARKS[0], &table, MARKS[1], after].concat())
}

fn table(results: &Results) -> String {
    let about = &results.about;
    let mut out = format!(
        "{}, {}, {} cores, {}; `{}`:\n\n| asked | seen (median) | should be | may be off by | within | wire, CPU-s/GB |\n|---|---|---|---|---|---|\n",
        about.date.split('T').next().unwrap_or_default(),
        about.machine.cpu,
        about.machine.cores,
        about.machine.kernel,
        about.command,
    );
    let mut cases = results.cases();
    // By what was asked, not by the turns.
    let place = |sample: &Sample| (series(sample), asked(sample).map_or(0.0, |(_, value)| value));
    cases.sort_by(|a, b| {
        let ((a, x), (b, y)) = (place(a[0]), place(b[0]));
        a.cmp(&b).then(x.total_cmp(&y))
    });
    for case in cases {
        let Some((asked, _)) = asked(case[0]) else { continue };
        let of = |pick: fn(&Sample) -> Option<&Quantity>| -> Vec<f64> {
            case.iter().filter_map(|sample| pick(sample)?.value()).collect()
        };
        let off = of(|sample| sample.measured.get("share_of_the_tolerance"));
        let cost: Vec<f64> = case.iter().filter_map(|sample| sample.wire_cpu_s_per_gb).collect();
        let show = |values: &[f64]| {
            unit(case[0]).map_or_else(|| format!("{:.0}", median(values)), |unit| unit.show(median(values)))
        };
        let _ = writeln!(
            out,
            "| {asked} | {} | {} | {} | {} of {} | {:.2} |",
            show(&of(|sample| sample.measured.get("measured"))),
            show(&of(|sample| sample.predicted.get("measured"))),
            show(&of(|sample| sample.measured.get("tolerance"))),
            off.iter().filter(|off| **off <= 1.0).count(),
            off.len(),
            median(&cost),
        );
    }
    out
}

/// Round trips, then rates, then losses.
fn series(sample: &Sample) -> usize {
    ["round trip time", "rate", "loss"].iter().position(|name| *name == sample.series).unwrap_or(usize::MAX)
}

/// What was asked, in words and as a number.
fn asked(sample: &Sample) -> Option<(String, f64)> {
    let (name, value) = sample.parameters.iter().find_map(|(name, value)| Some((name, value.value()?)))?;
    let words = match name.as_str() {
        "loss" => format!("loss of {value} in packets"),
        _ => format!("{} {}", sample.series, unit(sample)?.show(value)),
    };
    Some((words, value))
}

/// Of what was measured; packets have none.
fn unit(sample: &Sample) -> Option<Unit> {
    match sample.series.as_str() {
        "round trip time" => Some(Unit::Seconds),
        "rate" => Some(Unit::BitsPerS),
        _ => None,
    }
}
