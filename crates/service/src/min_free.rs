//! When the room that is kept free is looked at while a transfer writes: once a second, and the sooner the
//! more has come and the less is left.
//!
//! Counted is what came in this transfer. What others write there shows at the next look. What is on its way
//! when a transfer ends comes still.

use std::time::{Duration, Instant};

/// Longest time between two looks: others write there too.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two questions how much has come.
pub(crate) const STEP: Duration = Duration::from_millis(50);
/// Part of what may still be taken that comes before the next look.
const SHARE: u64 = 8;
/// Most that comes before it: others may come as fast.
const BYTES_MAX: u64 = 64 << 20;
/// Where less comes, a look would find nothing new.
const BYTES_MIN: u64 = 1 << 20;
/// What an entry takes beside its content: a block, of most file systems.
const ENTRY_BYTES: u64 = 4096;

/// Bytes that were taken by this content and these entries, roughly.
pub(crate) fn taken(content_bytes: u64, entries: u64) -> u64 {
    content_bytes.saturating_add(entries.saturating_mul(ENTRY_BYTES))
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looks {
    /// When the last one was.
    at: Instant,
    /// What had been taken by then, in bytes.
    taken: u64,
    /// What may be taken before the next one, in bytes.
    allowed: u64,
    was_short: bool,
}

impl Looks {
    /// As after one that found little, when so much is taken.
    pub fn new(now: Instant, taken: u64) -> Looks {
        Looks { at: now, taken, allowed: BYTES_MIN, was_short: false }
    }

    /// Whether it is time for the next one, when so much is taken.
    pub fn is_due(&self, now: Instant, taken: u64) -> bool {
        now.saturating_duration_since(self.at) >= EVERY || taken.saturating_sub(self.taken) >= self.allowed
    }

    /// One found so many bytes to spare, or (`None`) less free than is to stay. Whether the transfer ends: at
    /// the second one in turn that does, because what another one has reserved may be given back at once.
    pub fn saw(&mut self, now: Instant, taken: u64, spare: Option<u64>) -> bool {
        let is_short = spare.is_none();
        let ends = is_short && self.was_short;
        let allowed = (spare.unwrap_or(0) / SHARE).clamp(BYTES_MIN, BYTES_MAX);
        *self = Looks { at: now, taken, allowed, was_short: is_short };
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_looked_at_once_a_second_and_the_sooner_the_less_is_left() {
        let at = Instant::now();
        let soon = at + EVERY - STEP;
        let mut looks = Looks::new(at, 7);
        for (spare, allowed) in [(u64::MAX, BYTES_MAX), (80 << 20, 10 << 20), (1, BYTES_MIN)] {
            assert!(!looks.saw(at, 7, Some(spare)));
            assert!(!looks.is_due(soon, 7 + allowed - 1) && looks.is_due(at, 7 + allowed), "{spare}");
            assert!(looks.is_due(at + EVERY, 7), "{spare}");
        }
        assert_eq!(taken(7, 2), 7 + 2 * ENTRY_BYTES);
    }

    #[test]
    fn the_second_look_in_turn_that_finds_too_little_ends_a_transfer() {
        let at = Instant::now();
        let mut looks = Looks::new(at, 0);
        let found = [None, Some(0), None, None].map(|spare| looks.saw(at, 0, spare));
        assert_eq!(found, [false, false, false, true]);
    }

    /// Whatever the rate and the room are.
    #[test]
    fn what_is_kept_free_is_passed_by_what_comes_in_two_steps_and_two_mebibytes() {
        for step_bytes in [1 << 10, 3 << 20, 500 << 20] {
            for spare in [0, 5 << 20, (1 << 30) + 1] {
                let begun = Instant::now();
                let mut looks = Looks::new(begun, 0);
                let ended = (1..).find_map(|step: u32| {
                    let (now, taken) = (begun + STEP * step, step_bytes * u64::from(step));
                    let ends =
                        looks.is_due(now, taken) && looks.saw(now, taken, u64::checked_sub(spare, taken));
                    ends.then_some(taken)
                });
                let passed = ended.unwrap() - spare;
                assert!(passed <= 2 * (step_bytes + BYTES_MIN), "{step_bytes} {spare}: {passed}");
            }
        }
    }
}
