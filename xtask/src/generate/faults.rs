//! The tables of docs/faults.md, from the committed result of `cargo xtask torture --kills`: what a row of it says,
//! [`crate::torture::outcome`] has.

use crate::bench::rows::Rows;
use crate::bench::tell;
use crate::checkout;
use crate::generate::results;
use crate::torture::{KILLS, is_kill};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;
use thalweg_lab::bench::stale;

/// The page.
pub const PAGE: &str = "docs/faults.md";

/// What it shows.
const RESULT: &str = "bench/results/kills.jsonl";

/// The page with the table between its marks.
///
/// # Errors
/// If it has no marks, or the result is none.
pub fn page() -> Result<String> {
    let path = checkout::root().join(RESULT);
    let table = match path.exists() {
        true => table(&std::fs::read_to_string(&path)?).with_context(|| RESULT)?,
        false => format!("Not counted yet: `cargo xtask torture --kills --out {RESULT}`.\n"),
    };
    results::shown_in(PAGE, &table)
}

/// What became of the strikes at one target.
#[derive(Default)]
struct Struck {
    times: u64,
    counted: u64,
    under_way: u64,
    from_a_mark: u64,
    anew: u64,
    nothing_yet: u64,
    again: u64,
}

impl Struck {
    fn add(&mut self, strike: &Value) -> Result<()> {
        let had = strike["had"].as_u64().with_context(|| format!("a strike without `had`: {strike}"))?;
        self.times += 1;
        let is_under_way = strike["under_way"] == true;
        self.under_way += u64::from(is_under_way);
        self.counted += u64::from(is_under_way && !strike["from"].is_null());
        let which = match (strike["from"].as_u64(), had) {
            (None, _) => &mut self.again,
            (Some(0), 0) => &mut self.nothing_yet,
            (Some(0), _) => &mut self.anew,
            (Some(_), _) => &mut self.from_a_mark,
        };
        *which += 1;
        Ok(())
    }
}

/// Strikes by what they struck, in the order in which it first was.
fn by_target(row: &Value) -> Result<Vec<(String, Struck)>> {
    let strikes = row["strikes"].as_array().with_context(|| format!("no strikes in {row}"))?;
    let mut all: Vec<(String, Struck)> = Vec::new();
    for strike in strikes {
        let of = text_of(&strike["of"]);
        if !all.iter().any(|(known, _)| known == of) {
            all.push((of.to_owned(), Struck::default()));
        }
        if let Some((_, struck)) = all.iter_mut().find(|(known, _)| known == of) {
            struck.add(strike)?;
        }
    }
    Ok(all)
}

fn table(text: &str) -> Result<String> {
    let result = Rows::parse(text)?;
    let mut struck = String::from(
        "| of | struck | times | of them count | while it was under way | went on from a mark | began anew | had nothing yet | \
         struck again before it went on |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut came = String::from(
        "| of | had to come | came | more than once | named as lost | in a killed consumer's hands | lost | never given, or out \
         of turn | looks at the mark | of them back | what was delivered | test |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut left_out, mut rows) = (Vec::new(), 0);
    for row in &result.rows {
        let number = |name: &str| row[name].as_u64().with_context(|| format!("no {name} in {row}"));
        if row["kind"].is_null() {
            left_out.push(format!("{} ({})", text_of(&row["test"]), text_of(&row["outcome"])));
            continue;
        }
        rows += 1;
        let kind = text_of(&row["kind"]);
        for (of, Struck { times, counted, under_way, from_a_mark, anew, nothing_yet, again }) in
            by_target(row)?
        {
            writeln!(
                struck,
                "| {kind} | {of} | {times} | {counted} | {under_way} | {from_a_mark} | {anew} | {nothing_yet} | {again} |"
            )?;
        }
        let unit = text_of(&row["unit"]);
        let mut numbers = [""; 9].map(str::to_owned);
        let names = ["whole", "came", "twice", "named", "in_hand", "lost", "foreign", "looks", "back"];
        for (shown, name) in numbers.iter_mut().zip(names) {
            *shown = number(name)?.to_string();
        }
        numbers[0] += &format!(" {unit}");
        let delivered = match (row["end"].as_str(), row["ended"] == true) {
            (Some(end), true) => end,
            _ => "not known",
        };
        let outcome = match text_of(&row["outcome"]) {
            "FAILED" => "**failed**",
            outcome => outcome,
        };
        writeln!(came, "| {kind} | {} | {delivered} | {outcome} |", numbers.join(" | "))?;
    }
    ensure!(rows > 0, "nothing was counted");
    let mut out = format!("{struck}\n{came}");
    for test in left_out {
        writeln!(out, "\nNot in it: {test}.")?;
    }
    if let Some(stale) = tell::staleness(difference(&result)?) {
        writeln!(out, "\n{stale}")?;
    }
    writeln!(out, "\n{}; {}.", result.place(), result.time())?;
    Ok(out)
}

/// In what the result differs from what the same command would count today, in short: tests that it lacks, those that
/// there are no more, and stories of which too few strikes count.
fn difference(result: &Rows) -> Result<Option<String>> {
    let command = &result.about.command;
    let is_of = |row: &Value, kill: &(&str, &str)| {
        let (suite, name) = text_of(&row["test"]).split_once(' ').unwrap_or_default();
        is_kill(*kill, suite, name)
    };
    let is_part = command.contains(" --only");
    let mut differing = Vec::new();
    for kill in &KILLS {
        if !is_part && !result.rows.iter().any(|row| is_of(row, kill)) {
            differing.push(format!("lacks {} {}", kill.0, kill.1));
        }
    }
    for row in &result.rows {
        if !KILLS.iter().any(|kill| is_of(row, kill)) {
            differing.push(format!("has {}, which is none of its tests any more", text_of(&row["test"])));
        }
    }
    let asked = command.split_once("--kills ").and_then(|(_, behind)| behind.split(' ').next());
    let each: u64 = asked.and_then(|asked| asked.parse().ok()).unwrap_or(0);
    // A test that failed may have ended before it was through.
    let whole = result.rows.iter().filter(|row| row["outcome"] == "ok" && !row["kind"].is_null());
    for row in whole {
        differing.extend(too_few(row, each)?);
    }
    Ok(stale::in_short(differing))
}

/// That fewer strikes of a story count than so many for each of what it strikes. Those that do not are made again, but
/// as many as were planned at most (`Plan` in crates/cli/tests/support/plan.rs): if so many were made, there are no
/// more of them today.
fn too_few(row: &Value, each: u64) -> Result<Option<String>> {
    /// A test and its count look each by itself whether the story went on: they may differ about so many.
    const SEEN_OTHERWISE: f64 = 0.1;
    let targets = by_target(row)?;
    let made: u64 = targets.iter().map(|(_, struck)| struck.times).sum();
    let counted: u64 = targets.iter().map(|(_, struck)| struck.counted).sum();
    let planned = each * targets.len() as u64;
    let is_enough = counted as f64 >= planned as f64 * (1.0 - SEEN_OTHERWISE) || made >= 2 * planned;
    Ok((!is_enough)
        .then(|| format!("{}: {counted} strikes that count, now {planned}", text_of(&row["kind"]))))
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::outcome;
    use serde_json::json;

    fn strike(of: &str, under_way: bool, had: u64, from: Option<u64>) -> Value {
        json!({"of": of, "under_way": under_way, "had": had, "from": from})
    }

    /// What a test says of four strikes, with this many items lost.
    fn said(lost: u64, ended: bool) -> String {
        let strikes = [
            strike("the watch", true, 0, Some(0)),
            strike("the link", false, 3, Some(3)),
            strike("the watch", true, 5, Some(0)),
            strike("the watch", true, 5, None),
        ];
        said_of(&strikes, lost, ended)
    }

    fn said_of(strikes: &[Value], lost: u64, ended: bool) -> String {
        let end = if lost > 0 { "prefix" } else { "whole" };
        let counted = json!({
            "kind": "a watch", "unit": "items", "ended": ended, "strikes": strikes, "looks": 9, "back": 0, "whole": 13,
            "came": 13 - lost, "twice": 2, "named": 0, "in_hand": 0, "lost": lost, "foreign": 0, "end": end,
        });
        format!("running 1 test\nstruck: a watch\ncounted: {counted}\nok\n")
    }

    fn tables(outcomes: &[Value]) -> Result<String> {
        let about = json!({"about": {"command": "cargo xtask torture --kills 3", "cores": 2}});
        let lines = std::iter::once(&about).chain(outcomes).map(|line| format!("{line}\n"));
        table(&lines.collect::<String>())
    }

    #[test]
    fn what_was_counted_comes_into_the_tables_by_what_was_struck() {
        let good = outcome(("watch", "killed"), 7, ("ok", 1.5), &said(0, true));
        assert_eq!((&good["whole"], &good["outcome"], &good["seed"]), (&13.into(), &"ok".into(), &7.into()));
        let tables = tables(&[good]).unwrap();
        assert!(tables.contains("| a watch | the watch | 3 | 2 | 3 | 0 | 1 | 1 | 1 |"), "{tables}");
        assert!(tables.contains("| a watch | the link | 1 | 0 | 0 | 1 | 0 | 0 | 0 |"), "{tables}");
        assert!(
            tables.contains("| a watch | 13 items | 13 | 2 | 0 | 0 | 0 | 0 | 9 | 0 | whole | ok |"),
            "{tables}"
        );
    }

    #[test]
    fn what_a_test_that_failed_counted_is_shown_with_its_losses() {
        let lost = outcome(("watch", "killed"), 7, ("FAILED", 1.5), &said(4, true));
        let died = outcome(("watch", "cut"), 7, ("FAILED", 1.5), &said(0, false));
        let mute = outcome(("watch", "mute"), 7, ("FAILED", 1.5), "panicked");
        let tables = tables(&[lost, died, mute]).unwrap();
        let row = "| a watch | 13 items | 9 | 2 | 0 | 0 | 4 | 0 | 9 | 0 | prefix | **failed** |";
        assert!(tables.contains(row), "{tables}");
        assert!(tables.contains("| 9 | 0 | not known | **failed** |"), "{tables}");
        assert!(tables.contains("Not in it: watch mute (FAILED)."), "{tables}");
    }

    #[test]
    fn a_result_that_lacks_a_test_or_strikes_that_count_is_stale() {
        let said = |made: u64, counted: u64| {
            let strike = |at: u64| strike("the watch", true, 1, (at < counted).then_some(1));
            said_of(&(0..made).map(strike).collect::<Vec<_>>(), 0, true)
        };
        let all = |outcome_of: &str, made: u64, counted: u64| {
            KILLS.map(|(suite, name)| {
                outcome((suite, &format!("kills::{name}")), 7, (outcome_of, 1.5), &said(made, counted))
            })
        };
        let stale = |outcomes: &[Value]| {
            let tables = tables(outcomes).unwrap();
            tables.lines().find_map(|line| line.strip_prefix(tell::STALE).map(str::to_owned))
        };
        assert_eq!(stale(&all("ok", 3, 3)), None);
        assert_eq!(stale(&all("ok", 5, 3)), None);
        let few = "a watch: 1 strikes that count, now 3.";
        assert_eq!(stale(&all("ok", 3, 1)).as_deref(), Some(few), "none was made again");
        assert_eq!(stale(&all("ok", 6, 1)), None, "no more are made again");
        assert_eq!(stale(&all("FAILED", 2, 1)), None);
        let (suite, name) = KILLS[0];
        let lacks = format!("lacks {suite} {name}.");
        assert_eq!(stale(&all("ok", 3, 3)[1..]), Some(lacks));
        let more = outcome(("watch", "folklore"), 7, ("ok", 1.5), &said(3, 3));
        let told = stale(&[all("ok", 3, 3).to_vec(), vec![more]].concat()).unwrap();
        assert_eq!(told, "has watch folklore, which is none of its tests any more.");
    }

    #[test]
    fn a_result_without_counts_is_none() {
        let bad = outcome(("watch", "cut"), 7, ("FAILED", 1.5), "");
        assert!(tables(&[bad]).is_err());
        assert!(table("").is_err());
    }
}
