//! Commands that go on without a terminal (`--detach`), and `thalweg jobs`.

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::canary::Secrets;
use support::copies::LIMIT;
use support::job::{Ran, Running, journal_bytes, signal, with};
use support::volume::{Volume, may_mount};
use support::{Scratch, assert_same, chance, noise, wait_until};
use thalweg_cli::jobs::{self, Job, State};
use thalweg_lab::wrap::wrap;
use thalweg_sys::process::start_ticks;

/// Of the file that is copied: at the rate of these copies half a minute.
const BYTES: u64 = 32 << 20;

/// A tree to be copied, and the jobs that do. What runs at the end is killed.
struct Site {
    scratch: Scratch,
}

impl Site {
    fn new() -> Site {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("from")).unwrap();
        std::fs::write(scratch.path("from/file"), noise(1, BYTES as usize)).unwrap();
        Site { scratch }
    }

    fn state(&self) -> PathBuf {
        self.scratch.path("client-state")
    }

    /// Slowly, until it is told otherwise.
    fn copy(&self, more: &[&str]) -> Command {
        let words = ["cp", "--detach", "--json", "--chunk", "256KiB", "--bwlimit", "1MB/s"];
        let command = with(with(self.scratch.thalweg(), words), more);
        with(command, [self.scratch.path("from/"), self.scratch.path("to/")])
    }

    /// The number of the job that it prints.
    #[track_caller]
    fn begin(&self, command: Command) -> String {
        let ran = Running::start(command).end(LIMIT).expect(0);
        let told = ran.stdout.trim();
        assert_eq!(told.lines().count(), 1, "{ran:?}");
        match serde_json::from_str::<Value>(told) {
            Ok(Value::Object(job)) => job["id"].as_str().unwrap().to_owned(),
            _ => told.to_owned(),
        }
    }

    fn run(&self, words: &[&str]) -> Ran {
        Running::start(with(self.scratch.thalweg(), words)).end(LIMIT)
    }

    fn job(&self, id: &str) -> Job {
        jobs::find(&self.state(), id).unwrap()
    }

    #[track_caller]
    fn await_state(&self, id: &str, state: State) {
        let is_so = wait_until(LIMIT, || self.job(id).state == state);
        assert!(is_so, "{:?}\n{}", self.job(id), self.log(id));
    }

    fn log(&self, id: &str) -> String {
        self.scratch.ok(["jobs", "log", id])
    }

    /// Until something of the copy is durable.
    #[track_caller]
    fn await_journal(&self, id: &str) {
        let to = self.scratch.path("to");
        assert!(wait_until(LIMIT, || journal_bytes(&to) > 500), "nothing arrives\n{}", self.log(id));
    }

    /// Has a copy run as fast as it can, and waits for its end.
    #[track_caller]
    fn hurry(&self, id: &str) {
        let pid = self.job(id).record.run.unwrap().command_pid.to_string();
        // It may be over by now.
        let _ = self.run(&["limit", &pid, "none"]);
        self.run(&["jobs", "wait", id]).expect(0);
    }

    /// The same; it copied all.
    #[track_caller]
    fn end(&self, id: &str) {
        self.hurry(id);
        assert_same(&self.scratch.path("from"), &self.scratch.path("to"));
    }

    /// The last event of a copy in what the job said.
    #[track_caller]
    fn finished(&self, id: &str) -> Value {
        let log = self.log(id);
        let events = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut finished = events.filter(|event| event["event"] == "finished");
        finished.next().unwrap_or_else(|| panic!("no end: {log}"))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for job in jobs::all(&self.state()) {
            if let (State::Running, Some(run)) = (job.state, &job.record.run) {
                let _ = Command::new("kill").args(["-9", &run.pid.to_string()]).status();
            }
        }
    }
}

#[test]
fn a_job_goes_on_when_its_terminal_and_who_leads_its_session_are_gone() {
    let site = Site::new();
    let ends = nix::pty::openpty(None, None).expect("a pseudo-terminal");
    let terminal = std::fs::read_link(format!("/proc/self/fd/{}", ends.slave.as_raw_fd())).unwrap();
    // What is cloned here is closed in the shell.
    let master = ends.master.try_clone().unwrap();
    drop(ends.master);
    // Who leads a session and has no terminal gets the first one that it opens.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec < \"$TERMINAL\"; \"$@\" > \"$0.id\"; echo $? > \"$0.code\"; sleep 600"]);
    shell.arg(site.scratch.path("shell")).env("TERMINAL", terminal);
    let mut command = wrap(shell, &site.copy(&[]));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut leader = thalweg_sys::child::in_own_session(&mut command).spawn().unwrap();
    let read = |name: &str| std::fs::read_to_string(site.scratch.path(name)).unwrap_or_default();
    assert!(wait_until(LIMIT, || read("shell.code").ends_with('\n')));
    assert_eq!(read("shell.code"), "0\n");
    let job: Value = serde_json::from_str(&read("shell.id")).unwrap();
    let id = job["id"].as_str().unwrap();
    assert_eq!(job["state"], "running", "{job}");
    leader.kill().unwrap();
    leader.wait().unwrap();
    drop((master, ends.slave));
    assert_eq!(site.job(id).state, State::Running);
    site.end(id);
    assert_eq!(site.job(id).state, State::Done);
}

#[test]
fn a_job_that_was_killed_is_interrupted_and_goes_on_with_what_was_durable() {
    let site = Site::new();
    let id = site.begin(site.copy(&["--name", "run7"]));
    site.await_journal(&id);
    let run = site.job("run7").record.run.unwrap();
    signal(run.pid, Signal::SIGKILL);
    site.await_state(&id, State::Interrupted);
    // The command does not outlive its keeper.
    assert!(wait_until(LIMIT, || start_ticks(run.command_pid).is_none()));
    site.run(&["jobs", "wait", &id]).expect(3);
    let refused = site.run(&["jobs", "stop", "run7"]).expect(3);
    assert!(refused.stderr.contains("it does not run: interrupted"), "{refused:?}");
    // As after the machine was started anew.
    let again = site.run(&["jobs", "resume", "--all"]).expect(0);
    assert_eq!(again.stdout, format!("{id}  running\n"));
    site.end(&id);
    let finished = site.finished(&id);
    let number = |key: &str| finished[key].as_u64().unwrap();
    assert!(number("bytes_resumed") > 0 && number("bytes_received") < BYTES, "{finished}");
    assert_eq!(site.job(&id).record.runs, 2);
    // What is done is not done again.
    assert_eq!(site.run(&["jobs", "resume", "--all"]).expect(0).stdout, "");
    site.run(&["jobs", "resume", &id]).expect(1);
}

/// Of a command that was killed its keeper knows.
#[test]
fn a_job_whose_command_was_killed_is_interrupted_too_and_says_by_which_signal() {
    let site = Site::new();
    let id = site.begin(site.copy(&[]));
    signal(site.job(&id).record.run.unwrap().command_pid, Signal::SIGKILL);
    site.await_state(&id, State::Interrupted);
    let end = site.job(&id).record.end.unwrap();
    assert_eq!((end.code, end.signal, end.was_stopped), (None, Some(9), false));
    assert!(site.scratch.ok(["jobs", "show", &id]).contains("by signal 9"));
}

#[test]
fn a_job_that_its_user_stopped_ends_in_order_and_is_resumed_only_by_name() {
    let site = Site::new();
    let id = site.begin(site.copy(&[]));
    site.await_journal(&id);
    let stopped = site.run(&["jobs", "stop", &id]).expect(0);
    assert_eq!(stopped.stdout, format!("{id}  stopped\n"));
    let end = site.job(&id).record.end.unwrap();
    assert_eq!((end.code, end.was_stopped), (Some(143), true));
    assert!(site.log(&id).contains("\"exit\":143"), "{}", site.log(&id));
    assert_eq!(site.run(&["jobs", "resume", "--all"]).expect(0).stdout, "");
    // Who looked at it before it ran, and got its lock only now, does not undo that.
    let directory = site.job(&id).directory;
    let late = with(site.scratch.thalweg(), [OsStr::new("keep-job"), directory.as_os_str(), OsStr::new("0")]);
    let late = Running::start(late).end(LIMIT).expect(3);
    assert!(late.stderr.contains("it was resumed meanwhile"), "{late:?}");
    assert_eq!(site.job(&id).state, State::Stopped);
    site.run(&["jobs", "wait", &id]).expect(143);
    site.run(&["jobs", "resume", &id]).expect(0);
    site.end(&id);
    assert!(site.finished(&id)["bytes_resumed"].as_u64() > Some(0));
}

/// As where the machine is started anew while what was written becomes durable.
#[test]
fn a_job_that_is_killed_while_it_stops_is_resumed_only_by_name() {
    let site = Site::new();
    let id = site.begin(site.copy(&[]));
    site.await_journal(&id);
    let job = site.job(&id);
    let run = job.record.run.clone().unwrap();
    // What `jobs stop` notes before it asks.
    jobs::ask_to_stop(&job.directory).unwrap();
    signal(run.pid, Signal::SIGKILL);
    site.await_state(&id, State::Stopped);
    assert!(wait_until(LIMIT, || start_ticks(run.command_pid).is_none()));
    assert_eq!(site.run(&["jobs", "resume", "--all"]).expect(0).stdout, "");
    site.run(&["jobs", "wait", &id]).expect(3);
    // One that does not begin again is what it was.
    let mut nonsense = job.record.clone();
    nonsense.words.push(jobs::Bytes(b"--no-such-option".to_vec()));
    jobs::write_record(&job.directory, &nonsense).unwrap();
    let refused = site.run(&["jobs", "resume", &id]);
    assert!(refused.stderr.contains("the job did not begin"), "{refused:?}");
    assert_eq!(site.job(&id).state, State::Stopped);
    jobs::write_record(&job.directory, &job.record).unwrap();
    site.run(&["jobs", "resume", &id]).expect(0);
    site.end(&id);
}

/// Who shuts a machine down asks all processes at once, and who ends a login sends SIGHUP behind SIGTERM (logind). A
/// second signal would end the command where it stands.
#[test]
fn a_keeper_does_not_ask_a_command_that_was_asked_already() {
    let site = Site::new();
    let id = site.begin(site.copy(&[]));
    site.await_journal(&id);
    let run = site.job(&id).record.run.unwrap();
    for asked in [Signal::SIGTERM, Signal::SIGHUP] {
        for pid in [run.command_pid, run.pid] {
            // It may have ended by now.
            let _ = kill(Pid::from_raw(pid.cast_signed()), asked);
        }
    }
    site.await_state(&id, State::Interrupted);
    assert_eq!(site.job(&id).record.end.unwrap().code, Some(143));
    assert!(site.log(&id).contains("\"exit\":143"), "it did not end in order: {}", site.log(&id));
    site.run(&["jobs", "wait", &id]).expect(3);
    site.run(&["jobs", "resume", "--all"]).expect(0);
    site.end(&id);
}

#[test]
fn who_waits_for_a_job_gets_its_exit_code_or_hears_in_time_that_it_is_not_over() {
    let site = Site::new();
    std::fs::create_dir_all(site.scratch.path("to")).unwrap();
    std::fs::write(site.scratch.path("to/file"), "other").unwrap();
    let places = [site.scratch.path("from"), site.scratch.path("to")];
    let check = site.begin(with(with(site.scratch.thalweg(), ["check", "--detach"]), places));
    site.run(&["jobs", "wait", &check]).expect(2);
    assert_eq!(site.job(&check).state, State::Failed);
    let copy = site.begin(site.copy(&[]));
    let waited = site.run(&["jobs", "wait", "--timeout", "50ms", &copy]).expect(3);
    assert!(waited.stderr.contains("is not over: running"), "{waited:?}");
    let refused = site.run(&["jobs", "forget", &copy]).expect(3);
    assert!(refused.stderr.contains("it runs"), "{refused:?}");
    site.end(&copy);
    // The gravest of both.
    site.run(&["jobs", "wait", &check, &copy]).expect(2);
    site.run(&["jobs", "forget", "--older-than", "1h"]).expect(0);
    assert_eq!(jobs::all(&site.state()).len(), 2);
    site.run(&["jobs", "forget", "--older-than", "0s"]).expect(0);
    assert!(jobs::all(&site.state()).is_empty());
    site.run(&["jobs", "show", &copy]).expect(3);
}

#[test]
fn a_copy_through_a_stage_goes_on_as_a_job() {
    let site = Site::new();
    let stage = site.scratch.path("stage");
    std::fs::create_dir(&stage).unwrap();
    let id = site.begin(site.copy(&["--stage", stage.to_str().unwrap()]));
    site.end(&id);
    assert_eq!(std::fs::read_dir(stage).unwrap().count(), 0);
}

/// The keeper reads none: a configuration is of whoever types commands.
#[test]
fn a_job_with_a_configuration_of_its_own_begins_beside_a_broken_one() {
    let site = Site::new();
    let (own, usual) = (site.scratch.path("own.toml"), site.scratch.path("config/thalweg/config.toml"));
    std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
    std::fs::write(&own, "streams = 2\n").unwrap();
    std::fs::write(&usual, "strems = 3\n").unwrap();
    let id = site.begin(site.copy(&["--config", own.to_str().unwrap()]));
    // What follows reads the usual one.
    std::fs::remove_file(&usual).unwrap();
    site.end(&id);
}

#[test]
fn a_job_that_runs_is_told_with_its_progress_and_what_it_goes_by() {
    let site = Site::new();
    let id = site.begin(site.copy(&["--name", "run7"]));
    let told = || -> Value {
        let told = site.scratch.ok(["jobs", "--json"]);
        assert_eq!(told.lines().count(), 1, "{told}");
        serde_json::from_str(&told).unwrap()
    };
    let moves = wait_until(LIMIT, || told()["bytes_settled"].as_u64() > Some(0));
    let job = told();
    assert!(moves, "{job}");
    assert_eq!((&job["event"], &job["state"]), (&"job".into(), &"running".into()));
    assert_eq!((&job["id"], &job["name"]), (&id.as_str().into(), &"run7".into()));
    assert_eq!(job["bytes_found"], BYTES);
    assert_eq!((&job["words"][0], &job["words"][1]), (&"cp".into(), &"--detach".into()));
    let line = site.scratch.ok(["jobs"]);
    assert!(line.contains(" of 32.00 MiB") && line.contains("bit/s") && line.contains("(run7)"), "{line}");
    let shown = site.scratch.ok(["jobs", "show", "run7"]);
    let state = site.state().display().to_string();
    assert!(shown.contains(&format!("THALWEG_STATE={state}")), "{shown}");
    let follows = Running::start(with(site.scratch.thalweg(), ["jobs", "log", "-f", &id]));
    site.end(&id);
    let followed = follows.end(LIMIT).expect(0);
    assert_eq!(followed.finished()["exit"], 0);
}

#[test]
fn what_cannot_go_on_without_a_terminal_does_not_begin_and_leaves_nothing() {
    let site = Site::new();
    let nothing_is_left = || {
        let left = std::fs::read_dir(jobs::directory(&site.state())).into_iter().flatten().count();
        assert_eq!(left, 0);
    };
    let (from, to) = (site.scratch.path("from"), site.scratch.path("to"));
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    for words in [
        &["cp", "--detach", "--files-from", "-", from, to][..],
        &["stream", "--detach", "-", to],
        &["stream", "--detach", from, "-"],
        &["check", "--detach", "--sums", "-", from],
        &["cp", "--name", "run7", from, to],
        &["cp", "--detach", "--name", "a b", from, to],
        // There is no ticket.
        &["cp", "--detach", from, "tw://127.0.0.1:1/data/"],
    ] {
        let ran = site.run(words).expect(1);
        assert_eq!(ran.stdout, "", "{words:?}");
        nothing_is_left();
    }
    // A login that fails is told where the command was given.
    let ran = site.run(&["cp", "--detach", "--rsh", "false", from, "host:there"]).expect(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("the job did not begin"), "{ran:?}");
    nothing_is_left();
}

/// Nobody would hear of it: ssh logs in to whoever runs such a copy, and that one to the other.
#[test]
fn a_copy_between_far_places_that_nobody_can_log_in_to_is_no_job() {
    let site = Site::new();
    let ran = site.run(&["cp", "--detach", "-e", "false", "a.example:from", "b.example:to"]).expect(3);
    assert!(ran.stderr.contains("the job did not begin"), "{ran:?}");
    assert!(jobs::all(&site.state()).is_empty(), "{ran:?}");
}

#[test]
fn hostile_words_are_shown_inert_and_resumed_as_they_are() {
    let site = Site::new();
    let name = OsStr::from_bytes(b"line\nbreak \x1b[31m \xff $(x)");
    let mut command = with(site.scratch.thalweg(), ["cp", "--detach", "--quiet", "--bwlimit", "1MB/s"]);
    command.arg(site.scratch.path("from/file")).arg(site.scratch.path("to").join(name));
    std::fs::create_dir(site.scratch.path("to")).unwrap();
    let id = site.begin(command);
    site.run(&["jobs", "stop", &id]).expect(0);
    assert_eq!(site.job(&id).state, State::Stopped);
    site.run(&["jobs", "resume", &id]).expect(0);
    site.hurry(&id);
    let copied = std::fs::read(site.scratch.path("to").join(name)).unwrap();
    assert!(copied == std::fs::read(site.scratch.path("from/file")).unwrap());
    let list = site.scratch.ok(["jobs"]);
    assert_eq!(list.lines().count(), 1, "{list}");
    for told in [list, site.scratch.ok(["jobs", "show", &id]), site.scratch.ok(["jobs", "--json"])] {
        assert!(!told.contains('\x1b') && told.contains("\\x1b"), "{told}");
    }
    let words = site.job(&id).record.words;
    assert!(words.last().unwrap().0.ends_with(name.as_bytes()));
}

#[test]
fn secrets_of_the_environment_are_in_no_record_and_named_as_missing() {
    let site = Site::new();
    let secret = "0xCanary77-0xCanary77";
    let mut secrets = Secrets::default();
    secrets.add("the secret", secret.as_bytes());
    let mut command = site.copy(&["--verbose"]);
    command.env("AWS_SECRET_ACCESS_KEY", secret).env("https_proxy", format!("http://me:{secret}@proxy"));
    command.env("AWS_ENDPOINT_URL", format!("https://me:{secret}@store")).env("AWS_PROFILE", "me");
    command.env("BEARER_TOKEN", secret).env("BEARER_TOKEN_FILE", "/run/user/7/token");
    let id = site.begin(command);
    let run = site.job(&id).record.run.unwrap();
    site.run(&["jobs", "stop", &id]).expect(0);
    secrets.assert_not_below(&site.state(), &[]);
    let shown = site.scratch.ok(["jobs", "show", &id]);
    assert!(shown.contains("AWS_PROFILE=me") && shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
    secrets.assert_not_in("jobs show", shown.as_bytes());
    let resumed = site.run(&["jobs", "resume", &id]).expect(0);
    for missing in ["AWS_SECRET_ACCESS_KEY", "BEARER_TOKEN"] {
        assert!(resumed.stderr.contains(&format!("{missing} was in its environment")), "{resumed:?}");
    }
    let again = site.job(&id).record.run.unwrap();
    assert_ne!(again.command_pid, run.command_pid);
    // What is kept it has again.
    let environment = std::fs::read(format!("/proc/{}/environ", again.command_pid)).unwrap();
    for kept in [&b"AWS_PROFILE=me"[..], b"BEARER_TOKEN_FILE=/run/user/7/token"] {
        assert!(environment.split(|byte| *byte == 0).any(|one| one == kept));
    }
}

#[test]
fn another_process_that_has_the_number_of_a_keeper_is_neither_asked_nor_believed() {
    let site = Site::new();
    let id = site.begin(site.copy(&[]));
    signal(site.job(&id).record.run.unwrap().pid, Signal::SIGKILL);
    site.await_state(&id, State::Interrupted);
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let job = site.job(&id);
    let mut record = job.record.clone();
    record.run.as_mut().unwrap().pid = other.id();
    jobs::write_record(&job.directory, &record).unwrap();
    assert_eq!(site.job(&id).state, State::Interrupted);
    site.run(&["jobs", "stop", &id]).expect(3);
    // Also where its lock is held, as by who is about to resume it.
    let held = jobs::claim(&job.directory).unwrap();
    assert_eq!(site.job(&id).state, State::Running);
    site.run(&["jobs", "stop", &id]).expect(3);
    drop(held);
    assert!(other.try_wait().unwrap().is_none(), "it was asked to stop");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn where_a_job_cannot_be_recorded_it_does_not_begin() {
    if !may_mount() {
        return chance::skipped("jobs", "file systems may not be mounted here");
    }
    let site = Site::new();
    let volume = Volume::in_memory(site.scratch.root(), "full", "size=64k");
    let fills = std::fs::write(volume.path.join("filler"), vec![1; 1 << 20]);
    assert!(fills.is_err(), "there is room");
    let state = volume.path.to_str().unwrap();
    let ran = Running::start(site.copy(&["--state", state])).end(LIMIT).expect(6);
    let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains(state) && error.contains("No space left on device"), "{ran:?}");
    assert!(jobs::all(&volume.path).is_empty() && !site.scratch.path("to").exists());
    let left = std::fs::read_dir(jobs::directory(&volume.path)).into_iter().flatten().count();
    assert_eq!(left, 0);
}

/// The only event that a program hears.
#[track_caller]
fn failure(ran: &Ran) -> Value {
    let event: Value = serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(event["event"], "error", "{ran:?}");
    event
}

#[test]
fn programs_hear_what_cannot_be_done_with_a_job_and_people_the_whole_command_that_goes_on() {
    let site = Site::new();
    let all: [&[&str]; 4] = [&["stop"], &["wait"], &["resume"], &["forget"]];
    for words in all {
        let ran = site.run(&[&["jobs"][..], words, &["--json", "none-of-these"]].concat()).expect(3);
        assert_eq!(failure(&ran)["kind"], "notfound", "{ran:?}");
    }
    // It is no list of events.
    let ran = site.run(&["jobs", "log", "--json", "none-of-these"]).expect(1);
    assert_eq!(failure(&ran)["kind"], "usage");
    let id = site.begin(site.copy(&[]));
    let ran = site.run(&["jobs", "stop", &id]).expect(0);
    assert!(ran.stderr.contains("`thalweg jobs resume --state "), "{ran:?}");
    let ran = site.run(&["jobs", "show", &id]).expect(0);
    assert!(ran.stdout.contains("thalweg jobs resume --state "), "{ran:?}");
}

#[test]
fn jobs_that_cannot_be_read_are_told_and_no_success() {
    let site = Site::new();
    let damaged = jobs::directory(&site.state()).join("00000000ffff");
    std::fs::create_dir_all(&damaged).unwrap();
    std::fs::write(damaged.join("record.json"), "{").unwrap();
    let all: [&[&str]; 3] =
        [&["jobs"], &["jobs", "resume", "--all"], &["jobs", "forget", "--older-than", "1h"]];
    for words in all {
        let ran = site.run(words).expect(2);
        assert!(ran.stderr.contains("00000000ffff/record.json"), "{ran:?}");
        let ran = site.run(&[words, &["--json"]].concat()).expect(2);
        assert!(failure(&ran)["why"].as_str().unwrap().contains("00000000ffff/record.json"), "{ran:?}");
    }
    std::fs::remove_dir_all(jobs::directory(&site.state())).unwrap();
    for words in all {
        site.run(words).expect(0);
    }
    std::fs::write(jobs::directory(&site.state()), "no directory").unwrap();
    for words in all {
        let ran = site.run(words);
        assert!(ran.code != Some(0) && ran.stderr.contains("client-state/jobs"), "{ran:?}");
    }
    std::fs::remove_file(jobs::directory(&site.state())).unwrap();
}
