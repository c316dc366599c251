//! Memory of a hub for what is under way: the windows of all producers and consumers of all its channels together.
//!
//! A window is memory that its owner may fill at any time: frames of a producer wait in it for room in their channel,
//! frames for a consumer until they are taken. Nobody who is new gets more than a share of what is left, so that who
//! comes later finds some too. Besides, each may have one frame that is larger than its window, as large as the
//! channel's memory allows.
//!
//! A producer that comes back, maybe to a hub that was begun anew, has frames under way for the window that it had: it
//! needs all of that, and no share binds it. Half of the memory is for producers and half for consumers, who ask for
//! more than they had: so all producers that fitted at one hub fit at the next, in whatever order they and consumers
//! come.

use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::mutex::lock;
use std::sync::{Arc, Mutex};
use thalweg_wire::limits;

/// Of what is left, one that is new gets at most this part: of half a gibibyte five get the usual 64 MiB, the others
/// less and less.
const SHARE: u64 = 4;
/// How a refusal says what was refused.
pub const OPERATION: &str = "get a window of the hub";

/// See the module.
#[derive(Debug)]
pub struct Windows {
    /// Of each side.
    bytes_max: u64,
    /// By side.
    used: Mutex<[u64; 2]>,
}

/// A window that somebody has. Given back with the value.
#[derive(Debug)]
pub struct Lease {
    windows: Arc<Windows>,
    side: usize,
    bytes: u64,
}

/// Who asks for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// A producer that begins. It gets all that it asks for or nothing: it chooses a smaller one then.
    New,
    /// A producer that comes back: the same, but for the share.
    Again,
    /// A consumer. It gets what there is.
    Consumer,
}

/// Whether something was refused for want of a window: a smaller one may be had.
pub fn is_of_window(failure: &Failure) -> bool {
    failure.kind == FailureKind::Busy && failure.reason == Reason::NoWindow
}

impl Asks {
    /// Whose memory it is of.
    fn side(self) -> usize {
        usize::from(self == Asks::Consumer)
    }
}

impl Windows {
    /// So many bytes for all.
    pub fn new(bytes_max: u64) -> Arc<Windows> {
        Arc::new(Windows { bytes_max: bytes_max / 2, used: Mutex::default() })
    }

    /// A window of so many bytes, for one who `had` so many and gives them back when it has this.
    ///
    /// # Errors
    /// `Busy`, with what could be had.
    pub fn take(self: &Arc<Self>, asked: u64, had: u64, who: Asks) -> Result<Lease> {
        let side = who.side();
        let mut all = lock(&self.used);
        let used = &mut all[side];
        let left = self.bytes_max.saturating_sub(used.saturating_sub(had));
        let share = match who {
            Asks::Again => left,
            Asks::New | Asks::Consumer => (left / SHARE).max(limits::LANE_BYTES_MIN).max(had),
        };
        let bytes = asked.min(share);
        if bytes > left || (who != Asks::Consumer && bytes < asked) {
            let cause = format!(
                "what may be under way takes {asked} bytes, and {} can be had: others have the memory of the hub for that; a \
                 smaller --window needs less, and a daemon with more --frames-memory gives more",
                share.min(left)
            );
            return Err(Failure::new(FailureKind::Busy, OPERATION, cause).because(Reason::NoWindow));
        }
        *used += bytes;
        Ok(Lease { windows: self.clone(), side, bytes })
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
        lock(&self.windows.used)[self.side] -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn used(windows: &Windows) -> u64 {
        windows.used.lock().unwrap().iter().sum()
    }

    /// As a producer does that begins: half as much, and again.
    fn begin(windows: &Arc<Windows>, asked: u64) -> Lease {
        let halves = std::iter::successors(Some(asked), |asked| Some(asked / 2));
        let mut enough = halves.take_while(|asked| *asked >= limits::LANE_BYTES_MIN);
        enough.find_map(|asked| windows.take(asked, 0, Asks::New).ok()).unwrap()
    }

    #[test]
    fn all_windows_together_stay_within_their_bytes_and_come_back() {
        let windows = Windows::new(128 * MIB);
        let mut leases = Vec::new();
        // Those who take what there is.
        while let Ok(lease) = windows.take(16 * MIB, 0, Asks::Consumer) {
            assert!(lease.bytes() >= limits::LANE_BYTES_MIN);
            leases.push(lease);
            assert_eq!(used(&windows), leases.iter().map(Lease::bytes).sum::<u64>());
            assert!(used(&windows) <= 64 * MIB);
        }
        assert!(leases.len() > 20 && leases[0].bytes() == 16 * MIB, "{leases:?}");
        let refused = windows.take(16 * MIB, 0, Asks::Consumer).unwrap_err();
        assert!(is_of_window(&refused) && refused.cause.contains("--window"), "{refused:?}");
        // What producers have is not theirs.
        assert_eq!(windows.take(16 * MIB, 0, Asks::New).unwrap().bytes(), 16 * MIB);
        leases.clear();
        assert_eq!(
            (used(&windows), windows.take(16 * MIB, 0, Asks::Consumer).unwrap().bytes()),
            (0, 16 * MIB)
        );
    }

    #[test]
    fn who_needs_all_is_refused_with_what_it_could_have_and_gets_that() {
        let windows = Windows::new(128 * MIB);
        let refused = windows.take(17 * MIB, 0, Asks::New).unwrap_err();
        assert!(is_of_window(&refused) && refused.cause.contains("16777216 can be had"), "{refused:?}");
        assert_eq!(windows.take(16 * MIB, 0, Asks::New).unwrap().bytes(), 16 * MIB);
        assert_eq!(used(&windows), 0);
    }

    #[test]
    fn who_comes_back_gets_what_it_had() {
        let windows = Windows::new(128 * MIB);
        let first = windows.take(16 * MIB, 0, Asks::Consumer).unwrap();
        let _others: Vec<Lease> =
            std::iter::from_fn(|| windows.take(16 * MIB, 0, Asks::Consumer).ok()).collect();
        let again = windows.take(16 * MIB, first.bytes(), Asks::Consumer).unwrap();
        drop(first);
        assert_eq!(again.bytes(), 16 * MIB);
        assert!(used(&windows) <= 64 * MIB);
    }

    #[test]
    fn all_producers_of_a_hub_fit_into_the_next_whoever_comes_first() {
        const HUB: u64 = 1 << 30;
        const USUAL: u64 = 64 * MIB;
        let consume = |windows: &Arc<Windows>| -> Vec<Lease> {
            (0..16).map(|_| windows.take(USUAL, 0, Asks::Consumer).unwrap()).collect()
        };
        let before = Windows::new(HUB);
        let producers: Vec<Lease> = (0..16).map(|_| begin(&before, USUAL)).collect();
        let had: Vec<u64> = producers.iter().map(Lease::bytes).collect();
        assert!(had[0] == USUAL && had[15] < USUAL, "{had:?}");
        let _consumers = consume(&before);
        assert!(used(&before) <= HUB);
        // The next knows none of them; consumers are there first, and the largest window is the last to be asked for.
        let after = Windows::new(HUB);
        let _consumers = consume(&after);
        let back: Vec<Lease> =
            had.iter().rev().map(|bytes| after.take(*bytes, 0, Asks::Again).unwrap()).collect();
        assert_eq!(back.iter().rev().map(Lease::bytes).collect::<Vec<_>>(), had);
        drop(back);
        // No more than there is.
        let _all: Vec<Lease> =
            (0..HUB / 2 / USUAL).map(|_| after.take(USUAL, 0, Asks::Again).unwrap()).collect();
        assert!(is_of_window(&after.take(MIB, 0, Asks::Again).unwrap_err()));
    }
}
