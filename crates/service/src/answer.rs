//! Answers to questions that need no data stream: list, read, digest, remove.

use crate::host::Host;
use std::sync::Arc;
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_mover::run::session::Session;
use thalweg_wire::message::{Message, Question, Reply};

/// Answers `question`, piece by piece.
pub fn answer(host: &Host, session: &Arc<Session>, number: u32, question: Question) {
    let say = |reply: Reply| session.say(Message::Reply { number, reply });
    let ended = match question {
        Question::About => {
            let program = format!("thalweg {}", env!("CARGO_PKG_VERSION"));
            say(Reply::About { program, exports: host.exports.names() }).err()
        }
        _ => Some(Failure::new(FailureKind::Unsupported, "answer", "this server does not answer that yet")),
    };
    let _ = say(Reply::End(ended));
}
