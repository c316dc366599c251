//! What every [`Source`] and [`SourceFile`] keeps.

use super::{Missing, each};
use crate::endpoint::{Removal, ScanSink, Source, SourceFile};
use crate::failure::{Failure, FailureKind};
use crate::order::Placed;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_wire::digest::is_zero;
use thalweg_wire::message::ScanTotals;
use thalweg_wire::{Entry, EntryId, Kind, RelativePath};

/// A source under test, and what is in it.
pub(super) trait SourceBed {
    /// The source, opened anew.
    fn source(&self) -> Arc<dyn Source>;

    /// Its regular files, second names left out, with their content. At least one has some.
    fn files(&self) -> Vec<(String, Vec<u8>)>;

    /// Does something to [`SUBJECT`], as somebody else would; false if that cannot be done here. Only for [`CHANGES`].
    fn change(&self, act: Act) -> bool;
}

/// What happens to [`SUBJECT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// It gets more bytes at its end.
    Grows,
    /// It is removed.
    Goes,
    /// A directory takes its name.
    BecomesDirectory,
    /// A link to a file outside takes its name.
    BecomesLink,
    /// Its directory gives way to a link that leads out, to where a file of its name has other content of its length.
    IsLedOut,
    /// Its directory cannot be listed any more.
    IsShutIn,
    /// It can.
    IsLetOut,
}

/// A source that somebody else can change has this file, and a directory above it.
pub(super) const SUBJECT: &str = "d/subject";

type Check = fn(&dyn SourceBed);

pub(super) const UNKNOWN_IS_NOT_FOUND: &str = "a name that is not there is not found when it is opened";
pub(super) const UNKNOWN_IS_NOT_SEEN: &str =
    "a name that is not there is not found when it is looked at again";

/// Of every source.
pub(super) const PROMISES: &[(&str, Check)] = &[
    ("parents come before children, each name once", parents_come_first),
    ("entries are sound, and have no number", entries_are_sound),
    ("a second name names the first, by the number that it got", second_names_name_the_first),
    ("every file comes, with its length", every_file_comes),
    ("the totals are what was offered", totals_are_what_was_offered),
    ("a sink that has had enough is handed nothing more", a_sink_that_stops_is_left_alone),
    ("what the sink refused is not counted", what_was_refused_is_not_counted),
    ("a listing that the sink stopped is not complete", a_stopped_listing_is_not_complete),
    ("reads fill the buffer, and are short at the end only", reads_are_short_at_the_end_only),
    ("an open file shows what the scan saw, before and after it is read", evidence_stays),
    ("data and holes are found from any offset", data_and_holes_are_found),
    ("the layout is runs that do not overlap, or is not known", layouts_do_not_overlap),
    ("a small file is read whole, into the front of the buffer", small_files_are_read_whole),
    ("whatever is said of reads, what is read is the same", small_files_that_are_foreseen_are_read_whole),
    ("whatever is said of requests, what is read is the same", files_are_read_the_same_in_any_requests),
    ("a small file that does not show the evidence of its entry is changed", stale_entries_are_changed),
    ("what is looked at again has its path and number, and is what it was", looks_again_are_the_same),
    (UNKNOWN_IS_NOT_FOUND, unknown_names_are_not_found),
    (UNKNOWN_IS_NOT_SEEN, unknown_names_are_not_seen),
];

/// Of those in which somebody else can change something.
pub(super) const CHANGES: &[(&str, Check)] = &[
    ("a file that grew is changed, shows it, and is read as what it is now", a_file_that_grew_is_changed),
    ("a file that went is not found", a_file_that_went_is_not_found),
    ("what is no regular file any more is changed", what_is_no_file_any_more_is_changed),
    ("nothing outside is read, though a link leads there by now", nothing_outside_is_read),
    ("a name goes if it is what it was, and stays if it changed", a_name_goes_if_it_is_what_it_was),
    ("nothing outside goes, though a link leads there by now", nothing_outside_goes),
    ("a listing is not complete if a directory cannot be listed", what_is_shut_in_is_trouble),
];

/// Checks these promises, each with a bed of its own.
pub(super) fn check(
    promises: &[(&'static str, Check)],
    missing: &Missing,
    bed: &dyn Fn() -> Box<dyn SourceBed>,
) {
    each(promises, missing, |check| check(&*bed()));
}

/// Numbers do not begin at 0, so that none is right by chance.
const FIRST_ID: u64 = 40;

#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    troubles: Vec<Failure>,
    entries_max: Option<usize>,
    refused: usize,
}

impl ScanSink for Found {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        if self.entries_max.is_some_and(|most| self.entries.len() >= most) {
            self.refused += 1;
            return None;
        }
        let id = EntryId(FIRST_ID + self.entries.len() as u64);
        self.entries.push(entry);
        Some(id)
    }

    fn trouble(&mut self, _: RelativePath, failure: Failure) {
        self.troubles.push(failure);
    }

    fn skipped(&mut self, _: RelativePath, _: &str) {}
}

impl Found {
    fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::content_bytes).sum()
    }
}

fn scan(source: &dyn Source, entries_max: Option<usize>) -> (Found, ScanTotals) {
    let mut found = Found { entries_max, ..Found::default() };
    let totals = source.scan(&mut found);
    (found, totals)
}

/// Scans that are stopped after none, one, two of the entries, and so on.
fn stopped_scans(bed: &dyn SourceBed) -> Vec<(Found, ScanTotals)> {
    /// Where one of these goes well, the others do.
    const SCANS_MAX: usize = 8;
    let source = bed.source();
    let entries = scan(&*source, None).0.entries.len();
    (0..entries.min(SCANS_MAX)).map(|most| scan(&*source, Some(most))).collect()
}

/// The files as they are offered, with their content.
fn files(bed: &dyn SourceBed, source: &dyn Source) -> Vec<(Entry, Vec<u8>)> {
    let mut contents: BTreeMap<String, Vec<u8>> = bed.files().into_iter().collect();
    let entries = scan(source, None).0.entries;
    let files: Vec<(Entry, Vec<u8>)> = entries
        .into_iter()
        .filter(|entry| matches!(entry.kind, Kind::File { .. }))
        .filter_map(|entry| contents.remove(&name_of(&entry)).map(|content| (entry, content)))
        .collect();
    assert!(files.iter().any(|(_, content)| !content.is_empty()), "there is nothing to read");
    files
}

/// The file that is changed.
fn subject(bed: &dyn SourceBed, source: &dyn Source) -> (Entry, Vec<u8>) {
    let found = files(bed, source).into_iter().find(|(entry, _)| name_of(entry) == SUBJECT);
    found.expect("the bed has a file that can be changed")
}

fn name_of(entry: &Entry) -> String {
    String::from_utf8(entry.path.as_bytes().to_vec()).unwrap()
}

/// All of a file that is open.
fn read_all(file: &dyn SourceFile, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    assert_eq!(file.read_at(&mut content, 0).unwrap(), bytes);
    content
}

/// Why a small file cannot be read.
fn not_read(source: &dyn Source, entry: &Entry) -> FailureKind {
    let mut buffer = vec![0; entry.evidence.size as usize + 100];
    source.read_small(entry, &mut buffer).unwrap_err().kind
}

fn not_opened(source: &dyn Source, entry: &Entry) -> FailureKind {
    source.open(entry).err().expect("it is refused").kind
}

fn parents_come_first(bed: &dyn SourceBed) {
    let (found, _) = scan(&*bed.source(), None);
    let mut seen: BTreeMap<&[u8], bool> = BTreeMap::new();
    for entry in &found.entries {
        match entry.path.split() {
            None => assert!(seen.is_empty(), "the root did not come first"),
            Some((b"", _)) => {}
            Some((parent, _)) => assert_eq!(seen.get(parent), Some(&true), "{}", entry.path),
        }
        let is_directory = matches!(entry.kind, Kind::Directory);
        assert!(seen.insert(entry.path.as_bytes(), is_directory).is_none(), "{} came twice", entry.path);
    }
}

fn entries_are_sound(bed: &dyn SourceBed) {
    for entry in scan(&*bed.source(), None).0.entries {
        entry.check().unwrap();
        assert_eq!(entry.id, EntryId(0), "{}", entry.path);
    }
}

fn second_names_name_the_first(bed: &dyn SourceBed) {
    let (found, _) = scan(&*bed.source(), None);
    for (index, entry) in found.entries.iter().enumerate() {
        if let Kind::HardLink { first, of } = &entry.kind {
            let earlier = (of.0 - FIRST_ID) as usize;
            assert!(earlier < index, "{}", entry.path);
            assert_eq!(found.entries[earlier].path, *first);
        }
    }
}

fn every_file_comes(bed: &dyn SourceBed) {
    let (found, _) = scan(&*bed.source(), None);
    let is_file = |entry: &&Entry| matches!(entry.kind, Kind::File { .. });
    let offered: BTreeMap<String, u64> =
        found.entries.iter().filter(is_file).map(|entry| (name_of(entry), entry.evidence.size)).collect();
    let expected: BTreeMap<String, u64> =
        bed.files().into_iter().map(|(name, content)| (name, content.len() as u64)).collect();
    assert_eq!(offered, expected);
}

fn totals_are_what_was_offered(bed: &dyn SourceBed) {
    let (found, totals) = scan(&*bed.source(), None);
    let offered = ScanTotals {
        entries: found.entries.len() as u64,
        bytes: found.bytes(),
        failed: 0,
        complete: true,
        empty: 0,
    };
    assert_eq!(totals, offered);
    assert!(found.troubles.is_empty(), "{:?}", found.troubles);
}

fn a_sink_that_stops_is_left_alone(bed: &dyn SourceBed) {
    for (found, _) in stopped_scans(bed) {
        assert_eq!(found.refused, 1, "after {} entries", found.entries.len());
    }
}

fn what_was_refused_is_not_counted(bed: &dyn SourceBed) {
    for (found, totals) in stopped_scans(bed) {
        assert_eq!((totals.entries, totals.bytes), (found.entries.len() as u64, found.bytes()));
    }
}

fn a_stopped_listing_is_not_complete(bed: &dyn SourceBed) {
    for (found, totals) in stopped_scans(bed) {
        assert!(!totals.complete, "after {} entries", found.entries.len());
    }
}

fn reads_are_short_at_the_end_only(bed: &dyn SourceBed) {
    let source = bed.source();
    for (entry, content) in files(bed, &*source) {
        let file = source.open(&entry).unwrap();
        let end = content.len();
        let ranges = [
            (0, end),
            (0, end + 100),
            (1, 7),
            (end / 2 + 1, 4099),
            (end.saturating_sub(1), 10),
            (end / 3, 0),
            (end, 10),
            (end + 5, 10),
        ];
        for (offset, length) in ranges {
            let mut buffer = vec![0xee; length];
            // Whether that is said or not.
            if length % 2 == 0 {
                file.prepare(offset as u64, length as u64);
            }
            let read = file.read_at(&mut buffer, offset as u64).unwrap();
            let to = (offset + length).min(end);
            let expected = &content[offset.min(to)..to];
            assert!(buffer[..read] == *expected, "{} at {offset}, {length} bytes", entry.path);
        }
        // From the medium, where that can be had.
        file.forget_cached();
        assert!(read_all(&*file, end) == content, "{}", entry.path);
    }
}

fn evidence_stays(bed: &dyn SourceBed) {
    let source = bed.source();
    for (entry, content) in files(bed, &*source) {
        let file = source.open(&entry).unwrap();
        assert_eq!(file.evidence().unwrap(), entry.evidence, "{}", entry.path);
        read_all(&*file, content.len());
        assert_eq!(file.evidence().unwrap(), entry.evidence, "{}", entry.path);
    }
}

fn data_and_holes_are_found(bed: &dyn SourceBed) {
    let source = bed.source();
    for (entry, content) in files(bed, &*source) {
        let file = source.open(&entry).unwrap();
        let end = content.len() as u64;
        assert_eq!(file.next_data(end).unwrap(), None, "{}", entry.path);
        let offsets = [0, 1, end / 3, end / 2, end.saturating_sub(1)];
        for offset in offsets.into_iter().filter(|&offset| offset < end) {
            let at = format!("{} at {offset}", entry.path);
            let bytes = |from: u64, to: u64| &content[from as usize..to as usize];
            match file.next_data(offset).unwrap() {
                None => assert!(is_zero(bytes(offset, end)), "{at}"),
                Some(data) => {
                    assert!((offset..end).contains(&data) && is_zero(bytes(offset, data)), "{at}: {data}");
                    assert!(file.next_hole(data).unwrap() > data, "{at}: {data}");
                }
            }
            let hole = file.next_hole(offset).unwrap();
            assert!((offset..=end).contains(&hole), "{at}: {hole}");
            assert!(hole > offset || content[offset as usize] == 0, "{at}: {hole}");
        }
    }
}

fn layouts_do_not_overlap(bed: &dyn SourceBed) {
    let source = bed.source();
    for (entry, _) in files(bed, &*source) {
        match source.layout(&entry) {
            Err(failure) => assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}"),
            Ok(mut places) => {
                places.placed.sort_by_key(|run| run.logical);
                assert!(places.placed.iter().all(|run| run.length > 0), "{places:?}");
                let are_apart = |pair: &[Placed]| pair[0].logical + pair[0].length <= pair[1].logical;
                assert!(places.placed.windows(2).all(are_apart), "{places:?}");
            }
        }
    }
}

fn small_files_are_read_whole(bed: &dyn SourceBed) {
    let source = bed.source();
    for (entry, content) in files(bed, &*source) {
        assert_read_whole(&*source, &entry, &content);
    }
}

fn assert_read_whole(source: &dyn Source, entry: &Entry, content: &[u8]) {
    let mut buffer = vec![0xee; content.len() + 9];
    assert_eq!(source.read_small(entry, &mut buffer).unwrap(), content.len(), "{}", entry.path);
    assert!(buffer[..content.len()] == *content, "{}", entry.path);
}

fn small_files_that_are_foreseen_are_read_whole(bed: &dyn SourceBed) {
    let source = bed.source();
    for (before, since) in [(true, true), (true, false), (false, true)] {
        source.expect_reads(before);
        let files = files(bed, &*source);
        source.expect_reads(since);
        for (entry, content) in files {
            // The second time, too, which no source has read ahead.
            (0..2).for_each(|_| assert_read_whole(&*source, &entry, &content));
        }
    }
}

fn files_are_read_the_same_in_any_requests(bed: &dyn SourceBed) {
    let source = bed.source();
    for bytes in [0, 512, 1 << 20, u64::MAX] {
        source.expect_requests(bytes);
        for (entry, content) in files(bed, &*source) {
            let file = source.open(&entry).unwrap();
            assert!(file.has_direct() || file.direct(0, bytes).is_none(), "{}", entry.path);
            assert!(read_all(&*file, content.len()) == content, "{} in requests of {bytes}", entry.path);
        }
    }
}

fn stale_entries_are_changed(bed: &dyn SourceBed) {
    let source = bed.source();
    for (mut entry, _) in files(bed, &*source) {
        entry.evidence.mtime.seconds += 1;
        assert_eq!(not_read(&*source, &entry), FailureKind::Changed, "{}", entry.path);
    }
}

fn looks_again_are_the_same(bed: &dyn SourceBed) {
    let source = bed.source();
    for (mut entry, _) in files(bed, &*source) {
        entry.id = EntryId(7);
        assert_eq!(source.look_again(&entry).unwrap(), entry);
    }
}

/// One of the files under a name that nothing has.
fn unknown(bed: &dyn SourceBed, source: &dyn Source) -> Entry {
    let (entry, _) = files(bed, source).remove(0);
    Entry { path: RelativePath::new(b"no-such-name".to_vec()).unwrap(), ..entry }
}

fn unknown_names_are_not_found(bed: &dyn SourceBed) {
    let source = bed.source();
    let entry = unknown(bed, &*source);
    assert_eq!(not_opened(&*source, &entry), FailureKind::NotFound);
    assert_eq!(not_read(&*source, &entry), FailureKind::NotFound);
}

fn unknown_names_are_not_seen(bed: &dyn SourceBed) {
    let source = bed.source();
    let entry = unknown(bed, &*source);
    assert_eq!(source.look_again(&entry).unwrap_err().kind, FailureKind::NotFound);
}

fn a_file_that_grew_is_changed(bed: &dyn SourceBed) {
    let source = bed.source();
    let (mut entry, content) = subject(bed, &*source);
    entry.id = EntryId(7);
    let file = source.open(&entry).unwrap();
    assert!(bed.change(Act::Grows));
    assert_ne!(file.evidence().unwrap(), entry.evidence);
    assert_eq!(not_read(&*source, &entry), FailureKind::Changed);
    let now = source.look_again(&entry).unwrap();
    assert_eq!((&now.path, now.id), (&entry.path, entry.id));
    assert!(now.evidence.size > entry.evidence.size);
    let mut buffer = vec![0; now.evidence.size as usize];
    assert_eq!(source.read_small(&now, &mut buffer).unwrap(), buffer.len());
    assert!(buffer.starts_with(&content));
}

fn a_file_that_went_is_not_found(bed: &dyn SourceBed) {
    let source = bed.source();
    let (entry, _) = subject(bed, &*source);
    assert!(bed.change(Act::Goes));
    assert_eq!(not_opened(&*source, &entry), FailureKind::NotFound);
    assert_eq!(not_read(&*source, &entry), FailureKind::NotFound);
    assert_eq!(source.look_again(&entry).unwrap_err().kind, FailureKind::NotFound);
}

fn what_is_no_file_any_more_is_changed(bed: &dyn SourceBed) {
    let source = bed.source();
    let (entry, _) = subject(bed, &*source);
    for act in [Act::BecomesDirectory, Act::BecomesLink] {
        assert!(bed.change(act));
        assert_eq!(not_opened(&*source, &entry), FailureKind::Changed, "{act:?}");
        assert_eq!(not_read(&*source, &entry), FailureKind::Changed, "{act:?}");
        let now = source.look_again(&entry).unwrap();
        assert!(!matches!(now.kind, Kind::File { .. }), "{act:?}");
    }
}

fn a_name_goes_if_it_is_what_it_was(bed: &dyn SourceBed) {
    let source = bed.source();
    let (entry, content) = subject(bed, &*source);
    assert!(bed.change(Act::Grows));
    let stays = source.remove(&entry.path, &entry.evidence, true).unwrap_err();
    assert_eq!(stays.kind, FailureKind::Changed, "{stays}");
    let now = source.look_again(&entry).unwrap();
    assert!(now.evidence.size > content.len() as u64);
    let went = source.remove(&now.path, &now.evidence, true).unwrap();
    assert_eq!(went, Removal::Gone { left: None });
    assert_eq!(not_opened(&*source, &now), FailureKind::NotFound);
    let gone = source.remove(&now.path, &now.evidence, true).unwrap_err();
    assert_eq!(gone.kind, FailureKind::NotFound, "{gone}");
}

fn nothing_outside_goes(bed: &dyn SourceBed) {
    let scanned = bed.source();
    let (entry, _) = subject(bed, &*scanned);
    assert!(bed.change(Act::IsLedOut));
    let source = bed.source();
    assert!(source.remove(&entry.path, &entry.evidence, true).is_err());
}

fn nothing_outside_is_read(bed: &dyn SourceBed) {
    // One that has the directory open by now may go on with it, wherever it is.
    let scanned = bed.source();
    let (entry, content) = subject(bed, &*scanned);
    read_all(&*scanned.open(&entry).unwrap(), content.len());
    assert!(bed.change(Act::IsLedOut));
    for source in [scanned, bed.source()] {
        if let Ok(file) = source.open(&entry) {
            assert!(read_all(&*file, content.len()) == content, "it is of another tree");
        }
        let mut buffer = vec![0; content.len()];
        if source.read_small(&entry, &mut buffer).is_ok() {
            assert!(buffer == content, "it is of another tree");
        }
        let (found, _) = scan(&*source, None);
        assert!(found.entries.iter().all(|entry| name_of(entry) != SUBJECT), "the link was followed");
    }
}

fn what_is_shut_in_is_trouble(bed: &dyn SourceBed) {
    if !bed.change(Act::IsShutIn) {
        eprintln!("skipped: nothing can be shut in here: root may list everything");
        return;
    }
    let (found, totals) = scan(&*bed.source(), None);
    // Before anything fails: what is shut in cannot be removed.
    assert!(bed.change(Act::IsLetOut));
    assert!(!totals.complete && totals.failed > 0);
    assert_eq!(totals.failed, found.troubles.len() as u64, "{:?}", found.troubles);
    assert!(!found.entries.is_empty(), "the rest goes on");
}
