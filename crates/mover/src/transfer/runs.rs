//! Sets of chunk numbers, kept as runs.

use crate::order::Left;
use std::collections::BTreeMap;
use thalweg_wire::message::Run;

/// A set of chunk numbers. Memory grows with the number of gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSet {
    /// First chunk of a run -> chunk after its last.
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl RunSet {
    /// No chunk.
    pub fn new() -> Self {
        RunSet::default()
    }

    /// Adds the chunks `first..end`; those that are there stay.
    pub fn insert(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        // Chunks come in a row, most of them: the run before grows, and touches no other.
        if let Some((&start, stop)) = self.runs.range_mut(..=end).next_back()
            && (start..=*stop).contains(&first)
        {
            let more = end.saturating_sub(*stop);
            *stop += more;
            self.count += more;
            return;
        }
        let (mut low, mut high) = (first, end);
        while let Some((&start, &stop)) = self.runs.range(..=high).next_back() {
            if stop < low {
                break;
            }
            self.runs.remove(&start);
            self.count -= stop - start;
            low = low.min(start);
            high = high.max(stop);
        }
        self.runs.insert(low, high);
        self.count += high - low;
    }

    /// Takes the chunks `first..end` out.
    pub fn remove(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        while let Some((&start, &stop)) = self.runs.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.runs.remove(&start);
            self.count -= stop - start;
            if start < first {
                self.runs.insert(start, first);
                self.count += first - start;
            }
            if stop > end {
                self.runs.insert(end, stop);
                self.count += stop - end;
            }
        }
    }

    /// Takes out the lowest chunk.
    pub fn pop_first(&mut self) -> Option<u64> {
        let (&first, _) = self.runs.first_key_value()?;
        self.remove(first, first + 1);
        Some(first)
    }

    /// Whether `chunk` is in the set.
    pub fn contains(&self, chunk: u64) -> bool {
        self.runs.range(..=chunk).next_back().is_some_and(|(_, &end)| chunk < end)
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Chunks in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// How many runs: what its memory grows with.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Runs `(first, end)` in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(&first, &end)| (first, end))
    }

    /// What of it lies in `first..end`: runs `(first, end)` in order.
    pub fn within(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let before = self.runs.range(..first).next_back();
        let runs = before.into_iter().chain(self.runs.range(first..end.max(first)));
        let cut = runs.map(move |(&start, &stop)| (start.max(first), stop.min(end)));
        cut.filter(|(start, stop)| start < stop)
    }

    /// The same as they are said.
    pub fn said(&self) -> Vec<Run> {
        self.iter().map(|(first, end)| Run { first, count: end - first }).collect()
    }
}

impl Left for RunSet {
    fn contains(&self, chunk: u64) -> bool {
        self.contains(chunk)
    }

    fn next_at(&self, chunk: u64) -> Option<u64> {
        match self.contains(chunk) {
            true => Some(chunk),
            false => self.runs.range(chunk..).next().map(|(&first, _)| first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_run_set_is_a_set(steps in proptest::collection::vec((0u8..3, 0u64..40, 0u64..12), 0..60)) {
            let mut runs = RunSet::new();
            let mut model = BTreeSet::new();
            for (what, first, count) in steps {
                match what {
                    0 => { runs.insert(first, first + count); model.extend(first..first + count); }
                    1 => { runs.remove(first, first + count); model.retain(|c| !(first..first + count).contains(c)); }
                    _ => prop_assert_eq!(runs.pop_first(), model.pop_first()),
                }
                prop_assert_eq!(runs.len(), model.len() as u64);
                let listed: Vec<u64> = runs.iter().flat_map(|(a, b)| a..b).collect();
                prop_assert_eq!(&listed, &model.iter().copied().collect::<Vec<_>>());
                let within: Vec<u64> = runs.within(first, first + count).flat_map(|(a, b)| a..b).collect();
                let expected: Vec<u64> = model.range(first..first + count).copied().collect();
                prop_assert_eq!(within, expected);
                prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|((_, end), (next, _))| end < next));
                for chunk in 0..52 {
                    prop_assert_eq!(runs.contains(chunk), model.contains(&chunk));
                }
            }
        }
    }
}
