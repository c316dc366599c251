//! The steps of a byte's journey, in their order, and the account of each.
//!
//! The data path has one blocking thread per stream and side, and each runs a frame to completion: at the
//! sender read, digest, compress, seal, send; at the receiver receive, open, expand, verify, write. Handing frames
//! from thread to thread cost 0.3 CPU-s/GB more. What follows a write (sync, record, finish) is done for
//! many chunks at once by one thread of its own.

mod account;

pub use account::{Accounts, Booking, Clocks, READINGS_A_SEGMENT, Stopwatch, UnderWay};

// What the receiving stages tell the transfer that they work for, and ask of it.
pub mod receiving;

// Requests to disks, one after the other.
pub mod turn;

// Bytes from the source into a buffer.
pub mod read;

// The next segments while one is worked on.
pub mod ahead;

// Compress where it pays.
pub mod compress;

// No faster than asked.
pub mod pace;

// Out: sealed frames, or straight to the other side of the same process.
pub mod send;

// In: expand, verify.
pub mod intake;

// Verified bytes to their place, several writes in flight.
pub mod write;

// What was synced, from the medium.
pub mod read_back;

// Rounds: sync, read back, record, finish.
pub mod round;

/// The stages, numbered in the order in which a byte passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Listing the source.
    Scan,
    /// Reading chunks of the source; at the destination, of a file that stands there: to compare it.
    Read,
    /// Opening and reading small files of the source.
    Open,
    /// Digesting what was read.
    Digest,
    /// Compressing it.
    Compress,
    /// Being no faster than asked. Its bytes are those that are sent: packed ones as they are.
    Pace,
    /// Being no faster than the operator of this side lets all that it moves be. Its bytes are those of the pace.
    Limit,
    /// Sealing and handing it to the kernel.
    Send,
    /// Taking frames from the kernel and opening them.
    Receive,
    /// Expanding what was compressed.
    Expand,
    /// Comparing digests of what came.
    Verify,
    /// Looking at what stands at the destination; making what has no content.
    Decide,
    /// Writing chunks at the destination.
    Write,
    /// Creating and writing small files.
    Create,
    /// Making bytes durable.
    Sync,
    /// Reading back from the medium.
    ReadBack,
    /// Making the journal durable.
    Record,
    /// Giving entries their names and metadata.
    Finish,
    /// The end: metadata of directories, deletions, the last sync.
    Conclude,
    /// Beside that journey: copying what stands at the destination already to where it is wanted.
    Copy,
    /// Beside it, too: reading again what an earlier attempt left, and digesting it.
    Reread,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 21] = [
        Stage::Scan,
        Stage::Read,
        Stage::Open,
        Stage::Digest,
        Stage::Compress,
        Stage::Pace,
        Stage::Limit,
        Stage::Send,
        Stage::Receive,
        Stage::Expand,
        Stage::Verify,
        Stage::Decide,
        Stage::Write,
        Stage::Create,
        Stage::Sync,
        Stage::ReadBack,
        Stage::Record,
        Stage::Finish,
        Stage::Conclude,
        Stage::Copy,
        Stage::Reread,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Scan => "scan",
            Stage::Read => "read",
            Stage::Open => "open",
            Stage::Digest => "digest",
            Stage::Compress => "compress",
            Stage::Pace => "pace",
            Stage::Limit => "limit",
            Stage::Send => "send",
            Stage::Receive => "receive",
            Stage::Expand => "expand",
            Stage::Verify => "verify",
            Stage::Decide => "decide",
            Stage::Write => "write",
            Stage::Create => "create",
            Stage::Sync => "sync",
            Stage::ReadBack => "read back",
            Stage::Record => "record",
            Stage::Finish => "finish",
            Stage::Conclude => "conclude",
            Stage::Copy => "copy",
            Stage::Reread => "reread",
        }
    }
}
