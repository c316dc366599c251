//! Results of chores that are no suite: a file of JSON lines. First what they were found on ([`record::about`]), then
//! one object for each row.

use crate::bench::{record, tell};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use thalweg_lab::bench::record::{About, Line};

/// A result, read.
pub struct Rows {
    pub about: About,
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
        let mut lines = text.lines();
        let about = record::about_of(lines.next().context("an empty result file")?)?;
        let rows = lines.map(serde_json::from_str::<Value>).collect::<Result<_, _>>()?;
        Ok(Rows { about, rows })
    }

    /// Which command made it, on what, when, of which commit; in front of that why it is weak, if it is. Rows of one
    /// case are alike in all of `case`: as many as there are of the rarest are its runs.
    pub fn origin(&self, case: &[&str]) -> String {
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.rows {
            let words: Vec<String> = case.iter().map(|key| row[*key].to_string()).collect();
            *runs.entry(words.join(" ")).or_default() += 1;
        }
        let runs = runs.into_values().min().unwrap_or(0);
        let (load, cores) = tell::busyness(&self.about);
        let weak = [tell::weakness(runs, None, load, cores), tell::rootless(self.about.commit.as_deref())];
        let weak: String = weak.iter().flatten().map(|line| format!("{line}\n\n")).collect();
        format!("{weak}{}; load before it began {load:.2}; {}.", self.place(), self.time())
    }

    /// Which command made it, and on what.
    pub fn place(&self) -> String {
        format!("`{}`. {}", self.about.command, tell::machine_of(&self.about))
    }

    /// When it was made, of which commit.
    pub fn time(&self) -> String {
        format!("{}{}", tell::day(&self.about), tell::commit(&self.about))
    }
}

/// Writes a result.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, about: &About, rows: &[Value]) -> Result<()> {
    let first = serde_json::to_string(&Line::About(about.clone().into()))?;
    let lines = std::iter::once(first).chain(rows.iter().map(Value::to_string));
    let text: String = lines.map(|line| line + "\n").collect();
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use thalweg_lab::bench::record::Machine;

    #[test]
    fn what_is_written_is_read_again_and_what_is_no_result_is_refused() {
        let scratch = crate::scratch::Scratch::new("rows").unwrap();
        let path = scratch.path("x.jsonl");
        let machine = Machine { cpu: "a CPU".into(), cores: 2, ..Machine::default() };
        let (command, date) = ("c".into(), "2026-11-22T02:40:00Z".into());
        let about = About { command, date, commit: Some("33fe18f".into()), machine, ..About::default() };
        write(&path, &about, &[json!({"a": 1}), json!({"a": 2})]).unwrap();
        let rows = Rows::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&rows.about, rows.rows.len(), &rows.rows[1]["a"]), (&about, 2, &2.into()));
        let origin = rows.origin(&["a"]);
        assert!(origin.contains("1 run, fewer than 3"), "{origin}");
        assert!(origin.contains("\n\n`c`. a CPU (2 cores), "), "{origin}");
        assert!(origin.ends_with("; load before it began 0.00; 2026-11-22, commit 33fe18f."), "{origin}");
        assert!(Rows::parse("").is_err() && Rows::parse("{}\nx\n").is_err());
    }
}
