//! The channels of a process, at work.
//!
//! A channel's machine is behind one lock, which is never held while something is sent, read or written. Its spill log has a
//! thread of its own, once it has a log.

use super::deliver::Deliver;
use super::hub_end::HubEnd;
use super::ingest::Ingest;
use super::store::{Heard, Job, Store, StorePlace};
use super::windows::{Asks, Lease, Windows};
use super::{FramesLink, new_link, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::hub::{Action, Channel, ConsumerKey, Record};
use crate::frames::lane::Window;
use crate::frames::spill::{Location, SpillTerms};
use crate::memory::Shelf;
use crate::run::Outbox;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelStatus, ChannelWishes, FramePolicy, FrameRole, FrameTerms, HeldLevel, ProducerId, Terms,
    TransferMessage, TransferNumber,
};
use thalweg_wire::path::Escaped;

/// All channels of a process.
pub struct Hub {
    known: Arc<Known>,
    /// Bytes that all channels together may hold in memory.
    bytes_max: u64,
    /// As much again for what is under way from producers and to consumers.
    windows: Arc<Windows>,
    /// Memory of payloads that are not needed any more, as far as all of them together are within `bytes_max`.
    shelf: Shelf,
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
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one that was being closed is, at most so long.
    fn wait<'a>(&'a self, channels: Channels<'a>, at_most: Duration) -> Channels<'a> {
        self.closed.wait_timeout(channels, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Closes one that was said to be closing: who wants its name waits for that.
    fn end(&self, channel: &Arc<HubChannel>) {
        channel.close();
        self.lock().retain(|_, known| !Arc::ptr_eq(known, channel));
        self.closed.notify_all();
    }

    /// The same, beside what its caller does: the disk of its log may stand still.
    fn end_aside(self: &Arc<Self>, channel: Arc<HubChannel>) {
        channel.is_closing.store(true, Ordering::Release);
        let (known, again) = (self.clone(), channel.clone());
        let started = std::thread::Builder::new().name("close".into()).spawn(move || known.end(&channel));
        if let Err(error) = started {
            tracing::warn!(%error, "a channel that is over stays until it is closed for its age");
            again.is_closing.store(false, Ordering::Release);
        }
    }
}

/// Export and path.
pub type ChannelKey = (String, Vec<u8>);

/// For so long a producer that the log of an earlier hub knows may come back, before consumers are told that it is gone.
const ABSENT_PATIENCE: Duration = Duration::from_secs(30);
/// For so long a client waits for a channel that is being closed: its log is free when all that it was given is synced.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);
/// For so long a client waits, where memory is short, for those who are at the end of their channels to be gone; and between
/// two looks whether they are.
const LEAVING_PATIENCE: Duration = Duration::from_secs(1);
const LEAVING_STEP: Duration = Duration::from_millis(20);
/// Channels that are named to who finds no room.
const NAMED_MAX: usize = 8;
/// Channels at once: each has a map or two, and a thread if it spills.
const CHANNELS_MAX: usize = 256;
/// A channel without at least so much memory is not worth having.
const CHANNEL_BYTES_MIN: u64 = 1 << 20;

/// One channel.
pub struct HubChannel {
    state: Mutex<State>,
    place: Option<StorePlace>,
    /// Whether a log of an earlier hub was looked for.
    has_looked: AtomicBool,
    /// Nobody used it for too long. It stays among the channels until its log is free for the next one of its name.
    is_closing: AtomicBool,
    memory_bytes_max: u64,
    windows: Arc<Windows>,
    shelf: Shelf,
    this: Weak<HubChannel>,
}

pub(super) struct State {
    pub machine: Channel,
    links: BTreeMap<u64, Linked>,
    /// Windows of consumers that have gone, as long as memory has more than the channel's bytes because of what they had
    /// not taken, and no other consumer came for it.
    untaken: Vec<Lease>,
    store: Option<Arc<Store>>,
    writer: Option<(Sender<Job>, JoinHandle<()>)>,
    /// Why nothing can be promised any more.
    broken: Option<Failure>,
    idle_since: Instant,
    /// When its log was opened, as long as producers that only the log knows may come back.
    opened_at: Option<Instant>,
    is_closed: bool,
}

/// Who is at the other end of a link.
struct Linked {
    number: TransferNumber,
    outbox: Arc<dyn Outbox>,
    is_consumer: bool,
    is_durable: bool,
    owner: Owner,
    /// Its window, as long as no other link has it.
    lease: Option<Lease>,
}

/// Whose link it is: one that comes back takes the window of its older link.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    Producer(ProducerId),
    Consumer(ConsumerKey, [u8; 16]),
}

impl Owner {
    fn of(role: &FrameRole) -> Owner {
        match role {
            FrameRole::Produce { producer, .. } => Owner::Producer(producer.clone()),
            FrameRole::Consume(consume) => Owner::Consumer(ConsumerKey::of(consume), consume.consumer),
        }
    }
}

/// What a link of a session is for.
#[derive(Clone)]
pub enum Attached {
    /// A producer's.
    Producer(Arc<Ingest>),
    /// A consumer's, and the number of its lane.
    Consumer(Arc<Deliver>, u64),
}

impl Hub {
    /// Without channels.
    pub fn new(bytes_max: u64) -> Hub {
        let shelf = Shelf::new(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Hub { known: Arc::default(), bytes_max, windows: Windows::new(bytes_max), shelf }
    }

    /// The channel of this name, made if need be. `place` says where its log may be; `None`: nowhere.
    ///
    /// # Errors
    /// `Busy` without memory for one more, or while the one before takes too long to close; why its log cannot be read.
    pub fn channel(
        &self,
        key: &ChannelKey,
        wishes: &ChannelWishes,
        place: Option<StorePlace>,
    ) -> Result<Arc<HubChannel>> {
        let channel = self.known_or_new(key, wishes, place)?;
        // Not under the lock of all channels: a large log, or a disk that stands still, is the matter of this one alone.
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
    ) -> Result<Arc<HubChannel>> {
        let busy = |cause: &str| Failure::new(FailureKind::Busy, "open a channel", cause);
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
                let named = named(&channels, &key.0);
                return Err(busy(&format!("the memory of the hub is given to other channels{named}")));
            }
            break left;
        };
        let memory_bytes = wanted.min(left);
        let (windows, shelf) = (self.windows.clone(), self.shelf.clone());
        let channel = HubChannel::new(wishes, memory_bytes, place, (windows, shelf));
        channels.insert(key.clone(), channel.clone());
        Ok(channel)
    }

    /// How a channel stands, if there is one.
    pub fn status(&self, key: &ChannelKey) -> Option<ChannelStatus> {
        let channel = self.lock().get(key).cloned();
        channel.map(|channel| channel.lock().machine.status())
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

    /// Closes all channels: what recorded logs were given is durable when this returns, but for those of which the log of this
    /// program tells that the last sync failed.
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

/// Names of channels of this export, for who may see them.
fn named(channels: &BTreeMap<ChannelKey, Arc<HubChannel>>, export: &str) -> String {
    let names = channels.keys().filter(|(of, _)| of == export);
    let names: Vec<String> = names.map(|(_, path)| Escaped(path).to_string()).take(NAMED_MAX).collect();
    let more = if channels.len() > names.len() { ", and others" } else { "" };
    if names.is_empty() { String::new() } else { format!(": {}{more}", names.join(", ")) }
}

/// A channel without a frame and without a link is forgotten after this, with what it knew of producers.
const EMPTY_PATIENCE: Duration = Duration::from_secs(60);

impl HubChannel {
    fn new(
        wishes: &ChannelWishes,
        memory_bytes_max: u64,
        place: Option<StorePlace>,
        (windows, shelf): (Arc<Windows>, Shelf),
    ) -> Arc<HubChannel> {
        Arc::new_cyclic(|this| HubChannel {
            state: Mutex::new(State {
                machine: Channel::new(wishes, memory_bytes_max, wall_ns()),
                links: BTreeMap::new(),
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
            this: this.clone(),
        })
    }

    /// A client opens its end. `outbox` carries what is said to it. A consumer for whose window there is no room gets a smaller
    /// one.
    ///
    /// # Errors
    /// As [`Channel::attach`] and [`Channel::subscribe`]; why its log cannot be had; without room for its window what
    /// [`is_of_window`](super::windows::is_of_window) knows.
    pub fn attach(
        self: &Arc<Self>,
        number: TransferNumber,
        terms: Terms,
        frames: &FrameTerms,
        outbox: Box<dyn Outbox>,
    ) -> Result<Attached> {
        let wants_store = frames.channel.is_recorded
            || matches!(&frames.role, FrameRole::Produce { level: HeldLevel::Durable, .. })
            || matches!(&frames.role, FrameRole::Consume(consume) if consume.policy == FramePolicy::Spill);
        if wants_store {
            let is_recorded = frames.channel.is_recorded
                || matches!(&frames.role, FrameRole::Produce { level: HeldLevel::Durable, .. });
            self.open_store(&ChannelWishes { is_recorded, ..frames.channel })?;
        }
        let link = new_link();
        let mut state = self.lock();
        if let Some(failure) = &state.broken {
            return Err(failure.clone());
        }
        if state.is_closed {
            return Err(Failure::new(FailureKind::Connection, "open a channel", "the hub is shutting down"));
        }
        let owner = Owner::of(&frames.role);
        let asks = match &frames.role {
            FrameRole::Produce { first: None, .. } => Asks::New,
            FrameRole::Produce { first: Some(_), .. } => Asks::Again,
            FrameRole::Consume(_) => Asks::Consumer,
        };
        // What its older link has: it is given back when this one stands.
        let mut older = state.links.values().filter(|linked| linked.owner == owner);
        let mut had = older.find_map(|linked| linked.lease.as_ref()).map_or(0, Lease::bytes);
        if asks == Asks::Consumer {
            // The next consumer is handed that first.
            had += state.untaken.iter().map(Lease::bytes).sum::<u64>();
        }
        let lease = self.windows.take(frames.window_bytes, had, asks)?;
        let window = Window { bytes: lease.bytes(), items: frames.window_items };
        let attached = match &frames.role {
            FrameRole::Produce { producer, process, first, level, .. } => {
                state.machine.attach(link, (producer, *process), *first, *level, window)?;
                let is_durable = *level == HeldLevel::Durable;
                state.link(link, Linked::new((number, outbox), (false, is_durable), owner, lease));
                let end = HubEnd::new(self.clone(), link, (number, terms), false);
                Attached::Producer(Arc::new(Ingest::new(end, producer.clone())))
            }
            FrameRole::Consume(consume) => {
                let subscribed = state.machine.subscribe(link, consume, window)?;
                let key = ConsumerKey::of(consume);
                if window.bytes < frames.window_bytes {
                    state.machine.tell_window(link, &key, &consume.consumer);
                }
                state.link(link, Linked::new((number, outbox), (true, false), owner, lease));
                state.untaken.clear();
                let end = HubEnd::new(self.clone(), link, (number, terms), true);
                let deliver = Deliver::new(end, key, consume.consumer);
                Attached::Consumer(Arc::new(deliver), subscribed.instance)
            }
        };
        Ok(attached)
    }

    /// Goes on with the recorded log of an earlier hub, if there is one.
    fn open_found_store(self: &Arc<Self>, wishes: &ChannelWishes) -> Result<()> {
        if self.has_looked.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.place.as_ref().is_some_and(Store::is_recorded_at) {
            self.open_store(&ChannelWishes { is_recorded: true, ..*wishes })?;
        }
        self.has_looked.store(true, Ordering::Release);
        Ok(())
    }

    /// Says what there is to say, now that the session knows the link.
    pub fn begin(&self) {
        self.act(|_| ());
    }

    /// Has a spill log, and all that is written to it from now on if it `is_recorded`.
    fn open_store(self: &Arc<Self>, wishes: &ChannelWishes) -> Result<()> {
        let mut state = self.lock();
        let known = state.machine.spill();
        if let Some(known) = known {
            if wishes.is_recorded && !known.is_recorded {
                if let Some(store) = &state.store {
                    store.mark_recorded(known.bytes_max)?;
                }
                state.machine.set_spill(SpillTerms { is_recorded: true, ..known });
            }
            return Ok(());
        }
        let Some(place) = &self.place else {
            let cause =
                "nothing can be written there: a channel with a log is below an export that can be written";
            return Err(Failure::new(FailureKind::Permission, "open the spill log", cause));
        };
        let store = Arc::new(Store::open(place)?);
        let recorded_max = store.recorded_bytes_max()?;
        // With less than it may have it would forget frames that it promised to keep, for whoever comes first.
        let bytes_max = match (wishes.spill_bytes, recorded_max) {
            (Some(wished), Some(recorded)) => wished.max(recorded),
            (wished, recorded) => wished.or(recorded).unwrap_or(limits::SPILL_BYTES),
        };
        let terms = SpillTerms { is_recorded: wishes.is_recorded, bytes_max };
        let machine = &mut state.machine;
        store.recover(recorded_max.is_some(), &mut |record, at| {
            machine.restore(record.place, record.item, at);
        })?;
        if wishes.is_recorded && recorded_max != Some(bytes_max) {
            store.mark_recorded(bytes_max)?;
        }
        let this: Weak<dyn Heard> = self.this.clone();
        state.writer = Some(store.start(terms.file_bytes(), this)?);
        state.store = Some(store);
        state.opened_at = Some(Instant::now());
        state.machine.set_spill(terms);
        state.machine.restored();
        Ok(())
    }

    /// Does something with the machine, then what that asks for.
    pub(super) fn act<T>(&self, with: impl FnOnce(&mut Channel) -> T) -> T {
        let mut state = self.lock();
        let result = with(&mut state.machine);
        let mut wakes = false;
        while let Some(action) = state.machine.take_action() {
            match action {
                Action::Tell(link, message) => {
                    if let Some(linked) = state.links.get(&link) {
                        linked.outbox.say(linked.number, TransferMessage::Frames(message));
                    }
                }
                Action::Wake => wakes = true,
                Action::Write(place, record) => state.write(Job::Write(place, record)),
                Action::Forget(file) => state.write(Job::Forget(file)),
            }
        }
        if state.machine.memory_bytes() <= self.memory_bytes_max {
            state.untaken.clear();
        }
        if wakes {
            state.links.values().filter(|linked| linked.is_consumer).for_each(|linked| linked.outbox.work());
        }
        result
    }

    /// Since when nobody used it, if it is over and is not being closed.
    fn spent_since(&self) -> Option<Instant> {
        if self.is_closing.load(Ordering::Acquire) {
            return None;
        }
        // One that is at work is not over.
        let state = self.state.try_lock().ok()?;
        state.machine.is_spent().then_some(state.idle_since)
    }

    /// Whether its memory may be free soon: it is being closed, is over, or is at work and may be over then.
    fn may_leave(&self) -> bool {
        let is_over = || self.state.try_lock().map_or(true, |state| state.machine.is_spent());
        self.is_closing.load(Ordering::Acquire) || is_over()
    }

    /// Who made frames for an earlier hub had time to come back.
    fn give_up_absent(&self) {
        let is_due = |at: &mut Instant| at.elapsed() >= ABSENT_PATIENCE;
        if self.lock().opened_at.take_if(is_due).is_some() {
            self.act(Channel::give_up_absent);
        }
    }

    /// Says something else to a link.
    pub(super) fn say(&self, link: u64, message: TransferMessage) {
        let state = self.lock();
        if let Some(linked) = state.links.get(&link) {
            linked.outbox.say(linked.number, message);
        }
    }

    /// Nobody hears this link any more.
    pub(super) fn unlink(&self, link: u64) {
        let mut state = self.lock();
        let Some(linked) = state.links.remove(&link) else { return };
        if linked.is_consumer && state.machine.memory_bytes() > self.memory_bytes_max {
            state.untaken.extend(linked.lease);
        }
    }

    /// Where memory for payloads comes from.
    pub(super) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The log, if there is one.
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        self.lock().store.clone()
    }

    /// How it stands.
    pub fn status(&self) -> ChannelStatus {
        self.lock().machine.status()
    }

    /// Whether its hub was stopped.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn close(&self) {
        self.act(Channel::close);
        let (writer, store, is_recorded) = {
            let mut state = self.lock();
            state.is_closed = true;
            state.links.clear();
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Linked {
    fn new(
        (number, outbox): (TransferNumber, Box<dyn Outbox>),
        (is_consumer, is_durable): (bool, bool),
        owner: Owner,
        lease: Lease,
    ) -> Linked {
        Linked { number, outbox: outbox.into(), is_consumer, is_durable, owner, lease: Some(lease) }
    }
}

impl State {
    /// The link stands; an older one of the same owner has no window any more.
    fn link(&mut self, link: u64, linked: Linked) {
        let older = self.links.values_mut().filter(|older| older.owner == linked.owner);
        older.for_each(|older| older.lease = None);
        self.links.insert(link, linked);
    }

    fn write(&self, job: Job) {
        if let Some((jobs, _)) = &self.writer {
            // A writer that is gone has said why.
            let _ = jobs.send(job);
        }
    }
}

impl Heard for HubChannel {
    fn written(&self, place: u64, at: Location, record: &Record) {
        self.act(|machine| machine.written(place, at, record, wall_ns()));
    }

    fn synced(&self, place: u64) {
        self.act(|machine| machine.synced(place));
    }

    fn wants_sync(&self) -> bool {
        self.lock().machine.wants_sync()
    }

    fn trouble(&self, why: &Failure) {
        tracing::warn!(%why, "the spill log");
        self.lock().machine.trouble(why.to_string());
    }

    /// What is handed out to be written never will be, and would keep its room in memory: who makes frames is told, and ended.
    /// Consumers get what there is, and then that their producers are gone.
    fn broken(&self, why: Failure) {
        let mut state = self.lock();
        let durable = state.links.values().filter(|linked| linked.is_durable).count();
        let mut producers = Vec::new();
        for (link, linked) in &state.links {
            if let Owner::Producer(id) = &linked.owner {
                linked.outbox.say(linked.number, TransferMessage::Abort(why.clone()));
                producers.push((*link, id.clone()));
            }
        }
        tracing::error!(%why, producers = producers.len(), durable, "the spill log: its producers are ended");
        state.machine.trouble(why.to_string());
        state.broken = Some(why);
        drop(state);
        self.act(|machine| producers.iter().for_each(|(link, id)| machine.give_up(*link, id)));
    }
}

impl Attached {
    /// The end of the lane, for its session.
    pub fn link(&self) -> Arc<dyn FramesLink> {
        match self {
            Attached::Producer(link) => link.clone(),
            Attached::Consumer(link, _) => link.clone(),
        }
    }

    /// Number of the lane.
    pub fn instance(&self) -> u64 {
        match self {
            Attached::Producer(_) => 0,
            Attached::Consumer(_, instance) => *instance,
        }
    }

    /// Whether it is over: the client was told that it ended, left, or gave up.
    pub fn is_over(&self) -> bool {
        match self {
            Attached::Producer(link) => link.is_over(),
            Attached::Consumer(link, _) => link.is_over(),
        }
    }

    /// Why it is over, if that was in no order: the client gave up, or was refused what it said.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Attached::Producer(link) => link.failure(),
            Attached::Consumer(link, _) => link.failure(),
        }
    }

    /// Whether another link took its place.
    pub fn is_replaced(&self) -> bool {
        match self {
            Attached::Producer(link) => link.is_replaced(),
            Attached::Consumer(link, _) => link.is_replaced(),
        }
    }

    /// Another link took its place, or nobody waits for it: it is heard no more.
    pub fn forget(&self) {
        match self {
            Attached::Producer(link) => link.forget(),
            Attached::Consumer(link, _) => link.forget(),
        }
    }

    /// The client does not come back.
    pub fn give_up(&self) {
        match self {
            Attached::Producer(link) => link.give_up(),
            Attached::Consumer(link, _) => link.give_up(),
        }
    }
}

/// Who makes frames, for messages.
pub(super) fn shown(producer: &ProducerId) -> String {
    format!("producer {producer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::READ_SIZE;
    use crate::frames::hub::What;
    use crate::frames::lane::cost;
    use crate::frames::{FrameFrom, Payload};
    use crate::plan;
    use std::sync::mpsc;
    use thalweg_sys::Dir;
    use thalweg_wire::Digest;
    use thalweg_wire::message::{Consume, FrameHead, FramesMessage, Item};

    /// Keeps what was said.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<TransferMessage>>>);

    impl Outbox for Said {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            self.0.lock().unwrap().push(message);
        }

        fn work(&self) {}
    }

    /// What a hub gives each of its channels.
    fn spare() -> (Arc<Windows>, Shelf) {
        (Windows::new(64 << 20), Shelf::new(64 << 20))
    }

    fn asks(channel: &ChannelWishes, role: FrameRole) -> FrameTerms {
        FrameTerms { window_bytes: 1 << 20, window_items: 64, channel: *channel, role }
    }

    #[test]
    fn a_hub_that_goes_on_with_a_recorded_log_gives_it_no_less_than_it_had() {
        let directory = tempfile::tempdir().unwrap();
        let opened = |spill_bytes| {
            let place = StorePlace { below: Dir::open(directory.path()).unwrap(), path: b"x".to_vec() };
            let wishes = ChannelWishes { spill_bytes, is_recorded: false, ..ChannelWishes::default() };
            let channel = HubChannel::new(&wishes, 1 << 20, Some(place), spare());
            channel.open_found_store(&wishes).map(|()| (channel, wishes))
        };
        let (channel, wishes) = opened(Some(100 << 30)).unwrap();
        assert_eq!(channel.lock().machine.spill(), None, "nothing was recorded here yet");
        channel.open_store(&ChannelWishes { is_recorded: true, ..wishes }).unwrap();
        channel.close();
        // Whoever comes first, also to the one after: with a wish of its own or none.
        for (asks, bytes_max) in [(None, 100 << 30), (Some(1 << 20), 100 << 30), (Some(200 << 30), 200 << 30)]
        {
            for asks in [asks, None] {
                let (channel, _) = opened(asks).unwrap();
                let known = channel.lock().machine.spill();
                assert_eq!(known, Some(SpillTerms { is_recorded: true, bytes_max }));
                channel.close();
            }
        }
        std::fs::write(directory.path().join("x.frames/recorded"), "much").unwrap();
        let refused = opened(None).map(drop).unwrap_err();
        assert_eq!((refused.kind, &*refused.operation), (FailureKind::Damage, READ_SIZE), "{refused}");
        let path = refused.path.as_ref().map(|path| path.as_bytes());
        assert_eq!(path, Some(&b"x.frames/recorded"[..]), "{refused}");
    }

    fn cam() -> ProducerId {
        ProducerId::new("cam").unwrap()
    }

    fn produce() -> FrameRole {
        FrameRole::Produce {
            producer: cam(),
            process: [1; 16],
            first: Some(0),
            level: HeldLevel::Memory,
            keep_ms: 0,
        }
    }

    fn consume(who: u8) -> FrameRole {
        FrameRole::Consume(Box::new(Consume {
            consumer: [who; 16],
            process: [1; 16],
            group: None,
            policy: FramePolicy::Block,
            from: FrameFrom::Start,
            instance: None,
            has: Vec::new(),
            producers: 1,
            keep_ms: 0,
        }))
    }

    /// A frame of three bytes comes on this link.
    fn push(channel: &HubChannel, (link, epoch): (u64, u16), sequence: u64) {
        let digest = Digest(*blake3::hash(b"abc").as_bytes());
        let item = Item::Frame(Box::new(FrameHead::bare(cam(), sequence, 3, digest)));
        assert!(channel.act(|machine| machine.begin(link, epoch, sequence, &item)).unwrap());
        let payload = Payload::from(b"abc".to_vec());
        channel.act(|machine| machine.arrived(link, epoch, sequence, item, payload, 0));
    }

    #[test]
    fn a_log_that_cannot_be_synced_ends_every_producer_and_consumers_get_what_is_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let place = StorePlace { below: Dir::open(directory.path()).unwrap(), path: b"x".to_vec() };
        let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
        let channel = HubChannel::new(&wishes, 1 << 20, Some(place), spare());
        let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        // One for whom a frame counts when the hub has it in memory.
        let said = Said::default();
        let made = asks(&wishes, produce());
        channel.attach(TransferNumber(1), terms.clone(), &made, Box::new(said.clone())).unwrap();
        let (link, epoch) = (*channel.lock().links.keys().next().unwrap(), 1);
        (0..2).for_each(|sequence| push(&channel, (link, epoch), sequence));
        let takes = asks(&wishes, consume(1));
        let attached = channel.attach(TransferNumber(2), terms.clone(), &takes, Box::new(Said::default()));
        let Attached::Consumer(deliver, _) = attached.unwrap() else { panic!("a consumer") };
        let stand = FramesMessage::Stand { epoch: 1, next: 0 };
        deliver.hear(TransferMessage::Frames(stand)).unwrap();
        let next = || deliver.next_item(0, &|| false).map(|(_, _, what)| what);
        assert!(matches!(next(), Some(What::Frame(held)) if held.head.sequence == 0));

        let why = Failure::new(FailureKind::Io, "sync the spill log", "Input/output error");
        channel.broken(why.clone());
        let aborts =
            |message: &TransferMessage| matches!(message, TransferMessage::Abort(told) if *told == why);
        assert!(said.0.lock().unwrap().iter().any(aborts), "its producer waits for good");
        assert!(matches!(next(), Some(What::Frame(held)) if held.head.sequence == 1));
        let gone = next();
        assert!(
            matches!(&gone, Some(What::Note(Item::ProducerOver { is_gone: true, frames: 2, .. }))),
            "{gone:?}"
        );
        assert!(matches!(next(), Some(What::Note(Item::End))));
        let again = channel.attach(TransferNumber(3), terms, &made, Box::new(Said::default()));
        assert_eq!(again.err(), Some(why), "nobody begins what cannot go on");
        channel.close();
    }

    #[test]
    fn who_opens_a_channel_that_is_being_closed_waits_until_its_log_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let hub = Hub::new(64 << 20);
        let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
        let open = || {
            let place = StorePlace { below: Dir::open(directory.path()).unwrap(), path: b"x".to_vec() };
            hub.channel(&("data".to_owned(), b"x".to_vec()), &wishes, Some(place))
        };
        let channel = open().unwrap();
        channel.open_store(&wishes).unwrap();
        // Its last sync takes as long as it may.
        let (writes, syncs) = channel.lock().writer.take().unwrap();
        let (jobs, queue) = mpsc::channel();
        let (tells, closing) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let slow = std::thread::spawn(move || {
            while !matches!(queue.recv(), Ok(Job::Stop) | Err(_)) {}
            tells.send(()).unwrap();
            let _ = ended.recv();
            drop(writes);
            syncs.join().unwrap();
        });
        channel.lock().writer = Some((jobs, slow));
        drop(channel);
        std::thread::scope(|scope| {
            scope.spawn(|| hub.reap(Duration::ZERO));
            closing.recv().unwrap();
            let (opens, opened) = mpsc::channel();
            let open = &open;
            scope.spawn(move || opens.send(open().map(drop)).unwrap());
            let early = opened.recv_timeout(Duration::from_millis(100));
            ends.send(()).unwrap();
            assert!(early.is_err(), "it does not wait: {early:?}");
            assert_eq!(opened.recv().unwrap(), Ok(()));
        });
        hub.close();
    }

    #[test]
    fn channels_that_are_over_give_their_memory_to_the_next_recorded_ones_too() {
        let directory = tempfile::tempdir().unwrap();
        let hub = Hub::new(4 * limits::CHANNEL_BYTES);
        let open = |name: &str| {
            let place =
                StorePlace { below: Dir::open(directory.path()).unwrap(), path: name.as_bytes().to_vec() };
            let key = ("data".to_owned(), name.as_bytes().to_vec());
            hub.channel(&key, &ChannelWishes::default(), Some(place))
        };
        let window = Window { bytes: 1 << 20, items: 64 };
        for number in 0..10u64 {
            let channel = open(&format!("scan{number}")).unwrap();
            assert_eq!(channel.memory_bytes_max, limits::CHANNEL_BYTES, "{number}");
            let frames = number % 2;
            if frames > 0 {
                let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
                channel.open_store(&wishes).unwrap();
            }
            let id = cam();
            let attach =
                |machine: &mut Channel| machine.attach(1, (&id, [1; 16]), Some(0), HeldLevel::Memory, window);
            channel.act(attach).unwrap();
            (0..frames).for_each(|sequence| push(&channel, (1, 1), sequence));
            channel.act(|machine| machine.hear(1, FramesMessage::Finish { frames }, 0)).unwrap();
            channel.act(|machine| machine.detach(1));
        }
        // Somebody is at these.
        let held: Vec<_> = (0..4).map(|number| open(&format!("held{number}")).unwrap()).collect();
        let refused = open("one more").err().unwrap();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(refused.cause.contains("held0, held1, held2, held3"), "{refused}");
        drop(held);
        hub.close();
    }

    #[test]
    fn what_a_consumer_left_in_memory_keeps_its_window_until_the_next_one_comes_or_it_is_gone() {
        let wishes = ChannelWishes::default();
        // Memory of the channel for three of them.
        let memory_bytes = 3 * cost(3, 0);
        let channel = HubChannel::new(&wishes, memory_bytes, None, spare());
        let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        let attach = |number: u16, role: FrameRole| {
            let frames = asks(&wishes, role);
            channel.attach(TransferNumber(number), terms.clone(), &frames, Box::new(Said::default())).unwrap()
        };
        attach(1, produce());
        let link = *channel.lock().links.keys().next().unwrap();
        let comes = |number: u16| match attach(number, consume(number as u8)) {
            Attached::Consumer(deliver, _) => deliver,
            Attached::Producer(_) => panic!("a consumer"),
        };
        let takes = |deliver: &Deliver| {
            let stand = FramesMessage::Stand { epoch: 1, next: 0 };
            deliver.hear(TransferMessage::Frames(stand)).unwrap();
            while deliver.next_item(0, &|| false).is_some() {}
        };
        (0..3).for_each(|sequence| push(&channel, (link, 1), sequence));
        let first = comes(2);
        takes(&first);
        (3..6).for_each(|sequence| push(&channel, (link, 1), sequence));
        let kept = || channel.lock().untaken.iter().map(Lease::bytes).sum::<u64>();
        assert_eq!((kept(), channel.status().memory_bytes), (0, memory_bytes));
        first.give_up();
        assert_eq!((kept(), channel.status().memory_bytes), (1 << 20, 2 * memory_bytes));
        let second = comes(3);
        assert_eq!(kept(), 0, "the window of the next is for that");
        comes(4).give_up();
        assert_eq!((kept(), channel.status().memory_bytes), (1 << 20, 2 * memory_bytes));
        takes(&second);
        assert_eq!((kept(), channel.status().memory_bytes), (0, 0));
        channel.close();
    }
}
