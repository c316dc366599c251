//! All connections between two movers: who the peer is, TLS, the control channel, the data streams.
//!
//! 1. [`Identity`] and trust say who we are and whom we accept ([`ServerTrust`], [`ClientTrust`], [`Ticket`],
//!    [`PlaceFile`], [`Token`]).
//! 2. [`Connection`] makes TLS 1.3 of a socket, within a total deadline, and exchanges hellos.
//! 3. A control connection becomes a [`ControlChannel`]: messages and heartbeats on a thread of its own.
//! 4. A data connection becomes a [`FrameWriter`] and a [`FrameReader`]: sealed frames, or frames in TLS.
//! 5. Where no daemon runs, [`ssh`] starts the far mover.
//!
//! Every wait here has an end that the peer cannot move. Nothing a peer says is believed before its TLS handshake
//! is done, and nothing is allocated by a number it sent.

// 1. Who we are.
pub mod identity;

// 1. Whom we accept.
pub mod trust;

// 1. What a server gives its client to carry.
pub mod ticket;

// 1. What says who a server is, and is no secret.
pub mod place_file;

// 1. What an identity provider gives a client to show.
pub mod token;

// 2. TLS 1.3 and the hellos.
pub mod tls;

// 3. Messages between two movers.
pub mod control;

// 4. Frames sealed and opened, without I/O.
pub mod sealed;

// 4. Frames over a socket.
pub mod stream;

// 4. Frames in TLS that the kernel seals.
pub mod ktls;

// 4. What a socket is told about its path.
pub mod socket_options;

// 5. Which addresses are dialled.
pub mod family;

// 6. Connections by the user's own ssh.
pub mod ssh;

pub mod secret_file;

#[cfg(test)]
pub(crate) mod testing;

pub use control::{ControlChannel, ControlEnd, ControlHandle, ControlLimits, STALL_TIMEOUT};
pub use family::Family;
pub use identity::{Fingerprint, Identity, public_key_of, verify_signature};
pub use ktls::{KernelTls, TlsForm};
pub use place_file::{Pass, PlaceFile};
pub use sealed::{Opener, Sealer};
pub use socket_options::{PathHints, mark, own_system, set_stream_options};
pub use stream::{
    FrameBuffer, FrameReader, FrameWriter, Meanwhile, PAYLOAD_ALIGNMENT, Received, Role, StopHandle,
};
pub use ticket::Ticket;
pub use tls::{
    Connection, client_config, proof_matches, resume_proof, server_config, statement_tie, stream_proof,
};
pub use token::{Token, TokenSource};
pub use trust::{ClientTrust, Pins, Register, ServerTrust};
