//! Producers and consumers that are killed at random moments, again and again under their names: no frame is torn, none
//! comes out of turn, and what a kill may cost is known.

use crate::support::chance::{Random, strikes};
use crate::support::count::Count;
use crate::support::job::{Running, signal, wait_for_handler, with};
use crate::support::plan::Plan;
use crate::support::volume::{self, Volume};
use crate::support::{noise, wait_until};
use crate::{LIMIT, by, command, content, push_all, receiver, sender, stand};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::frames::{Delivery, FramePolicy, Receiver, SenderWishes};

const BYTES: usize = 2_000;

/// What came of a producer that says the same frames from the first on each time it begins, while its sequence goes on.
#[derive(Default)]
struct Runs {
    delivered: BTreeMap<u64, u32>,
    /// Frames that were neither the next of what is said nor the first, or out of turn.
    foreign: u64,
    /// When each run was first heard, and the sequence it went on with.
    begun: Vec<(Instant, u64)>,
    /// Frames of the last run.
    last: usize,
    failed: Option<String>,
}

/// Takes everything until the end. How many `came`, for who kills meanwhile.
fn take_runs(receiver: &Receiver, said: &[u8], came: &AtomicU64) -> Runs {
    let frames: Vec<&[u8]> = said.chunks(BYTES).collect();
    let until = Instant::now() + LIMIT * 6;
    let mut runs = Runs::default();
    while Instant::now() < until {
        match receiver.next(Some(Duration::from_millis(200))) {
            Err(failure) => {
                runs.failed = Some(failure.to_string());
                return runs;
            }
            Ok(None) => {}
            Ok(Some(Delivery::Frame(frame))) => {
                let is_due = frames.get(runs.last).is_some_and(|due| *frame.payload == **due);
                if !is_due || runs.last == 0 {
                    runs.foreign += u64::from(*frame.payload != *frames[0]);
                    runs.begun.push((Instant::now(), frame.sequence));
                    runs.last = 0;
                }
                runs.last += 1;
                runs.foreign += u64::from(frame.sequence < came.load(Ordering::Acquire));
                *runs.delivered.entry(frame.sequence).or_default() += 1;
                came.store(frame.sequence + 1, Ordering::Release);
            }
            Ok(Some(Delivery::End(report))) => {
                let gone = &report.producers_gone;
                runs.failed = (!gone.is_empty()).then(|| format!("went away without finishing: {gone:?}"));
                return runs;
            }
            Ok(Some(other)) => {
                runs.failed = Some(format!("{other:?}"));
                return runs;
            }
        }
    }
    Runs { failed: Some("no end".to_owned()), ..runs }
}

#[test]
fn a_producer_killed_at_any_moment_leaves_whole_frames_and_goes_on_in_turn() {
    let mut random = Random::new("frames producer");
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    // More than is said before any of the kills.
    let said = noise(1, 3000 * BYTES);
    let input = scratch.path("in");
    std::fs::write(&input, &said).unwrap();
    let push = |rate: &str| {
        let job = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "2000"]);
        Running::start(with(job, ["--producer", "cam", "--frames-per-s", rate]))
    };
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let (mut plan, came) = (Plan::new(&mut random, 1, strikes(5)), AtomicU64::new(0));
    let mut count = Count::of("frames, the producer", "frames");
    let runs = std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_runs(&taker, &said, &came));
        let mut job = push("500");
        loop {
            // Most in the middle of it, however long they take to begin.
            let some = came.load(Ordering::Acquire) + 1 + random.below(100);
            if plan.next(200, || came.load(Ordering::Acquire) >= some).is_none() {
                break;
            }
            let is_under_way = !job.is_over();
            count.strike("the producer", is_under_way, came.load(Ordering::Acquire));
            job.kill();
            if !is_under_way {
                plan.missed();
            }
            job = push("500");
        }
        job.end(LIMIT).expect(0);
        taken.join().expect("no panic")
    });
    runs.begun.iter().for_each(|(at, from)| count.stood(*at, *from));
    count.foreign += runs.foreign;
    // What the hub took of those that were killed it alone knows: everything up to the last, and all of the last run.
    let taken = came.load(Ordering::Acquire) + (said.len() / BYTES - runs.last) as u64;
    count.numbered(taken, &runs.delivered, &BTreeMap::new());
    count.over();
    assert_eq!(runs.failed, None);
}

/// Frames that a consumer put away, each held against what was pushed.
#[derive(Default)]
struct PutAway {
    times: BTreeMap<u64, u32>,
    foreign: u64,
    known: BTreeSet<PathBuf>,
}

impl PutAway {
    /// Looks at files that are new.
    fn look(&mut self, got: &Path) {
        for entry in std::fs::read_dir(got).into_iter().flatten().flatten() {
            let index = entry.path();
            // A file has its name when it is whole.
            let payload = index.with_extension("raw");
            let is_hidden = index.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if index.extension().is_none_or(|kind| kind != "jsonl") || is_hidden || !payload.exists() {
                continue;
            }
            if !self.known.insert(index.clone()) {
                continue;
            }
            let text = std::fs::read_to_string(&index).unwrap();
            let payloads = std::fs::read(&payload).unwrap();
            let rows = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            for (sequence, row) in rows.filter_map(|row| Some((row["sequence"].as_u64()?, row))) {
                let at = row["offset"].as_u64().unwrap() as usize;
                let is_it = payloads.get(at..at + BYTES) == Some(&content("m", sequence, BYTES)[..]);
                self.foreign += u64::from(!is_it);
                *self.times.entry(sequence).or_default() += 1;
            }
        }
    }
}

/// Files of rows, with their names or still without, by their numbers.
fn indexes(got: &Path) -> BTreeMap<u64, PathBuf> {
    let numbered = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".part").unwrap_or(&name).strip_suffix(".jsonl")?;
        Some((name.rsplit('-').next()?.parse().ok()?, entry.path()))
    };
    std::fs::read_dir(got).into_iter().flatten().flatten().filter_map(numbered).collect()
}

/// The first frame in a file that is behind those of these numbers.
fn first_behind(got: &Path, before: Option<u64>) -> Option<u64> {
    let behind = indexes(got).into_iter().filter(|(number, _)| Some(*number) > before);
    let first = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        let row: serde_json::Value = serde_json::from_str(text.split_once('\n')?.0).ok()?;
        row["sequence"].as_u64()
    };
    behind.into_iter().find_map(|(_, path)| first(&path))
}

#[test]
fn a_consumer_killed_at_any_moment_goes_on_and_misses_no_more_than_it_had_in_hand() {
    kill_consumers("frames consumer", "frames, the consumer", "1");
}

#[test]
fn a_consumer_killed_in_the_middle_of_a_file_of_frames_has_all_of_them_once() {
    kill_consumers("frames consumer files", "frames, the consumer of files of 100", "100");
}

#[test]
fn a_consumer_killed_with_all_frames_in_one_file_has_all_of_them_once() {
    kill_consumers("frames consumer file", "frames, the consumer of one file", "0");
}

/// Kills a pull into files of `every` frames again and again, and begins it again under its name. What it had in hand
/// and had not put away comes again; what it had put away and not told the hub of is known.
fn kill_consumers(seed: &str, kind: &'static str, every: &str) {
    let mut random = Random::new(seed);
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let pull = || {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", every]);
        Running::start(with(job, ["--name", "calib", "--keep", "300s"]))
    };
    let mut plan = Plan::new(&mut random, 1, strikes(5));
    let mut count = Count::of(kind, "frames");
    let first = pull();
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let (is_over, pushed, mut away) = (AtomicBool::new(false), AtomicU64::new(0), PutAway::default());
    let (frames, code) = std::thread::scope(|scope| {
        let pushes = scope.spawn(|| {
            let mut next = 0;
            while !is_over.load(Ordering::Acquire) {
                push_all(&maker, "m", next, next + 1, BYTES);
                next += 1;
                pushed.store(next, Ordering::Release);
                std::thread::sleep(Duration::from_millis(5));
            }
            next
        });
        let (mut job, mut before) = (first, None);
        loop {
            // Some of them are on their way.
            let some = pushed.load(Ordering::Acquire) + 20;
            assert!(wait_until(LIMIT, || pushed.load(Ordering::Acquire) >= some), "nothing is pushed");
            // It puts away what comes: in a file behind those that there were when it began.
            let next = plan.next(500, || first_behind(&got, before).is_some());
            if next.is_none() {
                break;
            }
            let is_under_way = !job.is_over();
            job.kill();
            // What it put away since the strike before.
            first_behind(&got, before).into_iter().for_each(|from| count.stood(Instant::now(), from));
            away.look(&got);
            count.strike("the consumer", is_under_way, away.times.len() as u64);
            if !is_under_way {
                plan.missed();
            }
            before = indexes(&got).into_keys().max();
            job = pull();
        }
        is_over.store(true, Ordering::Release);
        let frames = pushes.join().expect("no panic");
        maker.finish(Some(LIMIT)).expect("an end");
        let code = job.end(LIMIT).code;
        first_behind(&got, before).into_iter().for_each(|from| count.stood(Instant::now(), from));
        (frames, code)
    });
    away.look(&got);
    count.foreign += away.foreign;
    count.numbered(frames, &away.times, &BTreeMap::new());
    count.over();
    assert_eq!(code, Some(0));
    let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    let litter =
        std::fs::read_dir(&got).unwrap().filter(|entry| hidden(&entry.as_ref().unwrap().file_name()));
    assert_eq!(litter.count(), 0, "what was begun has its name in the end");
}

#[test]
fn a_pull_whose_disk_is_full_leaves_at_the_hub_what_it_could_not_put_away() {
    if !volume::can_mount("a pull onto a full disk") {
        return;
    }
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let volume = Volume::in_memory(scratch.root(), "full", "size=8m");
    let (got, ballast) = (volume.path.join("got"), volume.path.join("ballast"));
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let frames = 2000;
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    push_all(&maker, "m", 0, frames, BYTES);
    maker.finish(Some(LIMIT)).expect("an end");
    let pull = || {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "300"]);
        Running::start(with(job, ["--name", "calib", "--keep", "300s"])).end(LIMIT)
    };
    let full = pull();
    assert_eq!(full.code, Some(6), "{}", full.stderr);
    std::fs::remove_file(&ballast).unwrap();
    let again = pull();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let mut away = PutAway::default();
    away.look(&got);
    let once: Vec<u64> = away.times.iter().filter(|(_, times)| **times == 1).map(|(of, _)| *of).collect();
    assert_eq!((once, away.foreign), ((0..frames).collect(), 0), "{}", again.stderr);
}

#[test]
fn a_pull_that_is_stopped_or_has_its_count_goes_on_under_its_name_and_has_every_frame_once() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let pull = |more: &[&str]| {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "30"]);
        Running::start(with(with(job, ["--name", "calib", "--keep", "300s", "--json"]), more))
    };
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    // More than it has put away when it is stopped, and all of it under way to it.
    let (mut pushed, each) = (0, 100);
    let more = |pushed: &mut u64| {
        push_all(&maker, "m", *pushed, *pushed + each, BYTES);
        *pushed += each;
    };
    let signals = [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 130)];
    for (round, (how, code)) in signals.into_iter().enumerate() {
        more(&mut pushed);
        let job = pull(&[]);
        wait_for_handler(job.pid(), how);
        let files = 3 * round as u64 + 2;
        let has = || indexes(&got).keys().next_back().is_some_and(|last| *last + 1 >= files);
        assert!(wait_until(LIMIT, has), "nothing comes");
        signal(job.pid(), how);
        let ran = job.end(LIMIT).expect(code);
        assert_eq!(ran.finished()["lost"], serde_json::json!({}));
    }
    for count in ["1", "45"] {
        more(&mut pushed);
        let ran = pull(&["--count", count]).end(LIMIT).expect(0);
        assert_eq!(ran.finished()["lost"], serde_json::json!({}));
    }
    maker.finish(Some(LIMIT)).expect("an end");
    let ran = pull(&[]).end(LIMIT).expect(0);
    assert_eq!((&ran.finished()["lost"], &ran.finished()["stood"]), (&serde_json::json!({}), &0.into()));
    let mut away = PutAway::default();
    away.look(&got);
    let once: Vec<u64> = away.times.iter().filter(|(_, times)| **times == 1).map(|(of, _)| *of).collect();
    assert_eq!((once, away.foreign), ((0..pushed).collect(), 0));
}

#[test]
fn a_pull_that_goes_on_in_the_middle_of_a_set_has_the_set_whole() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let (input, got) = (scratch.path("in"), scratch.path("got"));
    std::fs::write(&input, noise(3, 200 * BYTES)).unwrap();
    let pull = |more: &[&str]| {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "10"]);
        Running::start(with(with(job, ["--name", "calib", "--keep", "300s", "--json"]), more))
    };
    let first = pull(&["--count", "80"]);
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "2000"]);
    let push = Running::start(with(push, ["--set", "1"]));
    first.end(LIMIT).expect(0);
    let finished = pull(&[]).end(LIMIT).expect(0).finished();
    push.end(LIMIT).expect(0);
    let sets = (&finished["sets_complete"], &finished["sets_incomplete"]);
    assert_eq!(sets, (&1.into(), &0.into()), "{finished}");
}

#[test]
fn a_pull_that_goes_on_at_a_hub_that_was_restarted_meanwhile_has_every_frame_once() {
    let (scratch, daemon) = stand();
    let (address, place) = (daemon.address(), daemon.place("data", "x"));
    let (input, got) = (scratch.path("in"), scratch.path("got"));
    let said = noise(4, 200 * BYTES);
    std::fs::write(&input, &said).unwrap();
    let pull = |more: &[&str]| {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "10"]);
        Running::start(with(with(job, ["--name", "calib", "--keep", "300s", "--json", "--record"]), more))
    };
    let first = pull(&["--count", "80"]);
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "2000"]);
    let push = Running::start(with(push, ["--durable", "--producer", "m", "--set", "3"]));
    first.end(LIMIT).expect(0);
    push.end(LIMIT).expect(0);
    daemon.kill();
    let export = scratch.path("export");
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let finished = pull(&[]).end(LIMIT).expect(0).finished();
    assert_eq!((&finished["stood"], &finished["sets_incomplete"]), (&80.into(), &0.into()), "{finished}");
    let mut whole = Vec::new();
    for index in indexes(&got).into_values() {
        whole.extend(std::fs::read(index.with_extension("raw")).unwrap());
    }
    assert!(whole == said, "{} bytes of {}", whole.len(), said.len());
}

#[test]
fn frames_under_way_to_a_pull_that_has_its_count_are_the_next_ones() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let frames = 50;
    push_all(&maker, "m", 0, frames, BYTES);
    maker.finish(Some(LIMIT)).expect("an end");
    let pull = |more: &[&str]| {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--json"]);
        Running::start(with(job, more)).end(LIMIT)
    };
    let finished = pull(&["--count", "1"]).expect(0).finished();
    assert_eq!((&finished["frames"], &finished["bytes"]), (&1.into(), &BYTES.into()), "{finished}");
    // What the first one took is named to one that begins with the first frame; nothing else is missing.
    let ran = pull(&[]).expect(2);
    assert_eq!(ran.finished()["lost"], serde_json::json!({"forgotten": 1}));
    let mut away = PutAway::default();
    away.look(&got);
    assert_eq!((away.times, away.foreign), ((0..frames).map(|sequence| (sequence, 1)).collect(), 0));
}
