//! How far an answer was heard: behind what the rest of it is asked for where its link is lost, and what of that rest
//! was heard before.
//!
//! Answers come in the order of listings, so that a path says it all, but in a directory that has too many names for
//! that: it is told again, and names that were heard are left out, by their hashes. So is trouble, which has no place
//! in the order.
//!
//! Not guaranteed: anything about names that come and go meanwhile; each is heard once at most. Of troubles in the same
//! words that name no path, those that come on another link may be taken for what was heard.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::RelativePath;

/// Paths in one directory, at all levels, and troubles, whose hashes are kept: 36 MiB for each. Where there are more, a
/// link that is lost ends the answer.
const KEPT_MAX: usize = 2 << 20;

/// Links that may be lost in a row, of each of which something came but no new path: a file that is digested anew over
/// each of them would take for ever.
const LINKS_MAX: u32 = 16;

/// See the module. By default nothing is kept: that of an answer on one link.
#[derive(Default)]
pub(super) struct Position {
    /// Whether another answer may go on here.
    is_kept: bool,
    /// All that comes before this, and the path itself, was heard.
    after: Option<RelativePath>,
    /// The outermost directory, of those that the answer is in, whose names come in no order.
    unordered: Option<RelativePath>,
    /// What was heard behind `after` in that.
    names: Hashes,
    troubles: Hashes,
    /// A link was lost before.
    is_again: bool,
    /// Something came on this link.
    has_piece: bool,
    /// Links on which something came, and which were lost since the last new path.
    links: u32,
}

impl Position {
    /// Of an answer that goes on over as many links as it takes.
    pub(super) fn kept() -> Position {
        Position { is_kept: true, ..Position::default() }
    }

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
        self.has_piece = true;
    }

    /// A path came. Whether it did for the first time.
    ///
    /// # Errors
    /// `Protocol` for one that is not behind what the answer was asked for.
    pub(super) fn hear_path(&mut self, path: &RelativePath) -> Result<bool> {
        if !self.is_kept {
            return Ok(true);
        }
        if self.unordered.as_ref().is_some_and(|directory| !path.is_below(directory)) {
            (self.unordered, self.names) = (None, Hashes::default());
        }
        if self.unordered.is_some() {
            let is_new = self.names.insert(path.as_bytes()) || !self.is_again;
            self.note_new(is_new);
            return Ok(is_new);
        }
        let is_behind = self.after.as_ref().is_none_or(|after| path.cmp_in_listing(after).is_gt());
        if self.is_again && !is_behind {
            let cause = "the server told again what was heard before the link was lost";
            return Err(Failure::new(FailureKind::Protocol, "list", cause).at(path));
        }
        self.after = Some(path.clone());
        self.note_new(true);
        Ok(true)
    }

    /// The names of this directory come in no order. Whether that came for the first time.
    pub(super) fn hear_unordered(&mut self, directory: &RelativePath) -> bool {
        if !self.is_kept {
            return true;
        }
        match &self.unordered {
            Some(outer) if outer == directory => return !self.is_again,
            Some(outer) if directory.is_below(outer) => return true,
            // It had an order on an earlier link; what was heard of the one in it is told again none the less.
            Some(inner) if inner.is_below(directory) => {
                self.unordered = Some(directory.clone());
                return true;
            }
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
        if !self.is_kept {
            return true;
        }
        let is_new = self.troubles.insert(format!("{failure:?}").as_bytes()) || !self.is_again;
        self.note_new(is_new);
        is_new
    }

    /// The link is lost. Why an answer on another one may not go on here, if it may not.
    pub(super) fn lose_link(&mut self) -> Option<String> {
        self.is_again = true;
        self.links += u32::from(std::mem::take(&mut self.has_piece));
        if self.names.is_cut || self.troubles.is_cut {
            return Some("more came of one directory and what is in it than is kept in mind".to_owned());
        }
        (self.links >= LINKS_MAX).then(|| format!("nothing new came over {LINKS_MAX} links in a row"))
    }

    fn note_new(&mut self, is_new: bool) {
        if is_new {
            self.links = 0;
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
        let mut at = Position::kept();
        assert_eq!(at.after(), None);
        assert_eq!(new(&mut at, &["a", "a/b", "a-b"]), ["a", "a/b", "a-b"]);
        assert_eq!(at.lose_link(), None);
        assert_eq!(at.after(), Some(path("a-b")));
        assert_eq!(at.hear_path(&path("a/c")).unwrap_err().kind, FailureKind::Protocol);
        assert_eq!(new(&mut at, &["b"]), ["b"]);
    }

    #[test]
    fn a_directory_without_order_is_heard_again_and_of_its_names_those_that_are_new() {
        let mut at = Position::kept();
        assert_eq!(new(&mut at, &["a", "d", "d/", "d/z", "d/b"]).len(), 5);
        assert_eq!(at.lose_link(), None);
        assert_eq!(at.after(), Some(path("d")));
        assert_eq!(new(&mut at, &["d/", "d/z", "d/a", "d/b", "e"]), ["d/a", "e"]);
        assert_eq!(at.after(), Some(path("e")));
        // One that had an order before is behind what was heard of it then.
        let mut at = Position::kept();
        assert_eq!(new(&mut at, &["d", "d/b"]).len(), 2);
        assert_eq!(at.lose_link(), None);
        assert_eq!(new(&mut at, &["d/", "d/z", "d/c"]), ["d/", "d/z", "d/c"]);
        assert_eq!(at.lose_link(), None);
        assert_eq!(at.after(), Some(path("d/b")));
        assert_eq!(new(&mut at, &["d/", "d/c", "d/z", "d/y"]), ["d/y"]);
        // Digests do not name the directory itself.
        let mut at = Position::kept();
        assert_eq!(new(&mut at, &["a", "d/"]).len(), 2);
        assert_eq!(at.after(), Some(path("d")));
    }

    #[test]
    fn trouble_is_heard_once_however_often_the_link_is_lost() {
        let trouble = |name: &str| Failure::new(FailureKind::Permission, "list", "no").at(&path(name));
        let mut at = Position::kept();
        assert!(at.hear_trouble(&trouble("a")));
        assert_eq!(at.lose_link(), None);
        assert!(!at.hear_trouble(&trouble("a")) && at.hear_trouble(&trouble("b")));
        assert_eq!(at.lose_link(), None);
        assert!(!at.hear_trouble(&trouble("b")));
    }

    #[test]
    fn what_is_in_a_directory_that_loses_its_order_between_two_links_is_heard_once() {
        let mut at = Position::kept();
        assert_eq!(new(&mut at, &["d", "d/a", "d/e", "d/e/", "d/e/z", "d/e/b"]).len(), 6);
        assert_eq!(at.lose_link(), None);
        assert_eq!(at.after(), Some(path("d/e")));
        // The one in it is said again, which does no harm.
        let again = ["d/", "d/e/", "d/e/z", "d/e/c", "d/e/b", "d/f"];
        assert_eq!(new(&mut at, &again), ["d/", "d/e/", "d/e/c", "d/f"]);
        assert_eq!(at.lose_link(), None);
        assert_eq!(new(&mut at, &["d/", "d/f", "d/e/", "d/e/c", "d/g"]), ["d/e/", "d/g"]);
    }

    #[test]
    fn a_file_of_which_no_link_brings_the_end_is_not_begun_for_ever() {
        let mut at = Position::kept();
        let lose = |at: &mut Position| {
            at.hear_piece();
            at.lose_link()
        };
        for _ in 1..LINKS_MAX {
            assert_eq!(lose(&mut at), None);
        }
        // It got on after all.
        new(&mut at, &["a"]);
        for _ in 1..LINKS_MAX {
            assert_eq!(lose(&mut at), None);
        }
        // How often one is dialled in vain is bounded by time alone.
        for _ in 0..LINKS_MAX {
            assert_eq!(at.lose_link(), None);
        }
        assert!(lose(&mut at).is_some());
    }

    /// Nobody could say of the names behind those that are kept whether they were heard.
    #[test]
    fn an_answer_of_which_more_came_than_is_kept_ends_with_its_link() {
        let mut at = Position::kept();
        new(&mut at, &["d", "d/"]);
        at.names.hashes = (0..KEPT_MAX as u64 - 1).collect();
        assert_eq!(new(&mut at, &["d/a"]), ["d/a"]);
        assert_eq!(at.lose_link(), None);
        assert_eq!(new(&mut at, &["d/", "d/a", "d/b", "d/c"]), ["d/b", "d/c"]);
        assert!(at.names.is_cut && at.names.hashes.len() == KEPT_MAX);
        assert!(at.lose_link().is_some_and(|why| why.contains("one directory")));
        // What is in the next directory has room of its own.
        assert_eq!(new(&mut at, &["e"]), ["e"]);
        assert_eq!(at.lose_link(), None);
    }

    #[test]
    fn of_an_answer_on_one_link_nothing_is_kept() {
        let mut at = Position::default();
        assert_eq!(new(&mut at, &["d", "d/", "d/z", "d/b", "d/b"]).len(), 5);
        assert!(at.hear_trouble(&Failure::new(FailureKind::Permission, "list", "no")));
        assert_eq!((at.after(), at.names.hashes.len(), at.troubles.hashes.len()), (None, 0, 0));
    }
}
