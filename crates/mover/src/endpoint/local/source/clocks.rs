//! When a file was changed too short a while ago to be read: a change within the same tick of its file system's clock
//! would not show in its ctime. What that clock reads is learned from the ctimes that are seen.

use super::super::lock;
use crate::endpoint::ScanSink;
use crate::failure::Failure;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_wire::{Entry, EntryId, Evidence, RelativePath};

/// Twice the coarsest tick of Linux (100 Hz): a ctime older than this belongs to a tick that is over.
pub const RACY: Duration = Duration::from_millis(20);

/// The coarsest times that file systems keep: FAT has every second second.
const GRAIN_MAX: Duration = Duration::from_secs(2);

/// How far the clocks of file systems are ahead of ours, by device: a ctime in our future shows it. (One behind ours
/// cannot be seen; network file systems with such a clock are trusted too early by as much.) It says something only of
/// other ctimes in our future: one file that was written while a clock was wrong says nothing of what our own wrote.
///
/// One clock for each device is assumed. Where clients stamp what they write (Lustre, CephFS), or one file has a ctime
/// that no clock shows any more, what another clock ahead of ours, but less so, stamps just now is taken for older than
/// it is, and its next change within the same tick is not seen.
#[derive(Default)]
pub(super) struct Clocks {
    by_device: Mutex<HashMap<u64, Clock>>,
}

/// What ctimes show of one. All of them in nanoseconds.
struct Clock {
    /// How far it was ahead at least, as was learned since then.
    ahead: i128,
    learned: Instant,
    /// The latest ctimes that were seen: longer ago than any tick lasts, in the [`TICK_MAX`] before `since`, and from
    /// then on.
    passed: i128,
    before: i128,
    reached: i128,
    since: Instant,
}

/// Clocks are set now and then, and go faster or slower: how far one is ahead counts no longer than this. Longer than
/// the longest wait, or it would be forgotten by then, and each file would have a wait of its own.
const CLOCK_KNOWN: Duration = Duration::from_secs(10);
const _: () = assert!(CLOCK_KNOWN.as_nanos() > TICK_MAX.as_nanos());

/// The longest wait: what a file system's clock showed so long ago it does not show any more.
const TICK_MAX: Duration = GRAIN_MAX.saturating_add(RACY);

/// How old a ctime is to be before what changes from then on shows another one. One without nanoseconds is most likely
/// of a file system that keeps none; the same on a finer one, by chance, costs that one wait.
fn needed(ctime: thalweg_wire::Time) -> Duration {
    let grain = match (ctime.nanos, ctime.seconds % 2) {
        (0, 0) => GRAIN_MAX,
        (0, _) => Duration::from_secs(1),
        _ => Duration::ZERO,
    };
    grain + RACY
}

fn as_ns(time: thalweg_wire::Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

impl Clocks {
    /// A file was seen, by our clock on the wall, and one that only goes on: its file system's clock reads at least its
    /// ctime now.
    pub(super) fn saw(&self, seen: &Evidence, wall: SystemTime, at: Instant) {
        let Ok(now) = wall.duration_since(UNIX_EPOCH) else { return };
        let (now, ctime) = (now.as_nanos() as i128, as_ns(seen.ctime));
        if ctime > now {
            lock(&self.by_device).entry(seen.device).or_insert_with(|| Clock::new(at)).saw(ctime, now, at);
        }
    }

    /// The rest of the time that a file changed at its ctime still needs.
    pub(super) fn racy(&self, seen: &Evidence, wall: SystemTime, at: Instant) -> Option<Duration> {
        let now = wall.duration_since(UNIX_EPOCH).ok()?.as_nanos() as i128;
        let ctime = as_ns(seen.ctime);
        let needed = needed(seen.ctime).as_nanos() as i128;
        if now - ctime >= needed {
            return None;
        }
        let mut clocks = lock(&self.by_device);
        let clock = clocks.entry(seen.device).or_insert_with(|| Clock::new(at));
        clock.go_on(at);
        // What was changed by a clock that was set to ours meanwhile is not in our future.
        if ctime > now && ctime <= clock.passed {
            return None;
        }
        let ahead = if ctime > now { clock.ahead } else { 0 };
        let age = now + ahead - ctime;
        clock.saw(ctime, now, at);
        let rest = needed - age.clamp(0, needed);
        (rest > 0).then(|| Duration::from_nanos(rest as u64))
    }
}

impl Clock {
    fn new(at: Instant) -> Clock {
        let never = i128::MIN;
        Clock { ahead: 0, learned: at, passed: never, before: never, reached: never, since: at }
    }

    fn saw(&mut self, ctime: i128, now: i128, at: Instant) {
        self.go_on(at);
        self.ahead = self.ahead.max(ctime - now);
        self.reached = self.reached.max(ctime);
    }

    fn go_on(&mut self, at: Instant) {
        if at.saturating_duration_since(self.learned) > CLOCK_KNOWN {
            (self.learned, self.ahead) = (at, 0);
        }
        let gone = at.saturating_duration_since(self.since);
        if gone < TICK_MAX {
            return;
        }
        self.passed = self.passed.max(self.before);
        self.before = std::mem::replace(&mut self.reached, i128::MIN);
        self.since = at;
        if gone >= 2 * TICK_MAX {
            self.passed = self.passed.max(self.before);
        }
    }
}

/// Shows the clocks what a scan sees, long before it is read.
pub(super) struct Watched<'a> {
    clocks: &'a Clocks,
    sink: &'a mut dyn ScanSink,
}

impl<'a> Watched<'a> {
    pub(super) fn new(clocks: &'a Clocks, sink: &'a mut dyn ScanSink) -> Watched<'a> {
        Watched { clocks, sink }
    }
}

impl ScanSink for Watched<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        if matches!(entry.kind, thalweg_wire::Kind::File { .. }) {
            self.clocks.saw(&entry.evidence, SystemTime::now(), Instant::now());
        }
        self.sink.entry(entry)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.sink.trouble(path, failure);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        self.sink.skipped(path, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_at(ns: i128) -> Evidence {
        let time = thalweg_wire::Time {
            seconds: ns.div_euclid(1_000_000_000) as i64,
            nanos: ns.rem_euclid(1_000_000_000) as u32,
        };
        Evidence { ctime: time, ..Evidence::default() }
    }

    #[test]
    fn a_clock_ahead_of_ours_costs_one_wait_and_not_one_for_each_file() {
        const HOUR: i128 = 3_600_000_000_000;
        const START: i128 = 1_700_000_000_500_000_000;
        let (clocks, begun) = (Clocks::default(), Instant::now());
        // Files changed at some time, so long after the start.
        let racy = |evidence: &Evidence, after: Duration| {
            clocks.racy(evidence, UNIX_EPOCH + Duration::from_nanos(START as u64) + after, begun + after)
        };
        let ms = Duration::from_millis;
        assert_eq!(racy(&changed_at(START - HOUR), ms(0)), None);
        assert_eq!(racy(&changed_at(START), ms(0)), Some(RACY));
        assert_eq!(racy(&changed_at(START), ms(5)), Some(RACY - ms(5)));
        // A server whose clock is an hour ahead.
        let seen = START + HOUR;
        assert_eq!(racy(&changed_at(seen), ms(0)), Some(RACY));
        assert_eq!(racy(&changed_at(seen - 30_000_000), ms(0)), None);
        assert!(racy(&changed_at(seen + 10_000_000), ms(10)).is_some());
        // How far it is ahead was learned too long ago. What it had shown by then is over all the same.
        let later = CLOCK_KNOWN + ms(1);
        assert_eq!(racy(&changed_at(seen - 30_000_000), later), None);
        assert_eq!(racy(&changed_at(seen + 30_000_000), later), Some(RACY));
        // Another file system is judged by itself.
        let other = Evidence { device: 7, ..changed_at(START + HOUR / 2) };
        assert_eq!(racy(&other, ms(0)), Some(RACY));
    }

    #[test]
    fn where_times_are_whole_seconds_a_file_is_read_when_its_second_is_over() {
        const SECOND: i128 = 1_000_000_000;
        /// Odd: of no FAT.
        const START: i128 = 1_700_000_001 * SECOND;
        let (clocks, begun) = (Clocks::default(), Instant::now());
        let racy = |evidence: &Evidence, after: Duration| {
            clocks.racy(evidence, UNIX_EPOCH + Duration::from_nanos(START as u64) + after, begun + after)
        };
        let ms = Duration::from_millis;
        assert_eq!(racy(&changed_at(START), ms(0)), Some(RACY + ms(1000)));
        assert_eq!(racy(&changed_at(START), ms(350)), Some(RACY + ms(650)));
        // One wait serves all that was changed in that second; what is older costs none.
        assert_eq!(racy(&changed_at(START), RACY + ms(1000)), None);
        assert_eq!(racy(&changed_at(START - 2 * SECOND), ms(0)), None);
        // An even second may be two.
        assert_eq!(racy(&changed_at(START - SECOND), ms(0)), Some(RACY + ms(1000)));
        assert_eq!(racy(&changed_at(START - SECOND), RACY + ms(1000)), None);
        // Whoever keeps nanoseconds has a finer clock.
        assert_eq!(racy(&changed_at(START - SECOND / 2), ms(0)), None);
        // So it is where the clock is an hour ahead: what was learned of it outlives the wait.
        let ahead = Evidence { device: 7, ..changed_at(START + 3600 * SECOND) };
        assert_eq!(racy(&ahead, ms(0)), Some(RACY + ms(1000)));
        assert_eq!(racy(&ahead, RACY + ms(1000)), None);
    }

    /// As on sshfs, of a server whose clock is an hour ahead, where somebody wrote a file every five seconds.
    #[test]
    fn files_of_an_hour_by_a_clock_ahead_of_ours_wait_once_or_twice_and_not_each() {
        const SECOND: i128 = 1_000_000_000;
        const FILES: i128 = 720;
        /// Odd: of no FAT.
        const START: i128 = 1_700_000_001 * SECOND;
        let (clocks, begun) = (Clocks::default(), Instant::now());
        let wall = |after: Duration| UNIX_EPOCH + Duration::from_nanos(START as u64) + after;
        let file = |number: i128| changed_at(START + 5 * number * SECOND);
        (1..=FILES).for_each(|number| clocks.saw(&file(number), wall(Duration::ZERO), begun));
        // In the order in which they were written. Each is looked at again after its wait, and takes a while to be
        // read.
        let (mut now, mut waits) = (Duration::ZERO, Vec::new());
        for number in 1..=FILES {
            if let Some(rest) = clocks.racy(&file(number), wall(now), begun + now) {
                waits.push((number, rest));
                now += rest;
            }
            now += Duration::from_millis(50);
        }
        assert!(waits.len() <= 2 && waits.iter().all(|(_, rest)| *rest <= TICK_MAX), "{waits:?}");
    }

    #[test]
    fn a_file_written_while_the_clock_was_wrong_says_nothing_of_what_was_changed_just_now() {
        const DAY: i128 = 86_400_000_000_000;
        const START: i128 = 1_700_000_000_500_000_000;
        let (clocks, begun) = (Clocks::default(), Instant::now());
        for after in [Duration::ZERO, RACY, CLOCK_KNOWN + RACY] {
            let (wall, at) = (UNIX_EPOCH + Duration::from_nanos(START as u64) + after, begun + after);
            clocks.saw(&changed_at(START + DAY), wall, at);
            let now = START + after.as_nanos() as i128;
            assert_eq!(clocks.racy(&changed_at(now), wall, at), Some(RACY), "{after:?}");
        }
    }

    #[test]
    fn what_a_clock_ahead_of_ours_showed_is_over_when_no_tick_lasts_as_long_and_not_before() {
        let begun = Instant::now();
        let mut clock = Clock::new(begun);
        clock.saw(1, 0, begun);
        for (after, passed) in [(TICK_MAX / 2, i128::MIN), (TICK_MAX, i128::MIN), (2 * TICK_MAX, 1)] {
            clock.go_on(begun + after);
            assert_eq!(clock.passed, passed, "{after:?}");
        }
        // Seen just before a turn: not over at the next one.
        clock.saw(2, 0, begun + 3 * TICK_MAX - Duration::from_millis(1));
        clock.go_on(begun + 3 * TICK_MAX);
        assert_eq!(clock.passed, 1);
        clock.go_on(begun + 4 * TICK_MAX);
        assert_eq!(clock.passed, 2);
        // Nobody looked meanwhile.
        clock.saw(3, 0, begun + 4 * TICK_MAX);
        clock.go_on(begun + 40 * TICK_MAX);
        assert_eq!(clock.passed, 3);
    }
}
