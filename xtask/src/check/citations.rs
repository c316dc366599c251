//! No tracked file cites a document that is not in the tree, every link of a page leads to a section that is, and each
//! section of docs/measurements.md is cited by its name: a measurement that nothing rests on is not kept.

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

/// Lines of a page with a link to a file or a section that is not there, and to which.
fn broken_links(page: &Path, text: &str) -> Vec<(usize, String)> {
    let mut broken = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.starts_with("```");
        let prose: String = line.split('`').step_by(2).filter(|_| !is_code).collect();
        for link in prose.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            if !link.contains("://") && leads_nowhere(page, text, link) {
                broken.push((index + 1, link.to_owned()));
            }
        }
    }
    broken
}

/// Whether a link of a page names a file that is not there, or a section that the file, or this page, does not have.
fn leads_nowhere(page: &Path, text: &str, link: &str) -> bool {
    let (target, section) = link.split_once('#').unwrap_or((link, ""));
    if target.is_empty() {
        return !has_section(text, section);
    }
    let file = page.parent().unwrap_or(page).join(target);
    if section.is_empty() || file.extension().is_none_or(|extension| extension != "md") {
        return !file.exists();
    }
    !fs::read_to_string(file).is_ok_and(|text| has_section(&text, section))
}

/// Whether a page has a heading that links name so: `what-is-kept` is *What is kept*.
fn has_section(text: &str, name: &str) -> bool {
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let named = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        words.chars().filter(is_kept).collect::<String>().replace(' ', "-")
    };
    text.lines().filter(|line| line.starts_with('#')).any(|heading| named(heading) == name)
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
    fn a_link_to_a_file_or_a_section_that_is_not_there_is_a_breach() {
        let page = checkout::root().join("docs/README.md");
        let text = "## A: `b`-c, 2\n[a](../SPEC.md), [b](#a-b-c-2), `[c](gone.md)`, [d](https://e.f#g)\n```\n[g](gone.md)\n```\n\
                    [`h`](gone.md) [i](#gone)\n[j](README.md#decisions), [k](guide/copy.md#gone), [l](../LICENSE#x)\n";
        let broken = [(6, "gone.md"), (6, "#gone"), (7, "guide/copy.md#gone")];
        assert_eq!(broken_links(&page, text), broken.map(|(line, link)| (line, link.to_owned())));
    }
}
