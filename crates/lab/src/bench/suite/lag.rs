//! `lag`: how long after it was written can a byte be read at the destination? Messages go at a steady rate through a
//! pipe into `thalweg stream`, or are appended to a file that it follows; at the other end the file is read as it
//! grows. Near, over loopback, and over a distance.
//!
//! Frames of 1 MB, a thousand a second as far as the machine carries them, go from memory to memory by `thalweg
//! frames`, which tells their tail itself: by way of a hub in a daemon beside the consumer, and of one in the
//! consumer's own process, which is one hop less. Of those that came before both clocks were measured no lag is known:
//! how many they are stands in the sample (`unmeasured`).
//!
//! A consumer that is slower than its frames drops them, each by name, or has them spilled while it stands still: what
//! it took and what was named is held against what was given ([`super::slow_consumer`]).
//!
//! A message's lag runs from its write, or from when the write was due if those before it held it up; a frame's always
//! from when it was due: a path that cannot carry the rate shows as lag, not as a slower writer. It ends when the last
//! byte of the message was read, which is looked for every [`LOOK`]; so much is in each.

use super::slow_consumer::{self, Slow};
use super::{
    OVER_A_PATH, Suite, Takes, Values, bytes, encrypted, of_copy, path_wish, scaled, seconds, size,
    testbed_kind,
};
use crate::bench::network::{Host, PathWish, Testbed};
use crate::bench::record::{PathKind, Sample};
use crate::bench::workspace::{Copied, Daemon, Workspace};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::spec::TUNED;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, counted, of_io};
use thalweg_mover::link::ticket::Ticket;
use thalweg_mover::model::score;
use thalweg_wire::limits;

pub const SUITE: Suite = Suite {
    name: "lag",
    asks: "how late is what was written readable far away? (003 section 2.1: worst case first)",
    runs: 3,
    budget_bytes: 64 * super::MIB,
    takes: Takes {
        time: Values::One,
        stall: Values::One,
        seed: Values::No,
        budget_bytes_min: FRAME_BYTES,
        ..OVER_A_PATH
    },
    prepare,
    needs,
    plan: super::untold,
    run,
};

/// Of the far case, unless others are asked for.
const RTT: Duration = Duration::from_millis(100);
const RATE_BITS_PER_S: u64 = 10 * super::GBIT;
/// How long messages are written, unless another time is asked for.
const TIME: Duration = Duration::from_secs(2);
/// Between two looks at the destination.
const LOOK: Duration = Duration::from_micros(200);
/// How long the first message, which opens everything, may take.
const OPENING: Duration = Duration::from_secs(20);

/// What is written at once, and how often.
#[derive(Debug, Clone, Copy)]
struct Messages {
    bytes: usize,
    period: Duration,
}

const MESSAGES: [Messages; 2] = [
    Messages { bytes: 1 << 10, period: Duration::from_millis(1) },
    Messages { bytes: 100 << 10, period: Duration::from_millis(10) },
];

impl Messages {
    fn count(&self, wishes: &Wishes) -> u32 {
        let time = wishes.time.unwrap_or(TIME);
        let by_time = (time.as_secs_f64() / self.period.as_secs_f64()) as u64;
        // One more opens everything.
        let by_bytes = (SUITE.budget_bytes(wishes) / self.bytes as u64).saturating_sub(1);
        u32::try_from(by_time.min(by_bytes).max(1)).unwrap_or(u32::MAX)
    }
}

fn far_path(wishes: &Wishes) -> PathWish {
    path_wish(wishes, RTT, RATE_BITS_PER_S)
}

fn needs(wishes: &Wishes, prepared: &mut Prepared) -> Result<()> {
    let has_path_asked =
        !wishes.rtts.is_empty() || wishes.rate_bits_per_s.is_some() || !wishes.losses.is_empty();
    match Testbed::check() {
        Ok(()) => {}
        Err(failure) if has_path_asked => return Err(failure),
        Err(_) => prepared.path = PathKind::Loopback,
    }
    Ok(())
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let path = match testbed_kind(&far_path(wishes)) {
        // Near and far are parameters.
        PathKind::Testbed { rate_bits_per_s, loss, mtu_bytes, .. } => {
            PathKind::Testbed { rtt_s: None, rate_bits_per_s, loss, mtu_bytes }
        }
        other => other,
    };
    let told = |messages: &Messages| {
        let (count, bytes) = (messages.count(wishes), size(messages.bytes as u64));
        format!("{count} of {bytes}, one each {} ms", messages.period.as_millis())
    };
    let (stall, frames) = stalled(wishes);
    let whole = (stall.as_secs_f64() * f64::from(FRAMES_PER_S)).round() as u64;
    let mut changes = vec![scaled("messages", "1 MB at 1 kHz (003 section 2.1)", {
        MESSAGES.iter().map(told).collect::<Vec<_>>().join("; ")
    })];
    let (flowing, all) = flowing(wishes);
    if flowing < all {
        let all = counted(all, "frame", "frames");
        let from = format!("{all} of 1 MB in {} s", wishes.time.unwrap_or(TIME).as_secs_f64());
        changes.push(scaled("frames", &from, counted(flowing, "frame", "frames")));
    }
    if frames < whole {
        let whole = counted(whole, "frame", "frames");
        let from = format!("{whole} of 1 MB in {} s", stall.as_secs_f64());
        changes.push(scaled(
            "frames while a consumer stands still",
            &from,
            counted(frames, "frame", "frames"),
        ));
    }
    Ok(Prepared {
        path,
        encryption: encrypted(),
        verification: "a digest of every piece before it is written".to_owned(),
        changes,
    })
}

/// How many frames are given to a consumer that takes them or drops them, and how many the whole time would have.
fn flowing(wishes: &Wishes) -> (u64, u64) {
    let all = (wishes.time.unwrap_or(TIME).as_secs_f64() * f64::from(FRAMES_PER_S)).max(1.0) as u64;
    let room = wishes.budget_bytes.map_or(all, |budget_bytes| budget_bytes / FRAME_BYTES);
    (all.min(room).max(1), all)
}

/// How long a consumer stands still, and how many frames are given meanwhile.
fn stalled(wishes: &Wishes) -> (Duration, u64) {
    let stall = wishes.stall.unwrap_or(STALL);
    let due = (stall.as_secs_f64() * f64::from(FRAMES_PER_S)) as u64;
    let room = wishes.budget_bytes.unwrap_or(SPILL_BYTES) / FRAME_BYTES;
    (stall, due.min(room).max(1))
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let mut stands = vec![Stand {
        testbed: None,
        rtt: Duration::ZERO,
        daemon: bench.workspace.daemon(None)?,
        channels: AtomicU32::new(0),
    }];
    match Testbed::check() {
        Ok(()) => {
            let path = far_path(bench.wishes);
            let testbed = Testbed::up(&bench.workspace, "lag", &path, TUNED)?;
            let daemon = bench.workspace.daemon(Some(&testbed.right))?;
            stands.push(Stand { testbed: Some(testbed), rtt: path.rtt, daemon, channels: AtomicU32::new(0) });
        }
        Err(failure) => bench.leave_out("over a distance", &failure.cause)?,
    }
    let whats = [By::Pipe, By::File]
        .into_iter()
        .flat_map(|by| MESSAGES.map(|messages| What::Messages(by, messages)))
        .chain([What::Frames(Place::Daemon), What::Frames(Place::Consumer)])
        .chain(["drop-oldest", "latest-only"].map(|policy| What::Slow(Slow::Drops(policy))));
    let (stall, frames) = stalled(bench.wishes);
    // The log, and what is not written yet.
    let whats: Vec<What> = match bench.workspace.needs(frames * FRAME_BYTES + slow_consumer::MEMORY_BYTES) {
        Ok(()) => whats.chain([What::Slow(Slow::Stalls { stall, frames })]).collect(),
        Err(failure) => {
            bench.leave_out("a consumer that stands still, spill", &failure.cause)?;
            whats.collect()
        }
    };
    let cases = stands.iter().flat_map(|stand| whats.iter().map(move |what| (stand, *what))).collect();
    bench.take_turns(cases, |bench, _, (stand, what)| {
        let measure = || match what {
            What::Messages(by, messages) => stand.measure(bench, *by, *messages),
            What::Frames(hub) => stand.frames(&bench.workspace, *hub, flowing(bench.wishes).0),
            What::Slow(slow) => stand.slow(bench, *slow),
        };
        let sample = match &stand.testbed {
            Some(testbed) => super::over(testbed, measure)?,
            None => measure()?,
        };
        bench.workspace.remove(&stand.daemon.path("flow"))?;
        Ok(Some(sample))
    })
}

/// What is late.
#[derive(Debug, Clone, Copy)]
enum What {
    Messages(By, Messages),
    /// By way of a hub.
    Frames(Place),
    /// The same, to a consumer that is slower.
    Slow(Slow),
}

/// What messages are written to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Pipe,
    /// A file that grows, closed in the end.
    File,
}

impl By {
    fn series(self) -> &'static str {
        match self {
            By::Pipe => "stream",
            By::File => "stream of a file that grows",
        }
    }
}

/// Where the hub of frames is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// In a daemon beside the consumer.
    Daemon,
    /// In the consumer's own process.
    Consumer,
}

impl Place {
    fn series(self) -> &'static str {
        match self {
            Place::Daemon => "frames",
            Place::Consumer => "frames, hub in the consumer's process",
        }
    }
}

/// Where it is measured.
struct Stand {
    // Ends before its hosts do.
    daemon: Daemon,
    testbed: Option<Testbed>,
    rtt: Duration,
    /// Channels so far: each run has its own.
    channels: AtomicU32,
}

impl Stand {
    fn measure(&self, bench: &Bench<'_>, by: By, messages: Messages) -> Result<Sample> {
        let count = messages.count(bench.wishes);
        let source = bench.workspace.path("grows");
        // Who streams it finds its writer.
        let grows = match by {
            By::Pipe => None,
            By::File => Some(File::create(&source).map_err(|error| of_io("make a file", &error))?),
        };
        let from = grows.as_ref().map_or("-".to_owned(), |_| source.display().to_string());
        let words = ["stream".to_owned(), from, self.daemon.url("flow")];
        let file = self.daemon.path("flow");
        let is_over = AtomicBool::new(false);
        let host: Option<&Host> = self.testbed.as_ref().map(|testbed| &testbed.left);
        let (fed, seen) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read(&file, messages.bytes, count + 1, &is_over));
            let feed = |pipe: ChildStdin| match grows {
                None => write(pipe, &file, messages, count),
                Some(grows) => write(grows, &file, messages, count),
            };
            let fed = bench.workspace.fed(host, Some(&self.daemon), &words, feed);
            is_over.store(true, Ordering::Relaxed);
            (fed, reading.join())
        });
        let (copied, written): (Copied, Vec<Instant>) = fed?;
        let lost = |_| Failure::new(FailureKind::Internal, "read what arrives", "a thread panicked");
        let seen = seen.map_err(lost)?.map_err(|error| of_io("read what arrives", &error))?;
        if seen.len() != written.len() {
            let cause = format!("{} of {} messages could be read", seen.len(), written.len());
            return Err(Failure::new(FailureKind::Damage, "read what arrives", cause));
        }
        // Without the first, which opened everything; in whole microseconds.
        let lags = written
            .iter()
            .zip(&seen)
            .skip(1)
            .map(|(written, seen)| seen.saturating_duration_since(*written).as_micros() as f64 / 1e6);
        let lags: Vec<f64> = lags.collect();
        let content = (u64::from(count) + 1) * messages.bytes as u64;
        let mut sample = of_copy(by.series(), &copied, content, 1)
            .with("rtt", seconds(self.rtt.as_secs_f64()))
            .with("message_size", bytes(messages.bytes as u64))
            .with("period", seconds(messages.period.as_secs_f64()))
            .predicted("lag", self.rtt.as_secs_f64() / 2.0, "s");
        let refused = |error| Failure::new(FailureKind::Internal, "find the tail of lags", error);
        let tail = score::tail(&lags).map_err(refused)?;
        for (name, value) in [
            ("lag_p50", tail.p50_s),
            ("lag_p90", tail.p90_s),
            ("lag_p99", tail.p99_s),
            ("lag_max", tail.max_s),
        ] {
            sample = sample.measured(name, value, "s");
        }
        Ok(sample.distributed("lag", "s", lags))
    }

    /// Frames through a channel: pushed from here, pulled at the other end.
    fn frames(&self, workspace: &Workspace, hub: Place, count: u64) -> Result<Sample> {
        let number = self.channels.fetch_add(1, Ordering::Relaxed);
        // Of both commands, of the daemon too if it has a part in it.
        let before_s = workspace.cpu_s();
        let (pushed, pulled) = match hub {
            Place::Daemon => {
                let place = self.daemon.url(&format!("frames-{number}"));
                self.push_and_pull(workspace, &place, &[], count, || Ok((place.clone(), None)))?
            }
            Place::Consumer => {
                let directory = workspace.path(&format!("hub-{}-{number}", self.name()));
                let listen = self.testbed.as_ref().map_or("127.0.0.1:0".to_owned(), |testbed| {
                    format!("{}:{}", testbed.right.address, HUB_PORT)
                });
                let more =
                    ["--hub".to_owned(), directory.display().to_string(), "--listen".to_owned(), listen];
                self.push_and_pull(workspace, "frames", &more, count, || hub_at(&directory))?
            }
        };
        let cpu_s = Some(workspace.cpu_s() - before_s);
        if pulled.number("frames") != count as f64 {
            let cause = format!("{} of {count} frames arrived", pulled.number("frames"));
            return Err(Failure::new(FailureKind::Damage, "pull frames", cause));
        }
        let both = Copied { cpu_s, ..pulled };
        let sample = of_copy(hub.series(), &both, count * FRAME_BYTES, 0)
            .with("rtt", seconds(self.rtt.as_secs_f64()))
            .with("message_size", super::bytes(FRAME_BYTES))
            .with("period", seconds(1.0 / f64::from(FRAMES_PER_S)))
            .measured("frames_per_s", count as f64 / pushed.number("seconds").max(1e-9), "1")
            .measured("unmeasured", both.number("unmeasured"), "1")
            .predicted("lag", self.rtt.as_secs_f64() / 2.0, "s");
        Ok(with_tail(sample, tail_of(&both)))
    }

    /// Frames through a channel of the daemon to a consumer that is slower than they are made.
    fn slow(&self, bench: &Bench<'_>, slow: Slow) -> Result<Sample> {
        let workspace = &bench.workspace;
        let (count, per_s) = match slow {
            Slow::Drops(_) => (flowing(bench.wishes).0, f64::from(FRAMES_PER_S)),
            Slow::Stalls { stall, frames } => (frames, frames as f64 / stall.as_secs_f64()),
        };
        let name = format!("slow-{}", self.channels.fetch_add(1, Ordering::Relaxed));
        let (place, log) = (self.daemon.url(&name), slow_consumer::log_of(&self.daemon.path(&name)));
        let memory = slow_consumer::MEMORY_BYTES.to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let window = slow_consumer::WINDOW_BYTES.to_string();
        let pull = words(&["frames", "pull", &place, "-", "--policy", slow.policy(), "--window", &window]);
        let (bytes, rate) = (FRAME_BYTES.to_string(), per_s.to_string());
        let window = self.window(per_s).to_string();
        let push = words(&["frames", "push", "-", &place, "--frame-bytes", &bytes, "--frames-per-s", &rate]);
        let push = [push, words(&["--window", &window, "--memory", &memory])].concat();
        let pull = [pull, words(&["--memory", &memory])].concat();
        let (near, far) = (self.testbed.as_ref()).map(|testbed| (&testbed.left, &testbed.right)).unzip();
        let (frame_bytes, daemon, stop) = (FRAME_BYTES as usize, Some(&self.daemon), &bench.wishes.stop);
        let before_s = workspace.cpu_s();
        let (pushed, pulled) = std::thread::scope(|scope| {
            let take = |pipe: ChildStdout| slow_consumer::take(pipe, frame_bytes, slow, &log, stop);
            let pulling = scope.spawn(move || workspace.taken(far, daemon, &pull, take));
            let give = |pipe: ChildStdin| slow_consumer::give(pipe, count, frame_bytes);
            (workspace.fed(near, daemon, &push, give), pulling.join())
        });
        let lost = |_| Failure::new(FailureKind::Internal, "pull frames", "a thread panicked");
        let ((said, taken), (pushed, ())) = (pulled.map_err(lost)??, pushed?);
        let both = Copied { cpu_s: Some(workspace.cpu_s() - before_s), ..said.copied.clone() };
        let came = said.copied.number("frames") as u64;
        let sample = of_copy(&slow.series(), &both, came * FRAME_BYTES, 0)
            .with("rtt", seconds(self.rtt.as_secs_f64()))
            .with("message_size", super::bytes(FRAME_BYTES))
            .with("period", seconds(1.0 / per_s))
            .measured("frames_per_s", count as f64 / pushed.number("seconds").max(1e-9), "1")
            .measured("unmeasured", both.number("unmeasured"), "1");
        let sample = match slow {
            Slow::Drops(_) => sample.with("taken_each", seconds(slow_consumer::TAKES_EVERY.as_secs_f64())),
            Slow::Stalls { stall, .. } => sample.with("stall", seconds(stall.as_secs_f64())),
        };
        Ok(with_tail(slow_consumer::accounted(sample, slow, count, &said, &taken), tail_of(&both)))
    }

    /// Twice what is under way at this rate and distance.
    fn window(&self, frames_per_s: f64) -> u64 {
        let under_way = frames_per_s * FRAME_BYTES as f64 * self.rtt.as_secs_f64();
        ((2.0 * under_way) as u64).clamp(WINDOW_BYTES_MIN, limits::LANE_BYTES_MAX)
    }

    fn name(&self) -> &'static str {
        if self.testbed.is_some() { "far" } else { "near" }
    }

    /// Pulls from `channel` with these words more, and pushes to where `place` says, with its ticket if that is none of
    /// the daemon's.
    fn push_and_pull(
        &self,
        workspace: &Workspace,
        channel: &str,
        more: &[String],
        count: u64,
        place: impl FnOnce() -> Result<(String, Option<PathBuf>)>,
    ) -> Result<(Copied, Copied)> {
        let (bytes, per_s) = (FRAME_BYTES.to_string(), FRAMES_PER_S.to_string());
        let window = self.window(f64::from(FRAMES_PER_S)).to_string();
        let pull = ["frames", "pull", channel, "null:", "--window", &window].map(str::to_owned);
        let pull: Vec<String> = pull.into_iter().chain(more.iter().cloned()).collect();
        let feed = |mut pipe: ChildStdin| {
            let frame = vec![7; FRAME_BYTES as usize];
            (0..count).try_for_each(|_| pipe.write_all(&frame))
        };
        let (near, far) = (self.testbed.as_ref()).map(|testbed| (&testbed.left, &testbed.right)).unzip();
        let (pushed, pulled) = std::thread::scope(|scope| {
            let daemon = more.is_empty().then_some(&self.daemon);
            let pulling = scope.spawn(move || workspace.copy(far, daemon, &pull));
            let pushed = place().and_then(|(place, ticket)| {
                let push = ["frames", "push", "-", &place, "--frame-bytes", &bytes];
                let push = push.into_iter().chain(["--frames-per-s", &per_s, "--window", &window]);
                let mut push: Vec<String> = push.map(str::to_owned).collect();
                let ticket = ticket.map(|ticket| ["--ticket".to_owned(), ticket.display().to_string()]);
                push.extend(ticket.into_iter().flatten());
                workspace.fed(near, daemon, &push, feed)
            });
            (pushed, pulling.join())
        });
        let lost = |_| Failure::new(FailureKind::Internal, "pull frames", "a thread panicked");
        let (pulled, (pushed, ())) = (pulled.map_err(lost)??, pushed?);
        Ok((pushed, pulled))
    }
}

/// Where to push to a hub that keeps its ticket in this directory, once it listens.
fn hub_at(directory: &Path) -> Result<(String, Option<PathBuf>)> {
    let file = directory.join("ticket");
    let until = Instant::now() + OPENING;
    loop {
        if let Ok(ticket) = Ticket::read(&file) {
            let address = ticket.addresses.into_iter().next().unwrap_or_default();
            return Ok((format!("tw://{address}/hub/frames"), Some(file)));
        }
        if Instant::now() > until {
            return Err(Failure::new(FailureKind::Internal, "pull frames", "its hub wrote no ticket"));
        }
        std::thread::sleep(LOOK);
    }
}

/// The tail that `thalweg frames pull` told.
fn tail_of(pulled: &Copied) -> [f64; 4] {
    let latency = &pulled.finished["latency"];
    ["p50_s", "p90_s", "p99_s", "max_s"].map(|name| latency[name].as_f64().unwrap_or(f64::NAN))
}

/// What was not measured is no number, and is left out.
fn with_tail(sample: Sample, tail: [f64; 4]) -> Sample {
    let named = ["lag_p50", "lag_p90", "lag_p99", "lag_max"].into_iter().zip(tail);
    let known = named.filter(|(_, value)| value.is_finite());
    known.fold(sample, |sample, (name, value)| sample.measured(name, value, "s"))
}

/// A frame, and how many a second (003 section 2.1).
const FRAME_BYTES: u64 = 1_000_000;
const FRAMES_PER_S: u32 = 1000;
/// How long a consumer stands still unless another time is asked for, and the most that is made meanwhile.
const STALL: Duration = Duration::from_secs(5);
const SPILL_BYTES: u64 = 1 << 30;
/// Of a hub in the consumer's process, on a host of its own.
const HUB_PORT: u16 = 8489;
/// As without `--window`.
const WINDOW_BYTES_MIN: u64 = 64 << 20;

/// Writes messages when they are due, and says when each was.
fn write(mut to: impl Write, file: &Path, messages: Messages, count: u32) -> io::Result<Vec<Instant>> {
    let message = vec![7; messages.bytes];
    let mut written = vec![Instant::now()];
    to.write_all(&message)?;
    let until = Instant::now() + OPENING;
    while file.metadata().map_or(0, |metadata| metadata.len()) < message.len() as u64 {
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the first message did not arrive"));
        }
        std::thread::sleep(LOOK);
    }
    let began = Instant::now();
    let mut free = began;
    for number in 1..=count {
        let due = began + messages.period * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // If the write before held it up, it counts from when it was due.
        written.push(if free > due { due } else { Instant::now() });
        to.write_all(&message)?;
        free = Instant::now();
    }
    Ok(written)
}

/// Reads the file as it grows; when each message had been read.
fn read(file: &Path, message_bytes: usize, count: u32, is_over: &AtomicBool) -> io::Result<Vec<Instant>> {
    let (mut seen, mut buffer, mut bytes) = (Vec::new(), vec![0; 1 << 20], 0);
    let mut open: Option<File> = None;
    while seen.len() < count as usize {
        // What was there before the end is read after it.
        let was_over = is_over.load(Ordering::Relaxed);
        if open.is_none() {
            open = File::open(file).ok();
        }
        let now = open.as_mut().map_or(Ok(0), |file| file.read(&mut buffer))?;
        if now > 0 {
            bytes += now;
            seen.resize((bytes / message_bytes).min(count as usize), Instant::now());
        } else if was_over {
            break;
        } else {
            std::thread::sleep(LOOK);
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_each_series() {
        for budget_bytes in [SUITE.takes.budget_bytes_min, 16 * super::super::MIB, 200_000_000] {
            let wishes = Wishes { budget_bytes: Some(budget_bytes), ..Wishes::default() };
            for frames in [flowing(&wishes).0, stalled(&wishes).1] {
                assert!(frames * FRAME_BYTES <= budget_bytes, "{frames} frames for {budget_bytes}");
            }
            for messages in MESSAGES {
                let count = u64::from(messages.count(&wishes)) + 1;
                assert!(count * messages.bytes as u64 <= budget_bytes, "{count} of {messages:?}");
            }
        }
        let asked = |ms: u64, budget_bytes: Option<u64>| {
            flowing(&Wishes { time: Some(Duration::from_millis(ms)), budget_bytes, ..Wishes::default() })
        };
        assert_eq!(asked(200, Some(200_000_000)), (200, 200));
        assert_eq!((asked(2000, Some(16_000_000)), asked(2000, None)), ((16, 2000), (2000, 2000)));
    }
}
