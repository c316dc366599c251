//! Joins what `transfer` decides to stages, link and real time: the only place where all three meet.

use std::time::{Duration, Instant};
use thalweg_wire::message::{TransferMessage, TransferNumber};

pub mod bell;

pub mod sender;

pub mod receiver;

pub mod local;

pub mod agree;

/// What a pull may bring.
pub mod expected;

pub mod session;

pub mod client;

pub mod far;

pub mod copy;

pub mod by_ssh;

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

/// Takes what one side says to the other. Never blocks; what cannot be delivered is lost, which a machine
/// repairs when the link stands again.
pub trait Outbox: Send + Sync {
    /// Says it.
    fn say(&self, transfer: TransferNumber, message: TransferMessage);
    /// There may be new work for the streams.
    fn work(&self);
}

/// Takes the lines of a receipt, in entry order, as they become final; see [`thalweg_wire::receipt::line`]. Called
/// with the run's lock held: hands on and returns.
pub type LineSink = Box<dyn FnMut(String) + Send>;

/// How a transfer ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// All entries are settled, everything done is durable.
    Finished(thalweg_wire::message::Totals),
    /// It failed as a whole.
    Failed(crate::failure::Failure),
}
