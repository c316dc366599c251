//! Files of other names that may have the content of an entry.

use super::*;
use thalweg_wire::message::Seal;

const ID: EntryId = EntryId(0);
const NOW: Duration = Duration::ZERO;

/// A receiver that was offered a file of four chunks; a file of another name may have them.
fn comparing() -> Receiver {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut receiver = Receiver::new(terms, receiver::Limits::default());
    receiver.link_up();
    receiver.hear(Say::Offer(vec![file("new", 4 * CHUNK)]), NOW).unwrap();
    let candidate = Some(receiver::Candidate::elsewhere(4 * CHUNK, CHUNK));
    receiver.decided(ID, Decided::Wanted { present: Vec::new(), candidate }, NOW);
    let wants = vec![(ID, Want::Compare(vec![Run { first: 0, count: 4 }]))];
    assert!(actions(&mut receiver).contains(&Action::Say(Say::Want(wants))));
    receiver
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
fn a_wrong_guess_costs_one_chunk_and_all_is_asked_for_once() {
    let mut receiver = comparing();
    assert!(receiver.compare_wanted(ID, 2).unwrap().is_some());
    receiver.chunk_differs(ID, 2, NOW);
    assert_eq!(asked(&mut receiver), [Run { first: 0, count: 4 }]);
    // What is under way comes to nothing.
    assert_eq!(receiver.compare_wanted(ID, 0).unwrap(), None);
    receiver.chunk_differs(ID, 1, NOW);
    receiver.chunk_same(ID, 3, Digest([1; 32]), NOW);
    assert!(asked(&mut receiver).is_empty());
    assert_eq!((receiver.renamed(), receiver.totals().bytes_same), ((0, 0), 0));
}

#[test]
fn what_is_the_same_is_copied_at_once_and_the_rest_asked_for() {
    let mut receiver = comparing();
    receiver.chunk_same(ID, 0, Digest([1; 32]), NOW);
    assert!(actions(&mut receiver).iter().any(|action| matches!(action, Action::Copy(_, 0, _))));
    receiver.chunk_differs(ID, 1, NOW);
    assert_eq!(asked(&mut receiver), [Run { first: 1, count: 1 }]);
    receiver.copied(ID, 0, true, NOW);
    assert_eq!(receiver.renamed(), (1, CHUNK));
    // It changed since it was compared.
    receiver.chunk_same(ID, 2, Digest([2; 32]), NOW);
    receiver.copied(ID, 2, false, NOW);
    assert_eq!(asked(&mut receiver), [Run { first: 2, count: 1 }]);
    assert_eq!((receiver.renamed(), receiver.totals().bytes_same), ((1, CHUNK), CHUNK));
}

#[test]
fn it_is_never_kept_as_the_entry_and_room_is_wanted_for_it() {
    let mut receiver = comparing();
    assert_eq!(receiver.wanted_bytes(), 4 * CHUNK);
    let digests = [1, 2, 3, 4].map(|byte| Digest([byte; 32]));
    (0..4).for_each(|chunk| receiver.chunk_same(ID, chunk, digests[chunk as usize], NOW));
    let digest = thalweg_wire::digest::join(&digests, true);
    let evidence = file("new", 4 * CHUNK).evidence;
    receiver.hear(Say::Seal(vec![(ID, Seal { evidence, digest, asked: 0 })]), NOW).unwrap();
    assert!(!actions(&mut receiver).iter().any(|action| matches!(action, Action::Keep(..))));
}
