//! Requests to a disk, each timed by itself: throughput and latency by size, depth, way and order (004, its
//! `profileparameters.py`).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::content::Content;
use thalweg_sys::cpu_time::process_cpu;
use thalweg_sys::{Advice, Buffer, Dir, File, FileSystemKind};

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Written, or read.
    pub writes: bool,
    /// Of a request.
    pub request_bytes: u64,
    /// Requests in flight, a thread for each.
    pub depth: u32,
    /// Past the page cache.
    pub is_direct: bool,
    /// One behind the other, or anywhere.
    pub is_sequential: bool,
    /// Space is reserved before the first write.
    pub is_preallocated: bool,
    /// Of the file.
    pub bytes: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Timed {
    /// Bytes that were moved before the time was over.
    pub bytes: u64,
    /// All passes, the sync at the end of each included.
    pub wall_s: f64,
    /// These syncs.
    pub sync_s: f64,
    /// CPU of this process meanwhile.
    pub cpu_s: f64,
    /// Each request.
    pub latencies_s: Vec<f64>,
}

/// Requests of a case at most: their latencies take 32 MiB, and a P99 is no surer with more.
const REQUESTS_MAX: u64 = 4 << 20;

/// One pass over the file, as its threads see it.
struct Pass<'a> {
    file: &'a File,
    /// Requests that the file has room for, and how many of them are made.
    places: u64,
    most: u64,
    next: AtomicU64,
    began: Instant,
    time: Duration,
    stop: &'a AtomicBool,
}

impl Load {
    /// Makes the requests to the file `path`, which is written new, or must be there to be read, in passes: over all of
    /// it, and over it again until `time` is over, 4 Mi requests are made, or somebody asks to stop. Each pass begins
    /// like the first: what is written is a new file, and of what is read through the page cache nothing is in it.
    /// That takes time as well, which is not counted.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` of direct I/O where the file system has none, or is in memory. One that has
    /// it refuses requests that are smaller than it takes with `InvalidInput`.
    pub fn run(&self, path: &Path, time: Duration, stop: &AtomicBool) -> io::Result<Timed> {
        let (mut buffers, mut timed) = (self.buffers()?, Timed::default());
        loop {
            let left = time.saturating_sub(Duration::from_secs_f64(timed.wall_s));
            self.pass(path, &mut buffers, (left, stop), &mut timed)?;
            let is_full = timed.latencies_s.len() as u64 >= REQUESTS_MAX;
            if is_full || timed.wall_s >= time.as_secs_f64() || stop.load(Ordering::Relaxed) {
                return Ok(timed);
            }
        }
    }

    /// The same in one pass, which ends before all of it is done when `time` is over.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn once(&self, path: &Path, time: Duration, stop: &AtomicBool) -> io::Result<Timed> {
        let mut timed = Timed::default();
        self.pass(path, &mut self.buffers()?, (time, stop), &mut timed)?;
        Ok(timed)
    }

    /// One for each thread, filled before anything is timed.
    fn buffers(&self) -> io::Result<Vec<Buffer>> {
        let one = |_| -> io::Result<Buffer> {
            let mut buffer = Buffer::new(self.request_bytes as usize)?;
            Content::Noise.fill(1, 0, &mut buffer);
            Ok(buffer)
        };
        (0..self.depth).map(one).collect()
    }

    fn pass(
        &self,
        path: &Path,
        buffers: &mut [Buffer],
        (time, stop): (Duration, &AtomicBool),
        timed: &mut Timed,
    ) -> io::Result<()> {
        let file = self.open(path)?;
        let places = (self.bytes / self.request_bytes).max(1);
        let most = places.min(REQUESTS_MAX - timed.latencies_s.len() as u64);
        let (next, cpu, began) = (AtomicU64::new(0), process_cpu(), Instant::now());
        let pass = &Pass { file: &file, places, most, next, began, time, stop };
        let each = std::thread::scope(|scope| {
            let threads: Vec<_> =
                buffers.iter_mut().map(|buffer| scope.spawn(move || self.requests(pass, buffer))).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))));
            joined.collect::<io::Result<Vec<Vec<f64>>>>()
        })?;
        let before_sync = began.elapsed();
        if self.writes {
            file.sync_data()?;
        }
        let wall = began.elapsed();
        timed.latencies_s.extend(each.into_iter().flatten());
        timed.bytes = timed.latencies_s.len() as u64 * self.request_bytes;
        timed.wall_s += wall.as_secs_f64();
        timed.sync_s += (wall - before_sync).as_secs_f64();
        timed.cpu_s += (process_cpu() - cpu).as_secs_f64();
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let odd = || io::Error::from(io::ErrorKind::InvalidInput);
        let directory = Dir::open(path.parent().ok_or_else(odd)?)?;
        let name = path.file_name().ok_or_else(odd)?.as_encoded_bytes();
        if self.is_direct && directory.file_system()?.kind == FileSystemKind::Tmpfs {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is in memory"));
        }
        let file = match self.writes {
            true => {
                let _ = directory.remove_file(name);
                directory.create_new(name, 0o600)?
            }
            false => directory.open_read(name)?,
        };
        match self.is_direct {
            true => file.set_direct(true).map_err(without_direct)?,
            // What is in memory says nothing about the disk.
            false => file.advise(Advice::DontNeed, 0, 0)?,
        }
        if self.writes && self.is_preallocated {
            file.preallocate(0, self.bytes)?;
        }
        Ok(file)
    }

    /// Those of one thread: one at least, if there is one left.
    fn requests(&self, pass: &Pass<'_>, buffer: &mut Buffer) -> io::Result<Vec<f64>> {
        let mut latencies = Vec::new();
        loop {
            let number = pass.next.fetch_add(1, Ordering::Relaxed);
            if number >= pass.most {
                break;
            }
            let place = if self.is_sequential { number } else { scattered(number, pass.places) };
            let offset = place * self.request_bytes;
            let asked = Instant::now();
            match self.writes {
                true => pass.file.write_all_at(buffer, offset)?,
                false => {
                    pass.file.read_at(buffer, offset)?;
                }
            }
            latencies.push(asked.elapsed().as_secs_f64());
            if pass.began.elapsed() >= pass.time || pass.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(latencies)
    }
}

/// Why a file cannot be gone past the page cache at all: the kernel has the same number for that as for a request that
/// is too small.
fn without_direct(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput => io::Error::new(io::ErrorKind::Unsupported, error),
        _ => error,
    }
}

/// Number `number` of an order of 0 to `of` in which neighbours are far apart: steps of about a golden section, made
/// coprime to `of`, so that each comes once.
fn scattered(number: u64, of: u64) -> u64 {
    let mut step = (of as f64 * 0.618_033_988_749_895) as u64 | 1;
    while greatest_common_divisor(step, of) != 1 {
        step += 2;
    }
    (u128::from(number) * u128::from(step) % u128::from(of)) as u64
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_refuses_direct_io_is_told_from_one_that_refuses_a_request() {
        let kind = |kind: io::ErrorKind| without_direct(kind.into()).kind();
        assert_eq!(kind(io::ErrorKind::InvalidInput), io::ErrorKind::Unsupported);
        assert_eq!(kind(io::ErrorKind::PermissionDenied), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_scattered_order_has_each_place_once_and_neighbours_far_apart() {
        for of in [1, 2, 3, 10, 64, 100, 1023] {
            let mut places: Vec<u64> = (0..of).map(|number| scattered(number, of)).collect();
            if of >= 10 {
                assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1), "{of}");
            }
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..of), "{of}");
        }
    }

    const WRITES: Load = Load {
        writes: true,
        request_bytes: 65_536,
        depth: 3,
        is_direct: false,
        is_sequential: false,
        is_preallocated: true,
        bytes: 10 * 65_536,
    };
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_was_written_is_read_by_as_many_requests() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, never) = (scratch.path().join("file"), AtomicBool::new(false));
        let written = WRITES.once(&path, HOUR, &never).unwrap();
        assert_eq!((written.bytes, written.latencies_s.len()), (655_360, 10));
        let read = Load { writes: false, ..WRITES }.once(&path, HOUR, &never).unwrap();
        assert_eq!(read.bytes, 655_360);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 655_360);
    }

    #[test]
    fn a_file_is_gone_over_again_until_the_time_is_over_and_does_not_grow() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, never) = (scratch.path().join("file"), AtomicBool::new(false));
        let one = Load { bytes: 65_536, ..WRITES };
        for load in [one, Load { writes: false, ..one }, Load { is_preallocated: false, ..one }] {
            let time = Duration::from_millis(200);
            let timed = load.run(&path, time, &never).unwrap();
            let count = timed.latencies_s.len();
            assert!(timed.wall_s >= time.as_secs_f64(), "{} s", timed.wall_s);
            // A disk may be busy for so long with the first sync; nothing is synced after reading.
            assert!(count > 1 || load.writes, "{count}");
            assert_eq!(timed.bytes, count as u64 * 65_536);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 65_536);
        }
    }

    #[test]
    fn who_asks_to_stop_does_not_wait_for_the_time_and_however_little_there_is_one_request_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, now) = (scratch.path().join("file"), AtomicBool::new(true));
        let stopped = WRITES.run(&path, HOUR, &now).unwrap();
        assert!((1..=3).contains(&stopped.latencies_s.len()), "{}", stopped.latencies_s.len());
        let hurried = WRITES.run(&path, Duration::from_nanos(1), &AtomicBool::new(false)).unwrap();
        assert!((1..=3).contains(&hurried.latencies_s.len()), "{}", hurried.latencies_s.len());
    }
}
