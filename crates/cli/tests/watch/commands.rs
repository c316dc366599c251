//! Commands that fail, outlive their watch, or leave something behind: what succeeded is not run again.

use crate::journal::journal;
use crate::support::chance::in_time;
use crate::support::volume::{self, Volume};
use crate::support::{self, wait_until};
use crate::{Bench, LIMIT, LOG, analysis, ends, keepers, start, terminate};
use std::time::{Duration, Instant};

#[test]
fn an_item_that_always_fails_is_given_up_told_and_tried_again_by_the_next_start() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, &format!("test -e \"$LOG.permit\"\n{LOG}"));
    bench.put("a", b"a");
    bench.put("b", b"b");
    let more = [
        "--idle-exit",
        "300ms",
        "--in-order",
        "name",
        "--attempts",
        "1",
        "--on-arrival",
        script.to_str().unwrap(),
    ];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a: given up"), "{text}");
    assert_eq!(bench.log().len(), 0);
    std::fs::write(bench.scratch.path("log.permit"), "").unwrap();
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), 2), "{text}");
}

#[test]
fn a_program_that_cannot_be_run_is_refused_before_anything_is_looked_at() {
    let bench = Bench::new();
    let plain = bench.scratch.path("plain.sh");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let script = analysis(&bench.scratch, LOG);
    let (plain, with_arguments) = (plain.to_str().unwrap(), format!("{} --gpu 0", script.display()));
    for program in ["./not-there", "not-there-either", plain, &with_arguments] {
        let (code, text) = ends(bench.local(&["--idle-exit", "300ms", "--on-arrival", program]));
        assert_eq!(code, Some(1), "{program}: {text}");
        assert!(text.contains(&format!("`{program}`: ")) && text.contains("after `--`"), "{text}");
    }
}

/// The file is of whoever types commands: who keeps a run reads none.
#[test]
fn a_configuration_that_is_broken_while_a_watch_runs_costs_no_item_its_command() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    bench.put("a", b"a");
    let mut watch = start(bench.local(&["--attempts", "1", "--on-arrival", script.to_str().unwrap()]));
    assert!(wait_until(LIMIT, || bench.log().len() == 1), "the first is analysed");
    let file = bench.scratch.path("config/thalweg/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "strems = 3\n").unwrap();
    bench.put("b", b"b");
    assert!(wait_until(LIMIT, || bench.log().len() == 2), "{:?}", bench.log());
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
}

#[test]
fn what_is_gone_from_the_destination_before_its_command_succeeded_is_copied_again() {
    let bench = Bench::new();
    let body = format!("test -e \"$LOG.permit\"\ngrep -q content \"$THALWEG_ITEM_PATH\"\n{LOG}");
    let script = analysis(&bench.scratch, &body);
    bench.put("deep/a", b"content\n");
    let more = ["--idle-exit", "300ms", "--attempts", "1", "--on-arrival", script.to_str().unwrap()];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(2), "{text}");
    // As on a scratch disk that is purged.
    std::fs::remove_dir_all(&bench.destination).unwrap();
    std::fs::create_dir(&bench.destination).unwrap();
    std::fs::write(bench.scratch.path("log.permit"), "").unwrap();
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
    assert_eq!(std::fs::read(bench.destination.join("deep/a")).unwrap(), b"content\n");
}

#[test]
fn a_file_that_is_corrected_replaces_the_one_for_which_the_command_fails() {
    let bench = Bench::new();
    // What it saw each time, then whether that is good.
    let body = r#"cat "$THALWEG_ITEM_PATH" >> "$LOG.saw"
        if grep -q bad "$THALWEG_ITEM_PATH"; then exit 1; fi"#;
    let body = format!("{body}\n{LOG}");
    let script = analysis(&bench.scratch, &body);
    let saw = || std::fs::read_to_string(bench.scratch.path("log.saw")).unwrap_or_default();
    bench.put("a", b"bad\n");
    bench.put("b", b"b\n");
    let more = ["--idle-exit", "300ms", "--in-order", "name", "--attempts", "20", "--on-arrival"];
    let watch = start(bench.local(&[&more[..], &[script.to_str().unwrap()]].concat()));
    assert!(wait_until(LIMIT, || saw().lines().count() == 2), "{}", saw());
    bench.put("a", b"good\n");
    let ended = support::finish(watch);
    assert_eq!(ended.status.code(), Some(0));
    // One run may have begun before the correction was seen.
    let lines = saw();
    let bad = lines.lines().filter(|line| *line == "bad").count();
    assert!((2..=3).contains(&bad) && lines.ends_with("bad\ngood\nb\n"), "{lines}");
    assert_eq!(bench.log().len(), 2);
}

/// Killed while it is copied, and then it goes: what stands at the destination may be neither version.
#[test]
fn a_correction_that_goes_while_it_replaces_what_arrived_is_not_analysed_and_told_until_it_comes_again() {
    let bench = Bench::new();
    let body = "echo seen >> \"$LOG.saw\"\nif grep -q bad \"$THALWEG_ITEM_PATH\"; then exit 1; fi";
    let script = analysis(&bench.scratch, &format!("{body}\n{LOG}"));
    let saw = || std::fs::read_to_string(bench.scratch.path("log.saw")).unwrap_or_default().lines().count();
    let own = ["--attempts", "1", "--on-arrival", script.to_str().unwrap()];
    let watch = |more: &[&str]| bench.local(&[&own[..], more].concat());
    let idle = ["--idle-exit", "300ms"];
    bench.put("a", b"bad\n");
    let (code, text) = ends(watch(&idle));
    assert_eq!((code, saw()), (Some(2), 1), "{text}");
    // So slow that it is under way when it is killed.
    bench.put("a", &vec![b'x'; 16 << 20]);
    let mut slow = start(watch(&["--bwlimit", "1MB/s"]));
    assert!(wait_until(LIMIT, || journal(&bench).contains("\"Replacing\":\"a\"")), "{}", journal(&bench));
    slow.kill().unwrap();
    slow.wait().unwrap();
    std::fs::remove_file(bench.source.join("a")).unwrap();
    for _ in 0..2 {
        let (code, text) = ends(watch(&[&idle[..], &["--json"]].concat()));
        assert_eq!((code, saw()), (Some(2), 1), "{text}");
        assert!(text.contains(r#""torn":["a"]"#), "{text}");
        assert!(text.contains("error: a: its correction began to replace"), "{text}");
    }
    bench.put("a", b"good\n");
    let (code, text) = ends(watch(&idle));
    assert_eq!((code, saw(), bench.log().len()), (Some(0), 2, 1), "{text}");
    assert_eq!(std::fs::read(bench.destination.join("a")).unwrap(), b"good\n");
}

#[test]
fn a_command_outlives_its_watch_and_its_end_is_found() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!("touch \"$LOG.began\"\nwhile ! test -e \"$LOG.go\"; do sleep 0.05; done\n{LOG}"),
    );
    bench.put("a", b"a");
    let more = ["--on-arrival", script.to_str().unwrap()];
    let mut watch = start(bench.local(&more));
    assert!(wait_until(LIMIT, || bench.scratch.path("log.began").exists()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    // Another watch waits for it, and begins no second one.
    std::fs::remove_file(bench.scratch.path("log.began")).unwrap();
    let mut watch = start(bench.local(&[&more[..], &["--idle-exit", "300ms"]].concat()));
    std::thread::sleep(Duration::from_millis(500));
    assert!(watch.try_wait().unwrap().is_none(), "it waits");
    std::fs::write(bench.scratch.path("log.go"), "").unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    assert_eq!(bench.log().len(), 1);
    assert!(!bench.scratch.path("log.began").exists());
}

#[test]
fn what_a_command_left_behind_holds_up_nothing() {
    let bench = Bench::new();
    let left = bench.scratch.path("left");
    let script = analysis(
        &bench.scratch,
        &format!("{LOG}\nexec 3<&0\nsleep 600 <&3 &\necho $! >> '{}'\nexit 0", left.display()),
    );
    bench.put("a", b"a");
    bench.put("b", b"b");
    let begun = Instant::now();
    let more = ["--idle-exit", "300ms", "--in-order", "name", "--on-arrival", script.to_str().unwrap()];
    let ended = start(bench.local(&more));
    let ended = support::finish(ended);
    let took = begun.elapsed();
    let pids: Vec<i32> =
        std::fs::read_to_string(&left).unwrap().lines().map(|pid| pid.parse().unwrap()).collect();
    for pid in &pids {
        let pid = nix::unistd::Pid::from_raw(*pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    assert_eq!((ended.status.code(), bench.log().len(), pids.len()), (Some(0), 2, 2));
    assert!(in_time("two runs that leave something behind", took, Duration::from_secs(5)));
}

#[test]
fn a_command_that_succeeds_while_the_disk_of_the_state_is_full_is_not_run_again() {
    if !volume::can_mount("watch full state") {
        return;
    }
    let bench = Bench::new();
    let volume = Volume::in_memory(bench.scratch.root(), "state", "size=4m");
    let body = format!("touch \"$LOG.began\"\nwhile ! test -e \"$LOG.go\"; do sleep 0.05; done\n{LOG}");
    let script = analysis(&bench.scratch, &body);
    bench.put("a", b"a");
    let local = |more: &[&str]| {
        let mut command = bench.local(&[&["--on-arrival", script.to_str().unwrap()], more].concat());
        command.env("THALWEG_STATE", &volume.path);
        command
    };
    let mut watch = start(local(&[]));
    assert!(wait_until(LIMIT, || bench.scratch.path("log.began").exists()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let ballast = volume.path.join("ballast");
    assert!(std::fs::write(&ballast, vec![1; 8 << 20]).is_err(), "it is full");
    std::fs::write(bench.scratch.path("log.go"), "").unwrap();
    assert!(wait_until(LIMIT, || keepers(&volume.path).is_empty()), "the command has ended");
    std::fs::remove_file(&ballast).unwrap();
    let (code, text) = ends(local(&["--idle-exit", "300ms"]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
}

#[test]
fn a_command_that_succeeded_is_not_run_again_though_its_lock_cannot_be_opened() {
    let bench = Bench::new();
    let body = r#"for lock in "$(dirname "$THALWEG_ITEM_RECEIPT")"/../runs/*.lock; do
            rm "$lock"; mkdir "$lock"
        done"#;
    let script = analysis(&bench.scratch, &format!("{LOG}\n{body}"));
    bench.put("a", b"a");
    let (code, text) = ends(bench.local(&["--idle-exit", "300ms", "--on-arrival", script.to_str().unwrap()]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
}
