//! docs/performance.md, made from the committed results: what, how much, which command repeats it, on what machine.

use crate::bench::record::{self, Results};
use crate::bench::suite::{SUITES, Suite};
use crate::bench::tell;
use crate::generate::{bench_guide, goals, testbed_guide};
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
    let mut judged = goals::of_sections(&sections);
    judged.extend(bench_guide::goals()?);
    judged.extend(testbed_guide::goals()?);
    Ok(format!("{HEAD}{}{sections}", goals::table(&judged)))
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
other runs might as well have told the opposite. There is *no verdict* where too few rounds have both of \
what is compared. A result is *weak*, and says so, with fewer than three runs or fewer than its \
suite makes by default today, where the machine had more to do than it has cores before it began, or where the program's commit \
is not known or its sources had been changed since. It is *stale*, and says so, where its suite would give something else today \
with the same options: other series, other values of a parameter, other sizes or settings. Three things that differ are named, \
others counted. Of suites that do not say beforehand which cases they have, only sizes and settings of `thalweg bench` are \
compared, and of `cargo xtask bench` nothing: *Automatic settings* and *Knobs that are turned while a copy runs*, which search.
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
    let fewer = tell::fewer(results.runs(), Some(suite.runs));
    let rootless = tell::rootless(about.commit.as_deref());
    let stale = tell::staleness(suite.difference(&results));
    for line in
        [tell::weakness(results.runs(), fewer, load, cores), rootless, stale, void(&results)].iter().flatten()
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
    use crate::bench::tell::{Goal, median_of, wire_cost};
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::LOST_BY_A_SLOW_MACHINE;

    #[test]
    fn what_explains_verdicts_has_none_that_would_be_counted() {
        assert!(goals::counted(HEAD).is_none() && !HEAD.contains(tell::UNSURE), "{HEAD}");
    }

    #[test]
    fn suites_that_do_not_say_which_cases_they_have_are_named() {
        for suite in SUITES.iter().filter(|suite| (suite.rows)().is_empty()) {
            assert!(suite.title.is_none_or(|title| HEAD.contains(&format!("*{title}*"))), "{}", suite.name);
        }
    }

    #[test]
    fn goals_that_another_page_judges_stand_in_the_table_as_well_with_where_that_is() {
        let page = page().unwrap();
        let table = page.split("\n## ").find(|section| section.starts_with("All goals\n")).unwrap();
        for place in ["guide/bench.md#what-it-found-here", "guide/testbed.md#how-well-it-keeps-what-is-asked"]
        {
            assert!(table.contains(&format!("]({place}) | ")), "{place}: {table}");
        }
        let columns = |row: &str| row.matches(" | ").count();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{table}");
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
