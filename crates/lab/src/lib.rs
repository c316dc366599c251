//! The laboratory: how a path behaves, found out on one machine.
//!
//! Nothing here knows the command line: models and results are values that others show.
#![forbid(unsafe_code)]

/// Hosts as network namespaces, joined by an emulated path.
pub mod testbed;

/// What of a machine stands in the way of moving data.
pub mod doctor;
