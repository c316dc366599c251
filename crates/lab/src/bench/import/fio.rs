//! fio's `--output-format=json` and `json+` (fio(1); versions 3.x have these names): each direction of each job is a
//! sample with the parameters that `bench storage` has, so that both stand in the same tables and figures.
//!
//! Sizes are counted in bytes there, times in milliseconds and latencies in nanoseconds. Versions before 3.0 have KiB
//! and microseconds under some of the same names, and are refused.
//!
//! Not taken: trims, syncs, what disks say of themselves, and servers' sums of several clients.

use super::document::{self, At};
use super::{Gathered, NotImported, Origin, named, with_spread};
use crate::bench::record::{LeftOut, Machine, Quantity, Results, Sample};
use crate::bench::suite::storage::{DIRECT, LATENCIES_MAX, LATENCY, SUITE};
use std::collections::BTreeMap;

/// The first version whose units are these.
const VERSION_MIN: u32 = 3;

/// Reads one or several results, one behind the other. Jobs that failed, or moved nothing, are left out.
///
/// # Errors
/// If a run is not as fio writes it: the run, where in it, and what was expected; if there are too many runs or values;
/// or nothing was measured.
pub fn read(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    let runs = document::objects(text)?;
    let (mut gathered, mut left_out) = (Gathered::default(), Vec::new());
    for (number, run) in (1..).zip(&runs) {
        take(&At::top(run), number, &mut gathered, &mut left_out)?;
    }
    let samples = gathered.samples;
    let Some(first) = runs.first().filter(|_| !samples.is_empty()) else {
        let why = left_out.first().map_or("it has no jobs", |line: &LeftOut| line.why.as_str());
        return Err(NotImported(format!("fio measured nothing: {why}")));
    };
    let to = named(samples.iter().filter_map(|sample| sample.parameters.get("file")?.word()), "files");
    let origin = Origin {
        suite: SUITE.name,
        question: "imported from fio",
        program: first["fio version"].as_str().unwrap_or_default().replacen('-', " ", 1),
        date: moment(first["timestamp"].as_i64().unwrap_or_default()),
        machine: Machine::default(),
        to: if to.is_empty() { "an unknown file".to_owned() } else { to },
    };
    Ok(origin.results(samples, left_out))
}

/// One run: all directions of all its jobs.
fn take(
    run: &At<'_>,
    number: u32,
    to: &mut Gathered,
    left_out: &mut Vec<LeftOut>,
) -> Result<(), NotImported> {
    let odd = |why: String| NotImported(format!("this is no result of fio: run {number}: {why}"));
    check_version(run).map_err(odd)?;
    let jobs = run.get("jobs").and_then(|jobs| jobs.items()).map_err(odd)?;
    // Jobs of one group run side by side.
    let mut groups: BTreeMap<Option<u64>, u32> = BTreeMap::new();
    let group_of = |job: &At<'_>| job.find("groupid").map(|group| group.count()).transpose();
    for job in &jobs {
        *groups.entry(group_of(job).map_err(odd)?).or_default() += 1;
    }
    for job in &jobs {
        let name = job.get("jobname").and_then(|name| name.text()).map_err(odd)?;
        let beside = groups.get(&group_of(job).map_err(odd)?).copied().unwrap_or(1);
        let what = format!("run {number}, job {name}");
        if let Some(error) = job.find_number("error").map_err(odd)?.filter(|error| *error != 0.0) {
            let why = format!("it failed with error {error}");
            left_out.push(LeftOut { what, why });
            continue;
        }
        let taken = Job { job, name, options: Options::of(run, job), beside }.samples(number).map_err(odd)?;
        if taken.is_empty() {
            left_out.push(LeftOut { what: what.clone(), why: "it moved nothing".to_owned() });
        }
        for sample in taken {
            match sample.check() {
                Ok(()) => to.push(sample)?,
                Err(why) => left_out.push(LeftOut { what: what.clone(), why }),
            }
        }
    }
    Ok(())
}

/// Whether its units are these.
fn check_version(run: &At<'_>) -> Result<(), String> {
    let version = run.get("fio version")?;
    let told = version.text()?;
    let major = told.strip_prefix("fio-").and_then(|rest| rest.split(['.', '-']).next()?.parse::<u32>().ok());
    match major {
        Some(major) if major >= VERSION_MIN => Ok(()),
        Some(_) => {
            let told = told.escape_debug();
            Err(format!(
                "{told} counts in KiB and microseconds: results of fio {VERSION_MIN}.0 and later are read"
            ))
        }
        None => Err(version.odd("a version of fio, as fio-3.36,")),
    }
}

/// Options as they were typed: of a job, and of all jobs.
struct Options<'a> {
    own: Option<At<'a>>,
    of_all: Option<At<'a>>,
}

impl<'a> Options<'a> {
    fn of(run: &At<'a>, job: &At<'a>) -> Options<'a> {
        Options { own: job.find("job options"), of_all: run.find("global options") }
    }

    /// The first of these names that was typed, of the job before that of all.
    fn find(&self, names: &[&str]) -> Option<&'a str> {
        let mut places = [&self.own, &self.of_all].into_iter().flatten();
        places.find_map(|place| names.iter().find_map(|name| place.find(name)?.value.as_str()))
    }

    /// Whether it was typed, with or without a value that says so.
    fn is_set(&self, name: &str) -> bool {
        self.find(&[name]).is_some_and(|value| !matches!(value, "0" | "false"))
    }

    fn number(&self, names: &[&str]) -> Option<u32> {
        self.find(names)?.trim().parse().ok()
    }
}

/// Engines that have one request in flight, whatever depth is asked for; the first is fio's own choice.
const ENGINES_OF_ONE: [&str; 6] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Directions, called as `bench storage` calls them; the last is both together, where a job was to report them so.
const DIRECTIONS: [&str; 3] = ["read", "write", "mixed"];

struct Job<'a> {
    job: &'a At<'a>,
    name: &'a str,
    options: Options<'a>,
    /// Jobs that ran side by side with it, itself among them.
    beside: u32,
}

impl Job<'_> {
    /// One for each direction in which something was moved.
    fn samples(&self, number: u32) -> Result<Vec<Sample>, String> {
        let mut moved = Vec::new();
        for verb in DIRECTIONS {
            let Some(at) = self.job.find(verb) else { continue };
            let requests = at.get("total_ios")?.count()?;
            if requests > 0 {
                moved.push((verb, at, requests));
            }
        }
        let is_mix = moved.len() > 1;
        moved.iter().map(|(verb, at, requests)| self.sample(number, verb, at, *requests, is_mix)).collect()
    }

    fn sample(
        &self,
        number: u32,
        verb: &str,
        at: &At<'_>,
        requests: u64,
        is_mix: bool,
    ) -> Result<Sample, String> {
        let options = &self.options;
        let is_direct =
            options.is_set("direct") || options.find(&["buffered"]).is_some_and(|value| value == "0");
        let way = if is_direct { DIRECT } else { "cached" };
        let pattern = options.find(&["rw", "readwrite"]).unwrap_or("read");
        let order = if pattern.starts_with("rand") { "scattered" } else { "sequential" };
        let engine = options.find(&["ioengine"]).unwrap_or(ENGINES_OF_ONE[0]);
        let is_of_one = ENGINES_OF_ONE.contains(&engine);
        let depth = if is_of_one { 1 } else { options.number(&["iodepth"]).unwrap_or(1) };
        // One report of all copies of a job, or one of each.
        let copies = match options.is_set("group_reporting") {
            true => options.number(&["numjobs"]).unwrap_or(1).max(1),
            false => 1,
        };
        let bytes = at.get("io_bytes")?.count()?;
        let count = |value: f64| Quantity::number(value, "1");
        let mut sample = Sample {
            series: format!("{verb}, {way}, {order}{}", if is_mix { ", in a mix" } else { "" }),
            run: number,
            bytes,
            files: 1,
            wall_s: at.get("runtime")?.number()? / 1e3,
            ..Sample::default()
        }
        .with("direction", verb.into())
        .with("way", way.into())
        .with("order", order.into())
        .with("request_size", Quantity::number(request_bytes(bytes, requests), "B"))
        .with("depth", count(f64::from(depth) * f64::from(copies)))
        .with("engine", engine.into())
        .with("job", self.name.into());
        if let Some(file) = options.find(&["filename", "directory"]) {
            sample = sample.with("file", file.into());
        }
        if self.beside.max(copies) > 1 {
            sample = sample.with("jobs", count(f64::from(self.beside.max(copies))));
        }
        if is_mix {
            let share = options.number(&["rwmixread"]).unwrap_or(50);
            let share = options.number(&["rwmixwrite"]).map_or(share, |writes| 100u32.saturating_sub(writes));
            sample = sample.with("read_share", count(f64::from(share) / 100.0));
        }
        if let Some(iops) = at.find_number("iops")? {
            sample = sample.measured("requests_per_s", iops, "1/s");
        }
        sample.cpu_s = self.cpu_s(is_mix)?;
        latencies(at, requests, sample)
    }

    /// Shares of one core, in hundredths, over the time of all threads together; of two directions at once it is that
    /// of both.
    fn cpu_s(&self, is_mix: bool) -> Result<Option<f64>, String> {
        let of = |name: &str| self.job.find_number(name);
        let cpu_s = match (of("usr_cpu")?, of("sys_cpu")?, of("job_runtime")?) {
            (Some(user), Some(system), Some(time_ms)) => Some((user + system) / 100.0 * time_ms / 1e3),
            _ => None,
        };
        Ok(cpu_s.filter(|_| !is_mix))
    }
}

/// A disk's blocks, of which requests are made.
const BLOCK_BYTES: f64 = 512.0;

/// What a request had in the mean, in whole blocks where it is but for a hundredth: the last of a file may be shorter.
/// What was typed has several meanings (`kb_base`), and may be a range.
fn request_bytes(bytes: u64, requests: u64) -> f64 {
    let mean = bytes as f64 / requests.max(1) as f64;
    let whole = (mean / BLOCK_BYTES).round() * BLOCK_BYTES;
    if (mean - whole).abs() <= mean / 100.0 { whole } else { mean.round() }
}

/// How long requests took from when they were handed to the kernel, or where fio tells percentiles of that, from when
/// they were made. Of buckets (`json+`) all; else by percentiles: what lies between two counts as the larger one.
fn latencies(at: &At<'_>, requests: u64, sample: Sample) -> Result<Sample, String> {
    for name in ["clat_ns", "lat_ns"] {
        let Some(latency) = at.find(name) else { continue };
        let in_s = |(values, count): (Vec<f64>, f64)| {
            (values.into_iter().map(|value_ns| value_ns / 1e9).collect::<Vec<f64>>(), count)
        };
        if let Some(buckets) = latency.find("bins") {
            let values = in_s(document::spread(buckets.histogram()?, LATENCIES_MAX));
            return Ok(with_spread(sample, LATENCY, "s", values));
        }
        let Some(percentile) = latency.find("percentile") else { continue };
        let mut reached = Vec::new();
        for (percent, value) in percentile.numbered()? {
            reached.push((percent, value.number()?));
        }
        reached.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (latency.get("min")?.number()?, latency.get("max")?.number()?);
        let count = latency.find("N").map_or(Ok(requests), |count| count.count())?;
        let kept = count.min(LATENCIES_MAX as u64);
        let of_rank = |rank: u64| {
            let percent = rank as f64 / kept as f64 * 100.0;
            // Percentiles are written with six digits.
            let next = reached.iter().find(|(reached, _)| *reached >= percent - 1e-6);
            match rank {
                1 => least,
                _ => next.map_or(most, |(_, value)| *value),
            }
        };
        let values = in_s(((1..=kept).map(of_rank).collect(), count as f64));
        return Ok(with_spread(sample, LATENCY, "s", values));
    }
    Ok(sample)
}
