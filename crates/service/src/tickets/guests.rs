//! Who came with a token: what each may do until it ends. In memory alone: to a daemon that is started anew everybody
//! shows the token again.
//!
//! Tokens of one holder that give the same, shown with one certificate, are one guest, until the last of them ends. One
//! that gives other things makes another guest beside it: a session has what that token gave with which it began.
//!
//! Where the rules become others, a guest goes to whom they give something else or nothing: [`Guests::go_by`]. What is
//! under way ends then as with a ticket that was revoked, and the same command may show its token again.

use super::issuers::{Given, Issuers, NotTaken};
use super::{GRACE_S, Record};
use crate::counts;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;
use thalweg_wire::hello::Answer;

/// Guests that are kept.
const GUESTS_MAX: usize = 16_384;
/// Of these, of one holder: machines from which one works at a time.
const GUESTS_PER_HOLDER_MAX: usize = 4096;

/// One of them. Whoever has a clone needs it: a session, or who is about to begin one.
#[derive(Debug)]
pub(crate) struct Guest {
    certificate: Fingerprint,
    name: String,
    /// By the token that ends last.
    given: Mutex<Arc<Given>>,
    /// Which token was the last, of all that were shown.
    shown: AtomicU64,
    /// By which rules it was given that, or has it still.
    rules: AtomicU64,
}

impl Guest {
    /// What may be done.
    pub(crate) fn record(&self) -> Arc<Record> {
        lock(&self.given).record.clone()
    }

    /// Another token that gives the same; one that ends earlier takes nothing back.
    fn renew(&self, given: Given, shown: u64) {
        self.shown.store(shown, Ordering::Relaxed);
        let mut last = lock(&self.given);
        if given.record.expires_at > last.record.expires_at {
            *last = Arc::new(given);
        }
    }

    fn is_given(&self, record: &Record) -> bool {
        lock(&self.given).record.gives_as(record)
    }

    /// Whether these give it what it has.
    fn has_of(&self, issuers: Option<&Issuers>) -> bool {
        let given = lock(&self.given).clone();
        issuers.is_some_and(|issuers| issuers.still_give(&given))
    }

    fn revoke(&self, now: u64) {
        let mut given = lock(&self.given);
        let record = Record { revoked_at: Some(now), ..(*given.record).clone() };
        *given = Arc::new(Given { record: Arc::new(record), claims: None });
    }

    /// Well after what ran with it has ended with words.
    fn is_over(&self, now: u64) -> bool {
        lock(&self.given).record.expires_at.is_some_and(|at| now >= at.saturating_add(2 * GRACE_S))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    by_certificate: HashMap<Fingerprint, Vec<Arc<Guest>>>,
    /// How many there are of each holder.
    holders: HashMap<String, usize>,
    /// Tokens that were shown.
    shown: u64,
    /// Which rules are those of now, of all that there were.
    rules: u64,
}

impl Guests {
    /// Whether anybody came with this certificate.
    pub(super) fn knows(&self, certificate: &Fingerprint) -> bool {
        lock(&self.0).by_certificate.contains_key(certificate)
    }

    /// One more, or another token of the same. Where there are too many, who has no session and showed a token least
    /// lately has to show one again. `None` if the rules that gave this count no more: that is asked with the lock, so
    /// that [`Guests::go_by`] looks at everybody who came by older ones.
    ///
    /// # Errors
    /// Where all of these have sessions.
    pub(super) fn welcome(
        &self,
        given: Given,
        now: u64,
        is_current: impl FnOnce() -> bool,
    ) -> std::result::Result<Option<Arc<Guest>>, NotTaken> {
        let mut all = lock(&self.0);
        if !is_current() {
            return Ok(None);
        }
        all.shown += 1;
        let shown = all.shown;
        let record = &given.record;
        let theirs = all.by_certificate.get(&record.certificate);
        // One that has it by older rules may be about to lose it.
        let (rules, is_alike) = (all.rules, |guest: &&Arc<Guest>| guest.is_given(record));
        let is_of_now = |guest: &&Arc<Guest>| guest.rules.load(Ordering::Relaxed) == rules;
        let guest = theirs.and_then(|guests| guests.iter().filter(is_of_now).find(is_alike));
        if let Some(guest) = guest {
            guest.renew(given, shown);
            return Ok(Some(guest.clone()));
        }
        if !all.make_room(&record.name, now) {
            let why = format!("`{}`: too many came with tokens, or with those of one holder", record.name);
            return Err(NotTaken { answer: Answer::TokenUnchecked, why });
        }
        let (certificate, name) = (record.certificate, record.name.clone());
        *all.holders.entry(name.clone()).or_default() += 1;
        let (given, shown, rules) =
            (Mutex::new(Arc::new(given)), AtomicU64::new(shown), AtomicU64::new(rules));
        let guest = Arc::new(Guest { certificate, name, given, shown, rules });
        all.by_certificate.entry(certificate).or_default().push(guest.clone());
        Ok(Some(guest))
    }

    /// As if a token had been shown that gives this, whatever the rules are.
    #[cfg(test)]
    pub(super) fn come(&self, record: Record, now: u64) -> std::result::Result<Arc<Guest>, NotTaken> {
        let given = Given { record: Arc::new(record), claims: None };
        Ok(self.welcome(given, now, || true)?.expect("by what is given now"))
    }

    /// Takes back what these rules do not give so any more (without rules all of it), and says how many guests had it.
    /// They have to count before this is called. It may take a second where both are many: who comes does not wait.
    pub(super) fn go_by(&self, issuers: Option<&Issuers>, now: u64) -> usize {
        let (guests, rules) = {
            let mut all = lock(&self.0);
            all.rules += 1;
            (all.by_certificate.values().flatten().cloned().collect::<Vec<Arc<Guest>>>(), all.rules)
        };
        let (stay, gone): (Vec<_>, Vec<_>) = guests.into_iter().partition(|guest| guest.has_of(issuers));
        stay.iter().for_each(|guest| guest.rules.store(rules, Ordering::Relaxed));
        let mut all = lock(&self.0);
        for guest in &gone {
            guest.revoke(now);
            all.remove(guest);
        }
        gone.len()
    }
}

impl All {
    /// Whether there is room for one more of this holder.
    fn make_room(&mut self, holder: &str, now: u64) -> bool {
        if self.of_too_many(holder).is_none() {
            return true;
        }
        let over: Vec<Arc<Guest>> = self.idle().filter(|guest| guest.is_over(now)).cloned().collect();
        over.iter().for_each(|guest| self.remove(guest));
        let Some(of) = self.of_too_many(holder) else { return true };
        let theirs = self.idle().filter(|guest| guest.name == of);
        let Some(oldest) = theirs.min_by_key(|guest| guest.shown.load(Ordering::Relaxed)).cloned() else {
            return false;
        };
        self.remove(&oldest);
        true
    }

    /// Of whom one has to go before there is one more of this holder: of that one, or of who has most where all are too
    /// many.
    fn of_too_many(&self, holder: &str) -> Option<String> {
        if self.holders.get(holder).is_some_and(|&theirs| theirs >= GUESTS_PER_HOLDER_MAX) {
            return Some(holder.to_owned());
        }
        let most = self.holders.iter().max_by_key(|&(_, &theirs)| theirs);
        most.filter(|_| self.holders.values().sum::<usize>() >= GUESTS_MAX).map(|(name, _)| name.clone())
    }

    /// Those that nobody else has.
    fn idle(&self) -> impl Iterator<Item = &Arc<Guest>> {
        self.by_certificate.values().flatten().filter(|&guest| Arc::strong_count(guest) == 1)
    }

    /// One that went meanwhile is not counted twice.
    fn remove(&mut self, gone: &Arc<Guest>) {
        let Some(guests) = self.by_certificate.get_mut(&gone.certificate) else { return };
        let Some(at) = guests.iter().position(|guest| Arc::ptr_eq(guest, gone)) else { return };
        guests.remove(at);
        if guests.is_empty() {
            self.by_certificate.remove(&gone.certificate);
        }
        counts::less(&mut self.holders, &gone.name, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Part, Reach};
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn guest(name: &str, number: u32) -> Record {
        let mut certificate = [0; 32];
        certificate[..4].copy_from_slice(&number.to_be_bytes());
        Record { expires_at: Some(NOW), ..Record::of(name, Fingerprint(certificate), NOW - 1) }
    }

    fn most() -> u32 {
        u32::try_from(GUESTS_PER_HOLDER_MAX).unwrap()
    }

    #[test]
    fn one_holder_has_no_more_than_a_part_of_what_is_kept_and_what_is_over_goes() {
        let guests = Guests::default();
        let knows = |number: u32| guests.knows(&guest("", number).certificate);
        let came = |number: u32| guests.come(guest("alice@iam", number), NOW - 1);
        let mut at_work: Vec<_> = (0..most()).map(|number| came(number).unwrap()).collect();
        let refused = came(most()).unwrap_err();
        assert!(refused.why.contains("alice@iam"), "all have sessions: {refused:?}");
        assert!(came(0).is_ok(), "another token of the same");
        assert!(guests.come(guest("bob@iam", most()), NOW - 1).is_ok());
        // Of those without a session that goes which was shown first.
        at_work.drain(..3);
        came(0).unwrap();
        came(most() + 1).unwrap();
        assert!(knows(0) && !knows(1) && knows(2) && knows(most()) && knows(most() + 1));
        drop(at_work);
        assert!(guests.come(guest("alice@iam", most() + 2), NOW + 2 * GRACE_S).is_ok());
        assert!(!knows(0) && !knows(2) && knows(most() + 2), "what is over goes");
    }

    /// Whoever shows a token while the rules become others has what it gives by the new ones, whatever becomes of those
    /// who came before.
    #[test]
    fn who_comes_by_other_rules_is_not_taken_for_one_who_came_by_those_before() {
        let guests = Guests::default();
        let came = || guests.come(guest("alice@iam", 1), NOW - 1).unwrap();
        let before = came();
        assert!(Arc::ptr_eq(&before, &came()));
        lock(&guests.0).rules += 1;
        let behind = came();
        assert!(!Arc::ptr_eq(&before, &behind) && Arc::ptr_eq(&behind, &came()));
    }

    #[test]
    fn where_all_are_too_many_one_goes_of_who_has_most() {
        let guests = Guests::default();
        let knows = |number: u32| guests.knows(&guest("", number).certificate);
        let others = (u32::try_from(GUESTS_MAX).unwrap() - most()) / 4;
        let came = |name: &str, number: u32| drop(guests.come(guest(name, number), NOW - 1).unwrap());
        (0..most()).for_each(|number| came("alice@iam", number));
        for (number, at) in (most()..most() + 4 * others).zip(0u32..) {
            came(&format!("{}@iam", at % 4), number);
        }
        let last = most() + 4 * others;
        assert!((0..last).all(knows), "there is room for all of these");
        came("eve@iam", last);
        assert!(!knows(0) && (1..=last).all(knows));
    }

    #[test]
    fn a_token_that_gives_the_same_has_it_last_longer_and_one_that_gives_other_things_is_another_guest() {
        let guests = Guests::default();
        let below = |below: &str, until: u64| {
            let part = Part { below: below.to_owned(), ..Part::read("data").unwrap() };
            let record = Record { reach: Reach::Only(vec![part]), ..guest("alice@iam", 1) };
            guests.come(Record { expires_at: Some(until), ..record }, NOW - 1).unwrap()
        };
        let one = below("run1", NOW);
        let two = below("run2", NOW + 600);
        assert_eq!((one.record().expires_at, two.record().expires_at), (Some(NOW), Some(NOW + 600)));
        assert_ne!(one.record().reach, two.record().reach);
        assert!(Arc::ptr_eq(&one, &below("run1", NOW + 1200)));
        assert!(Arc::ptr_eq(&one, &below("run1", NOW + 60)));
        assert_eq!(one.record().expires_at, Some(NOW + 1200), "one that ends earlier takes nothing back");
        let like_one = || Record { expires_at: Some(NOW + 9000), ..(*one.record()).clone() };
        for other in [
            Record { name: "bob@iam".to_owned(), ..like_one() },
            Record { bits_per_s_max: Some(8), ..like_one() },
        ] {
            assert!(!Arc::ptr_eq(&one, &guests.come(other, NOW - 1).unwrap()));
        }
        assert_eq!(one.record().expires_at, Some(NOW + 1200));
    }
}
