//! Frames of detectors from program to program: [`Sender`], [`Receiver`], and a [`Hub`] between them.
//!
//! A channel is a place below an export of a daemon (`tw://host/export/scan42`), or of a [`Hub`] inside any process. What is
//! promised is said in `thalweg_mover::frames`.
//!
//! # Copies of bytes
//! A payload that is pushed is not copied by the sender until it is sealed: once, into the buffer that is sealed and goes to
//! the kernel. The hub copies it out of the buffer in which it was opened (once), and into one that is sealed again for each
//! consumer. The receiver copies it once, into the memory that it hands out. A hub inside the producer's or the consumer's
//! process saves a process and a hop over the network, not these copies: the way through the loopback stays.

mod hub;

mod receiver;

mod sender;

pub use hub::{Hub, HubWishes};
pub use receiver::{Receiver, ReceiverWishes};
pub use sender::{Sender, SenderWishes};
pub use thalweg_mover::frames::{
    ChannelStatus, ChannelWishes, ClockOffset, ConsumerReport, ConsumerStatus, Delivery, Frame, FrameFrom,
    FramePolicy, HeldLevel, Latency, LossReason, LostRange, NewFrame, Payload, ProducerId, ProducerReport,
    ProducerStatus, ReceiverFigures, SenderFigures, SetReport,
};
