//! How long small packets take there and back, and how far that is spread.

use super::Line;
use super::ends::{End, PATIENCE, SMALL_BYTES, SMALL_PACKET_BYTES, port, while_reading};
use crate::testbed::spec::Paths;
use crate::testbed::wire::Path;
use std::io;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};

/// Round trips that are measured.
pub(super) const ECHOES: usize = 50;
/// Round trips from which their spread is computed: as many as fit into the time, between these.
pub(super) const SPREAD_ECHOES: std::ops::RangeInclusive<u32> = 50..=200;
pub(super) const SPREAD_TIME: Duration = Duration::from_secs(4);
/// What this machine itself adds to the spread, at most.
const SPREAD_OF_THE_MACHINE_MS: f64 = 0.1;

/// Round trip times of so many small packets, at most 256, least first; those of lost ones are missing, but not all.
///
/// # Errors
/// `Connection` if none comes back.
pub(in crate::testbed) fn round_trips(
    left: &End,
    right: &End,
    rtt: Duration,
    echoes: usize,
) -> Result<Vec<Duration>> {
    let failed = |error: io::Error| of_io("measure the round trip time", &error);
    let (asks, answers) = (left.udp()?, right.udp()?);
    let to = right.at(port(&answers)?);
    asks.set_read_timeout(Some(rtt + PATIENCE)).map_err(failed)?;
    let ask = || {
        at_once();
        let mut seen = Vec::new();
        for number in 0..echoes {
            let begun = Instant::now();
            let mut bytes = [number as u8; SMALL_BYTES];
            asks.send_to(&bytes, to).map_err(failed)?;
            // A late answer to an earlier one is not this one's.
            while asks.recv(&mut bytes).is_ok() {
                if usize::from(bytes[0]) == number {
                    seen.push(begun.elapsed());
                    break;
                }
            }
        }
        Ok(seen)
    };
    let mut seen = while_reading(
        || {
            at_once();
            let mut bytes = [0; SMALL_BYTES];
            let (length, from) = answers.recv_from(&mut bytes)?;
            answers.send_to(&bytes[..length], from).map(drop)
        },
        || in_a_thread(ask),
    )?;
    seen.sort();
    match seen.is_empty() {
        true => {
            Err(Failure::new(FailureKind::Connection, "measure the round trip time", "no packet came back"))
        }
        false => Ok(seen),
    }
}

/// Round trips that `measure` sees; none where the path loses packets on purpose and none came back, which is noted.
///
/// # Errors
/// Those of `measure`.
pub(super) fn unless_lost(
    what: &str,
    paths: &Paths,
    not_measured: &mut Vec<String>,
    measure: impl FnOnce() -> Result<Vec<Duration>>,
) -> Result<Option<Vec<Duration>>> {
    let loss = paths.forward.loss.max(paths.back.loss);
    // For what cannot come back nobody waits.
    let cause = match (loss < 1.0).then(measure) {
        Some(Err(failure)) if loss > 0.0 && failure.kind == FailureKind::Connection => failure.cause,
        Some(seen) => return seen.map(Some),
        None => "no packet can come back".to_owned(),
    };
    not_measured.push(format!("{what}: {cause}, as the path loses them on purpose; `set --loss 0` first"));
    Ok(None)
}

/// What is measured is the path, not how long this thread waits for a core.
fn at_once() {
    // Where that is not permitted, a busy machine shows.
    let _ = thalweg_sys::priority::run_before_others();
}

fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let ended = std::thread::scope(|scope| scope.spawn(work).join());
    ended
        .unwrap_or_else(|_| Err(Failure::new(FailureKind::Internal, "measure the path", "a thread panicked")))
}

pub(super) fn rtt_line(forward: &Path, back: &Path, measured: Duration) -> Line {
    let line_ms = |path: &Path| {
        let bits = (SMALL_PACKET_BYTES + u64::from(path.framing_bytes)) as f64 * 8e3;
        path.rate_bits_per_s.map_or(0.0, |rate| bits / rate as f64)
    };
    let expected = (forward.delay_ns + back.delay_ns) as f64 / 1e6 + line_ms(forward) + line_ms(back);
    let jitter_ms = (forward.jitter_ns + back.jitter_ns) as f64 / 1e6;
    Line {
        what: "round trip time".into(),
        expected,
        measured: measured.as_secs_f64() * 1e3,
        tolerance: (expected * 0.01).max(0.2) + jitter_ms,
        draws: None,
        unit: "ms",
        note: format!("median of {ECHOES}"),
    }
}

/// A delay that is drawn evenly between -j and +j has the variance j^2 / 3 and the fourth cumulant -2 j^4 / 15; one
/// that is l for a share p of packets, and 0 for the others, has p q l^2 and p q l^4 (1 - 6 p q), where q = 1 - p.
/// Those of both directions add up. Of n values whose fourth moment is k times the square of their variance the
/// standard deviation is off by `sqrt((k - 1) / 4n)` of itself (Kendall & Stuart, *The Advanced Theory of Statistics*,
/// 10.9); four times that is the tolerance. k is 2.4 where both jitters are alike, and taken for no less; the rarer
/// late packets are, the greater it is, and the less such a spread tells.
pub(super) fn spread_line(forward: &Path, back: &Path, seen: &[Duration]) -> Line {
    let (mut expected_variance, mut fourth) = (0.0f64, 0.0f64);
    for path in [forward, back] {
        let (jitter, late_by) = (path.jitter_ns as f64 / 1e6, path.late_by_ns as f64 / 1e6);
        let of_late = path.reorder * (1.0 - path.reorder);
        expected_variance += jitter.powi(2) / 3.0 + of_late * late_by.powi(2);
        fourth += of_late * (1.0 - 6.0 * of_late) * late_by.powi(4) - jitter.powi(4) * 2.0 / 15.0;
    }
    let expected = f64::sqrt(expected_variance);
    let kurtosis = (3.0 + fourth / expected_variance.powi(2)).max(2.4);
    let times: Vec<f64> = seen.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let has_late = forward.reorder.max(back.reorder) > 0.0;
    Line {
        what: "jitter: standard deviation of the round trip time".into(),
        expected,
        measured: variance.sqrt(),
        tolerance: 4.0 * expected * ((kurtosis - 1.0) / (4.0 * count)).sqrt() + SPREAD_OF_THE_MACHINE_MS,
        draws: None,
        unit: "ms",
        note: format!("of {count}{}", if has_late { ", late ones too" } else { "" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_seen_in_the_spread_of_round_trips_and_its_lack_is_too() {
        let path = Path { jitter_ns: 2_000_000, ..Path::default() };
        // Each of the 200 pairs of steps through both ranges, in ms: what even draws give on average.
        let of = |jitter_us: u64| -> Vec<Duration> {
            let draw =
                |number: u64, steps: u64| 10_000 + 2 * jitter_us * (number % steps) / (steps - 1) - jitter_us;
            (0..200).map(|number| Duration::from_micros(draw(number, 20) + draw(number / 20, 10))).collect()
        };
        let line = spread_line(&path, &path, &of(2_000));
        assert!((line.expected - 2.0 * (2.0f64 / 3.0).sqrt()).abs() < 1e-9, "{line:?}");
        assert!(line.is_within() && line.tolerance < line.expected / 4.0, "{line:?}");
        assert!(!spread_line(&path, &path, &of(0)).is_within());
        assert!(!spread_line(&path, &path, &of(1_000)).is_within(), "half of it");
        assert!(!spread_line(&path, &path, &of(4_000)).is_within(), "twice as much");
    }

    #[test]
    fn round_trips_that_a_path_loses_on_purpose_are_said_not_to_be_measured() {
        let silent = || Failure::new(FailureKind::Connection, "measure", "no packet came back");
        let seen = |back_loss: f64, measured: Result<Vec<Duration>>| {
            let paths = Paths { back: Path { loss: back_loss, ..Path::default() }, ..Paths::default() };
            let mut not_measured = Vec::new();
            let seen = unless_lost("round trip time", &paths, &mut not_measured, || measured);
            (seen.map(|seen| seen.map(|seen| seen.len())).map_err(|failure| failure.kind), not_measured)
        };
        let trips = || Ok(vec![Duration::from_millis(1); 3]);
        assert_eq!(seen(0.5, trips()), (Ok(Some(3)), Vec::new()));
        let (none, told) = seen(0.9, Err(silent()));
        assert!(
            none == Ok(None) && told[0].starts_with("round trip time: no packet came back, as"),
            "{told:?}"
        );
        let (none, told) = seen(1.0, trips());
        assert!(none == Ok(None) && told[0].contains("no packet can come back"), "{told:?}");
        // Nothing is lost on purpose there: something is wrong.
        assert_eq!(seen(0.0, Err(silent())), (Err(FailureKind::Connection), Vec::new()));
    }

    /// 10 ms, jitter of 1 ms, and 1 % that are late by 5 ms: of 200 round trips four, two in each direction.
    #[test]
    fn late_packets_are_part_of_the_spread_that_is_expected() {
        let path = Path { jitter_ns: 1_000_000, reorder: 0.01, late_by_ns: 5_000_000, ..Path::default() };
        let of = |jitter_us: u64, late: u64| -> Vec<Duration> {
            let draw =
                |number: u64, steps: u64| 5_000 + 2 * jitter_us * (number % steps) / (steps - 1) - jitter_us;
            let late_us = |number: u64| if number % 50 == 7 && number / 50 < late { 5_000 } else { 0 };
            let trip = |number: u64| draw(number, 20) + draw(number / 20, 10) + late_us(number);
            (0..200).map(|number| Duration::from_micros(trip(number))).collect()
        };
        let line = spread_line(&path, &path, &of(1_000, 4));
        assert!((line.expected - (2.0f64 / 3.0 + 2.0 * 0.0099 * 25.0).sqrt()).abs() < 1e-9, "{line:?}");
        assert!((line.measured - 1.118).abs() < 0.1 && line.is_within(), "{line:?}");
        assert!(spread_line(&path, &path, &of(1_000, 0)).is_within(), "none of them happened to be late");
        assert!(!spread_line(&path, &path, &of(0, 0)).is_within());
        assert!(!spread_line(&path, &path, &of(3_000, 4)).is_within(), "three times as much");
        // Without late packets it is as near as ever.
        let on_time = Path { reorder: 0.0, ..path };
        assert!(!spread_line(&on_time, &on_time, &of(1_000, 4)).is_within());
    }

    #[test]
    fn the_round_trip_has_a_tolerance_of_a_fifth_of_a_millisecond_or_a_hundredth() {
        let path = Path { delay_ns: 50_000_000, ..Path::default() };
        assert_eq!(rtt_line(&path, &path, Duration::from_millis(101)).tolerance, 1.0);
        let path = Path { delay_ns: 140_000, ..path };
        assert_eq!(rtt_line(&path, &path, Duration::ZERO).tolerance, 0.2);
    }
}
