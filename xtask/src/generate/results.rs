//! Committed results, and where a page of ours shows them.

use crate::{checkout, trees};
use anyhow::{Context, Result};
use std::path::PathBuf;
use thalweg_lab::bench::record::Results;

const RESULTS: &str = "bench/results";

/// The result files of samples: those of rows, and of an older form, which lie beside them, are passed over.
///
/// # Errors
/// If the directory cannot be read.
pub fn all() -> Result<Vec<(PathBuf, Results)>> {
    let mut all = Vec::new();
    for file in trees::files_below(&checkout::root().join(RESULTS))? {
        // What a run that was stopped had by then.
        if file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        let Ok(results) = Results::read(&file) else { continue };
        let path = file.strip_prefix(checkout::root()).unwrap_or(&file).to_owned();
        all.push((path, results));
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(all)
}

/// Where a table made from results stands in a page.
const MARKS: [&str; 2] =
    ["<!-- Made by `cargo xtask gen` from bench/results. -->\n", "<!-- End of results. -->"];

/// A page of ours with this table between its two marks.
///
/// # Errors
/// If it cannot be read, or has no marks.
pub fn shown_in(page: &str, table: &str) -> Result<String> {
    let text = std::fs::read_to_string(checkout::root().join(page))?;
    let (before, rest) =
        text.split_once(MARKS[0]).with_context(|| format!("{page} has no mark for results"))?;
    let (_, after) =
        rest.split_once(MARKS[1]).with_context(|| format!("{page} has no mark for the end of results"))?;
    Ok([before, MARKS[0], table, MARKS[1], after].concat())
}
