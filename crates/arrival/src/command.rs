//! The command that analyses, below a keeper, below a guard.
//!
//! The keeper is a process of its own that outlives the watcher: it starts the command, waits, and records the end
//! durably. The guard stands above it: where the keeper is killed the kernel hands the command to the guard
//! (`PR_SET_CHILD_SUBREAPER`), which waits for it and records its end instead. Whoever is killed, the next watcher
//! finds the end in the record, or a command that still lives by the lock that guard, keeper and command hold, and
//! waits for it. Only where guard and keeper of one run are both killed nobody knows how it ended.
//!
//! The command is a program and its arguments, never a text for a shell; names go to it in its environment.

use crate::machine::Outcome;
use rustix::io::Errno;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait, waitid,
};
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason};

/// What is run for each item.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// How a keeper is started: a program and words that [`keep`] is called for, to which the record, the program and
    /// its arguments are appended.
    pub keeper: Vec<OsString>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Analysis {
    /// Whether there is such a program, where the system looks for it, and we may run it.
    ///
    /// # Errors
    /// `Usage` with its name.
    pub fn check(&self) -> Result<(), Failure> {
        let program = self.program.as_bytes();
        let found = match program.contains(&b'/') {
            true => may_run(Path::new(&self.program)),
            false => {
                let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
                let places = std::env::split_paths(&path).map(|directory| directory.join(&self.program));
                first_that_runs(places.map(|place| may_run(&place)))
            }
        };
        found.map_err(|error| {
            let failure = failure::of_io("find the program to run", &error).because(Reason::NoProgram);
            let failure = Failure { kind: FailureKind::Usage, ..failure };
            failure::with_words(failure, &format!("`{}`", failure::shown_path(program)))
        })
    }
}

/// Where the C library looks for programs if nobody says where.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

fn may_run(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.is_file() {
        true => rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(io::Error::from),
        false => Err(Errno::ACCESS.into()),
    }
}

/// As the system goes on where one may not be run; that is told if none may.
fn first_that_runs(tried: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let mut why = Errno::NOENT;
    for found in tried {
        match found {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => why = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(why.into())
}

/// Where the end of one run is recorded, and the lock that is held as long as it lives.
#[derive(Debug, Clone)]
pub struct RunPlace {
    end: PathBuf,
    lock: PathBuf,
    /// Number of the command's process, while it lives.
    pid: PathBuf,
}

/// What an end takes: how a command can end that was started is less.
const RESERVED_BYTES: usize = 64;
/// Time between two looks whether a run has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl RunPlace {
    /// In this directory, by this name.
    pub fn new(directory: &Path, name: &str) -> RunPlace {
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        RunPlace { end: file("end"), lock: file("lock"), pid: file("pid") }
    }

    /// How it ended. `None` if that is not recorded.
    ///
    /// # Errors
    /// If nobody can say whether it is: then nothing may be recorded in its place.
    fn ended(&self) -> io::Result<Option<Outcome>> {
        match std::fs::read(&self.end) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody needs a record any more: what its command left behind may live on.
    fn is_forgotten(&self) -> bool {
        !self.lock.exists()
    }

    /// Room for the record of the end, so that a disk that is full by then loses nothing: of a success nobody would
    /// know.
    fn reserve(&self) -> io::Result<()> {
        let mut file = crate::own_file().write(true).truncate(true).open(self.fresh())?;
        file.write_all(&[b' '; RESERVED_BYTES])?;
        file.sync_all()
    }

    /// Where the record stands before it has its name.
    fn fresh(&self) -> PathBuf {
        self.end.with_extension("new")
    }

    fn record(&self, outcome: &Outcome) -> io::Result<()> {
        let fresh = self.fresh();
        // What is reserved is written over, and not given back first.
        let mut file = crate::own_file().write(true).open(&fresh)?;
        let text = serde_json::to_vec(outcome)?;
        file.write_all(&text)?;
        file.write_all(&vec![b' '; RESERVED_BYTES.saturating_sub(text.len())])?;
        file.set_len(text.len().max(RESERVED_BYTES) as u64)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.end)?;
        thalweg_sys::Dir::open(self.end.parent().unwrap_or(Path::new(".")))?.sync()
    }

    fn open_lock(&self) -> io::Result<File> {
        crate::own_file().read(true).append(true).open(&self.lock)
    }

    /// Locked for us, unless the run has ended or lives.
    fn claim(&self) -> io::Result<Option<File>> {
        let lock = self.open_lock()?;
        match lock.try_lock() {
            Ok(()) => Ok(self.ended()?.is_none().then_some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Waits until the run has ended, whoever began it; `None` when `stops` says so first. A run that has not begun now
    /// never will. What the command leaves behind, which has the lock as it had, is not waited for.
    ///
    /// # Errors
    /// What the kernel says about the record: how it ended is not known then, and may be asked again.
    pub fn wait(&self, stops: &dyn Fn() -> bool) -> io::Result<Option<Outcome>> {
        let mut opened = None;
        loop {
            if let Some(outcome) = self.ended()? {
                return Ok(Some(outcome));
            }
            let lock = match &opened {
                Some(lock) => lock,
                None => opened.insert(self.open_lock()?),
            };
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if stops() => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        // It may have been recorded just before the lock was free.
        if let Some(outcome) = self.ended()? {
            return Ok(Some(outcome));
        }
        // A keeper that comes late finds this, and begins nothing.
        self.record(&Outcome::Unknown)?;
        Ok(Some(Outcome::Unknown))
    }

    /// The command's process, once its keeper has said so.
    fn known_command(&self) -> Option<u32> {
        // Without the end of its line it is not all of the number.
        std::fs::read_to_string(&self.pid).ok()?.strip_suffix('\n')?.parse().ok()
    }

    fn record_unless_ended(&self, status: WaitStatus) -> io::Result<()> {
        match self.ended()? {
            Some(_) => Ok(()),
            None if self.is_forgotten() => Ok(()),
            None => self.record(&outcome(status.exit_status(), status.terminating_signal())),
        }
    }

    /// Removes what is recorded.
    pub fn forget(&self) {
        // Without the lock a guard that comes late records nothing: the number of a run may be used again.
        for path in [&self.lock, &self.end, &self.pid, &self.fresh()] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Where a command can read its item here. Not every command is told one.
pub const ITEM_PATH: &str = "THALWEG_ITEM_PATH";

/// Starts a keeper with the command, in a process group of its own: a signal of the terminal is for the watcher. What
/// the command prints goes to our standard error. The lock goes with it, as its standard input: from now on the run
/// lives, also as long as a busy machine has the keeper wait for its first step.
///
/// # Errors
/// What the kernel says; `AlreadyExists` for a run that has ended or lives.
pub fn start(
    analysis: &Analysis,
    place: &RunPlace,
    environment: &[(&'static str, OsString)],
) -> io::Result<Child> {
    let (program, words) = analysis.keeper.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let lock = place.claim()?.ok_or(io::ErrorKind::AlreadyExists)?;
    place.reserve()?;
    Command::new(program)
        .args(words)
        .arg(place.end.with_extension(""))
        .arg(&analysis.program)
        .args(&analysis.arguments)
        // A watch may be run by the command of another one.
        .env_remove(ITEM_PATH)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(lock)
        .stdout(io::stderr())
        .process_group(0)
        .spawn()
}

/// Waits for a keeper that was started here; `false` when `stops` says so first.
///
/// # Errors
/// What the kernel says.
pub fn reap(keeper: &mut Child, stops: &dyn Fn() -> bool) -> io::Result<bool> {
    while keeper.try_wait()?.is_none() {
        if stops() {
            return Ok(false);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(true)
}

/// The guard's own work: has `keeper` run the command once, unless this run has ended, and records how it ended if the
/// keeper does not. The lock is our standard input, and the keeper's.
///
/// # Errors
/// If that cannot be recorded.
pub fn guard(record: &Path, keeper: &mut Command) -> io::Result<()> {
    let place = place_of(record)?;
    if place.ended()?.is_some() {
        return Ok(());
    }
    // Where it cannot be had the keeper has no guard, and all else is the same.
    let _ = set_child_subreaper(Some(getpid()));
    let keeper = keeper.spawn()?;
    // Who the command is, where the keeper was killed before it could say so; and who ended before that was known.
    let mut command = None;
    let mut unclaimed = Vec::new();
    loop {
        let (pid, status) = match wait(WaitOptions::empty()) {
            // Nobody is left.
            Err(Errno::CHILD) => return Ok(()),
            Err(Errno::INTR) | Ok(None) => continue,
            Err(error) => return Err(error.into()),
            Ok(Some(ended)) => ended,
        };
        let known = place.known_command().or(command);
        if !pid_is(pid, keeper.id()) {
            match known {
                Some(known) if pid_is(pid, known) => return place.record_unless_ended(status),
                None if unclaimed.len() < UNCLAIMED_MAX => unclaimed.push((pid, status)),
                Some(_) | None => {}
            }
            continue;
        }
        // A keeper that succeeded has recorded it. Nobody is asked what the command left behind.
        if status.exit_status() == Some(0) || place.ended()?.is_some() || place.is_forgotten() {
            return Ok(());
        }
        // What it began is ours since it is gone; so is what the command left behind, which would be others.
        let lives = if known.is_none() { children() } else { Vec::new() };
        let ended = unclaimed.iter().filter(|(pid, _)| known.is_none_or(|known| pid_is(*pid, known)));
        match (ended.collect::<Vec<_>>().as_slice(), lives.as_slice()) {
            ([(_, status)], []) => return place.record_unless_ended(*status),
            ([], [one]) => command = Some(*one),
            _ => {}
        }
    }
}

/// Processes that ended while nobody knew which of them is the command: one is what is expected.
const UNCLAIMED_MAX: usize = 16;

/// Children of this process that are not waited for.
fn children() -> Vec<u32> {
    let own = std::process::id();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent(*pid) == Some(own)).collect()
}

/// Parent of a process (`/proc/PID/stat`, whose second field may have anything in its brackets).
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The keeper's own work below a guard, which holds the lock and gave it to us as standard input.
///
/// # Errors
/// If the end cannot be recorded.
pub fn keep_below_guard(record: &Path, program: &OsStr, arguments: &[OsString]) -> io::Result<()> {
    let lock = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    run(&place_of(record)?, &lock, program, arguments)
}

/// The keeper's own work without a guard: runs the command once, unless this run has ended or lives already, and
/// records how it ended.
///
/// # Errors
/// If that cannot be recorded.
pub fn keep(record: &Path, program: &OsStr, arguments: &[OsString]) -> io::Result<()> {
    let place = place_of(record)?;
    match place.claim()? {
        Some(lock) => run(&place, &lock, program, arguments),
        None => Ok(()),
    }
}

fn place_of(record: &Path) -> io::Result<RunPlace> {
    let name = record.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(RunPlace::new(record.parent().unwrap_or(Path::new(".")), name))
}

fn run(place: &RunPlace, lock: &File, program: &OsStr, arguments: &[OsString]) -> io::Result<()> {
    // The lock, an empty file, is the command's standard input: so it is held as long as the command lives, also
    // without us.
    let child = match Command::new(program).args(arguments).stdin(lock.try_clone()?).spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = failure::shown_path(program.as_bytes());
            return place.record(&Outcome::NotStarted(format!("`{program}`: {error}")));
        }
    };
    // For the guard alone: without it, as on a full disk, we record the end all the same.
    let told = crate::own_file().write(true).truncate(true).open(&place.pid);
    let _ = told.and_then(|mut file| file.write_all(format!("{}\n", child.id()).as_bytes()));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // Looked at, and left to be waited for: if we are killed before its end is recorded, the guard sees it as well.
    let status = loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => break status,
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    place.record(&outcome(status.exit_status(), status.terminating_signal()))
}

fn outcome(code: Option<i32>, signal: Option<i32>) -> Outcome {
    match code {
        Some(0) => Outcome::Succeeded,
        Some(code) => Outcome::Failed(code),
        None => Outcome::Killed(signal.unwrap_or_default()),
    }
}

fn pid_is(pid: Pid, number: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_keeper_records_how_the_command_ended_and_runs_it_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let ran = at("ran");
        let touch = words(&["-c", "echo x >> \"$0\"; exit 3", ran.to_str().unwrap()]);
        for _ in 0..2 {
            keep(&at("1"), OsStr::new("/bin/sh"), &touch).unwrap();
        }
        let place = RunPlace::new(directory.path(), "1");
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Failed(3)));
        assert_eq!(std::fs::read_to_string(&ran).unwrap(), "x\n");
        keep(&at("2"), OsStr::new("/does/not/exist"), &[]).unwrap();
        let ended = RunPlace::new(directory.path(), "2").wait(&|| false).unwrap();
        let names_it = |why: &str| why.starts_with("`/does/not/exist`: ");
        assert!(matches!(&ended, Some(Outcome::NotStarted(why)) if names_it(why)), "{ended:?}");
        place.forget();
        assert_eq!(place.ended().unwrap(), None);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_known_before_it_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "#!/bin/sh\n").unwrap();
        let check = |program: &OsStr| {
            Analysis { keeper: Vec::new(), program: program.to_owned(), arguments: Vec::new() }.check()
        };
        check(OsStr::new("/bin/sh")).unwrap();
        check(OsStr::new("sh")).unwrap();
        let others = ["thalweg-has-no-such-program", "/bin/sh -c true", ""].map(OsStr::new);
        for program in others.into_iter().chain([plain.as_os_str(), directory.path().as_os_str()]) {
            let failure = check(program).unwrap_err();
            let name = format!("`{}`: ", program.display());
            assert!(failure.kind == FailureKind::Usage && failure.cause.starts_with(&name), "{failure}");
        }
    }

    #[test]
    fn a_run_that_never_began_never_begins_once_somebody_asked() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Unknown));
        let ran = directory.path().join("ran");
        keep(&directory.path().join("1"), OsStr::new("/usr/bin/touch"), &[ran.clone().into()]).unwrap();
        assert!(!ran.exists());
    }

    #[test]
    fn a_run_whose_keeper_has_not_begun_yet_lives() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        // What a keeper is on a machine that has no time for it.
        let analysis = Analysis {
            keeper: words(&["/bin/sh", "-c", "exec sleep 60"]),
            program: "/bin/true".into(),
            arguments: Vec::new(),
        };
        let mut keeper = start(&analysis, &place, &[]).unwrap();
        assert_eq!(place.wait(&|| true).unwrap(), None, "who asks now must not think that it never begins");
        assert_eq!(start(&analysis, &place, &[]).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Unknown));
    }

    #[test]
    fn an_end_is_recorded_though_the_number_of_the_process_cannot_be() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        std::fs::create_dir(&place.pid).unwrap();
        keep(&directory.path().join("1"), OsStr::new("/bin/true"), &[]).unwrap();
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Succeeded));
    }

    #[test]
    fn an_end_takes_no_more_room_than_was_reserved_for_it() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        for outcome in [Outcome::Killed(i32::MIN), Outcome::Failed(i32::MIN), Outcome::Succeeded] {
            place.reserve().unwrap();
            let reserved = std::fs::metadata(place.fresh()).unwrap();
            place.record(&outcome).unwrap();
            let recorded = std::fs::metadata(&place.end).unwrap();
            assert_eq!((recorded.ino(), recorded.len()), (reserved.ino(), reserved.len()), "{outcome:?}");
            assert_eq!(place.ended().unwrap(), Some(outcome));
        }
    }

    #[test]
    fn what_a_command_left_behind_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        let behind = directory.path().join("behind");
        // As a program does that starts a server: it has the standard input of who started it.
        let leaves = words(&["-c", "exec 3<&0; sleep 60 <&3 & echo $! > \"$0\"", behind.to_str().unwrap()]);
        keep(&directory.path().join("1"), OsStr::new("/bin/sh"), &leaves).unwrap();
        assert_eq!(place.wait(&|| true).unwrap(), Some(Outcome::Succeeded));
        let pid: i32 = std::fs::read_to_string(&behind).unwrap().trim().parse().unwrap();
        let is_held = place.open_lock().unwrap().try_lock().is_err();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
        assert!(is_held, "what it left behind has the lock");
    }

    #[test]
    fn an_end_that_cannot_be_read_is_not_recorded_anew() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        std::fs::create_dir(&place.end).unwrap();
        assert!(place.wait(&|| false).is_err());
        std::fs::remove_dir(&place.end).unwrap();
        place.record(&Outcome::Succeeded).unwrap();
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Succeeded));
    }

    #[test]
    fn a_command_without_its_keeper_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let place = RunPlace::new(directory.path(), "1");
        let lock = place.open_lock().unwrap();
        lock.try_lock().unwrap();
        let mut child = Command::new("/bin/sleep").arg("60").stdin(lock).spawn().unwrap();
        assert_eq!(place.wait(&|| true).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Unknown));
    }
}
