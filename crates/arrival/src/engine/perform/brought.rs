//! What copies brought of a directory, by name, and what of it the source has no more. With
//! [`deletes`](crate::engine::Watch::deletes) that goes before the next copy, so that what is analysed together came
//! together:
//!
//! 1. Before a copy the names that it has are written down, durably, beside those of earlier ones.
//! 2. Of those, what the source has no more is removed where a copy put it; a directory only once nothing is in it.
//! 3. After the copy the names of what went are forgotten.
//!
//! Otherwise nothing is removed: a source that is purged file by file would have its archive lose all that it keeps.
//! The names are written down after the copy, which has them anyway; what of them still stands is counted and told.
//!
//! Never removed: what no copy of this watch had by that name, as what a program writes beside its data; anything if
//! the source has nothing; anything behind a symbolic link; what has become a directory, or ceased to be one.
//! Not guaranteed: that it is gone, or counted, where these lists are gone; that what a copy brought is counted which
//! was killed before its end, unless another one brings it too.

use super::{Driver, Placed, Told, short};
use crate::WATCH;
use crate::engine::looks::reach_of;
use crate::engine::text_of;
use crate::item::Version;
use crate::scan::Names;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use thalweg_client::place::Place;
use thalweg_client::reach::Reach;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::event::Event;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::mutex::lock;
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_wire::path::{Escaped, unescape};
use thalweg_wire::{Kind, RelativePath};

/// The first line of a list.
const HEAD: &str = "thalweg names 1";
/// What fails of a list.
const READ: &str = "read the names of what was copied";
const WRITE: &str = "write the names of what was copied";
/// Bytes of lists that may stay of what is over: beyond that the oldest go.
const PAST_BYTES_MAX: u64 = 64 << 20;
/// For so many each counts at least: a block of a file system.
const LIST_BYTES_MIN: u64 = 4 << 10;

/// The names that copies brought to one directory.
pub(super) struct Brought {
    list: PathBuf,
    names: Names,
    /// Removed since: forgotten once a copy has ended well.
    gone: Vec<RelativePath>,
}

impl Brought {
    /// Those of this list; none if there is no list yet.
    fn open(list: PathBuf) -> Result<Brought> {
        let names = match std::fs::read_to_string(&list) {
            Ok(text) => read(&text).ok_or_else(|| {
                let cause =
                    "it is not what was written; to go on without what it knew of earlier copies remove it";
                failure::at_path(Failure::new(FailureKind::Damage, READ, cause), &list)
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Names::new(),
            Err(error) => return Err(failure::at_path(failure::of_io(READ, &error), &list)),
        };
        Ok(Brought { list, names, gone: Vec::new() })
    }

    /// What is not among `now`, or is of another kind there; what `is_kept` says is somebody else's business.
    fn stale(&self, now: &Names, is_kept: &dyn Fn(&RelativePath, bool) -> bool) -> Names {
        let above: HashSet<&[u8]> = now.keys().flat_map(RelativePath::directories_above).collect();
        let is_stale = |(path, is_directory): &(&RelativePath, &bool)| match now.get(*path) {
            Some(is_now) => is_now != *is_directory,
            // A bucket says nothing of its directories.
            None if **is_directory && above.contains(path.as_bytes()) => false,
            None => !is_kept(path, **is_directory),
        };
        let stale = self.names.iter().filter(is_stale);
        stale.map(|(path, is_directory)| (path.clone(), *is_directory)).collect()
    }

    /// Adds names, durably.
    fn add(&mut self, names: Names) -> Result<()> {
        let is_known = names.iter().all(|(path, is_directory)| self.names.get(path) == Some(is_directory));
        self.names.extend(names);
        if is_known { Ok(()) } else { self.write() }
    }

    /// A copy is over, which had these too, and ended well or not.
    pub(super) fn end(&mut self, names: Names, is_well: bool) -> Result<()> {
        let gone = std::mem::take(&mut self.gone);
        if !is_well || gone.is_empty() {
            return self.add(names);
        }
        for path in &gone {
            self.names.remove(path);
        }
        self.names.extend(names);
        self.write()
    }

    /// Forgets names that are not there any more: what has one of them by now is somebody else's.
    fn forget(&mut self, gone: Vec<RelativePath>) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        for path in &gone {
            self.names.remove(path);
        }
        self.write()
    }

    fn write(&self) -> Result<()> {
        let of_io = |error: &std::io::Error| failure::at_path(failure::of_io(WRITE, error), &self.list);
        let mut text = format!("{HEAD}\n");
        for (path, is_directory) in &self.names {
            let kind = if *is_directory { 'd' } else { 'f' };
            text.push_str(&format!("{kind} {}\n", Escaped(path.as_bytes())));
        }
        let directory = self.list.parent().unwrap_or(Path::new(""));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| of_io(&error))?;
        atomic_file::write(&self.list, text.as_bytes(), 0o600, Durability::Synced)
            .map_err(|error| of_io(&error.cause))
    }
}

fn read(text: &str) -> Option<Names> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return None;
    }
    lines
        .map(|line| {
            let (kind, path) = line.split_once(' ')?;
            let path = RelativePath::new(unescape(path).ok()?).ok()?;
            match kind {
                "d" => Some((path, true)),
                "f" => Some((path, false)),
                _ => None,
            }
        })
        .collect()
}

impl Driver<'_> {
    /// Has the destination of an item that is a directory lose what the item has no more. It must be what it was when
    /// it was seen to be complete.
    pub(super) fn make_way(
        &self,
        name: &RelativePath,
        version: Version,
        placed: &Mutex<Placed>,
    ) -> Result<Brought> {
        let scanner = &self.watch.scanner;
        let inside = scanner.look_into(name, &self.looker().reach()?)?;
        if let Some(trouble) = inside.trouble {
            return Err(trouble);
        }
        if inside.version.is_none_or(|now| now.mark != version.mark) {
            return Err(super::changed());
        }
        let results = self.results_beside(name)?;
        let is_kept =
            |path: &RelativePath, is_directory: bool| self.is_kept(name, path, is_directory, &results);
        let mut brought = self.brought(name)?;
        let there = self.watch.destination.below(name.as_bytes());
        self.clear(&mut brought, inside.names, &is_kept, &there, placed)?;
        Ok(brought)
    }

    /// What copies brought of an item that is a directory.
    pub(super) fn brought(&self, name: &RelativePath) -> Result<Brought> {
        Brought::open(self.list_of_item(name))
    }

    /// Tells how much there is at the destination of an item that was copied just now, with these names, and is no part
    /// of it: earlier copies brought it, and the source has it no more.
    pub(super) fn count_stale(&self, name: &RelativePath, brought: &mut Brought, now: &Names) -> Result<u64> {
        let there = self.watch.destination.below(name.as_bytes());
        let results = self.results_beside(name)?;
        let is_kept =
            |path: &RelativePath, is_directory: bool| self.is_kept(name, path, is_directory, &results);
        let stale = brought.stale(now, &is_kept);
        if stale.is_empty() || !keeps(&there) {
            return Ok(0);
        }
        let stands = match standing(&reach_of(&there, &self.far_movers)?, &there, &stale) {
            Ok(stands) => stands,
            // Who may not list there knows of nothing that it is gone.
            Err(failure) if failure.kind == FailureKind::Permission => stale.clone(),
            Err(failure) => return Err(failure),
        };
        brought.forget(stale.keys().filter(|path| !stands.contains_key(*path)).cloned().collect())?;
        let is_same =
            |(path, is_directory): &(&RelativePath, &bool)| stands.get(*path) == Some(*is_directory);
        let mut left = stale.iter().filter(is_same);
        let Some((first, _)) = left.next() else { return Ok(0) };
        let count = 1 + left.count() as u64;
        let text = format!(
            "{} at the destination came with earlier copies, and the source has no more: `{}`{}; remove them there, or \
             have --delete do so before the next copy",
            failure::counted(count, "entry", "entries"),
            failure::shown_path(first.as_bytes()),
            if count > 1 { ", ..." } else { "" },
        );
        (self.tell)(Told::Noted(name, &Event::Note(text)));
        Ok(count)
    }

    /// Whether what a copy brought of an item is somebody else's business by now: it is left out, or is a result too.
    fn is_kept(&self, name: &RelativePath, path: &RelativePath, is_directory: bool, results: &Names) -> bool {
        let whole = RelativePath::new([name.as_bytes(), b"/", path.as_bytes()].concat());
        let is_out = whole.map_or(true, |whole| self.watch.scanner.is_out(&whole, is_directory));
        is_out || results.contains_key(path)
    }

    /// The same for its results, which are in this directory. Without `deletes` their names are only written down.
    pub(super) fn make_way_for_results(
        &self,
        name: &RelativePath,
        directory: &Path,
        there: &Place,
    ) -> Result<Brought> {
        let mut names = Names::new();
        Reach::local(directory.to_owned()).list(true, &mut |found| match found {
            Found::Entry(entry) => {
                if !entry.path.is_root() {
                    names.insert(entry.path, matches!(entry.kind, Kind::Directory));
                }
                Ok(())
            }
            Found::Trouble(failure) => Err(failure),
        })?;
        let item = match self.is_one_place() {
            true => self.brought(name)?.names,
            false => Names::new(),
        };
        let mut brought = Brought::open(self.list_of_results(name))?;
        let is_kept = |path: &RelativePath, _: bool| item.contains_key(path);
        self.clear(&mut brought, names, &is_kept, there, &Mutex::default())?;
        Ok(brought)
    }

    /// Whether results go where items do.
    fn is_one_place(&self) -> bool {
        let destination = text_of(&self.watch.destination, true);
        self.watch.results.as_ref().is_some_and(|results| text_of(results, true) == destination)
    }

    /// What results brought into the item's own directory.
    fn results_beside(&self, name: &RelativePath) -> Result<Names> {
        match self.is_one_place() {
            true => Ok(Brought::open(self.list_of_results(name))?.names),
            false => Ok(Names::new()),
        }
    }

    fn list_of_item(&self, name: &RelativePath) -> PathBuf {
        self.directory.join("brought").join(short(name))
    }

    /// Of the place where results go now: what went elsewhere says nothing of what is there.
    fn list_of_results(&self, name: &RelativePath) -> PathBuf {
        let place = self.watch.results.as_ref().map(|place| text_of(place, true)).unwrap_or_default();
        let place = blake3::hash(place.as_bytes()).to_hex()[..16].to_owned();
        self.directory.join("brought").join(format!("{}-results-{place}", short(name)))
    }

    /// Forgets the oldest names of what is none of these items any more.
    pub(in crate::engine) fn forget_lists<'a>(&self, items: impl Iterator<Item = &'a RelativePath>) {
        forget_past(&self.directory.join("brought"), items, PAST_BYTES_MAX);
    }

    /// Removes `there` what copies brought and is not among `now`, if that was asked for, and writes down what is.
    fn clear(
        &self,
        brought: &mut Brought,
        now: Names,
        is_kept: &dyn Fn(&RelativePath, bool) -> bool,
        there: &Place,
        placed: &Mutex<Placed>,
    ) -> Result<()> {
        let stale = match self.watch.deletes && keeps(there) {
            true => brought.stale(&now, is_kept),
            false => Names::new(),
        };
        if now.is_empty() && !stale.is_empty() {
            let has = failure::counted(stale.len() as u64, "entry", "entries");
            let cause = format!(
                "`{}`: nothing was deleted: it is empty at the source, and {has} there came of it; is it mounted?",
                failure::shown_path(there.to_string().as_bytes())
            );
            return Err(Failure::new(FailureKind::Conflict, WATCH, cause));
        }
        if !stale.is_empty() {
            brought.gone = remove(&reach_of(there, &self.far_movers)?, there, &stale, placed)?;
            // What is there in its place by now is written down as that.
            brought.gone.retain(|path| !now.contains_key(path));
        }
        brought.add(now)
    }
}

/// Whether something can be there that is to be removed.
fn keeps(there: &Place) -> bool {
    matches!(there, Place::Local(_) | Place::Daemon { .. } | Place::Ssh { .. } | Place::Object { .. })
}

/// Which of these names something has there, and whether that is a directory. A list leads through no link.
fn standing(reach: &Reach, there: &Place, stale: &Names) -> Result<Names> {
    let is_in_bucket = there.is_in_bucket();
    if !is_in_bucket {
        match reach.itself() {
            Ok(entry) if matches!(entry.kind, Kind::Directory) => {}
            Ok(_) => {
                let cause = format!(
                    "`{}`: what the source has no more is not deleted there: it is no directory",
                    failure::shown_path(there.to_string().as_bytes())
                );
                return Err(Failure::new(FailureKind::Conflict, WATCH, cause));
            }
            Err(failure) if failure.kind == FailureKind::NotFound => return Ok(Names::new()),
            Err(failure) => return Err(failure),
        }
    }
    let mut stands = Names::new();
    let listed = reach.list(true, &mut |found| match found {
        Found::Entry(entry) => {
            if stale.contains_key(&entry.path) {
                stands.insert(entry.path, matches!(entry.kind, Kind::Directory));
            }
            Ok(())
        }
        Found::Trouble(failure) => Err(failure),
    });
    match listed {
        Err(failure) if !(is_in_bucket && failure.kind == FailureKind::NotFound) => Err(failure),
        _ => Ok(stands),
    }
}

/// Removes these; those that are gone by now.
fn remove(reach: &Reach, there: &Place, stale: &Names, placed: &Mutex<Placed>) -> Result<Vec<RelativePath>> {
    let stands = standing(reach, there, stale)?;
    let mut gone = Vec::new();
    // What is in a directory comes behind it.
    for (path, is_directory) in stale.iter().rev() {
        match stands.get(path) {
            None => {}
            Some(stands) if stands != is_directory => continue,
            Some(true) if there.is_in_bucket() => continue,
            Some(is_directory) => {
                let removed = remove_one(reach, path, *is_directory);
                // One that is refused changed nothing.
                let is_refused = removed.as_ref().is_err_and(|failure| failure.reason == Reason::NotDeleted);
                lock(placed).has_entries |= !is_refused;
                if !removed? {
                    continue;
                }
            }
        }
        gone.push(path.clone());
    }
    Ok(gone)
}

/// Removes one, a directory only if nothing is in it; whether it is gone.
fn remove_one(reach: &Reach, path: &RelativePath, is_directory: bool) -> Result<bool> {
    let slash: &[u8] = if is_directory { b"/" } else { b"" };
    let mut trouble = None;
    let removed = reach.below(&[path.as_bytes(), slash].concat()).remove(false, &mut 0, &mut |failure| {
        trouble.get_or_insert(failure);
    });
    match trouble.map_or(removed, Err) {
        Ok(()) => Ok(true),
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(true),
        // Somebody else's is in it, or in its place.
        Err(failure) if failure.kind == FailureKind::Conflict => Ok(false),
        // Waiting does not change who may delete there.
        Err(failure) if failure.kind == FailureKind::Permission => {
            Err(failure.at(path).because(Reason::NotDeleted))
        }
        Err(failure) => Err(failure),
    }
}

/// Removes the oldest lists of what is none of these items, beyond so many bytes. What cannot be removed stays until
/// the next time.
fn forget_past<'a>(directory: &Path, items: impl Iterator<Item = &'a RelativePath>, bytes_max: u64) {
    let Ok(lists) = std::fs::read_dir(directory) else { return };
    let items: HashSet<String> = items.map(short).collect();
    let is_past = |name: &str| {
        let item = name.split_once('-').map_or(name, |(item, _)| item);
        // One that is being written has a dot before its name.
        !name.starts_with('.') && !items.contains(item)
    };
    let mut past: Vec<_> = lists
        .flatten()
        .filter(|list| list.file_name().to_str().is_some_and(is_past))
        .filter_map(|list| {
            let metadata = list.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), list.path()))
        })
        .collect();
    past.sort_unstable();
    let mut bytes = 0_u64;
    for (_, list_bytes, path) in past.into_iter().rev() {
        bytes = bytes.saturating_add(list_bytes.max(LIST_BYTES_MIN));
        if bytes > bytes_max {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[(&str, bool)]) -> Names {
        of.iter().map(|(path, is)| (RelativePath::new((*path).into()).unwrap(), *is)).collect()
    }

    /// As old as their numbers say.
    #[test]
    fn of_what_is_over_the_oldest_lists_go_and_of_what_is_there_none() {
        let scratch = tempfile::tempdir().unwrap();
        let [first, second, third, here] =
            ["first", "second", "third", "here"].map(|name| RelativePath::new(name.into()).unwrap());
        let lists = [
            (4, short(&third)),
            (3, format!("{}-results-0123456789abcdef", short(&second))),
            (2, short(&first)),
            (1, short(&here)),
            (1, format!("{}-results-0123456789abcdef", short(&here))),
            (1, ".being-written".to_owned()),
        ];
        for (seconds, name) in &lists {
            let file = std::fs::File::create(scratch.path().join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(*seconds)).unwrap();
        }
        let stands =
            || lists.iter().map(|(_, name)| scratch.path().join(name).exists()).collect::<Vec<bool>>();
        forget_past(scratch.path(), [&here].into_iter(), 3 * LIST_BYTES_MIN);
        assert_eq!(stands(), [true; 6]);
        forget_past(scratch.path(), [&here].into_iter(), 2 * LIST_BYTES_MIN);
        assert_eq!(stands(), [true, true, false, true, true, true]);
        forget_past(&scratch.path().join("nothing"), [&here].into_iter(), 0);
    }

    #[test]
    fn what_was_copied_is_stale_where_the_source_has_it_no_more_or_as_something_else() {
        let scratch = tempfile::tempdir().unwrap();
        let list = scratch.path().join("brought/one");
        let mut brought = Brought::open(list.clone()).unwrap();
        let before =
            [("a", false), ("d", true), ("d/b", false), ("e", true), ("odd\nname", false), ("x", true)];
        brought.add(names(&before)).unwrap();
        let mut brought = Brought::open(list.clone()).unwrap();
        // A bucket does not list the directory in which something is.
        let now = names(&[("a", false), ("d/c", false), ("x", false)]);
        let stale = brought.stale(&now, &|path, _| path.as_bytes() == b"e");
        assert_eq!(stale, names(&[("d/b", false), ("odd\nname", false), ("x", true)]));
        brought.gone = vec![RelativePath::new(b"d/b".to_vec()).unwrap()];
        brought.add(now).unwrap();
        let known = || Brought::open(list.clone()).unwrap().names;
        assert_eq!(known().get(&brought.gone[0]), Some(&false), "until a copy has ended well");
        brought.end(Names::new(), true).unwrap();
        assert_eq!(known(), brought.names);
        assert!(!known().keys().any(|path| path.as_bytes() == b"d/b"));
        std::fs::write(&list, "words\n").unwrap();
        assert_eq!(Brought::open(list).map(|_| ()).unwrap_err().kind, FailureKind::Damage);
    }
}
