//! What a pull asked for. A far mover offers what it likes; only names that follow from the request are written
//! (scp lacked this: CVE-2019-6111). A client that pushes does so too: where it said that one entry comes, that may get
//! a new name, and the root is the directory above it, which nobody named.
//!
//! What the filter leaves out is not written either, whether or not the far mover left it out.
//!
//! Not checked: that a name below a directory that was asked for exists there.

use crate::failure::{Failure, FailureKind, Result};
use crate::filter::Filter;
use crate::mutex::lock;
use std::sync::Mutex;
use thalweg_wire::message::{Place, SourceForm};
use thalweg_wire::{Entry, Kind, RelativePath};

/// Names that may be written.
#[derive(Debug)]
pub struct Expected {
    /// Top names, for places that have a name of their own.
    tops: Vec<Vec<u8>>,
    /// A place stands for its contents, so any name may be at the top, and the root itself may come.
    any_top: bool,
    /// Only this one entry, which is no directory.
    single: Option<Vec<u8>>,
    /// That entry is no symbolic link.
    no_link: bool,
    /// `--files-from`: these, what is below them, and the directories above them.
    only: Vec<RelativePath>,
    filter: Filter,
    /// The directory that was last found to be taken in, with all above it: entries of one directory come together.
    included: Mutex<Vec<u8>>,
}

impl Expected {
    /// What a pull of `places` may bring, when the far mover says that they are `source`.
    ///
    /// # Errors
    /// `Protocol` if they cannot be that.
    pub fn of(
        places: &[Place],
        only: &[RelativePath],
        filter: Filter,
        source: &SourceForm,
    ) -> Result<Expected> {
        let names: Vec<Option<&[u8]>> = places.iter().map(|place| own_name(&place.path)).collect();
        let mut expected = Expected {
            tops: names.iter().flatten().map(|name| name.to_vec()).collect(),
            // Where only some names are wanted, they are relative to the directory.
            any_top: names.contains(&None) || !only.is_empty(),
            single: None,
            no_link: false,
            only: only.to_vec(),
            filter,
            included: Mutex::default(),
        };
        if let SourceForm::Single { name } = source {
            let is_asked = matches!(names[..], [Some(asked)] if asked == name) && only.is_empty();
            if !is_asked {
                return Err(refuse("the far mover calls the source by a name that was not asked for"));
            }
            expected.single = Some(name.clone());
        }
        Ok(expected)
    }

    /// What a push of this one entry may bring. `no_link`: no symbolic link, which would lead what comes to the same
    /// place later somewhere else.
    pub fn one(name: &[u8], no_link: bool) -> Expected {
        Expected {
            tops: Vec::new(),
            any_top: false,
            single: Some(name.to_vec()),
            no_link,
            only: Vec::new(),
            filter: Filter::default(),
            included: Mutex::default(),
        }
    }

    /// Whether an entry follows from the request.
    ///
    /// # Errors
    /// `Protocol` if it does not; `Permission` for a symbolic link that may not be one.
    pub fn check(&self, entry: &Entry) -> Result<()> {
        let is_expected = match &self.single {
            Some(name) => entry.path.as_bytes() == name && entry.kind != Kind::Directory,
            None => self.admits(&entry.path),
        };
        let link_is_expected = match &entry.kind {
            Kind::HardLink { first, .. } => self.single.is_none() && self.admits(first),
            _ => true,
        };
        if !is_expected || !link_is_expected {
            return Err(refuse("the other side offers a name that was not asked for").at(&entry.path));
        }
        if self.no_link && matches!(entry.kind, Kind::Symlink { .. }) {
            let cause = "a symbolic link does not get the name of the one place that is served: give that a \
                         trailing slash, and the link goes into it";
            return Err(Failure::new(FailureKind::Permission, "receive", cause).at(&entry.path));
        }
        let link_is_included = match &entry.kind {
            Kind::HardLink { first, .. } => self.includes(first, false),
            _ => true,
        };
        match link_is_included && self.includes(&entry.path, entry.kind == Kind::Directory) {
            true => Ok(()),
            false => Err(refuse("the far mover offers a name that the filter leaves out").at(&entry.path)),
        }
    }

    /// Whether a scan by the same filter would have come here.
    fn includes(&self, path: &RelativePath, is_dir: bool) -> bool {
        if self.filter.is_empty() || !self.filter.decide(path, is_dir).included {
            return self.filter.is_empty();
        }
        let parent = path.split().map_or(&[][..], |(parent, _)| parent);
        // Names of a list are looked at one by one: no directory above them is gone through.
        if parent.is_empty() || !self.only.is_empty() {
            return true;
        }
        let mut included = lock(&self.included);
        if *included == parent {
            return true;
        }
        for above in path.directories_above() {
            let above = RelativePath::new(above.to_vec());
            if !above.is_ok_and(|above| self.filter.decide(&above, true).included) {
                return false;
            }
        }
        *included = parent.to_vec();
        true
    }

    fn admits(&self, path: &RelativePath) -> bool {
        let bytes = path.as_bytes();
        let is_above = |above: &[u8], below: &[u8]| {
            above.is_empty()
                || below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        let top_is_asked =
            || bytes.split(|&byte| byte == b'/').next().is_some_and(|top| self.tops.iter().any(|t| t == top));
        if !self.any_top && (bytes.is_empty() || !top_is_asked()) {
            return false;
        }
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|name| is_above(name.as_bytes(), bytes) || is_above(bytes, name.as_bytes()))
    }
}

/// The name that a place gives its entry; `None` where it stands for its contents, or the far mover alone knows.
fn own_name(path: &[u8]) -> Option<&[u8]> {
    if path.ends_with(b"/") || path.ends_with(b"/.") {
        return None;
    }
    let name = path.split(|&byte| byte == b'/').rfind(|name| !name.is_empty() && *name != b".")?;
    let is_home = name.starts_with(b"~") && name.len() == path.len();
    (name != b".." && !is_home).then_some(name)
}

fn refuse(why: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "receive", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::FilterRule;
    use thalweg_wire::{EntryId, Evidence};

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(path.as_bytes().to_vec()).unwrap(),
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File { sparse: false, marked: false })
    }

    fn expected(places: &[&str], source: SourceForm) -> Result<Expected> {
        let place = |path: &&str| Place { export: Some("e".into()), path: path.as_bytes().to_vec() };
        Expected::of(&places.iter().map(place).collect::<Vec<_>>(), &[], Filter::default(), &source)
    }

    #[test]
    fn only_names_of_the_request_are_admitted() {
        let asked = expected(&["a/b", "c"], SourceForm::Many).unwrap();
        for good in ["b", "b/x/y", "c", "c/.."] {
            let Ok(path) = RelativePath::new(good.as_bytes().to_vec()) else { continue };
            assert!(asked.admits(&path), "{good}");
        }
        for bad in ["", "a", "bb", "b ", "x/b", ".ssh/authorized_keys"] {
            assert!(asked.check(&entry(bad, Kind::Directory)).is_err(), "{bad}");
        }
        for contents in ["", "a/", "/", "a/.", "..", "~"] {
            let asked = expected(&[contents], SourceForm::Many).unwrap();
            assert!(asked.check(&file("anything/at all")).is_ok(), "{contents}");
            assert!(asked.check(&entry("", Kind::Directory)).is_ok(), "{contents}");
        }
    }

    #[test]
    fn a_single_file_has_the_name_that_was_asked_for() {
        let single = |name: &str| SourceForm::Single { name: name.as_bytes().to_vec() };
        assert!(expected(&["a/b"], single("x")).is_err());
        assert!(expected(&["a/b/"], single("b")).is_err());
        assert!(expected(&["a/b", "a/c"], single("b")).is_err());
        let asked = expected(&["a/b"], single("b")).unwrap();
        assert!(asked.check(&file("b")).is_ok());
        assert!(asked.check(&file("c")).is_err());
        assert!(asked.check(&file("b/c")).is_err());
        assert!(asked.check(&entry("b", Kind::Directory)).is_err());
        let first = RelativePath::new(b"secret".to_vec()).unwrap();
        assert!(asked.check(&entry("b", Kind::HardLink { first, of: EntryId(0) })).is_err());
    }

    #[test]
    fn a_push_of_a_single_entry_brings_that_one_and_no_link_where_none_may_be() {
        let link = || entry("b", Kind::Symlink { target: b".ssh".to_vec() });
        let (any, no_link) = (Expected::one(b"b", false), Expected::one(b"b", true));
        for said in [&any, &no_link] {
            assert!(said.check(&file("b")).is_ok());
            for bad in ["c", "b/c", ".ssh/authorized_keys"] {
                assert_eq!(said.check(&file(bad)).unwrap_err().kind, FailureKind::Protocol, "{bad}");
            }
            for bad in ["", "b", ".ssh"] {
                assert!(said.check(&entry(bad, Kind::Directory)).is_err(), "{bad}");
            }
            let first = RelativePath::new(b".bashrc".to_vec()).unwrap();
            assert!(said.check(&entry("b", Kind::HardLink { first, of: EntryId(0) })).is_err());
        }
        assert!(any.check(&link()).is_ok());
        assert_eq!(no_link.check(&link()).unwrap_err().kind, FailureKind::Permission);
    }

    #[test]
    fn of_names_listed_only_they_come_and_what_is_below_and_above_them() {
        let only = [RelativePath::new(b"d/e".to_vec()).unwrap()];
        let place = Place { export: None, path: b"src".to_vec() };
        let asked = Expected::of(&[place], &only, Filter::default(), &SourceForm::Many).unwrap();
        for good in ["", "d", "d/e", "d/e/f"] {
            assert!(asked.check(&entry(good, Kind::Directory)).is_ok(), "{good}");
        }
        for bad in ["x", "d/x", "d/ee"] {
            assert!(asked.check(&entry(bad, Kind::Directory)).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_filter_leaves_out_is_refused_with_all_below_it() {
        let rule = |include, pattern: &str| FilterRule { include, pattern: pattern.to_owned() };
        let filter =
            || Filter::new(vec![rule(true, "/d/keep/"), rule(false, "/d/*/"), rule(false, "*.o")]).unwrap();
        let place = Place { export: None, path: b"src/".to_vec() };
        let asked = Expected::of(std::slice::from_ref(&place), &[], filter(), &SourceForm::Many).unwrap();
        for good in ["", "d", "d/keep", "d/keep/deep"] {
            assert!(asked.check(&entry(good, Kind::Directory)).is_ok(), "{good}");
        }
        for good in ["a", "d/file", "d/keep/deep/a.c", "d/keep/deep/b.c"] {
            assert!(asked.check(&file(good)).is_ok(), "{good}");
        }
        for bad in ["a.o", "d/keep/deep/a.o", "d/gone/a.c", "d/gone/deep/a.c"] {
            assert!(asked.check(&file(bad)).is_err(), "{bad}");
        }
        assert!(asked.check(&entry("d/gone", Kind::Directory)).is_err());
        let first = RelativePath::new(b"d/gone/a.c".to_vec()).unwrap();
        assert!(asked.check(&entry("link", Kind::HardLink { first, of: EntryId(0) })).is_err());
        // A listed name is looked at for itself.
        let only = [RelativePath::new(b"d/gone/a.c".to_vec()).unwrap()];
        let asked = Expected::of(&[place], &only, filter(), &SourceForm::Many).unwrap();
        assert!(asked.check(&file("d/gone/a.c")).is_ok());
        assert!(asked.check(&entry("d/gone", Kind::Directory)).is_err());
    }
}
