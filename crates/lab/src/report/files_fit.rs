//! 001 Fig 9: Eq 6 fitted to four numbers of files, held against the others, and what that shows.
//!
//! A law that is right about figures which hardly differ shows nothing: a single rate is right about them too. So it
//! has met its goal only where numbers of files differ by more than it may be off by, and where it is at most half as
//! far off as one rate for all of them.

use super::build::Samples;
use super::reading;
use crate::bench::record::{Quantity, Results, Sample};
use crate::bench::statistics::{mean, median};
use crate::bench::suite::CHECK_RATE;
use crate::plot::unit::Unit;
use thalweg_mover::model::files::Work;
use thalweg_mover::model::fit::{Condition, Fit, Measurement, fit};

/// Parameter of a sample: files under way at once.
const CONCURRENCY: &str = "concurrency";

/// Said of a fit by which no number of files is better than another.
pub const FLAT: &str = "flat: no number is better";

/// Said of a fit where what was measured differs too little: see [`Verdict::Nothing`].
pub const SHOWS_NOTHING: &str = "which shows nothing of it";

/// So well a fit is to predict what it was not shown, in the mean; and by more than that numbers of files differ that
/// show anything of it.
const ERROR_MAX: f64 = 0.15;

/// So far off it is at most, as a share of what one rate for all is off by.
const OF_ONE_RATE_MAX: f64 = 0.5;

/// So much faster than the number that was measured nearest to N* the best of them is at most.
const LOST_AT_BEST_MAX: f64 = 0.05;

/// Sizes that are files by a whole number each differ by less.
const SAME_SIZE: f64 = 0.8;

/// The law's fit, and what was measured.
pub struct FilesFit {
    /// Of all that was measured in four numbers of files, two sizes included.
    pub fit: Fit,
    /// Each number of files, rising, with the median rate of the largest size in it, and whether the fit was shown it.
    pub rates: Vec<(f64, f64, bool)>,
    /// N*, where the curve is not flat.
    pub best: Option<f64>,
    /// Bits in a second at which whole files were checked, where they were.
    pub check_bits_per_s: Option<f64>,
    /// Mean of what the law, and one rate for all, are off by of what the fit was not shown; as shares of that. None if
    /// it was shown all.
    errors: Option<(f64, f64)>,
}

/// What a fit shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It predicts as well as it is to, and better than a single rate.
    Met,
    /// It does not.
    Missed,
    /// Neither: what was measured differs too little.
    Nothing,
}

impl FilesFit {
    /// Of the fewest files at once: see [`FilesFit::all`].
    pub fn of(results: &Results) -> Option<FilesFit> {
        FilesFit::all(results).into_iter().next()
    }

    /// Of each number of files at once, rising, whose result has four numbers of files or more; none of one that has
    /// fewer, or cannot be fitted. Four numbers of files are fitted, spread over all; the others are predicted, as
    /// `thalweg model fit --points` does.
    pub fn all(results: &Results) -> Vec<FilesFit> {
        let samples: Samples<'_> = results.counting().collect();
        let at_once = reading::values(&samples, CONCURRENCY);
        let of = |at_once: f64| {
            let is_it = |sample: &&Sample| sample.parameter(CONCURRENCY) == Some(at_once);
            FilesFit::of_samples(&samples.iter().copied().filter(is_it).collect())
        };
        at_once.iter().filter_map(Quantity::value).filter_map(of).collect()
    }

    fn of_samples(samples: &Samples<'_>) -> Option<FilesFit> {
        let rates = rates_by_files(samples);
        let last = rates.len().checked_sub(1).filter(|last| *last >= 3)?;
        let used = [0, last / 3, (2 * last).div_ceil(3), last].map(|at| rates[at].0);
        let measured = samples.iter().filter_map(|sample| {
            let work = Work { bytes: sample.bytes as f64, concurrency: sample.parameter(CONCURRENCY)? };
            Some(Measurement { files: sample.parameter("files")?, work, time_s: sample.wall_s })
        });
        let (points, held_out): (Vec<Measurement>, Vec<Measurement>) =
            measured.partition(|one| used.contains(&one.files));
        let fit = fit(&points).ok()?;
        let (bytes, end) = (fit.bytes.1, fit.files.1);
        let best = match (fit.is_flat(bytes, end), fit.optimum(bytes, end)) {
            (Ok(true), _) | (_, Err(_)) => None,
            (_, Ok(best)) => Some(best.files),
        };
        let errors = errors(&fit, &points, &held_out);
        let check_bits_per_s = samples.iter().find_map(|sample| sample.parameter(CHECK_RATE));
        let rates = rates.into_iter().map(|(files, rate)| (files, rate, used.contains(&files))).collect();
        Some(FilesFit { fit, rates, best, check_bits_per_s, errors })
    }

    /// So many files at once.
    pub fn at_once(&self) -> f64 {
        self.fit.concurrency
    }

    /// By how much the slowest number of files takes longer than the quickest, as a share.
    fn spread(&self) -> f64 {
        let rates = || self.rates.iter().map(|(_, rate, _)| *rate);
        rates().fold(0.0, f64::max) / rates().fold(f64::INFINITY, f64::min) - 1.0
    }

    /// What its predictions show; none where it was shown all.
    pub fn verdict(&self) -> Option<Verdict> {
        let (error, one_rate) = self.errors?;
        Some(match error < ERROR_MAX && error <= OF_ONE_RATE_MAX * one_rate {
            _ if self.spread() <= ERROR_MAX => Verdict::Nothing,
            true => Verdict::Met,
            false => Verdict::Missed,
        })
    }

    /// How far off its predictions are, with the verdict, in a sentence without its end.
    pub fn error_words(&self) -> Option<String> {
        let ((error, one_rate), verdict) = (self.errors?, self.verdict()?);
        let (bound, one_rate) = (Unit::Share.show(ERROR_MAX), Unit::Share.show(one_rate));
        let why = match verdict {
            Verdict::Met => format!("below {bound}: met"),
            Verdict::Missed if error >= ERROR_MAX => format!("below {bound}: missed"),
            Verdict::Missed => {
                format!("below {bound}, but one rate for all is off by {one_rate}, not twice as far: missed")
            }
            Verdict::Nothing => {
                let spread = Unit::Share.show(self.spread());
                format!(
                    "{SHOWS_NOTHING}: the slowest takes {spread} longer than the quickest, and one \
                     rate for all is off by {one_rate}"
                )
            }
        };
        Some(format!(
            "Eq 6 fitted to four numbers of files; it predicts the others with a mean absolute error of {:.1} % \
             ({why})",
            error * 100.0
        ))
    }

    /// N*, and the best that was measured. Where the curve is flat the best of some numbers of files is chance: what
    /// counts is what is lost at N*.
    pub fn best_words(&self) -> Option<String> {
        let (files, rate, _) = self.rates.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let Some(best) = self.best else { return Some(format!("{FLAT}, measured best {files}")) };
        let away = |files: f64| (files / best).ln().abs();
        let (nearest, there, _) = self.rates.iter().min_by(|a, b| away(a.0).total_cmp(&away(b.0)))?;
        let lost = rate / there - 1.0;
        let verdict = match self.verdict() {
            Some(Verdict::Nothing) | None => String::new(),
            Some(_) => {
                let word = if lost <= LOST_AT_BEST_MAX { "met" } else { "missed" };
                format!(" (at most {}: {word})", Unit::Share.show(LOST_AT_BEST_MAX))
            }
        };
        let faster = Unit::Share.show(lost);
        Some(format!(
            "N* = {best:.0}, measured best {files}: {faster} faster than {nearest}, the nearest to \
             N*{verdict}"
        ))
    }

    /// Whether the law may be asked at all, and what the fit makes of the check; where its rate is known, beside that.
    pub fn condition_words(&self) -> String {
        let rate = |s_per_byte: f64| match s_per_byte > 0.0 {
            true => Unit::BitsPerS.show(8.0 / s_per_byte),
            false => "beyond what was measured".to_owned(),
        };
        let costs = &self.fit.costs;
        let holds = match self.fit.condition() {
            Condition::Holds => "a_ck < a_trs holds",
            Condition::Broken => "a_ck < a_trs does not hold",
            Condition::Unknown => "whether a_ck < a_trs holds cannot be told",
        };
        let start = match costs.transfer_start_s > 0.0 {
            true => format!("{} for each file", Unit::Seconds.show(costs.transfer_start_s)),
            false => "nothing that was measured".to_owned(),
        };
        let known = self.check_bits_per_s.map(|known| format!(", and was {}", Unit::BitsPerS.show(known)));
        format!(
            "{holds}: 1/a_trs is {}, 1/a_ck is {}{}; b_trs is {start}",
            rate(costs.transfer_s_per_byte),
            rate(costs.check_s_per_byte),
            known.unwrap_or_default()
        )
    }
}

/// Of what a fit was not shown: the mean of what it is off by, and of what one time for each byte is off by, which has
/// the least squares of relative errors over what the fit was shown.
fn errors(fit: &Fit, points: &[Measurement], held_out: &[Measurement]) -> Option<(f64, f64)> {
    let off = |predicted_s: f64, one: &Measurement| (predicted_s / one.time_s - 1.0).abs();
    let by_law = |one: &Measurement| Some(off(fit.predict(one.work.bytes, one.files).ok()?.time_s, one));
    let relative = |one: &Measurement| one.work.bytes / one.time_s;
    let squares: f64 = points.iter().map(|one| relative(one).powi(2)).sum();
    let s_per_byte = points.iter().map(relative).sum::<f64>() / squares;
    let by_law: Vec<f64> = held_out.iter().filter_map(by_law).collect();
    let by_rate: Vec<f64> = held_out.iter().map(|one| off(s_per_byte * one.work.bytes, one)).collect();
    (!by_law.is_empty()).then(|| (mean(&by_law), mean(&by_rate)))
}

/// Each number of files, rising, with the median rate, in bits a second, of what was measured of the largest size in
/// it: with less data the start is a larger part of the time, so that rates of two sizes say nothing of each other.
fn rates_by_files(samples: &Samples<'_>) -> Vec<(f64, f64)> {
    let largest = samples.iter().map(|sample| sample.bytes).max().unwrap_or(0) as f64;
    let is_largest = |sample: &&Sample| sample.bytes as f64 > SAME_SIZE * largest;
    let samples: Samples<'_> = samples.iter().copied().filter(is_largest).collect();
    let rate = |files: f64| {
        let of_it = samples.iter().filter(|sample| sample.parameter("files") == Some(files));
        median(&of_it.map(|sample| sample.rate_bits_per_s()).collect::<Vec<_>>())
    };
    let files = reading::values(&samples, "files");
    files.iter().filter_map(Quantity::value).map(|files| (files, rate(files))).collect()
}
