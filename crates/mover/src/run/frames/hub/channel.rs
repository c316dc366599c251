//! One channel: its machine, the links to it, and what is done for both.

use super::attached::Linked;
use crate::failure::Failure;
use crate::frames::channel::{Action, Channel};
use crate::memory::Shelf;
use crate::mutex::lock;
use crate::run::frames::spill_files::{Job, Store, StorePlace};
use crate::run::frames::wall_ns;
use crate::run::frames::windows::{Lease, Windows};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::message::{ChannelStatus, ChannelTerms, ChannelWishes, TransferMessage};
use thalweg_wire::path::Escaped;

/// For so long a producer that the log of an earlier hub knows may come back, before consumers are told that it is
/// gone.
const ABSENT_PATIENCE: Duration = Duration::from_secs(30);

/// One channel.
pub struct HubChannel {
    pub(super) state: Mutex<State>,
    pub(super) place: Option<StorePlace>,
    /// Whether a log of an earlier hub was looked for.
    pub(super) has_looked: AtomicBool,
    /// Nobody used it for too long. It stays among the channels until its log is free for the next one of its name.
    pub(super) is_closing: AtomicBool,
    pub(super) memory_bytes_max: u64,
    pub(super) windows: Arc<Windows>,
    shelf: Shelf,
    began: Instant,
    pub(super) this: Weak<HubChannel>,
}

pub(in crate::run::frames) struct State {
    pub machine: Channel,
    pub(super) attachments: BTreeMap<u64, Linked>,
    /// Windows of consumers that have gone, as long as memory has more than the channel's bytes because of what they
    /// had not taken, and no other consumer came for it.
    pub(super) untaken: Vec<Lease>,
    pub(super) store: Option<Arc<Store>>,
    pub(super) writer: Option<(Sender<Job>, JoinHandle<()>)>,
    /// Why nothing can be promised any more.
    pub(super) broken: Option<Failure>,
    pub(super) idle_since: Instant,
    /// When its log was opened, as long as producers that only the log knows may come back.
    pub(super) opened_at: Option<Instant>,
    pub(super) is_closed: bool,
}

impl HubChannel {
    pub(super) fn new(
        wishes: &ChannelWishes,
        memory_bytes_max: u64,
        place: Option<StorePlace>,
        (windows, shelf): (Arc<Windows>, Shelf),
    ) -> Arc<HubChannel> {
        Arc::new_cyclic(|this| HubChannel {
            state: Mutex::new(State {
                machine: Channel::new(wishes, memory_bytes_max, wall_ns()),
                attachments: BTreeMap::new(),
                untaken: Vec::new(),
                store: None,
                writer: None,
                broken: None,
                idle_since: Instant::now(),
                opened_at: None,
                is_closed: false,
            }),
            place,
            has_looked: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            memory_bytes_max,
            windows,
            shelf,
            began: Instant::now(),
            this: this.clone(),
        })
    }

    /// Passes over consumers that block and took nothing for too long.
    pub(in crate::run::frames) fn bound_block(&self) {
        let names = self.act(|machine| machine.bound_block(self.began.elapsed(), wall_ns()));
        for name in names {
            let name = Escaped(name.as_bytes());
            tracing::warn!("consumer {name} took nothing for too long and is passed over");
        }
    }

    /// Says what there is to say, now that the session knows the attachment.
    pub fn begin(&self) {
        self.act(|_| ());
    }

    /// Does something with the machine, then what that asks for.
    pub(in crate::run::frames) fn act<T>(&self, with: impl FnOnce(&mut Channel) -> T) -> T {
        let mut state = self.lock();
        let result = with(&mut state.machine);
        let mut wakes = false;
        while let Some(action) = state.machine.take_action() {
            match action {
                Action::Tell(attachment, message) => {
                    if let Some(linked) = state.attachments.get(&attachment) {
                        linked.outbox.say(linked.number, TransferMessage::Frames(message));
                    }
                }
                Action::Wake => wakes = true,
                Action::Write(position, record) => state.write(Job::Write(position, record)),
                Action::Forget(file) => state.write(Job::Forget(file)),
            }
        }
        if state.machine.memory_bytes() <= self.memory_bytes_max {
            state.untaken.clear();
        }
        if wakes {
            let consumers = state.attachments.values().filter(|linked| linked.is_consumer);
            consumers.for_each(|linked| linked.outbox.work());
        }
        result
    }

    /// Since when nobody used it, if it is over and is not being closed.
    pub(super) fn spent_since(&self) -> Option<Instant> {
        if self.is_closing.load(Ordering::Acquire) {
            return None;
        }
        // One that is at work is not over.
        let state = self.state.try_lock().ok()?;
        state.machine.is_spent().then_some(state.idle_since)
    }

    /// Whether its memory may be free soon: it is being closed, is over, or is at work and may be over then.
    pub(super) fn may_leave(&self) -> bool {
        let is_over = || self.state.try_lock().map_or(true, |state| state.machine.is_spent());
        self.is_closing.load(Ordering::Acquire) || is_over()
    }

    /// Producers of an earlier hub had time to come back.
    pub(super) fn give_up_absent(&self) {
        self.act(|machine| machine.give_up_earlier(self.began.elapsed()));
        let is_due = |at: &mut Instant| at.elapsed() >= ABSENT_PATIENCE;
        if self.lock().opened_at.take_if(is_due).is_some() {
            self.act(Channel::give_up_absent);
        }
    }

    /// Says something else to an attachment.
    pub(in crate::run::frames) fn say(&self, attachment: u64, message: TransferMessage) {
        let state = self.lock();
        if let Some(linked) = state.attachments.get(&attachment) {
            linked.outbox.say(linked.number, message);
        }
    }

    /// Nobody hears this attachment any more.
    pub(in crate::run::frames) fn unlink(&self, attachment: u64) {
        let mut state = self.lock();
        let Some(linked) = state.attachments.remove(&attachment) else { return };
        if linked.is_consumer && state.machine.memory_bytes() > self.memory_bytes_max {
            state.untaken.extend(linked.lease);
        }
    }

    /// The consumer of this attachment may come back, by another one; its window it has no more.
    pub(in crate::run::frames) fn free_window(&self, attachment: u64) {
        let mut state = self.lock();
        let lease = state.attachments.get_mut(&attachment).and_then(|linked| linked.lease.take());
        if state.machine.memory_bytes() > self.memory_bytes_max {
            state.untaken.extend(lease);
        }
    }

    /// Where memory for payloads comes from.
    pub(in crate::run::frames) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The log, if there is one.
    pub(in crate::run::frames) fn store(&self) -> Option<Arc<Store>> {
        self.lock().store.clone()
    }

    /// How it is kept.
    pub fn terms(&self) -> ChannelTerms {
        self.lock().machine.terms()
    }

    /// How it stands.
    pub fn status(&self) -> ChannelStatus {
        self.lock().machine.status()
    }

    /// Whether its hub was stopped.
    pub(in crate::run::frames) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(super) fn close(&self) {
        self.act(Channel::close);
        let (writer, store, is_recorded) = {
            let mut state = self.lock();
            state.is_closed = true;
            state.attachments.clear();
            state.untaken.clear();
            let is_recorded = state.machine.spill().is_some_and(|spill| spill.is_recorded);
            (state.writer.take(), state.store.take(), is_recorded)
        };
        if let Some(store) = &store {
            store.stop();
        }
        if let Some((jobs, thread)) = writer {
            let _ = jobs.send(Job::Stop);
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
        if let Some(store) = store.filter(|_| !is_recorded) {
            store.remove();
        }
    }

    pub(in crate::run::frames) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The attachment stands; an older one of the same owner has no window any more.
    pub(super) fn link(&mut self, attachment: u64, linked: Linked) {
        let older = self.attachments.values_mut().filter(|older| older.owner == linked.owner);
        older.for_each(|older| older.lease = None);
        self.attachments.insert(attachment, linked);
    }

    fn write(&self, job: Job) {
        if let Some((jobs, _)) = &self.writer {
            // A writer that is gone has said why.
            let _ = jobs.send(job);
        }
    }
}
