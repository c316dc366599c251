//! Every suite of `thalweg bench` runs once, with little data, through the real program; its result file says what was
//! measured, and other commands read it. Data sets are found whole by their seed, and damage in them is found.

mod support;

use serde_json::{Value, json};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use support::chance::{is_root, skipped};
use support::{Scratch, finish, wait_until};

fn thalweg(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = scratch.thalweg();
    command.args(words).current_dir(scratch.path(""));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    finish(command.spawn().expect("start"))
}

fn says(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a result file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Runs a suite and gives the samples of its result file.
fn measured(scratch: &Scratch, words: &[&str]) -> Vec<Value> {
    let out = scratch.path("result.jsonl");
    let out_text = out.display().to_string();
    let all = [&["bench"], words, &["--runs", "1", "--out", &out_text, "--quiet"]].concat();
    let output = thalweg(scratch, &all);
    assert!(output.status.success(), "{words:?}: {}", says(&output));
    let lines = lines(&out);
    let about = &lines[0]["about"];
    assert!(about["command"].as_str().unwrap().starts_with("thalweg bench "), "{about}");
    let built =
        format!("{} (commit {})", about["program"].as_str().unwrap(), about["commit"].as_str().unwrap());
    assert_eq!(says(&thalweg(scratch, &["--version"])).trim(), built);
    assert!(
        about["machine"]["cores"].as_u64().unwrap() >= 1 && about["date"].as_str().unwrap().ends_with('Z')
    );
    let samples: Vec<Value> = lines.iter().filter_map(|line| line.get("sample")).cloned().collect();
    assert!(!samples.is_empty(), "{words:?}");
    for sample in &samples {
        assert!(sample["wall_s"].as_f64().unwrap() > 0.0 && sample["run"] == 1, "{sample}");
    }
    let left: Vec<PathBuf> = std::fs::read_dir(scratch.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("thalweg-bench"))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    samples
}

fn number(sample: &Value, group: &str, name: &str) -> f64 {
    sample[group][name]["value"].as_f64().unwrap_or_else(|| panic!("no {name} in {sample}"))
}

/// Nobody who looks on is no reason to stop measuring.
#[test]
fn a_suite_comes_to_its_end_though_nobody_reads_what_it_tells() {
    let scratch = Scratch::new();
    let mut command = scratch.thalweg();
    command.args(["bench", "storage", "--budget", "64KiB", "--time", "10ms", "--runs", "1"]);
    command.args(["--out", "result.jsonl"]);
    command.current_dir(scratch.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    drop(child.stderr.take());
    assert_eq!(finish(child).status.code(), Some(0));
    assert!(lines(&scratch.path("result.jsonl")).len() > 10);
}

#[test]
fn what_a_suite_makes_smaller_than_the_paper_is_told_before_it_measures_and_what_it_leaves_out_as_well() {
    let scratch = Scratch::new();
    let words = ["bench", "sweep", "bulk", "--budget", "1KiB", "--max-files", "1", "--runs", "1"];
    let output = thalweg(&scratch, &[&words[..], &["--out", "result.jsonl"]].concat());
    assert!(output.status.success(), "{}", says(&output));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = |begins: &str| {
        let found = told.lines().position(|line| line.starts_with(begins));
        found.unwrap_or_else(|| panic!("no `{begins}` in {told}"))
    };
    let measured = line("run 1 ");
    for begins in
        ["made smaller: sizes of files: ", "left out: round trip times of 10ms,50ms,100ms (000 Fig 8)"]
    {
        assert!(line(begins) < measured, "{begins}: {told}");
    }
}

#[test]
fn suites_on_this_machine_alone_run_and_keep_their_samples() {
    let scratch = Scratch::new();
    let small = ["--budget", "128KiB", "--max-files", "4"];
    let sweep = measured(&scratch, &[&["sweep", "bulk"], &small[..]].concat());
    assert_eq!(sweep.len(), 8, "1 KiB to 128 KiB");
    let streaming = ["sweep", "streaming", "--budget", "4MiB"];
    let can = thalweg(&scratch, &["stream", "--help"]).status.success();
    if can {
        let grown = measured(&scratch, &streaming);
        assert!(number(&grown[0], "measured", "lag_at_the_end") > 0.0);
    } else {
        let refused = says(&thalweg(&scratch, &[&["bench"], &streaming[..]].concat()));
        assert!(refused.contains("has no `stream`"), "{refused}");
    }
    let order = measured(&scratch, &["order", "--budget", "512KiB"]);
    assert!(order.iter().any(|sample| sample["parameters"]["order"] == "strict"));
    let told = std::fs::read_to_string(scratch.path("result.jsonl")).unwrap();
    assert!(told.lines().any(|line| line.contains("left_out") && line.contains("strict, writing")), "{told}");
    let layout = measured(&scratch, &["layout", "--budget", "2MiB"]);
    for order in ["none", "by-device", "layout"] {
        let is_it = |sample: &Value| sample["parameters"]["order"] == order;
        assert!(layout.iter().any(is_it), "002 Table II: {order}");
    }
    let storage = measured(&scratch, &["storage", "--budget", "64KiB", "--time", "10ms"]);
    assert!(storage.iter().any(|sample| number(sample, "parameters", "request_size") == 4096.0));
    assert!(
        storage.iter().all(|sample| !sample["distributions"]["request_latency"]["values"]
            .as_array()
            .unwrap()
            .is_empty())
    );
}

/// A short path, of which the kernel makes what is wanted.
const PATH: [&str; 4] = ["--rtt", "2ms", "--rate", "1Gbit/s"];

/// A suite with little data over that path.
fn small(suite: &'static str) -> Vec<&'static str> {
    [&[suite, "--budget", "1MiB"], &PATH[..]].concat()
}

/// Where a suite over an emulated path can be run; else it is refused, and the test has seen that.
fn scratch_with_a_path() -> Option<Scratch> {
    let scratch = Scratch::new();
    if is_root() {
        return Some(scratch);
    }
    let refused = thalweg(&scratch, &["bench", "latency"]);
    assert!(!refused.status.success() && says(&refused).contains("needs root"), "{}", says(&refused));
    skipped("bench", "needs root");
    None
}

#[test]
fn numbers_of_files_are_measured_over_a_path_and_a_fit_and_a_tail_read_them() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let result = scratch.path("result.jsonl").display().to_string();
    let files = measured(&scratch, &[&small("files")[..], &["--max-files", "16"]].concat());
    assert_eq!(files.len(), 2 * 3, "4, 8 and 16 files, of all of the data and of two thirds");
    let tail = thalweg(&scratch, &["model", "tail", &result]);
    assert!(tail.status.success(), "{}", says(&tail));
    // Two sizes: what depends on size is told from what does not.
    let fit = thalweg(&scratch, &["model", "fit", &result, "--json"]);
    let fitted: Value = serde_json::from_slice(&fit.stdout).unwrap_or_else(|_| panic!("{}", says(&fit)));
    assert_eq!(fitted["fit"]["is_split_known"], true, "{fitted}");
    // So little may cost nothing by the byte, for either part. And that the law's condition holds is only said where
    // chance would not make such a difference, which six measurements of so little need not show.
    let cost = |name: &str| fitted["fit"]["costs"][name].as_f64().unwrap();
    let is_free = cost("transfer_s_per_byte") == 0.0 && cost("check_s_per_byte") == 0.0;
    let known: &[&str] = if is_free { &["unknown"] } else { &["holds", "broken", "unknown"] };
    assert!(known.iter().any(|known| fitted["condition"] == *known), "{fitted}");
}

#[test]
fn whole_files_are_checked_after_their_transfer_and_a_fit_and_a_figure_are_made_of_it() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let result = scratch.path("result.jsonl").display().to_string();
    let few = ["--max-files", "4"];
    let of = |more: &[&'static str]| measured(&scratch, &[&small("whole-files")[..], &few, more].concat());
    // Two at once, each checked as fast as this machine does: 2 and 4 files, of two sizes.
    let free = of(&["--at-once", "2", "--free-check"]);
    assert_eq!(free.len(), 2 + 2);
    for sample in &free {
        assert_eq!(number(sample, "parameters", "concurrency"), 2.0, "{sample}");
        assert!(sample["parameters"]["check_rate"].is_null(), "{sample}");
    }
    let files = of(&["--at-once", "1"]);
    assert_eq!(files.len(), 4 + 3, "1 to 4 files, of all of the data, and three of these of two thirds");
    for sample in &files {
        assert!(number(sample, "measured", "last_check") > 0.0, "{sample}");
        // Each file is read no faster than at the rate of a check.
        let file_bytes = sample["bytes"].as_f64().unwrap() / sample["files"].as_f64().unwrap();
        let least_s = file_bytes * 8.0 / number(sample, "parameters", "check_rate");
        assert!(sample["wall_s"].as_f64().unwrap() >= least_s, "{sample}");
    }
    let fit = thalweg(&scratch, &["model", "fit", &result, "--json"]);
    let fitted: Value = serde_json::from_slice(&fit.stdout).unwrap_or_else(|_| panic!("{}", says(&fit)));
    assert_eq!(fitted["fit"]["concurrency"], 1.0, "{fitted}");
    assert_eq!(fitted["fit"]["is_split_known"], true, "{fitted}");
    let drawn = scratch.path("whole.svg").display().to_string();
    let plot = thalweg(&scratch, &["plot", &result, "--figure", "whole-files-fit", "--out", &drawn]);
    assert!(plot.status.success(), "{}", says(&plot));
}

#[test]
fn damage_is_repaired_over_a_path_by_files_and_by_chunks_and_the_line_is_watched() {
    let Some(scratch) = scratch_with_a_path() else { return };
    // Chunks of 64 KiB, sixteen in a file.
    let words = [&["faults", "--budget", "8MiB", "--max-files", "8"], &PATH[..]].concat();
    let faults = measured(&scratch, &words);
    let again = |series: &str| -> f64 {
        let is_it = |sample: &&Value| {
            sample["series"] == series && number(sample, "parameters", "damaged_share") == 0.1
        };
        number(faults.iter().find(is_it).unwrap(), "measured", "sent_again_on_the_wire")
    };
    assert!(again("chunks again") < again("whole files again"), "chunks cost less on the wire");
    for sample in &faults {
        let finds_chunks = sample["series"].as_str().unwrap().starts_with("chunks again");
        assert!(number(sample, "measured", "nothing_to_repair") > 0.0, "{sample}");
        assert_eq!(sample["predicted"]["nothing_to_repair"].is_object(), finds_chunks, "{sample}");
    }
    let by_at_once = faults.iter().filter(|sample| sample["parameters"]["concurrency"].is_object());
    assert_eq!(by_at_once.count(), 2 * 3, "1, 4 and 16 files at once, by files and by chunks");

    // What went over the line, and how many cores were busy, moment by moment.
    let looks =
        |sample: &Value, name: &str| sample["distributions"][name]["values"].as_array().unwrap().clone();
    for sample in &faults {
        let (rates, cores) = (looks(sample, "rate_over_time"), looks(sample, "cores_over_time"));
        assert!(!rates.is_empty() && rates.len() == cores.len(), "{sample}");
        for seen in [&rates, &cores] {
            assert!(seen.iter().any(|value| value.as_f64() > Some(0.0)), "{sample}");
        }
    }
}

#[test]
fn streams_and_hops_are_measured_over_a_path() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let words = ["streams", "--rtt", "1ms,40ms", "--rate", "100Mbit/s", "--time", "100ms"];
    let streams = measured(&scratch, &words);
    assert_eq!(streams.len(), 2 * 6, "two round trip times, 1 to 32 streams");
    let law = |count: f64| {
        let is_it = |sample: &&Value| {
            number(sample, "parameters", "streams") == count && number(sample, "parameters", "rtt") == 0.04
        };
        number(streams.iter().find(is_it).unwrap(), "predicted", "rate")
    };
    assert_eq!(law(2.0), 2.0 * law(1.0), "two windows in a round trip");

    let hops = measured(&scratch, &small("hop"));
    let names: Vec<&str> = hops.iter().map(|sample| sample["series"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "straight, passed on, stored: {names:?}");
    assert!(hops.iter().all(|sample| number(sample, "measured", "bytes_forward_on_the_wire") > 1e6));
}

#[test]
fn congestion_controls_are_measured_over_a_path_and_what_is_left_out_is_told() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let result = scratch.path("result.jsonl");
    let words = ["cca", "--budget", "1MiB", "--rtt", "2ms,4ms", "--rate", "1Gbit/s", "--loss", "0,1e-4"];
    let controls = measured(&scratch, &words);
    for rtt in [0.002, 0.004] {
        let is_it = |sample: &Value| number(sample, "parameters", "rtt") == rtt;
        assert_eq!(controls.iter().filter(|sample| is_it(sample)).count() * 2, controls.len(), "{rtt}");
    }
    // One line is of one sample, or says why there is none.
    let told = std::fs::read_to_string(&result).unwrap();
    for series in ["reno, TLS", "reno, kernel TLS"] {
        let is_measured = controls.iter().any(|sample| sample["series"] == series);
        let is_left_out = told.lines().any(|line| line.contains("left_out") && line.contains("kernel TLS"));
        assert!(is_measured || (series == "reno, kernel TLS" && is_left_out), "{series}: {told}");
    }
    let of_the_paper = ["a loss of 1e-5", "a round trip time of 74ms"];
    for what in of_the_paper {
        assert!(told.lines().any(|line| line.contains("left_out") && line.contains(what)), "{what}: {told}");
    }
}

#[test]
fn the_path_itself_is_measured_and_how_buffers_go_with_its_round_trip() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let words = ["path", "--rtt", "280us,5ms", "--rate", "100Mbit/s", "--loss", "1e-2"];
    let path = measured(&scratch, &words);
    assert_eq!(
        path.len(),
        9,
        "two round trip times, a rate, a loss, jitter, late packets, packets twice, the cost for two kinds of hosts"
    );
    for series in ["loss", "late packets", "packets twice"] {
        let sample = path.iter().find(|sample| sample["series"] == series).unwrap();
        assert!(number(sample, "measured", "packets") > 10_000.0, "{sample}");
    }
    for sample in &path {
        // How good the path is, on a machine with nothing else to do, is for tests/testbed.rs.
        assert!(number(sample, "measured", "share_of_the_tolerance") >= 0.0, "{sample}");
        assert!(number(sample, "predicted", "measured") > 0.0, "{sample}");
    }
    measured(
        &scratch,
        &["latency", "--budget", "1MiB", "--rtt", "5ms", "--rate", "500Mbit/s", "--time", "200ms"],
    );
}

#[test]
fn promised_slots_keep_below_the_promise_or_are_refused() {
    if scratch_with_a_path().is_none() {
        return;
    }
    // A promise has the disk in it: a slow one would have all of them refused.
    let scratch = Scratch::in_memory();
    let slots = measured(&scratch, &["slots", "--budget", "200kB", "--rtt", "2ms", "--time", "2s"]);
    let of = |starts: &str| -> Vec<&Value> {
        slots.iter().filter(|sample| sample["parameters"]["starts"] == starts).collect()
    };
    assert!(of("slots").iter().all(|sample| number(sample, "predicted", "promised") <= 1.0));
    assert!(of("slots").iter().any(|sample| number(sample, "measured", "refused") > 0.0), "{slots:?}");
    let long = of("slots, long deadline");
    assert!(!long.is_empty() && long.iter().all(|sample| number(sample, "predicted", "promised") <= 2.0));
    // The deadline of one second has no whole period to wait, and so less room.
    let refused = |samples: &[&Value]| -> f64 {
        samples.iter().map(|sample| number(sample, "measured", "refused")).sum()
    };
    assert!(refused(&long) <= refused(&of("slots")), "{slots:?}");
    assert!(slots.iter().all(|sample| number(sample, "measured", "carried") > 0.0), "{slots:?}");
    assert!(of("simultaneous").iter().all(|sample| number(sample, "measured", "refused") == 0.0));
}

#[test]
fn clients_that_start_together_are_measured_each_by_itself() {
    let Some(scratch) = scratch_with_a_path() else { return };
    let result = scratch.path("result.jsonl");
    let congest = measured(&scratch, &["congest", "--budget", "100kB", "--rtt", "2ms", "--time", "1s"]);
    let told = std::fs::read_to_string(&result).unwrap();
    for not_here in ["1 and 16 streams", "a port of the server for each client", "every 0.1 s"] {
        assert!(
            told.lines().any(|line| line.contains("left_out") && line.contains(not_here)),
            "{not_here}: {told}"
        );
    }
    let together = congest.iter().filter(|sample| number(sample, "parameters", "clients_per_s") == 8.0);
    assert!(together.clone().count() == 12, "three numbers of streams, two ways to start, two windows");
    let fits = "with an initial window that fits the path";
    assert!(together.clone().filter(|sample| sample["parameters"]["begins"] == fits).count() == 6);
    assert!(told.contains("initial window of TCP"), "{told}");
    assert!(
        together.clone().all(|sample| {
            sample["distributions"]["transfer_time"]["values"].as_array().unwrap().len() == 8
        })
    );
}

#[test]
fn a_scan_is_copied_in_files_or_streamed() {
    let scratch = Scratch::new();
    let frames =
        measured(&scratch, &["frames", "--budget", "100KiB", "--max-files", "10", "--time", "100ms"]);
    assert_eq!(
        frames.len(),
        2 * 7,
        "1 file, 10 files, 4 of them at once, 10 watched, 10 streamed, a stream, frames; at two rates"
    );
    for sample in &frames {
        // A tenth of a second of frames, or a whole one; then what is left to do.
        let wall_s = sample["wall_s"].as_f64().unwrap();
        let scan_s = number(sample, "parameters", "period") * 10.0;
        assert!((wall_s - scan_s - number(sample, "measured", "after_last_frame")).abs() < 1e-6, "{sample}");
        assert!(number(sample, "predicted", "wall_s") >= scan_s, "{sample}");
    }
}

#[test]
fn lags_have_their_tails() {
    let scratch = Scratch::new();
    // 200 frames, of which memory and the window hold 68 MB: the others are spilled while the consumer stands still.
    let lags = measured(&scratch, &["lag", "--time", "200ms", "--stall", "1s", "--budget", "200MB"]);
    assert_eq!(lags.len(), if is_root() { 18 } else { 9 }, "near, and far for root");
    for sample in &lags {
        let is_frames = !sample["series"].as_str().unwrap().starts_with("stream");
        if sample["measured"]["given"].is_object() {
            let [given, taken, named] =
                ["given", "taken", "named_as_lost"].map(|name| number(sample, "measured", name));
            assert_eq!((given, taken + named), (200.0, 200.0), "{sample}");
            assert_eq!(number(sample, "measured", "not_accounted"), 0.0, "{sample}");
            assert_eq!(sample["bytes"].as_f64(), Some(taken * 1e6), "{sample}");
            if sample["measured"]["spilled"].is_object() {
                // How much depends on how fast the producer was. Far away it may not get so far in that time.
                let is_near = sample["parameters"]["rtt"]["value"].as_f64().unwrap_or(0.0) == 0.0;
                assert_eq!(named, 0.0, "{sample}");
                assert!(!is_near || number(sample, "measured", "spilled") > 0.0, "{sample}");
            }
        } else if is_frames {
            assert_eq!(sample["bytes"], 200_000_000, "all of them arrived: {sample}");
        } else {
            let values = sample["distributions"]["lag"]["values"].as_array().unwrap();
            assert!(values.len() == 200 || values.len() == 20, "one for each message: {}", values.len());
        }
        assert!(number(sample, "measured", "lag_p50") <= number(sample, "measured", "lag_max"));
        // Nothing outruns light; the reader looks every so often, so less is not seen.
        // (Frames are measured by a clock that is known to half a round trip.)
        let least = if is_frames { 0.0 } else { number(sample, "predicted", "lag") };
        assert!(number(sample, "measured", "lag_p50") >= least, "{sample}");
    }
}

#[test]
fn streams_files_and_depth_are_turned_one_by_one() {
    let scratch = Scratch::new();
    if !is_root() {
        skipped("bench", "needs root");
        return;
    }
    let words = ["concurrency", "--budget", "256KiB", "--max-files", "4", "--rtt", "1ms"];
    assert_eq!(measured(&scratch, &words).len(), 5 * 4 + 2 * 4);
}

#[test]
fn copies_are_predicted_and_held_against_what_they_took() {
    let scratch = Scratch::in_memory();
    let samples = measured(&scratch, &["predict", "--budget", "1MiB", "--max-files", "20"]);
    let far = if is_root() { 4 } else { 0 };
    assert_eq!(samples.len(), 2 + 2 + 1 + 1 + 2 * far, "loopback, small files, slow disks, links");
    for series in ["by a probe", "by earlier copies"] {
        let of = samples.iter().filter(|sample| sample["series"] == series);
        let told: Vec<&Value> = of.filter(|sample| sample["measured"].get("took").is_some()).collect();
        assert!(!told.is_empty(), "{series}: {samples:?}");
        for sample in told {
            let [low, high] =
                ["predicted_low", "predicted_high"].map(|name| number(sample, "measured", name));
            let took = number(sample, "measured", "took");
            assert!(low <= number(sample, "predicted", "took") && low < high, "{sample}");
            let is_within = low <= took && took <= high;
            assert_eq!(number(sample, "measured", "in_range") == 1.0, is_within, "{sample}");
        }
    }
}

/// Processes that have this directory in their words or their environment.
fn processes_of(directory: &Path) -> Vec<u32> {
    let needle = directory.as_os_str().as_encoded_bytes();
    let has = |path: PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
    };
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (has(entry.path().join("cmdline")) || has(entry.path().join("environ"))).then_some(pid)
    })
    .collect()
}

#[test]
fn a_bench_that_is_killed_leaves_no_process_and_the_next_one_removes_its_directory() {
    let scratch = Scratch::new();
    let out = scratch.path("killed.jsonl").display().to_string();
    let sweep =
        ["bench", "sweep", "bulk", "--budget", "32MiB", "--max-files", "64", "--runs", "1000", "--out", &out];
    // As root with hosts and the path between them besides.
    let over_a_path = [&sweep[..], &["--rtt", "2ms", "--rate", "1Gbit/s"]].concat();
    let ways: &[&[&str]] = if is_root() { &[&sweep, &over_a_path] } else { &[&sweep] };
    for words in ways {
        let mut command = scratch.thalweg();
        command.args(*words).current_dir(scratch.root());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut killed = command.spawn().expect("start");
        let name = format!("thalweg-bench-{}-", killed.id());
        let found_yard = || {
            let mut all = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().path());
            all.find(|path| path.file_name().is_some_and(|found| found.to_string_lossy().starts_with(&name)))
        };
        assert!(wait_until(Duration::from_secs(120), || found_yard().is_some()));
        let yard = found_yard().unwrap();
        let hosts = 2 * usize::from(words.contains(&"--rtt"));
        // A server and a client; of an emulated path its wire and its warden.
        let wanted = 2 + hosts;
        let is_at_work = || processes_of(&yard).len() >= wanted || !matches!(killed.try_wait(), Ok(None));
        assert!(wait_until(Duration::from_secs(120), is_at_work));
        assert!(matches!(killed.try_wait(), Ok(None)), "it ended by itself");
        killed.kill().unwrap();
        killed.wait().unwrap();
        let are_gone = || processes_of(&yard).is_empty();
        assert!(wait_until(Duration::from_secs(60), are_gone), "{:?} are left", processes_of(&yard));
        assert!(yard.is_dir());
        let next = scratch.path("next.jsonl").display().to_string();
        let words =
            ["bench", "sweep", "bulk", "--budget", "1KiB", "--max-files", "1", "--runs", "1", "--out", &next];
        let output = thalweg(&scratch, &words);
        assert!(output.status.success(), "{}", says(&output));
        assert!(says(&output).contains("removed what a killed run left"), "{}", says(&output));
        assert!(!yard.exists());
    }
}

#[test]
fn an_imported_result_is_shown_like_our_own() {
    let scratch = Scratch::new();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/bench/import/iperf3.json");
    let out = scratch.path("iperf3.jsonl").display().to_string();
    let imported = thalweg(&scratch, &["bench", "import", real, "--out", &out]);
    assert!(imported.status.success(), "{}", says(&imported));
    let shown = thalweg(&scratch, &["bench", "show", &out]);
    assert!(says(&shown).contains("iperf3, TCP"), "{}", says(&shown));
    let json = thalweg(&scratch, &["bench", "show", &out, "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["cases"][0]["rate_bits_per_s"]["median"].as_f64().unwrap() > 0.0);
    let odd = thalweg(&scratch, &["bench", "import", env!("CARGO_MANIFEST_PATH")]);
    assert_eq!(odd.status.code(), Some(1), "{}", says(&odd));
}

/// Which program it was is in the file, whatever that is called.
#[test]
fn results_of_fio_and_pscheduler_are_imported_by_what_is_in_them() {
    let scratch = Scratch::new();
    let write = json!({
        "io_bytes": 1 << 30, "runtime": 2000, "total_ios": 1024, "iops": 512.0,
        "clat_ns": {"min": 1000, "max": 9000, "mean": 3000.0, "N": 1024, "percentile": {"50.000000": 3000}},
    });
    let options = json!({"rw": "write", "bs": "1m", "direct": "1", "filename": "/srv/data"});
    let job = json!({"jobname": "w", "groupid": 0, "error": 0, "job options": options, "write": write});
    let fio = json!({"fio version": "fio-3.36", "timestamp": 1, "jobs": [job]});
    let test = json!({"type": "rtt", "spec": {"dest": "far"}});
    let trips = json!({"succeeded": true, "roundtrips": [{"rtt": "PT0.01S"}], "loss": 0});
    let rtt = json!({"test": test, "result": trips});
    let (source, out) = (scratch.path("far.txt"), scratch.path("far.jsonl"));
    let import = |text: &str| {
        std::fs::write(&source, text).unwrap();
        let words = ["bench", "import", source.to_str().unwrap(), "--out", out.to_str().unwrap()];
        thalweg(&scratch, &words)
    };
    let disk = import(&fio.to_string());
    assert!(disk.status.success() && says(&disk).contains("write, direct, sequential"), "{}", says(&disk));
    let trips = import(&rtt.to_string());
    assert!(trips.status.success() && says(&trips).contains("pScheduler, round trips"), "{}", says(&trips));
    let cut = import(&fio.to_string().replace("2000", "\"long\""));
    assert_eq!(cut.status.code(), Some(1), "{}", says(&cut));
    assert!(says(&cut).contains("at `/jobs/0/write/runtime` a number was expected"), "{}", says(&cut));
}

#[test]
fn round_trips_of_ping_are_imported_and_drawn_and_what_another_ping_wrote_is_refused() {
    let scratch = Scratch::new();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/bench/import/ping.txt");
    let out = scratch.path("far.jsonl").display().to_string();
    let imported = thalweg(&scratch, &["bench", "import", real, "--out", &out]);
    assert!(imported.status.success(), "{}", says(&imported));
    assert!(
        says(&imported).contains("ping, round trips, in ms (the mean round trip)"),
        "{}",
        says(&imported)
    );
    let json = thalweg(&scratch, &["bench", "show", &out, "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let measured = &json["cases"][0]["measured"];
    assert_eq!(
        (&measured["packets_lost"]["median"], &measured["packets_sent"]["median"]),
        (&json!(1.0), &json!(4.0))
    );
    let page = scratch.path("far.html").display().to_string();
    let drawn = thalweg(&scratch, &["report", &out, "--out", &page]);
    assert!(drawn.status.success(), "{}", says(&drawn));
    assert!(std::fs::read_to_string(&page).unwrap().contains("ping: round trips"));
    let other = scratch.path("other.txt").display().to_string();
    let text = std::fs::read_to_string(real).unwrap();
    std::fs::write(&other, text.replace("3 received", "3 packets received")).unwrap();
    let refused = thalweg(&scratch, &["bench", "import", &other]);
    assert_eq!(refused.status.code(), Some(1), "{}", says(&refused));
    assert!(says(&refused).contains("this is no result of ping (iputils): line 9: "), "{}", says(&refused));
}

/// A script can tell: the table is no success if frames vanished.
#[test]
fn a_result_with_runs_that_failed_ends_with_two_and_neither_they_nor_void_ones_are_in_a_median() {
    let scratch = Scratch::new();
    let sample = |run: u32, wall_s: f64, mark: &str| {
        let measured = json!({mark: {"value": 1.0, "unit": "1"}});
        json!({"sample": {
            "series": "frames", "parameters": {}, "run": run, "order": run, "bytes": 1_000_000, "files": 0,
            "wall_s": wall_s, "measured": measured,
        }})
    };
    let about = json!({"about": {
        "suite": "lag", "question": "how late?", "date": "2026-11-22T02:40:00Z", "program": "thalweg 0.1.0",
        "command": "thalweg bench lag",
        "machine": {"cpu": "", "cores": 2, "memory_bytes": 1, "kernel": "", "file_system": "", "load": 0.0},
        "path": {"kind": "loopback"}, "iterations": 3, "encryption": "", "verification": "",
        "scaling": {"budget_bytes": null, "files_max": null, "seed": 0, "changes": []},
    }});
    let shown = |marks: [&str; 3]| {
        let samples = (1..).zip([2.0, 50.0, 4.0]).zip(marks);
        let samples = samples.map(|((run, wall_s), mark)| sample(run, wall_s, mark));
        let lines: Vec<String> =
            std::iter::once(about.clone()).chain(samples).map(|line| format!("{line}\n")).collect();
        std::fs::write(scratch.path("result.jsonl"), lines.concat()).unwrap();
        let output = thalweg(&scratch, &["bench", "show", "result.jsonl", "--json"]);
        let told: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", says(&output)));
        let case = told["cases"][0].clone();
        let median = case["wall_s"]["median"].as_f64();
        (output.status.code(), median, case["void"].as_u64(), case["failed"].as_u64())
    };
    let (void, failed) = ("packets_lost_by_a_slow_machine", "not_accounted");
    assert_eq!(shown(["x", "x", "x"]), (Some(0), Some(4.0), Some(0), Some(0)));
    assert_eq!(shown(["x", void, "x"]), (Some(0), Some(3.0), Some(1), Some(0)));
    assert_eq!(shown(["x", failed, "x"]), (Some(2), Some(3.0), Some(0), Some(1)));
    assert_eq!(shown([void, failed, void]), (Some(2), None, Some(2), Some(1)));
}

#[test]
fn what_a_suite_does_not_go_by_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    for (words, why) in [
        (&["hop", "--rtt", "6ms,20ms"][..], "`hop` takes one --rtt"),
        (&["latency", "--loss", "1%"], "`latency` takes no --loss"),
        (&["order", "--rate", "1Gbit/s"], "`order` takes no --rate"),
        // Also where it is what would be taken without it.
        (&["storage", "--max-files", "4096"], "`storage` takes no --max-files"),
        (&["congest", "--seed", "0"], "`congest` takes no --seed"),
        (&["files", "--stall", "1s"], "`files` takes no --stall"),
        (&["lag", "--target", "1Gbit/s"], "`lag` takes no --target"),
        (&["path", "--budget", "1MiB"], "`path` takes no --budget"),
        (&["hop", "--time", "1s"], "`hop` takes no --time"),
        (&["order", "--budget", "256KiB"], "one request alone has no order"),
        (&["sweep", "bulk", "--loss", "1%"], "only with --rtt"),
        (&["storage", "--program", env!("CARGO_BIN_EXE_thalweg")], "`storage` takes no --program"),
        (&["congest", "--time", "2500ms"], "`congest` takes a --time of whole seconds"),
        (&["files", "--max-files", "2"], "`files` takes a --max-files of at least 4"),
        (&["storage", "--budget", "0"], "`storage` takes a --budget of at least 4 KiB"),
        (&["sweep", "bulk", "--rtt", "5ms,5ms"], "`sweep bulk` takes each value of --rtt once"),
    ] {
        let refused = thalweg(&scratch, &[&["bench"], words].concat());
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {}", says(&refused));
        assert!(says(&refused).contains(why), "{words:?}: {}", says(&refused));
    }
    assert!(std::fs::read_dir(scratch.path("")).unwrap().all(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        !name.contains("jsonl") && !name.starts_with("thalweg-bench")
    }));
}

/// In memory there is no disk that could be told of.
#[test]
fn what_cannot_go_past_the_page_cache_is_left_out_and_told() {
    let scratch = Scratch::in_memory();
    let place = thalweg_sys::Dir::open(scratch.root()).and_then(|root| root.file_system()).unwrap();
    if place.kind != thalweg_sys::FileSystemKind::Tmpfs {
        return skipped("suites without direct I/O", "needs a tmpfs in /dev/shm");
    }
    let samples = measured(&scratch, &["order", "--budget", "512KiB"]);
    assert!(samples.iter().all(|sample| sample["parameters"]["disk"] == "simulated array"), "{samples:?}");
    let lines = lines(&scratch.path("result.jsonl"));
    let left_out: Vec<&str> = lines.iter().filter_map(|line| line["left_out"]["what"].as_str()).collect();
    assert_eq!(left_out[1..], ["reading, the disk of --dir", "writing, the disk of --dir"]);
    assert!(left_out[0].starts_with("strict, writing"), "{left_out:?}");
    let samples = measured(&scratch, &["storage", "--budget", "64KiB", "--time", "10ms"]);
    assert!(samples.iter().all(|sample| sample["parameters"]["way"] == "cached"), "{samples:?}");
    let told = std::fs::read_to_string(scratch.path("result.jsonl")).unwrap();
    assert!(told.contains("requests past the page cache"), "{told}");
}

/// What is compared is the program; the path under it is the same.
#[test]
fn another_program_is_measured_over_the_path_of_this_one() {
    // By a program of its own: one that is still open for writing here could not be run.
    const WRITE: &str = "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"";
    let scratch = Scratch::new();
    if !is_root() {
        return skipped("bench --program", "needs root");
    }
    let other = scratch.path("other").display().to_string();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = testbed ] && exit 9\n[ \"$1\" = cp ] && touch {other}-was-run\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_thalweg")
    );
    let written =
        std::process::Command::new("sh").args(["-c", WRITE, "sh", &script, &other]).status().unwrap();
    assert!(written.success());
    let words =
        ["sweep", "bulk", "--budget", "1KiB", "--max-files", "1", "--rtt", "2ms", "--program", &other];
    assert_eq!(measured(&scratch, &words).len(), 1);
    assert!(Path::new(&format!("{other}-was-run")).exists());
}

#[test]
fn a_run_that_cannot_begin_leaves_nothing_and_tells_of_no_samples() {
    let scratch = Scratch::new();
    let refused = thalweg(&scratch, &["bench", "storage", "--dir", "not-there", "--runs", "1"]);
    assert_eq!(refused.status.code(), Some(3), "{}", says(&refused));
    assert!(says(&refused).contains("not-there"), "{}", says(&refused));
    assert!(!says(&refused).contains("samples until then"), "{}", says(&refused));
    let names = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("storage")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_import_replaces_what_it_reads_by_no_name() {
    let scratch = Scratch::new();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/bench/import/iperf3.json");
    let text = std::fs::read(real).unwrap();
    std::fs::create_dir(scratch.path("below")).unwrap();
    // The last is what the result is called until it is whole.
    for (file, out) in
        [("far.json", "far.json"), ("far.json", "below/../far.json"), (".far.jsonl", "far.jsonl")]
    {
        let source = scratch.path(file);
        std::fs::write(&source, &text).unwrap();
        let out = scratch.path(out).display().to_string();
        let refused = thalweg(&scratch, &["bench", "import", &source.display().to_string(), "--out", &out]);
        assert_eq!(refused.status.code(), Some(1), "{}", says(&refused));
        assert!(says(&refused).contains("would replace what is imported"), "{}", says(&refused));
        assert!(std::fs::read(&source).unwrap() == text, "{out}");
    }
}

/// A result of our own may have the name that the imported one gets where none was named.
#[test]
fn an_import_replaces_nothing_that_was_not_named() {
    let scratch = Scratch::new();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/bench/import/iperf3.json");
    let (source, own) = (scratch.path("far.json"), scratch.path("far.jsonl"));
    std::fs::copy(real, &source).unwrap();
    std::fs::write(&own, "what took an hour to measure").unwrap();
    let import = |more: &[&str]| {
        let words = ["bench", "import", source.to_str().unwrap()];
        thalweg(&scratch, &[&words[..], more].concat())
    };
    let refused = import(&[]);
    assert_eq!(refused.status.code(), Some(1), "{}", says(&refused));
    assert!(says(&refused).contains("name the result with --out"), "{}", says(&refused));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "what took an hour to measure");
    let no_file = import(&["--out", "-"]);
    assert_eq!(no_file.status.code(), Some(1), "{}", says(&no_file));
    // What is named is replaced, and what is not there is made.
    let named = import(&["--out", own.to_str().unwrap()]);
    assert!(named.status.success(), "{}", says(&named));
    std::fs::remove_file(&own).unwrap();
    assert!(import(&[]).status.success() && own.exists());
}

#[test]
fn a_data_set_is_checked_by_its_seed_wherever_it_was_copied_to() {
    let scratch = Scratch::new();
    let copy = scratch.path("copy");
    let copy_text = copy.display().to_string();
    let spec = "data:files=7,size=3KiB:3+2MiB:1,content=frames,sparse=20%,seed=9";
    let copied = thalweg(&scratch, &["cp", spec, &copy_text]);
    assert!(copied.status.success(), "{}", says(&copied));
    let checked = thalweg(&scratch, &["dataset", "check", &copy_text]);
    assert!(
        checked.status.success() && says(&checked).contains("all as they were made"),
        "{}",
        says(&checked)
    );
    // The same set as files, and a copy of that.
    let made = scratch.path("made").display().to_string();
    let words =
        ["--files", "7", "--size", "3KiB:3,2MiB:1", "--content", "frames", "--sparse", "20%", "--seed", "9"];
    let output = thalweg(&scratch, &[&["dataset", "make", &made], &words[..]].concat());
    assert!(output.status.success(), "{}", says(&output));
    let same = thalweg(&scratch, &["check", &format!("{made}/"), &format!("{copy_text}/"), "--json"]);
    assert!(same.status.success(), "{}", says(&same));
    // One bit.
    let victim =
        std::fs::OpenOptions::new().read(true).write(true).open(copy.join("d000000/f0000003")).unwrap();
    let mut byte = [0];
    victim.read_exact_at(&mut byte, 1500).unwrap();
    victim.write_all_at(&[byte[0] ^ 1], 1500).unwrap();
    let damaged = thalweg(&scratch, &["dataset", "check", &copy_text]);
    assert_eq!(damaged.status.code(), Some(4));
    assert!(says(&damaged).contains("d000000/f0000003: differs from byte 1500 on"), "{}", says(&damaged));
}
