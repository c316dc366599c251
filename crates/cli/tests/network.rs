//! Links that fail, stall, and lie: the same job comes to its end, exact, unattended, or says in time that it cannot.
//! Rows N-1 to N-4, N-6 to N-8, P16, C-4 and I-3 of docs/faults.md.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

mod support;

use nix::sys::signal::Signal;
use std::process::Command;
use std::time::{Duration, Instant};
use support::chance::{Random, in_time, quick_or_torture, say, skipped};
use support::copies::{CHUNK_BYTES, LIMIT, STREAMS, Watcher, digests, make_source, pull, push};
use support::job::{Ran, Running, signal, with};
use support::nets::Cable;
use support::proxy::{LIES, Lie, Proxy};
use support::{Daemon, Scratch, assert_no_litter, assert_same, wait_until};

/// A client and a daemon in name spaces of their own, and a tree that takes some seconds over the cable.
struct Site {
    scratch: Scratch,
    cable: Cable,
    total: u64,
    _daemon: Daemon,
}

impl Site {
    fn new(row: &str, rate: &str) -> Option<Site> {
        let cable = Cable::new(row)?;
        cable.limit(rate);
        let scratch = Scratch::in_memory();
        let total = make_source(&scratch.path("from"));
        let to = scratch.path("to");
        std::fs::create_dir(&to).unwrap();
        let listen = format!("{}:8487", Cable::ADDRESS_B);
        let wrap = |command: Command| cable.enter_b(&command);
        let daemon = scratch.daemon_at(&listen, &[("data", &to)], &["--stall-timeout", "10s"], wrap);
        Some(Site { scratch, cable, total, _daemon: daemon })
    }

    fn push(&self, more: &[&str]) -> Running {
        let place = format!("tw://{}:8487/data/", Cable::ADDRESS_B);
        Running::start(self.cable.enter_a(&with(push(&self.scratch, &place), more)))
    }

    /// Waits until so many bytes left since `before`.
    fn sent(&self, before: u64, bytes: u64, at_most: Duration, job: &mut Running) -> bool {
        wait_until(at_most, || self.cable.bytes_sent() > before + bytes || job.is_over())
    }

    fn assert_exact(&self) {
        assert_same(&self.scratch.path("from"), &self.scratch.path("to"));
        assert_no_litter(&self.scratch.path("to"));
    }
}

/// Promised: bytes flow again so soon after the link's return.
const FLOWS_AGAIN: Duration = Duration::from_secs(5);

/// Pulls the cable for `outage` in the middle; the job must go on in time after its return.
fn pull_the_cable(row: &str, outages: &[Duration]) {
    let Some(site) = Site::new(row, "200mbit") else { return };
    let mut job = site.push(&["--patience", "5min", "--stall-timeout", "10s"]);
    for outage in outages {
        assert!(site.sent(0, site.total / 8, LIMIT, &mut job) && !job.is_over());
        site.cable.set(false);
        std::thread::sleep(*outage);
        let (before, up) = (site.cable.bytes_sent(), Instant::now());
        site.cable.set(true);
        let flows = site.sent(before, 512 << 10, LIMIT, &mut job);
        let after = up.elapsed();
        assert!(
            flows && in_time(row, after, FLOWS_AGAIN),
            "{row}: after {outage:?} nothing moved for {after:?}"
        );
    }
    let ran = job.end(LIMIT).expect(0);
    let allowed = (CHUNK_BYTES + (8 << 20)) * STREAMS * outages.len() as u64;
    let again = ran.number("bytes_received").saturating_sub(site.total);
    assert!(again <= allowed, "{again} bytes came again");
    site.assert_exact();
}

#[test]
fn n1_a_link_that_is_down_for_two_seconds_delays_the_job_and_no_more() {
    pull_the_cable("N-1", &[Duration::from_secs(2)]);
}

/// Longer ones fall between the kernel's ever rarer tries to send again.
#[test]
fn n2_a_link_that_is_down_longer_than_the_kernel_likes() {
    let seconds: &[u64] = quick_or_torture(&[8], &[5, 8, 14, 20, 30, 40]);
    let outages: Vec<_> = seconds.iter().map(|&seconds| Duration::from_secs(seconds)).collect();
    for outage in outages {
        pull_the_cable("N-2", &[outage]);
    }
}

#[test]
fn n2_connections_reset_and_refused_for_a_while() {
    let row = "N-2 resets";
    if !support::chance::has("nft") {
        skipped(row, "no nft");
        return;
    }
    let Some(site) = Site::new(row, "200mbit") else { return };
    let mut job = site.push(&["--patience", "2min", "--stall-timeout", "10s"]);
    for verdict in ["reject with tcp reset", "drop"] {
        let before = site.cable.bytes_sent();
        assert!(site.sent(before, site.total / 8, LIMIT, &mut job) && !job.is_over(), "{verdict}");
        site.cable.filter(Some(verdict));
        std::thread::sleep(Duration::from_secs(quick_or_torture(2, 30)));
        let (before, up) = (site.cable.bytes_sent(), Instant::now());
        site.cable.filter(None);
        let flows = site.sent(before, 512 << 10, LIMIT, &mut job);
        let after = up.elapsed();
        assert!(flows && in_time(row, after, FLOWS_AGAIN), "after {verdict} nothing moved for {after:?}");
    }
    job.end(LIMIT).expect(0);
    site.assert_exact();
}

/// Bytes a second over a [`Wire`] that something is to happen to while a copy runs.
const RATE: u64 = 40 << 20;

/// A client, a proxy and a daemon.
struct Wire {
    scratch: Scratch,
    proxy: Proxy,
    total: u64,
    daemon: Daemon,
}

impl Wire {
    fn new(is_push: bool) -> Wire {
        Wire::with(is_push, &["--stall-timeout", "2s"])
    }

    fn with(is_push: bool, more: &[&str]) -> Wire {
        let scratch = Scratch::in_memory();
        let total = make_source(&scratch.path("from"));
        std::fs::create_dir(scratch.path("to")).unwrap();
        let export = scratch.path(if is_push { "to" } else { "from" });
        let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &export)], more, |command| command);
        let proxy = Proxy::new(&daemon.address());
        Wire { scratch, proxy, total, daemon }
    }

    fn copy(&self, is_push: bool, more: &[&str]) -> Running {
        let place = self.proxy.place("data", "");
        let command = match is_push {
            true => push(&self.scratch, &place),
            false => pull(&self.scratch, &place, &self.scratch.path("to")),
        };
        Running::start(with(command, more))
    }

    /// A copy of which so many bytes have passed, and that is not over.
    #[track_caller]
    fn under_way(&self, is_push: bool, (stall, patience): (&str, &str), bytes: u64) -> Running {
        self.proxy.limit(RATE);
        let mut job = self.copy(is_push, &["--stall-timeout", stall, "--patience", patience]);
        assert!(wait_until(LIMIT, || self.proxy.passed() >= bytes || job.is_over()));
        assert!(!job.is_over());
        job
    }

    fn assert_exact(&self) {
        assert_same(&self.scratch.path("from"), &self.scratch.path("to"));
        assert_no_litter(&self.scratch.path("to"));
    }
}

/// A wire that lies at random offsets, on control connections as on streams, in both directions.
fn lying_wire(row: &str, is_push: bool) {
    let mut random = Random::new(row);
    let wire = Wire::new(is_push);
    let expected = digests(&wire.scratch.path("from"));
    let watcher = Watcher::start(&wire.scratch.path("to"), &expected);
    wire.proxy.limit(60 << 20);
    let lies = quick_or_torture(12, 200);
    wire.proxy.lie(random.fork(), &LIES, lies, wire.total / lies);
    let ran = wire.copy(is_push, &["--stall-timeout", "2s", "--patience", "60s"]).end(LIMIT * 2);
    let told = wire.proxy.told();
    assert_eq!(ran.code, Some(0), "{told:?}\n{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(watcher.end(), Vec::<String>::new(), "{told:?}");
    assert!(told.iter().any(|(lie, _)| *lie != Lie::Stall), "{told:?}");
    wire.assert_exact();
    // What was on its way on a stream that died is sent again: a chunk and what the sockets held.
    let allowed = (CHUNK_BYTES + (8 << 20)) * STREAMS * told.len() as u64;
    let again = ran.number("bytes_received").saturating_sub(wire.total);
    assert!(again <= allowed, "{again} bytes came again");
}

#[test]
fn i3_a_push_over_a_wire_that_lies_is_exact() {
    lying_wire("I-3 push", true);
}

#[test]
fn i3_a_pull_over_a_wire_that_lies_is_exact() {
    lying_wire("I-3 pull", false);
}

/// An end of all connections is never taken for the end of the data.
fn connections_end(is_push: bool) {
    let mut random = Random::new("N-3");
    let wire = Wire::new(is_push);
    wire.proxy.limit(RATE);
    let mut job = wire.copy(is_push, &["--stall-timeout", "2s", "--patience", "60s"]);
    let cuts = quick_or_torture(3, 30);
    let mut landed = 0;
    for cut in 0..cuts {
        let until = wire.total / cuts * cut + random.below(wire.total / cuts);
        assert!(wait_until(LIMIT, || wire.proxy.passed() > until || job.is_over()));
        landed += u64::from(wire.proxy.cut());
    }
    job.end(LIMIT).expect(0);
    assert!(landed > 0, "no cut found a connection");
    wire.assert_exact();
}

#[test]
fn n3_connections_of_a_push_that_end_are_dialled_again() {
    connections_end(true);
}

#[test]
fn n3_connections_of_a_pull_that_end_are_dialled_again() {
    connections_end(false);
}

/// Sockets stay open and nothing passes any more.
fn stalls_for_ever(is_push: bool, at: f64) {
    let wire = Wire::new(is_push);
    let job = wire.under_way(is_push, ("2s", "8s"), (wire.total as f64 * at) as u64);
    wire.proxy.stall(true);
    let since = Instant::now();
    let ran: Ran = job.end(LIMIT).expect(3);
    let took = since.elapsed();
    say(&format!("N-4 push {is_push} at {at}: gave up after {took:?}"));
    let is_in_time = in_time("N-4", took, Duration::from_secs(8 + 2 + 5));
    assert!(is_in_time, "at {at}: gave up after {took:?}\n{}", ran.stderr);
    assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
    // And when the path is good again, the same command brings it to its end.
    wire.proxy.stall(false);
    wire.copy(is_push, &[]).end(LIMIT).expect(0);
    wire.assert_exact();
}

#[test]
fn n4_a_push_into_a_stall_ends_in_time() {
    quick_or_torture(&[0.4][..], &[0.0, 0.2, 0.5, 0.8, 0.99])
        .iter()
        .for_each(|&at| stalls_for_ever(true, at));
}

#[test]
fn n4_a_pull_from_a_stall_ends_in_time() {
    quick_or_torture(&[0.4][..], &[0.0, 0.2, 0.5, 0.8, 0.99])
        .iter()
        .for_each(|&at| stalls_for_ever(false, at));
}

/// N-2: up and down once a second.
#[test]
fn n2_a_link_that_flaps_carries_the_job_all_the_same() {
    let Some(site) = Site::new("N-2 flapping", "200mbit") else { return };
    let mut job = site.push(&["--patience", "2min", "--stall-timeout", "10s"]);
    assert!(site.sent(0, site.total / 8, LIMIT, &mut job) && !job.is_over());
    for _ in 0..quick_or_torture(4, 60) {
        site.cable.set(false);
        std::thread::sleep(Duration::from_millis(500));
        site.cable.set(true);
        std::thread::sleep(Duration::from_millis(500));
    }
    job.end(LIMIT).expect(0);
    site.assert_exact();
}

/// N-7: the client's address becomes another one, as after a move or behind a gateway that forgot it.
#[test]
fn n7_a_client_that_gets_another_address_goes_on() {
    let Some(site) = Site::new("N-7", "100mbit") else { return };
    let mut job = site.push(&["--patience", "2min", "--stall-timeout", "5s"]);
    assert!(site.sent(0, site.total / 4, LIMIT, &mut job) && !job.is_over());
    site.cable.renumber();
    let ran = job.end(LIMIT).expect(0);
    assert_eq!(ran.number("attempts"), 1, "it is the same session");
    site.assert_exact();
}

/// N-6: of two streams one is dead from some moment on, its connection open all the same.
fn a_stream_dies_in_silence(is_push: bool) {
    let wire = Wire::with(is_push, &["--stall-timeout", "10s"]);
    let job = wire.under_way(is_push, ("10s", "60s"), wire.total / 4);
    // The control connection came first.
    wire.proxy.kill_quietly(2..3);
    // Long before anybody could have noticed.
    let (since, passed) = (Instant::now(), wire.proxy.passed());
    assert!(wait_until(LIMIT, || wire.proxy.passed() >= passed + wire.total / 8));
    assert!(in_time("N-6", since.elapsed(), Duration::from_secs(2)), "the other stream was held up");
    let ran = job.end(LIMIT).expect(0);
    assert!(!ran.stderr.contains("link lost"), "the other stream carried on: {}", ran.stderr);
    wire.assert_exact();
}

#[test]
fn n6_a_stream_of_a_push_that_dies_in_silence_does_not_hold_the_others() {
    a_stream_dies_in_silence(true);
}

#[test]
fn n6_a_stream_of_a_pull_that_dies_in_silence_does_not_hold_the_others() {
    a_stream_dies_in_silence(false);
}

/// N-8: nobody listens for a while.
#[test]
fn n8_a_port_that_refuses_for_a_while_is_dialled_until_it_does_not() {
    let wire = Wire::new(true);
    let mut job = wire.under_way(true, ("2s", "60s"), wire.total / 3);
    wire.proxy.refuse(true);
    wire.proxy.cut();
    std::thread::sleep(Duration::from_secs(quick_or_torture(3, 30)));
    assert!(!job.is_over());
    wire.proxy.refuse(false);
    job.end(LIMIT).expect(0);
    wire.assert_exact();
}

/// C-4 among many small files: who wakes, or hears nothing, dials anew at once, while what came before is still being
/// written: the same files come twice.
#[test]
fn c4_small_files_come_whole_where_either_side_stands_still_until_it_is_dialled_anew() {
    const DIRECTORIES: u64 = 6;
    const FILES: u64 = 800;
    const STANDS_STILL: Duration = Duration::from_secs(5);
    for are_both in [false, true] {
        let scratch = Scratch::new();
        for directory in 0..DIRECTORIES {
            let directory = scratch.path(&format!("from/{directory}"));
            std::fs::create_dir_all(&directory).unwrap();
            (0..FILES).for_each(|file| std::fs::write(directory.join(file.to_string()), "x").unwrap());
        }
        let to = scratch.path("to");
        std::fs::create_dir(&to).unwrap();
        let daemon = scratch.daemon_with(&[("data", &to)], &["--memory", "16MiB"]);
        let mut command = with(scratch.thalweg(), ["cp", "-q", "--memory", "16MiB", "--ticket"]);
        command.arg(&daemon.ticket).arg(scratch.path("from/")).arg(daemon.place("data", ""));
        let mut job = Running::start(command);
        let has_begun = || std::fs::read_dir(to.join("0")).is_ok_and(|mut names| names.next().is_some());
        assert!(wait_until(LIMIT, || has_begun() || job.is_over()));
        let mut stand_still = vec![daemon.pid()];
        if are_both {
            stand_still.push(job.pid());
        }
        stand_still.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
        std::thread::sleep(STANDS_STILL);
        stand_still.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
        job.end(LIMIT).expect(0);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
    }
}

/// C-4: one side stands still for longer than a stall is borne, and goes on. While it is the client it loses none of
/// its patience.
fn stands_still(is_push: bool, is_client: bool) {
    let wire = Wire::new(is_push);
    let patience = if is_client { "4s" } else { "60s" };
    let job = wire.under_way(is_push, ("2s", patience), wire.total / 3);
    let pid = if is_client { job.pid() } else { wire.daemon.pid() };
    signal(pid, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(quick_or_torture(5, 60)));
    signal(pid, Signal::SIGCONT);
    let ran = job.end(LIMIT);
    // A daemon forgets nobody for so short a time, and a client that comes back finds its session.
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    wire.assert_exact();
    if !is_client && ran.number("attempts") == 1 {
        assert_outage_teaches_nothing(&wire, &ran);
    }
}

/// The time without a link is told, and nobody takes it for what the way costs.
fn assert_outage_teaches_nothing(wire: &Wire, ran: &Ran) {
    let finished = ran.finished();
    let outages = &finished["evidence"]["outages"];
    assert!(outages["count"].as_u64() >= Some(1) && outages["lost_nanos"].as_u64() > Some(0), "{outages}");
    let sentence = finished["sentence"].as_str().unwrap_or_default();
    assert!(sentence.contains("the link was lost"), "{sentence}");
    assert_eq!(finished["prediction"]["missing"], "cut-off");
    assert!(!wire.scratch.path("client-state/profiles.json").exists());
}

#[test]
fn c4_a_client_that_stands_still_longer_than_a_stall_goes_on() {
    stands_still(true, true);
    stands_still(false, true);
}

#[test]
fn c4_a_daemon_that_stands_still_longer_than_a_stall_goes_on() {
    stands_still(true, false);
    stands_still(false, false);
}

/// P16: the far side greets us every time, and of the data too little arrives for anything to be verified. New links
/// are no progress: the patience ends all the same.
#[test]
fn p16_a_peer_that_only_ever_greets_us_does_not_hold_us() {
    let greets = |is_push: bool| {
        let wire = Wire::new(is_push);
        let job = wire.under_way(is_push, ("2s", "8s"), wire.total / 3);
        wire.proxy.mute_after(60_000);
        wire.proxy.cut();
        let since = Instant::now();
        job.end(LIMIT).expect(3);
        assert!(in_time("P16", since.elapsed(), Duration::from_secs(30)), "{:?}", since.elapsed());
        wire.proxy.mute_after(u64::MAX);
        wire.copy(is_push, &[]).end(LIMIT).expect(0);
        wire.assert_exact();
    };
    std::thread::scope(|scope| {
        for is_push in [true, false] {
            scope.spawn(move || greets(is_push));
        }
    });
}

/// P16: and bytes that drip keep the link, but not the job: within the patience something must be verified.
#[test]
fn p16_a_drip_does_not_hold_us_beyond_the_patience() {
    let drips = |is_push: bool| {
        let wire = Wire::new(is_push);
        let job = wire.under_way(is_push, ("2s", "8s"), wire.total / 3);
        // A segment of 1 MiB takes 43 s.
        wire.proxy.limit(24 << 10);
        let since = Instant::now();
        job.end(LIMIT).expect(3);
        assert!(in_time("P16", since.elapsed(), Duration::from_secs(30)), "{:?}", since.elapsed());
        wire.proxy.limit(0);
        wire.copy(is_push, &[]).end(LIMIT).expect(0);
        wire.assert_exact();
    };
    std::thread::scope(|scope| {
        for is_push in [true, false] {
            scope.spawn(move || drips(is_push));
        }
    });
}

/// The far side hears us and its answers vanish; when they come again the job goes on.
#[test]
fn n2_a_link_that_works_one_way_only_is_no_link() {
    let wire = Wire::new(true);
    let mut job = wire.under_way(true, ("2s", "60s"), wire.total / 3);
    wire.proxy.lose_answers(true);
    std::thread::sleep(Duration::from_secs(5));
    assert!(!job.is_over());
    wire.proxy.lose_answers(false);
    job.end(LIMIT).expect(0);
    wire.assert_exact();
}

/// A copy of `bytes` through a proxy that lets `rate` bytes a second pass, and the stall timeout of both sides.
fn over_a_slow_path(is_push: bool, bytes: usize, rate: u64, stall_timeout: &str) {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("from/file"), support::noise(1, bytes)).unwrap();
    let export = scratch.path(if is_push { "to" } else { "from" });
    let daemon = scratch.daemon_with(&[("data", &export)], &["--stall-timeout", stall_timeout]);
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(rate);
    let ticket = scratch.path("ticket").display().to_string();
    let options = ["cp", "--json", "--quiet", "--chunk", "4MiB", "--streams", "1"];
    let options = with(scratch.thalweg(), options);
    let command = with(options, ["--stall-timeout", stall_timeout, "--ticket", &ticket]);
    let command = match is_push {
        true => with(with(command, [scratch.path("from/")]), [proxy.place("data", "")]),
        false => with(with(command, [proxy.place("data", "")]), [scratch.path("to")]),
    };
    let ran = Running::start(command).end(LIMIT).expect(0);
    assert_eq!(ran.number("attempts"), 1);
    let overhead = (bytes / 3) as u64;
    assert!(proxy.passed() < bytes as u64 + overhead, "{} bytes for {bytes}", proxy.passed());
    assert_same(&scratch.path("from"), &scratch.path("to"));
}

/// A chunk that takes longer than the stall timeout is on its way all the same.
#[test]
fn p16_a_slow_path_is_not_a_stalled_one() {
    std::thread::scope(|scope| {
        for is_push in [true, false] {
            scope.spawn(move || over_a_slow_path(is_push, 6 << 20, 512 << 10, "6s"));
        }
    });
}

/// And so is a single frame: it is seen to grow.
#[test]
fn p16_a_frame_that_takes_longer_than_the_stall_timeout_arrives() {
    std::thread::scope(|scope| {
        for is_push in [true, false] {
            scope.spawn(move || over_a_slow_path(is_push, 1 << 20, 64 << 10, "6s"));
        }
    });
}

/// What was named for data streams and leads nowhere: said with its name, and the peer, which answers, is not blamed.
#[test]
fn streams_that_cannot_be_dialled_say_why() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), support::noise(1, 1 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("to"))]);
    let (ticket, place) = (scratch.path("ticket").display().to_string(), daemon.place("data", "file"));
    let file = scratch.path("file").display().to_string();
    let copy = |option: &str, value: &str| {
        // Longer than a stall is borne.
        let limits = ["cp", "--stall-timeout", "5s", "--patience", "12s"];
        let words = ["--ticket", &ticket, option, value, &file, &place];
        let out = scratch.run(limits.into_iter().chain(words));
        assert!(!out.status.success(), "{option} {value}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    for nobodys in ["192.0.2.77", "nosuchcard0"] {
        let said = copy("--bind", nobodys);
        assert!(said.contains(nobodys) && said.contains("this machine has no"), "{said}");
    }
    // Port 1 of this machine: nobody listens there.
    let said = copy("--via", "127.0.0.1:1");
    assert!(said.contains("streams cannot be dialled so far"), "{said}");
    let last = said.lines().rfind(|line| line.contains("error")).unwrap_or_default();
    assert!(last.contains("no stream could be dialled") && last.contains("127.0.0.1:1"), "{said}");
    assert!(last.contains("no address of --via could be reached"), "{said}");
    let hint = said.lines().rfind(|line| line.starts_with("hint: ")).unwrap_or_default();
    assert!(hint.contains("--via") && !hint.contains("thalweg serve"), "{said}");
    assert!(!said.contains("link lost") && !said.contains("link is back"), "{said}");
}

/// A file of 80 KiB at 5 kB/s, to a daemon and from it, both of which bear 5 s of a stall: the link stands all the
/// while.
fn goes_slowly_without_a_stall(command: &str, options: &[&str]) {
    std::thread::scope(|scope| {
        for is_push in [true, false] {
            scope.spawn(move || {
                let scratch = Scratch::in_memory();
                for name in ["from", "to"] {
                    std::fs::create_dir(scratch.path(name)).unwrap();
                }
                let content = support::noise(1, 80 << 10);
                let (from, to) = (scratch.path("from/file"), scratch.path("to/file"));
                std::fs::write(&from, &content).unwrap();
                let export = scratch.path(if is_push { "to" } else { "from" });
                let daemon = scratch.daemon_with(&[("data", &export)], &["--stall-timeout", "5s"]);
                let (ticket, place) = (scratch.path("ticket"), daemon.place("data", "file"));
                let both = [command, "--json", "--bwlimit", "5KB/s", "--stall-timeout", "5s", "--ticket"];
                let command = with(with(with(scratch.thalweg(), both), [&ticket]), options);
                let command = match is_push {
                    true => with(with(command, [&from]), [&place]),
                    false => with(with(command, [&place]), [&to]),
                };
                let ran = Running::start(command).end(LIMIT).expect(0);
                assert!(!ran.stdout.contains("link-lost"), "{}", ran.stdout);
                assert!(std::fs::read(&to).unwrap() == content);
            });
        }
    });
}

/// At 5 kB/s a frame of 64 KiB takes 13 s.
#[test]
fn a_rate_so_low_that_a_frame_takes_longer_than_a_stall_is_no_stall() {
    goes_slowly_without_a_stall("cp", &["--request", "64KiB", "--chunk", "64KiB"]);
}

/// At that rate a piece has 64 KiB: the second one waits for 13 s.
#[test]
fn a_rate_so_low_that_a_piece_of_a_stream_takes_longer_than_a_stall_is_no_stall() {
    goes_slowly_without_a_stall("stream", &["--until-size", "80KiB"]);
}

/// All that move data have streams that are spread.
#[test]
fn an_address_that_this_machine_does_not_have_is_refused_by_all_that_move_data() {
    let scratch = Scratch::new();
    for name in ["from", "export"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/file"), b"content").unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let (ticket, place) = (daemon.ticket.display().to_string(), daemon.place("data", "there"));
    let text = |name: &str| scratch.path(name).display().to_string();
    let (directory, file) = (text("from"), text("from/file"));
    let watch = ["watch", "--idle-exit", "500ms", "--attempts", "1", &directory];
    for words in [
        &["cp", &file][..],
        &["sync", &directory],
        &["stream", &file],
        &watch,
        &["probe", &directory],
        &["frames", "push", "--frame-bytes", "1", &file],
    ] {
        let more = [place.as_str(), "--ticket", &ticket, "--bind", "192.0.2.77"];
        let out = scratch.run([words, &more[..]].concat());
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{words:?}: {said}");
        assert!(said.contains("this machine has no address 192.0.2.77 (--bind)"), "{words:?}: {said}");
    }
}

#[test]
fn a_daemon_that_requires_tls_records_refuses_who_does_not_ask_for_them_and_says_what_to_ask_for() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"content").unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon_with(&[("data", &scratch.path("export"))], &["--require-tls"]);
    let (ticket, file) = (daemon.ticket.display().to_string(), scratch.path("file").display().to_string());
    let frames = ["frames", "push", "--unattended", "--frame-bytes", "1"];
    for (words, name) in [(&["cp"][..], "copied"), (&["stream"], "streamed"), (&frames, "channel")] {
        let place = daemon.place("data", name);
        let to = [file.as_str(), &place, "--ticket", &ticket];
        let refused = scratch.run([words, &to[..]].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("ask for `--cipher tls`"), "{words:?}: {said}");
        let way = ["--cipher", "tls", "--via", "127.0.0.1", "--bind", "127.0.0.1"];
        scratch.ok([words, &to[..], &way[..]].concat());
    }
    for name in ["copied", "streamed"] {
        assert_eq!(std::fs::read(scratch.path("export").join(name)).unwrap(), b"content");
    }
    // What measures moves data too.
    std::fs::write(scratch.path("large"), vec![7; 8 << 20]).unwrap();
    let (large, place) = (scratch.path("large").display().to_string(), daemon.place("data", "large"));
    let words = ["predict", "--json", "--measure", "4s", "--cipher", "tls", "--ticket", &ticket];
    let told = scratch.ok([&words[..], &[&large, &place]].concat());
    let told: serde_json::Value = serde_json::from_str(told.trim()).unwrap();
    assert!(told["seconds"].is_number() && told["probe"].is_object(), "{told}");
    // Who only asks has no data streams.
    let place = daemon.place("data", "");
    assert!(scratch.ok(["ls", "--ticket", &ticket, &place]).contains("copied"));
}
