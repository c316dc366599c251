//! Ends: the last round, what both sides sign, and what the end brings to light.

use super::*;
use thalweg_wire::message::{LENGTH_BYTES, Listing, Loss, Message, Seal, Totals, TransferNumber};
use thalweg_wire::receipt::{self, RootHasher};

/// Whether a round began among all that is to be done now.
fn begins_a_round(receiver: &mut Receiver) -> bool {
    std::iter::from_fn(|| receiver.take_action()).any(|action| matches!(action, Action::Round(_)))
}

#[test]
fn what_is_all_written_waits_for_no_clock_however_many_files_it_is() {
    const FILES: u64 = 1000;
    let size = 2 << 20;
    let now = Duration::ZERO;
    let limits = receiver::Limits { round_bytes: u64::MAX, ..receiver::Limits::default() };
    let mut receiver = Receiver::new(terms(), limits);
    let files = (0..FILES).map(|id| Entry { id: EntryId(id), ..file(&format!("f{id}"), size) }).collect();
    receiver.hear(Say::Offer(files), now).unwrap();
    (0..FILES).for_each(|id| receiver.decided(EntryId(id), Decided::Fresh, now));
    let totals = ScanTotals { entries: FILES, bytes: FILES * size, failed: 0, complete: true, empty: 0 };
    receiver.hear(Say::OfferEnd(totals), now).unwrap();
    // In an order that has the look for something unwritten begin anew: from the middle on, then what is before it.
    let order: Vec<u64> = (FILES / 2..FILES).chain(0..FILES / 2).collect();
    for &id in &order {
        receiver.chunk_written(EntryId(id), 0, Digest([1; 32]), now);
        assert!(!begins_a_round(&mut receiver), "{id}: something is still to come");
        let evidence = Evidence { size, ..Evidence::default() };
        let seal = Seal { evidence, digest: Digest([1; 32]), asked: 0 };
        receiver.hear(Say::Seal(vec![(EntryId(id), seal)]), now).unwrap();
        let is_last = id == FILES / 2 - 1;
        assert_eq!(begins_a_round(&mut receiver), is_last, "{id}: a round begins after the last seal");
    }
}

#[test]
fn without_room_what_is_written_is_kept_first_and_what_concludes_goes_on() {
    let now = Duration::ZERO;
    let failure = || Failure::new(FailureKind::Space, "write", "as the test wants it");
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    receiver.hear(Say::Offer(vec![file("f", 8 << 20)]), now).unwrap();
    receiver.decided(EntryId(0), Decided::Fresh, now);
    receiver.chunk_written(EntryId(0), 0, Digest([1; 32]), now);
    receiver.run_out(failure(), now);
    let mut told: Vec<Action> = std::iter::from_fn(|| receiver.take_action()).collect();
    assert!(told.iter().any(|action| matches!(action, Action::Round(_))), "{told:?}");
    // That it is asked again ends nothing early.
    receiver.run_out(failure(), now);
    told.extend(std::iter::from_fn(|| receiver.take_action()));
    assert!(!told.iter().any(|action| matches!(action, Action::Failed(_))), "{told:?}");

    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let totals = ScanTotals { entries: 0, bytes: 0, failed: 0, complete: true, empty: 0 };
    receiver.hear(Say::OfferEnd(totals), now).unwrap();
    receiver.run_out(failure(), now);
    let told: Vec<Action> = std::iter::from_fn(|| receiver.take_action()).collect();
    assert!(told.iter().any(|action| matches!(action, Action::Conclude(Listing::Whole))), "{told:?}");
    assert!(!told.iter().any(|action| matches!(action, Action::Failed(_))), "{told:?}");
}

/// Two sides and what they write into their receipts; what one says is heard when it is carried.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    roots: [RootHasher; 2],
    to_receiver: Vec<Say>,
    to_sender: Vec<Say>,
}

impl Pair {
    fn new() -> Pair {
        let limits = sender::Limits::for_segment(terms().segment_bytes);
        let mut sender = Sender::new(terms(), limits);
        sender.link_up();
        assert!(sender.stream_up(0));
        Pair {
            sender,
            receiver: Receiver::new(terms(), receiver::Limits::default()),
            roots: Default::default(),
            to_receiver: Vec::new(),
            to_sender: Vec::new(),
        }
    }

    /// Has both do what they want; whatever is to be decided is not there, and all that is to be done goes well.
    fn act(&mut self) {
        let now = Duration::ZERO;
        while let Some(action) = self.sender.take_action() {
            match action {
                sender::Action::Say(say) => self.to_receiver.push(say),
                sender::Action::Settled(entry, outcome) | sender::Action::SettledBefore(entry, outcome) => {
                    self.roots[0].settled(entry.id, receipt::line(&entry, &outcome));
                }
                sender::Action::Gone(id) | sender::Action::Aside(Some(id), ..) => {
                    self.roots[0].skip(id);
                }
                _ => {}
            }
        }
        while let Some(action) = self.receiver.take_action() {
            match action {
                Action::Say(say) => self.to_sender.push(say),
                Action::Decide(entry) => self.receiver.decided(entry.id, Decided::Fresh, now),
                Action::Round(_) => self.receiver.round_done(receiver::RoundResult::Done, now),
                Action::Finish { entries, .. } => {
                    let named = |(id, _)| (id, Ok(receiver::Named::Now(Vec::new())));
                    self.receiver.finished(entries.into_iter().map(named).collect(), now);
                }
                Action::Conclude(_) => self.receiver.concluded(Vec::new(), 0, Vec::new(), Vec::new()),
                Action::Settled(entry, outcome) => {
                    self.roots[1].settled(entry.id, receipt::line(&entry, &outcome));
                }
                Action::Gone(id) | Action::Aside(Some(id), ..) => {
                    self.roots[1].skip(id);
                }
                _ => {}
            }
        }
    }

    /// Lets the two talk until both are silent.
    fn carry(&mut self) {
        self.act();
        while !self.to_receiver.is_empty() || !self.to_sender.is_empty() {
            for say in std::mem::take(&mut self.to_receiver) {
                self.receiver.hear(say, Duration::ZERO).expect("a correct sender");
            }
            for say in std::mem::take(&mut self.to_sender) {
                self.sender.hear(say).expect("a correct receiver");
            }
            self.act();
        }
    }

    /// The receiver makes durable, and tells, what it has; nothing of that is heard.
    fn rounds(&mut self) {
        for second in 1..=4 {
            self.receiver.tick(Duration::from_secs(second));
            self.act();
        }
    }

    /// A small file goes out and comes well.
    fn send(&mut self, id: EntryId, digest: Digest) {
        self.carry();
        let next = self.sender.next_work(0, Duration::ZERO);
        assert!(matches!(&next, Next::Work(Work::Pack(entries)) if entries[0].id == id), "{next:?}");
        self.sender.small_read(std::iter::once((id, digest)));
        self.sender.pack_sent(0, &[id], &[id]);
        assert_eq!(self.receiver.files_staged(&[(id, digest)], Duration::ZERO), [true]);
    }

    /// Everything is heard. Both must have finished, with the same lines: so many.
    fn end(mut self) -> (u64, Totals) {
        self.sender.scan_ended(ScanTotals { entries: 1, complete: true, ..ScanTotals::default() });
        self.carry();
        assert!(self.sender.is_over() && self.receiver.is_over());
        let [ours, theirs] = self.roots.map(|root| {
            let (root, entries, _) = root.finish();
            (root, entries)
        });
        assert_eq!(ours, theirs, "the receipts differ");
        (ours.1, self.receiver.totals())
    }
}

#[test]
fn a_file_that_goes_away_while_it_is_read_a_second_time_is_the_same_to_both_sides() {
    let small = |pair: &mut Pair| {
        let id = pair.sender.offer(vec![file("f", 5)]);
        pair.send(id, Digest([3; 32]));
        id
    };
    // The sender has heard that it arrived.
    let mut pair = Pair::new();
    let id = small(&mut pair);
    pair.carry();
    pair.sender.failed(id, gone());
    assert_eq!(pair.sender.changed(id), Retry::No);
    let (lines, totals) = pair.end();
    assert_eq!((lines, totals.done, totals.failed), (1, 1, 0));
    // It has its name, and the sender has heard nothing.
    let mut pair = Pair::new();
    let id = small(&mut pair);
    pair.rounds();
    pair.sender.failed(id, gone());
    let (lines, totals) = pair.end();
    assert_eq!((lines, totals.done, totals.failed), (1, 1, 0));
    // It arrived, and is withdrawn before it has a name.
    let mut pair = Pair::new();
    let id = small(&mut pair);
    pair.sender.failed(id, gone());
    let (lines, totals) = pair.end();
    assert_eq!((lines, totals.done, totals.failed), (0, 0, 1));
}

#[test]
fn a_file_that_changes_while_it_is_read_a_second_time_is_the_same_to_both_sides() {
    // Without and with a name when the receiver hears that it is offered again.
    for (is_told, lines_expected) in [(false, 1), (true, 2)] {
        let mut pair = Pair::new();
        let old = pair.sender.offer(vec![file("f", 5)]);
        pair.send(old, Digest([3; 32]));
        if is_told {
            pair.rounds();
        }
        assert_eq!(pair.sender.changed(old), Retry::LookAgain);
        let new = pair.sender.next_id();
        pair.sender.offer_again(old, Ok(file("f", 6)));
        pair.send(new, Digest([4; 32]));
        let (lines, totals) = pair.end();
        assert_eq!((lines, totals.done, totals.bytes_done), (lines_expected, 1, 6), "told: {is_told}");
    }
}

#[test]
fn a_small_file_that_arrived_before_an_outage_counts_once() {
    // The sender has heard that it arrived, or not; it has its name meanwhile, or not.
    for (is_heard, is_named) in [(true, false), (true, true), (false, false)] {
        let mut pair = Pair::new();
        let id = pair.sender.offer(vec![file("f", 5)]);
        pair.send(id, Digest([3; 32]));
        if is_heard {
            pair.carry();
        }
        assert_eq!(pair.sender.progress().bytes_verified, if is_heard { 5 } else { 0 });
        if is_named {
            pair.rounds();
        }
        pair.sender.link_up();
        pair.receiver.link_up();
        pair.to_receiver.clear();
        pair.to_sender.clear();
        assert!(pair.sender.stream_up(0));
        pair.carry();
        pair.rounds();
        pair.carry();
        let progress = pair.sender.progress();
        assert_eq!((progress.entries_settled, progress.bytes_offered), (1, 5));
        let counted = (progress.bytes_verified, progress.bytes_unmoved, progress.bytes_durable);
        assert_eq!(counted, (5, 0, 5), "heard: {is_heard}, named: {is_named}");
    }
}

fn gone() -> Failure {
    Failure::new(FailureKind::NotFound, "read", "gone")
}

/// Has everything that was offered decided as this, and ends with these directories worse than that.
fn concluded(outcome: &Outcome, revised: Vec<(RelativePath, bool, Outcome)>) -> (Receiver, Vec<Say>) {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let directory = Entry { kind: Kind::Directory, ..file("d", 0) };
    receiver.hear(Say::Offer(vec![directory]), now).unwrap();
    let decided = Decided::Settled { outcome: outcome.clone(), made: false };
    receiver.decided(EntryId(0), decided, now);
    receiver.hear(Say::OfferEnd(ScanTotals { complete: true, ..ScanTotals::default() }), now).unwrap();
    receiver.concluded(revised, 0, Vec::new(), Vec::new());
    let said = says(&mut receiver);
    (receiver, said)
}

fn says(receiver: &mut Receiver) -> Vec<Say> {
    let actions = std::iter::from_fn(|| receiver.take_action());
    let say = |action| match action {
        Action::Say(say) => Some(say),
        _ => None,
    };
    actions.filter_map(say).collect()
}

#[test]
fn a_directory_that_turns_out_worse_at_the_end_counts_once_as_whatever_it_was_told_before() {
    let worse = || (RelativePath::new(b"d".to_vec()).expect("a path"), Outcome::Failed(gone()));
    for (told, was_unchanged) in [
        (Outcome::Unchanged { digest: None }, true),
        (Outcome::Done { digest: None, losses: Vec::new() }, false),
    ] {
        let (path, outcome) = worse();
        let (receiver, _) = concluded(&told, vec![(path, was_unchanged, outcome)]);
        let totals = receiver.totals();
        assert_eq!((totals.done, totals.unchanged, totals.failed), (0, 0, 1), "{told:?}");
    }
}

#[test]
fn what_the_end_brought_to_light_is_not_told_again_at_an_end_after_it() {
    let now = Duration::ZERO;
    let path = RelativePath::new(b"d".to_vec()).expect("a path");
    let told = Outcome::Unchanged { digest: None };
    let (mut receiver, said) = concluded(&told, vec![(path, true, Outcome::Failed(gone()))]);
    let is_trouble = |say: &Say| matches!(say, Say::Troubles(_));
    assert!(said.iter().any(is_trouble));
    // Its source changed after all was settled.
    receiver.hear(Say::Offer(vec![Entry { id: EntryId(1), ..file("f", 5) }]), now).unwrap();
    receiver.decided(EntryId(1), Decided::Settled { outcome: told, made: false }, now);
    receiver.concluded(Vec::new(), 0, Vec::new(), Vec::new());
    assert!(receiver.is_over());
    assert!(!says(&mut receiver).iter().any(is_trouble));
}

#[test]
fn what_was_deleted_is_told_once_however_many_ends_there_are() {
    let now = Duration::ZERO;
    let told = Outcome::Unchanged { digest: None };
    let (mut receiver, _) = concluded(&told, Vec::new());
    let path = |name: &str| RelativePath::new(name.into()).expect("a path");
    // An end tells what those before it told when it was a dry run.
    let ends = [(1, 2, vec!["a", "b"], vec!["a", "b"]), (2, 3, vec!["b", "c"], vec!["c"])];
    for (id, deleted, names, told_now) in ends {
        let entry = Entry { id: EntryId(id), ..file(&format!("f{id}"), 5) };
        receiver.hear(Say::Offer(vec![entry]), now).unwrap();
        receiver.decided(EntryId(id), Decided::Settled { outcome: told.clone(), made: false }, now);
        receiver.concluded(Vec::new(), deleted, names.into_iter().map(path).collect(), Vec::new());
        let mut heard = Vec::new();
        let mut said = Vec::new();
        while let Some(action) = receiver.take_action() {
            match action {
                Action::Deleted(name) => heard.push(name),
                Action::Say(Say::Deleted(names)) => said.extend(names),
                _ => {}
            }
        }
        assert_eq!(heard, told_now.into_iter().map(path).collect::<Vec<_>>());
        // To a sender that may have lost the link all are said.
        assert_eq!(said, ["a", "b", "c"].map(path)[..deleted as usize]);
        assert_eq!(receiver.totals().deleted, deleted);
    }
}

/// As of a destination that keeps no attributes, of a file that has so many.
fn lossy(attributes: usize) -> Outcome {
    let loss = |at: usize| {
        let what = format!("xattr user.{at}.{}", "x".repeat(60));
        Loss { what, why: "Operation not supported (os error 95)".to_owned() }
    };
    Outcome::Done { digest: None, losses: (0..attributes).map(loss).collect() }
}

/// What is to be said now, each in a message that the sender takes.
fn said(receiver: &mut Receiver) -> Vec<Say> {
    let says = std::iter::from_fn(|| receiver.take_action()).filter_map(|action| match action {
        Action::Say(say) => Some(say),
        _ => None,
    });
    let fits = |say: &Say| {
        let encoded = Message::Transfer(TransferNumber(1), say.clone()).encode().unwrap();
        Message::decode(&encoded[LENGTH_BYTES..]).unwrap();
    };
    says.inspect(fits).collect()
}

/// The outcomes among what is to be said.
fn settled(says: Vec<Say>) -> Vec<(EntryId, Outcome)> {
    let outcomes = |say: Say| match say {
        Say::Settled(outcomes) => outcomes,
        _ => Vec::new(),
    };
    says.into_iter().flat_map(outcomes).collect()
}

/// The same batch was told again over each link, and never came.
#[test]
fn outcomes_of_many_words_are_told_in_messages_that_fit() {
    const FILES: u64 = 300;
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let files = || (0..FILES).map(|id| Entry { id: EntryId(id), ..file(&format!("f{id}"), 1) });
    receiver.hear(Say::Offer(files().collect()), now).unwrap();
    for id in (0..FILES).map(EntryId) {
        receiver.decided(id, Decided::Settled { outcome: lossy(90), made: false }, now);
    }
    let all: Vec<_> = (0..FILES).map(|id| (EntryId(id), lossy(90))).collect();
    assert!(settled(said(&mut receiver)) == all);
    // Nor does the sender's repetition bring them together.
    receiver.link_up();
    receiver.hear(Say::Offer(files().collect()), now).unwrap();
    assert!(settled(said(&mut receiver)) == all);
}

#[test]
fn an_outcome_that_no_message_holds_is_cut_and_says_how_much_more_was_lost() {
    let (now, many) = (Duration::ZERO, 30_000);
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    receiver.hear(Say::Offer(vec![file("f", 1)]), now).unwrap();
    receiver.decided(EntryId(0), Decided::Settled { outcome: lossy(many), made: false }, now);
    let outcomes = settled(said(&mut receiver));
    let [(EntryId(0), Outcome::Done { losses, .. })] = &*outcomes else { panic!("{}", outcomes.len()) };
    let (last, told) = losses.split_last().unwrap();
    assert!(!told.is_empty() && told.len() < many);
    assert_eq!(last.what, format!("{} more", many - told.len()));
}

#[test]
fn what_the_end_brings_to_light_is_told_in_messages_that_fit() {
    let now = Duration::ZERO;
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    let totals = ScanTotals { entries: 0, bytes: 0, failed: 0, complete: true, empty: 0 };
    receiver.hear(Say::OfferEnd(totals), now).unwrap();
    assert!(said(&mut receiver).is_empty(), "it concludes first");
    let long = format!("/{}", "a".repeat(250)).repeat(40);
    let path = |at: usize| RelativePath::new(format!("{at}{long}").into_bytes()).unwrap();
    let revised: Vec<_> = (0..300).map(|at| (path(at), true, lossy(90))).collect();
    let names: Vec<_> = (0..500).map(path).collect();
    receiver.concluded(revised, 500, names.clone(), Vec::new());
    let (mut troubles, mut deleted) = (0, Vec::new());
    for say in said(&mut receiver) {
        match say {
            Say::Troubles(more) => troubles += more.len(),
            Say::Deleted(more) => deleted.extend(more),
            Say::Finished(totals) => assert_eq!((totals.deleted, troubles), (500, 300), "it comes last"),
            other => panic!("{other:?}"),
        }
    }
    assert!(troubles == 300 && deleted == names);
}
