//! Blocking I/O on sockets and pipes alike, waiting on several descriptors, and waking a waiter.
//!
//! A time limit set by [`set_timeouts`] shows as an error of kind `WouldBlock`; how much was moved before it
//! is not told, so the stream is of no use afterwards. Sockets raise no `SIGPIPE`; for pipes that is left to
//! the process (Rust ignores it).

use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

use crate::uninterrupted;

/// Sends all bytes. `BrokenPipe` or `ConnectionReset` if the reader is gone; a part may have been sent then.
pub fn send_all(fd: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut is_socket = true;
    let mut rest = bytes;
    while !rest.is_empty() {
        let sent = if is_socket {
            rustix::net::send(fd, rest, SendFlags::NOSIGNAL)
        } else {
            rustix::io::write(fd, rest)
        };
        match sent {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::NOTSOCK) if is_socket => is_socket = false,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends all bytes of all pieces, in order, with as few system calls as the kernel allows. Allocates nothing.
/// Errors as [`send_all`].
pub fn send_all_vectored(fd: impl AsFd, pieces: &[&[u8]]) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut is_socket = true;
    for batch in pieces.chunks(PIECES_PER_CALL) {
        let mut slices = [IoSlice::new(&[]); PIECES_PER_CALL];
        for (slice, piece) in slices.iter_mut().zip(batch) {
            *slice = IoSlice::new(piece);
        }
        let mut rest = &mut slices[..batch.len()];
        // Empty pieces in front would make a finished batch look unfinished.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let sent = if is_socket {
                rustix::net::sendmsg(fd, rest, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
            } else {
                rustix::io::writev(fd, rest)
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(Errno::INTR) => {}
                Err(Errno::NOTSOCK) if is_socket => is_socket = false,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or the stream ends; returns the bytes read, fewer than asked for only at the
/// end.
pub fn receive_exact(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    receive_until(fd.as_fd(), buffer, RecvFlags::WAITALL, true)
}

/// Reads what is there, waiting for the first byte; returns the bytes read, 0 at the end of the stream (or
/// for an empty buffer).
pub fn receive(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    receive_until(fd.as_fd(), buffer, RecvFlags::empty(), false)
}

/// Reads what is there and never waits; 0 at the end of the stream (or for an empty buffer), `None` if nothing is
/// there. Sockets only.
pub fn receive_now(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match receive_until(fd.as_fd(), buffer, RecvFlags::DONTWAIT, false) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

/// Bounds each following call that reads, or writes, on a socket; `None` for no bound. `InvalidInput`
/// (`EINVAL`) for zero, `ENOTSOCK` for pipes.
pub fn set_timeouts(fd: impl AsFd, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
    set_socket_timeout(&fd, Timeout::Recv, read)?;
    Ok(set_socket_timeout(&fd, Timeout::Send, write)?)
}

/// Begins to connect a socket that does not block. When [`poll`] finds it writable it is connected or has failed, which
/// `SO_ERROR` says.
///
/// # Errors
/// What the kernel says at once, for instance that no route leads there.
pub fn begin_connect(fd: impl AsFd, address: &SocketAddr) -> io::Result<()> {
    match rustix::net::connect(fd, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends both directions of a socket; threads that wait in it come back at once. Queued bytes are still sent.
pub fn shutdown(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, Shutdown::Both)?)
}

/// Ends our direction of a socket: the peer reads what was sent and then the end of the stream.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, Shutdown::Write)?)
}

/// Opens a FIFO for reading, whether or not somebody writes to it. Links are followed: `/dev/fd/63` is one. Reads do
/// not wait: [`poll`] before.
///
/// # Errors
/// What the kernel says.
pub fn open_pipe(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// Opens a FIFO for writing; `None` where nobody reads it now. Links are followed, as by [`open_pipe`]. Writes wait.
///
/// # Errors
/// What else the kernel says.
pub fn open_pipe_to_write(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = match uninterrupted(|| rustix::fs::open(path, flags, Mode::empty())) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => return Ok(None),
        other => other?,
    };
    // Non-blocking was for the reader that may not be there.
    uninterrupted(|| rustix::fs::fcntl_setfl(&fd, OFlags::empty()))?;
    Ok(Some(fd))
}

/// Makes a pipe hold so many bytes, or as near to that as this user may (`/proc/sys/fs/pipe-max-size`); never fewer
/// than it does. Returns how many it holds.
///
/// # Errors
/// `EBADF` for what is no pipe.
pub fn widen_pipe(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = fd.as_fd();
    let holds = rustix::pipe::fcntl_getpipe_size(fd)?;
    let mut asked = bytes;
    while asked > holds {
        match rustix::pipe::fcntl_setpipe_size(fd, asked) {
            Ok(_) => break,
            // More than one may have, or all of this user's pipes may.
            Err(Errno::PERM | Errno::BUSY | Errno::NOMEM | Errno::INVAL) => asked /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}

/// What to wait for on a descriptor. Errors and hang-ups are always waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Until a read would not wait.
    pub read: bool,
    /// Until a write would not wait.
    pub write: bool,
}

impl Interest {
    /// Waits to read.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Waits to write.
    pub const WRITE: Interest = Interest { read: false, write: true };
    /// Waits for either.
    pub const BOTH: Interest = Interest { read: true, write: true };
}

/// What was found on a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read would not wait: bytes, the end of the stream, or an error.
    pub readable: bool,
    /// A write would not wait.
    pub writable: bool,
    /// The other end is gone. Bytes may still be readable.
    pub hung_up: bool,
    /// An error stands; the next call on the descriptor tells it.
    pub error: bool,
}

impl Readiness {
    /// Whether anything was found.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.hung_up || self.error
    }
}

/// Waits until one of the descriptors is ready, at most `timeout` (`None`: as long as it takes).
///
/// Returns one answer for each descriptor, in order; after the time is up none of them has any.
pub fn poll(fds: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<Vec<Readiness>> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, flags(*interest))).collect();
    // A time too far to reckon with is no bound.
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.iter().map(|fd| readiness(fd.revents())).collect()),
        }
    }
}

/// A flag that a thread can wait for with [`poll`] beside its sockets (`eventfd`).
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// A flag that is down. The error is that of a full table of descriptors.
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises the flag: it becomes readable for everyone who polls it. Never waits.
    pub fn wake(&self) -> io::Result<()> {
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes())) {
            // The counter is full: the flag is up.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lowers the flag; says whether it was up. Never waits.
    pub fn drain(&self) -> io::Result<bool> {
        let mut count = [0; 8];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut count)) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// 1 KiB of stack. A frame has a handful of pieces; the kernel would take 1024.
const PIECES_PER_CALL: usize = 64;

fn receive_until(fd: BorrowedFd<'_>, buffer: &mut [u8], how: RecvFlags, fill: bool) -> io::Result<usize> {
    let mut is_socket = true;
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        let received = if is_socket {
            rustix::net::recv(fd, rest, how).map(|(received, _)| received)
        } else {
            rustix::io::read(fd, rest)
        };
        match received {
            Ok(0) => break,
            Ok(received) => {
                filled += received;
                if !fill {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::NOTSOCK) if is_socket => is_socket = false,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN | PollFlags::RDHUP, interest.read);
    flags.set(PollFlags::OUT, interest.write);
    flags
}

fn readiness(found: PollFlags) -> Readiness {
    Readiness {
        readable: found.intersects(PollFlags::IN | PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR),
        writable: found.intersects(PollFlags::OUT | PollFlags::ERR),
        hung_up: found.intersects(PollFlags::HUP | PollFlags::RDHUP),
        error: found.intersects(PollFlags::ERR | PollFlags::NVAL),
    }
}
