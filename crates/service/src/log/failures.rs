//! How much of what comes to nothing is told.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_mover::mutex::lock;

/// Transfers and requests that came to nothing and are told in a minute, of one address, whatever tickets they came
/// with. Who has more of them hears of each; here they are counted.
pub(super) const FAILURES_A_MINUTE: u32 = 256;
const MINUTE: Duration = Duration::from_secs(60);

/// What came to nothing of late, by where it was asked from (`None`: no internet socket): a client that asks in vain as
/// fast as it can does not fill the log, in however many sessions.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<Option<IpAddr>, Failed>>);

#[derive(Debug)]
struct Failed {
    since: Instant,
    told: u32,
    left_out: u64,
}

impl Failures {
    /// Whether one more of theirs may be told, and counts it.
    pub(super) fn may_tell(&self, source: Option<IpAddr>, now: Instant) -> bool {
        let mut all = lock(&self.0);
        let failed = all.entry(source).or_insert(Failed { since: now, told: 0, left_out: 0 });
        if failed.told < FAILURES_A_MINUTE {
            failed.told += 1;
            return true;
        }
        failed.left_out += 1;
        false
    }

    /// Tells how many were left out of those whose minute is over. Call it a few times a minute.
    pub fn tidy(&self, now: Instant) {
        lock(&self.0).retain(|source, failed| {
            let is_over = now.saturating_duration_since(failed.since) >= MINUTE;
            if is_over && failed.left_out > 0 {
                tracing::warn!(
                    address = source.map(tracing::field::display),
                    left_out = failed.left_out,
                    "failures of one minute were not told"
                );
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Line;
    use crate::log::tests::line_of;
    use std::net::SocketAddr;
    use thalweg_mover::link::Fingerprint;

    #[test]
    fn what_fails_as_fast_as_it_can_be_asked_for_is_told_a_bounded_number_of_times() {
        let (failures, now) = (Failures::default(), Instant::now());
        let told = |source: Option<IpAddr>, times: u32| {
            (0..times).filter(|_| failures.may_tell(source, now)).count() as u32
        };
        // In another session with another ticket, and from another address.
        let from = |last: u8, (session, client): (&str, u8)| {
            let address = Some(SocketAddr::from(([10, 0, 0, last], 1000 + u16::from(last))));
            let (session, client) = (session.to_owned(), Fingerprint([client; 32]));
            Line { address, session, client, ..line_of("read", "data/a".to_owned()) }.source()
        };
        let (one, again, other) = (from(1, ("one", 1)), from(1, ("again", 2)), from(2, ("one", 1)));
        assert_eq!(told(one, 10_000), FAILURES_A_MINUTE);
        assert_eq!((told(again, 3), told(other, 3)), (0, 3));
        // Those without an address are one as well, and nobody else.
        let nowhere = line_of("read", "data/a".to_owned()).source();
        assert_eq!((nowhere, told(nowhere, 10_000)), (None, FAILURES_A_MINUTE));
        failures.tidy(now + MINUTE / 2);
        assert_eq!(told(one, 1), 0);
        failures.tidy(now + MINUTE);
        assert_eq!(told(one, 10_000), FAILURES_A_MINUTE);
    }
}
