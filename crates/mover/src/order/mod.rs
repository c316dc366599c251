//! Which chunk a stream takes next, and when it may make its request: the orders of 004 (section II-A.3) and that by the
//! place on the medium of 002 (section VI-D).
//!
//! | order | which chunk next | when its request may be made |
//! |---|---|---|
//! | strict | of n streams the i-th has chunks i, i + n, i + 2n, ... of each file | at once |
//! | serial | the lowest that is left | when all before it have ended |
//! | loose | the lowest that is left | when all before it have been made |
//! | none | the lowest that is left | at once |
//! | layout | a stream has a device; there the next by physical address | at once |
//!
//! Every order hands out each chunk once; nothing is partitioned for good: what a stream does not take any more, because
//! it is gone, falls to the others. Pure: it decides, and knows no time.

use crate::endpoint::Placed;
use std::collections::{BTreeSet, HashMap};
use thalweg_wire::EntryId;
use thalweg_wire::message::Order;

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
}

impl Dealer {
    /// For one order.
    pub fn new(order: Order) -> Dealer {
        Dealer { order, layouts: HashMap::new() }
    }

    /// Where a file's chunks lie. Without it, [`Order::Layout`] goes by offset.
    pub fn lay_out(&mut self, id: EntryId, layout: Layout) {
        self.layouts.insert(id, layout);
    }

    /// A file is done.
    pub fn forget(&mut self, id: EntryId) {
        self.layouts.remove(&id);
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

/// A file's chunks by device and physical address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    devices: Vec<DeviceQueue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DeviceQueue {
    /// By physical address.
    chunks: Vec<u64>,
    /// Those before it were handed out, or were not left.
    at: usize,
}

impl Layout {
    /// From the extents of a file, each chunk where its first byte lies. Chunks in holes come last, by offset. Memory: 8
    /// bytes for each chunk.
    pub fn of(extents: &[Placed], file_bytes: u64, chunk_bytes: u64) -> Layout {
        let mut extents: Vec<Placed> = extents.to_vec();
        extents.sort_by_key(|extent| extent.logical);
        let mut placed: Vec<(u32, u64, u64)> = Vec::new();
        let mut next = 0;
        for chunk in 0..file_bytes.div_ceil(chunk_bytes) {
            let start = chunk * chunk_bytes;
            while next < extents.len() && extents[next].logical + extents[next].length <= start {
                next += 1;
            }
            let extent = extents.get(next).filter(|extent| extent.logical <= start);
            let place = extent.map_or((0, u64::MAX), |extent| {
                (extent.device, extent.physical.saturating_add(start - extent.logical))
            });
            placed.push((place.0, place.1, chunk));
        }
        placed.sort_unstable();
        let mut devices: Vec<DeviceQueue> = Vec::new();
        let mut last = None;
        for (device, _, chunk) in placed {
            if last != Some(device) {
                devices.push(DeviceQueue::default());
                last = Some(device);
            }
            if let Some(queue) = devices.last_mut() {
                queue.chunks.push(chunk);
            }
        }
        Layout { devices }
    }

    /// From the stream's own device, then from the others: none waits while another has work.
    fn pick(&mut self, left: &dyn Left, rank: u64) -> Option<u64> {
        let devices = self.devices.len();
        for step in 0..devices {
            let queue = &mut self.devices[(rank as usize % devices + step) % devices];
            while let Some(&chunk) = queue.chunks.get(queue.at) {
                queue.at += 1;
                if left.contains(chunk) {
                    return Some(chunk);
                }
            }
        }
        // What came back after it was handed out.
        left.next_at(0)
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
}

impl Turns {
    /// For an order that has turns; `None` for the others.
    pub fn of(order: Order) -> Option<Turns> {
        let is_serial = match order {
            Order::Serial => true,
            Order::Loose => false,
            Order::Strict | Order::None | Order::Layout => return None,
        };
        Some(Turns { is_serial, drawn: 0, passed: 0, early: BTreeSet::new() })
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

    /// It is made at this moment.
    pub fn issued(&mut self, turn: u64) {
        if !self.is_serial {
            self.pass(turn);
        }
    }

    /// It ended, or will never be made.
    pub fn ended(&mut self, turn: u64) {
        self.pass(turn);
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
