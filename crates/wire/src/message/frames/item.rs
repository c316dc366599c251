//! The items of a lane, as the parent module lays them out.

use super::{ClockOffset, ProducerId, check_name, check_set};
use crate::digest::Digest;
use crate::message::check_count;
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// Bytes in front of an item's head.
pub const ITEM_LENGTH_BYTES: usize = 4;

/// One piece of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A frame; its payload follows.
    Frame(Box<FrameHead>),
    /// To a consumer: these frames it does not get.
    Lost(LostRange),
    /// To a consumer: all that there will be of a set was handed out before.
    SetOver(SetOver),
    /// To a consumer, and to each member of a group: no more comes of this producer, for now.
    ProducerOver {
        /// Which.
        producer: ProducerId,
        /// Frames that it made, all told.
        frames: u64,
        /// It did not finish: its link is gone.
        is_gone: bool,
    },
    /// To a consumer: nothing follows.
    End,
    /// In a spill log: a set was declared by this producer.
    SetBegun {
        /// Who said so.
        producer: ProducerId,
        /// Which.
        set: u64,
        /// Frames that it shall have.
        frames: u32,
    },
    /// To each member of a group: a set is over, and this is what the members together have of it.
    GroupSet(GroupSet),
    /// In a spill log: where a consumer, or a group, stands.
    ConsumerAt(ConsumerAt),
}

impl Item {
    /// Appends the head of its record, length in front.
    ///
    /// # Errors
    /// `TooLarge` for what no receiver would take.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        encode_head(self, out)
    }

    /// As [`Item::encode`] of a frame, without a copy of its head.
    ///
    /// # Errors
    /// As there.
    pub fn encode_frame(head: &FrameHead, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        encode_head(&FrameRef::Frame(head), out)
    }

    /// Reads the item whose record begins with `bytes`; returns it with the length of its head, which the payload
    /// follows.
    ///
    /// # Errors
    /// `Short`, `TooLarge`, or `Invalid` for what no correct peer sends.
    pub fn decode(bytes: &[u8]) -> Result<(Item, usize), DecodeError> {
        let short = |need| DecodeError::Short { what: "item", need, have: bytes.len() };
        let head = bytes.first_chunk::<ITEM_LENGTH_BYTES>().ok_or(short(ITEM_LENGTH_BYTES))?;
        let length = u32::from_be_bytes(*head) as usize;
        check_count("head of an item", length, limits::ITEM_HEAD_BYTES_MAX)?;
        let end = ITEM_LENGTH_BYTES + length;
        let body = bytes.get(ITEM_LENGTH_BYTES..end).ok_or(short(end))?;
        Ok((Item::decode_head(body)?, end))
    }

    /// Reads a head that fills `body`.
    pub(crate) fn decode_head(body: &[u8]) -> Result<Item, DecodeError> {
        let (item, rest) =
            postcard::take_from_bytes::<Item>(body).map_err(|_| DecodeError::Invalid { what: "item" })?;
        if !rest.is_empty() {
            return Err(DecodeError::Invalid { what: "bytes after the item" });
        }
        match &item {
            Item::Frame(head) => head.check()?,
            Item::Lost(lost) => lost.check()?,
            Item::ProducerOver { producer, .. } => producer.check()?,
            Item::SetOver(over) => check_set(over.frames)?,
            Item::End => {}
            Item::SetBegun { producer, frames, .. } => {
                producer.check()?;
                check_set(*frames)?;
            }
            Item::GroupSet(set) => set.check()?,
            Item::ConsumerAt(at) => at.check()?,
        }
        Ok(item)
    }

    /// Bytes of the payload that follows the head.
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Item::Frame(head) => head.payload_bytes,
            _ => 0,
        }
    }
}

/// [`Item::Frame`], borrowed: the first variant of both.
#[derive(Serialize)]
enum FrameRef<'a> {
    Frame(&'a FrameHead),
}

fn encode_head(item: &impl Serialize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let at = out.len();
    out.extend_from_slice(&[0; ITEM_LENGTH_BYTES]);
    let invalid = |_| DecodeError::Invalid { what: "item" };
    *out = postcard::to_extend(item, std::mem::take(out)).map_err(invalid)?;
    let length = out.len() - at - ITEM_LENGTH_BYTES;
    check_count("head of an item", length, limits::ITEM_HEAD_BYTES_MAX)?;
    out[at..at + ITEM_LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}

/// All of a frame but its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameHead {
    /// Who made it.
    pub producer: ProducerId,
    /// Its number among the frames of its producer, from 0, without a gap.
    pub sequence: u64,
    /// Set that it belongs to, and its index there.
    pub set: Option<(u64, u32)>,
    /// When it was made, in nanoseconds since 1970 by its producer's clock.
    pub time_ns: u64,
    /// Nanoseconds after that in which it should be with its consumers.
    pub deadline_ns: Option<u64>,
    /// Type of an element, as NumPy writes it, for instance `<u2`; may be empty.
    pub dtype: String,
    /// Elements along each axis, slowest first; may be empty.
    pub shape: Vec<u64>,
    /// Whatever the user adds.
    #[serde(with = "serde_bytes")]
    pub metadata: Vec<u8>,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// BLAKE3 of the payload.
    pub digest: Digest,
    /// Added by the hub.
    pub stamp: Option<HubStamp>,
}

impl FrameHead {
    /// That of a frame that is nothing but its payload: in no set, made at 0, due at no time, of no type or shape, with
    /// no metadata, and taken by no hub yet. A caller that makes more of it says what.
    pub fn bare(producer: ProducerId, sequence: u64, payload_bytes: u64, digest: Digest) -> FrameHead {
        FrameHead {
            producer,
            sequence,
            set: None,
            time_ns: 0,
            deadline_ns: None,
            dtype: String::new(),
            shape: Vec::new(),
            metadata: Vec::new(),
            payload_bytes,
            digest,
            stamp: None,
        }
    }

    /// Whether a hub or a consumer may be given this.
    ///
    /// # Errors
    /// `Shape` if its elements do not fill the payload; `TooLarge`, `Invalid`, for instance an index beyond every set.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.producer.check()?;
        if self.sequence >= limits::FRAME_SEQUENCE_END {
            return Err(DecodeError::Invalid { what: "sequence of a frame" });
        }
        if self.set.is_some_and(|(_, index)| index >= limits::SET_FRAMES_MAX) {
            return Err(DecodeError::Invalid { what: "index in a set" });
        }
        check_count("dtype", self.dtype.len(), limits::DTYPE_BYTES_MAX)?;
        check_count("axes", self.shape.len(), limits::SHAPE_AXES_MAX)?;
        check_count("metadata", self.metadata.len(), limits::FRAME_METADATA_BYTES_MAX)?;
        if self.payload_bytes > limits::FRAME_PAYLOAD_BYTES_MAX {
            let limit = limits::FRAME_PAYLOAD_BYTES_MAX;
            return Err(DecodeError::TooLarge { what: "frame", value: self.payload_bytes, limit });
        }
        if self.dtype.chars().any(|c| !c.is_ascii_graphic() && c != ' ') {
            return Err(DecodeError::Invalid { what: "dtype" });
        }
        let elements = self.shape.iter().try_fold(1u64, |product, &axis| product.checked_mul(axis));
        let fits = match elements {
            _ if self.shape.is_empty() => true,
            None => false,
            Some(0) => self.payload_bytes == 0,
            Some(elements) => {
                self.payload_bytes.is_multiple_of(elements)
                    && element_bytes(&self.dtype)
                        .is_none_or(|each| elements.checked_mul(each) == Some(self.payload_bytes))
            }
        };
        match fits {
            true => Ok(()),
            false => {
                let of_all = |(count, each): (u64, u64)| count.checked_mul(each);
                let wanted = elements.zip(element_bytes(&self.dtype)).and_then(of_all);
                let mut shape = self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
                if !self.dtype.is_empty() {
                    shape.push_str(&format!(" of `{}`", self.dtype));
                }
                if let Some(bytes) = wanted {
                    shape.push_str(&format!(", which is {bytes} bytes"));
                }
                Err(DecodeError::Shape { shape, bytes: self.payload_bytes })
            }
        }
    }
}

/// Bytes of an element of a plain type (`<u2`, `f4`, `|b1`); `None` for any other.
fn element_bytes(dtype: &str) -> Option<u64> {
    let plain = dtype.strip_prefix(['<', '>', '|', '=']).unwrap_or(dtype);
    let digits = plain.strip_prefix(['b', 'i', 'u', 'f', 'c'])?;
    let bytes: u64 = digits.parse().ok()?;
    (1..=64).contains(&bytes).then_some(bytes)
}

/// What a hub adds to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStamp {
    /// When it was taken, in nanoseconds since 1970 by the hub's clock.
    pub taken_ns: u64,
    /// The producer's clock against the hub's.
    pub clock: ClockOffset,
}

/// Frames of one producer that a consumer does not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRange {
    /// Whose.
    pub producer: ProducerId,
    /// The first of them.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
    /// Why.
    pub reason: LossReason,
}

impl LostRange {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        if self.first >= self.end || self.end > limits::FRAME_SEQUENCE_END {
            return Err(DecodeError::Invalid { what: "range of lost frames" });
        }
        self.producer.check()
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.end - self.first
    }
}

/// Why a consumer does not get a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossReason {
    /// It was too slow, and its policy is to drop the oldest; or it blocked, and took nothing for longer than its hub
    /// lets it hold producers up.
    Dropped,
    /// There was a newer one, and its policy is to get only the latest.
    Superseded,
    /// The hub has it no more: nobody was there for it, or the spill log is at its limit.
    Forgotten,
    /// The hub was restarted, and held it in memory only.
    HubRestart,
    /// What the spill log has of it does not match its digest.
    Damaged,
}

impl LossReason {
    /// As it stands in JSON and in labels of metrics, and is shown.
    pub fn name(self) -> &'static str {
        match self {
            LossReason::Dropped => "dropped",
            LossReason::Superseded => "superseded",
            LossReason::Forgotten => "forgotten",
            LossReason::HubRestart => "hub-restart",
            LossReason::Damaged => "damaged",
        }
    }
}

/// All that there will be of a set was taken by the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetOver {
    /// Which.
    pub set: u64,
    /// Frames that it should have.
    pub frames: u32,
    /// Frames of it that the hub was given.
    pub taken: u32,
}

/// What the members of a group together have of a set that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSet {
    /// The set, and what the hub was given of it.
    pub over: SetOver,
    /// Frames of it that members took.
    pub delivered: u32,
    /// Indexes that no member took, as ranges `(first, end)` in order; at most [`limits::SET_RANGES_MAX`], the last
    /// then reaching to the end of the set.
    pub missing: Vec<(u32, u32)>,
}

impl GroupSet {
    fn check(&self) -> Result<(), DecodeError> {
        check_set(self.over.frames)?;
        check_count("ranges of a set", self.missing.len(), limits::SET_RANGES_MAX)?;
        let mut from = 0;
        let are_sound = self.missing.iter().all(|&(first, end)| {
            let is_sound = from <= first && first < end && end <= self.over.frames;
            from = end;
            is_sound
        });
        let is_sound = are_sound && self.delivered <= self.over.frames;
        if is_sound { Ok(()) } else { Err(DecodeError::Invalid { what: "report of a set" }) }
    }
}

/// Where a consumer stands in its channel, for a hub that goes on with the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerAt {
    /// Its number; of a group zeros.
    pub consumer: [u8; 16],
    /// The group.
    pub group: Option<String>,
    /// The position that it began with, and the first of which something is owed to it; `None`: it left.
    pub positions: Option<(u64, u64)>,
}

impl ConsumerAt {
    fn check(&self) -> Result<(), DecodeError> {
        if self.positions.is_some_and(|(begun, next)| begun > next) {
            return Err(DecodeError::Invalid { what: "position of a consumer" });
        }
        self.group.as_ref().map_or(Ok(()), |group| check_name("name of a group", group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> FrameHead {
        FrameHead {
            producer: ProducerId::new("cam-1").unwrap(),
            sequence: 7,
            set: Some((1, 7)),
            time_ns: 1,
            deadline_ns: None,
            dtype: "<u2".into(),
            shape: vec![3, 4],
            metadata: b"x".to_vec(),
            payload_bytes: 24,
            digest: Digest([1; 32]),
            stamp: None,
        }
    }

    #[test]
    fn an_item_comes_back_as_it_went_with_its_payload_behind_it() {
        let item = Item::Frame(Box::new(head()));
        let mut record = Vec::new();
        item.encode(&mut record).unwrap();
        let end = record.len();
        record.extend_from_slice(b"payload");
        assert_eq!(Item::decode(&record), Ok((item, end)));
        let mut borrowed = Vec::new();
        Item::encode_frame(&head(), &mut borrowed).unwrap();
        assert_eq!(borrowed, record[..end]);
    }

    #[test]
    fn a_shape_that_does_not_fill_the_payload_is_refused() {
        assert_eq!(head().check(), Ok(()));
        let with = |shape: &[u64], dtype: &str, payload_bytes| FrameHead {
            shape: shape.to_vec(),
            dtype: dtype.into(),
            payload_bytes,
            ..head()
        };
        for bad in [
            with(&[3, 4], "<u2", 25),
            with(&[3, 4], "<u2", 12),
            with(&[u64::MAX, 2], "", 24),
            with(&[0], "<u2", 2),
            with(&[1 << 63], "<u2", 0),
            with(&[1 << 60], "<u16", 0),
            with(&[5], "", 24),
            with(&[1; 33], "<u2", 2),
            with(&[], "u\n2", 2),
            with(&[], "", limits::FRAME_PAYLOAD_BYTES_MAX + 1),
            FrameHead { set: Some((0, limits::SET_FRAMES_MAX)), ..head() },
            FrameHead { metadata: vec![0; limits::FRAME_METADATA_BYTES_MAX + 1], ..head() },
            FrameHead { sequence: u64::MAX, ..head() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        let refused = with(&[2048, 2048], "<u2", 7 << 20).check().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a frame of 7340032 bytes does not have the shape 2048x2048 of `<u2`, which is 8388608 bytes"
        );
        assert_eq!(with(&[], "", 5).check(), Ok(()));
        assert_eq!(with(&[0, 7], "<u2", 0).check(), Ok(()));
        assert_eq!(with(&[3], "V7", 24).check(), Ok(()));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_item_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Item::decode(&bytes);
        }
    }
}
