//! `cargo xtask check`: rules of the house that no compiler knows, each with its guard.

use anyhow::{Result, bail};

mod text;

mod links;

/// 1. An arrow between crates or between modules of the mover points only down.
mod layers;

/// 2. Deciding is apart from doing: the deciding modules know no clock, no disk, no network.
mod deciding;

/// 3. SPEC.md: every promise, and every lettered part of one, names a test that exists; so does every fault of
///    docs/faults.md.
mod promises;

/// 4. docs/papers.md: every row names a test that exists or a command that is understood, *not here* or not; no table,
///    figure, equation or listing that a paper numbers is left out.
mod papers;

/// 5. README.md and the guides: every command of thalweg that a reader is to type is understood, every guide is in
///    docs/README.md, and every command is on a page. All pages: a chore that they name is understood.
mod commands;

/// 6. No tracked file cites a document that is not in the tree, every link of a page leads to a file that is, and to a
///    heading that it has, and each section of docs/measurements.md is cited.
mod citations;

/// 7. bench/results: a result names the commit that it was measured with, and that is in the history.
mod results;

/// 8. docs/reference/json.md has every event that `--json` tells.
mod events;

/// 9. A thread of `mover::run` is started where a panic of it is told of.
mod threads;

/// 10. The Debian package: what it names is there, what is to be installed is in it, and so is what its pages lead to.
mod package;

/// 11. Comments are no wider than can be read beside code.
mod comments;

/// 12. A module with files below it stands beside its folder.
mod module_files;

/// 13. What all of it is built from has licences that are permitted, and what is given away their texts.
mod licences;

/// 14. Each decision says what it costs and what would change our mind.
mod decisions;

/// 15. Seeds that proptest kept have a property that tries them again.
mod regressions;

pub use licences::is_met_by;

/// Adds what it finds to the breaches.
type Guard = fn(&mut Vec<String>) -> Result<()>;

const GUARDS: [Guard; 15] = [
    layers::check,
    deciding::check,
    promises::check,
    papers::check,
    commands::check,
    citations::check,
    results::check,
    events::check,
    threads::check,
    package::check,
    comments::check,
    module_files::check,
    licences::check,
    decisions::check,
    regressions::check,
];

/// Checks all of it.
///
/// # Errors
/// Naming every breach.
pub fn run() -> Result<()> {
    let mut breaches = Vec::new();
    for guard in GUARDS {
        guard(&mut breaches)?;
    }
    if breaches.is_empty() {
        println!(
            "    layers, deciding apart from doing, promises with tests, commands that are understood, citations, results, \
             events, threads, the Debian package, comments, names of modules, licences, decisions, seeds of proptest: \
             in order"
        );
        return Ok(());
    }
    bail!("{}", breaches.join("\n"))
}
