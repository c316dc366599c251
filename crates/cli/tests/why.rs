//! `thalweg why`: bottlenecks that were made on purpose are named, live and after the end. The long form, with disks,
//! CPU quotas and factors, is `cargo xtask bottlenecks`.

mod support;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::job::{Running, signal};
use support::nets::Cable;
use support::testbed::Testbed;
use support::{Daemon, Scratch, chance, finish, noise, wait_until};
use thalweg_lab::wrap::wrap;

fn why(scratch: &Scratch, more: &[&str]) -> Value {
    let words: Vec<&str> = ["why", "--json"].iter().chain(more).copied().collect();
    serde_json::from_str(scratch.ok(words).lines().last().expect("an answer")).expect("JSON")
}

fn state_of(scratch: &Scratch, id: &str) -> Option<String> {
    let out = scratch.run(["why", "--json", id]);
    let value: Value = serde_json::from_slice(&out.stdout).ok()?;
    Some(value["state"].as_str()?.to_owned())
}

#[test]
fn without_transfers_why_says_so_with_exit_3() {
    let scratch = Scratch::new();
    let out = scratch.run(["why"]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no transfer"), "{out:?}");
    let out = scratch.run(["why", "no-such-file"]);
    assert_eq!(out.status.code(), Some(3));
    // Where a state directory was named it is not asked for, and goes into the command that is proposed.
    let state = scratch.path("served").display().to_string();
    let told = |words: &[&str]| {
        let out = scratch.run(words);
        assert_eq!(out.status.code(), Some(3), "{out:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    for words in [&["why", "--state", &state][..], &["why", "--list", "--state", &state]] {
        let text = told(words);
        assert!(text.contains(&format!("of whoever has `{state}` as state directory")), "{text}");
        assert!(!text.contains("this user") && !text.contains("--state DIR"), "{text}");
    }
    let text = told(&["why", "--state", &state, "999999"]);
    assert!(text.contains(&format!("`thalweg why --list --state {state}` shows those known")), "{text}");
    std::fs::write(scratch.path("events"), "{\"event\":\"progress\"}\n").unwrap();
    let out = scratch.run(["why".into(), scratch.path("events")]);
    assert_eq!(out.status.code(), Some(3));
}

/// The second time everything is there: no stage has a rate, and none is said to be used up at zero.
#[test]
fn a_copy_that_moved_nothing_is_said_to_have_moved_nothing() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 1 << 20)).unwrap();
    let copy = || drop(scratch.ok(["cp".into(), scratch.path("file"), scratch.path("to")]));
    copy();
    assert!(!scratch.ok(["why"]).contains("no content"));
    copy();
    let said = scratch.ok(["why", "-v"]);
    assert!(said.starts_with("no content was moved: 1 entry settled in "), "{said}");
    assert!(said.contains("% busy)") && !said.contains("kbit/s") && said.contains("CPU s"), "{said}");
    // Programs are told the same.
    let events = scratch.ok(["cp".into(), "--json".into(), scratch.path("file"), scratch.path("to")]);
    let finished: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let sentence = finished["sentence"].as_str().unwrap();
    assert!(!sentence.contains("kbit/s"), "{sentence}");
    assert_eq!(scratch.ok(["why"]).lines().next(), Some(sentence));
}

/// What a stage has in flight is its own; one that computes has no queue, and none is told as empty.
#[test]
fn queues_are_told_of_stages_that_have_one_and_of_no_other() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 48 << 20)).unwrap();
    let [file, to] = ["file", "to"].map(|name| scratch.path(name).display().to_string());
    let direct = ["--direct", "destination=on", "--io-depth", "3", "--streams", "2", "--request", "1MiB"];
    let told = scratch.ok([&["cp", "--json"], &direct[..], &[file.as_str(), to.as_str()]].concat());
    let answer = why(&scratch, &[]);
    let queue = |stage: &str| {
        let rows = answer["stages"].as_array().unwrap();
        let row =
            rows.iter().find(|row| row["stage"] == stage).unwrap_or_else(|| panic!("{stage}: {answer}"));
        row["queue_max"].clone()
    };
    assert_eq!(queue("digest"), Value::Null, "{answer}");
    match told.contains("--direct destination=on: ") {
        true => assert_eq!(queue("write"), Value::Null, "{answer}"),
        // Three for each of two streams.
        false => assert!((1..=6).contains(&queue("write").as_u64().unwrap()), "{answer}"),
    }
    assert!(queue("sync").as_u64().unwrap() >= 1, "{answer}");
    assert!(scratch.ok(["why", "-v"]).contains('–'));
}

#[test]
fn a_rate_limit_is_named_live_and_after_the_end_on_both_sides() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 24 << 20)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("to"))]);
    let events = scratch.path("events");
    let copy = scratch
        .thalweg()
        .args(["cp", "--json", "--bwlimit", "3MB/s", "--ticket"])
        .arg(&daemon.ticket)
        .arg(scratch.path("file"))
        .arg(daemon.place("data", "file"))
        .stdout(std::fs::File::create(&events).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = copy.id().to_string();
    let is_running = || state_of(&scratch, &pid).is_some_and(|state| state == "running");
    assert!(wait_until(Duration::from_secs(60), is_running));
    let out = finish(copy);
    assert!(out.status.success(), "{out:?}");

    let after = why(&scratch, &[]);
    assert_eq!(after["event"], "why");
    assert_eq!(after["state"], "finished");
    assert_eq!(after["pid"].to_string(), pid);
    assert_eq!(after["narrowest"]["cause"], "rate-limit", "{after}");
    assert!(after["knob"].as_str().unwrap().contains("--bwlimit"));
    assert!(after["factor"].as_f64().unwrap() > 1.0);
    for side in ["sender", "receiver"] {
        assert!(after["evidence"][side]["stages"].as_array().is_some_and(|rows| !rows.is_empty()), "{side}");
        assert!(after["evidence"][side]["process"]["user_nanos"].as_u64() > Some(0), "{side}");
    }
    assert!(after["evidence"]["sender"]["streams"][0]["acked_bytes"].as_u64() > Some(0));

    // The events of the copy give the same answer.
    let text = std::fs::read_to_string(&events).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(last["narrowest"], after["narrowest"]);
    let told = why(&scratch, &[events.to_str().unwrap()]);
    assert_eq!(told["sentence"], after["sentence"]);

    // So does the daemon's side.
    let served = scratch.path("server-state");
    let at_server = || why(&scratch, &["--state", served.to_str().unwrap()]);
    assert!(wait_until(Duration::from_secs(60), || at_server()["state"] == "finished"));
    let at_server = at_server();
    assert_eq!(at_server["served"], true);
    assert_eq!(at_server["narrowest"]["cause"], "rate-limit", "{at_server}");

    // In words: the sentence first, a drawing that is plain where there is no terminal, tables on request.
    let words = scratch.ok(["why", "-vv"]);
    assert!(words.starts_with("the rate limit: "), "{words}");
    assert!(words.contains(" #") && words.contains("<") && words.contains("cause rate-limit"), "{words}");
    assert!(words.contains("stream 0: ") && !words.contains('\x1b'), "{words}");
    let quiet = scratch.ok(["why", "-q"]);
    assert_eq!(quiet.lines().count(), 1);
    let listed = scratch.ok(["why", "--list"]);
    assert_eq!(listed.lines().count(), 1);
    assert!(listed.contains("  24.00 MiB of 24.00 MiB  "), "{listed}");
    // Who asks for all that a daemon serves hears of each how far it is, and where its client is.
    let served = served.display().to_string();
    let listed = scratch.ok(["why", "--list", "--state", &served]);
    assert!(listed.contains(", client at 127.0.0.1:") && listed.contains(" of 24.00 MiB  "), "{listed}");
    let listed = scratch.ok(["why", "--list", "--json", "--state", &served]);
    let told: Value = serde_json::from_str(listed.trim_end()).expect("one object");
    assert_eq!((&told["event"], &told["served"]), (&"transfer".into(), &true.into()), "{told}");
    assert!(told["address"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{told}");
    let number = |field: &str| told[field].as_f64().unwrap_or(0.0);
    let whole = f64::from(24 << 20);
    assert_eq!((number("bytes_settled"), number("bytes_found")), (whole, whole), "{told}");
    assert!(told["scan_over"] == true && number("bytes") >= whole, "{told}");
    assert!(number("seconds") > 0.0 && number("bytes_per_s") > 0.0, "{told}");
}

/// A scratch directory with 12 MiB in `file`, and an empty `to`.
fn with_file() -> Scratch {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 12 << 20)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    scratch
}

/// Copies `file` into the export `data` of a daemon that may move 3 MB/s, and back. Each time both sides name that
/// limit; `look` gets what each told, the limit in it, and where that is.
fn both_name_the_limit(scratch: &Scratch, daemon: &Daemon, look: impl Fn(&Value, &Value, &str)) {
    let path = |name: &str| scratch.path(name).display().to_string();
    let (ticket, file, back, served) = (path("ticket"), path("file"), path("back"), path("server-state"));
    let there = daemon.place("data", "file");
    let at_server = || why(scratch, &["--state", &served]);
    for (from, to, place, side) in
        [(&file, &there, "destination", "receiver"), (&there, &back, "source", "sender")]
    {
        scratch.ok(["cp", "-q", "--ticket", &ticket, from, to]);
        assert!(wait_until(Duration::from_secs(60), || at_server()["state"] == "finished"));
        for told in [why(scratch, &[]), at_server()] {
            let narrowest = (&told["narrowest"]["cause"], &told["narrowest"]["place"]);
            assert_eq!(narrowest, (&"operator-limit".into(), &place.into()), "{told}");
            let limit = &told["evidence"][side]["limit"];
            assert_eq!(limit["bytes_per_s"], 3_000_000, "{told}");
            look(&told, limit, place);
        }
    }
    assert!(std::fs::read(scratch.path("back")).unwrap() == noise(1, 12 << 20));
}

/// Its operator has it move 3 MB/s: what is sent to it, and what it sends.
#[test]
fn the_limit_of_a_daemon_is_named_on_both_sides_with_who_set_it() {
    let scratch = with_file();
    let daemon = scratch.daemon_with(&[("data", &scratch.path("to"))], &["--bwlimit", "3MB/s"]);
    both_name_the_limit(&scratch, &daemon, |told, limit, place| {
        let words = format!(
            "the limit at the {place}: the operator of {} limits all that it moves to 24.0 Mbit/s, of which ",
            limit["machine"].as_str().unwrap()
        );
        assert!(told["sentence"].as_str().unwrap().starts_with(&words), "{told}");
        assert!(told["knob"].as_str().unwrap().contains("`thalweg serve`"), "{told}");
    });
    let served = scratch.path("server-state").display().to_string();
    let listed = scratch.ok(["why", "--list", "--state", &served]);
    assert!(listed.lines().all(|line| line.contains(", of at most 24.0")), "{listed}");
    let listed = scratch.ok(["why", "--list", "--json", "--state", &served]);
    let told: Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!(told["limit_bits_per_s"].as_f64(), Some(24e6), "{told}");
}

#[test]
fn the_limit_of_an_export_is_named_on_both_sides_and_is_no_other_ones() {
    let scratch = with_file();
    let to = scratch.path("to").display().to_string();
    let limited = format!("{to}:bwlimit=3MB/s");
    let daemon = scratch.daemon_with(&[("data", limited.as_ref()), ("other", to.as_ref())], &[]);
    both_name_the_limit(&scratch, &daemon, |told, limit, _| {
        assert_eq!(limit["export"], "data", "{told}");
        let sentence = told["sentence"].as_str().unwrap();
        assert!(sentence.contains("limits all that its export `data` moves to 24.0 Mbit/s"), "{told}");
        assert!(told["knob"].as_str().unwrap().contains("bwlimit of the export"), "{told}");
    });
    let [ticket, file] = ["ticket", "file"].map(|name| scratch.path(name).display().to_string());
    let free = daemon.place("other", "free");
    scratch.ok(["cp", "-q", "--ticket", &ticket, &file, &free]);
    let told = why(&scratch, &[]);
    assert!(told["evidence"]["receiver"]["limit"].is_null(), "{told}");
}

/// At 8 kbit/s the copy would take hours.
#[test]
fn the_limit_of_a_daemon_is_changed_while_it_serves() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 8 << 20)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let file = scratch.path("config.toml").display().to_string();
    let configure = |more: &str| {
        let export = format!("[serve]\nexport = [\"data={}\"]\n", scratch.path("to").display());
        std::fs::write(&file, export + more).unwrap();
    };
    configure("bwlimit = \"8kbit/s\"\n");
    let more = ["--config", file.as_str(), "--log-format", "json"];
    let daemon = scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    let served = scratch.path("server-state").display().to_string();
    let copies = |name: &str| {
        let mut copy = scratch.thalweg();
        copy.args(["cp", "--ticket"]).arg(&daemon.ticket).arg("file").arg(daemon.place("data", name));
        copy.current_dir(scratch.root());
        let copy = Running::start(copy);
        let is_told = || {
            let listed = scratch.run(["why", "--list", "--json", "--state", &served]);
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            listed.lines().any(|line| line.contains("\"running\"") && line.contains(name))
        };
        assert!(wait_until(LIMIT, is_told), "{}", scratch.server_log());
        copy
    };
    let copy = copies("first");
    let pid = daemon.pid().to_string();
    let told = scratch.ok(["limit", "--state", &served, &pid, "none"]);
    assert_eq!(told.trim_end(), format!("{pid}: no limit"));
    let ran = copy.end(LIMIT);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // Who means all copies does not mean a daemon.
    let nobody = scratch.run(["limit", "--state", &served, "8kbit/s"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    scratch.ok(["limit", "--state", &served, &pid, "8kbit/s"]);
    let copy = copies("second");
    // What is configured holds from a reload on.
    configure("");
    signal(daemon.pid(), Signal::SIGHUP);
    let ran = copy.end(LIMIT);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(scratch.server_log().contains("the limit of all sessions together is another"));
    for name in ["to/first", "to/second"] {
        assert!(std::fs::read(scratch.path(name)).unwrap() == noise(1, 8 << 20), "{name}");
    }
}

#[test]
fn a_daemon_with_slots_has_no_limit_that_would_break_them() {
    let scratch = Scratch::new();
    let export = format!("data={}", scratch.root().display());
    let served = scratch.path("served").display().to_string();
    let words = ["serve", "--listen", "127.0.0.1:0", "--state", &served, "--export", &export];
    let out = scratch.run(words.iter().chain(&["--slots", "1Gbit/s", "--bwlimit", "500Mbit/s"]));
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("--slots promises"), "{out:?}");
}

#[test]
fn a_reload_gives_a_daemon_no_limit_where_slots_are_promised_and_takes_none_away_where_they_will_be() {
    const LIMIT: Duration = Duration::from_secs(60);
    const AS_THEY_WERE: &str = "the exports are read anew, and are as they were";
    const REFUSED: &str = "the exports stay as they were";
    let scratch = Scratch::new();
    let file = scratch.path("config.toml").display().to_string();
    let configure = |more: &str| {
        let export = format!("[serve]\nexport = [\"data={}:ro\"]\n", scratch.root().display());
        std::fs::write(&file, export + more).unwrap();
    };
    let more = ["--config", file.as_str(), "--log-format", "json"];
    let start = || scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    let said = |words: &str| scratch.server_log().matches(words).count();
    let reload = |daemon: &Daemon, more: &str, words: &str| {
        let before = said(words);
        configure(more);
        signal(daemon.pid(), Signal::SIGHUP);
        assert!(wait_until(LIMIT, || said(words) > before), "{}", scratch.server_log());
    };
    let changed = || said("the limit of all sessions together is another");

    configure("slots = \"1Gbit/s\"\n");
    let daemon = start();
    reload(&daemon, "bwlimit = \"8kbit/s\"\n", REFUSED);
    assert!(scratch.server_log().contains("--slots promises"), "{}", scratch.server_log());
    // Without both it goes on as it is until it is started anew.
    reload(&daemon, "", AS_THEY_WERE);
    assert_eq!(changed(), 0);
    drop(daemon);

    configure("bwlimit = \"8kbit/s\"\n");
    let daemon = start();
    reload(&daemon, "slots = \"1Gbit/s\"\n", AS_THEY_WERE);
    assert_eq!(changed(), 0, "there are no slots yet, and the limit stays");
    reload(&daemon, "slots = \"1Gbit/s\"\nbwlimit = \"8kbit/s\"\n", REFUSED);
    reload(&daemon, "", AS_THEY_WERE);
    assert_eq!(changed(), 1);
}

/// What `why` prints on a terminal of so many columns, its lines without their ends.
fn on_a_terminal(scratch: &Scratch, columns: u16, environment: &[(&str, &str)]) -> Vec<String> {
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let ends = openpty(&size, None).expect("a pseudo-terminal");
    let mut command = scratch.thalweg();
    // Whatever the terminal is that the test itself runs on.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").envs(environment.iter().copied());
    let child = command.arg("why").stdout(ends.slave).stderr(Stdio::piped()).spawn().unwrap();
    // And with it our hold on the end that is written to: reading ends, with an error, when the program has ended.
    drop(command);
    let mut said = Vec::new();
    let _ = std::fs::File::from(ends.master).read_to_end(&mut said);
    let out = finish(child);
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(said).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_basin_is_drawn_in_colour_on_a_terminal_and_nowhere_else() {
    const RED: &str = "\x1b[31m";
    const CYAN: &str = "\x1b[36m";
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 8 << 20)).unwrap();
    scratch.ok(["cp".into(), scratch.path("file"), scratch.path("to")]);

    let plain = scratch.ok(["why"]);
    let bars = plain.lines().filter(|line| line.contains(" #")).count();
    assert!(bars > 2 && !plain.contains('\x1b') && !plain.contains('█'), "{plain}");

    let coloured = on_a_terminal(&scratch, 100, &[]);
    let drawn: Vec<&String> = coloured.iter().filter(|line| line.contains('█')).collect();
    assert_eq!(drawn.len(), bars, "{coloured:?}");
    for line in &drawn {
        let is_narrowest = line.contains('◀');
        assert_eq!((line.contains(RED), line.contains(CYAN)), (is_narrowest, !is_narrowest), "{line:?}");
        assert!(line.contains("\x1b[0m"), "the colour ends with its bar: {line:?}");
    }
    assert_eq!(drawn.iter().filter(|line| line.contains(RED)).count(), 1, "{coloured:?}");

    for without in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let said = on_a_terminal(&scratch, 100, &[without]);
        assert_eq!(said.iter().filter(|line| line.contains('█')).count(), bars, "{without:?} {said:?}");
        assert!(!said.concat().contains('\x1b'), "{without:?} {said:?}");
    }

    // As wide as there is room, and no wider.
    let widest = [60, 100, 160].map(|columns| {
        let said = on_a_terminal(&scratch, columns, &[("NO_COLOR", "1")]);
        let widths = said.iter().filter(|line| line.contains('█')).map(|line| line.chars().count());
        let widest = widths.max().unwrap();
        assert!(widest <= usize::from(columns), "{columns}: {said:?}");
        widest
    });
    assert!(widest.is_sorted_by(|a, b| a < b), "{widest:?}");
}

#[test]
fn a_copy_that_was_killed_is_gone_and_its_last_word_stays() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 24 << 20)).unwrap();
    let mut copy = scratch
        .thalweg()
        .args(["cp", "-q", "--bwlimit", "2MB/s"])
        .args([scratch.path("file"), scratch.path("to")])
        .spawn()
        .unwrap();
    let pid = copy.id().to_string();
    let is_running = || state_of(&scratch, &pid).is_some_and(|state| state == "running");
    assert!(wait_until(Duration::from_secs(60), is_running));
    copy.kill().unwrap();
    copy.wait().unwrap();
    let gone = why(&scratch, &[&pid]);
    assert_eq!(gone["state"], "gone");
    assert_eq!(gone["narrowest"]["cause"], "rate-limit", "{gone}");
}

/// A pipe through a daemon, held back by a limit, and a producer that takes its time: both are asked about while they
/// run.
#[test]
fn a_stream_is_explained_while_it_runs() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("to"))]);
    for (name, limit, cause) in [("limited", "2MB/s", "rate-limit"), ("waits", "1Gbit/s", "producer")] {
        let mut stream = scratch
            .thalweg()
            .args(["stream", "-q", "--bwlimit", limit, "--ticket"])
            .arg(&daemon.ticket)
            .args(["-", &daemon.place("data", name)])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = stream.stdin.take().unwrap();
        let producer = std::thread::spawn(move || {
            for number in 0..40 {
                if std::io::Write::write_all(&mut pipe, &noise(number, 512 << 10)).is_err() {
                    return;
                }
                if limit == "1Gbit/s" {
                    std::thread::sleep(Duration::from_millis(150));
                }
            }
        });
        let pid = stream.id().to_string();
        let mut last = Value::Null;
        let is_named = wait_until(Duration::from_secs(60), || {
            let out = scratch.run(["why", "--json", &pid]);
            last = serde_json::from_slice(&out.stdout).unwrap_or_default();
            last["state"] == "running" && last["narrowest"]["cause"] == cause
        });
        producer.join().unwrap();
        let out = finish(stream);
        assert!(out.status.success(), "{out:?}");
        assert!(is_named, "{name}: {last}");
        // Over all of it another stage may have been the narrowest, on a machine that is busy with other things.
        assert_eq!(why(&scratch, &[&pid])["state"], "finished");
    }
}

/// Which way a copy goes.
#[derive(PartialEq)]
enum Way {
    Push,
    Pull,
}

/// Copies `from` to `to`, one of them a daemon's, and asks why. Programs may be put around the client and the daemon.
fn copy(
    scratch: &Scratch,
    way: &Way,
    listen: &str,
    around_client: &dyn Fn(Command) -> Command,
    around_daemon: &dyn Fn(Command) -> Command,
) -> Value {
    std::fs::create_dir_all(scratch.path("to")).unwrap();
    let daemon = scratch.daemon_at(listen, &[("data", scratch.root())], &[], around_daemon);
    let address = if listen.ends_with(":0") { daemon.address() } else { listen.to_owned() };
    let mut copy = scratch.thalweg();
    copy.args(["cp", "-q", "--ticket"]).arg(&daemon.ticket);
    match way {
        Way::Push => copy.arg(scratch.path("from/")).arg(format!("tw://{address}/data/to/")),
        Way::Pull => copy.arg(format!("tw://{address}/data/from/")).arg(scratch.path("to/")),
    };
    let mut copy = around_client(copy);
    let out = finish(copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    why(scratch, &[])
}

#[test]
fn a_thin_link_is_named() {
    let Some(cable) = Cable::new("a thin link") else { return };
    cable.limit("100mbit");
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 24 << 20)).unwrap();
    let listen = format!("{}:8487", Cable::ADDRESS_B);
    let answer = copy(&scratch, &Way::Push, &listen, &|c| cable.enter_a(&c), &|c| cable.enter_b(&c));
    assert_eq!(answer["narrowest"]["place"], "path", "{}", answer["sentence"]);
    assert_eq!(answer["narrowest"]["cause"], "link", "{}", answer["sentence"]);
    let rate = answer["narrowest"]["bytes_per_s"].as_f64().unwrap() * 8.0;
    assert!((80e6..130e6).contains(&rate), "{rate}");
}

/// What streams wait for the path is neither work of the CPU that seals their frames, nor time that the pipe took.
#[test]
fn a_thin_link_of_a_stream_is_named() {
    let Some(cable) = Cable::new("a thin link of a stream") else { return };
    cable.limit("100mbit");
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let listen = format!("{}:8487", Cable::ADDRESS_B);
    let to = scratch.path("to");
    let daemon = scratch.daemon_at(&listen, &[("data", &to)], &[], |command| cable.enter_b(&command));
    let mut stream = scratch.thalweg();
    stream.args(["stream", "-q", "--ticket"]).arg(&daemon.ticket);
    stream.arg("-").arg(format!("tw://{listen}/data/file"));
    let mut stream = cable.enter_a(&stream);
    let mut stream = stream.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = stream.stdin.take().unwrap();
    let producer = std::thread::spawn(move || {
        // The stream may fail, which is told below.
        let _ = std::io::Write::write_all(&mut pipe, &noise(1, 48 << 20));
    });
    let out = finish(stream);
    producer.join().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer = why(&scratch, &[]);
    assert_eq!(answer["narrowest"]["place"], "path", "{}", answer["sentence"]);
}

/// The copy overflows the queue in front of the line itself; nothing is lost on the way.
#[test]
fn a_full_link_far_away_is_not_called_lossy_for_what_its_queue_loses() {
    let options = ["--rtt", "60ms", "--rate", "200Mbit/s"];
    let Some(testbed) = Testbed::up_bare("a full link far away", &options) else { return };
    let scratch = &testbed.scratch;
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 48 << 20)).unwrap();
    let enter = |command: Command| testbed.enter("right", &command);
    let _daemon = scratch.daemon_at("right:8487", &[("data", &scratch.path("to"))], &[], enter);
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for control in ["cubic", "bbr"] {
        if !known.split_whitespace().any(|name| name == control) {
            chance::skipped("a full link far away", &format!("the kernel has no {control}"));
            continue;
        }
        let mut copy = scratch.thalweg();
        copy.args(["cp", "-q", "--no-profile", "--streams", "2", "--cca", control, "--ticket"]);
        copy.arg(scratch.path("ticket")).arg(scratch.path("file"));
        copy.arg(format!("tw://right:8487/data/{control}"));
        let mut copy = testbed.enter("left", &copy);
        let out = finish(copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let answer = why(scratch, &[]);
        let narrowest = &answer["narrowest"];
        let said = (narrowest["place"].as_str(), narrowest["cause"].as_str());
        assert_eq!(said, (Some("path"), Some("link")), "{control}: {answer}");
    }
}

/// A copy whose client is under strace, which delays some system calls. (Not the daemon: strace leaves what it traces
/// behind when it is killed.)
fn delayed(scratch: &Scratch, way: &Way, calls: &str, micros: u32) -> Value {
    delayed_with(scratch, way, &[], calls, micros)
}

/// The same with these options.
fn delayed_with(scratch: &Scratch, way: &Way, options: &[&str], calls: &str, micros: u32) -> Value {
    let around = |mut command: Command| {
        command.args(options);
        let mut traced = Command::new("strace");
        traced.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e"]);
        traced.arg(format!("trace={calls}")).arg("-e");
        traced.arg(format!("inject={calls}:delay_exit={micros}"));
        wrap(traced, &command)
    };
    copy(scratch, way, "127.0.0.1:0", &around, &|command| command)
}

fn can_delay(row: &str) -> bool {
    let can = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let can = can.is_ok_and(|out| out.status.success());
    if !can {
        chance::skipped(row, "no strace, or no right to trace");
    }
    can
}

#[test]
fn slow_reads_at_the_source_and_slow_writes_at_the_destination_are_named() {
    if !can_delay("slow disks") {
        return;
    }
    for (way, calls, cause, place) in [
        (Way::Push, "pread64", "source-disk", "source"),
        (Way::Pull, "pwrite64", "destination-disk", "destination"),
    ] {
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.path("from")).unwrap();
        // Small enough to be written through the page cache: writes of an io_uring cannot be delayed.
        std::fs::write(scratch.path("from/file"), noise(1, 15 << 20)).unwrap();
        let answer = delayed(&scratch, &way, calls, 250_000);
        assert_eq!(answer["narrowest"]["cause"], cause, "{}", answer["sentence"]);
        assert_eq!(answer["narrowest"]["place"], place);
    }
}

#[test]
fn slow_names_of_small_files_are_named() {
    if !can_delay("slow names") {
        return;
    }
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..400u64 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 500)).unwrap();
    }
    let answer = delayed(&scratch, &Way::Pull, "renameat2", 20_000);
    assert_eq!(answer["narrowest"]["cause"], "names", "{}", answer["sentence"]);
    assert!(answer["sentence"].as_str().unwrap().contains("entries/s"));
}

/// Several threads read them back at once, each of which waits.
#[test]
fn reading_small_files_back_from_a_slow_disk_is_named() {
    if !can_delay("slow reading back") {
        return;
    }
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..400u64 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 500)).unwrap();
    }
    let answer = delayed_with(&scratch, &Way::Pull, &["--verify", "readback"], "pread64", 40_000);
    assert_eq!(answer["narrowest"]["cause"], "destination-disk", "{}", answer["sentence"]);
    assert_eq!(answer["narrowest"]["stage"], "read back", "{}", answer["sentence"]);
    let read_back = u64::from(thalweg_mover::stage::Stage::ReadBack as u8);
    let stages = answer["evidence"]["receiver"]["stages"].as_array().unwrap();
    let row = stages.iter().find(|row| row["stage"].as_u64() == Some(read_back)).expect("its account");
    assert!(row["threads"].as_u64() > Some(1), "{answer}");
}
