//! `streams`: what more and more streams of TCP with one window carry over a distance, with the window law's line (004
//! section IV-A, Fig 2).

use super::{GBIT, OVER_A_PATH, Planned, Suite, Takes, Values, count, scaled, seconds, size};
use crate::bench::network::{self, PathWish, Testbed};
use crate::bench::record::{PathKind, RATE, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::check;
use crate::testbed::presets::PRESETS;
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::model::window;

pub const SUITE: Suite = Suite {
    name: "streams",
    asks: "how many streams of one window fill a line, over which distance? (004 Fig 2)",
    runs: 3,
    budget_bytes: 1,
    takes: Takes {
        rtt: Values::Many,
        loss: Values::No,
        time: Values::One,
        budget: Values::No,
        seed: Values::No,
        program: Values::No,
        ..OVER_A_PATH
    },
    prepare,
    needs: super::a_testbed,
    plan,
    run,
};

const STREAMS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Of the paper, over its line of 9.6 Gbit/s; here the same share of the line.
const WINDOW_BYTES: u64 = 16 << 20;
const LINE_BITS_PER_S: u64 = 9_600_000_000;

/// How long streams are measured once they fill the path.
const TIME: Duration = Duration::from_secs(2);

struct Case {
    rtt: Duration,
    streams: u32,
}

impl Case {
    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        Sample { series: "TCP".to_owned(), ..sample }
            .with("rtt", seconds(self.rtt.as_secs_f64()))
            .with("streams", count(self.streams))
    }
}

fn cases(wishes: &Wishes) -> Vec<Case> {
    rtts(wishes).into_iter().flat_map(|rtt| STREAMS.map(|streams| Case { rtt, streams })).collect()
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    cases(wishes).iter().map(|case| Planned::of(case.told_in(Sample::default()), Vec::new())).collect()
}

fn rate(wishes: &Wishes) -> u64 {
    wishes.rate_bits_per_s.unwrap_or(GBIT)
}

/// The paper's window, as much smaller as the line is.
fn window_bytes(line_bits_per_s: u64) -> u64 {
    let scaled = u128::from(WINDOW_BYTES) * u128::from(line_bits_per_s) / u128::from(LINE_BITS_PER_S);
    u64::try_from(scaled).unwrap_or(u64::MAX).max(64 << 10)
}

/// The four loops of 004 Table I, unless others are asked for.
fn rtts(wishes: &Wishes) -> Vec<Duration> {
    if !wishes.rtts.is_empty() {
        return wishes.rtts.clone();
    }
    let loops = PRESETS.iter().filter(|preset| preset.name.starts_with("usn-"));
    loops.map(|preset| Duration::from_nanos(preset.rtt_ns)).collect()
}

/// The sender's buffer is never the narrower one.
fn sysctls(window_bytes: u64) -> [(&'static str, String); 3] {
    [
        ("net.ipv4.tcp_wmem", format!("4096 16384 {}", 4 * window_bytes)),
        ("net.ipv4.tcp_congestion_control", "cubic".to_owned()),
        ("net.ipv4.tcp_mtu_probing", "0".to_owned()),
    ]
}

/// So many windows in a round trip, or the line.
fn law(case: &Case, path: &PathWish) -> Result<f64> {
    let window = window_bytes(path.rate_bits_per_s) as f64;
    let one = window::rate_bits_per_s(window, case.rtt.as_secs_f64());
    let one =
        one.map_err(|error| Failure::new(FailureKind::Usage, "ask the window law", error.to_string()))?;
    Ok((one * f64::from(case.streams)).min(path.payload_bits_per_s()))
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let rate = rate(wishes);
    Ok(Prepared {
        path: PathKind::Testbed {
            rtt_s: None,
            rate_bits_per_s: Some(rate),
            loss: Some(0.0),
            mtu_bytes: network::MTU_BYTES,
        },
        encryption: "none: plain TCP, as iperf has it".to_owned(),
        verification: "none: plain TCP".to_owned(),
        changes: vec![
            scaled(
                "rate of the line",
                "9.6 Gbit/s (004 section IV)",
                format!("{} Gbit/s", rate as f64 / 1e9),
            ),
            scaled("window of a stream", "16 MiB (004 section IV-A)", size(window_bytes(rate))),
            scaled("time of a measurement", "60 s (004 section IV-A)", {
                format!("{} s after the start", wishes.time.unwrap_or(TIME).as_secs_f64())
            }),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let rate_bits_per_s = rate(bench.wishes);
    let rtts = rtts(bench.wishes);
    let first = PathWish { rtt: rtts[0], rate_bits_per_s, loss: 0.0, mtu_bytes: network::MTU_BYTES };
    let settings = sysctls(window_bytes(rate_bits_per_s));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let testbed = Testbed::up(&bench.workspace, "streams", &first, &settings)?;
    let time = bench.wishes.time.unwrap_or(TIME);
    let cases = cases(bench.wishes);
    bench.take_turns(cases, |_, run, case| {
        // Each measurement warms up by itself.
        if run == 0 {
            return Ok(None);
        }
        let path = PathWish { rtt: case.rtt, ..first };
        testbed.set(&path)?;
        let sample = super::over(&testbed, || {
            let window_bytes = u32::try_from(window_bytes(rate_bits_per_s)).ok();
            let streams = check::Streams { count: case.streams, window_bytes };
            let rate = check::rate_of_streams(&testbed.registry, testbed.name(), &streams, time)?;
            let wall_s = time.as_secs_f64();
            let bytes = (rate * wall_s / 8.0) as u64;
            let sample = Sample { bytes, wall_s, ..Sample::default() };
            Ok(sample.measured(RATE, rate, "bit/s").predicted(RATE, law(case, &path)?, "bit/s"))
        })?;
        Ok(Some(case.told_in(sample)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_loop_of_the_paper_takes_twelve_streams_and_the_local_one_a_single_one() {
        let path = |rtt| PathWish { rtt, rate_bits_per_s: LINE_BITS_PER_S, loss: 0.0, mtu_bytes: 9000 };
        assert_eq!(window_bytes(LINE_BITS_PER_S), WINDOW_BYTES);
        let fills = |micros: u64, streams: u32| {
            let rtt = Duration::from_micros(micros);
            law(&Case { rtt, streams }, &path(rtt)).unwrap() >= path(rtt).payload_bits_per_s()
        };
        assert!(fills(280, 1) && !fills(26_800, 1) && fills(26_800, 2));
        assert!(!fills(163_000, 11) && fills(163_000, 12));
    }
}
