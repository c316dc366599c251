//! Several copies in one command (`--and`), pushes and pulls at the same time over one link, by the real program.

mod support;

#[path = "support/sshd.rs"]
#[allow(dead_code)]
mod sshd;

#[path = "several_copies/parts.rs"]
mod parts;

use serde_json::Value;
use sshd::Sshd;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::copies::{CHUNK_BYTES, LIMIT, STREAMS, make_source};
use support::job::{Ran, Running, signal, with};
use support::proxy::Proxy;
use support::{Daemon, Scratch, assert_no_litter, assert_same, finish, make_tree, noise, wait_until};
use thalweg_mover::basin::Evidence;
use thalweg_mover::event::{self, Event, Events};
use thalweg_mover::frames::{ChannelWishes, FrameFrom, FramePolicy};
use thalweg_mover::link::{Identity, ServerTrust, Ticket, client_config};
use thalweg_mover::plan::{Asked, Tuned};
use thalweg_mover::run::client::{LinkSettings, TcpConnect};
use thalweg_mover::run::copy::{
    self, EvidenceSink, FarTrial, From as Source, Meter, Movement, Remembered, Stop, To, TrialRun, Watch,
    Wishes,
};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_mover::run::flow::job::{FlowFrom, FlowTo, FlowWishes, stream};
use thalweg_mover::run::frames::job::{self as frames, ConsumeWishes, Opening};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::{Place, PullTrial, PushTrial, Until};

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A tree here for the daemon, another there for us, and a wire between.
struct Site {
    scratch: Scratch,
    proxy: Proxy,
    daemon: Daemon,
    total: u64,
}

impl Site {
    fn new() -> Site {
        let scratch = Scratch::in_memory();
        let total = make_source(&scratch.path("from")) + make_source(&scratch.path("export/there"));
        let export = scratch.path("export");
        let daemon =
            scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &["--stall-timeout", "10s"], |c| c);
        let proxy = Proxy::new(&daemon.address());
        Site { scratch, proxy, daemon, total }
    }

    /// A push and a pull.
    fn both_ways(&self, more: &[&str]) -> Running {
        let command = with(self.scratch.thalweg(), ["cp", "--json", "--chunk", "1MiB", "--streams", "2"]);
        let command = with(with(command, ["--ticket"]), [&self.daemon.ticket]);
        let push = [text(&self.scratch.path("from/")), self.proxy.place("data", "pushed/")];
        let pull = [self.proxy.place("data", "there/"), text(&self.scratch.path("pulled"))];
        let command = with(command, ["--stall-timeout", "10s", "--patience", "60s"]);
        Running::start(with(with(with(with(command, more), push), ["--and"]), pull))
    }

    fn assert_exact(&self, ran: &Ran) {
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
        for (from, to) in [("from", "export/pushed"), ("export/there", "pulled")] {
            assert_same(&self.scratch.path(from), &self.scratch.path(to));
            assert_no_litter(&self.scratch.path(to));
        }
        let events = events(&ran.stdout);
        for copy in [1, 2] {
            let ends = events.iter().filter(|e| e["event"] == "finished" && e["copy"] == copy);
            assert_eq!(ends.map(|e| e["exit"].as_i64()).collect::<Vec<_>>(), [Some(0)], "{}", ran.stdout);
        }
        assert!(events.iter().filter(|e| e["event"] == "entry").all(|e| e["copy"].is_u64()));
    }
}

#[test]
fn copies_that_would_delete_what_another_brings_are_refused() {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join(format!("of-{name}")), "x").unwrap();
    }
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = text(&daemon.ticket);
    let (a, b) = (text(&scratch.path("a/")), text(&scratch.path("b/")));
    let run = |from: [&str; 2], to: [&str; 2]| {
        let words = ["sync", "--delete", "--ticket", &ticket, from[0], to[0], "--and", from[1], to[1]];
        scratch.run(words)
    };
    let (to, below) = (text(&scratch.path("to/")), text(&scratch.path("to/below/")));
    let (far, far_below) = (daemon.place("data", "to/"), daemon.place("data", "to/below/"));
    for (one, other) in [(&to, &to), (&to, &below), (&below, &to), (&far, &far), (&far, &far_below)] {
        let output = run([&a, &b], [one, other]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("each deletes what the other brings"), "{}", said(&output));
    }
    assert!(!scratch.path("to").exists() && !scratch.path("export/to").exists());
    // Side by side, and under names of their own, neither is in the other's way.
    let beside = text(&scratch.path("beside/"));
    let named = [text(&scratch.path("a")), text(&scratch.path("b"))];
    std::fs::create_dir(scratch.path("to")).unwrap();
    for (from, to) in [([&*a, &b], [&*to, &beside]), ([&*named[0], &named[1]], [&*to, &to])] {
        let output = run(from, to);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
}

#[test]
fn a_push_and_a_pull_share_one_link_of_a_daemon() {
    let site = Site::new();
    let ran = site.both_ways(&[]).end(LIMIT);
    site.assert_exact(&ran);
    // One control connection and the streams, for both together; none of them broke.
    assert_eq!(site.proxy.accepted(), 1 + STREAMS, "{}\n{}", ran.stdout, ran.stderr);
    let again = site.both_ways(&[]).end(LIMIT);
    site.assert_exact(&again);
    assert!(
        events(&again.stdout).iter().filter(|e| e["event"] == "finished").all(|e| e["bytes_received"] == 0),
        "{}",
        again.stdout
    );
}

#[test]
fn both_directions_move_at_the_same_time() {
    let site = Site::new();
    site.proxy.limit(20 << 20);
    let job = site.both_ways(&[]);
    let ran = job.end(LIMIT);
    site.assert_exact(&ran);
    let under_way = |copy| {
        let verified = |e: &Value| e["bytes_verified"].as_u64().unwrap_or(0);
        let told: Vec<Value> = events(&ran.stdout);
        let steps = told.iter().filter(|e| e["event"] == "progress" && e["copy"] == copy);
        steps.map(verified).collect::<Vec<u64>>()
    };
    let (push, pull) = (under_way(1), under_way(2));
    let half = site.total / 2;
    let is_between = |bytes: &u64| (1..half).contains(bytes);
    assert!(
        push.iter().zip(&pull).any(|(a, b)| is_between(a) && is_between(b)),
        "pushed {push:?}, pulled {pull:?}"
    );
}

#[test]
fn an_outage_heals_for_both_directions() {
    let site = Site::new();
    site.proxy.limit(40 << 20);
    let mut job = site.both_ways(&[]);
    for share in [5, 2] {
        assert!(wait_until(LIMIT, || site.proxy.passed() > site.total / share || job.is_over()));
        assert!(!job.is_over());
        site.proxy.refuse(true);
        site.proxy.cut();
        std::thread::sleep(Duration::from_millis(500));
        site.proxy.refuse(false);
    }
    let ran = job.end(LIMIT);
    site.assert_exact(&ran);
    assert!(events(&ran.stdout).iter().any(|event| event["event"] == "link-up"), "{}", ran.stdout);
    let received: u64 = events(&ran.stdout).iter().filter_map(|e| e["bytes_received"].as_u64()).sum();
    // What was on its way when it was cut: a chunk and what the sockets held, for each stream, direction and outage.
    let allowed = (CHUNK_BYTES + (8 << 20)) * STREAMS * 2 * 2;
    assert!(received.saturating_sub(site.total) <= allowed, "{received} of {}", site.total);
}

#[test]
fn a_daemon_that_is_started_anew_is_found_by_both_directions() {
    let site = Site::new();
    site.proxy.limit(40 << 20);
    let mut job = site.both_ways(&[]);
    assert!(wait_until(LIMIT, || site.proxy.passed() > site.total / 3 || job.is_over()));
    assert!(!job.is_over());
    let address = site.daemon.address();
    let Site { scratch, proxy, daemon, total } = site;
    daemon.kill();
    let export = scratch.path("export");
    let daemon = scratch.daemon_at(&address, &[("data", &export)], &["--stall-timeout", "10s"], |c| c);
    let site = Site { scratch, proxy, daemon, total };
    let ran = job.end(LIMIT);
    site.assert_exact(&ran);
}

#[test]
fn a_push_and_a_pull_by_ssh_need_one_login() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("from"));
    make_tree(&scratch.path("there"));
    let mut command = scratch.thalweg();
    command.args(["cp", "-e", &sshd.rsh]);
    command.args([text(&scratch.path("from/")), sshd.url(&scratch.path("pushed/"))]);
    command.args(["--and", &sshd.url(&scratch.path("there/")), &text(&scratch.path("pulled"))]);
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(out.status.success(), "{}", said(&out));
    assert_same(&scratch.path("from"), &scratch.path("pushed"));
    assert_same(&scratch.path("there"), &scratch.path("pulled"));
    assert_eq!(sshd.logins(), 1);
    let lines: Vec<String> = String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(lines.len() == 2 && lines[0].starts_with("1: ") && lines[1].starts_with("2: "), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("verified as written, durable")), "{lines:?}");
    sshd.assert_no_movers(LIMIT);
}

#[test]
fn one_copy_that_fails_does_not_stop_the_others_and_decides_the_exit_code() {
    let site = Site::new();
    let mut command = site.scratch.thalweg();
    command.args(["cp", "--json", "--ticket"]).arg(&site.daemon.ticket);
    command.args([text(&site.scratch.path("from/")), site.daemon.place("data", "pushed/")]);
    command.args(["--and", &site.daemon.place("data", "absent"), &text(&site.scratch.path("pulled"))]);
    command.args(["--and", &text(&site.scratch.path("from/small-1")), &text(&site.scratch.path("local"))]);
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert_same(&site.scratch.path("from"), &site.scratch.path("export/pushed"));
    assert_eq!(
        std::fs::read(site.scratch.path("from/small-1")).unwrap(),
        std::fs::read(site.scratch.path("local")).unwrap()
    );
    let events = events(&String::from_utf8(out.stdout.clone()).unwrap());
    let ends: Vec<(&str, u64, i64)> = events
        .iter()
        .filter(|e| e["event"] == "finished" || e["event"] == "error")
        .map(|e| (e["event"].as_str().unwrap(), e["copy"].as_u64().unwrap(), e["exit"].as_i64().unwrap()))
        .collect();
    assert_eq!(ends.len(), 3, "{}", said(&out));
    for end in [("error", 2, 3), ("finished", 1, 0), ("finished", 3, 0)] {
        assert!(ends.contains(&end), "{end:?} in {ends:?}");
    }
    assert!(String::from_utf8_lossy(&out.stderr).contains("2: error: "), "{}", said(&out));
}

#[test]
fn a_copy_that_stands_still_does_not_keep_a_rate_from_the_others() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 32 << 20)).unwrap();
    let copy = |to: &str| {
        let command = with(scratch.thalweg(), ["cp", "--bwlimit", "1MB/s"]);
        Running::start(with(command, [scratch.path("file"), scratch.path(to)]))
    };
    let (still, other) = (copy("a"), copy("b"));
    let limit = |rate: &str| scratch.run(["limit", rate]);
    let are_heard = || {
        let out = said(&limit("1MB/s"));
        [&still, &other].iter().all(|job| out.contains(&format!("{}: ", job.pid())))
    };
    assert!(wait_until(LIMIT, are_heard), "both can be asked");
    signal(still.pid(), nix::sys::signal::Signal::SIGSTOP);
    let out = limit("none");
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert_eq!(String::from_utf8_lossy(&out.stdout), format!("{}: no limit\n", other.pid()));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains(&format!("process {}: ", still.pid())) && stderr.contains("hint: "), "{stderr}");
    other.end(LIMIT).expect(0);
    still.kill();
}

#[test]
fn many_sources_dry_runs_and_reports_work_for_several_copies() {
    let site = Site::new();
    let report = site.scratch.path("report");
    let run = |more: &[&str]| {
        let mut command = site.scratch.thalweg();
        command.args(["sync", "--ticket"]).arg(&site.daemon.ticket).args(more);
        command.arg("--report").arg(&report);
        command.args([text(&site.scratch.path("from/small-1")), text(&site.scratch.path("one"))]);
        command.args(["--and", &text(&site.scratch.path("from/small-2"))]);
        command.args([&text(&site.scratch.path("from/small-3")), &site.daemon.place("data", "many/")]);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let out = run(&["-n"]);
    assert!(out.status.success(), "{}", said(&out));
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(told.contains("1: dry run: ") && told.contains("2: dry run: "), "{told}");
    assert!(!site.scratch.path("one").exists() && !site.scratch.path("export/many").exists());
    std::fs::remove_file(&report).unwrap();
    let out = run(&[]);
    assert!(out.status.success(), "{}", said(&out));
    for name in ["small-2", "small-3"] {
        let there = std::fs::read(site.scratch.path("export/many").join(name)).unwrap();
        assert_eq!(there, std::fs::read(site.scratch.path("from").join(name)).unwrap());
    }
    let lines = events(&std::fs::read_to_string(&report).unwrap());
    let of = |copy: u64| lines.iter().filter(|line| line["copy"] == copy).count();
    assert!(of(1) >= 1 && of(2) >= 2 && of(1) + of(2) == lines.len(), "{lines:?}");
}

#[test]
fn what_cannot_be_copied_is_refused_before_anybody_is_reached() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 100)).unwrap();
    let reached = scratch.path("reached");
    let rsh = scratch.path("rsh");
    std::fs::write(&rsh, format!("#!/bin/sh\ntouch '{}'\nexit 255\n", reached.display())).unwrap();
    std::fs::set_permissions(&rsh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = text(&scratch.path("file"));
    let refuse = |words: &[&str], code: i32, why: &str| {
        let mut command = scratch.thalweg();
        command.args(["cp", "-e", &text(&rsh)]).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let out = finish(command.spawn().unwrap());
        assert_eq!(out.status.code(), Some(code), "{words:?}: {}", said(&out));
        assert!(said(&out).contains(why), "{words:?}: {}", said(&out));
        assert!(!reached.exists(), "{words:?}");
    };
    refuse(&["tw://a/in/x", "tw://b/in/y"], 1, "a daemon asks who you are");
    let lacks = "give the ticket or the place file that it wrote with --to-ticket";
    refuse(&["tw://a/in/x", "tw://b/in/y", "--ticket", "t"], 1, lacks);
    refuse(&["tw://a/in/x", "tw://b/in/y", "--ticket", "t", "--bind", "lo"], 1, "--bind names addresses");
    let both = ["tw://a/in/x", "tw://b/in/y", "--ticket", "t", "--to-ticket", "t"];
    for (option, value) in [("--ktls", "on"), ("--tls-records", "2048")] {
        let why = format!("{option} is about streams of one machine");
        refuse(&[&both[..], &[option, value]].concat(), 1, &why);
    }
    refuse(&[&file, "a:x", "--to-ticket", "t"], 1, "--to-ticket is for a copy between two daemons");
    refuse(&[&file, "a:x", "--and", "tw://a/in/y", "tw://a/in/z"], 3, "both places are far");
    // What a copy between two far places does not do.
    refuse(&["tw://a/data/x", "b:y/"], 1, "a daemon asks who you are");
    refuse(&["a:x", "b:y", "--via", "ticket"], 1, "`--via ticket` is for daemons");
    refuse(&["a:x", "b,c:y", "--via", "127.0.0.1"], 1, "--via names addresses of one far side");
    refuse(&[&file, "a:x", "--and", "a:y", "b:z", "--via", "127.0.0.1"], 1, "and there are two");
    refuse(&[&file, "a:x", "--and", "a:y", "b:z", "--bind", "lo"], 1, "--bind names addresses");
    let receipt = text(&scratch.path("receipt"));
    refuse(&["a:x", "b:y", "--remove-source-files", "--receipt", &receipt], 1, "be lost with the way");
    refuse(&["a:x", "b:y", "--receipt", &text(&scratch.path("none/receipt"))], 3, "none/receipt");
    refuse(&[&file, "a:x", "--and", "a:y", "b:y", "here"], 1, "all sources must be at one place");
    // What is not here says what to do instead, in words that can be typed.
    refuse(
        &["tw://a/in/x", "tw://a/in"],
        3,
        "thalweg cp DIR/x DIR (DIR is what the daemon there exports as in)",
    );
    refuse(&["a:x", "b:y", "here/"], 1, "thalweg cp a:x here/ --and b:y here/");
    refuse(&["a,:x", "here"], 1, "a host of the list is missing");
    refuse(&["tw://a,b/in/x", "tw://c/in"], 1, "a daemon asks who you are");
    refuse(&["s3a://b/k", "here"], 1, "a place in a bucket is written s3://b/k");
    refuse(&["az://b/k", "here"], 1, "set -o pipefail; rclone cat REMOTE:PATH | thalweg stream - DST");
    refuse(&[&file, "https://h/x"], 1, "curl -fL https://h/x | thalweg stream - DST");
    refuse(&["sftp://h/x", "here"], 1, "by ssh the same host is ssh://h/x");
    refuse(&["file:///etc/passwd", "here"], 1, "as it is: /etc/passwd");
    refuse(&[&file, "a:x", "--and", &file], 1, "2 values required");
    refuse(&["--receipt", "r", &file, "a:x", "--and", &file, "b:x"], 1, "cannot be used with");
    let many: Vec<&str> = [&file, "a:x"].into_iter().chain([["--and", &file, "a:x"]; 16].concat()).collect();
    refuse(&many, 1, "at most 16 copies");
}

/// Each command that joins two places says it of itself; `cp` and `sync` copy between them, and ask for tickets.
#[test]
fn two_far_places_are_told_the_command_to_give_at_one_of_them_by_every_command() {
    let scratch = Scratch::new();
    let refused = |command: &str, places: [&str; 2], told: &str| {
        let out = scratch.run([command, "-e", "false", places[0], places[1]]);
        assert_eq!(out.status.code(), Some(3), "{command}: {}", said(&out));
        assert!(said(&out).contains(told), "{command}: {}", said(&out));
        assert!(said(&out).contains("hint: where you cannot log in"), "{command}: {}", said(&out));
    };
    for command in ["stream", "watch", "predict", "probe", "tune"] {
        let told = format!("Log in to a, and there: thalweg {command} x me@b:y");
        refused(command, ["a:x", "me@b:y"], &told);
    }
    for command in ["cp", "sync"] {
        let out = scratch.run([command, "-e", "false", "tw://a/in/x", "tw://b/in/y"]);
        assert_eq!(out.status.code(), Some(1), "{command}: {}", said(&out));
        assert!(said(&out).contains("`a:8487`: a daemon asks who you are"), "{command}: {}", said(&out));
    }
}

/// The knobs hold for the side that sends, whichever it is, and everything still arrives.
#[test]
fn knobs_hold_in_both_directions() {
    let site = Site::new();
    let narrow = ["--depth", "1", "--concurrency", "1", "--window", "64KiB", "--cca", "reno"];
    let ran = site.both_ways(&narrow).end(LIMIT);
    site.assert_exact(&ran);
    let events = events(&ran.stdout);
    for event in events.iter().filter(|event| event["event"] == "finished") {
        let value = |knob: &str| event["plan"][knob]["value"].as_u64();
        assert_eq!((value("depth"), value("concurrency"), value("streams")), (Some(1), Some(1), Some(2)));
    }
    let pull = |name: &str| {
        let mut command = site.scratch.thalweg();
        command.args(["cp", "--cca", name, "--ticket"]).arg(&site.daemon.ticket);
        command.args([site.daemon.place("data", "there/"), text(&site.scratch.path("again"))]);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let refused = pull("nonesuch");
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("`nonesuch` is not permitted"), "{}", said(&refused));
    assert!(said(&refused).contains("hint: name one that is permitted"), "{}", said(&refused));
    let mut command = site.scratch.thalweg();
    command.args(["cp", "--cca", "nonesuch", "--ticket"]).arg(&site.daemon.ticket);
    command.args([text(&site.scratch.path("from/")), site.daemon.place("data", "again")]);
    let refused = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
}

#[test]
fn the_far_side_of_a_pull_sends_by_the_congestion_control_that_was_asked_for() {
    let site = Site::new();
    // Large enough that the streams are still there when they are asked what they do.
    for at in 0..4 {
        std::fs::write(site.scratch.path(&format!("export/there/large-{at}")), vec![at; 24 << 20]).unwrap();
    }
    let mut command = site.scratch.thalweg();
    command.args(["cp", "--json", "--cca", "reno", "--bwlimit", "64MB", "--ticket"]).arg(&site.daemon.ticket);
    command.args([site.daemon.place("data", "there/"), text(&site.scratch.path("pulled"))]);
    let ran = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(ran.status.success(), "{}", said(&ran));
    let events = events(&String::from_utf8_lossy(&ran.stdout));
    let finished = events.iter().find(|event| event["event"] == "finished").expect("it ended");
    let streams = finished["evidence"]["sender"]["streams"].as_array().expect("accounts of streams");
    assert!(!streams.is_empty());
    for stream in streams {
        assert_eq!(stream["congestion"], "reno", "{stream}");
    }
}

/// Copies of this process with a daemon, one after the other, of noise to nowhere.
struct InProcess {
    far: Arc<FarMover>,
    identity: Identity,
}

impl InProcess {
    fn new(site: &Site) -> InProcess {
        let ticket = Ticket::read(&site.daemon.ticket).unwrap();
        let identity = ticket.identity().unwrap();
        let tls = client_config(&identity, &ServerTrust::Pinned(ticket.server)).unwrap();
        let connect = Arc::new(TcpConnect::new(vec![site.daemon.address()]));
        InProcess { far: Arc::new(FarMover::new(connect, tls)), identity }
    }

    /// A push or a pull: its report, and the notes that it made.
    fn copy(&self, sends: bool, wishes: Wishes) -> (copy::Report, Vec<String>) {
        self.metered(sends, wishes, Arc::default())
    }

    /// The same, which this counts.
    fn metered(&self, sends: bool, wishes: Wishes, meter: Arc<Meter>) -> (copy::Report, Vec<String>) {
        const BYTES: u64 = 8 << 20;
        let place = Place { export: Some("data".into()), path: Vec::new() };
        let (from, to, trial) = match sends {
            true => {
                let null = FarTrial::Destination(PushTrial::Null);
                (Source::Noise(BYTES, BYTES), To::Far(self.far.clone(), place), null)
            }
            false => {
                let noise = FarTrial::Source(PullTrial::Noise { bytes: BYTES, file_bytes: BYTES });
                (Source::Far(self.far.clone(), vec![place]), To::Null, noise)
            }
        };
        let asked = Asked { streams: Some(2), ..Asked::default() };
        let wishes = Wishes {
            movement: Movement { asked, ..wishes.movement },
            trial: Some(TrialRun { far: Some(trial), bytes_max: BYTES }),
            ..wishes
        };
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = notes.clone();
        let events: Events = Arc::new(move |event| {
            if let Event::Note(text) = event {
                noted.lock().unwrap().push(text);
            }
        });
        let watch = Watch { events, is_behind: None, link_events: event::nobody(), meter, evidence: None };
        let report =
            copy::copy(&from, &to, &wishes, &self.identity, &watch, &Stop::default()).expect("a copy");
        let notes = notes.lock().unwrap().clone();
        (report, notes)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.far.close();
    }
}

/// Entries settled and bytes verified, as the last progress says.
fn counted(meter: &Meter) -> (u64, u64) {
    (meter.entries_settled.load(Ordering::Relaxed), meter.bytes_verified.load(Ordering::Relaxed))
}

#[test]
fn the_last_progress_of_a_far_copy_is_what_its_report_says() {
    let site = Site::new();
    let here = InProcess::new(&site);
    for sends in [true, false] {
        let meter = Arc::new(Meter::default());
        let (report, _) = here.metered(sends, Wishes::default(), meter.clone());
        assert_eq!(counted(&meter), (report.totals.done, 8 << 20), "sends: {sends}");
    }
}

#[test]
fn the_last_progress_of_a_far_stream_is_what_its_report_says() {
    let site = Site::new();
    let here = InProcess::new(&site);
    let (from, back) = (site.scratch.path("run"), site.scratch.path("back"));
    std::fs::write(&from, noise(1, 1 << 20)).unwrap();
    let far = || Place { export: Some("data".into()), path: b"run".to_vec() };
    for sends in [true, false] {
        let (from, to) = match sends {
            true => (FlowFrom::Local(from.clone()), FlowTo::Far(here.far.clone(), far())),
            false => (FlowFrom::Far(here.far.clone(), far()), FlowTo::Local(back.clone())),
        };
        let meter = Arc::new(Meter::default());
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: meter.clone(), evidence: None };
        let wishes = FlowWishes::new(Until::default());
        let report = stream(from, to, &wishes, &here.identity, &watch, &Stop::default()).expect("a stream");
        assert_eq!((report.totals.done, report.totals.bytes_done), (1, 1 << 20), "sends: {sends}");
        assert_eq!(counted(&meter), (1, 1 << 20), "sends: {sends}");
    }
}

/// Copies one after the other over the same sockets: what one chose is not what the next is sent by.
#[test]
fn each_copy_of_a_session_is_sent_by_the_congestion_control_that_it_asked_for() {
    let permitted = thalweg_sys::socket::allowed_congestion().unwrap();
    let site = Site::new();
    let here = InProcess::new(&site);
    let sent_by = |sends: bool, name: Option<&str>| -> Vec<String> {
        let link = LinkSettings { congestion: name.map(str::to_owned), ..LinkSettings::default() };
        let movement = Movement { link, ..Movement::default() };
        let (report, _) = here.copy(sends, Wishes { movement, ..Wishes::default() });
        report.evidence.sender.streams.into_iter().map(|stream| stream.congestion).collect()
    };
    for sends in [true, false] {
        let unasked = sent_by(sends, None);
        for name in permitted.iter().chain(permitted.iter().rev()) {
            let used = sent_by(sends, Some(name));
            assert!(!used.is_empty() && used.iter().all(|it| it == name), "{name}: {used:?}, sends: {sends}");
            assert_eq!(sent_by(sends, None), unasked, "after {name}, sends: {sends}");
        }
    }
    // On a path that is not near it is this that streams go back to.
    let (client, _) = here.far.transfer(LinkSettings::default(), event::nobody()).unwrap();
    let wanted = client.session.wanted_path();
    assert_eq!(wanted.usual_congestion, thalweg_sys::socket::default_congestion().ok());
    assert_eq!(wanted.congestion, None);
}

/// The copy that is under way in it asks for none.
#[test]
fn frames_that_come_into_a_session_have_its_streams_sent_by_the_congestion_control_that_they_ask_for() {
    const ENDLESS: u64 = 1 << 40;
    let permitted = thalweg_sys::socket::allowed_congestion().unwrap();
    let site = Site::new();
    let here = InProcess::new(&site);
    let place = |path: &[u8]| Place { export: Some("data".into()), path: path.to_vec() };
    let used: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = used.clone();
    let evidence: EvidenceSink = Arc::new(move |now: &Evidence| {
        let streams = now.sender.streams.iter().map(|stream| stream.congestion.clone());
        *seen.lock().unwrap() = streams.collect();
    });
    let watch = Watch {
        events: event::nobody(),
        is_behind: None,
        link_events: event::nobody(),
        meter: Arc::default(),
        evidence: Some(evidence),
    };
    let noise = FarTrial::Source(PullTrial::Noise { bytes: ENDLESS, file_bytes: ENDLESS });
    let wishes = Wishes {
        movement: Movement {
            asked: Asked { streams: Some(2), ..Asked::default() },
            rate: Arc::new(Rate::new(Some(1 << 20))),
            ..Movement::default()
        },
        trial: Some(TrialRun { far: Some(noise), bytes_max: ENDLESS }),
        ..Wishes::default()
    };
    let (from, stop) = (Source::Far(here.far.clone(), vec![place(b"")]), Stop::default());
    let (before, asked, came, after) = std::thread::scope(|scope| {
        let copy = scope.spawn(|| copy::copy(&from, &To::Null, &wishes, &here.identity, &watch, &stop));
        let used = || used.lock().unwrap().clone();
        // What came of both is looked at when the copy is over.
        let _ = wait_until(LIMIT, || used().len() == 2 || copy.is_finished());
        let before = used();
        let asked = permitted.iter().find(|name| !before.contains(name)).cloned();
        let opening = Opening {
            far: here.far.clone(),
            place: place(b"channel"),
            link: LinkSettings { congestion: asked.clone(), ..LinkSettings::default() },
            streams: Some(2),
            channel: ChannelWishes::default(),
            window_bytes: 1 << 20,
            events: event::nobody(),
        };
        let wishes = ConsumeWishes {
            policy: FramePolicy::Block,
            group: None,
            from: FrameFrom::Start,
            name: None,
            producers: 1,
            keep: Duration::from_secs(1),
            link_bits_per_s: None,
        };
        let consumer = frames::consume(opening, wishes);
        let goes_by = |name: &String| used() == [name.clone(), name.clone()];
        let _ = wait_until(LIMIT, || asked.as_ref().is_none_or(goes_by) || copy.is_finished());
        let after = used();
        let came = consumer.map(|(_, keeper)| keeper.stop());
        // Whatever came of it: else the copy goes on.
        stop.stop();
        let _ = copy.join();
        (before, asked, came, after)
    });
    let Some(asked) = asked else {
        return support::chance::skipped("congestion control of frames", "nobody may choose another");
    };
    came.expect("a consumer");
    assert!(before.len() == 2 && !before.contains(&asked), "{before:?}");
    assert_eq!(after, [asked.clone(), asked]);
}

/// What the far side permits may change, and nobody asked for it by name.
#[test]
fn a_pull_goes_on_without_a_congestion_control_that_trials_found_and_the_far_side_does_not_permit() {
    let site = Site::new();
    let here = InProcess::new(&site);
    let tuned = Tuned { congestion: Some("nonesuch".into()), ..Tuned::default() };
    let remembered = Remembered { tuned: Some(tuned), ..Remembered::default() };
    let (report, notes) = here.copy(false, Wishes { remembered, ..Wishes::default() });
    assert_eq!((report.totals.failed, report.attempts), (0, 1));
    assert_eq!(report.plan.congestion, None);
    let told: Vec<&String> = notes.iter().filter(|text| text.contains("`nonesuch`")).collect();
    assert!(told.len() == 1 && told[0].contains("`thalweg tune --forget`"), "{notes:?}");
}
