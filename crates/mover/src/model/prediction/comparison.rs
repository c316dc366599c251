//! A prediction against what it took, and against a time that is to be kept.

use super::{Missing, Prediction, Taken, Term};
use serde::{Deserialize, Serialize};

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
    /// Seconds of the transfer itself that the prediction rests on, where no earlier one said anything; `None` where
    /// one did.
    pub after_s: Option<f64>,
    /// What was there already, and is in neither: nothing of it was moved.
    pub left_out: LeftOut,
}

/// What was there when a transfer began, and did not have to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// Content bytes that an earlier attempt had left.
    pub bytes: u64,
    /// Entries that were as they should be.
    pub entries: u64,
}

/// Predicted against actual, or why not.
#[derive(Debug, Clone, PartialEq)]
pub enum Compared {
    /// Both.
    Told(Box<Comparison>),
    /// It took more than one attempt: what the earlier ones did is in its time, and not in its totals. Or for a while
    /// nothing could move.
    CutOff,
    /// Its rate was changed on the way.
    RateChanged,
    /// At most half of it had to be moved: how long it takes to find that out is not predicted. What an earlier attempt
    /// had left of its content is no part of it.
    LittleMoved,
    /// Some of it lay in its stage from an earlier command: that left, and did not come.
    InStage,
    /// Some of it went past its stage.
    PastStage,
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
        left_out: LeftOut::default(),
    }
}

/// Whether a time will be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deadline {
    /// In 99 of 100 cases.
    Holds,
    /// More often than not, but not in 99 of 100 cases; or nothing of this way was measured, and usual values would
    /// keep it.
    Uncertain,
    /// Mostly not.
    TooLate,
}

/// The verdict, at P99. What rests on nothing that was measured holds nothing.
pub fn deadline(prediction: &Prediction, seconds: f64) -> Deadline {
    match () {
        () if prediction.p99_s <= seconds && prediction.is_measured() => Deadline::Holds,
        () if prediction.seconds <= seconds => Deadline::Uncertain,
        () => Deadline::TooLate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use crate::model::prediction::tests::certain;
    use crate::model::prediction::{Knowledge, Known, Work, predict};

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

    /// A few bytes and entries need no terms of their own, and a limit is none that was measured.
    #[test]
    fn no_deadline_holds_on_a_way_of_which_nothing_was_measured() {
        let few = Work { bytes: 4e6, entries: 3.0, ..Work::default() };
        let limited = Work { bytes_per_s_max: Some(1e6), ..few };
        let verdict = |knowledge: Knowledge, work: &Work, seconds: f64| {
            let predicted = predict(&knowledge.completed(0.01, work), work).unwrap().unwrap();
            assert!(predicted.p99_s < 60.0, "{predicted:?}");
            deadline(&predicted, seconds)
        };
        for work in [few, limited] {
            assert_eq!(verdict(Knowledge::default(), &work, 3600.0), Deadline::Uncertain, "{work:?}");
            assert_eq!(verdict(Knowledge::default(), &work, 0.1), Deadline::TooLate, "{work:?}");
            // By a probe, or by a transfer.
            let probed = Knowledge { byte: Some(Known::probed(1e-9, 0.1)), ..Knowledge::default() };
            let seen = Knowledge { start: certain(0.1), end: certain(0.1), ..Knowledge::default() };
            for known in [probed, seen] {
                assert_eq!(verdict(known, &work, 3600.0), Deadline::Holds, "{known:?}, {work:?}");
            }
        }
    }
}
