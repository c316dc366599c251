//! Results of chores that are no suite: a file of JSON lines. First what they were found on ([`record::about`]), then
//! one object for each row.

use crate::bench::{page, record};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A result, read.
pub struct Rows {
    pub about: Value,
    pub rows: Vec<Value>,
}

impl Rows {
    /// Reads `bench/results/NAME.jsonl`; none if there is none.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn read(name: &str) -> Result<Option<Rows>> {
        let path = record::path(name);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)?;
        Rows::parse(&text).with_context(|| path.display().to_string()).map(Some)
    }

    /// Of such a text.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Rows> {
        let mut lines = text.lines().map(serde_json::from_str::<Value>);
        let mut about = lines.next().context("an empty result file")??;
        let rows = lines.collect::<Result<_, _>>()?;
        Ok(Rows { about: about["about"].take(), rows })
    }

    /// Which command made it, on what, when, of which commit; in front of that why it is weak, if it is. Rows of one
    /// case are alike in all of `case`: as many as there are of the rarest are its runs.
    pub fn origin(&self, case: &[&str]) -> String {
        let of = |key: &str| self.about[key].as_str().unwrap_or("?");
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.rows {
            let words: Vec<String> = case.iter().map(|key| row[*key].to_string()).collect();
            *runs.entry(words.join(" ")).or_default() += 1;
        }
        let runs = runs.into_values().min().unwrap_or(0);
        let (load, cores) = page::busyness(&self.about);
        let weak = [page::weakness(runs, load, cores), page::rootless(self.about["commit"].as_str())];
        let weak: String = weak.iter().flatten().map(|line| format!("{line}\n\n")).collect();
        format!(
            "{weak}`{}`. {} ({} cores), {}, {}; load before it began {}; {}, commit {}.",
            of("command"),
            of("cpu"),
            self.about["cores"],
            of("kernel"),
            of("file_system"),
            of("load"),
            of("date"),
            of("commit"),
        )
    }
}

/// Writes a result.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, about: &Value, rows: &[Value]) -> Result<()> {
    let lines = std::iter::once(about).chain(rows).map(|line| format!("{line}\n"));
    std::fs::write(path, lines.collect::<String>()).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again_and_what_is_no_result_is_refused() {
        let scratch = crate::tools::Scratch::new("rows").unwrap();
        let path = scratch.path("x.jsonl");
        write(&path, &json!({"about": {"command": "c", "cores": 2}}), &[json!({"a": 1}), json!({"a": 2})])
            .unwrap();
        let rows = Rows::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((rows.rows.len(), &rows.rows[1]["a"]), (2, &2.into()));
        let origin = rows.origin(&["a"]);
        assert!(
            origin.contains("1 run, fewer than 3") && origin.contains("\n\n`c`. ? (2 cores)"),
            "{origin}"
        );
        assert!(Rows::parse("").is_err() && Rows::parse("{}\nx\n").is_err());
    }
}
