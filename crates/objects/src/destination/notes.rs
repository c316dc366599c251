//! Uploads that are under way, noted in the state directory: what an attempt leaves the next one finds and goes on
//! with, and `thalweg gc` ends.
//!
//! One file for a job, locked by whoever runs it, a line for each thing that happened. A line is durable before what it
//! says is told; what follows the first damaged line is not believed. When much of it is of uploads that are over, it
//! is written anew. Without a state directory, or where that has no locks, nothing outlasts the transfer.

use crate::store::{Part, Upload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use thalweg_mover::failure::{self, Reason};
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::{Digest, Evidence};

const OPEN_NOTES: &str = "open the note of uploads";
const NOTE: &str = "note the upload";
const EXTENSION: &str = "uploads";
/// Of a note that is being written anew.
const BESIDE: &str = "uploads-new";
/// A line that is longer is damaged: the parts of one upload take a few MiB.
const LINE_BYTES_MAX: u64 = 512 << 20;
/// A note is written anew when so much of it is of uploads that are over.
const DEAD_BYTES_MAX: u64 = 64 << 20;
/// So long a transfer waits for who has its note: `thalweg gc` has one for as long as it looks at it, or ends what is
/// noted there.
const HELD_MAX: Duration = Duration::from_secs(2);
/// Between two tries.
const HELD_LOOK: Duration = Duration::from_millis(50);

/// What is noted of one part: by these it is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedPart {
    pub(super) number: u16,
    pub(super) bytes: u64,
    pub(super) etag: String,
    /// Of its chunk.
    digest: String,
}

impl NotedPart {
    pub(super) fn new(part: &Part, digest: Digest) -> NotedPart {
        NotedPart {
            number: part.number,
            bytes: part.bytes,
            etag: part.etag.clone(),
            digest: digest.to_string(),
        }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        self.digest.parse().ok()
    }

    /// Whether this is what stands in the store.
    pub(super) fn is(&self, part: &Part) -> bool {
        (self.number, self.bytes, &self.etag) == (part.number, part.bytes, &part.etag)
    }
}

/// One upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    pub(super) key: String,
    pub(super) id: String,
    /// Of the source's file.
    pub(super) evidence: Evidence,
    pub(super) chunk_bytes: u64,
    /// What the object is to have beside it.
    pub(super) about: String,
    /// As [`Upload`] has it.
    #[serde(default)]
    pub(super) mark: Option<String>,
    #[serde(skip)]
    pub(super) parts: BTreeMap<u16, NotedPart>,
    /// Nobody goes on with it, and it is to be ended.
    #[serde(skip)]
    pub(super) is_given_up: bool,
}

impl Noted {
    pub(super) fn upload(&self) -> Upload {
        Upload { key: self.key.clone(), id: self.id.clone(), begun: None, mark: self.mark.clone() }
    }
}

#[derive(Serialize, Deserialize)]
enum Line {
    /// The first: whose uploads these are.
    Of {
        bucket: String,
    },
    Begin {
        number: u64,
        noted: Noted,
    },
    Parts {
        number: u64,
        parts: Vec<NotedPart>,
    },
    End {
        number: u64,
    },
}

/// An upload that is under way.
struct Live {
    noted: Noted,
    /// Of all its lines.
    line_bytes: u64,
}

impl Live {
    /// A line says that these parts are in the store.
    fn add(&mut self, parts: Vec<NotedPart>, line_bytes: u64) {
        self.noted.parts.extend(parts.into_iter().map(|part| (part.number, part)));
        self.line_bytes += line_bytes;
    }
}

/// See the module.
pub(super) struct Notes {
    file: Option<(File, PathBuf)>,
    /// Where the last line that is durable ends.
    end: u64,
    live: BTreeMap<u64, Live>,
    next: u64,
    /// Whose uploads these are.
    bucket: String,
    /// Bytes of lines that are not of what is under way.
    dead_bytes: u64,
    dead_bytes_max: u64,
}

impl Notes {
    /// Nothing is kept.
    pub(super) fn none() -> Notes {
        Notes::of(None, "", ReadNote::default())
    }

    /// What was read of a file.
    fn of(file: Option<(File, PathBuf)>, bucket: &str, read: ReadNote) -> Notes {
        let ReadNote { end, live, next, .. } = read;
        let dead_bytes = end - live.values().map(|live| live.line_bytes).sum::<u64>();
        let bucket = bucket.to_owned();
        Notes { file, end, live, next, bucket, dead_bytes, dead_bytes_max: DEAD_BYTES_MAX }
    }

    /// Those of the job that `identity` names, in the directory `state`. Where nothing can be locked there, nothing is
    /// kept.
    pub(super) fn open(state: &Path, identity: &[u8], bucket: &str) -> Result<Notes> {
        Notes::open_by(File::try_lock, state, identity, bucket)
    }

    fn open_by(try_lock: TryLock, state: &Path, identity: &[u8], bucket: &str) -> Result<Notes> {
        let of_io = |error: io::Error| failure::of_io(OPEN_NOTES, &error);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
        made.map_err(|error| failure::of_state(&error))?;
        let name = blake3::hash(identity).to_hex();
        let path = state.join(format!("{}.{EXTENSION}", &name[..32]));
        let mut file = match open_when_free(&path, try_lock).map_err(of_io)? {
            Opened::Ours(file) => file,
            Opened::Taken => {
                let cause = "another transfer of the same job runs, or `thalweg gc` ends what one left: it \
                             has what is unfinished there";
                let failure = Failure::new(FailureKind::Busy, OPEN_NOTES, cause);
                return Err(failure.because(Reason::DestinationTaken));
            }
            Opened::Unlockable(error) => {
                tracing::warn!(%error, "no locks here: unfinished uploads are not noted");
                return Ok(Notes::none());
            }
        };
        // Of who was killed while he wrote it anew.
        let _ = std::fs::remove_file(path.with_extension(BESIDE));
        let read = read(&mut file).map_err(of_io)?;
        let (end, is_ours) = (read.end, read.of.as_deref() == Some(bucket));
        let read = if is_ours { read } else { ReadNote { next: read.next, ..ReadNote::default() } };
        let mut notes = Notes::of(Some((file, path)), bucket, read);
        if !is_ours {
            notes.truncate(0).map_err(of_io)?;
            notes.append(&Line::Of { bucket: bucket.to_owned() }, true)?;
        } else {
            notes.truncate(end).map_err(of_io)?;
        }
        Ok(notes)
    }

    fn truncate(&mut self, end: u64) -> io::Result<()> {
        let Some((file, _)) = &self.file else { return Ok(()) };
        file.set_len(end)?;
        self.end = end;
        Ok(())
    }

    /// Appends a line, and tells its bytes.
    fn append(&mut self, line: &Line, is_durable: bool) -> Result<u64> {
        let Some((file, _)) = &mut self.file else { return Ok(0) };
        let bytes = encoded(line).map_err(|error| Failure::new(FailureKind::Internal, NOTE, error))?;
        // Over what was torn before, if that could not be cut off.
        let written = file.seek(SeekFrom::Start(self.end)).and_then(|_| file.write_all(&bytes));
        let written = written.and_then(|()| if is_durable { file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(bytes.len() as u64)
            }
            Err(error) => {
                // What follows a torn line would not be believed.
                let _ = file.set_len(self.end);
                Err(failure::of_io(NOTE, &error))
            }
        }
    }

    /// A number that no upload has had.
    pub(super) fn new_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// An upload begins.
    pub(super) fn begin(&mut self, number: u64, noted: Noted) -> Result<()> {
        let line_bytes = self.append(&Line::Begin { number, noted: noted.clone() }, true)?;
        self.live.insert(number, Live { noted, line_bytes });
        Ok(())
    }

    /// Parts of it are in the store.
    pub(super) fn add(&mut self, number: u64, parts: Vec<NotedPart>) -> Result<()> {
        if parts.is_empty() || !self.live.contains_key(&number) {
            return Ok(());
        }
        let line = Line::Parts { number, parts };
        let line_bytes = self.append(&line, true)?;
        if let (Line::Parts { parts, .. }, Some(live)) = (line, self.live.get_mut(&number)) {
            live.add(parts, line_bytes);
        }
        Ok(())
    }

    /// It is complete, or thrown away. What of this is lost is found to be gone at the store.
    pub(super) fn end(&mut self, number: u64) {
        let Some(ended) = self.live.remove(&number) else { return };
        let last = self.append(&Line::End { number }, false).unwrap_or(0);
        self.dead_bytes += ended.line_bytes + last;
        if self.dead_bytes > self.dead_bytes_max
            && let Err(error) = self.write_anew()
        {
            tracing::warn!(%error, "a note of uploads is longer than it need be");
            // Tried again when there is as much more.
            self.dead_bytes = 0;
        }
    }

    /// Writes what is under way into a file beside it, which then takes its name: it does not grow with what is over.
    fn write_anew(&mut self) -> io::Result<()> {
        let Some((_, path)) = &self.file else { return Ok(()) };
        let (path, beside) = (path.clone(), path.with_extension(BESIDE));
        let written = self.write_live(&beside).and_then(|written| {
            std::fs::rename(&beside, &path)?;
            Ok(written)
        });
        let (file, end, each_bytes) = written.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
        let directory = path.parent().map(Path::to_owned);
        (self.file, self.end, self.dead_bytes) = (Some((file, path)), end, 0);
        for (live, line_bytes) in self.live.values_mut().zip(each_bytes) {
            live.line_bytes = line_bytes;
        }
        directory.map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    /// Lines of what is under way, durable in a new file at `path`, which is locked: whoever finds it under the name of
    /// the note is to find it taken. With where they end, and the bytes of those of each upload, in their order.
    fn write_live(&self, path: &Path) -> io::Result<(File, u64, Vec<u64>)> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        }
        let mut writer = BufWriter::new(&file);
        let mut put = |line: &Line| -> io::Result<u64> {
            let bytes = encoded(line).map_err(io::Error::other)?;
            writer.write_all(&bytes)?;
            Ok(bytes.len() as u64)
        };
        let mut end = put(&Line::Of { bucket: self.bucket.clone() })?;
        let mut each_bytes = Vec::with_capacity(self.live.len());
        for (&number, Live { noted, .. }) in &self.live {
            let mut own = put(&Line::Begin { number, noted: noted.clone() })?;
            if !noted.parts.is_empty() {
                own += put(&Line::Parts { number, parts: noted.parts.values().cloned().collect() })?;
            }
            each_bytes.push(own);
            end += own;
        }
        writer.flush()?;
        drop(writer);
        file.sync_all()?;
        Ok((file, end, each_bytes))
    }

    /// What is under way for a key, and goes on.
    pub(super) fn find(&self, key: &str) -> Option<(u64, Noted)> {
        let is_it = |noted: &Noted| noted.key == key && !noted.is_given_up;
        let (number, live) = self.live.iter().find(|(_, live)| is_it(&live.noted))?;
        Some((*number, live.noted.clone()))
    }

    /// Nobody goes on with this one. It stays until it is ended.
    pub(super) fn give_up(&mut self, number: u64) {
        if let Some(live) = self.live.get_mut(&number) {
            live.noted.is_given_up = true;
        }
    }

    /// All that is under way.
    pub(super) fn all(&self) -> Vec<(u64, Noted)> {
        self.live.iter().map(|(number, live)| (*number, live.noted.clone())).collect()
    }

    /// Whether what is under way outlasts the transfer.
    pub(super) fn lasts(&self) -> bool {
        self.file.is_some()
    }

    /// Lets go of it; the file goes with the last upload.
    pub(super) fn close(&mut self) {
        if let Some((_file, path)) = self.file.take()
            && self.live.is_empty()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How a note is locked: by the kernel, unless a test does.
type TryLock = fn(&File) -> std::result::Result<(), TryLockError>;

/// The file of a note.
enum Opened {
    Ours(File),
    /// Somebody has it.
    Taken,
    /// This file system has no locks.
    Unlockable(io::Error),
}

/// The file of a note; made if it is not there. Who has it is waited for, for [`HELD_MAX`].
fn open_when_free(path: &Path, try_lock: TryLock) -> io::Result<Opened> {
    let until = Instant::now() + HELD_MAX;
    loop {
        let opened = open_locked(path, true, try_lock)?;
        if !matches!(opened, Opened::Taken) || Instant::now() >= until {
            return Ok(opened);
        }
        std::thread::sleep(HELD_LOOK);
    }
}

/// The file of a note.
fn open_locked(path: &Path, makes: bool, try_lock: TryLock) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(makes).truncate(false).mode(0o600).open(path)?;
    match try_lock(&file) {
        // Who had it removed it meanwhile: what is noted there nobody would find.
        Ok(()) if file.metadata()?.nlink() == 0 => Ok(Opened::Taken),
        Ok(()) => Ok(Opened::Ours(file)),
        Err(TryLockError::WouldBlock) => Ok(Opened::Taken),
        Err(TryLockError::Error(error)) => {
            // What another machine noted, which has locks there, stays.
            if makes && file.metadata()?.len() == 0 {
                let _ = std::fs::remove_file(path);
            }
            Ok(Opened::Unlockable(error))
        }
    }
}

/// A line as it stands in a note.
fn encoded(line: &Line) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// What a note says.
struct ReadNote {
    /// Where its first damaged line begins, or it ends.
    end: u64,
    of: Option<String>,
    live: BTreeMap<u64, Live>,
    next: u64,
}

impl Default for ReadNote {
    fn default() -> ReadNote {
        ReadNote { end: 0, of: None, live: BTreeMap::new(), next: 1 }
    }
}

/// Reads a note up to its first damaged line. Only what is under way is in memory.
fn read(file: &mut File) -> io::Result<ReadNote> {
    let mut note = ReadNote::default();
    let (mut lines, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else { return Ok(note) };
        let Ok(read) = serde_json::from_slice::<Line>(text) else { return Ok(note) };
        let line_bytes = line.len() as u64;
        match read {
            Line::Of { bucket } => note.of = Some(bucket),
            Line::Begin { number, noted } => {
                note.next = note.next.max(number.saturating_add(1));
                note.live.insert(number, Live { noted, line_bytes });
            }
            Line::Parts { number, parts } => {
                if let Some(live) = note.live.get_mut(&number) {
                    live.add(parts, line_bytes);
                }
            }
            Line::End { number } => {
                note.live.remove(&number);
            }
        }
        note.end += line_bytes;
    }
}

/// What is noted of one job.
pub(super) struct Found {
    /// Nobody else has them meanwhile; those of a transfer that runs are only looked at.
    pub(super) notes: Notes,
    /// A transfer has them, or may: where there are no locks nobody knows.
    pub(super) is_running: bool,
    /// When something was noted last.
    pub(super) noted_at: Option<SystemTime>,
}

/// Tells what is noted of uploads to a bucket of this name, one job at a time. Files of those who were killed while
/// they wrote a note anew go, of whatever bucket: their jobs may never run again.
pub(super) fn each_of(state: &Path, bucket: &str, each: &mut dyn FnMut(Found)) -> io::Result<()> {
    let names = match std::fs::read_dir(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    for name in names {
        let path = name?.path();
        let has = |wanted: &str| path.extension().is_some_and(|extension| extension == wanted);
        if has(BESIDE) {
            remove_unfinished(&path);
        }
        if !has(EXTENSION) {
            continue;
        }
        match look(&path, bucket, File::try_lock) {
            Ok(found) => found.into_iter().for_each(&mut *each),
            // Its transfer is over.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the file of a note that was being written anew, unless somebody still does: who does has it locked, and
/// gives up if he has not yet. Best effort.
fn remove_unfinished(path: &Path) {
    if let Ok(Opened::Ours(_file)) = open_locked(path, false, File::try_lock) {
        let _ = std::fs::remove_file(path);
    }
}

/// `None`: it is of another bucket.
fn look(path: &Path, bucket: &str, try_lock: TryLock) -> io::Result<Option<Found>> {
    let (mut file, is_running) = match open_locked(path, false, try_lock)? {
        Opened::Ours(file) => (file, false),
        Opened::Taken | Opened::Unlockable(_) => (File::open(path)?, true),
    };
    let about = file.metadata()?;
    let read = read(&mut file)?;
    if read.of.as_deref() != Some(bucket) {
        return Ok(None);
    }
    let end = read.end;
    let mut notes = Notes::of((!is_running).then(|| (file, path.to_owned())), bucket, read);
    // Where it is as it should be its time stays.
    if about.len() > end {
        notes.truncate(end)?;
    }
    Ok(Some(Found { notes, is_running, noted_at: about.modified().ok() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted() -> Noted {
        Noted {
            key: "k".to_owned(),
            id: "u".to_owned(),
            evidence: Evidence::default(),
            chunk_bytes: 1 << 20,
            about: String::new(),
            mark: Some("m".to_owned()),
            parts: BTreeMap::new(),
            is_given_up: false,
        }
    }

    #[test]
    fn what_is_noted_behind_a_line_that_a_full_disk_tore_is_believed() {
        let state = tempfile::tempdir().unwrap();
        let open = || Notes::open(state.path(), b"job", "s3://memory").unwrap();
        let mut notes = open();
        let (file, _) = notes.file.as_mut().unwrap();
        file.write_all(b"{\"Begin\":{\"number\":1,\"no").unwrap();
        notes.begin(1, noted()).unwrap();
        drop(notes);
        assert_eq!(open().all(), [(1, noted())]);
    }

    #[test]
    fn a_note_does_not_grow_with_what_is_over_and_stays_taken_and_whole_when_it_is_written_anew() {
        let state = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(state.path(), b"job", "s3://memory").unwrap();
        notes.dead_bytes_max = 2048;
        let path = notes.file.as_ref().unwrap().1.clone();
        let digest = Digest([1; 32]).to_string();
        let part = NotedPart { number: 3, bytes: 5, etag: "e".to_owned(), digest };
        let expected = Noted { parts: BTreeMap::from([(3, part.clone())]), ..noted() };
        notes.begin(1, noted()).unwrap();
        notes.add(1, vec![part]).unwrap();
        let mut bytes_max = 0;
        for number in 2..60 {
            notes.begin(number, noted()).unwrap();
            notes.end(number);
            bytes_max = bytes_max.max(std::fs::metadata(&path).unwrap().len());
        }
        assert!(bytes_max < 2 * 2048, "{bytes_max}");
        // What is noted afterwards is noted there.
        notes.begin(60, noted()).unwrap();
        let found = look(&path, "s3://memory", File::try_lock).unwrap().unwrap();
        assert!(found.is_running);
        assert_eq!(found.notes.all(), [(1, expected.clone()), (60, noted())]);
        drop(notes);
        let again = Notes::open(state.path(), b"job", "s3://memory").unwrap();
        assert_eq!(again.all(), [(1, expected), (60, noted())]);
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_killed_while_it_wrote_a_note_anew_leaves_no_file_and_who_still_writes_keeps_his() {
        let state = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(state.path(), b"job", "s3://memory").unwrap();
        notes.begin(1, noted()).unwrap();
        let is_written = notes.file.as_ref().unwrap().1.with_extension(BESIDE);
        let _writes = notes.write_live(&is_written).unwrap();
        // Of a job whose note is there, of another bucket, and of one whose note is gone.
        let other = Notes::open(state.path(), b"other", "s3://other").unwrap();
        let there = other.file.as_ref().unwrap().1.with_extension(BESIDE);
        drop(other);
        let gone = state.path().join("gone").with_extension(BESIDE);
        for left in [&there, &gone] {
            std::fs::write(left, b"{\"Of\":{\"buc").unwrap();
        }
        let mut found = Vec::new();
        each_of(state.path(), "s3://memory", &mut |job| found.push((job.is_running, job.notes.all())))
            .unwrap();
        assert_eq!(found, [(true, vec![(1, noted())])]);
        assert_eq!([&is_written, &there, &gone].map(|path| path.exists()), [true, false, false]);
    }

    /// As on Lustre mounted without `flock`.
    #[test]
    fn where_nothing_can_be_locked_nothing_is_noted_and_what_others_noted_stays() {
        let no_locks: TryLock = |_| Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        let state = tempfile::tempdir().unwrap();
        let without_locks = || {
            let mut notes = Notes::open_by(no_locks, state.path(), b"job", "s3://memory").unwrap();
            assert!(!notes.lasts());
            notes.begin(1, noted()).unwrap();
            assert_eq!(notes.all(), [(1, noted())]);
            notes.close();
        };
        let names = || std::fs::read_dir(state.path()).unwrap().map(|name| name.unwrap().path());
        without_locks();
        assert_eq!(names().count(), 0);
        // A machine that has locks there.
        let open = || Notes::open(state.path(), b"job", "s3://memory").unwrap();
        open().begin(7, noted()).unwrap();
        without_locks();
        let path = names().next().unwrap();
        let found = look(&path, "s3://memory", no_locks).unwrap().unwrap();
        assert!(found.is_running && found.notes.all() == [(7, noted())]);
        assert_eq!(open().all(), [(7, noted())]);
    }
}
