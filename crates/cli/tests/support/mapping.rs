//! A file that is written through a shared mapping: no call tells of a store.

use nix::libc;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Bytes from one stamp to the next: a page of any machine that tests run on begins with one.
pub const STAMP_EVERY: usize = 4096;

/// A file of whole blocks, mapped to be written, with a number at the beginning of each block.
pub struct Mapping {
    start: *mut libc::c_void,
    bytes: usize,
    /// Kept open as most programs do: on overlayfs a mapping alone does not show that somebody writes.
    _file: File,
}

// JUSTIFICATION: a writer works on a thread of its own.
// SAFETY: the mapping belongs to the process, and only its one owner stores to it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Makes the file, or opens it, with so many blocks.
    pub fn new(path: &Path, blocks: usize) -> Mapping {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let bytes = blocks * STAMP_EVERY;
        file.set_len(bytes as u64).unwrap();
        // JUSTIFICATION: only stores through a mapping change a file without a call.
        // SAFETY: a new mapping at an address that the kernel chooses, of a file that is open and as long as it.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Mapping { start, bytes, _file: file }
    }

    /// Stamps all blocks with this number, from the first to the last.
    pub fn stamp(&mut self, number: u64) {
        for offset in (0..self.bytes).step_by(STAMP_EVERY) {
            // JUSTIFICATION: as above; volatile, for nobody here reads it.
            // SAFETY: the mapping is `bytes` long, a multiple of the step, and begins at a page: the place is in it and
            // aligned. Nobody cuts the file.
            unsafe { self.start.byte_add(offset).cast::<u64>().write_volatile(number.to_le()) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // JUSTIFICATION: as above.
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// The stamps of a file, runs of the same together.
pub fn stamps(bytes: &[u8]) -> Vec<u64> {
    let first = |block: &[u8]| block.first_chunk::<8>().map(|stamp| u64::from_le_bytes(*stamp));
    let mut stamps: Vec<u64> = bytes.chunks(STAMP_EVERY).filter_map(first).collect();
    stamps.dedup();
    stamps
}
