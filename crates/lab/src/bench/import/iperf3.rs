//! iperf3's `--json`: rates of streams.

use super::{Gathered, MIN_RTT, NotImported, OTHER, Origin, RUNS_MAX, named, too_many_runs};
use crate::bench::record::{Distribution, LeftOut, Machine, Quantity, Results, Sample};
use crate::bench::statistics::mean;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

/// What iperf3 writes, as far as it is of use (iperf3(1), `--json`; versions 3.1 to 3.19 have these names).
#[derive(Deserialize)]
struct Iperf {
    #[serde(default, deserialize_with = "last_of_each")]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    error: Option<String>,
}

/// iperf3 tells the size of a socket's buffer once for each stream, under one name: what is told twice is as it was
/// told last.
fn last_of_each<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    T::deserialize(serde_json::Value::deserialize(from)?).map_err(D::Error::custom)
}

#[derive(Deserialize, Default)]
struct Start {
    #[serde(default)]
    version: String,
    #[serde(default)]
    system_info: String,
    #[serde(default)]
    timestamp: Timestamp,
    /// Of a client.
    #[serde(default)]
    connecting_to: Target,
    /// Of a server.
    #[serde(default)]
    accepted_connection: Target,
    /// `-b`, in bits a second and of each stream; earlier versions have it here alone. 0: as fast as it goes.
    #[serde(default)]
    target_bitrate: f64,
    /// `-w`; 0: as the kernel has it.
    #[serde(default)]
    sock_bufsize: f64,
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
    /// `-n`; 0: it ends by time.
    #[serde(default)]
    bytes: f64,
    /// `-k`; 0: it ends by time.
    #[serde(default)]
    blocks: f64,
    #[serde(default)]
    target_bitrate: f64,
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
    /// These three are of UDP alone.
    jitter_ms: Option<f64>,
    /// Below 0 where packets came late or twice.
    lost_packets: Option<i64>,
    lost_percent: Option<f64>,
}

#[derive(Deserialize, Default)]
struct End {
    #[serde(default)]
    streams: Vec<EndStream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    /// Of UDP: what was sent, and beside it how much of that was lost. Before there were the two above it stood alone.
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
    min_rtt: Option<f64>,
    max_snd_cwnd: Option<f64>,
}

#[derive(Deserialize)]
struct Cpu {
    host_total: f64,
    remote_total: f64,
}

/// Reads one or several results of `iperf3 --json`, one behind the other. `moment` writes seconds since 1970 as
/// RFC 3339.
/// A run that failed is left out, with what iperf3 said.
///
/// # Errors
/// If it is something else, or there is no run that went well.
pub fn read(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    let odd = |why: String| NotImported(format!("{OTHER}: {why}"));
    let mut runs = Vec::new();
    for run in serde_json::Deserializer::from_str(text).into_iter::<Iperf>() {
        if runs.len() == RUNS_MAX {
            return Err(too_many_runs());
        }
        runs.push(run.map_err(|error| odd(error.to_string()))?);
    }
    let (mut gathered, mut left_out) = (Gathered::default(), Vec::new());
    for (at, run) in runs.iter().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let sample = match &run.error {
            Some(why) => Err(why.clone()),
            None => sample(run, number).and_then(|sample| sample.check().map(|()| sample)),
        };
        match sample {
            Ok(sample) => gathered.push(sample)?,
            Err(why) => left_out.push(LeftOut { what: format!("run {number}"), why }),
        }
        if run.is_both_ways() {
            let why = "one direction of a run is taken: measure the other one with `iperf3 -R`".to_owned();
            left_out.push(LeftOut { what: format!("run {number}, the other direction (--bidir)"), why });
        }
    }
    let samples = gathered.samples;
    let Some(first) = runs.first().filter(|_| !samples.is_empty()) else {
        if let Some(why) = runs.iter().find_map(|run| run.error.as_deref()) {
            return Err(NotImported(format!("iperf3 itself failed: {why}")));
        }
        let why = left_out.first().map_or("it is empty".to_owned(), |line| line.why.clone());
        return Err(odd(why));
    };
    let origin = Origin {
        suite: "iperf3",
        question: "imported from iperf3 --json",
        program: first.start.version.clone(),
        date: moment(first.start.timestamp.timesecs),
        machine: machine(&first.start.system_info),
        to: named(samples.iter().filter_map(|sample| sample.parameters.get("host")?.word()), "hosts"),
    };
    Ok(origin.results(samples, left_out))
}

/// `uname -a` has the kernel's name first and its release third.
fn machine(system_info: &str) -> Machine {
    let words: Vec<&str> = system_info.split_whitespace().collect();
    let kernel = match words[..] {
        [name, _, release, ..] => format!("{name} {release}"),
        _ => String::new(),
    };
    Machine { kernel, ..Machine::default() }
}

impl Start {
    /// The other side.
    fn peer(&self) -> &str {
        let told = [&self.connecting_to.host, &self.accepted_connection.host];
        told.into_iter().find(|host| !host.is_empty()).map_or("an unknown host", String::as_str)
    }
}

impl Iperf {
    fn is_udp(&self) -> bool {
        let protocol = &self.start.test_start.protocol;
        protocol.eq_ignore_ascii_case("udp") || (protocol.is_empty() && self.end.sum.is_some())
    }

    fn is_both_ways(&self) -> bool {
        self.end.sum_sent_bidir_reverse.is_some()
    }

    /// Bytes, seconds, bits a second.
    ///
    /// # Errors
    /// Why there is nothing to count. Of TCP what was sent did arrive; of UDP it says nothing of that.
    fn arrived(&self) -> Result<(u64, f64, f64), String> {
        let end = &self.end;
        let (sum, share) = match (self.is_udp(), &end.sum_received, &end.sum) {
            (false, received, _) => {
                let received = received.as_ref().filter(|sum| sum.bytes > 0);
                (received.or(end.sum_sent.as_ref()), 1.0)
            }
            (true, Some(received), _) => (Some(received), 1.0),
            (true, None, sum) => {
                let sum = sum.as_ref().ok_or("it moved nothing")?;
                let lost = sum.lost_percent.ok_or("it does not say how much of what was sent arrived")?;
                (Some(sum), 1.0 - (lost / 100.0).clamp(0.0, 1.0))
            }
        };
        let sum = sum.filter(|sum| sum.seconds > 0.0).ok_or("it moved nothing")?;
        match (sum.bytes as f64 * share).round() as u64 {
            0 if self.is_udp() => Err("nothing of it arrived".to_owned()),
            0 => Err("it moved nothing".to_owned()),
            bytes => Ok((bytes, sum.seconds, sum.bits_per_second * share)),
        }
    }
}

fn sample(run: &Iperf, number: u32) -> Result<Sample, String> {
    let (bytes, wall_s, rate) = run.arrived()?;
    let test = &run.start.test_start;
    let is_reverse = test.reverse != 0;
    let direction = match (run.is_both_ways(), is_reverse) {
        (true, _) => "both ways",
        (false, true) => "from the server",
        (false, false) => "to the server",
    };
    // What it ended by.
    let (end, value, unit) = match (test.bytes > 0.0, test.blocks > 0.0) {
        (true, _) => ("data_size", test.bytes, "B"),
        (false, true) => ("blocks", test.blocks, "1"),
        (false, false) => ("duration", test.duration, "s"),
    };
    let mut sample = Sample {
        series: format!("iperf3, {}", test.protocol),
        run: number,
        bytes,
        wall_s,
        ..Sample::default()
    }
    .with("host", run.start.peer().into())
    .with("streams", Quantity::number(f64::from(test.num_streams), "1"))
    .with("block_size", Quantity::number(test.blksize as f64, "B"))
    .with(end, Quantity::number(value, unit))
    .with("direction", direction.into())
    .measured("rate", rate, "bit/s");
    let target_rate = test.target_bitrate.max(run.start.target_bitrate);
    for (name, value, unit) in
        [("target_rate", target_rate, "bit/s"), ("window", run.start.sock_bufsize, "B")]
    {
        if value > 0.0 {
            sample = sample.with(name, Quantity::number(value, unit));
        }
    }
    if let Some(control) = &run.end.sender_tcp_congestion {
        sample = sample.with("control", control.as_str().into());
    }
    let senders: Vec<&Sender> = run.end.streams.iter().filter_map(|stream| stream.sender.as_ref()).collect();
    let rtts = |of: fn(&Sender) -> Option<f64>| -> Vec<f64> {
        senders.iter().filter_map(|sender| of(sender)).filter(|rtt| *rtt > 0.0).collect()
    };
    let (means, least) = (rtts(|sender| sender.mean_rtt), rtts(|sender| sender.min_rtt));
    if !means.is_empty() {
        sample = sample.measured("mean_rtt", mean(&means) / 1e6, "s");
    }
    if let Some(least) = least.into_iter().reduce(f64::min) {
        sample = sample.measured(MIN_RTT, least / 1e6, "s");
    }
    if let Some(window) = senders.iter().filter_map(|sender| sender.max_snd_cwnd).reduce(f64::max) {
        sample = sample.measured("largest_window", window, "B");
    }
    if let Some(retransmits) = run.end.sum_sent.as_ref().and_then(|sum| sum.retransmits) {
        sample = sample.measured("segments_sent_again", retransmits as f64, "1");
    }
    if let Some(seen) = run.end.sum_received.as_ref().or(run.end.sum.as_ref()).filter(|_| run.is_udp()) {
        let told = [
            ("packets_lost", seen.lost_packets.map(|packets| packets.max(0) as f64), "1"),
            ("share_lost", seen.lost_percent.map(|percent| percent.max(0.0) / 100.0), "1"),
            ("jitter", seen.jitter_ms.map(|ms| ms / 1e3), "s"),
        ];
        for (name, value, unit) in told {
            sample = value.into_iter().fold(sample, |sample, value| sample.measured(name, value, unit));
        }
    }
    // Shares of one core, in hundredths, over the time of the test; of two directions at once it is that of both.
    let cpu = run.end.cpu_utilization_percent.as_ref().filter(|_| !run.is_both_ways());
    sample.cpu_s = cpu.map(|cpu| (cpu.host_total + cpu.remote_total) / 100.0 * wall_s);
    // Seen from the client: of UDP to the server it is what was sent.
    if !run.is_udp() || is_reverse {
        let rates = run.intervals.iter().filter(|one| !one.sum.omitted).map(|one| one.sum.bits_per_second);
        let rates: Vec<f64> = rates.collect();
        if !rates.is_empty() {
            let rates = Distribution { unit: "bit/s".into(), values: rates };
            sample.distributions.insert("rate".to_owned(), rates);
        }
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by iperf3 itself.
    const REAL: &str = include_str!("iperf3.json");

    #[test]
    fn a_real_result_becomes_a_sample_with_the_same_figures() {
        let results = read(REAL, |seconds| seconds.to_string()).unwrap();
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

    /// A run of UDP with these sums at its end.
    fn udp(sums: &str) -> Result<Results, NotImported> {
        let text = format!(
            r#"{{"start": {{"test_start": {{"protocol": "UDP", "num_streams": 1}}}}, "end": {{{sums}}},
            "intervals": [{{"sum": {{"seconds": 2, "bytes": 1000, "bits_per_second": 4000}}}}]}}"#
        );
        read(&text, |_| String::new())
    }

    #[test]
    fn of_udp_what_arrived_counts_and_not_what_was_sent() {
        let sent = r#""sum_sent": {"seconds": 2, "bytes": 1000, "bits_per_second": 4000}"#;
        let received = |bytes: u64| {
            format!(
                r#"{sent}, "sum_received": {{"seconds": 2, "bytes": {bytes}, "bits_per_second": {},
                "jitter_ms": 0.5, "lost_packets": 3, "packets": 4, "lost_percent": 75}}"#,
                bytes * 4
            )
        };
        let of = |name: &str, results: &Results| results.samples[0].measured[name].value();
        let most_lost = udp(&received(250)).unwrap();
        assert_eq!((most_lost.samples[0].bytes, of("rate", &most_lost)), (250, Some(1000.0)));
        assert_eq!(of("packets_lost", &most_lost), Some(3.0));
        assert_eq!((of("share_lost", &most_lost), of("jitter", &most_lost)), (Some(0.75), Some(0.0005)));
        assert!(most_lost.samples[0].distributions.is_empty(), "the client's intervals are what it sent");
        // Late ones were counted as lost, and then as come.
        let late = received(250).replace(r#""lost_packets": 3"#, r#""lost_packets": -3"#);
        let late = udp(&late.replace(r#""lost_percent": 75"#, r#""lost_percent": -75"#)).unwrap();
        assert_eq!((of("packets_lost", &late), of("share_lost", &late)), (Some(0.0), Some(0.0)));
        // What was sent, and how much of it was lost.
        let sum = |rest: &str| {
            format!(
                r#""sum": {{"seconds": 2, "bytes": 1000, "bits_per_second": 4000, "jitter_ms": 1{rest}}}"#
            )
        };
        let earlier = udp(&sum(r#", "lost_percent": 75"#)).unwrap();
        assert_eq!((earlier.samples[0].bytes, of("rate", &earlier)), (250, Some(1000.0)));
        for (sums, why) in [
            (received(0), "nothing of it arrived"),
            (sum(r#", "lost_percent": 100"#), "nothing of it arrived"),
            (sum(""), "it does not say how much of what was sent arrived"),
        ] {
            let told = udp(&sums).unwrap_err().to_string();
            assert!(told.ends_with(why), "{told}");
        }
    }

    /// Of a run, to another host, or with another smallest round trip time, in microseconds.
    fn changed(host: &str, rtts_us: [u32; 2]) -> String {
        let run = REAL.replace("\"127.0.0.1\"", &format!("\"{host}\""));
        let run = run.replace("\"min_rtt\":\t87", &format!("\"min_rtt\":\t{}", rtts_us[0]));
        run.replace("\"min_rtt\":\t85", &format!("\"min_rtt\":\t{}", rtts_us[1]))
    }

    #[test]
    fn runs_to_another_host_or_over_another_distance_are_another_case() {
        let runs = [
            changed("near", [10_400, 10_900]),
            changed("near", [50_200, 50_900]),
            changed("near", [10_210, 10_300]),
            changed("near", [100_900, 100_100]),
            changed("far", [100_900, 100_200]),
            changed("near", [11_400, 12_900]),
        ];
        let results = read(&runs.concat(), |_| String::new()).unwrap();
        let rtts: Vec<f64> = results.samples.iter().filter_map(|sample| sample.parameter("rtt")).collect();
        assert_eq!(rtts, [0.01, 0.05, 0.01, 0.1, 0.1, 0.01]);
        let cases = results.cases();
        assert_eq!(cases.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1, 1]);
        assert_eq!(results.about.path.to_string(), "to far, near");
        assert_eq!((results.about.iterations, results.counted().as_str()), (1, "1 to 3"));
        let alike = read(&[&*runs[0], &runs[2]].concat(), |_| String::new()).unwrap();
        assert_eq!((alike.about.path.to_string().as_str(), alike.about.iterations), ("to near, 10 ms", 2));
    }

    /// A server was connected to, and says by whom; one that says neither is told as that.
    #[test]
    fn the_peer_of_a_server_is_who_connected_to_it() {
        let host = |text: &str| {
            let results = read(text, |_| String::new()).unwrap();
            let host = results.samples[0].parameters["host"].word().unwrap().to_owned();
            (host, results.about.path.to_string())
        };
        let server = REAL.replacen("\"connecting_to\"", "\"accepted_connection\"", 1);
        let (named, path) = host(&server.replace("127.0.0.1", "10.0.0.7"));
        assert!(named == "10.0.0.7" && path.starts_with("to 10.0.0.7"), "{named}, {path}");
        let (named, path) = host(&server.replacen("\"accepted_connection\"", "\"nobody\"", 1));
        assert!(named == "an unknown host" && path.starts_with("to an unknown host"), "{named}, {path}");
    }

    #[test]
    fn runs_of_other_settings_are_other_cases() {
        const ENDS: &str = "\"duration\":\t1,\n\t\t\t\"bytes\":\t0,\n\t\t\t\"blocks\":\t0,";
        let ends = |bytes: u32, blocks: u32| {
            format!("\"duration\":\t0,\n\t\t\t\"bytes\":\t{bytes},\n\t\t\t\"blocks\":\t{blocks},")
        };
        let target = |rate: u32| format!("\"target_bitrate\":\t{rate}");
        let window = |bytes: u32| format!("\"sock_bufsize\":\t{bytes}");
        let settings = [
            (&*target(0), target(10_000_000)),
            (&*target(0), target(20_000_000)),
            (&*window(0), window(65_536)),
            (&*window(0), window(131_072)),
            (ENDS, ends(1_000_000, 0)),
            (ENDS, ends(2_000_000, 0)),
            (ENDS, ends(0, 100)),
            (ENDS, ends(0, 200)),
            ("\"sum_sent\"", "\"sum_sent_bidir_reverse\": {\"bytes\": 1}, \"sum_sent\"".to_owned()),
        ]
        .map(|(from, to)| REAL.replace(from, &to));
        assert!(settings.iter().all(|run| run != REAL));
        // Each twice: runs of one setting are of one case.
        let mut runs = vec![REAL; 2];
        runs.extend(settings.iter().flat_map(|run| [run.as_str(); 2]));
        let results = read(&runs.concat(), |_| String::new()).unwrap();
        let cases = results.cases();
        assert_eq!(cases.iter().map(Vec::len).collect::<Vec<_>>(), vec![2; 1 + settings.len()]);
        let of = |at: usize, name: &str| cases[at][0].parameters.get(name).cloned();
        let number = |value: f64, unit: &str| Some(Quantity::number(value, unit));
        assert_eq!((of(1, "target_rate"), of(3, "window")), (number(1e7, "bit/s"), number(65_536.0, "B")));
        assert_eq!((of(5, "data_size"), of(7, "blocks")), (number(1e6, "B"), number(100.0, "1")));
        assert_eq!((of(0, "window"), of(0, "target_rate"), of(5, "duration")), (None, None, None));
        assert_eq!(of(9, "direction"), Some("both ways".into()));
    }

    #[test]
    fn several_runs_may_stand_behind_each_other_and_one_that_failed_says_so() {
        let text = format!("{REAL}\n{REAL}\n{{\"error\": \"unable to connect\"}}");
        let results = read(&text, |_| String::new()).unwrap();
        assert_eq!(
            results.samples.iter().map(|sample| (sample.run, sample.order)).collect::<Vec<_>>(),
            [(1, 1), (2, 2)]
        );
        assert_eq!(results.left_out[0].why, "unable to connect");
        let both =
            REAL.replacen("\"sum_sent\"", "\"sum_sent_bidir_reverse\": {\"bytes\": 1}, \"sum_sent\"", 1);
        let results = read(&both, |_| String::new()).unwrap();
        assert_eq!(
            (results.samples.len(), results.left_out.len()),
            (1, 1),
            "half of it is told to be missing"
        );
        assert_eq!(results.samples[0].cpu_s, None, "that of both directions is not that of one");
        for bad in ["", "{}", "[1]", "iperf Done."] {
            let told = read(bad, |_| String::new()).unwrap_err().to_string();
            assert!(told.contains("of other programs none is read"), "{bad}: {told}");
        }
        let failed = read("{\"error\": \"busy\"}", |_| String::new()).unwrap_err().to_string();
        assert_eq!(failed, "iperf3 itself failed: busy");
    }
}
