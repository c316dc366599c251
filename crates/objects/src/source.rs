//! A bucket as a source.
//!
//! 1. Pages of the flat listing are asked for one ahead of what is looked at.
//! 2. What an object was as a file is kept beside it, and only a look at each tells it: so many looks at once.
//! 3. Entries go to the sink, directories made of the keys that have them in front.
//!
//! One moment: what is read is of one version, whatever takes its name meanwhile (the store refuses to mix them), and
//! the look behind the last byte asks the store anew, so that an object that was overwritten is offered anew. One that
//! is to be removed goes only as the version that was copied.
//!
//! Memory does not grow with the bucket: some pages, [`DIRECTORIES_KEPT`] directories, and the versions of the objects
//! that were offered last. Of several places a few have pages ahead.

use crate::bucket::{AnyBucket, evidence_of};
use crate::location::{Location, why_no_path};
use crate::store::{About, Head, Listed, Removed, Seen, Store};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use thalweg_mover::endpoint::{OPEN, REMOVE, Removal, ScanSink, Source, SourceFile};
use thalweg_mover::failure::{self, shown_path, to_io};
use thalweg_mover::mutex::lock;
use thalweg_mover::several::at_once;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_sys::user::{effective_gid, effective_uid};
use thalweg_wire::message::{ScanTotals, SourceForm};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath, Time, limits};

pub use several::ObjectSources;

/// More than one of them.
mod several;

/// What fails where a place in a bucket cannot be had.
const OPEN_SOURCE: &str = "open the source";
const LIST: &str = "list the bucket";
const LOOK: &str = "look at the object";
const READ: &str = "read the object";
const GONE: &str = "no object has this key any more";

/// Objects looked at, at once: one look takes a round trip.
const LOOKS_AT_ONCE: usize = 32;
/// Pages that wait for whoever takes them next.
const PAGES_AHEAD: usize = 1;
/// Directories that are remembered in case that keys come out of order: some 12 MiB.
const DIRECTORIES_KEPT: usize = 256 << 10;
/// Versions of objects kept, so that a small one costs one request: of those that may be offered and not settled.
const KNOWN_MAX: usize = limits::ENTRIES_IN_FLIGHT_MAX;
/// Bytes of their paths and etags.
const KNOWN_BYTES_MAX: usize = 32 << 20;

/// Modes of what has none beside it.
const FILE_MODE: u32 = 0o644;
/// See [`FILE_MODE`].
const DIRECTORY_MODE: u32 = 0o755;

/// How a bucket is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// Bytes of a chunk of the transfer: an answer of the store is read up to the end of one. At least 1.
    pub chunk_bytes: u64,
    /// Files have the times that the store gave their objects: what is kept beside them is not asked for, which costs a
    /// request for each.
    pub server_times: bool,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions { chunk_bytes: 16 << 20, server_times: false }
    }
}

/// See the module.
pub struct ObjectSource {
    bucket: AnyBucket,
    /// What its keys begin with; of a single object its key.
    base: String,
    /// Name of the object or prefix in paths of entries; empty where what is in a prefix is meant.
    top: Vec<u8>,
    is_single: bool,
    options: SourceOptions,
    known: Mutex<Known>,
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

/// Versions of the objects that were offered last.
#[derive(Default)]
struct Known {
    versions: HashMap<RelativePath, Version>,
    /// As they came.
    order: VecDeque<RelativePath>,
    bytes: usize,
}

impl Known {
    fn put(&mut self, path: &RelativePath, version: Version) {
        if let Some(known) = self.versions.get_mut(path) {
            *known = version;
            return;
        }
        self.bytes += bytes_of(path);
        self.order.push_back(path.clone());
        self.versions.insert(path.clone(), version);
        while self.order.len() > KNOWN_MAX || self.bytes > KNOWN_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= bytes_of(&oldest);
            self.versions.remove(&oldest);
        }
    }
}

/// Twice the path, and about what the rest takes.
fn bytes_of(path: &RelativePath) -> usize {
    2 * path.as_bytes().len() + 128
}

impl ObjectSource {
    /// Opens what `location` names, as rsync reads a path: an object of this key is a single file; else a key without a
    /// slash at its end is a directory, which is placed itself below the destination; one with a slash, and the bucket
    /// itself, is what is in it. Returns what names at the destination depend on. Nothing is listed yet.
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
        let is_single = !is_contents && bucket.head(key)?.is_some();
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
        }
        let last = key.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        let top = if is_contents { Vec::new() } else { last };
        let form = match is_single {
            true => SourceForm::Single { name: top.clone() },
            false => SourceForm::Many,
        };
        let options = SourceOptions { chunk_bytes: options.chunk_bytes.max(1), ..options };
        let known = Mutex::default();
        Ok((ObjectSource { bucket, base, top, is_single, options, known }, form))
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
        let mtime = if self.options.server_times { None } else { head.about.mtime };
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
        let asked = if self.options.server_times { &none } else { about };
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

    /// Begins to list and to look, in threads that end when what they hand on goes. Of a single object there is nothing
    /// to begin.
    fn begin<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) -> io::Result<Ahead> {
        let (lists, pages) = sync_channel(PAGES_AHEAD);
        let (looks, looked) = sync_channel(PAGES_AHEAD);
        if self.is_single {
            return Ok(looked);
        }
        let lister = move || self.list_into(&lists);
        let looker = move || self.look_into(&pages, &looks);
        thread::Builder::new().name("list".to_owned()).spawn_scoped(scope, lister)?;
        thread::Builder::new().name("look".to_owned()).spawn_scoped(scope, looker)?;
        Ok(looked)
    }

    /// Offers what was begun.
    fn scan_begun(&self, begun: io::Result<Ahead>, sink: &mut dyn ScanSink) -> ScanTotals {
        let mut scan = Scan::new(self, sink);
        if self.is_single {
            scan.single();
            return scan.end();
        }
        match begun {
            Err(error) => scan.trouble(RelativePath::root(), failure::of_thread(&error)),
            // Who lists and looks ahead ends when this goes.
            Ok(looked) => {
                for page in looked {
                    let goes_on = match page {
                        Ok(page) => page.into_iter().all(|object| scan.object(object)),
                        Err(failure) => {
                            scan.trouble(RelativePath::root(), failure);
                            true
                        }
                    };
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        scan.end()
    }

    /// Hands on page after page, until nobody takes them any more.
    fn list_into(&self, pages: &SyncSender<Result<Vec<Listed>>>) {
        let mut after = None;
        loop {
            match self.bucket.list(&self.base, false, after.as_deref()) {
                Err(failure) => {
                    let _ = pages.send(Err(failure));
                    return;
                }
                Ok(page) => {
                    after = page.next;
                    if pages.send(Ok(page.objects)).is_err() || after.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Looks at the objects of each page, in their order. Of a store that is away the rest is not asked for.
    fn look_into(&self, pages: &Receiver<Result<Vec<Listed>>>, looked: &SyncSender<Result<Vec<Looked>>>) {
        for page in pages {
            let look = |listed: &Listed| {
                let result = self.bucket.lost().map_or_else(|| self.find(listed), Err);
                Looked { key: listed.key.clone(), result }
            };
            let mut page = page.map(|listed| at_once("look", LOOKS_AT_ONCE, &listed, look));
            let lost = self.bucket.lost();
            let is_lost = lost.is_some();
            if let Some(failure) = lost {
                page = Err(failure);
            }
            if looked.send(page).is_err() || is_lost {
                return;
            }
        }
    }

    /// What an object of a page is; nothing if it went since it was listed.
    fn find(&self, listed: &Listed) -> Result<Option<(Version, About)>> {
        if is_archived(&listed.seen)
            && listed.seen.size > 0
            && let Err(failure) = self.bucket.read(&listed.key, &listed.seen, 0, 1, &mut [0])
            && failure.kind != FailureKind::Changed
        {
            return Err(archived(&failure, &listed.seen));
        }
        if self.options.server_times {
            return Ok(Some((Version { seen: listed.seen.clone(), mtime: None }, About::default())));
        }
        let head = self.bucket.head(&listed.key)?;
        Ok(head.map(|head| (self.version_of(&head), head.about)))
    }

    fn remember(&self, path: &RelativePath, version: Version) {
        lock(&self.known).put(path, version);
    }
}

/// Classes of which an object is read only after it was restored.
fn is_archived(seen: &Seen) -> bool {
    matches!(seen.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
}

fn archived(failure: &Failure, seen: &Seen) -> Failure {
    let class = seen.storage_class.as_deref().unwrap_or_default();
    let cause = format!(
        "it is archived ({class}): have it restored first, as by `aws s3api restore-object`: {}",
        failure.cause
    );
    Failure::new(failure.kind, READ, cause)
}

fn not_found(operation: &str, cause: &str) -> Failure {
    Failure::new(FailureKind::NotFound, operation, cause)
}

fn changed(path: &RelativePath) -> Failure {
    let cause = "another version of the object stands there than was offered";
    Failure::new(FailureKind::Changed, READ, cause).at(path)
}

/// Pages that were looked at ahead, in their order.
type Ahead = Receiver<Result<Vec<Looked>>>;

/// An object of a page, and what was found of it; nothing if it is gone.
struct Looked {
    key: String,
    result: Result<Option<(Version, About)>>,
}

impl Source for ObjectSource {
    fn lost(&self) -> Option<Failure> {
        self.bucket.lost()
    }

    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        thread::scope(|scope| self.scan_begun(self.begin(scope), sink))
    }

    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let (key, head) = self.look(&entry.path, OPEN)?;
        let version = self.version_of(&head);
        if version.evidence() != entry.evidence {
            return Err(changed(&entry.path));
        }
        Ok(Arc::new(Opened {
            bucket: self.bucket.clone(),
            key,
            version,
            server_times: self.options.server_times,
            chunk_bytes: self.options.chunk_bytes,
        }))
    }

    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        let (_, head) = self.look(&entry.path, LOOK)?;
        let version = self.version_of(&head);
        let now = Entry { id: entry.id, ..self.entry_of(entry.path.clone(), FILE, &version, &head.about) };
        self.remember(&entry.path, version);
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
        let known = lock(&self.known).versions.get(path).cloned();
        let (key, version) = match known {
            // Read as what it is now, or refused: nobody has to look before.
            Some(version) if version.seen.size > 0 => (self.key_of(path)?, version),
            _ => {
                let (key, head) = self.look(path, OPEN)?;
                (key, self.version_of(&head))
            }
        };
        if version.evidence() != entry.evidence {
            return Err(changed(path));
        }
        let size = version.seen.size;
        let bytes = usize::try_from(size).ok().filter(|bytes| *bytes <= buffer.len()).ok_or_else(|| {
            Failure::new(FailureKind::Internal, READ, "the buffer is smaller than the object").at(path)
        })?;
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

    /// Asks the store anew: of another version by now, what that shows.
    fn evidence(&self) -> io::Result<Evidence> {
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

/// One listing on its way to a sink.
struct Scan<'a> {
    source: &'a ObjectSource,
    sink: &'a mut dyn ScanSink,
    totals: ScanTotals,
    is_stopped: bool,
    /// The root was offered, or is none of what was asked for.
    has_root: bool,
    /// The key before.
    last: String,
    is_ordered: bool,
    /// The directory that the object before is in.
    above: Vec<u8>,
    /// Digests of the directories offered.
    directories: HashSet<[u8; 16]>,
    /// Some are not among them.
    has_forgotten: bool,
    /// Objects that may turn out to have the name of a directory too, each of whose keys begins with the one before.
    waiting: Vec<(String, Entry)>,
}

impl<'a> Scan<'a> {
    fn new(source: &'a ObjectSource, sink: &'a mut dyn ScanSink) -> Scan<'a> {
        Scan {
            source,
            sink,
            totals: ScanTotals { complete: true, ..ScanTotals::default() },
            is_stopped: false,
            has_root: source.is_single || !source.top.is_empty(),
            last: String::new(),
            is_ordered: true,
            above: Vec::new(),
            directories: HashSet::new(),
            has_forgotten: false,
            waiting: Vec::new(),
        }
    }

    fn end(mut self) -> ScanTotals {
        self.root("", None);
        while !self.is_stopped
            && let Some((_, entry)) = self.waiting.pop()
        {
            self.offer(entry);
        }
        self.totals.complete &= !self.is_stopped;
        self.totals
    }

    fn single(&mut self) {
        let source = self.source;
        let path = RelativePath::new(source.top.clone()).unwrap_or_default();
        match source.look(&path, LOOK) {
            Ok((_, head)) => {
                let version = source.version_of(&head);
                self.file(path, &version, &head.about);
            }
            Err(failure) => self.trouble(path, failure),
        }
    }

    /// False: nothing more is wanted.
    fn object(&mut self, object: Looked) -> bool {
        let Looked { key, result } = object;
        self.root(&key, result.as_ref().ok().and_then(Option::as_ref));
        self.note_order(&key);
        if !self.is_stopped {
            self.let_go(&key);
        }
        if !self.is_stopped {
            self.take(&key, result);
        }
        self.last = key;
        !self.is_stopped
    }

    /// Offers what everything is in, once: what a receiver deletes there goes by it. `key` is the first one.
    fn root(&mut self, key: &str, first: Option<&(Version, About)>) {
        if std::mem::replace(&mut self.has_root, true) || self.is_stopped {
            return;
        }
        let none = Seen { size: 0, etag: String::new(), modified: Time::default(), storage_class: None };
        let none = (Version { seen: none, mtime: None }, About::default());
        let (version, about) = first.unwrap_or(&none);
        let is_marker = key == self.source.base && version.seen.size == 0;
        let about = if is_marker { about } else { &none.1 };
        let entry = self.source.entry_of(RelativePath::root(), Kind::Directory, version, about);
        self.offer(entry);
    }

    fn note_order(&mut self, key: &str) {
        if self.is_ordered && !self.last.is_empty() && key <= self.last.as_str() {
            self.is_ordered = false;
            tracing::warn!("the store lists keys out of order");
        }
        if !self.is_ordered && self.has_forgotten {
            let cause = format!(
                "the store lists keys out of order, and more than {DIRECTORIES_KEPT} directories are not told \
                 apart: what follows `{}` is left out",
                shown_path(self.last.as_bytes())
            );
            self.trouble(RelativePath::root(), Failure::new(FailureKind::Unsupported, LIST, cause));
            self.is_stopped = true;
        }
    }

    /// Offers those that wait and have no directory's name, as this key shows.
    fn let_go(&mut self, key: &str) {
        while let Some((waiting, _)) = self.waiting.last() {
            let rest = key.strip_prefix(waiting.as_str());
            let is_directory = rest.is_some_and(|rest| rest.starts_with('/'));
            if rest.is_some() && !is_directory {
                return;
            }
            let Some((_, entry)) = self.waiting.pop() else { return };
            match is_directory {
                true => self.is_directory_too(entry.path),
                false => self.offer(entry),
            }
            if self.is_stopped {
                return;
            }
        }
    }

    fn is_directory_too(&mut self, path: RelativePath) {
        let cause = "other keys have its name and a slash in front, so that a directory has that name";
        self.trouble(path, Failure::new(FailureKind::Unsupported, LIST, cause));
    }

    fn take(&mut self, key: &str, result: Result<Option<(Version, About)>>) {
        let source = self.source;
        let Some(rest) = key.strip_prefix(source.base.as_str()) else {
            return self.no_path(key, "is none that was asked for");
        };
        let (name, is_marker) = match rest.strip_suffix('/') {
            Some(name) => (name, true),
            None => (rest, rest.is_empty()),
        };
        let path = match (name, &source.top[..]) {
            ("", top) => RelativePath::new(top.to_vec()),
            (name, b"") => RelativePath::new(name.as_bytes().to_vec()),
            (name, top) => RelativePath::new([top, b"/", name.as_bytes()].concat()),
        };
        let path = match (path, rest) {
            // The directory that was asked for itself, by its marker.
            (Ok(path), "") => path,
            (Ok(path), _) if !name.is_empty() => path,
            (Err(_), _) if why_no_path(name).is_none() => {
                return self.no_path(key, "has a component of more than 255 bytes");
            }
            _ => return self.no_path(key, why_no_path(name).unwrap_or("is no path")),
        };
        match result {
            // Some stores put that in the place of what their lists cannot say.
            Ok(None) if key.contains(char::REPLACEMENT_CHARACTER) => {
                let cause = "the store lists this key and has no object of it: another name may be meant";
                self.trouble(path, not_found(LIST, cause));
            }
            Ok(None) => self.sink.skipped(path, "it was removed while the source was scanned"),
            Err(failure) => self.trouble(path, failure),
            Ok(Some((version, _))) if is_marker && version.seen.size > 0 => {
                self.no_path(key, "ends with a slash, and has content");
            }
            Ok(Some((version, about))) => {
                self.directories_above(&path, &version);
                match is_marker {
                    _ if self.is_stopped => {}
                    true => self.directory(path, &version, &about),
                    false if !self.is_ordered && self.directories.contains(&mark(path.as_bytes())) => {
                        self.is_directory_too(path);
                    }
                    false => {
                        let entry = source.entry_of(path, FILE, &version, &about);
                        source.remember(&entry.path, version);
                        self.waiting.push((key.to_owned(), entry));
                    }
                }
            }
        }
    }

    /// The directories that a path is in. A directory has no time of its own but by a marker: it gets that of the first
    /// object in it.
    fn directories_above(&mut self, path: &RelativePath, version: &Version) {
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above: Vec<usize> = slashes.collect();
        for &at in &above {
            if self.is_stopped {
                return;
            }
            if let Ok(path) = RelativePath::new(bytes[..at].to_vec()) {
                self.directory(path, version, &About::default());
            }
        }
        self.above = bytes[..above.last().copied().unwrap_or(0)].to_vec();
    }

    /// Offers a directory, once.
    fn directory(&mut self, path: RelativePath, version: &Version, about: &About) {
        let bytes = path.as_bytes();
        let rest = self.above.strip_prefix(bytes);
        let is_of_last = rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
        let mark = mark(bytes);
        if path.is_root() || is_of_last || self.directories.contains(&mark) {
            return;
        }
        match self.directories.len() < DIRECTORIES_KEPT {
            true => {
                self.directories.insert(mark);
            }
            false => self.has_forgotten = true,
        }
        let entry = self.source.entry_of(path, Kind::Directory, version, about);
        self.above = entry.path.as_bytes().to_vec();
        self.offer(entry);
    }

    fn file(&mut self, path: RelativePath, version: &Version, about: &About) {
        let entry = self.source.entry_of(path, FILE, version, about);
        self.source.remember(&entry.path, version.clone());
        self.offer(entry);
    }

    fn offer(&mut self, entry: Entry) {
        let bytes = entry.content_bytes();
        match self.sink.entry(entry) {
            Some(_) => {
                self.totals.entries += 1;
                self.totals.bytes = self.totals.bytes.saturating_add(bytes);
            }
            None => self.is_stopped = true,
        }
    }

    /// A key that no file can have: told at the nearest directory above that has a path.
    fn no_path(&mut self, key: &str, why: &str) {
        let shown = shown_path(key.as_bytes());
        let cause = format!("the key `{shown}` {why}, so that no file can have its name");
        let below = key.strip_prefix(self.source.base.as_str()).unwrap_or_default();
        let mut path = RelativePath::new(self.source.top.clone()).unwrap_or_default();
        for component in below.split('/') {
            match path.join(component.as_bytes()) {
                Ok(longer) if longer.as_bytes().len() < key.len() => path = longer,
                _ => break,
            }
        }
        self.trouble(path, Failure::new(FailureKind::Unsupported, LIST, cause));
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.totals.failed += 1;
        self.totals.complete = false;
        self.sink.trouble(path, failure);
    }
}

const FILE: Kind = Kind::File { sparse: false, marked: false };

fn mark(path: &[u8]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    first
}

#[cfg(test)]
mod tests;
