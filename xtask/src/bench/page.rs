//! docs/performance.md, made from the committed results: what, how much, which command repeats it, on what machine.

use crate::bench::record::{self, Results};
use crate::bench::streaming;
use crate::bench::suite::{SUITES, Suite};
use crate::{bottlenecks, entries, figures};
use anyhow::Result;
use std::fmt::Write;
use thalweg_lab::bench::record::About;
use thalweg_lab::bench::statistics::{self, Series};

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

    /// The same, with its bound in words.
    pub fn verdict_showing(self, value: f64, shown: impl Fn(f64) -> String) -> String {
        let (word, bound, missed_by) = match self {
            Goal::AtMost(bound) => ("at most", bound, value / bound - 1.0),
            Goal::AtLeast(bound) => ("at least", bound, 1.0 - value / bound),
        };
        let bound = shown(bound);
        if value.is_nan() {
            return format!("{word} {bound}: not measured");
        }
        match missed_by <= 0.0 {
            true => format!("{word} {bound}: met"),
            false => format!("{word} {bound}: **missed by {:.1} %**", missed_by * 100.0),
        }
    }
}

/// The page.
///
/// # Errors
/// If a result file holds something else.
pub fn page() -> Result<String> {
    let mut sections = String::new();
    for suite in SUITES.iter().filter(|suite| suite.title.is_some()) {
        section(&mut sections, suite)?;
    }
    sections += &streaming::sections()?;
    sections += &bottlenecks::section()?;
    sections += &entries::section()?;
    Ok(format!("{HEAD}{}{sections}", summary(&sections)))
}

/// Of each section how many of its goals are met, and by how much the others are missed: counted in what it says.
fn summary(sections: &str) -> String {
    let mut out =
        String::from("\n## All goals\n\n| question | met | missed by | weak |\n|---|---|---|---|\n");
    for section in sections.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        let anchor: String = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        let (met, missed) = (section.matches(": met").count(), missed(section));
        // A goal of which no run counts is not met either.
        let unknown = section.matches(": not measured").count();
        let row = match (met + missed.len() + unknown, section.contains("Not measured yet")) {
            (0, true) => "not measured yet | ".to_owned(),
            (0, false) => continue,
            (goals, _) => {
                let unknown = if unknown > 0 { format!(", {unknown} not measured") } else { String::new() };
                format!("{met} of {goals}{unknown} | {}", missed.join(", "))
            }
        };
        let weak = section.lines().filter_map(|line| line.strip_prefix(WEAK));
        let weak: Vec<&str> = weak.map(|why| why.trim_end_matches('.')).collect();
        let _ = writeln!(out, "| [{title}](#{anchor}) | {row} | {} |", weak.join("; "));
    }
    out
}

/// What a line begins with that says why a result is to be taken with care.
const WEAK: &str = "**Weak:** ";

/// Counted runs below which a result is weak: of two nobody knows which is the odd one.
pub const RUNS_MIN: usize = 3;

/// That line, of a result with so many runs from a machine with this load (mean number of runnable processes in the
/// minute before) and so many cores; nothing where there is no reason.
pub fn weakness(runs: usize, load: f64, cores: f64) -> Option<String> {
    weak(runs, load, cores).map(|why| format!("{WEAK}{why}."))
}

/// The reasons alone.
pub fn weak(runs: usize, load: f64, cores: f64) -> Option<String> {
    let few = (runs < RUNS_MIN).then(|| format!("{}, fewer than {RUNS_MIN}", runs_of(runs)));
    let reasons: Vec<String> = [few, busy(load, cores)].into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// All reasons why a result of `thalweg bench` is to be taken with care.
pub fn weak_reasons(about: &About) -> Vec<String> {
    let machine = &about.machine;
    let weak = weak(about.iterations as usize, machine.load, machine.cores.into());
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

/// By how much goals are missed, as it is written.
fn missed(section: &str) -> Vec<&str> {
    section.split("**missed by ").skip(1).filter_map(|rest| rest.split("**").next()).collect()
}

const HEAD: &str = "\
<!-- Made by `cargo xtask gen` from bench/results. Do not edit. -->

# How fast, measured

Each section answers one question, from runs that are committed in `bench/results`. A command repeats them (as root; it \
installs what it compares with). Losses stand here as plainly as wins.

How to read: figures are medians of interleaved rounds; in brackets stands the interval in which the median lies with 95 % \
confidence, by order statistics (with 5 runs or fewer: the smallest and the largest run, which is less sure); *max/min* is \
the spread. Ratios are taken within a round, then their median, so that drift of the machine cancels out. Wall time includes \
the final sync. CPU seconds are those of all processes of both sides, for each 10⁹ bytes (GB) or each file; the kernel's own \
threads are not in them. An emulated path runs on the same machine: its own process is not in the CPU seconds of a copy, and what it \
cost, for each 10⁹ bytes carried in both directions, stands apart. Every copy was compared with its source afterwards, outside the time. All tools use the same \
congestion control, in a network name space of their own. Absolute figures belong to the machine that is named; ratios travel \
better. A result is *weak*, and says so, with fewer than three runs, where the machine had more to do than it has cores before \
it began, or where the program's commit is not known or its sources had been changed since.
";

fn section(out: &mut String, suite: &Suite) -> Result<()> {
    writeln!(out, "\n## {}\n\n{}\n", suite.title.unwrap_or(suite.name), suite.asks)?;
    let Some(results) = Results::read(suite.name)? else {
        writeln!(out, "Not measured yet. `cargo xtask bench --suite {}`, {}.", suite.name, suite.takes)?;
        return Ok(());
    };
    writeln!(out, "{}", (suite.tell)(&results)?.trim_end())?;
    for line in &results.left_out {
        writeln!(out, "\nLeft out: {}: {}.", line.what, line.why.trim_end_matches('.'))?;
    }
    let about = &results.about;
    let machine = &about.machine;
    let (load, cores) = busyness(about);
    let rootless = rootless(about.commit.as_deref());
    for line in [weakness(results.runs(), load, cores), rootless, void(&results)].iter().flatten() {
        writeln!(out, "\n{line}")?;
    }
    writeln!(
        out,
        "\n`{}`: {}. {} ({} cores, {} GiB), {}, {}, {}; load before it began {load:.2}; {}{}.",
        about.command,
        runs_of(results.runs()),
        machine.cpu,
        machine.cores,
        machine.memory_bytes >> 30,
        machine.kernel,
        machine.file_system,
        about.more.get(record::CONGESTION_CONTROL).map_or("?", String::as_str),
        figures::day(about),
        figures::commit(about),
    )?;
    Ok(())
}

/// That some runs over an emulated path were spoilt; nothing where none was.
fn void(results: &Results) -> Option<String> {
    let all = results.samples.iter().filter(|sample| sample.is_emulated()).count();
    let spoilt = results.samples.iter().filter(|sample| sample.is_void()).count();
    (spoilt > 0).then(|| void_of(&format!("VOID: {spoilt} of {all} runs over an emulated path")))
}

/// The same line, of so many.
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

/// What the emulated path itself cost in these runs, in CPU seconds for 10⁹ bytes that it carried: median with its
/// interval.
pub fn wire_cost(results: &Results, scenario: &str, tool: &str) -> String {
    let costs = results.wire_cpu_s_per_gb(scenario, tool);
    match costs.is_empty() && results.of(scenario, tool).next().is_some() {
        true => "not recorded".to_owned(),
        false => with_interval(&costs),
    }
}

/// Three significant digits or more.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{Load, Sample};
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::{LOST_BY_A_SLOW_MACHINE, Machine};

    #[test]
    fn a_goal_that_is_missed_says_by_how_much() {
        assert_eq!(Goal::AtMost(1.15).verdict(1.10), "at most 1.15: met");
        assert_eq!(Goal::AtMost(2.0).verdict(3.0), "at most 2: **missed by 50.0 %**");
        assert_eq!(Goal::AtLeast(0.8).verdict(0.8), "at least 0.8: met");
        assert_eq!(Goal::AtLeast(0.8).verdict(0.6), "at least 0.8: **missed by 25.0 %**");
        assert_eq!(Goal::AtLeast(0.8).verdict(f64::NAN), "at least 0.8: not measured");
    }

    #[test]
    fn goals_are_counted_section_by_section() {
        let verdicts = [Goal::AtMost(1.0).verdict(0.5), Goal::AtLeast(1.0).verdict(0.75)];
        let sections = format!(
            "\n## A file, far\n\n| {} |\n| {} |\n\n## Nothing asked\n\nx\n\n## Later\n\nNot measured yet.\n",
            verdicts[0], verdicts[1]
        );
        let rows: Vec<String> = summary(&sections).lines().skip(5).map(str::to_owned).collect();
        let later = "| [Later](#later) | not measured yet |  |  |";
        assert_eq!(rows, ["| [A file, far](#a-file-far) | 1 of 2 | 25.0 % |  |", later]);
    }

    #[test]
    fn a_goal_that_was_not_measured_is_counted_as_one() {
        let goal = Goal::AtMost(1.0);
        let told = |values: &[f64]| {
            let verdicts: Vec<String> = values.iter().map(|value| goal.verdict(*value)).collect();
            let sections = format!("\n## Near\n\n| {} |\n", verdicts.join(" |\n| "));
            summary(&sections).lines().last().unwrap().to_owned()
        };
        let row = "| [Near](#near) | 2 of 4, 1 not measured | 50.0 % |  |";
        assert_eq!(told(&[0.5, f64::NAN, 0.25, 1.5]), row);
        assert_eq!(told(&[f64::NAN]), "| [Near](#near) | 0 of 1, 1 not measured |  |  |");
    }

    #[test]
    fn few_runs_and_a_busy_machine_are_said_in_the_section_and_beside_its_goals() {
        assert_eq!(weakness(3, 2.0, 2.0), None);
        assert_eq!(weakness(3, f64::NAN, f64::NAN), None);
        let both = weakness(1, 2.5, 2.0).unwrap();
        assert_eq!(
            both,
            "**Weak:** 1 run, fewer than 3; busy machine: load 2.50 before it began, on 2 cores."
        );
        let met = Goal::AtMost(1.0).verdict(0.5);
        let few = weakness(2, 0.1, 2.0).unwrap();
        let sections = format!("\n## Near\n\n{met}\n\n{both}\n\n## Far\n\n{met}\n\n{few}\n{both}\n");
        let rows: Vec<String> = summary(&sections).lines().skip(5).map(str::to_owned).collect();
        let busy = "1 run, fewer than 3; busy machine: load 2.50 before it began, on 2 cores";
        assert_eq!(
            rows,
            [
                format!("| [Near](#near) | 1 of 1 |  | {busy} |"),
                format!("| [Far](#far) | 1 of 1 |  | 2 runs, fewer than 3; {busy} |")
            ]
        );
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
    fn the_load_is_read_as_the_results_have_it() {
        let machine = Machine { load: 2.28, cores: 2, ..Machine::default() };
        let (load, cores) = busyness(&About { machine, ..About::default() });
        assert_eq!(busy(load, cores).unwrap(), "busy machine: load 2.28 before it began, on 2 cores");
        let (load, cores) = busyness(&About::default());
        assert_eq!(busy(load, cores), None);
    }

    #[test]
    fn a_path_that_lost_packets_by_itself_makes_its_runs_void() {
        let load = Load { scenario: "far", tool: "thalweg", run: 1, bytes: 1, files: 1 };
        let plain = load.took(&Times::default());
        let over = |trouble: f64| {
            let sample = plain.clone().measured(LOST_BY_A_SLOW_MACHINE, trouble, "1");
            Sample { wire_cpu_s_per_gb: Some(0.25), ..sample }
        };
        let with = |samples: Vec<Sample>| Results { samples, ..Results::default() };
        assert_eq!(void(&with(vec![plain.clone(), over(0.0)])), None);
        let told = void(&with(vec![plain.clone(), over(0.0), over(7.0)])).unwrap();
        assert!(told.starts_with("**VOID: 1 of 2 runs"), "{told}");
        // Its time is in no figure either.
        let spoilt = Sample { run: 2, wall_s: 900.0, ..over(7.0) };
        let both = with(vec![over(0.0), spoilt.clone()]);
        assert_eq!(
            both.series("far", "thalweg", |sample| sample.wall_s).into_keys().collect::<Vec<_>>(),
            [1]
        );
        let alone = with(vec![spoilt]).series("far", "thalweg", |sample| sample.wall_s);
        assert_eq!(Goal::AtMost(1.0).verdict(median_of(&alone)), "at most 1: not measured");
        let cost = |samples| wire_cost(&with(samples), "far", "thalweg");
        assert_eq!(cost(vec![over(0.0)]), "0.250");
        assert_eq!((cost(vec![plain.clone()]), cost(vec![])), ("not recorded".into(), "not measured".into()));
    }

    #[test]
    fn a_figure_is_shown_with_its_interval() {
        let series = Series::from([(1, 1.0), (2, 12.0), (3, 200.0)]);
        assert_eq!(with_interval(&series), "12.0 [1.00–200]");
        assert_eq!(with_interval(&Series::new()), "not measured");
    }
}
