//! Source files that may go, for the destination has them, verified and durable: removed by a thread of its
//! own while the copy goes on.
//!
//! 1. The machine says that an entry is settled and may go.
//! 2. The thread has the source look at it again, and remove its name if it is what was read.
//! 3. Some names go only when both sides have agreed: those that the user named, so that another attempt
//!    finds them, and those of files with several, so that the scan finds all of these. Of the latter the
//!    first goes first, and the others only if it went. Where a receipt is written all wait for that: in the one of
//!    another attempt what is gone by then would be missing.
//!
//! What is not removed by then stays. The scan waits while too much waits here.

use super::SendRun;
use crate::endpoint::{Removal, Source};
use crate::event::{Event, Events};
use crate::failure::{Failure, Result};
use crate::mutex::lock;
use crate::run::thread;
use crate::transfer::stays::{Fate, Left, Stays, why_it_stays};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_wire::{Entry, Evidence, Kind, RelativePath};

/// Names that wait for the thread when the scan begins to wait too. Those of entries in flight come besides.
const WAITING_MAX: usize = 16 << 10;
/// Memory for names that wait for the end; what does not find room stays. Some hundred thousand names.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// The thread looks for work at least this often, whatever it was told.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often one that waits for the thread looks whether a stop is asked for.
const LOOK_FOR_STOP: Duration = Duration::from_millis(100);

/// What became of source files that were to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// Names removed, by all attempts; in a dry run those that would be.
    pub removed: u64,
    /// Names of files and links that the destination has, or left alone, and that stay, by cause; in a dry run those
    /// that would. All as the last attempt found them.
    pub left: Left,
    /// Some of these only because a stop was asked for while the last were removed.
    pub is_cut_short: bool,
}

/// See the module. It removes nothing more when it goes.
pub(super) struct Removing {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Who removes, and who is told.
pub(super) struct Removes {
    /// Where.
    pub source: Arc<dyn Source>,
    /// Hears what went and what did not.
    pub events: Events,
    /// Only tell.
    pub dry_run: bool,
    /// Nothing goes before both sides have agreed.
    pub waits: bool,
    /// Counts what went.
    pub removed: Arc<AtomicU64>,
}

struct Shared {
    by: Removes,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Name>,
    /// For the end.
    kept: Vec<Name>,
    kept_bytes: usize,
    left: Left,
    /// See [`Sources::is_cut_short`].
    is_cut_short: bool,
    /// In a dry run: files, by device and inode, of which the first name stays. Those that find room.
    staying: HashSet<(u64, u64)>,
    /// The thread has done all that it was to do.
    is_worked_off: bool,
    phase: Phase,
}

/// In order: none comes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    /// Nothing more comes; what waits is removed.
    Ending,
    /// Nothing is removed any more.
    Stopped,
}

struct Name {
    path: RelativePath,
    seen: Evidence,
    /// Of a file with a first name.
    is_second: bool,
}

impl SendRun {
    /// Removes source files from now on, each when the destination has it, verified and durable; if lines of a
    /// receipt are told by now, all when both sides have agreed. In a dry run only tells of them. `removed` counts
    /// them. Call it before [`SendRun::start`].
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn remove_sources(self: &Arc<Self>, removed: Arc<AtomicU64>) -> Result<()> {
        if self.common.terms.dry_run {
            // Each attempt tells of all.
            removed.store(0, Ordering::Relaxed);
        }
        let waits = self.lock().end.tells_lines();
        self.start_removing(removed, waits, self.events.clone())
    }

    pub(super) fn start_removing(
        self: &Arc<Self>,
        removed: Arc<AtomicU64>,
        waits: bool,
        events: Events,
    ) -> Result<()> {
        let (waking, aborting) = (Arc::downgrade(self), Arc::downgrade(self));
        let dry_run = self.common.terms.dry_run;
        let by = Removes { source: self.source.clone(), events, dry_run, waits, removed };
        let wakes = move || {
            if let Some(run) = waking.upgrade() {
                run.common.notify();
            }
        };
        let on_panic = move |failure| {
            if let Some(run) = aborting.upgrade() {
                run.abort(failure);
            }
        };
        let removing = Removing::start(by, wakes, on_panic)?;
        self.lock().machine.tell_redundant();
        let _ = self.removing.set(removing);
        Ok(())
    }

    /// Removes the rest of the source files that may go, until somebody asks for a stop: both sides have agreed. What
    /// became of all of them.
    pub fn finish_removing(&self, is_stopped: &dyn Fn() -> bool) -> Sources {
        self.removing.get().map_or_else(Sources::default, |removing| removing.finish(is_stopped))
    }

    /// As [`SendRun::finish_removing`], where both sides will not agree: without those that wait for that.
    pub fn drain_removing(&self, is_stopped: &dyn Fn() -> bool) {
        if let Some(removing) = self.removing.get() {
            removing.drain(is_stopped);
        }
    }

    /// Removes no more source files, from when this returns on.
    pub fn stop_removing(&self) {
        if let Some(removing) = self.removing.get() {
            removing.stop();
        }
    }
}

impl Removing {
    /// Starts the thread. It calls `wakes` when there is room again, and `on_panic` if it panics.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        by: Removes,
        wakes: impl Fn() + Send + 'static,
        on_panic: impl FnOnce(Failure) + Send + 'static,
    ) -> Result<Removing> {
        let shared = Arc::new(Shared { by, queue: Mutex::default(), changed: Condvar::new() });
        let works = shared.clone();
        let thread = thread::guarded("remove", on_panic, move || works.work(&wakes))?;
        Ok(Removing { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Takes an entry that is settled, and whether it may go. Called with the lock of the transfer held.
    pub fn note(&self, entry: &Entry, fate: Fate) {
        let shared = &*self.shared;
        let name = Name {
            path: entry.path.clone(),
            seen: entry.evidence,
            is_second: matches!(entry.kind, Kind::HardLink { .. }),
        };
        let mut queue = lock(&shared.queue);
        match (fate, queue.phase) {
            (Err(why), _) => {
                queue.left.add(why, 1);
                if shared.by.dry_run && !name.is_second {
                    queue.stays(&name);
                }
            }
            (Ok(()), Phase::Stopped) => {}
            (Ok(()), _) if shared.by.dry_run && !name.is_second => {
                drop(queue);
                shared.went(name.path);
            }
            (Ok(()), _) if name.is_second || shared.by.waits => queue.keep(name),
            (Ok(()), _) => {
                queue.waiting.push_back(name);
                drop(queue);
                shared.changed.notify_one();
            }
        }
    }

    /// Whether the scan may go on.
    pub fn has_room(&self) -> bool {
        lock(&self.shared.queue).waiting.len() < WAITING_MAX
    }

    /// Names removed so far.
    pub fn removed(&self) -> u64 {
        self.shared.by.removed.load(Ordering::Relaxed)
    }

    /// Memory of names that wait, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        let queue = lock(&self.shared.queue);
        queue.kept_bytes + queue.waiting.len() * size_of::<Name>()
    }

    /// Removes all that may go, for both sides have agreed, until somebody asks for a stop: what is left by then
    /// stays. Takes as long as the source takes.
    pub fn finish(&self, is_stopped: &dyn Fn() -> bool) -> Sources {
        self.drain(is_stopped);
        self.shared.remove_kept(is_stopped);
        let queue = lock(&self.shared.queue);
        Sources {
            removed: self.shared.by.removed.load(Ordering::Relaxed),
            left: queue.left,
            is_cut_short: queue.is_cut_short,
        }
    }

    /// The same without names that wait for the end. What is noted from now on stays.
    pub fn drain(&self, is_stopped: &dyn Fn() -> bool) {
        self.shared.go_over(Phase::Ending);
        self.shared.wait_for(&self.thread, is_stopped);
        self.shared.remove_waiting(is_stopped);
        self.end(Phase::Ending);
    }

    /// Removes nothing more, from when this returns on.
    pub fn stop(&self) {
        self.end(Phase::Stopped);
    }

    /// Whether it was told to.
    pub fn is_stopped(&self) -> bool {
        lock(&self.shared.queue).phase == Phase::Stopped
    }

    fn end(&self, phase: Phase) {
        self.shared.go_over(phase);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Removing {
    fn drop(&mut self) {
        self.shared.go_over(Phase::Stopped);
    }
}

impl Queue {
    fn keep(&mut self, name: Name) {
        let bytes = size_of::<Name>() + name.path.as_bytes().len();
        if self.kept_bytes + bytes > KEPT_BYTES_MAX {
            self.left.add(Stays::TooMany, 1);
            return;
        }
        self.kept_bytes += bytes;
        self.kept.push(name);
    }

    fn stays(&mut self, name: &Name) {
        let bytes = 2 * size_of::<(u64, u64)>();
        if self.kept_bytes + bytes <= KEPT_BYTES_MAX && self.staying.insert(name.file()) {
            self.kept_bytes += bytes;
        }
    }
}

impl Name {
    /// Device and inode.
    fn file(&self) -> (u64, u64) {
        (self.seen.device, self.seen.inode)
    }
}

impl Shared {
    fn go_over(&self, phase: Phase) {
        let mut queue = lock(&self.queue);
        queue.phase = queue.phase.max(phase);
        drop(queue);
        self.changed.notify_all();
    }

    fn work(&self, wakes: &dyn Fn()) {
        while let Some((name, has_room_again)) = self.next() {
            self.remove_soon(name);
            if has_room_again {
                wakes();
            }
        }
        lock(&self.queue).is_worked_off = true;
        self.changed.notify_all();
    }

    /// Until the thread has worked off what waits, or died, or a stop is asked for.
    fn wait_for(&self, thread: &Mutex<Option<JoinHandle<()>>>, is_stopped: &dyn Fn() -> bool) {
        let is_alive = || lock(thread).as_ref().is_some_and(|thread| !thread.is_finished());
        let mut queue = lock(&self.queue);
        while !queue.is_worked_off && is_alive() && !is_stopped() {
            let waited = self.changed.wait_timeout(queue, LOOK_FOR_STOP);
            queue = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// The next name, and whether with it half of what may wait is gone.
    fn next(&self) -> Option<(Name, bool)> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.phase == Phase::Stopped {
                return None;
            }
            if let Some(name) = queue.waiting.pop_front() {
                return Some((name, queue.waiting.len() == WAITING_MAX / 2));
            }
            if queue.phase == Phase::Ending {
                return None;
            }
            let waited = self.changed.wait_timeout(queue, LOOK_AGAIN);
            queue = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// What the thread has left, if it died; what a stop keeps it from is counted.
    fn remove_waiting(&self, is_stopped: &dyn Fn() -> bool) {
        while !is_stopped()
            && let Some((name, _)) = self.next()
        {
            self.remove_soon(name);
        }
        let mut queue = lock(&self.queue);
        if queue.phase == Phase::Ending {
            let rest = std::mem::take(&mut queue.waiting).len();
            queue.left.add(Stays::Stop, rest as u64);
            queue.is_cut_short |= rest > 0;
        }
    }

    fn remove_soon(&self, name: Name) {
        match self.by.source.remove(&name.path, &name.seen, false) {
            Ok(Removal::Gone { .. }) => self.went(name.path),
            Ok(Removal::Later) => lock(&self.queue).keep(name),
            Err(failure) => self.stays(failure),
        }
    }

    /// First names before second ones. A dry run tells of the latter, which are all that it keeps.
    fn remove_kept(&self, is_stopped: &dyn Fn() -> bool) {
        let mut queue = lock(&self.queue);
        if queue.phase == Phase::Stopped {
            return;
        }
        let (mut kept, staying) = (std::mem::take(&mut queue.kept), std::mem::take(&mut queue.staying));
        drop(queue);
        if self.by.dry_run {
            for name in kept {
                match staying.contains(&name.file()) {
                    true => self.counts(Stays::Second),
                    false => self.went(name.path),
                }
            }
            return;
        }
        kept.sort_by_key(|name| name.is_second);
        let with_second: HashSet<_> = kept.iter().filter(|name| name.is_second).map(Name::file).collect();
        // What the other names of a file show, since one of them went; `None` if nothing tells that.
        let mut others: HashMap<(u64, u64), Option<Evidence>> = HashMap::new();
        for name in kept {
            if is_stopped() {
                let mut queue = lock(&self.queue);
                queue.left.add(Stays::Stop, 1);
                queue.is_cut_short = true;
                continue;
            }
            let file = name.file();
            let is_same = |now: &Evidence| (now.size, now.mtime) == (name.seen.size, name.seen.mtime);
            let first = others.get(&file).copied();
            let other = first.flatten().filter(|now| is_same(now));
            if name.is_second && other.is_none() {
                self.counts(if first.is_none() { Stays::Second } else { Stays::Changed });
                continue;
            }
            match self.by.source.remove(&name.path, &other.unwrap_or(name.seen), true) {
                Ok(Removal::Gone { left }) => {
                    if with_second.contains(&file) {
                        let known = others.entry(file).or_default();
                        *known = left.or(*known);
                    }
                    self.went(name.path);
                }
                Ok(Removal::Later) => self.counts(Stays::NotRemoved),
                Err(failure) => self.stays(failure),
            }
        }
    }

    fn counts(&self, why: Stays) {
        lock(&self.queue).left.add(why, 1);
    }

    fn went(&self, path: RelativePath) {
        self.by.removed.fetch_add(1, Ordering::Relaxed);
        (self.by.events)(Event::SourceRemoved(path));
    }

    /// It is told by its name, and counted if it is there.
    fn stays(&self, failure: Failure) {
        if let Some(why) = why_it_stays(&failure) {
            self.counts(why);
        }
        (self.by.events)(Event::SourceKept(failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ScanSink, SourceFile};
    use crate::failure::{FailureKind, Reason};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Instant;
    use thalweg_wire::message::ScanTotals;
    use thalweg_wire::{EntryId, Time};

    /// A source of names that only go: `named` at the end, `changed` and `written` never, those of inode 7 by what the
    /// one before left. What is called `gone` is gone by then.
    #[derive(Default)]
    struct Names {
        gone: Mutex<Vec<String>>,
        /// Inode 7: changes so far.
        changes: Mutex<u32>,
        /// While it holds nothing goes.
        holds: AtomicBool,
    }

    impl Source for Names {
        fn scan(&self, _: &mut dyn ScanSink) -> ScanTotals {
            ScanTotals::default()
        }

        fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
            Err(Failure::new(FailureKind::NotFound, "open", "there is none").at(&entry.path))
        }

        fn look_again(&self, entry: &Entry) -> Result<Entry> {
            Err(Failure::new(FailureKind::NotFound, "look", "there is none").at(&entry.path))
        }

        fn remove(&self, path: &RelativePath, seen: &Evidence, is_end: bool) -> Result<Removal> {
            let until = Instant::now() + Duration::from_secs(60);
            while self.holds.load(Ordering::SeqCst) {
                assert!(Instant::now() < until, "nobody lets go");
                std::thread::sleep(Duration::from_millis(1));
            }
            let (name, has_others) = (path.to_string(), seen.inode == 7);
            if !is_end && (has_others || name.starts_with("named")) {
                return Ok(Removal::Later);
            }
            let mut changes = lock(&self.changes);
            if name.starts_with("gone") {
                return Err(Failure::new(FailureKind::NotFound, "remove", "there is none").at(path));
            }
            if name.starts_with("written") {
                let failure = Failure::new(FailureKind::Changed, "remove", "it is open for writing");
                return Err(failure.because(Reason::StillWritten).at(path));
            }
            if name.starts_with("changed") || (has_others && seen.ctime.nanos != *changes) {
                return Err(Failure::new(FailureKind::Changed, "remove", "it changed").at(path));
            }
            lock(&self.gone).push(name);
            if !has_others {
                return Ok(Removal::Gone { left: None });
            }
            *changes += 1;
            let ctime = Time { nanos: *changes, ..seen.ctime };
            Ok(Removal::Gone { left: Some(Evidence { ctime, ..*seen }) })
        }
    }

    /// So many went; one stays for each of these causes.
    fn sources(removed: u64, stay: &[Stays]) -> Sources {
        let mut left = Left::default();
        stay.iter().for_each(|why| left.add(*why, 1));
        Sources { removed, left, is_cut_short: false }
    }

    struct Bed {
        source: Arc<Names>,
        removing: Removing,
        told: mpsc::Receiver<Event>,
    }

    fn bed(dry_run: bool) -> Bed {
        bed_that(dry_run, false)
    }

    fn bed_that(dry_run: bool, waits: bool) -> Bed {
        let source = Arc::new(Names::default());
        let (tells, told) = mpsc::channel();
        let by = Removes {
            source: source.clone(),
            events: Arc::new(move |event| tells.send(event).unwrap()),
            dry_run,
            waits,
            removed: Arc::default(),
        };
        let removing = Removing::start(by, || {}, |failure| panic!("{failure}")).unwrap();
        Bed { source, removing, told }
    }

    impl Bed {
        fn note(&self, entry: &Entry) {
            self.removing.note(entry, Ok(()));
        }

        fn gone(&self) -> Vec<String> {
            lock(&self.source.gone).clone()
        }

        /// Names that were told as gone, and those that were told to stay.
        fn told(&self) -> (Vec<String>, Vec<String>) {
            let (mut gone, mut stay) = (Vec::new(), Vec::new());
            for event in self.told.try_iter() {
                match event {
                    Event::SourceRemoved(path) => gone.push(path.to_string()),
                    Event::SourceKept(failure) => stay.push(failure.path.unwrap().to_string()),
                    other => panic!("{other:?}"),
                }
            }
            (gone, stay)
        }
    }

    fn file(name: &str) -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(name.as_bytes().to_vec()).unwrap(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    /// A name of inode 7.
    fn name(name: &str, is_second: bool) -> Entry {
        let first = RelativePath::new(b"first".to_vec()).unwrap();
        let entry = file(name);
        let kind = if is_second { Kind::HardLink { first, of: EntryId(0) } } else { entry.kind };
        Entry { kind, evidence: Evidence { inode: 7, ..Evidence::default() }, ..entry }
    }

    #[test]
    fn what_may_go_goes_what_changed_is_named_and_what_stays_is_counted_by_its_cause() {
        let bed = bed(false);
        bed.note(&file("a"));
        bed.note(&file("changed"));
        bed.removing.note(&file("looked-at"), Err(Stays::NotCompared));
        bed.note(&file("named"));
        bed.note(&file("b"));
        bed.note(&file("written"));
        bed.note(&file("gone"));
        let stay = [Stays::Changed, Stays::NotCompared, Stays::OpenForWriting];
        assert_eq!(bed.removing.finish(&|| false), sources(3, &stay));
        // Who is named is looked for until the end.
        assert_eq!(bed.gone(), ["a", "b", "named"]);
        let (gone, stay) = bed.told();
        assert_eq!((gone, stay), (bed.gone(), ["changed", "written", "gone"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn where_a_receipt_is_written_nothing_goes_before_both_have_agreed() {
        let noted = || {
            let bed = bed_that(false, true);
            ["a", "named", "b"].iter().for_each(|name| bed.note(&file(name)));
            bed
        };
        let bed = noted();
        // The thread has done all that is to be done before the end.
        bed.removing.end(Phase::Ending);
        assert_eq!(bed.gone(), [""; 0]);
        assert_eq!(bed.removing.finish(&|| false), sources(3, &[]));
        assert_eq!(bed.gone(), ["a", "named", "b"]);
        // Nobody signed: the next attempt finds all of it.
        let bed = noted();
        bed.removing.end(Phase::Ending);
        bed.removing.stop();
        assert_eq!(bed.removing.finish(&|| false), sources(0, &[]));
        assert_eq!(bed.gone(), [""; 0]);
    }

    #[test]
    fn names_of_one_file_go_at_the_end_and_the_others_only_if_the_first_does() {
        let bed = bed(false);
        // Whichever comes first.
        for (entry, is_second) in [("c", true), ("a", false), ("b", true)] {
            bed.note(&name(entry, is_second));
        }
        assert_eq!(bed.gone(), [""; 0]);
        assert_eq!(bed.removing.finish(&|| false), sources(3, &[]));
        assert_eq!(bed.gone(), ["a", "c", "b"]);

        let bed = self::bed(false);
        bed.removing.note(&name("a", false), Err(Stays::NotInFull));
        bed.note(&name("b", true));
        assert_eq!(bed.removing.finish(&|| false), sources(0, &[Stays::NotInFull, Stays::Second]));
        assert_eq!(bed.gone(), [""; 0]);

        // The first went, and the file had grown by the time that the second was offered.
        let bed = self::bed(false);
        bed.note(&name("a", false));
        let second = name("b", true);
        bed.note(&Entry { evidence: Evidence { size: 1, ..second.evidence }, ..second });
        assert_eq!(bed.removing.finish(&|| false), sources(1, &[Stays::Changed]));
        assert_eq!(bed.gone(), ["a"]);
    }

    #[test]
    fn when_a_link_is_lost_what_is_settled_goes_and_what_waits_for_the_end_stays() {
        let bed = bed(false);
        ["a", "named", "b"].iter().for_each(|name| bed.note(&file(name)));
        bed.removing.drain(&|| false);
        bed.note(&file("c"));
        bed.removing.stop();
        assert_eq!(bed.removing.finish(&|| false), sources(2, &[]));
        let mut gone = bed.gone();
        gone.sort();
        assert_eq!(gone, ["a", "b"]);
    }

    #[test]
    fn who_asks_for_a_stop_at_the_end_keeps_the_rest_and_is_told_how_many() {
        let bed = bed(false);
        ["named", "named-too"].iter().for_each(|name| bed.note(&file(name)));
        bed.note(&name("b", true));
        let stay = [Stays::Stop; 3];
        assert_eq!(bed.removing.finish(&|| true), Sources { is_cut_short: true, ..sources(0, &stay) });
        assert_eq!(bed.gone(), [""; 0]);
    }

    #[test]
    fn a_dry_run_removes_no_second_name_of_a_file_whose_first_stays() {
        let bed = bed(true);
        bed.note(&name("b", true));
        bed.removing.note(&name("a", false), Err(Stays::LeftAlone));
        bed.note(&file("c"));
        assert_eq!(bed.removing.finish(&|| false), sources(1, &[Stays::LeftAlone, Stays::Second]));
        assert_eq!(bed.told().0, ["c"]);
    }

    #[test]
    fn when_it_is_stopped_nothing_more_goes_whatever_comes() {
        let bed = bed(false);
        bed.note(&file("named"));
        bed.removing.stop();
        bed.note(&file("a"));
        assert_eq!(bed.removing.finish(&|| false), Sources::default());
        assert_eq!((bed.gone(), bed.told()), (Vec::new(), (Vec::new(), Vec::new())));
    }

    #[test]
    fn a_dry_run_tells_what_would_go_and_removes_nothing() {
        let bed = bed(true);
        bed.note(&file("a"));
        bed.note(&name("b", true));
        assert_eq!(bed.removing.finish(&|| false), sources(2, &[]));
        assert_eq!(bed.gone(), [""; 0]);
        assert_eq!(bed.told().0, ["a", "b"]);
    }

    #[test]
    fn there_is_no_room_while_too_many_names_wait() {
        let bed = bed(false);
        bed.source.holds.store(true, Ordering::SeqCst);
        // The thread has one of them.
        let names = WAITING_MAX + 1;
        (0..names).for_each(|_| bed.note(&file("a")));
        assert!(!bed.removing.has_room());
        bed.source.holds.store(false, Ordering::SeqCst);
        assert_eq!(bed.removing.finish(&|| false), sources(names as u64, &[]));
        assert!(bed.removing.has_room());
    }
}
