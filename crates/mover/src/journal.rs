//! What is already safe at a destination.
//!
//! The [`Journal`] says which chunks of which partial files are durable; it lives in the staging directory and
//! ends with the job. The [`catalogue`] remembers finished files across jobs.
//!
//! A journal file is [`MAGIC`], a [`Record::Header`], and records, as [`thalweg_wire::journal`] describes them. A
//! header further on says that what begins behind it is in chunks of another size: an attempt may choose its own, and
//! what an earlier one recorded keeps the size that it was recorded in until somebody resumes it. Replay keeps one
//! number per record, not the digests: those are read again when a partial is resumed, so that a journal of a petabyte
//! costs no memory to open.
//!
//! Guaranteed: [`Journal::record`] returns after what it wrote is durable. Not guaranteed: that a chunk it names
//! is still sound; whoever resumes digests it again.

use crate::failure::{self, Failure, FailureKind, Result};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, File, Replace, errno};
use thalweg_wire::journal::{LAYOUT, MAGIC, RECORD_HEAD_BYTES, Record};
use thalweg_wire::{Digest, Evidence, RelativePath, limits};

pub mod staging_names;

pub mod catalogue;

pub mod marks;

/// Name of the journal in its directory.
const NAME: &[u8] = b"journal";
/// Name of its successor until it is whole.
const SUCCESSOR: &[u8] = b"journal.new";
/// A journal shorter than this is not worth rewriting.
const COMPACT_BYTES: u64 = 64 << 20;
/// Chunks in one record: well below the largest record that is read.
const RECORD_CHUNKS_MAX: usize = 16 << 10;
const _: () = assert!(RECORD_CHUNKS_MAX * (10 + 32) + 64 < limits::JOURNAL_RECORD_BYTES_MAX);
/// Read at once in replay; holds the longest record.
const WINDOW_BYTES: usize = 4 << 20;
const _: () = assert!(limits::JOURNAL_RECORD_BYTES_MAX + RECORD_HEAD_BYTES <= WINDOW_BYTES);

/// An open journal. One at a time on a directory: the caller holds the directory's lock.
pub struct Journal {
    file: File,
    dir: Arc<Dir>,
    job_key: [u8; 16],
    /// Bytes of a chunk in what is recorded from now on.
    chunk_bytes: u64,
    /// Bytes of a chunk that the last header in the file names.
    header_bytes: u64,
    /// Where the next record goes.
    end: u64,
    /// Bytes of records that no live partial needs.
    dead_bytes: u64,
    partials: BTreeMap<u64, Known>,
    by_path: HashMap<RelativePath, u64>,
    /// Ended partials whose `End` is not written yet.
    ended: Vec<u64>,
    next: u64,
    compact_bytes: u64,
    /// An earlier attempt of the job left it.
    goes_on: bool,
    /// Set by the first error of a write or sync; nothing is believed after it.
    failed: Option<Failure>,
}

struct Known {
    path: RelativePath,
    evidence: Evidence,
    /// Bytes of a chunk in its records.
    chunk_bytes: u64,
    /// Its `Begin` is in the file.
    is_written: bool,
    /// Offsets of its records.
    records: Vec<u64>,
    bytes: u64,
}

impl Journal {
    /// Opens or creates the journal in `dir` and replays it. What begins from now on is in chunks of `chunk_bytes`. A
    /// journal of another job is begun anew, and so are one that the medium has lost and what follows the first damaged
    /// record; all are logged.
    ///
    /// # Errors
    /// `Unsupported` for a layout of another version (left untouched), `Space`, `Permission`, `Io`.
    pub fn open(dir: Arc<Dir>, job_key: [u8; 16], chunk_bytes: u64) -> Result<Journal> {
        let of_io = |error: io::Error| failure::of_io("open the journal", &error);
        // A successor that was never renamed is not whole.
        let _ = dir.remove_file(SUCCESSOR);
        let file = match dir.create_new(NAME, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.open_read_write(NAME),
            other => other,
        }
        .map_err(of_io)?;
        let mut journal = Journal::empty(file, dir, job_key, chunk_bytes);
        match journal.replay() {
            Ok(goes_on) => journal.goes_on = goes_on?,
            // Else the job would never go on.
            Err(error) if is_lost(&error, || is_local(&journal.dir)) => {
                tracing::warn!(%error, "the journal is begun anew; everything is sent again");
                let Journal { file, dir, .. } = journal;
                journal = Journal { goes_on: true, ..Journal::empty(file, dir, job_key, chunk_bytes) };
            }
            Err(error) => return Err(failure::of_io("read the journal", &error)),
        }
        if journal.end > 0 {
            journal.file.truncate(journal.end).map_err(of_io)?;
        } else if journal.goes_on {
            // An empty one would be that of a first attempt.
            journal = journal.write_successor().map_err(of_io)?;
        } else {
            let mut bytes = MAGIC.to_vec();
            append(&journal.header(chunk_bytes), 0, &mut bytes);
            journal.header_bytes = chunk_bytes;
            journal.file.truncate(0).and_then(|()| journal.file.write_all_at(&bytes, 0)).map_err(of_io)?;
            journal.end = bytes.len() as u64;
        }
        Ok(journal)
    }

    fn empty(file: File, dir: Arc<Dir>, job_key: [u8; 16], chunk_bytes: u64) -> Journal {
        Journal {
            file,
            dir,
            job_key,
            chunk_bytes,
            header_bytes: chunk_bytes,
            end: 0,
            dead_bytes: 0,
            partials: BTreeMap::new(),
            by_path: HashMap::new(),
            ended: Vec::new(),
            next: 1,
            compact_bytes: COMPACT_BYTES,
            goes_on: false,
            failed: None,
        }
    }

    /// Whether an earlier attempt of the job left it: one that ended well leaves none.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Gives a partial of this entry its number. Nothing is written before the first [`record`](Self::record).
    pub fn begin(&mut self, path: &RelativePath, evidence: &Evidence) -> u64 {
        let number = self.next;
        self.next += 1;
        self.know(number, path.clone(), evidence.lasting(), self.chunk_bytes, false);
        number
    }

    /// The live partial of this very content, if there is one.
    pub fn find(&self, path: &RelativePath, evidence: &Evidence) -> Option<u64> {
        let number = self.by_path.get(path)?;
        (self.partials.get(number)?.evidence.lasting() == evidence.lasting()).then_some(*number)
    }

    /// The live partial of this path, whatever its content.
    pub fn find_path(&self, path: &RelativePath) -> Option<u64> {
        self.by_path.get(path).copied()
    }

    /// Whether partial `number` is live.
    pub fn is_live(&self, number: u64) -> bool {
        self.partials.contains_key(&number)
    }

    /// Live partials that the file names, with their paths.
    pub fn live(&self) -> impl Iterator<Item = (u64, &RelativePath)> {
        self.partials.iter().map(|(number, known)| (*number, &known.path))
    }

    /// Bytes of a chunk in what is recorded of a live partial.
    pub fn chunk_bytes_of(&self, number: u64) -> Option<u64> {
        self.partials.get(&number).map(|known| known.chunk_bytes)
    }

    /// Chunks recorded of a partial, by number, of [`chunk_bytes_of`](Self::chunk_bytes_of) bytes each; of a chunk
    /// recorded twice the later digest. Memory grows with the chunks of this one partial.
    ///
    /// # Errors
    /// `Io`. A record that does not read back is left out, not an error: its chunks are sent again.
    pub fn chunks(&self, number: u64) -> Result<BTreeMap<u64, Digest>> {
        let mut found = BTreeMap::new();
        let Some(known) = self.partials.get(&number) else { return Ok(found) };
        let mut window = Window::of(self.end);
        for &at in &known.records {
            let read = window.record(&self.file, at).map_err(|e| failure::of_io("read the journal", &e))?;
            if let Some((Record::Chunks { partial, chunks }, _)) = read
                && partial == number
            {
                found.extend(chunks);
            }
        }
        Ok(found)
    }

    /// Appends that these chunks are durable, and makes that note durable. What was recorded of one of these partials
    /// in chunks of another size is replaced.
    ///
    /// # Errors
    /// `Space`, `Io`; final: every later call gives the same, because what the file holds is not known any more.
    pub fn record(&mut self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        self.check()?;
        let mut bytes = Vec::new();
        self.encode_ended(&mut bytes);
        if self.header_bytes != self.chunk_bytes {
            append(&self.header(self.chunk_bytes), self.end, &mut bytes);
            self.header_bytes = self.chunk_bytes;
        }
        for (number, chunks) in chunks {
            let Some(known) = self.partials.get_mut(number) else { continue };
            if known.chunk_bytes != self.chunk_bytes {
                self.dead_bytes += known.bytes;
                known.begin_anew(self.chunk_bytes);
            }
            if !known.is_written {
                let begin =
                    Record::Begin { partial: *number, path: known.path.clone(), evidence: known.evidence };
                known.note(append(&begin, self.end, &mut bytes));
                known.is_written = true;
            }
            for chunks in chunks.chunks(RECORD_CHUNKS_MAX) {
                let record = Record::Chunks { partial: *number, chunks: chunks.to_vec() };
                known.note(append(&record, self.end, &mut bytes));
            }
        }
        self.write(&bytes)?;
        self.file.sync_data().map_err(|error| self.fail(&error))?;
        if self.end > self.compact_bytes && self.dead_bytes > self.end / 2 {
            self.compact()?;
        }
        Ok(())
    }

    /// Forgets a partial that was renamed into place or thrown away. The note is written with the next
    /// [`record`](Self::record) or [`flush`](Self::flush); losing it costs nothing, for then the partial is missing.
    pub fn end(&mut self, number: u64) {
        let Some(known) = self.partials.remove(&number) else { return };
        if self.by_path.get(&known.path) == Some(&number) {
            self.by_path.remove(&known.path);
        }
        self.dead_bytes += known.bytes;
        if known.is_written {
            self.ended.push(number);
        }
    }

    /// Writes outstanding notes, without making them durable.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        let mut bytes = Vec::new();
        self.encode_ended(&mut bytes);
        self.write(&bytes)
    }

    fn know(
        &mut self,
        number: u64,
        path: RelativePath,
        evidence: Evidence,
        chunk_bytes: u64,
        is_written: bool,
    ) {
        self.by_path.insert(path.clone(), number);
        let known = Known { path, evidence, chunk_bytes, is_written, records: Vec::new(), bytes: 0 };
        self.partials.insert(number, known);
    }

    fn header(&self, chunk_bytes: u64) -> Record {
        Record::Header { layout: LAYOUT, job_key: self.job_key, chunk_bytes }
    }

    /// The size of chunks in a header of this job; `None` for another record.
    fn own_header(&self, record: &Record) -> Option<u64> {
        match *record {
            Record::Header { layout: LAYOUT, job_key, chunk_bytes }
                if job_key == self.job_key && limits::is_chunk_size(chunk_bytes) =>
            {
                Some(chunk_bytes)
            }
            _ => None,
        }
    }

    fn encode_ended(&mut self, bytes: &mut Vec<u8>) {
        for partial in std::mem::take(&mut self.ended) {
            let (_, length) = append(&Record::End { partial }, self.end, bytes);
            self.dead_bytes += length;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.file.write_all_at(bytes, self.end).map_err(|error| self.fail(&error))?;
            self.end += bytes.len() as u64;
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: &io::Error) -> Failure {
        let failure = failure::of_io("write the journal", error);
        self.failed = Some(failure.clone());
        failure
    }

    /// Reads the file from the start; leaves `end` behind the last sound record, 0 if even the header is not. Whether
    /// an earlier attempt of the job left it; the inner failure is about what it says.
    fn replay(&mut self) -> io::Result<Result<bool>> {
        let size = self.file.stat()?.size;
        if size == 0 {
            return Ok(Ok(false));
        }
        let mut magic = [0; MAGIC.len()];
        let read = self.file.read_at(&mut magic, 0)?;
        let mut window = Window::of(size);
        let mut at = MAGIC.len() as u64;
        let header = window.record(&self.file, at)?;
        match header {
            Some((Record::Header { layout, .. }, _)) if layout != LAYOUT => {
                let cause = format!("it has layout {layout}, this program knows layout {LAYOUT}");
                return Ok(Err(Failure::new(FailureKind::Unsupported, "open the journal", cause)));
            }
            Some((record, length)) if magic[..read] == MAGIC[..] => match self.own_header(&record) {
                Some(chunk_bytes) => {
                    self.header_bytes = chunk_bytes;
                    at += length;
                }
                None => {
                    tracing::info!("the journal is for another job and is begun anew");
                    return Ok(Ok(false));
                }
            },
            _ => {
                tracing::warn!("the head of the journal is damaged; everything is sent again");
                return Ok(Ok(true));
            }
        }
        while let Some((record, length)) = window.record(&self.file, at)? {
            if !self.replay_record(record, at, length) {
                break;
            }
            at += length;
        }
        if at < size {
            // A torn append looks the same; either way what follows is not believed.
            tracing::warn!(at, size, "the journal is damaged or torn; what follows is sent again");
        }
        self.end = at;
        Ok(Ok(true))
    }

    /// False for a record that no journal of this job has.
    fn replay_record(&mut self, record: Record, at: u64, length: u64) -> bool {
        match record {
            Record::Header { .. } => {
                let Some(chunk_bytes) = self.own_header(&record) else { return false };
                self.header_bytes = chunk_bytes;
                self.dead_bytes += length;
            }
            Record::Begin { partial, path, evidence } => {
                if let Some(older) = self.by_path.get(&path).copied() {
                    self.end(older);
                }
                self.end(partial);
                self.next = self.next.max(partial.saturating_add(1));
                self.know(partial, path, evidence, self.header_bytes, true);
                self.note(partial, at, length);
            }
            Record::Chunks { partial, .. } => self.note(partial, at, length),
            Record::End { partial } => {
                self.end(partial);
                self.dead_bytes += length;
            }
        }
        self.ended.clear();
        true
    }

    fn note(&mut self, partial: u64, at: u64, length: u64) {
        match self.partials.get_mut(&partial) {
            Some(known) => known.note((at, length)),
            None => self.dead_bytes += length,
        }
    }

    /// Writes what is live to a new file and puts it in place of the old, record by record.
    fn compact(&mut self) -> Result<()> {
        let successor = self.write_successor().map_err(|error| self.fail(&error))?;
        *self = Journal { ended: std::mem::take(&mut self.ended), ..successor };
        Ok(())
    }

    fn write_successor(&mut self) -> io::Result<Journal> {
        let _ = self.dir.remove_file(SUCCESSOR);
        let file = self.dir.create_new(SUCCESSOR, 0o600)?;
        let mut bytes = MAGIC.to_vec();
        let mut header_bytes = self.chunk_bytes;
        append(&self.header(header_bytes), 0, &mut bytes);
        let mut written = 0;
        let mut partials = BTreeMap::new();
        let mut window = Window::of(self.end);
        for (&number, known) in &self.partials {
            let mut copy = Known { records: Vec::new(), bytes: 0, path: known.path.clone(), ..*known };
            if header_bytes != known.chunk_bytes {
                header_bytes = known.chunk_bytes;
                append(&self.header(header_bytes), written, &mut bytes);
            }
            for &at in &known.records {
                if let Some((record, _)) = window.record(&self.file, at)? {
                    copy.note(append(&record, written, &mut bytes));
                }
                if bytes.len() > WINDOW_BYTES {
                    file.write_all_at(&bytes, written)?;
                    written += bytes.len() as u64;
                    bytes.clear();
                }
            }
            partials.insert(number, copy);
        }
        file.write_all_at(&bytes, written)?;
        let end = written + bytes.len() as u64;
        file.sync_all()?;
        self.dir.rename(SUCCESSOR, &self.dir, NAME, Replace::Existing)?;
        self.dir.sync()?;
        Ok(Journal {
            file,
            dir: self.dir.clone(),
            job_key: self.job_key,
            chunk_bytes: self.chunk_bytes,
            header_bytes,
            end,
            dead_bytes: 0,
            partials,
            by_path: self.by_path.clone(),
            ended: Vec::new(),
            next: self.next,
            compact_bytes: self.compact_bytes,
            goes_on: self.goes_on,
            failed: None,
        })
    }
}

/// Whether what a medium had is gone for good. A device that was pulled out and a server that is away come back, and
/// all that the journal names with them. Of a server that is away some file systems say what a broken disk says.
fn is_lost(error: &io::Error, is_local: impl FnOnce() -> bool) -> bool {
    match error.raw_os_error() {
        Some(errno::BAD_CHECKSUM | errno::DAMAGED) => true,
        Some(errno::IO) => is_local(),
        _ => false,
    }
}

fn is_local(dir: &Dir) -> bool {
    dir.file_system().is_ok_and(|system| system.kind.is_local())
}

impl Known {
    /// Nothing that is recorded of it counts any more.
    fn begin_anew(&mut self, chunk_bytes: u64) {
        (self.chunk_bytes, self.is_written, self.bytes) = (chunk_bytes, false, 0);
        self.records.clear();
    }

    fn note(&mut self, (at, length): (u64, u64)) {
        self.records.push(at);
        self.bytes += length;
    }
}

/// Appends a record to `bytes`, which will stand at offset `base`; returns its own offset and length.
fn append(record: &Record, base: u64, bytes: &mut Vec<u8>) -> (u64, u64) {
    let at = base + bytes.len() as u64;
    record.encode(at, bytes);
    (at, base + bytes.len() as u64 - at)
}

/// The part of the file that was read last.
struct Window {
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// For a file of `file_bytes`.
    fn of(file_bytes: u64) -> Window {
        Window { file_bytes, start: 0, bytes: Vec::new() }
    }

    /// The record at `at` with its length; `None` where there is none that is sound.
    fn record(&mut self, file: &File, at: u64) -> io::Result<Option<(Record, u64)>> {
        for is_fresh in [false, true] {
            if is_fresh {
                let left = self.file_bytes.saturating_sub(at).min(WINDOW_BYTES as u64);
                self.bytes.resize(left as usize, 0);
                let read = file.read_at(&mut self.bytes, at)?;
                self.bytes.truncate(read);
                self.start = at;
            }
            let inside =
                at.checked_sub(self.start).and_then(|from| self.bytes.get(usize::try_from(from).ok()?..));
            if let Some(Ok((record, length))) = inside.map(|bytes| Record::decode(at, bytes)) {
                return Ok(Some((record, length as u64)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
