//! Page-aligned memory, the bounded pool it comes from, and one bound for all of it in a process ([`bound`]).

use std::alloc::{Layout, alloc, dealloc};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::invalid;

/// What all buffers of this process may take together, and take now; how often one was refused for that.
static BOUND: AtomicUsize = AtomicUsize::new(usize::MAX);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// From now on all buffers of this process together take at most so many bytes, in whole pages as they are made; half
/// of it at most for those that a transfer can do without ([`Buffer::spare`], those of a [`Pool`]). Buffers that exist
/// stay. Without a call there is no bound.
pub fn bound(bytes: usize) {
    BOUND.store(bytes, Ordering::Release);
}

/// The bound; `None` if there is none.
pub fn allowed() -> Option<usize> {
    Some(BOUND.load(Ordering::Acquire)).filter(|bytes| *bytes != usize::MAX)
}

/// Bytes that all buffers take now.
pub fn taken() -> usize {
    TAKEN.load(Ordering::Acquire)
}

/// How many buffers were refused because of the bound so far.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Takes `bytes` of what all may have, unless that is more than the bound divided by `share`.
fn reserve(bytes: usize, share: usize) -> io::Result<()> {
    let most = BOUND.load(Ordering::Acquire);
    let most = if most == usize::MAX { most } else { most / share };
    let within = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= most);
    match TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, within) {
        Ok(_) => Ok(()),
        Err(taken) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            let why = format!(
                "a buffer of {bytes} bytes is needed, and of {most} bytes that are allowed (--memory) {taken} are taken"
            );
            Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
        }
    }
}

/// A fixed piece of memory, aligned for direct I/O: to 4096 bytes, or to 2 MiB and asked to be on huge pages
/// if it fills half of one. Zeroed when made, and resident from then on. Freed on drop.
///
/// A direct write of a mebibyte from one huge page is one piece for the kernel and the disk instead of 256: 4 to 8 %
/// less CPU at the receiver of a large file, and 0.75 to 0.88 of the time (medians of 7 and 9 interleaved pairs, virtio
/// disk, busy machine).
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
    bytes: usize,
}

impl Buffer {
    /// Makes a buffer of `bytes` zeros. `InvalidInput` for 0 bytes or more than `isize::MAX`, `OutOfMemory`
    /// if there is none, or all that this process may have is taken ([`bound`]).
    pub fn new(bytes: usize) -> io::Result<Buffer> {
        Buffer::of_share(bytes, 1)
    }

    /// As [`Buffer::new`], for what only makes a transfer faster: of the bound at most half is for such.
    pub fn spare(bytes: usize) -> io::Result<Buffer> {
        Buffer::of_share(bytes, 2)
    }

    fn of_share(bytes: usize, share: usize) -> io::Result<Buffer> {
        if bytes == 0 {
            return Err(invalid("a buffer has at least one byte"));
        }
        let taken = Buffer::memory_bytes(bytes);
        let is_huge = taken >= HUGE_PAGE_BYTES;
        let align = if is_huge { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let layout = Layout::from_size_align(taken, align).map_err(|_| invalid("buffer is too large"))?;
        reserve(taken, share)?;
        // JUSTIFICATION: safe code cannot ask for aligned memory, nor survive not getting it.
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| {
            TAKEN.fetch_sub(taken, Ordering::AcqRel);
            io::ErrorKind::OutOfMemory
        })?;
        if is_huge {
            // JUSTIFICATION: huge pages must be asked for before the first touch; only the caller of alloc
            // can do that.
            // SAFETY: the range was just allocated and is ours alone; the advice changes no content. A
            // refusal (kernels without huge pages) changes only speed.
            let _ = unsafe {
                rustix::mm::madvise(start.as_ptr().cast(), taken, rustix::mm::Advice::LinuxHugepage)
            };
        }
        // JUSTIFICATION: alloc_zeroed would touch the pages before the advice.
        // SAFETY: `taken` bytes from `start` are ours and writable; any byte pattern is a u8.
        unsafe { start.as_ptr().write_bytes(0, taken) };
        Ok(Buffer { start, layout, bytes })
    }

    /// Memory that a buffer of `bytes` takes: more, where it is rounded up to a huge page.
    pub const fn memory_bytes(bytes: usize) -> usize {
        let fills_half = bytes >= HUGE_PAGE_BYTES / 2 && bytes < HUGE_PAGE_BYTES;
        if fills_half { HUGE_PAGE_BYTES } else { bytes }
    }

    /// Overwrites the whole buffer with zeros.
    pub fn clear(&mut self) {
        self.fill(0);
    }
}

// JUSTIFICATION: a raw pointer takes these away, although the memory is owned like a Box<[u8]>.
// SAFETY: the memory is reachable through this value alone, and bytes have no ties to a thread.
unsafe impl Send for Buffer {}
// JUSTIFICATION: as for Send.
// SAFETY: a shared reference only gives shared access to bytes.
unsafe impl Sync for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // JUSTIFICATION: memory from the allocator is reached by pointer only.
        // SAFETY: `start` points to at least `bytes` initialised bytes that live as long as `self`, borrowed
        // shared here.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // JUSTIFICATION: as in `deref`.
        // SAFETY: as in `deref`, borrowed uniquely here.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // JUSTIFICATION: what alloc gave, only dealloc takes back.
        // SAFETY: allocated in `new` with this very layout, freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
        TAKEN.fetch_sub(self.layout.size(), Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Buffer {
    /// The size alone: the content is the user's.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("bytes", &self.bytes).finish()
    }
}

/// A bounded number of equal buffers, shared by threads; the handle may be cloned. Memory is taken when first
/// needed and kept until the pool and all its buffers are gone.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

/// A buffer that goes back to its pool on drop. It has the content its last user left: write before you read.
#[derive(Debug)]
pub struct PooledBuffer {
    /// Empty only while it is being dropped.
    buffer: Option<Buffer>,
    pool: Arc<Shared>,
}

/// Memory of either kind. Its address stays the same wherever its owner moves.
#[derive(Debug)]
pub enum Memory {
    /// Of its own.
    Own(Buffer),
    /// From a pool.
    Pooled(PooledBuffer),
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Own(buffer) => buffer,
            Memory::Pooled(buffer) => buffer,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(buffer) => buffer,
            Memory::Pooled(buffer) => buffer,
        }
    }
}

impl Pool {
    /// A pool of at most `count_max` buffers of `buffer_bytes` each. Allocates nothing yet. `InvalidInput` if
    /// either is 0 or their product does not fit the address space.
    pub fn new(buffer_bytes: usize, count_max: usize) -> io::Result<Pool> {
        if buffer_bytes == 0 || count_max == 0 {
            return Err(invalid("a pool has at least one buffer of at least one byte"));
        }
        match buffer_bytes.checked_mul(count_max) {
            Some(total) if total <= isize::MAX as usize => {}
            _ => return Err(invalid("the pool is larger than the address space")),
        }
        Ok(Pool(Arc::new(Shared {
            buffer_bytes,
            count_max,
            state: Mutex::new(State { free: Vec::new(), allocated: 0, waiting: 0 }),
            returned: Condvar::new(),
        })))
    }

    /// Takes a buffer, waiting up to `deadline` for one to come back; `None` when none did.
    ///
    /// Where the system has no memory for another buffer this waits for one as well.
    pub fn take(&self, deadline: Duration) -> Option<PooledBuffer> {
        let mut state = self.0.lock();
        if let Some(buffer) = self.0.at_once(&mut state) {
            return Some(PooledBuffer { buffer: Some(buffer), pool: self.0.clone() });
        }
        state.waiting += 1;
        let (mut state, _) = self
            .0
            .returned
            .wait_timeout_while(state, deadline, |state| state.free.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        let buffer = state.free.pop()?;
        Some(PooledBuffer { buffer: Some(buffer), pool: self.0.clone() })
    }

    /// Bytes in each buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes
    }

    /// The most buffers there will ever be.
    pub fn count_max(&self) -> usize {
        self.0.count_max
    }

    /// Buffers that exist now, taken or not.
    pub fn allocated(&self) -> usize {
        self.0.lock().allocated
    }

    /// Buffers that somebody holds now.
    pub fn in_use(&self) -> usize {
        let state = self.0.lock();
        state.allocated - state.free.len()
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            let mut state = self.pool.lock();
            state.free.push(buffer);
            let is_awaited = state.waiting > 0;
            drop(state);
            // A system call, also where nobody waits.
            if is_awaited {
                self.pool.returned.notify_one();
            }
        }
    }
}

#[derive(Debug)]
struct Shared {
    buffer_bytes: usize,
    count_max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Buffer>,
    allocated: usize,
    /// Threads that wait for one to come back.
    waiting: usize,
}

impl Shared {
    /// No user code runs under the lock, so a poisoned one holds a sound state all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_once(&self, state: &mut State) -> Option<Buffer> {
        if let Some(buffer) = state.free.pop() {
            return Some(buffer);
        }
        if state.allocated == self.count_max {
            return None;
        }
        let buffer = Buffer::spare(self.buffer_bytes).ok()?;
        state.allocated += 1;
        Some(buffer)
    }
}

const PAGE_BYTES: usize = 4096;
/// A huge page: what fills half of one takes it whole, see [`Buffer::memory_bytes`].
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
