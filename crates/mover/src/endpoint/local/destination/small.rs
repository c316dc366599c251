//! Whole small files into staging: each is made, filled, given its metadata.
//!
//! What repays it goes past the page cache, several files in flight ([`Together`]): a copy of files of 256 KiB took
//! half the time, one of 64 KiB half the CPU time, wherever new pages are dear (a virtual machine whose host takes back
//! what is free).

use super::decide::is_sparse;
use super::{LocalDestination, Place};
use crate::endpoint::local::metadata::Has;
use crate::endpoint::local::staging::Staging;
use crate::endpoint::local::staging::partial::{Caching, write_past_cache, write_with_holes};
use crate::endpoint::local::{DRY_RUN, failed, of_room};
use crate::endpoint::together::Together;
use crate::endpoint::{Small, Staged, is_direct_refused};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, DirectAlignment, File};
use thalweg_wire::Entry;
use thalweg_wire::message::VerifyLevel;

/// A file in its lane that nothing was written to.
struct Created {
    place: Arc<Place>,
    staging: Arc<Staging>,
    lane: u32,
    dir: Arc<Dir>,
    number: u64,
    /// Its name, if that is not its number.
    name: Option<Box<[u8]>>,
    file: Arc<File>,
    /// The mode it has, where that is known.
    mode: Option<u32>,
}

impl LocalDestination {
    pub(super) fn stage_files(
        &self,
        stream: u32,
        files: &[Small<'_>],
        together: &mut Together,
    ) -> Vec<Result<Staged>> {
        if self.terms.dry_run {
            let refused = || Err(Failure::new(FailureKind::Internal, "stage", DRY_RUN));
            return files.iter().map(|_| refused()).collect();
        }
        let open = match self.claim.while_open().and_then(|open| self.durability.check().map(|()| open)) {
            Ok(open) => open,
            Err(failure) => return files.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut in_flight: Vec<Option<Created>> = Vec::new();
        let mut results = Vec::with_capacity(files.len());
        let handfuls = handfuls(files);
        for (tag, file) in files.iter().enumerate() {
            let created = self.create_small(stream, file.entry, handfuls[tag]);
            let result = created.map(|created| match self.begin_past_cache(&created, file, together, tag) {
                true => (None, Some(created)),
                false => {
                    let written = self.fill(&created, file);
                    (Some(self.dress_small(created, file.entry, written)), None)
                }
            });
            match result {
                Ok((staged, created)) => {
                    results.push(staged);
                    in_flight.push(created);
                }
                Err(failure) => {
                    results.push(Some(Err(failure)));
                    in_flight.push(None);
                }
            }
        }
        for (tag, result) in together.settle() {
            let (file, created) = (&files[tag], in_flight[tag].take());
            results[tag] = created.map(|created| {
                let written = self.end_past_cache(&created, file, result);
                self.dress_small(created, file.entry, written)
            });
        }
        drop(open);
        let lost = || Failure::new(FailureKind::Internal, "write", "its write was not heard of again");
        results.into_iter().map(|result| result.unwrap_or_else(|| Err(lost()))).collect()
    }

    fn create_small(&self, stream: u32, entry: &Entry, handful: usize) -> Result<Created> {
        let (place, name) = self.parent_of(&entry.path)?;
        let of_io = |error: io::Error| failed("write", &entry.path, &of_room(&place.dir, error));
        let staging = self.staging_at(&place).map_err(of_io)?;
        let number = self.claim.new_number();
        let (first, mode) = self.mode_at_first(entry, &staging);
        let path = self.final_path(&entry.path);
        let above = path.split().map_or(&[][..], |(above, _)| above);
        // Of those that take their place as a whole none may turn out damaged after the sync; and who fills the same
        // directory with another part would go on in the one that was replaced.
        let may_be_nursed = self.terms.verify < VerifyLevel::Readback && self.terms.part.is_none();
        let nursery = || self.nurseries.next(&staging.dir, (stream, number), (&place, above), handful);
        if may_be_nursed && let Some((lane, dir)) = nursery() {
            // Another version of it may be there: then this one goes the usual way.
            if let Ok(file) = dir.create_new(&name, first) {
                let (name, file) = (Some(name.into()), Arc::new(file));
                return Ok(Created { place, staging, lane, dir, number, name, file, mode });
            }
            self.nurseries.made(lane, number, false);
        }
        let (lane, dir) = self.with_descriptors(|| self.lanes.next(&staging, stream)).map_err(of_io)?;
        match self.with_descriptors(|| dir.create_new(number.to_string().as_bytes(), first)) {
            Ok(file) => {
                Ok(Created { place, staging, lane, dir, number, name: None, file: Arc::new(file), mode })
            }
            Err(error) => {
                self.lanes.gone(lane);
                Err(of_io(error))
            }
        }
    }

    /// The mode to create a small file with, and whether that is then its final one.
    fn mode_at_first(&self, entry: &Entry, staging: &Staging) -> (u32, Option<u32>) {
        if !self.terms.preserve.mode {
            let mode = self.mode_made(entry);
            return (mode, Some(mode));
        }
        // Attributes can be set only while the file may be written.
        let mode = if entry.xattrs.is_empty() { entry.mode & 0o777 } else { entry.mode & 0o777 | 0o600 };
        (mode, staging.abilities().mode_is_exact.then_some(mode))
    }

    /// How to write past the page cache, where that pays.
    fn past_cache(&self, created: &Created, entry: &Entry) -> Option<DirectAlignment> {
        match self.caching(entry, &created.staging) {
            Caching::Direct => created.staging.abilities().direct,
            Caching::Cached | Caching::Uncached => None,
        }
    }

    /// Puts the whole blocks of a file into flight. False if nothing was begun.
    fn begin_past_cache(
        &self,
        created: &Created,
        small: &Small<'_>,
        together: &mut Together,
        tag: usize,
    ) -> bool {
        let Some(alignment) = self.past_cache(created, small.entry) else { return false };
        let whole = &small.content[..whole_blocks(small.content, alignment)];
        !whole.is_empty()
            && created.file.set_direct(true).is_ok()
            && together.begin(&created.file, whole, alignment, tag)
    }

    /// The blocks of a file are on the disk, or are not; the rest of it.
    fn end_past_cache(&self, created: &Created, small: &Small<'_>, result: io::Result<()>) -> io::Result<()> {
        let alignment = created.staging.abilities().direct;
        let past = match (result, alignment) {
            (Ok(()), Some(alignment)) => whole_blocks(small.content, alignment),
            (Ok(()), None) => 0,
            // The file system takes no direct I/O of this file after all, or there is no memory for it.
            (Err(error), _) if is_direct_refused(&error) => 0,
            (Err(error), _) => return Err(error),
        };
        if past == small.content.len() {
            return Ok(());
        }
        created.file.set_direct(false)?;
        created.file.write_all_at(&small.content[past..], past as u64)
    }

    fn fill(&self, created: &Created, small: &Small<'_>) -> io::Result<()> {
        let (file, content) = (&created.file, small.content);
        if is_sparse(small.entry) {
            file.truncate(content.len() as u64)?;
            return write_with_holes(file, content);
        }
        match self.past_cache(created, small.entry) {
            Some(alignment) => write_past_cache(file, content, alignment),
            None => file.write_all_at(content, 0),
        }
    }

    /// A file that was filled gets its metadata, one that was not is removed.
    fn dress_small(&self, created: Created, entry: &Entry, written: io::Result<()>) -> Result<Staged> {
        let Created { place, staging, lane, dir, number, name, file, mode } = created;
        let written = written.and_then(|()| {
            let mut has =
                Has { uid: self.rights.uid, gid: self.rights.gid, mode, mtime: None, may_have_xattrs: false };
            if let Some((uid, gid)) = staging.abilities().owner {
                (has.uid, has.gid) = (uid, gid);
            }
            self.dress(&file, &has, entry, &place)
        });
        self.changed_file(&file, &place.territory);
        match written {
            Ok(losses) => {
                if name.is_some() {
                    self.nurseries.made(lane, number, true);
                }
                Ok(Staged { lane, number, name, losses })
            }
            Err(error) => {
                match &name {
                    Some(name) => {
                        let stays = dir.remove_file(name).is_err();
                        self.nurseries.made(lane, number, stays);
                    }
                    None => self.remove_staged(lane, &dir, number.to_string().as_bytes()),
                }
                Err(failed("write", &entry.path, &error))
            }
        }
    }

    /// Removes a staged file, if it is here. A lane whose file cannot be removed stays as full as it is.
    pub(super) fn remove_staged(&self, lane: u32, dir: &Dir, name: &[u8]) {
        if dir.remove_file(name).is_ok() {
            self.lanes.gone(lane);
        }
    }
}

/// Of each file how many of these are in its directory, in a row.
fn handfuls(files: &[Small<'_>]) -> Vec<usize> {
    fn above<'a>(file: &Small<'a>) -> &'a [u8] {
        file.entry.path.split().map_or(&[][..], |(above, _)| above)
    }
    let mut counts = Vec::with_capacity(files.len());
    for run in files.chunk_by(|a, b| above(a) == above(b)) {
        counts.resize(counts.len() + run.len(), run.len());
    }
    counts
}

fn whole_blocks(content: &[u8], alignment: DirectAlignment) -> usize {
    content.len() - content.len() % alignment.offset as usize
}
