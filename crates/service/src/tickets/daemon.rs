//! What a daemon says of itself to who makes tickets for it.

use super::{FILE_BYTES_MAX, as_text, at};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_sys::atomic_file::{self, Durability};

/// Where it is reached, and what there is: a file in its state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its certificate.
    #[serde(with = "as_text")]
    pub server: Fingerprint,
    /// Where clients reach it, each `host:port`.
    pub addresses: Vec<String>,
    /// Names of its exports.
    pub exports: Vec<String>,
}

impl Daemon {
    fn path(state: &Path) -> PathBuf {
        state.join("daemon.json")
    }

    /// Says it, if that is not what was said last.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tell(&self, state: &Path) -> Result<()> {
        const TELL: &str = "say where the daemon is reached";
        // Where nothing can be written there is nothing to write then.
        if Daemon::read(state).is_ok_and(|said| said == *self) {
            return Ok(());
        }
        let text = serde_json::to_vec(self);
        let text = text.map_err(|error| Failure::new(FailureKind::Internal, TELL, error))?;
        let written = atomic_file::write(&Daemon::path(state), &text, 0o600, Durability::Synced);
        written.map_err(|error| at(TELL, &error.path, &error.cause))
    }

    /// What the daemon of this state directory said last.
    ///
    /// # Errors
    /// `NotFound` if none ever began there; `Usage` if it makes no sense; else what the kernel says.
    pub fn read(state: &Path) -> Result<Daemon> {
        const READ_DAEMON: &str = "find the daemon";
        let path = Daemon::path(state);
        let mut text = String::new();
        let opened = atomic_file::open(&path);
        let read = opened.and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let cause = "no `thalweg serve` began with this state directory yet";
                failure::at_path(Failure::new(FailureKind::NotFound, READ_DAEMON, cause), state)
            }
            _ => at(READ_DAEMON, &path, &error),
        })?;
        let refuse = |error: serde_json::Error| Failure::new(FailureKind::Usage, READ_DAEMON, error);
        serde_json::from_str(&text).map_err(|error| failure::at_path(refuse(error), &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_was_said_already_is_not_written_again() {
        let state = tempfile::tempdir().unwrap();
        let mut daemon = Daemon {
            server: Fingerprint([1; 32]),
            addresses: vec!["192.0.2.1:9418".to_owned()],
            exports: vec!["data".to_owned()],
        };
        let file = || std::fs::metadata(Daemon::path(state.path())).unwrap().ino();
        daemon.tell(state.path()).unwrap();
        let before = file();
        daemon.tell(state.path()).unwrap();
        assert_eq!(file(), before);
        daemon.exports.push("more".to_owned());
        daemon.tell(state.path()).unwrap();
        assert_ne!(file(), before);
        assert_eq!(Daemon::read(state.path()).unwrap(), daemon);
    }
}
