use super::ahead::AHEAD_BYTES_MAX;
use super::*;
use crate::bucket::memory::Memory;
use std::time::{Duration, Instant};
use thalweg_mover::failure;

#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    troubles: Vec<(String, Failure)>,
    skipped: Vec<String>,
    most: Option<usize>,
}

impl ScanSink for Found {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        if self.most.is_some_and(|most| self.entries.len() >= most) {
            return None;
        }
        entry.check().unwrap();
        self.entries.push(entry);
        Some(EntryId(self.entries.len() as u64))
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.troubles.push((path.to_string(), failure));
    }

    fn skipped(&mut self, path: RelativePath, _: &str) {
        self.skipped.push(path.to_string());
    }
}

fn at(key: &str) -> Location {
    Location { bucket: "memory".to_owned(), key: key.to_owned() }
}

fn open(bucket: &Arc<Memory>, key: &str) -> (ObjectSource, SourceForm) {
    ObjectSource::of(bucket.clone(), &at(key), SourceOptions::default()).unwrap()
}

fn scan(source: &ObjectSource) -> (Found, ScanTotals) {
    let mut found = Found::default();
    let mut totals = source.scan(&mut found);
    // Of what is in a prefix that itself comes first.
    if found.entries.first().is_some_and(|entry| entry.path.is_root()) {
        assert!(source.top.is_empty());
        found.entries.remove(0);
        totals.entries -= 1;
    }
    (found, totals)
}

fn names(found: &Found) -> Vec<String> {
    found.entries.iter().map(|entry| entry.path.to_string()).collect()
}

fn with(keys: &[&str]) -> Arc<Memory> {
    let bucket = Memory::new();
    keys.iter().for_each(|key| bucket.set(key, key.as_bytes()));
    bucket
}

#[test]
fn a_key_is_a_file_a_directory_or_what_is_in_one_as_a_path_is() {
    let bucket = with(&["run/a", "run/d/b", "runs"]);
    let (source, form) = open(&bucket, "run/a");
    assert!(matches!(form, SourceForm::Single { name } if name == b"a"));
    assert_eq!(names(&scan(&source).0), ["a"]);
    for (key, expected) in [
        ("run", &["run", "run/a", "run/d", "run/d/b"][..]),
        ("run/", &["a", "d", "d/b"][..]),
        ("", &["run", "run/a", "run/d", "run/d/b", "runs"][..]),
    ] {
        let (source, form) = open(&bucket, key);
        assert!(matches!(form, SourceForm::Many), "{key}");
        let (found, totals) = scan(&source);
        assert_eq!(names(&found), expected, "{key}");
        assert!(totals.complete && totals.entries == expected.len() as u64, "{totals:?}");
        for entry in found.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })) {
            let mut buffer = vec![0; entry.evidence.size as usize];
            source.read_small(entry, &mut buffer).unwrap();
            assert!(String::from_utf8(buffer).unwrap().ends_with(&entry.path.to_string()));
        }
    }
    let missing = ObjectSource::of(bucket, &at("ru"), SourceOptions::default()).err().unwrap();
    assert_eq!(missing.kind, FailureKind::NotFound);
    assert!(missing.cause.contains("`ru`") && missing.cause.contains("`ru/`"), "{missing}");
}

#[test]
fn keys_that_are_no_paths_are_told_each_and_the_rest_comes() {
    let long = "x".repeat(256);
    let keys = ["a//b", "d/../e", "./f", "/g", "nul\0", "d/full/", &long, "good", "d/good"];
    let bucket = with(&keys);
    bucket.set("d/empty/", b"");
    bucket.page_keys.store(2, std::sync::atomic::Ordering::Relaxed);
    let (found, totals) = scan(&open(&bucket, "").0);
    assert_eq!(names(&found), ["d", "d/empty", "d/good", "good"]);
    assert_eq!((totals.failed, totals.complete), (7, false));
    let told: Vec<String> = found.troubles.iter().map(|(_, failure)| failure.cause.clone()).collect();
    for said in [
        "`a//b` has two slashes in a row",
        "`d/../e` has `.` or `..`",
        "`nul\\x00` has a zero byte",
        "`d/full/` ends with a slash, and has content",
        "xxx` has a component of more than 255 bytes",
    ] {
        assert!(told.iter().any(|told| told.contains(said)), "{said}: {told:?}");
    }
}

#[test]
fn an_object_that_has_the_name_of_a_directory_is_told_and_what_is_in_that_comes() {
    let (found, totals) = scan(&open(&with(&["a", "a-b", "a/c", "b"]), "").0);
    let mut offered = names(&found);
    offered.sort_unstable();
    assert_eq!(offered, ["a", "a-b", "a/c", "b"]);
    let is_directory = |entry: &Entry| matches!(entry.kind, Kind::Directory);
    assert!(found.entries.iter().all(|entry| is_directory(entry) == (entry.path.as_bytes() == b"a")));
    assert_eq!((totals.failed, found.troubles[0].0.as_str()), (1, "a"));
}

#[test]
fn a_store_that_lists_out_of_order_has_each_directory_offered_once() {
    let bucket = with(&["a/b/c", "a/x", "d/a", "e"]);
    bucket.lists_backwards.store(true, std::sync::atomic::Ordering::Relaxed);
    bucket.set("a/z/1", b"");
    let (found, _) = scan(&open(&bucket, "").0);
    let mut offered = names(&found);
    let count = offered.len();
    offered.sort_unstable();
    offered.dedup();
    assert_eq!(offered.len(), count, "{offered:?}");
    for (at, entry) in found.entries.iter().enumerate() {
        let above = entry.path.split().unwrap().0;
        let is_before = || found.entries[..at].iter().any(|entry| entry.path.as_bytes() == above);
        assert!(above.is_empty() || is_before(), "{}", entry.path);
    }
}

#[test]
fn what_is_kept_beside_an_object_is_what_the_file_has_unless_the_stores_time_is_asked_for() {
    let bucket = Memory::new();
    let time = Time { seconds: 1_600_000_000, nanos: 7 };
    let about = About { mtime: Some(time), mode: Some(0o750), uid: Some(3), gid: Some(4), blake3: None };
    bucket.set_about("a", b"x", about, None);
    let entry = scan(&open(&bucket, "").0).0.entries.remove(0);
    assert_eq!((entry.evidence.mtime, entry.mode, entry.uid, entry.gid), (time, 0o750, 3, 4));
    let options = SourceOptions { server_times: true, ..SourceOptions::default() };
    let (source, _) = ObjectSource::of(bucket.clone(), &at(""), options).unwrap();
    let looks = bucket.count("head");
    let entry = scan(&source).0.entries.remove(0);
    assert_eq!(entry.evidence.mtime, bucket.get("a").unwrap().seen.modified);
    assert_eq!((entry.mode, bucket.count("head")), (0o644, looks));
}

/// Looks, looks that read at once, and reads.
fn requests(bucket: &Memory) -> (u64, u64, u64) {
    (bucket.count("head"), bucket.count("fetch"), bucket.count("read"))
}

fn files(found: &Found) -> impl Iterator<Item = &Entry> {
    found.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. }))
}

#[test]
fn an_object_of_one_chunk_costs_a_look_and_a_read_whichever_way_it_is_read() {
    let bucket = with(&["a"]);
    let (source, _) = open(&bucket, "");
    let entry = scan(&source).0.entries.remove(0);
    source.read_small(&entry, &mut [0; 1]).unwrap();
    assert_eq!(requests(&bucket), (1, 0, 1));
    let file = source.open(&entry).unwrap();
    file.read_at(&mut [0; 1], 0).unwrap();
    assert_eq!((file.evidence().unwrap(), requests(&bucket)), (entry.evidence, (1, 0, 2)));
}

#[test]
fn where_reads_are_likely_a_small_object_costs_one_request() {
    let bucket = with(&["a", "d/b", "d/c"]);
    bucket.set("d/", b"");
    bucket.set("empty", b"");
    bucket.set("large", &vec![7; AHEAD_BYTES_MAX as usize + 1]);
    let time = Time { seconds: 7, nanos: 5 };
    let about = About { mtime: Some(time), mode: Some(0o600), ..About::default() };
    bucket.set_about("z", b"z", about, None);
    let (source, _) = open(&bucket, "");
    source.expect_reads(true);
    let (found, _) = scan(&source);
    assert_eq!(requests(&bucket), (1, 5, 0), "the marker is looked at");
    assert_eq!(bucket.count("begin reading"), 1, "the large one is on its way");
    for entry in files(&found) {
        let mut buffer = vec![0; entry.evidence.size as usize];
        assert_eq!(source.read_small(entry, &mut buffer).unwrap(), buffer.len());
        assert!(buffer == bucket.get(&entry.path.to_string()).unwrap().content, "{}", entry.path);
    }
    assert_eq!(requests(&bucket), (1, 5, 0));
    let last = found.entries.last().unwrap();
    assert_eq!((last.evidence.mtime, last.mode), (time, 0o600));
    // Who reads it twice gets it from the store.
    source.read_small(last, &mut [0; 1]).unwrap();
    assert_eq!(requests(&bucket), (1, 5, 1));
}

#[test]
fn the_first_objects_that_one_request_brings_are_on_their_way_once_they_are_looked_at() {
    const CHUNK: u64 = 2 * AHEAD_BYTES_MAX;
    let (bucket, content) = (Memory::new(), vec![7_u8; AHEAD_BYTES_MAX as usize + 1]);
    (0..2 * READS_AT_ONCE).for_each(|number| bucket.set(&format!("{number:02}"), &content));
    // It takes several.
    bucket.set("00", &vec![7; CHUNK as usize + 1]);
    let options = SourceOptions { chunk_bytes: Some(CHUNK), ..SourceOptions::default() };
    let (source, _) = ObjectSource::of(bucket.clone(), &at(""), options.clone()).unwrap();
    source.expect_reads(true);
    let (found, totals) = scan(&source);
    assert!(totals.complete && files(&found).count() == 2 * usize::from(READS_AT_ONCE), "{totals:?}");
    let begun = u64::from(READS_AT_ONCE) - 1;
    assert_eq!(bucket.count("begin reading"), begun);
    assert_eq!(requests(&bucket), (u64::from(2 * READS_AT_ONCE) - begun, 0, 0));
    let mut buffer = vec![0; content.len()];
    for entry in files(&found).skip(1) {
        let file = source.open(entry).unwrap();
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), buffer.len());
        assert_eq!(file.evidence().unwrap(), entry.evidence);
        assert!(buffer == content);
    }
    assert_eq!(bucket.count("read"), u64::from(2 * READS_AT_ONCE) - 1 - begun);
    // Where nobody will read what was begun it is given up, and an object that cannot be read is offered all the same.
    scan(&source);
    assert_eq!(lock(&bucket.begun).len() as u64, begun);
    source.expect_reads(false);
    assert!(lock(&bucket.begun).is_empty());
    source.expect_reads(true);
    *lock(&bucket.refuses) = Some(FailureKind::Permission);
    let (found, totals) = scan(&source);
    assert!(totals.complete && files(&found).count() == 2 * usize::from(READS_AT_ONCE), "{totals:?}");
    *lock(&bucket.refuses) = None;
    // Of several places those behind the first wait for their turn.
    let bucket = Memory::new();
    ["a/1", "a/2", "b/1", "c/1"].iter().for_each(|key| bucket.set(key, &content));
    let places = ["a", "b", "c"].map(|key| open(&bucket, key).0);
    let source = ObjectSources::of(places.map(Ok)).unwrap();
    source.expect_reads(true);
    source.scan(&mut Found::default());
    assert_eq!((bucket.count("begin reading"), bucket.count("head")), (2, 3 + 2));
    assert_eq!(lock(&bucket.begun).len(), 2);
    drop(source);
    assert!(lock(&bucket.begun).is_empty(), "nobody reads them any more");
}

/// A store that answers so few at once that all are busy with what nobody takes yet.
#[test]
fn what_is_on_the_way_gives_way_where_a_look_waits_for_it() {
    let (bucket, content) = (Memory::new(), vec![7_u8; AHEAD_BYTES_MAX as usize + 1]);
    ["a", "b", "c"].iter().for_each(|key| bucket.set(key, &content));
    bucket.answers_beside_begun.store(1, std::sync::atomic::Ordering::Relaxed);
    let (mut source, _) = open(&bucket, "");
    source.look_waits = Duration::from_millis(100);
    source.expect_reads(true);
    let (found, totals) = scan(&source);
    assert!(totals.complete && files(&found).count() == 3, "{totals:?}");
    assert!(!source.begins_ahead.load(std::sync::atomic::Ordering::Relaxed));
    assert!(lock(&bucket.begun).is_empty(), "what came behind that gives way, too");
}

#[test]
fn chunks_are_as_large_as_leaves_each_stream_some() {
    const MIB: u64 = 1 << 20;
    for (bytes, chunk) in [
        (None, 16 * MIB),
        (Some(0), 4 * MIB),
        (Some(512 * MIB), 4 * MIB),
        (Some(1023 * MIB), 4 * MIB),
        (Some(1024 * MIB), 8 * MIB),
        (Some(2047 * MIB), 8 * MIB),
        (Some(2048 * MIB), 16 * MIB),
        (Some(u64::MAX), 16 * MIB),
    ] {
        assert_eq!(chunk_bytes_for(bytes), chunk, "{bytes:?}");
    }
    let bucket = with(&["run/a", "run/b"]);
    assert_eq!(open(&bucket, "run/a").0.chunk_bytes(), 4 * MIB);
    assert_eq!(open(&bucket, "run/").0.chunk_bytes(), 4 * MIB);
    // Of a bucket as a whole nothing is seen yet, nor of what is behind a first page.
    assert_eq!(open(&bucket, "").0.chunk_bytes(), 16 * MIB);
    bucket.page_keys.store(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(open(&bucket, "run/").0.chunk_bytes(), 16 * MIB);
    let options = SourceOptions { chunk_bytes: Some(MIB), ..SourceOptions::default() };
    assert_eq!(ObjectSource::of(bucket, &at("run/a"), options).unwrap().0.chunk_bytes(), MIB);
}

#[test]
fn what_opening_a_place_showed_is_not_asked_for_again_by_the_scan_that_follows() {
    let bucket = with(&["run/a", "run/b"]);
    bucket.page_keys.store(1, std::sync::atomic::Ordering::Relaxed);
    let (source, _) = open(&bucket, "run/");
    assert_eq!(bucket.count("list"), 1);
    assert_eq!(names(&scan(&source).0), ["a", "b"]);
    assert_eq!(bucket.count("list"), 2);
    // A second scan sees what came since.
    bucket.set("run/0", b"0");
    assert_eq!(names(&scan(&source).0), ["0", "a", "b"]);
    assert_eq!(bucket.count("list"), 5);
    let heads = bucket.count("head");
    let (source, _) = open(&bucket, "run/a");
    assert_eq!(names(&scan(&source).0), ["a"]);
    assert_eq!(bucket.count("head"), heads + 1);
    // So does one that comes late.
    let (source, _) = open(&bucket, "run/");
    bucket.set("run/c", b"c");
    let late = Instant::now().checked_sub(FIRST_LASTS).expect("a clock that runs for longer");
    lock(&source.first).as_mut().unwrap().1 = late;
    assert_eq!(names(&scan(&source).0), ["0", "a", "b", "c"]);
}

#[test]
fn where_reads_are_not_likely_content_is_neither_asked_for_nor_kept() {
    let bucket = with(&["a", "b"]);
    let (source, _) = open(&bucket, "");
    source.expect_reads(true);
    let entry = scan(&source).0.entries.remove(0);
    source.expect_reads(false);
    source.read_small(&entry, &mut [0; 1]).unwrap();
    assert_eq!(requests(&bucket), (0, 2, 1));
    // As a second attempt does, which finds all of it there.
    scan(&source);
    assert_eq!(requests(&bucket), (2, 2, 1));
}

#[test]
fn content_that_finds_no_room_is_read_when_it_is_asked_for() {
    const OBJECTS: u64 = 520;
    let (bucket, content) = (Memory::new(), vec![7_u8; AHEAD_BYTES_MAX as usize]);
    (0..OBJECTS).for_each(|number| bucket.set(&number.to_string(), &content));
    let (source, _) = open(&bucket, "");
    source.expect_reads(true);
    let (found, _) = scan(&source);
    let (looks, fetches, _) = requests(&bucket);
    assert!(looks > 0 && fetches > 500 && looks + fetches == OBJECTS, "{looks} and {fetches}");
    let mut buffer = vec![0; content.len()];
    for entry in files(&found) {
        assert_eq!(source.read_small(entry, &mut buffer).unwrap(), buffer.len());
        assert!(buffer == content);
    }
    assert_eq!(requests(&bucket), (looks, fetches, looks));
}

/// Head and content of an answer are of one version, which is the one that is offered.
#[test]
fn an_object_that_was_overwritten_since_it_was_listed_comes_as_what_it_is() {
    // Another of the same length, and a longer one.
    let keys = ["as long as this", "short"];
    let bucket = with(&keys);
    let (source, _) = open(&bucket, "");
    source.expect_reads(true);
    *lock(&bucket.overwritten) = keys.map(str::to_owned).to_vec();
    let (found, totals) = scan(&source);
    assert!(totals.complete && totals.entries == 2, "{totals:?}");
    let mut buffer = [0; 15];
    for entry in files(&found) {
        assert_eq!(source.read_small(entry, &mut buffer).unwrap(), 15);
        assert_eq!(&buffer, b"somebody else's");
    }
    assert_eq!(requests(&bucket), (0, 2, 1));
    // One that is overwritten once it was offered is copied as it was, and stays.
    lock(&bucket.overwritten).clear();
    let entry = scan(&source).0.entries.remove(0);
    bucket.set(keys[0], b"And as this one.");
    assert_eq!(source.read_small(&entry, &mut buffer).unwrap(), 15);
    assert_eq!(&buffer, b"somebody else's");
    let failure = source.remove(&entry.path, &entry.evidence, false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed);
}

#[test]
fn an_object_whose_content_is_refused_is_offered_and_who_reads_it_is_told() {
    let bucket = with(&["a"]);
    let (source, _) = open(&bucket, "");
    source.expect_reads(true);
    *lock(&bucket.refuses) = Some(FailureKind::Permission);
    let (found, totals) = scan(&source);
    assert_eq!((names(&found), totals.complete), (vec!["a".to_owned()], true));
    assert_eq!(requests(&bucket), (1, 1, 0));
}

#[test]
fn an_object_that_was_overwritten_is_changed_wherever_that_shows() {
    let bucket = with(&["aa", "b"]);
    // It takes two requests.
    let options = SourceOptions { chunk_bytes: Some(1), ..SourceOptions::default() };
    let (source, _) = ObjectSource::of(bucket.clone(), &at(""), options).unwrap();
    let (found, _) = scan(&source);
    let entry = &found.entries[0];
    let file = source.open(entry).unwrap();
    assert_eq!(file.evidence().unwrap(), entry.evidence);
    bucket.set("aa", b"AA");
    // What was begun goes on in no other version, and the look behind it says so.
    let error = file.read_at(&mut [0; 1], 0).unwrap_err();
    assert_eq!(failure::of_io("read", &error).kind, FailureKind::Changed);
    assert_ne!(file.evidence().unwrap(), entry.evidence);
    assert_eq!(source.read_small(entry, &mut [0; 9]).unwrap_err().kind, FailureKind::Changed);
    let error = source.open(entry).unwrap().read_at(&mut [0; 1], 0).unwrap_err();
    assert_eq!(failure::of_io("read", &error).kind, FailureKind::Changed);
    let now = source.look_again(entry).unwrap();
    assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
    let mut buffer = [0; 2];
    assert_eq!((source.read_small(&now, &mut buffer).unwrap(), &buffer), (2, b"AA"));
    bucket.forget("aa");
    assert_eq!(source.look_again(entry).unwrap_err().kind, FailureKind::NotFound);
    assert_eq!(source.read_small(&now, &mut buffer).unwrap_err().kind, FailureKind::NotFound);
}

#[test]
fn an_object_is_removed_as_the_version_that_was_copied_and_one_that_was_named_at_the_end() {
    let bucket = with(&["run/a", "run/b", "run/c", "run/d", "run/e", "one"]);
    let (source, _) = open(&bucket, "run/");
    let entries = scan(&source).0.entries;
    let remove = |at: usize| source.remove(&entries[at].path, &entries[at].evidence, false);
    assert_eq!(remove(0).unwrap(), Removal::Gone { left: None });
    // Overwritten since, by other content, by the same, and just before the removal.
    bucket.set("run/b", b"other");
    bucket.set("run/c", b"run/c");
    *lock(&bucket.overwritten) = vec!["run/d".to_owned()];
    for at in 1..4 {
        assert_eq!(remove(at).unwrap_err().kind, FailureKind::Changed, "{at}");
    }
    assert_eq!(remove(0).unwrap_err().kind, FailureKind::NotFound);
    // What somebody else removed just before went, and not by us.
    *lock(&bucket.taken) = vec!["run/e".to_owned()];
    assert_eq!(remove(4).unwrap_err().kind, FailureKind::NotFound);
    assert_eq!(bucket.keys(), ["one", "run/b", "run/c", "run/d"]);
    // Another attempt looks for what was named.
    let (source, _) = open(&bucket, "one");
    let entry = scan(&source).0.entries.remove(0);
    assert_eq!(source.remove(&entry.path, &entry.evidence, false).unwrap(), Removal::Later);
    assert_eq!(source.remove(&entry.path, &entry.evidence, true).unwrap(), Removal::Gone { left: None });
}

#[test]
fn a_store_that_is_away_is_not_asked_to_remove_each_object() {
    let bucket = with(&["run/a"]);
    let (source, _) = open(&bucket, "run/");
    let entry = scan(&source).0.entries.remove(0);
    let heads = bucket.count("head");
    bucket.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
    let failure = source.remove(&entry.path, &entry.evidence, true).unwrap_err();
    assert_eq!((failure.kind, failure.path.as_ref()), (FailureKind::Connection, Some(&entry.path)));
    assert_eq!(bucket.count("head"), heads);
}

#[test]
fn several_places_are_one_source_each_under_its_own_name() {
    let (bucket, more) = (with(&["x/a", "y", "z/a"]), with(&["deep/w/b"]));
    let several = |places: &[(&Arc<Memory>, &str)]| {
        ObjectSources::of(places.iter().map(|(bucket, key)| Ok(open(bucket, key).0)))
    };
    let source = several(&[(&bucket, "x"), (&more, "deep/w"), (&bucket, "y")]).unwrap();
    let mut found = Found::default();
    let totals = source.scan(&mut found);
    assert_eq!(names(&found), ["x", "x/a", "w", "w/b", "y"]);
    assert!(totals.complete && totals.entries == 5, "{totals:?}");
    for (at, content) in [(1, &b"x/a"[..]), (3, b"deep/w/b"), (4, b"y")] {
        let (entry, mut buffer) = (&found.entries[at], vec![0; content.len()]);
        assert_eq!(source.read_small(entry, &mut buffer).unwrap(), content.len());
        assert_eq!((&*buffer, source.look_again(entry).unwrap().evidence), (content, entry.evidence));
        assert!(source.open(entry).is_ok());
    }
    let entry = &found.entries[3];
    assert!(matches!(source.remove(&entry.path, &entry.evidence, true), Ok(Removal::Gone { .. })));
    assert!(more.keys().is_empty() && bucket.keys().len() == 3);
    let stranger = Entry { path: RelativePath::new(b"z/a".to_vec()).unwrap(), ..entry.clone() };
    assert_eq!(source.open(&stranger).err().unwrap().kind, FailureKind::NotFound);
    // Who has had enough hears of no more.
    let mut found = Found { most: Some(1), ..Found::default() };
    assert!(!source.scan(&mut found).complete && found.entries.len() == 1);
    bucket.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(source.lost().is_some());
    bucket.is_away.store(false, std::sync::atomic::Ordering::Relaxed);
    // What has no name of its own could not be told from the rest.
    for places in [[(&bucket, "x/"), (&bucket, "y")], [(&bucket, "x/a"), (&bucket, "z/a")]] {
        assert_eq!(several(&places).err().unwrap().kind, FailureKind::Usage);
    }
}

/// Whether the source was lost when each entry came, and when the trouble did.
struct Asks<'a>(&'a ObjectSources, Vec<(String, bool)>);

impl ScanSink for Asks<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        self.1.push((entry.path.to_string(), self.0.lost().is_some()));
        Some(EntryId(self.1.len() as u64))
    }

    fn trouble(&mut self, _: RelativePath, failure: Failure) {
        self.1.push((format!("{:?}", failure.kind), self.0.lost().is_some()));
    }

    fn skipped(&mut self, _: RelativePath, _: &str) {}
}

#[test]
fn a_place_that_is_away_ends_the_copy_only_when_its_turn_comes() {
    let (bucket, away) = (with(&["x/a"]), with(&["y/b"]));
    let places = [open(&bucket, "x").0, open(&away, "y").0];
    away.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
    let source = ObjectSources::of(places.map(Ok)).unwrap();
    assert!(source.lost().is_none());
    let mut sink = Asks(&source, Vec::new());
    assert!(!source.scan(&mut sink).complete);
    let lost = |at: usize| (&*sink.1[at].0, sink.1[at].1);
    assert_eq!([lost(0), lost(1)], [("x", false), ("x/a", false)]);
    assert!(sink.1[2..].iter().all(|(_, is_lost)| *is_lost) && source.lost().is_some());
}

/// Time in which lists beyond the bound would be asked for.
const NO_MORE: Duration = Duration::from_millis(200);

/// Hears of the first entry only once so many lists were asked for, and no more are.
struct Waits<'a>(&'a Memory, u64, Found);

impl ScanSink for Waits<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        if self.2.entries.is_empty() {
            let until = Instant::now() + Duration::from_secs(120);
            while self.0.count("list") < self.1 {
                assert!(Instant::now() < until, "nobody lists the others meanwhile");
                thread::sleep(Duration::from_millis(1));
            }
            let until = Instant::now() + NO_MORE;
            while Instant::now() < until {
                assert_eq!(self.0.count("list"), self.1, "more are listed at once than are bounded");
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.2.entry(entry)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.2.trouble(path, failure);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        self.2.skipped(path, reason);
    }
}

#[test]
fn of_several_places_some_are_listed_ahead_and_their_entries_keep_the_order() {
    // Opening each brings its first page, and the other is listed ahead.
    let bucket = with(&["a/x", "a/y", "b/x", "b/y", "c/x", "c/y", "d/x", "d/y", "e/x", "e/y"]);
    bucket.page_keys.store(1, std::sync::atomic::Ordering::Relaxed);
    let places = ["a", "b", "c", "d", "e"].map(|key| open(&bucket, key).0);
    let source = ObjectSources::of(places.map(Ok)).unwrap();
    let lists = bucket.count("list") + several::SOURCES_AHEAD as u64 + 1;
    let mut sink = Waits(&bucket, lists, Found::default());
    let totals = source.scan(&mut sink);
    assert!(totals.complete && totals.entries == 15, "{totals:?}");
    let of = |top: &str| [top.to_owned(), format!("{top}/x"), format!("{top}/y")];
    assert_eq!(names(&sink.2), ["a", "b", "c", "d", "e"].map(of).concat());
}

#[test]
fn an_archived_object_is_told_with_what_helps() {
    let bucket = with(&["b"]);
    bucket.set_about("a", b"x", About::default(), Some("GLACIER"));
    let (found, totals) = scan(&open(&bucket, "").0);
    assert_eq!((names(&found), totals.failed), (vec!["b".to_owned()], 1));
    assert!(found.troubles[0].1.cause.contains("restore"), "{:?}", found.troubles);
}

#[test]
fn a_sink_that_has_had_enough_ends_the_listing() {
    let bucket = with(&["a", "b", "c/d"]);
    bucket.page_keys.store(1, std::sync::atomic::Ordering::Relaxed);
    let mut found = Found { most: Some(1), ..Found::default() };
    let totals = open(&bucket, "").0.scan(&mut found);
    assert_eq!((totals.entries, totals.complete), (1, false));
}

#[test]
fn what_is_in_a_prefix_comes_with_its_root_so_that_a_receiver_deletes_there_too() {
    for (bucket, key) in [(with(&["run/a", "run/d/b"]), "run/"), (with(&[]), "")] {
        let mut found = Found::default();
        open(&bucket, key).0.scan(&mut found);
        let roots = found.entries.iter().filter(|entry| entry.path.is_root()).count();
        assert!(roots == 1 && found.entries[0].path.is_root(), "{:?}", names(&found));
        // Nobody says what its mode is, and that of `d`.
        let directories = found.entries.iter().filter(|entry| matches!(entry.kind, Kind::Directory));
        assert!(directories.into_iter().all(Entry::is_implied));
    }
    let bucket = with(&["run/a"]);
    bucket.set_about("run/", b"", About { mode: Some(0o40_700), ..About::default() }, None);
    let mut found = Found::default();
    open(&bucket, "run/").0.scan(&mut found);
    assert_eq!((found.entries[0].mode, found.entries[0].is_implied()), (0o700, false));
}

/// A store whose list does not say what a name is has more than it shows.
#[test]
fn a_key_that_is_listed_and_not_there_is_told_if_its_name_may_be_another() {
    let bucket = with(&["a\u{fffd}", "b", "c"]);
    let (source, _) = open(&bucket, "");
    *lock(&bucket.hidden_heads) = vec!["a\u{fffd}".to_owned(), "b".to_owned()];
    let (found, totals) = scan(&source);
    assert_eq!((names(&found), totals.failed, totals.complete), (vec!["c".to_owned()], 1, false));
    assert_eq!((found.troubles[0].0.as_str(), found.skipped), ("a\u{fffd}", vec!["b".to_owned()]));
}

#[test]
fn of_a_store_that_is_away_the_rest_is_not_asked_for_and_the_scan_is_incomplete() {
    let keys: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let bucket = with(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let (source, _) = open(&bucket, "");
    bucket.page_keys.store(100, std::sync::atomic::Ordering::Relaxed);
    bucket.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
    let (found, totals) = scan(&source);
    assert!(found.entries.is_empty() && !totals.complete);
    assert_eq!(found.troubles.len(), 1);
    assert_eq!(found.troubles[0].1.kind, FailureKind::Connection);
    assert_eq!(bucket.count("head"), 0);
}
