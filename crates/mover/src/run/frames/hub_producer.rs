//! What stands for a producer at its hub, in one session.

use super::hub::shown;
use super::hub_end::HubEnd;
use super::segments::{Inlets, Whole};
use super::{add_moved, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::not_said_by;
use crate::run::transfer::{Crossed, PeerNow, Reception, Transfer, limited};
use crate::stage::Stage;
use std::time::{Duration, Instant};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, Heartbeat, ProducerId, TakenBefore, Terms, TransferMessage};

/// See the module.
pub struct HubProducer {
    end: HubEnd,
    producer: ProducerId,
    inlets: Inlets,
}

impl HubProducer {
    pub(super) fn new(end: HubEnd, producer: ProducerId) -> HubProducer {
        let inlets = Inlets::new(end.channel.shelf().clone());
        HubProducer { end, producer, inlets }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_over()
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.end.failure()
    }

    /// What is no breach of protocol ends this producer, and not the session with all that is in it.
    fn refuse(&self, failure: Failure) -> Result<()> {
        if failure.kind == FailureKind::Protocol {
            return Err(failure);
        }
        self.end.fail(failure.clone());
        self.end.say(TransferMessage::Abort(failure));
        self.give_up();
        Ok(())
    }

    fn take_segment(&self, connection: u64, inner: &Inner, payload: &[u8]) -> Result<()> {
        let begin = |epoch, number, item: &_| {
            self.end.channel.act(|machine| machine.begin(self.end.attachment, epoch, number, item))
        };
        let whole = self.inlets.take(connection, inner, payload, self.end.accounts(), begin)?;
        let Some(whole) = whole else { return Ok(()) };
        self.end.channel.act(|machine| {
            if !self.inlets.is_current(connection, &whole) {
                return Ok(());
            }
            let Whole { epoch, number, item, payload, is_sound, .. } = whole;
            match is_sound {
                true => {
                    machine.arrived(self.end.attachment, epoch, number, item, payload, wall_ns());
                    Ok(())
                }
                false => machine.damaged(self.end.attachment, epoch, number),
            }
        })
    }

    pub(super) fn taken_before(&self) -> Option<TakenBefore> {
        self.end.channel.lock().machine.taken_before(&self.producer)
    }

    pub(super) fn is_replaced(&self) -> bool {
        !self.end.channel.lock().machine.is_last_attachment(self.end.attachment, &self.producer)
    }

    pub(super) fn forget(&self) {
        self.end.channel.unlink(self.end.attachment);
    }

    pub(super) fn give_up(&self) {
        tracing::info!("{} is gone", shown(&self.producer));
        self.end.leave(|machine| machine.give_up(self.end.attachment, &self.producer));
    }
}

impl Transfer for HubProducer {
    fn terms(&self) -> &Terms {
        &self.end.head.terms
    }

    fn sends(&self) -> bool {
        self.end.head.sends
    }

    fn crossed(&self) -> Crossed {
        self.end.head.crossed(self.end.accounts().bytes(Stage::Verify))
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        let is_held_up = self.end.channel.lock().machine.is_held_up(self.end.attachment);
        add_moved(heartbeat, self.end.accounts().bytes(Stage::Verify), is_held_up);
    }

    fn blames(&self, peer: &PeerNow) -> bool {
        peer.is_silent
    }

    fn hear(&self, message: TransferMessage) -> Result<()> {
        match message {
            TransferMessage::Frames(FramesMessage::ClockAsk { asked_ns }) => {
                self.end.tell_clock(asked_ns);
                Ok(())
            }
            // It has heard that it finished.
            TransferMessage::Frames(FramesMessage::Leave) => {
                self.end.leave(|machine| machine.detach(self.end.attachment));
                Ok(())
            }
            TransferMessage::Frames(message) => {
                let heard =
                    self.end.channel.act(|machine| machine.hear(self.end.attachment, message, wall_ns()));
                heard.or_else(|failure| self.refuse(failure))
            }
            TransferMessage::Abort(why) => {
                self.end.fail(why);
                self.give_up();
                Ok(())
            }
            other => Err(not_said_by("a producer", &other)),
        }
    }

    fn link_lost(&self) {
        self.end.channel.act(|machine| machine.link_lost(self.end.attachment));
    }

    fn link_up(&self) {
        self.end.channel.act(|machine| machine.link_up(self.end.attachment));
    }

    fn detach(&self) {
        self.end.channel.act(|machine| machine.detach(self.end.attachment));
    }

    fn tick(&self) {
        self.end.channel.act(|machine| machine.tick(wall_ns()));
        self.end.channel.bound_block();
        self.end.channel.shelf().tidy(Instant::now());
    }

    fn book_limit(&self, held: Duration) {
        self.end.accounts().book(Stage::Limit, limited(held));
    }

    fn take(&self, connection: u64, inner: &Inner, payload: &[u8], received: &Reception) -> Result<()> {
        received.book(self.end.accounts());
        match self.is_over() {
            true => Ok(()),
            false => self.take_segment(connection, inner, payload).or_else(|failure| self.refuse(failure)),
        }
    }

    fn connection_over(&self, connection: u64) {
        self.inlets.over(connection);
    }
}
