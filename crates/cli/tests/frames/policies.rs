//! Consumers that are slow: they hold the producers up, are replayed to, or lose what is named.

use crate::support::chance::quick_or_torture;
use crate::support::job::{Running, peak_memory, signal, with};
use crate::support::volume::{self, Volume};
use crate::support::{Scratch, wait_until};
use crate::{
    Got, LIMIT, by, command, content, drain, frame, is_held_up, push_all, receiver, sender, small, stand,
    status, take_frames,
};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::frames::{ChannelWishes, FramePolicy, LossReason, ReceiverWishes, SenderWishes};
use thalweg_mover::event::{Event, Events};

/// Frames of these tests.
const BYTES: usize = 100_000;
/// Memory of their channels, and the windows of both ends.
const MEMORY: u64 = 1 << 20;
const WINDOW: u64 = 400_000;

fn slow(policy: FramePolicy) -> ReceiverWishes {
    ReceiverWishes { window_bytes: WINDOW, channel: small(MEMORY), ..by(policy) }
}

fn fast() -> SenderWishes {
    SenderWishes { window_bytes: WINDOW, channel: small(MEMORY), ..SenderWishes::default() }
}

#[test]
fn a_consumer_that_blocks_holds_its_producers_up_and_loses_nothing() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::Block));
    let maker = sender(&scratch, &place, "m", fast());
    assert!(is_held_up(&maker, BYTES));
    let status = status(&scratch, &place);
    assert!(status["memory_bytes"].as_u64().unwrap() <= MEMORY, "{status}");
    let held = maker.figures().frames;
    std::thread::scope(|scope| {
        scope.spawn(|| maker.finish(Some(LIMIT)).expect("an end"));
        let mut count = 0;
        let report = take_frames(&taker, |frame| {
            assert_eq!(frame.sequence, count);
            count += 1;
        });
        assert_eq!((report.figures.frames, report.figures.lost_frames()), (held, 0));
        assert_eq!(count, held);
    });
}

#[test]
fn a_consumer_that_blocks_and_takes_nothing_is_passed_over_after_a_time_and_both_sides_are_told() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon_with(&[("data", &export)], &["--block-max", "5s"]);
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::Block));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = told.clone();
    let events: Events = Arc::new(move |event| {
        if let Event::Note(text) = event {
            hears.lock().unwrap().push(text);
        }
    });
    let maker = sender(&scratch, &place, "m", SenderWishes { events, ..fast() });
    // Several times what stands between them holds.
    push_all(&maker, "m", 0, 60, BYTES);
    let is_told = || told.lock().unwrap().iter().any(|text| text.contains("--block-max"));
    assert!(wait_until(LIMIT, is_told), "{:?}", told.lock().unwrap());
    maker.finish(Some(LIMIT)).unwrap();
    let got = drain(&taker, BYTES);
    assert!(got.lost_frames() > 0, "{got:?}");
    assert_eq!(got.count("m") + got.lost_frames(), 60);
}

#[test]
fn a_push_that_is_stopped_while_it_is_held_up_gives_all_that_it_took_out_of_its_pipe() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::Block));
    // More than all that stands between them holds.
    let all: Vec<u8> = (0..80).flat_map(|sequence| content("m", sequence, BYTES)).collect();
    let (mut left, mut given) = std::io::pipe().unwrap();
    let push = with(command(&scratch, "push"), ["-", place.as_str(), "--frame-bytes", "100000"]);
    let mut push = with(push, ["--window", "400kB", "--producer", "m", "--json"]);
    push.stdin(left.try_clone().unwrap()).stdout(Stdio::piped());
    let (push, _) = Running::start_as(push);
    let fed = Arc::new(AtomicUsize::new(0));
    let feeder = std::thread::spawn({
        let (all, fed) = (all.clone(), fed.clone());
        move || {
            for piece in all.chunks(10_000) {
                if given.write_all(piece).is_err() {
                    return;
                }
                fed.fetch_add(piece.len(), Ordering::AcqRel);
            }
        }
    });
    let mut before = 0;
    let rests = || {
        std::thread::sleep(Duration::from_millis(500));
        let now = fed.load(Ordering::Acquire);
        std::mem::replace(&mut before, now) == now && now > 5 * BYTES
    };
    assert!(wait_until(LIMIT, rests), "nothing holds it up");
    signal(push.pid(), Signal::SIGTERM);
    let says = || push.said().iter().any(|(_, line)| line.contains("stopping: "));
    assert!(wait_until(LIMIT, says), "it does not hear");
    // Time enough to drop what it has in hand.
    std::thread::sleep(Duration::from_millis(500));
    let came = drain(&taker, BYTES).count("m");
    assert_eq!(push.end(LIMIT).expect(143).number("frames"), came);
    // The rest is there for who reads the pipe next.
    let mut rest = Vec::new();
    left.read_to_end(&mut rest).unwrap();
    feeder.join().unwrap();
    let taken = all.len() - rest.len();
    assert_eq!(taken, came as usize * BYTES, "it took another number of bytes than came");
    assert!(rest == all[taken..]);
}

#[test]
fn a_push_that_is_held_up_says_by_whom() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let named = ReceiverWishes { name: Some("calib".into()), ..slow(FramePolicy::Block) };
    let taker = receiver(&scratch, &place, named);
    let input = scratch.path("in");
    std::fs::write(&input, vec![7; 80 * BYTES]).unwrap();
    let push = [input.to_str().unwrap(), place.as_str(), "--frame-bytes", "100000", "--memory", "2MiB"];
    let push = Running::start(with(command(&scratch, "push"), push));
    let says = |word: &str| push.said().iter().any(|(_, line)| line.contains(word));
    assert!(wait_until(LIMIT, || says(": consumer calib at 127.0.0.1, block, ")), "{:?}", push.said());
    // Nor is the channel as it was asked for.
    assert!(says("1048576 bytes of memory, not 2097152 (--memory)"), "{:?}", push.said());
    push.kill();
    drop(taker);
}

#[test]
fn what_waits_for_a_first_consumer_holds_producers_up_unless_the_channel_is_unattended() {
    let (scratch, daemon) = stand();
    let maker = sender(&scratch, &daemon.place("data", "kept"), "m", fast());
    assert!(is_held_up(&maker, BYTES));
    let unattended = ChannelWishes { is_unattended: true, ..small(MEMORY) };
    let place = daemon.place("data", "open");
    let maker = sender(&scratch, &place, "m", SenderWishes { channel: unattended, ..fast() });
    push_all(&maker, "m", 0, 50, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    // Who comes later is told what went nowhere.
    let late = drain(&receiver(&scratch, &place, slow(FramePolicy::Block)), BYTES);
    assert_eq!(late.count("m") + late.lost_frames(), 50);
    assert!(late.lost_frames() > 0);
}

#[test]
fn a_consumer_that_drops_the_oldest_has_an_exact_list_of_what_it_lost() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::DropOldest { depth: 0 }));
    let maker = sender(&scratch, &place, "m", fast());
    // It takes nothing meanwhile: the producer is not held up.
    push_all(&maker, "m", 0, 120, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let got = drain(&taker, BYTES);
    assert_eq!(got.count("m") + got.lost_frames(), 120);
    assert!(got.lost_frames() >= 60, "{:?}", got.lost);
    assert_eq!(got.delivered["m"].last(), Some(&119));
    let figures = taker.figures();
    assert_eq!(figures.lost, [(LossReason::Dropped, got.lost_frames())]);
}

#[test]
fn a_depth_bounds_how_far_behind_a_consumer_is() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let wishes = ReceiverWishes { window_bytes: WINDOW, ..by(FramePolicy::DropOldest { depth: 5 }) };
    let taker = receiver(&scratch, &place, wishes);
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    push_all(&maker, "m", 0, 100, 1000);
    maker.finish(Some(LIMIT)).unwrap();
    let behind = status(&scratch, &place)["consumers"][0]["behind"].as_u64().unwrap();
    assert!(behind <= 7, "{behind} behind");
    let got = drain(&taker, 1000);
    assert_eq!(got.count("m") + got.lost_frames(), 100);
    assert_eq!(got.delivered["m"].last(), Some(&99));
}

#[test]
fn a_consumer_of_the_latest_gets_the_newest_and_the_names_of_the_others() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::LatestOnly));
    let maker = sender(&scratch, &place, "m", fast());
    push_all(&maker, "m", 0, 100, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let got = drain(&taker, BYTES);
    assert_eq!(got.count("m") + got.lost_frames(), 100);
    // What was under way when it stopped taking, and then the newest.
    assert!(got.count("m") <= 10, "{:?}", got.delivered);
    assert_eq!(got.delivered["m"].last(), Some(&99));
}

#[test]
fn what_memory_does_not_hold_is_spilled_and_replayed_exactly_after_a_stall() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::Spill));
    let maker = sender(&scratch, &place, "m", fast());
    let frames = 300;
    // The consumer stalls until all of it was made: thirty times what memory holds.
    push_all(&maker, "m", 0, frames, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let during = status(&scratch, &place);
    assert!(during["spill_bytes"].as_u64().unwrap() > 20_000_000, "{during}");
    assert!(during["memory_bytes"].as_u64().unwrap() <= MEMORY, "{during}");
    let got = drain(&taker, BYTES);
    assert_eq!((got.count("m"), got.lost.len()), (frames, 0));
    assert_eq!(taker.figures().latency.unwrap().count, frames);
}

/// A program that is stopped, while frames are made all the while: with `cargo xtask torture --only frames` for 30 s of
/// wall time, at 100 frames a second.
#[test]
fn a_consumer_that_stands_still_while_frames_are_made_gets_all_of_them_from_the_spill_log() {
    let stall = Duration::from_secs(quick_or_torture(1, 30));
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let pull = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--policy", "spill"]);
    let pull = with(pull, ["--memory", "1MiB", "--window", "400kB", "--keep", "10min", "--json"]);
    let pull = Running::start(pull);
    let maker = sender(&scratch, &place, "m", fast());
    let frames_now = || status(&scratch, &place)["consumers"][0]["taken"].as_u64().unwrap_or(0);
    push_all(&maker, "m", 0, 10, BYTES);
    assert!(wait_until(LIMIT, || frames_now() > 0), "it takes frames");
    signal(pull.pid(), Signal::SIGSTOP);
    let before = peak_memory(daemon.pid()).unwrap();
    let since = Instant::now();
    let mut frames = 10;
    while since.elapsed() < stall || frames < 300 {
        push_all(&maker, "m", frames, frames + 1, BYTES);
        frames += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let during = status(&scratch, &place);
    assert!(during["spill_bytes"].as_u64().unwrap() > 10 * MEMORY, "{during}");
    assert!(during["memory_bytes"].as_u64().unwrap() <= MEMORY, "{during}");
    // What its kernel says of it, too: thirty times the channel went through, and half of that is far more than the
    // channel and what writes its log take.
    let grown = peak_memory(daemon.pid()).unwrap() - before;
    let kept_max = 300 * BYTES as u64 / 2;
    assert!(grown <= kept_max, "the daemon took {grown} bytes more");
    signal(pull.pid(), Signal::SIGCONT);
    maker.finish(Some(LIMIT)).unwrap();
    let ended = pull.end(LIMIT).expect(0);
    assert_eq!(ended.number("frames"), frames);
    assert!(ended.finished()["lost"].as_object().unwrap().is_empty(), "{}", ended.stdout);
    let there = std::fs::read(got.join("frames-000000.raw")).unwrap();
    assert_eq!(there.len(), frames as usize * BYTES);
    for (sequence, frame) in (0..).zip(there.chunks(BYTES)) {
        assert!(*frame == *content("m", sequence, BYTES), "{sequence} is another");
    }
}

#[test]
fn a_slow_consumer_that_spills_does_not_slow_one_that_is_fast() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let stalled = receiver(&scratch, &place, slow(FramePolicy::Spill));
    let quick = receiver(&scratch, &place, slow(FramePolicy::Block));
    let maker = sender(&scratch, &place, "m", fast());
    std::thread::scope(|scope| {
        let quick = scope.spawn(|| drain(&quick, BYTES));
        push_all(&maker, "m", 0, 100, BYTES);
        maker.finish(Some(LIMIT)).unwrap();
        assert_eq!(quick.join().unwrap().count("m"), 100);
    });
    assert_eq!(drain(&stalled, BYTES).count("m"), 100);
}

#[test]
fn a_spill_log_at_its_limit_says_what_it_forgot() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let channel = ChannelWishes { spill_bytes: Some(4 << 20), ..small(MEMORY) };
    let taker = receiver(&scratch, &place, ReceiverWishes { channel, ..slow(FramePolicy::Spill) });
    let maker = sender(&scratch, &place, "m", fast());
    push_all(&maker, "m", 0, 200, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let during = status(&scratch, &place);
    assert!(during["spill_bytes"].as_u64().unwrap() <= 4 << 20, "{during}");
    let got = drain(&taker, BYTES);
    assert_eq!(got.count("m") + got.lost_frames(), 200);
    assert!(got.lost_frames() > 0);
    assert_eq!(taker.figures().lost, [(LossReason::Forgotten, got.lost_frames())]);
}

#[test]
fn a_full_disk_under_the_spill_log_holds_producers_up_and_loses_nothing() {
    if !volume::can_mount("frames on a full disk") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "full", "size=4m");
    let daemon = scratch.daemon(&[("data", &volume.path)]);
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, slow(FramePolicy::Spill));
    let maker = sender(&scratch, &place, "m", fast());
    let mut pushed = 0;
    let is_told = || !status(&scratch, &place)["spill_trouble"].is_null();
    assert!(
        wait_until(LIMIT, || {
            while maker.push(frame("m", pushed, BYTES), Some(Duration::from_millis(500))).is_ok() {
                pushed += 1;
                assert!(pushed < 1000, "nothing holds it up");
            }
            is_told()
        }),
        "it is told"
    );
    // Its producer too, which else would look for consumers that are slow.
    let mut why = String::new();
    let hears = || {
        match maker.push(frame("m", pushed, BYTES), Some(Duration::from_millis(500))) {
            Ok(_) => pushed += 1,
            Err(failure) => why = failure.cause,
        }
        why.contains("cannot write its log") && why.contains("No space left on device")
    };
    assert!(wait_until(LIMIT, hears), "{why}");
    std::thread::scope(|scope| {
        scope.spawn(|| maker.finish(Some(LIMIT)).expect("an end"));
        let got = Got::default().to_the_end(&taker, BYTES);
        assert_eq!((got.count("m"), got.lost.len()), (pushed, 0));
    });
}
