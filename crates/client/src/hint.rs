//! What to do about a failure: advice, found by its kind and its reason, whatever its words are.

use thalweg_wire::message::Failure;

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

/// Asked in turn: an advice for one reason comes before those for all of a kind, which are last in their fields.
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
    use super::*;
    use std::path::Path;
    use thalweg_mover::failure::{self, of_io, of_thread};
    use thalweg_wire::message::{FailureKind, Reason};

    /// The advice about a failure in words that nobody knows.
    fn hint(kind: FailureKind, reason: Reason) -> Option<&'static str> {
        of(&Failure::new(kind, "faire", "`run7/f`: rien").because(reason))
    }

    fn said(kind: FailureKind, reason: Reason) -> &'static str {
        hint(kind, reason).unwrap_or_else(|| panic!("{kind:?}, {reason:?}: no hint"))
    }

    /// A reason that nobody gives any more, or that nobody goes by, is found here.
    #[test]
    fn every_reason_is_given_somewhere_and_gone_by_somewhere() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let list = std::fs::read_to_string(crates.join("wire/src/message/reason.rs")).unwrap();
        let (_, list) = list.split_once("pub enum Reason {").unwrap();
        let (list, _) = list.split_once("\n}").unwrap();
        let names: Vec<&str> = list.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
        assert!(names.len() > 40 && names[0] == "Other", "{names:?}");
        let (mut hints, mut others) = (String::new(), String::new());
        for name in std::fs::read_dir(&crates).unwrap() {
            let path = name.unwrap().path();
            // There they are listed.
            if !path.ends_with("wire") {
                read(&path.join("src"), &mut hints, &mut others);
            }
        }
        for name in &names[1..] {
            let name = format!("Reason::{name}");
            let compared = format!("== {name}");
            let (giving, going): (Vec<&str>, Vec<&str>) =
                others.lines().filter(|line| has(line, &name)).partition(|line| {
                    let is_gone_by = ["away: ", "final_reasons = ", compared.as_str()];
                    !is_gone_by.iter().any(|words| line.contains(words))
                });
            assert!(!giving.is_empty(), "nobody gives {name}");
            let is_advised = hints.lines().any(|line| has(line, &name));
            assert!(is_advised || !going.is_empty(), "nobody goes by {name}");
        }
    }

    /// Whether a line has this name, and not only the beginning of a longer one.
    fn has(line: &str, name: &str) -> bool {
        line.match_indices(name)
            .any(|(at, _)| !line[at + name.len()..].starts_with(|next: char| next.is_ascii_alphanumeric()))
    }

    /// All source below a directory, without tests: of hints, and of all else.
    fn read(directory: &Path, hints: &mut String, others: &mut String) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                read(&path, hints, others);
                continue;
            }
            let is_tests = directory.ends_with("tests") || path.ends_with("tests.rs");
            if path.extension().is_none_or(|end| end != "rs") || is_tests {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split_once("#[cfg(test)]\nmod tests {").map_or(&text[..], |(text, _)| text);
            let into = if directory.ends_with("client/src/hint") { &mut *hints } else { &mut *others };
            into.push_str(text);
            into.push('\n');
        }
    }

    #[test]
    fn a_pattern_that_nobody_expanded_is_told_from_a_name_that_is_missing() {
        let told = said(FailureKind::NotFound, Reason::NotExpanded);
        assert!(told.contains("--include") && told.contains("--files-from"), "{told}");
        assert_eq!(hint(FailureKind::NotFound, Reason::Other), None);
    }

    #[test]
    fn what_is_copied_if_asked_for_is_told_from_what_cannot_be_copied() {
        let unasked = said(FailureKind::Unsupported, Reason::NotAskedFor);
        assert!(unasked.contains("--devices"), "{unasked}");
        assert_eq!(hint(FailureKind::Unsupported, Reason::Other), None);
    }

    /// musl says "No file descriptors available" where glibc says "Too many open files".
    #[test]
    fn a_want_of_descriptors_or_threads_is_no_disk_that_fails() {
        let of_kernel = |number| {
            let failure = of_io("write", &std::io::Error::from_raw_os_error(number));
            of(&failure::with_words(failure, "`run7/f`")).expect("a hint")
        };
        // EMFILE, ENFILE, EIO.
        for number in [24, 23] {
            assert!(of_kernel(number).contains("`ulimit -n`") && of_kernel(number).contains("fs.file-max"));
        }
        assert!(of_kernel(5).contains("kernel's log"));
        // EAGAIN.
        let failure = of_thread(&std::io::Error::from_raw_os_error(11));
        assert!(of(&failure).is_some_and(|hint| hint.contains("`ulimit -u`")));
        let musl = Failure::new(FailureKind::Space, "write", "No file descriptors available");
        assert!(of(&musl.because(Reason::NoDescriptors)).is_some_and(|hint| hint.contains("`ulimit -n`")));
    }

    #[test]
    fn a_file_that_is_too_large_is_not_told_to_make_room() {
        let of_kernel = |number| of(&of_io("write", &std::io::Error::from_raw_os_error(number)));
        // EFBIG, ENOSPC.
        let told = of_kernel(27).expect("a hint");
        assert!(told.contains("`ulimit -f`") && !told.contains("make room"), "{told}");
        assert!(of_kernel(28).is_some_and(|hint| hint.contains("make room")));
    }

    #[test]
    fn who_lacks_inodes_is_told_to_remove_files_and_not_to_make_room() {
        let failure = Failure::new(FailureKind::Space, "write", "rien").because(Reason::NoInodes);
        let told = of(&failure::with_words(failure, "`run7/f`")).expect("a hint");
        assert!(told.contains("remove files") && !told.contains("make room"), "{told}");
    }

    #[test]
    fn a_name_that_somebody_else_has_taken_is_said_to_be_his_to_remove() {
        assert!(said(FailureKind::Permission, Reason::NotOurs).contains("that user or root"));
        assert_eq!(hint(FailureKind::Permission, Reason::Other), None);
    }

    #[test]
    fn an_ssh_that_is_missing_here_is_told_from_a_thalweg_that_is_missing_there() {
        let hint = |reason| said(FailureKind::NotFound, reason);
        assert!(hint(Reason::NoSsh).contains("--rsh") && !hint(Reason::NoSsh).contains("--far-path"));
        let missing = hint(Reason::NoFarProgram);
        assert!(
            missing.contains("--far-path") && missing.contains("`ssh HOST thalweg --version`"),
            "{missing}"
        );
    }

    #[test]
    fn a_mover_that_ssh_started_and_nobody_reaches_is_no_daemon_that_is_missing() {
        let lost = said(FailureKind::Connection, Reason::FarNotReached);
        assert!(lost.contains("loopback") && !lost.contains("thalweg serve"), "{lost}");
        assert!(said(FailureKind::Connection, Reason::NotAnswered).contains("thalweg serve"));
        assert!(said(FailureKind::Unsupported, Reason::FarEnds).contains("`ulimit -v`"));
    }

    #[test]
    fn a_cache_that_cannot_hold_or_run_the_program_is_not_told_to_take_it_again() {
        for kind in [FailureKind::Permission, FailureKind::Io] {
            let told = said(kind, Reason::NotPlaced);
            assert!(told.contains("--far-path") && told.contains("XDG_CACHE_HOME"), "{told}");
            assert!(!told.contains("--bootstrap"), "{told}");
        }
    }

    #[test]
    fn an_old_ticket_and_a_state_directory_that_cannot_be_made_say_what_to_name_instead() {
        let told = said(FailureKind::Permission, Reason::NotTrusted);
        assert!(told.contains("--ticket") && told.contains("THALWEG_TICKET"), "{told}");
        // Not found, where the home is no directory.
        for kind in
            [FailureKind::Permission, FailureKind::Space, FailureKind::NotFound, FailureKind::Conflict]
        {
            let told = said(kind, Reason::NoState);
            for word in ["--state", "THALWEG_STATE", "XDG_STATE_HOME"] {
                assert!(told.contains(word), "{told}");
            }
        }
    }

    #[test]
    fn who_lacks_a_token_hears_where_one_is_had_and_how_it_is_given() {
        for kind in [FailureKind::Usage, FailureKind::Permission] {
            let told = said(kind, Reason::TokenNotTaken);
            for way in ["oidc-token", "BEARER_TOKEN_FILE"] {
                assert!(told.contains(way), "{told}");
            }
            // Not every place file says how: where one does, the cause has it.
            assert!(!told.contains("thalweg login"), "{told}");
        }
    }

    /// What is said of daemons and tickets is nothing for an object store.
    #[test]
    fn a_store_that_is_not_trusted_or_does_not_answer_is_no_daemon() {
        let told = said(FailureKind::Permission, Reason::StoreNotTrusted);
        assert!(told.contains("AWS_CA_BUNDLE") && !told.contains("ticket"), "{told}");
        let told = said(FailureKind::Connection, Reason::StoreNotAnswered);
        assert!(told.contains("endpoint") && !told.contains("thalweg serve"), "{told}");
    }

    #[test]
    fn where_a_file_system_has_no_locks_it_is_said_how_it_gets_them() {
        for kind in [FailureKind::Unsupported, FailureKind::Io] {
            assert!(said(kind, Reason::NoLocks).contains("-o flock"), "{kind:?}");
        }
    }

    #[test]
    fn what_only_measures_or_reads_is_not_said_to_resume() {
        for kind in [FailureKind::Stopped, FailureKind::Space] {
            assert_eq!(hint(kind, Reason::BeginsAnew), None, "{kind:?}");
            assert!(said(kind, Reason::Other).contains("it resumes"));
        }
    }

    #[test]
    fn a_thread_that_panicked_is_to_be_reported() {
        assert!(said(FailureKind::Internal, Reason::ThreadPanicked).contains("please report it"));
    }

    #[test]
    fn a_hub_without_room_and_a_name_that_another_has_are_no_other_transfer_to_wait_for() {
        let busy = |reason| said(FailureKind::Busy, reason);
        let general = busy(Reason::DestinationTaken);
        let wanted = [
            (Reason::NoWindow, "--window"),
            (Reason::NameTaken, "--producer"),
            (Reason::ChannelCrowded, "another channel"),
            (Reason::LogNotWritten, "make room"),
            (Reason::NoChannelRoom, "--frames-memory"),
            (Reason::LogTaken, "same directory"),
            (Reason::HubDirectoryTaken, "another directory"),
            (Reason::StateTaken, "--state DIR"),
            (Reason::GrowingTaken, "a directory of its own"),
            (Reason::ConsumersSlow, "thalweg frames status"),
            (Reason::SetOver, "--set"),
        ];
        for (reason, word) in wanted {
            let hint = busy(reason);
            assert!(hint != general && hint.contains(word), "{reason:?}: {hint}");
        }
        // Of what nobody here knows who holds it, nothing is said.
        assert_eq!(hint(FailureKind::Busy, Reason::Other), None);
        // Who was let in before, and is not again, can do the same about it; so can whose name is another's by now.
        for reason in [Reason::NoWindow, Reason::NameTaken, Reason::ChannelCrowded] {
            assert_eq!(hint(FailureKind::Connection, reason), Some(busy(reason)));
        }
        assert_eq!(hint(FailureKind::Conflict, Reason::NameTaken), Some(busy(Reason::NameTaken)));
    }
}
