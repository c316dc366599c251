//! What a channel holds, in the order in which it was taken.
//!
//! Every frame or note has a *position*. A frame's payload is in memory, in the spill log, in both, or gone; the
//! positions go from the front when nobody needs them any more.

use crate::frames::frame::Payload;
use crate::frames::lane::cost;
use crate::frames::spill::Location;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_wire::message::{FrameHead, Item, ProducerId};

/// A frame in memory.
#[derive(Debug)]
pub struct HeldFrame {
    /// All but its payload, with the hub's stamp.
    pub head: FrameHead,
    /// Its payload.
    pub payload: Payload,
}

impl HeldFrame {
    /// What it counts for.
    pub fn cost(&self) -> u64 {
        cost(self.head.payload_bytes, self.head.metadata.len())
    }
}

/// What is at a position.
#[derive(Debug)]
pub(super) enum Kind {
    Frame {
        producer: Arc<ProducerId>,
        sequence: u64,
        cost: u64,
        /// Set that it belongs to, and its index there.
        set: Option<(u64, u32)>,
    },
    /// What a damaged log had here.
    Nothing,
    Note(Item),
}

/// Whether the spill log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    No,
    Writing,
    At(Location),
}

#[derive(Debug)]
pub(super) struct Logged {
    pub kind: Kind,
    pub held: Option<Arc<HeldFrame>>,
    pub disk: Disk,
}

impl Logged {
    /// Whether it can still be had.
    pub fn is_there(&self) -> bool {
        self.held.is_some() || matches!(self.disk, Disk::At(_))
    }
}

#[derive(Debug, Default)]
pub(super) struct Log {
    logged: VecDeque<Logged>,
    base: u64,
    memory_bytes: u64,
    /// No frame below this position is in memory.
    memory_from: u64,
}

impl Log {
    /// A log whose first position is this.
    pub fn starting(base: u64) -> Log {
        Log { base, memory_from: base, ..Log::default() }
    }

    /// The first position.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The position of the next.
    pub fn end(&self) -> u64 {
        self.base + self.logged.len() as u64
    }

    pub fn len(&self) -> usize {
        self.logged.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub fn get(&self, position: u64) -> Option<&Logged> {
        self.logged.get(usize::try_from(position.checked_sub(self.base)?).ok()?)
    }

    pub fn get_mut(&mut self, position: u64) -> Option<&mut Logged> {
        self.logged.get_mut(usize::try_from(position.checked_sub(self.base)?).ok()?)
    }

    /// Adds one, and returns its position.
    pub fn push(&mut self, logged: Logged) -> u64 {
        self.memory_bytes += logged.held.as_ref().map_or(0, |held| held.cost());
        self.logged.push_back(logged);
        self.end() - 1
    }

    /// What was taken out of the front stands at its position again. What lies between was handed out for good. Nothing
    /// changes where that would make more than `most` positions.
    pub fn put_back(&mut self, position: u64, logged: Logged, most: usize) {
        let is_near = self.end().checked_sub(position).is_some_and(|positions| positions <= most as u64);
        if !is_near {
            return;
        }
        while self.base > position {
            self.logged.push_front(Logged { kind: Kind::Nothing, held: None, disk: Disk::No });
            self.base -= 1;
        }
        let Some(there) = self.get_mut(position) else { return };
        if there.is_there() || !matches!(there.kind, Kind::Frame { .. } | Kind::Nothing) {
            return;
        }
        let bytes = logged.held.as_ref().map_or(0, |held| held.cost());
        *there = logged;
        self.memory_bytes += bytes;
        self.memory_from = self.memory_from.min(position);
    }

    /// Takes the payload at a position out of memory.
    pub fn evict(&mut self, position: u64) {
        if let Some(held) = self.get_mut(position).and_then(|logged| logged.held.take()) {
            self.memory_bytes -= held.cost();
        }
    }

    /// The first position that has a payload in memory.
    pub fn first_in_memory(&mut self) -> Option<u64> {
        self.memory_from = self.memory_from.max(self.base);
        while self.memory_from < self.end() {
            if self.get(self.memory_from).is_some_and(|logged| logged.held.is_some()) {
                return Some(self.memory_from);
            }
            self.memory_from += 1;
        }
        None
    }

    /// Takes the first position out.
    pub fn pop(&mut self) -> Option<Logged> {
        let logged = self.logged.pop_front()?;
        self.base += 1;
        self.memory_bytes -= logged.held.as_ref().map_or(0, |held| held.cost());
        Some(logged)
    }

    pub fn first(&self) -> Option<&Logged> {
        self.logged.front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::from_fn;

    fn logged(sequence: u64) -> Logged {
        let producer = Arc::new(ProducerId::new("cam").unwrap());
        let kind = Kind::Frame { producer, sequence, cost: 100, set: None };
        Logged { kind, held: None, disk: Disk::At(Location { file: 0, offset: sequence * 10, bytes: 10 }) }
    }

    #[test]
    fn what_is_put_back_stands_at_its_position_and_no_more_positions_than_may_be() {
        let mut log = Log::default();
        for sequence in 0..10 {
            log.push(logged(sequence));
        }
        (0..8).for_each(|_| drop(log.pop()));
        // Too far back, behind something that stands there, and into a gap.
        for position in [7, 9, 2, 4, 3] {
            log.put_back(position, logged(position), 7);
        }
        assert_eq!((log.base(), log.end(), log.len()), (3, 10, 7));
        let there = from_fn(|| log.pop()).map(|logged| match logged.kind {
            Kind::Frame { sequence, .. } => Some(sequence),
            _ => None,
        });
        let there: Vec<Option<u64>> = there.collect();
        assert_eq!(there, [Some(3), Some(4), None, None, Some(7), Some(8), Some(9)]);
    }
}
