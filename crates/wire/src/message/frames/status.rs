//! What a hub tells of a channel.

use super::{ClockOffset, FramePolicy, LossReason, ProducerId, check_name};
use crate::message::{check_count, list};
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

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
    /// It had [`limits::CHANNEL_FRAMES_MAX`] frames, which is as many as it can: whatever room its log has, the oldest
    /// are forgotten since, or producers wait.
    pub was_full: bool,
    /// Who makes frames; at most [`limits::STATUS_ROWS_MAX`].
    #[serde(deserialize_with = "list::rows")]
    pub producers: Vec<ProducerStatus>,
    /// Who takes them; at most [`limits::STATUS_ROWS_MAX`].
    #[serde(deserialize_with = "list::rows")]
    pub consumers: Vec<ConsumerStatus>,
    /// Sets that are not over: number, frames that it should have, frames taken; at most [`limits::STATUS_ROWS_MAX`].
    #[serde(deserialize_with = "list::rows")]
    pub sets: Vec<(u64, u32, u32)>,
}

impl ChannelStatus {
    pub(in crate::message) fn check(&self) -> Result<(), DecodeError> {
        check_count("producers", self.producers.len(), limits::STATUS_ROWS_MAX)?;
        check_count("consumers", self.consumers.len(), limits::STATUS_ROWS_MAX)?;
        check_count("sets", self.sets.len(), limits::STATUS_ROWS_MAX)?;
        if let Some(trouble) = &self.spill_trouble {
            check_count("text", trouble.len(), limits::TEXT_BYTES_MAX)?;
        }
        self.producers.iter().try_for_each(|row| row.producer.check())?;
        self.consumers.iter().try_for_each(|row| {
            check_count("reasons", row.lost.len(), limits::STATUS_REASONS_MAX)?;
            check_count("addresses", row.addresses.len(), limits::STATUS_ADDRESSES_MAX)?;
            let is_address = |text: &String| text.parse::<IpAddr>().is_ok();
            if !row.addresses.iter().all(is_address) {
                return Err(DecodeError::Invalid { what: "address of a consumer" });
            }
            check_name("name of a consumer", &row.name)
        })
    }
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
    /// It did not finish, and is not waited for any more.
    pub is_gone: bool,
    /// Its clock against the hub's.
    pub clock: ClockOffset,
}

/// What a hub tells of a consumer, or of all of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerStatus {
    /// The group's name, or the consumer's, or its number.
    pub name: String,
    /// Where its members are, or were last: IP addresses; at most [`limits::STATUS_ADDRESSES_MAX`].
    #[serde(deserialize_with = "list::addresses")]
    pub addresses: Vec<String>,
    /// Members of a group; else 1, or 0 without a link.
    pub members: u32,
    /// Its policy; of one that is passed over the one that it is treated by.
    pub policy: FramePolicy,
    /// Frames that it has not been handed.
    pub behind: u64,
    /// Frames handed out and not taken.
    pub in_flight: u64,
    /// Frames that it took.
    pub taken: u64,
    /// Payload bytes of those.
    pub bytes: u64,
    /// Frames that it does not get, by reason; at most [`limits::STATUS_REASONS_MAX`].
    #[serde(deserialize_with = "list::reasons")]
    pub lost: Vec<(LossReason, u64)>,
    /// Taken by the hub to taken by the consumer, in nanoseconds: half, 90, 99 of 100 frames take no longer, and the
    /// longest.
    pub tail_ns: [u64; 4],
}
