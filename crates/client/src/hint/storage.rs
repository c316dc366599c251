use thalweg_mover::failure::{MEASURE, NO_INODES, is_of_disk};
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        // A measurement begins anew, and says itself what room it needs.
        (FailureKind::Space, MEASURE) => return None,
        (FailureKind::Space, _) if failure.cause.ends_with(NO_INODES) => {
            "remove files there: that file system has room for bytes and none for more files. Then run the same command again: it \
             resumes"
        }
        (FailureKind::Space, _) => {
            "make room (or make it writable), then run the same command again: it resumes"
        }
        _ if is_of_disk(failure) => {
            "the disk or its file system fails: see the kernel's log. When it works again, the same command resumes"
        }
        _ => return None,
    })
}
