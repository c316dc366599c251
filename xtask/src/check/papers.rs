//! docs/papers.md: what the papers show is shown here, or is said not to be.

use super::text::{has_test, quoted};
use crate::checkout;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many of each kind a paper numbers. In docs/papers.md each has a row, or a word that it asks nothing of a mover.
const NUMBERED: &[(&str, &[(&str, usize)])] = &[
    ("000", &[("Table", 10), ("Fig", 13)]),
    ("001", &[("Fig", 9), ("Eq", 6)]),
    ("002", &[("Table", 3), ("Fig", 11), ("Listing", 1)]),
    ("003", &[("Table", 3), ("Fig", 4), ("Eq", 11)]),
    ("004", &[("Table", 1), ("Fig", 9)]),
];

/// In docs/papers.md each row of a table has tests and commands in its last column, and in its first what it is about.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    const PAGE: &str = "docs/papers.md";
    let text = fs::read_to_string(checkout::root().join(PAGE)).context(PAGE)?;
    let wrong = not_shown(&text).into_iter().chain(left_out(&text));
    breaches.extend(wrong.map(|breach| format!("{PAGE}: {breach}")));
    Ok(())
}

/// What papers number and a text says nothing of.
fn left_out(text: &str) -> Vec<String> {
    let mut left_out = Vec::new();
    for (paper, numbered) in NUMBERED {
        let heading = format!("{paper}: ");
        let section = text.split("\n## ").find(|section| section.starts_with(&heading));
        let named = accounted_for(section.unwrap_or_default());
        for (kind, count) in *numbered {
            let missing = (1..=*count).filter(|number| !named.contains(&(*kind, *number)));
            left_out.extend(missing.map(|number| {
                format!("{paper} {kind} {number} has no row, nor a word that it asks nothing of a mover")
            }));
        }
    }
    left_out
}

/// What the rows of a section are about, and what it says to ask nothing of a mover.
fn accounted_for(section: &str) -> BTreeSet<(&'static str, usize)> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let prose: Vec<&str> = section.lines().filter(|line| !line.starts_with('|')).collect();
    let prose = prose.join("\n");
    let (_, asks_nothing) = prose.split_once("Asks nothing of a mover: ").unwrap_or_default();
    rows.chain([asks_nothing]).flat_map(numbered_in).collect()
}

/// Tables, figures, equations and listings that a text names, one by one: `Figs 5 to 7` are three.
fn numbered_in(text: &str) -> Vec<(&'static str, usize)> {
    const KINDS: [&str; 4] = ["Table", "Fig", "Eq", "Listing"];
    let mut found: Vec<(&'static str, usize)> = Vec::new();
    let mut kind = None;
    let mut is_range = false;
    for word in text.split_whitespace() {
        // `2(b),` is a part of 2.
        let word = word.split('(').next().unwrap_or_default().trim_end_matches([',', '.', ';', ':']);
        let singular = word.trim_end_matches('s');
        if let Some(known) = KINDS.into_iter().find(|known| *known == singular) {
            (kind, is_range) = (Some(known), false);
            continue;
        }
        match (kind, as_number(word)) {
            (Some(kind), Some(last)) => {
                let first = match found.last() {
                    Some((_, before)) if is_range => before + 1,
                    _ => last,
                };
                found.extend((first..=last).map(|number| (kind, number)));
                is_range = false;
            }
            _ if word == "and" => {}
            _ if word == "to" => is_range = true,
            // `section III` behind a figure is none.
            _ => kind = None,
        }
    }
    found
}

/// As papers number: 12, or XII.
fn as_number(word: &str) -> Option<usize> {
    const ROMAN: [&str; 10] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"];
    let roman = ROMAN.iter().position(|numeral| *numeral == word).map(|index| index + 1);
    roman.or_else(|| word.parse().ok())
}

fn not_shown(text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for row in text.lines().filter(|line| line.starts_with('|')) {
        let Some((what, shown)) = row.trim_end_matches([' ', '|']).rsplit_once(" | ") else { continue };
        if what.starts_with("| in the paper") || what.starts_with("|---") {
            continue;
        }
        // Of what is not here something shows that the program says so.
        let mut is_shown = false;
        for word in quoted(shown) {
            match shows(word) {
                Some(true) => is_shown = true,
                Some(false) => breaches.push(format!("there is no `{word}`")),
                None => {}
            }
        }
        if !is_shown {
            breaches.push(format!("nothing shows {what} |"));
        }
    }
    breaches
}

/// Whether there is such a test, or such a command; nothing of what is neither.
fn shows(word: &str) -> Option<bool> {
    if let Some((file, function)) = word.rsplit_once("::") {
        return Some(has_test(Path::new(file), function));
    }
    let command = match word.split(' ').next()? {
        "thalweg" => thalweg_cli::config::command().try_get_matches_from(word.split(' ')),
        // The first word is cargo's.
        "cargo" if word.starts_with("cargo xtask ") => {
            crate::Cli::command().try_get_matches_from(word.split(' ').skip(1))
        }
        _ => return None,
    };
    Some(command.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_papers_is_shown_by_what_is_there() {
        let text = fs::read_to_string(checkout::root().join("docs/papers.md")).unwrap();
        assert_eq!(not_shown(&text), Vec::<String>::new());
        assert!(text.lines().filter(|line| line.starts_with("| ")).count() > 50);
    }

    #[test]
    fn a_table_figure_or_equation_of_a_paper_that_is_left_out_is_a_breach() {
        let text = fs::read_to_string(checkout::root().join("docs/papers.md")).unwrap();
        assert_eq!(left_out(&text), Vec::<String>::new());
        let without = |beginning: &str| {
            let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with(beginning)).collect();
            left_out(&kept.join("\n"))
                .iter()
                .map(|breach| breach.split(" has ").next().unwrap().to_owned())
                .collect::<Vec<String>>()
        };
        assert_eq!(without("| Table I |"), ["000 Table 1"]);
        assert_eq!(without("| Eqs 3 to 6 |"), ["001 Eq 3", "001 Eq 4", "001 Eq 5", "001 Eq 6"]);
        assert_eq!(without("Asks nothing of a mover: Table X"), ["000 Table 10"]);
        assert_eq!(
            numbered_in("section III-B.2, Figs 5, 8 and 10 to 12, section V, Table IV, Fig 2(b) of 7 (Eq)"),
            [("Fig", 5), ("Fig", 8), ("Fig", 10), ("Fig", 11), ("Fig", 12), ("Table", 4), ("Fig", 2)]
        );
    }

    #[test]
    fn a_row_that_nothing_shows_or_that_names_what_is_not_there_is_a_breach() {
        let of = |shown: &str| not_shown(&format!("| Fig 1 | a figure | {shown} |"));
        assert!(of("`thalweg bench latency`").is_empty() && of("*not here*: `thalweg bench cca`").is_empty());
        for bad in [
            "some day",
            "*not here*: no such card",
            "`thalweg bench folklore`",
            "`crates/cli/tests/bench.rs::no_such_test`",
            "`cargo xtask folklore`",
        ] {
            assert!(!of(bad).is_empty(), "{bad}");
        }
        assert_eq!(
            of("`thalweg bench latency`, `thalweg bench folklore`"),
            ["there is no `thalweg bench folklore`"]
        );
    }
}
