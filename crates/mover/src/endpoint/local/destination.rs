//! A destination on local file systems: state shared by everything that is done there, and how it is opened.
//!
//! Promises and where they are kept: nothing but the old or the whole new content stands under a final name
//! ([`finish`]); nothing outside the root is touched (every name is reached through a held
//! directory that was opened without following links); what [`sync`](Destination::sync) returned for survives a
//! power cut ([`durable`]); after success nothing of ours is left, after failure everything is in
//! the staging directories ([`staging`]).
//!
//! Not guaranteed: that a name which somebody changes in the instant between our last look and the rename is
//! noticed. It is replaced then, as if it had been changed before.
//!
//! In the order in which an entry meets its files:
//!
//! - [`decide`] looks at what stands there, by [`exact_names`] where several names are one; [`guard`] says what is not
//!   done although it could be; [`displace`] makes way where something of another kind stands; [`resume`] and
//!   [`recheck`] tell what an earlier attempt left; [`elsewhere`] looks for content under other names;
//! - [`small`] takes whole small files into staging, [`durable`] makes what is staged survive a power cut, and
//!   [`finish`] gives it its name;
//! - meanwhile [`flight`] has entries that are decided and not settled, [`shared_inodes`] which entry keeps a file of
//!   several names, [`foretold`] what became of first names, [`kept_whole`] for what the source may not go, and
//!   [`spool`] the metadata of directories;
//! - [`conclude`] has the end: the deletions of [`delete`], then that metadata; [`ajar`] is for what another part of
//!   the same copy concluded before.

use self::ajar::{is_kept_out, is_refused};
use self::decide::settled;
use self::delete::Deletion;
use self::durable::Durability;
use self::elsewhere::Elsewhere;
use self::exact_names::ExactNames;
use self::flight::Flights;
use self::guard::Guard;
use self::shared_inodes::HardLinks;
use self::spool::Spool;
use super::held::Held;
use super::metadata::Rights;
use super::place::{self, Resolved};
use super::source::drop_behind::Brought;
use super::source::file::LocalFile;
use super::source::way::Grounds;
use super::staging::lanes::Lanes;
use super::staging::nursery::{Fate, Nurseries, is_nursery};
use super::staging::scratch::Scratch;
use super::staging::territory::{Territories, Territory, TerritoryKey};
use super::staging::{self, Claim, Staging};
use super::{
    DRY_RUN, OPEN_STAGING, at_words, conflict, errno, failed, failed_at_words, is_errno, is_staging, lock,
};
use crate::endpoint::deletion::Offered;
use crate::endpoint::together::Together;
use crate::endpoint::{
    Conclusion, Decision, Destination, Listing, OPEN_DESTINATION, PartialFile, Reading, Ready, Small,
    SourceFile, Staged,
};
use crate::failure::{self, Failure, Result};
use crate::filter::Filter;
use crate::journal::Journal;
use crate::journal::catalogue::{Catalogue, OnDiskSet};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use thalweg_sys::{Dir, File, FileSystemKind, Links, Stat, Time};
use thalweg_wire::message::{Direct, Loss, Outcome, SourceForm, Terms};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath};

pub use super::place::DestinationPlace;

mod decide;

mod exact_names;

mod resume;

mod recheck;

mod elsewhere;

mod small;

mod finish;

mod durable;

mod kept_whole;

mod shared_inodes;

mod foretold;

pub mod guard;

mod flight;

mod spool;

mod conclude;

mod delete;

mod ajar;

pub(super) mod displace;

/// Local file systems as a destination.
pub struct LocalDestination {
    pub(super) terms: Terms,
    pub(super) guard: Guard,
    pub(super) rights: Rights,
    /// Permission bits that what is made may have of its entry where modes are not kept.
    pub(super) unmasked: u32,
    /// What the path that was asked for led to. The directories in it were taken out: one of them is `root`.
    pub(super) resolved: Resolved,
    /// `None`: a dry run to a place that is not there.
    pub(super) root: Option<Arc<Place>>,
    held: Held<Place>,
    exact_names: ExactNames,
    /// Held for reading by whoever changes names in directories below the root, for writing while a nursery
    /// takes the place of one: what is looked up before is the directory that counts.
    names: RwLock<()>,
    pub(super) territories: Territories,
    pub(super) journal: Mutex<Option<Journal>>,
    pub(super) claim: Claim,
    pub(super) lanes: Lanes,
    pub(super) nurseries: Nurseries,
    flights: Flights,
    pub(super) catalogue: Mutex<Option<Catalogue>>,
    pub(super) has_catalogue: bool,
    durability: Durability,
    hard_links: HardLinks,
    deletion: Deletion,
    spool: Mutex<Spool>,
    /// Directories below the root that another part of the same copy closed and this one opened again, each with the
    /// mode that it had.
    ajar: Mutex<BTreeMap<Vec<u8>, u32>>,
    /// Times that the entries of top directories ask for; given again when staging is gone from them.
    pub(super) top_times: Mutex<HashMap<TerritoryKey, Time>>,
    /// What all of it is in, if it is only a trial.
    pub(super) scratch: Mutex<Option<Scratch>>,
    /// By reading what stands there, to compare it.
    brought: Arc<Brought>,
    elsewhere: Elsewhere,
    /// The source's numbers of devices and inodes are of the same kernel as ours.
    pub(super) is_beside_source: bool,
}

/// A directory below the root, held.
pub(super) struct Place {
    pub(super) dir: Arc<Dir>,
    pub(super) territory: Arc<Territory>,
    /// Made by this run, which does not look before it gives a name there: it gives each once. False again when one is
    /// to be given twice.
    is_new: AtomicBool,
    /// Entries made in it get this group.
    pub(super) gid: Option<u32>,
    /// A nursery was made that is to take its place, once.
    had_nursery: AtomicBool,
}

impl Place {
    /// Whether nothing stands under a name there that this run has not given yet.
    pub(super) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Acquire)
    }

    /// Whether what was looked at in it is on a mount of its own: nothing takes the name of that.
    pub(super) fn is_mounted_over(&self, stat: &Stat) -> bool {
        let (_, mount) = self.territory.key.mount;
        stat.mount_id != mount
    }

    /// Whether a nursery may take its place. Says so once.
    pub(super) fn may_be_moved_to(&self) -> bool {
        self.is_new() && self.gid.is_none() && !self.had_nursery.swap(true, Ordering::Relaxed)
    }

    /// The same place, of which this is the directory now.
    pub(super) fn moved(&self, dir: Arc<Dir>) -> Place {
        let (territory, is_new) = (self.territory.clone(), AtomicBool::new(self.is_new()));
        Place { dir, territory, is_new, gid: self.gid, had_nursery: AtomicBool::new(true) }
    }
}

/// A name in a held directory.
pub(super) type Spot = (Arc<Place>, Vec<u8>);

impl LocalDestination {
    /// Opens a destination as rsync reads its path, see [`super::place`]: for a single source a path that is
    /// no directory and has no `trailing_slash` is the new name; everything else is a directory and is made with
    /// all that is missing above it. `state` is where the catalogue is kept; without it size and time alone
    /// recognise what is unchanged. Names that `protect` excludes are never deleted.
    ///
    /// # Errors
    /// `Busy` if a transfer with the same job key runs here; `Conflict` if something else than a directory is in
    /// the way; `Usage` for `..` below an export; `Permission`, `Space`, `Io`.
    pub fn open(
        place: DestinationPlace,
        source: &SourceForm,
        trailing_slash: bool,
        terms: Terms,
        state: Option<PathBuf>,
        protect: Filter,
    ) -> Result<LocalDestination> {
        let mut resolved = place::resolve(&place, source, trailing_slash, terms.dry_run)?;
        let words = resolved.words.clone();
        let at_root = |error: &io::Error| failed_at_words(OPEN_DESTINATION, &words, error);
        let rights = Rights::now();
        let root = match resolved.root.take() {
            Some(dir) => Some(open_root(&dir, &rights, terms.dry_run).map_err(|error| at_root(&error))?),
            None => None,
        };
        let made_in = std::mem::take(&mut resolved.made_in);
        let mark = random_mark().map_err(|error| at_root(&error))?;
        let mut destination = LocalDestination {
            guard: Guard::default(),
            rights,
            unmasked: place.unmasked(),
            resolved,
            root,
            held: Held::new(),
            exact_names: ExactNames::new(),
            names: RwLock::default(),
            territories: Territories::default(),
            journal: Mutex::default(),
            claim: Claim::new(&terms.job_key, mark),
            lanes: Lanes::new(mark),
            nurseries: Nurseries::new(mark),
            flights: Flights::default(),
            catalogue: Mutex::default(),
            has_catalogue: false,
            durability: Durability::default(),
            hard_links: HardLinks::default(),
            deletion: Deletion::new(protect),
            spool: Mutex::default(),
            ajar: Mutex::default(),
            top_times: Mutex::default(),
            scratch: Mutex::default(),
            brought: Brought::of_a_copy(),
            elsewhere: Elsewhere::default(),
            is_beside_source: false,
            terms,
        };
        if let Some(root) = destination.root.clone() {
            destination.territories.begin(&root.territory);
            let terms = &destination.terms;
            let catalogue = state.and_then(|state| open_catalogue(&state, &place, &words, &root, terms));
            destination.catalogue = Mutex::new(catalogue);
            destination.has_catalogue = lock(&destination.catalogue).is_some();
            if !destination.terms.dry_run {
                let named = |failure| at_words(place::of_export(failure, &place, &words), &words);
                // Another part may close the root just now.
                let take = || destination.take_staging(&root);
                destination.past_closed(b"", is_kept_out, take).map_err(named)?;
            }
            if destination.direct_is_missed() {
                tracing::info!(
                    "the destination is written by way of the page cache: no direct I/O, or in memory"
                );
            }
        }
        for made_in in made_in {
            destination.durability.changed_above_root(made_in);
        }
        if destination.terms.delete_max.is_some() {
            let offered = destination.new_offered().map_err(|error| at_root(&error))?;
            destination.deletion.keeps(offered);
        }
        Ok(destination)
    }

    /// Says that the source is read by this machine too: its numbers of devices and inodes are those that we see.
    pub fn stand_beside_source(&mut self) {
        self.is_beside_source = true;
    }

    /// The first of the directories above the destination that were missing, and were made with all below them; in a
    /// dry run: would be. A mistyped path looks like that.
    pub fn missing_above(&self) -> Option<&Path> {
        self.resolved.missing_above.as_deref()
    }

    /// Whether the single entry gets the last component of the destination's path as its name: then the root is the
    /// directory above.
    pub fn renames(&self) -> bool {
        self.resolved.rename.is_some()
    }

    /// Takes the lock and opens the journal.
    fn take_staging(&self, root: &Place) -> Result<()> {
        let of_io = |error: io::Error| failure::of_io(OPEN_STAGING, &error);
        let (staging, file) = Staging::locked(&root.dir, &self.claim.job)?;
        staging.prepare().map_err(of_io)?;
        let journal = Journal::open(staging.dir.clone(), self.terms.job_key, self.terms.chunk_bytes)?;
        self.claim.hold(file);
        *lock(&self.journal) = Some(journal);
        self.drop_unknown_partials(&staging);
        self.count_earlier_asides(&staging);
        root.territory.adopt(staging);
        Ok(())
    }

    /// Removes partials that no journal record names: nothing in them counts.
    fn drop_unknown_partials(&self, staging: &Staging) {
        let journal = lock(&self.journal);
        for number in staging.partials().unwrap_or_default() {
            if !journal.as_ref().is_some_and(|journal| journal.is_live(number)) {
                let _ = staging.dir.remove_file(super::staging::partial_name(number).as_bytes());
            }
        }
    }

    /// Whoever looks up a directory and changes names in it keeps this meanwhile.
    pub(super) fn while_names_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of a nursery of this number: decided now, if it was not. Where its files are.
    pub(super) fn decide_nursery(&self, staging: &Staging, number: u32) -> Option<(Arc<Dir>, Fate)> {
        let _alone = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let into = |path: &[u8]| {
            let (above, name) = split(path);
            Ok((self.place(above)?, name.to_vec()))
        };
        let moved = |path: &[u8], place: Arc<Place>| {
            let (above, _) = split(path);
            if let Ok(parent) = self.place(above) {
                self.changed_dir(above, &parent.dir, &parent.territory);
            }
            self.changed_dir(path, &place.dir, &place.territory);
            // Of one that is not held any more nobody knows whether names are given twice in it.
            if self.held.get(path).is_none_or(|held| !held.is_new()) {
                place.is_new.store(false, Ordering::Release);
            }
            self.held.put(path, place);
        };
        self.nurseries.decide(&staging.dir, number, into, moved)
    }

    /// The staging directory for entries in `place`. A dry run has none: without the job's lock and its journal
    /// what is in there is another's.
    pub(super) fn staging_at(&self, place: &Place) -> io::Result<Arc<Staging>> {
        if self.terms.dry_run {
            return Err(io::Error::other(DRY_RUN));
        }
        let territory = &place.territory;
        let staging = |of: &Territory| {
            let is_new = |staging: &Staging| {
                self.drop_unknown_partials(staging);
                self.count_earlier_asides(staging);
            };
            self.with_descriptors(|| of.staging(&self.claim.job, is_new))
        };
        let is_of_mount = territory.key == TerritoryKey::of_mount(&territory.mount);
        match staging(territory) {
            // Its top may be closed to who may write further down: what is handed down there is lost then, or it is
            // told that the two are kept apart.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_of_mount => {
                let of_mount = self.territories.of_mount(&territory.mount);
                of_mount.map_or(Err(error), |territory| staging(&territory))
            }
            made => made,
        }
    }

    /// See [`Resolved::final_path`].
    pub(super) fn final_path<'a>(&self, path: &'a RelativePath) -> Cow<'a, RelativePath> {
        self.resolved.final_path(path)
    }

    /// The directory that an entry is in, and its name there.
    ///
    /// # Errors
    /// `Conflict` where a directory of the path is something else; `NotFound` where one is missing; a path through
    /// our own staging is refused as `Conflict`.
    pub(super) fn parent_of(&self, path: &RelativePath) -> Result<Spot> {
        let path = self.final_path(path);
        if path.as_bytes().split(|&byte| byte == b'/').any(is_staging) {
            return Err(conflict(&path, "the name belongs to thalweg's staging directory"));
        }
        let (parent, name) = path.split().ok_or_else(|| conflict(&path, "the root has no parent"))?;
        let is_denied = |place: &io::Result<Arc<Place>>| {
            place.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        let place = self.past_closed(parent, is_denied, || self.place(parent)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotADirectory || is_errno(&error, errno::LOOP) {
                return conflict(
                    &path,
                    "something that is not a directory stands where its directory should be",
                );
            }
            failed("open the parent directory", &path, &error)
        })?;
        if let Some(kept) = self.kept_as(&place, path.as_bytes()) {
            let cause = format!("this file system would keep it as `{}`", Escaped(&kept));
            return Err(conflict(&path, cause));
        }
        Ok((place, name.to_vec()))
    }

    /// The path that the file system of `place` would make of this one, if that is another.
    pub(super) fn kept_as(&self, place: &Place, path: &[u8]) -> Option<Vec<u8>> {
        // Almost every path is done with here.
        if !staging::may_be_stripped(path) {
            return None;
        }
        place.territory.abilities()?.kept_as(path)
    }

    /// The directory at `path` below the root, held.
    pub(super) fn place(&self, path: &[u8]) -> io::Result<Arc<Place>> {
        if path.is_empty() {
            return self.root.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        if let Some(place) = self.held.get(path) {
            return Ok(place);
        }
        let dir = self.held_dir(path)?;
        self.hold(path, dir, false)
    }

    fn held_dir(&self, path: &[u8]) -> io::Result<Dir> {
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let open = || match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => match self.held.get(&path[..slash]) {
                Some(above) => above.dir.open_beneath(&path[slash + 1..], Links::Refuse),
                None => root.dir.open_beneath(path, Links::Refuse),
            },
            None => root.dir.open_beneath(path, Links::Refuse),
        };
        self.with_descriptors(open)
    }

    /// Does something that needs a descriptor, with fewer directories held if there is none left.
    pub(super) fn with_descriptors<T>(&self, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.held.with_descriptors(act)
    }

    /// Holds a directory and finds out which file system it is on.
    pub(super) fn hold(&self, path: &[u8], dir: Dir, is_new: bool) -> io::Result<Arc<Place>> {
        let stat = dir.stat_self()?;
        let dir = Arc::new(dir);
        let territory = self.territory(path, &dir, &stat)?;
        let (gid, is_new) = (inherited_gid(&stat), AtomicBool::new(is_new));
        let place = Arc::new(Place { dir, territory, is_new, gid, had_nursery: AtomicBool::new(false) });
        self.held.put(path, place.clone());
        Ok(place)
    }

    fn territory(&self, path: &[u8], dir: &Arc<Dir>, stat: &Stat) -> io::Result<Arc<Territory>> {
        if let Some(territory) = self.territories.of_whole_mount(dir, stat) {
            return Ok(territory);
        }
        // Its top is the first directory of the path that is in it: look at those above first.
        let above = self.place(split(path).0)?;
        let mount = self.territories.mount(dir, stat);
        let inheritance = mount.inheritance_of(dir);
        if above.territory.mount.key == mount.key && above.territory.inheritance == inheritance {
            return Ok(above.territory.clone());
        }
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let territory = self.territories.add(root.territory.below(mount, inheritance, path, stat));
        if !self.terms.dry_run && territory.is_top(stat) && staging::is_there(dir, &self.claim.job) {
            // An earlier attempt left something here.
            territory.staging(&self.claim.job, |staging| self.drop_unknown_partials(staging))?;
        }
        Ok(territory)
    }

    /// A file without a name, for what must not be kept in memory.
    pub(super) fn nameless_file(&self) -> io::Result<File> {
        let staging = self.root.as_ref().and_then(|root| root.territory.open_staging());
        nameless_in(staging.as_ref().map(|staging| &*staging.dir), self.claim.new_number())
    }

    fn new_offered(&self) -> io::Result<Offered> {
        let staging = self.root.as_ref().and_then(|root| root.territory.open_staging());
        let mut number = 0;
        OnDiskSet::new(Box::new(move || {
            number += 1;
            let file = nameless_in(staging.as_ref().map(|staging| &*staging.dir), number)?;
            Ok(std::fs::File::from(std::os::fd::OwnedFd::from(file)))
        }))
    }
}

impl LocalDestination {
    /// How files that stand here are read to be compared: past the page cache only where that was asked for.
    fn comparing(&self, entry: &Entry) -> Grounds {
        let asked = self.terms.disk.destination.direct;
        Grounds { asked, bytes: entry.evidence.size, request_bytes: 0 }
    }

    /// Whether content is to be written past the page cache and cannot be: the file system refuses that, or is in
    /// memory.
    pub fn direct_is_missed(&self) -> bool {
        let refuses = |root: &Arc<Place>| {
            let kind = root.dir.file_system().map(|system| system.kind);
            kind.is_ok_and(|kind| kind == FileSystemKind::Tmpfs)
                || root.territory.abilities().is_some_and(|abilities| abilities.direct.is_none())
        };
        self.terms.disk.destination.direct == Direct::On && self.root.as_ref().is_some_and(refuses)
    }
}

impl Destination for LocalDestination {
    fn device(&self) -> Option<u64> {
        Some(self.root.as_ref()?.dir.stat_self().ok()?.device)
    }

    fn is_new(&self) -> bool {
        self.resolved.is_new
    }

    fn free_bytes(&self) -> Option<u64> {
        self.resolved.free_bytes
    }

    fn decide(&self, entry: &Entry, reading: Reading<'_>) -> Decision {
        let path = self.final_path(&entry.path);
        let decide = || self.decide_entry(entry, reading);
        match &entry.kind {
            Kind::HardLink { first, .. } => {
                self.linked_past_closed((self.final_path(first).as_bytes(), path.as_bytes()), decide)
            }
            _ => self.past_closed(path.as_bytes(), is_refused, decide),
        }
    }

    fn skipped(&self, path: &RelativePath) {
        self.note_unlisted(path);
    }

    fn offered_before(&self, path: &RelativePath) {
        // What takes its place meanwhile would be as new as it was.
        let _names = self.while_names_stay();
        let path = self.final_path(path);
        // One that is not held any more is opened again as one that is not new.
        if let Some(place) = self.held.get(split(path.as_bytes()).0) {
            place.is_new.store(false, Ordering::Release);
        }
    }

    fn came_to_nothing(&self, entry: &Entry) {
        self.note_left(entry);
    }

    fn link(&self, entry: &Entry) -> Decision {
        let link = || {
            let _names = self.while_names_stay();
            let decided = self.on_the_past(entry, self.link_entry(entry));
            decided.unwrap_or_else(|failure| settled(Outcome::Failed(failure), false))
        };
        let path = self.final_path(&entry.path);
        match &entry.kind {
            Kind::HardLink { first, .. } => {
                self.linked_past_closed((self.final_path(first).as_bytes(), path.as_bytes()), link)
            }
            _ => link(),
        }
    }

    fn begin(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>> {
        self.begin_partial(entry)
    }

    fn is_worth_waiting(&self, entry: &Entry, staged: &Staged) -> bool {
        let path = self.final_path(&entry.path);
        let above = path.split().map_or(&[][..], |(above, _)| above);
        match is_nursery(staged.lane) {
            true => self.nurseries.is_worth_waiting(staged.lane),
            // In it before the others it would keep them out.
            false => self.nurseries.is_awaited(above),
        }
    }

    fn stage(&self, lane: u32, files: &[Small<'_>], together: &mut Together) -> Vec<Result<Staged>> {
        self.stage_files(lane, files, together)
    }

    fn taken(&self, lane: u32, number: u64) {
        if is_nursery(lane) {
            self.nurseries.taken(lane, number);
        }
    }

    fn may_be_named_early(&self, staged: &Staged) -> bool {
        is_nursery(staged.lane)
    }

    fn sync(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        self.sync_written(partials)
    }

    fn read_staged_back(&self, staged: &Staged, bytes: u64) -> Result<Digest> {
        self.digest_staged(staged, bytes)
    }

    fn record(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        self.record_chunks(chunks)
    }

    fn finish(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        self.finish_entry(entry, ready, digest)
    }

    fn discard(&self, ready: Ready) {
        // What has its number after the end may be the next attempt's.
        if let Ok(_open) = self.claim.while_open() {
            self.discard_ready(ready);
        }
    }

    fn existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let path = self.final_path(&entry.path);
        let opened = self.past_closed(path.as_bytes(), is_kept_out, || self.open_existing(entry))?;
        let again = || {
            let of_failure = |why: Failure| failure::io_because(io::ErrorKind::Other, why.reason, why.cause);
            self.open_existing(entry).map_err(of_failure)
        };
        Ok(Arc::new(LocalFile::new(opened, self.comparing(entry), &self.brought, || false, again)))
    }

    fn elsewhere(&self, entry: &Entry, number: usize) -> Option<Result<Arc<dyn SourceFile>>> {
        let (found, path) = self.found_elsewhere(entry, number)?;
        let open = || self.open_found(found, path);
        Some(open().map_err(|error| failed("open", &entry.path, &error)).map(|file| {
            let file = LocalFile::new(file, self.comparing(entry), &self.brought, || false, open);
            Arc::new(file) as Arc<dyn SourceFile>
        }))
    }

    fn is_elsewhere_cut(&self) -> bool {
        self.elsewhere.is_cut()
    }

    fn held_bytes(&self) -> usize {
        self.elsewhere.held_bytes() + self.deletion.protect_bytes() + self.exact_names.held_bytes()
    }

    fn keep(&self, entry: &Entry, digest: Digest) -> Decision {
        let path = self.final_path(&entry.path);
        self.past_closed(path.as_bytes(), is_refused, || self.keep_compared(entry, digest))
    }

    fn settled(&self, entry: &Entry, outcome: &Outcome) {
        self.note_settled(entry, outcome);
    }

    fn gone(&self, id: EntryId) {
        self.end_flight(id);
    }

    fn conclude(&self, listing: Listing, goes_on: &dyn Fn() -> bool) -> Conclusion {
        self.conclude_all(listing, goes_on)
    }

    fn close(&self, success: bool) {
        self.claim.close();
        self.flights.close_all();
        let journal = lock(&self.journal).take();
        lock(&self.catalogue).take();
        self.deletion.forget();
        *lock(&self.spool) = Spool::default();
        if !success {
            if let Some(mut journal) = journal {
                let _ = journal.flush();
            }
            self.close_what_was_opened();
            self.territories.all().iter().for_each(|territory| territory.close_top());
            self.claim.let_go();
            lock(&self.scratch).take();
            return;
        }
        drop(journal);
        let root = self.root.as_ref().map(|root| root.territory.key);
        let times = lock(&self.top_times).clone();
        let clean_up = |territory: &Territory, held: Option<File>| {
            territory.clean_up(&self.claim.job, times.get(&territory.key).copied(), held);
        };
        // The root's comes last: the lock is in it.
        let (last, first): (Vec<_>, Vec<_>) =
            self.territories.all().into_iter().partition(|territory| Some(territory.key) == root);
        first.iter().for_each(|territory| clean_up(territory, None));
        last.iter().for_each(|territory| clean_up(territory, self.claim.take_lock()));
        self.claim.let_go();
        lock(&self.scratch).take();
    }
}

/// What was opened for the time being is closed, whoever forgot to end it.
impl Drop for LocalDestination {
    fn drop(&mut self) {
        self.close_what_was_opened();
    }
}

/// The path above, and the name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

fn open_root(dir: &Arc<Dir>, rights: &Rights, dry_run: bool) -> io::Result<Arc<Place>> {
    let stat = dir.stat_self()?;
    let territory = Arc::new(Territory::new(dir.clone(), &stat));
    // Our own directory that we may not write: opened for the time being.
    if !dry_run && rights.uid != 0 && rights.uid == stat.uid && stat.mode & 0o700 != 0o700 {
        dir.as_file()?.set_mode(stat.mode | 0o700)?;
        *lock(&territory.mode_before) = Some(stat.mode);
    }
    let (dir, gid) = (dir.clone(), inherited_gid(&stat));
    let (is_new, had_nursery) = (AtomicBool::new(false), AtomicBool::new(false));
    Ok(Arc::new(Place { dir, territory, is_new, gid, had_nursery }))
}

fn inherited_gid(stat: &Stat) -> Option<u32> {
    const SET_GROUP_ID: u32 = 0o2000;
    (stat.mode & SET_GROUP_ID != 0).then_some(stat.gid)
}

fn open_catalogue(
    state: &Path,
    place: &DestinationPlace,
    words: &Path,
    root: &Place,
    terms: &Terms,
) -> Option<Catalogue> {
    let dry_run = terms.dry_run;
    let words = std::path::absolute(words).unwrap_or_else(|_| words.to_path_buf());
    let stat = root.dir.stat_self().ok()?;
    let below = place.below.as_ref().and_then(|below| below.stat_self().ok()).map_or(0, |stat| stat.inode);
    // No device number: it may be another one after the next boot. A wrong guess costs nothing, for entries
    // name inodes and times.
    let mut identity = words.as_os_str().as_bytes().to_vec();
    identity.extend_from_slice(&stat.inode.to_le_bytes());
    identity.extend_from_slice(&below.to_le_bytes());
    // Parts run at the same time, each with its own.
    if let Some(part) = terms.part {
        identity.extend_from_slice(&part.number.to_le_bytes());
        identity.extend_from_slice(&part.count.to_le_bytes());
    }
    // Nothing is remembered of a dry run, and who copies meanwhile has it.
    let opened = match dry_run {
        true => Catalogue::open_to_read(state, &identity),
        false => Catalogue::open(state, &identity),
    };
    match opened {
        Ok(Some(catalogue)) => Some(catalogue),
        Ok(None) if dry_run => None,
        Ok(None) => {
            tracing::warn!(
                "another transfer has the catalogue of this destination; size and time decide alone"
            );
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the catalogue cannot be opened; size and time decide alone");
            None
        }
    }
}

/// Tells an attempt from others of its job.
fn random_mark() -> io::Result<u64> {
    let mut mark = [0; 8];
    aws_lc_rs::rand::fill(&mut mark).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(u64::from_le_bytes(mark))
}

/// Names that are tried for a file without one.
const NAMELESS_TRIES: u32 = 16;

/// A new file without a name in `dir`, or where the system has temporary ones. `number`: another one for each file of
/// this process.
///
/// # Errors
/// What the kernel says.
pub fn nameless_in(dir: Option<&Dir>, number: u64) -> io::Result<File> {
    let temporary;
    let dir = match dir {
        Some(dir) => dir,
        None => {
            temporary = Dir::open(&std::env::temp_dir())?;
            &temporary
        }
    };
    // A process that had our number and was killed between the two calls has left a file of this name.
    let mut last = None;
    for again in 0..NAMELESS_TRIES {
        let name = format!("made-{}-{number}-{again}", std::process::id());
        match dir.create_new(name.as_bytes(), 0o600) {
            Ok(file) => return dir.remove_file(name.as_bytes()).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::Evidence;
    use thalweg_wire::message::PartOf;

    #[test]
    fn a_root_that_was_opened_for_us_has_its_mode_again_after_a_failure() {
        let scratch = tempfile::tempdir().unwrap();
        let place = DestinationPlace { path: scratch.path().join("to"), below: None };
        let terms = Terms::of(4 << 20, 1 << 20);
        let to =
            LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap();
        let root = to.root.clone().unwrap();
        *lock(&root.territory.mode_before) = Some(0o555);
        to.close(false);
        assert_eq!(root.dir.stat_self().unwrap().mode, 0o555);
        root.dir.as_file().unwrap().set_mode(0o755).unwrap();
    }

    #[test]
    fn parts_at_the_same_time_have_a_catalogue_each() {
        let (scratch, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |number: u32| {
            let place = DestinationPlace { path: scratch.path().join("to"), below: None };
            let (part, job_key) = (PartOf::new(number, 2), [number as u8; 16]);
            let terms = Terms { part, job_key, ..Terms::of(4 << 20, 1 << 20) };
            let state = Some(state.path().to_owned());
            LocalDestination::open(place, &SourceForm::Many, true, terms, state, Filter::default()).unwrap()
        };
        let parts = [open(1), open(2)];
        assert!(parts.iter().all(|part| part.has_catalogue));
        parts.iter().for_each(|part| part.close(true));
    }

    #[test]
    fn names_may_be_given_while_what_an_earlier_attempt_left_is_read_again() {
        const CHUNK: u64 = 4 << 20;
        let scratch = tempfile::tempdir().unwrap();
        let open = || {
            let place = DestinationPlace { path: scratch.path().join("to"), below: None };
            let terms = Terms::of(CHUNK, 1 << 20);
            LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap()
        };
        let entry = Entry {
            id: EntryId(0),
            path: RelativePath::new(b"large".to_vec()).unwrap(),
            kind: thalweg_wire::Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence: Evidence { size: 2 * CHUNK, ..Evidence::default() },
            xattrs: Vec::new(),
        };
        let first = open();
        assert!(matches!(first.decide(&entry, &|_, _| true), Decision::Fresh));
        let partial = first.begin(&entry).unwrap();
        partial.write_at(b"some of it", 0).unwrap();
        first.sync(std::slice::from_ref(&partial)).unwrap();
        first.record(&[(partial.number(), vec![(0, Digest::default())])]).unwrap();
        drop(partial);
        first.close(false);
        drop(first);
        let (second, told) = (open(), Mutex::new(Vec::new()));
        second.decide(&entry, &|_, _| {
            lock(&told).push(second.names.try_write().is_ok());
            true
        });
        let told = lock(&told);
        assert!(!told.is_empty() && told.iter().all(|is_free| *is_free), "{told:?}");
    }
}
