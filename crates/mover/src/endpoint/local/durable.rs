//! Makes what was done survive a power cut, and notes it.
//!
//! A few files and directories are synced one by one. Many are synced with their whole file system: one call instead
//! of thousands, and it waits for other processes' data too. Each file system is synced through a descriptor that was
//! opened before anything was written there, so errors of writing back since then are reported to us.
//!
//! An error is final (fsync's second answer proves nothing): every later sync and record fails the same way, and
//! what was not recorded before is sent again by the next attempt, into files that are read back from the medium
//! first.

use super::destination::LocalDestination;
use super::staging::Territory;
use super::{at_words, failed, failed_at_words, lock};
use crate::endpoint::PartialFile;
use crate::failure::{Failure, Result};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_sys::{Dir, File};
use thalweg_wire::{Digest, RelativePath};

/// Up to this many things are synced one by one; each costs a flush of the disk's cache. On ext4 with 100 to 400 MB that
/// others had just written, 8 files took 2 to 7 ms one by one and 40 to 70 ms with their file system; 16 took as long
/// either way; with nothing of others, 32 took eight times as long one by one.
const SINGLE_MAX: usize = 8;

/// What no sync covers yet.
#[derive(Default)]
pub(super) struct Changed {
    dirs: HashMap<Vec<u8>, Arc<Dir>>,
    files: Vec<Arc<File>>,
    /// More than can be listed, or something that has no single descriptor.
    everything: bool,
}

impl Changed {
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

impl LocalDestination {
    /// Names changed in the directory at `path`. Call after the change.
    pub(super) fn changed_dir(&self, path: &[u8], dir: &Arc<Dir>, territory: &Territory) {
        territory.touch();
        let mut changed = lock(&self.changed);
        if !changed.everything {
            changed.dirs.insert(path.to_vec(), dir.clone());
            changed.check();
        }
    }

    /// Names changed in the directory of the entry at `path`.
    pub(super) fn changed_parent(&self, path: &RelativePath, place: &super::destination::Place) {
        let path = self.final_path(path);
        let parent = path.split().map_or(&[][..], |(parent, _)| parent);
        if parent.is_empty() {
            place.territory.top_is_changed.store(true, Ordering::Release);
        }
        self.changed_dir(parent, &place.dir, &place.territory);
    }

    /// An open file was written, or its metadata changed. Call after the change, and before the file counts as written.
    pub(super) fn changed_file(&self, file: &Arc<File>, territory: &Territory) {
        territory.touch();
        let mut changed = lock(&self.changed);
        if !changed.everything {
            changed.files.push(file.clone());
            changed.check();
        }
    }

    /// Something changed that only a sync of the whole covers.
    pub(super) fn changed_loosely(&self, territory: &Territory) {
        territory.touch();
        let mut changed = lock(&self.changed);
        changed.everything = true;
        changed.check();
    }

    /// A directory above the root got a name.
    pub(super) fn changed_above_root(&self, dir: Arc<Dir>) {
        let mut changed = lock(&self.changed);
        // No path of an entry starts with a slash.
        let key = format!("/{}", changed.dirs.len()).into_bytes();
        changed.dirs.insert(key, dir);
    }

    pub(super) fn sync_written(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        self.check_sound()?;
        self.stagings().for_each(|staging| staging.nurseries.before_sync());
        self.sync_changed(partials)?;
        self.stagings().for_each(|staging| staging.nurseries.after_sync());
        Ok(())
    }

    fn sync_changed(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        let mut changed = std::mem::take(&mut *lock(&self.changed));
        let files: Vec<_> = {
            let open = lock(&self.partials);
            partials.iter().filter_map(|partial| open.get(&partial.number()).cloned()).collect()
        };
        files.iter().for_each(|partial| partial.territory.touch());
        let single = files.len() + changed.dirs.len() + changed.files.len();
        // Directories above the root may be on a file system of their own.
        let above: Vec<_> = changed.dirs.extract_if(|path, _| path.starts_with(b"/")).collect();
        for (_, dir) in &above {
            dir.sync().map_err(|error| self.fail("sync a directory above", None, &error))?;
        }
        if changed.everything || single > SINGLE_MAX || partials.len() != files.len() {
            return self.sync_file_systems();
        }
        for partial in &files {
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

    /// Makes durable what was there before us, once for each file system: an attempt that was killed may have
    /// written and renamed without a sync, and what it left is about to be told as good. A copy into a new place
    /// never pays for this.
    pub(super) fn sync_the_past(&self) -> Result<()> {
        for territory in self.all_territories() {
            if !territory.past_is_durable.load(Ordering::Acquire) {
                territory
                    .top
                    .sync_file_system()
                    .map_err(|error| self.fail("sync the file system", None, &error))?;
                territory.past_is_durable.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Syncs every file system that something was written to.
    fn sync_file_systems(&self) -> Result<()> {
        for territory in self.all_territories() {
            // Cleared before: what is written from here on is for the next one.
            if territory.is_dirty.swap(false, Ordering::AcqRel) {
                territory
                    .top
                    .sync_file_system()
                    .map_err(|error| self.fail("sync the file system", None, &error))?;
            }
        }
        Ok(())
    }

    pub(super) fn record_chunks(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        self.check_sound()?;
        // The journal and the partials need their names to be found again.
        for territory in self.all_territories() {
            if let Some(staging) = territory.open_staging()
                && staging.names_are_new.swap(false, Ordering::AcqRel)
            {
                let synced = staging.sync_names().and_then(|()| territory.top.sync());
                synced.map_err(|error| self.fail("sync the staging directory", None, &error))?;
            }
        }
        match &mut *lock(&self.journal) {
            Some(journal) => journal.record(chunks).map_err(|failure| at_words(failure, &self.words)),
            None => Ok(()),
        }
    }

    /// Notes the first sync that failed, and tells it: on the entry at `path`, or else on the destination.
    fn fail(&self, operation: &str, path: Option<&RelativePath>, error: &io::Error) -> Failure {
        let failure = match path {
            Some(path) if !path.as_bytes().is_empty() => failed(operation, path, error),
            _ => failed_at_words(operation, &self.words, error),
        };
        lock(&self.failed).get_or_insert(failure).clone()
    }
}
