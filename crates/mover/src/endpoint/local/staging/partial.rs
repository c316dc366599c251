//! A hidden file that grows in any order and becomes an entry.

use super::territory::Territory;
use super::{Staging, partial_name};
use crate::endpoint::{PartialFile, is_direct_refused};
use crate::plan::DIRECT_BYTES;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_sys::{Advice, Buffer, Dir, DirectAlignment, File, FileSystemKind};
use thalweg_wire::RelativePath;
use thalweg_wire::digest::is_zero;
use thalweg_wire::message::Direct;

/// Runs of zeros shorter than a block of every usual file system are written, not left out.
pub(in crate::endpoint::local) const BLOCK_BYTES: usize = 4096;
/// Longest piece read at once where the caller's memory cannot be used.
const BOUNCE_BYTES_MAX: usize = 1 << 20;

pub(in crate::endpoint::local) struct LocalPartial {
    number: u64,
    /// Of the entry it becomes.
    pub(in crate::endpoint::local) path: RelativePath,
    pub(in crate::endpoint::local) file: Arc<File>,
    /// Zeros become holes.
    is_sparse: bool,
    caching: Caching,
    /// Where its name is.
    pub(in crate::endpoint::local) dir: Arc<Dir>,
    pub(in crate::endpoint::local) territory: Arc<Territory>,
    past_cache: OnceLock<Option<PastCache>>,
    /// Direct writes were refused.
    no_direct: AtomicBool,
    /// `RWF_DONTCACHE` was refused.
    no_uncached: AtomicBool,
    /// Bytes written through the page cache.
    written_bytes: AtomicU64,
}

/// Where a file system does not say (Linux before 6.1, and some since) and direct I/O is tried: no disk and no file
/// system asks for more.
pub(in crate::endpoint::local) const ASSUMED: DirectAlignment =
    DirectAlignment { memory: 4096, offset: 4096 };

/// Through the page cache.
const UNALIGNED: DirectAlignment = DirectAlignment { memory: 1, offset: 1 };

/// A second descriptor, past the page cache.
struct PastCache {
    file: Arc<File>,
    alignment: DirectAlignment,
}

/// What writing does to the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::endpoint::local) enum Caching {
    /// Whole blocks go past it.
    Direct,
    /// What was written does not stay in it: the kernel drops it, or is told to.
    Uncached,
    /// It stays as long as the kernel likes.
    Cached,
}

/// Whether direct I/O pays on such a file system. It costs more than it saves where one keeps checksums or copies on
/// write (btrfs: 0.66 CPU-s/GB where ext4 takes 0.04, at 7 Gbit/s instead of 8.5 through its cache:
/// docs/measurements.md, disks), has no medium, or is another machine's.
pub(in crate::endpoint::local) fn pays(kind: FileSystemKind) -> bool {
    matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs)
}

/// From this size on a file is too large to stay in the page cache, and worth read-ahead.
pub(in crate::endpoint::local) const LARGE_BYTES: u64 = 16 << 20;
/// What may be in the page cache before it is written back and dropped, where the kernel has no uncached writing.
const CACHED_BYTES_MAX: u64 = 16 << 20;

impl Caching {
    /// For a file of so many bytes.
    pub(in crate::endpoint::local) fn choose(
        asked: Direct,
        kind: FileSystemKind,
        bytes: u64,
        is_sparse: bool,
    ) -> Caching {
        match asked {
            Direct::Off => Caching::Cached,
            Direct::On if !is_sparse => Caching::Direct,
            Direct::Auto if bytes >= DIRECT_BYTES && pays(kind) && !is_sparse => Caching::Direct,
            _ if bytes >= LARGE_BYTES => Caching::Uncached,
            _ => Caching::Cached,
        }
    }
}

impl LocalPartial {
    pub(in crate::endpoint::local) fn new(
        number: u64,
        path: RelativePath,
        file: File,
        is_sparse: bool,
        caching: Caching,
        staging: &Staging,
        territory: Arc<Territory>,
    ) -> LocalPartial {
        let dir = staging.dir.clone();
        LocalPartial {
            number,
            path,
            file: Arc::new(file),
            is_sparse,
            caching,
            dir,
            territory,
            past_cache: OnceLock::new(),
            no_direct: AtomicBool::new(false),
            no_uncached: AtomicBool::new(false),
            written_bytes: AtomicU64::new(0),
        }
    }

    pub(in crate::endpoint::local) fn name(&self) -> String {
        partial_name(self.number)
    }

    /// The descriptor past the page cache, opened when it is first needed; `None` where there is no direct I/O.
    fn past_cache(&self) -> Option<&PastCache> {
        let open = || -> io::Result<Option<PastCache>> {
            let file = self.dir.open_read_write(self.name().as_bytes())?;
            // Its name may lead elsewhere by now.
            if !file.stat()?.is_same_entry(&self.file.stat()?) {
                return Ok(None);
            }
            let alignment = match self.caching {
                Caching::Direct => file.direct_alignment_or(ASSUMED)?,
                Caching::Uncached | Caching::Cached => file.direct_alignment()?,
            };
            let Some(alignment) = alignment else { return Ok(None) };
            file.set_direct(true)?;
            Ok(Some(PastCache { file: Arc::new(file), alignment }))
        };
        self.past_cache.get_or_init(|| open().unwrap_or(None)).as_ref()
    }

    /// Through the page cache, without filling it.
    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.caching == Caching::Cached {
            return self.file.write_all_at(bytes, offset);
        }
        if !self.no_uncached.load(Ordering::Relaxed) {
            match self.file.write_uncached_at(bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    self.no_uncached.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        self.file.write_all_at(bytes, offset)?;
        let before = self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if before / CACHED_BYTES_MAX != (before + bytes.len() as u64) / CACHED_BYTES_MAX {
            // What the last call began to write back is clean by now. Advice: what is refused changes only memory.
            let _ = self.file.advise(Advice::DontNeed, 0, 0);
            let _ = self.file.start_writeback(0, 0);
        }
        Ok(())
    }
}

impl PartialFile for LocalPartial {
    fn number(&self) -> u64 {
        self.number
    }

    /// Whole blocks of zeros become holes where the source had some. They are punched rather than skipped, so
    /// that nothing an earlier attempt left there shows through.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.is_sparse {
            return self.put(bytes, offset);
        }
        for (start, end, is_hole) in runs(bytes, offset) {
            let (run, at) = (&bytes[start..end], offset + start as u64);
            if is_hole && self.file.punch_hole(at, run.len() as u64).is_ok() {
                continue;
            }
            self.put(run, at)?;
        }
        Ok(())
    }

    /// By direct I/O where the file system has it, whatever the alignment of the arguments. Elsewhere the clean
    /// pages of the range are dropped first; pages not yet written back are read from memory, so sync before.
    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(past) = self.past_cache() else {
            let _ = self.file.advise(Advice::DontNeed, offset, buffer.len() as u64);
            return self.file.read_at(buffer, offset);
        };
        read_direct(&past.file, past.alignment, buffer, offset)
    }

    /// What another read reads ahead, in between, comes from the medium as well.
    fn to_read_back(&self, offset: u64, bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        Some(match self.past_cache() {
            Some(past) => (past.file.clone(), past.alignment),
            None => {
                let _ = self.file.advise(Advice::DontNeed, offset, bytes);
                (self.file.clone(), UNALIGNED)
            }
        })
    }

    fn direct(&self) -> Option<(Arc<File>, DirectAlignment)> {
        if self.caching != Caching::Direct || self.no_direct.load(Ordering::Relaxed) {
            return None;
        }
        self.past_cache().map(|past| (past.file.clone(), past.alignment))
    }

    fn refuse_direct(&self) {
        self.no_direct.store(true, Ordering::Relaxed);
    }
}

/// Writes `bytes` to the start of a new file, its whole blocks of zeros left out.
pub(in crate::endpoint::local) fn write_with_holes(file: &File, bytes: &[u8]) -> io::Result<()> {
    for (start, end, is_hole) in runs(bytes, 0) {
        if !is_hole {
            file.write_all_at(&bytes[start..end], start as u64)?;
        }
    }
    Ok(())
}

/// Writes `bytes` to the start of a new file, whole blocks past the page cache. What cannot go that way goes through
/// it.
pub(in crate::endpoint::local) fn write_past_cache(
    file: &File,
    bytes: &[u8],
    alignment: DirectAlignment,
) -> io::Result<()> {
    let whole = bytes.len() - bytes.len() % alignment.offset as usize;
    let past = match whole {
        0 => 0,
        _ => match write_direct(file, &bytes[..whole], 0, alignment) {
            Ok(()) => whole,
            // The file system takes no direct I/O of this after all, or there is no memory to spare.
            Err(error) if is_direct_refused(&error) => 0,
            Err(error) => return Err(error),
        },
    };
    match past == bytes.len() {
        true => Ok(()),
        false => {
            file.set_direct(false)?;
            file.write_all_at(&bytes[past..], past as u64)
        }
    }
}

thread_local! {
    /// For what is not where direct I/O wants it.
    static BOUNCE: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

/// Writes whole blocks to a block of a file, from any memory. Its descriptor is one for direct I/O from then on.
pub(in crate::endpoint::local) fn write_direct(
    file: &File,
    bytes: &[u8],
    mut offset: u64,
    alignment: DirectAlignment,
) -> io::Result<()> {
    file.set_direct(true)?;
    if (bytes.as_ptr() as usize).is_multiple_of(alignment.memory as usize) {
        return file.write_all_at(bytes, offset);
    }
    BOUNCE.with_borrow_mut(|bounce| {
        let bounce = match bounce {
            Some(bounce) => bounce,
            none => none.insert(Buffer::spare(BOUNCE_BYTES_MAX)?),
        };
        for piece in bytes.chunks(bounce.len()) {
            bounce[..piece.len()].copy_from_slice(piece);
            file.write_all_at(&bounce[..piece.len()], offset)?;
            offset += piece.len() as u64;
        }
        Ok(())
    })
}

/// All of a file of at most `bytes` from the medium, past the page cache where that can be had. Memory for all of it.
pub(in crate::endpoint::local) fn read_back_whole(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?];
    let read = match file.direct_alignment()? {
        Some(alignment) if file.set_direct(true).is_ok() => read_direct(file, alignment, &mut content, 0)?,
        _ => {
            let _ = file.advise(Advice::DontNeed, 0, 0);
            file.read_at(&mut content, 0)?
        }
    };
    content.truncate(read);
    Ok(content)
}

/// Splits `bytes`, which go to `offset`, into runs `(start, end, all zero blocks)`; blocks are those of the file.
fn runs(bytes: &[u8], offset: u64) -> Vec<(usize, usize, bool)> {
    let mut runs: Vec<(usize, usize, bool)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let into_block = ((offset + at as u64) % BLOCK_BYTES as u64) as usize;
        let end = (at + BLOCK_BYTES - into_block).min(bytes.len());
        let is_hole = end - at == BLOCK_BYTES && is_zero(&bytes[at..end]);
        match runs.last_mut() {
            Some(last) if last.2 == is_hole => last.1 = end,
            _ => runs.push((at, end, is_hole)),
        }
        at = end;
    }
    runs
}

pub(in crate::endpoint::local) fn read_direct(
    file: &File,
    alignment: DirectAlignment,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let memory = alignment.memory as usize;
    let unit = u64::from(alignment.offset);
    let fits = (buffer.as_ptr() as usize).is_multiple_of(memory)
        && offset.is_multiple_of(unit)
        && (buffer.len() as u64).is_multiple_of(unit);
    if fits {
        return file.read_at(buffer, offset);
    }
    let mut bounce = Buffer::new(
        BOUNCE_BYTES_MAX.min((buffer.len() + 2 * unit as usize).next_multiple_of(unit as usize)),
    )?;
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        let start = at - at % unit;
        let skip = (at - start) as usize;
        let wanted = (skip + buffer.len() - filled).next_multiple_of(unit as usize).min(bounce.len());
        let read = file.read_at(&mut bounce[..wanted], start)?;
        let take = read.saturating_sub(skip).min(buffer.len() - filled);
        if take == 0 {
            break;
        }
        buffer[filled..filled + take].copy_from_slice(&bounce[skip..skip + take]);
        filled += take;
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_of_the_file_count_as_holes() {
        let mut bytes = vec![0; 5 * BLOCK_BYTES];
        bytes[2 * BLOCK_BYTES + 7] = 1;
        let b = BLOCK_BYTES;
        assert_eq!(runs(&bytes, 0), [(0, 2 * b, true), (2 * b, 3 * b, false), (3 * b, 5 * b, true)]);
        assert_eq!(runs(&bytes, 100)[0], (0, b - 100, false));
        assert_eq!(runs(&bytes[..b - 1], 0), [(0, b - 1, false)]);
        assert_eq!(runs(&[], 0), []);
    }

    #[test]
    fn files_from_some_size_on_go_past_the_page_cache_where_that_pays() {
        let choose = |asked, kind, bytes| Caching::choose(asked, kind, bytes, false);
        let (ext4, btrfs) = (FileSystemKind::Ext4, FileSystemKind::Btrfs);
        assert_eq!(DIRECT_BYTES, 128 << 10);
        assert_eq!(choose(Direct::Auto, ext4, DIRECT_BYTES - 1), Caching::Cached);
        assert_eq!(choose(Direct::Auto, ext4, DIRECT_BYTES), Caching::Direct);
        assert_eq!(choose(Direct::Auto, btrfs, DIRECT_BYTES), Caching::Cached);
        assert_eq!(choose(Direct::Auto, btrfs, LARGE_BYTES), Caching::Uncached);
        assert_eq!(choose(Direct::On, btrfs, 1), Caching::Direct);
        assert_eq!(choose(Direct::Off, ext4, LARGE_BYTES), Caching::Cached);
        // Its holes are punched in the page cache's way.
        assert_eq!(Caching::choose(Direct::Auto, ext4, DIRECT_BYTES, true), Caching::Cached);
        assert_eq!(Caching::choose(Direct::Auto, ext4, LARGE_BYTES, true), Caching::Uncached);
    }

    /// By either way that there is: the kernel drops it (`RWF_DONTCACHE`), or is told to.
    #[test]
    fn what_is_written_uncached_does_not_stay_in_the_page_cache() {
        const PIECES: u64 = 64;
        const PIECE_BYTES: u64 = CACHED_BYTES_MAX / 16;
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let stat = dir.stat_self().unwrap();
        let piece = vec![7; PIECE_BYTES as usize];
        let cached_after = |name: &[u8], caching, is_refused| {
            let partial = LocalPartial {
                number: 1,
                path: RelativePath::default(),
                file: Arc::new(dir.create_new(name, 0o600).unwrap()),
                is_sparse: false,
                caching,
                dir: dir.clone(),
                territory: Arc::new(Territory::new(dir.clone(), &stat)),
                past_cache: OnceLock::new(),
                no_direct: AtomicBool::new(false),
                no_uncached: AtomicBool::new(is_refused),
                written_bytes: AtomicU64::new(0),
            };
            for number in 0..PIECES {
                // On disk before the next advice: what is dirty cannot be dropped, and no disk is to be raced.
                if (number + 1).is_multiple_of(CACHED_BYTES_MAX / PIECE_BYTES) {
                    partial.file.sync_all().unwrap();
                }
                partial.write_at(&piece, number * PIECE_BYTES).unwrap();
            }
            partial.file.sync_all().unwrap();
            let is_dropped = !partial.no_uncached.load(Ordering::Relaxed);
            (partial.file.cached_bytes(0, PIECES * PIECE_BYTES), is_dropped)
        };
        let all = PIECES * PIECE_BYTES;
        let (cached, _) = cached_after(b"cached", Caching::Cached, true);
        if !cached.is_ok_and(|bytes| bytes >= all / 2) {
            eprintln!("skipped: what is cached is not told here, or does not stay");
            return;
        }
        let (told, _) = cached_after(b"told", Caching::Uncached, true);
        let told = told.unwrap();
        // The last piece of each 16 MiB comes after the advice on those before it.
        assert!(told <= CACHED_BYTES_MAX + PIECE_BYTES, "{told} bytes of {all} stayed");
        let (dropped, is_dropped) = cached_after(b"dropped", Caching::Uncached, false);
        let dropped = dropped.unwrap();
        match is_dropped {
            true => assert!(dropped <= all / 16, "{dropped} bytes of {all} stayed"),
            false => eprintln!("skipped: this kernel has no uncached writing here"),
        }
    }

    #[test]
    fn direct_reads_serve_any_range() {
        // /dev/shm and /tmp may lack direct I/O; the working directory usually has it.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"x", 0o600).unwrap();
        let content: Vec<u8> = (0..2_500_000u32).map(|i| (i % 251) as u8).collect();
        file.write_all_at(&content, 0).unwrap();
        let reader = dir.open_read(b"x").unwrap();
        let Some(alignment) = reader.direct_alignment().unwrap() else {
            eprintln!("skipped: no direct I/O here");
            return;
        };
        reader.set_direct(true).unwrap();
        for (offset, length) in
            [(0, 2_500_000), (1, 10), (4095, 2), (100, 1_500_000), (2_499_990, 100), (3_000_000, 5)]
        {
            let mut buffer = vec![0; length];
            let read = read_direct(&reader, alignment, &mut buffer, offset as u64).unwrap();
            let expected = &content[offset.min(content.len())..(offset + length).min(content.len())];
            assert_eq!(&buffer[..read], expected, "{offset} {length}");
        }
    }
}
