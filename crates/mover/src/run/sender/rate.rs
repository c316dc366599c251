//! How fast it sends: at a rate that was asked for, or by what it leaves to others.

use super::SendRun;
use crate::mutex::lock;
use crate::stage::Stage;
use crate::tune::ledbat::Sample;
use std::sync::atomic::Ordering;

impl SendRun {
    /// The rate that it is held to now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// The rate that was asked for last, in bytes a second.
    pub fn asked_rate(&self) -> Option<u64> {
        self.pace.asked()
    }

    /// Whether a rate that was asked for is all that it waits for: nothing that is to go is held up by anybody else.
    pub fn is_paced(&self) -> bool {
        self.pace.is_waited_for() && self.putting.load(Ordering::Relaxed) == 0
    }

    /// What it sent lately, to compare with others of its session. Called once for each sample of the streams.
    pub fn sent_lately(&self) -> f64 {
        let sent = self.common.accounts.bytes(Stage::Send);
        let mut state = lock(&self.sent);
        let before = std::mem::replace(&mut state.0, sent);
        // What left a moment ago is acknowledged now.
        state.1 = state.1 / 2.0 + sent.saturating_sub(before) as f64;
        state.1
    }

    /// Whether it is to yield to others.
    pub fn yields(&self) -> bool {
        self.common.terms.yields
    }

    /// Yields to others by what its streams show.
    pub fn leave_room(&self, sample: &Sample) {
        let mut ledbat = lock(&self.ledbat);
        let rate = ledbat.sample(self.clock.now(), sample);
        tracing::debug!(?sample, queue = ?ledbat.queue(), rate, "yielding");
        self.pace.leave(Some(rate));
    }

    /// Yields to nobody: nothing shows what others leave.
    pub fn leave_all(&self) {
        self.pace.leave(None);
    }
}
