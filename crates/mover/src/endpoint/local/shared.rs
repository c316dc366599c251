//! Files of the destination that have several names, and which entry of this transfer keeps each.
//!
//! Two entries that the source has apart may be one file here: hard links that the source had once. One of them keeps
//! that file and the other gets a file of its own; otherwise each copy would give both the metadata of one of them.
//!
//! Not looked at: names that are no entries of this transfer. What happens to the file happens to them too.

use std::collections::HashMap;
use std::hash::BuildHasher;
use thalweg_sys::{Kind, Stat};
use thalweg_wire::RelativePath;

/// Files that are kept in mind, some 32 MiB of them. Further ones stay as they are, with all their names.
const SHARED_FILES_MAX: usize = 1 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct SharedFiles {
    /// Device and inode -> hash of the path of the entry that keeps the file.
    keepers: HashMap<(u64, u64), u64>,
    overflowed: bool,
}

impl SharedFiles {
    /// Whether the file that stands at the path of an entry is kept by another entry. The first that asks keeps it.
    pub(super) fn is_of_another(&mut self, stat: &Stat, path: &RelativePath) -> bool {
        let is_shared = stat.kind == Kind::File && stat.links > 1;
        if !is_shared && self.keepers.is_empty() {
            return false;
        }
        let (file, entry) = ((stat.device, stat.inode), self.keepers.hasher().hash_one(path));
        // Also one that has a single name by now: the other entry's was replaced.
        if let Some(keeper) = self.keepers.get(&file) {
            return *keeper != entry;
        }
        if is_shared && self.keepers.len() < SHARED_FILES_MAX {
            self.keepers.insert(file, entry);
        } else if is_shared && !std::mem::replace(&mut self.overflowed, true) {
            tracing::warn!("too many files of the destination have several names; further ones keep them");
        }
        false
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
            shared.is_of_another(&dir.stat(name.as_bytes()).unwrap(), &path)
        };
        assert!(!is_of_another("alone"));
        assert!(!is_of_another("a") && is_of_another("b"));
        // However often it is offered.
        assert!(!is_of_another("a") && !is_of_another("alone"));
        std::fs::remove_file(at("a")).unwrap();
        assert!(is_of_another("b"), "what was done under the other name was done to it");
    }
}
