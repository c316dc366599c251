//! `cargo xtask check`: rules of the house that no compiler knows.
//!
//! 1. Layers: an arrow between crates or between modules of the mover points only down.
//! 2. Deciding is apart from doing: the deciding modules know no clock, no disk, no network.
//! 3. SPEC.md: every promise, and every lettered part of one, names a test that exists; so does every fault of
//!    docs/faults.md.
//! 4. docs/papers.md: every row names a test that exists or a command that is understood, *not here* or not; no table,
//!    figure, equation or listing that a paper numbers is left out.
//! 5. README.md and the guides: every command of thalweg that a reader is to type is understood.
//! 6. No tracked file cites a document that is not in the tree, and every link of a page leads to a file that is.
//! 7. bench/results: the commit that a result was measured with is in the history.
//! 8. docs/reference/json.md has every event that `--json` tells.

use crate::tools;
use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Which crates of ours a crate may use.
const CRATES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sys", &[]),
    ("mover", &["wire", "sys"]),
    ("service", &["mover", "wire", "sys"]),
    ("lab", &["mover", "wire", "sys"]),
    ("client", &["service", "mover", "wire", "sys"]),
    ("arrival", &["client", "mover", "wire", "sys"]),
    ("python", &["client", "mover", "wire"]),
    ("cli", &["arrival", "client", "service", "lab", "mover", "wire", "sys"]),
];

/// Who does the work: what decides knows none of them, and neither kernel, clock, disk nor network.
const DOING: &[&str] = &[
    "crate::run",
    "crate::stage",
    "crate::link",
    "crate::endpoint",
    "thalweg_sys",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "aws_lc_rs::rand",
    "fastrand::Rng::new",
    "crate::sim",
];

/// Documents that those who read the sources do not have: a citation of one leads nowhere.
const NOT_HERE: &[&str] = &["LIMITS.md", "TRUST.md", "CHECKLIST.md", "STYLE.md", "DESIGN.md"];

/// Files that may name them: this one.
const MAY_NAME_THEM: &[&str] = &["xtask/src/check.rs"];

/// How many of each kind a paper numbers. In docs/papers.md each has a row, or a word that it asks nothing of a mover.
const NUMBERED: &[(&str, &[(&str, usize)])] = &[
    ("000", &[("Table", 10), ("Fig", 13)]),
    ("001", &[("Fig", 9), ("Eq", 6)]),
    ("002", &[("Table", 3), ("Fig", 11), ("Listing", 1)]),
    ("003", &[("Table", 3), ("Fig", 4), ("Eq", 11)]),
    ("004", &[("Table", 1), ("Fig", 9)]),
];

/// A module of the mover.
struct Room {
    name: &'static str,
    /// Whether it decides, and so must not mention what is [`DOING`].
    decides: bool,
    /// What of that it may mention: a name of a thing, and not the thing.
    but: &'static [&'static str],
    /// What else it must not mention.
    nor: &'static [&'static str],
}

/// One that decides.
const fn deciding(name: &'static str, but: &'static [&'static str], nor: &'static [&'static str]) -> Room {
    Room { name, decides: true, but, nor }
}

/// One that does.
const fn doing(name: &'static str, nor: &'static [&'static str]) -> Room {
    Room { name, decides: false, but: &[], nor }
}

/// What modules of the mover must not mention.
const ROOMS: &[Room] = &[
    deciding("transfer", &[], &[]),
    deciding("again.rs", &[], &["crate::transfer", "crate::flow"]),
    deciding("flow", &[], &["crate::transfer"]),
    deciding("frames", &[], &["crate::transfer"]),
    deciding("admission", &[], &[]),
    deciding("plan.rs", &[], &[]),
    deciding("order", &["crate::endpoint"], &["crate::transfer"]),
    deciding("tune", &[], &[]),
    deciding("basin", &["crate::stage", "std::net"], &[]),
    deciding("model", &[], &["crate::transfer", "thalweg_wire"]),
    doing("endpoint", &["crate::run", "crate::stage", "crate::link", "crate::transfer", "crate::flow"]),
    doing("manifest", &["crate::run", "crate::stage", "crate::link", "crate::transfer"]),
    doing("journal", &["crate::run", "crate::stage", "crate::link", "crate::transfer"]),
    doing("link", &["crate::run", "crate::stage", "crate::endpoint", "crate::transfer"]),
    doing("stage", &["crate::run"]),
];

impl Room {
    fn forbidden(&self) -> impl Iterator<Item = &'static str> {
        let doing = if self.decides { DOING } else { &[] };
        doing.iter().filter(|word| !self.but.contains(*word)).chain(self.nor).copied()
    }
}

/// Checks all of it.
///
/// # Errors
/// Naming every breach.
pub fn run() -> Result<()> {
    let mut breaches = Vec::new();
    crates(&mut breaches)?;
    modules(&mut breaches)?;
    promises(&mut breaches)?;
    faults(&mut breaches)?;
    papers(&mut breaches)?;
    pages(&mut breaches)?;
    citations(&mut breaches)?;
    results(&mut breaches)?;
    events(&mut breaches)?;
    if breaches.is_empty() {
        println!(
            "    layers, deciding apart from doing, promises with tests, commands that are understood, citations, results, \
             events: in order"
        );
        return Ok(());
    }
    bail!("{}", breaches.join("\n"))
}

fn crates(breaches: &mut Vec<String>) -> Result<()> {
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(tools::root().join(format!("crates/{name}/Cargo.toml")))?;
        for line in manifest.lines() {
            let Some(rest) = line.strip_prefix("thalweg-") else { continue };
            let used = rest.split(['.', ' ', '=']).next().unwrap_or_default();
            if !allowed.contains(&used) {
                breaches.push(format!("crates/{name} uses thalweg-{used}: that arrow points up"));
            }
        }
    }
    Ok(())
}

fn modules(breaches: &mut Vec<String>) -> Result<()> {
    let source = tools::root().join("crates/mover/src");
    for room in ROOMS {
        let path = source.join(room.name);
        let files = if path.is_dir() { tools::files_below(&path)? } else { vec![path] };
        for file in files {
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let place = file.strip_prefix(tools::root()).unwrap_or(&file).display();
            breaches.extend(
                mentioned(room, &text).map(|(number, word)| format!("{place}:{number} mentions {word}")),
            );
        }
    }
    Ok(())
}

/// What a text mentions of that which its room must not, with the number of the line.
fn mentioned<'a>(room: &'a Room, text: &'a str) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    code_lines(text).flat_map(|(number, line)| {
        let written = written_out(line);
        let is_there =
            move |word: &&str| line.contains(word) || written.iter().any(|path| path.contains(word));
        room.forbidden().filter(is_there).map(move |word| (number, word))
    })
}

/// The paths that a line imports with braces, each by itself: of `use std::{fs, io};` `std::fs` and `std::io`. Braces
/// within braces are of paths whose beginning is told.
fn written_out(line: &str) -> Vec<String> {
    let Some((before, within)) = line.split_once("::{") else { return Vec::new() };
    let before = before.rsplit([' ', '(']).next().unwrap_or(before);
    within.split([',', '{', '}', ';']).map(|name| format!("{before}::{}", name.trim())).collect()
}

/// Lines that are code: no comments, and nothing that is there for tests only.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut tests = Tests::No;
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .filter(move |(_, line)| !tests.has(line) && !line.trim_start().starts_with("//"))
}

/// Whether the lines of a text, one after another, are of an item for tests. Formatted code begins and ends an item at the
/// same indent.
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

fn promises(breaches: &mut Vec<String>) -> Result<()> {
    let spec = fs::read_to_string(tools::root().join("SPEC.md")).context("SPEC.md")?;
    let is_test = |test: &str| {
        test.rsplit_once("::").is_some_and(|(file, function)| has_test(Path::new(file), function))
    };
    breaches.extend(not_held(&spec, is_test).into_iter().map(|breach| format!("SPEC.md: {breach}")));
    Ok(())
}

/// What is wrong with the promises of a text.
///
/// A promise is a section `### 71. Words`, and each of its tests an item of a list, `file::function`. One that promises several
/// things is parted by `**71a.** Words`, `**71b.** Words`: then its tests stand beside these, and each of them has one.
fn not_held(spec: &str, is_test: impl Fn(&str) -> bool) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut numbers = BTreeSet::new();
    let mut promise: Option<Promise> = None;
    for line in spec.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            breaches.extend(promise.take().and_then(|promise| promise.lacks_tests()));
            let Some((number, _)) = heading.split_once(". ").filter(|(number, _)| is_number(number)) else {
                breaches.push(format!("the promise {heading} has no number"));
                continue;
            };
            if !numbers.insert(number.to_owned()) {
                breaches.push(format!("there are two promises {number}"));
            }
            promise = Some(Promise { number: number.to_owned(), letters: 0, tests: 0, is_pending: false });
        }
        let Some(promise) = &mut promise else { continue };
        if let Some((name, _)) = line.strip_prefix("**").and_then(|rest| rest.split_once(".**")) {
            match promise.letters {
                0 if promise.tests > 0 => breaches.push(format!("tests stand before {name}, beside no part")),
                0 => {}
                _ => breaches.extend(promise.lacks_tests()),
            }
            let expected = char::from(b'a' + promise.letters);
            let expected = format!("{}{expected}", promise.number);
            if name != expected {
                breaches.push(format!("{name} stands where {expected} should"));
            }
            (promise.letters, promise.tests, promise.is_pending) = (promise.letters + 1, 0, false);
        } else if let Some(test) = line.strip_prefix("- `").and_then(|rest| rest.strip_suffix('`')) {
            if !is_test(test) {
                breaches.push(format!("there is no test {test}"));
            }
            promise.tests += 1;
        } else if line.starts_with("Pending: ") {
            promise.is_pending = true;
        }
    }
    breaches.extend(promise.and_then(|promise| promise.lacks_tests()));
    breaches
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A promise of SPEC.md, as far as it was read.
struct Promise {
    number: String,
    /// How many parts it has until here.
    letters: u8,
    /// Beside the last of these; without any, of the whole.
    tests: usize,
    is_pending: bool,
}

impl Promise {
    /// That nothing holds it, or its last part.
    fn lacks_tests(&self) -> Option<String> {
        let part = self.letters.checked_sub(1).map(|last| char::from(b'a' + last).to_string());
        let name = format!("{}{}", self.number, part.unwrap_or_default());
        let is_held = self.tests > 0 || self.is_pending;
        (!is_held).then(|| format!("promise {name} names neither a test nor that it is pending"))
    }
}

/// In docs/faults.md tests stand as `file::function`.
fn faults(breaches: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(tools::root().join("docs/faults.md")).context("docs/faults.md")?;
    let words = text.lines().filter(|line| line.starts_with('|')).flat_map(quoted);
    for test in words.filter(|word| word.contains("::")) {
        match test.rsplit_once("::") {
            Some((file, function)) if has_test(Path::new(file), function) => {}
            _ => breaches.push(format!("docs/faults.md: there is no test {test}")),
        }
    }
    Ok(())
}

/// In docs/papers.md each row of a table has tests and commands in its last column, and in its first what it is about.
fn papers(breaches: &mut Vec<String>) -> Result<()> {
    const PAGE: &str = "docs/papers.md";
    let text = fs::read_to_string(tools::root().join(PAGE)).context(PAGE)?;
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

/// Pages whose commands a newcomer types.
fn pages(breaches: &mut Vec<String>) -> Result<()> {
    let root = tools::root();
    let mut pages = vec![root.join("README.md"), root.join("docs/figures/README.md")];
    for entry in fs::read_dir(root.join("docs/guide")).context("docs/guide")? {
        pages.push(entry?.path());
    }
    pages.sort();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        let shown = page.strip_prefix(&root).unwrap_or(&page).display().to_string();
        let wrong = to_be_typed(&text).into_iter().filter_map(|command| {
            let why = not_understood(&command)?;
            Some(format!("{shown}: `{command}`: {why}"))
        });
        breaches.extend(wrong);
    }
    Ok(())
}

/// Commands of thalweg in the blocks of a page: all lines of shell, and of what is shown with its output those behind `$ `.
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

/// All that git tracks; sources without git are not looked at, for nothing tells them from what else lies there.
fn citations(breaches: &mut Vec<String>) -> Result<()> {
    let root = tools::root();
    if !root.join(".git").exists() {
        return Ok(());
    }
    let tracked = tools::says(&mut tools::git(&["ls-files", "-z"]))?;
    for name in tracked.split('\0').filter(|name| !name.is_empty() && !MAY_NAME_THEM.contains(name)) {
        // What is no text (a picture, bytes for a test) cites nothing.
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        for (number, word) in not_here(&text) {
            breaches.push(format!("{name}:{number} cites {word}, which nobody has who reads it"));
        }
        let page = root.join(name);
        if page.extension().is_some_and(|extension| extension == "md") {
            for (number, target) in broken_links(&page, &text) {
                breaches.push(format!("{name}:{number} has a link to {target}, which is not there"));
            }
        }
    }
    Ok(())
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

/// Lines of a page with a link to a file that is not there, and to which.
fn broken_links(page: &Path, text: &str) -> Vec<(usize, String)> {
    let mut broken = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.starts_with("```");
        let prose: String = line.split('`').step_by(2).filter(|_| !is_code).collect();
        for link in prose.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let is_elsewhere = target.is_empty() || target.contains("://");
            if !is_elsewhere && page.parent().is_none_or(|folder| !folder.join(target).exists()) {
                broken.push((index + 1, target.to_owned()));
            }
        }
    }
    broken
}

/// Who doubts a result builds the commit that it names: it has to be in the history of what is checked out. Older results name
/// none.
fn results(breaches: &mut Vec<String>) -> Result<()> {
    let has_git = tools::root().join(".git").exists();
    if !has_git || tools::says(&mut tools::git(&["rev-parse", "--is-shallow-repository"]))? != "false" {
        println!("    commits of bench/results: not checked, the history is not here");
        return Ok(());
    }
    let directory = tools::root().join("bench/results");
    for path in tools::files_below(&directory)? {
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
    let mut asked = tools::git(&["merge-base", "--is-ancestor", &name, "HEAD"]);
    is_name && asked.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What a program reads it has to be able to look up.
fn events(breaches: &mut Vec<String>) -> Result<()> {
    const PAGE: &str = "docs/reference/json.md";
    let page = fs::read_to_string(tools::root().join(PAGE)).context(PAGE)?;
    let told: Vec<&str> = quoted(&page).collect();
    for source in ["crates/cli/src", "crates/client/src"] {
        for file in tools::files_below(&tools::root().join(source))? {
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            for (number, line) in code_lines(&text) {
                for event in events_in(line).filter(|event| !told.contains(event)) {
                    let place = file.strip_prefix(tools::root()).unwrap_or(&file).display();
                    breaches.push(format!("{place}:{number} tells `{event}`, which is not in {PAGE}"));
                }
            }
        }
    }
    Ok(())
}

/// Events whose names stand in a line of code, behind the field or in an object about a path.
fn events_in(line: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 4] = ["\"event\": \"", "(\"event\".into(), \"", "(\"event\", \"", "about(\""];
    let rests = BEFORE.into_iter().flat_map(move |before| line.split(before).skip(1));
    let names = rests.filter_map(|rest| rest.split('"').next());
    names.filter(|name| name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-'))
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn has_test(file: &Path, function: &str) -> bool {
    let word = if file.extension().is_some_and(|extension| extension == "py") { "def" } else { "fn" };
    fs::read_to_string(tools::root().join(file)).is_ok_and(|text| is_test_in(&text, word, function))
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
    fn what_a_room_must_not_mention_is_found_whatever_stands_before_it_and_however_it_is_imported() {
        let room = ROOMS.iter().find(|room| room.decides && room.but.is_empty()).unwrap();
        let found = |text: &str| mentioned(room, text).collect::<Vec<_>>();
        assert_eq!(found("use std::fs;"), [(1, "std::fs")]);
        assert_eq!(found("use std::{fs, io};"), [(1, "std::fs")]);
        assert_eq!(found("use crate::{failure::Result, run::copy};"), [(1, "crate::run")]);
        let behind_an_import = "#[cfg(test)]\nuse a::b;\nfn f() { std::env::var(x) }";
        assert_eq!(found(behind_an_import), [(3, "std::env")]);
        let behind_an_item = "#[cfg(test)]\nmod double {\n    use std::fs;\n}\nlet now = Instant::now();";
        assert_eq!(found(behind_an_item), [(5, "Instant::now")]);
        let within = "impl A {\n    #[cfg(test)]\n    fn a() {\n        std::fs::read(b)\n    }\n    fn c() { std::thread::yield_now() }\n}";
        assert_eq!(found(within), [(6, "std::thread")]);
        assert_eq!(found("// std::fs\n#[cfg(test)]\nmod tests {\n    std::fs\n}"), []);
    }

    #[test]
    fn a_helper_an_ignored_test_and_a_comment_are_no_tests() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n#[test]\n#[ignore]\nfn c() {}\n// fn d() {}\n#[tokio::test]\nasync fn e() {}";
        let tests = ["a", "b", "c", "d", "e"].map(|name| is_test_in(text, "fn", name));
        assert_eq!(tests, [true, false, false, false, true]);
        assert!(is_test_in("def test_x(tmp):\n", "def", "test_x"));
    }

    #[test]
    fn every_row_of_the_papers_is_shown_by_what_is_there() {
        let text = fs::read_to_string(tools::root().join("docs/papers.md")).unwrap();
        assert_eq!(not_shown(&text), Vec::<String>::new());
        assert!(text.lines().filter(|line| line.starts_with("| ")).count() > 50);
    }

    #[test]
    fn a_table_figure_or_equation_of_a_paper_that_is_left_out_is_a_breach() {
        let text = fs::read_to_string(tools::root().join("docs/papers.md")).unwrap();
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
    fn each_lettered_part_of_a_promise_has_a_test_of_its_own() {
        let wrong = |spec: &str| not_held(spec, |test| test == "a.rs::holds");
        let test = "- `a.rs::holds`\n";
        let whole =
            format!("### 1. One\n{test}### 2. Two\nOf both.\n**2a.** So.\n{test}**2b.** And so.\n{test}");
        assert_eq!(wrong(&whole), Vec::<String>::new());
        assert_eq!(wrong(&format!("{whole}**2c.** Later.\nPending: a test\n")), Vec::<String>::new());
        for (spec, breach) in [
            ("### 1. One\n".into(), "promise 1 names neither a test nor that it is pending"),
            (
                format!("### 1. One\n**1a.** x\n**1b.** y\n{test}"),
                "promise 1a names neither a test nor that it is pending",
            ),
            (
                format!("### 1. One\n**1a.** x\n{test}**1b.** y\n"),
                "promise 1b names neither a test nor that it is pending",
            ),
            (format!("### 1. One\n{test}**1a.** x\n{test}"), "tests stand before 1a, beside no part"),
            (format!("### 1. One\n**1a.** x\n{test}**1c.** y\n{test}"), "1c stands where 1b should"),
            (format!("### 1. One\n**2a.** x\n{test}"), "2a stands where 1a should"),
            (format!("### One. Two\n{test}"), "the promise One. Two has no number"),
            (format!("### 1. One\n{test}### 1. Again\n{test}"), "there are two promises 1"),
            ("### 1. One\n- `a.rs::is_gone`\n".into(), "there is no test a.rs::is_gone"),
        ] {
            assert_eq!(wrong(&spec), [breach], "{spec}");
        }
    }

    #[test]
    fn every_promise_is_held_by_tests_that_are_there() {
        let mut breaches = Vec::new();
        promises(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }

    #[test]
    fn every_event_is_in_the_reference() {
        let mut breaches = Vec::new();
        events(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
        let told = |line: &'static str| events_in(line).collect::<Vec<&str>>();
        assert_eq!(told(r#"json!({"event": "set", "frames": 3})"#), ["set"]);
        assert_eq!(told(r#"put("event", "finished".into());"#), ["finished"]);
        assert_eq!(told(r#"object.insert("event".into(), "why".into());"#), ["why"]);
        assert_eq!(told(r#"let mut object = json::about("damage", path);"#), ["damage"]);
        assert_eq!(told(r#"json!({"event": name})"#), [""; 0]);
        assert_eq!(told(r#"about("read a result file", &args.file, &error)"#), [""; 0]);
    }

    #[test]
    fn what_a_reader_is_to_type_is_understood() {
        let mut breaches = Vec::new();
        pages(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
        let readme = fs::read_to_string(tools::root().join("README.md")).unwrap();
        assert!(to_be_typed(&readme).len() > 20, "{:?}", to_be_typed(&readme));
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

    #[test]
    fn documents_that_are_not_here_are_cited_nowhere() {
        let text =
            "as STYLE.md says\nSTYLE is a constant, MY_STYLE.md another page\n(DESIGN.md, `LIMITS.md`)\n";
        assert_eq!(not_here(text), [(1, "STYLE.md"), (3, "LIMITS.md"), (3, "DESIGN.md")]);
        let mut breaches = Vec::new();
        citations(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
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
        if tools::root().join(".git").exists() {
            let head = tools::says(&mut tools::git(&["rev-parse", "--short", "HEAD"])).unwrap();
            assert!(is_in_history(&head), "{head}");
        }
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_a_breach() {
        let page = tools::root().join("docs/README.md");
        let text = "[a](../SPEC.md#x), [b](#y), `[c](gone.md)`, [d](https://e.f)\n```\n[g](gone.md)\n```\n[`h`](gone.md)\n";
        assert_eq!(broken_links(&page, text), [(5, "gone.md".to_owned())]);
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
