//! What is measured of a way, and in which order.

use super::STALL;
use super::run::{ENDLESS, Run, Way};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::job::Job;
use thalweg_client::predict::path;
use thalweg_lab::probe::{Measurements, Parts, Rate, Reading, Ways};
use thalweg_mover::basin::Evidence;
use thalweg_mover::event;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::measure::{self, Measure};
use thalweg_mover::plan;
use thalweg_mover::run::client::{Client, LinkSettings};
use thalweg_mover::run::copy::{From, To, Wishes};
use thalweg_wire::limits;
use thalweg_wire::message::{Measured, Part, Place, Question, Reply};

/// Shares of the time: a transfer, a disk alone, a CPU alone. Together with what begins and ends them: one.
pub(super) const WAY: f64 = 0.145;
const DISK: f64 = 0.095;
const CPU: f64 = 0.025;
/// Moved by each transfer that is compared, at most; and at least, so that all streams have something to do.
const WAY_BYTES_MAX: u64 = 2 << 30;
const WAY_BYTES_MIN: u64 = 16 << 20;
/// Where the least would take longer than this, it is less, down to [`SLOW_WAY_BYTES_MIN`].
const SLOW_WAY_SECONDS: f64 = 3.0;
const SLOW_WAY_BYTES_MIN: u64 = 1 << 20;
/// A transfer that is compared is to come to its end: it may take so many times what its parts let expect.
const LATE: f64 = 3.0;
/// Chunks that each stream is to get across for their number to say something, and bytes of one where these were too large.
const CHUNKS_MIN: u64 = 8;
const FINE_CHUNK_BYTES: u64 = limits::CHUNK_BYTES_MIN;
/// Rounds of the four transfers that are compared, at most.
const ROUNDS_MAX: u32 = 5;

/// A side of the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

/// Everything that measuring needs.
pub struct Stand<'a> {
    pub(super) job: &'a Job,
    client: Option<Client>,
    streams: u16,
    /// The streams that were asked for.
    pub(super) asked: Option<u16>,
    pub(super) seconds: f64,
    pub(super) state: PathBuf,
    is_told: bool,
    pub(super) stop: Arc<AtomicBool>,
}

impl<'a> Stand<'a> {
    /// `streams` as asked for.
    pub fn new(
        job: &'a Job,
        streams: Option<u16>,
        time: Duration,
        state: &Path,
        is_quiet: bool,
    ) -> Result<Stand<'a>> {
        let far = match (&job.from, &job.to) {
            (From::Far(far, _), _) | (_, To::Far(far, _)) => Some(far),
            _ => None,
        };
        let settings = LinkSettings { stall_timeout: STALL, patience: STALL, ..LinkSettings::default() };
        let client = far.map(|far| far.dial(settings, event::nobody())).transpose()?;
        let asked = plan::Asked { streams, ..plan::Asked::default() };
        let planned = plan::plan(&asked, &path(job, client.as_ref())).streams.value;
        let stop = Arc::new(AtomicBool::new(false));
        stop_on_signals(&stop)?;
        Ok(Stand {
            job,
            client,
            streams: planned,
            asked: streams,
            seconds: time.as_secs_f64(),
            state: state.to_owned(),
            is_told: !is_quiet && console::Term::stderr().is_term(),
            stop,
        })
    }

    /// The path between the two sides, as a plan takes it.
    pub fn path(&self) -> plan::Path {
        path(self.job, self.client.as_ref())
    }

    /// Measures all of it.
    ///
    /// # Errors
    /// `Stopped`; what could not be measured is in the result.
    pub fn measure(&self) -> Result<Measurements> {
        let read = self.alone(Side::Source, Part::Read, DISK)?;
        if let Err(failure) = &read
            && matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage)
        {
            return Err(failure.clone());
        }
        let digest = self.alone(Side::Source, Part::Digest, CPU)?;
        let encrypt = self.sealing(Side::Source, Part::Seal)?;
        let decrypt = self.sealing(Side::Destination, Part::Open)?;
        let verify = self.alone(Side::Destination, Part::Digest, CPU)?;
        let written = self.alone(Side::Destination, Part::Write, DISK)?;
        let sync = rate_of(&written);
        let write = rate_of(&written.clone().map(|measured| Measured { sync_nanos: 0, ..measured }));

        let mut evidence_without_ends = None;
        let wire = self.noted(self.wire(), &mut evidence_without_ends)?;
        let no_source = why_missing(&read);
        let (measured_read, read) = (read.clone(), rate_of(&read));
        let no_destination = why_missing(&written);
        // The same bytes in each, so that what begins and ends them weighs the same; enough for most of the time.
        let rates = [&read, &sync, &wire].into_iter().filter_map(|reading| reading.rate());
        let slowest = rates.map(|rate| rate.bits_per_s).fold(f64::INFINITY, f64::min);
        let bytes = way_bytes(slowest, self.seconds * WAY).min(self.whole_source(&read));
        let time = way_time(bytes, slowest, self.seconds * WAY);
        // In files as large as those of the source: what files cost at the destination is to be the same.
        let files = measured_read.as_ref().map_or(1, |read| read.items.max(1));
        let file_bytes = read.rate().map_or(bytes, |rate| (rate.bytes / files).max(1));
        let noise = From::Noise(bytes, file_bytes);
        let (from, to) = (&self.job.from, &self.job.to);
        let ways = [
            ("noise to nowhere, as long", noise.clone(), To::Null, None),
            ("the source to nowhere", from.clone(), To::Null, no_source.clone()),
            ("noise to the destination", noise, to.clone(), no_destination.clone()),
            ("the source to the destination", from.clone(), to.clone(), no_source.or(no_destination)),
        ];
        let mut rounds: [Vec<Rate>; 4] = Default::default();
        let mut reasons: [Option<String>; 4] = Default::default();
        let mut evidence = None;
        let began = Instant::now();
        let in_all = Duration::from_secs_f64(self.seconds * WAY * 3.0);
        // Interleaved, so that what drifts favours none.
        for round in 0..ROUNDS_MAX {
            for (at, (what, from, to, missing)) in ways.iter().enumerate() {
                if let Some(why) = missing.as_ref().or(reasons[at].as_ref()) {
                    reasons[at] = Some(why.clone());
                    continue;
                }
                match self.way(what, from.clone(), to.clone(), bytes, time)? {
                    Ok((rate, seen)) => {
                        rounds[at].push(rate);
                        if at == 3 {
                            evidence = Some(seen);
                        }
                    }
                    Err(failure) => reasons[at] = Some(failure.to_string()),
                }
            }
            // Another round only if there is time for one like it.
            if began.elapsed() * (round + 2) / (round + 1) > in_all {
                break;
            }
        }
        let mut readings = rounds.iter().zip(reasons).map(|(rounds, why)| match rounds.is_empty() {
            true => Reading::missing(why.unwrap_or_default()),
            false => Reading::Rate(Rate::of_rounds(rounds)),
        });
        let [without_ends, without_destination, without_source, full] =
            std::array::from_fn(|_| readings.next().unwrap_or_else(|| Reading::missing("not tried")));
        let parts =
            Parts { read, digest: rate_of(&digest), encrypt, decrypt, verify: rate_of(&verify), write, sync };
        let ways = Ways { wire, without_ends, without_destination, without_source, full };
        Ok(Measurements { parts, ways, evidence_without_ends, evidence })
    }

    /// The source to the destination as a transfer with these settings, at most so many bytes; stopped after twice the
    /// time that it should take. The outer error ends everything, the inner one is told.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn trial(
        &self,
        words: &str,
        bytes_max: u64,
        time: Duration,
        change: impl FnOnce(&mut Wishes),
    ) -> Result<Result<(Rate, Evidence)>> {
        let run = Run::new(self, self.job.from.clone(), self.job.to.clone(), bytes_max).with(time, change);
        self.settled(words, &run)
    }

    fn say(&self, text: &str) {
        if self.is_told {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "measuring: {text}");
        }
    }

    fn check_stopped(&self) -> Result<()> {
        match self.stop.load(Ordering::Acquire) {
            true => Err(Failure::new(FailureKind::Stopped, "probe", "stopped on request")),
            false => Ok(()),
        }
    }

    /// Bytes of the source, if reading came to its end.
    fn whole_source(&self, read: &Reading) -> u64 {
        let is_whole = |rate: &&Rate| rate.seconds < self.seconds * DISK * 0.9;
        read.rate().filter(is_whole).map_or(u64::MAX, |rate| rate.bytes)
    }

    fn noted(&self, way: Result<Way>, evidence: &mut Option<Evidence>) -> Result<Reading> {
        Ok(match way? {
            Ok((rate, seen)) => {
                *evidence = Some(seen);
                Reading::Rate(rate)
            }
            Err(failure) => Reading::missing(failure),
        })
    }

    fn sealing(&self, side: Side, part: Part) -> Result<Reading> {
        match self.client {
            Some(_) => Ok(rate_of(&self.alone(side, part, CPU)?)),
            None => Ok(Reading::missing("on one machine nothing is encrypted")),
        }
    }

    /// One part alone. The outer error ends the probe, the inner one is told.
    fn alone(&self, side: Side, part: Part, share: f64) -> Result<Result<Measured>> {
        self.check_stopped()?;
        let what = match part {
            Part::Read => "read",
            Part::Digest => "digest",
            Part::Seal => "encrypt",
            Part::Open => "decrypt",
            Part::Write => "write, sync",
        };
        self.say(&format!("{what} alone"));
        let time = Duration::from_secs_f64(self.seconds * share);
        let far = match (&self.job.from, &self.job.to, side) {
            (From::Far(_, places), _, Side::Source) => places.first(),
            (_, To::Far(_, place), Side::Destination) => Some(place),
            _ => None,
        };
        if let Some((client, place)) = self.client.as_ref().zip(far) {
            return Ok(ask(client, place, part, time, self.streams));
        }
        let path = match (&self.job.from, &self.job.to, side) {
            (From::Local(paths), _, Side::Source) => paths.first().cloned().unwrap_or_default(),
            (_, To::Local(path), Side::Destination) => path.clone(),
            _ => PathBuf::new(),
        };
        let asked = Measure {
            part,
            contents: path.as_os_str().as_bytes().ends_with(b"/"),
            path,
            below: None,
            time,
            threads: self.streams,
            cipher: LinkSettings::default().cipher,
        };
        Ok(measure::measure(asked, &|| self.stop.load(Ordering::Acquire)))
    }

    /// Noise to nowhere. What counts are whole chunks: on a way so slow that each stream gets few of them across in the time,
    /// again in small ones. The outer error ends the probe, the inner one is told.
    fn wire(&self) -> Result<Way> {
        let run = || Run::new(self, From::Noise(ENDLESS, ENDLESS), To::Null, ENDLESS);
        let usual = self.settled("noise to nowhere", &run())?;
        let is_enough = usual.as_ref().is_ok_and(|(rate, evidence)| {
            rate.bytes >= u64::from(evidence.streams.max(1)) * CHUNKS_MIN * plan::CHUNK_BYTES
        });
        if is_enough {
            return Ok(usual);
        }
        let fine = run().in_chunks_of(FINE_CHUNK_BYTES);
        Ok(self.settled("noise to nowhere, in small chunks", &fine)?.or(usual))
    }

    fn settled(&self, what: &str, run: &Run<'_>) -> Result<Way> {
        self.check_stopped()?;
        self.say(what);
        let result = run.run_and_settle();
        self.check_stopped()?;
        Ok(result)
    }

    /// A transfer. The outer error ends the probe, the inner one is told.
    fn way(&self, what: &str, from: From, to: To, bytes_max: u64, time: Duration) -> Result<Way> {
        self.settled(what, &Run::new(self, from, to, bytes_max).with(time, |_| ()))
    }
}

/// What each transfer that is compared moves: enough for most of its share of the time by the slowest part, and on a slow
/// way for longer, within bounds.
fn way_bytes(slowest_bits_per_s: f64, seconds: f64) -> u64 {
    let within = |seconds: f64| (slowest_bits_per_s / 8.0 * seconds) as u64;
    let least = within(SLOW_WAY_SECONDS).clamp(SLOW_WAY_BYTES_MIN, WAY_BYTES_MIN);
    within(seconds * 0.8).clamp(least, WAY_BYTES_MAX)
}

/// How long it may take until it is stopped: its share, or until it has come to its end, if that can be expected.
fn way_time(bytes: u64, slowest_bits_per_s: f64, seconds: f64) -> Duration {
    let expected = bytes as f64 * 8.0 / slowest_bits_per_s.max(1.0);
    Duration::from_secs_f64((expected * LATE).min(SLOW_WAY_SECONDS * LATE).max(seconds))
}

fn why_missing(measured: &Result<Measured>) -> Option<String> {
    measured.as_ref().err().map(Failure::to_string)
}

fn rate_of(measured: &Result<Measured>) -> Reading {
    match measured {
        Ok(measured) if measured.bytes > 0 => Reading::Rate(Rate::of_part(measured)),
        Ok(_) => Reading::missing("nothing was done in the time there was"),
        Err(failure) => Reading::missing(failure),
    }
}

fn ask(client: &Client, place: &Place, part: Part, time: Duration, threads: u16) -> Result<Measured> {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).clamp(1, limits::MEASURE_MILLIS_MAX);
    let threads = threads.clamp(1, limits::MEASURE_THREADS_MAX);
    let mut measured = None;
    for reply in client.ask(Question::Measure { place: place.clone(), part, millis, threads })? {
        match reply? {
            Reply::Measured(said) => measured = Some(said),
            _ => {
                let cause = "the server answered another question";
                return Err(Failure::new(FailureKind::Protocol, "measure", cause));
            }
        }
    }
    measured.ok_or_else(|| Failure::new(FailureKind::Protocol, "measure", "the server gave no answer"))
}

/// The first signal ends the probe in order, the second at once.
fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        registered.map_err(|error| failure::of_io("listen for signals", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_over_a_slow_way_come_to_their_ends_in_a_bounded_time() {
        let share = 4.0 * WAY;
        for megabits in [0.1, 1.0, 10.0, 50.0, 200.0, 1e3, 1e5] {
            let bytes = way_bytes(megabits * 1e6, share);
            let expected = bytes as f64 * 8.0 / (megabits * 1e6);
            let time = way_time(bytes, megabits * 1e6, share).as_secs_f64();
            assert!((share..=SLOW_WAY_SECONDS * LATE).contains(&time), "{megabits}: {time}");
            // Below some megabits a second the least takes longer.
            assert!(expected <= SLOW_WAY_SECONDS || bytes == SLOW_WAY_BYTES_MIN, "{megabits}: {expected}");
            assert!(time >= expected || bytes == SLOW_WAY_BYTES_MIN, "{megabits}: {time} of {expected}");
        }
        assert_eq!(way_bytes(200e6, share), WAY_BYTES_MIN);
        assert_eq!(way_bytes(f64::INFINITY, share), WAY_BYTES_MAX);
        assert_eq!(way_time(WAY_BYTES_MAX, f64::INFINITY, share).as_secs_f64(), share);
    }
}
