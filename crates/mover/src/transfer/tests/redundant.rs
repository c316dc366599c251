//! What of the source may go: what was read of it and stands at the destination.

use super::*;
use crate::transfer::stays::{Fate, Stays};
use thalweg_wire::message::Loss;

/// Entries that were told, and whether they may go, or why they stay.
fn told(sender: &mut Sender) -> Vec<(u64, Fate)> {
    let actions = std::iter::from_fn(|| sender.take_action());
    let may_go = |action| match action {
        sender::Action::MayGo(entry, fate) => Some((entry.id.0, fate)),
        _ => None,
    };
    actions.filter_map(may_go).collect()
}

fn sender_of(terms: &Terms, kinds: &[Kind]) -> Sender {
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(terms, None));
    sender.tell_redundant();
    let entry = |(at, kind): (usize, &Kind)| Entry { kind: kind.clone(), ..file(&at.to_string(), 2 * CHUNK) };
    sender.offer(kinds.iter().enumerate().map(entry).collect());
    assert!(sender.stream_up(0));
    sender
}

const FILE: Kind = Kind::File { sparse: false, marked: false };

#[test]
fn a_file_may_go_if_what_was_read_of_it_stands_there_and_stays_if_it_was_only_looked_at() {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut sender = sender_of(&terms, &[FILE; 7]);
    sender.hear(Say::Want((0..3).map(|id| (EntryId(id), Want::Whole)).collect())).unwrap();
    work_off(&mut sender);
    // All three have the same digests.
    let read = sender.digest_read(EntryId(0)).unwrap();
    let (done, same) = (
        |digest| Outcome::Done { digest: Some(digest), losses: Vec::new() },
        |digest| Outcome::Unchanged { digest: Some(digest) },
    );
    let known = Digest([9; 32]);
    let failed = Outcome::Failed(Failure::new(FailureKind::Io, "write", "as the test wants it"));
    let outcomes = [
        done(read),
        same(read),
        // Not what was read: it fails.
        done(known),
        // Of these nothing was read, whatever the catalogue says of them.
        done(known),
        same(known),
        Outcome::Skipped("as the test wants it".to_owned()),
        failed,
    ];
    sender.hear(Say::Settled((0..).map(EntryId).zip(outcomes).collect())).unwrap();
    let (goes, not_compared) = (Ok(()), Err(Stays::NotCompared));
    let expected = [(0, goes), (1, goes), (3, not_compared), (4, not_compared), (5, Err(Stays::LeftAlone))];
    assert_eq!(told(&mut sender), expected);
}

#[test]
fn links_may_go_when_they_stand_there_and_nothing_else_is_asked_about() {
    let first = file("0", 0).path;
    let link = Kind::Symlink { target: b"there".to_vec() };
    let second = Kind::HardLink { first, of: EntryId(0) };
    let kinds = [Kind::Directory, link.clone(), link.clone(), second, link, Kind::Fifo];
    let mut sender = sender_of(&terms(), &kinds);
    let done = || Outcome::Done { digest: None, losses: Vec::new() };
    let outcomes = [
        done(),
        done(),
        Outcome::Unchanged { digest: None },
        done(),
        Outcome::Skipped("as the test wants it".to_owned()),
        done(),
    ];
    sender.hear(Say::Settled((0..).map(EntryId).zip(outcomes).collect())).unwrap();
    assert_eq!(told(&mut sender), [(1, Ok(())), (2, Ok(())), (3, Ok(())), (4, Err(Stays::LeftAlone))]);
}

#[test]
fn what_the_destination_could_not_keep_in_full_stays() {
    let lost = |digest| {
        let loss = Loss { what: "owner".to_owned(), why: "as the test wants it".to_owned() };
        Outcome::Done { digest, losses: vec![loss] }
    };
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let link = Kind::Symlink { target: b"there".to_vec() };
    let mut sender = sender_of(&terms, &[FILE, link]);
    sender.hear(Say::Want(vec![(EntryId(0), Want::Whole)])).unwrap();
    work_off(&mut sender);
    let read = sender.digest_read(EntryId(0));
    assert!(read.is_some());
    sender.hear(Say::Settled(vec![(EntryId(0), lost(read)), (EntryId(1), lost(None))])).unwrap();
    let stays: Fate = Err(Stays::NotInFull);
    assert_eq!(told(&mut sender), [(0, stays), (1, stays)]);
}

#[test]
fn in_a_dry_run_what_would_come_would_go() {
    let terms = Terms { dry_run: true, ..terms() };
    let mut sender = sender_of(&terms, &[FILE; 2]);
    let outcomes = [
        Outcome::Done { digest: None, losses: Vec::new() },
        Outcome::Unchanged { digest: Some(Digest([9; 32])) },
    ];
    sender.hear(Say::Settled((0..).map(EntryId).zip(outcomes).collect())).unwrap();
    assert_eq!(told(&mut sender), [(0, Ok(())), (1, Err(Stays::NotCompared))]);
}

#[test]
fn nobody_is_told_who_did_not_ask() {
    let (mut sender, id) = wanted(None, vec![file("a", 2 * CHUNK)]);
    work_off(&mut sender);
    let digest = sender.digest_read(id);
    sender.hear(Say::Settled(vec![(id, Outcome::Unchanged { digest })])).unwrap();
    assert!(told(&mut sender).is_empty());
}
