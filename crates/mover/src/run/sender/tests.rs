//! Streams that take work, what holds them up, and a scan that waits.

use super::*;
use crate::endpoint::synthetic::NoiseSource;
use crate::endpoint::{ExtentMap, ScanSink, SourceFile};
use crate::failure::FailureKind;
use crate::run::transfer::sends_on;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Weak};
use thalweg_sys::{Dir, DirectAlignment, File};
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{Order, Outcome, VerifyLevel, Want};
use thalweg_wire::{EntryId, Evidence, Kind, RelativePath};

struct Nobody;

impl Outbox for Nobody {
    fn say(&self, _: TransferNumber, _: TransferMessage) {}
    fn work(&self) {}
}

struct Nowhere;

impl Outlet for Nowhere {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        Ok(())
    }
}

/// An outbox behind which so many bytes wait, and which counts what is said.
#[derive(Clone, Default)]
struct Waiting {
    bytes: Arc<AtomicUsize>,
    said: Arc<AtomicUsize>,
}

impl Waiting {
    /// Nobody takes anything, or everything is taken.
    fn set_taken(&self, is_taken: bool) {
        self.bytes.store(if is_taken { 0 } else { usize::MAX }, Ordering::SeqCst);
    }

    fn said(&self) -> usize {
        self.said.load(Ordering::SeqCst)
    }
}

impl Outbox for Waiting {
    fn say(&self, _: TransferNumber, _: TransferMessage) {
        self.said.fetch_add(1, Ordering::SeqCst);
    }

    fn work(&self) {}

    fn queued_bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }
}

/// A stream that is lost when it was asked for that so many times.
struct Cut(Cell<u32>);

impl Outlet for Cut {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        panic!("nothing is sent on it");
    }

    fn is_over(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

/// A sender of two small files that wait to be wanted.
fn run(terms: &Terms) -> Arc<SendRun> {
    // No other streams are to come.
    run_of(2, terms, Limits::for_path(terms, Some(Duration::ZERO)))
}

fn run_of(files: u64, terms: &Terms, limits: Limits) -> Arc<SendRun> {
    let run = not_scanned(files, terms, limits, Box::new(Nobody));
    run.scan();
    run
}

fn not_scanned(files: u64, terms: &Terms, limits: Limits, outbox: Box<dyn Outbox>) -> Arc<SendRun> {
    let source = Arc::new(NoiseSource { bytes: files << 10, file_bytes: 1 << 10 });
    let events = crate::event::nobody();
    let run = SendRun::new(TransferNumber(0), source, terms.clone(), limits, outbox, events);
    run.stream_up(0);
    run
}

/// Sends one of them; how many frames a rate was asked about so far.
fn frames_paced(run: &SendRun, lane: &mut SendLane, entry: u64) -> u64 {
    run.hear(TransferMessage::Want(vec![(EntryId(entry), Want::Whole)])).unwrap();
    assert!(matches!(run.work(lane, &mut Nowhere).unwrap(), Did::Work));
    run.own_accounts().stage(Stage::Pace as u8).items
}

#[test]
fn a_rate_that_is_set_while_a_copy_runs_holds_though_it_began_without_one() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    assert_eq!(frames_paced(&run, &mut lane, 0), 0);
    run.steer(&Steer { rate_bytes_per_s: Some(1 << 30), ..Steer::default() });
    assert_eq!(frames_paced(&run, &mut lane, 1), 1);
}

#[test]
fn a_stream_that_is_lost_while_it_waits_for_its_turn_sends_nothing() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    run.steer(&Steer { rate_bytes_per_s: Some(1), ..Steer::default() });
    assert_eq!(frames_paced(&run, &mut lane, 0), 1);
    run.hear(TransferMessage::Want(vec![(EntryId(1), Want::Whole)])).unwrap();
    let lost = run.work(&mut lane, &mut Cut(Cell::new(1))).map(drop).map_err(|error| error.kind());
    assert_eq!(lost, Err(io::ErrorKind::BrokenPipe));
    assert_eq!(run.own_accounts().stage(Stage::Pace as u8).items, 1);
}

/// A stream that is held to a share, and the bytes that it is to wait for.
#[derive(Default)]
struct Held(u64);

impl Outlet for Held {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        Ok(())
    }

    fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
        assert!(bytes > 0 && goes_on());
        self.0 = bytes;
        true
    }
}

#[test]
fn what_waits_for_a_share_is_booked_as_that() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    let mut held = Held::default();
    assert!(matches!(run.work(&mut lane, &mut held).unwrap(), Did::Work));
    let accounts = run.own_accounts();
    assert_eq!(accounts.stage(Stage::Limit as u8).items, 1);
    // As they are sent: a pack says besides which files are in it.
    assert_eq!(accounts.stage(Stage::Limit as u8).bytes, held.0);
    assert!(held.0 > 1 << 10);
    assert_eq!(accounts.limit, None);
}

/// A stream that is lost while it is held to a share.
struct HeldThenLost<'a> {
    run: &'a SendRun,
    is_lost: bool,
}

impl Outlet for HeldThenLost<'_> {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        panic!("nothing goes on it any more")
    }

    fn is_over(&self) -> bool {
        self.is_lost
    }

    fn wait_for_share(&mut self, _: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
        std::thread::sleep(Duration::from_millis(1));
        assert!(goes_on());
        let limit = self.run.own_accounts().stage(Stage::Limit as u8);
        assert!(limit.busy_nanos > 0, "it is told while it waits");
        self.is_lost = true;
        true
    }
}

#[test]
fn a_wait_for_a_share_is_booked_as_it_goes_and_not_lost_with_its_stream() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    let mut held = HeldThenLost { run: &run, is_lost: false };
    let lost = run.work(&mut lane, &mut held).map(drop).map_err(|error| error.kind());
    assert_eq!(lost, Err(io::ErrorKind::BrokenPipe));
    let limit = run.own_accounts().stage(Stage::Limit as u8);
    assert!(limit.busy_nanos > 0);
    assert_eq!((limit.items, limit.bytes), (0, 0), "nothing went");
}

#[test]
fn a_stream_that_was_lost_and_whose_thread_has_not_seen_it_takes_no_work() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    // Another has its number by now: what was taken for it would be that one's.
    assert!(matches!(run.work(&mut lane, &mut Cut(Cell::new(0))), Ok(Did::Nothing(None))));
    assert!(matches!(run.work(&mut lane, &mut Nowhere), Ok(Did::Work)), "it is there for the other");
}

/// One file in each block of the receipt takes its time, the others do not.
#[test]
fn the_scan_waits_while_too_much_is_settled_behind_what_is_not() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run_of(1024, &terms, Limits { receipt_bytes: 50_000, ..Limits::for_path(&terms, None) });
    let has_room = || {
        let state = run.lock();
        state.machine.has_room(state.end.held_bytes())
    };
    let settle = |ids: Vec<u64>| {
        let outcome = Outcome::Done { digest: None, losses: Vec::new() };
        let settled = ids.into_iter().map(|id| (EntryId(id), outcome.clone())).collect();
        run.hear(TransferMessage::Settled(settled)).unwrap();
    };
    settle((1..100).collect());
    assert!(has_room());
    settle((100..1024).filter(|id| *id != 512).collect());
    assert!(!has_room());
    settle(vec![512]);
    settle(vec![0]);
    assert!(has_room());
}

#[test]
fn what_is_offered_again_waits_for_a_peer_that_takes_nothing() {
    let (terms, outbox) = (Terms::of(4 << 20, 1 << 20), Waiting::default());
    let run = not_scanned(2, &terms, Limits::for_path(&terms, None), Box::new(outbox.clone()));
    run.scan();
    let before = outbox.said();
    outbox.set_taken(false);
    run.link_up();
    run.tick();
    assert_eq!(outbox.said(), before);
    outbox.set_taken(true);
    run.tick();
    let after = outbox.said();
    assert!(after > before);
    // What waited for a link is not said to the next one.
    outbox.set_taken(false);
    run.link_up();
    run.link_lost();
    outbox.set_taken(true);
    run.tick();
    assert_eq!(outbox.said(), after);
}

#[test]
fn the_scan_waits_for_a_peer_that_takes_nothing() {
    let (terms, outbox) = (Terms::of(4 << 20, 1 << 20), Waiting::default());
    let run = not_scanned(1024, &terms, Limits::for_path(&terms, None), Box::new(outbox.clone()));
    outbox.set_taken(false);
    let scanning = {
        let run = run.clone();
        std::thread::spawn(move || run.scan())
    };
    // Long enough for all of them, if it did not wait.
    std::thread::sleep(Duration::from_millis(200));
    assert!(run.progress().entries_offered < 1024);
    outbox.set_taken(true);
    run.tick();
    scanning.join().unwrap();
    assert_eq!(run.progress().entries_offered, 1024);
}

#[test]
fn the_scan_waits_while_who_hears_of_what_settles_is_behind() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = not_scanned(1024, &terms, Limits::for_path(&terms, None), Box::new(Nobody));
    let is_behind = Arc::new(AtomicBool::new(true));
    let asked = is_behind.clone();
    run.keep_pace_with(Arc::new(move || asked.load(Ordering::SeqCst)));
    let scanning = {
        let run = run.clone();
        std::thread::spawn(move || run.scan())
    };
    // Long enough for all of them, if it did not wait.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(run.progress().entries_offered, 0);
    assert!(!run.awaits_peer(), "nobody is to blame");
    is_behind.store(false, Ordering::SeqCst);
    scanning.join().unwrap();
    assert_eq!(run.progress().entries_offered, 1024);
}

#[test]
fn a_stream_of_a_link_that_was_replaced_counts_once() {
    let run = run(&Terms::of(4 << 20, 1 << 20));
    let threads = || run.common.accounts.threads(Stage::Read);
    run.link_up();
    run.stream_up(0);
    run.stream_up(0);
    assert_eq!(threads(), 1);
    run.stream_lost(0);
    // Its thread saw the end later than the session.
    run.stream_lost(0);
    (0..2).for_each(|stream| run.stream_up(stream));
    assert_eq!(threads(), 2);
    // One that is not to take work stands by.
    run.steer(&Steer { streams: Some(1), ..Steer::default() });
    assert_eq!(threads(), 1);
    run.stream_up(2);
    assert_eq!(threads(), 1);
}

#[test]
fn who_yields_is_held_to_what_others_leave_though_no_rate_was_asked_for() {
    let terms = Terms { yields: true, ..Terms::of(4 << 20, 1 << 20) };
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    assert_eq!(frames_paced(&run, &mut lane, 0), 1);
}

const SEGMENT: u64 = 64 << 10;
const CHUNKS: u64 = 24;
/// Only a hang reaches it.
const LONG: Duration = Duration::from_secs(30);

/// A file of [`CHUNKS`] chunks that waits for what its order forbids, and writes down whether it came.
#[derive(Default)]
struct Watched {
    chunk_bytes: u64,
    /// It is read past the page cache, from here.
    past: Option<Arc<File>>,
    /// How long every third chunk, while it gets ready, waits for a later one to be read.
    until_passed: Duration,
    /// How long a read waits for another one beside it.
    until_beside: Duration,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Seen {
    /// Chunks, as they were begun.
    begun: Vec<u64>,
    under_way: u64,
    /// A chunk was begun while one that was handed out before it got ready.
    is_passed: bool,
    /// Two were read at the same time.
    is_beside: bool,
    /// Reads under way at the end, and the most that ever were, of all streams together.
    reads: [u32; 2],
}

impl Watched {
    fn evidence(&self) -> Evidence {
        Evidence { size: CHUNKS * self.chunk_bytes, ..Evidence::default() }
    }

    fn begin(&self, offset: u64) {
        let (chunk, mut seen) = (offset / self.chunk_bytes, self.seen.lock().unwrap());
        if !seen.begun.contains(&chunk) {
            seen.begun.push(chunk);
            self.changed.notify_all();
        }
    }
}

impl SourceFile for Watched {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.begin(offset);
        let mut seen = self.seen.lock().unwrap();
        seen.under_way += 1;
        seen.is_beside |= seen.under_way > 1;
        self.changed.notify_all();
        let is_alone = |seen: &mut Seen| !seen.is_beside;
        let mut seen = self.changed.wait_timeout_while(seen, self.until_beside, is_alone).unwrap().0;
        seen.under_way -= 1;
        Ok(buffer.len().min((self.evidence().size - offset) as usize))
    }

    fn prepare(&self, offset: u64, _: u64) {
        let (chunk, seen) = (offset / self.chunk_bytes, self.seen.lock().unwrap());
        // One that is read ahead has had its turn.
        if self.until_passed.is_zero() || !chunk.is_multiple_of(3) || seen.begun.contains(&chunk) {
            return;
        }
        // From when on only the turn of this one keeps a later one from being begun.
        let is_early = |seen: &mut Seen| chunk > 0 && !seen.begun.contains(&(chunk - 1));
        let seen = self.changed.wait_timeout_while(seen, Duration::from_secs(1), is_early).unwrap().0;
        let is_first = |seen: &mut Seen| !seen.is_passed && seen.begun.iter().all(|other| *other < chunk);
        let mut seen = self.changed.wait_timeout_while(seen, self.until_passed, is_first).unwrap().0;
        seen.is_passed |= seen.begun.iter().any(|other| *other > chunk);
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(Watched::evidence(self))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(Watched::evidence(self).size)
    }

    fn has_direct(&self) -> bool {
        self.past.is_some()
    }

    fn direct(&self, offset: u64, _: u64) -> Option<(Arc<File>, DirectAlignment)> {
        self.begin(offset);
        Some((self.past.clone()?, DirectAlignment { memory: 4096, offset: 4096 }))
    }
}

/// A source of that file, which lies on its medium from behind.
struct OfWatched(Arc<Watched>);

fn entry_of(name: &str, evidence: Evidence) -> Entry {
    Entry {
        id: EntryId(0),
        path: RelativePath::new(name.as_bytes().to_vec()).unwrap(),
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence,
        xattrs: Vec::new(),
    }
}

impl Source for OfWatched {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        let evidence = Watched::evidence(&self.0);
        sink.entry(entry_of("x", evidence)).unwrap();
        ScanTotals { entries: 1, bytes: evidence.size, complete: true, ..ScanTotals::default() }
    }

    fn open(&self, _: &Entry) -> failure::Result<Arc<dyn SourceFile>> {
        Ok(self.0.clone())
    }

    fn look_again(&self, entry: &Entry) -> failure::Result<Entry> {
        Ok(entry.clone())
    }

    fn layout(&self, _: &Entry) -> failure::Result<ExtentMap> {
        let length = self.0.chunk_bytes;
        let placed = (0..CHUNKS).map(|chunk| order::Placed {
            logical: chunk * length,
            length,
            device: 0,
            physical: (CHUNKS - chunk) * length,
        });
        Ok(ExtentMap { placed: placed.collect(), unplaced_bytes: 0 })
    }
}

/// A sender of that file, wanted as a whole, with so many streams.
fn run_in(order: Order, file: &Arc<Watched>, streams: u16) -> (Arc<SendRun>, Terms) {
    let mut terms = Terms::of(file.chunk_bytes, SEGMENT as u32);
    terms.disk.source.order = Some(order);
    terms.disk.depth = Some(8);
    let (source, limits) = (Arc::new(OfWatched(file.clone())), Limits::for_path(&terms, None));
    let events = crate::event::nobody();
    let run = SendRun::new(TransferNumber(0), source, terms.clone(), limits, Box::new(Nobody), events);
    (0..streams).for_each(|stream| run.stream_up(stream));
    run.scan();
    run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    (run, terms)
}

fn work_off(run: &SendRun, terms: &Terms, stream: u16) {
    let mut lane = SendLane::new(stream, terms).unwrap();
    while matches!(run.work(&mut lane, &mut Nowhere).unwrap(), Did::Work) {}
}

/// What a file saw that four streams read in this order. Where the machine stood still a request may have been made out
/// of turn, which proves nothing: then once more.
fn seen_in(order: Order, file: impl Fn() -> Watched) -> Seen {
    for _ in 0..10 {
        let file = Arc::new(file());
        let (run, terms) = run_in(order, &file, 4);
        std::thread::scope(|scope| {
            for stream in 0..4 {
                let (run, terms) = (&run, &terms);
                scope.spawn(move || work_off(run, terms, stream));
            }
        });
        if run.gate.as_ref().is_none_or(|gate| gate.out_of_turn() == 0) {
            let read = run.own_accounts().stage(Stage::Read as u8);
            let seen = std::mem::take(&mut *file.seen.lock().unwrap());
            return Seen { reads: [read.queue, read.queue_max], ..seen };
        }
    }
    panic!("{order:?}: out of turn each time");
}

#[test]
fn requests_are_made_in_turn_as_the_order_says_and_as_they_come_without_one() {
    let short = Duration::from_millis(50);
    for (order, until_passed, until_beside, is_passed, is_beside) in [
        (Order::None, LONG, LONG, true, true),
        (Order::Loose, short, LONG, false, true),
        (Order::Serial, short, short, false, false),
    ] {
        let file = || Watched { chunk_bytes: SEGMENT, until_passed, until_beside, ..Watched::default() };
        let seen = seen_in(order, file);
        assert_eq!((seen.is_passed, seen.is_beside), (is_passed, is_beside), "{order:?}: {seen:?}");
        assert_eq!(seen.begun.len() as u64, CHUNKS, "{order:?}: {seen:?}");
        assert_eq!(seen.reads, [0, 0], "nothing is read ahead through the page cache");
        if order == Order::Serial {
            assert!(seen.begun.is_sorted(), "{seen:?}");
        }
    }
}

#[test]
fn what_is_read_ahead_waits_for_its_turn_too() {
    // The working directory usually has direct I/O.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let chunk_bytes = 4 * SEGMENT;
    let content = vec![7; (CHUNKS * chunk_bytes) as usize];
    dir.create_new(b"x", 0o600).unwrap().write_all_at(&content, 0).unwrap();
    let past = dir.open_read(b"x").unwrap();
    if past.set_direct(true).is_err() {
        eprintln!("skipped: no direct I/O here");
        return;
    }
    let past = Some(Arc::new(past));
    for (order, until_passed, is_passed) in
        [(Order::None, LONG, true), (Order::Loose, Duration::from_millis(50), false)]
    {
        let file = || Watched { chunk_bytes, past: past.clone(), until_passed, ..Watched::default() };
        let seen = seen_in(order, file);
        assert_eq!(seen.is_passed, is_passed, "{order:?}: {seen:?}");
        // A chunk is four requests, and each of four streams may have eight under way.
        assert!(seen.reads[0] == 0 && (3..=32).contains(&seen.reads[1]), "{order:?}: {seen:?}");
        assert_eq!(seen.begun.len() as u64, CHUNKS, "{order:?}: {seen:?}");
    }
}

#[test]
fn strict_deals_chunks_to_streams_and_layout_goes_by_address() {
    let in_order: Vec<u64> = (0..CHUNKS).collect();
    for (order, expected) in [
        // Of three streams the second one, while the others take nothing.
        (Order::Strict, in_order.iter().copied().filter(|chunk| chunk % 3 == 1).collect()),
        (Order::Layout, in_order.iter().copied().rev().collect()),
        (Order::None, in_order.clone()),
        (Order::Loose, in_order.clone()),
        (Order::Serial, in_order.clone()),
    ] {
        let file = Arc::new(Watched { chunk_bytes: SEGMENT, ..Watched::default() });
        let (run, terms) = run_in(order, &file, 3);
        work_off(&run, &terms, 1);
        let begun: Vec<u64> = std::mem::take(&mut file.seen.lock().unwrap().begun);
        assert_eq!(begun, expected, "{order:?}");
    }
}

/// Files by turns on two file systems, of which the first lies on two disks.
struct OnDisks {
    has_places: bool,
    /// Of which file systems somebody asked for the disks.
    asked: Mutex<Vec<u64>>,
}

impl Source for OnDisks {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        for number in 0..6 {
            let evidence = Evidence { size: 4 * SEGMENT, device: 1 + number % 2, ..Evidence::default() };
            sink.entry(entry_of(&number.to_string(), evidence)).unwrap();
        }
        ScanTotals { entries: 6, bytes: 24 * SEGMENT, complete: true, ..ScanTotals::default() }
    }

    fn open(&self, _: &Entry) -> failure::Result<Arc<dyn SourceFile>> {
        Ok(Arc::new(Watched { chunk_bytes: SEGMENT, ..Watched::default() }))
    }

    fn look_again(&self, entry: &Entry) -> failure::Result<Entry> {
        Ok(entry.clone())
    }

    fn layout(&self, entry: &Entry) -> failure::Result<ExtentMap> {
        if !self.has_places {
            let cause = "nobody knows";
            return Err(Failure::new(failure::FailureKind::Unsupported, "look", cause).at(&entry.path));
        }
        let whole = order::Placed { logical: 0, length: entry.evidence.size, device: 0, physical: 0 };
        Ok(ExtentMap { placed: vec![whole], unplaced_bytes: 0 })
    }

    fn disks(&self, entry: &Entry) -> Option<Vec<String>> {
        self.asked.lock().unwrap().push(entry.evidence.device);
        let disks: &[&str] = if entry.evidence.device == 1 { &["sda", "sdb"] } else { &["sdc"] };
        Some(disks.iter().map(|disk| (*disk).to_owned()).collect())
    }
}

/// Notes of a scan of such files, and of which file systems it asked for the disks.
fn scanned_on_disks(order: Order, has_places: bool) -> (Vec<String>, Vec<u64>) {
    let mut terms = Terms::of(SEGMENT, SEGMENT as u32);
    terms.disk.source.order = Some(order);
    let source = Arc::new(OnDisks { has_places, asked: Mutex::default() });
    let notes = Arc::new(Mutex::new(Vec::new()));
    let events: Events = {
        let notes = notes.clone();
        Arc::new(move |event: Event| {
            if let Event::Note(text) = event {
                notes.lock().unwrap().push(text);
            }
        })
    };
    let limits = Limits::for_path(&terms, None);
    let run = SendRun::new(TransferNumber(0), source.clone(), terms, limits, Box::new(Nobody), events);
    run.stream_up(0);
    run.scan();
    let (notes, asked) = (notes.lock().unwrap().clone(), source.asked.lock().unwrap().clone());
    (notes, asked)
}

#[test]
fn each_file_system_read_by_layout_is_asked_for_its_disks_once_and_several_are_told() {
    let (notes, asked) = scanned_on_disks(Order::Layout, true);
    assert_eq!(asked, [1, 2]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let told = "order layout: one file system lies on 2 devices (sda, sdb): ";
    assert!(notes[0].starts_with(told), "{notes:?}");
    // Nothing is read by layout.
    let (notes, asked) = scanned_on_disks(Order::Layout, false);
    assert!(asked.is_empty() && notes.len() == 1 && notes[0].contains("6 of 6 files by offset"), "{notes:?}");
    assert_eq!(scanned_on_disks(Order::Loose, true), (Vec::new(), Vec::new()));
}

/// Files of so many bytes that note, as often as they are opened and read, whether their sender says so.
struct Told {
    files: u64,
    bytes: u64,
    run: OnceLock<Weak<SendRun>>,
    seen: Mutex<Vec<bool>>,
    /// With the so many-th of them the transfer ends.
    ends_with: usize,
}

impl Told {
    fn entry(&self, number: u64) -> Entry {
        Entry {
            id: EntryId(number),
            path: RelativePath::new(format!("f{number}").into_bytes()).unwrap(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { size: self.bytes, ..Evidence::default() },
            xattrs: Vec::new(),
        }
    }

    fn look(&self) {
        let Some(run) = self.run.get().and_then(Weak::upgrade) else { return };
        let mut heartbeat = Heartbeat::default();
        run.add_to(&mut heartbeat);
        let peer = PeerNow { is_silent: false, heartbeat: Heartbeat::default() };
        let is_told = run.is_reading() && sends_on(&heartbeat) && !run.blames(&peer);
        let count = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(is_told);
            seen.len()
        };
        if count == self.ends_with {
            run.abort(Failure::new(FailureKind::Stopped, "transfer", "as the test wants it"));
        }
    }
}

impl SourceFile for Told {
    fn read_at(&self, buffer: &mut [u8], _: u64) -> io::Result<usize> {
        self.look();
        buffer.fill(7);
        Ok(buffer.len())
    }

    fn evidence(&self) -> io::Result<Evidence> {
        Ok(self.entry(0).evidence)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    fn next_hole(&self, _: u64) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

struct OfTold(Arc<Told>);

impl Source for OfTold {
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        for number in 0..self.0.files {
            sink.entry(self.0.entry(number)).unwrap();
        }
        let (entries, bytes) = (self.0.files, self.0.files * self.0.bytes);
        ScanTotals { entries, bytes, complete: true, ..ScanTotals::default() }
    }

    fn open(&self, _: &Entry) -> failure::Result<Arc<dyn SourceFile>> {
        self.0.look();
        Ok(self.0.clone())
    }

    fn look_again(&self, entry: &Entry) -> failure::Result<Entry> {
        Ok(entry.clone())
    }
}

/// A sender of so many such files, all of them wanted, and what it reads twice.
fn told(files: u64, bytes: u64, ends_with: usize) -> (Arc<SendRun>, Arc<Told>, Terms) {
    let terms = Terms { verify: VerifyLevel::Paranoid, ..Terms::of(SEGMENT, SEGMENT as u32) };
    let (run, seen) = (OnceLock::new(), Mutex::default());
    let file = Arc::new(Told { files, bytes, run, seen, ends_with });
    let (source, limits) = (Arc::new(OfTold(file.clone())), Limits::for_path(&terms, None));
    let events = crate::event::nobody();
    let run = SendRun::new(TransferNumber(0), source, terms.clone(), limits, Box::new(Nobody), events);
    file.run.set(Arc::downgrade(&run)).unwrap();
    run.stream_up(0);
    run.scan();
    let wants = (0..files).map(|number| (EntryId(number), Want::Whole)).collect();
    run.hear(TransferMessage::Want(wants)).unwrap();
    (run, file, terms)
}

/// However long it takes, neither side takes it for a stall of the link.
#[test]
fn whatever_opens_or_reads_the_source_tells_that_it_does_and_that_it_goes_on() {
    // Of many segments, read again when all are sent; and as a pack, each opened and read twice.
    for (files, bytes, looks_min) in [(1, CHUNKS * SEGMENT, 2 * CHUNKS as usize), (4, 100, 16)] {
        let (run, file, terms) = told(files, bytes, usize::MAX);
        work_off(&run, &terms, 0);
        let seen = file.seen.lock().unwrap();
        assert!(seen.len() >= looks_min && seen.iter().all(|is_told| *is_told), "{seen:?}");
        assert!(!run.is_reading());
    }
}

#[test]
fn a_file_is_not_read_again_to_its_end_for_a_transfer_or_a_stream_that_is_over() {
    let (run, file, terms) = told(1, CHUNKS * SEGMENT, 3);
    let (mut lane, entry) = (SendLane::new(0, &terms).unwrap(), Arc::new(file.entry(0)));
    // Opened, and two segments of it read.
    run.check(&mut lane, &Nowhere, &entry).unwrap();
    assert_eq!(file.seen.lock().unwrap().len(), 3);
    let (run, file, terms) = told(1, CHUNKS * SEGMENT, usize::MAX);
    let mut lane = SendLane::new(0, &terms).unwrap();
    let lost = run.check(&mut lane, &Cut(Cell::new(1)), &entry).map_err(|error| error.kind());
    assert_eq!(lost, Err(io::ErrorKind::BrokenPipe));
    assert_eq!(file.seen.lock().unwrap().len(), 2, "another stream has it");
}
