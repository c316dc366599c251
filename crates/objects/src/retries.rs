//! What is asked again, and when.
//!
//! A store that is busy or fails is asked again after waits that grow; a region, a clock or credentials that were not
//! right are put right, once each, and it is asked again at once. All else comes out the same and is final.
//!
//! No clock here: who waits says how long an attempt took.

use std::time::Duration;
use thalweg_mover::failure::FailureKind;

/// The first wait, before jitter.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest: a store that comes back is asked within that time.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The longest wait that a store may ask for: it may be ready sooner than it thinks.
const TOLD_MAX: Duration = Duration::from_secs(60);
/// So often something is asked where a store never answered yet: rather its address is wrong.
pub const ATTEMPTS_UNKNOWN_MAX: u32 = 3;
/// A clock that is further off makes a store refuse. Amazon's refuses from 15 min on.
pub const SKEW_MAX: Duration = Duration::from_secs(600);

/// What to do about an answer that is no success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Wait, then ask again.
    Later,
    /// Fetch other credentials, then ask again at once.
    Renew,
    /// Go by the store's clock, then ask again at once.
    SetClock,
    /// Ask in the region that it names, at once.
    Move,
    /// It comes out the same.
    Final,
}

/// An answer that is no success, as far as advice goes by it.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// HTTP's number.
    pub status: u16,
    /// The store's word: `SlowDown`. Empty if it has none.
    pub code: &'a str,
    /// It names another region than the one that it was asked in.
    pub elsewhere: bool,
    /// How far its clock is from what the request was signed with.
    pub skew: Duration,
}

/// What to do.
pub fn advice(refused: &Refused<'_>) -> Advice {
    match refused.code {
        "RequestTimeTooSkewed" => return Advice::SetClock,
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => return Advice::Renew,
        "SlowDown"
        | "InternalError"
        | "ServiceUnavailable"
        | "RequestTimeout"
        | "RequestTimeoutException"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequests"
        | "OperationAborted"
        // What was asked before, and is not over, may be ours.
        | "ConditionalRequestConflict"
        | "IncompleteBody"
        | "Busy" => {
            return Advice::Later;
        }
        _ => {}
    }
    match refused.status {
        300..=400 if refused.elsewhere => Advice::Move,
        // What presigned requests of a wrong clock are told has no word of its own.
        403 if refused.skew > SKEW_MAX => Advice::SetClock,
        // The last ones are those of networks before a store.
        408 | 429 | 500 | 502 | 503 | 504 | 520..=530 => Advice::Later,
        _ => Advice::Final,
    }
}

/// The class of a final refusal. What a reader makes of 412 and 416 is its own matter.
pub fn kind(status: u16, code: &str) -> FailureKind {
    match code {
        "NoSuchKey" | "NoSuchBucket" | "NoSuchUpload" | "NoSuchVersion" => return FailureKind::NotFound,
        "AccessDenied"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "InvalidToken"
        | "RequestTimeTooSkewed"
        | "TokenRefreshRequired" => return FailureKind::Permission,
        // It rests on tape.
        "InvalidObjectState" | "EntityTooLarge" | "NotImplemented" | "EntityTooSmall" => {
            return FailureKind::Unsupported;
        }
        "BadDigest" | "InvalidDigest" | "XAmzContentChecksumMismatch" | "XAmzContentSHA256Mismatch" => {
            return FailureKind::Damage;
        }
        "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull" => return FailureKind::Space,
        "PreconditionFailed" | "ConditionalRequestConflict" => return FailureKind::Conflict,
        _ => {}
    }
    match status {
        401 | 403 => FailureKind::Permission,
        404 => FailureKind::NotFound,
        409 | 412 => FailureKind::Conflict,
        413 | 501 => FailureKind::Unsupported,
        507 => FailureKind::Space,
        408 | 429 | 500..=599 => FailureKind::Connection,
        300..=499 => FailureKind::Usage,
        _ => FailureKind::Protocol,
    }
}

/// How often and how long something may still be asked again.
#[derive(Debug, Clone)]
pub struct Budget {
    jitter: fastrand::Rng,
    patience: Duration,
    spent: Duration,
    attempts: u32,
}

impl Budget {
    /// One for `patience`; `seed` is what the jitter comes from.
    pub fn new(patience: Duration, seed: u64) -> Budget {
        Budget { jitter: fastrand::Rng::with_seed(seed), patience, spent: Duration::ZERO, attempts: 0 }
    }

    /// How long to wait after an attempt that took `took`, where the store said to come back after `told`, of which a
    /// minute counts at most; `attempts_max` are made at most, and without it as many as the patience has room for.
    /// `None`: it is used up.
    pub fn wait(
        &mut self,
        took: Duration,
        told: Option<Duration>,
        attempts_max: Option<u32>,
    ) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        self.spent = self.spent.saturating_add(took);
        if attempts_max.is_some_and(|attempts_max| self.attempts >= attempts_max) {
            return None;
        }
        let doubled = WAIT_MIN.saturating_mul(1 << (self.attempts - 1).min(16)).min(WAIT_MAX);
        // Between half and all of it: those that failed together do not come back together.
        let own = doubled.mul_f64(0.5 + self.jitter.f64() / 2.0);
        let wait = own.max(told.unwrap_or_default().min(TOLD_MAX));
        self.spent = self.spent.saturating_add(wait);
        (self.spent <= self.patience).then_some(wait)
    }

    /// It went on: what failed before counts no more.
    pub fn refill(&mut self) {
        (self.spent, self.attempts) = (Duration::ZERO, 0);
    }

    /// Attempts that failed.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Refused<'_> {
        Refused { status, code, elsewhere: false, skew: Duration::ZERO }
    }

    #[test]
    fn a_store_that_is_busy_is_asked_later_and_one_that_refuses_is_not_asked_again() {
        for (status, code) in [
            (500, "InternalError"),
            (500, ""),
            (502, ""),
            (503, "SlowDown"),
            (504, ""),
            (429, ""),
            (400, "RequestTimeout"),
            (400, "IncompleteBody"),
            (520, ""),
            (530, ""),
            (409, "OperationAborted"),
            (409, "ConditionalRequestConflict"),
            // In an answer that began as a success.
            (200, "InternalError"),
        ] {
            assert_eq!(advice(&refused(status, code)), Advice::Later, "{status} {code}");
        }
        for (status, code) in
            [(403, "AccessDenied"), (404, "NoSuchKey"), (412, ""), (416, ""), (400, "InvalidPart"), (501, "")]
        {
            assert_eq!(advice(&refused(status, code)), Advice::Final, "{status} {code}");
        }
    }

    #[test]
    fn what_can_be_put_right_is() {
        assert_eq!(advice(&refused(400, "ExpiredToken")), Advice::Renew);
        assert_eq!(advice(&refused(403, "RequestTimeTooSkewed")), Advice::SetClock);
        let late = Refused { skew: SKEW_MAX * 2, ..refused(403, "AccessDenied") };
        assert_eq!(advice(&late), Advice::SetClock);
        for status in [301, 307, 400] {
            let elsewhere = Refused { elsewhere: true, ..refused(status, "PermanentRedirect") };
            assert_eq!(advice(&elsewhere), Advice::Move, "{status}");
        }
        assert_eq!(advice(&refused(301, "PermanentRedirect")), Advice::Final, "it does not say where");
    }

    #[test]
    fn waits_grow_and_end_with_the_patience() {
        let patience = Duration::from_secs(60);
        let mut budget = Budget::new(patience, 7);
        let waits = std::iter::from_fn(|| budget.wait(Duration::ZERO, None, None)).collect::<Vec<_>>();
        assert!(waits.iter().sum::<Duration>() <= patience);
        assert!(waits[0] >= WAIT_MIN / 2 && waits[0] <= WAIT_MIN);
        assert!(waits.iter().all(|wait| *wait <= WAIT_MAX));
        assert!(waits.len() > 8, "{waits:?}");
        // Jitter takes at most half of one, and two doublings make four of it.
        assert!(waits[..7].windows(3).all(|three| three[2] > three[0]), "{waits:?}");
    }

    #[test]
    fn what_an_attempt_took_counts_and_what_went_on_begins_anew() {
        let mut budget = Budget::new(Duration::from_secs(60), 7);
        assert!(budget.wait(Duration::from_secs(50), None, None).is_some());
        assert!(budget.wait(Duration::from_secs(50), None, None).is_none());
        budget.refill();
        assert!(budget.wait(Duration::from_secs(50), None, None).is_some());
    }

    #[test]
    fn what_the_store_says_is_heeded_and_not_longer_than_the_patience() {
        let mut budget = Budget::new(Duration::from_secs(60), 7);
        let told = Some(Duration::from_secs(30));
        assert_eq!(budget.wait(Duration::ZERO, told, None), told);
        assert_eq!(budget.wait(Duration::ZERO, Some(Duration::from_secs(3600)), None), None);
        let mut budget = Budget::new(Duration::from_secs(3600), 7);
        assert_eq!(budget.wait(Duration::ZERO, Some(Duration::from_secs(1800)), None), Some(TOLD_MAX));
    }

    #[test]
    fn a_store_that_never_answered_is_asked_three_times_and_others_for_all_of_the_patience() {
        let mut budget = Budget::new(Duration::MAX, 7);
        let attempts_max = Some(ATTEMPTS_UNKNOWN_MAX);
        assert_eq!(std::iter::from_fn(|| budget.wait(Duration::ZERO, None, attempts_max)).count(), 2);
        assert_eq!(budget.attempts(), ATTEMPTS_UNKNOWN_MAX);
        let day = Duration::from_secs(24 * 3600);
        let mut budget = Budget::new(day, 7);
        let waited: Duration = std::iter::from_fn(|| budget.wait(Duration::ZERO, None, None)).sum();
        assert!(waited <= day && waited > day - WAIT_MAX, "{waited:?}");
    }
}
