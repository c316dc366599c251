//! The testbed does what it was asked to, seen by other people's programs (ping, iperf3), and leaves nothing behind.
//!
//! These are measurements on a machine that has other things to do, and may be slow: how near a path comes to what was
//! asked is told here and asked by `thalweg testbed check`. What is asked here is what no busy machine changes: no rate
//! above the line's and no packet too early, and of lower rates and longer times only what shows that the path is the
//! one that was asked for. Each may be measured three times.

mod support;

#[path = "testbed/kills.rs"]
mod kills;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::chance::{quick_or_torture, say, skipped};
use support::testbed::Testbed;
use support::{Scratch, finish, wait_until};

const TRIES: usize = 3;

/// A packet may come so much too early: what was taken off for this machine's own part when the testbed came up, on a
/// machine that was idler then (0.3 ms in each direction at most), and what leaves together. How exact a path is when
/// nothing else runs, says `thalweg bench path`.
const EARLY_MS: f64 = 0.7;

/// The least round trip that ping may tell of: it writes three digits.
fn earliest(ms: f64) -> f64 {
    ms * 0.99 - EARLY_MS
}

trait Measures {
    fn pid(&self) -> Pid;
    /// Round trip times in milliseconds, sorted.
    fn ping_ms(&self, count: &str) -> Vec<f64> {
        self.ping_ms_between(["left", "right"], count)
    }
    fn ping_ms_between(&self, hosts: [&str; 2], count: &str) -> Vec<f64>;
    fn iperf3(&self, options: &[&str]) -> Value {
        self.iperf3_between(["left", "right"], options)
    }
    fn iperf3_between(&self, hosts: [&str; 2], options: &[&str]) -> Value;
}

impl Measures for Testbed {
    fn pid(&self) -> Pid {
        let pid = self.json("status", &[])["pid"].as_i64().expect("a process number");
        Pid::from_raw(i32::try_from(pid).unwrap())
    }

    fn ping_ms_between(&self, [from, to]: [&str; 2], count: &str) -> Vec<f64> {
        // Before other programs, or it measures how long it waits for a core.
        let text = self.run(&[from, "chrt", "-f", "1", "ping", "-n", "-i", "0.01", "-c", count, to]);
        let mut times: Vec<f64> = text
            .lines()
            .filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse().ok())
            .collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// What iperf3 says at its end, a server of it being in the second host.
    fn iperf3_between(&self, [from, to]: [&str; 2], options: &[&str]) -> Value {
        let serve = [to, "iperf3", "--server", "--one-off"];
        let mut server = self.command("run", &serve).stdout(Stdio::null()).spawn().expect("start");
        let words = [&[from, "iperf3", "--client", to, "--json"], options].concat();
        let mut answer = Value::Null;
        eventually("iperf3 answers", || {
            let output = self.do_it("run", &words);
            answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
            answer["error"].is_null()
        });
        let _ = server.kill();
        let _ = server.wait();
        answer
    }
}

fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(wait_until(Duration::from_secs(60), is_so), "not so in 60 s: {what}");
}

/// Until it is as it should be, at most [`TRIES`] times.
fn within(mut measure: impl FnMut() -> Result<(), String>) {
    let mut said = Vec::new();
    for _ in 0..TRIES {
        match measure() {
            Ok(()) => return,
            Err(why) => said.push(why),
        }
    }
    panic!("{}", said.join("; "));
}

#[test]
fn a_ping_takes_the_round_trip_time() {
    let Some(testbed) = Testbed::up("round trip time", &["--rtt", "10ms"]) else { return };
    for (option, ms) in [("10ms", 10.0), ("100ms", 100.0)] {
        testbed.set(&["--rtt", option]);
        within(|| {
            let times = testbed.ping_ms("30");
            assert_eq!(times.len(), 30);
            assert!(times[0] > earliest(ms), "{times:?}");
            let (least, median) = (times[0], times[times.len() / 2]);
            say(&format!("testbed: round trips of {option} take {least} ms at least, {median} ms mostly"));
            // Once both ways, not twice.
            if least < ms * 1.5 { Ok(()) } else { Err(format!("{least} ms at {option}")) }
        });
    }
}

/// All presets, one after another on a testbed that runs; what is named besides goes over the preset.
#[test]
fn a_path_of_a_paper_comes_up_as_it_is_told() {
    let Some(testbed) = Testbed::up("presets", &["--preset", "usn-128ms"]) else { return };
    let is_it = |preset: &str, ms: f64, gbit: f64| {
        let paths = &testbed.json("status", &[])["spec"]["paths"];
        let number = |direction: &str, name: &str| paths[direction][name].as_f64().expect("a number");
        let rtt_ns = number("forward", "delay_ns") + number("back", "delay_ns");
        assert!((rtt_ns / 1e6 - ms).abs() < 1e-6, "{preset}: {paths}");
        for direction in ["forward", "back"] {
            assert_eq!(number(direction, "rate_bits_per_s"), gbit * 1e9, "{preset}");
            let least = (gbit * 1e9 * ms / 8e3).max(262_144.0) - 1.0;
            assert!(number(direction, "queue_bytes") >= least, "a queue of the path: {paths}");
        }
        within(|| {
            let times = testbed.ping_ms("20");
            assert!(times[0] > earliest(ms), "{preset}: {times:?}");
            let off = times[0] - ms;
            // The machine's own part is more than the shortest path.
            if off <= (ms * 0.25).max(3.0) { Ok(()) } else { Err(format!("{preset} by {off} ms")) }
        });
    };
    is_it("usn-128ms", 128.0, 9.6);
    for (preset, ms, gbit) in [
        ("metro", 10.0, 100.0),
        ("interstate", 50.0, 100.0),
        ("continental", 100.0, 100.0),
        ("production-74ms", 74.0, 100.0),
        ("petabyte", 6.0, 100.0),
        ("streaming", 16.0, 25.0),
        ("usn-0.28ms", 0.28, 9.6),
        ("usn-26.8ms", 26.8, 9.6),
        ("usn-163ms", 163.0, 9.6),
    ] {
        testbed.set(&["--preset", preset]);
        is_it(preset, ms, gbit);
    }
    testbed.set(&["--preset", "petabyte", "--rate", "50Mbit/s"]);
    let status = testbed.json("status", &[]);
    let scaling = status["scaling"].as_array().expect("what is not as in the paper");
    assert_eq!((scaling.len(), scaling[0]["to"].as_str()), (1, Some("50 Mbit/s")), "{status}");
    is_it("petabyte, slower", 6.0, 0.05);
    within(|| {
        let told = testbed.iperf3(&["-t", "2", "-O", "1", "-C", "cubic"]);
        let share = told["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate") / 50e6;
        assert!(share < 1.0, "more than the line carries: {share}");
        if share > 0.5 { Ok(()) } else { Err(format!("{share} of the line")) }
    });
}

#[test]
fn hosts_of_both_sides_reach_each_other_over_one_path() {
    let options = ["--hosts", "2+3", "--rtt", "40ms", "--rate", "40Mbit/s", "--stock"];
    let Some(testbed) = Testbed::up("several hosts", &options) else { return };
    let hosts = testbed.json("status", &[])["hosts"].as_array().expect("hosts").len();
    assert_eq!(hosts, 5);
    for left in ["left-1", "left-2"] {
        for right in ["right-1", "right-2", "right-3"] {
            for ends in [[left, right], [right, left]] {
                let times = testbed.ping_ms_between(ends, "3");
                assert!(times.len() == 3 && times[0] > earliest(40.0), "{ends:?}: {times:?}");
            }
        }
    }
    for ends in [["left-2", "left-1"], ["right-3", "right-1"]] {
        let times = testbed.ping_ms_between(ends, "10");
        assert!(times[0] < 20.0, "without the path: {times:?}");
    }
    // Two at once share the line.
    within(|| {
        let rates: Vec<f64> = std::thread::scope(|scope| {
            let testbed = &testbed;
            let pairs = [["left-1", "right-2"], ["left-2", "right-3"]];
            let both = pairs.map(|hosts| {
                scope.spawn(move || {
                    let told = testbed.iperf3_between(hosts, &["-t", "3", "-O", "2", "-C", "cubic"]);
                    told["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate")
                })
            });
            both.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        // They do not begin in the same moment, so what each has by itself may be in both.
        let (sum, one) = ((rates[0] + rates[1]) / 40e6, rates[0].max(rates[1]) / 40e6);
        assert!(one < 1.0, "{rates:?}");
        if (0.5..1.3).contains(&sum) { Ok(()) } else { Err(format!("{rates:?}")) }
    });
}

#[test]
fn the_line_carries_its_rate() {
    let options = ["--rtt", "20ms", "--rate", "100Mbit/s", "--stock"];
    let Some(testbed) = Testbed::up("rate", &options) else { return };
    // Of the second only what the first cannot carry: how much there is beyond is the machine's doing.
    for (rate, mbit_per_s, least) in [("100Mbit/s", 100.0, 0.5), ("1Gbit/s", 1000.0, 0.11)] {
        testbed.set(&["--rate", rate]);
        // Payload of TCP with time stamps in an Ethernet frame of 1500 bytes.
        let expected = mbit_per_s * 1448.0 / 1538.0;
        for streams in ["1", "4"] {
            within(|| {
                let told = testbed.iperf3(&["-t", "3", "-O", "2", "-C", "cubic", "-P", streams]);
                let bits = told["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
                let share = bits / 1e6 / expected;
                say(&format!("testbed: {streams} streams at {rate}: {share:.3} of what there is"));
                // 3 %: iperf3 counts what arrived up to a moment somewhat after its last second; a machine that is held
                // up then has a longer second.
                let is_so = (least..1.03).contains(&share);
                if is_so { Ok(()) } else { Err(format!("{streams} streams at {rate}: {share}")) }
            });
        }
    }
    let status = testbed.json("status", &[]);
    let forward = &status["status"]["forward"];
    let number = |value: &Value| value.as_u64().expect("a number");
    // What a wire that is not let run could not take.
    say(&format!("testbed: {} packets lost by the machine", number(&forward["trouble"])));
    let counters = &forward["counters"];
    assert!(
        number(&counters["handled"]) < number(&counters["packets"]),
        "super-packets come whole: {status}"
    );
    assert!(number(&counters["queued_bytes_max"]) <= 2_500_000, "one bandwidth-delay product: {status}");
    assert!(status["status"]["cpu_seconds_per_gb"].as_f64().is_some_and(|cost| cost > 0.0));
}

#[test]
fn each_direction_has_its_own_delay_and_rate() {
    let options = [
        "--forward-delay",
        "15ms",
        "--back-delay",
        "5ms",
        "--forward-rate",
        "200Mbit/s",
        "--back-rate",
        "20Mbit/s",
    ];
    let Some(testbed) = Testbed::up("asymmetric", &[&options[..], &["--stock"]].concat()) else { return };
    within(|| {
        let least = testbed.ping_ms("20")[0];
        if (earliest(20.0)..30.0).contains(&least) { Ok(()) } else { Err(format!("{least} ms")) }
    });
    for (turned, mbit_per_s) in [(&[][..], 200.0), (&["--reverse"][..], 20.0)] {
        within(|| {
            let told = testbed.iperf3(&[&["-t", "2", "-O", "1", "-C", "cubic"], turned].concat());
            let bits = told["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
            let share = bits / 1e6 / (mbit_per_s * 1448.0 / 1538.0);
            say(&format!("testbed: {turned:?}: {share:.3} of what there is"));
            if (0.3..1.03).contains(&share) { Ok(()) } else { Err(format!("{turned:?}: {share}")) }
        });
    }
}

/// Of both directions, in bytes, as `status` tells them.
fn queues(testbed: &Testbed) -> [u64; 2] {
    let paths = testbed.json("status", &[])["spec"]["paths"].clone();
    ["forward", "back"].map(|direction| paths[direction]["queue_bytes"].as_u64().expect("a queue"))
}

/// Through a shell, as whoever reads them types them.
#[test]
fn the_commands_that_a_named_testbed_tells_of_are_those_for_it() {
    let row = "commands of a named testbed";
    let Some(testbed) = Testbed::up_bare(row, &["--name", "other"]) else { return };
    assert!(testbed.do_it("down", &["--name", "other"]).status.success());
    let output = testbed.do_it("up", &["--name", "other"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told_after = |what: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(what)).expect(what);
        line.strip_prefix("thalweg ").expect(what).replace("CMD", "true")
    };
    for what in ["run a program in a host: ", "remove all of it: "] {
        let line = format!("{} {}", env!("CARGO_BIN_EXE_thalweg"), told_after(what));
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(shell.spawn().expect("a shell"));
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let left = testbed.do_it("status", &["--name", "other"]);
    assert_eq!(left.status.code(), Some(3), "{}", String::from_utf8_lossy(&left.stdout));
}

#[test]
fn what_is_not_named_stays_also_a_queue_and_a_default_one_goes_with_the_path() {
    let asked = ["--rtt", "80ms", "--rate", "100Mbit/s", "--queue", "300KiB"];
    let Some(testbed) = Testbed::up_bare("queues", &asked) else { return };
    assert_eq!(queues(&testbed), [307_200; 2]);
    for change in
        [["--rtt", "40ms"], ["--rate", "1Gbit/s"], ["--forward-rate", "2Gbit/s"], ["--preset", "metro"]]
    {
        testbed.set(&change);
        assert_eq!(queues(&testbed), [307_200; 2], "{change:?}");
    }
    assert!(testbed.do_it("down", &[]).status.success());
    assert!(testbed.do_it("up", &["--rtt", "80ms", "--rate", "100Mbit/s"]).status.success());
    assert_eq!(queues(&testbed), [1_000_000; 2]);
    testbed.set(&["--forward-rate", "200Mbit/s"]);
    assert_eq!(queues(&testbed), [2_000_000, 1_000_000]);
    testbed.set(&["--no-rate"]);
    testbed.set(&["--rtt", "40ms", "--rate", "1Gbit/s"]);
    assert_eq!(queues(&testbed), [5_000_000; 2]);
}

#[test]
fn loss_lies_in_the_binomial_interval_and_late_and_double_packets_are_seen() {
    let options = ["--rtt", "4ms", "--loss", "1%", "--reorder", "1%", "--duplicate", "1%", "--stock"];
    let Some(testbed) = Testbed::up("loss", &options) else { return };
    // By iperf3: 100-byte packets, 500 a second, for a receiver that is not let run for long loses some by itself.
    testbed.set(&["--reorder", "0", "--duplicate", "0"]);
    within(|| {
        let told = testbed.iperf3(&["-u", "-l", "100", "-b", "400k", "-t", "6"]);
        let number = |name: &str| told["end"]["sum"][name].as_f64().expect("a number");
        let (packets, lost) = (number("packets"), number("lost_packets"));
        let deviation = (packets * 0.01 * 0.99).sqrt();
        let is_within = packets > 1000.0 && (lost - packets * 0.01).abs() <= 4.0 * deviation;
        if is_within { Ok(()) } else { Err(format!("{lost} of {packets}")) }
    });
    testbed.set(&["--reorder", "1%", "--duplicate", "1%"]);
    within(|| {
        let told = testbed.json("check", &[]);
        // Round trips and rates have tests of their own.
        let lines = told["report"]["lines"].as_array().expect("lines");
        let counts = lines.iter().filter(|line| line["unit"] == "packets");
        let number = |line: &Value, name: &str| line[name].as_f64().expect("a number");
        let is_off = |line: &&Value| {
            (number(line, "measured") - number(line, "expected")).abs() > number(line, "tolerance")
        };
        let off: Vec<&Value> = counts.clone().filter(is_off).collect();
        assert!(counts.count() == 7, "{told}");
        if off.is_empty() { Ok(()) } else { Err(format!("{off:?}")) }
    });
    // A share of the packets on the wire, not of the super-packets that the kernel hands over.
    testbed.set(&["--loss", "1e-3", "--reorder", "0", "--duplicate", "0", "--rate", "500Mbit/s"]);
    let before = testbed.json("status", &[])["status"]["forward"]["counters"].clone();
    let told = testbed.iperf3(&["-t", "3", "-C", "cubic", "-P", "4"]);
    let after = testbed.json("status", &[])["status"]["forward"].clone();
    let grown = |name: &str| after["counters"][name].as_f64().unwrap() - before[name].as_f64().unwrap();
    let (packets, lost, handled) = (grown("packets"), grown("lost"), grown("handled"));
    assert!(handled < packets, "super-packets: {handled} of {packets}");
    assert!((lost - packets * 1e-3).abs() <= 4.0 * (packets * 1e-3).sqrt() + 1.0, "{lost} of {packets}");
    // TCP sends again what is lost; what only came late on a busy machine as well.
    let again = told["end"]["sum_sent"]["retransmits"].as_f64().expect("retransmits");
    let dropped = lost + grown("overflowed");
    say(&format!("testbed: {again} packets sent again, {dropped} dropped"));
    assert!(again >= dropped * 0.9, "{again} sent again, {dropped} dropped");
}

#[test]
fn a_change_takes_effect_while_programs_run() {
    let Some(testbed) = Testbed::up("set", &["--rtt", "10ms"]) else { return };
    let mut ping = testbed.command("run", &["left", "ping", "-n", "-i", "0.02", "-w", "300", "right"]);
    let mut ping = ping.spawn().expect("start");
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok();
    let mut times = BufReader::new(ping.stdout.take().expect("its output"))
        .lines()
        .filter_map(|line| time(&line.expect("a line")));
    // Five as they were, then five as they are: however long it takes, ping ends after five minutes.
    assert_eq!(
        times.by_ref().filter(|time| (earliest(10.0)..earliest(60.0)).contains(time)).take(5).count(),
        5,
        "before"
    );
    testbed.set(&["--rtt", "60ms"]);
    let listed = String::from_utf8_lossy(&testbed.do_it("list", &[]).stdout).into_owned();
    assert!(listed.contains("round trip 60 ms"), "as it is now: {listed}");
    let listed = testbed.json("list", &[]);
    assert_eq!(listed["paths"]["forward"]["delay_ns"], 30_000_000, "as it is now: {listed}");
    assert_eq!(times.filter(|time| *time > earliest(60.0)).take(5).count(), 5, "after");
    kill(Pid::from_raw(ping.id() as i32), Signal::SIGTERM).unwrap();
    let _ = ping.wait();
}

#[test]
fn a_check_says_what_it_could_not_measure() {
    let Some(testbed) = Testbed::up(
        "check",
        &["--rtt", "4ms", "--rate", "100Mbit/s", "--forward-loss", "1%", "--jitter", "1ms"],
    ) else {
        return;
    };
    let told = String::from_utf8_lossy(&testbed.do_it("check", &[]).stdout).into_owned();
    assert!(told.contains("--  forward: rate: where packets are lost"), "{told}");
    assert!(told.contains(" jitter: standard deviation of the round trip time"), "{told}");
    assert!(told.contains(" back: ") && !told.contains("--  back:") && told.contains("CPU-s/GB"), "{told}");
    testbed.do_it("set", &["--loss", "100%"]);
    let all_lost = testbed.do_it("check", &[]);
    let told = String::from_utf8_lossy(&all_lost.stdout).into_owned();
    assert!(told.contains("--  round trip time: no packet can come back"), "{told}");
    // What the wire lost by itself is in the exit code as well.
    assert!(told.contains(" forward: ") && all_lost.status.code() != Some(3), "{all_lost:?}");
}

#[test]
fn a_program_keeps_its_exit_code_its_signals_and_its_hosts() {
    let Some(testbed) =
        Testbed::up("run", &["--hosts", "2+1", "--sysctl", "net.ipv4.tcp_rmem=4096 8192 16384"])
    else {
        return;
    };
    let output = testbed.do_it("run", &["left", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let buffers = testbed.run(&["left-2", "cat", "/proc/sys/net/ipv4/tcp_rmem"]);
    assert_eq!(buffers.split_whitespace().collect::<Vec<_>>(), ["4096", "8192", "16384"]);
    assert!(testbed.run(&["right", "getent", "hosts", "left-2"]).contains("10.77.1.2"));
    // Hosts of one side reach each other, and not by way of the path.
    testbed.run(&["left-2", "ping", "-c", "1", "left"]);
    assert_eq!(testbed.json("status", &[])["status"]["forward"]["counters"]["packets"], 0);

    let sleeping = testbed.command("run", &["left", "sleep", "600"]).spawn().expect("start");
    let process = Pid::from_raw(sleeping.id() as i32);
    let command_line = format!("/proc/{process}/cmdline");
    eventually("the program runs", || {
        std::fs::read(&command_line).is_ok_and(|bytes| bytes.starts_with(b"sleep"))
    });
    kill(process, Signal::SIGTERM).unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(finish(sleeping).status.signal(), Some(Signal::SIGTERM as i32));

    let again = testbed.do_it("up", &[]);
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("a testbed `testbed` is up"));
    let other = testbed.do_it("up", &["--name", "other"]);
    assert!(other.status.success(), "several at once: {}", String::from_utf8_lossy(&other.stderr));
    assert_eq!(String::from_utf8_lossy(&testbed.do_it("list", &[]).stdout).lines().count(), 2);
    assert!(testbed.do_it("down", &["--all"]).status.success());
    assert!(testbed.do_it("list", &[]).stdout.is_empty());
}

#[test]
fn down_leaves_nothing_and_ends_what_runs_inside() {
    let Some(testbed) = Testbed::up("down", &["--rtt", "4ms"]) else { return };
    assert!(testbed.do_it("down", &[]).status.success());
    // In a namespace of its own, where nobody else makes devices.
    let program = env!("CARGO_BIN_EXE_thalweg");
    let state = testbed.scratch.path("testbeds");
    let script = format!(
        "look() {{ ip netns list; ip -o link; nft list ruleset; ls -A {0}/testbed; }}
         mkdir -p -m 700 {0}/testbed; look > $1/before
         {program} testbed up --state {0} --rtt 4ms && {program} testbed run --state {0} left ping -c 1 right
         {program} testbed run --state {0} right sh -c \"touch $1/inside; exec sleep 600\" & \
         for i in $(seq 600); do [ -e $1/inside ] && break; sleep 0.1; done
         {program} testbed down --state {0} && wait
         look > $1/after; cat $1/before; cmp $1/before $1/after",
        state.display()
    );
    let mut command = Command::new("unshare");
    let scratch = testbed.scratch.path("");
    command.args(["--net", "sh", "-c", &script, "sh"]).arg(&scratch);
    let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("unshare"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("1 program in it was ended") && stdout.contains("1 received"), "{stdout}");
}

/// One that does not end when asked to, and then starts again what was ended.
#[test]
fn down_also_ends_what_is_started_while_it_ends_others() {
    let Some(testbed) = Testbed::up_bare("started again", &[]) else { return };
    let inside = testbed.scratch.path("inside");
    let script = format!("trap : TERM; : > {}; while :; do sleep 600; done", inside.display());
    let mut command = testbed.command("run", &["left", "sh", "-c", &script]);
    // What is left of it in the case of a failure keeps no pipe open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let supervisor = command.spawn().expect("start");
    eventually("it runs", || inside.exists());
    let space_of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let space = space_of(&supervisor.id().to_string()).expect("its network namespace");
    let pids_inside = || -> Vec<String> {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let names = all.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|pid| space_of(pid).as_ref() == Some(&space)).collect()
    };
    eventually("it runs a program", || pids_inside().len() == 2);
    let down = testbed.do_it("down", &[]);
    let left = pids_inside();
    for pid in &left {
        let _ = kill(Pid::from_raw(pid.parse().expect("a number")), Signal::SIGKILL);
    }
    finish(supervisor);
    assert!(left.is_empty() && down.status.success(), "{left:?} {down:?}");
}

/// A socket's path has at most 107 bytes.
#[test]
fn a_testbed_stands_in_a_directory_of_any_length_and_can_be_removed_from_within() {
    let Some(testbed) = Testbed::up("long", &["--rtt", "4ms"]) else { return };
    let state = testbed.scratch.path(&"d".repeat(150)).display().to_string();
    std::fs::create_dir(&state).unwrap();
    let program = env!("CARGO_BIN_EXE_thalweg");
    let thalweg = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(["testbed", words[0], "--state", &state]).args(&words[1..]);
        let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    thalweg(&["up", "--name", "far-away", "--rtt", "4ms"]);
    assert!(thalweg(&["status", "--name", "far-away"]).contains("round trip 4 ms"));
    // Who removes it from one of its hosts comes to the end of it.
    let within = [
        "run", "--name", "far-away", "left", program, "testbed", "down", "--name", "far-away", "--state",
        &state,
    ];
    assert!(thalweg(&within).contains("testbed `far-away` is down"));
    assert_eq!(thalweg(&["list"]), "");
}

/// Headers of IP and ICMP are 28 bytes. One that is a byte too long is refused where it is sent, as it may not be taken
/// apart.
#[test]
fn an_mtu_that_was_asked_for_holds_to_the_byte() {
    let Some(testbed) = Testbed::up("mtu", &[]) else { return };
    for mtu in [1400_u32, 9000] {
        assert!(testbed.do_it("down", &[]).status.success());
        let words = mtu.to_string();
        let up = testbed.do_it("up", &["--rtt", "2ms", "--mtu", &words]);
        assert!(up.status.success(), "{up:?}");
        for (from, to) in [("left", "right"), ("right", "left")] {
            let ping = |bytes: u32| {
                let bytes = bytes.to_string();
                let line = [from, "ping", "-n", "-c", "3", "-i", "0.2", "-M", "do", "-s", &bytes, to];
                testbed.do_it("run", &line)
            };
            let (whole, longer) = (ping(mtu - 28), ping(mtu - 27));
            assert!(whole.status.success(), "{mtu}, {from}: {whole:?}");
            assert!(!longer.status.success(), "{mtu}, {from}: {longer:?}");
            let told = [longer.stdout, longer.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            assert!(told.contains("too long") && told.contains(&words), "{mtu}, {from}: {told}");
        }
    }
}

/// One in the foreground of its user, and two that were left to run, of which one has a session of its own, as a daemon
/// has. No command of ours is run meanwhile.
#[test]
fn what_runs_in_the_hosts_ends_with_a_testbed_that_is_killed() {
    let Some(testbed) = Testbed::up_bare("killed with programs", &[]) else { return };
    let left = |words: &str| {
        let script = format!("{words} 600 < /dev/null > /dev/null 2>&1 & echo $!");
        testbed.run(&["right", "sh", "-c", &script])
    };
    let mut inside = testbed.command("run", &["left", "sleep", "600"]).spawn().expect("start");
    let all = [inside.id().to_string(), left("sleep"), left("setsid sleep")];
    eventually("they run", || all.iter().all(|pid| sleeps(pid)));
    let spaces = spaces_of(&wires(&testbed));
    kill(testbed.pid(), Signal::SIGKILL).unwrap();
    eventually("they have ended", || !all.iter().any(|pid| sleeps(pid)));
    assert!(!inside.wait().unwrap().success());
    eventually("namespaces are gone", || holders(&spaces).is_empty());
    eventually("its warden is gone", || processes_of(&testbed, &["warden"]).is_empty());
    let down = testbed.do_it("down", &[]);
    let told = String::from_utf8_lossy(&down.stdout);
    assert!(told.contains("had died") && told.contains("3 programs in it were ended"), "{down:?}");
}

/// The program is the one process that `run` was, so the kernel ends it; what it had started goes on, as on any host.
#[test]
fn a_run_that_is_killed_ends_and_what_it_had_started_goes_with_the_testbed() {
    let Some(testbed) = Testbed::up_bare("run killed", &[]) else { return };
    let pids = testbed.scratch.path("pids");
    let script = format!(
        "sleep 600 < /dev/null > /dev/null 2>&1 & echo $! > {0}.new; mv {0}.new {0}; exec sleep 600",
        pids.display()
    );
    let mut run = testbed.command("run", &["left", "sh", "-c", &script]).spawn().expect("start");
    let own = run.id().to_string();
    let started = || std::fs::read_to_string(&pids).unwrap_or_default();
    eventually("both run", || sleeps(&own) && sleeps(&started()));
    kill(Pid::from_raw(run.id() as i32), Signal::SIGKILL).unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(run.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    assert!(sleeps(&started()), "it was left to run");
    kill(testbed.pid(), Signal::SIGKILL).unwrap();
    eventually("it has ended", || !sleeps(&started()));
}

#[test]
fn a_warden_that_is_killed_has_a_successor_and_goes_with_its_testbed() {
    let Some(testbed) = Testbed::up_bare("warden", &[]) else { return };
    let wardens = || processes_of(&testbed, &["warden"]);
    let inside = testbed.run(&["left", "sh", "-c", "sleep 600 < /dev/null > /dev/null 2>&1 & echo $!"]);
    eventually("it runs", || sleeps(&inside));
    let first = wardens();
    assert_eq!(first.len(), 1);
    let name = std::fs::read_to_string(format!("/proc/{}/comm", first[0])).unwrap();
    assert_eq!(name.trim(), "testbed-warden", "not by the name of the testbed's process");
    kill(first[0], Signal::SIGKILL).unwrap();
    // It has its name when it is about to watch.
    let is_another = |warden: &Pid| {
        let name = std::fs::read_to_string(format!("/proc/{warden}/comm")).unwrap_or_default();
        *warden != first[0] && name.trim() == "testbed-warden"
    };
    eventually("another watches", || wardens().iter().any(is_another));
    kill(testbed.pid(), Signal::SIGKILL).unwrap();
    eventually("the program has ended", || !sleeps(&inside));
    eventually("wardens are gone", || wardens().is_empty());
    assert!(testbed.do_it("up", &[]).status.success());
    eventually("it has one", || wardens().len() == 1);
    assert!(testbed.do_it("down", &[]).status.success());
    eventually("it has ended with it", || wardens().is_empty());
}

/// As `pkill -f` does with all that have its words. The testbed is stopped meanwhile, so that no other warden comes.
#[test]
fn a_warden_that_is_asked_to_end_ends_the_programs_of_its_testbed_first() {
    let Some(testbed) = Testbed::up_bare("warden asked to end", &[]) else { return };
    let inside = testbed.run(&["left", "sh", "-c", "sleep 600 < /dev/null > /dev/null 2>&1 & echo $!"]);
    eventually("it runs", || sleeps(&inside));
    let (wire, warden) = (wires(&testbed), processes_of(&testbed, &["warden"]));
    assert_eq!((wire.len(), warden.len()), (1, 1));
    kill(wire[0], Signal::SIGSTOP).unwrap();
    eventually("it is stopped", || stat_of(wire[0]).contains(") T "));
    kill(warden[0], Signal::SIGTERM).unwrap();
    kill(wire[0], Signal::SIGKILL).unwrap();
    eventually("the program has ended", || !sleeps(&inside));
    eventually("its warden is gone", || processes_of(&testbed, &["warden"]).is_empty());
}

/// With a program that goes on in the host of the dead one, whose warden was killed as well: whoever looks or brings up
/// another ends it.
#[test]
fn what_a_killed_testbed_left_goes_with_the_next_list_status_or_up_of_another() {
    const DAEMON: &str = "sleep 600 < /dev/null > /dev/null 2>&1 & echo $!";
    let Some(testbed) = Testbed::up_bare("leftovers", &[]) else { return };
    let recorded = |name: &str| testbed.scratch.path("testbeds/testbed").join(name).exists();
    let ways: [(&str, &[&str], i32); 3] =
        [("list", &[], 0), ("status", &["--name", "gone"], 3), ("up", &["--name", "third"], 0)];
    for (command, options, code) in ways {
        assert!(testbed.do_it("up", &["--name", "gone"]).status.success());
        let daemon = testbed.run(&["--name", "gone", "left", "sh", "-c", DAEMON]);
        let runs = || sleeps(&daemon);
        eventually("the daemon runs", runs);
        kill_with_warden(&testbed, "gone");
        assert!(runs() && recorded("gone"), "it is left behind");
        let output = testbed.do_it(command, options);
        let told = [&output.stdout[..], &output.stderr[..]].concat();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(output.status.code(), Some(code), "{command}: {told}");
        assert!(command == "up" || told.contains("1 program in it was ended"), "{command}: {told}");
        assert!(!recorded("gone"), "{command}: {told}");
        eventually("the daemon is gone", || !runs());
    }
    assert!(recorded("testbed") && recorded("third"), "those that run stay");
}

/// As sshd, nginx and whatever goes through `env -i` or sudo do with theirs: the mark of the testbed is not in it any
/// more.
#[test]
fn a_program_that_rewrote_its_environment_does_not_survive_its_killed_testbed() {
    const DAEMON: &str = "env -i \"$(command -v sleep)\" 600 < /dev/null > /dev/null 2>&1 & echo $!";
    let Some(testbed) = Testbed::up_bare("environment", &[]) else { return };
    let record = std::fs::read(testbed.scratch.path("testbeds/testbed/testbed/record.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    if record["hosts"][0]["cookie"].is_null() {
        return skipped("a program without its environment", "cookies of namespaces need Linux 5.14");
    }
    let daemon = testbed.run(&["left", "sh", "-c", DAEMON]);
    let of = |file: &str| std::fs::read(format!("/proc/{}/{file}", daemon.trim())).unwrap_or_default();
    eventually("the daemon runs", || {
        of("cmdline").windows(5).any(|word| word == b"sleep") && of("environ").is_empty()
    });
    kill(testbed.pid(), Signal::SIGKILL).unwrap();
    eventually("it is dead", || wires(&testbed).is_empty());
    let down = testbed.do_it("down", &[]);
    assert!(String::from_utf8_lossy(&down.stdout).contains("1 program in it was ended"), "{down:?}");
    eventually("the daemon is gone", || of("cmdline").is_empty());
}

#[test]
fn of_two_that_come_up_at_once_under_one_name_one_does_and_the_other_says_why() {
    let Some(testbed) = Testbed::up("twice", &["--rtt", "4ms"]) else { return };
    for _ in 0..quick_or_torture(4, 40) {
        assert!(testbed.do_it("down", &[]).status.success());
        let both = [0, 1].map(|_| testbed.command("up", &["--rtt", "4ms"]).spawn().expect("start"));
        let ended = both.map(finish);
        let mut codes: Vec<_> = ended.iter().map(|output| output.status.code()).collect();
        codes.sort_unstable();
        let words: Vec<_> = ended.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
        assert_eq!(codes, [Some(0), Some(3)], "{words:?}");
        assert!(words.iter().any(|words| words.contains("a testbed `testbed` is up")), "{words:?}");
        assert_eq!(wires(&testbed).len(), 1);
        testbed.run(&["left", "ping", "-c", "1", "right"]);
    }
}

#[test]
fn without_root_it_says_what_it_needs_and_makes_nothing() {
    if !support::chance::is_root() || !support::chance::has("setpriv") {
        return support::chance::skipped("without root", "needs root to become nobody, and setpriv");
    }
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("open")).unwrap();
    for path in [scratch.root().to_owned(), scratch.path("open")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let program = scratch.path("thalweg-of-all");
    std::fs::copy(scratch.thalweg().get_program(), &program).unwrap();
    let state = scratch.path("open/state").display().to_string();
    let asked: [&[&str]; 3] = [
        &["testbed", "up", "--state", &state],
        &["bench", "latency", "--runs", "1"],
        &["bench", "path", "--runs", "1"],
    ];
    for words in asked {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(words);
        command.env("HOME", scratch.path("open")).current_dir(scratch.path("open"));
        let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("setpriv"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{words:?}: {told}");
        assert!(told.starts_with("error: ") && told.contains("root"), "{words:?}: {told}");
        assert!(!told.contains("panicked"), "{told}");
    }
    let left: Vec<_> = std::fs::read_dir(scratch.path("open")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == "state"), "{left:?}");
}

/// Network namespaces (`net:[number]`) that these processes hold open or are in, but for the one that this test is in.
fn spaces_of(processes: &[Pid]) -> BTreeSet<String> {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    let held = processes.iter().flat_map(|process| held_by(&format!("/proc/{process}")));
    held.filter(|space| *space != own).collect()
}

/// The same of one process; none if it is gone.
fn held_by(process: &str) -> Vec<String> {
    let open = std::fs::read_dir(format!("{process}/fd")).into_iter().flatten().flatten();
    let links = open.map(|entry| entry.path()).chain([format!("{process}/ns/net").into()]);
    let names = links.filter_map(|link| Some(std::fs::read_link(link).ok()?.display().to_string()));
    names.filter(|name| name.starts_with("net:[")).collect()
}

/// Who holds one of these namespaces: a process that is in it or has it open, or a mount. None: it is gone, and all
/// devices in it.
fn holders(spaces: &BTreeSet<String>) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().filter(|line| spaces.iter().any(|space| line.contains(space.as_str())));
    let processes =
        std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().display().to_string());
    let holds = |process: &String| held_by(process).iter().any(|space| spaces.contains(space));
    let is_number = |path: &String| path.rsplit('/').next().is_some_and(|name| name.parse::<u32>().is_ok());
    mounted.map(str::to_owned).chain(processes.filter(is_number).filter(holds)).collect()
}

/// Processes of testbeds that are recorded in this test's directory.
fn wires(testbed: &Testbed) -> Vec<Pid> {
    processes_of(testbed, &["wire"])
}

/// Processes for testbeds that are recorded in this test's directory, with all of these words.
fn processes_of(testbed: &Testbed, words: &[&str]) -> Vec<Pid> {
    let state = testbed.scratch.path("testbeds").into_os_string().into_encoded_bytes();
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let told = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let has = |word: &[u8]| told.split(|byte| *byte == 0).any(|one| one == word);
            has(&state) && words.iter().all(|word| has(word.as_bytes()))
        })
        .map(Pid::from_raw)
        .collect()
}

/// Kills the process of a testbed, and before that its warden, in whose place no other comes: it is stopped meanwhile.
fn kill_with_warden(testbed: &Testbed, name: &str) {
    let (wire, warden) = (processes_of(testbed, &["wire", name]), processes_of(testbed, &["warden", name]));
    assert_eq!((wire.len(), warden.len()), (1, 1), "{name}");
    kill(wire[0], Signal::SIGSTOP).unwrap();
    eventually("it is stopped", || stat_of(wire[0]).contains(") T "));
    for process in [warden[0], wire[0]] {
        kill(process, Signal::SIGKILL).unwrap();
        eventually("it is dead", || stat_of(process).is_empty() || stat_of(process).contains(") Z "));
    }
}

fn stat_of(process: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default()
}

/// Whether this is a process that runs `sleep`: one that has ended has no words.
fn sleeps(pid: &str) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|words| words.starts_with(b"sleep"))
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    for (options, word) in [
        (&["--rate", "100"][..], "unit"),
        (&["--loss", "2"], "share"),
        (&["--mtu", "100"], "MTU"),
        (&["--hosts", "0+1"], "hosts"),
        (&["--name", "../x"], "name"),
        (&["--sysctl", "kernel.panic=1"], "network namespace"),
        (&["--rtt", "1ms", "--jitter", "1s"], "jitter"),
        (&["--forward-delay", "2ms", "--back-jitter", "1ms"], "back: "),
        (&["--framing", "4294967295"], "1024"),
        (&["--late-by", "61s"], "late by 60 s at most"),
        (&["--preset", "folklore"], "continental"),
    ] {
        let mut command = scratch.thalweg();
        command.args(["testbed", "up", "--state"]).arg(scratch.path("testbeds")).args(options);
        let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {stderr}");
        assert!(stderr.contains(word), "{options:?}: {stderr}");
        assert!(!scratch.path("testbeds").exists());
    }
}
