//! Killed at each call that it makes: rows C-3 and C-8 of docs/faults.md.

use crate::support::chance::quick_or_torture;
use crate::support::copies::{LIMIT, digests, local_copy, make_small_source, push, wrong_names};
use crate::support::job::{Running, Strace, bytes_allocated, journal_bytes, signal, with};
use crate::support::{Scratch, assert_no_litter, assert_same, facts, wait_until};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls that change something, here or at the peer.
const CALLS: [&str; 19] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "syncfs",
    "renameat2",
    "renameat",
    "linkat",
    "unlinkat",
    "ftruncate",
    "fallocate",
    "mkdirat",
    "symlinkat",
    "utimensat",
    "fchmod",
    "fchown",
    "flock",
    "openat2",
    "copy_file_range",
];
/// The same for a client that only sends.
const WIRE_CALLS: [&str; 5] = ["sendto", "sendmsg", "writev", "write", "recvfrom"];

/// Kills that each of these tests makes however slow the machine is; with more time it makes more.
const KILLS_MIN: u32 = 20;
/// The same where each takes a daemon of its own, or where calls are few.
const KILLS_MIN_WIRE: u32 = 8;

/// Runs `command` and has it killed at the `when`-th `call`. `None`: there are not so many of them.
fn killed_at(command: &Command, call: &str, when: u32) -> Option<()> {
    let inject = Strace::inject(&format!("{call}:signal=KILL:when={when}"));
    let ran = Running::start(inject.around(command)).end(LIMIT);
    (ran.code != Some(0)).then_some(())
}

#[test]
fn c3_a_local_copy_killed_at_each_call_it_makes() {
    let row = "C-3 local";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let limit = Duration::from_secs(quick_or_torture(35, 3600));
    let since = Instant::now();
    let mut moments = 0;
    // First the first of each call, then the second of each, then later ones: the clock may end it anywhere.
    let whens: Vec<u32> = quick_or_torture(vec![1, 2, 4, 9], (1..=200).collect());
    let mut over: Vec<&str> = Vec::new();
    for when in whens {
        for call in CALLS {
            if over.contains(&call) || moments >= KILLS_MIN && since.elapsed() > limit {
                continue;
            }
            let to = scratch.path("to");
            let command = local_copy(&scratch, &to);
            if killed_at(&command, call, when).is_none() {
                over.push(call);
            } else {
                moments += 1;
            }
            let words = format!("killed at {call} number {when}");
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
            std::fs::remove_dir_all(&to).unwrap();
            if when % 2 == 1 {
                // Sometimes without what was remembered.
                let _ = std::fs::remove_dir_all(scratch.path("client-state"));
            }
        }
    }
    assert!(moments >= KILLS_MIN, "only {moments} kills landed");
}

#[test]
fn c3_a_daemon_killed_at_each_call_it_makes() {
    let row = "C-3 daemon";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let to = scratch.path("to");
    let limit = Duration::from_secs(quick_or_torture(20, 3600));
    let since = Instant::now();
    let mut moments = 0;
    // Its first start makes keys and a ticket: not the calls that are meant here.
    scratch.daemon(&[("data", scratch.root())]).kill();
    let whens: Vec<u32> = quick_or_torture(vec![2, 3, 7], (2..=200).collect());
    for when in whens {
        for call in
            ["pwrite64", "syncfs", "fdatasync", "renameat2", "unlinkat", "fallocate", "linkat", "sendto"]
        {
            if moments >= KILLS_MIN_WIRE && since.elapsed() > limit {
                continue;
            }
            std::fs::create_dir(&to).unwrap();
            let inject = Strace::inject(&format!("{call}:signal=KILL:when={when}"));
            let mut daemon =
                scratch.daemon_at("127.0.0.1:0", &[("data", &to)], &[], |command| inject.around(&command));
            let address = daemon.address();
            let place = daemon.place("data", "");
            let mut job = Running::start(with(push(&scratch, &place), ["--patience", "30s"]));
            assert!(wait_until(LIMIT, || job.is_over() || !daemon.is_alive()));
            moments += u32::from(!daemon.is_alive());
            let words = format!("daemon killed at {call} number {when}");
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            daemon.kill();
            let daemon = scratch.daemon_at(&address, &[("data", &to)], &[], |command| command);
            let ran = job.end(LIMIT);
            // Before the session stood there was nothing to come back to.
            assert!(matches!(ran.code, Some(0 | 3)), "{words}: {:?} {}", ran.code, ran.stderr);
            Running::start(push(&scratch, &place)).end(LIMIT).expect(0);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
            drop(daemon);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    assert!(moments >= KILLS_MIN_WIRE, "only {moments} kills landed");
}

#[test]
fn c3_a_client_killed_at_each_call_on_the_wire() {
    let row = "C-3 wire";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let limit = Duration::from_secs(quick_or_torture(12, 3600));
    let since = Instant::now();
    let to = scratch.path("export/to");
    let mut moments = 0;
    let whens: Vec<u32> = quick_or_torture(vec![2, 1, 4, 8, 20, 3], (1..=200).collect());
    for when in whens {
        for call in WIRE_CALLS {
            if moments >= KILLS_MIN_WIRE && since.elapsed() > limit {
                continue;
            }
            let place = daemon.place("data", "to");
            moments += u32::from(killed_at(&push(&scratch, &place), call, when).is_some());
            let words = format!("client killed at {call} number {when}");
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            let ran = Running::start(push(&scratch, &place)).end(LIMIT);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&scratch.path("export"));
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    assert!(moments >= KILLS_MIN_WIRE, "only {moments} kills landed");
}

/// Whether all threads of a process stand still.
fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    // After the name, which may hold anything, comes the state.
    let mut states = stats.map(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')));
    states.all(|is_stopped| is_stopped)
}

/// What `gc` removes is of a copy that was killed, to the last or only in part; beside it one copy stands still in the
/// middle.
#[test]
fn c8_a_cleanup_killed_at_each_call_it_makes_takes_nothing_that_a_copy_needs() {
    const GC_CALLS: [&str; 3] = ["unlinkat", "flock", "openat2"];
    let row = "C-8";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::in_memory();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let places = scratch.path("places");
    std::fs::create_dir(&places).unwrap();
    let (busy, to) = (places.join("busy"), places.join("to"));
    let begin = |to: &Path, state: &str| {
        let mut slow = with(local_copy(&scratch, to), ["--bwlimit", "2MB/s", "--stall-timeout", "1h"]);
        slow.env("THALWEG_STATE", scratch.path(state));
        let mut job = Running::start(slow);
        let has_begun = || journal_bytes(to) > 0 && bytes_allocated(to) >= 1 << 20;
        assert!(wait_until(LIMIT, || has_begun() || job.is_over()));
        job
    };
    let still = begin(&busy, "state-of-another");
    signal(still.pid(), Signal::SIGSTOP);
    assert!(wait_until(LIMIT, || is_stopped(still.pid())));
    let of_still = facts(&busy);
    let gc = || with(with(scratch.thalweg(), ["gc", "--yes"]), [&places]);
    let mut landed: BTreeSet<&str> = BTreeSet::new();
    let whens: Vec<u32> = quick_or_torture(vec![1, 2, 3, 5, 8], (1..=60).collect());
    for when in whens {
        for call in GC_CALLS {
            begin(&to, "client-state").kill();
            if killed_at(&gc(), call, when).is_some() {
                landed.insert(call);
            }
            let words = format!("gc killed at {call} number {when}");
            assert_eq!(facts(&busy), of_still, "{words}");
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            if when % 2 == 0 {
                let again = Running::start(gc()).end(LIMIT).expect(0);
                assert!(again.stdout.contains("in-use  "), "{words}: {}", again.stdout);
                let is_left = |(name, fact): &(Vec<u8>, String)| {
                    name.starts_with(b".thalweg-staging") && fact.starts_with("file ")
                };
                assert_eq!(facts(&to).into_iter().find(is_left), None, "{words}, then to its end");
                assert_eq!(facts(&busy), of_still, "{words}, then to its end");
            }
            let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    assert_eq!(landed, BTreeSet::from(GC_CALLS), "a call that is not made");
    signal(still.pid(), Signal::SIGCONT);
    still.end(LIMIT).expect(0);
    assert_same(&scratch.path("from"), &busy);
    assert_no_litter(&busy);
}
