//! Times in which nothing could move: they are no stage's, and nobody is to learn from them how fast one is.

use crate::failure::counted;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What was seen of them, by the side that tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Outages {
    /// Times that the link was lost.
    pub count: u32,
    /// Time without one, in nanoseconds.
    pub lost_nanos: u64,
    /// Time in which the process that tells stood still, as after Ctrl-Z, in nanoseconds. The link may have been lost
    /// meanwhile.
    pub still_nanos: u64,
}

impl Outages {
    /// One more time without a link.
    pub fn lost(&mut self, time: Duration) {
        self.count = self.count.saturating_add(1);
        self.lost_nanos = self.lost_nanos.saturating_add(nanos(time));
    }

    /// The process stood still for so long.
    pub fn stood_still(&mut self, time: Duration) {
        self.still_nanos = self.still_nanos.saturating_add(nanos(time));
    }

    /// What is more than `then`.
    #[must_use]
    pub fn since(self, then: Outages) -> Outages {
        Outages {
            count: self.count.saturating_sub(then.count),
            lost_nanos: self.lost_nanos.saturating_sub(then.lost_nanos),
            still_nanos: self.still_nanos.saturating_sub(then.still_nanos),
        }
    }

    /// Whether there was any.
    pub fn is_any(&self) -> bool {
        *self != Outages::default()
    }

    /// In a sentence; `None` where there was none. `elapsed_s`: the time of the whole transfer, in seconds.
    pub(super) fn sentence(&self, elapsed_s: f64) -> Option<String> {
        let of_all = |nanos: u64| format!("{:.1} of {elapsed_s:.1} s", nanos as f64 / 1e9);
        let lost = (self.count > 0).then(|| {
            let times = counted(self.count.into(), "time", "times");
            format!("the link was lost {times}, for {}", of_all(self.lost_nanos))
        });
        let still =
            (self.still_nanos > 0).then(|| format!("thalweg stood still for {}", of_all(self.still_nanos)));
        let told: Vec<String> = lost.into_iter().chain(still).collect();
        (!told.is_empty()).then(|| format!("Nothing could move for a while: {}.", told.join("; ")))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
