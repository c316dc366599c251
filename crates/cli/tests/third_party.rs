//! Copies between two far places: the real program at three machines, as far as a program can tell them apart, with the
//! system's ssh and a real sshd at two of them.

mod support;

#[path = "support/sshd.rs"]
#[allow(dead_code)]
mod sshd;

use nix::sys::signal::Signal;
use serde_json::Value;
use sshd::Sshd;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::canary::Secrets;
use support::job::{Ran, Running, journal_bytes, signal};
use support::{Scratch, assert_no_litter, assert_same, finish, make_tree, noise, wait_until};

/// Long enough for what ends by itself, far below the patience of what does not.
const GONE: Duration = Duration::from_secs(60);
/// Long enough for bytes to be durable on disks that are slow.
const ARRIVES: Duration = Duration::from_secs(300);

/// The user's machine, and two that he may log in to.
struct Site {
    at_a: Sshd,
    at_b: Sshd,
    a: Scratch,
    b: Scratch,
    here: Scratch,
}

impl Site {
    /// `None`, with the reason told, where there is no sshd.
    fn start() -> Option<Site> {
        Site::start_with(true)
    }

    /// The second may have no thalweg.
    fn start_with(b_has_thalweg: bool) -> Option<Site> {
        let (a, b, here) = (Scratch::new(), Scratch::new(), Scratch::new());
        let at_a = Sshd::start(&a)?;
        let at_b = Sshd::start_with(&b, b_has_thalweg, &[])?;
        Some(Site { at_a, at_b, a, b, here })
    }

    /// With the keys for both.
    fn rsh(&self) -> String {
        let key = self.at_b.rsh.split('\'').nth(1).expect("a key");
        format!("{} -i '{key}'", self.at_a.rsh)
    }

    fn at_a(&self, name: &str) -> String {
        self.at_a.url(&self.a.path(name))
    }

    fn at_b(&self, name: &str) -> String {
        self.at_b.url(&self.b.path(name))
    }

    fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.command_of("cp", words)
    }

    fn command_of<S: AsRef<OsStr>>(&self, verb: &str, words: &[S]) -> Command {
        let mut command = self.here.thalweg();
        command.args([verb, "-e", &self.rsh()]).args(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Output {
        finish(self.command(words).spawn().expect("start"))
    }

    #[track_caller]
    fn ok<S: AsRef<OsStr>>(&self, words: &[S]) -> String {
        succeeded(&self.run(words))
    }

    /// Waits until nothing is left of a copy at either machine.
    #[track_caller]
    fn assert_gone(&self) {
        let left = || [&self.a, &self.b].map(|scratch| processes(&scratch.path("sshd/far-state"))).concat();
        assert!(wait_until(GONE, || left().is_empty()), "still there: {:?}", left());
    }

    /// Waits until some chunks are recorded at the second: a digest of each has 32 bytes.
    #[track_caller]
    fn moves(&self) {
        assert!(wait_until(ARRIVES, || journal_bytes(self.b.root()) > 500), "nothing arrives");
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", output.status, said(output));
    said(output)
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Processes whose thalweg keeps its state here.
fn processes(state: &Path) -> Vec<u32> {
    let variable = format!("THALWEG_STATE={}", state.display());
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    pids.filter(|pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|said| said == variable.as_bytes())
    })
    .collect()
}

/// Bytes that a command and the ssh processes of it read and wrote, as far as they were seen before their end.
fn passed(mut running: Running) -> (u64, Ran) {
    let pid = running.pid();
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let over = wait_until(ARRIVES, || {
        for pid in [vec![pid], children(pid)].concat() {
            let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let number =
                |key: &str| io.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
            let bytes: u64 = ["rchar:", "wchar:"].into_iter().filter_map(number).sum();
            let most = seen.entry(pid).or_default();
            *most = bytes.max(*most);
        }
        running.is_over()
    });
    assert!(over, "it still runs");
    (seen.values().sum(), running.end(GONE))
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let all: Vec<String> = tasks.filter_map(told).collect();
    all.iter().flat_map(|line| line.split_whitespace()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_tree_goes_from_one_far_place_to_the_other_and_comes_back_the_same() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    let out = site.ok(&[site.at_a("from"), site.at_b("to/")]);
    assert!(out.contains(" copied in ") && out.contains("verified as written, durable"), "{out}");
    assert_same(&site.a.path("from"), &site.b.path("to/from"));
    assert_no_litter(&site.b.path("to"));
    site.ok(&[site.at_b("to/from/"), site.at_a("back")]);
    assert_same(&site.a.path("from"), &site.a.path("back"));
    // The second time nothing moves.
    let out = site.run(&["--json".to_owned(), site.at_a("from"), site.at_b("to/")]);
    succeeded(&out);
    let told = events(&String::from_utf8_lossy(&out.stdout));
    let last = told.last().expect("events");
    assert_eq!(last["bytes_received"].as_u64(), Some(0), "{last}");
    assert!(!site.b.path("to/from/from").exists());
    site.assert_gone();
}

#[test]
fn data_between_two_far_places_do_not_pass_the_machine_of_the_user() {
    const BYTES: u64 = 48 << 20;
    let Some(site) = Site::start() else { return };
    std::fs::write(site.a.path("file"), noise(1, BYTES as usize)).unwrap();
    let ways: [(&[&str], &str); 2] = [(&[], "to-1"), (&["--via-ssh"], "to-2")];
    for (way, name) in ways {
        let mut command = site.command(way);
        command.args(["--bwlimit", "40MB", &site.at_a("file"), &site.at_b(name)]);
        let (bytes, ran) = passed(Running::start(command));
        let ran = ran.expect(0);
        match way.is_empty() {
            true => assert!(bytes < BYTES / 4, "{bytes} bytes passed\n{}", ran.stderr),
            // Every port is shut: they pass, and the user is told.
            false => {
                assert!(bytes > BYTES, "{bytes} bytes\n{}", ran.stderr);
                assert!(ran.stderr.contains("in ssh"), "{}", ran.stderr);
            }
        }
        assert!(std::fs::read(site.b.path(name)).unwrap() == noise(1, BYTES as usize));
    }
    site.assert_gone();
}

/// What is known of the way is known at the acting end.
#[test]
fn a_copy_between_two_far_places_is_predicted_also_where_data_pass_the_machine_of_the_user() {
    let Some(site) = Site::start() else { return };
    std::fs::write(site.a.path("file"), noise(1, 4 << 20)).unwrap();
    let copy = |more: &[&str], name: &str| -> Value {
        let mut words = vec!["--json".to_owned()];
        words.extend(more.iter().map(|&word| word.to_owned()));
        words.extend([site.at_a("file"), site.at_b(name)]);
        let out = site.run(&words);
        succeeded(&out);
        events(&String::from_utf8_lossy(&out.stdout)).pop().expect("events")["prediction"].clone()
    };
    let first = copy(&[], "first");
    assert!(first.is_object(), "{first}");
    let ways: [(&[&str], &str); 2] = [(&[], "second"), (&["--via-ssh"], "third")];
    for (more, name) in ways {
        let told = copy(more, name);
        assert!(told["wrong"].is_string() && told["after_s"].is_null(), "{name}: {told}");
    }
    assert_eq!(copy(&[], "second")["missing"], "little-moved");
    site.assert_gone();
}

#[test]
fn a_daemon_gives_to_a_far_place_by_ssh_and_takes_from_it_with_the_ticket_of_the_user() {
    let Some(site) = Site::start() else { return };
    std::fs::create_dir(site.b.path("export")).unwrap();
    let daemon = site.b.daemon(&[("data", &site.b.path("export"))]);
    make_tree(&site.a.path("from"));
    let ticket = ["--ticket".to_owned(), text(&daemon.ticket)];
    let with = |places: [String; 2]| [ticket.as_slice(), &places].concat();
    let mut secrets = Secrets::default();
    secrets.add_keys([&daemon.ticket]);
    // It acts where ssh leads, and leaves no ticket there, nor shows it to others meanwhile.
    let ok = |places: [String; 2]| {
        let (ran, _) = secrets.watch(site.command(&with(places)), site.a.root(), &[]);
        secrets.assert_not_said(&ran.expect(0));
        secrets.assert_not_below(site.a.root(), &[]);
    };
    ok([site.at_a("from/"), daemon.place("data", "in")]);
    assert_same(&site.a.path("from"), &site.b.path("export/in"));
    ok([daemon.place("data", "in/"), site.at_a("out")]);
    assert_same(&site.a.path("from"), &site.a.path("out"));
    assert_eq!(site.at_b.logins(), 0);
    site.assert_gone();
}

#[test]
fn a_receipt_of_a_copy_between_far_places_comes_here_and_verifies() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    let receipt = text(&site.here.path("receipt"));
    site.ok(&["--receipt".to_owned(), receipt.clone(), site.at_a("from/"), site.at_b("to")]);
    let there = text(&site.b.path("to"));
    assert!(site.here.ok(["verify", &receipt, &there]).contains("verified: "));
    std::fs::write(site.b.path("to/one-byte"), "y").unwrap();
    assert_eq!(site.here.run(["verify", &receipt, &there]).status.code(), Some(4));
}

#[test]
fn filters_and_lists_of_names_are_those_of_the_user_also_from_a_pipe() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    std::fs::write(site.here.path("leave"), "small-1*\n").unwrap();
    let leave = text(&site.here.path("leave"));
    let rules = ["--include", "small-11", "--exclude-from", &leave, "--exclude", "er"];
    let places = [site.at_a("from/deep"), site.at_b("filtered")];
    site.ok(&rules.into_iter().chain(places.iter().map(String::as_str)).collect::<Vec<_>>());
    let near = site.here.path("near");
    let near_places = [text(&site.a.path("from/deep")), text(&near)];
    site.here.ok(["cp"].into_iter().chain(rules).chain(near_places.iter().map(String::as_str)));
    assert_same(&near, &site.b.path("filtered"));
    assert!(near.join("deep/small-11").exists() && !near.join("deep/small-12").exists());

    let mut named = site.command(&["--files-from", "-", &site.at_a("from"), &site.at_b("named")]);
    let mut child = named.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one-byte\ndeep/small-7\n").unwrap();
    succeeded(&finish(child));
    let names = |path: PathBuf| std::fs::read_dir(path).unwrap().count();
    assert_eq!((names(site.b.path("named")), names(site.b.path("named/deep"))), (2, 1));
    assert_eq!(std::fs::read(site.b.path("named/one-byte")).unwrap(), b"x");
}

/// What a user asks to be changed is changed there, and nothing by a dry run.
#[test]
fn a_copy_between_far_places_removes_what_it_is_asked_to_and_a_dry_run_does_nothing() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    let dry = site.ok(&["-n".to_owned(), site.at_a("from/"), site.at_b("to")]);
    assert!(dry.contains("dry run: ") && dry.contains("nothing was changed"), "{dry}");
    assert!(!site.b.path("to").exists());
    std::fs::create_dir_all(site.b.path("to")).unwrap();
    std::fs::write(site.b.path("to/extra"), "x").unwrap();
    let sync = |words: &[&str]| {
        let places = [site.at_a("from/"), site.at_b("to")];
        let words: Vec<&str> = words.iter().copied().chain(places.iter().map(String::as_str)).collect();
        succeeded(&finish(site.command_of("sync", &words).spawn().unwrap()))
    };
    let told = sync(&["--delete", "-n"]);
    assert!(told.contains("extra (would be deleted)") && site.b.path("to/extra").exists(), "{told}");
    sync(&["--delete"]);
    assert_same(&site.a.path("from"), &site.b.path("to"));
    let told = site.ok(&["--remove-source-files".to_owned(), site.at_a("from/"), site.at_b("moved")]);
    assert!(told.contains(" source files"), "{told}");
    assert_same(&site.b.path("to"), &site.b.path("moved"));
    assert!(!site.a.path("from/one-byte").exists() && site.a.path("from/deep").is_dir());
    // One that deletes stands alone.
    let two = [site.at_a("from/"), site.at_b("one"), "--and".into(), site.at_a("from/"), site.at_b("two")];
    let words = ["--delete".to_owned()].iter().chain(&two).cloned().collect::<Vec<_>>();
    let refused = finish(site.command_of("sync", &words).spawn().unwrap());
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("--delete is for one copy"), "{}", said(&refused));
}

#[test]
fn programs_hear_of_a_copy_between_far_places_as_of_others_and_its_report_comes_here() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    std::fs::write(site.here.path("near"), noise(3, 1 << 20)).unwrap();
    let report = site.here.path("report");
    let there = [site.at_a("from/"), site.at_b("to")];
    let options = ["--json".to_owned(), "--report".to_owned(), text(&report)];
    let alone = site.run(&[&options[..], &there].concat());
    succeeded(&alone);
    let told = events(&String::from_utf8_lossy(&alone.stdout));
    let last = told.last().expect("events");
    assert_eq!((last["event"].as_str(), last["exit"].as_u64()), (Some("finished"), Some(0)), "{last}");
    assert!(told.iter().all(|event| event.get("copy").is_none()), "{told:?}");
    let entries = |events: &[Value]| events.iter().filter(|event| event["event"] == "entry").count();
    assert!(entries(&told) > 300, "{}", entries(&told));
    let reported = events(&std::fs::read_to_string(&report).unwrap());
    assert_eq!(entries(&reported), entries(&told));

    // Beside one of this machine, in the same report.
    let near = ["--and".to_owned(), text(&site.here.path("near")), site.at_b("near")];
    let again = [site.at_a("from/"), site.at_b("again")];
    let both = site.run(&[&options[..], &again, &near].concat());
    succeeded(&both);
    assert_same(&site.a.path("from"), &site.b.path("again"));
    assert_eq!(std::fs::read(site.b.path("near")).unwrap(), noise(3, 1 << 20));
    let told = events(&String::from_utf8_lossy(&both.stdout));
    for copy in [1, 2] {
        let of: Vec<&Value> = told.iter().filter(|event| event["copy"] == copy).collect();
        let ends = of.iter().filter(|event| event["event"] == "finished").count();
        assert_eq!((ends, &of.last().expect("its end")["exit"]), (1, &Value::from(0)), "{copy}: {of:?}");
    }
    let text = std::fs::read_to_string(&report).unwrap();
    let behind = text.split_once("\"continued\"").expect("a second run").1;
    let lines = events(behind.split_once('\n').expect("lines").1);
    let of = |copy: u64| lines.iter().filter(|line| line["copy"] == copy).count();
    assert!(of(1) > 300 && of(2) >= 1, "{} {}", of(1), of(2));
    // Nothing of them stays here.
    let state = std::fs::read_dir(site.here.path("client-state")).unwrap().flatten();
    let names: Vec<OsString> = state.map(|entry| entry.file_name()).collect();
    assert!(!names.iter().any(|name| name.as_bytes().starts_with(b"report-")), "{names:?}");
    site.assert_gone();
}

#[test]
fn people_are_told_of_each_copy_by_its_number_and_the_gravest_exit_code_is_that_of_the_command() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    std::fs::write(site.here.path("near"), "near").unwrap();
    let near = [text(&site.here.path("near")), text(&site.here.path("copy"))];
    let words =
        |far: &str| [&[site.at_a(far), site.at_b("to"), "--and".to_owned()], near.as_slice()].concat();
    let out = site.run(&words("from/"));
    succeeded(&out);
    let told = String::from_utf8_lossy(&out.stdout);
    assert!(told.lines().any(|line| line.starts_with("1: ")), "{told}");
    assert!(told.lines().any(|line| line.starts_with("2: ")), "{told}");
    std::fs::remove_file(site.here.path("copy")).unwrap();
    let out = site.run(&words("absent"));
    assert!(!out.status.success(), "{}", said(&out));
    assert!(said(&out).contains("1: error: "), "{}", said(&out));
    assert_eq!(std::fs::read(site.here.path("copy")).unwrap(), b"near");
}

#[test]
fn a_copy_between_far_places_that_cannot_be_done_says_which_end_it_was() {
    let Some(site) = Site::start_with(false) else { return };
    std::fs::write(site.a.path("file"), noise(1, 1000)).unwrap();
    let shut = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("ssh://127.0.0.1:{shut}/x");
    let fails = |words: &[&str], code: i32, parts: &[&str]| {
        let out = finish(site.command(words).env("THALWEG_STATIC", "/bin/sh").spawn().unwrap());
        assert_eq!(out.status.code(), Some(code), "{words:?}: {}", said(&out));
        for part in parts {
            assert!(said(&out).contains(part), "{words:?}: `{part}` is not in: {}", said(&out));
        }
    };
    let reached = ["ssh did not reach 127.0.0.1"];
    fails(&[&nobody, &site.at_b("to")], 3, &reached);
    fails(&[&site.at_a("file"), &nobody], 3, &reached);
    fails(&[&site.at_a("file"), &site.at_b("to")], 3, &["no `thalweg` at 127.0.0.1"]);
    fails(&["--bootstrap", &site.at_a("file"), &site.at_b("to")], 1, &["it is no static program"]);
    // As it is told of one that is here.
    let near = ["cp".to_owned(), text(&site.here.path("absent")), text(&site.here.path("to"))];
    let near = site.here.run(near);
    let code = near.status.code().expect("an exit code");
    fails(&[&site.at_a("absent"), &site.at_a("to")], code, &["absent"]);
    assert!(!site.b.path("to").exists());
    site.assert_gone();
}

#[test]
fn a_copy_between_far_places_that_is_stopped_or_whose_user_is_gone_leaves_nothing_behind_and_resumes() {
    let Some(site) = Site::start() else { return };
    std::fs::write(site.a.path("file"), noise(9, 32 << 20)).unwrap();
    let signals = [(Signal::SIGINT, Some(130)), (Signal::SIGTERM, Some(143)), (Signal::SIGKILL, None)];
    for (how, code) in signals {
        let name = how.as_str();
        let places = [site.at_a("file"), site.at_b(name)];
        let mut slow = site.command(&["--bwlimit", "8MB", "--chunk", "1MiB"]);
        slow.args(&places);
        let running = Running::start(slow);
        site.moves();
        signal(running.pid(), how);
        let ran = running.end(GONE);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        site.assert_gone();
        let out = site.run(&["--json", "--chunk", "1MiB", &places[0], &places[1]]);
        succeeded(&out);
        let told = events(&String::from_utf8_lossy(&out.stdout));
        let resumed = told.last().expect("events")["bytes_resumed"].as_u64();
        assert!(resumed.is_some_and(|bytes| bytes > 0), "{name}: {:?}", told.last());
        assert!(std::fs::read(site.b.path(name)).unwrap() == noise(9, 32 << 20), "{name}");
        site.assert_gone();
    }
}

#[test]
fn why_and_limit_are_asked_about_a_copy_between_far_places_where_it_was_asked_for() {
    let Some(site) = Site::start() else { return };
    std::fs::write(site.a.path("file"), noise(9, 32 << 20)).unwrap();
    // It would take longer than it is waited for.
    let mut slow = site.command(&["--bwlimit", "64kB"]);
    slow.args([site.at_a("file"), site.at_b("to")]);
    let running = Running::start(slow);
    let pid = running.pid().to_string();
    let why = || {
        let output = site.here.run(["why", "--json", &pid]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let moves = |told: &Value| told["state"] == "running" && told["bytes"].as_u64() > Some(0);
    assert!(wait_until(ARRIVES, || moves(&why())), "{}", why());
    let told = site.here.ok(["limit", &pid, "none"]);
    assert!(told.contains("no limit"), "{told}");
    let ran = running.end(ARRIVES);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = why();
    assert_eq!((told["state"].as_str(), told["bytes_settled"].as_u64()), (Some("finished"), Some(32 << 20)));
    assert!(told["bytes"].as_u64() >= Some(32 << 20), "{told}");
    let sentence = site.here.ok(["why", "-q"]);
    assert!(!sentence.contains("nothing has moved yet"), "{sentence}");
    site.assert_gone();
}

#[test]
fn a_rate_that_is_wanted_while_the_acting_end_is_logged_in_to_is_that_of_the_copy() {
    let Some(site) = Site::start() else { return };
    std::fs::write(site.a.path("file"), noise(9, 32 << 20)).unwrap();
    // By its name it takes the options of OpenSSH, behind the script. A password that is typed takes as long.
    let [ssh, script, typed] = ["ssh", "ssh.sh", "typed"].map(|name| site.here.path(name));
    std::os::unix::fs::symlink("/bin/sh", &ssh).unwrap();
    let wait = format!("until test -e '{}'; do sleep 0.1; done", typed.display());
    std::fs::write(&script, format!("{wait}\nexec {} \"$@\"\n", site.rsh())).unwrap();
    let rsh = format!("'{}' '{}'", ssh.display(), script.display());
    // It would take longer than it is waited for.
    let mut slow = site.here.thalweg();
    slow.args(["cp", "-e", &rsh, "--bwlimit", "64kB"]).args([site.at_a("file"), site.at_b("to")]);
    let running = Running::start(slow);
    let pid = running.pid().to_string();
    let limit = || site.here.run(["limit", &pid, "none"]).status.success();
    assert!(wait_until(ARRIVES, limit), "nobody is there to be asked");
    std::fs::write(&typed, "").unwrap();
    let ran = running.end(ARRIVES);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(std::fs::read(site.b.path("to")).unwrap() == noise(9, 32 << 20));
    site.assert_gone();
}

#[test]
fn ways_of_data_streams_are_those_of_the_two_ends_of_a_copy() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    let (from, to) = (site.at_a("from/"), site.at_b("to"));
    let words: [&str; 6] = ["--stall-timeout", "5s", "--patience", "12s", &from, &to];
    let copy = |way: &[&str]| site.run(&[way, &words].concat());
    // Neither is looked for at the machine that asked.
    let refused = copy(&["--bind", "192.0.2.77"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains("this machine has no"), "{}", said(&refused));
    // Port 1 of this machine: nobody listens there.
    let nobody = copy(&["--via", "127.0.0.1:1"]);
    assert!(!nobody.status.success(), "{}", said(&nobody));
    assert!(said(&nobody).contains("no address of --via could be reached"), "{}", said(&nobody));
    succeeded(&copy(&["--via", "127.0.0.1", "--bind", "lo"]));
    assert_same(&site.a.path("from"), &site.b.path("to"));
    site.assert_gone();
}

/// Each list has one host twice: two copies take a part of the tree each.
#[test]
fn several_hosts_share_a_copy_between_far_places() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    let twice = |sshd: &Sshd, path: PathBuf| {
        let path = text(&path);
        format!("ssh://127.0.0.1,127.0.0.1:{}{path}", sshd.port)
    };
    let from = format!("{}/", twice(&site.at_a, site.a.path("from")));
    let out = site.run(&[from, twice(&site.at_b, site.b.path("to"))]);
    succeeded(&out);
    let told = String::from_utf8_lossy(&out.stdout);
    for part in ["1: ", "2: "] {
        assert!(told.lines().any(|line| line.starts_with(part)), "{told}");
    }
    assert_same(&site.a.path("from"), &site.b.path("to"));
    site.assert_gone();
}

#[test]
fn names_with_blanks_quotes_new_lines_and_odd_bytes_go_from_one_far_place_to_the_other_unharmed() {
    let Some(site) = Site::start() else { return };
    let name = OsStr::from_bytes(b"it's a \"name\"\nof $(touch pwned) `id` \\ ; {file:ticket} \xff");
    make_tree(&site.a.path("from").join(name));
    let place = |sshd: &Sshd, path: PathBuf| {
        let mut place = OsString::from(format!("ssh://127.0.0.1:{}", sshd.port));
        place.push(path.join(name));
        place
    };
    site.ok(&[place(&site.at_a, site.a.path("from")), place(&site.at_b, site.b.path("to"))]);
    // A source without a trailing slash goes into the destination.
    assert_same(&site.a.path("from").join(name), &site.b.path("to").join(name).join(name));
    assert!(!site.at_a.home.join("pwned").exists() && !site.at_b.home.join("pwned").exists());
}

#[test]
fn two_places_at_one_ssh_host_are_copied_there_with_one_login() {
    let Some(site) = Site::start() else { return };
    make_tree(&site.a.path("from"));
    site.ok(&[site.at_a("from/"), site.at_a("to")]);
    assert_same(&site.a.path("from"), &site.a.path("to"));
    assert_eq!(site.at_a.logins(), 1);
    // Below the home there.
    std::fs::write(site.at_a.home.join("-one"), "content").unwrap();
    let port = site.at_a.port.to_string();
    site.ok(&["--port", &port, "127.0.0.1:-one", "127.0.0.1:sub/two"]);
    assert_eq!(std::fs::read(site.at_a.home.join("sub/two")).unwrap(), b"content");
    site.assert_gone();
}
