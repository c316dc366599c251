//! `latency`: what default buffers cost over a distance, beside tuned ones, with the window law's line (000 section
//! III-A, Fig 2).
//!
//! A stream of TCP is measured once it runs. Of a copy that is not known without choosing: what a large one takes
//! longer than a small one is sometimes noise, or more than the line carries. So a copy counts as a whole, whatever it
//! took, and is so large that its start is at most a tenth of it, as far as the budget goes.

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, encrypted, of_copy, scaled, seconds, size,
};
use crate::bench::network::{self, PathWish, Testbed};
use crate::bench::record::{PathKind, RATE, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::check;
use crate::testbed::spec::{STOCK, TUNED};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::model::window;
use thalweg_mover::plan::window_of_buffers;

pub const SUITE: Suite = Suite {
    name: "latency",
    asks: "what do default buffers cost over a distance? (000 Fig 2)",
    runs: 5,
    budget_bytes: 4096 * MIB,
    takes: Takes { rtt: Values::Many, loss: Values::No, time: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
    run,
};

/// Round trip times, unless others are asked for: 000 has 10 to 100 ms.
const RTTS_MS: [u64; 6] = [10, 20, 40, 60, 80, 100];

const RATE_BITS_PER_S: u64 = 2 * GBIT;

/// What a copy takes longer than its bytes do on the line, in round trips and beside them: dialling, slow start, the
/// end. Measured: docs/measurements.md, the start of a copy over a distance.
const START_RTTS: f64 = 16.0;
const START: Duration = Duration::from_millis(100);

/// The start of a copy is to be one part in so many of it.
const STARTS: f64 = 10.0;

/// How long one stream is measured once it fills the path.
const TIME: Duration = Duration::from_secs(3);

/// Buffers of the hosts.
#[derive(Clone, Copy)]
struct Buffers {
    name: &'static str,
    sysctls: &'static [(&'static str, &'static str)],
}

const BUFFERS: [Buffers; 2] =
    [Buffers { name: "default buffers", sysctls: STOCK }, Buffers { name: "tuned buffers", sysctls: TUNED }];

#[derive(Clone, Copy)]
enum Program {
    /// One stream of TCP, as iperf3 has it.
    Stream,
    /// A copy, as thalweg plans it.
    Thalweg,
}

struct Case {
    rtt: Duration,
    buffers: usize,
    program: Program,
}

fn rate(wishes: &Wishes) -> u64 {
    wishes.rate_bits_per_s.unwrap_or(RATE_BITS_PER_S)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Ok(Prepared {
        path: PathKind::Testbed {
            rtt_s: None,
            rate_bits_per_s: Some(rate(wishes)),
            loss: Some(0.0),
            mtu_bytes: network::MTU_BYTES,
        },
        encryption: format!("none (one stream of TCP); {} (thalweg)", encrypted()),
        verification: format!("none (one stream of TCP); {VERIFIED} (thalweg)"),
        changes: vec![
            scaled(
                "rate of the line",
                "100 Gbit/s (000 Fig 2)",
                format!("{} Gbit/s", rate(wishes) as f64 / 1e9),
            ),
            scaled("time of a measurement", "not told in 000 (iperf3)", {
                let copied = rtts(wishes).into_iter().map(|rtt| copy_bytes(wishes, rtt));
                let (least, most) = (copied.clone().min().unwrap_or(0), copied.max().unwrap_or(0));
                format!(
                    "one TCP stream: {} s after the start; thalweg: a copy of {} to {} as a whole, verified and durable",
                    wishes.time.unwrap_or(TIME).as_secs_f64(),
                    size(least),
                    size(most)
                )
            }),
        ],
    })
}

fn rtts(wishes: &Wishes) -> Vec<Duration> {
    match wishes.rtts[..] {
        [] => RTTS_MS.map(Duration::from_millis).to_vec(),
        _ => wishes.rtts.clone(),
    }
}

fn path(wishes: &Wishes, rtt: Duration) -> PathWish {
    PathWish { rtt, rate_bits_per_s: rate(wishes), loss: 0.0, mtu_bytes: network::MTU_BYTES }
}

/// How much is copied over such a distance: as much as keeps the start to its part, at most the budget; whole MiB.
fn copy_bytes(wishes: &Wishes, rtt: Duration) -> u64 {
    let start_s = START_RTTS * rtt.as_secs_f64() + START.as_secs_f64();
    let line_bytes_per_s = path(wishes, rtt).payload_bits_per_s() / 8.0;
    let wanted = ((STARTS - 1.0) * start_s * line_bytes_per_s) as u64;
    wanted.next_multiple_of(MIB).min(SUITE.budget_bytes(wishes))
}

/// The largest of a kernel setting of three numbers.
fn largest(setting: &str) -> Option<u64> {
    setting.split_whitespace().last()?.parse().ok()
}

/// What one stream carries by the window law; the line, where the window is wider.
fn law(buffers: &Buffers, path: &PathWish) -> Result<f64> {
    let of = |key: &str| {
        let found =
            buffers.sysctls.iter().find(|(name, _)| *name == key).and_then(|(_, value)| largest(value));
        found.ok_or_else(|| Failure::new(FailureKind::Internal, "find a buffer", format!("{key} is not set")))
    };
    let (window_bytes, _) = window_of_buffers(of("net.ipv4.tcp_rmem")?, of("net.ipv4.tcp_wmem")?);
    let carried = window::rate_bits_per_s(window_bytes as f64, path.rtt.as_secs_f64());
    let carried =
        carried.map_err(|error| Failure::new(FailureKind::Usage, "ask the window law", error.to_string()))?;
    Ok(carried.min(path.payload_bits_per_s()))
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let rtts = rtts(bench.wishes);
    let first = path(bench.wishes, rtts[0]);
    let most_bytes = rtts.iter().map(|&rtt| copy_bytes(bench.wishes, rtt)).max().unwrap_or(0);
    bench.workspace.needs(most_bytes)?;
    let mut beds = Vec::new();
    for (number, buffers) in BUFFERS.iter().enumerate() {
        let testbed = Testbed::up(&bench.workspace, &format!("latency-{number}"), &first, buffers.sysctls)?;
        let daemon = bench.workspace.daemon(Some(&testbed.right))?;
        beds.push((testbed, daemon));
    }
    let programs = [Program::Stream, Program::Thalweg];
    let mut cases = Vec::new();
    for &rtt in &rtts {
        for buffers in 0..BUFFERS.len() {
            cases.extend(programs.map(|program| Case { rtt, buffers, program }));
        }
    }
    let time = bench.wishes.time.unwrap_or(TIME);
    bench.take_turns(cases, |bench, run, case| {
        let (testbed, daemon) = &beds[case.buffers];
        let buffers = &BUFFERS[case.buffers];
        let path = path(bench.wishes, case.rtt);
        testbed.set(&path)?;
        let sample = match case.program {
            // A round that does not count would only cost time: each run warms up by itself.
            Program::Stream if run == 0 => return Ok(None),
            Program::Stream => super::over(testbed, || {
                let rate = check::rate_of_one_stream(&testbed.registry, testbed.name(), time)?;
                let wall_s = time.as_secs_f64();
                let series = format!("one TCP stream, {}", buffers.name);
                let bytes = (rate * wall_s / 8.0) as u64;
                let sample = Sample { series, bytes, files: 0, wall_s, ..Sample::default() };
                Ok(sample.measured(RATE, rate, "bit/s").predicted(RATE, law(buffers, &path)?, "bit/s"))
            })?,
            Program::Thalweg => {
                bench.workspace.settle()?;
                let bytes = copy_bytes(bench.wishes, case.rtt);
                let source = format!("data:size={bytes},seed={}", bench.wishes.seed());
                let words = ["cp".to_owned(), source, daemon.url("copy"), "--no-tune".to_owned()];
                let sample = super::over(testbed, || {
                    let copied = bench.workspace.copy(Some(&testbed.left), Some(daemon), &words)?;
                    let streams = copied.finished["plan"]["streams"]["value"].as_f64().unwrap_or(0.0);
                    let sample = of_copy(&format!("thalweg, {}", buffers.name), &copied, bytes, 1);
                    Ok(sample.measured("streams", streams, "1"))
                })?;
                bench.workspace.remove(&daemon.path("copy"))?;
                sample
            }
        };
        Ok(Some(sample.with("rtt", seconds(case.rtt.as_secs_f64()))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 17 starts of 0.1 s are those of 100 ms: nine times that at 1883 Mbit/s of payload are 3.6 GB.
    #[test]
    fn the_start_of_a_copy_is_a_tenth_of_it_where_the_budget_goes_so_far() {
        let usual = Wishes::default();
        for rtt in rtts(&usual) {
            let start_s = START_RTTS * rtt.as_secs_f64() + START.as_secs_f64();
            let moving_s = copy_bytes(&usual, rtt) as f64 * 8.0 / path(&usual, rtt).payload_bits_per_s();
            let share = start_s / (start_s + moving_s);
            assert!((0.098..=0.1).contains(&share), "{rtt:?}: {share}");
        }
        let far = copy_bytes(&usual, Duration::from_millis(100));
        assert!((3_600_000_000..3_620_000_000).contains(&far) && far.is_multiple_of(MIB), "{far}");
        let little = Wishes { budget_bytes: Some(1000), ..Wishes::default() };
        assert_eq!(copy_bytes(&little, Duration::from_millis(10)), 1000);
    }

    #[test]
    fn the_law_of_default_buffers_is_half_of_six_mebibytes_in_a_round_trip() {
        let path = PathWish {
            rtt: Duration::from_millis(100),
            rate_bits_per_s: 10 * GBIT,
            loss: 0.0,
            mtu_bytes: network::MTU_BYTES,
        };
        assert_eq!(law(&BUFFERS[0], &path).unwrap(), 3.0 * 1_048_576.0 * 8.0 / 0.1);
        let near = PathWish {
            rtt: Duration::from_millis(1),
            rate_bits_per_s: GBIT,
            loss: 0.0,
            mtu_bytes: network::MTU_BYTES,
        };
        assert_eq!(law(&BUFFERS[0], &near).unwrap(), near.payload_bits_per_s());
    }
}
