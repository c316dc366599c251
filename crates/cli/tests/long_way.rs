//! Paths that lose, reorder and repeat packets, that are long, or that swallow large packets without a word: the same
//! copy arrives, exact. Row N-5 of docs/faults.md. And what the plan says where the systems of both ends keep windows
//! short on a long one.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};
use support::chance::{say, skipped};
use support::job::Running;
use support::testbed::Testbed;
use support::{Daemon, assert_no_litter, assert_same, noise, wait_until};

/// A copy over such a path ends in this time, or it is stuck.
const LIMIT: Duration = Duration::from_secs(300);
const MIB: usize = 1 << 20;

/// A daemon on the right, with an empty directory; it goes before the testbed does.
struct Site {
    _daemon: Daemon,
    testbed: Testbed,
}

impl Site {
    fn up(options: &[&str]) -> Option<Site> {
        let testbed = Testbed::up("N-5", options)?;
        let to = testbed.scratch.path("to");
        std::fs::create_dir(&to).unwrap();
        std::fs::create_dir(testbed.scratch.path("from")).unwrap();
        let wrap = |mut command: Command| testbed.enter("right", command.env("THALWEG_LOG", "info"));
        let daemon = testbed.scratch.daemon_at("right:8487", &[("data", &to)], &[], wrap);
        Some(Site { _daemon: daemon, testbed })
    }

    fn push(&self, bytes: usize, more: &[&str]) -> Running {
        self.push_told(bytes, &[&["--json"], more].concat())
    }

    /// The same, told for people.
    fn push_told(&self, bytes: usize, more: &[&str]) -> Running {
        let scratch = &self.testbed.scratch;
        std::fs::write(scratch.path("from/large"), noise(bytes as u64, bytes)).unwrap();
        let mut command = scratch.thalweg();
        command.args(["cp", "--ticket"]).arg(scratch.path("ticket")).args(more);
        command.arg(format!("{}/", scratch.path("from").display())).arg("tw://right:8487/data/");
        Running::start(self.testbed.enter("left", &command))
    }

    /// Pushes so much and reports at which rate.
    fn copies(&self, what: &str, bytes: usize) {
        let began = Instant::now();
        self.push(bytes, &[]).end(LIMIT).expect(0);
        let seconds = began.elapsed().as_secs_f64();
        say(&format!("N-5 {what}: {:.1} Mbit/s", bytes as f64 * 8e-6 / seconds));
        self.assert_exact();
    }

    fn assert_exact(&self) {
        let scratch = &self.testbed.scratch;
        assert_same(&scratch.path("from"), &scratch.path("to"));
        assert_no_litter(&scratch.path("to"));
    }
}

#[test]
fn n5_packets_that_are_lost_late_or_doubled_cost_time_only() {
    let options =
        ["--rtt", "20ms", "--rate", "200Mbit/s", "--loss", "1%", "--reorder", "1%", "--duplicate", "1%"];
    let Some(site) = Site::up(&options) else { return };
    site.copies("1 % lost, late and doubled, 20 ms", 12 * MIB);
    site.testbed.set(&["--loss", "10%"]);
    site.copies("10 % lost, 20 ms", 2 * MIB);
}

#[test]
fn n5_a_path_of_300_ms_at_1_gbit_per_s() {
    let Some(site) = Site::up(&["--rtt", "300ms", "--rate", "1Gbit/s"]) else { return };
    site.copies("300 ms, 1 Gbit/s", 48 * MIB);
}

/// Sockets that are connected before they are wanted: one that no stream takes would be a stranger to the daemon, who
/// is turned away. And a goodbye that is not waited for: one that was not heard would leave a session with a lost link.
#[test]
fn each_connection_that_a_long_way_has_begun_early_becomes_a_stream_and_each_goodbye_is_heard() {
    let Some(site) = Site::up(&["--rtt", "100ms"]) else { return };
    let connections = || {
        let told = site.testbed.run(&["right", "cat", "/proc/net/snmp"]);
        let mut lines = told.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let names = lines.next().expect("names").split_whitespace();
        let mut values = names.zip(lines.next().expect("values").split_whitespace());
        let (_, value) = values.find(|(name, _)| *name == "PassiveOpens").expect("a counter");
        value.parse::<u64>().expect("a number")
    };
    for streams in [2, 12] {
        let before = connections();
        // Whether another number does better is not tried meanwhile.
        let ran = site.push(MIB, &["--no-tune", "--streams", &streams.to_string()]).end(LIMIT);
        ran.expect(0);
        assert_eq!(connections() - before, streams + 1, "the control connection, and the streams");
        site.assert_exact();
        std::fs::remove_file(site.testbed.scratch.path("to/large")).unwrap();
    }
    // What asks for no stream begins none.
    let before = connections();
    let mut ls = site.testbed.scratch.thalweg();
    ls.args(["ls", "--ticket"]).arg(site.testbed.scratch.path("ticket")).arg("tw://right:8487/data/");
    Running::start(site.testbed.enter("left", &ls)).end(LIMIT).expect(0);
    assert_eq!(connections() - before, 1);
    let log = || site.testbed.scratch.server_log();
    let in_order =
        || log().lines().filter(|line| line.contains("session ended") && !line.contains("why=")).count();
    assert!(wait_until(LIMIT, || in_order() == 3), "{}", log());
    for bad in ["turned away", "link lost", "the client ended its session"] {
        assert!(!log().contains(bad), "{bad}: {}", log());
    }
}

/// The far side's card takes only small packets from some moment on, and nobody tells the sender (a path MTU black
/// hole, RFC 2923 section 2.1).
#[test]
fn n5_a_path_that_swallows_large_packets_in_the_middle_is_dialled_anew() {
    let Some(site) = Site::up(&["--rtt", "10ms", "--rate", "200Mbit/s"]) else { return };
    let mut job = site.push(32 * MIB, &["--bwlimit", "4MB/s", "--stall-timeout", "5s", "-v"]);
    let arrived =
        || std::fs::read_dir(site.testbed.scratch.path("to")).is_ok_and(|mut names| names.next().is_some());
    assert!(wait_until(LIMIT, || arrived() || job.is_over()));
    let links = site.testbed.run(&["right", "ip", "-o", "link"]);
    let card = links.lines().filter_map(|line| line.split(": ").nth(1)).find(|name| !name.starts_with("lo"));
    let card = card.and_then(|name| name.split('@').next()).expect("a card").to_owned();
    site.testbed.run(&["right", "ip", "link", "set", "dev", &card, "mtu", "600"]);
    assert!(!job.is_over(), "it was too quick for this test");
    let ran = job.end(LIMIT).expect(0);
    let is_lost = ["stream-lost", "link-lost"].iter().any(|event| ran.stdout.contains(event));
    assert!(is_lost, "nothing was dialled anew: {}", ran.stdout);
    site.assert_exact();
}

/// At 100 ms no stream carries more than its window ten times a second: the setting, its side, what it allows, and what
/// is used instead.
#[test]
fn the_setting_that_keeps_a_stream_from_a_long_way_is_named_with_its_side_and_more_streams_are_used() {
    let most = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
        text.trim().parse::<u64>().unwrap()
    };
    let (receive, send) = (most("rmem_max"), most("wmem_max"));
    // What autotuning may take counts from twice what may be asked for on: the kernel doubles that.
    let (tuned_receive, tuned_send) = ((2 * receive).max(4 << 20), (2 * send).max(4 << 20));
    if receive.max(tuned_send) > 64 << 20 {
        return skipped("windows of a long way", "its sockets may have so much that no window binds");
    }
    let (wide, narrow) = (1_u64 << 30, 128_u64 << 10);
    for (rmem, wmem, named, allowed) in [
        (tuned_receive, wide, "net.ipv4.tcp_rmem of the receiver", tuned_receive),
        (narrow, wide, "net.core.rmem_max of the receiver", receive),
        (wide, tuned_send, "net.ipv4.tcp_wmem of the sender", tuned_send),
    ] {
        let rmem = format!("net.ipv4.tcp_rmem=4096 131072 {rmem}");
        let wmem = format!("net.ipv4.tcp_wmem=4096 16384 {wmem}");
        let Some(site) = Site::up(&["--rtt", "100ms", "--sysctl", &rmem, "--sysctl", &wmem]) else { return };
        let ran = site.push_told(MIB, &["--dry-run", "--no-tune"]).end(LIMIT).expect(0);
        let told = format!("{}\n{}", ran.stdout, ran.stderr);
        let sentence = told.lines().find(|line| line.contains("no stream can pass"));
        let sentence = sentence.unwrap_or_else(|| panic!("{named}: nothing told\n{told}"));
        // To a tenth of a MiB below ten of them, else whole.
        let mebibytes = allowed as f64 / f64::from(1 << 20);
        let allowed = match mebibytes >= 10.0 {
            true => format!("{mebibytes:.0} MiB"),
            false => format!("{mebibytes:.1} MiB"),
        };
        assert!(sentence.contains(&format!("{named} allows {allowed}: at ")), "{sentence}");
        let streams = told.lines().find_map(|line| line.trim().strip_prefix("streams "));
        let streams = streams.and_then(|rest| rest.split_whitespace().next()).expect("how many streams");
        assert!(streams.parse::<u16>().unwrap() > 1, "{told}");
        assert!(sentence.ends_with(&format!("; using {streams} streams instead")), "{sentence}");
    }
}
