use thalweg_wire::message::{Failure, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (_, Reason::NotOurs) => {
            "have that user or root remove it there, or choose a directory in which only you may make names"
        }
        (_, Reason::NotReplaced) => {
            "send it under another name; copies can leave out what stands there: --ignore-existing"
        }
        (_, Reason::NoState) => {
            "name a directory that can be written for what is kept between copies: --state DIR, THALWEG_STATE, or XDG_STATE_HOME \
             for all programs"
        }
        (_, Reason::SourceStays) => {
            "without --remove-source-files it is copied, and stays there; who runs the daemon decides what may be removed"
        }
        (_, Reason::NotDeleted) => {
            "without --delete it stays there and is only counted; whose place it is decides what may be deleted"
        }
        _ => return None,
    })
}
