//! How settings and files are written: a file durably, and whole or not at all.

use super::CHANGING;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};

pub(super) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A link would be replaced by a file, and could not be put back: who made it wants the file elsewhere, or
/// (`/dev/null`) not at all.
///
/// # Errors
/// `Unsupported`, before anything is changed.
pub(super) fn check_plain(path: &Path) -> Result<()> {
    let is_plain = |about: fs::Metadata| about.is_file();
    match fs::symlink_metadata(path).map(is_plain) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(of(path, "look at", &error)),
        Ok(false) => {
            let cause = "it is there and no plain file: remove it first";
            Err(at_path(Failure::new(FailureKind::Unsupported, CHANGING, cause), path))
        }
    }
}

/// Never creates: a setting that is not there cannot be made.
pub(super) fn write_setting(path: &Path, value: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value)
}

/// A file is the old one or the new one, never a part.
pub(super) fn write_durably(path: &Path, bytes: &[u8], about: Option<(u32, u32, u32)>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let new = unfinished(path);
    let (mode, owner) = about.map_or((0o644, None), |(mode, uid, gid)| (mode, Some((uid, gid))));
    let mut file = File::create(&new)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}

/// Where a file is written before it gets its name. Known beforehand: `--undo` removes what a kill left.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".thalweg-new");
    path.with_file_name(name)
}

pub(super) fn make_parents(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
}

/// Directories that have to be made for a path, the upper ones first.
pub(super) fn missing_above(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|directory| !directory.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

pub(super) fn of(path: &Path, operation: &str, error: &io::Error) -> Failure {
    at_path(of_io(operation, error), path)
}
