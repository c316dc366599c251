//! What stands for a consumer at its hub, in one session.

use super::hub::HubChannel;
use super::segments::{Going, Outlets};
use super::{FramesLink, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::hub::{ConsumerKey, Work};
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Stage, Stopwatch};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, Terms, TransferMessage, TransferNumber};

/// See the module.
pub struct Deliver {
    channel: Arc<HubChannel>,
    link: u64,
    number: TransferNumber,
    terms: Terms,
    key: ConsumerKey,
    who: [u8; 16],
    accounts: Accounts,
    outlets: Outlets,
    is_over: AtomicBool,
}

impl Deliver {
    pub(super) fn new(
        channel: Arc<HubChannel>,
        link: u64,
        number: TransferNumber,
        terms: Terms,
        key: ConsumerKey,
        who: [u8; 16],
    ) -> Deliver {
        Deliver {
            channel,
            link,
            number,
            terms,
            key,
            who,
            accounts: Accounts::default(),
            outlets: Outlets::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn is_replaced(&self) -> bool {
        !self.channel.lock().machine.is_last_consumer_link(self.link, &self.key, &self.who)
    }

    pub(super) fn give_up(&self) {
        self.is_over.store(true, Ordering::Release);
        self.channel.act(|machine| {
            machine.leave(self.link, &self.key, &self.who);
            machine.admit(wall_ns());
        });
        self.channel.unlink(self.link);
    }

    /// The next item, read from the log if need be.
    fn next(&self, stream: u16) -> Result<Option<Going>> {
        loop {
            let work = self.channel.act(|machine| machine.next(self.link, &self.key, &self.who, stream));
            match work {
                None => return Ok(None),
                Some(Work::Send { number, epoch, what }) => {
                    return Going::what(epoch, number, &what).map(Some);
                }
                Some(Work::Read { number, at, place }) => {
                    let mut watch = Stopwatch::start(&self.accounts);
                    let held = self.channel.store().and_then(|store| store.read(place, at)).map(Arc::new);
                    watch.lap(Stage::Read, at.bytes);
                    self.channel.act(|machine| {
                        machine.loaded(&self.key, &self.who, number, at, held);
                        machine.admit(wall_ns());
                    });
                }
            }
        }
    }
}

impl FramesLink for Deliver {
    fn number(&self) -> TransferNumber {
        self.number
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    fn sends(&self) -> bool {
        true
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        match message {
            TransferMessage::Frames(FramesMessage::ClockAsk { asked_ns }) => {
                let tell = FramesMessage::ClockTell { asked_ns, hub_ns: wall_ns() };
                self.channel.say(self.link, TransferMessage::Frames(tell));
                Ok(())
            }
            TransferMessage::Frames(FramesMessage::Leave) | TransferMessage::Abort(_) => {
                self.give_up();
                Ok(())
            }
            TransferMessage::Frames(message) => self
                .channel
                .act(|machine| machine.hear_consumer(self.link, &self.key, &self.who, message, wall_ns())),
            _ => Err(Failure::new(FailureKind::Protocol, "hear", "a consumer does not say this")),
        }
    }

    fn link_lost(&self) {
        self.channel.act(|machine| machine.consumer_link_lost(self.link, &self.key, &self.who));
    }

    fn link_up(&self) {
        // The consumer stands anew; until then nothing is sent.
        self.channel.act(|machine| machine.pause_consumer(self.link, &self.key, &self.who));
    }

    fn detach(&self) {
        self.channel.act(|machine| machine.unlink_consumer(self.link, &self.key, &self.who));
    }

    fn tick(&self) {}

    fn stream_lost(&self, stream: u16) {
        self.outlets.lost(stream);
        self.channel.act(|machine| machine.consumer_stream_lost(self.link, &self.key, &self.who, stream));
    }

    fn work(&self, stream: u16, buffer: &mut FrameBuffer, outlet: &mut dyn Outlet) -> io::Result<Did> {
        if self.is_over() {
            return Ok(Did::Over);
        }
        let epoch = self.channel.lock().machine.consumer_epoch(self.link, &self.key, &self.who);
        let sink = (buffer, outlet, self.terms.segment_bytes as usize);
        self.outlets.work(stream, self.number, epoch, sink, &self.accounts, || self.next(stream))
    }

    fn take(&self, _: u16, _: &Inner, _: &[u8]) -> Result<()> {
        Err(Failure::new(FailureKind::Protocol, "receive", "a consumer sends no frames"))
    }

    fn moved_bytes(&self) -> u64 {
        self.accounts.bytes(Stage::Send)
    }

    fn awaits_peer(&self) -> bool {
        false
    }
}
