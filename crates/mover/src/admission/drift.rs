//! The producer's side of a slot whose promise needs bursts a period apart: whether the windows still stand where the
//! bursts are, and when they are to be moved.
//!
//! 1. A burst begins with the first byte that becomes ready after a rest: for [`REST`] of a period the thread that
//!    reads waited, and nothing came. It is no sign that everything before has gone: where windows open late in a
//!    period, a burst is ready before the earlier one has gone; and a burst that becomes ready little by little may
//!    have gone, as far as it was ready, in its middle. A thread that is held up because there is no room does not wait
//!    for bytes, and what it reads then was ready before.
//! 2. Each burst waits for a window. When the windows were placed that took so long, and it should still.
//! 3. If [`IN_A_ROW`] bursts in a row wait longer, or shorter, by more than a part of the guard, they are to be moved:
//!    to the last of these. If one burst alone is late, it was the thread that was late.
//! 4. A producer that was refused asks again after a while, because what is in the way may be gone by then.
//!
//! The time is an argument, in nanoseconds since a moment that the caller chose.
//!
//! Not done: bursts that are ready little by little over most of a period have no beginning that could be seen; nothing
//! is said of them.

use std::time::Duration;

/// See the module.
#[derive(Debug, Clone)]
pub struct Drift {
    period: u64,
    tolerance: u64,
    /// How long the burst waited at which the windows were placed; `None`: they were not placed at one.
    wait: Option<u64>,
    /// Since when who reads waits for more.
    waits_since: Option<u64>,
    /// When the last burst was ready.
    latest: Option<u64>,
    /// How many bursts in a row were off to one side, and to which: late is true.
    odd: (u32, bool),
    /// Nothing is asked before.
    rests_until: u64,
    /// Asked, and no answer yet.
    is_asked: bool,
    /// Of bursts with none missing between them: the time from one to the next, and how many.
    apart: (u128, u64),
}

/// Bursts are off their windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// When the last of them was ready.
    pub ready: u64,
    /// By so much it was later than its window, or earlier.
    pub by: Duration,
    /// Which of the two.
    pub is_late: bool,
    /// How far bursts are apart, on average since the beginning.
    pub period: Duration,
    /// To what that is known, as far as threads are on time.
    pub period_to: Duration,
}

/// Parts of a period: a rest that divides bursts is at least so long, and a burst is ready within the others.
const REST: u64 = 4;
/// Bursts that have to be off to the same side: a thread may be late once, and twice by chance.
pub const IN_A_ROW: u32 = 3;
/// Parts of the guard: bursts that are off by more than one are off. Windows that are placed at a burst that was itself
/// half as much off are left where they are.
const TOLERANCE: u64 = 2;
/// Periods until who was refused asks again.
const REFUSED_RESTS: u64 = 8;
/// And at least so long between two questions: they are on the link that everything else is agreed on by.
pub(crate) const ASKED_APART: Duration = Duration::from_millis(100);

impl Drift {
    /// For bursts that are to be `period` ns apart (at least 1), in windows with a guard of `guard` ns. `waits_since`:
    /// the thread that reads waits since then, if it does.
    pub fn new(period: u64, guard: u64, waits_since: Option<u64>) -> Drift {
        Drift {
            period: period.max(1),
            tolerance: guard / TOLERANCE,
            wait: None,
            waits_since,
            latest: None,
            odd: (0, false),
            rests_until: 0,
            is_asked: false,
            apart: (0, 0),
        }
    }

    /// The windows were placed at the burst that was ready at `ready`, and one opens at `opens`.
    pub fn placed(&mut self, ready: u64, opens: u64, now: u64) {
        self.wait = Some(self.wait_of(ready, opens));
        self.latest = self.latest.max(Some(ready));
        (self.odd, self.is_asked) = ((0, false), false);
        self.rests_until = now.saturating_add(nanos(ASKED_APART));
    }

    /// They could not be moved.
    pub fn refused(&mut self, now: u64) {
        let rest = self.period.saturating_mul(REFUSED_RESTS).max(nanos(ASKED_APART));
        (self.is_asked, self.rests_until) = (false, now.saturating_add(rest));
    }

    /// They were not moved, and may be at the next burst.
    pub fn put_off(&mut self) {
        self.is_asked = false;
    }

    /// Something was ready at `ready`, and since `free` who reads waits for more; a window opens at `opens`. Whether
    /// the windows are to be moved; then nothing is said until [`Drift::placed`], [`Drift::refused`] or
    /// [`Drift::put_off`].
    pub fn came(&mut self, ready: u64, free: u64, opens: u64) -> Option<Off> {
        let waits_since = self.waits_since.replace(free);
        // What is read first has nobody to compare it with.
        let rest = ready.saturating_sub(waits_since?);
        if rest < self.period / REST {
            return None;
        }
        if let Some(before) = self.latest.replace(ready) {
            let apart = ready.saturating_sub(before);
            if apart.abs_diff(self.period) < self.period / REST {
                self.apart = (self.apart.0 + u128::from(apart), self.apart.1 + 1);
            }
        }
        let late = self.late(self.wait?, self.wait_of(ready, opens));
        let is_late = late > 0;
        self.odd = match late.unsigned_abs() > self.tolerance {
            true if self.odd.1 == is_late => (self.odd.0.saturating_add(1), is_late),
            true => (1, is_late),
            false => (0, is_late),
        };
        if self.odd.0 < IN_A_ROW || self.is_asked || ready < self.rests_until {
            return None;
        }
        self.is_asked = true;
        let by = Duration::from_nanos(late.unsigned_abs());
        let (period, period_to) = self.period_seen();
        Some(Off { ready, by, is_late, period, period_to })
    }

    /// When the last burst was ready.
    pub fn latest(&self) -> Option<u64> {
        self.latest
    }

    fn period_seen(&self) -> (Duration, Duration) {
        let (sum, count) = self.apart;
        let mean = sum.checked_div(u128::from(count)).and_then(|mean| u64::try_from(mean).ok());
        let to = self.tolerance / count.max(1);
        (Duration::from_nanos(mean.unwrap_or(self.period)), Duration::from_nanos(to))
    }

    fn wait_of(&self, ready: u64, opens: u64) -> u64 {
        (i128::from(opens) - i128::from(ready)).rem_euclid(i128::from(self.period)) as u64
    }

    /// How much later than it should be who waits so long, by the shorter way around the period.
    fn late(&self, should: u64, waits: u64) -> i64 {
        let late = (i128::from(should) - i128::from(waits)).rem_euclid(i128::from(self.period));
        let around = late - i128::from(self.period);
        (if late <= -around { late } else { around }) as i64
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;
    const MS: u64 = 1000 * US;
    const PERIOD: u64 = 1000 * MS;
    const GUARD: u64 = 5 * MS;
    /// How long a burst waits for windows that were placed at it.
    const WAIT: u64 = 6 * MS;

    /// A producer, and a daemon that places windows at once, or never.
    struct World {
        drift: Drift,
        opens: u64,
        has_room: bool,
        moves: u32,
        refusals: u32,
        /// The furthest that a burst was off, either way.
        furthest: i64,
    }

    impl World {
        /// Windows placed at a burst that is ready at `ready`.
        fn at(ready: u64) -> World {
            let (mut drift, opens) = (Drift::new(PERIOD, GUARD, None), ready + WAIT);
            drift.placed(ready, opens, ready);
            assert_eq!(drift.came(ready, ready + 30 * MS, opens), None);
            World { drift, opens, has_room: true, moves: 0, refusals: 0, furthest: 0 }
        }

        /// A burst in three parts, and what is done about it.
        fn burst(&mut self, ready: u64) -> Option<Off> {
            let phase = (ready as i64 + WAIT as i64 - self.opens as i64).rem_euclid(PERIOD as i64);
            let off = if phase > PERIOD as i64 / 2 { phase - PERIOD as i64 } else { phase };
            self.furthest = if off.abs() > self.furthest.abs() { off } else { self.furthest };
            let wants = self.drift.came(ready, ready + MS, self.opens);
            for part in 1..3 {
                let at = ready + part * 10 * MS;
                assert_eq!(self.drift.came(at, at + MS, self.opens), None, "the burst has begun before");
            }
            if wants.is_some() && self.has_room {
                (self.opens, self.moves) = (ready + WAIT, self.moves + 1);
                self.drift.placed(ready, self.opens, ready + MS);
            } else if wants.is_some() {
                self.refusals += 1;
                self.drift.refused(ready + MS);
            }
            wants
        }
    }

    #[test]
    fn bursts_that_come_later_each_time_take_their_windows_with_them() {
        let mut world = World::at(7 * MS);
        let wanted: Vec<Off> = (1..=60).filter_map(|k| world.burst(7 * MS + k * (PERIOD + 5 * MS))).collect();
        // Each time that it was seen thrice.
        assert_eq!((world.moves, world.furthest), (20, 15 * MS as i64));
        for off in wanted {
            assert_eq!((off.is_late, off.by), (true, Duration::from_millis(15)));
            assert_eq!(off.period, Duration::from_millis(1005));
            assert!(off.period_to < Duration::from_millis(1));
        }
    }

    #[test]
    fn bursts_that_come_earlier_each_time_do_too() {
        let mut world = World::at(7 * MS);
        let wanted: Vec<Off> = (1..=60).filter_map(|k| world.burst(7 * MS + k * (PERIOD - 5 * MS))).collect();
        assert_eq!((world.moves, world.furthest), (20, -15 * MS as i64));
        for off in wanted {
            assert_eq!((off.is_late, off.by), (false, Duration::from_millis(15)));
            assert_eq!(off.period, Duration::from_millis(995));
        }
    }

    #[test]
    fn a_clock_that_is_50_ppm_off_is_followed_for_an_hour() {
        for period in [PERIOD + 50 * US, PERIOD - 50 * US] {
            let mut world = World::at(0);
            for k in 1..=3600 {
                world.burst(k * period);
            }
            // 180 ms, in steps of a little more than half a guard.
            assert!((60..=72).contains(&world.moves), "{}", world.moves);
            assert!(world.furthest.unsigned_abs() <= GUARD / TOLERANCE + 3 * 50 * US, "{}", world.furthest);
        }
    }

    #[test]
    fn jitter_without_drift_moves_nothing_nor_does_one_burst_that_is_late() {
        // Whatever the burst was that they were placed at, all others are within the tolerance.
        let jitter = |k: u64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (GUARD / TOLERANCE);
        let mut world = World::at(PERIOD + jitter(1));
        assert!((2..2000).all(|k| world.burst(k * PERIOD + jitter(k)).is_none()));
        // A thread that is late, one burst in three and then two.
        let late = |k: u64| if k.is_multiple_of(3) { 0 } else { 80 * MS };
        let mut world = World::at(0);
        assert!((1..2000).all(|k| world.burst(k * PERIOD + late(k)).is_none()));
        // To either side in turn.
        let aside = |k: u64| if k.is_multiple_of(2) { 2 * GUARD } else { 0 };
        let mut world = World::at(PERIOD + GUARD);
        assert!((2..2000).all(|k| world.burst(k * PERIOD + aside(k)).is_none()));
    }

    #[test]
    fn after_a_pause_of_several_periods_windows_are_where_they_were_or_go_to_the_bursts() {
        let mut world = World::at(0);
        (1..10).for_each(|k| assert_eq!(world.burst(k * PERIOD), None));
        (17..30).for_each(|k| assert_eq!(world.burst(k * PERIOD), None, "no period was lost"));
        // At another time of the period: the third of them has its windows.
        let again: Vec<Option<Off>> = (40..46).map(|k| world.burst(k * PERIOD + 400 * MS)).collect();
        let moved: Vec<bool> = again.iter().map(Option::is_some).collect();
        assert_eq!(moved, [false, false, true, false, false, false]);
        let off = again[2].expect("it was");
        assert_eq!(
            (off.is_late, off.by, off.period),
            (true, Duration::from_millis(400), Duration::from_secs(1))
        );
    }

    #[test]
    fn who_is_refused_asks_again_after_a_while_and_until_then_stays() {
        let mut world = World::at(0);
        world.has_room = false;
        let at = |k: u64| k * (PERIOD + 5 * MS);
        let asked: Vec<u64> = (1..40).filter(|k| world.burst(at(*k)).is_some()).collect();
        assert!(asked[0] == 3 && asked.len() as u32 == world.refusals, "{asked:?}");
        assert!(asked.windows(2).all(|two| two[1] - two[0] == REFUSED_RESTS), "{asked:?}");
        assert_eq!((world.moves, world.opens), (0, WAIT));
        world.has_room = true;
        for k in 40..60 {
            world.burst(at(k));
        }
        assert!(world.moves > 1, "what was in the way is gone");
    }

    #[test]
    fn what_is_asked_has_an_answer_before_it_is_asked_again() {
        let (mut drift, opens) = (Drift::new(PERIOD, GUARD, None), WAIT);
        drift.placed(0, opens, 0);
        drift.came(0, MS, opens);
        let mut asked = (1..10)
            .filter(|k| drift.came(k * (PERIOD + 5 * MS), k * (PERIOD + 5 * MS) + MS, opens).is_some());
        assert_eq!((asked.next(), asked.next()), (Some(3), None));
        drift.put_off();
        assert!(drift.came(10 * (PERIOD + 5 * MS), 10 * (PERIOD + 5 * MS), opens).is_some());
        assert_eq!(drift.latest(), Some(10 * (PERIOD + 5 * MS)));
    }

    #[test]
    fn periods_are_short_and_questions_still_apart() {
        let (period, mut opens) = (MS, 10 * US);
        let mut drift = Drift::new(period, 20 * US, None);
        drift.placed(0, opens, 0);
        drift.came(0, US, opens);
        let mut asked = Vec::new();
        for k in 1..2000 {
            let ready = k * (period + 10 * US);
            if drift.came(ready, ready + US, opens).is_some() {
                asked.push(ready);
                opens = ready + 10 * US;
                drift.placed(ready, opens, ready);
            }
        }
        assert!(asked.len() > 10 && asked.windows(2).all(|two| two[1] - two[0] >= nanos(ASKED_APART)));
    }

    #[test]
    fn who_is_held_up_for_want_of_room_reads_no_bursts() {
        let mut world = World::at(0);
        // Read all the time, because there is always more: what comes after a stop was ready before.
        let mut free = 30 * MS;
        for step in 1..100u64 {
            let ready = free + MS;
            free = ready + 700 * MS;
            assert_eq!(world.drift.came(ready, free, world.opens), None, "{step}");
        }
        assert_eq!(world.drift.latest(), Some(0));
    }

    #[test]
    fn windows_that_were_placed_at_no_burst_are_not_watched() {
        let mut drift = Drift::new(PERIOD, GUARD, None);
        assert!((0..100).all(|k| drift.came(k * (PERIOD + 5 * MS), k * (PERIOD + 5 * MS) + MS, 0).is_none()));
        assert_eq!(drift.latest(), Some(99 * (PERIOD + 5 * MS)));
    }
}
