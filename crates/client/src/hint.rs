//! What to do about a failure: advice, found by what it says.

use thalweg_wire::message::Failure;

/// What those say who stand on this crate. Hints are found by these words, and by those of whom it stands on.
pub mod operation;

/// What names lead to, and what is not copied as it is named.
mod places;

/// What a machine or an account allows.
mod limits;

/// Who may make names there.
mod rights;

/// Room, and disks that fail.
mod storage;

/// Channels of frames, and their hubs.
mod frames;

/// Movers that ssh starts.
mod ssh;

/// Who is asked, and whether anybody is reached.
mod peer;

/// What became of content on the way, and at both its ends.
mod content;

/// Who else has what is wanted.
mod others;

/// What is started, and stopped.
mod programs;

/// The advice that is left where there is no better one.
pub const RESUME: &str = "run the same command again: it resumes";

type Advise = fn(&Failure) -> Option<&'static str>;

/// Asked in turn: an advice for one operation comes before those for all of a kind, which are last in their fields.
const FIELDS: [Advise; 10] = [
    places::of,
    limits::of,
    rights::of,
    storage::of,
    frames::of,
    ssh::of,
    peer::of,
    content::of,
    others::of,
    programs::of,
];

/// What a person may do about it, in one sentence; not for every failure there is something.
pub fn of(failure: &Failure) -> Option<&'static str> {
    FIELDS.iter().find_map(|advise| advise(failure))
}

#[cfg(test)]
mod tests {
    use super::operation::{PROBE, TAKE_HUB_DIRECTORY, TAKE_STATE};
    use super::*;
    use std::path::Path;
    use thalweg_mover::endpoint::local::{MARK_GROWING, NOT_ASKED_FOR, NOT_OURS, OPEN_SOURCE, OPEN_STAGING};
    use thalweg_mover::failure::{
        self, CREATE_STATE, MEASURE, NO_INODES, RUN_THREAD, START, START_TESTBED, START_THREAD, VERIFY,
    };
    use thalweg_mover::frames;
    use thalweg_mover::link::ssh;
    use thalweg_mover::link::tls::{NOT_LET_IN, NOT_TRUSTED};
    use thalweg_mover::run::frames::windows;
    use thalweg_wire::message::FailureKind;

    /// Words have their home where they are said: one that nobody says any more is found here, whatever else has its name.
    #[test]
    fn every_word_that_is_matched_on_is_said_somewhere() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Vec::new();
        for name in std::fs::read_dir(&crates).unwrap() {
            read(&crates, &name.unwrap().path().join("src"), &mut sources);
        }
        let is_field = |path: &str| path.starts_with("client/src/hint/") && !path.ends_with("/operation.rs");
        let (fields, sources): (Vec<Source>, Vec<Source>) =
            sources.into_iter().partition(|source| is_field(&source.path));
        assert_eq!(fields.len(), FIELDS.len());
        assert!(sources.len() > 100, "{} files of source", sources.len());
        let mut known = 0;
        for field in &fields {
            let mut before = "";
            for (at, part) in field.stated.split('"').enumerate() {
                match at % 2 {
                    0 => mentions(part).for_each(|word| {
                        is_said(word, field, &sources);
                        known += 1;
                    }),
                    _ => assert!(before.trim_end().ends_with(['>', '{']), "it is no advice: {part}"),
                }
                before = part;
            }
        }
        assert!(known > 40, "{known} words were found");
    }

    #[test]
    fn what_has_the_name_of_a_word_or_compares_it_does_not_say_it() {
        let says = |path: &str, text: &str| source(path, text).says("RUN", "mover/src/link/ssh.rs");
        assert!(says("mover/src/link/ssh.rs", "fail(RUN, cause)"));
        assert!(says("mover/src/link/ssh/lines.rs", "use super::{Line, RUN};\nfail(RUN, cause)"));
        assert!(says("cli/src/main.rs", "use thalweg_mover::link::{ssh, tls};\nfail(ssh::RUN, cause)"));
        assert!(says("cli/src/main.rs", "use thalweg_mover::{\n    link::ssh::{RUN, START},\n};\nfail(RUN)"));
        assert!(!says("mover/src/link/ssh.rs", "// RUN\nfail(RUN_ALL, cause)"));
        assert!(!says("mover/src/journal.rs", "const RUN: u64 = 8;\nlet bytes = RUN + 1;"));
        assert!(!says("mover/src/journal.rs", "use super::table::RUN;\nfail(RUN, table::RUN)"));
        assert!(!says("mover/src/link/tls/names.rs", "use super::RUN;\nfail(RUN, cause)"));
        assert!(!says("cli/src/main.rs", "use thalweg_mover::link::ssh;\nif operation == ssh::RUN {"));
        assert!(!says("cli/src/main.rs", "match operation {\n    ssh::RUN => 1,\n}"));
    }

    /// A file of source, without comments and tests.
    struct Source {
        /// Below `crates`.
        path: String,
        /// Constants of text that it has.
        constants: Vec<String>,
        /// Paths that it imports.
        imports: Vec<String>,
        /// All else, but for what constants are.
        stated: String,
    }

    fn source(path: &str, text: &str) -> Source {
        let text = text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(text, _)| text);
        let (mut constants, mut imports) = (Vec::new(), Vec::new());
        let (mut stated, mut import) = (String::new(), String::new());
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            let is_public = line.starts_with("pub") && line.split(' ').nth(1) == Some("use");
            if is_public || line.starts_with("use ") || !import.is_empty() {
                import.push_str(line);
                if let Some(whole) = import.strip_suffix(';') {
                    flatten("", whole.split_once("use ").map_or(whole, |(_, tree)| tree), &mut imports);
                    import.clear();
                }
            } else if let Some((_, rest)) = line.split_once("const ") {
                constants.extend(rest.split_once(": &str").map(|(name, _)| name.to_owned()));
            } else {
                stated.push_str(line);
                stated.push('\n');
            }
        }
        Source { path: path.to_owned(), constants, imports, stated }
    }

    /// The paths that a tree of `use` names.
    fn flatten(above: &str, tree: &str, into: &mut Vec<String>) {
        let tree = tree.trim();
        let Some((way, group)) = tree.split_once('{') else {
            into.push(format!("{above}{tree}"));
            return;
        };
        let mut depth = 0;
        let is_between = |letter: char| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            letter == ',' && depth == 0
        };
        let group = group.strip_suffix('}').unwrap_or(group);
        group.split(is_between).for_each(|part| flatten(&format!("{above}{way}"), part, into));
    }

    /// The module of a path, if it names one, and what it names there.
    fn of_path(path: &str) -> (&str, &str) {
        let (way, name) = path.rsplit_once("::").unwrap_or(("", path));
        (way.rsplit("::").next().unwrap_or(way), name)
    }

    /// Paths of constants.
    fn mentions(text: &str) -> impl Iterator<Item = &str> {
        let is_apart = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':';
        let is_constant = |path: &&str| {
            let (_, name) = of_path(path);
            name.len() > 1 && name.starts_with(|first: char| first.is_ascii_uppercase()) && !has_small(name)
        };
        text.split(is_apart).filter(is_constant)
    }

    /// A word that a field goes by: one file where it is imported from has it, and one that means this one says it.
    fn is_said(word: &str, field: &Source, sources: &[Source]) {
        let (module, name) = of_path(word);
        let imported = if module.is_empty() { name } else { module };
        let import = field.imports.iter().find(|path| of_path(path).1 == imported);
        let import = import.unwrap_or_else(|| panic!("{}: where is {word} from?", field.path));
        let way = match module.is_empty() {
            true => import.rsplit_once("::").map_or("", |(way, _)| way),
            false => import.as_str(),
        };
        let place = match way.split_once("::") {
            // An advice.
            None => return,
            Some(("crate", rest)) => format!("client/src/{rest}"),
            Some(("super", rest)) => format!("client/src/hint/{rest}"),
            Some((other, rest)) => format!("{}/src/{rest}", other.trim_start_matches("thalweg_")),
        };
        let place = place.replace("::", "/");
        let has = |source: &&Source| source.constants.iter().any(|constant| constant == name);
        let paths = sources.iter().filter(has).map(|source| source.path.as_str());
        let homes: Vec<&str> = paths.filter(|path| is_of(path, &place)).collect();
        let [home] = homes[..] else { panic!("{word}, of {place}: {homes:?}") };
        assert!(sources.iter().any(|source| source.says(name, home)), "nothing says {word} of {home}");
    }

    /// Whether a file is that of a module, or of one in it.
    fn is_of(path: &str, module: &str) -> bool {
        path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    impl Source {
        /// Whether it says the constant of this name that the file `home` has: comparing it is not saying it.
        fn says(&self, name: &str, home: &str) -> bool {
            let (above, _) = self.path.trim_end_matches("/mod.rs").rsplit_once('/').unwrap();
            let is_home_in = |module: &str| match module {
                "super" => is_of(home, above),
                _ => home.trim_end_matches(".rs").split('/').skip(2).any(|part| part == module),
            };
            let is_imported = |path: &String| {
                let (module, last) = of_path(path);
                last == name && is_home_in(module)
            };
            let has_it = self.path == home || self.imports.iter().any(is_imported);
            self.stated.lines().any(|line| {
                mentions(line).any(|path| {
                    let (module, last) = of_path(path);
                    let is_meant = if module.is_empty() { has_it } else { is_home_in(module) };
                    let compared = [format!("== {path}"), format!("!= {path}"), format!("{path} =>")];
                    last == name && is_meant && !compared.iter().any(|text| line.contains(text.as_str()))
                })
            })
        }
    }

    fn has_small(word: &str) -> bool {
        word.bytes().any(|byte| byte.is_ascii_lowercase())
    }

    /// All files of source below a directory of `crates`.
    fn read(crates: &Path, directory: &Path, sources: &mut Vec<Source>) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                read(crates, &path, sources);
                continue;
            }
            let is_tests = directory.ends_with("tests") || path.ends_with("tests.rs");
            if path.extension().is_none_or(|end| end != "rs") || is_tests {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            sources.push(source(path.strip_prefix(crates).unwrap().to_str().unwrap(), &text));
        }
    }

    #[test]
    fn a_pattern_that_nobody_expanded_is_told_from_a_name_that_is_missing() {
        let hint = |cause: &str| of(&Failure::new(FailureKind::NotFound, OPEN_SOURCE, cause));
        let told = hint("`run7/f*`: No such file or directory").expect("a hint");
        assert!(told.contains("--include") && told.contains("--files-from"), "{told}");
        assert_eq!(hint("`run7/f`: No such file or directory"), None);
    }

    #[test]
    fn what_is_copied_if_asked_for_is_told_from_what_cannot_be_copied() {
        let hint = |cause: &str| of(&Failure::new(FailureKind::Unsupported, "copy", cause));
        let unasked = hint(&format!("it is a FIFO{NOT_ASKED_FOR}"));
        assert!(unasked.is_some_and(|hint| hint.contains("--devices")), "{unasked:?}");
        assert_eq!(hint("it is a socket"), None);
    }

    #[test]
    fn a_want_of_descriptors_or_threads_is_no_disk_that_fails() {
        let of_kernel = |operation, number| {
            let failure = failure::of_io(operation, &std::io::Error::from_raw_os_error(number));
            of(&failure::with_words(failure, "`run7/f`")).expect("a hint")
        };
        // EMFILE, ENFILE, EAGAIN.
        for operation in ["write", "sync", OPEN_STAGING] {
            assert!(of_kernel(operation, 24).contains("`ulimit -n`"));
            assert!(of_kernel(operation, 23).contains("fs.file-max"));
        }
        for operation in [START, START_THREAD] {
            assert!(of_kernel(operation, 11).contains("`ulimit -u`"));
        }
        assert!(of_kernel("write", 5).contains("kernel's log"));
    }

    #[test]
    fn a_file_that_is_too_large_is_not_told_to_make_room() {
        let of_kernel = |number| of(&failure::of_io("write", &std::io::Error::from_raw_os_error(number)));
        // EFBIG, ENOSPC.
        let told = of_kernel(27).expect("a hint");
        assert!(told.contains("`ulimit -f`") && !told.contains("make room"), "{told}");
        assert!(of_kernel(28).is_some_and(|hint| hint.contains("make room")));
    }

    #[test]
    fn who_lacks_inodes_is_told_to_remove_files_and_not_to_make_room() {
        let failure =
            Failure::new(FailureKind::Space, "write", format!("No space left on device: {NO_INODES}"));
        let told = of(&failure::with_words(failure, "`run7/f`")).expect("a hint");
        assert!(told.contains("remove files") && !told.contains("make room"), "{told}");
    }

    #[test]
    fn a_name_that_somebody_else_has_taken_is_said_to_be_his_to_remove() {
        let hint = |cause: &str| of(&Failure::new(FailureKind::Permission, OPEN_STAGING, cause));
        let taken = format!("`.thalweg-staging-1000` there belongs to user 1001, {NOT_OURS}");
        assert!(hint(&taken).is_some_and(|hint| hint.contains("that user or root")));
        assert_eq!(hint("Permission denied"), None);
    }

    #[test]
    fn an_ssh_that_is_missing_here_is_told_from_a_thalweg_that_is_missing_there() {
        let hint = |operation| of(&Failure::new(FailureKind::NotFound, operation, "")).expect("a hint");
        assert!(hint(ssh::RUN).contains("--rsh") && !hint(ssh::RUN).contains("--far-path"));
        assert!(hint(ssh::START).contains("--far-path"));
    }

    #[test]
    fn a_mover_that_ssh_started_and_nobody_reaches_is_no_daemon_that_is_missing() {
        let hint = |kind| of(&Failure::new(kind, ssh::REACH, "")).expect("a hint");
        let lost = hint(FailureKind::Connection);
        assert!(lost.contains("loopback") && !lost.contains("thalweg serve"), "{lost}");
        assert!(hint(FailureKind::Unsupported).contains("`ulimit -v`"));
    }

    #[test]
    fn a_cache_that_cannot_hold_or_run_the_program_is_not_told_to_take_it_again() {
        for kind in [FailureKind::Permission, FailureKind::Io] {
            let told = of(&Failure::new(kind, ssh::PLACE, "")).expect("a hint");
            assert!(told.contains("--far-path") && told.contains("XDG_CACHE_HOME"), "{told}");
            assert!(!told.contains("--bootstrap"), "{told}");
        }
    }

    #[test]
    fn an_old_ticket_and_a_state_directory_that_cannot_be_made_say_what_to_name_instead() {
        let hint = |operation, cause: &str| of(&Failure::new(FailureKind::Permission, operation, cause));
        let causes = [
            format!("{NOT_LET_IN} (AccessDenied)"),
            format!("{NOT_TRUSTED} (ApplicationVerificationFailure)"),
        ];
        for cause in causes {
            let told = hint("hello", &cause).expect("a hint");
            assert!(told.contains("--ticket") && told.contains("THALWEG_TICKET"), "{told}");
        }
        assert_eq!(hint("hello", "the peer showed no certificate"), None);
        let told = hint(CREATE_STATE, "`/root/x`: Permission denied").expect("a hint");
        for word in ["--state", "THALWEG_STATE", "XDG_STATE_HOME"] {
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn what_only_measures_or_reads_is_not_said_to_resume() {
        let stopped = |operation: &str| of(&Failure::new(FailureKind::Stopped, operation, "on request"));
        for operation in [MEASURE, PROBE, VERIFY, START_TESTBED] {
            assert_eq!(stopped(operation), None, "{operation}");
        }
        assert!(stopped("copy").is_some_and(|hint| hint.contains("it resumes")));
    }

    #[test]
    fn a_thread_that_panicked_is_to_be_reported() {
        let told = of(&Failure::new(FailureKind::Internal, RUN_THREAD, "the thread `rounds` panicked"));
        assert!(told.is_some_and(|hint| hint.contains("please report it")), "{told:?}");
    }

    fn busy(operation: &str) -> &'static str {
        of(&Failure::new(FailureKind::Busy, operation, "")).expect("a hint")
    }

    #[test]
    fn a_hub_without_room_and_a_name_that_another_has_are_no_other_transfer_to_wait_for() {
        let general = busy(OPEN_STAGING);
        let wanted = [
            (windows::OPERATION, "--window"),
            (frames::TAKE_NAME, "--producer"),
            (frames::JOIN, "another channel"),
            (frames::WRITE_LOG, "make room"),
            (frames::OPEN_CHANNEL, "--frames-memory"),
            (frames::OPEN_LOG, "same directory"),
            (TAKE_HUB_DIRECTORY, "another directory"),
            (TAKE_STATE, "--state DIR"),
            (MARK_GROWING, "a directory of its own"),
            (frames::PUSH, "thalweg frames status"),
            (frames::FINISH, "thalweg frames status"),
            (frames::DECLARE, "thalweg frames status"),
        ];
        for (operation, word) in wanted {
            let hint = busy(operation);
            assert!(hint != general && hint.contains(word), "{operation}: {hint}");
        }
        let of_set = of(&Failure::new(FailureKind::Conflict, frames::DECLARE, ""));
        assert!(of_set.is_some_and(|hint| hint.contains("--set")), "a set that is over: {of_set:?}");
        // Of what nobody here knows who holds it, nothing is said.
        for operation in [START_TESTBED, "take a slot", "end the testbed's programs", "finish"] {
            assert_eq!(of(&Failure::new(FailureKind::Busy, operation, "")), None);
        }
        // Who was let in before, and is not again, can do the same about it.
        for operation in [windows::OPERATION, frames::TAKE_NAME, frames::JOIN] {
            let lost = Failure::new(FailureKind::Connection, operation, "");
            assert_eq!(of(&lost), Some(busy(operation)));
        }
        let replaced = Failure::new(FailureKind::Conflict, frames::TAKE_NAME, "");
        assert_eq!(of(&replaced), Some(busy(frames::TAKE_NAME)));
    }
}
