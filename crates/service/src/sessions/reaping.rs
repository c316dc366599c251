//! Ends sessions that nobody comes back for, and puts away those that are over.

use super::{By, Host, HostLimits, Origin, by_of};
use crate::log::of_session;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::thread;
use thalweg_sys::clock::unix_seconds;

/// How long a session without link and transfers is kept.
const IDLE_PATIENCE: Duration = Duration::from_secs(10);
/// How long one without a link is kept with whose ticket nothing is begun any more: a link that broke may come back.
const REFUSED_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for what nobody comes back for.
const REAP_EVERY: Duration = Duration::from_millis(250);

impl Host {
    /// Does this every [`REAP_EVERY`], as long as there is a host.
    pub(crate) fn again_and_again(&self, name: &'static str, work: fn(&Host)) {
        let (host, again) = (self.this.clone(), self.this.clone());
        let go_on = move || {
            while let Some(host) = host.upgrade() {
                work(&host);
                drop(host);
                std::thread::sleep(REAP_EVERY);
            }
        };
        // What it panicked over may be gone by then.
        let on_panic = move |_: Failure| {
            std::thread::sleep(REAP_EVERY);
            if let Some(host) = again.upgrade() {
                host.again_and_again(name, work);
            }
        };
        if let Err(failure) = thread::guarded(name, on_panic, go_on) {
            tracing::error!(%failure, "nobody cleans up");
        }
    }

    pub(super) fn reap(&self) {
        self.narrow_beside_slots();
        self.leave(None);
        self.failures.tidy(Instant::now());
        self.end_all("the client did not come back", |session| {
            // With nothing under way, here or by a guest, there is nothing to come back for.
            let patience = match session.transfers().is_empty() && !self.has_vouched(session) {
                true => self.limits.patience.min(IDLE_PATIENCE),
                false => self.limits.patience,
            };
            session.is_put_away() || session.lost_since().is_some_and(|at| at.elapsed() > patience)
        });
    }

    /// Ends the sessions that are `gone`, each on a thread of its own: one whose disk stands still holds up no other.
    /// So many at a time as there may be sessions; the others stay for the next look.
    pub(super) fn end_all(&self, why: &str, is_gone: impl Fn(&Session) -> bool) {
        self.end_all_for(&Failure::new(FailureKind::Connection, "serve", why), is_gone);
    }

    /// Ends sessions whose clients have no ticket any more, and says why. Of a ticket with which nothing is begun those
    /// without a link end too: what its holder begins with another one would find them in its way. One that began with
    /// a token goes by what that gave, whatever else is shown with the same key; one of a guest by what who vouched for
    /// it may, as long as the session lasts in which that was done.
    pub(super) fn end_without_ticket(&self) {
        let Some(tickets) = self.tickets.get() else { return };
        tickets.tidy();
        let now = unix_seconds();
        let is_lost = |one: &Session| one.lost_since().is_some_and(|at| at.elapsed() > REFUSED_PATIENCE);
        // Of those with one ticket one is looked at: whether any is lost. Without the lock: files are.
        let mut peers: HashMap<Fingerprint, bool> = HashMap::new();
        for session in self.sessions_now() {
            let by = by_of(&session);
            if let By::Ticket(peer) = by {
                *peers.entry(*peer).or_default() |= is_lost(&session);
                continue;
            }
            let refused = || self.refuses(by).filter(|_| is_lost(&session));
            if let Some(why) = self.ends_of(by).or_else(refused) {
                self.end_all_for(&why, |one| std::ptr::eq(one, &*session));
            }
        }
        for (peer, any_lost) in peers {
            let is_theirs = |session: &Session| matches!(by_of(session), By::Ticket(own) if *own == peer);
            if let Some(why) = tickets.ends(&peer, now) {
                self.end_all_for(&why, is_theirs);
            } else if any_lost && let Some(why) = tickets.refuses(&peer, now) {
                self.end_all_for(&why, |session| is_theirs(session) && is_lost(session));
            }
        }
        // Last: this is what a disk that hangs holds up.
        tickets.look();
    }

    /// As [`Host::end_all`], for a reason that clients do not come back after.
    fn end_all_for(&self, failure: &Failure, is_gone: impl Fn(&Session) -> bool) {
        let mut gone = Vec::new();
        // One clone is ours.
        let mut room = (self.limits.sessions + 1).saturating_sub(Arc::strong_count(&self.closing));
        self.sessions().retain(|_, session| {
            let is_closed = session.is_closed();
            if !is_gone(session) || !is_closed && room == 0 {
                return true;
            }
            room -= usize::from(!is_closed);
            gone.push(session.clone());
            false
        });
        if !gone.is_empty() {
            *lock(&self.idle_since) = Instant::now();
        }
        let (closed, open): (Vec<Arc<Session>>, Vec<Arc<Session>>) =
            gone.into_iter().partition(|session| session.is_closed());
        self.leave(closed);
        for session in open {
            of_session!(info, &session, why = failure.cause.as_str(), "session ended");
            let held = (self.closing.clone(), self.work.clone());
            let (closed, failure) = (session.clone(), failure.clone());
            let close = move || {
                let _held = held;
                closed.close(Some(failure));
            };
            match thread::guarded("close", drop, close) {
                Ok(_) => self.leave([session]),
                Err(failure) => {
                    of_session!(warn, &session, %failure, "a session is not closed yet");
                    self.sessions().insert(session.id, session);
                }
            }
        }
    }

    /// Takes account of sessions that do not count any more while their links end, each with a thread, a socket and
    /// what is left to say: a peer that does not take that may draw it out. Where there are more of them than there may
    /// be sessions, those that came first end at once.
    pub(super) fn leave(&self, gone: impl IntoIterator<Item = Arc<Session>>) {
        let mut leaving = lock(&self.leaving);
        leaving.extend(gone);
        leaving.retain(|session| session.has_links());
        let from: Vec<_> = leaving.iter().map(|session| Origin::of_session(session).source).collect();
        let HostLimits { sessions, sessions_per_address, .. } = self.limits;
        for at in too_many(&from, sessions, sessions_per_address) {
            leaving[at].end_link();
        }
    }
}

/// Which of these, each from an address, are beyond so many in all or of one address; those that came last stay.
fn too_many(from: &[Option<IpAddr>], all: usize, of_each: usize) -> Vec<usize> {
    let (mut stay, mut by_address) = (0, HashMap::<Option<IpAddr>, usize>::new());
    let mut beyond = Vec::new();
    for (at, address) in from.iter().enumerate().rev() {
        let theirs = by_address.entry(*address).or_default();
        if stay == all || *theirs == of_each {
            beyond.push(at);
        } else {
            stay += 1;
            *theirs += 1;
        }
    }
    beyond
}

#[cfg(test)]
mod tests {
    use super::super::CONCLUDE_LOOK;
    use super::super::tests::{LIMIT, Stuck, cut_off};
    use super::*;
    use crate::export::{Export, Exports};
    use crate::tickets::{self, GRACE_S, Part, Reach, Record, Tickets};
    use std::sync::{Mutex, mpsc};
    use thalweg_mover::endpoint::testing::HeldUp;
    use thalweg_mover::event;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::receiver::ReceiveRun;
    use thalweg_mover::transfer::receiver;
    use thalweg_wire::message::{Place, Terms, TransferNumber};

    /// A session that was cut off, with a transfer under way, and a ticket that expired so long ago.
    fn with_expired_ticket(since_s: u64) -> (tempfile::TempDir, Arc<Host>, Arc<Session>, Arc<Tickets>) {
        let state = tempfile::tempdir().expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let ((reached, _), (_, waits)) = (mpsc::channel(), mpsc::channel());
        let destination = Arc::new(HeldUp::new(Stuck { reached, goes_on: Mutex::new(waits) }));
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
        session.add(number, run.expect("threads")).expect("room");
        host.sessions().insert(session.id, session.clone());
        let now = unix_seconds();
        let mut record = Record::of("a", session.peer, now - 2 * GRACE_S);
        record.expires_at = Some(now - since_s);
        tickets::add(state.path(), &record).expect("a ticket");
        let tickets = Tickets::new(state.path(), Fingerprint([0; 32]));
        host.heed(tickets.clone());
        (state, host, session, tickets)
    }

    /// Each holds a thread and a socket for as long as its peer does not take what is left to say.
    #[test]
    fn sessions_that_end_are_no_more_than_there_may_be_and_those_that_ended_last_stay() {
        let from = |last: &[u8]| -> Vec<_> {
            last.iter().map(|last| Some(IpAddr::from([10, 0, 0, *last]))).collect()
        };
        assert!(too_many(&[], 4, 2).is_empty());
        assert!(too_many(&from(&[1, 2, 1, 2]), 4, 2).is_empty());
        // One that has more than its share ends no other's.
        assert_eq!(too_many(&from(&[2, 1, 1, 1, 1, 3]), 4, 2), [2, 1]);
        assert_eq!(too_many(&from(&[1, 2, 3, 4, 5, 6]), 4, 2), [1, 0]);
        assert_eq!(too_many(&[None, None, None], 4, 2), [0]);
    }

    fn until_closed(session: &Session) {
        let until = Instant::now() + LIMIT;
        while !session.is_closed() {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(CONCLUDE_LOOK);
        }
    }

    #[test]
    fn with_a_ticket_that_expired_nothing_is_begun_in_a_session_and_what_runs_ends_after_an_hour() {
        let (_state, host, session, tickets) = with_expired_ticket(60);
        let refused = host.exports_of(&session).err().expect("it expired");
        assert_eq!(refused.kind, FailureKind::Permission);
        assert!(refused.cause.contains("`a` expired on"), "{refused}");
        assert!(tickets.ends(&session.peer, unix_seconds()).is_none());
        let (_state, host, session, _) = with_expired_ticket(GRACE_S + 60);
        until_closed(&session);
        assert!(!host.sessions().contains_key(&session.id));
    }

    /// What is begun with another ticket does not find it in its way.
    #[test]
    fn a_session_that_was_cut_off_ends_when_its_ticket_is_not_taken_any_more() {
        let (_state, _host, session, _) = with_expired_ticket(60);
        until_closed(&session);
    }

    /// Two jobs of one user, on machines that share a state directory.
    #[test]
    fn a_session_has_what_its_own_token_gave_whatever_others_are_shown_with_its_key() {
        let scratch = tempfile::tempdir().expect("a directory");
        for name in ["run1", "run2"] {
            std::fs::create_dir(scratch.path().join(name)).expect("a directory");
        }
        let export = Export::of("data", scratch.path().to_path_buf());
        let exports = Exports::open(vec![export]).expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let tickets = Tickets::new(scratch.path(), Fingerprint([0; 32]));
        let now = unix_seconds();
        let shown = |peer: Fingerprint, name: &str, below: &str, until: u64| {
            let part = Part { below: below.to_owned(), ..Part::read("data").expect("a part") };
            let mut record = Record::of(name, peer, now);
            (record.reach, record.expires_at) = (Reach::Only(vec![part]), Some(until));
            record.issuer = Some("https://iam.example.org/".to_owned());
            tickets.welcome(record, now)
        };
        let begun = |id: u8, name: &str, below: &str, until: u64| {
            let session = cut_off(&host, id);
            let guest = shown(session.peer, name, below, until);
            host.begin_with(&session, &guest.record(), Some(guest));
            host.sessions().insert(session.id, session.clone());
            session
        };
        let below = |session: &Session| {
            let place = Place { export: Some("data".to_owned()), path: b"file".to_vec() };
            host.exports_of(session)?.resolve(&place, true).map(|place| place.beneath)
        };
        assert!(host.tickets.set(tickets.clone()).is_ok());
        let (one, two) = (begun(1, "alice@iam", "run1", now + 600), begun(2, "alice@iam", "run2", now + 600));
        assert_eq!(below(&one).as_deref(), Ok("run1"));
        assert_eq!(below(&two).as_deref(), Ok("run2"));
        // Of a third her token is over; what is shown after it has her name, or her rights, and never both.
        let third = begun(3, "alice@iam", "run3", now - 60);
        shown(third.peer, "alice@iam", "run1", now + 6000);
        shown(third.peer, "bob@iam", "run3", now + 6000);
        let refused = below(&third).expect_err("it is over");
        assert!(refused.cause.contains("the token of `alice@iam` expired"), "{refused}");
        assert!(host.ends_for_ticket(&third).is_none(), "what runs goes on for an hour");
        let fourth = begun(4, "alice@iam", "run4", now - GRACE_S - 60);
        shown(fourth.peer, "alice@iam", "run1", now + 9000);
        host.end_without_ticket();
        assert!(!host.sessions().contains_key(&fourth.id), "nor longer");
        assert!(host.ends_for_ticket(&one).is_none() && host.ends_for_ticket(&two).is_none());
        // One that gives the same has it last longer.
        shown(third.peer, "alice@iam", "run3", now + 6000);
        assert_eq!(host.exports_of(&third).err(), None);
    }

    #[test]
    fn a_session_whose_disk_stands_still_keeps_no_other_from_its_end() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let limits = HostLimits { sessions: 2, patience: Duration::ZERO, ..HostLimits::default() };
        let host = Host::new(identity, exports, None, limits);
        let (reached, reaches) = mpsc::channel();
        let mut held = Vec::new();
        let mut stuck = |id: u8| {
            let (goes_on, waits) = mpsc::channel();
            held.push(goes_on);
            let stuck = Stuck { reached: reached.clone(), goes_on: Mutex::new(waits) };
            let destination = Arc::new(HeldUp::new(stuck));
            let session = cut_off(&host, id);
            let number = TransferNumber(1);
            let (limits, outbox) = (receiver::Limits::default(), session.outbox());
            let terms = Terms::of(1 << 20, 1 << 16);
            let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
            session.add(number, run.expect("threads")).expect("room");
            host.sessions().insert(session.id, session);
        };
        stuck(1);
        reaches.recv_timeout(LIMIT).expect("the first is being closed");
        stuck(2);
        reaches.recv_timeout(LIMIT).expect("and the second");
        // So many at a time as there may be sessions.
        let third = cut_off(&host, 3);
        host.sessions().insert(third.id, third.clone());
        std::thread::sleep(4 * REAP_EVERY);
        assert!(!third.is_closed() && host.session_count() == 1);
        held.clear();
        let until = Instant::now() + LIMIT;
        while !third.is_put_away() {
            assert!(Instant::now() < until, "the third is not closed");
            std::thread::sleep(CONCLUDE_LOOK);
        }
        assert_eq!(host.session_count(), 0);
    }
}
