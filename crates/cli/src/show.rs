//! Failures, for people.

use thalweg_wire::message::{Failure, FailureKind};

/// `error:` and, where there is one, `hint:`, on stderr.
pub fn failure(failure: &Failure) {
    use std::io::Write;
    let mut err = std::io::stderr().lock();
    for line in lines(failure) {
        // Nothing is to be done about a reader that is gone.
        let _ = writeln!(err, "{line}");
    }
}

/// The same, as lines.
pub fn lines(failure: &Failure) -> Vec<String> {
    let error = format!("error: {failure}");
    std::iter::once(error).chain(hint(failure).map(|hint| format!("hint: {hint}"))).collect()
}

/// What to do about it.
pub fn hint(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
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
        (FailureKind::Busy, "start a testbed") => return None,
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
