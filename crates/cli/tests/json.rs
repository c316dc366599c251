//! Events for programs, and exit codes, by the real program.

mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;
use support::job::{journal_bytes, signal, wait_for_handler};
use support::{Scratch, facts, finish, make_tree, noise, wait_until};
use thalweg_lab::wrap::wrap;

fn events(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The bytes of a name, as docs/reference/json.md says how to get them.
fn name(event: &Value) -> Vec<u8> {
    match event["path_bytes"].as_str() {
        Some(hex) => {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        }
        None => thalweg_wire::path::unescape(event["path"].as_str().unwrap()).unwrap(),
    }
}

/// F-1: names that are hostile to terminals, logs and parsers come through byte by byte.
#[test]
fn every_name_comes_through_json_byte_by_byte_and_no_control_byte_reaches_the_output() {
    let scratch = Scratch::new();
    let from = scratch.path("from");
    make_tree(&from);
    for hostile in [
        &b"-rf"[..],
        b"\x1b]0;title\x07",
        b"\xc2\x9b31m",
        b"\xe2\x80\xaertl",
        b"${jndi:x}",
        b"%n%s",
        b"a\\x41b",
        b"\"quoted\"",
        b"\r",
        b"e\xcc\x81",
        b"\xc3\xa9",
        b" lead and trail ",
        b"*",
        b"> a.b.c",
    ] {
        std::fs::write(from.join(std::ffi::OsStr::from_bytes(hostile)), b"x").unwrap();
    }
    let expected: BTreeSet<Vec<u8>> = facts(&from).into_keys().collect();
    let out =
        scratch.run(["cp".into(), "-vv".into(), "--json".into(), scratch.path("from/"), scratch.path("to")]);
    let listed = scratch.ok(["ls".into(), "-R".into(), "--json".into(), scratch.path("to")]);
    for (text, event) in [(String::from_utf8(out.stdout).unwrap(), "entry"), (listed, "listed")] {
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        let names: BTreeSet<Vec<u8>> = events(&text)
            .iter()
            .filter(|value| value["event"] == event && value["path"] != ".")
            .map(name)
            .collect();
        assert!(names == expected, "{event}");
    }
    assert!(!String::from_utf8(out.stderr).unwrap().chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn a_copy_tells_its_end_its_plan_and_its_numbers() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 3 << 20)).unwrap();
    let out = scratch.ok(["cp".into(), "--json".into(), scratch.path("file"), scratch.path("to")]);
    let events = events(&out);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(
        (&last["exit"], &last["bytes_done"], &last["dry_run"]),
        (&0.into(), &(3 << 20).into(), &false.into())
    );
    assert!(last["plan"]["streams"]["why"].is_string() && last["root"].is_string());
    assert_eq!(events[0]["blake3"], blake3::hash(&noise(1, 3 << 20)).to_hex().as_str());
}

#[test]
fn progress_is_told_about_once_a_second() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 6 << 20)).unwrap();
    let out = scratch.ok([
        "cp".into(),
        "--json".into(),
        "--bwlimit".into(),
        "2MB/s".into(),
        scratch.path("file"),
        scratch.path("to"),
    ]);
    let progress = events(&out).into_iter().filter(|event| event["event"] == "progress").collect::<Vec<_>>();
    assert!(!progress.is_empty() && progress.len() < 60, "{out}");
    assert_eq!(progress[0]["bytes_found"], 6 << 20);
}

#[test]
fn what_was_there_already_is_progress_and_the_time_left_is_that_of_what_comes() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/there"), noise(1, 16 << 20)).unwrap();
    let words = |more: &[&str]| {
        let mut words = vec!["cp".into(), "--json".into()];
        words.extend(more.iter().map(|word| word.into()));
        words.extend([scratch.path("from/"), scratch.path("to")]);
        words
    };
    scratch.ok(words(&[]));
    std::fs::write(scratch.path("from/new"), noise(2, 6 << 20)).unwrap();
    let out = scratch.ok(words(&["--bwlimit", "2MB/s", "--chunk", "1MiB"]));
    let progress = events(&out).into_iter().filter(|event| event["event"] == "progress").collect::<Vec<_>>();
    let last = progress.last().expect("it takes three seconds");
    let number = |field: &str| last[field].as_f64().unwrap_or(-1.0);
    assert_eq!((&last["bytes_found"], &last["scan_over"]), (&(22 << 20).into(), &true.into()), "{last}");
    assert!(number("bytes_settled") >= f64::from(16 << 20), "{last}");
    assert!(number("bytes_verified") <= f64::from(6 << 20), "{last}");
    assert!(number("seconds") > 0.0, "{last}");
    let (rate, left) = (number("bytes_per_s"), number("left_s"));
    // 16 MiB that are there would add eight seconds.
    assert!(rate > 0.0 && (left < 0.0 || left * rate < f64::from(7 << 20)), "{last}");
}

#[test]
fn failures_are_events_too_and_name_their_exit_code() {
    let scratch = Scratch::new();
    let (nowhere, to) =
        (scratch.path("nowhere").display().to_string(), scratch.path("to").display().to_string());
    for (words, exit, kind) in [
        (vec!["cp", "--json", &nowhere, &to], 3, "notfound"),
        (vec!["ls", "--json", &nowhere], 3, "notfound"),
        (vec!["cp", "--json", "--delete", "a", "b"], 1, "usage"),
        (vec!["cp", "--json", "--no-such-option", "a", "b"], 1, "usage"),
        (vec!["du", "--json", "tw://127.0.0.1:1/data/x"], 1, "usage"),
    ] {
        let out = scratch.run(&words);
        assert_eq!(out.status.code(), Some(exit), "{words:?}");
        let last = events(&String::from_utf8(out.stdout).unwrap()).pop().unwrap();
        assert_eq!(
            (&last["event"], &last["exit"], &last["kind"]),
            (&"error".into(), &exit.into(), &kind.into()),
            "{words:?}"
        );
        assert!(String::from_utf8(out.stderr).unwrap().starts_with("error: "), "{words:?}");
    }
}

#[test]
fn an_entry_that_fails_is_exit_2_and_told() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"x").unwrap();
    // A directory that is not empty stands where the file should go.
    std::fs::create_dir_all(scratch.path("to/file/full")).unwrap();
    let out = scratch.run(["cp".into(), "--json".into(), scratch.path("from/"), scratch.path("to")]);
    assert_eq!(out.status.code(), Some(2));
    let events = events(&String::from_utf8(out.stdout).unwrap());
    let failed = events.iter().find(|event| event["outcome"] == "failed").unwrap();
    assert_eq!((&failed["path"], &failed["kind"]), (&"file".into(), &"conflict".into()));
    assert_eq!(events.last().unwrap()["exit"], 2);
}

#[test]
fn a_copy_that_is_stopped_ends_with_130_or_143_and_resumes() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 12 << 20)).unwrap();
    // Some chunks are recorded: a digest of each has 32 bytes.
    let mut goal = 500;
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut command = scratch.thalweg();
        command.args(["cp", "--chunk", "256KiB", "--bwlimit", "1MB/s"]);
        command.arg(scratch.path("file")).arg(scratch.path("to"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id().to_string();
        let handled = if code == 130 { Signal::SIGINT } else { Signal::SIGTERM };
        wait_for_handler(child.id(), handled);
        let mut is_over = || !matches!(child.try_wait(), Ok(None));
        let has_more = || journal_bytes(scratch.root()) > goal;
        assert!(wait_until(Duration::from_secs(60), || has_more() || is_over()) && !is_over());
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        let out = finish(child);
        assert_eq!(out.status.code(), Some(code), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(String::from_utf8_lossy(&out.stderr).contains("hint: run the same command again"));
        goal = journal_bytes(scratch.root());
    }
    let words = ["cp", "--json", "--chunk", "256KiB"].map(std::path::PathBuf::from);
    let out = scratch.ok(words.into_iter().chain([scratch.path("file"), scratch.path("to")]));
    let last = events(&out).pop().unwrap();
    assert!(last["bytes_resumed"].as_u64().is_some_and(|bytes| bytes > 0), "{last}");
    assert_eq!(std::fs::read(scratch.path("to")).unwrap(), noise(1, 12 << 20));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_and_the_last_event_has_the_exit_code() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let out = scratch.run([
        "cp".into(),
        "--json".into(),
        "--report".into(),
        "/dev/full".into(),
        scratch.path("file"),
        scratch.path("to"),
    ]);
    let told = events(&String::from_utf8_lossy(&out.stdout));
    assert_eq!(out.status.code(), Some(6), "{told:?}");
    let errors: Vec<&Value> = told.iter().filter(|event| event["event"] == "error").collect();
    assert_eq!(errors.len(), 1, "{told:?}");
    assert_eq!(errors[0]["kind"], "space");
    assert!(errors[0]["why"].as_str().unwrap().contains("/dev/full"), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"finished".into(), &6.into()));
    assert_eq!(std::fs::read(scratch.path("to")).unwrap(), b"x");
}

/// A log of events on a disk that is full: who reads it would take what is missing for not done.
#[test]
fn what_is_told_and_cannot_be_written_is_exit_6_and_the_work_is_done() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    for words in [
        &["cp", "--json", "--receipt", "receipt", "from/", "to"][..],
        &["cp", "-v", "from/", "other"],
        &["sync", "--json", "from/", "other"],
        &["verify", "--json", "receipt", "to"],
        &["verify", "receipt", "to"],
        &["predict", "--json", "from/", "to"],
        &["predict", "from/", "to"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = scratch.thalweg();
        command.args(words).current_dir(scratch.root()).stdout(full).stderr(Stdio::piped());
        let out = finish(command.spawn().unwrap());
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(6), "{words:?}: {told}");
        assert!(told.contains("error: print failed: No space left on device"), "{words:?}: {told}");
    }
    for copied in ["to", "other"] {
        support::assert_same(&scratch.path("from"), &scratch.path(copied));
    }
}

/// As `nohup` has it: the terminal that goes away is no reason to stop.
#[test]
fn a_copy_that_was_told_to_ignore_a_signal_goes_on_at_it() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 3 << 20)).unwrap();
    let mut command = scratch.thalweg();
    command.args(["cp", "--bwlimit", "1MB/s"]).arg(scratch.path("file")).arg(scratch.path("to"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]);
    let child = wrap(shell, &command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It hears the one that is not ignored; that of SIGINT would come before.
    wait_for_handler(child.id(), Signal::SIGTERM);
    for ignored in [Signal::SIGHUP, Signal::SIGINT] {
        signal(child.id(), ignored);
    }
    let out = finish(child);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(std::fs::read(scratch.path("to")).unwrap(), noise(1, 3 << 20));
}

#[test]
fn a_source_that_never_stops_changing_is_exit_5() {
    // In memory: a disk may keep the writer waiting while it is read.
    let scratch = Scratch::in_memory();
    let path = scratch.path("file");
    std::fs::write(&path, noise(1, 8 << 20)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let mut at = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                at = (at + 4099) % (8 << 20);
                std::os::unix::fs::FileExt::write_all_at(&file, &[at as u8], at).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // Long enough for a writer that has to wait for a core.
        let slow = ["cp".into(), "--bwlimit".into(), "8MB/s".into()];
        let out = scratch.run(slow.into_iter().chain([path.clone(), scratch.path("to")]));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(out.status.code(), Some(5), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(!scratch.path("to").exists());
    });
}

#[test]
fn a_reader_of_events_that_goes_away_does_not_stop_the_copy() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    let mut command = scratch.thalweg();
    command.args(["cp", "--json", "-v"]).arg(scratch.path("from/")).arg(scratch.path("to"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(finish(child).status.code(), Some(0));
    support::assert_same(&scratch.path("from"), &scratch.path("to"));
}

/// Else what serves the link would wait for the reader, until the other side takes the link for lost.
#[test]
fn a_reader_of_events_that_pauses_holds_up_no_copy_and_misses_no_event() {
    // Their lines are several times what a pipe takes.
    const FILES: usize = 2000;
    let scratch = Scratch::new();
    let (from, server) = (scratch.path("from"), scratch.path("server"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&server).unwrap();
    for number in 0..FILES {
        std::fs::write(from.join(format!("one of many files, number {number}")), b"x").unwrap();
    }
    let daemon = scratch.daemon(&[("data", &server)]);
    let receipt = scratch.path("receipt");
    let mut command = scratch.thalweg();
    command.args(["cp", "--json", "--ticket"]).arg(&daemon.ticket).arg("--receipt").arg(&receipt);
    command.arg(scratch.path("from/")).arg(daemon.place("data", "to/"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nobody reads yet, and both sides sign that all is there.
    assert!(wait_until(Duration::from_secs(120), || receipt.exists()), "{}", scratch.server_log());
    let out = finish(child);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let events = events(&String::from_utf8(out.stdout).unwrap());
    let files = events.iter().filter(|event| event["event"] == "entry" && event["type"] == "file");
    assert_eq!(files.count(), FILES);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["attempts"]), (&"finished".into(), &1.into()));
}

/// The same of the lines for people.
#[test]
fn a_reader_of_stderr_that_pauses_holds_up_no_copy_and_misses_no_name() {
    // Their names are several times what a pipe takes.
    const FILES: usize = 2000;
    let scratch = Scratch::new();
    let (from, server) = (scratch.path("from"), scratch.path("server"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&server).unwrap();
    for number in 0..FILES {
        let name = format!("{}, number {number}", "one of many files".repeat(6));
        std::fs::write(from.join(name), b"x").unwrap();
    }
    let daemon = scratch.daemon(&[("data", &server)]);
    for (place, more) in [("plain/", None), ("progress/", Some("--progress"))] {
        let receipt = scratch.path("receipts").join(place);
        std::fs::create_dir_all(&receipt).unwrap();
        let receipt = receipt.join("receipt");
        let mut command = scratch.thalweg();
        command.args(["cp", "-v"]).args(more).arg("--ticket").arg(&daemon.ticket);
        command.arg("--receipt").arg(&receipt).arg(scratch.path("from/"));
        command.arg(daemon.place("data", place));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(wait_until(Duration::from_secs(120), || receipt.exists()), "{}", scratch.server_log());
        let out = finish(child);
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with("one of many")).count(), FILES);
    }
}

/// Whoever reads the data would take the object for a part of it.
#[test]
fn where_stdout_is_the_destination_an_error_is_told_on_stderr() {
    let scratch = Scratch::new();
    // Nobody listens there.
    let (file, channel) = ("tw://127.0.0.1:1/data/file", "tw://127.0.0.1:1/channel");
    for words in [
        &["cat", "--json", file][..],
        &["stream", "--json", file, "-"],
        &["frames", "pull", "--json", channel, "-"],
        &["cat", "--json", "--odd", file],
        &["stream", "--json", "--odd", file, "-"],
        &["ls", "--json", file],
        &["ls", "--json", "--odd", file],
    ] {
        let mut command = scratch.thalweg();
        command.env("THALWEG_PATIENCE", "5s").env("THALWEG_STALL_TIMEOUT", "5s").args(words);
        let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(matches!(out.status.code(), Some(1 | 3)), "{words:?}: {out:?}");
        let objects = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            events(&text.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>().join("\n"))
        };
        let (on_stdout, on_stderr) = (objects(&out.stdout), objects(&out.stderr));
        let told = match words[0] {
            "ls" => on_stdout,
            _ => {
                assert_eq!(out.stdout, b"", "{words:?}");
                on_stderr
            }
        };
        assert!(told.iter().any(|event| event["event"] == "error"), "{words:?}: {out:?}");
    }
}

#[test]
fn the_help_has_every_exit_code_of_the_reference() {
    let scratch = Scratch::new();
    for words in [&["--help"][..], &["cp", "--help"]] {
        let help = scratch.ok(words);
        for (exit, meaning) in thalweg_cli::exit::TABLE {
            let start: String = meaning.chars().take(20).collect();
            assert!(help.contains(&format!("{:>3}  {start}", exit.code())), "{help}");
        }
    }
}

#[test]
fn quiet_says_nothing_but_errors() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let out = scratch.run(["cp".into(), "-q".into(), scratch.path("file"), scratch.path("to")]);
    assert_eq!((out.status.code(), &out.stdout[..], &out.stderr[..]), (Some(0), &b""[..], &b""[..]));
    let out = scratch.run(["cp".into(), "-q".into(), scratch.path("nowhere"), scratch.path("to")]);
    assert!(String::from_utf8(out.stderr).unwrap().starts_with("error: "));
}

/// Where a dry run refuses as where it is done, on stdout as in the report.
#[test]
fn what_is_deleted_is_named_in_the_report_too_and_what_is_not_named_is_counted() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"x").unwrap();
    std::fs::create_dir_all(scratch.path("to/old")).unwrap();
    let files = thalweg_wire::limits::DELETED_TOLD_MAX + 3;
    for number in 0..files {
        std::fs::File::create(scratch.path(&format!("to/old/{number}"))).unwrap();
    }
    let (from, to) = (format!("{}/", scratch.path("from").display()), scratch.path("to"));
    let report = scratch.path("report");
    let sync = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["sync", "--delete", "--report"]).arg(&report).args(more).arg(&from).arg(&to);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let told = |text: &str| {
        let events = events(text);
        let named = events.iter().filter(|event| event["event"] == "deleted").count();
        let unnamed: Vec<u64> = events
            .iter()
            .filter(|event| event["event"] == "deleted-unnamed")
            .map(|event| event["entries"].as_u64().unwrap())
            .collect();
        (named, unnamed)
    };
    // The directory is one of them.
    let all = (thalweg_wire::limits::DELETED_TOLD_MAX, vec![4]);
    // By the last of the runs, each of which goes on behind the one before.
    let reported = || {
        let text = std::fs::read_to_string(&report).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.iter().rposition(|line| line.contains("\"continued\""));
        told(&lines[last.map_or(0, |at| at + 1)..].join("\n"))
    };
    let refused = sync(&["-n", "--json"]);
    let said = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!((told(&said), reported()), (all.clone(), all.clone()));
    let last = events(&said).pop().unwrap();
    assert_eq!((&last["deleted"], &last["failed"]), (&(files + 1).into(), &1.into()), "{last}");
    let for_people = sync(&["-n", "--max-delete", "20000"]);
    let said = String::from_utf8(for_people.stderr).unwrap();
    assert!(said.ends_with("\n4 more (would be deleted, not named)\n"), "{said}");
    assert_eq!((for_people.status.code(), reported()), (Some(0), all.clone()));
    assert!(scratch.path("to/old/0").exists());
    let quiet = sync(&["-q", "--max-delete", "20000"]);
    assert_eq!((quiet.status.code(), quiet.stderr.is_empty(), reported()), (Some(0), true, all));
    assert!(!scratch.path("to/old").exists());
    let whole = told(&std::fs::read_to_string(&report).unwrap());
    assert_eq!(whole, (3 * thalweg_wire::limits::DELETED_TOLD_MAX, vec![4; 3]));
}
