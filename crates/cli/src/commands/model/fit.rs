//! `thalweg model fit`: what measurements say of the costs, and of how many files are best; and how a fit is told.

use super::measurements::read_measurements;
use super::of_model;
use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::{Value, json};
use thalweg_cli::args::model::FitArgs;
use thalweg_lab::report::FLAT;
use thalweg_mover::failure::{self, Failure, Result};
use thalweg_mover::model::ModelError;
use thalweg_mover::model::files::{Bound, Optimum};
use thalweg_mover::model::fit::{Condition, Fit, Measurement, OneSided, Prediction, fit};

/// Of a cost that the measurements do not show.
const NOTHING: &str = "nothing that was measured";

/// A fit for one concurrency, and what it was not shown.
struct Fitted {
    fit: Fit,
    held_out: Vec<Measurement>,
}

/// Fits each concurrency of a file by itself, and tells what becomes of it.
pub(super) fn show_fit(args: &FitArgs) -> Result<Exit> {
    let read = read_measurements(&args.file)?;
    let (mut exit, mut last) = (Exit::Done, None);
    let mut fitted = 0;
    // What cannot be fitted is in the exit code also where nobody reads.
    let heard = |told: Result<()>| match told {
        Err(failure) if !out::is_unread(&failure) => Err(failure),
        _ => Ok(()),
    };
    for (concurrency, all) in &read.groups {
        let is_point = |one: &&Measurement| {
            args.points.is_empty() || args.points.iter().any(|&files| files as f64 == one.files)
        };
        let (points, held_out): (Vec<&Measurement>, Vec<&Measurement>) = all.iter().partition(is_point);
        let points: Vec<Measurement> = points.into_iter().copied().collect();
        match fit(&points) {
            Ok(fit) => {
                fitted += 1;
                let held_out = held_out.into_iter().copied().collect();
                heard(tell_fit(args, &Fitted { fit, held_out }))?;
            }
            Err(error) => {
                let failure = of_fit(*concurrency, &error);
                heard(match args.json {
                    true => json::line(&json::error(&failure, None)),
                    false => out::line(&format!("concurrency {concurrency}: {}", failure.cause)),
                })?;
                exit = Exit::Partial;
                last = Some(failure);
            }
        }
    }
    if read.passed_over > 0 && !args.json {
        let lines = units::counted(read.passed_over as u64, "line", "lines");
        heard(out::line(&format!("{lines} without a measurement passed over")))?;
    }
    match (fitted, last) {
        (0, Some(failure)) => Err(failure),
        _ => Ok(exit),
    }
}

fn of_fit(concurrency: u64, error: &ModelError) -> Failure {
    let mut failure = of_model("fit measurements", error);
    failure.cause = format!("of concurrency {concurrency}: {}", failure.cause);
    failure
}

fn tell_fit(args: &FitArgs, fitted: &Fitted) -> Result<()> {
    let foretold =
        Foretold::of(args, fitted).map_err(|error| of_fit(fitted.fit.concurrency as u64, &error))?;
    match args.json {
        true => foretold.tell_as_json(&fitted.fit),
        false => {
            tell_costs(&fitted.fit)?;
            foretold.tell(&fitted.fit)
        }
    }
}

/// What a fit says of the files that were asked about, for so many bytes.
struct Foretold<'a> {
    bytes: f64,
    optimum: Optimum,
    is_flat: bool,
    best: Prediction,
    by_files: Vec<(u64, Prediction)>,
    /// Beside what it was not shown.
    held_out: Vec<(&'a Measurement, Prediction)>,
    /// Of those the mean of what it is off by, if there are any.
    held_out_error: Option<f64>,
}

impl<'a> Foretold<'a> {
    fn of(args: &FitArgs, fitted: &'a Fitted) -> std::result::Result<Foretold<'a>, ModelError> {
        let fit = &fitted.fit;
        let bytes = args.data.map_or(fit.bytes.1, |bytes| bytes as f64);
        let optimum = best_files(fit, bytes, args.files_max)?;
        let is_flat = is_flat(fit, bytes, args.files_max)?;
        let best = fit.predict(bytes, optimum.files)?;
        let mut by_files = Vec::new();
        for &files in &args.predict {
            by_files.push((files, fit.predict(bytes, files as f64)?));
        }
        let mut held_out = Vec::new();
        for one in &fitted.held_out {
            held_out.push((one, fit.predict(one.work.bytes, one.files)?));
        }
        let errors: Vec<f64> =
            held_out.iter().map(|(one, prediction)| (prediction.time_s / one.time_s - 1.0).abs()).collect();
        let held_out_error = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
        Ok(Foretold { bytes, optimum, is_flat, best, by_files, held_out, held_out_error })
    }

    fn tell_as_json(&self, fit: &Fit) -> Result<()> {
        let of_files: Vec<Value> =
            self.by_files.iter().map(|(files, time)| json!({"files": files, "time": time})).collect();
        let others: Vec<Value> = self
            .held_out
            .iter()
            .map(|(one, time)| {
                json!({
                    "files": one.files, "bytes": one.work.bytes, "measured_s": one.time_s, "time": time,
                    "bound": fit.bound(one.work.bytes),
                })
            })
            .collect();
        json::line(&json!({
            "event": "model", "law": "files", "fit": fit, "condition": fit.condition(), "bytes": self.bytes,
            "bound": fit.bound(self.bytes), "optimum": self.optimum, "is_flat": self.is_flat, "time": self.best,
            "predicted": of_files, "held_out": others, "held_out_mean_absolute_error": self.held_out_error,
        }))
    }

    fn tell(&self, fit: &Fit) -> Result<()> {
        if let Some(error) = self.held_out_error {
            out::line(&format!(
                "  held out       {}, predicted with a mean error of {}",
                units::counted(self.held_out.len() as u64, "measurement", "measurements"),
                units::share(error)
            ))?;
        }
        out::line(&format!("  best           {}", optimum_words(&self.optimum, self.is_flat)))?;
        let words_of =
            |prediction: &Prediction| prediction_words(self.bytes, prediction, fit.bound(self.bytes));
        out::line(&format!("                 {}", words_of(&self.best)))?;
        for (files, prediction) in &self.by_files {
            let words = words_of(prediction);
            out::line(&format!("  {:<14} {words}", units::files(*files)))?;
        }
        Ok(())
    }
}

/// Of what a fit was made, its costs, whether its condition holds, and what it is off by.
fn tell_costs(fit: &Fit) -> Result<()> {
    let costs = &fit.costs;
    let ends = |(low, high): (f64, f64), show: &dyn Fn(u64) -> String| match low == high {
        true => show(low as u64),
        false => format!("{} to {}", show(low as u64), show(high as u64)),
    };
    out::line(&format!(
        "concurrency {}: {} of {} in {} {}",
        fit.concurrency,
        failure::counted(fit.measurements as u64, "measurement", "measurements"),
        ends(fit.bytes, &units::size),
        ends(fit.files, &units::count),
        if fit.files.1 > 1.0 { "files" } else { "file" }
    ))?;
    let at_most = if fit.is_split_known { "" } else { "at most " };
    let rate_of = |s_per_byte: f64| match s_per_byte {
        0.0 => NOTHING.to_owned(),
        s_per_byte => format!("{s_per_byte:.3e} s/B ({} in each process)", units::bit_rate(8.0 / s_per_byte)),
    };
    let once = if fit.is_split_known { units::time(costs.once_s) } else { "stands in a_trs".to_owned() };
    out::line(&format!("  a_trs          {at_most}{}", rate_of(costs.transfer_s_per_byte)))?;
    let start = match costs.transfer_start_s {
        0.0 => NOTHING.to_owned(),
        seconds => format!("{} for each file", units::time(seconds)),
    };
    out::line(&format!("  b_trs          {start}"))?;
    out::line(&format!("  a_ck           {}", rate_of(costs.check_s_per_byte)))?;
    out::line(&format!("  b_ck + b_srvs  {once}"))?;
    out::line(&format!("  a_ck < a_trs   {}", condition_words(fit)))?;
    out::line(&format!("  off by         {} in the mean", units::share(fit.mean_absolute_error)))
}

/// The best number of files. Beyond what was measured nobody knows: the most is asked for by name.
///
/// # Errors
/// As [`Fit::optimum`].
pub fn best_files(fit: &Fit, bytes: f64, files_max: Option<u64>) -> std::result::Result<Optimum, ModelError> {
    fit.optimum(bytes, most_files(fit, files_max))
}

/// As [`Fit::is_flat`], up to the number of files that [`best_files`] goes to.
///
/// # Errors
/// As [`Fit::is_flat`].
pub fn is_flat(fit: &Fit, bytes: f64, files_max: Option<u64>) -> std::result::Result<bool, ModelError> {
    fit.is_flat(bytes, most_files(fit, files_max))
}

fn most_files(fit: &Fit, files_max: Option<u64>) -> f64 {
    files_max.map_or(fit.files.1.max(fit.concurrency), |files| files as f64)
}

/// Whether the condition of a fit's law holds.
pub fn condition_words(fit: &Fit) -> &'static str {
    match fit.condition() {
        Condition::Holds => "holds",
        Condition::Broken => {
            "does NOT hold: verification is the narrower stage, real times are longer than these"
        }
        Condition::Unknown if is_neither_seen(fit) => {
            "cannot be told: of neither anything was measured, larger files show them"
        }
        Condition::Unknown if fit.is_split_known => {
            "cannot be told: chance makes as much of a difference, more measurements show it"
        }
        Condition::Unknown => {
            "cannot be told from one size of data: measure another, at least a fifth larger"
        }
    }
}

/// As of many tiny files.
fn is_neither_seen(fit: &Fit) -> bool {
    fit.is_split_known && fit.costs.transfer_s_per_byte <= 0.0 && fit.costs.check_s_per_byte <= 0.0
}

/// How many files, of what size, and what keeps it from more or fewer; or that it is all the same.
pub fn optimum_words(optimum: &Optimum, is_flat: bool) -> String {
    if is_flat {
        return format!("{FLAT}, as far as the measurements tell");
    }
    let (files, size) = (units::files(optimum.files as u64), units::size(optimum.file_bytes as u64));
    let why = match optimum.bound {
        Bound::Balance => "fewer leave the last verification uncovered, more cost starts",
        Bound::Concurrency => "one for each process; more only cost starts",
        Bound::Most => "more may be better still: measure more, or allow more with --files-max",
    };
    format!("{files} of {size}: {why}")
}

/// What a prediction is worth that is a bound.
pub fn bound_words(bound: OneSided) -> &'static str {
    match bound {
        OneSided::Upper => "upper bound: measured with one size only",
        OneSided::Lower => "lower bound: measured with one size only",
    }
}

fn prediction_words(bytes: f64, prediction: &Prediction, bound: Option<OneSided>) -> String {
    let range = match (bound, prediction.low_s, prediction.high_s) {
        (Some(bound), ..) => format!(" ({})", bound_words(bound)),
        (None, Some(low_s), Some(high_s)) => {
            format!(" (P1 {}, P99 {})", units::time(low_s), units::time(high_s))
        }
        _ => " (no range: as many parameters as measurements)".to_owned(),
    };
    let rate = units::rate(bytes as u64, prediction.time_s);
    format!("{}{range}, {rate}", units::time(prediction.time_s))
}
