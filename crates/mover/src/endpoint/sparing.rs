//! A source that is read for a measurement: at most so many bytes of it, and what was not in the page cache before is
//! not in it afterwards. So one run does not make the next one faster, and the owner of the machine finds it as it was.
//!
//! The file with which the bytes are used up is cut there; what comes behind it is not offered.
//!
//! Not guaranteed where the kernel does not say what it has in its cache: there everything stays as reading left it.

use super::around::handed_on;
use super::{ExtentMap, ScanSink, Source, SourceFile};
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_sys::{DirectAlignment, File};
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

/// See the module.
pub struct SparingSource {
    source: Arc<dyn Source>,
    bytes_max: u64,
    /// The file that was cut, and its own size.
    cut: Mutex<Option<(RelativePath, u64)>>,
    /// Files opened of late; those to be forgotten are held open until then.
    opened: Mutex<VecDeque<Opened>>,
}

struct Opened {
    path: RelativePath,
    cold: Option<Arc<dyn SourceFile>>,
}

/// Files that are remembered; of these so many are held open at most.
const OPENED_MAX: usize = 128;

impl SparingSource {
    /// At most so many bytes of `source`.
    pub fn new(source: Arc<dyn Source>, bytes_max: u64) -> SparingSource {
        SparingSource { source, bytes_max, cut: Mutex::new(None), opened: Mutex::default() }
    }

    /// The entry as the source itself knows it; and its bytes, if it was cut.
    fn uncut(&self, entry: &Entry) -> (Entry, Option<u64>) {
        let mut own = entry.clone();
        match &*self.cut() {
            Some((path, bytes)) if *path == entry.path => {
                own.evidence.size = *bytes;
                (own, Some(entry.evidence.size))
            }
            _ => (own, None),
        }
    }

    /// Notes a file that is opened, the first time: several threads open it, each for its own part.
    fn note(&self, entry: &Entry, file: &Arc<dyn SourceFile>) {
        let mut opened = lock(&self.opened);
        if opened.iter().rev().any(|known| known.path == entry.path) {
            return;
        }
        let is_cold = file.cached_bytes().is_some_and(|cached| cached < entry.evidence.size.div_ceil(2));
        opened.push_back(Opened { path: entry.path.clone(), cold: is_cold.then(|| file.clone()) });
        if opened.len() > OPENED_MAX
            && let Some(oldest) = opened.pop_front()
        {
            oldest.forget();
        }
    }

    fn cut(&self) -> MutexGuard<'_, Option<(RelativePath, u64)>> {
        lock(&self.cut)
    }
}

impl Opened {
    fn forget(&self) {
        if let Some(file) = &self.cold {
            file.forget_cached();
        }
    }
}

impl Drop for SparingSource {
    fn drop(&mut self) {
        lock(&self.opened).iter().for_each(Opened::forget);
    }
}

impl Source for SparingSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut cutting = Cutting { source: self, sink, entries: 0, bytes: 0 };
        let totals = self.source.scan(&mut cutting);
        ScanTotals { entries: cutting.entries, bytes: cutting.bytes, ..totals }
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let (own, cut_at) = self.uncut(entry);
        let file = self.source.open(&own)?;
        self.note(&own, &file);
        Ok(match cut_at {
            Some(end) => Arc::new(CutFile { file, end }),
            None => file,
        })
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        let (own, cut_at) = self.uncut(entry);
        let mut now = self.source.look_again(&own)?;
        if let Some(bytes) = cut_at {
            now.evidence.size = now.evidence.size.min(bytes);
        }
        Ok(now)
    }

    // What is cut is not what it was, and is not removed.
    handed_on!();

    fn layout(&self, entry: &Entry) -> Result<ExtentMap> {
        match self.uncut(entry) {
            (own, None) => self.source.layout(&own),
            _ => {
                let cause = "it is measured in part only";
                Err(Failure::new(FailureKind::Unsupported, "look up the layout", cause).at(&entry.path))
            }
        }
    }
}

struct Cutting<'a> {
    source: &'a SparingSource,
    sink: &'a mut dyn ScanSink,
    entries: u64,
    bytes: u64,
}

impl ScanSink for Cutting<'_> {
    fn entry(&mut self, mut entry: Entry) -> Option<EntryId> {
        let left = self.source.bytes_max.saturating_sub(self.bytes);
        if left == 0 {
            return None;
        }
        let mut bytes = 0;
        if matches!(entry.kind, Kind::File { .. }) {
            if entry.evidence.size > left {
                *self.source.cut() = Some((entry.path.clone(), entry.evidence.size));
                entry.evidence.size = left;
            }
            bytes = entry.evidence.size;
        }
        let taken = self.sink.entry(entry)?;
        self.entries += 1;
        self.bytes += bytes;
        Some(taken)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.sink.trouble(path, failure);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        self.sink.skipped(path, reason);
    }
}

/// A file that ends earlier.
struct CutFile {
    file: Arc<dyn SourceFile>,
    end: u64,
}

impl SourceFile for CutFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.end.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.file.read_at(&mut buffer[..bytes], offset)
    }

    fn prepare(&self, offset: u64, bytes: u64) {
        self.file.prepare(offset, bytes);
    }

    fn evidence(&self) -> io::Result<Evidence> {
        let mut evidence = self.file.evidence()?;
        evidence.size = evidence.size.min(self.end);
        Ok(evidence)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(self.file.next_data(offset)?.filter(|&at| at < self.end))
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        Ok(self.file.next_hole(offset)?.min(self.end))
    }

    fn has_direct(&self) -> bool {
        self.file.has_direct()
    }

    fn direct(&self, offset: u64, bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        self.file.direct(offset, bytes)
    }

    fn forget_cached(&self) {
        self.file.forget_cached();
    }

    fn cached_bytes(&self) -> Option<u64> {
        self.file.cached_bytes()
    }
}
