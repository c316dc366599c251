//! SPEC.md and docs/faults.md: what holds a promise is there.

use super::text::{has_test, quoted};
use crate::checkout;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every promise, and every lettered part of one, names a test that exists; so does every fault of docs/faults.md.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    promises(breaches)?;
    faults(breaches)
}

fn promises(breaches: &mut Vec<String>) -> Result<()> {
    let spec = fs::read_to_string(checkout::root().join("SPEC.md")).context("SPEC.md")?;
    let is_test = |test: &str| {
        test.rsplit_once("::").is_some_and(|(file, function)| has_test(Path::new(file), function))
    };
    breaches.extend(not_held(&spec, is_test).into_iter().map(|breach| format!("SPEC.md: {breach}")));
    Ok(())
}

/// What is wrong with the promises of a text.
///
/// A promise is a section `### 71. Words`, and each of its tests an item of a list, `file::function`. One that promises
/// several things is parted by `**71a.** Words`, `**71b.** Words`: then its tests stand beside these, and each of them
/// has one.
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
    let text = fs::read_to_string(checkout::root().join("docs/faults.md")).context("docs/faults.md")?;
    let words = text.lines().filter(|line| line.starts_with('|')).flat_map(quoted);
    for test in words.filter(|word| word.contains("::")) {
        match test.rsplit_once("::") {
            Some((file, function)) if has_test(Path::new(file), function) => {}
            _ => breaches.push(format!("docs/faults.md: there is no test {test}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
