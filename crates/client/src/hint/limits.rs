use thalweg_mover::failure::{
    CHOOSE_CONGESTION, NO_DESCRIPTORS, NO_MEMORY, START, START_THREAD, is_too_large,
};
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Unsupported, CHOOSE_CONGESTION) => {
            "name one that is permitted there with --cca, leave it out for the far side's own choice, or have its \
             net.ipv4.tcp_allowed_congestion_control permit it"
        }
        (FailureKind::Space, _) if failure.cause.contains(NO_DESCRIPTORS) => {
            "where that was said, allow more open files (`ulimit -n`, LimitNOFILE of a unit; for the whole machine fs.file-max), \
             then run the same command again: it resumes"
        }
        (FailureKind::Unsupported, _) if is_too_large(failure) => {
            "one file may not have so many bytes there: raise that limit (`ulimit -f`, LimitFSIZE of a unit), or choose a file \
             system that holds such files (FAT does not beyond 4 GiB)"
        }
        (FailureKind::Space, operation) if operation.starts_with(NO_MEMORY) => {
            "ask for less (fewer --streams, a smaller --request), allow more where it is short (--memory, there `serve \
             --memory`), or wait until others are done: the same command resumes"
        }
        (FailureKind::Busy, START_THREAD) => {
            "the daemon may have no more threads (`ulimit -u`, TasksMax of its unit): the same command again, later"
        }
        (FailureKind::Io, START | START_THREAD) => {
            "where that was said, allow more threads or memory (`ulimit -u`, `ulimit -v`, TasksMax of a unit), then run the same \
             command again: it resumes"
        }
        _ => return None,
    })
}
