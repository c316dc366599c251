//! `cargo xtask bottlenecks`: copies with a bottleneck that was made on purpose, and whether `thalweg why` names it.
//!
//! Each is copied twice: with the bottleneck, and without it under the same other limits. The first is judged; the
//! times of both give the true factor. Figures go to stdout as JSON lines and to stderr as a table. Long, and as root:
//! not in CI. It fails if fewer than [`NAMED_AT_LEAST`] of a hundred are named, or fewer than [`CLOSE_AT_LEAST`] with
//! their factor.
//!
//! With `--probe`: whether `thalweg probe` names the stage under the same throttles, before anything is copied.

use crate::bench::record;
use crate::bench::rows::{self, Rows};
use crate::bench::tell::{Goal, NO_WIRE, number, shown, wire_costs};
use crate::cargo;
use anyhow::{Result, ensure};
use rig::{Deed, Rig};
use scenarios::{Before, Scenario, Throttle};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::statistics::{median, spread};

mod scenarios;

mod rig;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Only those whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How often each
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// This program instead of a release that is built now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The program whose `testbed` makes long ways, if not the same
    #[arg(long, value_name = "FILE")]
    testbed: Option<PathBuf>,
    /// Probe instead of copying; without those that options of the copy make, or that only a copy has
    #[arg(long)]
    probe: bool,
    /// Fewer stages named truly are a failure
    #[arg(long, value_name = "PERCENT", default_value_t = NAMED_AT_LEAST)]
    at_least: usize,
    /// Fewer named with a factor that is right are a failure
    #[arg(long, value_name = "PERCENT", default_value_t = CLOSE_AT_LEAST)]
    close_at_least: usize,
    /// What was found, as JSON lines. bench/results/bottlenecks.jsonl is shown in docs/performance.md, and of probes
    /// bench/results/bottlenecks-probe.jsonl
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A factor this close to the true one is right.
const CLOSE: f64 = 0.2;
/// The section of docs/performance.md is made of this result.
const NAME: &str = "bottlenecks";
/// The same of probes: rows of another kind.
const PROBES: &str = "bottlenecks-probe";
/// Named truly, of a hundred: 19 of 20.
const NAMED_AT_LEAST: usize = 95;
/// Named with a factor that is right, of a hundred: as many.
const CLOSE_AT_LEAST: usize = 95;
/// What the emulated path itself cost with the bottleneck and without it, in rows of those that take one.
const PATH_COSTS: [&str; 2] = ["path_cpu_s_per_gb", "path_cpu_s_per_gb_without"];

/// How many were named, and how many of them with a factor that is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    runs: usize,
    named: usize,
    close: usize,
}

impl Tally {
    fn of(rows: &[Value]) -> Tally {
        let named: Vec<&Value> = rows.iter().filter(|row| row["named"] == true).collect();
        let close = named.iter().filter(|row| is_right(row)).count();
        Tally { runs: rows.len(), named: named.len(), close }
    }

    fn share(self, count: usize) -> f64 {
        count as f64 * 100.0 / self.runs as f64
    }

    /// An error if fewer of a hundred than these were named, or named with a factor that is right; or if nothing ran.
    fn judge(self, named_at_least: usize, close_at_least: usize) -> Result<()> {
        let Tally { runs, named, close } = self;
        ensure!(runs > 0, "nothing ran");
        ensure!(named * 100 >= runs * named_at_least, "only {named} of {runs} were named");
        ensure!(
            close * 100 >= runs * close_at_least,
            "only {close} of {runs} were named with the factor within {:.0} %",
            CLOSE * 100.0
        );
        Ok(())
    }
}

/// The factor that was said, and the true one, as a row has them.
struct Factor {
    truth: f64,
    low: f64,
    high: f64,
}

impl Factor {
    fn of(row: &Value) -> Option<Factor> {
        let high = row["estimate"].as_f64()?;
        let low = row["estimate_low"].as_f64().unwrap_or(high);
        Some(Factor { truth: row["factor"].as_f64()?, low, high })
    }

    fn is_range(&self) -> bool {
        self.low < self.high
    }

    /// It is [`CLOSE`] to the true one. A range is said to hold that: so it has to, with nothing allowed beyond its
    /// ends, and its upper end has to be as close as a factor without a range, or it would say nothing.
    fn is_right(&self) -> bool {
        let holds = !self.is_range() || (self.low..=self.high).contains(&self.truth);
        holds && (self.high / self.truth - 1.0).abs() <= CLOSE
    }

    /// A range that begins so far below the true one that it says little of it.
    fn is_wide(&self) -> bool {
        self.is_range() && self.low < self.truth * (1.0 - CLOSE)
    }
}

/// By the numbers of the row, so that those of any age are judged alike. A row without a factor is not.
fn is_right(row: &Value) -> bool {
    Factor::of(row).is_some_and(|factor| factor.is_right())
}

/// Runs them.
///
/// # Errors
/// If fewer than asked for are named truly, or with a factor that is right, or a copy fails.
pub fn run(args: &Args) -> Result<()> {
    let thalweg = args.program.clone().map_or_else(cargo::build_release, Ok)?;
    let testbed = args.testbed.as_ref().unwrap_or(&thalweg);
    // How busy the machine was before.
    let name = if args.probe { PROBES } else { NAME };
    if let Some(out) = &args.out {
        fits(out, name)?;
    }
    let about = record::about(name, &repeat(args))?;
    let Some(rig) = Rig::new(&thalweg, testbed)? else { return Ok(()) };
    let has_testbed = rig.has_testbed();
    let mut rows = Vec::new();
    for _ in 0..args.rounds {
        for scenario in scenarios::all().iter().filter(|scenario| scenario.name.contains(&args.only)) {
            if !has_testbed && is_far(scenario) {
                eprintln!("skipped: {}: there is no `thalweg testbed`", scenario.name);
                continue;
            }
            let both = [scenario.narrow.clone(), scenario.beside.clone()].concat();
            if args.probe {
                let Some(stage) = stage_of(scenario) else { continue };
                rows.push(probe(&rig, scenario, &both, stage)?);
                continue;
            }
            let narrow = rig.run(scenario, &both, Deed::Copy)?;
            let wide = rig.run(scenario, &scenario.beside, Deed::Copy)?;
            let mut row = judged(scenario, &narrow.why, (narrow.seconds, wide.seconds));
            let costs = [narrow.path_cpu_s_per_gb, wide.path_cpu_s_per_gb];
            for (name, cost) in PATH_COSTS.into_iter().zip(costs) {
                if let Some(cost) = cost {
                    row[name] = cost.into();
                }
            }
            tell(&row);
            row["evidence"] = narrow.why["evidence"].clone();
            println!("{row}");
            if let Value::Object(row) = &mut row {
                row.remove("evidence");
            }
            rows.push(row);
        }
    }
    let tally = Tally::of(&rows);
    if args.probe {
        eprintln!("{} of {} named", tally.named, tally.runs);
        if let Some(path) = &args.out {
            rows::write(path, &about, &rows)?;
        }
        return tally.judge(args.at_least, 0);
    }
    eprintln!(
        "{} of {} named, {} of {} named with the factor within {:.0} %",
        tally.named,
        tally.runs,
        tally.close,
        tally.runs,
        CLOSE * 100.0
    );
    if let Some(path) = &args.out {
        rows::write(path, &about, &rows)?;
    }
    tally.judge(args.at_least, args.close_at_least)
}

/// Whether it takes an emulated path.
fn is_far(scenario: &Scenario) -> bool {
    scenario.beside.iter().any(|throttle| matches!(throttle, Throttle::Path(_)))
}

/// The command that repeats it.
fn repeat(args: &Args) -> String {
    let only = if args.only.is_empty() { String::new() } else { format!(" --only {}", args.only) };
    let probe = if args.probe { " --probe" } else { "" };
    format!("cargo xtask bottlenecks{probe} --rounds {}{only}", args.rounds)
}

/// Refuses a file that has the name of the other kind's: a page would be made of rows that it does not know.
fn fits(out: &Path, name: &str) -> Result<()> {
    let is = |other: &str| out.file_stem().is_some_and(|stem| stem == other);
    let other = if name == NAME { PROBES } else { NAME };
    ensure!(!is(other), "{} is for results of the other kind: name {name}.jsonl", out.display());
    Ok(())
}

/// What `why` said of a bottleneck, held against what was made, and against the seconds with it and without.
fn judged(scenario: &Scenario, why: &Value, (seconds, without): (f64, f64)) -> Value {
    let factor = seconds / without;
    let found = &why["narrowest"];
    let estimate = why["factor"].as_f64().unwrap_or(0.0);
    let low = why["factor_low"].as_f64().unwrap_or(estimate);
    let is_named = found["cause"] == scenario.cause && found["place"] == scenario.place;
    json!({
        "bottleneck": scenario.name, "cause": scenario.cause, "place": scenario.place,
        "found": found["cause"], "found_at": found["place"], "named": is_named,
        "seconds": seconds, "seconds_without": without, "factor": factor,
        "estimate": estimate, "estimate_low": low,
        "sentence": why["sentence"], "next": why["next"]["cause"],
    })
}

/// For people.
fn tell(row: &Value) {
    let word = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    eprintln!(
        "{} {:28} {:18} {:12} factor {:5.2}, said {:5.2} {}",
        if row["named"] == true { "named " } else { "MISSED" },
        word("bottleneck"),
        word("found"),
        word("found_at"),
        number("factor"),
        number("estimate"),
        if is_right(row) { "" } else { "(off)" },
    );
}

/// Its section of docs/performance.md; nothing without a result.
///
/// # Errors
/// If the result is none.
pub fn section() -> Result<String> {
    let Some(rows) = Rows::read(NAME)? else { return Ok(String::new()) };
    let list: Vec<&str> = scenarios::all().iter().map(|scenario| scenario.name).collect();
    Ok(format!("{}\n{}\n", told(&rows.rows, &list), rows.origin(&["bottleneck"])))
}

/// `list`: the names of all that there are by now.
fn told(rows: &[Value], list: &[&str]) -> String {
    let tally = Tally::of(rows);
    let mut out = format!(
        "\n## Whether the narrowest stage is named\n\nDoes `thalweg why` name a bottleneck that was made on purpose, and is its \
         factor right? Each copy runs with the bottleneck and without it, under the same other limits: the times of both give \
         the true factor. Goals: {NAMED_AT_LEAST} % are named, {CLOSE_AT_LEAST} % with a factor within {:.0} % of the true one. \
         A range that is said has to hold the true one, with nothing allowed beyond its ends, and its upper end has to be so \
         close.\n\n\
         | | of {} | share, % |\n|---|---|---|\n",
        CLOSE * 100.0,
        tally.runs
    );
    for (what, count, goal) in
        [("named", tally.named, NAMED_AT_LEAST), ("named with the factor", tally.close, CLOSE_AT_LEAST)]
    {
        let share = tally.share(count);
        let verdict = Goal::AtLeast(goal as f64).verdict(share);
        let _ = writeln!(out, "| {what} | {count} | {} ({verdict}) |", number(share));
    }
    out += &ranges(rows);
    out += "\n| bottleneck | named | factor right | true factor | said | the path's own CPU-s/GB | without the bottleneck \
            |\n|---|---|---|---|---|---|---|\n";
    let all = scenarios::all();
    let mut names: Vec<&str> = rows.iter().filter_map(|row| row["bottleneck"].as_str()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    for name in names {
        let of: Vec<Value> = rows.iter().filter(|row| row["bottleneck"] == name).cloned().collect();
        let tally = Tally::of(&of);
        let values = |key: &str| of.iter().filter_map(|row| row[key].as_f64()).collect::<Vec<_>>();
        let factor = shown(&values("factor"));
        let (lows, said) = (values("estimate_low"), shown(&values("estimate")));
        let is_range = !lows.is_empty() && shown(&lows) != said;
        let said = if is_range { format!("{} to {said}", shown(&lows)) } else { said };
        let Tally { runs, named, close } = tally;
        let [cost, without] = match all.iter().any(|scenario| scenario.name == name && is_far(scenario)) {
            true => PATH_COSTS.map(|key| wire_costs(runs, values(key))),
            false => [NO_WIRE; 2].map(str::to_owned),
        };
        let _ = writeln!(
            out,
            "| {name} | {named} of {runs} | {close} of {runs} | {factor} | {said} | {cost} | {without} |"
        );
    }
    let missing: Vec<&str> = list.iter().filter(|name| !seen.contains(*name)).copied().collect();
    if !missing.is_empty() {
        let _ = writeln!(out, "\nNot measured yet: {}.", missing.join("; "));
    }
    out
}

/// How much ranges say, and how sure the true factors are that they are held against.
fn ranges(rows: &[Value]) -> String {
    let factors: Vec<Factor> = rows.iter().filter_map(Factor::of).collect();
    let ranges = factors.iter().filter(|factor| factor.is_range()).count();
    let wide = factors.iter().filter(|factor| factor.is_wide()).count();
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        if let (Some(name), Some(factor)) = (row["bottleneck"].as_str(), row["factor"].as_f64()) {
            by_name.entry(name).or_default().push(factor);
        }
    }
    let spreads: Vec<f64> = by_name.values().filter(|all| all.len() > 1).map(|all| spread(all)).collect();
    let mut out = format!(
        "\nOf {} answers {ranges} are ranges; the low end of {wide} of these is more than {:.0} % below the true factor, so that \
         they say little but their upper end.",
        factors.len(),
        CLOSE * 100.0
    );
    if !spreads.is_empty() {
        let most = spreads.iter().copied().fold(1.0, f64::max);
        let _ = write!(
            out,
            " The true factor, of two copies, is not sure either: of one bottleneck the largest is {} times the smallest in the \
             median, and {} times at most.",
            number(median(&spreads)),
            number(most)
        );
    }
    out + "\n"
}

/// The section of probes: of a result, or how to have one.
///
/// # Errors
/// If the result is none.
pub fn probe_section() -> Result<String> {
    let Some(rows) = Rows::read(PROBES)? else {
        let command =
            format!("cargo xtask bottlenecks --probe --rounds 3 --out bench/results/{PROBES}.jsonl");
        return Ok(format!("{}Not measured yet: `{command}`.\n", probe_head()));
    };
    Ok(format!("{}{}\n{}\n", probe_head(), probes_told(&rows.rows), rows.origin(&["bottleneck"])))
}

fn probe_head() -> String {
    format!(
        "\n## Whether a probe names the narrowest stage\n\nDoes `thalweg probe` name the stage of a bottleneck that was made \
         on purpose, before anything is copied? The bottlenecks are those above, but for what only a copy has or shows. Goal: \
         {NAMED_AT_LEAST} % are named.\n\n"
    )
}

fn probes_told(rows: &[Value]) -> String {
    let tally = Tally::of(rows);
    let share = tally.share(tally.named);
    let verdict = Goal::AtLeast(NAMED_AT_LEAST as f64).verdict(share);
    let (runs, named) = (tally.runs, tally.named);
    let mut out = format!("Of {runs} probes {named} named it, {} % ({verdict}).\n\n", number(share));
    out += "| bottleneck | stage | named | named instead | seconds |\n|---|---|---|---|---|\n";
    let mut seen = BTreeSet::new();
    let names = rows.iter().filter_map(|row| row["bottleneck"].as_str());
    for name in names.filter(|name| seen.insert(*name)) {
        let of: Vec<Value> = rows.iter().filter(|row| row["bottleneck"] == name).cloned().collect();
        let others = of.iter().filter(|row| row["named"] != true).filter_map(|row| row["found"].as_str());
        let others: BTreeSet<&str> = others.collect();
        let seconds: Vec<f64> = of.iter().filter_map(|row| row["seconds"].as_f64()).collect();
        let Tally { runs, named, .. } = Tally::of(&of);
        let _ = writeln!(
            out,
            "| {name} | {} | {named} of {runs} | {} | {} |",
            of[0]["stage"].as_str().unwrap_or("-"),
            others.into_iter().collect::<Vec<_>>().join(", "),
            shown(&seconds)
        );
    }
    out
}

/// The stage that a probe is to name; `None` for what only a copy can show.
fn stage_of(scenario: &Scenario) -> Option<&'static str> {
    let is_of_the_copy = |throttle: &Throttle| {
        matches!(throttle, Throttle::Args(_) | Throttle::SlowStream { .. } | Throttle::TwoCards(..))
    };
    // A probe writes large files by an io_uring, which strace cannot delay.
    let is_delayed_write = |throttle: &Throttle| matches!(throttle, Throttle::Calls(_, "pwrite64", _));
    let is_not_probed = |throttle: &Throttle| is_of_the_copy(throttle) || is_delayed_write(throttle);
    if scenario.narrow.iter().any(is_not_probed) || scenario.before == Before::Same {
        return None;
    }
    Some(match (scenario.cause, scenario.place) {
        // What is read back is written, and no probe reads back.
        ("destination-disk", _) if scenario.args.contains(&"readback") => return None,
        ("source-disk" | "small-files-read" | "scan", _) => "source-storage",
        ("destination-disk" | "small-files-write" | "names" | "slow-sync", _) => "destination-storage",
        ("cpu-quota", "source") => "source-host",
        ("cpu-quota", "destination") => "destination-host",
        ("link" | "window" | "send-buffer" | "loss", _) => "network",
        _ => return None,
    })
}

/// What a probe said, with all of it on stdout.
fn probe(rig: &Rig, scenario: &Scenario, throttles: &[Throttle], stage: &str) -> Result<Value> {
    let answer = rig.run(scenario, throttles, Deed::Probe)?;
    let found = answer.why["narrowest"].as_str().unwrap_or("-");
    let is_named = found == stage;
    let row = json!({
        "bottleneck": scenario.name, "stage": stage, "found": found, "named": is_named,
        "decided_by": answer.why["decided_by"], "seconds": answer.seconds,
    });
    let mut whole = row.clone();
    whole["probe"] = answer.why.clone();
    println!("{whole}");
    let by = answer.why["decided_by"].as_str().unwrap_or("-");
    let word = if is_named { "named " } else { "MISSED" };
    eprintln!("{word} {:28} {found:20} by {by}, {:.1} s", scenario.name, answer.seconds);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, named: bool, close: bool) -> Value {
        let estimate = if close { 4.5 } else { 5.0 };
        json!({"bottleneck": name, "named": named, "factor": 4.0, "estimate": estimate})
    }

    #[test]
    fn too_few_names_and_too_few_factors_are_failures() {
        let judge = |named, close| Tally { runs: 20, named, close }.judge(NAMED_AT_LEAST, CLOSE_AT_LEAST);
        assert!(judge(19, 19).is_ok() && judge(20, 20).is_ok());
        assert_eq!(judge(18, 18).unwrap_err().to_string(), "only 18 of 20 were named");
        let words = "only 18 of 20 were named with the factor within 20 %";
        assert_eq!(judge(20, 18).unwrap_err().to_string(), words);
        assert!(Tally::default().judge(0, 0).is_err());
    }

    #[test]
    fn a_factor_counts_only_for_what_was_named_and_within_its_bounds() {
        let all = scenarios::all();
        let scenario = &all[0];
        let why = |cause: &str, factor: f64, low: Option<f64>| json!({"narrowest": {"cause": cause, "place": scenario.place}, "factor": factor, "factor_low": low});
        let is = |why: &Value, true_factor: f64| {
            let row = judged(scenario, why, (true_factor, 1.0));
            (row["named"] == true, is_right(&row))
        };
        assert_eq!(is(&why(scenario.cause, 4.0, None), 4.5), (true, true));
        assert_eq!(is(&why(scenario.cause, 4.0, None), 5.1), (true, false));
        assert_eq!(is(&why(scenario.cause, 4.0, Some(1.0)), 3.4), (true, true));
        assert_eq!(is(&why(scenario.cause, 4.0, Some(1.0)), 3.2), (true, false), "its end is too far");
        assert_eq!(is(&why(scenario.cause, 4.0, Some(1.0)), 4.1), (true, false), "beyond its upper end");
        assert_eq!(is(&why(scenario.cause, 4.0, Some(3.5)), 3.4), (true, false), "below its low end");
        assert_eq!(is(&why("another", 4.0, None), 4.0), (false, true));
        assert_eq!(Tally::of(&[row("a", false, true)]), Tally { runs: 1, named: 0, close: 0 });
    }

    #[test]
    fn the_page_says_what_was_named_and_whether_that_is_enough() {
        let rows = [row("a disk", true, true), row("a disk", true, false), row("a link", true, true)];
        let page = told(&rows, &["a disk", "a long way, lossy", "a link", "a queue"]);
        assert!(page.contains("| named | 3 | 100 (at least 95: met) |"), "{page}");
        assert!(
            page.contains("| named with the factor | 2 | 66.7 (at least 95: **missed by 29.8 %**) |"),
            "{page}"
        );
        assert!(page.contains("| a disk | 2 of 2 | 1 of 2 | 4.00 [4.00–4.00] |"), "{page}");
        assert!(page.ends_with("\n\nNot measured yet: a long way, lossy; a queue.\n"), "{page}");
        assert!(!told(&rows, &["a disk", "a link"]).contains("Not measured"));
    }

    #[test]
    fn the_page_judges_by_the_numbers_of_a_row_whatever_verdict_it_has() {
        let mut wrong = row("a disk", true, false);
        wrong["close"] = true.into();
        let mut right = row("a disk", true, true);
        right["close"] = false.into();
        let page = told(&[wrong, right], &[]);
        assert!(page.contains("| a disk | 2 of 2 | 1 of 2 |"), "{page}");
    }

    #[test]
    fn the_page_says_how_many_ranges_begin_far_below_the_true_factor_and_how_sure_that_is() {
        let range = |low: f64, factor: f64| {
            let mut row = row("a disk", true, true);
            row["estimate_low"] = low.into();
            row["factor"] = factor.into();
            row
        };
        let page = told(&[range(1.0, 4.0), range(3.5, 4.2), range(4.5, 4.4)], &[]);
        let wide =
            "Of 3 answers 2 are ranges; the low end of 1 of these is more than 20 % below the true factor";
        assert!(page.contains(wide), "{page}");
        let sure = "the largest is 1.10 times the smallest in the median, and 1.10 times at most.";
        assert!(page.contains(sure), "{page}");
        let once = told(&[row("a disk", true, true)], &[]);
        assert!(once.contains("Of 1 answers 0 are ranges") && !once.contains("not sure either"), "{once}");
    }

    #[test]
    fn the_page_says_how_often_a_probe_was_right_and_what_it_named_instead() {
        let row = |name: &str, stage: &str, found: &str| {
            let named = stage == found;
            json!({"bottleneck": name, "stage": stage, "found": found, "named": named, "seconds": 2.0})
        };
        let rows = [
            row("a disk", "source-storage", "source-storage"),
            row("a disk", "source-storage", "network"),
            row("a link", "network", "network"),
        ];
        let told = probes_told(&rows);
        assert!(
            told.starts_with("Of 3 probes 2 named it, 66.7 % (at least 95: **missed by 29.8 %**)."),
            "{told}"
        );
        assert!(told.contains("| a disk | source-storage | 1 of 2 | network | 2.00 [2.00–2.00] |"), "{told}");
        assert!(told.contains("| a link | network | 1 of 1 |  | 2.00 |"), "{told}");
        assert!(probe_section().unwrap().starts_with("\n## Whether a probe names"));
    }

    #[test]
    fn rows_of_probes_are_not_written_over_those_of_copies() {
        assert!(fits(Path::new("bench/results/bottlenecks.jsonl"), PROBES).is_err());
        assert!(fits(Path::new("bench/results/bottlenecks-probe.jsonl"), NAME).is_err());
        assert!(fits(Path::new("bench/results/bottlenecks-probe.jsonl"), PROBES).is_ok());
        assert!(fits(Path::new("x.jsonl"), NAME).is_ok());
    }

    #[test]
    fn what_a_long_way_cost_by_itself_stands_beside_its_factor() {
        let far = scenarios::all().into_iter().find(is_far).unwrap().name;
        let mut noted = row(far, true, true);
        noted[PATH_COSTS[0]] = json!(2.5);
        noted[PATH_COSTS[1]] = json!(3.5);
        let page = told(&[noted, row("disk read, push", true, true)], &[]);
        assert!(page.contains("| 4.50 | 2.50 | 3.50 |\n") && page.contains("| 4.50 | – | – |\n"), "{page}");
        let older = told(&[row(far, true, true)], &[]);
        assert!(older.contains("| 4.50 | not recorded | not recorded |\n"), "{older}");
    }
}
