//! README.md and the guides: what a reader is to type is understood, each guide is in the list of documents, and each
//! command is on a page. Chores are understood wherever a page names one.

use super::text::{prose_lines, quoted};
use crate::bench::suite::SUITES;
use crate::{checkout, trees};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::fs;
use std::path::PathBuf;

/// How a command of the program begins, and how a chore does.
const PROGRAM: &str = "thalweg ";
const CHORE: &str = "cargo xtask ";

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
        let wrong = to_be_typed(&text, PROGRAM).into_iter().filter_map(|command| {
            let why = not_understood(&command)?;
            Some(format!("{shown}: `{command}`: {why}"))
        });
        breaches.extend(wrong);
        texts.push(text);
    }
    breaches.extend(unshown(&texts));
    for page in all_pages()? {
        let text = fs::read_to_string(&page)?;
        let shown = page.strip_prefix(&root).unwrap_or(&page).display().to_string();
        breaches.extend(no_chores(&text).into_iter().map(|why| format!("{shown}: {why}")));
    }
    Ok(())
}

/// Pages that may name a chore.
fn all_pages() -> Result<Vec<PathBuf>> {
    let root = checkout::root();
    let mut pages = vec![root.join("crates/python/README.md")];
    for entry in fs::read_dir(&root)? {
        pages.push(entry?.path());
    }
    for folder in ["docs", "examples"] {
        pages.extend(trees::files_below(&root.join(folder))?);
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages)
}

/// Chores that a page names and that there are not, each with what is wrong.
fn no_chores(text: &str) -> Vec<String> {
    let whole = to_be_typed(text, CHORE).into_iter().map(|command| (true, command));
    let named = named_in_sentences(text, CHORE).into_iter().map(|command| (false, command));
    let wrong = whole.chain(named).filter_map(|(is_whole, command)| {
        let why = no_chore(&command, is_whole)?;
        Some(format!("`{command}`: {why}"))
    });
    wrong.collect()
}

/// Why a chore is not understood; `None` if it is. One that is only named may lack what it needs, and has `N` for a
/// number.
fn no_chore(command: &str, is_whole: bool) -> Option<String> {
    let words = match thalweg_mover::link::ssh::split_words(command.as_bytes()) {
        Ok(words) => words,
        Err(why) => return Some(why.to_owned()),
    };
    let words = words.into_iter().map(|word| if word == "N" && !is_whole { "1".into() } else { word });
    // The first word is cargo's.
    match crate::Cli::command().try_get_matches_from(words.skip(1)) {
        Ok(matches) => {
            // The chore itself looks for it, when it runs.
            let suite = matches.subcommand_matches("bench")?.get_one::<String>("suite")?;
            let is_there = SUITES.iter().any(|known| known.name == suite.as_str());
            (!is_there).then(|| format!("error: there is no suite {suite}"))
        }
        Err(refused) if !is_whole && refused.kind() == ErrorKind::MissingRequiredArgument => None,
        Err(refused) => Some(refused.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// Commands between backquotes outside of blocks, also where a line ends within.
fn named_in_sentences(text: &str, beginning: &str) -> Vec<String> {
    let lines: Vec<&str> = prose_lines(text).map(|(_, line)| line.trim()).collect();
    let prose = lines.join("\n");
    // A backquote that has no other is the matter of its paragraph.
    let commands = prose.split("\n\n").flat_map(quoted).map(|words| words.replace('\n', " "));
    commands.filter(|command| command.starts_with(beginning)).collect()
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

/// Commands that begin so in the blocks of a page: all lines of shell, and of what is shown with its output those
/// behind `$ `.
fn to_be_typed(text: &str, beginning: &str) -> Vec<String> {
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
        let parts = parts.filter(|part| part.starts_with(beginning));
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
        let typed = to_be_typed(&readme, PROGRAM);
        assert!(typed.len() > 20, "{typed:?}");
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
        let found = to_be_typed(page, PROGRAM);
        assert_eq!(found, ["thalweg ls -l 'a b'", "thalweg stream   - there", "thalweg cp --magic a b"]);
        let wrong: Vec<bool> = found.iter().map(|command| not_understood(command).is_some()).collect();
        assert_eq!(wrong, [false, false, true]);
        assert!(not_understood("thalweg ls 'a").is_some());
    }

    #[test]
    fn a_chore_is_understood_wherever_it_is_named_and_one_that_is_gone_is_a_breach() {
        let page = "As `cargo xtask sim --seed N` says, and `cargo\nxtask check`; also `cargo xtask bench`.\n\n```sh\n\
                    cargo xtask gen --check  # all\ncargo xtask demo --gone && cargo xtask bench\n```\n\n\
                    `cargo xtask folklore`, `cargo xtask\n  torture --magic`, one ` alone\n\n`cargo xtask sim --seed x`\n\n\
                    `cargo xtask bench --suite large --runs 3`, `cargo xtask bench --suite gone`\n";
        let named = named_in_sentences(page, CHORE);
        assert_eq!(named.len(), 8, "{named:?}");
        assert_eq!(named[1], "cargo xtask check");
        assert_eq!(to_be_typed(page, CHORE).len(), 3);
        let wrong = no_chores(page);
        let begins = [
            "demo --gone`",
            "bench`",
            "folklore`",
            "torture --magic`",
            "sim --seed x`",
            "bench --suite gone`",
        ];
        assert_eq!(wrong.len(), begins.len(), "{wrong:?}");
        for (wrong, begins) in wrong.iter().zip(begins) {
            assert!(wrong.starts_with(&format!("`{CHORE}{begins}: error: ")), "{wrong}");
        }
    }
}
