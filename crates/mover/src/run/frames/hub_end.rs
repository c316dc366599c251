//! The hub's end of a lane, for a producer or a consumer alike, in one session.

use super::hub::HubChannel;
use super::{Head, wall_ns};
use crate::failure::Failure;
use crate::frames::channel::Channel;
use crate::stage::Accounts;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_wire::message::{FramesMessage, Terms, TransferMessage, TransferNumber};

/// See the module.
pub(super) struct HubEnd {
    pub channel: Arc<HubChannel>,
    pub attachment: u64,
    pub head: Head,
    is_over: AtomicBool,
    failed: OnceLock<Failure>,
}

impl HubEnd {
    pub fn new(
        channel: Arc<HubChannel>,
        attachment: u64,
        (number, terms): (TransferNumber, Terms),
        sends: bool,
    ) -> HubEnd {
        let head = Head { number, terms, accounts: Arc::default(), sends };
        HubEnd { channel, attachment, head, is_over: AtomicBool::new(false), failed: OnceLock::new() }
    }

    pub fn accounts(&self) -> &Accounts {
        &self.head.accounts
    }

    /// Whether the client was told that it ended, left, or gave up.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Why it is over, if that was in no order: the client gave up, or was refused what it said.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.get().cloned()
    }

    /// It ends for this reason; the first counts.
    pub fn fail(&self, why: Failure) {
        let _ = self.failed.set(why);
    }

    /// It is over; `last` is what the machine does about it. Nobody hears the attachment any more.
    pub fn leave(&self, last: impl FnOnce(&mut Channel)) {
        self.is_over.store(true, Ordering::Release);
        self.channel.act(last);
        self.channel.unlink(self.attachment);
    }

    /// Says something to the client.
    pub fn say(&self, message: TransferMessage) {
        self.channel.say(self.attachment, message);
    }

    /// Says what time it is here.
    pub fn tell_clock(&self, asked_ns: u64) {
        self.say(TransferMessage::Frames(FramesMessage::ClockTell { asked_ns, hub_ns: wall_ns() }));
    }
}
