//! Other programs' results, as samples. Which program wrote a file is told by what is in it, not by its name.

use super::record::{About, LeftOut, Machine, PathKind, Quantity, Results, Sample, Scaling};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fmt;

// `iperf3 --json`: rates of streams.
mod iperf3;

// `fio --output-format=json`: rates and latencies of a disk.
mod fio;

// Results of pScheduler (perfSONAR): rates, round trips, latencies of one way.
mod pscheduler;

// Lines of `ping`: round trips.
mod ping;

// JSON in which each place has a name.
mod document;

/// Why something could not be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotImported(String);

impl fmt::Display for NotImported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotImported {}

/// Said of all else.
const OTHER: &str = "this is no result of `iperf3 --json`, `fio --output-format=json`, `pscheduler … --format json` or ping \
                     (iputils), and of other programs none is read: write what they say as samples (docs/guide/bench.md, \
                     the result file)";

/// Most runs of one file: a program writes one, several may be put behind each other.
const RUNS_MAX: usize = 100_000;

/// Values of distributions that all samples of a file have together, at most: 16 MB in memory, and not more than a
/// result may be long.
const VALUES_IN_ALL_MAX: usize = 2_000_000;

fn too_many_runs() -> NotImported {
    NotImported(format!("it has more than {RUNS_MAX} runs: import them in several parts"))
}

/// Samples as they are read.
#[derive(Default)]
struct Gathered {
    samples: Vec<Sample>,
    values: usize,
}

impl Gathered {
    /// One more.
    ///
    /// # Errors
    /// If all together have more than [`VALUES_IN_ALL_MAX`] values with it: the run that it is of.
    fn push(&mut self, sample: Sample) -> Result<(), NotImported> {
        self.values += sample.distributions.values().map(|one| one.values.len()).sum::<usize>();
        if self.values > VALUES_IN_ALL_MAX {
            let run = sample.run;
            return Err(NotImported(format!(
                "with run {run} there are more than {VALUES_IN_ALL_MAX} values: import the runs in several parts"
            )));
        }
        self.samples.push(sample);
        Ok(())
    }
}

/// Reads one or several results of one program, one behind the other: `iperf3 --json`, fio's JSON (3.0 or later),
/// pScheduler's, or what ping of iputils prints. `moment` writes seconds since 1970 as RFC 3339. Runs that failed are
/// left out, with what the program said. A text of fio or pScheduler has at most 16 MiB, and all of them at most
/// 100,000 runs and 2,000,000 values.
///
/// # Errors
/// If it is something else, with what was expected and where; or there is no run that went well.
pub fn results(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    match Program::of(text) {
        Program::Fio => fio::read(text, moment),
        Program::PScheduler => pscheduler::read(text, moment),
        Program::Ping => ping::read(text, moment),
        Program::Iperf3OrNone => iperf3::read(text, moment),
    }
}

/// Who may have written it.
enum Program {
    Fio,
    PScheduler,
    Ping,
    Iperf3OrNone,
}

/// Names that only one of the programs has at the top of a result.
#[derive(Deserialize)]
struct Marks {
    #[serde(rename = "fio version")]
    fio_version: Option<IgnoredAny>,
    jobs: Option<IgnoredAny>,
    succeeded: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    #[serde(rename = "result-merged")]
    result_merged: Option<IgnoredAny>,
}

impl Program {
    /// By the first object, of which nothing is kept; ping writes none.
    fn of(text: &str) -> Program {
        let marks = document::first_object(text)
            .and_then(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter::<Marks>().next()?.ok());
        match marks {
            Some(of) if of.fio_version.is_some() || of.jobs.is_some() => Program::Fio,
            Some(of) if of.succeeded.is_some() || of.result.is_some() || of.result_merged.is_some() => {
                Program::PScheduler
            }
            None if ping::is_of(text) => Program::Ping,
            _ => Program::Iperf3OrNone,
        }
    }
}

/// A distribution: round trips one by one.
pub(crate) const ROUND_TRIP: &str = "round_trip";

/// Measured: round trip time at its best, the smallest that the program saw.
const MIN_RTT: &str = "min_rtt";

/// Who measured, and where.
struct Origin {
    suite: &'static str,
    question: &'static str,
    program: String,
    date: String,
    machine: Machine,
    to: String,
}

impl Origin {
    /// Its samples as a result, each with its place and its distance.
    fn results(self, mut samples: Vec<Sample>, left_out: Vec<LeftOut>) -> Results {
        for (order, sample) in (1..).zip(&mut samples) {
            sample.order = order;
        }
        tell_distances(&mut samples);
        // One for all, or none.
        let rtt_s = samples.first().and_then(|first| first.parameter("rtt"));
        let rtt_s = rtt_s.filter(|_| samples.iter().all(|sample| sample.parameter("rtt") == rtt_s));
        let about = About {
            suite: self.suite.to_owned(),
            question: self.question.to_owned(),
            date: self.date,
            program: self.program,
            commit: None,
            command: String::new(),
            machine: self.machine,
            path: PathKind::Foreign { to: self.to, rtt_s },
            iterations: 1,
            encryption: "none".to_owned(),
            verification: "none".to_owned(),
            scaling: Scaling::default(),
            more: BTreeMap::new(),
            is_unfinished: false,
        };
        let mut results = Results { about, samples, left_out, has_end: false };
        let fewest = results.cases().iter().map(Vec::len).min().unwrap_or(1);
        results.about.iterations = u32::try_from(fewest).unwrap_or(u32::MAX);
        results
    }
}

/// Hosts, or files, that are told one by one.
const NAMED_MAX: usize = 3;

/// Different words, one by one where they are few; else how many `things` they are.
fn named<'a>(words: impl Iterator<Item = &'a str>, things: &str) -> String {
    let mut words: Vec<&str> = words.collect();
    words.sort_unstable();
    words.dedup();
    if words.len() > NAMED_MAX { format!("{} {things}", words.len()) } else { words.join(", ") }
}

/// Round trip times to one host that differ by less, as a share and in seconds, are of one distance: a path adds queues
/// to the smallest, and below a millisecond so does the machine.
const APART_SHARE: f64 = 0.25;
const APART_S: f64 = 0.5e-3;

/// Runs over one distance get one round trip time as a parameter, the smallest that was seen in any of them, in two
/// digits; runs of which none was seen get none.
fn tell_distances(samples: &mut [Sample]) {
    let seen = |sample: &Sample| sample.measured.get(MIN_RTT).and_then(Quantity::value);
    let host = |sample: &Sample| sample.parameters.get("host").and_then(Quantity::word).map(str::to_owned);
    let mut nearest: Vec<&mut Sample> = samples.iter_mut().filter(|sample| seen(sample).is_some()).collect();
    nearest.sort_by(|a, b| {
        let (a_s, b_s) = (seen(a).unwrap_or(0.0), seen(b).unwrap_or(0.0));
        host(a).cmp(&host(b)).then(a_s.total_cmp(&b_s))
    });
    let mut distance: Option<(Option<String>, f64)> = None;
    for sample in nearest {
        let (host, rtt_s) = (host(sample), seen(sample).unwrap_or(0.0));
        let is_near = |smallest_s: f64| rtt_s - smallest_s < f64::max(smallest_s * APART_SHARE, APART_S);
        let known = distance.filter(|(other, smallest_s)| *other == host && is_near(*smallest_s));
        let (host, smallest_s) = known.unwrap_or((host, rtt_s));
        sample.parameters.insert("rtt".to_owned(), Quantity::number(two_digits(smallest_s), "s"));
        distance = Some((host, smallest_s));
    }
}

/// `0.0103` is `0.01`.
fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// A sample with values of a distribution that are spread evenly among all there were: see [`document::spread`].
fn with_spread(sample: Sample, name: &str, unit: &str, (values, count): (Vec<f64>, f64)) -> Sample {
    if values.is_empty() {
        return sample;
    }
    let sample = match (values.len() as f64) < count {
        true => sample.measured(&format!("{name}_values"), count, "1"),
        false => sample,
    };
    sample.distributed(name, unit, values)
}

#[cfg(test)]
mod tests;
