//! A transfer inside one process: the same engine without the wire.

use crate::endpoint::{Destination, Source};
use crate::event::Events;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::run::bell::Bell;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::{Did, SendLane, SendRun};
use crate::run::{Ended, LineSink, Outbox};
use crate::stage::intake::Intake;
use crate::transfer::{receiver, sender};
use std::sync::mpsc::{self, Sender as Queue};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_wire::message::{Terms, TransferMessage, TransferNumber};

const NUMBER: TransferNumber = TransferNumber(0);
/// Streams look for work at least this often, whatever they were told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Both sides of a transfer in this process.
pub struct LocalTransfer {
    /// The sending side.
    pub sender: Arc<SendRun>,
    /// The receiving side.
    pub receiver: Arc<ReceiveRun>,
    bell: Arc<Bell>,
    queues: [Queue<Option<TransferMessage>>; 2],
    threads: Vec<std::thread::JoinHandle<()>>,
}

struct LocalOutbox {
    /// `None` ends the delivery.
    queue: Mutex<Queue<Option<TransferMessage>>>,
    bell: Arc<Bell>,
}

impl Outbox for LocalOutbox {
    fn say(&self, _: TransferNumber, message: TransferMessage) {
        let _ = self.queue.lock().unwrap_or_else(|p| p.into_inner()).send(Some(message));
    }

    fn work(&self) {
        self.bell.ring();
    }
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
        let bell = Arc::new(Bell::default());
        let (to_receiver, receiver_hears) = mpsc::channel();
        let (to_sender, sender_hears) = mpsc::channel();
        let queues = [to_receiver.clone(), to_sender.clone()];
        let outbox = |queue| Box::new(LocalOutbox { queue: Mutex::new(queue), bell: bell.clone() });
        let limits = sender::Limits::for_terms(&terms);
        // Events of entries come from one side only.
        let sender = SendRun::new(NUMBER, source, terms.clone(), limits, outbox(to_receiver), events);
        if let Some(lines) = lines {
            sender.tell_lines(lines);
        }
        let receiver = ReceiveRun::start(
            NUMBER,
            destination,
            terms.clone(),
            receiver::Limits::default(),
            outbox(to_sender),
            crate::event::nobody(),
        )
        .map_err(|error| failure::of_io("start", &error))?;
        let mut transfer = LocalTransfer {
            sender: sender.clone(),
            receiver: receiver.clone(),
            bell,
            queues,
            threads: Vec::new(),
        };

        let hearing = receiver.clone();
        transfer.spawn("to receiver", move |_| {
            deliver(&receiver_hears, |message| hearing.hear(message), |f| hearing.abort(f))
        })?;
        let hearing = sender.clone();
        transfer.spawn("to sender", move |_| {
            deliver(&sender_hears, |message| hearing.hear(message), |f| hearing.abort(f))
        })?;
        for stream in 0..streams.max(1) {
            sender.stream_up(stream);
            let (sender, receiver, terms) = (sender.clone(), receiver.clone(), terms.clone());
            transfer.spawn("stream", move |bell| {
                // Made here: what it has in flight belongs to this thread.
                let work = std::panic::AssertUnwindSafe(|| match SendLane::new(stream, &terms) {
                    Ok(lane) => stream_work(&sender, receiver, lane, bell),
                    Err(error) => sender.abort(failure::of_io("start", &error)),
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
    pub fn close(self) {
        self.bell.stop();
        if self.sender.ended().is_none() {
            self.sender.abort(Failure::new(FailureKind::Stopped, "copy", "stopped on request"));
        }
        self.receiver.close();
        for queue in &self.queues {
            let _ = queue.send(None);
        }
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(&Bell) + Send + 'static) -> Result<()> {
        let bell = self.bell.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&bell))
            .map_err(|error| failure::of_io("start a thread", &error))?;
        self.threads.push(thread);
        Ok(())
    }
}

fn deliver(
    queue: &mpsc::Receiver<Option<TransferMessage>>,
    hear: impl Fn(TransferMessage) -> Result<()>,
    abort: impl Fn(Failure),
) {
    while let Ok(Some(message)) = queue.recv() {
        if let Err(failure) = hear(message) {
            abort(failure);
            return;
        }
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
