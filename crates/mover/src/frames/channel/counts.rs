//! What of a channel is counted for who asks again and again: without a look at each frame that it holds.

use super::{Channel, ConsumerKey};
use std::collections::BTreeMap;
use thalweg_wire::message::LossReason;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Bytes of payloads in memory.
    pub memory_bytes: u64,
    /// Bytes of the spill log.
    pub spill_bytes: u64,
    /// Producers that it knows.
    pub producers: usize,
    /// Consumers, each group as one.
    pub consumers: BTreeMap<ConsumerKey, ConsumerCounts>,
}

/// What a consumer, or a group, had since it is known here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerCounts {
    /// Frames that it took.
    pub taken: u64,
    /// Frames that it does not get, by reason.
    pub lost: BTreeMap<LossReason, u64>,
}

impl Channel {
    /// What is counted by now.
    pub fn counts(&self) -> ChannelCounts {
        let consumers = self.subscriptions.iter().map(|(key, one)| {
            let counts = ConsumerCounts { taken: one.taken, lost: one.lost.clone() };
            (key.clone(), counts)
        });
        ChannelCounts {
            memory_bytes: self.log.memory_bytes(),
            spill_bytes: self.files.bytes(),
            producers: self.producers.len(),
            consumers: consumers.collect(),
        }
    }
}
