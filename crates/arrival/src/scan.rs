//! What is in the watched directory now: a listing, here or at a far mover, made into items.

use crate::item::{Complete, ItemKind, Version};
use crate::machine::Seen;
use std::collections::{BTreeMap, HashSet};
use thalweg_client::reach::Reach;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::manifest::filter::Filter;
use thalweg_wire::{Entry, Kind, RelativePath};

/// Lists items: what counts as one.
pub struct Scanner {
    /// Files or directories.
    pub kind: ItemKind,
    /// When one is complete.
    pub complete: Complete,
    /// Which names to leave out. Hidden ones (that begin with a dot, in any component) always are: it is how programs name
    /// what is not finished.
    pub filter: Filter,
}

/// A look.
pub struct View {
    /// The items, by name.
    pub items: Vec<Seen>,
    /// Directories in which something may change.
    pub directories: Vec<RelativePath>,
}

impl Scanner {
    /// Looks. What could not be looked at is told, and is as if it were not there.
    ///
    /// # Errors
    /// If the directory itself cannot be listed.
    pub fn scan(&self, reach: &Reach, trouble: &mut dyn FnMut(&Failure)) -> Result<View> {
        let mut items: BTreeMap<RelativePath, (Version, bool)> = BTreeMap::new();
        let mut directories = vec![RelativePath::root()];
        let mut markers: HashSet<RelativePath> = HashSet::new();
        reach.list(true, &mut |found| {
            match found {
                Found::Entry(entry) => self.take(&entry, &mut items, &mut directories, &mut markers),
                Found::Trouble(failure) => trouble(&failure),
            }
            Ok(())
        })?;
        let is_marked = |name: &RelativePath, within: bool| match (&self.complete, self.kind) {
            (Complete::Marker(suffix), ItemKind::File) => {
                RelativePath::new([name.as_bytes(), suffix].concat()).is_ok_and(|m| markers.contains(&m))
            }
            _ => within,
        };
        let seen = items.into_iter().map(|(name, (version, within))| Seen {
            is_marked: is_marked(&name, within),
            name,
            version,
        });
        Ok(View { items: seen.collect(), directories })
    }

    fn take(
        &self,
        entry: &Entry,
        items: &mut BTreeMap<RelativePath, (Version, bool)>,
        directories: &mut Vec<RelativePath>,
        markers: &mut HashSet<RelativePath>,
    ) {
        if entry.path.is_root() {
            return;
        }
        let is_directory = matches!(entry.kind, Kind::Directory);
        if is_directory && directories.len() < DIRECTORIES_MAX {
            directories.push(entry.path.clone());
        }
        match self.kind {
            ItemKind::File => {
                if !matches!(entry.kind, Kind::File { .. }) {
                    return;
                }
                if let Complete::Marker(suffix) = &self.complete
                    && entry.path.as_bytes().ends_with(suffix)
                {
                    markers.insert(entry.path.clone());
                    return;
                }
                if self.is_item(&entry.path, false) {
                    // The name is the item's own; it is no part of its version.
                    let bare = Entry { path: RelativePath::root(), ..entry.clone() };
                    items.insert(entry.path.clone(), (Version::EMPTY.with(&bare), false));
                }
            }
            ItemKind::Directory => {
                let Some(top) = top_of(&entry.path) else { return };
                if top == entry.path && is_directory && self.is_item(&top, true) {
                    items.insert(top, (Version::EMPTY.with(entry), false));
                } else if let Some((version, is_marked)) = items.get_mut(&top) {
                    *version = version.with(entry);
                    if let Complete::Marker(name) = &self.complete {
                        let within = entry.path.as_bytes().get(top.as_bytes().len() + 1..);
                        *is_marked |= within == Some(name);
                    }
                }
            }
        }
    }

    fn is_item(&self, path: &RelativePath, is_dir: bool) -> bool {
        let is_hidden = path.as_bytes().split(|byte| *byte == b'/').any(|part| part.starts_with(b"."));
        if is_hidden {
            return false;
        }
        // What is in a directory that is left out is left out.
        let ends = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let parents = ends.filter_map(|end| RelativePath::new(path.as_bytes()[..end].to_vec()).ok());
        let is_out = |path: &RelativePath, is_dir| !self.filter.decide(path, is_dir).included;
        !parents.into_iter().any(|parent| is_out(&parent, true)) && !is_out(path, is_dir)
    }
}

/// More directories than these are not heard of; they are looked at all the same.
const DIRECTORIES_MAX: usize = 1024;

/// The first component.
fn top_of(path: &RelativePath) -> Option<RelativePath> {
    let top = path.as_bytes().split(|byte| *byte == b'/').next()?;
    RelativePath::new(top.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn look(scanner: &Scanner, directory: &std::path::Path) -> Vec<(String, bool)> {
        let reach = Reach::Local(directory.to_owned());
        let view = scanner.scan(&reach, &mut |failure| panic!("{failure}")).unwrap();
        view.items.into_iter().map(|seen| (seen.name.to_string(), seen.is_marked)).collect()
    }

    #[test]
    fn files_and_directories_are_items_and_their_markers_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["run1/a", "run1/READY", "run2/b", "c", "c.done", ".hidden/d", ".e", "skip/f"] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), name).unwrap();
        }
        let rules = || {
            let rule = thalweg_wire::message::FilterRule { include: false, pattern: "skip/".into() };
            Filter::new(vec![rule]).unwrap()
        };
        let mut scanner =
            Scanner { kind: ItemKind::File, complete: Complete::Marker(b".done".to_vec()), filter: rules() };
        let named = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
            all.iter().map(|(name, marked)| ((*name).to_owned(), *marked)).collect()
        };
        let files = [("c", true), ("run1/READY", false), ("run1/a", false), ("run2/b", false)];
        assert_eq!(look(&scanner, root), named(&files));
        scanner.kind = ItemKind::Directory;
        scanner.complete = Complete::Marker(b"READY".to_vec());
        assert_eq!(look(&scanner, root), named(&[("run1", true), ("run2", false)]));
        scanner.complete = Complete::Stable(Duration::from_secs(1));
        let version = |scanner: &Scanner| {
            let reach = Reach::Local(root.to_owned());
            scanner.scan(&reach, &mut |_| {}).unwrap().items[0].version
        };
        let before = version(&scanner);
        assert_eq!(before, version(&scanner));
        std::fs::write(root.join("run1/new"), "").unwrap();
        assert_ne!(before, version(&scanner));
    }
}
