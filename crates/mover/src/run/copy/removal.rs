//! Copies that remove their source files: which may, and what is said of files that stay.

use super::{From, GivenSource, Job, To, Wishes, removes_in_part};
use crate::endpoint::local::source::LocalSource;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result, counted, shown_path};
use crate::run::sender::{SendRun, Sources};
use crate::run::{Ended, agree};
use crate::transfer::stays::{Left, Stays};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use thalweg_wire::message::{Check, Totals};

/// Refuses the removal of source files where nothing would keep their content, where the same copy once more would
/// delete it, and in a part.
///
/// # Errors
/// `Usage`, with what stands in the way.
pub(super) fn check(from: &From, to: &To, wishes: &Wishes) -> Result<()> {
    if !wishes.removes_sources {
        return Ok(());
    }
    if let Some(part) = wishes.selection.part {
        return Err(removes_in_part(part));
    }
    match (from, to) {
        (From::Zero(_) | From::Noise(..) | From::Dataset(_) | From::Simulated(_), _) => {
            refused("there are none in this source")
        }
        (From::Given(GivenSource { keeps: Some(why), .. }), _) => refused(why),
        (From::Local(_) | From::Given(_) | From::Far(..), To::Null | To::Scratch(..) | To::Simulated(_)) => {
            refused("the destination keeps nothing")
        }
        _ if wishes.fidelity.delete_max.is_some() => {
            let cause = "the next time --delete would delete at the destination what is gone here";
            refused(cause)
        }
        _ if wishes.selection.follow_links => {
            let cause = "with --copy-links (-L) what is copied has its name elsewhere";
            refused(cause)
        }
        (From::Local(_) | From::Given(_) | From::Far(..), To::Local(_) | To::Given(_) | To::Far(..)) => {
            Ok(())
        }
    }
}

/// As [`refuse_sources`], if source files are to be removed.
pub(super) fn check_source(source: &LocalSource, wishes: &Wishes) -> Result<()> {
    if wishes.removes_sources { refuse_sources(source) } else { Ok(()) }
}

/// Refuses it where the contents of several directories are copied as those of one: when the first of two
/// files with one name is gone, the same copy once more would put the second in its place. And where one source
/// is in another: one file would be found by two names.
///
/// # Errors
/// `Usage`.
pub fn refuse_sources(source: &LocalSource) -> Result<()> {
    if source.is_merged() {
        let cause = "the contents of several directories become those of one: copy one after the other";
        return refused(cause);
    }
    if let Some((inner, outer)) = source.nested() {
        let (inner, outer) = (shown_path(bytes(inner)), shown_path(bytes(outer)));
        let cause = format!("`{inner}` is in `{outer}`, and would be copied twice: name one of the two");
        return refused(&cause);
    }
    Ok(())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn refused(cause: &str) -> Result<()> {
    let cause = format!("source files cannot be removed (--remove-source-files): {cause}");
    Err(Failure::new(FailureKind::Usage, "copy", cause))
}

/// Nothing more is removed when this goes: another attempt finds what stays.
pub(super) struct StopsRemoving<'a>(pub &'a SendRun);

impl Drop for StopsRemoving<'_> {
    fn drop(&mut self) {
        self.0.stop_removing();
    }
}

/// What `run`, which ended so, and its peer agree on. Where the link was lost before that, what is settled goes first:
/// the destination has it, and another attempt does not see that it is the same.
///
/// # Errors
/// Why it failed, or they do not agree.
pub(super) fn agreed<T>(
    run: &SendRun,
    ended: Result<Ended>,
    agree: impl FnOnce(Totals) -> Result<T>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<T> {
    let agreed = ended.and_then(agree::totals_of).and_then(agree);
    if agreed.as_ref().is_err_and(|failure| failure.kind == FailureKind::Connection) {
        run.drain_removing(is_stopped);
    }
    agreed
}

impl Job<'_> {
    /// What counts the source files removed, if some are to be.
    pub(super) fn removed(&self) -> Option<Arc<AtomicU64>> {
        self.wishes.removes_sources.then(|| self.removed.clone())
    }

    /// Says why source files stay.
    pub(super) fn tell_left(&self, sources: &Sources) {
        let compares = self.wishes.fidelity.check == Check::Digest;
        if let Some(text) = told_of_left(&sources.left, self.wishes.dry_run, compares) {
            (self.watch.events)(Event::Note(text));
        }
    }
}

/// How many source files stay, and how many of them for which cause; `None` if none does. `compares`: content was asked
/// to be compared.
fn told_of_left(left: &Left, dry_run: bool, compares: bool) -> Option<String> {
    let causes = Stays::ALL.into_iter().filter(|why| left.of(*why) > 0);
    let causes: Vec<String> = causes.map(|why| cause_of(why, left.of(why), compares)).collect();
    let word = if dry_run { "would leave" } else { "left" };
    let files = counted(left.sum(), "source file", "source files");
    (!causes.is_empty()).then(|| format!("{word} {files}: {}", causes.join(", ")))
}

fn cause_of(why: Stays, count: u64, compares: bool) -> String {
    let of = |one: &str, many: &str| counted(count, one, many);
    match why {
        Stays::LeftAlone => of("left alone at the destination", "left alone at the destination"),
        Stays::NotCompared => {
            let advice = if compares { "" } else { " (--check digest does that)" };
            let not = "there before and not compared by content";
            format!("{} {not}{advice}", of("was", "were"))
        }
        Stays::NotInFull => {
            let lacks = of("is there without all of its", "are there without all of their");
            format!("{lacks} metadata or links (see --no-owner and --no-xattrs)")
        }
        Stays::Second => of(
            "is another name of a file whose first one stays",
            "are other names of files whose first ones stay",
        ),
        Stays::TooMany => {
            let too_many = of("is one too many", "are too many");
            format!("{too_many} to be kept in mind until both sides had agreed")
        }
        Stays::Stop => of("was not come to before the stop", "were not come to before the stop"),
        Stays::Changed => of("changed since it was copied", "changed since they were copied"),
        Stays::OpenForWriting => of("is open for writing", "are open for writing"),
        Stays::NotRemoved => of("could not be removed", "could not be removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Removal, ScanSink, Source, SourceFile};
    use crate::failure;
    use crate::link::Identity;
    use crate::run::agree::Agreed;
    use crate::run::copy::{Selection, Stop, Watch, copy};
    use crate::run::party::Party;
    use crate::run::transfer::Transfer;
    use crate::run::{LineSink, Outbox, ReceiptSink};
    use crate::transfer::sender::Limits;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use thalweg_wire::message::{Outcome, ScanTotals, Terms, TransferMessage, TransferNumber};
    use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

    /// Far more than it takes.
    const LIMIT: Duration = Duration::from_secs(60);

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    /// Two links. While it holds none goes.
    struct Links {
        holds: AtomicBool,
    }

    impl Source for Links {
        fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
            for name in ["a", "b"] {
                sink.entry(Entry {
                    id: EntryId(0),
                    path: RelativePath::new(name.into()).unwrap(),
                    kind: Kind::Symlink { target: b"there".to_vec() },
                    mode: 0o777,
                    uid: 0,
                    gid: 0,
                    evidence: Evidence::default(),
                    xattrs: Vec::new(),
                });
            }
            ScanTotals { entries: 2, complete: true, ..ScanTotals::default() }
        }

        fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
            Err(Failure::new(FailureKind::NotFound, "open", "there is none").at(&entry.path))
        }

        fn look_again(&self, entry: &Entry) -> Result<Entry> {
            Err(Failure::new(FailureKind::NotFound, "look", "there is none").at(&entry.path))
        }

        fn remove(&self, _: &RelativePath, _: &Evidence, _: bool) -> Result<Removal> {
            let until = Instant::now() + LIMIT;
            while self.holds.load(Ordering::SeqCst) {
                assert!(Instant::now() < until, "nobody lets go");
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Removal::Gone { left: None })
        }
    }

    #[test]
    fn only_causes_that_there_were_are_told_each_with_how_many_it_kept() {
        let of = |counts: &[(Stays, u64)], dry_run, compares| {
            let mut left = Left::default();
            counts.iter().for_each(|(why, count)| left.add(*why, *count));
            told_of_left(&left, dry_run, compares)
        };
        assert_eq!(of(&[], false, false), None);
        let told = of(&[(Stays::OpenForWriting, 1), (Stays::Changed, 2)], false, false).unwrap();
        let changed = "2 changed since they were copied";
        assert_eq!(told, format!("left 3 source files: {changed}, 1 is open for writing"));
        let told = of(&[(Stays::NotCompared, 1)], true, false).unwrap();
        let not_compared = "1 was there before and not compared by content";
        assert_eq!(told, format!("would leave 1 source file: {not_compared} (--check digest does that)"));
        // Who has asked for that is not told to.
        let told = of(&[(Stays::NotCompared, 1)], false, true).unwrap();
        assert_eq!(told, format!("left 1 source file: {not_compared}"));
        for (why, count) in Stays::ALL.into_iter().zip([1, 2].into_iter().cycle()) {
            let told = of(&[(why, count)], false, false).unwrap();
            assert!(told.contains(&format!(": {count} ")) && !told.contains(", "), "{told}");
        }
    }

    #[test]
    fn when_the_link_is_lost_for_good_what_is_settled_goes_and_with_another_failure_it_stays() {
        for (kind, gone) in [(FailureKind::Connection, 2), (FailureKind::Damage, 0)] {
            let source = Arc::new(Links { holds: AtomicBool::new(true) });
            let terms = Terms::of(4 << 20, 1 << 20);
            let limits = Limits::for_path(&terms, None);
            let events = crate::event::nobody();
            let number = TransferNumber(0);
            let run = SendRun::new(number, source.clone(), terms, limits, Box::new(Nobody), events);
            let removed = Arc::new(AtomicU64::new(0));
            run.remove_sources(removed.clone()).unwrap();
            run.stream_up(0);
            run.start().unwrap();
            let until = Instant::now() + LIMIT;
            while run.scan_totals().is_none() {
                assert!(Instant::now() < until, "the scan does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            let settled = [0, 1].map(|id| (EntryId(id), Outcome::Unchanged { digest: None }));
            run.hear(TransferMessage::Settled(settled.to_vec())).unwrap();
            run.session_ends(0, &Failure::new(kind, "transfer", "as the test wants it"));
            let ended = run.wait(LIMIT).expect("an end");
            let lets_go = || {
                source.holds.store(false, Ordering::SeqCst);
                false
            };
            let failure = agreed(&run, Ok(ended), |_| Ok(()), &lets_go).unwrap_err();
            assert_eq!((failure.kind, removed.load(Ordering::Relaxed)), (kind, gone));
            // The thread ends before the test does.
            source.holds.store(false, Ordering::SeqCst);
        }
    }

    #[test]
    fn of_a_part_no_source_file_is_removed_wherever_it_is_copied() {
        let part = thalweg_wire::message::PartOf::new(2, 4);
        let of = |part, removes_sources| {
            let selection = Selection { part, ..Selection::default() };
            let wishes = Wishes { selection, removes_sources, ..Wishes::default() };
            check(&From::Local(vec!["from/".into()]), &To::Local("to".into()), &wishes)
        };
        let refused = of(part, true).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.cause.contains("in part 2/4 no source file can be removed"), "{refused}");
        assert!(of(part, false).is_ok() && of(None, true).is_ok());
    }

    /// A file system that does not answer is no link: all was copied again, and again in vain.
    #[test]
    fn a_copy_whose_receipt_cannot_be_completed_in_time_is_not_copied_again() {
        let scratch = tempfile::tempdir().unwrap();
        let (source, to) = (scratch.path().join("from/"), scratch.path().join("to"));
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("f"), "content").unwrap();
        let tries = Arc::new(AtomicU64::new(0));
        let tried = tries.clone();
        let complete = Arc::new(move |_: &Agreed| -> Result<()> {
            tried.fetch_add(1, Ordering::SeqCst);
            Err(failure::of_io("write", &io::ErrorKind::TimedOut.into()))
        });
        let lines = Arc::new(|| -> LineSink { Box::new(|_| ()) });
        let receipt = ReceiptSink { lines, header: Digest([1; 32]), complete };
        let wishes = Wishes { receipt: Some(receipt), removes_sources: true, ..Wishes::default() };
        let nobody = crate::event::nobody;
        let (meter, identity) = (Arc::default(), Identity::generate("test").unwrap());
        let watch = Watch { events: nobody(), is_behind: None, link_events: nobody(), meter, evidence: None };
        let (from, to) = (From::Local(vec![source.clone()]), To::Local(to));
        let failure = copy(&from, &to, &wishes, &identity, &watch, &Stop::default()).unwrap_err();
        assert_eq!((failure.kind, tries.load(Ordering::SeqCst)), (FailureKind::Io, 1), "{failure}");
        assert!(source.join("f").exists());
    }
}
