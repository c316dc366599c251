//! Which names are compared: those that a copy of `SRC/` with the same filter would move. Of a part those that it has:
//! each name is in one part, of a directory and of a file with several names, too, so that all parts together are one
//! comparison.

use std::collections::HashSet;
use std::sync::Arc;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::filter::Filter;
use thalweg_mover::part;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{FilterRule, PartOf};

/// See the module. The default is everything.
#[derive(Clone, Default)]
pub struct Selected {
    filter: Arc<Filter>,
    only: Option<Arc<Only>>,
    part: Option<PartOf>,
}

/// What a list names.
struct Only {
    names: HashSet<RelativePath>,
    /// Directories that they are in.
    on_the_way: HashSet<RelativePath>,
}

impl Selected {
    /// What these rules take in, the first that matches deciding; of `only` these names, and the directories on their
    /// way.
    ///
    /// # Errors
    /// `Usage` for a rule that is none.
    pub fn new(rules: Vec<FilterRule>, only: Option<Vec<RelativePath>>) -> Result<Selected> {
        let only = only.map(|names| Arc::new(Only::new(names)));
        Ok(Selected { filter: Arc::new(Filter::new(rules)?), only, part: None })
    }

    /// Only this part of it.
    #[must_use]
    pub fn in_part(self, part: Option<PartOf>) -> Selected {
        Selected { part, ..self }
    }

    /// The part that it is of alone.
    pub(super) fn part(&self) -> Option<PartOf> {
        self.part
    }

    /// Whether a path is compared. The places themselves are, in each part.
    pub(crate) fn has(&self, path: &RelativePath, is_dir: bool) -> bool {
        (path.is_root() || self.is_in_part(path)) && self.takes_in(path, is_dir)
    }

    /// Whether a path is compared in this part or in another.
    pub(super) fn takes_in(&self, path: &RelativePath, is_dir: bool) -> bool {
        match &self.only {
            _ if path.is_root() => true,
            // A directory that a rule leaves out is made all the same for what is in it.
            Some(only) if is_dir && only.on_the_way.contains(path) => true,
            Some(only) => only.names.contains(path) && self.filter.decide(path, is_dir).included,
            None if self.filter.is_empty() => true,
            None => {
                above(path).all(|directory| self.filter.decide(&directory, true).included)
                    && self.filter.decide(path, is_dir).included
            }
        }
    }

    fn is_in_part(&self, path: &RelativePath) -> bool {
        self.part.is_none_or(|part| part::has_name(part, path))
    }

    /// Whether a failure is about something that is compared. Of what could not be looked at nobody knows whether it is
    /// a directory, in which something of each part may be.
    pub(super) fn is_concerned(&self, failure: &Failure) -> bool {
        let Some(path) = &failure.path else { return true };
        match failure.operation.as_str() {
            "list" => self.takes_in(path, true),
            "read metadata" | "follow links" => self.takes_in(path, true) || self.takes_in(path, false),
            _ => self.has(path, false),
        }
    }

    /// What a list names and no rule leaves out.
    pub(super) fn names(&self) -> impl Iterator<Item = &RelativePath> {
        let names = self.only.iter().flat_map(|only| &only.names);
        names.filter(move |name| self.has(name, true) || self.has(name, false))
    }
}

impl Only {
    fn new(names: Vec<RelativePath>) -> Only {
        let on_the_way = names.iter().flat_map(above).collect();
        Only { names: names.into_iter().collect(), on_the_way }
    }
}

/// The directories that a path is in, without the root.
fn above(path: &RelativePath) -> impl Iterator<Item = RelativePath> {
    let bytes = path.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.filter_map(move |end| RelativePath::new(bytes[..end].to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::failure::FailureKind;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    fn selected(rules: &[(bool, &str)], only: Option<&[&str]>) -> Selected {
        let rules = rules.iter().map(|&(include, p)| FilterRule { include, pattern: p.to_owned() }).collect();
        let only = only.map(|names| names.iter().map(|name| path(name)).collect());
        Selected::new(rules, only).unwrap()
    }

    #[test]
    fn what_is_in_a_directory_that_is_left_out_is_left_out_too() {
        let selected = selected(&[(true, "/keep/***"), (false, "cache/"), (false, "*.o")], None);
        for (name, is_dir, has) in [
            ("", true, true),
            ("a.c", false, true),
            ("a.o", false, false),
            ("keep/a.o", false, true),
            ("cache", false, true),
            ("cache", true, false),
            ("d/cache/a.c", false, false),
            ("d/cache/e/a.c", false, false),
        ] {
            assert_eq!(selected.has(&path(name), is_dir), has, "{name}");
        }
    }

    #[test]
    fn of_a_list_its_names_and_the_directories_on_the_way_are_compared() {
        let selected = selected(&[(false, "*.o"), (false, "d")], Some(&["d/e/a.c", "d/b.o", "z"]));
        for (name, is_dir, has) in [
            ("", true, true),
            ("d", true, true),
            ("d/e", true, true),
            ("d/e/a.c", false, true),
            ("d/e/b.c", false, false),
            ("d/b.o", false, false),
            ("z", true, true),
            ("z/a.c", false, false),
        ] {
            assert_eq!(selected.has(&path(name), is_dir), has, "{name}");
        }
        let mut names: Vec<_> = selected.names().map(RelativePath::to_string).collect();
        names.sort_unstable();
        assert_eq!(names, ["d/e/a.c", "z"]);
    }

    #[test]
    fn each_name_is_in_one_part_and_a_directory_that_cannot_be_listed_concerns_all() {
        let parts = [1, 2, 3].map(|number| {
            let only = Some(&["d", "d/a", "d/b", "e/c"][..]);
            selected(&[], only).in_part(PartOf::new(number, 3))
        });
        let of_parts = |has: &dyn Fn(&Selected) -> bool| parts.iter().filter(|part| has(part)).count();
        for (name, is_dir) in [("d", true), ("d/a", false), ("d/b", false), ("e", true), ("e/c", false)] {
            assert_eq!(of_parts(&|part| part.has(&path(name), is_dir)), 1, "{name}");
            assert_eq!(of_parts(&|part| part.takes_in(&path(name), is_dir)), 3, "{name}");
        }
        assert_eq!(of_parts(&|part| part.has(&path(""), true)), 3);
        let names: usize = parts.iter().map(|part| part.names().count()).sum();
        assert_eq!(names, 4);
        let failed = |operation: &str| Failure::new(FailureKind::Permission, operation, "Permission denied");
        assert_eq!(of_parts(&|part| part.is_concerned(&failed("list").at(&path("d")))), 3);
        assert_eq!(of_parts(&|part| part.is_concerned(&failed("open").at(&path("d/a")))), 1);
    }

    #[test]
    fn a_failure_at_what_is_left_out_concerns_nobody() {
        let selected = selected(&[(false, "closed/"), (false, "*.o")], None);
        let concerned = |operation: &str, name: &str| {
            let failure = Failure::new(FailureKind::Permission, operation, "Permission denied");
            selected.is_concerned(&failure.at(&path(name)))
        };
        let look = "read metadata";
        assert!(!concerned("list", "closed") && !concerned("open", "a.o") && !concerned(look, "closed/a"));
        assert!(concerned("list", "open") && concerned("open", "closed") && concerned(look, "closed"));
        assert!(selected.is_concerned(&Failure::new(FailureKind::Io, "list", "Input/output error")));
    }
}
