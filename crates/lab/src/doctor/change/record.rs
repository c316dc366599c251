//! What stood there before the first change and what is ours since, kept in the state directory; and what follows from
//! both for what stands there now.

use super::CHANGING;
use super::files::{of, read_if_there, write_durably};
use crate::doctor::congestion;
use crate::doctor::elsewhere::Space;
use crate::doctor::roots::{Roots, spaced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_state};

pub(super) const RECORD: &str = "doctor.json";

/// What was there before, and what was put there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) what: What,
    pub(super) before: Before,
    /// All that was put there, or was to be, each once, the last one last. Of who may choose which congestion control:
    /// whom the kernel may have added.
    pub(super) ours: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// A kernel setting.
    Setting { key: String },
    /// A file.
    File { path: PathBuf },
    /// A directory that was made for it.
    Directory { path: PathBuf },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Before {
    Nothing,
    Bytes { bytes: Vec<u8>, mode: u32, uid: u32, gid: u32 },
}

/// What one or several [`apply`](super::apply) have changed since nothing was.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) changes: Vec<Change>,
    /// The profile that tuned had active before the first [`apply`](super::apply); none without tuned, or if it had
    /// none.
    #[serde(default)]
    pub(super) tuned_before: Option<String>,
    /// Whether tuned chose that profile by itself.
    #[serde(default)]
    pub(super) tuned_chose: bool,
    /// Where they were changed.
    #[serde(default)]
    pub(super) space: Option<Space>,
}

impl Change {
    pub(super) fn path(&self, roots: &Roots) -> PathBuf {
        match &self.what {
            What::Setting { key } => roots.sysctl(key),
            What::File { path } | What::Directory { path } => path.clone(),
        }
    }

    pub(super) fn name(&self) -> String {
        match &self.what {
            What::Setting { key } => key.clone(),
            What::File { path } | What::Directory { path } => path.display().to_string(),
        }
    }

    /// Whether it is of who may choose which congestion control.
    pub(super) fn is_allowed(&self) -> bool {
        matches!(&self.what, What::Setting { key } if key == congestion::ALLOWED)
    }

    /// Whether it is of what a program gets that chooses none.
    pub(super) fn is_default(&self) -> bool {
        matches!(&self.what, What::Setting { key } if key == congestion::DEFAULT)
    }

    pub(super) fn is_setting(&self) -> bool {
        matches!(self.what, What::Setting { .. })
    }

    /// Notes that this is put there now.
    pub(super) fn put(&mut self, value: &[u8]) {
        self.ours.retain(|one| one != value);
        self.ours.push(value.to_owned());
    }

    pub(super) fn before(&self) -> Option<&[u8]> {
        match &self.before {
            Before::Nothing => None,
            Before::Bytes { bytes, .. } => Some(bytes),
        }
    }

    pub(super) fn is_as_before(&self, now: Option<&[u8]>) -> bool {
        self.is_same(now, self.before())
    }

    pub(super) fn is_ours(&self, now: Option<&[u8]>) -> bool {
        if self.is_allowed() {
            let (before, ours) = (words(self.before()), words(self.ours.last().map(Vec::as_slice)));
            let now = words(now);
            return now.is_superset(&before) && now.difference(&before).all(|name| ours.contains(name));
        }
        // No setting is empty, but for one that is a plain file, after a kill between the opening and the writing.
        let is_cut = self.is_setting() && now.is_some_and(<[u8]>::is_empty);
        is_cut || self.ours.iter().any(|ours| self.is_same(now, Some(ours)))
    }

    /// The kernel shows a setting with white space of its own.
    fn is_same(&self, a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) if self.is_setting() => shown(a) == shown(b),
            (a, b) => a == b,
        }
    }
}

pub(super) fn shown(bytes: &[u8]) -> String {
    spaced(&String::from_utf8_lossy(bytes))
}

fn words(bytes: Option<&[u8]>) -> BTreeSet<String> {
    shown(bytes.unwrap_or_default()).split_whitespace().map(str::to_owned).collect()
}

/// What is neither as it was before nor ours is somebody else's. What cannot be read now is tried later, and told then.
pub(super) fn is_theirs(roots: &Roots, change: &Change) -> bool {
    if matches!(change.what, What::Directory { .. }) {
        return false;
    }
    read_if_there(&change.path(roots)).is_ok_and(|now| {
        // Nobody takes a setting away: it is one of a kernel, or of a namespace, that does not show it now.
        let is_hidden = change.is_setting() && now.is_none();
        !is_hidden && !change.is_as_before(now.as_deref()) && !change.is_ours(now.as_deref())
    })
}

/// Whether it is a setting of an earlier time that somebody else changed since.
pub(super) fn is_left_to_them(roots: &Roots, record: &Record, key: &str) -> bool {
    let is_it = |change: &&Change| change.is_setting() && change.name() == key;
    record.changes.iter().find(is_it).is_some_and(|change| is_theirs(roots, change))
}

/// The change of it, with what is there, unless that is noted from an earlier time.
pub(super) fn keep<'a>(record: &'a mut Record, what: What, path: &Path) -> Result<&'a mut Change> {
    let known = record.changes.iter().position(|change| change.what == what);
    let at = match known {
        Some(at) => at,
        None => {
            let before = read_before(path)?;
            record.changes.push(Change { what, before, ours: Vec::new() });
            record.changes.len() - 1
        }
    };
    Ok(&mut record.changes[at])
}

fn read_before(path: &Path) -> Result<Before> {
    match fs::read(path) {
        Ok(bytes) => {
            let about = fs::metadata(path).map_err(|error| of(path, "look at", &error))?;
            Ok(Before::Bytes { bytes, mode: about.mode() & 0o7777, uid: about.uid(), gid: about.gid() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Before::Nothing),
        Err(error) => Err(of(path, "read what is there before it is changed", &error)),
    }
}

/// One doctor at a time.
pub(super) fn lock(state: &Path) -> Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .map_err(|error| at_path(of_state(&error), state))?;
    let directory = File::open(state).map_err(|error| of(state, "open the state directory", &error))?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Failure::new(FailureKind::Busy, CHANGING, "another `thalweg doctor` does"))
        }
        Err(fs::TryLockError::Error(error)) => Err(of(state, "lock the state directory", &error)),
    }
}

/// None also of a network namespace that ended with an earlier run of the machine: nothing of it can be put back.
pub(super) fn load(roots: &Roots, state: &Path) -> Result<Option<Record>> {
    let path = state.join(RECORD);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of(&path, "read the record", &error)),
    };
    let record: Record = serde_json::from_slice(&text)
        .map_err(|error| at_path(Failure::new(FailureKind::Damage, "read the record", error), &path))?;
    let is_over = record.space.as_ref().is_some_and(|space| space.is_of_earlier_run(roots));
    Ok((!is_over).then_some(record))
}

pub(super) fn save(state: &Path, record: &Record) -> Result<()> {
    let path = state.join(RECORD);
    let text = serde_json::to_vec_pretty(record)
        .map_err(|error| Failure::new(FailureKind::Internal, "write the record", error.to_string()))?;
    write_durably(&path, &text, None).map_err(|error| of(&path, "write the record", &error))
}
