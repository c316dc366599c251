//! Programs at both ends of pipes that are killed at random moments: what was delivered is the beginning of the whole, or
//! the whole; what was durable stays so; the next attempt goes on.

use crate::support::chance::{Random, Struck, strikes, struck};
use crate::support::{Scratch, assert_no_litter, finish, noise};
use crate::{command, mark};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Says a file slowly.
const PRODUCER: &str = "i=0; while [ $i -lt 40 ]; do dd if=\"$0\" bs=20000 skip=$i count=1 2>/dev/null; \
    i=$((i + 1)); sleep 0.01; done";
const BYTES: usize = 40 * 20_000;

fn producer(content: &Path) -> Child {
    Command::new("sh").args(["-c", PRODUCER]).arg(content).stdout(Stdio::piped()).spawn().unwrap()
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_producer_killed_at_any_moment_leaves_the_beginning_of_what_the_next_one_says() {
    let mut random = Random::new("stream producer");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let (from, to) = (scratch.path("from"), export.join("x"));
    let content = noise(1, BYTES);
    std::fs::write(&from, &content).unwrap();
    let (mut before, mut marked) = (0, 0);
    let strikes = strikes(5);
    for strike in 0..=strikes {
        let is_last = strike == strikes;
        let mut producer = producer(&from);
        let mut stream = command(&scratch);
        stream.args(["-", &daemon.place("data", "x")]).stdin(producer.stdout.take().unwrap());
        let stream = stream.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        if !is_last {
            std::thread::sleep(Duration::from_millis(random.below(700)));
            kill(&mut producer);
        }
        let output = finish(stream);
        let said = String::from_utf8_lossy(&output.stderr);
        let there = std::fs::read(&to).unwrap_or_default();
        assert!(content.starts_with(&there), "{said}");
        assert!(there.len() >= before, "{} bytes of {before}: {said}", there.len());
        // Who said less than the one before said is told so, and nothing that stands is cut.
        match output.status.code() {
            Some(0) => {}
            code => assert!(!is_last && matches!(code, Some(2..=5)), "{code:?}: {said}"),
        }
        before = there.len();
        // What was told to be durable of an attempt that ended badly stays so in the next.
        if to.exists() {
            let (now, _) = mark(&scratch, &to);
            assert!(now >= marked && now as usize <= there.len(), "{now} of {marked}: {said}");
            marked = now;
        }
        let _ = producer.wait();
    }
    assert_eq!(before, BYTES);
    assert_no_litter(&export);
    struck(
        &format!(
            "stream producer: {strikes} kills; the mark never went back, what is there is the beginning of what was said, in \
             the end the whole"
        ),
        &Struck {
            kind: "a stream of a pipe, its producer",
            kills: strikes,
            resumed: strikes,
            whole: BYTES as u64,
            unit: "bytes",
            lost: (BYTES - before) as u64,
            ..Struck::default()
        },
    );
}

#[test]
fn a_consumer_killed_at_any_moment_got_the_beginning_and_the_next_gets_the_whole() {
    let mut random = Random::new("stream consumer");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let content = noise(2, 4 << 20);
    std::fs::write(export.join("x"), &content).unwrap();
    let out = scratch.path("out");
    let strikes = strikes(5);
    for strike in 0..=strikes {
        // A slow one, but for the last.
        let read = if strike == strikes {
            "cat"
        } else {
            "while dd bs=20000 count=1 2>/dev/null; do sleep 0.01; done"
        };
        let sink = std::fs::File::create(&out).unwrap();
        let mut stream = command(&scratch);
        let stream =
            stream.args([&daemon.place("data", "x"), "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut stream = stream.spawn().unwrap();
        let mut consumer = Command::new("sh");
        consumer.args(["-c", read]).stdin(stream.stdout.take().unwrap()).stdout(sink);
        let spawned = consumer.spawn().unwrap();
        // It holds an end of the pipe as well.
        drop(consumer);
        let mut consumer = spawned;
        if strike < strikes {
            std::thread::sleep(Duration::from_millis(random.below(500)));
            kill(&mut consumer);
        }
        let output = finish(stream);
        let _ = consumer.wait();
        let said = String::from_utf8_lossy(&output.stderr);
        let got = std::fs::read(&out).unwrap();
        assert!(content.starts_with(&got), "{said}");
        if strike == strikes {
            assert!(output.status.success() && got.len() == content.len(), "{said}");
        } else if output.status.success() {
            // All of it was in the pipe before the consumer was killed.
            assert!(content.len() - got.len() <= 1 << 20, "{} bytes: {said}", got.len());
        }
    }
    let came = std::fs::read(&out).unwrap();
    struck(
        &format!(
            "stream consumer: {strikes} kills; what each got is the beginning of the whole, the last one the whole"
        ),
        &Struck {
            kind: "a stream into a pipe, its consumer",
            kills: strikes,
            resumed: strikes,
            whole: content.len() as u64,
            unit: "bytes",
            lost: (content.len() - came.len()) as u64,
            ..Struck::default()
        },
    );
}
