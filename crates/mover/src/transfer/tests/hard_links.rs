//! Hard links: what they wait for, what they are made to, and what becomes of one that cannot be made.

use super::*;

/// What a receiver wants done now.
fn wanted_done(receiver: &mut Receiver) -> Vec<Action> {
    let actions = std::iter::from_fn(|| receiver.take_action());
    actions.filter(|action| !matches!(action, Action::Say(_))).collect()
}

/// The hard links among what is to be done now.
fn links(receiver: &mut Receiver) -> Vec<Entry> {
    let link = |action| match action {
        Action::Link(entry) => Some(Entry::clone(&entry)),
        _ => None,
    };
    wanted_done(receiver).into_iter().filter_map(link).collect()
}

/// The first name of inode 7, offered as `id` when it had `size` bytes.
fn first_name(id: u64, size: u64) -> Entry {
    let evidence = Evidence { size, inode: 7, ..Evidence::default() };
    Entry { id: EntryId(id), evidence, ..file("a", size) }
}

/// Another name of it, listed when `a` was number 0.
fn second_name(id: u64, name: &str) -> Entry {
    let of = first_name(0, 2 << 20);
    let kind = Kind::HardLink { first: of.path, of: of.id };
    Entry { id: EntryId(id), kind, evidence: of.evidence, ..file(name, 0) }
}

fn unchanged() -> Decided {
    Decided::Settled { outcome: Outcome::Unchanged { digest: None }, made: false }
}

/// A receiver that waits for the content of `a`, to which `b` is a hard link.
fn waiting_with_a_link() -> Receiver {
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let entries = vec![first_name(0, 2 << 20), second_name(1, "b")];
    receiver.hear(Say::Offer(entries), Duration::ZERO).unwrap();
    receiver.decided(EntryId(0), Decided::Fresh, Duration::ZERO);
    assert!(links(&mut receiver).is_empty());
    receiver
}

#[test]
fn a_hard_link_waits_for_what_replaces_its_file_and_is_made_to_that() {
    let now = Duration::ZERO;
    let mut receiver = waiting_with_a_link();
    receiver.hear(Say::Withdraw(vec![(EntryId(0), None)]), now).unwrap();
    assert!(links(&mut receiver).is_empty(), "its file is to come");
    let new = first_name(2, 3 << 20);
    receiver.hear(Say::Offer(vec![new.clone()]), now).unwrap();
    let wanted = wanted_done(&mut receiver);
    // Looked at in a new directory too, for the first one may have got its name there.
    let [Action::OfferedBefore(path), Action::Decide(entry)] = &wanted[..] else { panic!("{wanted:?}") };
    assert_eq!((path, entry.id), (&new.path, new.id));
    // One that is listed later names the first number too.
    receiver.hear(Say::Offer(vec![second_name(3, "c")]), now).unwrap();
    assert!(links(&mut receiver).is_empty());
    receiver.decided(new.id, unchanged(), now);
    let links = links(&mut receiver);
    assert_eq!(links.iter().map(|link| link.id.0).collect::<Vec<_>>(), [1, 3]);
    let kind = Kind::HardLink { first: new.path, of: new.id };
    assert!(links.iter().all(|link| link.evidence == new.evidence && link.kind == kind), "{links:?}");
}

/// Hands over what the two have to say. What the receiver wants done besides.
fn exchanged(sender: &mut Sender, receiver: &mut Receiver) -> Vec<Action> {
    let mut wanted = Vec::new();
    loop {
        let mut is_silent = true;
        while let Some(action) = sender.take_action() {
            is_silent = false;
            if let sender::Action::Say(say) = action {
                receiver.hear(say, Duration::ZERO).expect("a correct sender");
            }
        }
        while let Some(action) = receiver.take_action() {
            is_silent = false;
            match action {
                Action::Say(say) => sender.hear(say).expect("a correct receiver"),
                other => wanted.push(other),
            }
        }
        if is_silent {
            return wanted;
        }
    }
}

#[test]
fn a_hard_link_that_cannot_be_made_is_offered_again_as_what_it_is_by_itself() {
    let now = Duration::ZERO;
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    let (mut sender, mut receiver) = with_a_link_that_cannot_be_made(limits);
    let check = |sender: &mut Sender, stream| match sender.next_work(stream, now) {
        Next::Work(Work::Check(link)) => link,
        other => panic!("{other:?}"),
    };
    assert!(sender.stream_up(0));
    check(&mut sender, 0);
    // Another stream looks when the first breaks.
    assert!(sender.stream_lost(0) && sender.stream_up(1));
    let link = check(&mut sender, 1);
    assert_eq!(sender.checked(1, link.id, link.evidence), Retry::LookAgain);
    // And a third, when the second breaks before it offers what it saw.
    assert!(sender.stream_lost(1) && sender.stream_up(2));
    let link = check(&mut sender, 2);
    assert_eq!(sender.checked(2, link.id, link.evidence), Retry::LookAgain);
    sender.offer_again(link.id, Ok(Entry { evidence: link.evidence, ..file("b", 2 << 20) }));
    let wanted = exchanged(&mut sender, &mut receiver);
    let decided = wanted.iter().find_map(|action| match action {
        Action::Decide(entry) => Some(entry.clone()),
        _ => None,
    });
    let again = decided.expect("it is looked at");
    assert!(again.path == link.path && matches!(again.kind, Kind::File { .. }), "{again:?}");
    receiver.decided(again.id, unchanged(), now);
    exchanged(&mut sender, &mut receiver);
    assert_eq!((receiver.totals().unchanged, sender.progress().entries_settled), (2, 2));
}

/// The two, of which one cannot make the hard link `b` and the other is to look what that is by itself.
fn with_a_link_that_cannot_be_made(limits: sender::Limits) -> (Sender, Receiver) {
    let now = Duration::ZERO;
    let (mut sender, mut receiver) =
        (Sender::new(terms(), limits), Receiver::new(terms(), receiver::Limits::default()));
    sender.link_up();
    sender.offer(vec![first_name(0, 2 << 20), second_name(1, "b")]);
    exchanged(&mut sender, &mut receiver);
    receiver.decided(EntryId(0), unchanged(), now);
    let wanted = exchanged(&mut sender, &mut receiver);
    assert!(wanted.iter().any(|action| matches!(action, Action::Link(_))), "{wanted:?}");
    receiver.decided(EntryId(1), Decided::Fresh, now);
    exchanged(&mut sender, &mut receiver);
    (sender, receiver)
}

#[test]
fn a_hard_link_that_comes_as_a_file_counts_with_its_content_at_both_ends() {
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    for is_link_lost in [false, true] {
        let (mut sender, mut receiver) = with_a_link_that_cannot_be_made(limits.clone());
        assert_eq!((receiver.offered(), receiver.unlinked_bytes()), ((2, 2 << 20), 0));
        assert_eq!(sender.changed(EntryId(1)), Retry::LookAgain);
        sender.offer_again(EntryId(1), Ok(file("b", 2 << 20)));
        if is_link_lost {
            sender.link_up();
            receiver.link_up();
        }
        exchanged(&mut sender, &mut receiver);
        assert_eq!((receiver.offered(), receiver.unlinked_bytes()), ((2, 4 << 20), 2 << 20));
        assert_eq!(sender.progress().bytes_offered, 4 << 20);
        assert_eq!(receiver.wanted_bytes(), 0, "its first name is there, and of itself nothing is known");
        receiver.decided(EntryId(2), Decided::Fresh, Duration::ZERO);
        assert_eq!(receiver.wanted_bytes(), 2 << 20);
        // Another change of it is no link any more.
        assert_eq!(sender.changed(EntryId(2)), Retry::LookAgain);
        sender.offer_again(EntryId(2), Ok(file("b", 3 << 20)));
        exchanged(&mut sender, &mut receiver);
        assert_eq!((receiver.offered(), receiver.unlinked_bytes()), ((2, 4 << 20), 2 << 20));
        receiver.decided(EntryId(3), Decided::Fresh, Duration::ZERO);
        assert_eq!(receiver.wanted_bytes(), 2 << 20);
    }
}

#[test]
fn a_hard_link_that_cannot_be_made_uses_up_no_try_of_its_file() {
    let limits = sender::Limits { retries: 1, ..sender::Limits::for_segment(terms().segment_bytes) };
    let (mut sender, _) = with_a_link_that_cannot_be_made(limits);
    assert_eq!(sender.changed(EntryId(1)), Retry::LookAgain);
    sender.offer_again(EntryId(1), Ok(file("b", 2 << 20)));
    assert_eq!(sender.changed(EntryId(2)), Retry::LookAgain, "it never changed before");
    sender.offer_again(EntryId(2), Ok(file("b", 3 << 20)));
    assert_eq!(sender.changed(EntryId(3)), Retry::No);
}

#[test]
fn names_of_one_file_whose_first_is_left_alone_are_linked_to_the_one_that_comes() {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let entries = vec![first_name(0, 2 << 20), second_name(1, "b"), second_name(2, "c")];
    receiver.hear(Say::Offer(entries), now).unwrap();
    let left = Outcome::Skipped("it exists at the destination".into());
    receiver.decided(EntryId(0), Decided::Settled { outcome: left, made: false }, now);
    assert_eq!(links(&mut receiver), [second_name(1, "b"), second_name(2, "c")]);
    receiver.decided(EntryId(1), Decided::Fresh, now);
    receiver.decided(EntryId(2), Decided::Fresh, now);
    let wanted = |receiver: &mut Receiver| {
        let said = std::iter::from_fn(|| receiver.take_action());
        let wants = said.filter_map(|action| match action {
            Action::Say(Say::Want(wants)) => Some(wants),
            _ => None,
        });
        wants.flatten().map(|(id, _)| id.0).collect::<Vec<_>>()
    };
    assert_eq!(wanted(&mut receiver), [1], "the other waits for it");
    let again = Entry { evidence: first_name(0, 2 << 20).evidence, id: EntryId(3), ..file("b", 2 << 20) };
    receiver.hear(Say::Withdraw(vec![(EntryId(1), None)]), now).unwrap();
    assert!(links(&mut receiver).is_empty());
    receiver.hear(Say::Offer(vec![again.clone()]), now).unwrap();
    assert!(links(&mut receiver).is_empty());
    receiver.decided(again.id, unchanged(), now);
    let kind = Kind::HardLink { first: again.path, of: again.id };
    assert_eq!(links(&mut receiver), [Entry { kind: kind.clone(), ..second_name(2, "c") }]);
    receiver.decided(EntryId(2), unchanged(), now);
    // So is one that is listed when that has its name.
    receiver.hear(Say::Offer(vec![second_name(4, "d")]), now).unwrap();
    assert_eq!(links(&mut receiver), [second_name(4, "d")]);
    receiver.decided(EntryId(4), Decided::Fresh, now);
    assert_eq!(links(&mut receiver), [Entry { kind, ..second_name(4, "d") }]);
    // It cannot be linked to that either: it comes by itself.
    receiver.decided(EntryId(4), Decided::Fresh, now);
    assert_eq!(wanted(&mut receiver), [4]);
}

#[test]
fn names_that_wait_for_one_that_never_comes_do_not_wait_for_ever() {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let entries = vec![first_name(0, 2 << 20), second_name(1, "b"), second_name(2, "c")];
    receiver.hear(Say::Offer(entries), now).unwrap();
    receiver.decided(EntryId(0), unchanged(), now);
    receiver.decided(EntryId(1), Decided::Fresh, now);
    receiver.decided(EntryId(2), Decided::Fresh, now);
    assert_eq!(links(&mut receiver).len(), 2);
    let gone = Failure::new(FailureKind::NotFound, "look", "it is gone");
    receiver.hear(Say::Withdraw(vec![(EntryId(1), Some(gone))]), now).unwrap();
    assert_eq!(links(&mut receiver), [second_name(2, "c")]);
    receiver.decided(EntryId(2), Decided::Fresh, now);
    let again = Entry { evidence: first_name(0, 2 << 20).evidence, id: EntryId(3), ..file("c", 2 << 20) };
    receiver.hear(Say::Withdraw(vec![(EntryId(2), None)]), now).unwrap();
    receiver.hear(Say::Offer(vec![again]), now).unwrap();
    receiver.decided(EntryId(3), unchanged(), now);
    assert_eq!((receiver.totals().unchanged, receiver.totals().failed), (2, 1));
}

#[test]
fn nothing_is_taken_under_the_number_of_a_hard_link_that_cannot_be_made() {
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    let (_, mut receiver) = with_a_link_that_cannot_be_made(limits);
    let link = EntryId(1);
    assert!(receiver.small_wanted(std::iter::once(link)).iter().all(Option::is_none));
    assert_eq!(receiver.files_staged(&[(link, Digest([3; 32]))], Duration::ZERO), [false]);
    assert_eq!(receiver.verified_and_durable_bytes(), (0, 0));
}

#[test]
fn a_hard_link_is_made_to_no_other_file_that_came_under_its_first_name() {
    let now = Duration::ZERO;
    let mut receiver = waiting_with_a_link();
    let other = Evidence { inode: 8, ..first_name(2, 3 << 20).evidence };
    let other = Entry { evidence: other, ..first_name(2, 3 << 20) };
    receiver.hear(Say::Withdraw(vec![(EntryId(0), None)]), now).unwrap();
    receiver.hear(Say::Offer(vec![other]), now).unwrap();
    receiver.decided(EntryId(2), unchanged(), now);
    // As it was listed: the destination finds that this is not what stands there.
    assert_eq!(links(&mut receiver), [second_name(1, "b")]);
}

#[test]
fn a_hard_link_is_not_made_to_what_gets_its_name_only_to_be_replaced() {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let entries = vec![first_name(0, 2 << 20), second_name(1, "b")];
    receiver.hear(Say::Offer(entries), now).unwrap();
    let outcome = Outcome::Done { digest: None, losses: Vec::new() };
    receiver.decided(EntryId(0), Decided::Settled { outcome, made: true }, now);
    receiver.hear(Say::Withdraw(vec![(EntryId(0), None)]), now).unwrap();
    let later = now + receiver::Limits::default().round_after;
    receiver.tick(later);
    receiver.round_done(receiver::RoundResult::Done, later);
    let wanted = wanted_done(&mut receiver);
    assert!(wanted.contains(&Action::Gone(EntryId(0))), "{wanted:?}");
    assert!(!wanted.iter().any(|action| matches!(action, Action::Link(_))), "{wanted:?}");
    receiver.hear(Say::Offer(vec![first_name(2, 3 << 20)]), later).unwrap();
    assert!(links(&mut receiver).is_empty());
    receiver.decided(EntryId(2), unchanged(), later);
    assert_eq!(links(&mut receiver).len(), 1);
}

#[test]
fn a_hard_link_waits_for_what_replaced_its_file_while_the_link_was_down() {
    let now = Duration::ZERO;
    let mut receiver = waiting_with_a_link();
    receiver.link_up();
    let repeated = vec![second_name(1, "b"), first_name(2, 3 << 20)];
    receiver.hear(Say::Offer(repeated), now).unwrap();
    receiver.hear(Say::OffersRepeated, now).unwrap();
    assert!(links(&mut receiver).is_empty(), "its file is to come");
    receiver.decided(EntryId(2), unchanged(), now);
    assert_eq!(links(&mut receiver).len(), 1);
}

#[test]
fn what_is_withdrawn_and_never_replaced_keeps_no_hard_link_waiting() {
    let now = Duration::ZERO;
    let mut receiver = waiting_with_a_link();
    receiver.hear(Say::Withdraw(vec![(EntryId(0), None)]), now).unwrap();
    // That its replacement was offered was not heard, and it is gone by now.
    receiver.link_up();
    receiver.hear(Say::Offer(vec![second_name(1, "b")]), now).unwrap();
    receiver.hear(Say::OffersRepeated, now).unwrap();
    assert_eq!(links(&mut receiver), [second_name(1, "b")]);
}
