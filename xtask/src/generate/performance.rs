//! docs/performance.md, made from the committed results: what, how much, which command repeats it, on what machine.

use crate::bench::record::{self, Results};
use crate::bench::suite::{SUITES, Suite};
use crate::bench::tell;
use crate::{bottlenecks, entries};
use anyhow::Result;
use std::fmt::Write;

mod congest;

mod streaming;

/// The page's path.
pub const PAGE: &str = "docs/performance.md";

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
    sections += &bottlenecks::probe_section()?;
    sections += &entries::section()?;
    Ok(format!("{HEAD}{}{sections}", summary(&sections)))
}

/// Of each section how many of its goals are met, and by how much the others are missed: counted in what it says.
fn summary(sections: &str) -> String {
    let mut out =
        String::from("\n## All goals\n\n| question | met | missed by | weak or stale |\n|---|---|---|---|\n");
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
        let unsure = section.matches(tell::UNSURE).count();
        let row = match (met + missed.len() + unknown, section.contains("Not measured yet")) {
            (0, true) => "not measured yet | ".to_owned(),
            (0, false) => continue,
            (goals, _) => {
                let some = |count: usize, what: &str| match count {
                    0 => String::new(),
                    _ => format!(", {count} {what}"),
                };
                let (unsure, unknown) = (some(unsure, "not sure"), some(unknown, "not measured"));
                format!("{met} of {goals}{unsure}{unknown} | {}", missed.join(", "))
            }
        };
        let weak: Vec<String> = section.lines().filter_map(reason).collect();
        let _ = writeln!(out, "| [{title}](#{anchor}) | {row} | {} |", weak.join("; "));
    }
    out
}

/// Why a result is to be taken with care, of a line that says so.
fn reason(line: &str) -> Option<String> {
    let whole = |why: &str| why.trim_end_matches('.').to_owned();
    let weak = line.strip_prefix(tell::WEAK).map(whole);
    weak.or_else(|| line.strip_prefix(tell::STALE).map(|why| format!("stale: {}", whole(why))))
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
cost, for each 10⁹ bytes carried in both directions, stands beside the figure (of small packets it is much: they cost, not \
bytes). Every copy was compared with its source afterwards, outside the time. All tools use the same \
congestion control, in a network name space of their own. Absolute figures belong to the machine that is named; ratios travel \
better. A verdict on a median is *not sure*, be it met or missed, where the interval reaches beyond the bound on both sides: \
other runs might as well have told the opposite. A result is *weak*, and says so, with fewer than three runs, where the machine had more to do than it has cores before \
it began, or where the program's commit is not known or its sources had been changed since. It is *stale*, and says so, \
where its suite would give something else today with the same options: other series, other values of a parameter, other \
sizes or settings. The first thing that differs is named. Of suites that do not say beforehand which cases they have, only sizes \
and settings of `thalweg bench` are compared, and of `cargo xtask bench` nothing.
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
    let (load, cores) = tell::busyness(about);
    let rootless = tell::rootless(about.commit.as_deref());
    let stale = tell::staleness(suite.difference(&results));
    for line in
        [tell::weakness(results.runs(), load, cores), rootless, stale, void(&results)].iter().flatten()
    {
        writeln!(out, "\n{line}")?;
    }
    writeln!(
        out,
        "\n`{}`: {}. {} ({} cores, {} GiB), {}, {}, {}; load before it began {load:.2}; {}{}.",
        about.command,
        tell::runs_of(results.runs()),
        machine.cpu,
        machine.cores,
        machine.memory_bytes >> 30,
        machine.kernel,
        machine.file_system,
        about.more.get(record::CONGESTION_CONTROL).map_or("?", String::as_str),
        tell::day(about),
        tell::commit(about),
    )?;
    Ok(())
}

/// That some runs over an emulated path were spoilt; nothing where none was.
fn void(results: &Results) -> Option<String> {
    let all = results.samples.iter().filter(|sample| sample.is_emulated()).count();
    let spoilt = results.samples.iter().filter(|sample| sample.is_void()).count();
    (spoilt > 0).then(|| tell::void_of(&format!("VOID: {spoilt} of {all} runs over an emulated path")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{Load, Sample};
    use crate::bench::tell::{Goal, median_of, staleness, weakness, wire_cost};
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::LOST_BY_A_SLOW_MACHINE;

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
    fn of_goals_that_are_met_or_missed_it_is_counted_which_are_not_sure() {
        let goal = Goal::AtLeast(0.95);
        let verdicts =
            [[0.9, 0.96, 1.0], [0.8, 0.76, 1.0], [0.96, 0.97, 1.0]].map(|all| goal.verdict_of(&all));
        let sections = format!("\n## Near\n\n| {} |\n", verdicts.join(" |\n| "));
        let row = "| [Near](#near) | 2 of 3, 2 not sure | 15.8 % |  |";
        assert_eq!(summary(&sections).lines().next_back(), Some(row));
        assert!(!HEAD.contains(tell::UNSURE), "what explains it would be counted");
    }

    #[test]
    fn few_runs_and_a_busy_machine_are_said_in_the_section_and_beside_its_goals() {
        assert_eq!(weakness(3, 2.0, 2.0), None);
        assert_eq!(weakness(3, f64::NAN, f64::NAN), None);
        let stale = staleness(Some("lacks series `x`".into())).unwrap();
        let rows = summary(&format!("\n## Near\n\nx: met\n\n{stale}\n"));
        assert!(rows.ends_with("| [Near](#near) | 1 of 1 |  | stale: lacks series `x` |\n"), "{rows}");
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
}
