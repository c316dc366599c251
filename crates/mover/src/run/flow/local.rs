//! A transfer of flows inside one process: the same engine without the wire.

use super::receiver::{FlowReceive, Inlet};
use super::sender::FlowSend;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::FrameBuffer;
use crate::run::LineSink;
use crate::run::party::Party;
use crate::run::sender::Did;
use crate::run::session::payload_max;
use crate::run::within::{NUMBER, Within};
use std::sync::Arc;
use std::time::Duration;

/// The stream looks for work at least this often, whatever it was told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The threads between the two sides. Closing it ends them.
pub struct LocalFlow(Within);

impl LocalFlow {
    /// Joins two sides: messages both ways, and one stream.
    ///
    /// # Errors
    /// If there are no threads or no memory to be had.
    pub fn start(
        sender: &Arc<FlowSend>,
        receiver: &Arc<FlowReceive>,
        lines: Option<LineSink>,
    ) -> Result<LocalFlow> {
        let (mut within, [sending, receiving], [sender_hears, receiver_hears]) = Within::new();
        receiver.attach(NUMBER, receiving, None);
        sender.attach(NUMBER, sending, lines);
        let (hearing, aborting) = (receiver.clone(), sender.clone());
        within.deliver(
            receiver_hears,
            move |message| hearing.hear(message),
            move |f| aborting.abort(ours(&f)),
        )?;
        let (hearing, aborting) = (sender.clone(), sender.clone());
        within.deliver(
            sender_hears,
            move |message| hearing.hear(message),
            move |f| aborting.abort(ours(&f)),
        )?;
        let mut buffer =
            FrameBuffer::new(payload_max(sender.terms())).map_err(|e| failure::of_memory("start", &e))?;
        let (sender, mut inlet) = (sender.clone(), Inlet(receiver.clone()));
        within.spawn("stream", move |bell| {
            loop {
                let seen = bell.rings();
                match sender.work(0, &mut buffer, &mut inlet) {
                    Ok(Did::Work) => continue,
                    Ok(Did::Over) => return,
                    Ok(Did::Nothing(_)) => {}
                    Err(error) => return sender.abort(failure::of_io("stream", &error)),
                }
                if !bell.wait(seen, LOOK_AGAIN) {
                    return;
                }
            }
        })?;
        Ok(LocalFlow(within))
    }

    /// Ends its threads. Both sides are over before.
    pub fn close(mut self) {
        self.0.close();
    }
}

/// No peer is to blame: both sides are ours.
fn ours(failure: &Failure) -> Failure {
    Failure::new(FailureKind::Internal, "stream", failure.to_string())
}
