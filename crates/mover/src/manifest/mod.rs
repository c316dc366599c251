//! What is to move: which of the names that a scan finds.

pub mod filter;

pub use filter::{Filter, Verdict};

/// With this begins why a name was skipped that the user's own rules leave out: nobody needs to be told.
pub const EXCLUDED_BY: &str = "excluded by";
