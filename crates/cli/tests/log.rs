//! What a daemon logs of transfers: that each begins and how it ended, whatever its names are, for people or for
//! programs.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::canary::{Secrets, key_files};
use support::{Daemon, Scratch, finish, noise, wait_until};

/// A name that would begin a line, colour a terminal and write a field.
const HOSTILE: &[u8] = b"a\n\x1b[31m outcome=\"done\" \xff";
/// The same, as it is shown.
const SHOWN: &str = "a\\x0a\\x1b[31m outcome=\"done\" \\xff";
const LIMIT: Duration = Duration::from_secs(60);

/// A daemon with an export to write and one to read.
fn stand(more: &[&str], wrap: impl FnOnce(Command) -> Command) -> (Scratch, Daemon) {
    let scratch = Scratch::new();
    for name in ["data", "shut"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("file"), noise(1, 300_000)).unwrap();
    let shut = format!("shut={}:ro", scratch.path("shut").display());
    let more: Vec<&str> = more.iter().chain(&["--export", &shut]).copied().collect();
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &scratch.path("data"))], &more, wrap);
    (scratch, daemon)
}

/// Runs `thalweg cp`; its exit code.
fn copy(scratch: &Scratch, from: &OsStr, to: &OsStr) -> Option<i32> {
    let mut command = scratch.thalweg();
    command.args(["cp", "-q", "--ticket"]).arg(scratch.path("ticket")).arg(from).arg(to);
    finish(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).status.code()
}

/// Below an export, with bytes of any kind.
fn place(daemon: &Daemon, export: &str, name: &[u8]) -> std::ffi::OsString {
    let mut place = daemon.place(export, "").into_bytes();
    place.extend_from_slice(name);
    OsStr::from_bytes(&place).to_owned()
}

/// A push, a pull, and a push that is refused, each with a hostile name.
fn three_transfers(scratch: &Scratch, daemon: &Daemon) {
    let file = scratch.path("file");
    assert_eq!(copy(scratch, file.as_os_str(), &place(daemon, "data", HOSTILE)), Some(0));
    let back = scratch.path("back");
    assert_eq!(copy(scratch, &place(daemon, "data", HOSTILE), back.as_os_str()), Some(0));
    assert_eq!(copy(scratch, file.as_os_str(), &place(daemon, "shut", HOSTILE)), Some(3));
}

#[test]
fn each_transfer_is_one_object_of_a_log_for_programs() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    three_transfers(&scratch, &daemon);
    let told = || -> Vec<Value> {
        let log = scratch.server_log();
        log.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .filter(|line: &Value| line["message"].as_str().is_some_and(|text| text.starts_with("transfer ")))
            .collect()
    };
    assert!(wait_until(LIMIT, || told().len() >= 5), "{}", scratch.server_log());
    drop(daemon);
    let (begun, told): (Vec<Value>, Vec<Value>) =
        told().into_iter().partition(|line| line["message"] == "transfer begins");
    // What is refused has one line.
    assert_eq!((begun.len(), told.len()), (2, 3), "{begun:?} {told:?}");
    // Whoever looks for what was under way finds it by these.
    for (begins, ends) in begun.iter().zip(&told) {
        for field in ["session", "client", "address", "transfer", "direction", "kind", "place"] {
            assert!(!begins[field].is_null() && begins[field] == ends[field], "{field}: {begins} {ends}");
        }
    }
    for (line, (direction, export, outcome)) in
        told.iter().zip([("push", "data", "done"), ("pull", "data", "done"), ("push", "shut", "permission")])
    {
        assert_eq!((&line["direction"], &line["kind"]), (&direction.into(), &"files".into()), "{line}");
        assert_eq!(line["place"], format!("{export}/{SHOWN}"), "{line}");
        assert_eq!((&line["outcome"], &line["level"]), (&outcome.into(), &"INFO".into()), "{line}");
        assert!(line["client"].as_str().is_some_and(|key| key.len() == 64), "{line}");
        assert!(line["address"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")), "{line}");
        assert!(line["seconds"].as_f64().is_some(), "{line}");
        let moved = (line["entries"].as_u64(), line["bytes"].as_u64(), line["root"].is_string());
        match outcome {
            "done" => assert_eq!(moved, (Some(1), Some(300_000), true), "{line}"),
            _ => assert!(moved == (None, Some(0), false) && line["failure"].is_string(), "{line}"),
        }
    }
}

#[test]
fn each_transfer_is_one_line_of_a_log_for_people() {
    let (scratch, daemon) = stand(&[], |mut command| {
        command.env("THALWEG_LOG", "info").env("THALWEG_LOG_FORMAT", "text");
        command
    });
    three_transfers(&scratch, &daemon);
    let lines = || -> Vec<String> {
        let log = scratch.server_log();
        let ends = |line: &&str| line.contains(": transfer ") && !line.contains(": transfer begins ");
        log.lines().filter(ends).map(str::to_owned).collect()
    };
    assert!(wait_until(LIMIT, || lines().len() >= 3), "{}", scratch.server_log());
    drop(daemon);
    let log = scratch.server_log();
    assert!(!log.contains('\x1b') && log.lines().all(|line| line.starts_with("20")), "{log}");
    let lines = lines();
    let outcomes: Vec<usize> = lines.iter().map(|line| line.matches(" outcome=\"done\"").count()).collect();
    // What a name has to say of it is quoted there.
    assert_eq!(outcomes, [1, 1, 0], "{log}");
    assert!(lines[2].contains(" outcome=\"permission\" failure=\"open failed: "), "{log}");
}

#[test]
fn a_client_that_is_gone_leaves_a_line_that_says_so() {
    let (scratch, daemon) = stand(&["--log-format", "json", "--patience", "1s"], |command| command);
    std::fs::write(scratch.path("large"), noise(2, 24 << 20)).unwrap();
    let mut command = scratch.thalweg();
    command
        .args(["cp", "-q", "--bwlimit", "2MB/s", "--chunk", "1MiB", "--ticket"])
        .arg(scratch.path("ticket"));
    command.arg(scratch.path("large")).arg(daemon.place("data", ""));
    let mut client = command.spawn().unwrap();
    let is_under_way = || std::fs::read_dir(scratch.path("data")).unwrap().next().is_some();
    assert!(wait_until(LIMIT, is_under_way));
    client.kill().unwrap();
    client.wait().unwrap();
    let line = || {
        let log = scratch.server_log();
        let mut told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.find(|line| line["message"] == "transfer failed")
    };
    assert!(wait_until(LIMIT, || line().is_some()), "{}", scratch.server_log());
    let line = line().unwrap();
    assert_eq!((&line["outcome"], &line["direction"]), (&"connection".into(), &"push".into()), "{line}");
    assert!(line["bytes"].as_u64().is_some_and(|bytes| bytes < 24 << 20), "{line}");
}

#[test]
fn all_lines_of_a_session_say_which_it_is_and_whose() {
    let (scratch, daemon) = stand(&["--log-format", "json", "--patience", "1s"], |command| command);
    std::fs::write(scratch.path("large"), noise(6, 24 << 20)).unwrap();
    let told = |session: &Value| -> Vec<Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|line| line["session"] == *session).collect()
    };
    let find = |message: &str| {
        let log = scratch.server_log();
        let mut told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.find(|line| line["message"] == message)
    };
    let mut command = scratch.thalweg();
    command.args(["cp", "-q", "--bwlimit", "2MB/s", "--chunk", "1MiB", "--ticket"]).arg(&daemon.ticket);
    let mut client = command.arg(scratch.path("large")).arg(daemon.place("data", "")).spawn().unwrap();
    let has_begun = wait_until(LIMIT, || find("transfer begins").is_some());
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(has_begun, "{}", scratch.server_log());
    let begun = find("transfer begins").unwrap();
    assert!(begun["session"].as_str().is_some_and(|name| name.len() == 16), "{begun}");
    let messages = ["session begun", "transfer begins", "link lost", "session ended", "transfer failed"];
    let has = |message: &str| told(&begun["session"]).iter().any(|line| line["message"] == message);
    let are_told = wait_until(LIMIT, || messages.iter().all(|message| has(message)));
    assert!(are_told, "{}", scratch.server_log());
    for line in told(&begun["session"]) {
        assert_eq!(line["client"], begun["client"], "{line}");
        assert_eq!(line["address"], begun["address"], "{line}");
    }
}

#[test]
fn streams_and_channels_of_frames_have_lines_too() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    let mut stream = scratch.thalweg();
    stream.args(["stream", "-q", "--ticket"]).arg(&daemon.ticket).args(["-", &daemon.place("data", "pipe")]);
    let mut stream = stream.stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut stream.stdin.take().unwrap(), &noise(3, 5000)).unwrap();
    assert!(finish(stream).status.success());
    let mut push = scratch.thalweg();
    push.args(["frames", "push", "--ticket"]).arg(&daemon.ticket).arg("--frame-bytes").arg("1KiB");
    push.arg(scratch.path("file")).arg(daemon.place("shut", "channel"));
    assert!(!finish(push.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).status.success());
    let line = |kind: &str| {
        let log = scratch.server_log();
        let mut told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.find(|line| line["kind"] == kind && line["outcome"].is_string())
    };
    assert!(
        wait_until(LIMIT, || line("stream").is_some() && line("frames").is_some()),
        "{}",
        scratch.server_log()
    );
    let (stream, frames) = (line("stream").unwrap(), line("frames").unwrap());
    assert_eq!((&stream["outcome"], &stream["place"]), (&"done".into(), &"data/pipe".into()), "{stream}");
    assert_eq!((&stream["entries"], &stream["bytes"]), (&1.into(), &5000.into()), "{stream}");
    assert_eq!(
        (&frames["outcome"], &frames["direction"]),
        (&"permission".into(), &"push".into()),
        "{frames}"
    );
}

/// Whoever is attached is waited for, a consumer for a day.
#[test]
fn a_daemon_that_ends_in_order_has_a_last_line_of_whatever_began() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    let mut pull = scratch.thalweg();
    pull.args(["frames", "pull", "--ticket"]).arg(&daemon.ticket).arg(daemon.place("data", "channel"));
    pull.arg(scratch.path("got"));
    let mut pull = pull.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let messages = || -> Vec<String> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let frames = told.filter(|line| line["kind"] == "frames");
        frames.filter_map(|line| Some(line["message"].as_str()?.to_owned())).collect()
    };
    assert!(wait_until(LIMIT, || !messages().is_empty()), "{}", scratch.server_log());
    assert!(daemon.terminate().success());
    let told = messages();
    let _ = pull.kill();
    let _ = pull.wait();
    assert_eq!(told, ["transfer begins", "transfer failed"], "{}", scratch.server_log());
}

#[test]
fn a_dry_run_moves_nothing_and_what_is_read_digested_or_removed_without_a_transfer_has_a_line() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    // More than one question of `cat` asks for.
    std::fs::write(scratch.path("data/large"), noise(4, 9 << 20)).unwrap();
    let ask = |words: &[&OsStr]| {
        let mut command = scratch.thalweg();
        command.env("THALWEG_TICKET", &daemon.ticket).args(words);
        finish(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).status.code()
    };
    let (file, large) = (scratch.path("file"), place(&daemon, "data", b"large"));
    let here = scratch.path("data/large");
    let shut = place(&daemon, "shut", HOSTILE);
    let word = OsStr::new;
    assert_eq!(ask(&[word("cp"), word("-n"), file.as_os_str(), &place(&daemon, "data", b"new")]), Some(0));
    assert_eq!(ask(&[word("cat"), &large]), Some(0));
    // It asks for two pieces before it hears that there is none.
    assert_ne!(ask(&[word("cat"), &place(&daemon, "data", b"missing")]), Some(0));
    assert_eq!(ask(&[word("check"), here.as_os_str(), &large]), Some(0));
    assert_eq!(ask(&[word("rm"), &large]), Some(0));
    assert_eq!(ask(&[word("rm"), &shut]), Some(3));
    let told = || -> Vec<Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|line| line["outcome"].is_string()).collect()
    };
    assert!(wait_until(LIMIT, || told().len() >= 7), "{}", scratch.server_log());
    drop(daemon);
    let told = told();
    let mut seen: Vec<_> = told
        .iter()
        .map(|line| {
            let words = ["message", "kind", "place", "outcome"].map(|field| line[field].as_str().unwrap());
            (words, line["entries"].as_u64(), line["bytes"].as_u64())
        })
        .collect();
    let refused = format!("shut/{SHOWN}");
    let mut wanted = [
        (["transfer done", "dry-run", "data/new", "done"], Some(1), Some(0)),
        (["request done", "read", "data/large", "done"], Some(1), Some(9 << 20)),
        (["request failed", "read", "data/missing", "notfound"], None, Some(0)),
        // What `cat` had printed it compares, and `check` too.
        (["request done", "digest", "data/large", "done"], Some(1), Some(9 << 20)),
        (["request done", "digest", "data/large", "done"], Some(1), Some(9 << 20)),
        (["request done", "remove", "data/large", "done"], Some(1), Some(0)),
        (["request failed", "remove", refused.as_str(), "permission"], None, Some(0)),
    ];
    // Nobody signed it.
    assert!(told.iter().all(|line| line["kind"] != "dry-run" || line["root"].is_null()), "{told:?}");
    // The end of a session and the beginning of the next have no order.
    seen.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(seen, wanted, "{told:?}");
    assert!(told.iter().all(|line| line["client"].is_string() && line["address"].is_string()), "{told:?}");
}

#[test]
fn what_a_sync_deletes_is_in_its_line_and_what_a_dry_run_would_is_not() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/kept"), b"x").unwrap();
    std::fs::create_dir(scratch.path("data/old")).unwrap();
    std::fs::write(scratch.path("data/old/file"), b"x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scratch.path("from/socket")).unwrap();
    for more in [&["-n"][..], &[], &[]] {
        let mut command = scratch.thalweg();
        command.args(["sync", "-q", "--delete", "--ticket"]).arg(&daemon.ticket).args(more);
        command.arg(scratch.path("from/")).arg(daemon.place("data", ""));
        let done = finish(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        assert_eq!(done.status.code(), Some(0), "{more:?}");
    }
    let told = || -> Vec<Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|line| line["message"] == "transfer done").collect()
    };
    assert!(wait_until(LIMIT, || told().len() >= 3), "{}", scratch.server_log());
    drop(daemon);
    let told = told();
    let deleted: Vec<Option<u64>> = told.iter().map(|line| line["deleted"].as_u64()).collect();
    assert_eq!(deleted, [None, Some(2), None], "{told:?}");
    assert!(told.iter().all(|line| line["skipped"] == 1), "{told:?}");
    assert!(told[2]["unchanged"].as_u64() >= Some(1), "{told:?}");
}

#[test]
fn a_verification_is_one_line_whatever_it_has_digested() {
    let (scratch, daemon) = stand(&["--log-format", "json"], |command| command);
    std::fs::create_dir_all(scratch.path("from/deep")).unwrap();
    for name in ["a", "b", "deep/c"] {
        std::fs::write(scratch.path("from").join(name), noise(5, 1000)).unwrap();
    }
    let (receipt, to) = (scratch.path("receipt"), scratch.path("data/run"));
    scratch.ok(["cp".into(), "-q".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to]);
    let verify = || {
        let mut command = scratch.thalweg();
        command.env("THALWEG_TICKET", &daemon.ticket).arg("verify").arg(&receipt);
        command.arg(daemon.place("data", "run"));
        finish(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).status.code()
    };
    assert_eq!(verify(), Some(0));
    let told = || -> Vec<Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|line| line["kind"] == "digest").collect()
    };
    assert!(wait_until(LIMIT, || !told().is_empty()), "{}", scratch.server_log());
    drop(daemon);
    let told = told();
    assert_eq!(told.len(), 1, "{told:?}");
    let line = &told[0];
    assert_eq!((&line["message"], &line["place"]), (&"request done".into(), &"data/run".into()), "{line}");
    assert_eq!((&line["entries"], &line["bytes"]), (&3.into(), &3000.into()), "{line}");
    assert_eq!((&line["failed"], &line["outcome"]), (&0.into(), &"done".into()), "{line}");
}

#[test]
fn a_filter_that_makes_no_sense_is_told_in_one_line_and_the_rest_is_done() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"content").unwrap();
    let told = |words: &[u8]| {
        let mut command = scratch.thalweg();
        command.env("THALWEG_LOG", OsStr::from_bytes(words)).arg("ls").arg(scratch.path("file"));
        let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().filter(|line| line.contains("THALWEG_LOG is not followed")).map(str::to_owned).collect()
    };
    let secret = b"info,ureq::run=trace";
    for bad in [&b"debgu"[..], b"thalweg_mover=lound", b"info,warm", b"\xff", b"in\x1b[31mfo", secret] {
        let lines: Vec<String> = told(bad);
        assert_eq!(lines.len(), 1, "{bad:?}: {lines:?}");
        assert!(!lines[0].contains('\x1b'), "{lines:?}");
    }
    for good in [&b""[..], b"info", b"WARN", b"off", b"thalweg", b"thalweg_mover=debug, info", b"[span]=info"]
    {
        let lines: Vec<String> = told(good);
        assert_eq!(lines, Vec::<String>::new(), "{good:?}");
    }
}

/// Of all keys that are there and of what files have, with everything logged that can be.
#[test]
fn neither_keys_nor_content_are_in_logs_events_receipts_state_or_processes() {
    const CONTENT: &str = "canary-of-the-content\n";
    let (scratch, daemon) = stand(&["--log-format", "json"], |mut command| {
        command.env("THALWEG_LOG", "trace");
        command
    });
    let text = |name: &str| scratch.path(name).display().to_string();
    let (ticket, from, back) = (text("ticket"), text("from/"), text("back"));
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/large"), CONTENT.repeat(100_000)).unwrap();
    std::fs::write(scratch.path("from/small"), CONTENT).unwrap();
    // It makes the key that copies are signed with.
    scratch.ok(["cp", "--ticket", &ticket, &text("file"), &daemon.place("data", "first")]);
    let keys = ["ticket", "client-state/identity.pem", "server-state/client.pem", "server-state/server.pem"];
    let keys = keys.map(|name| scratch.path(name));
    let mut secrets = Secrets::default();
    secrets.add("content", CONTENT.trim_end().as_bytes());
    secrets.add_keys(&keys);
    let begin = |words: &[&str], more: &[&str]| {
        let mut command = scratch.thalweg();
        command.env("THALWEG_LOG", "trace").args(words).args(["--ticket", &ticket]).args(more);
        command
    };
    let receipt = text("receipt");
    // So slow that its processes can be looked at.
    let push = ["cp", "--json", "--bwlimit", "1MB/s", "--chunk", "64KiB", "--receipt", &receipt];
    let (there, shut) = (daemon.place("data", "there/"), daemon.place("shut", "there/"));
    for (words, more, code) in [
        (&push[..], &[from.as_str(), &there][..], 0),
        (&["cp", "--json"], &[there.as_str(), &back], 0),
        (&["cp", "--json"], &[from.as_str(), &shut], 3),
        (&["check", "--json"], &[from.as_str(), &there], 0),
        (&["verify", "--json"], &[receipt.as_str(), &there], 0),
        (&["ls", "-lR", "--json"], &[there.as_str()], 0),
    ] {
        let (ran, seen) = secrets.watch(begin(words, more), scratch.root(), &[]);
        secrets.assert_not_said(&ran);
        // Others may be over before anybody looks.
        assert!(seen.contains("thalweg") || !words.contains(&"--bwlimit"), "{seen:?}");
        assert!([" DEBUG ", " TRACE "].iter().any(|level| ran.stderr.contains(level)), "{}", ran.stderr);
        ran.expect(code);
    }
    drop(daemon);
    let log = scratch.server_log();
    assert!(["DEBUG", "TRACE"].iter().any(|level| log.contains(level)), "{log}");
    // No key has another copy, and what is in none of these files is nowhere.
    assert_eq!(key_files(scratch.root()), BTreeSet::from(keys.clone()));
    let belongs = ["from", "data", "back"].map(|name| scratch.path(name));
    secrets.assert_not_below(scratch.root(), &[&keys[..], &belongs].concat());
    // Nor is what cannot be read as a ticket repeated.
    let whole = std::fs::read_to_string(&ticket).unwrap();
    for damaged in [whole.replace("server = ", "identity = "), whole.replace("\n\"\"\"\n", "\n")] {
        std::fs::write(&ticket, damaged).unwrap();
        let (ran, _) = secrets.watch(begin(&["cp"], &[from.as_str(), &there]), scratch.root(), &[]);
        secrets.assert_not_said(&ran);
        assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
        ran.expect(1);
    }
}
