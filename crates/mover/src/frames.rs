//! Frames of detectors, from memory to memory, as state machines without I/O.
//!
//! A *channel* is a name under which any number of *producers* give frames and any number of *consumers* take them; it
//! lives in a *hub*, inside a daemon or any other process. A frame goes
//!
//! ```text
//! producer::Producer -- lane --> channel::Channel -- lane --> consumer::Consumer
//!                                       |  ^
//!                                       v  |
//!                                    spill log
//! ```
//!
//! 1. The [`producer`] numbers frames, keeps each until the hub says that it has it, and gives them again after an
//!    outage.
//! 2. A [`lane`] carries items in order, whatever way they overtake each other on, with a bounded number of bytes under
//!    way. Both hops are lanes.
//! 3. The [`channel`] takes each frame once, in its producer's order, holds it as long as a consumer needs it (in
//!    memory, then in the [`spill`] log), and hands it out by each consumer's policy. What a consumer does not get is
//!    told to it at its position.
//! 4. The [`consumer`] holds every sequence against what was told, so that each is delivered or named exactly once, and
//!    says which [`sets`] are complete and how late frames were ([`tails`], by one [`clock`]).
//!
//! Guaranteed: order for each producer; nothing is lost or twice without being named (see [`LossReason`]); memory has a
//! bound. Not guaranteed: order between producers; what a consumer took and had not worked on when it was killed.

pub mod frame;

pub mod lane;

pub mod producer;

pub mod channel;

pub mod spill;

pub mod consumer;

pub mod sets;

pub mod tails;

pub mod clock;

pub use frame::{
    ConsumerReport, Delivery, Frame, Latency, NewFrame, Payload, ProducerReport, ReceiverFigures,
    SenderFigures, SetReport,
};
pub use thalweg_wire::message::{
    ChannelStatus, ChannelTerms, ChannelWishes, ClockOffset, ConsumerStatus, FrameFrom, FramePolicy,
    HeldLevel, LossReason, LostRange, ProducerId, ProducerStatus, TakenBefore,
};

use crate::failure::{Failure, FailureKind};
use std::fmt;
use thalweg_wire::message::name_of;

/// What fails where a channel is not to be had.
pub const OPEN_CHANNEL: &str = "open a channel";
/// What fails where a frame is not taken.
pub const PUSH: &str = "push a frame";
/// What fails where not everything that was pushed is where it is to be. Not just *finish*: entries do that.
pub const FINISH: &str = "finish pushing";
/// What fails where another producer or consumer has the name.
pub const TAKE_NAME: &str = "come to a channel by this name";
/// What fails where a channel has as many producers or consumers as it may have.
pub const JOIN: &str = "join a channel";
/// What is refused, for a while, of a hub that cannot write its log.
pub const WRITE_LOG: &str = "push frames through the hub's log";
/// What fails where a set is not taken.
pub const DECLARE: &str = "declare a set";
/// What fails where a set is not ended.
pub const END_SET: &str = "end a set";
/// What fails where a spill log is not to be had.
pub const OPEN_LOG: &str = "open the spill log";
/// What fails where a spill log does not keep what was written to it.
pub const SYNC_LOG: &str = "sync the spill log";
/// What fails where a recorded log does not say how many bytes it may have.
pub const READ_SIZE: &str = "read the size of the spill log";
/// Times that one item may come damaged before its lane is given up.
pub const DAMAGED_MAX: u32 = 8;

fn protocol(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "move frames", cause)
}

/// For a message that `who` has no reason to send.
pub(crate) fn not_said_by(who: &str, message: &impl fmt::Debug) -> Failure {
    protocol(&format!("`{}` came, which {who} does not send", name_of(message)))
}
