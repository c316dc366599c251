//! Copies and daemons that are asked to stop: row C-4 of docs/faults.md.

use crate::support::chance::in_time;
use crate::support::copies::{LIMIT, local_copy, make_source, push};
use crate::support::job::{Running, Strace, bytes_written, signal, wait_for_handler, with};
use crate::support::peer::{HostileClient, SOON, directory};
use crate::support::{Daemon, Scratch, assert_no_litter, assert_same, finish, noise, wait_until};
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_wire::message::{Message, ScanTotals, TransferMessage as T};

/// C-4: asked to stop, a copy ends at once, in order, and goes on where it was; so does one that is asked twice.
#[test]
fn c4_a_local_copy_that_is_asked_to_stop_does_not_go_through_all_of_it_first() {
    let scratch = Scratch::new();
    let copy = scratch.thalweg().args(["cp", "-q", "zero:1TiB", "null:"]).spawn().unwrap();
    wait_for_handler(copy.id(), nix::sys::signal::Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(500));
    signal(copy.id(), nix::sys::signal::Signal::SIGTERM);
    // `finish` has a deadline far below what a tebibyte takes.
    assert_eq!(finish(copy).status.code(), Some(143));
}

/// It begins anew, and has nothing to resume.
#[test]
fn a_measurement_that_is_asked_to_stop_says_by_which_signal_and_promises_no_resumption() {
    use nix::sys::signal::Signal::{SIGINT, SIGTERM};
    let scratch = Scratch::new();
    let (file, to) = (scratch.path("file"), scratch.path("to"));
    std::fs::write(&file, noise(1, 24 << 20)).unwrap();
    std::fs::create_dir(&to).unwrap();
    for (asked, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        let words = ["bench", "storage", "--budget", "64KiB", "--runs", "1000", "--quiet", "--out"];
        let mut bench = with(with(scratch.thalweg(), words), [scratch.path(&format!("{code}.jsonl"))]);
        bench.current_dir(scratch.root());
        let probe = with(with(scratch.thalweg(), ["probe", "--seconds", "20s"]), [&file, &to]);
        for command in [bench, probe] {
            let running = Running::start(command);
            wait_for_handler(running.pid(), asked);
            signal(running.pid(), asked);
            let ran = running.end(LIMIT).expect(code);
            assert!(ran.stderr.contains("stop") && !ran.stderr.contains("resumes"), "{ran:?}");
        }
    }
    assert_no_litter(&to);
}

/// A daemon that takes long to clean up: whoever does not wait for that is gone before it is done.
fn slow_to_clean_up(scratch: &Scratch, to: &Path) -> Daemon {
    let slow = Strace::inject("unlinkat:delay_enter=300000");
    scratch.daemon_at("127.0.0.1:0", &[("data", to)], &[], |command| slow.around(&command))
}

#[test]
fn c4_a_daemon_that_is_asked_to_stop_right_after_a_copy_has_put_it_away() {
    if !Strace::available("C-4 a daemon that is asked to stop") {
        return;
    }
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&to).unwrap();
    (0..5).for_each(|number| std::fs::write(from.join(format!("{number}")), noise(number, 100_000)).unwrap());
    let daemon = slow_to_clean_up(&scratch, &to);
    let ran = Running::start(push(&scratch, &daemon.place("data", "x"))).end(LIMIT).expect(0);
    let status = daemon.terminate();
    assert!(status.success(), "{status}: {}", ran.stderr);
    assert_same(&from, &to.join("x"));
    assert_no_litter(&to);
}

#[test]
fn c4_a_daemon_that_is_asked_to_stop_right_after_a_client_said_goodbye_has_put_away_what_was_complete() {
    if !Strace::available("C-4 a daemon that is asked to stop") {
        return;
    }
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = slow_to_clean_up(&scratch, &to);
    let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
    client.open_push("data", "x");
    client.line.tell(T::Offer(vec![directory(0, "empty")]));
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 0, failed: 0, complete: true, empty: 0 }));
    let finished = |message| matches!(message, Message::Transfer(_, T::Finished(_))).then_some(());
    assert!(client.line.hear_some(SOON, finished).is_some());
    // Without the last words that the two have for each other: then the daemon is asked to stop while it puts this
    // away.
    client.line.say(&Message::Goodbye(None));
    let staging = to.join("x/.thalweg-staging");
    let job = || std::fs::read_dir(&staging).ok()?.next()?.ok().map(|entry| entry.path());
    let job = job().expect("a job under way");
    assert!(wait_until(LIMIT, || !job.join("lock").exists()), "it begins to put it away");
    assert!(daemon.terminate().success());
    assert!(to.join("x/empty").is_dir());
    assert_no_litter(&to);
}

#[test]
fn c4_a_copy_that_is_asked_to_stop_ends_in_order_and_resumes() {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGTERM};
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    // A terminal that goes away is told of twice, and a login that ends sends SIGHUP behind SIGTERM.
    let by_themselves = [&[SIGHUP, SIGHUP][..], &[SIGTERM, SIGHUP]];
    let asked = [&[SIGTERM][..], &[SIGHUP], &[SIGINT], &[SIGINT, SIGINT], &[SIGTERM, SIGINT]];
    for signals in asked.into_iter().chain(by_themselves) {
        let is_forced = signals.len() > 1 && signals[1] != SIGHUP;
        let code = if signals[0] == SIGTERM { 143 } else { 130 };
        for is_push in [true, false] {
            let to = if is_push { scratch.path("export/to") } else { scratch.path("to") };
            let command = || match is_push {
                true => push(&scratch, &daemon.place("data", "to")),
                false => local_copy(&scratch, &to),
            };
            let mut job = Running::start(with(command(), ["--bwlimit", "40MiB"]));
            let writer = if is_push { daemon.pid() } else { job.pid() };
            let before = if is_push { bytes_written(writer).unwrap() } else { 0 };
            // Room is taken before it is written to; what is written is what counts.
            let written = || bytes_written(writer).unwrap_or(0).saturating_sub(before);
            assert!(wait_until(LIMIT, || written() > total * 2 / 3 || job.is_over()));
            assert!(!job.is_over());
            let since = Instant::now();
            signals.iter().for_each(|each| signal(job.pid(), *each));
            let ran = job.end(LIMIT);
            let words = format!("{signals:?}, push {is_push}: {:?} {}", ran.code, ran.stderr);
            assert!(in_time("C-4", since.elapsed(), Duration::from_secs(15)), "not at once: {words}");
            // The second signal of a user ends it without further words.
            assert!(is_forced || ran.code == Some(code), "{words}");
            assert!(is_forced || ran.stderr.contains("hint:"), "{words}");
            let ran = Running::start(command()).end(LIMIT).expect(0);
            assert!(ran.number("bytes_received") < total, "nothing was kept: {words}");
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
}
