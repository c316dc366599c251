//! What the simulation does not look at: the size of what is remembered, and the depth of streams.

use super::Copy;
use super::receiver::{self, Action, Decided, Receiver};
use super::sender::{self, Next, Retry, Sender, Work};
use crate::failure::{Failure, FailureKind};
use std::time::Duration;
use thalweg_wire::message::{
    AckLevel, Disk, DiskSide, Order, Outcome, Run, ScanTotals, Seal, Steer, Terms, Totals,
    TransferMessage as Say, Want,
};
use thalweg_wire::receipt::{self, RootHasher};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, limits};

fn terms() -> Terms {
    Terms::of(4 << 20, 1 << 20)
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

const CHUNK: u64 = 64 << 10;

/// A sender with two streams, of which the receiver wants everything.
fn wanted(depth: Option<u32>, files: Vec<Entry>) -> (Sender, EntryId) {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, depth, ..terms() };
    let limits = sender::Limits { pack_files: 1, ..sender::Limits::for_path(&terms, None) };
    let mut sender = Sender::new(terms, limits);
    let count = files.len() as u64;
    let first = sender.offer(files);
    [0, 1].into_iter().for_each(|stream| assert!(sender.stream_up(stream)));
    let wants = (first.0..first.0 + count).map(|id| (EntryId(id), Want::Whole)).collect();
    sender.hear(Say::Want(wants)).unwrap();
    (sender, first)
}

fn ack(entry: EntryId, chunk: u64) -> Say {
    Say::Ack(AckLevel::Verified, vec![(entry, Run { first: chunk, count: 1 })])
}

#[test]
fn a_stream_has_no_more_chunks_under_way_than_its_depth() {
    let now = Duration::ZERO;
    let (mut sender, file) = wanted(Some(2), vec![file("large", 10 * CHUNK)]);
    let mut sent = Vec::new();
    for _ in 0..2 {
        match sender.next_work(0, now) {
            Next::Work(Work::Chunk(entry, chunk, _)) => {
                sender.chunk_sent(0, entry.id, chunk, Digest::default());
                sent.push(chunk);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sender.next_work(0, now), Next::Wait(None));
    // The other stream has room of its own, for new work and, later, for what the first does not get across.
    assert!(matches!(sender.next_work(1, now), Next::Work(Work::Chunk(_, 2, _))));
    sender.hear(ack(file, sent[0])).unwrap();
    assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(_, 3, _))));
    assert_eq!(sender.next_work(0, now), Next::Wait(None));
    // What is found damaged is not under way any more.
    sender.hear(Say::Repair(vec![(file, Run { first: sent[1], count: 1 })])).unwrap();
    assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(..))));
}

#[test]
fn packs_count_as_chunks_do() {
    let now = Duration::ZERO;
    let (mut sender, first) = wanted(Some(1), (0..3).map(|at| file(&at.to_string(), 10)).collect());
    let Next::Work(Work::Pack(pack)) = sender.next_work(0, now) else { panic!("a pack") };
    let ids: Vec<EntryId> = pack.iter().map(|entry| entry.id).collect();
    sender.pack_sent(0, &ids, &ids);
    assert_eq!(sender.next_work(0, now), Next::Wait(None));
    // Damaged, and that is known before the stream is through with it.
    let (mut early, first_early) = wanted(Some(1), vec![file("early", 10), file("large", 4 * CHUNK)]);
    let large = EntryId(first_early.0 + 1);
    assert!(matches!(early.next_work(0, now), Next::Work(Work::Pack(_))));
    early.hear(Say::Repair(vec![(first_early, Run { first: 0, count: 1 })])).unwrap();
    early.pack_sent(0, &[first_early], &[first_early]);
    assert!(matches!(early.next_work(0, now), Next::Work(Work::Pack(_))));
    let Next::Work(Work::Chunk(_, chunk, _)) = early.next_work(1, now) else { panic!("a chunk") };
    early.hear(Say::Repair(vec![(large, Run { first: chunk, count: 1 })])).unwrap();
    early.chunk_sent(1, large, chunk, Digest::default());
    assert!(matches!(early.next_work(1, now), Next::Work(Work::Chunk(..))));
    // Damaged, so it goes again, on the same stream too.
    sender.hear(Say::Repair(vec![(first, Run { first: 0, count: 1 })])).unwrap();
    let Next::Work(Work::Pack(pack)) = sender.next_work(0, now) else { panic!("a pack") };
    let ids: Vec<EntryId> = pack.iter().map(|entry| entry.id).collect();
    sender.pack_sent(0, &ids, &ids);
    assert_eq!(sender.next_work(0, now), Next::Wait(None));
    sender.hear(ack(ids[0], 0)).unwrap();
    assert!(matches!(sender.next_work(0, now), Next::Work(Work::Pack(_))));
}

#[test]
fn without_a_depth_all_may_be_under_way() {
    let (mut sender, _) = wanted(None, vec![file("large", 100 * CHUNK)]);
    for chunk in 0..100 {
        assert!(
            matches!(sender.next_work(0, Duration::ZERO), Next::Work(Work::Chunk(_, at, _)) if at == chunk)
        );
    }
}

/// A receiver that wants one large file, of chunks of four segments.
fn receiving() -> Receiver {
    let mut receiver = Receiver::new(terms(), receiver::Limits::default());
    receiver.link_up();
    receiver.hear(Say::Offer(vec![file("large", 8 << 20)]), Duration::ZERO).unwrap();
    receiver.decided(EntryId(0), Decided::Fresh, Duration::ZERO);
    receiver
}

/// Asks for a segment of the first chunk and says whether it may be written; that is done at once.
fn claim(receiver: &mut Receiver, writer: u64, begins: Option<Copy>) -> bool {
    let claim = receiver.claim_chunk(writer, EntryId(0), 0, begins);
    receiver.segment_written(writer, EntryId(0), 0);
    matches!(claim, receiver::Claim::Write(_))
}

fn repairs(receiver: &mut Receiver) -> usize {
    asked_again(receiver).0
}

/// How often a chunk was asked for because it came damaged, and for other reasons.
fn asked_again(receiver: &mut Receiver) -> (usize, usize) {
    let mut asked = (0, 0);
    while let Some(action) = receiver.take_action() {
        asked.0 += usize::from(matches!(action, Action::Say(Say::Repair(_))));
        asked.1 += usize::from(matches!(action, Action::Say(Say::Differs(_))));
    }
    asked
}

#[test]
fn a_copy_that_creeps_in_does_not_end_the_one_that_was_sent_because_it_is_slow() {
    let mut receiver = receiving();
    // Stream 2 sends again what stream 1 has had for long, and overtakes it.
    assert!(claim(&mut receiver, 2, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 1, Some(Copy::First)));
    assert!(claim(&mut receiver, 2, None));
    assert!(!claim(&mut receiver, 1, None));
    // The other way round it takes over.
    let mut receiver = receiving();
    assert!(claim(&mut receiver, 1, Some(Copy::First)));
    assert!(claim(&mut receiver, 2, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 1, None), "one that was overtaken never comes back");
    assert!(claim(&mut receiver, 2, None));
    assert_eq!(repairs(&mut receiver), 0);
}

#[test]
fn who_was_turned_away_for_a_copy_that_ends_early_is_asked_again() {
    let mut receiver = receiving();
    assert!(claim(&mut receiver, 1, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 2, Some(Copy::First)));
    receiver.copy_given_up(2, EntryId(0), 0);
    assert_eq!(asked_again(&mut receiver), (0, 0), "stream 1 still has it");
    receiver.copy_given_up(1, EntryId(0), 0);
    assert_eq!(asked_again(&mut receiver), (0, 1));
    // It came damaged: asked for once, and free for anybody at once.
    assert!(claim(&mut receiver, 1, Some(Copy::Again)));
    assert!(!claim(&mut receiver, 2, Some(Copy::First)));
    receiver.damaged(EntryId(0), 0);
    receiver.copy_given_up(1, EntryId(0), 0);
    assert_eq!(repairs(&mut receiver), 1);
    assert!(claim(&mut receiver, 2, Some(Copy::First)));
}

#[test]
fn of_a_file_the_one_chunk_that_came_damaged_is_asked_for_and_sent_again() {
    let mut receiver = receiving();
    while receiver.take_action().is_some() {}
    assert!(matches!(receiver.claim_chunk(1, EntryId(0), 1, Some(Copy::First)), receiver::Claim::Write(_)));
    receiver.segment_written(1, EntryId(0), 1);
    receiver.damaged(EntryId(0), 1);
    let asked: Vec<Say> = std::iter::from_fn(|| receiver.take_action())
        .filter_map(|action| match action {
            Action::Say(say) => Some(say),
            _ => None,
        })
        .collect();
    let [Say::Repair(runs)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(runs[..], [(EntryId(0), Run { first: 1, count: 1 })]);
    // And of four chunks the sender sends that one a second time.
    let (mut sender, file) = wanted(None, vec![file("large", 4 * CHUNK)]);
    assert_eq!(work_off(&mut sender), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    sender.hear(Say::Repair(vec![(file, Run { first: 1, count: 1 })])).unwrap();
    assert_eq!(work_off(&mut sender), [(0, 1)]);
}

#[test]
fn a_stream_that_dies_is_no_damage_however_often_it_was_preferred() {
    let mut receiver = receiving();
    for stream in 0..100 {
        assert!(claim(&mut receiver, stream, Some(Copy::Again)), "stream {stream}");
        assert!(!claim(&mut receiver, stream + 1, Some(Copy::First)));
        receiver.writer_gone(stream);
        assert_eq!(asked_again(&mut receiver), (0, 1), "stream {stream}");
    }
}

#[test]
fn a_chunk_handed_out_twice_says_so() {
    let (mut sender, file) = wanted(None, vec![file("large", CHUNK + 1)]);
    let now = Duration::ZERO;
    let copy_of = |next: Next| match next {
        Next::Work(Work::Chunk(_, chunk, copy)) => (chunk, copy),
        other => panic!("{other:?}"),
    };
    assert_eq!(copy_of(sender.next_work(0, now)), (0, Copy::First));
    assert_eq!(copy_of(sender.next_work(1, now)), (1, Copy::First));
    sender.chunk_sent(1, file, 1, Digest::default());
    sender.hear(ack(file, 1)).unwrap();
    let later = sender::Limits::for_path(&terms(), None).hedge.after(None);
    assert_eq!(copy_of(sender.next_work(1, later)), (0, Copy::Again), "one that takes long");
    // And one of a stream that was lost.
    sender.stream_lost(0);
    sender.stream_lost(1);
    sender.stream_up(2);
    assert_eq!(copy_of(sender.next_work(2, later)), (0, Copy::Again));
}

/// Where chunks take 100 ms, one that a slow stream has is late after 500 ms, not after the 3 s that hold while nothing is
/// known; where they take 5 s, not before 20 s.
#[test]
fn a_chunk_is_late_by_the_measure_of_the_others() {
    for (each, late) in [(100, 500), (5_000, 20_000)] {
        let (each, late) = (Duration::from_millis(each), Duration::from_millis(late));
        let (mut sender, file) = wanted(None, vec![file("large", 8 * CHUNK)]);
        let mut now = Duration::ZERO;
        for chunk in 0..7 {
            let next = sender.next_work(0, now);
            assert!(matches!(next, Next::Work(Work::Chunk(_, at, Copy::First)) if at == chunk), "{next:?}");
            sender.chunk_sent(0, file, chunk, Digest::default());
            if chunk > 0 {
                // While one is sent the one before is verified.
                sender.hear(ack(file, chunk - 1)).unwrap();
            }
            now += each;
        }
        assert!(matches!(sender.next_work(1, now), Next::Work(Work::Chunk(_, 7, Copy::First))));
        sender.hear(ack(file, 6)).unwrap();
        let before = now + late - Duration::from_millis(1);
        assert!(matches!(sender.next_work(0, before), Next::Wait(Some(at)) if at == now + late));
        let next = sender.next_work(0, now + late);
        assert!(matches!(next, Next::Work(Work::Chunk(_, 7, Copy::Again))), "{next:?}");
    }
}

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
    let totals = ScanTotals { entries: FILES, bytes: FILES * size, failed: 0, complete: true };
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
fn streams_that_stand_by_keep_no_chunks_from_those_that_work() {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let disk =
        Disk { source: DiskSide { order: Some(Order::Strict), ..DiskSide::default() }, ..Disk::default() };
    let terms = Terms { disk, ..terms };
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
    let file = sender.offer(vec![file("large", 16 * CHUNK)]);
    (0..4).for_each(|stream| assert!(sender.stream_up(stream)));
    sender.hear(Say::Want(vec![(file, Want::Whole)])).unwrap();
    // Two of the four are enough, says the tuner.
    sender.steer(&Steer { streams: Some(2), ..Steer::default() });
    let mut sent = Vec::new();
    while let Some((stream, Next::Work(Work::Chunk(entry, chunk, _)))) = (0..4)
        .map(|stream| (stream, sender.next_work(stream, Duration::ZERO)))
        .find(|(_, next)| matches!(next, Next::Work(_)))
    {
        sender.chunk_sent(stream, entry.id, chunk, Digest::default());
        sent.push(chunk);
    }
    sent.sort_unstable();
    assert_eq!(sent, (0..16).collect::<Vec<u64>>());
}

#[test]
fn as_many_entries_are_in_flight_as_the_distance_needs() {
    let entries = |rtt| sender::Limits::for_path(&terms(), rtt).entries;
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(entries(millis(0)), 32 << 10);
    assert_eq!(entries(millis(100)), (32 << 10) + 32_000);
    assert_eq!([millis(210), millis(60_000), None].map(entries), [limits::ENTRIES_IN_FLIGHT_MAX; 3]);
}

/// Has stream 0 do all that it may, while the source stays as it was: entries and chunks in order.
fn work_off(sender: &mut Sender) -> Vec<(u64, u64)> {
    let mut done = Vec::new();
    while let Next::Work(work) = sender.next_work(0, Duration::ZERO) {
        match work {
            Work::Compare(entry, chunk) => {
                sender.chunk_told(0, entry.id, chunk, Digest::default());
                done.push((entry.id.0, chunk));
            }
            Work::Chunk(entry, chunk, _) => {
                sender.chunk_sent(0, entry.id, chunk, Digest::default());
                done.push((entry.id.0, chunk));
            }
            Work::Check(entry) => {
                sender.checked(0, entry.id, entry.evidence);
            }
            Work::Pack(entries) => panic!("{entries:?}"),
        }
    }
    done
}

#[test]
fn a_file_that_was_repaired_in_several_places_gives_way_to_the_next_before_it_is_settled() {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, concurrency: Some(1), ..terms() };
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
    let first = sender.offer(vec![file("first", 4 * CHUNK), file("second", 2 * CHUNK)]);
    let second = EntryId(first.0 + 1);
    assert!(sender.stream_up(0));
    let compare = |count| Want::Compare(vec![Run { first: 0, count }]);
    sender.hear(Say::Want(vec![(first, compare(4))])).unwrap();
    assert_eq!(work_off(&mut sender), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    // Each difference is a message of its own.
    for chunk in [1, 3] {
        sender.hear(Say::Differs(vec![(first, Run { first: chunk, count: 1 })])).unwrap();
    }
    assert_eq!(work_off(&mut sender), [(0, 1), (0, 3)]);
    sender.hear(Say::Want(vec![(second, compare(2))])).unwrap();
    assert_eq!(work_off(&mut sender), [(1, 0), (1, 1)], "nothing of the first is in flight any more");
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

fn gone() -> Failure {
    Failure::new(FailureKind::NotFound, "read", "gone")
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
        // Another change of it is no link any more.
        assert_eq!(sender.changed(EntryId(2)), Retry::LookAgain);
        sender.offer_again(EntryId(2), Ok(file("b", 3 << 20)));
        exchanged(&mut sender, &mut receiver);
        assert_eq!((receiver.offered(), receiver.unlinked_bytes()), ((2, 4 << 20), 2 << 20));
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
