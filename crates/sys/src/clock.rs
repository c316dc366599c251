//! The clock of the day. It may be set, forward and back: it says when something was, and never how long it took.

use std::time::{Duration, SystemTime};

/// Time since 1970-01-01 UTC, leap seconds not counted; 0 by a clock that stands before.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same in whole seconds.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}
