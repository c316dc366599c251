//! What the server does with what a client says outside of transfers.

use super::Host;
use crate::answer::{self, Crew, Room};
use crate::log::{Reads, of_session};
use crate::published::cut;
use crate::slots::Slots;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::{Owner, Session};
use thalweg_mover::run::thread;
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::message::{Message, Opened, Reply, Steer, TransferNumber};

/// The owner of a client's session.
pub(super) struct ServerOwner {
    host: Weak<Host>,
    requests: Arc<AtomicU64>,
    /// Transfers that were ever asked for, by their numbers: of 16 bits, so it stays small.
    opened: Mutex<BTreeSet<TransferNumber>>,
    /// Questions that are being answered, by their numbers.
    answers: Arc<Mutex<HashMap<u32, Arc<Room>>>>,
    /// What was read outside transfers.
    reads: Arc<Reads>,
    crew: Arc<Crew>,
    limit: usize,
}

impl ServerOwner {
    /// Of a session of this host, of which it works on at most so many requests at the same time.
    pub fn new(host: Weak<Host>, limit: usize) -> ServerOwner {
        ServerOwner {
            host,
            requests: Arc::default(),
            opened: Mutex::default(),
            answers: Arc::default(),
            reads: Arc::default(),
            crew: Arc::default(),
            limit,
        }
    }
}

impl Owner for ServerOwner {
    fn on_message(&self, session: &Arc<Session>, message: Message) {
        let Some(host) = self.host.upgrade() else { return };
        let broken = |cause: &str| {
            session.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
        };
        let rooms = || lock(&self.answers);
        // Of an answer that has ended meanwhile there is nothing to be held back.
        match message {
            Message::Taken { number, pieces } => {
                if let Some(room) = rooms().get(&number) {
                    room.taken(pieces);
                }
                return;
            }
            Message::Steer(number, steer) => return steer_one(session, number, &steer),
            Message::Enough { number } => {
                if let Some(room) = rooms().get(&number) {
                    room.enough();
                }
                return;
            }
            _ => {}
        }
        if let Message::Open(open) = &message
            && !lock(&self.opened).insert(open.transfer)
        {
            // Not as others are refused: that takes out what has the number, which would go on and count as none.
            let why = Failure::new(FailureKind::Protocol, "open", "the transfer's number was used before");
            if let Err(failure) = session.say(Message::Opened(open.transfer, Opened::Refused(why))) {
                of_session!(info, session, %failure, "the client is gone before it was refused");
            }
            return;
        }
        if self.requests.fetch_add(1, Ordering::AcqRel) >= self.limit as u64 {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            return broken("too many requests at once");
        }
        let room = Arc::new(Room::new());
        if let Message::Ask { number, .. } = &message
            && rooms().insert(*number, room.clone()).is_some()
        {
            return broken("two questions have the same number");
        }
        let (asked, asked_in_vain) = (Asked::of(&message), Asked::of(&message));
        let number = match &asked {
            Some(Asked::Question(number)) => Some(*number),
            _ => None,
        };
        let request = Request { requests: self.requests.clone(), answers: self.answers.clone(), number };
        let (theirs, reads, crew) = (session.clone(), self.reads.clone(), self.crew.clone());
        let work = move || match message {
            Message::Open(open) => {
                host.open(&theirs, &open);
                drop(request);
            }
            Message::Ask { number, question } => {
                answer::answer(&host, &theirs, (number, question), &room, &reads, &crew, || drop(request));
            }
            _ => {
                let cause = "the client said what only a server says";
                theirs.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
                drop(request);
            }
        };
        let told = session.clone();
        let on_panic = move |failure| refuse(asked_in_vain, &told, failure);
        if let Err(failure) = thread::guarded("request", on_panic, work) {
            of_session!(error, session, %failure, "request not served");
            refuse(asked, session, Failure { kind: FailureKind::Busy, ..failure });
        }
    }

    fn on_link_lost(&self, session: &Arc<Session>, why: &Failure) {
        of_session!(info, session, %why, "link lost");
    }

    fn on_goodbye(&self, session: &Arc<Session>, why: Option<&Failure>) {
        self.reads.tell();
        match why {
            None => of_session!(info, session, "session ended"),
            Some(why) => {
                let why = cut(why.to_string());
                of_session!(info, session, %why, "the client ended its session");
            }
        }
    }

    fn on_closed(&self, _session: &Session) {
        self.reads.tell();
    }

    fn on_failed(&self, session: &Session, why: &Failure) {
        let why = cut(why.to_string());
        of_session!(warn, session, %why, "session ends");
    }

    fn on_stream_lost(&self, session: &Arc<Session>, stream: u16, why: &Failure) {
        of_session!(info, session, stream, %why, "stream lost");
        if why.reason == Reason::NoMemory {
            // Without a link it is dialled anew, and told then.
            let _ = session.say(Message::NoStream { stream, why: why.clone() });
        }
    }

    fn on_stream_over(&self, session: &Session, connection: u64, last: &TcpInfo) {
        if let Some(host) = self.host.upgrade() {
            host.metrics.stream_over((session.id, connection), last);
        }
    }

    fn portion_bytes(&self) -> usize {
        let host = self.host.upgrade();
        host.as_ref().and_then(|host| host.slots.as_ref()).map_or(usize::MAX, Slots::portion_bytes)
    }

    fn before_taking(&self, session: &Session, took: u64, is_over: &dyn Fn() -> bool) {
        let host = self.host.upgrade();
        if let Some(slots) = host.as_ref().and_then(|host| host.slots.as_ref()) {
            slots.wait_for_turn(&session.id, took, is_over);
        }
    }

    fn on_stream_stuck(&self, session: &Arc<Session>, stream: u16) {
        // Without a link it is dialled anew anyway.
        let _ = session.say(Message::Stuck { stream });
    }
}

/// A request that is worked on. However that ends, it does not count any more, and its number may be used again.
struct Request {
    requests: Arc<AtomicU64>,
    answers: Arc<Mutex<HashMap<u32, Arc<Room>>>>,
    /// Of a question.
    number: Option<u32>,
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.answers).remove(&number);
        }
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells a client that it is not served: who hears nothing waits for a minute.
fn refuse(asked: Option<Asked>, session: &Session, why: Failure) {
    if let Some(Err(failure)) = asked.map(|asked| asked.refuse(session, why)) {
        of_session!(info, session, %failure, "the client is gone before it was refused");
    }
}

/// What waits for an answer.
enum Asked {
    Transfer(TransferNumber),
    Question(u32),
}

impl Asked {
    fn of(message: &Message) -> Option<Asked> {
        match message {
            Message::Open(open) => Some(Asked::Transfer(open.transfer)),
            Message::Ask { number, .. } => Some(Asked::Question(*number)),
            _ => None,
        }
    }

    fn refuse(self, session: &Session, why: Failure) -> Result<()> {
        match self {
            Asked::Transfer(number) => {
                // What the client says to it now crossed our answer.
                session.remove(number);
                session.say(Message::Opened(number, Opened::Refused(why)))
            }
            Asked::Question(number) => session.say(Message::Reply { number, reply: Reply::End(Some(why)) }),
        }
    }
}

/// A knob of a transfer that we send. One that is over, or that we receive, has none.
fn steer_one(session: &Session, number: TransferNumber, steer: &Steer) {
    if let Some(transfer) = session.transfer(number) {
        transfer.steer(steer);
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostLimits;
    use super::super::tests::{LIMIT, cut_off};
    use super::*;
    use crate::export::{Export, Exports};
    use std::time::{Duration, Instant};
    use thalweg_mover::link::Identity;
    use thalweg_wire::message::{Open, Place, Push, Request as Asks, Terms};

    /// Else one client has as many as it likes: what is taken out so goes on, and nobody counts it.
    #[test]
    fn a_number_that_is_taken_leaves_the_transfer_that_has_it_in_its_session() {
        let scratch = tempfile::tempdir().expect("a directory");
        let export = Export::of("data", scratch.path().to_path_buf());
        let exports = Exports::open(vec![export]).expect("a directory");
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let (session, owner) = (cut_off(&host, 1), ServerOwner::new(Arc::downgrade(&host), 32));
        let open = |path: &str| {
            let place = Place { export: Some("data".to_owned()), path: path.as_bytes().to_vec() };
            let terms = Terms::of(1 << 20, 1 << 16);
            let open = Open::of(TransferNumber(1), Asks::Push(Push::to(place)), terms);
            owner.on_message(&session, Message::Open(Box::new(open)));
            let until = Instant::now() + LIMIT;
            while owner.requests.load(Ordering::Acquire) > 0 {
                assert!(Instant::now() < until, "it is neither opened nor refused");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        open("one");
        assert_eq!(session.transfers().len(), 1);
        open("two");
        assert_eq!(session.transfers().len(), 1, "the first goes on, and counts as none");
        session.close(None);
    }
}
