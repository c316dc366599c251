//! A bucket as a source.
//!
//! 1. Pages of the flat listing are asked for one ahead of what is looked at.
//! 2. What an object was as a file is kept beside it, and only a look at each tells it: so many looks at once. Where
//!    reads are likely, the look at a small object brings its content, too: one request instead of two; and of the
//!    first objects, as far as a chunk holds them, content is on the way from then on.
//! 3. Entries go to the sink, directories made of the keys that have them in front.
//!
//! One moment: what is read is of one version, whatever takes its name meanwhile (the store refuses to mix them). Of
//! what takes several requests the look behind the last byte asks the store anew, so that an object that was
//! overwritten is offered anew. One that is to be removed goes only as the version that was copied.
//!
//! Memory does not grow with the bucket: two pages, `LOOKS_AHEAD` looks, `DIRECTORIES_KEPT` directories, and what
//! is [`known`] of the objects that were offered last. Of several places a few are looked at ahead.

use self::known::{Content, Known, Room};
use crate::bucket::{AnyBucket, evidence_of};
use crate::location::Location;
use crate::store::{About, Head, Page, Removed, Seen, Store};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::{OPEN, REMOVE, Removal, ScanSink, Source, SourceFile};
use thalweg_mover::failure::{shown_path, to_io};
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_sys::user::{effective_gid, effective_uid};
use thalweg_wire::message::{ScanTotals, SourceForm};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath, Time};

pub use several::ObjectSources;

/// What is looked at before it is wanted.
mod ahead;

/// What of it is offered, and how.
mod offers;

/// What is known of objects that were offered.
mod known;

/// More than one of them.
mod several;

/// What fails where a place in a bucket cannot be had.
const OPEN_SOURCE: &str = "open the source";
const LIST: &str = "list the bucket";
const LOOK: &str = "look at the object";
const READ: &str = "read the object";
const GONE: &str = "no object has this key any more";

/// Threads that read, unless whoever copies says how many: each waits for an answer most of the time.
pub const READS_AT_ONCE: u16 = 16;
/// Requests that each of them makes at least, where there is enough for so many of [`CHUNK_BYTES_MIN`]: of connections
/// that are not equally fast the slowest then holds up the end by an eighth at most.
const REQUESTS_OF_EACH: u64 = 8;
/// Bytes that one request brings, if nobody says: as few far away take several round trips, and of more each stream
/// would have too few (docs/measurements.md, a far bucket). Powers of two.
const CHUNK_BYTES_MIN: u64 = 4 << 20;
/// See [`CHUNK_BYTES_MIN`]. With more, one that breaks off would have more to bring again.
const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// What opening a place showed is of that moment for so long: a scan that begins later asks anew.
const FIRST_LASTS: Duration = Duration::from_secs(10);

/// Modes of what has none beside it.
const FILE_MODE: u32 = 0o644;
/// See [`FILE_MODE`].
const DIRECTORY_MODE: u32 = 0o755;

/// How a bucket is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// Bytes of a chunk of the transfer, at least 1: an answer of the store is read up to the end of one. Default: as
    /// suits what there is, 4 to 16 MiB.
    pub chunk_bytes: Option<u64>,
    /// Files have the times that the store gave their objects: what is kept beside them is not asked for, which costs a
    /// request for each.
    pub server_times: bool,
}

/// See the module.
pub struct ObjectSource {
    bucket: AnyBucket,
    /// What its keys begin with; of a single object its key.
    base: String,
    /// Name of the object or prefix in paths of entries; empty where what is in a prefix is meant.
    top: Vec<u8>,
    is_single: bool,
    chunk_bytes: u64,
    server_times: bool,
    known: Mutex<Known>,
    /// Of content that is read ahead.
    room: Room,
    /// See [`Source::expect_reads`].
    reads_are_likely: AtomicBool,
    /// What opening it showed, and when, for the scan that follows.
    first: Mutex<Option<(First, Instant)>>,
    /// The first objects of a scan are on the way once they are looked at.
    begins_ahead: AtomicBool,
    /// How long one look is waited for before they give way.
    look_waits: Duration,
}

/// What opening a place showed of it.
enum First {
    /// What is below its prefix, from the first key on.
    Page(Page),
    /// It is a single object.
    Head(Head),
}

impl First {
    /// Of all there is, if it shows that.
    fn bytes(&self) -> Option<u64> {
        match self {
            First::Head(head) => Some(head.seen.size),
            First::Page(Page { objects, next: None, .. }) => {
                Some(objects.iter().fold(0, |all, listed| listed.seen.size.saturating_add(all)))
            }
            First::Page(_) => None,
        }
    }
}

/// Bytes of a chunk of a copy of so many: as many as leave each stream [`REQUESTS_OF_EACH`], within bounds.
fn chunk_bytes_for(bytes: Option<u64>) -> u64 {
    let of_each =
        bytes.map_or(CHUNK_BYTES_MAX, |bytes| bytes / (u64::from(READS_AT_ONCE) * REQUESTS_OF_EACH));
    1 << of_each.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX).ilog2()
}

/// One version of an object, and what it was as a file.
#[derive(Clone)]
struct Version {
    seen: Seen,
    /// Its own time, if it is to have that.
    mtime: Option<Time>,
}

impl Version {
    fn evidence(&self) -> Evidence {
        evidence_of(&self.seen, self.mtime)
    }
}

/// What was found of an object.
struct Shown {
    version: Version,
    about: About,
    /// If it came with that.
    content: Option<Content>,
}

impl ObjectSource {
    /// Opens what `location` names, as rsync reads a path: an object of this key is a single file; else a key without a
    /// slash at its end is a directory, which is placed itself below the destination; one with a slash, and the bucket
    /// itself, is what is in it. Returns what names at the destination depend on. What was asked for that is kept for a
    /// scan that follows soon.
    ///
    /// # Errors
    /// `NotFound` if no object has the key and none is below it; as [`Store::head`] and [`Store::list`].
    pub fn open(
        store: Arc<Store>,
        location: &Location,
        options: SourceOptions,
    ) -> Result<(ObjectSource, SourceForm)> {
        ObjectSource::of(store, location, options)
    }

    fn of(
        bucket: AnyBucket,
        location: &Location,
        options: SourceOptions,
    ) -> Result<(ObjectSource, SourceForm)> {
        let key = location.key.as_str();
        let is_contents = key.is_empty() || key.ends_with('/');
        let single = if is_contents { None } else { bucket.head(key)? };
        let is_single = single.is_some();
        let mut first = single.map(First::Head);
        let base = if is_contents || is_single { key.to_owned() } else { format!("{key}/") };
        if !is_single && !base.is_empty() {
            let page = bucket.list(&base, false, None)?;
            if page.objects.is_empty() && page.next.is_none() {
                let shown = shown_path(base.as_bytes());
                let cause = match is_contents {
                    true => format!("{} has no key that begins with `{shown}`", bucket.name()),
                    false => format!(
                        "{} has neither an object `{}` nor keys that begin with `{shown}`",
                        bucket.name(),
                        shown_path(key.as_bytes())
                    ),
                };
                return Err(Failure::new(FailureKind::NotFound, OPEN_SOURCE, cause));
            }
            first = Some(First::Page(page));
        }
        let last = key.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        let top = if is_contents { Vec::new() } else { last };
        let form = match is_single {
            true => SourceForm::Single { name: top.clone() },
            false => SourceForm::Many,
        };
        let suits = || chunk_bytes_for(first.as_ref().and_then(First::bytes));
        let (chunk_bytes, server_times) =
            (options.chunk_bytes.unwrap_or_else(suits).max(1), options.server_times);
        let (known, room, reads_are_likely) = (Mutex::default(), Room::default(), AtomicBool::new(false));
        let (first, begins_ahead) =
            (Mutex::new(first.map(|first| (first, Instant::now()))), AtomicBool::new(true));
        let source = ObjectSource {
            bucket,
            base,
            top,
            is_single,
            chunk_bytes,
            server_times,
            known,
            room,
            reads_are_likely,
            first,
            begins_ahead,
            look_waits: ahead::LOOK_WAITS,
        };
        Ok((source, form))
    }

    /// It as one of several, with this number: until its turn comes it holds no connections, and, far from that, no
    /// page.
    fn in_turn(mut self, number: usize) -> ObjectSource {
        if number > 0 {
            self.begins_ahead = AtomicBool::new(false);
        }
        if number > several::SOURCES_AHEAD {
            self.first = Mutex::default();
        }
        self
    }

    /// Bytes of a chunk of the transfer, that each request brings.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// What opening it showed, once, and soon after that.
    fn first(&self) -> Option<First> {
        let (first, at) = lock(&self.first).take()?;
        (at.elapsed() < FIRST_LASTS).then_some(first)
    }

    /// The key of an entry.
    fn key_of(&self, path: &RelativePath) -> Result<String> {
        let none = || not_found(OPEN, "the bucket has no such name").at(path);
        let text = std::str::from_utf8(path.as_bytes()).map_err(|_| none())?;
        if self.is_single {
            return if path.as_bytes() == self.top { Ok(self.base.clone()) } else { Err(none()) };
        }
        let below = match std::str::from_utf8(&self.top) {
            Ok("") => text,
            Ok(top) => text.strip_prefix(top).and_then(|rest| rest.strip_prefix('/')).ok_or_else(none)?,
            Err(_) => return Err(none()),
        };
        Ok(format!("{}{below}", self.base))
    }

    fn version_of(&self, head: &Head) -> Version {
        let mtime = if self.server_times { None } else { head.about.mtime };
        Version { seen: head.seen.clone(), mtime }
    }

    /// What stands there now.
    fn look(&self, path: &RelativePath, operation: &str) -> Result<(String, Head)> {
        let key = self.key_of(path)?;
        match self.bucket.head(&key).map_err(|failure| failure.at(path))? {
            Some(head) => Ok((key, head)),
            None => Err(not_found(operation, GONE).at(path)),
        }
    }

    fn entry_of(&self, path: RelativePath, kind: Kind, version: &Version, about: &About) -> Entry {
        let is_directory = matches!(kind, Kind::Directory);
        let none = About::default();
        let asked = if self.server_times { &none } else { about };
        let mode = if is_directory { DIRECTORY_MODE } else { FILE_MODE };
        let mut evidence = version.evidence();
        if is_directory {
            evidence.size = 0;
            if asked.mode.is_none() {
                evidence.inode = Entry::IMPLIED_INODE;
            }
        }
        Entry {
            id: EntryId(0),
            path,
            kind,
            mode: asked.mode.map_or(mode, |mode| mode & 0o7777),
            uid: asked.uid.unwrap_or_else(effective_uid),
            gid: asked.gid.unwrap_or_else(effective_gid),
            evidence,
            xattrs: Vec::new(),
        }
    }

    fn remember(&self, path: &RelativePath, version: Version, content: Option<Content>) {
        lock(&self.known).put(path, version, content);
    }
}

fn not_found(operation: &str, cause: &str) -> Failure {
    Failure::new(FailureKind::NotFound, operation, cause)
}

fn changed(path: &RelativePath) -> Failure {
    let cause = "another version of the object stands there than was offered";
    Failure::new(FailureKind::Changed, READ, cause).at(path)
}

/// What is on its way to nobody goes.
impl Drop for ObjectSource {
    fn drop(&mut self) {
        self.bucket.forget_begun();
    }
}

impl Source for ObjectSource {
    fn lost(&self) -> Option<Failure> {
        self.bucket.lost()
    }

    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        thread::scope(|scope| self.scan_begun(self.begin(scope), sink))
    }

    fn expect_reads(&self, are_likely: bool) {
        self.reads_are_likely.store(are_likely, Ordering::Relaxed);
        if !are_likely {
            lock(&self.known).drop_contents();
            self.bucket.forget_begun();
        }
    }

    /// One that is known is not looked at: its first read is of this version, or refused.
    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let known = lock(&self.known).version(&entry.path);
        let (key, version) = match known {
            Some(version) if version.seen.size > 0 => (self.key_of(&entry.path)?, version),
            _ => {
                let (key, head) = self.look(&entry.path, OPEN)?;
                (key, self.version_of(&head))
            }
        };
        if version.evidence() != entry.evidence {
            return Err(changed(&entry.path));
        }
        Ok(Arc::new(Opened {
            bucket: self.bucket.clone(),
            key,
            version,
            server_times: self.server_times,
            chunk_bytes: self.chunk_bytes,
        }))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        let (_, head) = self.look(&entry.path, LOOK)?;
        let version = self.version_of(&head);
        let now = Entry { id: entry.id, ..self.entry_of(entry.path.clone(), FILE, &version, &head.about) };
        self.remember(&entry.path, version, None);
        Ok(now)
    }

    /// Looked at anew, so that one of the same content that was written since stays, too.
    fn remove(&self, path: &RelativePath, seen: &Evidence, is_end: bool) -> Result<Removal> {
        if let Some(lost) = self.bucket.lost() {
            return Err(lost.at(path));
        }
        let changed = || {
            let cause = "it changed since it was copied, and stays";
            Failure::new(FailureKind::Changed, REMOVE, cause).at(path)
        };
        let (key, head) = self.look(path, REMOVE)?;
        if self.version_of(&head).evidence() != *seen {
            return Err(changed());
        }
        // Another attempt looks for it by its name.
        if self.is_single && !is_end {
            return Ok(Removal::Later);
        }
        match self.bucket.remove(&key, &head.seen).map_err(|failure| failure.at(path))? {
            Removed::Ours => Ok(Removal::Gone { left: None }),
            // By somebody else, since it was looked at.
            Removed::Gone => Err(not_found(REMOVE, GONE).at(path)),
            Removed::Other => Err(changed()),
        }
    }

    fn read_small(&self, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
        let path = &entry.path;
        let known = lock(&self.known).take(path);
        let (key, version, content) = match known {
            // Read as what it is now, or refused: nobody has to look before. Or it was read already.
            Some((version, content)) if version.seen.size > 0 || content.is_some() => {
                (self.key_of(path)?, version, content)
            }
            _ => {
                let (key, head) = self.look(path, OPEN)?;
                (key, self.version_of(&head), None)
            }
        };
        if version.evidence() != entry.evidence {
            return Err(changed(path));
        }
        let size = version.seen.size;
        let bytes = usize::try_from(size).ok().filter(|bytes| *bytes <= buffer.len()).ok_or_else(|| {
            Failure::new(FailureKind::Internal, READ, "the buffer is smaller than the object").at(path)
        })?;
        if let Some(content) = content {
            buffer[..bytes].copy_from_slice(&content.bytes);
            return Ok(bytes);
        }
        if bytes == 0 {
            return Ok(0);
        }
        let read = self.bucket.read(&key, &version.seen, 0, size, &mut buffer[..bytes]);
        match read.map_err(|failure| failure.at(path))? {
            read if read == bytes => Ok(bytes),
            _ => Err(changed(path)),
        }
    }
}

/// One version of an object, being read.
struct Opened {
    bucket: AnyBucket,
    key: String,
    version: Version,
    server_times: bool,
    chunk_bytes: u64,
}

/// This version of an object, to be read by offset, chunk by chunk.
pub(crate) fn open_version(
    bucket: &AnyBucket,
    key: String,
    seen: Seen,
    chunk_bytes: u64,
) -> Arc<dyn SourceFile> {
    let version = Version { seen, mtime: None };
    Arc::new(Opened { bucket: bucket.clone(), key, version, server_times: true, chunk_bytes })
}

impl SourceFile for Opened {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = self.version.seen.size;
        let bytes = size.saturating_sub(offset).min(buffer.len() as u64);
        if bytes == 0 {
            return Ok(0);
        }
        let chunk_end = (offset / self.chunk_bytes + 1).saturating_mul(self.chunk_bytes);
        let through = chunk_end.max(offset + bytes).min(size);
        let buffer = &mut buffer[..bytes as usize];
        self.bucket.read(&self.key, &self.version.seen, offset, through, buffer).map_err(to_io)
    }

    /// Asks the store anew: of another version by now, what that shows. What comes with one answer is of the version
    /// that the answer names.
    fn evidence(&self) -> io::Result<Evidence> {
        let seen = &self.version.seen;
        if seen.size > 0 && seen.size <= self.chunk_bytes && !seen.etag.is_empty() {
            return Ok(self.version.evidence());
        }
        let head = self.bucket.head(&self.key).map_err(to_io)?;
        let head = head.ok_or_else(|| to_io(not_found(LOOK, "no object has this key any more")))?;
        Ok(evidence_of(&head.seen, if self.server_times { None } else { head.about.mtime }))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.version.seen.size).then_some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(self.version.seen.size)
    }
}

const FILE: Kind = Kind::File { sparse: false, marked: false };

#[cfg(test)]
mod tests;
