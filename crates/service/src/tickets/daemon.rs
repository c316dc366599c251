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

    /// Says it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tell(&self, state: &Path) -> Result<()> {
        const TELL: &str = "say where the daemon is reached";
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
