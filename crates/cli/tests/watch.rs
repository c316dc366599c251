//! `thalweg watch`: each item arrives and is analysed once, in order if asked, whoever is killed.

mod support;

// Others need more of it.
#[allow(dead_code)]
#[path = "support/sshd.rs"]
mod sshd;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::chance::{Random, in_time, strikes, strikes_asked};
use support::count::Count;
use support::job::{self, Running};
use support::plan::Plan;
use support::proxy::Proxy;
use support::volume::{self, Volume};
use support::{Scratch, wait_until};

/// Longest that anything here may take that a program or a disk has to do.
const LIMIT: Duration = Duration::from_secs(300);

/// A script that is the analysis: it writes one line for each run that it completes.
fn analysis(scratch: &Scratch, body: &str) -> PathBuf {
    let path = scratch.path("analysis.sh");
    std::fs::write(&path, format!("#!/bin/sh\nset -e\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// One line in the log: a single write of a short line to a file opened for appending.
const LOG: &str = r#"printf '%s %s\n' "$THALWEG_ITEM_NAME" "$THALWEG_ITEM_KEY" >> "$LOG""#;

struct Bench {
    scratch: Scratch,
    source: PathBuf,
    destination: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let scratch = Scratch::new();
        let (source, destination) = (scratch.path("in"), scratch.path("out"));
        std::fs::create_dir(&source).unwrap();
        Bench { scratch, source, destination }
    }

    fn watch(&self, source: &str, destination: &str, more: &[&str]) -> Command {
        let mut command = self.scratch.thalweg();
        command.args(["watch", source, destination, "--stable", "100ms", "--look-every", "100ms"]).args(more);
        command.env("LOG", self.scratch.path("log"));
        command
    }

    /// Each file is complete when it has its marker.
    fn by_markers(&self, more: &[&str]) -> Command {
        let mut command = self.scratch.thalweg();
        command.arg("watch").args([&self.source, &self.destination]);
        command.args(["--marker", ".done", "--look-every", "100ms"]).args(more);
        command.env("LOG", self.scratch.path("log"));
        command
    }

    fn local(&self, more: &[&str]) -> Command {
        self.watch(self.source.to_str().unwrap(), self.destination.to_str().unwrap(), more)
    }

    /// What was analysed, in order.
    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.scratch.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn put(&self, name: &str, content: &[u8]) {
        let path = self.source.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let hidden = path.with_file_name(".being-written");
        std::fs::write(&hidden, content).unwrap();
        std::fs::rename(hidden, path).unwrap();
    }
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn terminate(child: &Child) {
    use nix::sys::signal::{Signal, kill};
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
}

fn ends(mut command: Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = support::finish(output.unwrap());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn arrived_whole(source: &Path, destination: &Path, names: &[String]) {
    for name in names {
        let (left, right) = (source.join(name), destination.join(name));
        assert_eq!(std::fs::read(left).unwrap(), std::fs::read(right).unwrap(), "{name}");
    }
}

/// Four are copied at the same time: each for itself would take a quarter of that.
#[test]
fn items_that_are_copied_at_the_same_time_keep_the_rate_together_which_is_changed_while_they_run() {
    let rate = (["--bwlimit", "2M", "--idle-exit", "500ms"], 2 << 20);
    for is_push in [true, false] {
        let bench = Bench::new();
        for number in 0..4 {
            bench.put(&format!("item-{number}"), &support::noise(number, 2 << 20));
        }
        std::fs::create_dir_all(&bench.destination).unwrap();
        let daemon =
            bench.scratch.daemon(&[("in", bench.source.as_path()), ("out", bench.destination.as_path())]);
        let (from, to) = match is_push {
            true => (bench.source.to_str().unwrap().to_owned(), daemon.place("out", "")),
            false => (daemon.place("in", ""), bench.destination.to_str().unwrap().to_owned()),
        };
        let ticket = daemon.ticket.to_str().unwrap();
        let more = [&rate.0[..], &["--ticket", ticket]].concat();
        let began = Instant::now();
        let (code, said) = ends(bench.watch(&from, &to, &more));
        assert_eq!(code, Some(0), "{said}");
        let least = (8 << 20) as f64 / f64::from(rate.1) * 0.7;
        assert!(began.elapsed().as_secs_f64() > least, "{:?}: {said}", began.elapsed());
        let names: Vec<String> = (0..4).map(|number| format!("item-{number}")).collect();
        arrived_whole(&bench.source, &bench.destination, &names);
    }
    // At this rate it would take four minutes.
    let bench = Bench::new();
    bench.put("item", &support::noise(9, 4 << 20));
    let state = bench.scratch.path("state");
    let more = ["--bwlimit", "16K", "--idle-exit", "500ms", "--state", state.to_str().unwrap()];
    let child = start(bench.local(&more));
    let limit = || bench.scratch.run(["limit", "--state", state.to_str().unwrap(), "none"]);
    assert!(wait_until(LIMIT, || limit().status.success()));
    let began = Instant::now();
    assert!(support::finish(child).status.success());
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
    arrived_whole(&bench.source, &bench.destination, &["item".to_owned()]);
}

#[test]
fn an_item_arrives_is_analysed_and_its_results_go_back_whatever_its_name() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!(
            "cmp \"$THALWEG_ITEM_PATH\" \"$THALWEG_ITEM_SOURCE\"\n\
                  test -s \"$THALWEG_ITEM_RECEIPT\"\n\
                  wc -c < \"$THALWEG_ITEM_PATH\" > \"$THALWEG_ITEM_RESULTS/bytes\"\n\
                  printf '%s' \"$1$2\" > \"$THALWEG_ITEM_RESULTS/arguments\"\n{LOG}"
        ),
    );
    let names = [
        "-rf",
        "a b",
        "$(touch pwned)",
        "`touch pwned`;x",
        "sub/deep/'\"",
        "@site",
        "h:o",
        "tw:x",
        "é",
        "*?",
    ];
    for name in names {
        bench.put(name, name.as_bytes());
    }
    let results = bench.scratch.path("results");
    let more = [
        "--idle-exit",
        "500ms",
        "--on-arrival",
        script.to_str().unwrap(),
        "--results-back",
        results.to_str().unwrap(),
        "--",
        "$HOME",
        "; touch pwned",
    ];
    let mut command = bench.local(&more);
    command.current_dir(bench.scratch.path(""));
    let (code, text) = ends(command);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(bench.log().len(), names.len(), "{text}");
    for name in names {
        assert_eq!(std::fs::read(bench.destination.join(name)).unwrap(), name.as_bytes());
        let bytes = std::fs::read_to_string(results.join(name).join("bytes")).unwrap();
        assert_eq!(bytes.trim(), name.len().to_string());
        let arguments = std::fs::read_to_string(results.join(name).join("arguments")).unwrap();
        assert_eq!(arguments, "$HOME; touch pwned");
    }
    assert!(!bench.scratch.path("pwned").exists());
    // Again: nothing is left to do.
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), names.len()), "{text}");
    // Other content under a name that is known is another arrival.
    bench.put("a b", b"more");
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), names.len() + 1), "{text}");
}

/// What the program is told of an item, after it held the receipt against what arrived: of a directory it names what it is in.
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

#[test]
fn in_order_the_next_waits_until_the_one_before_has_succeeded() {
    let bench = Bench::new();
    // The second fails twice.
    let script = analysis(
        &bench.scratch,
        &format!("case $THALWEG_ITEM_NAME in snap9) test \"$THALWEG_ITEM_ATTEMPT\" -gt 2;; esac\n{LOG}"),
    );
    let names = ["snap8", "snap9", "snap10", "snap11"];
    for name in names {
        bench.put(name, name.as_bytes());
    }
    let more = ["--idle-exit", "500ms", "--in-order", "name", "--on-arrival", script.to_str().unwrap()];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(0), "{text}");
    let order: Vec<String> =
        bench.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(order, names);
    assert!(text.contains("snap9: the command ended with exit code 1"), "{text}");
}

#[test]
fn an_item_that_always_fails_is_given_up_told_and_tried_again_by_the_next_start() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, &format!("test -e \"$LOG.permit\"\n{LOG}"));
    bench.put("a", b"a");
    bench.put("b", b"b");
    let more = [
        "--idle-exit",
        "300ms",
        "--in-order",
        "name",
        "--attempts",
        "1",
        "--on-arrival",
        script.to_str().unwrap(),
    ];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a: given up"), "{text}");
    assert_eq!(bench.log().len(), 0);
    std::fs::write(bench.scratch.path("log.permit"), "").unwrap();
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), 2), "{text}");
}

#[test]
fn a_file_that_is_corrected_replaces_the_one_for_which_the_command_fails() {
    let bench = Bench::new();
    // What it saw each time, then whether that is good.
    let body = r#"cat "$THALWEG_ITEM_PATH" >> "$LOG.saw"
        if grep -q bad "$THALWEG_ITEM_PATH"; then exit 1; fi"#;
    let body = format!("{body}\n{LOG}");
    let script = analysis(&bench.scratch, &body);
    let saw = || std::fs::read_to_string(bench.scratch.path("log.saw")).unwrap_or_default();
    bench.put("a", b"bad\n");
    bench.put("b", b"b\n");
    let more = ["--idle-exit", "300ms", "--in-order", "name", "--attempts", "20", "--on-arrival"];
    let watch = start(bench.local(&[&more[..], &[script.to_str().unwrap()]].concat()));
    assert!(wait_until(LIMIT, || saw().lines().count() == 2), "{}", saw());
    bench.put("a", b"good\n");
    let ended = support::finish(watch);
    assert_eq!(ended.status.code(), Some(0));
    // One run may have begun before the correction was seen.
    let lines = saw();
    let bad = lines.lines().filter(|line| *line == "bad").count();
    assert!((2..=3).contains(&bad) && lines.ends_with("bad\ngood\nb\n"), "{lines}");
    assert_eq!(bench.log().len(), 2);
}

#[test]
fn a_directory_arrives_when_its_marker_is_there_and_a_pull_analyses_where_data_arrive() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!(
            "test -f \"$THALWEG_ITEM_PATH/data\"\ncp \"$THALWEG_ITEM_PATH/data\" \"$THALWEG_ITEM_RESULTS/seen\"\n{LOG}"
        ),
    );
    bench.put("run1/data", b"one");
    let export = bench.scratch.path("in");
    let back = bench.scratch.path("back");
    std::fs::create_dir(&back).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &export), ("back", &back)]);
    let ticket = daemon.ticket.to_str().unwrap().to_owned();
    let (source, results) = (daemon.place("data", ""), daemon.place("back", ""));
    let more = [
        "--item",
        "directory",
        "--marker",
        "READY",
        "--ticket",
        &ticket,
        "--on-arrival",
        script.to_str().unwrap(),
        "--results-back",
        &results,
    ];
    let mut command = bench.scratch.thalweg();
    command.args(["watch", &source]).arg(&bench.destination).args(["--look-every", "100ms"]).args(more);
    command.env("LOG", bench.scratch.path("log"));
    let mut watch = start(command);
    bench.put("run2/data", b"two");
    bench.put("run2/READY", b"");
    let is_back = |name: &str| back.join(name).join("seen").exists();
    assert!(wait_until(LIMIT, || is_back("run2")));
    assert!(!bench.destination.join("run1").exists(), "it is not complete");
    bench.put("run1/READY", b"");
    assert!(wait_until(LIMIT, || is_back("run1")));
    assert_eq!(std::fs::read(back.join("run1/seen")).unwrap(), b"one");
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    assert_eq!(bench.log().len(), 2);
}

#[test]
fn a_marker_that_stands_from_before_does_not_make_half_a_file_an_arrival() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, "cat \"$THALWEG_ITEM_PATH\" >> \"$LOG\"\necho >> \"$LOG\"");
    let watch = start(bench.by_markers(&["--on-arrival", script.to_str().unwrap()]));
    bench.put("a", b"first");
    bench.put("a.done", b"");
    assert!(wait_until(LIMIT, || bench.log() == ["first"]));
    // As an instrument does that pauses, once the clock of the file system has gone on.
    let changed = |name: &str| {
        let of = std::fs::metadata(bench.source.join(name)).unwrap();
        (of.ctime(), of.ctime_nsec())
    };
    let rewrite = |content: &[u8]| {
        std::fs::write(bench.source.join("a"), content).unwrap();
        changed("a") > changed("a.done")
    };
    assert!(wait_until(LIMIT, || rewrite(b"half")));
    bench.put("b", b"other");
    bench.put("b.done", b"");
    assert!(wait_until(LIMIT, || bench.log() == ["first", "other"]), "{:?}", bench.log());
    assert!(rewrite(b"second"));
    bench.put("a.done", b"");
    assert!(wait_until(LIMIT, || bench.log().len() > 2));
    assert_eq!(bench.log(), ["first", "other", "second"]);
    terminate(&watch);
    assert_eq!(support::finish(watch).status.code(), Some(143));
}

#[test]
fn an_item_without_its_marker_keeps_no_watch_from_its_end_and_in_order_is_told() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    bench.put("a", b"a");
    bench.put("b", b"b");
    bench.put("b.done", b"");
    let more = ["--idle-exit", "500ms", "--on-arrival", script.to_str().unwrap(), "--in-order", "name"];
    let (code, text) = ends(bench.by_markers(&more));
    assert_eq!((code, bench.log().len()), (Some(2), 0), "{text}");
    assert!(text.contains("a: given up"), "{text}");
    let (code, text) = ends(bench.by_markers(&more[..4]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
    assert!(!bench.destination.join("a").exists(), "it is not complete");
}

/// What a watch told with `--json`: when an item was done, and which.
fn items_done(said: &[(Instant, String)]) -> Vec<(Instant, String)> {
    let done = |(at, line): &(Instant, String)| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["event"] == "item-done").then_some((*at, event["path"].as_str()?.to_owned()))
    };
    said.iter().filter_map(done).collect()
}

/// Into the count: after a strike a watch goes on with an item that was not done before, or begins anew with one that was.
fn went_on(count: &mut Count, said: &[(Instant, String)]) {
    let mut known = BTreeSet::new();
    for (at, name) in items_done(said) {
        let had = known.len() as u64;
        count.stood(at, if known.insert(name) { had } else { 0 });
    }
}

/// What the log says of how often each name was analysed, and whether each arrived as it is.
fn count_items(bench: &Bench, count: &mut Count, names: &[String]) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in bench.log() {
        let name = line.split(' ').next().unwrap_or_default();
        *times.entry(name.to_owned()).or_default() += 1;
    }
    let is_whole = |name: &str| {
        let [given, came] =
            [&bench.source, &bench.destination].map(|directory| std::fs::read(directory.join(name)).ok());
        given.is_some() && given == came
    };
    count.items(names, &times, is_whole);
}

/// A watch is killed again and again while items arrive; what the log says in the end, in its order.
fn through_kills(row: &str, kind: &'static str, kills: u64, how: &[&str]) -> (Vec<String>, Vec<String>) {
    let bench = Bench::new();
    let mut chance = Random::new(row);
    let script = analysis(&bench.scratch, &format!("sleep 0.0$(($$ % 5))\n{LOG}"));
    let more = [&["--json", "--on-arrival", script.to_str().unwrap()], how].concat();
    let mut plan = Plan::new(&mut chance, 1, kills);
    let mut count = Count::of(kind, "items");
    let (mut names, mut said) = (Vec::new(), Vec::new());
    let mut watch = loop {
        let mut watch = Running::start(bench.local(&more));
        // There is more to do than one at a time.
        for _ in 0..1 + chance.below(3) {
            let name = format!("shot{}", names.len());
            bench.put(&name, &vec![7; chance.below(200_000) as usize]);
            names.push(name);
        }
        if plan.next(300, || !items_done(&watch.said()).is_empty()).is_none() {
            break watch;
        }
        let had = items_done(&said).len() + items_done(&watch.said()).len();
        let is_under_way = !watch.is_over();
        count.strike("the watch", is_under_way, had as u64);
        if !is_under_way {
            plan.missed();
        }
        said.extend(watch.kill().said);
    };
    assert!(!watch.is_over(), "nobody ended the last one");
    job::signal(watch.pid(), nix::sys::signal::Signal::SIGTERM);
    said.extend(watch.end(LIMIT).said);
    for _ in 0..10 {
        let name = format!("shot{}", names.len());
        bench.put(&name, name.as_bytes());
        names.push(name);
    }
    let last = bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat());
    let ran = Running::start(last).end(LIMIT);
    said.extend(ran.said.iter().cloned());
    went_on(&mut count, &said);
    count_items(&bench, &mut count, &names);
    count.over();
    ran.expect(0);
    let log = bench.log().iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    (names, log)
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_nothing_analysed_twice() {
    through_kills("watch-kills", "a watch", strikes(25), &["--jobs", "3"]);
}

#[test]
fn killed_at_any_moment_items_in_order_are_analysed_one_after_the_other_and_once() {
    let (names, log) = through_kills("watch-order", "a watch in order", strikes(10), &["--in-order", "name"]);
    assert_eq!(log, names);
}

#[test]
fn a_command_outlives_its_watch_and_its_end_is_found() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!("touch \"$LOG.began\"\nwhile ! test -e \"$LOG.go\"; do sleep 0.05; done\n{LOG}"),
    );
    bench.put("a", b"a");
    let more = ["--on-arrival", script.to_str().unwrap()];
    let mut watch = start(bench.local(&more));
    assert!(wait_until(LIMIT, || bench.scratch.path("log.began").exists()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    // Another watch waits for it, and begins no second one.
    std::fs::remove_file(bench.scratch.path("log.began")).unwrap();
    let mut watch = start(bench.local(&[&more[..], &["--idle-exit", "300ms"]].concat()));
    std::thread::sleep(Duration::from_millis(500));
    assert!(watch.try_wait().unwrap().is_none(), "it waits");
    std::fs::write(bench.scratch.path("log.go"), "").unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    assert_eq!(bench.log().len(), 1);
    assert!(!bench.scratch.path("log.began").exists());
}

#[test]
fn what_a_command_left_behind_holds_up_nothing() {
    let bench = Bench::new();
    let left = bench.scratch.path("left");
    let script = analysis(
        &bench.scratch,
        &format!("{LOG}\nexec 3<&0\nsleep 600 <&3 &\necho $! >> '{}'\nexit 0", left.display()),
    );
    bench.put("a", b"a");
    bench.put("b", b"b");
    let begun = Instant::now();
    let more = ["--idle-exit", "300ms", "--in-order", "name", "--on-arrival", script.to_str().unwrap()];
    let ended = start(bench.local(&more));
    let ended = support::finish(ended);
    let took = begun.elapsed();
    let pids: Vec<i32> =
        std::fs::read_to_string(&left).unwrap().lines().map(|pid| pid.parse().unwrap()).collect();
    for pid in &pids {
        let pid = nix::unistd::Pid::from_raw(*pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    assert_eq!((ended.status.code(), bench.log().len(), pids.len()), (Some(0), 2, 2));
    assert!(in_time("two runs that leave something behind", took, Duration::from_secs(5)));
}

#[test]
fn a_command_that_succeeds_while_the_disk_of_the_state_is_full_is_not_run_again() {
    if !volume::can_mount("watch full state") {
        return;
    }
    let bench = Bench::new();
    let volume = Volume::in_memory(bench.scratch.root(), "state", "size=4m");
    let body = format!("touch \"$LOG.began\"\nwhile ! test -e \"$LOG.go\"; do sleep 0.05; done\n{LOG}");
    let script = analysis(&bench.scratch, &body);
    bench.put("a", b"a");
    let local = |more: &[&str]| {
        let mut command = bench.local(&[&["--on-arrival", script.to_str().unwrap()], more].concat());
        command.env("THALWEG_STATE", &volume.path);
        command
    };
    let mut watch = start(local(&[]));
    assert!(wait_until(LIMIT, || bench.scratch.path("log.began").exists()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let ballast = volume.path.join("ballast");
    assert!(std::fs::write(&ballast, vec![1; 8 << 20]).is_err(), "it is full");
    std::fs::write(bench.scratch.path("log.go"), "").unwrap();
    assert!(wait_until(LIMIT, || keepers(&volume.path).is_empty()), "the command has ended");
    std::fs::remove_file(&ballast).unwrap();
    let (code, text) = ends(local(&["--idle-exit", "300ms"]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
}

#[test]
fn a_command_that_succeeded_is_not_run_again_though_its_lock_cannot_be_opened() {
    let bench = Bench::new();
    let body = r#"for lock in "$(dirname "$THALWEG_ITEM_RECEIPT")"/../runs/*.lock; do
            rm "$lock"; mkdir "$lock"
        done"#;
    let script = analysis(&bench.scratch, &format!("{LOG}\n{body}"));
    bench.put("a", b"a");
    let (code, text) = ends(bench.local(&["--idle-exit", "300ms", "--on-arrival", script.to_str().unwrap()]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
}

#[test]
fn results_that_cannot_be_read_are_told_and_sent_back_once_they_can() {
    let bench = Bench::new();
    let results = bench.scratch.path("results");
    let body = r#"rmdir "$THALWEG_ITEM_RESULTS"
        echo no directory > "$THALWEG_ITEM_RESULTS"
        printf '%s' "$THALWEG_ITEM_RESULTS" > "$LOG.where""#;
    let script = analysis(&bench.scratch, &format!("{body}\n{LOG}"));
    bench.put("a", b"a");
    let more =
        ["--json", "--results-back", results.to_str().unwrap(), "--on-arrival", script.to_str().unwrap()];
    let watch = Running::start(bench.local(&more));
    let said = || watch.said().iter().map(|(_, line)| format!("{line}\n")).collect::<String>();
    assert!(wait_until(LIMIT, || said().contains("read the results")), "{}", said());
    assert!(!said().contains("item-done"), "{}", said());
    let kept = PathBuf::from(std::fs::read_to_string(bench.scratch.path("log.where")).unwrap());
    std::fs::remove_file(&kept).unwrap();
    let ready = bench.scratch.path("ready");
    std::fs::create_dir(&ready).unwrap();
    std::fs::write(ready.join("seen"), b"seen").unwrap();
    std::fs::rename(&ready, &kept).unwrap();
    assert!(wait_until(LIMIT, || said().contains("item-done")), "{}", said());
    assert_eq!(std::fs::read(results.join("a/seen")).unwrap(), b"seen");
    assert_eq!(bench.log().len(), 1);
    watch.kill();
}

#[test]
fn a_destination_that_is_not_there_is_told_and_no_success() {
    let bench = Bench::new();
    let out = bench.scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &out)]);
    bench.put("a", b"a");
    let place = daemon.place("misspelt", "");
    let source = bench.source.to_str().unwrap();
    let ticket = daemon.ticket.to_str().unwrap();
    let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "2"];
    let (code, text) = ends(bench.watch(source, &place, &more));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no export `misspelt`") && text.contains("a: given up"), "{text}");
    // What goes before it arrived is no success either.
    let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "20", "--json"];
    let watch = Running::start(bench.watch(source, &place, &more));
    // By the second time a look has seen that it is not the item that is not there.
    let failures = || watch.said().iter().filter(|(_, line)| line.contains("misspelt")).count();
    assert!(wait_until(LIMIT, || failures() >= 4), "each is told to people and to programs");
    std::fs::remove_file(bench.source.join("a")).unwrap();
    let ran = watch.end(LIMIT).expect(2);
    assert!(ran.stdout.contains(r#""lost":["a"]"#), "{}", ran.stdout);
}

#[test]
fn results_that_have_no_place_are_told_and_no_success_and_the_watch_ends() {
    let bench = Bench::new();
    let back = bench.scratch.path("back");
    std::fs::create_dir(&back).unwrap();
    let daemon = bench.scratch.daemon(&[("back", &back)]);
    let script = analysis(&bench.scratch, &format!("echo result > \"$THALWEG_ITEM_RESULTS/seen\"\n{LOG}"));
    bench.put("a", b"a");
    let (misspelt, place) = (daemon.place("misspelt", ""), daemon.place("back", ""));
    let ends_with = |place: &str| {
        let ticket = daemon.ticket.to_str().unwrap();
        let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "2", "--results-back", place];
        ends(bench.local(&[&more[..], &["--on-arrival", script.to_str().unwrap()]].concat()))
    };
    let (code, text) = ends_with(&misspelt);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no export `misspelt`") && text.contains("a: given up"), "{text}");
    // The next start sends them back, and runs nothing again.
    let (code, text) = ends_with(&place);
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
    assert_eq!(std::fs::read(back.join("a/seen")).unwrap(), b"result\n");
}

#[test]
fn while_a_far_directory_does_not_answer_the_watch_can_end_and_afterwards_sees_at_once() {
    let bench = Bench::new();
    let daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    let proxy = Proxy::new(&daemon.address());
    let ticket = daemon.ticket.to_str().unwrap();
    let destination = bench.destination.to_str().unwrap();
    let more = ["--ticket", ticket, "--json"];
    let watch = Running::start(bench.watch(&proxy.place("data", ""), destination, &more));
    let is_done = |name: &str| items_done(&watch.said()).iter().any(|(_, done)| done == name);
    bench.put("a", b"a");
    assert!(wait_until(LIMIT, || is_done("a")));
    proxy.stall(true);
    bench.put("b", b"b");
    std::thread::sleep(Duration::from_secs(15));
    proxy.stall(false);
    assert!(wait_until(LIMIT, || is_done("b")));
    // The look that saw that one took all the time of the outage.
    let begun = Instant::now();
    bench.put("c", b"c");
    assert!(wait_until(LIMIT, || is_done("c")));
    assert!(in_time("an item after an outage", begun.elapsed(), Duration::from_secs(5)));
    proxy.stall(true);
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(watch.pid() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let ran = watch.end(LIMIT);
    assert!(in_time("the end during an outage", begun.elapsed(), Duration::from_secs(2)));
    ran.expect(143);
}

#[test]
fn by_time_the_one_that_changed_first_is_first_whatever_its_name() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    let names = ["c", "a", "d", "b"];
    for (name, hours) in names.iter().zip([40, 30, 20, 10]) {
        bench.put(name, name.as_bytes());
        let file = std::fs::File::options().write(true).open(bench.source.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
    }
    let more = ["--idle-exit", "500ms", "--in-order", "time", "--on-arrival", script.to_str().unwrap()];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(0), "{text}");
    let order: Vec<String> =
        bench.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(order, names);
}

#[test]
fn a_destination_that_is_full_delays_an_item_until_there_is_room() {
    if !volume::can_mount("watch") {
        return;
    }
    let bench = Bench::new();
    let volume = Volume::in_memory(bench.scratch.root(), "small", "size=4m");
    let ballast = volume.path.join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    bench.put("large", &vec![2; 2 << 20]);
    let destination = volume.path.join("out");
    let script = analysis(&bench.scratch, LOG);
    let (source, log) = (bench.source.to_str().unwrap(), bench.scratch.path("watch.log"));
    let mut command =
        bench.watch(source, destination.to_str().unwrap(), &["--on-arrival", script.to_str().unwrap()]);
    let told = std::fs::File::create(&log).unwrap();
    let mut watch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(told).spawn().unwrap();
    let says = |text: &str| std::fs::read_to_string(&log).unwrap_or_default().contains(text);
    assert!(wait_until(LIMIT, || says("No space left")));
    assert_eq!(bench.log().len(), 0);
    std::fs::remove_file(&ballast).unwrap();
    assert!(wait_until(LIMIT, || bench.log().len() == 1));
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    assert_eq!(std::fs::read(destination.join("large")).unwrap(), vec![2; 2 << 20]);
}

/// Guards and keepers of commands whose records are below this directory: process and record.
fn keepers(below: &Path) -> Vec<(i32, String)> {
    let below = format!("{}/", below.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        if words.nth(1).as_deref() == Some("keep-run")
            && let Some(record) = words.find(|word| word.starts_with(&below) && word.contains("/runs/"))
        {
            found.push((pid, record));
        }
    }
    found
}

/// Keepers and guards, watches, daemons, links.
const KINDS: u64 = 4;

/// Longest that keepers are looked for; and longest for each of as many as were asked for.
const KEEPERS_LIMIT: Duration = Duration::from_secs(900);
const KEEPER_LIMIT: Duration = Duration::from_secs(60);

/// Each content once, whatever the log was written by.
#[track_caller]
fn analysed_once(bench: &Bench, names: &[String]) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in bench.log() {
        *times.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "analysed twice: {twice:?}");
    assert_eq!(times.len(), names.len(), "{times:?}");
}

#[test]
fn keepers_guards_watchers_and_links_that_go_at_any_moment_lose_nothing_and_analyse_nothing_twice() {
    use nix::sys::signal::{Signal, kill};
    let bench = Bench::new();
    let mut chance = Random::new("watch-keepers");
    let script = analysis(&bench.scratch, &format!("sleep 0.1\n{LOG}\nsleep 0.1"));
    let mut daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    let address = daemon.address();
    let proxy = Proxy::new(&address);
    let source = proxy.place("data", "");
    let ticket = daemon.ticket.to_str().unwrap().to_owned();
    let more = ["--json", "--ticket", &ticket, "--jobs", "3", "--on-arrival", script.to_str().unwrap()];
    let watch = |more: &[&str]| bench.watch(&source, bench.destination.to_str().unwrap(), more);
    let state = bench.scratch.path("client-state");
    // Of one run only one of both: who kills guard and keeper of the same run has nobody left who knows.
    let mut met: BTreeSet<String> = BTreeSet::new();
    let each = strikes(4);
    let mut plan = Plan::new(&mut chance, KINDS, each);
    let mut count = Count::of("a watch of what is far, and the keepers and guards of its runs", "items");
    let (mut names, mut said) = (Vec::new(), Vec::new());
    let mut running = Running::start(watch(&more));
    // As many keepers as that are met however slow the machine is.
    let is_asked = strikes_asked().is_some();
    let (wanted, begun) = (if is_asked { each } else { each / 2 }, Instant::now());
    let at_most = KEEPERS_LIMIT.max(KEEPER_LIMIT * each.try_into().unwrap_or(u32::MAX));
    let (mut since, mut told) = (Instant::now(), 0);
    while begun.elapsed() < at_most {
        let mut put = || {
            let name = format!("shot{}", names.len());
            bench.put(&name, &vec![7; 1000 + chance.below(100_000) as usize]);
            names.push(name);
        };
        put();
        let next = plan.next(300, || {
            if running.is_over() {
                // One that could not reach the daemon for too long.
                said.extend(std::mem::replace(&mut running, Running::start(watch(&more))).kill().said);
                told = items_done(&said).len();
            }
            !items_done(&running.said_since(since)).is_empty()
        });
        let Some(kind) = next else { break };
        let is_under_way = !running.is_over();
        let mut of_new_runs = Vec::new();
        if kind == 0 {
            put();
            wait_until(KEEPER_LIMIT, || {
                of_new_runs = keepers(&state);
                of_new_runs.retain(|(_, record)| !met.contains(record));
                !of_new_runs.is_empty()
            });
        }
        let had = (told + items_done(&running.said()).len()) as u64;
        let is_met = match kind {
            0 if of_new_runs.is_empty() => false,
            0 => {
                let (pid, record) = &of_new_runs[chance.below(of_new_runs.len() as u64) as usize];
                let is_met = kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL).is_ok();
                if is_met {
                    count.strike("a keeper or guard", true, had);
                    met.insert(record.clone());
                }
                is_met
            }
            1 => {
                count.strike("the watch", is_under_way, had);
                said.extend(running.kill().said);
                told = items_done(&said).len();
                running = Running::start(watch(&more));
                is_under_way
            }
            2 => {
                count.strike("the daemon", is_under_way, had);
                daemon.kill();
                let exports = [("data", bench.source.as_path())];
                daemon = bench.scratch.daemon_at(&address, &exports, &[], |command| command);
                is_under_way
            }
            _ => {
                let is_met = proxy.cut() && is_under_way;
                count.strike("the link", is_met, had);
                is_met
            }
        };
        since = Instant::now();
        if !is_met {
            plan.missed();
        }
    }
    assert!(met.len() as u64 >= wanted, "only {} keepers were met", met.len());
    said.extend(running.kill().said);
    let last = Running::start(watch(&[&more[..], &["--idle-exit", "1s"]].concat()));
    let ran = last.end(LIMIT);
    said.extend(ran.said.iter().cloned());
    went_on(&mut count, &said);
    count_items(&bench, &mut count, &names);
    count.over();
    ran.expect(0);
    assert_eq!(keepers(&state), [], "nobody is left");
}

#[test]
fn a_directory_behind_ssh_is_watched_and_goes_on_after_a_kill() {
    let bench = Bench::new();
    let Some(sshd) = sshd::Sshd::start(&bench.scratch) else { return };
    let script = analysis(&bench.scratch, LOG);
    let source = sshd.url(&bench.source);
    let more = ["-e", &sshd.rsh, "--on-arrival", script.to_str().unwrap()];
    let watch = |more: &[&str]| bench.watch(&source, bench.destination.to_str().unwrap(), more);
    let names: Vec<String> = (0..6).map(|number| format!("run/shot {number}")).collect();
    let mut running = start(watch(&more));
    for name in &names[..3] {
        bench.put(name, name.as_bytes());
    }
    assert!(wait_until(LIMIT, || bench.log().len() == 3), "{:?}", bench.log());
    running.kill().unwrap();
    running.wait().unwrap();
    for name in &names[3..] {
        bench.put(name, name.as_bytes());
    }
    let (code, text) = ends(watch(&[&more[..], &["--idle-exit", "1s"]].concat()));
    assert_eq!(code, Some(0), "{text}");
    analysed_once(&bench, &names);
    arrived_whole(&bench.source, &bench.destination, &names);
}

#[test]
fn the_journal_of_a_watch_does_not_grow_with_what_happens_but_with_what_is_known() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    let more = ["--on-arrival", script.to_str().unwrap(), "--jobs", "4"];
    let mut watch = start(bench.local(&more));
    let journal = || {
        let below =
            std::fs::read_dir(bench.scratch.path("client-state/watch")).into_iter().flatten().flatten();
        below
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("journal")).ok())
            .collect::<String>()
    };
    // Three records for each arrival: more than are kept of four items.
    let mut written = 0;
    for round in 0..100 {
        for name in ["a", "b", "c", "d"] {
            bench.put(name, format!("{name} {round}").as_bytes());
            written += 1;
        }
        let settled = || bench.log().len() >= written;
        assert!(wait_until(LIMIT, settled), "{} of {written}", bench.log().len());
        if journal().lines().count() < written {
            break;
        }
    }
    assert!(
        journal().lines().count() < written,
        "{} lines after {written} arrivals",
        journal().lines().count()
    );
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    // What was rewritten on the way says the same: nothing is done again.
    let before = bench.log().len();
    let (code, text) = ends(bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat()));
    assert_eq!((code, bench.log().len()), (Some(0), before), "{text}");
}

#[test]
fn what_is_done_and_gone_leaves_the_journal_and_is_not_analysed_when_it_comes_again() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    let more = ["--on-arrival", script.to_str().unwrap(), "--jobs", "4"];
    let mut watch = start(bench.local(&more));
    let journal = || {
        let below =
            std::fs::read_dir(bench.scratch.path("client-state/watch")).into_iter().flatten().flatten();
        below
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("journal")).ok())
            .collect::<String>()
    };
    let (mut written, mut is_forgotten) = (0, false);
    for round in 0..200 {
        let names: Vec<String> = (0..8).map(|number| format!("r{round}-{number}")).collect();
        for name in &names {
            bench.put(name, name.as_bytes());
            written += 1;
        }
        let settled = || bench.log().len() >= written;
        assert!(wait_until(Duration::from_secs(60), settled), "{} of {written}", bench.log().len());
        for name in &names {
            std::fs::remove_file(bench.source.join(name)).unwrap();
        }
        is_forgotten = round > 0 && !journal().contains("\"r0-0\"");
        if is_forgotten {
            break;
        }
    }
    assert!(is_forgotten, "{} lines after {written} items that are gone", journal().lines().count());
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    // As it was, and under the same name with something else in it.
    bench.put("r0-0", b"r0-0");
    bench.put("r0-1", b"another");
    let (code, text) = ends(bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat()));
    assert_eq!(code, Some(0), "{text}");
    let log = bench.log();
    let count = |name: &str| log.iter().filter(|line| line.starts_with(&format!("{name} "))).count();
    assert_eq!((count("r0-0"), count("r0-1"), log.len()), (1, 2, written + 1));
}
