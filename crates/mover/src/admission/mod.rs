//! Admission by slots: who may send when, so that a promised worst case holds (003, Fig 2(b) and section 4).
//!
//! A way that many share keeps no promise to any of them: at high load the worst transfer takes thirty times what it would
//! take alone (003, Fig 2(a)). Where each has the way for itself in turn, all of them take about what they would alone, and
//! what does not fit is refused before it begins.
//!
//! - [`calendar`] decides at the server which windows a producer gets, or why none.
//! - [`gate`] decides at the producer which bytes go when.
//!
//! Both are pure: the time is an argument, in microseconds or nanoseconds since a moment that the caller chose.
//!
//! Not guaranteed: anything about who has no slot. What a server receives beside its slots is to be held to what they leave
//! of the way (`--bwlimit`, `--class scavenger`).

use std::time::{Duration, Instant};
use thalweg_wire::message::{Rhythm, Slot};

pub mod calendar;

pub mod gate;

/// What a producer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotAsked {
    /// When bytes become ready.
    pub rhythm: Rhythm,
    /// What is read is durable at the destination, and known here to be, at most so much later.
    pub deadline: Duration,
}

/// What a producer was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotHeld {
    /// What the server said last.
    pub slot: Slot,
    /// What was asked for.
    pub deadline: Duration,
    /// From ready to durable and known, at worst, if the disk there syncs at once: the server's promise, the time between
    /// two marks, and a round trip.
    pub worst: Duration,
    /// The next window opens then.
    pub opens: Instant,
}
