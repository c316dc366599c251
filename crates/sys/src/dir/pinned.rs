//! An entry of any kind, held without being opened.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD};

use super::{Dir, bits, component, open};
use crate::argument::{owners, timestamps};
use crate::xattr::{Held, proc_path};
use crate::{Stat, Time, stat, uninterrupted};

/// An entry held without being opened: no wait, no side effect, no right to its bytes. It stays the same entry,
/// whatever has its name by now. For FIFOs and devices, which are never opened; a file has more of this by
/// [`File`](crate::File). Needs `/proc` for every change.
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
        let path = proc_path(self.0.as_fd());
        uninterrupted(|| rustix::fs::chownat(CWD, path.as_str(), uid, gid, AtFlags::empty()))
    }

    /// As [`Dir::set_mode`]; of a symbolic link the kernel refuses it.
    ///
    /// # Errors
    /// As there.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let path = proc_path(self.0.as_fd());
        uninterrupted(|| rustix::fs::chmod(path.as_str(), bits(mode)))
    }

    /// As [`Dir::set_times`].
    ///
    /// # Errors
    /// As there.
    pub fn set_times(&self, atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
        let times = timestamps(atime, mtime)?;
        let path = proc_path(self.0.as_fd());
        uninterrupted(|| rustix::fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty()))
    }

    /// As [`Dir::xattrs`].
    ///
    /// # Errors
    /// As there.
    pub fn xattrs(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Held::Pinned(self.0.as_fd()).all()
    }

    /// As [`Dir::set_xattr`].
    ///
    /// # Errors
    /// As there.
    pub fn set_xattr(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        Held::Pinned(self.0.as_fd()).set(key, value)
    }

    /// As [`Dir::remove_xattr`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_xattr(&self, key: &[u8]) -> io::Result<()> {
        Held::Pinned(self.0.as_fd()).remove(key)
    }
}
