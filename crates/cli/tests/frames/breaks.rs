//! Kills, cuts and restarts at random moments: each frame is delivered once, or named once.

use crate::support::chance::{Random, strikes};
use crate::support::count::Count;
use crate::support::job::{Running, signal, with};
use crate::support::plan::Plan;
use crate::support::proxy::Proxy;
use crate::support::{Scratch, noise, wait_until};
use crate::{
    Got, LIMIT, Tally, by, command, drain, frame, push_all, receiver, sender, small, stand, status, take_all,
    take_frames, told,
};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::frames::{
    ChannelWishes, Delivery, FrameFrom, FramePolicy, HeldLevel, NewFrame, ReceiverWishes, Sender,
    SenderWishes,
};
use thalweg_mover::failure::FailureKind;
use thalweg_mover::frames::TAKE_NAME;
use thalweg_mover::run::client::LinkSettings;

const BYTES: usize = 20_000;

/// How far both ends are.
#[derive(Default)]
struct Far {
    /// What is pushed next, and what comes next.
    pushes: AtomicU64,
    comes: AtomicU64,
    /// No more is to be pushed.
    is_over: AtomicBool,
}

impl Far {
    /// Pushes until it is over; how many.
    fn push(&self, maker: &Sender, pause: Duration) -> u64 {
        let mut sequence = 0;
        while !self.is_over.load(Ordering::Acquire) {
            push_all(maker, "m", sequence, sequence + 1, BYTES);
            sequence += 1;
            self.pushes.store(sequence, Ordering::Release);
            std::thread::sleep(pause);
        }
        sequence
    }

    /// Whether what was pushed only after the strike before has come.
    fn went_on(&self, given: &[u64]) -> bool {
        given.last().is_none_or(|given| self.comes.load(Ordering::Acquire) > *given)
    }

    /// Strikes, by `how`, which says whether there was anything to be struck; what had been pushed at that moment.
    fn strike(
        &self,
        count: &mut Count,
        plan: &mut Plan,
        of: &'static str,
        how: impl FnOnce() -> bool,
    ) -> u64 {
        let (had, given) = (self.comes.load(Ordering::Acquire), self.pushes.load(Ordering::Acquire));
        // Told as what it was when it is known: the moment is the one before.
        count.strike(of, true, had);
        if !how() {
            count.missed();
            plan.missed();
        }
        given
    }
}

/// Pushes while a daemon is killed and begun again; how many frames were named as lost.
fn through_restarts(wishes: SenderWishes, (row, kind): (&str, &'static str)) -> u64 {
    let mut plan = Plan::new(&mut Random::new(row), 1, strikes(3));
    let (scratch, daemon) = stand();
    let (address, place, export) = (daemon.address(), daemon.place("data", "x"), scratch.path("export"));
    let channel = wishes.channel;
    let taker = receiver(&scratch, &place, ReceiverWishes { channel, ..by(FramePolicy::Block) });
    let maker = sender(&scratch, &place, "m", wishes);
    let far = Far::default();
    let mut count = Count::of(kind, "frames");
    let (tally, given, frames) = std::thread::scope(|scope| {
        let taken = scope.spawn(|| Tally::to_the_end(&taker, BYTES, &far.comes));
        let striker = scope.spawn(|| {
            let (mut daemon, mut given) = (daemon, Vec::new());
            while plan.next(500, || far.went_on(&given)).is_some() {
                given.push(far.strike(&mut count, &mut plan, "the hub", || true));
                daemon.kill();
                daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
            }
            // A hub that holds frames in memory is not killed behind the last of them.
            far.is_over.store(true, Ordering::Release);
            (daemon, given)
        });
        let frames = far.push(&maker, Duration::from_millis(20));
        let (_daemon, given) = striker.join().expect("no panic");
        maker.finish(Some(LIMIT)).expect("an end");
        (taken.join().expect("no panic"), given, frames)
    });
    tally.count(count, &given, frames)
}

#[test]
fn durable_frames_outlive_kills_of_their_hub_and_come_exactly_once() {
    let channel = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let wishes = SenderWishes { channel, level: HeldLevel::Durable, ..SenderWishes::default() };
    let named = through_restarts(wishes, ("frames durable", "frames, the hub of a recorded channel"));
    assert_eq!(named, 0, "they were durable");
}

#[test]
fn frames_in_the_memory_of_a_hub_that_is_killed_are_delivered_or_named() {
    through_restarts(SenderWishes::default(), ("frames memory", "frames, the hub of a channel in memory"));
}

#[test]
fn cuts_of_the_link_lose_nothing_and_double_nothing() {
    let mut plan = Plan::new(&mut Random::new("frames cuts"), 1, strikes(6));
    let (scratch, daemon) = stand();
    let proxy = Proxy::new(&daemon.address());
    let place = proxy.place("data", "x");
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let far = Far::default();
    let mut count = Count::of("frames, the link", "frames");
    let (tally, given, frames) = std::thread::scope(|scope| {
        let taken = scope.spawn(|| Tally::to_the_end(&taker, BYTES, &far.comes));
        let pushed = scope.spawn(|| {
            let frames = far.push(&maker, Duration::from_millis(5));
            maker.finish(Some(LIMIT)).expect("an end");
            frames
        });
        let mut given = Vec::new();
        while plan.next(200, || far.went_on(&given)).is_some() {
            given.push(far.strike(&mut count, &mut plan, "the link", || proxy.cut()));
        }
        far.is_over.store(true, Ordering::Release);
        let frames = pushed.join().expect("no panic");
        (taken.join().expect("no panic"), given, frames)
    });
    assert_eq!(tally.count(count, &given, frames), 0, "no hub was gone");
}

#[test]
fn a_producer_that_was_killed_goes_on_under_its_name_and_one_that_leaves_is_told_of() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    std::fs::write(scratch.path("in"), noise(1, 1000 * 400)).unwrap();
    let input = scratch.path("in");
    let push = |more: &[&str]| {
        let push =
            with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
        Running::start(with(push, [&["--producer", "cam", "--json"], more].concat()))
    };
    let first = push(&["--frames-per-s", "100"]);
    let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64().unwrap_or(0);
    assert!(wait_until(LIMIT, || taken() >= 20));
    first.kill();
    let before = taken();
    let second = push(&[]).end(LIMIT).expect(0);
    let all = second.number("next_sequence");
    assert!(all >= before + 400, "{all} after {before}");
    let got = receiver(&scratch, &place, by(FramePolicy::Block));
    let mut next = 0;
    let report = take_frames(&got, |frame| {
        assert_eq!((frame.sequence, &frame.producer[..]), (next, "cam"));
        next += 1;
    });
    assert!(report.producers_gone.is_empty());
    assert_eq!(next, all);
    // One that is dropped without an end.
    let other = daemon.place("data", "other");
    let pull = with(command(&scratch, "pull"), [other.as_str(), "null:", "--json"]);
    let maker = sender(&scratch, &other, "m", SenderWishes::default());
    push_all(&maker, "m", 0, 5, 100);
    let pull = Running::start(pull);
    assert!(wait_until(LIMIT, || status(&scratch, &other)["consumers"][0]["taken"] == 5));
    drop(maker);
    let ended = pull.end(LIMIT).expect(2);
    assert_eq!(ended.finished()["producers_gone"], serde_json::json!(["m"]));
}

#[test]
fn a_push_that_is_killed_in_the_middle_of_a_set_leaves_word_of_which_frames_are_missing() {
    let (scratch, daemon) = stand();
    let (file, fifo) = (scratch.path("in"), scratch.path("fifo"));
    let frames = 3000;
    std::fs::write(&file, noise(1, 1000 * frames - 1)).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (by_size, by_word) = (daemon.place("data", "file"), daemon.place("data", "pipe"));
    let pull = |place: &str, more: &[&str]| {
        Running::start(with(with(command(&scratch, "pull"), [place, "null:"]), more))
    };
    let pulls = [pull(&by_size, &["--json"]), pull(&by_word, &[])];
    let push = |from: &Path, place: &str, more: &[&str]| {
        let push = with(command(&scratch, "push"), [from.to_str().unwrap(), place, "--frame-bytes", "1000"]);
        Running::start(with(with(push, ["--set", "42"]), more))
    };
    let first = push(&file, &by_size, &["--frames-per-s", "50"]);
    let second = push(&fifo, &by_word, &["--set-frames", "120"]);
    // Held open: nobody sees an end of it.
    let mut pipe = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    pipe.write_all(&noise(2, 50 * 1000)).unwrap();
    let taken = |place: &str| status(&scratch, place)["producers"][0]["frames"].as_u64().unwrap_or(0);
    assert!(wait_until(LIMIT, || taken(&by_size) >= 20 && taken(&by_word) == 50));
    first.kill();
    second.kill();
    let [by_size, by_word] = pulls.map(|pull| pull.end(LIMIT).expect(2));
    let came = by_size.number("frames");
    assert!(came >= 20);
    let set = told(&by_size, "set");
    let missing = serde_json::json!([[came, frames]]);
    assert_eq!((&set["set"], &set["complete"], &set["missing"]), (&42.into(), &false.into(), &missing));
    assert_eq!(by_size.finished()["sets_incomplete"], 1);
    let word = "set 42 has 50 of 120 frames; missing: 50..120";
    assert!(by_word.stderr.contains(word), "{}", by_word.stderr);
}

#[test]
fn a_new_hub_knows_the_sets_that_were_declared_to_the_one_that_was_killed() {
    let (scratch, daemon) = stand();
    let (address, proxy) = (daemon.address(), Proxy::new(&daemon.address()));
    let channel = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let wishes = SenderWishes { channel, level: HeldLevel::Durable, ..SenderWishes::default() };
    let maker = sender(&scratch, &proxy.place("data", "x"), "cam", wishes);
    maker.declare_set(9, 50).unwrap();
    for index in 0..20 {
        let frame = NewFrame { set: Some((9, index)), ..frame("cam", index.into(), 1000) };
        maker.push(frame, Some(LIMIT)).unwrap();
    }
    assert!(wait_until(LIMIT, || maker.figures().waiting == 0));
    // Nobody is left who could declare it again.
    proxy.refuse(true);
    proxy.cut();
    daemon.kill();
    let daemon = scratch.daemon_at(&address, &[("data", &scratch.path("export"))], &[], |command| command);
    let got = drain(&receiver(&scratch, &daemon.place("data", "x"), by(FramePolicy::Block)), 1000);
    assert_eq!((got.count("cam"), got.lost.len(), got.sets.len()), (20, 0, 1), "{:?}", got.sets);
    let set = &got.sets[0];
    assert_eq!((set.set, set.frames, set.delivered, &set.missing[..]), (9, 50, 20, &[(20, 50)][..]));
    maker.abort();
}

#[test]
fn who_began_now_gets_from_the_hub_after_one_that_was_killed_what_came_since_and_nothing_older() {
    let (scratch, daemon) = stand();
    let (address, place) = (daemon.address(), daemon.place("data", "x"));
    let channel = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let wishes = SenderWishes { channel, level: HeldLevel::Durable, ..SenderWishes::default() };
    let maker = sender(&scratch, &place, "cam", wishes);
    let push = |from: u64| {
        push_all(&maker, "cam", from, from + 10, 1000);
        assert!(wait_until(LIMIT, || maker.figures().waiting == 0));
    };
    push(0);
    let now = |group: Option<&str>| {
        let group = group.map(str::to_owned);
        let wishes = ReceiverWishes { from: FrameFrom::Now, group, ..by(FramePolicy::Block) };
        receiver(&scratch, &place, wishes)
    };
    let takers = [now(None), now(Some("workers"))];
    push(10);
    daemon.kill();
    let _daemon = scratch.daemon_at(&address, &[("data", &scratch.path("export"))], &[], |command| command);
    push(20);
    maker.finish(Some(LIMIT)).expect("an end");
    for taker in &takers {
        let mut came = BTreeSet::new();
        take_frames(taker, |frame| {
            came.insert(frame.sequence);
        });
        assert!(came.iter().copied().eq(10..30), "{came:?}");
    }
}

#[test]
fn a_consumer_whose_producer_ended_before_its_hub_was_killed_does_not_wait_for_it_for_good() {
    let (scratch, daemon) = stand();
    let (address, place, export) = (daemon.address(), daemon.place("data", "x"), scratch.path("export"));
    // Longer than the next one takes to begin on a machine that is busy.
    let link = LinkSettings { patience: Duration::from_secs(10), ..LinkSettings::default() };
    // Room for some of the frames.
    let wishes = ReceiverWishes { link, window_bytes: 64 << 10, ..by(FramePolicy::Block) };
    let taker = receiver(&scratch, &place, wishes);
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    push_all(&maker, "m", 0, 20, BYTES);
    maker.finish(Some(LIMIT)).expect("an end");
    assert!(taker.next(Some(LIMIT)).unwrap().is_some());
    daemon.kill();
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let report = take_all(&taker, drop);
    assert_eq!(report.producers_gone, ["m"]);
}

#[test]
fn producers_whose_windows_fill_their_hub_all_come_back_to_the_next_one() {
    const MAKERS: u32 = 16;
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let serve = |address: &str| {
        let memory = ["--frames-memory", "16MiB"];
        scratch.daemon_at(address, &[("data", &export)], &memory, |command| command)
    };
    let daemon = serve("127.0.0.1:0");
    let (address, place) = (daemon.address(), daemon.place("data", "x"));
    let channel = small(1 << 20);
    let taker =
        receiver(&scratch, &place, ReceiverWishes { producers: MAKERS, channel, ..by(FramePolicy::Block) });
    let makers: Vec<(String, Sender)> = (0..MAKERS)
        .map(|number| {
            // Each gets what there is: fewer and fewer.
            let wishes = SenderWishes { window_bytes: 2 << 20, channel, ..SenderWishes::default() };
            let name = format!("m{number}");
            let maker = sender(&scratch, &place, &name, wishes);
            (name, maker)
        })
        .collect();
    makers.iter().for_each(|(name, maker)| push_all(maker, name, 0, 2, 1000));
    daemon.kill();
    let _daemon = serve(&address);
    for (name, maker) in &makers {
        push_all(maker, name, 2, 5, 1000);
        maker.finish(Some(LIMIT)).expect("an end");
    }
    let got = drain(&taker, 1000);
    assert_eq!((got.next.len(), got.next.values().min()), (makers.len(), Some(&5)), "{:?}", got.next);
}

#[test]
fn a_producer_for_which_the_next_hub_has_no_room_fails_and_waits_no_longer_than_its_patience() {
    let (scratch, daemon) = stand();
    let (address, export) = (daemon.address(), scratch.path("export"));
    // Longer than the next one takes to begin on a machine that is busy.
    let link = LinkSettings { patience: Duration::from_secs(10), ..LinkSettings::default() };
    let maker =
        sender(&scratch, &daemon.place("data", "x"), "m", SenderWishes { link, ..SenderWishes::default() });
    push_all(&maker, "m", 0, 5, 1000);
    daemon.kill();
    // A window of the usual size is more than it has.
    let memory = ["--frames-memory", "16MiB"];
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &memory, |command| command);
    let until = Instant::now() + LIMIT;
    let failure = loop {
        // As who pushes does that wants to hear a signal.
        match maker.push(frame("m", 5, 1000), Some(Duration::from_millis(50))) {
            Err(failure) if failure.kind != FailureKind::Busy => break failure,
            // There is room for some before there is a link again.
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
        assert!(Instant::now() < until, "it does not end");
    };
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
    assert!(failure.cause.contains("--frames-memory"), "{failure}");
    assert_eq!(maker.finish(None).unwrap_err(), failure);
}

#[test]
fn a_consumer_that_was_killed_comes_back_under_its_name_or_is_forgotten() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let pull = |more: &[&str]| {
        let pull = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "1"]);
        Running::start(with(pull, [&["--name", "calib", "--json"], more].concat()))
    };
    let first = pull(&["--keep", "100s"]);
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let frames = 100;
    push_all(&maker, "m", 0, 50, 1000);
    let files = || {
        std::fs::read_dir(&got).map_or(0, |all| {
            all.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "raw"))
                .count()
        })
    };
    assert!(wait_until(LIMIT, || files() >= 10));
    first.kill();
    push_all(&maker, "m", 50, frames, 1000);
    maker.finish(Some(LIMIT)).unwrap();
    let second = pull(&["--keep", "100s"]).end(LIMIT).expect(0);
    assert!(second.finished()["lost"].as_object().unwrap().is_empty(), "{}", second.stdout);
    // What it took and had not put away when it was killed is gone with it: one frame at most.
    let mut seen = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(&got).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "jsonl") {
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                seen.extend(row["sequence"].as_u64());
            }
        }
    }
    assert!(seen.len() as u64 >= frames - 1, "{} of {frames}", seen.len());
    assert_eq!(seen.last(), Some(&(frames - 1)));
    // One that does not come back holds nobody up for longer than it is kept.
    let place = daemon.place("data", "gone");
    let gone =
        with(command(&scratch, "pull"), [place.as_str(), "null:", "--keep", "200ms", "--count", "1000000"]);
    let gone = Running::start(gone);
    assert!(wait_until(LIMIT, || status(&scratch, &place)["consumers"][0]["members"] == 1));
    gone.kill();
    assert!(wait_until(LIMIT, || status(&scratch, &place)["consumers"] == serde_json::json!([])));
}

#[test]
fn a_consumer_that_comes_back_after_its_place_was_given_up_goes_on_and_does_not_hang() {
    let (scratch, daemon) = stand();
    let proxy = Proxy::new(&daemon.address());
    let keep = Duration::from_millis(500);
    let taker =
        receiver(&scratch, &proxy.place("data", "x"), ReceiverWishes { keep, ..by(FramePolicy::Block) });
    let place = daemon.place("data", "x");
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    push_all(&maker, "m", 0, 5, 1000);
    let mut got = Got::default();
    got.take(taker.next(Some(LIMIT)).unwrap().expect("a frame"), 1000);
    let consumers = |wanted: u64| {
        let count = || status(&scratch, &place)["consumers"].as_array().map(|all| all.len() as u64);
        wait_until(LIMIT, || count() == Some(wanted))
    };
    assert!(consumers(1));
    proxy.refuse(true);
    proxy.cut();
    assert!(consumers(0));
    proxy.refuse(false);
    push_all(&maker, "m", 5, 10, 1000);
    maker.finish(Some(LIMIT)).expect("an end");
    let got = got.to_the_end(&taker, 1000);
    assert_eq!((got.count("m"), got.lost.len()), (10, 0), "{:?}", got.lost);
}

#[test]
fn a_producer_that_is_aborted_does_not_wait_for_a_hub_that_does_not_answer() {
    let (scratch, daemon) = stand();
    let link = LinkSettings { stall_timeout: LIMIT, ..LinkSettings::default() };
    let wishes = SenderWishes { link, ..SenderWishes::default() };
    let maker = sender(&scratch, &daemon.place("data", "x"), "m", wishes);
    signal(daemon.pid(), Signal::SIGSTOP);
    push_all(&maker, "m", 0, 5, 1000);
    // By then it asks why nothing is taken.
    std::thread::sleep(Duration::from_secs(3));
    let aborts = std::thread::spawn(move || maker.abort());
    // It would wait for the answer for a minute.
    let is_over = wait_until(Duration::from_secs(30), || aborts.is_finished());
    signal(daemon.pid(), Signal::SIGCONT);
    aborts.join().unwrap();
    assert!(is_over, "it waits for an answer");
}

#[test]
fn who_comes_back_and_finds_another_process_under_its_name_ends_with_that() {
    let (scratch, daemon) = stand();
    let proxy = Proxy::new(&daemon.address());
    let (far, place) = (proxy.place("data", "x"), daemon.place("data", "x"));
    let named = || ReceiverWishes { name: Some("calib".into()), ..by(FramePolicy::Block) };
    let taker = receiver(&scratch, &far, named());
    let maker = sender(&scratch, &far, "m", SenderWishes::default());
    push_all(&maker, "m", 0, 5, 1000);
    assert!(wait_until(LIMIT, || maker.figures().waiting == 0));
    proxy.refuse(true);
    proxy.cut();
    // Two others, with the numbers that these go on with.
    let (other_taker, other_maker) =
        (receiver(&scratch, &place, named()), sender(&scratch, &place, "m", SenderWishes::default()));
    push_all(&other_maker, "m", 5, 10, 1000);
    push_all(&maker, "m", 5, 8, 1000);
    proxy.refuse(false);
    let failure = maker.finish(Some(LIMIT)).unwrap_err();
    assert_eq!((failure.kind, &failure.operation[..]), (FailureKind::Conflict, TAKE_NAME), "{failure}");
    let failure = loop {
        match taker.next(Some(LIMIT)) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it hangs"),
            Err(failure) => break failure,
        }
    };
    assert_eq!((failure.kind, &failure.operation[..]), (FailureKind::Conflict, TAKE_NAME), "{failure}");
    other_maker.finish(Some(LIMIT)).expect("an end");
    let got = drain(&other_taker, 1000);
    assert_eq!((got.count("m"), got.lost.len()), (10, 0));
}

/// A frame as another program writes it.
fn framed(set: Option<(u64, u32)>, payload: &[u8]) -> Vec<u8> {
    let set = set.map(|(set, index)| [set, index.into()]);
    let line = serde_json::json!({"bytes": payload.len(), "set": set});
    [format!("{line}\n").as_bytes(), payload].concat()
}

#[test]
fn whole_records_of_a_program_reach_the_hub_though_the_push_is_stopped_or_the_stream_ends_in_one() {
    let (scratch, daemon) = stand();
    let content = noise(1, 3000);
    let records: Vec<u8> = content.chunks(1000).flat_map(|payload| framed(None, payload)).collect();
    for (name, is_stopped, code) in [("stopped", true, 143), ("torn", false, 1)] {
        let place = daemon.place("data", name);
        let taker = receiver(&scratch, &place, by(FramePolicy::Block));
        let push = with(command(&scratch, "push"), ["-", &place, "--framed", "--producer", "cam", "-q"]);
        let (push, mut stdin) = Running::fed(push);
        // Two and a half.
        stdin.write_all(&records[..records.len() - 500]).unwrap();
        let open = is_stopped.then_some(stdin);
        if is_stopped {
            let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64();
            assert!(wait_until(LIMIT, || taken() == Some(2)), "{:?}", taken());
            signal(push.pid(), Signal::SIGTERM);
        }
        push.end(LIMIT).expect(code);
        drop(open);
        let mut came = Vec::new();
        take_frames(&taker, |frame| came.extend_from_slice(&frame.payload));
        assert!(came == content[..2000], "{name}: {} bytes", came.len());
    }
}

#[test]
fn a_push_that_goes_on_says_again_only_what_sets_it_has_frames_of_and_that_its_files_are_others() {
    let (scratch, daemon) = stand();
    let payloads: Vec<Vec<u8>> = (0..4).map(|seed| noise(seed, 1000)).collect();
    let of = |set: u64| {
        let first = if set == 4 { 0 } else { 2 };
        let declared = serde_json::json!({"declare_set": {"set": set, "frames": 2}});
        let frame = |index: u32| framed(Some((set, index)), &payloads[first + index as usize]);
        [format!("{declared}\n").into_bytes(), frame(0), frame(1)]
    };
    let all = [of(4).concat(), of(5).concat()].concat();
    // Of two sets the hub has the first, and half of the other.
    let half = [of(4).concat(), of(5)[..2].concat()].concat();
    let (file, place) = (scratch.path("framed"), daemon.place("data", "x"));
    std::fs::write(&file, &all).unwrap();
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let named = ["--producer", "cam", "--json"];
    let (push, mut stdin) =
        Running::fed(with(with(command(&scratch, "push"), ["-", &place, "--framed"]), named));
    stdin.write_all(&half).unwrap();
    let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64();
    assert!(wait_until(LIMIT, || taken() == Some(3)), "{:?}", taken());
    push.kill();
    let again = || {
        let push = with(command(&scratch, "push"), [file.to_str().unwrap(), &place, "--framed", "--resume"]);
        Running::start(with(push, named)).end(LIMIT)
    };
    let pushed = again().expect(0);
    assert_eq!((pushed.number("frames"), pushed.number("next_sequence")), (1, 4));
    let mut sets = Vec::new();
    take_all(&taker, |delivery| match delivery {
        Delivery::Set(report) => sets.push((report.set, report.frames, report.is_complete())),
        other => assert!(matches!(other, Delivery::Frame(_)), "{other:?}"),
    });
    assert_eq!(sets, [(4, 2, true), (5, 2, true)]);
    // Once more: there is nothing to be sent, and no set to be begun that is over.
    assert_eq!(again().expect(0).number("frames"), 0);
    std::fs::write(&file, &half).unwrap();
    let refused = again().expect(5);
    let words = "the hub has 4 frames of cam, and these files have 3";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    assert!(refused.stderr.contains("under another --producer all of it is sent"), "{}", refused.stderr);
    // The set that all of it is goes by the same.
    let (cut, place) = (scratch.path("cut"), daemon.place("data", "y"));
    std::fs::write(&cut, payloads.concat()).unwrap();
    for (resume, frames) in [(None, 4), (Some("--resume"), 0)] {
        let push = with(command(&scratch, "push"), [cut.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
        let push = with(with(with(push, ["--set", "6"]), named), resume);
        assert_eq!(Running::start(push).end(LIMIT).expect(0).number("frames"), frames);
    }
}

#[test]
fn a_push_that_goes_on_names_a_frame_that_was_cut_short_in_a_file_that_grew_and_goes_on_behind_it() {
    let (scratch, daemon) = stand();
    let content = noise(1, 8000);
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    let (file, other) = (first.to_str().unwrap(), second.to_str().unwrap());
    let place = daemon.place("data", "x");
    // It ends with none of them.
    let taker = receiver(&scratch, &place, ReceiverWishes { producers: 2, ..by(FramePolicy::Block) });
    let push_by = |frame_bytes: &str, place: &str, files: &[&str]| {
        let push = with(command(&scratch, "push"), ["--producer", "cam", "--json", "--resume"]);
        let push = with(with(push, ["--frame-bytes", frame_bytes]), files);
        Running::start(with(push, [place])).end(LIMIT)
    };
    let push = |place: &str, files: &[&str]| push_by("1000", place, files);
    // Two frames and a half; then four and a bit; then six and eight, of which none was cut short since.
    std::fs::write(&first, &content[..2500]).unwrap();
    push(&place, &[file]).expect(2);
    let torn = |sequence: u64, bytes: u64| serde_json::json!({"source": first, "sequence": sequence, "bytes": bytes});
    let [grown, cut] = [torn(2, 500), torn(4, 300)];
    for (bytes, frames, named) in [(4300, 2, vec![grown, cut.clone()]), (6000, 1, vec![cut])] {
        std::fs::write(&first, &content[..bytes]).unwrap();
        let pushed = push(&place, &[file]).expect(2);
        let named = serde_json::json!(named);
        assert_eq!((pushed.number("frames"), &pushed.finished()["torn"]), (frames, &named));
        let words = "has grown since it ended in the middle of frame";
        assert!(pushed.stderr.contains(words), "{}", pushed.stderr);
    }
    std::fs::write(&first, &content[..8000]).unwrap();
    assert_eq!(push(&place, &[file]).expect(0).number("frames"), 2);
    let mut came = Vec::new();
    while came.len() < 8 {
        match taker.next(Some(LIMIT)).unwrap().expect("a frame") {
            Delivery::Frame(frame) => came.push(frame.payload.to_vec()),
            other => panic!("{other:?}"),
        }
    }
    let expected =
        [0..1000, 1000..2000, 2000..2500, 3000..4000, 4000..4300, 5000..6000, 6000..7000, 7000..8000];
    assert!(came.iter().zip(expected).all(|(came, bytes)| came == &content[bytes]));
    // Frames that were all cut short were cut by another number.
    let place = daemon.place("data", "z");
    let _another = receiver(&scratch, &place, by(FramePolicy::Block));
    std::fs::write(&first, &content[..3000]).unwrap();
    push_by("500", &place, &[file]).expect(0);
    std::fs::write(&first, &content).unwrap();
    let refused = push(&place, &[file]).expect(5);
    assert!(refused.stderr.contains("they are others, or grew since"), "{}", refused.stderr);
    // Where another file follows, its frames would be taken for others: it says what goes on.
    let place = daemon.place("data", "y");
    let _taker = receiver(&scratch, &place, by(FramePolicy::Block));
    std::fs::write(&first, &content[..1500]).unwrap();
    std::fs::write(&second, &content[..2000]).unwrap();
    push(&place, &[file, other]).expect(2);
    std::fs::write(&first, &content[..3000]).unwrap();
    let refused = push(&place, &[file, other]).expect(5);
    assert_eq!(refused.number("frames"), 0, "{}", refused.stdout);
    for said in ["they are others, or grew since", "one that grows goes on if it has a name of its own"] {
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}
