use crate::elsewhere;
use thalweg_mover::failure::NO_MEMORY;
use thalweg_wire::message::{Failure, FailureKind};

/// What a person may do about it, in one sentence; not for every failure there is something.
pub fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Unsupported, elsewhere::BETWEEN) => {
            "where you cannot log in: in two copies, through a directory here; one file also through a pipe: thalweg cat SRC | \
             thalweg stream - DST"
        }
        // A measurement begins anew, and says itself what room it needs.
        (FailureKind::Space | FailureKind::Stopped, "measure") => return None,
        (FailureKind::Space, operation) if operation.starts_with(NO_MEMORY) => {
            "ask for less (fewer --streams, a smaller --request), allow more where it is short (--memory, there `serve \
             --memory`), or wait until others are done: the same command resumes"
        }
        (FailureKind::Space, _) => {
            "make room (or make it writable), then run the same command again: it resumes"
        }
        (FailureKind::Io, operation) if operation.starts_with("sync") || operation.starts_with("write") => {
            "the disk or its file system fails: see the kernel's log. When it works again, the same command resumes"
        }
        (FailureKind::NotFound, "start by ssh") => {
            "install it there, name it with --far-path, or let thalweg place its own copy with --bootstrap"
        }
        (FailureKind::Protocol, "start by ssh") => {
            "with --bootstrap thalweg places its own copy there, of the same version"
        }
        (FailureKind::Connection, "start by ssh") => {
            "ssh's own words stand above; the same host must work with `ssh`. The same command resumes"
        }
        (FailureKind::Connection, "connect") => {
            "is `thalweg serve` running there, and may this host reach its port? The same command resumes"
        }
        (FailureKind::Connection, _) => "run the same command again: it resumes",
        (FailureKind::Damage, "verify") => {
            "the same bytes arrived damaged many times: suspect memory, a network card or a disk on the way"
        }
        (FailureKind::Changed, _) => "copy from a snapshot, or when nobody writes",
        (FailureKind::Busy, "start a testbed" | "lock the directory of testbeds") => return None,
        (FailureKind::Permission, "make a network namespace") => {
            "a testbed needs root; or, where user namespaces are permitted, a shell in one: unshare -Urm"
        }
        (FailureKind::Busy, "listen") => {
            "another program has this port: choose one with --listen ADDRESS:PORT"
        }
        (FailureKind::Busy, _) => "wait for the other transfer, or stop it",
        (FailureKind::Stopped, _) => "run the same command again: it resumes",
        _ => return None,
    })
}
