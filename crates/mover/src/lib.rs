//! The engine of thalweg: everything between two disks.
//!
//! A module uses only those that stand before it, so that each can be read with no other than these; `cargo xtask
//! check` takes the order from here. First what all use; then what is settled before the first byte: names, orders,
//! plans, slots, and what may be told of it; where bytes rest and what carries them; the machines that decide; the
//! stages, and what they took. `transfer` decides and does nothing else; `stage` and `link` do and decide nothing;
//! `run` is the only place where they meet.
#![forbid(unsafe_code)]

pub mod failure;

mod numbers;

pub mod mutex;

pub mod several;

pub mod memory;

pub mod filter;

pub mod part;

pub mod retry;

pub mod order;

pub mod model;

pub mod plan;

pub mod history;

pub mod tune;

pub mod admission;

pub mod event;

pub mod journal;

pub mod endpoint;

pub mod link;

pub mod transfer;

pub mod flow;

pub mod frames;

pub mod stage;

pub mod measure;

pub mod basin;

pub mod run;

#[cfg(any(test, feature = "sim"))]
pub mod sim;

#[cfg(any(test, feature = "sim"))]
pub mod testing;

pub use failure::{Failure, FailureKind, Result};
