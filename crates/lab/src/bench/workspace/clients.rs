//! Clients of a suite, from start to end: what they told, and what they took.

use super::daemon::Daemon;
use super::processes::{Noted, POLL, end};
use super::{Workspace, enter};
use crate::bench::network::Host;
use crate::bench::producer::Producer;
use crate::bench::watcher::Watcher;
use crate::bench::{Wishes, stopped};
use serde_json::Value;
use std::io::{self, Read};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};
use thalweg_sys::cpu_time::children_cpu;

/// How long one copy may take besides what its data and the times that were asked for need: only one that hangs takes
/// longer.
const COPY_WAIT: Duration = Duration::from_secs(3600);

/// What the slowest copy still moves in a second, or a tenth of a slower line: small files over a long way are the
/// slowest.
const SLOWEST_BYTES_PER_S: u64 = 100_000;

/// The slowest case of a suite takes so many times as long as is asked for: `frames` makes some a tenth as fast as
/// others.
const SLOWER: u32 = 10;

/// What of a client's words is kept.
const WORDS_BYTES_MAX: u64 = 64 << 20;

/// What a copy took.
#[derive(Clone)]
pub struct Copied {
    /// From the start of the program to its end.
    pub wall_s: f64,
    /// Of client and server.
    pub cpu_s: Option<f64>,
    /// The last event: see docs/reference/json.md.
    pub finished: Value,
}

impl Copied {
    /// A number of the last event.
    pub fn number(&self, key: &str) -> f64 {
        self.finished[key].as_f64().unwrap_or(0.0)
    }
}

/// The same, with all that the program told.
pub struct Said {
    pub copied: Copied,
    /// Its events, in order: see docs/reference/json.md.
    pub events: Vec<Value>,
}

impl Said {
    /// Why a side that was to go past the page cache did not, if it did not.
    pub fn missed_direct(&self, side: &str) -> Option<&str> {
        let note = format!("--direct {side}=on: ");
        let notes = self.events.iter().filter(|event| event["event"] == "note");
        notes.filter_map(|event| event["text"].as_str()).find_map(|text| text.strip_prefix(&note))
    }
}

/// Ends of pipes to a program.
struct Ends {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
}

/// A client that has ended.
struct Ended {
    is_good: bool,
    at: Instant,
    out: String,
    errors: String,
}

impl Workspace {
    /// Runs `thalweg WORDS`, in a host if one is named, and waits for it.
    ///
    /// # Errors
    /// If it does not end well: what it says; `Stopped`.
    pub fn copy(&self, host: Option<&Host>, daemon: Option<&Daemon>, words: &[String]) -> Result<Copied> {
        self.said(host, daemon, words).map(|said| said.copied)
    }

    /// The same, with all that it told.
    ///
    /// # Errors
    /// As there.
    pub fn said(&self, host: Option<&Host>, daemon: Option<&Daemon>, words: &[String]) -> Result<Said> {
        self.run(host, daemon, words, (false, false), |_| Ok(())).map(|(said, ())| said)
    }

    /// Asks `thalweg WORDS`, in a host if one is named: its event of this name, whatever it ends with.
    ///
    /// # Errors
    /// If there is none: what it says; `Stopped`.
    pub fn told(
        &self,
        host: Option<&Host>,
        daemon: Option<&Daemon>,
        words: &[String],
        event: &str,
    ) -> Result<Value> {
        let mut command = self.command("client");
        command.args(words).arg("--json");
        if let Some(daemon) = daemon {
            command.arg("--ticket").arg(&daemon.ticket);
        }
        let mut command = enter(host, command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = self.wait(command.spawn().map_err(|error| of_io("start a question", &error))?)?;
        let events = ended.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(told) = events.into_iter().find(|told| told["event"] == event) {
            return Ok(told);
        }
        let why = ended.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        let cause = format!("`thalweg {}` does not say `{event}`: {why}", words.join(" "));
        Err(Failure::new(FailureKind::Internal, MEASURE, cause))
    }

    /// The same, with what `feed` writes on its standard input; gives what `feed` says.
    ///
    /// # Errors
    /// The same; if `feed` fails though the program ends well.
    pub fn fed<T: Send>(
        &self,
        host: Option<&Host>,
        daemon: Option<&Daemon>,
        words: &[String],
        feed: impl FnOnce(ChildStdin) -> io::Result<T> + Send,
    ) -> Result<(Copied, T)> {
        let feed = |ends: Ends| feed(ends.stdin.ok_or(io::ErrorKind::BrokenPipe)?);
        self.run(host, daemon, words, (true, false), feed).map(|(said, fed)| (said.copied, fed))
    }

    /// The same as [`Workspace::copy`] of one that writes data to its standard output, which goes to `take`, and tells
    /// its events on the other; gives what `take` says.
    ///
    /// # Errors
    /// The same; if `take` fails though the program ends well.
    pub fn taken<T: Send>(
        &self,
        host: Option<&Host>,
        daemon: Option<&Daemon>,
        words: &[String],
        take: impl FnOnce(ChildStdout) -> io::Result<T> + Send,
    ) -> Result<(Said, T)> {
        let take = |ends: Ends| take(ends.stdout.ok_or(io::ErrorKind::BrokenPipe)?);
        self.run(host, daemon, words, (false, true), take)
    }

    fn run<T: Send>(
        &self,
        host: Option<&Host>,
        daemon: Option<&Daemon>,
        words: &[String],
        (is_fed, is_taken): (bool, bool),
        beside: impl FnOnce(Ends) -> io::Result<T> + Send,
    ) -> Result<(Said, T)> {
        let mut command = self.command("client");
        command.args(words).arg("--json");
        if let Some(daemon) = daemon {
            command.arg("--ticket").arg(&daemon.ticket);
        }
        let mut command = enter(host, command);
        command.stdin(if is_fed { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let served = daemon.map(Daemon::cpu_s);
        let (before, began) = (children_cpu(), Instant::now());
        let mut child = command.spawn().map_err(|error| of_io("start a copy", &error))?;
        let stdin = child.stdin.take();
        let stdout = if is_taken { child.stdout.take() } else { None };
        let ends = Ends { stdin, stdout };
        let (ended, fed) = std::thread::scope(|scope| {
            let feeding = scope.spawn(move || beside(ends));
            (self.wait(child), feeding.join())
        });
        let ended = ended?;
        let wall_s = (ended.at - began).as_secs_f64();
        let client_s = (children_cpu() - before).as_secs_f64();
        let served_s = match (served, daemon.map(Daemon::cpu_s)) {
            (None, _) => Some(0.0),
            (Some(before), Some(after)) => after.zip(before).map(|(after, before)| after - before),
            (Some(_), None) => None,
        };
        let told = if is_taken { &ended.errors } else { &ended.out };
        let events: Vec<Value> =
            told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
        let finished = events.iter().find(|event| event["event"] == "finished").cloned().unwrap_or_default();
        if !ended.is_good {
            // A terminal tells all of us to end.
            if self.stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let why = ended.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            let cause = format!("`thalweg {}` did not end well: {why}", words.join(" "));
            return Err(Failure::new(FailureKind::Internal, MEASURE, cause));
        }
        let fed = fed.map_err(|_| Failure::new(FailureKind::Internal, "feed a copy", "a thread panicked"))?;
        let fed = fed.map_err(|error| of_io("feed a copy", &error))?;
        let copied = Copied { wall_s, cpu_s: served_s.map(|served_s| served_s + client_s), finished };
        Ok((Said { copied, events }, fed))
    }

    /// Passes a file on from one server to another, through a host that keeps nothing of it: `thalweg stream` out of
    /// the one, into the other.
    ///
    /// # Errors
    /// If either does not end well; `Stopped`.
    pub fn relay(&self, host: &Host, from: (&Daemon, &str), to: (&Daemon, &str)) -> Result<Copied> {
        let failed = |error: io::Error| of_io("start a relay", &error);
        let words = |daemon: &Daemon, places: [String; 2]| {
            let mut command = self.command("client");
            command.arg("stream").args(places).arg("--ticket").arg(&daemon.ticket);
            let mut command = host.enter(&command);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let cpu = || Some(Daemon::cpu_s(from.0)? + Daemon::cpu_s(to.0)? + children_cpu().as_secs_f64());
        let (before, began) = (cpu(), Instant::now());
        let mut out = words(from.0, [from.0.url(from.1), "-".to_owned()]).spawn().map_err(failed)?;
        let mut into = words(to.0, ["-".to_owned(), to.0.url(to.1)]);
        if let Some(pipe) = out.stdout.take() {
            into.stdin(pipe);
        }
        let spawned = into.spawn();
        // Nobody else holds an end of the pipe: if one side ends, so does the other.
        drop(into);
        let into = match spawned {
            Ok(into) => into,
            Err(error) => {
                end(&mut out);
                return Err(failed(error));
            }
        };
        let (out, into) = std::thread::scope(|scope| {
            let out = scope.spawn(|| self.wait(out));
            let into = self.wait(into);
            (out.join(), into)
        });
        let lost = |_| Failure::new(FailureKind::Internal, "wait for a relay", "a thread panicked");
        let (out, into) = (out.map_err(lost)??, into?);
        if let Some(bad) = [&out, &into].into_iter().find(|ended| !ended.is_good) {
            let why = bad.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            return Err(Failure::new(FailureKind::Internal, "pass a file on", why.to_owned()));
        }
        let cpu_s = before.zip(cpu()).map(|(before, after)| after - before);
        Ok(Copied { wall_s: (into.at - began).as_secs_f64(), cpu_s, finished: Value::Null })
    }

    /// Starts `thalweg WORDS` in a host, with a pipe to its standard input.
    ///
    /// # Errors
    /// If it does not start.
    pub fn producer(&self, host: &Host, daemon: &Daemon, words: &[String]) -> Result<Producer> {
        let mut command = self.command("client");
        command.args(words).arg("--json").arg("--ticket").arg(&daemon.ticket);
        let mut command = host.enter(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Producer::start(command.spawn().map_err(|error| of_io("start a producer", &error))?)
    }

    /// Starts `thalweg WORDS`, which watches a directory, as somebody who did not before.
    ///
    /// # Errors
    /// If it does not start.
    pub fn watcher(
        &self,
        who: &str,
        host: Option<&Host>,
        daemon: &Daemon,
        words: &[String],
    ) -> Result<Watcher> {
        let mut command = self.command(who);
        command.args(words).arg("--json").arg("--ticket").arg(&daemon.ticket);
        let mut command = enter(host, command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| of_io("start a watch", &error))?;
        let noted = Noted::new(&self.running, child.id());
        Watcher::start(child, noted, self.patience)
    }

    fn wait(&self, mut child: Child) -> Result<Ended> {
        let _noted = Noted::new(&self.running, child.id());
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let listen = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // What cannot be read is missed below, as words that did not come.
                let _ = pipe.map(|pipe| pipe.take(WORDS_BYTES_MAX).read_to_end(&mut text));
                // Its end of the pipe is closed: that is when it ended.
                (String::from_utf8_lossy(&text).into_owned(), Instant::now())
            })
        };
        let out = listen(out.map(|pipe| Box::new(pipe) as _));
        let errors = listen(errors.map(|pipe| Box::new(pipe) as _));
        let until = Instant::now() + self.patience;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| of_io("wait for a copy", &error))? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) {
                end(&mut child);
                return Err(stopped());
            }
            if Instant::now() > until {
                end(&mut child);
                return Err(overdue("a copy", self.patience));
            }
            std::thread::sleep(POLL);
        };
        let lost = |_| Failure::new(FailureKind::Internal, "wait for a copy", "a thread panicked");
        // Of the one that somebody else reads there is nothing to be heard.
        let ((out, out_at), (errors, errors_at)) = (out.join().map_err(lost)?, errors.join().map_err(lost)?);
        Ok(Ended { is_good: status.success(), at: out_at.max(errors_at), out, errors })
    }
}

/// How long a copy of so many bytes may take.
pub(super) fn patience(wishes: &Wishes, budget_bytes: u64) -> Duration {
    let line = wishes.rate_bits_per_s.map_or(u64::MAX, |rate| rate / 8 / 10);
    let moving = Duration::from_secs(budget_bytes / SLOWEST_BYTES_PER_S.min(line).max(1));
    let asked = wishes.time.unwrap_or_default().saturating_add(wishes.stall.unwrap_or_default());
    COPY_WAIT.saturating_add(moving).saturating_add(asked.saturating_mul(SLOWER))
}

/// Something took longer than anything but a hang does.
pub fn overdue(what: &str, patience: Duration) -> Failure {
    let cause = format!(
        "{what} was not over after {} s, and was ended: it hangs, or is slower than {SLOWEST_BYTES_PER_S} bytes a second",
        patience.as_secs()
    );
    Failure::new(FailureKind::Internal, MEASURE, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_take_as_long_as_its_data_need_and_one_that_hangs_is_told_to() {
        let hours = |rate: Option<u64>, budget_bytes| {
            let wishes = Wishes { rate_bits_per_s: rate, ..Wishes::default() };
            patience(&wishes, budget_bytes).as_secs_f64() / 3600.0
        };
        // A TiB at a Gbit/s needs 2.4 hours, 64 MiB at 100 kbit/s 1.5.
        assert!(hours(Some(1_000_000_000), 1 << 40) > 10.0);
        assert!(hours(Some(100_000), 64 << 20) > 10.0);
        assert!((1.0..2.0).contains(&hours(None, 64 << 20)));
        let asked = Wishes { time: Some(Duration::from_secs(7200)), ..Wishes::default() };
        assert!(patience(&asked, 1) > Duration::from_secs(72_000), "at a tenth of the rate");

        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().to_owned();
        let wishes = Wishes { program: "/bin/sh".into(), directory, ..Wishes::default() };
        let mut workspace = Workspace::new(&wishes, 1, &mut |_| ()).unwrap();
        workspace.patience = Duration::from_millis(20);
        let hangs = ["-c", "exec sleep 600"].map(str::to_owned);
        let failure = workspace.copy(None, None, &hangs).map(drop).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Internal);
        assert!(failure.cause.contains("was not over after"), "{}", failure.cause);
    }

    #[test]
    fn a_side_that_did_not_go_past_the_page_cache_is_known_by_what_the_copy_told() {
        let note = |text: &str| serde_json::json!({"event": "note", "text": text});
        let copied = Copied { wall_s: 1.0, cpu_s: None, finished: Value::Null };
        let events = vec![note("made `x`"), note("--direct source=on: read by way of the page cache: why")];
        let said = Said { copied, events };
        assert_eq!(said.missed_direct("source"), Some("read by way of the page cache: why"));
        assert_eq!(said.missed_direct("destination"), None);
    }
}
