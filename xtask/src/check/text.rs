//! What guards find in a text: its code, words between backquotes, tests.

use crate::{checkout, trees};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust sources below a directory.
///
/// # Errors
/// What the file system says.
pub fn sources_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = trees::files_below(directory)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    Ok(files)
}

/// All Rust sources of a module: the file beside its folder, and those below that; of a folder alone, those below it.
///
/// # Errors
/// What the file system says.
pub fn sources_of(module: &Path) -> Result<Vec<PathBuf>> {
    let mut files = if module.is_dir() { sources_below(module)? } else { Vec::new() };
    files.extend(Some(module.with_extension("rs")).filter(|file| file.exists()));
    Ok(files)
}

/// Lines that are code: no comments, and nothing that is there for tests only.
pub fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut tests = Tests::No;
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .filter(move |(_, line)| !tests.has(line) && !line.trim_start().starts_with("//"))
}

/// Whether the lines of a text, one after another, are of an item for tests. Formatted code begins and ends an item at
/// the same indent.
enum Tests {
    No,
    /// Its attribute was there, with this before it.
    Announced(String),
    /// Until its closing brace, which has this before it.
    In(String),
}

impl Tests {
    fn has(&mut self, line: &str) -> bool {
        let indent = || line[..line.len() - line.trim_start().len()].to_owned();
        let (is_theirs, next) = match self {
            Tests::No if line.trim_start().starts_with("#[cfg(test)]") => (true, Tests::Announced(indent())),
            Tests::No => return false,
            // Other attributes, and the beginning of what takes several lines.
            Tests::Announced(before) if line.ends_with('{') => (true, Tests::In(std::mem::take(before))),
            Tests::Announced(before) if line.ends_with([';', '}', ',']) && indent() == *before => {
                (true, Tests::No)
            }
            Tests::In(before) if line.starts_with(&format!("{before}}}")) => (true, Tests::No),
            Tests::Announced(_) | Tests::In(_) => return true,
        };
        *self = next;
        is_theirs
    }
}

/// What stands between backquotes.
pub fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Lines of a page, with their numbers from 1. Those of its blocks of code are empty: a paragraph ends there.
pub fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).map(move |(number, line)| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        (number, if is_code || is_fence { "" } else { line })
    })
}

/// Whether a file has a test of this name.
pub fn has_test(file: &Path, function: &str) -> bool {
    let word = if file.extension().is_some_and(|extension| extension == "py") { "def" } else { "fn" };
    fs::read_to_string(checkout::root().join(file)).is_ok_and(|text| is_test_in(&text, word, function))
}

/// Whether a text has a test of this name, and not a helper, an ignored one, or one in a comment.
fn is_test_in(text: &str, word: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let begins = [format!("{word} {function}("), format!("async {word} {function}(")];
    let mut places = (0..lines.len()).filter(|&at| begins.iter().any(|begin| lines[at].starts_with(begin)));
    places.any(|at| {
        let above = || lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '@', '/']));
        // pytest goes by the name alone.
        let is_marked = word == "def" || above().any(|line| line.starts_with("#[") && line.contains("test"));
        is_marked
            && !above().any(|line| line.starts_with("#[ignore") || line.starts_with("@pytest.mark.skip("))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_its_file_and_those_below_its_folder() {
        let files = sources_of(&checkout::root().join("xtask/src/bench")).unwrap();
        let has = |end: &str| files.iter().any(|file| file.ends_with(end));
        assert!(has("src/bench.rs") && has("bench/rows.rs") && !has("src/main.rs"));
        assert_eq!(sources_of(&checkout::root().join("xtask/src/sim")).unwrap().len(), 1);
    }

    #[test]
    fn of_blocks_of_code_a_page_has_empty_lines() {
        let lines: Vec<_> = prose_lines("a\n```sh\nb\n```\n c\n```\nd").collect();
        assert_eq!(lines, [(1, "a"), (2, ""), (3, ""), (4, ""), (5, " c"), (6, ""), (7, "")]);
    }

    #[test]
    fn a_helper_an_ignored_test_and_a_comment_are_no_tests() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n#[test]\n#[ignore]\nfn c() {}\n// fn d() {}\n#[tokio::test]\nasync fn e() {}";
        let tests = ["a", "b", "c", "d", "e"].map(|name| is_test_in(text, "fn", name));
        assert_eq!(tests, [true, false, false, false, true]);
        assert!(is_test_in("def test_x(tmp):\n", "def", "test_x"));
    }
}
