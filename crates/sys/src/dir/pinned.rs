//! An entry of any kind, held without being opened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Timestamps};

use super::{Dir, bits, component, open};
use crate::stat::{owners, timestamps};
use crate::xattr::{Xattrs, proc_path};
use crate::{Stat, Time, stat, uninterrupted};

/// An entry held without being opened: no wait, no side effect, no right to its bytes. It stays the same entry,
/// whatever has its name by now. For FIFOs and devices, which are never opened; a file has more of this by
/// [`File`](crate::File). Without `/proc` times need Linux 5.8, a mode 6.6, and attributes cannot be changed.
#[derive(Debug)]
pub struct Pinned(OwnedFd);

impl Dir {
    /// Holds an entry, of a symbolic link the link.
    ///
    /// # Errors
    /// `NotFound`; what the kernel says.
    pub fn pin(&self, name: &[u8]) -> io::Result<Pinned> {
        open::pinned(self.as_fd(), component(name)?).map(Pinned)
    }
}

impl Pinned {
    /// What it is now.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn stat(&self) -> io::Result<Stat> {
        stat::look(self.0.as_fd(), b"")
    }

    /// As [`Dir::set_owner`].
    ///
    /// # Errors
    /// As there.
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = owners(uid, gid)?;
        uninterrupted(|| rustix::fs::chownat(&self.0, "", uid, gid, AtFlags::EMPTY_PATH))
    }

    /// As [`Dir::set_mode`]; of a symbolic link the kernel refuses it.
    ///
    /// # Errors
    /// As there.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        set_mode(self.0.as_fd(), mode)
    }

    /// As [`Dir::set_times`].
    ///
    /// # Errors
    /// As there.
    pub fn set_times(&self, atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
        let times = timestamps(atime, mtime)?;
        let path = proc_path(self.0.as_fd());
        let set = || rustix::fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty());
        or_without_proc(uninterrupted(set), || set_times_without_proc(self.0.as_fd(), &times))
    }

    /// As [`Dir::xattrs`].
    ///
    /// # Errors
    /// As there.
    pub fn xattrs(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Xattrs::Pinned(self.0.as_fd()).all()
    }

    /// As [`Dir::set_xattr`].
    ///
    /// # Errors
    /// As there.
    pub fn set_xattr(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        Xattrs::Pinned(self.0.as_fd()).set(key, value)
    }

    /// As [`Dir::remove_xattr`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_xattr(&self, key: &[u8]) -> io::Result<()> {
        Xattrs::Pinned(self.0.as_fd()).remove(key)
    }
}

/// Sets the mode of what is held by a descriptor of `O_PATH`.
pub(super) fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    let path = proc_path(fd);
    let set = || rustix::fs::chmod(path.as_str(), bits(mode));
    or_without_proc(uninterrupted(set), || set_mode_without_proc(fd, mode))
}

/// What came of something that was done by a path below `/proc`; without such paths it is done in another way.
fn or_without_proc(done: io::Result<()>, other: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match done {
        // What is held is never missing itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => other(),
        done => done,
    }
}

/// Linux 5.8.
fn set_times_without_proc(fd: BorrowedFd<'_>, times: &Timestamps) -> io::Result<()> {
    uninterrupted(|| rustix::fs::utimensat(fd, "", times, AtFlags::EMPTY_PATH))
}

/// Linux 6.6.
fn set_mode_without_proc(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    /// The same on every architecture that Rust's std supports.
    const FCHMODAT2: libc::c_long = 452;
    let (fd, mode) = (fd.as_raw_fd(), bits(mode).as_raw_mode());
    // JUSTIFICATION: rustix has no fchmodat2.
    // SAFETY: the name is a C string that lives through the call; nothing is written.
    let said = unsafe { libc::syscall(FCHMODAT2, fd, c"".as_ptr(), mode, libc::AT_EMPTY_PATH) };
    if said == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xattr;

    #[test]
    fn what_is_held_gets_its_mode_and_its_times_without_proc_where_the_kernel_can() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        dir.make_fifo(b"fifo", 0o600).unwrap();
        let held = dir.pin(b"fifo").unwrap();
        let fd = held.0.as_fd();
        let mtime = Time { seconds: 1_000_000_000, nanos: 0 };
        let times = timestamps(None, Some(mtime)).unwrap();
        let is_old = |done: &io::Result<()>| {
            done.as_ref().is_err_and(|error| {
                matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP))
            })
        };
        let given = [set_mode_without_proc(fd, 0o640), set_times_without_proc(fd, &times)];
        if given.iter().any(is_old) {
            eprintln!("skipped: the kernel is too old");
            return;
        }
        for done in given {
            done.unwrap();
        }
        let found = held.stat().unwrap();
        assert_eq!((found.mode, found.mtime), (0o640, mtime));
        assert!(!xattr::bare(fd, c"", libc::AT_EMPTY_PATH) || held.xattrs().unwrap().is_empty());
    }

    #[test]
    fn only_where_proc_is_missing_another_way_is_taken() {
        let failed = |number: i32| move || -> io::Result<()> { Err(io::Error::from_raw_os_error(number)) };
        let kind = |done: io::Result<()>| done.map_err(|error| error.raw_os_error());
        assert_eq!(kind(or_without_proc(failed(libc::ENOENT)(), || Ok(()))), Ok(()));
        assert_eq!(kind(or_without_proc(failed(libc::EPERM)(), || Ok(()))), Err(Some(libc::EPERM)));
        assert_eq!(kind(or_without_proc(Ok(()), failed(libc::ENOSYS))), Ok(()));
    }
}
