//! Whether a source's file or link may go that was to be removed, or why it stays.

use crate::failure::{Failure, FailureKind, Reason};
pub use thalweg_wire::message::{Left, Stays};

/// Whether nothing is lost if the source's goes; else why it stays.
pub type Fate = Result<(), Stays>;

/// What a removal that failed says; `None` of what was gone by then.
pub fn why_it_stays(failure: &Failure) -> Option<Stays> {
    match failure.kind {
        FailureKind::NotFound => None,
        FailureKind::Changed if failure.reason == Reason::StillWritten => Some(Stays::OpenForWriting),
        FailureKind::Changed => Some(Stays::Changed),
        _ => Some(Stays::NotRemoved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_by_somebody_else_does_not_stay() {
        let of = |kind, reason| why_it_stays(&Failure::new(kind, "remove", "so").because(reason));
        assert_eq!(of(FailureKind::NotFound, Reason::Other), None);
        assert_eq!(of(FailureKind::Changed, Reason::Other), Some(Stays::Changed));
        assert_eq!(of(FailureKind::Changed, Reason::StillWritten), Some(Stays::OpenForWriting));
        assert_eq!(of(FailureKind::Permission, Reason::Other), Some(Stays::NotRemoved));
    }
}
