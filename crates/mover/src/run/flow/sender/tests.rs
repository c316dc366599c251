//! Streams that are lost while a piece waits, and who is to blame for the wait.

use super::*;
use crate::run::flow::job::FlowWishes;
use thalweg_wire::message::{FlowStand, LeaseId, Slot, Until};

struct Nobody;

impl Outbox for Nobody {
    fn say(&self, _: TransferNumber, _: TransferMessage) {}

    fn work(&self) {}
}

/// A stream, or one that is lost; how many frames went on it.
#[derive(Default)]
struct Out {
    is_lost: bool,
    frames: u32,
}

impl Outlet for Out {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        self.frames += 1;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_lost
    }
}

/// A stream that is lost after a piece was taken for it.
#[derive(Default)]
struct LostThen(AtomicBool);

impl Outlet for LostThen {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        panic!("nothing goes on it any more")
    }

    fn is_over(&self) -> bool {
        self.0.swap(true, Ordering::AcqRel)
    }
}

/// With a piece that waits.
fn with_a_piece() -> Arc<FlowSend> {
    let terms = FlowWishes::new(Until::default()).terms;
    let run = FlowSend::new(Terms::of(4 << 20, 1 << 20), terms, crate::event::nobody());
    run.attach(TransferNumber(0), Box::new(Nobody), None);
    run.link_up();
    begin(&run, "log");
    run
}

/// Has a flow begin, with a piece that waits.
fn begin(run: &FlowSend, path: &str) -> EntryId {
    let path = RelativePath::new(path.as_bytes().to_vec()).unwrap();
    let flow = run.begin(path, (Origin::default(), false), 0o644).unwrap();
    let at = FlowMark { flow, bytes: 0, digest: Digest(*blake3::hash(b"").as_bytes()) };
    let stand = FlowStand { at, is_ours: true, is_over: false, name: None };
    run.hear(TransferMessage::Flow(FlowMessage::Stand(vec![stand]))).unwrap();
    assert!(matches!(run.push(flow, 0, b"abc"), Pushed::Taken));
    flow
}

/// The receiver has all of it.
fn complete(run: &FlowSend, flow: EntryId) {
    run.end(flow);
    let digest = Some(Digest(*blake3::hash(b"abc").as_bytes()));
    let outcome = Outcome::Done { digest, losses: Vec::new() };
    run.hear(TransferMessage::Settled(vec![(flow, outcome)])).unwrap();
}

#[test]
fn a_stream_goes_on_in_the_next_session_after_a_peer_that_lost_its_connection() {
    let run = with_a_piece();
    let lost = Failure::new(FailureKind::Connection, "write", "the file server does not answer");
    run.hear(TransferMessage::Abort(lost)).unwrap();
    assert!(run.ended().is_some());
    run.attach(TransferNumber(1), Box::new(Nobody), None);
    assert!(run.ended().is_none());
    // What is wrong stays so.
    let full = Failure::new(FailureKind::Space, "write", "no room");
    run.hear(TransferMessage::Abort(full)).unwrap();
    run.attach(TransferNumber(2), Box::new(Nobody), None);
    assert!(run.ended().is_some());
}

#[test]
fn who_waits_for_a_window_sees_that_the_stream_is_lost() {
    let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
    // Closed until the server says when a window opens, which it never does.
    run.set_slot(Some((Arc::new(SlotGate::new()), Duration::from_secs(1))));
    let (waiting, done) = (run.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let mut buffer = FrameBuffer::new(1 << 20).unwrap();
        let _ = done.0.send(waiting.work(0, &mut buffer, &mut LostThen::default()).map(drop));
    });
    let did = done.1.recv_timeout(Duration::from_secs(60)).expect("it waits for the window all the same");
    assert_eq!(did.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    run.stream_lost(0);
    run.set_slot(None);
    assert!(matches!(run.work(1, &mut buffer, &mut Out::default()), Ok(Did::Work)), "the others have it");
}

#[test]
fn a_stream_that_was_lost_and_whose_thread_has_not_seen_it_takes_no_piece() {
    let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
    let mut lost = Out { is_lost: true, ..Out::default() };
    assert!(matches!(run.work(0, &mut buffer, &mut lost), Ok(Did::Nothing(None))));
    let mut other = Out::default();
    assert!(matches!(run.work(0, &mut buffer, &mut other), Ok(Did::Work)), "it is there for the other");
    assert_eq!((lost.frames, other.frames), (0, 1));
}

/// A stream that is held to a share for a moment, and lost meanwhile or not.
#[derive(Default)]
struct Held {
    out: Out,
    is_lost_then: bool,
}

impl Outlet for Held {
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()> {
        self.out.put(buffer, payload, inner)
    }

    fn is_over(&self) -> bool {
        self.out.is_over()
    }

    fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
        assert_eq!(bytes, 3);
        std::thread::sleep(Duration::from_millis(1));
        assert!(goes_on());
        self.out.is_lost = self.is_lost_then;
        true
    }
}

#[test]
fn a_wait_for_a_share_is_booked_also_where_its_stream_is_lost() {
    for is_lost_then in [false, true] {
        let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
        let mut held = Held { is_lost_then, ..Held::default() };
        let did = run.work(0, &mut buffer, &mut held).map(drop).map_err(|error| error.kind());
        let limit = run.own_accounts().stage(Stage::Limit as u8);
        assert!(limit.busy_nanos > 0);
        match is_lost_then {
            false => assert_eq!((did, limit.items, limit.bytes, held.out.frames), (Ok(()), 1, 3, 1)),
            true => {
                let lost = Err(io::ErrorKind::BrokenPipe);
                assert_eq!((did, limit.items, limit.bytes, held.out.frames), (lost, 0, 0, 0));
            }
        }
    }
}

/// A path that takes its time for a frame.
struct Thin;

impl Outlet for Thin {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }
}

#[test]
fn a_wait_for_the_path_is_no_work_and_one_for_a_rate_is_the_rates() {
    let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
    run.pace.ask(Some(100));
    assert!(run.pace.wait(1, || true), "the first goes at once");
    assert!(matches!(run.work(0, &mut buffer, &mut Thin), Ok(Did::Work)));
    let accounts = run.own_accounts();
    let (pace, send) = (accounts.stage(Stage::Pace as u8), accounts.stage(Stage::Send as u8));
    assert!(send.output_nanos > 0 && send.busy_nanos <= send.cpu_nanos, "{send:?}");
    assert!(pace.busy_nanos > 0 && pace.output_nanos == 0 && pace.bytes == 3, "{pace:?}");
    assert_eq!(send.threads, 1, "a stream that has a piece counts");
}

/// Else a rate seems to be kept of which half was used.
#[test]
fn bytes_that_wait_for_a_rate_and_for_their_window_count_once() {
    let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
    let always = Slot {
        lease: LeaseId::default(),
        lease_millis: 60_000,
        period_micros: 1_000_000,
        length_micros: 1_000_000,
        opens_micros: 0,
        bytes: 1 << 30,
        bytes_per_s: 1 << 30,
        worst_micros: 0,
        is_any_time: true,
        settle_micros: 0,
        over_bytes: 0,
    };
    let gate = Arc::new(SlotGate::new());
    gate.place(&always, 0, Instant::now(), None);
    run.set_slot(Some((gate, Duration::from_secs(60))));
    run.pace.ask(Some(1000));
    assert!(matches!(run.work(0, &mut buffer, &mut Out::default()), Ok(Did::Work)));
    let pace = run.own_accounts().stage(Stage::Pace as u8);
    assert_eq!(pace.bytes, 3, "{pace:?}");
}

/// Hands a piece over while another waits for the rate.
struct Hands<'a> {
    run: &'a FlowSend,
    was_paced: Option<bool>,
}

impl Outlet for Hands<'_> {
    fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
        let run = self.run;
        self.was_paced = Some(std::thread::scope(|scope| {
            let waits = scope.spawn(|| run.pace.wait(1, || true));
            until(|| run.pace.is_waited_for());
            let is_paced = run.is_paced();
            run.pace.ask(None);
            assert!(waits.join().unwrap());
            is_paced
        }));
        Ok(())
    }
}

fn until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_so(), "it does not come");
}

/// At a byte a second each of these waits for a quarter of an hour.
#[test]
fn a_piece_that_waits_for_its_rate_is_not_the_fault_of_a_peer_that_is_heard() {
    const BYTES: u64 = 1000;
    let (run, mut buffer) = (with_a_piece(), FrameBuffer::new(1 << 20).unwrap());
    let heard = || {
        let mut heartbeat = Heartbeat::default();
        run.add_to(&mut heartbeat);
        assert_eq!(heartbeat.waiting_ms > 0, heartbeat.waiting_for.is_some(), "it tells for how long");
        let blames = |is_silent| run.blames(&PeerNow { is_silent, heartbeat: Heartbeat::default() });
        (heartbeat.waiting_for, blames(false), blames(true))
    };
    assert_eq!(heard(), (None, true, true), "nothing waits for a rate");
    run.steer(&Steer { rate_bytes_per_s: Some(1), ..Steer::default() });
    assert!(run.pace.wait(BYTES, || true), "the first goes at once");
    let told = std::thread::scope(|scope| {
        let works = scope.spawn(|| {
            let mut buffer = FrameBuffer::new(1 << 20).unwrap();
            run.work(0, &mut buffer, &mut Out::default()).map(drop)
        });
        until(|| run.is_paced());
        let told = heard();
        run.pace.ask(None);
        works.join().unwrap().unwrap();
        told
    });
    assert_eq!(told, (Some(WaitingFor::Read), false, true));
    assert_eq!(heard(), (None, true, true), "it went");
    // While one is handed over, and the path does not take it, another that waits excuses nothing.
    assert!(matches!(run.push(EntryId(0), 3, &[7; BYTES as usize]), Pushed::Taken));
    run.pace.ask(Some(1));
    let mut hands = Hands { run: &run, was_paced: None };
    assert!(matches!(run.work(0, &mut buffer, &mut hands), Ok(Did::Work)));
    assert_eq!(hands.was_paced, Some(false));
}

#[test]
fn what_waits_to_be_marked_and_for_the_receipt_counts_as_held() {
    let run = with_a_piece();
    let named = "log".len() + 3 + limits::FLOW_PIECE_BESIDE_BYTES;
    assert!(run.held_bytes() > named);
    complete(&run, EntryId(0));
    // The piece is gone, and its line waits for the others of its block. Another receiver is asked about it by name.
    let (of_names, of_receipt) = {
        let state = run.lock();
        (state.machine.held_bytes(), state.end.held_bytes())
    };
    assert!(of_receipt > 0 && of_names > 0);
    assert_eq!(run.held_bytes(), of_names + of_receipt);
}

/// One file of a block of the receipt goes on growing, and the others come and are complete.
#[test]
fn no_flow_begins_while_too_much_is_complete_beside_one_that_is_not() {
    let run = with_a_piece();
    let long = format!("/{}", "a".repeat(250)).repeat(200);
    assert!(run.has_room());
    for number in 0..=limits::RECEIPT_BYTES_WAITING_MAX / long.len() {
        let flow = begin(&run, &format!("{number}{long}"));
        complete(&run, flow);
    }
    assert!(!run.has_room());
    complete(&run, EntryId(0));
    assert!(run.has_room(), "nothing is waited for");
}

#[test]
fn numbers_that_another_receiver_never_hears_of_keep_no_flow_from_beginning() {
    let run = with_a_piece();
    run.give_up(EntryId(0), Failure::new(FailureKind::Io, "read", "the disk is gone"));
    let long = format!("/{}", "a".repeat(250)).repeat(200);
    let count = limits::RECEIPT_BYTES_WAITING_MAX / long.len();
    let flows: Vec<EntryId> = (0..=count).map(|number| begin(&run, &format!("{number}{long}"))).collect();
    flows.iter().for_each(|&flow| complete(&run, flow));
    run.attach(TransferNumber(1), Box::new(Nobody), None);
    run.link_up();
    let digest = Digest(*blake3::hash(b"abc").as_bytes());
    for flow in flows {
        let at = FlowMark { flow, bytes: 3, digest };
        let stand = FlowStand { at, is_ours: true, is_over: true, name: None };
        run.hear(TransferMessage::Flow(FlowMessage::Stand(vec![stand]))).unwrap();
        let outcome = Outcome::Done { digest: Some(digest), losses: Vec::new() };
        run.hear(TransferMessage::Settled(vec![(flow, outcome)])).unwrap();
    }
    begin(&run, "grows");
    assert!(run.has_room(), "all of the first block of the receipt are settled, or never will be");
}
