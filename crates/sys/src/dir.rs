//! Directories held by descriptor: the project's only way from a name to a file.
//!
//! A [`Dir`] is opened once and stays the same directory, whatever happens to its name. Everything else is
//! done to one name in it, without following a link, or to a path below it that the kernel itself confines
//! (`openat2`). So a path that a peer sends, or a component that a local user swaps meanwhile, cannot lead
//! out.
//!
//! Every `name` is ONE component: 1 to 255 bytes, not `.` or `..`, without `/` and NUL. Anything else is
//! refused as `InvalidInput` before a system call.
//!
//! Not guaranteed: a held directory that somebody moves out of the tree is still the same directory, and work
//! in it goes on at its new place. Mount points below are entered; compare [`Stat::mount_id`] where that is
//! not wanted.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;

use crate::stat::{owners, timestamps};
use crate::xattr::{self, Xattrs};
use crate::{File, Kind, Stat, Time, invalid, stat, uninterrupted};

mod file_system;
mod inheritance;
mod lasting;
mod open;
mod pinned;

pub use file_system::{FileSystem, FileSystemKind};
pub use inheritance::Inheritance;
pub use lasting::make_lasting;
pub use pinned::Pinned;

/// A held directory. Closed on drop.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// What a path may lead through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Any component that is a symbolic link is refused (`RESOLVE_NO_SYMLINKS`; `ELOOP`).
    Refuse,
    /// Symbolic links are followed as long as they stay beneath (`EXDEV` where they do not). Absolute ones
    /// never do.
    Beneath,
}

/// What becomes of an entry that already has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It is replaced, atomically: at every moment the name leads to the old or to the new entry.
    Existing,
    /// Nothing is replaced; `AlreadyExists`. Where the file system lacks `RENAME_NOREPLACE` a hard link
    /// stands in for it (both names exist for a moment), and for a directory a look beforehand, which another
    /// process can overtake.
    Never,
    /// Both entries change names, atomically. Both must exist.
    Exchange,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, as bytes; never `.` or `..`.
    pub name: Vec<u8>,
    /// What it is, or [`Kind::Unknown`] where the listing does not say.
    pub kind: Kind,
    /// Inode number as listed. For a mount point this is the directory below the mount.
    pub inode: u64,
}

impl Dir {
    /// Opens a directory by the user's own words: follows links and `..`, relative to the working directory,
    /// any length.
    pub fn open(path: &Path) -> io::Result<Dir> {
        open::by_own_words(path.as_os_str().as_bytes()).map(Dir)
    }

    /// Opens a directory beneath this one, confined by the kernel.
    ///
    /// `path` is relative, of any length and depth, without `..` and NUL (`InvalidInput` otherwise, in both
    /// modes of `links`); empty and `.` mean this directory. Of a path longer than 4095 bytes each piece of
    /// that length is confined by itself, which may refuse a link upwards that a shorter path would have
    /// allowed, never the reverse.
    ///
    /// A directory that may be passed through but not read is opened all the same; then [`Dir::entries`] and
    /// [`Dir::sync`] fail. Without `openat2` (Linux before 5.6, some sandboxes) `Links::Refuse` walks one
    /// component at a time, and `Links::Beneath` fails with `ENOSYS`.
    pub fn open_beneath(&self, path: &[u8], links: Links) -> io::Result<Dir> {
        open::beneath(self.as_fd(), path, links).map(Dir)
    }

    /// Takes over an open descriptor; `ENOTDIR` if it is not a directory's.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Dir> {
        match stat::kind_of(fd.as_fd())? {
            Kind::Dir => Ok(Dir(fd)),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// A second handle on the same directory.
    pub fn try_clone(&self) -> io::Result<Dir> {
        Ok(Dir(self.0.try_clone()?))
    }

    /// This directory as a [`File`], for its own metadata: mode, owner, times, attributes. Bytes cannot be
    /// read or written. Of a directory that may not be read, the changes fail with `EBADF`; make them by name
    /// from its parent.
    pub fn as_file(&self) -> io::Result<File> {
        Ok(File::from_fd(self.0.try_clone()?))
    }

    /// Looks at one entry; of a symbolic link at the link.
    pub fn stat(&self, name: &[u8]) -> io::Result<Stat> {
        stat::look(self.as_fd(), component(name)?)
    }

    /// As [`Dir::stat`], whatever the kernel remembers; see [`File::stat_now`].
    pub fn stat_now(&self, name: &[u8]) -> io::Result<Stat> {
        stat::look_now(self.as_fd(), component(name)?)
    }

    /// Looks at this directory.
    pub fn stat_self(&self) -> io::Result<Stat> {
        stat::look(self.as_fd(), b"")
    }

    /// Whether it may be passed through, and no more: it could not be read when it was opened. Nothing of its metadata
    /// is set by it.
    pub fn is_passage(&self) -> io::Result<bool> {
        Ok(uninterrupted(|| rustix::fs::fcntl_getfl(&self.0))?.contains(OFlags::PATH))
    }

    /// Lists this directory from its beginning, in the file system's order. Entries that come or go meanwhile
    /// may be in it or not. Takes a 64 KiB buffer and a descriptor of its own.
    pub fn entries(&self) -> io::Result<Entries> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::openat(&self.0, ".", flags, Mode::empty()))?;
        Ok(Entries {
            fd,
            buffer: Box::new_uninit_slice(LISTING_BYTES),
            batch: Vec::new().into_iter(),
            ended: false,
        })
    }

    /// Opens a regular file for reading, leaving its access time alone where permitted.
    ///
    /// Never waits on a pipe and never becomes a controlling terminal. `InvalidInput` if it is not a regular
    /// file. A device node is opened and closed to find that out; look with [`Dir::stat`] first where that
    /// could matter.
    pub fn open_read(&self, name: &[u8]) -> io::Result<File> {
        open::regular_file(self.as_fd(), component(name)?, OFlags::RDONLY, open::Use::Long)
            .map(|(file, _)| file)
    }

    /// As [`Dir::open_looked`], for a file that is read here and now, with one call less. It stays non-blocking, which
    /// is nothing to a regular file, but makes io_uring give up early.
    pub fn open_once(&self, name: &[u8]) -> io::Result<(File, Stat)> {
        open::regular_file(self.as_fd(), component(name)?, OFlags::RDONLY, open::Use::Once)
    }

    /// As [`Dir::open_read`], with what it showed when it was opened, as by [`File::stat_now`].
    pub fn open_looked(&self, name: &[u8]) -> io::Result<(File, Stat)> {
        open::regular_file(self.as_fd(), component(name)?, OFlags::RDONLY, open::Use::Compared)
    }

    /// Opens a regular file for reading and writing, by the rules of [`Dir::open_read`]. Creates and
    /// truncates nothing.
    pub fn open_read_write(&self, name: &[u8]) -> io::Result<File> {
        open::regular_file(self.as_fd(), component(name)?, OFlags::RDWR, open::Use::Long)
            .map(|(file, _)| file)
    }

    /// Opens a FIFO for reading, whether or not somebody writes to it. Reads do not wait: poll before.
    ///
    /// # Errors
    /// `InvalidInput` if it is none.
    pub fn open_fifo(&self, name: &[u8]) -> io::Result<File> {
        let name = component(name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::openat(&self.0, name, flags, Mode::empty()))?;
        match stat::kind_of(fd.as_fd())? {
            Kind::Fifo => Ok(File::from_fd(fd)),
            _ => Err(crate::invalid("it is no FIFO")),
        }
    }

    /// Creates a file that was not there (`AlreadyExists`, also for a dangling link) and opens it for reading
    /// and writing.
    ///
    /// `mode` (0..=0o7777) minus the process's umask, which [`crate::process::clear_umask`] makes empty, so
    /// that it is exact; a default ACL of the directory replaces the umask.
    pub fn create_new(&self, name: &[u8], mode: u32) -> io::Result<File> {
        let name = component(name)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        uninterrupted(|| rustix::fs::openat(&self.0, name, flags, bits(mode))).map(File::from_fd)
    }

    /// Takes the lock of a file in it, which is made (mode 0600) if it is not there: `None` if somebody else has it.
    /// Never waits. It goes with the handle, however its process ends ([`File::lock_exclusive`]); the file stays.
    pub fn lock(&self, name: &[u8]) -> io::Result<Option<File>> {
        let file = match self.create_new(name, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open_read_write(name),
            other => other,
        }?;
        Ok(file.lock_exclusive()?.then_some(file))
    }

    /// Makes a directory. Of `mode` the kernel takes 0o1777 (minus the umask); set the set-id bits
    /// afterwards.
    pub fn make_dir(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let name = component(name)?;
        uninterrupted(|| rustix::fs::mkdirat(&self.0, name, bits(mode)))
    }

    /// Removes a name of anything but a directory; of a symbolic link the link.
    pub fn remove_file(&self, name: &[u8]) -> io::Result<()> {
        let name = component(name)?;
        uninterrupted(|| rustix::fs::unlinkat(&self.0, name, AtFlags::empty()))
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: &[u8]) -> io::Result<()> {
        let name = component(name)?;
        uninterrupted(|| rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR))
    }

    /// Renames within one file system (`CrossesDevices` otherwise). Sync both directories to make it durable.
    pub fn rename(&self, name: &[u8], to: &Dir, to_name: &[u8], replace: Replace) -> io::Result<()> {
        let (name, to_name) = (component(name)?, component(to_name)?);
        let flags = match replace {
            Replace::Existing => return self.rename_existing(name, to, to_name),
            Replace::Never => RenameFlags::NOREPLACE,
            Replace::Exchange => RenameFlags::EXCHANGE,
        };
        let renamed =
            rustix::io::retry_on_intr(|| rustix::fs::renameat_with(&self.0, name, &to.0, to_name, flags));
        match renamed {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if replace == Replace::Never => {
                self.rename_by_link(name, to, to_name)
            }
            other => Ok(other?),
        }
    }

    /// Makes a symbolic link called `name` that says `target`: 1 to 4095 bytes without NUL, otherwise not
    /// looked at.
    pub fn make_symlink(&self, target: &[u8], name: &[u8]) -> io::Result<()> {
        let name = component(name)?;
        if target.is_empty() || target.contains(&0) {
            return Err(invalid("a link's target has at least one byte and no NUL"));
        }
        uninterrupted(|| rustix::fs::symlinkat(target, &self.0, name))
    }

    /// Where it is now, whatever links led to it; `None` if the kernel does not say (no `/proc`).
    pub fn real_path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()
    }

    /// What a symbolic link says, whatever its length. `EINVAL` if it is none.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let name = component(name)?;
        Ok(uninterrupted(|| rustix::fs::readlinkat(&self.0, name, Vec::new()))?.into_bytes())
    }

    /// Gives an entry (of a symbolic link the link) a second name, within one file system.
    pub fn make_link(&self, name: &[u8], to: &Dir, to_name: &[u8]) -> io::Result<()> {
        let (name, to_name) = (component(name)?, component(to_name)?);
        uninterrupted(|| rustix::fs::linkat(&self.0, name, &to.0, to_name, AtFlags::empty()))
    }

    /// Makes a named pipe with `mode` (0..=0o7777) minus the umask.
    pub fn make_fifo(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let name = component(name)?;
        uninterrupted(|| rustix::fs::mknodat(&self.0, name, FileType::Fifo, bits(mode), 0))
    }

    /// Makes a device node with `mode` (0..=0o7777) minus the umask. Needs `CAP_MKNOD` (`EPERM` otherwise).
    ///
    /// `major` has 12 bits and `minor` 20 in the kernel; larger numbers are refused as `InvalidInput`.
    pub fn make_device(&self, name: &[u8], mode: u32, block: bool, major: u32, minor: u32) -> io::Result<()> {
        let name = component(name)?;
        if major >= 1 << 12 || minor >= 1 << 20 {
            return Err(invalid("a device's major number has 12 bits, its minor number 20"));
        }
        let kind = if block { FileType::BlockDevice } else { FileType::CharacterDevice };
        let device = rustix::fs::makedev(major, minor);
        uninterrupted(|| rustix::fs::mknodat(&self.0, name, kind, bits(mode), device))
    }

    /// Sets an entry's times, of a symbolic link the link's; `None` leaves that one.
    pub fn set_times(&self, name: &[u8], atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
        let (name, times) = (component(name)?, timestamps(atime, mtime)?);
        uninterrupted(|| rustix::fs::utimensat(&self.0, name, &times, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Sets an entry's owner and group, of a symbolic link the link's; `None` leaves that one. Clears set-id
    /// bits of files.
    pub fn set_owner(&self, name: &[u8], uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (name, (uid, gid)) = (component(name)?, owners(uid, gid)?);
        uninterrupted(|| rustix::fs::chownat(&self.0, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Sets permission, set-id and sticky bits (0..=0o7777). `InvalidInput` if it is a symbolic link, which
    /// has none of its own.
    pub fn set_mode(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let pinned = open::pinned(self.as_fd(), component(name)?)?;
        if stat::kind_of(pinned.as_fd())? == Kind::Symlink {
            return Err(invalid("a symbolic link has no mode"));
        }
        pinned::set_mode(pinned.as_fd(), mode)
    }

    /// All extended attributes of an entry (of a symbolic link the link's) that the caller may see; see
    /// [`File::xattrs`].
    pub fn xattrs(&self, name: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let name = component(name)?;
        if xattr::is_bare(self.as_fd(), name) {
            return Ok(Vec::new());
        }
        let pinned = open::pinned(self.as_fd(), name)?;
        Xattrs::Pinned(pinned.as_fd()).all()
    }

    /// As [`Dir::xattrs`], of this directory. One that may not be read has them too.
    pub fn xattrs_self(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        match Xattrs::Open(self.as_fd()).all() {
            // Then it is only held.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => {
                Xattrs::Pinned(self.as_fd()).all()
            }
            other => other,
        }
    }

    /// One extended attribute of an entry, of a symbolic link the link's; `None` if there is none. What others there
    /// are is not read.
    pub fn xattr(&self, name: &[u8], key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let name = component(name)?;
        if xattr::is_bare(self.as_fd(), name) {
            return Ok(None);
        }
        let pinned = open::pinned(self.as_fd(), name)?;
        Xattrs::Pinned(pinned.as_fd()).one(key)
    }

    /// As [`Dir::xattr`], of this directory. One that may not be read has them too.
    pub fn xattr_self(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match Xattrs::Open(self.as_fd()).one(key) {
            // Then it is only held.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => {
                Xattrs::Pinned(self.as_fd()).one(key)
            }
            other => other,
        }
    }

    /// Creates or replaces an extended attribute of an entry, of a symbolic link the link's; see
    /// [`File::set_xattr`].
    pub fn set_xattr(&self, name: &[u8], key: &[u8], value: &[u8]) -> io::Result<()> {
        let pinned = open::pinned(self.as_fd(), component(name)?)?;
        Xattrs::Pinned(pinned.as_fd()).set(key, value)
    }

    /// Removes an extended attribute of an entry, of a symbolic link the link's; `ENODATA` if there is none.
    pub fn remove_xattr(&self, name: &[u8], key: &[u8]) -> io::Result<()> {
        let pinned = open::pinned(self.as_fd(), component(name)?)?;
        Xattrs::Pinned(pinned.as_fd()).remove(key)
    }

    /// Makes the names in this directory survive a power cut. Where the file system knows no sync of directories
    /// (vboxsf, some of 9p) there is nothing else to call than [`Dir::sync_file_system`]. After an error see
    /// [`File::sync_data`].
    pub fn sync(&self) -> io::Result<()> {
        match uninterrupted(|| rustix::fs::fsync(&self.0)) {
            Err(error) if is_unknown(&error) => self.sync_file_system(),
            other => other.map_err(unreadable),
        }
    }

    /// Makes everything written to this file system before survive a power cut: files, names, other
    /// processes' too. Where that leaves the disk's own cache as it is, this directory is synced as well, which does
    /// not.
    ///
    /// Since Linux 5.8 a write that failed anywhere on the file system since this handle was opened is an
    /// error here, once.
    pub fn sync_file_system(&self) -> io::Result<()> {
        uninterrupted(|| rustix::fs::syncfs(&self.0)).map_err(unreadable)?;
        if self.file_system().is_ok_and(|system| system.kind.leaves_disk_cache()) {
            uninterrupted(|| rustix::fs::fsync(&self.0)).map_err(unreadable)?;
        }
        Ok(())
    }

    /// The file system this directory is on, and its room right now.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        file_system::of(self.as_fd())
    }

    /// What this directory, on a file system of this `kind`, hands down to what is made in it. One question to the
    /// kernel, two where that is a project; none, and nothing, on a kind where directories hand nothing down or a
    /// server would have to be asked.
    ///
    /// `EBADF` if it may be passed through, not read.
    pub fn inheritance(&self, kind: FileSystemKind) -> io::Result<Inheritance> {
        inheritance::of(self.as_fd(), kind)
    }

    fn rename_existing(&self, name: &[u8], to: &Dir, to_name: &[u8]) -> io::Result<()> {
        uninterrupted(|| rustix::fs::renameat(&self.0, name, &to.0, to_name))
    }

    /// A rename that replaces nothing, for file systems without `RENAME_NOREPLACE`.
    fn rename_by_link(&self, name: &[u8], to: &Dir, to_name: &[u8]) -> io::Result<()> {
        let linked =
            rustix::io::retry_on_intr(|| rustix::fs::linkat(&self.0, name, &to.0, to_name, AtFlags::empty()));
        match linked {
            Ok(()) => self.remove_file(name),
            // A directory, or a file system without hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::INVAL) => {
                match to.stat(to_name) {
                    Ok(_) => Err(Errno::EXIST.into()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.rename_existing(name, to, to_name)
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A listing under way. After an error it ends.
pub struct Entries {
    fd: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
    batch: std::vec::IntoIter<DirEntry>,
    ended: bool,
}

impl Iterator for Entries {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(Ok(entry));
            }
            if self.ended {
                return None;
            }
            match self.read_batch() {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Entries {
    /// One `getdents`: what fits the buffer. Sets `ended` at the end of the directory.
    fn read_batch(&mut self) -> io::Result<Vec<DirEntry>> {
        let mut raw = RawDir::new(&self.fd, &mut self.buffer);
        let mut batch = Vec::new();
        loop {
            match raw.next() {
                None => {
                    self.ended = true;
                    return Ok(batch);
                }
                Some(Err(Errno::INTR)) => continue,
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        let kind = stat::kind(entry.file_type());
                        batch.push(DirEntry { name: name.to_vec(), kind, inode: entry.ino() });
                    }
                }
            }
            if raw.is_buffer_empty() {
                return Ok(batch);
            }
        }
    }
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("fd", &self.fd).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Some 1500 names of common length for each system call.
const LISTING_BYTES: usize = 64 << 10;

/// Longest name of one component, in bytes, on the file systems we write to.
const NAME_BYTES_MAX: usize = 255;

fn component(name: &[u8]) -> io::Result<&[u8]> {
    let refused = matches!(name, b"" | b"." | b"..") || name.len() > NAME_BYTES_MAX;
    if refused || name.contains(&b'/') || name.contains(&0) {
        return Err(invalid("a name is one component of 1 to 255 bytes, not . or .., without / and NUL"));
    }
    Ok(name)
}

fn bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// Whether the file system has no such call.
fn is_unknown(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}

/// A directory that was opened without permission to read cannot be synced; the kernel's `EBADF` would not
/// say so.
fn unreadable(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::BADF) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the directory may not be read, so it cannot be synced",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_component_is_a_name() {
        let long = vec![b'x'; 256];
        for refused in [&b""[..], b".", b"..", b"a/b", b"/", b"/a", b"a/", b"a\0b", b"\0", &long] {
            assert_eq!(component(refused).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{refused:?}");
        }
        for taken in [&b"a"[..], b"...", b"..a", b" ", b"\xff\xfe", b"-rf", b"a\nb", &long[..255]] {
            assert_eq!(component(taken).unwrap(), taken);
        }
    }

    #[test]
    fn a_directory_that_is_only_held_tells_its_attributes() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Dir::open(scratch.path()).unwrap();
        root.make_dir(b"dark", 0o700).unwrap();
        let opened = root.open_beneath(b"dark", Links::Refuse).unwrap();
        // As one that may not be read.
        let held = Dir(open::pinned(root.as_fd(), b"dark").unwrap());
        assert_eq!(held.xattrs_self().unwrap(), opened.xattrs_self().unwrap());
        match root.set_xattr(b"dark", b"user.a", b"1") {
            Ok(()) => {
                let own = (b"user.a".to_vec(), b"1".to_vec());
                assert!([&opened, &held].iter().all(|dir| dir.xattrs_self().unwrap().contains(&own)));
            }
            Err(error) => println!("skipped: no attributes here: {error}"),
        }
    }

    #[test]
    fn a_rename_without_the_kernels_help_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        dir.create_new(b"a", 0o600).unwrap();
        dir.create_new(b"b", 0o600).unwrap();
        let refused = dir.rename_by_link(b"a", &dir, b"b").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        dir.rename_by_link(b"a", &dir, b"c").unwrap();
        assert!(dir.stat(b"a").is_err() && dir.stat(b"c").is_ok());

        dir.make_dir(b"d", 0o700).unwrap();
        dir.make_dir(b"e", 0o700).unwrap();
        let refused = dir.rename_by_link(b"d", &dir, b"e").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        dir.rename_by_link(b"d", &dir, b"f").unwrap();
        assert!(dir.stat(b"d").is_err() && dir.stat(b"f").is_ok());
    }
}
