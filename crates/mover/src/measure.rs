//! One part of a transfer alone, on this machine: how fast it reads, digests, seals, opens, writes when nothing else of
//! the transfer is there. Bounded in time, threads, memory and bytes; nothing of it is left behind.
//!
//! - *Read*: what a place holds, in the order of a scan, each thread the next segment. What was not in the page cache
//!   before is not in it afterwards ([`SparingSource`]). Where the place holds less than the time would take, it is
//!   read once.
//! - *Digest, seal, open*: one segment of noise, in the cache of a core.
//! - *Write*: noise, into a file for each thread, in a directory that goes with the measurement ([`Scratch`]); past the
//!   page cache where the engine writes that way. Then the sync, with a time of its own.
//!
//! The rate is bytes x threads / busy time: the same as bytes / wall time where the threads do nothing else.

use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::staging::scratch::Scratch;
use crate::endpoint::local::{LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::synthetic::fill_with_noise;
use crate::endpoint::{ScanSink, Source, SourceFile};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::filter::Filter;
use crate::link::sealed::{Opener, SECRET_BYTES, Sealer};
use crate::mutex::lock;
use crate::plan::{IO_DEPTH, SEGMENT_BYTES};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use thalweg_sys::{Buffer, Dir, File, FileSystemKind};
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Direct, Measured, Part, Preserve};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath, digest, limits};

/// Over so long each rate of the series is taken.
const SLICE: Duration = Duration::from_millis(100);
/// Files that the scan is ahead of the readers.
const FILES_AHEAD: usize = 64;
/// Bytes that are written at most, and at least, for a rate to say anything.
const WRITE_BYTES_MAX: u64 = 4 << 30;
/// Bytes: where fewer may be written, nothing is.
pub const WRITE_BYTES_MIN: u64 = 16 << 20;
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

fn compute(asked: &Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let tally = Tally::default();
    tally.run(asked.threads, asked.time, is_over, |_| {
        let mut segment = vec![0; SEGMENT_BYTES as usize + TAG_BYTES];
        fill_with_noise(&mut segment[..SEGMENT_BYTES as usize], 0);
        let cipher = if asked.cipher == Cipher::Tls { Cipher::Aes128Gcm } else { asked.cipher };
        let secret = [7; SECRET_BYTES];
        let mut sealer = Sealer::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let mut opener = Opener::new(cipher, &secret, limits::KEY_BYTES_MAX)?;
        let outer = [0; OUTER_BYTES];
        let plain = SEGMENT_BYTES as usize;
        // Once at least, though a busy machine may give this thread a core only when the time is over.
        loop {
            let mut began = Instant::now();
            if asked.part == Part::Digest {
                std::hint::black_box(digest::of_piece(0, &segment[..plain], u64::from(SEGMENT_BYTES)));
            } else {
                let tag = sealer.seal(&outer, &mut segment[..plain])?;
                if asked.part == Part::Open {
                    segment[plain..].copy_from_slice(&tag);
                    began = Instant::now();
                    std::hint::black_box(opener.open(&outer, &mut segment)?);
                }
            }
            tally.book(u64::from(SEGMENT_BYTES), began.elapsed());
            if tally.is_over() {
                return Ok(());
            }
        }
    })
}

/// Files of a scan, each with its segments handed out one after the other.
struct Work {
    files: mpsc::Receiver<Entry>,
    now: Option<(Arc<dyn SourceFile>, u64, u64)>,
}

fn read(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
    let root = SourceRoot { path: asked.path, contents: asked.contents, below: asked.below };
    let options = ScanOptions {
        filter: Filter::new(Vec::new())?,
        only: Vec::new(),
        preserve: Preserve { owner: false, xattrs: false, ..Preserve::default() },
        one_file_system: false,
        follow_links: false,
        part: None,
        direct: Direct::Auto,
    };
    let source = SparingSource::new(Arc::new(LocalSource::open(vec![root], options)?), u64::MAX);
    let tally = Tally::default();
    let (sender, files) = mpsc::sync_channel(FILES_AHEAD);
    let work = Mutex::new(Work { files, now: None });
    let says_cached = AtomicBool::new(true);
    let refused: Refused = Mutex::default();
    let mut measured = std::thread::scope(|scope| {
        let scan =
            scope.spawn(|| source.scan(&mut Files { sender, tally: &tally, refused: &refused, next: 1 }));
        let result = tally.run(asked.threads, asked.time, is_over, |number| {
            let mut buffer = vec![0; SEGMENT_BYTES as usize];
            tally.wait_for_turn(number);
            while !tally.is_over() {
                let began = Instant::now();
                let Some((file, offset)) = next(&work, &source, &tally, &says_cached, &refused)? else {
                    return Ok(());
                };
                let read = file.read_at(&mut buffer, offset);
                let read = read.map_err(|error| failure::of_io("read", &error))?;
                // The last one to let go of it closes it, which is part of the work.
                drop(file);
                tally.book(read as u64, began.elapsed());
            }
            Ok(())
        });
        // Lets a scan that waits for room go on to its end.
        tally.is_over.store(true, Ordering::Relaxed);
        drop(work);
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
    Ok(measured)
}

/// The next segment. A file that cannot be opened is passed over, as a copy would: what can be read is measured.
fn next(
    work: &Mutex<Work>,
    source: &SparingSource,
    tally: &Tally,
    says_cached: &AtomicBool,
    refused: &Refused,
) -> Result<Option<(Arc<dyn SourceFile>, u64)>> {
    let mut work = work.lock().unwrap_or_else(|p| p.into_inner());
    loop {
        if let Some((file, offset, bytes)) = &mut work.now
            && *offset < *bytes
        {
            let at = *offset;
            *offset += u64::from(SEGMENT_BYTES);
            return Ok(Some((file.clone(), at)));
        }
        work.now = None;
        let Ok(entry) = work.files.recv() else { return Ok(None) };
        let file = match source.open(&entry) {
            Ok(file) => file,
            Err(failure) => {
                note(refused, failure);
                continue;
            }
        };
        match file.cached_bytes() {
            Some(cached) => drop(tally.cached_bytes.fetch_add(cached, Ordering::Relaxed)),
            None => says_cached.store(false, Ordering::Relaxed),
        }
        tally.items.fetch_add(1, Ordering::Relaxed);
        work.now = Some((file, 0, entry.evidence.size));
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
    let place = DestinationPlace { path: asked.path, below: asked.below };
    let scratch = Scratch::begin(&place, asked.bytes_max.min(WRITE_BYTES_MAX), WRITE_BYTES_MIN)?;
    let (directory, bytes_max) = (scratch.tree()?, scratch.bytes_max);
    let kind = directory.file_system().map_err(of_io)?.kind;
    let is_past = matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs);
    // As many as the engine has under way: past the page cache several for each stream.
    let depth = if is_past { IO_DEPTH } else { 1 };
    let threads = asked.threads.saturating_mul(depth).min(limits::MEASURE_THREADS_MAX);
    let files = (0..threads)
        .map(|number| nameless(&directory, number, is_past))
        .collect::<io::Result<Vec<(File, bool)>>>()
        .map_err(of_io)?;
    let (tally, synced_nanos) = (Tally::default(), AtomicU64::new(0));
    // Taken before it is written: all threads together stay within the room.
    let (taken, segment) = (AtomicU64::new(0), u64::from(SEGMENT_BYTES));
    let has_room = || taken.fetch_add(segment, Ordering::Relaxed) + segment <= bytes_max;
    let mut measured = tally.run(threads, asked.time, is_over, |number| {
        let (file, is_direct) = &files[usize::from(number)];
        let mut buffer = Buffer::new(SEGMENT_BYTES as usize).map_err(of_io)?;
        let mut offset = 0;
        let mut cached = (!is_direct).then(Cached::default);
        fill_with_noise(&mut buffer, u64::from(number) << 40);
        tally.wait_for_turn(number);
        while !tally.is_over() && has_room() {
            // No two are the same, for file systems that keep the same only once.
            buffer[..8].copy_from_slice(&(offset | u64::from(number) << 48).to_le_bytes());
            let began = Instant::now();
            file.write_all_at(&buffer, offset).map_err(of_io)?;
            tally.book(buffer.len() as u64, began.elapsed());
            offset += buffer.len() as u64;
            if cached.as_mut().is_some_and(|cached| cached.is_full(buffer.len() as u64)) {
                let began = Instant::now();
                file.sync_data().map_err(|error| failure::of_io("sync", &error))?;
                let took = began.elapsed();
                synced_nanos.fetch_add(nanos(took), Ordering::Relaxed);
                cached.iter_mut().for_each(|cached| cached.synced(took));
            }
        }
        Ok(())
    })?;
    let began = Instant::now();
    for (file, _) in &files {
        file.sync_data().map_err(|error| failure::of_io("sync", &error))?;
    }
    // What each thread waited for on the way, and all of them at the end.
    let on_the_way = synced_nanos.load(Ordering::Relaxed) / u64::from(threads.max(1));
    measured.sync_nanos = nanos(began.elapsed()) + on_the_way;
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
    let plain = |number| nameless(&directory, number, false).map(|(file, _)| file).map_err(of_io);
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

/// A file without a name, and whether it is written past the page cache.
fn nameless(directory: &Dir, number: u16, is_past: bool) -> io::Result<(File, bool)> {
    let name = number.to_string();
    let file = directory.create_new(name.as_bytes(), 0o600)?;
    directory.remove_file(name.as_bytes())?;
    // Where it is refused: through the page cache.
    let is_direct = is_past && file.direct_alignment()?.is_some() && file.set_direct(true).is_ok();
    Ok((file, is_direct))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::Advice;

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
        let asked = Measure {
            part: Part::Read,
            path: scratch.path().to_owned(),
            contents: true,
            below: None,
            bytes_max: u64::MAX,
            time: Duration::from_secs(60),
            threads: 2,
            cipher: Cipher::Aes128Gcm,
        };
        let measured = measure(asked, &|| false).unwrap();
        assert_eq!((measured.bytes, measured.items), (2 * BYTES, 2));
        let (out, there) = (cached(&out), cached(&there));
        assert!(out <= 1 << 20, "{out} bytes of {BYTES} are left of what was not there");
        assert!(stays(there), "{there} bytes of {BYTES} are left of what was there");
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
}
