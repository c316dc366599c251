//! Frames by the real program and the library that it is made of: producers, hubs and consumers, and what happens to
//! frames when any of them is slow, killed, cut off, or lies.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

#[path = "../support/mod.rs"]
mod support;

// From program to program, and from files to files.
mod passing;

mod beside;

// Hubs in the consumer's process.
mod own_hub;

// Consumers that are slow.
mod policies;

// Kills, cuts and restarts.
mod breaks;

// Producers and consumers that are killed.
mod kills;

// Power cuts, and disks that are gone.
mod disks;

// Peers that lie.
mod hostile;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::count::Count;
use support::job::Ran;
use support::{Daemon, Scratch, noise};
use thalweg_client::far_movers::{How, SshOptions};
use thalweg_client::frames::{
    ChannelWishes, ConsumerReport, Delivery, Frame, FramePolicy, NewFrame, Receiver, ReceiverWishes, Sender,
    SenderWishes, SetReport,
};
use thalweg_client::place::Places;
use thalweg_mover::failure::FailureKind;

/// Longest that any wait here may take: far more than it does.
pub const LIMIT: Duration = Duration::from_secs(100);

/// A daemon that exports `export` as `data`.
pub fn stand() -> (Scratch, Daemon) {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).expect("a directory");
    let daemon = scratch.daemon(&[("data", &export)]);
    (scratch, daemon)
}

/// The program with its ticket.
pub fn command(scratch: &Scratch, what: &str) -> Command {
    let mut command = scratch.thalweg();
    command.env("THALWEG_TICKET", scratch.path("ticket")).args(["frames", what]);
    command
}

/// How the library finds the daemon here.
pub fn how(ticket: &Path) -> How {
    How::to_ask(&Places::default(), Some(ticket), SshOptions::default())
}

/// A sender of this name.
pub fn sender(scratch: &Scratch, place: &str, name: &str, wishes: SenderWishes) -> Sender {
    let wishes = SenderWishes { producer: Some(name.to_owned()), ..wishes };
    Sender::open(OsStr::new(place), how(&scratch.path("ticket")), wishes).expect("a sender")
}

/// A receiver.
pub fn receiver(scratch: &Scratch, place: &str, wishes: ReceiverWishes) -> Receiver {
    Receiver::open(OsStr::new(place), how(&scratch.path("ticket")), wishes).expect("a receiver")
}

/// One of this policy.
pub fn by(policy: FramePolicy) -> ReceiverWishes {
    ReceiverWishes { policy, ..ReceiverWishes::default() }
}

/// A channel with little memory.
pub fn small(memory_bytes: u64) -> ChannelWishes {
    ChannelWishes { memory_bytes: Some(memory_bytes), ..ChannelWishes::default() }
}

/// What the frame of this sequence has in it.
pub fn content(name: &str, sequence: u64, bytes: usize) -> Vec<u8> {
    noise(sequence ^ u64::from(name.as_bytes()[name.len() - 1]) << 32, bytes)
}

/// A frame with content that can be checked.
pub fn frame(name: &str, sequence: u64, bytes: usize) -> NewFrame {
    NewFrame { payload: content(name, sequence, bytes).into(), ..NewFrame::default() }
}

/// Pushes frames `from..to`, as long as it takes.
pub fn push_all(sender: &Sender, name: &str, from: u64, to: u64, bytes: usize) {
    for sequence in from..to {
        assert_eq!(sender.push(frame(name, sequence, bytes), Some(LIMIT)).expect("room"), sequence);
    }
}

/// What a consumer got, checked as it came: each sequence of a producer once, in order, delivered or named.
#[derive(Default, Debug)]
pub struct Got {
    /// The next sequence of each producer.
    pub next: BTreeMap<String, u64>,
    /// Sequences that were delivered.
    pub delivered: BTreeMap<String, Vec<u64>>,
    /// Ranges that were named.
    pub lost: Vec<(String, u64, u64)>,
    /// Reports of sets.
    pub sets: Vec<SetReport>,
    /// Whether the end came.
    pub ended: bool,
}

impl Got {
    /// Takes a delivery. `bytes`: how large the frames are that [`frame`] made.
    pub fn take(&mut self, delivery: Delivery, bytes: usize) {
        match delivery {
            Delivery::Frame(Frame { producer, sequence, payload, .. }) => {
                assert!(*payload == *content(&producer, sequence, bytes), "{producer} {sequence} is another");
                self.advance(&producer, sequence, sequence + 1);
                self.delivered.entry(producer).or_default().push(sequence);
            }
            Delivery::Lost(lost) => {
                let producer = lost.producer.as_str().to_owned();
                self.advance(&producer, lost.first, lost.end);
                self.lost.push((producer, lost.first, lost.end));
            }
            Delivery::Set(report) => self.sets.push(report),
            Delivery::End(_) => self.ended = true,
        }
    }

    fn advance(&mut self, producer: &str, first: u64, end: u64) {
        let next = self.next.entry(producer.to_owned()).or_insert(0);
        assert_eq!(*next, first, "of {producer} {first} came where {next} was next");
        *next = end;
    }

    /// Takes what comes, until the end.
    pub fn to_the_end(mut self, receiver: &Receiver, bytes: usize) -> Got {
        let until = Instant::now() + LIMIT;
        while !self.ended {
            assert!(Instant::now() < until, "no end: {:?}, {:?}", self.next, self.lost);
            if let Some(delivery) = receiver.next(Some(Duration::from_millis(200))).expect("no failure") {
                self.take(delivery, bytes);
            }
        }
        self
    }

    /// How many were delivered of a producer.
    pub fn count(&self, producer: &str) -> u64 {
        self.delivered.get(producer).map_or(0, |all| all.len() as u64)
    }

    /// How many were named.
    pub fn lost_frames(&self) -> u64 {
        self.lost.iter().map(|(_, first, end)| end - first).sum()
    }
}

/// What a consumer got of one producer, counted and not judged.
#[derive(Default, Debug)]
pub struct Tally {
    /// Sequences, and how often each was delivered.
    pub delivered: BTreeMap<u64, u32>,
    /// The same of those that were named as lost.
    pub named: BTreeMap<u64, u32>,
    /// Frames with another content than was pushed, and what came out of its turn.
    pub foreign: u64,
    /// What was delivered or named, in order, and when.
    pub seen: Vec<(Instant, u64)>,
    /// Why it ended, if not by the end.
    pub failed: Option<String>,
}

impl Tally {
    /// Takes what comes, until the end, a failure or far too long. `next`: what is to come next, for who strikes
    /// meanwhile.
    pub fn to_the_end(receiver: &Receiver, bytes: usize, next: &AtomicU64) -> Tally {
        let (mut tally, until) = (Tally::default(), Instant::now() + LIMIT * 6);
        loop {
            if Instant::now() > until {
                tally.failed = Some("no end".to_owned());
            }
            if tally.failed.is_some() {
                return tally;
            }
            match receiver.next(Some(Duration::from_millis(200))) {
                Err(failure) => tally.failed = Some(failure.to_string()),
                Ok(Some(Delivery::End(_))) => return tally,
                Ok(Some(Delivery::Frame(frame))) => {
                    let is_it = *frame.payload == *content(&frame.producer, frame.sequence, bytes);
                    tally.foreign += u64::from(!is_it);
                    tally.comes(frame.sequence, frame.sequence + 1, next);
                    *tally.delivered.entry(frame.sequence).or_default() += 1;
                }
                Ok(Some(Delivery::Lost(lost))) => {
                    tally.comes(lost.first, lost.end, next);
                    (lost.first..lost.end).for_each(|lost| *tally.named.entry(lost).or_default() += 1);
                }
                Ok(_) => {}
            }
        }
    }

    fn comes(&mut self, first: u64, end: u64, next: &AtomicU64) {
        // What is missing in between is found by its sequence.
        self.foreign += u64::from(first < next.load(Ordering::Acquire));
        self.seen.push((Instant::now(), first));
        if end > first + 1 {
            self.seen.push((Instant::now(), end - 1));
        }
        next.store(end, Ordering::Release);
    }

    /// Into the count of its story; `given`: what had been pushed at each strike. How many were named as lost.
    #[track_caller]
    pub fn count(&self, mut count: Count, given: &[u64], frames: u64) -> u64 {
        count.went_on(given, &self.seen);
        count.foreign += self.foreign;
        count.numbered(frames, &self.delivered, &self.named);
        let named = count.named;
        count.over();
        assert_eq!(self.failed, None);
        named
    }
}

/// Takes everything, until the end.
pub fn drain(receiver: &Receiver, bytes: usize) -> Got {
    Got::default().to_the_end(receiver, bytes)
}

/// Takes what comes: `each` gets all before the end, whose report is returned.
#[track_caller]
pub fn take_all(receiver: &Receiver, mut each: impl FnMut(Delivery)) -> Box<ConsumerReport> {
    loop {
        match receiver.next(Some(LIMIT)).expect("no failure").expect("something, or the end") {
            Delivery::End(report) => return report,
            other => each(other),
        }
    }
}

/// The same, where nothing but frames is to come.
#[track_caller]
pub fn take_frames(receiver: &Receiver, mut each: impl FnMut(Frame)) -> Box<ConsumerReport> {
    take_all(receiver, |delivery| match delivery {
        Delivery::Frame(frame) => each(frame),
        other => panic!("{other:?}"),
    })
}

/// How the channel stands, as `thalweg frames status --json` says.
pub fn status(scratch: &Scratch, place: &str) -> serde_json::Value {
    let mut command = command(scratch, "status");
    let output = command.args([place, "--json"]).output().expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null)
}

/// The first event of this name that a program told with `--json`.
#[track_caller]
pub fn told(ran: &Ran, event: &str) -> serde_json::Value {
    let events = ran.stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let found = events.into_iter().find(|told| told["event"] == event);
    found.unwrap_or_else(|| panic!("no `{event}` event: {ran:?}"))
}

/// A push that finds no room.
pub fn is_held_up(sender: &Sender, bytes: usize) -> bool {
    let mut pushed = 0u64;
    loop {
        match sender.push(
            NewFrame { payload: vec![7; bytes].into(), ..NewFrame::default() },
            Some(Duration::from_secs(2)),
        ) {
            Ok(_) => pushed += 1,
            Err(failure) => return failure.kind == FailureKind::Busy,
        }
        assert!(pushed < 10_000, "nothing holds the producer up");
    }
}

/// A place as the library takes it.
pub fn os(place: &str) -> OsString {
    place.into()
}
