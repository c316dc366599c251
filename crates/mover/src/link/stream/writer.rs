//! The sending half.

use super::tls::TlsStream;
use super::{FrameBuffer, StopHandle};
use crate::failure::{Reason, io_because};
use crate::link::ktls::Decision;
use crate::link::sealed::Sealer;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use thalweg_sys::socket;
use thalweg_sys::socket::ktls::RECORD_BYTES;
use thalweg_wire::frame::{self, FrameKind, INNER_BYTES, Inner, OUTER_BYTES, TAG_BYTES};

/// The sending half of a data stream.
///
/// Dropped without [`FrameWriter::finish`], the peer sees a stream that was cut.
pub struct FrameWriter {
    socket: Arc<TcpStream>,
    pub(super) form: WriterForm,
    bytes_sent: u64,
    state: WriterState,
    /// In TLS form.
    pub(super) records: Option<Records>,
}

/// TLS records that a stream sends.
pub(super) struct Records {
    pub(super) sent: u64,
    pub(super) most: u64,
    /// Who seals them.
    pub(super) decision: Decision,
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
            return Err(io_because(io::ErrorKind::Other, Reason::KeyUsedUp, why));
        }
        self.sent = now;
        Ok(())
    }
}

pub(super) enum WriterForm {
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
    pub(super) fn new(socket: Arc<TcpStream>, form: WriterForm) -> FrameWriter {
        FrameWriter { socket, form, bytes_sent: 0, state: WriterState::Open, records: None }
    }

    /// Sends the first `payload_len` bytes of the buffer's payload and `inner` as one frame, with one system call in
    /// sealed form. Blocks until the kernel has taken all of it.
    ///
    /// Afterwards the buffer has ciphertext: fill it anew. After an error the stream is over.
    ///
    /// # Errors
    /// `InvalidInput` for a payload longer than the buffer's, an End frame (that is [`FrameWriter::finish`]), or a
    /// stream that is over; `WouldBlock` after the write timeout; else what the kernel says, for instance `BrokenPipe`.
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

    /// Bytes that wait in the socket because the path has no room for them; 0 if the kernel does not say.
    pub fn unsent_bytes(&self) -> u64 {
        thalweg_sys::socket::queued_unsent(&*self.socket).unwrap_or(0)
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
        StopHandle::new(self.socket.clone())
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
