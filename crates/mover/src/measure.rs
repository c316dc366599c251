//! One part of a transfer alone, on this machine: how fast it reads, digests, seals, opens, writes when nothing else of
//! the transfer is there. Bounded in time, threads, bytes and memory, which is that of a copy with as many streams;
//! nothing of it is left behind.
//!
//! What is done stands in a file for each, with what of it is not as in a copy; here is what they share: threads that
//! begin one after the other, and the rates that are taken of them.
//!
//! The rate is bytes x threads / busy time: the same as bytes / wall time where the threads do nothing else.

mod read;

mod compute;

mod write;

mod settle;

pub use settle::settle;
pub use write::WRITE_BYTES_MIN;

use crate::failure::{self, Failure, Result};
use crate::mutex::lock;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_sys::Dir;
use thalweg_wire::hello::Cipher;
use thalweg_wire::limits;
use thalweg_wire::message::{MeasureTerms, Measured, Part};

/// Over so long each rate of the series is taken.
const SLICE: Duration = Duration::from_millis(100);
/// Between two looks whether a thread may begin.
const TURN_POLL: Duration = Duration::from_millis(1);

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
        Part::Read => read::read(asked, is_over),
        Part::Write => write::write(asked, is_over),
        Part::Digest | Part::Seal | Part::Open => compute::compute(&asked, is_over),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use std::path::Path;
    use thalweg_sys::{DirectAlignment, File, FileSystemKind};
    use thalweg_wire::message::Disk;

    /// By two threads, in requests of so many bytes, with all the time that it takes.
    pub(super) fn asked(part: Part, path: &Path, segment_bytes: u32) -> Measure {
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
    pub(super) fn goes_past(dir: &Dir, file: &File) -> bool {
        let kind = dir.file_system().unwrap().kind;
        let assumed = DirectAlignment { memory: 4096, offset: 4096 };
        let has_direct = file.direct_alignment_or(assumed).is_ok_and(|alignment| alignment.is_some());
        matches!(kind, FileSystemKind::Ext4 | FileSystemKind::Xfs) && has_direct
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
