//! Arrows point only down: between crates, and between modules of the mover, whose order is that of its lib.rs.

use super::text::code_lines;
use crate::checkout;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of ours a crate may use.
const CRATES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sys", &[]),
    ("mover", &["wire", "sys"]),
    ("http", &["mover"]),
    ("tokens", &["http", "mover", "sys"]),
    ("service", &["tokens", "mover", "wire", "sys"]),
    ("objects", &["http", "mover", "wire", "sys"]),
    ("lab", &["mover", "wire", "sys"]),
    ("client", &["tokens", "service", "objects", "mover", "wire", "sys"]),
    ("arrival", &["client", "mover", "wire", "sys"]),
    ("python", &["client", "mover", "wire"]),
    ("cli", &["arrival", "client", "service", "lab", "mover", "wire", "sys"]),
];

/// Pairs of the mover's modules of which the second does not use the first, though that stands before it.
const APART: &[(&str, &str)] = &[("endpoint", "link"), ("transfer", "flow"), ("transfer", "frames")];

/// Looks at the crates, at the mover's modules, and at the map of them.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    crates(breaches)?;
    let source = checkout::root().join("crates/mover/src");
    let lib = fs::read_to_string(source.join("lib.rs")).context("crates/mover/src/lib.rs")?;
    let order = Order::of(&lib);
    modules(&source, &order, breaches)?;
    let map = fs::read_to_string(checkout::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    breaches.extend(order.misdrawn(&map).map(|breach| format!("ARCHITECTURE.md: {breach}")));
    Ok(())
}

fn crates(breaches: &mut Vec<String>) -> Result<()> {
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(checkout::root().join(format!("crates/{name}/Cargo.toml")))?;
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

fn modules(source: &Path, order: &Order<'_>, breaches: &mut Vec<String>) -> Result<()> {
    for module in &order.modules {
        let mut files = Vec::new();
        reach(source, module, 1, &mut files)?;
        for SourceFile { path, depth, text } in files {
            let place = path.strip_prefix(checkout::root()).unwrap_or(&path).display();
            breaches.extend(order.against(module, depth, &text).into_iter().map(|(number, name)| {
                format!(
                    "{place}:{number} uses crate::{name}, which stands behind or apart from it (see lib.rs)"
                )
            }));
        }
    }
    Ok(())
}

/// A file of the mover that is not there for tests only.
struct SourceFile {
    path: PathBuf,
    /// How many `super::` lead from it to the root of the crate.
    depth: usize,
    text: String,
}

/// The files of a module, and of those that it declares.
fn reach(folder: &Path, module: &str, depth: usize, found: &mut Vec<SourceFile>) -> Result<()> {
    let path = folder.join(format!("{module}.rs"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for (_, line) in code_lines(&text) {
        if let Some(child) = declared(line) {
            reach(&folder.join(module), child, depth + 1, found)?;
        }
    }
    found.push(SourceFile { path, depth, text });
    Ok(())
}

/// The module that a line declares and another file has.
fn declared(line: &str) -> Option<&str> {
    let (visibility, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
    let is_restricted = visibility.starts_with("pub(") && visibility.ends_with(") ");
    (matches!(visibility, "" | "pub ") || is_restricted).then_some(name)
}

/// In which order the modules of a crate stand: each uses only those before it.
struct Order<'a> {
    modules: Vec<&'a str>,
    /// What the root of the crate names, and of which module it is.
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Order<'a> {
    /// As its lib.rs has them.
    fn of(lib: &'a str) -> Order<'a> {
        let mut order = Order { modules: Vec::new(), named: Vec::new() };
        for (_, line) in code_lines(lib) {
            order.modules.extend(declared(line));
            if let Some((module, items)) =
                line.strip_prefix("pub use ").and_then(|rest| rest.split_once("::"))
            {
                let items = items.split(['{', '}', ',', ';', ' ']).filter(|item| !item.is_empty());
                order.named.extend(items.map(|item| (item, module)));
            }
        }
        order
    }

    /// Where what stands behind `crate::` has its place; `None` if it is of no module.
    fn place(&self, name: &str) -> Option<usize> {
        let named = self.named.iter().find(|(item, _)| *item == name);
        let module = named.map_or(name, |(_, module)| *module);
        self.modules.iter().position(|known| *known == module)
    }

    /// What a text of `module` uses against the order, with the number of the line.
    fn against(&self, module: &str, depth: usize, text: &str) -> Vec<(usize, String)> {
        let own = self.place(module);
        let mut used = used(text, depth);
        used.retain(|(_, name)| {
            let is_behind = self.place(name).is_some_and(|place| Some(place) > own);
            is_behind || APART.contains(&(name.as_str(), module))
        });
        used
    }

    /// Modules that the map of the mover in a page names in another order than they stand, or that are not there.
    fn misdrawn(&self, page: &str) -> impl Iterator<Item = String> {
        let map = page.split("\ncrates/").find(|part| part.starts_with("mover "));
        let names = map.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("  "));
        let names = names.filter(|line| !line.starts_with(' '));
        let names = names.filter_map(|line| line.split([' ', '/']).next());
        let mut last = None;
        names.filter_map(move |name| {
            let place = self.place(name);
            let is_behind = place > last;
            last = place.max(last);
            (!is_behind).then(|| format!("{name} does not stand where lib.rs of the mover has it"))
        })
    }
}

/// What of the root of its crate a text uses that lies so deep in it, with the number of the line.
fn used(text: &str, depth: usize) -> Vec<(usize, String)> {
    let lines: Vec<(usize, &str)> = code_lines(text).collect();
    let code = lines.iter().map(|(_, line)| *line).collect::<Vec<&str>>().join("\n");
    let mut used = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let (before, behind) = (&code[..at], &code[at + root.len()..]);
            // The end of a longer word, or of a longer path.
            if before.ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter)) {
                continue;
            }
            let (number, _) = lines[before.matches('\n').count()];
            used.extend(names(behind).into_iter().map(|name| (number, name)));
        }
    }
    used
}

/// The name that stands behind a path, or those in braces; braces within braces are of what is below these.
fn names(behind: &str) -> Vec<String> {
    let first_word = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let Some(within) = behind.strip_prefix('{') else { return vec![first_word(behind)] };
    let (mut names, mut name, mut open) = (Vec::new(), String::new(), 0_usize);
    for letter in within.chars() {
        match letter {
            '}' if open == 0 => break,
            ',' if open == 0 => names.push(first_word(&std::mem::take(&mut name))),
            '{' => open += 1,
            '}' => open -= 1,
            _ if open == 0 => name.push(letter),
            _ => {}
        }
    }
    names.push(first_word(&name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod low;\n\npub mod transfer;\n\npub mod flow;\n\n#[cfg(any(test, feature = \"sim\"))]\npub mod high;\n\n\
                       #[cfg(test)]\nmod tests;\n\npub use low::{Low, Lower};\npub use high::Top;\n";

    #[test]
    fn an_arrow_that_points_up_is_found_however_it_is_written() {
        let order = Order::of(LIB);
        assert_eq!(order.modules, ["low", "transfer", "flow", "high"]);
        let found = |text: &str| order.against("flow", 2, text);
        for (text, breach) in [
            ("use crate::low::A;\nuse crate::high::B;", (2, "high")),
            ("fn f() {\n    crate::high::g()\n}", (2, "high")),
            ("use crate::{\n    low::{A, B},\n    high::C,\n};", (1, "high")),
            ("use super::super::high;", (1, "high")),
            ("use super::super::{low, high::A};", (1, "high")),
            ("pub use crate::Top;", (1, "Top")),
            // It stands before it, and is apart from it.
            ("use crate::transfer::A;", (1, "transfer")),
        ] {
            assert_eq!(found(text), [(breach.0, breach.1.to_owned())], "{text}");
        }
        for text in [
            "use crate::low::high;\nuse crate::flow::A;\nuse crate::{Low, Lower};",
            // Of another module of this name, and of another crate.
            "use super::high;\nuse of_crate::high;",
            "// crate::high\n#[cfg(test)]\nmod tests {\n    use crate::high;\n}",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(order.against("high", 1, "use crate::flow::A;\nuse super::transfer;"), []);
    }

    #[test]
    fn a_map_in_another_order_than_that_of_the_modules_is_a_breach() {
        let order = Order::of(LIB);
        let wrong = |map: &str| {
            let page = format!(
                "```\ncrates/wire   bytes\ncrates/mover   the engine:\n{map}crates/lab   high\n```\n"
            );
            order
                .misdrawn(&page)
                .map(|breach| breach.split(' ').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(wrong("  low   a\n      more of it\n  flow/   b\n  high/   c\n"), [""; 0]);
        assert_eq!(wrong("  flow/   b\n  low   a\n  high/   c\n  gone/   d\n"), ["low", "gone"]);
    }

    #[test]
    fn every_arrow_of_the_tree_points_down() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
        // What lies in a directory is looked at, and what is there for tests is not.
        let mut files = Vec::new();
        reach(&checkout::root().join("crates/mover/src"), "plan", 1, &mut files).unwrap();
        reach(&checkout::root().join("crates/mover/src"), "order", 1, &mut files).unwrap();
        let has = |end: &str| files.iter().any(|file| file.path.ends_with(end));
        assert!(has("plan.rs") && has("plan/disk.rs") && has("order.rs") && !has("order/tests.rs"));
    }
}
