//! Requests to a disk, each timed by itself: throughput and latency by size, depth, way and order (004, its
//! `profileparameters.py`).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::content::Content;
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
    /// In all.
    pub bytes: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Timed {
    /// Bytes that were moved before the time was over.
    pub bytes: u64,
    /// All of it, the sync at the end included.
    pub wall_s: f64,
    /// The sync at the end.
    pub sync_s: f64,
    /// Each request.
    pub latencies_s: Vec<f64>,
}

/// No case takes longer, but for the sync at its end.
const TIME_MAX: Duration = Duration::from_secs(3);

impl Load {
    /// Makes the requests to the file `path`, which is written new, or must be there to be read.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` of direct I/O where the file system has none, or is in memory.
    pub fn run(&self, path: &Path) -> io::Result<Timed> {
        let file = self.open(path)?;
        let requests = (self.bytes / self.request_bytes).max(1);
        let next = AtomicU64::new(0);
        let began = Instant::now();
        let each = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.depth).map(|_| scope.spawn(|| self.some(&file, &next, requests, began))).collect();
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
        let latencies_s: Vec<f64> = each.into_iter().flatten().collect();
        Ok(Timed {
            bytes: latencies_s.len() as u64 * self.request_bytes,
            wall_s: wall.as_secs_f64(),
            sync_s: (wall - before_sync).as_secs_f64(),
            latencies_s,
        })
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
            true => file.set_direct(true)?,
            // What is in memory says nothing about the disk.
            false => file.advise(Advice::DontNeed, 0, 0)?,
        }
        if self.writes && self.is_preallocated {
            file.preallocate(0, self.bytes)?;
        }
        Ok(file)
    }

    fn some(&self, file: &File, next: &AtomicU64, requests: u64, began: Instant) -> io::Result<Vec<f64>> {
        let mut buffer = Buffer::new(self.request_bytes as usize)?;
        Content::Noise.fill(1, 0, &mut buffer);
        let mut latencies = Vec::new();
        while began.elapsed() < TIME_MAX {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= requests {
                break;
            }
            let place = if self.is_sequential { number } else { scattered(number, requests) };
            let offset = place * self.request_bytes;
            let asked = Instant::now();
            match self.writes {
                true => file.write_all_at(&buffer, offset)?,
                false => {
                    file.read_at(&mut buffer, offset)?;
                }
            }
            latencies.push(asked.elapsed().as_secs_f64());
        }
        Ok(latencies)
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

    #[test]
    fn what_was_written_is_read_by_as_many_requests() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        let writes = Load {
            writes: true,
            request_bytes: 65_536,
            depth: 3,
            is_direct: false,
            is_sequential: false,
            is_preallocated: true,
            bytes: 10 * 65_536,
        };
        let written = writes.run(&path).unwrap();
        assert_eq!((written.bytes, written.latencies_s.len()), (655_360, 10));
        let read = Load { writes: false, ..writes }.run(&path).unwrap();
        assert_eq!(read.bytes, 655_360);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 655_360);
    }
}
