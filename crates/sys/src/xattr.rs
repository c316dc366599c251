//! Extended attributes of a held descriptor, whatever it is open on.
//!
//! A descriptor for reading or writing takes the `f*xattr` calls. A descriptor opened with `O_PATH` (which is
//! the only kind that pins a symbolic link, a device or a pipe without touching it) does not; it is reached
//! through its entry below `/proc/thread-self/fd`, which leads to exactly that inode and no further.
//! `thread-self`, because `self` names the first thread, whose table is gone once it has exited.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::{invalid, uninterrupted};

/// The kernel's bounds: `XATTR_NAME_MAX`, `XATTR_SIZE_MAX`, `XATTR_LIST_MAX`.
const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 64 << 10;
const LIST_BYTES_MAX: usize = 64 << 10;

/// How often a list or value that grows while we read it is read again.
const GROWTH_ROUNDS_MAX: usize = 16;

/// A pinned inode and the way to its attributes.
pub(crate) enum Xattrs<'a> {
    /// Open for reading or writing.
    Open(BorrowedFd<'a>),
    /// Pinned with `O_PATH`.
    Pinned(BorrowedFd<'a>),
}

impl Xattrs<'_> {
    /// All attributes the caller may see, in the file system's order; empty where the file system has none.
    pub(crate) fn all(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let names = match growing(LIST_BYTES_MAX, |buffer| self.list(buffer)) {
            Ok(names) => names,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
            // Without `/proc`.
            Err(Errno::NOENT) if self.is_bare() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            match growing(VALUE_BYTES_MAX, |buffer| self.get(name, buffer)) {
                Ok(value) => found.push((name.to_vec(), value)),
                // Removed since it was listed, or listed by a file system that says it has no value for it
                // (NFSv4).
                Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// One attribute; `None` where there is none, or the file system has none.
    pub(crate) fn one(&self, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        check_name(name)?;
        match growing(VALUE_BYTES_MAX, |buffer| self.get(name, buffer)) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            // Without `/proc`.
            Err(Errno::NOENT) if self.is_bare() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates or replaces one attribute.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
        check_name(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(invalid("an extended attribute's value has at most 65536 bytes"));
        }
        uninterrupted(|| match self {
            Xattrs::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Xattrs::Pinned(fd) => rustix::fs::setxattr(proc_path(*fd), name, value, XattrFlags::empty()),
        })
    }

    /// Removes one attribute; `ENODATA` if there is none.
    pub(crate) fn remove(&self, name: &[u8]) -> io::Result<()> {
        check_name(name)?;
        uninterrupted(|| match self {
            Xattrs::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Xattrs::Pinned(fd) => rustix::fs::removexattr(proc_path(*fd), name),
        })
    }

    /// As [`is_bare`].
    fn is_bare(&self) -> bool {
        let (Xattrs::Open(fd) | Xattrs::Pinned(fd)) = self;
        bare(*fd, c"", libc::AT_EMPTY_PATH)
    }

    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Xattrs::Open(fd) => rustix::fs::flistxattr(fd, buffer),
            Xattrs::Pinned(fd) => rustix::fs::listxattr(proc_path(*fd), buffer),
        }
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Xattrs::Open(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Xattrs::Pinned(fd) => rustix::fs::getxattr(proc_path(*fd), name, buffer),
        }
    }
}

/// Whether an entry has no attributes, in one call and without opening it (Linux 6.13). False where it has some, and
/// where the kernel does not tell: pin it then, and ask again.
pub(crate) fn is_bare(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    CString::new(name).is_ok_and(|name| bare(dir, &name, libc::AT_SYMLINK_NOFOLLOW))
}

/// As [`is_bare`], of a name that is looked up by these flags.
pub(crate) fn bare(dir: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> bool {
    /// The same on every architecture that Rust's std supports.
    const LISTXATTRAT: libc::c_long = 465;
    let nothing: *mut libc::c_char = std::ptr::null_mut();
    // JUSTIFICATION: libc and rustix have no listxattrat. To pin an entry, list by its path below /proc and close it
    // takes 1.8 us instead of 0.3 us (ext4, 6.18), for each entry of a scan. SAFETY: the name is a C string that lives
    // through the call; no room is offered, so nothing is written.
    let bytes = unsafe { libc::syscall(LISTXATTRAT, dir.as_raw_fd(), name.as_ptr(), flags, nothing, 0usize) };
    bytes == 0
}

/// The path below `/proc` that leads to exactly what `fd` is open on.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

fn check_name(name: &[u8]) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(invalid("an extended attribute's name has 1 to 255 bytes and no NUL"));
    }
    Ok(())
}

/// Reads something whose length is known only by reading it: small first, then up to `bytes_max`.
fn growing(
    bytes_max: usize,
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 512];
    for _ in 0..GROWTH_ROUNDS_MAX {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < bytes_max => {
                buffer.resize((buffer.len() * 8).min(bytes_max), 0);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}
