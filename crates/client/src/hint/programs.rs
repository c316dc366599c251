use super::RESUME;
use super::operation::{FIND_PROGRAM, PROBE, USE_IN_FORK};
use thalweg_mover::failure::{MAKE_NAMESPACE, MEASURE, RUN_THREAD, START_TESTBED, VERIFY};
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Usage, FIND_PROGRAM) => {
            "name a file that may be executed; its arguments go behind all else, after `--`"
        }
        (FailureKind::Usage, USE_IN_FORK) => "make it in the process that uses it, after the fork",
        (FailureKind::Permission, MAKE_NAMESPACE) => {
            "a testbed needs root; or, where user namespaces are permitted, a shell in one: unshare -Urm"
        }
        (FailureKind::Internal, RUN_THREAD) => {
            "this is a defect of thalweg: please report it, with what the side where it was says of the panic; the same command \
             resumes"
        }
        // These begin anew.
        (FailureKind::Stopped, MEASURE | PROBE | VERIFY | START_TESTBED) => return None,
        (FailureKind::Stopped, _) => RESUME,
        _ => return None,
    })
}
