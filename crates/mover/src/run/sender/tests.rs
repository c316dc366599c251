//! Streams that take work, what holds them up, and a scan that waits.

use super::*;
use crate::endpoint::synthetic::NoiseSource;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use thalweg_wire::EntryId;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{Outcome, Want};

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
    run_of(2, terms, Limits::for_path(terms, None))
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

/// A stream that is held to a share.
struct Held;

impl Outlet for Held {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        Ok(())
    }

    fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
        assert!(bytes > 0 && goes_on());
        true
    }
}

#[test]
fn what_waits_for_a_share_is_booked_as_that() {
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = run(&terms);
    let mut lane = SendLane::new(0, &terms).unwrap();
    run.hear(TransferMessage::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    assert!(matches!(run.work(&mut lane, &mut Held).unwrap(), Did::Work));
    let accounts = run.own_accounts();
    assert_eq!(accounts.stage(Stage::Limit as u8).items, 1);
    assert_eq!(accounts.stage(Stage::Limit as u8).bytes, 1 << 10);
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
