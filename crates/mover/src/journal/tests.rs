use super::*;
use std::path::Path;
use thalweg_wire::Time;

const KEY: [u8; 16] = [3; 16];
const CHUNK: u64 = 64 << 10;

fn open(path: &Path) -> Journal {
    Journal::open(Arc::new(Dir::open(path).unwrap()), KEY, CHUNK).unwrap()
}

fn path(text: &str) -> RelativePath {
    RelativePath::new(text.as_bytes().to_vec()).unwrap()
}

fn evidence(size: u64) -> Evidence {
    Evidence { size, mtime: Time { seconds: 7, nanos: 8 }, ..Evidence::default() }
}

fn digest(byte: u8) -> Digest {
    Digest([byte; 32])
}

#[test]
fn what_was_recorded_is_found_again() {
    let scratch = tempfile::tempdir().unwrap();
    let mut journal = open(scratch.path());
    let a = journal.begin(&path("a"), &evidence(1));
    let b = journal.begin(&path("b"), &evidence(2));
    let c = journal.begin(&path("c"), &evidence(3));
    journal.record(&[(a, vec![(0, digest(1)), (5, digest(2))]), (b, vec![(1, digest(3))])]).unwrap();
    journal.record(&[(a, vec![(0, digest(9))])]).unwrap();
    journal.end(b);
    journal.flush().unwrap();
    drop(journal);

    let mut journal = open(scratch.path());
    assert_eq!(journal.find(&path("a"), &evidence(1)), Some(a));
    assert_eq!(journal.find(&path("a"), &evidence(2)), None);
    assert_eq!(journal.find_path(&path("a")), Some(a));
    assert_eq!(journal.chunks(a).unwrap(), BTreeMap::from([(0, digest(9)), (5, digest(2))]));
    assert!(!journal.is_live(b) && !journal.is_live(c));
    assert!(journal.begin(&path("d"), &evidence(1)) > b);
}

fn open_with(path: &Path, chunk_bytes: u64) -> Journal {
    Journal::open(Arc::new(Dir::open(path).unwrap()), KEY, chunk_bytes).unwrap()
}

#[test]
fn each_partial_keeps_the_chunk_size_it_was_recorded_in_until_it_is_recorded_in_another() {
    let scratch = tempfile::tempdir().unwrap();
    let mut journal = open_with(scratch.path(), CHUNK);
    let a = journal.begin(&path("a"), &evidence(1));
    let b = journal.begin(&path("b"), &evidence(2));
    journal.record(&[(a, vec![(0, digest(1)), (1, digest(2))]), (b, vec![(7, digest(3))])]).unwrap();
    drop(journal);

    let mut journal = open_with(scratch.path(), 2 * CHUNK);
    assert_eq!([a, b].map(|number| journal.chunk_bytes_of(number)), [Some(CHUNK); 2]);
    let c = journal.begin(&path("c"), &evidence(3));
    journal.record(&[(a, vec![(0, digest(4))]), (c, vec![(5, digest(5))])]).unwrap();
    let expected = [
        (a, 2 * CHUNK, BTreeMap::from([(0, digest(4))])),
        (b, CHUNK, BTreeMap::from([(7, digest(3))])),
        (c, 2 * CHUNK, BTreeMap::from([(5, digest(5))])),
    ];
    let check = |journal: &Journal| {
        for (number, chunk_bytes, chunks) in &expected {
            assert_eq!(journal.chunk_bytes_of(*number), Some(*chunk_bytes));
            assert_eq!(journal.chunks(*number).unwrap(), *chunks);
        }
    };
    check(&journal);
    drop(journal);

    // A third size, and nothing is recorded in it before the file is rewritten.
    let mut journal = open_with(scratch.path(), 4 * CHUNK);
    check(&journal);
    journal.compact().unwrap();
    check(&journal);
    let d = journal.begin(&path("d"), &evidence(4));
    journal.record(&[(d, vec![(0, digest(6))])]).unwrap();
    check(&journal);
    drop(journal);
    let journal = open_with(scratch.path(), CHUNK);
    check(&journal);
    assert_eq!(journal.chunk_bytes_of(d), Some(4 * CHUNK));
}

#[test]
fn a_journal_of_another_job_is_begun_anew() {
    let scratch = tempfile::tempdir().unwrap();
    let mut journal = open(scratch.path());
    let a = journal.begin(&path("a"), &evidence(1));
    journal.record(&[(a, vec![(0, digest(1))])]).unwrap();
    drop(journal);
    let dir = Arc::new(Dir::open(scratch.path()).unwrap());
    let journal = Journal::open(dir, [4; 16], CHUNK).unwrap();
    assert_eq!(journal.live().count(), 0);
    assert!(!journal.goes_on());
}

/// What that attempt made may be there without a sync, whatever became of its journal.
#[test]
fn a_journal_whose_head_is_damaged_is_still_that_of_an_earlier_attempt() {
    let scratch = tempfile::tempdir().unwrap();
    assert!(!open(scratch.path()).goes_on());
    assert!(open(scratch.path()).goes_on());
    let file = scratch.path().join("journal");
    let damaged = flipped(&std::fs::read(&file).unwrap(), 0);
    std::fs::write(&file, damaged).unwrap();
    let journal = open(scratch.path());
    assert!(journal.goes_on() && journal.live().count() == 0);
    drop(journal);
    assert!(open(scratch.path()).goes_on());
    // A first attempt that was killed before it wrote anything.
    std::fs::write(&file, "").unwrap();
    assert!(!open(scratch.path()).goes_on());
}

/// Wherever that attempt is killed, or finds no room.
#[test]
fn a_journal_that_is_begun_anew_is_that_of_an_earlier_attempt_until_its_successor_is() {
    let scratch = tempfile::tempdir().unwrap();
    drop(open(scratch.path()));
    let file = scratch.path().join("journal");
    let damaged = flipped(&std::fs::read(&file).unwrap(), 0);
    std::fs::write(&file, &damaged).unwrap();
    // In the way of its successor.
    let successor = scratch.path().join("journal.new");
    std::fs::create_dir(&successor).unwrap();
    let dir = Arc::new(Dir::open(scratch.path()).unwrap());
    assert!(Journal::open(dir, KEY, CHUNK).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), damaged);
    std::fs::remove_dir(&successor).unwrap();
    let journal = open(scratch.path());
    assert!(journal.goes_on() && !successor.exists());
    drop(journal);
    assert!(open(scratch.path()).goes_on());
}

#[test]
fn a_journal_is_begun_anew_where_the_medium_has_lost_it_and_not_where_its_server_is_away() {
    let of = |number, is_local| is_lost(&io::Error::from_raw_os_error(number), || is_local);
    for is_local in [true, false] {
        assert!([errno::BAD_CHECKSUM, errno::DAMAGED].into_iter().all(|number| of(number, is_local)));
        let away = [errno::STALE, errno::DEVICE_GONE, errno::NO_DEVICE, errno::REMOTE_IO];
        assert!(!away.into_iter().any(|number| of(number, is_local)));
        assert_eq!(of(errno::IO, is_local), is_local);
    }
}

#[test]
fn what_follows_a_header_of_another_job_or_of_no_size_for_chunks_is_not_believed() {
    for header in [
        Record::Header { layout: LAYOUT, job_key: [4; 16], chunk_bytes: CHUNK },
        Record::Header { layout: LAYOUT, job_key: KEY, chunk_bytes: 0 },
        Record::Header { layout: LAYOUT, job_key: KEY, chunk_bytes: CHUNK + 1 },
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let mut journal = open(scratch.path());
        let a = journal.begin(&path("a"), &evidence(1));
        journal.record(&[(a, vec![(0, digest(1))])]).unwrap();
        drop(journal);
        let file = scratch.path().join("journal");
        let mut bytes = std::fs::read(&file).unwrap();
        append(&header, 0, &mut bytes);
        append(&Record::Chunks { partial: a, chunks: vec![(1, digest(2))] }, 0, &mut bytes);
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(open(scratch.path()).chunks(a).unwrap(), BTreeMap::from([(0, digest(1))]));
    }
}

#[test]
fn a_journal_of_another_layout_is_refused_untouched() {
    let scratch = tempfile::tempdir().unwrap();
    let mut bytes = MAGIC.to_vec();
    Record::Header { layout: LAYOUT + 1, job_key: KEY, chunk_bytes: CHUNK }.encode(16, &mut bytes);
    let file = scratch.path().join("journal");
    std::fs::write(&file, &bytes).unwrap();
    let dir = Arc::new(Dir::open(scratch.path()).unwrap());
    let failure = Journal::open(dir, KEY, CHUNK).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn with_any_byte_flipped_a_journal_tells_less_and_never_something_else() {
    let scratch = tempfile::tempdir().unwrap();
    let mut journal = open(scratch.path());
    let a = journal.begin(&path("a"), &evidence(1));
    let b = journal.begin(&path("b"), &evidence(2));
    journal.record(&[(a, vec![(0, digest(1))]), (b, vec![(0, digest(2))])]).unwrap();
    journal.record(&[(a, vec![(1, digest(3)), (2, digest(4))])]).unwrap();
    drop(journal);
    let file = scratch.path().join("journal");
    let good = std::fs::read(&file).unwrap();
    let truth = BTreeMap::from([(0, digest(1)), (1, digest(3)), (2, digest(4))]);
    for at in 0..good.len() {
        for bad in [flipped(&good, at), good[..at].to_vec()] {
            std::fs::write(&file, bad).unwrap();
            let mut journal = open(scratch.path());
            for (number, chunks) in [(a, truth.clone()), (b, BTreeMap::from([(0, digest(2))]))] {
                for (chunk, digest) in journal.chunks(number).unwrap() {
                    assert_eq!(chunks.get(&chunk), Some(&digest));
                }
            }
            // It takes new records and keeps them.
            let c = journal.begin(&path("c"), &evidence(3));
            journal.record(&[(c, vec![(0, digest(5))])]).unwrap();
            drop(journal);
            let journal = open(scratch.path());
            let c = journal.find(&path("c"), &evidence(3)).unwrap();
            assert_eq!(journal.chunks(c).unwrap(), BTreeMap::from([(0, digest(5))]));
        }
    }
}

fn flipped(good: &[u8], at: usize) -> Vec<u8> {
    let mut bad = good.to_vec();
    bad[at] ^= 0x10;
    bad
}

#[test]
fn a_mostly_dead_journal_is_rewritten_and_loses_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let mut journal = open(scratch.path());
    journal.compact_bytes = 64 << 10;
    let kept = journal.begin(&path("kept"), &evidence(1));
    journal.record(&[(kept, vec![(3, digest(3))])]).unwrap();
    let mut longest = 0;
    for round in 0..200u64 {
        let gone = journal.begin(&path(&format!("gone{round}")), &evidence(round));
        let chunks = (0..100).map(|chunk| (chunk, digest(chunk as u8))).collect();
        journal.record(&[(gone, chunks)]).unwrap();
        journal.end(gone);
        longest = longest.max(std::fs::metadata(scratch.path().join("journal")).unwrap().len());
    }
    journal.record(&[(kept, vec![(4, digest(4))])]).unwrap();
    assert!(longest < 200 << 10, "{longest}");
    drop(journal);
    let journal = open(scratch.path());
    assert_eq!(journal.chunks(kept).unwrap(), BTreeMap::from([(3, digest(3)), (4, digest(4))]));
    assert!(!scratch.path().join("journal.new").exists());
}
