//! What is in the watched directory now: a listing, here or at a far mover, made into items.

use crate::WATCH;
use crate::item::{Complete, ItemKind, Version};
use crate::machine::Seen;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thalweg_client::reach::Reach;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::filter::Filter;
use thalweg_wire::{Entry, Evidence, Kind, RelativePath, Time};

/// Lists items: what counts as one.
pub struct Scanner {
    /// Files or directories.
    pub kind: ItemKind,
    /// When one is complete.
    pub complete: Complete,
    /// Which names to leave out. Hidden ones (that begin with a dot, in any component) always are: it is how programs
    /// name what is not finished. In a directory that is an item they are part of it, as they are copied with it.
    pub filter: Filter,
    /// What is listed is in a bucket. An object is known there by its length and the store's time, to the second: so
    /// much lists and copies tell alike.
    pub in_bucket: bool,
}

/// A look.
pub struct View {
    /// The items, by name.
    pub items: Vec<Seen>,
    /// Paths that could not be looked at: what is there, and below, nobody knows. For one in a directory that is an
    /// item stands the item.
    pub unseen: Vec<RelativePath>,
    /// Directories in which something may change: the first [`DIRECTORIES_MAX`].
    pub directories: Vec<RelativePath>,
    /// There are more of them.
    pub has_more_directories: bool,
}

/// Paths below a directory, and whether each is a directory.
pub(crate) type Names = BTreeMap<RelativePath, bool>;

/// A look into one item that is a directory.
pub(crate) struct Inside {
    /// Its version now; `None` if it is no directory, or not all of it could be seen.
    pub version: Option<Version>,
    /// What a copy of it has, by paths below the item: without it, and without what is left out.
    pub names: Names,
    /// The first reason why not all could be seen.
    pub trouble: Option<Failure>,
}

/// What a look found so far.
#[derive(Default)]
struct Gathered {
    items: BTreeMap<RelativePath, Parts>,
    /// Of files: when each changed last.
    markers: HashMap<RelativePath, Time>,
    unseen: BTreeSet<RelativePath>,
    directories: Vec<RelativePath>,
    has_more_directories: bool,
}

/// What was found of one item.
struct Parts {
    version: Version,
    /// When a file in it changed last, its marker left out.
    changed: Option<Time>,
    /// When its marker did.
    marked: Option<Time>,
}

impl Parts {
    fn new(version: Version) -> Parts {
        Parts { version, changed: None, marked: None }
    }

    /// A marker is for what was there when it was made. Clocks of file systems are coarse: equal times count.
    fn is_marked(&self) -> bool {
        self.marked.is_some() && self.marked >= self.changed
    }
}

impl Scanner {
    /// Looks. What could not be looked at is told.
    ///
    /// # Errors
    /// If the directory itself cannot be listed; `Usage` if it is none.
    pub fn scan(&self, reach: &Reach, trouble: &mut dyn FnMut(&Failure)) -> Result<View> {
        let mut gathered = Gathered { directories: vec![RelativePath::root()], ..Gathered::default() };
        let mut is_first = true;
        reach.list(true, &mut |found| {
            match &found {
                Found::Trouble(failure) => trouble(failure),
                // A directory comes before what is in it, anything else alone and by its name.
                Found::Entry(entry) if std::mem::take(&mut is_first) && !entry.path.is_root() => {
                    let cause = format!("`{}` is no directory", entry.path);
                    return Err(Failure::new(FailureKind::Usage, WATCH, cause));
                }
                Found::Entry(_) => {}
            }
            self.take(found, &mut gathered);
            Ok(())
        })?;
        Ok(self.view(gathered))
    }

    /// The version of an item of which these entries were copied: of a file itself, of a directory with what is in it,
    /// by path. Its mark is that of a look if all of it was copied; of its bytes those of further hard links are
    /// missing.
    pub fn version_of<'a>(
        &self,
        name: &RelativePath,
        mut entries: impl Iterator<Item = &'a Entry>,
    ) -> Option<Version> {
        match self.kind {
            ItemKind::File => entries.next().map(|entry| version_of_file(&self.plain(entry))),
            ItemKind::Directory => {
                let mut gathered = Gathered::default();
                entries.for_each(|entry| self.take_entry(entry, &mut gathered));
                gathered.items.remove(name).map(|parts| parts.version)
            }
        }
    }

    /// Looks at one item: its version now, if all of it can be seen. `reach` is what is watched.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn look_at(&self, name: &RelativePath, reach: &Reach) -> Result<Option<Version>> {
        if self.kind == ItemKind::File {
            // A file is listed alone; of a directory that stands in its place the directory itself comes first.
            let mut first = None;
            reach.below(name.as_bytes()).list(false, &mut |found| {
                first.get_or_insert(found);
                Ok(())
            })?;
            return Ok(match first {
                Some(Found::Entry(entry)) if matches!(entry.kind, Kind::File { .. }) => {
                    Some(version_of_file(&self.plain(&entry)))
                }
                _ => None,
            });
        }
        Ok(self.look_into(name, reach)?.version)
    }

    /// Looks into an item that is a directory: its version now, and the names that a copy of it has. `reach` is what is
    /// watched.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(crate) fn look_into(&self, name: &RelativePath, reach: &Reach) -> Result<Inside> {
        let mut gathered = Gathered::default();
        let (mut names, mut trouble) = (Names::new(), None);
        reach.below(name.as_bytes()).list(true, &mut |found| {
            let found = match found {
                Found::Entry(entry) => {
                    let path = below(name, &entry.path)?;
                    let is_directory = matches!(entry.kind, Kind::Directory);
                    if !entry.path.is_root() && !self.is_out(&path, is_directory) {
                        names.insert(entry.path.clone(), is_directory);
                    }
                    Found::Entry(Entry { path, ..entry })
                }
                Found::Trouble(failure) => match &failure.path {
                    Some(path) => {
                        let path = below(name, path)?;
                        Found::Trouble(failure.at(&path))
                    }
                    None => Found::Trouble(failure),
                },
            };
            let told = match &found {
                Found::Trouble(failure) => Some(failure.clone()),
                Found::Entry(_) => None,
            };
            self.take(found, &mut gathered);
            // What is left out is none.
            if trouble.is_none() && !gathered.unseen.is_empty() {
                trouble = told;
            }
            Ok(())
        })?;
        let is_whole = gathered.unseen.is_empty();
        let version = gathered.items.remove(name).filter(|_| is_whole).map(|parts| parts.version);
        Ok(Inside { version, names, trouble })
    }

    fn view(&self, gathered: Gathered) -> View {
        let Gathered { items, markers, unseen, directories, has_more_directories } = gathered;
        let marked_beside = |name: &RelativePath| match (&self.complete, self.kind) {
            (Complete::Marker(suffix), ItemKind::File) => {
                let marker = RelativePath::new([name.as_bytes(), suffix].concat()).ok()?;
                markers.get(&marker).copied()
            }
            _ => None,
        };
        let seen = items.into_iter().map(|(name, parts)| {
            let parts = Parts { marked: parts.marked.or_else(|| marked_beside(&name)), ..parts };
            Seen { is_marked: parts.is_marked(), version: parts.version, name }
        });
        let (items, unseen) = (seen.collect(), unseen.into_iter().collect());
        View { items, unseen, directories, has_more_directories }
    }

    fn take(&self, found: Found, gathered: &mut Gathered) {
        match found {
            Found::Entry(entry) => self.take_entry(&entry, gathered),
            Found::Trouble(failure) => self.miss(&failure, gathered),
        }
    }

    /// What has no path has a name that no item can have.
    fn miss(&self, failure: &Failure, gathered: &mut Gathered) {
        let Some(path) = &failure.path else { return };
        // Of what could not be listed it is known that it is a directory.
        let is_out = |is_dir| !path.is_root() && self.is_out(path, is_dir);
        if is_out(true) && (failure.operation == "list" || is_out(false)) {
            return;
        }
        let item = top_of(path).filter(|_| self.kind == ItemKind::Directory);
        gathered.unseen.insert(item.unwrap_or_else(|| path.clone()));
        if gathered.unseen.len() > UNSEEN_MAX {
            gathered.unseen = BTreeSet::from([RelativePath::root()]);
        }
    }

    fn take_entry(&self, entry: &Entry, gathered: &mut Gathered) {
        if entry.path.is_root() {
            return;
        }
        let plain = self.plain(entry);
        let entry = &*plain;
        let is_directory = matches!(entry.kind, Kind::Directory);
        if is_directory {
            match gathered.directories.len() < DIRECTORIES_MAX {
                true => gathered.directories.push(entry.path.clone()),
                false => gathered.has_more_directories = true,
            }
        }
        match self.kind {
            ItemKind::File => {
                if !matches!(entry.kind, Kind::File { .. }) {
                    return;
                }
                if let Complete::Marker(suffix) = &self.complete
                    && entry.path.as_bytes().ends_with(suffix)
                {
                    gathered.markers.insert(entry.path.clone(), entry.evidence.ctime);
                    return;
                }
                if !self.is_out(&entry.path, false) {
                    let parts = Parts { changed: Some(changed(entry)), ..Parts::new(version_of_file(entry)) };
                    gathered.items.insert(entry.path.clone(), parts);
                }
            }
            ItemKind::Directory => {
                let Some(top) = top_of(&entry.path) else { return };
                if top == entry.path && is_directory && !self.is_out(&top, true) {
                    gathered.items.insert(top, Parts::new(Version::EMPTY.with(&self.counted(entry))));
                } else if let Some(parts) = gathered.items.get_mut(&top) {
                    let within = entry.path.as_bytes().get(top.as_bytes().len() + 1..);
                    match &self.complete {
                        Complete::Marker(name) if within == Some(name) => {
                            parts.marked = Some(entry.evidence.ctime);
                        }
                        // It is not copied: whatever becomes of it, nothing waits for that.
                        _ if self.is_out(&entry.path, is_directory) => return,
                        // A directory changes when the marker comes into it.
                        _ if is_directory => {}
                        _ => parts.changed = parts.changed.max(Some(changed(entry))),
                    }
                    parts.version = parts.version.with(&self.counted(entry));
                }
            }
        }
    }

    /// An entry as lists and copies of it are alike. A bucket says nothing of its directories.
    fn plain<'a>(&self, entry: &'a Entry) -> Cow<'a, Entry> {
        if !self.in_bucket {
            return Cow::Borrowed(entry);
        }
        let time = Time { nanos: 0, ..entry.evidence.ctime };
        let evidence = match entry.kind {
            Kind::Directory => Evidence::default(),
            _ => Evidence { size: entry.evidence.size, mtime: time, ctime: time, ..Evidence::default() },
        };
        Cow::Owned(Entry { evidence, ..entry.clone() })
    }

    /// What of it counts for the version of a directory. Its own times change when what is left out comes and goes.
    fn counted<'a>(&self, entry: &'a Entry) -> Cow<'a, Entry> {
        if self.filter.is_empty() || !matches!(entry.kind, Kind::Directory) {
            return Cow::Borrowed(entry);
        }
        let evidence = Evidence { inode: entry.evidence.inode, ..Evidence::default() };
        Cow::Owned(Entry { evidence, ..entry.clone() })
    }

    /// Whether it is no item, and no part of one.
    pub(crate) fn is_out(&self, path: &RelativePath, is_dir: bool) -> bool {
        let mut parts = path.as_bytes().split(|byte| *byte == b'/');
        let is_hidden = |part: &[u8]| part.starts_with(b".");
        let is_in_hidden = match self.kind {
            ItemKind::File => parts.any(is_hidden),
            ItemKind::Directory => parts.next().is_some_and(is_hidden),
        };
        if is_in_hidden || self.filter.is_empty() {
            return is_in_hidden;
        }
        // What is in a directory that is left out is left out.
        let ends = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let parents = ends.filter_map(|end| RelativePath::new(path.as_bytes()[..end].to_vec()).ok());
        let is_out = |path: &RelativePath, is_dir| !self.filter.decide(path, is_dir).included;
        parents.into_iter().any(|parent| is_out(&parent, true)) || is_out(path, is_dir)
    }
}

/// A path in an item, from what is watched on.
fn below(item: &RelativePath, path: &RelativePath) -> Result<RelativePath> {
    let slash: &[u8] = if path.is_root() { b"" } else { b"/" };
    RelativePath::new([item.as_bytes(), slash, path.as_bytes()].concat())
        .map_err(|error| Failure::new(FailureKind::Unsupported, "look", error))
}

/// The name is the item's own; it is no part of its version.
fn version_of_file(entry: &Entry) -> Version {
    Version::EMPTY.with(&Entry { path: RelativePath::root(), ..entry.clone() })
}

/// More directories than these are not heard of; they are looked at all the same.
pub(crate) const DIRECTORIES_MAX: usize = 1024;

/// If more paths than these cannot be looked at, nothing that is not seen is known to be gone.
const UNSEEN_MAX: usize = 1 << 16;

/// When the content of an entry changed last. That moves both times; but programs set the one, also to what is yet to
/// come, and the other moves when only a mode or a name changes. Of a file that comes later with the times that it had
/// elsewhere neither tells: an old marker counts for it, as docs/guide/watch.md says. That an earlier look saw another
/// content beside the same marker would tell, but of a directory that comes whole, its marker first, the first look
/// sees a part: what followed would wait for ever.
fn changed(entry: &Entry) -> Time {
    entry.evidence.mtime.min(entry.evidence.ctime)
}

/// The first component.
fn top_of(path: &RelativePath) -> Option<RelativePath> {
    let top = path.as_bytes().split(|byte| *byte == b'/').next()?;
    RelativePath::new(top.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use thalweg_wire::EntryId;

    /// Of files of this machine, complete at once.
    fn scanner_of(kind: ItemKind, filter: Filter) -> Scanner {
        Scanner { kind, complete: Complete::Stable(Duration::ZERO), filter, in_bucket: false }
    }

    fn look(scanner: &Scanner, directory: &std::path::Path) -> Vec<(String, bool)> {
        let reach = Reach::local(directory.to_owned());
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
            Scanner { complete: Complete::Marker(b".done".to_vec()), ..scanner_of(ItemKind::File, rules()) };
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
            let reach = Reach::local(root.to_owned());
            scanner.scan(&reach, &mut |_| {}).unwrap().items[0].version
        };
        let before = version(&scanner);
        assert_eq!(before, version(&scanner));
        std::fs::write(root.join("run1/new"), "").unwrap();
        assert_ne!(before, version(&scanner));
    }

    #[test]
    fn what_is_no_directory_cannot_be_watched() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        std::fs::write(&file, "a").unwrap();
        for kind in [ItemKind::File, ItemKind::Directory] {
            let scanner = scanner_of(kind, Filter::default());
            let failure = scanner.scan(&Reach::local(file.clone()), &mut |_| {}).map(drop).unwrap_err();
            assert_eq!(failure.to_string(), "watch failed: `a` is no directory");
        }
    }

    /// An entry whose content changed at the one time, and anything of it at the other.
    fn entry(path: &str, kind: Kind, mtime: i64, ctime: i64) -> Found {
        let at = |seconds| Time { seconds, nanos: 0 };
        Found::Entry(Entry {
            id: EntryId(0),
            path: RelativePath::new(path.into()).unwrap(),
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { mtime: at(mtime), ctime: at(ctime), ..Evidence::default() },
            xattrs: Vec::new(),
        })
    }

    fn file(path: &str, mtime: i64, ctime: i64) -> Found {
        entry(path, Kind::File { sparse: false, marked: false }, mtime, ctime)
    }

    fn directory(path: &str, changed: i64) -> Found {
        entry(path, Kind::Directory, changed, changed)
    }

    fn trouble(path: &str) -> Found {
        let path = RelativePath::new(path.into()).unwrap();
        Found::Trouble(Failure::new(FailureKind::Io, "list", "Input/output error").at(&path))
    }

    fn view(kind: ItemKind, marker: &str, found: Vec<Found>) -> View {
        view_without(&[], kind, marker, found)
    }

    /// What these patterns match is left out.
    fn view_without(patterns: &[&str], kind: ItemKind, marker: &str, found: Vec<Found>) -> View {
        let complete = Complete::Marker(marker.into());
        let rule =
            |pattern: &&str| thalweg_wire::message::FilterRule { include: false, pattern: (*pattern).into() };
        let filter = Filter::new(patterns.iter().map(rule).collect()).unwrap();
        let scanner = Scanner { complete, ..scanner_of(kind, filter) };
        let mut gathered = Gathered::default();
        found.into_iter().for_each(|found| scanner.take(found, &mut gathered));
        scanner.view(gathered)
    }

    /// A list has the store's time, with parts of a second or without; a copy the file's own, and a version.
    #[test]
    fn an_object_that_was_listed_is_the_one_that_was_copied_whatever_else_is_told_of_it() {
        let object = |size, mtime, nanos, inode| {
            let at = |seconds, nanos| Time { seconds, nanos };
            let evidence = Evidence { size, mtime: at(mtime, 0), ctime: at(9, nanos), device: 0, inode };
            let Found::Entry(file) = file("run/a", 0, 0) else { panic!() };
            Entry { evidence, ..file }
        };
        let (listed, copied) = (object(3, 9, 500_000_000, 0), object(3, 5, 0, 7));
        let Found::Entry(run) = directory("run", 9) else { panic!() };
        let same = Entry { evidence: Evidence::default(), ..run.clone() };
        for (kind, name, from) in [(ItemKind::File, "run/a", 1), (ItemKind::Directory, "run", 0)] {
            let name = RelativePath::new(name.into()).unwrap();
            let version = |in_bucket, entries: &[&Entry]| {
                let scanner = Scanner { in_bucket, ..scanner_of(kind, Filter::default()) };
                scanner.version_of(&name, entries[from..].iter().copied()).unwrap()
            };
            let [seen, came] = [[&run, &listed], [&same, &copied]].map(|entries| version(true, &entries));
            assert_eq!(seen, came, "{kind:?}");
            assert_ne!(version(true, &[&run, &object(4, 9, 0, 0)]), seen, "{kind:?}");
            assert_ne!(version(false, &[&run, &listed]), version(false, &[&run, &copied]), "{kind:?}");
        }
    }

    #[test]
    fn a_marker_is_for_what_was_there_when_it_was_made() {
        // When the content changed, when anything did, when the marker was made, and whether it counts.
        let cases = [
            (5, 5, 6, true),
            // Clocks are coarse.
            (5, 5, 5, true),
            (7, 7, 6, false),
            // Its mode changed, or another name came.
            (5, 9, 6, true),
            // Whoever wrote it has a clock that is ahead.
            (99, 5, 6, true),
        ];
        for (mtime, ctime, made, counts) in cases {
            // A time that somebody set says nothing of when a marker was made.
            let found = vec![file("a.done", 1, made), file("a", mtime, ctime)];
            assert_eq!(
                view(ItemKind::File, ".done", found).items[0].is_marked,
                counts,
                "{mtime} {ctime} {made}"
            );
            let found = vec![
                // It changes when the marker comes into it.
                directory("run", made + 1),
                file("run/READY", 1, made),
                directory("run/deep", made + 1),
                file("run/deep/data", mtime, ctime),
                file("run/old", 1, 1),
            ];
            let items = view(ItemKind::Directory, "READY", found).items;
            assert_eq!(items[0].is_marked, counts, "{mtime} {ctime} {made}");
        }
        assert!(
            view(ItemKind::Directory, "READY", vec![directory("run", 1), file("run/READY", 2, 2)]).items[0]
                .is_marked
        );
        assert!(!view(ItemKind::Directory, "READY", vec![directory("run", 1)]).items[0].is_marked);
    }

    #[test]
    fn what_is_left_out_of_a_directory_does_not_decide_whether_it_is_complete() {
        let of = |found| view_without(&["*.log", "logs/", "READY"], ItemKind::Directory, "READY", found);
        let data = || vec![directory("run", 1), file("run/data", 5, 5), file("run/READY", 6, 6)];
        let before = of(data()).items.remove(0);
        assert!(before.is_marked, "its marker counts though it is not copied");
        // It came and grew after the marker was made; what it is in has changed with it.
        let mut found = vec![directory("run", 9), file("run/data", 5, 5), file("run/READY", 6, 6)];
        found.extend([file("run/a.log", 9, 9), directory("run/logs", 9), file("run/logs/b", 9, 9)]);
        found.extend([trouble("run/logs"), trouble("run/logs/deep")]);
        let after = of(found);
        assert_eq!(after.items, std::slice::from_ref(&before));
        assert!(after.unseen.is_empty(), "{:?}", after.unseen);
        let mut found = data();
        found.push(file("run/more", 9, 9));
        let more = of(found).items.remove(0);
        assert!(more.version != before.version && !more.is_marked);
    }

    #[test]
    fn of_more_directories_than_are_heard_of_it_is_known_that_there_are_more() {
        let of = |count: usize| {
            let found = (0..count).map(|number| directory(&number.to_string(), 1)).collect();
            let view = view(ItemKind::File, "x", found);
            (view.directories.len(), view.has_more_directories)
        };
        assert_eq!(of(DIRECTORIES_MAX), (DIRECTORIES_MAX, false));
        assert_eq!(of(DIRECTORIES_MAX + 1), (DIRECTORIES_MAX, true));
    }

    #[test]
    fn what_cannot_be_looked_at_is_told_by_its_path_or_by_the_item_that_it_is_in() {
        let of = |kind, found| -> Vec<String> {
            view(kind, "x", found).unseen.iter().map(ToString::to_string).collect()
        };
        let found =
            || vec![trouble("run/deep"), directory("run", 1), trouble("run/deep/more"), trouble("gone")];
        assert_eq!(of(ItemKind::File, found()), ["gone", "run/deep", "run/deep/more"]);
        assert_eq!(of(ItemKind::Directory, found()), ["gone", "run"]);
        let many = (0..=UNSEEN_MAX).map(|number| trouble(&number.to_string())).collect();
        assert_eq!(of(ItemKind::File, many), ["."], "of so many none is known");
    }
}
