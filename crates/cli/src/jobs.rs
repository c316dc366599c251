//! Jobs: commands of this user that go on without a terminal. Each has a directory of its own, `STATE/jobs/ID` (0700):
//!
//! - `record.json`: what was asked, who runs it, how it ended; put in place by rename, and synced.
//! - `lock`: locked by the process that keeps the job for as long as that lives. Whether a job runs is never believed
//!   from its record alone, and a number of a process is never believed without the moment at which it began.
//! - `log`, and before it `log.1`: what the command said; see [`Log`].
//! - `stop`: there if its user asked it to stop.
//!
//! Several machines may have one state directory, and not each other's locks: of a job that another one runs it is said
//! which, and no more. No secret is in a record beyond what stands in the words of the command itself.

mod log;

pub use log::{LOG_BYTES_MAX, Log, last_bytes, logs};

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_service::published::{self, Snapshot, machine};
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::clock::{since_1970, unix_seconds};
use thalweg_sys::other_process::OtherProcess;
use thalweg_sys::process::{boot_id, start_ticks};
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::path::Escaped;

/// Jobs that do not run whose records are kept.
pub const KEPT: usize = 200;
/// Records of jobs that do not run are kept for so long.
pub const KEPT_FOR: Duration = Duration::from_secs(90 * 86_400);
/// Longest name that a user gives a job, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Larger records are none of ours: a command line has at most 2 MiB, which are twice as many digits.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Time to get the lock of a job: who looks at it has it for a moment.
const CLAIM_LIMIT: Duration = Duration::from_secs(5);
const CLAIM_AGAIN: Duration = Duration::from_millis(20);
/// What was made so long ago, and was never begun, is left of a process that was killed.
const BEGIN_LIMIT: Duration = Duration::from_secs(3600);
/// Names that are tried: one is free unless somebody makes them.
const IDS_MAX: usize = 16;
/// Layout of a record. Fields are added, never renamed or given another meaning.
const SCHEMA: u32 = 1;

const RECORD: &str = "record.json";
const LOCK: &str = "lock";
const STOP: &str = "stop";

/// What fails where a job does not begin.
pub const BEGIN: &str = "begin the job";
const FIND: &str = "look for jobs";

/// Bytes that need not be text; in a record as hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub Vec<u8>);

impl TryFrom<String> for Bytes {
    type Error = &'static str;

    fn try_from(digits: String) -> std::result::Result<Bytes, &'static str> {
        unhex(&digits).map(Bytes).ok_or("hexadecimal digits are expected")
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        hex(&bytes.0)
    }
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Bytes,
}

/// What is to go on as a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// What its user calls it, too.
    pub name: Option<String>,
    /// The command line, without the program.
    pub words: Vec<Vec<u8>>,
    /// The directory that it was typed in.
    pub directory: Vec<u8>,
    /// The variables that were there of those that it goes by.
    pub environment: Vec<Variable>,
    /// Names of others that it may go by and that are not kept, as secrets are.
    pub withheld: Vec<String>,
}

/// What is recorded of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Layout, 1.
    pub schema: u32,
    /// Its number, unique in a state directory.
    pub id: String,
    /// What its user calls it, too.
    pub name: Option<String>,
    /// The command line, without the program.
    pub words: Vec<Bytes>,
    /// The directory that it was typed in.
    pub directory: Bytes,
    /// The variables that were there of those that it goes by.
    pub environment: Vec<Variable>,
    /// Names of others that it may go by and that are not kept.
    pub withheld: Vec<String>,
    /// When it was asked for, in milliseconds since 1970.
    pub asked_at_ms: u64,
    /// How often it has begun.
    pub runs: u32,
    /// Who runs it, or did last; `None` before it has begun.
    pub run: Option<Run>,
    /// How that ended, if it said so.
    pub end: Option<End>,
}

/// Who runs a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Tells its machine from others; see [`machine`].
    pub machine: String,
    /// The name of that, for people, and for machines that have one id.
    pub host: String,
    /// The run of the machine; `None` where the kernel does not tell.
    pub boot: Option<String>,
    /// The process that keeps the job.
    pub pid: u32,
    /// When that began, in clock ticks since boot.
    pub start_ticks: u64,
    /// The process of the command.
    pub command_pid: u32,
    /// When the command was started, in seconds since 1970.
    pub began_at: u64,
}

impl Run {
    /// By this process, of a command with this number that was started at this moment.
    pub fn of(command_pid: u32, began_at: u64) -> Run {
        let pid = std::process::id();
        Run {
            machine: machine().to_owned(),
            host: thalweg_sys::machine::host_name(),
            boot: boot_id(),
            pid,
            start_ticks: start_ticks(pid).unwrap_or_default(),
            command_pid,
            began_at,
        }
    }

    /// Whether this machine runs it, or did. Machines that were cloned with their id have names of their own; one that
    /// got another name is known by its boot.
    pub fn is_here(&self) -> bool {
        let is_this_boot = || self.boot.is_some() && self.boot == boot_id();
        self.machine == machine() && (self.host == thalweg_sys::machine::host_name() || is_this_boot())
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, in seconds since 1970.
    pub ended_at: u64,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it in the place of that.
    pub signal: Option<i32>,
    /// Whether its user had asked it to stop.
    pub was_stopped: bool,
}

impl End {
    fn state(&self) -> State {
        match (self.code, self.was_stopped) {
            (Some(0), _) => State::Done,
            (_, true) => State::Stopped,
            // By whoever shut the machine down, for instance: it did not come to an end of its own.
            (None | Some(129 | 130 | 143), false) => State::Interrupted,
            (Some(_), false) => State::Failed,
        }
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its places are not reached yet, for the first time.
    Beginning,
    /// Under way.
    Running,
    /// It ended with exit code 0.
    Done,
    /// It ended with another one.
    Failed,
    /// Its user asked it to stop, and it did, or is gone since.
    Stopped,
    /// A signal of somebody else ended it, or it is gone without an end: killed, or the machine was started anew.
    Interrupted,
    /// Another machine runs it, or did and has not said how it ended.
    Elsewhere,
}

impl State {
    /// As it is told.
    pub fn word(self) -> &'static str {
        match self {
            State::Beginning => "beginning",
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
            State::Stopped => "stopped",
            State::Interrupted => "interrupted",
            State::Elsewhere => "elsewhere",
        }
    }

    /// Whether it is known that nothing of it goes on.
    pub fn is_over(self) -> bool {
        !matches!(self, State::Beginning | State::Running | State::Elsewhere)
    }
}

/// A job, as it was when it was looked at.
#[derive(Debug, Clone)]
pub struct Job {
    /// Where it is recorded.
    pub directory: PathBuf,
    /// What is recorded.
    pub record: Record,
    /// How far it is.
    pub state: State,
}

impl Job {
    /// The job that is recorded there; `None` for what is none, or was never begun and is left.
    pub fn read(directory: &Path) -> Option<Job> {
        let record = read_record(directory)?;
        let state = state_of(directory, &record)?;
        Some(Job { directory: directory.to_owned(), record, state })
    }

    /// When it ended; of one that did not say so, when it began last.
    pub fn over_at(&self) -> u64 {
        let began = self.record.run.as_ref().map(|run| run.began_at);
        self.record.end.map(|end| end.ended_at).or(began).unwrap_or(self.record.asked_at_ms / 1000)
    }

    /// The process that keeps it; `None` if it is gone, or is another machine's.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn keeper(&self) -> io::Result<Option<OtherProcess>> {
        match &self.record.run {
            Some(run) if run.is_here() => OtherProcess::open(run.pid, run.start_ticks),
            _ => Ok(None),
        }
    }

    /// What its command tells of its transfers, in this state directory.
    pub fn transfers(&self, state: &Path) -> Vec<Snapshot> {
        let Some(run) = self.record.run.as_ref().filter(|run| run.is_here()) else { return Vec::new() };
        let is_its = |told: &Snapshot| {
            let of_machine = told.id.split('-').nth(3) == Some(run.machine.as_str());
            of_machine && told.pid == run.command_pid && !told.is_served && told.began_at >= run.began_at
        };
        let mut all = published::all(state);
        all.retain(is_its);
        all
    }

    /// Removes its record and its log.
    ///
    /// # Errors
    /// `Busy` if it runs, or may run on another machine; what the kernel says.
    pub fn forget(self) -> Result<()> {
        const FORGET: &str = "forget the job";
        let busy = |why: &str| Failure::new(FailureKind::Busy, FORGET, format!("{}: {why}", self.record.id));
        match self.state {
            State::Elsewhere => return Err(busy("another machine may run it: forget it there")),
            state if !state.is_over() => return Err(busy("it runs: `thalweg jobs stop` has it stop")),
            _ => {}
        }
        // Somebody may have resumed it since it was looked at.
        let held = open_lock(&self.directory).ok();
        if held.as_ref().is_some_and(|lock| !takes(lock)) {
            return Err(busy("it is being resumed"));
        }
        if read_record(&self.directory).is_some_and(|now| now.runs != self.record.runs) {
            return Err(busy("it was resumed meanwhile"));
        }
        fs::remove_dir_all(&self.directory)
            .map_err(|error| failure::at_path(failure::of_io(FORGET, &error), &self.directory))
    }
}

/// Where the jobs of a state directory are.
pub fn directory(state: &Path) -> PathBuf {
    state.join("jobs")
}

/// What is known of the jobs of a state directory.
#[derive(Debug, Default)]
pub struct Known {
    /// The jobs, the newest last.
    pub jobs: Vec<Job>,
    /// Of which jobs the records cannot be read, by their directories, and why.
    pub unread: Vec<(PathBuf, Failure)>,
}

/// All jobs, and those of which nobody knows what they are.
///
/// # Errors
/// When nobody can say which there are: that there are none is no error.
pub fn known(state: &Path) -> Result<Known> {
    let mut known = Known::default();
    for directory in directories(state)? {
        match look_for_record(&directory) {
            Ok(None) => {}
            Ok(Some(record)) => {
                if let Some(state) = state_of(&directory, &record) {
                    known.jobs.push(Job { directory, record, state });
                }
            }
            Err(failure) => known.unread.push((directory, failure)),
        }
    }
    known
        .jobs
        .sort_by(|a, b| (a.record.asked_at_ms, &a.record.id).cmp(&(b.record.asked_at_ms, &b.record.id)));
    known.unread.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(known)
}

/// All jobs that can be read, the newest last.
pub fn all(state: &Path) -> Vec<Job> {
    known(state).unwrap_or_default().jobs
}

/// The job with this number, the newest with this name, or the one whose number begins so.
///
/// # Errors
/// `NotFound` if there is none; `Usage` if the numbers of several begin so; as [`known`]; why its record cannot be
/// read.
pub fn find(state: &Path, asked: &str) -> Result<Job> {
    let Known { jobs: mut all, unread } = known(state)?;
    let is_asked = |directory: &Path| directory.file_name() == Some(OsStr::new(asked));
    if let Some((_, failure)) = unread.into_iter().find(|(directory, _)| is_asked(directory)) {
        return Err(failure);
    }
    let begins = |job: &Job| !asked.is_empty() && job.record.id.starts_with(asked);
    let at = all
        .iter()
        .position(|job| job.record.id == asked)
        .or_else(|| all.iter().rposition(|job| job.record.name.as_deref() == Some(asked)));
    let at = match at {
        Some(at) => Some(at),
        None if all.iter().filter(|job| begins(job)).count() > 1 => {
            let cause = format!("the numbers of several jobs begin with `{}`", Escaped(asked.as_bytes()));
            return Err(Failure::new(FailureKind::Usage, FIND, cause));
        }
        None => all.iter().position(begins),
    };
    at.map(|at| all.swap_remove(at)).ok_or_else(|| {
        let cause =
            format!("there is no job `{}`: `thalweg jobs` shows those known", Escaped(asked.as_bytes()));
        Failure::new(FailureKind::NotFound, FIND, cause)
    })
}

/// Records what is to go on as a job, and returns where. Of those that are over some may go for it.
///
/// # Errors
/// What the file system says: then nothing of it is left.
pub fn create(state: &Path, asked: Asked) -> Result<PathBuf> {
    let all = directory(state);
    let failed = |error: io::Error| failure::at_path(failure::of_io(BEGIN, &error), &all);
    DirBuilder::new().recursive(true).mode(0o700).create(&all).map_err(failed)?;
    tidy(state, SystemTime::now());
    let now = since_1970();
    let (id, directory) = make(&all, now).map_err(failed)?;
    let record = Record {
        schema: SCHEMA,
        id,
        name: asked.name,
        words: asked.words.into_iter().map(Bytes).collect(),
        directory: Bytes(asked.directory),
        environment: asked.environment,
        withheld: asked.withheld,
        asked_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        runs: 0,
        run: None,
        end: None,
    };
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(directory.join(LOCK));
    let made = lock.map_err(failed).and_then(|_| write_record(&directory, &record));
    match made {
        Ok(()) => Ok(directory),
        Err(failure) => {
            let _ = fs::remove_dir_all(&directory);
            Err(failure)
        }
    }
}

/// Puts a record in the place of the one that is there.
///
/// # Errors
/// What the file system says; then that one stands.
pub fn write_record(directory: &Path, record: &Record) -> Result<()> {
    const WRITE: &str = "write the record of the job";
    let path = directory.join(RECORD);
    let bytes = serde_json::to_vec(record)
        .map_err(|error| Failure::new(FailureKind::Internal, WRITE, error.to_string()))?;
    let written = atomic_file::write(&path, &bytes, 0o600, Durability::Synced);
    written.map_err(|error| failure::at_path(failure::of_io(WRITE, &error.cause), &path))
}

/// What is recorded there; `None` for what is no record.
pub fn read_record(directory: &Path) -> Option<Record> {
    look_for_record(directory).ok().flatten()
}

/// The same; `None` where there is none, or that of another number.
fn look_for_record(directory: &Path) -> Result<Option<Record>> {
    const READ: &str = "read the record of the job";
    let path = directory.join(RECORD);
    let mut text = Vec::new();
    let read = atomic_file::open(&path).and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut text));
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        read => read.map_err(|error| failure::at_path(failure::of_io(READ, &error), &path))?,
    };
    let record: Record = serde_json::from_slice(&text).map_err(|_| {
        let cause =
            "it is not what was written, or of a later thalweg; without its directory it is forgotten";
        failure::at_path(Failure::new(FailureKind::Damage, READ, cause), &path)
    })?;
    let is_its = directory.file_name().and_then(|name| name.to_str()) == Some(record.id.as_str());
    Ok(is_its.then_some(record))
}

/// That this process keeps a job: for as long as the value, and the process, lives.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// Takes the lock of a job.
///
/// # Errors
/// `Busy` if another process has it; what the file system says.
pub fn claim(directory: &Path) -> Result<Claim> {
    let lock = open_lock(directory)
        .map_err(|error| failure::at_path(failure::of_io(BEGIN, &error), &directory.join(LOCK)))?;
    match takes(&lock) {
        true => Ok(Claim { _lock: lock }),
        false => Err(Failure::new(FailureKind::Busy, BEGIN, "it runs already")),
    }
}

/// Whether nobody else has the lock of a job: then it is taken.
fn takes(lock: &File) -> bool {
    let until = Instant::now() + CLAIM_LIMIT;
    loop {
        match lock.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(CLAIM_AGAIN),
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Error(error)) => {
                // Then the moment at which a process began has to do.
                tracing::info!(%error, "no locks here");
                return true;
            }
        }
    }
}

/// Notes that its user asks a job to stop: neither what is then its end, nor that it has none, is taken for an
/// interruption.
///
/// # Errors
/// What the file system says.
pub fn ask_to_stop(directory: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(directory.join(STOP))?;
    Ok(())
}

/// Whether that was noted.
pub fn is_asked_to_stop(directory: &Path) -> bool {
    directory.join(STOP).exists()
}

/// Forgets that note: the job goes on.
pub fn goes_on(directory: &Path) {
    let _ = fs::remove_file(directory.join(STOP));
}

fn open_lock(directory: &Path) -> io::Result<File> {
    // NFS locks for one alone only what is open for writing, and for several what is open for reading.
    OpenOptions::new().read(true).write(true).open(directory.join(LOCK))
}

/// Whether a process keeps the job; `None` where locks do not tell. Who looks does not stand in the way of others who
/// do.
fn is_kept(directory: &Path) -> Option<bool> {
    match open_lock(directory).ok()?.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// `None` for what was never begun, and that nobody begins.
fn state_of(directory: &Path, record: &Record) -> Option<State> {
    let run = match (&record.run, &record.end) {
        (_, Some(end)) => return Some(end.state()),
        (None, None) => return (is_kept(directory) == Some(true)).then_some(State::Beginning),
        (Some(run), None) => run,
    };
    if !run.is_here() {
        return Some(State::Elsewhere);
    }
    let is_this_boot = run.boot.is_none() || boot_id().is_none_or(|now| Some(now) == run.boot);
    let is_there = || start_ticks(run.pid) == Some(run.start_ticks);
    let runs = is_this_boot && is_kept(directory).unwrap_or_else(is_there);
    Some(match runs {
        true => State::Running,
        // Whatever ended it before it had put away what was written: its user does not want it.
        false if is_asked_to_stop(directory) => State::Stopped,
        false => State::Interrupted,
    })
}

fn directories(state: &Path) -> Result<Vec<PathBuf>> {
    let all = directory(state);
    let failed = |error: io::Error| failure::at_path(failure::of_io(FIND, &error), &all);
    match fs::read_dir(&all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries.map_err(failed)?;
            entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
        }
    }
}

/// A directory of its own, by a name that begins with the seconds since 1970.
fn make(all: &Path, now: Duration) -> io::Result<(String, PathBuf)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..IDS_MAX {
        // Its keys are random ones of the system's.
        let number = RandomState::new().hash_one(now) & 0xffff;
        let id = format!("{:08x}{number:04x}", now.as_secs());
        let directory = all.join(&id);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok((id, directory)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Forgets jobs that are over beyond [`KEPT`], less one for the next, and for longer than [`KEPT_FOR`], and what was
/// never begun.
fn tidy(state: &Path, now: SystemTime) {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut over: Vec<Job> = all(state).into_iter().filter(|job| job.state.is_over()).collect();
    over.sort_by_key(Job::over_at);
    let too_many = (over.len() + 1).saturating_sub(KEPT);
    for (at, job) in over.into_iter().enumerate() {
        let is_old = seconds.saturating_sub(job.over_at()) > KEPT_FOR.as_secs();
        if at < too_many || is_old {
            let _ = job.forget();
        }
    }
    for directory in directories(state).unwrap_or_default() {
        let made = || fs::metadata(&directory).and_then(|found| found.modified());
        let is_left = || made().is_ok_and(|made| now.duration_since(made).is_ok_and(|age| age > BEGIN_LIMIT));
        if is_unbegun(&directory) && is_left() && is_kept(&directory) != Some(true) {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// Whether what is there was never begun. A record that cannot be read tells nothing.
fn is_unbegun(directory: &Path) -> bool {
    match atomic_file::open(&directory.join(RECORD)) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(_) => read_record(directory).is_some_and(|record| record.run.is_none()),
    }
}

/// How a command ended, now, for its record.
pub fn end(code: Option<i32>, signal: Option<i32>, directory: &Path) -> End {
    End { ended_at: unix_seconds(), code, signal, was_stopped: is_asked_to_stop(directory) }
}

#[cfg(test)]
mod tests;
