//! A congestion control that is asked for by name (`--cca`) of streams, watches and frames, by the real program: the
//! side that sends uses it, and one that is not to be had is told as by a copy.

mod support;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::job::Running;
use support::{Daemon, Scratch, chance, finish, noise, wait_until};

/// Longest that any wait here may take: far more than it does.
const LIMIT: Duration = Duration::from_secs(180);
/// So much takes three seconds at [`RATE`]: streams are asked what they do once a second.
const BYTES: usize = 24 << 20;
const RATE: &str = "8MB";

/// One that every user here may choose and no near path has unasked; where there is none, reno.
fn unusual() -> String {
    let allowed = thalweg_sys::socket::allowed_congestion().unwrap();
    let is_unusual = |name: &&String| !["cubic", "reno"].contains(&name.as_str());
    allowed.iter().find(is_unusual).cloned().unwrap_or_else(|| "reno".to_owned())
}

/// A daemon that exports a directory with a file in it, and a directory of ours with the same file.
struct Site {
    scratch: Scratch,
    daemon: Daemon,
}

impl Site {
    fn new() -> Site {
        let scratch = Scratch::in_memory();
        for directory in ["export/from", "from"] {
            std::fs::create_dir_all(scratch.path(directory)).unwrap();
            std::fs::write(scratch.path(directory).join("whole"), noise(1, BYTES)).unwrap();
        }
        for directory in ["export/to", "to"] {
            std::fs::create_dir(scratch.path(directory)).unwrap();
        }
        let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
        Site { scratch, daemon }
    }

    /// A file or a directory here, and a place there: whence and where to.
    fn ways(&self, is_push: bool, name: &str) -> [String; 2] {
        let here = |path: &str| self.scratch.path(path).display().to_string();
        match is_push {
            true => [here(&format!("from{name}")), self.daemon.place("data", &format!("to{name}"))],
            false => [self.daemon.place("data", &format!("from{name}")), here(&format!("to{name}"))],
        }
    }

    fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.scratch.thalweg();
        command.env("THALWEG_TICKET", &self.daemon.ticket).args(words);
        command
    }

    fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Output {
        let mut command = self.command(words);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The streams of who sent went by it.
#[track_caller]
fn went_by(name: &str, evidence: &Value, said: &str) {
    let streams = evidence["sender"]["streams"].as_array().unwrap_or_else(|| panic!("no streams: {said}"));
    assert!(!streams.is_empty(), "{said}");
    streams.iter().for_each(|stream| assert_eq!(stream["congestion"], name, "{said}"));
}

/// What the program ended with, and what it said, once.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    words.iter().for_each(|word| assert_eq!(said.matches(word).count(), 1, "{word}: {said}"));
}

/// Of one that a far side does not permit.
const NOT_THERE: [&str; 2] = ["`nonesuch` is not permitted", "hint: name one that is permitted"];
/// Of one that we do not have.
const NOT_HERE: [&str; 1] = ["`nonesuch` is not to be had here"];
/// Where nothing is sent.
const NOWHERE: [&str; 1] = ["without effect within this machine, where nothing is sent: --cca"];

#[test]
fn a_stream_is_sent_by_the_congestion_control_that_was_asked_for_or_says_why_not() {
    let site = Site::new();
    let name = unusual();
    for is_push in [true, false] {
        let [from, to] = site.ways(is_push, "/whole");
        let output = site.run(["stream", "--json", "--bwlimit", RATE, "--cca", &name, &from, &to]);
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        let events: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let finished = events.iter().find(|event| event["event"] == "finished").expect("it ended");
        went_by(&name, &finished["evidence"], &said);
    }
    let try_nonesuch = |is_push| {
        let [from, to] = site.ways(is_push, "/whole");
        site.run(["stream", "--cca", "nonesuch", &from, &to])
    };
    refused(&try_nonesuch(true), 1, &NOT_HERE);
    refused(&try_nonesuch(false), 3, &NOT_THERE);
    let [from, to] = ["from/whole", "near"].map(|path| site.scratch.path(path).display().to_string());
    refused(&site.run(["stream", "--cca", "reno", &from, &to]), 0, &NOWHERE);
}

#[test]
fn a_watch_copies_by_the_congestion_control_that_was_asked_for_or_ends_with_the_reason() {
    let site = Site::new();
    let name = unusual();
    let watch = |from: &str, to: &str, more: &[&str]| {
        let words = ["watch", from, to, "--stable", "100ms", "--look-every", "100ms", "--idle-exit", "500ms"];
        site.run([&words[..], more].concat())
    };
    for is_push in [true, false] {
        let [from, to] = site.ways(is_push, "");
        let output = watch(&from, &to, &["--bwlimit", RATE, "--cca", &name]);
        assert!(output.status.success(), "{}", said(&output));
        let told = site.scratch.ok(["why", "--json"]);
        let told: Value = serde_json::from_str(told.lines().last().expect("an answer")).expect("JSON");
        went_by(&name, &told["evidence"], &told.to_string());
    }
    // It is no fault of an item, of which there may be many: the watch ends, and says it once.
    std::fs::write(site.scratch.path("export/from/more"), b"more").unwrap();
    std::fs::write(site.scratch.path("export/from/most"), b"most").unwrap();
    let try_nonesuch = |is_push| {
        let [from, to] = site.ways(is_push, "");
        watch(&from, &to, &["--cca", "nonesuch"])
    };
    refused(&try_nonesuch(true), 1, &NOT_HERE);
    refused(&try_nonesuch(false), 3, &NOT_THERE);
    // Nothing is given up by that.
    let [from, to] = site.ways(false, "");
    let output = watch(&from, &to, &["--cca", &name]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read(Path::new(&to).join("most")).unwrap(), b"most");
    let near = site.scratch.path("near").display().to_string();
    refused(&watch(&site.ways(true, "")[0], &near, &["--cca", "reno"]), 0, &NOWHERE);
}

/// What the kernel says of the sockets of the daemon (`s`), or of those of who dialled it (`d`).
fn sockets(daemon: &Daemon, side: char) -> String {
    let address = daemon.address();
    let port = address.rsplit(':').next().unwrap();
    let mut command = Command::new("ss");
    command.args(["-Htni", "state", "established", &format!("( {side}port = :{port} )")]);
    String::from_utf8_lossy(&command.output().expect("ss").stdout).into_owned()
}

#[test]
fn frames_are_sent_by_the_congestion_control_that_was_asked_for_or_it_is_said_why_not() {
    let site = Site::new();
    let place = site.daemon.place("data", "x");
    let got = site.scratch.path("got").display().to_string();
    let push = ["frames", "push", "--streams", "4", "--frame-bytes", "64KiB", "-", &place];
    let pull = ["frames", "pull", "--streams", "4", &place, &got];
    refused(&site.run([&push[..], &["--cca", "nonesuch"]].concat()), 1, &NOT_HERE);
    refused(&site.run([&pull[..], &["--cca", "nonesuch"]].concat()), 3, &NOT_THERE);
    if !chance::has("ss") {
        return chance::skipped("the congestion control of frames", "needs ss");
    }
    let name = unusual();
    let by_name = ["--cca", name.as_str()];
    // Each session has a control connection beside, which goes by the system's choice.
    let goes_by =
        |side| sockets(&site.daemon, side).split_whitespace().filter(|word| *word == name).count() >= 4;
    let (pusher, mut stdin) = Running::fed(site.command([&push[..], &by_name].concat()));
    stdin.write_all(&noise(2, 64 << 10)).unwrap();
    assert!(wait_until(LIMIT, || goes_by('d')), "{}", sockets(&site.daemon, 'd'));
    // Nothing goes this way, and nobody asked: a socket keeps the system's choice only until it is set up.
    assert!(name == "reno" || wait_until(LIMIT, || !goes_by('s')), "{}", sockets(&site.daemon, 's'));
    let puller = Running::start(site.command([&pull[..], &by_name].concat()));
    assert!(wait_until(LIMIT, || goes_by('s')), "{}", sockets(&site.daemon, 's'));
    drop(stdin);
    pusher.end(LIMIT).expect(0);
    puller.end(LIMIT).expect(0);
    let frames = Path::new(OsStr::new(&got)).join("frames-000000.raw");
    assert_eq!(std::fs::read(frames).unwrap(), noise(2, 64 << 10));
}

/// One that the kernel has and does not permit to users.
fn closed() -> Option<String> {
    let allowed = thalweg_sys::socket::allowed_congestion().unwrap();
    let there = thalweg_sys::socket::available_congestion().unwrap();
    there.into_iter().find(|name| !allowed.contains(name))
}

/// What this side may not do is no reason not to ask the far side, which says for itself that it may not either.
#[test]
fn of_copies_both_ways_each_is_told_by_its_own_side_what_is_not_permitted() {
    let row = "congestion both ways";
    let site = Site::new();
    std::fs::set_permissions(site.scratch.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(by) = site.scratch.as_nobody(row) else { return };
    let Some(name) = closed() else { return chance::skipped(row, "users may have all that the kernel has") };
    let [from, to] = site.ways(true, "/whole");
    let [back, here] = site.ways(false, "/whole");
    let state = site.scratch.path("nobody");
    std::fs::create_dir(&state).unwrap();
    if chance::is_root() {
        for path in [&state, &site.scratch.path("to"), &site.daemon.ticket] {
            std::os::unix::fs::chown(path, Some(support::NOBODY), Some(support::NOBODY)).unwrap();
        }
    }
    let copy = |words: &[&str]| {
        let mut command = by(site.command(["cp", "--cca", &name, "--state"]));
        command.arg(&state).args(words).current_dir(site.scratch.root());
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let used_instead = format!("the congestion control `{name}` is not permitted to this user");
    let refused = format!("the congestion control `{name}` is not permitted here");
    let output = copy(&[&from, &to, "--and", &back, &here]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("1: {used_instead}")), "{told}");
    assert!(told.lines().any(|line| line.starts_with("2: ") && line.contains(&refused)), "{told}");
    assert!(!told.contains(&format!("2: {used_instead}")), "{told}");
    assert_eq!(std::fs::read(site.scratch.path("export/to/whole")).unwrap(), noise(1, BYTES));
    assert!(!site.scratch.path("to/whole").exists());
}
