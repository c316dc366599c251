//! What becomes of other programs' results. The texts are written by hand, by what these programs document.

use super::*;
use crate::bench::record::VALUES_MAX;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(text: &str) -> Result<Results, NotImported> {
    results(text, |seconds| seconds.to_string())
}

fn why(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// 65,536 requests of 4 KiB in 10 s.
fn direction() -> Value {
    json!({
        "io_bytes": 268_435_456, "io_kbytes": 262_144, "bw_bytes": 26_843_545, "bw": 26_214, "iops": 6553.6,
        "runtime": 10_000, "total_ios": 65_536,
        "clat_ns": {
            "min": 50_000, "max": 9_000_000, "mean": 150_000.0, "stddev": 1.0, "N": 65_536,
            "percentile": {
                "50.000000": 120_000, "90.000000": 200_000, "99.000000": 800_000, "99.900000": 4_000_000,
            },
        },
        "lat_ns": {"min": 51_000, "max": 9_001_000, "mean": 151_000.0, "stddev": 1.0, "N": 65_536},
    })
}

/// Nothing was moved in it.
fn idle() -> Value {
    json!({"io_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "clat_ns": {"min": 0, "max": 0}})
}

fn job(name: &str, options: &Value, read: &Value, write: &Value) -> Value {
    json!({
        "jobname": name, "groupid": 0, "error": 0, "job options": options, "read": read, "write": write,
        "trim": idle(), "sync": {"total_ios": 0, "lat_ns": {"min": 0, "max": 0}},
        "job_runtime": 10_000, "usr_cpu": 10.0, "sys_cpu": 15.0,
    })
}

fn fio(version: &str, jobs: &[Value]) -> String {
    let options = json!({"ioengine": "libaio", "direct": "1", "filename": "/dev/nvme0n1"});
    let run = json!({
        "fio version": version, "timestamp": 1_795_315_185, "global options": options, "jobs": jobs,
    });
    format!("{run:#}\n")
}

fn of_reads() -> String {
    let options = json!({"name": "r", "rw": "randread", "bs": "4k", "iodepth": "16"});
    fio("fio-3.36", &[job("r", &options, &direction(), &idle())])
}

/// One test of each kind, as an archive has it.
fn of_pscheduler(kind: &str, result: &Value) -> String {
    let spec = match kind {
        "throughput" => json!({"dest": "far", "source": "near", "duration": "PT10S", "parallel": 2}),
        "rtt" => json!({"dest": "far", "count": 4, "interval": "PT0.5S", "length": 1000}),
        _ => json!({"dest": "far", "packet-count": 100, "packet-interval": 0.1, "bucket-width": 0.001}),
    };
    let tool = match kind {
        "throughput" => json!("iperf3"),
        "rtt" => json!({"name": "ping", "version": "1.0"}),
        _ => json!({"name": "owping"}),
    };
    let run = json!({
        "test": {"type": kind, "spec": spec}, "tool": tool, "run": {"start-time": "2026-11-22T02:40:00Z"},
        "result": result,
    });
    format!("{run:#}\n")
}

fn of_throughput(whole: &Value) -> Value {
    let part = |bits: f64, start: u32, is_omitted: bool| json!({"throughput-bits": bits, "start": start, "end": start + 1, "omitted": is_omitted});
    let interval = |bits: f64, start: u32, is_omitted: bool| json!({"streams": [part(bits, start, is_omitted)], "summary": part(bits, start, is_omitted)});
    json!({
        "schema": 1, "succeeded": true, "diags": "iperf3 …",
        "intervals": [interval(1e9, 0, true), interval(7e9, 1, false), interval(9e9, 2, false)],
        "summary": {"streams": [part(3e9, 0, false), part(5e9, 0, false)], "summary": whole},
    })
}

fn of_round_trips() -> Value {
    json!({
        "succeeded": true, "sent": 4, "received": 3, "lost": 1, "loss": 0.25,
        "roundtrips": [
            {"seq": 1, "rtt": "PT0.0102S"}, {"seq": 2, "rtt": "PT0.0104S"},
            {"seq": 3, "error": "net-unreachable"}, {"seq": 4, "rtt": "PT0.0112S"},
        ],
    })
}

fn of_latency() -> Value {
    json!({
        "succeeded": true, "packets-sent": 100, "packets-lost": 1, "packets-reordered": 2,
        "max-clock-error": 0.25, "histogram-ttl": {"60": 99},
        "histogram-latency": {"5.10": 90, "-0.02": 1, "7.00": 8},
    })
}

/// Of all samples, the number that was measured under a name.
fn measured(results: &Results, name: &str) -> Vec<Option<f64>> {
    results.samples.iter().map(|sample| sample.measured.get(name)?.value()).collect()
}

#[test]
fn reads_of_fio_have_the_parameters_and_figures_that_bench_storage_has() {
    let results = read(&of_reads()).unwrap();
    let about = &results.about;
    let told = [&about.suite, &about.program, &about.date].map(String::as_str);
    assert_eq!(told, ["storage", "fio 3.36", "1795315185"]);
    assert_eq!(about.path.to_string(), "to /dev/nvme0n1");
    let [sample] = &results.samples[..] else { panic!("{:?}", results.samples) };
    assert_eq!(sample.series, "read, direct, scattered");
    assert_eq!((sample.bytes, sample.wall_s), (268_435_456, 10.0));
    assert_eq!((sample.parameter("request_size"), sample.parameter("depth")), (Some(4096.0), Some(16.0)));
    let words = ["direction", "way", "order", "engine"].map(|name| sample.parameters[name].word());
    assert_eq!(words, ["read", "direct", "scattered", "libaio"].map(Some));
    // A quarter of a core for ten seconds.
    assert_eq!((sample.cpu_s, measured(&results, "requests_per_s")), (Some(2.5), vec![Some(6553.6)]));
    let latency = &sample.distributions["request_latency"];
    let of = crate::bench::statistics::Summary::of(&latency.values).unwrap();
    assert_eq!((latency.unit.as_str(), of.p50, of.p90, of.p99), ("s", 120e-6, 200e-6, 800e-6));
    assert_eq!((of.min, of.max, of.count), (50e-6, 9e-3, 400));
    assert_eq!(measured(&results, "request_latency_values"), [Some(65_536.0)]);
}

#[test]
fn what_fio_ran_at_once_is_told_and_so_is_what_it_asked_of_an_engine_that_has_no_depth() {
    let options = json!({"rw": "randrw", "rwmixread": "75", "iodepth": "8"});
    let mix = job("mix", &options, &direction(), &direction());
    let options = json!({"rw": "write", "ioengine": "psync", "iodepth": "8", "direct": "0", "filename": "a"});
    let copies = json!({"rw": "write", "iodepth": "8", "numjobs": "4", "group_reporting": ""});
    let one = job("one", &options, &idle(), &direction());
    let mut many = job("many", &copies, &idle(), &direction());
    many["groupid"] = json!(1);
    let mut failed = one.clone();
    (failed["error"], failed["groupid"]) = (json!(28), json!(2));
    let results = read(&fio("fio-3.1-9-gabc", &[mix, one, many, failed])).unwrap();
    let series: Vec<&str> = results.samples.iter().map(|sample| sample.series.as_str()).collect();
    let mixed = ["read, direct, scattered, in a mix", "write, direct, scattered, in a mix"];
    assert_eq!(series, [mixed[0], mixed[1], "write, cached, sequential", "write, direct, sequential"]);
    let of = |name: &str| -> Vec<Option<f64>> {
        results.samples.iter().map(|sample| sample.parameter(name)).collect()
    };
    assert_eq!(of("read_share"), [Some(0.75), Some(0.75), None, None]);
    assert_eq!(of("depth"), [Some(8.0), Some(8.0), Some(1.0), Some(32.0)]);
    assert_eq!(of("jobs"), [Some(2.0), Some(2.0), Some(2.0), Some(4.0)]);
    let cpu: Vec<Option<f64>> = results.samples.iter().map(|sample| sample.cpu_s).collect();
    assert_eq!(cpu, [None, None, Some(2.5), Some(2.5)], "that of both directions is not that of one");
    let left_out: Vec<String> =
        results.left_out.iter().map(|line| format!("{}: {}", line.what, line.why)).collect();
    assert_eq!(left_out, ["run 1, job one: it failed with error 28"]);
}

#[test]
fn buckets_of_fio_are_taken_rather_than_percentiles_and_lines_for_people_are_passed_over() {
    let mut bucketed = direction();
    bucketed["clat_ns"]["bins"] = json!({"1000": 3, "2000": 1, "90000": 1});
    let run = fio("fio-3.36", &[job("r", &json!({"rw": "read"}), &bucketed, &idle())]);
    let text = format!("note: both iodepth >= 1 and a synchronous engine\n{run}done\n{run}");
    let results = read(&text).unwrap();
    assert_eq!(results.samples.iter().map(|sample| sample.run).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(results.about.iterations, 2, "runs of one setting are of one case");
    let values = &results.samples[0].distributions["request_latency"].values;
    assert_eq!(values, &[1e-6, 1e-6, 1e-6, 2e-6, 90e-6]);
}

#[test]
fn what_is_no_result_says_what_was_expected_and_where() {
    let old = why(&fio("fio-2.21", &[]));
    assert!(old.ends_with("in KiB and microseconds: results of fio 3.0 and later are read"), "{old}");
    let none = why(&fio("fio-3.36", &[]));
    assert_eq!(none, "fio measured nothing: it has no jobs");
    let options = json!({});
    let mut odd = direction();
    odd["io_bytes"] = json!("many");
    let jobs = [direction(), odd].map(|of| job("a", &options, &of, &idle()));
    let odd = why(&fio("fio-3.36", &jobs));
    let place = "run 1: at `/jobs/1/read/io_bytes` a whole number, 0 or more, was expected";
    assert!(odd.contains(place) && odd.ends_with("there is a string"), "{odd}");
    let mut short = direction();
    short.as_object_mut().unwrap().remove("runtime");
    let short = why(&fio("fio-3.36", &[job("a", &options, &short, &idle())]));
    assert!(short.ends_with("`/jobs/0/read/runtime` was expected, and is not there"), "{short}");
    let bad = json!({"succeeded": true, "roundtrips": [{"rtt": "P1Y"}]});
    let bad = why(&of_pscheduler("rtt", &bad));
    assert!(bad.contains("at `/result/roundtrips/0/rtt` a duration of ISO 8601"), "{bad}");
    let cut = of_reads();
    let cut = format!("{cut}{}", &cut[..cut.len() / 2]);
    let line = of_reads().lines().count() + 1;
    assert!(why(&cut).starts_with(&format!("the JSON object that begins in line {line}: ")), "{}", why(&cut));
    let large = format!("{}{}", of_reads(), " ".repeat(16 << 20));
    assert!(why(&large).starts_with("it is larger than 16 MiB"), "{}", why(&large));
    for other in ["{\"a\": 1}", "name = 1", "[{\"jobs\": []}]"] {
        assert!(why(other).contains("of other programs none is read"), "{}", why(other));
    }
}

#[test]
fn a_rate_of_pscheduler_is_what_arrived_with_its_intervals_and_streams() {
    let whole = json!({"throughput-bits": 8e9, "start": 0, "end": 10, "retransmits": 7});
    let results = read(&of_pscheduler("throughput", &of_throughput(&whole))).unwrap();
    let [sample] = &results.samples[..] else { panic!("{:?}", results.samples) };
    assert_eq!((sample.series.as_str(), sample.bytes, sample.wall_s), ("iperf3, TCP", 10_000_000_000, 10.0));
    assert_eq!(measured(&results, "rate"), [Some(8e9)]);
    assert_eq!(measured(&results, "segments_sent_again"), [Some(7.0)]);
    assert_eq!((sample.parameter("streams"), sample.parameter("duration")), (Some(2.0), Some(10.0)));
    let ends = ["host", "source"].map(|name| sample.parameters[name].word());
    assert_eq!(ends, [Some("far"), Some("near")]);
    assert_eq!(sample.distributions["rate"].values, [7e9, 9e9], "the first one was omitted");
    assert_eq!(sample.distributions["stream_rate"].values, [3e9, 5e9]);
    assert_eq!(results.about.path.to_string(), "to far");
    assert_eq!(results.about.date, "2026-11-22T02:40:00Z");
    // Alone, as it is printed; of UDP, of which a quarter was lost.
    let lossy = json!({"throughput-bits": 8e9, "start": 0, "end": 10, "sent": 400, "lost": 100});
    let alone = format!("Waiting for result...\n\n{:#}\n\nNo further runs.\n", of_throughput(&lossy));
    let alone = read(&alone).unwrap();
    assert_eq!(measured(&alone, "rate"), [Some(6e9)]);
    assert_eq!(measured(&alone, "share_lost"), [Some(0.25)]);
    assert_eq!(alone.about.path.to_string(), "to an unknown host");
    assert!(alone.samples[0].distributions.is_empty(), "the intervals are what was sent");
    let received = json!({"throughput-bits": 8e9, "receiver-throughput-bits": 5e9, "start": 0, "end": 10});
    let received = read(&of_pscheduler("throughput", &of_throughput(&received))).unwrap();
    assert_eq!(measured(&received, "rate"), [Some(5e9)]);
    let unknown = json!({"throughput-bits": 8e9, "start": 0, "end": 10, "sent": 400});
    let unknown = why(&of_pscheduler("throughput", &of_throughput(&unknown)));
    assert!(unknown.ends_with("it does not say how much of what was sent arrived"), "{unknown}");
}

#[test]
fn round_trips_and_latencies_of_pscheduler_are_seconds() {
    let failed = json!({"succeeded": false, "error": "\nno route to far\nmore"});
    let trace = json!({"succeeded": true, "paths": []});
    let texts = [
        of_pscheduler("rtt", &of_round_trips()),
        of_pscheduler("latency", &of_latency()),
        of_pscheduler("rtt", &failed),
        of_pscheduler("trace", &trace),
    ];
    let results = read(&texts.concat()).unwrap();
    let [trips, latency] = &results.samples[..] else { panic!("{:?}", results.samples) };
    assert_eq!((trips.series.as_str(), trips.wall_s), ("ping, round trips", 2.0));
    assert_eq!(trips.distributions["round_trip"].values, [0.0102, 0.0104, 0.0112]);
    assert_eq!((trips.parameter("rtt"), trips.parameter("packet_size")), (Some(0.01), Some(1000.0)));
    assert_eq!(measured(&results, "min_rtt"), [Some(0.0102), None]);
    assert_eq!(measured(&results, "share_lost"), [Some(0.25), None]);
    assert_eq!((latency.series.as_str(), latency.wall_s), ("owping, latency one way", 10.0));
    let values = &latency.distributions["latency"].values;
    let near = |at: usize, value_s: f64| (values[at] - value_s).abs() < 1e-12;
    assert!(values.len() == 99 && near(0, -20e-6) && near(1, 5.1e-3) && near(98, 7e-3), "{values:?}");
    assert_eq!(measured(&results, "clock_error"), [None, Some(0.25e-3)]);
    assert_eq!(measured(&results, "packets_lost"), [Some(1.0), Some(1.0)]);
    let left_out: Vec<&str> = results.left_out.iter().map(|line| line.why.as_str()).collect();
    let other = "it is of another test: those of throughput, rtt and latency are read";
    assert_eq!(left_out, ["no route to far", other]);
}

/// One that claims more packets than there are in the world is no reason to make room for them.
#[test]
fn of_a_histogram_so_many_values_are_kept_as_a_sample_has() {
    let most = u64::MAX;
    let (values, count) = document::spread(vec![(3.0, most), (1.0, most), (2.0, 0), (4.0, most)], 5);
    assert_eq!((values.as_slice(), count), (&[1.0, 1.0, 3.0, 4.0, 4.0][..], 3.0 * most as f64));
    assert_eq!(document::spread(vec![(1.0, 1)], 5), (vec![1.0], 1.0));
    assert_eq!(document::spread(Vec::new(), 5), (Vec::new(), 0.0));
}

#[test]
fn a_file_with_more_runs_or_values_than_there_is_memory_for_is_refused_with_its_run() {
    let runs = "{}\n".repeat(RUNS_MAX);
    assert_eq!(document::objects(&runs).unwrap().len(), RUNS_MAX);
    let refused = document::objects(&(runs + "{}")).unwrap_err().to_string();
    assert!(refused.contains("more than 100000 runs"), "{refused}");
    let mut gathered = Gathered::default();
    let fit = u32::try_from(VALUES_IN_ALL_MAX / VALUES_MAX).unwrap();
    let sample = |run| Sample { run, ..Sample::default() }.distributed("rtt", "s", vec![1.0; VALUES_MAX]);
    (1..=fit).for_each(|run| gathered.push(sample(run)).unwrap());
    let refused = gathered.push(sample(fit + 1)).unwrap_err().to_string();
    assert!(refused.contains(&format!("with run {}", fit + 1)), "{refused}");
}

proptest! {
    /// Bytes of good results, changed or cut: they are refused, or become samples that a result file may have.
    #[test]
    fn damaged_results_are_refused_or_read_without_a_panic(
        which in 0..5usize,
        at in any::<prop::sample::Index>(),
        length in 0..40usize,
        put in "[-0-9eE\"{}\\[\\],:. a-z/~é]{0,12}",
    ) {
        let whole = json!({"throughput-bits": 8e9, "start": 0, "end": 10, "sent": 400, "lost": 100});
        let text = match which {
            0 => of_reads(),
            1 => of_pscheduler("throughput", &of_throughput(&whole)),
            2 => of_pscheduler("rtt", &of_round_trips()),
            3 => include_str!("ping.txt").to_owned(),
            _ => of_pscheduler("latency", &of_latency()),
        };
        let mut bytes = text.into_bytes();
        let from = at.index(bytes.len());
        let to = (from + length).min(bytes.len());
        drop(bytes.splice(from..to, put.into_bytes()));
        if let Ok(read) = read(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(!read.samples.is_empty());
            for sample in &read.samples {
                prop_assert_eq!(sample.check(), Ok(()));
            }
        }
    }
}
