//! What is to move: which of the names that a scan finds.

pub mod filter;

pub use filter::{Filter, Verdict};
