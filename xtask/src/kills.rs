//! What `cargo xtask torture --kills --out FILE` found, as JSON lines, and as the table of docs/faults.md.
//!
//! First what it was found on, then one object for each test: `test`, `seed`, `outcome` (`ok`, `skipped`, `FAILED`), `seconds`,
//! and with `ok` what the test counted itself (`Struck` in crates/cli/tests/support/chance.rs).

use crate::bench::record;
use crate::tools;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The page.
pub const PAGE: &str = "docs/faults.md";

/// What it shows.
const RESULT: &str = "bench/results/kills.jsonl";

/// How a test says what it counted.
const COUNTED: &str = "counted: ";

/// What the outcomes are of.
///
/// # Errors
/// If the system does not tell.
pub fn about(command: &str) -> Result<Value> {
    record::about("kills", command)
}

/// How a test of this suite and name ended, and what it said.
pub fn outcome(test: (&str, &str), seed: u64, ended: (&str, f64), said: &str) -> Value {
    let counted = said.lines().filter_map(|line| line.split_once(COUNTED)).map(|(_, counted)| counted);
    let counted = counted.filter_map(|counted| serde_json::from_str::<Value>(counted).ok()).next_back();
    let mut outcome = json!({
        "test": format!("{} {}", test.0, test.1), "seed": seed, "outcome": ended.0, "seconds": ended.1,
    });
    // What a test that failed had counted by then is not what was found.
    if let (Value::Object(outcome), Some(Value::Object(counted)), "ok") = (&mut outcome, counted, ended.0) {
        outcome.extend(counted);
    }
    outcome
}

/// Writes them.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, about: &Value, outcomes: &[Value]) -> Result<()> {
    let lines = std::iter::once(about).chain(outcomes).map(|line| format!("{line}\n"));
    std::fs::write(path, lines.collect::<String>()).with_context(|| path.display().to_string())
}

/// The page with the table between its marks.
///
/// # Errors
/// If it has no marks, or the result is none.
pub fn page() -> Result<String> {
    let path = tools::root().join(RESULT);
    let table = match path.exists() {
        true => table(&std::fs::read_to_string(&path)?).with_context(|| RESULT)?,
        false => format!("Not counted yet: `cargo xtask torture --kills --out {RESULT}`.\n"),
    };
    tools::with_results(PAGE, &table)
}

fn table(text: &str) -> Result<String> {
    let mut lines = text.lines();
    let about: Value = serde_json::from_str(lines.next().context("an empty result file")?)?;
    let about = &about["about"];
    let mut out = String::from(
        "| struck | kills | cuts of the link | went on | had to come | named as lost | in a killed consumer's hands | lost |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut left_out = Vec::new();
    for line in lines {
        let row: Value = serde_json::from_str(line)?;
        let number = |name: &str| row[name].as_u64().with_context(|| format!("no {name} in {line}"));
        if row["outcome"] != "ok" || row["kind"].is_null() {
            left_out.push(format!("{} ({})", text_of(&row["test"]), text_of(&row["outcome"])));
            continue;
        }
        writeln!(
            out,
            "| {} | {} | {} | {} | {} {} | {} | {} | {} |",
            text_of(&row["kind"]),
            number("kills")?,
            number("cuts")?,
            number("resumed")?,
            number("whole")?,
            text_of(&row["unit"]),
            number("named")?,
            number("in_hand")?,
            number("lost")?,
        )?;
    }
    ensure!(out.lines().count() > 2, "nothing was counted");
    for test in left_out {
        writeln!(out, "\nNot in it: {test}.")?;
    }
    let of = |key: &str| text_of(&about[key]);
    writeln!(
        out,
        "\n`{}`. {} ({} cores), {}, {}; {}, commit {}.",
        of("command"),
        of("cpu"),
        about["cores"],
        of("kernel"),
        of("file_system"),
        of("date"),
        of("commit"),
    )?;
    Ok(out)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "running 1 test\nstruck: 3 kills\ncounted: {\"kind\": \"a watch\", \"kills\": 3, \"cuts\": 1, \
                        \"resumed\": 4, \"whole\": 13, \"unit\": \"items\", \"named\": 0, \"in_hand\": 0, \"lost\": 0}\nok\n";

    #[test]
    fn what_a_test_counted_comes_into_the_table_and_what_failed_is_named() {
        let good = outcome(("watch", "killed"), 7, ("ok", 1.5), SAID);
        assert_eq!((&good["kills"], &good["outcome"], &good["seed"]), (&3.into(), &"ok".into(), &7.into()));
        let bad = outcome(("watch", "cut"), 7, ("FAILED", 1.5), SAID);
        assert!(bad["kills"].is_null(), "{bad}");
        let about = json!({"about": {"command": "cargo xtask torture --kills 3", "cores": 2}});
        let text = [&about, &good, &bad].map(|line| format!("{line}\n")).concat();
        let table = table(&text).unwrap();
        assert!(table.contains("| a watch | 3 | 1 | 4 | 13 items | 0 | 0 | 0 |"), "{table}");
        assert!(table.contains("Not in it: watch cut (FAILED)."), "{table}");
    }

    #[test]
    fn a_result_without_counts_is_none() {
        let about = json!({"about": {}});
        let bad = outcome(("watch", "cut"), 7, ("FAILED", 1.5), "");
        assert!(table(&format!("{about}\n{bad}\n")).is_err());
        assert!(table("").is_err());
    }
}
