//! Numbers of flows. A sender gives them out one after the other, so all that were seen are some ranges, with as many
//! gaps as there are flows under way: what is remembered of millions of flows that came and went.

use std::collections::BTreeMap;
use thalweg_wire::EntryId;

/// See the module. A range is kept with its last number, not the one behind it: a peer may give out the last there is.
#[derive(Debug, Default)]
pub struct FlowNumbers(BTreeMap<u64, u64>);

impl FlowNumbers {
    /// Whether this number is among them.
    pub fn has(&self, flow: EntryId) -> bool {
        self.0.range(..=flow.0).next_back().is_some_and(|(_, last)| *last >= flow.0)
    }

    /// Adds a number; whether it is new.
    pub fn add(&mut self, flow: EntryId) -> bool {
        if self.has(flow) {
            return false;
        }
        // What ends in front of it goes on, up to the end of what begins behind it.
        let before = self.0.range(..flow.0).next_back().filter(|(_, last)| **last + 1 == flow.0);
        let first = before.map_or(flow.0, |(first, _)| *first);
        let behind = flow.0.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(first, behind.unwrap_or(flow.0));
        true
    }

    /// How many ranges they are.
    pub fn ranges(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn numbers_are_those_that_were_added_in_as_few_ranges_as_can_be(
            added in proptest::collection::vec(0u64..200, 0..300),
        ) {
            let mut numbers = FlowNumbers::default();
            let mut all = BTreeSet::new();
            for number in added {
                prop_assert_eq!(numbers.add(EntryId(number)), all.insert(number));
                let ends = all.iter().filter(|number| !all.contains(&(**number + 1)));
                prop_assert_eq!(numbers.ranges(), ends.count());
            }
            for number in 0..202 {
                prop_assert_eq!(numbers.has(EntryId(number)), all.contains(&number));
            }
        }
    }

    #[test]
    fn the_last_number_there_is_is_one_like_others() {
        let mut numbers = FlowNumbers::default();
        assert!(numbers.add(EntryId(u64::MAX)) && numbers.add(EntryId(u64::MAX - 1)));
        assert!(numbers.has(EntryId(u64::MAX)) && !numbers.has(EntryId(0)) && numbers.ranges() == 1);
        assert!(!numbers.add(EntryId(u64::MAX)));
    }
}
