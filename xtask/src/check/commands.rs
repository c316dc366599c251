//! README.md and the guides: what a reader is to type is understood, each guide is in the list of documents, and each
//! command is on a page.

use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

/// Pages whose commands a newcomer types.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let root = checkout::root();
    let mut pages = vec![root.join("README.md"), root.join("docs/figures/README.md")];
    let mut guides = Vec::new();
    for entry in fs::read_dir(root.join("docs/guide")).context("docs/guide")? {
        let entry = entry?;
        guides.push(entry.file_name().to_string_lossy().into_owned());
        pages.push(entry.path());
    }
    guides.sort();
    let list = fs::read_to_string(root.join("docs/README.md")).context("docs/README.md")?;
    breaches.extend(unlisted(&guides, &list));
    pages.sort();
    let mut texts = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        let shown = page.strip_prefix(&root).unwrap_or(&page).display().to_string();
        let wrong = to_be_typed(&text).into_iter().filter_map(|command| {
            let why = not_understood(&command)?;
            Some(format!("{shown}: `{command}`: {why}"))
        });
        breaches.extend(wrong);
        texts.push(text);
    }
    breaches.extend(unshown(&texts));
    Ok(())
}

/// Guides, by the names of their files, that the list of documents has no link to.
fn unlisted(guides: &[String], list: &str) -> Vec<String> {
    let is_listed = |name: &str| list.contains(&format!("(guide/{name})"));
    let missing = guides.iter().filter(|name| !is_listed(name));
    missing.map(|name| format!("docs/README.md does not list docs/guide/{name}")).collect()
}

/// Commands that no page has. Those that are not for people need none.
fn unshown(texts: &[String]) -> Vec<String> {
    let all = thalweg_cli::config::command();
    let names = all.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name().to_owned());
    let missing = names.filter(|name| name != "help" && !texts.iter().any(|text| has_command(text, name)));
    missing.map(|name| format!("no page of docs/guide has `thalweg {name}`")).collect()
}

/// Whether a page has a command, in a block or in a sentence.
fn has_command(text: &str, name: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_lowercase() || c == '-';
    text.split("thalweg ").skip(1).any(|rest| rest.split(|c: char| !of_a_name(c)).next() == Some(name))
}

/// Commands of thalweg in the blocks of a page: all lines of shell, and of what is shown with its output those behind
/// `$ `.
fn to_be_typed(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut language = None;
    let mut line = String::new();
    for next in text.lines() {
        if let Some(fence) = next.strip_prefix("```") {
            language = language.is_none().then_some(fence);
            continue;
        }
        let part = match language {
            Some("sh") => next,
            Some("console" | "text") => next.strip_prefix("$ ").unwrap_or_default(),
            _ => continue,
        };
        line.push_str(part.split(" #").next().unwrap_or_default().trim_end());
        if line.ends_with('\\') {
            line.pop();
            continue;
        }
        let line = std::mem::take(&mut line);
        let parts = line.split("&&").flat_map(|part| part.split(['|', ';'])).map(str::trim);
        let parts = parts.filter(|part| part.starts_with("thalweg "));
        commands.extend(parts.map(|part| part.trim_end_matches('&').trim().to_owned()));
    }
    commands
}

/// Why the program does not understand a command; `None` if it does. Words that stand for a key become one.
fn not_understood(command: &str) -> Option<String> {
    let command = command.replace("FINGERPRINT", &"0".repeat(64));
    let words = match thalweg_mover::link::ssh::split_words(command.as_bytes()) {
        Ok(words) => words,
        Err(why) => return Some(why.to_owned()),
    };
    let refused = thalweg_cli::config::command().try_get_matches_from(words).err()?;
    Some(refused.to_string().lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_is_to_type_is_understood() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
        let readme = fs::read_to_string(checkout::root().join("README.md")).unwrap();
        assert!(to_be_typed(&readme).len() > 20, "{:?}", to_be_typed(&readme));
    }

    #[test]
    fn a_guide_that_is_not_listed_and_a_command_that_is_on_no_page_are_named() {
        let guides = ["a.md".to_owned(), "b.md".to_owned()];
        assert_eq!(unlisted(&guides, "[A](guide/a.md)"), ["docs/README.md does not list docs/guide/b.md"]);
        assert!(has_command("as `thalweg explain-filter` says", "explain-filter"));
        assert!(!has_command("as `thalweg explain-filter` says, filter", "explain"));
        let none = unshown(&[]);
        assert!(none.contains(&"no page of docs/guide has `thalweg cp`".to_owned()), "{none:?}");
        assert!(!none.iter().any(|breach| breach.contains("keep-job")), "{none:?}");
    }

    #[test]
    fn commands_are_found_in_blocks_and_those_of_an_option_that_is_gone_are_named() {
        let page = "`thalweg folklore`\n```sh\nmkdir x && thalweg ls -l 'a b' | sort  # thalweg nothing\ntar c a | thalweg stream \\\n  \
                    - there &\n```\n```console\n$ thalweg cp --magic a b\nthalweg says nothing\n```\n";
        let found = to_be_typed(page);
        assert_eq!(found, ["thalweg ls -l 'a b'", "thalweg stream   - there", "thalweg cp --magic a b"]);
        let wrong: Vec<bool> = found.iter().map(|command| not_understood(command).is_some()).collect();
        assert_eq!(wrong, [false, false, true]);
        assert!(not_understood("thalweg ls 'a").is_some());
    }
}
