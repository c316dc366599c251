//! `data:`: a data set as a source, without a disk.

use super::{DESCRIPTION_NAME, DatasetSpec, Made};
use crate::endpoint::{ScanSink, Source, SourceFile};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::sync::Arc;
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath, Time};

/// When all files of all sets were last changed, in seconds since 1970: one moment, so that copying one again finds it
/// unchanged.
const CHANGED_AT: i64 = 1_700_000_000;

/// Reads files that nobody wrote.
#[derive(Debug)]
pub struct DatasetSource {
    spec: DatasetSpec,
    description: Arc<[u8]>,
}

impl DatasetSource {
    /// Reads that set; the file that describes it is in it.
    ///
    /// # Errors
    /// `Usage` for numbers out of their bounds.
    pub fn new(spec: DatasetSpec) -> Result<DatasetSource> {
        spec.check().map_err(|cause| Failure::new(FailureKind::Usage, "make a data set", cause))?;
        let description = spec.description().into();
        Ok(DatasetSource { spec, description })
    }

    /// What stands at a path of the set.
    fn made(&self, path: &RelativePath) -> Result<Content> {
        if path.as_bytes() == DESCRIPTION_NAME.as_bytes() {
            return Ok(Content::Description(self.description.clone()));
        }
        let number =
            std::str::from_utf8(path.name()).ok().and_then(|name| name.strip_prefix('f')?.parse().ok());
        let made = number.filter(|number| *number < self.spec.files).map(|number| self.spec.file(number));
        made.filter(|made| made.path.as_bytes() == path.as_bytes()).map(Content::Made).ok_or_else(|| {
            Failure::new(FailureKind::NotFound, "open", "the data set has no such file").at(path)
        })
    }
}

enum Content {
    Description(Arc<[u8]>),
    Made(Made),
}

impl Content {
    fn bytes(&self) -> u64 {
        match self {
            Content::Description(text) => text.len() as u64,
            Content::Made(made) => made.bytes,
        }
    }
}

fn evidence(bytes: u64) -> Evidence {
    Evidence { size: bytes, mtime: Time { seconds: CHANGED_AT, nanos: 0 }, ..Evidence::default() }
}

fn entry(path: &str, kind: Kind, mode: u32, bytes: u64) -> Option<Entry> {
    Some(Entry {
        id: EntryId(0),
        path: RelativePath::new(path.as_bytes().to_vec()).ok()?,
        kind,
        mode,
        uid: thalweg_sys::user::effective_uid(),
        gid: thalweg_sys::user::effective_gid(),
        evidence: evidence(bytes),
        xattrs: Vec::new(),
    })
}

impl Source for DatasetSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut totals = ScanTotals::default();
        let mut offer = |entry: Option<Entry>| -> Option<()> {
            let entry = entry?;
            let bytes = entry.content_bytes();
            sink.entry(entry)?;
            totals.entries += 1;
            totals.bytes = totals.bytes.saturating_add(bytes);
            Some(())
        };
        let mut all = || -> Option<()> {
            for (directory, name) in (0..).zip(self.spec.directories()) {
                offer(entry(&name, Kind::Directory, 0o755, 0))?;
                for number in self.spec.files_of(directory) {
                    let made = self.spec.file(number);
                    let kind = Kind::File { sparse: made.is_sparse(), marked: false };
                    offer(entry(&made.path, kind, 0o644, made.bytes))?;
                }
            }
            let kind = Kind::File { sparse: false, marked: false };
            offer(entry(DESCRIPTION_NAME, kind, 0o644, self.description.len() as u64))
        };
        totals.complete = all().is_some();
        totals
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(self.made(&entry.path)?))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        if matches!(entry.kind, Kind::File { .. }) {
            self.made(&entry.path)?;
        }
        Ok(entry.clone())
    }
}

impl SourceFile for Content {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes().saturating_sub(offset).min(buffer.len() as u64) as usize;
        match self {
            Content::Made(made) => made.fill(offset, &mut buffer[..bytes]),
            Content::Description(text) if bytes > 0 => {
                buffer[..bytes].copy_from_slice(&text[offset as usize..][..bytes]);
            }
            Content::Description(_) => {}
        }
        Ok(bytes)
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(evidence(self.bytes()))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let next = match self {
            Content::Made(made) => made.next(offset, false),
            Content::Description(_) => offset,
        };
        Ok((next < self.bytes()).then_some(next))
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        Ok(match self {
            Content::Made(made) => made.next(offset, true),
            Content::Description(text) => text.len() as u64,
        })
    }
}
