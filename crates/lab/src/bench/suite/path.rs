//! `path`: does the emulated path keep what it is asked to? Round trip times of the papers' paths, rates, losses,
//! jitter, packets that come late or twice, measured by ordinary sockets, with what each may be off by and what the
//! wire costs.
//!
//! A figure of another suite is as good as the path under it. What is measured here is the path as it comes up, between
//! hosts with settings that nobody tuned, so that the rate is that of several streams as any program has them. Such
//! hosts cannot fill a wide line; what is wide, and what the wire costs without a limit, is measured between tuned ones
//! as well.

use super::{GBIT, OVER_A_PATH, Planned, Suite, Takes, Values, count, scaled, seconds};
use crate::bench::network::{Carried, MTU_BYTES, PathWish, Testbed};
use crate::bench::record::{PathKind, Quantity, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::check::{LATE, LOST, Line, Part, RATE_TIME, Streams, TWICE};
use crate::testbed::check::{binomial_tolerance, measure_parts, rate_of_streams};
use crate::testbed::presets::PRESETS;
use crate::testbed::spec::{Paths, STOCK, TUNED};
use std::time::{Duration, Instant};
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "path",
    asks: "does the emulated path keep what it is asked to, and what does it cost? (the papers' paths)",
    runs: 3,
    budget_bytes: 1,
    takes: Takes {
        rtt: Values::Many,
        loss: Values::Many,
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

/// The last is that of 003 Table 1, and the one before that of 004 Table I; the papers' 100 Gbit/s no thread carries.
/// The widest that is kept is what `testbed up` warns by ([`crate::testbed::presets::RATE_KEPT_BITS_PER_S`]).
const RATES_BITS_PER_S: [u64; 6] = [100_000_000, GBIT, 2 * GBIT, 4 * GBIT, 9_600_000_000, 25 * GBIT];

/// From here on hosts that nobody tuned have windows of the line's own size, and are what is measured.
const WIDE_BITS_PER_S: u64 = 4 * GBIT;

const LOSSES: [f64; 4] = [1e-5, 1e-3, 1e-2, 1e-1];

/// Losses below this are counted among more packets: of the usual number fewer than ten would be hit.
const RARE_BELOW: f64 = 5e-4;

/// In each direction, whose delay is 5 ms.
const JITTER: Duration = Duration::from_millis(2);

/// Of packets, in each direction.
const LATE_SHARE: f64 = 0.01;
const TWICE_SHARE: f64 = 0.01;

/// How late those are: far more than packets that are counted are apart, so that later ones pass them.
const LATE_BY: Duration = Duration::from_millis(5);

/// Of a path whose rate or loss is measured: short enough for streams to fill it soon.
const RTT: Duration = Duration::from_millis(10);

/// Of a path whose round trip is measured: wide, so that no small packet waits for the line.
const RATE_BITS_PER_S: u64 = GBIT;

/// How far a measurement was off, as a share of what it may be off by.
pub const OFF: &str = "share_of_the_tolerance";

/// Series of what the wire costs where it has no rate to keep.
pub const COST: &str = "cost without a limit";

/// CPU seconds for each 10^9 bytes carried that it should cost at most; 0.1 to this is wanted.
pub const COST_MOST: f64 = 0.25;

/// The parameter that says that hosts were tuned, and its value.
pub const HOSTS: &str = "hosts";
const TUNED_WORD: &str = "tuned";

/// Among what is measured: of so many packets those that were hit were counted, in both directions.
pub const PACKETS: &str = "packets";

/// What is asked of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Rtt,
    Rate,
    Loss,
    Jitter,
    Late,
    Twice,
    /// What the wire costs where it has no rate to keep.
    Cost,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    asked: Asked,
    path: PathWish,
    hosts: Hosts,
}

/// Settings of the hosts at both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hosts {
    Stock,
    Tuned,
}

impl Hosts {
    /// Of what nobody tuned nothing is said.
    fn told(self, sample: Sample) -> Sample {
        match self {
            Hosts::Stock => sample,
            Hosts::Tuned => sample.with(HOSTS, TUNED_WORD.into()),
        }
    }
}

impl Case {
    fn part(&self) -> Part {
        match self.asked {
            Asked::Rtt => Part::RoundTrip,
            Asked::Rate | Asked::Cost => Part::Rate,
            Asked::Jitter => Part::Spread,
            Asked::Loss if self.path.loss > 0.0 && self.path.loss < RARE_BELOW => Part::RarePackets,
            Asked::Loss | Asked::Late | Asked::Twice => Part::Packets,
        }
    }

    fn paths(&self) -> Paths {
        let mut paths = self.path.paths();
        for path in [&mut paths.forward, &mut paths.back] {
            match self.asked {
                Asked::Jitter => path.jitter_ns = JITTER.as_nanos() as u64,
                Asked::Late => {
                    path.reorder = LATE_SHARE;
                    path.late_by_ns = LATE_BY.as_nanos() as u64;
                }
                Asked::Twice => path.duplicate = TWICE_SHARE,
                Asked::Cost => path.rate_bits_per_s = None,
                Asked::Rtt | Asked::Rate | Asked::Loss => {}
            }
        }
        paths
    }

    /// How packets are told that are hit; nothing where none are counted.
    fn hit(&self) -> Option<&'static str> {
        match self.asked {
            Asked::Loss => Some(LOST),
            Asked::Late => Some(LATE),
            Asked::Twice => Some(TWICE),
            Asked::Rtt | Asked::Rate | Asked::Jitter | Asked::Cost => None,
        }
    }

    /// Between hosts that nobody tuned.
    fn stock(asked: Asked, path: PathWish) -> Case {
        Case { asked, path, hosts: Hosts::Stock }
    }

    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        let (series, name, value) = self.name();
        self.hosts.told(Sample { series: series.to_owned(), ..sample }.with(name, value))
    }

    /// Its series, and the parameter that was asked for.
    fn name(&self) -> (&'static str, &'static str, Quantity) {
        match self.asked {
            Asked::Rtt => ("round trip time", "rtt", seconds(self.path.rtt.as_secs_f64())),
            Asked::Rate => ("rate", "rate", Quantity::number(self.path.rate_bits_per_s as f64, "bit/s")),
            Asked::Loss => ("loss", "loss", count(self.path.loss)),
            Asked::Jitter => ("jitter", "jitter", seconds(JITTER.as_secs_f64())),
            Asked::Late => ("late packets", "reorder", count(LATE_SHARE)),
            Asked::Twice => ("packets twice", "duplicate", count(TWICE_SHARE)),
            Asked::Cost => (COST, "limit", "none".into()),
        }
    }
}

/// Nothing named of a kind: the suite's own.
fn cases(rtts: &[Duration], rate: Option<u64>, losses: &[f64]) -> Vec<Case> {
    let path = |rtt, rate_bits_per_s, loss| PathWish { rtt, rate_bits_per_s, loss, mtu_bytes: MTU_BYTES };
    let mut rtts: Vec<Duration> = match rtts {
        [] => PRESETS.iter().map(|preset| Duration::from_nanos(preset.rtt_ns)).collect(),
        _ => rtts.to_vec(),
    };
    rtts.sort();
    rtts.dedup();
    let rates = rate.map_or(RATES_BITS_PER_S.to_vec(), |rate| vec![rate]);
    let losses = if losses.is_empty() { LOSSES.to_vec() } else { losses.to_vec() };
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(rtts.into_iter().map(|rtt| Case::stock(Asked::Rtt, path(rtt, RATE_BITS_PER_S, 0.0))));
    cases.extend(rates.into_iter().map(|rate| Case {
        hosts: if rate >= WIDE_BITS_PER_S { Hosts::Tuned } else { Hosts::Stock },
        ..Case::stock(Asked::Rate, path(RTT, rate, 0.0))
    }));
    cases.extend(losses.into_iter().map(|loss| Case::stock(Asked::Loss, path(RTT, RATE_BITS_PER_S, loss))));
    let alone = path(RTT, RATE_BITS_PER_S, 0.0);
    cases.extend(
        [Asked::Jitter, Asked::Late, Asked::Twice, Asked::Cost].map(|asked| Case::stock(asked, alone)),
    );
    cases.push(Case { hosts: Hosts::Tuned, ..Case::stock(Asked::Cost, alone) });
    cases
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let cases = cases(&wishes.rtts, wishes.rate_bits_per_s, &wishes.losses);
    cases.iter().map(|case| Planned::of(case.told_in(Sample::default()), Vec::new())).collect()
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let changes = match wishes.rate_bits_per_s {
        Some(_) => Vec::new(),
        None => {
            vec![scaled("rates", "9.6 to 100 Gbit/s (000, 001, 003, 004)", "0.1 to 25 Gbit/s".to_owned())]
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
    let wishes = bench.wishes;
    let cases = cases(&wishes.rtts, wishes.rate_bits_per_s, &wishes.losses);
    let first = cases[0].path;
    let stock = Testbed::up(&bench.workspace, "path", &first, STOCK)?;
    let has_tuned = cases.iter().any(|case| case.hosts == Hosts::Tuned);
    let tuned = has_tuned.then(|| Testbed::up(&bench.workspace, "path-tuned", &first, TUNED)).transpose()?;
    bench.take_turns(cases, |_, run, case| {
        // Nothing here warms up: each part does so by itself.
        if run == 0 {
            return Ok(None);
        }
        let testbed = match (case.hosts, &tuned) {
            (Hosts::Tuned, Some(tuned)) => tuned,
            _ => &stock,
        };
        testbed.set_paths(case.paths())?;
        let sample = super::over(testbed, || {
            let (before, began) = (testbed.carried()?, Instant::now());
            if case.asked == Asked::Cost {
                let streams = Streams { count: 4, window_bytes: None };
                let rate = rate_of_streams(&testbed.registry, testbed.name(), &streams, RATE_TIME)?;
                let carried = testbed.carried()?.since(&before);
                return Ok(of_cost(case, rate, &carried, began.elapsed().as_secs_f64()));
            }
            let told = measure_parts(&testbed.registry, testbed.name(), &[case.part()])?;
            let carried = testbed.carried()?.since(&before);
            let sample = Sample { bytes: carried.forward_bytes + carried.back_bytes, ..Sample::default() };
            let sample = Sample { wall_s: began.elapsed().as_secs_f64(), ..sample };
            Ok(of_lines(case, &told.lines, sample))
        })?;
        Ok(Some(sample))
    })
}

/// What the wire cost for each GB, against the most that it should.
fn of_cost(case: &Case, rate: f64, carried: &Carried, wall_s: f64) -> Sample {
    let bytes = carried.forward_bytes + carried.back_bytes;
    let sample = case.told_in(Sample { bytes, wall_s, ..Sample::default() });
    let sample = sample.measured("rate", rate, "bit/s");
    let Some(cost) = carried.cpu_s_per_gb() else { return sample };
    let sample =
        sample.measured("measured", cost, "CPU-s/GB").measured(OFF, (cost / COST_MOST).min(1e3), "1");
    sample.predicted("measured", COST_MOST, "CPU-s/GB")
}

/// What was asked, of both directions together where packets were counted; unless something else is off by more than it
/// may be, such as packets that the wire lost by itself. Of rates the direction that is off the most.
fn of_lines(case: &Case, lines: &[Line], sample: Sample) -> Sample {
    let off = |line: &Line| {
        let distance = (line.measured - line.expected).abs();
        if distance == 0.0 { 0.0 } else { distance / line.tolerance.max(f64::MIN_POSITIVE) }
    };
    let (hit, others): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|line| case.hit().is_some_and(|hit| line.what.ends_with(hit)));
    let both = both_directions(&hit);
    // Of equals the one that may be off by more: that the wire lost nothing says the least.
    let worst =
        others.into_iter().max_by(|a, b| off(a).total_cmp(&off(b)).then(a.tolerance.total_cmp(&b.tolerance)));
    let worst = match (&both, worst) {
        (Some(both), Some(worst)) if off(worst) > 1.0 && off(worst) > off(both) => worst,
        (Some(both), _) => both,
        (None, Some(worst)) => worst,
        (None, None) => return sample,
    };
    // In base units, as all figures are.
    let base = |value: f64| match worst.unit {
        "ms" => Quantity::number(value / 1e3, "s"),
        "Mbit/s" => Quantity::number(value * 1e6, "bit/s"),
        _ => Quantity::number(value, "1"),
    };
    let mut sample = case.told_in(sample);
    sample.measured.insert("measured".to_owned(), base(worst.measured));
    sample.measured.insert("tolerance".to_owned(), base(worst.tolerance));
    sample.predicted.insert("measured".to_owned(), base(worst.expected));
    if let Some(draws) = worst.draws {
        sample = sample.measured(PACKETS, draws as f64, "1");
    }
    // More than a thousand times is said to be that.
    sample.measured(OFF, off(worst).min(1e3), "1")
}

/// Hits of both directions as one count, and what that may be off by.
fn both_directions(hit: &[&Line]) -> Option<Line> {
    let draws: u64 = hit.iter().filter_map(|line| line.draws).sum();
    let sum = |of: fn(&Line) -> f64| hit.iter().map(|line| of(line)).sum::<f64>();
    let expected = sum(|line| line.expected);
    let tolerance = binomial_tolerance(draws, expected / draws.max(1) as f64);
    let measured = sum(|line| line.measured);
    let line = hit.first()?;
    Some(Line { expected, measured, tolerance, draws: Some(draws), ..(*line).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::presets::RATE_KEPT_BITS_PER_S;

    fn line(what: &str, expected: f64, measured: f64, tolerance: f64, draws: Option<u64>) -> Line {
        let what = what.to_owned();
        Line { what, expected, measured, tolerance, draws, unit: "packets", note: String::new() }
    }

    #[test]
    fn packets_of_both_directions_are_one_count_and_one_lost_by_the_wire_is_worse_than_all() {
        let path = PathWish { rtt: RTT, rate_bits_per_s: GBIT, loss: 0.01, mtu_bytes: MTU_BYTES };
        let case = Case::stock(Asked::Loss, path);
        let wire = |lost| line("lost by the wire itself", 0.0, lost, 0.0, None);
        let lost = |direction: &str, lost| line(direction, 100.0, lost, 40.8, Some(10_000));
        let lines = [lost("forward: lost", 90.0), lost("back: lost", 130.0), wire(0.0)];
        let sample = of_lines(&case, &lines, Sample::default());
        assert_eq!((sample.series.as_str(), sample.parameter("loss")), ("loss", Some(0.01)));
        let of = |name: &str| sample.measured[name].value().unwrap();
        assert_eq!((of("measured"), of(PACKETS)), (220.0, 20_000.0));
        assert_eq!(sample.predicted["measured"].value(), Some(200.0));
        // By hand: 4 sqrt(20,000 x 0.01 x 0.99) + 1.
        assert!((of("tolerance") - 57.285).abs() < 1e-3 && (of(OFF) - 20.0 / 57.285).abs() < 1e-6);
        let spoilt = of_lines(&case, &[lines[0].clone(), wire(3.0)], Sample::default());
        assert_eq!(spoilt.measured[OFF].value(), Some(1e3));
        // Packets that are lost where none should be spoil a count of those that came twice.
        let twice = Case::stock(Asked::Twice, PathWish { loss: 0.0, ..path });
        let lines = [
            line("back: lost", 0.0, 9.0, 1.0, Some(10_000)),
            line("back: came twice", 100.0, 100.0, 40.8, Some(10_000)),
        ];
        assert_eq!(of_lines(&twice, &lines, Sample::default()).measured["measured"].value(), Some(9.0));
        assert_eq!(of_lines(&twice, &lines[1..], Sample::default()).measured[OFF].value(), Some(0.0));
    }

    #[test]
    fn what_the_wire_costs_stands_against_what_it_should() {
        let path = PathWish { rtt: RTT, rate_bits_per_s: GBIT, loss: 0.0, mtu_bytes: MTU_BYTES };
        let case = Case::stock(Asked::Cost, path);
        let carried = Carried {
            forward_bytes: 3_000_000_000,
            back_bytes: 1_000_000_000,
            lost: 0,
            overflowed: 0,
            trouble: 0,
            cpu_s: 2.0,
        };
        let sample = of_cost(&case, 8e9, &carried, 3.0);
        assert_eq!((sample.series.as_str(), sample.measured["measured"].value()), (COST, Some(0.5)));
        assert_eq!(sample.predicted["measured"].value(), Some(COST_MOST));
        assert_eq!(sample.measured[OFF].value(), Some(2.0));
    }

    #[test]
    fn each_thing_that_a_path_does_to_packets_is_asked_for_alone_and_what_is_rare_of_more_of_them() {
        let cases = cases(&[], None, &[]);
        let count = |asked| cases.iter().filter(|case| case.asked == asked).count();
        assert_eq!(
            [Asked::Rate, Asked::Loss, Asked::Jitter, Asked::Late, Asked::Twice, Asked::Cost].map(count),
            [6, 4, 1, 1, 1, 2]
        );
        // Of each preset that comes up without a warning the rate is measured.
        let rates = cases.iter().filter(|case| case.asked == Asked::Rate);
        let rates: Vec<u64> = rates.map(|case| case.path.rate_bits_per_s).collect();
        let kept = PRESETS.iter().map(|preset| preset.rate_bits_per_s);
        let mut kept = kept.filter(|rate| *rate <= RATE_KEPT_BITS_PER_S);
        assert!(kept.all(|rate| rates.contains(&rate)), "{rates:?}");
        for case in &cases {
            let forward = case.paths().forward;
            assert_eq!(forward.rate_bits_per_s.is_none(), case.asked == Asked::Cost, "{case:?}");
            let asked = [
                (forward.loss > 0.0, Asked::Loss),
                (forward.jitter_ns > 0, Asked::Jitter),
                (forward.reorder > 0.0, Asked::Late),
                (forward.duplicate > 0.0, Asked::Twice),
            ];
            assert!(asked.iter().all(|(is, asked)| *is == (*asked == case.asked)), "{case:?}");
            assert_eq!(case.part() == Part::RarePackets, case.path.loss == 1e-5, "{case:?}");
            assert_eq!(case.paths().back, forward, "both directions are alike: {case:?}");
        }
    }
}
