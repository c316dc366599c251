//! Whether most of what is offered will be read as a whole: the source is told, and may read ahead by it.

use super::SendRun;
use crate::mutex::lock;
use thalweg_wire::message::{Outcome, TransferMessage, Want};

/// Answers that are looked at together, at least.
const ENOUGH: u64 = 64;
/// Of so many answers one may be that the content is not wanted, or not all of it: each costs a source that reads ahead
/// a read in vain.
const PER_VAIN: u64 = 8;

/// The answers since they were looked at last.
#[derive(Debug, Default)]
pub(super) struct Answers {
    whole: u64,
    others: u64,
}

impl Answers {
    /// Counts those of a message. What they show, once they are enough.
    fn note(&mut self, message: &TransferMessage) -> Option<bool> {
        match message {
            TransferMessage::Want(wants) => wants.iter().for_each(|(_, want)| match want {
                Want::Whole => self.whole += 1,
                Want::Missing(_) | Want::Compare(_) => self.others += 1,
                // Its outcome follows.
                Want::Nothing => {}
            }),
            TransferMessage::Settled(outcomes) => {
                // What is done was wanted before, or has no content.
                let is_other = |outcome: &Outcome| !matches!(outcome, Outcome::Done { .. });
                self.others += outcomes.iter().filter(|(_, outcome)| is_other(outcome)).count() as u64;
            }
            _ => return None,
        }
        let all = self.whole + self.others;
        if all < ENOUGH {
            return None;
        }
        let are_likely = self.others * PER_VAIN <= all;
        *self = Answers::default();
        Some(are_likely)
    }
}

impl SendRun {
    /// Has the source hear what the answers in a message show.
    pub(super) fn foresee(&self, message: &TransferMessage) {
        let shown = lock(&self.answers).note(message);
        if let Some(are_likely) = shown {
            self.source.expect_reads(are_likely);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ScanSink, Source, SourceFile};
    use crate::failure::{Failure, FailureKind, Result};
    use crate::run::Outbox;
    use crate::run::transfer::Transfer;
    use crate::transfer::sender::Limits;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use thalweg_wire::message::{ScanTotals, Terms, TransferNumber};
    use thalweg_wire::{Entry, EntryId};

    /// Nothing, that keeps what it heard last.
    #[derive(Default)]
    struct Hears(AtomicBool);

    fn none(entry: &Entry) -> Failure {
        Failure::new(FailureKind::NotFound, "look", "there is none").at(&entry.path)
    }

    impl Source for Hears {
        fn scan(&self, _: &mut dyn ScanSink) -> ScanTotals {
            ScanTotals::default()
        }

        fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
            Err(none(entry))
        }

        fn look_again(&self, entry: &Entry) -> Result<Entry> {
            Err(none(entry))
        }

        fn expect_reads(&self, are_likely: bool) {
            self.0.store(are_likely, Ordering::Relaxed);
        }
    }

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    #[test]
    fn the_source_hears_what_the_answers_show() {
        let (source, terms) = (Arc::new(Hears::default()), Terms::of(4 << 20, 1 << 20));
        let limits = Limits::for_path(&terms, None);
        let (outbox, events) = (Box::new(Nobody), crate::event::nobody());
        let run = SendRun::new(TransferNumber(0), source.clone(), terms, limits, outbox, events);
        for (want, is_likely) in [(Want::Whole, true), (Want::Compare(Vec::new()), false)] {
            // The machine offered none of them: what it makes of that is another matter.
            let _ = run.hear(wants(64, &want));
            assert_eq!(source.0.load(Ordering::Relaxed), is_likely);
        }
    }

    fn wants(count: u64, want: &Want) -> TransferMessage {
        TransferMessage::Want((0..count).map(|id| (EntryId(id), want.clone())).collect())
    }

    fn settled(count: u64, outcome: &Outcome) -> TransferMessage {
        TransferMessage::Settled((0..count).map(|id| (EntryId(id), outcome.clone())).collect())
    }

    #[test]
    fn reads_are_likely_where_nearly_all_that_is_offered_is_wanted_as_a_whole() {
        let unchanged = Outcome::Unchanged { digest: None };
        let done = Outcome::Done { digest: None, losses: Vec::new() };
        let mut answers = Answers::default();
        assert_eq!(answers.note(&wants(63, &Want::Whole)), None);
        assert_eq!(answers.note(&wants(1, &Want::Whole)), Some(true));
        // Each window by itself: what was wanted before says nothing of what comes.
        assert_eq!(answers.note(&wants(57, &Want::Whole)), None);
        assert_eq!(answers.note(&settled(9, &unchanged)), Some(false));
        assert_eq!(answers.note(&settled(64, &unchanged)), Some(false));
        assert_eq!(answers.note(&wants(64, &Want::Compare(Vec::new()))), Some(false));
        // What is done was counted when it was wanted, and directories are no reads.
        assert_eq!(answers.note(&settled(1000, &done)), None);
        assert_eq!(answers.note(&wants(1000, &Want::Nothing)), None);
        assert_eq!(answers.note(&settled(8, &unchanged)), None);
        assert_eq!(answers.note(&wants(56, &Want::Whole)), Some(true));
    }
}
