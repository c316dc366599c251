//! What is let in besides who has a ticket: who vouches, and what is asked for then.

use super::Host;
use crate::log::of_session;
use crate::tickets::{Guest, vouches_for_nobody};
use std::sync::Arc;
use thalweg_mover::failure::Result;
use thalweg_mover::link::Fingerprint;
use thalweg_mover::run::session::Session;
use thalweg_wire::message::{Open, Question, Vouch};

impl Host {
    /// Lets a guest in, for whom the client of this session vouches.
    ///
    /// # Errors
    /// `Permission` where there are no tickets, or that client is a guest itself; as [`Exports::resolve`] for what is
    /// not its own to share; else as `Tickets::vouch`.
    ///
    /// [`Exports::resolve`]: crate::export::Exports::resolve
    pub(crate) fn vouch(&self, session: &Arc<Session>, vouch: Vouch) -> Result<()> {
        let tickets = self.tickets.get().ok_or_else(vouches_for_nobody)?;
        let exports = self.exports_of(session)?;
        // What may be done there is looked at when the guest asks.
        vouch.places.iter().try_for_each(|place| exports.resolve(place, false).map(drop))?;
        let (guest, writes) = (Fingerprint(vouch.certificate), vouch.write);
        tickets.vouch(session, vouch)?;
        of_session!(info, session, %guest, writes, "a guest is vouched for");
        Ok(())
    }

    /// Whether the client of this session vouched for somebody, who comes in its stead.
    pub(super) fn has_guests_of(&self, session: &Session) -> bool {
        self.tickets.get().is_some_and(|tickets| tickets.has_guests_of(session))
    }

    /// The certificate of the ticket that the client of this session has, or a guest's of who vouched for it.
    pub(super) fn whose(&self, session: &Session) -> Fingerprint {
        self.tickets.get().map_or(session.peer, |tickets| tickets.whose(&session.peer))
    }

    /// The guest that the client of this session is, if it is one.
    pub(super) fn guest(&self, session: &Session) -> Option<Arc<Guest>> {
        self.tickets.get()?.guest(&session.peer)
    }

    /// Refuses a guest all but its copy.
    ///
    /// # Errors
    /// `Permission`.
    pub(super) fn check_guest(&self, session: &Session, open: &Open) -> Result<()> {
        self.guest(session).map_or(Ok(()), |guest| guest.check(open))
    }

    /// Refuses a guest all questions but what the server is.
    ///
    /// # Errors
    /// `Permission`.
    pub(crate) fn check_guest_question(&self, session: &Session, question: &Question) -> Result<()> {
        match question {
            Question::About => Ok(()),
            _ => self.guest(session).map_or(Ok(()), |guest| Err(guest.refusal())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostLimits;
    use super::super::tests::cut_off;
    use super::*;
    use crate::export::{Export, Exports};
    use crate::tickets::{self, Record, Tickets};
    use thalweg_mover::failure::FailureKind;
    use thalweg_mover::link::Identity;
    use thalweg_wire::message::{Place, Pull, Push, Request, Terms, TransferNumber};

    const GUEST: [u8; 32] = [1; 32];
    const BOB: [u8; 32] = [9; 32];

    fn place(path: &[u8]) -> Place {
        Place { export: Some("data".to_owned()), path: path.to_vec() }
    }

    fn vouch(certificate: [u8; 32], write: bool) -> Vouch {
        let (places, at) = (vec![place(b"x")], "a:8487".to_owned());
        Vouch { certificate, places, write, follow_links: false, seconds: 60, at }
    }

    /// A daemon with two tickets, and a session of the holder of the first.
    fn stand(scratch: &tempfile::TempDir) -> (Arc<Host>, Arc<Session>, Arc<Tickets>) {
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]);
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports.expect("a directory"), None, HostLimits::default());
        let session = cut_off(&host, 1);
        for (name, certificate) in [("alice", session.peer), ("bob", Fingerprint(BOB))] {
            tickets::add(scratch.path(), &Record::of(name, certificate, 1)).expect("a ticket");
        }
        let tickets = Tickets::new(scratch.path(), Fingerprint([0; 32]));
        host.heed(tickets.clone());
        (host, session, tickets)
    }

    #[test]
    fn a_guest_has_the_rights_of_who_vouched_for_it_while_the_session_of_that_lasts() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, session, tickets) = stand(&scratch);
        let guest = Fingerprint(GUEST);
        assert!(tickets.take(&guest, 2).is_err());
        host.vouch(&session, vouch(GUEST, false)).expect("a guest");
        assert_eq!(tickets.take(&guest, 2).expect("alice's ticket").name, "alice");
        assert!(host.has_guests_of(&session));
        // Revoked is revoked.
        tickets::revoke(scratch.path(), "alice", 3).expect("it is written");
        assert!(tickets.ends(&guest, 4).is_some_and(|why| why.cause.contains("`alice` was revoked")));
        session.close(None);
        assert!(tickets.guest(&guest).is_none() && !host.has_guests_of(&session));
        let why = tickets.ends(&guest, 2).expect("it is over");
        assert!(why.cause.contains("not known any more"), "{why}");
    }

    #[test]
    fn nobody_makes_a_guest_of_the_holder_of_a_ticket_or_vouches_for_many() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, session, tickets) = stand(&scratch);
        for known in [BOB, session.peer.0, [0; 32]] {
            let refused = host.vouch(&session, vouch(known, false)).expect_err("it has a ticket");
            assert_eq!(refused.kind, FailureKind::Conflict, "{refused}");
        }
        assert_eq!(tickets.take(&Fingerprint(BOB), 2).expect("bob's").name, "bob");
        let made = (10..200).take_while(|last| host.vouch(&session, vouch([*last; 32], false)).is_ok());
        assert_eq!(made.count(), thalweg_wire::limits::TRANSFERS_MAX);
    }

    #[test]
    fn a_guest_is_refused_all_but_its_copy() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, session, tickets) = stand(&scratch);
        let is_let = |write: bool, request: Request, removes: bool| {
            let certificate = [if write { 2 } else { 3 }; 32];
            let _ = host.vouch(&session, vouch(certificate, write));
            let terms = Terms { removes_source: removes, ..Terms::of(1 << 20, 1 << 16) };
            let guest = tickets.guest(&Fingerprint(certificate)).expect("a guest");
            guest.check(&Open::of(TransferNumber(1), request, terms)).is_ok()
        };
        let pull = |path: &[u8]| Request::Pull(Pull::of(vec![place(path)]));
        let push = |path: &[u8]| Request::Push(Push::to(place(path)));
        assert!(is_let(false, pull(b"x"), false) && is_let(true, push(b"x"), false));
        for path in [&b""[..], b"y", b"x/", b"x/../y", b"./x"] {
            assert!(!is_let(false, pull(path), false) && !is_let(true, push(path), false), "{path:?}");
        }
        assert!(!is_let(true, pull(b"x"), false) && !is_let(false, push(b"x"), false), "the other way");
        assert!(!is_let(false, pull(b"x"), true), "source files");
        let follows = Pull { follow_links: true, ..Pull::of(vec![place(b"x")]) };
        assert!(!is_let(false, Request::Pull(follows), false), "what links lead to");
    }
}
