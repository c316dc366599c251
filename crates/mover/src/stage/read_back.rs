//! Reads back what was synced: has the medium what was verified?
//!
//! 1. Of chunks several requests are in flight, past the page cache where that can be had. The thread that made them
//!    digests what came, while it is in cache and the others are on their way.
//! 2. Staged files are read as a whole, several at once.
//!
//! Memory of requests comes from a bounded pool. Where that has none left, a request waits for another one; where none
//! is in flight either, a segment is read and waited for. That one, once in a round, is beside what the process may
//! have for buffers. A staged file takes a buffer of at most 1 MiB of that, whatever its size.
//!
//! Caches are told to forget an entry before the first of its reads in a round. Where the file system refuses a read
//! past the page cache, the rest of that entry is read alone, through it.
//!
//! Not here: what is damaged is told, and not sent again.

use crate::endpoint::is_direct_refused;
use crate::endpoint::together::{TOGETHER_MAX, depth_of, queue_for};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::plan::SEGMENT_BYTES;
use crate::several::at_once;
use crate::stage::receiving::{OpenPartial, Receiving};
use crate::stage::{Booking, Clocks, Stage, UnderWay};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use thalweg_sys::queue::Operation;
use thalweg_sys::{Buffer, Done, File, Memory, Pool, PooledBuffer, Queue, Request};
use thalweg_wire::message::{Disk, Order, Terms};
use thalweg_wire::{Digest, EntryId, digest};

/// Bytes of a request, unless those of the transfer are larger, or smaller than usual. Its memory is a huge page: a
/// disk that reads 20 Gbit/s by such requests reads 8 by those of 256 KiB, however many (docs/measurements.md, disks).
const REQUEST_BYTES: u64 = 1 << 20;
/// Memory of what one transfer reads back at once: as much as for its writes in flight.
const AT_ONCE_BYTES_MAX: usize = 64 << 20;

/// What reading back showed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Chunks (0 of a staged file) that are not what they must be, by entry and chunk.
    pub damaged: Vec<(EntryId, u64)>,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Chunks of entries, and the digests that they must have.
pub type Chunks = [(EntryId, Vec<(u64, Digest)>)];

/// Reads chunks of partials and staged files back, which must have these digests.
///
/// # Errors
/// What the kernel says: nothing of the round may be believed.
pub fn read_back(run: &dyn Receiving, chunks: &Chunks, files: &[(EntryId, Digest)]) -> Result<Found> {
    let terms = run.terms();
    let bytes = request_bytes(terms) as usize;
    // Takes nothing yet.
    let pool = Pool::new(bytes, at_once_max(&terms.disk, bytes))
        .map_err(|error| failure::of_memory("read back", &error))?;
    run.accounts().work_with(Stage::ReadBack, 1);
    let found = of_chunks(run, chunks, &pool).and_then(|mut found| {
        // What it keeps others may want.
        drop(pool);
        of_files(run, files, &mut found)?;
        // They end in any order.
        found.damaged.sort_unstable();
        Ok(found)
    });
    run.accounts().work_with(Stage::ReadBack, 0);
    found
}

fn request_bytes(terms: &Terms) -> u64 {
    let bytes = u64::from(terms.segment_bytes);
    match terms.segment_bytes < SEGMENT_BYTES {
        // There is a reason: it was asked for, or memory or the rate is small.
        true => bytes,
        false => bytes.max(REQUEST_BYTES.min(terms.chunk_bytes)),
    }
}

/// Reads at once, of so many bytes each.
fn at_once_max(disk: &Disk, bytes: usize) -> usize {
    let depth = if disk.destination.order == Some(Order::Serial) { 1 } else { depth_of(disk) };
    depth.min(AT_ONCE_BYTES_MAX / Buffer::memory_bytes(bytes)).max(1)
}

/// Reads chunks back, as many requests of as many bytes at once as the pool has buffers.
pub(super) fn of_chunks(run: &dyn Receiving, chunks: &Chunks, pool: &Pool) -> Result<Found> {
    let mut reads = Reads {
        terms: run.terms(),
        pool,
        queue: None,
        under_way: run.accounts().under_way(Stage::ReadBack),
        is_alone: false,
        chunks: Vec::new(),
        next: 0,
        segment: Vec::new(),
        found: Found::default(),
    };
    for (id, chunks) in chunks {
        let Some(file) = run.partial(*id) else { continue };
        // By their place: they were written in any order.
        let mut chunks = chunks.clone();
        chunks.sort_unstable();
        let mut is_expected = false;
        for (chunk, digest) in chunks {
            match file.partial.is_checked(chunk) {
                Some(true) => {}
                Some(false) => reads.found.damaged.push((*id, chunk)),
                None => {
                    if !std::mem::replace(&mut is_expected, true) {
                        file.partial.expect_read_back();
                    }
                    reads.begin(&file, chunk, digest)?;
                }
            }
        }
    }
    while reads.take()? {}
    Ok(reads.found)
}

/// The reads of one round.
struct Reads<'a> {
    terms: &'a Terms,
    pool: &'a Pool,
    /// Made when it is first needed.
    queue: Option<Queue>,
    /// What of it is in flight.
    under_way: UnderWay,
    /// There is neither a ring nor a thread to be had.
    is_alone: bool,
    /// Those under way: few enough to be looked through.
    chunks: Vec<Chunk>,
    next: u64,
    /// For what is not in flight: of a segment, beside what this process may have for buffers.
    segment: Vec<u8>,
    found: Found,
}

struct Chunk {
    number: u64,
    file: OpenPartial,
    chunk: u64,
    /// Where it begins, and behind its last byte.
    start: u64,
    end: u64,
    /// As it was verified.
    expected: Digest,
    /// Of its segments, as far as they came.
    digests: Vec<Digest>,
    /// Requests that did not end, and one while they are being made.
    left: usize,
    /// Something of it is not there.
    is_short: bool,
}

impl Reads<'_> {
    fn begin(&mut self, file: &OpenPartial, chunk: u64, expected: Digest) -> Result<()> {
        let rule = &file.rule;
        let start = chunk * self.terms.chunk_bytes;
        let length = digest::chunk_length(chunk, rule.file_bytes, self.terms.chunk_bytes);
        let (end, segments) = (start + length, length.div_ceil(rule.segment_bytes).max(1));
        let number = self.next;
        self.next += 1;
        let mut begun = Chunk {
            number,
            file: file.clone(),
            chunk,
            start,
            end,
            expected,
            digests: vec![Digest::default(); segments as usize],
            left: 1,
            is_short: false,
        };
        if length == 0 {
            begun.came(start, 0, &[]);
        }
        self.chunks.push(begun);
        let mut at = start;
        while at < end {
            let bytes = (self.pool.buffer_bytes() as u64).min(end - at);
            match self.lend(file, at, bytes)? {
                Some(lent) => self.push(number, at, lent)?,
                None => self.read_alone(number, at, bytes)?,
            }
            at += bytes;
        }
        self.rest(number);
        Ok(())
    }

    /// What a request for these bytes needs; waits for others until there is room for it. `None` if it cannot be in
    /// flight.
    fn lend(&mut self, file: &OpenPartial, at: u64, bytes: u64) -> Result<Option<Lent>> {
        let Some((from, alignment)) = file.partial.to_read_back(at, bytes) else { return Ok(None) };
        let unit = u64::from(alignment.offset);
        // What is beyond the end of the file is not read.
        let whole = bytes.next_multiple_of(unit) as usize;
        if whole > self.pool.buffer_bytes() || !at.is_multiple_of(unit) {
            return Ok(None);
        }
        if self.queue.is_none() && !self.is_alone {
            self.queue = queue_for(&self.terms.disk, self.pool.count_max());
            self.is_alone = self.queue.is_none();
        }
        let memory = loop {
            let Some(queue) = &self.queue else { return Ok(None) };
            if !queue.is_full()
                && let Some(memory) = self.pool.take(Duration::ZERO)
            {
                break memory;
            }
            if !self.take()? {
                return Ok(None);
            }
        };
        let fits = (memory.as_ptr() as usize).is_multiple_of(alignment.memory as usize);
        Ok(fits.then_some(Lent { file: from, memory, bytes: whole }))
    }

    fn push(&mut self, number: u64, offset: u64, lent: Lent) -> Result<()> {
        let (Some(queue), Some(chunk)) = (&mut self.queue, by_number(&mut self.chunks, number)) else {
            return Ok(());
        };
        let Lent { file, memory, bytes } = lent;
        let memory = Memory::Pooled(memory);
        let request =
            Request { operation: Operation::Read, file, memory, start: 0, bytes, offset, tag: number };
        chunk.left += 1;
        match queue.push(request) {
            Ok(()) => {
                self.under_way.set(queue.in_flight());
                Ok(())
            }
            Err((error, request)) => self.ended(&Done { request, result: Err(error) }),
        }
    }

    /// Waits for one of those in flight, and digests it. False if there is none.
    fn take(&mut self) -> Result<bool> {
        match self.queue.as_mut().and_then(|queue| queue.take(true)) {
            Some(done) => {
                self.under_way.set(self.queue.as_ref().map_or(0, Queue::in_flight));
                self.ended(&done).map(|()| true)
            }
            None => Ok(false),
        }
    }

    fn ended(&mut self, done: &Done) -> Result<()> {
        let Done { request, result } = done;
        let Some(chunk) = by_number(&mut self.chunks, request.tag) else { return Ok(()) };
        let bytes = (self.pool.buffer_bytes() as u64).min(chunk.end - request.offset);
        let read = match result {
            Ok(read) => (*read).min(bytes as usize),
            // The file system takes no direct I/O after all, or has no memory for it.
            Err(error) if is_direct_refused(error) => {
                chunk.file.partial.refuse_direct_reads();
                self.read_alone(request.tag, request.offset, bytes)?;
                self.rest(request.tag);
                return Ok(());
            }
            Err(error) => return Err(chunk.failed(error, request.offset, bytes)),
        };
        chunk.came(request.offset, bytes, &request.memory[..read]);
        self.found.bytes = self.found.bytes.saturating_add(read as u64);
        self.rest(request.tag);
        Ok(())
    }

    /// Reads segment by segment, and waits for each.
    fn read_alone(&mut self, number: u64, at: u64, bytes: u64) -> Result<()> {
        let Some(chunk) = by_number(&mut self.chunks, number) else { return Ok(()) };
        let segment_bytes = chunk.file.rule.segment_bytes;
        self.segment.resize(segment_bytes as usize, 0);
        let (mut from, end) = (at, at + bytes);
        while from < end {
            let want = segment_bytes.min(end - from);
            let buffer = &mut self.segment[..want as usize];
            let read = match chunk.file.partial.read_back(buffer, from) {
                Ok(read) => read,
                Err(error) => return Err(chunk.failed(&error, from, want)),
            };
            chunk.came(from, want, &buffer[..read]);
            self.found.bytes = self.found.bytes.saturating_add(read as u64);
            from += want;
        }
        Ok(())
    }

    /// A request of a chunk has ended, or all of them are made: if none is left, it is good or not.
    fn rest(&mut self, number: u64) {
        let Some(index) = self.chunks.iter().position(|chunk| chunk.number == number) else { return };
        self.chunks[index].left -= 1;
        if self.chunks[index].left == 0 {
            let chunk = self.chunks.swap_remove(index);
            if !chunk.is_good() {
                self.found.damaged.push((chunk.file.entry.id, chunk.chunk));
            }
        }
    }
}

fn by_number(chunks: &mut [Chunk], number: u64) -> Option<&mut Chunk> {
    chunks.iter_mut().find(|chunk| chunk.number == number)
}

impl Chunk {
    /// What was read of the `want` bytes at `at`, where a segment begins.
    fn came(&mut self, at: u64, want: u64, bytes: &[u8]) {
        let rule = &self.file.rule;
        let first = ((at - self.start) / rule.segment_bytes) as usize;
        let count = want.div_ceil(rule.segment_bytes).max(1) as usize;
        let mut rest = bytes;
        for (index, digest) in self.digests.iter_mut().enumerate().skip(first).take(count) {
            let offset = self.start + index as u64 * rule.segment_bytes;
            let (segment, behind) = rest.split_at(rest.len().min(rule.segment_bytes as usize));
            match rule.segment(offset, segment) {
                Some(found) => *digest = found,
                // Shorter than it must be.
                None => self.is_short = true,
            }
            rest = behind;
        }
    }

    /// No digest matches a chunk of which something is missing.
    fn is_good(&self) -> bool {
        let is_whole_file = self.chunk == 0 && self.end - self.start == self.file.rule.file_bytes;
        !self.is_short && digest::join(&self.digests, is_whole_file) == self.expected
    }

    fn failed(&self, error: &io::Error, at: u64, bytes: u64) -> Failure {
        failure::of_io("read back", error).at(&self.file.entry.path).in_range(at, at + bytes)
    }
}

/// For one request.
struct Lent {
    file: Arc<File>,
    memory: PooledBuffer,
    /// Whole blocks, from the start of the memory.
    bytes: usize,
}

fn of_files(run: &dyn Receiving, files: &[(EntryId, Digest)], found: &mut Found) -> Result<()> {
    let terms = run.terms();
    // Each has a buffer of its own. Where memory is bounded there is room for one, as streams have left it.
    let threads = match thalweg_sys::buffer::allowed() {
        Some(_) => 1,
        None => at_once_max(&terms.disk, terms.segment_bytes as usize).min(TOGETHER_MAX),
    };
    // All book their CPU time, and the round the time that it waited for them: who judges that goes by their number.
    run.accounts().work_with(Stage::ReadBack, threads.min(files.len()));
    let asking = thread::current().id();
    let is_over = AtomicBool::new(false);
    let read = |&(id, digest): &(EntryId, Digest)| -> Result<Option<(u64, bool)>> {
        let staged = if is_over.load(Ordering::Relaxed) { None } else { run.staged(id) };
        let Some((entry, staged)) = staged else { return Ok(None) };
        let (bytes, began) = (entry.evidence.size, Clocks::read());
        let read = run.destination().read_staged_back(&staged, bytes);
        // The asking thread books its own with the round.
        if thread::current().id() != asking {
            let (_, cpu) = Clocks::read().since(began);
            run.accounts().book(Stage::ReadBack, Booking { cpu, ..Booking::default() });
        }
        match read {
            Ok(found) => Ok(Some((bytes, found == digest))),
            Err(failure) if matches!(failure.kind, FailureKind::Io | FailureKind::Space) => {
                is_over.store(true, Ordering::Relaxed);
                Err(failure.at(&entry.path))
            }
            // Not the disk's fault: it is sent again, a bounded number of times, and then fails alone.
            Err(failure) => {
                let failure = failure.at(&entry.path);
                tracing::warn!(%failure, "a file cannot be read back and is sent again");
                Ok(Some((0, false)))
            }
        }
    };
    for (&(id, _), read) in files.iter().zip(at_once("read back", threads, files, read)) {
        let Some((bytes, is_good)) = read? else { continue };
        found.bytes = found.bytes.saturating_add(bytes);
        if !is_good {
            found.damaged.push((id, 0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::DiskSide;

    #[test]
    fn requests_are_large_unless_those_of_the_transfer_are_smaller_than_usual() {
        let bytes = |chunk_bytes, segment_bytes| request_bytes(&Terms::of(chunk_bytes, segment_bytes));
        assert_eq!(bytes(4 << 20, SEGMENT_BYTES), REQUEST_BYTES);
        assert_eq!(bytes(4 << 20, 64 << 10), 64 << 10);
        assert_eq!(bytes(512 << 10, SEGMENT_BYTES), 512 << 10);
        assert_eq!(bytes(8 << 20, 8 << 20), 8 << 20);
    }

    #[test]
    fn as_many_are_in_flight_as_the_disk_may_have_within_a_bound_of_memory() {
        let at_once = |depth, order, bytes| {
            let destination = DiskSide { order, ..DiskSide::default() };
            at_once_max(&Disk { depth, destination, ..Disk::default() }, bytes)
        };
        assert_eq!(at_once(None, None, 1 << 20), 4);
        assert_eq!(at_once(Some(16), None, 1 << 20), 16);
        assert_eq!(at_once(Some(16), Some(Order::Serial), 1 << 20), 1);
        // Each takes a huge page.
        assert_eq!(at_once(Some(64), None, 1 << 20), 32);
        assert_eq!(at_once(Some(64), None, 64 << 20), 1);
    }
}
