//! What travels between two movers and what is stored beside the data.
//!
//! Everything here is pure: bytes in, values out, and back. No I/O, no clock, no randomness, so every
//! decoder can be fuzzed and every layout can be held against a golden vector (`vectors/`).
//!
//! In the order in which a byte meets them:
//! [`hello`] opens a connection, [`message`] is what control connections say, [`frame`] is what data streams
//! carry, [`digest`] combines what was read into what is promised, [`journal`] is what a destination
//! remembers, [`receipt`] what both sides sign.
//!
//! Guarantee of every decoder: any input gives a value or an error; lengths are checked before memory is
//! taken; what is reserved must be zero.
#![forbid(unsafe_code)]

pub mod limits;

pub mod path;

pub mod entry;

pub mod hello;

pub mod message;

pub mod account;

pub mod frame;

pub mod digest;

pub mod hex;

pub mod journal;

pub mod spill;

pub mod receipt;

#[cfg(any(test, feature = "vectors"))]
pub mod vectors;

pub use digest::Digest;
pub use entry::{Entry, EntryId, Evidence, Kind, Time};
pub use path::RelativePath;

/// Why bytes from a peer or from a stored file were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the layout needs.
    #[error("{what} ends after {have} of {need} bytes")]
    Short {
        /// What was being decoded.
        what: &'static str,
        /// Bytes the layout needs.
        need: usize,
        /// Bytes that were there.
        have: usize,
    },
    /// A number above its limit.
    #[error("{what} is {value}, above the limit of {limit}")]
    TooLarge {
        /// What the number counts.
        what: &'static str,
        /// What the peer said.
        value: u64,
        /// Our limit.
        limit: u64,
    },
    /// The bytes do not start as this structure must.
    #[error("this is not a {what}")]
    Magic {
        /// What was expected.
        what: &'static str,
    },
    /// A value that no correct peer sends.
    #[error("{what} is not valid")]
    Invalid {
        /// Which value.
        what: &'static str,
    },
    /// A frame whose payload is not what its shape says.
    #[error("a frame of {bytes} bytes does not have the shape {shape}")]
    Shape {
        /// The shape, the type of an element, and the bytes of all, as far as they are known.
        shape: String,
        /// Bytes of the payload.
        bytes: u64,
    },
    /// The check value over a stored record is wrong.
    #[error("{what} is damaged: its check value does not match")]
    Damaged {
        /// Which structure.
        what: &'static str,
    },
}
