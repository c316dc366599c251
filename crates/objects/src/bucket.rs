//! What the endpoints need of a bucket: so much of [`Store`], so that their tests have one in memory.

use crate::store::{About, Head, If, Page, Part, Removed, Seen, Store, Upload, is_any};
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::{Failure, Result};
use thalweg_wire::{Evidence, Time};

/// One bucket, as [`Store`] says it of each call.
pub(crate) trait Bucket: Send + Sync {
    /// What it is called, with the endpoint where that is not Amazon's.
    fn name(&self) -> String;
    /// Why it was given up.
    fn lost(&self) -> Option<Failure>;
    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool;
    /// Another number each time that content got across.
    fn moved(&self) -> u64;
    /// In what time it answered a request soonest; zero before it ever did.
    fn answers_in(&self) -> Duration;
    /// One page of what is below `prefix`.
    fn list(&self, prefix: &str, delimiter: bool, after: Option<&str>) -> Result<Page>;
    /// Whether a key begins with `prefix`.
    fn has_keys(&self, prefix: &str) -> Result<bool> {
        is_any(|after| self.list(prefix, true, after))
    }
    /// What stands at a key.
    fn head(&self, key: &str) -> Result<Option<Head>>;
    /// The same before so much content is put there.
    fn head_before(&self, key: &str, bytes: u64) -> Result<Option<Head>>;
    /// The same with its content, if that has no more than so many bytes.
    fn fetch(&self, key: &str, bytes_max: usize) -> Result<Option<(Head, Option<Vec<u8>>)>>;
    /// What stands at a key, with its content on the way, if that has no more than so many bytes.
    fn begin_reading(&self, key: &str, bytes_max: u64) -> Result<Option<Head>>;
    /// Nobody will read what was begun so, and not read since.
    fn forget_begun(&self);
    /// Bytes of one version.
    fn read(&self, key: &str, seen: &Seen, offset: u64, through: u64, buffer: &mut [u8]) -> Result<usize>;
    /// A whole object.
    fn put(&self, key: &str, content: &[u8], about: &About, only: &If) -> Result<Seen>;
    /// An object in parts.
    fn begin(&self, key: &str, about: &About) -> Result<Upload>;
    /// One of them.
    fn put_part(&self, upload: &Upload, number: u16, content: &[u8]) -> Result<Part>;
    /// Those that are there.
    fn parts(&self, upload: &Upload) -> Result<Vec<Part>>;
    /// Gives an object in parts its name.
    fn complete(&self, upload: &Upload, parts: &[Part], only: &If) -> Result<Seen>;
    /// Throws its parts away.
    fn abort(&self, upload: &Upload) -> Result<()>;
    /// Removes an object that is still what was seen.
    fn remove(&self, key: &str, seen: &Seen) -> Result<Removed>;
}

impl Bucket for Store {
    fn name(&self) -> String {
        Store::name(self)
    }

    fn lost(&self) -> Option<Failure> {
        Store::lost(self)
    }

    fn is_given_up(&self) -> bool {
        Store::is_given_up(self)
    }

    fn moved(&self) -> u64 {
        Store::moved(self)
    }

    fn answers_in(&self) -> Duration {
        Store::answers_in(self)
    }

    fn list(&self, prefix: &str, delimiter: bool, after: Option<&str>) -> Result<Page> {
        Store::list(self, prefix, delimiter, after)
    }

    fn head(&self, key: &str) -> Result<Option<Head>> {
        Store::head(self, key)
    }

    fn head_before(&self, key: &str, bytes: u64) -> Result<Option<Head>> {
        Store::head_before(self, key, bytes)
    }

    fn fetch(&self, key: &str, bytes_max: usize) -> Result<Option<(Head, Option<Vec<u8>>)>> {
        Store::fetch(self, key, bytes_max)
    }

    fn begin_reading(&self, key: &str, bytes_max: u64) -> Result<Option<Head>> {
        Store::begin_reading(self, key, bytes_max)
    }

    fn forget_begun(&self) {
        Store::forget_begun(self);
    }

    fn read(&self, key: &str, seen: &Seen, offset: u64, through: u64, buffer: &mut [u8]) -> Result<usize> {
        Store::read(self, key, seen, offset, through, buffer)
    }

    fn put(&self, key: &str, content: &[u8], about: &About, only: &If) -> Result<Seen> {
        Store::put(self, key, content, about, only)
    }

    fn begin(&self, key: &str, about: &About) -> Result<Upload> {
        Store::begin(self, key, about)
    }

    fn put_part(&self, upload: &Upload, number: u16, content: &[u8]) -> Result<Part> {
        Store::put_part(self, upload, number, content)
    }

    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        Store::parts(self, upload)
    }

    fn complete(&self, upload: &Upload, parts: &[Part], only: &If) -> Result<Seen> {
        Store::complete(self, upload, parts, only)
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        Store::abort(self, upload)
    }

    fn remove(&self, key: &str, seen: &Seen) -> Result<Removed> {
        Store::remove_seen(self, key, seen)
    }
}

/// The bucket of both endpoints.
pub(crate) type AnyBucket = Arc<dyn Bucket>;

/// What shows that an object is still the version that was seen: its etag takes the place of an inode. `mtime` is its
/// own time where that is kept beside it, else the store's.
pub(crate) fn evidence_of(seen: &Seen, mtime: Option<Time>) -> Evidence {
    Evidence {
        size: seen.size,
        mtime: mtime.unwrap_or(seen.modified),
        ctime: seen.modified,
        device: 0,
        inode: version_of(&seen.etag),
    }
}

/// 64 bits of an etag's BLAKE3.
pub(crate) fn version_of(etag: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(etag.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
pub(crate) mod memory;
