use thalweg_mover::endpoint::local::{KEEP_NAME, READ_ON};
use thalweg_mover::failure::VERIFY;
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Damage, VERIFY) => {
            "the same bytes arrived damaged many times: suspect memory, a network card or a disk on the way"
        }
        (FailureKind::Damage, KEEP_NAME) => {
            "leave a file alone as long as `thalweg mark` says that it is growing; what was written of this one has to be \
             streamed anew, under another name or when `thalweg gc` has removed what is noted of it"
        }
        (FailureKind::Changed, READ_ON) => "open it again: somebody replaced it, or writes it",
        (FailureKind::Changed, _) => "copy from a snapshot, or when nobody writes",
        _ => return None,
    })
}
