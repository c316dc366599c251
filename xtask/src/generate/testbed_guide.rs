//! The table of docs/guide/testbed.md: how well the emulated path keeps what it is asked to, from the committed result
//! of `thalweg bench path`.

use crate::bench::stale;
use crate::bench::tell::{self, Goal};
use crate::generate::goals::{self, Judged};
use crate::generate::results;
use anyhow::Result;
use std::fmt::Write;
use thalweg_lab::bench::record::{Quantity, Results, Sample};
use thalweg_lab::bench::statistics::median;
use thalweg_lab::bench::suite::{COST, COST_MOST, HOSTS, PACKETS};
use thalweg_lab::plot::unit::{Unit, number};
use thalweg_lab::testbed::check::binomial_tolerance;

/// The guide.
pub const PAGE: &str = "docs/guide/testbed.md";

/// Where the table stands, seen from docs.
const PLACE: &str = "guide/testbed.md#how-well-it-keeps-what-is-asked";

/// The guide with the table between its marks.
///
/// # Errors
/// If the guide has no marks, or a result cannot be read.
pub fn page() -> Result<String> {
    let results = results::all()?;
    let found = results.iter().find(|(_, results)| results.about.suite == "path");
    let table = found.map_or_else(
        || "Not measured yet: `thalweg bench path --out bench/results/path.jsonl` (root), then `cargo xtask gen`.\n".into(),
        |(_, results)| table(results),
    );
    results::shown_in(PAGE, &table)
}

/// The goals that are judged in it: how exactly a path keeps what it is asked to, and what it costs by itself.
///
/// # Errors
/// If a result cannot be read.
pub fn goals() -> Result<Vec<Judged>> {
    let results = results::all()?;
    Ok(judged(results.iter().map(|(_, results)| results).find(|results| results.about.suite == "path")))
}

fn judged(results: Option<&Results>) -> Vec<Judged> {
    let (text, (within, all)) = results.map(rows).unwrap_or_default();
    let off = match all - within {
        0 => String::new(),
        off => format!("{off} by more than allowed"),
    };
    let exact = (all > 0).then(|| format!("{within} of {all} | {off}"));
    let questions = [
        ("the emulated path: how exactly it keeps what is asked", exact),
        ("the emulated path: what it costs by itself, without a limit of the rate", goals::counted(&text)),
    ];
    let row = |(question, verdicts): (&str, Option<String>)| match (results, verdicts) {
        (Some(results), Some(verdicts)) => {
            Judged::of(question, PLACE.to_owned(), verdicts, &results.about, stale::difference(results))
        }
        _ => Judged::not_yet(question, PLACE.to_owned()),
    };
    questions.map(row).into()
}

fn table(results: &Results) -> String {
    let about = &results.about;
    let (rows, (within, all)) = rows(results);
    let mut out = format!(
        "{}, {}, {}, {} cores, {}; `{}`{}:\n\n| asked | should be | off by (median) | may be off by | within | wire, CPU-s/GB |\n|---|---|---|---|---|---|\n{rows}",
        tell::day(about),
        about.built(),
        about.machine.cpu,
        about.machine.cores,
        about.machine.kernel,
        about.command,
        tell::stale_behind(stale::difference(results)),
    );
    let _ = write!(out, "\n{within} of {all} measurements are within what they may be off by");
    out += if within == all { "." } else { "; **the others are not**." };
    if let Some(void) = results.void() {
        let _ = write!(out, " {void}: this machine was too slow for the path.");
    }
    out.push('\n');
    out
}

/// The rows of the table; how many measurements are within what they may be off by, and of how many.
fn rows(results: &Results) -> (String, (usize, usize)) {
    let mut out = String::new();
    // Where this machine was too slow, packets were lost that nobody asked to be lost.
    let mut cases = results.counting_cases();
    // By what was asked, not by the turns.
    let place = |sample: &Sample| (series(sample), asked(sample).map_or(0.0, |(_, value)| value));
    cases.sort_by(|a, b| {
        let ((a, x), (b, y)) = (place(a[0]), place(b[0]));
        a.cmp(&b).then(x.total_cmp(&y))
    });
    let mut all = (0, 0);
    for case in cases {
        if case[0].series == COST {
            let costs: Vec<f64> =
                case.iter().filter_map(|sample| sample.measured.get("measured")?.value()).collect();
            let cost = median(&costs);
            let verdict = Goal::AtMost(COST_MOST).verdict_showing(cost, |most| format!("{most} CPU-s/GB"));
            let _ =
                writeln!(out, "| no limit of the rate{} |  |  |  | {verdict} | {cost:.2} |", hosts(case[0]));
            continue;
        }
        let Some((asked, _)) = asked(case[0]) else { continue };
        let of = |pick: fn(&Sample) -> Option<&Quantity>| -> Vec<f64> {
            case.iter().filter_map(|sample| pick(sample)?.value()).collect()
        };
        let packets = of(|sample| sample.measured.get(PACKETS));
        if packets.len() == case.len() {
            let counted = Counted::of(&case, packets.iter().sum());
            all.0 += usize::from(counted.is_within());
            all.1 += 1;
            let _ = writeln!(out, "{}", counted.row(&asked, case.len()));
            continue;
        }
        let off = of(|sample| sample.measured.get("share_of_the_tolerance"));
        // Of small packets it says nothing: what costs is packets, not bytes.
        let cost: Vec<f64> = match unit(case[0]) {
            Some(Unit::BitsPerS) => case.iter().filter_map(|sample| sample.wire_cpu_s_per_gb).collect(),
            _ => Vec::new(),
        };
        let cost = if cost.is_empty() { String::new() } else { format!("{:.2}", median(&cost)) };
        let within = off.iter().filter(|off| **off <= 1.0).count();
        all.0 += within;
        all.1 += off.len();
        let (seen, wanted) =
            (of(|sample| sample.measured.get("measured")), of(|sample| sample.predicted.get("measured")));
        let off_by: Vec<f64> = seen.iter().zip(&wanted).map(|(seen, wanted)| seen - wanted).collect();
        let show = |value: f64| unit(case[0]).map_or_else(|| format!("{value:.0}"), |unit| unit.show(value));
        let sign = if median(&off_by) < 0.0 { "−" } else { "+" };
        let _ = writeln!(
            out,
            "| {asked} | {} | {sign}{} | {} | {within} of {} | {cost} |",
            show(median(&wanted)),
            show(median(&off_by).abs()),
            show(median(&of(|sample| sample.measured.get("tolerance")))),
            off.len(),
        );
    }
    (out, all)
}

/// Packets that were hit, of all runs of a case: of what is rare a single run says little.
struct Counted {
    packets: f64,
    expected: f64,
    hit: f64,
}

impl Counted {
    fn of(case: &[&Sample], packets: f64) -> Counted {
        let sum = |of: fn(&Sample) -> Option<&Quantity>| {
            case.iter().filter_map(|sample| of(sample)?.value()).sum::<f64>()
        };
        Counted {
            packets,
            expected: sum(|sample| sample.predicted.get("measured")),
            hit: sum(|sample| sample.measured.get("measured")),
        }
    }

    fn tolerance(&self) -> f64 {
        binomial_tolerance(self.packets as u64, self.expected / self.packets)
    }

    fn is_within(&self) -> bool {
        (self.hit - self.expected).abs() <= self.tolerance()
    }

    fn row(&self, asked: &str, runs: usize) -> String {
        let off_by = self.hit - self.expected;
        let sign = if off_by < 0.0 { "−" } else { "+" };
        let verdict = if self.is_within() { "yes" } else { "**no**" };
        format!(
            "| {asked} | {:.0} of {:.0} | {sign}{:.0} ({}) | {:.0} | {verdict}, {runs} runs together |  |",
            self.expected,
            self.packets,
            off_by.abs(),
            number(self.hit / self.packets),
            self.tolerance(),
        )
    }
}

/// Round trips, then rates, then what is done to packets.
fn series(sample: &Sample) -> usize {
    ["round trip time", "rate", "jitter", "loss", "late packets", "packets twice"]
        .iter()
        .position(|name| *name == sample.series)
        .unwrap_or(usize::MAX)
}

/// What was asked, in words and as a number.
fn asked(sample: &Sample) -> Option<(String, f64)> {
    let (name, value) = sample.parameters.iter().find_map(|(name, value)| Some((name, value.value()?)))?;
    let words = match name.as_str() {
        "loss" => format!("loss of {} in packets", number(value)),
        "reorder" => format!("{} of packets late", number(value)),
        "duplicate" => format!("{} of packets twice", number(value)),
        _ => format!("{} {}{}", sample.series, unit(sample)?.show(value), hosts(sample)),
    };
    Some((words, value))
}

/// What is said of the hosts, where it is anything.
fn hosts(sample: &Sample) -> String {
    sample
        .parameters
        .get(HOSTS)
        .and_then(Quantity::word)
        .map_or_else(String::new, |word| format!(", {word} hosts"))
}

/// Of what was measured; packets have none.
fn unit(sample: &Sample) -> Option<Unit> {
    match sample.series.as_str() {
        "round trip time" | "jitter" => Some(Unit::Seconds),
        "rate" => Some(Unit::BitsPerS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_lab::bench::record::LOST_BY_A_SLOW_MACHINE;
    use thalweg_lab::testbed::presets::RATE_KEPT_BITS_PER_S;

    /// A measurement by `thalweg bench path`.
    fn line(series: &str, parameter: &str, unit: &str, value: f64, measured: f64, off: f64) -> String {
        let number = |value: f64, unit: &str| serde_json::json!({"value": value, "unit": unit});
        let sample = serde_json::json!({"sample": {
            "series": series, "parameters": {(parameter): number(value, unit)}, "run": 1, "order": 0,
            "bytes": 1000, "files": 0, "wall_s": 1.0, "wire_cpu_s_per_gb": 2.5,
            "measured": {
                "measured": number(measured, unit), "tolerance": number(value * 0.02, unit),
                "share_of_the_tolerance": number(off, "1"),
            },
            "predicted": {"measured": number(value, unit)},
        }});
        format!("{sample}\n")
    }

    fn about() -> serde_json::Value {
        serde_json::json!({"about": {
            "suite": "path", "question": "?", "date": "2026-01-02T03:04:05Z", "program": "thalweg", "command": "thalweg bench path",
            "machine": {"cpu": "CPU", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "file_system": "ext4", "load": 0.0},
            "path": {"kind": "loopback"}, "iterations": 1, "encryption": "", "verification": "",
            "scaling": {"seed": 0, "changes": []},
        }})
    }

    #[test]
    fn what_is_off_is_counted_and_said_and_small_packets_have_no_cost_for_bytes() {
        let rate = line("rate", "rate", "bit/s", 1e9, 0.99e9, 0.5);
        let rtt = line("round trip time", "rtt", "s", 0.01, 0.0103, 1.5);
        let results = Results::parse(format!("{}\n{rate}{rtt}", about()).as_bytes()).unwrap();
        let table = table(&results);
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| r")).collect();
        assert!(
            rows[0].starts_with("| round trip time 10 ms | 10 ms | +300 µs | 200 µs |")
                && rows[0].ends_with("| 0 of 1 |  |"),
            "{table}"
        );
        assert!(
            rows[1].starts_with("| rate 1 Gbit/s | 1 Gbit/s | −10 Mbit/s | 20 Mbit/s |")
                && rows[1].ends_with("| 1 of 1 | 2.50 |"),
            "{table}"
        );
        assert!(
            table.ends_with(
                "1 of 2 measurements are within what they may be off by; **the others are not**.\n"
            ),
            "{table}"
        );
    }

    #[test]
    fn how_exact_a_path_is_and_what_it_costs_are_goals_in_the_table_of_all() {
        let cost = |cost: f64| line(COST, "asked", "1", 0.0, cost, 0.0);
        let rtt = |off: f64| line("round trip time", "rtt", "s", 0.01, 0.0103, off);
        let of = |lines: String| {
            let results = Results::parse(format!("{}\n{lines}", about()).as_bytes()).unwrap();
            let rows = judged(Some(&results));
            (table(&results), rows.iter().map(|row| row.verdicts.clone()).collect::<Vec<_>>())
        };
        let (page, told) = of(cost(0.32) + &rtt(1.5) + &rtt(0.5));
        assert!(page.contains("|  |  |  | at most 0.25 CPU-s/GB: **missed by 28.0 %** | 0.32 |\n"), "{page}");
        assert_eq!(told, ["1 of 2 | 1 by more than allowed", "0 of 1 | 28.0 %"]);
        let (page, told) = of(cost(0.2) + &rtt(0.5));
        assert!(page.contains("| at most 0.25 CPU-s/GB: met | 0.20 |\n"), "{page}");
        assert_eq!(told, ["1 of 1 | ", "1 of 1 | "]);
        assert!(judged(None).iter().all(|row| row.verdicts == "not measured yet | " && row.care.is_empty()));
    }

    #[test]
    fn a_measurement_for_which_the_machine_was_too_slow_is_not_judged_and_is_told() {
        let rate = line("rate", "rate", "bit/s", 1e9, 0.99e9, 0.5);
        let mut results = Results::parse(format!("{}\n{rate}", about()).as_bytes()).unwrap();
        let judged = table(&results);
        let far_off = results.samples[0].clone().measured("share_of_the_tolerance", 9.0, "1");
        results.samples.push(far_off.measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1"));
        let void = " 1 of 2 samples are VOID: this machine was too slow for the path.\n";
        assert_eq!(table(&results), format!("{}{void}", judged.trim_end()));
    }

    /// The widest limit of a rate that was kept, in the median; nothing if none was.
    fn widest_kept(results: &Results) -> Option<f64> {
        let limit = |sample: &Sample| sample.parameter("rate").filter(|_| sample.series == "rate");
        let is_kept = |case: &Vec<&Sample>| {
            let off = case.iter().filter_map(|sample| sample.measured.get("share_of_the_tolerance")?.value());
            median(&off.collect::<Vec<_>>()) <= 1.0
        };
        let kept = results.counting_cases().into_iter().filter(is_kept);
        kept.filter_map(|case| limit(case[0])).reduce(f64::max)
    }

    #[test]
    fn testbeds_warn_above_the_widest_limit_that_the_committed_result_has_kept() {
        let of = |lines: &[(f64, f64)]| {
            let lines = lines.iter().map(|(rate, off)| line("rate", "rate", "bit/s", *rate, *rate, *off));
            let text = format!("{}\n{}", about(), lines.collect::<String>());
            widest_kept(&Results::parse(text.as_bytes()).unwrap())
        };
        assert_eq!(of(&[(4e9, 1.1)]), None);
        assert_eq!(of(&[(4e9, 0.1), (9.6e9, 0.2)]), Some(9.6e9));
        assert_eq!(of(&[(4e9, 0.1), (9.6e9, 0.2), (25e9, 0.9)]), Some(25e9));
        assert_eq!(of(&[(4e9, 0.1), (9.6e9, 0.2), (25e9, 3.0)]), Some(9.6e9));
        let committed = results::all().unwrap();
        let path = committed.iter().find(|(_, results)| results.about.suite == "path").unwrap();
        assert_eq!(
            widest_kept(&path.1),
            Some(RATE_KEPT_BITS_PER_S as f64),
            "crates/lab/src/testbed/presets.rs"
        );
    }

    #[test]
    fn what_is_rare_is_judged_by_all_runs_together_and_says_how_many_were_expected() {
        let of = |hits: [f64; 3]| {
            let lines = hits.map(|hit| {
                let line = line("loss", "loss", "1", 1e-5, hit, 0.0);
                let mut line: serde_json::Value = serde_json::from_str(&line).unwrap();
                let sample = &mut line["sample"];
                sample["measured"]["packets"] = serde_json::json!({"value": 800_000.0, "unit": "1"});
                sample["predicted"]["measured"] = serde_json::json!({"value": 8.0, "unit": "1"});
                format!("{line}\n")
            });
            let results = Results::parse(format!("{}\n{}", about(), lines.concat()).as_bytes()).unwrap();
            table(&results)
        };
        let good = of([0.0, 9.0, 12.0]);
        let row =
            "| loss of 1e-5 in packets | 24 of 2400000 | −3 (8.75e-6) | 21 | yes, 3 runs together |  |\n";
        assert!(good.contains(row), "{good}");
        assert!(good.ends_with("1 of 1 measurements are within what they may be off by.\n"), "{good}");
        // In one run nothing lost would be no wonder; in three it is.
        assert!(of([0.0; 3]).contains("**no**, 3 runs together"));
        assert!(of([20.0; 3]).ends_with("**the others are not**.\n"));
    }
}
