use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (FailureKind::Space, Reason::BeginsAnew) => return None,
        (_, Reason::NoInodes) => {
            "remove files there: that file system has room for bytes and none for more files. Then run the same command again: it \
             resumes"
        }
        (FailureKind::Space, _) => {
            "make room (or make it writable), then run the same command again: it resumes"
        }
        (_, Reason::DiskFailed) => {
            "the disk or its file system fails: see the kernel's log. When it works again, the same command resumes"
        }
        (_, Reason::NoLocks) => {
            "that file system has no locks, which keep two copies apart: mount Lustre with `-o flock`, see to the lock daemon of \
             NFS, or copy elsewhere"
        }
        _ => return None,
    })
}
