//! By an `io_uring`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::{Operation, Request};
use crate::socket::Wake;

/// What waits for the next `enter` call to be told.
const IORING_ENTER_GETEVENTS: u32 = 1;

pub(super) struct Ring {
    ring: IoUring,
    /// What the kernel has, by the number it was given. Emptied before the ring is closed.
    slots: Vec<Option<Request>>,
    free: Vec<usize>,
    /// Ended, with what the kernel said.
    done: VecDeque<(Request, io::Result<usize>)>,
    /// Raised by the kernel when something ended. (The ring's own descriptor does not wake who polls it when
    /// completions wait for `DEFER_TASKRUN`: seen on Linux 6.18.)
    wake: Wake,
    /// The kernel takes nothing more: what comes from here on is done with ordinary calls.
    is_refused: bool,
}

/// How often a request is offered to a kernel that does not take it, a millisecond apart.
const OFFERS_MAX: u32 = 1000;
/// See [`OFFERS_MAX`].
const PAUSE: Duration = Duration::from_millis(1);

impl Ring {
    /// With as few interruptions as this kernel can: completions are only worked on when this thread asks for them
    /// (`DEFER_TASKRUN`, Linux 6.1), or when it makes a system call anyway (`COOP_TASKRUN`, 5.19).
    pub(super) fn new(depth: usize) -> io::Result<Ring> {
        let entries = depth.next_power_of_two() as u32;
        let ring = IoUring::builder()
            .setup_clamp()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::builder().setup_clamp().setup_coop_taskrun().build(entries))
            .or_else(|_| IoUring::builder().setup_clamp().build(entries))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let wake = Wake::new()?;
        ring.submitter().register_eventfd(wake.as_fd().as_raw_fd())?;
        let slots = (0..depth).map(|_| None).collect();
        Ok(Ring { ring, slots, free: (0..depth).collect(), done: VecDeque::new(), wake, is_refused: false })
    }

    pub(super) fn push(&mut self, mut request: Request) {
        let Some(slot) = self.free.pop().filter(|_| !self.is_refused) else {
            let answer = request.carry_out(0);
            self.done.push_back((request, answer));
            return;
        };
        let fd = types::Fd(request.file.as_fd().as_raw_fd());
        let range = request.start..request.start + request.bytes;
        let (offset, bytes) = (request.offset, request.bytes as u32);
        let entry = match request.operation {
            Operation::Read => {
                opcode::Read::new(fd, request.memory[range].as_mut_ptr(), bytes).offset(offset).build()
            }
            Operation::Write => {
                opcode::Write::new(fd, request.memory[range].as_ptr(), bytes).offset(offset).build()
            }
        };
        self.slots[slot] = Some(request);
        // JUSTIFICATION: an io_uring takes addresses; without it 0.73 instead of 0.60 CPU-s/GB
        // (docs/measurements.md, durable copies).
        // SAFETY: memory and file are owned by the slot until the completion with its number was reaped, whatever
        // becomes of the caller, and `drop` reaps all of them; memory does not move with its owner; nobody else can
        // reach it meanwhile.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        let is_refused = match pushed {
            Ok(()) => self.submit().is_err(),
            // As many entries as slots: there is room.
            Err(_) => true,
        };
        self.reap();
        if is_refused && let Some(mut request) = self.slots[slot].take() {
            // Its entry stays in the submission queue, and nothing is ever submitted from there again. It is done as
            // all that come behind it.
            self.is_refused = true;
            let answer = request.carry_out(0);
            self.done.push_back((request, answer));
        }
    }

    pub(super) fn take(&mut self, wait: bool) -> Option<(Request, io::Result<usize>)> {
        if let Some(ended) = self.take_known() {
            return Some(ended);
        }
        // Lowered before the kernel is asked: what ends after that raises it again.
        let _ = self.wake.drain();
        self.wait(u32::from(wait));
        while wait && self.done.is_empty() {
            self.wait(1);
        }
        self.done.pop_front()
    }

    /// Without a system call.
    pub(super) fn take_known(&mut self) -> Option<(Request, io::Result<usize>)> {
        if self.done.is_empty() {
            self.reap();
        }
        self.done.pop_front()
    }

    /// Hands the entry in the submission queue to the kernel. That may be short of memory, or want to be reaped first.
    fn submit(&mut self) -> io::Result<()> {
        let mut offers = 1;
        loop {
            match self.enter(1, 0) {
                Ok(submitted) if submitted > 0 => return Ok(()),
                Err(error) if offers == OFFERS_MAX => return Err(error),
                Ok(_) if offers == OFFERS_MAX => return Err(io::ErrorKind::OutOfMemory.into()),
                _ => {}
            }
            offers += 1;
            self.reap();
            std::thread::sleep(PAUSE);
        }
    }

    /// Has completions worked on, at least so many. What the kernel refuses now it does later: all it is asked for is
    /// to wait.
    fn wait(&mut self, at_least: u32) {
        if self.enter(0, at_least).is_err() {
            std::thread::sleep(PAUSE);
        }
        self.reap();
    }

    fn enter(&self, submit: u32, wait_for: u32) -> io::Result<usize> {
        let submitter = self.ring.submitter();
        loop {
            // JUSTIFICATION: the crate's own calls do not ask for completions when they submit, which
            // DEFER_TASKRUN needs.
            // SAFETY: no argument but flags; what is submitted was pushed with its own promise.
            let entered =
                unsafe { submitter.enter::<libc::sigset_t>(submit, wait_for, IORING_ENTER_GETEVENTS, None) };
            match entered {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn reap(&mut self) {
        let Ring { ring, slots, free, done, .. } = self;
        for entry in ring.completion() {
            let slot = entry.user_data() as usize;
            let Some(request) = slots.get_mut(slot).and_then(Option::take) else { continue };
            let answer = match entry.result() {
                bytes @ 0.. => Ok(bytes as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            free.push(slot);
            done.push_back((request, answer));
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The kernel may read or write memory of the slots until it said that it is through.
impl Drop for Ring {
    fn drop(&mut self) {
        while self.slots.iter().any(Option::is_some) {
            self.wait(1);
        }
    }
}
