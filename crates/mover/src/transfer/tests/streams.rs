//! What streams are handed, how deep, and in which order.

use super::*;
use crate::transfer::Copy;
use std::collections::BTreeSet;
use thalweg_wire::message::{Disk, DiskSide, Order, Steer};

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

/// A sender with two streams, by limits for this round trip and for so many streams at most, of which the receiver
/// wants 300 files of so many bytes.
fn with_small_files(rtt: Option<Duration>, streams: usize, bytes: u64) -> Sender {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut limits = sender::Limits::for_path(&terms, rtt);
    limits.streams_to_come = limits.streams_to_come.min(streams);
    let mut sender = Sender::new(terms, limits);
    let EntryId(first) = sender.offer((0..300).map(|at| file(&at.to_string(), bytes)).collect());
    [0, 1].into_iter().for_each(|stream| assert!(sender.stream_up(stream)));
    let wants = (first..first + 300).map(|id| (EntryId(id), Want::Whole)).collect();
    sender.hear(Say::Want(wants)).unwrap();
    sender
}

/// Sends the next pack on a stream.
#[track_caller]
fn send_pack(sender: &mut Sender, stream: u16, now: Duration) -> Vec<EntryId> {
    let next = sender.next_work(stream, now);
    let Next::Work(Work::Pack(pack)) = next else { panic!("no pack: {next:?}") };
    let ids: Vec<EntryId> = pack.iter().map(|entry| entry.id).collect();
    sender.pack_sent(stream, &ids, &ids);
    ids
}

#[test]
fn streams_that_are_up_first_have_a_share_of_few_small_files_and_leave_the_rest_to_those_that_come() {
    let (far, begun) = (Duration::from_millis(100), Duration::from_secs(7));
    let until = begun + far;
    let mut sender = with_small_files(Some(far), usize::MAX, 10);
    for stream in [0, 1] {
        assert_eq!(send_pack(&mut sender, stream, begun).len(), 10, "300 for 32 streams");
        assert_eq!(sender.next_work(stream, begun), Next::Wait(Some(until)));
    }
    // One comes, and has its share at once; for what is acknowledged it takes more.
    assert!(sender.stream_up(2));
    let now = begun + far / 4;
    let third = send_pack(&mut sender, 2, now);
    assert_eq!((third.len(), sender.next_work(2, now)), (10, Next::Wait(Some(until))));
    third[..8].iter().for_each(|id| sender.hear(ack(*id, 0)).unwrap());
    assert_eq!(send_pack(&mut sender, 2, now).len(), 8);
    // Those that did not come are waited for no longer: 262 wait, and three have 30 under way.
    assert_eq!(send_pack(&mut sender, 0, until).len(), 88);
    // Where all are up each has as much under way as the others while their windows are small.
    let mut sender = with_small_files(Some(far), usize::MAX, 10);
    (2..32).for_each(|stream| assert!(sender.stream_up(stream)));
    let later = begun + 4 * far;
    assert_eq!(send_pack(&mut sender, 0, begun).len(), 10);
    assert_eq!(sender.next_work(0, later - Duration::from_nanos(1)), Next::Wait(Some(later)));
    for stream in 1..30 {
        assert_eq!(send_pack(&mut sender, stream, begun).len(), 10, "none of {stream} was taken by another");
    }
    let mut sender = with_small_files(Some(far), usize::MAX, 10);
    assert_eq!(send_pack(&mut sender, 0, begun).len(), 10);
    assert_eq!(
        [(); 3].map(|()| send_pack(&mut sender, 0, later).len()),
        [145, 73, 36],
        "by two, that are up"
    );
}

#[test]
fn small_files_are_left_to_nobody_where_no_more_streams_come_or_there_are_enough_for_full_packs() {
    let far = Duration::from_millis(100);
    // Within one process, near, and where one was asked for.
    for rtt in [Duration::ZERO, Duration::from_micros(500)] {
        let mut sender = with_small_files(Some(rtt), usize::MAX, 10);
        let packs = [(); 2].map(|()| send_pack(&mut sender, 0, Duration::ZERO).len());
        assert_eq!(packs, [150, 75], "{rtt:?}");
    }
    let mut sender = with_small_files(Some(far), 1, 10);
    assert!(sender.stream_lost(1));
    assert_eq!(send_pack(&mut sender, 0, Duration::ZERO).len(), 300);
    // A full pack has 512.
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, Some(far)));
    let count = 32 * 512 + 512;
    let EntryId(first) = sender.offer((0..count).map(|at| file(&at.to_string(), 0)).collect());
    assert!(sender.stream_up(0));
    sender.hear(Say::Want((first..first + count).map(|id| (EntryId(id), Want::Whole)).collect())).unwrap();
    assert_eq!(send_pack(&mut sender, 0, Duration::ZERO).len(), 512);
    assert_eq!(send_pack(&mut sender, 0, Duration::ZERO).len(), 512);
    assert_eq!(sender.next_work(0, Duration::ZERO), Next::Wait(Some(far)), "what is left is less");
}

#[test]
fn on_a_new_link_streams_are_waited_for_again() {
    let far = Duration::from_millis(100);
    let mut sender = with_small_files(Some(far), usize::MAX, 10);
    assert_eq!(send_pack(&mut sender, 0, Duration::ZERO).len(), 10);
    sender.link_up();
    assert!(sender.stream_up(0));
    let wants = (0..300).map(|id| (EntryId(id), Want::Whole)).collect();
    sender.hear(Say::Want(wants)).unwrap();
    let now = Duration::from_secs(1);
    assert_eq!(send_pack(&mut sender, 0, now).len(), 10);
    assert_eq!(sender.next_work(0, now), Next::Wait(Some(now + far)));
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

/// 001 section 3.3: where files go in batches of a thousand, and twice the depth is kept ready for each, a depth of 8
/// leaves 62 files at once, and one of 16 leaves 31, whatever is asked for.
#[test]
fn a_greater_depth_leaves_as_many_files_at_once_as_were_asked_for() {
    const STREAMS: u16 = 64;
    let files_at_once = |depth: Option<u32>| {
        let concurrency = Some(128);
        let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, depth, concurrency, ..terms() };
        let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
        let EntryId(first) = sender.offer((0..300).map(|at| file(&at.to_string(), 2 * CHUNK)).collect());
        (0..STREAMS).for_each(|stream| assert!(sender.stream_up(stream)));
        sender.hear(Say::Want((first..first + 300).map(|id| (EntryId(id), Want::Whole)).collect())).unwrap();
        // In turn, until no stream may take more.
        let (mut files, mut is_more) = (BTreeSet::new(), true);
        while is_more {
            is_more = false;
            for stream in 0..STREAMS {
                if let Next::Work(Work::Chunk(entry, ..)) = sender.next_work(stream, Duration::ZERO) {
                    is_more = true;
                    files.insert(entry.id);
                }
            }
        }
        files.len()
    };
    assert_eq!([Some(8), Some(16), Some(64), None].map(files_at_once), [128; 4]);
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
fn what_is_there_already_counts_apart_from_what_was_sent_however_often_it_is_said() {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, ..terms() };
    let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
    let id = sender.offer(vec![file("file", 3 * CHUNK + 5)]);
    assert!(sender.stream_up(0));
    sender.hear(Say::Want(vec![(id, Want::Compare(vec![Run { first: 0, count: 4 }]))])).unwrap();
    assert_eq!(work_off(&mut sender), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    let same = [Say::Ack(AckLevel::Verified, vec![(id, Run { first: 0, count: 2 })]), ack(id, 1), ack(id, 3)];
    same.into_iter().for_each(|say| sender.hear(say).unwrap());
    sender.hear(Say::Differs(vec![(id, Run { first: 2, count: 1 })])).unwrap();
    assert_eq!(work_off(&mut sender), [(0, 2)]);
    sender.hear(ack(id, 2)).unwrap();
    let progress = sender.progress();
    assert_eq!((progress.bytes_verified, progress.bytes_same), (3 * CHUNK + 5, 2 * CHUNK + 5));
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

/// As where a mount point lies in the tree, or two sources on two disks.
#[test]
fn by_layout_streams_read_from_all_devices_at_once_and_each_chunk_comes_once() {
    let now = Duration::ZERO;
    let source = DiskSide { order: Some(Order::Layout), ..DiskSide::default() };
    let disk = Disk { source, ..Disk::default() };
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, disk, ..terms() };
    let on = |name: &str, device| {
        let file = file(name, 4 * CHUNK);
        Entry { evidence: Evidence { device, ..file.evidence }, ..file }
    };
    let files = vec![on("a", 7), on("b", 7), on("mounted/c", 8), on("mounted/d", 8)];
    for streams in [1, 2, 3] {
        let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
        let first = sender.offer(files.clone());
        (0..streams).for_each(|stream| assert!(sender.stream_up(stream)));
        sender
            .hear(Say::Want((first.0..first.0 + 4).map(|id| (EntryId(id), Want::Whole)).collect()))
            .unwrap();
        let mut taken: Vec<(u64, EntryId, u64)> = Vec::new();
        for turn in 0..16 {
            match sender.next_work(turn % streams, now) {
                Next::Work(Work::Chunk(entry, chunk, _)) => {
                    taken.push((entry.evidence.device, entry.id, chunk));
                }
                other => panic!("{streams} streams, {turn}: {other:?}"),
            }
        }
        let devices: Vec<u64> = taken.iter().take(2).map(|(device, ..)| *device).collect();
        assert_eq!(devices, [7, 8], "{streams} streams");
        let mut chunks: Vec<(EntryId, u64)> = taken.iter().map(|(_, id, chunk)| (*id, *chunk)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        assert_eq!(chunks.len(), 16, "{streams} streams: {taken:?}");
    }
}

/// The chunk that a stream takes while it sends another.
#[test]
fn a_chunk_that_is_taken_ahead_is_the_streams_own_until_it_is_lost() {
    let now = Duration::ZERO;
    let (mut sender, large) = wanted(None, vec![file("large", 10 * CHUNK)]);
    let first = |work| match work {
        Next::Work(Work::Chunk(_, chunk, _)) => chunk,
        other => panic!("{other:?}"),
    };
    assert_eq!(first(sender.next_work(0, now)), 0);
    assert_eq!(sender.take_ahead(0, large, now), Some((1, Copy::First)));
    assert!(sender.still_has(0, large, 1) && !sender.still_has(1, large, 1));
    assert_eq!(first(sender.next_work(1, now)), 2);
    sender.chunk_sent(0, large, 0, Digest::default());
    sender.chunk_sent(0, large, 1, Digest::default());
    assert!(!sender.still_has(0, large, 1), "it was sent");
    // What a stream had goes back with it.
    assert_eq!(first(sender.next_work(0, now)), 3);
    assert_eq!(sender.take_ahead(0, large, now), Some((4, Copy::First)));
    assert!(sender.stream_lost(0));
    assert!(!sender.still_has(0, large, 4));
    let rest: Vec<u64> = (0..9).map(|_| first(sender.next_work(1, now))).collect();
    assert_eq!(rest, [0, 1, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn nothing_is_taken_ahead_that_is_not_the_streams_next_or_that_another_would_lack() {
    let now = Duration::ZERO;
    let begun = |depth, files| {
        let (mut sender, first) = wanted(depth, files);
        assert!(matches!(sender.next_work(1, now), Next::Work(Work::Chunk(..))));
        (sender, first)
    };
    // With two streams two chunks are left for them.
    let (mut sender, large) = begun(None, vec![file("large", 4 * CHUNK)]);
    assert_eq!(sender.take_ahead(1, large, now), Some((1, Copy::First)));
    assert_eq!(sender.take_ahead(1, large, now), None);
    // It has all under way that it may have.
    let (mut sender, large) = begun(Some(1), vec![file("large", 10 * CHUNK)]);
    assert_eq!(sender.take_ahead(1, large, now), None);
    // Even streams look for small files first.
    let (mut sender, large) = begun(None, vec![file("large", 10 * CHUNK), file("small", 10)]);
    assert_eq!(sender.take_ahead(0, large, now), None);
    assert!(sender.take_ahead(1, large, now).is_some());
    // Another file, a stream that is not there.
    assert_eq!(sender.take_ahead(1, EntryId(large.0 + 1), now), None);
    assert_eq!(sender.take_ahead(7, large, now), None);
    for order in [Order::Strict, Order::Serial] {
        let source = DiskSide { order: Some(order), ..DiskSide::default() };
        let disk = Disk { source, ..Disk::default() };
        let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, disk, ..terms() };
        let mut sender = Sender::new(terms.clone(), sender::Limits::for_path(&terms, None));
        let large = sender.offer(vec![file("large", 10 * CHUNK)]);
        assert!(sender.stream_up(0));
        sender.hear(Say::Want(vec![(large, Want::Whole)])).unwrap();
        assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(..))));
        assert_eq!(sender.take_ahead(0, large, now), None, "{order:?}");
    }
}

/// Else what the scan finds behind a large file would wait until that file ends.
#[test]
fn what_was_found_meanwhile_is_offered_when_a_chunk_is_taken_ahead() {
    let now = Duration::ZERO;
    let (mut sender, large) = wanted(None, vec![file("large", 10 * CHUNK)]);
    assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(..))));
    while sender.take_action().is_some() {}
    sender.offer_soon(file("found", 10));
    assert!(!sender.has_to_say(), "it waits for others");
    assert!(sender.take_ahead(0, large, now).is_some());
    assert!(sender.has_to_say());
}
