//! Open files: bytes at offsets, space, holes, sync, metadata by descriptor.
//!
//! Offsets are in bytes from the start of the file; the kernel refuses those above `i64::MAX` with `EINVAL`.
//! No call depends on the descriptor's own position, so one `File` may be used by many threads at once.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::stat::{owners, timestamps};
use crate::xattr::Xattrs;
use crate::{Stat, Time, invalid, stat, uninterrupted};

/// An open file. Closed on drop; errors of that close are not seen, so sync first where they matter.
#[derive(Debug)]
pub struct File(OwnedFd);

/// How the memory and the offsets of direct I/O must be aligned, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlignment {
    /// Alignment of the buffer's address.
    pub memory: u32,
    /// Alignment of the offset and of the length.
    pub offset: u32,
}

/// What the page cache is told about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It will be read from front to back: read further ahead. Holds for the whole file, whatever the range.
    Sequential,
    /// Its clean pages may be dropped. Dirty pages stay: write them back first.
    DontNeed,
    /// It will be read soon: start now.
    WillNeed,
}

impl File {
    /// Takes over an open descriptor, of whatever kind it is.
    pub fn from_fd(fd: OwnedFd) -> File {
        File(fd)
    }

    /// A second handle on the same open file: shares its flags (see [`File::set_direct`]) and its lock.
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File(self.0.try_clone()?))
    }

    /// Looks at the file.
    pub fn stat(&self) -> io::Result<Stat> {
        stat::look(self.as_fd(), b"")
    }

    /// As [`File::stat`], whatever the kernel remembers: a network file system, or one in user space, is asked. Costs
    /// nothing more on a local one.
    pub fn stat_now(&self) -> io::Result<Stat> {
        stat::look_now(self.as_fd(), b"")
    }

    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read, 0 at or past the
    /// end.
    ///
    /// Short reads of the kernel are continued, under direct I/O too, where the end of an unaligned file
    /// makes one. On an error, bytes read before it are in the buffer but not counted.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = || Ok(self.stat()?.size);
        read_full(buffer, offset, size, |rest, at| rustix::io::pread(&self.0, rest, at))
    }

    /// Writes all of `buffer` at `offset`, extending the file where needed.
    ///
    /// On an error any part of the range may have been written. Full, over quota and read-only file systems
    /// give `ENOSPC`, `EDQUOT`, `EROFS`; a file size limit gives `EFBIG` if
    /// [`crate::process::ignore_file_size_signal`] was called and kills the process otherwise.
    pub fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        write_all(buffer, offset, |rest, at| rustix::io::pwrite(&self.0, rest, at))
    }

    /// Like [`File::write_all_at`], and the pages are written back and dropped at once (`RWF_DONTCACHE`,
    /// Linux 6.14).
    ///
    /// `Err` of kind `Unsupported` where the kernel or the file system cannot; nothing was written then.
    pub fn write_uncached_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        // rustix has no name for it yet.
        let dont_cache = ReadWriteFlags::from_bits_retain(libc::RWF_DONTCACHE as u32);
        write_all(buffer, offset, |rest, at| {
            rustix::io::pwritev2(&self.0, &[io::IoSlice::new(rest)], at, dont_cache)
        })
    }

    /// Writes all of `buffer` at the end of the file, wherever the descriptor's position is.
    ///
    /// Each system call appends in one piece; a buffer that takes more than one (never seen on local file
    /// systems) may be interleaved with other appenders. On an error a part may have been written.
    pub fn append(&self, buffer: &[u8]) -> io::Result<()> {
        write_all(buffer, 0, |rest, _| {
            rustix::io::pwritev2(&self.0, &[io::IoSlice::new(rest)], 0, ReadWriteFlags::APPEND)
        })
    }

    /// The whole file from its start, if it has at most `bytes_max` bytes; `Err` of kind `FileTooLarge`
    /// otherwise.
    ///
    /// Works on files of `/proc`, which give no size. Memory grows with what is read, not with what the size
    /// claims.
    pub fn read_to_end(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = self.read_at(&mut piece, bytes.len() as u64)?;
            if read > bytes_max - bytes.len() {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    "file is longer than the caller's bound",
                ));
            }
            bytes.extend_from_slice(&piece[..read]);
            if read < piece.len() {
                return Ok(bytes);
            }
        }
    }

    /// Turns direct I/O (`O_DIRECT`) on or off, for every handle on this open file. `Err` (`EINVAL`) where
    /// refused.
    pub fn set_direct(&self, direct: bool) -> io::Result<()> {
        let mut flags = uninterrupted(|| rustix::fs::fcntl_getfl(&self.0))?;
        flags.set(OFlags::DIRECT, direct);
        uninterrupted(|| rustix::fs::fcntl_setfl(&self.0, flags))
    }

    /// What direct I/O on this file must be aligned to; `None` where the file system has no direct I/O or
    /// does not say (Linux before 6.1). [`File::set_direct`] may succeed all the same.
    pub fn direct_alignment(&self) -> io::Result<Option<DirectAlignment>> {
        self.alignment_or(None)
    }

    /// As [`File::direct_alignment`], but `assumed` where the file system does not say: for who tries it, and goes on
    /// without where [`File::set_direct`] or the first request is refused (`EINVAL`).
    pub fn direct_alignment_or(&self, assumed: DirectAlignment) -> io::Result<Option<DirectAlignment>> {
        self.alignment_or(Some(assumed))
    }

    fn alignment_or(&self, unsaid: Option<DirectAlignment>) -> io::Result<Option<DirectAlignment>> {
        let raw = stat::statx(self.as_fd(), b"", StatxFlags::DIOALIGN)?;
        if raw.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
            return Ok(unsaid);
        }
        let alignment = DirectAlignment { memory: raw.stx_dio_mem_align, offset: raw.stx_dio_offset_align };
        Ok((alignment.memory > 0 && alignment.offset > 0).then_some(alignment))
    }

    /// Sets the length in bytes; what is cut off is gone, what is added reads as zeros and takes no space.
    pub fn truncate(&self, bytes: u64) -> io::Result<()> {
        uninterrupted(|| rustix::fs::ftruncate(&self.0, bytes))
    }

    /// Reserves space for a range without changing the file's length or content.
    ///
    /// An empty range is done already. `Err` of kind `Unsupported` where the file system lacks it.
    pub fn preallocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.allocate(FallocateFlags::KEEP_SIZE, offset, bytes)
    }

    /// Gives a range's space back; it reads as zeros afterwards, and the length stays.
    ///
    /// An empty range is done already. `Err` of kind `Unsupported` where the file system lacks it.
    pub fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.allocate(FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE, offset, bytes)
    }

    /// The first byte at or after `offset` that may be data; `None` if only a hole is left, or nothing.
    ///
    /// Where the file system knows no holes all is data. A reserved but unwritten range may count as either.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match self.seek(SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((offset < self.stat()?.size).then_some(offset)),
            other => Ok(Some(other?)),
        }
    }

    /// The first byte at or after `offset` that is in a hole; every file ends in one, at its length. At or
    /// past the end this is `offset` itself.
    pub fn next_hole(&self, offset: u64) -> io::Result<u64> {
        match self.seek(SeekFrom::Hole(offset)) {
            Err(Errno::NXIO) => Ok(offset),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(self.stat()?.size.max(offset)),
            other => Ok(other?),
        }
    }

    /// Makes the bytes, and what is needed to find them, survive a power cut (`fdatasync`).
    ///
    /// After an error the state of every unsynced byte is unknown, and a second call that succeeds proves
    /// nothing.
    pub fn sync_data(&self) -> io::Result<()> {
        uninterrupted(|| rustix::fs::fdatasync(&self.0))
    }

    /// Like [`File::sync_data`], metadata too (`fsync`). The name is not covered: sync the directory.
    pub fn sync_all(&self) -> io::Result<()> {
        uninterrupted(|| rustix::fs::fsync(&self.0))
    }

    /// Starts to write a range's dirty pages and does not wait (`sync_file_range`); 0 bytes mean to the end.
    ///
    /// Promises nothing about durability. May block while the device's queue is full.
    pub fn start_writeback(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.sync_range(offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
    }

    /// Writes all pages that are dirty now and waits for it (`sync_file_range`). Costs next to nothing where none is.
    ///
    /// Promises nothing about durability. The pages are write-protected by it: the next store to one through a mapping
    /// changes the file's times, as no later one does. Not on overlayfs, where it does nothing.
    pub fn write_back(&self) -> io::Result<()> {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        self.sync_range(0, 0, all)
    }

    fn sync_range(&self, offset: u64, bytes: u64, flags: libc::c_uint) -> io::Result<()> {
        let offset = i64::try_from(offset).map_err(|_| invalid("offset above 2^63"))?;
        let bytes = i64::try_from(bytes).map_err(|_| invalid("length above 2^63"))?;
        loop {
            // JUSTIFICATION: neither std nor rustix has sync_file_range.
            // SAFETY: no pointers; the descriptor is open as long as `self` is borrowed.
            let done = unsafe { libc::sync_file_range(self.0.as_raw_fd(), offset, bytes, flags) };
            if done == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Bytes of a range that are in the page cache now, in whole pages (`cachestat`). `Err` (`ENOSYS`, `EOPNOTSUPP`) on
    /// Linux before 6.5 and where the file system does not say; `EPERM` for files that the caller may not write
    /// and does not own.
    pub fn cached_bytes(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        let range = [offset, bytes];
        let mut counts = [0u64; 5];
        // JUSTIFICATION: neither libc nor rustix has cachestat; mincore would need a mapping of the file. SAFETY: the
        // kernel reads a `struct cachestat_range` (two u64) and writes a `struct cachestat` (five u64), both of which
        // live through the call; the descriptor is open as long as `self` is borrowed.
        let done = unsafe {
            libc::syscall(
                CACHESTAT,
                self.0.as_raw_fd(),
                range.as_ptr(),
                counts.as_mut_ptr(),
                0 as libc::c_uint,
            )
        };
        match done {
            0 => Ok(counts[0].saturating_mul(rustix::param::page_size() as u64)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Tells the page cache about a range; 0 bytes mean to the end. Advice only: may do nothing.
    pub fn advise(&self, advice: Advice, offset: u64, bytes: u64) -> io::Result<()> {
        let advice = match advice {
            Advice::Sequential => rustix::fs::Advice::Sequential,
            Advice::DontNeed => rustix::fs::Advice::DontNeed,
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
        };
        uninterrupted(|| rustix::fs::fadvise(&self.0, offset, NonZeroU64::new(bytes), advice))
    }

    /// Sets permission, set-id and sticky bits (0..=0o7777). The kernel drops set-group-id silently where the
    /// caller is not in that group; compare [`File::stat`] where it matters.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        uninterrupted(|| rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode & 0o7777)))
    }

    /// Sets owner and group; `None` leaves that one. Clears set-id bits: set the mode afterwards. `EPERM`
    /// where not allowed.
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = owners(uid, gid)?;
        uninterrupted(|| rustix::fs::fchown(&self.0, uid, gid))
    }

    /// Sets times; `None` leaves that one. File systems round to what they can keep.
    pub fn set_times(&self, atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
        let times = timestamps(atime, mtime)?;
        uninterrupted(|| rustix::fs::futimens(&self.0, &times))
    }

    /// All extended attributes the caller may see, as (name with its namespace, value); empty where the file
    /// system has none. Allocates at most 64 KiB of names and 64 KiB a value. `Err` if one can be listed but
    /// not read.
    pub fn xattrs(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Xattrs::Open(self.as_fd()).all()
    }

    /// One extended attribute; `None` if there is none, or the file system has none. What others there are is
    /// not read.
    pub fn xattr(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Xattrs::Open(self.as_fd()).one(key)
    }

    /// Creates or replaces an extended attribute. `key` has 1 to 255 bytes with its namespace, `value` at
    /// most 64 KiB.
    pub fn set_xattr(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        Xattrs::Open(self.as_fd()).set(key, value)
    }

    /// Removes an extended attribute; `ENODATA` if there is none.
    pub fn remove_xattr(&self, key: &[u8]) -> io::Result<()> {
        Xattrs::Open(self.as_fd()).remove(key)
    }

    /// Takes the file's exclusive lock (`flock`) if it is free; `false` if another open file holds it. Never
    /// waits.
    ///
    /// Held until [`unlock`](File::unlock), or until the last handle on this open file is closed, by this process or a
    /// child that inherited it. Advisory.
    pub fn lock_exclusive(&self) -> io::Result<bool> {
        match uninterrupted(|| rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Lets the file's lock go, whoever has further handles on it: a child that another thread begins has them until it
    /// runs its program.
    pub fn unlock(&self) -> io::Result<()> {
        uninterrupted(|| rustix::fs::flock(&self.0, FlockOperation::Unlock))
    }

    /// Whether any process has the file open for writing. This handle must be open for reading only.
    ///
    /// # Errors
    /// `PermissionDenied` where we neither own the file nor may take leases (`CAP_LEASE`), `InvalidInput` where the
    /// file system has no leases.
    pub fn has_writers(&self) -> io::Result<bool> {
        self.is_lease_refused(libc::F_RDLCK)
    }

    /// Whether anybody else has the file open, for reading or for writing. This must be our only handle on it, open for
    /// writing.
    ///
    /// # Errors
    /// As [`File::has_writers`].
    pub fn has_others(&self) -> io::Result<bool> {
        self.is_lease_refused(libc::F_WRLCK)
    }

    /// A lease to read is given only while nobody writes, one to write only while nobody else has the file open. Who
    /// opens it in the moment in which we hold one is made to wait for it, and we are sent a signal: one that is
    /// ignored unless somebody asks for it.
    fn is_lease_refused(&self, lease: libc::c_int) -> io::Result<bool> {
        match self.control(F_SETSIG, libc::SIGURG).and_then(|()| self.control(libc::F_SETLEASE, lease)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
            Ok(()) => self.control(libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        }
    }

    fn control(&self, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
        // JUSTIFICATION: rustix has neither leases nor the choice of their signal.
        // SAFETY: these commands of fcntl take an int and touch no memory of ours; the descriptor is open.
        match unsafe { libc::fcntl(self.0.as_raw_fd(), command, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        uninterrupted(|| rustix::fs::fallocate(&self.0, flags, offset, bytes))
    }

    fn seek(&self, to: SeekFrom) -> rustix::io::Result<u64> {
        rustix::io::retry_on_intr(|| rustix::fs::seek(&self.0, to))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.0
    }
}

/// Another descriptor for what this number is open as, closed on exec: for callers in languages whose descriptors are
/// numbers. The given one stays the caller's.
///
/// # Errors
/// `EBADF`, if it is not open; `EMFILE`.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // JUSTIFICATION: a number from another language has no owner that Rust knows.
    // SAFETY: it is not negative; it is borrowed for one call of fcntl only, which refuses a number that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// Which signal the owner of a lease is sent (`asm-generic/fcntl.h`); libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// Number of `cachestat`, the same on every architecture.
const CACHESTAT: libc::c_long = 451;

/// Where direct I/O may begin again: no file system asks for more than a page.
const DIRECT_STEP_BYTES: usize = 4096;

/// Short direct reads that are not at the end are rare; more of them than this is a broken file system.
const DIRECT_STEPS_BACK_MAX: usize = 8;

fn read_full(
    buffer: &mut [u8],
    offset: u64,
    size: impl Fn() -> io::Result<u64>,
    mut read: impl FnMut(&mut [u8], u64) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    let mut steps_back = 0;
    while filled < buffer.len() {
        let at = offset.checked_add(filled as u64).ok_or_else(|| invalid("range ends above 2^64"))?;
        match read(&mut buffer[filled..], at) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            // Direct I/O came up short and cannot go on from an unaligned place. Either the file ends
            // here, or the last piece is read again from an aligned one.
            Err(Errno::INVAL) if filled > 0 => {
                if at >= size()? {
                    break;
                }
                if filled % DIRECT_STEP_BYTES == 0 || steps_back == DIRECT_STEPS_BACK_MAX {
                    return Err(Errno::INVAL.into());
                }
                filled -= filled % DIRECT_STEP_BYTES;
                steps_back += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn write_all(
    buffer: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    let mut written = 0;
    while written < buffer.len() {
        let at = offset.checked_add(written as u64).ok_or_else(|| invalid("range ends above 2^64"))?;
        match write(&buffer[written..], at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => written += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as a strict file system does under direct I/O: only at aligned places, even at the end.
    fn strict(
        bytes: &[u8],
        piece_bytes: usize,
    ) -> impl FnMut(&mut [u8], u64) -> rustix::io::Result<usize> + '_ {
        move |buffer, at| {
            if at % 512 != 0 {
                return Err(Errno::INVAL);
            }
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let length = rest.len().min(buffer.len()).min(piece_bytes);
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }
    }

    #[test]
    fn a_direct_read_that_comes_up_short_goes_on_from_an_aligned_place() {
        let bytes: Vec<u8> = (0..20_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        let size = || Ok(20_000);
        for piece_bytes in [usize::MAX, 8192, 8192 + 100, 5000] {
            let mut read = vec![0; 32_768];
            let filled = read_full(&mut read, 0, size, strict(&bytes, piece_bytes)).unwrap();
            assert_eq!(filled, 20_000, "pieces of {piece_bytes}");
            assert_eq!(read[..filled], bytes);
        }
        // One that never gets further is an error, not an endless loop and not a short file.
        let mut read = vec![0; 32_768];
        assert!(read_full(&mut read, 0, size, strict(&bytes, 100)).is_err());
        // An unaligned request is the caller's own mistake.
        assert!(read_full(&mut read, 7, size, strict(&bytes, usize::MAX)).is_err());
    }

    #[test]
    fn partial_and_interrupted_writes_are_finished_and_writes_of_nothing_are_errors() {
        let mut written = Vec::new();
        let mut calls = 0;
        write_all(b"all of it", 100, |rest, at| {
            calls += 1;
            assert_eq!(at, 100 + written.len() as u64);
            if calls % 2 == 0 {
                return Err(Errno::INTR);
            }
            written.extend_from_slice(&rest[..rest.len().min(4)]);
            Ok(rest.len().min(4))
        })
        .unwrap();
        assert_eq!(written, b"all of it");
        assert_eq!(write_all(b"x", 0, |_, _| Ok(0)).unwrap_err().kind(), io::ErrorKind::WriteZero);
        let full = write_all(b"x", 0, |_, _| Err(Errno::NOSPC)).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
