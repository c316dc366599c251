//! What the simulation does not look at: the size of what is remembered.

use super::receiver::{self, Action, Decided, Receiver};
use super::sender::{self, Sender};
use std::time::Duration;
use thalweg_wire::message::{
    Check, Outcome, Preserve, ScanTotals, Terms, TransferMessage as Say, VerifyLevel,
};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath};

fn terms() -> Terms {
    Terms {
        chunk_bytes: 4 << 20,
        segment_bytes: 1 << 20,
        verify: VerifyLevel::Written,
        check: Check::Evidence,
        preserve: Preserve {
            mode: true,
            owner: true,
            times: true,
            xattrs: true,
            symlinks: true,
            hard_links: true,
            holes: true,
            devices: true,
        },
        delete_max: None,
        compress: false,
        rate_bytes_per_s: None,
        dry_run: false,
        ignore_existing: false,
        update: false,
        concurrency: None,
        depth: None,
        window_bytes: None,
        congestion: None,
        job_key: [0; 16],
    }
}

fn file(name: &str, size: u64) -> Entry {
    Entry {
        id: EntryId(0),
        path: RelativePath::new(name.as_bytes().to_vec()).expect("a path"),
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence: Evidence { size, ..Evidence::default() },
        xattrs: Vec::new(),
    }
}

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
