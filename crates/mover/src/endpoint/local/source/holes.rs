//! Which files have holes.
//!
//! A file that takes less room than its size has some, or its file system compresses it, or keeps it in its inode: only
//! the file itself tells, and only where its file system does. Nothing is read of it.

use std::io;
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

    /// As `name` itself tells; `None` where its room has the last word: it takes all of it, or it cannot be asked.
    pub(super) fn told(dir: &Dir, name: &[u8], stat: &Stat) -> Option<Holes> {
        if stat.kind != Kind::File || stat.size <= BLOCK_BYTES || missing_bytes(stat) == 0 {
            return None;
        }
        let (file, now) = dir.open_once(name).ok()?;
        if !now.is_same_entry(stat) || now.size != stat.size {
            // It is found to have changed when it is read.
            return None;
        }
        let holes = Holes::among(stat, |at| file.next_hole(at), |at| file.next_data(at)).ok()?;
        let is_told = holes.sparse || dir.file_system().is_ok_and(|system| tells_holes(system.kind));
        is_told.then_some(holes)
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
        let told = |name: &[u8]| Holes::told(&dir, name, &dir.stat(name).unwrap());
        if dir.stat(b"full").unwrap().blocks_512 >= 128 {
            assert_eq!(told(b"full"), None);
        }
        assert_eq!(told(b"holes").map(|holes| holes.sparse), Some(true));
        // What has its name by now says nothing of what was seen.
        let seen = dir.stat(b"holes").unwrap();
        dir.open_read_write(b"holes").unwrap().truncate(5 * MIB).unwrap();
        assert_eq!(Holes::told(&dir, b"holes", &seen), None);
    }
}
