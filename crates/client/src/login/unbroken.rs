//! What must not be cut: from when a provider is asked with what may be spent by it until what it gives is kept. Cut
//! there, the provider has given another refresh token, nobody has it, and the login is over.
//!
//! 1. Who asks begins an [`Unbroken`], and drops it when what came is kept. In between signals that would end the
//!    process wait (commands that listen for none: `ls`, `du`).
//! 2. Who ends the process calls [`settle`] first, as `main` does, and a second Ctrl-C. From then on none begins, and
//!    those under way are waited for, as long as an answer may take.
//!
//! Not guaranteed: what SIGKILL, or a machine that fails, cuts.

use std::sync::{Condvar, Mutex};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex;
use thalweg_sys::process::{self, HeldSignals};
use thalweg_tokens::GRANT_LIMIT;

/// So long those under way are waited for: for the answer, and until it is on a slow disk.
const SETTLE_MAX: Duration = Duration::from_secs(GRANT_LIMIT.as_secs() + 5);

/// Those of this process.
static ALL: Sections = Sections::new();

/// Something that nothing may cut, until it is dropped.
#[derive(Debug)]
pub(super) struct Unbroken<'a>(&'a Sections);

#[derive(Debug)]
struct Sections {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    under_way: usize,
    held: Option<HeldSignals>,
    is_settling: bool,
}

/// Begins one.
///
/// # Errors
/// `Stopped` if the process ends.
pub(super) fn begin() -> Result<Unbroken<'static>> {
    ALL.begin()
}

/// Waits until no login is in the middle of something, as long as an answer may take; from now on none begins anything.
/// To be called before the process ends.
pub fn settle() {
    ALL.settle(SETTLE_MAX);
}

impl Sections {
    const fn new() -> Sections {
        let state = State { under_way: 0, held: None, is_settling: false };
        Sections { state: Mutex::new(state), ended: Condvar::new() }
    }

    fn begin(&self) -> Result<Unbroken<'_>> {
        let mut state = mutex::lock(&self.state);
        if state.is_settling {
            return Err(Failure::new(FailureKind::Stopped, "ask for a token", "the command ends"));
        }
        if state.under_way == 0 {
            state.held = Some(process::hold_signals());
        }
        state.under_way += 1;
        Ok(Unbroken(self))
    }

    fn settle(&self, at_most: Duration) {
        let mut state = mutex::lock(&self.state);
        state.is_settling = true;
        drop(self.ended.wait_timeout_while(state, at_most, |state| state.under_way > 0));
    }
}

impl Drop for Unbroken<'_> {
    fn drop(&mut self) {
        let mut state = mutex::lock(&self.0.state);
        state.under_way -= 1;
        if state.under_way == 0 {
            // Here the process may end.
            state.held = None;
        }
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_ends_the_process_waits_for_what_is_under_way_and_nothing_begins_any_more() {
        let sections = Sections::new();
        let is_kept = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (one, other) = (sections.begin().unwrap(), sections.begin().unwrap());
            let settled = scope.spawn(|| {
                sections.settle(Duration::from_secs(600));
                is_kept.load(Ordering::Acquire)
            });
            drop(one);
            // Each begins until it is settled, and ends at once.
            while sections.begin().is_ok() {
                std::thread::yield_now();
            }
            assert!(!settled.is_finished());
            is_kept.store(true, Ordering::Release);
            drop(other);
            assert!(settled.join().unwrap(), "it was cut");
        });
        assert_eq!(sections.begin().unwrap_err().kind, FailureKind::Stopped);
    }

    #[test]
    fn an_answer_that_does_not_come_keeps_no_process() {
        let sections = Sections::new();
        let _never = sections.begin().unwrap();
        sections.settle(Duration::from_millis(10));
    }
}
