//! Results of every suite, with figures from simple laws: what a report is made of, without measuring for hours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::record::{
    About, Distribution, Log, Machine, PathKind, Quantity, Sample, Scaled, Scaling,
};

const GBIT: f64 = 1e9;

/// Writes them all; says where.
pub fn all(directory: &Path) -> Vec<PathBuf> {
    let emulated = || testbed(Some(1e9));
    let sets = [
        ("latency", testbed(Some(2e9)), latency()),
        ("sweep bulk", emulated(), bulk()),
        ("sweep streaming", emulated(), streaming()),
        ("streams", emulated(), streams()),
        ("cca", emulated(), controls()),
        ("order", PathKind::Disk, order()),
        ("concurrency", emulated(), concurrency()),
        ("files", emulated(), files()),
        ("whole-files", testbed(Some(1e8)), whole_files()),
        ("faults", emulated(), faults()),
        ("layout", PathKind::Disk, layout()),
        ("hop", emulated(), hops()),
        ("congest", emulated(), congest()),
        ("frames", PathKind::Loopback, frames()),
        ("lag", emulated(), lags()),
        ("slots", emulated(), slots()),
        ("storage", PathKind::Disk, storage()),
        ("predict", PathKind::Loopback, predictions()),
        ("path", emulated(), path()),
        ("something new", PathKind::Loopback, latency()),
        ("iperf3", PathKind::Foreign { to: "dtn.example.org".into(), rtt_s: Some(0.02) }, foreign()),
    ];
    sets.into_iter().map(|(suite, path, samples)| write(directory, suite, path, samples)).collect()
}

fn testbed(rate: Option<f64>) -> PathKind {
    PathKind::Testbed {
        rtt_s: None,
        rate_bits_per_s: rate.map(|rate| rate as u64),
        loss: Some(0.0),
        mtu_bytes: 1500,
    }
}

fn write(directory: &Path, suite: &str, path: PathKind, samples: Vec<Sample>) -> PathBuf {
    let to = directory.join(format!("{}.jsonl", suite.replace(' ', "-")));
    let about = About {
        suite: suite.into(),
        question: "how does it behave & why? <not markup>".into(),
        date: "2026-11-22T02:40:00Z".into(),
        program: if suite == "iperf3" { "iperf 3.12".into() } else { "thalweg 0.1.0".into() },
        commit: (suite != "iperf3").then(|| "33fe18f".into()),
        command: format!(
            "thalweg bench {suite} --budget 64MiB --out a/rather/long/path/to/a/result/file/{suite}.jsonl"
        ),
        machine: Machine {
            cpu: "AMD EPYC".into(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6.18".into(),
            ..Machine::default()
        },
        path,
        iterations: 5,
        encryption: "AES-128-GCM, sealed frames".into(),
        verification: "BLAKE3 of every segment before it is written, all synced".into(),
        scaling: Scaling {
            changes: vec![Scaled {
                what: "data set".into(),
                from: "1 TiB (000 section III-B.2)".into(),
                to: "64 MiB".into(),
            }],
            ..Scaling::default()
        },
        more: [].into(),
        is_unfinished: false,
    };
    let mut log = Log::begin(&to, about).unwrap();
    for sample in samples {
        log.sample(sample).unwrap();
    }
    log.left_out("bbr", "this kernel has reno, cubic only").unwrap();
    log.end().unwrap();
    to
}

fn number(value: f64) -> Quantity {
    Quantity::number(value, "1")
}

/// Five runs of a case, a few per cent apart.
fn runs(series: &str, bytes: u64, rate: f64, parameters: &[(&str, Quantity)]) -> Vec<Sample> {
    let one = |run: u32| {
        let apart = 1.0 + f64::from((run * 7) % 5) * 0.015 - 0.03;
        Sample {
            series: series.into(),
            parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            run,
            bytes,
            files: 4,
            wall_s: bytes as f64 * 8.0 / (rate * apart),
            cpu_s: Some(bytes as f64 / 1e9 * 0.9 * apart),
            wire_cpu_s_per_gb: Some(0.2),
            ..Sample::default()
        }
    };
    (1..=5).map(one).collect()
}

fn latency() -> Vec<Sample> {
    let mut samples = Vec::new();
    for rtt in [0.01, 0.02, 0.04, 0.06, 0.08, 0.1] {
        for (buffers, window) in [("default", 2.1e6), ("tuned", 5e8)] {
            let law = f64::min(window * 8.0 / rtt, 1.9 * GBIT);
            let at = [("rtt", Quantity::number(rtt, "s"))];
            let stream = runs(&format!("one TCP stream, {buffers} buffers"), 100 << 20, law * 0.93, &at);
            samples.extend(stream.into_iter().map(|sample| sample.predicted("rate", law, "bit/s")));
            samples.extend(runs(
                &format!("thalweg, {buffers} buffers"),
                100 << 20,
                1.7 * GBIT / (1.0 + rtt),
                &at,
            ));
        }
    }
    samples
}

fn bulk() -> Vec<Sample> {
    let mut samples = Vec::new();
    for power in 10..=30 {
        for rtt in [0.01, 0.05, 0.1] {
            let size = f64::from(power).exp2();
            let at = [("file_size", Quantity::number(size, "B")), ("rtt", Quantity::number(rtt, "s"))];
            samples.extend(runs(
                "files to files",
                64 << 20,
                0.93 * GBIT / (1.0 + 200_000.0 / size + rtt),
                &at,
            ));
        }
    }
    samples
}

fn streaming() -> Vec<Sample> {
    let mut samples = Vec::new();
    for power in 22..=30 {
        for rtt in [0.01, 0.05, 0.1] {
            let size = f64::from(power).exp2();
            let at = [("file_size", Quantity::number(size, "B")), ("rtt", Quantity::number(rtt, "s"))];
            let case = runs("growing files", 64 << 20, 0.9 * GBIT / (1.0 + rtt), &at);
            samples.extend(case.into_iter().map(|sample| sample.measured("lag_at_the_end", 0.1 + rtt, "s")));
        }
    }
    samples
}

fn streams() -> Vec<Sample> {
    let mut samples = Vec::new();
    for rtt in [0.000_28, 0.0268, 0.128, 0.163] {
        for streams in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
            let law = f64::min(streams * 1.7e6 * 8.0 / rtt, 0.94 * GBIT);
            let at = [("streams", number(streams)), ("rtt", Quantity::number(rtt, "s"))];
            let case = runs("TCP", 64 << 20, law * 0.95, &at);
            samples.extend(case.into_iter().map(|sample| sample.predicted("rate", law, "bit/s")));
        }
    }
    samples
}

fn hops() -> Vec<Sample> {
    let ways = [
        ("straight from the storage's host", 0.9),
        ("through a node that passes on", 0.8),
        ("through a node that stores", 0.4),
    ];
    ways.iter().flat_map(|(way, rate)| runs(way, 256 << 20, rate * GBIT, &[])).collect()
}

fn controls() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, factor) in [("reno", 1.0), ("cubic", 2.0), ("bbr", 90.0)] {
        for loss in [0.0, 1e-5, 1e-4, 1e-3] {
            let law = (factor * 0.7e6 / f64::sqrt(f64::max(loss, 1e-9))).min(0.95 * GBIT);
            let case = runs(name, 32 << 20, law * 0.9, &[("control", name.into()), ("loss", number(loss))]);
            samples.extend(case.into_iter().map(|sample| sample.predicted("rate", law, "bit/s")));
        }
    }
    samples
}

fn order() -> Vec<Sample> {
    let mut samples = Vec::new();
    for disk in ["simulated array", "the disk of --dir"] {
        for direction in ["reading", "writing"] {
            for (rank, order) in (1..).zip(["strict", "serial", "loose", "none"]) {
                for threads in [1.0, 2.0, 4.0, 8.0] {
                    for request in [262_144.0, 1_048_576.0, 4_194_304.0] {
                        let rate =
                            3e8 * f64::from(rank) * request / (request + 500_000.0) / (1.0 + threads / 9.0);
                        let at = [
                            ("direction", direction.into()),
                            ("disk", disk.into()),
                            ("order", order.into()),
                            ("threads", number(threads)),
                            ("request_size", Quantity::number(request, "B")),
                        ];
                        samples.extend(runs(&format!("{direction}, {disk}, {order}"), 64 << 20, rate, &at));
                    }
                }
            }
        }
    }
    samples
}

fn concurrency() -> Vec<Sample> {
    let mut samples = Vec::new();
    for streams in [1.0, 2.0, 4.0, 8.0] {
        for files in [1.0, 2.0, 4.0, 8.0, 16.0] {
            let rate = 0.9 * GBIT * (1.0 - f64::exp(-streams * files / 3.0));
            let at = [("streams", number(streams)), ("concurrency", number(files)), ("depth", number(1.0))];
            samples.extend(runs(&format!("{streams} streams"), 64 << 20, rate, &at));
        }
    }
    for both in [1.0, 4.0] {
        for depth in [2.0, 4.0, 8.0, 16.0] {
            let at = [("streams", number(both)), ("concurrency", number(both)), ("depth", number(depth))];
            samples.extend(runs(&format!("depth, {both} streams"), 64 << 20, 0.2 * GBIT * both, &at));
        }
    }
    samples
}

fn files() -> Vec<Sample> {
    let mut samples = Vec::new();
    for power in 2..=12 {
        let files = f64::from(power).exp2();
        let time = 0.55 + files / 4.0 * 0.0008 + 64.0 / files * 0.05;
        let rate = f64::from(64 << 20) * 8.0 / time;
        samples.extend(runs(
            "4 at once",
            64 << 20,
            rate,
            &[("files", number(files)), ("concurrency", number(4.0))],
        ));
    }
    samples
}

fn whole_files() -> Vec<Sample> {
    let mut samples = Vec::new();
    for files in [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0] {
        let time = 5.7 + files * 0.25 + 4.56 / files;
        let rate = f64::from(64 << 20) * 8.0 / time;
        let at =
            [("files", number(files)), ("concurrency", number(1.0)), ("check_rate", number(0.118 * GBIT))];
        samples.extend(runs("one at a time, whole files checked", 64 << 20, rate, &at));
    }
    samples
}

fn faults() -> Vec<Sample> {
    let mut samples = Vec::new();
    for share in [0.0, 0.01, 0.02, 0.05, 0.1] {
        for (series, again) in [("whole files again", (share * 8.0f64).min(1.0)), ("chunks again", share)] {
            let rate = 0.9 * GBIT / (1.0 + again);
            let bytes = again * f64::from(64 << 20);
            let case = runs(series, 64 << 20, rate, &[("damaged_share", number(share))]);
            samples.extend(case.into_iter().map(|sample| {
                let mut sample = sample
                    .measured("sent_again_on_the_wire", bytes * 1.06, "B")
                    .measured("look_every", 0.1, "s")
                    .predicted("sent_again_on_the_wire", bytes, "B")
                    .predicted("rate", rate * 1.02, "bit/s");
                let over_time = |unit: &str, value: f64| Distribution {
                    unit: unit.into(),
                    // A copy, a rest, a repair.
                    values: [[value; 8], [0.0; 8], [value * (1.0 - share); 8]].concat(),
                };
                sample.distributions.insert("rate_over_time".into(), over_time("bit/s", rate));
                sample.distributions.insert("cores_over_time".into(), over_time("1", 1.2));
                sample
            }));
        }
    }
    for (series, again) in
        [("whole files again, by files at once", 0.4), ("chunks again, by files at once", 0.05)]
    {
        for at_once in [1.0, 4.0, 16.0f64] {
            let rate = 0.9 * GBIT / (1.0 + again) * (at_once / 16.0).sqrt();
            let at = [("damaged_share", number(0.05)), ("concurrency", number(at_once))];
            let case = runs(series, 64 << 20, rate, &at);
            samples.extend(case.into_iter().map(|sample| sample.predicted("rate", rate * 1.02, "bit/s")));
        }
    }
    samples
}

fn frames() -> Vec<Sample> {
    let mut samples = Vec::new();
    for period in [0.0033, 0.033] {
        for (series, left_s) in [("1 file", 0.9), ("10 files", 0.3), ("1440 files", 60.0), ("stream", 0.1)] {
            let scan_s = 1440.0 * period;
            let at = [("period", Quantity::number(period, "s"))];
            let case = runs(series, 90 << 20, f64::from(90 << 20) * 8.0 / (scan_s + left_s), &at);
            samples.extend(case.into_iter().map(|sample| {
                sample.measured("after_last_frame", left_s, "s").predicted("after_last_frame", left_s, "s")
            }));
        }
    }
    samples
}

fn lags() -> Vec<Sample> {
    let mut samples = Vec::new();
    for rtt in [0.0, 0.1] {
        for bytes in [1e3, 1e5] {
            let at = [("rtt", Quantity::number(rtt, "s")), ("message_size", Quantity::number(bytes, "B"))];
            for mut sample in runs("stream", 2_000_000, 8e6, &at) {
                let values = (1..=20).map(|at| rtt / 2.0 + 0.0003 + f64::from(at) * 1e-4).collect();
                let lags = Distribution { unit: "s".into(), values };
                sample.distributions.insert("lag".into(), lags);
                samples.push(sample.measured("lag_p99", 0.01 + rtt, "s").measured(
                    "lag_max",
                    0.02 + rtt,
                    "s",
                ));
            }
        }
    }
    samples
}

fn predictions() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (shape, rate) in [("fast everything", GBIT), ("thin link", GBIT / 10.0)] {
        for (series, off) in [("by a probe", 0.3), ("by earlier copies", 0.1)] {
            for sample in runs(series, 64 << 20, rate, &[("shape", shape.into())]) {
                samples.push(sample.measured("off_by", off, "1").measured("in_range", 1.0, "1"));
            }
        }
    }
    samples
}

fn layout() -> Vec<Sample> {
    let mut samples = Vec::new();
    for disk in ["4 simulated devices", "the disk of --dir"] {
        for (order, rate) in
            [("none", 1.0), ("loose", 1.1), ("serial", 0.8), ("by-device", 1.2), ("layout", 1.5)]
        {
            samples.extend(runs(disk, 64 << 20, rate * GBIT, &[("order", order.into())]));
        }
    }
    samples
}

fn path() -> Vec<Sample> {
    let of = |series: &str, unit: &str, values: &[f64]| -> Vec<Sample> {
        let of =
            |value: &f64| runs(series, 1 << 20, GBIT / 10.0, &[(series, Quantity::number(*value, unit))]);
        let samples = values.iter().flat_map(of);
        samples.map(|sample| sample.measured("share_of_the_tolerance", 0.4, "1")).collect()
    };
    [
        of("rtt", "s", &[0.000_28, 0.006, 0.1, 0.163]),
        of("rate", "bit/s", &[0.1 * GBIT, GBIT]),
        of("loss", "1", &[1e-3, 1e-2]),
    ]
    .concat()
}

fn congest() -> Vec<Sample> {
    let mut samples = Vec::new();
    for clients in 1..=6 {
        for streams in [2.0, 4.0, 8.0] {
            for starts in ["simultaneous", "scheduled"] {
                let load = f64::from(clients) * 0.16;
                let worst =
                    if starts == "scheduled" { 0.2 } else { 0.2 + load.powi(4) * (4.0 + streams / 8.0) };
                let times: Vec<f64> =
                    (1..=40).map(|at| 0.16 + (worst - 0.16) * (f64::from(at) / 40.0).powi(5)).collect();
                let at = [
                    ("clients_per_s", number(f64::from(clients))),
                    ("streams", number(streams)),
                    ("starts", starts.into()),
                    ("load", number(load)),
                ];
                let transfers = Distribution { unit: "s".into(), values: times };
                for sample in runs(&format!("{starts}, {streams} streams"), 20_000_000, 0.5 * GBIT, &at) {
                    let mut sample =
                        sample.measured("speed_score", worst / 0.16, "1").predicted("ideal", 0.16, "s");
                    sample.distributions = BTreeMap::from([("transfer_time".to_owned(), transfers.clone())]);
                    samples.push(sample);
                }
            }
        }
    }
    samples
}

fn slots() -> Vec<Sample> {
    let mut samples = Vec::new();
    for producers in [1, 2, 4, 6, 8] {
        for starts in ["simultaneous", "scheduled", "slots"] {
            let load = f64::from(producers) * 0.16;
            let worst = if starts == "simultaneous" { 0.2 + load } else { 0.2 };
            let times: Vec<f64> = (1..=40).map(|at| 0.16 + (worst - 0.16) * f64::from(at) / 40.0).collect();
            let at = [
                ("producers", number(f64::from(producers))),
                ("starts", starts.into()),
                ("load", number(load)),
            ];
            for mut sample in runs(starts, 5_000_000, 0.2 * GBIT, &at) {
                for name in ["transfer_time", "lag"] {
                    let all = Distribution { unit: "s".into(), values: times.clone() };
                    sample.distributions.insert(name.to_owned(), all);
                }
                samples.push(sample);
            }
        }
    }
    samples
}

fn storage() -> Vec<Sample> {
    let mut samples = Vec::new();
    for direction in ["read", "write"] {
        for (way, order) in [
            ("direct", "sequential"),
            ("direct", "scattered"),
            ("cached", "sequential"),
            ("cached", "scattered"),
        ] {
            for depth in [1.0, 4.0, 16.0] {
                for request in [65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0] {
                    let rate = 8e9 * request / (request + 300_000.0) * depth / (depth + 2.0);
                    let at = [
                        ("direction", direction.into()),
                        ("way", way.into()),
                        ("order", order.into()),
                        ("request_size", Quantity::number(request, "B")),
                        ("depth", number(depth)),
                    ];
                    let latency = request * 8.0 / rate * depth;
                    let values: Vec<f64> = (0..50).map(|at| latency * (1.0 + f64::from(at) / 40.0)).collect();
                    for mut sample in runs(&format!("{direction}, {way}, {order}"), 64 << 20, rate, &at) {
                        let all = Distribution { unit: "s".into(), values: values.clone() };
                        sample.distributions.insert("request_latency".to_owned(), all);
                        samples.push(sample);
                    }
                }
            }
        }
    }
    samples
}

fn foreign() -> Vec<Sample> {
    let at = [("streams", number(4.0)), ("direction", "to the server".into())];
    runs("iperf3, TCP", 1 << 30, 0.91 * GBIT, &at)
        .into_iter()
        .map(|sample| sample.measured("rate", 0.91 * GBIT, "bit/s"))
        .collect()
}
