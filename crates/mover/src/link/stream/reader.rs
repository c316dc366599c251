//! The receiving half.

use super::tls::TlsStream;
use super::{FrameBuffer, PAYLOAD_ALIGNMENT, StopHandle};
use crate::failure::{Reason, io_because, of_memory};
use crate::link::ktls;
use crate::link::sealed::Opener;
use crate::link::tls::{of_decode, of_tls};
use crate::{Failure, FailureKind, Result};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use thalweg_sys::socket::ktls::RECORD_BYTES;
use thalweg_sys::socket::{self, Interest};
use thalweg_wire::frame::{self, FrameKind, INNER_BYTES, Inner, OUTER_BYTES, TAG_BYTES};

/// What [`FrameReader::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A frame; its payload is in the buffer.
    Frame(Inner),
    /// The peer has sent everything, and says so under its key.
    End,
    /// The connection ended, failed or timed out without that. Whatever was on the way is lost.
    Cut(io::Error),
}

/// What else a thread that receives has to look after while it waits.
pub trait Meanwhile {
    /// Readable when there is something to notice; empty if nothing is to be looked after.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;
    /// Something may have ended.
    fn notice(&mut self);
    /// Waits until nothing is to be looked after.
    fn settle(&mut self);
    /// Bytes that are taken from the socket at once; then [`Meanwhile::before_portion`] is asked again.
    fn portion_bytes(&self) -> usize {
        usize::MAX
    }
    /// More is about to be taken: may wait.
    fn before_portion(&mut self) {}
    /// So many bytes were taken, or as many at most of a portion that was cut.
    fn took(&mut self, _bytes: usize) {}
}

/// Nothing else.
pub(super) struct Nothing;

impl Meanwhile for Nothing {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn notice(&mut self) {}

    fn settle(&mut self) {}
}

/// How long a wait beside others lasts before all are looked at, whatever was told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The receiving half of a data stream.
pub struct FrameReader {
    socket: Arc<TcpStream>,
    form: ReaderForm,
    bytes_received: u64,
    state: ReaderState,
    /// In TLS form.
    pub(super) records: Option<PeerRecords>,
}

/// TLS records that the peer has sent, as it counts them.
pub(super) struct PeerRecords {
    received: u64,
    /// Of its longest frame.
    longest: u64,
    /// After which it ends the stream.
    most: u64,
}

impl PeerRecords {
    pub(super) fn new(most: u64) -> PeerRecords {
        PeerRecords { received: 0, longest: 0, most }
    }

    /// Counts those of a frame.
    fn count(&mut self, frame_bytes: usize) {
        let records = frame_bytes.div_ceil(RECORD_BYTES) as u64;
        self.received += records;
        self.longest = self.longest.max(records);
    }

    /// The same end, and why where that is known: a peer whose next frame would be too much says nothing more.
    fn explained(&self, received: Received) -> Received {
        match received {
            Received::Cut(error) if self.received + self.longest > self.most => {
                let PeerRecords { received, most, .. } = self;
                let why = format!(
                    "the peer's TLS key has sealed {received} records of {most}; a new stream takes over"
                );
                Received::Cut(io_because(error.kind(), Reason::KeyUsedUp, why))
            }
            received => received,
        }
    }
}

pub(super) enum ReaderForm {
    Sealed(Box<Opener>),
    Tls(Arc<TlsStream>),
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Open,
    Ended,
    /// Cut or refused; what follows cannot be told from noise.
    Broken,
}

impl FrameReader {
    pub(super) fn new(socket: Arc<TcpStream>, form: ReaderForm) -> FrameReader {
        FrameReader { socket, form, bytes_received: 0, state: ReaderState::Open, records: None }
    }

    /// Receives one frame into `buffer`, with two system calls in sealed form. Blocks until it is there as a whole.
    ///
    /// After anything but a frame the stream is over: after `End` it says `End` again, else it fails.
    ///
    /// # Errors
    /// `Damage` for what is not authentic: a length that no frame has or the buffer does not take, a frame that does
    /// not open. The path or somebody on it has altered bytes (or the peer is broken); a new stream may be tried.
    /// `Protocol` for what the peer itself says wrongly.
    pub fn receive(&mut self, buffer: &mut FrameBuffer) -> Result<Received> {
        let payload_max = buffer.payload_max();
        self.receive_up_to(buffer, || payload_max, &mut Nothing)
    }

    /// As [`FrameReader::receive`]. A frame that does not fit the buffer gets a new one, if by now payloads of
    /// `payload_max` may come: while a stream waited, a transfer with larger frames may have begun. While it waits,
    /// `meanwhile` is looked after.
    ///
    /// # Errors
    /// As [`FrameReader::receive`], and if there is no memory.
    // Never a part of its caller: `cargo xtask instructions` counts what a frame costs from here on.
    #[inline(never)]
    pub fn receive_up_to(
        &mut self,
        buffer: &mut FrameBuffer,
        payload_max: impl FnOnce() -> usize,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Received> {
        buffer.payload_bytes = 0;
        match self.state {
            ReaderState::Open => {}
            ReaderState::Ended => return Ok(Received::End),
            ReaderState::Broken => {
                return Err(Failure::new(FailureKind::Internal, RECEIVE, "the stream is over"));
            }
        }
        self.state = ReaderState::Broken;
        let mut outer = [0; OUTER_BYTES];
        if let Err(fault) = self.fill(&mut outer, meanwhile) {
            let ended = fault.into_result()?;
            return Ok(match &self.records {
                Some(records) => records.explained(ended),
                None => ended,
            });
        }
        let length =
            frame::decode_outer(&outer).map_err(|error| Failure::new(FailureKind::Damage, RECEIVE, error))?;
        let overhead_bytes = INNER_BYTES + TAG_BYTES;
        let payload_max = match length > buffer.payload_max() + overhead_bytes {
            true => payload_max(),
            false => buffer.payload_max(),
        };
        let length_max = payload_max + overhead_bytes;
        if length > length_max {
            let why = format!("a frame of {length} bytes came where {length_max} are the most");
            return Err(Failure::new(FailureKind::Damage, RECEIVE, why));
        }
        if payload_max > buffer.payload_max() {
            *buffer = FrameBuffer::new(payload_max).map_err(|error| of_memory(RECEIVE, &error))?;
        }
        let body = &mut buffer.memory[PAYLOAD_ALIGNMENT..PAYLOAD_ALIGNMENT + length];
        if let Err(fault) = self.fill(body, meanwhile) {
            return fault.into_result();
        }
        let opened = match &mut self.form {
            ReaderForm::Sealed(opener) => opener.open(&outer, body)?,
            ReaderForm::Tls(_) | ReaderForm::Kernel => {
                let (opened, tag) = body.split_at_mut(length - TAG_BYTES);
                if tag.iter().any(|&byte| byte != 0) {
                    return Err(Failure::new(
                        FailureKind::Protocol,
                        RECEIVE,
                        "the place of the tag is not zero",
                    ));
                }
                opened
            }
        };
        let (inner, payload) = Inner::split(opened).map_err(|error| of_decode(RECEIVE, &error))?;
        let payload_bytes = payload.len();
        self.bytes_received += (OUTER_BYTES + length) as u64;
        if let Some(records) = &mut self.records {
            records.count(OUTER_BYTES + length);
        }
        if inner.kind == FrameKind::End {
            self.state = ReaderState::Ended;
            return Ok(Received::End);
        }
        buffer.payload_bytes = payload_bytes;
        self.state = ReaderState::Open;
        Ok(Received::Frame(inner))
    }

    /// Bytes of whole frames received, headers and tags included.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received
    }

    /// As [`set_timeouts`](super::FrameWriter::set_timeouts) of the writer.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        socket::set_timeouts(&*self.socket, read, write)
    }

    /// For TCP_INFO and options.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// For another thread to end the stream with, both halves.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle::new(self.socket.clone())
    }

    fn fill(&self, bytes: &mut [u8], meanwhile: &mut dyn Meanwhile) -> std::result::Result<(), Fault> {
        for portion in bytes.chunks_mut(meanwhile.portion_bytes().max(1)) {
            meanwhile.before_portion();
            let filled = self.fill_portion(portion, meanwhile);
            // Of one that is cut nobody knows how much came: it counts whole, or parts were for nothing.
            meanwhile.took(portion.len());
            filled?;
        }
        Ok(())
    }

    fn fill_portion(
        &self,
        bytes: &mut [u8],
        meanwhile: &mut dyn Meanwhile,
    ) -> std::result::Result<(), Fault> {
        match &self.form {
            ReaderForm::Sealed(_) | ReaderForm::Kernel => {
                let received = self.fill_beside(bytes, meanwhile).map_err(|error| self.fault(error))?;
                match received == bytes.len() {
                    true => Ok(()),
                    false => Err(Fault::Cut(cut())),
                }
            }
            ReaderForm::Tls(tls) => {
                // Whether rustls has bytes left cannot be waited for.
                meanwhile.settle();
                tls.receive(bytes)
            }
        }
    }

    fn fault(&self, error: io::Error) -> Fault {
        match socket::ktls::is_altered(&error) {
            true => Fault::Refused(of_tls(RECEIVE, &rustls::Error::DecryptError)),
            false => Fault::Cut(error),
        }
    }

    fn read_exact(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.form {
            ReaderForm::Kernel => ktls::fill(&self.socket, bytes, true),
            _ => socket::receive_exact(&*self.socket, bytes),
        }
    }

    /// `None` if nothing is there.
    fn read_now(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        if !matches!(self.form, ReaderForm::Kernel) {
            return socket::receive_now(&*self.socket, bytes);
        }
        match ktls::fill(&self.socket, bytes, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    /// With one call, if nothing else is to be looked after.
    fn fill_beside(&self, bytes: &mut [u8], meanwhile: &mut dyn Meanwhile) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            // The same until some of it is noticed.
            let others = meanwhile.fds();
            if others.is_empty() {
                return Ok(filled + self.read_exact(&mut bytes[filled..])?);
            }
            loop {
                match self.read_now(&mut bytes[filled..])? {
                    Some(0) => return Ok(filled),
                    Some(received) => {
                        filled += received;
                        if filled == bytes.len() {
                            return Ok(filled);
                        }
                    }
                    None => {
                        if self.wait_beside(&others)? {
                            break;
                        }
                    }
                }
            }
            drop(others);
            meanwhile.notice();
        }
    }

    /// Waits for more to read, and beside it for these. True if there may be something to notice.
    fn wait_beside(&self, others: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let mut fds = vec![(self.socket.as_fd(), Interest::READ)];
        fds.extend(others.iter().map(|&fd| (fd, Interest::READ)));
        let ready = socket::poll(&fds, Some(LOOK_AGAIN))?;
        Ok(!ready[0].any() || ready[1..].iter().any(|ready| ready.any()))
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameReader")
            .field("bytes_received", &self.bytes_received)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

pub(super) const RECEIVE: &str = "receive frame";

/// Why bytes did not come.
pub(super) enum Fault {
    Cut(io::Error),
    Refused(Failure),
}

impl Fault {
    pub(super) fn into_result(self) -> Result<Received> {
        match self {
            Fault::Cut(error) => Ok(Received::Cut(error)),
            Fault::Refused(failure) => Err(failure),
        }
    }
}

pub(super) fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended before its End frame")
}
