//! Predicts from whole transfers that were like the one that is asked about.

use super::known::{FLOOR_S, PRIOR_SPREAD, PRIOR_WEIGHT, SPREAD_MAX};
use super::{ENTRIES_FREE, LIMIT_SPREAD, Prediction, Taken, Term, Work, Z_99, Z_975, check};
use crate::model::{Result, positive, student};

/// What a time differs by from run to run however short it is, in seconds: threads that wait for a core, looks that
/// come late.
const JITTER_S: f64 = 0.05;

/// Predicts from what earlier transfers of its kind took, each already scaled to this one.
///
/// # Errors
/// As [`predict`](super::predict); without any.
pub fn by_alike(earlier: &[Taken], work: &Work) -> Result<Prediction> {
    check(work)?;
    let limit_s = work.bytes_per_s_max.map_or(0.0, |limit| work.bytes / limit);
    let earlier: Vec<Taken> =
        earlier.iter().map(|taken| Taken { bytes_s: taken.bytes_s.max(limit_s), ..*taken }).collect();
    positive("number of earlier transfers", earlier.len() as f64)?;
    let n = earlier.len() as f64;
    let logs: Vec<f64> = earlier.iter().map(|taken| taken.seconds().max(FLOOR_S).ln()).collect();
    let middle = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
    let seconds = middle.exp();
    let mean = |of: &dyn Fn(&Taken) -> f64| earlier.iter().map(of).sum::<f64>() / n;
    // What a rate limit binds is as long as it says.
    let is_limited = earlier.iter().all(|taken| taken.bytes_s <= limit_s);
    let free = if is_limited { (1.0 - limit_s / seconds).clamp(0.0, 1.0) } else { 1.0 };
    let prior = ((PRIOR_SPREAD * free).powi(2) + (JITTER_S / seconds).powi(2)).max(LIMIT_SPREAD.powi(2));
    let freedom = PRIOR_WEIGHT + n - 1.0;
    let next = (PRIOR_WEIGHT * prior + squares) / freedom * (1.0 + 1.0 / n);
    // The terms, in proportion, and what of them is unsure because their amounts are.
    let all_s = mean(&Taken::seconds).max(FLOOR_S);
    let share = |of: f64, sd: f64| if of > 0.0 { sd / of } else { 0.0 };
    let amounts = (mean(&|taken| taken.bytes_s + taken.back_s) / all_s * share(work.bytes, work.bytes_sd))
        .powi(2)
        + (mean(&|taken| taken.entries_s) / all_s * share(work.entries, work.entries_sd)).powi(2);
    let spread = (next + amounts).sqrt().min(SPREAD_MAX);
    let at = |z: f64| (middle + student::quantile(z, freedom) * spread).exp();
    let is_told = |term: Term| match term {
        Term::Verification => work.reads_back,
        // A few entries that took next to nothing are not worth a line.
        Term::Entries => mean(&|taken| taken.entries_s) > all_s / 100.0 || work.entries > ENTRIES_FREE,
        Term::Bytes => work.bytes > 0.0,
        Term::Start | Term::End => true,
    };
    let told_s =
        Term::ALL.into_iter().filter(|&term| is_told(term)).map(|term| mean(&|taken| taken.of(term)));
    let scale = seconds / told_s.sum::<f64>().max(FLOOR_S);
    let told = |term: Term| (term, mean(&|taken| taken.of(term)) * scale);
    Ok(Prediction {
        seconds,
        low_s: at(-Z_975),
        high_s: at(Z_975),
        p99_s: at(Z_99),
        terms: Term::ALL.into_iter().filter(|&term| is_told(term)).map(told).collect(),
        rests_on: earlier.len(),
        guessed: Vec::new(),
    })
}
