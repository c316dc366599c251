//! `slots`: producers that share a link and send a burst each second, with `thalweg stream` to a daemon: all at once,
//! evenly apart by arrangement among themselves, or in slots that the daemon promises (003 section 4, Figs 2 and 3).
//! How late is the worst burst, and is what was promised kept?
//!
//! `congest` asks the same of plain TCP, as 003 did; here bursts are encrypted, verified and written. A burst has
//! arrived when all of it stands in its file at the daemon, which is looked at every few milliseconds. Line and bursts
//! are made smaller together, so that one burst alone would still take 0.16 s.
//!
//! **How much of the line slots can carry.** A burst of 0.16 s has a window of 9/8 of that at [`SHARE`] of the line,
//! and the guard of 5 ms: 0.1945 s. Five of these are 0.972 s, and carry 80 % of the line; without a guard it would be
//! 8/9 of [`SHARE`], 84 %, at most. But a deadline of a second has less than a second for windows: until the next mark
//! it is 0.1 s, then the daemon's sync and the way back, some 0.14 s or more together. And where a deadline leaves no
//! whole period to wait, windows stand behind the bursts, which are all ready at once: each is moved there while the
//! others stand, and gaps are left which no window fits. Three windows and the gaps fill what is left. With a deadline
//! of two seconds a burst may wait for a whole period: all of it is there for windows, and none is moved. Who asks
//! before the window of the one before has passed gets the next one right behind it.

use super::{
    GBIT, IDEAL_S, OVER_A_PATH, Planned, Suite, Takes, Values, count, encrypted, scaled, testbed_kind,
    whole_seconds,
};
use crate::bench::network::{PathWish, Testbed, payload_share};
use crate::bench::producer::Producer;
use crate::bench::record::{Distribution, Sample};
use crate::bench::workspace::Daemon;
use crate::bench::{Bench, Prepared, Wishes, stopped};
use crate::testbed::spec::TUNED;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::synthetic::fill_with_noise;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};
use thalweg_mover::model::score;

pub const SUITE: Suite = Suite {
    name: "slots",
    asks: "how late is the worst burst of producers that share a link: at once, apart, in slots? (003 Figs 2 and 3)",
    runs: 3,
    budget_bytes: 5_000_000,
    takes: Takes { rate: Values::No, time: Values::One, seed: Values::No, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

/// 003 Table 1.
const MTU_BYTES: u32 = 9000;
/// For so long bursts come.
const TIME: Duration = Duration::from_secs(10);
/// Producers, each with a burst a second.
const PRODUCERS: [u32; 5] = [1, 2, 4, 6, 8];
/// What is asked for with each burst: as long as it is to the next.
const DEADLINE: &str = "1s";
/// So long that a whole period, a window and what a slow disk adds fit in: see the module.
const LONG_DEADLINE: &str = "2s";
/// Of what the line carries of TCP's payload this is given away: frames, marks and acknowledgements are the rest.
const SHARE: f64 = 0.95;
/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(2);
/// After the last burst was ready, for the rest of all to arrive.
const REST: Duration = Duration::from_secs(60);
/// Streams of one producer.
const STREAMS: &str = "2";

/// Series of producers with slots, by how long bursts may take.
pub const SLOTS: &str = "slots";
/// See [`SLOTS`].
pub const LONG: &str = "slots, long deadline";

/// What was carried of bursts, as a share of what the line carries of TCP's payload.
pub const CARRIED: &str = "carried";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starts {
    Simultaneous,
    Scheduled,
    Slots,
    /// In slots that may be anywhere in the period.
    LongDeadline,
}

impl Starts {
    fn name(self) -> &'static str {
        match self {
            Starts::Simultaneous => "simultaneous",
            Starts::Scheduled => "scheduled",
            Starts::Slots => SLOTS,
            Starts::LongDeadline => LONG,
        }
    }

    /// What is asked for with each burst, where a slot is.
    fn deadline(self) -> Option<&'static str> {
        match self {
            Starts::Simultaneous | Starts::Scheduled => None,
            Starts::Slots => Some(DEADLINE),
            Starts::LongDeadline => Some(LONG_DEADLINE),
        }
    }
}

struct Case {
    producers: u32,
    starts: Starts,
}

impl Case {
    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        Sample { series: self.starts.name().to_owned(), ..sample }
            .with("producers", count(self.producers))
            .with("starts", self.starts.name().into())
            .with("load", count(f64::from(self.producers) * IDEAL_S))
    }
}

fn cases() -> Vec<Case> {
    let starts = [Starts::Simultaneous, Starts::Scheduled, Starts::Slots, Starts::LongDeadline];
    let of = |producers| starts.map(|starts| Case { producers, starts });
    PRODUCERS.into_iter().flat_map(of).collect()
}

fn plan(_: &Wishes) -> Vec<Planned> {
    cases().iter().map(|case| Planned::of(case.told_in(Sample::default()), Vec::new())).collect()
}

/// A burst, and the line on which it takes 0.16 s.
fn load(wishes: &Wishes) -> (u64, PathWish) {
    let burst_bytes = SUITE.budget_bytes(wishes);
    let rate = (burst_bytes as f64 * 8.0 / IDEAL_S / payload_share(MTU_BYTES)) as u64;
    let path = super::path_wish(wishes, Duration::from_millis(16), rate);
    (burst_bytes, PathWish { mtu_bytes: MTU_BYTES, ..path })
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    bursts(wishes)?;
    let (burst_bytes, path) = load(wishes);
    if path.rate_bits_per_s > 10 * GBIT {
        let cause = "a --budget of more than 200 MB would need a line of more than 10 Gbit/s";
        return Err(Failure::new(FailureKind::Usage, MEASURE, cause));
    }
    let mut changes = vec![
        scaled("data of a client", "0.5 GB (003 Table 2)", format!("{} MB", burst_bytes as f64 / 1e6)),
        scaled("line", "25 Gbit/s (003 Table 1)", {
            format!("{:.3} Gbit/s", path.rate_bits_per_s as f64 / 1e9)
        }),
        scaled("clients", "8 a second (003 Table 2)", {
            "as many producers with a burst each second, over connections that stand".to_owned()
        }),
        scaled("deadline", "none (003 has a schedule)", {
            format!("{DEADLINE} from when a burst is ready; {LONG_DEADLINE} in the series `{LONG}`")
        }),
    ];
    changes.extend(super::shortened(wishes, TIME, "10 s (003 Table 2)"));
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: super::VERIFIED.to_owned(),
        changes,
    })
}

/// How many bursts each producer has, one a second: the first warms up.
fn bursts(wishes: &Wishes) -> Result<u64> {
    whole_seconds(SUITE.name, wishes.time, TIME, 2)
}

/// When each producer's burst is ready in each second.
fn ready_at(case: &Case, producer: u32) -> Duration {
    match case.starts {
        Starts::Scheduled => Duration::from_secs_f64(f64::from(producer) / f64::from(case.producers)),
        Starts::Simultaneous | Starts::Slots | Starts::LongDeadline => Duration::ZERO,
    }
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (burst_bytes, path) = load(bench.wishes);
    let bursts = bursts(bench.wishes)?;
    bench.workspace.needs(burst_bytes * bursts * u64::from(PRODUCERS[PRODUCERS.len() - 1]))?;
    let settings = [TUNED, &[("net.ipv4.tcp_slow_start_after_idle", "0")]].concat();
    let testbed = Testbed::up(&bench.workspace, "slots", &path, &settings)?;
    let rate = (path.payload_bits_per_s() * SHARE) as u64;
    let daemon = bench.workspace.daemon_with(Some(&testbed.right), &["--slots", &format!("{rate}bit/s")])?;
    let stop = bench.wishes.stop.clone();
    bench.take_turns(cases(), |bench, run, case| {
        // Each case is many bursts, of which the first of each producer warms up.
        if run == 0 {
            return Ok(None);
        }
        let sample = super::over(&testbed, || {
            let began = Instant::now();
            let producers = start(bench, &testbed, &daemon, case, burst_bytes)?;
            let seen = watch(&producers, case, burst_bytes, bursts, &stop)?;
            let ends =
                producers.into_iter().map(|(_, producer)| producer.end()).collect::<Result<Vec<_>>>()?;
            let wall_s = began.elapsed().as_secs_f64();
            of_bursts(case, burst_bytes, &seen, &ends, Sample { wall_s, ..Sample::default() })
        });
        (0..case.producers).try_for_each(|producer| bench.workspace.remove(&file_of(&daemon, producer)))?;
        sample.map(Some)
    })
}

fn file_of(daemon: &Daemon, producer: u32) -> PathBuf {
    daemon.path(&format!("producer-{producer}"))
}

/// Those that were not refused, and their numbers.
fn start(
    bench: &Bench<'_>,
    testbed: &Testbed,
    daemon: &Daemon,
    case: &Case,
    burst_bytes: u64,
) -> Result<Vec<(Running, Producer)>> {
    let mut running = Vec::new();
    for number in 0..case.producers {
        let url = daemon.url(&format!("producer-{number}"));
        let mut words = vec!["stream".to_owned(), "--streams".into(), STREAMS.into(), "-".into(), url];
        if let Some(deadline) = case.starts.deadline() {
            words.extend(["--slot".to_owned(), format!("1s:{burst_bytes}B:{deadline}")]);
        }
        let producer = bench.workspace.producer(&testbed.left, daemon, &words)?;
        let running_one = Running { number, file: file_of(daemon, number), length: 0, arrived: Vec::new() };
        running.push((running_one, producer));
    }
    Ok(running)
}

/// A producer, as it is seen at the far side.
struct Running {
    number: u32,
    file: PathBuf,
    length: u64,
    /// When each of its bursts had arrived.
    arrived: Vec<Instant>,
}

/// Times of the bursts that count.
#[derive(Default)]
struct Seen {
    /// From ready to arrived, in seconds.
    lags_s: Vec<f64>,
    /// From when it might be sent to arrived, in seconds.
    transfers_s: Vec<f64>,
    refused: u32,
    /// See [`CARRIED`].
    carried: f64,
}

/// Has all make their bursts, and sees them arrive.
fn watch(
    producers: &[(Running, Producer)],
    case: &Case,
    burst_bytes: u64,
    bursts: u64,
    stop: &AtomicBool,
) -> Result<Seen> {
    let began = Instant::now() + Duration::from_millis(500);
    let mut burst = vec![0; burst_bytes as usize];
    fill_with_noise(&mut burst, 1);
    let ready = |number: u32, k: u64| began + ready_at(case, number) + Duration::from_secs(k);
    let until = ready(0, bursts) + REST;
    std::thread::scope(|scope| {
        for (running, producer) in producers {
            let (burst, number) = (&burst, running.number);
            scope.spawn(move || {
                for k in 0..bursts {
                    std::thread::sleep(ready(number, k).saturating_duration_since(Instant::now()));
                    // Who was refused has ended.
                    if producer.write(burst).is_err() {
                        return;
                    }
                }
                producer.close();
            });
        }
        let mut rows: Vec<Running> = producers
            .iter()
            .map(|(row, _)| Running {
                number: row.number,
                file: row.file.clone(),
                length: 0,
                arrived: Vec::new(),
            })
            .collect();
        // Writers are waited for below, and would go on.
        let give_up = || producers.iter().for_each(|(_, producer)| producer.give_up());
        loop {
            for row in &mut rows {
                row.look(burst_bytes).map_err(|error| {
                    give_up();
                    of_io("look at what arrived", &error)
                })?;
            }
            let waits = |row: &Running, producer: &Producer| {
                (row.arrived.len() as u64) < bursts && !producer.is_refused()
            };
            if !rows.iter().zip(producers).any(|(row, (_, producer))| waits(row, producer)) {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                give_up();
                return Err(stopped());
            }
            if Instant::now() > until {
                give_up();
                let cause = format!("not all bursts arrived within {} s", REST.as_secs());
                return Err(Failure::new(FailureKind::Internal, MEASURE, cause));
            }
            std::thread::sleep(LOOK);
        }
        let mut seen = Seen::default();
        for (row, (_, producer)) in rows.iter().zip(producers) {
            if producer.is_refused() {
                seen.refused += 1;
                continue;
            }
            seen.carried += carried(&row.arrived);
            let opening = producer.opening();
            for (k, arrived) in (0u64..).zip(&row.arrived).skip(1) {
                let ready = ready(row.number, k);
                let may_go = opening.map_or(ready, |(opens, period)| next(opens, period, ready));
                seen.lags_s.push(arrived.saturating_duration_since(ready).as_secs_f64());
                seen.transfers_s.push(arrived.saturating_duration_since(may_go).as_secs_f64());
            }
        }
        Ok(seen)
    })
}

impl Running {
    fn look(&mut self, burst_bytes: u64) -> io::Result<()> {
        self.length = match fs::metadata(&self.file) {
            Ok(meta) => meta.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        while self.length / burst_bytes > self.arrived.len() as u64 {
            self.arrived.push(now);
        }
        Ok(())
    }
}

/// Which share of the line one producer's bursts are that arrived at these times. The first one warms up, and does not
/// count where two more arrived.
fn carried(arrived: &[Instant]) -> f64 {
    let counted = &arrived[usize::from(arrived.len() > 2)..];
    let (Some(first), Some(last)) = (counted.first(), counted.last()) else { return 0.0 };
    let took_s = last.saturating_duration_since(*first).as_secs_f64();
    // Of all at once nothing is known.
    if took_s > 0.0 { (counted.len() - 1) as f64 * IDEAL_S / took_s } else { 0.0 }
}

/// The first window from `at` on.
fn next(opens: Instant, period: Duration, at: Instant) -> Instant {
    let period_s = period.as_secs_f64();
    let after_s = match at.checked_duration_since(opens) {
        Some(since) => (since.as_secs_f64() / period_s).ceil() * period_s,
        None => -((opens - at).as_secs_f64() / period_s).floor() * period_s,
    };
    match after_s < 0.0 {
        true => opens - Duration::from_secs_f64(-after_s),
        false => opens + Duration::from_secs_f64(after_s),
    }
}

fn of_bursts(
    case: &Case,
    burst_bytes: u64,
    seen: &Seen,
    ends: &[Option<serde_json::Value>],
    sample: Sample,
) -> Result<Sample> {
    let failed = |error: thalweg_mover::model::ModelError| {
        Failure::new(FailureKind::Internal, "judge the times of bursts", error.to_string())
    };
    if seen.lags_s.is_empty() {
        let cause =
            format!("no burst was sent: {} of {} producers were refused", seen.refused, case.producers);
        return Err(Failure::new(FailureKind::Busy, MEASURE, cause));
    }
    let (tail, lag) =
        (score::tail(&seen.transfers_s).map_err(failed)?, score::tail(&seen.lags_s).map_err(failed)?);
    let speed_score = score::speed_score(tail.max_s, IDEAL_S).map_err(failed)?;
    let most = |path: &[&str]| {
        let of = |end: &serde_json::Value| path.iter().try_fold(end, |value, key| value.get(key))?.as_f64();
        ends.iter()
            .flatten()
            .filter_map(of)
            .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))))
    };
    let bursts = |values: &[f64]| Distribution { unit: "s".into(), values: values.to_vec() };
    let sample = Sample {
        bytes: burst_bytes * seen.lags_s.len() as u64,
        files: seen.lags_s.len() as u64,
        distributions: [
            ("transfer_time".to_owned(), bursts(&seen.transfers_s)),
            ("lag".to_owned(), bursts(&seen.lags_s)),
        ]
        .into(),
        ..sample
    };
    let mut sample = case
        .told_in(sample)
        .measured("p50", tail.p50_s, "s")
        .measured("p90", tail.p90_s, "s")
        .measured("p99", tail.p99_s, "s")
        .measured("worst", tail.max_s, "s")
        .measured("worst_lag", lag.max_s, "s")
        .measured("speed_score", speed_score, "1")
        .measured("refused", f64::from(seen.refused), "1")
        .measured(CARRIED, seen.carried, "1")
        .predicted("ideal", IDEAL_S, "s");
    // What clients say of themselves: durable and known to be.
    if let Some(promised_s) = most(&["slot", "promised_s"]) {
        sample = sample.predicted("promised", promised_s, "s");
    }
    if let Some(kept_s) = most(&["lag_worst_s"]) {
        sample = sample.measured("worst_durable", kept_s, "s");
    }
    if let Some(promises) = Promises::of(ends) {
        sample = sample
            .measured("promises", promises.made as f64, "1")
            .measured("promises_kept", promises.kept as f64, "1")
            .measured("promise_missed_by", promises.missed_by, "1");
    }
    Ok(sample)
}

/// What producers were promised, each held against its own longest lag: slots of one daemon differ.
struct Promises {
    made: usize,
    kept: usize,
    /// Of the one that was missed by the most, as a share of what was promised; 0 where all are kept.
    missed_by: f64,
}

impl Promises {
    /// `None` where none was made.
    fn of(ends: &[Option<serde_json::Value>]) -> Option<Promises> {
        let each = ends.iter().flatten().filter_map(|end| {
            let promised_s = end["slot"]["promised_s"].as_f64().filter(|promised_s| *promised_s > 0.0)?;
            Some(end["lag_worst_s"].as_f64()? / promised_s)
        });
        let shares: Vec<f64> = each.collect();
        (!shares.is_empty()).then(|| Promises {
            made: shares.len(),
            kept: shares.iter().filter(|share| **share <= 1.0).count(),
            missed_by: shares.iter().map(|share| share - 1.0).fold(0.0, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Quantity;
    use thalweg_mover::admission::calendar::Calendar;
    use thalweg_wire::message::{Rhythm, SlotWish};

    #[test]
    fn bursts_are_ready_together_or_evenly_apart() {
        let of = |starts| Case { producers: 4, starts };
        assert_eq!(ready_at(&of(Starts::Scheduled), 3), Duration::from_millis(750));
        assert_eq!(ready_at(&of(Starts::Slots), 3), Duration::ZERO);
    }

    /// The second was promised less and took more than that; the largest promise and the longest lag know nothing of
    /// it.
    #[test]
    fn each_promise_is_held_against_the_lag_of_who_has_it() {
        let end = |promised_s: f64, lag_s: f64| {
            Some(serde_json::json!({"slot": {"promised_s": promised_s}, "lag_worst_s": lag_s}))
        };
        let seen = Seen { lags_s: vec![0.5; 3], transfers_s: vec![0.2; 3], refused: 1, carried: 0.48 };
        let case = Case { producers: 4, starts: Starts::Slots };
        let of = |ends: &[Option<serde_json::Value>]| {
            let sample = of_bursts(&case, 1000, &seen, ends, Sample::default()).unwrap();
            assert_eq!(sample.measured[CARRIED].value(), Some(0.48));
            let names = ["promises", "promises_kept", "promise_missed_by"];
            names.map(|name| sample.measured.get(name).and_then(Quantity::value))
        };
        let missed = of(&[end(0.9, 0.7), end(0.4, 0.6), end(0.8, 0.8), None]);
        assert_eq!((missed[0], missed[1]), (Some(3.0), Some(2.0)));
        assert!((missed[2].unwrap() - 0.5).abs() < 1e-9, "{missed:?}");
        assert_eq!(of(&[end(0.9, 0.7), None]), [Some(1.0), Some(1.0), Some(0.0)]);
        assert_eq!(of(&[Some(serde_json::json!({"lag_worst_s": 0.7})), None]), [None; 3]);
    }

    /// One that arrives each second is 16 % of the line, however late the first was; one each two seconds half of that.
    #[test]
    fn what_is_carried_is_told_by_when_bursts_arrive_without_the_first_which_warms_up() {
        let began = Instant::now();
        let of = |times_s: &[f64]| {
            let arrived: Vec<Instant> = times_s.iter().map(|s| began + Duration::from_secs_f64(*s)).collect();
            (carried(&arrived) * 1e6).round() / 1e6
        };
        assert_eq!(of(&[0.9, 1.2, 2.2, 3.2]), 0.16);
        assert_eq!(of(&[0.2, 2.2, 4.2, 6.2]), 0.08);
        assert_eq!((of(&[0.2, 1.2]), of(&[0.2]), of(&[]), of(&[0.2, 0.2])), (0.16, 0.0, 0.0, 0.0));
    }

    /// The windows of the module's head, asked for one shortly after the other, by producers that have some 0.17 s less
    /// than their deadline.
    #[test]
    fn where_a_burst_may_wait_for_a_whole_period_slots_carry_four_fifths_of_the_line() {
        let line_bytes_per_s = 100_000_000.0;
        let burst_bytes = (line_bytes_per_s * IDEAL_S) as u64;
        let taken = |deadline_micros: u64| {
            let mut calendar = Calendar::new((line_bytes_per_s * SHARE) as u64);
            let each = (0..8u64).filter(|number| {
                let wish = SlotWish {
                    rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: burst_bytes * 9 / 8 },
                    deadline_micros: deadline_micros - 170_000,
                    ready_ago_micros: 0,
                    guard_micros: 5000,
                };
                let Ok(promise) = calendar.admit(&wish, number * 20_000) else { return false };
                assert_eq!(promise.is_any_time, deadline_micros == 2_000_000);
                calendar.hold(promise);
                true
            });
            each.count() as f64 * IDEAL_S
        };
        assert!((taken(2_000_000) - 0.8).abs() < 1e-9);
        assert!(taken(1_000_000) < 0.8);
    }

    #[test]
    fn a_burst_may_go_in_the_first_window_after_it_is_ready() {
        let opens = Instant::now() + Duration::from_secs(10);
        let ms = Duration::from_millis;
        let near = |found: Instant, wanted: Instant| {
            found.max(wanted) - found.min(wanted) < Duration::from_micros(1)
        };
        assert!(near(next(opens, ms(1000), opens + ms(1)), opens + ms(1000)));
        assert!(near(next(opens, ms(1000), opens), opens));
        assert!(near(next(opens, ms(1000), opens - ms(2300)), opens - ms(2000)));
    }
}
