//! Flows: content that is still being made, sent as it is made.
//!
//! A transfer of flows has the same sides, streams and end as one of files; the bytes of a flow travel as segments,
//! each with the BLAKE3 of its payload. The life of a flow:
//!
//! ```text
//! sender                                   receiver
//!                       <----------------  Left: what earlier attempts did not complete
//! Begin(flow) -------------------------->  opens what is there
//!                       <----------------  Stand: so many bytes, with this digest
//! compares the digest with its own prefix
//! segments on the streams -------------->  verify, write in order
//!                       <----------------  Mark: so many bytes are durable, with the digest of all of them
//! End: so many bytes, this digest ------>
//!                       <----------------  Settled
//! ```
//!
//! After an outage the sender begins every flow again that is not settled, and goes on behind where it stands. What it
//! could not read it says aside ([`super::TransferMessage::Aside`]), with the number of a flow that never begins.

use super::{check_count, list, list_bytes};
use crate::digest::Digest;
use crate::entry::EntryId;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// What a transfer of flows goes by, besides its terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTerms {
    /// When a flow ends, for who reads files.
    pub until: Until,
    /// Bytes of all flows that the sender keeps because they are not marked, at most: bounds the memory of both sides.
    /// See [`limits::FLOW_WINDOW_BYTES_MAX`].
    pub window_bytes: u64,
    /// Milliseconds from a byte's arrival to the sync that marks it, at most, as far as the disk lets it.
    pub mark_every_ms: u32,
}

/// When a file that grows is complete: the first of these that comes true. If none is set, a single file is complete
/// when nobody has it open for writing; a file in a directory always is then, while the directory is complete by the
/// others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Until {
    /// When nobody has it open for writing.
    pub closed: bool,
    /// When nothing grew, and nothing new came, for so many milliseconds.
    pub idle_ms: Option<u64>,
    /// When it has so many bytes; of a single file.
    pub bytes: Option<u64>,
    /// When there is a file of this name beside it, or in the directory.
    #[serde(with = "serde_bytes")]
    pub marker: Option<Vec<u8>>,
    /// Only the user ends it.
    pub forever: bool,
    /// Wait for a source that is not there yet.
    pub wait: bool,
    /// Look every so many milliseconds, and do not go by events of the file system.
    pub poll_ms: Option<u32>,
    /// Read each file again as a whole before it is said to be complete, and fail what differs from what was sent.
    pub recheck: bool,
}

/// A flow that begins, or goes on after an outage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBegin {
    /// Its number in the transfer.
    pub flow: EntryId,
    /// Its name below the source; of a single flow the source's own name.
    pub path: RelativePath,
    /// Tells it from others that had or will have the same name: a file that was replaced is another flow.
    pub origin: Origin,
    /// Permission bits for a file that is made (0777).
    pub mode: u32,
    /// No other file ever has this origin, because the time of birth is in it: what it was called before does not
    /// matter.
    pub is_certain: bool,
}

/// What a flow's source is, hashed; zeros for a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Origin(pub [u8; 16]);

/// Where the receiver stands with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStand {
    /// What it has, in order, without a gap.
    pub at: FlowMark,
    /// It is what an earlier attempt at this very flow left. If not, somebody else's file stands there.
    pub is_ours: bool,
    /// That attempt said that it is all: if the source is another now, nothing of it is missing that was not told then.
    pub is_over: bool,
    /// The name that it has below the destination, if that is not [`FlowBegin::path`]: the one that receipts have.
    pub name: Option<RelativePath>,
}

/// What an earlier attempt began and did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLeft {
    /// What its source was called; of a single flow, what the destination is.
    pub path: RelativePath,
    /// What its source is.
    pub origin: Origin,
    /// Its name below the destination.
    pub name: RelativePath,
    /// So many bytes of it are durable.
    pub bytes: u64,
}

/// The first bytes of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowMark {
    /// Which flow.
    pub flow: EntryId,
    /// How many bytes.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: Digest,
}

/// Messages about flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowMessage {
    /// Sender: flows that begin, or go on after an outage.
    Begin(#[serde(deserialize_with = "list::entries")] Vec<FlowBegin>),
    /// Receiver, before anything else: what earlier attempts began and did not complete. With the last of these, how
    /// many there are besides, of which nothing is said.
    Left(#[serde(deserialize_with = "list::entries")] Vec<FlowLeft>, Option<u64>),
    /// Receiver: where it stands with them.
    Stand(#[serde(deserialize_with = "list::entries")] Vec<FlowStand>),
    /// Receiver: so much is durable.
    Mark(#[serde(deserialize_with = "list::entries")] Vec<FlowMark>),
    /// Receiver: the segment of this flow at this offset came damaged.
    Again(#[serde(deserialize_with = "list::entries")] Vec<(EntryId, u64)>),
    /// Sender: so much there is, and no more will come.
    End(#[serde(deserialize_with = "list::entries")] Vec<FlowMark>),
    /// Sender: no other flow will begin.
    Last,
    /// Sender: what became of its files that people are to know, in a sentence, for who asked it for them. Not repeated
    /// after an outage.
    Note(String),
}

impl FlowTerms {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        if !(limits::FLOW_WINDOW_BYTES_MIN..=limits::FLOW_WINDOW_BYTES_MAX).contains(&self.window_bytes) {
            return Err(DecodeError::Invalid { what: "window of flows" });
        }
        if self.mark_every_ms > limits::MARK_EVERY_MS_MAX {
            return Err(DecodeError::Invalid { what: "time between marks" });
        }
        match &self.until.marker {
            Some(name) => crate::path::check_name(name),
            None => Ok(()),
        }
    }
}

impl FlowMessage {
    /// A [`FlowMessage::Note`], cut to what one may have.
    pub fn note(mut text: String) -> FlowMessage {
        super::failure::truncate(&mut text);
        FlowMessage::Note(text)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let bytes_of = |path: &RelativePath| path.as_bytes().len();
        match self {
            FlowMessage::Begin(begins) => list_bytes(begins, |begin| bytes_of(&begin.path)),
            FlowMessage::Left(left, _) => {
                list_bytes(left, |left| bytes_of(&left.path) + bytes_of(&left.name))
            }
            FlowMessage::Stand(stands) => list_bytes(stands, |stand| stand.name.as_ref().map_or(0, bytes_of)),
            FlowMessage::Mark(marks) | FlowMessage::End(marks) => size_of_val(&marks[..]),
            FlowMessage::Again(pieces) => size_of_val(&pieces[..]),
            FlowMessage::Last => 0,
            FlowMessage::Note(text) => text.len(),
        }
    }

    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let bounded = |bytes: u64| match bytes > limits::FILE_BYTES_MAX {
            true => Err(DecodeError::Invalid { what: "bytes of a flow" }),
            false => Ok(()),
        };
        let items = match self {
            FlowMessage::Begin(begins) => {
                if begins.iter().any(|begin| begin.path.is_root() || begin.mode & !0o777 != 0) {
                    return Err(DecodeError::Invalid { what: "flow" });
                }
                begins.len()
            }
            FlowMessage::Left(left, _) => {
                if left.iter().any(|left| left.path.is_root() || left.name.is_root()) {
                    return Err(DecodeError::Invalid { what: "flow" });
                }
                left.iter().try_for_each(|left| bounded(left.bytes))?;
                left.len()
            }
            FlowMessage::Stand(stands) => {
                stands.iter().try_for_each(|stand| bounded(stand.at.bytes))?;
                stands.len()
            }
            FlowMessage::Mark(marks) | FlowMessage::End(marks) => {
                marks.iter().try_for_each(|mark| bounded(mark.bytes))?;
                marks.len()
            }
            FlowMessage::Again(pieces) => pieces.len(),
            FlowMessage::Last => 0,
            FlowMessage::Note(text) => return check_count("text", text.len(), limits::TEXT_BYTES_MAX),
        };
        check_count("flows", items, limits::OFFER_ENTRIES_MAX)
    }
}
