//! `congest`: clients that share a link, more of them each second, all at once or evenly apart (003 section 4, Figs 2
//! and 3). How long does the worst take, against what it would take alone?
//!
//! As in 003 the traffic is plain TCP from memory to memory, and each client opens its connections anew: slow start is
//! in each transfer. `slots` has connections that stand. Line and data are made smaller together, so that one transfer
//! alone would still take 0.16 s.

use super::{GBIT, IDEAL_S, OVER_A_PATH, Suite, Takes, Values, count, scaled, testbed_kind, whole_seconds};
use crate::bench::network::{PathWish, Testbed, payload_share};
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
    run,
};

/// 003 Table 1.
const MTU_BYTES: u32 = 9000;

/// For so long clients begin.
const TIME: Duration = Duration::from_secs(10);

const CLIENTS_PER_S: std::ops::RangeInclusive<u32> = 1..=8;
const STREAMS: [u32; 3] = [2, 4, 8];

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
}

/// What one client sends, and the line on which that takes 0.16 s.
fn load(wishes: &Wishes) -> (u64, PathWish) {
    let data_bytes = SUITE.budget_bytes(wishes);
    // Headers come on top: it is the data that take so long.
    let rate = (data_bytes as f64 * 8.0 / IDEAL_S / payload_share(MTU_BYTES)) as u64;
    let path = super::path_wish(wishes, Duration::from_millis(16), rate);
    (data_bytes, PathWish { mtu_bytes: MTU_BYTES, ..path })
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    seconds(wishes)?;
    Testbed::check()?;
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
    let mut cases = Vec::new();
    for streams in STREAMS {
        for clients_per_s in CLIENTS_PER_S {
            let of = |is_scheduled| Case { clients_per_s, streams, is_scheduled };
            cases.extend([false, true].map(of));
        }
    }
    let stop = bench.wishes.stop.clone();
    bench.take_turns(cases, |_, run, case| {
        // Each case is many transfers: none is spent on warming up.
        if run == 0 {
            return Ok(None);
        }
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
    let starts = if case.is_scheduled { "scheduled" } else { "simultaneous" };
    let sample = Sample {
        series: format!("{starts}, {} streams", case.streams),
        bytes: data_bytes * times.len() as u64,
        files: times.len() as u64,
        distributions: [("transfer_time".to_owned(), Distribution { unit: "s".into(), values: times })]
            .into(),
        ..sample
    };
    Ok(sample
        .with("clients_per_s", count(case.clients_per_s))
        .with("streams", count(case.streams))
        .with("starts", starts.into())
        .with("load", count(f64::from(case.clients_per_s) * IDEAL_S))
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
        let case = Case { clients_per_s: 4, streams: 2, is_scheduled: true };
        let ms = |case: &Case| -> Vec<u128> { starts(case, 2).iter().map(Duration::as_millis).collect() };
        assert_eq!(ms(&case), [0, 250, 500, 750, 1000, 1250, 1500, 1750]);
        let together = Case { is_scheduled: false, ..case };
        assert_eq!(ms(&together), [0, 0, 0, 0, 1000, 1000, 1000, 1000]);
    }

    #[test]
    fn the_score_is_the_worst_time_against_the_ideal_one() {
        let case = Case { clients_per_s: 8, streams: 2, is_scheduled: false };
        let sample = of_times(&case, 20_000_000, vec![0.2, 5.0, 0.3], Sample::default()).unwrap();
        assert_eq!(sample.measured["speed_score"].value(), Some(31.25));
        assert_eq!((sample.parameter("load"), sample.bytes), (Some(1.28), 60_000_000));
    }
}
