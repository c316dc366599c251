//! What the kernel says about an entry, by `statx`; moments and owners in the form that it takes them in, checked.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Gid, Statx, StatxFlags, Timespec, Timestamps, UTIME_OMIT, Uid};

use crate::{invalid, uninterrupted};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket bound to a name.
    Socket,
    /// A block device node.
    BlockDevice,
    /// A character device node.
    CharDevice,
    /// The file system did not say (listings of some file systems): ask [`crate::Dir::stat`].
    Unknown,
}

/// A moment as file systems keep it: seconds since 1970-01-01 UTC, leap seconds not counted.
///
/// Ordered by time as long as `nanos` is below one second, which is true of every value the kernel gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds to add, 0..1_000_000_000, also for negative seconds.
    pub nanos: u32,
}

/// One look at an entry. All fields are of the same moment as far as the file system can give that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Permission, set-id and sticky bits: 0..=0o7777.
    pub mode: u32,
    /// Owner, as seen in this process's user namespace.
    pub uid: u32,
    /// Group, as seen in this process's user namespace.
    pub gid: u32,
    /// Length in bytes; of a symbolic link the length of its target (0 on some special file systems).
    pub size: u64,
    /// Space taken, in units of 512 bytes, whatever the file system's block is. Less than `size` where there
    /// are holes.
    pub blocks_512: u64,
    /// The file system's device number, as `st_dev`. With `inode` it names the entry as long as it exists.
    pub device: u64,
    /// Inode number within the device.
    pub inode: u64,
    /// Names (hard links) this inode has.
    pub links: u64,
    /// Last read, as far as the mount options keep it.
    pub atime: Time,
    /// Last change of the bytes; can be set by anyone who owns the entry.
    pub mtime: Time,
    /// Last change of bytes or metadata; set by the kernel alone.
    pub ctime: Time,
    /// Creation, where the file system keeps it.
    pub birth: Option<Time>,
    /// Major number of the device this node stands for; 0 for other kinds.
    pub rdev_major: u32,
    /// Minor number of the device this node stands for; 0 for other kinds.
    pub rdev_minor: u32,
    /// Mount the entry was reached through (Linux 5.8). Tells bind mounts apart that share a device.
    pub mount_id: Option<u64>,
}

impl Stat {
    /// Whether both looks were at the same inode of the same file system.
    ///
    /// An inode number may be given to a new file after the old one is gone; compare `birth` and `ctime` as
    /// well where that matters.
    pub fn is_same_entry(&self, other: &Stat) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// Looks at `name` below `dir`, or at `dir` itself where `name` is empty. Follows no link and triggers no
/// mount.
pub(crate) fn look(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Stat> {
    Ok(convert(&statx(dir, name, WANTED)?))
}

/// As [`look`], whatever the kernel remembers: who keeps the entry is asked, over a network or in user space. A local
/// file system remembers nothing else than what is, so there it costs nothing more.
pub(crate) fn look_now(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Stat> {
    Ok(convert(&statx_as(dir, name, AtFlags::STATX_FORCE_SYNC, WANTED)?))
}

/// What [`Stat`] carries.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// Looks at the kind of an open descriptor only, which costs a network file system no question.
pub(crate) fn kind_of(fd: BorrowedFd<'_>) -> io::Result<Kind> {
    Ok(kind(FileType::from_raw_mode(statx(fd, b"", StatxFlags::TYPE)?.stx_mode.into())))
}

/// The raw call, for fields that [`Stat`] does not carry.
pub(crate) fn statx(dir: BorrowedFd<'_>, name: &[u8], wanted: StatxFlags) -> io::Result<Statx> {
    statx_as(dir, name, AtFlags::empty(), wanted)
}

fn statx_as(dir: BorrowedFd<'_>, name: &[u8], freshness: AtFlags, wanted: StatxFlags) -> io::Result<Statx> {
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | freshness;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    uninterrupted(|| rustix::fs::statx(dir, name, flags, wanted))
}

pub(crate) fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::Unknown => Kind::Unknown,
    }
}

fn convert(raw: &Statx) -> Stat {
    let said = |field: StatxFlags| raw.stx_mask & field.bits() != 0;
    let time = |t: rustix::fs::StatxTimestamp| Time { seconds: t.tv_sec, nanos: t.tv_nsec };
    Stat {
        kind: kind(FileType::from_raw_mode(raw.stx_mode.into())),
        mode: u32::from(raw.stx_mode) & 0o7777,
        uid: raw.stx_uid,
        gid: raw.stx_gid,
        size: raw.stx_size,
        blocks_512: raw.stx_blocks,
        device: rustix::fs::makedev(raw.stx_dev_major, raw.stx_dev_minor),
        inode: raw.stx_ino,
        links: raw.stx_nlink.into(),
        atime: time(raw.stx_atime),
        mtime: time(raw.stx_mtime),
        ctime: time(raw.stx_ctime),
        birth: said(StatxFlags::BTIME).then(|| time(raw.stx_btime)),
        rdev_major: raw.stx_rdev_major,
        rdev_minor: raw.stx_rdev_minor,
        mount_id: said(StatxFlags::MNT_ID).then_some(raw.stx_mnt_id),
    }
}

/// Times for `utimensat`; `None` leaves that time as it is.
///
/// Nanoseconds of a second or more are refused: the kernel gives two such values the meanings "now" and
/// "leave".
pub(crate) fn timestamps(atime: Option<Time>, mtime: Option<Time>) -> io::Result<Timestamps> {
    let spec = |time: Option<Time>| match time {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(Time { nanos: 1_000_000_000.., .. }) => Err(invalid("nanoseconds must be below 1 000 000 000")),
        Some(Time { seconds, nanos }) => Ok(Timespec { tv_sec: seconds, tv_nsec: nanos.into() }),
    };
    Ok(Timestamps { last_access: spec(atime)?, last_modification: spec(mtime)? })
}

/// Owner and group for `chown`; `None` leaves that one as it is.
///
/// `u32::MAX` is refused: to the kernel it means "leave", and it is nobody's number.
pub(crate) fn owners(uid: Option<u32>, gid: Option<u32>) -> io::Result<(Option<Uid>, Option<Gid>)> {
    if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
        return Err(invalid("4294967295 is not a user or group number"));
    }
    Ok((uid.map(Uid::from_raw), gid.map(Gid::from_raw)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ordered_across_1970() {
        let before = Time { seconds: -1, nanos: 999_999_999 };
        let epoch = Time { seconds: 0, nanos: 0 };
        assert!(before < epoch && epoch < Time { seconds: 0, nanos: 1 });
    }

    #[test]
    fn statx_agrees_with_the_standard_library() {
        use std::os::fd::AsFd;
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        file.set_len(12_345).unwrap();
        let theirs = file.metadata().unwrap();
        let ours = look(file.as_fd(), b"").unwrap();
        assert_eq!(ours.kind, Kind::File);
        assert_eq!((ours.device, ours.inode), (theirs.dev(), theirs.ino()));
        assert_eq!((ours.size, ours.blocks_512), (12_345, theirs.blocks()));
        assert_eq!((ours.uid, ours.gid), (theirs.uid(), theirs.gid()));
        assert_eq!(ours.mode, theirs.mode() & 0o7777);
        assert_eq!((ours.mtime.seconds, i64::from(ours.mtime.nanos)), (theirs.mtime(), theirs.mtime_nsec()));
        assert_eq!(look_now(file.as_fd(), b"").unwrap(), ours);
        assert_eq!(kind_of(file.as_fd()).unwrap(), Kind::File);
    }

    #[test]
    fn numbers_with_a_second_meaning_are_refused() {
        for nanos in [1_000_000_000, (1 << 30) - 1, (1 << 30) - 2, u32::MAX] {
            let time = Some(Time { seconds: 0, nanos });
            assert_eq!(timestamps(time, None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(timestamps(None, time).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(timestamps(Some(Time { seconds: -5, nanos: 999_999_999 }), None).is_ok());
        assert_eq!(owners(Some(u32::MAX), None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(owners(None, Some(u32::MAX)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
