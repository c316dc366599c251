//! Frames over a socket. In sealed form: one send a frame, two receives a frame, nothing copied, nothing allocated.
//!
//! [`Connection::into_streams`] ends the TLS of a data connection and gives a [`FrameWriter`] and a [`FrameReader`].
//! Both may be used at once by two threads, or one of them alone. In TLS form (for sites whose rules demand TLS on the
//! wire) frames travel inside TLS 1.3 records, of the same layout with 16 zero bytes in place of the tag; that takes
//! more than twice the CPU. Where the kernel seals these records ([`ktls`]), a frame is one call again. Whoever seals
//! them, a stream in TLS form fails before its key is used up ([`TlsForm::records_max`]), and a new one takes over.
//!
//! Waits are bounded by [`FrameWriter::set_timeouts`] for each system call, and by [`StopHandle::stop`] from another
//! thread for all of them. The timeouts alone do not bound a peer that sends a byte now and then; whoever owns the
//! transfer watches its progress and stops the stream.

use super::ktls::{self, Decision, TlsForm};
use super::sealed::{Opener, SEALED_LABEL, SECRET_BYTES, Sealer};
use super::tls::{Connection, context_of, is_transient, of_decode, of_tls};
use crate::failure::of_io;
use crate::{Failure, FailureKind, Result};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg_sys::buffer::{Buffer, Memory, PooledBuffer};
use thalweg_sys::socket::ktls::RECORD_BYTES;
use thalweg_sys::socket::{self, Interest, TcpInfo};
use thalweg_wire::account::StreamAccount;
use thalweg_wire::frame::{self, FrameKind, INNER_BYTES, Inner, OUTER_BYTES, TAG_BYTES};
use thalweg_wire::hello::{Cipher, SessionId};
use thalweg_wire::limits;
use zeroize::Zeroizing;

/// Which end of the TLS connection we are: decides which keys are for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We connected.
    Client,
    /// We accepted.
    Server,
}

/// Memory for one frame: the payload at an address that direct I/O takes, the outer header right before it, the inner
/// header and the tag right behind, so that all of it goes out in one piece.
///
/// ```text
/// page 0                     page 1
/// [ unused ... outer header ][ payload ... inner header, tag ]
/// ```
pub struct FrameBuffer {
    memory: Memory,
    /// Bytes of the payload last received.
    payload_bytes: usize,
}

/// What the payload's address is a multiple of.
pub const PAYLOAD_ALIGNMENT: usize = 4096;

impl FrameBuffer {
    /// A buffer for payloads of at most `payload_max` bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, or `InvalidInput` above what a frame may have ([`limits::FRAME_BYTES_MAX`]).
    pub fn new(payload_max: usize) -> io::Result<FrameBuffer> {
        if payload_max > limits::FRAME_BYTES_MAX - INNER_BYTES - TAG_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no frame has so large a payload"));
        }
        Ok(FrameBuffer {
            memory: Memory::Own(Buffer::new(Self::memory_bytes(payload_max))?),
            payload_bytes: 0,
        })
    }

    /// A buffer in memory from a pool, whose buffers have [`FrameBuffer::memory_bytes`]. It has what its last user left.
    ///
    /// # Errors
    /// `InvalidInput` if it is too small for an empty frame.
    pub fn pooled(memory: PooledBuffer) -> io::Result<FrameBuffer> {
        if memory.len() < Self::memory_bytes(0)
            || !(memory.as_ptr() as usize).is_multiple_of(PAYLOAD_ALIGNMENT)
        {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is too small for a frame"));
        }
        Ok(FrameBuffer { memory: Memory::Pooled(memory), payload_bytes: 0 })
    }

    /// Memory that a buffer for payloads of `payload_max` bytes takes.
    pub const fn memory_bytes(payload_max: usize) -> usize {
        PAYLOAD_ALIGNMENT + payload_max + INNER_BYTES + TAG_BYTES
    }

    /// Most bytes a payload in it can have.
    pub fn payload_max(&self) -> usize {
        self.memory.len() - Self::memory_bytes(0)
    }

    /// The payload last received; empty before the first and after a failure.
    pub fn payload(&self) -> &[u8] {
        &self.memory[PAYLOAD_ALIGNMENT..PAYLOAD_ALIGNMENT + self.payload_bytes]
    }

    /// Room for a payload, [`FrameBuffer::payload_max`] bytes at an address that is a multiple of
    /// [`PAYLOAD_ALIGNMENT`]. Has what was left there.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = PAYLOAD_ALIGNMENT + self.payload_max();
        &mut self.memory[PAYLOAD_ALIGNMENT..end]
    }

    /// Takes the memory out, payload and all, and puts other in its place. The payload begins at [`PAYLOAD_ALIGNMENT`].
    pub fn replace_memory(&mut self, memory: Memory) -> Memory {
        self.payload_bytes = 0;
        std::mem::replace(&mut self.memory, memory)
    }

    /// All of a frame with `body` bytes behind its outer header.
    fn frame_mut(&mut self, body: usize) -> &mut [u8] {
        &mut self.memory[PAYLOAD_ALIGNMENT - OUTER_BYTES..PAYLOAD_ALIGNMENT + body]
    }
}

/// Sizes; the content is the user's.
impl fmt::Debug for FrameBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameBuffer")
            .field("payload_max", &self.payload_max())
            .field("payload_bytes", &self.payload_bytes)
            .finish()
    }
}

/// Ends a connection from another thread: whoever waits in it comes back at once, with a cut connection.
#[derive(Clone)]
pub struct StopHandle(Arc<TcpStream>);

impl StopHandle {
    pub(super) fn new(socket: Arc<TcpStream>) -> StopHandle {
        StopHandle(socket)
    }

    /// Shuts the socket down, both ways. Never waits; does nothing the second time.
    pub fn stop(&self) {
        // The only error is that it is not connected any more.
        let _ = socket::shutdown(&*self.0);
    }

    /// Bytes that the peer's kernel acknowledged, and whether more are on their way. `None` where the kernel does not
    /// say. Bytes for which the peer has no room are not on their way.
    pub fn delivered(&self) -> Option<(u64, bool)> {
        let info = socket::tcp_info(&*self.0).ok()?;
        Some((info.bytes_acked, info.unacked_packets > 0))
    }

    /// The kernel's own account. `None` where it has none.
    pub fn info(&self) -> Option<TcpInfo> {
        socket::tcp_info(&*self.0).ok()
    }

    /// Has the kernel send no more than so many bytes a second, packets evenly spaced; `u64::MAX` for no limit.
    pub fn pace(&self, bytes_per_s: u64) {
        // What is no TCP socket goes on as it did.
        let _ = socket::set_pacing_rate(&*self.0, bytes_per_s);
    }

    /// What the kernel says about what we send. `None` where it does not say.
    pub fn account(&self, stream: u16) -> Option<StreamAccount> {
        let info = socket::tcp_info(&*self.0).ok()?;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_path = !info.delivery_rate_app_limited;
        let delivery = info.delivery_rate_bytes_per_s;
        Some(StreamAccount {
            stream,
            acked_bytes: info.bytes_acked,
            rtt_nanos: nanos(info.rtt),
            rtt_min_nanos: nanos(info.rtt_min),
            cwnd_bytes: u64::from(info.cwnd_packets) * u64::from(info.mss_bytes),
            window_bytes: u64::from(info.send_window_bytes),
            busy_nanos: nanos(info.busy_time),
            rwnd_limited_nanos: nanos(info.rwnd_limited),
            sndbuf_limited_nanos: nanos(info.sndbuf_limited),
            sent_bytes: info.bytes_sent,
            retransmitted_bytes: info.bytes_retrans,
            delivery_bytes_per_s: delivery,
            delivery_bytes_per_s_max: if is_path { delivery } else { 0 },
            congestion: socket::congestion(&*self.0).unwrap_or_default(),
        })
    }

    /// Bytes that came from the peer so far, parts of frames included. `None` where the kernel does not say.
    pub fn arrived(&self) -> Option<u64> {
        Some(socket::tcp_info(&*self.0).ok()?.bytes_received)
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopHandle")
    }
}

impl Connection {
    /// Makes a data stream of this connection, after hello and answer: the last step of both ends.
    ///
    /// With a sealing cipher TLS ends here, without an alert; the keys are exported for `session` and `stream`. With
    /// [`Cipher::Tls`] it goes on. The socket blocks from here on.
    ///
    /// # Errors
    /// `Protocol` if the peer has sent more than its hello inside TLS, or the roles are not those of the handshake.
    pub fn into_streams(
        self,
        cipher: Cipher,
        session: &SessionId,
        stream: u16,
        role: Role,
    ) -> Result<(FrameWriter, FrameReader)> {
        self.into_streams_with(cipher, session, stream, role, limits::KEY_BYTES_MAX)
    }

    /// As [`Connection::into_streams`] with another limit on what a key seals, for tests of the change of keys.
    pub(super) fn into_streams_with(
        mut self,
        cipher: Cipher,
        session: &SessionId,
        stream: u16,
        role: Role,
        key_bytes_max: u64,
    ) -> Result<(FrameWriter, FrameReader)> {
        const OPERATION: &str = "begin stream";
        let is_client = matches!(self.tls, rustls::Connection::Client(_));
        if is_client != (role == Role::Client) {
            return Err(Failure::new(
                FailureKind::Internal,
                OPERATION,
                "the role is not that of the handshake",
            ));
        }
        self.socket.set_nonblocking(false).map_err(|error| of_io(OPERATION, &error))?;
        if cipher == Cipher::Tls {
            return self.into_tls_streams();
        }
        if self.holds_plaintext() || self.tls.wants_write() {
            return Err(Failure::new(
                FailureKind::Protocol,
                OPERATION,
                "the peer sent more than its hello in TLS",
            ));
        }
        let secrets =
            Zeroizing::new(self.export::<{ 2 * SECRET_BYTES }>(SEALED_LABEL, &context_of(session, stream))?);
        let mut to_server = Zeroizing::new([0; SECRET_BYTES]);
        let mut to_client = Zeroizing::new([0; SECRET_BYTES]);
        to_server.copy_from_slice(&secrets[..SECRET_BYTES]);
        to_client.copy_from_slice(&secrets[SECRET_BYTES..]);
        let (ours, theirs) = match role {
            Role::Client => (to_server, to_client),
            Role::Server => (to_client, to_server),
        };
        let sealer = Sealer::new(cipher, &ours, key_bytes_max)?;
        let opener = Opener::new(cipher, &theirs, key_bytes_max)?;
        let writer = FrameWriter::new(self.socket.clone(), WriterForm::Sealed(Box::new(sealer)));
        Ok((writer, FrameReader::new(self.socket, ReaderForm::Sealed(Box::new(opener)))))
    }

    fn into_tls_streams(mut self) -> Result<(FrameWriter, FrameReader)> {
        let TlsForm { kernel, records_max } = self.tls_form;
        let mut decision = match self.holds_plaintext() {
            // The kernel would begin behind it.
            true => Decision::not_used("the peer's first frame is here already"),
            false => kernel.decide(self.suite()),
        };
        let handed_over = match decision.is_used {
            true => ktls::hand_over(&self.socket, self.tls)?.map_err(|(tls, why)| {
                decision = Decision::not_used(why);
                tls
            }),
            false => Err(self.tls),
        };
        let (writer_form, reader_form) = match handed_over {
            Ok(()) => (WriterForm::Kernel, ReaderForm::Kernel),
            Err(tls) => {
                let shared = Arc::new(TlsStream::new(self.socket.clone(), tls));
                (WriterForm::Tls(shared.clone(), Vec::new()), ReaderForm::Tls(shared))
            }
        };
        let mut writer = FrameWriter::new(self.socket.clone(), writer_form);
        writer.records = Some(Records { sent: 0, most: records_max, decision });
        Ok((writer, FrameReader::new(self.socket, reader_form)))
    }
}

/// The sending half of a data stream.
///
/// Dropped without [`FrameWriter::finish`], the peer sees a stream that was cut.
pub struct FrameWriter {
    socket: Arc<TcpStream>,
    form: WriterForm,
    bytes_sent: u64,
    state: WriterState,
    /// In TLS form.
    records: Option<Records>,
}

/// TLS records that a stream sends.
struct Records {
    sent: u64,
    most: u64,
    /// Who seals them.
    decision: Decision,
}

impl Records {
    /// Counts those of a frame. The first goes out whatever it has, or nothing ever would.
    fn count(&mut self, frame_bytes: usize) -> io::Result<()> {
        let now = self.sent + frame_bytes.div_ceil(RECORD_BYTES) as u64;
        if self.sent > 0 && now > self.most {
            let why = format!(
                "its TLS key has sealed {} records of {}; a new stream takes over",
                self.sent, self.most
            );
            return Err(io::Error::other(why));
        }
        self.sent = now;
        Ok(())
    }
}

enum WriterForm {
    Sealed(Box<Sealer>),
    /// With memory for records.
    Tls(Arc<TlsStream>, Vec<u8>),
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    Open,
    /// The End frame is sent.
    Finished,
    /// A frame went out in part, or not at all; what follows would not open.
    Broken,
}

impl FrameWriter {
    fn new(socket: Arc<TcpStream>, form: WriterForm) -> FrameWriter {
        FrameWriter { socket, form, bytes_sent: 0, state: WriterState::Open, records: None }
    }

    /// Sends the first `payload_len` bytes of the buffer's payload and `inner` as one frame, with one system call in
    /// sealed form. Blocks until the kernel has taken all of it.
    ///
    /// Afterwards the buffer has ciphertext: fill it anew. After an error the stream is over.
    ///
    /// # Errors
    /// `InvalidInput` for a payload longer than the buffer's, an End frame (that is [`FrameWriter::finish`]), or a stream
    /// that is over; `WouldBlock` after the write timeout; else what the kernel says, for instance `BrokenPipe`.
    pub fn send(&mut self, buffer: &mut FrameBuffer, payload_len: usize, inner: &Inner) -> io::Result<()> {
        if payload_len > buffer.payload_max() || inner.kind == FrameKind::End {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no frame to send"));
        }
        buffer.payload_bytes = 0;
        self.send_frame(buffer.frame_mut(payload_len + INNER_BYTES + TAG_BYTES), inner)
    }

    /// Sends the End frame: the peer then knows that it has everything. The socket stays open.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    pub fn finish(&mut self) -> io::Result<()> {
        let mut frame = [0; OUTER_BYTES + INNER_BYTES + TAG_BYTES];
        self.send_frame(&mut frame, &Inner::end())?;
        self.state = WriterState::Finished;
        Ok(())
    }

    /// Bytes of frames handed to the kernel, headers and tags included (in TLS form without what TLS adds).
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// In TLS form: who seals its records, and why.
    pub fn kernel_tls(&self) -> Option<&Decision> {
        self.records.as_ref().map(|records| &records.decision)
    }

    /// Bounds each system call on the socket, for both halves; `None` for no bound. Over sockets only.
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
        StopHandle(self.socket.clone())
    }

    /// `frame` is outer header, payload, inner header, tag; all but the payload are written here.
    fn send_frame(&mut self, frame: &mut [u8], inner: &Inner) -> io::Result<()> {
        if self.state != WriterState::Open {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the stream is over"));
        }
        self.state = WriterState::Broken;
        if let Some(records) = &mut self.records {
            records.count(frame.len())?;
        }
        let outer = frame::encode_outer(frame.len() - OUTER_BYTES);
        let (head, body) = frame.split_at_mut(OUTER_BYTES);
        head.copy_from_slice(&outer);
        let (plaintext, tag) = body.split_at_mut(body.len() - TAG_BYTES);
        let inner_at = plaintext.len() - INNER_BYTES;
        plaintext[inner_at..].copy_from_slice(&inner.encode());
        match &mut self.form {
            WriterForm::Sealed(sealer) => {
                tag.copy_from_slice(&sealer.seal(&outer, plaintext).map_err(io::Error::other)?);
                socket::send_all(&*self.socket, frame)?;
            }
            WriterForm::Tls(tls, records) => {
                tag.fill(0);
                tls.send(frame, records)?;
            }
            WriterForm::Kernel => {
                tag.fill(0);
                socket::send_all(&*self.socket, frame)?;
            }
        }
        self.bytes_sent += frame.len() as u64;
        self.state = WriterState::Open;
        Ok(())
    }
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter")
            .field("bytes_sent", &self.bytes_sent)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

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
}

/// Nothing else.
struct Nothing;

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
}

enum ReaderForm {
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
    fn new(socket: Arc<TcpStream>, form: ReaderForm) -> FrameReader {
        FrameReader { socket, form, bytes_received: 0, state: ReaderState::Open }
    }

    /// Receives one frame into `buffer`, with two system calls in sealed form. Blocks until it is there as a whole.
    ///
    /// After anything but a frame the stream is over: after `End` it says `End` again, else it fails.
    ///
    /// # Errors
    /// `Damage` for what is not authentic: a length that no frame has or the buffer does not take, a frame that does not
    /// open. The path or somebody on it has altered bytes (or the peer is broken); a new stream may be tried. `Protocol`
    /// for what the peer itself says wrongly.
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
            return fault.into_result();
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
            *buffer = FrameBuffer::new(payload_max).map_err(|error| of_io(RECEIVE, &error))?;
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

    /// As [`FrameWriter::set_timeouts`].
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
        StopHandle(self.socket.clone())
    }

    fn fill(&self, bytes: &mut [u8], meanwhile: &mut dyn Meanwhile) -> std::result::Result<(), Fault> {
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
            let others = meanwhile.fds();
            if others.is_empty() {
                return Ok(filled + self.read_exact(&mut bytes[filled..])?);
            }
            match self.read_now(&mut bytes[filled..])? {
                Some(0) => return Ok(filled),
                Some(received) => {
                    filled += received;
                    if filled == bytes.len() {
                        return Ok(filled);
                    }
                }
                None => {
                    let mut fds = vec![(self.socket.as_fd(), Interest::READ)];
                    fds.extend(others.iter().map(|&fd| (fd, Interest::READ)));
                    let ready = socket::poll(&fds, Some(LOOK_AGAIN))?;
                    drop(fds);
                    drop(others);
                    if !ready[0].any() || ready[1..].iter().any(|ready| ready.any()) {
                        meanwhile.notice();
                    }
                }
            }
        }
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

const RECEIVE: &str = "receive frame";

/// Why bytes did not come.
enum Fault {
    Cut(io::Error),
    Refused(Failure),
}

impl Fault {
    fn into_result(self) -> Result<Received> {
        match self {
            Fault::Cut(error) => Ok(Received::Cut(error)),
            Fault::Refused(failure) => Err(failure),
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended before its End frame")
}

/// A stream in TLS form, used by its two halves, each on a thread of its own or one of them not at all.
///
/// The halves share what rustls knows, never while one of them waits for the socket: a writer in front of a full socket
/// does not keep the reader from reading, else two movers that send to each other would wait for ever. Only the writer
/// sends; what the reader makes rustls want to say goes out with the next frame.
///
/// Ours never change keys: a stream is replaced before. A peer of another make may, and ask us to do the same;
/// so somebody must read what it says, also where only one direction is used. The writer does, between frames, while no reader is at work. rustls takes 32 of them from a peer
/// that sends no data (then the stream is refused, after 8 TiB); our own movers never get there, because rustls keeps
/// its answers back until there is something else to send.
struct TlsStream {
    socket: Arc<TcpStream>,
    inbox: Mutex<Inbox>,
    /// Locked after `inbox`, for no longer than rustls takes.
    tls: Mutex<rustls::Connection>,
}

/// TLS bytes from the socket that rustls has not taken yet. Its lock is the right to read from the socket.
#[derive(Default)]
struct Inbox {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    /// The socket has no more.
    is_ended: bool,
}

/// TLS bytes taken from the socket at once: four records.
const INBOX_BYTES: usize = 4 * ((16 << 10) + 64);
/// Plaintext turned into records at once, four of them: between 64 KiB and 1 MiB no difference was measured (0.82 to
/// 0.93 CPU-s/GB for both ends over loopback, frames of 512 KiB; sealed 0.36).
const BATCH_BYTES: usize = 64 << 10;

impl TlsStream {
    fn new(socket: Arc<TcpStream>, mut tls: rustls::Connection) -> TlsStream {
        // Emptied after each batch, so its own bound would only cost a check.
        tls.set_buffer_limit(None);
        TlsStream { socket, inbox: Mutex::default(), tls: Mutex::new(tls) }
    }

    /// No foreign code runs under the lock; after a panic inside of rustls its own state refuses.
    fn tls(&self) -> MutexGuard<'_, rustls::Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame; `records` is memory kept from call to call.
    fn send(&self, frame: &[u8], records: &mut Vec<u8>) -> io::Result<()> {
        self.read_answers()?;
        for batch in frame.chunks(BATCH_BYTES) {
            records.clear();
            let mut tls = self.tls();
            tls.writer().write_all(batch)?;
            while tls.wants_write() {
                tls.write_tls(records)?;
            }
            drop(tls);
            socket::send_all(&*self.socket, records)?;
        }
        Ok(())
    }

    /// Has rustls see what the peer says, without waiting, unless a reader is at it or has something to fetch.
    fn read_answers(&self) -> io::Result<()> {
        let Ok(mut inbox) = self.inbox.try_lock() else { return Ok(()) };
        while !inbox.is_ended {
            if inbox.is_empty() {
                let ready = socket::poll(&[(self.socket.as_fd(), Interest::READ)], Some(Duration::ZERO))?;
                if !ready.iter().any(|ready| ready.readable) {
                    return Ok(());
                }
                inbox.fill(&self.socket)?;
            }
            let mut tls = self.tls();
            match tls.reader().into_first_chunk() {
                // Frames, or the peer's end: the reader's business.
                Ok(_) => return Ok(()),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
            match inbox.give(&mut tls) {
                Ok(()) => {}
                Err(Fault::Cut(_)) => inbox.is_ended = true,
                Err(Fault::Refused(failure)) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, failure));
                }
            }
        }
        Ok(())
    }

    fn receive(&self, bytes: &mut [u8]) -> std::result::Result<(), Fault> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filled = 0;
        while filled < bytes.len() {
            let mut tls = self.tls();
            match tls.reader().read(&mut bytes[filled..]) {
                Ok(0) => return Err(Fault::Cut(cut())),
                Ok(read) => filled += read,
                Err(error) if !is_transient(&error) => return Err(Fault::Cut(error)),
                Err(_) if !inbox.is_empty() => inbox.give(&mut tls)?,
                Err(_) => {
                    drop(tls);
                    inbox.fill(&self.socket).map_err(Fault::Cut)?;
                    if inbox.is_ended {
                        return Err(Fault::Cut(cut()));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Waits for bytes from the socket, or its end.
    fn fill(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; INBOX_BYTES].into_boxed_slice();
        }
        (self.from, self.to) = (0, socket::receive(socket, &mut self.bytes)?);
        self.is_ended = self.to == 0;
        Ok(())
    }

    /// Has rustls take some of it; there is some, and rustls holds no plaintext.
    fn give(&mut self, tls: &mut rustls::Connection) -> std::result::Result<(), Fault> {
        let mut rest = &self.bytes[self.from..self.to];
        let taken = tls.read_tls(&mut rest).map_err(Fault::Cut)?;
        if taken == 0 {
            // After close_notify nothing counts.
            return Err(Fault::Cut(cut()));
        }
        self.from += taken;
        tls.process_new_packets().map_err(|error| Fault::Refused(of_tls(RECEIVE, &error)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
