//! Where a suite works: a directory that goes with it, the program as client and server, and what they took.

use super::network::Host;
use super::producer::Producer;
use super::watcher::Watcher;
use super::{Wishes, stopped};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};
use thalweg_mover::link::ticket::Ticket;
use thalweg_sys::Dir;
use thalweg_sys::child::dies_with_us;
use thalweg_sys::usage::children_cpu;

/// How long a server may take to start or to end.
const SERVER_WAIT: Duration = Duration::from_secs(20);

/// How long one copy may take besides what its data and the times that were asked for need: only one that hangs takes longer.
const COPY_WAIT: Duration = Duration::from_secs(3600);

/// What the slowest copy still moves in a second, or a tenth of a slower line: small files over a long way are the slowest.
const SLOWEST_BYTES_PER_S: u64 = 100_000;

/// The slowest case of a suite takes so many times as long as is asked for: `frames` makes some a tenth as fast as others.
const SLOWER: u32 = 10;

const POLL: Duration = Duration::from_millis(2);

/// What of a client's words is kept.
const WORDS_BYTES_MAX: u64 = 64 << 20;

/// See the module.
pub struct Workspace {
    program: PathBuf,
    directory: PathBuf,
    /// Held while the directory is in use.
    _lock: OwnedFd,
    stop: Arc<AtomicBool>,
    /// How long one copy may take.
    patience: Duration,
    running: Running,
    /// Servers so far: each has a state and a ticket of its own.
    daemons: AtomicUsize,
}

/// Clients and servers that run now.
type Running = Arc<Mutex<BTreeSet<u32>>>;

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

/// `thalweg serve`, with an export `data`; ends with the value.
pub struct Daemon {
    child: Child,
    /// `HOST:PORT`.
    address: String,
    ticket: PathBuf,
    export: PathBuf,
    _noted: Noted,
}

/// What scratch directories are called, before the number of the process and a random one.
const NAME: &str = "thalweg-bench-";

/// Digits of the random number.
const NAME_DIGITS: usize = 8;

/// Names that are tried.
const NAMES: usize = 100;

impl Workspace {
    /// Makes its directory, after it has removed those of runs that were killed; `hear` is told of them. `budget_bytes`: of the
    /// largest data set.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(wishes: &Wishes, budget_bytes: u64, hear: &mut dyn FnMut(&str)) -> Result<Workspace> {
        let failed = |error: std::io::Error| {
            let mut failure = of_io("make a scratch directory", &error);
            failure.cause = format!("in {}: {}", wishes.directory.display(), failure.cause);
            failure
        };
        let parent = fs::canonicalize(&wishes.directory).map_err(failed)?;
        remove_deserted(&parent, hear);
        let (directory, lock) = make(&parent).map_err(failed)?;
        let workspace = Workspace {
            program: wishes.program.clone(),
            directory,
            _lock: lock,
            stop: wishes.stop.clone(),
            patience: patience(wishes, budget_bytes),
            running: Running::default(),
            daemons: AtomicUsize::new(0),
        };
        // Nobody's configuration but ours.
        fs::write(workspace.path("config.toml"), "").map_err(failed)?;
        Ok(workspace)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Removes what is there, if anything.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(of_io("remove", &error)),
            _ => Ok(()),
        }
    }

    /// Lets no write of others be under way when a measurement begins.
    ///
    /// # Errors
    /// What the file system says.
    pub fn settle(&self) -> Result<()> {
        let synced = Dir::open(&self.directory).and_then(|directory| directory.sync_file_system());
        synced.map_err(|error| of_io("sync the scratch directory", &error))
    }

    /// Bytes that are free for data.
    ///
    /// # Errors
    /// What the file system says.
    pub fn free_bytes(&self) -> Result<u64> {
        let told = rustix::fs::statvfs(&self.directory);
        let told = told.map_err(|error| of_io("ask for free space", &error.into()))?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    /// Refuses what does not fit, before it is begun.
    ///
    /// # Errors
    /// `Space`.
    pub fn needs(&self, bytes: u64) -> Result<()> {
        let free = self.free_bytes()?;
        if free / 10 * 9 >= bytes {
            return Ok(());
        }
        let cause = format!(
            "{} MiB are needed in {}, {} MiB are free: a smaller --budget needs less, --dir names another place",
            bytes >> 20,
            self.directory.display(),
            free >> 20
        );
        Err(Failure::new(FailureKind::Space, "measure", cause))
    }

    /// CPU of all clients and servers so far, those that ended too, and of whatever else was started; only differences
    /// mean anything.
    pub fn cpu_s(&self) -> f64 {
        // Those that ended between the two looks are missed for once, never counted twice.
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let live: f64 = running.iter().filter_map(|&pid| cpu_of(pid)).sum();
        live + children_cpu().as_secs_f64()
    }

    /// The program that is measured, with a state and a configuration of its own. It ends with us.
    pub fn command(&self, who: &str) -> Command {
        self.command_of(&self.program, who)
    }

    /// The same of this program: what makes a path is the same, whichever program is measured over it.
    ///
    /// # Errors
    /// If it cannot be found.
    pub fn own_command(&self, who: &str) -> Result<Command> {
        let own = std::env::current_exe().map_err(|error| of_io("find the program thalweg", &error))?;
        Ok(self.command_of(&own, who))
    }

    fn command_of(&self, program: &Path, who: &str) -> Command {
        let mut command = Command::new(program);
        dies_with_us(&mut command);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command.env("THALWEG_STATE", self.path(who)).env("THALWEG_CONFIG", self.path("config.toml"));
        command
    }

    /// Starts a server on the loopback, or in a host.
    ///
    /// # Errors
    /// If it does not start.
    pub fn daemon(&self, host: Option<&Host>) -> Result<Daemon> {
        self.daemon_with(host, &[])
    }

    /// The same, with more words.
    ///
    /// # Errors
    /// As there.
    pub fn daemon_with(&self, host: Option<&Host>, more: &[&str]) -> Result<Daemon> {
        // Hosts of two testbeds have the same names.
        let number = self.daemons.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", host.map_or("here", |host| &host.name));
        let failed = |error: std::io::Error| of_io("start the server", &error);
        let export = self.path(&format!("served-{name}"));
        fs::create_dir_all(&export).map_err(failed)?;
        let ticket = self.path(&format!("ticket-{name}"));
        let listen = host.map_or_else(|| "127.0.0.1:0".to_owned(), |host| format!("{}:8487", host.address));
        let mut command = self.command(&format!("server-{name}"));
        command.args(["serve", "--listen", &listen, "--export"]);
        command.arg(format!("data={}", export.display())).arg("--ticket-file").arg(&ticket).args(more);
        let mut command = enter(host, command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(failed)?;
        let noted = Noted::new(&self.running, child.id());
        let mut daemon = Daemon { child, address: String::new(), ticket, export, _noted: noted };
        let until = Instant::now() + SERVER_WAIT;
        // Written when it listens.
        loop {
            if daemon.ticket.exists() {
                let ticket = Ticket::read(&daemon.ticket)?;
                daemon.address = ticket.addresses.into_iter().next().unwrap_or_default();
                return Ok(daemon);
            }
            let ended = daemon.child.try_wait().map_err(failed)?;
            if ended.is_some() || Instant::now() > until {
                let cause =
                    ended.map_or_else(|| "it wrote no ticket".to_owned(), |code| format!("it ended: {code}"));
                return Err(Failure::new(FailureKind::Internal, "start the server", cause));
            }
            std::thread::sleep(POLL);
        }
    }

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
        Err(Failure::new(FailureKind::Internal, "measure", cause))
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
            return Err(Failure::new(FailureKind::Internal, "measure", cause));
        }
        let fed = fed.map_err(|_| Failure::new(FailureKind::Internal, "feed a copy", "a thread panicked"))?;
        let fed = fed.map_err(|error| of_io("feed a copy", &error))?;
        let copied = Copied { wall_s, cpu_s: served_s.map(|served_s| served_s + client_s), finished };
        Ok((Said { copied, events }, fed))
    }

    /// Passes a file on from one server to another, through a host that keeps nothing of it: `thalweg stream` out of the
    /// one, into the other.
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

struct Ended {
    is_good: bool,
    at: Instant,
    out: String,
    errors: String,
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Daemon {
    /// Where `name` is served.
    pub fn url(&self, name: &str) -> String {
        format!("tw://{}/data/{name}", self.address)
    }

    /// Where that is on the disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }

    /// CPU that it took so far; none where it cannot be told.
    fn cpu_s(&self) -> Option<f64> {
        cpu_of(self.child.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A process is among those that run, as long as this is there.
pub(super) struct Noted {
    running: Running,
    pid: u32,
}

impl Noted {
    fn new(running: &Running, pid: u32) -> Noted {
        running.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        Noted { running: running.clone(), pid }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

fn cpu_of(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything; utime and stime are the 12th and the 13th word behind it (proc(5)).
    let mut words = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// How long a copy of so many bytes may take.
fn patience(wishes: &Wishes, budget_bytes: u64) -> Duration {
    let line = wishes.rate_bits_per_s.map_or(u64::MAX, |rate| rate / 8 / 10);
    let moving = Duration::from_secs(budget_bytes / SLOWEST_BYTES_PER_S.min(line).max(1));
    let asked = wishes.time.unwrap_or_default().saturating_add(wishes.stall.unwrap_or_default());
    COPY_WAIT.saturating_add(moving).saturating_add(asked.saturating_mul(SLOWER))
}

/// Something took longer than anything but a hang does.
pub(super) fn overdue(what: &str, patience: Duration) -> Failure {
    let cause = format!(
        "{what} was not over after {} s, and was ended: it hangs, or is slower than {SLOWEST_BYTES_PER_S} bytes a second",
        patience.as_secs()
    );
    Failure::new(FailureKind::Internal, "measure", cause)
}

/// A scratch directory with its lock.
fn make(parent: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for _ in 0..NAMES {
        // Each state of a hasher begins with another key.
        let random = RandomState::new().hash_one(()) as u32;
        let directory = parent.join(format!("{NAME}{}-{random:0NAME_DIGITS$x}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // Who clears what killed runs left may have come before the lock: then this one is his.
        match lock(&directory) {
            Ok(held) if is_it(&directory, &held) => return Ok((directory, held)),
            Ok(_) => {}
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::NotFound].contains(&error.kind()) => {}
            Err(error) => {
                let _ = fs::remove_dir(&directory);
                return Err(error);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES} names are taken")))
}

/// Whether what is open is what has the name.
fn is_it(directory: &Path, held: &OwnedFd) -> bool {
    let named = fs::symlink_metadata(directory);
    let open = rustix::fs::fstat(held);
    named.is_ok_and(|named| open.is_ok_and(|open| (named.dev(), named.ino()) == (open.st_dev, open.st_ino)))
}

fn lock(directory: &Path) -> std::io::Result<OwnedFd> {
    let held = OwnedFd::from(fs::File::open(directory)?);
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(held)
}

/// Whether a directory of this name is a scratch directory.
fn is_scratch(name: &str) -> bool {
    let numbers = name.strip_prefix(NAME).and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok()
            && random.len() == NAME_DIGITS
            && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Removes scratch directories of ours whose run was killed: nobody holds their lock, here or at another machine of a
/// shared file system. Numbers of processes say nothing: in a container the next run has that of the last.
fn remove_deserted(parent: &Path, hear: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_scratch) {
            continue;
        }
        let path = entry.path();
        let is_ours = fs::symlink_metadata(&path)
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == thalweg_sys::usage::effective_uid());
        if !is_ours {
            continue;
        }
        let Ok(_held) = lock(&path) else { continue };
        hear(&match fs::remove_dir_all(&path) {
            Ok(()) => format!("removed what a killed run left: {}", path.display()),
            Err(error) => format!("cannot remove what a killed run left: {}: {error}", path.display()),
        });
    }
}

/// Through `thalweg testbed run`, which becomes the program: its number stays the same.
fn enter(host: Option<&Host>, command: Command) -> Command {
    match host {
        Some(host) => host.enter(&command),
        None => command,
    }
}

/// Asks it to end, and ends it if it does not.
pub(super) fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let until = Instant::now() + SERVER_WAIT;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(directory: &Path) -> Wishes {
        Wishes { directory: directory.to_owned(), ..Wishes::default() }
    }

    fn workspace(wishes: &Wishes, told: &mut Vec<String>) -> Workspace {
        Workspace::new(wishes, 1, &mut |line| told.push(line.to_owned())).unwrap()
    }

    /// In a container the next run has the number of the killed one, and this process has its own.
    #[test]
    fn what_a_killed_run_of_the_same_number_left_is_removed_and_what_is_in_use_or_anothers_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let left = at(&format!("{NAME}{}-0123abcd", std::process::id()));
        let others = [at("thalweg-bench-results"), at("thalweg-bench-7-results"), at("thalweg-bench-7")];
        fs::create_dir(&left).unwrap();
        others.iter().for_each(|other| fs::create_dir(other).unwrap());
        let mut told = Vec::new();
        let one = workspace(&wishes(scratch.path()), &mut told);
        assert!(!left.exists() && told[0].contains("removed what a killed run left"), "{told:?}");
        let two = workspace(&wishes(scratch.path()), &mut told);
        assert_eq!(told.len(), 1, "of the same process, and in use: {told:?}");
        assert!(one.path("config.toml").exists() && two.path("config.toml").exists());
        assert!(others.iter().all(|other| other.is_dir()));
        drop((one, two));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), others.len());
    }

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
        let wishes = Wishes { program: "/bin/sh".into(), ..wishes(scratch.path()) };
        let mut workspace = workspace(&wishes, &mut Vec::new());
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
