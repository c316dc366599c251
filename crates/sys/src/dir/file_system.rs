//! Which file system a directory is on, and its room.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::uninterrupted;

/// A file system and its room at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Which one.
    pub kind: FileSystemKind,
    /// Bytes an ordinary user can still write; without what is reserved for root. Quotas are not in it.
    pub bytes_available: u64,
    /// Bytes it has in all.
    pub bytes_total: u64,
    /// Entries that can still be created; `None` where there is no fixed number (btrfs).
    pub inodes_available: Option<u64>,
    /// Longest name it takes, in bytes; 0 where it does not say.
    pub name_bytes_max: u64,
    /// Mounted without the right to write.
    pub read_only: bool,
}

/// File systems told apart by their magic number. `Display` gives the usual name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystemKind {
    /// ext4, and ext2 and ext3, which share its number.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
    /// tmpfs: memory.
    Tmpfs,
    /// NFS, any version.
    Nfs,
    /// Anything served by a user process.
    Fuse,
    /// overlayfs, as in containers.
    Overlay,
    /// ZFS.
    Zfs,
    /// SMB and CIFS.
    Smb,
    /// CephFS.
    Ceph,
    /// Lustre.
    Lustre,
    /// IBM Storage Scale (GPFS).
    Gpfs,
    /// BeeGFS.
    BeeGfs,
    /// FAT: memory sticks and cards.
    Fat,
    /// exFAT: larger ones.
    ExFat,
    /// NTFS, by the kernel's own driver.
    Ntfs,
    /// Another one, by its magic number.
    Other(u64),
}

impl FileSystemKind {
    /// Its usual name, as in `/proc/mounts`; `other` where it has none here.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind, _)| *kind == self).map_or("other", |(_, _, name)| name)
    }

    /// Whether it may be without owners and modes of its own: one for all, from how it was mounted.
    pub fn may_lack_modes(self) -> bool {
        use FileSystemKind::{ExFat, Fat, Fuse, Ntfs, Smb};
        matches!(self, Fat | ExFat | Ntfs | Smb | Fuse)
    }

    /// Whether [`Dir::sync_file_system`](crate::Dir::sync_file_system) reaches the medium. FUSE, SMB, 9p, Lustre and
    /// BeeGFS only hand over what the page cache holds, if that: their servers are told to flush by a sync of each file
    /// and directory. NFS has the server commit what was written; CephFS waits for its servers. Of GPFS nobody has
    /// shown it, and of one that is not known here nothing is promised.
    pub fn syncs_whole(self) -> bool {
        use FileSystemKind::{BeeGfs, Fuse, Gpfs, Lustre, Other, Smb};
        match self {
            Fuse | Smb | Lustre | BeeGfs | Gpfs => false,
            Other(magic) => SYNC_WHOLE.contains(&magic),
            _ => true,
        }
    }

    /// Whether it is of this machine, on a disk or in memory: what cannot be read there is lost. Of one that a server
    /// or another program has, and of one that is not known here, the same error may only say that this is away.
    pub fn is_local(self) -> bool {
        self.syncs_whole() && !matches!(self, FileSystemKind::Nfs | FileSystemKind::Ceph)
    }

    /// Whether `syncfs` writes everything and tells the disk nothing: a sync of a file or directory does. So does the
    /// kernel's old driver of ext2, which has the number of ext4: there the disk writes its cache when it likes.
    pub(super) fn leaves_disk_cache(self) -> bool {
        use FileSystemKind::{ExFat, Fat, Ntfs, Other};
        matches!(self, Fat | ExFat | Ntfs | Other(UDF))
    }

    fn from_magic(magic: u64) -> FileSystemKind {
        KINDS.iter().find(|(m, _, _)| *m == magic).map_or(FileSystemKind::Other(magic), |(_, kind, _)| *kind)
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileSystemKind::Other(magic) => write!(f, "other(0x{magic:x})"),
            known => f.write_str(known.name()),
        }
    }
}

/// Numbers from `linux/magic.h` and from the file systems' own headers.
const KINDS: &[(u64, FileSystemKind, &str)] = &[
    (0xef53, FileSystemKind::Ext4, "ext4"),
    (0x5846_5342, FileSystemKind::Xfs, "xfs"),
    (0x9123_683e, FileSystemKind::Btrfs, "btrfs"),
    (0x0102_1994, FileSystemKind::Tmpfs, "tmpfs"),
    (0x6969, FileSystemKind::Nfs, "nfs"),
    (0x6573_5546, FileSystemKind::Fuse, "fuse"),
    (0x794c_7630, FileSystemKind::Overlay, "overlay"),
    (0x2fc1_2fc1, FileSystemKind::Zfs, "zfs"),
    (0xff53_4d42, FileSystemKind::Smb, "smb"),
    (0xfe53_4d42, FileSystemKind::Smb, "smb"),
    (0x517b, FileSystemKind::Smb, "smb"),
    (0x00c3_6400, FileSystemKind::Ceph, "ceph"),
    (0x0bd0_0bd0, FileSystemKind::Lustre, "lustre"),
    (0x4750_4653, FileSystemKind::Gpfs, "gpfs"),
    (0x1983_0326, FileSystemKind::BeeGfs, "beegfs"),
    (0x4d44, FileSystemKind::Fat, "vfat"),
    (0x2011_bab0, FileSystemKind::ExFat, "exfat"),
    (0x7366_746e, FileSystemKind::Ntfs, "ntfs3"),
];

/// Those that sync as a whole and are not told apart otherwise: f2fs, bcachefs, JFS, NILFS2, OCFS2, GFS2, UDF, ramfs.
const SYNC_WHOLE: &[u64] =
    &[0xf2f5_2010, 0xca45_1a4e, 0x3153_464a, 0x3434, 0x7461_636f, 0x0116_1970, UDF, 0x8584_58f6];
const UDF: u64 = 0x1501_3346;

/// `ST_RDONLY` of `statfs`.
const READ_ONLY: u64 = 1;

pub(super) fn of(fd: BorrowedFd<'_>) -> io::Result<FileSystem> {
    let raw = uninterrupted(|| rustix::fs::fstatfs(fd))?;
    // Widths and signs of these fields differ between architectures; none is negative.
    let (fragment, block) = (raw.f_frsize as u64, raw.f_bsize as u64);
    let unit_bytes = if fragment > 0 { fragment } else { block };
    Ok(FileSystem {
        // The number has 32 bits; a sign from the field's width is not part of it.
        kind: FileSystemKind::from_magic(raw.f_type as u64 & 0xffff_ffff),
        bytes_available: raw.f_bavail.saturating_mul(unit_bytes),
        bytes_total: raw.f_blocks.saturating_mul(unit_bytes),
        inodes_available: (raw.f_files > 0).then_some(raw.f_ffree),
        name_bytes_max: raw.f_namelen as u64,
        read_only: raw.f_flags as u64 & READ_ONLY != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dir;

    #[test]
    fn every_number_has_one_kind_and_every_kind_a_name() {
        for (magic, kind, name) in KINDS {
            assert_eq!(FileSystemKind::from_magic(*magic), *kind);
            assert_eq!(kind.to_string(), *name);
        }
        assert_eq!(FileSystemKind::from_magic(0x1234).to_string(), "other(0x1234)");
        assert_eq!(FileSystemKind::Other(0x1234).name(), "other");
    }

    #[test]
    fn what_a_server_must_be_told_to_flush_is_not_synced_as_a_whole() {
        use FileSystemKind::{BeeGfs, Ceph, Ext4, Fuse, Gpfs, Lustre, Nfs, Smb, Xfs, Zfs};
        const NINE_P: u64 = 0x0102_1997;
        const AFS: u64 = 0x5346_414f;
        const ORANGE_FS: u64 = 0x2003_0528;
        for kind in [Fuse, Smb, Lustre, BeeGfs, Gpfs] {
            assert!(!kind.syncs_whole(), "{kind}");
        }
        for magic in [NINE_P, AFS, ORANGE_FS] {
            assert!(!FileSystemKind::from_magic(magic).syncs_whole(), "{magic:x}");
        }
        for kind in [Ext4, Xfs, Zfs, Nfs, Ceph] {
            assert!(kind.syncs_whole(), "{kind}");
        }
    }

    #[test]
    fn what_a_server_or_a_program_has_is_not_local() {
        use FileSystemKind::{
            BeeGfs, Btrfs, Ceph, Ext4, Fuse, Gpfs, Lustre, Nfs, Other, Smb, Tmpfs, Xfs, Zfs,
        };
        for kind in [Nfs, Ceph, Fuse, Smb, Lustre, BeeGfs, Gpfs, Other(0x1234)] {
            assert!(!kind.is_local(), "{kind}");
        }
        for kind in [Ext4, Xfs, Btrfs, Zfs, Tmpfs, Other(UDF)] {
            assert!(kind.is_local(), "{kind}");
        }
    }

    #[test]
    fn where_a_sync_of_the_whole_leaves_the_disks_cache_a_directory_is_synced_too() {
        use FileSystemKind::{Btrfs, ExFat, Ext4, Fat, Nfs, Ntfs, Other, Xfs};
        for kind in [Fat, ExFat, Ntfs, Other(UDF)] {
            assert!(kind.syncs_whole() && kind.leaves_disk_cache(), "{kind}");
        }
        for kind in [Ext4, Xfs, Btrfs, Nfs] {
            assert!(!kind.leaves_disk_cache(), "{kind}");
        }
    }

    #[test]
    fn the_file_system_of_this_test_has_room() {
        let scratch = tempfile::tempdir().unwrap();
        let found = Dir::open(scratch.path()).unwrap().file_system().unwrap();
        assert!(found.bytes_total >= found.bytes_available && found.bytes_available > 0, "{found:?}");
        assert!(!found.read_only && found.name_bytes_max >= 143);
    }
}
