//! What stands for a consumer at its hub, in one session.

use super::hub_end::HubEnd;
use super::segments::{Going, Outlets};
use super::{add_moved, wall_ns};
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::channel::{Channel, ConsumerKey, What, Work};
use crate::frames::not_said_by;
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::run::transfer::{Crossed, PeerNow, Reception, Transfer};
use crate::stage::send::Outlet;
use crate::stage::{Stage, Stopwatch};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{FramesMessage, Heartbeat, Terms, TransferMessage};

/// See the module.
pub struct HubConsumer {
    end: HubEnd,
    key: ConsumerKey,
    who: [u8; 16],
    outlets: Outlets,
}

impl HubConsumer {
    pub(super) fn new(end: HubEnd, key: ConsumerKey, who: [u8; 16]) -> HubConsumer {
        HubConsumer { end, key, who, outlets: Outlets::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_over()
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.end.failure()
    }

    pub(super) fn is_replaced(&self) -> bool {
        let state = self.end.channel.lock();
        !state.machine.is_last_consumer_attachment(self.end.attachment, &self.key, &self.who)
    }

    pub(super) fn forget(&self) {
        self.end.channel.unlink(self.end.attachment);
    }

    pub(super) fn set_address(&self, address: IpAddr) {
        let (attachment, at) = (self.end.attachment, address.to_canonical().to_string());
        self.end.channel.act(|machine| machine.set_consumer_address(attachment, &self.key, &self.who, at));
    }

    pub(super) fn free_window(&self) {
        self.end.channel.free_window(self.end.attachment);
    }

    pub(super) fn give_up(&self) {
        self.end.leave(|machine| {
            machine.leave(self.end.attachment, &self.key, &self.who);
            machine.admit(wall_ns());
        });
    }

    fn next(&self, stream: u16, outlet: &dyn Outlet) -> Result<Option<Going>> {
        let item = self.next_item(stream, &|| outlet.is_over());
        item.map(|(epoch, number, what)| Going::what(epoch, number, &what)).transpose()
    }

    /// The next item for a stream, unless that is over, read from the log if need be, with its epoch and number.
    pub(super) fn next_item(&self, stream: u16, is_over: &dyn Fn() -> bool) -> Option<(u16, u64, What)> {
        loop {
            let next = |machine: &mut Channel| match is_over() {
                true => None,
                false => machine.next(self.end.attachment, &self.key, &self.who, stream),
            };
            match self.end.channel.act(next) {
                None => return None,
                Some(Work::Send { number, epoch, what }) => return Some((epoch, number, what)),
                Some(Work::Read { number, at, position }) => {
                    let mut watch = Stopwatch::start(self.end.accounts());
                    let (store, shelf) = (self.end.channel.store(), self.end.channel.shelf());
                    let held = store.and_then(|store| store.read(position, at, shelf));
                    let held = held.map(Arc::new);
                    watch.lap(Stage::Read, at.bytes);
                    self.end.channel.act(|machine| {
                        machine.loaded(&self.key, &self.who, number, at, held);
                        machine.admit(wall_ns());
                    });
                }
            }
        }
    }
}

impl Transfer for HubConsumer {
    fn terms(&self) -> &Terms {
        &self.end.head.terms
    }

    fn sends(&self) -> bool {
        self.end.head.sends
    }

    fn crossed(&self) -> Crossed {
        self.end.head.crossed(self.end.accounts().bytes(Stage::Send))
    }

    fn add_to(&self, heartbeat: &mut Heartbeat) {
        add_moved(heartbeat, self.end.accounts().bytes(Stage::Send), false);
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
            TransferMessage::Frames(FramesMessage::Leave) => {
                self.give_up();
                Ok(())
            }
            TransferMessage::Abort(why) => {
                self.end.fail(why);
                self.give_up();
                Ok(())
            }
            TransferMessage::Frames(message) => {
                let attachment = self.end.attachment;
                let hear = |machine: &mut Channel| {
                    machine.hear_consumer(attachment, &self.key, &self.who, message, wall_ns())
                };
                self.end.channel.act(hear)
            }
            other => Err(not_said_by("a consumer", &other)),
        }
    }

    fn link_lost(&self) {
        self.end.channel.act(|machine| machine.consumer_link_lost(self.end.attachment, &self.key, &self.who));
    }

    fn link_up(&self) {
        // The consumer stands anew; until then nothing is sent.
        self.end.channel.act(|machine| machine.pause_consumer(self.end.attachment, &self.key, &self.who));
    }

    fn detach(&self) {
        self.end.channel.act(|machine| machine.unlink_consumer(self.end.attachment, &self.key, &self.who));
    }

    fn stream_lost(&self, stream: u16) {
        self.outlets.lost(stream);
        self.end
            .channel
            .act(|machine| machine.consumer_stream_lost(self.end.attachment, &self.key, &self.who, stream));
    }

    fn work(&self, stream: u16, buffer: &mut FrameBuffer, outlet: &mut dyn Outlet) -> io::Result<Did> {
        if self.is_over() {
            return Ok(Did::Over);
        }
        let epoch = self.end.channel.lock().machine.consumer_epoch(self.end.attachment, &self.key, &self.who);
        let sink = (buffer, outlet, self.end.head.terms.segment_bytes as usize);
        let next = |outlet: &dyn Outlet| self.next(stream, outlet);
        let at_once = |_: &dyn Outlet, _, _, _| true;
        let asks = (next, at_once, || !self.is_over());
        let did = self.outlets.work(stream, self.end.head.number, epoch, sink, self.end.accounts(), asks)?;
        if matches!(did, Did::Work) {
            let mut state = self.end.channel.lock();
            state.machine.consumer_advances(self.end.attachment, &self.key, &self.who);
        }
        Ok(did)
    }

    fn take(&self, _: u64, _: &Inner, _: &[u8], _: &Reception) -> Result<()> {
        Err(Failure::new(FailureKind::Protocol, "receive", "a consumer sends no frames"))
    }
}
