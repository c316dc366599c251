//! A transfer of flows inside one process: the same engine without the wire.

use super::receiver::{FlowReceive, Inlet};
use super::sender::FlowSend;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::FrameBuffer;
use crate::run::LineSink;
use crate::run::sender::Did;
use crate::run::session::payload_max;
use crate::run::transfer::Transfer;
use crate::run::within::{Heard, NUMBER, Within};
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
    /// If there are no threads or no memory to be had: none of them runs on.
    pub fn start(
        sender: &Arc<FlowSend>,
        receiver: &Arc<FlowReceive>,
        lines: Option<LineSink>,
    ) -> Result<LocalFlow> {
        let (within, [sending, receiving], heard) = Within::new();
        receiver.attach(NUMBER, receiving, None);
        sender.attach(NUMBER, sending, lines);
        let mut local = LocalFlow(within);
        match local.start_threads(heard, sender, receiver) {
            Ok(()) => Ok(local),
            Err(failure) => {
                local.close();
                Err(failure)
            }
        }
    }

    fn start_threads(
        &mut self,
        [sender_hears, receiver_hears]: [Heard; 2],
        sender: &Arc<FlowSend>,
        receiver: &Arc<FlowReceive>,
    ) -> Result<()> {
        let within = &mut self.0;
        let aborts = |sender: &Arc<FlowSend>| {
            let sender = sender.clone();
            move |failure| sender.abort(ours(failure))
        };
        let hearing = receiver.clone();
        within.deliver(receiver_hears, move |message| hearing.hear(message), aborts(sender))?;
        let hearing = sender.clone();
        within.deliver(sender_hears, move |message| hearing.hear(message), aborts(sender))?;
        let mut buffer = FrameBuffer::new(payload_max(sender.terms()))
            .map_err(|e| failure::of_memory(failure::START_TRANSFER, &e).because(Reason::NoThreads))?;
        let on_panic = aborts(sender);
        let (sender, mut inlet) = (sender.clone(), Inlet(receiver.clone()));
        within.spawn("stream", on_panic, move |bell| {
            loop {
                let seen = bell.rings();
                match sender.work(0, &mut buffer, &mut inlet) {
                    Ok(Did::Work) => continue,
                    Ok(Did::Over) => return,
                    Ok(Did::Nothing(_) | Did::StandBy) => {}
                    Err(error) => return sender.abort(failure::of_io("stream", &error)),
                }
                if !bell.wait(seen, LOOK_AGAIN) {
                    return;
                }
            }
        })
    }

    /// Ends its threads. Both sides are over before, or nothing was begun.
    pub fn close(mut self) {
        self.0.close();
    }
}

/// No peer is to blame: both sides are ours.
fn ours(failure: Failure) -> Failure {
    match failure.kind {
        FailureKind::Internal => failure,
        _ => Failure::new(FailureKind::Internal, "stream", failure.to_string()),
    }
}
