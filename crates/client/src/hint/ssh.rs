use thalweg_mover::link::ssh::{PLACE, REACH, RUN, START};
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::NotFound | FailureKind::Permission, RUN) => {
            "this is the ssh of this machine: install OpenSSH's client, or name the program to start with -e (--rsh)"
        }
        (_, PLACE) => {
            "put the program there yourself, where it may run, and name it with --far-path; or have XDG_CACHE_HOME there name a \
             directory that holds and runs it"
        }
        (FailureKind::NotFound, START) => {
            "install it there, name it with --far-path, or let thalweg place its own copy with --bootstrap"
        }
        (FailureKind::Protocol, START) => {
            "with --bootstrap thalweg places its own copy there, of the same version"
        }
        (FailureKind::Connection, START) => {
            "ssh's own words stand above; the same host must work with `ssh`. The same command resumes"
        }
        (FailureKind::Connection, REACH) => {
            "ssh started it there: the same host must work with `ssh`, and programs there must reach their own machine's \
             loopback. The same command resumes"
        }
        (FailureKind::Unsupported, REACH) => {
            "have that machine let it go on (`ulimit -v` and `ulimit -t` of a login there, memory); then the same command resumes"
        }
        _ => return None,
    })
}
