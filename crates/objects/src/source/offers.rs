//! What was looked at, on its way to a sink: files, and the directories that their keys have in front.

use super::ahead::{Ahead, Look, Looked};
use super::{FILE, First, LIST, LOOK, ObjectSource, Shown, Version, not_found};
use crate::location::why_no_path;
use crate::store::{About, Seen};
use std::collections::HashSet;
use std::io;
use thalweg_mover::endpoint::ScanSink;
use thalweg_mover::failure::{self, shown_path};
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, Kind, RelativePath, Time};

/// Directories that are remembered in case that keys come out of order: some 12 MiB.
const DIRECTORIES_KEPT: usize = 256 << 10;

impl ObjectSource {
    /// Offers what was begun.
    pub(super) fn scan_begun(&self, begun: io::Result<Ahead>, sink: &mut dyn ScanSink) -> ScanTotals {
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
        let head = match source.first() {
            Some(First::Head(head)) => Ok(head),
            _ => source.look(&path, LOOK).map(|(_, head)| head),
        };
        match head {
            Ok(head) => {
                let version = source.version_of(&head);
                self.file(path, version, &head.about);
            }
            Err(failure) => self.trouble(path, failure),
        }
    }

    /// What was found of the next object. False: nothing more is wanted, or comes.
    fn look(&mut self, look: Look) -> bool {
        let lost = |object: &Looked| object.result.as_ref().err().and_then(|_| self.source.bucket.lost());
        let failure = match look.map(|told| self.source.hear(&told)) {
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
        for above in path.directories_above() {
            if self.is_stopped {
                return;
            }
            if let Ok(above) = RelativePath::new(above.to_vec()) {
                self.directory(above, version, &About::default());
            }
        }
        self.above = path.split().map_or(&[][..], |(above, _)| above).to_vec();
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

fn mark(path: &[u8]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    first
}
