//! `zero:SIZE` and `null:`: a source of zeros and a destination that keeps nothing. With them one stage after
//! another can be taken out of a transfer, to see which one is narrow (002, section VI-C).

use crate::endpoint::simulated::SimulatedDisk;
use crate::endpoint::{
    Conclusion, Decision, Destination, PartialFile, Ready, ScanSink, Source, SourceFile, Staged,
};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_wire::message::{Loss, Outcome, ScanTotals};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

/// One file of zeros, named `zero`. It is read like data, not sent as a hole.
#[derive(Debug, Clone, Copy)]
pub struct ZeroSource {
    /// Its length.
    pub bytes: u64,
}

/// Takes everything, keeps nothing. Never has anything from before. With a simulated disk, writing takes its time.
#[derive(Debug, Default)]
pub struct NullDestination {
    partials: AtomicU64,
    disk: Option<Arc<SimulatedDisk>>,
    /// Bytes of that disk that have an owner: files lie one behind the other.
    taken_bytes: AtomicU64,
}

impl NullDestination {
    /// On a simulated disk.
    pub fn on(disk: SimulatedDisk) -> NullDestination {
        NullDestination { disk: Some(Arc::new(disk)), ..NullDestination::default() }
    }

    fn allocate(&self, entry: &Entry) -> u64 {
        self.taken_bytes.fetch_add(entry.evidence.size, Ordering::Relaxed)
    }
}

struct Zeros(u64);

struct Nothing {
    number: u64,
    disk: Option<Arc<SimulatedDisk>>,
    /// Where it begins on that.
    start: u64,
}

impl ZeroSource {
    fn evidence(&self) -> Evidence {
        Evidence { size: self.bytes, ..Evidence::default() }
    }
}

impl Source for ZeroSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut totals = ScanTotals { complete: true, ..ScanTotals::default() };
        let Ok(path) = RelativePath::new(b"zero".to_vec()) else { return totals };
        let entry = Entry {
            id: EntryId(0),
            path,
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: thalweg_sys::usage::effective_uid(),
            gid: thalweg_sys::usage::effective_gid(),
            evidence: self.evidence(),
            xattrs: Vec::new(),
        };
        if sink.entry(entry).is_some() {
            (totals.entries, totals.bytes) = (1, self.bytes);
        }
        totals
    }

    fn open(&self, _: &Entry) -> Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(Zeros(self.bytes)))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }
}

impl SourceFile for Zeros {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.saturating_sub(offset).min(buffer.len() as u64) as usize;
        buffer[..bytes].fill(0);
        Ok(bytes)
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(ZeroSource { bytes: self.0 }.evidence())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.0).then_some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(self.0)
    }
}

impl Destination for NullDestination {
    fn decide(&self, entry: &Entry) -> Decision {
        match entry.kind {
            Kind::File { .. } => Decision::Fresh,
            _ => Decision::Settled { outcome: done(), made: false },
        }
    }

    fn link(&self, _: &Entry) -> Outcome {
        done()
    }

    fn existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let failure = Failure::new(FailureKind::NotFound, "compare", "`null:` keeps nothing to compare with");
        Err(failure.at(&entry.path))
    }

    fn keep(&self, _: &Entry, _: Digest) -> Decision {
        Decision::Fresh
    }

    fn begin(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>> {
        let number = self.partials.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Nothing { number, disk: self.disk.clone(), start: self.allocate(entry) }))
    }

    fn stage(&self, lane: u32, entry: &Entry, content: &[u8]) -> Result<Staged> {
        if let Some(disk) = &self.disk {
            disk.request(self.allocate(entry), content.len() as u64);
        }
        Ok(Staged { lane, number: 0, losses: Vec::new() })
    }

    fn sync(&self, _: &[Arc<dyn PartialFile>]) -> Result<()> {
        Ok(())
    }

    fn read_staged_back(&self, _: &Staged, _: u64) -> Result<Digest> {
        Err(Failure::new(
            FailureKind::Unsupported,
            "read back",
            "`null:` keeps nothing that could be read back",
        ))
    }

    fn record(&self, _: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: &Entry, _: Ready, _: Digest) -> Result<Vec<Loss>> {
        Ok(Vec::new())
    }

    fn discard(&self, _: Ready) {}

    fn settled(&self, _: &Entry, _: &Outcome) {}

    fn conclude(&self, _: bool) -> Conclusion {
        Conclusion::default()
    }

    fn close(&self, _: bool) {}
}

impl PartialFile for Nothing {
    fn number(&self) -> u64 {
        self.number
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(disk) = &self.disk {
            disk.request(self.start + offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

fn done() -> Outcome {
    Outcome::Done { digest: None, losses: Vec::new() }
}
