//! Slots: times at which a producer has the way to a server for itself.

use super::{check_count, list};
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// Name of a slot that was taken: whoever knows it, and is the same client, may keep it.
pub type LeaseId = [u8; 16];

/// What is said about slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotAsk {
    /// Take one. Answered by `Slot`, or refused with the reason.
    Take {
        /// What for.
        wish: SlotWish,
        /// In the place of this one, which stays if the new one is refused.
        instead: Option<LeaseId>,
    },
    /// Keep it for another lease. Answered by `Slot`, with the next opening.
    Keep(LeaseId),
    /// Leave it to others.
    Leave(LeaseId),
    /// All that are taken. Answered by `Slots`.
    All,
}

/// When bytes become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rhythm {
    /// So many at once, again and again.
    Bursts {
        /// Time from one burst to the next, in microseconds.
        period_micros: u64,
        /// Bytes of a burst.
        bytes: u64,
    },
    /// So many every second, all the time.
    Steady {
        /// Bytes a second.
        bytes_per_s: u64,
    },
}

/// What a producer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotWish {
    /// When bytes become ready.
    pub rhythm: Rhythm,
    /// The last byte of what is ready is to have arrived so much later, in microseconds.
    pub deadline_micros: u64,
    /// The first burst became ready so long ago, in microseconds.
    pub ready_ago_micros: u64,
    /// How much later than planned bytes may arrive, in microseconds.
    pub guard_micros: u64,
}

/// A slot that was taken: windows, one a period, in which nobody else has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its name.
    pub lease: LeaseId,
    /// The lease ends so much later, in milliseconds, unless it is kept.
    pub lease_millis: u32,
    /// From one window's opening to the next, in microseconds.
    pub period_micros: u64,
    /// How long a window is, in microseconds.
    pub length_micros: u64,
    /// When the next window opens, in microseconds after the question was heard.
    pub opens_micros: u64,
    /// Bytes that a window is for.
    pub bytes: u64,
    /// The rate within a window, in bytes a second.
    pub bytes_per_s: u64,
    /// What was promised: the time from ready to arrived at worst, in microseconds.
    pub worst_micros: u64,
    /// The promise holds whenever bytes become ready; else only if bursts are ready a period apart.
    pub is_any_time: bool,
    /// How long the server lately took at worst to make durable what had arrived, in microseconds.
    pub settle_micros: u64,
    /// Bytes that came of its owner beyond what its windows carry.
    pub over_bytes: u64,
}

/// All slots of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTable {
    /// What the way to it carries, in bytes a second.
    pub bytes_per_s: u64,
    /// Those that are taken, names left out, at most [`limits::SLOTS_MAX`].
    #[serde(deserialize_with = "list::slots")]
    pub slots: Vec<SlotTaken>,
    /// See [`Slot::settle_micros`].
    pub settle_micros: u64,
    /// Bytes that came of clients without a slot while there were slots.
    pub beside_bytes: u64,
    /// For how long connections were held back in windows that were not theirs, all together, in microseconds.
    pub held_micros: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotTaken {
    /// What was promised; without its name.
    pub slot: Slot,
    /// Taken with the certificate of the client that asks, from its address.
    pub is_yours: bool,
}

impl SlotAsk {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let SlotAsk::Take { wish, .. } = self else { return Ok(()) };
        let odd = Err(DecodeError::Invalid { what: "slot" });
        let is_rhythm = match wish.rhythm {
            Rhythm::Bursts { period_micros, bytes } => is_period(period_micros) && bytes > 0,
            Rhythm::Steady { bytes_per_s } => bytes_per_s > 0,
        };
        let times = [wish.deadline_micros, wish.ready_ago_micros, wish.guard_micros];
        let is_time = times.iter().all(|&micros| micros <= limits::SLOT_DEADLINE_MICROS_MAX);
        if is_rhythm && is_time { Ok(()) } else { odd }
    }
}

impl Slot {
    /// So that nothing that a client computes with it overflows.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let is_sound = is_period(self.period_micros)
            && self.length_micros <= self.period_micros
            && self.opens_micros <= self.period_micros
            && self.bytes_per_s > 0
            && self.worst_micros <= 4 * limits::SLOT_DEADLINE_MICROS_MAX
            && self.settle_micros <= limits::SLOT_DEADLINE_MICROS_MAX;
        if is_sound { Ok(()) } else { Err(DecodeError::Invalid { what: "slot" }) }
    }
}

impl SlotTable {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        check_count("slots", self.slots.len(), limits::SLOTS_MAX)?;
        if self.settle_micros > limits::SLOT_DEADLINE_MICROS_MAX {
            return Err(DecodeError::Invalid { what: "slot" });
        }
        self.slots.iter().try_for_each(|taken| taken.slot.check())
    }
}

fn is_period(micros: u64) -> bool {
    (limits::SLOT_PERIOD_MICROS_MIN..=limits::SLOT_PERIOD_MICROS_MAX).contains(&micros)
}
