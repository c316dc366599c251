//! Reading alone: what a place holds, in the order of a scan, each thread the next chunk, by what reads it in a copy:
//! past the page cache or through it, as many requests in flight ([`ChunkReader`], [`Ahead`]). What was not in the page
//! cache before is not in it afterwards ([`SparingSource`]). Where the place holds less than the time would take, it is
//! read once.
//!
//! Not as in a copy: small files are read one by one, not in packs; chunks are dealt by offset, also where the order of
//! the source is by layout or strict.

use super::{Measure, Tally, for_threads};
use crate::endpoint::local::{LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::together::depth_of;
use crate::endpoint::{ScanSink, Source};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::filter::Filter;
use crate::link::FrameBuffer;
use crate::mutex::lock;
use crate::order;
use crate::stage::ahead::{Ahead, Spare};
use crate::stage::read::{ChunkReader, OpenFiles, Segment};
use crate::stage::turn::{Gate, Turn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;
use thalweg_wire::message::{MeasureTerms, Measured, Order, Preserve, Terms};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath, digest};

/// Files that the scan is ahead of the readers.
const FILES_AHEAD: usize = 64;

/// Files of a scan, each with its chunks handed out one after the other.
struct Work {
    files: mpsc::Receiver<Entry>,
    /// The file whose chunks are handed out, and the next of them.
    now: Option<(Arc<Entry>, u64)>,
}

/// A chunk that a thread has to read.
struct Task<'a> {
    entry: Arc<Entry>,
    chunk: u64,
    /// When its first request may be made; `None` if that is made, or at once.
    turn: Option<Turn<'a>>,
}

/// What one thread keeps between chunks, as a stream does.
struct Lane<'a> {
    files: OpenFiles,
    buffer: FrameBuffer,
    ahead: Ahead,
    /// The chunk that it reads next; its first segments may be under way.
    drawn: Option<Task<'a>>,
}

/// Reading, by several threads.
struct Reading<'a> {
    source: &'a SparingSource,
    terms: &'a Terms,
    threads: u16,
    tally: &'a Tally,
    gate: Option<&'a Gate>,
    work: Mutex<Work>,
    says_cached: &'a AtomicBool,
    refused: &'a Refused,
    /// For what the threads read ahead.
    spare: Arc<Spare>,
}

pub(super) fn read(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let MeasureTerms { chunk_bytes, segment_bytes, disk } = asked.terms;
    let root = SourceRoot { path: asked.path, contents: asked.contents, below: asked.below };
    let options = ScanOptions {
        filter: Filter::new(Vec::new())?,
        only: Vec::new(),
        preserve: Preserve { owner: false, xattrs: false, ..Preserve::default() },
        one_file_system: false,
        follow_links: false,
        part: None,
        direct: disk.source.direct,
    };
    let source = SparingSource::new(Arc::new(LocalSource::open(vec![root], options)?), u64::MAX);
    source.expect_requests(segment_bytes.into());
    let terms = Terms { disk, ..Terms::of(chunk_bytes, segment_bytes) };
    let gate = Gate::of(disk.source.order.unwrap_or(order::SOURCE));
    let buffers = for_threads(asked.threads, |_| FrameBuffer::new(segment_bytes as usize))?;
    let threads = buffers.len() as u16;
    let tally = Tally::default();
    let (sender, files) = mpsc::sync_channel(FILES_AHEAD);
    let says_cached = AtomicBool::new(true);
    let refused: Refused = Mutex::default();
    let reading = Reading {
        source: &source,
        terms: &terms,
        threads,
        tally: &tally,
        gate: gate.as_ref(),
        work: Mutex::new(Work { files, now: None }),
        says_cached: &says_cached,
        refused: &refused,
        spare: Spare::new(segment_bytes as usize),
    };
    let mut measured = std::thread::scope(|scope| -> Result<Measured> {
        let scans = || source.scan(&mut Files { sender, tally: &tally, refused: &refused, next: 1 });
        let scan = std::thread::Builder::new().name("measure".into()).spawn_scoped(scope, scans);
        let scan = scan.map_err(|error| failure::of_thread(&error))?;
        let result = tally.run(threads, asked.time, is_over, |number| {
            let buffer = lock(&buffers[usize::from(number)]).take();
            buffer.map_or(Ok(()), |buffer| reading.read(number, buffer))
        });
        // Lets a scan that waits for room go on to its end.
        tally.is_over.store(true, Ordering::Relaxed);
        drop(reading);
        let _ = scan.join();
        result
    })?;
    if measured.bytes == 0 {
        let refused = refused.into_inner().unwrap_or_else(|p| p.into_inner());
        let why = refused.map_or_else(String::new, |first| format!(": {first}"));
        let cause = format!("there is no file with content that can be read{why}");
        return Err(Failure::new(FailureKind::Unsupported, "measure reading", cause));
    }
    measured.cached_bytes =
        says_cached.load(Ordering::Relaxed).then(|| tally.cached_bytes.load(Ordering::Relaxed));
    measured.past_cache_bytes = Some(tally.past_cache_bytes.load(Ordering::Relaxed));
    Ok(measured)
}

impl<'a> Reading<'a> {
    /// What one thread does: chunk after chunk, until the time is over or there is none left.
    fn read(&self, number: u16, buffer: FrameBuffer) -> Result<()> {
        let mut ahead = Ahead::new(self.terms.disk, self.terms.segment_bytes as usize);
        ahead.share(&self.spare);
        let mut lane = Lane { files: OpenFiles::default(), buffer, ahead, drawn: None };
        self.tally.wait_for_turn(number);
        let mut since = Instant::now();
        let mut result = Ok(());
        while result.is_ok() && !self.tally.is_over() {
            let Some(task) = lane.drawn.take().or_else(|| self.next(&mut lane.files)) else { break };
            let entry = task.entry.clone();
            if let Err(failure) = self.read_chunk(&mut lane, task, &mut since) {
                lane.ahead.forget();
                lane.files.forget(entry.id);
                match failure.kind {
                    // A copy would offer it anew.
                    FailureKind::Changed => note(self.refused, failure),
                    _ => result = Err(failure.at(&entry.path)),
                }
            }
        }
        // What is under way when the time is over ends first.
        lane.ahead.forget();
        result
    }

    fn read_chunk(&self, lane: &mut Lane<'a>, mut task: Task<'a>, since: &mut Instant) -> Result<()> {
        let entry = &task.entry;
        let file = match lane.files.get(entry, self.source) {
            Ok(file) => file,
            Err(failure) => {
                lane.ahead.forget();
                note(self.refused, failure);
                return Ok(());
            }
        };
        let mut reader = ChunkReader::new(file, entry, task.chunk, self.terms);
        let mut looks_ahead = true;
        reader.prepare();
        if let Some(turn) = &task.turn {
            turn.issue();
        }
        while let Some(offset) = reader.next_offset().filter(|_| !self.tally.is_over()) {
            let is_ahead = self.tally.may_have_in_flight(self.threads, depth_of(&self.terms.disk));
            let segment = match is_ahead {
                true => reader.read_ahead(&mut lane.buffer, &mut lane.ahead)?,
                false => reader.read(lane.buffer.payload_mut())?,
            };
            if looks_ahead && lane.ahead.has_room() {
                looks_ahead = self.look_ahead(lane, entry, &reader);
            }
            if reader.next_offset().is_none() {
                // Its last read ended.
                drop(task.turn.take());
            }
            let (bytes, is_read) = match segment {
                Segment::Data(bytes) => (bytes as u64, true),
                Segment::Zeros(bytes) => (bytes, false),
            };
            self.tally.book(bytes, since.elapsed());
            // The same answer as before it was read: what was out of the page cache did not come in.
            if is_read && reader.file.direct(offset, bytes).is_some() {
                self.tally.past_cache_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            *since = Instant::now();
        }
        if task.chunk + 1 == self.chunks_of(entry) {
            // To close it is part of the work.
            lane.files.forget(entry.id);
        }
        Ok(())
    }

    /// Begins to read the chunk that the thread reads next, as all of this one is under way. False if there is none of
    /// this file.
    fn look_ahead(&self, lane: &mut Lane<'a>, entry: &Arc<Entry>, reader: &ChunkReader) -> bool {
        if lane.drawn.is_none() {
            lane.drawn = self.next_of(entry);
            // Those before it were handed out to threads that make their requests now.
            if let Some(turn) = lane.drawn.as_mut().and_then(|task| task.turn.take()) {
                turn.issue();
            }
        }
        let Some(task) = &lane.drawn else { return false };
        let next = ChunkReader::new(reader.file.clone(), entry, task.chunk, self.terms);
        // What cannot be begun is read, and fails, when it is wanted.
        let _ = lane.ahead.begin(&*reader.file, next.segments());
        true
    }

    /// The next chunk; the file of the first one is open in `files`. A file that cannot be opened is passed over, as a
    /// copy would: what can be read is measured.
    fn next(&self, files: &mut OpenFiles) -> Option<Task<'a>> {
        let mut work = lock(&self.work);
        loop {
            if let Some(task) = self.take(&mut work) {
                return Some(task);
            }
            let entry = Arc::new(work.files.recv().ok()?);
            let file = match files.get(&entry, self.source) {
                Ok(file) => file,
                Err(failure) => {
                    note(self.refused, failure);
                    continue;
                }
            };
            match file.cached_bytes() {
                Some(cached) => drop(self.tally.cached_bytes.fetch_add(cached, Ordering::Relaxed)),
                None => self.says_cached.store(false, Ordering::Relaxed),
            }
            self.tally.items.fetch_add(1, Ordering::Relaxed);
            work.now = Some((entry, 0));
        }
    }

    /// The next chunk, if it is one of this file; as of a copy not where the order of requests goes by who asks or by
    /// when reads end, nor near the end of the file, for threads that would go idle.
    fn next_of(&self, entry: &Entry) -> Option<Task<'a>> {
        if matches!(self.terms.disk.source.order, Some(Order::Strict | Order::Serial)) {
            return None;
        }
        let mut work = lock(&self.work);
        let (_, next) = work.now.as_ref().filter(|(now, _)| now.id == entry.id)?;
        match self.chunks_of(entry) - next > u64::from(self.threads) {
            true => self.take(&mut work),
            false => None,
        }
    }

    fn chunks_of(&self, entry: &Entry) -> u64 {
        digest::chunk_count(entry.evidence.size, self.terms.chunk_bytes)
    }

    fn take(&self, work: &mut Work) -> Option<Task<'a>> {
        let (entry, chunk) = work.now.take()?;
        if chunk + 1 < self.chunks_of(&entry) {
            work.now = Some((entry.clone(), chunk + 1));
        }
        Some(Task { entry, chunk, turn: self.gate.map(Gate::draw) })
    }
}

/// The first of what could not be read, with why.
type Refused = Mutex<Option<String>>;

fn note(refused: &Refused, failure: impl std::fmt::Display) {
    refused.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert_with(|| failure.to_string());
}

struct Files<'a> {
    sender: mpsc::SyncSender<Entry>,
    tally: &'a Tally,
    refused: &'a Refused,
    next: u64,
}

impl ScanSink for Files<'_> {
    fn entry(&mut self, mut entry: Entry) -> Option<EntryId> {
        let id = EntryId(self.next);
        self.next += 1;
        entry.id = id;
        if matches!(entry.kind, Kind::File { .. }) && entry.evidence.size > 0 {
            self.sender.send(entry).ok()?;
        }
        (!self.tally.is_over()).then_some(id)
    }

    fn trouble(&mut self, _: RelativePath, failure: thalweg_wire::message::Failure) {
        note(self.refused, failure);
    }

    fn skipped(&mut self, _: RelativePath, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measure;
    use crate::measure::tests::{asked, goes_past};
    use thalweg_sys::{Advice, Dir, File};
    use thalweg_wire::message::{Direct, Disk, DiskSide, Part};

    /// A file `x` of so many bytes of which the page cache has nothing; `None`, said aloud, where the system does not
    /// let us have one that a copy would read past it.
    fn cold(bytes: u64) -> Option<(tempfile::TempDir, File)> {
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"x", 0o600).unwrap();
        file.write_all_at(&vec![7; bytes as usize], 0).unwrap();
        file.sync_all().unwrap();
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        let is_cold = file.cached_bytes(0, bytes).is_ok_and(|cached| cached == 0);
        if !is_cold || !goes_past(&dir, &file) {
            eprintln!(
                "skipped: no ext4 or XFS with direct I/O, or what is cached is not told or cannot be dropped"
            );
            return None;
        }
        Some((scratch, file))
    }

    #[test]
    fn as_in_a_copy_what_the_page_cache_lacks_of_a_large_file_is_read_past_it_and_what_it_has_from_there() {
        const BYTES: u64 = 24 << 20;
        let past_of = |asked: Measure, bytes: u64| {
            let measured = measure(asked, &|| false).unwrap();
            assert_eq!((measured.bytes, measured.items), (bytes, 1));
            measured.past_cache_bytes.unwrap()
        };
        let Some((scratch, file)) = cold(BYTES) else { return };
        let read = |segment_bytes: u32, disk: Disk| {
            let asked = asked(Part::Read, scratch.path(), segment_bytes);
            past_of(Measure { terms: MeasureTerms { disk, ..asked.terms }, ..asked }, BYTES)
        };
        let usual = Disk::default();
        let source = |direct| Disk { source: DiskSide { direct, order: None }, ..usual };
        for disk in [usual, Disk { no_io_uring: true, ..usual }, Disk { depth: Some(1), ..usual }] {
            assert_eq!(read(1 << 20, disk), BYTES, "{disk:?}");
            assert_eq!(file.cached_bytes(0, BYTES).unwrap(), 0, "{disk:?}: nothing came into the page cache");
        }
        // A copy reads so over a far path, and where it is asked to.
        assert_eq!(read(512 << 10, usual), 0);
        assert_eq!(read(1 << 20, source(Direct::Off)), 0);
        let mut content = vec![0; BYTES as usize];
        file.read_at(&mut content, 0).unwrap();
        // The kernel may take a few pages of its own accord where memory is short.
        if file.cached_bytes(0, BYTES).unwrap() >= BYTES {
            let past = read(1 << 20, usual);
            assert!(past <= BYTES / 4, "{past} bytes of {BYTES} were read past the page cache that had them");
        }
        let Some((scratch, _)) = cold(8 << 20) else { return };
        assert_eq!(past_of(asked(Part::Read, scratch.path(), 1 << 20), 8 << 20), 0, "it is small");
    }

    /// One file stands on the medium only, and one is in the page cache.
    #[test]
    fn what_is_read_for_a_measurement_leaves_the_page_cache_as_it_was() {
        const BYTES: u64 = 24 << 20;
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let mut content = vec![7; BYTES as usize];
        let put = |name: &[u8]| {
            let file = dir.create_new(name, 0o600).unwrap();
            file.write_all_at(&content, 0).unwrap();
            file.sync_all().unwrap();
            file.advise(Advice::DontNeed, 0, 0).unwrap();
            file
        };
        let (out, there) = (put(b"out"), put(b"there"));
        there.read_at(&mut content, 0).unwrap();
        let cached = |file: &File| file.cached_bytes(0, BYTES).unwrap_or(u64::MAX);
        // The kernel may take a few pages of its own accord where memory is short.
        let stays = |bytes: u64| (BYTES / 4 * 3..=BYTES).contains(&bytes);
        if cached(&out) > 0 || !stays(cached(&there)) {
            eprintln!("skipped: what is cached is not told here, or cannot be dropped");
            return;
        }
        // Past the page cache and through it.
        for segment_bytes in [1 << 20, 512 << 10] {
            let measured = measure(asked(Part::Read, scratch.path(), segment_bytes), &|| false).unwrap();
            assert_eq!((measured.bytes, measured.items), (2 * BYTES, 2));
            let (out, there) = (cached(&out), cached(&there));
            assert!(out <= 1 << 20, "{out} bytes of {BYTES} are left of what was not there");
            assert!(stays(there), "{there} bytes of {BYTES} are left of what was there");
        }
    }
}
