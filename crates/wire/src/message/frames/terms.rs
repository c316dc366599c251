//! What a transfer of frames goes by: which channel, who produces, who consumes, and how.

use super::{ProducerId, check_keep, check_name, check_number};
use crate::message::{check_count, list};
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

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

/// How a channel is kept. The one that opens it first says how much; recording, and a log for what memory does not
/// hold, may come later too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ChannelWishes {
    /// Bytes of payloads that the hub holds in memory for all consumers together. Default: [`limits::CHANNEL_BYTES`].
    pub memory_bytes: Option<u64>,
    /// Write every frame to the spill log, for consumers that come later and for producers that want frames durable.
    pub is_recorded: bool,
    /// Bytes of the spill log, at most. Default: [`limits::SPILL_BYTES`].
    pub spill_bytes: Option<u64>,
    /// While nobody consumes, frames go nowhere; else they wait, and in the end their producers do. A producer may say
    /// so later, too.
    pub is_unattended: bool,
}

/// How a channel is kept, as its hub says when it is opened: whoever opened it first said how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ChannelTerms {
    /// Bytes of payloads that the hub holds in memory for it.
    pub memory_bytes: u64,
    /// Bytes of its spill log, at most, if it has one.
    pub spill_bytes: Option<u64>,
    /// While nobody consumes, frames go nowhere.
    pub is_unattended: bool,
}

/// What a hub took under a producer's name before, where it knows all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TakenBefore {
    /// Bytes of the payloads of all frames.
    pub bytes: u64,
    /// Of the last one; 0 before there was any.
    pub last_bytes: u64,
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
    /// What it is called where the hub tells of it, if that is plain.
    pub name: Option<String>,
    /// Number of the lane that it has, if it comes back; another one, or none, means that it is another process.
    pub instance: Option<u64>,
    /// Shares what comes with all others of this group: each frame goes to one of them.
    pub group: Option<String>,
    /// What happens when it is slower than the producers. Of a group the first member decides.
    pub policy: FramePolicy,
    /// Where it begins.
    pub from: FrameFrom,
    /// What it has of producers, from an earlier session.
    #[serde(deserialize_with = "list::producers")]
    pub has: Vec<HasOf>,
    /// It ends when so many producers have finished, and all that are known.
    pub producers: u32,
    /// For so long its place is kept when its link is gone, in milliseconds.
    pub keep_ms: u32,
    /// For so long it tries to come back: so long its place is kept when its link fell silent, if that is longer, and
    /// so long it waits at another hub for producers that it knows, in milliseconds.
    pub patience_ms: u32,
}

/// What a consumer has of a producer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HasOf {
    /// Of whom.
    pub producer: ProducerId,
    /// Everything below this sequence. Of a member of a group it counts for nothing: the others have the rest.
    pub next: u64,
    /// It was told that this producer is over.
    pub is_over: bool,
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
    /// What it has not been handed goes, oldest first: when memory is full, or when it is more than `depth` frames
    /// behind.
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

impl FrameTerms {
    pub(in crate::message) fn check(&self) -> Result<(), DecodeError> {
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
                check_keep(consume.patience_ms)?;
                if let Some(group) = &consume.group {
                    check_name("name of a group", group)?;
                }
                if let Some(name) = &consume.name {
                    check_name("name of a consumer", name)?;
                }
                check_count("producers", consume.has.len(), limits::PRODUCERS_MAX)?;
                consume.has.iter().try_for_each(|has| {
                    has.producer.check()?;
                    check_number(has.next)
                })
            }
        }
    }
}
