//! Joins what `transfer`, `flow` and `frames` decide to stages, link and real time: the only place where all meet.
//!
//! Where to look, from what a user asked for down to one side at work:
//!
//! - a whole job, from plan to receipt: [`copy`] of files; `flow/job` of a stream; `frames/job` of a producer or
//!   consumer;
//! - far movers: [`by_ssh`] starts one, and [`by_client`] has another machine start one, where a [`steward`] does that;
//!   both have it reached by `reaching`, which knows the manners of `dialling`; `logins` at several hosts are under way
//!   together; [`far_mover`] is one with the session that jobs share;
//! - connections: [`client`] dials them and keeps them standing, [`spread`] deals streams over addresses, [`session`]
//!   is what either mover has of them; [`local`] and `within` do without any;
//! - one side of a transfer at work: [`sender`], [`receiver`], and those of `flow`; [`party`] is what all
//!   four have alike, [`ledger`] the account of their time, `end` how they ended. Ends of a lane of `frames`
//!   are in its own room. [`transfer`] is what a session knows of any of these;
//! - what bounds it: [`expected`], the names that a pull may write; [`steer`], knobs that turn while it
//!   runs; [`share`], what a server lets all of its sessions move together;
//! - the end: [`agree`], where both sides compare what was done, and sign;
//! - [`thread`] starts threads, and tells of those that panic; [`bell`] wakes those that wait for work.

use crate::failure::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_wire::account::{LimitAccount, StreamAccount};
use thalweg_wire::digest::Pieces;
use thalweg_wire::message::{TransferMessage, TransferNumber};
use thalweg_wire::receipt::Block;
use thalweg_wire::{Digest, RelativePath};

pub mod thread;

pub mod bell;

mod end;

pub mod party;

pub mod transfer;

pub mod ledger;

pub mod sender;

pub mod receiver;

pub mod local;

mod within;

pub mod flow;

pub mod frames;

pub mod agree;

pub mod expected;

pub mod share;

pub mod session;

pub mod client;

pub mod spread;

pub mod far_mover;

pub mod steer;

pub mod copy;

mod dialling;

mod reaching;

mod logins;

pub mod by_ssh;

pub mod by_client;

pub mod steward;

/// Real time as the machines take it: since a start, never going back.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A random number from 0 to 1, for pauses.
pub fn chance() -> f64 {
    let mut random = [0; 4];
    // Without randomness pauses are as long as others.
    let _ = aws_lc_rs::rand::fill(&mut random);
    f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX)
}

/// Takes what one side says to the other. Never blocks; what cannot be delivered is lost, which a machine
/// repairs when the link stands again.
pub trait Outbox: Send + Sync {
    /// Says it.
    fn say(&self, transfer: TransferNumber, message: TransferMessage);
    /// There may be new work for the streams.
    fn work(&self);
    /// The same, also for those that stood by: others than before may take work.
    fn work_for_all(&self) {
        self.work();
    }
    /// Bytes that were said and still wait to be sent; none without a link.
    fn queued_bytes(&self) -> usize {
        0
    }
    /// Whether the peer's last word may be late: there is no link, or the peer says that it puts away what it has.
    fn excuses_peer(&self) -> bool {
        false
    }
    /// What the kernel says about the streams; nothing without a link.
    fn streams(&self) -> Vec<StreamAccount> {
        Vec::new()
    }
    /// The limit that the operator of this side set for all that it moves, or for the export of this transfer: of both
    /// the one that it waited for longer; before it waited, the lower.
    fn limit(&self, _transfer: TransferNumber) -> Option<LimitAccount> {
        None
    }
}

/// A part of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiptPart {
    /// The lines of a block, see [`thalweg_wire::receipt::line`].
    Block(Block),
    /// Digests of the parts of a large file that was copied, which join to the digest in its line. They come before the
    /// line, and not in entry order.
    Pieces(RelativePath, Pieces),
}

/// Takes the parts of a receipt as they become final. Called with the run's lock held: hands on and returns.
pub type LineSink = Box<dyn FnMut(ReceiptPart) + Send>;

/// Where the receipt of a transfer goes, and what of it our side signs with the rest.
#[derive(Clone)]
pub struct ReceiptSink {
    /// Takes its lines. Called whenever the receipt begins, with each attempt: its sink starts over.
    pub lines: Arc<dyn Fn() -> LineSink + Send + Sync>,
    /// Digest of its first line.
    pub header: Digest,
    /// Completes it, durably and under its name, with what both sides signed. Called where source files are removed,
    /// before the first of them goes: none goes without it.
    pub complete: CompleteReceipt,
}

/// Completes a receipt with what both sides signed.
pub type CompleteReceipt = Arc<dyn Fn(&agree::Agreed) -> Result<()> + Send + Sync>;

/// How a transfer ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// All entries are settled, everything done is durable.
    Finished(thalweg_wire::message::Totals),
    /// It failed as a whole.
    Failed(crate::failure::Failure),
}
