//! Admission by slots: who may send when, so that a promised worst case holds (003, Fig 2(b) and section 4).
//!
//! A way that many share keeps no promise to any of them: at high load the worst transfer takes thirty times what it
//! would take alone (003, Fig 2(a)). Where each has the way for itself in turn, all of them take about what they would
//! alone, and what does not fit is refused before it begins.
//!
//! - [`calendar`] decides at the server which windows a producer gets, or why none.
//! - [`gate`] decides at the producer which bytes go when.
//! - [`drift`] decides at the producer when the windows are to be moved, because bursts are not where they were.
//! - [`turn`] decides at the server of whom it takes bytes now: a sender without a slot, or with more than its slot is
//!   for, waits while another's window is open.
//! - [`share`] decides at a server which has a limit for all that it moves who of its sessions goes next.
//!
//! All are pure: the time is an argument, in microseconds or nanoseconds since a moment that the caller chose.
//!
//! Not guaranteed: anything about what other programs send on the same way.

use std::time::{Duration, Instant};
use thalweg_wire::message::{Rhythm, Slot};

pub mod calendar;

pub mod drift;

pub mod gate;

pub mod share;

pub mod turn;

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
    /// From ready to durable and known, at worst: the server's promise, and the margin.
    pub worst: Duration,
    /// What is reckoned with beside the window.
    pub margin: Margin,
    /// The next window opens then.
    pub opens: Instant,
    /// How often its windows were moved since the first burst, because bursts were not where they had been.
    pub moves: u32,
}

/// What a promise has in it beside the wait for the window and the window: what is not the calendar's to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Margin {
    /// Until a mark is begun: the time between two, or the one before, if that takes longer.
    pub mark: Duration,
    /// Until what arrived is durable: the worst that the server saw lately.
    pub settle: Duration,
    /// Until that is known here: a round trip.
    pub way_back: Duration,
    /// By so much the last piece may end behind its window, where threads are late.
    pub late: Duration,
    /// By so much what is sent in a window may be late: it is part of the window.
    pub guard: Duration,
}

impl Margin {
    /// What is added to the server's promise.
    pub fn beside_window(&self) -> Duration {
        self.mark + self.settle + self.way_back + self.late
    }
}
