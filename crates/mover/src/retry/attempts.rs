//! Whether a transfer whose attempt failed is tried again, in a session of its own, and when.
//!
//! What heals is tried again as long as there is progress within the patience: a link that broke; our own last attempt,
//! which its server has not given up yet; and what the policy adds. A new session is no progress: its link may be
//! dialled for as long as the patience has left. Pauses double, and have a random part, which comes in as an argument:
//! those that one outage cut off shall not all come back at once.

use crate::failure::{Failure, FailureKind, Reason};
use std::time::{Duration, Instant};

/// Time in which TCP, TLS and hello must be done. A new link has as much of the patience at least, or half of one that
/// is short: else it would be given up before it had carried anything.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What heals of one kind of transfer, and how soon it is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// So many attempts before there ever was a link, at a peer that answers, but not well; with 1 the first is the
    /// last.
    pub first_max: u32,
    /// The reasons of what fails where no peer answers: that is final before there ever was a link.
    pub away: &'static [Reason],
    /// Whether a handshake heals whose words make no sense: they were altered on the way.
    pub handshake: bool,
    /// Whether all that is busy heals, and not our own last attempt only.
    pub busy: bool,
    /// After the first that failed since there was progress.
    pub pause: Duration,
    /// The longest, without its random part: up to half of it.
    pub pause_max: Duration,
}

/// The attempts of one transfer.
#[derive(Debug)]
pub struct Attempts {
    policy: Policy,
    patience: Duration,
    count: u32,
    had_link: bool,
    is_dialling: bool,
    /// The most entries and the most bytes that stood in any attempt: what is there already is found again in each,
    /// some as entries, some as bytes.
    most: (u64, u64),
    progress_at: Instant,
    /// That failed since.
    in_row: u32,
}

impl Attempts {
    /// None yet. `patience`: so long there may be no progress.
    pub fn new(policy: Policy, patience: Duration, now: Instant) -> Attempts {
        let (count, had_link, is_dialling) = (0, false, false);
        let most = (0, 0);
        Attempts { policy, patience, count, had_link, is_dialling, most, progress_at: now, in_row: 0 }
    }

    /// How many there were, with the one that goes on.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// One begins.
    pub fn begin(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// It dials: so much of the patience is spent by now.
    pub fn dial(&mut self, now: Instant) -> Duration {
        self.is_dialling = true;
        match self.had_link {
            true => {
                let kept = DIAL_TIMEOUT.min(self.patience / 2);
                self.without_progress(now).min(self.patience.saturating_sub(kept))
            }
            false => Duration::ZERO,
        }
    }

    /// Its link stands.
    pub fn linked(&mut self) {
        (self.is_dialling, self.had_link) = (false, true);
    }

    /// So many entries and bytes stand: progress, if more of either than ever before.
    pub fn reached(&mut self, entries: u64, bytes: u64, now: Instant) {
        if entries > self.most.0 || bytes > self.most.1 {
            self.most = (self.most.0.max(entries), self.most.1.max(bytes));
            self.goes_well(now);
        }
    }

    /// All is well, whether or not there is more of anything.
    pub fn goes_well(&mut self, now: Instant) {
        (self.progress_at, self.in_row) = (now, 0);
    }

    /// What ended the latest was no outage, and is dealt with: it does not count, nor does the time that it took.
    pub fn undo(&mut self, now: Instant) {
        self.count = self.count.saturating_sub(1);
        self.goes_well(now);
    }

    /// The latest failed. After which pause another may begin; `None`: this failure is final. `chance`: a random number
    /// from 0 to 1.
    pub fn failed(&mut self, failure: &Failure, now: Instant, chance: f64) -> Option<Duration> {
        // Where we stood still for longer than the far mover has patience it is there, and the session is not: nobody
        // made us wait, for once.
        let is_there = failure.reason == Reason::SessionGone && self.in_row == 0;
        if !self.heals(failure) || (self.without_progress(now) > self.patience && !is_there) {
            return None;
        }
        let doubled = self.policy.pause.saturating_mul(1 << self.in_row.min(16));
        self.in_row = self.in_row.saturating_add(1);
        let pause = doubled.min(self.policy.pause_max);
        Some(pause + pause.mul_f64(chance / 2.0))
    }

    fn heals(&self, failure: &Failure) -> bool {
        let is_away = self.policy.away.contains(&failure.reason);
        let again = self.had_link || (self.count < self.policy.first_max && !is_away);
        match failure.kind {
            FailureKind::Connection => again,
            FailureKind::Damage | FailureKind::Protocol => self.policy.handshake && self.is_dialling && again,
            FailureKind::Busy => self.had_link && (self.policy.busy || self.count > 1),
            _ => false,
        }
    }

    fn without_progress(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.progress_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(7);
    const PATIENCE: Duration = Duration::from_secs(60);
    const SPARING: Policy = Policy {
        first_max: 1,
        away: &[],
        handshake: false,
        busy: false,
        pause: PAUSE,
        pause_max: Duration::from_millis(40),
    };
    const GENEROUS: Policy =
        Policy { first_max: 3, away: &[Reason::NotAnswered], handshake: true, busy: true, ..SPARING };

    fn attempts(policy: Policy) -> (Attempts, Instant) {
        let now = Instant::now();
        (Attempts::new(policy, PATIENCE, now), now)
    }

    fn failure(kind: FailureKind) -> Failure {
        Failure::new(kind, "read", "no")
    }

    #[test]
    fn before_there_ever_was_a_link_only_a_peer_that_answers_is_tried_again_and_not_for_ever() {
        let lost = failure(FailureKind::Connection);
        let away = failure(FailureKind::Connection).because(Reason::NotAnswered);
        for (policy, failure, most) in
            [(SPARING, &lost, 1), (GENEROUS, &lost, 3), (GENEROUS, &away, 1), (SPARING, &away, 1)]
        {
            let (mut attempts, now) = attempts(policy);
            let mut tries = || {
                attempts.begin();
                attempts.failed(failure, now, 0.0).is_some()
            };
            assert_eq!((0..100).take_while(|_| tries()).count() + 1, most, "{policy:?}, {failure:?}");
        }
    }

    #[test]
    fn after_a_link_what_broke_heals_and_what_is_wrong_does_not() {
        use FailureKind::{Busy, Connection, Damage, Protocol, Space, Stopped};
        for (policy, is_dialling, count, healing) in [
            (SPARING, false, 1, &[Connection][..]),
            // Our own last attempt.
            (SPARING, false, 2, &[Connection, Busy]),
            (SPARING, true, 2, &[Connection, Busy]),
            (GENEROUS, false, 1, &[Connection, Busy]),
            (GENEROUS, true, 2, &[Connection, Busy, Damage, Protocol]),
        ] {
            let (mut attempts, now) = attempts(policy);
            attempts.linked();
            (0..count).for_each(|_| attempts.begin());
            if is_dialling {
                attempts.dial(now);
            }
            for kind in [Busy, Connection, Damage, Protocol, Space, Stopped] {
                let heals = attempts.failed(&failure(kind), now, 0.0).is_some();
                assert_eq!(heals, healing.contains(&kind), "{policy:?}, {count}, {kind:?}");
            }
        }
    }

    #[test]
    fn who_stood_still_itself_has_another_session_once_though_its_patience_is_over() {
        let (mut attempts, began) = attempts(SPARING);
        let after = |seconds| began + Duration::from_secs(seconds);
        attempts.begin();
        attempts.linked();
        let gone = failure(FailureKind::Connection).because(Reason::SessionGone);
        assert_eq!(attempts.failed(&gone, after(3600), 0.0), Some(PAUSE));
        assert_eq!(attempts.dial(after(3601)), PATIENCE - DIAL_TIMEOUT);
        attempts.linked();
        assert_eq!(attempts.failed(&gone, after(3602), 0.0), None, "one that forgets again and again");
    }

    #[test]
    fn it_is_given_up_when_there_was_no_progress_within_the_patience_and_a_new_link_has_what_is_left_of_it() {
        let (mut attempts, began) = attempts(SPARING);
        let after = |seconds| began + Duration::from_secs(seconds);
        attempts.begin();
        assert_eq!(attempts.dial(after(50)), Duration::ZERO, "the first link has all of it");
        attempts.linked();
        let lost = failure(FailureKind::Connection);
        assert_eq!(attempts.failed(&lost, after(60), 0.0), Some(PAUSE));
        assert_eq!(attempts.failed(&lost, after(61), 0.0), None);
        let gone = failure(FailureKind::Connection).because(Reason::SessionGone);
        assert_eq!(attempts.failed(&gone, after(61), 0.0), None, "it is the second in a row");
        assert_eq!(attempts.dial(after(45)), Duration::from_secs(45));
        attempts.linked();
        assert_eq!(attempts.dial(after(200)), PATIENCE - DIAL_TIMEOUT, "it has time for one dial");
        assert_eq!(attempts.failed(&lost, after(61), 0.0), None, "a session is no progress");
        let mut short = Attempts::new(SPARING, Duration::from_secs(6), began);
        short.linked();
        assert_eq!(short.dial(after(5)), Duration::from_secs(3));
        attempts.goes_well(after(200));
        assert_eq!(attempts.failed(&lost, after(260), 0.0), Some(PAUSE));
        attempts.undo(after(300));
        assert_eq!((attempts.count(), attempts.failed(&lost, after(360), 0.0)), (0, Some(PAUSE)));
    }

    #[test]
    fn pauses_double_up_to_the_longest_until_there_is_progress_and_have_a_random_part() {
        let (mut attempts, now) = attempts(SPARING);
        attempts.linked();
        let lost = failure(FailureKind::Connection);
        let mut pause_ms = |chance| attempts.failed(&lost, now, chance).map(|pause| pause.as_millis());
        assert_eq!([0.0; 5].map(&mut pause_ms), [7, 14, 28, 40, 40].map(Some));
        assert_eq!([0.5, 1.0].map(&mut pause_ms), [50, 60].map(Some));
        attempts.reached(1, 0, now);
        assert_eq!(attempts.failed(&lost, now, 0.0), Some(PAUSE));
    }

    #[test]
    fn progress_is_more_entries_or_more_bytes_than_in_any_attempt_before() {
        let (mut attempts, began) = attempts(SPARING);
        let after = |seconds| began + Duration::from_secs(seconds);
        attempts.linked();
        let lost = failure(FailureKind::Connection);
        let mut is_progress = |entries, bytes, at| {
            attempts.reached(entries, bytes, after(at));
            attempts.failed(&lost, after(at + 60), 0.0).is_some()
        };
        assert!(is_progress(5, 1000, 100));
        assert!(!is_progress(5, 1000, 200), "no more");
        assert!(!is_progress(4, 999, 300), "what stood before");
        // Entries that are there already bring no bytes.
        assert!(is_progress(6, 10, 400));
        assert!(!is_progress(6, 1000, 500));
        assert!(is_progress(0, 1001, 600));
    }
}
