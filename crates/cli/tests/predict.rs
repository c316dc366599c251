//! `thalweg predict`, and predicted against actual at the end of copies.

mod support;

use serde_json::Value;
use std::process::Output;
use std::time::Duration;
use support::job::{Running, journal_bytes};
use support::{Scratch, noise, wait_until};

/// Longer than any of these copies takes.
const LIMIT: Duration = Duration::from_secs(120);

fn last(out: &Output) -> Value {
    let text = String::from_utf8_lossy(&out.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_else(|| panic!("{out:?}"))).expect("JSON")
}

fn copy(scratch: &Scratch, number: u32, more: &[&str]) -> Value {
    let mut words = vec!["cp".to_owned(), "--json".to_owned()];
    words.extend(more.iter().map(|&word| word.to_owned()));
    words.push(scratch.path("from").display().to_string());
    words.push(scratch.path(&format!("to-{number}")).display().to_string());
    let out = scratch.run(words);
    assert!(out.status.success(), "{out:?}");
    last(&out)
}

fn predict(scratch: &Scratch, more: &[&str]) -> Output {
    let (from, to) = (scratch.path("from"), scratch.path("to-next"));
    let mut words = vec!["predict", "--json", "--no-measure"];
    words.extend(more);
    words.extend([from.to_str().unwrap(), to.to_str().unwrap()]);
    scratch.run(words)
}

#[test]
fn copies_end_with_predicted_against_actual_and_teach_the_next() {
    // What binds shall be the limit.
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/large"), noise(1, 20 << 20)).unwrap();
    for number in 0..100 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 900)).unwrap();
    }
    let out = predict(&scratch, &[]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert_eq!(last(&out)["missing"], "entries");
    // So little that usual values say a time, which nobody has measured: no deadline holds by them.
    let (little, to) = (scratch.path("from/1"), scratch.path("to-next"));
    let ask = ["predict", "--no-measure", "--deadline", "1h", little.to_str().unwrap(), to.to_str().unwrap()];
    let out = scratch.run(ask);
    let words = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.code() == Some(2) && words.contains("nothing of this way was measured yet"),
        "{out:?}"
    );

    // Slow enough to show what the way carries at least.
    let first = copy(&scratch, 1, &["--bwlimit", "8MB/s"]);
    assert_eq!(first["prediction"]["missing"], "profile");
    let profiles = scratch.path("client-state/profiles.json");
    let learned = std::fs::read_to_string(&profiles).unwrap();
    let place = scratch.root().file_name().unwrap().to_str().unwrap();
    assert!(!learned.contains(place) && !learned.contains("from"), "{learned}");

    // The way carries more than the limit, so that a copy is predicted to be as slow as it is asked to be.
    std::fs::remove_dir_all(scratch.path("to-1")).unwrap();
    for number in 0..100 {
        std::fs::remove_file(scratch.path(&format!("from/{number}"))).unwrap();
    }
    let limited = copy(&scratch, 2, &["--bwlimit", "6MB/s"]);
    let told = &limited["prediction"];
    assert!(told["seconds"].as_f64() >= Some(2.0), "{told}");
    let (low, high) = (told["low_s"].as_f64().unwrap(), told["high_s"].as_f64().unwrap());
    assert!(low <= told["seconds"].as_f64().unwrap() && high <= told["p99_s"].as_f64().unwrap());
    assert!(told["wrong"].is_string() && told["actual_s"].as_f64() > Some(1.5), "{told}");
    // A machine on which a hundred entries take long has learned what one costs, too.
    let terms: Vec<&str> = told["terms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| term["term"].as_str().unwrap())
        .filter(|term| *term != "entries")
        .collect();
    assert_eq!(terms, ["start", "bytes", "end"]);

    let out = predict(&scratch, &["--bwlimit", "6MB/s", "--deadline", "1h"]);
    assert_eq!((out.status.code(), &last(&out)["deadline"]), (Some(0), &Value::from("holds")));
    let out = predict(&scratch, &["--bwlimit", "6MB/s", "--deadline", "1s"]);
    assert_eq!((out.status.code(), &last(&out)["deadline"]), (Some(2), &Value::from("too-late")));
    let answer = last(&out);
    assert_eq!(answer["binds"], "rate limit");
    assert_eq!(
        (answer["bytes"].as_f64(), answer["entries"].as_f64()),
        (Some(f64::from(20 << 20)), Some(1.0))
    );
    assert!(answer["plan"]["streams"]["why"].is_string());

    // In words.
    let (from, to) = (scratch.path("from"), scratch.path("to-next"));
    let words = scratch.ok([
        "predict",
        "--bwlimit",
        "6MB/s",
        "--deadline",
        "1h",
        from.to_str().unwrap(),
        to.to_str().unwrap(),
    ]);
    assert!(
        words.contains("at P99") && words.contains("deadline of") && words.contains("< binds"),
        "{words}"
    );
    let report = scratch.path("report");
    let words = scratch.ok([
        "cp",
        "-v",
        "--bwlimit",
        "6MB/s",
        "--report",
        report.to_str().unwrap(),
        from.to_str().unwrap(),
        scratch.path("to-3").to_str().unwrap(),
    ]);
    assert!(words.contains("; predicted "), "{words}");
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.lines().last().unwrap().contains("\"event\":\"prediction\""), "{report}");
}

/// Nobody has seen this way; the first three seconds of it say what the rest takes.
#[test]
fn the_first_copy_of_a_way_is_predicted_by_its_own_beginning() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/large"), noise(1, 32 << 20)).unwrap();
    let first = copy(&scratch, 1, &["--bwlimit", "3MB/s", "--chunk", "256KiB"]);
    let told = &first["prediction"];
    assert!(told["missing"].is_null() && told["after_s"].as_f64() >= Some(3.0), "{told}");
    assert!(told["after_s"].as_f64() < told["actual_s"].as_f64(), "{told}");
    assert!(told["wrong"].is_string() && told["rests_on"] == 1, "{told}");
    // The next one is predicted by this one: of the way is known that it carries so much.
    std::fs::write(scratch.path("from/large"), noise(1, 9 << 20)).unwrap();
    let second = copy(&scratch, 2, &["--bwlimit", "3MB/s", "--chunk", "256KiB"]);
    let told = &second["prediction"];
    assert!(told["missing"].is_null() && told["after_s"].is_null(), "{told}");
    // One of some seconds has a shorter beginning.
    let other = Scratch::in_memory();
    std::fs::create_dir(other.path("from")).unwrap();
    std::fs::write(other.path("from/large"), noise(1, 12 << 20)).unwrap();
    let told = &copy(&other, 1, &["--bwlimit", "3MB/s", "--chunk", "256KiB"])["prediction"];
    assert!(told["missing"].is_null() && told["after_s"].as_f64() < Some(3.0), "{told}");
}

#[test]
fn a_profile_that_cannot_be_read_is_none_and_one_that_is_not_wanted_is_not_made() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 1 << 20)).unwrap();
    let profiles = scratch.path("client-state/profiles.json");
    assert_eq!(copy(&scratch, 1, &["--no-profile"])["prediction"], Value::Null);
    assert!(!profiles.exists());
    let first = copy(&scratch, 2, &[]);
    assert_eq!(first["prediction"]["missing"], "profile");
    assert!(copy(&scratch, 3, &[])["prediction"]["seconds"].is_number());
    for (number, bad) in (4..).zip(["", "{\"version\":1", "\u{0}\u{0}", "[1,2]"]) {
        std::fs::write(&profiles, bad).unwrap();
        assert_eq!(copy(&scratch, number, &[])["prediction"]["missing"], "profile", "{bad}");
    }
    let is_half_written = |name: &str| name.starts_with("profiles.json.");
    let names = std::fs::read_dir(scratch.path("client-state")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    assert!(!names.any(|name| is_half_written(&name)));
}

#[test]
fn a_small_tree_is_counted_and_one_that_is_too_large_to_count_is_sampled() {
    let scratch = Scratch::in_memory();
    // Lopsided: a descent by chance would see little of it.
    for directory in 0..40 {
        let below = scratch.path(&format!("from/{directory}"));
        std::fs::create_dir_all(&below).unwrap();
        for file in 0..if directory == 7 { 500 } else { 1 } {
            std::fs::write(below.join(file.to_string()), b"0123456789").unwrap();
        }
    }
    let small = last(&predict(&scratch, &["--scan", "0s"]));
    assert_eq!((small["entries"].as_f64(), small["bytes"].as_f64()), (Some(579.0), Some(5390.0)), "{small}");
    assert_eq!(small["entries_sd"].as_f64(), Some(0.0));
    std::fs::remove_dir_all(scratch.path("from")).unwrap();
    for directory in 0..40 {
        let below = scratch.path(&format!("from/{directory}/below"));
        std::fs::create_dir_all(&below).unwrap();
        for file in 0..25 {
            std::fs::write(below.join(file.to_string()), b"0123456789").unwrap();
        }
    }
    let counted = last(&predict(&scratch, &[]));
    assert_eq!((counted["entries"].as_f64(), counted["bytes"].as_f64()), (Some(1080.0), Some(10_000.0)));
    assert_eq!(counted["entries_sd"].as_f64(), Some(0.0));
    // No time at all to count. The tree is even, so each descent knows all of it.
    let sampled = last(&predict(&scratch, &["--scan", "0s"]));
    assert_eq!((sampled["entries"].as_f64(), sampled["bytes"].as_f64()), (Some(1080.0), Some(10_000.0)));
    assert!(sampled["counted"].as_str().unwrap().contains("descents"), "{sampled}");
}

/// Asks, then copies; gives both answers.
fn foretold(scratch: &Scratch, words: &[&str]) -> (Value, Value) {
    let predicted = scratch.run([&["predict", "--json", "--no-measure"][..], words].concat());
    let copied = scratch.run([&["cp", "--json"][..], words].concat());
    assert!(copied.status.success(), "{copied:?}");
    (last(&predicted), last(&copied)["prediction"].clone())
}

/// Each way is known apart from the others, and what was predicted before is what the copy is held against at its end.
fn is_known_after_one_copy(scratch: &Scratch, first: &[&str], second: &[&str]) {
    let (_, told) = foretold(scratch, first);
    assert_eq!(told["missing"], "profile", "{first:?}: {told}");
    let (before, after) = foretold(scratch, second);
    for key in ["seconds", "low_s", "high_s"] {
        let [before, after] =
            [&before, &after].map(|said| said[key].as_f64().unwrap_or_else(|| panic!("{second:?}: {said}")));
        // A copy counts what it moved, a question what is there.
        assert!((before / after - 1.0).abs() < 0.05, "{second:?}: {key} {before}, then {after}");
    }
    assert_eq!(before["transfers"], 1, "{before}");
    assert!(after["wrong"].is_string() && after["within"].is_boolean(), "{after}");
}

#[test]
fn pushes_pulls_and_trees_of_small_files_are_predicted_and_compared() {
    let scratch = Scratch::in_memory();
    for number in 0..300 {
        let below = scratch.path(&format!("here/small/{}", number % 7));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join(number.to_string()), noise(number, 700)).unwrap();
    }
    std::fs::create_dir_all(scratch.path("there")).unwrap();
    std::fs::write(scratch.path("there/large"), noise(1, 24 << 20)).unwrap();
    let daemon = scratch.daemon(&[("there", &scratch.path("there"))]);
    let ticket = daemon.ticket.to_str().unwrap();
    let here = |name: &str| scratch.path(name).display().to_string();
    let (from, large) = (here("here/small"), daemon.place("there", "large"));
    let pushes = ["one", "two"].map(|name| daemon.place("there", name));
    let [push, again] = pushes.each_ref().map(|to| ["--ticket", ticket, &from, to]);
    is_known_after_one_copy(&scratch, &push, &again);
    let pulls = ["one", "two"].map(here);
    let [pull, again] = pulls.each_ref().map(|to| ["--ticket", ticket, &large, to]);
    is_known_after_one_copy(&scratch, &pull, &again);
}

/// It is said why there is no comparison, and the next prediction knows nothing of such a copy.
#[test]
fn a_copy_that_found_most_of_it_at_the_destination_says_that_it_was_not_predicted() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..4 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 1 << 20)).unwrap();
    }
    let (from, to) = (format!("{}/", scratch.path("from").display()), scratch.path("to"));
    let report = scratch.path("report");
    let copy = |how: &str| {
        let out = scratch.run(["cp", how, "--report", report.to_str().unwrap(), &from, to.to_str().unwrap()]);
        assert!(out.status.success(), "{out:?}");
        out
    };
    assert_eq!(last(&copy("--json"))["prediction"]["missing"], "profile");
    let again = last(&copy("--json"));
    assert_eq!(again["prediction"]["missing"], "little-moved", "{again}");
    assert!(std::fs::read_to_string(&report).unwrap().contains("\"missing\":\"little-moved\""));
    let words = format!("{:?}", copy("-v"));
    assert!(words.contains("; not predicted: at most half of it had to be moved"), "{words}");
    assert_eq!(last(&predict(&scratch, &[]))["transfers"], 1);
}

/// Until some content was verified at the destination, and not all.
fn wait_for_content(job: &mut Running) {
    let has_content = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["bytes_verified"].as_u64() > Some(0)
    };
    let came = || job.said().iter().any(|(_, line)| has_content(line));
    assert!(wait_until(LIMIT, came), "nothing came: {:?}", job.said());
    assert!(!job.is_over(), "{:?}", job.said());
}

/// The last attempt has but a part of the content, and how long the daemon was away says nothing of the way.
#[test]
fn a_copy_that_was_cut_off_and_began_anew_is_not_held_against_a_prediction() {
    let scratch = Scratch::new();
    let (from, export) = (scratch.path("file"), scratch.path("export"));
    std::fs::create_dir(&export).unwrap();
    std::fs::write(&from, noise(1, 32 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let address = daemon.address();
    let push = |to: &str, more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json", "--ticket"]).arg(scratch.path("ticket")).args(more).arg(&from).arg(to);
        Running::start(command)
    };
    push(&daemon.place("data", "first"), &[]).end(LIMIT).expect(0);
    let mut job = push(&daemon.place("data", "second"), &["--bwlimit", "4MB/s"]);
    wait_for_content(&mut job);
    daemon.kill();
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let told = job.end(LIMIT).expect(0).finished();
    assert!(told["attempts"].as_u64() > Some(1), "{told}");
    assert_eq!(told["prediction"]["missing"], "cut-off", "{told}");
}

/// What an earlier command left is read again, and not moved.
#[test]
fn a_copy_that_is_resumed_is_predicted_by_what_was_left_and_says_what_was_left_out() {
    let scratch = Scratch::in_memory();
    let (from, to) = (scratch.path("file"), scratch.path("to"));
    std::fs::create_dir(&to).unwrap();
    std::fs::write(&from, noise(1, 32 << 20)).unwrap();
    let begin = |name: &str, more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json", "--chunk", "256KiB"]).args(more).args([from.clone(), to.join(name)]);
        Running::start(command)
    };
    begin("first", &[]).end(LIMIT).expect(0);
    let job = begin("second", &["--bwlimit", "4MB/s"]);
    // A digest has 32 bytes.
    assert!(wait_until(LIMIT, || journal_bytes(&to) > 500), "nothing is durable: {:?}", job.said());
    job.kill();
    let resumed = begin("second", &[]).end(LIMIT).expect(0).finished();
    let told = &resumed["prediction"];
    assert!(resumed["bytes_resumed"].as_u64() > Some(0), "{resumed}");
    assert_eq!(told["left_out_bytes"], resumed["bytes_resumed"], "{told}");
    assert!(told["missing"].is_null() && told["after_s"].is_null() && told["wrong"].is_string(), "{told}");
    assert!(std::fs::read(to.join("second")).unwrap() == noise(1, 32 << 20), "it is another");
    // It teaches none.
    let third = begin("third", &[]).end(LIMIT).expect(0).finished();
    let told = &third["prediction"];
    assert_eq!((told["rests_on"].as_u64(), told["left_out_bytes"].as_u64()), (Some(1), Some(0)), "{told}");
}

#[test]
fn a_copy_whose_rate_was_changed_on_the_way_is_not_held_against_a_prediction() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 32 << 20)).unwrap();
    copy(&scratch, 1, &[]);
    let mut command = scratch.thalweg();
    command.args(["cp", "--json", "--bwlimit", "4MB/s"]).args([scratch.path("from"), scratch.path("to-2")]);
    let mut job = Running::start(command);
    wait_for_content(&mut job);
    scratch.ok(["limit", "none"]);
    let told = job.end(LIMIT).expect(0).finished();
    assert_eq!(told["prediction"]["missing"], "rate-changed", "{told}");
    // Nor does it teach the next one.
    assert_eq!(last(&predict(&scratch, &[]))["transfers"], 1);
}

#[test]
fn trees_without_content_are_predicted_by_their_entries() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..100 {
        std::os::unix::fs::symlink("nowhere", scratch.path(&format!("from/{number}"))).unwrap();
    }
    copy(&scratch, 1, &[]);
    let told = last(&predict(&scratch, &[]));
    let terms = told["terms"].as_array().unwrap_or_else(|| panic!("{told}"));
    assert!(terms.iter().all(|term| term["term"] != "bytes"), "{told}");
    let (from, to) = (scratch.path("from"), scratch.path("to-next"));
    let words = scratch.ok(["predict", "--no-measure", from.to_str().unwrap(), to.to_str().unwrap()]);
    assert!(
        words.contains("0 B in 100 entries") && !words.contains("NaN") && !words.contains(" inf "),
        "{words}"
    );
    // Of larger ones neither a start nor an end is known by it: both are usual values.
    std::fs::remove_dir_all(scratch.path("from")).unwrap();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 1 << 20)).unwrap();
    let other = last(&predict(&scratch, &[]));
    let terms = other["terms"].as_array().unwrap_or_else(|| panic!("{other}"));
    let guessed = terms.iter().filter(|term| term["guessed"] == true);
    let guessed: Vec<&str> = guessed.map(|term| term["term"].as_str().unwrap()).collect();
    assert_eq!(guessed, ["start", "end"], "{other}");
}

/// What stands in a configuration counts as if it were typed, for the copy and for who asks of it.
#[test]
fn copies_with_other_knobs_are_known_to_who_asks_with_the_same_ones() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 1 << 20)).unwrap();
    let config = scratch.path("config.toml").display().to_string();
    std::fs::write(&config, "[cp]\ncompress = true\nconcurrency = 8\n[predict]\ncompress = true\n").unwrap();
    copy(&scratch, 1, &["--config", &config, "--check", "digest"]);
    let known = |more: &[&str]| last(&predict(&scratch, more))["transfers"].as_u64();
    let rest = ["--check", "digest", "--concurrency", "8"];
    assert_eq!((known(&[]), known(&["--config", &config]), known(&rest)), (Some(0), Some(0), Some(0)));
    assert_eq!(known(&[&["--config", &config][..], &rest[..]].concat()), Some(1));
    assert_eq!(known(&[&["-z"][..], &rest[..]].concat()), Some(1));
    let (from, to) = (scratch.path("from"), scratch.path("to-next"));
    let ask = ["predict", "--no-measure", from.to_str().unwrap(), to.to_str().unwrap()];
    let words = String::from_utf8(scratch.run(ask).stdout).unwrap();
    assert!(words.contains("copies are remembered by the options that they had"), "{words}");
}

/// Slow on purpose: what a byte costs is all there is to know.
#[test]
fn simulated_disks_are_learned_like_others() {
    let scratch = Scratch::in_memory();
    let disk = "sim:rate=25MB/s,size=32MiB";
    is_known_after_one_copy(&scratch, &[disk, "null:"], &[disk, "null:"]);
    let told = last(&scratch.run(["predict", "--json", "--no-measure", disk, "null:"]));
    let bytes = told["terms"].as_array().unwrap().iter().find(|term| term["term"] == "bytes").expect("bytes");
    // 32 MiB at 25 MB/s; two copies were measured, on a machine that may be held up.
    assert!(bytes["seconds"].as_f64() > Some(0.9), "{told}");
    let other = scratch.run(["predict", "--no-measure", "sim:rate=26MB/s,size=32MiB", "null:"]);
    let words = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(other.status.code() == Some(2) && words.contains("one copy"), "{other:?}");
    assert!(!words.contains("thalweg probe"), "a probe refuses it: {words}");
}

/// A copy that one stream and one file at a time held up says nothing of the next one, which nobody held up.
#[test]
fn what_was_turned_by_hand_teaches_only_its_like() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..100 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 40_000)).unwrap();
    }
    let narrow = ["--streams", "1", "--concurrency", "1"];
    assert_eq!(copy(&scratch, 1, &narrow)["prediction"]["missing"], "profile");
    assert_eq!(copy(&scratch, 2, &["--check", "digest"])["prediction"]["missing"], "profile");
    assert_eq!(copy(&scratch, 3, &[])["prediction"]["missing"], "profile");
    assert_eq!(copy(&scratch, 4, &narrow)["prediction"]["rests_on"], 1);
    assert_eq!(copy(&scratch, 5, &[])["prediction"]["rests_on"], 1);
    // `predict` asks for as many streams as the copy would have.
    assert_eq!(last(&predict(&scratch, &[]))["transfers"], 2);
    assert_eq!(last(&predict(&scratch, &["--streams", "3"]))["transfers"], 0);
}
