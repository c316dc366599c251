//! The command that analyses, below a keeper.
//!
//! The keeper is a process of its own that outlives the watcher: it starts the command, waits, and records the end durably.
//! Whoever is killed, the next watcher finds the end in the record, or a command that still lives by the lock that the
//! keeper and the command hold, and waits for it. Only where keeper and command are both gone without a record nobody knows.
//!
//! The command is a program and its arguments, never a text for a shell; names go to it in its environment.

use crate::machine::Outcome;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What is run for each item.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// How a keeper is started: a program and words that [`keep`] is called for, to which the record, the program and its
    /// arguments are appended.
    pub keeper: Vec<OsString>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Where the end of one run is recorded, and the lock that is held as long as it lives.
#[derive(Debug, Clone)]
pub struct RunPlace {
    end: PathBuf,
    lock: PathBuf,
}

/// Time between two looks whether a run has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl RunPlace {
    /// In this directory, by this name.
    pub fn new(directory: &Path, name: &str) -> RunPlace {
        RunPlace { end: directory.join(format!("{name}.end")), lock: directory.join(format!("{name}.lock")) }
    }

    /// How it ended. `None` if that is not recorded.
    fn ended(&self) -> Option<Outcome> {
        serde_json::from_slice(&std::fs::read(&self.end).ok()?).ok()
    }

    fn record(&self, outcome: &Outcome) -> io::Result<()> {
        let fresh = self.end.with_extension("new");
        let mut file = crate::own_file().write(true).truncate(true).open(&fresh)?;
        file.write_all(&serde_json::to_vec(outcome)?)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.end)?;
        File::open(self.end.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn open_lock(&self) -> io::Result<File> {
        crate::own_file().read(true).append(true).open(&self.lock)
    }

    /// Waits until the run has ended, whoever began it; `None` when `stops` says so first. A run that has not begun now
    /// never will.
    ///
    /// # Errors
    /// What the kernel says about the record.
    pub fn wait(&self, stops: &dyn Fn() -> bool) -> io::Result<Option<Outcome>> {
        let lock = self.open_lock()?;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if stops() => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        if let Some(outcome) = self.ended() {
            return Ok(Some(outcome));
        }
        // A keeper that comes late finds this, and begins nothing.
        self.record(&Outcome::Unknown)?;
        Ok(Some(Outcome::Unknown))
    }

    /// Removes what is recorded.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.end);
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// Starts a keeper with the command, in a process group of its own: a signal of the terminal is for the watcher. What the
/// command prints goes to our standard error.
///
/// # Errors
/// What the kernel says.
pub fn start(
    analysis: &Analysis,
    place: &RunPlace,
    environment: &[(&'static str, OsString)],
) -> io::Result<Child> {
    let (program, words) = analysis.keeper.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(words)
        .arg(place.end.with_extension(""))
        .arg(&analysis.program)
        .args(&analysis.arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
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

/// The keeper's own work: runs the command once, unless this run has ended or lives already, and records how it ended.
///
/// # Errors
/// If that cannot be recorded.
pub fn keep(record: &Path, program: &OsStr, arguments: &[OsString]) -> io::Result<()> {
    let name = record.file_name().and_then(OsStr::to_str).ok_or(io::ErrorKind::InvalidInput)?;
    let place = RunPlace::new(record.parent().unwrap_or(Path::new(".")), name);
    let lock = place.open_lock()?;
    match lock.try_lock() {
        Ok(()) if place.ended().is_none() => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The lock, an empty file, is the command's standard input: so it is held as long as the command lives, also without us.
    let outcome = match Command::new(program).args(arguments).stdin(lock.try_clone()?).status() {
        Err(error) => Outcome::NotStarted(error.to_string()),
        Ok(status) => match (status.code(), status.signal()) {
            (Some(0), _) => Outcome::Succeeded,
            (Some(code), _) => Outcome::Failed(code),
            (None, signal) => Outcome::Killed(signal.unwrap_or_default()),
        },
    };
    place.record(&outcome)
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
        assert!(matches!(ended, Some(Outcome::NotStarted(_))), "{ended:?}");
        place.forget();
        assert_eq!(place.ended(), None);
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
