//! The engine of thalweg: everything between two disks.
//!
//! The modules stand in the order in which a byte meets them. `transfer` decides and does nothing else;
//! `stage` and `link` do and decide nothing; `run` is the only place where they meet.
#![forbid(unsafe_code)]

pub mod failure;

mod numbers;

pub mod mutex;

pub mod memory;

pub mod endpoint;

pub mod manifest;

pub mod order;

pub mod plan;

pub mod tune;

pub mod admission;

pub mod stage;

pub mod measure;

pub mod basin;

pub mod model;

pub mod link;

pub mod journal;

pub mod again;

pub mod transfer;

pub mod flow;

pub mod frames;

pub mod run;

pub mod event;

#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub use failure::{Failure, FailureKind, Result};
