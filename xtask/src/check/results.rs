//! bench/results: a result names the commit that it was measured with, and that is in the history.

use crate::{checkout, command, trees};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

const RESULTS: &str = "bench/results";

/// Results from before they named a commit, until they are measured again.
const WITHOUT_COMMIT: [&str; 1] = ["frames.jsonl"];

/// Who doubts a result builds the commit that it names: it has to be in the history of what is checked out.
///
/// # Errors
/// If git does not answer, or a result cannot be read.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let commits = commits(&checkout::root().join(RESULTS))?;
    breaches.extend(without_commit(&commits, &WITHOUT_COMMIT));
    let has_git = checkout::root().join(".git").exists();
    if !has_git || command::says(&mut checkout::git(&["rev-parse", "--is-shallow-repository"]))? != "false" {
        println!("    commits of bench/results: not checked, the history is not here");
        return Ok(());
    }
    for (name, commit) in commits {
        if let Some(commit) = commit.filter(|commit| !is_in_history(commit)) {
            breaches
                .push(format!("{RESULTS}/{name} was measured with {commit}, which is not in the history"));
        }
    }
    Ok(())
}

/// The commit that each result names, by the name of its file; none of one that names none.
fn commits(directory: &Path) -> Result<BTreeMap<String, Option<String>>> {
    let mut commits = BTreeMap::new();
    for path in trees::files_below(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What a run that was stopped had by then.
        if name.starts_with('.') {
            continue;
        }
        let mut first = String::new();
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        BufReader::new(file).read_line(&mut first).with_context(|| path.display().to_string())?;
        commits.insert(name, commit_of(&first));
    }
    Ok(commits)
}

/// Breaches: results that name no commit, but for these, and those of these that name one or are not there.
fn without_commit(commits: &BTreeMap<String, Option<String>>, excepted: &[&str]) -> Vec<String> {
    let is_excepted = |name: &String| excepted.contains(&name.as_str());
    let silent = commits.iter().filter(|(name, commit)| commit.is_none() && !is_excepted(name));
    let silent = silent.map(|(name, _)| {
        format!("{RESULTS}/{name} does not say with which commit it was measured: commit first, measure then")
    });
    let is_needed = |name: &str| commits.get(name).is_some_and(Option::is_none);
    let idle = excepted.iter().filter(|name| !is_needed(name));
    let idle = idle.map(|name| {
        format!(
            "{RESULTS}/{name} names a commit, or is not there: take it off the exceptions (WITHOUT_COMMIT)"
        )
    });
    silent.chain(idle).collect()
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
    fn a_result_without_a_commit_is_a_breach_and_an_exception_that_is_not_needed_too() {
        let result = |name: &str, commit: Option<&str>| (name.to_owned(), commit.map(str::to_owned));
        let told = |excepted: &[&str]| {
            let commits = BTreeMap::from([result("old.jsonl", None), result("new.jsonl", Some("443a681"))]);
            without_commit(&commits, excepted)
        };
        assert_eq!(told(&["old.jsonl"]), Vec::<String>::new());
        let silent = told(&[]);
        assert!(
            silent.len() == 1 && silent[0].starts_with("bench/results/old.jsonl does not say"),
            "{silent:?}"
        );
        for idle in ["new.jsonl", "gone.jsonl"] {
            let told = told(&["old.jsonl", idle]);
            assert!(
                told.len() == 1 && told[0].starts_with(&format!("bench/results/{idle} names")),
                "{told:?}"
            );
        }
    }

    /// Else it would not be committed, and nobody would be told.
    #[test]
    fn a_result_of_a_new_name_is_not_ignored_and_one_that_is_not_whole_is() {
        let exit_code_for = |name: &str| {
            let asked = checkout::git(&["check-ignore", "-q", &format!("{RESULTS}/{name}")]).status();
            asked.unwrap().code()
        };
        if checkout::root().join(".git").exists() {
            assert_eq!(exit_code_for("folklore.jsonl"), Some(1));
            assert_eq!(exit_code_for(".folklore.jsonl.part"), Some(0));
        }
    }

    #[test]
    fn each_result_names_its_commit_but_for_the_exceptions() {
        let commits = commits(&checkout::root().join(RESULTS)).unwrap();
        assert_eq!(without_commit(&commits, &WITHOUT_COMMIT), Vec::<String>::new());
    }

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
