use super::*;
use crate::bucket::memory::Memory;
use crate::store::If;
use std::slice;
use thalweg_mover::failure;
use thalweg_wire::Evidence;
use thalweg_wire::digest::{Rule, chunk_count, join};
use thalweg_wire::message::{Check, Disk, PartOf, Preserve};

// What an earlier attempt left.
mod attempts;
// Whole copies, from a store and to one.
mod copies;
// What the source lacks.
mod deleting;
// What was written and not looked at, or could not be.
mod doubts;
// What an earlier run remembers.
mod remembered;
// What stands there, as far as lists tell.
mod standing;

const CHUNK: u64 = 64 << 10;
/// Bytes in memory at once.
const MEMORY: u64 = 8 * CHUNK;
/// Only what hangs takes nothing for so long.
const STALL: Duration = Duration::from_secs(900);

fn terms() -> Terms {
    Terms { preserve: Preserve::ALL, job_key: [5; 16], ..Terms::of(CHUNK, CHUNK as u32) }
}

fn open_as(
    bucket: &Arc<Memory>,
    terms: Terms,
    state: Option<&Path>,
    options: DestinationOptions,
) -> Result<ObjectDestination> {
    open_within(bucket, terms, state, options, STALE)
}

/// One in which a chunk gives way after `stale`.
fn open_within(
    bucket: &Arc<Memory>,
    terms: Terms,
    state: Option<&Path>,
    options: DestinationOptions,
    stale: Duration,
) -> Result<ObjectDestination> {
    let location = Location { bucket: "memory".to_owned(), key: "to/".to_owned() };
    let budget = Budget::new(MEMORY, stale, STALL);
    ObjectDestination::of(bucket.clone(), &location, &SourceForm::Many, terms, state, options, budget)
}

fn open(bucket: &Arc<Memory>, state: Option<&Path>) -> ObjectDestination {
    open_as(bucket, terms(), state, DestinationOptions::default()).unwrap()
}

fn entry(id: u64, name: &[u8], kind: Kind, bytes: usize) -> Entry {
    let time = Time { seconds: 1_600_000_000, nanos: 5 };
    Entry {
        id: EntryId(id),
        path: RelativePath::new(name.to_vec()).unwrap(),
        kind,
        mode: 0o640,
        uid: 7,
        gid: 8,
        evidence: Evidence { size: bytes as u64, mtime: time, ctime: time, device: 1, inode: 100 + id },
        xattrs: Vec::new(),
    }
}

const PLAIN: Kind = Kind::File { sparse: false, marked: false };

fn file(id: u64, name: &str, bytes: usize) -> Entry {
    entry(id, name.as_bytes(), PLAIN, bytes)
}

fn noise(bytes: usize, seed: u8) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut content);
    content
}

fn digest_of(content: &[u8]) -> Digest {
    Digest(*blake3::hash(content).as_bytes())
}

fn decide(to: &ObjectDestination, entry: &Entry) -> Decision {
    to.decide(entry, &|_, _| true)
}

#[track_caller]
fn assert_fresh(to: &ObjectDestination, entry: &Entry) {
    assert!(matches!(decide(to, entry), Decision::Fresh), "{}", entry.path);
}

fn outcome(to: &ObjectDestination, entry: &Entry) -> Outcome {
    let Decision::Settled { outcome, .. } = decide(to, entry) else { panic!("{} is wanted", entry.path) };
    outcome
}

/// Writes these chunks, as segments of a stream, makes them durable and notes them.
fn write(
    to: &ObjectDestination,
    partial: &Arc<dyn PartialFile>,
    content: &[u8],
    chunks: &[u64],
) -> Result<()> {
    let rule = Rule { file_bytes: content.len() as u64, segment_bytes: CHUNK, marked: false };
    let mut noted = Vec::new();
    for &chunk in chunks {
        let start = (chunk * CHUNK) as usize;
        let bytes = &content[start..content.len().min(start + CHUNK as usize)];
        for (at, piece) in bytes.chunks(10_000).enumerate() {
            let offset = (start + at * 10_000) as u64;
            partial.write_at(piece, offset).map_err(|error| failure::of_io("write", &error))?;
        }
        noted.push((chunk, rule.segment(chunk * CHUNK, bytes).unwrap()));
    }
    to.sync(slice::from_ref(partial))?;
    to.record(&[(partial.number(), noted)])
}

fn all(content: &[u8]) -> Vec<u64> {
    (0..chunk_count(content.len() as u64, CHUNK)).collect()
}

fn name(to: &ObjectDestination, entry: &Entry, ready: Ready, content: &[u8]) -> Result<Vec<Loss>> {
    let digest = digest_of(content);
    let losses = to.finish(entry, ready, digest)?;
    to.settled(entry, &Outcome::Done { digest: Some(digest), losses: losses.clone() });
    Ok(losses)
}

fn send(to: &ObjectDestination, entry: &Entry, content: &[u8]) {
    assert_fresh(to, entry);
    let partial = to.begin(entry).unwrap();
    write(to, &partial, content, &all(content)).unwrap();
    name(to, entry, Ready::Partial(partial), content).unwrap();
}

fn stage(to: &ObjectDestination, files: &[(Entry, Vec<u8>)]) -> Vec<Result<Staged>> {
    let files: Vec<Small<'_>> = files.iter().map(|(entry, content)| Small { entry, content }).collect();
    to.stage(3, &files, &mut Together::new(&Disk::default()))
}

fn content(bucket: &Memory, key: &str) -> Option<Vec<u8>> {
    bucket.get(key).map(|object| object.content)
}

#[test]
fn a_destination_that_is_far_wants_more_streams() {
    let bucket = Memory::new();
    let streams = |millis: u64, chunk_bytes: u64| {
        bucket.answers_in_ms.store(millis, Ordering::Relaxed);
        let location = Location { bucket: "memory".to_owned(), key: "to/".to_owned() };
        let (terms, options) = (Terms::of(chunk_bytes, CHUNK as u32), DestinationOptions::default());
        let budget = Budget::new(MEMORY_BYTES_MAX, STALE, STALL);
        ObjectDestination::of(bucket.clone(), &location, &SourceForm::Many, terms, None, options, budget)
            .unwrap()
            .streams()
    };
    assert_eq!([0, 20, 50, 150, 10_000].map(|millis| streams(millis, CHUNK_BYTES)), [2, 2, 6, 16, 16]);
    // Each has to have memory for a chunk that it gathers and one that is under way.
    assert_eq!([32 << 20, 64 << 20].map(|bytes| streams(150, bytes)), [8, 4]);
}

#[test]
fn small_files_are_put_together_whole_with_what_is_kept_beside_them_and_are_known_the_next_time() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let to = open(&bucket, Some(state.path()));
    let files: Vec<(Entry, Vec<u8>)> = (0..16)
        .map(|id| (file(id, &format!("d/f{id}"), 1000 * id as usize), noise(1000 * id as usize, id as u8)))
        .collect();
    files.iter().for_each(|(entry, _)| assert_fresh(&to, entry));
    for ((entry, bytes), staged) in files.iter().zip(stage(&to, &files)) {
        let staged = staged.unwrap();
        assert_eq!(to.read_staged_back(&staged, bytes.len() as u64).unwrap(), digest_of(bytes));
        name(&to, entry, Ready::Staged(staged), bytes).unwrap();
        let object = bucket.get(&format!("to/{}", entry.path)).unwrap();
        assert!(object.content == *bytes);
        assert_eq!((object.about.mtime, object.about.mode), (Some(entry.evidence.mtime), Some(0o640)));
        assert_eq!((object.about.uid, object.about.blake3), (Some(7), Some(digest_of(bytes))));
    }
    // One listing says that there was nothing, below the directory too. One is put twice, to see what the store does.
    assert_eq!((bucket.count("put"), bucket.count("list"), bucket.count("head")), (17, 1, 0));
    to.close(true);
    // By the catalogue without a look, without it by the time beside the object.
    for (state, looks) in [(Some(state.path()), 0), (None, 16)] {
        let (before, to) = (bucket.count("head"), open(&bucket, state));
        for (entry, _) in &files {
            assert!(matches!(outcome(&to, entry), Outcome::Unchanged { .. }), "{}", entry.path);
        }
        assert_eq!(bucket.count("head") - before, looks);
        let mut changed = files[1].0.clone();
        changed.evidence.mtime.seconds += 1;
        assert_fresh(&to, &changed);
    }
    // Somebody else's of the same size and time is not what is remembered.
    let about = bucket.get("to/d/f1").unwrap().about;
    bucket.set_about("to/d/f1", &[1; 1000], about, None);
    assert_fresh(&open(&bucket, Some(state.path())), &files[1].0);
}

/// Also where no time is kept beside it, and where something is remembered of what stood there before.
#[test]
fn what_came_from_a_stage_is_known_by_size_and_time_and_has_no_digest_of_its_source() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(1000, 1);
    let open = |of_stage: bool| {
        let terms = Terms { preserve: Preserve { times: false, ..Preserve::ALL }, ..terms() };
        let options = DestinationOptions { of_stage, ..DestinationOptions::default() };
        open_as(&bucket, terms, Some(state.path()), options).unwrap()
    };
    let source = file(1, "a", 1000);
    let (mut before, mut staged, mut changed) = (source.clone(), source.clone(), source.clone());
    before.evidence.mtime.seconds -= 1;
    staged.evidence.ctime.seconds += 1;
    staged.evidence.inode += 1;
    changed.evidence.mtime.seconds += 1;
    for (of_stage, entry, bytes) in [(false, &before, &noise(1000, 2)), (true, &staged, &bytes)] {
        let to = open(of_stage);
        send(&to, entry, bytes);
        to.close(true);
    }
    let to = open(false);
    let found = outcome(&to, &source);
    assert!(matches!(found, Outcome::Unchanged { digest: None }), "{found:?}");
    // The stage had it as somebody else's.
    let other_owner = Entry { uid: source.uid + 1, ..source.clone() };
    for other in [&before, &changed, &other_owner] {
        assert_fresh(&to, other);
    }
}

/// As long as its time stays, the object that stands there is another than what the stage brought.
#[test]
fn an_object_that_somebody_put_over_what_came_from_a_stage_is_not_taken_for_it() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    let options = DestinationOptions { of_stage: true, ..DestinationOptions::default() };
    let to = open_as(&bucket, terms(), Some(state.path()), options).unwrap();
    send(&to, &entry, &bytes);
    to.close(true);
    let about = bucket.get("to/a").unwrap().about;
    bucket.set_about("to/a", &[1; 1000], about, None);
    assert_fresh(&open(&bucket, Some(state.path())), &entry);
}

#[test]
fn a_large_file_has_its_name_when_all_of_it_is_there_and_one_of_a_chunk_is_put_at_once() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let (large, single) = (noise(3 * CHUNK as usize + 77, 1), noise(CHUNK as usize - 1, 2));
    let entries = [file(1, "large", large.len()), file(2, "single", single.len())];
    for (entry, bytes) in entries.iter().zip([&large, &single]) {
        assert_fresh(&to, entry);
        let partial = to.begin(entry).unwrap();
        write(&to, &partial, bytes, &all(bytes)).unwrap();
        assert!(bucket.keys().is_empty());
        assert_eq!(partial.is_checked(0), Some(true));
        name(&to, entry, Ready::Partial(partial), bytes).unwrap();
        assert!(content(&bucket, &format!("to/{}", entry.path)).unwrap() == *bytes);
        bucket.forget(&format!("to/{}", entry.path));
    }
    assert_eq!((bucket.count("begin"), bucket.count("part"), bucket.count("put")), (1, 4, 2));
    // What is thrown away leaves nothing.
    let entry = file(3, "c", large.len());
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &large, &[0]).unwrap();
    to.discard(Ready::Partial(partial));
    assert!(bucket.hidden().is_empty() && bucket.keys().is_empty());
    assert_eq!(to.shared.budget.bytes(), 0);
    to.close(true);
}

#[test]
fn a_part_that_fails_fails_the_sync_and_counts_when_it_comes_again() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let bytes = noise(2 * CHUNK as usize, 1);
    let entry = file(1, "a", bytes.len());
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    bucket.fails.store(1, Ordering::Relaxed);
    let failure = write(&to, &partial, &bytes, &[1]).unwrap_err();
    // The store is not reached: that is no matter of this entry alone.
    assert_eq!((failure.kind, failure.range), (FailureKind::Connection, Some((CHUNK, 2 * CHUNK))));
    assert!(failure.cause.contains("SlowDown"), "{failure}");
    write(&to, &partial, &bytes, &[0, 1]).unwrap();
    name(&to, &entry, Ready::Partial(partial), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
    to.close(true);
}

#[test]
fn what_stands_there_by_then_is_a_conflict_and_stays() {
    for is_there in [false, true] {
        let bucket = Memory::new();
        if is_there {
            ["to/a", "to/b", "to/c"].iter().for_each(|key| bucket.set(key, b"old"));
        }
        let to = open(&bucket, None);
        let bytes = noise(2 * CHUNK as usize, 1);
        let entries = [("a", 2 * CHUNK as usize), ("b", 1000), ("c", 10_000)];
        let [large, small, single] = entries.map(|(name, size)| file(size as u64, name, size));
        [&large, &small, &single].iter().for_each(|entry| assert_fresh(&to, entry));
        let partial = to.begin(&large).unwrap();
        write(&to, &partial, &bytes, &[0, 1]).unwrap();
        let one = to.begin(&single).unwrap();
        write(&to, &one, &bytes[..10_000], &[0]).unwrap();
        ["to/a", "to/b", "to/c"].iter().for_each(|key| bucket.set(key, b"somebody else's"));
        let refused = [
            name(&to, &large, Ready::Partial(partial), &bytes).unwrap_err(),
            name(&to, &single, Ready::Partial(one), &bytes[..10_000]).unwrap_err(),
            stage(&to, &[(small, bytes[..1000].to_vec())]).remove(0).unwrap_err(),
        ];
        assert!(refused.iter().all(|failure| failure.kind == FailureKind::Conflict), "{refused:?}");
        for key in ["to/a", "to/b", "to/c"] {
            assert_eq!(content(&bucket, key).unwrap(), b"somebody else's");
        }
        assert!(bucket.hidden().is_empty());
    }
}

#[test]
fn a_store_without_conditions_is_told_once_and_looked_at_before() {
    let bucket = Memory::new();
    bucket.refuses_conditions.store(true, Ordering::Relaxed);
    let to = open(&bucket, None);
    let large = noise(2 * CHUNK as usize, 1);
    let mut told = 0;
    for id in 1..=3 {
        let entry = file(id, &format!("f{id}"), large.len());
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(&to, &partial, &large, &[0, 1]).unwrap();
        if id == 3 {
            bucket.set("to/f3", b"somebody else's");
            let failure = name(&to, &entry, Ready::Partial(partial), &large).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Conflict);
        } else {
            told += name(&to, &entry, Ready::Partial(partial), &large).unwrap().len();
        }
    }
    assert_eq!(told, 1);
}

#[test]
fn a_file_that_came_twice_stands_when_one_copy_is_thrown_away() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    assert_fresh(&to, &entry);
    let [first, second] = [(); 2].map(|()| stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap());
    to.discard(Ready::Staged(second));
    name(&to, &entry, Ready::Staged(first), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
    assert_eq!(bucket.count("remove"), 0);
}

#[test]
fn what_is_damaged_when_it_is_read_back_is_removed_and_put_again() {
    let bucket = Memory::new();
    bucket.set("to/a", b"old");
    let to = open(&bucket, None);
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    assert_fresh(&to, &entry);
    let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
    bucket.damages.store(1, Ordering::Relaxed);
    assert_ne!(to.read_staged_back(&staged, 1000).unwrap(), digest_of(&bytes));
    assert!(bucket.keys().is_empty());
    to.discard(Ready::Staged(staged));
    // What was decided was to replace what stands there no more.
    let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
    assert_eq!(to.read_staged_back(&staged, 1000).unwrap(), digest_of(&bytes));
    name(&to, &entry, Ready::Staged(staged), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
}

#[test]
fn a_file_of_several_parts_is_read_back_as_a_whole_where_that_is_asked_for() {
    let marked = Kind::File { sparse: true, marked: true };
    for (kind, damages) in [(PLAIN, 0), (PLAIN, 1), (marked.clone(), 0), (marked, 1)] {
        let bucket = Memory::new();
        let terms = Terms { verify: VerifyLevel::Readback, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        let mut bytes = noise(4 * CHUNK as usize + 77, 1);
        bytes[2 * CHUNK as usize..3 * CHUNK as usize].fill(0);
        let entry = entry(1, b"a", kind, bytes.len());
        let is_marked = matches!(entry.kind, Kind::File { marked: true, .. });
        let rule = Rule { file_bytes: bytes.len() as u64, segment_bytes: CHUNK, marked: is_marked };
        let pieces = bytes.chunks(CHUNK as usize).enumerate();
        let chunks: Vec<Digest> =
            pieces.map(|(chunk, piece)| rule.segment(chunk as u64 * CHUNK, piece).unwrap()).collect();
        let digest = join(&chunks, true);
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(&to, &partial, &bytes, &all(&bytes)).unwrap();
        bucket.damages.store(damages, Ordering::Relaxed);
        let finished = to.finish(&entry, Ready::Partial(partial), digest);
        assert_eq!(finished.err().map(|failure| failure.kind), (damages > 0).then_some(FailureKind::Damage));
        assert_eq!(bucket.keys().len(), usize::from(damages == 0));
        assert!(bucket.count("read") > 0 && to.reads_on().is_none());
    }
}

#[test]
fn a_chunk_that_gave_way_comes_again_as_a_whole_and_is_no_zeros_whatever_the_file() {
    let of_one = Kind::File { sparse: true, marked: false };
    let marked = Kind::File { sparse: true, marked: true };
    for (kind, chunks) in [(PLAIN, 3), (marked, 3), (PLAIN, 1), (of_one, 1)] {
        for comes_again in [true, false] {
            let bucket = Memory::new();
            let options = DestinationOptions::default();
            let to = open_within(&bucket, terms(), None, options, Duration::ZERO).unwrap();
            let bytes = noise(chunks * CHUNK as usize, 1);
            let entry = entry(1, b"a", kind.clone(), bytes.len());
            assert_fresh(&to, &entry);
            let partial = to.begin(&entry).unwrap();
            write(&to, &partial, &bytes, &all(&bytes)[1..]).unwrap();
            partial.write_at(&bytes[..10_000], 0).unwrap();
            to.partial(partial.number()).unwrap().drop_stale();
            assert_eq!(to.shared.budget.bytes(), 0);
            // Its stream goes on after all.
            let lost = partial.write_at(&bytes[10_000..20_000], 10_000).unwrap_err();
            assert_eq!(failure::kind_of_io(&lost), FailureKind::Damage);
            assert_eq!(partial.is_checked(0), Some(false));
            if comes_again {
                write(&to, &partial, &bytes, &[0]).unwrap();
                name(&to, &entry, Ready::Partial(partial), &bytes).unwrap();
                assert!(content(&bucket, "to/a").unwrap() == bytes);
            } else {
                let failure = name(&to, &entry, Ready::Partial(partial), &bytes).unwrap_err();
                assert_eq!((failure.kind, failure.range), (FailureKind::Damage, Some((0, CHUNK))));
                assert!(bucket.keys().is_empty() && bucket.hidden().is_empty());
            }
        }
    }
}

#[test]
fn a_store_that_ignores_conditions_is_found_out_and_told_and_looked_at_from_then_on() {
    let bucket = Memory::new();
    bucket.ignores_conditions.store(true, Ordering::Relaxed);
    let to = open(&bucket, None);
    let files = [1, 2, 3].map(|id| (file(id, &format!("f{id}"), 1000), noise(1000, id as u8)));
    files.iter().for_each(|(entry, _)| assert_fresh(&to, entry));
    let mut told = Vec::new();
    for (entry, bytes) in &files[..2] {
        let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
        told.extend(name(&to, entry, Ready::Staged(staged), bytes).unwrap());
    }
    assert_eq!(told.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["condition"]);
    bucket.set("to/f3", b"somebody else's");
    let refused = stage(&to, slice::from_ref(&files[2])).remove(0).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Conflict);
    // Of a completion nothing is to be found out.
    let (large, bytes) = (file(4, "large", 2 * CHUNK as usize), noise(2 * CHUNK as usize, 1));
    let to = open(&bucket, None);
    assert_fresh(&to, &large);
    let partial = to.begin(&large).unwrap();
    write(&to, &partial, &bytes, &[0, 1]).unwrap();
    bucket.set("to/large", b"somebody else's");
    let refused = name(&to, &large, Ready::Partial(partial), &bytes).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Conflict);
}

#[test]
fn what_is_refused_for_another_reason_does_not_end_conditions() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    assert_fresh(&to, &entry);
    for kind in [FailureKind::Usage, FailureKind::Unsupported] {
        *lock(&bucket.refuses) = Some(kind);
        let refused = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap_err();
        assert_eq!(refused.kind, kind);
        assert!(!to.shared.conditions.lack());
    }
    *lock(&bucket.refuses) = None;
    // Completions alone.
    bucket.refuses_conditions.store(true, Ordering::Relaxed);
    let large = noise(2 * CHUNK as usize, 1);
    send(&to, &file(2, "large", large.len()), &large);
    bucket.refuses_conditions.store(false, Ordering::Relaxed);
    assert!(to.shared.conditions.lack());
    let before = bucket.count("head");
    assert!(stage(&to, &[(entry, bytes)]).remove(0).is_ok());
    assert_eq!(bucket.count("head"), before, "puts are heeded");
}

#[test]
fn without_versions_size_and_time_are_what_a_store_is_looked_at_for() {
    let bucket = Memory::new();
    bucket.set("to/a", b"old");
    let to = open(&bucket, None);
    let mut stood = bucket.get("to/a").unwrap().seen;
    stood.etag = String::new();
    let put = |stood: &Seen| to.shared.put_tried("to/a", b"new", &About::default(), Some(stood));
    put(&stood).unwrap();
    assert_eq!(put(&stood).unwrap_err().kind, FailureKind::Conflict);
    assert_eq!(content(&bucket, "to/a").unwrap(), b"new");
}

#[test]
fn what_concerns_one_file_alone_fails_with_it_and_not_the_others() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let bytes = noise(2 * CHUNK as usize, 1);
    let entries = [file(1, "a", bytes.len()), file(2, "b", bytes.len())];
    entries.iter().for_each(|entry| assert_fresh(&to, entry));
    let [refused, sound] = [0, 1].map(|at| to.begin(&entries[at]).unwrap());
    *lock(&bucket.refuses) = Some(FailureKind::Permission);
    write(&to, &refused, &bytes, &[1]).unwrap();
    *lock(&bucket.refuses) = None;
    write(&to, &refused, &bytes, &[0]).unwrap();
    write(&to, &sound, &bytes, &[0, 1]).unwrap();
    let failure = name(&to, &entries[0], Ready::Partial(refused), &bytes).unwrap_err();
    assert_eq!((failure.kind, failure.range), (FailureKind::Permission, Some((CHUNK, 2 * CHUNK))));
    name(&to, &entries[1], Ready::Partial(sound), &bytes).unwrap();
    assert_eq!(bucket.keys(), ["to/b"]);
}

#[test]
fn what_replaces_a_file_goes_over_what_was_put_of_it_meanwhile_and_not_the_other_way_round() {
    for is_late in [false, true] {
        let bucket = Memory::new();
        let terms = Terms { ignore_existing: true, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        let old = (file(1, "a", 1000), noise(1000, 1));
        let new = (file(2, "a", 1001), noise(1001, 2));
        assert_fresh(&to, &old.0);
        bucket.hold(true);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| stage(&to, slice::from_ref(&old)).remove(0));
            while bucket.count("put") == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The source changed: the one is withdrawn, the other offered.
            to.offered_before(&new.0.path);
            assert_fresh(&to, &new.0);
            bucket.hold(false);
            to.discard(Ready::Staged(first.join().unwrap().unwrap()));
        });
        assert!(content(&bucket, "to/a").unwrap() == old.1);
        if is_late {
            // What was put already is no reason to leave it.
            to.offered_before(&new.0.path);
            assert_fresh(&to, &new.0);
        }
        let staged = stage(&to, slice::from_ref(&new)).remove(0).unwrap();
        assert_eq!(stage(&to, slice::from_ref(&old)).remove(0).unwrap_err().kind, FailureKind::Conflict);
        name(&to, &new.0, Ready::Staged(staged), &new.1).unwrap();
        assert!(content(&bucket, "to/a").unwrap() == new.1);
        assert!(lock(&to.flights).all.is_empty() && lock(&to.flights).last.is_empty());
        assert!(lock(&to.shared.own).is_empty());
    }
}

#[test]
fn memory_is_bounded_while_the_store_takes_nothing() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let bytes = noise(40 * CHUNK as usize, 1);
    let entry = file(1, "a", bytes.len());
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    bucket.hold(true);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            write(&to, &partial, &bytes, &all(&bytes)).unwrap();
            is_over.store(true, Ordering::Release);
        });
        while to.shared.budget.bytes() < MEMORY {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(to.shared.budget.bytes(), MEMORY);
        assert!(!is_over.load(Ordering::Acquire));
        bucket.hold(false);
        writer.join().unwrap();
    });
    assert_eq!(to.shared.budget.bytes(), 0);
    name(&to, &entry, Ready::Partial(partial), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
}

#[test]
fn objects_of_one_chunk_wait_in_half_of_the_memory_at_most() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let bytes = noise(CHUNK as usize, 1);
    let files: Vec<Entry> = (1..=20).map(|id| file(id, &format!("f{id}"), bytes.len())).collect();
    let partials: Vec<Arc<dyn PartialFile>> = files
        .iter()
        .map(|entry| {
            assert_fresh(&to, entry);
            let partial = to.begin(entry).unwrap();
            write(&to, &partial, &bytes, &[0]).unwrap();
            partial
        })
        .collect();
    for (entry, partial) in files.iter().zip(partials) {
        name(&to, entry, Ready::Partial(partial), &bytes).unwrap();
        assert!(content(&bucket, &format!("to/{}", entry.path)).unwrap() == bytes);
    }
    assert!(bucket.count("put") > 0 && bucket.count("complete") > 0);
}

#[test]
fn holes_are_zeros_though_nothing_of_them_comes() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let mut bytes = vec![0; 4 * CHUNK as usize + 77];
    bytes[CHUNK as usize + 3..][..1000].copy_from_slice(&noise(1000, 1));
    let entry = entry(1, b"a", Kind::File { sparse: true, marked: true }, bytes.len());
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    // The second chunk comes in two pieces, one of them a hole; the others are holes as a whole.
    let (start, half) = (CHUNK as usize, CHUNK as usize / 2);
    partial.write_at(&bytes[start..start + half], CHUNK).unwrap();
    partial.leave_zeros(CHUNK / 2, CHUNK + CHUNK / 2).unwrap();
    to.sync(slice::from_ref(&partial)).unwrap();
    name(&to, &entry, Ready::Partial(partial), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
}

#[test]
fn what_a_bucket_cannot_hold_is_told_by_name() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let plain = Kind::File { sparse: false, marked: false };
    let long = vec![b"x".repeat(250); 5].join(&b'/');
    for name in [&b"\xff"[..], &long[..]] {
        let Outcome::Failed(failure) = outcome(&to, &entry(1, name, plain.clone(), 1)) else { panic!() };
        assert_eq!(failure.kind, FailureKind::Unsupported);
        assert_eq!(failure.path.unwrap().as_bytes(), name);
    }
    let target = b"x".to_vec();
    for kind in [Kind::Symlink { target }, Kind::Fifo, Kind::Device { block: true, major: 1, minor: 2 }] {
        assert!(matches!(outcome(&to, &entry(2, b"s", kind, 0)), Outcome::Skipped(_)));
    }
    // A file where keys below it stand, a directory where an object has its name.
    bucket.set("to/d/x", b"");
    bucket.set("to/o", b"");
    let to = open(&bucket, None);
    for offered in [file(1, "d", 1), entry(2, b"o", Kind::Directory, 0)] {
        let Outcome::Failed(failure) = outcome(&to, &offered) else { panic!("{}", offered.path) };
        assert_eq!(failure.kind, FailureKind::Conflict);
    }
    // More parts than an upload has.
    let huge = entry(3, b"huge", plain, ((PARTS_MAX + 1) * CHUNK) as usize);
    let Outcome::Failed(failure) = outcome(&to, &huge) else { panic!() };
    assert!(failure.reason == Reason::FileTooLarge && failure.cause.contains("10001"), "{failure}");
}

#[test]
fn empty_directories_are_told_as_lost_or_kept_by_markers() {
    let bucket = Memory::new();
    let directories = [b"d".as_slice(), b"d/e", b"empty"].map(|name| entry(1, name, Kind::Directory, 0));
    let (sent, bytes) = (file(2, "d/e/f", 5000), noise(5000, 1));
    let to = open(&bucket, None);
    directories.iter().for_each(|entry| assert!(matches!(outcome(&to, entry), Outcome::Done { .. })));
    send(&to, &sent, &bytes);
    let revised = to.conclude(Listing::Whole, &|| true).revised;
    let lost: Vec<String> = revised.iter().map(|it| it.path.to_string()).collect();
    assert_eq!(lost, ["empty"]);
    let markers = DestinationOptions { directory_markers: true, ..DestinationOptions::default() };
    for is_first in [true, false] {
        let to = open_as(&bucket, terms(), None, markers.clone()).unwrap();
        for entry in &directories {
            let outcome = outcome(&to, entry);
            assert_eq!(matches!(outcome, Outcome::Unchanged { .. }), !is_first, "{}", entry.path);
        }
        assert!(to.conclude(Listing::Whole, &|| true).revised.is_empty());
    }
    assert_eq!(bucket.get("to/empty/").unwrap().about.mode, Some(0o640));
    // Somebody else's object of that name stays.
    bucket.set("to/empty/", b"content");
    let to = open_as(&bucket, terms(), None, markers).unwrap();
    let Outcome::Failed(failure) = outcome(&to, &directories[2]) else { panic!() };
    assert_eq!(failure.kind, FailureKind::Conflict);
    assert_eq!(content(&bucket, "to/empty/").unwrap(), b"content");
}

#[test]
fn the_marker_of_a_directory_that_is_only_implied_keeps_what_it_has_and_gets_nothing() {
    let bucket = Memory::new();
    let about = About { mode: Some(0o700), ..About::default() };
    bucket.set_about("to/d/", b"", about, None);
    let markers = DestinationOptions { directory_markers: true, ..DestinationOptions::default() };
    let to = open_as(&bucket, terms(), None, markers).unwrap();
    let implied = |name: &[u8]| {
        let mut entry = entry(1, name, Kind::Directory, 0);
        entry.evidence.inode = Entry::IMPLIED_INODE;
        entry
    };
    assert!(matches!(outcome(&to, &implied(b"d")), Outcome::Unchanged { .. }));
    assert_eq!(bucket.get("to/d/").unwrap().about, about);
    assert!(matches!(outcome(&to, &implied(b"e")), Outcome::Done { .. }));
    assert_eq!(bucket.get("to/e/").unwrap().about, About::default());
}

#[test]
fn directories_without_files_are_told_as_lost_however_many_they_are() {
    let mut childless = Childless::default();
    for number in 0..decide::CHILDLESS_MAX + 3 {
        childless.directory(&RelativePath::new(number.to_string().into_bytes()).unwrap());
    }
    let told = childless.take();
    assert_eq!(told.len(), decide::CHILDLESS_MAX);
    let Outcome::Done { losses, .. } = &told.last().unwrap().outcome else { panic!() };
    assert!(losses.len() == 2 && losses[1].why.contains("as many as 3 more"), "{losses:?}");
}

#[test]
fn a_part_tells_no_directory_as_lost_and_has_a_catalogue_beside_those_of_others() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let open = |part, job: u8| {
        let terms = Terms { part, job_key: [job; 16], ..terms() };
        open_as(&bucket, terms, Some(state.path()), DestinationOptions::default()).unwrap()
    };
    let parts = [open(PartOf::new(1, 2), 1), open(PartOf::new(2, 2), 2)];
    assert!(parts.iter().all(|part| lock(&part.catalogue).is_some()));
    let whole = open(None, 3);
    for to in parts.iter().chain([&whole]) {
        assert!(matches!(outcome(to, &entry(1, b"d", Kind::Directory, 0)), Outcome::Done { .. }));
        let lost = to.conclude(Listing::Whole, &|| true).revised.len();
        assert_eq!(lost, usize::from(to.terms.part.is_none()));
        to.close(true);
    }
}

#[test]
fn what_stands_there_is_left_alone_or_compared_where_that_is_asked_for() {
    let bucket = Memory::new();
    bucket.set("to/a", b"what stands there");
    let entry = file(1, "a", 17);
    let open = |terms| open_as(&bucket, terms, None, Default::default()).unwrap();
    for terms in [Terms { ignore_existing: true, ..terms() }, Terms { update: true, ..terms() }] {
        assert!(matches!(outcome(&open(terms), &entry), Outcome::Skipped(_)));
    }
    let to = open(Terms { check: Check::Digest, ..terms() });
    assert!(matches!(decide(&to, &entry), Decision::Wanted { left: None, candidate: Some(17) }));
    let mut found = [0; 17];
    assert_eq!(to.existing(&entry).unwrap().read_at(&mut found, 0).unwrap(), 17);
    let digest = digest_of(&found);
    assert!(matches!(to.keep(&entry, digest), Decision::Settled { .. }));
    bucket.set("to/a", b"what stands HERE.");
    assert_eq!(to.existing(&entry).err().unwrap().kind, FailureKind::Changed);
    assert!(matches!(to.keep(&entry, digest), Decision::Fresh));
}

#[test]
fn a_single_file_gets_the_name_that_is_given_unless_that_is_a_directory() {
    let bucket: AnyBucket = Memory::new();
    let single = SourceForm::Single { name: b"a".to_vec() };
    let renamed = |key: &str| place(&bucket, key, &single).unwrap();
    assert_eq!(renamed("x/new"), ("x/".to_owned(), Some((b"a".to_vec(), "new".to_owned()))));
    assert_eq!(renamed("x/"), ("x/".to_owned(), None));
    bucket.put("x/new/y", b"", &About::default(), &If::Any).unwrap();
    assert_eq!(renamed("x/new"), ("x/new/".to_owned(), None));
    bucket.put("o", b"", &About::default(), &If::Any).unwrap();
    assert_eq!(place(&bucket, "o", &SourceForm::Many).unwrap_err().kind, FailureKind::Conflict);
}

#[test]
fn chunks_are_as_large_as_the_largest_file_asks_for() {
    assert_eq!(chunk_bytes_for(None, None), 16 << 20);
    assert_eq!(chunk_bytes_for(Some(1 << 20), None), 8 << 20);
    assert_eq!(chunk_bytes_for(Some(8 << 20), Some(200_000_000_000)), 32 << 20);
    assert_eq!(chunk_bytes_for(None, Some(u64::MAX)), 64 << 20);
}
