//! The producer's side of a slot: which bytes go when.
//!
//! Bytes go one after the other at the rate of the slot, each piece only in a window that has room for all of it. A
//! piece larger than a window has one for itself. So a producer that has more than it said hurts nobody but itself: the
//! rest waits for the next window. What a thread is late within a window is made up for, as far as the slack goes, and
//! a last piece may end so much behind its window: else a piece now and then would be a whole period late because a
//! thread was for milliseconds. Whoever has the next window has as much to spare.

use std::time::Duration;

/// Windows on the producer's own clock. Times are nanoseconds since a moment that the caller chose.
#[derive(Debug, Clone)]
pub struct Gate {
    /// When one window opens; the others are periods before and after.
    opens: u64,
    period: u64,
    length: u64,
    bytes_per_s: u64,
    slack: u64,
    /// When what was let through before is through, by the rate.
    free_at: u64,
}

impl Gate {
    /// A window opens at `opens`, each `period` another one of this `length`; in them bytes go at this rate, by a
    /// schedule that is at most `slack` behind the clock, and ends with the window. Period, length and rate are at
    /// least 1, and no length is above its period.
    pub fn new(opens: u64, period: u64, length: u64, bytes_per_s: u64, slack: u64) -> Gate {
        let period = period.max(1);
        let (length, bytes_per_s) = (length.clamp(1, period), bytes_per_s.max(1));
        Gate { opens, period, length, bytes_per_s, slack, free_at: 0 }
    }

    /// When this piece goes; the next ones go behind it.
    pub fn pass(&mut self, now: u64, bytes: u64) -> u64 {
        let takes = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_s));
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        let mut at = self.free_at.max(now.saturating_sub(self.slack));
        loop {
            let since = self.since_opening(at);
            let is_alone = takes > self.length && since == 0 && at >= now;
            // By the schedule within the window; by the clock a little behind it, and not in the next one.
            let (ends, late) = (since.saturating_add(takes), at.max(now) - at);
            let latest = self.length.saturating_add(self.slack.min(nanos(OVERRUN))).min(self.period);
            let is_within = ends <= self.length && ends.saturating_add(late) <= latest;
            if is_alone || is_within || at == u64::MAX {
                break;
            }
            at = at.saturating_add(self.period - since);
        }
        self.free_at = at.saturating_add(takes);
        at.max(now)
    }

    /// The rate within a window, in bytes a second.
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    /// From now on a window opens at `opens`: clocks drift.
    pub fn set_opening(&mut self, opens: u64) {
        self.opens = opens;
    }

    /// From now on windows are elsewhere: what waits for one of those before does not any more, and passes again.
    pub fn move_to(&mut self, opens: u64, now: u64) {
        self.opens = opens;
        self.free_at = self.free_at.min(now);
    }

    /// The next opening from `now` on.
    pub fn next_opening(&self, now: u64) -> u64 {
        match self.since_opening(now) {
            0 => now,
            since => now.saturating_add(self.period - since),
        }
    }

    fn since_opening(&self, at: u64) -> u64 {
        (i128::from(at) - i128::from(self.opens)).rem_euclid(i128::from(self.period)) as u64
    }
}

/// By so much the last piece of a window may end behind it: no more than the least that each window has to spare.
pub(crate) const OVERRUN: Duration = Duration::from_millis(5);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What TCP needs beyond the time of the bytes after a rest: after one longer than its timeout the kernel begins anew
/// with [`FIRST_SEGMENTS`] (RFC 6928; `tcp_slow_start_after_idle`) and doubles each round trip, until the rate is
/// there. Each round trip but the last is lost at most once.
pub(crate) fn ramp(rtt: Duration, bytes_per_s: u64, segment_bytes: u64) -> Duration {
    let window = bytes_per_s as f64 * rtt.as_secs_f64();
    let first = (FIRST_SEGMENTS * segment_bytes.max(1)) as f64;
    if window <= first {
        return Duration::ZERO;
    }
    rtt.saturating_mul((window / first).log2().ceil() as u32)
}

/// Segments of a first window: RFC 6928.
const FIRST_SEGMENTS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_ready_outside_of_a_window_waits_for_the_next() {
        // 10 ms every 100 ms, 1 MB/s: 10,000 bytes a window.
        let mut gate = Gate::new(50 * MS, 100 * MS, 10 * MS, 1_000_000, 0);
        assert_eq!(gate.pass(0, 4000), 50 * MS);
        assert_eq!(gate.pass(0, 6000), 54 * MS);
        assert_eq!(gate.pass(0, 1), 150 * MS);
        assert_eq!(gate.pass(155 * MS, 5000), 155 * MS);
        assert_eq!(gate.pass(155 * MS, 1), 250 * MS);
        assert_eq!(gate.next_opening(250 * MS), 250 * MS);
        assert_eq!(gate.next_opening(251 * MS), 350 * MS);
    }

    #[test]
    fn a_thread_that_is_late_makes_up_for_it_and_no_more() {
        let windows = |slack| Gate::new(0, 100 * MS, 12 * MS, 1_000_000, slack);
        // Two pieces of 5 ms, and threads that are 2 ms late with each.
        let mut gate = windows(2 * MS);
        assert_eq!([gate.pass(2 * MS, 5000), gate.pass(7 * MS, 5000)], [2 * MS, 7 * MS]);
        let mut gate = windows(0);
        assert_eq!([gate.pass(2 * MS, 5000), gate.pass(9 * MS, 5000)], [2 * MS, 100 * MS]);
        // The last of a window may end behind it, by the slack and no more.
        let mut gate = windows(2 * MS);
        assert_eq!([gate.pass(9 * MS, 5000), gate.pass(14 * MS, 5000)], [9 * MS, 100 * MS]);
        assert_eq!(windows(2 * MS).pass(10 * MS, 5000), 100 * MS);
        // Who rested for most of a window does not send all of it in what is left.
        let mut gate = windows(2 * MS);
        assert_eq!([gate.pass(8 * MS, 3000), gate.pass(8 * MS, 3000)], [8 * MS, 9 * MS]);
        assert_eq!(gate.pass(8 * MS, 3000), 100 * MS);
    }

    #[test]
    fn a_piece_larger_than_a_window_has_one_for_itself() {
        let mut gate = Gate::new(0, 100 * MS, 10 * MS, 1_000_000, 0);
        assert_eq!(gate.pass(1, 20_000), 100 * MS);
        assert_eq!(gate.pass(1, 1), 200 * MS);
    }

    #[test]
    fn an_opening_may_move() {
        let mut gate = Gate::new(0, 100 * MS, 10 * MS, 1_000_000, 0);
        gate.set_opening(1003 * MS);
        assert_eq!(gate.pass(999 * MS, 1000), 1003 * MS);
    }

    #[test]
    fn what_waits_for_windows_that_are_moved_goes_in_the_new_ones() {
        let mut gate = Gate::new(0, 100 * MS, 10 * MS, 1_000_000, 0);
        assert_eq!([gate.pass(15 * MS, 6000), gate.pass(15 * MS, 4000)], [100 * MS, 106 * MS]);
        gate.move_to(20 * MS, 16 * MS);
        assert_eq!([gate.pass(16 * MS, 6000), gate.pass(16 * MS, 4000)], [20 * MS, 26 * MS]);
        assert_eq!(gate.pass(16 * MS, 1), 120 * MS);
    }

    #[test]
    fn a_ramp_is_a_round_trip_for_each_doubling() {
        assert_eq!(ramp(Duration::from_micros(50), 125_000_000, 1448), Duration::ZERO);
        // 2 MB under way, from 14,480 bytes: 2^7.1.
        assert_eq!(ramp(Duration::from_millis(16), 125_000_000, 1448), Duration::from_millis(128));
    }

    proptest! {
        #[test]
        fn no_byte_leaves_outside_of_its_windows(
            opens in 0u64..1000, period in 10u64..1000, share in 1u64..=100, slack in 0u64..100,
            pieces in prop::collection::vec((1u64..50, 0u64..400), 1..200),
        ) {
            let length = (period * share / 100).max(1);
            // A byte takes a nanosecond.
            let mut gate = Gate::new(opens, period, length, 1_000_000_000, slack);
            let mut now = 0;
            let mut carried: BTreeMap<i128, u64> = BTreeMap::new();
            for (bytes, pause) in pieces {
                now += pause;
                let goes = gate.pass(now, bytes);
                prop_assert!(goes >= now, "too early");
                let since = (goes as i128 - opens as i128).rem_euclid(period as i128);
                let window = goes as i128 - since;
                let before = carried.get(&window).copied().unwrap_or(0);
                let latest = (length + slack).min(period);
                prop_assert!(since + bytes as i128 <= latest as i128 || bytes > length, "too late");
                // No window carries more than it is long, and none more by any moment than the rate allows, and the
                // slack.
                prop_assert!(before + bytes <= length || before == 0);
                prop_assert!(before as i128 <= since + slack as i128, "too fast");
                carried.insert(window, before + bytes);
            }
        }
    }
}
