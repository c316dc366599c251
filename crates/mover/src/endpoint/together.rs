//! Several small files on their way to the disk at once: one wait for all of them, not one for each.
//!
//! Past the page cache a disk is kept busy by what is in flight. Of a large file that is its next segments; of small
//! files it must be several. What goes into flight is copied first (0.025 to 0.09 CPU-s/GB: docs/measurements.md,
//! copies in memory), for its frame is received into again.

use crate::plan;
use std::io;
use std::sync::Arc;
use thalweg_sys::queue::Operation;
use thalweg_sys::{Buffer, DirectAlignment, Engine, File, Memory, Queue, Request};
use thalweg_wire::message::Disk;

/// Most files handed to a destination in one call.
pub const TOGETHER_MAX: usize = 16;
/// A larger write keeps a disk busy alone.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// The writes of one stream. Memory: [`TOGETHER_MAX`] times 256 KiB at most, taken when it is first needed.
pub struct Together {
    disk: Disk,
    queue: Option<Queue>,
    /// There is neither a ring nor a thread to be had.
    is_alone: bool,
    spare: Vec<Memory>,
    ended: Vec<(usize, io::Result<()>)>,
}

impl Together {
    /// Nothing under way. The depth that `disk` asks for bounds it, if that is less than [`TOGETHER_MAX`].
    pub fn new(disk: &Disk) -> Together {
        // One at a time goes the ordinary way.
        let is_alone = disk.depth == Some(1);
        Together { disk: *disk, queue: None, is_alone, spare: Vec::new(), ended: Vec::new() }
    }

    /// Begins to write `bytes`, whole blocks, to the start of a file that is open for direct I/O. False if that is not
    /// to be had: then nothing was begun.
    pub(super) fn begin(
        &mut self,
        file: &Arc<File>,
        bytes: &[u8],
        alignment: DirectAlignment,
        tag: usize,
    ) -> bool {
        if bytes.is_empty() || bytes.len() > WRITE_BYTES_MAX || self.is_alone {
            return false;
        }
        let mut memory = match self.spare.pop() {
            Some(memory) => memory,
            None => match Buffer::spare(WRITE_BYTES_MAX) {
                Ok(buffer) if (buffer.as_ptr() as usize).is_multiple_of(alignment.memory as usize) => {
                    Memory::Own(buffer)
                }
                _ => return false,
            },
        };
        if self.queue.is_none() {
            let depth = self.disk.depth.map_or(TOGETHER_MAX, |depth| usize::from(depth).min(TOGETHER_MAX));
            self.queue = queue_for(&self.disk, depth);
            self.is_alone = self.queue.is_none();
        }
        if self.queue.as_ref().is_some_and(Queue::is_full) {
            self.take();
        }
        let Some(queue) = &mut self.queue else { return false };
        memory[..bytes.len()].copy_from_slice(bytes);
        let request = Request {
            operation: Operation::Write,
            file: file.clone(),
            memory,
            start: 0,
            bytes: bytes.len(),
            offset: 0,
            tag: tag as u64,
        };
        match queue.push(request) {
            Ok(()) => true,
            Err((_, request)) => {
                self.spare.push(request.memory);
                false
            }
        }
    }

    /// Waits for all that is under way: what became of each, by its tag, in any order.
    pub(super) fn settle(&mut self) -> Vec<(usize, io::Result<()>)> {
        while self.take() {}
        std::mem::take(&mut self.ended)
    }

    fn take(&mut self) -> bool {
        let Some(done) = self.queue.as_mut().and_then(|queue| queue.take(true)) else { return false };
        self.spare.push(done.request.memory);
        self.ended.push((done.request.tag as usize, done.result.map(drop)));
        true
    }
}

/// A queue as the transfer wants it, found out by trying. `None` if there is neither a ring nor a thread to be had.
pub(crate) fn queue_for(disk: &Disk, depth: usize) -> Option<Queue> {
    let ring = match disk.no_io_uring {
        true => None,
        false => Queue::new(Engine::IoUring, depth)
            .inspect_err(|error| tracing::debug!(%error, "no io_uring"))
            .ok(),
    };
    ring.or_else(|| Queue::new(Engine::Threads, depth).ok())
}

/// Requests of one stream in flight, as asked for or as usual.
pub(crate) fn depth_of(disk: &Disk) -> usize {
    usize::from(disk.depth.unwrap_or(plan::IO_DEPTH))
}
