//! How long a transfer will take, with a range: 001 Eqs 3 and 5, in the terms that a user can do something about.
//!
//! `T = start + entries x per entry + bytes x per byte + bytes x per byte read back + end`
//!
//! The unit costs are those of earlier transfers on the same way ([`crate::history`]). Each is taken as log-normal, as
//! times and rates of transfers are skewed to the slow side: with the mean m of the logarithms of n observations and
//! their variance s^2, the next one is around m with variance `s^2 (1 + 1/n)`. So that few observations do not look
//! certain, s^2 is shrunk towards a prior as if [`PRIOR_WEIGHT`] observations with a spread of [`PRIOR_SPREAD`] had
//! been made before, and the range is that of Student's t with `PRIOR_WEIGHT + n - 1` degrees of freedom
//! ([`super::student`]). The terms are taken to be slow together, as a busy machine makes them: so the quantiles of
//! their sum are the sums of their quantiles (J. Dhaene and others, "The concept of comonotonicity in actuarial science
//! and finance: theory", Insurance: Mathematics and Economics 31, 2002). Where each is slow at another time, the range
//! is wider than it had to be.
//!
//! Where earlier transfers were like the one that is asked about, they are taken as a whole ([`by_alike`]): their times
//! are around one log-normal, with whatever the terms have in common, such as a busy machine, and nothing counted
//! twice. Their prior is what such ones were measured to differ by, term by term ([`BYTES_SPREAD`],
//! [`ENTRIES_SPREAD`]).
//!
//! What a probe found is off by another measure ([`PROBED_SPREAD`]), and lacks slow start ([`slow_start_s`]).
//!
//! Held by simulation: where terms differ by those measures or less, and those of transfers of another size by
//! [`PRIOR_SPREAD`] or less, 95 of 100 are in the range and 99 of 100 below P99, from one earlier transfer on, and
//! whatever its terms have in common. Where they differ by more, few earlier ones know it too late: by a third more, 94
//! of 100 after two; by twice as much, 83 of 100 after one and 89 after six.
//!
//! Valid for transfers of the kind that was observed: where no earlier transfer had many small files, nothing is known
//! of them, and that is said ([`Missing`]).

use super::{Result, not_negative, student};
use serde::{Deserialize, Serialize};

/// What is known of a way.
mod known;

/// From earlier transfers as a whole.
mod alike;

/// Against what it took.
mod comparison;

pub use alike::{BYTES_SPREAD, ENTRIES_SPREAD, by_alike};
pub use comparison::{Compared, Comparison, Deadline, LeftOut, compare, deadline};
pub use known::{
    Knowledge, Known, PRIOR_SPREAD, PRIOR_WEIGHT, PROBED_SPREAD, Quick, SPREAD_MAX, slow_start_s, usual_s,
};

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
    /// Terms that nothing was measured of: usual values, from [`Knowledge::completed`], or what a rate limit lets pass.
    pub guessed: Vec<Term>,
}

impl Prediction {
    /// Whether anything that it says was measured on this way.
    pub fn is_measured(&self) -> bool {
        self.terms.iter().any(|(term, _)| !self.guessed.contains(term))
    }

    /// Of a transfer that is under way: this is for the rest, and so much has passed already.
    pub(crate) fn after(self, passed: &Taken) -> Prediction {
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

fn sum(knowledge: &Knowledge, work: &Work) -> std::result::Result<Prediction, Missing> {
    let byte = knowledge.byte.or_else(|| knowledge.bytes_quick.cost(work.bytes));
    let byte = match (byte, work.bytes_per_s_max.map(|limit| 1.0 / limit)) {
        (Some(known), Some(limit)) if limit <= known.median() => Some(known),
        // What nobody has seen may be slower than the limit, by any factor.
        (None, Some(limit)) if !knowledge.carries(work.bytes, 1.0 / limit) => None,
        (known, Some(limit)) => {
            // So little passes on any way, but that nobody has seen here.
            let count = usize::from(known.is_some() || knowledge.has_seen_bytes());
            Some(Known { mean_ln: limit.ln(), sd_ln: LIMIT_SPREAD, count, freedom: PRIOR_WEIGHT })
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    pub(super) fn certain(cost: f64) -> Option<Known> {
        Some(Known { mean_ln: cost.ln(), sd_ln: 1e-6, count: 4, freedom: 7.0 })
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
        let known = Known { mean_ln: 10f64.ln(), sd_ln: 0.5, count: 3, freedom: 6.0 };
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

    /// By hand: four equal terms are as one that is four times as long.
    #[test]
    fn terms_are_taken_to_be_slow_together() {
        let known = Some(Known { mean_ln: 0.0, sd_ln: 0.3, count: 3, freedom: 6.0 });
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

    proptest! {
        #[test]
        fn more_is_never_quicker_and_the_range_holds_the_median(
            bytes in 1e7..1e15_f64, entries in 20.0..1e9_f64, more in 1.0..10.0_f64, spread in 0.01..1.0_f64,
            unit in 1e-6..1e6_f64
        ) {
            let known = |cost: f64| Some(Known { mean_ln: cost.ln(), sd_ln: spread, count: 5, freedom: 8.0 });
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
