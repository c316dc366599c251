//! Guests for whom a client vouched: who vouches, and what is asked for then.

use super::Host;
use crate::log::of_session;
use crate::tickets::{Vouched, vouches_for_nobody};
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
    pub(super) fn has_vouched(&self, session: &Session) -> bool {
        self.tickets.get().is_some_and(|tickets| tickets.has_vouched(session))
    }

    /// Refuses a guest all but its copy.
    ///
    /// # Errors
    /// `Permission`.
    pub(super) fn check_guest(&self, session: &Session, open: &Open) -> Result<()> {
        vouched_of(session).map_or(Ok(()), |guest| guest.check(open))
    }

    /// Refuses a guest all questions but what the server is.
    ///
    /// # Errors
    /// `Permission`.
    pub(crate) fn check_guest_question(&self, session: &Session, question: &Question) -> Result<()> {
        match question {
            Question::About => Ok(()),
            _ => vouched_of(session).map_or(Ok(()), |guest| Err(guest.refusal())),
        }
    }
}

/// The guest that the client of this session is, if somebody vouched for it, also after that is over.
fn vouched_of(session: &Session) -> Option<&Vouched> {
    session.kept_of_ticket()
}

/// The certificate of who is behind this session: of a guest that of who vouched for it.
pub(super) fn whose(session: &Session) -> Fingerprint {
    vouched_of(session).map_or(session.peer, Vouched::of)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cut_off, cut_off_of};
    use super::super::{By, HostLimits, Origin};
    use super::*;
    use crate::export::{Export, Exports};
    use crate::tickets::{self, Part, Reach, Record, Tickets};
    use thalweg_mover::failure::FailureKind;
    use thalweg_mover::link::{Identity, Register};
    use thalweg_sys::clock::unix_seconds;
    use thalweg_wire::message::{FilterRule, Place, Pull, Push, Request, Terms, TransferNumber};

    const GUEST: [u8; 32] = [1; 32];
    const BOB: [u8; 32] = [9; 32];

    fn place(path: &[u8]) -> Place {
        Place { export: Some("data".to_owned()), path: path.to_vec() }
    }

    fn vouch(certificate: [u8; 32], write: bool) -> Vouch {
        let (places, at) = (vec![place(b"x")], "a:8487".to_owned());
        let request = match write {
            true => Request::Push(Push::to(place(b"x"))),
            false => Request::Pull(Pull::of(vec![place(b"x")])),
        };
        let deed = opens(request, terms()).deed().expect("it is about files");
        Vouch { certificate, places, write, deed, seconds: 60, at }
    }

    fn terms() -> Terms {
        Terms { delete_max: Some(7), update: true, ..Terms::of(1 << 20, 1 << 16) }
    }

    fn opens(request: Request, terms: Terms) -> Open {
        Open::of(TransferNumber(1), request, terms)
    }

    /// A daemon with two tickets, and a session of the holder of the first.
    fn stand(scratch: &tempfile::TempDir) -> (Arc<Host>, Arc<Session>, Arc<Tickets>) {
        stand_within(scratch, HostLimits::default())
    }

    /// The same, within these bounds.
    fn stand_within(
        scratch: &tempfile::TempDir,
        limits: HostLimits,
    ) -> (Arc<Host>, Arc<Session>, Arc<Tickets>) {
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]);
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports.expect("a directory"), None, limits);
        let session = cut_off(&host, 1);
        for (name, certificate) in [("alice", session.peer), ("bob", Fingerprint(BOB))] {
            tickets::add(scratch.path(), &Record::of(name, certificate, 1)).expect("a ticket");
        }
        let tickets = Tickets::new(scratch.path(), Fingerprint([0; 32]));
        host.heed(tickets.clone());
        (host, session, tickets)
    }

    /// A session of the guest with this certificate, as one begins.
    fn come(host: &Arc<Host>, tickets: &Tickets, certificate: [u8; 32]) -> Arc<Session> {
        let peer = Fingerprint(certificate);
        let vouched = tickets.vouched(&peer).expect("a guest");
        let session = cut_off_of(host, 2, peer);
        let ticket = host.ticket_of(By::Vouched(&vouched)).expect("its rights").expect("there are tickets");
        host.begin_as_guest(&session, &ticket, vouched);
        session
    }

    #[test]
    fn a_guest_has_the_rights_of_who_vouched_for_it_while_the_session_of_that_lasts() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, session, tickets) = stand(&scratch);
        let peer = Fingerprint(GUEST);
        assert!(!tickets.knows(&peer) && tickets.vouched(&peer).is_none());
        host.vouch(&session, vouch(GUEST, false)).expect("a guest");
        assert!(tickets.knows(&peer) && tickets.take(&peer, 2).is_err(), "it is no ticket");
        let guest = come(&host, &tickets, GUEST);
        assert_eq!(guest.ticket(), Some("alice, by a:8487"));
        assert_eq!(tickets::holder_of(&guest).as_deref(), Some("alice"), "nothing else is counted under");
        assert!(whose(&guest) == session.peer && host.has_vouched(&session));
        assert!(host.exports_of(&guest).is_ok() && host.ends_for_ticket(&guest).is_none());
        let refused = host.vouch(&guest, vouch([4; 32], false)).expect_err("a guest vouches for nobody");
        assert_eq!(refused.kind, FailureKind::Permission, "{refused}");
        // Revoked is revoked.
        tickets::revoke(scratch.path(), "alice", 3).expect("it is written");
        let why = host.ends_for_ticket(&guest).expect("it ends");
        assert!(why.cause.contains("`alice` was revoked"), "{why}");
        session.close(None);
        assert!(tickets.vouched(&peer).is_none() && !tickets.knows(&peer) && !host.has_vouched(&session));
        let why = host.ends_for_ticket(&guest).expect("it is over");
        assert!(why.cause.contains("not connected any more"), "{why}");
        // Somebody else's word does not bring back what it had.
        let bob = cut_off_of(&host, 3, Fingerprint(BOB));
        host.vouch(&bob, vouch(GUEST, false)).expect("another guest");
        assert!(host.exports_of(&guest).is_err() && host.ends_for_ticket(&guest).is_some());
    }

    /// Who came with a token has another's rights with the same key in another session.
    #[test]
    fn a_guest_has_what_the_token_of_that_session_gave_in_which_it_was_vouched_for() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, _, tickets) = stand(&scratch);
        let now = unix_seconds();
        let token = |below: &str| {
            let part = Part { below: below.to_owned(), ..Part::read("data").expect("a part") };
            let mut record = Record::of("carol@iam", Fingerprint([5; 32]), now);
            (record.reach, record.expires_at) = (Reach::Only(vec![part]), Some(now + 600));
            record.issuer = Some("https://iam.example.org/".to_owned());
            tickets.welcome(record, now)
        };
        let begun = |id: u8, below: &str| {
            std::fs::create_dir(scratch.path().join(below)).expect("a directory");
            let session = cut_off_of(&host, id, Fingerprint([5; 32]));
            let guest = token(below);
            host.begin_with(&session, &guest.record(), Some(guest));
            session
        };
        let (one, two) = (begun(4, "run1"), begun(5, "run2"));
        let beneath = |certificate: [u8; 32], voucher: &Arc<Session>| {
            host.vouch(voucher, vouch(certificate, true)).expect("a guest");
            let guest = come(&host, &tickets, certificate);
            host.exports_of(&guest)
                .and_then(|exports| exports.resolve(&place(b"x"), true))
                .map(|place| place.beneath)
        };
        assert_eq!(beneath([6; 32], &one).as_deref(), Ok("run1"));
        assert_eq!(beneath([8; 32], &two).as_deref(), Ok("run2"));
        let refused = host.vouch(&one, vouch([5; 32], true)).expect_err("somebody came with it");
        assert_eq!(refused.kind, FailureKind::Conflict, "{refused}");
    }

    /// Else the copy of its guest would end whenever somebody comes to a daemon that is full.
    #[test]
    fn a_session_that_vouched_makes_no_room_for_another_while_its_link_is_lost() {
        let scratch = tempfile::tempdir().expect("a directory");
        let limits = HostLimits { sessions: 1, ..HostLimits::default() };
        let (host, session, tickets) = stand_within(&scratch, limits);
        host.vouch(&session, vouch(GUEST, false)).expect("a guest");
        host.sessions().insert(session.id, session.clone());
        let other = Origin { client: Fingerprint(BOB), source: None };
        assert!(host.take_session(&other).is_none(), "it made room");
        assert!(!session.is_closed() && tickets.vouched(&Fingerprint(GUEST)).is_some());
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
        // Nor by many sessions.
        let certificate = |number: usize| {
            let mut certificate = [0xee; 32];
            certificate[..8].copy_from_slice(&number.to_le_bytes());
            certificate
        };
        let others: Vec<_> = (3..103).map(|id| cut_off(&host, id)).collect();
        let vouched = others.iter().enumerate().flat_map(|(at, other)| {
            let (host, of_each) = (&host, thalweg_wire::limits::TRANSFERS_MAX);
            let numbers = (0..of_each).map(move |number| at * of_each + number);
            numbers.filter(move |number| host.vouch(other, vouch(certificate(*number), false)).is_ok())
        });
        assert_eq!(vouched.count() + thalweg_wire::limits::TRANSFERS_MAX, 256);
        let bob = cut_off_of(&host, 200, Fingerprint(BOB));
        host.begin_with(&bob, &Record::of("bob", Fingerprint(BOB), 1), None);
        host.vouch(&bob, vouch([0xdd; 32], false)).expect("the rest is for others");
    }

    #[test]
    fn a_guest_is_refused_all_but_its_copy() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (host, session, tickets) = stand(&scratch);
        let is_let_by = |write: bool, request: Request, terms: Terms| {
            let certificate = [if write { 2 } else { 3 }; 32];
            let _ = host.vouch(&session, vouch(certificate, write));
            let guest = tickets.vouched(&Fingerprint(certificate)).expect("a guest");
            guest.check(&opens(request, terms)).is_ok()
        };
        let is_let = |write: bool, request: Request, removes: bool| {
            is_let_by(write, request, Terms { removes_source: removes, ..terms() })
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
        // What nobody asked for is neither deleted nor replaced, and what was left out is not read.
        let further: [fn(&mut Terms); 4] = [
            |terms| terms.delete_max = Some(u64::MAX),
            |terms| terms.delete_max = None,
            |terms| terms.update = false,
            |terms| terms.dry_run = true,
        ];
        for change in further {
            let mut other = terms();
            change(&mut other);
            assert!(!is_let_by(true, push(b"x"), other.clone()), "{other:?}");
            assert!(!is_let_by(false, pull(b"x"), other.clone()), "{other:?}");
        }
        let filter = vec![FilterRule { include: false, pattern: "*".to_owned() }];
        let spares = Push { filter: filter.clone(), ..Push::to(place(b"x")) };
        assert!(!is_let(true, Request::Push(spares), false), "what is spared when it deletes");
        let chosen = Pull { filter, ..Pull::of(vec![place(b"x")]) };
        assert!(!is_let(false, Request::Pull(chosen), false), "another choice");
    }
}
