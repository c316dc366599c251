//! `latency`: what default buffers cost over a distance, beside tuned ones, with the window law's line (000 section
//! III-A, Fig 2).

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, encrypted, of_copy, scaled, seconds, size,
};
use crate::bench::network::{self, PathWish, Testbed};
use crate::bench::record::{PathKind, RATE, RATE_WITH_START, Sample};
use crate::bench::statistics;
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
    budget_bytes: 1024 * MIB,
    takes: Takes { rtt: Values::Many, loss: Values::No, time: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
    run,
};

/// Round trip times, unless others are asked for: 000 has 10 to 100 ms.
const RTTS_MS: [u64; 6] = [10, 20, 40, 60, 80, 100];

const RATE_BITS_PER_S: u64 = 2 * GBIT;

/// A copy is made of so much less as well: what it takes longer for all of it is the rate after the start.
const SHORTER: u64 = 4;

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
                let bytes = SUITE.budget_bytes(wishes);
                format!(
                    "one TCP stream: {} s after the start; thalweg: what {} take longer than {}, verified and durable",
                    wishes.time.unwrap_or(TIME).as_secs_f64(),
                    size(bytes),
                    size(bytes / SHORTER)
                )
            }),
        ],
    })
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
    let rtts = match bench.wishes.rtts[..] {
        [] => RTTS_MS.map(Duration::from_millis).to_vec(),
        _ => bench.wishes.rtts.clone(),
    };
    let rate_bits_per_s = rate(bench.wishes);
    let first = PathWish { rtt: rtts[0], rate_bits_per_s, loss: 0.0, mtu_bytes: network::MTU_BYTES };
    let file_bytes = bench.budget_bytes();
    bench.workspace.needs(2 * file_bytes)?;
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
        let path = PathWish { rtt: case.rtt, ..first };
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
                let seed = bench.wishes.seed();
                let copy = |bytes: u64| {
                    let source = format!("data:size={bytes},seed={seed}");
                    let words = ["cp".to_owned(), source, daemon.url("copy"), "--no-tune".to_owned()];
                    let copied = bench.workspace.copy(Some(&testbed.left), Some(daemon), &words)?;
                    bench.workspace.remove(&daemon.path("copy"))?;
                    Ok::<_, Failure>(copied)
                };
                let short_bytes = file_bytes / SHORTER;
                // Both make the rate: what the path lost of either makes it void.
                super::over(testbed, || {
                    let short = of_copy("", &copy(short_bytes)?, short_bytes, 1);
                    let copied = copy(file_bytes)?;
                    let streams = copied.finished["plan"]["streams"]["value"].as_f64().unwrap_or(0.0);
                    let series = format!("thalweg, {}", buffers.name);
                    let long = of_copy(&series, &copied, file_bytes, 1);
                    Ok(after_start(long, &short, &path).measured("streams", streams, "1"))
                })?
            }
        };
        Ok(Some(sample.with("rtt", seconds(case.rtt.as_secs_f64()))))
    })
}

/// The longer copy with its rate after its start, and beside that the one with it. Where the first is not known (noise,
/// or more than the line carries) it is of another series, whose rates have the start in them.
fn after_start(long: Sample, short: &Sample, path: &PathWish) -> Sample {
    let line_bytes_per_s = path.payload_bits_per_s() / 8.0;
    let (all, less) = ((long.bytes, long.wall_s), (short.bytes, short.wall_s));
    match statistics::rate_after_start(all, less, line_bytes_per_s) {
        Some(bytes_per_s) => {
            let with_start = long.rate_bits_per_s();
            long.measured(RATE, bytes_per_s * 8.0, "bit/s").measured(RATE_WITH_START, with_start, "bit/s")
        }
        None => Sample { series: format!("{}, with the start", long.series), ..long },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_in_both_copies_and_cancels_and_where_it_cannot_be_told_the_series_says_so() {
        let copy = |bytes, wall_s| Sample { series: "x".into(), bytes, wall_s, ..Sample::default() };
        // 900 bit/s of payload.
        let rate_bits_per_s = (900.0 / network::payload_share(network::MTU_BYTES)).ceil() as u64;
        let path = PathWish { rtt: TIME, rate_bits_per_s, loss: 0.0, mtu_bytes: network::MTU_BYTES };
        let known = after_start(copy(400, 5.0), &copy(100, 2.0), &path);
        assert_eq!((known.series.as_str(), known.shown_rate_bits_per_s()), ("x", 800.0));
        assert_eq!(known.measured[RATE_WITH_START].value(), Some(640.0));
        // The second would be 960 bit/s, more than the line carries.
        for (short_s, why) in [(4.6, "noise"), (2.5, "above the line")] {
            let unknown = after_start(copy(400, 5.0), &copy(100, short_s), &path);
            let told = (unknown.series.as_str(), unknown.shown_rate_bits_per_s());
            assert_eq!((told, unknown.measured.is_empty()), (("x, with the start", 640.0), true), "{why}");
        }
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
