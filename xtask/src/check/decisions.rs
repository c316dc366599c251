//! docs/decisions: each says what it costs and what would change our mind, so that whoever asks again knows when to.

use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

/// Where they stand.
const FOLDER: &str = "docs/decisions";

/// Sections that each of them has, whatever others it has besides.
const SECTIONS: [&str; 4] = ["Context", "Decision", "Costs", "What would change our mind"];

/// Each decision has these sections, each with words in it.
///
/// # Errors
/// If one cannot be read.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(checkout::root().join(FOLDER)).context(FOLDER)? {
        let path = entry.context(FOLDER)?.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        breaches.extend(lacking(&text).map(|section| format!("{FOLDER}/{name} lacks *{section}*")));
    }
    Ok(())
}

/// Sections that a decision does not have, or that say nothing.
fn lacking(text: &str) -> impl Iterator<Item = &'static str> {
    let says = |section: &str| {
        let (heading, words) = section.split_once('\n').unwrap_or((section, ""));
        (!words.trim().is_empty()).then(|| heading.trim().to_owned())
    };
    let there: Vec<String> = text.split("\n## ").skip(1).filter_map(says).collect();
    SECTIONS.into_iter().filter(move |section| !there.iter().any(|heading| heading == section))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_without_its_costs_or_what_would_change_it_is_a_breach() {
        let of = |text: &str| lacking(text).collect::<Vec<_>>();
        let whole = "# 0001: A\n\n## Context\n\nB.\n\n## Decision\n\nC.\n\n### Costs of it\n\nD.\n\n\
                     ## Costs\n\nE.\n\n## What would change our mind\n\nF.\n\n## Shown by\n\nG.\n";
        assert_eq!(of(whole), Vec::<&str>::new());
        assert_eq!(of(&whole.replace("\n## Costs\n", "\n## Cost\n")), ["Costs"]);
        assert_eq!(of(&whole.replace("\nF.\n", "")), ["What would change our mind"]);
        assert_eq!(of("# 0001: A\n\n## Context\n\nB.\n"), SECTIONS[1..]);
    }

    #[test]
    fn every_decision_says_what_it_costs_and_what_would_change_our_mind() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }
}
