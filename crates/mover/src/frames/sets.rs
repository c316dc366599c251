//! Which frames of a set came.

use std::collections::BTreeMap;
use thalweg_wire::limits;

/// One bit for each frame of a set, in runs: a lone frame with a high index takes no more memory than one with a low
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetBits {
    /// Runs of which a frame came, by number.
    runs: BTreeMap<u32, [u64; RUN_WORDS]>,
    count: u32,
    /// The index behind the highest that came.
    end: u32,
}

/// 8, not 1: a set that came whole takes hardly more than its bits.
const RUN_WORDS: usize = 8;
const WORD_FRAMES: u32 = u64::BITS;
const RUN_FRAMES: u32 = RUN_WORDS as u32 * WORD_FRAMES;

/// Where an index has its bit: number of the run, word in it, and the bit there.
fn bit_of(index: u32) -> (u32, usize, u64) {
    let word = (index % RUN_FRAMES / WORD_FRAMES) as usize;
    (index / RUN_FRAMES, word, 1 << (index % WORD_FRAMES))
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
        let (run, word, bit) = bit_of(index);
        let words = self.runs.entry(run).or_default();
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.count += u32::from(is_new);
        self.end = self.end.max(index + 1);
        is_new
    }

    /// Whether it came.
    pub fn contains(&self, index: u32) -> bool {
        let (run, word, bit) = bit_of(index);
        self.runs.get(&run).is_some_and(|words| words[word] & bit != 0)
    }

    /// How many came with an index below `frames`.
    pub fn count_below(&self, frames: u32) -> u32 {
        if frames >= self.end {
            return self.count;
        }
        let (run, word, bit) = bit_of(frames);
        let ones = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum::<u32>();
        let before: u32 = self.runs.range(..run).map(|(_, words)| ones(words)).sum();
        let below = |words: &[u64; RUN_WORDS]| ones(&words[..word]) + (words[word] & (bit - 1)).count_ones();
        before + self.runs.get(&run).map_or(0, below)
    }

    /// The first index from `from` on that came, or that did not; `frames` if there is none below that.
    fn next(&self, from: u32, frames: u32, came: bool) -> u32 {
        let mut index = from;
        while index < frames {
            let (run, word, _) = bit_of(index);
            let bits = self.runs.get(&run).map_or(0, |words| words[word]);
            let bits = if came { bits } else { !bits };
            let wanted = bits >> (index % WORD_FRAMES);
            if wanted != 0 {
                return frames.min(index + wanted.trailing_zeros());
            }
            index = (index / WORD_FRAMES + 1) * WORD_FRAMES;
        }
        frames
    }

    /// What came, as ranges `(first, end)` in order.
    pub fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges = Vec::new();
        let mut first = self.next(0, self.end, true);
        while first < self.end {
            let end = self.next(first, self.end, false);
            ranges.push((first, end));
            first = self.next(end, self.end, true);
        }
        ranges
    }

    /// What did not come of the indexes below `frames`.
    pub fn missing(&self, frames: u32) -> Missing {
        let mut missing = Missing { ranges: Vec::new(), count: frames - self.count_below(frames) };
        let mut left = missing.count;
        let mut end = 0;
        while left > 0 && end < frames {
            let first = self.next(end, frames, false);
            end = self.next(first, frames, true);
            left -= end - first;
            match missing.ranges.len() < RANGES_MAX {
                true => missing.ranges.push((first, end)),
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

    /// The set of this number, in place of the lowest one if too many are open.
    pub fn make_room(&mut self, set: u64) -> Option<&mut OpenSet> {
        if self.open(set).is_none()
            && let Some(lowest) = self.lowest()
        {
            self.close(lowest);
        }
        self.open(set)
    }

    /// A frame of a set came. The lowest ones are forgotten where there are too many, or all together have more than so
    /// many runs, but for the last of them.
    pub fn note(&mut self, set: u64, index: u32, runs_max: usize) {
        let Some(open) = self.make_room(set) else { return };
        let runs = open.bits.runs.len();
        open.bits.insert(index);
        if open.bits.runs.len() == runs {
            return;
        }
        let runs =
            |open: &BTreeMap<u64, OpenSet>| open.values().map(|open| open.bits.runs.len()).sum::<usize>();
        while self.open.len() > 1 && runs(&self.open) > runs_max {
            self.open.pop_first();
        }
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
            // Less than a run, and more.
            (came, frames) in prop_oneof![Just(300u32), Just(2_000u32)].prop_flat_map(|end| {
                (proptest::collection::btree_set(0..end, 0..300), 1..end)
            }),
        ) {
            let mut bits = SetBits::default();
            for &index in &came {
                prop_assert!(bits.insert(index));
                prop_assert!(!bits.insert(index));
            }
            let missing = bits.missing(frames);
            let told: BTreeSet<u32> = missing.ranges.iter().flat_map(|&(first, end)| first..end).collect();
            let ranges: BTreeSet<u32> = bits.ranges().iter().flat_map(|&(first, end)| first..end).collect();
            prop_assert_eq!(&ranges, &came);
            let truth: BTreeSet<u32> = (0..frames).filter(|index| !came.contains(index)).collect();
            prop_assert_eq!(&told, &truth);
            prop_assert_eq!(missing.count as usize, truth.len());
            prop_assert_eq!(bits.count_below(frames) as usize, came.range(..frames).count());
            prop_assert!((0..frames).all(|index| bits.contains(index) == came.contains(&index)));
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
    fn what_is_noted_of_sets_stays_within_its_bound_and_is_of_the_latest() {
        let mut sets = OpenSets::new(100);
        for set in 0..50 {
            (0..10).for_each(|run| sets.note(set, run * RUN_FRAMES, 40));
        }
        assert_eq!(sets.iter().map(|(set, _)| set).collect::<Vec<_>>(), [46, 47, 48, 49]);
        (0..100).for_each(|run| sets.note(49, run * RUN_FRAMES, 40));
        assert_eq!(sets.iter().map(|(set, open)| (set, open.bits.count)).collect::<Vec<_>>(), [(49, 100)]);
    }

    #[test]
    fn a_lone_frame_with_the_highest_index_takes_no_memory_for_those_before_it() {
        let mut sets = OpenSets::new(limits::SETS_OPEN_MAX);
        (0..limits::SETS_OPEN_MAX as u64).for_each(|set| {
            assert!(sets.open(set).unwrap().bits.insert(limits::SET_FRAMES_MAX - 1));
        });
        let runs: usize = sets.iter().map(|(_, open)| open.bits.runs.len()).sum();
        assert_eq!(runs, limits::SETS_OPEN_MAX);
        let missing = sets.close(0).unwrap().bits.missing(limits::SET_FRAMES_MAX);
        assert_eq!(missing.ranges, [(0, limits::SET_FRAMES_MAX - 1)]);
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
