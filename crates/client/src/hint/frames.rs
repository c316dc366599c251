use super::operation::TAKE_HUB_DIRECTORY;
use thalweg_mover::frames::{
    DECLARE, FINISH, JOIN, OPEN_CHANNEL, OPEN_LOG, PUSH, READ_SIZE, SYNC_LOG, TAKE_NAME, WRITE_LOG,
};
use thalweg_mover::run::frames::windows;
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        // A sender of frames that was let in before says `Connection` where it is not let in again.
        (FailureKind::Busy | FailureKind::Connection, windows::OPERATION) => {
            "ask for less (a smaller --window), have the daemon give more (`serve --frames-memory`), or wait until others are done"
        }
        (FailureKind::Busy | FailureKind::Connection | FailureKind::Conflict, TAKE_NAME) => {
            "end the other one, or take another name: --producer, or --name of a consumer"
        }
        (FailureKind::Busy | FailureKind::Connection, JOIN) => {
            "have consumers take what is there and end who is not needed (`thalweg frames status` tells who is there), or use \
             another channel"
        }
        (FailureKind::Busy, WRITE_LOG) => {
            "make room where the hub's log is (or make it writable): it tries again until it can"
        }
        (FailureKind::Busy | FailureKind::Connection, DECLARE) | (FailureKind::Busy, PUSH | FINISH) => {
            "its consumers are slower than its producers, or away: `thalweg frames status` tells who is how far behind"
        }
        (FailureKind::Conflict, DECLARE) => {
            "give this set another number (--set), or use another channel: frames of a set that is over count in none"
        }
        (FailureKind::Busy, OPEN_CHANNEL) => {
            "the hub has no room for one more channel: wait until one is not used any more, open the others with less (--memory), or \
             have the daemon give more (`serve --frames-memory`)"
        }
        (FailureKind::Busy, OPEN_LOG) => {
            "another daemon, or a `frames pull --hub`, serves the same directory: end it, or use another channel"
        }
        (FailureKind::Busy, TAKE_HUB_DIRECTORY) => {
            "end the other `frames pull --hub`, or choose another directory: each hub has its own"
        }
        (FailureKind::Damage, SYNC_LOG) => {
            "leave alone what is beside a channel's name as long as its hub runs; a hub that is started anew begins a new log"
        }
        (FailureKind::Damage, READ_SIZE) => {
            "write the bytes that the log may have into that file, as a number: at least what its files have now"
        }
        _ => return None,
    })
}
