//! What writers do to names while nobody looks: between two runs of the same command.

use crate::support::job::{Ran, Running, with};
use crate::support::{Daemon, Scratch, assert_no_litter, noise, wait_until};
use crate::{LIMIT, Writer, append, command, holds, mark};
use std::path::{Path, PathBuf};

/// A way from here to a daemon; what arrives, and the command, with `--json` that counts what was received.
struct Way {
    scratch: Scratch,
    daemon: Daemon,
    from: PathBuf,
    arrives: PathBuf,
}

impl Way {
    fn new() -> Way {
        let scratch = Scratch::new();
        let (from, export) = (scratch.path("from"), scratch.path("export"));
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(&export).unwrap();
        let daemon = scratch.daemon(&[("data", &export)]);
        Way { arrives: export.join("to"), scratch, daemon, from }
    }

    fn start(&self, source: &Path, args: &[&str]) -> Running {
        let mut stream = with(command(&self.scratch), args);
        stream.arg(if source.is_dir() { source.join("") } else { source.to_owned() });
        stream.arg(self.daemon.place("data", "to"));
        Running::start(stream)
    }

    /// Streams what `log` has, 30,000 bytes, and is killed.
    fn killed(&self, source: &Path, log: &Path, arrives: &Path) {
        self.killed_when(source, log, arrives, || true);
    }

    /// The same, not before this is so as well.
    fn killed_when(&self, source: &Path, log: &Path, arrives: &Path, is_so: impl Fn() -> bool) {
        // In a directory a file is complete when it is closed.
        let mut writer = Writer::new(log.to_owned());
        writer.write(&noise(1, 30_000));
        let job = self.start(source, &["-f"]);
        assert!(wait_until(LIMIT, || arrives.exists() && mark(&self.scratch, arrives) == (30_000, false)));
        assert!(wait_until(LIMIT, is_so));
        job.kill();
    }

    /// The same, of a log or the directory that it is in: the log, what was streamed, and where the log arrives.
    fn killed_in(&self, is_directory: bool) -> [PathBuf; 3] {
        let log = self.from.join("log");
        let (source, arrives) = match is_directory {
            true => (self.from.clone(), self.arrives.join("log")),
            false => (log.clone(), self.arrives.clone()),
        };
        self.killed(&source, &log, &arrives);
        [log, source, arrives]
    }

    fn again(&self, source: &Path, code: i32) -> Ran {
        self.start(source, &["--until-idle", "1s"]).end(LIMIT).expect(code)
    }
}

fn rotate(log: &Path) -> Vec<u8> {
    append(log, &noise(2, 5000));
    std::fs::rename(log, log.with_extension("1")).unwrap();
    append(log, &noise(3, 7000));
    [noise(1, 30_000), noise(2, 5000)].concat()
}

#[test]
fn a_file_that_was_rotated_while_the_mover_was_down_is_read_to_its_end_under_its_name() {
    let way = Way::new();
    let log = way.from.join("one");
    way.killed(&log, &log, &way.arrives);
    let old = rotate(&log);
    // Others stand beside it.
    append(&way.from.join("another"), &noise(4, 30_000));
    let ran = way.again(&log, 0);
    assert!(std::fs::read(&way.arrives).unwrap() == old);
    assert!(holds(&way.arrives.with_file_name("to.~2~"), &noise(3, 7000)));
    for told in ["one was renamed to one.1", "one goes to to.~2~ at the destination"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert_eq!(mark(&way.scratch, &way.arrives), (35_000, true));
    assert_no_litter(way.arrives.parent().unwrap());
}

#[test]
fn in_a_directory_a_file_that_was_rotated_meanwhile_goes_on_under_its_name_and_is_not_sent_again() {
    let way = Way::new();
    let (log, arrives) = (way.from.join("log"), way.arrives.join("log"));
    // One that was complete, and one that grows.
    let whole = way.from.join("whole");
    append(&whole, &noise(5, 20_000));
    let there = way.arrives.join("whole");
    let is_whole = || there.exists() && mark(&way.scratch, &there) == (20_000, true);
    way.killed_when(&way.from, &log, &arrives, is_whole);
    let old = rotate(&log);
    std::fs::rename(&whole, way.from.join("whole.1")).unwrap();
    let ran = way.start(&way.from, &["--until-idle", "1s", "--json"]).end(LIMIT).expect(0);
    assert!(std::fs::read(&arrives).unwrap() == old);
    assert!(std::fs::read(way.arrives.join("log.~2~")).unwrap() == noise(3, 7000));
    assert!(std::fs::read(way.arrives.join("whole")).unwrap() == noise(5, 20_000));
    for name in ["log.1", "whole.1"] {
        assert!(!way.arrives.join(name).exists(), "{name} was sent again");
    }
    assert_eq!(ran.number("bytes_received"), 5000 + 7000);
    for told in ["log.1 was log before", "log goes to log.~2~ at the destination"] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    assert_eq!(mark(&way.scratch, &arrives), (35_000, true));
    assert_no_litter(&way.arrives);
}

#[test]
fn what_was_cut_while_the_mover_was_down_is_told_once_with_the_name_of_what_it_has_now() {
    for is_directory in [false, true] {
        let way = Way::new();
        let [log, source, arrives] = way.killed_in(is_directory);
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
        append(&log, &noise(6, 9000));
        let ran = way.again(&source, 5);
        let name = arrives.file_name().unwrap().to_str().unwrap();
        for told in ["the destination has 30000 bytes", &format!("log goes to {name}.~2~ at the destination")]
        {
            assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
        }
        let second = arrives.with_file_name(format!("{name}.~2~"));
        assert!(std::fs::read(&arrives).unwrap() == noise(1, 30_000));
        assert!(std::fs::read(&second).unwrap() == noise(6, 9000));
        // It was told: what comes now is not missing anything.
        append(&log, b"more");
        way.again(&source, 0);
        assert!(std::fs::read(&arrives).unwrap() == noise(1, 30_000));
        assert!(std::fs::read(&second).unwrap() == [&noise(6, 9000)[..], b"more"].concat());
        assert_no_litter(way.arrives.parent().unwrap());
    }
}

#[test]
fn what_is_gone_while_the_mover_was_down_is_told_by_name_and_costs_exit_0() {
    for is_directory in [false, true] {
        let way = Way::new();
        let [log, source, arrives] = way.killed_in(is_directory);
        std::fs::rename(&log, way.scratch.path("elsewhere")).unwrap();
        append(&log, &noise(7, 3000));
        let ran = way.again(&source, 2);
        let name = arrives.file_name().unwrap().to_str().unwrap();
        let told =
            format!("the destination has 30000 bytes of it, as {name}, of a stream that was not completed");
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
        let second = arrives.with_file_name(format!("{name}.~2~"));
        assert!(std::fs::read(&arrives).unwrap() == noise(1, 30_000));
        assert!(std::fs::read(&second).unwrap() == noise(7, 3000));
        append(&log, b"more");
        way.again(&source, 0);
        assert!(std::fs::read(&second).unwrap() == [&noise(7, 3000)[..], b"more"].concat());
        assert_no_litter(way.arrives.parent().unwrap());
    }
}

/// It is seen where the files are.
#[test]
fn who_pulls_hears_what_became_of_the_files_at_their_source() {
    let way = Way::new();
    let (export, to) = (way.scratch.path("export"), way.scratch.path("to"));
    let mut writer = Writer::new(export.join("log"));
    writer.write(&noise(1, 30_000));
    let mut stream = with(command(&way.scratch), ["--until-idle", "6s"]);
    stream.arg(way.daemon.place("data", "")).arg(&to);
    let job = Running::start(stream);
    assert!(holds(&to.join("log"), &noise(1, 30_000)));
    std::fs::rename(export.join("log"), export.join("log.1")).unwrap();
    append(&export.join("log"), b"anew");
    let ran = job.end(LIMIT).expect(0);
    let note = "log.1 is streamed as log: that name it began with";
    assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.stderr);
}
