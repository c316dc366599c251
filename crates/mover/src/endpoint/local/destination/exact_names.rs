//! Names of directories as they are listed, where a file system takes several for one: another entry must not be taken
//! for this one.
//!
//! What was listed is kept of the directories asked about last: to list one for each entry in it would take the square
//! of their number. Only that a name is there is taken from that; one that is not is looked for anew, for it may have
//! come since.
//!
//! Not seen: that somebody took a name away meanwhile and put one there that counts as the same.

use super::{LocalDestination, Place};
use crate::endpoint::local::held::Held;
use crate::endpoint::local::{conflict, failed};
use crate::failure::Failure;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use thalweg_wire::RelativePath;

/// Directories of which names are kept: one, and those on the way back up from what is in it.
const DIRECTORIES_MAX: usize = 4;
/// Memory for names of each, some 160,000 of 30 bytes: of a larger one the others are looked for each time.
const NAMES_BYTES_MAX: usize = 16 << 20;
/// What a name takes besides its bytes: its place in a table that may be half empty, and the allocator's own.
const PER_NAME_BYTES: usize = 72;

/// See the module.
pub(super) struct ExactNames {
    listed: Held<Names>,
    bytes_max: usize,
}

/// Names of one directory, and the memory that they take.
#[derive(Default)]
struct Names {
    names: HashSet<Vec<u8>>,
    bytes: usize,
    /// There are more.
    is_full: bool,
}

impl ExactNames {
    pub(super) fn new() -> ExactNames {
        ExactNames { listed: Held::with_max(DIRECTORIES_MAX), bytes_max: NAMES_BYTES_MAX }
    }

    /// Memory of what is kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.listed.sum(|names| names.bytes)
    }

    /// Whether `list`, which lists the directory at `path`, has this very name.
    fn has<L: Iterator<Item = Vec<u8>>>(
        &self,
        path: &[u8],
        name: &[u8],
        list: impl FnOnce() -> io::Result<L>,
    ) -> io::Result<bool> {
        if let Some(kept) = self.listed.get(path) {
            if kept.names.contains(name) {
                return Ok(true);
            }
            // To keep as many once more would take far longer than to look.
            if kept.is_full {
                return Ok(list()?.any(|listed| listed == name));
            }
        }
        let (mut kept, mut has_it) = (Names::default(), false);
        for listed in list()? {
            has_it |= listed == name;
            let bytes = kept.bytes + listed.len() + PER_NAME_BYTES;
            if bytes <= self.bytes_max {
                kept.bytes = bytes;
                kept.names.insert(listed);
            } else {
                kept.is_full = true;
                if has_it {
                    break;
                }
            }
        }
        self.listed.put(path, Arc::new(kept));
        Ok(has_it)
    }
}

impl LocalDestination {
    /// Where names that differ in case or form are one, another entry must not be taken for this one.
    pub(super) fn check_case(&self, place: &Place, name: &[u8], path: &RelativePath) -> Result<(), Failure> {
        let folds = place.territory.abilities().is_some_and(|abilities| {
            // HFS+ lists other names than it was given: nobody is kept from copying there once more.
            abilities.folds_case || (abilities.folds_forms && self.terms.removes_source)
        });
        if !folds {
            return Ok(());
        }
        let at = self.final_path(path);
        let parent = at.split().map_or(&[][..], |(parent, _)| parent);
        let list = || place.dir.entries().map(|entries| entries.flatten().map(|entry| entry.name));
        let has_it =
            self.exact_names.has(parent, name, list).map_err(|error| failed("list", path, &error))?;
        if has_it {
            return Ok(());
        }
        Err(conflict(path, "its name and that of another entry are one name on this file system"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// On a file system on which `a` and `A` are one name, and which lists it as it was made.
    #[test]
    fn a_directory_is_listed_once_for_all_that_stands_in_it_and_again_for_what_it_did_not_list() {
        let names = RefCell::new((0..1000).map(|number| number.to_string().into_bytes()).collect::<Vec<_>>());
        names.borrow_mut().push(b"a".to_vec());
        let lists = Cell::new(0);
        let list = || {
            lists.set(lists.get() + 1);
            Ok(names.borrow().clone().into_iter())
        };
        let exact = ExactNames::new();
        for number in 0..1000 {
            assert!(exact.has(b"d", number.to_string().as_bytes(), list).unwrap());
        }
        assert_eq!(lists.get(), 1);
        assert!(exact.has(b"d", b"a", list).unwrap() && lists.get() == 1);
        assert!(!exact.has(b"d", b"A", list).unwrap() && lists.get() == 2);
        // One that came since.
        names.borrow_mut().push(b"b".to_vec());
        assert!(exact.has(b"d", b"b", list).unwrap() && lists.get() == 3);
        // Another directory.
        assert!(exact.has(b"e", b"b", list).unwrap() && lists.get() == 4);
        assert!(exact.has(b"d", b"0", list).unwrap() && lists.get() == 4);
    }

    #[test]
    fn of_a_directory_with_too_many_names_each_is_found_all_the_same() {
        let exact = ExactNames { bytes_max: 2 * (1 + PER_NAME_BYTES), ..ExactNames::new() };
        let list = || Ok(["a", "b", "c", "d"].map(|name| name.as_bytes().to_vec()).into_iter());
        for name in ["d", "c", "b", "a"] {
            assert!(exact.has(b"", name.as_bytes(), list).unwrap(), "{name}");
        }
        assert!(!exact.has(b"", b"D", list).unwrap());
        assert_eq!(exact.held_bytes(), 2 * (1 + PER_NAME_BYTES));
    }
}
