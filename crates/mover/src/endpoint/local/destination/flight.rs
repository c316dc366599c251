//! What is known of entries between their decision and their last word: what stood at their paths, what was
//! named there, and the partials that are open.

use crate::endpoint::PartialFile;
use crate::endpoint::local::lock;
use crate::endpoint::local::staging::partial::LocalPartial;
use crate::numbers::NumberMap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Kind, Stat, Time};
use thalweg_wire::{Digest, EntryId, Evidence};

/// What is known of an entry between its decision and its last word.
#[derive(Default)]
pub(super) struct Flight {
    /// What stood at its path when it was decided.
    pub(super) seen: Option<Seen>,
    /// What stands there since we named it, and the digest of that.
    pub(super) finished: Option<(Evidence, Option<Digest>)>,
    /// The partial that it was, until its name is durable: what the journal says of it counts as long.
    pub(super) partial: Option<u64>,
    /// Files of other names that may have its content, by their numbers in what was listed.
    pub(super) elsewhere: Vec<u32>,
}

/// What stood at a path, as far as it must not change until we put something in its place.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    identity: (u64, u64),
    size: u64,
    /// Not of a file that another entry keeps.
    mtime: Option<Time>,
    /// Not of a file with several names: replacing one of the others changes it.
    ctime: Option<Time>,
}

impl Seen {
    pub(super) fn of(stat: &Stat) -> Seen {
        Seen {
            kind: stat.kind,
            mode: stat.mode,
            identity: (stat.device, stat.inode),
            size: stat.size,
            mtime: Some(stat.mtime),
            ctime: (stat.links == 1).then_some(stat.ctime),
        }
    }

    /// Of a file that another entry keeps: what that one is given changes it.
    pub(super) fn of_another(stat: &Stat) -> Seen {
        Seen { mtime: None, ctime: None, ..Seen::of(stat) }
    }

    pub(super) fn is_still(&self, now: &Stat) -> bool {
        let then = self;
        then.identity == (now.device, now.inode)
            && then.kind == now.kind
            // A directory was empty and is removed only if it still is.
            && (then.kind == Kind::Dir
                || (then.size == now.size
                    && then.mtime.is_none_or(|mtime| mtime == now.mtime)
                    && then.ctime.is_none_or(|ctime| ctime == now.ctime)))
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Flights {
    entries: Mutex<NumberMap<EntryId, Flight>>,
    /// Partials that are open, by their numbers.
    partials: Mutex<HashMap<u64, Arc<LocalPartial>>>,
}

impl Flights {
    /// Changes what is known of an entry on its way.
    pub(super) fn with<T>(&self, id: EntryId, change: impl FnOnce(&mut Flight) -> T) -> T {
        change(lock(&self.entries).entry(id).or_default())
    }

    /// Changes it, if anything is known.
    pub(super) fn with_known<T>(&self, id: EntryId, change: impl FnOnce(&mut Flight) -> T) -> Option<T> {
        lock(&self.entries).get_mut(&id).map(change)
    }

    /// What stood at its path when it was decided.
    pub(super) fn seen(&self, id: EntryId) -> Option<Seen> {
        lock(&self.entries).get(&id)?.seen
    }

    /// One of the files of other names that may have its content.
    pub(super) fn elsewhere(&self, id: EntryId, number: usize) -> Option<u32> {
        lock(&self.entries).get(&id)?.elsewhere.get(number).copied()
    }

    /// Whether it has its name from us.
    pub(super) fn is_finished(&self, id: EntryId) -> bool {
        lock(&self.entries).get(&id).is_some_and(|flight| flight.finished.is_some())
    }

    /// It has its last word, or will have none: what was known of it.
    pub(super) fn end(&self, id: EntryId) -> Flight {
        lock(&self.entries).remove(&id).unwrap_or_default()
    }

    /// The partial of this number, if it is open.
    pub(super) fn partial(&self, number: u64) -> Option<Arc<LocalPartial>> {
        lock(&self.partials).get(&number).cloned()
    }

    /// Those of these that are open.
    pub(super) fn open_of(&self, partials: &[Arc<dyn PartialFile>]) -> Vec<Arc<LocalPartial>> {
        let open = lock(&self.partials);
        partials.iter().filter_map(|partial| open.get(&partial.number()).cloned()).collect()
    }

    /// A partial is open.
    pub(super) fn opened(&self, number: u64, partial: Arc<LocalPartial>) {
        lock(&self.partials).insert(number, partial);
    }

    /// A partial is not needed open any more.
    pub(super) fn close(&self, number: u64) -> Option<Arc<LocalPartial>> {
        lock(&self.partials).remove(&number)
    }

    /// Neither is any other.
    pub(super) fn close_all(&self) {
        lock(&self.partials).clear();
    }
}
