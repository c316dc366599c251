//! Which frames of a set came.

use std::collections::BTreeMap;
use thalweg_wire::limits;

/// One bit for each frame of a set, up to the highest that came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetBits {
    words: Vec<u64>,
    count: u32,
}

/// What of a set did not come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Indexes as ranges `(first, end)`; at most [`RANGES_MAX`], the last then reaching to the end of the set.
    pub ranges: Vec<(u32, u32)>,
    /// How many.
    pub count: u32,
}

/// Ranges of missing indexes that are told one by one.
pub const RANGES_MAX: usize = limits::SET_RANGES_MAX;

impl SetBits {
    /// One came. False if it was there, or lies beyond every set.
    pub fn insert(&mut self, index: u32) -> bool {
        if index >= limits::SET_FRAMES_MAX {
            return false;
        }
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u32::from(is_new);
        is_new
    }

    /// Whether it came.
    pub fn contains(&self, index: u32) -> bool {
        self.words.get(index as usize / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// How many came with an index below `frames`.
    pub fn count_below(&self, frames: u32) -> u32 {
        if frames as usize >= self.words.len() * 64 {
            return self.count;
        }
        let whole = frames as usize / 64;
        let rest = self.words[whole] & ((1u64 << (frames % 64)) - 1);
        self.words[..whole].iter().map(|word| word.count_ones()).sum::<u32>() + rest.count_ones()
    }

    /// What did not come of the indexes below `frames`.
    pub fn missing(&self, frames: u32) -> Missing {
        let mut missing = Missing { ranges: Vec::new(), count: frames - self.count_below(frames) };
        let mut left = missing.count;
        let mut index = 0;
        while left > 0 && index < frames {
            if self.contains(index) {
                index += 1;
                continue;
            }
            let first = index;
            while index < frames && !self.contains(index) {
                index += 1;
            }
            left -= index - first;
            match missing.ranges.len() < RANGES_MAX {
                true => missing.ranges.push((first, index)),
                false => {
                    if let Some(last) = missing.ranges.last_mut() {
                        last.1 = frames;
                    }
                    break;
                }
            }
        }
        missing
    }
}

/// Sets that are not over, a bounded number.
#[derive(Debug, Clone)]
pub struct OpenSets {
    open: BTreeMap<u64, OpenSet>,
    max: usize,
}

/// One of them.
#[derive(Debug, Clone, Default)]
pub struct OpenSet {
    /// Frames that it shall have, once somebody said so.
    pub frames: Option<u32>,
    /// What came.
    pub bits: SetBits,
}

impl OpenSets {
    /// None, and at most so many at once.
    pub fn new(max: usize) -> OpenSets {
        OpenSets { open: BTreeMap::new(), max }
    }

    /// The set of this number, begun if need be. `None`: too many are open.
    pub fn open(&mut self, set: u64) -> Option<&mut OpenSet> {
        if self.open.len() >= self.max && !self.open.contains_key(&set) {
            return None;
        }
        Some(self.open.entry(set).or_default())
    }

    /// It is over.
    pub fn close(&mut self, set: u64) -> Option<OpenSet> {
        self.open.remove(&set)
    }

    /// The one with the lowest number.
    pub fn lowest(&self) -> Option<u64> {
        self.open.keys().next().copied()
    }

    /// All that are open.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &OpenSet)> {
        self.open.iter().map(|(set, open)| (*set, open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn what_came_and_what_is_missing_are_the_whole(
            came in proptest::collection::btree_set(0u32..300, 0..300), frames in 1u32..300,
        ) {
            let mut bits = SetBits::default();
            for &index in &came {
                prop_assert!(bits.insert(index));
                prop_assert!(!bits.insert(index));
            }
            let missing = bits.missing(frames);
            let told: BTreeSet<u32> = missing.ranges.iter().flat_map(|&(first, end)| first..end).collect();
            let truth: BTreeSet<u32> = (0..frames).filter(|index| !came.contains(index)).collect();
            prop_assert_eq!(&told, &truth);
            prop_assert_eq!(missing.count as usize, truth.len());
            prop_assert_eq!(bits.count_below(frames) as usize, came.range(..frames).count());
        }
    }

    #[test]
    fn of_a_scan_of_1440_frames_each_hole_is_a_range_of_its_own() {
        let holes = [(0, 1), (63, 65), (120, 260), (719, 720), (1438, 1440)];
        let is_hole = |index: u32| holes.iter().any(|&(first, end)| (first..end).contains(&index));
        let mut bits = SetBits::default();
        // Whichever comes first.
        for index in (0..1440).rev().filter(|&index| !is_hole(index)) {
            assert!(bits.insert(index));
        }
        let missing = bits.missing(1440);
        assert_eq!(missing.ranges, holes);
        assert_eq!(missing.count, 1 + 2 + 140 + 1 + 2);
        // What belongs to no such set does not hide one of its holes.
        bits.insert(1440);
        assert_eq!(bits.missing(1440), missing);
    }

    #[test]
    fn a_comb_is_told_in_bounded_space() {
        let mut bits = SetBits::default();
        for index in (0..limits::SET_FRAMES_MAX).step_by(2) {
            bits.insert(index);
        }
        let missing = bits.missing(limits::SET_FRAMES_MAX);
        assert_eq!((missing.ranges.len(), missing.count), (RANGES_MAX, limits::SET_FRAMES_MAX / 2));
        assert_eq!(missing.ranges.last().unwrap().1, limits::SET_FRAMES_MAX);
        assert!(!bits.insert(limits::SET_FRAMES_MAX));
    }
}
