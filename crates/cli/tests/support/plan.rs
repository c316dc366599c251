//! Which strikes are still to be made, and when the next one is: a strike counts that met something under way, and
//! after which the story was seen to go on before the next one. One that does not count is made again, within a bound.

use super::chance::Random;
use super::wait_until;
use std::time::Duration;

/// Longest that a story is waited for to go on.
const GOES_ON: Duration = Duration::from_secs(30);
/// One rest in so many ends before the story goes on: what is struck then is what has just been repaired, or is not
/// yet.
const HASTY: u64 = 4;
/// Shortest rest.
const REST_MS_MIN: u64 = 50;

/// See the module.
pub struct Plan {
    random: Random,
    /// Kinds, in the order from the last to the first.
    left: Vec<u64>,
    rest_ms_min: u64,
    /// So many more are made again.
    again: usize,
    last: Option<Strike>,
}

struct Strike {
    kind: u64,
    is_missed: bool,
}

impl Plan {
    /// As many of each of so many kinds, in any order.
    pub fn new(random: &mut Random, kinds: u64, each: u64) -> Plan {
        let mut random = random.fork();
        let mut left: Vec<u64> = (0..kinds * each).map(|strike| strike % kinds).collect();
        for at in (1..left.len()).rev() {
            left.swap(at, random.below(at as u64 + 1) as usize);
        }
        Plan { random, again: left.len(), left, rest_ms_min: REST_MS_MIN, last: None }
    }

    /// Most that are made.
    pub fn most(&self) -> usize {
        self.left.len() + self.again
    }

    /// Rests, for a moment and mostly until it `went_on` since the strike before; then the kind that is struck next.
    /// None: all that were planned count, or too many did not.
    pub fn next(&mut self, most_ms: u64, mut went_on: impl FnMut() -> bool) -> Option<u64> {
        let is_hasty = !self.left.is_empty() && self.random.below(HASTY) == 0;
        if !is_hasty {
            let _ = wait_until(GOES_ON, &mut went_on);
        }
        std::thread::sleep(Duration::from_millis(self.rest_ms_min + self.random.below(most_ms)));
        let has_gone_on = went_on();
        if let Some(last) = self.last.take()
            && (last.is_missed || !has_gone_on)
            && self.again > 0
        {
            self.again -= 1;
            let at = self.random.below(self.left.len() as u64 + 1) as usize;
            self.left.insert(at, last.kind);
        }
        let kind = self.left.pop()?;
        self.last = Some(Strike { kind, is_missed: false });
        Some(kind)
    }

    /// What was struck last met nothing.
    pub fn missed(&mut self) {
        if let Some(last) = &mut self.last {
            last.is_missed = true;
        }
    }
}

#[test]
fn a_strike_that_missed_or_was_not_seen_to_be_survived_is_made_again_within_a_bound() {
    let made = |went_on: bool, missed: &[usize]| {
        let mut plan = Plan { rest_ms_min: 0, ..Plan::new(&mut Random::new("plan"), 2, 3) };
        let mut kinds = Vec::new();
        // Nobody waits here for what never goes on.
        while let Some(kind) = plan.next(1, || went_on) {
            if missed.contains(&kinds.len()) {
                plan.missed();
            }
            kinds.push(kind);
        }
        [0, 1].map(|kind| kinds.iter().filter(|made| **made == kind).count())
    };
    assert_eq!(made(true, &[]), [3, 3]);
    assert_eq!(made(true, &[0, 4, 6]).iter().sum::<usize>(), 9);
    let all: Vec<usize> = (0..100).collect();
    assert_eq!(made(true, &all).iter().sum::<usize>(), 12);
}
