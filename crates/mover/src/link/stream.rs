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

// Memory for one frame.
mod buffer;

// A stream as others see it.
mod handle;

// The sending half.
mod writer;

// The receiving half.
mod reader;

// Frames inside TLS records.
mod tls;

#[cfg(test)]
mod tests;

pub use buffer::{FrameBuffer, PAYLOAD_ALIGNMENT};
pub use handle::StopHandle;
pub use reader::{FrameReader, Meanwhile, Received};
pub use writer::FrameWriter;

use self::tls::TlsStream;
use super::ktls::{self, Decision, TlsForm};
use super::sealed::{Opener, SEALED_LABEL, SECRET_BYTES, Sealer};
use super::tls::{Connection, context_of};
use crate::failure::of_io;
use crate::{Failure, FailureKind, Result};
use reader::{PeerRecords, ReaderForm};
use std::sync::Arc;
use thalweg_wire::hello::{Cipher, SessionId};
use thalweg_wire::limits;
use writer::{Records, WriterForm};
use zeroize::Zeroizing;

/// Which end of the TLS connection we are: decides which keys are for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We connected.
    Client,
    /// We accepted.
    Server,
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
        let mut reader = FrameReader::new(self.socket, reader_form);
        // Where this side sends it may be asked for fewer; a server is not.
        reader.records = Some(PeerRecords::new(ktls::RECORDS_MAX));
        Ok((writer, reader))
    }
}
