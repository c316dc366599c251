//! The section of docs/performance.md on clients that share a line (`thalweg bench congest`): what 003 says of them
//! (section 4, Figs 2 and 3), as goals that can be missed.
//!
//! Each ratio is taken within a round; of several loads that one is told, and judged, at which its median is the worst.

use super::streaming::{measured, path_cost};
use crate::bench::tell::{self, Goal};
use std::fmt::Write;
use thalweg_lab::bench::record::{Quantity, Results, Sample};
use thalweg_lab::bench::statistics::{Series, median, ratios};
use thalweg_lab::bench::suite::{BEGINS, FITTED};
use thalweg_lab::plot::unit::Unit;

pub(super) const ASKS: &str = "\
How long does the longest transfer take when many clients share a line and each connects anew, all at once or evenly apart \
(003 Figs 2 and 3)? *Alone* is the median transfer where one client begins each second: it has the line for itself. Each ratio \
is that at the load where it is the worst. Goals: scheduled ones take at most 1.5 × the time alone up to 64 % load; at most as \
long as simultaneous ones at each load that the line carries, but for that of one client a second, which begins alone either \
way; beyond 90 % simultaneous ones grow more than linearly: their longest, over the load, is at least 1.1 × what it is at the \
highest load below 90 %, where 1 would be linear.";

/// Up to here transfers do not lie over each other if they begin evenly apart.
const ROOMY_LOAD_MAX: f64 = 0.64;
/// From here on queues grow beyond the load.
const FULL_LOAD_MIN: f64 = 0.9;

const STAYS_NEAR: Goal = Goal::AtMost(1.5);
const WORTH_IT: Goal = Goal::AtMost(1.0);
const GROWS: Goal = Goal::AtLeast(1.1);

const SCHEDULED: &str = "scheduled";
const SIMULTANEOUS: &str = "simultaneous";

/// What was measured of connections that begin in one way, with one number of streams.
struct Clients<'a>(Vec<&'a Sample>);

impl Clients<'_> {
    fn loads(&self) -> Vec<f64> {
        values(&self.0, "load")
    }

    /// A figure by round.
    fn of(&self, starts: &str, load: f64, figure: &str) -> Series {
        let of = |sample: &&Sample| {
            let is_it = word(sample, "starts") == Some(starts) && sample.parameter("load") == Some(load);
            let value = measured(sample, figure).filter(|_| is_it)?;
            Some((sample.run as usize, value))
        };
        self.0.iter().filter_map(of).collect()
    }

    /// The longest of simultaneous ones, over the load.
    fn over_load(&self, load: f64) -> Series {
        let longest = self.of(SIMULTANEOUS, load, "worst");
        longest.into_iter().map(|(run, seconds)| (run, seconds / load)).collect()
    }

    fn row(&self) -> Option<String> {
        let loads = self.loads();
        let at = |from: f64, to: f64| -> Vec<f64> {
            loads.iter().copied().filter(|load| (from..=to).contains(load)).collect()
        };
        let longest = |starts: &str, load: f64| self.of(starts, load, "worst");
        let alone = self.of(SCHEDULED, *loads.first()?, "p50");
        let near =
            worst(STAYS_NEAR, &at(0.0, ROOMY_LOAD_MAX), |load| ratios(&longest(SCHEDULED, load), &alone));
        // One client a second begins alone either way, and beyond the line's rate there is no time for all.
        let worth = worst(WORTH_IT, &at(0.2, 1.0), |load| {
            ratios(&longest(SCHEDULED, load), &longest(SIMULTANEOUS, load))
        });
        let below = loads.iter().copied().rfind(|load| *load < FULL_LOAD_MIN);
        let base = below.map(|load| self.over_load(load)).unwrap_or_default();
        let grows =
            worst(GROWS, &at(FULL_LOAD_MIN, f64::INFINITY), |load| ratios(&self.over_load(load), &base));
        Some(format!(
            "{} | {} | {} | {}",
            tell::with_interval(&alone),
            cells(STAYS_NEAR, near),
            cells(WORTH_IT, worth),
            cells(GROWS, grows)
        ))
    }
}

fn word<'a>(sample: &'a Sample, name: &str) -> Option<&'a str> {
    sample.parameters.get(name).and_then(Quantity::word)
}

/// Different values of a parameter, rising.
fn values(samples: &[&Sample], parameter: &str) -> Vec<f64> {
    let mut values: Vec<f64> = samples.iter().filter_map(|sample| sample.parameter(parameter)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The load at which the median of these ratios is farthest on the wrong side, and they; loads without any do not
/// count.
fn worst(goal: Goal, loads: &[f64], at: impl Fn(f64) -> Vec<f64>) -> Option<(f64, Vec<f64>)> {
    let mut all: Vec<(f64, Vec<f64>)> = loads.iter().map(|load| (*load, at(*load))).collect();
    all.retain(|(_, ratios)| !ratios.is_empty());
    all.sort_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
    match goal {
        Goal::AtMost(_) => all.pop(),
        Goal::AtLeast(_) => all.into_iter().next(),
    }
}

/// A ratio, and its verdict.
fn cells(goal: Goal, found: Option<(f64, Vec<f64>)>) -> String {
    match found {
        Some((load, ratios)) => {
            let place = Unit::Share.show(load);
            format!("{}, at {place} | {}", tell::shown(&ratios), goal.verdict_of(&ratios))
        }
        None => format!("– | {}", goal.verdict(f64::NAN)),
    }
}

/// The table.
pub(super) fn tell(results: &Results) -> String {
    let mut out = String::from(
        "| connections begin | streams | alone, s | scheduled against alone | goal | scheduled against simultaneous | goal | \
         simultaneous over load, against below 90 % | goal | the path's own CPU-s/GB |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for is_fitted in [false, true] {
        let is_it = |sample: &&Sample| (word(sample, BEGINS) == Some(FITTED)) == is_fitted;
        let all: Vec<&Sample> = results.counting().filter(is_it).collect();
        for streams in values(&all, "streams") {
            let mut some = all.clone();
            some.retain(|sample| sample.parameter("streams") == Some(streams));
            let clients = Clients(some);
            let Some(row) = clients.row() else { continue };
            let begins = if is_fitted { FITTED } else { "with the kernel's initial window" };
            let cost = path_cost(results, &clients.0);
            let _ = writeln!(out, "| {begins} | {streams} | {row} | {cost} |");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::results;

    /// Three rounds of both ways to start at one load: the longest of each.
    fn at(load: f64, scheduled: f64, simultaneous: f64) -> Vec<Sample> {
        let of = |starts: &str, worst: f64, run: u32| {
            let number = |value: f64| Quantity::number(value, "1");
            let sample = Sample { run, wall_s: 1.0, bytes: 1, ..Sample::default() };
            let sample = sample.with("starts", starts.into()).with("load", number(load));
            let sample = sample.with("streams", number(4.0)).measured("worst", worst, "s");
            sample.measured("p50", 0.25, "s")
        };
        (1..=3).flat_map(|run| [of(SCHEDULED, scheduled, run), of(SIMULTANEOUS, simultaneous, run)]).collect()
    }

    fn told(samples: Vec<Sample>) -> String {
        let mut results = results::all().unwrap().remove(0).1;
        results.samples = samples;
        tell(&results)
    }

    #[test]
    fn a_schedule_that_keeps_transfers_apart_meets_its_goals_where_starts_at_once_pile_up() {
        let told =
            told([at(0.16, 0.26, 0.26), at(0.64, 0.3, 0.8), at(0.8, 0.5, 1.0), at(0.96, 0.6, 1.8)].concat());
        let row = "| 4 | 0.250 [0.250–0.250] | 1.20 [1.20–1.20], at 64 % | at most 1.5: met | 0.500 [0.500–0.500], \
                   at 80 % | at most 1: met | 1.50 [1.50–1.50], at 96 % | at least 1.1: met |";
        assert!(told.contains(row), "{told}");
        let columns = |row: &str| row.matches('|').count();
        assert!(told.lines().all(|row| columns(row) == columns(told.lines().next().unwrap())), "{told}");
    }

    #[test]
    fn each_goal_is_missed_where_it_is_not_so_and_not_measured_where_the_loads_are_not_there() {
        let bad = told([at(0.16, 0.26, 0.26), at(0.64, 0.5, 0.4), at(0.96, 0.9, 0.6)].concat());
        for part in [
            "2.00 [2.00–2.00], at 64 % | at most 1.5: **missed by 33.3 %**",
            "1.50 [1.50–1.50], at 96 % | at most 1: **missed by 50.0 %**",
            "1.00 [1.00–1.00], at 96 % | at least 1.1: **missed by 9.1 %**",
        ] {
            assert!(bad.contains(part), "{part}: {bad}");
        }
        let alone = told(at(0.16, 0.26, 0.26));
        assert!(
            alone.contains("| – | at most 1: not measured | – | at least 1.1: not measured |"),
            "{alone}"
        );
        // One of several rounds does not decide: the interval says so.
        let mut odd = [at(0.16, 0.26, 0.26), at(0.64, 0.3, 0.8)].concat();
        let slow = odd.iter_mut().rfind(|sample| word(sample, "starts") == Some(SCHEDULED)).unwrap();
        slow.measured.insert("worst".to_owned(), Quantity::number(0.9, "s"));
        assert!(told(odd).contains("1.20 [1.20–3.60], at 64 % | at most 1.5: met, not sure |"));
    }

    #[test]
    fn the_committed_result_has_a_verdict_of_each_goal_for_each_way_to_begin_and_number_of_streams() {
        let all = results::all().unwrap();
        for (_, results) in all.iter().filter(|(_, results)| results.about.suite == "congest") {
            let told = tell(results);
            assert_eq!(told.lines().count(), 2 + 6, "{told}");
            assert!(!told.contains("not measured") && !told.contains("NaN"), "{told}");
        }
    }
}
