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
use thalweg_wire::digest::is_zero;
use thalweg_wire::message::Direct;
use thalweg_wire::{Digest, RelativePath};

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
    /// What an earlier attempt left in its gaps is still there: it cannot be punched out.
    has_old_gaps: AtomicBool,
    caching: Caching,
    /// Where its name is.
    pub(in crate::endpoint::local) dir: Arc<Dir>,
    pub(in crate::endpoint::local) territory: Arc<Territory>,
    past_cache: OnceLock<Option<PastCache>>,
    /// Direct writes were refused.
    no_direct: AtomicBool,
    /// Direct reads were.
    no_direct_reads: AtomicBool,
    uncached: Uncached,
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

/// Writes of one file through the page cache that do not fill it.
#[derive(Debug, Default)]
pub(in crate::endpoint::local) struct Uncached {
    /// `RWF_DONTCACHE` was refused.
    is_refused: AtomicBool,
    /// Bytes written without that.
    written_bytes: AtomicU64,
}

impl Uncached {
    /// As [`File::write_all_at`].
    pub(in crate::endpoint::local) fn write_all_at(
        &self,
        file: &File,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        if !self.is_refused.load(Ordering::Relaxed) {
            match file.write_uncached_at(bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        file.write_all_at(bytes, offset)?;
        let before = self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if before / CACHED_BYTES_MAX != (before + bytes.len() as u64) / CACHED_BYTES_MAX {
            // What the last call began to write back is clean by now. Advice: what is refused changes only memory.
            let _ = file.advise(Advice::DontNeed, 0, 0);
            let _ = file.start_writeback(0, 0);
        }
        Ok(())
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
            has_old_gaps: AtomicBool::new(false),
            caching,
            dir,
            territory,
            past_cache: OnceLock::new(),
            no_direct: AtomicBool::new(false),
            no_direct_reads: AtomicBool::new(false),
            uncached: Uncached::default(),
        }
    }

    pub(in crate::endpoint::local) fn name(&self) -> String {
        partial_name(self.number)
    }

    /// From now on holes of the source are written where there is anything: something may show through.
    pub(in crate::endpoint::local) fn write_over_gaps(&self) {
        self.has_old_gaps.store(true, Ordering::Relaxed);
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

    /// As [`LocalPartial::past_cache`], for reads that nobody refused.
    fn past_to_read(&self) -> Option<&PastCache> {
        self.past_cache().filter(|_| !self.no_direct_reads.load(Ordering::Relaxed))
    }

    /// Through the page cache, without filling it.
    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.caching {
            Caching::Cached => self.file.write_all_at(bytes, offset),
            Caching::Direct | Caching::Uncached => self.uncached.write_all_at(&self.file, bytes, offset),
        }
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

    /// Nothing was ever written there, or it was taken out; where that cannot be, zeros are written.
    fn leave_zeros(&self, bytes: u64, offset: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        if !self.has_old_gaps.load(Ordering::Relaxed) {
            return Ok(());
        }
        let end = offset + bytes;
        let mut at = self.file.next_data(offset)?.map_or(end, |data| data.min(end));
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            self.put(&ZEROS[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }

    /// The whole file, for a range leaves what is cached in one piece with bytes beyond it. Not where every direct read
    /// comes from the medium: there what is cached may stay. btrfs answers some from the page cache (where it
    /// compresses).
    fn expect_read_back(&self) {
        let is_from_medium =
            self.past_to_read().is_some() && self.dir.file_system().is_ok_and(|system| pays(system.kind));
        if !is_from_medium {
            let _ = self.file.advise(Advice::DontNeed, 0, 0);
        }
    }

    fn refuse_direct_reads(&self) {
        if !self.no_direct_reads.swap(true, Ordering::Relaxed) {
            let _ = self.file.advise(Advice::DontNeed, 0, 0);
        }
    }

    /// By direct I/O where the file system has it, whatever the alignment of the arguments. Elsewhere, and where it is
    /// refused after all, the clean pages of the range are dropped first; pages not yet written back are read from
    /// memory, so sync before.
    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(past) = self.past_to_read() {
            match read_direct(&past.file, past.alignment, buffer, offset) {
                Err(error) if is_direct_refused(&error) => self.refuse_direct_reads(),
                other => return other,
            }
        }
        let _ = self.file.advise(Advice::DontNeed, offset, buffer.len() as u64);
        self.file.read_at(buffer, offset)
    }

    /// What another read reads ahead, in between, comes from the medium as well.
    fn to_read_back(&self, offset: u64, bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        if self.no_direct_reads.load(Ordering::Relaxed) {
            return None;
        }
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

/// The digest of a file of so many bytes, of fewer if it has fewer, read from the medium, past the page cache where
/// that can be had. `is_from_medium`: there every direct read comes from the medium. Memory is that of one buffer of at
/// most 1 MiB, of what this process may have for such; a smaller one where that is taken.
pub(in crate::endpoint::local) fn digest_back(
    file: &File,
    bytes: u64,
    is_from_medium: bool,
) -> io::Result<Digest> {
    let piece = usize::try_from(bytes).unwrap_or(usize::MAX).clamp(1, BOUNCE_BYTES_MAX);
    let mut buffer = of_at_most(piece.next_multiple_of(BLOCK_BYTES))?;
    let fits = |alignment: DirectAlignment| {
        (buffer.as_ptr() as usize).is_multiple_of(alignment.memory as usize)
            && buffer.len().is_multiple_of(alignment.offset as usize)
    };
    let is_direct = file.direct_alignment()?.is_some_and(fits) && file.set_direct(true).is_ok();
    if !is_direct || !is_from_medium {
        let _ = file.advise(Advice::DontNeed, 0, 0);
    }
    match digest_by(file, &mut buffer, bytes) {
        // The file system takes no direct I/O after all, or has no memory for it.
        Err(error) if is_direct && is_direct_refused(&error) => {
            file.set_direct(false)?;
            let _ = file.advise(Advice::DontNeed, 0, 0);
            digest_by(file, &mut buffer, bytes)
        }
        other => other,
    }
}

/// A buffer of so many bytes, whole blocks, or of fewer where this process may have no more: that costs time only.
fn of_at_most(bytes: usize) -> io::Result<Buffer> {
    match Buffer::new(bytes) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory && bytes > BLOCK_BYTES => {
            of_at_most((bytes / 2).next_multiple_of(BLOCK_BYTES))
        }
        other => other,
    }
}

/// By whole buffers, also the last one.
fn digest_by(file: &File, buffer: &mut [u8], bytes: u64) -> io::Result<Digest> {
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
    while at < bytes {
        let read = file.read_at(buffer, at)?;
        let wanted = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(read);
        hasher.update(&buffer[..wanted]);
        if read < buffer.len() {
            break;
        }
        at += read as u64;
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
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

    fn in_dir(dir: &Arc<Dir>, name: &[u8], caching: Caching) -> LocalPartial {
        let stat = dir.stat_self().unwrap();
        LocalPartial {
            number: 1,
            path: RelativePath::default(),
            file: Arc::new(dir.create_new(name, 0o600).unwrap()),
            is_sparse: false,
            has_old_gaps: AtomicBool::new(false),
            caching,
            dir: dir.clone(),
            territory: Arc::new(Territory::new(dir.clone(), &stat)),
            past_cache: OnceLock::new(),
            no_direct: AtomicBool::new(false),
            no_direct_reads: AtomicBool::new(false),
            uncached: Uncached::default(),
        }
    }

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| ((at >> 3) % 251) as u8).collect()
    }

    #[test]
    fn in_a_file_with_holes_every_block_of_zeros_becomes_one() {
        const BYTES: usize = 1 << 20;
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut bytes = content(BYTES);
        bytes[BYTES / 4..BYTES / 2].fill(0);
        let first_hole = |is_sparse| {
            let name = if is_sparse { b"a" } else { b"b" };
            let partial = LocalPartial { is_sparse, ..in_dir(&dir, name, Caching::Cached) };
            partial.file.truncate(BYTES as u64).unwrap();
            partial.write_at(&bytes, 0).unwrap();
            let mut read = vec![0; BYTES];
            assert_eq!(partial.file.read_at(&mut read, 0).unwrap(), BYTES);
            assert!(read == bytes);
            (partial.file.next_hole(0).unwrap(), partial.file.punch_hole(0, 4096).is_ok())
        };
        // Without holes it has what was written, whatever its file system makes of that.
        first_hole(false);
        match first_hole(true) {
            (hole, true) => assert!(hole <= (BYTES / 2) as u64, "{hole}"),
            (_, false) => eprintln!("skipped: no hole can be punched here"),
        }
    }

    #[test]
    fn a_hole_is_written_where_what_was_there_before_could_not_be_taken_out() {
        const PIECE: usize = 100 << 10;
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        for is_old in [false, true] {
            let name = if is_old { b"a" } else { b"b" };
            let partial = LocalPartial { is_sparse: true, ..in_dir(&dir, name, Caching::Cached) };
            partial.write_at(&content(3 * PIECE), 0).unwrap();
            if is_old {
                partial.write_over_gaps();
            }
            partial.leave_zeros(PIECE as u64, PIECE as u64).unwrap();
            let mut expected = content(3 * PIECE);
            if is_old {
                expected[PIECE..2 * PIECE].fill(0);
            }
            let mut buffer = vec![0; 3 * PIECE];
            assert_eq!(partial.file.read_at(&mut buffer, 0).unwrap(), buffer.len());
            assert!(buffer == expected);
            // Nothing is there: nothing is written, not even what makes it longer.
            partial.leave_zeros(1 << 20, 3 * PIECE as u64).unwrap();
            assert_eq!(partial.file.stat().unwrap().size, 3 * PIECE as u64);
        }
    }

    #[test]
    fn what_is_read_back_where_there_is_no_direct_io_is_dropped_from_the_page_cache_as_a_whole_first() {
        const BYTES: usize = (1 << 20) + 777;
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let partial = in_dir(&dir, b"x", Caching::Cached);
        assert!(partial.past_cache.set(None).is_ok());
        partial.write_at(&content(BYTES), 0).unwrap();
        partial.file.sync_all().unwrap();
        let cached = || partial.file.cached_bytes(0, BYTES as u64);
        if !cached().is_ok_and(|bytes| bytes >= BYTES as u64 / 2) {
            eprintln!("skipped: what is cached is not told here, or does not stay");
            return;
        }
        partial.expect_read_back();
        match partial.dir.file_system().unwrap().kind {
            FileSystemKind::Tmpfs => eprintln!("skipped: what is cached is all that there is"),
            _ => assert_eq!(cached().unwrap(), 0),
        }
        let mut buffer = vec![0; BYTES];
        assert_eq!(partial.read_back(&mut buffer, 0).unwrap(), BYTES);
        assert!(buffer == content(BYTES));
    }

    /// As where a file is opened for direct I/O and each read is refused: the alignment is not what it must be.
    #[test]
    fn what_cannot_be_read_back_past_the_page_cache_after_all_is_read_through_it() {
        const BYTES: usize = (1 << 20) + 777;
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let partial = in_dir(&dir, b"x", Caching::Direct);
        partial.write_at(&content(BYTES), 0).unwrap();
        partial.file.sync_all().unwrap();
        let past = dir.open_read(b"x").unwrap();
        if past.set_direct(true).is_err() || past.read_at(&mut vec![0; 1000], 500).is_ok() {
            eprintln!("skipped: no direct I/O here that must be aligned; what is cached is read");
            return;
        }
        let past = PastCache { file: Arc::new(past), alignment: UNALIGNED };
        assert!(partial.past_cache.set(Some(past)).is_ok());
        assert!(partial.to_read_back(0, 1000).is_some());
        let mut buffer = vec![0; 1000];
        assert_eq!(partial.read_back(&mut buffer, 500).unwrap(), 1000);
        assert!(buffer == content(BYTES)[500..1500]);
        assert!(partial.to_read_back(0, 1000).is_none(), "it is not tried again");
        let mut buffer = vec![0; BYTES];
        assert_eq!(partial.read_back(&mut buffer, 0).unwrap(), BYTES);
        assert!(buffer == content(BYTES));
    }

    #[test]
    fn a_file_is_digested_from_the_medium_whatever_its_size() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let pieces = [0, 1, BLOCK_BYTES, BOUNCE_BYTES_MAX - 1, BOUNCE_BYTES_MAX, 2 * BOUNCE_BYTES_MAX + 777];
        for bytes in pieces {
            let name = bytes.to_string();
            let content = content(bytes);
            let written = dir.create_new(name.as_bytes(), 0o600).unwrap();
            written.write_all_at(&content, 0).unwrap();
            written.sync_all().unwrap();
            let of = |bytes: usize| Digest(*blake3::hash(&content[..bytes]).as_bytes());
            for is_from_medium in [false, true] {
                let digest = |bytes: u64| {
                    let file = dir.open_read(name.as_bytes()).unwrap();
                    digest_back(&file, bytes, is_from_medium).unwrap()
                };
                assert_eq!(digest(bytes as u64), of(bytes), "{bytes} bytes");
                // It is shorter than it must be, or longer.
                assert_eq!(digest(bytes as u64 + 5000), of(bytes), "{bytes} bytes");
                assert_eq!(digest(bytes as u64 / 2), of(bytes / 2), "half of {bytes} bytes");
            }
        }
    }

    /// By either way that there is: the kernel drops it (`RWF_DONTCACHE`), or is told to.
    #[test]
    fn what_is_written_uncached_does_not_stay_in_the_page_cache() {
        const PIECES: u64 = 64;
        const PIECE_BYTES: u64 = CACHED_BYTES_MAX / 16;
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let piece = vec![7; PIECE_BYTES as usize];
        let cached_after = |name: &[u8], caching, is_refused| {
            let partial = in_dir(&dir, name, caching);
            partial.uncached.is_refused.store(is_refused, Ordering::Relaxed);
            for number in 0..PIECES {
                // On disk before the next advice: what is dirty cannot be dropped, and no disk is to be raced.
                if (number + 1).is_multiple_of(CACHED_BYTES_MAX / PIECE_BYTES) {
                    partial.file.sync_all().unwrap();
                }
                partial.write_at(&piece, number * PIECE_BYTES).unwrap();
            }
            partial.file.sync_all().unwrap();
            let is_dropped = !partial.uncached.is_refused.load(Ordering::Relaxed);
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
