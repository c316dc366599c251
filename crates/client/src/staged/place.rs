//! The directory of a stage on this machine: `thalweg-stage-KEY` below the one that the user names, mode 0700.
//!
//! ```text
//! lock        held while a command is at work
//! N/list      of batch N the bytes that it may take (`c`, digits, NUL) and its names (`d` or `f`, path, NUL):
//!             durable before anything of it is fetched
//! N/tree/     what of it is here
//! ```
//!
//! A list that is there says that its names may be at the destination and were not compared from end to end: whoever
//! goes on with it compares content.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thalweg_mover::endpoint::local::staging::leftover::{Leftover, LeftoverState};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::{Dir, File, user};
use thalweg_wire::RelativePath;
use thalweg_wire::path::Escaped;

/// What stands before the key.
const PREFIX: &str = "thalweg-stage-";
/// What fails.
const OPEN: &str = "open the stage";
const WRITE: &str = "write into the stage";
/// Larger lists are none of ours: a batch has 4,096 names, or 1 MiB of them.
const LIST_BYTES_MAX: u64 = 8 << 20;

/// A name of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Path in the transfer.
    pub path: RelativePath,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// A stage that this process has for itself.
pub struct StagePlace {
    top: PathBuf,
    /// Bytes that somebody without privileges could still write when it was opened.
    pub free_bytes: u64,
    /// Held: it goes with the value.
    _lock: File,
}

impl StagePlace {
    /// The path of the stage with this key below a directory.
    pub fn path(directory: &Path, key: &str) -> PathBuf {
        directory.join(format!("{PREFIX}{key}"))
    }

    /// Opens the stage with this key below a directory that is there; makes it if need be.
    ///
    /// # Errors
    /// `Busy` while another command has it; `Permission` if it is not this user's alone; what the kernel says.
    pub fn open(directory: &Path, key: &str) -> Result<StagePlace> {
        let top = StagePlace::path(directory, key);
        let of_io = |error: &io::Error| failure::at_path(failure::of_io(OPEN, error), directory);
        if let Err(error) = fs::DirBuilder::new().mode(0o700).create(&top)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(of_io(&error));
        }
        let meta = fs::symlink_metadata(&top).map_err(|error| of_io(&error))?;
        if !meta.is_dir() || meta.uid() != user::effective_uid() || meta.mode() & 0o077 != 0 {
            let shown = Escaped(top.as_os_str().as_bytes());
            let cause = format!("`{shown}` is not a directory of this user alone: name another one");
            return Err(Failure::new(FailureKind::Permission, OPEN, cause));
        }
        let dir = Dir::open(&top).map_err(|error| of_io(&error))?;
        let Some(lock) = dir.lock(b"lock").map_err(|error| of_io(&error))? else {
            let shown = Escaped(top.as_os_str().as_bytes());
            let cause = format!("another command copies the same through `{shown}`");
            return Err(Failure::new(FailureKind::Busy, OPEN, cause));
        };
        let free_bytes = dir.file_system().map_err(|error| of_io(&error))?.bytes_available;
        Ok(StagePlace { top, free_bytes, _lock: lock })
    }

    /// Numbers of the batches of which something is here.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn batches(&self) -> Result<Vec<u32>> {
        let listed = fs::read_dir(&self.top).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let listed = listed.map_err(|error| self.failed(OPEN, &error))?;
        let mut numbers: Vec<u32> =
            listed.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Where the files of a batch are.
    pub fn tree(&self, number: u32) -> PathBuf {
        self.batch(number).join("tree")
    }

    /// Bytes that a batch takes on its disk.
    pub fn taken(&self, number: u32) -> u64 {
        taken(&self.batch(number))
    }

    /// Begins a batch, or says which of its names are left: they are durable when this has returned.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write_list(&self, number: u32, room_bytes: u64, names: &[Name]) -> Result<()> {
        let batch = self.batch(number);
        let mut bytes = format!("c{room_bytes}\0").into_bytes();
        for name in names {
            bytes.push(if name.is_directory { b'd' } else { b'f' });
            bytes.extend_from_slice(name.path.as_bytes());
            bytes.push(0);
        }
        let failed = |error: &io::Error| self.failed(WRITE, error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&batch).map_err(|error| failed(&error))?;
        let list = batch.join("list");
        atomic_file::write(&list, &bytes, 0o600, Durability::Synced).map_err(|error| failed(&error.cause))?;
        Dir::open(&self.top).and_then(|top| top.sync()).map_err(|error| failed(&error))
    }

    /// The bytes that a batch may take, and its names; `None` if it was not begun.
    ///
    /// # Errors
    /// `Damage` for a list that is none; what the kernel says.
    pub fn read_list(&self, number: u32) -> Result<Option<(u64, Vec<Name>)>> {
        let list = self.batch(number).join("list");
        let bytes = match fs::symlink_metadata(&list) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(OPEN, &error)),
            Ok(meta) if !meta.is_file() || meta.len() > LIST_BYTES_MAX => return Err(self.damaged(&list)),
            Ok(_) => fs::read(&list).map_err(|error| self.failed(OPEN, &error))?,
        };
        parsed(&bytes).map(Some).ok_or_else(|| self.damaged(&list))
    }

    /// Removes what is in the tree of a batch under this name, and directories that are empty then.
    pub fn forget(&self, number: u32, name: &Name) {
        let tree = self.tree(number);
        let path = tree.join(std::ffi::OsStr::from_bytes(name.path.as_bytes()));
        // What is not there, or not empty, stays so.
        let _ = if name.is_directory { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        for above in path.ancestors().skip(1).take_while(|above| *above != tree.as_path()) {
            if fs::remove_dir(above).is_err() {
                return;
            }
        }
    }

    /// Removes the files of a batch.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn empty(&self, number: u32) -> Result<()> {
        remove_all(&self.tree(number)).map_err(|error| self.failed("clear the stage", &error))
    }

    /// Removes a batch: its list first, without which nobody goes on with it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, number: u32) -> Result<()> {
        if let Err(error) = fs::remove_file(self.batch(number).join("list"))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(self.failed("clear the stage", &error));
        }
        remove_all(&self.batch(number)).map_err(|error| self.failed("clear the stage", &error))
    }

    /// Removes the stage if there is no batch in it.
    pub fn close(self) {
        if self.batches().is_ok_and(|left| left.is_empty()) {
            let _ = fs::remove_file(self.top.join("lock"));
            let _ = fs::remove_dir(&self.top);
        }
    }

    fn batch(&self, number: u32) -> PathBuf {
        self.top.join(number.to_string())
    }

    fn failed(&self, operation: &str, error: &io::Error) -> Failure {
        failure::at_path(failure::of_io(operation, error), &self.top)
    }

    fn damaged(&self, list: &Path) -> Failure {
        let cause = "it is no list of a batch; `thalweg gc --yes` of the directory around removes the stage";
        failure::at_path(Failure::new(FailureKind::Damage, OPEN, cause), list)
    }
}

/// What a list says; `None` if it is none.
fn parsed(bytes: &[u8]) -> Option<(u64, Vec<Name>)> {
    let mut records = bytes.strip_suffix(b"\0")?.split(|&byte| byte == 0);
    let room_bytes = std::str::from_utf8(records.next()?.strip_prefix(b"c")?).ok()?.parse().ok()?;
    let name = |record: &[u8]| {
        let (kind, path) = record.split_first()?;
        let path = RelativePath::new(path.to_vec()).ok()?;
        matches!(kind, b'd' | b'f').then_some(Name { path, is_directory: *kind == b'd' })
    };
    Some((room_bytes, records.map(name).collect::<Option<Vec<Name>>>()?))
}

/// Looks for stages in a directory, and removes those that no command uses `now` if `remove`, of which nothing has
/// changed for `older_than`. Those of other users are passed over.
///
/// # Errors
/// For the directory itself; what could not be removed goes to `trouble`.
pub fn leftover_stages(
    directory: &Path,
    remove: bool,
    older_than: Duration,
    now: SystemTime,
    trouble: &mut dyn FnMut(Failure),
) -> Result<Vec<Leftover>> {
    let failed = |path: &Path, error: &io::Error| failure::at_path(failure::of_io(OPEN, error), path);
    let listed = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut found = Vec::new();
    for entry in listed.map_err(|error| failed(directory, &error))? {
        let (name, top) = (entry.file_name(), entry.path());
        let Ok(meta) = fs::symlink_metadata(&top) else { continue };
        let is_ours = meta.is_dir() && meta.uid() == user::effective_uid();
        let Ok(path) = RelativePath::new(name.as_bytes().to_vec()) else { continue };
        if !is_ours || !name.as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let age = changed(&top).and_then(|last| now.duration_since(last).ok());
        let bytes = taken(&top);
        let lock = Dir::open(&top).and_then(|dir| dir.lock(b"lock"));
        let is_recent = !older_than.is_zero() && age.is_none_or(|age| age < older_than);
        let state = match lock {
            Ok(None) => LeftoverState::InUse,
            Err(_) => LeftoverState::Unknown,
            Ok(Some(_)) if is_recent => LeftoverState::Recent,
            Ok(Some(_)) if !remove => LeftoverState::Left,
            Ok(Some(_lock)) => match remove_all(&top) {
                Ok(()) => LeftoverState::Removed,
                Err(error) => {
                    trouble(failed(&top, &error));
                    LeftoverState::Left
                }
            },
        };
        found.push(Leftover { path, bytes, age, state });
    }
    Ok(found)
}

/// When something came into a stage last, or went.
fn changed(top: &Path) -> Option<SystemTime> {
    let below = fs::read_dir(top).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
    let own = fs::symlink_metadata(top).ok();
    below.chain(own).filter_map(|meta| meta.modified().ok()).max()
}

/// Bytes allocated at and below a path; links are not followed.
fn taken(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    let below = if meta.is_dir() { fs::read_dir(path).ok() } else { None };
    let below = below.into_iter().flatten().flatten().map(|entry| taken(&entry.path())).sum::<u64>();
    below.saturating_add(meta.blocks().saturating_mul(512))
}

/// Removes a tree, also where its owner may not write; none is as good.
fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Lets the owner into each directory of a tree. Links are not followed.
fn open_up(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    fs::read_dir(path)?.try_for_each(|entry| open_up(&entry?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &[u8], is_directory: bool) -> Name {
        Name { path: RelativePath::new(path.to_vec()).unwrap(), is_directory }
    }

    #[test]
    fn names_of_a_batch_are_read_as_they_were_written_whatever_bytes_they_have() {
        let scratch = tempfile::tempdir().unwrap();
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        let names = [name(b"a\nb/\xff", false), name(b"dir", true), name(b"f", false)];
        stage.write_list(7, 99, &names).unwrap();
        assert_eq!(stage.read_list(7).unwrap().unwrap(), (99, names.to_vec()));
        assert_eq!(stage.batches().unwrap(), [7]);
        assert_eq!(stage.read_list(8).unwrap(), None);
        for damaged in [&b""[..], b"c9\0fa", b"c9\0fa\0xb\0", b"c9\0f../x\0", b"fa\0", b"cx\0"] {
            fs::write(stage.batch(7).join("list"), damaged).unwrap();
            assert_eq!(stage.read_list(7).unwrap_err().kind, FailureKind::Damage, "{damaged:?}");
        }
    }

    #[test]
    fn a_stage_is_for_one_command_and_one_user_and_goes_when_it_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let top = StagePlace::path(scratch.path(), "k");
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        assert_eq!(fs::metadata(&top).unwrap().mode() & 0o777, 0o700);
        assert_eq!(StagePlace::open(scratch.path(), "k").err().unwrap().kind, FailureKind::Busy);
        StagePlace::open(scratch.path(), "other").unwrap().close();
        stage.write_list(1, 1, &[name(b"a", false)]).unwrap();
        fs::create_dir_all(stage.tree(1).join("closed")).unwrap();
        fs::write(stage.tree(1).join("closed/a"), b"a").unwrap();
        fs::set_permissions(stage.tree(1).join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        stage.close();
        assert!(top.exists());
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        stage.remove(1).unwrap();
        stage.close();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        fs::create_dir(&top).unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(StagePlace::open(scratch.path(), "k").err().unwrap().kind, FailureKind::Permission);
        fs::remove_dir(&top).unwrap();
        std::os::unix::fs::symlink(scratch.path(), &top).unwrap();
        assert_eq!(StagePlace::open(scratch.path(), "k").err().unwrap().kind, FailureKind::Permission);
    }

    #[test]
    fn a_stage_that_is_left_is_found_and_one_that_is_used_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        stage.write_list(1, 1, &[name(b"a", false)]).unwrap();
        let look = |remove, older_than| {
            let now = SystemTime::now();
            let found =
                leftover_stages(scratch.path(), remove, older_than, now, &mut |failure| panic!("{failure}"));
            let found = found.unwrap();
            found.iter().map(|left| left.state).collect::<Vec<_>>()
        };
        let (none, day) = (Duration::ZERO, Duration::from_secs(86_400));
        assert_eq!(look(true, none), [LeftoverState::InUse]);
        drop(stage);
        assert_eq!(look(false, none), [LeftoverState::Left]);
        assert_eq!(look(true, day), [LeftoverState::Recent]);
        assert_eq!(look(true, none), [LeftoverState::Removed]);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
