//! A bucket as a source.
//!
//! 1. Pages of the flat listing are asked for one ahead of what is looked at.
//! 2. What an object was as a file is kept beside it, and only a look at each tells it: so many looks at once. Where
//!    reads are likely, the look at a small object brings its content, too: one request instead of two.
//! 3. Entries go to the sink, directories made of the keys that have them in front.
//!
//! One moment: what is read is of one version, whatever takes its name meanwhile (the store refuses to mix them). Of
//! what takes several requests the look behind the last byte asks the store anew, so that an object that was
//! overwritten is offered anew. One that is to be removed goes only as the version that was copied.
//!
//! Memory does not grow with the bucket: two pages, [`LOOKS_AHEAD`] looks, [`DIRECTORIES_KEPT`] directories, and what
//! is [`known`] of the objects that were offered last. Of several places a few are looked at ahead.

use self::known::{Content, Known, Room, Taken};
use crate::bucket::{AnyBucket, evidence_of};
use crate::location::{Location, why_no_path};
use crate::store::{About, Head, Listed, Removed, Seen, Store, requests_at_once};
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use thalweg_mover::endpoint::{OPEN, REMOVE, Removal, ScanSink, Source, SourceFile};
use thalweg_mover::failure::{self, shown_path, to_io};
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_sys::user::{effective_gid, effective_uid};
use thalweg_wire::message::{ScanTotals, SourceForm};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath, Time, limits};

pub use several::ObjectSources;

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

/// Objects looked at, at once, of a bucket that is near: one look takes a round trip. More where it is far:
/// [`requests_at_once`].
const LOOKS_NEAR: usize = 32;
/// Looks that wait for one before them, or for whoever takes what was found: one may take as long as many others.
const LOOKS_AHEAD: usize = 1024;
/// Content up to this length comes with the look at an object: a segment of whatever size holds it.
const AHEAD_BYTES_MAX: u64 = limits::SEGMENT_BYTES_MIN;
/// Pages that wait for whoever takes them next.
const PAGES_AHEAD: usize = 1;
/// Directories that are remembered in case that keys come out of order: some 12 MiB.
const DIRECTORIES_KEPT: usize = 256 << 10;

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
    /// Of content that is read ahead.
    room: Room,
    /// See [`Source::expect_reads`].
    reads_are_likely: AtomicBool,
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
        let (known, room, reads_are_likely) = (Mutex::default(), Room::default(), AtomicBool::new(false));
        let source = ObjectSource { bucket, base, top, is_single, options, known, room, reads_are_likely };
        Ok((source, form))
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
    fn begin<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> io::Result<Ahead> {
        let (lists, pages) = sync_channel(PAGES_AHEAD);
        let (tell, looks) = sync_channel(LOOKS_AHEAD);
        let is_over = Arc::new(AtomicBool::new(false));
        if !self.is_single {
            let over = is_over.clone();
            let lister = move || self.list_into(&lists);
            let looker = move || self.look_into(scope, &pages, &tell, &over);
            start(scope, "list", lister).and_then(|()| start(scope, "looks", looker))?;
        }
        Ok(Ahead { looks, is_over })
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
            Ok(ahead) => {
                for look in &ahead.looks {
                    if !scan.look(look) {
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

    /// Has the objects of each page looked at, so many at once, and hands on in their order where what is found comes.
    /// Of a store that is away the rest is not asked for.
    fn look_into<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        pages: &Receiver<Result<Vec<Listed>>>,
        looks: &SyncSender<Look>,
        is_over: &Arc<AtomicBool>,
    ) {
        // Not more than there are looks that wait.
        let (asks, asked) = channel();
        let asked = Arc::new(Mutex::new(asked));
        let (mut threads, mut is_last) = (0, false);
        for page in pages {
            let listed = match page {
                Ok(listed) => listed,
                Err(failure) => {
                    let _ = looks.send(Err(failure));
                    return;
                }
            };
            for listed in listed {
                if let Some(failure) = self.bucket.lost() {
                    let _ = looks.send(Err(failure));
                    return;
                }
                let (tell, told) = sync_channel(1);
                if looks.send(Ok(told)).is_err() {
                    return;
                }
                let ask = Ask { listed, tell };
                let takes_a_request = !self.options.server_times || is_archived(&ask.listed.seen);
                if takes_a_request && !is_last && threads < self.looks_at_once() {
                    let (asked, is_over) = (asked.clone(), is_over.clone());
                    let work = move || self.look_each(&asked, &is_over);
                    // Where there are no more to be had, it is those.
                    is_last = start(scope, "look", work).is_err();
                    threads += usize::from(!is_last);
                }
                if !takes_a_request || threads == 0 {
                    self.answer(ask);
                } else if asks.send(ask).is_err() {
                    return;
                }
            }
        }
    }

    fn looks_at_once(&self) -> usize {
        requests_at_once(self.bucket.answers_in(), AHEAD_BYTES_MAX, LOOKS_NEAR)
    }

    /// Looks at one after the other, until there are no more or nobody wants them.
    fn look_each(&self, asked: &Mutex<Receiver<Ask>>, is_over: &AtomicBool) {
        loop {
            let next = lock(asked).recv();
            match next {
                Ok(ask) if !is_over.load(Ordering::Relaxed) => self.answer(ask),
                _ => return,
            }
        }
    }

    fn answer(&self, Ask { listed, tell }: Ask) {
        let result = self.find(&listed);
        // Nobody waits for it where the scan was stopped.
        let _ = tell.send(Looked { key: listed.key, result });
    }

    /// What an object of a page is; nothing if it went since it was listed.
    fn find(&self, listed: &Listed) -> Result<Option<Shown>> {
        if is_archived(&listed.seen)
            && listed.seen.size > 0
            && let Err(failure) = self.bucket.read(&listed.key, &listed.seen, 0, 1, &mut [0])
            && failure.kind != FailureKind::Changed
        {
            return Err(archived(&failure, &listed.seen));
        }
        if self.options.server_times {
            let version = Version { seen: listed.seen.clone(), mtime: None };
            return Ok(Some(Shown { version, about: About::default(), content: None }));
        }
        let shown = |head: Head, content| {
            let version = self.version_of(&head);
            Shown { version, about: head.about, content }
        };
        if let Some((bytes, room)) = self.room_ahead(listed) {
            match self.bucket.fetch(&listed.key, bytes) {
                Ok(found) => {
                    return Ok(found.map(|(head, bytes)| {
                        let content = bytes.filter(|bytes| bytes.len() as u64 == head.seen.size);
                        shown(head, content.map(|bytes| Content { bytes, _room: room }))
                    }));
                }
                Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
                // Who reads it is told, if it is read.
                Err(_) => {}
            }
        }
        Ok(self.bucket.head(&listed.key)?.map(|head| shown(head, None)))
    }

    /// How many bytes of an object come with the look at it, and room for them, if they are to.
    fn room_ahead(&self, listed: &Listed) -> Option<(usize, Taken)> {
        let is_marker = listed.key.ends_with('/');
        let is_small = listed.seen.size <= AHEAD_BYTES_MAX;
        let is_likely = self.reads_are_likely.load(Ordering::Relaxed);
        if is_marker || !is_small || !is_likely || is_archived(&listed.seen) {
            return None;
        }
        let bytes = usize::try_from(listed.seen.size).ok()?;
        Some((bytes, self.room.take(bytes)?))
    }

    fn remember(&self, path: &RelativePath, version: Version, content: Option<Content>) {
        lock(&self.known).put(path, version, content);
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

/// An object that is to be looked at, and who hears of it.
struct Ask {
    listed: Listed,
    tell: SyncSender<Looked>,
}

/// Where what is found of an object comes.
type Look = Result<Receiver<Looked>>;

/// Objects that are looked at ahead, in their order. When it goes nobody looks any more.
struct Ahead {
    looks: Receiver<Look>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// An object of a page, and what was found of it; nothing if it is gone.
struct Looked {
    key: String,
    result: Result<Option<Shown>>,
}

/// Starts a thread of a scan.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map(drop)
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
            server_times: self.options.server_times,
            chunk_bytes: self.options.chunk_bytes,
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
                self.file(path, version, &head.about);
            }
            Err(failure) => self.trouble(path, failure),
        }
    }

    /// What was found of the next object. False: nothing more is wanted, or comes.
    fn look(&mut self, look: Look) -> bool {
        let lost = |object: &Looked| object.result.as_ref().err().and_then(|_| self.source.bucket.lost());
        let failure = match look.map(|told| told.recv()) {
            Ok(Ok(object)) => match lost(&object) {
                // Of each of the rest the same would be told.
                Some(failure) => failure,
                None => return self.object(object),
            },
            // Who looked panicked, which goes on where its thread is waited for.
            Ok(Err(_)) => {
                self.is_stopped = true;
                return false;
            }
            Err(failure) => failure,
        };
        self.trouble(RelativePath::root(), failure);
        false
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
    fn root(&mut self, key: &str, first: Option<&Shown>) {
        if std::mem::replace(&mut self.has_root, true) || self.is_stopped {
            return;
        }
        let none = Seen { size: 0, etag: String::new(), modified: Time::default(), storage_class: None };
        let none = Version { seen: none, mtime: None };
        let version = first.map_or(&none, |first| &first.version);
        let is_marker = key == self.source.base && version.seen.size == 0;
        let about = first.filter(|_| is_marker).map(|first| first.about).unwrap_or_default();
        let entry = self.source.entry_of(RelativePath::root(), Kind::Directory, version, &about);
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

    fn take(&mut self, key: &str, result: Result<Option<Shown>>) {
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
            Ok(Some(shown)) if is_marker && shown.version.seen.size > 0 => {
                self.no_path(key, "ends with a slash, and has content");
            }
            Ok(Some(Shown { version, about, content })) => {
                self.directories_above(&path, &version);
                match is_marker {
                    _ if self.is_stopped => {}
                    true => self.directory(path, &version, &about),
                    false if !self.is_ordered && self.directories.contains(&mark(path.as_bytes())) => {
                        self.is_directory_too(path);
                    }
                    false => {
                        let entry = source.entry_of(path, FILE, &version, &about);
                        source.remember(&entry.path, version, content);
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

    fn file(&mut self, path: RelativePath, version: Version, about: &About) {
        let entry = self.source.entry_of(path, FILE, &version, about);
        self.source.remember(&entry.path, version, None);
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
