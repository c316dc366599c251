//! Predicts from whole transfers that were like the one that is asked about.

use super::known::{FLOOR_S, PRIOR_SPREAD, PRIOR_WEIGHT, SPREAD_MAX};
use super::{ENTRIES_FREE, LIMIT_SPREAD, Prediction, Taken, Term, Work, Z_99, Z_975, check};
use crate::model::{Result, positive, student};

/// What a time differs by from run to run however short it is, in seconds: threads that wait for a core, looks that
/// come late.
const JITTER_S: f64 = 0.05;

/// What bytes of transfers that are alike differ by before any is known, as a standard deviation of the logarithm. Of
/// 166 kinds of copies with files of 128 KiB or more, 95 of 100 differed by less than 0.097 in the rounds of a
/// benchmark (docs/measurements.md, how far copies differ from predictions). Those are within an hour of each other;
/// this is half as much again. From day to day 95 of 100 medians of a kind differed by less than 0.21, which half of
/// this gives.
pub const BYTES_SPREAD: f64 = 0.15;
/// The same of entries: 95 of 100 of 38 kinds of copies of smaller files differed by less than 0.267.
pub const ENTRIES_SPREAD: f64 = 0.27;

/// Of a start and an end nothing was measured by itself.
fn spread(term: Term) -> f64 {
    match term {
        Term::Bytes | Term::Verification => BYTES_SPREAD,
        Term::Entries => ENTRIES_SPREAD,
        Term::Start | Term::End => PRIOR_SPREAD,
    }
}

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
    let all_s = mean(&Taken::seconds).max(FLOOR_S);
    // What a rate limit binds is as long as it says. The other terms are taken to be slow together.
    let is_limited = limit_s > 0.0 && earlier.iter().all(|taken| taken.bytes_s <= limit_s);
    let is_free = |term: &Term| !(is_limited && *term == Term::Bytes);
    let spreads = Term::ALL.into_iter().filter(is_free);
    let spread_of_all: f64 = spreads.map(|term| mean(&|taken| taken.of(term)) / all_s * spread(term)).sum();
    let prior = (spread_of_all.powi(2) + (JITTER_S / seconds).powi(2)).max(LIMIT_SPREAD.powi(2));
    let freedom = PRIOR_WEIGHT + n - 1.0;
    let next = (PRIOR_WEIGHT * prior + squares) / freedom * (1.0 + 1.0 / n);
    // The terms, in proportion, and what of them is unsure because their amounts are.
    let share = |of: f64, sd: f64| if of > 0.0 { sd / of } else { 0.0 };
    let amounts = (mean(&|taken| taken.bytes_s + taken.back_s) / all_s * share(work.bytes, work.bytes_sd))
        .powi(2)
        + (mean(&|taken| taken.entries_s) / all_s * share(work.entries, work.entries_sd)).powi(2);
    let sd_ln = (next + amounts).sqrt().min(SPREAD_MAX);
    let at = |z: f64| (middle + student::quantile(z, freedom) * sd_ln).exp();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    fn width(earlier: &[Taken], work: &Work) -> f64 {
        let told = by_alike(earlier, work).unwrap();
        told.high_s / told.low_s
    }

    /// By hand: 100 s of bytes and nothing else, seen once: e to the 2 x 2.776 x 0.15 x sqrt(2).
    #[test]
    fn one_earlier_transfer_knows_no_spread_but_that_of_its_terms() {
        let work = Work { bytes: 1e10, entries: 1.0, ..Work::default() };
        let of_bytes = width(&[Taken { bytes_s: 100.0, ..Taken::default() }], &work);
        assert!(is_near(of_bytes, (2.0 * 2.776 * 0.15 * 2f64.sqrt()).exp(), 1e-2), "{of_bytes}");
        let of_entries = width(&[Taken { entries_s: 100.0, ..Taken::default() }], &work);
        assert!(is_near(of_entries, (2.0 * 2.776 * 0.27 * 2f64.sqrt()).exp(), 1e-2), "{of_entries}");
        let both = width(&[Taken { bytes_s: 50.0, entries_s: 50.0, ..Taken::default() }], &work);
        assert!(of_bytes < both && both < of_entries, "{of_bytes} {both} {of_entries}");
        // What a limit binds is as long as that says, to 2 %.
        let limited = Work { bytes_per_s_max: Some(5e7), ..work };
        assert!(width(&[Taken { bytes_s: 100.0, ..Taken::default() }], &limited) < 1.2);
    }

    proptest! {
        /// That it holds what it says, too, is in the simulation of the history.
        #[test]
        fn the_range_becomes_narrower_with_each_earlier_transfer_that_took_as_long(
            start_s in 0.01..10.0_f64, entries_s in 0.0..100.0_f64, bytes_s in 0.0..1000.0_f64, end_s in 0.01..10.0_f64
        ) {
            let taken = Taken { start_s, entries_s, bytes_s, back_s: 0.0, end_s };
            let work = Work { bytes: 1e9, entries: 100.0, ..Work::default() };
            let mut wider = f64::INFINITY;
            for count in 1..=16 {
                let width = width(&vec![taken; count], &work);
                prop_assert!(width < wider && width > 1.0, "{} after {}", width, count);
                wider = width;
            }
        }
    }
}
