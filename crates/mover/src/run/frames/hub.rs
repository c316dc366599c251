//! The channels of a process, at work.
//!
//! A channel's machine is behind one lock, which is never held while something is sent, read or written. Its spill log
//! has a thread of its own, once it has a log.

use super::spill_files::StorePlace;
use super::windows::Windows;
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::frames::OPEN_CHANNEL;
use crate::frames::channel::ChannelCounts;
use crate::memory::Shelf;
use crate::mutex::lock;
use crate::run::thread;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{ChannelStatus, ChannelWishes, ProducerId};
use thalweg_wire::path::Escaped;

/// One channel.
mod channel;

/// Links to it.
mod attached;

/// Its spill log.
mod spilled;

pub use attached::Attached;
pub use channel::HubChannel;

/// All channels of a process.
pub struct Hub {
    known: Arc<Known>,
    /// Bytes that all channels together may hold in memory.
    bytes_max: u64,
    /// As much again for what is under way from producers and to consumers.
    windows: Arc<Windows>,
    /// Memory of payloads that are not needed any more, as far as all of them together are within `bytes_max`.
    shelf: Shelf,
    /// For so long a consumer with `block` that takes nothing may hold producers up.
    block_max: Option<Duration>,
}

/// The channels that there are.
#[derive(Default)]
struct Known {
    channels: Mutex<BTreeMap<ChannelKey, Arc<HubChannel>>>,
    /// One that was being closed is.
    closed: Condvar,
}

impl Known {
    fn lock(&self) -> Channels<'_> {
        lock(&self.channels)
    }

    /// Waits until one that was being closed is, at most so long.
    fn wait<'a>(&'a self, channels: Channels<'a>, at_most: Duration) -> Channels<'a> {
        self.closed.wait_timeout(channels, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Closes one that was said to be closing: who wants its name waits for that.
    fn end(&self, channel: &Arc<HubChannel>) {
        channel.close();
        self.forget(channel);
    }

    /// Its name is free.
    fn forget(&self, channel: &Arc<HubChannel>) {
        self.lock().retain(|_, known| !Arc::ptr_eq(known, channel));
        self.closed.notify_all();
    }

    /// The same, beside what its caller does: the disk of its log may stand still.
    fn end_aside(self: &Arc<Self>, channel: Arc<HubChannel>) {
        channel.is_closing.store(true, Ordering::Release);
        let (known, again) = (self.clone(), channel.clone());
        let (forgetting, half_closed) = (self.clone(), channel.clone());
        let on_panic = move |_| forgetting.forget(&half_closed);
        let started = thread::guarded("close", on_panic, move || known.end(&channel));
        if let Err(error) = started {
            tracing::warn!(%error, "a channel that is over stays until it is closed for its age");
            again.is_closing.store(false, Ordering::Release);
        }
    }
}

/// Export and path.
pub type ChannelKey = (String, Vec<u8>);

/// For so long a client waits for a channel that is being closed: its log is free when all that it was given is synced.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);
/// For so long a client waits, where memory is short, for those who are at the end of their channels to be gone; and
/// between two looks whether they are.
const LEAVING_PATIENCE: Duration = Duration::from_secs(1);
const LEAVING_STEP: Duration = Duration::from_millis(20);
/// Channels that are named to who finds no room.
const NAMED_MAX: usize = 8;
/// Channels at once: each has a map or two, and a thread if it spills.
const CHANNELS_MAX: usize = 256;
/// A channel without at least so much memory is not worth having.
const CHANNEL_BYTES_MIN: u64 = 1 << 20;
/// So often a channel that is at work is looked at for its counts, and so long after the look before: each piece of its
/// work is far shorter, but where a disk stands still.
const COUNT_LOOKS: usize = 10;
const COUNT_STEP: Duration = Duration::from_millis(2);
/// A channel without a frame and without a link is forgotten after this, with what it knew of producers.
const EMPTY_PATIENCE: Duration = Duration::from_secs(60);

impl Hub {
    /// Without channels.
    pub fn new(bytes_max: u64) -> Hub {
        let shelf = Shelf::new(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        let windows = Windows::new(bytes_max);
        Hub { known: Arc::default(), bytes_max, windows, shelf, block_max: None }
    }

    /// The same, in whose channels consumers with `block` that take nothing hold producers up for so long at most, if
    /// that is given.
    #[must_use]
    pub fn with_block_max(self, block_max: Option<Duration>) -> Hub {
        Hub { block_max, ..self }
    }

    /// The channel of this name, made if need be. `place` says where its log may be; `None`: nowhere. `beneath`: path
    /// of the directory of the export that is all of it to who asks; empty: all of it.
    ///
    /// # Errors
    /// `Busy` without memory for one more, or while the one before takes too long to close; why its log cannot be read.
    pub fn channel(
        &self,
        key: &ChannelKey,
        wishes: &ChannelWishes,
        place: Option<StorePlace>,
        beneath: &str,
    ) -> Result<Arc<HubChannel>> {
        let channel = self.known_or_new(key, wishes, place, beneath)?;
        // Not under the lock of all channels: a large log, or a disk that stands still, is the matter of this one
        // alone.
        if let Err(failure) = channel.open_found_store(wishes) {
            // Others than the map and this one may be about to open its log, or have.
            self.lock().retain(|_, known| {
                !Arc::ptr_eq(known, &channel)
                    || known.has_looked.load(Ordering::Acquire)
                    || Arc::strong_count(known) > 2
            });
            return Err(failure);
        }
        Ok(channel)
    }

    fn known_or_new(
        &self,
        key: &ChannelKey,
        wishes: &ChannelWishes,
        place: Option<StorePlace>,
        beneath: &str,
    ) -> Result<Arc<HubChannel>> {
        let busy =
            |cause: &str| Failure::new(FailureKind::Busy, OPEN_CHANNEL, cause).because(Reason::NoChannelRoom);
        let wanted = wishes.memory_bytes.unwrap_or(limits::CHANNEL_BYTES).min(self.bytes_max);
        let began = Instant::now();
        let mut channels = self.lock();
        let left = loop {
            if let Some(known) = channels.get(key) {
                if !known.is_closing.load(Ordering::Acquire) {
                    return Ok(known.clone());
                }
                let left = CLOSING_PATIENCE.saturating_sub(began.elapsed());
                if left.is_zero() {
                    let cause = "the one before it is still being closed: its spill log is not synced yet";
                    return Err(busy(cause));
                }
                channels = self.known.wait(channels, left);
                continue;
            }
            let used: u64 = channels.values().map(|channel| channel.memory_bytes_max).sum();
            let left = self.bytes_max.saturating_sub(used);
            let is_full = channels.len() >= CHANNELS_MAX;
            if left >= wanted.max(CHANNEL_BYTES_MIN) && !is_full {
                break left;
            }
            // What is over keeps nothing from who comes now.
            if let Some(spent) = longest_spent(&channels) {
                self.known.end_aside(spent);
            }
            if began.elapsed() < LEAVING_PATIENCE && channels.values().any(|channel| channel.may_leave()) {
                channels = self.known.wait(channels, LEAVING_STEP);
                continue;
            }
            if is_full {
                return Err(busy("the hub has too many channels"));
            }
            if left < CHANNEL_BYTES_MIN {
                let named = named(&channels, &key.0, beneath);
                return Err(busy(&format!("the memory of the hub is given to other channels{named}")));
            }
            break left;
        };
        let memory_bytes = wanted.min(left);
        let (windows, shelf) = (self.windows.clone(), self.shelf.clone());
        let channel = HubChannel::new(wishes, memory_bytes, place, (windows, shelf));
        channel.lock().machine.set_block_max(self.block_max);
        channels.insert(key.clone(), channel.clone());
        Ok(channel)
    }

    /// How a channel stands, if there is one.
    pub fn status(&self, key: &ChannelKey) -> Option<ChannelStatus> {
        let channel = self.lock().get(key).cloned();
        channel.map(|channel| channel.lock().machine.status())
    }

    /// What is counted of each channel; `None` of one that was at work each time that it was looked at.
    pub fn counts(&self) -> Vec<(ChannelKey, Option<ChannelCounts>)> {
        self.counts_after(|| std::thread::sleep(COUNT_STEP))
    }

    /// The same, with this between two looks.
    fn counts_after(&self, mut pause: impl FnMut()) -> Vec<(ChannelKey, Option<ChannelCounts>)> {
        let of = |one: &HubChannel| Some(one.state.try_lock().ok()?.machine.counts());
        // Under the lock of all channels: who holds one beside the map is taken for its user.
        let mut counted: Vec<(ChannelKey, Option<ChannelCounts>)> =
            self.lock().iter().map(|(key, one)| (key.clone(), of(one))).collect();
        for _ in 1..COUNT_LOOKS {
            if counted.iter().all(|(_, counts)| counts.is_some()) {
                break;
            }
            pause();
            let channels = self.lock();
            for (key, counts) in counted.iter_mut().filter(|(_, counts)| counts.is_none()) {
                *counts = channels.get(&*key).and_then(|one| of(one));
            }
        }
        counted
    }

    /// Whether a channel has a log.
    pub fn has_log(&self, key: &ChannelKey) -> bool {
        let channel = self.lock().get(key).cloned();
        channel.is_some_and(|channel| channel.lock().store.is_some())
    }

    /// Why the log of a channel cannot be written for now, if it cannot; `None` also without that channel.
    pub fn spill_trouble(&self, key: &ChannelKey) -> Option<String> {
        let channel = self.lock().get(key).cloned()?;
        let state = channel.lock();
        state.machine.spill_trouble().map(str::to_owned)
    }

    /// Closes channels that nobody used for so long. A recorded log stays.
    pub fn reap(&self, patience: Duration) {
        let channels: Vec<_> = self.lock().values().cloned().collect();
        channels.iter().for_each(|channel| channel.give_up_absent());
        drop(channels);
        let gone: Vec<Arc<HubChannel>> = {
            let channels = self.lock();
            let is_gone = |channel: &Arc<HubChannel>| {
                // One that is at work, maybe on a disk that stands still, is not gone.
                let Ok(mut state) = channel.state.try_lock() else { return false };
                if !state.machine.is_idle() {
                    state.idle_since = Instant::now();
                }
                let idle = state.idle_since.elapsed();
                // What is held for nobody goes only after the patience; what is empty at once.
                let is_due = idle >= patience || idle >= EMPTY_PATIENCE && !state.machine.has_frames();
                is_due && Arc::strong_count(channel) == 1
            };
            let gone: Vec<_> = channels.values().filter(|channel| is_gone(channel)).cloned().collect();
            gone.iter().for_each(|channel| channel.is_closing.store(true, Ordering::Release));
            gone
        };
        gone.iter().for_each(|channel| self.known.end(channel));
        self.shelf.tidy(Instant::now());
    }

    /// Closes all channels: what recorded logs were given is durable when this returns, but for those of which the log
    /// of this program tells that the last sync failed.
    pub fn close(&self) {
        let channels = std::mem::take(&mut *self.lock());
        channels.values().for_each(|channel| channel.close());
    }

    fn lock(&self) -> Channels<'_> {
        self.known.lock()
    }
}

/// All channels, locked.
type Channels<'a> = MutexGuard<'a, BTreeMap<ChannelKey, Arc<HubChannel>>>;

/// Of the channels that are over, and that nobody has in hand, the one that was so first.
fn longest_spent(channels: &BTreeMap<ChannelKey, Arc<HubChannel>>) -> Option<Arc<HubChannel>> {
    let free = channels.values().filter(|channel| Arc::strong_count(channel) == 1);
    let spent = free.filter_map(|channel| Some((channel.spent_since()?, channel)));
    spent.min_by_key(|(since, _)| *since).map(|(_, channel)| channel.clone())
}

/// Names of channels of this export, for who may see them: those `beneath` this directory, as they are called there.
fn named(channels: &BTreeMap<ChannelKey, Arc<HubChannel>>, export: &str, beneath: &str) -> String {
    let seen = |path: &[u8]| match beneath.is_empty() {
        true => Some(Escaped(path).to_string()),
        false => {
            let below = path.strip_prefix(beneath.as_bytes())?.strip_prefix(b"/")?;
            Some(Escaped(below).to_string())
        }
    };
    let names = channels.keys().filter(|(of, _)| of == export);
    let names: Vec<String> = names.filter_map(|(_, path)| seen(path)).take(NAMED_MAX).collect();
    let more = if channels.len() > names.len() { ", and others" } else { "" };
    if names.is_empty() { String::new() } else { format!(": {}{more}", names.join(", ")) }
}

/// Who makes frames, for messages.
pub(super) fn shown(producer: &ProducerId) -> String {
    format!("producer {producer}")
}

#[cfg(test)]
mod tests;
