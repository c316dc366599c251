//! Answers to questions, as they come.

use super::Mail;
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use crate::run::session::Session;
use std::sync::Arc;
use std::sync::mpsc::Receiver as Inbox;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{Message, Reply};

/// Time in which a server must answer a question or begin its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks whether an answer can still come.
pub(super) const STEP: Duration = Duration::from_millis(250);

/// The pieces of an answer. The server is at most [`limits::REPLIES_AHEAD_MAX`] pieces ahead of what was taken; dropped
/// before its end, the rest is not asked for.
pub struct Answers {
    pub(super) inbox: Inbox<Reply>,
    pub(super) number: u32,
    /// The link on which it was asked: no piece comes on another.
    pub(super) epoch: u64,
    pub(super) session: Arc<Session>,
    pub(super) mail: Arc<Mail>,
    /// Pieces of which the server has not heard that they were taken.
    pub(super) taken: u32,
    pub(super) ended: bool,
    /// For the next piece.
    pub(super) patience: Duration,
}

impl Answers {
    /// The same, of which each piece is waited for so long at most, instead of as the link's patience says
    /// (at most a minute).
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Answers {
        self.patience = patience;
        self
    }

    /// Whether the link on which it was asked stands; without it no more pieces come than did.
    pub fn has_link(&self) -> bool {
        self.session.epoch() == self.epoch && !self.session.is_closed()
    }

    /// The next piece; `None` also when it `is_given_up` meanwhile, which is looked at every quarter of a second.
    pub fn piece(&mut self, is_given_up: &dyn Fn() -> bool) -> Option<Result<Reply>> {
        if self.ended {
            return None;
        }
        let until = Instant::now() + self.patience;
        loop {
            // Looked at before the queue: what came until then is in it.
            let is_lost = !self.has_link();
            let left = match is_lost {
                true => Duration::ZERO,
                false => until.saturating_duration_since(Instant::now()),
            };
            match self.inbox.recv_timeout(left.min(STEP)) {
                Ok(Reply::End(failure)) => {
                    self.ended = true;
                    return failure.map(Err);
                }
                Ok(reply) => {
                    self.note_taken();
                    return Some(Ok(reply));
                }
                Err(_) if is_given_up() => {
                    self.ended = true;
                    return None;
                }
                Err(_) if left.is_zero() => {
                    self.ended = true;
                    let cause = match is_lost {
                        true => "the connection ended before the answer was complete".to_owned(),
                        false => format!("the server did not answer within {:.0?}", self.patience),
                    };
                    let failure = Failure::new(FailureKind::Connection, "ask the server", cause);
                    return Some(Err(self.session.failure().unwrap_or(failure)));
                }
                Err(_) => {}
            }
        }
    }

    /// One more piece is out of the queue. Told by the half: the server has the other half to go on with.
    fn note_taken(&mut self) {
        self.taken += 1;
        if self.taken >= limits::REPLIES_AHEAD_MAX / 2 {
            // Without a link the answer is over, as the next look shows.
            let taken = Message::Taken { number: self.number, pieces: self.taken };
            let _ = self.session.say_in(self.epoch, taken);
            self.taken = 0;
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let mut boxes = lock(&self.mail.boxes);
        if boxes.replies.remove(&self.number).is_some() {
            drop(boxes);
            let _ = self.session.say(Message::Enough { number: self.number });
        }
    }
}

impl Iterator for Answers {
    type Item = Result<Reply>;

    fn next(&mut self) -> Option<Result<Reply>> {
        self.piece(&|| false)
    }
}
