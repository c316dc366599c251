//! How much of each flow is durable: the file of marks of one destination.
//!
//! [`MARKS_MAGIC`], a header, and records, as [`thalweg_wire::journal`] describes them. It lives in the staging directory
//! of the destination as long as a flow there is not complete, so that everybody who may read it can see how far a file
//! that grows may be believed ([`look_up`]). It is rewritten before it gets large. When what is known is too much for
//! that (hundreds of thousands of files), the oldest complete flows that have their own names are forgotten: one that
//! begins again is compared with what stands there, as a file that nobody knows is.
//!
//! A write that fails fails that note only: the next one is made in a new file, so that what is noted goes on when a
//! full disk has room again.
//!
//! Guaranteed: [`Marks::record`] returns after what it wrote is durable; replay stops at the first record that is torn
//! or damaged, and so never shows a mark that was not recorded. Whoever goes on reads the bytes again and compares.

use super::staging_names;
use crate::failure::{self, Failure, FailureKind, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_sys::{Dir, File, Kind, Links, Replace};
use thalweg_wire::journal::{LAYOUT, MARKS_MAGIC, MarkRecord};
use thalweg_wire::message::Origin;
use thalweg_wire::{Digest, RelativePath};

/// Its name in the staging directory of a job.
const NAME: &[u8] = b"marks";
/// Its successor's until it is whole.
const SUCCESSOR: &[u8] = b"marks.new";
/// It is rewritten when it has so many bytes, or four times what it needs.
const REWRITE_BYTES: u64 = 64 << 10;
/// Longer files of marks are none of ours: 16,384 flows with the longest names that are usual.
const FILE_BYTES_MAX: usize = 256 << 20;
/// Of a file that would be larger after it was rewritten flows are forgotten: some 300,000 with usual names are
/// remembered, which take twice as much memory. What comes before the next rewriting has as much room.
const KEPT_BYTES_MAX: usize = FILE_BYTES_MAX / 4;

/// A flow of a transfer that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name below the source.
    pub path: RelativePath,
    /// What its source is.
    pub origin: Origin,
    /// Its name below the destination.
    pub name: RelativePath,
    /// Bytes that are durable.
    pub bytes: u64,
    /// BLAKE3 of them; `None` before the first mark.
    pub digest: Option<Digest>,
    /// That is all of it.
    pub is_complete: bool,
    /// The inode of the file that was made for it; `None` where that was not noted.
    pub inode: Option<u64>,
}

impl Known {
    fn new(path: RelativePath, origin: Origin, name: RelativePath) -> Known {
        Known { path, origin, name, bytes: 0, digest: None, is_complete: false, inode: None }
    }
}

/// The file of marks of a destination, open for writing. One at a time: the caller holds the staging directory's lock.
pub struct Marks {
    dir: Arc<Dir>,
    /// `None` once it is closed.
    file: Option<File>,
    end: u64,
    /// Bytes after the last rewriting.
    floor: u64,
    known: BTreeMap<u64, Known>,
    /// Flows of which the file does not know that they began.
    unwritten: Vec<u64>,
    /// Flows at whose names another's file stands. Until one has a mark, nobody but us in this transfer knows of it:
    /// whoever comes after us must not take that file for ours.
    anothers: BTreeSet<u64>,
    /// By [`source_key`] and [`name_key`]: names are long, and each is here twice already.
    by_source: BTreeMap<Key, u64>,
    /// By what the source is, whatever it is called: the first that was.
    by_origin: BTreeMap<Origin, u64>,
    names: BTreeSet<Key>,
    next: u64,
    /// Complete flows that were asked for since, and may go on: they are not forgotten.
    asked: RefCell<BTreeSet<u64>>,
    kept_bytes_max: usize,
    /// What is in the file is not certain: a write or a sync of it failed.
    is_torn: bool,
}

type Key = [u8; 16];

fn source_key(path: &RelativePath, origin: &Origin) -> Key {
    key_of(&[&origin.0, path.as_bytes()])
}

fn name_key(name: &RelativePath) -> Key {
    key_of(&[name.as_bytes()])
}

fn key_of(parts: &[&[u8]]) -> Key {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut key = Key::default();
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

impl Marks {
    /// Opens or creates it in a staging directory.
    ///
    /// # Errors
    /// `Unsupported` for a layout of another version (left untouched), `Space`, `Permission`, `Io`.
    pub fn open(dir: Arc<Dir>) -> Result<Marks> {
        Marks::open_within(dir, KEPT_BYTES_MAX)
    }

    fn open_within(dir: Arc<Dir>, kept_bytes_max: usize) -> Result<Marks> {
        let of_io = |error: io::Error| failure::of_io("open the marks", &error);
        let _ = dir.remove_file(SUCCESSOR);
        let file = match dir.create_new(NAME, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.open_read_write(NAME),
            other => other,
        };
        let file = file.map_err(of_io)?;
        let bytes = file.read_to_end(FILE_BYTES_MAX).map_err(of_io)?;
        let (known, end) = replay(&bytes)?;
        let next = known.keys().next_back().map_or(1, |last| last + 1);
        let by_source = known.iter().map(|(number, known)| (source_key(&known.path, &known.origin), *number));
        let by_source = by_source.rev().collect();
        let by_origin = known.iter().map(|(number, known)| (known.origin, *number)).rev().collect();
        let names = known.values().map(|known| name_key(&known.name)).collect();
        let (unwritten, anothers) = (Vec::new(), BTreeSet::new());
        // What it needs shows when it is rewritten: of one that is large already, soon.
        let floor = end.min(kept_bytes_max as u64);
        let mut marks = Marks {
            dir,
            file: Some(file),
            end,
            floor,
            known,
            unwritten,
            anothers,
            by_source,
            by_origin,
            names,
            next,
            asked: RefCell::default(),
            kept_bytes_max,
            is_torn: false,
        };
        if end == 0 {
            marks.rewrite().map_err(of_io)?;
        } else if let Some(file) = &marks.file {
            // What is torn does not stand between the records.
            file.truncate(end).map_err(of_io)?;
        }
        Ok(marks)
    }

    /// The flow of this name and origin, if it is known.
    pub fn find(&self, path: &RelativePath, origin: &Origin) -> Option<(u64, &Known)> {
        let number = *self.by_source.get(&source_key(path, origin))?;
        self.ask(number)
    }

    /// The flow of this origin, whatever its source was called. Only for an origin that no other file ever has.
    pub fn find_renamed(&self, origin: &Origin) -> Option<(u64, &Known)> {
        self.ask(*self.by_origin.get(origin)?)
    }

    fn ask(&self, number: u64) -> Option<(u64, &Known)> {
        let known = self.known.get(&number)?;
        if known.is_complete {
            self.asked.borrow_mut().insert(number);
        }
        Some((number, known))
    }

    /// Flows that have something here and are not complete, in the order in which they began.
    pub fn unfinished(&self) -> impl Iterator<Item = (u64, &Known)> {
        let known = self.known.iter().map(|(number, known)| (*number, known));
        known.filter(|(number, known)| !known.is_complete && self.is_ours(*number))
    }

    /// Whether a flow has this name below the destination.
    pub fn has_name(&self, name: &RelativePath) -> bool {
        self.names.contains(&name_key(name))
    }

    /// Whether what stands at a flow's name is ours: it was made for it, or has a mark.
    pub fn is_ours(&self, number: u64) -> bool {
        !self.anothers.contains(&number)
    }

    /// A flow begins; says its number. `is_anothers`: a file that nobody knows stands at its name. Only with its first
    /// mark that one is ours.
    pub fn begin(
        &mut self,
        path: RelativePath,
        origin: Origin,
        name: RelativePath,
        is_anothers: bool,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_source.insert(source_key(&path, &origin), number);
        self.by_origin.entry(origin).or_insert(number);
        self.names.insert(name_key(&name));
        self.known.insert(number, Known::new(path, origin, name));
        match is_anothers {
            true => drop(self.anothers.insert(number)),
            false => self.unwritten.push(number),
        }
        number
    }

    fn is_ours_now(&mut self, number: u64) {
        if self.anothers.remove(&number) {
            self.unwritten.push(number);
        }
    }

    /// Notes marks, and flows that began, and makes the note durable.
    ///
    /// # Errors
    /// `Space`, `Io`: none of it may be durable. The next call writes all that is known into a new file.
    pub fn record(&mut self, marks: &[(u64, u64, Digest)]) -> Result<()> {
        for (number, bytes, digest) in marks {
            self.is_ours_now(*number);
            if let Some(known) = self.known.get_mut(number) {
                (known.bytes, known.digest, known.is_complete) = (*bytes, Some(*digest), false);
            }
        }
        let mut bytes = self.encode_unwritten();
        if !marks.is_empty() {
            MarkRecord::Marks(marks.to_vec()).encode(self.end + bytes.len() as u64, &mut bytes);
        }
        self.append(&bytes)
    }

    /// Has what is known noted, if the note before may not be durable: before anybody goes by it.
    ///
    /// # Errors
    /// As [`Marks::record`].
    pub fn make_certain(&mut self) -> Result<()> {
        match self.is_torn {
            true => self.append(&[]),
            false => Ok(()),
        }
    }

    /// A flow is complete, and its bytes are durable. It stays known until the transfer is over, and its name taken.
    ///
    /// # Errors
    /// As [`Marks::record`].
    pub fn end(&mut self, number: u64) -> Result<()> {
        self.is_ours_now(number);
        let Some(known) = self.known.get_mut(&number) else { return Ok(()) };
        known.is_complete = true;
        self.asked.borrow_mut().remove(&number);
        let mut bytes = self.encode_unwritten();
        MarkRecord::End { flow: number }.encode(self.end + bytes.len() as u64, &mut bytes);
        self.append(&bytes)
    }

    /// The file of a flow was made, and nothing is in it: by this inode it is known before it has a mark.
    ///
    /// # Errors
    /// As [`Marks::record`].
    pub fn made(&mut self, number: u64, inode: u64) -> Result<()> {
        let Some(known) = self.known.get_mut(&number) else { return Ok(()) };
        known.inode = Some(inode);
        let mut bytes = self.encode_unwritten();
        MarkRecord::Made { flow: number, inode }.encode(self.end + bytes.len() as u64, &mut bytes);
        self.append(&bytes)
    }

    /// A flow that began, and for which nothing was made: another's file stands at its name. It is as if it had not
    /// begun.
    ///
    /// # Errors
    /// As [`Marks::record`].
    pub fn withdraw(&mut self, number: u64) -> Result<()> {
        self.remove(number);
        // Only a new file does not have it.
        self.is_torn = true;
        self.append(&[])
    }

    fn remove(&mut self, number: u64) {
        let Some(known) = self.known.remove(&number) else { return };
        self.by_source.remove(&source_key(&known.path, &known.origin));
        if self.by_origin.get(&known.origin) == Some(&number) {
            self.by_origin.remove(&known.origin);
        }
        self.names.remove(&name_key(&known.name));
    }

    /// Whether every flow that has something here is complete.
    pub fn is_complete(&self) -> bool {
        self.unfinished().next().is_none()
    }

    /// Lets go of the file, which is about to be removed. What is noted after that makes a new one.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn encode_unwritten(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in std::mem::take(&mut self.unwritten) {
            if let Some(known) = self.known.get(&number) {
                begin_record(number, known).encode(self.end + bytes.len() as u64, &mut bytes);
            }
        }
        bytes
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let most = REWRITE_BYTES.max(4 * self.floor).min(2 * self.kept_bytes_max as u64);
        // Of flows that are under way, and of files that were replaced, nothing is forgotten: they may have more.
        let most = most.max(self.floor + self.floor / 4);
        // A sync that failed is never believed by another of the same file.
        let is_new = self.is_torn || self.end + bytes.len() as u64 > most;
        let written = match self.file.as_ref().filter(|_| !is_new) {
            None => self.rewrite(),
            Some(file) => file.write_all_at(bytes, self.end).and_then(|()| file.sync_data()).map(|()| {
                self.end += bytes.len() as u64;
            }),
        };
        self.is_torn = written.is_err();
        written.map_err(|error| failure::of_io("write the marks", &error))
    }

    /// Writes what is known into a new file and puts that in the old one's place.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = self.encode_known();
        if bytes.len() > self.kept_bytes_max {
            self.forget();
            bytes = self.encode_known();
        }
        // What an attempt that failed left of it takes room.
        let _ = self.dir.remove_file(SUCCESSOR);
        let file = self.dir.create_new(SUCCESSOR, 0o600)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        self.dir.rename(SUCCESSOR, &self.dir, NAME, Replace::Existing)?;
        self.dir.sync()?;
        self.file = Some(file);
        self.end = bytes.len() as u64;
        self.floor = self.end;
        Ok(())
    }

    fn encode_known(&self) -> Vec<u8> {
        let mut bytes = MARKS_MAGIC.to_vec();
        let mut add = |record: MarkRecord| {
            let at = bytes.len() as u64;
            record.encode(at, &mut bytes);
        };
        add(MarkRecord::Header { layout: LAYOUT });
        for (number, known) in self.known.iter().filter(|(number, _)| !self.anothers.contains(number)) {
            add(begin_record(*number, known));
            if let Some(inode) = known.inode {
                add(MarkRecord::Made { flow: *number, inode });
            }
            if let Some(digest) = known.digest {
                add(MarkRecord::Marks(vec![(*number, known.bytes, digest)]));
            }
            if known.is_complete {
                add(MarkRecord::End { flow: *number });
            }
        }
        bytes
    }

    /// Forgets the oldest flows that may be, at most half of all. Files that were replaced are remembered with all that
    /// came of them: without that nobody could say under which name the next one goes.
    fn forget(&mut self) {
        let asked = self.asked.borrow();
        let renamed: BTreeSet<&RelativePath> =
            self.known.values().filter(|known| known.name != known.path).map(|known| &known.path).collect();
        let may = |(number, known): &(&u64, &Known)| {
            known.is_complete && !renamed.contains(&known.path) && !asked.contains(number)
        };
        let may: Vec<u64> = self.known.iter().filter(may).map(|(number, _)| *number).collect();
        drop(asked);
        // So that it is not done again soon.
        let share = self.known.len() / 2;
        for number in may.into_iter().take(share) {
            self.remove(number);
        }
    }
}

fn begin_record(number: u64, known: &Known) -> MarkRecord {
    let Known { path, origin, name, .. } = known.clone();
    MarkRecord::Begin { flow: number, path, origin, name }
}

/// What a file of marks says, and where what it says ends; 0 if not even its head does.
fn replay(bytes: &[u8]) -> Result<(BTreeMap<u64, Known>, u64)> {
    let mut known = BTreeMap::new();
    if !bytes.starts_with(MARKS_MAGIC) {
        return Ok((known, 0));
    }
    let mut at = MARKS_MAGIC.len();
    match MarkRecord::decode(at as u64, &bytes[at..]) {
        Ok((MarkRecord::Header { layout: LAYOUT }, length)) => at += length,
        Ok((MarkRecord::Header { layout }, _)) => {
            let cause = format!("they have layout {layout}, this program knows layout {LAYOUT}");
            return Err(Failure::new(FailureKind::Unsupported, "open the marks", cause));
        }
        _ => return Ok((known, 0)),
    }
    while let Ok((record, length)) = MarkRecord::decode(at as u64, &bytes[at..]) {
        match record {
            MarkRecord::Header { .. } => {}
            MarkRecord::Begin { flow, path, origin, name } => {
                known.insert(flow, Known::new(path, origin, name));
            }
            MarkRecord::Marks(marks) => {
                for (flow, bytes, digest) in marks {
                    if let Some(known) = known.get_mut(&flow) {
                        (known.bytes, known.digest, known.is_complete) = (bytes, Some(digest), false);
                    }
                }
            }
            MarkRecord::End { flow } => {
                if let Some(known) = known.get_mut(&flow) {
                    known.is_complete = true;
                }
            }
            MarkRecord::Made { flow, inode } => {
                if let Some(known) = known.get_mut(&flow) {
                    known.inode = Some(inode);
                }
            }
        }
        at += length;
    }
    Ok((known, at as u64))
}

/// What is known of a file that grows in `dir`, if a stream writes it that is not complete. `None` also where the marks
/// may not be read.
pub fn look_up(dir: &Dir, name: &[u8]) -> Option<Known> {
    look_up_all(dir, name).into_iter().next()
}

/// The same of all streams that are not complete: some may have been given up, and their file replaced by another.
fn look_up_all(dir: &Dir, name: &[u8]) -> Vec<Known> {
    let names = staging_names::names(dir, name);
    names.iter().flat_map(|staging| look_up_in(dir, staging, name)).collect()
}

fn look_up_in(dir: &Dir, staging: &[u8], name: &[u8]) -> Vec<Known> {
    let Ok(staging) = dir.open_beneath(staging, Links::Refuse) else { return Vec::new() };
    let Ok(jobs) = staging.entries() else { return Vec::new() };
    let jobs = jobs.flatten().filter(|entry| matches!(entry.kind, Kind::Dir | Kind::Unknown));
    let known = jobs.filter_map(|job| {
        let file = staging.open_beneath(&job.name, Links::Refuse).ok()?.open_read(NAME).ok()?;
        let bytes = file.read_to_end(FILE_BYTES_MAX).ok()?;
        let (known, _) = replay(&bytes).ok()?;
        known.into_values().find(|known| !known.is_complete && known.name.as_bytes() == name)
    });
    known.collect()
}

/// Where the marks of a file may be: a stream's destination is the directory of the file, or one above it.
pub struct Places(Vec<(Dir, Vec<u8>)>);

impl Places {
    /// Of the file `name` in `dir`; nothing above `below` is looked at.
    pub fn of(dir: &Dir, name: &[u8], below: Option<&Dir>) -> Places {
        let own = dir.try_clone().map(|dir| (dir, name.to_vec()));
        // Where it really is: names in marks lead through no links.
        let (Some(at), top) = (dir.real_path(), below.map(Dir::real_path)) else {
            return Places(own.into_iter().collect());
        };
        let top = match top {
            Some(Some(top)) => top,
            Some(None) => at.clone(),
            None => PathBuf::from("/"),
        };
        let file = at.join(OsStr::from_bytes(name));
        let above = at.ancestors().skip(1).take_while(|parent| parent.starts_with(&top));
        let above = above.filter_map(|parent| {
            let name = file.strip_prefix(parent).ok()?.as_os_str().as_bytes().to_vec();
            // From the directory that is held: whoever moves others meanwhile leads nobody out of it.
            let dir = match below {
                Some(below) => {
                    below.open_beneath(parent.strip_prefix(&top).ok()?.as_os_str().as_bytes(), Links::Refuse)
                }
                None => Dir::open(parent),
            };
            Some((dir.ok()?, name))
        });
        Places(own.into_iter().chain(above).collect())
    }

    /// What is known of the file, by each stream that writes it and is not complete; the nearest first.
    pub fn look_up(&self) -> Vec<Known> {
        self.0.iter().flat_map(|(dir, name)| look_up_all(dir, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn marks_are_found_again_wherever_the_file_is_torn() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let log = marks.begin(path("log"), Origin([1; 16]), path("log"), false);
        marks.record(&[(log, 10, Digest([1; 32]))]).unwrap();
        marks.record(&[(log, 25, Digest([2; 32]))]).unwrap();
        let whole = std::fs::read(scratch.path().join("marks")).unwrap();
        let mut seen = Vec::new();
        for length in 0..=whole.len() {
            let (known, end) = replay(&whole[..length]).unwrap();
            assert!(end <= length as u64);
            seen.push(known.get(&log).map_or(0, |known| known.bytes));
        }
        assert!(seen.is_sorted() && seen.ends_with(&[25]), "{seen:?}");
        std::fs::write(scratch.path().join("marks"), &whole[..whole.len() - 1]).unwrap();
        let marks = Marks::open(dir).unwrap();
        assert_eq!(marks.find(&path("log"), &Origin([1; 16])).unwrap().1.bytes, 10);
        assert!(marks.find(&path("log"), &Origin([2; 16])).is_none());
    }

    #[test]
    fn a_note_that_failed_is_made_in_a_new_file_and_nobody_goes_by_it_before() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let log = marks.begin(path("log"), Origin([1; 16]), path("log"), false);
        marks.record(&[(log, 10, Digest([1; 32]))]).unwrap();
        // Nothing more can be written into it.
        marks.file = Some(dir.open_read(NAME).unwrap());
        assert!(marks.record(&[(log, 20, Digest([2; 32]))]).is_err());
        let on_disk = || {
            let (known, _) = replay(&std::fs::read(scratch.path().join("marks")).unwrap()).unwrap();
            known[&log].bytes
        };
        assert_eq!(on_disk(), 10);
        // Nor into a new one: something is in its way.
        std::fs::create_dir(scratch.path().join("marks.new")).unwrap();
        assert!(marks.make_certain().is_err() && marks.end(log).is_err());
        std::fs::remove_dir(scratch.path().join("marks.new")).unwrap();
        marks.make_certain().unwrap();
        assert_eq!(on_disk(), 20);
        marks.record(&[(log, 30, Digest([3; 32]))]).unwrap();
        assert_eq!(on_disk(), 30);
    }

    #[test]
    fn the_file_stays_small_and_forgets_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let (a, b) = (marks.begin(path("a"), Origin([1; 16]), path("a"), false), 2);
        assert_eq!(marks.begin(path("b"), Origin([2; 16]), path("b.~2~"), false), b);
        marks.made(b, 5).unwrap();
        marks.record(&[(b, 7, Digest([7; 32]))]).unwrap();
        for bytes in 1..3000 {
            marks.record(&[(a, bytes, Digest([1; 32]))]).unwrap();
        }
        assert!(std::fs::metadata(scratch.path().join("marks")).unwrap().len() <= REWRITE_BYTES);
        drop(marks);
        let marks = Marks::open(dir).unwrap();
        assert_eq!(marks.find(&path("a"), &Origin([1; 16])).unwrap().1.bytes, 2999);
        let (number, known) = marks.find(&path("b"), &Origin([2; 16])).unwrap();
        assert_eq!((number, known.bytes, known.name.as_bytes()), (b, 7, &b"b.~2~"[..]));
        assert_eq!(known.inode, Some(5));
    }

    #[test]
    fn complete_flows_beyond_a_bound_are_forgotten_and_what_may_go_on_is_not() {
        const KEPT: usize = 100 << 10;
        assert_eq!(KEPT_BYTES_MAX, 64 << 20);
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open_within(dir.clone(), KEPT).unwrap();
        let origin = Origin([1; 16]);
        let begin = |marks: &mut Marks, source: &str, name: &str| {
            let number = marks.begin(path(source), origin, path(name), false);
            marks.record(&[(number, 1, Digest([1; 32]))]).unwrap();
            number
        };
        let growing = begin(&mut marks, "growing", "growing");
        let rotated = begin(&mut marks, "rotated", "rotated.~2~");
        let again = begin(&mut marks, "again", "again");
        marks.end(rotated).unwrap();
        marks.end(again).unwrap();
        assert!(marks.find(&path("again"), &origin).is_some());
        for number in 0..3000 {
            let name = format!("done-{number}");
            let number = begin(&mut marks, &name, &name);
            marks.end(number).unwrap();
        }
        assert!(std::fs::metadata(scratch.path().join("marks")).unwrap().len() <= 2 * KEPT as u64);
        marks.record(&[(again, 2, Digest([2; 32]))]).unwrap();
        drop(marks);
        let mut marks = Marks::open_within(dir, KEPT).unwrap();
        assert_eq!(marks.find(&path("growing"), &origin).unwrap().0, growing);
        assert_eq!(marks.find(&path("rotated"), &origin).unwrap().1.name, path("rotated.~2~"));
        assert_eq!(marks.find(&path("again"), &origin).unwrap().1.bytes, 2);
        assert!(marks.find(&path("done-2999"), &origin).is_some());
        assert!(marks.find(&path("done-0"), &origin).is_none() && !marks.has_name(&path("done-0")));
        // It may begin again: what stands there is another's until it has a mark.
        let number = marks.begin(path("done-0"), origin, path("done-0"), true);
        assert!(!marks.is_ours(number));
    }

    #[test]
    fn what_stands_at_a_name_is_not_ours_before_it_has_a_mark() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let (mine, theirs) = (Origin([1; 16]), Origin([2; 16]));
        let ours = marks.begin(path("a"), mine, path("a"), false);
        let anothers = marks.begin(path("b"), theirs, path("b"), true);
        assert!(marks.has_name(&path("b")) && marks.is_ours(ours) && !marks.is_ours(anothers));
        marks.record(&[(ours, 5, Digest([1; 32]))]).unwrap();
        marks.end(ours).unwrap();
        assert!(marks.is_complete(), "what is another's keeps nothing here");
        marks.rewrite().unwrap();
        drop(marks);
        let mut marks = Marks::open(dir.clone()).unwrap();
        assert!(marks.find(&path("a"), &mine).is_some());
        assert!(marks.find(&path("b"), &theirs).is_none() && !marks.has_name(&path("b")));
        // It begins as the source does, and was gone on with.
        let number = marks.begin(path("b"), theirs, path("b"), true);
        marks.record(&[(number, 9, Digest([2; 32]))]).unwrap();
        assert!(marks.is_ours(number) && !marks.is_complete());
        drop(marks);
        let marks = Marks::open(dir).unwrap();
        assert_eq!(marks.find(&path("b"), &theirs).unwrap().1.bytes, 9);
    }

    #[test]
    fn a_flow_that_was_withdrawn_is_not_known_to_who_comes_after() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let origin = Origin([1; 16]);
        let number = marks.begin(path("a"), origin, path("a"), false);
        marks.record(&[]).unwrap();
        marks.withdraw(number).unwrap();
        let is_unknown = |marks: &Marks| {
            marks.find(&path("a"), &origin).is_none()
                && marks.find_renamed(&origin).is_none()
                && !marks.has_name(&path("a"))
        };
        assert!(is_unknown(&marks));
        drop(marks);
        assert!(is_unknown(&Marks::open(dir).unwrap()));
    }

    #[test]
    fn what_was_renamed_is_found_by_its_origin_and_what_is_not_complete_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(scratch.path()).unwrap());
        let mut marks = Marks::open(dir.clone()).unwrap();
        let (log, whole) = (Origin([1; 16]), Origin([2; 16]));
        let number = marks.begin(path("log"), log, path("log"), false);
        marks.record(&[(number, 9, Digest([1; 32]))]).unwrap();
        let complete = marks.begin(path("whole"), whole, path("whole"), false);
        marks.end(complete).unwrap();
        marks.begin(path("anothers"), Origin([3; 16]), path("anothers"), true);
        drop(marks);
        let mut marks = Marks::open(dir).unwrap();
        assert!(marks.find(&path("log.1"), &log).is_none());
        assert_eq!(marks.find_renamed(&log).unwrap().1.name, path("log"));
        assert_eq!(marks.find_renamed(&whole).unwrap().0, complete);
        assert!(marks.find_renamed(&Origin([3; 16])).is_none());
        assert_eq!(marks.unfinished().map(|(number, _)| number).collect::<Vec<_>>(), [number]);
        marks.end(number).unwrap();
        assert!(marks.unfinished().next().is_none() && marks.is_complete());
    }

    #[test]
    fn marks_are_found_in_any_directory_above_the_file_and_not_above_the_export() {
        let scratch = tempfile::tempdir().unwrap();
        let export = scratch.path().join("export");
        std::fs::create_dir_all(export.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", export.join("link")).unwrap();
        let staging = |root: &Path| {
            let staging = root.join(".thalweg-staging/job");
            std::fs::create_dir_all(&staging).unwrap();
            Marks::open(Arc::new(Dir::open(&staging).unwrap())).unwrap()
        };
        let found = |at: &str, below: Option<&Path>| {
            let below = below.map(|below| Dir::open(below).unwrap());
            let places = Places::of(&Dir::open(&export.join(at)).unwrap(), b"file", below.as_ref());
            places.look_up().into_iter().map(|known| known.bytes).collect::<Vec<_>>()
        };
        assert_eq!(found("a/b", None), [0; 0]);
        let name = path("export/a/b/file");
        let mut top = staging(scratch.path());
        let number = top.begin(name.clone(), Origin::default(), name, false);
        top.record(&[(number, 3, Digest([3; 32]))]).unwrap();
        assert_eq!(found("a/b", None), [3]);
        assert_eq!(found("a/b", Some(&export)), [0; 0]);
        let name = path("a/b/file");
        let mut exported = staging(&export);
        let number = exported.begin(name.clone(), Origin::default(), name, false);
        exported.record(&[(number, 2, Digest([2; 32]))]).unwrap();
        for at in ["a/b", "link"] {
            assert_eq!(found(at, None), [2, 3]);
            assert_eq!(found(at, Some(&export)), [2]);
        }
        exported.end(number).unwrap();
        assert_eq!(found("a/b", Some(&export)), [0; 0]);
    }
}
