//! Why files and links of a source stay that were to be removed, and how many for each cause.

use serde::{Deserialize, Serialize};

/// Why one stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// It was left alone at the destination.
    LeftAlone,
    /// It was there before, and its content was not compared with what stands there.
    NotCompared,
    /// It is there without all of its metadata or links.
    NotInFull,
    /// It is another name of a file whose first one stays.
    Second,
    /// There were too many names to keep them all until both sides had agreed.
    TooMany,
    /// A stop was asked for before it was its turn.
    Stop,
    /// It is not what was read any more.
    Changed,
    /// Somebody has it open for writing.
    OpenForWriting,
    /// It could not be removed.
    NotRemoved,
}

impl Stays {
    /// All of them, in the order in which they are told.
    pub const ALL: [Stays; 9] = [
        Stays::LeftAlone,
        Stays::NotCompared,
        Stays::NotInFull,
        Stays::Second,
        Stays::TooMany,
        Stays::Stop,
        Stays::Changed,
        Stays::OpenForWriting,
        Stays::NotRemoved,
    ];

    /// For programs.
    pub fn word(self) -> &'static str {
        match self {
            Stays::LeftAlone => "left_alone",
            Stays::NotCompared => "not_compared",
            Stays::NotInFull => "not_in_full",
            Stays::Second => "second_name",
            Stays::TooMany => "too_many",
            Stays::Stop => "stop",
            Stays::Changed => "changed",
            Stays::OpenForWriting => "open_for_writing",
            Stays::NotRemoved => "not_removed",
        }
    }
}

/// How many stay, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left([u64; Stays::ALL.len()]);

impl Left {
    /// So many more stay for this cause.
    pub fn add(&mut self, why: Stays, count: u64) {
        let of = &mut self.0[why as usize];
        *of = of.saturating_add(count);
    }

    /// How many stay for this cause.
    pub fn of(&self, why: Stays) -> u64 {
        self.0[why as usize]
    }

    /// How many stay, whatever the cause.
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_counted_by_itself_and_has_a_word_of_its_own() {
        let mut left = Left::default();
        for (number, why) in (1..).zip(Stays::ALL) {
            left.add(why, number);
        }
        assert_eq!(Stays::ALL.map(|why| left.of(why)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(left.sum(), 45);
        let words: std::collections::BTreeSet<_> = Stays::ALL.iter().map(|why| why.word()).collect();
        assert_eq!(words.len(), Stays::ALL.len());
    }
}
