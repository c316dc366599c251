//! The table of docs/guide/bench.md: what each suite found here, from the committed results of `thalweg bench`.

use crate::bench::stale;
use crate::bench::tell::{self, Goal};
use crate::checkout;
use crate::generate::goals::{self, Judged};
use crate::generate::results;
use anyhow::Result;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::record::{Quantity, Results, Sample};
use thalweg_lab::bench::statistics::{Interval, median, median_interval};
use thalweg_lab::bench::suite::{REQUESTS_EACH, faults, predict};
use thalweg_lab::bench::table;
use thalweg_lab::plot::unit::{Unit, number};
use thalweg_lab::report::FilesFit;

mod clients;

pub use clients::cold_starts;
use clients::{congestion, promised};

/// The guide.
pub const PAGE: &str = "docs/guide/bench.md";

/// Where the table stands, seen from docs.
const PLACE: &str = "guide/bench.md#what-it-found-here";

/// What was asked, and how the answer is found in a result; nothing where it has no such samples.
type Row = (&'static str, &'static str, fn(&Results) -> Option<String>);

/// By suite, in the order of the guide.
const ROWS: &[Row] = &[
    ("latency", "default buffers over a distance, one stream of TCP", window_law),
    ("streams", "streams of one window over a distance", streams),
    ("sweep bulk", "files of one size", sizes),
    ("sweep streaming", "files that grow: how long after its writer a copy is whole", growing),
    ("cca", "loss, one stream", controls),
    ("storage", "the disk", disk),
    ("concurrency", "files at once and streams", concurrency),
    ("files", "001 Eq 6 of chunks checked beside the transfer, fitted on 4 numbers of files", files),
    (
        "whole-files",
        "001 Eq 6 of whole files checked after their transfer, fitted on 4 numbers of files",
        whole_files,
    ),
    ("faults", "damage that is repaired, against the law of what is sent again", damage),
    ("layout", "reading by the place on the medium", layout),
    ("hop", "one more host on the way", hop),
    ("congest", "clients that connect anew, together or evenly apart: the longest transfer", congestion),
    (
        "slots",
        "producers at once, by a schedule, and in promised slots: the longest from ready to there",
        promised,
    ),
    ("frames", "a scan: after its last frame", scan),
    ("lag", "from written to readable far away", lag),
    ("predict", "copies that took as long as was predicted, within the range", predictions),
    ("order", "orders on a simulated array, reading, from few and many threads", order),
];

/// The guide with the table between its marks.
///
/// # Errors
/// If the guide has no marks, or a result cannot be read.
pub fn page() -> Result<String> {
    let results = results::all()?;
    let mut table = "| question | found | runs, result |\n|---|---|---|\n".to_owned();
    for Found { question, found, results, path } in all_found(&results) {
        let _ = writeln!(table, "| {question} | {found} | {} |", source(results, path));
    }
    results::shown_in(PAGE, &table)
}

/// The goals that are judged in it.
///
/// # Errors
/// If a result cannot be read.
pub fn goals() -> Result<Vec<Judged>> {
    let results = results::all()?;
    let judged = |Found { question, found, results, .. }: Found<'_>| {
        let (verdicts, stale) = (goals::counted(&found)?, stale::difference(results));
        Some(Judged::of(question, PLACE.to_owned(), verdicts, &results.about, stale))
    };
    Ok(all_found(&results).into_iter().filter_map(judged).collect())
}

/// A row of the table.
struct Found<'a> {
    question: &'static str,
    found: String,
    results: &'a Results,
    path: &'a Path,
}

fn all_found(committed: &[(PathBuf, Results)]) -> Vec<Found<'_>> {
    let mut all = Vec::new();
    for &(suite, question, of) in ROWS {
        for (path, results) in committed.iter().filter(|(_, results)| results.about.suite == suite) {
            all.extend(of(results).map(|found| Found { question, found, results, path }));
        }
    }
    all
}

fn source(results: &Results, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let date = tell::day(&results.about);
    let commit = tell::commit(&results.about);
    let runs = results.about.iterations;
    let weak = tell::weak_behind(&results.about);
    // Beside each figure that was taken through the emulated path: a real one would not do this work here.
    let cost = results.path_cpu_s_per_gb();
    let cost = cost.map(|cost| format!("; the path itself {} CPU-s/GB", number(cost))).unwrap_or_default();
    let void = results.void().map(|void| format!("; {void}")).unwrap_or_default();
    let stale = tell::stale_behind(stale::difference(results));
    let published = format!("{}{}", checkout::PUBLISHED, path.display());
    format!("{runs}, [{name}]({published}), {date}{commit}{weak}{stale}{void}{cost}")
}

/// By this share of what was measured the window law may be off, in the median.
const WINDOW_LAW_OFF_MAX: f64 = 0.15;

/// Samples that are looked at.
struct Chosen<'a>(Vec<&'a Sample>);

impl<'a> Chosen<'a> {
    /// All that count.
    fn all(results: &'a Results) -> Chosen<'a> {
        Chosen(results.counting().collect())
    }

    fn with(&self, is_it: impl Fn(&Sample) -> bool) -> Chosen<'a> {
        Chosen(self.0.iter().copied().filter(|sample| is_it(sample)).collect())
    }

    fn series(&self, name: &str) -> Chosen<'a> {
        self.with(|sample| sample.series == name)
    }

    fn at(&self, parameter: &str, value: f64) -> Chosen<'a> {
        self.with(|sample| sample.parameter(parameter) == Some(value))
    }

    fn word(&self, parameter: &str, word: &str) -> Chosen<'a> {
        self.with(|sample| sample.parameters.get(parameter) == Some(&word.into()))
    }

    /// Different values of a parameter, rising.
    fn values(&self, parameter: &str) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().filter_map(|sample| sample.parameter(parameter)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn names(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for sample in &self.0 {
            if !names.contains(&sample.series.as_str()) {
                names.push(&sample.series);
            }
        }
        names.sort_unstable();
        names
    }

    fn median(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().filter_map(|sample| of(sample)).collect();
        (!values.is_empty()).then(|| median(&values))
    }

    fn rate(&self) -> Option<f64> {
        self.median(|sample| measured(sample, "rate").or(Some(sample.rate_bits_per_s())))
    }

    fn time(&self) -> Option<f64> {
        self.median(|sample| Some(sample.wall_s))
    }

    /// Where the median of the times lies.
    fn times(&self) -> Option<Interval> {
        median_interval(&self.0.iter().map(|sample| sample.wall_s).collect::<Vec<_>>())
    }

    fn most(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        self.0.iter().filter_map(|sample| of(sample)).reduce(f64::max)
    }

    /// How far the window law is off, in the median, of how many samples, and whether it may be.
    fn window_law(&self) -> Option<String> {
        let off =
            |sample: &Sample| Some((predicted(sample, "rate")? / measured(sample, "rate")? - 1.0).abs());
        let count = self.0.iter().filter(|sample| off(sample).is_some()).count();
        let off = self.median(off)?;
        let verdict = Goal::AtMost(WINDOW_LAW_OFF_MAX).verdict_showing(off, |bound| Unit::Share.show(bound));
        Some(format!("off by {} in the median of {count} ({verdict})", Unit::Share.show(off)))
    }
}

/// A case: one of its samples, the median of their rates, and where that lies.
struct Rated<'a> {
    sample: &'a Sample,
    rate: f64,
    interval: Interval,
}

impl<'a> Rated<'a> {
    /// Those of the cases that count and are meant, the best median first: the best single run is the luckiest.
    fn best_first(results: &'a Results, is_meant: impl Fn(&Sample) -> bool) -> Vec<Rated<'a>> {
        let of = |case: Vec<&'a Sample>| {
            let rates: Vec<f64> = case.iter().map(|sample| sample.shown_rate_bits_per_s()).collect();
            Some(Rated { sample: case[0], rate: median(&rates), interval: median_interval(&rates)? })
        };
        let cases = results.counting_cases().into_iter().filter(|case| is_meant(case[0]));
        let mut rated: Vec<Rated<'a>> = cases.filter_map(of).collect();
        rated.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        rated
    }

    fn told(&self) -> String {
        let Interval { low, high, confidence } = self.interval;
        let (rate, sure) = (bits(self.rate), confidence * 100.0);
        // Of a single run nothing is sure.
        match confidence > 0.0 {
            true => format!("{rate} ({} to {}, {sure:.0} %)", bits(low), bits(high)),
            false => rate,
        }
    }
}

/// How many of them the best is not apart from.
fn not_apart(best_first: &[Rated<'_>]) -> String {
    let Some((best, others)) = best_first.split_first() else { return String::new() };
    let alike = others.iter().filter(|other| !other.interval.is_apart_from(&best.interval)).count();
    format!("not apart from {alike} of {} others", others.len())
}

fn measured(sample: &Sample, name: &str) -> Option<f64> {
    sample.measured.get(name).and_then(Quantity::value)
}

fn predicted(sample: &Sample, name: &str) -> Option<f64> {
    sample.predicted.get(name).and_then(Quantity::value)
}

fn bits(value: f64) -> String {
    Unit::BitsPerS.show(value)
}

fn seconds(value: f64) -> String {
    Unit::Seconds.show(value)
}

fn ends(values: &[f64]) -> Option<(f64, f64)> {
    Some((*values.first()?, *values.last()?))
}

/// A sample says something of the window law where the law asks for less than this share of what the line carries.
const WINDOW_BOUND: f64 = 0.9;

/// Those whose window is narrower than the line, as far as the law says.
fn bound_by_window<'a>(all: &Chosen<'a>) -> Chosen<'a> {
    let line = all.most(|sample| predicted(sample, "rate")).unwrap_or(f64::INFINITY);
    all.with(|sample| predicted(sample, "rate").is_some_and(|law| law < WINDOW_BOUND * line))
}

fn window_law(results: &Results) -> Option<String> {
    let one = Chosen::all(results).series("one TCP stream, default buffers");
    let (near, far) = ends(&one.values("rtt"))?;
    Some(format!(
        "{} over {}, {} over {}; the window law is {}",
        bits(one.at("rtt", near).rate()?),
        seconds(near),
        bits(one.at("rtt", far).rate()?),
        seconds(far),
        bound_by_window(&one).window_law()?
    ))
}

fn streams(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let far = all.at("rtt", *all.values("rtt").last()?);
    let (few, many) = ends(&all.values("streams"))?;
    Some(format!(
        "over {}: {} by {few}, {} by {many}; the window law is {}",
        seconds(*all.values("rtt").last()?),
        bits(far.at("streams", few).rate()?),
        bits(far.at("streams", many).rate()?),
        bound_by_window(&all).window_law()?
    ))
}

/// One statement for each round trip time, or one where there is only the loopback.
fn by_distance(all: &Chosen<'_>, say: impl Fn(&Chosen<'_>) -> Option<String>) -> Option<String> {
    let rtts = all.values("rtt");
    if rtts.is_empty() {
        return say(all);
    }
    let said =
        rtts.iter().filter_map(|&rtt| Some(format!("over {}: {}", seconds(rtt), say(&all.at("rtt", rtt))?)));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn sizes(results: &Results) -> Option<String> {
    by_distance(&Chosen::all(results), |all| {
        let (small, large) = ends(&all.values("file_size"))?;
        let of = |size: f64| {
            Some(format!("{} of {}", bits(all.at("file_size", size).rate()?), Unit::Bytes.show(size)))
        };
        Some(format!("{}, {}", of(small)?, of(large)?))
    })
}

fn growing(results: &Results) -> Option<String> {
    by_distance(&Chosen::all(results), |all| {
        let grown = all.with(|sample| measured(sample, "lag_at_the_end").is_some());
        let large = grown.at("file_size", *grown.values("file_size").last()?);
        let of = |name: &&str| {
            let lag = large.series(name).median(|sample| measured(sample, "lag_at_the_end"))?;
            Some(format!("{} ({name})", seconds(lag)))
        };
        Some(large.names().iter().filter_map(of).collect::<Vec<_>>().join(", "))
    })
}

fn controls(results: &Results) -> Option<String> {
    by_distance(&Chosen::all(results), |all| {
        let loss = *all.values("loss").last()?;
        let lossy = all.at("loss", loss);
        let of = |name: &&str| {
            let one = lossy.series(name);
            let law = one.median(|sample| predicted(sample, "rate"));
            let law = law.map_or(String::new(), |law| format!(" (law {})", bits(law)));
            Some(format!("{name} {}{law}", bits(one.rate()?)))
        };
        let said: Vec<String> = lossy.names().iter().filter_map(of).collect();
        let lost = lossy.median(|sample| measured(sample, "packets_lost"));
        let lost = lost.map_or(String::new(), |lost| format!("; {lost:.0} packets lost in a run"));
        Some(format!("of {}: {}{lost}", number(loss), said.join(", ")))
    })
}

fn predictions(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let of = |name: &&str| {
        let one = all.series(name).with(|sample| measured(sample, predict::IN_RANGE).is_some());
        let held = one.with(|sample| measured(sample, predict::IN_RANGE) > Some(0.0)).0.len();
        let off = Unit::Share.show(one.median(|sample| measured(sample, predict::OFF))?);
        Some(format!("{name} {held} of {}, the middle off by {off} in the median", one.0.len()))
    };
    let said: Vec<String> = all.names().iter().filter_map(of).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn disk(results: &Results) -> Option<String> {
    let best = |direction: &str| {
        let is_it = |sample: &Sample| sample.parameters.get("direction") == Some(&direction.into());
        let rated = Rated::best_first(results, is_it);
        let best = rated.first()?;
        let size = Unit::Bytes.show(best.sample.parameter("request_size")?);
        let depth = best.sample.parameter("depth")?;
        let (series, rate, others) = (&best.sample.series, best.told(), not_apart(&rated));
        Some(format!("{series}: at best {rate}, {size} at depth {depth}, {others}"))
    };
    let mut said: Vec<String> = ["read", "write"].into_iter().filter_map(best).collect();
    said.extend(table::storage_rules(results).iter().map(|rule| {
        let target = Unit::BitsPerS.show(rule.target_bits_per_s);
        let (direction, hold, ways) = (rule.direction, rule.hold.len(), rule.ways);
        format!("{direction}, storage rule at {target}: held by {hold} of {ways} ways past the page cache")
    }));
    (!said.is_empty()).then(|| said.join("; "))
}

/// Of all that was turned: a depth beside one file and one stream may be as good as more of these.
fn concurrency(results: &Results) -> Option<String> {
    let turned = ["concurrency", "streams", "depth"];
    let is_turned = |sample: &Sample| turned.iter().all(|name| sample.parameter(name).is_some());
    let rated = Rated::best_first(results, is_turned);
    let is_one = |rated: &&Rated<'_>| turned.iter().all(|name| rated.sample.parameter(name) == Some(1.0));
    let (one, best) = (rated.iter().find(is_one)?, rated.first()?);
    let of = |name: &str| best.sample.parameter(name);
    Some(format!(
        "{} with one of each; best {} with {} files, {} streams, depth {}, {}",
        one.told(),
        best.told(),
        of("concurrency")?,
        of("streams")?,
        of("depth")?,
        not_apart(&rated)
    ))
}

/// How well the law fits, and its best number of files.
fn files(results: &Results) -> Option<String> {
    fit_words(&FilesFit::of(results)?)
}

fn fit_words(fitted: &FilesFit) -> Option<String> {
    Some(format!("{}; {}", fitted.error_words()?, fitted.best_words()?))
}

/// The same with what it says of the check, whose rate is known.
fn whole_files(results: &Results) -> Option<String> {
    let all = FilesFit::all(results);
    let of = |fitted: &FilesFit| {
        let words = fit_words(fitted)?;
        let of_it = if all.len() > 1 { format!("{} at once: ", fitted.at_once()) } else { String::new() };
        Some(format!("{of_it}{words}; {}", fitted.condition_words()))
    };
    let said: Vec<String> = all.iter().filter_map(of).collect();
    let is_set = all.iter().any(|fitted| fitted.check_bits_per_s.is_some());
    let set = if is_set { " (by construction: the rate of a check was set)" } else { "" };
    (!said.is_empty()).then(|| format!("{}{set}", said.join("; ")))
}

/// Of the rate of its law a repaired copy carries at least so much, in the median at each share of damage. 0.1 is what
/// three runs of half a second differ by on a machine that others slow down.
const REPAIRED_RATE_MIN: f64 = 0.9;
/// What its law counts is sent again at most so many times.
const SENT_AGAIN_MAX: f64 = 1.1;

fn damage(results: &Results) -> Option<String> {
    let all = Chosen::all(results).with(|sample| sample.parameter("concurrency").is_none());
    let of = |name: &&str| {
        let judged = faults::Judged::of(&all.series(name).0, &results.about.path)?;
        let rate = Goal::AtLeast(REPAIRED_RATE_MIN).verdict(judged.rate_least);
        let sent = Goal::AtMost(SENT_AGAIN_MAX).verdict(judged.sent_again_most);
        let nothing = seconds(judged.nothing_s);
        let how = if judged.is_measured { "takes" } else { "takes, as the least damage shows," };
        Some(format!(
            "{name}: at the worst share {} of the rate of its law ({rate}) and {} of its bytes on the wire ({sent}); with \
             nothing to repair the command {how} {nothing}",
            number(judged.rate_least),
            number(judged.sent_again_most)
        ))
    };
    let said: Vec<String> = all.names().iter().filter_map(of).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn layout(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let of = |name: &&str| {
        let one = all.series(name);
        let (unsorted, sorted) = (one.word("order", "none"), one.word("order", "layout"));
        let gain = unsorted.time()? / sorted.time()?;
        Some(match unsorted.times()?.is_apart_from(&sorted.times()?) {
            true => format!("{name}: {} times as fast as unsorted", number(gain)),
            false => format!("{name}: no difference beyond noise"),
        })
    };
    Some(all.names().iter().filter_map(of).collect::<Vec<_>>().join(", "))
}

fn hop(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let straight = all.series("straight from the storage's host").time()?;
    let of = |name: &&str| Some(format!("{name} {} times", number(all.series(name).time()? / straight)));
    let others: Vec<String> =
        all.names().iter().filter(|name| name.starts_with("through")).filter_map(of).collect();
    Some(format!("straight {}; {}", seconds(straight), others.join(", ")))
}

fn scan(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let quick = all.at("period", *all.values("period").first()?);
    let after = |name: &&str| {
        let after = quick.series(name).median(|sample| measured(sample, "after_last_frame"))?;
        Some((after, format!("{name} {}", seconds(after))))
    };
    let mut said: Vec<(f64, String)> = quick.names().iter().filter_map(after).collect();
    said.sort_by(|a, b| b.0.total_cmp(&a.0));
    let said: Vec<String> = said.into_iter().map(|(_, words)| words).collect();
    Some(format!("a frame each {}: {}", seconds(*quick.values("period").first()?), said.join(", ")))
}

fn lag(results: &Results) -> Option<String> {
    let all = Chosen::all(results);
    let small =
        all.series("stream").at("message_size", *all.series("stream").values("message_size").first()?);
    by_distance(&small, |some| {
        let of = |name: &str| some.median(|sample| measured(sample, name));
        Some(format!(
            "P50 {}, P99 {}, longest {}",
            seconds(of("lag_p50")?),
            seconds(of("lag_p99")?),
            seconds(some.most(|sample| measured(sample, "lag_max"))?)
        ))
    })
}

fn order(results: &Results) -> Option<String> {
    let array = Chosen::all(results).word("disk", "simulated array").word("direction", "reading");
    // Fewer requests, and no order shows.
    let array = array.with(|sample| requests_each(sample) >= Some(REQUESTS_EACH as f64));
    let threads = array.values("threads");
    // Of the sizes that have the most threads left, the largest.
    let of_most = array.at("threads", *threads.last()?);
    let request_size = *of_most.values("request_size").last()?;
    let array = array.at("request_size", request_size);
    let threads = array.values("threads");
    let (fewest, many) = ends(&threads).filter(|(fewest, many)| fewest < many)?;
    // One alone has no order, and waits for each request: it says less.
    let few = if many > FEW_THREADS && threads.contains(&FEW_THREADS) { FEW_THREADS } else { fewest };
    let of = |order: &str| {
        let one = array.word("order", order);
        let rate = |threads: f64| Some(bits(one.at("threads", threads).rate()?));
        Some(format!("{order} {} and {}", rate(few)?, rate(many)?))
    };
    let said: Vec<String> = ["strict", "serial", "loose", "none"].into_iter().filter_map(of).collect();
    let size = Unit::Bytes.show(request_size);
    (!said.is_empty()).then(|| format!("{few} and {many}, requests of {size}: {}", said.join(", ")))
}

/// As 004 (section IV-D.1) compares with more.
const FEW_THREADS: f64 = 4.0;

/// How many requests each thread of a sample made.
fn requests_each(sample: &Sample) -> Option<f64> {
    Some(sample.bytes as f64 / sample.parameter("request_size")? / sample.parameter("threads")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_lab::bench::record::LOST_BY_A_SLOW_MACHINE;
    use thalweg_lab::bench::suite::{BEGINS, CARRIED, FITTED, LONG, SLOTS};

    /// Of `bytes` in requests of 1 and 4 MiB from 1 and 16 threads; the rate is 1 MB/s for each of these.
    fn orders(bytes: u64) -> Results {
        let mut results = results::all().unwrap().remove(0).1;
        results.samples.clear();
        for (threads, mib) in [(1.0, 1.0), (1.0, 4.0), (16.0, 1.0), (16.0, 4.0)] {
            let sample = Sample { bytes, wall_s: bytes as f64 / (threads * mib * 1e6), ..Sample::default() };
            let number = |value| Quantity::number(value, "1");
            let sample =
                sample.with("threads", number(threads)).with("request_size", number(mib * 1048576.0));
            let words = [("disk", "simulated array"), ("direction", "reading"), ("order", "loose")];
            results
                .samples
                .push(words.iter().fold(sample, |sample, (name, word)| sample.with(name, (*word).into())));
        }
        results
    }

    #[test]
    fn nothing_is_concluded_from_orders_of_a_few_requests() {
        let of = |mib: u64| order(&orders(mib << 20));
        assert_eq!(of(512).unwrap(), "1 and 16, requests of 4 MiB: loose 32 Mbit/s and 512 Mbit/s");
        // 16 threads have eight requests of 1 MiB, and seven or fewer of 4 MiB.
        assert_eq!(of(511).unwrap(), "1 and 16, requests of 1 MiB: loose 8 Mbit/s and 128 Mbit/s");
        // Then one thread alone is left, beside which nothing stands.
        assert_eq!((of(127), of(7)), (None, None));
        // Where four were measured, many stand beside these.
        let mut results = orders(512 << 20);
        for sample in &mut results.samples {
            if sample.parameter("threads") == Some(1.0) {
                *sample = std::mem::take(sample).with("threads", Quantity::number(4.0, "1"));
            }
        }
        assert!(order(&results).unwrap().starts_with("4 and 16, "), "{:?}", order(&results));
    }

    /// A law of 400 Mbit/s that is off by a quarter, and a line of 1 Gbit/s that is full nine times.
    #[test]
    fn samples_that_the_line_bounds_do_not_speak_for_the_window_law() {
        let of = |law: f64, rate: f64| {
            Sample::default().measured("rate", rate, "bit/s").predicted("rate", law, "bit/s")
        };
        let mut samples = vec![of(1e9, 1e9); 9];
        samples.push(of(4e8, 5e8));
        let all = Chosen(samples.iter().collect());
        let missed = "off by 20 % in the median of 1 (at most 15 %: **missed by 33.3 %**)";
        assert_eq!(bound_by_window(&all).window_law().unwrap(), missed);
    }

    #[test]
    fn what_the_emulated_path_cost_stands_beside_what_was_found_through_it() {
        let mut results = orders(512);
        let told = |results: &Results| source(results, Path::new("bench/results/order.jsonl"));
        results.samples.iter_mut().for_each(|sample| (sample.bytes, sample.wall_s) = (1 << 30, 1.0));
        assert!(!told(&results).contains("CPU-s/GB"), "no path was emulated: {}", told(&results));
        results.samples.iter_mut().for_each(|sample| sample.wire_cpu_s_per_gb = Some(3.28));
        assert!(told(&results).ends_with("; the path itself 3.28 CPU-s/GB"), "{}", told(&results));
    }

    #[test]
    fn what_is_void_changes_nothing_that_was_found_and_is_told() {
        let mut results = orders(512 << 20);
        let found = order(&results).unwrap();
        let spoilt = |sample: &Sample| Sample { wall_s: sample.wall_s * 10.0, ..sample.clone() };
        let void = |sample| spoilt(sample).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
        let void: Vec<Sample> = results.samples.iter().map(void).collect();
        results.samples.extend([&void[..], &void].concat());
        assert_eq!(order(&results).unwrap(), found);
        let told = source(&results, Path::new("bench/results/order.jsonl"));
        assert!(told.ends_with("; 8 of 12 samples are VOID"), "{told}");
    }

    /// 1 Gbit for each of these rates, in Gbit/s.
    fn at(series: &str, parameters: &[(&str, f64)], rates: [f64; 3]) -> Vec<Sample> {
        let of = |rate: f64| {
            let sample = Sample { bytes: 125_000_000, wall_s: 1.0 / rate, ..Sample::default() };
            let number = |value| Quantity::number(value, "1");
            let sample = Sample { series: series.to_owned(), ..sample };
            parameters.iter().fold(sample, |sample, (name, value)| sample.with(name, number(*value)))
        };
        rates.map(of).to_vec()
    }

    #[test]
    fn the_best_of_what_was_turned_is_found_at_any_depth_and_what_it_is_not_apart_from_is_counted() {
        let mut results = orders(512);
        let of = |files, streams, depth, rates| {
            at("", &[("concurrency", files), ("streams", streams), ("depth", depth)], rates)
        };
        let (one, alike) = (of(1.0, 1.0, 1.0, [0.64, 0.66, 0.65]), of(8.0, 4.0, 1.0, [0.8, 0.905, 0.91]));
        let (less, best) = (of(4.0, 4.0, 1.0, [0.87, 0.88, 0.875]), of(4.0, 4.0, 16.0, [0.92, 0.9, 0.91]));
        results.samples = [one, alike, less, best].concat();
        let found = concurrency(&results).unwrap();
        assert_eq!(
            found,
            "650 Mbit/s (640 Mbit/s to 660 Mbit/s, 75 %) with one of each; best 910 Mbit/s (900 Mbit/s to 920 Mbit/s, \
             75 %) with 4 files, 4 streams, depth 16, not apart from 1 of 3 others"
        );
    }

    #[test]
    fn the_best_of_a_disk_is_a_median_and_not_the_luckiest_run() {
        let mut results = orders(512);
        let of = |depth, rates| {
            let samples = at("read, direct", &[("request_size", 1048576.0), ("depth", depth)], rates);
            samples.into_iter().map(|sample| sample.with("direction", "read".into())).collect::<Vec<_>>()
        };
        results.samples = [of(16.0, [10.0, 22.0, 11.0]), of(4.0, [15.0, 17.0, 16.0])].concat();
        let best = "read, direct: at best 16 Gbit/s (15 Gbit/s to 17 Gbit/s, 75 %), 1 MiB at depth 4";
        assert_eq!(disk(&results).unwrap(), format!("{best}, not apart from 1 of 1 others"));
    }

    /// 125 MB in 4 to 512 files take as long within the noise; two thirds of them, in some of these, have lower rates.
    fn of_two_sizes() -> Results {
        let mut results = orders(512);
        results.about.suite = "files".to_owned();
        let of = |bytes: u64, files: f64, wall_s: f64| {
            let sample = Sample { bytes, wall_s, ..Sample::default() };
            let number = |value| Quantity::number(value, "1");
            sample.with("files", number(files)).with("concurrency", number(4.0))
        };
        let all = [11.05, 11.11, 11.14, 11.1, 11.13, 11.06, 11.09, 11.12];
        let all = (2..).zip(all).map(|(power, wall_s)| of(125_000_000, f64::from(power).exp2(), wall_s));
        let less = [(4.0, 7.5), (16.0, 7.6), (128.0, 7.4)];
        let less = less.map(|(files, wall_s)| of(83_333_333, files, wall_s));
        results.samples = all.chain(less).collect();
        results
    }

    #[test]
    fn the_best_number_of_files_is_found_among_rates_of_one_size() {
        let mut results = of_two_sizes();
        let found = files(&results).unwrap();
        assert!(found.ends_with("; flat: no number is better, measured best 4"), "{found}");
        assert!(found.contains("shows nothing of it") && !found.contains("met"), "{found}");
        // In most files it takes twice as long: now there is a best number, and what is beside it is of the same size.
        results.samples[6].wall_s = 15.0;
        results.samples[7].wall_s = 22.0;
        let found = files(&results).unwrap();
        let best = "; N* = 20, measured best 4: 0.814 % faster than 16, the nearest to N* (at most 5 %: met)";
        assert!(found.ends_with(best), "{found}");
    }

    #[test]
    fn how_many_times_as_long_scheduled_starts_took_is_said_and_where_that_is_longer() {
        let mut results = orders(512);
        let of = |load: f64, starts: &str, worst: f64| {
            let sample = Sample::default().with("load", Quantity::number(load, "1"));
            let sample = sample.with("streams", Quantity::number(2.0, "1")).with("starts", starts.into());
            sample.measured("worst", worst, "s")
        };
        let both = |load, apart, together| [of(load, "scheduled", apart), of(load, "simultaneous", together)];
        results.samples = [both(0.16, 0.3, 0.2), both(0.96, 0.4, 1.5), both(1.28, 6.0, 5.0)].concat();
        let told = congestion(&results).unwrap();
        let gained = "0.267 times (at each load that the line carries) as long as simultaneous ones";
        assert!(told.ends_with(&format!("; in the median scheduled ones took {gained}")), "{told}");
        results.samples.extend(both(0.64, 1.8, 0.9));
        let told = congestion(&results).unwrap();
        let vain =
            "**2 times** (64 % load with 2 streams) and 0.267 times (elsewhere) as long as simultaneous ones";
        assert!(told.ends_with(&format!("; in the median scheduled ones took {vain}")), "{told}");
        // What begins with a window that fits is told apart, and changes nothing that is said of cold starts.
        let fitted = both(0.64, 0.2, 0.8).map(|sample| sample.with(BEGINS, FITTED.into()));
        results.samples.extend(fitted);
        let both = congestion(&results).unwrap();
        let more = both.strip_prefix(&format!("{told}; {FITTED}: ")).unwrap_or_else(|| panic!("{both}"));
        assert!(more.starts_with("at 64 % load simultaneous 800 ms, scheduled 200 ms; "), "{more}");
        let gained = "0.25 times (at each load that the line carries) as long as simultaneous ones";
        assert!(more.ends_with(gained), "{more}");
    }

    /// Of three that had a slot and three that were refused, before and since it is measured what they carried.
    #[test]
    fn how_much_of_the_line_slots_carry_follows_from_the_result() {
        let of = |starts: &str, refused: f64| {
            let sample = Sample::default().with("starts", starts.into());
            let sample = sample.with("load", Quantity::number(0.96, "1"));
            let sample = sample.with("producers", Quantity::number(6.0, "1"));
            sample.measured("worst_lag", 0.7, "s").measured("refused", refused, "1")
        };
        let mut results = orders(512);
        results.samples = vec![of(SLOTS, 3.0)];
        let told = promised(&results).unwrap();
        let row = "at 96 % load slots 700 ms (3 of 6 producers refused, 48 % carried)";
        assert_eq!(told, format!("{row}; slots carry up to 48 % of the line"));
        results.samples = vec![
            of(SLOTS, 3.0).measured(CARRIED, 0.4812, "1"),
            of(LONG, 1.0).measured(CARRIED, 0.7961, "1"),
            of("scheduled", 0.0).measured(CARRIED, 0.958, "1"),
        ];
        let told = promised(&results).unwrap();
        for part in [
            "scheduled 700 ms (96 % carried)",
            "slots, long deadline 700 ms (1 of 6 producers refused, 80 % carried)",
            "; slots carry up to 48 % of the line, 80 % where a deadline leaves a whole period to wait",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn what_cold_starts_take_stands_beside_what_windows_over_standing_streams_take() {
        let of = |starts: &str, load: f64, numbers: &[(&str, f64)]| {
            let sample = Sample::default().with("starts", starts.into());
            let sample = sample.with("load", Quantity::number(load, "1")).predicted("ideal", 0.16, "s");
            numbers.iter().fold(sample, |sample, (name, value)| sample.measured(name, *value, "s"))
        };
        let mut congest = orders(512);
        congest.samples = vec![
            of("scheduled", 0.16, &[("p50", 0.255), ("worst", 0.26)]),
            of("scheduled", 0.64, &[("worst", 0.3)]),
            of("scheduled", 0.64, &[("worst", 0.5)]),
            of("scheduled", 0.96, &[("worst", 1.5)]),
            of("simultaneous", 0.96, &[("worst", 9.0)]),
        ];
        let mut slots = congest.clone();
        let burst = |starts: &str, load: f64, worst: f64, refused: f64| {
            let numbers = [("worst", worst), ("worst_lag", 0.7), ("refused", refused)];
            of(starts, load, &numbers).with("producers", Quantity::number((load / 0.16).round(), "1"))
        };
        slots.samples = vec![
            burst("scheduled", 0.64, 0.27, 0.0),
            burst("scheduled", 0.96, 0.34, 0.0),
            burst("slots", 0.64, 0.18, 1.0),
            burst("slots", 0.96, 0.19, 3.0),
        ];
        let told = cold_starts(&congest, &slots).unwrap();
        for part in [
            "takes 255 ms in the median, where its data alone need 160 ms",
            "takes 400 ms and 1.5 s at 64 % and 96 % load",
            "it takes 270 ms and 340 ms by the same schedule, and 180 ms and 190 ms in windows",
            "For that 1 of 4 and 3 of 6 producers are refused",
            "is there 700 ms and 700 ms after it was ready, at the latest. Slots carry up to 48 % of the line.",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let fitted =
            |load: f64, worst: f64| of("scheduled", load, &[("worst", worst)]).with(BEGINS, FITTED.into());
        congest.samples.extend([fitted(0.64, 0.2), fitted(0.96, 0.21)]);
        let both = cold_starts(&congest, &slots).unwrap();
        let times = "it takes 200 ms and 210 ms by the same schedule.";
        assert_eq!(both.replace(&format!(" Where connections begin {FITTED}, {times}"), ""), told);
        assert_ne!(both, told);
        slots.samples.pop();
        assert_eq!(cold_starts(&congest, &slots), None);
    }

    #[test]
    fn each_verdict_of_the_table_is_counted_among_all_goals_and_nothing_else_is() {
        let committed = results::all().unwrap();
        let judged = goals().unwrap();
        for Found { question, found, .. } in all_found(&committed) {
            let verdicts = ["(at most ", "(at least ", "(below ", "(which shows nothing"];
            let has_verdict = verdicts.iter().any(|verdict| found.contains(verdict));
            let is_counted = judged.iter().any(|one| one.question == question);
            assert!(is_counted || !has_verdict, "{question}: {found}");
        }
        assert!(judged.iter().all(|one| one.place == PLACE && one.verdicts.contains(" of ")));
    }

    #[test]
    fn every_committed_result_of_a_suite_has_its_row() {
        for (path, results) in results::all().unwrap() {
            let Some((.., of)) = ROWS.iter().find(|(suite, ..)| *suite == results.about.suite) else {
                continue;
            };
            let found = of(&results).unwrap_or_else(|| panic!("nothing was found in {}", path.display()));
            assert!(found.bytes().any(|byte| byte.is_ascii_digit()) && !found.contains('|'), "{found}");
            assert!(!found.contains("NaN") && !found.contains("inf"), "{found}");
        }
    }
}
