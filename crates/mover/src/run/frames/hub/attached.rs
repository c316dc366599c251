//! Links to a channel: a client opens its end, and its session is handed the other.

use super::HubChannel;
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::OPEN_CHANNEL;
use crate::frames::channel::ConsumerKey;
use crate::frames::lane::Window;
use crate::run::Outbox;
use crate::run::frames::hub_consumer::HubConsumer;
use crate::run::frames::hub_end::HubEnd;
use crate::run::frames::hub_producer::HubProducer;
use crate::run::frames::new_attachment;
use crate::run::frames::windows::{Asks, Lease};
use crate::run::transfer::Transfer;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_wire::message::{
    ChannelWishes, FramePolicy, FrameRole, FrameTerms, HeldLevel, ProducerId, TakenBefore, Terms,
    TransferNumber,
};

/// Who is at the other end of an attachment.
pub(super) struct Linked {
    pub(super) number: TransferNumber,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) is_consumer: bool,
    pub(super) is_durable: bool,
    pub(super) owner: Owner,
    /// Its window, as long as no other attachment has it.
    pub(super) lease: Option<Lease>,
}

/// Whose attachment it is: one that comes back takes the window of its older one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
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

/// What an attachment of a session is for.
#[derive(Clone)]
pub enum Attached {
    /// A producer's.
    Producer(Arc<HubProducer>),
    /// A consumer's, and the number of its lane.
    Consumer(Arc<HubConsumer>, u64),
}

impl HubChannel {
    /// A client opens its end. `outbox` carries what is said to it. A consumer for whose window there is no room gets a
    /// smaller one.
    ///
    /// # Errors
    /// As [`Channel::attach`](crate::frames::channel::Channel::attach) and
    /// [`Channel::subscribe`](crate::frames::channel::Channel::subscribe); why its log cannot be had; without room for
    /// its window what [`is_of_window`](crate::run::frames::windows::is_of_window) knows.
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
        let attachment = new_attachment();
        let mut state = self.lock();
        if let Some(failure) = &state.broken {
            return Err(failure.clone());
        }
        if state.is_closed {
            return Err(Failure::new(FailureKind::Connection, OPEN_CHANNEL, "the hub is shutting down"));
        }
        let owner = Owner::of(&frames.role);
        let asks = match &frames.role {
            FrameRole::Produce { first: None, .. } => Asks::New,
            FrameRole::Produce { first: Some(_), .. } => Asks::Again,
            FrameRole::Consume(_) => Asks::Consumer,
        };
        // What its older attachment has: it is given back when this one stands.
        let mut older = state.attachments.values().filter(|linked| linked.owner == owner);
        let mut had = older.find_map(|linked| linked.lease.as_ref()).map_or(0, Lease::bytes);
        if asks == Asks::Consumer {
            // The next consumer is handed that first.
            had += state.untaken.iter().map(Lease::bytes).sum::<u64>();
        }
        let lease = self.windows.take(frames.window_bytes, had, asks)?;
        let window = Window { bytes: lease.bytes(), items: frames.window_items };
        let attached = match &frames.role {
            FrameRole::Produce { producer, process, first, level, .. } => {
                state.machine.attach(attachment, (producer, *process), *first, *level, window)?;
                if frames.channel.is_unattended {
                    state.machine.set_unattended();
                }
                let is_durable = *level == HeldLevel::Durable;
                state.link(attachment, Linked::new((number, outbox), (false, is_durable), owner, lease));
                let end = HubEnd::new(self.clone(), attachment, (number, terms), false);
                Attached::Producer(Arc::new(HubProducer::new(end, producer.clone())))
            }
            FrameRole::Consume(consume) => {
                let subscribed = state.machine.subscribe(attachment, consume, window)?;
                let key = ConsumerKey::of(consume);
                if window.bytes < frames.window_bytes {
                    state.machine.tell_window(attachment, &key, &consume.consumer);
                }
                state.link(attachment, Linked::new((number, outbox), (true, false), owner, lease));
                state.untaken.clear();
                let end = HubEnd::new(self.clone(), attachment, (number, terms), true);
                let consumer = HubConsumer::new(end, key, consume.consumer);
                Attached::Consumer(Arc::new(consumer), subscribed.instance)
            }
        };
        Ok(attached)
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

impl Attached {
    /// The end of the lane, for its session.
    pub fn link(&self) -> Arc<dyn Transfer> {
        match self {
            Attached::Producer(link) => link.clone(),
            Attached::Consumer(link, _) => link.clone(),
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

    /// Whether another attachment took its place.
    pub fn is_replaced(&self) -> bool {
        match self {
            Attached::Producer(link) => link.is_replaced(),
            Attached::Consumer(link, _) => link.is_replaced(),
        }
    }

    /// Where a consumer is: its channel's status tells it.
    pub fn set_address(&self, address: IpAddr) {
        if let Attached::Consumer(link, _) = self {
            link.set_address(address);
        }
    }

    /// The session of a consumer is over: others may have its window, when what it was handed has room
    /// without. A producer may have frames in its own.
    pub fn free_window(&self) {
        if let Attached::Consumer(link, _) = self {
            link.free_window();
        }
    }

    /// What was taken under the name of a producer before, if all of it is known.
    pub fn taken_before(&self) -> Option<TakenBefore> {
        match self {
            Attached::Producer(link) => link.taken_before(),
            Attached::Consumer(..) => None,
        }
    }

    /// Another attachment took its place, or nobody waits for it: it is heard no more.
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
