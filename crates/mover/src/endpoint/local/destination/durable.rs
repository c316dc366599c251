//! Makes what was done survive a power cut, and notes it.
//!
//! A few files and directories are synced one by one. Many are synced with their whole file system: one call instead
//! of thousands, and it waits for other processes' data too. Each file system is synced through a descriptor that was
//! opened before anything was written there, so errors of writing back since then are reported to us. Where one call
//! syncs nothing ([`syncs_whole`](thalweg_sys::FileSystemKind::syncs_whole)), each file is synced as soon as it is
//! written, and each directory with the rest.
//!
//! An error is final (fsync's second answer proves nothing): every later sync and record fails the same way, and
//! what was not recorded before is sent again by the next attempt, into files that are read back from the medium
//! first.

use super::{LocalDestination, Place};
use crate::endpoint::local::staging::territory::Territory;
use crate::endpoint::local::{at_words, errno, failed, failed_at_words, is_errno, lock};
use crate::endpoint::{Decision, PartialFile};
use crate::failure::{Failure, Result};
use crate::journal::Journal;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Dir, File};
use thalweg_wire::message::Outcome;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Up to this many things are synced one by one; each costs a flush of the disk's cache. On ext4 with 100 to 400 MB
/// that others had just written, 8 files took 2 to 7 ms one by one and 40 to 70 ms with their file system; 16 took as
/// long either way; with nothing of others, 32 took eight times as long one by one.
const SINGLE_MAX: usize = 8;
/// Directories that wait for their own sync on file systems that do not sync as a whole; each is a descriptor.
const APART_MAX: usize = 128;

/// What no sync covers yet.
#[derive(Default)]
pub(super) struct Changed {
    dirs: HashMap<Vec<u8>, Arc<Dir>>,
    files: Vec<Arc<File>>,
    /// Directories of file systems that do not sync as a whole: never part of `everything`.
    apart: HashMap<Vec<u8>, Arc<Dir>>,
    /// More than can be listed, or something that has no single descriptor.
    everything: bool,
}

impl Changed {
    fn add_dir(&mut self, path: &[u8], dir: &Arc<Dir>, syncs_whole: bool) {
        if !syncs_whole {
            self.apart.insert(path.to_vec(), dir.clone());
        } else if !self.everything {
            self.dirs.insert(path.to_vec(), dir.clone());
            self.check();
        }
    }

    fn check(&mut self) {
        if self.dirs.len() + self.files.len() > SINGLE_MAX {
            self.everything = true;
        }
        if self.everything {
            self.dirs.clear();
            self.files.clear();
        }
    }
}

/// What no sync covers yet, and whether one failed.
#[derive(Default)]
pub(super) struct Durability {
    changed: Mutex<Changed>,
    /// The first sync that failed. Nothing is believed after it.
    failed: Mutex<Option<Failure>>,
    /// Held while file systems are synced: who finds none that is dirty counts on it.
    syncing: Mutex<()>,
}

impl Durability {
    /// Nothing is believed any more after a failed sync.
    ///
    /// # Errors
    /// What that said.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.failed).clone().map_or(Ok(()), Err)
    }

    /// A sync failed: the first one that did, which counts.
    fn fail(&self, failure: Failure) -> Failure {
        lock(&self.failed).get_or_insert(failure).clone()
    }

    /// A directory above the root got a name.
    pub(super) fn changed_above_root(&self, dir: Arc<Dir>) {
        let mut changed = lock(&self.changed);
        // No path of an entry starts with a slash.
        let key = format!("/{}", changed.dirs.len()).into_bytes();
        changed.dirs.insert(key, dir);
    }
}

impl LocalDestination {
    /// Names changed in the directory at `path`. Call after the change.
    pub(super) fn changed_dir(&self, path: &[u8], dir: &Arc<Dir>, territory: &Territory) {
        territory.touch();
        let mut changed = lock(&self.durability.changed);
        changed.add_dir(path, dir, territory.syncs_whole);
        if changed.apart.len() > APART_MAX {
            // Under the lock: a sync that comes meanwhile must not end before this one. Whether it failed, the next
            // one says.
            let _ = self.sync_apart(std::mem::take(&mut changed.apart));
        }
    }

    /// Names changed in the directory of the entry at `path`.
    pub(super) fn changed_parent(&self, path: &RelativePath, place: &Place) {
        let path = self.final_path(path);
        let parent = path.split().map_or(&[][..], |(parent, _)| parent);
        if parent == place.territory.path.as_slice() {
            place.territory.top_is_changed.store(true, Ordering::Release);
        }
        self.changed_dir(parent, &place.dir, &place.territory);
    }

    /// An open file was written, or its metadata changed. Call after the change, and before the file counts as written.
    pub(super) fn changed_file(&self, file: &Arc<File>, territory: &Territory) {
        territory.touch();
        if !territory.syncs_whole {
            match file.sync_all() {
                // It knows no sync of a file: there is nothing else to call, and what that says is kept.
                Err(error) if is_unknown(&error) => {
                    let _ = self.sync_file_systems();
                }
                // The next sync says so.
                Err(error) => {
                    self.fail("sync a file below", None, &error);
                }
                Ok(()) => {}
            }
            return;
        }
        let mut changed = lock(&self.durability.changed);
        if !changed.everything {
            changed.files.push(file.clone());
            changed.check();
        }
    }

    /// The metadata of the file `name` changed, which is not open.
    pub(super) fn changed_by_name(&self, path: &RelativePath, place: &Place, name: &[u8]) {
        self.changed_loosely(&place.territory);
        if place.territory.syncs_whole {
            return;
        }
        match self.with_descriptors(|| place.dir.open_read(name)) {
            Ok(file) => self.changed_file(&Arc::new(file), &place.territory),
            // One that we may not read: its directory is the nearest thing that can be synced.
            Err(_) => self.changed_parent(path, place),
        }
    }

    /// A name that stands there is durable before the source's goes for it, whoever gave it; whether there is one to
    /// go.
    pub(super) fn lasts_for_source(&self, path: &RelativePath, place: &Place) -> bool {
        let goes = self.terms.removes_source && !self.terms.dry_run;
        if goes {
            self.changed_parent(path, place);
            self.changed_loosely(&place.territory);
        }
        goes
    }

    /// The name of a directory that stands there, which another part of the same copy may have given a moment ago, is
    /// synced as if we had. Whether the word waits for that.
    pub(super) fn lasts_for_part(&self, path: &RelativePath, place: &Place) -> bool {
        let is_shared = self.terms.part.is_some() && !self.terms.dry_run;
        if is_shared {
            let path = self.final_path(path);
            let parent = path.split().map_or(&[][..], |(parent, _)| parent);
            self.changed_dir(parent, &place.dir, &place.territory);
        }
        is_shared && !place.territory.syncs_whole
    }

    /// Something changed that only a sync of the whole covers. Where there is none, the caller names the directory too:
    /// a link, FIFO or device cannot be synced by itself.
    pub(super) fn changed_loosely(&self, territory: &Territory) {
        territory.touch();
        if !territory.syncs_whole {
            return;
        }
        let mut changed = lock(&self.durability.changed);
        changed.everything = true;
        changed.check();
    }

    pub(super) fn sync_written(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        self.durability.check()?;
        self.nurseries.before_sync();
        self.sync_changed(partials)?;
        self.nurseries.after_sync();
        Ok(())
    }

    fn sync_changed(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        let mut changed = std::mem::take(&mut *lock(&self.durability.changed));
        let files = self.flights.open_of(partials);
        files.iter().for_each(|partial| partial.territory.touch());
        let is_all_open = partials.len() == files.len();
        let (whole, apart): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|partial| partial.territory.syncs_whole);
        for partial in &apart {
            partial.file.sync_data().map_err(|error| self.fail("sync", Some(&partial.path), &error))?;
        }
        self.sync_apart(std::mem::take(&mut changed.apart))?;
        let single = whole.len() + changed.dirs.len() + changed.files.len();
        // Directories above the root may be on a file system of their own.
        let above: Vec<_> = changed.dirs.extract_if(|path, _| path.starts_with(b"/")).collect();
        for (_, dir) in &above {
            dir.sync().map_err(|error| self.fail("sync a directory above", None, &error))?;
        }
        if changed.everything || single > SINGLE_MAX || !is_all_open {
            return self.sync_file_systems();
        }
        for partial in &whole {
            partial.file.sync_data().map_err(|error| self.fail("sync", Some(&partial.path), &error))?;
        }
        for file in &changed.files {
            file.sync_all().map_err(|error| self.fail("sync a file below", None, &error))?;
        }
        for (path, dir) in &changed.dirs {
            match dir.sync() {
                // May be passed through, not read: then only with everything else.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return self.sync_file_systems();
                }
                other => other.map_err(|error| {
                    let path = RelativePath::new(path.clone()).ok();
                    self.fail("sync a directory", path.as_ref(), &error)
                })?,
            }
        }
        Ok(())
    }

    /// Syncs directories of file systems that do not sync as a whole, each by itself.
    fn sync_apart(&self, dirs: HashMap<Vec<u8>, Arc<Dir>>) -> Result<()> {
        for (path, dir) in dirs {
            match dir.sync() {
                // Removed since, with its names.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // May be passed through, not read: there is nothing else to call than this.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.sync_file_systems()?,
                other => other.map_err(|error| {
                    let path = RelativePath::new(path).ok();
                    self.fail("sync a directory", path.as_ref(), &error)
                })?,
            }
        }
        Ok(())
    }

    /// Whether an earlier attempt of this job did not come to its end.
    pub(super) fn goes_on(&self) -> bool {
        lock(&self.journal).as_ref().is_some_and(Journal::goes_on)
    }

    /// The decision on an entry, [after the past](Self::after_the_past) where it builds on that.
    pub(super) fn on_the_past(&self, entry: &Entry, decision: Decision) -> Result<Decision> {
        match self.builds_on_the_past(entry, &decision) {
            true => self.after_the_past(entry, decision),
            false => Ok(decision),
        }
    }

    /// Whether what is told of an entry goes by what was there before us. A directory that is to look otherwise only
    /// where an earlier attempt of this job may have made it: any other was there for long, and a sync of all is dear.
    fn builds_on_the_past(&self, entry: &Entry, decision: &Decision) -> bool {
        let builds = match decision {
            Decision::Wanted { .. }
            | Decision::Elsewhere { left: Some(_) }
            | Decision::Settled { outcome: Outcome::Unchanged { .. }, .. } => true,
            Decision::Settled { outcome: Outcome::Done { .. }, made: false } => {
                // Anything else is told as it stands there, with what it lost.
                !matches!(entry.kind, Kind::Directory) || self.goes_on()
            }
            _ => false,
        };
        builds && !self.terms.dry_run
    }

    /// [`Self::sync_the_past`] before a decision is told that builds on it. Where that covers no names, the entry's
    /// directory is synced with the next round, and a directory itself: the word waits for it.
    pub(super) fn after_the_past(&self, entry: &Entry, decision: Decision) -> Result<Decision> {
        self.sync_the_past().map_err(|failure| failure.at(&entry.path))?;
        match decision {
            Decision::Settled { outcome, made } => {
                let made = self.changed_in_the_past(entry)? || made;
                Ok(Decision::Settled { outcome, made })
            }
            // Nothing is told before it has its name from us.
            decision => Ok(decision),
        }
    }

    /// Whether no call syncs the whole where an entry has its name, which an attempt that was killed may have given:
    /// then as if we had.
    fn changed_in_the_past(&self, entry: &Entry) -> Result<bool> {
        let path = self.final_path(&entry.path);
        let Some((parent, _)) = path.split() else {
            let Some(root) = &self.root else { return Ok(false) };
            let is_apart = !root.territory.syncs_whole;
            if is_apart {
                self.changed_dir(b"", &root.dir, &root.territory);
            }
            return Ok(is_apart);
        };
        let (place, _) = self.parent_of(&entry.path)?;
        if place.territory.syncs_whole {
            return Ok(false);
        }
        self.changed_dir(parent, &place.dir, &place.territory);
        // One that we may not open has its directory synced all the same: that is the nearest thing.
        if matches!(entry.kind, Kind::Directory)
            && let Ok(own) = self.place(path.as_bytes())
        {
            self.changed_dir(path.as_bytes(), &own.dir, &own.territory);
        }
        Ok(true)
    }

    /// Makes durable what was there before us, once for each file system: an attempt that was killed may have
    /// written and renamed without a sync, and what it left is about to be told as good. A copy into a new place
    /// never pays for this.
    pub(super) fn sync_the_past(&self) -> Result<()> {
        for territory in self.territories.all() {
            let mount = &territory.mount;
            if !mount.past_is_durable.load(Ordering::Acquire) {
                mount
                    .top
                    .sync_file_system()
                    .map_err(|error| self.fail("sync the file system", None, &error))?;
                mount.past_is_durable.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Syncs every file system that something was written to. A stream may be in it while a round comes to it.
    fn sync_file_systems(&self) -> Result<()> {
        let _syncing = lock(&self.durability.syncing);
        // What failed for another thread is not dirty any more.
        self.durability.check()?;
        for territory in self.territories.all() {
            // Cleared before: what is written from here on is for the next one.
            if territory.mount.is_dirty.swap(false, Ordering::AcqRel) {
                territory
                    .mount
                    .top
                    .sync_file_system()
                    .map_err(|error| self.fail("sync the file system", None, &error))?;
            }
        }
        Ok(())
    }

    pub(super) fn record_chunks(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        self.durability.check()?;
        // The journal and the partials need their names to be found again.
        for territory in self.territories.all() {
            let synced = self.with_descriptors(|| territory.sync_names(&self.claim.job));
            synced.map_err(|error| self.fail("sync the staging directory", None, &error))?;
        }
        match &mut *lock(&self.journal) {
            Some(journal) => {
                journal.record(chunks).map_err(|failure| at_words(failure, &self.resolved.words))
            }
            None => Ok(()),
        }
    }

    /// Notes the first sync that failed, and tells it: on the entry at `path`, or else on the destination.
    fn fail(&self, operation: &str, path: Option<&RelativePath>, error: &io::Error) -> Failure {
        let failure = match path {
            Some(path) if !path.as_bytes().is_empty() => failed(operation, path, error),
            _ => failed_at_words(operation, &self.resolved.words, error),
        };
        self.durability.fail(failure)
    }
}

/// Whether the file system has no such call.
fn is_unknown(error: &io::Error) -> bool {
    is_errno(error, errno::INVALID) || is_errno(error, errno::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;
    use crate::endpoint::Destination;
    use crate::endpoint::local::{DestinationPlace, wire_time};
    use crate::filter::Filter;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::sync::atomic::AtomicBool;
    use thalweg_wire::message::{PartOf, Preserve, SourceForm, Terms};
    use thalweg_wire::{EntryId, Evidence};

    /// A file that cannot be synced, being opened for its name only.
    fn never_synced() -> Arc<File> {
        const O_PATH: i32 = 0o10_000_000;
        let opened = std::fs::OpenOptions::new().read(true).custom_flags(O_PATH).open("/").unwrap();
        Arc::new(File::from_fd(OwnedFd::from(opened)))
    }

    /// Neither this: but there it is the file system that knows no such call.
    fn pipe() -> Arc<File> {
        let (_, end) = std::io::pipe().unwrap();
        Arc::new(File::from_fd(OwnedFd::from(end)))
    }

    #[test]
    fn where_no_call_syncs_the_whole_each_file_and_directory_is_synced_by_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let to = opened(&scratch.path().join("to"));
        let top = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut territory = Territory::new(top.clone(), &top.stat_self().unwrap());
        territory.syncs_whole = false;
        to.sync(&[]).unwrap();
        for number in 0..3 * SINGLE_MAX {
            to.changed_dir(format!("d{number}").as_bytes(), &top, &territory);
        }
        to.changed_loosely(&territory);
        {
            let changed = lock(&to.durability.changed);
            assert!(!changed.everything, "a call that does nothing would do for all");
            assert_eq!(changed.apart.len(), 3 * SINGLE_MAX);
        }
        to.sync(&[]).unwrap();
        assert!(lock(&to.durability.changed).apart.is_empty());
        for number in 0..=APART_MAX {
            to.changed_dir(format!("d{number}").as_bytes(), &top, &territory);
        }
        assert!(lock(&to.durability.changed).apart.is_empty(), "each holds a descriptor");
        to.changed_file(&pipe(), &territory);
        to.durability.check().unwrap();
        to.changed_file(&never_synced(), &territory);
        assert_eq!(to.sync(&[]).unwrap_err().operation, "sync a file below");
        to.close(false);
    }

    fn opened(to: &std::path::Path) -> LocalDestination {
        let place = DestinationPlace { path: to.to_owned(), below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { preserve, ..Terms::of(4 << 20, 1 << 20) };
        LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap()
    }

    #[test]
    fn where_a_sync_failed_for_one_thread_another_does_not_find_everything_synced() {
        let scratch = tempfile::tempdir().unwrap();
        let to = opened(scratch.path());
        to.sync_file_systems().unwrap();
        to.durability.fail(Failure::new(FailureKind::Io, "sync", "it failed"));
        assert_eq!(to.sync_file_systems().unwrap_err().kind, FailureKind::Io);
        to.close(false);
    }

    /// `d`, of another time than what is there.
    fn directory() -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(b"d".to_vec()).unwrap(),
            kind: Kind::Directory,
            mode: 0o755,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn a_directory_that_a_killed_attempt_made_is_synced_before_it_is_told_to_be_there() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        let entry = directory();
        for goes_on in [false, true] {
            let to = opened(scratch.path());
            let decision = to.decide(&entry, &|_, _| true);
            assert!(matches!(decision, Decision::Settled { outcome: Outcome::Done { .. }, made: false }));
            let root = to.root.as_ref().unwrap();
            assert_eq!(root.territory.mount.past_is_durable.load(Ordering::Acquire), goes_on);
            to.close(false);
        }
    }

    /// Its name may be that of an attempt that was killed before its sync.
    #[test]
    fn where_no_call_syncs_the_whole_what_stands_there_is_told_when_its_directory_is_synced() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        std::fs::write(scratch.path().join("a"), "1234").unwrap();
        std::fs::hard_link(scratch.path().join("a"), scratch.path().join("b")).unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let (stat, first) = (top.stat(b"d").unwrap(), top.stat(b"a").unwrap());
        let named = |name: &[u8]| RelativePath::new(name.to_vec()).unwrap();
        let entry = Entry {
            id: EntryId(0),
            path: named(b"d"),
            kind: Kind::Directory,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            evidence: Evidence { mtime: wire_time(stat.mtime), ..Evidence::default() },
            xattrs: Vec::new(),
        };
        let mtime = wire_time(first.mtime);
        let second = Entry {
            id: EntryId(2),
            path: named(b"b"),
            kind: Kind::HardLink { first: named(b"a"), of: EntryId(1) },
            evidence: Evidence { size: first.size, mtime, ..Evidence::default() },
            ..entry.clone()
        };
        for syncs_whole in [true, false] {
            let mut to = opened(scratch.path());
            let dir = to.root.as_ref().unwrap().dir.clone();
            let mut territory = Territory::new(dir.clone(), &dir.stat_self().unwrap());
            territory.syncs_whole = syncs_whole;
            to.root = Some(Arc::new(Place {
                dir,
                territory: Arc::new(territory),
                is_new: AtomicBool::new(false),
                gid: None,
                had_nursery: AtomicBool::new(false),
            }));
            to.sync(&[]).unwrap();
            let decision = to.decide(&entry, &|_, _| true);
            let Decision::Settled { outcome: Outcome::Unchanged { .. }, made } = decision else { panic!() };
            assert_eq!(made, !syncs_whole);
            let is_noted = || lock(&to.durability.changed).apart.contains_key(&b""[..]);
            assert_eq!(is_noted(), !syncs_whole);
            to.sync(&[]).unwrap();
            let decision = to.link(&second);
            let Decision::Settled { outcome: Outcome::Unchanged { .. }, made } = decision else { panic!() };
            assert_eq!((made, is_noted()), (!syncs_whole, !syncs_whole), "a second name");
            to.sync(&[]).unwrap();
            let outcome = Outcome::Done { digest: None, losses: Vec::new() };
            let kept = to.on_the_past(&second, Decision::Settled { outcome, made: false }).unwrap();
            assert!(matches!(kept, Decision::Settled { made, .. } if made != syncs_whole));
            assert_eq!(is_noted(), !syncs_whole, "what is told with its losses");
            to.close(false);
        }
    }

    /// Of a copy without parts, one that is only to look otherwise was there for long.
    #[test]
    fn the_name_of_a_directory_that_another_part_may_just_have_made_is_synced() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        let entry = directory();
        for part in [None, PartOf::new(1, 2)] {
            let mut to = opened(scratch.path());
            to.terms.part = part;
            to.sync(&[]).unwrap();
            let decision = to.decide(&entry, &|_, _| true);
            assert!(matches!(decision, Decision::Settled { outcome: Outcome::Done { .. }, .. }));
            let is_noted = {
                let changed = lock(&to.durability.changed);
                let is_there = |dirs: &HashMap<Vec<u8>, Arc<Dir>>| dirs.contains_key(&b""[..]);
                changed.everything || is_there(&changed.dirs) || is_there(&changed.apart)
            };
            assert_eq!(is_noted, part.is_some());
            to.close(false);
        }
    }

    #[test]
    fn many_changes_of_a_file_system_that_syncs_as_a_whole_are_one_sync() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut changed = Changed::default();
        for number in 0..=SINGLE_MAX {
            changed.add_dir(format!("d{number}").as_bytes(), &dir, true);
        }
        assert!(changed.everything && changed.dirs.is_empty() && changed.apart.is_empty());
    }
}
