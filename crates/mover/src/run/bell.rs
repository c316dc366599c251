//! Wakes threads that wait for work: an *event count*.
//!
//! A thread that waits takes the count, looks for work, and sleeps only if the count is still the same. So nothing that
//! comes between look and sleep is missed.

use crate::mutex::lock;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Bell {
    state: Mutex<State>,
    condition: Condvar,
}

#[derive(Default)]
struct State {
    rings: u64,
    stopped: bool,
}

impl Bell {
    /// There may be work.
    pub fn ring(&self) {
        self.lock().rings += 1;
        self.condition.notify_all();
    }

    /// Rings so far; take it before looking for work.
    pub fn rings(&self) -> u64 {
        self.lock().rings
    }

    /// Nobody shall wait any more.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.condition.notify_all();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits for a ring after `seen`, at most so long. False: it was stopped.
    pub fn wait(&self, seen: u64, at_most: Duration) -> bool {
        let waiting = |state: &mut State| state.rings == seen && !state.stopped;
        let (state, _) = self
            .condition
            .wait_timeout_while(self.lock(), at_most, waiting)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        !state.stopped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
