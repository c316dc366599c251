//! What becomes of an entry: what is wanted of it, what is safe of it, and the final word; and the sums over all.

use super::{Failure, FailureKind, Left, check_count, list_bytes};
use crate::digest::Digest;
use crate::entry::Evidence;
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// A run of chunks `first .. first + count` of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// First chunk.
    pub first: u64,
    /// How many; at least 1.
    pub count: u64,
}

impl Run {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self.first.checked_add(self.count) {
            Some(end) if end > self.first => Ok(()),
            _ => Err(DecodeError::Invalid { what: "run" }),
        }
    }
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ScanTotals {
    /// Entries offered.
    pub entries: u64,
    /// Bytes of regular files among them.
    pub bytes: u64,
    /// Names that could not be offered, each of which was reported.
    pub failed: u64,
    /// Whether every directory could be listed in full. Without that nothing is deleted.
    pub complete: bool,
    /// Directories that were named as sources and have nothing in them, not even names that are left out.
    pub empty: u64,
}

/// What a receiver wants of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All of its content. Of a hard link: it cannot be made, so what it is by itself is to be offered instead.
    Whole,
    /// Only these chunks; the rest is there from an earlier attempt, see [`Have`](super::TransferMessage::Have).
    Missing(Vec<Run>),
    /// Nothing more: [`Outcome`] follows without data.
    Nothing,
    /// These chunks may be there already, in the file that stands at the destination: read them and tell only
    /// their digests ([`FrameKind::Compare`](crate::frame::FrameKind::Compare)). What differs is asked for.
    Compare(Vec<Run>),
}

/// What an acknowledgement promises. A sender may strike a chunk off its list only at `Durable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AckLevel {
    /// Bytes arrived, match their digest and are written; a power cut can still lose them.
    Verified,
    /// Bytes and their journal record survive a power cut.
    Durable,
}

/// The sender's word that an entry is of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// What the source showed after the last read; equal to what it showed before the first.
    pub evidence: Evidence,
    /// Digest of the whole, joined from what the sender read.
    pub digest: Digest,
    /// How often the receiver has asked for pieces of it (`Repair`, `Differs`), by what the sender had heard over this
    /// link: a seal that crossed such a request is of another moment than what is read for it.
    pub asked: u32,
}

/// The final word on an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It stands under its final name, durable; with the digest of its content if it has any.
    Done {
        /// BLAKE3 of the content.
        digest: Option<Digest>,
        /// What could not be kept, each in words.
        losses: Vec<Loss>,
    },
    /// It was there already.
    Unchanged {
        /// Digest from the catalogue or the comparison, if known.
        digest: Option<Digest>,
    },
    /// It was left out on purpose.
    Skipped(String),
    /// It could not be done.
    Failed(Failure),
}

/// Something about an entry that the destination could not keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// For instance `owner`, `xattr security.capability`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What became of source files that a sender was to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SourceTotals {
    /// Names removed in this transfer; in a dry run those that would be.
    pub removed: u64,
    /// Names that stay for a reason of their own, which was told.
    pub kept: u64,
    /// Names that stay, of files and links that the destination has, or left alone, by cause.
    pub left: Left,
    /// Some of these only because the receiver gave up meanwhile.
    pub is_cut_short: bool,
}

/// What a receiver did, at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Totals {
    /// Entries done.
    pub done: u64,
    /// Entries that were there already.
    pub unchanged: u64,
    /// Entries left out on purpose.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Entries removed by `--delete`.
    pub deleted: u64,
    /// Content bytes of the entries done.
    pub bytes_done: u64,
    /// Content bytes that arrived, repetitions included.
    pub bytes_received: u64,
    /// Content bytes found from an earlier attempt.
    pub bytes_resumed: u64,
    /// Content bytes that a file at the destination was found to have, by comparing.
    pub bytes_same: u64,
    /// Chunks that came damaged and were sent again.
    pub chunks_repaired: u64,
}

impl Want {
    /// The chunks that it names.
    pub fn runs(&self) -> &[Run] {
        match self {
            Want::Missing(runs) | Want::Compare(runs) => runs,
            Want::Whole | Want::Nothing => &[],
        }
    }
}

impl Outcome {
    /// Whether its content was damaged, and could not be repaired.
    pub fn is_damage(&self) -> bool {
        matches!(self, Outcome::Failed(failure) if failure.kind == FailureKind::Damage)
    }

    pub(super) fn losses(&self) -> &[Loss] {
        match self {
            Outcome::Done { losses, .. } => losses,
            _ => &[],
        }
    }

    /// Memory that it takes beside itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Outcome::Done { losses, .. } => list_bytes(losses, |loss| loss.what.len() + loss.why.len()),
            Outcome::Unchanged { .. } => 0,
            Outcome::Skipped(text) => text.len(),
            Outcome::Failed(failure) => failure.heap_bytes(),
        }
    }

    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self {
            Outcome::Failed(failure) => failure.check(),
            Outcome::Skipped(text) => check_count("text", text.len(), limits::TEXT_BYTES_MAX),
            Outcome::Done { losses, .. } => losses.iter().try_for_each(|loss| {
                check_count("text", loss.what.len() + loss.why.len(), limits::TEXT_BYTES_MAX)
            }),
            Outcome::Unchanged { .. } => Ok(()),
        }
    }
}
