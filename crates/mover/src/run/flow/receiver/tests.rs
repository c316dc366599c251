//! Who waits, and for what, while what is there is read again; and what a far source notes.

use super::*;
use crate::failure::START_THREAD;
use crate::run::agree::tests::Said;
use crate::run::flow::job::{FlowWishes, MARK_EVERY_MS};
use crate::run::thread::scarce;
use thalweg_wire::message::{LENGTH_BYTES, Message, Until};
use thalweg_wire::receipt::BLOCK_ENTRIES;
use thalweg_wire::{EntryId, RelativePath};

/// Reads what is there for as long as the other end holds it.
struct Slow(Mutex<mpsc::Receiver<u64>>);

impl FlowDestination for Slow {
    fn open(&self, _: &FlowBegin, reading: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        let told = self.0.lock().unwrap();
        while let Ok(done) = told.recv() {
            assert!(reading(done, 1 << 40), "somebody waits for it");
        }
        Err(Failure::new(FailureKind::Io, "read what is there", "the test is over"))
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: bool) {}
}

#[test]
fn who_waits_for_what_is_there_to_be_read_again_hears_that_it_is() {
    let (read, told) = mpsc::channel();
    let (notes, hears) = mpsc::channel();
    let notes = Mutex::new(notes);
    let events: Events = Arc::new(move |event| {
        if let Event::Note(text) = event {
            let _ = notes.lock().unwrap().send(text);
        }
    });
    let flow = FlowWishes::new(Until::default()).terms;
    assert_eq!(flow.mark_every_ms, MARK_EVERY_MS);
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = FlowReceive::start(Arc::new(Slow(Mutex::new(told))), terms, &flow, events).unwrap();
    let path = RelativePath::new(b"run7.dat".to_vec()).unwrap();
    let begin =
        FlowBegin { flow: EntryId(0), path, origin: Origin::default(), mode: 0o644, is_certain: false };
    run.hear(TransferMessage::Flow(FlowMessage::Begin(vec![begin]))).unwrap();
    assert_eq!(run.progress().waiting_for, None);
    read.send(0).unwrap();
    let note = hears.recv_timeout(Duration::from_secs(60)).expect("it is told");
    assert!(note.starts_with("reading 1099511627776 bytes of the destination, run7.dat,"), "{note}");
    assert_eq!(run.progress().waiting_for, Some(WaitingFor::Read));
    drop(read);
    let until = Instant::now() + Duration::from_secs(60);
    while run.progress().waiting_for.is_some() {
        assert!(Instant::now() < until, "it is over, and still said to be read");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.close();
}

/// Is being opened until the other end lets go.
struct Hangs {
    reached: Mutex<mpsc::Sender<()>>,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl FlowDestination for Hangs {
    fn open(&self, _: &FlowBegin, _: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        let _ = self.reached.lock().unwrap().send(());
        let _ = self.goes_on.lock().unwrap().recv();
        Err(Failure::new(FailureKind::Io, "open", "the test is over"))
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: bool) {}
}

#[test]
fn who_waits_for_the_last_word_hears_that_what_came_is_put_away() {
    let (reached, reaches) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel();
    let hangs = Arc::new(Hangs { reached: Mutex::new(reached), goes_on: Mutex::new(waits) });
    let flow = FlowWishes::new(Until::default()).terms;
    let terms = Terms::of(4 << 20, 1 << 20);
    let run = FlowReceive::start(hangs, terms, &flow, crate::event::nobody()).unwrap();
    let path = RelativePath::new(b"run7.dat".to_vec()).unwrap();
    let begin =
        FlowBegin { flow: EntryId(0), path, origin: Origin::default(), mode: 0o644, is_certain: false };
    run.hear(TransferMessage::Flow(FlowMessage::Begin(vec![begin]))).unwrap();
    reaches.recv_timeout(Duration::from_secs(60)).expect("it is being opened");
    assert_eq!(run.progress().waiting_for, None);
    let closing = {
        let run = run.clone();
        std::thread::spawn(move || run.close())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while run.progress().waiting_for != Some(WaitingFor::Write) {
        assert!(Instant::now() < until, "nobody hears why");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(goes_on);
    closing.join().unwrap();
    assert_eq!(run.progress().waiting_for, None);
}

/// Has so many files of long names that earlier attempts did not complete, and three more.
struct Unfinished(u64);

impl FlowDestination for Unfinished {
    fn open(&self, _: &FlowBegin, _: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        unreachable!("nothing begins")
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn left(&self) -> (Vec<FlowLeft>, u64) {
        let long = format!("/{}", "a".repeat(250)).repeat(10);
        let left = |at: u64| {
            let path = RelativePath::new(format!("{at}{long}").into_bytes()).unwrap();
            FlowLeft { name: path.clone(), path, origin: Origin([7; 16]), bytes: at }
        };
        ((0..self.0).map(left).collect(), 3)
    }

    fn close(&self, _: bool) {}
}

/// Each of 5 KB: as many as may be in one message are too long for it, and the sender waited for them for ever.
#[test]
fn what_earlier_attempts_left_is_told_in_messages_that_fit() {
    const FILES: u64 = 1500;
    let (flow, terms) = (FlowWishes::new(Until::default()).terms, Terms::of(4 << 20, 1 << 20));
    let there = Arc::new(Unfinished(FILES));
    let run = FlowReceive::start(there, terms, &flow, crate::event::nobody()).unwrap();
    let said = Said::default();
    run.attach(TransferNumber(1), Box::new(said.clone()), None);
    let (mut told, mut ends) = (Vec::new(), Vec::new());
    for message in lock(&said.0).drain(..) {
        let encoded = Message::Transfer(TransferNumber(1), message.clone()).encode().unwrap();
        Message::decode(&encoded[LENGTH_BYTES..]).unwrap();
        let TransferMessage::Flow(FlowMessage::Left(left, more)) = message else { panic!("{message:?}") };
        told.extend(left.into_iter().map(|left| left.bytes));
        ends.push(more);
    }
    assert_eq!(told, (0..FILES).collect::<Vec<_>>());
    assert_eq!(ends.pop(), Some(Some(3)));
    assert!(ends.len() > 1 && ends.iter().all(Option::is_none), "{ends:?}");
    run.close();
}

struct Unheard;

impl Outbox for Unheard {
    fn say(&self, _: TransferNumber, _: TransferMessage) {}

    fn work(&self) {}
}

#[test]
fn a_stream_goes_on_in_the_next_session_after_a_peer_that_lost_its_connection() {
    let run = under_way(crate::event::nobody());
    run.attach(TransferNumber(1), Box::new(Unheard), None);
    let lost = Failure::new(FailureKind::Connection, "read", "the file server does not answer");
    run.hear(TransferMessage::Abort(lost)).unwrap();
    assert!(run.ended().is_some());
    run.attach(TransferNumber(2), Box::new(Unheard), None);
    assert!(run.ended().is_none());
    run.close();
}

/// Has more to read than anybody will wait for.
struct Endless;

impl FlowDestination for Endless {
    fn open(&self, _: &FlowBegin, reading: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        while reading(1, 1 << 50) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Failure::new(FailureKind::Stopped, "read what is there", "nobody waits for it any more"))
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: bool) {}
}

fn under_way(events: Events) -> Arc<FlowReceive> {
    let (flow, terms) = (FlowWishes::new(Until::default()).terms, Terms::of(4 << 20, 1 << 20));
    let run = FlowReceive::start(Arc::new(Endless), terms, &flow, events).unwrap();
    let path = RelativePath::new(b"run7.dat".to_vec()).unwrap();
    let begin =
        FlowBegin { flow: EntryId(0), path, origin: Origin::default(), mode: 0o644, is_certain: false };
    run.hear(TransferMessage::Flow(FlowMessage::Begin(vec![begin]))).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while run.progress().waiting_for != Some(WaitingFor::Read) {
        assert!(Instant::now() < until, "nothing is read");
        std::thread::sleep(Duration::from_millis(1));
    }
    run
}

#[test]
fn one_that_finds_too_few_threads_leaves_none_and_closes_its_destination() {
    struct Closed(AtomicU32);

    impl FlowDestination for Closed {
        fn open(&self, _: &FlowBegin, _: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
            unreachable!("nothing begins")
        }

        fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
            Ok(())
        }

        fn close(&self, success: bool) {
            assert!(!success);
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    for threads in 0..3 {
        let (flow, terms) = (FlowWishes::new(Until::default()).terms, Terms::of(4 << 20, 1 << 20));
        let destination = Arc::new(Closed(AtomicU32::new(0)));
        let start = || FlowReceive::start(destination.clone(), terms, &flow, crate::event::nobody());
        let failure = scarce::only(threads, start).map(drop).unwrap_err();
        assert_eq!(failure.operation, START_THREAD);
        assert_eq!(destination.0.load(Ordering::Acquire), 1);
        assert_eq!(Arc::strong_count(&destination), 1, "something of it runs on, of {threads} threads");
    }
}

/// In a time that only what hangs takes.
fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (told, hears) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        let _ = told.send(());
    });
    hears.recv_timeout(Duration::from_secs(60)).is_ok()
}

#[test]
fn who_is_gone_is_not_read_for_any_more() {
    let run = under_way(crate::event::nobody());
    assert!(ends(move || run.close()), "what is there is read to its end, with the lock of its place held");
}

#[test]
fn what_is_withdrawn_is_not_read_any_more() {
    let run = under_way(crate::event::nobody());
    let why = Failure::new(FailureKind::Changed, "stream", "it was cut");
    run.hear(TransferMessage::Withdraw(vec![(EntryId(0), Some(why))])).unwrap();
    let reading = run.clone();
    let is_over = move || {
        while reading.progress().waiting_for.is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    assert!(ends(is_over), "it is read all the same");
    run.close();
}

#[test]
fn what_a_far_source_notes_is_inert_and_has_an_end() {
    let (notes, hears) = mpsc::channel();
    let notes = Mutex::new(notes);
    let events: Events = Arc::new(move |event| {
        if let Event::Note(text) = event {
            let _ = notes.lock().unwrap().send(text);
        }
    });
    let (flow, terms) = (FlowWishes::new(Until::default()).terms, Terms::of(4 << 20, 1 << 20));
    let run = FlowReceive::start(Arc::new(Endless), terms, &flow, events).unwrap();
    for _ in 0..NOTES_MAX + 10 {
        let note = FlowMessage::note("log was cut\u{1b}[2J\nerror: none".into());
        run.hear(TransferMessage::Flow(note)).unwrap();
    }
    run.close();
    let told: Vec<String> = hears.try_iter().collect();
    assert_eq!(told.len(), NOTES_MAX as usize + 1);
    assert!(told[0].starts_with("log was cut") && !told[0].contains(char::is_control), "{:?}", told[0]);
    assert_eq!(told.last().unwrap(), "the source notes more, which is in its log");
}

/// It takes as much for a moment as may be held.
#[test]
fn what_waits_for_the_receipt_counts_as_held_and_beyond_the_most_nothing_more_begins() {
    let (flow, terms) = (FlowWishes::new(Until::default()).terms, Terms::of(4 << 20, 1 << 20));
    let run = FlowReceive::start(Arc::new(Endless), terms, &flow, crate::event::nobody()).unwrap();
    let path = RelativePath::new(b"run7.dat".to_vec()).unwrap();
    let aside = |flow| {
        let denied = Failure::new(FailureKind::Permission, "read", "denied");
        TransferMessage::Aside(vec![(EntryId(flow), path.clone(), Outcome::Failed(denied))])
    };
    assert_eq!(run.held_bytes(), 0);
    run.hear(aside(1)).unwrap();
    let (told, waits) = {
        let state = run.lock();
        (state.machine.held_bytes(), state.end.held_bytes())
    };
    assert!(told > 0 && waits > 0, "{told} and {waits}");
    assert_eq!(run.held_bytes(), told + waits);
    // Each alone in its block.
    let mut block = 1;
    let mut state = run.lock();
    while state.end.held_bytes() <= limits::RECEIPT_BYTES_HELD_MAX {
        state.end.skipped(EntryId(BLOCK_ENTRIES * block));
        block += 1;
    }
    drop(state);
    let begin = FlowBegin {
        flow: EntryId(2),
        path: path.clone(),
        origin: Origin::default(),
        mode: 0o644,
        is_certain: false,
    };
    for message in [TransferMessage::Flow(FlowMessage::Begin(vec![begin])), aside(3)] {
        assert_eq!(run.hear(message).unwrap_err().kind, FailureKind::Protocol);
    }
    run.hear(TransferMessage::Flow(FlowMessage::Last)).unwrap();
    run.close();
}
