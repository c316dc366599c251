//! Kill anything, any number of times, at any moment: nothing is lost, nothing half stands under a final name, little
//! is sent again, nothing is left behind. Rows C-1 to C-6, I-8 and I-9 of the catalogue.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::chance::{Random, in_time, quick_or_torture};
use support::copies::{
    CHUNK_BYTES, LIMIT, STREAMS, Watcher, digests, local_copy, make_small_source, make_source, pull, push,
    wrong_names,
};
use support::group::MemoryGroup;
use support::job::{Ran, Running, Strace, bytes_written, journal_bytes, signal, wait_for_handler, with};
use support::peer::{HostileClient, SOON, directory};
use support::proxy::Proxy;
use support::syncs::{Sync, Syncs, can_watch, held_until, is_zombie};
use support::volume::{Volume, can_mount};
use support::{Daemon, Scratch, assert_no_litter, assert_same, finish, noise, wait_until};
use thalweg_wire::message::{Message, ScanTotals, TransferMessage as T};

/// What was written until the kill, and how fast.
struct Killed {
    bytes: u64,
    took: Duration,
}

/// Kills `job` as soon as `writer` has written `bytes` more than `before`, or when it is over.
fn kill_after(mut job: Running, writer: u32, before: u64, bytes: u64) -> Killed {
    let mut written = 0;
    wait_until(LIMIT, || {
        written = bytes_written(writer).unwrap_or(before).saturating_sub(before).max(written);
        written >= bytes || job.is_over()
    });
    let took = job.started.elapsed();
    job.kill();
    Killed { bytes: written, took }
}

/// Sent again: one chunk a stream that was under way, and what was not recorded, so many seconds of traffic.
fn may_be_sent_again(killed: &Killed, seconds: f64) -> u64 {
    let rate = killed.bytes as f64 / killed.took.as_secs_f64().max(0.001);
    CHUNK_BYTES * STREAMS + (rate * seconds) as u64
}

/// What was sent again after all the kills of a test. They work in memory: a disk that takes seconds for a round is behind
/// by as many seconds of traffic, and says nothing of what a kill costs.
#[derive(Default)]
struct SentAgain {
    bytes: u64,
    allowed: u64,
}

impl SentAgain {
    /// A round that records takes time itself, here on a busy machine, so a single kill may cost a second more than is
    /// promised; taken together they may not.
    #[track_caller]
    fn check(self) {
        let SentAgain { bytes, allowed } = self;
        assert!(bytes <= allowed, "{bytes} bytes sent again after all kills, {allowed} allowed");
    }
}

#[track_caller]
fn check_resumed(ran: &Ran, killed: &Killed, total: u64, sum: &mut SentAgain, words: &str) {
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
    let received = ran.number("bytes_received");
    // Names, journal and metadata are among the bytes written: never more than content, so the bound is on the safe side.
    let there = killed.bytes.min(total);
    let again = (received + there).saturating_sub(total);
    sum.bytes += again;
    sum.allowed += may_be_sent_again(killed, 1.0);
    let allowed = may_be_sent_again(killed, 2.0);
    assert!(
        again <= allowed,
        "{words}: {again} bytes sent again, {allowed} allowed ({received} received of {total}, {there} written before)"
    );
}

#[test]
fn c1_a_local_copy_killed_at_any_moment_resumes() {
    let row = "C-1 local";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let mut sent_again = SentAgain::default();
    let kills = quick_or_torture(7, 100);
    // Writing takes its time: 1 MiB each 12 ms on each stream.
    let slow = Strace::inject("pwrite64:delay_enter=12000");
    for kill in 0..kills {
        let to = scratch.path(&format!("to-{kill}"));
        let command = local_copy(&scratch, &to);
        let watcher = Watcher::start(&to, &expected);
        let moment = (total as f64 * (f64::from(kill) + random.fraction()) / f64::from(kills)) as u64;
        let job = Running::start(slow.around(&command));
        let pid = job.pid();
        let killed = kill_after(job, pid, 0, moment);
        let words = format!("killed after {} of {total} bytes", killed.bytes);
        assert_eq!(watcher.end(), Vec::<String>::new(), "{words}");
        assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
        let ran = Running::start(command).end(LIMIT);
        check_resumed(&ran, &killed, total, &mut sent_again, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
    sent_again.check();
}

/// C-9: too little memory kills the program, or slows it down; what was done before is exact.
#[test]
fn c9_a_copy_that_is_killed_for_want_of_memory_resumes() {
    let row = "C-9";
    let scratch = Scratch::new();
    make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let mebibytes: &[u64] = quick_or_torture(&[4, 16], &[2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48]);
    let mut killed = 0;
    for mebibytes in mebibytes {
        let Some(group) = MemoryGroup::new(row, mebibytes << 20) else { return };
        let to = scratch.path(&format!("to-{mebibytes}"));
        let command = local_copy(&scratch, &to);
        let mut job = Running::start(group.around(&command));
        // One that only crawls is of no more use.
        wait_until(Duration::from_secs(20), || job.is_over());
        let ran = job.kill();
        assert!(ran.code.is_none_or(|code| code == 0 || code == 137), "{:?}: {}", ran.code, ran.stderr);
        killed += u32::from(ran.code != Some(0));
        assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new());
        Running::start(command).end(LIMIT).expect(0);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
    }
    assert!(killed > 0, "it fits into {mebibytes:?} MiB each");
}

/// Bytes a second through the proxy in the first runs.
const RATE: u64 = 40 << 20;

#[test]
fn c1_a_push_killed_at_any_moment_resumes() {
    let row = "C-1 push";
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let proxy = Proxy::new(&daemon.address());
    let mut sent_again = SentAgain::default();
    let kills = quick_or_torture(6, 100);
    for kill in 0..kills {
        let to = scratch.path(&format!("export/to-{kill}"));
        let command = || push(&scratch, &proxy.place("data", &format!("to-{kill}")));
        let watcher = Watcher::start(&to, &expected);
        let moment = (total as f64 * (f64::from(kill) + random.fraction()) / f64::from(kills)) as u64;
        proxy.limit(RATE);
        let before = bytes_written(daemon.pid()).unwrap();
        let killed = kill_after(Running::start(command()), daemon.pid(), before, moment);
        let words = format!("killed after {} of {total} bytes", killed.bytes);
        proxy.limit(0);
        let ran = Running::start(command()).end(LIMIT);
        assert_eq!(watcher.end(), Vec::<String>::new(), "{words}");
        check_resumed(&ran, &killed, total, &mut sent_again, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&scratch.path("export"));
        std::fs::remove_dir_all(&to).unwrap();
    }
    sent_again.check();
}

#[test]
fn c1_a_pull_killed_at_any_moment_resumes() {
    let row = "C-1 pull";
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    let proxy = Proxy::new(&daemon.address());
    let mut sent_again = SentAgain::default();
    let kills = quick_or_torture(7, 100);
    for kill in 0..kills {
        let to = scratch.path(&format!("to-{kill}"));
        let command = || pull(&scratch, &proxy.place("data", ""), &to);
        let watcher = Watcher::start(&to, &expected);
        let moment = (total as f64 * (f64::from(kill) + random.fraction()) / f64::from(kills)) as u64;
        proxy.limit(RATE);
        let job = Running::start(command());
        let pid = job.pid();
        let killed = kill_after(job, pid, 0, moment);
        let words = format!("killed after {} of {total} bytes", killed.bytes);
        proxy.limit(0);
        let ran = Running::start(command()).end(LIMIT);
        assert_eq!(watcher.end(), Vec::<String>::new(), "{words}");
        check_resumed(&ran, &killed, total, &mut sent_again, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
    sent_again.check();
}

/// C-1 in a row: the same copy killed again and again comes to its end all the same.
#[test]
fn c1_a_copy_killed_again_and_again_still_gets_there() {
    let row = "C-1 again and again";
    let mut random = Random::new(row);
    // So that what was written is recorded soon, whatever the disk.
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(RATE);
    let command = || push(&scratch, &proxy.place("data", ""));
    let mut kills = 0;
    for _ in 0..quick_or_torture(4, 60) {
        let until = proxy.passed() + total / 4 + random.below(total / 8);
        let mut job = Running::start(command());
        if wait_until(LIMIT, || proxy.passed() > until || job.is_over()) && job.is_over() {
            assert_eq!(job.end(LIMIT).code, Some(0));
            break;
        }
        job.kill();
        kills += 1;
    }
    let ran = Running::start(command()).end(LIMIT).expect(0);
    assert!(kills == 0 || ran.number("bytes_received") < total, "nothing was resumed");
    assert_same(&scratch.path("from"), &scratch.path("export"));
    assert_no_litter(&scratch.path("export"));
}

/// The daemon dies in the middle and stands again at the same address: the client that runs finishes by itself.
fn kill_the_daemon(row: &str, is_push: bool) {
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let export = if is_push { scratch.path("to") } else { scratch.path("from") };
    std::fs::create_dir_all(scratch.path("to")).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let address = daemon.address();
    let proxy = Proxy::new(&address);
    proxy.limit(RATE);
    let to = scratch.path("to");
    let command = match is_push {
        true => push(&scratch, &proxy.place("data", "")),
        false => pull(&scratch, &proxy.place("data", ""), &to),
    };
    let mut daemon = daemon;
    let watcher = Watcher::start(&to, &expected);
    let mut job = Running::start(with(command, ["--patience", "30s", "--stall-timeout", "5s"]));
    let kills = quick_or_torture(2, 12);
    for kill in 1..=kills {
        let passed = proxy.passed();
        let until = total / (kills + 1) / 2 + random.below(total / (kills + 1) / 2);
        assert!(wait_until(LIMIT, || proxy.passed() - passed > until || job.is_over()));
        if job.is_over() {
            break;
        }
        daemon.kill();
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
        let (passed, since) = (proxy.passed(), Instant::now());
        let flows = wait_until(LIMIT, || proxy.passed() > passed + (64 << 10) || job.is_over());
        let after = since.elapsed();
        let is_in_time = flows && in_time(row, after, Duration::from_secs(5));
        assert!(is_in_time, "kill {kill}: nothing moved within {after:?} of the daemon's return");
    }
    let ran = job.end(LIMIT).expect(0);
    assert!(ran.number("attempts") > 1, "{}", ran.stdout);
    assert_eq!(watcher.end(), Vec::<String>::new());
    assert_same(&scratch.path("from"), &scratch.path("to"));
    assert_no_litter(&scratch.path("to"));
    drop(daemon);
}

#[test]
fn c2_a_push_outlives_its_daemon() {
    kill_the_daemon("C-2 push", true);
}

#[test]
fn c2_a_pull_outlives_its_daemon() {
    kill_the_daemon("C-2 pull", false);
}

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
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 0, failed: 0, complete: true }));
    let finished = |message| matches!(message, Message::Transfer(_, T::Finished(_))).then_some(());
    assert!(client.line.hear_some(SOON, finished).is_some());
    // Without the last words that the two have for each other: then the daemon is asked to stop while it puts this away.
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
    for signals in [&[SIGTERM][..], &[SIGHUP], &[SIGINT], &[SIGINT, SIGINT], &[SIGTERM, SIGINT]] {
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
            // The second signal ends it without further words.
            assert!(signals.len() > 1 || matches!(ran.code, Some(130 | 143)), "{words}");
            assert!(signals.len() > 1 || ran.stderr.contains("hint:"), "{words}");
            let ran = Running::start(command()).end(LIMIT).expect(0);
            assert!(ran.number("bytes_received") < total, "nothing was kept: {words}");
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
}

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
            wait_until(LIMIT, || job.is_over() || !daemon.is_alive());
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

/// File systems whose power can be cut.
fn kinds() -> &'static [&'static str] {
    quick_or_torture(&["ext4"], &["ext4", "xfs", "btrfs"])
}

fn volume(scratch: &Scratch, name: &str, kind: &str) -> Option<Volume> {
    let mebibytes = if kind == "xfs" { 400 } else { 256 };
    Volume::new(scratch.root(), name, kind, mebibytes)
}

#[test]
fn c5_a_power_cut_right_after_exit_0_loses_nothing() {
    let row = "C-5";
    if !can_mount(row) {
        return;
    }
    for kind in kinds() {
        let scratch = Scratch::new();
        make_source(&scratch.path("from"));
        let Some(disk) = volume(&scratch, &format!("{kind}.img"), kind) else { continue };
        // The state directory is on it as well; new directories above the destination too.
        let to = disk.path.join("new/and/newer/to");
        let command = with(with(local_copy(&scratch, &to), ["--state"]), [disk.path.join("state")]);
        Running::start(command).end(LIMIT).expect(0);
        if !disk.cut_power(row) {
            continue;
        }
        let after = disk.after_the_cut(&format!("{kind}-after.img"));
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        // And what is remembered of it is no hindrance.
        let again = with(with(local_copy(&scratch, &to), ["--state"]), [after.path.join("state")]);
        assert_eq!(Running::start(again).end(LIMIT).expect(0).number("bytes_received"), 0);
    }
}

#[test]
fn c5_a_power_cut_at_the_daemon_right_after_the_client_ended_loses_nothing() {
    let row = "C-5 daemon";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let Some(disk) = volume(&scratch, "ext4.img", "ext4") else { return };
    let daemon = scratch.daemon(&[("data", &disk.path)]);
    Running::start(push(&scratch, &daemon.place("data", "x/y"))).end(LIMIT).expect(0);
    if !disk.cut_power(row) {
        return;
    }
    daemon.kill();
    let after = disk.after_the_cut("after.img");
    assert_same(&scratch.path("from"), &after.path.join("x/y"));
}

#[test]
fn c6_a_power_cut_at_any_moment_leaves_only_whole_names_and_resumes() {
    let row = "C-6";
    if !can_mount(row) || !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    for kind in kinds() {
        for cut in 0..quick_or_torture(3, 70) {
            let scratch = Scratch::new();
            let total = make_source(&scratch.path("from"));
            let expected = digests(&scratch.path("from"));
            let Some(disk) = volume(&scratch, &format!("{kind}.img"), kind) else { break };
            let to = disk.path.join("to");
            let state = |disk: &Volume| disk.path.join("state");
            let command = with(with(local_copy(&scratch, &to), ["--state"]), [state(&disk)]);
            let mut job = Running::start(Strace::inject("pwrite64:delay_enter=12000").around(&command));
            let moment = random.below(total);
            let pid = job.pid();
            wait_until(LIMIT, || bytes_written(pid).is_none_or(|bytes| bytes >= moment) || job.is_over());
            if !disk.cut_power(row) {
                break;
            }
            let ran = job.end(LIMIT);
            let words = format!("{kind}: power cut {cut} after {moment} bytes");
            let after = disk.after_the_cut(&format!("{kind}-after.img"));
            if ran.code == Some(0) {
                assert_same(&scratch.path("from"), &to);
                continue;
            }
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            let again = with(with(local_copy(&scratch, &to), ["--state"]), [state(&after)]);
            let ran = Running::start(again).end(LIMIT);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
        }
    }
}

/// What a power cut leaves, and what had been promised by then.
struct Cut {
    image: PathBuf,
    /// Files that the copy had told to be done.
    told: Vec<PathBuf>,
}

/// Files that are told to be done in what `--json` said so far.
fn told_done(stdout: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(stdout).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|event| event["event"] == "entry" && event["outcome"] == "done" && event["type"] == "file")
        .map(|event| PathBuf::from(event["path"].as_str().expect("a path")))
        .collect()
}

/// From its n-th sync on, for every n, nothing more becomes durable, though the copy is told so and goes on to its
/// end; then the power is cut. One run serves for all n: what the disk holds at the entry of the n-th sync is what such
/// a cut leaves. `pid` is of the program that syncs; it stands still when its sync is looked at.
///
/// A file that was told to be done before that sync must be there, whole; the same command again does the rest.
fn stops_syncing(row: &str, kind: &str, is_push: bool) {
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    // No commits of its own meanwhile: only what is asked for becomes durable.
    let calm = if kind == "xfs" { "" } else { "commit=600" };
    let mebibytes = if kind == "ext4" { 64 } else { 400 };
    let name = format!("{kind}.img");
    let Some(disk) = Volume::with_options(scratch.root(), &name, kind, mebibytes, &[], calm) else { return };
    let mount = disk.path.clone();
    let to = mount.join("new/to");

    let daemon = is_push.then(|| scratch.daemon(&[("data", &mount)]));
    let command = |daemon: Option<&Daemon>| match daemon {
        Some(daemon) => push(&scratch, &daemon.place("data", "new/to")),
        None => with(with(local_copy(&scratch, &to), ["--state"]), [mount.join("state")]),
    };
    // Slow enough for several rounds within a file.
    let first = with(command(daemon.as_ref()), ["--bwlimit", "4MiB"]);
    let (go, stdout) = (scratch.path("go"), scratch.path("stdout"));
    let mut first = held_until(&go, &first);
    first.stdin(Stdio::null()).stdout(std::fs::File::create(&stdout).unwrap());
    let mut first = first.spawn().unwrap();
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let (made, image) = (cuts.clone(), disk.image.clone().unwrap());
    let at_each = move |number: u32| {
        // What was said before this sync may still be on its way through the client.
        std::thread::sleep(Duration::from_millis(if is_push { 50 } else { 0 }));
        let told = told_done(&stdout);
        let copy = image.with_file_name(format!("cut-{number}.img"));
        let copied = Command::new("cp").arg("--sparse=always").args([&image, &copy]).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        made.lock().unwrap().push(Cut { image: copy, told });
        Sync::Done
    };
    let pid = daemon.as_ref().map_or(first.id(), Daemon::pid);
    let syncs = Syncs::watch(pid, Box::new(at_each));
    std::fs::write(&go, "").unwrap();
    // While it is traced from this process, waiting for its end would show its stops.
    assert!(wait_until(LIMIT, || is_zombie(first.id())), "the first run hangs");
    let count = syncs.end();
    assert!(first.wait().unwrap().success(), "the first run failed");
    assert_same(&scratch.path("from"), &to);
    drop(daemon);
    drop(disk);

    let (mut told, mut resumed) = (0, 0);
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert_eq!(cuts.len(), count as usize);
    for (number, cut) in (1..).zip(cuts) {
        let words = format!("{row}, {kind}: nothing durable from sync {number} of {count} on");
        let disk = Volume::mount_at(cut.image.clone(), mount.clone(), kind, calm);
        assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
        for path in &cut.told {
            assert!(to.join(path).is_file(), "{words}: {path:?} was told to be done and is gone");
        }
        told += cut.told.len();
        let daemon = is_push.then(|| scratch.daemon(&[("data", &mount)]));
        let ran = Running::start(command(daemon.as_ref())).end(LIMIT);
        assert_eq!(ran.code, Some(0), "{words}: {}\n{}", ran.stdout, ran.stderr);
        resumed += ran.number("bytes_resumed");
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        drop(daemon);
        drop(disk);
        let _ = std::fs::remove_file(cut.image);
    }
    assert!(
        count >= 10 && told > 0 && resumed > 0,
        "{count} syncs, {told} files told, {resumed} bytes resumed"
    );
}

fn stops_syncing_on_each(row: &str, is_push: bool) {
    if !can_mount(row) || !can_watch(row) {
        return;
    }
    for kind in kinds() {
        stops_syncing(row, kind, is_push);
    }
}

#[test]
fn c6_a_disk_that_stops_syncing_at_any_sync_of_a_local_copy() {
    stops_syncing_on_each("C-6 syncs", false);
}

#[test]
fn c6_a_disk_that_stops_syncing_at_any_sync_of_a_daemon() {
    stops_syncing_on_each("C-6 syncs of a daemon", true);
}

/// Stops a local copy in the middle, and returns the files that it left in its staging directory.
fn interrupted(scratch: &Scratch, to: &Path) -> Vec<PathBuf> {
    let slow = Strace::inject("pwrite64:delay_enter=80000");
    // One write at a time on each stream, so that there are rounds before the kill.
    let command = with(local_copy(scratch, to), ["--io-depth", "1"]);
    let mut job = Running::start(slow.around(&command));
    // Some chunks of what is under way are recorded: a digest of each has 32 bytes.
    wait_until(LIMIT, || journal_bytes(to) > 400 || job.is_over());
    job.kill();
    let staging = std::fs::read_dir(to.join(".thalweg-staging")).expect("a staging directory").next();
    let staging = staging.expect("a job's directory").unwrap().path();
    std::fs::read_dir(staging)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect()
}

fn is_named(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
}

/// Changes bytes of a file and gives it its times again.
fn rot(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let meta = std::fs::metadata(path).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut content = vec![0; meta.len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    change(&mut content);
    file.set_len(content.len() as u64).unwrap();
    file.write_all_at(&content, 0).unwrap();
    let times = std::fs::FileTimes::new()
        .set_modified(meta.modified().unwrap())
        .set_accessed(meta.accessed().unwrap());
    file.set_times(times).unwrap();
}

#[test]
fn i8_a_partial_that_rots_between_kill_and_resume_is_not_believed() {
    let row = "I-8";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    make_source(&scratch.path("from"));
    for round in 0..quick_or_torture(2, 50) {
        let to = scratch.path("to");
        let left = interrupted(&scratch, &to);
        let partials: Vec<_> = left.iter().filter(|path| is_named(path, "partial-")).collect();
        assert!(!partials.is_empty(), "{left:?}");
        for partial in &partials {
            // One bit in each eighth of it, or only one at all.
            let flips = if round % 2 == 0 { 8 } else { 1 };
            rot(partial, |content| {
                for flip in 0..flips {
                    let part = content.len() as u64 / flips;
                    let at = (part * flip + random.below(part)) as usize;
                    content[at] ^= 1 << random.below(8);
                }
            });
        }
        let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT).expect(0);
        assert!(ran.number("bytes_resumed") > 0 || round % 2 == 0, "nothing was resumed: {}", ran.finished());
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn i9_a_journal_that_rots_never_gives_wrong_content() {
    let row = "I-9";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    make_source(&scratch.path("from"));
    let to = scratch.path("to");
    let kept = scratch.path("kept");
    let left = interrupted(&scratch, &to);
    let journal = left.iter().find(|path| is_named(path, "journal")).expect("a journal").clone();
    let bytes = std::fs::metadata(&journal).unwrap().len();
    assert!(bytes > 100, "an empty journal proves nothing");
    let copy_tree = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        let copied = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    };
    copy_tree(&to, &kept);
    for round in 0..quick_or_torture(6, 400) {
        copy_tree(&kept, &to);
        let at = random.below(bytes) as usize;
        rot(&journal, |content| match round % 4 {
            0 => content[at] ^= 1 << random.below(8),
            1 => content.truncate(at),
            2 => content[at..].iter_mut().for_each(|byte| *byte = 0),
            _ => {
                // Two pieces change places.
                let half = content.len() / 2;
                let end = (at % half + 64).min(half);
                let (front, back) = content.split_at_mut(half);
                front[at % half..end].swap_with_slice(&mut back[at % half..end]);
            }
        });
        let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT);
        assert_eq!(ran.code, Some(0), "round {round}, byte {at}: {}\n{}", ran.stdout, ran.stderr);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
    }
}
