//! Removes objects that the source does not have: only below directories that it offered, only after it was listed in
//! full, counted first and bounded; as a directory's entries go, with what is different in a bucket:
//!
//! - An object goes as the version that was listed. What took its place since stays, and is told.
//! - A directory is none that could be counted, but by its marker, which goes when nothing in it stays.
//! - What has the name of a directory of the source, or is in what has the name of a file, is a conflict, and stays.
//! - Where an object that would go may be one that the source offered, nothing goes: both may be one bucket.
//!
//! Left alone: names that the filter excludes and what is in excluded directories, keys that are no paths, and what
//! uploads left.
//!
//! Memory does not grow with the bucket: the names offered are on disk, and what goes is listed twice, once to be
//! counted and once to be removed.

use super::ObjectDestination;
use crate::bucket::version_of;
use crate::http::REQUESTS_MAX;
use crate::location::why_no_path;
use crate::store::{Listed, Removed, Seen};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_mover::endpoint::deletion::{self, DELETE, Doomed, Offered, Tops, as_directory, as_unlisted};
use thalweg_mover::endpoint::local::destination::nameless_in;
use thalweg_mover::endpoint::{Conclusion, Listing};
use thalweg_mover::failure::{self, counted};
use thalweg_mover::filter::Filter;
use thalweg_mover::journal::catalogue::OnDiskSet;
use thalweg_mover::mutex::lock;
use thalweg_mover::several::at_once;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_sys::Dir;
use thalweg_wire::limits::DELETED_TOLD_MAX;
use thalweg_wire::message::FilterRule;
use thalweg_wire::{Entry, Evidence, Kind, RelativePath};

/// Objects that are removed together: each thread has some.
const BATCH: usize = 2 * REQUESTS_MAX;
/// What could not be removed is told one by one up to here; the others as a number.
const TOLD_MAX: usize = 1000;

/// Files without a name that this process made.
static NAMELESS: AtomicU64 = AtomicU64::new(0);

/// What says which objects may go, and how many went.
pub(super) struct Deletion {
    is_wanted: bool,
    /// Names that stay, whatever the source has.
    protect: Filter,
    /// `None`: nothing is deleted.
    offered: Mutex<Option<Offered>>,
    tops: Tops,
    directory_is_offered: AtomicBool,
    /// Removed at the ends so far.
    gone: Mutex<u64>,
}

impl Deletion {
    /// If something `is_wanted` to go, it keeps the names offered in `state`; without, where the system has temporary
    /// files.
    pub(super) fn new(is_wanted: bool, protect: &[FilterRule], state: Option<&Path>) -> Result<Deletion> {
        let of_io = |error: io::Error| failure::of_io("keep the names offered", &error);
        let offered = if is_wanted { Some(names_in(state).map_err(of_io)?) } else { None };
        Ok(Deletion {
            is_wanted,
            protect: Filter::new(protect.to_vec())?,
            offered: Mutex::new(offered),
            tops: Tops::default(),
            directory_is_offered: AtomicBool::new(false),
            gone: Mutex::default(),
        })
    }

    /// The source has this entry: its name stays.
    pub(super) fn offer(&self, entry: &Entry) {
        if self.is_wanted {
            self.tops.offer(&entry.path);
        }
        let is_directory = matches!(entry.kind, Kind::Directory);
        if is_directory {
            self.directory_is_offered.store(true, Ordering::Relaxed);
        }
        let name = entry.path.as_bytes();
        let Evidence { size, ctime, device, inode, .. } = entry.evidence;
        self.keep(|offered| {
            offered.insert(name)?;
            // An object that is read: what is on disk has a device.
            if entry.content_bytes() > 0 && device == 0 {
                offered.insert(&as_version(size, ctime.seconds, inode))?;
            }
            if is_directory { offered.insert(&as_directory(name)) } else { Ok(()) }
        });
    }

    /// The source has this name and does not send it: what is there stays, with all that is in it.
    pub(super) fn skip(&self, path: &RelativePath) {
        if self.is_wanted {
            self.tops.fill(path);
        }
        self.keep(|offered| {
            offered.insert(path.as_bytes())?;
            offered.insert(&as_unlisted(path.as_bytes()))
        });
    }

    /// Without the whole list nothing may be deleted.
    fn keep(&self, add: impl FnOnce(&mut Offered) -> io::Result<()>) {
        let mut offered = lock(&self.offered);
        let Some(set) = &mut *offered else { return };
        if let Err(error) = add(set) {
            tracing::warn!(%error, "the names offered cannot be kept; nothing will be deleted");
            *offered = None;
        }
    }

    /// Lets go of the names.
    pub(super) fn forget(&self) {
        lock(&self.offered).take();
    }

    /// Whether the source lacks what is at this path below the prefix, and it may go.
    fn lacks(&self, offered: &Offered, path: &str, is_directory: bool) -> io::Result<bool> {
        let mut is_doomed = false;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let name = &path[..end];
            let is_last = end == path.len();
            if !is_doomed && offered.contains(name.as_bytes())? {
                let goes_on = !is_last
                    && offered.contains(&as_directory(name.as_bytes()))?
                    && !offered.contains(&as_unlisted(name.as_bytes()))?;
                if goes_on {
                    continue;
                }
                return Ok(false);
            }
            // Where the root itself is not the source's, what else is in it is not our business.
            if !is_doomed && !name.contains('/') && !self.tops.has_root() {
                return Ok(false);
            }
            let is_protected = RelativePath::new(name.as_bytes().to_vec())
                .map_or(true, |name| !self.protect.decide(&name, !is_last || is_directory).included);
            if is_protected {
                return Ok(false);
            }
            is_doomed = true;
        }
        Ok(is_doomed)
    }
}

/// What stands for a version of an object in the set of names offered: no name has a zero byte.
fn as_version(size: u64, seconds: i64, version: u64) -> Vec<u8> {
    [&b"\0"[..], &size.to_le_bytes(), &seconds.to_le_bytes(), &version.to_le_bytes()].concat()
}

fn names_in(state: Option<&Path>) -> io::Result<Offered> {
    // A dry run has none, perhaps.
    let dir = state.and_then(|state| Dir::open(state).ok());
    OnDiskSet::new(Box::new(move || {
        let file = nameless_in(dir.as_ref(), NAMELESS.fetch_add(1, Ordering::Relaxed))?;
        Ok(std::fs::File::from(std::os::fd::OwnedFd::from(file)))
    }))
}

impl ObjectDestination {
    pub(super) fn delete_all(
        &self,
        listing: Listing,
        goes_on: &dyn Fn() -> bool,
        conclusion: &mut Conclusion,
    ) {
        let Some(delete_max) = self.terms.delete_max else { return };
        let mut gone = lock(&self.deletion.gone);
        conclusion.deleted = *gone;
        if listing == Listing::Partial {
            conclusion.troubles.push(deletion::not_listed());
            return;
        }
        // Held to the end: a name that is offered meanwhile waits, and another end finds it among the others.
        let offered = lock(&self.deletion.offered);
        let Some(offered) = &*offered else {
            conclusion.troubles.push(deletion::not_kept());
            return;
        };
        let (doomed, failed) = Sweep::of(self, (offered, listing), None, goes_on, &mut Vec::new()).all();
        if let Some(failed) = failed {
            self.tell_failed(failed, conclusion);
            return;
        }
        let (source, is_any) = ((&self.deletion.tops, listing), doomed.count > 0);
        if !doomed.may_go(source, delete_max, self.terms.dry_run, conclusion) || !is_any {
            return;
        }
        let left_max = delete_max.saturating_sub(conclusion.deleted);
        let sweep = Sweep::of(self, (offered, listing), Some(left_max), goes_on, &mut conclusion.troubles);
        let (deleted, failed) = sweep.all();
        *gone += deleted.count;
        if let Some(failed) = failed {
            self.tell_failed(failed, conclusion);
        }
        deleted.tell(conclusion);
    }

    /// Of a store that is away nothing is known: not even whether all else is there.
    fn tell_failed(&self, failed: Failure, conclusion: &mut Conclusion) {
        match self.shared.bucket.lost() {
            Some(lost) => conclusion.failed = Some(lost),
            None => conclusion.troubles.push(failed),
        }
    }
}

/// One listing of what may have to go.
struct Sweep<'a> {
    destination: &'a ObjectDestination,
    offered: &'a Offered,
    listing: Listing,
    /// `None`: only count.
    remove_max: Option<u64>,
    goes_on: &'a dyn Fn() -> bool,
    troubles: &'a mut Vec<Failure>,
    /// Troubles beyond those that are told one by one.
    untold: u64,
    doomed: Doomed,
    /// About to be removed.
    batch: Vec<Listed>,
    /// Markers of directories that the source lacks, each in the one before, and whether something in it stays.
    markers: Vec<(Listed, bool)>,
    /// The key before.
    last: String,
    /// Keys came in order; otherwise nobody knows what else is in a directory, and markers stay.
    is_ordered: bool,
}

impl<'a> Sweep<'a> {
    fn of(
        destination: &'a ObjectDestination,
        (offered, listing): (&'a Offered, Listing),
        remove_max: Option<u64>,
        goes_on: &'a dyn Fn() -> bool,
        troubles: &'a mut Vec<Failure>,
    ) -> Sweep<'a> {
        Sweep {
            destination,
            offered,
            listing,
            remove_max,
            goes_on,
            troubles,
            untold: 0,
            doomed: Doomed::default(),
            batch: Vec::new(),
            markers: Vec::new(),
            last: String::new(),
            is_ordered: true,
        }
    }

    /// What goes, or went; and why that is not all.
    fn all(mut self) -> (Doomed, Option<Failure>) {
        let failed = self.run().err();
        if self.untold > 0 {
            let untold = counted(self.untold, "more object", "more objects");
            let cause = format!("{untold} could not be deleted");
            self.troubles.push(Failure::new(FailureKind::Io, DELETE, cause));
        }
        (self.doomed, failed)
    }

    fn run(&mut self) -> Result<()> {
        let ObjectDestination { deletion, prefix, shared, .. } = self.destination;
        if deletion.tops.has_root() {
            return self.below(prefix);
        }
        if !deletion.directory_is_offered.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut after = None;
        loop {
            self.go_on()?;
            let page = shared.bucket.list(prefix, true, after.as_deref())?;
            for below in &page.prefixes {
                let Some(name) = below.strip_prefix(prefix.as_str()) else { continue };
                // With the slash at its end, as it stands there for a directory.
                if self.offered.contains(name.as_bytes()).map_err(|error| of_names(&error))? {
                    self.below(below)?;
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Tells that it goes on.
    ///
    /// # Errors
    /// `Stopped`, if nobody wants it to.
    fn go_on(&self) -> Result<()> {
        let cause = "it was stopped before all was deleted that the source lacks";
        if (self.goes_on)() { Ok(()) } else { Err(Failure::new(FailureKind::Stopped, DELETE, cause)) }
    }

    /// All keys that begin with this.
    fn below(&mut self, prefix: &str) -> Result<()> {
        let mut after = None;
        loop {
            self.go_on()?;
            let page = self.destination.shared.bucket.list(prefix, false, after.as_deref())?;
            for listed in page.objects {
                self.object(listed)?;
            }
            after = page.next;
            if after.is_none() {
                self.leave("")?;
                return self.remove_batch();
            }
        }
    }

    fn object(&mut self, listed: Listed) -> Result<()> {
        self.is_ordered &= self.last.is_empty() || listed.key > self.last;
        listed.key.clone_into(&mut self.last);
        self.leave(&listed.key)?;
        // The marker of the destination itself is none of its names.
        let ObjectDestination { deletion, prefix, .. } = self.destination;
        let rest = listed.key.strip_prefix(prefix.as_str()).filter(|rest| !rest.is_empty());
        let Some(rest) = rest else { return Ok(()) };
        let marker = rest.strip_suffix('/').filter(|_| listed.seen.size == 0);
        let path = marker.unwrap_or(rest);
        // Some stores put that in the place of what their lists cannot say: another object may have the name.
        let is_clear = !path.contains(char::REPLACEMENT_CHARACTER);
        let is_path =
            is_clear && why_no_path(path).is_none() && RelativePath::new(path.as_bytes().to_vec()).is_ok();
        let of_names = |error: io::Error| of_names(&error);
        let lacks = is_path && deletion.lacks(self.offered, path, marker.is_some()).map_err(of_names)?;
        let is_spared = lacks && deletion.tops.is_in_empty(path.as_bytes(), self.listing);
        if is_spared {
            self.doomed.spared.add(path.as_bytes());
        }
        if !lacks || is_spared {
            self.keeps(&listed.key);
        } else if marker.is_some() {
            self.markers.push((listed, false));
        } else {
            self.doom(listed)?;
        }
        Ok(())
    }

    /// Goes on behind directories that this key is not in; none is in `""`.
    fn leave(&mut self, key: &str) -> Result<()> {
        while self.markers.last().is_some_and(|(marker, _)| !key.starts_with(marker.key.as_str())) {
            // Whether all in it is gone shows now.
            self.remove_batch()?;
            let Some((marker, keeps)) = self.markers.pop() else { return Ok(()) };
            if keeps || !self.is_ordered {
                self.keeps(&marker.key);
            } else {
                self.doom(marker)?;
            }
        }
        Ok(())
    }

    /// What has this key stays, and so do the directories that it is in.
    fn keeps(&mut self, key: &str) {
        for (marker, keeps) in &mut self.markers {
            *keeps |= key.starts_with(marker.key.as_str());
        }
    }

    /// Counts one object, or removes it soon.
    fn doom(&mut self, listed: Listed) -> Result<()> {
        let Some(remove_max) = self.remove_max else {
            if self.may_be_offered(&listed.seen)? {
                let cause = "nothing was deleted: this object would be, and may be one of the source: both \
                             may be one bucket at two addresses";
                let failure = Failure::new(FailureKind::Usage, DELETE, cause);
                return Err(failure.at(&self.path_of(&listed.key)));
            }
            self.count(&listed.key);
            return Ok(());
        };
        // More may have come since they were counted.
        if self.doomed.count + self.batch.len() as u64 >= remove_max {
            self.keeps(&listed.key);
            return Ok(());
        }
        self.batch.push(listed);
        if self.batch.len() < BATCH { Ok(()) } else { self.remove_batch() }
    }

    /// Whether this may be what the source offered, under whatever name. Without content many objects are alike.
    fn may_be_offered(&self, seen: &Seen) -> Result<bool> {
        let version = as_version(seen.size, seen.modified.seconds, version_of(&seen.etag));
        Ok(seen.size > 0 && self.offered.contains(&version).map_err(|error| of_names(&error))?)
    }

    fn remove_batch(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let destination = self.destination;
        let bucket = &*destination.shared.bucket;
        let remove = |listed: &Listed| match bucket.lost() {
            Some(lost) => Err(lost),
            None => bucket.remove(&listed.key, &listed.seen),
        };
        let removed = at_once("delete", destination.shared.threads.requests_at_once(0), &batch, remove);
        let lost = bucket.lost();
        for (listed, removed) in batch.into_iter().zip(removed) {
            let failure = match removed {
                Ok(Removed::Ours) => {
                    self.count(&listed.key);
                    continue;
                }
                // Somebody else removed it.
                Ok(Removed::Gone) => continue,
                Ok(Removed::Other) => {
                    let cause = "something else stands there than was listed, and stays";
                    Failure::new(FailureKind::Conflict, DELETE, cause)
                }
                // Told once, for all.
                Err(_) if lost.is_some() => continue,
                Err(failure) => failure,
            };
            self.keeps(&listed.key);
            let failure = failure.at(&self.path_of(&listed.key));
            match self.troubles.len() < TOLD_MAX {
                true => self.troubles.push(failure),
                false => self.untold += 1,
            }
        }
        lost.map_or(Ok(()), Err)
    }

    fn count(&mut self, key: &str) {
        self.doomed.count += 1;
        if self.doomed.names.len() < DELETED_TOLD_MAX {
            let path = self.path_of(key);
            self.doomed.names.push(path);
        }
    }

    /// Its name below the prefix; of a marker that of its directory.
    fn path_of(&self, key: &str) -> RelativePath {
        let below = key.strip_prefix(self.destination.prefix.as_str()).unwrap_or(key);
        let below = below.strip_suffix('/').unwrap_or(below);
        RelativePath::new(below.as_bytes().to_vec()).unwrap_or_default()
    }
}

fn of_names(error: &io::Error) -> Failure {
    failure::of_io(DELETE, error)
}
