//! Wakes threads that wait for work: an *event count*.
//!
//! A thread that waits takes the count, looks for work, and sleeps only if the count is still the same. So nothing that
//! comes between look and sleep is missed. Who stands by, because others take the work, sleeps through what is for them
//! alone: over a far path a message would wake some thirty threads, of which eight may do something.

use crate::mutex::lock;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Bell {
    state: Mutex<State>,
    condition: Condvar,
    /// Of who stands by.
    standing_by: Condvar,
}

#[derive(Default)]
struct State {
    rings: Rings,
    stopped: bool,
}

/// Rings so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rings {
    /// All of them.
    pub all: u64,
    /// Those that wake who stands by, too.
    pub for_all: u64,
}

impl Bell {
    /// There may be work.
    pub fn ring(&self) {
        self.lock().rings.all += 1;
        self.condition.notify_all();
    }

    /// There may be work, also for who stands by.
    pub fn ring_for_all(&self) {
        let mut state = self.lock();
        state.rings.all += 1;
        state.rings.for_all += 1;
        drop(state);
        self.condition.notify_all();
        self.standing_by.notify_all();
    }

    /// Rings so far; take it before looking for work.
    pub fn rings(&self) -> Rings {
        self.lock().rings
    }

    /// Nobody shall wait any more.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.condition.notify_all();
        self.standing_by.notify_all();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits for a ring after `seen`, at most so long. False: it was stopped.
    pub fn wait(&self, seen: Rings, at_most: Duration) -> bool {
        self.wait_while(&self.condition, at_most, |rings| rings.all == seen.all)
    }

    /// The same, of who stands by: only rings for all end it.
    pub fn stand_by(&self, seen: Rings, at_most: Duration) -> bool {
        self.wait_while(&self.standing_by, at_most, |rings| rings.for_all == seen.for_all)
    }

    fn wait_while(&self, condition: &Condvar, at_most: Duration, is_same: impl Fn(Rings) -> bool) -> bool {
        let waiting = |state: &mut State| is_same(state.rings) && !state.stopped;
        let (state, _) = condition
            .wait_timeout_while(self.lock(), at_most, waiting)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        !state.stopped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn who_stands_by_sleeps_through_what_is_for_the_others_alone() {
        let bell = Bell::default();
        let seen = bell.rings();
        bell.ring();
        let since = Instant::now();
        assert!(bell.wait(seen, LONG) && bell.stand_by(seen, Duration::from_millis(20)));
        assert!(since.elapsed() >= Duration::from_millis(20));
        std::thread::scope(|scope| {
            let stands_by = scope.spawn(|| bell.stand_by(seen, LONG));
            let waits = scope.spawn(|| bell.wait(bell.rings(), LONG));
            while !(stands_by.is_finished() && waits.is_finished()) {
                bell.ring_for_all();
            }
            assert!(stands_by.join().unwrap() && waits.join().unwrap());
            let stands_by = scope.spawn(|| bell.stand_by(bell.rings(), LONG));
            bell.stop();
            assert!(!stands_by.join().unwrap());
        });
    }
}
