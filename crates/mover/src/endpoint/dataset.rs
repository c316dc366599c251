//! Data sets that are made of numbers: how many files, how large, of what content. The same specification gives the
//! same names, sizes and bytes everywhere, so that a copy can be checked without a second one.
//!
//! `data:` reads one without a disk ([`DatasetSource`]); the laboratory writes and checks them as files.

mod description;

mod source;

pub use description::{DESCRIPTION_BYTES_MAX, DESCRIPTION_NAME};
pub use source::DatasetSource;

use super::content::{Content, mixed};
use std::ops::Range;

/// What a data set is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSpec {
    /// Number of files, 1 to [`DatasetSpec::FILES_MAX`].
    pub files: u64,
    /// Sizes in bytes, each with its weight: how often it comes in proportion to the others. One: all files have it.
    pub sizes: Vec<(u64, u64)>,
    /// What is in them.
    pub content: Content,
    /// Share of each file's [`EXTENT_BYTES`] that are holes, in hundredths: 0 to 100.
    pub sparse_percent: u8,
    /// Where all of it comes from.
    pub seed: u64,
}

impl Default for DatasetSpec {
    /// One file of 64 MiB.
    fn default() -> Self {
        DatasetSpec {
            files: 1,
            sizes: vec![(64 << 20, 1)],
            content: Content::default(),
            sparse_percent: 0,
            seed: 0,
        }
    }
}

/// A hole, where there is one, has as many bytes, and begins at a multiple of it.
pub const EXTENT_BYTES: u64 = 1 << 20;

/// Files of one directory.
const DIRECTORY_FILES: u64 = 1000;

/// One file of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Name below the set's directory, with a slash.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    content: Content,
    sparse_percent: u8,
    seed: u64,
}

impl DatasetSpec {
    /// Most files of a set.
    pub const FILES_MAX: u64 = 1 << 30;
    /// Most sizes of a distribution.
    pub const SIZES_MAX: usize = 64;
    /// Most bytes of a file.
    pub const FILE_BYTES_MAX: u64 = 1 << 50;

    /// Whether all numbers are within their bounds; else which is not.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), &'static str> {
        let weights = self.sizes.iter().try_fold(0u64, |sum, (_, weight)| sum.checked_add(*weight));
        match self {
            _ if !(1..=Self::FILES_MAX).contains(&self.files) => Err("files: 1 to 1073741824"),
            _ if !(1..=Self::SIZES_MAX).contains(&self.sizes.len()) => Err("sizes: 1 to 64 of them"),
            _ if self.sizes.iter().any(|(bytes, _)| *bytes > Self::FILE_BYTES_MAX) => {
                Err("size: at most 1PiB")
            }
            _ if weights.is_none_or(|sum| sum == 0) => {
                Err("weights of sizes: at least 1 in all, less than 2^64")
            }
            _ if self.sparse_percent > 100 => Err("sparse: at most 100%"),
            _ => Ok(()),
        }
    }

    /// File number `number`, from 0.
    pub fn file(&self, number: u64) -> Made {
        let seed = mixed(self.seed, number);
        Made {
            path: format!("{}/f{number:07}", directory_name(number / DIRECTORY_FILES)),
            bytes: self.size(mixed(seed, 0)),
            content: self.content,
            sparse_percent: self.sparse_percent,
            seed,
        }
    }

    /// Names of the directories that files are in.
    pub fn directories(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.files.div_ceil(DIRECTORY_FILES)).map(directory_name)
    }

    /// Numbers of the files in directory number `directory`.
    pub fn files_of(&self, directory: u64) -> Range<u64> {
        let first = directory * DIRECTORY_FILES;
        first..(first + DIRECTORY_FILES).min(self.files)
    }

    /// Bytes of all files, holes included. Takes a moment for many files with several sizes.
    pub fn bytes(&self) -> u64 {
        match self.sizes[..] {
            [(bytes, _)] => bytes.saturating_mul(self.files),
            _ => (0..self.files).fold(0, |sum: u64, number| sum.saturating_add(self.file(number).bytes)),
        }
    }

    fn size(&self, chance: u64) -> u64 {
        let weights: u64 = self.sizes.iter().map(|(_, weight)| weight).sum();
        let mut left = chance % weights.max(1);
        for (bytes, weight) in &self.sizes {
            if left < *weight {
                return *bytes;
            }
            left -= weight;
        }
        0
    }
}

fn directory_name(number: u64) -> String {
    format!("d{number:06}")
}

impl Made {
    /// Whether there may be holes in it.
    pub fn is_sparse(&self) -> bool {
        self.sparse_percent > 0
    }

    /// Fills `buffer` with its bytes from `offset` on; holes are zeros.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let to_end = (EXTENT_BYTES - at % EXTENT_BYTES) as usize;
            let (piece, behind) = rest.split_at_mut(to_end.min(rest.len()));
            match self.is_hole(at) {
                true => piece.fill(0),
                false => self.content.fill(self.seed, at, piece),
            }
            at += piece.len() as u64;
            rest = behind;
        }
    }

    /// Whether the extent at `offset` is a hole.
    pub fn is_hole(&self, offset: u64) -> bool {
        self.is_sparse() && mixed(!self.seed, offset / EXTENT_BYTES) % 100 < u64::from(self.sparse_percent)
    }

    /// The first byte at or after `offset` that is (or is not) in a hole; the length of the file if there is none.
    pub fn next(&self, offset: u64, is_hole: bool) -> u64 {
        let mut at = offset;
        while at < self.bytes && self.is_hole(at) != is_hole {
            at = (at / EXTENT_BYTES + 1) * EXTENT_BYTES;
        }
        at.min(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_as_often_as_their_weights_say() {
        let spec = DatasetSpec {
            files: 10_000,
            sizes: vec![(10, 70), (100, 25), (1000, 5)],
            ..DatasetSpec::default()
        };
        let count = |bytes| (0..spec.files).filter(|&number| spec.file(number).bytes == bytes).count() as f64;
        // Five standard deviations of a binomial distribution with p = 0.7, 0.25, 0.05: 229, 217, 109.
        assert!((count(10) - 7000.0).abs() < 229.0 && (count(100) - 2500.0).abs() < 217.0);
        assert!((count(1000) - 500.0).abs() < 109.0);
        assert_eq!(spec.bytes(), (0..spec.files).map(|number| spec.file(number).bytes).sum::<u64>());
    }

    #[test]
    fn every_file_has_its_own_name_and_bytes() {
        let spec = DatasetSpec { files: 2001, ..DatasetSpec::default() };
        assert_eq!(spec.file(0).path, "d000000/f0000000");
        assert_eq!(spec.file(2000).path, "d000002/f0002000");
        assert_eq!((spec.directories().count(), spec.files_of(2)), (3, 2000..2001));
        let mut bytes = [[0; 64]; 2];
        spec.file(0).fill(0, &mut bytes[0]);
        spec.file(1).fill(0, &mut bytes[1]);
        assert_ne!(bytes[0], bytes[1]);
    }

    #[test]
    fn holes_are_zeros_and_are_told() {
        let bytes = 40 * EXTENT_BYTES + 17;
        let spec =
            DatasetSpec { sizes: vec![(bytes, 1)], sparse_percent: 50, seed: 5, ..DatasetSpec::default() };
        let file = spec.file(0);
        let (hole, data) = (file.next(0, true), file.next(0, false));
        assert!(hole < bytes && data < bytes && hole.min(data) == 0);
        let mut around = vec![1; 32];
        file.fill(hole, &mut around);
        assert_eq!(around, [0; 32]);
        // From every hole on there is data or the end, and the other way round.
        let mut at = 0;
        let mut turns = 0;
        while at < bytes {
            let is_hole = file.is_hole(at);
            let next = file.next(at, !is_hole);
            assert!(
                next > at
                    && (at..next).step_by(EXTENT_BYTES as usize).all(|byte| file.is_hole(byte) == is_hole)
            );
            at = next;
            turns += 1;
        }
        assert!(turns > 5);
        assert_eq!(file.next(bytes, true), bytes);
    }

    #[test]
    fn numbers_out_of_their_bounds_are_refused() {
        let with = |change: fn(&mut DatasetSpec)| {
            let mut spec = DatasetSpec::default();
            change(&mut spec);
            spec.check()
        };
        assert!(with(|_| {}).is_ok());
        assert!(with(|spec| spec.files = 0).is_err());
        assert!(with(|spec| spec.sizes.clear()).is_err());
        assert!(with(|spec| spec.sizes = vec![(1, 0)]).is_err());
        assert!(with(|spec| spec.sizes = vec![(1, u64::MAX), (2, 1)]).is_err());
        assert!(with(|spec| spec.sparse_percent = 101).is_err());
    }
}
