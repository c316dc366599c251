//! What the simulation does not look at: the size of what is remembered, and the depth of streams.

use super::Copy;
use super::receiver::{self, Action, Decided, Receiver};
use super::sender::{self, Next, Sender, Work};
use std::time::Duration;
use thalweg_wire::message::{
    AckLevel, Disk, DiskSide, Order, Outcome, Run, ScanTotals, Seal, Steer, Terms, TransferMessage as Say,
    Want,
};
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
