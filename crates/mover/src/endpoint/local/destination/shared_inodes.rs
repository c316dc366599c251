//! Files of the destination that have several names, and which entry of this transfer keeps each.
//!
//! Two entries that the source has apart may be one file here: hard links that the source had once. One of them keeps
//! that file and the other gets a file of its own; otherwise each copy would give both the metadata of one of them.
//! Entries that are one file at the source keep it together: a hard link whose first name was left alone is a file.
//! Where content is compared whatever size and time say, they come apart: what is found of one changes what the other
//! stands on.
//!
//! The same goes for FIFOs and devices, which stay where they stand and get their entries' metadata.
//!
//! Not looked at: names that are no entries of this transfer. What happens to the file happens to them too.

use super::foretold::{Foretold, Outlook};
use crate::endpoint::local::lock;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;
use thalweg_sys::{Kind, Stat};
use thalweg_wire::{EntryId, RelativePath, limits};

/// Files that are kept in mind, some 40 MiB of them: as many as fit a table of 2^20 places. Further ones stay as they
/// are, with all their names.
const SHARED_FILES_MAX: usize = 7 << 17;

/// See the module.
///
/// The catalogue does not follow: replacing a name changes the ctime of the file that is kept, so the next copy
/// compares the content of that one, once. To bind it anew would take the path and the evidence of each keeper.
#[derive(Default)]
pub(super) struct SharedFiles {
    /// Device and inode -> hash of the path of the entry that keeps the file, and device and inode of its source.
    keepers: HashMap<(u64, u64), (u64, (u64, u64))>,
    overflowed: bool,
}

impl SharedFiles {
    /// Whether the file that stands at the path of an entry is kept by another entry. The first that asks keeps it, and
    /// who has the same `source`: device and inode there, (0, 0) if they are not known.
    pub(super) fn is_of_another(&mut self, stat: &Stat, path: &RelativePath, source: (u64, u64)) -> bool {
        let stays = matches!(stat.kind, Kind::File | Kind::Fifo | Kind::BlockDevice | Kind::CharDevice);
        let is_shared = stays && stat.links > 1;
        if !is_shared && self.keepers.is_empty() {
            return false;
        }
        let (file, entry) = ((stat.device, stat.inode), self.keepers.hasher().hash_one(path));
        // Also one that has a single name by now: the other entry's was replaced.
        if let Some((keeper, of)) = self.keepers.get(&file) {
            return *keeper != entry && (*of != source || source == (0, 0));
        }
        if is_shared && self.keepers.len() < SHARED_FILES_MAX {
            self.keepers.insert(file, (entry, source));
        } else if is_shared && !std::mem::replace(&mut self.overflowed, true) {
            tracing::warn!("too many files of the destination have several names; further ones keep them");
        }
        false
    }
}

/// What is known of files with several names, here and at the source.
#[derive(Default)]
pub(super) struct HardLinks {
    /// What stands there under several names.
    shared: Mutex<SharedFiles>,
    /// What this dry run decided of entries that may have second names; in a copy, which of them came to
    /// nothing.
    foretold: Mutex<Foretold>,
    /// Why hard links come as files of their own, by their paths, until those have their last word.
    unlinked: Mutex<HashMap<RelativePath, String>>,
}

impl HardLinks {
    /// See [`SharedFiles::is_of_another`].
    pub(super) fn is_of_another(&self, stat: &Stat, path: &RelativePath, source: (u64, u64)) -> bool {
        lock(&self.shared).is_of_another(stat, path, source)
    }

    /// See [`Foretold::note`].
    pub(super) fn foretell(&self, id: EntryId, kind: Kind, outlook: Outlook) {
        lock(&self.foretold).note(id, kind, outlook);
    }

    /// See [`Foretold::of`].
    pub(super) fn foretold(&self, id: EntryId) -> Option<(Outlook, Kind)> {
        lock(&self.foretold).of(id)
    }

    /// A hard link comes as what it is by itself. One that a sender never offers so is not remembered for
    /// ever.
    pub(super) fn unlink(&self, path: &RelativePath, why: String) {
        let mut unlinked = lock(&self.unlinked);
        if unlinked.len() < limits::ENTRIES_IN_FLIGHT_MAX {
            unlinked.insert(path.clone(), why);
        }
    }

    /// Why the entry at this path comes by itself, if it should be a link.
    pub(super) fn why_unlinked(&self, path: &RelativePath) -> Option<String> {
        lock(&self.unlinked).get(path).cloned()
    }

    /// It has its last word.
    pub(super) fn end(&self, path: &RelativePath) {
        lock(&self.unlinked).remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_several_names_is_kept_by_the_first_entry_that_asks() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("a"), "x").unwrap();
        std::fs::hard_link(at("a"), at("b")).unwrap();
        std::fs::write(at("alone"), "x").unwrap();
        let dir = thalweg_sys::Dir::open(scratch.path()).unwrap();
        let mut shared = SharedFiles::default();
        let mut is_of_another = |name: &str| {
            let path = RelativePath::new(name.into()).unwrap();
            shared.is_of_another(&dir.stat(name.as_bytes()).unwrap(), &path, (0, 0))
        };
        assert!(!is_of_another("alone"));
        assert!(!is_of_another("a") && is_of_another("b"));
        // However often it is offered.
        assert!(!is_of_another("a") && !is_of_another("alone"));
        std::fs::remove_file(at("a")).unwrap();
        assert!(is_of_another("b"), "what was done under the other name was done to it");
    }

    #[test]
    fn a_file_is_kept_by_all_entries_that_are_one_file_at_the_source() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("a"), "x").unwrap();
        for name in ["b", "c"] {
            std::fs::hard_link(scratch.path().join("a"), scratch.path().join(name)).unwrap();
        }
        let dir = thalweg_sys::Dir::open(scratch.path()).unwrap();
        let mut shared = SharedFiles::default();
        let mut is_of_another = |name: &str, source: (u64, u64)| {
            let path = RelativePath::new(name.into()).unwrap();
            shared.is_of_another(&dir.stat(name.as_bytes()).unwrap(), &path, source)
        };
        assert!(!is_of_another("a", (1, 7)) && !is_of_another("b", (1, 7)));
        assert!(is_of_another("c", (1, 8)) && is_of_another("c", (2, 7)) && is_of_another("c", (0, 0)));
        // What came in place of the source's file is still the same entry.
        assert!(!is_of_another("a", (1, 9)));
    }
}
