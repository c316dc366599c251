//! One transfer of so much time.

use super::measurer::Measurer;
use super::schedule::WAY;
use super::{PROBE, STALL};
use crate::threads;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_lab::probe::Rate;
use thalweg_mover::basin::Evidence;
use thalweg_mover::basin::times::Passage;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{
    self, EvidenceSink, FarTrial, Fidelity, From, Meter, Movement, Remembered, Stop, To, TrialRun, Watch,
    Wishes,
};
use thalweg_wire::message::{Check, Preserve, PullTrial, PushTrial};

/// Bytes of noise to nowhere: more than any transfer of a probe moves.
pub(super) const ENDLESS: u64 = 1 << 40;
const ENDLESS_NOISE: FarTrial = FarTrial::Source(PullTrial::Noise { bytes: ENDLESS, file_bytes: ENDLESS });
/// A transfer that ends by itself may take so many times its time, for the sync at its end.
const PATIENT: f64 = 2.0;
/// A far side tells its accounts once a second.
const ACCOUNTS: Duration = Duration::from_millis(1300);
/// For what was written to be removed.
const SETTLING: Duration = Duration::from_millis(200);
/// Over so long each rate of a transfer's series is taken.
const SLICE: Duration = Duration::from_millis(250);
/// Between two looks at a transfer.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What a transfer did, and when its content came, if it came to its end.
pub(super) type Way = Result<(Rate, Evidence, Option<Passage>)>;

/// One transfer of so much time.
pub(super) struct Run<'a> {
    measurer: &'a Measurer<'a>,
    from: From,
    to: To,
    wishes: Wishes,
    time: Duration,
    at_most: Option<Duration>,
}

impl<'a> Run<'a> {
    /// From and to as they are meant; the far one becomes a trial of itself.
    pub(super) fn new(measurer: &'a Measurer<'a>, from: From, to: To, bytes_max: u64) -> Run<'a> {
        let job = measurer.job;
        // A way always has the far mover in it, if there is one.
        let (from, to, far) = match (&job.from, &job.to) {
            (From::Far(..), _) => {
                let trial = match from {
                    From::Noise(bytes, file_bytes) => PullTrial::Noise { bytes, file_bytes },
                    _ => PullTrial::Source { bytes_max },
                };
                (job.from.clone(), to, Some(FarTrial::Source(trial)))
            }
            (_, To::Far(..)) => {
                let trial = match to {
                    To::Null => PushTrial::Null,
                    _ => PushTrial::Scratch { bytes_max },
                };
                (from, job.to.clone(), Some(FarTrial::Destination(trial)))
            }
            _ => (from, to, None),
        };
        let to = match to {
            To::Local(path) => To::Scratch(path, bytes_max),
            to => to,
        };
        let wishes = Wishes {
            fidelity: Fidelity {
                // What lies in the scratch directory is to be removable, and nobody's business.
                preserve: Preserve { mode: false, owner: false, xattrs: false, ..Preserve::default() },
                check: Check::Nothing,
                ..Fidelity::default()
            },
            movement: Movement { rate: Arc::default(), ..measurer.movement.clone() },
            remembered: Remembered { state: Some(measurer.state.clone()), ..Remembered::default() },
            trial: Some(TrialRun { far, bytes_max }),
            ..Wishes::default()
        };
        let time = Duration::from_secs_f64(measurer.seconds * WAY);
        Run { measurer, from, to, wishes, time, at_most: None }
    }

    /// The same with other settings, and for another time.
    pub(super) fn with(mut self, time: Duration, change: impl FnOnce(&mut Movement)) -> Run<'a> {
        self.time = time;
        change(&mut self.wishes.movement);
        self
    }

    /// The same, stopped after so long in any case, what is dialled and opened first included.
    pub(super) fn at_most(mut self, time: Duration) -> Run<'a> {
        self.at_most = Some(time);
        self
    }

    fn is_kept(&self) -> bool {
        let is_thrown_away = self.wishes.far_trial() == Some(FarTrial::Destination(PushTrial::Null));
        !matches!(self.to, To::Null) && !is_thrown_away
    }

    /// Runs it, and gives the side that wrote it time to remove that.
    pub(super) fn run_and_settle(&self) -> Way {
        let way = self.run();
        if self.is_kept() {
            std::thread::sleep(SETTLING);
        }
        way
    }

    fn run(&self) -> Way {
        let mut time = self.time;
        if matches!(self.from, From::Noise(ENDLESS, _)) || self.wishes.far_trial() == Some(ENDLESS_NOISE) {
            // Until the far side has told its accounts once more.
            time = time.max(ACCOUNTS);
        }
        let patience = if self.is_kept() { time.mul_f64(PATIENT) } else { time };
        let meter: Arc<Meter> = Arc::default();
        let last: Arc<Mutex<Option<Evidence>>> = Arc::default();
        let told = last.clone();
        let sink: EvidenceSink = Arc::new(move |evidence: &Evidence| {
            *lock(&told) = Some(evidence.clone());
        });
        let watch = Watch {
            events: event::nobody(),
            is_behind: None,
            link_events: event::nobody(),
            meter: meter.clone(),
            evidence: Some(sink),
        };
        let stop = Stop::default();
        let job = self.measurer.job;
        let mut series = Series::default();
        let result = std::thread::scope(|scope| {
            let work = || copy::copy(&self.from, &self.to, &self.wishes, &job.signer, &watch, &stop);
            let copy = threads::spawn_scoped(scope, "transfer", work)?;
            series = self.watched(patience, &meter, &stop, || copy.is_finished());
            copy.join().unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Internal, PROBE, "a thread of the transfer panicked"))
            })
        });
        match result {
            Ok(report) if report.evidence.bytes > 0 => {
                Ok((series.rate_of_whole(&report.evidence), report.evidence, Some(report.passage)))
            }
            Ok(_) => Err(Failure::new(FailureKind::Unsupported, PROBE, "there is no content to move")),
            Err(failure) if failure.kind == FailureKind::Stopped => {
                let last = lock(&last).take();
                match last.and_then(|evidence| Some((series.rate_of_cut_off(&evidence)?, evidence))) {
                    Some((rate, evidence)) => Ok((rate, evidence, None)),
                    None => {
                        let cause = "too little arrived in the time there was: --seconds gives it more";
                        Err(Failure::new(FailureKind::Unsupported, PROBE, cause))
                    }
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// Looks how far it is until it has ended, and stops it when it has had its time.
    fn watched(
        &self,
        patience: Duration,
        meter: &Meter,
        stop: &Stop,
        has_ended: impl Fn() -> bool,
    ) -> Series {
        let started = Instant::now();
        let mut series = Series::default();
        // What is dialled and opened first is no part of the time.
        let mut began: Option<Instant> = None;
        while !has_ended() {
            std::thread::sleep(LOOK_EVERY);
            let bytes = meter.bytes_verified.load(Ordering::Relaxed);
            if bytes > 0 {
                began.get_or_insert_with(Instant::now);
            }
            series.look(Instant::now(), bytes);
            let is_late = began.is_some_and(|began| began.elapsed() > patience);
            // A way on which nothing arrives at all.
            let is_stuck = began.is_none() && series.began.is_some_and(|at| at.elapsed() > STALL + patience);
            let is_over = self.at_most.is_some_and(|most| started.elapsed() > most);
            if is_late || is_stuck || is_over || self.measurer.stop.load(Ordering::Acquire) {
                stop.stop();
            }
        }
        series
    }
}

/// Rates of a transfer one after the other, from counts of bytes.
#[derive(Default)]
struct Series {
    began: Option<Instant>,
    seen: VecDeque<(Instant, u64)>,
    rates: Vec<f64>,
    bytes: u64,
    first: Option<(Instant, u64)>,
    last: Option<Instant>,
}

impl Series {
    fn look(&mut self, now: Instant, bytes: u64) {
        self.began.get_or_insert(now);
        if bytes == self.bytes {
            return;
        }
        self.bytes = bytes;
        self.last = Some(now);
        self.first.get_or_insert((now, bytes));
        let Some(&(since, before)) = self.seen.back() else {
            self.seen.push_back((now, bytes));
            return;
        };
        let seconds = (now - since).as_secs_f64();
        if seconds >= SLICE.as_secs_f64() {
            self.rates.push((bytes - before.min(bytes)) as f64 * 8.0 / seconds);
            self.seen.push_back((now, bytes));
        }
    }

    /// Bytes and seconds from the first that were seen to the last: when a transfer is cut off, what it took to begin
    /// is no part of its rate. Of one that was too short for that, all of it from the first look.
    fn steady(&self) -> (u64, f64) {
        match (self.began, self.first, self.last) {
            (_, Some((at, bytes)), Some(last)) if last - at >= SLICE * 2 => {
                (self.bytes - bytes, (last - at).as_secs_f64())
            }
            (Some(began), _, Some(last)) => (self.bytes, (last - began).as_secs_f64()),
            _ => (0, 0.0),
        }
    }

    /// Of a transfer that came to its end: as a whole, with the sync at its end; the series says how even it was.
    fn rate_of_whole(&self, evidence: &Evidence) -> Rate {
        let (bytes, seconds, streams) = (evidence.bytes, evidence.seconds(), evidence.streams.max(1));
        let even = Rate::of_series(bytes, seconds, streams, &self.rates);
        let whole = Rate::of_series(bytes, seconds, streams, &[]);
        let scale = whole.bits_per_s / even.bits_per_s.max(1e-9);
        Rate {
            low_bits_per_s: even.low_bits_per_s * scale,
            high_bits_per_s: even.high_bits_per_s * scale,
            ..whole
        }
    }

    /// Of one that was stopped, if anything arrived.
    fn rate_of_cut_off(&self, evidence: &Evidence) -> Option<Rate> {
        let (bytes, seconds) = self.steady();
        (bytes > 0).then(|| Rate::of_series(bytes, seconds, evidence.streams.max(1), &self.rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_what_is_cut_off_does_not_depend_on_when_it_is() {
        let began = Instant::now();
        let at = |millis: u64| began + Duration::from_millis(millis);
        let cut_after = |end: u64| {
            let mut series = Series::default();
            // A second until something comes, then 1 MB every 100 ms.
            for millis in (0..=end).step_by(100) {
                series.look(at(millis), millis.saturating_sub(900) / 100 * 1_000_000);
            }
            let (bytes, seconds) = series.steady();
            bytes as f64 / seconds
        };
        for end in [1500, 2000, 5000] {
            assert!((cut_after(end) / 10e6 - 1.0).abs() < 1e-6, "{}", cut_after(end));
        }
        // Too short to tell: what began it counts.
        assert!(cut_after(1200) < 5e6);
        assert_eq!(Series::default().steady(), (0, 0.0));
    }
}
