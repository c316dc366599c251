//! Programs at both ends of pipes that are killed at random moments: what was delivered is the beginning of the whole,
//! or the whole; what was durable stays so; the next attempt goes on.

use crate::support::chance::{Random, strikes};
use crate::support::count::{Count, stands};
use crate::support::job::{Running, with};
use crate::support::plan::Plan;
use crate::support::{Scratch, assert_no_litter, noise};
use crate::{LIMIT, command, mark};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Says a file slowly.
const PRODUCER: &str = "i=0; while [ $i -lt 40 ]; do dd if=\"$0\" bs=20000 skip=$i count=1 2>/dev/null; \
    i=$((i + 1)); sleep 0.01; done";
const BYTES: usize = 40 * 20_000;
/// Takes a file slowly, to its end.
const CONSUMER: &str = "exec 3>&1; while told=$(dd bs=20000 count=1 2>&1 >&3); do case $told in \"0+0 records in\"*) exit;; esac; \
    sleep 0.01; done";

fn producer(content: &Path) -> Child {
    Command::new("sh").args(["-c", PRODUCER]).arg(content).stdout(Stdio::piped()).spawn().unwrap()
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whether it was still there to be killed.
fn was_there(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
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
    let mut count = Count::of("a stream of a pipe, its producer", "bytes");
    let mut plan = Plan::new(&mut random, 1, strikes(5));
    let last_code = loop {
        let mut producer = producer(&from);
        let mut stream = with(command(&scratch), ["--json", "-", &daemon.place("data", "x")]);
        stream.stdin(producer.stdout.take().unwrap()).stdout(Stdio::piped());
        let (job, _) = Running::start_as(stream);
        let is_last = plan.next(400, || !stands(&job.said()).is_empty()).is_none();
        if !is_last {
            let had = if to.exists() { mark(&scratch, &to).0 } else { 0 };
            // Where this one went on belongs to the strike before.
            stands(&job.said()).into_iter().for_each(|(at, from)| count.stood(at, from));
            let was_there = was_there(&mut producer);
            count.strike("the producer", was_there, had);
            kill(&mut producer);
            if !was_there {
                plan.missed();
            }
        }
        let ran = job.end(LIMIT);
        if is_last {
            stands(&ran.said).into_iter().for_each(|(at, from)| count.stood(at, from));
        }
        let said = &ran.stderr;
        let there = std::fs::read(&to).unwrap_or_default();
        count.foreign += u64::from(!content.starts_with(&there));
        count.looked(1, u64::from(there.len() < before));
        // Who said less than the one before said is told so, and nothing that stands is cut.
        let may_be = ran.code == Some(0) || !is_last && matches!(ran.code, Some(2..=5));
        assert!(may_be, "{:?}: {said}", ran.code);
        before = there.len();
        // What was told to be durable of an attempt that ended badly stays so in the next.
        if to.exists() {
            let (now, _) = mark(&scratch, &to);
            count.looked(1, u64::from(now < marked || now as usize > there.len()));
            marked = now;
        }
        let _ = producer.wait();
        if is_last {
            break ran.code;
        }
    };
    count.bytes(&content, &std::fs::read(&to).unwrap_or_default());
    count.over();
    assert_eq!(last_code, Some(0));
    assert_no_litter(&export);
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
    let mut count = Count::of("a stream into a pipe, its consumer", "bytes");
    // What was in the consumer's hands is gone with it, and its output is made anew.
    count.may_begin_anew = true;
    let mut plan = Plan::new(&mut random, 1, strikes(5));
    loop {
        let sink = std::fs::File::create(&out).unwrap();
        let (taken, given) = std::io::pipe().unwrap();
        let mut stream = with(command(&scratch), ["--json", &daemon.place("data", "x"), "-"]);
        stream.stdin(Stdio::null()).stdout(given);
        let (job, _) = Running::start_as(stream);
        let mut consumer =
            Command::new("sh").args(["-c", CONSUMER]).stdin(taken).stdout(sink).spawn().unwrap();
        let is_last = plan.next(400, || !stands(&job.said()).is_empty()).is_none();
        if !is_last {
            stands(&job.said()).into_iter().for_each(|(at, from)| count.stood(at, from));
            let had = std::fs::metadata(&out).unwrap().len();
            let was_there = was_there(&mut consumer);
            count.strike("the consumer", was_there, had);
            kill(&mut consumer);
            if !was_there {
                plan.missed();
            }
        }
        let ran = job.end(LIMIT);
        let _ = consumer.wait();
        let got = std::fs::read(&out).unwrap();
        count.foreign += u64::from(!content.starts_with(&got));
        if is_last {
            stands(&ran.said).into_iter().for_each(|(at, from)| count.stood(at, from));
            count.bytes(&content, &got);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            break;
        } else if ran.code == Some(0) {
            // All of it was in the pipe before the consumer was killed.
            assert!(content.len() - got.len() <= 1 << 20, "{} bytes: {}", got.len(), ran.stderr);
        }
    }
    count.over();
}
