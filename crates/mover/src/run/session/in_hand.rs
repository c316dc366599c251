//! Frames that streams have in hand: what a disk takes long for shows in no number, and is to be told.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What is over sooner is told of by what was moved.
const TOLD_FROM: Duration = Duration::from_secs(1);

/// Of one session.
pub(super) struct InHand {
    began: Instant,
    count: AtomicUsize,
    /// When a stream took one last, in milliseconds since the session began.
    taken_ms: AtomicU64,
}

impl InHand {
    pub(super) fn new(began: Instant) -> InHand {
        InHand { began, count: AtomicUsize::new(0), taken_ms: AtomicU64::new(0) }
    }

    /// A stream has a frame that came at this moment, until what is given ends.
    pub(super) fn take(&self, came: Instant) -> Taken<'_> {
        self.taken_ms.store(self.millis(came), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
        Taken(&self.count)
    }

    /// For how long streams have had theirs without another being taken, if that is worth a word.
    pub(super) fn stood(&self, now: Instant) -> Option<Duration> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let millis = self.millis(now).saturating_sub(self.taken_ms.load(Ordering::Relaxed));
        Some(Duration::from_millis(millis)).filter(|stood| *stood >= TOLD_FROM)
    }

    fn millis(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_millis() as u64
    }
}

/// A stream has a frame in hand.
pub(super) struct Taken<'a>(&'a AtomicUsize);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_in_hand_for_long_is_told_and_none_that_was_put_away() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let in_hand = InHand::new(began);
        assert_eq!(in_hand.stood(at(9000)), None);
        let one = in_hand.take(at(1000));
        assert_eq!(in_hand.stood(at(1900)), None);
        assert_eq!(in_hand.stood(at(9000)), Some(Duration::from_secs(8)));
        // Others go on, so something moves.
        drop(in_hand.take(at(8500)));
        assert_eq!(in_hand.stood(at(9000)), None);
        assert_eq!(in_hand.stood(at(9500)), Some(Duration::from_secs(1)));
        drop(one);
        assert_eq!(in_hand.stood(at(99_000)), None);
    }
}
