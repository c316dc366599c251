//! The two ends of a transfer, as state machines.
//!
//! They decide and do nothing else: events and the time come in as arguments, actions and messages go out.
//! No I/O, no clock, no threads, no randomness, so that one seed replays a run (see `sim`). [`crate::run`]
//! joins them to stages, link and real time.
//!
//! [`sender::Sender`] knows every entry from its offer until it is settled; [`receiver::Receiver`] knows what
//! of it is written, durable, named. After an outage the sender offers what is not settled again, and the
//! receiver answers by what it has; nothing else is repeated or remembered.

/// Which copy of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// The first one that a stream was given.
    First,
    /// Another, while the first may still be under way: it goes before that one.
    Again,
}

pub mod runs;

pub mod stays;

pub mod sender;

pub mod receiver;

#[cfg(test)]
mod tests;
