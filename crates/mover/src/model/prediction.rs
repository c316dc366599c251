//! How long a transfer will take, with a range: 001 Eqs 3 and 5, in the terms that a user can do something about.
//!
//! `T = start + entries x per entry + bytes x per byte + bytes x per byte read back + end`
//!
//! The unit costs are those of earlier transfers on the same way ([`super::history`]). Each is taken as log-normal, as
//! times and rates of transfers are skewed to the slow side: with the mean m of the logarithms of n observations and their
//! variance s^2, the next one is around m with variance `s^2 (1 + 1/n)`. So that few observations do not look certain, s^2
//! is shrunk towards a prior as if [`PRIOR_WEIGHT`] observations with a spread of [`PRIOR_SPREAD`] had been made before, and
//! the range is that of Student's t with `PRIOR_WEIGHT + n - 1` degrees of freedom ([`super::student`]).
//! The terms are taken to be slow together, as a busy machine makes them: so the quantiles of their sum are the sums of their
//! quantiles (J. Dhaene and others, "The concept of comonotonicity in actuarial science and finance: theory", Insurance:
//! Mathematics and Economics 31, 2002). Where each is slow at another time, the range is wider than it had to be.
//!
//! Where earlier transfers were like the one that is asked about, they are taken as a whole ([`by_alike`]): their times are
//! around one log-normal, with whatever the terms have in common, such as a busy machine, and nothing counted twice.
//!
//! Held by simulation: where transfers differ by [`PRIOR_SPREAD`] or less, 95 of 100 are in the range and 99 of 100 below
//! P99, from one earlier transfer on, of whatever size that was and whatever its terms have in common. Where they differ by
//! more, few earlier ones know it too late: by 0.4, 90 of 100.
//!
//! Valid for transfers of the kind that was observed: where no earlier transfer had many small files, nothing is known of
//! them, and that is said ([`Missing`]).

use super::{Result, not_negative, student};
use serde::{Deserialize, Serialize};

/// A part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Reaching the far side and agreeing, until the first content stood verified.
    Start,
    /// What each entry costs: opening, creating, naming.
    Entries,
    /// Content through the narrowest stage.
    Bytes,
    /// Reading back what was written.
    Verification,
    /// After the last content: the last sync, names, the receipt.
    End,
}

impl Term {
    /// All of them, in the order of the equation.
    pub const ALL: [Term; 5] = [Term::Start, Term::Entries, Term::Bytes, Term::Verification, Term::End];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Term::Start => "start-up",
            Term::Entries => "entries",
            Term::Bytes => "bytes",
            Term::Verification => "verification",
            Term::End => "last sync",
        }
    }
}

/// What is known of a unit cost, in logarithms of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Mean.
    pub mean_ln: f64,
    /// Standard deviation of the next one.
    pub sd_ln: f64,
    /// Observations.
    pub count: usize,
}

/// Observations that the prior counts for.
pub const PRIOR_WEIGHT: f64 = 4.0;
/// Standard deviation of the logarithm before anything is known of it: times differ by a third from run to run.
pub const PRIOR_SPREAD: f64 = 0.3;
/// The most that costs of one way are taken to differ by, as a standard deviation of the logarithm: one in six more than four
/// times the median. What was further apart was of another kind, and a log-normal as wide as that has a mean that no
/// transfer ever takes.
pub const SPREAD_MAX: f64 = 1.5;
/// What a time differs by from run to run however short it is, in seconds: threads that wait for a core, looks that come late.
const JITTER_S: f64 = 0.05;
/// Seconds and unit costs below this are nothing: logarithms need a floor.
const FLOOR_S: f64 = 1e-15;

impl Known {
    /// From observed unit costs, in seconds; `None` without any.
    pub fn of(observed: &[f64]) -> Option<Known> {
        let logs: Vec<f64> =
            observed.iter().filter(|cost| cost.is_finite()).map(|cost| cost.max(FLOOR_S).ln()).collect();
        let count = logs.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean_ln = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean_ln).powi(2)).sum();
        let variance = (PRIOR_WEIGHT * PRIOR_SPREAD.powi(2) + squares) / (PRIOR_WEIGHT + n - 1.0);
        let sd_ln = (variance * (1.0 + 1.0 / n)).sqrt().min(SPREAD_MAX);
        Some(Known { mean_ln, sd_ln, count })
    }

    /// One that was measured once, with the spread that it showed as a standard deviation of the logarithm.
    pub fn measured(cost: f64, spread: f64) -> Known {
        // By it and the next one.
        let sd_ln = (spread.max(PRIOR_SPREAD) * std::f64::consts::SQRT_2).min(SPREAD_MAX);
        Known { mean_ln: cost.max(FLOOR_S).ln(), sd_ln, count: 1 }
    }

    /// The median, in seconds.
    pub fn median(&self) -> f64 {
        self.mean_ln.exp()
    }

    /// Degrees of freedom that [`Known::sd_ln`] has; what nobody observed is as it was said to be.
    fn freedom(&self) -> f64 {
        if self.count == 0 { f64::INFINITY } else { PRIOR_WEIGHT + self.count as f64 - 1.0 }
    }
}

/// What passed too quickly to be told from start and end by a clock.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Quick {
    /// Bytes or entries.
    pub amount: f64,
    /// What they took by what their stages worked, in seconds.
    pub seconds: f64,
}

impl Quick {
    /// What one of them costs where there are no more of them; `None` where that is nothing, or not known.
    fn cost(self, amount: f64) -> Option<Known> {
        (amount <= self.amount && self.seconds > 0.0)
            .then(|| Known::measured(self.seconds / self.amount, PRIOR_SPREAD))
    }
}

/// What is known of a way; costs in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Knowledge {
    /// Start-up.
    pub start: Option<Known>,
    /// For each entry.
    pub entry: Option<Known>,
    /// For each byte.
    pub byte: Option<Known>,
    /// For each byte read back.
    pub back: Option<Known>,
    /// After the last byte.
    pub end: Option<Known>,
    /// A byte costs no more than this: so it came where a rate limit was the bound.
    #[serde(default)]
    pub byte_limited: Option<f64>,
    /// The most bytes that are known to pass so.
    #[serde(default)]
    pub bytes_quick: Quick,
    /// The most entries likewise.
    #[serde(default)]
    pub entries_quick: Quick,
}

/// What a start and an end mostly take, in seconds: dialling and TLS four round trips and some computing, the last round of
/// syncs half a second.
pub fn usual_s(rtt_s: f64) -> [f64; 2] {
    [0.1, 0.5].map(|seconds| seconds + 4.0 * rtt_s)
}

impl Knowledge {
    /// The same, with a start and an end as they are usual where no transfer has shown them; each by a factor of four or five
    /// either way (95 %).
    #[must_use]
    pub fn completed(self, rtt_s: f64) -> Knowledge {
        const UNKNOWN: f64 = 0.55;
        let [start, end] =
            usual_s(rtt_s).map(|seconds| Some(Known { count: 0, ..Known::measured(seconds, UNKNOWN) }));
        Knowledge { start: self.start.or(start), end: self.end.or(end), ..self }
    }

    /// Whether the rate of such bytes is known: it was seen, or their rate limit was kept up to before.
    pub fn knows_bytes(&self, work: &Work) -> bool {
        self.byte.is_some() || work.bytes_per_s_max.is_some_and(|limit| self.carries(work.bytes, limit))
    }

    /// Whether so many bytes are known to pass as fast as a limit lets them, in bytes a second.
    fn carries(&self, bytes: f64, bytes_per_s: f64) -> bool {
        bytes <= BYTES_FREE.max(self.bytes_quick.amount)
            || self.byte_limited.is_some_and(|cost| cost * bytes_per_s <= LIMIT_MISSED_MAX)
    }
}

/// What is to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Work {
    /// Content bytes.
    pub bytes: f64,
    /// Standard deviation of that, if it is an estimate.
    pub bytes_sd: f64,
    /// Entries.
    pub entries: f64,
    /// Standard deviation of that, if it is an estimate.
    pub entries_sd: f64,
    /// What is written is read back.
    pub reads_back: bool,
    /// No faster than this, in bytes a second; positive.
    pub bytes_per_s_max: Option<f64>,
}

impl Prediction {
    /// Of a transfer that is under way: this is for the rest, and so much has passed already.
    pub(super) fn after(self, passed: &Taken) -> Prediction {
        let seconds = passed.seconds() - passed.end_s;
        let mut terms = self.terms;
        for term in Term::ALL.into_iter().filter(|term| *term != Term::End) {
            match terms.iter_mut().find(|(of, _)| *of == term) {
                Some((_, rest)) => *rest += passed.of(term),
                None if passed.of(term) > 0.0 => terms.push((term, passed.of(term))),
                None => {}
            }
        }
        terms.sort_by_key(|(term, _)| *term);
        Prediction {
            seconds: self.seconds + seconds,
            low_s: self.low_s + seconds,
            high_s: self.high_s + seconds,
            p99_s: self.p99_s + seconds,
            terms,
            ..self
        }
    }
}

/// A term of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing(pub Term);

/// How long it will take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The median, in seconds.
    pub seconds: f64,
    /// One of forty is quicker.
    pub low_s: f64,
    /// One of forty is slower: between the two are 95 %.
    pub high_s: f64,
    /// One of a hundred is slower.
    pub p99_s: f64,
    /// The medians of the terms, in seconds, in the order of the equation.
    pub terms: Vec<(Term, f64)>,
    /// Earlier transfers that the term with the most time rests on.
    pub rests_on: usize,
    /// Terms that nothing was measured of: usual values, from [`Knowledge::completed`].
    pub guessed: Vec<Term>,
}

/// Standard normal quantiles.
const Z_975: f64 = 1.959_964;
const Z_99: f64 = 2.326_348;
/// A rate limit is kept to so much, as a standard deviation of the logarithm.
const LIMIT_SPREAD: f64 = 0.02;
/// A transfer that its rate limit bound was so many times slower than that at most: start and pauses are in its time.
const LIMIT_MISSED_MAX: f64 = 1.2;
/// Entries that need no term of their own, whatever is known: what they cost is in the start.
const ENTRIES_FREE: f64 = 16.0;
/// Bytes likewise: two chunks.
const BYTES_FREE: f64 = 8_388_608.0;

/// Predicts; the inner error names what nothing is known of.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange) for what is negative.
pub fn predict(knowledge: &Knowledge, work: &Work) -> Result<std::result::Result<Prediction, Missing>> {
    check(work)?;
    Ok(sum(knowledge, work))
}

fn check(work: &Work) -> Result<()> {
    for (what, value) in [
        ("number of bytes", work.bytes),
        ("spread of bytes", work.bytes_sd),
        ("number of entries", work.entries),
        ("spread of entries", work.entries_sd),
    ] {
        not_negative(what, value)?;
    }
    if let Some(limit) = work.bytes_per_s_max {
        super::positive("rate limit", limit)?;
    }
    Ok(())
}

/// Predicts from what earlier transfers of its kind took, each already scaled to this one.
///
/// # Errors
/// As [`predict`]; without any.
pub fn by_alike(earlier: &[Taken], work: &Work) -> Result<Prediction> {
    check(work)?;
    let limit_s = work.bytes_per_s_max.map_or(0.0, |limit| work.bytes / limit);
    let earlier: Vec<Taken> =
        earlier.iter().map(|taken| Taken { bytes_s: taken.bytes_s.max(limit_s), ..*taken }).collect();
    super::positive("number of earlier transfers", earlier.len() as f64)?;
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

fn sum(knowledge: &Knowledge, work: &Work) -> std::result::Result<Prediction, Missing> {
    let byte = knowledge.byte.or_else(|| knowledge.bytes_quick.cost(work.bytes));
    let byte = match (byte, work.bytes_per_s_max.map(|limit| 1.0 / limit)) {
        (Some(known), Some(limit)) if limit <= known.median() => Some(known),
        // What nobody has seen may be slower than the limit, by any factor.
        (None, Some(limit)) if !knowledge.carries(work.bytes, 1.0 / limit) => None,
        (_, Some(limit)) => Some(Known { mean_ln: limit.ln(), sd_ln: LIMIT_SPREAD, count: 1 }),
        (known, None) => known,
    };
    let entry = knowledge.entry.or_else(|| knowledge.entries_quick.cost(work.entries));
    let is_small = work.entries <= ENTRIES_FREE.max(knowledge.entries_quick.amount);
    let is_little = work.bytes <= BYTES_FREE.max(knowledge.bytes_quick.amount);
    let all = [
        (Term::Start, knowledge.start, 1.0, 0.0, true),
        (Term::Entries, entry, work.entries, work.entries_sd, !is_small),
        (Term::Bytes, byte, work.bytes, work.bytes_sd, !is_little),
        (Term::Verification, knowledge.back, work.bytes, work.bytes_sd, work.reads_back && work.bytes > 0.0),
        (Term::End, knowledge.end, 1.0, 0.0, true),
    ];
    let (mut parts, mut terms, mut guessed) = (Vec::new(), Vec::new(), Vec::new());
    let mut rests_on = (0.0, 0);
    for (term, known, amount, amount_sd, is_needed) in all {
        let wanted = is_needed || term != Term::Verification && known.is_some() && amount > 0.0;
        if !wanted {
            continue;
        }
        let known = known.ok_or(Missing(term))?;
        let median = known.median() * amount;
        // That of the cost and that of the amount, which is taken as log-normal, too.
        let share = if amount > 0.0 { amount_sd / amount } else { 0.0 };
        let spread = (known.sd_ln.powi(2) + share.powi(2).ln_1p()).sqrt();
        parts.push((median, spread, known.freedom()));
        terms.push((term, median));
        if known.count == 0 {
            guessed.push(term);
        }
        if median > rests_on.0 {
            rests_on = (median, known.count);
        }
    }
    let at = |z: f64| {
        let of = |&(median, spread, freedom): &(f64, f64, f64)| {
            median * (student::quantile(z, freedom) * spread).exp()
        };
        parts.iter().map(of).sum()
    };
    Ok(Prediction {
        seconds: at(0.0),
        low_s: at(-Z_975),
        high_s: at(Z_975),
        p99_s: at(Z_99),
        terms,
        rests_on: rests_on.1,
        guessed,
    })
}

/// What a transfer took, by the same terms, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Taken {
    /// Start-up.
    pub start_s: f64,
    /// Entries.
    pub entries_s: f64,
    /// Bytes.
    pub bytes_s: f64,
    /// Reading back.
    pub back_s: f64,
    /// After the last byte.
    pub end_s: f64,
}

impl Taken {
    /// The time of a term.
    pub fn of(&self, term: Term) -> f64 {
        match term {
            Term::Start => self.start_s,
            Term::Entries => self.entries_s,
            Term::Bytes => self.bytes_s,
            Term::Verification => self.back_s,
            Term::End => self.end_s,
        }
    }

    /// All of it.
    pub fn seconds(&self) -> f64 {
        Term::ALL.iter().map(|&term| self.of(term)).sum()
    }
}

/// Predicted against actual.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What was predicted.
    pub predicted: Prediction,
    /// What it took.
    pub actual: Taken,
    /// Whether that is within the range.
    pub is_within: bool,
    /// The term that was most in error.
    pub wrong: Term,
    /// Actual less predicted of that term, in seconds.
    pub wrong_by_s: f64,
    /// Seconds of the transfer itself that the prediction rests on, where no earlier one said anything; `None` where one did.
    pub after_s: Option<f64>,
}

/// Predicted against actual, or why not.
#[derive(Debug, Clone, PartialEq)]
pub enum Compared {
    /// Both.
    Told(Box<Comparison>),
    /// It took more than one attempt: what the earlier ones did is in its time, and not in its totals.
    CutOff,
    /// Its rate was changed on the way.
    RateChanged,
    /// At most half of it had to be moved: how long it takes to find that out is not predicted.
    LittleMoved,
    /// Nothing is known of this way yet.
    NoProfile,
    /// Of this term nothing is known yet.
    Unknown(Missing),
}

/// Compares.
pub fn compare(predicted: Prediction, actual: Taken) -> Comparison {
    let said =
        |term: Term| predicted.terms.iter().find(|(of, _)| *of == term).map_or(0.0, |(_, seconds)| *seconds);
    let errors = Term::ALL.map(|term| (term, actual.of(term) - said(term)));
    let worst = errors.into_iter().fold((Term::Start, 0.0_f64), |worst, error| {
        if error.1.abs() > worst.1.abs() { error } else { worst }
    });
    let seconds = actual.seconds();
    Comparison {
        is_within: (predicted.low_s..=predicted.high_s).contains(&seconds),
        predicted,
        actual,
        wrong: worst.0,
        wrong_by_s: worst.1,
        after_s: None,
    }
}

/// Whether a time will be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deadline {
    /// In 99 of 100 cases.
    Holds,
    /// More often than not, but not in 99 of 100 cases.
    Uncertain,
    /// Mostly not.
    TooLate,
}

/// The verdict, at P99.
pub fn deadline(prediction: &Prediction, seconds: f64) -> Deadline {
    match () {
        () if prediction.p99_s <= seconds => Deadline::Holds,
        () if prediction.seconds <= seconds => Deadline::Uncertain,
        () => Deadline::TooLate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::history::{History, Moved, Observed};
    use crate::model::is_near;
    use crate::model::noise::Noise;
    use proptest::prelude::*;

    fn certain(cost: f64) -> Option<Known> {
        Some(Known { mean_ln: cost.ln(), sd_ln: 1e-6, count: 4 })
    }

    /// 001 Eq 5's form, by hand: 1 s + 10,000 x 1 ms + 10 GB at 1 GB/s + 2 s = 23 s.
    #[test]
    fn terms_add_up() {
        let knowledge = Knowledge {
            start: certain(1.0),
            entry: certain(1e-3),
            byte: certain(1e-9),
            end: certain(2.0),
            ..Knowledge::default()
        };
        let work = Work { bytes: 1e10, entries: 1e4, ..Work::default() };
        let predicted = predict(&knowledge, &work).unwrap().unwrap();
        assert!(is_near(predicted.seconds, 23.0, 1e-4) && is_near(predicted.p99_s, 23.0, 1e-3));
        assert_eq!(
            predicted.terms.iter().map(|(term, _)| *term).collect::<Vec<_>>(),
            [Term::Start, Term::Entries, Term::Bytes, Term::End]
        );
        let back = Work { reads_back: true, ..work };
        assert_eq!(predict(&knowledge, &back).unwrap(), Err(Missing(Term::Verification)));
        let limited = Work { bytes_per_s_max: Some(1e8), ..work };
        assert!(is_near(predict(&knowledge, &limited).unwrap().unwrap().seconds, 113.0, 0.01));
    }

    /// One term is its own log-normal: 95 % lie within e^(1.96 s) of the median.
    #[test]
    fn one_term_has_the_quantiles_of_the_log_normal() {
        let known = Known { mean_ln: 10f64.ln(), sd_ln: 0.5, count: 3 };
        let knowledge =
            Knowledge { start: certain(1e-9), byte: Some(known), end: certain(1e-9), ..Knowledge::default() };
        // So many bytes that the others are nothing.
        let predicted = predict(&knowledge, &Work { bytes: 1e8, ..Work::default() }).unwrap().unwrap();
        assert!(is_near(predicted.seconds, 1e9, 1e-6));
        // Student's t with 6 degrees of freedom, by the tables: 2.447 and 3.143.
        assert!(is_near(predicted.high_s, 1e9 * (0.5 * 2.447_f64).exp(), 2e-3));
        assert!(is_near(predicted.p99_s, 1e9 * (0.5 * 3.143_f64).exp(), 2e-3));
        assert_eq!(predicted.rests_on, 3);
        // What is as it was said to be has the range of the log-normal itself.
        let said = Knowledge { byte: Some(Known { count: 0, ..known }), ..knowledge };
        let predicted = predict(&said, &Work { bytes: 1e8, ..Work::default() }).unwrap().unwrap();
        assert!(is_near(predicted.high_s, 1e9 * (0.5 * Z_975).exp(), 1e-6));
        assert!(is_near(predicted.p99_s, 1e9 * (0.5 * Z_99).exp(), 1e-6));
    }

    /// By hand: one observation knows nothing of its spread, so 0.3 x sqrt(2); four equal ones 0.3 x sqrt(4/7 x 5/4).
    #[test]
    fn few_observations_are_not_certain() {
        assert_eq!(Known::of(&[]), None);
        assert!(is_near(Known::of(&[2.0]).unwrap().sd_ln, 0.3 * 2f64.sqrt(), 1e-9));
        let four = Known::of(&[2.0; 4]).unwrap();
        assert!(is_near(four.sd_ln, 0.3 * (5.0f64 / 7.0).sqrt(), 1e-9) && is_near(four.median(), 2.0, 1e-9));
        assert!(Known::of(&[1.0, 2.0, 4.0]).unwrap().sd_ln > Known::of(&[2.0; 3]).unwrap().sd_ln);
        // Bounded, whatever was observed.
        assert_eq!(Known::of(&[1e-15, 1.0]).unwrap().sd_ln, SPREAD_MAX);
        assert_eq!(Known::measured(1.0, 1e9).sd_ln, SPREAD_MAX);
    }

    #[test]
    fn the_term_that_was_wrong_is_named() {
        let knowledge =
            Knowledge { start: certain(1.0), byte: certain(1e-9), end: certain(1.0), ..Knowledge::default() };
        let predicted = predict(&knowledge, &Work { bytes: 1e10, ..Work::default() }).unwrap().unwrap();
        let actual = Taken { start_s: 1.1, bytes_s: 15.0, end_s: 0.5, ..Taken::default() };
        let compared = compare(predicted.clone(), actual);
        assert_eq!((compared.wrong, compared.is_within), (Term::Bytes, false));
        assert!(is_near(compared.wrong_by_s, 5.0, 1e-3));
        assert_eq!(deadline(&predicted, 12.1), Deadline::Holds);
        assert_eq!(deadline(&predicted, 11.9), Deadline::TooLate);
    }

    #[test]
    fn what_is_not_known_is_said_and_what_is_next_to_nothing_needs_not_be() {
        let knowledge = Knowledge { start: certain(1.0), end: certain(1.0), ..Knowledge::default() };
        let few = Work { bytes: 1e3, entries: 3.0, ..Work::default() };
        assert!(is_near(predict(&knowledge, &few).unwrap().unwrap().seconds, 2.0, 1e-4));
        let many = Work { entries: 1e5, ..few };
        assert_eq!(predict(&knowledge, &many).unwrap(), Err(Missing(Term::Entries)));
        assert!(predict(&knowledge, &Work { bytes: -1.0, ..few }).is_err());
        // What passed in no time before needs no term of its own; more than that does.
        let (bytes_quick, entries_quick) =
            (Quick { amount: 1e9, seconds: 0.0 }, Quick { amount: 1e6, seconds: 0.0 });
        let quick = Knowledge { bytes_quick, entries_quick, ..knowledge };
        let much = Work { bytes: 1e9, entries: 1e5, ..Work::default() };
        assert!(is_near(predict(&quick, &much).unwrap().unwrap().seconds, 2.0, 1e-4));
        let more = Work { bytes: 2e9, ..much };
        assert_eq!(predict(&quick, &more).unwrap(), Err(Missing(Term::Bytes)));
        // Where its stages worked a moment for it, so much of that is added as there is of it.
        let worked = |quick: Quick| Quick { seconds: 0.16, ..quick };
        let brief = Knowledge {
            bytes_quick: worked(quick.bytes_quick),
            entries_quick: worked(quick.entries_quick),
            ..quick
        };
        let told = predict(&brief, &Work { bytes: 5e8, ..much }).unwrap().unwrap();
        assert!(is_near(told.seconds, 2.0 + 0.08 + 0.016, 1e-4), "{told:?}");
        assert_eq!(predict(&brief, &more).unwrap(), Err(Missing(Term::Bytes)));
    }

    /// 1 GB/s was asked for; nobody knows whether this way carries a tenth of it.
    #[test]
    fn a_rate_limit_is_no_knowledge_of_a_way_that_nobody_has_seen() {
        let knowledge = Knowledge { start: certain(1.0), end: certain(1.0), ..Knowledge::default() };
        let limited =
            |bytes, limit| Work { bytes, entries: 1.0, bytes_per_s_max: Some(limit), ..Work::default() };
        let much = limited(1e11, 1e9);
        assert_eq!(predict(&knowledge, &much).unwrap(), Err(Missing(Term::Bytes)));
        assert!(!knowledge.knows_bytes(&much));
        // So few bytes are taken to pass, and not faster than the limit.
        let few = predict(&knowledge, &limited(4e6, 1e6)).unwrap().unwrap();
        assert!(is_near(few.seconds, 6.0, 1e-3), "{few:?}");
        // A transfer kept up with such a limit before, and the next one does; a wider one nobody has tried.
        let before = Knowledge { byte_limited: Some(1.05e-9), ..knowledge };
        let told = predict(&before, &much).unwrap().unwrap();
        assert!(is_near(told.seconds, 102.0, 1e-3) && before.knows_bytes(&much), "{told:?}");
        assert!(is_near(predict(&before, &limited(1e11, 1e8)).unwrap().unwrap().seconds, 1002.0, 1e-3));
        assert_eq!(predict(&before, &limited(1e11, 4e9)).unwrap(), Err(Missing(Term::Bytes)));
        let free = Work { bytes_per_s_max: None, ..much };
        assert_eq!(predict(&before, &free).unwrap(), Err(Missing(Term::Bytes)));
    }

    fn moved(work: &Work) -> Moved {
        Moved { bytes: work.bytes, entries: work.entries, ..Moved::default() }
    }

    /// What transfers of a way take, term by term: around these costs, with this spread of the logarithm, of whose square all
    /// terms of a transfer have this share in common.
    #[derive(Clone, Copy)]
    struct Weather {
        start_s: f64,
        entry_s: f64,
        byte_s: f64,
        end_s: f64,
        spread: f64,
        common: f64,
    }

    impl Weather {
        fn transfer(&self, work: &Work, noise: &mut Noise) -> Taken {
            let of_all = self.common.sqrt() * noise.normal();
            let mut around = |cost: f64| {
                let own = (1.0 - self.common).sqrt() * noise.normal();
                cost * (self.spread * (of_all + own)).exp()
            };
            Taken {
                start_s: around(self.start_s),
                entries_s: around(self.entry_s) * work.entries,
                bytes_s: around(self.byte_s) * work.bytes,
                back_s: 0.0,
                end_s: around(self.end_s),
            }
        }

        /// Shares of transfers within the range and at most at P99, of the next one after so many of another work that were
        /// remembered: by the way of every copy, through the history.
        fn held(&self, learned: &Work, earlier: usize, asked: &Work, seed: u64) -> (f64, f64) {
            const WAYS: u32 = 1500;
            let mut noise = Noise::new(seed);
            let (mut within, mut below) = (0, 0);
            for _ in 0..WAYS {
                let mut history = History::new([0; 16]);
                for _ in 0..earlier {
                    let observed = Observed::of(&self.transfer(learned, &mut noise), &moved(learned), false);
                    history.observe("way", observed, None, 1);
                }
                let told = history.of("way", 1).unwrap().predict(asked, 0.0).unwrap().unwrap();
                let seconds = self.transfer(asked, &mut noise).seconds();
                within += u32::from((told.low_s..=told.high_s).contains(&seconds));
                below += u32::from(seconds <= told.p99_s);
            }
            (f64::from(within) / f64::from(WAYS), f64::from(below) / f64::from(WAYS))
        }
    }

    /// One large file, where bytes are most; many small ones, where entries are; both alike; and where start and end are.
    fn shapes() -> [(Weather, Work); 4] {
        let weather = |start_s, entry_s, byte_s, end_s| Weather {
            start_s,
            entry_s,
            byte_s,
            end_s,
            spread: 0.0,
            common: 0.0,
        };
        let work = |bytes, entries| Work { bytes, entries, ..Work::default() };
        [
            (weather(0.1, 1e-3, 1e-9, 0.5), work(1e10, 1.0)),
            (weather(0.1, 1e-4, 1e-9, 0.5), work(1e9, 1e5)),
            (weather(0.5, 1e-3, 1e-9, 0.5), work(1e9, 1e3)),
            (weather(2.0, 1e-3, 1e-9, 2.0), work(1e9, 1e3)),
        ]
    }

    /// Of 1500 drawn from what holds exactly, so many fewer are within three standard errors.
    const CHANCE: [f64; 2] = [0.017, 0.008];

    #[test]
    fn the_range_holds_what_it_says_from_one_earlier_transfer_on() {
        let mut seed = 0;
        for (weather, work) in shapes() {
            for spread in [0.05, 0.2, PRIOR_SPREAD] {
                for earlier in [1, 2, 4, 16] {
                    seed += 1;
                    let (within, below) = Weather { spread, ..weather }.held(&work, earlier, &work, seed);
                    let told = format!("{work:?}, spread {spread}, {earlier} earlier: {within}, {below}");
                    assert!(within >= 0.95 - CHANCE[0] && below >= 0.99 - CHANCE[1], "{told}");
                }
            }
            // More uneven than anybody expects.
            let (within, below) = Weather { spread: 0.4, ..weather }.held(&work, 2, &work, seed);
            assert!(within >= 0.90 - CHANCE[0] && below >= 0.97 - CHANCE[1], "{work:?}: {within}, {below}");
        }
    }

    /// A fifth of the earlier ones, or five times as much: the terms are put together, and a busy machine slows all of them, or
    /// none, or something in between.
    #[test]
    fn the_range_holds_for_transfers_of_another_size_whatever_slows_their_terms_together() {
        let learned = Work { bytes: 1e10, entries: 1e4, ..Work::default() };
        let times = |times: f64| Work {
            bytes: learned.bytes * times,
            entries: learned.entries * times,
            ..Work::default()
        };
        let mut seed = 1000;
        // Seconds of the four terms, of what is asked about.
        for [start_s, entries_s, bytes_s, end_s] in [[5.0, 10.0, 30.0, 5.0], [20.0, 10.0, 10.0, 20.0]] {
            for asked in [times(0.2), times(5.0)] {
                for common in [0.0, 0.5, 1.0] {
                    let weather = Weather {
                        start_s,
                        entry_s: entries_s / asked.entries,
                        byte_s: bytes_s / asked.bytes,
                        end_s,
                        spread: PRIOR_SPREAD,
                        common,
                    };
                    for earlier in [1, 4, 16] {
                        seed += 1;
                        let (within, below) = weather.held(&learned, earlier, &asked, seed);
                        let told =
                            format!("{asked:?}, {common} in common, {earlier} earlier: {within}, {below}");
                        assert!(within >= 0.95 - CHANCE[0] && below >= 0.99 - CHANCE[1], "{told}");
                    }
                }
            }
        }
    }

    /// By hand: four equal terms are as one that is four times as long.
    #[test]
    fn terms_are_taken_to_be_slow_together() {
        let known = Some(Known { mean_ln: 0.0, sd_ln: 0.3, count: 3 });
        let of_four =
            Knowledge { start: known, entry: known, byte: known, end: known, ..Knowledge::default() };
        let told = predict(&of_four, &Work { bytes: 1.0, entries: 1.0, ..Work::default() }).unwrap().unwrap();
        assert!(
            is_near(told.seconds, 4.0, 1e-9) && is_near(told.terms.iter().map(|(_, s)| s).sum(), 4.0, 1e-9)
        );
        // Student's t with 6 degrees of freedom, as above.
        assert!(is_near(told.high_s, 4.0 * (0.3 * 2.447_f64).exp(), 2e-3), "{told:?}");
        assert!(is_near(told.p99_s, 4.0 * (0.3 * 3.143_f64).exp(), 2e-3), "{told:?}");
    }

    /// A range that holds everything says nothing.
    #[test]
    fn the_range_becomes_narrow_where_transfers_are_even() {
        let (weather, work) = &shapes()[0];
        let even = Weather { spread: 0.02, ..*weather };
        let width = |earlier: usize| {
            let mut history = History::new([0; 16]);
            let mut noise = Noise::new(7);
            for _ in 0..earlier {
                let taken = even.transfer(work, &mut noise);
                history.observe("way", Observed::of(&taken, &moved(work), false), None, 1);
            }
            let told = history.of("way", 1).unwrap().predict(work, 0.0).unwrap().unwrap();
            told.high_s / told.low_s
        };
        assert!(width(1) > width(4) && width(4) > width(16), "{} {} {}", width(1), width(4), width(16));
        assert!(width(1) < 12.0 && width(16) < 2.0, "{} {}", width(1), width(16));
    }

    proptest! {
        #[test]
        fn more_is_never_quicker_and_the_range_holds_the_median(
            bytes in 1e7..1e15_f64, entries in 20.0..1e9_f64, more in 1.0..10.0_f64, spread in 0.01..1.0_f64,
            unit in 1e-6..1e6_f64
        ) {
            let known = |cost: f64| Some(Known { mean_ln: cost.ln(), sd_ln: spread, count: 5 });
            let knowledge = Knowledge {
                start: known(0.1), entry: known(1e-5), byte: known(1e-9), end: known(0.2), ..Knowledge::default()
            };
            let work = Work { bytes, entries, ..Work::default() };
            let predicted = predict(&knowledge, &work).unwrap().unwrap();
            prop_assert!(predicted.low_s <= predicted.seconds && predicted.seconds <= predicted.high_s);
            prop_assert!(predicted.high_s <= predicted.p99_s);
            let larger = predict(&knowledge, &Work { bytes: bytes * more, ..work }).unwrap().unwrap();
            prop_assert!(larger.seconds >= predicted.seconds * 0.999);
            let vague = predict(&knowledge, &Work { bytes_sd: bytes, ..work }).unwrap().unwrap();
            prop_assert!(vague.high_s / vague.low_s >= predicted.high_s / predicted.low_s * 0.999);
            // Another unit of time changes the numbers, and nothing else.
            let scaled = |known: Option<Known>| known.map(|k| Known { mean_ln: k.mean_ln + unit.ln(), ..k });
            let other = Knowledge {
                start: scaled(knowledge.start), entry: scaled(knowledge.entry), byte: scaled(knowledge.byte),
                end: scaled(knowledge.end), ..knowledge
            };
            let other = predict(&other, &work).unwrap().unwrap();
            prop_assert!(is_near(other.seconds, predicted.seconds * unit, 1e-6));
        }
    }
}
