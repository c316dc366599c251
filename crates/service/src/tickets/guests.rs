//! Who came with a token: what each may do until it ends, by the certificate that was shown with it. In memory alone:
//! to a daemon that is started anew everybody shows the token again.

use super::issuers::NotTaken;
use super::{GRACE_S, Record};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;
use thalweg_wire::hello::Answer;

/// Certificates that are kept.
const GUESTS_MAX: usize = 16_384;
/// Of these, of one holder: machines from which one works at a time.
const GUESTS_PER_HOLDER_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<HashMap<Fingerprint, Arc<Record>>>);

impl Guests {
    /// What the one with this certificate may do, or might.
    pub(super) fn find(&self, certificate: &Fingerprint) -> Option<Arc<Record>> {
        lock(&self.0).get(certificate).cloned()
    }

    /// One more, or another token of the same.
    ///
    /// # Errors
    /// Where there are too many.
    pub(super) fn welcome(&self, record: Record, now: u64) -> std::result::Result<Arc<Record>, NotTaken> {
        let mut all = lock(&self.0);
        let is_full = |all: &HashMap<Fingerprint, Arc<Record>>| {
            let theirs = all.values().filter(|guest| guest.name == record.name).count();
            all.len() >= GUESTS_MAX || theirs >= GUESTS_PER_HOLDER_MAX
        };
        if !all.contains_key(&record.certificate) && is_full(&all) {
            all.retain(|_, guest| !is_over(guest, now));
            if is_full(&all) {
                let why =
                    format!("`{}`: too many came with tokens, or with those of one holder", record.name);
                return Err(NotTaken { answer: Answer::TokenUnchecked, why });
            }
        }
        let record = Arc::new(record);
        all.insert(record.certificate, record.clone());
        Ok(record)
    }
}

/// Well after what ran with it has ended with words.
fn is_over(guest: &Record, now: u64) -> bool {
    guest.expires_at.is_some_and(|at| now >= at.saturating_add(2 * GRACE_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn guest(name: &str, number: u32) -> Record {
        let mut certificate = [0; 32];
        certificate[..4].copy_from_slice(&number.to_be_bytes());
        Record { expires_at: Some(NOW), ..Record::of(name, Fingerprint(certificate), NOW - 1) }
    }

    #[test]
    fn one_holder_has_no_more_than_a_part_of_what_is_kept_and_what_is_over_goes() {
        let guests = Guests::default();
        let most = u32::try_from(GUESTS_PER_HOLDER_MAX).unwrap();
        for number in 0..most {
            guests.welcome(guest("alice@iam", number), NOW - 1).unwrap();
        }
        let refused = guests.welcome(guest("alice@iam", most), NOW - 1).unwrap_err();
        assert!(refused.why.contains("alice@iam"), "{refused:?}");
        assert!(guests.welcome(guest("alice@iam", 0), NOW - 1).is_ok(), "another token of the same");
        assert!(guests.welcome(guest("bob@iam", most), NOW - 1).is_ok());
        assert!(guests.welcome(guest("alice@iam", most + 1), NOW + 2 * GRACE_S - 1).is_err());
        assert!(guests.welcome(guest("alice@iam", most + 1), NOW + 2 * GRACE_S).is_ok());
        assert!(guests.find(&guest("", 0).certificate).is_none());
    }
}
