//! What a loss of 10⁻⁴ leaves of a copy, by congestion control and distance, beside the law of each control.
//!
//! - One stream, against its law: Mathis et al. for reno, RFC 9438 for cubic (`thalweg_mover::model::loss`). No law of
//!   windows binds bbr: of it, what the line carries of packets that arrive.
//! - What thalweg chooses by itself, against the law of as many streams as it has at least on a far path.
//! - What `thalweg why` names as the reason: the loss, where that held the copy back.
//!
//! Each copy has a state directory of its own, so that none begins with what another one learned. A copy begins faster
//! than its law: a stream is held back only after several of its packets were lost, and one is lost in 14 MB. Of bbr,
//! which is not held back, the rate is that after the start.

use super::{Case, End, FILES, LINE, What, rate_after_start, unknown_of};
use crate::bench::record::{self, Results, Sample};
use crate::bench::tell::{self, Goal};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use thalweg_lab::bench::record::Quantity;
use thalweg_lab::bench::statistics::Series;
use thalweg_lab::bench::{MTU_BYTES, payload_share, segment_bytes};
use thalweg_mover::basin::Cause;
use thalweg_mover::model::loss::{CongestionControl, rate_bits_per_s};

/// How the names of all its scenarios begin.
pub const SCENARIOS: &str = "loss";

/// Share of packets that are lost, as the testbed is told and as a number.
const LOSS: (&str, f64) = ("0.0001", 1e-4);

/// Round trip times: of decision 7; of 000's private line; of what is far for most.
const RTTS: [(&str, f64); 3] = [("20ms", 0.02), ("74ms", 0.074), ("100ms", 0.1)];

const ONE: &str = "thalweg, 1 stream";
const AUTOMATIC: &str = "thalweg, automatic";
const IPERF_ONE: &str = "iperf3, 1 stream";
const IPERF_MANY: (&str, &str) = ("iperf3, 8 streams", "8");

/// Streams that thalweg has at least on a far path (docs/decisions/0007-tuning.md).
const STREAMS_MIN: f64 = 8.0;

/// Of a law, and of iperf3.
const GOAL: Goal = Goal::AtLeast(0.9);

/// Of the copies that a loss held back, the share of which `why` names it: as of all bottlenecks made on purpose.
const LOSS_IS_NAMED: Goal = Goal::AtLeast(0.95);

/// A law, or a copy, is clearly below the line under this share of what that carries.
const CLEARLY_BELOW: f64 = 0.5;

/// The scenario of cubic at 20 ms in results of before there were others.
const OLDER: &str = "loss 0.0001";

/// What is measured besides: what `why` names, and how many streams were planned.
const NAMED: &str = "narrowest";
const STREAMS: &str = "streams";

fn scenario(control: CongestionControl, rtt: &str) -> String {
    format!("{SCENARIOS}, {}, {rtt}", control.name())
}

/// Whether one stream is measured: with bbr only near, because farther away a window of the kernel's usual size holds
/// it, and not the loss.
fn has_one_stream(control: CongestionControl, rtt: &str) -> bool {
    control != CongestionControl::Bbr || rtt == RTTS[0].0
}

/// All that is run.
pub(super) fn cases() -> Vec<Case> {
    let [long, large, small] = FILES.map(|(name, _)| name);
    let mut cases = Vec::new();
    for control in CongestionControl::ALL {
        // What is bound by loss takes long for each byte. Of what is not, the start is taken away: that is known where
        // a copy fills the line for ten seconds.
        let is_bound = control != CongestionControl::Bbr;
        let (alone, together, short) =
            if is_bound { (small, large, None) } else { (long, long, Some(large)) };
        for (rtt, _) in RTTS {
            let congestion = control.name();
            let mut add = |tool, what| {
                let path = vec!["--rtt", rtt, "--rate", LINE.0, "--loss", LOSS.0];
                cases.push(Case { scenario: scenario(control, rtt), tool, path, what });
            };
            if has_one_stream(control, rtt) {
                let options = vec!["--cca", congestion, "--streams", "1"];
                add(ONE, What::Lossy { options, file: alone, short });
            }
            if rtt == RTTS[0].0 {
                let file = is_bound.then_some(alone);
                add(IPERF_ONE, What::Iperf { congestion, streams: "1", file });
            }
            add(AUTOMATIC, What::Lossy { options: vec!["--cca", congestion], file: together, short });
            if (control, rtt) == (CongestionControl::Cubic, RTTS[0].0) {
                let (tool, streams) = IPERF_MANY;
                add(tool, What::Iperf { congestion, streams, file: Some(together) });
            }
        }
    }
    cases
}

/// The sample with what `thalweg why --json` said of its copy.
///
/// # Errors
/// If that is no JSON.
pub fn with_reason(mut sample: Sample, said: &str) -> Result<Sample> {
    let why: Value = serde_json::from_str(said).context("what `why` says")?;
    let cause = why["narrowest"]["cause"].as_str().unwrap_or("nothing");
    sample.measured.insert(NAMED.to_owned(), cause.into());
    Ok(match why["evidence"]["streams"].as_f64() {
        Some(streams) => sample.measured(STREAMS, streams, "1"),
        None => sample,
    })
}

/// What its law leaves so many streams, in Gbit/s of payload: no more than the line carries of packets that arrive,
/// which is all that is known of bbr.
fn law_gbit_per_s(control: CongestionControl, rtt_s: f64, streams: f64) -> f64 {
    let line = line_gbit_per_s();
    let one = rate_bits_per_s(control, LOSS.1, rtt_s, segment_bytes(MTU_BYTES));
    one.ok().flatten().map_or(line, |one| (one * streams / 1e9).min(line))
}

/// What the line carries of packets that arrive, in Gbit/s of payload.
fn line_gbit_per_s() -> f64 {
    LINE.1 * payload_share(MTU_BYTES) * (1.0 - LOSS.1) / 1e9
}

/// In Gbit/s, by round: after the start where that was measured, else as a whole.
fn rates(results: &Results, scenario: &str, tool: &str) -> Series {
    let rate = |sample: &Sample| match sample.measured.contains_key(super::SHORT_BYTES) {
        true => rate_after_start(sample, End::Far, LINE),
        false => Some(record::gbit_per_s(sample)),
    };
    let of = |sample: &Sample| Some((sample.run as usize, rate(sample)?));
    results.of(scenario, tool).filter_map(of).collect()
}

/// What `why` named.
fn cause(sample: &Sample) -> Option<&str> {
    sample.measured.get(NAMED).and_then(Quantity::word)
}

/// What `why` named, most often first: `loss 3 of 3`.
fn named(results: &Results, scenario: &str, tool: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let causes = || results.of(scenario, tool).filter_map(cause);
    causes().for_each(|cause| *counts.entry(cause).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all = causes().count();
    let told: Vec<String> = counts.iter().map(|(cause, count)| format!("{cause} {count} of {all}")).collect();
    if told.is_empty() { "–".to_owned() } else { told.join(", ") }
}

/// Of how many copies that the loss held back `why` names it, with the verdict, in a sentence. Those are copies whose
/// streams the law leaves clearly less than the line carries, and which carried clearly less: one that carried more had
/// not lost enough yet to come down to its law.
fn told_loss(results: &Results, scenario_of: impl Fn(CongestionControl, &str) -> String) -> String {
    let is_below = |gbit_per_s: f64| gbit_per_s < line_gbit_per_s() * CLEARLY_BELOW;
    let (mut all, mut told) = (0_u32, 0_u32);
    for control in CongestionControl::ALL {
        for (rtt, rtt_s) in RTTS {
            let scenario = scenario_of(control, rtt);
            for sample in [ONE, AUTOMATIC].into_iter().flat_map(|tool| results.of(&scenario, tool)) {
                let law = law_gbit_per_s(control, rtt_s, record::measured(sample, STREAMS));
                let Some(cause) = cause(sample) else { continue };
                if is_below(law) && is_below(record::gbit_per_s(sample)) {
                    all += 1;
                    told += u32::from(cause == Cause::Loss.name());
                }
            }
        }
    }
    format!(
        "\n`why` names the loss for {told} of {all} copies that carried less than {CLEARLY_BELOW} of what the line carries, \
         and whose streams the law leaves less than that; {}.\n",
        LOSS_IS_NAMED.verdict(f64::from(told) / f64::from(all)),
    )
}

/// Rates against what a law says: `0.900 [0.800–1.000] | at least 0.9: met`.
fn against_law(rates: &Series, law: f64) -> String {
    let laws: Series = rates.keys().map(|run| (*run, law)).collect();
    format!("{} | {}", tell::ratio(rates, &laws), GOAL.verdict_of_rounds(rates, &laws))
}

/// Its part of the section.
///
/// # Errors
/// None but those of formatting.
pub fn tell(results: &Results) -> Result<String> {
    let known = results.scenarios();
    let of = |control: CongestionControl, rtt: &str| match known.contains(&OLDER)
        && (control, rtt) == (CongestionControl::Cubic, "20ms")
    {
        true => OLDER.to_owned(),
        false => scenario(control, rtt),
    };
    let mut out = String::from(
        "With a loss of 10⁻⁴, one stream. The law is that of its congestion control; of bbr it is what the line carries. A copy \
         begins above its law, until some of its packets, one in 14 MB, were lost.\n\n\
         | congestion control | round trip | the law, Gbit/s | thalweg, Gbit/s | against the law | goal | against iperf3 | goal | \
         `why` names | the path's own CPU-s/GB, thalweg | iperf3 |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for control in CongestionControl::ALL {
        for (rtt, rtt_s) in RTTS.into_iter().filter(|(rtt, _)| has_one_stream(control, rtt)) {
            let scenario = of(control, rtt);
            let (ours, law) = (rates(results, &scenario, ONE), law_gbit_per_s(control, rtt_s, 1.0));
            let (beside, its_cost) = match rtt == RTTS[0].0 {
                true => {
                    let other = rates(results, &scenario, IPERF_ONE);
                    let verdict = GOAL.verdict_of_rounds(&ours, &other);
                    let beside = format!("{} | {verdict}", tell::ratio(&ours, &other));
                    (beside, tell::wire_cost(results, &scenario, IPERF_ONE))
                }
                false => ("– | ".to_owned(), tell::NO_WIRE.to_owned()),
            };
            writeln!(
                out,
                "| {} | {rtt} | {} | {} | {} | {beside} | {} | {} | {its_cost} |",
                control.name(),
                tell::number(law),
                tell::with_interval(&ours),
                against_law(&ours, law),
                named(results, &scenario, ONE),
                tell::wire_cost(results, &scenario, ONE),
            )?;
        }
    }
    write!(
        out,
        "\nThe same with as many streams as thalweg chooses by itself, against the law of {STREAMS_MIN}, or what the line \
         carries:\n\n| congestion control | round trip | the law, Gbit/s | thalweg, Gbit/s | planned streams | against the law | \
         goal | against one stream | `why` names | the path's own CPU-s/GB |\n|---|---|---|---|---|---|---|---|---|---|\n",
    )?;
    for control in CongestionControl::ALL {
        for (rtt, rtt_s) in RTTS {
            let scenario = of(control, rtt);
            let ours = rates(results, &scenario, AUTOMATIC);
            let law = law_gbit_per_s(control, rtt_s, STREAMS_MIN);
            let streams = results.series(&scenario, AUTOMATIC, |sample| record::measured(sample, STREAMS));
            let streams = tell::median_of(&streams);
            let one = rates(results, &scenario, ONE);
            writeln!(
                out,
                "| {} | {rtt} | {} | {} | {} | {} | {} | {} | {} |",
                control.name(),
                tell::number(law),
                tell::with_interval(&ours),
                if streams.is_nan() { "–".to_owned() } else { format!("{streams:.0}") },
                against_law(&ours, law),
                if one.is_empty() { "–".to_owned() } else { tell::ratio(&ours, &one) },
                named(results, &scenario, AUTOMATIC),
                tell::wire_cost(results, &scenario, AUTOMATIC),
            )?;
        }
    }
    let scenario = of(CongestionControl::Cubic, RTTS[0].0);
    let (ours, other) = (rates(results, &scenario, AUTOMATIC), rates(results, &scenario, IPERF_MANY.0));
    writeln!(
        out,
        "\nWith cubic at {}, against {}: {}, {}. The path's own CPU-s/GB: {} with thalweg, {} with iperf3.",
        RTTS[0].0,
        IPERF_MANY.0,
        tell::ratio(&ours, &other),
        GOAL.verdict_of_rounds(&ours, &other),
        tell::wire_cost(results, &scenario, AUTOMATIC),
        tell::wire_cost(results, &scenario, IPERF_MANY.0),
    )?;
    let (mut all, mut known) = (0, 0);
    for control in CongestionControl::ALL {
        for (rtt, _) in RTTS {
            for tool in [ONE, AUTOMATIC] {
                let scenario = of(control, rtt);
                all += results.of(&scenario, tool).count();
                known += rates(results, &scenario, tool).len();
            }
        }
    }
    Ok(out + &told_loss(results, of) + &unknown_of(all, known))
}

#[cfg(test)]
mod tests {
    use super::CongestionControl::{Bbr, Cubic, Reno};
    use super::*;
    use crate::bench::record::Load;
    use crate::bench::workspace::Times;
    use serde_json::json;

    fn sample(scenario: &str, tool: &str, run: usize, gbit_per_s: f64) -> Sample {
        let load = Load { scenario, tool, run, bytes: 125_000_000, files: 1 };
        load.took(&Times { wall_s: 1.0 / gbit_per_s, ..Times::default() })
    }

    #[test]
    fn each_copy_runs_with_its_control_and_what_it_is_held_against_runs_as_well() {
        let cases = cases();
        let has = |scenario: &str, tool: &str| {
            cases.iter().filter(|case| case.scenario == scenario && case.tool == tool).count()
        };
        for control in CongestionControl::ALL {
            for (rtt, _) in RTTS {
                let scenario = scenario(control, rtt);
                assert_eq!(has(&scenario, AUTOMATIC), 1, "{scenario}");
                assert_eq!(has(&scenario, ONE), usize::from(has_one_stream(control, rtt)), "{scenario}");
                assert_eq!(has(&scenario, IPERF_ONE), usize::from(rtt == "20ms"), "{scenario}");
            }
        }
        assert_eq!(has("loss, cubic, 20ms", IPERF_MANY.0), 1);
        for case in &cases {
            assert!(case.scenario.starts_with(SCENARIOS) && case.is_lossy(), "{}", case.scenario);
            assert_eq!(super::super::controls().iter().filter(|name| case.uses(name)).count(), 1);
        }
    }

    /// Of bbr the line: 0.9415 Gbit/s of payload, less one packet in ten thousand.
    #[test]
    fn a_law_leaves_a_stream_what_its_control_allows_and_no_streams_more_than_the_line() {
        let law = |control, rtt_s, streams| format!("{:.4}", law_gbit_per_s(control, rtt_s, streams));
        assert_eq!(law(Reno, 0.1, 1.0), "0.0142");
        assert_eq!(law(Cubic, 0.1, 1.0), "0.0217");
        assert_eq!(law(Reno, 0.02, 8.0), "0.5675");
        for line in [law(Reno, 0.02, 80.0), law(Bbr, 0.1, 1.0), law(Bbr, 0.02, 8.0)] {
            assert_eq!(line, "0.9414");
        }
    }

    #[test]
    fn the_page_has_the_law_the_rates_and_what_was_named() {
        let mut samples = Vec::new();
        let near = scenario(Reno, "20ms");
        for run in 1..=3 {
            let said = r#"{"narrowest":{"cause":"loss","place":"path"},"evidence":{"streams":8}}"#;
            samples.push(with_reason(sample(&near, ONE, run, 0.08), said).unwrap());
            samples.push(with_reason(sample(&near, AUTOMATIC, run, 0.48), said).unwrap());
            samples.push(sample(&near, IPERF_ONE, run, 0.1));
        }
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let one = "| reno | 20ms | 0.071 | 0.080 [0.080–0.080] | 1.13 [1.13–1.13] | at least 0.9: met | 0.800 \
                   [0.800–0.800] | at least 0.9: **missed by 11.1 %** | loss 3 of 3 |";
        assert!(told.contains(one), "{told}");
        let automatic = "| reno | 20ms | 0.567 | 0.480 [0.480–0.480] | 8 | 0.846 [0.846–0.846] | at least 0.9: \
                         **missed by 6.0 %** | 6.00 [6.00–6.00] | loss 3 of 3 |";
        assert!(told.contains(automatic), "{told}");
        assert!(with_reason(Sample::default(), "").is_err());
    }

    #[test]
    fn of_the_copies_that_a_loss_held_back_it_is_counted_for_how_many_why_names_it() {
        let copy = |rtt: &str, tool: &str, run: usize, streams: u32, (gbit_per_s, cause): (f64, &str)| {
            let said = json!({"narrowest": {"cause": cause}, "evidence": {"streams": streams}}).to_string();
            with_reason(sample(&scenario(Reno, rtt), tool, run, gbit_per_s), &said).unwrap()
        };
        let told = |samples: Vec<Sample>| {
            let told = tell(&Results { samples, ..Results::default() }).unwrap();
            told.lines().find(|line| line.starts_with("`why` names")).unwrap().to_owned()
        };
        let samples = vec![
            copy("20ms", ONE, 1, 1, (0.08, "loss")),
            copy("20ms", ONE, 2, 1, (0.08, "link")),
            copy("20ms", ONE, 3, 1, (0.08, "loss")),
            // Sixteen streams fill the line by the law.
            copy("20ms", AUTOMATIC, 1, 16, (0.3, "link")),
            // Of 32 the law is 0.454, of 0.941 that the line carries: one was there, and one was not yet.
            copy("100ms", AUTOMATIC, 1, 32, (0.4, "link")),
            copy("100ms", AUTOMATIC, 2, 32, (0.667, "link")),
        ];
        let half = told(samples);
        assert!(half.contains("names the loss for 2 of 4 copies"), "{half}");
        assert!(half.ends_with("; at least 0.95: **missed by 47.4 %**."), "{half}");
        assert!(told(vec![copy("20ms", ONE, 1, 1, (0.08, "loss"))]).ends_with("; at least 0.95: met."));
        assert!(told(Vec::new()).ends_with("; at least 0.95: not measured."));
    }

    #[test]
    fn beside_each_rate_with_a_loss_stands_what_the_path_cost_with_that_program() {
        let of = |scenario: &str, tool: &str, cost: Option<f64>| Sample {
            wire_cpu_s_per_gb: cost,
            ..sample(scenario, tool, 1, 0.1)
        };
        let (near, far) = (scenario(Cubic, "20ms"), scenario(Cubic, "100ms"));
        let samples = vec![
            of(&near, ONE, Some(1.0)),
            of(&near, IPERF_ONE, Some(2.0)),
            of(&near, AUTOMATIC, Some(3.0)),
            of(&near, IPERF_MANY.0, None),
            of(&far, ONE, None),
        ];
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let row = |start: &str| told.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(row("| cubic | 20ms |").ends_with("| – | 1.00 | 2.00 |"), "{told}");
        assert!(row("| cubic | 100ms |").ends_with("| – | not recorded | – |"), "{told}");
        assert!(row("| reno | 20ms |").ends_with("| – | not measured | not measured |"), "{told}");
        let both = "fewer than 3. The path's own CPU-s/GB: 3.00 with thalweg, not recorded with iperf3.";
        assert!(row("With cubic at 20ms").ends_with(both), "{told}");
        for table in told.split("\n\n").filter(|part| part.starts_with('|')) {
            let columns = |row: &str| row.matches('|').count();
            assert!(
                table.lines().all(|row| columns(row) == columns(table.lines().next().unwrap())),
                "{table}"
            );
        }
    }

    /// The line carries 0.9415 Gbit/s of payload.
    #[test]
    fn a_copy_with_bbr_above_the_line_is_in_no_rate_and_of_two_that_are_left_there_is_no_verdict() {
        let far = scenario(Bbr, "100ms");
        let copy = |run: usize, gbit_per_s: f64| {
            let load = Load { scenario: &far, tool: AUTOMATIC, run, bytes: 2_000_000_000, files: 1 };
            let times = Times { wall_s: 5.0 + 12.0 / gbit_per_s, ..Times::default() };
            let short = Times { wall_s: 5.0, ..Times::default() };
            super::super::with_short(load.took(&times), 500_000_000, &short)
        };
        let told = |last: f64| {
            let samples = vec![copy(1, 0.9), copy(2, 0.9), copy(3, last)];
            tell(&Results { samples, ..Results::default() }).unwrap()
        };
        let met =
            "| bbr | 100ms | 0.941 | 0.900 [0.900–0.900] | – | 0.956 [0.956–0.956] | at least 0.9: met |";
        let (known, unknown) = (told(0.9), told(0.96));
        assert!(known.contains(met) && !known.contains("is known"), "{known}");
        assert!(
            unknown.contains("0.956 [0.956–0.956] | at least 0.9: no verdict, 2 rounds, fewer than 3 |"),
            "{unknown}"
        );
        assert!(unknown.contains("\nOf 1 of 3 copies no rate after the start is known"), "{unknown}");
    }

    #[test]
    fn a_result_of_before_there_were_other_distances_is_told_as_that_of_cubic_at_20_ms() {
        let samples = (1..=3).map(|run| sample(OLDER, ONE, run, 0.09)).collect();
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        assert!(told.contains("| cubic | 20ms | 0.071 | 0.090 [0.090–0.090] | 1.27"), "{told}");
        assert!(told.contains("| cubic | 74ms | 0.023 | not measured |"), "{told}");
    }
}
