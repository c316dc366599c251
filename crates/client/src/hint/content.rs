use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        (_, Reason::Damaged) => {
            "the same bytes arrived damaged many times: suspect memory, a network card or a disk on the way"
        }
        (_, Reason::NameLost) => {
            "leave a file alone as long as `thalweg mark` says that it is growing; what was written of this one has to be \
             streamed anew, under another name or when `thalweg gc` has removed what is noted of it"
        }
        (_, Reason::NameReplaced) => "open it again: somebody replaced it, or writes it",
        (FailureKind::Changed, _) => "copy from a snapshot, or when nobody writes",
        _ => return None,
    })
}
