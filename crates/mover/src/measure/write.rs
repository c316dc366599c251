//! Writing alone: noise, into files in a directory that goes with the measurement ([`Scratch`]); past the page cache or
//! through it as the engine would write them, as many in flight. Then the sync, with a time of its own.
//!
//! Not as in a copy: each of the writes in flight is of a thread and a file of its own.

use super::{Measure, Tally, for_threads, nanos};
use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::staging::scratch::{Scratch, ScratchFile};
use crate::endpoint::synthetic::fill_with_noise;
use crate::endpoint::together::depth_of;
use crate::failure::{self, Result};
use crate::mutex::lock;
use crate::plan::SEGMENT_BYTES;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_sys::Buffer;
use thalweg_wire::limits;
use thalweg_wire::message::{MeasureTerms, Measured};

/// Bytes that are written at most, and at least, for a rate to say anything.
const WRITE_BYTES_MAX: u64 = 4 << 30;
/// Bytes: where fewer may be written, nothing is.
pub const WRITE_BYTES_MIN: u64 = 16 << 20;
/// Bytes that a thread reserves at once before it writes them past the page cache.
const RESERVED_BYTES: u64 = 16 << 20;
/// A sync that takes less says that more may be written before the next one; one that takes more, that less may.
const QUICK_SYNC: Duration = Duration::from_millis(50);
const SLOW_SYNC: Duration = Duration::from_millis(200);
/// What a thread has in the page cache at most.
const UNSYNCED_BYTES_MAX: u64 = 256 << 20;

pub(super) fn write(asked: Measure, is_over: &dyn Fn() -> bool) -> Result<Measured> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measure;
    use crate::measure::tests::{asked, goes_past};
    use thalweg_sys::Dir;
    use thalweg_wire::message::{Direct, Part};

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
}
