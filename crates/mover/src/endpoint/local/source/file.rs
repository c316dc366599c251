//! A file of a local file system, open for reading: through the page cache, or past it.
//!
//! Which way, [`super::way`] decides, for each [`REGION_BYTES`] by itself, and where the page cache has a part of them
//! for each request. Where past it nothing can be read after all, all is read through it. What a large copy brings in
//! that way is dropped behind it ([`super::drop_behind`]).

use super::drop_behind::{Behind, Brought, FILE_BYTES_MIN, REGION_BYTES};
use super::way::{Grounds, Way};
use crate::endpoint::local::staging::partial::{ASSUMED, LARGE_BYTES, read_direct};
use crate::endpoint::local::{evidence_of, lock};
use crate::endpoint::{SourceFile, is_direct_refused};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_sys::{Advice, DirectAlignment, File};
use thalweg_wire::Evidence;
use thalweg_wire::message::Direct;

/// See the module.
pub(in crate::endpoint::local) struct LocalFile {
    file: File,
    /// The same file for direct I/O; `None` where there is none, or it does not pay.
    past: Option<(Arc<File>, DirectAlignment)>,
    /// The file system refused direct I/O after all.
    is_refused: AtomicBool,
    grounds: Grounds,
    /// The region that was asked about last, by its start, and how it is read.
    region: Mutex<Option<(u64, Way)>>,
    /// Drops what reading brings into the page cache, unless that was asked for.
    behind: Option<Behind>,
}

impl LocalFile {
    /// `pays`: whether reading past the page cache was measured to be faster on its file system; `again` opens it once
    /// more. `brought` is what all files of its side brought into the page cache.
    pub(in crate::endpoint::local) fn new(
        file: File,
        grounds: Grounds,
        brought: &Arc<Brought>,
        pays: impl FnOnce() -> bool,
        again: impl FnOnce() -> io::Result<File>,
    ) -> LocalFile {
        let open = || -> io::Result<Option<(Arc<File>, DirectAlignment)>> {
            let alignment = match grounds.asked {
                // What is cached, and how blocks are aligned, has to be told: nothing is tried that nobody asked for.
                Direct::Auto => file.cached_bytes(0, 1).and_then(|_| file.direct_alignment())?,
                Direct::On | Direct::Off => file.direct_alignment_or(ASSUMED)?,
            };
            let Some(alignment) = alignment else { return Ok(None) };
            let past = again()?;
            // Its name may lead elsewhere by now.
            if !past.stat()?.is_same_entry(&file.stat()?) {
                return Ok(None);
            }
            past.set_direct(true)?;
            Ok(Some((Arc::new(past), alignment)))
        };
        let past = if grounds.may_pass(pays) { open().unwrap_or(None) } else { None };
        if past.is_none() && grounds.bytes >= LARGE_BYTES {
            // Advice: what is refused changes only speed.
            let _ = file.advise(Advice::Sequential, 0, 0);
        }
        let is_spared = grounds.asked != Direct::Off && grounds.bytes >= FILE_BYTES_MIN;
        let behind = is_spared.then(|| Behind::new(brought.clone()));
        let (is_refused, region) = (AtomicBool::new(false), Mutex::new(None));
        LocalFile { file, past, is_refused, grounds, region, behind }
    }

    /// Through the page cache.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(behind) = &self.behind {
            behind.reads(&self.file, offset, self.grounds.bytes);
        }
        self.file.read_at(buffer, offset)
    }

    /// Whether a request goes past the page cache.
    fn is_past(&self, offset: u64, bytes: u64) -> bool {
        let start = offset - offset % REGION_BYTES;
        let mut region = lock(&self.region);
        let way = match *region {
            Some((known, way)) if known == start => way,
            _ => {
                let length = self.grounds.bytes.saturating_sub(start).min(REGION_BYTES);
                // Of 0 bytes the kernel says what is cached of all that follows.
                let cached = self.file.cached_bytes(start, length.max(1)).ok();
                let way = self.grounds.of_region(cached, length);
                *region = Some((start, way));
                way
            }
        };
        drop(region);
        // A request that is larger than a region is none of its parts.
        if way != Way::Parts && bytes <= REGION_BYTES {
            return way == Way::Past;
        }
        self.grounds.is_past(self.file.cached_bytes(offset, bytes.max(1)).ok(), bytes)
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(behind) = &self.behind {
            behind.ends(&self.file);
        }
    }
}

impl SourceFile for LocalFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((past, alignment)) = self.direct(offset, buffer.len() as u64) else {
            return self.read_cached(buffer, offset);
        };
        match read_direct(&past, alignment, buffer, offset) {
            // The file system refuses direct I/O after all, or there is no memory for what has to be aligned.
            Err(error) if is_direct_refused(&error) => {
                if error.kind() != io::ErrorKind::OutOfMemory {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                self.read_cached(buffer, offset)
            }
            other => other,
        }
    }

    fn has_direct(&self) -> bool {
        self.past.is_some() && !self.is_refused.load(Ordering::Relaxed)
    }

    fn direct(&self, offset: u64, bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        let past = self.past.as_ref().filter(|_| self.has_direct())?;
        self.is_past(offset, bytes).then(|| past.clone())
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
            let grounds = Grounds { asked, bytes: LARGE_BYTES, request_bytes: 1 << 20 };
            let file = LocalFile::new(opened, grounds, &brought, || true, || dir.open_read(b"x"));
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

    /// A file `x` of so many bytes of which the page cache has nothing, and its content; `None`, said aloud, where the
    /// system does not let us have one that can be read past it.
    fn cold(bytes: u64) -> Option<(tempfile::TempDir, Dir, Vec<u8>)> {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let content: Vec<u8> = (0..bytes).map(|at| ((at >> 3) % 251) as u8).collect();
        let file = dir.create_new(b"x", 0o600).unwrap();
        file.write_all_at(&content, 0).unwrap();
        file.sync_all().unwrap();
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        let is_cold = file.cached_bytes(0, bytes).is_ok_and(|cached| cached == 0);
        let has_direct = file.direct_alignment().is_ok_and(|alignment| alignment.is_some());
        if !is_cold || !has_direct {
            eprintln!("skipped: no direct I/O here, or what is cached is not told, or cannot be dropped");
            return None;
        }
        Some((scratch, dir, content))
    }

    fn opened(dir: &Dir, bytes: u64, pays: bool) -> LocalFile {
        let grounds = Grounds { asked: Direct::Auto, bytes, request_bytes: 1 << 20 };
        let file = dir.open_read(b"x").unwrap();
        LocalFile::new(file, grounds, &Brought::new(u64::MAX), || pays, || dir.open_read(b"x"))
    }

    fn assert_reads(file: &LocalFile, content: &[u8]) {
        let mut buffer = vec![0; 1 << 20];
        for (number, piece) in content.chunks(1 << 20).enumerate() {
            let read = file.read_at(&mut buffer[..piece.len()], (number as u64) << 20).unwrap();
            assert!(buffer[..read] == *piece, "piece {number}");
        }
    }

    #[test]
    fn by_itself_what_the_page_cache_lacks_is_read_past_it_and_what_it_has_from_there() {
        // Two regions, the second one with an odd tail.
        const BYTES: u64 = REGION_BYTES + (9 << 20) + 1237;
        let Some((_scratch, dir, content)) = cold(BYTES) else { return };
        let cached = |file: &LocalFile| file.file.cached_bytes(0, BYTES).unwrap();
        let file = opened(&dir, BYTES, true);
        assert_reads(&file, &content);
        assert_eq!(cached(&file), 0, "nothing came into the page cache");
        // It has a part of a region: each request by itself.
        let mut buffer = vec![0; 2 << 20];
        file.file.read_at(&mut buffer, 4 << 20).unwrap();
        let file = opened(&dir, BYTES, true);
        let is_past = |piece: u64| file.direct(piece << 20, 1 << 20).is_some();
        assert!(!is_past(4) && !is_past(5), "they are in the page cache");
        // However far the kernel read ahead.
        let is_read_ahead = |piece: u64| file.file.cached_bytes(piece << 20, 1 << 20).unwrap() >= 1 << 19;
        for piece in [0, 12, 17] {
            assert!(is_past(piece) || is_read_ahead(piece), "piece {piece}");
        }
        assert_reads(&file, &content);
        // All of it.
        let through = opened(&dir, BYTES, false);
        assert_reads(&through, &content);
        let before = cached(&through);
        let file = opened(&dir, BYTES, true);
        assert!(before < BYTES || file.direct(0, 1 << 20).is_none(), "it is in the page cache");
        assert_reads(&file, &content);
        // What the cache has is not dropped by being read; the kernel may take a few pages of its own accord.
        assert!(cached(&file) >= before / 4 * 3);
    }

    /// As where the file system takes `O_DIRECT` when a file is opened, and refuses each request.
    #[test]
    fn where_requests_past_the_page_cache_are_refused_all_is_read_through_it() {
        const BYTES: u64 = REGION_BYTES + 1237;
        let Some((_scratch, dir, content)) = cold(BYTES) else { return };
        let mut file = opened(&dir, BYTES, true);
        // Requests fit this alignment, and no block.
        let mut buffer = vec![0; 1000];
        if let Some((past, alignment)) = &mut file.past {
            *alignment = DirectAlignment { memory: 1, offset: 1 };
            if past.read_at(&mut buffer, 500).is_ok() {
                eprintln!("skipped: this file system takes any request past the page cache");
                return;
            }
        }
        let read = file.read_at(&mut buffer, 500).unwrap();
        assert!(buffer[..read] == content[500..1500]);
        assert!(file.is_refused.load(Ordering::Relaxed), "it was tried");
        assert!(!file.has_direct() && file.direct(0, 1 << 20).is_none(), "once");
        assert_reads(&file, &content);
    }
}
