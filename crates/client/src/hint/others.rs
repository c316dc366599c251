use super::operation::{ASK_COPY, TAKE_STATE, WATCH};
use thalweg_mover::endpoint::OPEN_DESTINATION;
use thalweg_mover::endpoint::local::{MARK_GROWING, OPEN_STAGING};
use thalweg_service::accept::LISTEN;
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Busy, TAKE_STATE) => {
            "end the other daemon, or give this one a state directory of its own: --state DIR"
        }
        (FailureKind::Busy, LISTEN) => "another program has this port: choose one with --listen ADDRESS:PORT",
        (FailureKind::Busy, OPEN_STAGING | OPEN_DESTINATION) => "wait for the other transfer, or stop it",
        (FailureKind::Busy, MARK_GROWING) => {
            "give each stream a directory of its own, or wait for the other one, or stop it"
        }
        (FailureKind::Busy, ASK_COPY) => {
            "one that was stopped (Ctrl-Z) answers when it goes on: `fg`, or kill -CONT and its number"
        }
        (FailureKind::Busy, WATCH) => "end the other `thalweg watch`, or leave the work to it",
        _ => return None,
    })
}
