//! Frames of detectors: arrays that are made one after the other, from memory to memory by way of a *hub*.
//!
//! A transfer of frames is one *lane*: from a producer to the hub of a channel, or from the hub to a consumer. What
//! travels in it are [`Item`]s, numbered without a gap, each whole on one data stream: as segments whose entry is the
//! lane's epoch (16 bits) and the item's number (48 bits), and whose offset counts in the item's record. A record is
//!
//! ```text
//! 0  4  length of the head, big-endian
//! 4  .  head: an Item, postcard
//! .  .  payload, if the item is a frame
//! ```
//!
//! The first segment holds the whole head. The digest in the head is that of the payload; segments have none (zeros).
//!
//! ```text
//! sending end                              receiving end
//!                       <----------------  Stand: epoch, the number to go on with
//! items on the streams ----------------->  puts them in order, verifies
//!                       <----------------  Taken: all below this number
//! ```
//!
//! Of a producer's lane the number of an item is the sequence number of its frame; of a consumer's lane it counts what the
//! hub handed out. After an outage the receiving end stands in a new epoch; what was sent in an older one is ignored.

use super::check_count;
use crate::digest::Digest;
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// Who makes frames: one to [`limits::FRAME_NAME_BYTES_MAX`] ASCII letters, digits, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProducerId(String);

impl ProducerId {
    /// One of this name.
    ///
    /// # Errors
    /// `Invalid` for other characters, and for too many or none.
    pub fn new(name: &str) -> Result<ProducerId, DecodeError> {
        check_name("name of a producer", name)?;
        Ok(ProducerId(name.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ProducerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a transfer of frames goes by, besides its terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTerms {
    /// Bytes of items that are sent and not taken, at most; a single larger item may be.
    pub window_bytes: u64,
    /// Items that are sent and not taken, at most.
    pub window_items: u32,
    /// What the channel shall be like, as far as its hub lets it.
    pub channel: ChannelWishes,
    /// What the client does.
    pub role: FrameRole,
}

/// How a channel is kept. Who opens it first says how much; recording, and a log for what memory does not hold, may come
/// later too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ChannelWishes {
    /// Bytes of payloads that the hub holds in memory for all consumers together. Default: [`limits::CHANNEL_BYTES`].
    pub memory_bytes: Option<u64>,
    /// Write every frame to the spill log, for consumers that come later and for producers that want frames durable.
    pub is_recorded: bool,
    /// Bytes of the spill log, at most. Default: [`limits::SPILL_BYTES`].
    pub spill_bytes: Option<u64>,
    /// While nobody consumes, frames go nowhere; else they wait, and in the end their producers do.
    pub is_unattended: bool,
}

/// What the client of a transfer of frames does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameRole {
    /// It makes frames.
    Produce {
        /// Under this name.
        producer: ProducerId,
        /// Tells this process from others under its name: random, and the same in each of its sessions.
        process: [u8; 16],
        /// The lowest sequence that it can still give; `None`: it goes on with whatever the hub has not.
        first: Option<u64>,
        /// When a frame counts as taken.
        level: HeldLevel,
        /// For so long it is waited for when its link fell silent, in milliseconds.
        keep_ms: u32,
    },
    /// It takes them.
    Consume(Box<Consume>),
}

/// What a consumer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consume {
    /// Tells it from others, also when it comes back in another session.
    pub consumer: [u8; 16],
    /// Tells this process from others under its name: random, and the same in each of its sessions.
    pub process: [u8; 16],
    /// Number of the lane that it has, if it comes back; another one, or none, means that it is another process.
    pub instance: Option<u64>,
    /// Shares what comes with all others of this group: each frame goes to one of them.
    pub group: Option<String>,
    /// What happens when it is slower than the producers. Of a group the first member decides.
    pub policy: FramePolicy,
    /// Where it begins.
    pub from: FrameFrom,
    /// It has of these producers everything below these sequences, from an earlier session.
    pub has: Vec<(ProducerId, u64)>,
    /// It ends when so many producers have finished, and all that are known.
    pub producers: u32,
    /// For so long its place is kept when its link is gone, in milliseconds.
    pub keep_ms: u32,
}

/// When the hub says that it has a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum HeldLevel {
    /// The hub holds it in memory, verified.
    #[default]
    Memory,
    /// It is verified, written to the spill log, and synced.
    Durable,
}

/// What happens when a consumer is slower than the producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum FramePolicy {
    /// The producers wait.
    #[default]
    Block,
    /// What memory does not hold goes to the spill log, and is replayed from there.
    Spill,
    /// What it has not been handed goes, oldest first: when memory is full, or when it is more than `depth` frames behind.
    DropOldest {
        /// Frames; 0 for no bound but memory.
        depth: u32,
    },
    /// It is handed the newest frame of each producer, and none twice.
    LatestOnly,
}

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum FrameFrom {
    /// With the first frame of every producer; those that are not there any more are named.
    #[default]
    Start,
    /// With what comes from now on.
    Now,
    /// With this sequence of every producer.
    Sequence(u64),
}

/// One piece of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A frame; its payload follows.
    Frame(Box<FrameHead>),
    /// To a consumer: these frames it does not get.
    Lost(LostRange),
    /// To a consumer: all that there will be of a set was handed out before.
    SetOver(SetOver),
    /// To a consumer: no more comes of this producer, for now.
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

/// What a hub adds to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStamp {
    /// When it was taken, in nanoseconds since 1970 by the hub's clock.
    pub taken_ns: u64,
    /// The producer's clock against the hub's.
    pub clock: ClockOffset,
}

/// One clock against another: add `offset_ns` to the first to have the second, with an error of at most `bound_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds.
    pub offset_ns: i64,
    /// Half of a round trip and what both clocks may have drifted since, in nanoseconds; `u64::MAX`: not measured.
    pub bound_ns: u64,
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

/// Why a consumer does not get a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossReason {
    /// It was too slow, and its policy is to drop the oldest.
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
    /// Indexes that no member took, as ranges `(first, end)` in order; at most [`limits::SET_RANGES_MAX`], the last then
    /// reaching to the end of the set.
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
    /// The place that it began with, and the first of which something is owed to it; `None`: it left.
    pub places: Option<(u64, u64)>,
}

impl ConsumerAt {
    fn check(&self) -> Result<(), DecodeError> {
        if self.places.is_some_and(|(begun, next)| begun > next) {
            return Err(DecodeError::Invalid { what: "place of a consumer" });
        }
        self.group.as_ref().map_or(Ok(()), |group| check_name("name of a group", group))
    }
}

/// Messages about frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FramesMessage {
    /// Receiving end: from now on in this epoch, beginning with this number.
    Stand {
        /// Higher than any before.
        epoch: u16,
        /// The first item that it wants.
        next: u64,
    },
    /// Receiving end: it has all items below this number, and does not want them again.
    Taken {
        /// The first that it has not.
        next: u64,
    },
    /// Receiving end: this item came damaged.
    Again {
        /// Which.
        number: u64,
    },
    /// Producer: a set has so many frames. May be said by several, and again.
    Declare {
        /// Which.
        set: u64,
        /// How many.
        frames: u32,
    },
    /// Producer: it made so many frames, and makes no more.
    Finish {
        /// Its next sequence.
        frames: u64,
    },
    /// Hub: it has them all, at the level that was asked for.
    Finished {
        /// How many.
        frames: u64,
    },
    /// Hub: it knows this consumer, or one under its name, and goes on behind what that took. Said before anything is
    /// handed out.
    GoesOn,
    /// Consumer: it has enough, or all.
    Leave,
    /// Client: what time is it there?
    ClockAsk {
        /// By the client's clock; repeated in the answer.
        asked_ns: u64,
    },
    /// Hub: so late.
    ClockTell {
        /// From the question.
        asked_ns: u64,
        /// By the hub's clock.
        hub_ns: u64,
    },
    /// Producer: its clock against the hub's.
    ClockIs(ClockOffset),
    /// Hub: this consumer's window is smaller than it asked for. Said before anything is handed out, and again on a new link.
    WindowIs {
        /// What may be under way.
        bytes: u64,
    },
}

/// What a hub tells of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ChannelStatus {
    /// Bytes of payloads in memory.
    pub memory_bytes: u64,
    /// The most that there may be.
    pub memory_bytes_max: u64,
    /// Frames that are held, in memory or in the log.
    pub frames: u64,
    /// Bytes of the spill log.
    pub spill_bytes: u64,
    /// The most that it may have; 0 without a log.
    pub spill_bytes_max: u64,
    /// Why the log could not be written, the last time, if it could not.
    pub spill_trouble: Option<String>,
    /// Frames that were forgotten.
    pub forgotten: u64,
    /// It had [`limits::CHANNEL_FRAMES_MAX`] frames, which is as many as it can: whatever room its log has, the oldest are
    /// forgotten since, or producers wait.
    pub was_full: bool,
    /// Who makes frames; at most [`limits::STATUS_ROWS_MAX`].
    pub producers: Vec<ProducerStatus>,
    /// Who takes them; at most [`limits::STATUS_ROWS_MAX`].
    pub consumers: Vec<ConsumerStatus>,
    /// Sets that are not over: number, frames that it should have, frames taken; at most [`limits::STATUS_ROWS_MAX`].
    pub sets: Vec<(u64, u32, u32)>,
}

/// What a hub tells of a producer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerStatus {
    /// Its name.
    pub producer: ProducerId,
    /// Its next sequence.
    pub frames: u64,
    /// Payload bytes taken of it by this hub.
    pub bytes: u64,
    /// Frames that wait for room.
    pub waiting: u64,
    /// It has a link.
    pub is_linked: bool,
    /// It has finished.
    pub is_finished: bool,
    /// Its clock against the hub's.
    pub clock: ClockOffset,
}

/// What a hub tells of a consumer, or of all of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerStatus {
    /// The group's name, or the consumer's number.
    pub name: String,
    /// Members of a group; else 1, or 0 without a link.
    pub members: u32,
    /// Its policy.
    pub policy: FramePolicy,
    /// Frames that it has not been handed.
    pub behind: u64,
    /// Frames handed out and not taken.
    pub in_flight: u64,
    /// Frames that it took.
    pub taken: u64,
    /// Payload bytes of those.
    pub bytes: u64,
    /// Frames that it does not get, by reason.
    pub lost: Vec<(LossReason, u64)>,
    /// Taken by the hub to taken by the consumer, in nanoseconds: half, 90, 99 of 100 frames take no longer, and the longest.
    pub tail_ns: [u64; 4],
}

impl FrameTerms {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let is_within = (limits::LANE_BYTES_MIN..=limits::LANE_BYTES_MAX).contains(&self.window_bytes)
            && (1..=limits::LANE_ITEMS_MAX).contains(&self.window_items);
        if !is_within {
            return Err(DecodeError::Invalid { what: "window of frames" });
        }
        let wishes = &self.channel;
        if wishes.memory_bytes.is_some_and(|bytes| bytes < limits::LANE_BYTES_MIN)
            || wishes.spill_bytes.is_some_and(|bytes| bytes < limits::SPILL_BYTES_MIN)
        {
            return Err(DecodeError::Invalid { what: "size of a channel" });
        }
        match &self.role {
            FrameRole::Produce { producer, first, keep_ms, .. } => {
                producer.check()?;
                check_keep(*keep_ms)?;
                first.map_or(Ok(()), check_number)
            }
            FrameRole::Consume(consume) => {
                check_keep(consume.keep_ms)?;
                if let Some(group) = &consume.group {
                    check_name("name of a group", group)?;
                }
                check_count("producers", consume.has.len(), limits::PRODUCERS_MAX)?;
                consume.has.iter().try_for_each(|(producer, next)| {
                    producer.check()?;
                    check_number(*next)
                })
            }
        }
    }
}

impl ProducerId {
    fn check(&self) -> Result<(), DecodeError> {
        check_name("name of a producer", &self.0)
    }
}

impl LostRange {
    fn check(&self) -> Result<(), DecodeError> {
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

impl FrameHead {
    /// That of a frame that is nothing but its payload: in no set, made at 0, due at no time, of no type or shape, with no
    /// metadata, and taken by no hub yet. Who makes more of it says what.
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
    /// `TooLarge`, `Invalid`: a shape whose elements do not fill the payload, an index beyond every set.
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
                    && element_bytes(&self.dtype).is_none_or(|each| self.payload_bytes == elements * each)
            }
        };
        match fits {
            true => Ok(()),
            false => Err(DecodeError::Invalid { what: "shape of a frame" }),
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

/// Bytes in front of an item's head.
pub const ITEM_LENGTH_BYTES: usize = 4;

impl FramesMessage {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self {
            FramesMessage::Declare { frames, .. } => check_set(*frames),
            FramesMessage::Stand { next, .. }
            | FramesMessage::Taken { next }
            | FramesMessage::Again { number: next } => check_number(*next),
            FramesMessage::Finish { frames } | FramesMessage::Finished { frames } => check_number(*frames),
            _ => Ok(()),
        }
    }
}

impl ChannelStatus {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        check_count("producers", self.producers.len(), limits::STATUS_ROWS_MAX)?;
        check_count("consumers", self.consumers.len(), limits::STATUS_ROWS_MAX)?;
        check_count("sets", self.sets.len(), limits::STATUS_ROWS_MAX)?;
        if let Some(trouble) = &self.spill_trouble {
            check_count("text", trouble.len(), limits::TEXT_BYTES_MAX)?;
        }
        self.producers.iter().try_for_each(|row| row.producer.check())?;
        self.consumers.iter().try_for_each(|row| {
            check_count("reasons", row.lost.len(), 16)?;
            check_name("name of a consumer", &row.name)
        })
    }
}

fn check_set(frames: u32) -> Result<(), DecodeError> {
    match (1..=limits::SET_FRAMES_MAX).contains(&frames) {
        true => Ok(()),
        false => Err(DecodeError::Invalid { what: "frames of a set" }),
    }
}

fn check_number(number: u64) -> Result<(), DecodeError> {
    match number <= limits::FRAME_SEQUENCE_END {
        true => Ok(()),
        false => Err(DecodeError::Invalid { what: "number of an item" }),
    }
}

fn check_keep(keep_ms: u32) -> Result<(), DecodeError> {
    check_count("milliseconds that a place is kept", keep_ms as usize, limits::KEEP_MS_MAX as usize)
}

fn check_name(what: &'static str, name: &str) -> Result<(), DecodeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > limits::FRAME_NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err(DecodeError::Invalid { what });
    }
    Ok(())
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
        assert_eq!(with(&[], "", 5).check(), Ok(()));
        assert_eq!(with(&[0, 7], "<u2", 0).check(), Ok(()));
        assert_eq!(with(&[3], "V7", 24).check(), Ok(()));
    }

    /// Who hears of frames that were lost adds them up.
    #[test]
    fn a_sequence_behind_the_last_that_there_is_is_refused_wherever_it_stands() {
        let end = limits::FRAME_SEQUENCE_END;
        let producer = ProducerId::new("cam").unwrap();
        let is_taken = |role| {
            let channel = ChannelWishes::default();
            let terms = FrameTerms { window_bytes: limits::LANE_BYTES_MIN, window_items: 1, channel, role };
            terms.check().is_ok()
        };
        let produces = |first| FrameRole::Produce {
            producer: producer.clone(),
            process: [2; 16],
            first: Some(first),
            level: HeldLevel::Memory,
            keep_ms: limits::KEEP_MS_MAX,
        };
        let consumes = |next| {
            FrameRole::Consume(Box::new(Consume {
                consumer: [1; 16],
                process: [2; 16],
                group: None,
                policy: FramePolicy::Block,
                from: FrameFrom::Start,
                instance: None,
                has: vec![(producer.clone(), next)],
                producers: 1,
                keep_ms: 0,
            }))
        };
        let lost = |end| LostRange { producer: producer.clone(), first: 0, end, reason: LossReason::Dropped };
        assert!(is_taken(produces(end)) && is_taken(consumes(end)) && lost(end).check().is_ok());
        for beyond in [end + 1, u64::MAX] {
            assert!(!is_taken(produces(beyond)) && !is_taken(consumes(beyond)));
            assert!(lost(beyond).check().is_err());
        }
    }

    #[test]
    fn names_are_plain_and_short() {
        for bad in ["", "a b", "a/b", "ä", "\n", &"x".repeat(65)] {
            assert!(ProducerId::new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_item_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Item::decode(&bytes);
        }
    }
}
