//! Which files have holes.
//!
//! A file that takes less room than its size has some, or its file system compresses it, or keeps it in its inode: only
//! the file itself tells, and only where its file system does. Elsewhere none is opened: that costs a server's answer,
//! and may bring a file back from tape. Nothing is read of it.

use crate::mutex::lock;
use std::io;
use std::sync::Mutex;
use thalweg_sys::{Dir, FileSystemKind, Kind, Stat};
use thalweg_wire::digest::HASHED_HOLE_BYTES_MAX;

/// Up to so many bytes, one block, a file is not asked.
const BLOCK_BYTES: u64 = 4 << 10;
/// A file of which so many holes come to no result is taken for what its room says: each costs two calls.
const HOLES_MAX: u32 = 2048;

/// What is known of the holes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holes {
    /// There are some.
    pub sparse: bool,
    /// They are more than are digested as zeros.
    pub marked: bool,
}

impl Holes {
    /// By the room that it takes.
    pub(super) fn by_room(stat: &Stat) -> Holes {
        let missing = missing_bytes(stat);
        Holes { sparse: missing > 0, marked: missing > HASHED_HOLE_BYTES_MAX }
    }

    /// As `name` itself tells; `None` where its room has the last word: it takes all of it, or it is not to be asked,
    /// or cannot be.
    pub(super) fn told(dir: &Dir, name: &[u8], stat: &Stat, tellers: &Tellers) -> Option<Holes> {
        if stat.kind != Kind::File || stat.size <= BLOCK_BYTES || missing_bytes(stat) == 0 {
            return None;
        }
        if !tellers.may_ask(dir, stat) {
            return None;
        }
        let (file, now) = dir.open_once(name).ok()?;
        if !now.is_same_entry(stat) || now.size != stat.size {
            // It is found to have changed when it is read.
            return None;
        }
        Holes::among(stat, |at| file.next_hole(at), |at| file.next_data(at)).ok()
    }

    /// Of those that the file has, by `next_hole` and `next_data` as of [`thalweg_sys::File`].
    fn among(
        stat: &Stat,
        next_hole: impl Fn(u64) -> io::Result<u64>,
        next_data: impl Fn(u64) -> io::Result<Option<u64>>,
    ) -> io::Result<Holes> {
        let size = stat.size;
        let mut hole = next_hole(0)?;
        if hole >= size {
            return Ok(Holes { sparse: false, marked: false });
        }
        // Holes take nothing: there are no more of them than what is missing.
        if missing_bytes(stat) <= HASHED_HOLE_BYTES_MAX {
            return Ok(Holes { sparse: true, marked: false });
        }
        let mut bytes = 0u64;
        for _ in 0..HOLES_MAX {
            let data = next_data(hole)?.unwrap_or(size).min(size);
            bytes += data.saturating_sub(hole);
            if bytes > HASHED_HOLE_BYTES_MAX {
                break;
            }
            hole = if data < size { next_hole(data)? } else { size };
            if hole >= size {
                return Ok(Holes { sparse: true, marked: false });
            }
        }
        Ok(Holes { sparse: true, marked: true })
    }
}

/// Which file systems have files that are asked. One is looked at once for each device that a scan comes to, and only
/// where a file takes less room than its size: what is on a server answers from there.
#[derive(Debug, Default)]
pub(super) struct Tellers {
    /// The device that was come to last, and what is on it.
    last: Mutex<Option<(u64, FileSystemKind)>>,
}

impl Tellers {
    /// Whether a file in `dir` may be opened for its holes.
    fn may_ask(&self, dir: &Dir, stat: &Stat) -> bool {
        let mut last = lock(&self.last);
        let known = *last;
        let kind = match known {
            Some((device, kind)) if device == stat.device => kind,
            _ => {
                let Ok(system) = dir.file_system() else { return false };
                *last = Some((stat.device, system.kind));
                system.kind
            }
        };
        // What Lustre released to an archive has one block at most, and is brought back by whoever looks for holes.
        let may_be_away =
            kind == FileSystemKind::Lustre && stat.blocks_512.saturating_mul(512) <= BLOCK_BYTES;
        tells_holes(kind) && !may_be_away
    }
}

/// Bytes of it that take no room.
fn missing_bytes(stat: &Stat) -> u64 {
    stat.size.saturating_sub(stat.blocks_512.saturating_mul(512))
}

/// Whether files there tell all of their holes. To others, as NFS before 4.2 and many of FUSE, all is data: that one
/// says to have none proves nothing. Lustre tells since 2.14.
fn tells_holes(kind: FileSystemKind) -> bool {
    use FileSystemKind::{Btrfs, Ext4, Lustre, Overlay, Tmpfs, Xfs, Zfs};
    matches!(kind, Ext4 | Xfs | Btrfs | Tmpfs | Overlay | Zfs | Lustre)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MIB: u64 = 1 << 20;

    /// What is found of a file of `size` bytes that takes `stored`, with holes of `hole` bytes and as much data before
    /// each; and how often it was asked.
    fn found(size: u64, stored: u64, hole: u64) -> (Holes, u32) {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let any = Dir::open(scratch.path()).unwrap().stat_self().unwrap();
        let stat = Stat { size, blocks_512: stored / 512, kind: Kind::File, ..any };
        let asked = Cell::new(0);
        let ask = |answer: u64| {
            asked.set(asked.get() + 1);
            answer.min(size)
        };
        let is_data = |at: u64| hole == 0 || (at / hole).is_multiple_of(2);
        let next = |at: u64| (at / hole + 1) * hole;
        let next_hole = |at| {
            Ok(ask(if hole == 0 {
                size
            } else if is_data(at) {
                next(at)
            } else {
                at
            }))
        };
        let next_data = |at| Ok(Some(ask(if is_data(at) { at } else { next(at) })).filter(|at| *at < size));
        (Holes::among(&stat, next_hole, next_data).unwrap(), asked.get())
    }

    #[test]
    fn what_takes_less_room_has_holes_only_if_it_shows_some_and_more_than_a_gibibyte_only_if_they_are() {
        let holes = |sparse, marked| Holes { sparse, marked };
        // Compressed: to a tenth, and by more than a gibibyte.
        assert_eq!(found(10 * MIB, MIB, 0), (holes(false, false), 1));
        assert_eq!(found(8192 * MIB, 4096 * MIB, 0), (holes(false, false), 1));
        // Holes, of a mebibyte each and one after the other.
        assert_eq!(found(10 * MIB, 5 * MIB, MIB), (holes(true, false), 1));
        let (half, asked) = found(4096 * MIB, 2048 * MIB, MIB);
        assert_eq!(half, holes(true, true));
        assert!((2000..2100).contains(&asked), "as many as a gibibyte has, and no more: {asked}");
        // Both: compressed by more than a gibibyte, with few holes.
        assert_eq!(found(4096 * MIB, 100 * MIB, 1500 * MIB).0, holes(true, true));
        assert_eq!(found(2000 * MIB, 100 * MIB, 1000 * MIB).0, holes(true, false));
        // More holes than are looked at: by the room.
        let (many, asked) = found(4096 * MIB, 100 * MIB, 64 << 10);
        assert_eq!(many, holes(true, true));
        assert!(asked <= 2 * HOLES_MAX + 1, "{asked}");
    }

    #[test]
    fn a_file_with_a_hole_tells_it_and_one_without_is_not_asked() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        dir.create_new(b"full", 0o600).unwrap().write_all_at(&[7; 64 << 10], 0).unwrap();
        let file = dir.create_new(b"holes", 0o600).unwrap();
        file.truncate(4 * MIB).unwrap();
        file.write_all_at(&[7; 64 << 10], MIB).unwrap();
        for name in ["full", "holes"] {
            dir.open_read_write(name.as_bytes()).unwrap().sync_all().unwrap();
        }
        if missing_bytes(&dir.stat(b"holes").unwrap()) == 0 {
            eprintln!("skipped: no holes on this file system");
            return;
        }
        let tellers = Tellers::default();
        let told = |name: &[u8]| Holes::told(&dir, name, &dir.stat(name).unwrap(), &tellers);
        if dir.stat(b"full").unwrap().blocks_512 >= 128 {
            assert_eq!(told(b"full"), None);
        }
        if !tells_holes(dir.file_system().unwrap().kind) {
            assert_eq!(told(b"holes"), None);
            return;
        }
        assert_eq!(told(b"holes").map(|holes| holes.sparse), Some(true));
        // What has its name by now says nothing of what was seen.
        let seen = dir.stat(b"holes").unwrap();
        dir.open_read_write(b"holes").unwrap().truncate(5 * MIB).unwrap();
        assert_eq!(Holes::told(&dir, b"holes", &seen, &tellers), None);
    }

    #[test]
    fn where_holes_are_not_told_or_a_file_may_be_on_tape_none_is_opened_and_a_file_system_is_looked_at_once()
    {
        use FileSystemKind::{Ceph, Ext4, Fuse, Gpfs, Lustre, Nfs, Smb};
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"holes", 0o600).unwrap();
        file.truncate(4 * MIB).unwrap();
        file.write_all_at(&[7; 64 << 10], MIB).unwrap();
        file.sync_all().unwrap();
        let seen = dir.stat(b"holes").unwrap();
        if missing_bytes(&seen) == 0 || file.next_hole(0).unwrap() != 0 {
            eprintln!("skipped: no holes on this file system, or it does not tell them");
            return;
        }
        // Each as if the scan had come to its device before: what the directory is on has no say.
        let told = |kind: FileSystemKind, stat: &Stat| {
            let tellers = Tellers { last: Mutex::new(Some((seen.device, kind))) };
            Holes::told(&dir, b"holes", stat, &tellers).map(|holes| holes.sparse)
        };
        for kind in [Nfs, Smb, Fuse, Gpfs, Ceph, FileSystemKind::Other(7)] {
            assert_eq!(told(kind, &seen), None, "{kind}");
        }
        let [released, compressed] = [1, 64].map(|blocks_512| Stat { blocks_512, ..seen });
        assert_eq!([told(Lustre, &released), told(Lustre, &compressed)], [None, Some(true)]);
        assert_eq!(told(Ext4, &released), Some(true));
        // Of another device the directory is asked.
        let tellers = Tellers { last: Mutex::new(Some((seen.device + 1, Nfs))) };
        let kind = dir.file_system().unwrap().kind;
        assert_eq!(tellers.may_ask(&dir, &seen), tells_holes(kind));
        assert_eq!(*lock(&tellers.last), Some((seen.device, kind)));
    }
}
