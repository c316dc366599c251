//! One part of a transfer alone, on this machine: how fast it reads, digests, seals, opens, writes when nothing else of
//! the transfer is there. Bounded in time, threads, bytes and memory, which is that of a copy with as many streams;
//! nothing of it is left behind.
//!
//! - *Read*: what a place holds, in the order of a scan, each thread the next chunk, by what reads it in a copy: past
//!   the page cache or through it, as many requests in flight ([`ChunkReader`], [`Ahead`]). What was not in the page
//!   cache before is not in it afterwards ([`SparingSource`]). Where the place holds less than the time would take, it
//!   is read once.
//! - *Digest, seal, open*: one segment of noise, in the cache of a core.
//! - *Write*: noise, into files in a directory that goes with the measurement ([`Scratch`]); past the page cache or
//!   through it as the engine would write them, as many in flight. Then the sync, with a time of its own.
//!
//! Not as in a copy: small files are read one by one, not in packs; chunks are dealt by offset, also where the order of
//! the source is by layout or strict; each of the writes in flight is of a thread and a file of its own.
//!
//! The rate is bytes x threads / busy time: the same as bytes / wall time where the threads do nothing else.

use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::staging::scratch::{Scratch, ScratchFile};
use crate::endpoint::local::{LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::synthetic::fill_with_noise;
use crate::endpoint::together::depth_of;
use crate::endpoint::{ScanSink, Source};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::filter::Filter;
use crate::link::FrameBuffer;
use crate::link::sealed::{Opener, SECRET_BYTES, Sealer};
use crate::mutex::lock;
use crate::order;
use crate::plan::SEGMENT_BYTES;
use crate::stage::ahead::{Ahead, Spare};
use crate::stage::read::{ChunkReader, OpenFiles, Segment};
use crate::stage::turn::{Gate, Turn};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use thalweg_sys::{Buffer, Dir};
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Direct, MeasureTerms, Measured, Order, Part, Preserve, Terms};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath, digest, limits};

/// Over so long each rate of the series is taken.
const SLICE: Duration = Duration::from_millis(100);
/// Files that the scan is ahead of the readers.
const FILES_AHEAD: usize = 64;
/// Bytes that are written at most, and at least, for a rate to say anything.
const WRITE_BYTES_MAX: u64 = 4 << 30;
/// Bytes: where fewer may be written, nothing is.
pub const WRITE_BYTES_MIN: u64 = 16 << 20;
/// Bytes that a thread reserves at once before it writes them past the page cache.
const RESERVED_BYTES: u64 = 16 << 20;
/// Between two looks whether a thread may begin.
const TURN_POLL: Duration = Duration::from_millis(1);
/// A sync that takes less says that more may be written before the next one; one that takes more, that less may.
const QUICK_SYNC: Duration = Duration::from_millis(50);
const SLOW_SYNC: Duration = Duration::from_millis(200);
/// What a thread has in the page cache at most.
const UNSYNCED_BYTES_MAX: u64 = 256 << 20;

/// What to measure.
pub struct Measure {
    /// The part.
    pub part: Part,
    /// Where to read or write; relative to `below` if that is given.
    pub path: PathBuf,
    /// Read: a trailing slash was written.
    pub contents: bool,
    /// The export that it must not leave.
    pub below: Option<Dir>,
    /// Write: no more bytes than these.
    pub bytes_max: u64,
    /// For so long.
    pub time: Duration,
    /// With so many threads, at least 1.
    pub threads: u16,
    /// What seals and opens; that of a TLS stream counts as AES-128-GCM.
    pub cipher: Cipher,
    /// In which pieces, and how the disk is used: those of the copy that is measured for.
    pub terms: MeasureTerms,
}

/// Measures. `is_over` is asked a few times a second, and ends it.
///
/// # Errors
/// `NotFound`, `Permission`, `Io` of the place; `Space` where writing would take much of what is left; `Unsupported`
/// for a place that holds no content.
pub fn measure(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    match asked.part {
        Part::Read => read(asked, is_over),
        Part::Write => write(asked, is_over),
        Part::Digest | Part::Seal | Part::Open => compute(&asked, is_over),
    }
}

/// What the threads did so far.
#[derive(Default)]
struct Tally {
    bytes: AtomicU64,
    items: AtomicU64,
    requests: AtomicU64,
    /// One of the threads has nothing more to do.
    has_ended: AtomicBool,
    busy_nanos: AtomicU64,
    cached_bytes: AtomicU64,
    past_cache_bytes: AtomicU64,
    is_over: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl Tally {
    fn book(&self, bytes: u64, busy: Duration) {
        self.busy_nanos.fetch_add(nanos(busy), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until so many requests have ended, as many as threads began before this one: so no more are ever under way
    /// than the disk did in the time so far, and what is under way when the time is over takes no longer than that
    /// again.
    fn wait_for_turn(&self, number: u16) {
        let may_begin = || {
            let is_idle = self.is_over() || self.has_ended.load(Ordering::Relaxed);
            is_idle || self.requests.load(Ordering::Relaxed) >= u64::from(number)
        };
        while !may_begin() {
            std::thread::sleep(TURN_POLL);
        }
    }

    /// Whether each of `threads` may have `depth` requests in flight: as many in all have ended, see
    /// [`Tally::wait_for_turn`]. Once it may, it always may.
    fn may_have_in_flight(&self, threads: u16, depth: usize) -> bool {
        self.requests.load(Ordering::Relaxed) >= u64::from(threads) * depth as u64
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Runs `work` on so many threads until the time is over or all have ended, and takes the series of rates.
    fn run(
        &self,
        threads: u16,
        time: Duration,
        is_over: &dyn Fn() -> bool,
        work: impl Fn(u16) -> Result<()> + Sync,
    ) -> Result<Measured> {
        let mut rates = Vec::new();
        let living = AtomicU64::new(u64::from(threads));
        std::thread::scope(|scope| -> Result<()> {
            for number in 0..threads {
                let (work, living) = (&work, &living);
                let one = move || {
                    if let Err(failure) = work(number) {
                        self.fail(failure);
                    }
                    self.has_ended.store(true, Ordering::Relaxed);
                    living.fetch_sub(1, Ordering::Release);
                };
                let spawned = std::thread::Builder::new().name("measure".into()).spawn_scoped(scope, one);
                if let Err(error) = spawned {
                    self.is_over.store(true, Ordering::Relaxed);
                    return Err(failure::of_thread(&error));
                }
            }
            let until = Instant::now() + time;
            let mut seen = (0, 0);
            while living.load(Ordering::Acquire) > 0 && !self.is_over() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || is_over() {
                    self.is_over.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(left.min(SLICE));
                let now = (self.bytes.load(Ordering::Relaxed), self.busy_nanos.load(Ordering::Relaxed));
                let (bytes, busy) = (now.0 - seen.0, now.1 - seen.1);
                // A slice in which no request ended says nothing.
                if bytes > 0 && busy > 0 && rates.len() < limits::MEASURE_RATES_MAX {
                    rates.push((bytes as f64 * f64::from(threads) * 1e9 / busy as f64) as u64);
                    seen = now;
                }
            }
            Ok(())
        })?;
        if let Some(failure) = lock(&self.failure).take() {
            return Err(failure);
        }
        Ok(Measured {
            bytes: self.bytes.load(Ordering::Relaxed),
            items: self.items.load(Ordering::Relaxed),
            threads,
            busy_nanos: self.busy_nanos.load(Ordering::Relaxed),
            rates,
            ..Measured::default()
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What each of so many threads works in; where there is memory for fewer only, for those, as a link has fewer streams
/// then.
fn for_threads<T>(threads: u16, make: impl Fn(u16) -> io::Result<T>) -> Result<Vec<Mutex<Option<T>>>> {
    let mut made = Vec::new();
    for number in 0..threads.max(1) {
        match make(number) {
            Ok(one) => made.push(Mutex::new(Some(one))),
            Err(error) if made.is_empty() => return Err(failure::of_memory("measure", &error)),
            Err(_) => break,
        }
    }
    Ok(made)
}

fn compute(asked: &Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let tally = Tally::default();
    let plain = asked.terms.segment_bytes as usize;
    let segments = for_threads(asked.threads, |_| Buffer::new(plain + TAG_BYTES))?;
    tally.run(segments.len() as u16, asked.time, is_over, |number| {
        let Some(mut segment) = lock(&segments[usize::from(number)]).take() else { return Ok(()) };
        fill_with_noise(&mut segment[..plain], 0);
        let cipher = if asked.cipher == Cipher::Tls { Cipher::Aes128Gcm } else { asked.cipher };
        let secret = [7; SECRET_BYTES];
        let mut sealer = Sealer::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let mut opener = Opener::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let outer = [0; OUTER_BYTES];
        // Once at least, though a busy machine may give this thread a core only when the time is over.
        loop {
            let mut began = Instant::now();
            if asked.part == Part::Digest {
                std::hint::black_box(digest::of_piece(0, &segment[..plain], plain as u64));
            } else {
                let tag = sealer.seal(&outer, &mut segment[..plain])?;
                if asked.part == Part::Open {
                    segment[plain..].copy_from_slice(&tag);
                    began = Instant::now();
                    std::hint::black_box(opener.open(&outer, &mut segment)?);
                }
            }
            tally.book(plain as u64, began.elapsed());
            if tally.is_over() {
                return Ok(());
            }
        }
    })
}

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

fn read(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
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

fn write(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let of_io = |error: io::Error| failure::of_io("write", &error);
    let MeasureTerms { segment_bytes, disk, .. } = asked.terms;
    let segment = u64::from(segment_bytes);
    let place = DestinationPlace { path: asked.path, below: asked.below };
    let bytes_min = WRITE_BYTES_MIN.max(segment);
    let scratch = Scratch::begin(&place, asked.bytes_max.min(WRITE_BYTES_MAX), bytes_min)?;
    let (directory, bytes_max) = (scratch.tree()?, scratch.bytes_max);
    let create = |number| ScratchFile::create(&directory, number, disk.destination.direct);
    let mut files = vec![create(0).map_err(of_io)?];
    // As many as the engine has under way: past the page cache several for each stream.
    let depth = if files[0].is_past() { u16::try_from(depth_of(&disk)).unwrap_or(u16::MAX) } else { 1 };
    let most = u16::try_from(limits::STREAM_BYTES_MAX / segment).unwrap_or(u16::MAX).max(1);
    let threads = asked.threads.saturating_mul(depth).min(limits::MEASURE_THREADS_MAX).min(most);
    let buffers = for_threads(threads, |number| match number {
        0 => Buffer::new(segment_bytes as usize),
        _ => Buffer::spare(segment_bytes as usize),
    })?;
    let threads = buffers.len() as u16;
    for number in 1..threads {
        files.push(create(number).map_err(of_io)?);
    }
    let (tally, synced_nanos) = (Tally::default(), AtomicU64::new(0));
    // Taken before it is written: all threads together stay within the room. Past the page cache by the piece, which is
    // reserved as for files of a copy; not all at once, for others write there too.
    let share_bytes = bytes_max / u64::from(threads.max(1)) / segment * segment;
    let piece_bytes = match files[0].is_past() {
        true => RESERVED_BYTES.min(share_bytes).max(segment),
        false => segment,
    };
    let taken = AtomicU64::new(0);
    let has_room = || taken.fetch_add(piece_bytes, Ordering::Relaxed) + piece_bytes <= bytes_max;
    let mut measured = tally.run(threads, asked.time, is_over, |number| {
        let file = &files[usize::from(number)];
        let Some(mut buffer) = lock(&buffers[usize::from(number)]).take() else { return Ok(()) };
        let (mut offset, mut end) = (0u64, 0u64);
        let mut cached = Cached::default();
        fill_with_noise(&mut buffer, u64::from(number) << 40);
        tally.wait_for_turn(number);
        while !tally.is_over() {
            if offset == end {
                if !has_room() {
                    break;
                }
                if file.is_past() {
                    file.reserve(end, piece_bytes);
                }
                end += piece_bytes;
            }
            // No two are the same, for file systems that keep the same only once.
            buffer[..8].copy_from_slice(&(offset | u64::from(number) << 48).to_le_bytes());
            let began = Instant::now();
            file.write_all_at(&buffer, offset).map_err(of_io)?;
            tally.book(segment, began.elapsed());
            offset += segment;
            if file.is_past() {
                tally.past_cache_bytes.fetch_add(segment, Ordering::Relaxed);
            } else if cached.is_full(segment) {
                let began = Instant::now();
                file.sync_data().map_err(|error| failure::of_io("sync", &error))?;
                let took = began.elapsed();
                synced_nanos.fetch_add(nanos(took), Ordering::Relaxed);
                cached.synced(took);
            }
        }
        Ok(())
    })?;
    let began = Instant::now();
    for file in &files {
        file.sync_data().map_err(|error| failure::of_io("sync", &error))?;
    }
    // What each thread waited for on the way, and all of them at the end.
    let on_the_way = synced_nanos.load(Ordering::Relaxed) / u64::from(threads.max(1));
    measured.sync_nanos = nanos(began.elapsed()) + on_the_way;
    measured.past_cache_bytes = Some(tally.past_cache_bytes.load(Ordering::Relaxed));
    Ok(measured)
}

/// What one thread has written into the page cache and not synced: as much as the disk takes in no time, so that little
/// is left when the time is over, however slow it is and however much memory there is.
struct Cached {
    bytes: u64,
    bytes_max: u64,
}

impl Default for Cached {
    fn default() -> Cached {
        Cached { bytes: 0, bytes_max: SEGMENT_BYTES.into() }
    }
}

impl Cached {
    /// After so many more: whether it is time to sync.
    fn is_full(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.bytes >= self.bytes_max
    }

    /// Twice as much the next time, if that was quick; half, if it was slow.
    fn synced(&mut self, took: Duration) {
        self.bytes = 0;
        self.bytes_max = match took {
            took if took < QUICK_SYNC => (self.bytes_max * 2).min(UNSYNCED_BYTES_MAX),
            took if took > SLOW_SYNC => (self.bytes_max / 2).max(SEGMENT_BYTES.into()),
            _ => self.bytes_max,
        };
    }
}

/// How long it takes there to make durable what has arrived, at worst: a segment is written and synced, then a note of
/// it in a file beside it, as streams do before each mark. A few times, for about a second.
///
/// # Errors
/// `NotFound`, `Permission`, `Io` of the place; `Space` where there is no room.
pub fn settle(path: PathBuf, below: Option<Dir>) -> Result<Duration> {
    let of_io = |error: io::Error| failure::of_io("sync", &error);
    let scratch = Scratch::begin(&DestinationPlace { path, below }, SETTLE_BYTES, SETTLE_BYTES)?;
    let directory = scratch.tree()?;
    let plain = |number| ScratchFile::create(&directory, number, Direct::Off).map_err(of_io);
    let (content, notes) = (plain(0)?, plain(1)?);
    let mut buffer = Buffer::new(SEGMENT_BYTES as usize).map_err(of_io)?;
    fill_with_noise(&mut buffer, 1);
    let (since, mut worst) = (Instant::now(), Duration::ZERO);
    for round in 0..SETTLE_ROUNDS {
        let at = u64::from(round);
        content.write_all_at(&buffer, at * buffer.len() as u64).map_err(of_io)?;
        let began = Instant::now();
        content.sync_data().map_err(of_io)?;
        notes.write_all_at(&buffer[..NOTE_BYTES], at * NOTE_BYTES as u64).map_err(of_io)?;
        notes.sync_data().map_err(of_io)?;
        worst = worst.max(began.elapsed());
        if since.elapsed() > SETTLE_TIME {
            break;
        }
    }
    Ok(worst)
}

/// Rounds of [`settle`], at most, and after which time no other begins.
const SETTLE_ROUNDS: u32 = 16;
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// What [`settle`] writes, and about what a note of a few marks has.
const SETTLE_BYTES: u64 = SETTLE_ROUNDS as u64 * (SEGMENT_BYTES as u64 + NOTE_BYTES as u64);
const NOTE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use thalweg_sys::{Advice, DirectAlignment, File, FileSystemKind};
    use thalweg_wire::message::{Disk, DiskSide};

    /// By two threads, in requests of so many bytes, with all the time that it takes.
    fn asked(part: Part, path: &Path, segment_bytes: u32) -> Measure {
        Measure {
            part,
            path: path.to_owned(),
            contents: true,
            below: None,
            bytes_max: 32 << 20,
            time: Duration::from_secs(60),
            threads: 2,
            cipher: Cipher::Aes128Gcm,
            terms: MeasureTerms { chunk_bytes: 4 << 20, segment_bytes, disk: Disk::default() },
        }
    }

    /// Whether a copy reads and writes large files there past the page cache, by itself.
    fn goes_past(dir: &Dir, file: &File) -> bool {
        let kind = dir.file_system().unwrap().kind;
        let assumed = DirectAlignment { memory: 4096, offset: 4096 };
        let has_direct = file.direct_alignment_or(assumed).is_ok_and(|alignment| alignment.is_some());
        matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs) && has_direct
    }

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

    #[test]
    fn as_in_a_copy_noise_is_written_past_the_page_cache_where_that_pays_and_nothing_is_left() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"x", 0o600).unwrap();
        let goes_past = goes_past(&dir, &file);
        dir.remove_file(b"x").unwrap();
        for (direct, is_past) in [(Direct::Auto, goes_past), (Direct::Off, false)] {
            let mut asked = asked(Part::Write, scratch.path(), 1 << 20);
            asked.terms.disk.destination.direct = direct;
            let measured = measure(asked, &|| false).unwrap();
            assert_eq!(measured.bytes, 32 << 20, "all that it may write");
            let past = if is_past { measured.bytes } else { 0 };
            assert_eq!(measured.past_cache_bytes, Some(past), "{direct:?}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
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

    /// A thread that writes into memory, and a disk that takes what is synced, in simulated time.
    #[test]
    fn what_is_left_in_the_page_cache_is_little_for_any_disk() {
        let segment = u64::from(SEGMENT_BYTES);
        for bytes_per_s in [500e3, 5e6, 50e6, 500e6, 5e9] {
            let (mut cached, mut now_s, mut unsynced) = (Cached::default(), 0.0, 0);
            while now_s < 2.0 {
                now_s += segment as f64 / 8e9;
                unsynced += segment;
                if cached.is_full(segment) {
                    let took_s = unsynced as f64 / bytes_per_s;
                    cached.synced(Duration::from_secs_f64(took_s));
                    (now_s, unsynced) = (now_s + took_s, 0);
                }
            }
            let left_s = unsynced as f64 / bytes_per_s;
            let least_s = segment as f64 / bytes_per_s;
            let told = format!("{bytes_per_s} bytes a second: {now_s} s, {left_s} s left");
            assert!(left_s <= f64::max(0.2, least_s) && now_s <= 2.0 + f64::max(0.2, least_s), "{told}");
        }
    }

    #[test]
    fn a_disk_that_becomes_slow_is_given_less() {
        let mut cached = Cached::default();
        for _ in 0..30 {
            cached.synced(Duration::from_millis(1));
        }
        assert_eq!(cached.bytes_max, UNSYNCED_BYTES_MAX);
        for _ in 0..30 {
            cached.synced(Duration::from_secs(1));
        }
        assert_eq!(cached.bytes_max, u64::from(SEGMENT_BYTES));
    }

    #[test]
    fn a_thread_begins_when_as_many_requests_have_ended_as_threads_began_before_it() {
        let tally = Tally::default();
        let waits = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                waits.store(true, Ordering::SeqCst);
                tally.wait_for_turn(3);
                tally.requests.load(Ordering::SeqCst)
            });
            while !waits.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            for _ in 0..3 {
                std::thread::sleep(TURN_POLL * 2);
                tally.book(1, Duration::from_nanos(1));
            }
            one.join().unwrap()
        });
        assert_eq!(seen, 3);
        // Of little work the first threads do all: nobody waits for what they will not do.
        let hour = Duration::from_secs(3600);
        let work = |number| {
            tally.wait_for_turn(number);
            Ok(())
        };
        assert_eq!(tally.run(64, hour, &|| false, work).unwrap().bytes, 3);
    }

    #[test]
    fn where_there_is_memory_for_fewer_threads_there_are_fewer_and_for_none_that_is_said() {
        let of = |most: u16| {
            for_threads(4, |number| match number < most {
                true => Ok(number),
                false => Err(io::ErrorKind::OutOfMemory.into()),
            })
        };
        assert_eq!([9, 2].map(|most| of(most).unwrap().len()), [4, 2]);
        assert_eq!(of(0).err().map(|failure| failure.kind), Some(FailureKind::Space));
    }

    #[test]
    fn no_more_requests_are_in_flight_than_have_ended() {
        let tally = Tally::default();
        let ended = |requests: u64| {
            while tally.requests.load(Ordering::Relaxed) < requests {
                assert!(!tally.may_have_in_flight(2, 4));
                tally.book(1, Duration::from_nanos(1));
            }
        };
        ended(8);
        assert!(tally.may_have_in_flight(2, 4));
    }
}
