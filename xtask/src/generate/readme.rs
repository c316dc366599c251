//! README.md: how fast, from the results of suites of `cargo xtask bench`.

use super::results;
use crate::bench::record::Results;
use crate::bench::suite::{beside_rsync, beside_zeromq, large, small};
use anyhow::Result;

/// The page.
pub const PAGE: &str = "README.md";

/// Tells the results of a suite in a sentence.
type InShort = fn(&Results) -> String;

const IN_SHORT: [(&str, InShort); 3] = [
    (large::SUITE.name, large::in_short),
    (small::SUITE.name, small::in_short),
    (beside_zeromq::NAME, beside_zeromq::in_short),
];

/// The page with the table beside rsync and these sentences between its marks; `None` while nothing was measured beside
/// rsync.
///
/// # Errors
/// If the page has no marks, or a result cannot be read.
pub fn page() -> Result<Option<String>> {
    let Some(beside) = Results::read(beside_rsync::SUITE.name)? else { return Ok(None) };
    let mut told = (beside_rsync::SUITE.tell)(&beside)? + "\n";
    for (name, in_short) in IN_SHORT {
        told += &Results::read(name)?.map(|results| in_short(&results)).unwrap_or_default();
    }
    let told = told.trim_end().to_owned() + "\n";
    results::shown_in(PAGE, &told).map(Some)
}
