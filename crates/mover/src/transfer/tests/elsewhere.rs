//! Files of other names that may have the content of an entry.

use super::*;
use thalweg_wire::message::Seal;

const ID: EntryId = EntryId(0);
const NOW: Duration = Duration::ZERO;

fn offer(chunks: u64) -> Say {
    Say::Offer(vec![file("new", chunks * CHUNK)])
}

/// A receiver that was offered a file of so many chunks; a file of another name may have them.
fn comparing(chunks: u64) -> Receiver {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut receiver = Receiver::new(terms, receiver::Limits::default());
    receiver.link_up();
    receiver.hear(offer(chunks), NOW).unwrap();
    let candidate = Some(receiver::Candidate::elsewhere(chunks * CHUNK, CHUNK));
    receiver.decided(ID, Decided::Wanted { present: Vec::new(), candidate }, NOW);
    assert!(wants_compared(&mut receiver, chunks));
    receiver
}

/// Whether all of so many chunks are to be compared.
fn wants_compared(receiver: &mut Receiver, chunks: u64) -> bool {
    let wants = vec![(ID, Want::Compare(vec![run(0, chunks)]))];
    actions(receiver).contains(&Action::Say(Say::Want(wants)))
}

fn run(first: u64, count: u64) -> Run {
    Run { first, count }
}

fn actions(receiver: &mut Receiver) -> Vec<Action> {
    std::iter::from_fn(|| receiver.take_action()).collect()
}

/// What was asked for as it is.
fn asked(receiver: &mut Receiver) -> Vec<Run> {
    let said = actions(receiver).into_iter().filter_map(|action| match action {
        Action::Say(Say::Differs(runs)) => Some(runs),
        _ => None,
    });
    said.flatten().map(|(_, run)| run).collect()
}

#[test]
fn a_wrong_guess_costs_four_chunks_and_all_is_asked_for_once() {
    let mut receiver = comparing(8);
    for chunk in [2, 5, 6] {
        assert!(receiver.compare_wanted(ID, chunk).unwrap().is_some());
        receiver.chunk_differs(ID, chunk, NOW);
        assert_eq!(asked(&mut receiver), [run(chunk, 1)]);
    }
    receiver.chunk_differs(ID, 0, NOW);
    assert_eq!(asked(&mut receiver), [run(0, 2), run(3, 2), run(7, 1)]);
    // What is under way comes to nothing.
    assert_eq!(receiver.compare_wanted(ID, 1).unwrap(), None);
    receiver.chunk_differs(ID, 1, NOW);
    receiver.chunk_same(ID, 3, Digest([1; 32]), NOW);
    assert!(asked(&mut receiver).is_empty());
    assert_eq!((receiver.renamed(), receiver.totals().bytes_same), ((0, 0), 0));
    // One with fewer chunks has no more to show.
    let mut receiver = comparing(2);
    receiver.chunk_differs(ID, 1, NOW);
    assert!(receiver.compare_wanted(ID, 0).unwrap().is_some());
    receiver.chunk_differs(ID, 0, NOW);
    assert_eq!(asked(&mut receiver), [run(1, 1), run(0, 1)]);
    assert_eq!(receiver.compare_wanted(ID, 0).unwrap(), None);
}

/// Several streams compare at the same time: which chunk answers first is chance.
#[test]
fn a_chunk_that_differs_before_others_are_found_is_no_wrong_guess() {
    let mut receiver = comparing(8);
    receiver.chunk_differs(ID, 5, NOW);
    receiver.chunk_same(ID, 0, Digest([1; 32]), NOW);
    for chunk in [1, 2, 3, 4] {
        receiver.chunk_differs(ID, chunk, NOW);
    }
    assert_eq!(asked(&mut receiver), [5, 1, 2, 3, 4].map(|chunk| run(chunk, 1)));
    assert!(receiver.compare_wanted(ID, 6).unwrap().is_some());
}

#[test]
fn what_was_asked_for_over_a_link_that_is_lost_is_asked_for_again() {
    let mut receiver = comparing(8);
    [2, 3].into_iter().for_each(|chunk| receiver.chunk_differs(ID, chunk, NOW));
    assert_eq!(asked(&mut receiver), [run(2, 1), run(3, 1)]);
    receiver.link_up();
    // Of a link that is not there any more.
    receiver.chunk_differs(ID, 4, NOW);
    receiver.hear(offer(8), NOW).unwrap();
    assert!(wants_compared(&mut receiver, 8));
    [0, 1, 2].into_iter().for_each(|chunk| receiver.chunk_differs(ID, chunk, NOW));
    assert_eq!(asked(&mut receiver), [run(0, 1), run(1, 1), run(2, 1)]);
    receiver.chunk_differs(ID, 4, NOW);
    assert_eq!(asked(&mut receiver), [run(3, 5)]);
}

#[test]
fn what_is_the_same_is_copied_at_once_and_the_rest_asked_for() {
    let mut receiver = comparing(4);
    receiver.chunk_same(ID, 0, Digest([1; 32]), NOW);
    assert!(actions(&mut receiver).iter().any(|action| matches!(action, Action::Copy(_, 0, _))));
    receiver.chunk_differs(ID, 1, NOW);
    assert_eq!(asked(&mut receiver), [run(1, 1)]);
    receiver.copied(ID, 0, true, NOW);
    assert_eq!(receiver.renamed(), (1, CHUNK));
    // It changed since it was compared.
    receiver.chunk_same(ID, 2, Digest([2; 32]), NOW);
    receiver.copied(ID, 2, false, NOW);
    assert_eq!(asked(&mut receiver), [run(2, 1)]);
    assert_eq!((receiver.renamed(), receiver.totals().bytes_same), ((1, CHUNK), CHUNK));
}

#[test]
fn it_is_never_kept_as_the_entry_and_room_is_wanted_for_it() {
    let mut receiver = comparing(4);
    assert_eq!(receiver.wanted_bytes(), 4 * CHUNK);
    let digests = [1, 2, 3, 4].map(|byte| Digest([byte; 32]));
    (0..4).for_each(|chunk| receiver.chunk_same(ID, chunk, digests[chunk as usize], NOW));
    let digest = thalweg_wire::digest::join(&digests, true);
    let evidence = file("new", 4 * CHUNK).evidence;
    receiver.hear(Say::Seal(vec![(ID, Seal { evidence, digest, asked: 0 })]), NOW).unwrap();
    assert!(!actions(&mut receiver).iter().any(|action| matches!(action, Action::Keep(..))));
}
