//! Producers that are over and forgotten, but for where their sequence goes on if one of that name comes again.

use super::producers::KnownProducer;
use std::collections::{BTreeMap, VecDeque};
use thalweg_wire::message::ProducerId;

/// Names that are remembered; beyond, the one that was forgotten first begins anew.
pub(super) const RETIRED_MAX: usize = 64 << 10;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Before {
    /// How many were forgotten before it.
    pub number: u64,
    /// The sequence that it goes on with.
    pub next: u64,
    /// What this hub took first of it.
    pub first_here: u64,
    /// The process that made its last frames, if that is known.
    pub process: Option<[u8; 16]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Retired {
    known: BTreeMap<ProducerId, Before>,
    /// In the order in which they were forgotten; some came again since.
    order: VecDeque<(u64, ProducerId)>,
    count: u64,
    /// Of these it is not known that they came again.
    away: u64,
}

impl Retired {
    /// It is forgotten.
    pub fn add(&mut self, known: &KnownProducer) {
        let id = (*known.id).clone();
        let before = Before {
            number: self.count,
            next: known.next,
            first_here: known.first_here,
            process: known.process,
        };
        self.order.push_back((self.count, id.clone()));
        self.known.insert(id, before);
        self.count += 1;
        self.away += 1;
        while self.order.len() > RETIRED_MAX
            && let Some((number, id)) = self.order.pop_front()
        {
            if self.known.get(&id).is_some_and(|known| known.number == number) {
                self.known.remove(&id);
            }
        }
    }

    /// The process that made the last frames of this name, if that is known.
    pub fn process(&self, id: &ProducerId) -> Option<[u8; 16]> {
        self.known.get(id).and_then(|before| before.process)
    }

    /// Whether it is remembered.
    pub fn has(&self, id: &ProducerId) -> bool {
        self.known.contains_key(id)
    }

    /// It comes again.
    pub fn take(&mut self, id: &ProducerId) -> Option<Before> {
        let before = self.known.remove(id);
        self.away -= u64::from(before.is_some());
        before
    }

    /// How often one was forgotten.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many are forgotten, each counted once however often it came and went; but for one that was no longer
    /// remembered when it came again.
    pub fn away(&self) -> u64 {
        self.away
    }

    /// Those that are remembered and were forgotten before there were so many.
    pub fn before(&self, count: u64) -> impl Iterator<Item = (&ProducerId, &Before)> {
        self.known.iter().filter(move |(_, before)| before.number < count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn names_are_remembered_up_to_a_bound_the_latest_first() {
        let mut retired = Retired::default();
        let id = |number: usize| ProducerId::new(&format!("p{number}")).unwrap();
        for number in 0..RETIRED_MAX + 10 {
            retired.add(&KnownProducer::new(Arc::new(id(number)), number as u64));
            if number % 2 == 1 {
                // One that comes and goes takes the place of no other for longer than it is there.
                assert_eq!(retired.take(&id(0)).is_some(), number == 1);
            }
        }
        assert!(retired.known.len() <= RETIRED_MAX && retired.order.len() <= RETIRED_MAX);
        assert_eq!(retired.take(&id(9)), None);
        assert_eq!(retired.take(&id(10)).map(|before| before.next), Some(10));
        assert_eq!(retired.take(&id(10)), None);
        // As many as there are names, but for the two that came again and are here.
        assert_eq!(retired.away(), RETIRED_MAX as u64 + 10 - 2);
    }

    #[test]
    fn a_name_that_comes_and_goes_counts_once() {
        let mut retired = Retired::default();
        let id = ProducerId::new("cam").unwrap();
        for round in 0..3 {
            retired.add(&KnownProducer::new(Arc::new(id.clone()), round));
            assert_eq!((retired.away(), retired.count()), (1, round + 1));
            assert_eq!(retired.take(&id).map(|before| before.next), Some(round));
            assert_eq!(retired.away(), 0);
        }
    }
}
