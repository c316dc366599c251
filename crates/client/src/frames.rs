//! Frames of detectors from program to program: [`Sender`], [`Receiver`], and a [`Hub`] between them.
//!
//! A channel is a place below an export of a daemon (`tw://host/export/scan42`), or of a [`Hub`] inside any process.
//! What is promised is said in `thalweg_mover::frames`.
//!
//! # Copies of bytes
//! A payload that is pushed is not copied by the sender until it is sealed: once, into the buffer that is sealed and
//! goes to the kernel. The hub copies it out of the buffer in which it was opened (once), and into one that is sealed
//! again for each consumer. The receiver copies it once, into the memory that it hands out. A consumer in the process
//! of its hub is handed the hub's own memory: nothing is sealed, sent or copied for it. A producer there saves a hop
//! over the network, not these copies: its way goes through the loopback.
//!
//! # Example
//! A hub, a producer and a consumer in one process; over a network the last two differ in nothing but the ticket's
//! place.
//!
//! ```
//! use thalweg_client::far_movers::{How, SshOptions};
//! use thalweg_client::frames::{Delivery, Hub, HubWishes, NewFrame, Receiver, ReceiverWishes, Sender, SenderWishes};
//! use thalweg_client::place::Places;
//!
//! # let scratch = tempfile::tempdir()?;
//! # let (directory, ticket) = (scratch.path(), scratch.path().join("ticket"));
//! let hub = Hub::start(&HubWishes::new(directory, &ticket))?;
//! let place = hub.place("scan42")?;
//! let how = || How::to_ask(&Places::default(), Some(ticket.as_path()), SshOptions::default());
//!
//! let receiver = Receiver::open(&place, how(), ReceiverWishes::default())?;
//! let sender = Sender::open(&place, how(), SenderWishes::default())?;
//! let pixels: Vec<u8> = vec![7; 2048 * 2048 * 2];
//! sender.push(
//!     NewFrame { dtype: "<u2".into(), shape: vec![2048, 2048], payload: pixels.into(), ..NewFrame::default() },
//!     None,
//! )?;
//!
//! match receiver.next(None)? {
//!     Some(Delivery::Frame(frame)) => assert_eq!((frame.sequence, frame.payload.len()), (0, 2048 * 2048 * 2)),
//!     other => panic!("{other:?}"),
//! }
//! assert_eq!(sender.finish(None)?.frames, 1);
//! receiver.close();
//! hub.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod framed;

pub mod files;

mod hub;

mod receiver;

mod sender;

pub use hub::{Hub, HubWishes};
pub use receiver::{Receiver, ReceiverWishes};
pub use sender::{PreparedFrame, Sender, SenderWishes};
pub use thalweg_mover::frames::{
    ChannelStatus, ChannelWishes, ClockOffset, ConsumerReport, ConsumerStatus, Delivery, Frame, FrameFrom,
    FramePolicy, HeldLevel, Latency, LossReason, LostRange, NewFrame, Payload, ProducerId, ProducerReport,
    ProducerStatus, ReceiverFigures, SenderFigures, SetReport, TakenBefore,
};

use crate::far_movers::{self, FarMovers, How, Whom};
use std::ffi::OsStr;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::client::LinkSettings;
use thalweg_wire::message::{Question, Reply};

/// How a channel stands.
///
/// # Errors
/// `NotFound` for a channel that nobody opened; what reaching it says.
pub fn status(place: &OsStr, how: How) -> Result<ChannelStatus> {
    let mut far_movers = FarMovers::new(how);
    let named = far_movers.named(place)?;
    let Some((whom, place)) = Whom::of(&named).zip(far_movers::place_there(&named)) else {
        return Err(Failure::new(FailureKind::Usage, "read place", "a channel of frames is at a daemon"));
    };
    let client = far_movers.reach(&whom)?.far.dial(LinkSettings::default(), event::nobody())?;
    let mut status = None;
    for reply in client.ask(Question::Channel { place })? {
        if let Reply::Channel(told) = reply? {
            status = Some(*told);
        }
    }
    let odd =
        || Failure::new(FailureKind::Protocol, "ask the server", "the server answered another question");
    status.ok_or_else(odd)
}

/// A policy as it is written on the command line and shown.
pub fn policy_name(policy: FramePolicy) -> String {
    match policy {
        FramePolicy::Block => "block".to_owned(),
        FramePolicy::Spill => "spill".to_owned(),
        FramePolicy::DropOldest { depth: 0 } => "drop-oldest".to_owned(),
        FramePolicy::DropOldest { depth } => format!("drop-oldest:{depth}"),
        FramePolicy::LatestOnly => "latest-only".to_owned(),
    }
}
