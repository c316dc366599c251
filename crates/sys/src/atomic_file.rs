//! Files that appear whole: written under a hidden name beside their own, then renamed.
//!
//! 1. A hidden file is made: `.NAME.` and 16 random hexadecimal digits. It is never one that is there already, and no
//!    link is followed. It is locked as long as it is written, so that nobody takes it for one that was left.
//! 2. What a process that was killed left of such a file, a day ago or before, is removed: see `sweep`.
//! 3. It is written; [`Durability::Synced`]: synced.
//! 4. It gets its name; [`Durability::Synced`]: the directory is synced.
//!
//! At every moment the name leads to the old file or to the whole new one. A link of that name is replaced and not
//! followed; the mode and the owner of what was there are not kept. A device, a FIFO or a socket is refused, and a link
//! to one. What is dropped before it has its name is removed; a process that is killed leaves the hidden file to the
//! next one that writes a file of this name there, from the next day on.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::{Dir, Kind, Replace, invalid, user};

/// Opens such a file to be read. It never waits, as for the writer of a FIFO, and never reads a device: what is no
/// regular file is refused.
///
/// # Errors
/// `InvalidInput` for what is no regular file; else what the kernel says.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::CLOEXEC | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("it is no regular file"));
    }
    Ok(file)
}

/// What a power cut may take of a file that has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: file and name are synced.
    Synced,
    /// The file, of which the old content, the new or none is there afterwards.
    Unsynced,
}

/// Why a file could not be written.
#[derive(Debug)]
pub struct Error {
    /// The name it was to have.
    pub path: PathBuf,
    /// What the kernel says; `InvalidInput` for a path that does not end in a name.
    pub cause: io::Error,
}

/// A file that is being written. See the module.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    dir: Dir,
    hidden: Vec<u8>,
    name: Vec<u8>,
    path: PathBuf,
    durability: Durability,
    has_name: bool,
}

/// Random names that are tried: one is free unless somebody makes them.
const NAMES_MAX: usize = 16;
/// Bytes of the name that are in the hidden one, which has 18 more and may have 255.
const SHOWN_BYTES_MAX: usize = 200;
/// Names of a directory that are looked at for what was left: a listing of more would take longer than most writing
/// does, above all where the directory is far.
const LOOKED_MAX: usize = 16 << 10;
/// What was written in since is not taken for left, whoever may hold it: an earlier version of this holds nothing, and
/// some file systems do not tell one machine what another holds.
const LEFT_SECONDS: i64 = 24 * 60 * 60;

impl AtomicFile {
    /// Begins a file that will be called `path`, of this mode (0..=0o7777, minus the umask; see
    /// [`crate::process::user_mode`]).
    ///
    /// # Errors
    /// As [`refuse_special`]; if the directory cannot be opened or written.
    pub fn begin(path: &Path, mode: u32, durability: Durability) -> Result<AtomicFile, Error> {
        refuse_special(path)?;
        make(path, mode, durability).map_err(|cause| Error { path: path.to_owned(), cause })
    }

    /// To be written; for reading too.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name: in place of what is there, or with [`Replace::Never`] only where nothing is.
    ///
    /// # Errors
    /// Then the hidden file is gone. `AlreadyExists` with [`Replace::Never`]. After a failed sync of the directory it
    /// has its name, which may not survive.
    pub fn finish(mut self, replace: Replace) -> Result<(), Error> {
        self.name_it(replace).map_err(|cause| Error { path: std::mem::take(&mut self.path), cause })
    }

    fn name_it(&mut self, replace: Replace) -> io::Result<()> {
        if self.durability == Durability::Synced {
            self.file.sync_all()?;
        }
        self.dir.rename(&self.hidden, &self.dir, &self.name, replace)?;
        self.has_name = true;
        match self.durability {
            Durability::Synced => self.dir.sync(),
            Durability::Unsynced => Ok(()),
        }
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.has_name {
            // It is ours, by its random name; what failed before is the one to tell.
            let _ = self.dir.remove_file(&self.hidden);
        }
    }
}

/// Refuses a path under which stands what a file must not replace: as root it could be `/dev/null`, and everybody's.
///
/// # Errors
/// `InvalidInput` for a device, a FIFO or a socket, also behind a link, and for a link that the kernel makes up
/// (`/dev/stdout`); `IsADirectory` for a directory.
pub fn refuse_special(path: &Path) -> Result<(), Error> {
    let fail = |cause| Err(Error { path: path.to_owned(), cause });
    let is_special = std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
    // Behind it may be a file: what would be replaced is the link, which is everybody's.
    let is_made_up = || std::fs::read_link(path).is_ok_and(|to| to.starts_with("/proc"));
    if is_special || is_made_up() {
        return fail(invalid("a device, FIFO, socket or open file is not replaced: name a regular file"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() && path.file_name().is_some() => fail(io::ErrorKind::IsADirectory.into()),
        _ => Ok(()),
    }
}

/// Writes a whole file in place of what is called `path`; the rest as [`AtomicFile::begin`].
///
/// # Errors
/// As there, and what writing says: then what was there stands.
pub fn write(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> Result<(), Error> {
    put(path, bytes, mode, durability, Replace::Existing)
}

/// The same for a file that is not there yet.
///
/// # Errors
/// As [`write()`]; `AlreadyExists` if it is.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> Result<(), Error> {
    put(path, bytes, mode, durability, Replace::Never)
}

fn put(path: &Path, bytes: &[u8], mode: u32, durability: Durability, replace: Replace) -> Result<(), Error> {
    let file = AtomicFile::begin(path, mode, durability)?;
    file.file().write_all(bytes).map_err(|cause| Error { path: path.to_owned(), cause })?;
    file.finish(replace)
}

fn make(path: &Path, mode: u32, durability: Durability) -> io::Result<AtomicFile> {
    let name =
        path.file_name().ok_or_else(|| invalid("the path does not end in a name"))?.as_bytes().to_vec();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let dir = Dir::open(parent.unwrap_or(Path::new(".")))?;
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..NAMES_MAX {
        let hidden = hidden_name(&name);
        match dir.create_new(&hidden, mode) {
            Ok(file) => {
                // Where there are no locks nobody sweeps.
                let _ = file.lock_exclusive();
                // By the clock of the file system: that of another machine may be another.
                if let Ok(now) = file.stat() {
                    sweep(&dir, &name, now.mtime.seconds);
                }
                let (file, path) = (File::from(OwnedFd::from(file)), path.to_owned());
                return Ok(AtomicFile { file, dir, hidden, name, path, durability, has_name: false });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Removes hidden files of earlier ones called `name` whose processes were killed: regular files of this user, with no
/// other name, in which nothing was written for [`LEFT_SECONDS`] before `now`, and that nobody holds, as far as locks
/// reach. What cannot be told is left, and so is what stands behind [`LOOKED_MAX`] other names.
fn sweep(dir: &Dir, name: &[u8], now: i64) {
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.take(LOOKED_MAX).map_while(io::Result::ok) {
        if !is_hidden_name(&entry.name, name) || !is_left(dir, &entry.name, now) {
            continue;
        }
        let Ok(file) = dir.open_read_write(&entry.name) else { continue };
        // Who writes in it still, without a word for a day, holds it.
        if file.lock_exclusive().unwrap_or(false) {
            let _ = dir.remove_file(&entry.name);
        }
    }
}

fn is_left(dir: &Dir, name: &[u8], now: i64) -> bool {
    dir.stat(name).is_ok_and(|there| {
        let is_own = there.kind == Kind::File && there.links == 1 && there.uid == user::effective_uid();
        is_own && now.saturating_sub(there.mtime.seconds) >= LEFT_SECONDS
    })
}

/// The first and the last of the names that a file called `name` may have while it is written.
pub fn hidden_names(name: &[u8]) -> [Vec<u8>; 2] {
    [u64::MIN, u64::MAX].map(|number| numbered(name, number))
}

fn hidden_name(name: &[u8]) -> Vec<u8> {
    // Its keys are random ones of the system's.
    numbered(name, RandomState::new().hash_one(name))
}

fn numbered(name: &[u8], number: u64) -> Vec<u8> {
    [b".", head(name), format!(".{number:016x}").as_bytes()].concat()
}

/// What a hidden name shows of a name.
fn head(name: &[u8]) -> &[u8] {
    &name[..name.len().min(SHOWN_BYTES_MAX)]
}

/// Whether a file called `name` may have been called `hidden`.
fn is_hidden_name(hidden: &[u8], name: &[u8]) -> bool {
    let number = hidden.strip_prefix(b".").and_then(|rest| rest.strip_prefix(head(name)));
    let number = number.and_then(|rest| rest.strip_prefix(b"."));
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    number.is_some_and(|digits| digits.len() == 16 && digits.iter().all(is_digit))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.path, self.cause)
    }
}

impl std::error::Error for Error {}

/// Of the same kind, with the path in its words.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.cause.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::Time;

    fn names(directory: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let fifo = scratch.path().join("fifo");
        Dir::open(scratch.path()).unwrap().make_fifo(b"fifo", 0o600).unwrap();
        for path in [&fifo, Path::new("/dev/zero"), scratch.path()] {
            let refused = open(path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{}: {refused}", path.display());
        }
        fs::write(scratch.path().join("file"), "content").unwrap();
        assert!(open(&scratch.path().join("file")).is_ok());
    }

    #[test]
    fn a_file_appears_whole_with_its_mode_and_nothing_else_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("name");
        for (content, durability) in [("one", Durability::Synced), ("two", Durability::Unsynced)] {
            let file = AtomicFile::begin(&path, 0o600, durability).unwrap();
            file.file().write_all(content.as_bytes()).unwrap();
            assert_ne!(fs::read(&path).ok().as_deref(), Some(content.as_bytes()));
            file.finish(Replace::Existing).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            assert_eq!(names(scratch.path()), ["name"]);
        }
        let long = scratch.path().join("n".repeat(255));
        write(&long, b"long", 0o600, Durability::Unsynced).unwrap();
        assert_eq!(fs::read(&long).unwrap(), b"long");
    }

    #[test]
    fn what_is_given_up_or_fails_leaves_what_was_there_and_says_which() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("name");
        fs::write(&path, "old").unwrap();
        drop(AtomicFile::begin(&path, 0o600, Durability::Synced).unwrap());
        let error = write_new(&path, b"new", 0o600, Durability::Synced).unwrap_err();
        assert_eq!((error.cause.kind(), &error.path), (io::ErrorKind::AlreadyExists, &path));
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(scratch.path())),
            ("old".into(), vec!["name".into()])
        );
        let directory = scratch.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let error = io::Error::from(write(&directory, b"new", 0o600, Durability::Synced).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(error.to_string().contains("directory\""), "{error}");
        assert_eq!(names(scratch.path()), ["directory", "name"]);
        let nameless = write(&directory.join(".."), b"new", 0o600, Durability::Synced).unwrap_err();
        assert_eq!(nameless.cause.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_link_of_that_name_is_replaced_and_what_it_leads_to_stays() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("other"), "other").unwrap();
        symlink("other", scratch.path().join("name")).unwrap();
        write(&scratch.path().join("name"), b"new", 0o644, Durability::Unsynced).unwrap();
        assert!(fs::symlink_metadata(scratch.path().join("name")).unwrap().is_file());
        assert_eq!(fs::read_to_string(scratch.path().join("other")).unwrap(), "other");
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced_nor_is_a_link_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        Dir::open(scratch.path()).unwrap().make_fifo(b"fifo", 0o600).unwrap();
        for (name, to) in [("to-fifo", "fifo"), ("to-device", "/dev/null"), ("to-open", "/proc/self/fd/1")] {
            symlink(to, scratch.path().join(name)).unwrap();
        }
        let before = names(scratch.path());
        for name in &before {
            let path = scratch.path().join(name);
            let error = write(&path, b"new", 0o600, Durability::Unsynced).unwrap_err();
            assert_eq!(error.cause.kind(), io::ErrorKind::InvalidInput, "{error}");
            assert!(!fs::symlink_metadata(&path).unwrap().is_file(), "{name}");
        }
        assert_eq!(names(scratch.path()), before);
    }

    const LONG_AGO: Time = Time { seconds: 0, nanos: 0 };

    #[test]
    fn what_a_killed_process_left_goes_with_the_next_file_of_that_name_and_what_is_held_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("name");
        let dir = Dir::open(scratch.path()).unwrap();
        let leave = |path: &Path, seconds: i64| {
            fs::write(path, "left").unwrap();
            let name = path.file_name().unwrap().as_bytes();
            let mtime = dir.stat(name).unwrap().mtime;
            let before = Time { seconds: mtime.seconds - seconds, ..mtime };
            dir.set_times(name, None, Some(before)).unwrap();
        };
        let left = scratch.path().join(".name.0123456789abcdef");
        // It may be one that is written, by somebody who holds nothing.
        leave(&left, LEFT_SECONDS - 600);
        drop(AtomicFile::begin(&path, 0o600, Durability::Unsynced).unwrap());
        assert!(left.exists());
        leave(&left, LEFT_SECONDS);
        let one = AtomicFile::begin(&path, 0o600, Durability::Unsynced).unwrap();
        assert!(!left.exists());
        // Neither takes the other's, however old that is.
        dir.set_times(&one.hidden, None, Some(LONG_AGO)).unwrap();
        let other = AtomicFile::begin(&path, 0o600, Durability::Unsynced).unwrap();
        assert_eq!(names(scratch.path()).len(), 2);
        leave(&left, LEFT_SECONDS);
        write(&path, b"small", 0o600, Durability::Unsynced).unwrap();
        assert!(!left.exists());
        for (file, content) in [(one, "one"), (other, "other")] {
            file.file().write_all(content.as_bytes()).unwrap();
            file.finish(Replace::Existing).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(names(scratch.path()), ["name"]);
        let long = scratch.path().join("n".repeat(255));
        let left = scratch.path().join(format!(".{}.0123456789abcdef", "n".repeat(SHOWN_BYTES_MAX)));
        leave(&left, LEFT_SECONDS);
        drop(AtomicFile::begin(&long, 0o600, Durability::Unsynced).unwrap());
        assert_eq!(names(scratch.path()), ["name"]);
    }

    #[test]
    fn what_only_looks_like_a_hidden_file_of_that_name_is_not_swept() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let dir = Dir::open(scratch.path()).unwrap();
        let age = |name: &str| dir.set_times(name.as_bytes(), None, Some(LONG_AGO)).unwrap();
        for name in [
            ".name.0123456789abcde",
            ".name.0123456789abcdef0",
            ".name.0123456789ABCDEF",
            ".name.0123456789abcdeg",
            ".name2.0123456789abcdef",
            ".other.0123456789abcdef",
            "name.0123456789abcdef",
        ] {
            fs::write(at(name), "content").unwrap();
            age(name);
        }
        fs::create_dir(at(".name.0000000000000001")).unwrap();
        symlink("elsewhere", at(".name.0000000000000002")).unwrap();
        // Somebody has given it another name.
        fs::write(at("kept"), "content").unwrap();
        age("kept");
        fs::hard_link(at("kept"), at(".name.0000000000000003")).unwrap();
        let before = names(scratch.path());
        drop(AtomicFile::begin(&at("name"), 0o600, Durability::Unsynced).unwrap());
        assert_eq!(names(scratch.path()), before);
    }

    #[test]
    fn no_two_hidden_names_are_the_same() {
        let names: std::collections::HashSet<_> = (0..1000).map(|_| hidden_name(b"name")).collect();
        assert_eq!(names.len(), 1000);
        let [first, last] = hidden_names(b"name");
        assert_eq!([&first[..], &last], [&b".name.0000000000000000"[..], b".name.ffffffffffffffff"]);
        assert!(names.iter().all(|name| (&first..=&last).contains(&name)));
        assert!(names.iter().all(|hidden| is_hidden_name(hidden, b"name")));
    }
}
