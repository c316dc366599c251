//! Numbers with their units, and words.

use serde::{Deserialize, Serialize};

/// A number with its unit, or a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A number.
    Number {
        /// The number, in `unit`.
        value: f64,
        /// `s`, `B`, `bit/s`, `1` (a share or a plain count), …
        unit: String,
    },
    /// A word: the name of an order, of a congestion control.
    Word(String),
}

impl Quantity {
    /// A number with a unit.
    pub fn number(value: f64, unit: &str) -> Quantity {
        Quantity::Number { value, unit: unit.to_owned() }
    }

    /// The number; none of a word.
    pub fn value(&self) -> Option<f64> {
        match self {
            Quantity::Number { value, .. } => Some(*value),
            Quantity::Word(_) => None,
        }
    }

    /// The word; none of a number.
    pub fn word(&self) -> Option<&str> {
        match self {
            Quantity::Number { .. } => None,
            Quantity::Word(word) => Some(word),
        }
    }
}

impl Quantity {
    /// What it is told from others by.
    pub(super) fn key(&self) -> (u64, &str) {
        match self {
            Quantity::Number { value, unit } => (value.to_bits(), unit),
            // No unit is a word of a parameter.
            Quantity::Word(word) => (u64::MAX, word),
        }
    }
}

/// Units in which quantities may be written: times this, over that, they are in the one in which figures are kept.
/// Over, so that 10 ms are the very number that 0.01 s are.
pub(super) const UNITS: [(&str, f64, f64, &str); 33] = [
    ("s", 1.0, 1.0, "s"),
    ("ms", 1.0, 1e3, "s"),
    ("us", 1.0, 1e6, "s"),
    ("µs", 1.0, 1e6, "s"),
    ("ns", 1.0, 1e9, "s"),
    ("min", 60.0, 1.0, "s"),
    ("h", 3600.0, 1.0, "s"),
    ("B", 1.0, 1.0, "B"),
    ("kB", 1e3, 1.0, "B"),
    ("MB", 1e6, 1.0, "B"),
    ("GB", 1e9, 1.0, "B"),
    ("TB", 1e12, 1.0, "B"),
    ("PB", 1e15, 1.0, "B"),
    ("KiB", 1024.0, 1.0, "B"),
    ("MiB", 1_048_576.0, 1.0, "B"),
    ("GiB", 1_073_741_824.0, 1.0, "B"),
    ("TiB", 1_099_511_627_776.0, 1.0, "B"),
    ("PiB", 1_125_899_906_842_624.0, 1.0, "B"),
    ("bit/s", 1.0, 1.0, "bit/s"),
    ("kbit/s", 1e3, 1.0, "bit/s"),
    ("Mbit/s", 1e6, 1.0, "bit/s"),
    ("Gbit/s", 1e9, 1.0, "bit/s"),
    ("Tbit/s", 1e12, 1.0, "bit/s"),
    ("B/s", 8.0, 1.0, "bit/s"),
    ("kB/s", 8e3, 1.0, "bit/s"),
    ("MB/s", 8e6, 1.0, "bit/s"),
    ("GB/s", 8e9, 1.0, "bit/s"),
    ("KiB/s", 8192.0, 1.0, "bit/s"),
    ("MiB/s", 8_388_608.0, 1.0, "bit/s"),
    ("GiB/s", 8_589_934_592.0, 1.0, "bit/s"),
    ("1", 1.0, 1.0, "1"),
    ("%", 1.0, 100.0, "1"),
    ("ppm", 1.0, 1e6, "1"),
];

/// Brings figures into the unit in which they are kept. Of a unit that is not known they stay as they are; whether it
/// is.
pub(super) fn keep_in_base_unit<'a>(values: impl Iterator<Item = &'a mut f64>, unit: &mut String) -> bool {
    let Some((_, times, over, base)) = UNITS.iter().find(|(name, ..)| name == unit) else { return false };
    values.for_each(|value| *value = *value * times / over);
    (*base).clone_into(unit);
    true
}

impl From<&str> for Quantity {
    fn from(word: &str) -> Quantity {
        Quantity::Word(word.to_owned())
    }
}
