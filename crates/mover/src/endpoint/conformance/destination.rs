//! What every [`Destination`] and [`PartialFile`] keeps.

use super::{Missing, each, noise};
use crate::endpoint::together::{TOGETHER_MAX, Together};
use crate::endpoint::{
    Decision, Destination, ELSEWHERE_BYTES_MIN, Listing, PartialFile, Ready, Small, Staged,
};
use crate::failure::FailureKind;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::{Arc, Mutex};
use thalweg_sys::Buffer;
use thalweg_wire::digest::{Rule, chunk_count};
use thalweg_wire::message::{Check as Compare, Disk, Outcome, Preserve, Terms};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, Time};

/// A place under test, as somebody else sees and changes it.
pub(super) trait DestinationBed {
    /// A transfer to there begins; another one may follow it.
    fn open(&self, terms: Terms) -> Arc<dyn Destination>;

    /// What stands under final names, by its path. Only for [`KEPT`], as all that follows.
    fn stands(&self) -> BTreeMap<String, Stands>;

    /// How much is there that is under no final name.
    fn hidden(&self) -> usize;

    /// Puts a file there, or other content into the one that stands there.
    fn put(&self, path: &str, content: &[u8]);

    /// A link that leads out takes the place of what stands there.
    fn lead_out(&self, path: &str);

    /// What is where that link leads to.
    fn outside(&self) -> BTreeMap<String, Stands>;
}

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stands {
    pub(super) what: What,
    /// Permission bits; 0 of a link.
    pub(super) mode: u32,
    /// When it was changed last, in seconds.
    pub(super) mtime: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Directory,
    File(Vec<u8>),
    Link(Vec<u8>),
    Other,
}

type Check = fn(&dyn DestinationBed);

/// Of every destination.
pub(super) const PROMISES: &[(&str, Check)] = &[
    ("a directory needs nothing to be sent, and a file all of its content", what_has_content_is_wanted),
    ("partials have numbers of their own, and take bytes in any order and again", partials_take_any_order),
    ("of small files each has its answer, in their order, whatever their size", small_files_are_answered),
    ("a sync of nothing, and of what was written, is no failure", syncs_succeed),
    ("what is thrown away, or left, is no failure", what_is_left_is_no_failure),
    ("an end with nothing to do has nothing to tell", an_empty_end_is_quiet),
];

/// Of those that keep what they are given.
pub(super) const KEPT: &[(&str, Check)] = &[
    ("directories, links and FIFOs are made at once", what_has_no_content_is_made_at_once),
    ("a file is hidden until it gets its name, and then whole", a_file_is_hidden_until_it_is_named),
    ("a name has the old content until it has the new", a_name_has_the_old_until_it_has_the_new),
    ("every byte is where it was written last, in whatever order", every_byte_is_in_its_place),
    ("what was never written, or is written as zeros, is zeros", holes_are_zeros),
    ("what was written is read back after its sync, from any offset", what_was_written_is_read_back),
    ("small files are whole, and hidden until they get their names", small_files_are_whole),
    ("what is thrown away gets no name and leaves nothing", what_is_thrown_away_leaves_nothing),
    ("what appeared meanwhile is a conflict, and stays", what_appeared_is_a_conflict),
    ("what was changed meanwhile is a conflict, and stays", what_was_changed_is_a_conflict),
    ("a recorded chunk is there for the next attempt, and no other", recorded_chunks_are_resumed),
    (
        "while that is read again it is told, and left if nobody waits for it",
        reading_again_is_told_and_may_end,
    ),
    ("what stands there can be compared, unless it is another by then", what_stands_there_can_be_compared),
    ("what was found the same is kept, unless it is another by then", what_is_the_same_is_kept),
    ("what has another name can be read if that is asked, unless it is another by then", what_is_elsewhere),
    ("what was done is unchanged the next time", what_was_done_is_unchanged),
    ("a root that stood there is not new", a_root_that_stood_there_is_not_new),
    ("a second name is linked to the first; without that the content is wanted", second_names_are_linked),
    ("a directory has its mode and its times behind its content", directories_are_dressed_last),
    ("what the source lacks goes at the end, if that was asked for", what_the_source_lacks_goes),
    ("nothing goes if that was not asked for, or the listing is not complete", nothing_goes_unasked),
    ("no link leads out", no_link_leads_out),
];

/// Checks these promises, each with a bed of its own.
pub(super) fn check(
    promises: &[(&'static str, Check)],
    missing: &Missing,
    bed: &dyn Fn() -> Box<dyn DestinationBed>,
) {
    each(promises, missing, |check| check(&*bed()));
}

const CHUNK: u64 = 64 << 10;
/// Of all files.
const MTIME: i64 = 1_600_000_000;
/// Of directories.
const DIRECTORY_MTIME: i64 = 1_500_000_000;

fn terms() -> Terms {
    Terms { preserve: Preserve::ALL, job_key: [5; 16], ..Terms::of(CHUNK, CHUNK as u32) }
}

fn path(name: &str) -> RelativePath {
    RelativePath::new(name.as_bytes().to_vec()).unwrap()
}

/// An entry of `bytes`; each number is another file at the source.
fn entry(id: u64, name: &str, kind: Kind, bytes: usize) -> Entry {
    let is_directory = matches!(kind, Kind::Directory);
    let time = Time { seconds: if is_directory { DIRECTORY_MTIME } else { MTIME }, nanos: 0 };
    Entry {
        id: EntryId(id),
        path: path(name),
        kind,
        mode: if is_directory { 0o750 } else { 0o640 },
        uid: thalweg_sys::user::effective_uid(),
        gid: thalweg_sys::user::effective_gid(),
        evidence: Evidence { size: bytes as u64, mtime: time, ctime: time, device: 1, inode: 100 + id },
        xattrs: Vec::new(),
    }
}

fn file(id: u64, name: &str, bytes: usize) -> Entry {
    entry(id, name, Kind::File { sparse: false, marked: false }, bytes)
}

fn directory(id: u64, name: &str) -> Entry {
    entry(id, name, Kind::Directory, 0)
}

/// A transfer that has offered its root.
fn begin(bed: &dyn DestinationBed, terms: Terms) -> Arc<dyn Destination> {
    let to = bed.open(terms);
    settle(&*to, &directory(0, ""));
    to
}

fn decide(to: &dyn Destination, entry: &Entry) -> Decision {
    to.decide(entry, &|_, _| true)
}

/// The final word on an entry that needs nothing to be sent.
fn settle(to: &dyn Destination, entry: &Entry) -> Outcome {
    let decision = match entry.kind {
        Kind::HardLink { .. } => to.link(entry),
        _ => decide(to, entry),
    };
    let Decision::Settled { outcome, made } = decision else { panic!("{} is wanted", entry.path) };
    if made {
        to.sync(&[]).unwrap();
    }
    to.settled(entry, &outcome);
    outcome
}

#[track_caller]
fn assert_done(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
}

#[track_caller]
fn assert_fresh(decision: &Decision) {
    assert!(matches!(decision, Decision::Fresh));
}

fn digest_of(content: &[u8]) -> Digest {
    Digest(*blake3::hash(content).as_bytes())
}

/// Writes these chunks of a file, the last one first, makes them durable and notes them. Their digests, by number.
fn write_chunks(
    to: &dyn Destination,
    partial: &Arc<dyn PartialFile>,
    content: &[u8],
    chunks: &[u64],
) -> Vec<(u64, Digest)> {
    let rule = Rule { file_bytes: content.len() as u64, segment_bytes: CHUNK, marked: false };
    let mut recorded = Vec::new();
    for &chunk in chunks.iter().rev() {
        let at = chunk * CHUNK;
        let end = (at + CHUNK).min(content.len() as u64);
        let bytes = &content[at as usize..end as usize];
        partial.write_at(bytes, at).unwrap();
        recorded.push((chunk, rule.segment(at, bytes).unwrap()));
    }
    recorded.reverse();
    to.sync(slice::from_ref(partial)).unwrap();
    to.record(&[(partial.number(), recorded.clone())]).unwrap();
    recorded
}

/// All of a file, without its name.
fn write_all(to: &dyn Destination, entry: &Entry, content: &[u8]) -> Arc<dyn PartialFile> {
    let partial = to.begin(entry).unwrap();
    let chunks: Vec<u64> = (0..chunk_count(content.len() as u64, CHUNK)).collect();
    write_chunks(to, &partial, content, &chunks);
    partial
}

fn stage(to: &dyn Destination, files: &[(&Entry, &[u8])]) -> Vec<Staged> {
    let files: Vec<Small<'_>> = files.iter().map(|&(entry, content)| Small { entry, content }).collect();
    let staged = to.stage(3, &files, &mut Together::new(&Disk::default()));
    assert_eq!(staged.len(), files.len());
    let staged: Vec<Staged> = staged.into_iter().map(Result::unwrap).collect();
    staged.iter().for_each(|staged| to.taken(staged.lane, staged.number));
    staged
}

/// Gives an entry its name, durably.
fn name(to: &dyn Destination, entry: &Entry, ready: Ready, content: &[u8]) {
    let digest = digest_of(content);
    let losses = to.finish(entry, ready, digest).unwrap();
    to.sync(&[]).unwrap();
    to.settled(entry, &Outcome::Done { digest: Some(digest), losses });
}

/// Sends one file, decided already.
fn send(to: &dyn Destination, entry: &Entry, content: &[u8]) {
    let partial = write_all(to, entry, content);
    name(to, entry, Ready::Partial(partial), content);
}

/// Why an entry does not get its name.
fn not_named(to: &dyn Destination, entry: &Entry, ready: Ready, content: &[u8]) -> FailureKind {
    to.finish(entry, ready, digest_of(content)).unwrap_err().kind
}

/// Ends a transfer in which all went well.
fn end_well(to: &dyn Destination) {
    let end = to.conclude(Listing::Whole, &|| true);
    assert!(end.failed.is_none() && end.troubles.is_empty(), "{end:?}");
    assert!(end.revised.is_empty(), "{:?}", end.revised);
    to.close(true);
}

/// Content of what stands there, if it is a file.
fn content(bed: &dyn DestinationBed, name: &str) -> Option<Vec<u8>> {
    match bed.stands().remove(name)?.what {
        What::File(content) => Some(content),
        What::Directory | What::Link(_) | What::Other => None,
    }
}

#[track_caller]
fn assert_content(bed: &dyn DestinationBed, name: &str, expected: &[u8]) {
    let found = content(bed, name);
    assert!(found.as_deref() == Some(expected), "{name}: {:?} bytes", found.map(|found| found.len()));
}

fn what_has_content_is_wanted(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    assert_done(&settle(&*to, &directory(1, "d")));
    assert_fresh(&decide(&*to, &file(2, "d/large", 3 * CHUNK as usize)));
    assert_fresh(&decide(&*to, &file(3, "d/none", 0)));
    to.close(false);
}

fn partials_take_any_order(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let content = noise(3 * CHUNK as usize + 77, 1);
    let entries = [file(1, "a", content.len()), file(2, "b", content.len())];
    entries.iter().for_each(|entry| assert_fresh(&decide(&*to, entry)));
    let partials = entries.each_ref().map(|entry| to.begin(entry).unwrap());
    assert_ne!(partials[0].number(), partials[1].number());
    for partial in &partials {
        partial.write_at(&content[1000..], 1000).unwrap();
        partial.write_at(&content[..5000], 0).unwrap();
    }
    to.sync(&partials).unwrap();
    for (entry, partial) in entries.iter().zip(partials) {
        name(&*to, entry, Ready::Partial(partial), &content);
    }
    end_well(&*to);
}

/// As many small files as are handed over at once, of all sizes, in a directory or at the root.
fn small_files(above: &str) -> Vec<(Entry, Vec<u8>)> {
    let sizes = [0, 1, 4095, 4096, 4097, 20_000, CHUNK as usize];
    let sizes = sizes.into_iter().cycle().take(TOGETHER_MAX);
    let first = if above.is_empty() { 100 } else { 200 };
    let made = |(id, bytes)| (file(id, &format!("{above}small-{id}"), bytes), noise(bytes, id));
    (first..).zip(sizes).map(made).collect()
}

fn by_reference(files: &[(Entry, Vec<u8>)]) -> Vec<(&Entry, &[u8])> {
    files.iter().map(|(entry, content)| (entry, &content[..])).collect()
}

fn small_files_are_answered(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    settle(&*to, &directory(1, "many"));
    for above in ["", "many/"] {
        let files = small_files(above);
        files.iter().for_each(|(entry, _)| assert_fresh(&decide(&*to, entry)));
        let staged = stage(&*to, &by_reference(&files));
        to.sync(&[]).unwrap();
        for ((entry, content), staged) in files.iter().zip(staged) {
            name(&*to, entry, Ready::Staged(staged), content);
        }
    }
    assert!(stage(&*to, &[]).is_empty());
    end_well(&*to);
}

fn syncs_succeed(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    to.sync(&[]).unwrap();
    let (content, entry) = (noise(1000, 1), file(1, "a", 1000));
    assert_fresh(&decide(&*to, &entry));
    let partial = write_all(&*to, &entry, &content);
    to.sync(slice::from_ref(&partial)).unwrap();
    to.sync(&[]).unwrap();
    to.close(false);
}

fn what_is_left_is_no_failure(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let (content, entries) = (noise(1000, 1), [file(1, "a", 1000), file(2, "b", 1000), file(3, "c", 1000)]);
    entries.iter().for_each(|entry| assert_fresh(&decide(&*to, entry)));
    to.discard(Ready::Partial(write_all(&*to, &entries[0], &content)));
    let staged = stage(&*to, &[(&entries[1], &content[..])]);
    staged.into_iter().for_each(|staged| to.discard(Ready::Staged(staged)));
    stage(&*to, &[(&entries[2], &content[..])]);
    to.close(false);
}

fn an_empty_end_is_quiet(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let end = to.conclude(Listing::Whole, &|| true);
    assert_eq!((end.deleted, end.deleted_names.len(), end.revised.len()), (0, 0, 0));
    assert!(end.failed.is_none() && end.troubles.is_empty(), "{end:?}");
    to.close(true);
}

fn what_has_no_content_is_made_at_once(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let target = b"nowhere/at all".to_vec();
    let link = entry(2, "d/link", Kind::Symlink { target: target.clone() }, target.len());
    for entry in [&directory(1, "d"), &link, &entry(3, "d/fifo", Kind::Fifo, 0)] {
        assert_done(&settle(&*to, entry));
    }
    let stands = bed.stands();
    assert_eq!(stands["d"].what, What::Directory);
    assert_eq!(stands["d/link"].what, What::Link(target));
    assert_eq!(stands["d/fifo"].what, What::Other);
    end_well(&*to);
}

fn a_file_is_hidden_until_it_is_named(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let content = noise(3 * CHUNK as usize + 77, 1);
    let entry = file(1, "a", content.len());
    assert_fresh(&decide(&*to, &entry));
    let partial = write_all(&*to, &entry, &content);
    assert_eq!(bed.stands(), BTreeMap::new());
    assert!(bed.hidden() > 0);
    name(&*to, &entry, Ready::Partial(partial), &content);
    assert_content(bed, "a", &content);
    let stands = &bed.stands()["a"];
    assert_eq!((stands.mode, stands.mtime), (entry.mode, MTIME));
    end_well(&*to);
    assert_content(bed, "a", &content);
    assert_eq!(bed.hidden(), 0);
}

fn a_name_has_the_old_until_it_has_the_new(bed: &dyn DestinationBed) {
    bed.put("a", b"old");
    bed.put("b", b"old");
    let to = begin(bed, terms());
    let content = noise(2 * CHUNK as usize, 1);
    let (large, small) = (file(1, "a", content.len()), file(2, "b", 1000));
    assert_fresh(&decide(&*to, &large));
    assert_fresh(&decide(&*to, &small));
    let partial = write_all(&*to, &large, &content);
    let staged = stage(&*to, &[(&small, &content[..1000])]).remove(0);
    to.sync(&[]).unwrap();
    for path in ["a", "b"] {
        assert_content(bed, path, b"old");
    }
    name(&*to, &large, Ready::Partial(partial), &content);
    name(&*to, &small, Ready::Staged(staged), &content[..1000]);
    assert_content(bed, "a", &content);
    assert_content(bed, "b", &content[..1000]);
    end_well(&*to);
}

fn every_byte_is_in_its_place(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let content = noise(3 * CHUNK as usize + 77, 1);
    let entry = file(1, "a", content.len());
    assert_fresh(&decide(&*to, &entry));
    let partial = to.begin(&entry).unwrap();
    // As damaged bytes come, and then the right ones, by streams that overlap.
    partial.write_at(&noise(content.len(), 2), 0).unwrap();
    for (from, to) in [(100_001, content.len()), (1, 77), (70_000, 100_001), (0, 5000), (4096, 70_003)] {
        // Whether that is said or not.
        if from % 2 == 0 {
            partial.prepare(from as u64, (to - from) as u64);
        }
        partial.write_at(&content[from..to], from as u64).unwrap();
    }
    to.sync(slice::from_ref(&partial)).unwrap();
    name(&*to, &entry, Ready::Partial(partial), &content);
    assert_content(bed, "a", &content);
    end_well(&*to);
}

fn holes_are_zeros(bed: &dyn DestinationBed) {
    for (sparse, path) in [(true, "with-holes"), (false, "without")] {
        let to = begin(bed, terms());
        let mut content = vec![0; 4 * CHUNK as usize + 77];
        content[CHUNK as usize + 3..][..1000].copy_from_slice(&noise(1000, 1));
        let entry = entry(1, path, Kind::File { sparse, marked: false }, content.len());
        assert_fresh(&decide(&*to, &entry));
        let partial = to.begin(&entry).unwrap();
        // The third chunk has other bytes first, the first and the last are never written.
        partial.write_at(&noise(CHUNK as usize, 2), 2 * CHUNK).unwrap();
        for chunk in [1, 2] {
            let at = chunk * CHUNK;
            partial.write_at(&content[at as usize..][..CHUNK as usize], at).unwrap();
        }
        to.sync(slice::from_ref(&partial)).unwrap();
        name(&*to, &entry, Ready::Partial(partial), &content);
        assert_content(bed, path, &content);
        end_well(&*to);
    }
    // And small ones.
    let to = begin(bed, terms());
    let mut content = vec![0; 20_000];
    content[9000] = 1;
    let entry = entry(1, "small", Kind::File { sparse: true, marked: false }, content.len());
    assert_fresh(&decide(&*to, &entry));
    let staged = stage(&*to, &[(&entry, &content[..])]).remove(0);
    to.sync(&[]).unwrap();
    name(&*to, &entry, Ready::Staged(staged), &content);
    assert_content(bed, "small", &content);
    end_well(&*to);
}

fn what_was_written_is_read_back(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let content = noise(3 * CHUNK as usize + 77, 1);
    let end = content.len();
    let entry = file(1, "a", end);
    assert_fresh(&decide(&*to, &entry));
    let partial = write_all(&*to, &entry, &content);
    let assert_read_back = || {
        for (offset, length) in [(0, end), (1, 10), (4095, 2), (CHUNK as usize, CHUNK as usize), (end - 7, 7)]
        {
            let mut buffer = vec![0xee; length];
            assert_eq!(partial.read_back(&mut buffer, offset as u64).unwrap(), length);
            assert!(buffer == content[offset..][..length], "{length} bytes at {offset}");
        }
    };
    assert_read_back();
    partial.expect_read_back();
    assert_read_back();
    if let Some((from, alignment)) = partial.to_read_back(CHUNK, end as u64 - CHUNK) {
        let wanted = &content[CHUNK as usize..];
        let mut memory = Buffer::new(wanted.len().next_multiple_of(alignment.offset as usize)).unwrap();
        assert!(from.read_at(&mut memory, CHUNK).unwrap() >= wanted.len());
        assert!(memory[..wanted.len()] == *wanted, "aligned to {alignment:?}");
    }
    partial.refuse_direct_reads();
    assert!(partial.to_read_back(CHUNK, CHUNK).is_none());
    assert_read_back();
    to.close(false);
}

fn small_files_are_whole(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    settle(&*to, &directory(1, "many"));
    for above in ["", "many/"] {
        let files = small_files(above);
        files.iter().for_each(|(entry, _)| assert_fresh(&decide(&*to, entry)));
        let staged = stage(&*to, &by_reference(&files));
        to.sync(&[]).unwrap();
        for ((entry, content), staged) in files.iter().zip(&staged) {
            assert_eq!(content_of(bed, entry), None);
            let read = to.read_staged_back(staged, entry.evidence.size).unwrap();
            assert_eq!(read, digest_of(content), "{}", entry.path);
        }
        for ((entry, content), staged) in files.iter().zip(staged) {
            name(&*to, entry, Ready::Staged(staged), content);
        }
        for (entry, content) in &files {
            assert!(content_of(bed, entry).as_ref() == Some(content), "{}", entry.path);
        }
    }
    end_well(&*to);
    assert_eq!(bed.hidden(), 0);
}

fn content_of(bed: &dyn DestinationBed, entry: &Entry) -> Option<Vec<u8>> {
    content(bed, std::str::from_utf8(entry.path.as_bytes()).unwrap())
}

fn what_is_thrown_away_leaves_nothing(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let (content, entries) = (noise(1000, 1), [file(1, "a", 1000), file(2, "b", 1000)]);
    entries.iter().for_each(|entry| assert_fresh(&decide(&*to, entry)));
    to.discard(Ready::Partial(write_all(&*to, &entries[0], &content)));
    let staged = stage(&*to, &[(&entries[1], &content[..])]);
    staged.into_iter().for_each(|staged| to.discard(Ready::Staged(staged)));
    end_well(&*to);
    assert_eq!((bed.stands(), bed.hidden()), (BTreeMap::new(), 0));
}

/// Two files, the one as a partial and the other staged, and what somebody else does before they get their names.
fn assert_conflict(bed: &dyn DestinationBed, before: impl Fn()) {
    let to = begin(bed, terms());
    let content = noise(2 * CHUNK as usize, 1);
    let (large, small) = (file(1, "a", content.len()), file(2, "b", 1000));
    assert_fresh(&decide(&*to, &large));
    assert_fresh(&decide(&*to, &small));
    let partial = write_all(&*to, &large, &content);
    let staged = stage(&*to, &[(&small, &content[..1000])]).remove(0);
    to.sync(&[]).unwrap();
    before();
    assert_eq!(not_named(&*to, &large, Ready::Partial(partial), &content), FailureKind::Conflict);
    assert_eq!(not_named(&*to, &small, Ready::Staged(staged), &content[..1000]), FailureKind::Conflict);
    for path in ["a", "b"] {
        assert_content(bed, path, b"somebody else's");
    }
    to.close(false);
}

fn what_appeared_is_a_conflict(bed: &dyn DestinationBed) {
    assert_conflict(bed, || ["a", "b"].into_iter().for_each(|path| bed.put(path, b"somebody else's")));
}

fn what_was_changed_is_a_conflict(bed: &dyn DestinationBed) {
    ["a", "b"].into_iter().for_each(|path| bed.put(path, b"old"));
    assert_conflict(bed, || ["a", "b"].into_iter().for_each(|path| bed.put(path, b"somebody else's")));
}

/// An attempt that ends after some of a file's chunks were noted, and another was written only.
fn half_way(bed: &dyn DestinationBed, entry: &Entry, content: &[u8]) -> Vec<(u64, Digest)> {
    let to = begin(bed, terms());
    assert_fresh(&decide(&*to, entry));
    let partial = to.begin(entry).unwrap();
    let recorded = write_chunks(&*to, &partial, content, &[0, 2]);
    partial.write_at(&content[3 * CHUNK as usize..], 3 * CHUNK).unwrap();
    drop(partial);
    to.close(false);
    assert!(bed.hidden() > 0 && bed.stands().is_empty());
    recorded
}

fn recorded_chunks_are_resumed(bed: &dyn DestinationBed) {
    let content = noise(4 * CHUNK as usize + 77, 1);
    let entry = file(1, "a", content.len());
    let recorded = half_way(bed, &entry, &content);
    let to = begin(bed, terms());
    let Decision::Wanted { left: Some(left), candidate: None } = decide(&*to, &entry) else {
        panic!("nothing is left")
    };
    let present: BTreeMap<u64, Digest> = left.present.into_iter().collect();
    assert_eq!(present, recorded.into_iter().collect::<BTreeMap<_, _>>());
    write_chunks(&*to, &left.partial, &content, &[1, 3, 4]);
    name(&*to, &entry, Ready::Partial(left.partial), &content);
    assert_content(bed, "a", &content);
    end_well(&*to);
    assert_eq!(bed.hidden(), 0);
    // What was never noted, and what is of another file.
    for another in [false, true] {
        let (content, entry) = (noise(4 * CHUNK as usize + 77, 2), file(2, "b", 4 * CHUNK as usize + 77));
        let to = begin(bed, terms());
        assert_fresh(&decide(&*to, &entry));
        let partial = to.begin(&entry).unwrap();
        partial.write_at(&content, 0).unwrap();
        if another {
            write_chunks(&*to, &partial, &content, &[0]);
        }
        drop(partial);
        to.close(false);
        let to = begin(bed, terms());
        let mut entry = entry;
        entry.evidence.inode += u64::from(another);
        assert_fresh(&decide(&*to, &entry));
        end_well(&*to);
    }
}

fn reading_again_is_told_and_may_end(bed: &dyn DestinationBed) {
    let content = noise(4 * CHUNK as usize + 77, 1);
    let entry = file(1, "a", content.len());
    let recorded = half_way(bed, &entry, &content);
    let to = begin(bed, terms());
    to.decide(&entry, &|_, _| false);
    to.close(false);
    let (to, told) = (begin(bed, terms()), Mutex::new(Vec::new()));
    let decision = to.decide(&entry, &|done, of| {
        told.lock().unwrap().push((done, of));
        true
    });
    let Decision::Wanted { left: Some(left), .. } = decision else { panic!("nothing is left") };
    assert_eq!(left.present.len(), recorded.len());
    let told = told.into_inner().unwrap();
    assert!(!told.is_empty() && told.iter().all(|(done, of)| done <= of), "{told:?}");
    to.close(false);
}

/// What stands there has the size of its entry, and is to be compared.
fn compared(bed: &dyn DestinationBed) -> (Arc<dyn Destination>, Entry) {
    bed.put("a", b"what stands there");
    let to = begin(bed, Terms { check: Compare::Digest, ..terms() });
    let entry = file(1, "a", 17);
    assert!(matches!(decide(&*to, &entry), Decision::Wanted { left: None, candidate: Some(17) }));
    (to, entry)
}

fn what_stands_there_can_be_compared(bed: &dyn DestinationBed) {
    let (to, entry) = compared(bed);
    let mut found = [0; 17];
    assert_eq!(to.existing(&entry).unwrap().read_at(&mut found, 0).unwrap(), found.len());
    assert_eq!(&found, b"what stands there");
    bed.put("a", b"another");
    assert_eq!(to.existing(&entry).err().expect("it is refused").kind, FailureKind::Changed);
    to.close(false);
}

fn what_is_the_same_is_kept(bed: &dyn DestinationBed) {
    let (to, entry) = compared(bed);
    let digest = digest_of(b"what stands there");
    let Decision::Settled { outcome, made } = to.keep(&entry, digest) else { panic!("it is wanted") };
    assert!(matches!(outcome, Outcome::Done { .. } | Outcome::Unchanged { .. }), "{outcome:?}");
    if made {
        to.sync(&[]).unwrap();
    }
    to.settled(&entry, &outcome);
    let stands = &bed.stands()["a"];
    assert_eq!(stands.what, What::File(b"what stands there".to_vec()));
    assert_eq!((stands.mode, stands.mtime), (entry.mode, MTIME));
    end_well(&*to);
    let (to, entry) = compared(bed);
    bed.put("a", b"another");
    assert_fresh(&to.keep(&entry, digest));
    assert_content(bed, "a", b"another");
    to.close(false);
}

fn what_is_elsewhere(bed: &dyn DestinationBed) {
    let content = noise(ELSEWHERE_BYTES_MIN as usize, 1);
    let (old, new) = (file(1, "old", content.len()), file(2, "new", content.len()));
    let to = begin(bed, terms());
    assert_fresh(&decide(&*to, &old));
    send(&*to, &old, &content);
    end_well(&*to);
    let to = begin(bed, terms());
    assert_fresh(&decide(&*to, &new));
    assert!(to.elsewhere(&new, 0).is_none(), "nobody asked for it");
    to.close(false);
    let to = begin(bed, Terms { finds_renames: true, ..terms() });
    assert!(matches!(decide(&*to, &new), Decision::Elsewhere { left: None }));
    let mut found = vec![0; content.len()];
    let file = to.elsewhere(&new, 0).unwrap().unwrap();
    assert_eq!(file.read_at(&mut found, 0).unwrap(), found.len());
    assert!(found == content && to.elsewhere(&new, 1).is_none());
    bed.put("old", b"another");
    assert!(to.elsewhere(&new, 0).unwrap().is_err());
    to.close(false);
}

fn what_was_done_is_unchanged(bed: &dyn DestinationBed) {
    let content = noise(2 * CHUNK as usize, 1);
    let link = Kind::Symlink { target: b"nowhere".to_vec() };
    let (settled, sent) =
        ([directory(1, "d"), entry(2, "d/link", link, 7)], file(3, "d/large", content.len()));
    let to = begin(bed, terms());
    settled.iter().for_each(|entry| assert_done(&settle(&*to, entry)));
    assert_fresh(&decide(&*to, &sent));
    send(&*to, &sent, &content);
    end_well(&*to);
    let before = bed.stands();
    let to = begin(bed, terms());
    for entry in settled.iter().chain([&sent]) {
        let outcome = settle(&*to, entry);
        assert!(matches!(outcome, Outcome::Unchanged { .. }), "{}: {outcome:?}", entry.path);
    }
    end_well(&*to);
    assert_eq!((bed.stands(), bed.hidden()), (before, 0));
}

fn a_root_that_stood_there_is_not_new(bed: &dyn DestinationBed) {
    end_well(&*begin(bed, terms()));
    bed.put("a", b"old");
    let to = begin(bed, terms());
    assert!(!to.is_new());
    end_well(&*to);
}

fn second_names_are_linked(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let (content, first) = (noise(1000, 1), file(1, "first", 1000));
    assert_fresh(&decide(&*to, &first));
    send(&*to, &first, &content);
    let second = |id: u64, name: &str, of: &str| {
        let kind = Kind::HardLink { first: path(of), of: EntryId(1) };
        Entry { evidence: first.evidence, ..entry(id, name, kind, 1000) }
    };
    assert_done(&settle(&*to, &second(2, "second", "first")));
    assert_content(bed, "second", &content);
    // Of one that came to nothing nobody compared what stands there.
    to.came_to_nothing(&first);
    assert_fresh(&to.link(&second(4, "fourth", "first")));
    // The first is not there: it comes as a file of its own.
    assert_fresh(&to.link(&second(3, "third", "missing")));
    let third = file(3, "third", 1000);
    to.offered_before(&third.path);
    assert_fresh(&decide(&*to, &third));
    send(&*to, &third, &content);
    assert_content(bed, "third", &content);
    end_well(&*to);
}

fn directories_are_dressed_last(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    let (content, entry) = (noise(1000, 1), file(3, "d/e/f", 1000));
    assert_done(&settle(&*to, &Entry { mode: 0o711, ..directory(1, "d") }));
    assert_done(&settle(&*to, &directory(2, "d/e")));
    assert_fresh(&decide(&*to, &entry));
    send(&*to, &entry, &content);
    let steps = Cell::new(0);
    let end = to.conclude(Listing::Whole, &|| {
        steps.set(steps.get() + 1);
        true
    });
    assert!(end.failed.is_none() && end.troubles.is_empty() && end.revised.is_empty(), "{end:?}");
    assert!(steps.get() > 0, "nobody hears that it goes on");
    to.close(true);
    let stands = bed.stands();
    for (path, mode) in [("d", 0o711), ("d/e", 0o750)] {
        let expected = Stands { what: What::Directory, mode, mtime: DIRECTORY_MTIME };
        assert_eq!(stands[path], expected, "{path}");
    }
}

/// Offers a file and a directory, and leaves a name out, where other things stand too.
fn offer_some(bed: &dyn DestinationBed, terms: Terms) -> Arc<dyn Destination> {
    let to = begin(bed, terms);
    assert!(matches!(settle(&*to, &directory(1, "d")), Outcome::Done { .. } | Outcome::Unchanged { .. }));
    let kept = file(2, "kept", 1000);
    assert_fresh(&decide(&*to, &kept));
    send(&*to, &kept, &noise(1000, 1));
    to.skipped(&path("left-out"));
    to
}

fn names(bed: &dyn DestinationBed) -> BTreeSet<String> {
    bed.stands().into_keys().collect()
}

/// What stands there before.
fn put_some(bed: &dyn DestinationBed) {
    let to = begin(bed, terms());
    settle(&*to, &directory(1, "d"));
    settle(&*to, &directory(2, "gone"));
    end_well(&*to);
    for path in ["d/extra", "extra", "gone/inside", "kept", "left-out"] {
        bed.put(path, b"old");
    }
}

fn what_the_source_lacks_goes(bed: &dyn DestinationBed) {
    put_some(bed);
    let to = offer_some(bed, Terms { delete_max: Some(10), ..terms() });
    let steps = Cell::new(0);
    let end = to.conclude(Listing::Whole, &|| {
        steps.set(steps.get() + 1);
        true
    });
    assert!(end.failed.is_none() && end.troubles.is_empty(), "{end:?}");
    assert!(steps.get() > 0, "nobody hears that it goes on");
    to.close(true);
    let gone = ["d/extra", "extra", "gone", "gone/inside"];
    assert_eq!(end.deleted, gone.len() as u64);
    let told: BTreeSet<RelativePath> = end.deleted_names.into_iter().collect();
    assert_eq!(told, gone.into_iter().map(path).collect::<BTreeSet<_>>());
    assert_eq!(names(bed), BTreeSet::from(["d", "kept", "left-out"].map(str::to_owned)));
}

fn nothing_goes_unasked(bed: &dyn DestinationBed) {
    put_some(bed);
    let before = names(bed);
    let (partial, whole) = (Listing::Partial, Listing::Whole);
    for (delete_max, listing) in [(Some(10), partial), (None, whole), (Some(1), whole)] {
        let to = offer_some(bed, Terms { delete_max, check: Compare::Nothing, ..terms() });
        let end = to.conclude(listing, &|| true);
        to.close(true);
        assert_eq!((end.deleted, end.deleted_names.len()), (0, 0), "{delete_max:?}, {listing:?}");
        assert_eq!(names(bed), before, "{delete_max:?}, {listing:?}");
        // Whoever asked for it hears why.
        assert_eq!(end.troubles.is_empty(), delete_max.is_none(), "{:?}", end.troubles);
    }
}

fn no_link_leads_out(bed: &dyn DestinationBed) {
    let before = bed.outside();
    let (content, inside) = (noise(1000, 1), [file(2, "d/large", 1000), file(3, "d/small", 1000)]);
    // A link may be there before the directory is offered, or take its place when it is decided.
    for is_decided in [false, true] {
        let to = begin(bed, Terms { delete_max: Some(100), ..terms() });
        if is_decided {
            decide(&*to, &directory(1, "d"));
        }
        bed.lead_out("d");
        if !is_decided {
            decide(&*to, &directory(1, "d"));
        }
        // All of it may fail.
        inside.iter().for_each(|entry| drop(decide(&*to, entry)));
        if let Ok(partial) = to.begin(&inside[0]) {
            partial.write_at(&content, 0).unwrap();
            to.sync(slice::from_ref(&partial)).unwrap();
            let _ = to.finish(&inside[0], Ready::Partial(partial), digest_of(&content));
        }
        let small = [Small { entry: &inside[1], content: &content }];
        for staged in to.stage(3, &small, &mut Together::new(&Disk::default())).into_iter().flatten() {
            to.taken(staged.lane, staged.number);
            to.sync(&[]).unwrap();
            let _ = to.finish(&inside[1], Ready::Staged(staged), digest_of(&content));
        }
        to.conclude(Listing::Whole, &|| true);
        to.close(false);
        assert_eq!(bed.outside(), before, "decided before: {is_decided}");
    }
}
