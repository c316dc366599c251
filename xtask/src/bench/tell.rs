//! How results are told: whether a goal is met, medians with their intervals, on what something was measured, and why
//! that is to be taken with care. Suites, other chores that measure, and the pages made of results all say it so.

use crate::bench::record::{Results, Sample};
use crate::bench::suite::usual_runs;
use thalweg_lab::bench::record::About;
use thalweg_lab::bench::statistics::{self, Interval, Series};

/// A bound that is to be kept.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// `met`, or by how much it is missed.
    pub fn verdict(self, value: f64) -> String {
        self.verdict_showing(value, |bound| bound.to_string())
    }

    /// Of the median of these; [`UNSURE`] follows where other runs might as well have told the opposite.
    pub fn verdict_of(self, values: &[f64]) -> String {
        self.verdict_within(statistics::median(values), values)
    }

    /// Of the median of the ratios within rounds.
    pub fn verdict_of_ratio(self, above: &Series, below: &Series) -> String {
        self.verdict_of(&statistics::ratios(above, below))
    }

    /// The same, and none if fewer rounds than [`RUNS_MIN`] have both: from one or two a sample may be gone that was
    /// off to one side.
    pub fn verdict_of_rounds(self, above: &Series, below: &Series) -> String {
        let ratios = statistics::ratios(above, below);
        match ratios.len() {
            rounds if rounds > 0 && rounds < RUNS_MIN => {
                let asked = self.asked(|bound| bound.to_string());
                let plural = if rounds == 1 { "" } else { "s" };
                format!("{asked}{NO_VERDICT}, {rounds} round{plural}, fewer than {RUNS_MIN}")
            }
            _ => self.verdict_of(&ratios),
        }
    }

    /// Of a value that is as sure as the median of these.
    pub fn verdict_within(self, value: f64, values: &[f64]) -> String {
        let reaches_beyond = |interval: Interval| interval.low < self.bound() && self.bound() < interval.high;
        let is_unsure = !value.is_nan() && statistics::median_interval(values).is_some_and(reaches_beyond);
        self.verdict(value) + if is_unsure { UNSURE } else { "" }
    }

    fn bound(self) -> f64 {
        match self {
            Goal::AtMost(bound) | Goal::AtLeast(bound) => bound,
        }
    }

    /// What is asked: `at least 0.8`.
    fn asked(self, shown: impl Fn(f64) -> String) -> String {
        let word = match self {
            Goal::AtMost(_) => "at most",
            Goal::AtLeast(_) => "at least",
        };
        format!("{word} {}", shown(self.bound()))
    }

    /// The same as [`Goal::verdict`], with its bound in words.
    pub fn verdict_showing(self, value: f64, shown: impl Fn(f64) -> String) -> String {
        let asked = self.asked(shown);
        let missed_by = match self {
            Goal::AtMost(bound) => value / bound - 1.0,
            Goal::AtLeast(bound) => 1.0 - value / bound,
        };
        if value.is_nan() {
            return format!("{asked}: not measured");
        }
        match missed_by <= 0.0 {
            true => format!("{asked}: met"),
            false => format!("{asked}: **missed by {:.1} %**", missed_by * 100.0),
        }
    }
}

/// What stands behind a bound in place of a verdict where something was measured, and not often enough.
pub const NO_VERDICT: &str = ": no verdict";

/// What stands behind a verdict if the bound is inside the interval in which the median lies: met or missed, the runs
/// do not prove it.
pub const UNSURE: &str = ", not sure";

/// What a line begins with that says why a result is to be taken with care.
pub const WEAK: &str = "**Weak:** ";

/// What a line begins with that says that a result is not what its suite would give today.
pub const STALE: &str = "**Stale:** ";

/// That line, with what differs; nothing where nothing does.
pub fn staleness(difference: Option<String>) -> Option<String> {
    difference.map(|difference| format!("{STALE}{difference}."))
}

/// The same, as it is put behind something else.
pub fn stale_behind(difference: Option<String>) -> String {
    difference.map(|difference| format!("; stale: {difference}")).unwrap_or_default()
}

/// Counted runs below which a result is weak: of two nobody knows which is the odd one.
pub const RUNS_MIN: usize = 3;

/// That line, of a result with so many runs, [`fewer`] than usual or not, from a machine with this load (mean number of
/// runnable processes in the minute before) and so many cores; nothing where there is no reason.
pub fn weakness(runs: usize, fewer: Option<String>, load: f64, cores: f64) -> Option<String> {
    weak(runs, fewer, load, cores).map(|why| format!("{WEAK}{why}."))
}

/// That a result was asked for fewer runs than its suite makes by default, where that is known.
pub fn fewer(runs: usize, usual: Option<usize>) -> Option<String> {
    let usual = usual.filter(|usual| runs < *usual)?;
    Some(format!("{}, {usual} by default", runs_of(runs)))
}

/// The reasons alone.
pub fn weak(runs: usize, fewer: Option<String>, load: f64, cores: f64) -> Option<String> {
    let few = (runs < RUNS_MIN).then(|| format!("{}, fewer than {RUNS_MIN}", runs_of(runs))).or(fewer);
    let reasons: Vec<String> = [few, busy(load, cores)].into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// All reasons why a result of `thalweg bench` is to be taken with care.
pub fn weak_reasons(about: &About) -> Vec<String> {
    let (machine, runs) = (&about.machine, about.iterations as usize);
    let fewer = fewer(runs, usual_runs(&about.suite));
    let weak = weak(runs, fewer, machine.load, machine.cores.into());
    let rootless = rootless_why(about.commit.as_deref()).map(str::to_owned);
    [weak, rootless].into_iter().flatten().collect()
}

/// The same line, of a result whose program nobody can build again: by the commit that it says, if it says one.
pub fn rootless(commit: Option<&str>) -> Option<String> {
    rootless_why(commit).map(|why| format!("{WEAK}{why}."))
}

/// The reason alone.
pub fn rootless_why(commit: Option<&str>) -> Option<&'static str> {
    match commit {
        None | Some("" | "unknown") => Some("the program's commit is not known"),
        Some(commit) if commit.ends_with("-dirty") => Some("sources had been changed since the commit"),
        Some(_) => None,
    }
}

/// That a machine had more to do than it has cores before a measurement began; nothing where it had not, or nobody
/// knows.
pub fn busy(load: f64, cores: f64) -> Option<String> {
    (load > cores).then(|| format!("busy machine: load {load:.2} before it began, on {cores} cores"))
}

/// Load and cores of what a result was measured on; 0 where it does not say.
pub fn busyness(about: &About) -> (f64, f64) {
    (about.machine.load, about.machine.cores.into())
}

/// On what a result was measured: `AMD EPYC (2 cores), Linux 6.12.1, ext4`.
pub fn machine_of(about: &About) -> String {
    let machine = &about.machine;
    format!("{} ({} cores), {}, {}", machine.cpu, machine.cores, machine.kernel, machine.file_system)
}

/// `1 run`, `3 runs`.
pub fn runs_of(runs: usize) -> String {
    format!("{runs} run{}", if runs == 1 { "" } else { "s" })
}

/// The line that says that so many runs over an emulated path were spoilt.
pub fn void_of(so_many: &str) -> String {
    format!(
        "**{so_many}**: this machine was too slow for the path and lost packets of it; they are in no figure."
    )
}

/// The median of a series.
pub fn median_of(series: &Series) -> f64 {
    statistics::median(&statistics::values(series))
}

/// Largest over smallest of a series.
pub fn spread_of(series: &Series) -> f64 {
    statistics::spread(&statistics::values(series))
}

/// `median [low–high]`
pub fn with_interval(series: &Series) -> String {
    shown(&statistics::values(series))
}

/// Median of the ratios within rounds, with its interval.
pub fn ratio(above: &Series, below: &Series) -> String {
    shown(&statistics::ratios(above, below))
}

/// Median of the ratios within rounds.
pub fn ratio_median(above: &Series, below: &Series) -> f64 {
    statistics::median(&statistics::ratios(above, below))
}

/// Median of these with its interval; one alone has none.
pub fn shown(values: &[f64]) -> String {
    let median = statistics::median(values);
    match statistics::median_interval(values) {
        Some(_) if values.len() == 1 => number(median),
        Some(interval) => {
            format!("{} [{}–{}]", number(median), number(interval.low), number(interval.high))
        }
        None => "not measured".to_owned(),
    }
}

/// What the emulated path itself cost in the runs of a tool that count: see [`wire_cost_of`].
pub fn wire_cost(results: &Results, scenario: &str, tool: &str) -> String {
    wire_cost_of(&results.of(scenario, tool).collect::<Vec<_>>())
}

/// What the emulated path itself cost in these runs, which all took one, in CPU seconds for 10⁹ bytes that it carried:
/// median with its interval. Results from before it was noted do not say.
pub fn wire_cost_of(runs: &[&Sample]) -> String {
    wire_costs(runs.len(), runs.iter().filter_map(|sample| sample.wire_cpu_s_per_gb).collect())
}

/// The same of so many runs, of which it was noted in some.
pub fn wire_costs(runs: usize, noted: Vec<f64>) -> String {
    if runs > 0 && noted.is_empty() { "not recorded".to_owned() } else { shown(&noted) }
}

/// Stands where no emulated path was taken.
pub const NO_WIRE: &str = "–";

/// Three significant digits or more.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The day on which a result was begun: `2026-11-22`.
pub fn day(about: &About) -> &str {
    about.date.split('T').next().unwrap_or_default()
}

/// Which commit of the program made a result, as it is put behind something else; nothing where the result does not say
/// it.
pub fn commit(about: &About) -> String {
    about.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"))
}

/// These reasons, as they are put behind something else; nothing where there is none.
pub fn weak_behind(about: &About) -> String {
    let reasons = weak_reasons(about);
    if reasons.is_empty() { String::new() } else { format!("; weak: {}", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_lab::bench::record::Machine;

    #[test]
    fn a_goal_that_is_missed_says_by_how_much() {
        assert_eq!(Goal::AtMost(1.15).verdict(1.10), "at most 1.15: met");
        assert_eq!(Goal::AtMost(2.0).verdict(3.0), "at most 2: **missed by 50.0 %**");
        assert_eq!(Goal::AtLeast(0.8).verdict(0.8), "at least 0.8: met");
        assert_eq!(Goal::AtLeast(0.8).verdict(0.6), "at least 0.8: **missed by 25.0 %**");
        assert_eq!(Goal::AtLeast(0.8).verdict(f64::NAN), "at least 0.8: not measured");
    }

    #[test]
    fn a_verdict_of_a_median_is_not_sure_where_its_interval_reaches_beyond_the_bound_on_both_sides() {
        let goal = Goal::AtLeast(0.95);
        assert_eq!(goal.verdict_of(&[0.9, 0.96, 0.97]), "at least 0.95: met, not sure");
        assert_eq!(goal.verdict_of(&[0.9, 0.76, 0.97]), "at least 0.95: **missed by 5.3 %**, not sure");
        assert_eq!(goal.verdict_of(&[0.95, 0.96, 0.97]), "at least 0.95: met");
        assert_eq!(Goal::AtMost(1.05).verdict_of(&[1.1, 1.26, 1.3]), "at most 1.05: **missed by 20.0 %**");
        // Of one run nobody knows the interval; that a result has too few is said elsewhere.
        assert_eq!(goal.verdict_of(&[0.96]), "at least 0.95: met");
        assert_eq!(goal.verdict_of(&[]), "at least 0.95: not measured");
        assert_eq!(goal.verdict_within(f64::NAN, &[0.9, 1.0]), "at least 0.95: not measured");
        let rounds = |values: [f64; 3]| (1..).zip(values).collect::<Series>();
        let (above, below) = (rounds([1.8, 2.0, 3.0]), rounds([2.0; 3]));
        assert_eq!(goal.verdict_of_ratio(&above, &below), "at least 0.95: met, not sure");
        assert_eq!(goal.verdict_of_rounds(&above, &below), "at least 0.95: met, not sure");
    }

    #[test]
    fn of_one_or_two_rounds_with_both_there_is_no_verdict_and_none_at_all_are_not_measured() {
        let rounds = |runs: std::ops::RangeInclusive<usize>| runs.map(|run| (run, 2.0)).collect::<Series>();
        let told = |above: Series| Goal::AtLeast(0.97).verdict_of_rounds(&above, &rounds(1..=3));
        assert_eq!(told(rounds(1..=3)), "at least 0.97: met");
        assert_eq!(told(rounds(2..=4)), "at least 0.97: no verdict, 2 rounds, fewer than 3");
        assert_eq!(told(rounds(3..=5)), "at least 0.97: no verdict, 1 round, fewer than 3");
        assert_eq!(told(rounds(4..=6)), "at least 0.97: not measured");
    }

    #[test]
    fn a_result_of_a_program_that_nobody_can_build_again_is_weak() {
        assert_eq!((rootless(Some("bc7c365")), rootless_why(Some("bc7c365"))), (None, None));
        let dirty = rootless(Some("bc7c365-dirty")).unwrap();
        assert_eq!(dirty, "**Weak:** sources had been changed since the commit.");
        for unknown in [None, Some("unknown")] {
            assert_eq!(rootless(unknown).unwrap(), "**Weak:** the program's commit is not known.");
        }
    }

    #[test]
    fn a_result_of_fewer_runs_than_its_suite_makes_by_default_is_weak() {
        let told = |runs: usize, usual: Option<usize>| weakness(runs, fewer(runs, usual), 0.5, 2.0);
        assert_eq!(told(3, Some(5)).unwrap(), "**Weak:** 3 runs, 5 by default.");
        assert_eq!((told(5, Some(5)), told(7, Some(5)), told(3, None)), (None, None, None));
        assert_eq!(told(2, Some(5)).unwrap(), "**Weak:** 2 runs, fewer than 3.");
        let about = |suite: &str| About { suite: suite.into(), iterations: 3, ..About::default() };
        let usual = usual_runs("limit").unwrap();
        assert_eq!(weak_reasons(&about("limit"))[0], format!("3 runs, {usual} by default"));
        assert!(weak_reasons(&about("folklore")).iter().all(|why| !why.contains("by default")));
    }

    #[test]
    fn the_load_is_read_as_the_results_have_it() {
        let machine = Machine { load: 2.28, cores: 2, ..Machine::default() };
        let (load, cores) = busyness(&About { machine, ..About::default() });
        assert_eq!(busy(load, cores).unwrap(), "busy machine: load 2.28 before it began, on 2 cores");
        let (load, cores) = busyness(&About::default());
        assert_eq!(busy(load, cores), None);
    }

    #[test]
    fn a_figure_is_shown_with_its_interval() {
        let series = Series::from([(1, 1.0), (2, 12.0), (3, 200.0)]);
        assert_eq!(with_interval(&series), "12.0 [1.00–200]");
        assert_eq!(with_interval(&Series::new()), "not measured");
    }
}
