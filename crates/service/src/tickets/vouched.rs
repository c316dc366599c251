//! Guests that were vouched for: who is let in besides the holder of a ticket, or of a token, for one copy of what that
//! may do itself. The holder vouches for them in a session, and they end with it. They are kept in memory alone.

use super::SERVE;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::Session;
use thalweg_wire::limits;
use thalweg_wire::message::{Open, Place, Request, Vouch};
use thalweg_wire::path::Escaped;

/// Guests of one session: as many as a command has copies.
const OF_SESSION_MAX: usize = limits::TRANSFERS_MAX;
/// Guests of a daemon.
const GUESTS_MAX: usize = 1024;
/// Of these for whom the holder of one ticket vouched, in however many sessions.
const OF_HOLDER_MAX: usize = GUESTS_MAX / 4;
const VOUCH: &str = "vouch for a guest";

/// One of them.
#[derive(Debug)]
pub(crate) struct Vouched {
    vouch: Vouch,
    /// The certificate of who vouched for it.
    of: Fingerprint,
    voucher: Weak<Session>,
    until: Instant,
}

impl Vouched {
    /// Whose rights it has some of.
    pub fn of(&self) -> Fingerprint {
        self.of
    }

    /// The session of that one, whose rights those are; `None` if it is over, and the guest with it.
    pub fn voucher(&self) -> Option<Arc<Session>> {
        let is_in_time = Instant::now() < self.until;
        self.voucher.upgrade().filter(|session| is_in_time && !session.is_closed())
    }

    /// What people are told of its ticket: the name of that, and where it acts.
    pub fn told(&self, ticket: &str) -> String {
        format!("{ticket}{}", self.acts_at())
    }

    fn acts_at(&self) -> String {
        format!(", by {}", Escaped(self.vouch.at.as_bytes()))
    }

    fn lives(&self) -> bool {
        self.voucher().is_some()
    }

    /// Refuses all but the copy that it was vouched for.
    ///
    /// # Errors
    /// `Permission`.
    pub fn check(&self, open: &Open) -> Result<()> {
        let is_served = match &open.request {
            Request::Push(push) => self.vouch.write && push.trial.is_none() && self.has(&push.place),
            Request::Pull(pull) => {
                !self.vouch.write && pull.trial.is_none() && pull.places.iter().all(|place| self.has(place))
            }
            Request::FlowPush { .. } | Request::FlowPull { .. } | Request::Frames { .. } => false,
        };
        let is_asked = open.deed().is_ok_and(|deed| deed == self.vouch.deed);
        if is_served && is_asked && !open.terms.removes_source { Ok(()) } else { Err(self.refusal()) }
    }

    fn has(&self, place: &Place) -> bool {
        self.vouch.places.contains(place)
    }

    /// What else it asks for is refused so.
    pub fn refusal(&self) -> Failure {
        let what = if self.vouch.write { "into" } else { "from" };
        let cause = format!(
            "a guest is let in for one copy alone, {what} what it was vouched for, and as its client asked for it"
        );
        Failure::new(FailureKind::Permission, "open", cause)
    }
}

/// All of a daemon.
#[derive(Debug, Default)]
pub(super) struct AllVouched(Mutex<HashMap<Fingerprint, Arc<Vouched>>>);

impl AllVouched {
    /// Lets one in, for whom the client of this session vouches.
    ///
    /// # Errors
    /// `Busy` where there are too many; `Conflict` for one that is let in already.
    pub fn add(&self, session: &Arc<Session>, vouch: Vouch) -> Result<()> {
        let (now, voucher) = (Instant::now(), Arc::downgrade(session));
        let mut guests = lock(&self.0);
        guests.retain(|_, guest| guest.lives());
        let of_session = guests.values().filter(|guest| guest.voucher.ptr_eq(&voucher)).count();
        let is_theirs = |guest: &Vouched| {
            guest.voucher.upgrade().is_some_and(|voucher| have_one_holder(&voucher, session))
        };
        let of_holder = guests.values().filter(|guest| is_theirs(guest)).count();
        let are_too_many = of_session >= OF_SESSION_MAX || of_holder >= OF_HOLDER_MAX;
        if are_too_many || guests.len() >= GUESTS_MAX {
            return Err(Failure::new(FailureKind::Busy, VOUCH, "there are as many guests as there may be"));
        }
        let certificate = Fingerprint(vouch.certificate);
        if guests.contains_key(&certificate) {
            return Err(known());
        }
        let until = now + Duration::from_secs(u64::from(vouch.seconds));
        guests.insert(certificate, Arc::new(Vouched { vouch, of: session.peer, voucher, until }));
        Ok(())
    }

    /// The one with this certificate, if it is let in now.
    pub fn find(&self, certificate: &Fingerprint) -> Option<Arc<Vouched>> {
        let guest = lock(&self.0).get(certificate).cloned();
        guest.filter(|guest| guest.lives())
    }

    /// Forgets those that are over.
    pub fn tidy(&self) {
        let now = Instant::now();
        lock(&self.0).retain(|_, guest| now < guest.until && guest.voucher.strong_count() > 0);
    }

    /// Whether the client of this session vouched for somebody.
    pub fn has_of(&self, session: &Session) -> bool {
        let now = Instant::now();
        let is_of = |guest: &Arc<Vouched>| now < guest.until && ptr::eq(guest.voucher.as_ptr(), session);
        !session.is_closed() && lock(&self.0).values().any(is_of)
    }
}

/// Name of the ticket of the client of this session alone, without what a client chose: of a guest that of who vouched
/// for it.
pub(crate) fn holder_of(session: &Session) -> Option<String> {
    let told = session.ticket()?;
    let guest = session.kept_of_ticket::<Vouched>();
    let name = guest.map_or(Some(told), |guest| told.strip_suffix(&guest.acts_at()));
    name.map(str::to_owned)
}

/// Whether the clients of both have one ticket, or came with tokens that give one name; without tickets whether they
/// have one certificate.
pub(crate) fn have_one_holder(one: &Session, other: &Session) -> bool {
    match (holder_of(one), holder_of(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.peer.matches(&other.peer),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Somebody has this certificate, as a ticket, with a token, or as a guest.
pub(super) fn known() -> Failure {
    Failure::new(FailureKind::Conflict, VOUCH, "this certificate is let in already")
}

/// A guest is one as long as the session lasts of who vouched for it.
pub(crate) fn over() -> Failure {
    let cause = "a guest has the rights of the holder of a ticket who vouched for it: that one is not connected any more, or \
                 did so too long ago";
    Failure::new(FailureKind::Permission, SERVE, cause)
}

/// Nobody is vouched for by a guest, or where there are no tickets.
pub(crate) fn vouches_for_nobody() -> Failure {
    Failure::new(FailureKind::Permission, SERVE, "only who has a ticket of this daemon vouches for guests")
}
