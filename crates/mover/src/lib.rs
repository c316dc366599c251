//! The engine of thalweg: everything between two disks.
#![forbid(unsafe_code)]

pub mod failure;

pub mod endpoint;

pub mod link;

pub use failure::{Failure, FailureKind, Result};
