//! What travels and is analysed as one: a file or a directory, and how it is told from another version of itself.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::time::Duration;
use thalweg_wire::{Digest, Entry, RelativePath, Time};

/// What counts as one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// Each regular file at any depth; its name is its path below the watched directory.
    File,
    /// Each directory at the top, with all that is in it.
    Directory,
}

/// In which order items are analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they arrive, several at once if asked.
    #[default]
    Arrival,
    /// One after another by name, numbers in it as numbers; the next waits until the one before has succeeded.
    Name,
    /// The same by time of the last change, then by name.
    Time,
}

/// When an item is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complete {
    /// Sizes and times have not changed for so long.
    Stable(Duration),
    /// There is a marker that is not older than the last change of content: of a file `NAME` + this suffix beside it,
    /// of a directory a file of this name in it. The marker of a directory travels with it, that of a file is no item
    /// and stays.
    Marker(Vec<u8>),
}

/// What tells a version of an item from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Content bytes of all files in it.
    pub bytes: u64,
    /// Latest change of content in it, in nanoseconds since 1970 by the source's clock.
    pub changed_ns: i64,
    /// Over path, kind, size, times and inode of everything in it.
    pub mark: u64,
}

impl Version {
    /// Of an item in which nothing was seen yet.
    pub const EMPTY: Version = Version { bytes: 0, changed_ns: i64::MIN, mark: 0 };

    /// With one more entry, in any order: large directories are not listed in the same order each time.
    #[must_use]
    pub fn with(self, entry: &Entry) -> Version {
        let evidence = entry.evidence;
        let at =
            |time: Time| time.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanos));
        let mut hasher = blake3::Hasher::new();
        for number in [evidence.size, at(evidence.mtime) as u64, at(evidence.ctime) as u64, evidence.inode] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(entry.path.as_bytes());
        let mut mark = [0; 8];
        mark.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Version {
            bytes: self.bytes.saturating_add(entry.content_bytes()),
            changed_ns: self.changed_ns.max(at(evidence.mtime)),
            mark: self.mark.wrapping_add(u64::from_le_bytes(mark)),
        }
    }
}

/// The key by which a command can know that it did this work before: the same for the same name and content, whenever
/// and however often it is run.
pub fn key_of(name: &RelativePath, digest: &Digest) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 arrival key");
    hasher.update(&digest.0).update(name.as_bytes());
    Digest(*hasher.finalize().as_bytes()).to_string()[..32].to_owned()
}

/// Names in the journal: escaped text, so that a person can read it and every byte is kept.
pub mod name_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use thalweg_wire::RelativePath;
    use thalweg_wire::path::unescape;

    /// Writes one.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(name: &RelativePath, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(name)
    }

    /// Reads one.
    ///
    /// # Errors
    /// For what is no name.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RelativePath, D::Error> {
        let bytes = unescape(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        RelativePath::new(bytes).map_err(D::Error::custom)
    }
}

/// Compares names as people count: runs of digits by their number, the rest by bytes. What differs only in leading
/// zeros is ordered by bytes.
pub fn by_name(a: &RelativePath, b: &RelativePath) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        let (Some(&x), Some(&y)) = (left.first(), right.first()) else {
            return left.len().cmp(&right.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()));
        };
        if !(x.is_ascii_digit() && y.is_ascii_digit()) {
            match x.cmp(&y) {
                Ordering::Equal => (left, right) = (&left[1..], &right[1..]),
                unequal => return unequal,
            }
            continue;
        }
        let (number, rest) = split_number(left);
        let (other, other_rest) = split_number(right);
        match number.len().cmp(&other.len()).then_with(|| number.cmp(other)) {
            Ordering::Equal => (left, right) = (rest, other_rest),
            unequal => return unequal,
        }
    }
}

/// The digits at the beginning without leading zeros, and what follows them.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zeros = text[..digits].iter().take_while(|byte| **byte == b'0').count();
    (&text[zeros..digits], &text[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.into()).unwrap()
    }

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names =
            ["s10", "s9", "s1", "s01", "t", "s1b", "s100000000000000000000000", "s2/x10", "s2/x9"];
        names.sort_by(|a, b| by_name(&path(a), &path(b)));
        assert_eq!(
            names,
            ["s01", "s1", "s1b", "s2/x9", "s2/x10", "s9", "s10", "s100000000000000000000000", "t"]
        );
    }

    #[test]
    fn the_key_is_of_name_and_content() {
        let (one, two) = (Digest([1; 32]), Digest([2; 32]));
        assert_eq!(key_of(&path("a"), &one), key_of(&path("a"), &one));
        assert_ne!(key_of(&path("a"), &one), key_of(&path("b"), &one));
        assert_ne!(key_of(&path("a"), &one), key_of(&path("a"), &two));
    }

    proptest! {
        #[test]
        fn the_order_of_names_is_total(a in "[a0-2]{1,5}", b in "[a0-2]{1,5}", c in "[a0-2]{1,5}") {
            let (a, b, c) = (path(&a), path(&b), path(&c));
            prop_assert_eq!(by_name(&a, &b), by_name(&b, &a).reverse());
            prop_assert_eq!(by_name(&a, &b) == Ordering::Equal, a == b);
            if by_name(&a, &b).is_le() && by_name(&b, &c).is_le() {
                prop_assert!(by_name(&a, &c).is_le());
            }
        }
    }
}
