//! From a path to a descriptor: in pieces that the kernel takes, each confined by the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Links;
use crate::xattr::proc_path;
use crate::{File, Kind, Stat, invalid, stat, uninterrupted};

/// Opens a directory as the user wrote it.
pub(super) fn by_own_words(path: &[u8]) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path.contains(&0) {
        return Err(invalid("a path has no NUL"));
    }
    in_pieces(CWD, path, |dir, piece, flags| {
        rustix::io::retry_on_intr(|| rustix::fs::openat(dir, piece, flags, Mode::empty()))
    })
}

/// Opens a directory below `root` and nowhere else.
pub(super) fn beneath(root: BorrowedFd<'_>, path: &[u8], links: Links) -> io::Result<OwnedFd> {
    if path.is_empty() || path == b"." {
        return root.try_clone_to_owned();
    }
    if path[0] == b'/' || path.contains(&0) {
        return Err(invalid("a path beneath a directory is relative and has no NUL"));
    }
    // The kernel would confine it too, but not in the same way for short and for long paths.
    if path.split(|&byte| byte == b'/').any(|component| component == b"..") {
        return Err(invalid("a path beneath a directory has no .. in it"));
    }
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    in_pieces(root, path, |dir, piece, flags| match openat2(dir, piece, flags, resolve) {
        Err(Errno::NOSYS) if links == Links::Refuse => by_component(dir, piece, flags),
        other => other,
    })
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Anything.
    Long,
    /// Anything; what it shows is compared with what it shows later.
    Compared,
    /// Calls of its own thread, and no io_uring; compared as well.
    Once,
}

impl Use {
    fn look(self, fd: BorrowedFd<'_>) -> io::Result<Stat> {
        match self {
            Use::Long => stat::look(fd, b""),
            Use::Compared | Use::Once => stat::look_now(fd, b""),
        }
    }
}

/// Opens a regular file in `dir`, and nothing else, without ever waiting; with what it shows.
pub(super) fn regular_file(
    dir: BorrowedFd<'_>,
    name: &[u8],
    access: OFlags,
    purpose: Use,
) -> io::Result<(File, Stat)> {
    let open = |flags: OFlags| {
        let flags = access | flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::io::retry_on_intr(|| rustix::fs::openat(dir, name, flags, Mode::empty()))
    };
    // Only the owner may leave the access time alone.
    let (opened, kept) = match open(OFlags::NOATIME) {
        Err(Errno::PERM) => (open(OFlags::empty()), OFlags::empty()),
        other => (other, OFlags::NOATIME),
    };
    let fd = match opened {
        Ok(fd) => fd,
        // A link; a socket or a pipe without the other end; a node without its device; a directory opened for
        // writing.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::ISDIR) => return Err(not_regular()),
        Err(Errno::AGAIN) => return leased_file(dir, name, access, purpose),
        Err(error) => return Err(error.into()),
    };
    let stat = purpose.look(fd.as_fd())?;
    if stat.kind != Kind::File {
        return Err(not_regular());
    }
    if purpose != Use::Once {
        // Non-blocking was for what the name might have been; left on a file, it makes io_uring give up where it
        // should wait.
        uninterrupted(|| rustix::fs::fcntl_setfl(&fd, kept))?;
    }
    Ok((File::from_fd(fd), stat))
}

/// Holds on to an entry of any kind without opening it: no wait, no side effect, no right to its bytes.
pub(super) fn pinned(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    uninterrupted(|| rustix::fs::openat(dir, name, flags, Mode::empty()))
}

/// Somebody holds a lease on the file, and opening it means to wait until they give it up (bounded by the
/// kernel, `/proc/sys/fs/lease-break-time`). That is allowed for a regular file only, so what is waited for
/// is pinned first.
fn leased_file(dir: BorrowedFd<'_>, name: &[u8], access: OFlags, purpose: Use) -> io::Result<(File, Stat)> {
    let pinned = pinned(dir, name)?;
    if stat::kind_of(pinned.as_fd())? != Kind::File {
        return Err(not_regular());
    }
    let path = proc_path(pinned.as_fd());
    let flags = access | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = uninterrupted(|| rustix::fs::open(path.as_str(), flags, Mode::empty()))?;
    // After the lease was given back, and with it what its holder had still to write.
    let stat = purpose.look(fd.as_fd())?;
    Ok((File::from_fd(fd), stat))
}

/// Longest path one system call takes, without its NUL.
const PIECE_BYTES_MAX: usize = 4095;

/// Opens a path of any length, piece by piece. Between pieces a directory need not be readable, only
/// passable.
fn in_pieces(
    start: BorrowedFd<'_>,
    path: &[u8],
    open: impl Fn(BorrowedFd<'_>, &[u8], OFlags) -> rustix::io::Result<OwnedFd>,
) -> io::Result<OwnedFd> {
    let held = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() > PIECE_BYTES_MAX {
        // A slash at the very front is the root's, not a separator.
        let window = &rest[..=PIECE_BYTES_MAX];
        let cut = match window.iter().rposition(|&byte| byte == b'/') {
            Some(cut) if cut > 0 => cut,
            _ => return Err(Errno::NAMETOOLONG.into()),
        };
        let at = here.as_ref().map_or(start, |fd| fd.as_fd());
        let next = open(at, &rest[..cut], held | OFlags::PATH)?;
        here = Some(next);
        rest = &rest[cut + 1..];
        // More separators must not turn the rest into an absolute path.
        while let Some(after) = rest.strip_prefix(b"/") {
            rest = after;
        }
    }
    let at = here.as_ref().map_or(start, |fd| fd.as_fd());
    let last = if rest.is_empty() { b"." } else { rest };
    match open(at, last, held | OFlags::RDONLY) {
        // Not readable; it may still be a place to pass through and to create in.
        Err(Errno::ACCESS) => Ok(open(at, last, held | OFlags::PATH)?),
        other => Ok(other?),
    }
}

/// How often a resolution that races with renames is tried again.
const RACES_MAX: usize = 128;

fn openat2(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    for _ in 1..RACES_MAX {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            // A link's `..` was resolved while something was renamed, and the kernel cannot vouch for the
            // result.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)
}

/// For kernels without `openat2`: one component at a time, each held, none a link, none `..`.
fn by_component(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut components = path.split(|&byte| byte == b'/').filter(|c| !c.is_empty() && *c != b".").peekable();
    let mut here: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        let flags = match components.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags,
        };
        let at = here.as_ref().map_or(dir, |fd| fd.as_fd());
        let next = rustix::io::retry_on_intr(|| {
            rustix::fs::openat(at, component, flags | OFlags::NOFOLLOW, Mode::empty())
        })?;
        here = Some(next);
    }
    match here {
        Some(fd) => Ok(fd),
        None => rustix::io::retry_on_intr(|| rustix::fs::openat(dir, ".", flags, Mode::empty())),
    }
}

fn not_regular() -> io::Error {
    invalid("not a regular file")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    /// Missing from the libc crate; the same on every architecture but PA-RISC.
    const F_SETSIG: i32 = 10;

    /// Sets or gives back a lease, with a signal nobody minds instead of SIGIO, which would end the process.
    fn lease(file: &std::fs::File, kind: i32) -> bool {
        // JUSTIFICATION: leases have no safe wrapper, and only the test of `leased_file` needs one.
        // SAFETY: no pointers; the descriptor is open.
        unsafe {
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
        }
    }

    #[test]
    fn a_leased_file_opens_once_the_lease_is_given_back() {
        let scratch = tempfile::tempdir().unwrap();
        let held = std::fs::File::create(scratch.path().join("leased")).unwrap();
        if !lease(&held, libc::F_WRLCK) {
            println!("skipped: no leases here: {}", io::Error::last_os_error());
            return;
        }
        let root = by_own_words(scratch.path().as_os_str().as_encoded_bytes()).unwrap();
        let begun = Instant::now();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            assert!(lease(&held, libc::F_UNLCK));
        });
        let file = regular_file(root.as_fd(), b"leased", OFlags::RDONLY, Use::Long).unwrap().0;
        assert_eq!(file.stat().unwrap().kind, Kind::File);
        assert!(begun.elapsed() >= Duration::from_millis(90), "the lease was not respected");
        holder.join().unwrap();
    }

    #[test]
    fn a_kernel_without_openat2_confines_as_well() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b/c")).unwrap();
        symlink("b", scratch.path().join("a/link")).unwrap();
        let root = by_own_words(scratch.path().as_os_str().as_encoded_bytes()).unwrap();
        let open = |path: &[u8]| by_component(root.as_fd(), path, OFlags::DIRECTORY | OFlags::CLOEXEC);
        let expected = std::fs::metadata(scratch.path().join("a/b/c")).unwrap();
        let inode = |fd: OwnedFd| stat::look(fd.as_fd(), b"").unwrap().inode;
        assert_eq!(inode(open(b"a//b/./c/").unwrap()), std::os::unix::fs::MetadataExt::ino(&expected));
        assert_eq!(inode(open(b"./").unwrap()), stat::look(root.as_fd(), b"").unwrap().inode);
        assert!(open(b"a/link").is_err() && open(b"a/link/c").is_err());
    }

    #[test]
    fn a_component_that_fits_no_piece_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let root = by_own_words(scratch.path().as_os_str().as_encoded_bytes()).unwrap();
        for path in [vec![b'x'; 5000], [b"a/".to_vec(), vec![b'x'; 9000]].concat()] {
            let error = beneath(root.as_fd(), &path, Links::Refuse).unwrap_err();
            assert!(
                matches!(Errno::from_io_error(&error), Some(Errno::NAMETOOLONG | Errno::NOENT)),
                "{error}"
            );
        }
    }
}
