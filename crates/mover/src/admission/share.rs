//! The server's side of a limit for all that it moves: when each of those who share it may go on.
//!
//! Members ask for bytes, and their requests go one after the other, no faster than the rate. Next goes the
//! one of the member of which the least went so far, so that members who ask all the time have equal parts,
//! whatever the size and the number of their requests. What one does not ask for is the others': who is alone
//! has all of it. Time in which nobody asked is nobody's: who comes then has no more for it, and who had much
//! before is not behind.
//!
//! Not done: a member that asks only when its last bytes are on their way is not waited for. All times are in
//! nanoseconds since a moment that the caller chose.

use std::collections::BTreeMap;

/// Longer than any transfer: a rate so low that its end is beyond all clocks holds until it is changed.
const FOREVER: u64 = 365 * 86_400 * 1_000_000_000;

/// Who has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member(pub u64);

/// A request that waits; later ones are larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request(u64);

/// See the module. Without a rate it lets a byte a second go.
#[derive(Debug, Default)]
pub struct Line {
    bytes_per_s: u64,
    /// How often the rate was changed until it was this one.
    changes: u64,
    /// When what was let go has had its time.
    free_at: u64,
    /// How far the member that went last had come when it went, in bytes.
    turn: u64,
    /// How far each member comes with all that it asked for. A member that asked for nothing is at [`Line::turn`].
    ends: BTreeMap<Member, u64>,
    /// What waits, by how far its member has come before.
    waiting: BTreeMap<(u64, Request), (Member, u64)>,
    places: BTreeMap<Request, u64>,
    last: Request,
}

impl Line {
    /// From now on so many bytes a second, which is what `changes` changes came to. What went before the last
    /// of them is owed to nobody, also where the rate is the same again. Nothing if it had heard of as many.
    pub fn set_rate(&mut self, bytes_per_s: u64, changes: u64, now: u64) {
        if changes > self.changes {
            self.go_on(now);
            (self.bytes_per_s, self.changes) = (bytes_per_s, changes);
            self.free_at = self.free_at.min(now);
        }
    }

    /// A member has so many bytes. `None` if they may go at once.
    pub fn ask(&mut self, member: Member, bytes: u64, now: u64) -> Option<Request> {
        let from = self.count(member, bytes, now);
        self.last = Request(self.last.0 + 1);
        let request = self.last;
        self.waiting.insert((from, request), (member, bytes));
        self.places.insert(request, from);
        self.go_on(now);
        self.places.contains_key(&request).then_some(request)
    }

    /// How long it waits still, as far as that is known by now: at most `at_most`. `None` if it may go.
    pub fn wait(&mut self, request: Request, now: u64, at_most: u64) -> Option<u64> {
        self.go_on(now);
        let from = *self.places.get(&request)?;
        let mut left = self.free_at.saturating_sub(now);
        for (_, bytes) in self.waiting.range(..(from, request)).map(|(_, asked)| asked) {
            if left >= at_most {
                break;
            }
            left = left.saturating_add(self.takes(*bytes));
        }
        Some(left.min(at_most))
    }

    /// A member had so many bytes and did not ask: whoever asks next, itself above all, waits for them.
    pub fn charge(&mut self, member: Member, bytes: u64, now: u64) {
        self.count(member, bytes, now);
        self.free_at = self.free_at.saturating_add(self.takes(bytes));
    }

    /// It waits no more: its time is that of others. Nothing, and `false`, if it may go already.
    pub fn give_up(&mut self, request: Request) -> bool {
        let Some(from) = self.places.remove(&request) else { return false };
        if let Some((member, bytes)) = self.waiting.remove(&(from, request))
            && let Some(end) = self.ends.get_mut(&member)
        {
            *end = end.saturating_sub(bytes);
        }
        true
    }

    /// A member is gone; nothing of it waits.
    pub fn forget(&mut self, member: Member) {
        self.ends.remove(&member);
    }

    /// A member comes so many bytes further. Returns from where.
    fn count(&mut self, member: Member, bytes: u64, now: u64) -> u64 {
        self.go_on(now);
        if self.waiting.is_empty() && self.free_at <= now {
            self.free_at = now;
            self.ends.clear();
        }
        let from = self.ends.get(&member).map_or(self.turn, |end| self.turn.max(*end));
        self.ends.insert(member, from.saturating_add(bytes));
        from
    }

    fn go_on(&mut self, now: u64) {
        while self.free_at <= now {
            let Some(((from, request), (_, bytes))) = self.waiting.pop_first() else { return };
            self.places.remove(&request);
            self.turn = self.turn.max(from);
            self.free_at = self.free_at.saturating_add(self.takes(bytes));
        }
    }

    fn takes(&self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX).min(FOREVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MILLI;

    /// A member with so many requests of this size at a time, which asks anew when one of them went.
    struct Asks {
        member: Member,
        bytes: u64,
        waiting: Vec<Option<Request>>,
        went: u64,
    }

    impl Asks {
        fn new(member: u64, bytes: u64, at_once: usize) -> Asks {
            Asks { member: Member(member), bytes, waiting: vec![None; at_once], went: 0 }
        }

        fn look(&mut self, line: &mut Line, now: u64) {
            for place in &mut self.waiting {
                while place.is_none_or(|request| line.wait(request, now, SECOND).is_none()) {
                    self.went += if place.is_some() { self.bytes } else { 0 };
                    *place = line.ask(self.member, self.bytes, now);
                    if place.is_none() {
                        self.went += self.bytes;
                    }
                }
            }
        }
    }

    /// Looks at all of them every millisecond.
    fn run(line: &mut Line, asks: &mut [Asks], (from, to): (u64, u64)) {
        for milli in from..to {
            asks.iter_mut().for_each(|one| one.look(line, milli * MILLI));
        }
    }

    fn line(bytes_per_s: u64) -> Line {
        let mut line = Line::default();
        line.set_rate(bytes_per_s, 1, 0);
        line
    }

    #[test]
    fn members_have_equal_parts_whatever_the_size_and_number_of_their_requests() {
        let mut line = line(10_000_000);
        let mut asks = [Asks::new(1, 512 << 10, 16), Asks::new(2, 16 << 10, 1), Asks::new(3, 100_000, 3)];
        run(&mut line, &mut asks, (0, 60_000));
        for one in &asks {
            let apart = one.went.abs_diff(200_000_000);
            assert!(apart <= 3 << 20, "{:?} has {} bytes", one.member, one.went);
        }
    }

    #[test]
    fn who_is_alone_has_all_and_who_asks_for_less_leaves_the_rest() {
        let mut line = line(1_000_000);
        let mut alone = [Asks::new(1, 10_000, 2)];
        run(&mut line, &mut alone, (0, 10_000));
        assert!(alone[0].went.abs_diff(10_000_000) <= 40_000, "{}", alone[0].went);
        // One that asks for a tenth of it is let go of that, at once after who goes.
        let mut little = 0;
        for milli in 10_000..20_000 {
            let now = milli * MILLI;
            if milli % 100 == 0 {
                let request = line.ask(Member(2), 10_000, now);
                little += 10_000;
                if let Some(request) = request {
                    let left = line.wait(request, now, SECOND).unwrap();
                    assert!(left <= 20 * MILLI, "{left}");
                }
            }
            alone[0].look(&mut line, now);
        }
        let all = alone[0].went + little;
        assert!(all.abs_diff(20_000_000) <= 60_000, "{all}");
    }

    #[test]
    fn who_comes_late_takes_nothing_for_the_time_before_and_who_was_alone_is_not_behind() {
        let mut line = line(1_000_000);
        let mut first = [Asks::new(1, 10_000, 2)];
        run(&mut line, &mut first, (0, 10_000));
        let before = first[0].went;
        let [one] = first;
        let mut both = [one, Asks::new(2, 10_000, 2)];
        run(&mut line, &mut both, (10_000, 20_000));
        let (one, two) = (both[0].went - before, both[1].went);
        assert!(one.abs_diff(two) <= 60_000, "{one} and {two}");
        // Nor does an hour without anybody count.
        let later = 3600 * SECOND;
        for request in both.iter().flat_map(|asks| &asks.waiting).flatten() {
            line.give_up(*request);
        }
        assert_eq!(line.ask(Member(3), 10_000, later), None);
        assert!(line.ask(Member(3), 10_000, later).is_some());
    }

    #[test]
    fn the_time_of_who_gives_up_is_that_of_others() {
        let mut line = line(1);
        assert_eq!(line.ask(Member(1), 100, 0), None);
        let large = line.ask(Member(1), 1_000_000, 0).unwrap();
        let small = line.ask(Member(1), 1, 0).unwrap();
        assert_eq!(line.wait(small, 0, u64::MAX), Some(1_000_100 * SECOND));
        assert!(line.give_up(large) && !line.give_up(large));
        assert_eq!(line.wait(small, 0, u64::MAX), Some(100 * SECOND));
        assert_eq!(line.wait(small, 100 * SECOND, u64::MAX), None);
    }

    #[test]
    fn another_rate_holds_at_once() {
        let mut line = line(1);
        assert_eq!(line.ask(Member(1), 1 << 40, 0), None);
        let request = line.ask(Member(1), 1 << 40, 0).unwrap();
        assert_eq!(line.wait(request, 0, 7), Some(7));
        line.set_rate(1 << 40, 2, SECOND);
        assert_eq!(line.wait(request, SECOND, 7), None);
        let next = line.ask(Member(2), 1, SECOND).unwrap();
        assert_eq!(line.wait(next, SECOND, u64::MAX), Some(SECOND));
    }

    /// A limit that was taken away for a while: nobody looked at the line meanwhile.
    #[test]
    fn a_rate_that_is_the_same_again_owes_nothing_of_before() {
        let mut line = line(1);
        assert_eq!(line.ask(Member(1), 1 << 40, 0), None);
        line.set_rate(1, 1, SECOND);
        let waits = line.ask(Member(2), 10, SECOND).expect("it is the same as before");
        line.give_up(waits);
        line.set_rate(1, 3, SECOND);
        assert_eq!(line.ask(Member(2), 10, SECOND), None);
        // Who looked at the rate before that and comes only now changes nothing.
        line.set_rate(1 << 40, 2, SECOND);
        let waits = line.ask(Member(2), 1, SECOND).unwrap();
        assert_eq!(line.wait(waits, SECOND, u64::MAX), Some(10 * SECOND));
    }

    #[test]
    fn what_came_unasked_is_waited_for_by_who_comes_next_and_its_member_is_behind() {
        let mut line = line(1);
        line.charge(Member(1), 100, 0);
        let one = line.ask(Member(1), 1, 0).unwrap();
        let two = line.ask(Member(2), 1, 0).unwrap();
        assert_eq!(line.wait(two, 0, u64::MAX), Some(100 * SECOND));
        assert_eq!(line.wait(one, 0, u64::MAX), Some(101 * SECOND));
        // While others wait it is one more that went before them.
        line.charge(Member(3), 50, SECOND);
        assert_eq!(line.wait(two, SECOND, u64::MAX), Some(149 * SECOND));
        line.give_up(one);
        line.give_up(two);
        // Nobody is behind for what had its time.
        let later = 1000 * SECOND;
        line.charge(Member(1), 1, later);
        assert_eq!(line.ends, BTreeMap::from([(Member(1), line.turn + 1)]));
        assert_eq!(line.free_at, later + SECOND);
    }

    proptest! {
        /// Whoever asks whenever, and gives up or is forgotten.
        #[test]
        fn no_more_goes_than_the_rate_and_all_goes_in_its_time(
            rate in 1_000u64..1_000_000,
            asked in prop::collection::vec((0u64..5_000, 0u64..5, 0u64..100_000, any::<bool>()), 1..60),
        ) {
            let mut line = line(rate);
            let (mut now, mut went, mut most) = (0u64, 0u64, 0u64);
            let mut waiting: Vec<(Request, u64)> = Vec::new();
            for (gap_ms, member, bytes, stays) in asked {
                now += gap_ms * MILLI;
                most = most.max(bytes);
                match line.ask(Member(member), bytes, now) {
                    None => went += bytes,
                    Some(request) if stays => waiting.push((request, bytes)),
                    Some(request) => {
                        line.give_up(request);
                    }
                }
                waiting.retain(|(request, bytes)| {
                    let goes = line.wait(*request, now, u64::MAX).is_none();
                    went += if goes { *bytes } else { 0 };
                    !goes
                });
                let allowed = u128::from(rate) * u128::from(now) / u128::from(SECOND);
                prop_assert!(u128::from(went) <= allowed + u128::from(most) + 1, "{went} of {allowed}");
            }
            let left: u64 = waiting.iter().map(|(_, bytes)| *bytes).sum();
            let enough = now + (left + most) * SECOND / rate + SECOND;
            for (request, _) in waiting {
                prop_assert_eq!(line.wait(request, enough, u64::MAX), None);
            }
            prop_assert!(line.waiting.is_empty() && line.places.is_empty());
        }
    }
}
