//! What a signal asks of a daemon that runs: to read its exports anew, or to end with its terminal.

use super::support::job::{Running, signal};
use super::support::{Scratch, noise, wait_until};
use nix::sys::signal::Signal;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use thalweg_lab::wrap::wrap;

/// At each signal the daemon's file is read anew. What is under way to an export that is gone by then goes on.
#[test]
fn at_sighup_a_daemon_reads_its_exports_anew_and_serves_on() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("file"), noise(1, 8 << 20)).unwrap();
    let file = scratch.path("config.toml").display().to_string();
    let configure = |exports: &[(&str, &str)], more: &str| {
        let of = |(name, at): &(&str, &str)| format!("\"{name}={}\"", scratch.path(at).display());
        let exports: Vec<String> = exports.iter().map(of).collect();
        std::fs::write(&file, format!("[serve]\nexport = [{}]\n{more}", exports.join(", "))).unwrap();
    };
    configure(&[("old", "a"), ("kept", "a")], "");
    let more = ["--config", file.as_str(), "--log-format", "json"];
    let mut daemon = scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    let server = format!("tw://{}", daemon.address());
    let ticket = daemon.ticket.display().to_string();
    let exports = || {
        let listed = scratch.ok(["ls", "--ticket", &ticket, &server]);
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let told = |word: &str| -> Vec<serde_json::Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        told.filter(|line| line["message"].as_str().is_some_and(|text| text.contains(word))).collect()
    };
    // What it says of the reading that this signal asks for.
    let reload = || {
        let before = told("exports").len();
        signal(daemon.pid(), Signal::SIGHUP);
        assert!(wait_until(LIMIT, || told("exports").len() > before), "{}", scratch.server_log());
        told("exports").pop().unwrap()
    };
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "4MB/s", "--ticket", &ticket, "file"]).arg(daemon.place("old", "there"));
    copy.current_dir(scratch.root());
    let copy = Running::start(copy);
    let is_under_way = || std::fs::read_dir(scratch.path("a")).unwrap().next().is_some();
    assert!(wait_until(LIMIT, is_under_way));

    let line = reload();
    assert_eq!(line["message"], "the exports are read anew, and are as they were", "{line}");
    configure(&[("kept", "b"), ("new", "b")], "patience = \"5min\"\nmetrics = \"127.0.0.1:0\"\n");
    let line = reload();
    assert_eq!((&line["added"], &line["removed"]), (&"new".into(), &"old".into()), "{line}");
    assert_eq!(line["changed"], "kept", "{line}");
    assert_eq!(exports(), ["kept/", "new/"]);
    // What a reading cannot change is said.
    assert_eq!(told("started anew")[0]["options"], "patience, metrics");
    let ran = copy.end(Duration::from_secs(120));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(std::fs::read(scratch.path("a/there")).unwrap() == noise(1, 8 << 20));
    let refused = scratch.run(["ls", "--ticket", &ticket, &daemon.place("old", "")]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");

    // All of it, or nothing: of a file that makes no sense, and of a directory that is not there.
    for bad in [&[("new", "b"), ("kept", "missing")][..], &[]] {
        configure(bad, "");
        let line = reload();
        assert_eq!((&line["level"], line["failure"].is_string()), (&"ERROR".into(), true), "{line}");
        assert_eq!(exports(), ["kept/", "new/"]);
    }
    assert!(daemon.is_alive());
    assert_eq!(daemon.terminate().code(), Some(0));
}

/// Whoever asked for it is to hear that it did not come about, also where nobody asked for a log.
#[test]
fn a_reload_that_fails_is_told_without_a_log_too() {
    let scratch = Scratch::new();
    let file = scratch.path("config.toml");
    let export = format!("[serve]\nexport = [\"data={}\"]\n", scratch.root().display());
    std::fs::write(&file, export).unwrap();
    let more = ["--config", file.to_str().unwrap()];
    let daemon = scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    assert!(!scratch.server_log().contains("error: "), "{}", scratch.server_log());
    std::fs::write(&file, "[serve]\nexport = [\"data=/not/there\"]\n").unwrap();
    signal(daemon.pid(), Signal::SIGHUP);
    let is_told = || scratch.server_log().contains("error: ");
    assert!(wait_until(Duration::from_secs(60), is_told), "{}", scratch.server_log());
}

/// Of a daemon that somebody started by hand nothing is left when the terminal is closed, wherever it writes.
#[test]
fn a_daemon_whose_terminal_is_gone_ends_in_order() {
    for has_log in [false, true] {
        let scratch = Scratch::new();
        let ends = nix::pty::openpty(None, None).expect("a pseudo-terminal");
        let path = std::fs::read_link(format!("/proc/self/fd/{}", ends.slave.as_raw_fd())).unwrap();
        // What is cloned here is closed in the daemon.
        let terminal = ends.master.try_clone().unwrap();
        drop(ends.master);
        let mut daemon = scratch.thalweg();
        daemon.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(scratch.path("far"));
        daemon.arg("--export").arg(format!("data={}", scratch.root().display()));
        daemon.arg("--ticket-file").arg(scratch.path("ticket"));
        // Who leads a session and has no terminal gets the first one that it opens.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" < \"$TERMINAL\"", "sh"]).env("TERMINAL", path);
        let mut command = wrap(shell, &daemon);
        let log = std::fs::File::create(scratch.path("log")).unwrap();
        let stderr = if has_log { Stdio::from(log) } else { Stdio::from(ends.slave) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut daemon = thalweg_sys::child::in_own_session(&mut command).spawn().unwrap();
        assert!(wait_until(Duration::from_secs(60), || scratch.path("ticket").exists()));
        drop(terminal);
        // A program that another test began just then may have the terminal for as long as it runs.
        let has_ended = wait_until(Duration::from_secs(60), || {
            signal(daemon.id(), Signal::SIGHUP);
            daemon.try_wait().unwrap().is_some()
        });
        let _ = daemon.kill();
        assert_eq!((has_ended, daemon.wait().unwrap().code()), (true, Some(0)), "log: {has_log}");
    }
}
