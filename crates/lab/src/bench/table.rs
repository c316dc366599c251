//! A result file as a table for people.

use super::record::{Quantity, Results, Sample, Scaled, counting, path_cpu_s_per_gb};
use super::statistics::{Summary, median};
use super::suite::{CARRIED, path, predict, storage};
use crate::plot::unit::Unit;
use std::fmt::Write;
use thalweg_mover::failure;

/// One line about a sample, as it is measured.
pub fn told(sample: &Sample) -> String {
    let void = match (sample.is_void(), sample.is_wrong()) {
        (_, true) => format!("; FAILED: {WRONG}"),
        (true, false) => format!("; VOID: {VOID}"),
        (false, false) => String::new(),
    };
    let (set, figure, refused) = (parameters(sample), figure(sample).1, told_refused(&[sample]));
    format!("run {}  {}  {set}: {figure}{refused}{void}", sample.run, sample.series)
}

/// One line about what a suite makes smaller than its source has it.
pub fn smaller(change: &Scaled) -> String {
    format!("made smaller: {}: {} -> {}", change.what, change.from, change.to)
}

/// Why a sample is void.
const VOID: &str = "this machine was too slow for the path and lost packets of it";

/// Why a sample has failed.
const WRONG: &str = "not each frame was taken as it was given, or named as lost";

/// Each case with its median and how sure that is, series by series, then what laws said, and what was left out.
pub fn of(results: &Results) -> String {
    let mut out = String::new();
    let about = &results.about;
    let machine = &about.machine;
    // Writing to a string does not fail.
    let _ = writeln!(out, "{}: {}", about.suite, about.question);
    let counted = results.counted();
    let runs = if counted == "1" { "1 run".to_owned() } else { format!("{counted} runs") };
    let path = results.path_of(&results.samples.iter().collect::<Vec<_>>());
    let _ = writeln!(out, "{}, {path}, {runs}, {}", about.date, about.built());
    // Of a foreign result little is known.
    let cores = match machine.cores {
        0 => String::new(),
        cores => failure::counted(u64::from(cores), "core", "cores"),
    };
    let known = [&machine.cpu, &cores, &machine.kernel, &machine.file_system];
    let known: Vec<&str> = known.into_iter().filter(|word| !word.is_empty()).map(String::as_str).collect();
    let protection: Vec<String> = about.protection().collect();
    let more: Vec<String> = about.more.iter().map(|(name, is)| format!("{name}: {is}")).collect();
    let lines = [known.join(", "), protection.join("; "), more.join("; ")];
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "{line}");
    }
    for change in &about.scaling.changes {
        let _ = writeln!(out, "{}", smaller(change));
    }
    if !about.command.is_empty() {
        let _ = writeln!(out, "repeat it: {}", about.command);
    }
    let cases = results.cases();
    for series in results.series() {
        let mut rows: Vec<&Vec<&Sample>> = cases.iter().filter(|case| case[0].series == series).collect();
        // In the order of the parameters, not of the turns.
        rows.sort_by(|a, b| by_parameters(a[0], b[0]));
        let unit = rows.first().map_or("", |case| figure(case[0]).0);
        let _ = writeln!(
            out,
            "\n{series}, in {unit}\n  {:>10} {:>10} {:>9}  {:<27} {:>9}  parameters",
            "median", "mean", "st. dev.", "interval of the median", "CPU-s/GB"
        );
        for case in rows {
            let _ = writeln!(out, "{}", row(case));
        }
    }
    laws(&mut out, results);
    storage_rule(&mut out, &cases);
    for line in &results.left_out {
        let _ = writeln!(out, "left out: {}: {}", line.what, line.why);
    }
    out
}

/// Of the runs that count; how many do not is told behind their figures.
fn row(case: &[&Sample]) -> String {
    let counted = counting(case);
    let of = |value: fn(&Sample) -> Option<f64>| -> Vec<f64> {
        counted.iter().filter_map(|sample| value(sample)).collect()
    };
    let middle = |values: &[f64]| if values.is_empty() { "-".to_owned() } else { short(median(values)) };
    let summary = Summary::of(&of(|sample| Some(figure(sample).2)));
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), short);
    let (typical, mean) = (shown(summary.map(|of| of.median)), shown(summary.map(|of| of.mean)));
    let deviation = shown(summary.and_then(|of| of.standard_deviation));
    let sure = summary.map_or("-".to_owned(), |of| {
        let interval = of.interval;
        format!("{} to {} ({:.0} %)", short(interval.low), short(interval.high), interval.confidence * 100.0)
    });
    let cpu = middle(&of(Sample::cpu_s_per_gb));
    let mut more = parameters(case[0]);
    if is_of_small_files(case[0]) {
        let rates = of(|sample| Some(sample.files as f64 / sample.wall_s));
        let _ = write!(more, "; {} files/s", middle(&rates));
    }
    for (name, distribution) in &case[0].distributions {
        let all: Vec<f64> = counted
            .iter()
            .filter_map(|sample| sample.distributions.get(name))
            .flat_map(|distribution| distribution.values.iter().copied())
            .collect();
        if let Some(tail) = Summary::of(&all) {
            let shown = |value: f64| in_unit(value, &distribution.unit);
            let _ = write!(
                more,
                "; {name} P50 {} P90 {} P99 {} max {}",
                shown(tail.p50),
                shown(tail.p90),
                shown(tail.p99),
                shown(tail.max)
            );
        }
    }
    if let Some(cost) = path_cpu_s_per_gb(case.iter().copied()) {
        let _ = write!(more, "; the path itself {} CPU-s/GB", short(cost));
    }
    more.push_str(&told_refused(&counted));
    more.push_str(&told_losses(&counted));
    more.push_str(&told_prediction(&counted));
    if !case[0].distributions.contains_key("lag") {
        more.push_str(&told_tail(&counted));
    }
    let void = case.iter().filter(|sample| sample.is_void()).count();
    if void > 0 {
        let _ = write!(more, "; {void} of {} runs VOID: {VOID}", case.len());
    }
    let wrong = case.iter().filter(|sample| sample.is_wrong()).count();
    if wrong > 0 {
        let _ = write!(more, "; {wrong} of {} runs FAILED: {WRONG}", case.len());
    }
    format!("  {typical:>10} {mean:>10} {deviation:>9}  {sure:<27} {cpu:>9}  {more}")
}

/// What was predicted of copies, in medians, how many of them were in the range, and what was wrong most often.
fn told_prediction(case: &[&Sample]) -> String {
    let of = |name: &str| -> Vec<f64> {
        case.iter().filter_map(|sample| sample.measured.get(name)?.value()).collect()
    };
    let within = of(predict::IN_RANGE);
    if within.is_empty() {
        let word = |sample: &&Sample| Some(sample.measured.get(predict::MISSING)?.word()?.to_owned());
        return case
            .iter()
            .find_map(word)
            .map_or(String::new(), |missing| format!("; nothing was known of {missing}"));
    }
    let middle: Vec<f64> =
        case.iter().filter_map(|sample| sample.predicted.get(predict::TOOK)?.value()).collect();
    let [middle, low, high, took] = [middle, of(predict::RANGE[0]), of(predict::RANGE[1]), of(predict::TOOK)]
        .map(|values| short(median(&values)));
    let held = within.iter().filter(|is| **is > 0.0).count();
    let wrong = predict::wrong_most(case).map_or(String::new(), |term| format!("; wrong most: {term}"));
    format!(
        "; predicted {middle} s ({low} to {high}), took {took} s, {held} of {} in the range{wrong}",
        within.len()
    )
}

/// How many producers had no slot, the most of all runs, and what the others carried: the figures are of these alone.
fn told_refused(case: &[&Sample]) -> String {
    let of =
        |sample: &&Sample| Some((sample.measured.get("refused")?.value()?, sample.parameter("producers")?));
    let most = case.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0));
    let most = most.filter(|(refused, _)| *refused > 0.0);
    let told = |(refused, producers): (f64, f64)| format!("; {refused} of {producers} producers refused");
    most.map_or(String::new(), told) + &told_carried(case)
}

/// Which share of the line was carried, where a suite tells it.
fn told_carried(case: &[&Sample]) -> String {
    let carried = case.iter().filter_map(|sample| sample.measured.get(CARRIED)?.value());
    let carried: Vec<f64> = carried.collect();
    match carried.is_empty() {
        true => String::new(),
        false => format!("; {:.0} % of the line carried", median(&carried) * 100.0),
    }
}

/// Packets that the path lost on purpose, in both directions: of few, what they did to a rate is chance.
fn told_losses(case: &[&Sample]) -> String {
    const FEW: f64 = 20.0;
    let lost = case.iter().filter_map(|sample| sample.measured.get("packets_lost")?.value());
    let lost: Vec<f64> = lost.collect();
    let is_lossy = case.iter().any(|sample| sample.parameter("loss").is_some_and(|loss| loss > 0.0));
    if !is_lossy || lost.is_empty() {
        return String::new();
    }
    let few = if median(&lost) < FEW { ", too few to judge by" } else { "" };
    let packets = if median(&lost) == 1.0 { "packet" } else { "packets" };
    format!("; {} {packets} lost in a run{few}", short(median(&lost)))
}

/// The tail that the program itself told, where single values are not known: medians over the runs, and the longest of
/// all.
fn told_tail(case: &[&Sample]) -> String {
    let of = |name: &str| -> Vec<f64> {
        case.iter().filter_map(|sample| sample.measured.get(name)?.value()).collect()
    };
    let longest = of("lag_max").into_iter().fold(f64::NAN, f64::max);
    if longest.is_nan() {
        return String::new();
    }
    let [p50, p90, p99, per_s] =
        ["lag_p50", "lag_p90", "lag_p99", "frames_per_s"].map(|name| short(median(&of(name))));
    let lost = of("named_as_lost");
    let lost =
        if lost.is_empty() { String::new() } else { format!("; {} named as lost", short(median(&lost))) };
    format!("; {per_s} frames/s{lost}; lag P50 {p50} P90 {p90} P99 {p99} max {} s", short(longest))
}

/// What counts for them is how many pass in a second.
fn is_of_small_files(sample: &Sample) -> bool {
    const SMALL_BYTES: u64 = 64 << 10;
    sample.files > 1 && sample.bytes / sample.files < SMALL_BYTES
}

/// What laws said against what was measured, over all samples that have both.
fn laws(out: &mut String, results: &Results) {
    for series in results.series() {
        let mut errors: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
        for sample in results.counting().filter(|sample| sample.series == series) {
            for (name, law) in &sample.predicted {
                let measured = sample.measured.get(name).and_then(Quantity::value);
                if let (Some(law), Some(measured)) = (law.value(), measured)
                    && measured > 0.0
                {
                    errors.entry(name).or_default().push((law / measured - 1.0).abs());
                }
            }
        }
        for (name, errors) in errors {
            let off = median(&errors) * 100.0;
            let _ = writeln!(
                out,
                "law of {name}, {series}: off by {off:.1} % in the median of {}",
                failure::counted(errors.len() as u64, "sample", "samples")
            );
        }
    }
}

/// Unit, value with unit, value: the time of a case with many transfers or none, else its rate.
fn figure(sample: &Sample) -> (&'static str, String, f64) {
    if let Some(worst) = sample.measured.get("worst").and_then(Quantity::value) {
        let score = sample.measured.get("speed_score").and_then(Quantity::value);
        let score = score.map_or(String::new(), |score| format!(", speed score {score:.1}"));
        return ("s (the worst)", format!("worst {worst:.3} s{score}"), worst);
    }
    if let Some(off) = sample.measured.get(path::OFF).and_then(Quantity::value) {
        return ("shares of the tolerance", format!("off by {off:.2} of the tolerance"), off);
    }
    // Who moved nothing has no rate.
    let mean_rtt = sample.measured.get("mean_rtt").and_then(Quantity::value).filter(|_| sample.bytes == 0);
    if let Some(mean_ms) = mean_rtt.map(|mean_s| mean_s * 1e3) {
        return ("ms (the mean round trip)", format!("round trips of {} ms", short(mean_ms)), mean_ms);
    }
    let rate = sample.shown_rate_bits_per_s() / 1e6;
    ("Mbit/s", format!("{:.3} s, {} Mbit/s", sample.wall_s, short(rate)), rate)
}

/// What was set, in words.
pub fn parameters(sample: &Sample) -> String {
    let of = |(name, value): (&String, &Quantity)| match value {
        Quantity::Word(word) => format!("{name} {word}"),
        Quantity::Number { value, unit } if unit == "1" => format!("{name} {value}"),
        Quantity::Number { value, unit } => format!("{name} {value} {unit}"),
    };
    sample.parameters.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn by_parameters(a: &Sample, b: &Sample) -> std::cmp::Ordering {
    use std::cmp::Ordering::Equal;
    let pairs = a.parameters.values().zip(b.parameters.values());
    let mut orders = pairs.map(|pair| match pair {
        (Quantity::Word(a), Quantity::Word(b)) => a.cmp(b),
        (a, b) => a.value().unwrap_or(0.0).total_cmp(&b.value().unwrap_or(0.0)),
    });
    orders.find(|order| *order != Equal).unwrap_or(Equal)
}

/// How the storage rule of 000 section III-D is kept in one direction: which ways of asking past the page cache have
/// the rate that was wanted and answer in time.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageRule<'a> {
    /// `read` or `write`.
    pub direction: &'static str,
    /// The rate that was wanted, in bits a second.
    pub target_bits_per_s: f64,
    /// How many ways past the page cache were measured.
    pub ways: usize,
    /// Those that hold it, as one of the samples of each.
    pub hold: Vec<&'a Sample>,
}

/// The same of a result, reading and writing; nothing where no rate was asked for.
pub fn storage_rules(results: &Results) -> Vec<StorageRule<'_>> {
    rules(&results.cases())
}

fn rules<'a>(cases: &[Vec<&'a Sample>]) -> Vec<StorageRule<'a>> {
    let of = |direction: &'static str| {
        let is_it = |case: &&Vec<&Sample>| case[0].parameters.get("direction") == Some(&direction.into());
        let of_it = || cases.iter().filter(is_it);
        let target_bits_per_s =
            of_it().find_map(|case| case[0].measured.get(storage::TARGET).and_then(Quantity::value))?;
        let judged: Vec<(bool, &'a Sample)> = of_it().filter_map(|case| meets_rule(case)).collect();
        let hold = judged.iter().filter(|(is_good, _)| *is_good).map(|(_, sample)| *sample).collect();
        Some(StorageRule { direction, target_bits_per_s, ways: judged.len(), hold })
    };
    ["read", "write"].into_iter().filter_map(of).collect()
}

fn storage_rule(out: &mut String, cases: &[Vec<&Sample>]) {
    for StorageRule { direction, ways, hold, .. } in rules(cases) {
        if ways == 0 {
            let _ = writeln!(out, "storage rule, {direction}: no way past the page cache was measured");
            continue;
        }
        let good = hold.len();
        let _ = writeln!(out, "storage rule, {direction}: {good} of {ways} ways past the page cache hold it");
        for way in hold {
            let _ = writeln!(out, "  {}", parameters(way));
        }
    }
}

/// Whether a case holds the rule; none if no rate was asked for, or the page cache answers.
fn meets_rule<'a>(case: &[&'a Sample]) -> Option<(bool, &'a Sample)> {
    let case = counting(case);
    let first = *case.first()?;
    if first.parameters.get("way") != Some(&storage::DIRECT.into()) {
        return None;
    }
    let target = first.measured.get(storage::TARGET)?.value()?;
    let latency_s_max =
        storage::latency_s_max(first.parameter("request_size")?, first.parameter("depth")?, target);
    let rates: Vec<f64> = case.iter().map(|sample| sample.rate_bits_per_s()).collect();
    let latencies = case.iter().filter_map(|sample| sample.distributions.get(storage::LATENCY));
    let latencies: Vec<f64> =
        latencies.flat_map(|distribution| distribution.values.iter().copied()).collect();
    let tail = Summary::of(&latencies)?;
    Some((median(&rates) >= target && tail.p99 <= latency_s_max, first))
}

/// A figure that is kept in this unit, as people write it. Of a plain number nobody says whether it is a share.
fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "s" => Unit::Seconds.show(value),
        "B" => Unit::Bytes.show(value),
        "bit/s" => Unit::BitsPerS.show(value),
        "1" => short(value),
        _ => format!("{} {unit}", short(value)),
    }
}

/// Four digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::tests::about;
    use crate::bench::record::{LOST_BY_A_SLOW_MACHINE, Machine, NOT_ACCOUNTED, RATE};

    #[test]
    fn a_table_has_medians_laws_and_what_was_left_out() {
        let sample = |run: u32, rtt_s: f64, mbit: f64| {
            let bytes = (mbit * 1e6 / 8.0) as u64;
            let wire_cpu_s_per_gb = Some(f64::from(run));
            let sample =
                Sample { series: "tcp".into(), run, bytes, files: 1, wall_s: 1.0, ..Sample::default() };
            Sample { wire_cpu_s_per_gb, ..sample }
                .with("rtt", Quantity::number(rtt_s, "s"))
                .measured("rate", mbit * 1e6, "bit/s")
                .predicted("rate", 110e6, "bit/s")
        };
        let results = Results {
            about: about(),
            samples: vec![
                sample(1, 0.1, 100.0),
                sample(1, 0.02, 500.0),
                sample(2, 0.1, 100.0),
                sample(3, 0.1, 90.0),
            ],
            left_out: vec![super::super::record::LeftOut { what: "bbr".into(), why: "not here".into() }],
            has_end: false,
        };
        let text = of(&results);
        let near = text.find("rtt 0.02 s").unwrap();
        let far = text.find("rtt 0.1 s").unwrap();
        assert!(near < far, "{text}");
        let far_row = text.lines().find(|line| line.contains("rtt 0.1 s")).unwrap();
        assert!(far_row.trim_start().starts_with("100.0"), "{far_row}");
        assert!(far_row.contains("90.0 to 100.0 (75 %)"), "{far_row}");
        assert!(far_row.ends_with("; the path itself 2.000 CPU-s/GB"), "{far_row}");
        assert!(text.contains("law of rate, tcp: off by 16.1 %"), "{text}");
        assert!(text.contains("left out: bbr: not here") && !text.contains("VOID"));
        let mut results = results;
        results.samples[0] = results.samples[0].clone().measured(LOST_BY_A_SLOW_MACHINE, 3.0, "1");
        assert!(of(&results).contains("; 1 of 3 runs VOID: this machine was too slow"), "{}", of(&results));
        assert!(told(&results.samples[0]).contains("VOID") && !told(&results.samples[1]).contains("VOID"));
    }

    #[test]
    fn a_table_has_the_command_that_repeats_it_and_of_what_others_measured_only_what_is_known() {
        let mut results = Results { about: about(), samples: vec![], left_out: vec![], has_end: false };
        results.about.more = [("rsync".into(), "3.5.0".into())].into();
        let text = of(&results);
        assert!(text.contains("\nencryption: AES-128-GCM; verification: every segment"), "{text}");
        assert!(text.contains("\nrsync: 3.5.0\n"), "{text}");
        assert!(text.ends_with("\nrepeat it: thalweg bench latency\n"), "{text}");
        let about = &mut results.about;
        (about.command, about.machine) = (String::new(), Machine::default());
        (about.encryption, about.verification) = (String::new(), String::new());
        about.more.clear();
        let text = of(&results);
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn runs_that_are_void_or_failed_are_in_no_median_and_are_told() {
        let sample = |mbit: f64, mark: Option<&str>| {
            let bytes = (mbit * 1e6 / 8.0) as u64;
            let sample = Sample { bytes, files: 1, wall_s: 1.0, cpu_s: Some(1.0), ..Sample::default() };
            mark.map_or(sample.clone(), |mark| sample.measured(mark, 1.0, "1"))
        };
        let (void, failed) = (sample(900.0, Some(LOST_BY_A_SLOW_MACHINE)), sample(10.0, Some(NOT_ACCOUNTED)));
        let good = [sample(500.0, None), sample(510.0, None)];
        let said = row(&[&void, &good[0], &failed, &good[1]]);
        assert!(said.trim_start().starts_with("505.0      505.0"), "{said}");
        assert!(said.contains("500.0 to 510.0"), "{said}");
        assert!(said.contains("; 1 of 4 runs VOID: ") && said.contains("; 1 of 4 runs FAILED: "), "{said}");
        let nothing = row(&[&void, &failed]);
        assert!(nothing.trim_start().starts_with("-          -         -  - "), "{nothing}");
        assert!(nothing.contains("; 1 of 2 runs VOID: "), "{nothing}");
    }

    #[test]
    fn many_values_are_told_in_the_unit_that_suits_their_size_and_plain_numbers_without_one() {
        let sample = Sample { bytes: 1 << 20, files: 1, wall_s: 1.0, ..Sample::default() };
        let sample =
            sample.distributed("rate", "bit/s", vec![14_631_658.0]).distributed("share", "1", vec![0.791]);
        let said = row(&[&sample.distributed("lag", "s", vec![0.0125])]);
        assert!(said.contains("; lag P50 12.5 ms P90 12.5 ms P99 12.5 ms max 12.5 ms"), "{said}");
        assert!(said.contains("; rate P50 14.6 Mbit/s ") && !said.contains("bit/s bit/s"), "{said}");
        assert!(said.contains("; share P50 0.791 P90 0.791 P99 0.791 max 0.791"), "{said}");
        assert!(!said.contains("0.791 1"), "{said}");
    }

    #[test]
    fn where_a_suite_has_a_rate_of_its_own_that_is_told() {
        let sample = Sample { bytes: 100_000_000, files: 1, wall_s: 4.0, ..Sample::default() };
        let sample = sample.measured(RATE, 800e6, "bit/s");
        assert!(told(&sample).ends_with("4.000 s, 800.0 Mbit/s"), "{}", told(&sample));
        assert!(row(&[&sample]).trim_start().starts_with("800.0 "), "{}", row(&[&sample]));
    }

    #[test]
    fn a_row_of_predictions_says_how_many_were_in_the_range_and_what_was_wrong() {
        let sample = |took: f64, is_within: f64, wrong: &str| {
            let sample = Sample { bytes: 1 << 20, files: 1, wall_s: took, ..Sample::default() };
            let mut sample = sample.predicted(predict::TOOK, 2.0, "s").measured(predict::TOOK, took, "s");
            sample.measured.insert(predict::WRONG.into(), wrong.into());
            let [low, high] = predict::RANGE;
            sample.measured(low, 1.0, "s").measured(high, 3.0, "s").measured(
                predict::IN_RANGE,
                is_within,
                "1",
            )
        };
        let samples = [sample(2.5, 1.0, "bytes"), sample(3.5, 0.0, "start"), sample(2.6, 1.0, "bytes")];
        let said = row(&samples.iter().collect::<Vec<_>>());
        let expected =
            "; predicted 2.000 s (1.000 to 3.000), took 2.600 s, 2 of 3 in the range; wrong most: bytes";
        assert!(said.contains(expected), "{said}");
        let mut nothing = Sample { wall_s: 1.0, ..Sample::default() };
        nothing.measured.insert(predict::MISSING.into(), "bytes".into());
        assert!(row(&[&nothing]).contains("; nothing was known of bytes"));
    }

    #[test]
    fn a_row_of_slots_says_how_many_producers_had_none() {
        let sample = |refused: f64| {
            let sample = Sample { bytes: 1 << 20, wall_s: 1.0, ..Sample::default() };
            let sample = sample.with("producers", Quantity::number(8.0, "1")).measured("worst", 0.2, "s");
            sample.measured("refused", refused, "1")
        };
        let samples = [sample(2.0), sample(3.0)];
        let said = row(&samples.iter().collect::<Vec<_>>());
        assert!(said.contains("; 3 of 8 producers refused"), "{said}");
        let told_one = told(&samples[1]);
        assert!(told_one.ends_with("worst 0.200 s; 3 of 8 producers refused"), "{told_one}");
        assert!(!row(&[&sample(0.0)]).contains("refused") && !told(&sample(0.0)).contains("refused"));
        let carried = samples.map(|sample| sample.measured(CARRIED, 0.481, "1"));
        let said = row(&carried.iter().collect::<Vec<_>>());
        assert!(said.contains("; 3 of 8 producers refused; 48 % of the line carried"), "{said}");
        let all = told(&sample(0.0).measured(CARRIED, 0.159, "1"));
        assert!(all.ends_with("; 16 % of the line carried"), "{all}");
    }

    #[test]
    fn a_row_of_a_lossy_path_says_how_many_packets_were_lost() {
        let sample = |loss: f64, lost: f64| {
            let sample = Sample { bytes: 1 << 20, files: 1, wall_s: 1.0, ..Sample::default() };
            sample.with("loss", Quantity::number(loss, "1")).measured("packets_lost", lost, "1")
        };
        let said = |samples: &[Sample]| row(&samples.iter().collect::<Vec<_>>());
        let many = said(&[sample(1e-3, 40.0), sample(1e-3, 44.0)]);
        assert!(many.contains("; 42.0 packets lost in a run") && !many.contains("few"), "{many}");
        let few = said(&[sample(1e-5, 1.0)]);
        assert!(few.contains("; 1.000 packet lost in a run, too few to judge by"), "{few}");
        let void = sample(1e-3, 900.0).measured(LOST_BY_A_SLOW_MACHINE, 860.0, "1");
        let counted = said(&[sample(1e-3, 40.0), void.clone(), void]);
        assert!(counted.contains("; 40.0 packets lost in a run"), "{counted}");
        assert!(!said(&[sample(0.0, 0.0)]).contains("lost"));
    }

    #[test]
    fn the_storage_rule_wants_the_rate_and_quick_answers() {
        let case = |mbit: f64, latency_s: f64| {
            let bytes = (mbit * 1e6 / 8.0) as u64;
            let latency = super::super::record::Distribution { unit: "s".into(), values: vec![latency_s; 4] };
            let mut sample = Sample { bytes, files: 1, wall_s: 1.0, ..Sample::default() };
            sample.distributions.insert(storage::LATENCY.into(), latency);
            let sample = sample.with("direction", "read".into()).with("way", "direct".into());
            let sample = sample.with("request_size", Quantity::number(1048576.0, "B"));
            sample.with("depth", Quantity::number(1.0, "1")).measured(storage::TARGET, 1e9, "bit/s")
        };
        let is_good = |sample: &Sample| meets_rule(&[sample]).map(|(is_good, _)| is_good);
        assert_eq!(is_good(&case(2000.0, 0.001)), Some(true));
        assert_eq!(is_good(&case(900.0, 0.001)), Some(false), "too slow");
        assert_eq!(is_good(&case(2000.0, 0.1)), Some(false), "too late");
        // Fifteen others in flight are 126 ms at the target rate.
        let deep = |latency_s| case(2000.0, latency_s).with("depth", Quantity::number(16.0, "1"));
        assert_eq!((is_good(&deep(0.13)), is_good(&deep(0.14))), (Some(true), Some(false)));
        let cached = case(2000.0, 0.001).with("way", "cached".into());
        assert_eq!(is_good(&cached), None, "the speed of memory");
        let told = |case: &Sample| {
            let mut out = String::new();
            storage_rule(&mut out, &[vec![case]]);
            out
        };
        let held = told(&case(2000.0, 0.001));
        assert!(held.starts_with("storage rule, read: 1 of 1 ways past the page cache hold it\n"), "{held}");
        assert_eq!(told(&cached), "storage rule, read: no way past the page cache was measured\n");
        assert_eq!(is_good(&Sample { measured: [].into(), ..case(2000.0, 0.001) }), None);
        let good = case(2000.0, 0.001);
        let void = case(900.0, 0.1).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
        let of_several = meets_rule(&[&void, &good, &void]).map(|(is_good, sample)| (is_good, sample.bytes));
        assert_eq!(of_several, Some((true, good.bytes)), "what is void does not count");
    }
}
