//! What the simulator does not come by: flows that fail, senders that know others, pieces without end.

use super::ended::ENDED_RANGES_MAX;
use super::*;
use thalweg_wire::message::Until;

const PIECE_MAX: usize = 1000;
const NOW: Duration = Duration::ZERO;

fn receiver(window_bytes: u64) -> Receiver {
    Receiver::new(&FlowTerms { until: Until::default(), window_bytes, mark_every_ms: 0 }, PIECE_MAX)
}

fn begin(flow: u64, path: &str) -> FlowBegin {
    let path = RelativePath::new(path.as_bytes().to_vec()).unwrap();
    FlowBegin { flow: EntryId(flow), path, origin: Origin([7; 16]), mode: 0o644, is_certain: false }
}

fn hears(receiver: &mut Receiver, message: FlowMessage) {
    receiver.hear(TransferMessage::Flow(message), NOW).unwrap();
}

/// A flow begins, and nothing is there of it.
fn stands(receiver: &mut Receiver, flow: u64, path: &str) -> Slot {
    hears(receiver, FlowMessage::Begin(vec![begin(flow, path)]));
    let opened = actions(receiver).into_iter().find_map(|action| match action {
        Action::Open(slot, _) => Some(slot),
        _ => None,
    });
    let slot = opened.expect("it is looked at");
    let digest = digest_of_nothing();
    receiver.opened(slot, Ok(Stood { bytes: 0, digest, is_ours: true, is_over: false, name: None }));
    slot
}

fn actions(receiver: &mut Receiver) -> Vec<Action> {
    std::iter::from_fn(|| receiver.take_action()).collect()
}

fn is_told(actions: &[Action], flow: u64) -> bool {
    actions.iter().any(|action| match action {
        Action::Say(TransferMessage::Settled(told)) => {
            told.iter().any(|(number, _)| *number == EntryId(flow))
        }
        _ => false,
    })
}

/// One that does not pass.
fn failure() -> Failure {
    Failure::new(FailureKind::Damage, "read what is there", "the disk lost it")
}

/// One that may.
fn full() -> Failure {
    Failure::new(FailureKind::Space, "write", "No space left on device")
}

#[test]
fn what_was_handed_out_of_a_flow_that_failed_takes_no_room_from_the_others() {
    let window = 10 * (PIECE_MAX + limits::FLOW_PIECE_BESIDE_BYTES) as u64;
    let mut receiver = receiver(window);
    for round in 0..20u64 {
        let slot = stands(&mut receiver, round, &format!("flow-{round}"));
        for piece in 0..10 {
            receiver.arrived(EntryId(round), piece * PIECE_MAX as u64, vec![1; PIECE_MAX]).unwrap();
        }
        receiver.failed(slot, failure());
        // The sender has heard of it, and has room for the next; who writes comes by these only now.
        assert!(!receiver.is_behind());
        for action in actions(&mut receiver) {
            if let Action::Write(_, _, bytes) = action {
                receiver.skipped(bytes.len());
            }
        }
    }
}

#[test]
fn who_begins_flows_and_gives_them_up_waits_for_who_writes() {
    let window = 10 * (PIECE_MAX + limits::FLOW_PIECE_BESIDE_BYTES) as u64;
    let mut receiver = receiver(window);
    let mut taken = 0;
    while !receiver.is_behind() {
        stands(&mut receiver, taken, &format!("flow-{taken}"));
        for piece in 0..10 {
            receiver.arrived(EntryId(taken), piece * PIECE_MAX as u64, vec![1; PIECE_MAX]).unwrap();
        }
        receiver.hear(TransferMessage::Withdraw(vec![(EntryId(taken), Some(failure()))]), NOW).unwrap();
        taken += 1;
        assert!(taken < 3, "no end of it");
    }
}

#[test]
fn a_mark_is_made_by_a_quarter_of_what_the_sender_keeps_which_may_be_less_than_is_borne_here() {
    let terms = FlowTerms { until: Until::default(), window_bytes: 1 << 20, mark_every_ms: 1000 };
    let mut receiver = Receiver::new(&terms, PIECE_MAX);
    let slot = stands(&mut receiver, 0, "log");
    let is_synced = |receiver: &mut Receiver, piece: u64| {
        receiver.arrived(EntryId(0), piece * PIECE_MAX as u64, vec![1; PIECE_MAX]).unwrap();
        receiver.written(slot, PIECE_MAX, Digest([1; 32]), NOW);
        actions(receiver).iter().any(|action| matches!(action, Action::Sync(_)))
    };
    assert!(!is_synced(&mut receiver, 0), "the sender has most of its buffer to go on with");
    receiver.fit_window(4 * PIECE_MAX as u64);
    assert!(is_synced(&mut receiver, 1));
}

#[test]
fn a_byte_in_a_piece_of_its_own_counts_with_what_is_kept_beside_it() {
    let mut receiver = receiver(64 << 10);
    stands(&mut receiver, 0, "x");
    // The first byte never comes.
    let taken = (0..1u64 << 16).take_while(|at| receiver.arrived(EntryId(0), 1 + 2 * at, vec![1]).is_ok());
    let taken = taken.count();
    assert!((200..300).contains(&taken), "{taken} pieces of a byte");
}

#[test]
fn a_file_that_grows_after_it_was_complete_goes_on_after_an_outage_too() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 0, "log");
    let end = FlowMark { flow: EntryId(0), bytes: 0, digest: digest_of_nothing() };
    hears(&mut receiver, FlowMessage::End(vec![end]));
    receiver.completed(slot, Ok(()));
    assert!(is_told(&actions(&mut receiver), 0));
    receiver.link_up();
    let again = stands(&mut receiver, 1, "log");
    assert_ne!(again, slot);
    assert!(!is_told(&actions(&mut receiver), 1), "it is not over");
}

/// A flow begins, and so many bytes are there of it.
fn stands_behind(receiver: &mut Receiver, flow: u64, path: &str, bytes: u64) {
    hears(receiver, FlowMessage::Begin(vec![begin(flow, path)]));
    let slot = receiver.numbers[&EntryId(flow)];
    let digest = Digest([bytes as u8; 32]);
    receiver.opened(slot, Ok(Stood { bytes, digest, is_ours: true, is_over: false, name: None }));
    actions(receiver);
}

#[test]
fn what_a_stream_brought_itself_was_not_there_already_when_the_file_grows_again() {
    let mut receiver = receiver(64 << 10);
    comes_and_goes_as(&mut receiver, 0, "log");
    stands_behind(&mut receiver, 1, "log", 100);
    assert_eq!(receiver.totals().bytes_resumed, 0);
    stands_behind(&mut receiver, 2, "other", 7);
    assert_eq!(receiver.totals().bytes_resumed, 7);
    // Of another sender's stream all of that was there before.
    receiver.rebind();
    comes_and_goes_as(&mut receiver, 0, "third");
    assert_eq!(receiver.totals().bytes_resumed, 7);
    stands_behind(&mut receiver, 1, "fourth", 5);
    assert_eq!(receiver.totals().bytes_resumed, 12);
}

#[test]
fn another_sender_hears_of_a_flow_that_failed_before_and_both_have_it_in_their_receipts() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 5, "x");
    stands(&mut receiver, 6, "gone");
    receiver.failed(slot, failure());
    receiver.rebind();
    actions(&mut receiver);
    // Its numbers are others.
    hears(&mut receiver, FlowMessage::Begin(vec![begin(0, "x")]));
    let said = actions(&mut receiver);
    assert!(is_told(&said, 0), "{said:?}");
    let is_stated = |said: &[Action]| {
        said.iter().any(|action| match action {
            Action::Settled(_, over) => {
                over.begin.flow == EntryId(0) && matches!(over.outcome, Outcome::Failed(_))
            }
            _ => false,
        })
    };
    assert!(is_stated(&said), "the receipt lacks it: {said:?}");
    // Over a new link the same sender hears it again, and no receipt has it twice.
    receiver.link_up();
    hears(&mut receiver, FlowMessage::Begin(vec![begin(0, "x")]));
    let said = actions(&mut receiver);
    assert!(is_told(&said, 0) && !is_stated(&said), "{said:?}");
    // What the other sender does not know is in no receipt.
    hears(&mut receiver, FlowMessage::Last);
    let said = actions(&mut receiver);
    let is_gone = |action: &Action| match action {
        Action::Forgotten(_, over) => over.begin.flow == EntryId(6),
        _ => false,
    };
    assert!(said.iter().any(is_gone), "{said:?}");
    assert!(!said.iter().any(|action| matches!(action, Action::Settled(..))), "{said:?}");
}

#[test]
fn another_sender_tries_again_what_may_have_passed_and_no_answer_is_the_old_failure() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 5, "x");
    let between = stands(&mut receiver, 6, "y");
    receiver.failed(slot, full());
    receiver.rebind();
    receiver.failed(between, full());
    actions(&mut receiver);
    for (flow, path) in [(0, "x"), (1, "y")] {
        // It is looked at, as one that nobody knows.
        stands(&mut receiver, flow, path);
        assert!(!is_told(&actions(&mut receiver), flow));
    }
    assert_eq!(receiver.totals().failed, 2);
    for flow in 0..2 {
        let end = FlowMark { flow: EntryId(flow), bytes: 0, digest: digest_of_nothing() };
        hears(&mut receiver, FlowMessage::End(vec![end]));
        let slot = receiver.numbers[&EntryId(flow)];
        receiver.completed(slot, Ok(()));
    }
    assert_eq!((receiver.totals().failed, receiver.totals().done), (0, 2));
}

#[test]
fn who_gave_a_flow_up_and_begins_it_anew_finds_its_file_free_though_that_word_was_lost() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 0, "x");
    stands(&mut receiver, 1, "y");
    receiver.link_up();
    actions(&mut receiver);
    // All that is under way, in the order of their numbers, and then what is new.
    hears(&mut receiver, FlowMessage::Begin(vec![begin(1, "y"), begin(2, "x")]));
    let said = actions(&mut receiver);
    let at = |is_it: &dyn Fn(&Action) -> bool| said.iter().position(is_it);
    let over = at(&|action| matches!(action, Action::Settled(of, _) if *of == slot));
    let opened = at(&|action| matches!(action, Action::Open(_, begin) if begin.flow == EntryId(2)));
    assert!(over.is_some() && over < opened, "{said:?}");
    assert!(!said.iter().any(|action| matches!(action, Action::Settled(of, _) if *of != slot)), "{said:?}");
}

#[test]
fn a_file_counts_once_however_often_it_failed_and_not_as_failed_once_it_is_complete() {
    let mut receiver = receiver(64 << 10);
    for flow in 0..4 {
        let slot = stands(&mut receiver, flow, "x");
        receiver.failed(slot, full());
        assert!(is_told(&actions(&mut receiver), flow));
        assert_eq!(receiver.totals().failed, 1);
    }
    comes_and_goes_as(&mut receiver, 4, "x");
    assert_eq!((receiver.totals().failed, receiver.totals().done), (0, 1));
    // What does not pass stays counted.
    let slot = stands(&mut receiver, 5, "y");
    receiver.failed(slot, failure());
    comes_and_goes_as(&mut receiver, 6, "y");
    assert_eq!((receiver.totals().failed, receiver.totals().done), (1, 2));
    // It grew after it was complete.
    comes_and_goes_as(&mut receiver, 7, "x");
    assert_eq!((receiver.totals().failed, receiver.totals().done), (1, 2));
    // Another sender has to say it all again.
    receiver.rebind();
    assert_eq!(receiver.totals().done, 0);
    comes_and_goes_as(&mut receiver, 0, "x");
    assert_eq!((receiver.totals().failed, receiver.totals().done), (1, 1));
}

#[test]
fn another_sender_goes_on_with_a_file_that_was_renamed_under_the_name_that_it_began_with() {
    let mut receiver = receiver(64 << 10);
    stands(&mut receiver, 5, "log");
    receiver.rebind();
    actions(&mut receiver);
    // Whose origin is not certain is another flow.
    hears(&mut receiver, FlowMessage::Begin(vec![begin(0, "other")]));
    assert!(matches!(&actions(&mut receiver)[..], [Action::Open(..)]));
    hears(&mut receiver, FlowMessage::Begin(vec![FlowBegin { is_certain: true, ..begin(1, "log.1") }]));
    let said = actions(&mut receiver);
    let name = said.iter().find_map(|action| match action {
        Action::Say(TransferMessage::Flow(FlowMessage::Stand(stands))) => stands[0].name.clone(),
        _ => None,
    });
    assert_eq!(name, Some(RelativePath::new(b"log".to_vec()).unwrap()), "{said:?}");
}

#[test]
fn what_fails_between_two_senders_is_not_told_under_a_number_that_may_be_anothers() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 5, "x");
    receiver.rebind();
    actions(&mut receiver);
    receiver.failed(slot, failure());
    assert!(!is_told(&actions(&mut receiver), 5));
    hears(&mut receiver, FlowMessage::Begin(vec![begin(0, "x")]));
    let said = actions(&mut receiver);
    assert!(is_told(&said, 0), "{said:?}");
    assert!(said.iter().any(|action| matches!(action, Action::Settled(..))), "{said:?}");
}

#[test]
fn what_could_not_be_read_is_counted_and_stated_and_nothing_is_opened_for_it() {
    let mut receiver = receiver(64 << 10);
    let path = RelativePath::new(b"secret".to_vec()).unwrap();
    let aside =
        |flow| TransferMessage::Aside(vec![(EntryId(flow), path.clone(), Outcome::Failed(failure()))]);
    receiver.hear(aside(0), NOW).unwrap();
    let said = actions(&mut receiver);
    assert!(is_told(&said, 0) && said.iter().any(|action| matches!(action, Action::Settled(..))), "{said:?}");
    assert!(!said.iter().any(|action| matches!(action, Action::Open(..))), "{said:?}");
    // Its word was lost with the link; then another sender finds the same.
    receiver.link_up();
    receiver.hear(aside(0), NOW).unwrap();
    assert!(is_told(&actions(&mut receiver), 0));
    receiver.rebind();
    receiver.hear(aside(7), NOW).unwrap();
    let said = actions(&mut receiver);
    assert!(is_told(&said, 7) && said.iter().any(|action| matches!(action, Action::Settled(..))), "{said:?}");
    assert_eq!(receiver.totals().failed, 1);
    let done = Outcome::Done { digest: None, losses: Vec::new() };
    assert!(receiver.hear(TransferMessage::Aside(vec![(EntryId(8), path, done)]), NOW).is_err());
}

#[test]
fn what_is_remembered_of_flows_that_are_over_counts_as_held() {
    let mut receiver = receiver(64 << 10);
    let asides = |receiver: &mut Receiver, first: u64| {
        for at in 0..100 {
            let path = RelativePath::new(format!("{at:0250}").into_bytes()).unwrap();
            let aside = vec![(EntryId(first + at), path, Outcome::Failed(failure()))];
            receiver.hear(TransferMessage::Aside(aside), NOW).unwrap();
        }
        receiver.held_bytes()
    };
    let held = asides(&mut receiver, 0);
    assert!(held > 100 * 250, "{held}");
    // Whoever hears of them has them kept once.
    receiver.link_up();
    assert_eq!(asides(&mut receiver, 0), held);
    receiver.rebind();
    assert_eq!(receiver.held_bytes(), held, "they failed for good");
    assert_eq!(asides(&mut receiver, 1000), held);
    // What is complete no other sender hears of.
    let mut receiver = self::receiver(64 << 10);
    comes_and_goes(&mut receiver, 0);
    assert!(receiver.held_bytes() > 0);
    receiver.rebind();
    assert_eq!(receiver.held_bytes(), 0);
}

#[test]
fn what_flows_under_way_are_called_counts_as_held_until_they_are_over() {
    let mut receiver = receiver(64 << 10);
    let held = |receiver: &Receiver| receiver.flows.values().map(Flow::held_bytes).sum::<usize>();
    let long = "a".repeat(250);
    let slots: Vec<Slot> = (0..100).map(|at| stands(&mut receiver, at, &format!("{at}-{long}"))).collect();
    assert!(held(&receiver) > 100 * 250 && receiver.held_bytes() > 2 * 100 * 250);
    for slot in slots {
        receiver.failed(slot, full());
    }
    let told = receiver.held_bytes();
    assert!(held(&receiver) == 0 && told > 100 * 250, "{told}");
    // What was told is not kept for another sender, nor what was there of it; only what failed.
    receiver.rebind();
    let failed = receiver.held_bytes();
    assert!(failed > 100 * 250 && failed < told / 2, "{failed} of {told}");
}

/// A flow that begins, has no bytes, and is complete: what it took.
fn comes_and_goes(receiver: &mut Receiver, flow: u64) -> Vec<Action> {
    comes_and_goes_as(receiver, flow, &format!("flow-{flow}"))
}

fn comes_and_goes_as(receiver: &mut Receiver, flow: u64, path: &str) -> Vec<Action> {
    let slot = stands(receiver, flow, path);
    let end = FlowMark { flow: EntryId(flow), bytes: 0, digest: digest_of_nothing() };
    hears(receiver, FlowMessage::End(vec![end]));
    receiver.completed(slot, Ok(()));
    actions(receiver)
}

#[test]
fn flows_that_come_and_go_leave_nothing_but_the_latest_outcomes() {
    const COUNT: u64 = 3 * TOLD_KEPT_MAX as u64;
    let mut receiver = receiver(64 << 10);
    // One that takes for ever makes a gap.
    stands(&mut receiver, 7, "growing");
    for flow in (0..COUNT).filter(|flow| *flow != 7) {
        assert!(is_told(&comes_and_goes(&mut receiver, flow), flow));
        let under_way = (receiver.flows.len(), receiver.numbers.len());
        assert_eq!(under_way, (1, 1));
        assert!(
            receiver.ended.told.len() <= TOLD_KEPT_MAX && receiver.ended.told_order.len() <= TOLD_KEPT_MAX
        );
        assert!(receiver.ended.numbers.ranges() <= 2, "{:?}", receiver.ended.numbers);
    }
    assert_eq!(receiver.totals().done, COUNT - 1);
    // The word of the last ones was lost with the link: they hear it again, and nothing is counted twice.
    receiver.link_up();
    let last = COUNT - 1;
    let first = COUNT - TOLD_KEPT_MAX as u64;
    for flow in [first, last] {
        hears(&mut receiver, FlowMessage::Begin(vec![begin(flow, &format!("flow-{flow}"))]));
        let said = actions(&mut receiver);
        assert!(is_told(&said, flow) && said.len() == 1, "{said:?}");
    }
    assert_eq!(receiver.totals().done, COUNT - 1);
    // Pieces and words that are late are of the past.
    receiver.arrived(EntryId(0), 0, vec![1]).unwrap();
    let end = FlowMark { flow: EntryId(0), bytes: 0, digest: Digest([1; 32]) };
    hears(&mut receiver, FlowMessage::End(vec![end]));
    receiver.hear(TransferMessage::Withdraw(vec![(EntryId(0), Some(failure()))]), NOW).unwrap();
    assert!(actions(&mut receiver).is_empty());
    // Of one that its sender has heard of long ago nobody may ask.
    let long_over = FlowMessage::Begin(vec![begin(0, "flow-0")]);
    assert!(receiver.hear(TransferMessage::Flow(long_over), NOW).is_err());
}

#[test]
fn more_names_aside_than_are_remembered_are_counted_once() {
    const COUNT: u64 = TOLD_KEPT_MAX as u64 + 100;
    let mut receiver = receiver(64 << 10);
    let aside = |flow: u64| {
        let path = RelativePath::new(format!("secret-{flow}").into_bytes()).unwrap();
        TransferMessage::Aside(vec![(EntryId(flow), path, Outcome::Failed(failure()))])
    };
    for _ in 0..2 {
        for flow in 0..COUNT {
            receiver.hear(aside(flow), NOW).unwrap();
            assert!(is_told(&actions(&mut receiver), flow));
        }
        receiver.link_up();
    }
    assert_eq!(receiver.totals().failed, COUNT);
    assert!(receiver.ended.told.len() <= TOLD_KEPT_MAX);
}

#[test]
fn a_sender_that_leaves_numbers_out_is_stopped() {
    let mut receiver = receiver(64 << 10);
    let aside = |flow: u64| {
        let path = RelativePath::new(b"secret".to_vec()).unwrap();
        TransferMessage::Aside(vec![(EntryId(2 * flow), path, Outcome::Failed(failure()))])
    };
    let taken = (0..).take_while(|flow| {
        receiver.actions.clear();
        receiver.hear(aside(*flow), NOW).is_ok()
    });
    assert_eq!(taken.count(), ENDED_RANGES_MAX);
}

#[test]
fn a_flow_that_ends_while_its_last_bytes_are_made_durable_leaves_nothing_due_behind() {
    let mut receiver = receiver(64 << 10);
    let slot = stands(&mut receiver, 0, "log");
    receiver.arrived(EntryId(0), 0, vec![1; 10]).unwrap();
    let digest = Digest(*blake3::hash(&[1; 10]).as_bytes());
    receiver.written(slot, 10, digest, NOW);
    assert!(actions(&mut receiver).iter().any(|action| matches!(action, Action::Sync(_))));
    hears(&mut receiver, FlowMessage::End(vec![FlowMark { flow: EntryId(0), bytes: 10, digest }]));
    receiver.synced(&[(slot, 10, digest)], NOW);
    assert!(actions(&mut receiver).iter().any(|action| matches!(action, Action::Complete(..))));
    assert_eq!(receiver.due(), None, "who makes marks would look for one without a pause");
}

#[test]
fn who_begins_and_withdraws_while_something_large_is_looked_at_comes_to_an_end() {
    let mut receiver = receiver(64 << 10);
    let cycle = |receiver: &mut Receiver, flow: u64| -> Result<()> {
        let message = TransferMessage::Flow(FlowMessage::Begin(vec![begin(flow, "x")]));
        receiver.hear(message, NOW)?;
        receiver.hear(TransferMessage::Withdraw(vec![(EntryId(flow), Some(failure()))]), NOW)
    };
    let taken = (0..1 << 20).take_while(|flow| cycle(&mut receiver, *flow).is_ok()).count();
    assert_eq!(taken, OPENS_MAX, "each is kept until it is looked at");
    // Who looks comes by them.
    let opens = actions(&mut receiver).iter().filter(|action| matches!(action, Action::Open(..))).count();
    (0..opens).for_each(|_| receiver.not_opened());
    cycle(&mut receiver, 1 << 20).unwrap();
}
