//! What the server does with what a client says outside of transfers.

use super::{Host, in_thread};
use crate::answer::{self, Room};
use crate::log::Reads;
use crate::slots::Slots;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use thalweg_mover::failure::{Failure, FailureKind, NO_MEMORY, Result};
use thalweg_mover::run::party::Party;
use thalweg_mover::run::session::{Owner, Session, Transfer};
use thalweg_wire::message::{Message, Opened, Reply, SourceForm, Steer, TransferNumber};

/// The owner of a client's session.
pub(super) struct ServerOwner {
    pub host: Weak<Host>,
    pub requests: Arc<AtomicU64>,
    /// Questions that are being answered, by their numbers.
    pub answers: Arc<Mutex<HashMap<u32, Arc<Room>>>>,
    /// What was read outside transfers.
    pub reads: Arc<Reads>,
    pub limit: usize,
}

impl Owner for ServerOwner {
    fn on_message(&self, session: &Arc<Session>, message: Message) {
        let Some(host) = self.host.upgrade() else { return };
        let broken = |cause: &str| {
            session.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
        };
        let rooms = || self.answers.lock().unwrap_or_else(|p| p.into_inner());
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
        let asked = Asked::of(&message);
        let (theirs, requests, answers) = (session.clone(), self.requests.clone(), self.answers.clone());
        let reads = self.reads.clone();
        let work = move || {
            let served = || requests.fetch_sub(1, Ordering::AcqRel);
            match message {
                Message::Open(open) => {
                    host.open(&theirs, *open);
                    served();
                }
                Message::Ask { number, question } => {
                    answer::answer(&host, &theirs, number, question, &room, &reads, || {
                        answers.lock().unwrap_or_else(|p| p.into_inner()).remove(&number);
                        served();
                    });
                }
                _ => {
                    let cause = "the client said what only a server says";
                    theirs.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
                    served();
                }
            }
        };
        if let Err(failure) = in_thread("request", work) {
            tracing::error!(%failure, "request not served");
            self.requests.fetch_sub(1, Ordering::AcqRel);
            if let Some(Asked::Question(number)) = &asked {
                rooms().remove(number);
            }
            // Who hears nothing waits for a minute.
            let refused = Failure { kind: FailureKind::Busy, ..failure };
            if let Some(Err(failure)) = asked.map(|asked| asked.refuse(session, refused)) {
                tracing::info!(%failure, "the client is gone before it was refused");
            }
        }
    }

    fn on_link_lost(&self, _: &Arc<Session>, why: &Failure) {
        tracing::info!(%why, "link lost");
    }

    fn on_goodbye(&self, session: &Arc<Session>, why: Option<&Failure>) {
        self.reads.tell();
        let peer = &session.peer;
        match why {
            None => tracing::info!(%peer, "session ended"),
            Some(why) => tracing::info!(%peer, %why, "the client ended its session"),
        }
    }

    fn on_stream_lost(&self, session: &Arc<Session>, stream: u16, why: &Failure) {
        tracing::info!(stream, %why, "stream lost");
        if why.operation == NO_MEMORY {
            // Without a link it is dialled anew, and told then.
            let _ = session.say(Message::NoStream { stream, why: why.clone() });
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

/// What waits for an answer.
enum Asked {
    Transfer(TransferNumber, SourceForm),
    Question(u32),
}

impl Asked {
    fn of(message: &Message) -> Option<Asked> {
        match message {
            Message::Open(open) => Some(Asked::Transfer(open.transfer, open.source.clone())),
            Message::Ask { number, .. } => Some(Asked::Question(*number)),
            _ => None,
        }
    }

    fn refuse(self, session: &Session, why: Failure) -> Result<()> {
        match self {
            Asked::Transfer(transfer, source) => {
                // What the client says to it now crossed our answer.
                session.remove(transfer);
                let refused = Some(why);
                session.say(Message::Opened(Opened { transfer, source, instance: 0, refused }))
            }
            Asked::Question(number) => session.say(Message::Reply { number, reply: Reply::End(Some(why)) }),
        }
    }
}

/// A knob of a transfer that we send. One that is over, or that we receive, has none.
fn steer_one(session: &Session, number: TransferNumber, steer: &Steer) {
    for transfer in session.transfers() {
        match transfer {
            Transfer::Send(run) if run.number() == number => run.steer(steer),
            Transfer::SendFlows(run) if run.number() == number => run.steer(steer),
            _ => {}
        }
    }
}
