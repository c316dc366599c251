use crate::elsewhere;
use crate::reach::FIND_PLACE;
use thalweg_mover::endpoint::local::NOT_OURS;
use thalweg_mover::failure::{CHOOSE_CONGESTION, NO_DESCRIPTORS, NO_INODES, NO_MEMORY, is_too_large};
use thalweg_mover::frames;
use thalweg_mover::link::ssh;
use thalweg_mover::run::frames::windows;
use thalweg_mover::run::spread;
use thalweg_wire::message::{Failure, FailureKind};

/// The advice that is left where there is no better one.
pub const RESUME: &str = "run the same command again: it resumes";

/// What a person may do about it, in one sentence; not for every failure there is something.
pub fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Unsupported, elsewhere::BETWEEN) => {
            "where you cannot log in: in two copies, through a directory here; one file also through a pipe: thalweg cat SRC | \
             thalweg stream - DST"
        }
        (FailureKind::Unsupported, "copy") if failure.cause.ends_with("not asked for") => {
            "--devices copies FIFOs and devices as what they are; what comes out of one goes with: thalweg stream - DST < SRC"
        }
        (FailureKind::Unsupported, CHOOSE_CONGESTION) => {
            "name one that is permitted there with --cca, leave it out for the far side's own choice, or have its \
             net.ipv4.tcp_allowed_congestion_control permit it"
        }
        (FailureKind::Space, _) if failure.cause.contains(NO_DESCRIPTORS) => {
            "where that was said, allow more open files (`ulimit -n`, LimitNOFILE of a unit; for the whole machine fs.file-max), \
             then run the same command again: it resumes"
        }
        (FailureKind::Unsupported, _) if is_too_large(failure) => {
            "one file may not have so many bytes there: raise that limit (`ulimit -f`, LimitFSIZE of a unit), or choose a file \
             system that holds such files (FAT does not beyond 4 GiB)"
        }
        (FailureKind::Permission, _) if failure.cause.ends_with(NOT_OURS) => {
            "have that user or root remove it there, or choose a directory in which only you may make names"
        }
        (FailureKind::Permission | FailureKind::Space, "create the state directory") => {
            "name a directory that can be written for what is kept between copies: --state DIR, THALWEG_STATE, or XDG_STATE_HOME \
             for all programs"
        }
        // A measurement begins anew, and says itself what room it needs.
        (FailureKind::Space | FailureKind::Stopped, "measure") => return None,
        (FailureKind::Stopped, "probe" | "verify" | "start a testbed") => return None,
        (FailureKind::Space, operation) if operation.starts_with(NO_MEMORY) => {
            "ask for less (fewer --streams, a smaller --request), allow more where it is short (--memory, there `serve \
             --memory`), or wait until others are done: the same command resumes"
        }
        // A sender of frames that was let in before says `Connection` where it is not let in again.
        (FailureKind::Busy | FailureKind::Connection, windows::OPERATION) => {
            "ask for less (a smaller --window), have the daemon give more (`serve --frames-memory`), or wait until others are done"
        }
        (FailureKind::Busy | FailureKind::Connection | FailureKind::Conflict, frames::TAKE_NAME) => {
            "end the other one, or take another name: --producer, or --name of a consumer"
        }
        (FailureKind::Busy | FailureKind::Connection, frames::JOIN) => {
            "have consumers take what is there and end who is not needed (`thalweg frames status` tells who is there), or use \
             another channel"
        }
        (FailureKind::Busy, frames::WRITE_LOG) => {
            "make room where the hub's log is (or make it writable): it tries again until it can"
        }
        (FailureKind::Busy | FailureKind::Connection, frames::DECLARE)
        | (FailureKind::Busy, "push a frame" | "finish") => {
            "its consumers are slower than its producers, or away: `thalweg frames status` tells who is how far behind"
        }
        (FailureKind::Busy, "open a channel") => {
            "the hub has no room for one more channel: wait until one is not used any more, open the others with less (--memory), or \
             have the daemon give more (`serve --frames-memory`)"
        }
        (FailureKind::Busy, "open the spill log") => {
            "another daemon, or a `frames pull --hub`, serves the same directory: end it, or use another channel"
        }
        (FailureKind::Busy, "take the hub's directory") => {
            "end the other `frames pull --hub`, or choose another directory: each hub has its own"
        }
        (FailureKind::Busy, "take the state directory") => {
            "end the other daemon, or give this one a state directory of its own: --state DIR"
        }
        (FailureKind::Space, _) if failure.cause.ends_with(NO_INODES) => {
            "remove files there: that file system has room for bytes and none for more files. Then run the same command again: it \
             resumes"
        }
        (FailureKind::Space, _) => {
            "make room (or make it writable), then run the same command again: it resumes"
        }
        (FailureKind::Io, operation) if operation.starts_with("sync") || operation.starts_with("write") => {
            "the disk or its file system fails: see the kernel's log. When it works again, the same command resumes"
        }
        (FailureKind::NotFound, "open the source" | "open") if failure.cause.contains(['*', '?', '[']) => {
            "names are taken as they are, and patterns are not expanded: `cp` and `sync` choose what is below a source with \
             --include and --exclude, or by a list with --files-from"
        }
        (FailureKind::NotFound, FIND_PLACE) => {
            "as it is written it is a path of this machine; a place at a daemon is tw://HOST[:PORT]/EXPORT/PATH, one by ssh \
             [USER@]HOST:PATH, and one of the configuration @NAME/PATH"
        }
        (FailureKind::NotFound, "read what an index names") => {
            "the files that an index names are looked for beside it, of a pipe beside the pipe, and of standard input in the \
             working directory: bring them there, or name the index where they are"
        }
        (FailureKind::NotFound | FailureKind::Permission, ssh::RUN) => {
            "this is the ssh of this machine: install OpenSSH's client, or name the program to start with -e (--rsh)"
        }
        (_, ssh::PLACE) => {
            "put the program there yourself, where it may run, and name it with --far-path; or have XDG_CACHE_HOME there name a \
             directory that holds and runs it"
        }
        (FailureKind::NotFound, ssh::START) => {
            "install it there, name it with --far-path, or let thalweg place its own copy with --bootstrap"
        }
        (FailureKind::Protocol, ssh::START) => {
            "with --bootstrap thalweg places its own copy there, of the same version"
        }
        (FailureKind::Connection, ssh::START) => {
            "ssh's own words stand above; the same host must work with `ssh`. The same command resumes"
        }
        (FailureKind::Connection, ssh::REACH) => {
            "ssh started it there: the same host must work with `ssh`, and programs there must reach their own machine's \
             loopback. The same command resumes"
        }
        (FailureKind::Unsupported, ssh::REACH) => {
            "have that machine let it go on (`ulimit -v` and `ulimit -t` of a login there, memory); then the same command resumes"
        }
        // What a daemon trusts, and who it is, stands in the ticket.
        (FailureKind::Permission, _)
            if failure.cause.starts_with("the peer does not let us in")
                || failure.cause.starts_with("the peer's certificate is not one we trust") =>
        {
            "the ticket is an old one, or that of another daemon: fetch the one that `thalweg serve` there wrote last, and name it \
             with --ticket or THALWEG_TICKET"
        }
        // The link stood all the while.
        (FailureKind::Connection, spread::SPREAD) => {
            "the far side answers, but not there: name with --via and --bind what leads to it, or leave them out. The same \
             command resumes"
        }
        (FailureKind::Connection, "connect") => {
            "is `thalweg serve` running there, and may this host reach its port? The same command resumes"
        }
        (FailureKind::Connection, "measure the path of --to") => {
            "name a TCP port that is open there, or leave --to out"
        }
        (FailureKind::Connection, _) => RESUME,
        (FailureKind::Damage, "verify") => {
            "the same bytes arrived damaged many times: suspect memory, a network card or a disk on the way"
        }
        (FailureKind::Damage, "keep the name") => {
            "leave a file alone as long as `thalweg mark` says that it is growing; what was written of this one has to be \
             streamed anew, under another name or when `thalweg gc` has removed what is noted of it"
        }
        (FailureKind::Changed, "read on") => "open it again: somebody replaced it, or writes it",
        (FailureKind::Usage, "find the program to run") => {
            "name a file that may be executed; its arguments go behind all else, after `--`"
        }
        (FailureKind::Usage, "use in a fork") => "make it in the process that uses it, after the fork",
        (FailureKind::Damage, "sync the spill log") => {
            "leave alone what is beside a channel's name as long as its hub runs; a hub that is started anew begins a new log"
        }
        (FailureKind::Damage, frames::READ_SIZE) => {
            "write the bytes that the log may have into that file, as a number: at least what its files have now"
        }
        (FailureKind::Conflict, frames::DECLARE) => {
            "give this set another number (--set), or use another channel: frames of a set that is over count in none"
        }
        (FailureKind::Changed, _) => "copy from a snapshot, or when nobody writes",
        (FailureKind::Permission, "make a network namespace") => {
            "a testbed needs root; or, where user namespaces are permitted, a shell in one: unshare -Urm"
        }
        (FailureKind::Busy, "listen") => {
            "another program has this port: choose one with --listen ADDRESS:PORT"
        }
        (FailureKind::Busy, "open the staging directory" | "open the destination") => {
            "wait for the other transfer, or stop it"
        }
        (FailureKind::Busy, "mark what grows") => {
            "give each stream a directory of its own, or wait for the other one, or stop it"
        }
        (FailureKind::Busy, "start a thread") => {
            "the daemon may have no more threads (`ulimit -u`, TasksMax of its unit): the same command again, later"
        }
        (FailureKind::Io, "start" | "start a thread") => {
            "where that was said, allow more threads or memory (`ulimit -u`, `ulimit -v`, TasksMax of a unit), then run the same \
             command again: it resumes"
        }
        (FailureKind::Busy, "ask the copy") => {
            "one that was stopped (Ctrl-Z) answers when it goes on: `fg`, or kill -CONT and its number"
        }
        (FailureKind::Busy, "watch") => "end the other `thalweg watch`, or leave the work to it",
        (FailureKind::Stopped, _) => RESUME,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use thalweg_mover::failure;

    /// What operations are matched on is what is said elsewhere: a word that was changed there is found here.
    #[test]
    fn every_operation_that_is_matched_on_is_one() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Vec::new();
        for name in std::fs::read_dir(&crates).unwrap() {
            read(&name.unwrap().path().join("src"), &mut sources);
        }
        assert!(sources.len() > 100, "{} files of source", sources.len());
        let patterns = include_str!("hint.rs").split_once("#[cfg(test)]").unwrap().0;
        let mut known = 0;
        for line in patterns.lines().filter(|line| line.contains("FailureKind::")) {
            let parts: Vec<&str> = line.split("=>").next().unwrap_or(line).split('"').collect();
            for texts in parts.windows(2).step_by(2) {
                let opening = if texts[0].ends_with("ends_with(") { "" } else { "\"" };
                let closing = if texts[0].ends_with("starts_with(") { "" } else { "\"" };
                let literal = format!("{opening}{}{closing}", texts[1]);
                assert!(sources.iter().any(|source| source.contains(&literal)), "nothing says {literal}");
                known += 1;
            }
        }
        assert!(known > 10, "{known} operations were found");
    }

    fn read(directory: &Path, sources: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                read(&path, sources);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("client/src/hint.rs")
            {
                sources.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn a_pattern_that_nobody_expanded_is_told_from_a_name_that_is_missing() {
        let hint = |cause: &str| of(&Failure::new(FailureKind::NotFound, "open the source", cause));
        let told = hint("`run7/f*`: No such file or directory").expect("a hint");
        assert!(told.contains("--include") && told.contains("--files-from"), "{told}");
        assert_eq!(hint("`run7/f`: No such file or directory"), None);
    }

    #[test]
    fn a_want_of_descriptors_or_threads_is_no_disk_that_fails() {
        let of_kernel = |operation, number| {
            let failure = failure::of_io(operation, &std::io::Error::from_raw_os_error(number));
            of(&failure::with_words(failure, "`run7/f`")).expect("a hint")
        };
        // EMFILE, ENFILE, EAGAIN.
        for operation in ["write", "sync", "open the staging directory"] {
            assert!(of_kernel(operation, 24).contains("`ulimit -n`"));
            assert!(of_kernel(operation, 23).contains("fs.file-max"));
        }
        for operation in ["start", "start a thread"] {
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
        let hint =
            |cause: &str| of(&Failure::new(FailureKind::Permission, "open the staging directory", cause));
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
            "the peer does not let us in (AccessDenied)",
            "the peer's certificate is not one we trust (ApplicationVerificationFailure)",
        ];
        for cause in causes {
            let told = hint("hello", cause).expect("a hint");
            assert!(told.contains("--ticket") && told.contains("THALWEG_TICKET"), "{told}");
        }
        assert_eq!(hint("hello", "the peer showed no certificate"), None);
        let told = hint("create the state directory", "`/root/x`: Permission denied").expect("a hint");
        for word in ["--state", "THALWEG_STATE", "XDG_STATE_HOME"] {
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn what_only_measures_or_reads_is_not_said_to_resume() {
        let stopped = |operation: &str| of(&Failure::new(FailureKind::Stopped, operation, "on request"));
        for operation in ["measure", "probe", "verify", "start a testbed"] {
            assert_eq!(stopped(operation), None, "{operation}");
        }
        assert!(stopped("copy").is_some_and(|hint| hint.contains("it resumes")));
    }

    fn busy(operation: &str) -> &'static str {
        of(&Failure::new(FailureKind::Busy, operation, "")).expect("a hint")
    }

    #[test]
    fn a_hub_without_room_and_a_name_that_another_has_are_no_other_transfer_to_wait_for() {
        let general = busy("open the staging directory");
        let wanted = [
            (windows::OPERATION, "--window"),
            (frames::TAKE_NAME, "--producer"),
            (frames::JOIN, "another channel"),
            (frames::WRITE_LOG, "make room"),
            ("open a channel", "--frames-memory"),
            ("open the spill log", "same directory"),
            ("take the hub's directory", "another directory"),
            ("take the state directory", "--state DIR"),
            ("mark what grows", "a directory of its own"),
            ("push a frame", "thalweg frames status"),
            ("finish", "thalweg frames status"),
            (frames::DECLARE, "thalweg frames status"),
        ];
        for (operation, word) in wanted {
            let hint = busy(operation);
            assert!(hint != general && hint.contains(word), "{operation}: {hint}");
        }
        let of_set = of(&Failure::new(FailureKind::Conflict, frames::DECLARE, ""));
        assert!(of_set.is_some_and(|hint| hint.contains("--set")), "a set that is over: {of_set:?}");
        // Of what nobody here knows who holds it, nothing is said.
        for operation in ["start a testbed", "take a slot", "end the testbed's programs"] {
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
