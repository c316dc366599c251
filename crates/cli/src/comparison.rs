//! Predicted against actual, in words.

use crate::units;
use thalweg_mover::model::prediction::{Compared, Comparison, LeftOut, Term};

/// Behind the last line of a copy. That nothing was predicted says nothing of the copy: only `verbose` has it.
pub fn short(compared: &Compared, verbose: bool) -> String {
    match compared {
        Compared::CutOff
        | Compared::RateChanged
        | Compared::LittleMoved
        | Compared::InStage
        | Compared::PastStage
        | Compared::NoProfile
        | Compared::Unknown(_)
            if !verbose =>
        {
            String::new()
        }
        Compared::CutOff => {
            "; not held against a prediction: it took more than one attempt, or stood still".to_owned()
        }
        Compared::RateChanged => {
            "; not held against a prediction: its rate was changed on the way".to_owned()
        }
        Compared::LittleMoved => "; not predicted: at most half of it had to be moved".to_owned(),
        Compared::InStage => {
            "; not held against a prediction: some of it lay in the stage from an earlier command".to_owned()
        }
        Compared::PastStage => "; not held against a prediction: some of it went past the stage".to_owned(),
        Compared::NoProfile => "; no profile of this way yet".to_owned(),
        Compared::Unknown(missing) => format!("; no profile of {} on this way yet", missing.0.name()),
        Compared::Told(told) => {
            let predicted = &told.predicted;
            let after = told.after_s.map(|seconds| format!(" after its first {}", units::time(seconds)));
            let range = format!(
                "; predicted {} ({} to {}){}",
                units::time(predicted.seconds),
                units::time(predicted.low_s),
                units::time(predicted.high_s),
                after.unwrap_or_default()
            );
            let verdict = if told.is_within { "most off" } else { "not in the range" };
            format!("{range}{}, {verdict}: {}", left_out(told), wrong(told))
        }
    }
}

/// Term by term.
pub fn details(compared: &Compared) -> Vec<String> {
    let Compared::Told(told) = compared else { return Vec::new() };
    let predicted = &told.predicted;
    let basis = match told.after_s {
        Some(seconds) => format!("its own first {}", units::time(seconds)),
        None => units::counted(predicted.rests_on as u64, "earlier transfer", "earlier transfers"),
    };
    let mut lines = vec![format!(
        "predicted {} ({} to {}, P99 {}) from {basis}{}, took {}: {}",
        units::time(predicted.seconds),
        units::time(predicted.low_s),
        units::time(predicted.high_s),
        units::time(predicted.p99_s),
        left_out(told),
        units::time(told.actual.seconds()),
        wrong(told),
    )];
    lines.extend(Term::ALL.iter().map(|&term| {
        let said = predicted.terms.iter().find(|(of, _)| *of == term).map(|(_, seconds)| *seconds);
        format!(
            "  {:<14} predicted {:>10}  took {:>10}",
            term.name(),
            said.map_or("-".to_owned(), units::time),
            units::time(told.actual.of(term))
        )
    }));
    lines
}

/// What was there already, and is not in what was predicted.
fn left_out(told: &Comparison) -> String {
    let LeftOut { bytes, entries } = told.left_out;
    match (bytes, entries) {
        (0, 0) => String::new(),
        (0, entries) => format!(" without {} found there", units::entries(entries)),
        (bytes, 0) => format!(" without {} found there", units::size(bytes)),
        (bytes, entries) => {
            format!(" without {} and {} found there", units::size(bytes), units::entries(entries))
        }
    }
}

/// The term that was most in error.
fn wrong(told: &Comparison) -> String {
    let (by, word) = (told.wrong_by_s.abs(), if told.wrong_by_s < 0.0 { "less" } else { "more" });
    format!("{} took {} {word}", told.wrong.name(), units::time(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::model::prediction::{Prediction, Taken, compare};

    #[test]
    fn why_nothing_is_compared_is_told_to_who_asks_for_more() {
        for (compared, words) in [
            (Compared::CutOff, "more than one attempt"),
            (Compared::RateChanged, "on the way"),
            (Compared::InStage, "from an earlier command"),
            (Compared::PastStage, "past the stage"),
        ] {
            assert_eq!(short(&compared, false), "");
            assert!(short(&compared, true).contains(words));
            assert!(details(&compared).is_empty());
        }
    }

    #[test]
    fn each_copy_says_what_was_predicted_and_which_term_was_wrong() {
        let predicted = Prediction {
            seconds: 2.0,
            low_s: 1.0,
            high_s: 4.0,
            p99_s: 5.0,
            terms: vec![(Term::Start, 0.5), (Term::Bytes, 1.5)],
            rests_on: 3,
            guessed: Vec::new(),
        };
        let told = |start_s: f64, bytes_s: f64| {
            let taken = Taken { start_s, bytes_s, ..Taken::default() };
            short(&Compared::Told(Box::new(compare(predicted.clone(), taken))), false)
        };
        let range = "; predicted 2.00 s (1.00 s to 4.00 s)";
        assert_eq!(told(0.5, 1.25), format!("{range}, most off: bytes took 250 ms less"));
        assert_eq!(told(4.5, 1.5), format!("{range}, not in the range: start-up took 4.00 s more"));
        let one = Prediction { rests_on: 1, ..predicted.clone() };
        let one = Compared::Told(Box::new(compare(one, Taken::default())));
        assert!(details(&one)[0].contains(" from 1 earlier transfer, took "), "{:?}", details(&one));
        // By its own beginning, where nothing else is known.
        let compared = compare(predicted, Taken { start_s: 0.5, bytes_s: 1.25, ..Taken::default() });
        // Of one that was resumed, by what was left to move.
        let left_out = LeftOut { bytes: 5 << 20, entries: 0 };
        let resumed = Compared::Told(Box::new(Comparison { left_out, ..compared.clone() }));
        let without = format!("{range} without {} found there, most off", units::size(5 << 20));
        assert!(short(&resumed, false).starts_with(&without), "{}", short(&resumed, false));
        assert!(details(&resumed)[0].contains("found there, took 1.75 s"), "{:?}", details(&resumed));
        let by_beginning = Compared::Told(Box::new(Comparison { after_s: Some(0.75), ..compared }));
        let words = short(&by_beginning, false);
        assert!(words.starts_with(&format!("{range} after its first 750 ms, most off")), "{words}");
        assert!(details(&by_beginning)[0].contains("from its own first 750 ms, took 1.75 s"));
    }
}
