//! Deciding is apart from doing: the deciding modules of the mover know no clock, no disk, no network.

use super::text::{code_lines, sources_of};
use crate::checkout;
use anyhow::{Context, Result};
use std::fs;

/// Who does the work: what decides knows none of them, and neither kernel, clock, disk nor network.
const DOING: &[&str] = &[
    "crate::run",
    "crate::stage",
    "crate::link",
    "crate::endpoint",
    "thalweg_sys",
    "Instant::now",
    ".elapsed()",
    "::elapsed",
    "SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "aws_lc_rs::rand",
    "fastrand::Rng::new",
    "crate::sim",
];

/// A module of the mover that decides, and so must not mention what is [`DOING`].
struct Room {
    name: &'static str,
    /// What of that it may mention: a name of a thing, and not the thing.
    but: &'static [&'static str],
    /// What else it must not mention.
    nor: &'static [&'static str],
}

/// One that mentions none of it.
const fn strict(name: &'static str) -> Room {
    Room { name, but: &[], nor: &[] }
}

/// All of them.
const ROOMS: &[Room] = &[
    strict("retry"),
    strict("order"),
    // Its equations leave for other languages.
    Room { nor: &["thalweg_wire"], ..strict("model") },
    strict("plan"),
    strict("history"),
    strict("tune"),
    strict("admission"),
    strict("transfer"),
    strict("flow"),
    strict("frames"),
    Room { but: &["crate::stage", "std::net"], ..strict("basin") },
];

impl Room {
    fn forbidden(&self) -> impl Iterator<Item = &'static str> {
        DOING.iter().filter(|word| !self.but.contains(*word)).chain(self.nor).copied()
    }
}

/// Looks at all files of each, tests too.
///
/// # Errors
/// If a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let source = checkout::root().join("crates/mover/src");
    for room in ROOMS {
        for file in sources_of(&source.join(room.name))? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let place = file.strip_prefix(checkout::root()).unwrap_or(&file).display();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_room_must_not_mention_is_found_whatever_stands_before_it_and_however_it_is_imported() {
        let room = ROOMS.iter().find(|room| room.but.is_empty()).unwrap();
        let found = |text: &str| mentioned(room, text).collect::<Vec<_>>();
        assert_eq!(found("use std::fs;"), [(1, "std::fs")]);
        assert_eq!(found("use std::{fs, io};"), [(1, "std::fs")]);
        assert_eq!(found("use crate::{failure::Result, run::copy};"), [(1, "crate::run")]);
        assert_eq!(found("self.at.elapsed() > PATIENCE"), [(1, ".elapsed()")]);
        assert_eq!(found("self.at.map(Instant::elapsed)"), [(1, "::elapsed")]);
        assert_eq!(found("sample.elapsed > evidence.elapsed_s()"), []);
        let behind_an_import = "#[cfg(test)]\nuse a::b;\nfn f() { std::env::var(x) }";
        assert_eq!(found(behind_an_import), [(3, "std::env")]);
        let behind_an_item = "#[cfg(test)]\nmod double {\n    use std::fs;\n}\nlet now = Instant::now();";
        assert_eq!(found(behind_an_item), [(5, "Instant::now")]);
        let within = "impl A {\n    #[cfg(test)]\n    fn a() {\n        std::fs::read(b)\n    }\n    fn c() { std::thread::yield_now() }\n}";
        assert_eq!(found(within), [(6, "std::thread")]);
        assert_eq!(found("// std::fs\n#[cfg(test)]\nmod tests {\n    std::fs\n}"), []);
    }

    #[test]
    fn every_module_that_decides_is_there_and_does_nothing_else() {
        let source = checkout::root().join("crates/mover/src");
        for Room { name, .. } in ROOMS {
            assert!(source.join(name).is_dir() || source.join(format!("{name}.rs")).exists(), "{name}");
        }
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }
}
