//! What files do between two words of the destination.

use super::look::GONE_MIN;
use super::*;
use crate::endpoint::acl::ACL;
use crate::endpoint::feed::Pushed;
use crate::endpoint::feed::Wanted;
use crate::journal::marks::Marks;
use crate::retry::Again;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use thalweg_wire::Digest;
use thalweg_wire::message::FlowMark;

/// Longest that any of these waits.
const LIMIT: Duration = Duration::from_secs(30);

/// A destination in memory. What is complete there it says when the test likes.
#[derive(Default)]
struct Fake {
    state: Mutex<Known>,
    /// Complete flows are not let go by themselves.
    is_late: AtomicBool,
    is_over: AtomicBool,
    /// Nobody knows where flows go on.
    is_cut: AtomicBool,
    /// It has no room for another flow.
    is_full: AtomicBool,
    /// What time it is, in seconds; it passes while a source is read again.
    seconds: Arc<AtomicU64>,
}

#[derive(Default)]
struct Known {
    flows: Vec<Flow>,
    wanted: VecDeque<Wanted>,
    notes: Vec<String>,
    failed: Option<Failure>,
    is_last: bool,
    left: Vec<FlowLeft>,
    missed: Vec<(RelativePath, Failure)>,
    again: Vec<(EntryId, Option<Again>)>,
}

struct Flow {
    path: RelativePath,
    origin: Origin,
    mode: u32,
    content: Vec<u8>,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Rewinding,
    Open,
    Ended,
    Failed(Failure),
}

impl Fake {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn let_go(&self, flow: usize, is_done: bool) {
        let failure = (!is_done).then(|| Failure::new(FailureKind::Internal, "stream", "a test"));
        self.lock().wanted.push_back(Wanted::LetGo { flow: EntryId(flow as u64), failure });
    }

    /// The destination fails.
    fn fails(&self, flow: usize, kind: FailureKind) {
        let (mut state, failure) = (self.lock(), Failure::new(kind, "write", "a test"));
        state.flows[flow].phase = Phase::Failed(failure.clone());
        state.wanted.push_back(Wanted::LetGo { flow: EntryId(flow as u64), failure: Some(failure) });
    }

    /// What a flow has, once it is like this.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Known) -> bool) {
        let until = Instant::now() + LIMIT;
        while !is_so(&self.lock()) {
            let state = self.lock();
            assert!(state.failed.is_none(), "{what}: {:?}", state.failed);
            assert!(Instant::now() < until, "{what}: {:?}", state.notes);
            drop(state);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Known {
    fn is(&self, flow: usize, phase: &Phase, content: &[u8]) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.phase == *phase && flow.content == content)
    }
}

impl Taker for Fake {
    fn left(&self, _: Duration) -> Option<(Vec<FlowLeft>, u64)> {
        Some((std::mem::take(&mut self.lock().left), 0))
    }

    fn begin(&self, path: RelativePath, (origin, _): (Origin, bool), mode: u32) -> Result<EntryId> {
        let mut state = self.lock();
        let flow = EntryId(state.flows.len() as u64);
        let before = state.flows.iter().rev().find(|known| known.path == path && known.origin == origin);
        let content = before.map(|flow| flow.content.clone()).unwrap_or_default();
        let phase = if content.is_empty() { Phase::Open } else { Phase::Rewinding };
        if phase == Phase::Rewinding {
            let digest = Digest(*blake3::hash(&content).as_bytes());
            let at = FlowMark { flow, bytes: content.len() as u64, digest };
            state.wanted.push_back(Wanted::Rewind { at, is_ours: true, is_over: false });
        }
        state.flows.push(Flow { path, origin, mode, content, phase });
        Ok(flow)
    }

    fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Acquire)
    }

    fn position(&self, flow: EntryId) -> Option<u64> {
        if self.is_cut.load(Ordering::Acquire) {
            return None;
        }
        let state = self.lock();
        let flow = state.flows.get(flow.0 as usize).filter(|flow| flow.phase == Phase::Open);
        flow.map(|flow| flow.content.len() as u64)
    }

    fn digest(&self, flow: EntryId) -> Option<Digest> {
        let state = self.lock();
        state.flows.get(flow.0 as usize).map(|flow| Digest(*blake3::hash(&flow.content).as_bytes()))
    }

    fn push(&self, flow: EntryId, offset: u64, bytes: &[u8]) -> Pushed {
        if self.position(flow) != Some(offset) {
            return Pushed::Elsewhere;
        }
        self.lock().flows[flow.0 as usize].content.extend_from_slice(bytes);
        Pushed::Taken
    }

    fn end(&self, flow: EntryId) {
        self.lock().flows[flow.0 as usize].phase = Phase::Ended;
        if !self.is_late.load(Ordering::Acquire) {
            self.let_go(flow.0 as usize, true);
        }
    }

    fn give_up(&self, flow: EntryId, failure: Failure) {
        let mut state = self.lock();
        state.flows[flow.0 as usize].phase = Phase::Failed(failure.clone());
        state.wanted.push_back(Wanted::LetGo { flow, failure: Some(failure) });
    }

    fn begins_again(&self, flow: EntryId, again: Option<Again>) {
        self.lock().again.push((flow, again));
    }

    fn last(&self) {
        self.lock().is_last = true;
    }

    fn wanted(&self, at_most: Duration) -> Vec<Wanted> {
        std::thread::sleep(at_most);
        self.lock().wanted.drain(..).collect()
    }

    fn rewound(&self, at: &FlowMark, result: Result<blake3::Hasher>) {
        match result {
            Ok(_) => self.lock().flows[at.flow.0 as usize].phase = Phase::Open,
            Err(failure) => self.give_up(at.flow, failure),
        }
    }

    fn missed(&self, path: RelativePath, failure: Failure) {
        self.lock().missed.push((path, failure));
    }

    fn note(&self, text: String) {
        self.lock().notes.push(text);
    }

    fn failed(&self, failure: Failure) {
        self.lock().failed = Some(failure);
    }

    fn is_over(&self) -> bool {
        if self.lock().flows.iter().any(|flow| flow.phase == Phase::Rewinding) {
            self.seconds.fetch_add(1, Ordering::AcqRel);
        }
        self.is_over.load(Ordering::Acquire)
    }
}

/// Ends what reads, also where the test fails.
struct Over<'a>(&'a Fake);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// What follows a directory, or a file in it.
fn feed_of(dir: &Path, name: Option<&str>, until: Until) -> FilesFeed {
    FilesFeed::new(FilesSpec {
        dir: Dir::open(dir).unwrap(),
        place: None,
        name: name.map(|name| name.as_bytes().to_vec()),
        below: None,
        prefix: RelativePath::default(),
        until,
        piece_bytes: 64 << 10,
    })
}

/// Streams a directory, or a file in it, while the test does something.
fn streamed(dir: &Path, name: Option<&str>, until: Until, taker: &Fake, test: impl FnOnce()) {
    let feed = Box::new(feed_of(dir, name, until));
    std::thread::scope(|scope| {
        scope.spawn(|| feed.run(taker));
        let over = Over(taker);
        test();
        taker.wait("the end", |state| state.is_last);
        drop(over);
    });
}

fn until_done() -> Until {
    Until { closed: true, marker: Some(b"DONE".to_vec()), ..Until::default() }
}

#[test]
fn what_comes_between_the_word_that_a_file_is_complete_and_the_destinations_is_sent() {
    let scratch = tempfile::tempdir().unwrap();
    let (log, taker) = (scratch.path().join("log"), Fake::default());
    taker.is_late.store(true, Ordering::Release);
    append(&log, &[1; 1000]);
    let whole = [&[1; 1000][..], &[2; 50]].concat();
    streamed(scratch.path(), None, until_done(), &taker, || {
        taker.wait("complete", |state| state.is(0, &Phase::Ended, &[1; 1000]));
        append(&log, &[2; 50]);
        taker.let_go(0, true);
        taker.wait("what came since", |state| state.is(1, &Phase::Ended, &whole));
        // And once more, with the end of all in between.
        append(&log, &[3; 7]);
        append(&scratch.path().join("DONE"), b"");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!taker.lock().is_last, "bytes are missing");
        taker.is_late.store(false, Ordering::Release);
        taker.let_go(1, true);
    });
    let state = taker.lock();
    assert!(state.is(2, &Phase::Ended, &[&whole[..], &[3; 7]].concat()));
    assert_eq!(state.flows.len(), 3);
}

#[test]
fn a_file_comes_without_its_acl_and_gives_the_owning_group_no_more_than_that_did() {
    const NOBODY: u32 = u32::MAX;
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("log"), &[1; 10]);
    // Owner, a user, the owning group (which may only read), the most that these two may, and the others.
    let entries = [(1u16, 6u16, NOBODY), (2, 6, 1234), (4, 4, NOBODY), (0x10, 6, NOBODY), (0x20, 0, NOBODY)];
    let mut acl = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&permissions.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    let dir = Dir::open(scratch.path()).unwrap();
    if dir.set_xattr(b"log", ACL, &acl).is_err() {
        eprintln!("skipped: no ACLs here");
        return;
    }
    assert_eq!(dir.stat(b"log").unwrap().mode & 0o777, 0o660);
    append(&scratch.path().join("DONE"), b"");
    streamed(scratch.path(), None, until_done(), &taker, || {});
    assert_eq!(taker.lock().flows[0].mode, 0o640);
}

#[test]
fn bytes_in_the_middle_that_change_while_the_file_grows_are_seen_where_that_was_asked_for() {
    use std::os::unix::fs::FileExt;
    for recheck in [true, false] {
        let scratch = tempfile::tempdir().unwrap();
        let (log, taker) = (scratch.path().join("log"), Fake::default());
        append(&log, &[1; 200_000]);
        let writer = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        let other = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        let sent = [&[1; 200_000][..], &[3; 1000]].concat();
        let until = Until { recheck, ..until_done() };
        streamed(scratch.path(), None, until, &taker, || {
            taker.wait("what there is", |state| state.is(0, &Phase::Open, &[1; 200_000]));
            // Far from what is looked at when it grows: its first and its last bytes.
            (&writer).write_all(&[3; 1000]).unwrap();
            other.write_all_at(&[2; 10], 100_000).unwrap();
            taker.wait("what it grew by", |state| state.is(0, &Phase::Open, &sent));
            (&writer).write_all(&[4; 10]).unwrap();
            drop((writer, other));
            append(&scratch.path().join("DONE"), b"");
        });
        let state = taker.lock();
        match &state.flows[0].phase {
            Phase::Failed(failure) => {
                assert!(
                    failure.cause.contains("changed afterwards") && failure.kind == FailureKind::Changed,
                    "{failure}"
                );
            }
            // It may also be seen by chance: between the change and what it grew by next.
            phase => assert!(!recheck && *phase == Phase::Ended, "{phase:?}"),
        }
    }
}

/// Marks of a stream into `root` that has written so much of a file in it.
fn marks(root: &Path, name: &str, durable: &[u8]) -> (Marks, u64) {
    let staging = root.join(".thalweg-staging/job");
    std::fs::create_dir_all(&staging).unwrap();
    let mut marks = Marks::open(Arc::new(Dir::open(&staging).unwrap())).unwrap();
    let name = RelativePath::new(name.as_bytes().to_vec()).unwrap();
    let number = marks.begin(name.clone(), Origin::default(), name, false);
    let digest = Digest(*blake3::hash(durable).as_bytes());
    marks.record(&[(number, durable.len() as u64, digest)]).unwrap();
    (marks, number)
}

fn until_closed() -> Until {
    Until { closed: true, ..Until::default() }
}

#[test]
fn a_file_is_believed_up_to_its_mark_wherever_above_it_that_is() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let dir = scratch.path().join("a/b");
    std::fs::create_dir_all(&dir).unwrap();
    let content = [[1; 500], [2; 500]].concat();
    append(&dir.join("file"), &content[..800]);
    let (mut marks, number) = marks(scratch.path(), "a/b/file", &content[..500]);
    streamed(&dir, Some("file"), until_closed(), &taker, || {
        taker.wait("up to the mark", |state| state.is(0, &Phase::Open, &content[..500]));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(taker.lock().is(0, &Phase::Open, &content[..500]), "it goes by its mark");
        append(&dir.join("file"), &content[800..]);
        marks.record(&[(number, 1000, Digest(*blake3::hash(&content).as_bytes()))]).unwrap();
        taker.wait("the rest", |state| state.is(0, &Phase::Open, &content));
        marks.end(number).unwrap();
    });
    assert!(taker.lock().is(0, &Phase::Ended, &content));
}

#[test]
fn a_mark_of_another_file_is_not_believed_and_told_once() {
    for durable in [&[9; 500][..], &[1; 3000]] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("file"), &[1; 1000]);
        let (_marks, _) = marks(scratch.path(), "file", durable);
        streamed(scratch.path(), Some("file"), until_closed(), &taker, || {});
        let state = taker.lock();
        // Its first bytes are sent by then.
        assert!(state.is(0, &Phase::Ended, &[1; 1000]), "{:?}", state.flows[0].phase);
        let told = state.notes.iter().filter(|note| note.contains("is not the file that a stream wrote"));
        assert_eq!(told.count(), 1, "{:?}", state.notes);
    }
}

#[test]
fn what_another_stream_has_not_completed_does_not_end_as_complete() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("file"), &[1; 1000]);
    let (_marks, _) = marks(scratch.path(), "file", &[1; 500]);
    let until = Until { idle_ms: Some(300), ..Until::default() };
    streamed(scratch.path(), Some("file"), until, &taker, || {});
    let state = taker.lock();
    assert_eq!(state.flows[0].content, [1; 500]);
    assert!(matches!(&state.flows[0].phase, Phase::Failed(failure) if failure.kind == FailureKind::Busy));
}

#[test]
fn files_that_come_and_go_are_forgotten_and_none_is_streamed_twice() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let mut feed = feed_of(scratch.path(), None, until_closed());
    let mut buffer = vec![0; 64 << 10];
    let stays = scratch.path().join("stays");
    append(&stays, b"x");
    let rounds = 5 * GONE_MIN / 500;
    for round in 0..rounds {
        let names: Vec<_> = (0..500).map(|number| scratch.path().join(format!("{round}-{number}"))).collect();
        names.iter().for_each(|name| append(name, b"y"));
        // All are begun, read and let go, however many may be open at the same time.
        while feed.found.names.len() != 501 || feed.found.waiting > 0 || !feed.flows.files.is_empty() {
            feed.look(&taker).unwrap();
            feed.flows.busy.extend(feed.flows.files.keys().copied());
            feed.tend(&taker, &mut buffer, false).unwrap();
            feed.hear(Duration::ZERO, &taker, &mut buffer).unwrap();
        }
        assert!(feed.done.len() <= GONE_MIN.max(2 * 501) + 501, "{} are remembered", feed.done.len());
        names.iter().for_each(|name| std::fs::remove_file(name).unwrap());
        feed.look(&taker).unwrap();
    }
    let state = taker.lock();
    assert_eq!(state.flows.len(), rounds * 500 + 1, "one of them was streamed twice");
    assert!(state.flows.iter().all(|flow| flow.phase == Phase::Ended), "not all were complete");
}

#[test]
fn a_file_for_which_there_is_no_room_in_the_receipt_has_its_turn_when_there_is() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("file"), b"x");
    let mut feed = feed_of(scratch.path(), None, until_closed());
    taker.is_full.store(true, Ordering::Release);
    feed.look(&taker).unwrap();
    assert_eq!((feed.found.waiting, taker.lock().flows.len()), (1, 0));
    assert!(!feed.is_turn(&taker), "it would look without end");
    feed.look(&taker).unwrap();
    let notes = taker.lock().notes.clone();
    let told = notes.iter().filter(|note| note.starts_with("1 more file waits until some of those"));
    assert_eq!(told.count(), 1, "{notes:?}");
    taker.is_full.store(false, Ordering::Release);
    assert!(feed.is_turn(&taker));
    feed.look(&taker).unwrap();
    assert_eq!((feed.found.waiting, taker.lock().flows.len()), (0, 1));
}

#[test]
fn a_directory_that_is_gone_is_not_remembered() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let mut feed = feed_of(scratch.path(), None, Until::default());
    feed.watching.watch = Some(Watch::new().unwrap());
    for round in 0..20 {
        let dir = scratch.path().join(format!("run-{round}"));
        std::fs::create_dir(&dir).unwrap();
        feed.look(&taker).unwrap();
        assert_eq!(feed.watching.dirs.len(), 2);
        std::fs::remove_dir(&dir).unwrap();
    }
    feed.look(&taker).unwrap();
    assert_eq!(feed.watching.dirs.len(), 1);
}

#[test]
fn a_beginning_that_is_changed_while_the_file_grows_is_told_in_the_end() {
    use std::os::unix::fs::FileExt;
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let mut feed = feed_of(scratch.path(), None, Until::default());
    let mut buffer = vec![0; 64 << 10];
    for (name, changed) in [("log", Some(7)), ("sound", None)] {
        let path = scratch.path().join(name);
        append(&path, &[1; 20_000]);
        feed.look(&taker).unwrap();
        feed.tend(&taker, &mut buffer, false).unwrap();
        // Between two looks.
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        changed.into_iter().for_each(|at| file.write_all_at(&[2], at).unwrap());
        append(&path, &[3; 1000]);
        feed.flows.busy.extend(feed.flows.files.keys().copied());
        feed.tend(&taker, &mut buffer, true).unwrap();
    }
    let whole = [&[1; 20_000][..], &[3; 1000]].concat();
    let state = taker.lock();
    let phase = &state.flows[0].phase;
    assert!(matches!(phase, Phase::Failed(failure) if failure.kind == FailureKind::Changed), "{phase:?}");
    assert!(state.is(1, &Phase::Ended, &whole), "{:?}", state.flows[1].phase);
}

#[test]
fn a_complete_file_that_is_written_anew_with_as_many_bytes_is_another_stream() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (latest, rests) = (scratch.path().join("latest"), scratch.path().join("rests"));
    append(&latest, &[1; 1000]);
    append(&rests, &[9; 1000]);
    let set = |path: &Path, seconds| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    [&latest, &rests].into_iter().for_each(|path| set(path, 1));
    let taken =
        |state: &Known| state.wanted.is_empty() && state.flows.iter().all(|flow| flow.phase == Phase::Ended);
    streamed(scratch.path(), None, until_done(), &taker, || {
        taker.wait("complete", |state| state.flows.len() == 2 && taken(state));
        std::fs::write(&latest, [2; 1000]).unwrap();
        set(&latest, 2);
        taker.wait("anew", |state| state.flows.iter().any(|flow| flow.content == [2; 1000]) && taken(state));
        append(&scratch.path().join("DONE"), b"");
    });
    let state = taker.lock();
    let of = |name: &str| {
        state.flows.iter().filter(|flow| flow.path.as_bytes() == name.as_bytes()).collect::<Vec<_>>()
    };
    assert_eq!(of("rests").len(), 1);
    let origins: BTreeSet<Origin> = of("latest").iter().map(|flow| flow.origin).collect();
    assert_eq!(origins.len(), 2, "what it was stays as it is");
    assert!(of("latest").iter().all(|flow| flow.content == [1; 1000] || flow.content == [2; 1000]));
}

/// A feed of a directory with one file, all of which was read.
fn at_rest(root: &Path, taker: &Fake) -> (FilesFeed, Vec<u8>) {
    append(&root.join("log"), &[1; 1000]);
    let spec = FilesSpec {
        dir: Dir::open(root).unwrap(),
        place: None,
        name: None,
        below: None,
        prefix: RelativePath::default(),
        until: Until::default(),
        piece_bytes: 64 << 10,
    };
    let (mut feed, mut buffer) = (FilesFeed::new(spec), vec![0; 64 << 10]);
    feed.look(taker).unwrap();
    feed.tend(taker, &mut buffer, false).unwrap();
    assert!(taker.lock().is(0, &Phase::Open, &[1; 1000]));
    (feed, buffer)
}

#[test]
fn a_file_that_ends_at_the_moment_in_which_the_link_breaks_ends_when_it_is_back() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, mut buffer) = at_rest(scratch.path(), &taker);
    taker.lock().flows[0].phase = Phase::Rewinding;
    feed.flows.files.values_mut().for_each(|file| file.end(&taker));
    assert!(feed.flows.files.values().all(|file| !file.is_ended), "nobody would look at it again");
    taker.lock().flows[0].phase = Phase::Open;
    feed.flows.busy.extend(feed.flows.files.keys().copied());
    feed.tend(&taker, &mut buffer, true).unwrap();
    assert!(taker.lock().is(0, &Phase::Ended, &[1; 1000]));
}

#[test]
fn a_source_that_is_compared_when_the_stream_is_stopped_is_not_said_to_have_changed() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, mut buffer) = at_rest(scratch.path(), &taker);
    let digest = Digest(*blake3::hash(&[1; 1000]).as_bytes());
    let at = FlowMark { flow: EntryId(0), bytes: 1000, digest };
    let mut state = taker.lock();
    state.flows[0].phase = Phase::Rewinding;
    state.wanted.push_back(Wanted::Rewind { at, is_ours: true, is_over: false });
    drop(state);
    taker.is_over.store(true, Ordering::Release);
    feed.hear(Duration::ZERO, &taker, &mut buffer).unwrap();
    let state = taker.lock();
    assert!(state.is(0, &Phase::Rewinding, &[1; 1000]), "{:?}", state.flows[0].phase);
    assert!(state.flows.len() == 1 && state.notes.is_empty(), "{:?}", state.notes);
}

#[test]
fn while_files_come_to_their_end_one_by_one_the_others_are_not_looked_at_again_and_again() {
    const FILES: usize = 300;
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    for number in 0..FILES {
        append(&scratch.path().join(format!("{number}")), b"some");
    }
    append(&scratch.path().join("DONE"), b"");
    let mut feed = feed_of(scratch.path(), None, until_done());
    taker.is_late.store(true, Ordering::Release);
    // No look is due by time.
    let began = Instant::now();
    let calls = std::sync::atomic::AtomicU64::new(0);
    feed.eyes.clock = Box::new(move || began + Duration::from_nanos(calls.fetch_add(1, Ordering::Relaxed)));
    let (mut looks, mut buffer) = (Looks::default(), vec![0; 64 << 10]);
    let (mut looked, mut last) = (0, None);
    for round in 0.. {
        if feed.round(&mut looks, &taker, &mut buffer).unwrap().is_none() {
            break;
        }
        looked += u32::from(std::mem::replace(&mut last, looks.last) != looks.last);
        assert!(round < 10 * FILES, "it does not end");
        // The destination's word comes for one after the other.
        if (1..=FILES).contains(&round) {
            taker.let_go(round - 1, true);
        }
    }
    assert!(taker.lock().is_last && taker.lock().flows.len() == FILES);
    assert!(looked <= 4, "everything was looked at {looked} times");
}

/// In a time of its own, which passes by what a look takes.
#[test]
fn without_events_looks_are_100_ms_apart_or_nine_times_as_long_as_one_takes() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("log"), b"some");
    let mut feed = feed_of(scratch.path(), None, Until { forever: true, ..Until::default() });
    let (millis, takes, began) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), Instant::now());
    let (clock, passes, each) = (millis.clone(), millis.clone(), takes.clone());
    feed.eyes.clock = Box::new(move || began + Duration::from_millis(clock.load(Ordering::Acquire)));
    feed.eyes.stat_at = Box::new(move |dir: &Dir, name: &[u8]| {
        passes.fetch_add(each.load(Ordering::Acquire), Ordering::AcqRel);
        dir.stat(name)
    });
    feed.flows.grew_at = began;
    feed.say_polling("a test", &io::Error::other("without events"), &taker);
    let (mut looks, mut buffer) = (Looks::default(), vec![0; 64 << 10]);
    // Its flow begins, and what is there is handed on.
    for _ in 0..10 {
        feed.round(&mut looks, &taker, &mut buffer).unwrap();
    }
    for (look_ms, apart_ms) in [(0, 100), (5, 100), (40, 360), (300, 2700)] {
        takes.store(look_ms, Ordering::Release);
        // This look takes so long.
        millis.fetch_add(60_000, Ordering::AcqRel);
        feed.round(&mut looks, &taker, &mut buffer).unwrap();
        assert_eq!(looks.took, Duration::from_millis(look_ms));
        let (last, ended) = (looks.last, millis.load(Ordering::Acquire));
        let next = loop {
            let now = millis.fetch_add(1, Ordering::AcqRel) + 1;
            feed.round(&mut looks, &taker, &mut buffer).unwrap();
            if looks.last != last {
                break now;
            }
            assert!(now - ended < 60_000, "a look of {look_ms} ms is the last one");
        };
        assert_eq!(next - ended, apart_ms, "after a look of {look_ms} ms");
    }
}

/// What is left of earlier attempts is known, and the rest as ever.
fn left_of(path: &Path, name: &str, bytes: u64) -> FlowLeft {
    let dir = Dir::open(path.parent().unwrap()).unwrap();
    let stat = dir.stat(path.file_name().unwrap().as_encoded_bytes()).unwrap();
    let name = RelativePath::new(name.as_bytes().to_vec()).unwrap();
    FlowLeft { path: name.clone(), origin: Identity::of(&stat).origin(0), name, bytes }
}

#[test]
fn of_a_single_file_the_one_that_had_its_name_is_found_beside_it_and_others_are_left_alone() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let at = |name: &str| scratch.path().join(name);
    append(&at("log"), b"old");
    append(&at("other"), b"another's");
    taker.lock().left = vec![left_of(&at("log"), "log", 3)];
    std::fs::rename(at("log"), at("log.1")).unwrap();
    append(&at("log"), b"new");
    streamed(scratch.path(), Some("log"), until_closed(), &taker, || {});
    let state = taker.lock();
    assert!(
        state.is(0, &Phase::Ended, b"new") && state.is(1, &Phase::Ended, b"old") && state.flows.len() == 2
    );
    assert!(state.missed.is_empty(), "{:?}", state.missed);
}

#[test]
fn what_was_left_and_is_nowhere_is_missed_by_name_and_what_is_another_directorys_is_not() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let at = |name: &str| scratch.path().join(name);
    append(&at("log"), b"old");
    let gone = left_of(&at("log"), "run/log", 3);
    let anothers = FlowLeft {
        path: RelativePath::new(b"running/log".to_vec()).unwrap(),
        origin: Origin([1; 16]),
        ..gone.clone()
    };
    taker.lock().left = vec![gone, anothers];
    std::fs::remove_file(at("log")).unwrap();
    append(&at("other"), b"new");
    append(&at("DONE"), b"");
    let mut feed = feed_of(scratch.path(), None, until_done());
    feed.spec.prefix = RelativePath::new(b"run".to_vec()).unwrap();
    feed.work(&taker).unwrap();
    let state = taker.lock();
    assert!(state.is_last && state.is(0, &Phase::Ended, b"new"));
    let [(path, failure)] = &state.missed[..] else { panic!("{:?}", state.missed) };
    assert!(path.as_bytes() == b"run/log" && failure.kind == FailureKind::NotFound);
    assert!(failure.cause.contains("3 bytes of it, as run/log"), "{failure}");
}

#[test]
fn what_was_written_during_an_outage_is_there_before_rest_is_the_end() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    for name in ["a", "b"] {
        append(&scratch.path().join(name), &[1; 100]);
    }
    let until = Until { closed: false, idle_ms: Some(300), ..Until::default() };
    let whole = [[1; 100], [2; 100]].concat();
    streamed(scratch.path(), None, until, &taker, || {
        taker.wait("both", |state| (0..2).all(|flow| state.is(flow, &Phase::Open, &[1; 100])));
        taker.is_cut.store(true, Ordering::Release);
        append(&scratch.path().join("b"), &[2; 100]);
        // Nothing was handed on for longer than the idle time.
        std::thread::sleep(Duration::from_millis(1500));
        taker.is_cut.store(false, Ordering::Release);
        taker.lock().wanted.push_back(Wanted::GoesOn { flow: EntryId(0) });
        std::thread::sleep(Duration::from_millis(100));
        taker.lock().wanted.push_back(Wanted::GoesOn { flow: EntryId(1) });
    });
    let state = taker.lock();
    assert!(state.is(0, &Phase::Ended, &[1; 100]) && state.is(1, &Phase::Ended, &whole));
}

#[test]
fn a_file_that_is_added_to_again_and_again_rests_before_it_is_complete_and_read_again() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let log = scratch.path().join("log");
    append(&log, &[1; 100]);
    let mut feed = feed_of(scratch.path(), None, until_done());
    let (seconds, began) = (taker.seconds.clone(), Instant::now());
    feed.eyes.clock = Box::new(move || began + Duration::from_secs(seconds.load(Ordering::Acquire)));
    std::thread::scope(|scope| {
        scope.spawn(|| Box::new(feed).run(&taker));
        let over = Over(&taker);
        taker.wait("the first", |state| state.is(0, &Phase::Ended, &[1; 100]));
        append(&log, &[2; 50]);
        let pass = |seconds| {
            taker.seconds.fetch_add(seconds, Ordering::AcqRel);
            // It looks at what there is, and at all of it, in this time.
            std::thread::sleep(Duration::from_millis(300));
        };
        let whole = [&[1; 100][..], &[2; 50]].concat();
        pass(2);
        taker.wait("what was added", |state| state.is(1, &Phase::Open, &whole));
        pass(1);
        assert!(taker.lock().is(1, &Phase::Open, &whole), "it is to rest four times as long as it was read");
        pass(40);
        taker.wait("complete", |state| state.is(1, &Phase::Ended, &whole));
        append(&scratch.path().join("DONE"), b"");
        pass(2);
        taker.wait("the end", |state| state.is_last);
        drop(over);
    });
}

#[test]
fn other_names_of_a_file_are_told_once() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let at = |name: &str| scratch.path().join(name);
    append(&at("first"), &[1; 100]);
    streamed(scratch.path(), None, until_done(), &taker, || {
        taker.wait("complete", |state| state.is(0, &Phase::Ended, &[1; 100]));
        std::fs::hard_link(at("first"), at("second")).unwrap();
        let told = |state: &Known, name: &str| state.notes.iter().any(|note| note.starts_with(name));
        taker.wait("a second name", |state| told(state, "second is a file that was streamed"));
        std::fs::rename(at("first"), at("third")).unwrap();
        taker.wait("a new name", |state| told(state, "third is a file that was streamed"));
        append(&at("DONE"), b"");
    });
    let state = taker.lock();
    assert_eq!((state.flows.len(), state.notes.len()), (1, 2), "{:?}", state.notes);
}

#[test]
fn a_marker_may_be_anything() {
    for is_link in [true, false] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("file"), &[1; 100]);
        let marker = scratch.path().join("DONE");
        match is_link {
            true => std::os::unix::fs::symlink("nowhere", marker).unwrap(),
            false => std::fs::create_dir(marker).unwrap(),
        }
        streamed(scratch.path(), None, until_done(), &taker, || {});
        let state = taker.lock();
        assert!(state.is(0, &Phase::Ended, &[1; 100]) && state.notes.is_empty(), "{:?}", state.notes);
    }
}

#[path = "tests/failing.rs"]
mod failing;

#[path = "tests/unseen.rs"]
mod unseen;
