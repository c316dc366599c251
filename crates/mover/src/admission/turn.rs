//! The server's side of a slot: of whom it takes bytes now.
//!
//! - From a producer with a slot it takes bytes whenever they come, as long as they are no more than its windows are
//!   for: if some are late, making them wait for somebody else's window to end would not give back the time that they
//!   took.
//! - From a sender without a slot, or with more than it said, it takes bytes in windows of that sender's own and while
//!   no window is open. In a window of another the sender waits; TCP then holds it back at its end, by the TCP window.
//! - Nobody waits for ever: now and then one frame is let through ([`SPARE_SHARE`] of the way, for all together), so
//!   that a connection shows a sign of life however full the calendar is.
//!
//! Not done: what TCP has let a sender have under way when a window opens comes in it. A server bounds that
//! ([`beside_window_bytes`]); it is within what each window has more than its bytes need.

use super::calendar::{Calendar, Windows};
use std::time::Duration;

/// What goes beside the slots in their windows, at most: a 64th of the way.
pub const SPARE_SHARE: u64 = 64;
/// Windows whose bytes may come at once: one is on time, one late.
const WINDOWS_AT_ONCE: u64 = 2;
/// What clients without a slot may have under way when a window opens, all together: what the way carries in this time.
/// With a portion and what is let through it is less than the least that a window has to spare, 5 ms.
const UNDER_WAY: Duration = Duration::from_millis(3);
/// Least that one connection is offered, and is taken from it at once: a few packets.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
/// What is taken at once takes so long at most on the way: then it is asked again whose turn it is.
const PORTION: Duration = Duration::from_micros(500);

/// Whether it is somebody's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A window of its own is open.
    Own,
    /// No window is open.
    Free,
    /// Another's window is open, for so many microseconds.
    Wait(u64),
}

impl Calendar {
    /// Whose turn it is at `now`, for who has the slots that `is_mine` knows.
    pub fn turn(&self, now: u64, is_mine: impl Fn(u64) -> bool) -> Turn {
        for (number, promise) in self.held() {
            let windows = &promise.windows;
            let since = (now + windows.period - windows.offset) % windows.period;
            if since < windows.length {
                return match is_mine(number) {
                    true => Turn::Own,
                    false => Turn::Wait(windows.length - since),
                };
            }
        }
        Turn::Free
    }
}

/// Bytes that come back with time, up to so many. Times are microseconds since a moment that the caller chose.
#[derive(Debug, Clone)]
pub struct Share {
    bytes: u64,
    each_micros: u64,
    most: i64,
    left: i64,
    at: u64,
    /// Parts of a byte that have come back, in parts of `each_micros`.
    rest: u64,
}

impl Share {
    /// What a slot's windows carry, of a way that carries so many bytes a second: one a period, and one more.
    pub fn of_slot(windows: &Windows, bytes_per_s: u64, now: u64) -> Share {
        let bytes = u128::from(windows.length) * u128::from(bytes_per_s) / 1_000_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Share::new(bytes, windows.period, bytes.saturating_mul(WINDOWS_AT_ONCE), now)
    }

    /// What goes beside the slots, of a way that carries so many bytes a second.
    pub fn spare(bytes_per_s: u64, now: u64) -> Share {
        let bytes = (bytes_per_s / SPARE_SHARE).max(1);
        // Not all that was left over goes into one window.
        Share::new(bytes, 1_000_000, bytes / 20, now)
    }

    fn new(bytes: u64, each_micros: u64, most: u64, now: u64) -> Share {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        Share { bytes, each_micros: each_micros.max(1), most, left: most, at: now, rest: 0 }
    }

    /// Takes them; whether all were there. What is not there is a debt, of no more than there may be.
    pub fn take(&mut self, bytes: u64, now: u64) -> bool {
        self.come_back(now);
        self.left = self.left.saturating_sub_unsigned(bytes).max(-self.most);
        self.left >= 0
    }

    /// Takes them unless there is a debt: then all, whatever the debt that makes.
    pub fn take_if_any(&mut self, bytes: u64, now: u64) -> bool {
        self.come_back(now);
        let is_any = self.left >= 0;
        if is_any {
            self.left = self.left.saturating_sub_unsigned(bytes);
        }
        is_any
    }

    fn come_back(&mut self, now: u64) {
        let since = now.saturating_sub(self.at);
        let parts = u128::from(self.bytes) * u128::from(since) + u128::from(self.rest);
        let come = u64::try_from(parts / u128::from(self.each_micros)).unwrap_or(u64::MAX);
        self.rest = (parts % u128::from(self.each_micros)) as u64;
        self.left = self.left.saturating_add_unsigned(come).min(self.most);
        self.at = self.at.max(now);
    }
}

/// What each of so many connections without a slot is offered while there are slots.
pub fn beside_window_bytes(bytes_per_s: u64, connections: usize) -> u64 {
    let all = (u128::from(bytes_per_s) * UNDER_WAY.as_micros() / 1_000_000) as u64;
    (all / connections.max(1) as u64).max(WINDOW_BYTES_MIN)
}

/// Bytes after which a server asks again whose turn it is.
pub fn portion_bytes(bytes_per_s: u64) -> u64 {
    let bytes = u128::from(bytes_per_s) * PORTION.as_micros() / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(WINDOW_BYTES_MIN)
}

/// The worst of what was measured lately: of the last one to two [`Lately::SPAN`]s; where nothing was, of the last that
/// was.
#[derive(Debug, Clone, Default)]
pub struct Lately {
    /// Which span, and the worst in it and in the one before.
    span: u64,
    now: Option<Duration>,
    before: Option<Duration>,
    last: Duration,
}

impl Lately {
    /// Long enough that a disk's worse moments are in it, short enough that a bad hour is forgotten.
    pub const SPAN: Duration = Duration::from_secs(60);

    /// It took so long, `at` a time since the beginning.
    pub fn note(&mut self, took: Duration, at: Duration) {
        self.turn_to(at);
        self.last = self.now.map_or(took, |now| now.max(took));
        self.now = Some(self.last);
    }

    /// The worst, as seen `at` a time since the beginning.
    pub fn worst(&mut self, at: Duration) -> Duration {
        self.turn_to(at);
        self.now.max(self.before).unwrap_or(self.last)
    }

    fn turn_to(&mut self, at: Duration) {
        let span = at.as_secs() / Lately::SPAN.as_secs();
        if span > self.span {
            self.before = self.now.take().filter(|_| span == self.span + 1);
            self.span = span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::Gate;
    use super::*;
    use proptest::prelude::*;
    use thalweg_wire::message::{Rhythm, SlotWish};

    const MBIT: u64 = 125_000;

    fn wish(period_ms: u64, bytes: u64) -> SlotWish {
        SlotWish {
            rhythm: Rhythm::Bursts { period_micros: period_ms * 1000, bytes },
            deadline_micros: 10_000_000,
            ready_ago_micros: 0,
            guard_micros: 1000,
        }
    }

    #[test]
    fn in_a_window_it_is_its_owners_turn_and_between_windows_everybodys() {
        // 8 Mbit/s: 20,000 bytes are 20 ms, and a guard of 1 ms.
        let mut calendar = Calendar::new(8 * MBIT);
        let first = calendar.hold(calendar.admit(&wish(100, 20_000), 0).unwrap());
        let second = calendar.hold(calendar.admit(&wish(100, 20_000), 0).unwrap());
        let windows: Vec<_> = calendar.held().map(|(_, promise)| promise.windows).collect();
        assert_eq!((windows[0].offset, windows[0].length), (1000, 21_000));
        assert_eq!(windows[1].offset, 22_000);
        let turn = |now, who| calendar.turn(now, |number| number == who);
        assert_eq!(turn(100_999, first), Turn::Free);
        assert_eq!((turn(101_000, first), turn(121_999, first)), (Turn::Own, Turn::Own));
        assert_eq!((turn(101_000, second), turn(121_999, second)), (Turn::Wait(21_000), Turn::Wait(1)));
        assert_eq!((turn(122_000, second), turn(122_000, first)), (Turn::Own, Turn::Wait(21_000)));
        assert_eq!((turn(143_000, first), turn(143_000, 99)), (Turn::Free, Turn::Free));
    }

    #[test]
    fn who_sends_what_he_said_never_runs_out_and_who_sends_more_does() {
        let share = || Share::of_slot(&Windows { period: 100_000, offset: 0, length: 20_000 }, 1_000_000, 0);
        let mut honest = share();
        // One window on time, the next one late by most of a period, and so on.
        for period in 0..100u64 {
            let now = period * 100_000 + if period % 2 == 1 { 90_000 } else { 0 };
            assert!(honest.take(20_000, now), "period {period}");
        }
        let mut greedy = share();
        let over = (0..100u64).filter(|period| !greedy.take(30_000, period * 100_000)).count();
        assert!(over > 90, "{over}");
        // A debt has a bottom: a sender that stops is within its share again some periods later.
        let mut stopped = share();
        stopped.take(u64::MAX, 0);
        assert!(!stopped.take(0, 100_000) && stopped.take(0, 200_000));
    }

    #[test]
    fn what_is_let_through_beside_the_slots_is_a_64th_of_the_way() {
        let mut spare = Share::spare(64_000_000, 0);
        let frames = (0..10_000_000u64).step_by(1000).filter(|now| spare.take_if_any(1 << 20, *now)).count();
        // 1 MB a second for ten seconds, and what there was at the start.
        assert!((9..=12).contains(&frames), "{frames}");
        assert_eq!(beside_window_bytes(1_250_000_000, 2), 1_875_000);
        assert_eq!(beside_window_bytes(1_250_000, 100), 16 << 10);
        assert_eq!((portion_bytes(125_000_000), portion_bytes(1)), (62_500, 16 << 10));
    }

    #[test]
    fn what_is_asked_for_often_comes_back_all_the_same() {
        let windows = Windows { period: 1_000_000, offset: 0, length: 1000 };
        let mut share = Share::of_slot(&windows, 1_000_000, 0);
        assert!(share.take(2000, 0));
        for now in 0..1_000_000u64 {
            share.take(0, now);
        }
        assert!(share.take(1000, 1_000_000) && !share.take(1, 1_000_000));
    }

    #[test]
    fn the_worst_of_lately_is_forgotten_after_a_while_but_never_nothing() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let mut lately = Lately::default();
        assert_eq!(lately.worst(s(0)), ms(0));
        lately.note(ms(300), s(1));
        lately.note(ms(20), s(30));
        assert_eq!(lately.worst(s(59)), ms(300));
        lately.note(ms(40), s(70));
        assert_eq!(lately.worst(s(119)), ms(300));
        assert_eq!(lately.worst(s(120)), ms(40));
        assert_eq!(lately.worst(s(100_000)), ms(40));
    }

    /// A way of 1 Gbit/s with a queue, in steps of 0.1 ms: producers of bursts that keep to their gates, and one
    /// without a slot that always has more to send and has as much under way as it is offered. By how much the latest
    /// burst was later than was promised, in microseconds.
    fn latest(bursts: &[(u64, u64)], holds: bool) -> i64 {
        const STEP: u64 = 100;
        let rate = 1000 * MBIT;
        let micros = |bytes: u64| bytes * 1_000_000 / rate;
        // TCP would let it have 6 MB under way.
        let offered = if holds { beside_window_bytes(rate, 1) } else { 6_000_000 };
        let portion = portion_bytes(rate);
        let mut calendar = Calendar::new(rate);
        let mut pieces = Vec::new();
        for &(period_ms, bytes) in bursts {
            // As a producer asks: room to catch up, and a guard.
            let asked = SlotWish {
                guard_micros: 5000,
                deadline_micros: period_ms * 1000,
                ..wish(period_ms, bytes + bytes / 16)
            };
            let Ok(promise) = calendar.admit(&asked, 0) else { continue };
            calendar.hold(promise);
            let (windows, period) = (promise.windows, period_ms * 1000);
            let length = windows.length * 1000;
            let mut gate = Gate::new(windows.offset * 1000, period * 1000, length, rate, 0);
            for ready in (0..5_000_000).step_by(period as usize) {
                for _ in 0..8 {
                    let goes = gate.pass(ready * 1000, bytes / 8) / 1000;
                    pieces.push((goes, bytes / 8, ready, promise.worst));
                }
            }
        }
        pieces.sort_unstable();
        let mut pieces = pieces.into_iter().peekable();
        let mut spare = Share::spare(rate, 0);
        let (mut free_at, mut latest) = (0, i64::MIN);
        for now in (0..5_000_000).step_by(STEP as usize) {
            while let Some((goes, bytes, ready, worst)) = pieces.next_if(|(goes, ..)| *goes <= now) {
                free_at = free_at.max(goes) + micros(bytes);
                latest = latest.max((free_at - ready) as i64 - worst as i64);
            }
            while free_at < now + micros(offered) {
                let may_send = !holds
                    || !matches!(calendar.turn(now, |_| false), Turn::Wait(_))
                    || spare.take_if_any(portion, now);
                if !may_send {
                    break;
                }
                free_at = free_at.max(now) + micros(portion);
            }
        }
        latest
    }

    #[test]
    fn who_has_no_slot_breaks_no_promise_though_he_always_has_more_to_send() {
        for bursts in
            [&[(1000, 20_000_000)][..], &[(1000, 12_000_000); 6], &[(500, 4_000_000), (1000, 30_000_000)]]
        {
            let (held, free) = (latest(bursts, true), latest(bursts, false));
            assert!(held <= 0, "{bursts:?}: {held} us later than promised");
            assert!(free > 0, "{bursts:?}: nothing needs to be held back");
        }
    }

    proptest! {
        /// Both sides of a slot go by the same windows, each by its own code.
        #[test]
        fn who_keeps_to_his_gate_is_always_taken_from(
            slots in prop::collection::vec((1u64..8, 1000u64..40_000), 1..8),
            pieces in prop::collection::vec((1u64..5000, 0u64..200_000), 1..100),
        ) {
            let rate = 8 * MBIT;
            let mut calendar = Calendar::new(rate);
            let mut held = Vec::new();
            for (period, bytes) in slots {
                let Ok(promise) = calendar.admit(&wish(period * 50, bytes), 0) else { continue };
                held.push((calendar.hold(promise), promise));
            }
            for (number, promise) in held {
                let windows = promise.windows;
                let (period, length) = (windows.period * 1000, windows.length * 1000);
                let mut gate = Gate::new(windows.offset * 1000, period, length, rate, 0);
                let mut share = Share::of_slot(&windows, rate, 0);
                let mut now = 0;
                for (bytes, pause) in &pieces {
                    now += pause * 1000;
                    let bytes = (*bytes).min(promise.bytes);
                    let goes = gate.pass(now, bytes);
                    let arrived = (goes + bytes * 1_000_000_000 / rate) / 1000;
                    prop_assert_eq!(calendar.turn(goes / 1000, |it| it == number), Turn::Own);
                    prop_assert!(share.take(bytes, arrived), "{} bytes at {}", bytes, arrived);
                }
            }
        }
    }
}
