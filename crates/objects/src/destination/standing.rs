//! What stands in the bucket, known by directory: one listing each, where it is in the listing of the one above.

use crate::bucket::AnyBucket;
use crate::store::Seen;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use thalweg_mover::Result;
use thalweg_mover::mutex::lock;

/// Names of one directory that are kept: of one that has more each name is asked for.
const NAMES_MAX: usize = 100_000;
/// Names of all directories that are kept: some 64 MiB.
const KEPT_NAMES_MAX: usize = 256 << 10;
/// Directories that are kept.
const KEPT_MAX: usize = 4096;

/// What stands under a name.
#[derive(Default)]
pub(super) struct Found {
    /// An object.
    pub(super) object: Option<Seen>,
    /// Other keys have the name and a slash in front.
    pub(super) is_directory: bool,
}

/// See the module. As it was when each directory was listed first.
pub(super) struct Standing {
    bucket: AnyBucket,
    prefix: String,
    /// Names of one directory that are kept.
    pub(super) names_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    listings: HashMap<String, (u64, Arc<Listing>)>,
    names: usize,
    uses: u64,
}

enum Listing {
    Names { objects: HashMap<String, Seen>, directories: HashSet<String> },
    TooLarge,
}

impl Listing {
    fn empty() -> Listing {
        Listing::Names { objects: HashMap::new(), directories: HashSet::new() }
    }

    fn names(&self) -> usize {
        match self {
            Listing::Names { objects, directories } => objects.len() + directories.len() + 1,
            Listing::TooLarge => 1,
        }
    }
}

impl Standing {
    /// Of all keys that begin with `prefix`, which is empty or ends in a slash.
    pub(super) fn new(bucket: AnyBucket, prefix: String) -> Standing {
        Standing { bucket, prefix, names_max: NAMES_MAX, kept: Mutex::default() }
    }

    /// Whether it can be looked at.
    pub(super) fn look(&self) -> Result<()> {
        self.listing("").map(drop)
    }

    /// What stands at a path below the prefix.
    pub(super) fn find(&self, path: &str) -> Result<Found> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        match &*self.listing(above)? {
            Listing::Names { objects, directories } => {
                Ok(Found { object: objects.get(name).cloned(), is_directory: directories.contains(name) })
            }
            Listing::TooLarge => self.ask(path),
        }
    }

    /// What stands there now, whatever was listed; of directories only what was, where it is kept.
    pub(super) fn ask(&self, path: &str) -> Result<Found> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let key = format!("{}{path}", self.prefix);
        let is_directory = match &*self.listing(above)? {
            Listing::Names { directories, .. } => directories.contains(name),
            Listing::TooLarge => self.bucket.has_keys(&format!("{key}/"))?,
        };
        Ok(Found { object: self.bucket.head(&key)?.map(|head| head.seen), is_directory })
    }

    fn listing(&self, directory: &str) -> Result<Arc<Listing>> {
        if let Some(kept) = lock(&self.kept).find(directory) {
            return Ok(kept);
        }
        let is_missing = !directory.is_empty() && {
            let (above, name) = directory.rsplit_once('/').unwrap_or(("", directory));
            match &*self.listing(above)? {
                Listing::Names { directories, .. } => !directories.contains(name),
                Listing::TooLarge => false,
            }
        };
        let listing = Arc::new(if is_missing { Listing::empty() } else { self.list(directory)? });
        lock(&self.kept).put(directory, &listing);
        Ok(listing)
    }

    fn list(&self, directory: &str) -> Result<Listing> {
        let prefix = match directory {
            "" => self.prefix.clone(),
            directory => format!("{}{directory}/", self.prefix),
        };
        let (mut objects, mut directories) = (HashMap::new(), HashSet::new());
        let mut after = None;
        loop {
            let page = self.bucket.list(&prefix, true, after.as_deref())?;
            for listed in page.objects {
                // The marker of the directory itself is none of its names.
                if let Some(name) = listed.key.strip_prefix(&prefix).filter(|name| !name.is_empty()) {
                    objects.insert(name.to_owned(), listed.seen);
                }
            }
            let names = page.prefixes.iter().filter_map(|key| key.strip_prefix(&prefix)?.strip_suffix('/'));
            directories.extend(names.map(str::to_owned));
            if objects.len() + directories.len() > self.names_max {
                return Ok(Listing::TooLarge);
            }
            after = page.next;
            if after.is_none() {
                return Ok(Listing::Names { objects, directories });
            }
        }
    }
}

impl Kept {
    fn find(&mut self, directory: &str) -> Option<Arc<Listing>> {
        self.uses += 1;
        let uses = self.uses;
        let (used, listing) = self.listings.get_mut(directory)?;
        *used = uses;
        Some(listing.clone())
    }

    fn put(&mut self, directory: &str, listing: &Arc<Listing>) {
        self.names += listing.names();
        self.uses += 1;
        if let Some((_, old)) = self.listings.insert(directory.to_owned(), (self.uses, listing.clone())) {
            self.names -= old.names();
        }
        // The one that was just put is the youngest.
        while self.listings.len() > 1 && (self.names > KEPT_NAMES_MAX || self.listings.len() > KEPT_MAX) {
            let oldest = self.listings.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(name, _)| name.clone());
            let Some((_, old)) = oldest.and_then(|oldest| self.listings.remove(&oldest)) else { return };
            self.names -= old.names();
        }
    }
}
