//! Threads of a transfer are started in one room, which has a panic told of: else whoever waits for such a thread waits
//! for ever.

use super::text::{code_lines, sources_of};
use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

/// Where they are used, and where they are started.
const BELOW: [&str; 2] = ["crates/mover/src/run", "crates/service/src"];
const ROOM: &str = "crates/mover/src/run/thread.rs";

/// What starts one. Of a scope it is no breach: a scope waits for its threads, and hands a panic on.
const STARTS: [&str; 3] = ["thread::spawn(", "thread::Builder", "thread::{Builder"];
const SCOPED: &str = ".spawn_scoped(";

/// Looks at all files there but the room itself, and at no tests.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    for below in BELOW {
        for file in sources_of(&checkout::root().join(below))? {
            if file == checkout::root().join(ROOM) || file.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let place = file.strip_prefix(checkout::root()).unwrap_or(&file).display();
            breaches.extend(bare(&text).map(|number| {
                format!("{place}:{number} starts a thread whose panic nobody hears of: use {ROOM}")
            }));
        }
    }
    Ok(())
}

/// Lines that start a thread by themselves.
fn bare(text: &str) -> impl Iterator<Item = usize> {
    let starts = |line: &str| STARTS.iter().any(|word| line.contains(word)) && !line.contains(SCOPED);
    code_lines(text).filter(move |(_, line)| starts(line)).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_started_elsewhere_is_found_and_one_of_a_scope_or_a_test_is_not() {
        let found = |text: &str| bare(text).collect::<Vec<_>>();
        assert_eq!(found("fn f() {\n    std::thread::spawn(work);\n}"), [2]);
        assert_eq!(
            found("let builder = std::thread::Builder::new()\n    .name(name)\n    .spawn(work);"),
            [1]
        );
        for text in [
            "thread::guarded(\"scan\", on_panic, work)?;",
            "std::thread::Builder::new().name(name).spawn_scoped(scope, work)",
            "// thread::spawn(work)\n#[cfg(test)]\nmod tests {\n    std::thread::spawn(work);\n}",
        ] {
            assert_eq!(found(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn all_threads_of_transfers_are_started_in_their_room() {
        assert!(checkout::root().join(ROOM).exists());
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }
}
