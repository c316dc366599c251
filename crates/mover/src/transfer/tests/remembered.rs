//! What is remembered of entries, and how many are in flight.

use super::*;
use thalweg_wire::limits;

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
