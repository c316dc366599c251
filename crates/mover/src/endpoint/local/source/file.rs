//! A file of a local file system, open for reading: through the page cache, or past it.
//!
//! By itself thalweg reads through the page cache: cold files of 2 GiB came 10 to 100 % slower past it, with four reads
//! in flight, for the same CPU (two streams, a busy machine with two cores; the kernel reads ahead across chunks, and
//! we do not). What a large copy brings in that way is dropped behind it ([`super::drop_behind`]). With
//! `--direct` it reads past the page cache; what is in the cache already is read from there all the same, each
//! [`REGION_BYTES`] by themselves.

use super::drop_behind::{Behind, Brought, FILE_BYTES_MIN, REGION_BYTES};
use crate::endpoint::SourceFile;
use crate::endpoint::local::staging::partial::{ASSUMED, LARGE_BYTES, read_direct};
use crate::endpoint::local::{evidence_of, lock};
use std::io;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Advice, DirectAlignment, File};
use thalweg_wire::Evidence;
use thalweg_wire::message::Direct;

/// See the module.
pub(in crate::endpoint::local) struct LocalFile {
    file: File,
    /// The same file for direct I/O; `None` where there is none, or it was not asked for.
    past: Option<(Arc<File>, DirectAlignment)>,
    /// The region that was asked about last, and whether it is read past the page cache.
    region: Mutex<Option<(u64, bool)>>,
    bytes: u64,
    /// Drops what reading brings into the page cache, unless that was asked for.
    behind: Option<Behind>,
}

impl LocalFile {
    /// Of so many bytes; `again` opens it once more. `brought` is what all files of its side brought into the page
    /// cache.
    pub(in crate::endpoint::local) fn new(
        file: File,
        bytes: u64,
        asked: Direct,
        brought: &Arc<Brought>,
        again: impl FnOnce() -> io::Result<File>,
    ) -> LocalFile {
        let open = || -> io::Result<Option<(Arc<File>, DirectAlignment)>> {
            let Some(alignment) = file.direct_alignment_or(ASSUMED)? else { return Ok(None) };
            let past = again()?;
            // Its name may lead elsewhere by now.
            if !past.stat()?.is_same_entry(&file.stat()?) {
                return Ok(None);
            }
            past.set_direct(true)?;
            Ok(Some((Arc::new(past), alignment)))
        };
        let past = if asked == Direct::On { open().unwrap_or(None) } else { None };
        if past.is_none() && bytes >= LARGE_BYTES {
            // Advice: what is refused changes only speed.
            let _ = file.advise(Advice::Sequential, 0, 0);
        }
        let is_spared = asked != Direct::Off && bytes >= FILE_BYTES_MIN;
        let behind = is_spared.then(|| Behind::new(brought.clone()));
        LocalFile { file, past, region: Mutex::new(None), bytes, behind }
    }

    /// Through the page cache.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(behind) = &self.behind {
            behind.reads(&self.file, offset, self.bytes);
        }
        self.file.read_at(buffer, offset)
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(behind) = &self.behind {
            behind.ends(&self.file);
        }
    }
}

impl LocalFile {
    /// Whether it can be read past the page cache.
    pub(super) fn has_direct(&self) -> bool {
        self.past.is_some()
    }
}

impl SourceFile for LocalFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((past, alignment)) = self.direct(offset) else {
            return self.read_cached(buffer, offset);
        };
        match read_direct(&past, alignment, buffer, offset) {
            // The file system refuses direct I/O after all.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.read_cached(buffer, offset),
            other => other,
        }
    }

    fn direct(&self, offset: u64) -> Option<(Arc<File>, DirectAlignment)> {
        let past = self.past.as_ref()?;
        let number = offset / REGION_BYTES;
        let mut region = lock(&self.region);
        let is_past = match *region {
            Some((known, is_past)) if known == number => is_past,
            _ => {
                // Where nobody says: it was asked for.
                let cached = self.file.cached_bytes(number * REGION_BYTES, REGION_BYTES);
                let is_past = !cached.is_ok_and(|bytes| bytes >= REGION_BYTES / 2);
                *region = Some((number, is_past));
                is_past
            }
        };
        is_past.then(|| past.clone())
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(evidence_of(&self.file.stat_now()?))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        self.file.next_hole(offset)
    }

    fn forget_cached(&self) {
        // The whole file; what cannot be dropped (dirty pages) stays.
        let _ = self.file.advise(Advice::DontNeed, 0, 0);
        *lock(&self.region) = None;
    }

    fn cached_bytes(&self) -> Option<u64> {
        self.file.cached_bytes(0, self.file.stat().ok()?.size).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::Dir;

    #[test]
    fn every_range_is_read_the_same_both_ways_and_while_the_file_shrinks_and_grows() {
        // The working directory usually has direct I/O.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let content: Vec<u8> = (0..2_500_001u32).map(|at| ((at >> 4) % 251) as u8).collect();
        dir.create_new(b"x", 0o600).unwrap().write_all_at(&content, 0).unwrap();
        for asked in [Direct::Auto, Direct::On, Direct::Off] {
            let brought = Brought::new(0);
            let opened = dir.open_read(b"x").unwrap();
            let file = LocalFile::new(opened, LARGE_BYTES, asked, &brought, || dir.open_read(b"x"));
            let writer = dir.open_read_write(b"x").unwrap();
            writer.sync_all().unwrap();
            // Not in the page cache any more.
            file.forget_cached();
            for (offset, length) in
                [(0, 1 << 20), (2 << 20, 1 << 20), (7, 100), (2_499_999, 50), (3 << 20, 9)]
            {
                let mut buffer = vec![0; length];
                let read = file.read_at(&mut buffer, offset as u64).unwrap();
                let end = (offset + length).min(content.len());
                assert_eq!(&buffer[..read], &content[offset.min(end)..end], "{asked:?} {offset} {length}");
            }
            let mut buffer = vec![0; 1 << 20];
            writer.truncate((1 << 20) + 77).unwrap();
            assert_eq!(file.read_at(&mut buffer, 1 << 20).unwrap(), 77);
            writer.write_all_at(&content, 0).unwrap();
            assert_eq!(file.read_at(&mut buffer, 1 << 20).unwrap(), 1 << 20);
            assert_eq!(buffer, content[1 << 20..2 << 20]);
        }
    }
}
