//! Whether a result is one that its suite would give today.
//!
//! 1. The suite says what it would do with the options that the result was made with: nothing is run for that, and
//!    nothing tried on this machine.
//! 2. That is held against what the result says: its series and the parameters of their cases, then the budget, then
//!    what was made smaller than the source has it.
//! 3. What differs is told in short: the first of it, and how much more there is.
//!
//! What a result says it left out is not missing. Of what was made smaller only that is compared which both name: to
//! say more of the same run is no other run. What a suite does between two samples (an algorithm, a default of the
//! program) is not seen here: a result names its commit for that.

use super::Wishes;
use super::record::{Quantity, Results, Sample, Scaled};
use super::suite::{Planned, Suite};
use super::table;
use std::collections::{BTreeMap, BTreeSet};

/// So many things that differ are told; of others only how many.
const TOLD: usize = 3;

/// In what a result differs from what its suite would give today with the same options, in words: see [`in_short`].
/// Nothing where nothing does, or where no suite of ours made it.
pub fn difference(results: &Results, wishes: &Wishes) -> Option<String> {
    let about = &results.about;
    if results.is_foreign() {
        return None;
    }
    let suite = Suite::find(&about.suite)?;
    let prepared = match suite.check(wishes).and_then(|()| (suite.prepare)(wishes)) {
        Ok(prepared) => prepared,
        Err(failure) => return Some(format!("its command is refused now: {}", failure.cause)),
    };
    let budget_bytes = suite.has_budget().then(|| suite.budget_bytes(wishes));
    let mut differing = missing(results, &(suite.plan)(wishes));
    differing.extend(other_budget(about.scaling.budget_bytes, budget_bytes));
    differing.extend(other_scales(&about.scaling.changes, &prepared.changes));
    in_short(differing)
}

/// The first of the things that differ, each once, and how many more there are; nothing of none.
pub fn in_short(mut differing: Vec<String>) -> Option<String> {
    let mut known = BTreeSet::new();
    differing.retain(|one| known.insert(one.clone()));
    let more = differing.len().saturating_sub(TOLD);
    differing.truncate(TOLD);
    if more > 0 {
        differing.push(format!("and {more} more"));
    }
    (!differing.is_empty()).then(|| differing.join("; "))
}

/// Series and cases that only one of them has.
fn missing(results: &Results, planned: &[Planned]) -> Vec<String> {
    let mut out = Vec::new();
    if planned.is_empty() {
        return out;
    }
    let cases = results.cases();
    let had: Vec<&Sample> = cases.iter().map(|case| case[0]).collect();
    let of_series = |name: &str| had.iter().copied().filter(|had| had.series == name).collect::<Vec<_>>();
    let is_left_out =
        |wanted: &&Planned| results.left_out.iter().any(|line| wanted.left_out_as.contains(&line.what));
    let wanted = planned.iter().filter(|wanted| !is_left_out(wanted));
    let (lacked, wanted): (Vec<&Planned>, Vec<&Planned>) =
        wanted.partition(|wanted| of_series(&wanted.series).is_empty());
    out.extend(lacked.iter().map(|lacked| format!("lacks series `{}`", lacked.series)));
    let is_planned = |had: &&Sample| planned.iter().any(|wanted| wanted.series == had.series);
    let (known, more): (Vec<&Sample>, Vec<&Sample>) = had.iter().copied().partition(is_planned);
    let more = more.iter().map(|more| &more.series);
    out.extend(more.map(|more| format!("has series `{more}`, which is none of the suite any more")));
    for wanted in wanted {
        let of_series: Vec<_> = of_series(&wanted.series).into_iter().map(|had| &had.parameters).collect();
        if !of_series.iter().any(|had| are_alike(had, &wanted.parameters)) {
            let what = apart(&wanted.parameters, &of_series);
            out.push(format!("lacks {what} in series `{}`", wanted.series));
        }
    }
    for had in known {
        let of_series = planned.iter().filter(|wanted| wanted.series == had.series);
        let of_series: Vec<_> = of_series.map(|wanted| &wanted.parameters).collect();
        if !of_series.iter().any(|wanted| are_alike(&had.parameters, wanted)) {
            let what = apart(&had.parameters, &of_series);
            out.push(format!("has {what} in series `{}`, as the suite has not any more", had.series));
        }
    }
    out
}

type Parameters = BTreeMap<String, Quantity>;

fn are_alike(one: &Parameters, other: &Parameters) -> bool {
    one.len() == other.len()
        && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_alike(value, other)))
}

/// Units of parameters are converted when a result is read: that may cost the last digits.
fn is_alike(one: &Quantity, other: &Quantity) -> bool {
    match (one, other) {
        (Quantity::Number { value: one, unit }, Quantity::Number { value: other, unit: other_unit }) => {
            unit == other_unit && (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
        }
        _ => one == other,
    }
}

/// The first of these parameters whose value none of the others has, in words; all of them where it is their
/// combination that none has.
fn apart(parameters: &Parameters, others: &[&Parameters]) -> String {
    let is_new = |(name, value): &(&String, &Quantity)| {
        !others.iter().any(|other| other.get(*name).is_some_and(|other| is_alike(value, other)))
    };
    let new: Option<Parameters> =
        parameters.iter().find(is_new).map(|(name, value)| [(name.clone(), value.clone())].into());
    let parameters = new.unwrap_or_else(|| parameters.clone());
    if parameters.is_empty() {
        return "a case without parameters".to_owned();
    }
    table::parameters(&Sample { parameters, ..Sample::default() })
}

fn other_budget(had: Option<u64>, wanted: Option<u64>) -> Option<String> {
    let (had, wanted) = (had?, wanted?);
    (had != wanted).then(|| format!("budget differs: {had} bytes, now {wanted}"))
}

/// What both name as made smaller, and not alike.
fn other_scales(had: &[Scaled], wanted: &[Scaled]) -> Vec<String> {
    // A reason that is given besides stands behind a colon.
    let begins =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with(": "));
    let is_alike = |one: &str, other: &str| one == other || begins(one, other) || begins(other, one);
    let differs = |now: &Scaled| {
        let then = had.iter().find(|then| then.what == now.what)?;
        (!is_alike(&then.to, &now.to)).then(|| format!("{} differs: {}, now {}", now.what, then.to, now.to))
    };
    wanted.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{LeftOut, tests::about};
    use crate::bench::suite::SUITES;

    /// What a suite would give, if all of it ran.
    fn fresh(suite: &Suite, wishes: &Wishes) -> Results {
        let mut about = about();
        about.suite = suite.name.to_owned();
        about.scaling.budget_bytes = Some(suite.budget_bytes(wishes));
        about.scaling.changes = (suite.prepare)(wishes).unwrap().changes;
        let of = |planned: Planned| Sample {
            series: planned.series,
            parameters: planned.parameters,
            run: 1,
            wall_s: 1.0,
            ..Sample::default()
        };
        let samples = (suite.plan)(wishes).into_iter().map(of).collect();
        Results { about, samples, left_out: Vec::new(), has_end: false }
    }

    fn of(name: &str) -> (&'static Suite, Wishes, Results) {
        let (suite, wishes) = (Suite::find(name).unwrap(), Wishes::default());
        (suite, wishes.clone(), fresh(suite, &wishes))
    }

    #[test]
    fn what_a_suite_gives_today_is_not_stale() {
        for suite in SUITES {
            let wishes = Wishes::default();
            assert_eq!(difference(&fresh(suite, &wishes), &wishes), None, "{}", suite.name);
            if suite.has_budget() {
                let wishes = Wishes { budget_bytes: Some(96 << 20), ..wishes };
                assert_eq!(difference(&fresh(suite, &wishes), &wishes), None, "{}", suite.name);
            }
        }
        let told = [
            "order",
            "slots",
            "storage",
            "frames",
            "path",
            "streams",
            "concurrency",
            "congest",
            "hop",
            "layout",
            "cca",
        ];
        for name in told {
            assert!(!of(name).2.samples.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_result_that_lacks_a_series_is_stale_and_names_it() {
        let (_, wishes, mut results) = of("slots");
        results.samples.retain(|sample| sample.series != "slots, long deadline");
        let told = difference(&results, &wishes);
        assert_eq!(told.as_deref(), Some("lacks series `slots, long deadline`"));
        let (_, wishes, mut results) = of("slots");
        results.samples[0].series = "folklore".into();
        let told = difference(&results, &wishes).unwrap();
        assert!(told.starts_with("has series `folklore`"), "{told}");
    }

    #[test]
    fn a_result_that_lacks_a_place_on_its_axis_is_stale_and_names_that() {
        let (_, wishes, whole) = of("order");
        let mut results = whole.clone();
        results.samples.retain(|sample| sample.parameter("threads") != Some(32.0));
        let told = difference(&results, &wishes).unwrap();
        assert!(told.starts_with("lacks threads 32 in series `reading, "), "{told}");
        // One case alone, each of whose values the others have.
        let mut results = whole.clone();
        results.samples.remove(0);
        let told = difference(&results, &wishes).unwrap();
        assert!(told.contains("threads") && told.contains("request_size"), "{told}");
        let mut results = whole;
        let odd = results.samples[0].clone().with("threads", Quantity::number(3.0, "1"));
        results.samples.push(odd);
        let told = difference(&results, &wishes).unwrap();
        assert!(told.starts_with("has threads 3 in series "), "{told}");
    }

    #[test]
    fn a_setting_or_a_budget_that_is_another_makes_a_result_stale() {
        let (_, wishes, whole) = of("order");
        let mut results = whole.clone();
        let disks = results.about.scaling.changes.iter_mut().find(|change| change.what == "disks").unwrap();
        disks.to = disks.to.replace("queue=4", "queue=1");
        let told = difference(&results, &wishes).unwrap();
        assert!(told.starts_with("disks differs: ") && told.contains("queue=4"), "{told}");
        let mut results = whole.clone();
        results.about.scaling.budget_bytes = Some(1);
        assert!(difference(&results, &wishes).unwrap().starts_with("budget differs: 1 bytes, now "));
        // A reason that is given besides, or a setting that is told anew, is no other run.
        let mut results = whole;
        results.about.scaling.changes.remove(0);
        results.about.scaling.changes[0].to += ": as the paper has it";
        assert_eq!(difference(&results, &wishes), None);
    }

    #[test]
    fn all_that_differs_is_told_each_once_and_beyond_three_it_is_counted() {
        let of = |differing: &[&str]| in_short(differing.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a", "b", "a"]).unwrap(), "a; b");
        assert_eq!(of(&["a", "b", "c", "a"]).unwrap(), "a; b; c");
        assert_eq!(of(&["a", "b", "c", "d", "e"]).unwrap(), "a; b; c; and 2 more");
        let (_, wishes, mut results) = self::of("order");
        results.about.scaling.budget_bytes = Some(1);
        results.samples.retain(|sample| sample.parameter("threads") != Some(32.0));
        let told = difference(&results, &wishes).unwrap();
        assert_eq!(told.matches("lacks threads 32 in series `").count(), 3, "{told}");
        assert!(told.contains("; and ") && told.ends_with(" more"), "{told}");
        results.samples = fresh(Suite::find("order").unwrap(), &wishes).samples;
        results.samples.retain(|sample| sample.series != "writing, the disk of --dir, none");
        let told = difference(&results, &wishes).unwrap();
        assert!(told.contains("lacks series `writing, the disk of --dir, none`; budget differs: "), "{told}");
    }

    #[test]
    fn what_a_result_says_that_it_left_out_is_not_missing() {
        let (_, wishes, mut results) = of("order");
        let what = "writing, the disk of --dir";
        results.samples.retain(|sample| !sample.series.starts_with(what));
        assert!(difference(&results, &wishes).unwrap().starts_with("lacks series "));
        results.left_out.push(LeftOut { what: what.into(), why: "it takes none".into() });
        assert_eq!(difference(&results, &wishes), None);
    }

    #[test]
    fn what_others_measured_has_no_suite_of_ours_to_be_held_against() {
        let (_, wishes, mut results) = of("slots");
        results.samples.clear();
        results.about.suite = "iperf3".into();
        assert_eq!(difference(&results, &wishes), None);
    }

    #[test]
    fn a_command_that_is_refused_now_makes_its_result_stale() {
        let (_, _, results) = of("slots");
        let wishes = Wishes { rate_bits_per_s: Some(1), ..Wishes::default() };
        assert!(difference(&results, &wishes).unwrap().starts_with("its command is refused now: "));
    }
}
