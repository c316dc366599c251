//! `thalweg advise` and `thalweg model`, by the real program, with the papers' own questions.

mod support;

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use support::Scratch;

fn asked(scratch: &Scratch, words: &str) -> (i32, Value) {
    let output = scratch.run(words.split(' ').chain(["--json"]));
    let out = String::from_utf8(output.stdout).unwrap();
    let last = out.lines().last().unwrap_or_else(|| panic!("{words}: {:?}", output.stderr));
    (output.status.code().unwrap(), serde_json::from_str(last).unwrap())
}

/// The same for people, whatever the exit code is.
fn said(scratch: &Scratch, words: &str) -> String {
    String::from_utf8(scratch.run(words.split(' ')).stdout).unwrap()
}

fn is_near(value: &Value, expected: f64, share: f64) -> bool {
    (value.as_f64().unwrap_or(f64::NAN) - expected).abs() <= share * expected.abs()
}

/// Transfers that go exactly by 001 Eq 6, in `files` files each.
fn runs(scratch: &Scratch, name: &str, sizes: &[f64], check_s_per_byte: f64, files: &[u32]) -> String {
    let mut text = "{\"event\": \"begin\"}\n\n".to_owned();
    for bytes in sizes {
        for &files in files {
            let n = f64::from(files);
            let seconds = bytes / 8.0 * 6e-8 + n / 8.0 * 0.004 + bytes / n * check_s_per_byte + 0.3;
            let _ = writeln!(
                text,
                "{{\"files\": {files}, \"bytes\": {bytes}, \"concurrency\": 8, \"seconds\": {seconds}}}"
            );
        }
    }
    std::fs::write(scratch.path(name), text).unwrap();
    scratch.path(name).into_os_string().into_string().unwrap()
}

/// Transfers of each size in 8 to 4096 files. Each concurrency has its time for the first size; that of the others goes
/// by their bytes, and one after the other is above and below by its spread.
fn measured(scratch: &Scratch, name: &str, sizes: &[f64], concurrencies: &[(u32, f64, f64)]) -> String {
    let mut text = String::new();
    for (concurrency, time_s, spread) in concurrencies {
        for (size, bytes) in (0..).zip(sizes) {
            for (at, files) in (0..).zip([8, 64, 512, 4096]) {
                let by = if (size + at) % 2 == 0 { 1.0 + spread } else { 1.0 - spread };
                let seconds = time_s * bytes / sizes[0] * by;
                let _ = writeln!(
                    text,
                    "{{\"files\": {files}, \"bytes\": {bytes}, \"concurrency\": {concurrency}, \"seconds\": {seconds}}}"
                );
            }
        }
    }
    std::fs::write(scratch.path(name), text).unwrap();
    scratch.path(name).into_os_string().into_string().unwrap()
}

/// 003 section 5: XPCS needs 64 %, takes 1.2 s at worst and leaves 8.8 of 10 s.
#[test]
fn coherent_scattering_is_to_be_streamed() {
    let scratch = Scratch::new();
    let (code, advice) = asked(&scratch, "advise --data 2GB --every 1s --bandwidth 25Gbit/s --deadline 10s");
    assert_eq!(code, 0);
    assert!(is_near(&advice["advice"]["utilisation"], 0.64, 1e-9), "{advice}");
    assert_eq!(advice["advice"]["best"], serde_json::json!(["stream", "in-time"]));
    let stream = &advice["advice"]["ways"][0];
    assert!(is_near(&stream["p99_s"], 1.2, 1e-9) && is_near(&stream["left_s"], 8.8, 1e-9), "{stream}");
    assert_eq!(stream["tier"], "near-real-time");
}

/// 003 section 5: liquid scattering does not fit at 4 GB/s; at 3 GB/s it needs 96 % and leaves 4 s.
#[test]
fn liquid_scattering_is_impossible_until_it_is_reduced() {
    let scratch = Scratch::new();
    let (code, advice) = asked(&scratch, "advise --data 4GB --every 1s --bandwidth 25Gbit/s --deadline 10s");
    assert_eq!((code, &advice["advice"]["best"]), (2, &Value::Null));
    let (code, advice) = asked(&scratch, "advise --data 3GB --every 1s --bandwidth 25Gbit/s --deadline 10s");
    assert_eq!(code, 0);
    assert!(is_near(&advice["advice"]["utilisation"], 0.96, 1e-9));
    assert!(is_near(&advice["advice"]["ways"][0]["left_s"], 4.0, 1e-9));
    let words = said(&scratch, "advise --data 4GB --every 1s --bandwidth 25Gbit/s");
    assert!(words.starts_with("IMPOSSIBLE: the data need 128 % of the path"), "{words}");
    assert!(words.contains("bandwidth of 32.00 Gbit/s"), "{words}");
}

/// Of a line of which transfers get half, data that need 46 % of it leave next to nothing free.
#[test]
fn a_deadline_is_not_promised_by_what_transfers_do_not_get() {
    let scratch = Scratch::new();
    let half = "advise --data 2GB --every 1.4s --bandwidth 25Gbit/s --efficiency 0.5 --deadline";
    let (code, advice) = asked(&scratch, &format!("{half} 2s"));
    assert_eq!((code, &advice["advice"]["best"]), (2, &serde_json::json!(["stream", "too-late"])));
    assert!(is_near(&advice["advice"]["ways"][0]["p99_s"], 6.735, 1e-3), "{advice}");
    assert_eq!(asked(&scratch, &format!("{half} 7s")).0, 0);
    let words = said(&scratch, &format!("{half} 2s"));
    assert!(words.contains("need 46 % of the path, 91 % of what a transfer gets."), "{words}");
}

/// The answer is local, stream or files, as times and overheads are; of an unknown tail no deadline is promised.
#[test]
fn the_answer_follows_the_times() {
    let scratch = Scratch::new();
    let quick = "--bandwidth 1Gbit/s --local-time 8s --remote-time 1s --io-overhead 2";
    let (code, advice) = asked(&scratch, &format!("advise --data 500MB {quick}"));
    assert_eq!((code, &advice["advice"]["best"][0]), (0, &Value::from("stream")));
    // Here r T_local = 1 s and T_transfer = 4 s: theta may be 7 / 4 until local is quicker.
    let stream = &advice["advice"]["ways"][1];
    assert!(is_near(&stream["to_beat_local"]["io_overhead"], 1.75, 1e-9), "{stream}");
    let (_, advice) = asked(&scratch, &format!("advise --data 1GB {quick}"));
    assert_eq!(advice["advice"]["best"][0], "local");
    let (code, advice) = asked(&scratch, "advise --data 500MB --bandwidth 1Gbit/s --deadline 5s");
    assert_eq!((code, &advice["advice"]["best"][1]), (2, &Value::from("in-time-as-expected")));
    let times = scratch.path("times").into_os_string().into_string().unwrap();
    let deadline = format!("advise --data 500MB --bandwidth 1Gbit/s --times {times} --deadline");
    let ground = |within: &str| {
        let (code, advice) = asked(&scratch, &format!("{deadline} {within}"));
        (code, advice["advice"]["best"][1].as_str().unwrap().to_owned())
    };
    // Of 473 times the last but one bounds P99, whatever the last one takes.
    std::fs::write(&times, format!("{}{{\"seconds\": 4.9}}\n30\n", "4\n".repeat(471))).unwrap();
    assert_eq!(ground("5s"), (0, "in-time".to_owned()));
    assert_eq!(ground("4.5s"), (2, "too-late".to_owned()));
    let words = said(&scratch, &format!("{deadline} 5s"));
    assert!(words.contains("at most 4.90 s with 95 % confidence, by 473 measured times."), "{words}");
    // Of a hundred no more than that one took so long is known.
    std::fs::write(&times, format!("{}{{\"seconds\": 4.9}}\n", "4\n".repeat(99))).unwrap();
    assert_eq!(ground("5s"), (2, "in-time-as-expected".to_owned()));
    let words = said(&scratch, &format!("{deadline} 5s"));
    assert!(words.contains("the worst of 100 times is 4.90 s, and P99 takes 299"), "{words}");
    // Of three the worst is no P99, but it did take so long.
    std::fs::write(&times, "4\n4.1\n{\"seconds\": 4.9}\n").unwrap();
    assert_eq!(ground("5s"), (2, "in-time-as-expected".to_owned()));
    assert_eq!(ground("4.5s"), (2, "too-late".to_owned()));
    let words = said(&scratch, &format!("{deadline} 5s"));
    assert!(words.contains("the worst of 3 times is 4.90 s, and P99 takes 299"), "{words}");
    assert!(!words.contains("holds"), "{words}");
}

/// 1 MB are sent in 0.32 ms, and take 50 ms to arrive.
#[test]
fn no_deadline_is_promised_that_light_does_not_keep() {
    let scratch = Scratch::new();
    let far = "advise --data 1MB --every 1s --bandwidth 25Gbit/s --rtt 100ms --deadline";
    let (code, advice) = asked(&scratch, &format!("{far} 10ms"));
    assert_eq!((code, &advice["advice"]["best"][1]), (2, &Value::from("too-late")));
    let stream = &advice["advice"]["ways"][0];
    assert!(is_near(&stream["time_s"], 0.05032, 1e-9) && stream["distance_s"] == 0.05, "{stream}");
    assert!(stream["to_be_in_time"]["bandwidth_bits_per_s"].is_null(), "{stream}");
    let words = said(&scratch, &format!("{far} 10ms"));
    assert!(words.contains("50.00 ms are its distance, half of the round trip."), "{words}");
    // Where alpha is known otherwise the distance is the same.
    let (_, known) = asked(&scratch, &format!("{far} 10ms --efficiency 0.5"));
    assert_eq!((&known["advice"]["ways"][0]["distance_s"], &known["path"]), (&0.05.into(), &Value::Null));
    let words = said(&scratch, "advise --data 1MB --bandwidth 25Gbit/s --score 2 --deadline 10ms");
    assert!(words.contains("Distance is in none of these times; give --rtt."), "{words}");
}

/// 003 published bursts each second over 16 ms.
#[test]
fn of_a_path_unlike_003_s_testbed_no_deadline_is_promised_by_it() {
    let scratch = Scratch::new();
    let ask = |data: &str, every: &str, more: &str| {
        format!("advise --data {data} --every {every} --bandwidth 25Gbit/s --deadline 10s{more}")
    };
    let like = said(&scratch, &ask("2GB", "1s", ""));
    let verdict = "STREAM: it holds the deadline of 10.00 s at P99, 1.20 s as on 003's testbed.";
    assert_eq!(like.lines().next(), Some(verdict));
    for (data, every, more, unlike, why) in [
        ("1MB", "1ms", "", "period", "003 measured a unit each 1.00 s"),
        ("2GB", "1s", " --rtt 100ms", "round-trip", "over a round trip of 16.00 ms"),
        ("3GB", "1s", " --starts scheduled", "slots", "they do not keep up"),
    ] {
        let ask = ask(data, every, more);
        let (code, advice) = asked(&scratch, &ask);
        let best = serde_json::json!(["stream", "in-time-as-expected"]);
        assert_eq!((code, &advice["advice"]["best"]), (2, &best), "{advice}");
        assert_eq!(advice["advice"]["unlike_003"], unlike, "{advice}");
        assert!(advice["advice"]["ways"][0]["p99_s"].is_null(), "{advice}");
        let words = said(&scratch, &ask);
        assert!(words.lines().next().is_some_and(|verdict| verdict.contains(why)), "{words}");
        assert!(words.contains("P99 of transfers: not known") && words.contains("Give --times"), "{words}");
        assert_eq!(asked(&scratch, &format!("{} --score 2", ask.replace(" --starts scheduled", ""))).0, 0);
    }
    let slots = said(&scratch, &ask("2GB", "1s", " --starts scheduled"));
    assert!(slots.contains("with bandwidth reserved (`--slot`); better give --times"), "{slots}");
}

/// What it takes to be in time is told in digits that can be typed, and with them it keeps up.
#[test]
fn what_was_advised_is_not_impossible_when_it_is_asked_again() {
    let scratch = Scratch::new();
    let ask = "advise --data 2001MB --every 1s --deadline 10s";
    let words = said(&scratch, &format!("{ask} --bandwidth 25Gbit/s"));
    assert!(words.contains("alpha >= 0.641,") && words.contains("bandwidth >= 16.01 Gbit/s;"), "{words}");
    for again in ["--bandwidth 25Gbit/s --efficiency 0.641", "--bandwidth 16.01Gbit/s"] {
        let (_, advice) = asked(&scratch, &format!("{ask} {again}"));
        assert_eq!(advice["advice"]["ways"][0]["keeps_up"], true, "{again}: {advice}");
    }
    let (_, advice) = asked(&scratch, &format!("{ask} --bandwidth 16.00Gbit/s"));
    assert_eq!(advice["advice"]["best"], Value::Null, "{advice}");
    // 16.008 Gbit/s have 30.533 MiB under way in 16 ms.
    let far = format!("{ask} --bandwidth 25Gbit/s --rtt 16ms --window");
    let words = said(&scratch, &format!("{far} 4MiB"));
    assert!(words.contains("streams >= 8, or window >= 30.54 MiB."), "{words}");
    for again in ["4MiB --streams 8", "30.54MiB"] {
        let (_, advice) = asked(&scratch, &format!("{far} {again}"));
        assert_eq!(advice["advice"]["ways"][0]["keeps_up"], true, "{again}: {advice}");
    }
    let (_, advice) = asked(&scratch, &format!("{far} 30.53MiB"));
    assert_eq!(advice["advice"]["best"], Value::Null, "{advice}");
}

/// What `bench congest` writes: two series at two loads, in two runs that take turns, each transfer of 20 MB.
fn congested(scratch: &Scratch) -> String {
    let mut text = "{\"about\": {}}\n".to_owned();
    for run in [1, 2] {
        for (series, stretch) in [("scheduled, 2 streams", 1.0), ("simultaneous, 2 streams", 4.0)] {
            for load in [0.64, 1.28] {
                let times = [vec![load; 149], vec![2.0 * stretch * load]].concat();
                let sample = serde_json::json!({
                    "series": series, "run": run, "order": 1, "bytes": 150 * 20_000_000_u64, "files": 150,
                    "wall_s": 10.0, "parameters": {"load": {"value": load, "unit": "1"}, "starts": "any"},
                    "distributions": {"transfer_time": {"unit": "s", "values": times}},
                });
                let _ = writeln!(text, "{}", serde_json::json!({"sample": sample}));
            }
        }
    }
    std::fs::write(scratch.path("congest"), text).unwrap();
    scratch.path("congest").into_os_string().into_string().unwrap()
}

#[test]
fn times_that_were_written_in_another_unit_are_the_same_times() {
    let scratch = Scratch::new();
    let file = scratch.path("by-hand");
    let write = |unit: &str| {
        let sample = serde_json::json!({
            "series": "GridFTP", "run": 1, "order": 1, "bytes": 1, "files": 1, "wall_s": 10.0,
            "parameters": {"rtt": {"value": 10, "unit": unit}},
            "distributions": {"transfer_time": {"unit": "ms", "values": [640, 1280]}},
        });
        std::fs::write(&file, serde_json::json!({"sample": sample}).to_string()).unwrap();
        scratch.run(["model", "tail", &file.display().to_string(), "--json"])
    };
    let told: Value = serde_json::from_slice(&write("ms").stdout).unwrap();
    assert_eq!((&told["tail"]["max_s"], &told["parameters"]["rtt"]["value"]), (&1.28.into(), &0.01.into()));
    let refused = write("furlong");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("line 1: `rtt` is in `furlong`"), "{told}");
}

/// The machine was too slow for the path, or frames vanished: what that took says nothing of anything else.
#[test]
fn a_run_that_is_void_or_failed_is_in_no_fit_and_no_tail() {
    let scratch = Scratch::new();
    let append = |file: &str, parameters: Value| {
        let mut text = std::fs::read_to_string(file).unwrap();
        for mark in ["packets_lost_by_a_slow_machine", "not_accounted"] {
            let sample = serde_json::json!({
                "series": "scheduled, 2 streams", "run": 3, "order": 1, "bytes": 1_000_000_000, "files": 64,
                "wall_s": 9e4, "parameters": parameters, "measured": {mark: {"value": 1, "unit": "1"}},
                "distributions": {"transfer_time": {"unit": "s", "values": [99.0, 990.0]}},
            });
            let _ = writeln!(text, "{}", serde_json::json!({"sample": sample}));
        }
        std::fs::write(file, text).unwrap();
    };
    let measured = runs(&scratch, "runs", &[1e9], 2e-8, &[8, 64, 512, 4096]);
    let fit = asked(&scratch, &format!("model fit {measured}"));
    assert_eq!(fit.0, 0, "{}", fit.1);
    append(&measured, serde_json::json!({"concurrency": {"value": 8, "unit": "1"}}));
    assert_eq!(asked(&scratch, &format!("model fit {measured}")), fit);
    let words = scratch.ok(["model", "fit", &measured]);
    assert!(words.contains("3 lines without a measurement passed over"), "{words}");

    let times = congested(&scratch);
    let tails = scratch.ok(["model", "tail", &times, "--json"]);
    append(&times, serde_json::json!({"load": {"value": 0.64, "unit": "1"}, "starts": "any"}));
    assert_eq!(scratch.ok(["model", "tail", &times, "--json"]), tails);
}

/// The worst of transfers that begin together says nothing of those in slots, nor that of a full line of an empty one.
#[test]
fn each_series_and_load_has_a_tail_of_its_own() {
    let scratch = Scratch::new();
    let file = congested(&scratch);
    let told = scratch.ok(["model", "tail", &file, "--json"]);
    let tails: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |tail: &Value| {
        let load = tail["parameters"]["load"]["value"].as_f64().unwrap();
        let seen = [tail["tail"]["count"].as_f64(), tail["tail"]["max_s"].as_f64()].map(Option::unwrap);
        (tail["series"].as_str().unwrap().to_owned(), load, seen)
    };
    let expected = [
        ("scheduled, 2 streams".to_owned(), 0.64, [300.0, 1.28]),
        ("scheduled, 2 streams".to_owned(), 1.28, [300.0, 2.56]),
        ("simultaneous, 2 streams".to_owned(), 0.64, [300.0, 5.12]),
        ("simultaneous, 2 streams".to_owned(), 1.28, [300.0, 10.24]),
    ];
    assert_eq!(tails.iter().map(of).collect::<Vec<_>>(), expected);
    let words = scratch.ok(["model", "tail", &file]);
    assert!(words.starts_with("scheduled, 2 streams: load 0.64, starts any\n  P50 "), "{words}");
    let count = "\n  of 300 times: P99 of further ones is at most 1.28 s, with 95 % confidence\n";
    assert!(words.contains(count), "{words}");
    let chosen = ["--series", "simultaneous, 2 streams", "--load", "64%"];
    let one = scratch.ok([&["model", "tail", &file, "--json"], &chosen[..]].concat());
    assert_eq!(one.lines().count(), 1, "{one}");
    assert_eq!(of(&serde_json::from_str(&one).unwrap()), expected[2]);

    let ask = [
        "advise",
        "--data",
        "20MB",
        "--bandwidth",
        "1Gbit/s",
        "--deadline",
        "6s",
        "--json",
        "--times",
        &file,
    ];
    let refused = |more: &[&str]| {
        let output = scratch.run([&ask[..], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        told["why"].as_str().unwrap().to_owned()
    };
    let why = refused(&[]);
    for named in
        ["4 cases", "--series", "`simultaneous, 2 streams` at 0.64, 1.28", "`scheduled, 2 streams` at"]
    {
        assert!(why.contains(named), "{why}");
    }
    assert!(refused(&["--load", "0.64"]).contains("2 cases"));
    assert!(
        refused(&["--series", "none such"]).contains("`scheduled, 2 streams` at 0.64"),
        "with what there is"
    );
    for (load, code, p99_s) in [("0.64", 0, 5.12), ("1.28", 2, 10.24)] {
        let output =
            scratch.run([&ask[..], &["--series", "simultaneous, 2 streams", "--load", load]].concat());
        let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{advice}");
        assert_eq!(advice["advice"]["ways"][0]["p99_s"], p99_s, "{advice}");
    }
    assert_eq!(asked(&scratch, "advise --data 20MB --bandwidth 1Gbit/s --load 0.64").0, 1, "of what?");
}

/// A file of `bench congest` has transfers of one size over one line, which others share to a known part.
#[test]
fn times_of_other_data_or_of_an_easier_line_promise_nothing() {
    let scratch = Scratch::new();
    let file = congested(&scratch);
    let ask = |more: &str| {
        let case = ["--series", "simultaneous, 2 streams", "--load", "0.64", "--deadline", "60s", "--json"];
        let words = format!("advise --times {file} {more}");
        let output = scratch.run(words.split(' ').chain(case));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), told["why"].as_str().unwrap_or_default().to_owned())
    };
    for alike in ["--data 20MB --bandwidth 1Gbit/s", "--data 23MB --bandwidth 1Gbit/s --every 1s"] {
        assert_eq!(ask(alike), (Some(0), String::new()), "{alike}");
    }
    for (other, why) in [
        ("--data 500MB --bandwidth 1Gbit/s", "and --data is"),
        ("--data 5MB --bandwidth 1Gbit/s", "and --data is"),
        ("--data 20MB --bandwidth 1Gbit/s --every 180ms", "and --data in --every are"),
    ] {
        let (code, told) = ask(other);
        assert!(code == Some(1) && told.contains(why) && told.contains("--score"), "{other}: {told}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let about = r#"{"about": {"path": {"kind": "testbed", "rate_bits_per_s": 25000000000}}}"#;
    std::fs::write(&file, text.replacen("{\"about\": {}}", about, 1)).unwrap();
    assert_eq!(ask("--data 20MB --bandwidth 25Gbit/s").0, Some(0));
    let (code, told) = ask("--data 20MB --bandwidth 1Gbit/s");
    assert!(code == Some(1) && told.contains("and --bandwidth is"), "{told}");
}

/// Where windows bind, a wider line changes nothing.
#[test]
fn no_bandwidth_is_advised_where_the_window_binds() {
    let scratch = Scratch::new();
    let ask = "advise --data 2GB --bandwidth 25Gbit/s --every 1s --deadline 10s --rtt 16ms --window 64KiB";
    let (_, advice) = asked(&scratch, ask);
    assert_eq!(advice["advice"]["ways"][0]["to_be_in_time"]["bandwidth_bits_per_s"], Value::Null);
    let words = said(&scratch, ask);
    let needs = "To keep up, stream needs 16.00 Gbit/s on the path: streams >= 489, or window >= 30.52 MiB.";
    assert!(words.contains(needs) && !words.contains("needs a bandwidth"), "{words}");
    // With as many streams it keeps up.
    let words = said(&scratch, &format!("{ask} --streams 489"));
    assert!(!words.contains("To keep up"), "{words}");
}

/// Each process needs a file: what is asked for is not made more by itself.
#[test]
fn fewer_files_than_go_at_once_are_refused() {
    let scratch = Scratch::new();
    let measured = runs(&scratch, "runs", &[1e9], 2e-8, &[8, 64, 512, 4096]);
    assert_eq!(asked(&scratch, &format!("model fit {measured} --files-max 3")).0, 1);
    let ask = format!("advise --data 1GB --bandwidth 10Gbit/s --fit {measured}");
    assert_eq!(asked(&scratch, &format!("{ask} --files-max 3")).0, 1);
    assert_ne!(asked(&scratch, &ask).0, 1);
    let words = said(&scratch, &ask);
    assert!(words.contains("Their theta, ") && words.contains("is fitted"), "{words}");
}

/// Windows and loss bound what a transfer gets, and it is said which of them.
#[test]
fn advice_knows_windows_and_loss() {
    let scratch = Scratch::new();
    let path = "advise --data 1GB --bandwidth 1Gbit/s --rtt 100ms --window 4MiB";
    let (_, advice) = asked(&scratch, path);
    assert_eq!(advice["path"]["by"], "window");
    assert!(is_near(&advice["efficiency"], 0.3355, 1e-3));
    assert_eq!(asked(&scratch, &format!("{path} --streams 4")).1["path"]["by"], "line");
    let (_, lossy) = asked(&scratch, &format!("{path} --loss 1e-4"));
    assert_eq!(lossy["path"]["by"], "loss");
    assert!(is_near(&lossy["efficiency"], 0.0217, 1e-2));
}

/// A law of loss that leaves out timeouts says too much.
#[test]
fn with_more_loss_than_a_law_is_good_for_no_deadline_is_promised() {
    let scratch = Scratch::new();
    let ask = |loss: &str| {
        format!("advise --data 1MB --bandwidth 1Gbit/s --rtt 10ms --score 2 --deadline 60s --loss {loss}")
    };
    let (code, sensible) = asked(&scratch, &ask("1%"));
    assert_eq!((code, &sensible["path"]["is_beyond_law"]), (0, &Value::from(false)));
    let (code, beyond) = asked(&scratch, &ask("2%"));
    assert_eq!((code, &beyond["path"]["is_beyond_law"]), (2, &Value::from(true)));
    assert_eq!(beyond["advice"]["best"], serde_json::json!(["stream", "in-time-as-expected"]));
    let words = said(&scratch, &ask("2%"));
    assert!(words.contains("A transfer gets at most") && words.contains("timeouts count as well"), "{words}");
    assert!(!said(&scratch, &ask("1%")).contains("timeouts"));
    assert_eq!(asked(&scratch, &ask("2% --cca bbr")).0, 0, "no law of windows binds it");
}

/// What a site has in its environment for copies is no mistake here.
#[test]
fn what_says_nothing_without_a_round_trip_time_is_refused_where_it_was_typed() {
    let scratch = Scratch::new();
    let ask = "advise --data 1GB --bandwidth 1Gbit/s";
    for unheard in ["--window 4MiB", "--streams 4", "--cca reno", "--mtu 9000"] {
        for more in ["", " --efficiency 0.5", " --efficiency 0.5 --rtt 10ms"] {
            let (code, error) = asked(&scratch, &format!("{ask}{more} {unheard}"));
            assert_eq!((code, &error["kind"]), (1, &Value::from("usage")), "{more} {unheard}");
            let why = error["why"].as_str().unwrap();
            assert!(why.contains("--rtt") && why.contains(unheard.split(' ').next().unwrap()), "{why}");
        }
        assert_eq!(asked(&scratch, &format!("{ask} --rtt 10ms {unheard}")).0, 0, "{unheard}");
    }
    let site = [("THALWEG_WINDOW", "4MiB"), ("THALWEG_STREAMS", "4"), ("THALWEG_CCA", "bbr")];
    for more in ["", " --efficiency 0.5", " --rtt 10ms"] {
        let mut command = scratch.thalweg();
        command.envs(site).args(format!("{ask}{more}").split(' '));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{more}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn single_laws_say_the_published_numbers() {
    let scratch = Scratch::new();
    let (_, window) = asked(&scratch, "model window --rtt 60ms --rate 100Gbit/s");
    assert!(is_near(&window["bandwidth_delay_product_bytes"], 750e6, 1e-9));
    let (_, loss) = asked(&scratch, "model loss --loss 0.0046% --rtt 100ms");
    assert!(is_near(&loss["bit_error_rate"], 4e-9, 0.05), "000 section III-B.1");
    let (_, day) = asked(&scratch, "model volume --rate 100Gbit/s");
    assert!(is_near(&day["bytes"], 1.08e15, 1e-9), "000 Table V");
    let (_, petabyte) = asked(&scratch, "model volume --data 1PB --time 1d");
    assert!(is_near(&petabyte["rate_bits_per_s"], 92.6e9, 1e-3), "001");
    let (_, published) = asked(&scratch, "model published --data 1TB");
    let rates = published["rates"].as_array().unwrap();
    let of =
        |name: &str| rates.iter().find(|row| row["rate"]["name"].as_str().unwrap().contains(name)).unwrap();
    assert!(is_near(&of("APS")["time_s"], 8e12 / 480e9, 1e-9), "003 section 1");
    assert_eq!(
        (of("AWS EC2, largest")["rate"]["kind"].as_str(), rates.len()),
        (Some("cloud"), 27),
        "000 Table VIII"
    );
    let words = scratch.ok(["model", "published"]);
    assert!(words.contains("clouds carry at most") && words.contains("000 Table VII"), "{words}");
    std::fs::write(scratch.path("times"), "0.2\n5.0\n").unwrap();
    let times = scratch.path("times").into_os_string().into_string().unwrap();
    let (_, tail) = asked(&scratch, &format!("model tail {times} --data 0.5GB --rate 25Gbit/s"));
    assert!(is_near(&tail["speed_score"], 31.25, 1e-9), "003 section 4.1");
    let scan = "--frames 1440 --frame 8MiB --every 33ms --rate 25Gbit/s --per-file 1s";
    let (_, frames) = asked(&scratch, &format!("model frames {scan} --files 1,10,144,1440"));
    assert!(is_near(&frames["bytes"], 12.08e9, 1e-3), "003 section 4.2, its slip of 12.6 GB not repeated");
    assert!(is_near(&frames["streamed_s"], 47.52, 1e-3));
    assert_eq!(frames["in_files"].as_array().unwrap().len(), 4);
    let (_, repair) = asked(&scratch, "model repair --files 100 --data 1TB --rate 72Gbit/s --failures 5");
    assert!(is_near(&repair["effective_by_file_bits_per_s"], 72e9 / 1.05, 1e-9), "001 Eq 2");
    let (_, basin) = asked(&scratch, "model basin --stage read=829MB/s --stage wan=9.6Gbit/s,81ms");
    assert_eq!(basin["narrowest"], "read", "004");
    assert!(is_near(&basin["rate_bits_per_s"], 829e6 * 8.0, 1e-9));
}

/// 001 Fig 9: four points fitted, the others predicted; the best number of files.
#[test]
fn a_fit_predicts_what_it_was_not_shown() {
    let scratch = Scratch::new();
    let files = [8, 16, 64, 256, 512, 1024, 4096];
    let of = |name: &str, sizes: &[f64], check: f64| runs(&scratch, name, sizes, check, &files);
    let one_size = of("one", &[1e9], 2e-8);
    let (code, fit) = asked(&scratch, &format!("model fit {one_size} --points 8,64,512,4096 --predict 256"));
    assert_eq!(code, 0);
    assert_eq!(fit["held_out"].as_array().unwrap().len(), 3);
    assert!(fit["held_out_mean_absolute_error"].as_f64().unwrap() < 1e-6, "{fit}");
    // N* = sqrt(8 x 1e9 x 2e-8 / 0.004) = 200.
    assert_eq!(fit["optimum"]["files"], 200.0);
    assert_eq!(fit["condition"], "unknown", "one size does not tell a_trs from b_ck + b_srvs");
    let two_sizes = of("two", &[1e9, 2e9], 2e-8);
    assert_eq!(asked(&scratch, &format!("model fit {two_sizes}")).1["condition"], "holds");
    let slow_check = of("slow", &[1e9, 2e9], 9e-8);
    assert_eq!(asked(&scratch, &format!("model fit {slow_check}")).1["condition"], "broken");
    let words = scratch.ok(["model", "fit", &slow_check]);
    assert!(words.contains("does NOT hold"), "{words}");
    let (_, advice) = asked(&scratch, &format!("advise --data 1GB --bandwidth 10Gbit/s --fit {one_size}"));
    assert_eq!(advice["files"]["optimum"]["files"], 200.0);
    assert!(advice["advice"]["ways"][1]["io_s"].as_f64().unwrap() > 0.0);
}

/// Where the same file had two answers, the figure's fit was of one size alone.
#[test]
fn a_figure_and_a_fit_to_its_points_say_the_same_of_one_result() {
    let scratch = Scratch::new();
    let about = serde_json::json!({"about": {
        "suite": "files", "question": "how many?", "date": "2026-11-22T02:40:00Z", "program": "thalweg 0.1.0",
        "command": "thalweg bench files",
        "machine": {"cpu": "", "cores": 2, "memory_bytes": 1, "kernel": "", "file_system": "", "load": 0.0},
        "path": {"kind": "loopback"}, "iterations": 3, "encryption": "", "verification": "",
        "scaling": {"budget_bytes": null, "files_max": null, "seed": 0, "changes": []},
    }});
    // 001 Eq 6; runs differ by a few per cent.
    let asked_of = |start_s: f64, check_s_per_byte: f64| {
        let mut text = format!("{about}\n");
        let counts = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
        let all = counts.map(|files| (120_000_000, files)).into_iter();
        for (at, (bytes, files)) in (0..).zip(all.chain([4, 32, 512].map(|files| (80_000_000, files)))) {
            for run in 1..=3 {
                let (size, n) = (f64::from(bytes), f64::from(files));
                let noise = 1.0 + 0.03 * (f64::from((at * 3 + run * 5) % 9) / 4.0 - 1.0);
                let time_s = size / 4.0 * 3e-8 + n / 4.0 * start_s + size / n * check_s_per_byte + 0.2;
                let number = |value: f64| serde_json::json!({"value": value, "unit": "1"});
                let sample = serde_json::json!({"sample": {
                    "series": format!("4 at once, {bytes} B"), "run": run, "order": 1, "bytes": bytes, "files": files,
                    "wall_s": time_s * noise, "parameters": {"files": number(n), "concurrency": number(4.0)},
                }});
                let _ = writeln!(text, "{sample}");
            }
        }
        std::fs::write(scratch.path("files.jsonl"), text).unwrap();
        let file = scratch.path("files.jsonl").display().to_string();
        let (code, fit) = asked(&scratch, &format!("model fit {file} --points 4,32,512,4096"));
        assert_eq!(code, 0, "{fit}");
        let drawn = scratch.path("files.svg").display().to_string();
        scratch.ok(["plot", &file, "--figure", "files-fit", "--out", &drawn]);
        let page = scratch.path("report.html").display().to_string();
        scratch.ok(["report", &file, "--out", &page]);
        let data = std::fs::read_to_string(scratch.path("files.csv")).unwrap();
        let page = std::fs::read_to_string(scratch.path("report.html")).unwrap();
        // A note stands in as many lines as it needs.
        let texts = page.split('<').filter_map(|part| part.split_once('>'));
        let words: Vec<&str> = texts.flat_map(|(_, text)| text.split_whitespace()).collect();
        (fit, data, words.join(" "))
    };
    let (fit, data, page) = asked_of(0.002, 1e-8);
    let best = format!("N* = {}", fit["optimum"]["files"].as_f64().unwrap());
    assert!(data.contains(&format!("{best},limit,")) && page.contains(&best), "{best}: {data}");
    let error = fit["held_out_mean_absolute_error"].as_f64().unwrap() * 100.0;
    assert!(page.contains(&format!("a mean absolute error of {error:.1} %")), "{error}");
    // Without a cost of starts, and with little of the last check, all numbers are within the noise.
    let (flat, data, page) = asked_of(0.0, 1e-11);
    assert_eq!((&fit["is_flat"], &flat["is_flat"]), (&Value::from(false), &Value::from(true)), "{flat}");
    assert!(!data.contains("N* =") && page.contains("flat: no number is better"), "{data}");
    let file = scratch.path("files.jsonl").display().to_string();
    let words = scratch.ok(["model", "fit", &file, "--points", "4,32,512,4096"]);
    assert!(words.contains("  best           flat: no number is better"), "{words}");
}

/// Of one size measured nobody knows what is paid once: of other sizes there is a bound, and no range.
#[test]
fn a_fit_of_one_size_promises_nothing_of_another() {
    let scratch = Scratch::new();
    let files = [8, 16, 64, 256, 1024, 4096];
    let one = runs(&scratch, "one", &[1e9], 2e-8, &files);
    let two = runs(&scratch, "two", &[1e9, 1.5e9], 2e-8, &files);
    let (_, near) = asked(&scratch, &format!("model fit {one} --data 1.1GB"));
    assert!(near["bound"].is_null() && near["time"]["high_s"].is_number(), "{near}");
    for (data, bound) in [("5GB", "upper"), ("100MB", "lower")] {
        let (_, far) = asked(&scratch, &format!("model fit {one} --data {data} --predict 64"));
        assert_eq!(far["bound"], bound, "{far}");
        for time in [&far["time"], &far["predicted"][0]["time"]] {
            assert!(
                time["time_s"].is_number() && time["low_s"].is_null() && time["high_s"].is_null(),
                "{far}"
            );
        }
        let words = scratch.ok(["model", "fit", &one, "--data", data]);
        assert!(words.contains(&format!("({bound} bound: measured with one size only)")), "{words}");
        let (_, known) = asked(&scratch, &format!("model fit {two} --data {data}"));
        assert!(known["bound"].is_null() && known["time"]["high_s"].is_number(), "{known}");
    }
    // With time to spare it is the expected one, but no promise.
    let ask = |file: &str| format!("advise --data 5GB --bandwidth 10Gbit/s --deadline 100s --fit {file}");
    let (_, advice) = asked(&scratch, &ask(&one));
    let way = &advice["advice"]["ways"][1];
    assert_eq!((&advice["files"]["bound"], &way["way"]), (&Value::from("upper"), &Value::from("file")));
    assert!(way["p99_s"].is_null() && way["holds"].is_null(), "{advice}");
    let words = said(&scratch, &ask(&one));
    let first = words.lines().next().unwrap();
    assert!(first.ends_with("Time with files is an upper bound: measured with one size only."), "{words}");
    let (_, advice) = asked(&scratch, &format!("{} --score 1.5", ask(&two)));
    assert!(advice["files"]["bound"].is_null() && advice["advice"]["ways"][1]["holds"] == true, "{advice}");
}

/// 2 GB each second are 64 % of this line, and a stream of them takes 1.2 s at P99. Files took 0.3 s on a line that was
/// wider, and idle.
#[test]
fn files_that_were_measured_on_an_idle_path_promise_nothing_of_a_busy_one() {
    let scratch = Scratch::new();
    let idle = measured(&scratch, "idle", &[2e9, 3e9], &[(8, 0.3, 0.01)]);
    let ask = format!("advise --data 2GB --bandwidth 25Gbit/s --fit {idle}");
    let (_, alone) = asked(&scratch, &format!("{ask} --score 1.1"));
    assert!(alone["advice"]["ways"][1]["p99_s"].as_f64().unwrap() < 1.0, "{alone}");
    // Of its own slowest transfers nothing is known, and so not of those of files.
    let (code, unknown) = asked(&scratch, &format!("{ask} --deadline 10s"));
    assert!(code == 2 && unknown["advice"]["ways"][1]["p99_s"].is_null(), "{unknown}");
    let (code, late) = asked(&scratch, &format!("{ask} --every 1s --deadline 1s"));
    assert_eq!((code, &late["advice"]["best"]), (2, &serde_json::json!(["stream", "too-late"])), "{late}");
    for way in late["advice"]["ways"].as_array().unwrap() {
        assert!(is_near(&way["p99_s"], 1.2, 1e-9) && way["holds"] == false, "{late}");
    }
    let (code, early) = asked(&scratch, &format!("{ask} --every 1s --deadline 2s"));
    assert_eq!((code, &early["advice"]["best"]), (0, &serde_json::json!(["stream", "in-time"])), "{early}");
}

/// As `model fit` does of the same file.
#[test]
fn advice_says_whether_the_law_of_files_may_be_used() {
    let scratch = Scratch::new();
    let files = [8, 16, 64, 256, 1024, 4096];
    let holds = runs(&scratch, "holds", &[1e9, 2e9], 2e-8, &files);
    let broken = runs(&scratch, "broken", &[1e9, 2e9], 9e-8, &files);
    let unknown = runs(&scratch, "unknown", &[1e9], 2e-8, &files);
    for (file, condition, words) in [
        (&holds, "holds", None),
        (&broken, "broken", Some("does NOT hold: verification is the narrower stage")),
        (&unknown, "unknown", Some("cannot be told from one size of data")),
    ] {
        let ask = format!("advise --data 1GB --bandwidth 10Gbit/s --score 2 --deadline 100s --fit {file}");
        let (_, advice) = asked(&scratch, &ask);
        assert_eq!(advice["files"]["condition"], condition, "{advice}");
        assert_eq!(advice["advice"]["ways"][1]["p99_s"].is_null(), condition == "broken", "{advice}");
        let told = said(&scratch, &ask);
        assert_eq!(told.contains("a_ck < a_trs"), words.is_some(), "{told}");
        assert!(words.is_none_or(|words| told.contains(words)), "{told}");
    }
}

/// Of tiny files all time goes into starts; more bytes took a little less.
#[test]
fn of_what_a_byte_costs_nothing_is_said_where_it_was_not_measured() {
    let scratch = Scratch::new();
    let mut text = String::new();
    for (bytes, by) in [(1e6, 1.0), (1.5e6, 0.99)] {
        for (files, by_files) in [(64, 0.97), (512, 0.98), (4096, 1.0)] {
            let seconds = f64::from(files) * 0.0005 * by * by_files;
            let _ = writeln!(
                text,
                "{{\"files\": {files}, \"bytes\": {bytes}, \"concurrency\": 8, \"seconds\": {seconds}}}"
            );
        }
    }
    std::fs::write(scratch.path("tiny"), text).unwrap();
    let tiny = scratch.path("tiny").into_os_string().into_string().unwrap();
    assert_eq!(asked(&scratch, &format!("model fit {tiny}")).1["condition"], "unknown");
    let words = scratch.ok(["model", "fit", &tiny]);
    assert!(words.contains("cannot be told: of neither anything was measured"), "{words}");
}

/// Eight at once are quicker as expected, and vary much; four at once are steady.
#[test]
fn the_concurrency_that_holds_the_deadline_is_advised_and_not_the_quickest() {
    let scratch = Scratch::new();
    let file = measured(&scratch, "both", &[2e9, 3e9], &[(4, 10.5, 0.01), (8, 10.0, 0.3)]);
    let ask = format!("advise --data 2GB --bandwidth 25Gbit/s --score 1.5 --fit {file}");
    let (code, advice) = asked(&scratch, &format!("{ask} --deadline 15s"));
    assert_eq!((code, &advice["files"]["concurrency"]), (0, &Value::from(4)), "{advice}");
    assert_eq!(advice["advice"]["ways"][1]["holds"], true, "{advice}");
}

/// Who learns that other files were better asks how to have them.
#[test]
fn that_files_are_neither_split_nor_joined_is_said_where_their_best_number_is() {
    let scratch = Scratch::new();
    let help = scratch.ok(["model", "fit", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("neither splits nor joins files at rest") && help.contains("--chunk"), "{help}");
    let help = scratch.ok(["bench", "import", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("of no other program"), "{help}");
}

#[test]
fn what_cannot_be_fitted_or_read_is_said_with_its_line() {
    let scratch = Scratch::new();
    let few = runs(&scratch, "few", &[1e9], 2e-8, &[8, 16, 64]);
    let (code, error) = asked(&scratch, &format!("model fit {few}"));
    assert_eq!((code, &error["kind"]), (1, &Value::from("usage")));
    assert!(error["why"].as_str().unwrap().contains("3 measurements, but at least 4"), "{error}");
    let alike = runs(&scratch, "alike", &[1e9, 2e9], 2e-8, &[8, 16]);
    assert!(
        asked(&scratch, &format!("model fit {alike}")).1["why"].as_str().unwrap().contains("2 different")
    );
    // Files of one size: what each costs is what its bytes cost.
    let mut text = String::new();
    for (files, seconds) in [(8_u64, 1.2), (64, 1.9), (512, 8.0), (4096, 57.0)] {
        let bytes = 1_000_000 * files;
        let _ = writeln!(
            text,
            "{{\"files\": {files}, \"bytes\": {bytes}, \"concurrency\": 8, \"seconds\": {seconds}}}"
        );
    }
    std::fs::write(scratch.path("one-size"), text).unwrap();
    let one_size = scratch.path("one-size").into_os_string().into_string().unwrap();
    for ask in ["model fit", "advise --data 1GB --bandwidth 10Gbit/s --fit"] {
        let (code, error) = asked(&scratch, &format!("{ask} {one_size}"));
        assert_eq!((code, &error["kind"]), (1, &Value::from("usage")), "{error}");
        assert!(error["why"].as_str().unwrap().contains("all files have one size: measure"), "{error}");
    }
    for (text, why) in [
        ("{\"files\": 1}\n", "line 1: `bytes`"),
        ("\n{\"files\": 1, \"bytes\": 0, \"concurrency\": 1, \"seconds\": 1}", "line 2: `bytes`"),
        ("{\"files\": 1, \"bytes\": 1, \"concurrency\": 8, \"seconds\": 1}", "line 1: `concurrency`"),
        ("{\"files\": \u{1b}}", "line 1"),
        ("{}\n", "no measurement"),
        ("", "no measurement"),
    ] {
        std::fs::write(scratch.path("bad"), text).unwrap();
        let bad = scratch.path("bad").into_os_string().into_string().unwrap();
        let (code, error) = asked(&scratch, &format!("model fit {bad}"));
        assert_eq!(code, 1, "{text}");
        assert!(error["why"].as_str().unwrap().contains(why), "{error}");
    }
    let (code, error) = asked(&scratch, "model fit /does/not/exist");
    assert_eq!((code, &error["kind"]), (3, &Value::from("notfound")));
    for bad in [
        "model volume --data 1GB",
        "model frames --frames 10 --frame 1MB --every 1s --rate 1Gbit/s --per-file 1s --files 11",
        "model window --rtt 100ms",
        "model basin --stage read",
        "model basin --stage =1GB/s",
        "model window --rtt 0 --window 1MiB",
        "advise --data 1GB --bandwidth 1Gbit/s --local-time 1s",
        "advise --data 1GB --bandwidth 1Gbit/s --io-overhead 0.5",
        "advise --data 0 --bandwidth 1Gbit/s",
    ] {
        assert_eq!(asked(&scratch, bad).0, 1, "{bad}");
    }
}

#[test]
fn beyond_the_range_of_a_law_its_answer_says_so() {
    let scratch = Scratch::new();
    let said = |words: &str| scratch.ok(words.split(' '));
    let (small, large, huge) = (
        said("model loss --loss 0.1% --rtt 100ms"),
        said("model loss --loss 2% --rtt 100ms"),
        said("model loss --loss 10% --rtt 100ms"),
    );
    assert!(!small.contains("timeouts") && large.contains("timeouts count as well"), "{small}{large}");
    assert!(large.contains("bbr    loss up to 5 % does not bind it"), "{large}");
    assert!(huge.contains("bbr    a loss beyond 5 % binds it too"), "{huge}");
    let times = scratch.path("times.txt");
    std::fs::write(&times, "0.1\n").unwrap();
    let tail = said(&format!("model tail {} --data 0.5GB --rate 25Gbit/s", times.display()));
    assert!(tail.contains("Score 0.62; below 1: quicker than this line"), "{tail}");
}

/// Where guides name files.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Commands of a guide, with what it says that they say, line by line; `...` leaves lines out.
fn examples(guide: &str) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(root().join("docs/guide").join(guide)).expect("the guide");
    let mut examples: Vec<(String, Vec<String>)> = Vec::new();
    for block in text.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let mut is_ours = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                is_ours = command.starts_with("thalweg ");
                if is_ours {
                    examples.push((command["thalweg ".len()..].to_owned(), Vec::new()));
                }
            } else if let (true, Some((_, said))) = (is_ours, examples.last_mut()) {
                said.push(line.to_owned());
            }
        }
    }
    examples
}

#[test]
fn the_examples_of_the_guide_say_what_it_says() {
    let scratch = Scratch::new();
    let examples = examples("models.md");
    assert!(examples.len() >= 5, "{examples:?}");
    for (command, said) in examples {
        let mut thalweg = scratch.thalweg();
        let output = thalweg.current_dir(root()).args(command.split(' ')).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let mut lines = out.lines().map(str::trim_end);
        let mut is_left_out = false;
        for expected in &said {
            if expected == "..." {
                is_left_out = true;
                continue;
            }
            let found = match is_left_out {
                true => lines.find(|line| line == expected),
                false => lines.next(),
            };
            assert_eq!(found, Some(expected.as_str()), "thalweg {command}\n{out}");
            is_left_out = false;
        }
        if !is_left_out {
            assert_eq!(lines.next(), None, "thalweg {command}\n{out}");
        }
    }
}
