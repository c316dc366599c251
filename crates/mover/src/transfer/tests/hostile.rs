//! Peers that have us keep more than they send, or do it again and again.

use super::*;
use crate::transfer::receiver::Candidate;
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
fn so_many_holes_that_nobody_could_look_for_them_in_time_are_a_difference() {
    let chunks = limits::FILE_BYTES_MAX / CHUNK;
    let mut receiver = receiving_holes(usize::MAX, Some(Candidate { chunks, is_whole: true }));
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
