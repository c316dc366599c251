//! Producers and consumers that are killed at random moments, again and again under their names: no frame is torn, none comes
//! out of turn, and what a kill may cost is known.

use crate::support::chance::{Random, Struck, strikes, struck};
use crate::support::job::{Running, with};
use crate::support::{noise, wait_until};
use crate::{LIMIT, by, command, content, push_all, receiver, sender, stand};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::frames::{Delivery, FramePolicy, Receiver, SenderWishes};

const BYTES: usize = 2_000;

/// Takes everything until the end. Each time the producer begins, it says the same frames from the first on; its sequence goes
/// on. How many `came`, and how often it began.
fn take_runs(receiver: &Receiver, said: &[u8], came: &AtomicU64) -> (u64, u64) {
    let frames: Vec<&[u8]> = said.chunks(BYTES).collect();
    let until = Instant::now() + LIMIT * 2;
    let (mut next, mut due, mut begun) = (0, 0, 0);
    loop {
        assert!(Instant::now() < until, "no end after {next} frames");
        match receiver.next(Some(Duration::from_millis(200))).expect("no failure") {
            None => {}
            Some(Delivery::Frame(frame)) => {
                assert_eq!((frame.sequence, &frame.producer[..]), (next, "cam"));
                let is_due = due < frames.len() && *frame.payload == *frames[due];
                if !is_due || due == 0 {
                    assert!(
                        *frame.payload == *frames[0],
                        "frame {next} is neither the {due}th nor the first"
                    );
                    (due, begun) = (0, begun + 1);
                }
                due += 1;
                next += 1;
                came.store(next, Ordering::Release);
            }
            Some(Delivery::End(report)) => {
                assert!(report.producers_gone.is_empty());
                assert_eq!(due, frames.len(), "the last one said all");
                return (next, begun);
            }
            Some(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_producer_killed_at_any_moment_leaves_whole_frames_and_goes_on_in_turn() {
    let mut random = Random::new("frames producer");
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    // More than is said before any of the kills.
    let said = noise(1, 5000 * BYTES);
    let input = scratch.path("in");
    std::fs::write(&input, &said).unwrap();
    let push = |rate: &str| {
        let job = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "2000"]);
        Running::start(with(job, ["--producer", "cam", "--frames-per-s", rate]))
    };
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let (strikes, came) = (strikes(5), AtomicU64::new(0));
    let (frames, begun) = std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_runs(&taker, &said, &came));
        for strike in 0..strikes {
            let (before, job) = (came.load(Ordering::Acquire), push("500"));
            // Some before they say anything, most in the middle of it, however long they take to begin.
            if strike % 4 > 0 {
                let some = 1 + random.below(100);
                assert!(wait_until(LIMIT, || came.load(Ordering::Acquire) >= before + some), "nothing comes");
            }
            std::thread::sleep(Duration::from_millis(random.below(200)));
            job.kill();
        }
        push("100000").end(LIMIT).expect(0);
        taken.join().expect("no panic")
    });
    struck(
        &format!(
            "frames producer: {strikes} kills; {frames} frames came, each whole and in its turn, of the {begun} times that \
             it said anything, in the end all"
        ),
        &Struck {
            kind: "frames, the producer",
            kills: strikes,
            resumed: strikes,
            whole: frames,
            unit: "frames",
            ..Struck::default()
        },
    );
}

/// Sequences of what a consumer put away, each held against what was pushed; how many came twice.
fn put_away(got: &Path) -> (BTreeSet<u64>, u64) {
    let (mut seen, mut twice) = (BTreeSet::new(), 0);
    for entry in std::fs::read_dir(got).unwrap() {
        let index = entry.unwrap().path();
        if index.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        // The line that was being written when it was killed is none.
        let text = std::fs::read_to_string(&index).unwrap();
        let rows = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        for row in rows {
            let sequence = row["sequence"].as_u64().expect("a sequence");
            let payload = std::fs::read(index.with_extension("raw")).unwrap();
            assert!(payload == content("m", sequence, BYTES), "{index:?} has another frame than {sequence}");
            twice += u64::from(!seen.insert(sequence));
        }
    }
    (seen, twice)
}

#[test]
fn a_consumer_killed_at_any_moment_goes_on_and_misses_no_more_than_it_had_in_hand() {
    let mut random = Random::new("frames consumer");
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "x");
    let got = scratch.path("got");
    let pull = || {
        let job = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "--every", "1"]);
        Running::start(with(job, ["--name", "calib", "--keep", "300s"]))
    };
    let strikes = strikes(5);
    let first = pull();
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let is_over = AtomicBool::new(false);
    let frames = std::thread::scope(|scope| {
        let pushed = scope.spawn(|| {
            let mut next = 0;
            while !is_over.load(Ordering::Acquire) {
                push_all(&maker, "m", next, next + 1, BYTES);
                next += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            next
        });
        let mut job = first;
        for _ in 0..strikes {
            std::thread::sleep(Duration::from_millis(random.below(500)));
            job.kill();
            job = pull();
        }
        is_over.store(true, Ordering::Release);
        let frames = pushed.join().expect("no panic");
        maker.finish(Some(LIMIT)).expect("an end");
        job.end(LIMIT).expect(0);
        frames
    });
    let (seen, twice) = put_away(&got);
    let missing = frames - seen.len() as u64;
    // What it took and had not put away when it was killed is gone with it: one frame.
    assert!(missing <= strikes, "{missing} of {frames} are missing after {strikes} kills");
    assert!(seen.last().is_none_or(|last| *last < frames));
    struck(
        &format!(
            "frames consumer: {strikes} kills; of {frames} frames {missing} were in its hands when it was killed, {twice} \
             came twice, the others once, each whole"
        ),
        &Struck {
            kind: "frames, the consumer",
            kills: strikes,
            resumed: strikes,
            whole: frames,
            unit: "frames",
            in_hand: missing,
            ..Struck::default()
        },
    );
}
