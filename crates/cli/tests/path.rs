//! The path between two machines: several wires at once, a rate that changes, marks on packets, a class that yields,
//! and the reasons for all of it.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::chance::{has, say, skipped};
use support::job::{Ran, Running, bytes_allocated, priorities, with};
use support::nets::Cable;
use support::proxy::Proxy;
use support::testbed::Testbed;
use support::volume::may_mount;
use support::{Daemon, Scratch, assert_no_litter, assert_same, noise, wait_until};
use thalweg_lab::wrap::wrap;

const LIMIT: Duration = Duration::from_secs(240);

/// A client and a daemon joined by some wires, and files to send.
struct Site {
    scratch: Scratch,
    cable: Cable,
    _daemon: Daemon,
}

impl Site {
    fn new(row: &str, wires: u8) -> Option<Site> {
        if !has("nft") || !has("tc") {
            skipped(row, "needs nft and tc");
            return None;
        }
        let cable = Cable::with_wires(row, wires)?;
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.path("to")).unwrap();
        std::fs::create_dir(scratch.path("from")).unwrap();
        let listen: Vec<String> =
            (0..wires).map(|wire| format!("{}:8487", Cable::address(wire, 2))).collect();
        let more: Vec<&str> = listen[1..].iter().flat_map(|address| ["--listen", address]).collect();
        let wrap = |command: Command| cable.enter_b(&command);
        let daemon = scratch.daemon_at(
            &listen[0],
            &[("data", &scratch.path("to")), ("source", &scratch.path("from"))],
            &more,
            wrap,
        );
        Some(Site { scratch, cable, _daemon: daemon })
    }

    /// Makes a file of so many MiB.
    fn file(&self, name: &str, mebibytes: usize) {
        std::fs::write(self.scratch.path("from").join(name), noise(mebibytes as u64, mebibytes << 20))
            .unwrap();
    }

    fn command(&self, what: &str, place: &str, more: &[&str]) -> Command {
        let place = format!("tw://{}:8487/data/{place}", Cable::ADDRESS_B);
        let command = with(self.scratch.thalweg(), ["cp", "--json", "--ticket"]);
        let command = with(with(command, [self.scratch.path("ticket"), self.scratch.path(what)]), [place]);
        self.cable.enter_a(&with(command, more))
    }

    fn push(&self, what: &str, place: &str, more: &[&str]) -> Running {
        Running::start(self.command(what, place, more))
    }

    /// From the daemon's copy of the source into a directory here.
    fn pull(&self, what: &str, to: &str, more: &[&str]) -> Running {
        let place = format!("tw://{}:8487/source/{what}", Cable::ADDRESS_B);
        let command = with(self.scratch.thalweg(), ["cp", "--json", "--ticket"]);
        let command = with(with(command, [self.scratch.path("ticket")]), [place]);
        Running::start(self.cable.enter_a(&with(with(command, [self.scratch.path(to)]), more)))
    }

    fn assert_exact(&self) {
        assert_same(&self.scratch.path("from"), &self.scratch.path("to"));
        assert_no_litter(&self.scratch.path("to"));
    }
}

/// The texts of events of a kind.
fn told(ran: &Ran, event: &str) -> Vec<String> {
    ran.stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|value| value["event"] == event)
        .filter_map(|value| value["text"].as_str().map(str::to_owned))
        .collect()
}

/// Three wires, one of them slow from the start and one cut in the middle: all of the rest arrives by the good one.
fn over_wires(row: &str, is_push: bool) {
    let Some(site) = Site::new(row, 3) else { return };
    site.file("large", 160);
    for (wire, rate) in [(0, "100mbit"), (1, "100mbit"), (2, "4mbit")] {
        site.cable.limit_wire(wire, rate, "50ms");
    }
    // The control connection rides on wire 0.
    let more = ["--via", "ticket", "--streams", "6", "--chunk", "1MiB", "-v"];
    let mut job = if is_push { site.push("from/", "", &more) } else { site.pull("", "to/", &more) };
    let moved = || (0..3).map(|wire| site.cable.bytes_moved_by(wire)).collect::<Vec<_>>();
    assert!(wait_until(LIMIT, || moved()[1] > 20 << 20 || job.is_over()) && !job.is_over());
    let (before, at) = (moved(), Instant::now());
    site.cable.cut(1);
    let ran = job.end(LIMIT).expect(0);
    let after = moved();
    say(&format!(
        "{row}: bytes by wire at the cut {before:?}, at the end {after:?}, {:?} later",
        at.elapsed()
    ));
    assert!(after[2] > 0 && after[2] < after[0] / 2, "a slow wire gets less: {after:?}");
    if is_push {
        // What the slow wire had at the end others sent as well, instead of waiting for it: its streams take seconds
        // for a chunk, and those of the good one had nothing else to do. Who pulls is not told what the sender does.
        let details = told(&ran, "detail");
        assert!(
            details.iter().any(|text| text.contains("late on one stream, went by another")),
            "{details:?}"
        );
    }
    assert!(!told(&ran, "stream-lost").is_empty());
    assert!(told(&ran, "link-lost").is_empty(), "a wire that dies costs its streams, not the link");
    site.assert_exact();
}

#[test]
fn a_push_over_three_wires_outlives_one_and_does_not_wait_for_a_slow_one() {
    over_wires("wires, push", true);
}

#[test]
fn a_pull_over_three_wires_outlives_one_and_does_not_wait_for_a_slow_one() {
    over_wires("wires, pull", false);
}

#[test]
fn a_wire_that_comes_back_carries_streams_again() {
    let Some(site) = Site::new("a wire comes back", 2) else { return };
    site.file("large", 96);
    for wire in 0..2 {
        site.cable.limit_wire(wire, "20mbit", "50ms");
    }
    let more = ["--via", "ticket", "--streams", "4", "--chunk", "1MiB", "--no-tune"];
    let mut job = site.push("from/", "", &more);
    let moved = || site.cable.bytes_moved_by(1);
    assert!(wait_until(LIMIT, || moved() > 2 << 20 || job.is_over()) && !job.is_over());
    site.cable.cut(1);
    std::thread::sleep(Duration::from_secs(6));
    let at_rest = moved();
    site.cable.mend();
    assert!(wait_until(LIMIT, || moved() > at_rest + (4 << 20) || job.is_over()));
    assert!(moved() > at_rest + (4 << 20), "{} bytes since it came back", moved() - at_rest);
    job.end(LIMIT).expect(0);
    site.assert_exact();
}

#[test]
fn streams_begin_at_the_addresses_and_cards_that_were_named() {
    let Some(site) = Site::new("bind", 2) else { return };
    site.file("large", 8);
    let card = Cable::wire(1);
    let (near, far) = (Cable::address(1, 1), Cable::address(1, 2));
    for bind in [&card, &near] {
        let before = site.cable.bytes_moved_by(1);
        let ran = site.push("from/large", bind, &["--via", &far, "--bind", bind]).end(LIMIT).expect(0);
        assert!(site.cable.bytes_moved_by(1) - before > 8 << 20, "{ran:?}");
    }
    let ran = site.push("from/large", "nowhere", &["--bind", "10.99.9.9", "--patience", "2s"]).end(LIMIT);
    assert_ne!(ran.code, Some(0));
}

#[test]
fn a_rate_is_changed_while_the_copy_runs_on_either_side() {
    for is_push in [true, false] {
        let Some(site) = Site::new("limit", 1) else { return };
        site.file("large", 64);
        let more = ["--bwlimit", "8Mbit/s"];
        let mut job = if is_push { site.push("from/", "", &more) } else { site.pull("", "to/", &more) };
        let moved = || site.cable.bytes_moved_by(0);
        assert!(wait_until(LIMIT, || moved() > 1 << 20 || job.is_over()));
        let limited = Instant::now();
        std::thread::sleep(Duration::from_secs(2));
        assert!(moved() < 16 << 20, "{} bytes after {:?}", moved(), limited.elapsed());
        let nobody = site.scratch.run(["limit", "1", "none"]);
        assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
        let told_of = site.scratch.ok(["limit", "none"]);
        assert!(told_of.contains("no limit"), "{told_of}");
        // At 8 Mbit/s it would take another minute.
        let ran = job.end(Duration::from_secs(40)).expect(0);
        assert!(told(&ran, "knob").iter().any(|text| text.contains("no limit")), "{ran:?}");
        assert_eq!(site.scratch.run(["limit", "none"]).status.code(), Some(3), "nothing runs any more");
        site.assert_exact();
    }
}

/// Of each connection from here to the daemon: the rate for which the kernel spaces its packets at most, in bits a
/// second, as ss tells it from TCP_INFO; `None` where there is none.
fn spaced(site: &Site) -> Vec<Option<u64>> {
    let mut ss = Command::new("ss");
    ss.args(["-tinHO", "state", "established", "dst", &format!("{}:8487", Cable::ADDRESS_B)]);
    let output = site.cable.enter_a(&ss).output().expect("ss");
    let most = |line: &str| {
        let (_, rates) = line.split_once(" pacing_rate ")?;
        rates.split_whitespace().next()?.split_once('/')?.1.strip_suffix("bps")?.parse().ok()
    };
    String::from_utf8_lossy(&output.stdout).lines().map(most).collect()
}

#[test]
fn the_kernel_spaces_packets_where_a_rate_is_kept_and_only_there() {
    if !has("ss") {
        return skipped("spaced packets", "needs ss");
    }
    let Some(site) = Site::new("spaced packets", 1) else { return };
    site.file("large", 48);
    site.cable.limit_wire(0, "100mbit", "50ms");
    let copy = |to: &str, more: &[&str]| {
        site.push("from/large", to, &[&["--streams", "2", "--chunk", "1MiB"], more].concat())
    };
    // Two streams have twice the rate together.
    let mut limited = copy("limited", &["--bwlimit", "20Mbit/s"]);
    let count = |rate: u64| spaced(&site).into_iter().flatten().filter(|most| *most == rate).count();
    assert!(
        wait_until(LIMIT, || count(20_000_000) == 2 || limited.is_over()) && !limited.is_over(),
        "{:?}",
        spaced(&site)
    );
    limited.kill();
    let mut yielding = copy("yielding", &["--class", "scavenger"]);
    let is_spaced = || spaced(&site).iter().flatten().count() >= 2;
    assert!(wait_until(LIMIT, || is_spaced() || yielding.is_over()) && !yielding.is_over());
    yielding.kill();
    let mut free = copy("free", &[]);
    let mut most_seen = 0;
    while !free.is_over() {
        let now = spaced(&site);
        most_seen = most_seen.max(now.len());
        assert!(now.iter().all(Option::is_none), "{now:?}");
    }
    assert!(most_seen >= 2, "its streams were seen");
    free.end(LIMIT).expect(0);
}

/// 64 MiB at 40 Mbit/s take 13 seconds; a setting is measured after five.
#[test]
fn a_running_far_copy_turns_a_knob_or_holds_still_and_the_next_one_begins_with_what_it_learned() {
    let Some(testbed) = Testbed::up("tuning", &["--rtt", "20ms", "--rate", "40Mbit/s"]) else { return };
    let scratch = &testbed.scratch;
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("large"), noise(1, 64 << 20)).unwrap();
    let wrap = |command: Command| testbed.enter("right", &command);
    let _daemon = scratch.daemon_at("right:8487", &[("data", &scratch.path("to"))], &[], wrap);
    let copy = |to: &str, more: &[&str]| {
        let command = with(scratch.thalweg(), ["cp", "--json", "--ticket"]);
        let command = with(command, [scratch.path("ticket"), scratch.path("large")]);
        // A setting is measured for as long as some chunks of each stream take.
        let command = with(with(command, ["--chunk", "256KiB"]), more);
        let command = with(command, [format!("tw://right:8487/data/{to}")]);
        Running::start(testbed.enter("left", &command)).end(LIMIT).expect(0)
    };
    let why = |more: &[&str]| {
        let plan = copy("planned", &[&["--dry-run"], more].concat()).finished()["plan"].clone();
        plan["streams"]["why"].as_str().expect("a reason").to_owned()
    };
    let known = "with so many this route carried";
    let still = copy("still", &["--no-tune"]);
    assert!(told(&still, "knob").is_empty(), "{:?}", told(&still, "knob"));
    assert!(!why(&[]).contains(known), "who holds still learns nothing");
    // What was learned at one round trip does not hold at a much longer one, and on a busy machine the emulated path
    // has such for a while.
    let mut plans = Vec::new();
    let is_known = (0..4).any(|round| {
        let tuned = copy(&format!("tuned{round}"), &[]);
        let turns = told(&tuned, "knob");
        let tried = |text: &String| text.starts_with("streams: ") && text.contains("(trying ");
        // Later ones may begin with what was learned.
        assert!(round > 0 || turns.iter().any(tried), "{turns:?}");
        let planned = why(&[]);
        let is_known = planned.starts_with(known);
        plans.push(format!("{turns:?}, then {planned}"));
        is_known
    });
    say(&format!("tuning: {plans:?}"));
    assert!(is_known, "{plans:?}");
    assert!(!why(&["--no-tune"]).contains(known));
    for name in ["still", "tuned0"] {
        let is_same = std::fs::read(scratch.path("to").join(name)).unwrap() == noise(1, 64 << 20);
        assert!(is_same, "{name}");
    }
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn every_thread_of_a_copy_stands_back_as_it_was_asked_to() {
    if !has("ionice") {
        return skipped("nice, ionice", "needs ionice");
    }
    let scratch = Scratch::in_memory();
    let own = priorities(std::process::id())[0].clone();
    let asked = ["--nice", "11", "--ionice", "best-effort:6"];
    for (options, expected) in [
        (&asked[..], (11, "best-effort: prio 6".to_owned())),
        (&["--nice", "12", "--ionice", "idle"], (12, "idle".to_owned())),
        (&["--class", "scavenger"], (19, "idle".to_owned())),
        (&[], own),
    ] {
        let command = with(scratch.thalweg(), ["cp", "--bwlimit", "1MB/s", "zero:1GB", "null:"]);
        let mut job = Running::start(with(command, options));
        let pid = job.pid();
        // Its own threads are there, not only the first.
        assert!(wait_until(LIMIT, || priorities(pid).len() > 3 || job.is_over()) && !job.is_over());
        let found = priorities(pid);
        assert!(found.len() > 3 && found.iter().all(|one| *one == expected), "{options:?}: {found:?}");
        job.kill();
    }
}

#[test]
fn a_stream_stands_back_and_of_a_watch_the_copies_do_and_the_commands_do_not() {
    if !has("ionice") {
        return skipped("nice, ionice", "needs ionice");
    }
    let scratch = Scratch::in_memory();
    let own = priorities(std::process::id())[0].clone();
    let all_are = |pid: u32, wanted: &(i32, String)| {
        let found = priorities(pid);
        found.len() > 3 && found.iter().all(|one| one == wanted)
    };

    std::fs::write(scratch.path("grows"), noise(1, 64 << 20)).unwrap();
    let stream =
        with(scratch.thalweg(), ["stream", "--nice", "12", "--ionice", "idle", "--bwlimit", "1MB/s"]);
    let mut job = Running::start(with(stream, [scratch.path("grows"), "null:".into()]));
    let pid = job.pid();
    let stands_back = wait_until(LIMIT, || all_are(pid, &(12, "idle".into())) || job.is_over());
    assert!(stands_back && !job.is_over(), "{:?}", priorities(pid));
    job.kill();

    std::fs::create_dir(scratch.path("in")).unwrap();
    std::fs::write(scratch.path("in/large"), noise(2, 64 << 20)).unwrap();
    std::fs::write(scratch.path("in/small"), "a").unwrap();
    let watch =
        with(scratch.thalweg(), ["watch", "--class", "scavenger", "--bwlimit", "1MB/s", "--stable", "0s"]);
    let watch = with(watch, [scratch.path("in"), scratch.path("out")]);
    let told = scratch.path("told");
    let watch = with(watch, ["--on-arrival", "sh", "--", "-c", "ionice > \"$0\"; nice >> \"$0\""]);
    let mut job = Running::start(with(watch, [&told]));
    let pid = job.pid();
    let scavenger = (19, "idle".to_owned());
    let both = || {
        let found = priorities(pid);
        found.contains(&scavenger) && found.contains(&own)
    };
    assert!(wait_until(LIMIT, || both() || job.is_over()) && !job.is_over(), "{:?}", priorities(pid));
    let lines =
        || std::fs::read_to_string(&told).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(wait_until(LIMIT, || lines().len() == 2 || job.is_over()) && !job.is_over());
    assert_eq!(lines(), [own.1.clone(), own.0.to_string()]);
    job.kill();

    let refused = with(scratch.thalweg(), ["watch", "--ionice", "realtime"]);
    Running::start(with(refused, [scratch.path("in"), scratch.path("out")])).end(LIMIT).expect(1);
}

#[test]
fn every_packet_of_both_sides_has_the_mark() {
    let Some(site) = Site::new("mark", 1) else { return };
    site.file("large", 4);
    site.cable.count_marks("ef");
    site.push("from/large", "marked", &["--dscp", "EF"]).end(LIMIT).expect(0);
    let [(all, _), (marked, _), _] = site.cable.counted();
    // Handshakes come before the mark.
    assert!(marked > 0 && all - marked <= 32, "{marked} of {all}");
    site.cable.count_marks("lephb");
    site.push("from/large", "yielding", &["--class", "scavenger"]).end(LIMIT).expect(0);
    let [(all, _), (marked, _), _] = site.cable.counted();
    assert!(marked > 0 && all - marked <= 32, "{marked} of {all}");
}

#[test]
fn a_scavenger_leaves_a_thin_link_to_others_and_takes_it_when_it_is_alone() {
    /// A machine that does not fill the link for a while leaves room for both: such a try tells nothing.
    const TRIES: u32 = 6;
    for number in 1..=TRIES {
        let Some(site) = Site::new("scavenger", 1) else { return };
        // The same copy with the same mark, which yields to nobody, has about the half, or is over before the other one
        // has its share: so what is measured can tell.
        let ordinary = share_beside_another(&site, "ordinary", &["--dscp", "LE"]);
        // That it takes the link when it is alone again is seen by its end: at what is left beside others it has none.
        let yielding = share_beside_another(&site, "yielding", &["--class", "scavenger"]);
        if yielding
            .is_some_and(|share| share < 0.25 && ordinary.is_none_or(|ordinary| 2.0 * share < ordinary))
        {
            return;
        }
        assert!(
            number < TRIES,
            "beside another a scavenger had {yielding:?} of the link, and who does not yield {ordinary:?}"
        );
    }
}

/// The share of a thin link that a copy had while another one ran; `None` if it was over before that was there. Both
/// end, and their files go.
fn share_beside_another(site: &Site, name: &str, options: &[&str]) -> Option<f64> {
    let (from, streams) = (format!("from/{name}"), ["--chunk", "1MiB", "--streams", "2"]);
    site.cable.limit_wire(0, "40mbit", "300ms");
    site.file(name, 90);
    site.file("other", 48);
    site.cable.count_marks("lephb");
    let mut copy = site.push(&from, name, &[&streams[..], options].concat());
    // It begins slowly, on a busy machine very slowly.
    let moved = || {
        // To count takes a program, and programs take cores.
        std::thread::sleep(Duration::from_millis(100));
        site.cable.counted().map(|(_, bytes)| bytes)
    };
    assert!(wait_until(LIMIT, || moved()[1] > 4 << 20 || copy.is_over()) && !copy.is_over());
    let mut other = site.push("from/other", "other", &streams);
    // What the queue holds is its own; from here on the other fills it.
    let others = |now: [u64; 3]| now[0] - now[1];
    let began = others(moved());
    assert!(wait_until(LIMIT, || others(moved()) > began + (8 << 20) || other.is_over()));
    // Who is over has nothing of the link, whether it yields or not.
    let (before, is_over) = (moved(), copy.is_over());
    assert!(wait_until(LIMIT, || others(moved()) > began + (40 << 20) || other.is_over()));
    let after = moved();
    other.end(LIMIT).expect(0);
    copy.end(LIMIT).expect(0);
    let share = (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64;
    say(&format!("scavenger: {name}: {:.1} % of the link beside another", share * 100.0));
    site.assert_exact();
    for file in [name, "other"] {
        for directory in ["from", "to"] {
            std::fs::remove_file(site.scratch.path(directory).join(file)).unwrap();
        }
    }
    (!is_over).then_some(share)
}

/// Without it autotuning has a queue of 30 MB on the way filled by windows of many MiB.
#[test]
fn a_window_that_was_asked_for_is_all_that_is_under_way_in_a_stream() {
    let Some(site) = Site::new("window", 1) else { return };
    site.file("large", 96);
    site.cable.limit_wire(0, "400mbit", "600ms");
    // What may be asked of the kernel for the receive buffer here, and more than that.
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let more = most.trim().parse::<u64>().unwrap() + (1 << 20);
    for bytes in [512 << 10, more] {
        let asked = bytes.to_string();
        let options = ["--window", asked.as_str(), "--streams", "2", "--no-tune"];
        let pushed = site.push("from/large", &format!("pushed-{bytes}"), &options).end(LIMIT).expect(0);
        let pulled = site.pull("large", &format!("pulled-{bytes}"), &options).end(LIMIT).expect(0);
        for ran in [pushed, pulled] {
            let finished = ran.finished();
            let streams = finished["evidence"]["sender"]["streams"].as_array().unwrap();
            let windows: Vec<u64> = streams.iter().filter_map(|one| one["window_bytes"].as_u64()).collect();
            say(&format!("window: {bytes} asked for, offered {windows:?}"));
            // The kernel offers it in units of the window scale.
            assert!(
                windows.len() == 2 && windows.iter().all(|had| *had <= bytes + (64 << 10)),
                "{windows:?}"
            );
        }
    }
}

#[test]
fn the_plan_names_the_setting_that_bounds_a_stream() {
    let Some(site) = Site::new("plan", 1) else { return };
    site.file("large", 1);
    let planned = |more: &[&str]| {
        let ran = site.push("from/large", "large", &[&["--dry-run"], more].concat()).end(LIMIT).expect(0);
        ran.finished()["plan"].clone()
    };
    let why = |plan: &Value, knob: &str| plan[knob]["why"].as_str().expect("a reason").to_owned();
    let free = planned(&[]);
    let limited = planned(&["--bwlimit", "80Mbit/s"]);
    // A tenth of a second of a stream's share, in a power of two; a request is no larger.
    for (knob, reason) in
        [("chunk_bytes", "80.0 Mbit/s were asked for"), ("segment_bytes", "to keep the rate evenly")]
    {
        assert_eq!(limited[knob]["value"], 262_144, "{limited}");
        assert!(why(&limited, knob).contains(reason), "{limited}");
        assert!(!why(&free, knob).contains(reason), "{free}");
    }
    assert_ne!(free["chunk_bytes"]["value"], limited["chunk_bytes"]["value"]);
    let asked = planned(&["--window", "524288", "--streams", "3"]);
    for (knob, value) in [("window_bytes", 524_288), ("streams", 3)] {
        assert_eq!(asked[knob], json!({ "value": value, "why": "as asked" }));
        assert_ne!(why(&free, knob), "as asked");
    }
}

/// A CPU control group of its own with a twentieth of a core, and one below it that has no quota; they go with the
/// value.
struct LittleOfACore(std::path::PathBuf);

impl LittleOfACore {
    fn new(row: &str) -> Option<LittleOfACore> {
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_first = first.is_dir();
        let group =
            if is_first { first } else { second }.join(format!("thalweg-little-{}", std::process::id()));
        let (name, value) = if is_first { ("cpu.cfs_quota_us", "5000") } else { ("cpu.max", "5000 100000") };
        let made = std::fs::create_dir(&group).map(|()| LittleOfACore(group.clone()));
        let with_quota = made.and_then(|made| std::fs::write(group.join(name), value).map(|()| made));
        match with_quota.and_then(|made| std::fs::create_dir(group.join("below")).map(|()| made)) {
            Ok(made) => Some(made),
            Err(error) => {
                skipped(row, &format!("no CPU control group: {error}"));
                None
            }
        }
    }

    /// In the group itself, or (`below`) in the one below it.
    fn around(&self, command: &Command, below: &str) -> Command {
        let mut shell = Command::new("sh");
        let group = self.0.join(below);
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
        wrap(shell, command)
    }
}

impl Drop for LittleOfACore {
    fn drop(&mut self) {
        for group in [self.0.join("below"), self.0.clone()] {
            let is_gone = || !group.exists() || std::fs::remove_dir(&group).is_ok();
            let _ = wait_until(Duration::from_secs(5), is_gone);
        }
    }
}

#[test]
fn a_cpu_quota_is_planned_for_and_told_if_it_held_the_copy() {
    let Some(group) = LittleOfACore::new("quota") else { return };
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("large"), noise(1, 64 << 20)).unwrap();
    for (below, copy) in [("", "copy"), ("below", "another")] {
        let command = with(scratch.thalweg(), ["cp", "--json"]);
        let command = with(command, [scratch.path("large"), scratch.path(copy)]);
        let ran = Running::start(group.around(&command, below)).end(LIMIT).expect(0);
        let streams = &ran.finished()["plan"]["streams"]["value"];
        assert_eq!(streams, 1, "one core is what a part of one is counted as");
        assert!(told(&ran, "note").iter().any(|text| text.contains("CPU quota")), "{below}: {ran:?}");
        assert_eq!(ran.finished()["narrowest"]["cause"], "cpu-quota", "{below}: {ran:?}");
        // They are those of the machine, of which the quota lets it have less than one.
        let cores = &ran.finished()["evidence"]["sender"]["process"]["cores_milli"];
        assert_eq!(*cores, 1000 * thalweg_sys::machine::cores_by_affinity(), "{below}: {ran:?}");
    }
}

/// What a program finds where the kernel tells of heat: two threads of one core, and how often that was slowed; or a
/// cooling device that is a CPU.
struct Warm(std::path::PathBuf);

impl Warm {
    /// One that tells nothing.
    fn new(row: &str, scratch: &Scratch, name: &str) -> Option<Warm> {
        let may = may_mount() && has("unshare");
        if !may || !Path::new("/sys/class/thermal").is_dir() {
            skipped(row, "needs unshare, the right to mount, and a kernel that knows thermal devices");
            return None;
        }
        let warm = Warm(scratch.path(name));
        for directory in ["cpu", "thermal"] {
            std::fs::create_dir_all(warm.0.join(directory)).unwrap();
        }
        Some(warm)
    }

    /// By how many steps the kernel slows the CPU.
    fn slow(&self, steps: &str) {
        let device = self.0.join("thermal/cooling_device0");
        std::fs::create_dir_all(&device).unwrap();
        for (name, text) in [("type", "cpufreq-cpu0"), ("cur_state", steps), ("max_state", "7")] {
            std::fs::write(device.join(name), format!("{text}\n")).unwrap();
        }
    }

    fn set(&self, core: u64, package: u64) {
        for cpu in ["cpu0", "cpu1"] {
            let [heat, topology] =
                ["thermal_throttle", "topology"].map(|name| self.0.join("cpu").join(cpu).join(name));
            for (directory, name, number) in [
                (&heat, "core_throttle_count", core),
                (&heat, "package_throttle_count", package),
                (&topology, "core_id", 0),
                (&topology, "physical_package_id", 0),
            ] {
                std::fs::create_dir_all(directory).unwrap();
                std::fs::write(directory.join(name), format!("{number}\n")).unwrap();
            }
        }
    }

    fn around(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("unshare");
        let inside = "mount --bind \"$0/cpu\" /sys/devices/system/cpu && \
                      mount --bind \"$0/thermal\" /sys/class/thermal && exec \"$@\"";
        wrapped.args(["--mount", "--propagation", "private", "sh", "-c", inside]).arg(&self.0);
        wrapped.arg(command.get_program()).args(command.get_args());
        wrapped.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        wrapped
    }
}

#[test]
fn heat_that_slowed_the_cpus_meanwhile_is_told() {
    let scratch = Scratch::in_memory();
    let Some(warm) = Warm::new("heat", &scratch, "warm") else { return };
    warm.set(7, 2);
    std::fs::write(scratch.path("large"), noise(1, 16 << 20)).unwrap();
    for (to, core, said) in [("cool", 7, None), ("hot", 10, Some("was slowed for heat, 3 times"))] {
        let to = scratch.path(to);
        std::fs::create_dir(&to).unwrap();
        let command = with(scratch.thalweg(), ["cp", "--json", "--bwlimit", "4MiB"]);
        let command = with(command, [&scratch.path("large"), &to]);
        let mut running = Running::start(warm.around(&command));
        assert!(wait_until(LIMIT, || bytes_allocated(&to) > 1 << 20) && !running.is_over());
        warm.set(core, 2);
        let ran = running.end(LIMIT).expect(0);
        let told = told(&ran, "note");
        let of_heat: Vec<&String> = told.iter().filter(|text| text.contains("heat")).collect();
        match said {
            None => assert!(of_heat.is_empty(), "{ran:?}"),
            Some(said) => assert!(of_heat.len() == 1 && of_heat[0].contains(said), "{ran:?}"),
        }
    }
}

/// A daemon that is hot all the time; a client that is not, and then is. Neither has counters.
#[test]
fn a_cooling_device_that_slows_a_cpu_is_told_of_the_side_that_has_it() {
    let scratch = Scratch::in_memory();
    let row = "cooling devices";
    let Some((far, near)) = Warm::new(row, &scratch, "far").zip(Warm::new(row, &scratch, "near")) else {
        return;
    };
    far.slow("3");
    std::fs::write(scratch.path("large"), noise(1, 12 << 20)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    let around = |command: Command| far.around(&command);
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &scratch.path("to"))], &[], around);
    for (steps, said) in [("0", None), ("2", Some("this machine's CPU was slowed for heat, at "))] {
        near.slow(steps);
        let command = with(scratch.thalweg(), ["cp", "--json", "--bwlimit", "3MiB", "--ticket"]);
        let command = with(command, [&daemon.ticket, &scratch.path("large")]);
        let command = with(command, [daemon.place("data", steps)]);
        let ran = Running::start(near.around(&command)).end(LIMIT).expect(0);
        let heat: Vec<String> = told(&ran, "note").into_iter().filter(|text| text.contains("heat")).collect();
        assert_eq!(heat.len(), usize::from(said.is_some()), "{ran:?}");
        assert!(said.is_none_or(|said| heat[0].starts_with(said)), "{heat:?}");

        let evidence = &ran.finished()["evidence"];
        let looks = |side: &str| {
            let number = |name: &str| evidence[side]["process"][name].as_u64().unwrap();
            (number("heat_looks"), number("heat_slowed"), number("heat_times"))
        };
        let ((near_looks, near_slowed, _), (far_looks, far_slowed, far_times)) =
            (looks("sender"), looks("receiver"));
        assert!(near_looks > 0 && near_slowed == said.map_or(0, |_| near_looks), "{evidence}");
        assert!(far_looks > 0 && far_slowed == far_looks && far_times == 0, "{evidence}");
        let words = scratch.ok(["why", "-vv"]);
        let destination = words.lines().find(|line| line.starts_with("destination: CPU")).expect("a line");
        assert!(
            destination.contains(&format!("slowed for heat at {far_slowed} of {far_looks} looks")),
            "{words}"
        );
    }
}

/// What a program finds where the kernel counts energy: a package, of which the counter is at so many microjoules.
fn count_energy(class: &Path, microjoules: &str) {
    let zone = class.join("powercap/intel-rapl:0");
    std::fs::create_dir_all(&zone).unwrap();
    let range = ("max_energy_range_uj", "262143328850");
    for (file, text) in [("name", "package-0"), range, ("energy_uj", microjoules)] {
        std::fs::write(zone.join(file), format!("{text}\n")).unwrap();
    }
}

#[test]
fn energy_is_told_where_it_is_counted_and_else_why_it_is_not() {
    if !may_mount() || !has("unshare") {
        skipped("energy", "needs unshare and the right to mount");
        return;
    }
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("large"), noise(1, 12 << 20)).unwrap();
    for is_counted in [true, false] {
        let [class, to] = ["class", "to"].map(|name| scratch.path(&format!("{name}-{is_counted}")));
        std::fs::create_dir(&class).unwrap();
        std::fs::create_dir(&to).unwrap();
        if is_counted {
            count_energy(&class, "262143000000");
        }
        let command = with(scratch.thalweg(), ["cp", "--json", "--bwlimit", "4MiB"]);
        let command = with(command, [&scratch.path("large"), &to]);
        let mut inside = Command::new("unshare");
        let mount = "mount --bind \"$0\" /sys/class && exec \"$@\"";
        inside.args(["--mount", "--propagation", "private", "sh", "-c", mount]).arg(&class);
        let mut running = Running::start(wrap(inside, &command));
        assert!(wait_until(LIMIT, || bytes_allocated(&to) > 1 << 20) && !running.is_over());
        if is_counted {
            // It has wrapped.
            count_energy(&class, "29671150");
        }
        let ran = running.end(LIMIT).expect(0);
        let energy = &ran.finished()["energy"];
        let words = scratch.ok(["why", "-vv"]);
        let untold = "this machine: energy is not told: nothing counts it there, as in most guests";
        if !is_counted {
            assert!(energy.is_null() && words.lines().any(|line| line == untold), "{energy} {words}");
            continue;
        }
        assert_eq!((&energy["source"]["joules"], &energy["is_one_machine"]), (&30.into(), &true.into()));
        assert!(energy["kwh_per_tb"].as_f64().is_some_and(|kwh| (0.6..0.7).contains(&kwh)), "{energy}");
        let told = "kWh per TB: 30 J on this machine (CPUs and memory); all that was used there in that time";
        assert!(words.contains(told) && !words.contains("energy is not told"), "{words}");
    }
}

/// A daemon that takes files below `to`, and the name of its ticket.
fn takes(scratch: &Scratch) -> (Daemon, String) {
    std::fs::create_dir(scratch.path("to")).unwrap();
    let daemon = scratch.daemon(&[("to", &scratch.path("to"))]);
    let ticket = daemon.ticket.display().to_string();
    (daemon, ticket)
}

/// So many bytes that shrink to next to nothing.
fn text(bytes: usize) -> Vec<u8> {
    b"as it was, so it is; ".iter().copied().cycle().take(bytes).collect()
}

/// On a slow wire what shrinks is compressed, and what does not costs next to nothing more.
#[test]
fn compression_saves_a_slow_wire_what_shrinks_and_leaves_alone_what_does_not() {
    const BYTES: usize = 12 << 20;
    let scratch = Scratch::in_memory();
    let (daemon, ticket) = takes(&scratch);
    for (name, content) in [("text", text(BYTES)), ("noise", noise(5, BYTES))] {
        std::fs::write(scratch.path(name), &content).unwrap();
        let proxy = Proxy::new(&daemon.address());
        proxy.limit(8_000_000);
        let file = scratch.path(name).display().to_string();
        scratch.ok(["cp", "-z", "--streams", "2", "--ticket", &ticket, &file, &proxy.place("to", name)]);
        assert!(std::fs::read(scratch.path("to").join(name)).unwrap() == content, "{name}");
        let passed = proxy.passed();
        match name {
            "text" => assert!(passed < BYTES as u64 / 3, "{passed} bytes"),
            _ => assert!((BYTES as u64..BYTES as u64 * 11 / 10).contains(&passed), "{passed} bytes"),
        }
    }
}

/// For measurements of what it would take. By itself a copy leaves alone what a fast wire carries anyway.
#[test]
fn what_is_always_compressed_is_compressed_on_a_fast_wire_too() {
    const BYTES: usize = 12 << 20;
    let scratch = Scratch::in_memory();
    let (daemon, ticket) = takes(&scratch);
    let (file, text) = (scratch.path("text"), text(BYTES));
    std::fs::write(&file, &text).unwrap();
    let proxy = Proxy::new(&daemon.address());
    let (file, to) = (file.display().to_string(), proxy.place("to", "text"));
    scratch.ok(["cp", "-z", "--compress-always", "--streams", "2", "--ticket", &ticket, &file, &to]);
    assert!(std::fs::read(scratch.path("to/text")).unwrap() == text);
    let passed = proxy.passed();
    assert!(passed < BYTES as u64 / 10, "{passed} bytes");
    // It is nothing without what it makes more of.
    assert!(!scratch.run(["cp", "--compress-always", &file, &to]).status.success());
}
