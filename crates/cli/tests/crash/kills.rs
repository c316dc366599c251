//! Copies that are killed at any moment, in any row: rows C-1, C-2 and C-9 of docs/faults.md.

use crate::support::chance::{Random, in_time, quick_or_torture};
use crate::support::copies::{
    CHUNK_BYTES, LIMIT, STREAMS, Watcher, digests, local_copy, make_source, pull, push, wrong_names,
};
use crate::support::group::MemoryGroup;
use crate::support::job::{Ran, Running, Strace, bytes_written, with};
use crate::support::proxy::Proxy;
use crate::support::{Scratch, assert_no_litter, assert_same, wait_until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What was written until the kill, and how fast.
struct Killed {
    bytes: u64,
    took: Duration,
}

/// Kills `job` as soon as `writer` has written `bytes` more than `before`, or when it is over.
fn kill_after(mut job: Running, writer: u32, before: u64, bytes: u64) -> Killed {
    let mut written = 0;
    assert!(wait_until(LIMIT, || {
        written = bytes_written(writer).unwrap_or(before).saturating_sub(before).max(written);
        written >= bytes || job.is_over()
    }));
    let took = job.started.elapsed();
    job.kill();
    Killed { bytes: written, took }
}

/// Sent again: one chunk a stream that was under way, and what was not recorded, so many seconds of traffic.
fn may_be_sent_again(killed: &Killed, seconds: f64) -> u64 {
    let rate = killed.bytes as f64 / killed.took.as_secs_f64().max(0.001);
    CHUNK_BYTES * STREAMS + (rate * seconds) as u64
}

/// What was sent again after all the kills of a test. They work in memory: a disk that takes seconds for a round is
/// behind by as many seconds of traffic, and says nothing of what a kill costs.
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
    // Names, journal and metadata are among the bytes written: never more than content, so the bound is on the safe
    // side.
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

/// A copy that is killed after more and more of it, each time to a new place, and then left to come to its end.
struct Victim<'a> {
    row: &'a str,
    source: &'a Path,
    /// The place of each attempt, by its number.
    to: &'a dyn Fn(u32) -> PathBuf,
    command: &'a dyn Fn(u32) -> Command,
    /// Starts it slowly, so that there is a middle; the second time it is not held up.
    slowly: &'a dyn Fn(Command) -> Running,
    /// Whose writes say how far it is: the daemon's, or else its own.
    writer: Option<u32>,
    /// Where nothing may be left; without, its place.
    litter: Option<PathBuf>,
}

impl Victim<'_> {
    fn is_killed_at_any_moment(&self, kills: u32) {
        let mut random = Random::new(self.row);
        let (total, expected) = (make_source(self.source), digests(self.source));
        let mut sent_again = SentAgain::default();
        for kill in 0..kills {
            let to = (self.to)(kill);
            let watcher = Watcher::start(&to, &expected);
            let moment = (total as f64 * (f64::from(kill) + random.fraction()) / f64::from(kills)) as u64;
            let before = self.writer.map_or(0, |writer| bytes_written(writer).unwrap());
            let job = (self.slowly)((self.command)(kill));
            let writer = self.writer.unwrap_or(job.pid());
            let killed = kill_after(job, writer, before, moment);
            let words = format!("killed after {} of {total} bytes", killed.bytes);
            if self.writer.is_none() {
                assert_eq!(
                    wrong_names(&to, &expected, &mut BTreeMap::new()),
                    Vec::<String>::new(),
                    "{words}"
                );
            }
            let ran = Running::start((self.command)(kill)).end(LIMIT);
            assert_eq!(watcher.end(), Vec::<String>::new(), "{words}");
            check_resumed(&ran, &killed, total, &mut sent_again, &words);
            assert_same(self.source, &to);
            assert_no_litter(self.litter.as_ref().unwrap_or(&to));
            std::fs::remove_dir_all(&to).unwrap();
        }
        sent_again.check();
    }
}

#[test]
fn c1_a_local_copy_killed_at_any_moment_resumes() {
    let row = "C-1 local";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::in_memory();
    let to = |kill| scratch.path(&format!("to-{kill}"));
    // Writing takes its time: 1 MiB each 12 ms on each stream.
    let slow = Strace::inject("pwrite64:delay_enter=12000");
    let victim = Victim {
        row,
        source: &scratch.path("from"),
        to: &to,
        command: &|kill| local_copy(&scratch, &to(kill)),
        slowly: &|command| Running::start(slow.around(&command)),
        writer: None,
        litter: None,
    };
    victim.is_killed_at_any_moment(quick_or_torture(7, 100));
}

/// Each file is whole at the source, or else at the destination.
#[track_caller]
fn assert_none_lost(expected: &BTreeMap<PathBuf, blake3::Hash>, [from, to]: [&Path; 2], words: &str) {
    for (path, digest) in expected {
        let is_at = |root: &Path| {
            std::fs::read(root.join(path)).is_ok_and(|content| blake3::hash(&content) == *digest)
        };
        assert!(is_at(from) || is_at(to), "{} {words}", path.display());
    }
}

/// What was changed within a second of it may be the source itself, by a daemon on this machine.
const OLDER_THAN_ITS_COPY: Duration = Duration::from_millis(1500);

/// C-1 where source files are removed: at any moment each is at the source or whole at the destination.
#[test]
fn c1_what_a_killed_copy_has_removed_at_the_source_is_whole_at_the_destination() {
    let row = "C-1 removing";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    let slow = Strace::inject("pwrite64:delay_enter=12000");
    for kill in 0..quick_or_torture(4, 60) {
        let (from, to) = (scratch.path("from"), scratch.path(&format!("to-{kill}")));
        let total = make_source(&from);
        let expected = digests(&from);
        let command = || with(local_copy(&scratch, &to), ["--remove-source-files"]);
        let moment = (total as f64 * random.fraction()) as u64;
        let job = Running::start(slow.around(&command()));
        let writer = job.pid();
        let killed = kill_after(job, writer, 0, moment);
        assert_none_lost(&expected, [&from, &to], &format!("after {} of {total} bytes", killed.bytes));
        // What was settled and not yet removed is found by its content.
        let ran = Running::start(with(command(), ["--check", "digest"])).end(LIMIT).expect(0);
        assert_eq!(digests(&to), expected);
        assert_eq!((digests(&from).len(), ran.number("sources_left")), (0, 0));
        assert_no_litter(&to);
        [from, to].iter().for_each(|root| std::fs::remove_dir_all(root).unwrap());
    }
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
        let _ = wait_until(Duration::from_secs(20), || job.is_over());
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

/// Started through a proxy that holds it up, and that lets go of what comes after it is killed.
fn slowly(proxy: &Proxy, command: Command) -> Running {
    proxy.limit(RATE);
    Running::start(command)
}

#[test]
fn c1_a_push_killed_at_any_moment_resumes() {
    let scratch = Scratch::in_memory();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let proxy = Proxy::new(&daemon.address());
    let victim = Victim {
        row: "C-1 push",
        source: &scratch.path("from"),
        to: &|kill| export.join(format!("to-{kill}")),
        command: &|kill| {
            proxy.limit(0);
            push(&scratch, &proxy.place("data", &format!("to-{kill}")))
        },
        slowly: &|command| slowly(&proxy, command),
        writer: Some(daemon.pid()),
        litter: Some(export.clone()),
    };
    victim.is_killed_at_any_moment(quick_or_torture(6, 100));
}

#[test]
fn c1_a_pull_killed_at_any_moment_resumes() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("from"))]);
    let proxy = Proxy::new(&daemon.address());
    let to = |kill| scratch.path(&format!("to-{kill}"));
    let victim = Victim {
        row: "C-1 pull",
        source: &scratch.path("from"),
        to: &to,
        command: &|kill| {
            proxy.limit(0);
            pull(&scratch, &proxy.place("data", ""), &to(kill))
        },
        slowly: &|command| slowly(&proxy, command),
        writer: None,
        litter: None,
    };
    victim.is_killed_at_any_moment(quick_or_torture(7, 100));
}

/// C-1 where a daemon removes its files: whoever begins again at once meets the session of the one that was killed.
#[test]
fn c1_what_a_killed_pull_had_the_daemon_remove_is_whole_at_the_destination() {
    let mut random = Random::new("C-1 removing pull");
    let scratch = Scratch::in_memory();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    let daemon = scratch.daemon(&[("data", &from)]);
    let proxy = Proxy::new(&daemon.address());
    for kill in 0..quick_or_torture(4, 60) {
        let to = scratch.path(&format!("to-{kill}"));
        let total = make_source(&from);
        let expected = digests(&from);
        std::thread::sleep(OLDER_THAN_ITS_COPY);
        let command = || with(pull(&scratch, &proxy.place("data", ""), &to), ["--remove-source-files"]);
        let moment = (total as f64 * random.fraction()) as u64;
        let job = slowly(&proxy, command());
        let writer = job.pid();
        let killed = kill_after(job, writer, 0, moment);
        proxy.limit(0);
        assert_none_lost(&expected, [&from, &to], &format!("after {} of {total} bytes", killed.bytes));
        // What was settled and not yet removed is found by its content.
        let ran = Running::start(with(command(), ["--check", "digest"])).end(LIMIT).expect(0);
        assert_eq!(digests(&to), expected);
        assert_eq!((digests(&from).len(), ran.number("sources_left")), (0, 0));
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
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

/// C-2 where the daemon removes its files.
#[test]
fn c2_what_a_killed_daemon_has_removed_is_whole_at_the_destination() {
    let mut random = Random::new("C-2 removing");
    let scratch = Scratch::in_memory();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let total = make_source(&from);
    let expected = digests(&from);
    std::thread::sleep(OLDER_THAN_ITS_COPY);
    let mut daemon = scratch.daemon(&[("data", &from)]);
    let address = daemon.address();
    let proxy = Proxy::new(&address);
    proxy.limit(RATE);
    // What was settled and not yet removed is found by its content.
    let wishes = ["--remove-source-files", "--check", "digest", "--patience", "30s", "--stall-timeout", "5s"];
    let mut job = Running::start(with(pull(&scratch, &proxy.place("data", ""), &to), wishes));
    let kills = quick_or_torture(2, 12);
    for kill in 1..=kills {
        let passed = proxy.passed();
        let until = total / (kills + 1) / 2 + random.below(total / (kills + 1) / 2);
        assert!(wait_until(LIMIT, || proxy.passed() - passed > until || job.is_over()));
        if job.is_over() {
            break;
        }
        daemon.kill();
        assert_none_lost(&expected, [&from, &to], &format!("after kill {kill}"));
        daemon = scratch.daemon_at(&address, &[("data", &from)], &[], |command| command);
    }
    let ran = job.end(LIMIT).expect(0);
    assert!(ran.number("attempts") > 1, "{}", ran.stdout);
    assert_eq!(digests(&to), expected);
    assert_eq!((digests(&from).len(), ran.number("sources_left")), (0, 0));
    assert_no_litter(&to);
    drop(daemon);
}
