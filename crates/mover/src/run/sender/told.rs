//! What a server that sends, and removes its files, tells the client that asked for it: names as they go, and at the
//! end how many.
//!
//! Names wait while the link is backed up, up to a bound; what finds no room, and what was said to a link that broke,
//! is only in the numbers.

use super::SendRun;
use super::removing::{Removing, Sources};
use crate::event::{Event, Events};
use crate::failure::{self, Failure};
use crate::mutex::lock;
use crate::run::party::State;
use crate::transfer::sender::Sender;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{SourceTotals, TransferMessage, first_batch};

/// Names, and why others stay, that wait for the link.
const UNTOLD_BYTES_MAX: usize = 16 << 20;
/// Names in one message.
const GONE_MAX: usize = 256;
/// The same of failures, with their names.
const KEPT_MAX: usize = 64;
/// How often a thread that waits for the link looks whether it takes more.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Default)]
pub(super) struct Untold {
    gone: VecDeque<RelativePath>,
    kept: VecDeque<Failure>,
    bytes: usize,
    /// Names that stay for a reason of their own, whether or not they are told.
    kept_count: u64,
    /// The client has the numbers.
    is_heard: bool,
}

impl Untold {
    fn note(&mut self, event: Event) {
        match event {
            Event::SourceRemoved(path) if self.has_room(gone_bytes(&path)) => self.gone.push_back(path),
            Event::SourceKept(failure) => {
                self.kept_count += 1;
                if self.has_room(kept_bytes(&failure)) {
                    self.kept.push_back(failure);
                }
            }
            _ => {}
        }
    }

    /// Takes room for so many bytes, if there is some.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= UNTOLD_BYTES_MAX;
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    fn next(&mut self) -> Option<TransferMessage> {
        if !self.gone.is_empty() {
            let count = first_batch(&self.gone, GONE_MAX, gone_bytes);
            let names: Vec<RelativePath> = self.gone.drain(..count).collect();
            self.bytes -= names.iter().map(gone_bytes).sum::<usize>();
            return Some(TransferMessage::SourcesGone(names));
        }
        if !self.kept.is_empty() {
            let count = first_batch(&self.kept, KEPT_MAX, kept_bytes);
            let failures: Vec<Failure> = self.kept.drain(..count).collect();
            self.bytes -= failures.iter().map(kept_bytes).sum::<usize>();
            return Some(TransferMessage::SourcesKept(failures));
        }
        None
    }

    /// Tells no more names: what waits is only in the numbers.
    fn give_up(&mut self) {
        self.gone.clear();
        self.kept.clear();
        self.bytes = 0;
    }

    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.kept.is_empty()
    }
}

fn gone_bytes(path: &RelativePath) -> usize {
    size_of::<RelativePath>() + path.as_bytes().len()
}

fn kept_bytes(failure: &Failure) -> usize {
    let path = failure.path.as_ref().map_or(0, |path| path.as_bytes().len());
    size_of::<Failure>() + failure.operation.len() + failure.cause.len() + path
}

impl SendRun {
    /// As [`SendRun::remove_sources`], for a client that asked for it, and is told of them. If `waits`, all go when
    /// both sides have agreed.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn remove_sources_for_peer(self: &Arc<Self>, waits: bool) -> failure::Result<()> {
        let telling = Arc::downgrade(self);
        let events: Events = Arc::new(move |event| {
            if let Some(run) = telling.upgrade() {
                lock(&run.untold).note(event);
            }
        });
        self.start_removing(Arc::default(), waits, events)
    }

    /// Source files removed so far; in a dry run those that would be.
    pub fn sources_removed(&self) -> u64 {
        self.removing.get().map_or(0, Removing::removed)
    }

    /// Memory of names that wait to be removed, or to be told, in bytes; about.
    pub(super) fn removal_bytes(&self) -> usize {
        self.removing.get().map_or(0, Removing::held_bytes) + lock(&self.untold).bytes
    }

    /// Whether the client wants no more source files to be removed, or its session has ended.
    pub fn is_called_off(&self) -> bool {
        self.lock().end.no_word.is_some()
    }

    /// Tells the client the names that wait, until none does, it wants no more, or `is_in_vain`, which is asked some
    /// times a second.
    pub fn tell_names(&self, is_in_vain: &dyn Fn() -> bool) {
        let mut state = self.lock();
        loop {
            self.say_sources(&state);
            if lock(&self.untold).is_empty() || state.end.no_word.is_some() || is_in_vain() {
                return;
            }
            state = self.common.wait_in(state, LOOK_AGAIN);
        }
    }

    /// Tells the client what became of source files, in place of the last word that was said before, and waits until it
    /// has heard that, wants no more, or `is_in_vain`, which is asked some times a second. Its session says it to a
    /// client that comes later.
    pub fn tell_sources(&self, sources: &Sources, is_in_vain: &dyn Fn() -> bool) {
        let mut state = self.lock();
        let kept = {
            let mut untold = lock(&self.untold);
            // No name comes behind the numbers, which have all of them.
            untold.give_up();
            untold.kept_count
        };
        let (removed, left, is_cut_short) = (sources.removed, sources.left, sources.is_cut_short);
        let word = TransferMessage::SourcesDone(SourceTotals { removed, kept, left, is_cut_short });
        state.say(word.clone());
        state.end.last_word = Some(word);
        while !lock(&self.untold).is_heard && state.end.no_word.is_none() && !is_in_vain() {
            state = self.common.wait_in(state, LOOK_AGAIN);
        }
    }

    /// Tells as many names as the link takes. Called with the lock held.
    pub(super) fn say_sources(&self, state: &State<Sender, ()>) {
        while self.removing.get().is_some() && !state.is_backed_up() {
            let Some(message) = lock(&self.untold).next() else { return };
            state.say(message);
        }
    }

    /// The client has the numbers. Called with the lock held.
    pub(super) fn sources_are_heard(&self) {
        lock(&self.untold).is_heard = true;
        self.common.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
    use crate::failure::FailureKind;
    use crate::filter::Filter;
    use crate::run::Outbox;
    use crate::run::transfer::Transfer;
    use crate::transfer::sender::Limits;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    use thalweg_wire::EntryId;
    use thalweg_wire::message::{Message, Outcome, Terms, TransferNumber};

    /// Far more than it takes.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Keeps what is said.
    #[derive(Clone, Default)]
    struct Said {
        words: Arc<Mutex<Vec<TransferMessage>>>,
        /// Nobody takes it.
        is_full: Arc<AtomicBool>,
    }

    impl Outbox for Said {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            lock(&self.words).push(message);
        }

        fn work(&self) {}

        fn queued_bytes(&self) -> usize {
            if self.is_full.load(Ordering::SeqCst) { usize::MAX } else { 0 }
        }
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let until = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A sender of two links in `root` that the receiver has, and that may go.
    fn removing(root: &Path, said: &Said) -> Arc<SendRun> {
        for name in ["a", "b"] {
            std::os::unix::fs::symlink("there", root.join(name)).unwrap();
        }
        let root = SourceRoot { path: root.to_owned(), contents: true, below: None };
        let options = ScanOptions {
            filter: Filter::default(),
            only: Vec::new(),
            preserve: Default::default(),
            one_file_system: false,
            follow_links: false,
            part: None,
            direct: Default::default(),
        };
        let source = Arc::new(LocalSource::open(vec![root], options).unwrap());
        let terms = Terms::of(4 << 20, 1 << 20);
        let limits = Limits::for_path(&terms, None);
        let (number, outbox) = (TransferNumber(1), Box::new(said.clone()));
        let run = SendRun::new(number, source, terms, limits, outbox, crate::event::nobody());
        run.remove_sources_for_peer(false).unwrap();
        run.stream_up(0);
        run.start().unwrap();
        wait_until(|| run.scan_totals().is_some());
        // Behind the directory that they are in.
        let settled = [1, 2].map(|id| (EntryId(id), Outcome::Unchanged { digest: None }));
        run.hear(TransferMessage::Settled(settled.to_vec())).unwrap();
        run
    }

    #[test]
    fn a_client_is_told_what_went_and_then_how_many_until_it_has_heard_that() {
        let (scratch, said) = (tempfile::tempdir().unwrap(), Said::default());
        let run = removing(scratch.path(), &said);
        let sources = run.finish_removing(&|| false);
        assert_eq!((sources.removed, run.sources_removed()), (2, 2));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        let done = TransferMessage::SourcesDone(SourceTotals { removed: 2, ..SourceTotals::default() });
        let is_done = || lock(&said.words).last() == Some(&done);
        let until = Instant::now() + 2 * LIMIT;
        let is_in_vain = || Instant::now() >= until;
        std::thread::scope(|scope| {
            let tells = scope.spawn(|| {
                run.tell_names(&is_in_vain);
                run.tell_sources(&sources, &is_in_vain);
            });
            wait_until(is_done);
            assert!(!tells.is_finished(), "it does not wait until that is heard");
            run.hear(TransferMessage::SourcesHeard).unwrap();
            wait_until(|| tells.is_finished());
        });
        let names = lock(&said.words).iter().fold(0, |names, message| match message {
            TransferMessage::SourcesGone(more) => names + more.len(),
            _ => names,
        });
        assert_eq!(names, 2);
        // It is said again to a link that takes the place of the one before.
        lock(&said.words).clear();
        run.link_up();
        assert!(is_done());
    }

    #[test]
    fn a_name_for_which_the_link_has_no_room_is_in_the_numbers_and_does_not_come_behind_them() {
        let (scratch, said) = (tempfile::tempdir().unwrap(), Said::default());
        let run = removing(scratch.path(), &said);
        let sources = run.finish_removing(&|| false);
        said.is_full.store(true, Ordering::SeqCst);
        run.tell_names(&|| true);
        run.tell_sources(&sources, &|| true);
        said.is_full.store(false, Ordering::SeqCst);
        run.tick();
        let done = TransferMessage::SourcesDone(SourceTotals { removed: 2, ..SourceTotals::default() });
        assert_eq!(lock(&said.words).last(), Some(&done));
        assert_eq!(run.removal_bytes(), 0);
    }

    #[test]
    fn long_names_are_told_in_messages_that_fit() {
        let mut untold = Untold::default();
        let long = "x/".repeat(8 << 10) + "x";
        let path = RelativePath::new(long.into_bytes()).unwrap();
        let kept = Failure::new(FailureKind::Changed, "remove", "it changed").at(&path);
        for _ in 0..300 {
            untold.note(Event::SourceRemoved(path.clone()));
            untold.note(Event::SourceKept(kept.clone()));
        }
        let mut told = (0, 0);
        while let Some(message) = untold.next() {
            match &message {
                TransferMessage::SourcesGone(names) => told.0 += names.len(),
                TransferMessage::SourcesKept(failures) => told.1 += failures.len(),
                other => panic!("{other:?}"),
            }
            Message::Transfer(TransferNumber(1), message).encode().unwrap();
        }
        assert_eq!((told, untold.bytes), ((300, 300), 0));
    }

    #[test]
    fn names_are_told_in_messages_that_fit_and_beyond_the_bound_only_counted() {
        let mut untold = Untold::default();
        let path = |name: String| RelativePath::new(name.into_bytes()).unwrap();
        for number in 0..=GONE_MAX {
            untold.note(Event::SourceRemoved(path(number.to_string())));
        }
        let changed = || Failure::new(FailureKind::Changed, "remove", "it changed");
        untold.note(Event::SourceKept(changed().at(&path("kept".to_owned()))));
        let counts: Vec<usize> = std::iter::from_fn(|| untold.next())
            .map(|message| match message {
                TransferMessage::SourcesGone(names) => names.len(),
                TransferMessage::SourcesKept(failures) => failures.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((counts, untold.bytes, untold.kept_count), (vec![GONE_MAX, 1, 1], 0, 1));
        assert!(untold.is_empty());
        let long = "x".repeat(1 << 20);
        (0..32).for_each(|_| untold.note(Event::SourceKept(Failure { cause: long.clone(), ..changed() })));
        assert!(untold.bytes <= UNTOLD_BYTES_MAX && untold.kept.len() < 32);
        assert_eq!(untold.kept_count, 33);
    }
}
