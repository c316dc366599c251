//! A destination for measurements: a real one, in a hidden directory that goes with it.
//!
//! It is kept where a job keeps what is unfinished, `.thalweg-staging/probe-<random>/`, with a lock held in it. So no
//! name of the user's is ever made or replaced; what a killed one leaves nobody holds, and the next one here removes
//! it, or `thalweg gc`.

use super::leftover::sweep;
use super::partial::{ASSUMED, Caching, LARGE_BYTES, Uncached, pays};
use super::{own_dir, own_shared, remove_emptied};
use crate::endpoint::local::destination::LocalDestination;
use crate::endpoint::local::place::{DestinationPlace, parent_words};
use crate::endpoint::local::{failed_at_place, failed_at_words, shown};
use crate::endpoint::{OPEN_DESTINATION, is_direct_refused};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::filter::Filter;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_sys::{Dir, File, FileSystemKind, Links, Time};
use thalweg_wire::message::{Direct, SourceForm, Terms};

/// What its names begin with.
const PREFIX: &str = "probe-";
/// What is measured with takes at most this part of the room that is left.
const ROOM_SHARE: u64 = 4;

/// See the module. It goes with the value.
pub struct Scratch {
    top: Dir,
    /// Of the directory that all of ours share.
    shared_name: Vec<u8>,
    shared: Dir,
    name: String,
    top_mtime: Option<Time>,
    /// Bytes that may be written into it.
    pub bytes_max: u64,
    /// Held until it is removed.
    held: Option<File>,
}

impl LocalDestination {
    /// A destination below `place` that is removed when it is closed, for at most so many bytes.
    ///
    /// # Errors
    /// As [`Scratch::begin`] and [`LocalDestination::open`].
    pub fn open_scratch(
        place: &DestinationPlace,
        source: &SourceForm,
        terms: Terms,
        bytes_max: u64,
    ) -> Result<LocalDestination> {
        let scratch = Scratch::begin(place, bytes_max, bytes_max)?;
        let place = DestinationPlace { path: PathBuf::new(), below: Some(scratch.tree()?) };
        let destination = LocalDestination::open(place, source, true, terms, None, Filter::new(Vec::new())?)?;
        *super::lock(&destination.scratch) = Some(scratch);
        Ok(destination)
    }
}

/// A file of a measurement, written as a copy writes large ones. It has no name, and goes when it is closed.
pub struct ScratchFile {
    file: File,
    kind: FileSystemKind,
    caching: Caching,
    /// It is written past the page cache; until that is refused.
    is_past: AtomicBool,
    uncached: Uncached,
}

impl ScratchFile {
    /// An empty one; `number` is not that of another one that is being made in `directory`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(directory: &Dir, number: u16, asked: Direct) -> io::Result<ScratchFile> {
        let name = number.to_string();
        let file = directory.create_new(name.as_bytes(), 0o600)?;
        directory.remove_file(name.as_bytes())?;
        let kind = directory.file_system()?.kind;
        let caching = Caching::choose(asked, kind, LARGE_BYTES, false);
        let is_past = caching == Caching::Direct
            && file.direct_alignment_or(ASSUMED).is_ok_and(|alignment| alignment.is_some())
            && file.set_direct(true).is_ok();
        let (is_past, uncached) = (AtomicBool::new(is_past), Uncached::default());
        Ok(ScratchFile { file, kind, caching, is_past, uncached })
    }

    /// Makes it longer by so many bytes from its `end` on, with the room for them, as a partial file gets them; the
    /// room only where a file system is known to reserve it without writing.
    pub fn reserve(&self, end: u64, bytes: u64) {
        // What is refused changes only speed.
        if self.file.truncate(end + bytes).is_ok() && pays(self.kind) {
            let _ = self.file.preallocate(end, bytes);
        }
    }

    /// Whether it is written past the page cache.
    pub fn is_past(&self) -> bool {
        self.is_past.load(Ordering::Relaxed)
    }

    /// Writes all of `bytes` at `offset`, both of whole blocks where it is written past the page cache.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.is_past() {
            match self.file.write_all_at(bytes, offset) {
                // As in a copy: the file system takes no direct I/O after all.
                Err(error) if is_direct_refused(&error) => {
                    self.file.set_direct(false)?;
                    self.is_past.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        match self.caching {
            Caching::Cached => self.file.write_all_at(bytes, offset),
            Caching::Direct | Caching::Uncached => self.uncached.write_all_at(&self.file, bytes, offset),
        }
    }

    /// Makes what was written survive a power cut.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The directory named, or the nearest one above it that is there; with its words.
///
/// # Errors
/// `NotFound`, `Permission`, `Conflict`.
pub fn nearest(place: &DestinationPlace) -> Result<(Dir, PathBuf)> {
    let mut words = place.path.clone();
    loop {
        let opened = match &place.below {
            Some(below) => {
                let bytes = words.as_os_str().as_bytes();
                let slashes = bytes.iter().take_while(|&&byte| byte == b'/').count();
                below.open_beneath(&bytes[slashes..], Links::Beneath)
            }
            None if words.as_os_str().is_empty() => Dir::open(Path::new(".")),
            None => Dir::open(&words),
        };
        match opened {
            Ok(dir) => return Ok((dir, words)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                    && words.parent().is_some() =>
            {
                words = parent_words(&words);
            }
            Err(error) => {
                let is_in_export = place.below.is_some();
                return Err(failed_at_place(OPEN_DESTINATION, &words, is_in_export, &error));
            }
        }
    }
}

impl Scratch {
    /// Makes one below `place`, for `bytes_wanted`, or for what may be taken of the room that is left if that is at
    /// least `bytes_min`. Where the place is not there, it is below the nearest directory above that is.
    ///
    /// # Errors
    /// `Space` if that is more than a quarter of the room that is left, or it is read-only; `Permission`, `Io`, `Busy`;
    /// `Conflict` where the staging directory is not ours.
    pub fn begin(place: &DestinationPlace, bytes_wanted: u64, bytes_min: u64) -> Result<Scratch> {
        let (top, words) = nearest(place)?;
        let of_io = |error: io::Error| failed_at_words("make a scratch directory below", &words, &error);
        let room = top.file_system().map_err(of_io)?;
        let refused = |cause: String| Failure::new(FailureKind::Space, "measure writing", cause);
        if room.read_only {
            return Err(refused(format!("{} is on a file system that is read-only", shown(&words))));
        }
        let bytes_max = bytes_wanted.min(room.bytes_available / ROOM_SHARE);
        if bytes_max < bytes_min {
            return Err(refused(format!(
                "{bytes_min} bytes are more than a quarter of the {} that are free at {}",
                room.bytes_available,
                shown(&words)
            )));
        }
        Scratch::make(top, bytes_max).map_err(of_io)
    }

    /// The directory in it that is written to.
    ///
    /// # Errors
    /// `Io`.
    pub fn tree(&self) -> Result<Dir> {
        let tree = self.shared.open_beneath(format!("{}/tree", self.name).as_bytes(), Links::Refuse);
        tree.map_err(|error| failure::of_io("open the scratch directory", &error))
    }

    fn make(top: Dir, bytes_max: u64) -> io::Result<Scratch> {
        let top_mtime = top.stat_self().ok().map(|stat| stat.mtime);
        let mut random = [0; 8];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("no random numbers"))?;
        let name = format!("{PREFIX}{:016x}", u64::from_le_bytes(random));
        /// How often what others share may be removed under our hands.
        const ROUNDS: usize = 16;
        for _ in 0..ROUNDS {
            match Scratch::try_make(&top, &name) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {}
                made => {
                    let (shared_name, shared, lock) = made?;
                    remove_left(&shared);
                    let held = Some(lock);
                    return Ok(Scratch { top, shared_name, shared, name, top_mtime, bytes_max, held });
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the staging directory comes and goes"))
    }

    fn try_make(top: &Dir, name: &str) -> io::Result<(Vec<u8>, Dir, File)> {
        let (shared_name, shared) = own_shared(top)?;
        let own = own_dir(&shared, name.as_bytes())?;
        let lock = own.create_new(b"lock", 0o600)?;
        if !lock.lock_exclusive()? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        own.make_dir(b"tree", 0o700)?;
        Ok((shared_name, shared, lock))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.shared, self.name.as_bytes(), self.held.take());
        // Others may have theirs in it.
        if self.top.remove_dir(&self.shared_name).is_ok()
            && let Some(mtime) = self.top_mtime
            && let Ok(top) = self.top.as_file()
        {
            let _ = top.set_times(None, Some(mtime));
        }
    }
}

/// Removes what killed ones left: nobody holds the lock in it.
fn remove_left(shared: &Dir) {
    let Ok(names) = shared.entries() else { return };
    for name in names.flatten().map(|entry| entry.name).filter(|name| is_scratch(name)) {
        let lock = shared.open_beneath(&name, Links::Refuse).and_then(|own| open_lock(&own));
        if let Ok(lock) = lock
            && lock.lock_exclusive().unwrap_or(false)
        {
            remove(shared, &name, Some(lock));
        }
    }
}

/// Whether a job's directory is of a measurement.
pub(super) fn is_scratch(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// The lock in it. One that was killed before it had one gets ours; one that is just about to make its own begins anew.
pub(super) fn open_lock(own: &Dir) -> io::Result<File> {
    match own.open_read_write(b"lock") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => own.create_new(b"lock", 0o600),
        other => other,
    }
}

/// `held`: the lock in it.
fn remove(shared: &Dir, name: &[u8], held: Option<File>) {
    let swept =
        shared.open_beneath(name, Links::Refuse).and_then(|own| sweep(&Arc::new(own), true, &|| true));
    drop(held);
    let removed = swept.and_then(|_| remove_emptied(shared, name));
    if let Err(error) = removed {
        let failure = failure::of_io("remove", &error);
        tracing::warn!(%failure, "a scratch directory stays; `thalweg gc` removes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &Path) -> DestinationPlace {
        DestinationPlace { path: path.to_path_buf(), below: None }
    }

    /// Others write and delete on the same disk meanwhile: less than half as much again is a quarter here.
    #[test]
    fn no_more_than_a_quarter_of_the_room_is_taken_and_less_than_the_least_is_refused() {
        let there = tempfile::tempdir().unwrap();
        let free = || Dir::open(there.path()).unwrap().file_system().unwrap().bytes_available;
        let before = free();
        let scratch = Scratch::begin(&place(there.path()), u64::MAX, 0).unwrap();
        let most = before.max(free()) / 8 * 3;
        assert!(scratch.bytes_max <= most, "{} of {before}", scratch.bytes_max);
        let refused = |least| match Scratch::begin(&place(there.path()), u64::MAX, least) {
            Err(refused) => refused,
            Ok(scratch) => panic!("{} of {} are to be had", scratch.bytes_max, free()),
        };
        for least in [before / 2, u64::MAX] {
            let refused = refused(least);
            assert_eq!(refused.kind, FailureKind::Space, "{refused}");
            assert!(refused.cause.contains("more than a quarter of the"), "{refused}");
        }
        drop(scratch);
        let left = std::fs::read_dir(there.path()).unwrap().count();
        assert_eq!(left, 0, "what is refused or over leaves nothing");
    }
}
