//! The course of a probe: what is measured, in which order, for how long, and when it has to be over. Decides;
//! [`Hands`] do.
//!
//! What is measured has a time that it takes where all is well, and one that it must not exceed: a part alone little
//! more and at most half of what is left until [`Schedule::deadline`], a transfer an equal share of that. So nothing
//! that is slow takes all of the time of what comes after it, and however slow a way or a disk is, all of it is over in
//! [`at_most`].

use super::PROBE;
use super::timed_transfer::{ENDLESS, Way};
use std::time::Duration;
use thalweg_lab::probe::{Measurements, Parts, Rate, Reading, Ways};
use thalweg_mover::basin::Evidence;
use thalweg_mover::basin::times::Passage;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan;
use thalweg_mover::run::copy::{From, To};
use thalweg_wire::limits;
use thalweg_wire::message::{Measured, Part};

/// A probe takes at most so many times what it was asked to, once the far side was reached; or [`SHORT`], if that is
/// more: a slow way has its round trips and its least bytes also where little time was asked for.
const MORE: f64 = 1.5;
const SHORT: Duration = Duration::from_secs(24);
/// Of that, what is kept for the last of it to be stopped.
const ENDING: Duration = Duration::from_secs(3);
/// What has less time than this is not begun.
const LEAST: Duration = Duration::from_millis(300);
/// What a part may take longer than it was asked to, if there is time: an answer from far away.
const ANSWERING: Duration = Duration::from_secs(2);
/// The same of what is written, whose files are synced one after the other: a disk that is slow at that is to be found
/// out, not left out.
const SYNCING: Duration = Duration::from_secs(8);

/// Shares of the time: a transfer, a disk alone, a CPU alone. Together with what begins and ends them: one.
pub(super) const WAY: f64 = 0.145;
const DISK: f64 = 0.095;
const CPU: f64 = 0.025;
/// Moved by each transfer that is compared, at most; and at least, so that all streams have something to do.
const WAY_BYTES_MAX: u64 = 2 << 30;
const WAY_BYTES_MIN: u64 = 16 << 20;
/// Where the least would take longer than this, it is less, down to [`SLOW_WAY_BYTES_MIN`]; and where this is more than
/// so large a part of the time that a transfer has at most, it is that.
const SLOW_WAY_SECONDS: f64 = 3.0;
const SLOW_WAY_SHARE: f64 = 0.75;
const SLOW_WAY_BYTES_MIN: u64 = 1 << 20;
/// A transfer that is compared is to come to its end: it may take so many times what its parts let expect, if there is
/// time.
const LATE: f64 = 3.0;
/// Chunks that each stream is to get across for their number to say something, and bytes of one where these were too
/// large.
const CHUNKS_MIN: u64 = 8;
const FINE_CHUNK_BYTES: u64 = limits::CHUNK_BYTES_MIN;
/// Rounds of the four transfers that are compared, at most.
const ROUNDS_MAX: u32 = 5;

/// What a probe that is asked to take so many seconds takes at most.
pub(super) fn at_most(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds * MORE).max(SHORT)
}

/// A side of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// A part alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alone {
    pub side: Side,
    pub part: Part,
    pub time: Duration,
    /// Stopped then, at the latest.
    pub at_most: Duration,
}

/// A transfer.
pub(super) struct Transfer {
    /// In words.
    pub what: &'static str,
    pub from: From,
    pub to: To,
    pub bytes_max: u64,
    /// In chunks of so many bytes, which are counted when they are whole; without, as a copy would.
    pub chunk_bytes: Option<u64>,
    pub time: Duration,
    /// Stopped then, at the latest, whatever it has done.
    pub at_most: Duration,
}

/// What a transfer of the whole way showed: its accounts, and when its content came, if it came to its end.
type Whole = (Evidence, Option<Passage>);

/// Who measures. The outer errors end the probe, the inner ones are told.
pub(super) trait Hands {
    /// Time since the probe began.
    fn elapsed(&self) -> Duration;

    fn alone(&self, asked: Alone) -> Result<Result<Measured>>;

    fn transfer(&self, asked: Transfer) -> Result<Way>;
}

/// What a probe is asked.
pub(super) struct Schedule<'a> {
    pub from: &'a From,
    pub to: &'a To,
    /// Whether there is a link between both.
    pub is_linked: bool,
    pub seconds: f64,
}

impl Schedule<'_> {
    /// Nothing is begun or goes on after this.
    fn deadline(&self) -> Duration {
        at_most(self.seconds) - ENDING
    }

    /// What the next of so many transfers may take: an equal share of what is left. The error is told.
    fn share(&self, hands: &impl Hands, transfers: u32) -> Result<Duration> {
        let share = self.deadline().saturating_sub(hands.elapsed()) / transfers.max(1);
        match share >= LEAST {
            true => Ok(share),
            false => {
                let cause = "no time was left: --seconds gives it more";
                Err(Failure::new(FailureKind::Unsupported, PROBE, cause))
            }
        }
    }

    /// Measures all of it.
    ///
    /// # Errors
    /// The outer ones of [`Hands`]; a source that is not there. What could not be measured is in the result.
    pub fn run(&self, hands: &impl Hands) -> Result<Measurements> {
        let alone = |side, part, share| self.alone(hands, side, part, share);
        let read = alone(Side::Source, Part::Read, DISK)?;
        if let Err(failure) = &read
            && matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage)
        {
            return Err(failure.clone());
        }
        let digest = alone(Side::Source, Part::Digest, CPU)?;
        let (encrypt, decrypt) = match self.is_linked {
            true => {
                let encrypt = rate_of(&alone(Side::Source, Part::Seal, CPU)?);
                (encrypt, rate_of(&alone(Side::Destination, Part::Open, CPU)?))
            }
            false => {
                let none = Reading::missing("on one machine nothing is encrypted");
                (none.clone(), none)
            }
        };
        let verify = alone(Side::Destination, Part::Digest, CPU)?;
        let written = alone(Side::Destination, Part::Write, DISK)?;
        let sync = rate_of(&written);
        let write = rate_of(&written.clone().map(|measured| Measured { sync_nanos: 0, ..measured }));

        let (wire, chunk_bytes) = self.wire(hands)?;
        let (wire, evidence_without_ends) = match wire {
            Ok((rate, seen, _)) => (Reading::Rate(rate), Some(seen)),
            Err(failure) => (Reading::missing(failure), None),
        };
        let parts = Parts {
            read: rate_of(&read),
            digest: rate_of(&digest),
            encrypt,
            decrypt,
            verify: rate_of(&verify),
            write,
            sync,
        };
        let (ways, whole) = self.compared(hands, &parts, (&read, &written), wire, chunk_bytes)?;
        let (evidence, passage) = whole.unzip();
        Ok(Measurements { parts, ways, evidence_without_ends, evidence, passage: passage.flatten() })
    }

    fn alone(&self, hands: &impl Hands, side: Side, part: Part, share: f64) -> Result<Result<Measured>> {
        let time = Duration::from_secs_f64(self.seconds * share);
        let behind = if part == Part::Write { SYNCING } else { ANSWERING };
        match self.share(hands, 2) {
            Ok(most) => hands.alone(Alone { side, part, time, at_most: most.min(time + behind) }),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Noise to nowhere. What counts are whole chunks: on a way so slow that each stream gets few of them across in the
    /// time, again in small ones. Gives their size then.
    fn wire(&self, hands: &impl Hands) -> Result<(Way, Option<u64>)> {
        let run = |what, chunk_bytes, steps| -> Result<Way> {
            let time = Duration::from_secs_f64(self.seconds * WAY);
            let at_most = match self.share(hands, steps) {
                Ok(most) => most,
                Err(failure) => return Ok(Err(failure)),
            };
            let from = From::Noise(ENDLESS, ENDLESS);
            hands.transfer(Transfer {
                what,
                from,
                to: To::Null,
                bytes_max: ENDLESS,
                chunk_bytes,
                time,
                at_most,
            })
        };
        let usual = run("noise to nowhere", None, 6)?;
        let is_enough = usual.as_ref().is_ok_and(|(rate, evidence, _)| {
            rate.bytes >= u64::from(evidence.streams.max(1)) * CHUNKS_MIN * plan::CHUNK_BYTES
        });
        if is_enough {
            return Ok((usual, None));
        }
        let fine = run("noise to nowhere, in small chunks", Some(FINE_CHUNK_BYTES), 5)?;
        Ok((fine.or(usual), Some(FINE_CHUNK_BYTES)))
    }

    /// Transfers that differ in their ends only, as often as there is time; and what the last whole one showed.
    fn compared(
        &self,
        hands: &impl Hands,
        parts: &Parts,
        (read, written): (&Result<Measured>, &Result<Measured>),
        wire: Reading,
        chunk_bytes: Option<u64>,
    ) -> Result<(Ways, Option<Whole>)> {
        // The same bytes in each, so that what begins and ends them weighs the same; enough for most of the time.
        let rates = [&parts.read, &parts.sync, &wire].into_iter().filter_map(|reading| reading.rate());
        let slowest = rates.map(|rate| rate.bits_per_s).fold(f64::INFINITY, f64::min);
        let most_s = self.share(hands, 4).unwrap_or_default().as_secs_f64();
        let slow_s = SLOW_WAY_SECONDS.min(most_s * SLOW_WAY_SHARE);
        let bytes = way_bytes(slowest, self.seconds * WAY, slow_s).min(self.whole_source(&parts.read));
        // Those that cannot come to their ends are cut off: what they have by then is counted in small chunks; so it is
        // where the wire was too slow to be measured at all.
        let is_cut_off = wire.rate().is_none() || bytes as f64 * 8.0 / slowest > most_s;
        let chunk_bytes = chunk_bytes.filter(|_| is_cut_off);
        let time = way_time(bytes, slowest, self.seconds * WAY);
        // In files as large as those of the source: what files cost at the destination is to be the same.
        let files = read.as_ref().map_or(1, |read| read.items.max(1));
        let file_bytes = parts.read.rate().map_or(bytes, |rate| (rate.bytes / files).max(1));
        let noise = From::Noise(bytes, file_bytes);
        let (from, to) = (self.from, self.to);
        let (no_source, no_destination) = (why_missing(read), why_missing(written));
        let ways = [
            ("noise to nowhere, as long", noise.clone(), To::Null, None),
            ("the source to nowhere", from.clone(), To::Null, no_source.clone()),
            ("noise to the destination", noise, to.clone(), no_destination.clone()),
            ("the source to the destination", from.clone(), to.clone(), no_source.or(no_destination)),
        ];
        let (readings, whole) = self.in_rounds(hands, &ways, (bytes, chunk_bytes, time))?;
        let [without_ends, without_destination, without_source, full] = readings;
        Ok((Ways { wire, without_ends, without_destination, without_source, full }, whole))
    }

    /// Each of the transfers, with what keeps it from being tried, as often as there is time: so many bytes, in chunks
    /// of so many, for so long. And what the last showed that was of the whole way.
    fn in_rounds(
        &self,
        hands: &impl Hands,
        ways: &[(&'static str, From, To, Option<String>); 4],
        (bytes, chunk_bytes, time): (u64, Option<u64>, Duration),
    ) -> Result<([Reading; 4], Option<Whole>)> {
        let mut rounds: [Vec<Rate>; 4] = Default::default();
        let mut reasons: [Option<String>; 4] = Default::default();
        let mut whole = None;
        let began = hands.elapsed();
        let in_all = Duration::from_secs_f64(self.seconds * WAY * 3.0);
        // Interleaved, so that what drifts favours none.
        for round in 0..ROUNDS_MAX {
            for (at, (what, from, to, missing)) in (0u32..).zip(ways) {
                let (rates, reason) = (&mut rounds[at as usize], &mut reasons[at as usize]);
                if let Some(why) = missing.as_ref().or(reason.as_ref()) {
                    *reason = Some(why.clone());
                    continue;
                }
                let way = match self.share(hands, 4 - at) {
                    Ok(at_most) => hands.transfer(Transfer {
                        what,
                        from: from.clone(),
                        to: to.clone(),
                        bytes_max: bytes,
                        chunk_bytes,
                        time,
                        at_most,
                    })?,
                    Err(failure) => Err(failure),
                };
                match way {
                    Ok((rate, seen, passage)) => {
                        rates.push(rate);
                        if at == 3 {
                            whole = Some((seen, passage));
                        }
                    }
                    Err(failure) => *reason = Some(failure.to_string()),
                }
            }
            // Another round only if there is time for one like it.
            if (hands.elapsed() - began) * (round + 2) / (round + 1) > in_all {
                break;
            }
        }
        let mut readings = rounds.iter().zip(reasons).map(|(rounds, why)| match rounds.is_empty() {
            true => Reading::missing(why.unwrap_or_default()),
            false => Reading::Rate(Rate::of_rounds(rounds)),
        });
        let readings =
            std::array::from_fn(|_| readings.next().unwrap_or_else(|| Reading::missing("not tried")));
        Ok((readings, whole))
    }

    /// Bytes of the source, if reading came to its end.
    fn whole_source(&self, read: &Reading) -> u64 {
        let is_whole = |rate: &&Rate| rate.seconds < self.seconds * DISK * 0.9;
        read.rate().filter(is_whole).map_or(u64::MAX, |rate| rate.bytes)
    }
}

/// What each transfer that is compared moves: enough for most of its share of the time by the slowest part, and on a
/// slow way for longer, `slow_seconds`, within bounds.
fn way_bytes(slowest_bits_per_s: f64, seconds: f64, slow_seconds: f64) -> u64 {
    let within = |seconds: f64| (slowest_bits_per_s / 8.0 * seconds) as u64;
    let least = within(slow_seconds).clamp(SLOW_WAY_BYTES_MIN, WAY_BYTES_MIN);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::path::PathBuf;

    /// A way in simulated time.
    struct Simulated {
        now: Cell<Duration>,
        /// Of the wire and of both disks.
        bits_per_s: f64,
        /// What parts and transfers take: a share of what they may take at most, and what comes on top of it in
        /// seconds.
        takes: fn(u32) -> (f64, f64),
        /// Where nothing is slow: they take their time and no more.
        is_quick: bool,
        /// What was asked: the time it takes where all is well, and at most.
        steps: RefCell<Vec<(Duration, Duration)>>,
        chunks: RefCell<Vec<Option<u64>>>,
    }

    impl Simulated {
        fn new(bits_per_s: f64, takes: fn(u32) -> (f64, f64)) -> Simulated {
            Simulated {
                now: Cell::default(),
                bits_per_s,
                takes,
                is_quick: false,
                steps: RefCell::default(),
                chunks: RefCell::default(),
            }
        }

        fn pass(&self, time: Duration, at_most: Duration) -> Duration {
            let number = self.steps.borrow().len() as u32;
            self.steps.borrow_mut().push((time, at_most));
            let (share, more_s) = (self.takes)(number);
            let took = match self.is_quick {
                true => time.min(at_most),
                false => at_most.mul_f64(share) + Duration::from_secs_f64(more_s),
            };
            self.now.set(self.now.get() + took);
            took
        }
    }

    impl Hands for Simulated {
        fn elapsed(&self) -> Duration {
            self.now.get()
        }

        fn alone(&self, asked: Alone) -> Result<Result<Measured>> {
            let took = self.pass(asked.time, asked.at_most);
            let bytes = (self.bits_per_s / 8.0 * took.as_secs_f64()) as u64;
            let busy_nanos = took.as_nanos() as u64;
            Ok(Ok(Measured { bytes, items: 1, threads: 1, busy_nanos, ..Measured::default() }))
        }

        fn transfer(&self, asked: Transfer) -> Result<Way> {
            self.chunks.borrow_mut().push(asked.chunk_bytes);
            // One that ends by itself takes what its bytes take.
            let expected = (asked.bytes_max as f64 * 8.0 / self.bits_per_s).min(asked.time.as_secs_f64());
            let took = self.pass(Duration::from_secs_f64(expected), asked.at_most).as_secs_f64().max(1e-3);
            let bytes = ((self.bits_per_s / 8.0 * took) as u64).min(asked.bytes_max);
            Ok(Ok((Rate::of_series(bytes, took, 1, &[]), Evidence::default(), None)))
        }
    }

    fn probed(seconds: f64, hands: &Simulated) -> Measurements {
        let from = From::Local(vec![PathBuf::from("run7")]);
        let to = To::Local(PathBuf::from("there"));
        Schedule { from: &from, to: &to, is_linked: true, seconds }.run(hands).unwrap()
    }

    /// Whatever takes as long as it is let, or a second or two longer than that to be stopped, on whatever rate.
    #[test]
    fn a_probe_is_over_in_half_as_long_again_however_slow_the_way_or_a_disk_is() {
        let ways: [fn(u32) -> (f64, f64); 4] = [
            |_| (1.0, 0.0),
            |_| (1.0, 2.2),
            |step| if step < 6 { (0.1, 0.0) } else { (1.0, 2.2) },
            // Of no order at all.
            |step| (f64::from(step.wrapping_mul(2_654_435_761) >> 16 & 255) / 255.0, f64::from(step % 3)),
        ];
        for seconds in [4.0, 8.0, 20.0, 60.0] {
            for megabits in [0.001, 0.1, 1.0, 10.0, 1e3, 1e5] {
                for (number, takes) in ways.iter().enumerate() {
                    let hands = Simulated::new(megabits * 1e6, *takes);
                    probed(seconds, &hands);
                    let bound = Duration::from_secs(if seconds == 60.0 { 90 } else { 30 });
                    let told = format!("{seconds} s, {megabits} Mbit/s, way {number}: {:?}", hands.elapsed());
                    assert!(hands.elapsed() <= bound.min(at_most(seconds)), "{told}");
                }
            }
        }
    }

    #[test]
    fn what_takes_its_time_and_no_more_is_never_cut_off_and_takes_about_the_time_that_was_asked_for() {
        for seconds in [4.0, 8.0, 20.0, 60.0] {
            let hands = Simulated { is_quick: true, ..Simulated::new(1e10, |_| (0.0, 0.0)) };
            let measured = probed(seconds, &hands);
            assert!(measured.ways.full.rate().is_some());
            let steps = hands.steps.borrow();
            assert!(steps.iter().all(|(time, at_most)| time <= at_most), "{seconds}: {steps:?}");
            let elapsed = hands.elapsed().as_secs_f64();
            assert!((0.6..=1.05).contains(&(elapsed / seconds)), "{elapsed} of {seconds}");
        }
    }

    #[test]
    fn over_a_slow_way_the_wire_is_measured_in_small_chunks_and_so_is_what_cannot_come_to_its_end() {
        let fine = Some(FINE_CHUNK_BYTES);
        for (bits_per_s, chunks) in [
            (1e10, [None, None, None, None, None, None]),
            (20e6, [None, fine, None, None, None, None]),
            (0.2e6, [None, fine, fine, fine, fine, fine]),
        ] {
            for seconds in [4.0, 20.0] {
                let hands = Simulated { is_quick: true, ..Simulated::new(bits_per_s, |_| (0.0, 0.0)) };
                probed(seconds, &hands);
                let found = hands.chunks.borrow();
                assert_eq!(found[..5], chunks[..5], "{bits_per_s} bit/s in {seconds} s");
                let steps = hands.steps.borrow();
                let are_whole = steps.iter().all(|(time, at_most)| time <= at_most);
                assert_eq!(are_whole, bits_per_s > 1e6, "{bits_per_s} bit/s in {seconds} s: {steps:?}");
            }
        }
    }

    #[test]
    fn what_has_no_time_left_is_not_begun_and_says_so() {
        let hands = Simulated::new(1e9, |step| if step == 0 { (1.0, 60.0) } else { (1.0, 0.0) });
        let measured = probed(4.0, &hands);
        assert_eq!(hands.steps.borrow().len(), 1);
        for reading in [&measured.parts.sync, &measured.ways.wire, &measured.ways.full] {
            assert!(format!("{reading:?}").contains("no time was left"), "{reading:?}");
        }
    }

    #[test]
    fn transfers_over_a_slow_way_come_to_their_ends_in_a_bounded_time() {
        let share = 4.0 * WAY;
        for megabits in [0.1, 1.0, 10.0, 50.0, 200.0, 1e3, 1e5] {
            let bytes = way_bytes(megabits * 1e6, share, SLOW_WAY_SECONDS);
            let expected = bytes as f64 * 8.0 / (megabits * 1e6);
            let time = way_time(bytes, megabits * 1e6, share).as_secs_f64();
            assert!((share..=SLOW_WAY_SECONDS * LATE).contains(&time), "{megabits}: {time}");
            // Below some megabits a second the least takes longer.
            assert!(expected <= SLOW_WAY_SECONDS || bytes == SLOW_WAY_BYTES_MIN, "{megabits}: {expected}");
            assert!(time >= expected || bytes == SLOW_WAY_BYTES_MIN, "{megabits}: {time} of {expected}");
        }
        assert_eq!(way_bytes(200e6, share, SLOW_WAY_SECONDS), WAY_BYTES_MIN);
        assert_eq!(way_bytes(f64::INFINITY, share, SLOW_WAY_SECONDS), WAY_BYTES_MAX);
        assert_eq!(way_time(WAY_BYTES_MAX, f64::INFINITY, share).as_secs_f64(), share);
    }
}
