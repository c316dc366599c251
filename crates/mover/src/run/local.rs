//! A transfer inside one process: the same engine without the wire.

use crate::endpoint::{Destination, Source};
use crate::event::Events;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::run::bell::Bell;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::{Did, SendLane, SendRun};
use crate::run::within::{NUMBER, Within};
use crate::run::{Ended, LineSink};
use crate::stage::intake::Intake;
use crate::transfer::{receiver, sender};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::Terms;

/// Streams look for work at least this often, whatever they were told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Both sides of a transfer in this process.
pub struct LocalTransfer {
    /// The sending side.
    pub sender: Arc<SendRun>,
    /// The receiving side.
    pub receiver: Arc<ReceiveRun>,
    within: Within,
}

impl LocalTransfer {
    /// Starts it with `streams` threads that each read, digest, verify and write.
    ///
    /// # Errors
    /// If there are no threads or no memory to be had.
    pub fn start(
        source: Arc<dyn Source>,
        destination: Arc<dyn Destination>,
        terms: Terms,
        streams: u16,
        events: Events,
        lines: Option<LineSink>,
    ) -> Result<LocalTransfer> {
        let (within, [sending, receiving], [sender_hears, receiver_hears]) = Within::new();
        let limits = sender::Limits::for_path(&terms, Some(Duration::ZERO));
        // Events of entries come from one side only.
        let sender = SendRun::new(NUMBER, source, terms.clone(), limits, sending, events);
        if let Some(lines) = lines {
            sender.tell_lines(lines);
        }
        let receiver = ReceiveRun::start(
            NUMBER,
            destination,
            terms.clone(),
            receiver::Limits::default(),
            receiving,
            crate::event::nobody(),
        )
        .map_err(|error| failure::of_io("start", &error))?;
        let mut transfer = LocalTransfer { sender: sender.clone(), receiver: receiver.clone(), within };
        let within = &mut transfer.within;
        let (hearing, aborting) = (receiver.clone(), receiver.clone());
        within.deliver(receiver_hears, move |message| hearing.hear(message), move |f| aborting.abort(f))?;
        let (hearing, aborting) = (sender.clone(), sender.clone());
        within.deliver(sender_hears, move |message| hearing.hear(message), move |f| aborting.abort(f))?;
        for stream in 0..streams.max(1) {
            sender.stream_up(stream);
            let (sender, receiver, terms) = (sender.clone(), receiver.clone(), terms.clone());
            within.spawn("stream", move |bell| {
                // Made here: what it has in flight belongs to this thread.
                let work = std::panic::AssertUnwindSafe(|| match SendLane::new(stream, &terms) {
                    Ok(lane) => stream_work(&sender, receiver, lane, bell),
                    Err(error) => sender.abort(failure::of_memory("start", &error)),
                });
                if std::panic::catch_unwind(work).is_err() {
                    sender.abort(Failure::new(FailureKind::Internal, "copy", "a stream's thread panicked"));
                }
            })?;
        }
        sender.start().map_err(|error| failure::of_io("start", &error))?;
        Ok(transfer)
    }

    /// Waits for the end, at most so long.
    pub fn wait(&self, at_most: Duration) -> Option<Ended> {
        self.receiver.tick();
        let ended = self.sender.wait(at_most)?;
        self.receiver.wait(Duration::from_secs(5));
        Some(ended)
    }

    /// Ends all threads and closes the destination.
    pub fn close(mut self) {
        self.within.stop();
        if self.sender.ended().is_none() {
            self.sender.abort(Failure::new(FailureKind::Stopped, "copy", "stopped on request"));
        }
        self.receiver.close();
        self.within.close();
    }
}

fn stream_work(sender: &SendRun, receiver: Arc<ReceiveRun>, mut lane: SendLane, bell: &Bell) {
    let mut intake = Intake::new(receiver, u32::from(lane.stream));
    loop {
        let seen = bell.rings();
        let pause = match sender.work(&mut lane, &mut intake) {
            Ok(Did::Work) => continue,
            Ok(Did::Over) => return,
            Ok(Did::Nothing(pause)) => pause.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN),
            Err(error) => {
                sender.abort(failure::of_io("copy", &error));
                return;
            }
        };
        intake.settle();
        if !bell.wait(seen, pause) {
            return;
        }
    }
}
