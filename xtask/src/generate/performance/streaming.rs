//! The sections of docs/performance.md from committed results of `thalweg bench`: about data that are still being made,
//! about clients that share a line, and about predictions (those of `cargo xtask bench` have another form:
//! [`crate::bench::record`]).

use super::congest;
use crate::bench::stale;
use crate::bench::suite::usual_runs;
use crate::bench::tell::{self, Goal, number};
use crate::generate::results;
use anyhow::Result;
use std::fmt::Write;
use thalweg_lab::bench::record::{About, NOT_ACCOUNTED, PathKind, Quantity, Results, Sample, counting};
use thalweg_lab::bench::statistics::{Series, median, ratios};
use thalweg_lab::bench::suite::{CARRIED, predict};
use thalweg_lab::plot::unit::Unit;
use thalweg_mover::model::score::nearest_rank;

/// One question.
struct Section {
    title: &'static str,
    /// The suite of `thalweg bench`.
    suite: &'static str,
    asks: &'static str,
    tell: fn(&Results) -> String,
}

const SECTIONS: [Section; 6] = [
    Section {
        title: "A scan, in files or as a stream",
        suite: "frames",
        asks: "How long after its last frame is a scan of 1440 frames at the far side (003 Fig 4), or one of fewer, of the \
               same size and at the same rates, where it says so below? Files are copied as each is finished; streams leave \
               as they are made. Goal: at the high rate a stream takes at most a tenth of \
               the time of small files, each copied by a command of its own.",
        tell: scan,
    },
    Section {
        title: "Files that grow, beside the same files at rest",
        suite: "sweep streaming",
        asks: "Does it cost anything not to wait for files to be finished (000 Figs 6 and 9)? Files that grow as fast as the \
               disk takes them are streamed, and the same files are copied at rest, over the same path. Goal: from 64 MiB up \
               at least 0.9 × the rate of the copy.",
        tell: growing,
    },
    Section {
        title: "How late",
        suite: "lag",
        asks: "How long after it was written, to a pipe or to a file that grows, is a message readable at the far side (003 section 2.1: the worst case counts)? \
               Half of the round trip is the path's own. Frames are pushed and pulled by way of a hub, in a daemon beside the \
               consumer or in the consumer's own process; where fewer are carried than are due, they wait for their turn, which counts \
               from when they were due; none is lost. A consumer that takes one frame each 10 ms drops the others by its policy; for one \
               that stands still the hub spills them, and it takes them all when it goes on. Each frame that was given is held against \
               what was taken and what was named as lost. Goal: it is in exactly one of them.",
        tell: lag,
    },
    Section {
        title: "Several producers on one line",
        suite: "slots",
        asks: "How late is the worst burst of producers that share a line: all at once, evenly apart, or in slots that a daemon \
               promises (003 Figs 2 and 3)? What a slot promises counts until data are durable. Goal: no promise is broken.",
        tell: slots,
    },
    Section {
        title: "Clients on one line, together or apart",
        suite: "congest",
        asks: congest::ASKS,
        tell: congest::tell,
    },
    Section {
        title: "Predicted, and how long it took",
        suite: "predict",
        asks: "Does a copy take as long as `thalweg predict` said before it? Ways with different narrowest stages; each copy is \
               predicted by a probe alone, as of a way that nobody knows, or by one, two, three earlier copies. Goals: at \
               least 0.95 of them in the range that was given; its middle off by at most 15 % in the median by a probe, 10 % by \
               earlier copies; its high end at most 10 times its low one in the median by a probe, 3 times by earlier copies.",
        tell: predictions,
    },
];

/// The sections of a page, in Markdown: what each suite asks, and what was measured.
///
/// # Errors
/// If a result cannot be read.
pub fn sections() -> Result<String> {
    let results = results::all()?;
    let mut out = String::new();
    for section in &SECTIONS {
        write!(out, "\n## {}\n\n{}\n\n", section.title, section.asks)?;
        let file = format!("bench/results/{}.jsonl", section.suite.replace(' ', "-"));
        // Near and far are files of their own.
        let of_it = results.iter().filter(|(_, results)| results.about.suite == section.suite);
        for (at, (_, results)) in of_it.clone().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            writeln!(out, "{}", (section.tell)(results))?;
            let machine = &results.about.machine;
            let asked = results.about.iterations as usize;
            let fewer = tell::fewer(asked, usual_runs(section.suite));
            let weakness = tell::weakness(fewest_runs(results), fewer, machine.load, machine.cores.into());
            let void = results.void().map(|void| tell::void_of(&void));
            let rootless = tell::rootless(results.about.commit.as_deref());
            let stale = tell::staleness(stale::difference(results));
            for line in [weakness, rootless, stale, void].iter().flatten() {
                writeln!(out, "{line}\n")?;
            }
            writeln!(out, "{}", origin(&results.about))?;
            for scaled in &results.about.scaling.changes {
                writeln!(out, "Made smaller: {}: {} → {}.", scaled.what, scaled.from, scaled.to)?;
            }
        }
        if of_it.count() == 0 {
            writeln!(out, "Not measured yet: `thalweg bench {} --out {file}`.", section.suite)?;
        }
    }
    Ok(out)
}

/// Counted runs of the case that has the fewest: a result is as weak as that.
fn fewest_runs(results: &Results) -> usize {
    results.cases().iter().map(|case| counting(case).len()).min().unwrap_or(0)
}

/// Which command made a result, on what, when, built from which commit.
fn origin(about: &About) -> String {
    format!(
        "`{}`: {}. {}; load before it began {}; {}{}.",
        about.command,
        tell::runs_of(about.iterations as usize),
        tell::machine_of(about),
        about.machine.load,
        tell::day(about),
        tell::commit(about),
    )
}

/// What the emulated path itself cost in the runs of a case that count.
pub(super) fn path_cost(results: &Results, case: &[&Sample]) -> String {
    // Of results from before samples said it, the whole says which path they took.
    let is_said = results.samples.iter().any(Sample::is_emulated);
    let is_far = !is_said && matches!(results.about.path, PathKind::Testbed { .. });
    let mut over = counting(case);
    over.retain(|sample| is_far || sample.is_emulated() || sample.wire_cpu_s_per_gb.is_some());
    if over.is_empty() { tell::NO_WIRE.to_owned() } else { tell::wire_cost_of(&over) }
}

fn scan(results: &Results) -> String {
    // A file for each frame.
    let frames = results.counting().map(|sample| sample.files).max().unwrap_or_default();
    let small = format!("{frames} files");
    let after = |series: &str, period: f64| -> f64 {
        let of = results.counting().filter(|sample| sample.series == series);
        let of = of.filter(|sample| sample.parameter("period") == Some(period));
        median(&of.filter_map(|sample| measured(sample, "after_last_frame")).collect::<Vec<_>>())
    };
    let by_run = |series: &str, period: f64| -> Series {
        let of = results.counting().filter(|sample| sample.series == series);
        let of = of.filter(|sample| sample.parameter("period") == Some(period));
        of.filter_map(|sample| Some((sample.run as usize, measured(sample, "after_last_frame")?))).collect()
    };
    let cost = |series: &str| {
        let of: Vec<&Sample> = results.samples.iter().filter(|sample| sample.series == series).collect();
        path_cost(results, &of)
    };
    let mut periods: Vec<f64> = results.counting().filter_map(|sample| sample.parameter("period")).collect();
    periods.sort_by(f64::total_cmp);
    periods.dedup();
    let mut out = format!("{}\n\n| way |", ways(&results.series()));
    for period in &periods {
        let _ = write!(out, " after the last frame, a frame each {} | of {small} |", seconds(*period));
    }
    let _ = writeln!(out, " the path's own CPU-s/GB |\n|---|{}---|", "---|---|".repeat(periods.len()));
    for series in results.series() {
        let _ = write!(out, "| {series} |");
        for (at, period) in periods.iter().enumerate() {
            let share = after(series, *period) / after(&small, *period);
            let verdict = match (series, at) {
                ("stream", 0) => {
                    let rounds = ratios(&by_run(series, *period), &by_run(&small, *period));
                    format!("; {}", Goal::AtMost(0.1).verdict_within(share, &rounds))
                }
                _ => String::new(),
            };
            let _ = write!(out, " {} | {}{verdict} |", seconds(after(series, *period)), number(share));
        }
        let _ = writeln!(out, " {} |", cost(series));
    }
    out
}

/// How files travel in the series that there are.
fn ways(series: &[&str]) -> String {
    let has = |end: &str| series.iter().any(|name| name.ends_with(end));
    let mut ways = "Of files each has a command of its own, one after another".to_owned();
    if has(" at once") {
        ways += ", or several at once";
    }
    if has(", watched") {
        ways += "; or one watch copies each whose marker is there";
    }
    if has(", streamed") {
        ways += "; or one stream takes them as they grow";
    }
    ways + "."
}

fn growing(results: &Results) -> String {
    const FROM_BYTES: f64 = 67_108_864.0;
    let (grown, rested) =
        ("files that grow as fast as the disk takes them", "the same files at rest, copied");
    let runs = |series: &str, like: &Sample| {
        let of = results.counting().filter(|sample| sample.series == series);
        of.filter(|sample| sample.parameters == like.parameters).collect::<Vec<_>>()
    };
    let rate =
        |runs: &[&Sample]| median(&runs.iter().map(|sample| sample.rate_bits_per_s()).collect::<Vec<_>>());
    let by_run = |runs: &[&Sample]| -> Series {
        runs.iter().map(|sample| (sample.run as usize, sample.rate_bits_per_s())).collect()
    };
    let mut cases = results.counting_cases();
    cases.retain(|case| case[0].series == grown);
    let place =
        |case: &[&Sample]| ["rtt", "file_size"].map(|name| case[0].parameter(name).unwrap_or_default());
    cases.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut out = String::from(
        "| round trip | size of a file | growing | at rest | growing over at rest | the path's own CPU-s/GB, growing | at \
         rest |\n|---|---|---|---|---|---|---|\n",
    );
    for case in cases {
        let [rtt, bytes] = place(&case);
        let both = [grown, rested].map(|series| runs(series, case[0]));
        let (grown, rested) = (rate(&both[0]), rate(&both[1]));
        let verdict = match bytes >= FROM_BYTES {
            true => {
                let rounds = ratios(&by_run(&both[0]), &by_run(&both[1]));
                format!("; {}", Goal::AtLeast(0.9).verdict_within(grown / rested, &rounds))
            }
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}{verdict} | {} | {} |",
            seconds(rtt),
            Unit::Bytes.show(bytes),
            Unit::BitsPerS.show(grown),
            Unit::BitsPerS.show(rested),
            number(grown / rested),
            path_cost(results, &both[0]),
            path_cost(results, &both[1]),
        );
    }
    out
}

fn lag(results: &Results) -> String {
    let mut out = String::from(
        "| what | message | one each | round trip | carried | P50 | P90 | P99 | worst | CPU-s/GB | taken, or named as lost | the path's own \
         CPU-s/GB |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for case in results.cases() {
        let parameter = |name: &str| case[0].parameter(name).unwrap_or_default();
        let counted = counting(&case);
        let all =
            |name: &str| -> Vec<f64> { counted.iter().filter_map(|sample| measured(sample, name)).collect() };
        let of = |name: &str| seconds(median(&all(name)));
        let carried = all("frames_per_s");
        let cost: Vec<f64> = counted.iter().filter_map(|sample| sample.cpu_s_per_gb()).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            case[0].series,
            Unit::Bytes.show(parameter("message_size")),
            seconds(parameter("period")),
            seconds(parameter("rtt")),
            match carried.is_empty() {
                true => "as they are due".to_owned(),
                false => format!("{} each second", number(median(&carried))),
            },
            of("lag_p50"),
            of("lag_p90"),
            of("lag_p99"),
            of("lag_max"),
            if cost.is_empty() { "–".to_owned() } else { number(median(&cost)) },
            // What failed is told here, and nowhere else.
            accounted(&case),
            path_cost(results, &case),
        );
    }
    if results.samples.iter().all(|sample| sample.series != "stream of a file that grows") {
        out.push_str("\nFiles that grow: Not measured yet.\n");
    }
    if results.samples.iter().all(|sample| measured(sample, "given").is_none()) {
        out.push_str("\nConsumers that are too slow: Not measured yet.\n");
    }
    out
}

/// What became of the frames that a slow consumer was given, over all runs.
fn accounted(case: &[&Sample]) -> String {
    let sum = |name: &str| case.iter().filter_map(|sample| measured(sample, name)).sum::<f64>();
    let counted = case.iter().filter(|sample| measured(sample, "given").is_some()).count();
    if counted == 0 {
        return "all taken".to_owned();
    }
    let mut words = match case[0].parameter("stall") {
        Some(stall) => format!("after {} of rest, ", seconds(stall)),
        None => String::new(),
    };
    let (taken, given, named) = (sum("taken"), sum("given"), sum("named_as_lost"));
    let _ = write!(words, "of {given} taken {taken}, named {named}");
    let spilled: Vec<f64> = case.iter().filter_map(|sample| measured(sample, "spilled")).collect();
    if !spilled.is_empty() {
        let _ = write!(words, ", spilled {}", Unit::Bytes.show(median(&spilled)));
    }
    let wrong = case.iter().filter(|sample| sample.is_wrong()).count();
    let is_spilled = spilled.iter().all(|bytes| *bytes > 0.0);
    let verdict = match wrong {
        0 if counted == case.len() && is_spilled => "met".to_owned(),
        0 if !is_spilled => "**missed by all: nothing was spilled**".to_owned(),
        0 => format!("**missed by {} of {} runs, which were not counted**", case.len() - counted, case.len()),
        _ => format!("**missed by {} frames, in {wrong} of {} runs**", sum(NOT_ACCOUNTED), case.len()),
    };
    format!("{words}: {verdict}")
}

fn slots(results: &Results) -> String {
    let mut out = String::from(
        "| load | starts | refused | carried | worst from its start | worst from ready | promised, worst | until durable, worst | promises kept | \
         the path's own CPU-s/GB |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut cases = results.counting_cases();
    let load = |case: &[&Sample]| case[0].parameter("load").unwrap_or_default();
    cases.sort_by(|a, b| load(a).total_cmp(&load(b)));
    for case in cases {
        let worst = |name: &str| {
            case.iter().filter_map(|sample| measured(sample, name)).reduce(f64::max).unwrap_or(f64::NAN)
        };
        let promised = case.iter().filter_map(|sample| promised(sample)).reduce(f64::max);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            number(load(&case)),
            case[0].series,
            worst("refused") as u64,
            carried(&case),
            seconds(worst("worst")),
            seconds(worst("worst_lag")),
            promised.map_or("–".to_owned(), seconds),
            seconds(worst("worst_durable")),
            promises(&case),
            path_cost(results, &case),
        );
    }
    out
}

/// Which share of the line was carried, in the median; results from before it was measured do not say.
fn carried(case: &[&Sample]) -> String {
    let carried = case.iter().filter_map(|sample| measured(sample, CARRIED)).collect::<Vec<_>>();
    if carried.is_empty() { "–".to_owned() } else { format!("{:.0} %", median(&carried) * 100.0) }
}

/// The largest promise of a run.
fn promised(sample: &Sample) -> Option<f64> {
    sample.predicted.get("promised")?.value()
}

/// Whether promises were kept, over all runs. Older results say no more of a run than its largest promise and its
/// longest lag, which need not be of one producer.
fn promises(case: &[&Sample]) -> String {
    let (mut made, mut kept, mut missed_by, mut is_by_worst) = (0, 0, 0.0_f64, false);
    for sample in case {
        let each = ["promises", "promises_kept", "promise_missed_by"].map(|name| measured(sample, name));
        if let [Some(all), Some(good), Some(by)] = each {
            made += all as usize;
            kept += good as usize;
            missed_by = missed_by.max(by);
        } else if let (Some(promised), Some(took)) = (promised(sample), measured(sample, "worst_durable")) {
            made += 1;
            kept += usize::from(took <= promised);
            missed_by = missed_by.max(took / promised - 1.0);
            is_by_worst = true;
        }
    }
    let by = if is_by_worst { ", by the largest promise and the longest lag of each run" } else { "" };
    match made {
        0 => "none made".to_owned(),
        all if all == kept => format!("all {all}: met{by}"),
        all => format!("{kept} of {all}: **missed by {:.1} %**{by}", missed_by * 100.0),
    }
}

fn predictions(results: &Results) -> String {
    let mut out = String::from(
        "| way | rests on | predicted | range | took | in the range | middle off by | wrong most | the path's own CPU-s/GB |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let [low, high] = predict::RANGE;
    let mut all: [Vec<&Sample>; 2] = Default::default();
    for case in results.counting_cases() {
        let of = |name: &str| case.iter().filter_map(|sample| measured(sample, name)).collect::<Vec<_>>();
        let shape = case[0].parameters.get("shape").and_then(Quantity::word).unwrap_or("?");
        let series = &case[0].series;
        let (within, cost) = (of(predict::IN_RANGE), path_cost(results, &case));
        if within.is_empty() {
            let _ = writeln!(out, "| {shape} | {series} | nothing | | | | | | {cost} |");
            continue;
        }
        let kept = within.iter().filter(|is| **is > 0.0).count();
        let is_told = |sample: &&&Sample| measured(sample, predict::IN_RANGE).is_some();
        all[usize::from(series != predict::BY_PROBE)].extend(case.iter().filter(is_told).copied());
        let said = case.iter().filter_map(|sample| sample.predicted.get(predict::TOOK)?.value());
        let _ = writeln!(
            out,
            "| {shape} | {series} | {} | {} to {} | {} | {kept} of {} | {} | {} | {cost} |",
            seconds(median(&said.collect::<Vec<_>>())),
            seconds(median(&of(low))),
            seconds(median(&of(high))),
            seconds(median(&of(predict::TOOK))),
            within.len(),
            Unit::Share.show(median(&of(predict::OFF))),
            predict::wrong_most(&case).unwrap_or("–"),
        );
    }
    out.push('\n');
    for (goals, all) in PREDICTED.into_iter().zip(&all) {
        let of = |name: &str| all.iter().filter_map(|sample| measured(sample, name)).collect::<Vec<_>>();
        let held = of(predict::IN_RANGE).iter().filter(|is| **is > 0.0).count();
        let verdict = Goal::AtLeast(0.95).verdict(held as f64 / all.len() as f64);
        if all.is_empty() {
            let _ = writeln!(out, "In the range {}: none, {verdict}.\n", goals.series);
            continue;
        }
        let off = median(&of(predict::OFF));
        let off_verdict = Goal::AtMost(goals.off).verdict_showing(off, |bound| Unit::Share.show(bound));
        let widths: Vec<f64> = of(low)
            .into_iter()
            .zip(of(high))
            .filter(|(low, _)| *low > 0.0)
            .map(|(low, high)| high / low)
            .collect();
        let (width, needed) = (median(&widths), width_needed(all));
        let width_verdict = Goal::AtMost(goals.width).verdict(width);
        let _ = writeln!(
            out,
            "In the range {}: {held} of {}, {verdict}. The middle is off by {} in the median, {off_verdict}. The high end is \
             {} times the low one in the median, {width_verdict}; with such middles {} times would have held 95 of 100.\n",
            goals.series,
            all.len(),
            Unit::Share.show(off),
            number(width),
            number(needed),
        );
    }
    out
}

/// What is wanted of predictions that rest on the same, beside that 95 of 100 are in their range.
struct Predicted {
    series: &'static str,
    /// How far the middle may be off in the median, as a share.
    off: f64,
    /// How many times its low end the high one may be in the median.
    width: f64,
}

/// A range that holds everything says nothing: so its middle and its width have goals as well.
const PREDICTED: [Predicted; 2] = [
    Predicted { series: predict::BY_PROBE, off: 0.15, width: 10.0 },
    Predicted { series: predict::BY_EARLIER, off: 0.1, width: 3.0 },
];

/// How many times its low end the high one has to be for 95 of 100 of these, if all ranges are as wide and each is as
/// far above its middle as below.
fn width_needed(samples: &[&Sample]) -> f64 {
    let off = |sample: &&Sample| {
        let middle = sample.predicted.get(predict::TOOK)?.value()?;
        Some((measured(sample, predict::TOOK)? / middle).ln().abs())
    };
    let mut all: Vec<f64> = samples.iter().filter_map(off).filter(|off| off.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    if all.is_empty() { f64::NAN } else { (2.0 * nearest_rank(&all, 95)).exp() }
}

/// What was measured of a sample, if it is a number.
pub(super) fn measured(sample: &Sample, name: &str) -> Option<f64> {
    sample.measured.get(name).and_then(Quantity::value)
}

fn seconds(value: f64) -> String {
    Unit::Seconds.show(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_lab::bench::record::LOST_BY_A_SLOW_MACHINE;

    /// A run of a slow consumer.
    fn run(numbers: &[(&str, f64)]) -> Sample {
        let sample = Sample { series: "frames, a slow consumer".into(), wall_s: 1.0, ..Sample::default() };
        numbers.iter().fold(sample, |sample, (name, value)| sample.measured(name, *value, "1"))
    }

    #[test]
    fn what_is_not_accounted_for_is_a_goal_that_was_missed() {
        let of = |runs: &[Sample]| accounted(&runs.iter().collect::<Vec<_>>());
        let good = [("given", 2000.0), ("taken", 300.0), ("named_as_lost", 1700.0), (NOT_ACCOUNTED, 0.0)];
        let bad = [("given", 2000.0), ("taken", 300.0), ("named_as_lost", 1695.0), (NOT_ACCOUNTED, 5.0)];
        assert_eq!(of(&[run(&good), run(&good)]), "of 4000 taken 600, named 3400: met");
        let missed = "of 4000 taken 600, named 3395: **missed by 5 frames, in 1 of 2 runs**";
        assert_eq!(of(&[run(&good), run(&bad)]), missed);
        assert_eq!(of(&[run(&[]), run(&[])]), "all taken");
        assert!(of(&[run(&good), run(&[])]).ends_with("**missed by 1 of 2 runs, which were not counted**"));
    }

    #[test]
    fn a_stall_in_which_nothing_was_spilled_shows_nothing() {
        let of = |spilled: f64| {
            let numbers = [("given", 9.0), ("taken", 9.0), ("named_as_lost", 0.0), (NOT_ACCOUNTED, 0.0)];
            let run = run(&numbers).measured("spilled", spilled, "B");
            accounted(&[&run.with("stall", Quantity::number(30.0, "s"))])
        };
        assert_eq!(of(1e9), "after 30 s of rest, of 9 taken 9, named 0, spilled 954 MiB: met");
        assert!(of(0.0).ends_with("**missed by all: nothing was spilled**"), "{}", of(0.0));
    }

    #[test]
    fn a_scan_that_was_made_smaller_is_held_against_as_many_files_as_it_has_frames() {
        let of = |series: &str, files: u64, after_s: f64| {
            let sample = Sample { series: series.into(), files, wall_s: 5.0, ..Sample::default() };
            let sample = sample.with("period", Quantity::number(0.033, "s"));
            sample.measured("after_last_frame", after_s, "s")
        };
        let mut results = results::all().unwrap().remove(0).1;
        results.samples = vec![of("144 files", 144, 8.0), of("1 file", 1, 4.0), of("stream", 1, 0.4)];
        let told = scan(&results);
        assert!(told.contains("| of 144 files |"), "{told}");
        assert!(told.contains("| stream | 400 ms | 0.050; at most 0.1: met |"), "{told}");
    }

    #[test]
    fn a_goal_is_judged_without_the_runs_that_are_void() {
        let of = |series: &str| Sample { series: series.into(), wall_s: 1.0, ..Sample::default() };
        let void = |sample: Sample| sample.measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
        let mut results = results::all().unwrap().remove(0).1;
        results.about.path = PathKind::Loopback;

        let copied = |series: &str, wall_s: f64| {
            let sample = Sample { bytes: 1 << 30, wall_s, ..of(series) };
            sample.with("file_size", Quantity::number(134_217_728.0, "B"))
        };
        let (grown, rested) =
            ("files that grow as fast as the disk takes them", "the same files at rest, copied");
        results.samples = vec![copied(grown, 2.0), copied(rested, 1.0)];
        let told = growing(&results);
        assert!(told.contains("at least 0.9: **missed by"), "{told}");
        let spoilt = [copied(grown, 0.1), copied(grown, 0.1), copied(rested, 9.0), copied(rested, 9.0)];
        results.samples.extend(spoilt.map(void));
        assert_eq!(growing(&results), told);

        let promise = |durable_s: f64| {
            let sample =
                of("slots").with("load", Quantity::number(0.64, "1")).predicted("promised", 0.9, "s");
            let sample = sample.measured("refused", 0.0, "1").measured("worst", 0.2, "s");
            sample.measured("worst_lag", 0.7, "s").measured("worst_durable", durable_s, "s")
        };
        results.samples = vec![promise(0.8)];
        let told = slots(&results);
        assert!(told.contains("all 1: met") && told.contains("| slots | 0 | – | 200 ms |"), "{told}");
        results.samples.push(void(promise(5.0)));
        assert_eq!(slots(&results), told);
        results.samples = vec![promise(0.8).measured(CARRIED, 0.798, "1")];
        assert!(slots(&results).contains("| slots | 0 | 80 % | 200 ms |"), "{}", slots(&results));

        // That frames vanished is told whatever the machine did; their lags are nobody's.
        let frames = |lag_s: f64, lost: f64| {
            let numbers =
                [("given", 9.0), ("taken", 9.0 - lost), ("named_as_lost", 0.0), (NOT_ACCOUNTED, lost)];
            run(&numbers).measured("lag_p50", lag_s, "s")
        };
        results.samples = vec![frames(0.5, 0.0), frames(80.0, 1.0), void(frames(90.0, 0.0))];
        let told = lag(&results);
        let missed = "of 27 taken 26, named 0: **missed by 1 frames, in 1 of 3 runs**";
        assert!(told.contains("| 500 ms | – | – | – | – |") && told.contains(missed), "{told}");
    }

    #[test]
    fn each_row_has_what_its_path_cost_or_that_nobody_noted_it_or_that_there_was_none() {
        let of = |series: &str, cost: Option<f64>| Sample {
            series: series.into(),
            wall_s: 1.0,
            wire_cpu_s_per_gb: cost,
            ..Sample::default()
        };
        let far = |cost| of("slots", cost).measured(LOST_BY_A_SLOW_MACHINE, 0.0, "1");
        let mut results = results::all().unwrap().remove(0).1;
        let near = of("slots", None);
        let cost = |results: &Results| path_cost(results, &results.samples.iter().collect::<Vec<_>>());
        results.about.path =
            PathKind::Testbed { rtt_s: None, rate_bits_per_s: None, loss: None, mtu_bytes: 1500 };
        results.samples =
            vec![far(Some(2.5)), near.clone(), far(Some(99.0)).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1")];
        assert_eq!(cost(&results), "2.50", "of those alone that took the path and count");
        assert_eq!(path_cost(&results, &[&near]), "–");
        let told = slots(&results);
        assert!(told.lines().nth(2).is_some_and(|row| row.ends_with("| 2.50 |")), "{told}");
        for told in [told, lag(&results), scan(&results), growing(&results), predictions(&results)] {
            let table: Vec<&str> = told.lines().filter(|line| line.starts_with('|')).collect();
            let columns = |row: &&str| row.matches('|').count();
            assert!(table.iter().all(|row| columns(row) == columns(&table[0])), "{told}");
        }
        results.samples = vec![far(None)];
        assert_eq!(cost(&results), "not recorded");
        // As before samples said it.
        results.samples = vec![near];
        assert_eq!(cost(&results), "not recorded");
        results.about.path = PathKind::Loopback;
        assert_eq!(cost(&results), "–");
    }

    /// The largest promise and the longest lag of this run are of two producers, and a third's promise was missed.
    #[test]
    fn promises_are_judged_each_by_its_own_lag_and_in_older_results_it_is_said_that_they_are_not() {
        let old = Sample { series: "slots".into(), wall_s: 1.0, ..Sample::default() };
        let old = old.predicted("promised", 0.9, "s").measured("worst_durable", 0.8, "s");
        let with = |kept: f64, by: f64| {
            let new = old.clone().measured("promises", 3.0, "1").measured("promises_kept", kept, "1");
            new.measured("promise_missed_by", by, "1")
        };
        assert_eq!(promises(&[&with(3.0, 0.0), &with(3.0, 0.0)]), "all 6: met");
        assert_eq!(promises(&[&with(3.0, 0.0), &with(2.0, 0.5)]), "5 of 6: **missed by 50.0 %**");
        let told = promises(&[&old]);
        assert_eq!(told, "all 1: met, by the largest promise and the longest lag of each run");
        assert_eq!(promises(&[&Sample::default()]), "none made");
    }

    #[test]
    fn a_result_is_as_weak_as_its_case_with_the_fewest_runs_that_count() {
        let of = |series: &str, run| Sample { series: series.into(), run, ..Sample::default() };
        let mut results = results::all().unwrap().remove(0).1;
        results.samples = (1..=3).flat_map(|run| [of("a", run), of("b", run)]).collect();
        assert_eq!(fewest_runs(&results), 3);
        let void = results.samples.remove(0).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
        results.samples.push(void);
        assert_eq!(fewest_runs(&results), 2);
        results.samples.clear();
        assert_eq!(fewest_runs(&results), 0);
    }

    #[test]
    fn predictions_are_counted_apart_by_what_they_rest_on() {
        let sample = |series: &str, took: f64, is_within: f64| {
            let mut sample = Sample { series: series.into(), wall_s: took, ..Sample::default() };
            sample = sample.with("shape", "thin link".into()).predicted(predict::TOOK, 2.0, "s");
            for (name, value) in predict::RANGE.into_iter().zip([1.5, 3.0]) {
                sample = sample.measured(name, value, "s");
            }
            sample.measured.insert(predict::WRONG.into(), "bytes".into());
            sample = sample.measured(predict::TOOK, took, "s").measured(predict::OFF, 0.25, "1");
            sample.measured(predict::IN_RANGE, is_within, "1")
        };
        let mut results = results::all().unwrap().remove(0).1;
        results.samples = vec![
            sample(predict::BY_PROBE, 4.0, 0.0),
            sample(predict::BY_PROBE, 2.5, 1.0),
            sample(predict::BY_EARLIER, 2.5, 1.0),
        ];
        let told = predictions(&results);
        let row = "| thin link | by a probe | 2 s | 1.5 s to 3 s | 3.25 s | 1 of 2 | 25 % | bytes |";
        assert!(told.contains(row), "{told}");
        for part in [
            "In the range by a probe: 1 of 2, at least 0.95: **missed by 47.4 %**.",
            "In the range by earlier copies: 1 of 1, at least 0.95: met.",
            // 2 s, and it took 4 s: a range from 1 s to 4 s would have held that too.
            "The middle is off by 25 % in the median, at most 15 %: **missed by 66.7 %**. The high end is 2.00 times the low one \
             in the median, at most 10: met; with such middles 4.00 times would have held 95 of 100.",
            "at most 10 %: **missed by 150.0 %**. The high end is 2.00 times the low one in the median, at most 3: met;",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        // Without any there is nothing to be said of them.
        results.samples.retain(|sample| sample.series == predict::BY_PROBE);
        assert!(
            predictions(&results)
                .contains("In the range by earlier copies: none, at least 0.95: not measured.")
        );
    }

    #[test]
    fn a_result_that_says_its_commit_is_shown_with_it_and_an_older_one_is_shown_without() {
        let about = |commit: &str| {
            let text = format!(
                r#"{{"about":{{"suite":"lag","question":"?","date":"2026-01-02T03:04:05Z","program":"thalweg 0.1.0",{commit}
                "command":"thalweg bench lag","machine":{{"cpu":"CPU","cores":2,"memory_bytes":1,"kernel":"Linux",
                "file_system":"ext4","load":0.5}},"path":{{"kind":"loopback"}},"iterations":3,"encryption":"",
                "verification":"","scaling":{{"seed":0,"changes":[]}}}}}}"#
            );
            Results::parse(text.replace('\n', " ").as_bytes()).expect("a result").about
        };
        let older =
            "`thalweg bench lag`: 3 runs. CPU (2 cores), Linux, ext4; load before it began 0.5; 2026-01-02";
        assert_eq!(origin(&about("")), format!("{older}."));
        assert_eq!(origin(&about(r#""commit":"33fe18f","#)), format!("{older}, commit 33fe18f."));
    }
}
