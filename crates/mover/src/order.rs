//! Which chunk a stream takes next, and when it may make its request: the orders of 004 (section II-A.3) and that by
//! the place on the medium of 002 (section VI-D).
//!
//! | order | which chunk next | when its request may be made |
//! |---|---|---|
//! | strict | of n streams the i-th has chunks i, i + n, i + 2n, ... of each file | at once |
//! | serial | the lowest that is left | when all before it have ended |
//! | loose | the lowest that is left | when all before it have been made |
//! | none | the lowest that is left | at once |
//! | layout | a stream has a device ([`devices`], and within a file); there the next by physical address | at once |
//!
//! Every order hands out each chunk once; nothing is partitioned for good: what a stream does not take any more,
//! because it is gone, falls to the others. Pure: it decides, and knows no time.

use std::collections::{BTreeSet, HashMap};
use thalweg_wire::EntryId;
use thalweg_wire::message::Order;

pub mod devices;

/// At a source, if nobody says otherwise (004, section IV-B).
pub const SOURCE: Order = Order::Loose;
/// At a destination, if nobody says otherwise: data arrive mostly in order (004, section IV-C).
pub const DESTINATION: Order = Order::None;

/// Chunks of one file that are left.
pub trait Left {
    /// Whether this one is.
    fn contains(&self, chunk: u64) -> bool;
    /// The lowest at or after `chunk`.
    fn next_at(&self, chunk: u64) -> Option<u64>;
}

/// One of the streams that ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Its place among them, from 0.
    pub rank: u64,
    /// How many there are now, at least 1.
    pub of: u64,
}

/// Chooses chunks.
#[derive(Debug)]
pub struct Dealer {
    order: Order,
    layouts: HashMap<EntryId, Layout>,
    /// Of all layouts together.
    runs: usize,
}

impl Dealer {
    /// For one order.
    pub fn new(order: Order) -> Dealer {
        Dealer { order, layouts: HashMap::new(), runs: 0 }
    }

    /// Where a file's chunks lie. Without it, [`Order::Layout`] goes by offset. False if it is not kept, because those
    /// of the files before it have [`RUNS_MAX`] runs.
    #[must_use]
    pub fn lay_out(&mut self, id: EntryId, layout: Layout) -> bool {
        self.forget(id);
        let runs = layout.runs();
        if runs > RUNS_MAX - self.runs {
            return false;
        }
        self.runs += runs;
        self.layouts.insert(id, layout);
        true
    }

    /// A file is done.
    pub fn forget(&mut self, id: EntryId) {
        self.runs -= self.layouts.remove(&id).map_or(0, |layout| layout.runs());
    }

    /// The chunk of `left` that `asker` takes next. `None`: nothing is left for it, though perhaps for others.
    pub fn pick(&mut self, id: EntryId, left: &dyn Left, asker: Asker) -> Option<u64> {
        match self.order {
            Order::Strict => strict(left, asker),
            Order::Layout => match self.layouts.get_mut(&id) {
                Some(layout) => layout.pick(left, asker.rank),
                None => left.next_at(0),
            },
            Order::Serial | Order::Loose | Order::None => left.next_at(0),
        }
    }
}

fn strict(left: &dyn Left, asker: Asker) -> Option<u64> {
    let mut from = 0;
    // Each round jumps over a run that has none of ours, or finds one.
    loop {
        let chunk = left.next_at(from)?;
        let behind = chunk % asker.of;
        let ours = chunk.checked_add((asker.rank + asker.of - behind) % asker.of)?;
        if ours == chunk || left.contains(ours) {
            return Some(ours);
        }
        from = ours;
    }
}

/// Runs of chunks that the layouts of a transfer have at most, all together: 24 MiB, and 32 MiB more for the file that
/// is laid out. A file for which there is no room goes by offset.
pub const RUNS_MAX: usize = 1 << 20;

/// Where a run of a file's bytes lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// First byte in the file.
    pub logical: u64,
    /// Bytes.
    pub length: u64,
    /// Number of the device, as far as they can be told apart.
    pub device: u32,
    /// First byte on it.
    pub physical: u64,
}

/// A file's chunks by device and physical address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    devices: Vec<DeviceQueue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DeviceQueue {
    /// By physical address.
    runs: Vec<ChunkRun>,
    /// Those before it were handed out, or were not left.
    at: usize,
}

/// Chunks in a row, in the file and on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChunkRun {
    physical: u64,
    /// Those before it were handed out, or were not left.
    first: u64,
    end: u64,
}

impl Layout {
    /// From the extents of a file, each chunk where its first byte lies. Chunks in holes come last, by offset. Memory
    /// and time go by the extents in which a chunk begins, not by the length of the file: a sparse one may have 8 EiB.
    pub fn of(extents: &[Placed], file_bytes: u64, chunk_bytes: u64) -> Layout {
        let mut extents: Vec<&Placed> = extents.iter().collect();
        extents.sort_by_key(|extent| extent.logical);
        let chunks = file_bytes.div_ceil(chunk_bytes);
        let mut placed: Vec<(u32, ChunkRun)> = Vec::new();
        let mut next = 0;
        for extent in extents {
            let first = extent.logical.div_ceil(chunk_bytes).max(next);
            let end = extent.logical.saturating_add(extent.length).div_ceil(chunk_bytes).min(chunks);
            if first < end {
                let within = first * chunk_bytes - extent.logical;
                let physical = extent.physical.saturating_add(within);
                placed.push((extent.device, ChunkRun { physical, first, end }));
                next = end;
            }
        }
        placed.sort_unstable_by_key(|(device, run)| (*device, run.physical, run.first));
        let mut devices: Vec<DeviceQueue> = Vec::new();
        for of_device in placed.chunk_by(|(device, _), (other, _)| device == other) {
            let runs = of_device.iter().map(|(_, run)| run.clone()).collect();
            devices.push(DeviceQueue { runs, at: 0 });
        }
        Layout { devices }
    }

    /// Runs of chunks that it keeps, at least 1.
    fn runs(&self) -> usize {
        self.devices.iter().map(|device| device.runs.len()).sum::<usize>().max(1)
    }

    /// From the stream's own device, then from the others: none waits while another has work.
    fn pick(&mut self, left: &dyn Left, rank: u64) -> Option<u64> {
        let devices = self.devices.len();
        let mut in_turn = (0..devices).map(|step| (rank as usize % devices + step) % devices);
        let placed = in_turn.find_map(|device| self.devices[device].next(left));
        // What lies in holes, and what came back after it was handed out.
        placed.or_else(|| left.next_at(0))
    }
}

impl DeviceQueue {
    fn next(&mut self, left: &dyn Left) -> Option<u64> {
        while let Some(run) = self.runs.get_mut(self.at) {
            if let Some(chunk) = left.next_at(run.first).filter(|chunk| *chunk < run.end) {
                run.first = chunk + 1;
                return Some(chunk);
            }
            self.at += 1;
        }
        None
    }
}

/// Who may make a request now, of those that were handed out in this order: serial and loose.
#[derive(Debug)]
pub struct Turns {
    is_serial: bool,
    drawn: u64,
    /// All before this one have passed: made their request (loose), or ended it (serial).
    passed: u64,
    /// Passed before their turn: they died, or nobody wanted to wait any longer.
    early: BTreeSet<u64>,
    /// Requests that were made before those before them had passed.
    out_of_turn: u64,
}

impl Turns {
    /// For an order that has turns; `None` for the others.
    pub fn of(order: Order) -> Option<Turns> {
        let is_serial = match order {
            Order::Serial => true,
            Order::Loose => false,
            Order::Strict | Order::None | Order::Layout => return None,
        };
        Some(Turns { is_serial, drawn: 0, passed: 0, early: BTreeSet::new(), out_of_turn: 0 })
    }

    /// A request is handed out. It must come to [`Turns::ended`], whatever becomes of it.
    pub fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn - 1
    }

    /// Whether it may be made.
    pub fn may_issue(&self, turn: u64) -> bool {
        turn <= self.passed
    }

    /// It is made at this moment, whether or not it may be.
    pub fn issued(&mut self, turn: u64) {
        if !self.may_issue(turn) {
            self.out_of_turn += 1;
        }
        if !self.is_serial {
            self.pass(turn);
        }
    }

    /// It ended, or will never be made.
    pub fn ended(&mut self, turn: u64) {
        self.pass(turn);
    }

    /// Requests so far that were made though they might not be yet.
    pub fn out_of_turn(&self) -> u64 {
        self.out_of_turn
    }

    fn pass(&mut self, turn: u64) {
        if turn >= self.passed {
            self.early.insert(turn);
        }
        while self.early.remove(&self.passed) {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests;
