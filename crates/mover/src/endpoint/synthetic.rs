//! `zero:SIZE` and `null:`: a source of zeros and a destination that keeps nothing; and a source of noise, which no
//! file system makes smaller. With them one stage after another can be taken out of a transfer, to see which one is
//! narrow (002, section VI-C).

use crate::endpoint::simulated::SimulatedDisk;
use crate::endpoint::together::Together;
use crate::endpoint::{
    Conclusion, Decision, Destination, Listing, PartialFile, Reading, Ready, ScanSink, Small, Source,
    SourceFile, Staged,
};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use thalweg_wire::message::{Loss, Outcome, ScanTotals};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

/// One file of zeros, named `zero`. It is read like data, not sent as a hole.
#[derive(Debug, Clone, Copy)]
pub struct ZeroSource {
    /// Its length.
    pub bytes: u64,
}

/// Files of noise, one like the other.
#[derive(Debug, Clone, Copy)]
pub struct NoiseSource {
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of each; the last may have fewer. At least 1.
    pub file_bytes: u64,
}

/// What is repeated. Longer than what file systems compress or compare at once; no power of two, so that no two blocks
/// of one file are the same before the least common multiple.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; (4 << 20) + 1009];
    blake3::Hasher::new_derive_key("thalweg 2026-11 noise").finalize_xof().fill(&mut bytes);
    bytes
});

/// Fills `buffer` with what the noise has from `offset` on.
pub fn fill_with_noise(buffer: &mut [u8], offset: u64) {
    let noise = &NOISE[..];
    let (mut done, mut at) = (0, (offset % noise.len() as u64) as usize);
    while done < buffer.len() {
        let bytes = (buffer.len() - done).min(noise.len() - at);
        buffer[done..done + bytes].copy_from_slice(&noise[at..at + bytes]);
        (done, at) = (done + bytes, 0);
    }
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

/// A file of so many bytes that nobody wrote.
struct Made {
    bytes: u64,
    fill: fn(&mut [u8], u64),
}

struct Nothing {
    number: u64,
    disk: Option<Arc<SimulatedDisk>>,
    /// Where it begins on that.
    start: u64,
}

/// A source of one file that nobody wrote.
pub(super) fn scan_one(sink: &mut dyn ScanSink, name: &str, evidence: Evidence) -> ScanTotals {
    match made_entry(name, evidence).and_then(|entry| sink.entry(entry)) {
        Some(_) => ScanTotals { entries: 1, bytes: evidence.size, complete: true, ..ScanTotals::default() },
        None => ScanTotals::default(),
    }
}

fn made_entry(name: &str, evidence: Evidence) -> Option<Entry> {
    Some(Entry {
        id: EntryId(0),
        path: RelativePath::new(name.as_bytes().to_vec()).ok()?,
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: thalweg_sys::user::effective_uid(),
        gid: thalweg_sys::user::effective_gid(),
        evidence,
        xattrs: Vec::new(),
    })
}

impl Source for ZeroSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        scan_one(sink, "zero", made_evidence(self.bytes))
    }

    fn open(&self, _: &Entry) -> Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(Made { bytes: self.bytes, fill: |buffer, _| buffer.fill(0) }))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }
}

impl Source for NoiseSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut totals = ScanTotals { complete: true, ..ScanTotals::default() };
        while totals.bytes < self.bytes {
            let bytes = self.file_bytes.max(1).min(self.bytes - totals.bytes);
            let name = format!("noise-{}", totals.entries);
            let Some(entry) = made_entry(&name, made_evidence(bytes)) else { return totals };
            if sink.entry(entry).is_none() {
                return ScanTotals { complete: false, ..totals };
            }
            totals.entries += 1;
            totals.bytes += bytes;
        }
        totals
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(Made { bytes: entry.evidence.size, fill: fill_with_noise }))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }
}

fn made_evidence(bytes: u64) -> Evidence {
    Evidence { size: bytes, ..Evidence::default() }
}

impl SourceFile for Made {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        (self.fill)(&mut buffer[..bytes], offset);
        Ok(bytes)
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(made_evidence(self.bytes))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.bytes).then_some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

impl Destination for NullDestination {
    fn decide(&self, entry: &Entry, _: Reading<'_>) -> Decision {
        match entry.kind {
            Kind::File { .. } => Decision::Fresh,
            _ => Decision::Settled { outcome: done(), made: false },
        }
    }

    fn link(&self, _: &Entry) -> Decision {
        Decision::Settled { outcome: done(), made: false }
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

    fn stage(&self, lane: u32, files: &[Small<'_>], _: &mut Together) -> Vec<Result<Staged>> {
        let stage = |file: &Small<'_>| {
            if let Some(disk) = &self.disk {
                disk.request(self.allocate(file.entry), file.content.len() as u64);
            }
            Ok(Staged { lane, number: 0, name: None, losses: Vec::new() })
        };
        files.iter().map(stage).collect()
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

    fn conclude(&self, _: Listing, _: &dyn Fn() -> bool) -> Conclusion {
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

    fn prepare(&self, offset: u64, bytes: u64) {
        if let Some(disk) = &self.disk {
            disk.prepare(self.start + offset, bytes);
        }
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

fn done() -> Outcome {
    Outcome::Done { digest: None, losses: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_same_however_it_is_read_and_no_two_blocks_are() {
        let file = Made { bytes: 10 << 20, fill: fill_with_noise };
        let mut whole = vec![0; 10 << 20];
        assert_eq!(file.read_at(&mut whole, 0).unwrap(), 10 << 20);
        let mut part = vec![0; 5000];
        assert_eq!(file.read_at(&mut part, (8 << 20) + 1).unwrap(), 5000);
        assert_eq!(part, whole[(8 << 20) + 1..][..5000]);
        let blocks: std::collections::HashSet<&[u8]> = whole.chunks(4096).collect();
        assert_eq!(blocks.len(), (10 << 20) / 4096);
        assert_eq!(file.read_at(&mut part, (10 << 20) - 7).unwrap(), 7);
    }
}
