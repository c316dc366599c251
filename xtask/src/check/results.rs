//! bench/results: the commit that a result was measured with is in the history.

use crate::{checkout, command, trees};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Who doubts a result builds the commit that it names: it has to be in the history of what is checked out. Older
/// results name none.
///
/// # Errors
/// If git does not answer, or a result cannot be read.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let has_git = checkout::root().join(".git").exists();
    if !has_git || command::says(&mut checkout::git(&["rev-parse", "--is-shallow-repository"]))? != "false" {
        println!("    commits of bench/results: not checked, the history is not here");
        return Ok(());
    }
    let directory = checkout::root().join("bench/results");
    for path in trees::files_below(&directory)? {
        let mut first = String::new();
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        BufReader::new(file).read_line(&mut first).with_context(|| path.display().to_string())?;
        let Some(commit) = commit_of(&first) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !is_in_history(&commit) {
            breaches.push(format!(
                "bench/results/{name} was measured with {commit}, which is not in the history"
            ));
        }
    }
    Ok(())
}

/// The commit that the first line of a result names, whether or not sources had been changed since.
fn commit_of(first: &str) -> Option<String> {
    let first: Value = serde_json::from_str(first).ok()?;
    let commit = first.get("about")?.get("commit")?.as_str()?;
    Some(commit.strip_suffix("-dirty").unwrap_or(commit).to_owned()).filter(|commit| commit != "unknown")
}

fn is_in_history(commit: &str) -> bool {
    // As `git describe` writes it. Else it could be an option, or a range.
    let is_name = commit.starts_with(|first: char| first.is_ascii_alphanumeric())
        && commit.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_".contains(letter));
    let name = format!("{commit}^{{commit}}");
    let mut asked = checkout::git(&["merge-base", "--is-ancestor", &name, "HEAD"]);
    is_name && asked.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_its_commit_and_one_that_is_not_in_the_history_is_a_breach() {
        let of = |commit: &str| {
            commit_of(&format!("{{\"about\":{{\"commit\":\"{commit}\",\"suite\":\"limit\"}}}}\n"))
        };
        assert_eq!(of("443a681").as_deref(), Some("443a681"));
        assert_eq!(of("v0.1-5-g443a681-dirty").as_deref(), Some("v0.1-5-g443a681"));
        assert_eq!((of("unknown"), commit_of("{\"about\":{}}"), commit_of("no JSON")), (None, None, None));
        for none in ["", "--all", "HEAD..HEAD", "0000000000000000000000000000000000000000"] {
            assert!(!is_in_history(none), "{none}");
        }
        if checkout::root().join(".git").exists() {
            let head = command::says(&mut checkout::git(&["rev-parse", "--short", "HEAD"])).unwrap();
            assert!(is_in_history(&head), "{head}");
        }
    }
}
