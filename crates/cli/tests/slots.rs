//! Slots by the real program: what fits is promised and kept apart, what does not is refused, and a lease frees its
//! place.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use support::{Daemon, Scratch, finish, noise, wait_until};

/// Longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(180);

/// A way of which a burst of [`BURST`] takes 0.4 s.
const RATE: &str = "20Mbit/s";
const BURST: usize = 1_000_000;
/// Two of these fit a second, a third does not.
const SLOT: &str = "1s:1MB:5s";

fn daemon(scratch: &Scratch, slots: Option<&str>) -> Daemon {
    let export = scratch.path("export");
    std::fs::create_dir_all(&export).unwrap();
    let more: &[&str] = &slots.map_or(Vec::new(), |rate| vec!["--slots", rate]);
    scratch.daemon_with(&[("data", &export)], more)
}

fn stream(scratch: &Scratch, place: &str, more: &[&str]) -> Command {
    let mut command = scratch.thalweg();
    command.env("THALWEG_TICKET", scratch.path("ticket")).env("THALWEG_PATIENCE", "40s");
    command.arg("stream").args(more).args(["-", place]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A producer: its pipe, and what it tells as events.
struct Producer {
    child: Child,
    pipe: Option<ChildStdin>,
    events: Receiver<Value>,
}

/// A producer of frames of half a burst, for nobody.
fn push(scratch: &Scratch, place: &str, slot: &str) -> Command {
    push_frames(scratch, place, slot, BURST / 2)
}

fn push_frames(scratch: &Scratch, place: &str, slot: &str, frame_bytes: usize) -> Command {
    let mut command = scratch.thalweg();
    command.env("THALWEG_TICKET", scratch.path("ticket")).env("THALWEG_PATIENCE", "40s");
    command.args(["frames", "push", "-", place, "--unattended", "--json", "--slot", slot]);
    command.args(["--frame-bytes", &frame_bytes.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Producer {
    fn start(scratch: &Scratch, place: &str, slot: &str) -> Producer {
        Producer::spawn(&mut stream(scratch, place, &["--json", "--slot", slot]))
    }

    fn spawn(command: &mut Command) -> Producer {
        let mut child = command.spawn().unwrap();
        let (tell, events) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).expect("an event"));
            }
        });
        Producer { pipe: child.stdin.take(), child, events }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.pipe.as_mut().expect("a pipe").write_all(bytes).expect("a reader");
    }

    fn event(&self, name: &str) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).unwrap_or_else(|_| panic!("no event {name}"));
            if event["event"] == name {
                return event;
            }
        }
    }

    fn end(mut self) -> (i32, Value) {
        self.pipe = None;
        let event = self.event("finished");
        (finish(self.child).status.code().unwrap_or(-1), event)
    }

    /// Makes these bytes ready again and again, so far apart, until one of all events that were `told` is as wanted.
    fn bursts_until(
        &mut self,
        (bytes, apart): (&[u8], Duration),
        told: &mut Vec<Value>,
        is_it: impl Fn(&Value) -> bool,
    ) {
        let begun = Instant::now();
        for burst in 1.. {
            self.write(bytes);
            std::thread::sleep((begun + apart * burst).saturating_duration_since(Instant::now()));
            told.extend(self.events.try_iter());
            if told.iter().any(&is_it) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "in {burst} bursts it was not told: {told:?}");
        }
    }
}

fn says(event: &Value, words: &str) -> bool {
    event["event"] == "note" && event["text"].as_str().is_some_and(|text| text.contains(words))
}

fn calendar(scratch: &Scratch, daemon: &Daemon) -> Value {
    let ticket = scratch.path("ticket");
    let said =
        scratch.ok(["slots", "--json", "--ticket", ticket.to_str().unwrap(), &daemon.place("data", "")]);
    serde_json::from_str(said.trim()).expect("an event")
}

fn taken(scratch: &Scratch, daemon: &Daemon) -> usize {
    calendar(scratch, daemon)["slots"].as_array().expect("slots").len()
}

#[test]
fn two_that_fit_have_their_slots_and_a_third_is_refused_with_what_would_fit() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let mut producers: Vec<Producer> = (0..2)
        .map(|number| Producer::start(&scratch, &daemon.place("data", &format!("x{number}")), SLOT))
        .collect();
    for producer in &producers {
        let slot = producer.event("slot");
        assert!(slot["promised_s"].as_f64().unwrap() <= 5.0, "{slot}");
        assert_eq!((slot["period_s"].as_f64(), slot["bytes"].as_u64()), (Some(1.0), Some(1_125_000)));
    }
    let refused = stream(&scratch, &daemon.place("data", "x2"), &["--slot", SLOT]).spawn().unwrap();
    let refused = finish(refused);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    // 45.5, 9.0 and 36.5 on a machine that answers at once; a guard goes with the round trip.
    let shares: Vec<f64> =
        said.split(" %").filter_map(|part| part.rsplit(' ').next()?.parse().ok()).collect();
    let [takes, left, too_much] = shares[..] else { panic!("{said}") };
    assert!(said.contains("it would take ") && said.contains(" are left: "), "{said}");
    assert!((45.0..60.0).contains(&takes) && left < 15.0, "{said}");
    assert!((takes - left - too_much).abs() < 0.2, "{said}");
    assert!(!scratch.path("export/x2").exists(), "nothing of what is refused is begun");
    // What is left is enough for less.
    let third = Producer::start(&scratch, &daemon.place("data", "x2"), "1s:100kB:5s");
    third.event("slot");
    let table = calendar(&scratch, &daemon);
    assert_eq!(table["slots"].as_array().unwrap().len(), 3);
    let said = scratch.ok([
        "slots",
        "--ticket",
        scratch.path("ticket").to_str().unwrap(),
        &daemon.place("data", ""),
    ]);
    assert!(said.starts_with("20.00 Mbit/s in 3 slots"), "{said}");
    third.end();
    let content = noise(1, 2 * BURST);
    producers.iter_mut().for_each(|producer| producer.write(&content));
    for (number, producer) in producers.into_iter().enumerate() {
        let (code, finished) = producer.end();
        assert_eq!(code, 0, "{finished}");
        assert!(finished["slot"]["promised_s"].as_f64().unwrap() <= 5.0, "{finished}");
        assert!(finished["lag_worst_s"].as_f64().is_some_and(|lag| lag > 0.0), "{finished}");
        assert!(std::fs::read(scratch.path(&format!("export/x{number}"))).unwrap() == content);
    }
    assert!(wait_until(LIMIT, || taken(&scratch, &daemon) == 0), "who has ended leaves its slot");
}

#[test]
fn nobody_sends_in_the_window_of_another() {
    // A disk that rests for long would show what came in two windows as one.
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let place = |number: usize| daemon.place("data", &format!("x{number}"));
    let mut producers: Vec<Producer> =
        (0..2).map(|number| Producer::start(&scratch, &place(number), "1s:1MB:3s")).collect();
    let content = noise(2, 4 * BURST);
    for producer in &mut producers {
        producer.event("slot");
        producer.write(&content);
    }
    // What came of each between two looks.
    let mut seen = [0, 0];
    let (mut alone, mut both) = (0, 0);
    let until = Instant::now() + LIMIT;
    while seen.iter().any(|bytes| *bytes < content.len() as u64) {
        assert!(Instant::now() < until, "{seen:?} bytes came");
        let now = [0, 1].map(|number| {
            std::fs::metadata(scratch.path(&format!("export/x{number}"))).map_or(0, |meta| meta.len())
        });
        match (now[0] > seen[0], now[1] > seen[1]) {
            (true, true) => both += 1,
            (false, false) => {}
            _ => alone += 1,
        }
        seen = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    // Who looks late sees what came in two windows as one; mostly nobody does.
    assert!(alone > both, "{alone} looks saw one of them, {both} both");
    producers.into_iter().for_each(|producer| assert_eq!(producer.end().0, 0));
}

#[test]
fn what_comes_without_a_slot_arrives_between_the_windows() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    // Its windows are nine tenths of the time.
    let mut producer = Producer::start(&scratch, &daemon.place("data", "x"), "1s:2MB:5s");
    let slot = producer.event("slot");
    assert!(slot["margin"]["guard_s"].as_f64().unwrap() > 0.0, "{slot}");
    let (content, other) = (noise(5, 2 * BURST), noise(6, 8 << 20));
    producer.write(&content);
    std::fs::write(scratch.path("file"), &other).unwrap();
    // For longer than any time between two windows.
    let output = scratch.run([
        "cp",
        "--quiet",
        "--bwlimit",
        "8MiB",
        "--ticket",
        scratch.path("ticket").to_str().unwrap(),
        scratch.path("file").to_str().unwrap(),
        &daemon.place("data", "y"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(scratch.path("export/y")).unwrap() == other);
    let table = calendar(&scratch, &daemon);
    assert!(table["beside_bytes"].as_u64().unwrap() >= other.len() as u64, "{table}");
    assert!(table["held_s"].as_f64().unwrap() > 0.0, "it waited for windows to close: {table}");
    let (code, finished) = producer.end();
    assert_eq!(code, 0, "{finished}");
    assert!(std::fs::read(scratch.path("export/x")).unwrap() == content);
    // Without slots nobody waits, and nothing is counted.
    let before = calendar(&scratch, &daemon);
    scratch.ok([
        "cp",
        "--quiet",
        "--ticket",
        scratch.path("ticket").to_str().unwrap(),
        scratch.path("file").to_str().unwrap(),
        &daemon.place("data", "z"),
    ]);
    assert_eq!(calendar(&scratch, &daemon)["beside_bytes"], before["beside_bytes"]);
}

#[test]
fn a_promise_names_its_margin_and_the_end_names_what_was_late() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let mut producer = Producer::start(&scratch, &daemon.place("data", "x"), SLOT);
    let slot = producer.event("slot");
    let of = |name: &str| slot["margin"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {slot}"));
    let beside = of("mark_s") + of("settle_s") + of("way_back_s") + of("late_s");
    let promised = slot["promised_s"].as_f64().unwrap();
    let (period, length) = (slot["period_s"].as_f64().unwrap(), slot["length_s"].as_f64().unwrap());
    // Whenever it is ready: a period to wait, the window, and what is not the calendar's to know.
    assert_eq!(slot["any_time"], true);
    assert!((promised - (period + length + beside)).abs() < 1e-5, "{slot}");
    let settled = calendar(&scratch, &daemon)["settle_s"].as_f64().unwrap();
    assert!(of("settle_s") > 0.0 && settled > 0.0, "{slot}");
    producer.write(&noise(7, BURST));
    let (code, finished) = producer.end();
    assert_eq!(code, 0, "{finished}");
    let lag = |name: &str| finished[name].as_f64().unwrap_or_else(|| panic!("no {name}: {finished}"));
    assert!(lag("lag_worst_until_sent_s") <= lag("lag_worst_s"), "{finished}");
}

#[test]
fn windows_follow_bursts_whose_period_is_not_quite_what_was_asked_for() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some("100Mbit/s"));
    let period = Duration::from_millis(400);
    for (name, apart) in [("late", period * 101 / 100), ("early", period * 99 / 100)] {
        let mut producer = Producer::start(&scratch, &daemon.place("data", name), "400ms:200kB:300ms");
        let content = noise(8, 200_000);
        // Windows that were placed once are a tenth of a second off by the last of these: four times what a guard
        // allows for.
        let follows = |event: &Value| event["event"] == "slot" && event["moves"].as_u64() >= Some(5);
        let mut told = Vec::new();
        producer.bursts_until((&content, apart), &mut told, follows);
        let slots: Vec<&Value> = told.iter().filter(|event| event["event"] == "slot").collect();
        assert!(slots.iter().all(|slot| slot["any_time"] == false), "{slots:?}");
        assert!(slots.iter().all(|slot| slot["promised_s"].as_f64().unwrap() <= 0.3), "{slots:?}");
        assert!(told.iter().any(|event| says(event, "these were moved to them")), "{told:?}");
        let told_late = told.iter().any(|event| says(event, "a piece is late"));
        let (code, finished) = producer.end();
        assert_eq!(code, 0, "{finished}");
        // On a machine that is held up some are late, and that was told at once.
        assert!(finished["pieces_late"] == 0 || told_late, "{finished}");
        assert!(finished["slot"]["moves"].as_u64() >= Some(5), "{finished}");
    }
}

#[test]
fn bursts_whose_windows_cannot_be_moved_are_told_while_they_come_and_the_late_ones_are() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let bytes = 400_000;
    let mut frames = Producer::spawn(&mut push_frames(
        &scratch,
        &daemon.place("data", "scan"),
        "400ms:400kB:310ms",
        bytes,
    ));
    let (content, mut told) = (noise(9, bytes), Vec::new());
    let bursts = (content.as_slice(), Duration::from_millis(406));
    frames.bursts_until(bursts, &mut told, |event| event["event"] == "slot");
    // Most of what is left: behind it there is no room early enough.
    let beside = Producer::start(&scratch, &daemon.place("data", "x"), "400ms:360kB:5s");
    beside.event("slot");
    frames.bursts_until(bursts, &mut told, |event| says(event, "these cannot be moved to them"));
    let note = told.iter().find(|event| says(event, "these cannot be moved")).expect("it was told");
    assert!(says(note, "there is no room for its windows") && says(note, "a whole period to wait"), "{note}");
    // They go on in the old windows, until one comes so late that its own is over.
    frames.bursts_until(bursts, &mut told, |event| says(event, "a piece is late"));
    let (code, finished) = frames.end();
    assert_eq!(code, 0, "{finished}");
    assert!(finished["pieces_late"].as_u64() > Some(0), "{finished}");
    assert_eq!(beside.end().0, 0);
}

#[test]
fn a_burst_that_no_buffer_holds_until_it_is_durable_is_refused() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some("100Gbit/s"));
    let words = ["--memory", "32MiB", "--slot", "1s:400MB:3s"];
    let refused = finish(stream(&scratch, &daemon.place("data", "x"), &words).spawn().unwrap());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("would have to be kept until they are durable, and 16777216 are allowed"),
        "{said}"
    );
    assert!(!scratch.path("export/x").exists(), "nothing of what is refused is begun");
    assert!(wait_until(LIMIT, || taken(&scratch, &daemon) == 0), "who was refused has no slot");
}

#[test]
fn a_rate_at_which_windows_do_not_carry_what_they_are_for_is_refused() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    // The second one carries a burst a second, but none of them in its window.
    for (limit, shown) in [("100kbit/s", "100.0 kbit/s"), ("10Mbit/s", "10.0 Mbit/s")] {
        let words = ["--slot", SLOT, "--bwlimit", limit];
        let refused = finish(stream(&scratch, &daemon.place("data", "x"), &words).spawn().unwrap());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("--bwlimit allows {shown}")), "{said}");
    }
    assert!(!scratch.path("export/x").exists(), "nothing of what is refused is begun");
    assert!(wait_until(LIMIT, || taken(&scratch, &daemon) == 0), "who was refused has no slot");
    let words = ["--slot", SLOT, "--bwlimit", RATE];
    let allowed = finish(stream(&scratch, &daemon.place("data", "x"), &words).spawn().unwrap());
    assert_eq!(allowed.status.code(), Some(0), "{}", String::from_utf8_lossy(&allowed.stderr));
}

#[test]
fn a_lease_frees_its_place_when_its_client_is_killed() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let whole = "1s:2MB:5s";
    let mut first = Producer::start(&scratch, &daemon.place("data", "x"), whole);
    first.event("slot");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let again = || {
        let mut child = stream(&scratch, &daemon.place("data", "y"), &["--slot", whole]).spawn().unwrap();
        drop(child.stdin.take());
        finish(child)
    };
    let refused = again();
    assert_eq!(refused.status.code(), Some(3), "its place is kept for a while: it may only be cut off");
    assert!(wait_until(LIMIT, || again().status.success()), "the place is free again");
}

#[test]
fn a_steady_flow_has_a_slot_and_goes_on_after_the_daemon_was_restarted() {
    let scratch = Scratch::in_memory();
    let before = daemon(&scratch, Some(RATE));
    let address = before.address();
    let mut producer = Producer::start(&scratch, &before.place("data", "x"), "8Mbit/s:2s");
    let slot = producer.event("slot");
    assert_eq!(slot["any_time"], true);
    let content = noise(3, 1 << 20);
    producer.write(&content[..500_000]);
    before.kill();
    let export = scratch.path("export");
    let daemon = scratch.daemon_at(&address, &[("data", &export)], &["--slots", RATE], |command| command);
    producer.write(&content[500_000..]);
    producer.event("slot");
    assert_eq!(taken(&scratch, &daemon), 1);
    let (code, finished) = producer.end();
    assert_eq!(code, 0, "{finished}");
    assert!(std::fs::read(export.join("x")).unwrap() == content);
}

#[test]
fn slots_are_not_for_everything_and_it_is_said() {
    let scratch = Scratch::in_memory();
    let place = {
        let without = daemon(&scratch, None);
        let refused =
            finish(stream(&scratch, &without.place("data", "x"), &["--slot", SLOT]).spawn().unwrap());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("this server has no slots: it is to be started with --slots"), "{said}");
        without.place("data", "x")
    };
    let local = scratch.path("here");
    for (words, why) in [
        ([place.as_str(), local.to_str().unwrap()], "what it sends takes the ways from it"),
        (["-", local.to_str().unwrap()], "slots are for streams from this machine to a daemon"),
    ] {
        let ticket = scratch.path("ticket");
        let all = ["stream", "--slot", SLOT, "--ticket", ticket.to_str().unwrap(), words[0], words[1]];
        let output = scratch.run(all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let daemon = daemon(&scratch, Some(RATE));
    for (slot, code, why) in [
        ("1s:1MB:10us", 1, "s for the daemon's disk"),
        ("40s:1MB:50s", 1, "more than half of what counts as a stall"),
        ("1s:10MB:10s", 3, "% too much"),
    ] {
        let refused =
            finish(stream(&scratch, &daemon.place("data", "x"), &["--slot", slot]).spawn().unwrap());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(why), "{slot}: {said}");
        assert_eq!(refused.status.code(), Some(code), "{slot}: {said}");
    }
    let odd = finish(stream(&scratch, &daemon.place("data", "x"), &["--slot", "1s:1MB"]).spawn().unwrap());
    assert_eq!(odd.status.code(), Some(1));
}

#[test]
fn a_rate_can_be_measured() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some("measure"));
    let table = calendar(&scratch, &daemon);
    assert!(table["bytes_per_s"].as_u64().unwrap() > 0, "{table}");
}

#[test]
fn producers_of_frames_have_slots_and_keep_to_them_and_what_does_not_fit_is_refused() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some(RATE));
    let place = |name: &str| daemon.place("data", name);
    let mut frames = Producer::spawn(&mut push(&scratch, &place("scan1"), SLOT));
    let slot = frames.event("slot");
    assert!(slot["promised_s"].as_f64().unwrap() <= 5.0, "{slot}");
    assert_eq!((slot["period_s"].as_f64(), slot["bytes"].as_u64()), (Some(1.0), Some(1_125_000)));
    // A hub has it as soon as it is in memory.
    assert_eq!(
        (slot["margin"]["mark_s"].as_f64(), slot["margin"]["settle_s"].as_f64()),
        (Some(0.0), Some(0.0))
    );
    let bytes = Producer::start(&scratch, &place("x"), SLOT);
    bytes.event("slot");
    let refused = finish(push(&scratch, &place("scan2"), SLOT).spawn().unwrap());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("it would take "), "{said}");
    assert_eq!(taken(&scratch, &daemon), 2);
    // Three bursts at once: the last has to wait for the third window.
    frames.write(&noise(7, 3 * BURST));
    let (code, finished) = frames.end();
    assert_eq!(
        (code, finished["frames"].as_u64(), finished["pieces"].as_u64()),
        (0, Some(6), Some(6)),
        "{finished}"
    );
    assert!(finished["lag_worst_until_sent_s"].as_f64().unwrap() >= 1.0, "{finished}");
    assert!(finished["slot"]["promised_s"].as_f64().unwrap() <= 5.0, "{finished}");
    assert_eq!(bytes.end().0, 0);
    assert!(wait_until(LIMIT, || taken(&scratch, &daemon) == 0), "who has ended leaves its slot");
}

#[test]
fn frames_that_no_window_holds_until_the_hub_has_them_are_refused() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch, Some("8Gbit/s"));
    let place = daemon.place("data", "scan");
    let refused = finish(push(&scratch, &place, "1s:100MB:5s").args(["--window", "1MiB"]).spawn().unwrap());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() != Some(0) && said.contains("--window"), "{said}");
    assert_eq!(taken(&scratch, &daemon), 0, "nothing is kept for who was refused");
}
