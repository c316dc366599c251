use thalweg_mover::endpoint::local::NOT_OURS;
use thalweg_mover::endpoint::local::guard::REPLACE;
use thalweg_mover::failure::CREATE_STATE;
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Permission, _) if failure.cause.ends_with(NOT_OURS) => {
            "have that user or root remove it there, or choose a directory in which only you may make names"
        }
        (FailureKind::Permission, REPLACE) => {
            "copy it under another name, or leave out what stands there: --ignore-existing"
        }
        (FailureKind::Permission | FailureKind::Space, CREATE_STATE) => {
            "name a directory that can be written for what is kept between copies: --state DIR, THALWEG_STATE, or XDG_STATE_HOME \
             for all programs"
        }
        _ => return None,
    })
}
