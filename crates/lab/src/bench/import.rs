//! Other programs' results, as samples: iperf3's `--json`.

use super::record::{About, Distribution, LeftOut, PathKind, Quantity, Results, Sample, Scaling};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt;

/// What iperf3 writes, as far as it is of use (iperf3(1), `--json`; versions 3.1 to 3.19 have these names).
#[derive(Deserialize)]
struct Iperf {
    #[serde(default)]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
struct Start {
    #[serde(default)]
    version: String,
    #[serde(default)]
    system_info: String,
    #[serde(default)]
    timestamp: Timestamp,
    #[serde(default)]
    connecting_to: Target,
    #[serde(default)]
    test_start: TestStart,
}

#[derive(Deserialize, Default)]
struct Timestamp {
    #[serde(default)]
    timesecs: i64,
}

#[derive(Deserialize, Default)]
struct Target {
    #[serde(default)]
    host: String,
}

#[derive(Deserialize, Default)]
struct TestStart {
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    num_streams: u32,
    #[serde(default)]
    blksize: u64,
    #[serde(default)]
    duration: f64,
    #[serde(default)]
    reverse: u8,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
}

#[derive(Deserialize, Default)]
struct Sum {
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    bits_per_second: f64,
    retransmits: Option<u64>,
    #[serde(default)]
    omitted: bool,
}

#[derive(Deserialize, Default)]
struct End {
    #[serde(default)]
    streams: Vec<EndStream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    /// Of UDP, before there were the two above.
    sum: Option<Sum>,
    /// The other direction of `--bidir`.
    sum_sent_bidir_reverse: Option<IgnoredAny>,
    cpu_utilization_percent: Option<Cpu>,
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct EndStream {
    sender: Option<Sender>,
}

#[derive(Deserialize)]
struct Sender {
    /// In microseconds.
    mean_rtt: Option<f64>,
    max_snd_cwnd: Option<f64>,
}

#[derive(Deserialize)]
struct Cpu {
    host_total: f64,
    remote_total: f64,
}

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
const OTHER: &str = "this is no result of `iperf3 --json`, and of other programs none is read: write what they say as samples \
                     (docs/guide/bench.md, the result file)";

/// Most runs of one file: iperf3 writes one, several may be put behind each other.
const RUNS_MAX: usize = 100_000;

/// Reads one or several results of `iperf3 --json`, one behind the other. `moment` writes seconds since 1970 as RFC 3339.
/// A run that failed is left out, with what iperf3 said.
///
/// # Errors
/// If it is something else, or there is no run that went well.
pub fn iperf3(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    let odd = |why: String| NotImported(format!("{OTHER}: {why}"));
    let mut runs = Vec::new();
    for run in serde_json::Deserializer::from_str(text).into_iter::<Iperf>().take(RUNS_MAX) {
        runs.push(run.map_err(|error| odd(error.to_string()))?);
    }
    let (mut samples, mut left_out) = (Vec::new(), Vec::new());
    for (at, run) in runs.iter().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let sample = match (&run.error, sample(run, number)) {
            (Some(why), _) => Err(why.clone()),
            (None, None) => Err("it moved nothing".to_owned()),
            (None, Some(sample)) => sample.check().map(|()| sample),
        };
        match sample {
            Ok(sample) => samples.push(sample),
            Err(why) => left_out.push(LeftOut { what: format!("run {number}"), why }),
        }
        if run.end.sum_sent_bidir_reverse.is_some() {
            let why = "one direction of a run is taken: measure the other one with `iperf3 -R`".to_owned();
            left_out.push(LeftOut { what: format!("run {number}, the other direction (--bidir)"), why });
        }
    }
    for (order, sample) in (1..).zip(&mut samples) {
        sample.order = order;
    }
    let Some(first) = runs.first().filter(|_| !samples.is_empty()) else {
        let why = left_out.first().map_or("it is empty".to_owned(), |line| line.why.clone());
        return Err(odd(why));
    };
    let rtt_s = samples[0].measured.get("mean_rtt").and_then(Quantity::value);
    let about = About {
        suite: "iperf3".to_owned(),
        question: "imported from iperf3 --json".to_owned(),
        date: moment(first.start.timestamp.timesecs),
        program: first.start.version.clone(),
        commit: None,
        command: String::new(),
        machine: machine(&first.start.system_info),
        path: PathKind::Foreign { to: first.start.connecting_to.host.clone(), rtt_s },
        iterations: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        encryption: "none".to_owned(),
        verification: "none".to_owned(),
        scaling: Scaling::default(),
    };
    Ok(Results { about, samples, left_out })
}

/// `uname -a` has the kernel's name first and its release third.
fn machine(system_info: &str) -> super::record::Machine {
    let words: Vec<&str> = system_info.split_whitespace().collect();
    let kernel = match words[..] {
        [name, _, release, ..] => format!("{name} {release}"),
        _ => String::new(),
    };
    super::record::Machine { kernel, ..Default::default() }
}

fn sample(run: &Iperf, number: u32) -> Option<Sample> {
    let end = &run.end;
    let received = end.sum_received.as_ref().filter(|sum| sum.bytes > 0);
    let sum = received.or(end.sum_sent.as_ref()).or(end.sum.as_ref())?;
    if sum.bytes == 0 || sum.seconds <= 0.0 {
        return None;
    }
    let test = &run.start.test_start;
    let mut sample = Sample {
        series: format!("iperf3, {}", test.protocol),
        run: number,
        bytes: sum.bytes,
        wall_s: sum.seconds,
        ..Sample::default()
    }
    .with("streams", Quantity::number(f64::from(test.num_streams), "1"))
    .with("block_size", Quantity::number(test.blksize as f64, "B"))
    .with("duration", Quantity::number(test.duration, "s"))
    .with("direction", if test.reverse == 0 { "to the server" } else { "from the server" }.into())
    .measured("rate", sum.bits_per_second, "bit/s");
    if let Some(control) = &run.end.sender_tcp_congestion {
        sample = sample.with("control", control.as_str().into());
    }
    let senders: Vec<&Sender> = run.end.streams.iter().filter_map(|stream| stream.sender.as_ref()).collect();
    let rtts: Vec<f64> =
        senders.iter().filter_map(|sender| sender.mean_rtt).filter(|rtt| *rtt > 0.0).collect();
    if !rtts.is_empty() {
        sample = sample.measured("mean_rtt", super::statistics::mean(&rtts) / 1e6, "s");
    }
    if let Some(window) = senders.iter().filter_map(|sender| sender.max_snd_cwnd).reduce(f64::max) {
        sample = sample.measured("largest_window", window, "B");
    }
    if let Some(retransmits) = run.end.sum_sent.as_ref().and_then(|sum| sum.retransmits) {
        sample = sample.measured("segments_sent_again", retransmits as f64, "1");
    }
    // Shares of one core, in hundredths, over the time of the test.
    sample.cpu_s = run
        .end
        .cpu_utilization_percent
        .as_ref()
        .map(|cpu| (cpu.host_total + cpu.remote_total) / 100.0 * sum.seconds);
    let rates: Vec<f64> =
        run.intervals.iter().filter(|one| !one.sum.omitted).map(|one| one.sum.bits_per_second).collect();
    if !rates.is_empty() {
        sample.distributions.insert("rate".to_owned(), Distribution { unit: "bit/s".into(), values: rates });
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by iperf3 itself.
    const REAL: &str = include_str!("import/iperf3.json");

    #[test]
    fn a_real_result_becomes_a_sample_with_the_same_figures() {
        let results = iperf3(REAL, |seconds| seconds.to_string()).unwrap();
        let value: serde_json::Value = serde_json::from_str(REAL).unwrap();
        let sample = &results.samples[0];
        assert_eq!(results.about.program, value["start"]["version"].as_str().unwrap());
        assert_eq!(Some(sample.bytes), value["end"]["sum_received"]["bytes"].as_u64());
        assert_eq!(sample.measured["rate"].value(), value["end"]["sum_received"]["bits_per_second"].as_f64());
        let seconds = value["end"]["sum_received"]["seconds"].as_f64().unwrap();
        assert_eq!(sample.wall_s, seconds);
        assert!((sample.rate_bits_per_s() / sample.measured["rate"].value().unwrap() - 1.0).abs() < 1e-6);
        assert_eq!(sample.distributions["rate"].values.len(), value["intervals"].as_array().unwrap().len());
        assert_eq!(sample.parameter("streams"), value["start"]["test_start"]["num_streams"].as_f64());
        assert!(sample.cpu_s.unwrap() > 0.0 && sample.measured["mean_rtt"].value().unwrap() > 0.0);
    }

    #[test]
    fn several_runs_may_stand_behind_each_other_and_one_that_failed_says_so() {
        let text = format!("{REAL}\n{REAL}\n{{\"error\": \"unable to connect\"}}");
        let results = iperf3(&text, |_| String::new()).unwrap();
        assert_eq!(
            results.samples.iter().map(|sample| (sample.run, sample.order)).collect::<Vec<_>>(),
            [(1, 1), (2, 2)]
        );
        assert_eq!(results.left_out[0].why, "unable to connect");
        let both =
            REAL.replacen("\"sum_sent\"", "\"sum_sent_bidir_reverse\": {\"bytes\": 1}, \"sum_sent\"", 1);
        let results = iperf3(&both, |_| String::new()).unwrap();
        assert_eq!(
            (results.samples.len(), results.left_out.len()),
            (1, 1),
            "half of it is told to be missing"
        );
        let udp = r#"{"end": {"sum": {"seconds": 2.0, "bytes": 1000, "bits_per_second": 4000.0}}}"#;
        assert_eq!(iperf3(udp, |_| String::new()).unwrap().samples[0].bytes, 1000);
        for bad in ["", "{}", "[1]", "iperf Done.", "{\"error\": \"busy\"}"] {
            let told = iperf3(bad, |_| String::new()).unwrap_err().to_string();
            assert!(told.contains("of other programs none is read"), "{bad}: {told}");
        }
    }
}
