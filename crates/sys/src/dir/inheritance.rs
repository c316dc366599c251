//! What a directory hands down to what is made in it, besides a group and a default ACL.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

use super::FileSystemKind;
use crate::uninterrupted;

/// What is made in a directory gets this, and what is renamed into it does not. Between directories that differ in it
/// the kernel refuses renames (`EXDEV`: another project, another key), or what was handed down is missing afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inheritance {
    /// The project (`chattr -p`), where it is handed down (`chattr +P`).
    pub project: Option<u32>,
    /// Those flags of the directory that are handed down, as its file system numbers them: that nothing is copied on
    /// write (`chattr +C`), that it is compressed, encrypted, folds case, or lies on XFS's real-time device.
    pub flags: u32,
}

pub(super) fn of(fd: BorrowedFd<'_>, kind: FileSystemKind) -> io::Result<Inheritance> {
    match kind {
        // It tells its projects by the older call since Linux 5.13 only.
        FileSystemKind::Xfs => {
            let found = attributes(fd)?;
            let project = (found.flags & XFLAG_PROJECT_INHERIT != 0).then_some(found.project);
            Ok(Inheritance { project, flags: found.flags & XFLAGS_HANDED_DOWN })
        }
        FileSystemKind::Ext4 | FileSystemKind::Btrfs | FileSystemKind::Other(F2FS) => {
            let flags = flags(fd)?;
            let project = match flags & FLAG_PROJECT_INHERIT {
                0 => None,
                _ => Some(attributes(fd)?.project),
            };
            Ok(Inheritance { project, flags: flags & FLAGS_HANDED_DOWN })
        }
        _ => Ok(Inheritance::default()),
    }
}

/// The magic number of f2fs.
const F2FS: u64 = 0xf2f5_2010;

/// `FS_PROJINHERIT_FL` of `linux/fs.h`.
const FLAG_PROJECT_INHERIT: u32 = 0x2000_0000;
/// `FS_COMPR_FL`, `FS_NOCOMP_FL`, `FS_ENCRYPT_FL`, `FS_NOCOW_FL`, `FS_DAX_FL` and `FS_CASEFOLD_FL`.
const FLAGS_HANDED_DOWN: u32 = 0x4 | 0x400 | 0x800 | 0x0080_0000 | 0x0200_0000 | 0x4000_0000;
/// `FS_XFLAG_PROJINHERIT`.
const XFLAG_PROJECT_INHERIT: u32 = 0x200;
/// `FS_XFLAG_RTINHERIT`, `FS_XFLAG_EXTSZINHERIT` and `FS_XFLAG_DAX`.
const XFLAGS_HANDED_DOWN: u32 = 0x100 | 0x1000 | 0x8000;

/// `_IOR('f', 1, long)`, which writes an int all the same.
const FS_IOC_GETFLAGS: Opcode = opcode::read::<libc::c_long>(b'f', 1);
/// `_IOR('X', 31, struct fsxattr)`.
const FS_IOC_FSGETXATTR: Opcode = opcode::read::<Attributes>(b'X', 31);

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
struct Attributes {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    cow_extent_bytes: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<Attributes>() == 28);

fn flags(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // JUSTIFICATION: these flags exist only as an ioctl, and rustix wraps it with one of its backends only.
    // SAFETY: the opcode is that of FS_IOC_GETFLAGS, which writes 32 bits, and `Getter` gives them the place for it.
    uninterrupted(|| unsafe { ioctl(fd, Getter::<FS_IOC_GETFLAGS, u32>::new()) })
}

fn attributes(fd: BorrowedFd<'_>) -> io::Result<Attributes> {
    // JUSTIFICATION: projects exist only as an ioctl, and no crate here wraps it.
    // SAFETY: the opcode is that of FS_IOC_FSGETXATTR, `Attributes` has the layout of what that writes (its size is
    // asserted above and is in the opcode), and every bit pattern is a value of it.
    uninterrupted(|| unsafe { ioctl(fd, Getter::<FS_IOC_FSGETXATTR, Attributes>::new()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir, Links};
    use std::os::fd::AsFd;

    #[test]
    fn a_directory_that_is_made_in_another_hands_the_same_down() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let kind = dir.file_system().unwrap().kind;
        dir.make_dir(b"made", 0o700).unwrap();
        let made = dir.open_beneath(b"made", Links::Refuse).unwrap();
        assert_eq!(made.inheritance(kind).unwrap(), dir.inheritance(kind).unwrap());
    }

    #[test]
    fn a_file_system_where_nothing_is_handed_down_or_asking_costs_a_network_is_not_asked() {
        // A socket's end would refuse every such question.
        let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
        for kind in [FileSystemKind::Tmpfs, FileSystemKind::Nfs, FileSystemKind::Fuse, FileSystemKind::Smb] {
            assert_eq!(of(end.as_fd(), kind).unwrap(), Inheritance::default(), "{kind}");
        }
        assert!(of(end.as_fd(), FileSystemKind::Ext4).is_err());
        assert!(of(end.as_fd(), FileSystemKind::Xfs).is_err());
    }
}
