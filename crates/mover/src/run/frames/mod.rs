//! Frames at work: what [`crate::frames`] decides, done by threads.
//!
//! A session knows one end of a lane as a [`FramesLink`]: four kinds, of a producer and a consumer at the client's side
//! ([`produce`], [`consume`]) and what stands for them at the hub ([`hub`]). A link belongs to one session; the producer, the
//! consumer and the channel behind it outlive that, and a link of an older session is not heard any more.

pub mod hub;

pub mod windows;

mod hub_end;

mod ingest;

mod deliver;

mod store;

mod client_end;

pub mod produce;

pub mod consume;

pub mod job;

mod within;

mod segments;

pub use store::{StorePlace, remove_deserted};

use crate::failure::Result;
use crate::link::FrameBuffer;
use crate::run::sender::Did;
use crate::stage::Accounts;
use crate::stage::send::Outlet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_sys::clock::since_1970;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{Terms, TransferMessage, TransferNumber};

/// What each end of a lane has in one session.
pub struct Head {
    number: TransferNumber,
    terms: Terms,
    accounts: Arc<Accounts>,
    sends: bool,
}

/// One end of a lane, in one session.
pub trait FramesLink: Send + Sync {
    /// What it has like every other.
    fn head(&self) -> &Head;

    /// Number in its session.
    fn number(&self) -> TransferNumber {
        self.head().number
    }

    /// What both sides agreed on.
    fn terms(&self) -> &Terms {
        &self.head().terms
    }

    /// Where its time goes.
    fn accounts(&self) -> &Accounts {
        &self.head().accounts
    }

    /// Whether it is the sending end.
    fn sends(&self) -> bool {
        self.head().sends
    }

    /// The peer said something.
    ///
    /// # Errors
    /// What ends the session.
    fn hear(&self, message: TransferMessage) -> Result<()>;

    /// The link below the session is lost; it may come back.
    fn link_lost(&self) {}

    /// The link below the session stands again.
    fn link_up(&self);

    /// The session is gone.
    fn detach(&self);

    /// Some times a second.
    fn tick(&self) {}

    /// A stream is gone.
    fn stream_lost(&self, _stream: u16) {}

    /// Sends the next segment on a stream, if there is one.
    ///
    /// # Errors
    /// When the stream is gone.
    fn work(&self, _stream: u16, _buffer: &mut FrameBuffer, _outlet: &mut dyn Outlet) -> io::Result<Did> {
        Ok(Did::Over)
    }

    /// Takes a segment. Each connection of the session has a number of its own, which a stream has not: one that takes the place
    /// of another may bring segments while the other's last ones are still taken.
    ///
    /// # Errors
    /// What ends the session.
    fn take(&self, connection: u64, inner: &Inner, payload: &[u8]) -> Result<()>;

    /// Nothing more comes on this connection.
    fn connection_over(&self, _connection: u64) {}

    /// Whether consumers, and not the link, hold it up.
    fn is_held_up(&self) -> bool {
        false
    }

    /// Bytes that came, and bytes that were taken: grows with whatever gets across.
    fn moved_bytes(&self) -> u64;

    /// Whether something waits for the peer's word.
    fn awaits_peer(&self) -> bool {
        false
    }
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// A number that no other link of this process has.
fn new_link() -> u64 {
    static LINKS: AtomicU64 = AtomicU64::new(1);
    LINKS.fetch_add(1, Ordering::Relaxed)
}
