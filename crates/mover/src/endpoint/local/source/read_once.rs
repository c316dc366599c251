//! A file that is read once, from its medium where that can be had, and leaves the page cache as it was.
//!
//! What is not in the page cache is read through it, for the kernel reads ahead there, and dropped behind the reader
//! ([`super::drop_behind`]). Of what is there the medium may hold something else, and it is not ours to drop: past the
//! page cache it is read from the medium, and stays. Where there is no direct I/O it is read as it is.

use super::drop_behind::{Behind, Brought};
use crate::endpoint::local::staging::partial::{ASSUMED, LARGE_BYTES, read_direct};
use std::io;
use thalweg_sys::{Advice, DirectAlignment, File};

/// See the module. Turns direct I/O of the open file on and off, and leaves it off.
pub(in crate::endpoint::local) struct ReadOnce<'a> {
    file: &'a File,
    bytes: u64,
    behind: Behind,
    /// `None` where there is no direct I/O.
    alignment: Option<DirectAlignment>,
    is_direct: bool,
}

impl<'a> ReadOnce<'a> {
    /// Of so many bytes.
    pub(in crate::endpoint::local) fn new(file: &'a File, bytes: u64) -> ReadOnce<'a> {
        let alignment = file.direct_alignment_or(ASSUMED).ok().flatten();
        if bytes >= LARGE_BYTES {
            // Advice: what is refused changes only speed.
            let _ = file.advise(Advice::Sequential, 0, 0);
        }
        let behind = Behind::new(Brought::by_one_who_reads_once(alignment.is_some()));
        ReadOnce { file, bytes, behind, alignment, is_direct: false }
    }

    /// As [`File::read_at`].
    pub(in crate::endpoint::local) fn read_at(
        &mut self,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let is_out = self.behind.reads(self.file, offset, self.bytes);
        if let Some(alignment) = self.alignment.filter(|_| !is_out)
            && self.is_turned(true)
        {
            match read_direct(self.file, alignment, buffer, offset) {
                // The file system refuses direct I/O after all.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.alignment = None,
                // There is no memory for what has to be aligned.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {}
                other => return other,
            }
        }
        self.is_turned(false);
        self.file.read_at(buffer, offset)
    }

    /// Whether direct I/O is as it is wanted now.
    fn is_turned(&mut self, direct: bool) -> bool {
        if self.is_direct != direct && self.file.set_direct(direct).is_ok() {
            self.is_direct = direct;
        }
        self.is_direct == direct
    }
}

impl Drop for ReadOnce<'_> {
    fn drop(&mut self) {
        self.is_turned(false);
        self.behind.ends(self.file);
    }
}
