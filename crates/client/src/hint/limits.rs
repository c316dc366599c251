use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (_, Reason::CongestionRefused) => {
            "name one that is permitted there with --cca, leave it out for the far side's own choice, or have its \
             net.ipv4.tcp_allowed_congestion_control permit it"
        }
        (_, Reason::NoDescriptors) => {
            "where that was said, allow more open files (`ulimit -n`, LimitNOFILE of a unit; for the whole machine fs.file-max), \
             then run the same command again: it resumes"
        }
        (_, Reason::FileTooLarge) => {
            "one file may not have so many bytes there: raise that limit (`ulimit -f`, LimitFSIZE of a unit), or choose a file \
             system that holds such files (FAT does not beyond 4 GiB)"
        }
        (_, Reason::NoMemory) => {
            "ask for less (fewer --streams, a smaller --request), allow more where it is short (--memory, there `serve \
             --memory`), or wait until others are done: the same command resumes"
        }
        (FailureKind::Busy, Reason::NoThreads) => {
            "the daemon may have no more threads (`ulimit -u`, TasksMax of its unit): the same command again, later"
        }
        (FailureKind::Io, Reason::NoThreads) => {
            "where that was said, allow more threads or memory (`ulimit -u`, `ulimit -v`, TasksMax of a unit), then run the same \
             command again: it resumes"
        }
        _ => return None,
    })
}
