//! Memory of a hub for what is under way: the windows of all producers and consumers of all its channels together.
//!
//! A window is memory that its owner may fill at any time: frames of a producer wait in it for room in their channel, frames for a
//! consumer until they are taken. Nobody gets more than a share of what is left, so that who comes later finds some too. Besides,
//! each may have one frame that is larger than its window, as large as the channel's memory allows.

use crate::failure::{Failure, FailureKind, Result};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_wire::limits;

/// Of what is left, one gets at most this part: of a gibibyte thirteen get the usual 64 MiB, and some twenty-five less and less.
const SHARE: u64 = 4;
/// How a refusal says what was refused.
const OPERATION: &str = "get a window of the hub";

/// See the module.
#[derive(Debug)]
pub struct Windows {
    bytes_max: u64,
    used: Mutex<u64>,
}

/// A window that somebody has. Given back with the value.
#[derive(Debug)]
pub struct Lease {
    windows: Arc<Windows>,
    bytes: u64,
}

/// Whether something was refused for want of a window: a smaller one may be had.
pub fn is_of_window(failure: &Failure) -> bool {
    failure.kind == FailureKind::Busy && failure.operation == OPERATION
}

impl Windows {
    /// So many bytes for all.
    pub fn new(bytes_max: u64) -> Arc<Windows> {
        Arc::new(Windows { bytes_max, used: Mutex::default() })
    }

    /// A window of so many bytes, for one who `had` so many and gives them back when it has this. One that `needs_all` is not
    /// served with less; another gets what there is.
    ///
    /// # Errors
    /// `Busy`, with what could be had.
    pub fn take(self: &Arc<Self>, asked: u64, had: u64, needs_all: bool) -> Result<Lease> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.bytes_max.saturating_sub(used.saturating_sub(had));
        let share = (left / SHARE).max(limits::LANE_BYTES_MIN).max(had);
        let bytes = asked.min(share);
        if bytes > left || (needs_all && bytes < asked) {
            let cause = format!(
                "what may be under way takes {asked} bytes, and {} can be had: others have the memory of the hub for that; a \
                 smaller --window needs less, and a daemon with more --frames-memory gives more",
                share.min(left)
            );
            return Err(Failure::new(FailureKind::Busy, OPERATION, cause));
        }
        *used += bytes;
        Ok(Lease { windows: self.clone(), bytes })
    }
}

impl Lease {
    /// How large it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.windows.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn used(windows: &Windows) -> u64 {
        *windows.used.lock().unwrap()
    }

    #[test]
    fn all_windows_together_stay_within_their_bytes_and_come_back() {
        let windows = Windows::new(64 * MIB);
        let mut leases = Vec::new();
        // Those who take what there is.
        while let Ok(lease) = windows.take(16 * MIB, 0, false) {
            assert!(lease.bytes() >= limits::LANE_BYTES_MIN);
            leases.push(lease);
            assert_eq!(used(&windows), leases.iter().map(Lease::bytes).sum::<u64>());
            assert!(used(&windows) <= 64 * MIB);
        }
        assert!(leases.len() > 20 && leases[0].bytes() == 16 * MIB, "{leases:?}");
        let refused = windows.take(16 * MIB, 0, false).unwrap_err();
        assert!(is_of_window(&refused) && refused.cause.contains("--window"), "{refused:?}");
        leases.clear();
        assert_eq!((used(&windows), windows.take(16 * MIB, 0, true).unwrap().bytes()), (0, 16 * MIB));
    }

    #[test]
    fn who_needs_all_is_refused_with_what_it_could_have_and_gets_that() {
        let windows = Windows::new(64 * MIB);
        let refused = windows.take(17 * MIB, 0, true).unwrap_err();
        assert!(is_of_window(&refused) && refused.cause.contains("16777216 can be had"), "{refused:?}");
        assert_eq!(windows.take(16 * MIB, 0, true).unwrap().bytes(), 16 * MIB);
        assert_eq!(used(&windows), 0);
    }

    #[test]
    fn who_comes_back_gets_what_it_had() {
        let windows = Windows::new(64 * MIB);
        let first = windows.take(16 * MIB, 0, true).unwrap();
        let _others: Vec<Lease> = std::iter::from_fn(|| windows.take(16 * MIB, 0, false).ok()).collect();
        let again = windows.take(16 * MIB, first.bytes(), true).unwrap();
        drop(first);
        assert_eq!(again.bytes(), 16 * MIB);
        assert!(used(&windows) <= 64 * MIB);
    }
}
