//! pScheduler's results (perfSONAR; names as in the result schemas of its tests): what `pscheduler task --format json`
//! prints, or a run with its test, as archives and pScheduler's servers have it.
//!
//! - `throughput`: bits in a second, of which those count that arrived; of each interval and stream as well.
//! - `rtt`: the round trips one by one, as durations of ISO 8601.
//! - `latency`: a histogram of the way in one direction, in buckets of a thousandth of a second unless the test says
//!   another width.
//!
//! A result alone does not say to whom it was: the test does. Not taken: traces and other tests, single packets of
//! owping, and round trip times and jitter that a tool saw beside its rate, whose units no schema says.

use super::document::{self, At};
use super::{Gathered, MIN_RTT, NotImported, Origin, ROUND_TRIP, named, with_spread};
use crate::bench::record::{LeftOut, Machine, Quantity, Results, Sample, VALUES_MAX};
use crate::bench::statistics::mean;

/// Reads one or several, one behind the other. Those that failed, or moved nothing, are left out, with what pScheduler
/// said.
///
/// # Errors
/// If one is not as pScheduler writes it: which, where in it, and what was expected; if there are too many runs or
/// values; or nothing was measured.
pub fn read(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    let runs = document::objects(text)?;
    let (mut gathered, mut left_out) = (Gathered::default(), Vec::new());
    for (number, run) in (1..).zip(&runs) {
        let run = Run::of(At::top(run));
        let taken = run.sample(number).and_then(|sample| match sample.check() {
            Ok(()) => Ok(sample),
            Err(why) => Err(Why::Nothing(why)),
        });
        match taken {
            Ok(sample) => gathered.push(sample)?,
            Err(Why::Nothing(why)) => left_out.push(LeftOut { what: format!("run {number}"), why }),
            Err(Why::Odd(why)) => {
                return Err(NotImported(format!("this is no result of pScheduler: run {number}: {why}")));
            }
        }
    }
    let samples = gathered.samples;
    let Some(first) = runs.first().filter(|_| !samples.is_empty()) else {
        let why = left_out.first().map_or("it is empty", |line: &LeftOut| line.why.as_str());
        return Err(NotImported(format!("pScheduler measured nothing: {why}")));
    };
    let to = named(samples.iter().filter_map(|sample| sample.parameters.get("host")?.word()), "hosts");
    let origin = Origin {
        suite: "pscheduler",
        question: "imported from pScheduler",
        program: "pScheduler".to_owned(),
        date: began(&At::top(first)).unwrap_or_else(|| moment(0)),
        machine: Machine::default(),
        to: if to.is_empty() { "an unknown host".to_owned() } else { to },
    };
    Ok(origin.results(samples, left_out))
}

/// A date of RFC 3339, with nanoseconds and a zone, is shorter.
const DATE_MAX: usize = 40;

/// When a run began, if it says so as RFC 3339.
fn began(record: &At<'_>) -> Option<String> {
    let run = record.find("run").and_then(|run| run.find("start-time"));
    let text = run.or_else(|| record.find("start-time"))?.value.as_str()?;
    let is_of_date = |byte: u8| byte.is_ascii_digit() || b"-:.+TZ".contains(&byte);
    let is_date = text.len() <= DATE_MAX && text.bytes().all(is_of_date);
    is_date.then(|| text.to_owned())
}

/// Why there is no sample.
enum Why {
    /// It is no such result.
    Odd(String),
    /// It is one, and nothing was measured.
    Nothing(String),
}

impl From<String> for Why {
    fn from(why: String) -> Why {
        Why::Odd(why)
    }
}

/// A run: its result, and what of its test is known.
struct Run<'a> {
    result: At<'a>,
    spec: Option<At<'a>>,
    tool: Option<&'a str>,
}

/// What a test sends in a second if nobody asks for another interval: packets of `latency`, and of `rtt`.
const LATENCY_INTERVAL_S: f64 = 0.1;
const ROUND_TRIP_INTERVAL_S: f64 = 1.0;

/// Of the histogram of `latency`, unless another was asked for.
const BUCKET_S: f64 = 1e-3;

/// Of words of a tool so many letters are told.
const WORDS_MAX: usize = 200;

impl<'a> Run<'a> {
    fn of(record: At<'a>) -> Run<'a> {
        let spec = record.find("test").and_then(|test| test.find("spec"));
        // A name, or an object that has one.
        let tool = record.find("tool");
        let tool = tool.and_then(|tool| tool.value.as_str().or_else(|| tool.find("name")?.value.as_str()));
        // Beside it there may be a list, with what each participant said.
        let merged = record.find("result-merged").or_else(|| record.find("result"));
        Run { result: merged.unwrap_or(record), spec, tool }
    }

    fn sample(&self, number: u32) -> Result<Sample, Why> {
        let succeeded = self.result.get("succeeded")?;
        if !succeeded.value.as_bool().ok_or_else(|| succeeded.odd("true or false"))? {
            return Err(Why::Nothing(self.failure()));
        }
        let sample = if let Some(summary) = self.result.find("summary") {
            self.throughput(&summary)?
        } else if let Some(roundtrips) = self.result.find("roundtrips") {
            self.round_trips(&roundtrips)?
        } else if let Some(histogram) = self.result.find("histogram-latency") {
            self.latency(&histogram)?
        } else {
            let why = "it is of another test: those of throughput, rtt and latency are read";
            return Err(Why::Nothing(why.to_owned()));
        };
        let host = |name: &str| self.spec.as_ref()?.find(name)?.value.as_str();
        let ends = [("host", host("dest")), ("source", host("source"))];
        let ends = ends.into_iter().filter_map(|(name, host)| Some((name, host?)));
        let sample = ends.fold(sample, |sample, (name, host)| sample.with(name, host.into()));
        Ok(Sample { run: number, ..sample })
    }

    /// The first line of what went wrong.
    fn failure(&self) -> String {
        let told = ["error", "diags"].iter().find_map(|name| self.result.find(name)?.value.as_str());
        let line = told.and_then(|text| text.lines().map(str::trim).find(|line| !line.is_empty()));
        line.map_or("it failed".to_owned(), |line| line.chars().take(WORDS_MAX).collect())
    }

    fn series(&self, what: &str) -> String {
        format!("{}, {what}", self.tool.unwrap_or("pScheduler"))
    }

    /// Seconds that the test was to have under this name.
    fn seconds(&self, name: &str) -> Result<Option<f64>, String> {
        let found = self.spec.as_ref().and_then(|spec| spec.find(name));
        found.map(|found| seconds(&found)).transpose()
    }

    /// A number that the test was to have under this name.
    fn asked(&self, name: &str) -> Result<Option<f64>, String> {
        self.spec.as_ref().map_or(Ok(None), |spec| spec.find_number(name))
    }

    fn is_asked(&self, name: &str) -> bool {
        self.spec.as_ref().and_then(|spec| spec.find(name)?.value.as_bool()).unwrap_or(false)
    }

    fn throughput(&self, summary: &At<'_>) -> Result<Sample, Why> {
        let whole = summary.get("summary")?;
        let rate = |at: &At<'_>| at.get("throughput-bits")?.number();
        let wall_s = whole.get("end")?.number()? - whole.find_number("start")?.unwrap_or(0.0);
        let (sent, lost) = (whole.find_number("sent")?, whole.find_number("lost")?);
        let is_udp = self.is_asked("udp") || sent.is_some();
        let share_lost = lost.zip(sent.filter(|sent| *sent > 0.0));
        let share_lost = share_lost.map(|(lost, sent)| (lost / sent).clamp(0.0, 1.0));
        // Of TCP what was sent did arrive.
        let arrived = match (whole.find_number("receiver-throughput-bits")?, is_udp, share_lost) {
            (Some(arrived), ..) => arrived,
            (None, false, _) => rate(&whole)?,
            (None, true, Some(share)) => rate(&whole)? * (1.0 - share),
            (None, true, None) => {
                let why = "it does not say how much of what was sent arrived";
                return Err(Why::Nothing(why.to_owned()));
            }
        };
        let bytes = (arrived * wall_s / 8.0).round() as u64;
        if bytes == 0 {
            return Err(Why::Nothing("nothing of it arrived".to_owned()));
        }
        let direction = if self.is_asked("reverse") { "from the server" } else { "to the server" };
        let series = self.series(if is_udp { "UDP" } else { "TCP" });
        let mut sample = Sample { series, bytes, wall_s, ..Sample::default() }
            .with("direction", direction.into())
            .measured("rate", arrived, "bit/s");
        let mut of_streams = Vec::new();
        for stream in summary.find("streams").map_or(Ok(Vec::new()), |streams| streams.items())? {
            of_streams.push(rate(&stream)?);
        }
        let asked = [
            ("streams", Some(of_streams.len() as f64).filter(|streams| *streams > 0.0), "1"),
            ("duration", self.seconds("duration")?, "s"),
            ("target_rate", self.asked("bandwidth")?, "bit/s"),
            ("window", self.asked("window-size")?, "B"),
            ("block_size", self.asked("buffer-length")?, "B"),
        ];
        for (name, value, unit) in asked {
            if let Some(value) = value {
                sample = sample.with(name, Quantity::number(value, unit));
            }
        }
        let control = self.spec.as_ref().and_then(|spec| spec.find("congestion")?.value.as_str());
        if let Some(control) = control {
            sample = sample.with("control", control.into());
        }
        let told = [
            ("segments_sent_again", whole.find_number("retransmits")?, "1"),
            ("packets_lost", lost.filter(|_| is_udp), "1"),
            ("share_lost", share_lost.filter(|_| is_udp), "1"),
        ];
        for (name, value, unit) in told {
            sample = value.into_iter().fold(sample, |sample, value| sample.measured(name, value, unit));
        }
        // Of UDP they are what was sent.
        if is_udp {
            return Ok(sample);
        }
        let mut of_intervals = Vec::new();
        for interval in self.result.find("intervals").map_or(Ok(Vec::new()), |intervals| intervals.items())? {
            let whole = interval.get("summary")?;
            let omitted = whole.find("omitted").and_then(|omitted| omitted.value.as_bool());
            if omitted != Some(true) {
                of_intervals.push(rate(&whole)?);
            }
        }
        for (name, rates) in [("rate", of_intervals), ("stream_rate", of_streams)] {
            if !rates.is_empty() {
                sample = sample.distributed(name, "bit/s", rates);
            }
        }
        Ok(sample)
    }

    fn round_trips(&self, roundtrips: &At<'_>) -> Result<Sample, Why> {
        let roundtrips = roundtrips.items()?;
        let mut seen = Vec::new();
        for trip in &roundtrips {
            if let Some(rtt) = trip.find("rtt") {
                seen.push(seconds(&rtt)?);
            }
        }
        let sent = self.result.find_number("sent")?.unwrap_or(roundtrips.len() as f64);
        let Some(least) = seen.iter().copied().reduce(f64::min) else {
            return Err(Why::Nothing("no answer came".to_owned()));
        };
        let wall_s = sent * self.seconds("interval")?.unwrap_or(ROUND_TRIP_INTERVAL_S);
        let mut sample = Sample { series: self.series("round trips"), wall_s, ..Sample::default() }
            .measured(MIN_RTT, least, "s")
            .measured("mean_rtt", mean(&seen), "s")
            .measured("packets_sent", sent, "1");
        if let Some(length) = self.asked("length")? {
            sample = sample.with("packet_size", Quantity::number(length, "B"));
        }
        for (name, told) in [("packets_lost", "lost"), ("share_lost", "loss")] {
            if let Some(value) = self.result.find_number(told)? {
                sample = sample.measured(name, value, "1");
            }
        }
        Ok(sample.distributed(ROUND_TRIP, "s", seen))
    }

    fn latency(&self, histogram: &At<'_>) -> Result<Sample, Why> {
        let bucket_s = self.asked("bucket-width")?.unwrap_or(BUCKET_S);
        let in_s = |(key, count): (f64, u64)| (key * bucket_s, count);
        let counted = histogram.histogram()?.into_iter().map(in_s).collect();
        let (values, received) = document::spread(counted, VALUES_MAX);
        if values.is_empty() {
            return Err(Why::Nothing("no packet arrived".to_owned()));
        }
        let sent = self.result.find_number("packets-sent")?.unwrap_or(received);
        let wall_s = sent * self.asked("packet-interval")?.unwrap_or(LATENCY_INTERVAL_S);
        let series = self.series("latency one way");
        let mut sample = Sample { series, wall_s, ..Sample::default() }.measured("packets_sent", sent, "1");
        for (name, told, unit, over) in [
            ("packets_lost", "packets-lost", "1", 1.0),
            ("packets_twice", "packets-duplicated", "1", 1.0),
            ("packets_passed", "packets-reordered", "1", 1.0),
            ("clock_error", "max-clock-error", "s", 1e3),
        ] {
            if let Some(value) = self.result.find_number(told)? {
                sample = sample.measured(name, value / over, unit);
            }
        }
        if let Some(bytes) = self.asked("packet-padding")? {
            sample = sample.with("padding", Quantity::number(bytes, "B"));
        }
        Ok(with_spread(sample, "latency", "s", (values, received)))
    }
}

/// A duration of ISO 8601, in seconds.
fn seconds(at: &At<'_>) -> Result<f64, String> {
    parsed(at.text()?).ok_or_else(|| at.odd("a duration of ISO 8601 without years and months, as PT0.012S,"))
}

/// Weeks, days, hours, minutes and seconds; none of years and months, whose length is not known.
fn parsed(text: &str) -> Option<f64> {
    const DAYS: &[(char, f64)] = &[('W', 604_800.0), ('D', 86_400.0)];
    const TIME: &[(char, f64)] = &[('H', 3600.0), ('M', 60.0), ('S', 1.0)];
    let text = text.strip_prefix('P')?;
    let (days, time) = text.split_once('T').unwrap_or((text, ""));
    let mut sum_s = 0.0;
    for (mut rest, units) in [(days, DAYS), (time, TIME)] {
        while let Some(at) = rest.find(|letter: char| letter.is_ascii_alphabetic()) {
            let (number, behind) = rest.split_at(at);
            let unit = behind.chars().next()?;
            let (_, unit_s) = units.iter().find(|(name, _)| *name == unit)?;
            sum_s += number.parse::<f64>().ok().filter(|number| *number >= 0.0)? * unit_s;
            rest = &behind[1..];
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(sum_s)
}
