//! What `thalweg tune` measures: trials of the way with other settings, and what they have cost so far.

use super::knobs::small_chunk_bytes;
use crate::args::tune::TuneArgs;
use crate::commands::probe::Measurer;
use std::time::{Duration, Instant};
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::Result;
use thalweg_mover::plan::{Plan, Tuned};
use thalweg_mover::run::copy::Movement;
use thalweg_mover::tune::search::{Decision, Search};

/// A trial takes so much of the time that there is, but no longer than that: with the time that is usual, a hundred of
/// them have room, and every knob has its turn.
const TRIALS: u32 = 45;
const TRIAL: (Duration, Duration) = (Duration::from_millis(700), Duration::from_secs(2));
/// And so much of the bytes: with those that are usual, four streams have 16 chunks of 4 MiB each.
const TRIALS_OF_BYTES: u64 = 64;
/// However slow the way is, so many trials have their time.
const TRIALS_MIN: u32 = 12;
/// Chunks that each stream has through in a trial at least.
const CHUNKS_MIN: u64 = 2;
/// Round trips in a trial at least: a stream starts slowly.
const TRIAL_ROUND_TRIPS: u32 = 20;
/// Bytes of one trial: fewer say nothing, more are not worth the room at the destination.
const TRIAL_BYTES: (u64, u64) = (4 << 20, 2 << 30);

const OVER: &str = "the time is over";
const BYTES_OVER: &str = "the bytes that may be moved are used up";

fn trial_time(time: Duration, rtt: Option<Duration>) -> Duration {
    let slowly = rtt.unwrap_or_default() * TRIAL_ROUND_TRIPS;
    (time / TRIALS).clamp(TRIAL.0, TRIAL.1).max(slowly.min(time / 10))
}

/// What is measured, and what it has cost so far.
pub struct Trials<'a> {
    measurer: &'a Measurer<'a>,
    args: &'a TuneArgs,
    began: Instant,
    /// One trial takes about so long.
    time: Duration,
    /// And moves so much, if there is so much.
    bytes: u64,
    /// All that there is, if it is no more than one moved in its time.
    whole_bytes: Option<u64>,
    spent_bytes: u64,
    last_bytes: u64,
    count: u32,
    longest: Duration,
    /// Of the last trial.
    evidence: Option<Evidence>,
}

impl<'a> Trials<'a> {
    /// Of a search that `began` then, on a way with this round trip time.
    pub fn new(
        measurer: &'a Measurer<'a>,
        args: &'a TuneArgs,
        began: Instant,
        rtt: Option<Duration>,
    ) -> Trials<'a> {
        Trials {
            measurer,
            args,
            began,
            time: trial_time(args.time, rtt),
            bytes: (args.bytes / 4).clamp(TRIAL_BYTES.0, TRIAL_BYTES.1),
            whole_bytes: None,
            spent_bytes: 0,
            last_bytes: 0,
            count: 0,
            longest: Duration::ZERO,
            evidence: None,
        }
    }

    /// Finds out how much a trial is to move. Returns the entries that it moved.
    ///
    /// # Errors
    /// If not even the way as it is can be measured; `Stopped`.
    pub fn size(&mut self, now: &Plan, known: &Tuned) -> Result<u64> {
        let (streams, segment) = (now.streams.value, now.segment_bytes.value);
        let longest = self.args.time / TRIALS_MIN;
        let rate = loop {
            let rate = self.measure("the way as it is", |movement| {
                movement.asked.streams = Some(streams);
                movement.asked.request_bytes = Some(segment);
                movement.asked.chunk_bytes = Some(small_chunk_bytes(segment.into()));
                movement.asked.disk.depth = known.io_depth;
                movement.link.congestion = known.congestion.clone();
            })??;
            // What was cut off shows nothing before each stream had some chunks through.
            let is_cut = self.longest > self.time.mul_f64(1.5);
            let wanted = u64::from(streams) * small_chunk_bytes(segment.into()) * CHUNKS_MIN;
            if !is_cut || self.last_bytes >= wanted || self.time >= longest {
                self.whole_bytes = (!is_cut && self.last_bytes < self.bytes).then_some(self.last_bytes);
                break rate;
            }
            self.time = (self.time * 2).min(longest);
            self.longest = Duration::ZERO;
        };
        let wanted = (rate / 8.0 * self.time.as_secs_f64()) as u64;
        let most = TRIAL_BYTES.1.min(self.args.bytes / TRIALS_OF_BYTES).max(TRIAL_BYTES.0);
        self.bytes = wanted.clamp(TRIAL_BYTES.0, most);
        Ok(self.evidence.as_ref().map_or(0, |evidence| evidence.entries))
    }

    /// Bytes that a trial moves.
    pub fn bytes(&self) -> u64 {
        self.whole_bytes.map_or(self.bytes, |whole| whole.min(self.bytes))
    }

    /// Trials so far, bytes that they moved, and the time since the search began.
    pub fn spent(&self) -> (u32, u64, Duration) {
        (self.count, self.spent_bytes, self.began.elapsed())
    }

    /// What the last one showed.
    pub fn evidence(&self) -> Option<&Evidence> {
        self.evidence.as_ref()
    }

    /// Bits a second until it was durable. The outer error ends everything.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn measure(&mut self, words: &str, change: impl FnOnce(&mut Movement)) -> Result<Result<f64>> {
        let began = Instant::now();
        let measured = self.measurer.trial(words, self.bytes, self.time, change)?;
        self.longest = self.longest.max(began.elapsed());
        self.count += 1;
        Ok(measured.map(|(rate, evidence)| {
            self.spent_bytes += rate.bytes;
            self.last_bytes = rate.bytes;
            self.evidence = Some(evidence);
            rate.bytes as f64 * 8.0 / rate.seconds.max(1e-9)
        }))
    }

    /// Why there is no room for another one.
    pub fn used_up(&self) -> Option<&'static str> {
        if self.began.elapsed() + self.longest > self.args.time {
            return Some(OVER);
        }
        (self.spent_bytes + self.bytes() > self.args.bytes).then_some(BYTES_OVER)
    }

    /// What the setting that is kept reached when it was last measured, in bits a second.
    pub fn rate_of(&self, search: &Search) -> Option<f64> {
        let told =
            |decision: &Decision| match (&decision.to == search.kept(), &decision.from == search.kept()) {
                (true, _) if decision.rate > 0.0 => Some(decision.rate),
                (_, true) if decision.rate_before > 0.0 => Some(decision.rate_before),
                _ => None,
            };
        search.decisions().iter().rev().find_map(told)
    }
}
