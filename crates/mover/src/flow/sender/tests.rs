//! What the simulator does not come by: sources that are rewound while links break, and flows by the thousand.

use super::*;
use thalweg_wire::message::{LENGTH_BYTES, Message, TransferNumber};

fn mark(bytes: u64, digest: Digest) -> FlowMark {
    FlowMark { flow: EntryId(0), bytes, digest }
}

const WINDOW_BYTES: u64 = 64 << 10;

/// One that has a link.
fn linked() -> Sender {
    let mut sender = Sender::new(WINDOW_BYTES);
    sender.link_up();
    sender
}

/// A pipe begins.
fn begin(sender: &mut Sender, path: &str) -> EntryId {
    begin_as(sender, path, (Origin::default(), false))
}

/// A file of this origin begins.
fn begin_file(sender: &mut Sender, path: &str, origin: u8) -> EntryId {
    begin_as(sender, path, (Origin([origin; 16]), true))
}

fn begin_as(sender: &mut Sender, path: &str, origin: (Origin, bool)) -> EntryId {
    let path = RelativePath::new(path.as_bytes().to_vec()).unwrap();
    sender.begin(path, origin, 0o644).unwrap()
}

/// A flow of which nothing was read.
fn begun() -> Sender {
    let mut sender = linked();
    begin(&mut sender, "x");
    sender
}

/// A flow that goes on at nothing.
fn open() -> Sender {
    let mut sender = begun();
    stands(&mut sender, mark(0, digest_of_nothing()));
    sender
}

fn push_byte(sender: &mut Sender, offset: u64) {
    let digest = Digest([offset as u8; 32]);
    let bytes = vec![1u8].into();
    let piece = Piece { flow: EntryId(0), offset, bytes, digest, prefix: digest };
    sender.push(piece).unwrap();
}

#[test]
fn a_byte_in_a_piece_of_its_own_counts_with_what_is_kept_beside_it() {
    let mut sender = open();
    let mut pieces = 0;
    while sender.has_room() {
        push_byte(&mut sender, pieces);
        pieces += 1;
    }
    assert_eq!(pieces, WINDOW_BYTES / (limits::FLOW_PIECE_BESIDE_BYTES as u64 + 1) + 1);
    let marks = FlowMessage::Mark(vec![mark(pieces, Digest([(pieces - 1) as u8; 32]))]);
    sender.hear(TransferMessage::Flow(marks)).unwrap();
    assert!(sender.has_room() && sender.progress().is_at_rest());
}

#[test]
fn a_window_that_was_granted_is_kept_to_and_one_in_which_there_is_too_little_room_is_refused() {
    let mut sender = open();
    assert!(sender.fit_window(WINDOW_BYTES / 2));
    let mut pieces = 0;
    while sender.has_room() {
        push_byte(&mut sender, pieces);
        pieces += 1;
    }
    assert_eq!(pieces, WINDOW_BYTES / 2 / (limits::FLOW_PIECE_BESIDE_BYTES as u64 + 1) + 1);
    // Another receiver would end it for what it is sent again.
    assert!(!sender.fit_window(WINDOW_BYTES / 4));
    assert!(sender.fit_window(WINDOW_BYTES / 2) && !sender.has_room(), "it fits as it did");
    assert!(sender.fit_window(WINDOW_BYTES) && sender.has_room());
}

#[test]
fn what_flows_are_called_counts_as_held_and_takes_no_room_from_their_pieces() {
    let mut sender = Sender::new(1000);
    sender.link_up();
    let path = |at: u64| RelativePath::new(format!("{at}-{}", "a".repeat(240)).into_bytes()).unwrap();
    for at in 0..100 {
        sender.begin(path(at), (Origin([7; 16]), false), 0o644).unwrap();
    }
    let under_way = sender.held_bytes();
    assert!(under_way > 100 * 240 && sender.has_room(), "{under_way}");
    let done = Outcome::Done { digest: Some(digest_of_nothing()), losses: Vec::new() };
    for flow in (0..100).map(EntryId) {
        let at = FlowMark { flow, bytes: 0, digest: digest_of_nothing() };
        stands(&mut sender, at);
        sender.end(flow);
        sender.hear(TransferMessage::Settled(vec![(flow, done.clone())])).unwrap();
    }
    // Another receiver is asked about them, and each is counted once.
    let complete = sender.held_bytes();
    assert!(complete > 100 * 240 && complete < under_way, "{complete} of {under_way}");
    assert_eq!(complete, sender.done_bytes);
    sender.rebind();
    assert_eq!((sender.held_bytes(), sender.done_bytes), (under_way, 0));
}

fn stands(sender: &mut Sender, at: FlowMark) {
    let stand = FlowMessage::Stand(vec![FlowStand { at, is_ours: true, is_over: false, name: None }]);
    sender.hear(TransferMessage::Flow(stand)).unwrap();
}

/// How many flows begin by what is to be said now, each time in a message that its peer takes.
fn begun_in_messages_that_fit(sender: &mut Sender) -> usize {
    let mut begun = 0;
    while let Some(action) = sender.take_action() {
        let Action::Say(message) = action else { continue };
        if let TransferMessage::Flow(FlowMessage::Begin(begins)) = &message {
            begun += begins.len();
        }
        let encoded = Message::Transfer(TransferNumber(1), message).encode().unwrap();
        Message::decode(&encoded[LENGTH_BYTES..]).unwrap();
    }
    begun
}

/// Each of 5 KB: as many as may be in one message are too long for it.
#[test]
fn flows_of_long_names_begin_again_in_messages_that_fit() {
    const FLOWS: usize = 1000;
    let mut sender = linked();
    let long = format!("/{}", "a".repeat(250)).repeat(20);
    for at in 0..FLOWS {
        begin(&mut sender, &format!("{at}{long}"));
    }
    while sender.take_action().is_some() {}
    sender.link_up();
    assert_eq!(begun_in_messages_that_fit(&mut sender), FLOWS);
    // And so they are asked about at another receiver when they are complete.
    let done = Outcome::Done { digest: Some(digest_of_nothing()), losses: Vec::new() };
    for flow in (0..FLOWS as u64).map(EntryId) {
        stands(&mut sender, FlowMark { flow, bytes: 0, digest: digest_of_nothing() });
        sender.end(flow);
        sender.hear(TransferMessage::Settled(vec![(flow, done.clone())])).unwrap();
    }
    while sender.take_action().is_some() {}
    sender.rebind();
    assert_eq!(begun_in_messages_that_fit(&mut sender), FLOWS);
}

fn rewinds(sender: &mut Sender) -> usize {
    let actions = std::iter::from_fn(|| sender.take_action());
    actions.filter(|action| matches!(action, Action::Rewind { .. })).count()
}

#[test]
fn a_source_that_is_rewound_while_the_link_breaks_is_rewound_once() {
    let (mut sender, at) = (begun(), mark(100, Digest([7; 32])));
    stands(&mut sender, at);
    assert_eq!(rewinds(&mut sender), 1);
    // While it reads.
    sender.link_up();
    stands(&mut sender, at);
    assert_eq!(rewinds(&mut sender), 0, "it does that already");
    // It has read before the receiver says again where it stands.
    sender.link_up();
    assert!(sender.rewound(&at, Ok(())));
    assert_eq!(sender.position(EntryId(0)), None);
    stands(&mut sender, at);
    assert_eq!(rewinds(&mut sender), 0, "a pipe could not");
    assert_eq!(sender.position(EntryId(0)), Some(100));
    assert!(!sender.rewound(&at, Ok(())), "once is enough");
}

#[test]
fn the_answer_of_a_source_that_is_to_be_elsewhere_by_now_is_of_the_past() {
    let (mut sender, then, now) = (begun(), mark(100, Digest([7; 32])), mark(0, digest_of_nothing()));
    stands(&mut sender, then);
    sender.link_up();
    rewinds(&mut sender);
    // Nothing is kept behind that, and the source is on its way elsewhere.
    stands(&mut sender, now);
    assert_eq!(rewinds(&mut sender), 1);
    assert!(!sender.rewound(&then, Ok(())));
    assert_eq!(sender.position(EntryId(0)), None);
    assert!(sender.rewound(&now, Ok(())));
    assert_eq!(sender.position(EntryId(0)), Some(0));
}

#[test]
fn a_flow_that_ends_without_a_link_says_so_over_the_next() {
    let mut sender = open();
    push_byte(&mut sender, 0);
    sender.unlink();
    sender.end(EntryId(0));
    sender.link_up();
    while sender.take_action().is_some() {}
    stands(&mut sender, mark(1, Digest([0; 32])));
    let end = FlowMessage::End(vec![mark(1, Digest([0; 32]))]);
    assert_eq!(sender.take_action(), Some(Action::Say(TransferMessage::Flow(end))));
}

#[test]
fn what_was_read_of_a_flow_that_failed_is_not_waited_for() {
    let mut sender = open();
    push_byte(&mut sender, 0);
    assert!(!sender.progress().is_at_rest());
    sender.give_up(EntryId(0), Failure::new(FailureKind::Io, "read", "the disk is gone"));
    let progress = sender.progress();
    assert!(progress.is_at_rest() && progress.marked_bytes < progress.read_bytes, "{progress:?}");
    assert!(sender.has_room());
}

#[test]
fn a_pipe_that_rests_waits_for_nobody_though_no_other_flow_will_come() {
    let mut sender = open();
    sender.last();
    assert!(!sender.awaits_peer(), "nothing was read of it yet");
    push_byte(&mut sender, 0);
    assert!(sender.awaits_peer());
    let marks = FlowMessage::Mark(vec![mark(1, Digest([0; 32]))]);
    sender.hear(TransferMessage::Flow(marks)).unwrap();
    assert!(!sender.awaits_peer(), "all of it is durable");
    sender.end(EntryId(0));
    assert!(sender.awaits_peer());
}

#[test]
fn more_flows_than_may_be_under_way_are_asked_about_again_in_turns() {
    let count = limits::FLOWS_MAX + 1;
    let mut sender = linked();
    // What each message began, and whether the last was told.
    let said = |sender: &mut Sender| {
        let (mut begun, mut is_last) = (Vec::new(), false);
        while let Some(action) = sender.take_action() {
            match action {
                Action::Say(TransferMessage::Flow(FlowMessage::Begin(begins))) => {
                    assert!(!is_last, "what begins behind the last is not counted");
                    begun.extend(begins.into_iter().map(|begin| begin.flow));
                }
                Action::Say(TransferMessage::Flow(FlowMessage::Last)) => is_last = true,
                _ => {}
            }
        }
        (begun, is_last)
    };
    for number in 0..count {
        let flow = begin(&mut sender, &number.to_string());
        ends_empty(&mut sender, flow);
    }
    sender.last();
    said(&mut sender);
    sender.rebind();
    let mut under_way: VecDeque<EntryId> = VecDeque::new();
    let (mut begun, mut is_last, mut most) = (0, false, 0);
    loop {
        let (more, is_told) = said(&mut sender);
        begun += more.len();
        under_way.extend(more);
        most = most.max(under_way.len());
        is_last |= is_told;
        assert!(!is_last || begun == count, "the last was told after {begun}");
        let Some(flow) = under_way.pop_front() else { break };
        ends_empty(&mut sender, flow);
        // A link that breaks meanwhile changes nothing.
        if begun == 3000 {
            said(&mut sender);
            sender.link_up();
            (under_way, begun) = (VecDeque::new(), begun - under_way.len());
        }
    }
    assert!(begun == count && is_last && most <= limits::FLOWS_AGAIN_MAX, "{begun} {is_last} {most}");
    assert_eq!(sender.progress().settled, count as u64);
    assert!(sender.hear(TransferMessage::Finished(Totals::default())).is_ok());
}

#[test]
fn flows_that_come_and_go_leave_nothing_but_the_latest_that_another_receiver_is_asked_about() {
    const MORE: usize = 100;
    assert_eq!(limits::FLOWS_DONE_KEPT_MAX, 65_536);
    let count = limits::FLOWS_DONE_KEPT_MAX + MORE;
    let mut sender = linked();
    for number in 0..count {
        let flow = begin(&mut sender, &number.to_string());
        ends_empty(&mut sender, flow);
        assert!(sender.flows.is_empty() && sender.done.len() <= limits::FLOWS_DONE_KEPT_MAX);
        sender.actions.clear();
    }
    assert_eq!((sender.forgotten(), sender.progress().settled), (MORE as u64, count as u64));
    // What is late about one that is over is of the past; of one that never began there is nothing to say.
    let late = FlowMessage::Mark(vec![mark(0, digest_of_nothing())]);
    sender.hear(TransferMessage::Flow(late)).unwrap();
    let never = EntryId(count as u64);
    let done = Outcome::Done { digest: Some(digest_of_nothing()), losses: Vec::new() };
    assert!(sender.hear(TransferMessage::Settled(vec![(never, done)])).is_err());
    sender.last();
    sender.rebind();
    let mut begun = BTreeMap::new();
    while let Some(action) = sender.take_action() {
        if let Action::Say(TransferMessage::Flow(FlowMessage::Begin(begins))) = action {
            for begin in begins {
                assert!(begun.insert(begin.flow, ()).is_none());
                ends_empty(&mut sender, begin.flow);
            }
        }
    }
    assert_eq!(begun.len(), limits::FLOWS_DONE_KEPT_MAX);
    assert_eq!(begun.keys().next(), Some(&EntryId(MORE as u64)), "the latest are remembered");
    assert_eq!(sender.progress().settled, count as u64);
    assert!(sender.hear(TransferMessage::Finished(Totals::default())).is_ok());
}

#[test]
fn what_could_not_be_read_is_said_aside_until_the_receiver_has_counted_it() {
    let mut sender = open();
    let said = |sender: &mut Sender| {
        let actions = std::iter::from_fn(|| sender.take_action());
        actions.filter(|action| matches!(action, Action::Say(TransferMessage::Aside(_)))).count()
    };
    let failure = Failure::new(FailureKind::Permission, "open", "Permission denied");
    sender.missed(RelativePath::new(b"secret".to_vec()).unwrap(), failure.clone());
    assert!(sender.awaits_peer());
    assert_eq!(said(&mut sender), 1);
    sender.link_up();
    assert_eq!(said(&mut sender), 1);
    let stand = FlowStand {
        at: FlowMark { flow: EntryId(1), ..mark(0, digest_of_nothing()) },
        is_ours: true,
        is_over: false,
        name: None,
    };
    assert!(sender.hear(TransferMessage::Flow(FlowMessage::Stand(vec![stand]))).is_err());
    sender.hear(TransferMessage::Settled(vec![(EntryId(1), Outcome::Failed(failure))])).unwrap();
    sender.link_up();
    assert_eq!(said(&mut sender), 0);
}

#[test]
fn of_a_file_that_was_complete_twice_another_receiver_is_asked_about_the_last() {
    let mut sender = linked();
    // It was renamed in between.
    complete(&mut sender, "log", 1, 5);
    let last = complete(&mut sender, "log.1", 1, 9);
    sender.last();
    begun_now(&mut sender);
    sender.rebind();
    assert_eq!(begun_now(&mut sender), [last.flow]);
    stands(&mut sender, last);
    settles(&mut sender, last);
    assert_eq!(sender.progress().settled, 2);
    assert!(sender.hear(TransferMessage::Finished(Totals::default())).is_ok());
}

/// A file of this origin is streamed under this name, and complete with so many bytes.
fn complete(sender: &mut Sender, path: &str, origin: u8, bytes: u64) -> FlowMark {
    let flow = begin_file(sender, path, origin);
    let at = FlowMark { flow, bytes, digest: Digest([bytes as u8; 32]) };
    stands(sender, at);
    sender.rewound(&at, Ok(()));
    sender.end(flow);
    settles(sender, at);
    at
}

fn settles(sender: &mut Sender, at: FlowMark) {
    let outcome = Outcome::Done { digest: Some(at.digest), losses: Vec::new() };
    sender.hear(TransferMessage::Settled(vec![(at.flow, outcome)])).unwrap();
}

/// A flow of nothing is read to its end.
fn ends_empty(sender: &mut Sender, flow: EntryId) {
    let at = FlowMark { flow, ..mark(0, digest_of_nothing()) };
    stands(sender, at);
    sender.end(flow);
    settles(sender, at);
}

/// What was said to begin since the last look.
fn begun_now(sender: &mut Sender) -> Vec<EntryId> {
    let actions = std::iter::from_fn(|| sender.take_action());
    let begins = actions.filter_map(|action| match action {
        Action::Say(TransferMessage::Flow(FlowMessage::Begin(begins))) => Some(begins),
        _ => None,
    });
    begins.flatten().map(|begin| begin.flow).collect()
}

#[test]
fn a_complete_file_that_grows_under_another_name_is_not_asked_about_as_what_it_was() {
    let mut sender = linked();
    complete(&mut sender, "log", 1, 5);
    sender.unlink();
    let grows = begin_file(&mut sender, "log.1", 1);
    begun_now(&mut sender);
    sender.rebind();
    assert_eq!(begun_now(&mut sender), [grows]);
    assert_eq!(sender.progress().settled, 1);
}

#[test]
fn a_file_that_grows_while_another_receiver_is_asked_about_it_begins_behind_that() {
    let mut sender = linked();
    let before = complete(&mut sender, "log", 1, 5);
    begun_now(&mut sender);
    sender.rebind();
    assert_eq!(begun_now(&mut sender), [before.flow]);
    let grows = begin_file(&mut sender, "log.1", 1);
    let another = begin_file(&mut sender, "log.1", 2);
    assert_eq!(begun_now(&mut sender), [another], "another file waits for nothing");
    // A link that breaks meanwhile changes nothing.
    sender.link_up();
    assert_eq!(begun_now(&mut sender), [before.flow, another]);
    stands(&mut sender, before);
    settles(&mut sender, before);
    assert_eq!(begun_now(&mut sender), [grows]);
    stands(&mut sender, FlowMark { flow: grows, ..before });
    sender.rewound(&FlowMark { flow: grows, ..before }, Ok(()));
    assert_eq!(sender.position(grows), Some(5));
}

#[test]
fn what_is_given_up_before_it_has_begun_is_counted_by_the_receiver_all_the_same() {
    let mut sender = linked();
    complete(&mut sender, "log", 1, 5);
    sender.rebind();
    begun_now(&mut sender);
    let grows = begin_file(&mut sender, "log", 1);
    sender.give_up(grows, Failure::new(FailureKind::Io, "read", "the disk is gone"));
    let said: Vec<Action> = std::iter::from_fn(|| sender.take_action()).collect();
    let is_begun = matches!(
        &said[0], Action::Say(TransferMessage::Flow(FlowMessage::Begin(begins))) if begins[0].flow == grows
    );
    let is_withdrawn = matches!(
        &said[1], Action::Say(TransferMessage::Withdraw(withdrawn)) if withdrawn[0].0 == grows
    );
    assert!(is_begun && is_withdrawn, "{said:?}");
}

#[test]
fn of_complete_files_that_wait_for_their_turn_one_that_grows_is_asked_about_as_what_it_is_now() {
    let mut sender = linked();
    let first = complete(&mut sender, "large", 1, ASKED_AGAIN_BYTES);
    complete(&mut sender, "log", 2, 5);
    begun_now(&mut sender);
    sender.rebind();
    assert_eq!((begun_now(&mut sender), sender.again.len()), (vec![first.flow], 1));
    let grows = begin_file(&mut sender, "log.1", 2);
    assert_eq!((begun_now(&mut sender), sender.again.len()), (vec![grows], 0));
    assert_eq!(sender.progress().settled, 1);
    stands(&mut sender, first);
    settles(&mut sender, first);
    assert_eq!((begun_now(&mut sender), sender.progress().settled), (vec![], 2));
}

#[test]
fn numbers_that_another_receiver_is_not_asked_about_are_said_to_be_gone() {
    let mut sender = linked();
    let gone = |sender: &mut Sender| {
        let actions = std::iter::from_fn(|| sender.take_action());
        let gone = actions.filter_map(|action| match action {
            Action::Gone(numbers) => Some((numbers.start, numbers.end)),
            _ => None,
        });
        gone.collect::<Vec<_>>()
    };
    let failed = begin(&mut sender, "failed");
    sender.give_up(failed, Failure::new(FailureKind::Io, "read", "the disk is gone"));
    complete(&mut sender, "large", 1, ASKED_AGAIN_BYTES);
    complete(&mut sender, "log", 2, 5);
    complete(&mut sender, "log", 2, 9);
    assert!(gone(&mut sender).is_empty(), "they have settled");
    sender.rebind();
    // What failed, and a file as it was before it grew.
    assert_eq!(gone(&mut sender), [(0, 1), (2, 3)]);
    begin_file(&mut sender, "log", 2);
    assert_eq!(gone(&mut sender), [(3, 4)], "it had not been asked about yet");
    sender.link_up();
    assert!(gone(&mut sender).is_empty(), "it is the same receiver");
}

#[test]
fn what_is_asked_about_again_is_not_much_to_read_at_a_time() {
    let mut sender = linked();
    const BYTES: u64 = ASKED_AGAIN_BYTES / 2;
    for number in 0..4u8 {
        complete(&mut sender, &number.to_string(), number, BYTES);
    }
    sender.rebind();
    assert_eq!((sender.flows.len(), sender.asked_again), (2, (2, 2 * BYTES)));
}
