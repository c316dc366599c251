//! Peers that have us keep more than they send, or do it again and again.

use super::*;
use crate::transfer::receiver::Candidate;
use std::collections::BTreeSet;
use thalweg_wire::limits;

/// A receiver that wants a file of holes as large as a file may be, of which `candidate` stands here.
fn receiving_holes(hole_runs: usize, candidate: Option<Candidate>) -> Receiver {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut receiver = Receiver::new(terms, receiver::Limits { hole_runs, ..receiver::Limits::default() });
    let huge = file("huge", limits::FILE_BYTES_MAX);
    let huge = Entry { kind: Kind::File { sparse: true, marked: true }, ..huge };
    receiver.hear(Say::Offer(vec![huge]), Duration::ZERO).unwrap();
    let decided = match candidate {
        None => Decided::Fresh,
        candidate => Decided::Wanted { present: Vec::new(), candidate },
    };
    receiver.decided(EntryId(0), decided, Duration::ZERO);
    receiver
}

#[test]
fn holes_between_which_nothing_comes_are_kept_a_bounded_number_of_times() {
    let most = 100;
    let mut receiver = receiving_holes(most, None);
    let mut hear = |first: u64, count: u64| {
        receiver.hear(Say::Holes(vec![(EntryId(0), Run { first, count })]), Duration::ZERO)
    };
    // Side by side they are one, however many.
    (0..1000).for_each(|first| hear(first, 1).unwrap());
    let far = 1u64 << 30;
    let refused = (1..1000u64).find_map(|at| {
        let heard = hear((at << 21) + far, (1 << 21) - 3);
        heard.err().map(|failure| (at as usize, failure.kind))
    });
    let (runs, kind) = refused.expect("a bound");
    assert_eq!(kind, FailureKind::Protocol);
    assert!((most..=2 * most + 1).contains(&runs), "{runs} runs");
}

#[test]
fn holes_of_a_file_that_came_to_nothing_are_kept_no_more() {
    let held = |holes: u64| {
        let mut receiver = receiving_holes(1000, None);
        let runs = (0..holes).map(|at| (EntryId(0), Run { first: at << 21, count: 1 })).collect();
        receiver.hear(Say::Holes(runs), Duration::ZERO).unwrap();
        let before = receiver.held_bytes();
        let failure = Failure::new(FailureKind::Permission, "write", "as the test wants it");
        receiver.write_failed(EntryId(0), failure, Duration::ZERO);
        (before, receiver.held_bytes())
    };
    let (without, with) = (held(0), held(100));
    assert!(with.0 > without.0);
    assert_eq!(with.1, without.1);
}

#[test]
fn so_many_holes_that_nobody_could_look_for_them_in_time_are_a_difference() {
    let chunks = limits::FILE_BYTES_MAX / CHUNK;
    let candidate = Candidate { chunks, is_whole: true, is_elsewhere: false };
    let mut receiver = receiving_holes(usize::MAX, Some(candidate));
    let runs = (0..100_000).map(|first| (EntryId(0), Run { first, count: 1 })).collect();
    receiver.hear(Say::Holes(runs), Duration::ZERO).unwrap();
    let is_look = |action: &Action| matches!(action, Action::CompareHoles(..));
    let looks = std::iter::from_fn(|| receiver.take_action()).filter(is_look).count();
    assert!((1..=64 << 10).contains(&looks), "{looks}");
    // Answers that come after that make room for no more of this one.
    (0..looks).for_each(|_| receiver.holes_compared(EntryId(0), true, Duration::ZERO));
    receiver.hear(Say::Holes(vec![(EntryId(0), Run { first: 1 << 40, count: 1 })]), Duration::ZERO).unwrap();
    assert_eq!(std::iter::from_fn(|| receiver.take_action()).filter(is_look).count(), 0);
}

#[test]
fn names_aside_are_numbered_as_entries_are() {
    let outcome = || Outcome::Skipped("a socket".to_owned());
    let aside = |id| Say::Aside(vec![(EntryId(id), file("a", 0).path, outcome())]);
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    // One after the other, and with a few between that were lost with a link.
    [0, 1, 1000].into_iter().for_each(|id| receiver.hear(aside(id), Duration::ZERO).unwrap());
    for id in [1 << 60, u64::MAX] {
        let refused = receiver.hear(aside(id), Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Protocol, "{id}");
    }
}

#[test]
fn who_wants_the_same_file_over_and_over_is_refused() {
    let (mut sender, large) = wanted(None, vec![file("large", 10 * CHUNK)]);
    let again = || Say::Want(vec![(large, Want::Missing(Vec::new()))]);
    let mut say = || sender.hear(again()).err().map(|failure| failure.kind);
    let refused = (0..1000).find_map(|number| say().map(|kind| (number, kind)));
    let (number, kind) = refused.expect("a bound");
    // An honest one says in two which chunks to compare and which to send, and once more where neither was
    // right.
    assert!((2..100).contains(&number), "{number}");
    assert_eq!(kind, FailureKind::Protocol);
    // Over another link it may begin anew.
    let (mut sender, large) = wanted(None, vec![file("large", 10 * CHUNK)]);
    for _ in 0..100 {
        sender.link_up();
        sender.hear(Say::Want(vec![(large, Want::Whole)])).unwrap();
    }
}

#[test]
fn what_was_once_queued_because_it_is_missing_is_not_queued_by_each_wish() {
    let (mut sender, large) = wanted(None, vec![file("large", 10 * CHUNK)]);
    let next = sender.next_work(0, Duration::ZERO);
    let Next::Work(Work::Chunk(_, chunk, _)) = next else { panic!("{next:?}") };
    // While stream 0 reads it nobody else does.
    sender.hear(Say::Want(vec![(large, Want::Missing(vec![Run { first: 9, count: 1 }]))])).unwrap();
    while let Next::Work(Work::Chunk(_, other, _)) = sender.next_work(1, Duration::ZERO) {
        assert_ne!(chunk, other);
        sender.chunk_sent(1, large, other, Digest::default());
    }
}

#[test]
fn gaps_in_what_a_receiver_says_are_bounded_by_what_was_sent() {
    let most = 1000;
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let limits = sender::Limits { gaps: most, ..sender::Limits::for_path(&terms, None) };
    let sending = || {
        let mut sender = Sender::new(terms.clone(), limits.clone());
        let large = sender.offer(vec![file("large", limits::FILE_BYTES_MAX)]);
        assert!(sender.stream_up(0));
        sender.hear(Say::Want(vec![(large, Want::Whole)])).unwrap();
        (sender, large)
    };
    type Saying = fn(EntryId, u64) -> Say;
    let sayings: [(&str, Saying); 4] = [
        ("have", |entry, at| Say::Have { entry, first: 2 * at, digests: vec![Digest::default()] }),
        ("verified", |entry, at| ack(entry, 2 * at)),
        ("durable", |entry, at| Say::Ack(AckLevel::Durable, vec![(entry, Run { first: 2 * at, count: 1 })])),
        ("want", |entry, _| {
            let runs = (0..10_000).map(|at| Run { first: 2 * at, count: 1 }).collect();
            Say::Want(vec![(entry, Want::Compare(runs))])
        }),
    ];
    for (words, saying) in sayings {
        let (mut sender, large) = sending();
        let refused = (0..10 * most as u64).find_map(|at| sender.hear(saying(large, at)).err());
        let why = refused.expect(words);
        assert!(why.kind == FailureKind::Protocol && why.cause.contains("gaps"), "{words}: {why}");
    }
    // What was sent may be acknowledged in any order.
    let (mut sender, large) = sending();
    for _ in 0..3 * most {
        let next = sender.next_work(0, Duration::ZERO);
        let Next::Work(Work::Chunk(_, chunk, _)) = next else { panic!("{next:?}") };
        sender.chunk_sent(0, large, chunk, Digest::default());
        if chunk.is_multiple_of(2) {
            sender.hear(ack(large, chunk)).unwrap();
            sender.hear(Say::Ack(AckLevel::Durable, vec![(large, Run { first: chunk, count: 1 })])).unwrap();
        }
    }
}

/// Files of which every other chunk is there, as no order of reading leaves them.
#[test]
fn what_an_earlier_attempt_left_in_more_pieces_than_a_sender_bears_comes_again_in_part() {
    let (most, now) = (1000, Duration::ZERO);
    let (chunks, left) = (4 * most as u64, most / 4 * 3);
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let limits = sender::Limits { gaps: most, ..sender::Limits::for_path(&terms, None) };
    let mut sender = Sender::new(terms.clone(), limits);
    let mut receiver = Receiver::new(terms, receiver::Limits { gaps: left, ..receiver::Limits::default() });
    let files: Vec<Entry> = ["one", "two", "three"].map(|name| file(name, chunks * CHUNK)).into();
    sender.offer(files.clone());
    assert!(sender.stream_up(0));
    let numbered = (0..).map(EntryId).zip(files).map(|(id, file)| Entry { id, ..file });
    receiver.hear(Say::Offer(numbered.collect()), now).unwrap();
    // How many chunks the sender is told of, each alone; all others it is to read.
    let mut tells = |receiver: &mut Receiver, id: u64| {
        let there = (0..chunks).step_by(2).map(|chunk| (chunk, Digest::default()));
        let decided = Decided::Wanted { present: there.collect(), candidate: None };
        receiver.decided(EntryId(id), decided, now);
        let (mut told, mut asked) = (0, BTreeSet::new());
        while let Some(action) = receiver.take_action() {
            let Action::Say(say) = action else { continue };
            match &say {
                Say::Have { digests, .. } => told += digests.len(),
                Say::Want(wants) => {
                    let runs = wants.iter().flat_map(|(_, want)| want.runs());
                    asked.extend(runs.flat_map(|run| run.first..run.first + run.count));
                }
                _ => {}
            }
            sender.hear(say).expect("what an honest receiver says");
        }
        assert!((0..chunks).filter(|chunk| !chunk.is_multiple_of(2)).all(|chunk| asked.contains(&chunk)));
        assert_eq!(told + asked.len(), chunks as usize, "{id}");
        told
    };
    let first = tells(&mut receiver, 0);
    assert!((left / 5..left / 3).contains(&first), "{first}");
    // Something is left for another one, and all of it when the first is over.
    let second = tells(&mut receiver, 1);
    assert!((1..first / 4).contains(&second), "{second}");
    let gone = Failure::new(FailureKind::Io, "read", "gone");
    receiver.hear(Say::Withdraw(vec![(EntryId(0), Some(gone))]), now).unwrap();
    let third = tells(&mut receiver, 2);
    assert!((first / 2..first).contains(&third), "{third}");
}

#[test]
fn a_file_that_may_have_holes_comes_again_as_a_whole_where_more_is_left_of_it_than_can_be_told() {
    let (chunks, now) = (1000, Duration::ZERO);
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    for (gaps, is_whole) in [(100, true), (100_000, false)] {
        for (sparse, marked) in [(true, false), (false, true)] {
            let limits = receiver::Limits { gaps, ..receiver::Limits::default() };
            let mut receiver = Receiver::new(terms.clone(), limits);
            let holes = Entry { kind: Kind::File { sparse, marked }, ..file("holes", chunks * CHUNK) };
            receiver.hear(Say::Offer(vec![holes]), now).unwrap();
            let there = (0..chunks).step_by(2).map(|chunk| (chunk, Digest::default()));
            let decided = Decided::Wanted { present: there.collect(), candidate: None };
            receiver.decided(EntryId(0), decided, now);
            let (mut is_discarded, mut asked) = (false, 0);
            while let Some(action) = receiver.take_action() {
                match action {
                    Action::Discard(id) => is_discarded = id == EntryId(0) && asked == 0,
                    Action::Say(Say::Want(wants)) => {
                        let runs = wants.iter().flat_map(|(_, want)| want.runs());
                        asked += runs.map(|run| run.count).sum::<u64>();
                    }
                    _ => {}
                }
            }
            let all = if is_whole { chunks } else { chunks / 2 };
            assert_eq!((is_discarded, asked), (is_whole, all), "{sparse} {marked}");
        }
    }
}

#[test]
fn what_a_sender_has_a_receiver_keep_is_counted_until_it_is_over() {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    assert_eq!(receiver.held_bytes(), 0);
    let name = |id: u64| format!("{id:0250}/{id:0249}");
    let files = (0..100).map(|id| Entry { id: EntryId(id), ..file(&name(id), 5) }).collect();
    receiver.hear(Say::Offer(files), now).unwrap();
    assert!(receiver.held_bytes() > 100 * 500, "{}", receiver.held_bytes());
    for id in 0..100 {
        let outcome = Outcome::Failed(Failure::new(FailureKind::Io, "write", "x".repeat(2000)));
        receiver.decided(EntryId(id), Decided::Settled { outcome, made: false }, now);
    }
    // The outcomes, until they were heard.
    assert!(receiver.held_bytes() > 100 * 2000, "{}", receiver.held_bytes());
    receiver.hear(Say::Heard(vec![Run { first: 0, count: 100 }]), now).unwrap();
    assert_eq!(receiver.held_bytes(), 0);
}
