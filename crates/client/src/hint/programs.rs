use super::RESUME;
use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (FailureKind::Usage, Reason::NoProgram) => {
            "name a file that may be executed; its arguments go behind all else, after `--`"
        }
        (_, Reason::InFork) => "make it in the process that uses it, after the fork",
        (FailureKind::Permission, Reason::NoNamespace) => {
            "a testbed needs root; or, where user namespaces are permitted, a shell in one: unshare -Urm"
        }
        (_, Reason::ThreadPanicked) => {
            "this is a defect of thalweg: please report it, with what the side where it was says of the panic; the same command \
             resumes"
        }
        (FailureKind::Stopped, Reason::BeginsAnew) => return None,
        (FailureKind::Stopped, _) => RESUME,
        _ => return None,
    })
}
