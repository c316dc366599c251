use super::RESUME;
use super::operation::MEASURE_PATH;
use thalweg_mover::link::tls::{NOT_LET_IN, NOT_TRUSTED};
use thalweg_mover::run::client::CONNECT;
use thalweg_mover::run::spread::SPREAD;
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        // What a daemon trusts, and who it is, stands in the ticket.
        (FailureKind::Permission, _)
            if failure.cause.starts_with(NOT_LET_IN) || failure.cause.starts_with(NOT_TRUSTED) =>
        {
            "the ticket is an old one, or that of another daemon: fetch the one that `thalweg serve` there wrote last, and name it \
             with --ticket or THALWEG_TICKET"
        }
        // The link stood all the while.
        (FailureKind::Connection, SPREAD) => {
            "the far side answers, but not there: name with --via and --bind what leads to it, or leave them out. The same \
             command resumes"
        }
        (FailureKind::Connection, CONNECT) => {
            "is `thalweg serve` running there, and may this host reach its port? The same command resumes"
        }
        (FailureKind::Connection, MEASURE_PATH) => "name a TCP port that is open there, or leave --to out",
        (FailureKind::Connection, _) => RESUME,
        _ => return None,
    })
}
