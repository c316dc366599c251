//! Reads and writes of files in flight: several at once for one thread, by an `io_uring` or by a few helper threads.
//!
//! A [`Queue`] owns the memory of what is in flight, so that it cannot be used before the kernel is through with it.
//! Its descriptor becomes readable when something ended: a thread can wait for that and for a socket at once. The two
//! engines do the same; which one is used is up to the caller, and whether an `io_uring` is to be had is found out by
//! trying (containers forbid it with `EPERM`, old kernels know no `io_uring` or not enough of it).
//!
//! Not here: order. What is in flight may end in any order, and two writes of the same range may land either way.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::{File, Memory, invalid};

mod ring;

mod threads;

use ring::Ring;
use threads::Threads;

/// Most requests that one queue has in flight.
pub const DEPTH_MAX: usize = 256;

/// How a queue works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The kernel's own queue: one system call for each request, no thread.
    IoUring,
    /// Helper threads with ordinary system calls.
    Threads,
}

impl Engine {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::IoUring => "io_uring",
            Engine::Threads => "threads",
        }
    }
}

/// What to do with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the file into memory; fewer bytes only at the end of the file.
    Read,
    /// From memory into the file, all of them.
    Write,
}

/// One read or write.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// With which file. If it is open for direct I/O, the caller sees to the alignment of memory, offset and length.
    pub file: Arc<File>,
    /// The memory, lent until it comes back in a [`Done`].
    pub memory: Memory,
    /// Where in the memory the bytes begin.
    pub start: usize,
    /// How many bytes; 1 to 2^31 - 1.
    pub bytes: usize,
    /// Where in the file.
    pub offset: u64,
    /// The caller's own.
    pub tag: u64,
}

impl Request {
    fn is_sound(&self) -> bool {
        let end = self.start.checked_add(self.bytes);
        self.bytes > 0 && self.bytes <= i32::MAX as usize && end.is_some_and(|end| end <= self.memory.len())
    }

    /// With an ordinary system call, waiting for it. `done` bytes of it are done already.
    fn carry_out(&mut self, done: usize) -> io::Result<usize> {
        let at = self.offset + done as u64;
        let range = self.start + done..self.start + self.bytes;
        match self.operation {
            Operation::Write => self.file.write_all_at(&self.memory[range], at).map(|()| self.bytes),
            Operation::Read => self.file.read_at(&mut self.memory[range], at).map(|read| done + read),
        }
    }

    /// What the kernel's answer means. What it did only in part is finished here, waiting: at the end of a file, near
    /// the end of the space, after a signal.
    fn finish(&mut self, answer: io::Result<usize>) -> io::Result<usize> {
        match answer {
            Ok(done) if done >= self.bytes => Ok(self.bytes),
            Ok(0) if self.operation == Operation::Read => Ok(0),
            // From an aligned place, for direct I/O; the same bytes once more do no harm.
            Ok(done) => self.carry_out(done - done % ALIGNMENT_MAX),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                self.carry_out(0)
            }
            Err(error) => Err(error),
        }
    }
}

/// No file system asks for more under direct I/O.
const ALIGNMENT_MAX: usize = 4096;

/// A request that ended.
#[derive(Debug)]
pub struct Done {
    /// As it was given.
    pub request: Request,
    /// Bytes read or written, or why not. After an error any part of a write may have been done.
    pub result: io::Result<usize>,
}

/// Requests in flight. Belongs to the thread that made it. Dropping it waits for all of them.
pub struct Queue {
    kind: Kind,
    depth: usize,
    /// Tags of what is in flight.
    tags: Vec<u64>,
    /// Rings may be tied to the thread that made them.
    one_thread: PhantomData<*const ()>,
}

enum Kind {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Queue {
    /// A queue for at most `depth` requests (1 to [`DEPTH_MAX`]) at once.
    ///
    /// `InvalidInput` for another depth. For [`Engine::IoUring`] what the kernel says where there is none: `ENOSYS`,
    /// `EPERM`, `ENOMEM`. For [`Engine::Threads`] if there is no descriptor or no thread to be had.
    pub fn new(engine: Engine, depth: usize) -> io::Result<Queue> {
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(invalid("a queue takes 1 to 256 requests"));
        }
        let kind = match engine {
            Engine::IoUring => Kind::Ring(Box::new(Ring::new(depth)?)),
            Engine::Threads => Kind::Threads(Threads::new(depth)?),
        };
        Ok(Queue { kind, depth, tags: Vec::with_capacity(depth), one_thread: PhantomData })
    }

    /// How it works.
    pub fn engine(&self) -> Engine {
        match self.kind {
            Kind::Ring(_) => Engine::IoUring,
            Kind::Threads(_) => Engine::Threads,
        }
    }

    /// Requests pushed and not taken back.
    pub fn in_flight(&self) -> usize {
        self.tags.len()
    }

    /// The most that may be.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a request with this tag is in flight.
    pub fn has(&self, tag: u64) -> bool {
        self.tags.contains(&tag)
    }

    /// Whether another request must wait until one is taken back.
    pub fn is_full(&self) -> bool {
        self.tags.len() >= self.depth
    }

    /// Begins a request and does not wait for its end.
    ///
    /// The request comes back if the queue is full (`WouldBlock`), or the range does not fit the memory
    /// (`InvalidInput`). Everything else shows when it is taken back.
    pub fn push(&mut self, request: Request) -> Result<(), (io::Error, Request)> {
        if self.is_full() {
            return Err((io::ErrorKind::WouldBlock.into(), request));
        }
        if !request.is_sound() {
            return Err((invalid("the bytes are not in the memory"), request));
        }
        self.tags.push(request.tag);
        match &mut self.kind {
            Kind::Ring(ring) => ring.push(request),
            Kind::Threads(threads) => threads.push(request),
        }
        Ok(())
    }

    /// Takes back one that ended, in whatever order; with `wait` until there is one. `None` if nothing is in flight, or
    /// without `wait` if nothing ended.
    pub fn take(&mut self, wait: bool) -> Option<Done> {
        if self.tags.is_empty() {
            return None;
        }
        let (request, answer) = match &mut self.kind {
            Kind::Ring(ring) => ring.take(wait)?,
            Kind::Threads(threads) => threads.take(wait)?,
        };
        Some(self.done(request, answer))
    }

    /// As [`Queue::take`], only what is known to have ended without asking the kernel. After it the descriptor may be
    /// readable for nothing, once.
    pub fn take_known(&mut self) -> Option<Done> {
        let (request, answer) = match &mut self.kind {
            Kind::Ring(ring) => ring.take_known()?,
            Kind::Threads(threads) => threads.take_known()?,
        };
        Some(self.done(request, answer))
    }

    fn done(&mut self, mut request: Request, answer: io::Result<usize>) -> Done {
        if let Some(at) = self.tags.iter().position(|tag| *tag == request.tag) {
            self.tags.swap_remove(at);
        }
        let result = request.finish(answer);
        Done { request, result }
    }
}

/// Readable when there may be something to take.
impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Ring(ring) => ring.as_fd(),
            Kind::Threads(threads) => threads.as_fd(),
        }
    }
}

/// Whether an `io_uring` is to be had here, found out by making one; if not, why.
pub fn io_uring_is_there() -> io::Result<()> {
    Ring::new(1).map(drop)
}
