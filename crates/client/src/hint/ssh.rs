use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (FailureKind::NotFound | FailureKind::Permission, Reason::NoSsh) => {
            "this is the ssh of this machine: install OpenSSH's client, or name the program to start with -e (--rsh)"
        }
        (_, Reason::NotPlaced) => {
            "put the program there yourself, where it may run, and name it with --far-path; or have XDG_CACHE_HOME there name a \
             directory that holds and runs it"
        }
        (_, Reason::NoFarProgram) => {
            "install it there, where `ssh HOST thalweg --version` finds it, name it with --far-path, or let thalweg place \
             its own copy with --bootstrap"
        }
        (_, Reason::FarProgramDiffers) => {
            "with --bootstrap thalweg places its own copy there, of the same version"
        }
        (_, Reason::SshEnded) => {
            "ssh's own words stand above; the same host must work with `ssh`. The same command resumes"
        }
        (FailureKind::Connection, Reason::FarNotReached) => {
            "ssh started it there: the same host must work with `ssh`, and programs there must reach their own machine's \
             loopback. The same command resumes"
        }
        (_, Reason::FarEnds) => {
            "have that machine let it go on (`ulimit -v` and `ulimit -t` of a login there, memory); then the same command resumes"
        }
        _ => return None,
    })
}
