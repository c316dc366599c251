//! Maps by number, for entries: looked up a dozen times for each, where a hash that withstands any text is most of the
//! cost.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map whose keys are a number: [`EntryId`](thalweg_wire::EntryId) or `u64`.
pub type NumberMap<K, V> = HashMap<K, V, Numbers>;

/// 2^64 by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes one number, keyed: the peer chooses the numbers of entries, and must not know which ones fall together.
#[derive(Clone)]
pub struct Numbers {
    mask: u64,
    factor: u64,
}

/// See [`Numbers`].
pub struct NumberHasher {
    keys: Numbers,
    hash: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        let random = RandomState::new();
        Numbers { mask: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for Numbers {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher { keys: self.clone(), hash: 0 }
    }
}

impl Hasher for NumberHasher {
    /// The product's halves folded together: every bit of the number reaches every bit of the hash. Numbers in equal
    /// steps make products in equal steps, which under some keys meet in a few places: the second product parts them.
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.hash ^ number ^ self.keys.mask) * u128::from(self.keys.factor);
        let mixed = (product as u64 ^ (product >> 64) as u64).wrapping_mul(GOLDEN);
        self.hash = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A table takes its place from the low bits and tells neighbours apart by the high ones.
    #[test]
    fn numbers_in_a_row_and_far_apart_spread_over_low_and_high_bits() {
        let numbers = Numbers::default();
        for step in [1, 1 << 10, 1 << 32, 3 << 40] {
            let hashes: Vec<u64> = (0..4096u64).map(|at| numbers.hash_one(at * step)).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xfff).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // At random 2,589 of 4,096 and all of 128.
            assert!(low.len() > 2000 && high.len() > 120, "{step}: {} {}", low.len(), high.len());
        }
    }
}
