//! `congest`: clients that share a link, more of them each second, all at once or evenly apart (003 section 4, Figs 2
//! and 3). How long does the worst take, against what it would take alone?
//!
//! As in 003 the traffic is plain TCP from memory to memory, and each client opens its connections anew: slow start is
//! in each transfer. `slots` has connections that stand. Line and data are made smaller together, so that one transfer
//! alone would still take 0.16 s.
//!
//! A start that is cold makes a transfer longer than the way to the next start, near the whole rate of the line:
//! transfers that were to be apart lie over each other. So both ways to start are measured once more where connections
//! begin with a window that fits the path ([`fitting_window`]), which a route can have (`ip route … initcwnd N initrwnd
//! N`).

use super::{
    GBIT, IDEAL_S, OVER_A_PATH, Planned, Suite, Takes, Values, count, scaled, testbed_kind, whole_seconds,
};
use crate::bench::network::{PathWish, Testbed, payload_share, segment_bytes};
use crate::bench::record::{Distribution, Sample};
use crate::bench::traffic::Clients;
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::spec::TUNED;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result};
use thalweg_mover::model::score;
use thalweg_sys::cpu_time::process_cpu;

pub const SUITE: Suite = Suite {
    name: "congest",
    asks: "how long does the worst transfer take when many share a link? (003 Figs 2 and 3)",
    runs: 3,
    budget_bytes: 20_000_000,
    takes: Takes {
        rate: Values::No,
        time: Values::One,
        seed: Values::No,
        program: Values::No,
        ..OVER_A_PATH
    },
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

/// 003 Table 1.
const MTU_BYTES: u32 = 9000;

/// For so long clients begin.
const TIME: Duration = Duration::from_secs(10);

const CLIENTS_PER_S: std::ops::RangeInclusive<u32> = 1..=8;
const STREAMS: [u32; 3] = [2, 4, 8];

/// Of [`CLIENTS_PER_S`] those with which connections begin with a window that fits as well: where 003 tells what a
/// schedule is worth, and the ends. All would take a quarter of an hour longer.
const FITTED_CLIENTS: [u32; 5] = [1, 2, 4, 6, 8];

/// The parameter that says how connections begin, and its values. Results from before there were two have none.
pub const BEGINS: &str = "begins";
const COLD: &str = "with the kernel's initial window";
/// See [`BEGINS`].
pub const FITTED: &str = "with an initial window that fits the path";

/// A window that fits is at least what RFC 6928 has connections begin with (section 2), which is what Linux does too.
const WINDOW_SEGMENTS_MIN: u32 = 10;
/// And no more than this: of the paths that `--budget` can ask for the widest has as much under way in 2 streams where
/// it is as far as 003's. A farther one would have more leave at once than anything on the way holds.
const WINDOW_SEGMENTS_MAX: u32 = 12_000;

/// What 003's bed, or the scripts that its authors published (scistream/indis), have besides, and why it is not here.
const NOT_HERE: [(&str, &str); 3] = [
    (
        "1 and 16 streams (003's scripts)",
        "003's figures have 2, 4 and 8; these would take two thirds longer. `thalweg bench streams` has 1 to 32, alone on the line",
    ),
    (
        "a port of the server for each client (003's scripts)",
        "here one port takes them all: each connection has a thread of its own",
    ),
    (
        "a look at each flow every 0.1 s (003's scripts)",
        "the time of every transfer is kept, and what the line carried in all; the flows of one are not told apart",
    ),
];

struct Case {
    clients_per_s: u32,
    streams: u32,
    is_scheduled: bool,
    /// Segments with which connections begin, where that is not left to the kernel.
    initial_window: Option<u32>,
}

impl Case {
    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        let starts = if self.is_scheduled { "scheduled" } else { "simultaneous" };
        let begins = if self.initial_window.is_some() { FITTED } else { COLD };
        // What is cold is called as before there was another.
        let series = match self.initial_window {
            None => format!("{starts}, {} streams", self.streams),
            Some(_) => format!("{starts}, {FITTED}, {} streams", self.streams),
        };
        let sample = Sample { series, ..sample }
            .with("clients_per_s", count(self.clients_per_s))
            .with("streams", count(self.streams))
            .with("starts", starts.into())
            .with(BEGINS, begins.into())
            .with("load", count(f64::from(self.clients_per_s) * IDEAL_S));
        match self.initial_window {
            None => sample,
            Some(segments) => sample.with("initial_window", count(segments)),
        }
    }
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let (_, path) = load(wishes);
    cases(&path).iter().map(|case| Planned::of(case.told_in(Sample::default()), Vec::new())).collect()
}

/// What one client sends, and the line on which that takes 0.16 s.
fn load(wishes: &Wishes) -> (u64, PathWish) {
    let data_bytes = SUITE.budget_bytes(wishes);
    // Headers come on top: it is the data that take so long.
    let rate = (data_bytes as f64 * 8.0 / IDEAL_S / payload_share(MTU_BYTES)) as u64;
    let path = super::path_wish(wishes, Duration::from_millis(16), rate);
    (data_bytes, PathWish { mtu_bytes: MTU_BYTES, ..path })
}

/// Segments of the window with which connections begin where it is to fit the path: all that begin together send one
/// bandwidth-delay product. What the server offers before anything has come is 64 KiB at most, for a SYN-ACK has no
/// scale (RFC 7323 section 2.2); the rest of the window goes a round trip later.
fn fitting_window(path: &PathWish, together: u32) -> u32 {
    let under_way_bytes = path.payload_bits_per_s() / 8.0 * path.rtt.as_secs_f64();
    let segments = under_way_bytes / segment_bytes(path.mtu_bytes) / f64::from(together);
    (segments as u32).clamp(WINDOW_SEGMENTS_MIN, WINDOW_SEGMENTS_MAX)
}

/// Each case that is measured: first those that begin as the kernel has it, as 003's do.
fn cases(path: &PathWish) -> Vec<Case> {
    let mut cases = Vec::new();
    for streams in STREAMS {
        for clients_per_s in CLIENTS_PER_S {
            let of = |is_scheduled| Case { clients_per_s, streams, is_scheduled, initial_window: None };
            cases.extend([false, true].map(of));
        }
    }
    for streams in STREAMS {
        for clients_per_s in FITTED_CLIENTS {
            let of = |is_scheduled| {
                let clients = if is_scheduled { 1 } else { clients_per_s };
                let initial_window = Some(fitting_window(path, clients * streams));
                Case { clients_per_s, streams, is_scheduled, initial_window }
            };
            cases.extend([false, true].map(of));
        }
    }
    cases
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    seconds(wishes)?;
    let (data_bytes, path) = load(wishes);
    if path.rate_bits_per_s > 100 * GBIT {
        let cause = "a --budget of more than 2 GB would need a line of more than 100 Gbit/s";
        return Err(Failure::new(FailureKind::Usage, MEASURE, cause));
    }
    let mut changes = vec![
        scaled("data of a client", "0.5 GB (003 Table 2)", format!("{} MB", data_bytes as f64 / 1e6)),
        scaled("line", "25 Gbit/s (003 Table 1)", {
            format!(
                "{:.3} Gbit/s, of which {:.3} are data",
                path.rate_bits_per_s as f64 / 1e9,
                path.payload_bits_per_s() / 1e9
            )
        }),
        scaled("initial window of TCP", "the kernel's (003 names none)", {
            let [few, some, many] = STREAMS.map(|streams| fitting_window(&path, streams));
            let [two, four, eight] = STREAMS;
            format!(
                "the kernel's, and besides one that fits the path: the bandwidth-delay product, divided by the \
                 streams that begin together, at least {WINDOW_SEGMENTS_MIN} segments. That is {few}, {some}, {many} \
                 where one client begins with {two}, {four}, {eight} streams"
            )
        }),
    ];
    changes.extend(super::shortened(wishes, TIME, "10 s (003 Table 2)"));
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: "none: plain TCP, as in 003".to_owned(),
        verification: "none: from memory to memory, as in 003".to_owned(),
        changes,
    })
}

/// For how many seconds clients begin.
fn seconds(wishes: &Wishes) -> Result<u64> {
    whole_seconds(SUITE.name, wishes.time, TIME, 1)
}

/// When each client begins: `clients_per_s` in each of so many seconds, together or evenly apart.
fn starts(case: &Case, seconds: u64) -> Vec<Duration> {
    let of = |second: u64| {
        (0..case.clients_per_s).map(move |client| {
            let slot =
                if case.is_scheduled { f64::from(client) / f64::from(case.clients_per_s) } else { 0.0 };
            Duration::from_secs(second) + Duration::from_secs_f64(slot)
        })
    };
    (0..seconds).flat_map(of).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (data_bytes, path) = load(bench.wishes);
    let seconds = seconds(bench.wishes)?;
    for (what, why) in NOT_HERE {
        bench.leave_out(what, why)?;
    }
    let testbed = Testbed::up(&bench.workspace, "congest", &path, TUNED)?;
    let stop = bench.wishes.stop.clone();
    bench.take_turns(cases(&path), |_, run, case| {
        // Each case is many transfers: none is spent on warming up.
        if run == 0 {
            return Ok(None);
        }
        testbed.set_initial_window(case.initial_window)?;
        let clients = Clients { starts: starts(case, seconds), bytes: data_bytes, streams: case.streams };
        let sample = super::over(&testbed, || {
            let (cpu, began) = (process_cpu(), Instant::now());
            let times = clients.run(&testbed, &stop)?;
            let wall_s = began.elapsed().as_secs_f64();
            let cpu_s = Some((process_cpu() - cpu).as_secs_f64());
            of_times(case, data_bytes, times, Sample { wall_s, cpu_s, ..Sample::default() })
        })?;
        Ok(Some(sample))
    })
}

fn of_times(case: &Case, data_bytes: u64, times: Vec<f64>, sample: Sample) -> Result<Sample> {
    let failed = |error: thalweg_mover::model::ModelError| {
        Failure::new(FailureKind::Internal, "judge the times of transfers", error.to_string())
    };
    let tail = score::tail(&times).map_err(failed)?;
    let speed_score = score::speed_score(tail.max_s, IDEAL_S).map_err(failed)?;
    let sample = Sample {
        bytes: data_bytes * times.len() as u64,
        files: times.len() as u64,
        distributions: [("transfer_time".to_owned(), Distribution { unit: "s".into(), values: times })]
            .into(),
        ..sample
    };
    Ok(case
        .told_in(sample)
        .measured("p50", tail.p50_s, "s")
        .measured("p90", tail.p90_s, "s")
        .measured("p99", tail.p99_s, "s")
        .measured("worst", tail.max_s, "s")
        .measured("speed_score", speed_score, "1")
        .predicted("ideal", IDEAL_S, "s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_begin_together_or_evenly_apart() {
        let case = Case { clients_per_s: 4, streams: 2, is_scheduled: true, initial_window: None };
        let ms = |case: &Case| -> Vec<u128> { starts(case, 2).iter().map(Duration::as_millis).collect() };
        assert_eq!(ms(&case), [0, 250, 500, 750, 1000, 1250, 1500, 1750]);
        let together = Case { is_scheduled: false, ..case };
        assert_eq!(ms(&together), [0, 0, 0, 0, 1000, 1000, 1000, 1000]);
    }

    #[test]
    fn the_score_is_the_worst_time_against_the_ideal_one() {
        let case = Case { clients_per_s: 8, streams: 2, is_scheduled: false, initial_window: None };
        let sample = of_times(&case, 20_000_000, vec![0.2, 5.0, 0.3], Sample::default()).unwrap();
        assert_eq!(sample.measured["speed_score"].value(), Some(31.25));
        assert_eq!((sample.parameter("load"), sample.bytes), (Some(1.28), 60_000_000));
    }

    /// By hand: 125 MB/s over 16 ms are 2 MB, of which 223 segments of 8948 bytes are under way.
    #[test]
    fn a_window_that_fits_is_the_share_of_each_that_begins_together_within_bounds() {
        let (_, path) = load(&Wishes::default());
        assert_eq!([1, 2, 4, 8].map(|together| fitting_window(&path, together)), [223, 111, 55, 27]);
        assert_eq!(fitting_window(&path, 64), WINDOW_SEGMENTS_MIN);
        let far = PathWish { rtt: Duration::from_secs(100), ..path };
        assert_eq!(fitting_window(&far, 1), WINDOW_SEGMENTS_MAX);
        let widest = PathWish { rate_bits_per_s: 100 * GBIT, ..path };
        assert!(fitting_window(&widest, STREAMS[0]) < WINDOW_SEGMENTS_MAX);
    }

    /// Of those that begin together all share the path; of scheduled ones the streams of one client.
    #[test]
    fn either_start_is_measured_cold_and_with_a_window_that_fits_and_the_cold_one_keeps_its_name() {
        let (_, path) = load(&Wishes::default());
        let cases = cases(&path);
        let fitted = cases.iter().filter(|case| case.initial_window.is_some());
        assert_eq!((cases.len(), fitted.count()), (3 * 8 * 2 + 3 * 5 * 2, 3 * 5 * 2));
        // A result has the cold ones first, which are what stands beside the paper.
        assert!(cases[..2].iter().all(|case| case.initial_window.is_none()));
        let six = |is_scheduled, is_fitted: bool| {
            let is_it = |case: &&Case| {
                (case.clients_per_s, case.streams, case.is_scheduled) == (6, 2, is_scheduled)
                    && case.initial_window.is_some() == is_fitted
            };
            let case = cases.iter().find(is_it).unwrap();
            of_times(case, 20_000_000, vec![0.2], Sample::default()).unwrap()
        };
        let (cold, fitted, together) = (six(true, false), six(true, true), six(false, true));
        assert_eq!(cold.series, "scheduled, 2 streams");
        assert_eq!(fitted.series, format!("scheduled, {FITTED}, 2 streams"));
        assert_eq!((cold.parameters[BEGINS].word(), cold.parameter("initial_window")), (Some(COLD), None));
        assert_eq!(fitted.parameters[BEGINS].word(), Some(FITTED));
        assert_eq!(fitted.parameter("initial_window"), Some(111.0));
        assert_eq!(together.parameter("initial_window"), Some(18.0));
    }
}
