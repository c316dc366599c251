//! What a far sender tells of its files that it removes, where this side asked for it: see
//! [`SendRun::tell_sources`](crate::run::sender::SendRun::tell_sources).

use super::ReceiveRun;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_wire::message::{SourceTotals, TransferMessage};

/// See the module.
pub(super) struct FarSources {
    /// Counts names that went, by all attempts.
    removed: Arc<AtomicU64>,
    /// Names told in this transfer to be gone.
    gone: AtomicU64,
    /// And to stay.
    kept: AtomicU64,
    done: OnceLock<SourceTotals>,
}

impl ReceiveRun {
    /// From now on hears what the sender removes of its source, and counts it in `removed`. Call before it is added to
    /// its session.
    pub fn expect_removal(&self, removed: Arc<AtomicU64>) {
        if self.common.terms.dry_run {
            // Each attempt tells of all.
            removed.store(0, Ordering::Relaxed);
        }
        let (gone, kept) = (AtomicU64::new(0), AtomicU64::new(0));
        let _ = self.sources.set(FarSources { removed, gone, kept, done: OnceLock::new() });
    }

    /// What became of source files that the sender was to remove, once it said so; waits at most so long, and no longer
    /// where it says nothing any more.
    pub fn peer_sources(&self, patience: Duration) -> Option<SourceTotals> {
        self.common.wait_for(
            patience,
            |_| self.sources.get()?.done.get().copied(),
            |state| state.end.no_word.is_some(),
        )
    }

    /// Names of the source that were told to be gone, and to stay.
    pub fn sources_told(&self) -> (u64, u64) {
        let told = |sources: &FarSources| [&sources.gone, &sources.kept].map(|n| n.load(Ordering::Relaxed));
        self.sources.get().map_or((0, 0), |sources| told(sources).into())
    }

    /// Whether the sender says nothing any more.
    pub fn is_left_alone(&self) -> bool {
        self.lock().end.no_word.is_some()
    }

    /// Hears what is told of source files, of so many entries offered. `None`: it is about something else.
    pub(super) fn hear_sources(&self, message: &TransferMessage, offered: u64) -> Option<Result<()>> {
        use TransferMessage as T;
        if !matches!(message, T::SourcesGone(_) | T::SourcesKept(_) | T::SourcesDone(_)) {
            return None;
        }
        let Some(sources) = self.sources.get() else {
            return Some(protocol("it removes source files, which nobody asked for"));
        };
        let (gone, kept) = self.sources_told();
        let has_room = |more: usize| gone + kept + more as u64 <= offered;
        match message {
            T::SourcesGone(names) if has_room(names.len()) => {
                // Behind the numbers they are in them.
                let is_counted = sources.done.get().is_some();
                for name in names {
                    sources.gone.fetch_add(1, Ordering::Relaxed);
                    sources.removed.fetch_add(u64::from(!is_counted), Ordering::Relaxed);
                    (self.events)(Event::SourceRemoved(name.clone()));
                }
            }
            T::SourcesKept(failures) if has_room(failures.len()) => {
                for failure in failures {
                    sources.kept.fetch_add(1, Ordering::Relaxed);
                    (self.events)(Event::SourceKept(failure.clone()));
                }
            }
            T::SourcesDone(totals) if totals.removed.saturating_add(totals.kept) <= offered => {
                // Said again over another link it is the same.
                if sources.done.set(*totals).is_ok() {
                    sources.removed.fetch_add(totals.removed.saturating_sub(gone), Ordering::Relaxed);
                }
            }
            _ => return Some(protocol("it tells of more source files than it has offered")),
        }
        Some(Ok(()))
    }
}

fn protocol(cause: &str) -> Result<()> {
    Err(Failure::new(FailureKind::Protocol, "receive", cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::synthetic::NullDestination;
    use crate::event;
    use crate::run::Outbox;
    use crate::run::party::Party;
    use crate::run::transfer::Transfer;
    use crate::transfer::receiver::Limits;
    use thalweg_wire::message::{Terms, TransferNumber};
    use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    fn path(name: &str) -> RelativePath {
        RelativePath::new(name.into()).unwrap()
    }

    /// A receiver that was offered two links.
    fn run() -> Arc<ReceiveRun> {
        let (terms, to) = (Terms::of(4 << 20, 1 << 20), Arc::new(NullDestination::default()));
        let outbox = Box::new(Nobody);
        let run = ReceiveRun::start(TransferNumber(1), to, terms, Limits::default(), outbox, event::nobody());
        let run = run.unwrap();
        let link = |id: u64| Entry {
            id: EntryId(id),
            path: path(&id.to_string()),
            kind: Kind::Symlink { target: b"there".to_vec() },
            mode: 0o777,
            uid: 0,
            gid: 0,
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        };
        run.hear(TransferMessage::Offer(vec![link(0), link(1)])).unwrap();
        run
    }

    #[test]
    fn who_asked_for_no_removal_or_is_told_of_more_than_there_was_ends_the_session() {
        use TransferMessage as T;
        let gone = |names: &[&str]| T::SourcesGone(names.iter().map(|name| path(name)).collect());
        let done = |removed| T::SourcesDone(SourceTotals { removed, ..SourceTotals::default() });
        let unasked = run();
        assert_eq!(unasked.hear(gone(&["0"])).unwrap_err().kind, FailureKind::Protocol);
        unasked.close();
        for too_much in [gone(&["0", "1", "2"]), done(3), done(u64::MAX)] {
            let run = run();
            run.expect_removal(Arc::default());
            assert_eq!(run.hear(too_much).unwrap_err().kind, FailureKind::Protocol);
            run.close();
        }
    }

    #[test]
    fn what_was_told_to_a_link_that_broke_is_in_the_numbers_once() {
        let run = run();
        let removed = Arc::new(AtomicU64::new(5));
        run.expect_removal(removed.clone());
        assert_eq!(run.peer_sources(Duration::ZERO), None);
        run.hear(TransferMessage::SourcesGone(vec![path("0")])).unwrap();
        let totals = SourceTotals { removed: 2, ..SourceTotals::default() };
        for _ in 0..2 {
            run.hear(TransferMessage::SourcesDone(totals)).unwrap();
            assert_eq!(run.peer_sources(Duration::ZERO), Some(totals));
        }
        let kept = Failure::new(FailureKind::Changed, "remove", "it changed").at(&path("1"));
        run.hear(TransferMessage::SourcesKept(vec![kept])).unwrap();
        assert_eq!((run.sources_told(), removed.load(Ordering::Relaxed)), ((1, 1), 7));
        run.close();
    }

    #[test]
    fn a_name_that_comes_behind_the_numbers_is_not_counted_twice() {
        let run = run();
        let removed = Arc::new(AtomicU64::new(0));
        run.expect_removal(removed.clone());
        let totals = SourceTotals { removed: 1, ..SourceTotals::default() };
        run.hear(TransferMessage::SourcesDone(totals)).unwrap();
        run.hear(TransferMessage::SourcesGone(vec![path("0")])).unwrap();
        assert_eq!((run.sources_told(), removed.load(Ordering::Relaxed)), ((1, 0), 1));
        run.close();
    }
}
