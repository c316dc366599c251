//! `path`: does the emulated path keep what it is asked to? Round trip times of the papers' paths, rates, losses, measured
//! by ordinary sockets, with what each may be off by and what the wire costs.
//!
//! A figure of another suite is as good as the path under it. What is measured here is the path as it comes up, between
//! hosts with settings that nobody tuned, so that the rate is that of several streams as any program has them.

use super::{GBIT, Suite, count, scaled, seconds};
use crate::bench::network::{MTU_BYTES, PathWish, Testbed};
use crate::bench::record::{PathKind, Quantity, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::check::{Line, Part, measure_parts};
use crate::testbed::presets::PRESETS;
use crate::testbed::spec::STOCK;
use std::time::{Duration, Instant};
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "path",
    asks: "does the emulated path keep what it is asked to, and what does it cost? (the papers' paths)",
    runs: 3,
    budget_bytes: 1,
    prepare,
    run,
};

/// Rates that two cores can carry; the papers' 25 and 100 Gbit/s they cannot.
const RATES_BITS_PER_S: [u64; 3] = [100_000_000, GBIT, 2 * GBIT];

const LOSSES: [f64; 3] = [1e-3, 1e-2, 1e-1];

/// Of a path whose rate or loss is measured: short enough for streams to fill it soon.
const RTT: Duration = Duration::from_millis(10);

/// Of a path whose round trip is measured: wide, so that no small packet waits for the line.
const RATE_BITS_PER_S: u64 = GBIT;

/// How far a measurement was off, as a share of what it may be off by.
pub const OFF: &str = "share_of_the_tolerance";

#[derive(Debug, Clone, Copy)]
struct Case {
    part: Part,
    path: PathWish,
}

fn cases(wishes: &Wishes) -> Vec<Case> {
    let path = |rtt, rate_bits_per_s, loss| PathWish { rtt, rate_bits_per_s, loss, mtu_bytes: MTU_BYTES };
    let mut rtts = match wishes.rtts[..] {
        [] => PRESETS.iter().map(|preset| Duration::from_nanos(preset.rtt_ns)).collect(),
        _ => wishes.rtts.clone(),
    };
    rtts.sort();
    rtts.dedup();
    let rates = wishes.rate_bits_per_s.map_or(RATES_BITS_PER_S.to_vec(), |rate| vec![rate]);
    let losses = if wishes.losses.is_empty() { LOSSES.to_vec() } else { wishes.losses.clone() };
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(
        rtts.into_iter().map(|rtt| Case { part: Part::RoundTrip, path: path(rtt, RATE_BITS_PER_S, 0.0) }),
    );
    cases.extend(rates.into_iter().map(|rate| Case { part: Part::Rate, path: path(RTT, rate, 0.0) }));
    cases.extend(
        losses.into_iter().map(|loss| Case { part: Part::Packets, path: path(RTT, RATE_BITS_PER_S, loss) }),
    );
    cases
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Testbed::check()?;
    let changes = match wishes.rate_bits_per_s {
        Some(_) => Vec::new(),
        None => {
            vec![scaled("rates", "9.6 to 100 Gbit/s (000, 001, 003, 004)", "0.1, 1 and 2 Gbit/s".to_owned())]
        }
    };
    Ok(Prepared {
        path: PathKind::Testbed { rtt_s: None, rate_bits_per_s: None, loss: None, mtu_bytes: MTU_BYTES },
        encryption: "none: small packets and plain TCP".to_owned(),
        verification: "packets have numbers and are counted".to_owned(),
        changes,
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let cases = cases(bench.wishes);
    let first = cases[0].path;
    let testbed = Testbed::up(&bench.yard, "path", &first, STOCK)?;
    bench.take_turns(cases, |_, run, case| {
        // Nothing here warms up: each part does so by itself.
        if run == 0 {
            return Ok(None);
        }
        testbed.set(&case.path)?;
        let sample = super::over(&testbed, || {
            let (before, began) = (testbed.carried()?, Instant::now());
            let told = measure_parts(&testbed.place, testbed.name(), &[case.part])?;
            let carried = testbed.carried()?.since(&before);
            let sample = Sample { bytes: carried.forward_bytes + carried.back_bytes, ..Sample::default() };
            let sample = Sample { wall_s: began.elapsed().as_secs_f64(), ..sample };
            Ok(of_lines(case, &told.lines, sample))
        })?;
        Ok(Some(sample))
    })
}

/// The measurement that is off the most, among those of the case; the wire's own losses would be such a one.
fn of_lines(case: &Case, lines: &[Line], sample: Sample) -> Sample {
    let off = |line: &Line| {
        let distance = (line.measured - line.expected).abs();
        if distance == 0.0 { 0.0 } else { distance / line.tolerance.max(f64::MIN_POSITIVE) }
    };
    // Of equals the one that may be off by more: that the wire lost nothing says the least.
    let worst =
        lines.iter().max_by(|a, b| off(a).total_cmp(&off(b)).then(a.tolerance.total_cmp(&b.tolerance)));
    let Some(worst) = worst else { return sample };
    // In base units, as all figures are.
    let base = |value: f64| match worst.unit {
        "ms" => Quantity::number(value / 1e3, "s"),
        "Mbit/s" => Quantity::number(value * 1e6, "bit/s"),
        _ => Quantity::number(value, "1"),
    };
    let (series, name, value) = match case.part {
        Part::RoundTrip => ("round trip time", "rtt", seconds(case.path.rtt.as_secs_f64())),
        Part::Rate => ("rate", "rate", Quantity::number(case.path.rate_bits_per_s as f64, "bit/s")),
        Part::Packets => ("loss", "loss", count(case.path.loss)),
    };
    let mut sample = Sample { series: series.to_owned(), ..sample }.with(name, value);
    sample.measured.insert("measured".to_owned(), base(worst.measured));
    sample.measured.insert("tolerance".to_owned(), base(worst.tolerance));
    sample.predicted.insert("measured".to_owned(), base(worst.expected));
    // More than a thousand times is said to be that.
    sample.measured(OFF, off(worst).min(1e3), "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_case_is_what_counts_and_a_packet_lost_by_the_wire_is_worst_of_all() {
        let path = PathWish { rtt: RTT, rate_bits_per_s: GBIT, loss: 0.01, mtu_bytes: MTU_BYTES };
        let case = Case { part: Part::Packets, path };
        let line = |expected, measured, tolerance| Line {
            what: String::new(),
            expected,
            measured,
            tolerance,
            unit: "packets",
            note: String::new(),
        };
        let lines = [line(100.0, 90.0, 40.0), line(100.0, 130.0, 40.0), line(0.0, 0.0, 0.0)];
        let sample = of_lines(&case, &lines, Sample::default());
        assert_eq!((sample.series.as_str(), sample.parameter("loss")), ("loss", Some(0.01)));
        assert_eq!(sample.measured[OFF].value(), Some(0.75));
        assert_eq!(sample.measured["measured"].value(), Some(130.0));
        let exact = of_lines(&case, &[line(100.0, 100.0, 40.0), lines[2].clone()], Sample::default());
        assert_eq!(exact.predicted["measured"].value(), Some(100.0));
        let spoilt = of_lines(&case, &[lines[0].clone(), line(0.0, 3.0, 0.0)], Sample::default());
        assert_eq!(spoilt.measured[OFF].value(), Some(1e3));
    }
}
