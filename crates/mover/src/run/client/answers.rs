//! Answers to questions, as they come.

use super::Mail;
use crate::failure::{Failure, FailureKind, Result};
use crate::run::session::Session;
use std::sync::Arc;
use std::sync::mpsc::Receiver as Inbox;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{Message, Reply};

/// Time in which a server must answer a question or begin its answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The pieces of an answer. The server is at most [`limits::REPLIES_AHEAD_MAX`] pieces ahead of what was taken; dropped
/// before its end, the rest is not asked for.
pub struct Answers {
    pub(super) inbox: Inbox<Reply>,
    pub(super) number: u32,
    pub(super) session: Arc<Session>,
    pub(super) mail: Arc<Mail>,
    /// Pieces of which the server has not heard that they were taken.
    pub(super) taken: u32,
    pub(super) ended: bool,
}

impl Answers {
    /// One more piece is out of the queue. Told by the half: the server has the other half to go on with.
    fn note_taken(&mut self) {
        self.taken += 1;
        if self.taken >= limits::REPLIES_AHEAD_MAX / 2 {
            // Without a link the answer is over, as the next look shows.
            let _ = self.session.say(Message::Taken { number: self.number, pieces: self.taken });
            self.taken = 0;
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        if boxes.replies.remove(&self.number).is_some() {
            drop(boxes);
            let _ = self.session.say(Message::Enough { number: self.number });
        }
    }
}

impl Iterator for Answers {
    type Item = Result<Reply>;

    fn next(&mut self) -> Option<Result<Reply>> {
        if self.ended {
            return None;
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match self.inbox.recv_timeout(Duration::from_millis(250)) {
                Ok(Reply::End(failure)) => {
                    self.ended = true;
                    return failure.map(Err);
                }
                Ok(reply) => {
                    self.note_taken();
                    return Some(Ok(reply));
                }
                Err(_) => {
                    let lost = self.session.lost_since().is_some() || self.session.is_closed();
                    if lost || Instant::now() >= until {
                        self.ended = true;
                        let cause = "the connection ended before the answer was complete";
                        let failure = Failure::new(FailureKind::Connection, "ask", cause);
                        return Some(Err(self.session.failure().unwrap_or(failure)));
                    }
                }
            }
        }
    }
}
