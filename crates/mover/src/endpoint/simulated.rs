//! `sim:`: a source or a destination on a simulated array of disks, in real time. What orders of requests do shows on
//! it as it did on the arrays of 004, which the disks of today hide.
//!
//! Before its request a thread may be held up, as on a host that many share: [`SourceFile::prepare`] and
//! [`PartialFile::prepare`](super::PartialFile::prepare), which come before its turn in an order.
//!
//! As a source one file, `sim`, whose bytes come from the seed: what arrives can be verified. As a destination it keeps
//! nothing: see [`NullDestination`](super::synthetic::NullDestination).

mod array;
mod host;

pub use array::{Array, ArraySpec, Outlook};
pub use host::Host;

use super::{ExtentMap, ScanSink, Source, SourceFile};
use crate::endpoint::content::Content;
use crate::endpoint::synthetic::scan_one;
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, Evidence};

/// An array that takes its time.
#[derive(Debug)]
pub struct SimulatedDisk {
    state: Mutex<State>,
    since: Instant,
}

#[derive(Debug)]
struct State {
    array: Array,
    host: Host,
}

impl SimulatedDisk {
    /// An idle one.
    ///
    /// # Errors
    /// `Usage` for numbers out of their bounds.
    pub fn new(spec: ArraySpec) -> Result<SimulatedDisk> {
        let host = Host::new(spec.host_bytes_per_s, spec.seed);
        let array =
            Array::new(spec).map_err(|cause| Failure::new(FailureKind::Usage, "simulate a disk", cause))?;
        Ok(SimulatedDisk { state: Mutex::new(State { array, host }), since: Instant::now() })
    }

    /// A thread gets ready for a request: sleeps for as long as the host holds it up, at most a second.
    pub fn prepare(&self, offset: u64, bytes: u64) {
        let late = {
            let mut state = lock(&self.state);
            let late = state.host.late(offset);
            state.host.begin(bytes);
            late
        };
        std::thread::sleep(late);
        lock(&self.state).host.end(bytes);
    }

    /// Makes a request and sleeps until it has ended.
    pub fn request(&self, offset: u64, bytes: u64) {
        let mut state = lock(&self.state);
        let request = state.array.request(self.since.elapsed(), offset, bytes);
        state.host.begin(bytes);
        // At each look some device has begun at least one piece more, and a bounded number is served before this one's.
        let end = loop {
            match state.array.look(self.since.elapsed(), request) {
                Outlook::Ends(end) => break end,
                Outlook::Open(until) => {
                    drop(state);
                    self.sleep_until(until);
                    state = lock(&self.state);
                }
            }
        };
        drop(state);
        self.sleep_until(end);
        lock(&self.state).host.end(bytes);
    }

    /// As time passes for the array.
    fn sleep_until(&self, until: Duration) {
        std::thread::sleep(until.saturating_sub(self.since.elapsed()));
    }
}

/// One file on a simulated array.
#[derive(Debug)]
pub struct SimulatedSource {
    disk: Arc<SimulatedDisk>,
    bytes: u64,
    seed: u64,
}

struct SimulatedFile {
    disk: Arc<SimulatedDisk>,
    bytes: u64,
    seed: u64,
}

impl SimulatedSource {
    /// On an array of its own.
    ///
    /// # Errors
    /// As [`SimulatedDisk::new`].
    pub fn new(spec: ArraySpec) -> Result<SimulatedSource> {
        let (bytes, seed) = (spec.bytes, spec.seed);
        Ok(SimulatedSource { disk: Arc::new(SimulatedDisk::new(spec)?), bytes, seed })
    }
}

fn evidence(bytes: u64) -> Evidence {
    Evidence { size: bytes, ..Evidence::default() }
}

impl Source for SimulatedSource {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        scan_one(sink, "sim", evidence(self.bytes))
    }

    fn open(&self, _: &Entry) -> Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(SimulatedFile { disk: self.disk.clone(), bytes: self.bytes, seed: self.seed }))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        Ok(entry.clone())
    }

    fn layout(&self, _: &Entry) -> Result<ExtentMap> {
        let state = lock(&self.disk.state);
        let placed = state.array.layout().take(ArraySpec::STRIPES_MAX as usize).collect();
        Ok(ExtentMap { placed, unplaced_bytes: 0 })
    }
}

impl SourceFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.disk.request(offset, bytes as u64);
        Content::Noise.fill(self.seed, offset, &mut buffer[..bytes]);
        Ok(bytes)
    }

    fn prepare(&self, offset: u64, bytes: u64) {
        self.disk.prepare(offset, bytes);
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(evidence(self.bytes))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.bytes).then_some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests;
