//! What the command is told of an item is true of it.

use crate::support::{self, wait_until};
use crate::{Bench, LIMIT, analysis, ends, start};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What the program is told of an item, after it held the receipt against what arrived: of a directory it names what it
/// is in.
const TOLD: &str = r#"
at=$THALWEG_ITEM_PATH
if test -d "$at"; then at=$(dirname "$at"); fi
"$PROGRAM" verify "$THALWEG_ITEM_RECEIPT" "$at"
printf '%s %s %s %s\n' "$THALWEG_ITEM_NAME" "$THALWEG_ITEM_DIGEST" "$THALWEG_ITEM_BYTES" "$THALWEG_ITEM_RECEIPT" >> "$LOG""#;

/// Runs [`TOLD`] for each item that is there; the words of each line, in order.
fn told(bench: &Bench, more: &[&str]) -> Vec<Vec<String>> {
    let script = analysis(&bench.scratch, TOLD);
    let mut command = bench.scratch.thalweg();
    command.arg("watch").args([&bench.source, &bench.destination]).args(["--look-every", "100ms"]);
    command.args(["--idle-exit", "500ms", "--on-arrival", script.to_str().unwrap()]).args(more);
    command.env("LOG", bench.scratch.path("log")).env("PROGRAM", env!("CARGO_BIN_EXE_thalweg"));
    let (code, text) = ends(command);
    assert_eq!(code, Some(0), "{text}");
    let mut lines: Vec<Vec<String>> =
        bench.log().iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    lines.sort();
    lines
}

#[test]
fn what_the_program_is_told_of_a_file_is_true_of_it() {
    let bench = Bench::new();
    let files = [("empty", 0), ("large", 9 << 20 | 123), ("small", 1), ("sub/file", 5000)];
    for (seed, (name, bytes)) in (0..).zip(files) {
        bench.put(name, &support::noise(seed, bytes));
    }
    let lines = told(&bench, &["--stable", "100ms"]);
    assert_eq!(lines.len(), files.len(), "{lines:?}");
    for ((seed, (name, bytes)), line) in (0..).zip(files).zip(&lines) {
        let digest = blake3::hash(&support::noise(seed, bytes)).to_string();
        assert_eq!(line[..3], [name.to_owned(), digest, bytes.to_string()]);
        // The receipt is one of this file, and stays.
        let arrived = bench.destination.join(name);
        std::fs::write(&arrived, [&support::noise(seed, bytes)[..], b"!"].concat()).unwrap();
        let verified = bench.scratch.run(["verify", &line[3], arrived.to_str().unwrap()]);
        assert_eq!(verified.status.code(), Some(4), "{name}");
    }
}

#[test]
fn what_the_program_is_told_of_a_directory_is_true_of_all_that_is_in_it() {
    let of = |contents: [(&str, &[u8]); 2]| {
        let bench = Bench::new();
        contents.iter().for_each(|(name, content)| bench.put(&format!("run/{name}"), content));
        bench.put("run/READY", b"");
        let lines = told(&bench, &["--item", "directory", "--marker", "READY"]);
        let [line] = &lines[..] else { panic!("one item: {lines:?}") };
        assert_eq!(line[0], "run");
        assert_eq!(line[2], contents.iter().map(|(_, content)| content.len()).sum::<usize>().to_string());
        let data = bench.destination.join("run").join(contents[0].0);
        std::fs::write(data, b"no more what it was").unwrap();
        let verified = bench.scratch.run(["verify", &line[3], bench.destination.to_str().unwrap()]);
        assert_eq!(verified.status.code(), Some(4));
        line[1].clone()
    };
    let digest = of([("data", b"one"), ("deep/more", b"two")]);
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    assert_eq!(digest, of([("data", b"one"), ("deep/more", b"two")]), "the same is the same");
    assert_ne!(digest, of([("data", b"one"), ("deep/more", b"twO")]), "other content");
    assert_ne!(digest, of([("data", b"one"), ("deep/name", b"two")]), "another name");
}

/// What `arrived` told of receipts, which without a program nobody else tells.
fn receipts_told(text: &str) -> Vec<PathBuf> {
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let arrived = events.filter(|event| event["event"] == "arrived");
    arrived.map(|event| event["receipt"].as_str().expect("a receipt").into()).collect()
}

#[test]
fn receipts_are_where_they_were_asked_for_one_for_each_version_and_told() {
    let bench = Bench::new();
    let directory = bench.scratch.path("receipts/run7");
    let to = directory.to_str().unwrap();
    let arrived = bench.destination.join("shot 1");
    let verifies = |receipt: &Path| {
        let words = [OsStr::new("verify"), receipt.as_os_str(), arrived.as_os_str()];
        bench.scratch.run(words).status.code()
    };
    let more = ["--idle-exit", "500ms", "--json", "--receipts", to];
    let mut receipts = Vec::new();
    for content in ["first", "second, corrected"] {
        bench.put("shot 1", content.as_bytes());
        let (code, text) = ends(bench.local(&more));
        assert_eq!(code, Some(0), "{text}");
        let told = receipts_told(&text);
        let [receipt] = &told[..] else { panic!("one arrival: {text}") };
        assert_eq!(receipt.parent(), Some(&*directory), "{text}");
        let name = receipt.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("shot 1.") && name.ends_with(".receipt"), "{name}");
        assert_eq!(verifies(receipt), Some(0), "{content}");
        receipts.push(receipt.clone());
    }
    // That of the earlier version stays what it was.
    assert_ne!(receipts[0], receipts[1]);
    assert_eq!(verifies(&receipts[0]), Some(4));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
    // What is written there would be an item.
    let within = bench.source.join("receipts");
    let (code, text) = ends(bench.local(&["--idle-exit", "500ms", "--receipts", within.to_str().unwrap()]));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the directory of receipts is in the watched directory"), "{text}");
    assert!(!within.exists());
    // Where no file can be made none could be, for any item.
    let file = bench.scratch.path("file");
    std::fs::write(&file, "").unwrap();
    let (code, text) = ends(bench.local(&["--idle-exit", "500ms", "--receipts", file.to_str().unwrap()]));
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("write receipts failed"), "{text}");
}

#[test]
fn the_program_is_told_where_the_receipt_is_though_later_ones_go_elsewhere() {
    let bench = Bench::new();
    let body = r#"test -e "$LOG.permit"
        test -s "$THALWEG_ITEM_RECEIPT"
        printf '%s\n' "$THALWEG_ITEM_RECEIPT" >> "$LOG""#;
    let script = analysis(&bench.scratch, body);
    bench.put("shot", b"shot");
    let watch = |receipts: &str| {
        let to = bench.scratch.path(receipts);
        let more = ["--idle-exit", "500ms", "--attempts", "1", "--json", "--receipts", to.to_str().unwrap()];
        ends(bench.local(&[&more[..], &["--on-arrival", script.to_str().unwrap()]].concat()))
    };
    let (code, text) = watch("one");
    assert_eq!(code, Some(2), "it was not permitted yet: {text}");
    let told = receipts_told(&text);
    std::fs::write(bench.scratch.path("log.permit"), "").unwrap();
    let (code, text) = watch("two");
    assert_eq!(code, Some(0), "{text}");
    assert!(receipts_told(&text).is_empty(), "it had arrived: {text}");
    assert_eq!(bench.log(), told.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(), "{text}");
    assert!(told.len() == 1 && told[0].starts_with(bench.scratch.path("one")), "{told:?}");
}

/// Of a push it reads the source; of a copy within this machine what arrived.
#[test]
fn what_the_program_is_told_is_true_of_a_file_that_was_corrected_while_it_waited_for_its_turn() {
    for is_pushed in [true, false] {
        let bench = Bench::new();
        let waits =
            "if test \"$THALWEG_ITEM_NAME\" = a; then until test -e \"$LOG.permit\"; do sleep 0.05; done; fi";
        let verifies = "\"$PROGRAM\" verify \"$THALWEG_ITEM_RECEIPT\" \"$THALWEG_ITEM_PATH\"";
        let tells = "printf '%s %s %s %s\\n' \"$THALWEG_ITEM_NAME\" \"$THALWEG_ITEM_DIGEST\" \"$THALWEG_ITEM_BYTES\" \
            \"$(cat \"$THALWEG_ITEM_PATH\")\" >> \"$LOG\"";
        let script = analysis(&bench.scratch, &format!("{waits}\n{verifies}\n{tells}"));
        for name in ["a", "b"] {
            bench.put(name, b"first");
        }
        std::fs::create_dir(&bench.destination).unwrap();
        let daemon = is_pushed.then(|| bench.scratch.daemon(&[("data", &bench.destination)]));
        let destination = match &daemon {
            Some(daemon) => daemon.place("data", ""),
            None => bench.destination.to_str().unwrap().to_owned(),
        };
        let more = ["--idle-exit", "500ms", "--in-order", "name", "--on-arrival", script.to_str().unwrap()];
        let mut command = bench.watch(bench.source.to_str().unwrap(), &destination, &more);
        command.env("PROGRAM", env!("CARGO_BIN_EXE_thalweg"));
        if let Some(daemon) = &daemon {
            command.env("THALWEG_TICKET", &daemon.ticket);
        }
        let watch = start(command);
        assert!(wait_until(LIMIT, || bench.destination.join("b").exists()), "pushed: {is_pushed}");
        bench.put("b", b"second,-corrected");
        std::fs::write(bench.scratch.path("log.permit"), "").unwrap();
        let ended = support::finish(watch);
        assert_eq!(ended.status.code(), Some(0), "pushed: {is_pushed}");
        let line = |name: &str, content: &str| {
            format!("{name} {} {} {content}", blake3::hash(content.as_bytes()), content.len())
        };
        assert_eq!(bench.log(), [line("a", "first"), line("b", "second,-corrected")], "pushed: {is_pushed}");
        assert_eq!(std::fs::read(bench.destination.join("b")).unwrap(), b"second,-corrected");
    }
}

/// The directory is corrected between two lives of the watch; its results go where those of the first went.
#[test]
fn a_directory_is_analysed_without_what_its_source_has_no_more_and_so_are_its_results() {
    let bench = Bench::new();
    let body = r#"cp "$THALWEG_ITEM_PATH"/*.tif "$THALWEG_ITEM_RESULTS"
        (cd "$THALWEG_ITEM_PATH" && echo *.tif) >> "$LOG""#;
    let script = analysis(&bench.scratch, body);
    let results = bench.scratch.path("results");
    let names = |directory: &Path| -> Vec<String> {
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let watch = || {
        let mut command = bench.scratch.thalweg();
        command.arg("watch").args([&bench.source, &bench.destination]).args(["--item", "directory"]);
        command.args(["--marker", "READY", "--look-every", "100ms", "--idle-exit", "500ms", "--delete"]);
        command.arg("--results-back").arg(&results).arg("--on-arrival").arg(&script);
        command.env("LOG", bench.scratch.path("log"));
        let (code, text) = ends(command);
        assert_eq!(code, Some(0), "{text}");
    };
    for name in ["a.tif", "b.tif", "READY"] {
        bench.put(&format!("run1/{name}"), name.as_bytes());
    }
    watch();
    std::fs::write(bench.destination.join("run1/note"), "somebody's").unwrap();
    std::fs::remove_file(bench.source.join("run1/b.tif")).unwrap();
    bench.put("run1/READY", b"corrected");
    watch();
    assert_eq!(bench.log(), ["a.tif b.tif", "a.tif"]);
    assert_eq!(names(&bench.destination.join("run1")), ["READY", "a.tif", "note"]);
    assert_eq!(names(&results.join("run1")), ["a.tif"]);
    // Another scan, which has the name of the one that is done and gone.
    std::fs::remove_dir_all(bench.source.join("run1")).unwrap();
    watch();
    for name in ["c.tif", "READY"] {
        bench.put(&format!("run1/{name}"), name.as_bytes());
    }
    watch();
    assert_eq!(bench.log(), ["a.tif b.tif", "a.tif", "c.tif"]);
    assert_eq!(names(&bench.destination.join("run1")), ["READY", "c.tif", "note"]);
    assert_eq!(names(&results.join("run1")), ["c.tif"]);
}

/// The disk of an instrument that is purged file by file looks like a correction.
#[test]
fn unless_it_is_asked_for_nothing_goes_and_the_program_is_told_how_much_is_no_part_of_its_item() {
    let bench = Bench::new();
    let body = r#"echo result > "$THALWEG_ITEM_RESULTS/$(cat "$THALWEG_ITEM_PATH/READY")"
        echo "$THALWEG_ITEM_STALE" >> "$LOG""#;
    let script = analysis(&bench.scratch, body);
    let results = bench.scratch.path("results");
    let watch = |more: &[&str]| {
        let all =
            ["--item", "directory", "--idle-exit", "500ms", "--results-back", results.to_str().unwrap()];
        let program = ["--on-arrival", script.to_str().unwrap()];
        let (code, text) = ends(bench.local(&[&all[..], more, &program].concat()));
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let stand = |names: &[&str]| names.iter().all(|name| bench.destination.join("run1").join(name).exists());
    for (name, content) in [("a.tif", "a"), ("b.tif", "b"), ("READY", "first")] {
        bench.put(&format!("run1/{name}"), content.as_bytes());
    }
    let text = watch(&[]);
    assert!(!text.contains("--delete"), "{text}");
    std::fs::remove_file(bench.source.join("run1/b.tif")).unwrap();
    bench.put("run1/READY", b"second");
    let text = watch(&[]);
    let told =
        "run1: 1 entry at the destination came with earlier copies, and the source has no more: `b.tif`";
    assert!(text.contains(told) && text.contains("--delete"), "{text}");
    assert!(stand(&["a.tif", "b.tif", "READY"]) && results.join("run1/first").exists(), "{text}");
    bench.put("run1/READY", b"third");
    let text = watch(&["--delete"]);
    assert!(!text.contains("came with earlier copies"), "{text}");
    assert!(stand(&["a.tif", "READY"]) && !stand(&["b.tif"]), "{text}");
    assert_eq!(bench.log(), ["0", "1", "0"]);
    // Those of runs before are no results of this one.
    let back: Vec<_> = std::fs::read_dir(results.join("run1")).unwrap().map(Result::unwrap).collect();
    assert!(back.len() == 1 && results.join("run1/third").exists(), "{back:?}");
    // Of a file there is nothing that could go.
    let (code, text) = ends(bench.local(&["--idle-exit", "500ms", "--delete"]));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--delete: of items that are files"), "{text}");
}
