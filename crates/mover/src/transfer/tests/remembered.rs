//! What is remembered of entries, and how many are in flight.

use super::*;
use thalweg_wire::limits;
use thalweg_wire::message::Seal;

/// Lets the two talk until both are silent; whatever is to be decided is unchanged, but for the first entry.
fn talk(sender: &mut Sender, receiver: &mut Receiver) {
    let now = Duration::ZERO;
    loop {
        let mut is_silent = true;
        while let Some(action) = sender.take_action() {
            is_silent = false;
            if let sender::Action::Say(say) = action {
                receiver.hear(say, now).expect("a correct sender");
            }
        }
        while let Some(action) = receiver.take_action() {
            is_silent = false;
            match action {
                Action::Say(say) => sender.hear(say).expect("a correct receiver"),
                Action::Decide(entry) if entry.id == EntryId(0) => {
                    receiver.decided(entry.id, Decided::Fresh, now);
                }
                Action::Decide(entry) => {
                    let outcome = Outcome::Unchanged { digest: None };
                    receiver.decided(entry.id, Decided::Settled { outcome, made: false }, now);
                }
                _ => {}
            }
        }
        if is_silent {
            return;
        }
    }
}

#[test]
fn one_huge_file_does_not_make_the_receiver_remember_the_thousands_behind_it() {
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    let (mut sender, mut receiver) =
        (Sender::new(terms(), limits), Receiver::new(terms(), receiver::Limits::default()));
    sender.link_up();
    sender.offer(vec![file("huge", 1 << 40)]);
    for batch in 0..100 {
        sender.offer((0..1000).map(|number| file(&format!("{batch}-{number}"), 5)).collect());
        talk(&mut sender, &mut receiver);
        assert!(receiver.remembered() <= 2048, "{} outcomes after {batch} batches", receiver.remembered());
    }
    assert_eq!(sender.progress().entries_settled, 100_000);
    // A new link hears nothing twice, and the end comes as before.
    sender.link_up();
    receiver.link_up();
    sender.failed(EntryId(0), crate::failure::Failure::new(crate::failure::FailureKind::Io, "read", "gone"));
    sender.scan_ended(ScanTotals { entries: 100_001, complete: true, ..ScanTotals::default() });
    talk(&mut sender, &mut receiver);
    assert!(receiver.remembered() <= 1, "all but the last was heard");
    assert_eq!(receiver.totals().unchanged, 100_000);
}

#[test]
fn what_was_offered_is_counted_before_the_end_of_the_scan_is_heard_and_again_offered_once() {
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    let (mut sender, mut receiver) =
        (Sender::new(terms(), limits), Receiver::new(terms(), receiver::Limits::default()));
    sender.link_up();
    assert_eq!(receiver.offered(), (0, 0));
    sender.offer(vec![file("huge", 1 << 40), file("small", 5)]);
    talk(&mut sender, &mut receiver);
    assert_eq!((receiver.offered(), receiver.scan_totals()), ((2, (1 << 40) + 5), None));
    sender.link_up();
    receiver.link_up();
    talk(&mut sender, &mut receiver);
    assert_eq!(receiver.offered(), (2, (1 << 40) + 5));
}

#[test]
fn what_was_there_already_or_failed_is_told_apart_from_what_comes_and_needs_no_room() {
    let limits = sender::Limits::for_segment(terms().segment_bytes);
    let (mut sender, mut receiver) =
        (Sender::new(terms(), limits), Receiver::new(terms(), receiver::Limits::default()));
    sender.link_up();
    sender.offer(vec![file("huge", 1 << 40), file("a", 5), file("b", 7)]);
    talk(&mut sender, &mut receiver);
    assert_eq!(sender.progress().bytes_unmoved, 12);
    assert_eq!((receiver.unmoved_bytes(), receiver.wanted_bytes()), (12, 1 << 40));
    sender.failed(EntryId(0), Failure::new(FailureKind::Io, "read", "gone"));
    talk(&mut sender, &mut receiver);
    let found = sender.progress().bytes_offered;
    assert_eq!((sender.progress().bytes_unmoved, receiver.unmoved_bytes()), (found, found));
    assert_eq!(sender.progress().bytes_verified, 0);
}

/// Of a file of three chunks and five bytes two chunks are acknowledged, the link breaks, and one is acknowledged
/// again.
#[test]
fn content_that_was_verified_before_an_outage_counts_once_and_what_does_not_come_is_the_rest() {
    let bytes = 3 * CHUNK + 5;
    let (mut sender, id) = wanted(None, vec![file("large", bytes)]);
    work_off(&mut sender);
    [0, 3].into_iter().for_each(|chunk| sender.hear(ack(id, chunk)).unwrap());
    assert_eq!(sender.progress().bytes_verified, CHUNK + 5);
    sender.link_up();
    sender.hear(Say::Want(vec![(id, Want::Missing(vec![Run { first: 0, count: 4 }]))])).unwrap();
    sender.hear(ack(id, 0)).unwrap();
    assert_eq!(sender.progress().bytes_verified, CHUNK + 5);
    let failed = Outcome::Failed(Failure::new(FailureKind::Io, "write", "gone"));
    sender.hear(Say::Settled(vec![(id, failed)])).unwrap();
    let progress = sender.progress();
    assert_eq!((progress.bytes_verified, progress.bytes_unmoved), (CHUNK + 5, 2 * CHUNK));
    // Durable is verified too, where that was not heard.
    let (mut sender, id) = wanted(None, vec![file("large", bytes)]);
    let durable = (id, Run { first: 2, count: 2 });
    sender.hear(Say::Ack(AckLevel::Durable, vec![durable])).unwrap();
    assert_eq!((sender.progress().bytes_verified, sender.progress().bytes_durable), (CHUNK + 5, CHUNK + 5));
}

/// Of a file of four chunks the first and the last, which is short, are the same.
#[test]
fn a_dry_run_that_compares_is_done_with_a_file_at_its_first_difference() {
    let now = Duration::ZERO;
    let terms = Terms { dry_run: true, ..terms() };
    let chunk_bytes = terms.chunk_bytes;
    let bytes = 3 * chunk_bytes + 5;
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_segment(terms.segment_bytes));
    let mut receiver = Receiver::new(terms, receiver::Limits::default());
    sender.link_up();
    let id = sender.offer(vec![file("f", bytes), file("other", 7)]);
    // The other one is unchanged; nothing is decided of the first by this.
    while let Some(action) = sender.take_action() {
        if let sender::Action::Say(say) = action {
            receiver.hear(say, now).unwrap();
        }
    }
    let candidate = receiver::Candidate::of(bytes, bytes, chunk_bytes);
    receiver.decided(id, Decided::Wanted { present: Vec::new(), candidate }, now);
    talk(&mut sender, &mut receiver);
    receiver.chunk_same(id, 0, Digest([1; 32]), now);
    receiver.chunk_same(id, 3, Digest([2; 32]), now);
    receiver.chunk_differs(id, 1, now);
    talk(&mut sender, &mut receiver);
    assert_eq!((receiver.totals().done, receiver.totals().unchanged), (1, 1));
    let unmoved = 2 * chunk_bytes + 7;
    let (verified, _) = receiver.verified_and_durable_bytes();
    assert_eq!((verified, receiver.unmoved_bytes()), (chunk_bytes + 5, unmoved));
    let progress = sender.progress();
    assert_eq!((progress.bytes_verified, progress.bytes_unmoved), (chunk_bytes + 5, unmoved));
}

#[test]
fn in_a_dry_run_no_content_is_taken_and_none_asked_for_of_what_changed_while_it_was_compared() {
    let now = Duration::ZERO;
    let terms = Terms { dry_run: true, ..terms() };
    let (bytes, digest, id) = (terms.chunk_bytes, Digest([1; 32]), EntryId(0));
    let entry = file("f", bytes);
    let evidence = entry.evidence;
    let candidate = receiver::Candidate::of(bytes, bytes, terms.chunk_bytes);
    let mut receiver = Receiver::new(terms, receiver::Limits::default());
    receiver.link_up();
    receiver.hear(Say::Offer(vec![entry]), now).unwrap();
    receiver.decided(id, Decided::Wanted { present: Vec::new(), candidate }, now);
    // Who sends it all the same finds nobody who would write it.
    assert_eq!(receiver.chunks_wanted(id), None);
    let claim = receiver.claim_chunk(1, id, 0, Some(crate::transfer::Copy::First));
    assert_eq!(claim, receiver::Claim::Unwanted);
    receiver.chunk_same(id, 0, digest, now);
    receiver.hear(Say::Seal(vec![(id, Seal { evidence, digest, asked: 0 })]), now).unwrap();
    let mut actions = std::iter::from_fn(|| receiver.take_action());
    assert!(actions.any(|action| matches!(action, Action::Keep(..))), "it is to be kept");
    while receiver.take_action().is_some() {}
    receiver.kept(id, None, now);
    let asks = |action: &Action| matches!(action, Action::Say(Say::Want(_) | Say::Differs(_)));
    assert!(!std::iter::from_fn(|| receiver.take_action()).any(|action| asks(&action)));
    assert_eq!(receiver.totals().done, 1, "a copy would bring it");
}

#[test]
fn a_file_whose_digest_is_the_receivers_word_is_counted_as_not_read() {
    let mut sender = Sender::new(terms(), sender::Limits::for_segment(terms().segment_bytes));
    sender.link_up();
    let first = sender.offer(vec![file("a", 5), file("b", 5), file("c", 5), file("empty", 0)]);
    let resumed = sender.offer(vec![file("large", 2 * terms().chunk_bytes)]);
    let id = |at: u64| EntryId(first.0 + at);
    let digest = Digest([1; 32]);
    sender.small_read([(id(1), digest)].into_iter());
    sender.hear(Say::Have { entry: resumed, first: 0, digests: vec![digest; 2] }).unwrap();
    let unchanged = |digest| Outcome::Unchanged { digest };
    let done = |digest| Outcome::Done { digest: Some(digest), losses: Vec::new() };
    let settled = [
        (id(0), unchanged(Some(digest))),
        (id(1), done(digest)),
        (id(2), unchanged(None)),
        (id(3), unchanged(Some(digest))),
        (resumed, done(thalweg_wire::digest::join(&[digest; 2], true))),
    ];
    sender.hear(Say::Settled(settled.into())).unwrap();
    let progress = sender.progress();
    assert_eq!((progress.entries_settled, progress.entries_unread), (5, 2));
}

#[test]
fn who_never_says_what_it_heard_is_refused() {
    let limits = receiver::Limits { told: 100, ..receiver::Limits::default() };
    let mut receiver = Receiver::new(terms(), limits);
    let refused = (0..1000).find_map(|number| {
        let entry = Entry { id: EntryId(number), ..file(&number.to_string(), 1) };
        let heard = receiver.hear(Say::Offer(vec![entry]), Duration::ZERO);
        let outcome = Outcome::Unchanged { digest: None };
        receiver.decided(EntryId(number), Decided::Settled { outcome, made: false }, Duration::ZERO);
        heard.err().map(|failure| (number, failure))
    });
    let (number, failure) = refused.expect("a bound");
    assert_eq!(failure.kind, crate::failure::FailureKind::Protocol);
    assert_eq!(number, 100);
}

#[test]
fn as_many_entries_are_in_flight_as_the_distance_needs() {
    let entries = |rtt| sender::Limits::for_path(&terms(), rtt).entries;
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(entries(millis(0)), 32 << 10);
    assert_eq!(entries(millis(100)), (32 << 10) + 32_000);
    assert_eq!([millis(210), millis(60_000), None].map(entries), [limits::ENTRIES_IN_FLIGHT_MAX; 3]);
}
