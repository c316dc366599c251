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
//! Of a producer's lane the number of an item is the sequence number of its frame; of a consumer's lane it counts what
//! the hub handed out. After an outage the receiving end stands in a new epoch; what was sent in an older one is
//! ignored.

// What a transfer of frames goes by.
mod terms;

// What travels in a lane.
mod item;

// What a hub tells of a channel.
mod status;

pub use item::{
    ConsumerAt, FrameHead, GroupSet, HubStamp, ITEM_LENGTH_BYTES, Item, LossReason, LostRange, SetOver,
};
pub use status::{ChannelStatus, ConsumerStatus, ProducerStatus};
pub use terms::{
    ChannelTerms, ChannelWishes, Consume, FrameFrom, FramePolicy, FrameRole, FrameTerms, HasOf, HeldLevel,
    TakenBefore,
};

use super::{check_count, list};
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

    fn check(&self) -> Result<(), DecodeError> {
        check_name("name of a producer", &self.0)
    }
}

impl std::fmt::Display for ProducerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One clock against another: add `offset_ns` to the first to have the second, with an error of at most `bound_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds.
    pub offset_ns: i64,
    /// Half of a round trip and what both clocks may have drifted since, in nanoseconds; `u64::MAX`: not measured.
    pub bound_ns: u64,
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
    /// Hub: this consumer's window is smaller than it asked for. Said before anything is handed out, and again on a new
    /// link.
    WindowIs {
        /// What may be under way.
        bytes: u64,
    },
    /// Hub, behind [`FramesMessage::GoesOn`]: this was taken of a set that is not over, by whom it goes on behind. Said
    /// in as many messages as it takes.
    SetHad {
        /// Which.
        set: u64,
        /// Indexes as ranges `(first, end)` in order; at most [`limits::SET_RANGES_MAX`].
        #[serde(deserialize_with = "list::ranges")]
        taken: Vec<(u32, u32)>,
    },
    /// Producer: it makes no more of this set. Heeded when the hub has all that it made before; may be said again.
    EndSet {
        /// Which.
        set: u64,
        /// Its next sequence.
        next: u64,
    },
    /// Hub, to producers: this consumer took nothing for as long as it may hold them up, and is waited for no more
    /// until it takes something.
    PassedOver {
        /// Its name, that of its group, or its number.
        consumer: String,
    },
}

impl FramesMessage {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self {
            FramesMessage::Declare { frames, .. } => check_set(*frames),
            FramesMessage::Stand { next, .. }
            | FramesMessage::Taken { next }
            | FramesMessage::Again { number: next }
            | FramesMessage::EndSet { next, .. } => check_number(*next),
            FramesMessage::Finish { frames } | FramesMessage::Finished { frames } => check_number(*frames),
            FramesMessage::SetHad { taken, .. } => check_ranges(taken, limits::SET_FRAMES_MAX),
            FramesMessage::PassedOver { consumer } => {
                check_count("name", consumer.len(), limits::NAME_BYTES_MAX)
            }
            _ => Ok(()),
        }
    }
}

fn check_set(frames: u32) -> Result<(), DecodeError> {
    match (1..=limits::SET_FRAMES_MAX).contains(&frames) {
        true => Ok(()),
        false => Err(DecodeError::Invalid { what: "frames of a set" }),
    }
}

/// Ranges of indexes below `frames`, in order.
fn check_ranges(ranges: &[(u32, u32)], frames: u32) -> Result<(), DecodeError> {
    check_count("ranges of a set", ranges.len(), limits::SET_RANGES_MAX)?;
    let mut from = 0;
    let are_sound = ranges.iter().all(|&(first, end)| {
        let is_sound = from <= first && first < end && end <= frames;
        from = end;
        is_sound
    });
    if are_sound { Ok(()) } else { Err(DecodeError::Invalid { what: "ranges of a set" }) }
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
    use crate::message::{TransferMessage, name_of};

    /// A consumer adds up the frames that it hears were lost.
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
                name: None,
                group: None,
                policy: FramePolicy::Block,
                from: FrameFrom::Start,
                instance: None,
                has: vec![HasOf { producer: producer.clone(), next, is_over: false }],
                producers: 1,
                keep_ms: 0,
                patience_ms: limits::KEEP_MS_MAX,
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
    fn a_message_is_named_without_what_it_says() {
        assert_eq!(name_of(&FramesMessage::GoesOn), "GoesOn");
        assert_eq!(name_of(&FramesMessage::Taken { next: 3 }), "Taken");
        assert_eq!(name_of(&TransferMessage::Deleted(Vec::new())), "Deleted");
    }

    #[test]
    fn names_are_plain_and_short() {
        for bad in ["", "a b", "a/b", "ä", "\n", &"x".repeat(65)] {
            assert!(ProducerId::new(bad).is_err(), "{bad}");
        }
    }
}
