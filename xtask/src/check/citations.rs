//! No tracked file cites a document that is not in the tree, every link of a page leads to a file that is, and to a
//! heading that it has, and each section of docs/measurements.md is cited by its name: a measurement that nothing rests
//! on is not kept.

use super::links::{self, Link};
use crate::{checkout, command};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Documents that those who read the sources do not have: a citation of one leads nowhere.
const NOT_HERE: &[&str] = &["LIMITS.md", "TRUST.md", "CHECKLIST.md", "STYLE.md", "DESIGN.md"];

/// Files that may name them: this one.
const MAY_NAME_THEM: &[&str] = &["xtask/src/check/citations.rs"];

/// Each of its sections is cited, as `docs/measurements.md, chunks`.
const MEASUREMENTS: &str = "docs/measurements.md";

/// All that git tracks; sources without git are not looked at, for nothing tells them from what else lies there.
///
/// # Errors
/// If git does not answer.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let root = checkout::root();
    if !root.join(".git").exists() {
        return Ok(());
    }
    let tracked = command::says(&mut checkout::git(&["ls-files", "-z"]))?;
    let mut citing = String::new();
    for name in tracked.split('\0').filter(|name| !name.is_empty() && !MAY_NAME_THEM.contains(name)) {
        // What is no text (a picture, bytes for a test) cites nothing.
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        for (number, word) in not_here(&text) {
            breaches.push(format!("{name}:{number} cites {word}, which nobody has who reads it"));
        }
        if text.contains(MEASUREMENTS) {
            citing += &in_one_line(&text);
        }
        let page = root.join(name);
        if page.extension().is_some_and(|extension| extension == "md") {
            for (number, target) in broken_links(&page, &text) {
                breaches.push(format!("{name}:{number} has a link to {target}, which is not there"));
            }
        }
    }
    let measurements = fs::read_to_string(root.join(MEASUREMENTS)).context(MEASUREMENTS)?;
    let uncited = uncited(&measurements, &citing);
    breaches.extend(uncited.iter().map(|section| format!("{MEASUREMENTS}: nothing cites *{section}*")));
    Ok(())
}

/// A text without the signs of its comments, in lower case: a citation may go on in the next line.
fn in_one_line(text: &str) -> String {
    let signs = |sign: char| sign.is_whitespace() || matches!(sign, '/' | '!' | '#');
    let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches(signs)).collect();
    lines.join(" ").to_lowercase()
}

/// Sections of a page of measurements that no text names behind it.
fn uncited<'a>(page: &'a str, citing: &str) -> Vec<&'a str> {
    let is_cited = |section: &str| {
        let name = section.to_lowercase();
        ["", "\""].iter().any(|quote| citing.contains(&format!("{MEASUREMENTS}, {quote}{name}")))
    };
    let sections = page.lines().filter_map(|line| line.strip_prefix("## "));
    sections.filter(|section| !is_cited(section)).collect()
}

/// Lines that cite a document which is not here, and which one.
fn not_here(text: &str) -> Vec<(usize, &'static str)> {
    let is_cited = |line: &str, word: &str| {
        line.match_indices(word)
            .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
    };
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| {
            NOT_HERE.iter().filter(move |word| is_cited(line, word)).map(move |word| (index + 1, *word))
        })
        .collect()
}

/// Lines of a page with a link to a file that is not there, or to a heading that it has not, and to which.
fn broken_links(page: &Path, text: &str) -> Vec<(usize, String)> {
    let folder = page.parent().unwrap_or(page);
    let mut broken = Vec::new();
    for Link { line, file, anchor } in links::of(text) {
        let there = match file.strip_prefix(checkout::PUBLISHED) {
            Some(path) => checkout::root().join(path),
            None if file.contains("://") => continue,
            None if file.is_empty() => page.to_owned(),
            None => folder.join(&file),
        };
        let has = |anchor: &str| {
            // This page may be another than the one that is stored.
            let text = if file.is_empty() { Ok(text.to_owned()) } else { fs::read_to_string(&there) };
            text.is_ok_and(|text| links::anchors(&text).contains(anchor))
        };
        let is_page = there.extension().is_some_and(|extension| extension == "md");
        let is_there = match &anchor {
            Some(anchor) if is_page => has(anchor),
            _ => there.exists(),
        };
        if !is_there {
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            broken.push((line, format!("{file}{anchor}")));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_not_here_are_cited_nowhere() {
        let text =
            "as STYLE.md says\nSTYLE is a constant, MY_STYLE.md another page\n(DESIGN.md, `LIMITS.md`)\n";
        assert_eq!(not_here(text), [(1, "STYLE.md"), (3, "LIMITS.md"), (3, "DESIGN.md")]);
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }

    #[test]
    fn a_section_of_measurements_that_nothing_cites_is_a_breach() {
        let page = "# Measurements\n## Chunks\n## Windows far\n### A part\n## The start of a program\n";
        let rust = "    /// so many (docs/measurements.md, windows\n    /// far)";
        let toml = "# docs/measurements.md, the start of a\n# program";
        let cited = |texts: &[&str]| {
            let citing: String = texts.iter().map(|text| in_one_line(text)).collect();
            uncited(page, &citing)
        };
        assert_eq!(cited(&[rust, toml, "docs/measurements.md, \"Chunks\""]), Vec::<&str>::new());
        assert_eq!(cited(&[rust, "docs/measurements.md; chunks"]), ["Chunks", "The start of a program"]);
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_a_breach() {
        let page = checkout::root().join("docs/README.md");
        let text =
            "[a](../SPEC.md), `[c](gone.md)`, [d](https://e.f)\n```\n[g](gone.md)\n```\n[`h`](gone.md)\n";
        assert_eq!(broken_links(&page, text), [(5, "gone.md".to_owned())]);
        let published =
            |path: &str| broken_links(&page, &format!("[a]({}{path})", checkout::PUBLISHED)).len();
        assert_eq!((published("bench/results"), published("bench/results/gone.jsonl")), (0, 1));
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_a_breach() {
        let page = checkout::root().join("docs/README.md");
        let text = "# A page\n[a](#a-page) [b](#b) [c](../README.md#install)\n[d](../README.md#gone) [e](gone.md#f)\n";
        let broken = [(2, "#b"), (3, "../README.md#gone"), (3, "gone.md#f")];
        assert_eq!(broken_links(&page, text), broken.map(|(line, target)| (line, target.to_owned())));
        // Lines of a source are no headings.
        assert!(broken_links(&page, "[a](../rust-toolchain.toml#L2)").is_empty());
    }
}
