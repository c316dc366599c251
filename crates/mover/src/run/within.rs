//! What joins both sides of a transfer inside one process: messages both ways, threads, and the bell of its streams.

use crate::failure::{Failure, Result};
use crate::mutex::lock;
use crate::run::bell::Bell;
use crate::run::{Outbox, thread};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use thalweg_wire::message::{TransferMessage, TransferNumber};

/// Number of the only transfer that there is.
pub(super) const NUMBER: TransferNumber = TransferNumber(0);

/// See the module. Closing it ends the threads.
pub(super) struct Within {
    bell: Arc<Bell>,
    /// `None` ends the delivery.
    queues: [Sender<Option<TransferMessage>>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// One side: what it says goes to the other.
pub(super) struct Side {
    queue: Mutex<Sender<Option<TransferMessage>>>,
    bell: Arc<Bell>,
}

/// What one side hears.
pub(super) struct Heard(Receiver<Option<TransferMessage>>);

impl Heard {
    /// Hears what was said so far.
    ///
    /// # Errors
    /// What `hear` says.
    pub fn hear_now(&self, hear: impl Fn(TransferMessage) -> Result<()>) -> Result<()> {
        while let Ok(Some(message)) = self.0.try_recv() {
            hear(message)?;
        }
        Ok(())
    }
}

impl Outbox for Side {
    fn say(&self, _: TransferNumber, message: TransferMessage) {
        let _ = lock(&self.queue).send(Some(message));
    }

    fn work(&self) {
        self.bell.ring();
    }
}

impl Within {
    /// Nothing is said yet. Of the sides and of what they hear the sender's is the first, the receiver's the second.
    pub fn new() -> (Within, [Box<Side>; 2], [Heard; 2]) {
        let bell = Arc::new(Bell::default());
        // Both sides speak with their locks held, and so must not wait for each other. What they say is of what is in
        // flight, which each bounds.
        let (to_receiver, receiver_hears) = mpsc::channel();
        let (to_sender, sender_hears) = mpsc::channel();
        let queues = [to_receiver.clone(), to_sender.clone()];
        let side = |queue| Box::new(Side { queue: Mutex::new(queue), bell: bell.clone() });
        let sides = [side(to_receiver), side(to_sender)];
        (Within { bell, queues, threads: Vec::new() }, sides, [Heard(sender_hears), Heard(receiver_hears)])
    }

    /// Delivers what is heard, on a thread of its own, until one is no message for this side, or it panics: then
    /// `abort` hears why.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn deliver(
        &mut self,
        heard: Heard,
        hear: impl Fn(TransferMessage) -> Result<()> + Send + 'static,
        abort: impl FnOnce(Failure) + Clone + Send + 'static,
    ) -> Result<()> {
        self.spawn("messages", abort.clone(), move |_| {
            while let Ok(Some(message)) = heard.0.recv() {
                if let Err(failure) = hear(message) {
                    return abort(failure);
                }
            }
        })
    }

    /// A thread that ends when the bell is stopped. `on_panic`: see [`thread::guarded`].
    ///
    /// # Errors
    /// If there is none to be had.
    pub fn spawn(
        &mut self,
        name: &'static str,
        on_panic: impl FnOnce(Failure) + Send + 'static,
        work: impl FnOnce(&Bell) + Send + 'static,
    ) -> Result<()> {
        let bell = self.bell.clone();
        self.threads.push(thread::guarded(name, on_panic, move || work(&bell))?);
        Ok(())
    }

    /// Has the streams end.
    pub fn stop(&self) {
        self.bell.stop();
    }

    /// Ends its threads, when what was said is heard.
    pub fn close(&mut self) {
        self.stop();
        for queue in &self.queues {
            let _ = queue.send(None);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
