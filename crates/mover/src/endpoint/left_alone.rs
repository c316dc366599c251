//! What stands at a destination and is left alone because that was asked for (`--ignore-existing`, `--update`): the
//! same for all destinations, and for who lists one before a copy.
//!
//! Directories never are: what is in them may be asked for.

use thalweg_wire::message::Terms;
use thalweg_wire::{Entry, Time};

/// What is left alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftAlone {
    /// Whatever stands there.
    pub existing: bool,
    /// A file that is newer.
    pub newer: bool,
}

impl LeftAlone {
    /// By the terms of a transfer.
    pub fn of(terms: &Terms) -> LeftAlone {
        LeftAlone { existing: terms.ignore_existing, newer: terms.update }
    }

    /// Whether anything is.
    pub fn is_any(self) -> bool {
        self.existing || self.newer
    }

    /// Whether the time of what stands there counts.
    pub fn goes_by_time(self) -> bool {
        self.newer && !self.existing
    }

    /// Why what stands under the name of an entry, which is no directory, is left alone; `None` if it is not. `mtime`
    /// is that of a file there, `None` of anything else.
    pub fn reason(self, entry: &Entry, mtime: Option<Time>) -> Option<&'static str> {
        if self.existing {
            return Some("it exists at the destination");
        }
        let is_newer = self.newer && mtime.is_some_and(|mtime| mtime > entry.evidence.mtime);
        is_newer.then_some("the destination's is newer")
    }
}
