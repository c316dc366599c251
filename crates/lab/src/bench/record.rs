//! The result file: JSON Lines, one object on a line, each with one key that says what it is.
//!
//! 1. `about`: what was measured, where, over which path, and the command that repeats it. The first line, once.
//! 2. `sample`: one measurement, raw. As many as there were.
//! 3. `left_out`: what did not run, and why.
//!
//! ```text
//! {"about":{"suite":"latency","date":"2026-11-22T02:40:00Z",…}}
//! {"sample":{"series":"default buffers","parameters":{"rtt":{"value":0.1,"unit":"s"}},"run":1,"order":7,"wall_s":2.5,…}}
//! {"left_out":{"what":"bbr","why":"this kernel has no tcp_bbr"}}
//! ```
//!
//! Times are in seconds, sizes in bytes, rates in bits a second, all of them decimal numbers; a quantity that is not one
//! of the fields below carries its unit. One in another unit, as people write it (`ms`, `MiB`, `Gbit/s`, `%`), is
//! converted when it is read. Whoever reads a file takes the keys it knows and passes over the others.

use super::statistics::median;
use crate::plot::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first.
    About(Box<About>),
    /// A measurement.
    Sample(Sample),
    /// What did not run.
    LeftOut(LeftOut),
}

/// What was measured, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its name as it is typed: `sweep bulk`, `latency`, …; `iperf3` of what was imported.
    pub suite: String,
    /// The question that it answers, with its source.
    pub question: String,
    /// When it began, RFC 3339 in UTC.
    pub date: String,
    /// The program and its version: `thalweg 0.1.0`, `iperf 3.12`.
    pub program: String,
    /// The commit that it was built from, with `-dirty` behind it if sources had been changed since; `unknown` where its build
    /// could not see it. `None` of what was imported, and of results that are older than this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that repeats it; empty of what was imported.
    pub command: String,
    /// On which machine.
    pub machine: Machine,
    /// Over which path. Where a suite changes it (latency, loss), samples say so in their parameters.
    pub path: PathKind,
    /// Counted runs of each case.
    pub iterations: u32,
    /// How data streams were protected: `AES-128-GCM`, `none`, …
    pub encryption: String,
    /// How far copies were checked: `every segment before it is written`, `none`, …
    pub verification: String,
    /// What was made smaller than the source of the suite has it.
    pub scaling: Scaling,
}

impl About {
    /// The program with its version and, where it is known, its commit.
    pub fn built(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} (commit {commit})", self.program),
            None => self.program.clone(),
        }
    }
}

/// The machine on which all of it ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// Cores that are online.
    pub cores: u32,
    /// Of RAM.
    pub memory_bytes: u64,
    /// `Linux 6.12.1`.
    pub kernel: String,
    /// Of the scratch directory: `ext4`, `tmpfs`, …
    pub file_system: String,
    /// The hypervisor, if it is a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// What the machine was busy with just before: mean number of runnable processes in the last minute.
    pub load: f64,
}

/// The path that data took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PathKind {
    /// Two processes, and the loopback between them.
    Loopback,
    /// From a disk, or to one; no network.
    Disk,
    /// Simulated disks.
    Simulated,
    /// Two hosts of `thalweg testbed`.
    Testbed {
        /// Round trip time, if the same in all samples.
        rtt_s: Option<f64>,
        /// Rate of the line, if the same in all samples; `None` also where nothing limits it.
        rate_bits_per_s: Option<u64>,
        /// Share of packets lost, if the same in all samples.
        loss: Option<f64>,
        /// Of every device.
        mtu_bytes: u32,
    },
    /// Somebody else's: of what was imported.
    Foreign {
        /// Where to: an address or a name.
        to: String,
        /// Round trip time as that program saw it.
        rtt_s: Option<f64>,
    },
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To the microsecond: what is behind that is of the arithmetic.
        let ms = |rtt_s: &f64| format!("{} ms", (rtt_s * 1e6).round() / 1e3);
        match self {
            PathKind::Loopback => f.write_str("loopback"),
            PathKind::Disk => f.write_str("disk"),
            PathKind::Simulated => f.write_str("simulated disks"),
            PathKind::Testbed { rtt_s, rate_bits_per_s, loss, mtu_bytes } => {
                let mut words = vec!["emulated path".to_owned()];
                words.extend(rtt_s.as_ref().map(ms));
                words.extend(rate_bits_per_s.map(|rate| Unit::BitsPerS.show(rate as f64)));
                words.extend(loss.filter(|loss| *loss > 0.0).map(|loss| format!("loss {loss}")));
                words.push(format!("MTU {mtu_bytes}"));
                f.write_str(&words.join(", "))
            }
            PathKind::Foreign { to, rtt_s } => {
                let rtt = rtt_s.as_ref().map(|rtt_s| format!(", {}", ms(rtt_s))).unwrap_or_default();
                write!(f, "to {to}{rtt}")
            }
        }
    }
}

/// What was made smaller, so that it fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Scaling {
    /// Most bytes of one data set; `None` where nothing was scaled.
    pub budget_bytes: Option<u64>,
    /// Most files of one data set.
    pub files_max: Option<u64>,
    /// Where chance comes from.
    pub seed: u64,
    /// Each thing that differs from the source of the suite, in words: `data set: 1 TiB -> 256 MiB`.
    pub changes: Vec<Scaled>,
}

/// One thing that was made smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaled {
    /// What: `size of a data set`.
    pub what: String,
    /// As the source has it: `1 TiB (000 section III-B.2)`.
    pub from: String,
    /// As it was here: `256 MiB`.
    pub to: String,
}

/// A number with its unit, or a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A number.
    Number {
        /// It.
        value: f64,
        /// `s`, `B`, `bit/s`, `1` (a share or a plain count), …
        unit: String,
    },
    /// A word: the name of an order, of a congestion control.
    Word(String),
}

impl Quantity {
    /// A number with a unit.
    pub fn number(value: f64, unit: &str) -> Quantity {
        Quantity::Number { value, unit: unit.to_owned() }
    }

    /// The number; none of a word.
    pub fn value(&self) -> Option<f64> {
        match self {
            Quantity::Number { value, .. } => Some(*value),
            Quantity::Word(_) => None,
        }
    }

    /// The word; none of a number.
    pub fn word(&self) -> Option<&str> {
        match self {
            Quantity::Number { .. } => None,
            Quantity::Word(word) => Some(word),
        }
    }
}

impl Quantity {
    /// What it is told from others by.
    fn key(&self) -> (u64, &str) {
        match self {
            Quantity::Number { value, unit } => (value.to_bits(), unit),
            // No unit is a word of a parameter.
            Quantity::Word(word) => (u64::MAX, word),
        }
    }
}

/// Units in which quantities may be written: times this, over that, they are in the one in which figures are kept. Over,
/// so that 10 ms are the very number that 0.01 s are.
const UNITS: [(&str, f64, f64, &str); 33] = [
    ("s", 1.0, 1.0, "s"),
    ("ms", 1.0, 1e3, "s"),
    ("us", 1.0, 1e6, "s"),
    ("µs", 1.0, 1e6, "s"),
    ("ns", 1.0, 1e9, "s"),
    ("min", 60.0, 1.0, "s"),
    ("h", 3600.0, 1.0, "s"),
    ("B", 1.0, 1.0, "B"),
    ("kB", 1e3, 1.0, "B"),
    ("MB", 1e6, 1.0, "B"),
    ("GB", 1e9, 1.0, "B"),
    ("TB", 1e12, 1.0, "B"),
    ("PB", 1e15, 1.0, "B"),
    ("KiB", 1024.0, 1.0, "B"),
    ("MiB", 1_048_576.0, 1.0, "B"),
    ("GiB", 1_073_741_824.0, 1.0, "B"),
    ("TiB", 1_099_511_627_776.0, 1.0, "B"),
    ("PiB", 1_125_899_906_842_624.0, 1.0, "B"),
    ("bit/s", 1.0, 1.0, "bit/s"),
    ("kbit/s", 1e3, 1.0, "bit/s"),
    ("Mbit/s", 1e6, 1.0, "bit/s"),
    ("Gbit/s", 1e9, 1.0, "bit/s"),
    ("Tbit/s", 1e12, 1.0, "bit/s"),
    ("B/s", 8.0, 1.0, "bit/s"),
    ("kB/s", 8e3, 1.0, "bit/s"),
    ("MB/s", 8e6, 1.0, "bit/s"),
    ("GB/s", 8e9, 1.0, "bit/s"),
    ("KiB/s", 8192.0, 1.0, "bit/s"),
    ("MiB/s", 8_388_608.0, 1.0, "bit/s"),
    ("GiB/s", 8_589_934_592.0, 1.0, "bit/s"),
    ("1", 1.0, 1.0, "1"),
    ("%", 1.0, 100.0, "1"),
    ("ppm", 1.0, 1e6, "1"),
];

/// Brings figures into the unit in which they are kept. Of a unit that is not known they stay as they are; whether it is.
fn keep_in_base_unit<'a>(values: impl Iterator<Item = &'a mut f64>, unit: &mut String) -> bool {
    let Some((_, times, over, base)) = UNITS.iter().find(|(name, ..)| name == unit) else { return false };
    values.for_each(|value| *value = *value * times / over);
    (*base).clone_into(unit);
    true
}

impl From<&str> for Quantity {
    fn from(word: &str) -> Quantity {
        Quantity::Word(word.to_owned())
    }
}

/// Several measurements of one thing within a sample: times of transfers, lags, latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Of each value.
    pub unit: String,
    /// In the order in which they came.
    pub values: Vec<f64>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Which line of a plot: samples of one series differ in their parameters and runs only.
    pub series: String,
    /// What was set: values of x axes among them (`rtt`, `file_size`, `streams`, …).
    pub parameters: BTreeMap<String, Quantity>,
    /// Round, the first is 1.
    pub run: u32,
    /// Place among all samples of the file, the first is 1: how they were interleaved.
    pub order: u32,
    /// Payload, 10^0 bytes.
    pub bytes: u64,
    /// Files that held it.
    pub files: u64,
    /// From start to end, making the copy durable included.
    pub wall_s: f64,
    /// CPU of all processes of both sides, user and system; `None` where it could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// What else was measured, one number each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Quantity>,
    /// What else was measured, many numbers each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Distribution>,
    /// What a law says `measured` or `wall_s` should be, under the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predicted: BTreeMap<String, Quantity>,
    /// What the emulated path itself cost, in CPU seconds for 10^9 bytes carried: not in `cpu_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_cpu_s_per_gb: Option<f64>,
}

impl Sample {
    /// Whether all of its figures can have been measured.
    ///
    /// # Errors
    /// The one that cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_figure = |value: &f64| {
            *value == 0.0 || (value.is_finite() && (FIGURE_MIN..=FIGURE_MAX).contains(&value.abs()))
        };
        let numbers = [&self.parameters, &self.measured, &self.predicted].into_iter().flatten();
        let numbers = numbers.filter_map(|(name, quantity)| Some((name.as_str(), quantity.value()?)));
        let many = self
            .distributions
            .iter()
            .flat_map(|(name, one)| one.values.iter().map(move |value| (name.as_str(), *value)));
        let own = [Some(("wall_s", self.wall_s)), self.cpu_s.map(|cpu_s| ("cpu_s", cpu_s))];
        let own =
            own.into_iter().flatten().chain(self.wire_cpu_s_per_gb.map(|cost| ("wire_cpu_s_per_gb", cost)));
        match numbers.chain(many).chain(own).find(|(_, value)| !is_figure(value)) {
            Some((name, value)) => Err(format!("`{}` cannot be {value:e}", name.escape_debug())),
            None if self.wall_s <= 0.0 => {
                Err(format!("`wall_s` must be more than 0, and is {}", self.wall_s))
            }
            None => Ok(()),
        }
    }

    /// The same with its quantities in seconds, bytes, bits a second and plain numbers.
    ///
    /// # Errors
    /// The parameter whose unit is not known: axes are made of them. What was measured may be in any.
    pub fn in_base_units(mut self) -> Result<Sample, String> {
        for (name, quantity) in &mut self.parameters {
            if let Quantity::Number { value, unit } = quantity
                && !keep_in_base_unit(std::iter::once(value), unit)
            {
                let known: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
                let (name, unit, known) = (name.escape_debug(), unit.escape_debug(), known.join(", "));
                return Err(format!("`{name}` is in `{unit}`; units of parameters are {known}"));
            }
        }
        for quantity in self.measured.values_mut().chain(self.predicted.values_mut()) {
            if let Quantity::Number { value, unit } = quantity {
                keep_in_base_unit(std::iter::once(value), unit);
            }
        }
        for distribution in self.distributions.values_mut() {
            keep_in_base_unit(distribution.values.iter_mut(), &mut distribution.unit);
        }
        Ok(self)
    }

    /// Whether it was taken through an emulated path: each such sample says what that lost.
    pub fn is_emulated(&self) -> bool {
        self.measured.contains_key(LOST_BY_A_SLOW_MACHINE)
    }

    /// Whether its disks are simulated.
    pub fn is_simulated(&self) -> bool {
        self.series.contains(SIMULATED)
    }

    /// Whether the emulated path lost packets because this machine was too slow for it: then its figures are void.
    pub fn is_void(&self) -> bool {
        self.measured.get(LOST_BY_A_SLOW_MACHINE).and_then(Quantity::value).is_some_and(|lost| lost > 0.0)
    }

    /// Whether something that had to be exact was not: then its figures are of something that failed.
    pub fn is_wrong(&self) -> bool {
        self.measured.get(NOT_ACCOUNTED).and_then(Quantity::value).is_some_and(|frames| frames > 0.0)
    }

    /// Whether its figures count: they are neither void nor of something that failed. Whatever is made of several samples (a
    /// median, an interval, a law's error, a goal) is made of those for which this holds: see [`counting`].
    pub fn counts(&self) -> bool {
        !self.is_void() && !self.is_wrong()
    }

    /// Payload, in bits a second.
    pub fn rate_bits_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.wall_s
    }

    /// The rate that figures and tables show: where a suite has one of its own, as of what runs already, that one.
    pub fn shown_rate_bits_per_s(&self) -> f64 {
        self.measured.get(RATE).and_then(Quantity::value).unwrap_or_else(|| self.rate_bits_per_s())
    }

    /// CPU seconds of both sides for 10^9 bytes of payload.
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s.map(|cpu_s| cpu_s / (self.bytes as f64 / 1e9)))?
    }

    /// The number of a parameter.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name)?.value()
    }

    /// One more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: Quantity) -> Sample {
        self.parameters.insert(name.to_owned(), value);
        self
    }

    /// One more measured number.
    #[must_use]
    pub fn measured(mut self, name: &str, value: f64, unit: &str) -> Sample {
        self.measured.insert(name.to_owned(), Quantity::number(value, unit));
        self
    }

    /// One more distribution, of values in the order in which they came. Of more than [`VALUES_MAX`] some are kept: they lie
    /// evenly among all by their size, the smallest and the largest with them, so that percentiles stay; how many there were
    /// is a number of its own.
    #[must_use]
    pub fn distributed(self, name: &str, unit: &str, values: Vec<f64>) -> Sample {
        let count = values.len();
        let values = thinned(values);
        let mut sample = match values.len() < count {
            true => self.measured(&format!("{name}_values"), count as f64, "1"),
            false => self,
        };
        sample.distributions.insert(name.to_owned(), Distribution { unit: unit.to_owned(), values });
        sample
    }

    /// One more number from a law.
    #[must_use]
    pub fn predicted(mut self, name: &str, value: f64, unit: &str) -> Sample {
        self.predicted.insert(name.to_owned(), Quantity::number(value, unit));
        self
    }
}

/// Measured: the rate that is meant, where that is not payload by time.
pub const RATE: &str = "rate";
/// Beside it, of copies whose start is not in it: the rate with the start.
pub const RATE_WITH_START: &str = "whole";

/// Among what is measured over an emulated path: packets that it lost because this machine was too slow for it.
pub const LOST_BY_A_SLOW_MACHINE: &str = "packets_lost_by_a_slow_machine";

/// In the names of series whose disks are simulated.
pub const SIMULATED: &str = "simulated";

/// Measured: frames of which it is not so that each is taken once as it was given, or named as lost once.
pub const NOT_ACCOUNTED: &str = "not_accounted";

/// Values of a distribution that a sample keeps at most: percentiles of them are off by 1/4000 of their number.
pub const VALUES_MAX: usize = 4000;

fn thinned(values: Vec<f64>) -> Vec<f64> {
    if values.len() <= VALUES_MAX {
        return values;
    }
    let mut by_size: Vec<usize> = (0..values.len()).collect();
    by_size.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let last = (values.len() - 1) as u128;
    let rank = |step: usize| (step as u128 * last / (VALUES_MAX as u128 - 1)) as usize;
    let mut kept: Vec<usize> = (0..VALUES_MAX).map(|step| by_size[rank(step)]).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| values[at]).collect()
}

/// What did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// It.
    pub what: String,
    /// Why: what the machine or the program cannot do.
    pub why: String,
}

/// A result file in the making: below a hidden name until it is whole, so that a run that fails leaves the former one.
#[derive(Debug)]
pub struct Log {
    out: BufWriter<File>,
    hidden: PathBuf,
    path: PathBuf,
    bytes: u64,
    results: Results,
}

impl Log {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(path: &Path, about: About) -> io::Result<Log> {
        let hidden = partial(path);
        let out = BufWriter::new(File::create(&hidden)?);
        let results = Results { about, samples: Vec::new(), left_out: Vec::new() };
        let mut log = Log { out, hidden, path: path.to_owned(), bytes: 0, results };
        log.write(&Line::About(Box::new(log.results.about.clone())))?;
        Ok(log)
    }

    /// Adds a measurement; gives it its place in the file.
    ///
    /// # Errors
    /// If it cannot be written, or nobody would read a file with it.
    pub fn sample(&mut self, mut sample: Sample) -> io::Result<()> {
        if self.results.samples.len() >= SAMPLES_MAX {
            return Err(too_large());
        }
        sample.order = u32::try_from(self.results.samples.len() + 1).unwrap_or(u32::MAX);
        self.write(&Line::Sample(sample.clone()))?;
        self.results.samples.push(sample);
        Ok(())
    }

    /// Adds what did not run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn left_out(&mut self, what: &str, why: &str) -> io::Result<()> {
        let line = LeftOut { what: what.to_owned(), why: why.to_owned() };
        self.write(&Line::LeftOut(line.clone()))?;
        self.results.left_out.push(line);
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written or renamed.
    pub fn end(mut self) -> io::Result<Results> {
        self.out.flush()?;
        fs::rename(&self.hidden, &self.path)?;
        Ok(self.results)
    }

    /// Handed on at once: who looks on sees what there is, and a kill leaves it.
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        if self.bytes > RESULT_BYTES_MAX || text.len() as u64 > LINE_BYTES_MAX {
            return Err(too_large());
        }
        self.out.write_all(&text)?;
        self.out.flush()
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!(
        "a result has at most {} MiB and {SAMPLES_MAX} samples: fewer --runs make a smaller one",
        RESULT_BYTES_MAX >> 20
    ))
}

/// Where the result file `path` is as long as it is not whole.
pub fn partial(path: &Path) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    path.with_file_name(hidden)
}

/// A result file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What was measured.
    pub about: About,
    /// All measurements, in their order.
    pub samples: Vec<Sample>,
    /// All that did not run.
    pub left_out: Vec<LeftOut>,
}

/// Most bytes of a result file that are read.
pub const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Of one of its lines.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Most of its samples.
const SAMPLES_MAX: usize = 100_000;

/// Figures are 0 or between these, whatever their sign: nothing that is measured is outside, and axes have ends.
const FIGURE_MIN: f64 = 1e-30;
const FIGURE_MAX: f64 = 1e30;

impl Results {
    /// Reads a file.
    ///
    /// # Errors
    /// What the file system says; `InvalidData` with the number of the line that is no such line, and why.
    pub fn read(path: &Path) -> io::Result<Results> {
        Self::parse(BufReader::new(File::open(path)?.take(RESULT_BYTES_MAX))).map_err(|error| {
            match error.kind() {
                io::ErrorKind::InvalidData => {
                    let why = format!("it is no result file, which `thalweg bench` writes: {error}");
                    io::Error::new(io::ErrorKind::InvalidData, why)
                }
                _ => error,
            }
        })
    }

    /// The same from anything that has lines.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn parse(mut lines: impl BufRead) -> io::Result<Results> {
        let odd = |number: usize, why: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {why}"))
        };
        let mut results: Option<Results> = None;
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            if (&mut lines).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text)? == 0 {
                break;
            }
            if text.len() as u64 > LINE_BYTES_MAX {
                return Err(odd(number, &format_args!("is longer than {} MiB", LINE_BYTES_MAX >> 20)));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let mut line: Line = serde_json::from_slice(&text).map_err(|error| odd(number, &error))?;
            if let Line::Sample(sample) = line {
                let sample = sample.in_base_units().map_err(|why| odd(number, &why))?;
                sample.check().map_err(|why| odd(number, &why))?;
                line = Line::Sample(sample);
            }
            match (line, &mut results) {
                (Line::Sample(_), Some(results)) if results.samples.len() >= SAMPLES_MAX => {
                    return Err(odd(number, &format_args!("is one sample more than {SAMPLES_MAX}")));
                }
                (Line::About(about), None) => {
                    results = Some(Results { about: *about, samples: Vec::new(), left_out: Vec::new() });
                }
                (Line::Sample(sample), Some(results)) => results.samples.push(sample),
                (Line::LeftOut(line), Some(results)) => results.left_out.push(line),
                (Line::About(_), Some(_)) => return Err(odd(number, &"a second `about`")),
                (_, None) => return Err(odd(number, &"the first line must be `about`")),
            }
        }
        results.ok_or_else(|| odd(1, &"there is nothing in it"))
    }

    /// The path of some of the samples, in words: not all of a suite need take the one that `about` names. Beside a disk
    /// there may be simulated ones, and beside an emulated path the loopback.
    pub fn path_of(&self, samples: &[&Sample]) -> String {
        let path = &self.about.path;
        let is_other: fn(&Sample) -> bool = match path {
            PathKind::Disk => Sample::is_simulated,
            PathKind::Loopback => Sample::is_emulated,
            PathKind::Testbed { .. } => |sample| !sample.is_emulated(),
            PathKind::Simulated | PathKind::Foreign { .. } => |_| false,
        };
        let others = samples.iter().filter(|sample| is_other(sample)).count();
        match (path, others) {
            (_, 0) => path.to_string(),
            (PathKind::Disk, others) if others == samples.len() => PathKind::Simulated.to_string(),
            (PathKind::Disk, _) => format!("{path} and {}", PathKind::Simulated),
            (PathKind::Loopback, others) if others == samples.len() => "emulated paths".to_owned(),
            (PathKind::Loopback, _) => format!("{path} and emulated paths"),
            // Of what was written by hand nobody said it.
            (_, others) if others == samples.len() => path.to_string(),
            (_, _) => format!("{path}, and {}", PathKind::Loopback),
        }
    }

    /// How often each case was measured, in words; of a result that is not whole, how often of how often. Of what others
    /// measured nobody knows how often it was to be.
    pub fn counted(&self) -> String {
        let counts: Vec<usize> = self.cases().iter().map(Vec::len).collect();
        let wanted = self.about.iterations as usize;
        let most = counts.iter().copied().max().unwrap_or(wanted);
        let range = |fewest: usize, most: usize| match fewest == most {
            true => fewest.to_string(),
            false => format!("{fewest} to {most}"),
        };
        if let PathKind::Foreign { .. } = self.about.path {
            return range(counts.into_iter().min().unwrap_or(wanted), most);
        }
        // Cases take turns: what is behind by more than one run was written by hand.
        let fewest = counts.into_iter().filter(|count| count + 1 >= most).min().unwrap_or(wanted);
        match fewest < wanted {
            true => format!("partial: {} of {wanted}", range(fewest, most.min(wanted))),
            false => wanted.to_string(),
        }
    }

    /// What the emulated path itself cost: see [`path_cpu_s_per_gb`]. None of what was not taken through one.
    pub fn path_cpu_s_per_gb(&self) -> Option<f64> {
        path_cpu_s_per_gb(self.samples.iter())
    }

    /// The series, in the order in which they first came.
    pub fn series(&self) -> Vec<&str> {
        let mut known = std::collections::HashSet::new();
        self.samples.iter().map(|sample| sample.series.as_str()).filter(|name| known.insert(*name)).collect()
    }

    /// The samples of which figures are made: see [`Sample::counts`].
    pub fn counting(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.counts())
    }

    /// Cases of the samples that count alone: one that has none is not there.
    pub fn counting_cases(&self) -> Vec<Vec<&Sample>> {
        let cases = self.cases();
        cases.iter().map(|case| counting(case)).filter(|case| !case.is_empty()).collect()
    }

    /// How many samples do not count because this machine was too slow for the emulated path, of how many, in words; nothing
    /// where there are none.
    pub fn void(&self) -> Option<String> {
        let void = self.samples.iter().filter(|sample| sample.is_void()).count();
        (void > 0).then(|| format!("{void} of {} samples are VOID", self.samples.len()))
    }

    /// Samples that differ in nothing but their run, in the order in which the first of each came; those that do not count
    /// are among them, so that they can be told.
    pub fn cases(&self) -> Vec<Vec<&Sample>> {
        let mut cases: Vec<Vec<&Sample>> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for sample in &self.samples {
            let parameters: Vec<_> =
                sample.parameters.iter().map(|(name, value)| (name, value.key())).collect();
            let at = *known.entry((&sample.series, parameters)).or_insert(cases.len());
            match cases.get_mut(at) {
                Some(case) => case.push(sample),
                None => cases.push(vec![sample]),
            }
        }
        cases
    }
}

/// Those samples of a case of which figures are made: see [`Sample::counts`].
pub fn counting<'a>(case: &[&'a Sample]) -> Vec<&'a Sample> {
    case.iter().copied().filter(|sample| sample.counts()).collect()
}

/// Of a few small packets it says nothing what their bytes cost: so much at least must have been moved, and so fast.
const CARRIED_BYTES_MIN: u64 = 1 << 20;
const CARRIED_BITS_PER_S_MIN: f64 = 4e6;

/// What the emulated path itself cost, in CPU seconds for 10^9 bytes that it carried: the median of those samples that count and
/// moved at least 1 MiB over one, at 4 Mbit/s or more.
pub fn path_cpu_s_per_gb<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let has_moved = |sample: &&Sample| {
        let has_carried =
            sample.bytes >= CARRIED_BYTES_MIN && sample.rate_bits_per_s() >= CARRIED_BITS_PER_S_MIN;
        sample.counts() && has_carried
    };
    let costs = samples.filter(has_moved);
    let costs: Vec<f64> = costs.filter_map(|sample| sample.wire_cpu_s_per_gb).collect();
    (!costs.is_empty()).then(|| median(&costs))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn about() -> About {
        About {
            suite: "latency".into(),
            question: "what does a default buffer cost? (000 Fig 2)".into(),
            date: "2026-11-22T02:40:00Z".into(),
            program: "thalweg 0.1.0".into(),
            commit: Some("33fe18f".into()),
            command: "thalweg bench latency".into(),
            machine: Machine { cpu: "a CPU".into(), cores: 2, ..Machine::default() },
            path: PathKind::Testbed {
                rtt_s: None,
                rate_bits_per_s: Some(1_000_000_000),
                loss: Some(0.0),
                mtu_bytes: 1500,
            },
            iterations: 3,
            encryption: "AES-128-GCM".into(),
            verification: "every segment before it is written".into(),
            scaling: Scaling::default(),
        }
    }

    fn sample(run: u32, rtt_s: f64) -> Sample {
        Sample {
            series: "default".into(),
            run,
            bytes: 1_000_000_000,
            files: 1,
            wall_s: 2.0,
            ..Sample::default()
        }
        .with("rtt", Quantity::number(rtt_s, "s"))
        .with("control", "cubic".into())
        .predicted("rate", 4e9, "bit/s")
    }

    #[test]
    fn what_is_written_is_read_again_in_its_order() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("latency.jsonl");
        let mut log = Log::begin(&path, about()).unwrap();
        log.sample(sample(1, 0.1)).unwrap();
        log.left_out("bbr", "this kernel has none").unwrap();
        log.sample(sample(1, 0.2)).unwrap();
        log.sample(sample(2, 0.1)).unwrap();
        assert!(!path.exists(), "a file that is not whole has no name");
        let written = log.end().unwrap();
        let read = Results::read(&path).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.samples.iter().map(|sample| sample.order).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(read.cases().iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((read.series(), read.samples[0].parameter("rtt")), (vec!["default"], Some(0.1)));
        assert_eq!((read.samples[0].rate_bits_per_s(), read.samples[0].cpu_s_per_gb()), (4e9, None));
    }

    #[test]
    fn a_result_that_is_not_whole_says_how_much_there_is() {
        let of = |samples: Vec<Sample>| Results { about: about(), samples, left_out: Vec::new() };
        let whole = [1, 2, 3].map(|run| [sample(run, 0.1), sample(run, 0.2)]).concat();
        assert_eq!(of(whole.clone()).counted(), "3");
        assert_eq!(of(whole[..5].to_vec()).counted(), "partial: 2 to 3 of 3");
        assert_eq!(of(whole[..4].to_vec()).counted(), "partial: 2 of 3");
        let by_hand = [&whole[..], &[sample(1, 0.3)]].concat();
        assert_eq!(of(by_hand).counted(), "3", "one more that was written below");
        let mut foreign = of(whole[..5].to_vec());
        foreign.about.path = PathKind::Foreign { to: "there".into(), rtt_s: None };
        assert_eq!(foreign.counted(), "2 to 3");
        assert_eq!(of(Vec::new()).counted(), "3");
    }

    #[test]
    fn runs_that_are_void_or_failed_are_there_and_are_not_counted() {
        let spoilt = |mark: &str, run: u32| sample(run, 0.1).measured(mark, 1.0, "1");
        let mut samples =
            vec![sample(1, 0.1), spoilt(LOST_BY_A_SLOW_MACHINE, 2), spoilt(NOT_ACCOUNTED, 3), sample(4, 0.1)];
        samples.push(sample(1, 0.2).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1"));
        for (sample, cost) in samples.iter_mut().zip([1.0, 50.0, 60.0, 3.0, 70.0]) {
            sample.wire_cpu_s_per_gb = Some(cost);
        }
        let results = Results { about: about(), samples, left_out: Vec::new() };
        assert_eq!(results.cases().iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
        let runs = |case: &[&Sample]| case.iter().map(|sample| sample.run).collect::<Vec<_>>();
        let counted: Vec<Vec<u32>> = results.counting_cases().iter().map(|case| runs(case)).collect();
        assert_eq!((counted, results.counting().count()), (vec![vec![1, 4]], 2));
        assert_eq!(results.path_cpu_s_per_gb(), Some(2.0));
        assert_eq!(results.void().as_deref(), Some("2 of 5 samples are VOID"));
    }

    #[test]
    fn a_path_is_that_of_the_samples_that_are_shown() {
        let near = Sample { series: "the disk of --dir".into(), ..Sample::default() };
        let array = Sample { series: "simulated array".into(), ..Sample::default() };
        let far = near.clone().measured(LOST_BY_A_SLOW_MACHINE, 0.0, "1");
        let told = |path: PathKind, samples: &[&Sample]| {
            let about = About { path, ..about() };
            Results { about, samples: Vec::new(), left_out: Vec::new() }.path_of(samples)
        };
        assert_eq!(told(PathKind::Disk, &[&near]), "disk");
        assert_eq!(told(PathKind::Disk, &[&array]), "simulated disks");
        assert_eq!(told(PathKind::Disk, &[&near, &array]), "disk and simulated disks");
        assert_eq!(told(PathKind::Loopback, &[&near]), "loopback");
        assert_eq!(told(PathKind::Loopback, &[&near, &far]), "loopback and emulated paths");
        let emulated = about().path;
        assert_eq!(told(emulated.clone(), &[&far]), emulated.to_string());
        assert_eq!(told(emulated.clone(), &[&near, &far]), format!("{emulated}, and loopback"));
    }

    #[test]
    fn quantities_are_read_in_the_units_that_people_write() {
        let about = serde_json::to_string(&Line::About(Box::new(about()))).unwrap();
        let with = |rest: &str| {
            let sample =
                format!(r#"{{"series":"x","run":1,"order":1,"bytes":1,"files":1,"wall_s":1,{rest}}}"#);
            let results = Results::parse(format!("{about}\n{{\"sample\":{sample}}}").as_bytes());
            results.map(|results| results.samples[0].clone()).map_err(|error| error.to_string())
        };
        let parameter = |value: &str, unit: &str| {
            with(&format!(r#""parameters":{{"x":{{"value":{value},"unit":"{unit}"}}}}"#))
                .map(|sample| sample.parameters["x"].clone())
        };
        for (value, unit, expected) in [
            ("10", "ms", Quantity::number(0.01, "s")),
            ("280", "µs", Quantity::number(0.000_28, "s")),
            ("4", "MiB", Quantity::number(4_194_304.0, "B")),
            ("2.5", "Gbit/s", Quantity::number(2.5e9, "bit/s")),
            ("100", "MB/s", Quantity::number(8e8, "bit/s")),
            ("5", "%", Quantity::number(0.05, "1")),
            ("0.3", "s", Quantity::number(0.3, "s")),
        ] {
            assert_eq!(parameter(value, unit), Ok(expected), "{value} {unit}");
        }
        let told = parameter("1", "furlong").unwrap_err();
        assert!(told.starts_with("line 2: `x` is in `furlong`; units of parameters are s, ms"), "{told}");
        let sample = with(concat!(
            r#""parameters":{},"distributions":{"lag":{"unit":"ms","values":[1,20]}},"#,
            r#""measured":{"lag_max":{"value":20,"unit":"ms"},"cost":{"value":2,"unit":"CPU-s/GB"}}"#
        ))
        .unwrap();
        assert_eq!(sample.measured["lag_max"], Quantity::number(0.02, "s"));
        assert_eq!(sample.measured["cost"], Quantity::number(2.0, "CPU-s/GB"));
        assert_eq!(sample.distributions["lag"], Distribution { unit: "s".into(), values: vec![0.001, 0.02] });
    }

    #[test]
    fn of_too_many_values_those_are_kept_that_percentiles_are_made_of_and_their_number_is_told() {
        let few = Sample::default().distributed("lag", "s", vec![3.0, 1.0, 2.0]);
        assert_eq!(few.distributions["lag"].values, [3.0, 1.0, 2.0]);
        assert!(few.measured.is_empty());
        // From the largest to the smallest.
        let count = 1_000_000;
        let many = Sample::default().distributed("lag", "s", (0..count).rev().map(f64::from).collect());
        let kept = &many.distributions["lag"].values;
        assert_eq!(many.measured["lag_values"].value(), Some(f64::from(count)));
        assert_eq!((kept.len(), kept[0], kept[VALUES_MAX - 1]), (VALUES_MAX, 999_999.0, 0.0));
        assert!(kept.is_sorted_by(|a, b| a > b), "in the order in which they came");
        let summary = crate::bench::statistics::Summary::of(kept).unwrap();
        assert!((summary.p50 / 500_000.0 - 1.0).abs() < 1e-3 && (summary.p99 / 990_000.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_would_be_more_than_is_read_again_is_not_written() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = Log::begin(&scratch.path().join("long.jsonl"), about()).unwrap();
        log.sample(sample(1, 0.1)).unwrap();
        log.bytes = RESULT_BYTES_MAX - 10;
        let refused = log.sample(sample(2, 0.1)).unwrap_err().to_string();
        assert!(refused.contains("256 MiB") && refused.contains("--runs"), "{refused}");
        let mut log = Log::begin(&scratch.path().join("many.jsonl"), about()).unwrap();
        log.results.samples = vec![Sample::default(); SAMPLES_MAX];
        assert!(log.sample(sample(1, 0.1)).is_err());
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let parse = |text: &str| Results::parse(text.as_bytes()).map_err(|error| error.to_string());
        let about = serde_json::to_string(&Line::About(Box::new(about()))).unwrap();
        assert!(parse("").unwrap_err().contains("nothing"));
        assert!(parse(r#"{"left_out":{"what":"x","why":"y"}}"#).unwrap_err().contains("line 1: the first"));
        assert!(parse(&format!("{about}\n\n{about}")).unwrap_err().contains("line 3: a second"));
        assert!(parse(&format!("{about}\n{{\"wall_s\":1}}")).unwrap_err().starts_with("line 2"));
        let with = |sample: &str| parse(&format!("{about}\n{{\"sample\":{sample}}}"));
        let one = |rest: &str| {
            format!(r#"{{"series":"x","parameters":{{}},"run":1,"order":1,"bytes":1,"files":1{rest}}}"#)
        };
        assert!(with(&one(r#","wall_s":0.1"#)).is_ok());
        for rest in [
            r#","wall_s":0"#,
            r#","wall_s":-1"#,
            r#","wall_s":1e31"#,
            r#","wall_s":5e-324"#,
            r#","wall_s":1,"cpu_s":1e300"#,
            r#","wall_s":1,"measured":{"rate":{"value":-1e99,"unit":"bit/s"}}"#,
            r#","wall_s":1,"distributions":{"lag":{"unit":"s","values":[1,1e-200]}}"#,
        ] {
            assert!(with(&one(rest)).unwrap_err().starts_with("line 2: `"), "{rest}");
        }
        for rest in [r#","wall_s":NaN"#, r#","wall_s":1e999"#, r#","wall_s":1,"wall_s":1"#] {
            assert!(with(&one(rest)).unwrap_err().starts_with("line 2"), "{rest}");
        }
        // An earlier one did not say its commit.
        let earlier = about.replacen("\"commit\":\"33fe18f\",", "", 1);
        assert_ne!(earlier, about);
        let earlier = parse(&earlier).unwrap().about;
        assert_eq!((earlier.commit.as_deref(), earlier.built().as_str()), (None, "thalweg 0.1.0"));
        // A later program may say more.
        let more = about.replacen("\"suite\"", "\"mood\":\"good\",\"suite\"", 1);
        assert_eq!(parse(&more).unwrap().about, super::tests::about());
    }
}
