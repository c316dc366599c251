//! The tables of docs/faults.md, from the committed result of `cargo xtask torture --kills`: what a row of it says,
//! [`crate::torture::outcome`] has.

use crate::bench::rows::Rows;
use crate::checkout;
use crate::generate::results;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;

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
    writeln!(out, "\n{}; {}.", result.place(), result.time())?;
    Ok(out)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::outcome;
    use serde_json::json;

    /// What a test says of three strikes, with this many items lost.
    fn said(lost: u64, ended: bool) -> String {
        let strike = |of: &str, under_way: bool, had: u64, from: Option<u64>| json!({"of": of, "under_way": under_way, "had": had, "from": from});
        let strikes = [
            strike("the watch", true, 0, Some(0)),
            strike("the link", false, 3, Some(3)),
            strike("the watch", true, 5, Some(0)),
            strike("the watch", true, 5, None),
        ];
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
    fn a_result_without_counts_is_none() {
        let bad = outcome(("watch", "cut"), 7, ("FAILED", 1.5), "");
        assert!(tables(&[bad]).is_err());
        assert!(table("").is_err());
    }
}
