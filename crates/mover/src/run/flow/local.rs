//! A transfer of flows inside one process: the same engine without the wire.

use super::receiver::{FlowReceive, Inlet};
use super::sender::FlowSend;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::FrameBuffer;
use crate::run::bell::Bell;
use crate::run::sender::Did;
use crate::run::session::payload_max;
use crate::run::{LineSink, Outbox};
use std::sync::mpsc::{self, Receiver as Inbox, Sender as Queue};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_wire::message::{TransferMessage, TransferNumber};

const NUMBER: TransferNumber = TransferNumber(0);
/// The stream looks for work at least this often, whatever it was told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The threads between the two sides. Closing it ends them.
pub struct LocalFlow {
    bell: Arc<Bell>,
    queues: [Queue<Option<TransferMessage>>; 2],
    threads: Vec<JoinHandle<()>>,
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
        let bell = Arc::new(Bell::default());
        let (to_receiver, receiver_hears) = mpsc::channel();
        let (to_sender, sender_hears) = mpsc::channel();
        let queues = [to_receiver.clone(), to_sender.clone()];
        let outbox = |queue| Box::new(LocalOutbox { queue: Mutex::new(queue), bell: bell.clone() });
        let mut local = LocalFlow { bell: bell.clone(), queues, threads: Vec::new() };
        receiver.attach(NUMBER, outbox(to_sender), None);
        sender.attach(NUMBER, outbox(to_receiver), lines);
        let (ours, theirs) = (receiver.clone(), sender.clone());
        local.spawn("to receiver", move || {
            deliver(&receiver_hears, |message| ours.hear(message), |f| theirs.abort(f))
        })?;
        let ours = sender.clone();
        local.spawn("to sender", move || {
            deliver(&sender_hears, |message| ours.hear(message), |f| ours.abort(f))
        })?;
        let mut buffer =
            FrameBuffer::new(payload_max(&sender.terms)).map_err(|e| failure::of_io("start", &e))?;
        let (sender, mut inlet) = (sender.clone(), Inlet(receiver.clone()));
        local.spawn("stream", move || {
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
        Ok(local)
    }

    /// Ends its threads. Both sides are over before.
    pub fn close(self) {
        self.bell.stop();
        for queue in &self.queues {
            let _ = queue.send(None);
        }
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        self.threads.push(thread.map_err(|error| failure::of_io("start a thread", &error))?);
        Ok(())
    }
}

fn deliver(
    inbox: &Inbox<Option<TransferMessage>>,
    hear: impl Fn(TransferMessage) -> Result<()>,
    abort: impl Fn(Failure),
) {
    while let Ok(Some(message)) = inbox.recv() {
        if let Err(failure) = hear(message) {
            return abort(Failure::new(FailureKind::Internal, "stream", failure.to_string()));
        }
    }
}
