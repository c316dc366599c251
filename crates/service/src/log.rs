//! The log's line of each transfer, one when it is over: who, from where, what, how much of it, how it ended.
//!
//! What a client chose (names, its words in failures) is escaped and stands as a text of its own: a line is one line, and
//! nobody but us writes its fields. Not here: what each entry became, which the client's report has.

use crate::published;
use std::net::SocketAddr;
use std::time::Instant;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::run::session::Session;
use thalweg_wire::Digest;
use thalweg_wire::message::{Direction, Open, Place, Totals};

/// A transfer that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    client: Fingerprint,
    address: Option<SocketAddr>,
    direction: &'static str,
    kind: &'static str,
    place: String,
    began: Instant,
}

/// How much of it is done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// Files, directories, links, or flows; `None` of frames.
    pub entries: Option<u64>,
    /// Entries that could not be.
    pub failed: u64,
    /// Content bytes; of frames those that came or were taken.
    pub bytes: u64,
}

impl Done {
    /// Of one that did not come to its end.
    pub fn by_then(entries: u64, bytes: u64) -> Done {
        Done { entries: Some(entries), failed: 0, bytes }
    }
}

impl From<Totals> for Done {
    fn from(totals: Totals) -> Done {
        Done { entries: Some(totals.done), failed: totals.failed, bytes: totals.bytes_done }
    }
}

impl Line {
    /// It begins now.
    pub fn begin(session: &Session, open: &Open) -> Line {
        Line {
            client: session.peer,
            address: session.peer_address(),
            direction: match open.direction {
                Direction::Push => "push",
                Direction::Pull => "pull",
            },
            kind: match (&open.frames, &open.flow, &open.trial) {
                (Some(_), ..) => "frames",
                (_, Some(_), _) => "stream",
                (.., Some(_)) => "probe",
                _ => "files",
            },
            place: shown(&open.places),
            began: Instant::now(),
        }
    }

    /// It is over: by the totals and the root that both sides agreed on, or failed with so much done.
    pub fn end(&self, ended: &Result<(Totals, Digest)>, by_then: Done) {
        match ended {
            Ok((totals, root)) => self.tell(Done::from(*totals), Ok(Some(*root))),
            Err(failure) => self.tell(by_then, Err(failure)),
        }
    }

    /// It was done, with this root if it has one, or failed.
    pub fn tell(&self, done: Done, ended: std::result::Result<Option<Digest>, &Failure>) {
        let (words, outcome, failure, root) = match ended {
            Ok(root) => ("transfer done", "done".to_owned(), None, root),
            Err(failure) => ("transfer failed", failure.kind.word(), Some(failure.to_string()), None),
        };
        let seconds = (self.began.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        tracing::info!(
            client = %self.client,
            address = self.address.map(tracing::field::display),
            direction = self.direction,
            kind = self.kind,
            place = self.place.as_str(),
            entries = done.entries,
            failed = done.failed,
            bytes = done.bytes,
            seconds,
            outcome = outcome.as_str(),
            failure = failure.as_deref(),
            root = root.map(tracing::field::display),
            "{words}"
        );
    }
}

/// The first place stands for all: a line has an end.
fn shown(places: &[Place]) -> String {
    let first = places.first().map(published::shown).unwrap_or_default();
    match places.len() {
        0 | 1 => first,
        many => format!("{first} and {} more", many - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_client_names_is_inert_and_short() {
        let place =
            |export: &str, path: &[u8]| Place { export: Some(export.to_owned()), path: path.to_vec() };
        let places = [place("da\nta", b"a\n\x1b[31m\xff"), place("data", b"b"), place("data", b"c")];
        assert_eq!(shown(&places[1..2]), "data/b");
        assert_eq!(shown(&places), "da\\x0ata/a\\x0a\\x1b[31m\\xff and 2 more");
        assert_eq!(shown(&[Place { export: None, path: b"/home/x".to_vec() }]), "/home/x");
        assert_eq!(shown(&[]), "");
    }
}
