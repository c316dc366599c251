//! Judges a link by what gets across: whether to go on with it, to cut it, to dial another, or to give up.
//!
//! Three clocks. *Patience* runs since anything was verified, settled or acknowledged, and is the user's. *Stall* runs
//! since that, or since the path carried enough to be alive; it does not run while the peer says what it waits for, nor
//! while our own disk does not give what is to be sent, nor before a first stream could be dialled. *Silence* runs
//! since the peer said anything. None runs while nothing is waited for, nor while a peer that is heard waits for its
//! share of what its operator lets it move, nor while it or we read or write what shows in no number and get on with
//! it, but patience where there is no link. And none runs while we stand still ourselves, for who is stopped hears
//! nobody and sends nothing.
//!
//! Decides only: time and what was seen come in as arguments.

use crate::run::party::STOOD_STILL;
use std::time::{Duration, Instant};

/// A link that is silent for so long, four heartbeats, is dialled anew beside the old one; the first that works wins.
/// The kernel's own tries to send again double their distance each time and would find a healed path too late.
pub(super) const SILENCE: Duration = Duration::from_secs(4);
/// A path on which less than this moves is as good as dead. What moves faster keeps its link even if a frame takes
/// longer than the stall timeout, until the patience for what was verified is at its end.
const LIVE_BYTES_PER_S: f64 = 1024.0;

/// Numbers of which each that grows is progress.
pub(super) type Progress = [u64; 5];

/// What the user bears.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Without progress.
    pub patience: Duration,
    /// On a link that gets nothing across.
    pub stall_timeout: Duration,
}

/// What the link looks like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// There is no link.
    pub is_lost: bool,
    /// When the peer last said something.
    pub heard_at: Option<Instant>,
    /// Bytes that moved on the streams that stand: goes back when one is replaced.
    pub moved_bytes: u64,
    /// Something waits for the peer.
    pub awaits_peer: bool,
    /// The peer says what it waits for, or our own disk is what is waited for.
    pub is_excused: bool,
    /// No stream could be dialled yet: another link would change nothing about that.
    pub is_undialled: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is wrong with the link.
    Keep,
    /// It is lost or silent: dial another.
    Dial,
    /// It stands, and gets nothing across: cut it.
    Drop,
    /// The patience is at its end.
    GiveUp,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pulse {
    progress: Progress,
    progressed_at: Instant,
    /// What earlier sessions spent of the patience, until there is progress in this one.
    spent: Duration,
    moved_bytes: u64,
    /// When anything last got across this link.
    alive_at: Instant,
    was_undialled: bool,
}

impl Pulse {
    /// Everything begins now; so much of the patience is spent.
    pub fn begin(now: Instant, spent: Duration, progress: Progress, moved_bytes: u64) -> Pulse {
        Pulse { progress, progressed_at: now, spent, moved_bytes, alive_at: now, was_undialled: false }
    }

    /// Notes what is done by now; whether it is more than before.
    pub fn progressed(&mut self, now: Instant, progress: Progress) -> bool {
        let grew = progress.iter().zip(&self.progress).any(|(now, before)| now > before);
        // A transfer that is taken out takes its numbers along.
        self.progress = progress;
        if grew {
            (self.progressed_at, self.alive_at, self.spent) = (now, now, Duration::ZERO);
        }
        grew
    }

    /// What is to be done about a link that looks like this.
    pub fn judge(&mut self, now: Instant, seen: &Seen, limits: &Limits) -> Verdict {
        // It starts over when a stream does.
        self.moved_bytes = self.moved_bytes.min(seen.moved_bytes);
        let live_bytes = (LIVE_BYTES_PER_S * limits.stall_timeout.as_secs_f64()) as u64;
        if seen.moved_bytes - self.moved_bytes > live_bytes {
            (self.moved_bytes, self.alive_at) = (seen.moved_bytes, now);
        }
        if std::mem::replace(&mut self.was_undialled, seen.is_undialled) && !seen.is_undialled {
            // The first stream has its own time.
            self.alive_at = now;
        }
        // Who waits for nothing has patience with the peer, not with its absence.
        if !seen.is_lost && !seen.awaits_peer {
            (self.progressed_at, self.alive_at) = (now, now);
        }
        if self.patience_left(now, limits).is_zero() {
            return Verdict::GiveUp;
        }
        let since = |at: Instant| now.saturating_duration_since(at);
        let is_unheard = seen.heard_at.is_some_and(|at| since(at) > SILENCE);
        if seen.is_lost || (is_unheard && since(self.alive_at) > SILENCE) {
            return Verdict::Dial;
        }
        if since(self.alive_at) > limits.stall_timeout && !seen.is_excused && !seen.is_undialled {
            // What comes in its place has its own time.
            self.alive_at = now;
            return Verdict::Drop;
        }
        Verdict::Keep
    }

    /// There is another link.
    pub fn has_new_link(&mut self, now: Instant) {
        self.alive_at = now;
    }

    /// We wanted to sleep for `wanted`, and slept for `slept`: of what is beyond that we know nothing, if it is much.
    pub fn slept(&mut self, now: Instant, wanted: Duration, slept: Duration) {
        let beyond = slept.saturating_sub(wanted);
        if beyond > STOOD_STILL {
            self.progressed_at = (self.progressed_at + beyond).min(now);
            // What the peer said meanwhile, and that it still does, is to be heard first.
            self.alive_at = now;
        }
    }

    /// For how much longer the user has patience.
    pub fn patience_left(&self, now: Instant, limits: &Limits) -> Duration {
        let since = now.saturating_duration_since(self.progressed_at);
        limits.patience.saturating_sub(since).saturating_sub(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { patience: Duration::from_secs(600), stall_timeout: Duration::from_secs(30) };

    /// A link that began at 0 s, and what is seen of it: heard a moment ago, with something that waits for the peer.
    struct Stand {
        began: Instant,
        pulse: Pulse,
    }

    impl Stand {
        fn new() -> Stand {
            let began = Instant::now();
            Stand { began, pulse: Pulse::begin(began, Duration::ZERO, [0; 5], 0) }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.began + Duration::from_secs(seconds)
        }

        fn seen(&self, heard_at_s: u64) -> Seen {
            Seen {
                is_lost: false,
                heard_at: Some(self.at(heard_at_s)),
                moved_bytes: 0,
                awaits_peer: true,
                is_excused: false,
                is_undialled: false,
            }
        }

        fn judge(&mut self, seconds: u64, seen: Seen) -> Verdict {
            self.pulse.judge(self.at(seconds), &seen, &LIMITS)
        }
    }

    #[test]
    fn a_link_on_which_something_is_acknowledged_is_kept_and_one_on_which_nothing_is_is_cut_once() {
        let mut stand = Stand::new();
        for second in 1..=100 {
            assert!(stand.pulse.progressed(stand.at(second), [second, 0, 0, 0, 0]));
            assert_eq!(stand.judge(second, stand.seen(second)), Verdict::Keep);
        }
        assert!(!stand.pulse.progressed(stand.at(130), [100, 0, 0, 0, 0]));
        assert_eq!(stand.judge(130, stand.seen(130)), Verdict::Keep);
        assert_eq!(stand.judge(131, stand.seen(131)), Verdict::Drop);
        assert_eq!(
            stand.judge(132, stand.seen(132)),
            Verdict::Keep,
            "what comes in its place has its own time"
        );
        // A transfer that was taken out made no progress, and nor does its absence undo any.
        assert!(!stand.pulse.progressed(stand.at(133), [7, 0, 0, 0, 0]));
        assert!(stand.pulse.progressed(stand.at(134), [8, 0, 0, 0, 0]));
    }

    #[test]
    fn a_peer_that_says_what_it_waits_for_is_borne_until_patience_ends() {
        let mut stand = Stand::new();
        for second in (1..600).step_by(3) {
            let seen = Seen { is_excused: true, ..stand.seen(second) };
            assert_eq!(stand.judge(second, seen), Verdict::Keep);
        }
        let seen = Seen { is_excused: true, ..stand.seen(600) };
        assert_eq!(stand.judge(600, seen), Verdict::GiveUp);
    }

    #[test]
    fn a_link_that_is_heard_is_not_cut_because_no_stream_could_be_dialled_yet() {
        let mut stand = Stand::new();
        for second in 1..100 {
            let seen = Seen { is_undialled: true, ..stand.seen(second) };
            assert_eq!(stand.judge(second, seen), Verdict::Keep);
        }
        assert_eq!(stand.judge(100, stand.seen(100)), Verdict::Keep, "the first stream had no time");
        assert_eq!(stand.judge(130, stand.seen(130)), Verdict::Keep);
        assert_eq!(stand.judge(131, stand.seen(131)), Verdict::Drop);
        // A link that is not heard is dialled anew all the same, and patience ends.
        let mut stand = Stand::new();
        assert_eq!(stand.judge(5, Seen { is_undialled: true, ..stand.seen(0) }), Verdict::Dial);
        assert_eq!(stand.judge(600, Seen { is_undialled: true, ..stand.seen(600) }), Verdict::GiveUp);
    }

    #[test]
    fn a_path_that_carries_a_little_more_than_nothing_keeps_its_link_and_not_the_patience() {
        let mut stand = Stand::new();
        for second in 1..600 {
            let seen = Seen { moved_bytes: second * 2048, ..stand.seen(second) };
            assert_eq!(stand.judge(second, seen), Verdict::Keep, "at {second} s");
        }
        let seen = Seen { moved_bytes: 600 * 2048, ..stand.seen(600) };
        assert_eq!(stand.judge(600, seen), Verdict::GiveUp);
        // A stream that is replaced begins at nothing, which is no sign of life.
        let mut stand = Stand::new();
        assert_eq!(stand.judge(1, Seen { moved_bytes: 1 << 20, ..stand.seen(1) }), Verdict::Keep);
        assert_eq!(stand.judge(20, Seen { moved_bytes: 0, ..stand.seen(20) }), Verdict::Keep);
        assert_eq!(stand.judge(31, Seen { moved_bytes: 30_000, ..stand.seen(31) }), Verdict::Keep);
        assert_eq!(stand.judge(32, Seen { moved_bytes: 30_000, ..stand.seen(32) }), Verdict::Drop);
    }

    #[test]
    fn a_link_that_is_lost_or_silent_is_dialled_anew() {
        let mut stand = Stand::new();
        assert_eq!(stand.judge(1, Seen { is_lost: true, ..stand.seen(0) }), Verdict::Dial);
        assert_eq!(stand.judge(4, stand.seen(0)), Verdict::Keep);
        assert_eq!(stand.judge(5, stand.seen(0)), Verdict::Dial);
        stand.pulse.has_new_link(stand.at(5));
        assert_eq!(stand.judge(6, stand.seen(0)), Verdict::Keep, "it had no time to be heard");
        // Nobody who was never heard is silent.
        assert_eq!(stand.judge(20, Seen { heard_at: None, ..stand.seen(0) }), Verdict::Keep);
        // What gets across says as much as words.
        assert!(stand.pulse.progressed(stand.at(28), [1, 0, 0, 0, 0]));
        assert_eq!(stand.judge(30, stand.seen(0)), Verdict::Keep);
    }

    #[test]
    fn while_we_stand_still_ourselves_no_clock_runs() {
        let mut stand = Stand::new();
        let wanted = Duration::from_millis(250);
        // Stopped for almost all of the patience, 20 s after anything got across.
        stand.pulse.slept(stand.at(595), wanted, Duration::from_secs(575) + wanted);
        assert_eq!(stand.judge(595, stand.seen(20)), Verdict::Keep, "it had no time to be heard");
        assert_eq!(stand.pulse.patience_left(stand.at(595), &LIMITS), Duration::from_secs(580));
        assert_eq!(stand.judge(599, stand.seen(20)), Verdict::Keep);
        assert_eq!(stand.judge(600, stand.seen(20)), Verdict::Dial, "and now it had");
        assert_eq!(stand.judge(626, stand.seen(625)), Verdict::Drop);
        assert_eq!(stand.judge(1175, stand.seen(1175)), Verdict::GiveUp, "what we waited counts");
        // A wake that comes a little late is a busy machine, and time all the same.
        let mut stand = Stand::new();
        for second in 1..=5 {
            stand.pulse.slept(stand.at(second), wanted, Duration::from_secs(1));
        }
        assert_eq!(stand.judge(5, stand.seen(0)), Verdict::Dial);
    }

    #[test]
    fn a_session_after_an_outage_has_what_is_left_of_the_patience_and_with_the_first_progress_all_of_it() {
        let mut stand = Stand::new();
        stand.pulse.spent = Duration::from_secs(590);
        let idle = Seen { awaits_peer: false, ..stand.seen(5) };
        assert_eq!(stand.judge(5, idle), Verdict::Keep, "nothing is waited for yet");
        assert_eq!(stand.pulse.patience_left(stand.at(5), &LIMITS), Duration::from_secs(10));
        assert!(stand.pulse.progressed(stand.at(14), [1, 0, 0, 0, 0]));
        assert_eq!(stand.pulse.patience_left(stand.at(14), &LIMITS), LIMITS.patience);
        let mut stand = Stand::new();
        stand.pulse.spent = Duration::from_secs(590);
        assert_eq!(stand.judge(10, stand.seen(10)), Verdict::GiveUp);
    }

    #[test]
    fn who_waits_for_nothing_has_patience_with_the_peer_and_not_with_its_absence() {
        let mut stand = Stand::new();
        for second in (1..2000).step_by(3) {
            let seen = Seen { awaits_peer: false, ..stand.seen(second) };
            assert_eq!(stand.judge(second, seen), Verdict::Keep);
        }
        let seen = Seen { awaits_peer: false, is_lost: true, ..stand.seen(1999) };
        assert_eq!(stand.judge(2500, seen), Verdict::Dial);
        assert_eq!(stand.judge(2599, seen), Verdict::GiveUp);
        assert_eq!(stand.pulse.patience_left(stand.at(2590), &LIMITS), Duration::from_secs(9));
    }
}
