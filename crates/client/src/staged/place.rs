//! The directory of a stage on this machine: `thalweg-stage-KEY` below the one that the user names, mode 0700.
//!
//! ```text
//! lock        held while a command is at work
//! N/list      of batch N the bytes that it may take (`c`, digits, NUL) and its names (`d` or `f`, path, NUL):
//!             durable before anything of it is fetched
//! N/tree/     what of it is here
//! gone/M/     what an earlier command fetched and is gone at the source
//! ```
//!
//! A list that is there says that its names may be at the destination and were not compared from end to end: whoever
//! goes on with it compares content.

use super::gone::{Aside, GONE, SetAside};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_mover::endpoint::local::staging::leftover::{
    Leftover, LeftoverState, bytes_taken, open_for_us, remove_tree,
};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::{Dir, File, Links, user};
use thalweg_wire::RelativePath;
use thalweg_wire::path::Escaped;

/// What stands before the key.
const PREFIX: &str = "thalweg-stage-";
/// What fails.
const OPEN: &str = "open the stage";
const WRITE: &str = "write into the stage";
const CLEAR: &str = "clear the stage";
/// What of a batch is here.
const TREE: &[u8] = b"tree";
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

/// A stage that this process has for itself. It is removed with this value if nothing is in it.
pub struct StagePlace {
    top: PathBuf,
    dir: Dir,
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
        let stage = StagePlace { top, dir, free_bytes, _lock: lock };
        // Also of one that was here: who made it may have been killed before.
        match Dir::open(directory).and_then(|above| above.sync()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other.map_err(|error| of_io(&error))?,
        }
        Ok(stage)
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
        self.taken_by(number.to_string().as_bytes())
    }

    /// Bytes of what was [set aside](Self::set_aside), by whatever command.
    pub fn gone_bytes(&self) -> u64 {
        self.taken_by(GONE)
    }

    fn taken_by(&self, name: &[u8]) -> u64 {
        self.dir.open_beneath(name, Links::Refuse).map_or(0, |dir| bytes_taken(&Arc::new(dir)))
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

    /// Takes what is here under these names out of the tree of a batch, and keeps it. Directories go that are empty
    /// then, but for those that `stay`. `None`: nothing was there but directories.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_aside(
        &self,
        number: u32,
        names: &[&Name],
        stay: &dyn Fn(&RelativePath) -> bool,
    ) -> Result<Option<SetAside>> {
        let failed = |error: &io::Error| self.failed("set aside what is gone at the source", error);
        let mut aside = Aside::new(&self.dir);
        let batch = self.batch_dir(number).map_err(|error| failed(&error))?;
        let was = match batch.stat(TREE) {
            // Nothing of it is here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| failed(&error))?,
        };
        let taken = open_for_us(&batch, TREE, &was).and_then(|is_opened| {
            let tree = batch.open_beneath(TREE, Links::Refuse)?;
            names.iter().try_for_each(|name| aside.take(&tree, &name.path, stay))?;
            if batch.stat(TREE)?.mtime != was.mtime {
                batch.set_times(TREE, None, Some(was.mtime))?;
            }
            if is_opened { batch.set_mode(TREE, was.mode) } else { Ok(()) }
        });
        taken.map_err(|error| failed(&error))?;
        Ok(aside.end(self.top.clone()))
    }

    /// Removes the files of a batch.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn empty(&self, number: u32) -> Result<()> {
        let emptied = self.batch_dir(number).and_then(|batch| remove_tree(&batch, TREE));
        emptied.map_err(|error| self.failed(CLEAR, &error))
    }

    /// Removes a batch: its list first, without which nobody goes on with it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, number: u32) -> Result<()> {
        match self.batch_dir(number).and_then(|batch| batch.remove_file(b"list")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(|error| self.failed(CLEAR, &error))?,
        }
        let removed = remove_tree(&self.dir, number.to_string().as_bytes());
        removed.map_err(|error| self.failed(CLEAR, &error))
    }

    /// The same failure of a leg into it. One for want of room names the stage: the path beside it is of the source.
    pub(super) fn named(&self, failure: Failure) -> Failure {
        let top = self.top.as_os_str().as_bytes();
        match failure.kind {
            FailureKind::Space => {
                failure::with_words(failure, &format!("into the stage `{}`", failure::shown_path(top)))
            }
            _ => failure,
        }
    }

    fn batch_dir(&self, number: u32) -> io::Result<Dir> {
        self.dir.open_beneath(number.to_string().as_bytes(), Links::Refuse)
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

impl Drop for StagePlace {
    fn drop(&mut self) {
        let is_empty = self.batches().is_ok_and(|left| left.is_empty()) && self.dir.stat(GONE).is_err();
        if is_empty {
            let _ = self.dir.remove_file(b"lock");
            let _ = fs::remove_dir(&self.top);
        }
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
        let dir = Dir::open(&top).map(Arc::new);
        let bytes = dir.as_ref().map_or(0, bytes_taken);
        let lock = dir.and_then(|dir| dir.lock(b"lock"));
        let clear = || Dir::open(directory).and_then(|above| remove_tree(&above, name.as_bytes()));
        let is_recent = !older_than.is_zero() && age.is_none_or(|age| age < older_than);
        let state = match lock {
            Ok(None) => LeftoverState::InUse,
            Err(_) => LeftoverState::Unknown,
            Ok(Some(_)) if is_recent => LeftoverState::Recent,
            Ok(Some(_)) if !remove => LeftoverState::Left,
            Ok(Some(_lock)) => match clear() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
        drop(StagePlace::open(scratch.path(), "other").unwrap());
        stage.write_list(1, 1, &[name(b"a", false)]).unwrap();
        fs::create_dir_all(stage.tree(1).join("closed")).unwrap();
        fs::write(stage.tree(1).join("closed/a"), b"a").unwrap();
        fs::set_permissions(stage.tree(1).join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        drop(stage);
        assert!(top.exists());
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        stage.remove(1).unwrap();
        drop(stage);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        fs::create_dir(&top).unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(StagePlace::open(scratch.path(), "k").err().unwrap().kind, FailureKind::Permission);
        fs::remove_dir(&top).unwrap();
        std::os::unix::fs::symlink(scratch.path(), &top).unwrap();
        assert_eq!(StagePlace::open(scratch.path(), "k").err().unwrap().kind, FailureKind::Permission);
    }

    /// Where modes keep us out: the directory has the one of its source.
    #[test]
    fn what_is_gone_is_set_aside_also_where_we_may_change_nothing_and_the_rest_is_left_as_it_was() {
        let scratch = tempfile::tempdir().unwrap();
        let stage = StagePlace::open(scratch.path(), "k").unwrap();
        stage.write_list(4, 1, &[]).unwrap();
        let at = |path: &str| stage.tree(4).join(path);
        fs::create_dir_all(at("closed/emptied")).unwrap();
        fs::create_dir_all(at("kept")).unwrap();
        for path in ["closed/emptied/a", "closed/b", "closed/c", "kept/d"] {
            fs::write(at(path), path).unwrap();
        }
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let closed = fs::File::open(at("closed")).unwrap();
        closed.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
        for path in ["closed/emptied", "closed"] {
            fs::set_permissions(at(path), fs::Permissions::from_mode(0o555)).unwrap();
        }
        let names = ["closed/emptied/a", "closed/b", "kept/d", "never/fetched", "closed"];
        let names = names.map(|path| name(path.as_bytes(), path == "closed"));
        let names: Vec<&Name> = names.iter().collect();
        let stays = |path: &RelativePath| path.as_bytes() == b"kept";
        let aside = stage.set_aside(4, &names, &stays).unwrap().unwrap();
        assert!(aside.names == 3 && aside.path.ends_with("thalweg-stage-k/gone/1"), "{aside:?}");
        for path in ["closed/emptied/a", "closed/b", "kept/d"] {
            assert_eq!(fs::read_to_string(aside.path.join(path)).unwrap(), path);
            assert!(!at(path).exists(), "{path}");
        }
        assert!(!at("closed/emptied").exists() && at("closed/c").exists() && at("kept").exists());
        let meta = fs::metadata(at("closed")).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.modified().unwrap()), (0o555, old));
        assert!(stage.gone_bytes() > 0);
        // Another time nothing that was set aside is replaced, and without a file nothing is made.
        assert_eq!(stage.set_aside(4, &names, &stays).unwrap(), None);
        fs::write(at("kept/d"), "another").unwrap();
        let again = stage.set_aside(4, &names, &stays).unwrap().unwrap();
        assert!(again.path.ends_with("gone/2") && aside.path.join("kept/d").exists(), "{again:?}");
        stage.remove(4).unwrap();
        drop(stage);
        assert!(aside.path.exists());
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
