//! Puts verified bytes in their place.
//!
//! A segment of a large file goes straight from the memory that it was received in to the disk (direct I/O), several of
//! them in flight, while the stream goes on receiving; where the pool has no memory left the stream waits for its
//! write. What came compressed goes from memory that it is copied into, where there is some. What cannot go that way
//! (small files, the last bytes of a file that fill no block, files with holes, file systems without direct I/O) is
//! written at once.
//!
//! - Memory in flight is not used again before its write ended; it comes from the transfer's bounded pool.
//! - A chunk counts as written when all of its writes have ended, and only then may another stream write it.
//! - What one stream writes of one chunk at two different times (it came damaged, and was sent again) is never in
//!   flight together: the first must end before the second begins.
//!
//! Whoever owns a [`Writes`] must see to it that what ended is noticed: [`Writes::notice`] when its descriptor is
//! readable, [`Writes::settle`] before it waits for anything else.

use crate::endpoint::together::{depth_of, queue_for};
use crate::endpoint::{PartialFile, is_direct_refused};
use crate::failure::{self, FailureKind};
use crate::link::{FrameBuffer, PAYLOAD_ALIGNMENT};
use crate::stage::receiving::{OpenPartial, Receiving};
use crate::stage::turn::Gate;
use crate::stage::{Stage, UnderWay};
use crate::transfer::Copy;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use thalweg_sys::queue::Operation;
use thalweg_sys::{DirectAlignment, Done, File, Memory, PooledBuffer, Queue, Request};
use thalweg_wire::Digest;
use thalweg_wire::message::Order;

/// Where the bytes of a segment are.
pub enum Bytes<'a> {
    /// In the frame they came in, so many from the start of its payload. Its memory may be taken and replaced.
    Frame(&'a mut FrameBuffer, usize),
    /// Expanded, in memory of somebody else's.
    Expanded(&'a [u8]),
}

impl Bytes<'_> {
    /// They themselves.
    pub fn as_slice(&mut self) -> &[u8] {
        match self {
            Bytes::Frame(buffer, bytes) => &buffer.payload_mut()[..*bytes],
            Bytes::Expanded(bytes) => bytes,
        }
    }
}

/// Number of one copy of one chunk, as it came on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopyNumber(u64);

/// The writes of one stream for one transfer.
pub struct Writes {
    run: Arc<dyn Receiving>,
    /// Number of its own for every stream that ever was.
    writer: u64,
    queue: Option<Queue>,
    /// What of it is in flight.
    under_way: UnderWay,
    copies: Copies,
    next: u64,
}

/// Those under way: one for each write that may be in flight, and the one that comes. Few enough to be looked through.
struct Copies(Vec<ChunkCopy>);

impl Copies {
    fn get_mut(&mut self, number: CopyNumber) -> Option<&mut ChunkCopy> {
        self.0.iter_mut().find(|copy| copy.number == number)
    }
}

struct ChunkCopy {
    number: CopyNumber,
    file: OpenPartial,
    chunk: u64,
    /// A segment of it was claimed and is not handed over yet.
    claimed: bool,
    in_flight: usize,
    /// All of it was handed over; its digest.
    whole: Option<Digest>,
    failed: bool,
}

impl Writes {
    /// Nothing in flight.
    pub fn new(run: Arc<dyn Receiving>, writer: u64) -> Self {
        let under_way = run.accounts().under_way(Stage::Write);
        Writes { run, writer, queue: None, under_way, copies: Copies(Vec::new()), next: 0 }
    }

    /// A copy of a chunk begins to come. Earlier ones of the same chunk are not in flight any more when this returns.
    pub fn begin(&mut self, file: &OpenPartial, chunk: u64) -> CopyNumber {
        let is_same = |copy: &ChunkCopy| copy.file.entry.id == file.entry.id && copy.chunk == chunk;
        if self.copies.0.iter().any(is_same) {
            self.settle();
        }
        self.next += 1;
        let number = CopyNumber(self.next);
        self.copies.0.push(ChunkCopy {
            number,
            file: file.clone(),
            chunk,
            claimed: false,
            in_flight: 0,
            whole: None,
            failed: false,
        });
        number
    }

    /// May the next segment of this copy be written? `begins` with the first one: which copy of the chunk it is. Waits
    /// for another stream that writes the same chunk at this moment. If so, [`Writes::go_on`], [`Writes::complete`] or
    /// [`Writes::give_up`] must follow, after [`Writes::write`] if there is something to write.
    pub fn claim(&mut self, number: CopyNumber, begins: Option<Copy>) -> bool {
        let Some(copy) = self.copies.get_mut(number) else { return false };
        let (run, id, chunk) = (self.run.clone(), copy.file.entry.id, copy.chunk);
        // Two streams that wait for each other's chunks would wait for ever if what they have written is not told.
        let claimed = run.claim_chunk(self.writer, id, chunk, begins, &mut || self.settle());
        if let Some(copy) = self.copies.get_mut(number) {
            copy.claimed = claimed;
        }
        claimed
    }

    /// Writes a segment of a copy that was claimed; `offset` is its place in the file. False if that failed, now or
    /// with an earlier segment: the failure was told.
    pub fn write(&mut self, number: CopyNumber, mut bytes: Bytes<'_>, offset: u64) -> bool {
        let Some(copy) = self.copies.get_mut(number) else { return false };
        let partial = copy.file.partial.clone();
        let length = bytes.as_slice().len();
        // What goes past the page cache; the rest is less than a block, or everything. What is expanded lies where it
        // cannot go from.
        let has_own = matches!(bytes, Bytes::Frame(..));
        let direct = partial
            .direct()
            .and_then(|(file, alignment)| self.past_cache(file, alignment, length))
            .filter(|past| has_own || past.memory.is_some());
        let from = direct.as_ref().map_or(0, |past| past.bytes);
        let run = self.run.clone();
        let turn = run.gate().map(Gate::draw);
        partial.prepare(offset, length as u64);
        if let Some(turn) = &turn {
            turn.issue();
        }
        if from < length
            && let Err(error) = partial.write_at(&bytes.as_slice()[from..], offset + from as u64)
        {
            self.failed(number, &error, offset + from as u64, offset + length as u64);
        } else if let Some(Past { file, memory, bytes: whole }) = direct {
            match (memory.map(Memory::Pooled), bytes) {
                (Some(memory), Bytes::Frame(buffer, _)) => {
                    self.push(number, file, (buffer.replace_memory(memory), whole), offset);
                }
                (Some(mut memory), Bytes::Expanded(expanded)) => {
                    memory[PAYLOAD_ALIGNMENT..PAYLOAD_ALIGNMENT + whole].copy_from_slice(&expanded[..whole]);
                    self.push(number, file, (memory, whole), offset);
                }
                (None, mut bytes) => self.write_past(number, &file, &bytes.as_slice()[..whole], offset),
            }
        }
        match turn {
            // It ends when its write did.
            Some(_) if run.terms().disk.destination.order == Some(Order::Serial) => self.settle(),
            _ => self.notice_known(),
        }
        self.copies.get_mut(number).is_some_and(|copy| !copy.failed)
    }

    /// A segment of a copy that was claimed is a hole, of which nothing is written. False as of [`Writes::write`].
    pub fn leave_zeros(&mut self, number: CopyNumber, bytes: u64, offset: u64) -> bool {
        let Some(copy) = self.copies.get_mut(number) else { return false };
        let left = copy.file.partial.leave_zeros(bytes, offset);
        if let Err(error) = left {
            self.failed(number, &error, offset, offset + bytes);
        }
        self.copies.get_mut(number).is_some_and(|copy| !copy.failed)
    }

    /// The claimed segment was handed over, and another follows.
    pub fn go_on(&mut self, number: CopyNumber) {
        self.handed_over(number, |_| {});
    }

    /// The claimed segment was handed over, the last of the chunk. It is told as written when all of it is.
    pub fn complete(&mut self, number: CopyNumber, digest: Digest) {
        self.handed_over(number, |copy| copy.whole = Some(digest));
    }

    /// The rest of a copy does not come, or is not wanted.
    pub fn give_up(&mut self, number: CopyNumber) {
        self.handed_over(number, |copy| copy.failed = true);
    }

    fn handed_over(&mut self, number: CopyNumber, change: impl FnOnce(&mut ChunkCopy)) {
        let Some(copy) = self.copies.get_mut(number) else { return };
        copy.claimed = false;
        change(copy);
        self.rest(number);
    }

    /// Readable when something ended; `None` while nothing is in flight.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.queue.as_ref().filter(|queue| queue.in_flight() > 0).map(|queue| queue.as_fd())
    }

    /// Tells what has ended by now.
    pub fn notice(&mut self) {
        while let Some(done) = self.queue.as_mut().and_then(|queue| queue.take(false)) {
            self.ended(done);
        }
    }

    /// Waits until nothing is in flight, and tells it.
    pub fn settle(&mut self) {
        while let Some(done) = self.queue.as_mut().and_then(|queue| queue.take(true)) {
            self.ended(done);
        }
    }

    /// As [`Writes::notice`], without asking the kernel.
    fn notice_known(&mut self) {
        while let Some(done) = self.queue.as_mut().and_then(Queue::take_known) {
            self.ended(done);
        }
    }

    /// How a segment of `length` bytes goes past the page cache; `None` where none of it can.
    fn past_cache(&mut self, file: Arc<File>, alignment: DirectAlignment, length: usize) -> Option<Past> {
        let unit = alignment.offset as usize;
        let bytes = length - length % unit;
        let fits = PAYLOAD_ALIGNMENT.is_multiple_of(alignment.memory as usize);
        (bytes > 0 && fits).then(|| Past { file, memory: self.lend(), bytes })
    }

    /// Memory to give for that of a frame which goes into flight; `None` where other streams have all of it, or where
    /// nothing can be in flight.
    fn lend(&mut self) -> Option<PooledBuffer> {
        if self.queue.is_none() {
            let disk = &self.run.terms().disk;
            self.queue = queue_for(disk, depth_of(disk));
        }
        while self.queue.as_ref()?.is_full() {
            self.wait_for_one();
        }
        loop {
            match (self.run.buffers().take(Duration::ZERO), self.queue.as_ref()?.in_flight()) {
                (None, in_flight) if in_flight > 0 => self.wait_for_one(),
                (memory, _) => return memory,
            }
        }
    }

    fn wait_for_one(&mut self) {
        if let Some(done) = self.queue.as_mut().and_then(|queue| queue.take(true)) {
            self.ended(done);
        }
    }

    /// Writes from the frame itself, and waits for it.
    fn write_past(&mut self, number: CopyNumber, file: &File, bytes: &[u8], offset: u64) {
        let Some(copy) = self.copies.get_mut(number) else { return };
        let partial = copy.file.partial.clone();
        let written = file.write_all_at(bytes, offset);
        if let Err(error) = written.or_else(|error| write_refused(&*partial, error, bytes, offset)) {
            self.failed(number, &error, offset, offset + bytes.len() as u64);
        }
    }

    fn push(&mut self, number: CopyNumber, file: Arc<File>, (memory, bytes): (Memory, usize), offset: u64) {
        let (Some(queue), Some(copy)) = (&mut self.queue, self.copies.get_mut(number)) else { return };
        let request = Request {
            operation: Operation::Write,
            file,
            memory,
            start: PAYLOAD_ALIGNMENT,
            bytes,
            offset,
            tag: number.0,
        };
        copy.in_flight += 1;
        match queue.push(request) {
            Ok(()) => self.under_way.set(queue.in_flight()),
            Err((error, request)) => self.ended(Done { request, result: Err(error) }),
        }
    }

    fn ended(&mut self, done: Done) {
        let Done { request, result } = done;
        self.under_way.set(self.queue.as_ref().map_or(0, Queue::in_flight));
        let number = CopyNumber(request.tag);
        let Some(copy) = self.copies.get_mut(number) else { return };
        copy.in_flight -= 1;
        let partial = copy.file.partial.clone();
        let bytes = &request.memory[request.start..request.start + request.bytes];
        let refused = |error| write_refused(&*partial, error, bytes, request.offset);
        if let Err(error) = result.map(drop).or_else(refused) {
            self.failed(number, &error, request.offset, request.offset + request.bytes as u64);
        }
        self.rest(number);
    }

    /// Tells the first failure of a copy. A chunk of which the destination lost what came before is asked for again.
    fn failed(&mut self, number: CopyNumber, error: &io::Error, start: u64, end: u64) {
        let Some(copy) = self.copies.get_mut(number) else { return };
        if std::mem::replace(&mut copy.failed, true) {
            return;
        }
        let entry = &copy.file.entry;
        if failure::kind_of_io(error) == FailureKind::Damage {
            self.run.lost(entry.id, copy.chunk);
            return;
        }
        let failure = failure::of_io("write", error).at(&entry.path).in_range(start, end);
        self.run.write_failed(entry.id, failure);
    }

    /// Nothing of a copy is being handed over: if nothing is in flight either, others may write the chunk, or it is
    /// written.
    fn rest(&mut self, number: CopyNumber) {
        let Some(copy) = self.copies.get_mut(number) else { return };
        if copy.claimed || copy.in_flight > 0 {
            return;
        }
        let (id, chunk) = (copy.file.entry.id, copy.chunk);
        match copy.whole {
            Some(digest) if !copy.failed => self.run.chunk_written(id, chunk, digest),
            _ if copy.failed => self.run.copy_given_up(self.writer, id, chunk),
            _ => self.run.segment_written(self.writer, id, chunk),
        }
        if copy.whole.is_some() || copy.failed {
            self.copies.0.retain(|copy| copy.number != number);
        }
    }
}

/// What is in flight belongs to the kernel until it ended, and is told like everything else.
impl Drop for Writes {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Writes by way of the page cache what failed past it with `error`, if that says that it may. The file system takes no
/// direct I/O after all, and is asked for no more; or there was no memory for one request, as the next may have.
fn write_refused(partial: &dyn PartialFile, error: io::Error, bytes: &[u8], offset: u64) -> io::Result<()> {
    if !is_direct_refused(&error) {
        return Err(error);
    }
    if error.kind() != io::ErrorKind::OutOfMemory {
        partial.refuse_direct();
    }
    partial.write_at(bytes, offset)
}

/// A write past the page cache.
struct Past {
    file: Arc<File>,
    /// For the frame whose memory goes into flight; without it the write is waited for.
    memory: Option<PooledBuffer>,
    /// Whole blocks, from the start of the segment.
    bytes: usize,
}

#[cfg(test)]
mod tests;
