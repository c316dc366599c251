//! Kill anything, any number of times, at any moment: nothing is lost, nothing half stands under a final name, little
//! is sent again, nothing is left behind. Rows C-1, C-2, C-3, C-5, C-6, I-8 and I-9 of the catalogue.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::chance::{Random, quick_or_torture};
use support::copies::{
    CHUNK_BYTES, LIMIT, STREAMS, Watcher, digests, local_copy, make_source, pull, push, wrong_names,
};
use support::job::{Ran, Running, Strace, bytes_written, with};
use support::proxy::Proxy;
use support::{Scratch, assert_no_litter, assert_same, wait_until};

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

/// Sent again: one chunk a stream that was under way, and what was not recorded, a second of traffic. The round that
/// records takes time itself, here on a busy disk; it is paid by a second more.
fn may_be_sent_again(killed: &Killed) -> u64 {
    let rate = killed.bytes as f64 / killed.took.as_secs_f64().max(0.001);
    CHUNK_BYTES * STREAMS + (rate * 2.0) as u64
}

#[track_caller]
fn check_resumed(ran: &Ran, killed: &Killed, total: u64, words: &str) {
    assert_eq!(ran.code, Some(0), "{words}: {}\n{}", ran.stdout, ran.stderr);
    let received = ran.number("bytes_received");
    // Names, journal and metadata are among the bytes written: never more than content, so the bound is on the safe side.
    let there = killed.bytes.min(total);
    let again = (received + there).saturating_sub(total);
    let allowed = may_be_sent_again(killed);
    assert!(again <= allowed, "{words}: {again} bytes sent again, {allowed} allowed ({received} received of {total}, {there} written before)");
}

#[test]
fn c1_a_local_copy_killed_at_any_moment_resumes() {
    let row = "C-1 local";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::new();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
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
        check_resumed(&ran, &killed, total, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// Bytes a second through the proxy in the first runs.
const RATE: u64 = 40 << 20;

#[test]
fn c1_a_push_killed_at_any_moment_resumes() {
    let row = "C-1 push";
    let mut random = Random::new(row);
    let scratch = Scratch::new();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let proxy = Proxy::new(&daemon.address());
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
        check_resumed(&ran, &killed, total, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&scratch.path("export"));
        std::fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn c1_a_pull_killed_at_any_moment_resumes() {
    let row = "C-1 pull";
    let mut random = Random::new(row);
    let scratch = Scratch::new();
    let total = make_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    let proxy = Proxy::new(&daemon.address());
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
        check_resumed(&ran, &killed, total, &words);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// C-1 in a row: the same copy killed again and again comes to its end all the same.
#[test]
fn c1_a_copy_killed_again_and_again_still_gets_there() {
    let row = "C-1 again and again";
    let mut random = Random::new(row);
    let scratch = Scratch::new();
    let total = make_source(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(RATE);
    let command = || push(&scratch, &proxy.place("data", ""));
    let mut kills = 0;
    for _ in 0..quick_or_torture(4, 60) {
        let mut job = Running::start(command());
        let pause = Duration::from_millis(700 + random.below(600));
        if wait_until(pause, || job.is_over()) {
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
    let scratch = Scratch::new();
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
        let flows = wait_until(Duration::from_secs(5), || proxy.passed() > passed + (64 << 10) || job.is_over());
        assert!(flows, "kill {kill}: nothing moved within {:?} of the daemon's return", since.elapsed());
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
