//! What stands for a producer at its hub, in one session.

use super::hub::{HubChannel, shown};
use super::segments::{Inlets, Whole};
use super::{FramesLink, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Stage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, ProducerId, Terms, TransferMessage, TransferNumber};

/// See the module.
pub struct Ingest {
    channel: Arc<HubChannel>,
    link: u64,
    number: TransferNumber,
    terms: Terms,
    producer: ProducerId,
    accounts: Accounts,
    inlets: Inlets,
    is_over: AtomicBool,
}

impl Ingest {
    pub(super) fn new(
        channel: Arc<HubChannel>,
        link: u64,
        number: TransferNumber,
        terms: Terms,
        producer: ProducerId,
    ) -> Ingest {
        Ingest {
            channel,
            link,
            number,
            terms,
            producer,
            accounts: Accounts::default(),
            inlets: Inlets::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// What is no breach of protocol ends this producer, and not the session with all that is in it.
    fn refuse(&self, failure: Failure) -> Result<()> {
        if failure.kind == FailureKind::Protocol {
            return Err(failure);
        }
        self.channel.say(self.link, TransferMessage::Abort(failure));
        self.give_up();
        Ok(())
    }

    fn take_segment(&self, stream: u16, inner: &Inner, payload: &[u8]) -> Result<()> {
        let begin = |epoch, number, item: &_| {
            self.channel.act(|machine| machine.begin(self.link, epoch, number, item))
        };
        let whole = self.inlets.take(stream, inner, payload, &self.accounts, begin)?;
        let Some(Whole { epoch, number, item, payload, is_sound }) = whole else { return Ok(()) };
        self.channel.act(|machine| match is_sound {
            true => {
                machine.arrived(self.link, epoch, number, item, payload, wall_ns());
                Ok(())
            }
            false => machine.damaged(self.link, epoch, number),
        })
    }

    pub(super) fn is_replaced(&self) -> bool {
        !self.channel.lock().machine.is_last_link(self.link, &self.producer)
    }

    pub(super) fn give_up(&self) {
        tracing::info!("{} is gone", shown(&self.producer));
        self.is_over.store(true, Ordering::Release);
        self.channel.act(|machine| machine.give_up(self.link, &self.producer));
        self.channel.unlink(self.link);
    }
}

impl FramesLink for Ingest {
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
        false
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        match message {
            TransferMessage::Frames(FramesMessage::ClockAsk { asked_ns }) => {
                let tell = FramesMessage::ClockTell { asked_ns, hub_ns: wall_ns() };
                self.channel.say(self.link, TransferMessage::Frames(tell));
                Ok(())
            }
            // It has heard that it finished.
            TransferMessage::Frames(FramesMessage::Leave) => {
                self.is_over.store(true, Ordering::Release);
                self.channel.act(|machine| machine.detach(self.link));
                self.channel.unlink(self.link);
                Ok(())
            }
            TransferMessage::Frames(message) => {
                let heard = self.channel.act(|machine| machine.hear(self.link, message, wall_ns()));
                heard.or_else(|failure| self.refuse(failure))
            }
            TransferMessage::Abort(_) => {
                self.give_up();
                Ok(())
            }
            _ => Err(Failure::new(FailureKind::Protocol, "hear", "a producer does not say this")),
        }
    }

    fn link_lost(&self) {
        self.channel.act(|machine| machine.link_lost(self.link));
    }

    fn link_up(&self) {
        self.channel.act(|machine| machine.link_up(self.link));
    }

    fn detach(&self) {
        self.channel.act(|machine| machine.detach(self.link));
    }

    fn tick(&self) {
        self.channel.act(|machine| machine.tick(wall_ns()));
    }

    fn stream_lost(&self, _: u16) {}

    fn work(&self, _: u16, _: &mut FrameBuffer, _: &mut dyn Outlet) -> io::Result<Did> {
        Ok(Did::Over)
    }

    fn take(&self, stream: u16, inner: &Inner, payload: &[u8]) -> Result<()> {
        match self.is_over() {
            true => Ok(()),
            false => self.take_segment(stream, inner, payload).or_else(|failure| self.refuse(failure)),
        }
    }

    fn is_held_up(&self) -> bool {
        self.channel.lock().machine.is_held_up(self.link)
    }

    fn moved_bytes(&self) -> u64 {
        self.accounts.bytes(Stage::Verify)
    }

    fn awaits_peer(&self) -> bool {
        false
    }
}
