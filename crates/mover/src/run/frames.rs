//! Frames at work: what [`crate::frames`] decides, done by threads.
//!
//! 1. [`job`] is what a client asks for: it keeps a session with the hub, or stands in the hub's own process
//!    ([`local`]).
//! 2. A session knows one end of a lane as a [`Transfer`](super::transfer::Transfer): four kinds, of a producer and a
//!    consumer at the client's side ([`produce`], [`consume`]; what both have is [`client_end`]), and what stands for
//!    them at the hub ([`hub_producer`], [`hub_consumer`]; [`hub_end`]). Such an attachment belongs to one session; the
//!    producer, the consumer and the channel behind it outlive that, and one of an older session is not heard any more.
//! 3. Items go over the streams in [`segments`].
//! 4. The [`hub`] has the channels: the machine of each, with what is attached to it, memory for [`windows`], and the
//!    thread that writes its spill log ([`spill_files`]).

pub mod hub;

pub mod windows;

mod hub_end;

mod hub_producer;

mod hub_consumer;

mod spill_files;

mod client_end;

pub mod produce;

pub mod consume;

// What is told of a channel that is not as it was wished for, or holds its producers up.
mod held_up;

pub mod job;

mod local;

mod segments;

pub use spill_files::{StorePlace, log_signature, remove_deserted, remove_deserted_below};

use crate::run::transfer::Crossed;
use crate::stage::{Accounts, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_sys::clock::since_1970;
use thalweg_wire::message::{Heartbeat, Terms, TransferNumber, WaitingFor};

/// What each end of a lane has in one session.
pub struct Head {
    number: TransferNumber,
    terms: Terms,
    accounts: Arc<Accounts>,
    sends: bool,
}

impl Head {
    /// What of its lane got across: bytes that came or were taken, for which nobody asks a second time.
    fn crossed(&self, moved_bytes: u64) -> Crossed {
        Crossed {
            verified_bytes: moved_bytes,
            kept_bytes: moved_bytes,
            sent_bytes: if self.sends { self.accounts.bytes(Stage::Send) } else { 0 },
            ..Crossed::default()
        }
    }
}

/// What an end of a lane adds to a heartbeat: bytes that came or were taken, and whether consumers, and not
/// the link, hold it up.
fn add_moved(heartbeat: &mut Heartbeat, moved_bytes: u64, is_held_up: bool) {
    heartbeat.verified_bytes = heartbeat.verified_bytes.saturating_add(moved_bytes);
    if is_held_up {
        heartbeat.waiting_for = Some(WaitingFor::Consumer);
    }
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// A number that no other attachment of this process has.
fn new_attachment() -> u64 {
    static ATTACHMENTS: AtomicU64 = AtomicU64::new(1);
    ATTACHMENTS.fetch_add(1, Ordering::Relaxed)
}
