//! Several copies of a chunk: which is written, which is asked for again, and when one is late.

use super::*;
use crate::transfer::Copy;
use crate::transfer::receiver::{Candidate, RoundResult};
use thalweg_wire::message::VerifyLevel;

/// A receiver that wants one large file, of chunks of four segments.
fn receiving() -> Receiver {
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    receiver.link_up();
    receiver.hear(Say::Offer(vec![file("large", 8 << 20)]), Duration::ZERO).unwrap();
    receiver.decided(EntryId(0), Decided::Fresh, Duration::ZERO);
    receiver
}

/// Asks for a segment of the first chunk and says whether it may be written; that is done at once.
fn claim(receiver: &mut Receiver, writer: u64, begins: Option<Copy>) -> bool {
    let claim = receiver.claim_chunk(writer, EntryId(0), 0, begins);
    receiver.segment_written(writer, EntryId(0), 0);
    claim == receiver::Claim::Write
}

fn repairs(receiver: &mut Receiver) -> usize {
    asked_again(receiver).0
}

/// How often a chunk was asked for because it came damaged, and for other reasons.
fn asked_again(receiver: &mut Receiver) -> (usize, usize) {
    let mut asked = (0, 0);
    while let Some(action) = receiver.take_action() {
        asked.0 += usize::from(matches!(action, Action::Say(Say::Repair(_))));
        asked.1 += usize::from(matches!(action, Action::Say(Say::Differs(_))));
    }
    asked
}

#[test]
fn a_copy_that_creeps_in_does_not_end_the_one_that_was_sent_because_it_is_slow() {
    let mut receiver = receiving();
    // Stream 2 sends again what stream 1 has had for long, and overtakes it.
    assert!(claim(&mut receiver, 2, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 1, Some(Copy::First)));
    assert!(claim(&mut receiver, 2, None));
    assert!(!claim(&mut receiver, 1, None));
    // The other way round it takes over.
    let mut receiver = receiving();
    assert!(claim(&mut receiver, 1, Some(Copy::First)));
    assert!(claim(&mut receiver, 2, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 1, None), "one that was overtaken never comes back");
    assert!(claim(&mut receiver, 2, None));
    assert_eq!(repairs(&mut receiver), 0);
}

#[test]
fn who_was_turned_away_for_a_copy_that_ends_early_is_asked_again() {
    let mut receiver = receiving();
    assert!(claim(&mut receiver, 1, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 2, Some(Copy::First)));
    receiver.copy_given_up(2, EntryId(0), 0);
    assert_eq!(asked_again(&mut receiver), (0, 0), "stream 1 still has it");
    receiver.copy_given_up(1, EntryId(0), 0);
    assert_eq!(asked_again(&mut receiver), (0, 1));
    // It came damaged: asked for once, and free for anybody at once.
    assert!(claim(&mut receiver, 1, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 2, Some(Copy::First)));
    receiver.damaged(EntryId(0), 0);
    receiver.copy_given_up(1, EntryId(0), 0);
    assert_eq!(repairs(&mut receiver), 1);
    assert!(claim(&mut receiver, 2, Some(Copy::First)));
}

#[test]
fn of_a_file_the_one_chunk_that_came_damaged_is_asked_for_and_sent_again() {
    let mut receiver = receiving();
    while receiver.take_action().is_some() {}
    assert_eq!(receiver.claim_chunk(1, EntryId(0), 1, Some(Copy::First)), receiver::Claim::Write);
    receiver.segment_written(1, EntryId(0), 1);
    receiver.damaged(EntryId(0), 1);
    let asked: Vec<Say> = std::iter::from_fn(|| receiver.take_action())
        .filter_map(|action| match action {
            Action::Say(say) => Some(say),
            _ => None,
        })
        .collect();
    let [Say::Repair(runs)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(runs[..], [(EntryId(0), Run { first: 1, count: 1 })]);
    // And of four chunks the sender sends that one a second time.
    let (mut sender, file) = wanted(None, vec![file("large", 4 * CHUNK)]);
    assert_eq!(work_off(&mut sender), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    sender.hear(Say::Repair(vec![(file, Run { first: 1, count: 1 })])).unwrap();
    assert_eq!(work_off(&mut sender), [(0, 1)]);
}

#[test]
fn a_file_that_stays_damaged_is_counted_as_that_on_both_sides_and_one_that_fails_otherwise_is_not() {
    let mut receiver = receiving();
    (0..1000).for_each(|_| receiver.damaged(EntryId(0), 0));
    assert_eq!((receiver.damaged_entries(), receiver.totals().failed), (1, 1));
    let (mut sender, first) = wanted(None, vec![file("damaged", 4 * CHUNK), file("full", 4 * CHUNK)]);
    let failed = |kind| Outcome::Failed(Failure::new(kind, "write", "as the test wants it"));
    let second = EntryId(first.0 + 1);
    let settled = vec![(first, failed(FailureKind::Damage)), (second, failed(FailureKind::Space))];
    sender.hear(Say::Settled(settled)).unwrap();
    let progress = sender.progress();
    assert_eq!((progress.entries_damaged, progress.entries_failed, progress.entries_settled), (1, 2, 2));
}

/// In a session that goes on its streams do too, and the next attempt may have its partials by then.
#[test]
fn of_a_receiver_that_failed_nothing_more_is_written() {
    let now = Duration::ZERO;
    let mut receiver = receiving();
    let small = EntryId(1);
    receiver.hear(Say::Offer(vec![Entry { id: small, ..file("small", 5) }]), now).unwrap();
    receiver.decided(small, Decided::Fresh, now);
    assert!(claim(&mut receiver, 1, Some(Copy::First)));
    assert!(receiver.chunks_wanted(EntryId(0)).is_some() && receiver.is_under_way(EntryId(0)));
    assert!(receiver.small_wanted(std::iter::once(small)).iter().all(Option::is_some));
    receiver.abort(Failure::new(FailureKind::Stopped, "receive", "as the test wants it"));
    assert!(!claim(&mut receiver, 1, None), "the rest of what it had begun");
    assert!(!claim(&mut receiver, 2, Some(Copy::Again)));
    assert!(receiver.chunks_wanted(EntryId(0)).is_none() && !receiver.is_under_way(EntryId(0)));
    assert!(receiver.small_wanted(std::iter::once(small)).iter().all(Option::is_none));
}

#[test]
fn what_was_read_back_damaged_counts_once_when_it_has_come_again() {
    let now = Duration::ZERO;
    let terms = Terms { verify: VerifyLevel::Readback, ..terms() };
    let chunk_bytes = terms.chunk_bytes;
    let mut receiver = Receiver::new(terms, receiver::Limits::default());
    let small = Entry { id: EntryId(1), ..file("small", 5) };
    // The last chunk is a short one.
    receiver.hear(Say::Offer(vec![file("large", chunk_bytes + 7), small]), now).unwrap();
    for id in [0, 1] {
        receiver.decided(EntryId(id), Decided::Fresh, now);
    }
    let come = |receiver: &mut Receiver| {
        receiver.chunk_written(EntryId(0), 1, Digest([1; 32]), now);
        assert_eq!(receiver.files_staged(&[(EntryId(1), Digest([2; 32]))], now), [true]);
        receiver.verified_and_durable_bytes().0
    };
    assert_eq!(come(&mut receiver), 7 + 5);
    let later = Duration::from_secs(60);
    receiver.tick(later);
    receiver.round_done(RoundResult::Done, later);
    receiver.round_done(RoundResult::Damaged(vec![(EntryId(0), 1), (EntryId(1), 0)]), later);
    assert_eq!(receiver.verified_and_durable_bytes(), (0, 0), "none of it is there");
    assert_eq!(come(&mut receiver), 7 + 5);
}

#[test]
fn holes_of_a_file_that_is_the_same_count_as_compared_and_those_of_one_that_comes_do_not() {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    for is_same in [true, false] {
        let mut receiver = Receiver::new(terms.clone(), receiver::Limits::default());
        let sparse = Kind::File { sparse: true, marked: true };
        let sparse = Entry { kind: sparse, ..file("sparse", 5 * CHUNK) };
        receiver.hear(Say::Offer(vec![sparse]), Duration::ZERO).unwrap();
        let candidate = Some(Candidate { chunks: 5, is_whole: true, is_elsewhere: false });
        let decided = Decided::Wanted { present: Vec::new(), candidate };
        receiver.decided(EntryId(0), decided, Duration::ZERO);
        let mut counts = |first: u64, count: u64, looked: Option<bool>| {
            let holes = Say::Holes(vec![(EntryId(0), Run { first, count })]);
            receiver.hear(holes, Duration::ZERO).unwrap();
            if let Some(is_hole) = looked {
                receiver.holes_compared(EntryId(0), is_hole, Duration::ZERO);
            }
            let chunks = |bytes: u64| bytes / CHUNK;
            (chunks(receiver.verified_and_durable_bytes().0), chunks(receiver.compared_hole_bytes()))
        };
        // While nobody has looked, nothing is known to move.
        assert_eq!(counts(1, 2, None), (2, 2));
        let compared = if is_same { [3, 4] } else { [0, 0] };
        assert_eq!(counts(2, 2, Some(is_same)), (3, compared[0]));
        assert_eq!(counts(4, 1, None), (4, compared[1]));
    }
}

#[test]
fn a_chunk_that_the_destination_lost_is_no_damage_however_often_it_does() {
    let mut receiver = receiving();
    let (mut sender, large) = wanted(None, vec![file("large", 4 * CHUNK)]);
    for time in 0..200 {
        assert!(claim(&mut receiver, 1, Some(Copy::First)), "{time}");
        receiver.lost(EntryId(0), 0, Duration::ZERO);
        receiver.copy_given_up(1, EntryId(0), 0);
        assert_eq!(asked_again(&mut receiver), (0, 1), "{time}");
        work_off(&mut sender);
        sender.hear(Say::Differs(vec![(large, Run { first: 0, count: 1 })])).unwrap();
    }
    assert_eq!(work_off(&mut sender), [(0, 0)]);
}

#[test]
fn an_entry_of_which_the_destination_loses_chunk_after_chunk_and_keeps_none_fails_by_itself() {
    let mut receiver = receiving();
    let lose = |receiver: &mut Receiver, times: u32| {
        (0..times).for_each(|_| receiver.lost(EntryId(0), 0, Duration::ZERO));
    };
    let failed = |receiver: &mut Receiver| {
        std::iter::from_fn(|| receiver.take_action()).find_map(|action| match action {
            Action::Settled(_, Outcome::Failed(failure)) => Some(failure.to_string()),
            _ => None,
        })
    };
    // One that becomes whole begins the count anew.
    lose(&mut receiver, 512);
    receiver.chunk_written(EntryId(0), 1, Digest::default(), Duration::ZERO);
    lose(&mut receiver, 512);
    assert_eq!(failed(&mut receiver), None);
    lose(&mut receiver, 1);
    let failed = failed(&mut receiver).expect("it goes on for ever");
    assert!(failed.contains("512 times before one was whole"), "{failed}");
    assert!(!claim(&mut receiver, 1, Some(Copy::First)));
}

#[test]
fn a_stream_that_dies_is_no_damage_however_often_it_was_preferred() {
    let mut receiver = receiving();
    for stream in 0..100 {
        assert!(claim(&mut receiver, stream, Some(Copy::Again)), "stream {stream}");
        assert!(!claim(&mut receiver, stream + 1, Some(Copy::First)));
        receiver.writer_gone(stream);
        assert_eq!(asked_again(&mut receiver), (0, 1), "stream {stream}");
    }
}

#[test]
fn a_chunk_handed_out_twice_says_so() {
    let (mut sender, file) = wanted(None, vec![file("large", CHUNK + 1)]);
    let now = Duration::ZERO;
    let copy_of = |next: Next| match next {
        Next::Work(Work::Chunk(_, chunk, copy)) => (chunk, copy),
        other => panic!("{other:?}"),
    };
    assert_eq!(copy_of(sender.next_work(0, now)), (0, Copy::First));
    assert_eq!(copy_of(sender.next_work(1, now)), (1, Copy::First));
    sender.chunk_sent(1, file, 1, Digest::default());
    sender.hear(ack(file, 1)).unwrap();
    let later = sender::Limits::for_path(&terms(), None).hedge.after(None);
    assert_eq!(sender.progress().taken_over, 0);
    assert_eq!(copy_of(sender.next_work(1, later)), (0, Copy::Again), "one that takes long");
    assert_eq!(sender.progress().taken_over, 1);
    // And one of a stream that was lost.
    sender.stream_lost(0);
    sender.stream_lost(1);
    sender.stream_up(2);
    assert_eq!(copy_of(sender.next_work(2, later)), (0, Copy::Again));
    assert_eq!(sender.progress().taken_over, 1, "what was lost is no longer another's");
}

/// Where chunks take 100 ms, one that a slow stream has is late after 500 ms, not after the 3 s that hold while nothing
/// is known; where they take 5 s, not before 20 s.
#[test]
fn a_chunk_is_late_by_the_measure_of_the_others() {
    for (each, late) in [(100, 500), (5_000, 20_000)] {
        let (each, late) = (Duration::from_millis(each), Duration::from_millis(late));
        let (mut sender, file) = wanted(None, vec![file("large", 8 * CHUNK)]);
        let mut now = Duration::ZERO;
        for chunk in 0..7 {
            let next = sender.next_work(0, now);
            assert!(matches!(next, Next::Work(Work::Chunk(_, at, Copy::First)) if at == chunk), "{next:?}");
            sender.chunk_sent(0, file, chunk, Digest::default());
            if chunk > 0 {
                // While one is sent the one before is verified.
                sender.hear(ack(file, chunk - 1)).unwrap();
            }
            now += each;
        }
        assert!(matches!(sender.next_work(1, now), Next::Work(Work::Chunk(_, 7, Copy::First))));
        sender.hear(ack(file, 6)).unwrap();
        let before = now + late - Duration::from_millis(1);
        assert!(matches!(sender.next_work(0, before), Next::Wait(Some(at)) if at == now + late));
        let next = sender.next_work(0, now + late);
        assert!(matches!(next, Next::Work(Work::Chunk(_, 7, Copy::Again))), "{next:?}");
    }
}
