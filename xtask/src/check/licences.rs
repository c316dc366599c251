//! Licences: all that the program, its tests and its chores are built from may be given away with what is ours.

use crate::{cargo, checkout, notices};
use anyhow::Result;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::process::Command;
use std::str::SplitWhitespace;

/// What may stand beside code under Apache-2.0 in one program. What is not here is a breach: add it with its reason.
const PERMITTED: [&str; 8] = [
    // Ours.
    "Apache-2.0",
    // The same, and asks less of binaries.
    "Apache-2.0 WITH LLVM-exception",
    // These ask that their notice goes along (`cargo xtask notices`), and nothing of what is beside them.
    "MIT",
    "ISC",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // Tables of Unicode; the same.
    "Unicode-3.0",
    // Asks nothing of binaries.
    "Zlib",
];

/// What cargo builds here, with all features. The targets of `fuzz` have a lock file of their own, and nobody gets
/// them. Of what is given away, each package has a text that goes along. Crates of other systems need not be at hand,
/// but all for this one, tests' own among them.
///
/// # Errors
/// If cargo does not answer.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let mut tree = Command::new(cargo::program());
    tree.args(["tree", "--workspace", "--all-features", "--locked", "--color", "never"]);
    tree.args(["--prefix", "none", "--format", "{p}\t{l}"]).current_dir(checkout::root());
    breaches.extend(forbidden(&cargo::says(&mut tree)?));
    breaches.extend(notices::lacking()?);
    Ok(())
}

/// What is wrong with lines of a package, a tab and its licence.
fn forbidden(tree: &str) -> BTreeSet<String> {
    let lines = tree.lines().filter(|line| !line.is_empty());
    // So ends a line whose package was told before.
    let lines = lines.map(|line| line.strip_suffix(" (*)").unwrap_or(line));
    let packages = lines.map(|line| line.split_once('\t').unwrap_or((line, "")));
    packages
        .filter(|(_, licence)| !is_met_by(licence, &PERMITTED))
        .map(|(package, licence)| match licence {
            "" => format!("{package} names no licence"),
            _ => format!("{package} has a licence that is not among xtask/src/check/licences.rs: {licence}"),
        })
        .collect()
}

/// Whether an SPDX expression can be met by these licences. What is no such expression is not.
pub fn is_met_by(expression: &str, by: &[&str]) -> bool {
    // Some crates still write `/` for OR.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words, by) == Some(true) && words.next().is_none()
}

type Words<'a> = Peekable<SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, by: &[&str]) -> Option<bool> {
    let mut is_met = all_of(words, by)?;
    while words.next_if_eq(&"OR").is_some() {
        is_met |= all_of(words, by)?;
    }
    Some(is_met)
}

fn all_of(words: &mut Words<'_>, by: &[&str]) -> Option<bool> {
    let mut is_met = one(words, by)?;
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words, by)?;
    }
    Some(is_met)
}

fn one(words: &mut Words<'_>, by: &[&str]) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let is_met = any_of(words, by)?;
        return (words.next()? == ")").then_some(is_met);
    }
    if [")", "AND", "OR", "WITH"].contains(&word) {
        return None;
    }
    let name = match words.next_if_eq(&"WITH") {
        Some(_) => format!("{word} WITH {}", words.next()?),
        None => word.to_owned(),
    };
    Some(by.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_is_not_permitted_or_not_known_is_a_breach() {
        let tree = [
            "ours v0.1.0 (/here)\tApache-2.0",
            "serde v1.0.0\tMIT OR Apache-2.0",
            "silent v2.0.0\t",
            "",
            "serde v1.0.0\tMIT OR Apache-2.0 (*)",
            "copyleft v3.0.0\tGPL-3.0-only (*)",
            "copyleft v3.0.0\tGPL-3.0-only",
        ];
        let found: Vec<String> = forbidden(&tree.join("\n")).into_iter().collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("copyleft v3.0.0 ") && found[0].ends_with(": GPL-3.0-only"),
            "{found:?}"
        );
        assert_eq!(found[1], "silent v2.0.0 names no licence");
    }

    #[test]
    fn of_an_expression_what_has_to_be_met_is_permitted() {
        for permitted in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "ISC AND (Apache-2.0 OR ISC)",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-2.0-only AND MIT OR Zlib",
        ] {
            assert!(is_met_by(permitted, &PERMITTED), "{permitted}");
        }
        for not in [
            "",
            "Proprietary",
            "MIT AND GPL-3.0-only",
            "GPL-3.0-only WITH Classpath-exception-2.0",
            "MIT WITH some-exception",
            "(MIT",
            "MIT)",
            "MIT OR",
            "OR MIT",
            "MIT Zlib",
            "MIT OR AND",
        ] {
            assert!(!is_met_by(not, &PERMITTED), "{not}");
        }
    }
}
