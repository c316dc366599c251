//! What the source lacks, and what only looks as if it did.

use super::*;
use thalweg_mover::endpoint::Listing;
use thalweg_mover::endpoint::local::overlap::MAY_BE_SOURCE;

/// More than go together.
const BATCH_KEYS: usize = 1000;

/// A destination that deletes so many, and keeps what these patterns exclude.
fn deleting(bucket: &Arc<Memory>, most: u64, excluded: &[&str]) -> ObjectDestination {
    let rule = |pattern: &&str| FilterRule { include: false, pattern: (*pattern).to_owned() };
    let protect = excluded.iter().map(rule).collect();
    let options = DestinationOptions { protect, ..DestinationOptions::default() };
    open_as(bucket, Terms { delete_max: Some(most), ..terms() }, None, options).unwrap()
}

/// Offers the root, if that is the source's, and these; directories end in a slash.
fn offer(to: &ObjectDestination, has_root: bool, names: &[&str]) {
    if has_root {
        decide(to, &entry(1, b"", Kind::Directory, 0));
    }
    for (id, name) in (2..).zip(names) {
        match name.strip_suffix('/') {
            Some(name) => decide(to, &entry(id, name.as_bytes(), Kind::Directory, 0)),
            None => decide(to, &file(id, name, 1)),
        };
    }
}

fn with(keys: &[&str]) -> Arc<Memory> {
    let bucket = Memory::new();
    keys.iter().for_each(|key| bucket.set(key, b"x"));
    bucket
}

fn end(to: &ObjectDestination) -> Conclusion {
    to.conclude(Listing::Whole, &|| true)
}

fn names(conclusion: &Conclusion) -> Vec<String> {
    conclusion.deleted_names.iter().map(ToString::to_string).collect()
}

#[test]
fn what_the_source_lacks_goes_below_what_it_offered_and_nowhere_else() {
    let bucket = with(&["to/a", "to/b", "to/d/x", "to/d/y", "to/e/f/z", "to/o/x", "to/s/x", "to//odd"]);
    bucket.set("toss", b"x");
    bucket.set("other", b"x");
    bucket.page_keys.store(2, Ordering::Relaxed);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a", "d/", "d/x", "o"]);
    // The source has it and does not send it.
    to.skipped(&RelativePath::new(b"s".to_vec()).unwrap());
    let told = end(&to);
    assert_eq!(names(&told), ["b", "d/y", "e/f/z"]);
    assert!(told.deleted == 3 && told.troubles.is_empty(), "{:?}", told.troubles);
    assert_eq!(bucket.keys(), ["other", "to//odd", "to/a", "to/d/x", "to/o/x", "to/s/x", "toss"]);
    // Another end finds nothing more, and tells how many there were.
    let again = end(&to);
    assert_eq!((again.deleted, again.deleted_names.len()), (3, 0));
}

#[test]
fn where_the_root_is_not_the_sources_only_its_own_directories_are_looked_into() {
    let bucket = with(&["to/run7/old", "to/run7/new", "to/run8/old", "to/f", "to/run70/x"]);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, false, &["run7/", "run7/new"]);
    assert_eq!(names(&end(&to)), ["run7/old"]);
    assert_eq!(bucket.keys(), ["to/f", "to/run7/new", "to/run70/x", "to/run8/old"]);
    // What was in a directory that is empty now stays, and that is told.
    let bucket = with(&["to/run7/old", "to/run8/old", "to/run8/deep/old"]);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, false, &["run7/", "run7/new", "run8/"]);
    let told = to.conclude(Listing::WithEmpty, &|| true);
    assert_eq!(names(&told), ["run7/old"]);
    let [trouble] = &told.troubles[..] else { panic!("{:?}", told.troubles) };
    assert!(
        trouble.to_string().contains("`run8`") && trouble.to_string().contains("has 2 entries here"),
        "{trouble}"
    );
    assert_eq!(bucket.keys(), ["to/run8/deep/old", "to/run8/old"]);
    // Of a single file nothing is listed.
    let bucket = with(&["to/f"]);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, false, &["f"]);
    let lists = bucket.count("list");
    assert_eq!((end(&to).deleted, bucket.count("list")), (0, lists));
}

#[test]
fn what_is_excluded_stays_and_so_does_the_marker_of_what_it_is_in() {
    let bucket = with(&["to/d/keep", "to/d/x", "to/raw/1", "to/gone/x", "to/a.log"]);
    for marker in ["to/", "to/d/", "to/gone/", "to/gone/in/", "to/raw/", "to/here/"] {
        bucket.set(marker, b"");
    }
    let to = deleting(&bucket, 100, &["keep", "/raw/", "*.log"]);
    offer(&to, true, &["here/"]);
    let told = end(&to);
    assert_eq!(names(&told), ["d/x", "gone/in", "gone/x", "gone"]);
    assert_eq!(bucket.keys(), ["to/", "to/a.log", "to/d/", "to/d/keep", "to/here/", "to/raw/", "to/raw/1"]);
}

#[test]
fn one_too_many_and_nothing_goes_and_a_dry_run_names_them() {
    let bucket = with(&["to/a", "to/b", "to/c", "to/d"]);
    let before = bucket.keys();
    let to = deleting(&bucket, 2, &[]);
    offer(&to, true, &["a"]);
    let told = end(&to);
    assert_eq!((told.deleted, bucket.keys()), (0, before.clone()));
    assert_eq!(told.troubles[0].kind, FailureKind::Usage);
    let cause = &told.troubles[0].cause;
    assert!(cause.contains("3 entries would be, and 2 are allowed: `b`"), "{cause}");
    for (most, troubles) in [(2, 1), (3, 0)] {
        let terms = Terms { delete_max: Some(most), dry_run: true, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        offer(&to, true, &["a"]);
        let told = end(&to);
        assert_eq!(names(&told), ["b", "c", "d"]);
        assert_eq!(told.troubles.len(), troubles, "{most}");
        assert_eq!(bucket.keys(), before);
    }
}

#[test]
fn nothing_goes_for_a_source_that_is_empty_or_was_not_listed_in_full() {
    let bucket = with(&["to/a", "to/b"]);
    for (listing, offered) in [(Listing::Whole, &[][..]), (Listing::Partial, &["a"][..])] {
        let to = deleting(&bucket, 100, &[]);
        offer(&to, true, offered);
        let told = to.conclude(listing, &|| true);
        assert_eq!((told.deleted, told.troubles.len()), (0, 1), "{listing:?}");
        assert_eq!(bucket.keys(), ["to/a", "to/b"]);
    }
    // One of several is empty: what stands here may be what it had.
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a"]);
    let told = to.conclude(Listing::WithEmpty, &|| true);
    assert_eq!((told.deleted, told.troubles.len()), (0, 1), "{:?}", told.troubles);
    assert_eq!(bucket.keys(), ["to/a", "to/b"]);
    // Nobody asked for it.
    let to = open(&bucket, None);
    offer(&to, true, &["a"]);
    assert_eq!((end(&to).deleted, bucket.keys().len()), (0, 2));
}

#[test]
fn what_took_the_place_of_what_was_listed_stays_and_is_told_by_name() {
    let bucket = with(&["to/a", "to/b", "to/c"]);
    *lock(&bucket.overwritten) = vec!["to/b".to_owned()];
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a"]);
    let told = end(&to);
    assert_eq!((names(&told), bucket.keys().len()), (vec!["c".to_owned()], 2));
    let told = &told.troubles[0];
    assert_eq!((told.kind, told.path.as_ref().unwrap().as_bytes()), (FailureKind::Conflict, &b"b"[..]));
    // What may not be removed is told, too, and the end goes on.
    bucket.set("to/e", b"x");
    bucket.denies_removal.store(true, Ordering::Relaxed);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a"]);
    let told = end(&to);
    assert_eq!((told.deleted, told.troubles.len()), (0, 2));
    assert!(told.troubles.iter().all(|failure| failure.kind == FailureKind::Permission));
}

#[test]
fn where_keys_come_out_of_order_markers_stay() {
    let bucket = with(&["to/a", "to/d/keep", "to/d/x"]);
    bucket.set("to/d/", b"");
    bucket.lists_backwards.store(true, Ordering::Relaxed);
    let to = deleting(&bucket, 100, &["keep"]);
    offer(&to, true, &["a"]);
    assert_eq!(names(&end(&to)), ["d/x"]);
    assert_eq!(bucket.keys(), ["to/a", "to/d/", "to/d/keep"]);
}

#[test]
fn what_somebody_else_removed_is_not_counted_and_a_name_that_may_be_anothers_stays() {
    let bucket = with(&["to/a", "to/b", "to/c", "to/d\u{fffd}"]);
    *lock(&bucket.taken) = vec!["to/b".to_owned()];
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a"]);
    let told = end(&to);
    assert_eq!((told.deleted, names(&told)), (1, vec!["c".to_owned()]));
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
    assert_eq!(bucket.keys(), ["to/a", "to/d\u{fffd}"]);
}

#[test]
fn a_store_that_goes_away_meanwhile_is_told_once_and_fails_the_end() {
    let bucket = with(&["to/a", "to/b", "to/c", "to/d", "to/e"]);
    *lock(&bucket.removals_left) = Some(2);
    let to = deleting(&bucket, 100, &[]);
    offer(&to, true, &["a"]);
    let told = end(&to);
    assert_eq!(told.failed.map(|failure| failure.kind), Some(FailureKind::Connection));
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
    assert_eq!((told.deleted, bucket.keys().len()), (2, 3));
}

#[test]
fn who_is_stopped_removes_no_more() {
    let keys: Vec<String> = (0..BATCH_KEYS).map(|number| format!("to/{number:04}")).collect();
    let bucket = with(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    bucket.set("to/a", b"x");
    let to = deleting(&bucket, 10_000, &[]);
    offer(&to, true, &["a"]);
    // Until something went.
    let told = to.conclude(Listing::Whole, &|| bucket.count("remove") == 0);
    assert_eq!(told.troubles.len(), 1, "{:?}", told.troubles);
    assert_eq!(told.troubles[0].kind, FailureKind::Stopped);
    let left = bucket.keys().len() as u64;
    assert!(told.deleted > 0 && left > 1 && left + told.deleted == keys.len() as u64 + 1, "{left}");
}

/// One store under two addresses, where the destination has the source in it.
#[test]
fn nothing_goes_where_what_would_may_be_of_the_source() {
    for (is_source, deleted) in [(true, 0), (false, 2)] {
        let bucket = with(&["to/in/x", "to/old"]);
        let mut read = file(2, "x", 1);
        read.evidence = crate::bucket::evidence_of(&bucket.get("to/in/x").unwrap().seen, None);
        if !is_source {
            read.evidence.ctime.seconds -= 1;
        }
        let to = deleting(&bucket, 100, &[]);
        offer(&to, true, &[]);
        decide(&to, &read);
        let told = end(&to);
        assert_eq!((told.deleted, told.troubles.len()), (deleted, usize::from(is_source)));
        assert_eq!(bucket.keys().len() as u64, 2 - deleted);
    }
}

/// One store under two addresses.
#[test]
fn what_may_be_the_source_itself_is_left_alone_where_that_is_to_be_removed() {
    let bucket = with(&["to/a"]);
    let seen = bucket.get("to/a").unwrap().seen;
    let mut read = file(1, "a", 1);
    read.evidence = crate::bucket::evidence_of(&seen, Some(Time::default()));
    for removes_source in [false, true] {
        let terms = Terms { removes_source, check: Check::Digest, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        match decide(&to, &read) {
            Decision::Settled { outcome: Outcome::Skipped(why), .. } => {
                assert_eq!((removes_source, &*why), (true, MAY_BE_SOURCE));
            }
            _ => assert!(!removes_source),
        }
    }
    // A mount of the bucket, or the directory that it is made of, has other inodes, and tells other parts of a second.
    read.evidence.inode += 1;
    for (earlier, is_left_alone) in [(0, true), (1, true), (2, false)] {
        let mut read = read.clone();
        read.evidence.ctime.seconds -= earlier;
        let terms = Terms { removes_source: true, check: Check::Digest, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        assert_eq!(matches!(decide(&to, &read), Decision::Settled { .. }), is_left_alone, "{earlier}");
    }
}

#[test]
fn what_may_be_the_source_itself_is_found_where_it_came_since_it_was_listed() {
    for removes_source in [false, true] {
        let bucket = with(&["to/a"]);
        let mut read = file(1, "a", 1);
        read.evidence.ctime.seconds = bucket.get("to/a").unwrap().seen.modified.seconds + 3;
        let terms = Terms { removes_source, check: Check::Digest, ..terms() };
        let to = open_as(&bucket, terms, None, DestinationOptions::default()).unwrap();
        assert!(matches!(decide(&to, &read), Decision::Wanted { .. }));
        // The same content, two seconds later.
        (0..2).for_each(|_| bucket.set("to/a", b"x"));
        match to.keep(&read, digest_of(b"x")) {
            Decision::Settled { outcome: Outcome::Skipped(why), .. } => {
                assert_eq!((removes_source, &*why), (true, MAY_BE_SOURCE));
            }
            _ => assert!(!removes_source),
        }
        // It was not there, and looks as if this transfer had put it.
        let (blake3, mtime) = (Some(digest_of(b"x")), Some(read.evidence.mtime));
        let about = About { blake3, mtime, ..About::default() };
        bucket.set_about("to/b", b"x", about, None);
        read.evidence.ctime = bucket.get("to/b").unwrap().seen.modified;
        let put = to.shared.put(EntryId(2), "to/b", b"x", &about, None, &read.evidence);
        assert_eq!(put.is_err(), removes_source);
    }
}
