//! The only source of chance in a simulation: xoshiro256** seeded by SplitMix64.

use std::time::Duration;

/// A generator.
#[derive(Debug, Clone)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Random(std::array::from_fn(|_| split_mix(&mut state)))
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `end`; 0 if `end` is 0. The bias of the remainder does not matter here.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number in `low..=high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Microseconds up to `micros`.
    pub fn up_to_micros(&mut self, micros: u64) -> Duration {
        Duration::from_micros(self.within(1, micros.max(1)))
    }

    /// Around `mean`: from nothing to three times that.
    pub fn around(&mut self, mean: Duration) -> Duration {
        let micros = mean.as_micros() as u64;
        let low = self.below(micros * 2 + 1);
        Duration::from_micros(1 + if self.percent(10) { low + micros } else { low })
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
