//! New directories made as a whole: their small files come into a hidden directory under their final names, and when
//! all in it is durable that takes the place of the empty one by a single rename.
//!
//! A file that is made in a lane and renamed out of it costs ext4 a search of four blocks of names and the change of
//! two directories; in a program that does nothing else 39 µs of CPU time, where one that is made under its name costs
//! 25 (decision 0013).
//!
//! 1. A directory that this run made, that is empty and that a handful of files comes into at once, gets a nursery. It
//!    is one stream's: two in one directory wait for each other.
//! 2. A sync covers what is in it if no file of it was being made meanwhile.
//! 3. Each file in it is one that the transfer takes, or is removed: a file that is sent twice, because a link was lost
//!    while it was written, may be written twice.
//! 4. When the first of its files is to get its name, it takes the directory's place, if all in it is taken and covered
//!    and its stream is elsewhere. If not, its files wait for the next rounds; after [`WAITS_MAX`] nothing more is made
//!    in it. If it cannot take that place, each file is renamed out of it, as out of a lane.
//!
//! Guarantees: a final name never shows what no sync covers, nor what the transfer has not taken; whoever changes names
//! in the directory does it before or after the step, in the directory that counts (the caller holds
//! [`LocalDestination::names`](crate::endpoint::local::destination::LocalDestination)).
//!
//! Not guaranteed: that who holds the empty directory open sees what comes. Not done: directories that inherit (default
//! ACLs, set-group-id), those with other entries, and the top one; files that are read back, of which some may turn out
//! damaged after the sync.

use super::{lane_name, own_dir};
use crate::endpoint::local::destination::Place;
use crate::endpoint::local::lock;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Dir, Replace};

/// Fewer files that come at once are not worth a directory that is made and renamed.
pub(super) const HANDFUL: usize = 12;
/// Files of one nursery: more wait for too long.
const FILES_MAX: u32 = 4096;
/// Nurseries at once: each is a descriptor.
const NURSERIES_MAX: usize = 64;
/// Rounds that a file waits for more to come into its directory; then for one that covers what came.
const WAITS_MAX: u32 = 2;
/// Numbers of lanes that are nurseries.
const FIRST: u32 = 1 << 31;

/// Those of all file systems: by its number alone a nursery is found again.
pub(in crate::endpoint::local) struct Nurseries {
    /// Of this attempt.
    mark: u64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    of_stream: HashMap<u32, u32>,
    there: HashMap<u32, Nursery>,
    /// Numbers that were given.
    numbers: u32,
}

struct Nursery {
    dir: Arc<Dir>,
    /// The directory that it will be.
    path: Vec<u8>,
    place: Arc<Place>,
    /// Its stream is still in it.
    is_open: bool,
    /// Files that were made in it.
    made: u32,
    /// Of those, the ones that are not written and dressed yet.
    growing: u32,
    /// Of those, by their numbers, the ones that lie there and that the transfer does not know: one may turn out to be
    /// a second copy, or of an entry that was withdrawn meanwhile, and goes again.
    untaken: HashSet<u64>,
    /// Of those that were made, the ones that have not got their final word.
    left: u32,
    /// Of those that were made, the ones that the sync under way covers, and the last that ended well.
    syncing: u32,
    synced: u32,
    /// Syncs since its first file.
    syncs: u32,
    fate: Fate,
}

/// What became of a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::endpoint::local) enum Fate {
    /// Not decided.
    Open,
    /// It is the directory.
    Moved,
    /// Its files go one by one.
    Apart,
}

/// Whether a lane is a nursery.
pub(in crate::endpoint::local) fn is_nursery(lane: u32) -> bool {
    lane >= FIRST
}

impl Nurseries {
    /// `mark`: a random number.
    pub(in crate::endpoint::local) fn new(mark: u64) -> Nurseries {
        Nurseries { mark, inner: Mutex::default() }
    }

    /// The nursery for the next file of a stream in `place`, and its directory; `None` if it has none there. The file,
    /// which has this `number`, counts as being made until [`Nurseries::made`], and as one that may go again until
    /// [`Nurseries::taken`]. `handful`: so many files come into this directory at once.
    pub(in crate::endpoint::local) fn next(
        &self,
        staging: &Dir,
        (stream, file): (u32, u64),
        (place, path): (&Arc<Place>, &[u8]),
        handful: usize,
    ) -> Option<(u32, Arc<Dir>)> {
        let mut inner = lock(&self.inner);
        if let Some(&number) = inner.of_stream.get(&stream) {
            match inner.there.get_mut(&number) {
                Some(nursery) if nursery.is_open && nursery.path == path && nursery.made < FILES_MAX => {
                    return Some((number, nursery.take(file)));
                }
                Some(nursery) => nursery.is_open = false,
                None => {}
            }
            inner.of_stream.remove(&stream);
            inner.forget(number);
        }
        if handful < HANDFUL || inner.there.len() >= NURSERIES_MAX || !place.may_be_moved_to() {
            return None;
        }
        let number = FIRST.checked_add(inner.numbers)?;
        inner.numbers += 1;
        // What cannot be made is not needed: there are lanes.
        let dir = make(staging, &lane_name(self.mark, number), place).ok().flatten()?;
        let mut nursery = Nursery {
            dir: Arc::new(dir),
            path: path.to_vec(),
            place: place.clone(),
            is_open: true,
            made: 0,
            growing: 0,
            untaken: HashSet::new(),
            left: 0,
            syncing: 0,
            synced: 0,
            syncs: 0,
            fate: Fate::Open,
        };
        let dir = nursery.take(file);
        inner.there.insert(number, nursery);
        inner.of_stream.insert(stream, number);
        Some((number, dir))
    }

    /// A file in it is written and dressed; or could not be, and is not there, unless it cannot be removed.
    pub(in crate::endpoint::local) fn made(&self, number: u32, file: u64, is_there: bool) {
        let mut inner = lock(&self.inner);
        let Some(nursery) = inner.there.get_mut(&number) else { return };
        nursery.growing = nursery.growing.saturating_sub(1);
        if !is_there {
            nursery.untaken.remove(&file);
            nursery.left = nursery.left.saturating_sub(1);
            inner.forget(number);
        }
    }

    /// The transfer has taken a file of it: it is the one that is to have its name.
    pub(in crate::endpoint::local) fn taken(&self, number: u32, file: u64) {
        if let Some(nursery) = lock(&self.inner).there.get_mut(&number) {
            nursery.untaken.remove(&file);
        }
    }

    /// Everything that is there now is about to be synced.
    pub(in crate::endpoint::local) fn before_sync(&self) {
        for nursery in lock(&self.inner).there.values_mut() {
            nursery.syncs += 1;
            // What comes after goes by lanes; the next sync covers the rest.
            nursery.is_open &= nursery.syncs < WAITS_MAX;
            // What is being made now may be covered, or not.
            if nursery.growing == 0 {
                nursery.syncing = nursery.made;
            }
        }
    }

    /// It is durable.
    pub(in crate::endpoint::local) fn after_sync(&self) {
        lock(&self.inner).there.values_mut().for_each(|nursery| nursery.synced = nursery.syncing);
    }

    /// Whether files of it had better wait for the next round than be renamed one by one.
    pub(in crate::endpoint::local) fn is_worth_waiting(&self, number: u32) -> bool {
        lock(&self.inner).there.get(&number).is_some_and(Nursery::is_awaited)
    }

    /// Whether files that come into this directory another way had better wait for its nursery.
    pub(in crate::endpoint::local) fn is_awaited(&self, path: &[u8]) -> bool {
        lock(&self.inner).there.values().any(|nursery| nursery.path == path && nursery.is_awaited())
    }

    /// Where its files are, and what became of it, if that is decided.
    pub(in crate::endpoint::local) fn decided(&self, number: u32) -> Option<(Arc<Dir>, Fate)> {
        let inner = lock(&self.inner);
        let nursery = inner.there.get(&number).filter(|nursery| nursery.fate != Fate::Open)?;
        Some((nursery.dir.clone(), nursery.fate))
    }

    /// Where its files are, and what became of it: decided now, if it was not. `moved` is told of the new directory.
    pub(in crate::endpoint::local) fn decide(
        &self,
        staging: &Dir,
        number: u32,
        into: impl FnOnce(&[u8]) -> io::Result<(Arc<Place>, Vec<u8>)>,
        moved: impl FnOnce(&[u8], Arc<Place>),
    ) -> Option<(Arc<Dir>, Fate)> {
        let mut inner = lock(&self.inner);
        let nursery = inner.there.get_mut(&number)?;
        if nursery.fate == Fate::Open {
            nursery.is_open = false;
            let name = lane_name(self.mark, number);
            let is_moved = nursery.is_covered() && nursery.take_place(staging, &name, into).is_ok();
            nursery.fate = if is_moved { Fate::Moved } else { Fate::Apart };
            if is_moved {
                moved(&nursery.path, Arc::new(nursery.place.moved(nursery.dir.clone())));
            }
        }
        Some((nursery.dir.clone(), nursery.fate))
    }

    /// Where its files are, as things stand.
    pub(in crate::endpoint::local) fn dir(&self, number: u32) -> Option<Arc<Dir>> {
        lock(&self.inner).there.get(&number).map(|nursery| nursery.dir.clone())
    }

    /// The nursery whose files will be in `path`, if it could take its place now.
    pub(in crate::endpoint::local) fn ripe(&self, path: &[u8]) -> Option<u32> {
        let inner = lock(&self.inner);
        let is_ripe = |nursery: &Nursery| {
            nursery.fate == Fate::Open && nursery.path == path && nursery.left > 0 && nursery.is_covered()
        };
        inner.there.iter().find(|(_, nursery)| is_ripe(nursery)).map(|(number, _)| *number)
    }

    /// A file of it has got its final word: it has its name, or is not there any more.
    pub(in crate::endpoint::local) fn gone(&self, number: u32, file: u64) {
        let mut inner = lock(&self.inner);
        if let Some(nursery) = inner.there.get_mut(&number) {
            nursery.untaken.remove(&file);
            nursery.left = nursery.left.saturating_sub(1);
            inner.forget(number);
        }
    }
}

impl Inner {
    /// One that is empty and stays so is not needed any more.
    fn forget(&mut self, number: u32) {
        if self.there.get(&number).is_some_and(|nursery| !nursery.is_open && nursery.left == 0) {
            self.there.remove(&number);
        }
    }
}

impl Nursery {
    fn take(&mut self, file: u64) -> Arc<Dir> {
        self.made += 1;
        self.growing += 1;
        self.untaken.insert(file);
        self.left += 1;
        self.dir.clone()
    }

    /// Whether more comes into it, or a sync has to cover what came.
    fn is_awaited(&self) -> bool {
        let is_whole = self.is_covered() && (!self.is_open || self.made >= FILES_MAX);
        self.fate == Fate::Open && self.syncs <= WAITS_MAX + 1 && !is_whole
    }

    /// Whether a sync covers all that was ever made in it, and the transfer knows all that is there.
    fn is_covered(&self) -> bool {
        self.growing == 0 && self.untaken.is_empty() && self.synced == self.made
    }

    /// Takes the place of the empty directory: only of the one that was made for it.
    fn take_place(
        &self,
        staging: &Dir,
        name: &str,
        into: impl FnOnce(&[u8]) -> io::Result<(Arc<Place>, Vec<u8>)>,
    ) -> io::Result<()> {
        let (above, becomes) = into(&self.path)?;
        let (there, made) = (above.dir.stat(&becomes)?, self.place.dir.stat_self()?);
        if !there.is_same_entry(&made) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.dir.as_file()?.set_mode(there.mode)?;
        staging.rename(name.as_bytes(), &above.dir, &becomes, Replace::Existing)
    }
}

/// A directory that can take the place of `place`: it has the same owner and attributes.
fn make(staging: &Dir, name: &str, place: &Place) -> io::Result<Option<Dir>> {
    let dir = own_dir(staging, name.as_bytes())?;
    let (made, there) = (dir.stat_self()?, place.dir.stat_self()?);
    let attributes = |dir: &Dir| dir.as_file().and_then(|file| file.xattrs());
    let is_alike = (made.uid, made.gid, made.device) == (there.uid, there.gid, there.device)
        && attributes(&dir)? == attributes(&place.dir)?
        && place.dir.entries()?.next().is_none();
    if !is_alike {
        let _ = staging.remove_dir(name.as_bytes());
        return Ok(None);
    }
    Ok(Some(dir))
}
