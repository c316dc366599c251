//! How far an answer was heard: behind what the rest of it is asked for where its link is lost, and what of that rest
//! was heard before.
//!
//! Answers come in the order of listings, so that a path says it all, but in a directory that has too many names for
//! that: it is told again, and names that were heard are left out, by their hashes. So is trouble, which has no place
//! in the order.
//!
//! Not guaranteed: anything about names that come and go meanwhile; each is heard once at most.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::RelativePath;

/// Names of one directory, and troubles, whose hashes are kept: 36 MiB for each. Where there are more, a link that is
/// lost ends the answer.
const KEPT_MAX: usize = 2 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Position {
    /// All that comes before this, and the path itself, was heard.
    after: Option<RelativePath>,
    /// The outermost directory, of those that the answer is in, whose names come in no order.
    unordered: Option<RelativePath>,
    /// What was heard behind `after` in that.
    names: Hashes,
    troubles: Hashes,
    /// A link was lost before.
    is_again: bool,
    /// Paths that were heard.
    items: u64,
    work: Work,
}

/// Pieces that were heard: while the far side is at work on something that takes long, they are all that comes of it.
#[derive(Default)]
struct Work {
    /// Up to the last item.
    before: u64,
    /// Since that, on this link.
    since: u64,
    most: u64,
}

impl Position {
    /// Behind what the answer goes on; `None`: from its beginning.
    pub(super) fn after(&self) -> Option<RelativePath> {
        self.after.clone()
    }

    /// Whether a link was lost before.
    pub(super) fn is_again(&self) -> bool {
        self.is_again
    }

    /// A piece came.
    pub(super) fn hear_piece(&mut self) {
        self.work.since += 1;
        self.work.most = self.work.most.max(self.work.before + self.work.since);
    }

    /// A path came. Whether it did for the first time.
    ///
    /// # Errors
    /// `Protocol` for one that is not behind what the answer was asked for.
    pub(super) fn hear_path(&mut self, path: &RelativePath) -> Result<bool> {
        if self.unordered.as_ref().is_some_and(|directory| !path.is_below(directory)) {
            (self.unordered, self.names) = (None, Hashes::default());
        }
        if self.unordered.is_some() {
            let is_new = self.names.insert(path.as_bytes()) || !self.is_again;
            self.note_items(u64::from(is_new));
            return Ok(is_new);
        }
        let is_behind = self.after.as_ref().is_none_or(|after| path.cmp_in_listing(after).is_gt());
        if self.is_again && !is_behind {
            let cause = "the server told again what was heard before the link was lost";
            return Err(Failure::new(FailureKind::Protocol, "list", cause).at(path));
        }
        self.after = Some(path.clone());
        self.note_items(1);
        Ok(true)
    }

    /// The names of this directory come in no order. Whether that came for the first time.
    pub(super) fn hear_unordered(&mut self, directory: &RelativePath) -> bool {
        match &self.unordered {
            Some(outer) if outer == directory => return !self.is_again,
            Some(outer) if directory.is_below(outer) => return true,
            _ => {}
        }
        (self.unordered, self.names) = (Some(directory.clone()), Hashes::default());
        // One that had an order before the link was lost was heard in part.
        if self.after.as_ref().is_none_or(|after| directory.cmp_in_listing(after).is_gt()) {
            self.after = Some(directory.clone());
        }
        true
    }

    /// Trouble came. Whether it did for the first time.
    pub(super) fn hear_trouble(&mut self, failure: &Failure) -> bool {
        self.troubles.insert(format!("{failure:?}").as_bytes()) || !self.is_again
    }

    /// The link is lost. Whether an answer on another one may go on here.
    pub(super) fn lose_link(&mut self) -> bool {
        (self.is_again, self.work.since) = (true, 0);
        !self.names.is_cut && !self.troubles.is_cut
    }

    /// What grows as long as the answer gets on.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.items, self.work.most)
    }

    fn note_items(&mut self, items: u64) {
        if items > 0 {
            self.items += items;
            (self.work.before, self.work.since) = (self.work.most, 0);
        }
    }
}

/// What was heard, as hashes: of as many as are kept, two have the same one hardly ever.
#[derive(Default)]
struct Hashes {
    hashes: HashSet<u64>,
    state: RandomState,
    /// There were more than are kept.
    is_cut: bool,
}

impl Hashes {
    /// False for what is among them.
    fn insert(&mut self, bytes: &[u8]) -> bool {
        let hash = self.state.hash_one(bytes);
        if self.hashes.len() < KEPT_MAX {
            return self.hashes.insert(hash);
        }
        let is_new = !self.hashes.contains(&hash);
        self.is_cut |= is_new;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    /// Which of these come for the first time. `a/` has names in no order.
    fn new<'a>(at: &mut Position, names: &[&'a str]) -> Vec<&'a str> {
        let mut is_new = |name: &&str| match name.strip_suffix('/') {
            Some(directory) => at.hear_unordered(&path(directory)),
            None => at.hear_path(&path(name)).unwrap(),
        };
        names.iter().copied().filter(|name| is_new(name)).collect()
    }

    #[test]
    fn what_is_in_order_is_heard_behind_the_last_path_and_never_again() {
        let mut at = Position::default();
        assert_eq!(at.after(), None);
        assert_eq!(new(&mut at, &["a", "a/b", "a-b"]), ["a", "a/b", "a-b"]);
        assert!(at.lose_link());
        assert_eq!(at.after(), Some(path("a-b")));
        assert_eq!(at.hear_path(&path("a/c")).unwrap_err().kind, FailureKind::Protocol);
        assert_eq!(new(&mut at, &["b"]), ["b"]);
    }

    #[test]
    fn a_directory_without_order_is_heard_again_and_of_its_names_those_that_are_new() {
        let mut at = Position::default();
        assert_eq!(new(&mut at, &["a", "d", "d/", "d/z", "d/b"]).len(), 5);
        assert!(at.lose_link());
        assert_eq!(at.after(), Some(path("d")));
        assert_eq!(new(&mut at, &["d/", "d/z", "d/a", "d/b", "e"]), ["d/a", "e"]);
        assert_eq!(at.after(), Some(path("e")));
        // One that had an order before is behind what was heard of it then.
        let mut at = Position::default();
        assert_eq!(new(&mut at, &["d", "d/b"]).len(), 2);
        assert!(at.lose_link());
        assert_eq!(new(&mut at, &["d/", "d/z", "d/c"]), ["d/", "d/z", "d/c"]);
        assert!(at.lose_link());
        assert_eq!(at.after(), Some(path("d/b")));
        assert_eq!(new(&mut at, &["d/", "d/c", "d/z", "d/y"]), ["d/y"]);
        // Digests do not name the directory itself.
        let mut at = Position::default();
        assert_eq!(new(&mut at, &["a", "d/"]).len(), 2);
        assert_eq!(at.after(), Some(path("d")));
    }

    #[test]
    fn trouble_is_heard_once_however_often_the_link_is_lost() {
        let trouble = |name: &str| Failure::new(FailureKind::Permission, "list", "no").at(&path(name));
        let mut at = Position::default();
        assert!(at.hear_trouble(&trouble("a")));
        assert!(at.lose_link());
        assert!(!at.hear_trouble(&trouble("a")) && at.hear_trouble(&trouble("b")));
        assert!(at.lose_link());
        assert!(!at.hear_trouble(&trouble("b")));
    }

    #[test]
    fn work_on_one_file_is_progress_until_it_is_only_what_an_earlier_link_had_too() {
        let mut at = Position::default();
        new(&mut at, &["a"]);
        let worked = |at: &mut Position, pieces: u64| {
            (0..pieces).for_each(|_| at.hear_piece());
            at.progress()
        };
        assert_eq!(worked(&mut at, 3), (1, 3));
        at.lose_link();
        assert_eq!(worked(&mut at, 3), (1, 3));
        assert_eq!(worked(&mut at, 1), (1, 4));
        // Of the next one all of it is.
        new(&mut at, &["b"]);
        assert_eq!(worked(&mut at, 1), (2, 5));
    }
}
