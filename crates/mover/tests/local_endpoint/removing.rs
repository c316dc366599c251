//! Names of a source that go when the destination has them.

use super::*;
use thalweg_mover::endpoint::Removal;
use thalweg_wire::message::{Check, Reason};

fn remove(source: &LocalSource, entry: &Entry, is_end: bool) -> Result<Removal, Failure> {
    source.remove(&entry.path, &entry.evidence, is_end)
}

#[test]
fn names_of_one_file_go_one_by_one_each_by_what_the_one_before_left() {
    let trees = trees();
    fs::write(trees.source.join("a"), "x").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    let (a, b) = (found.entry("a"), found.entry("b"));
    // Until all of them are found.
    assert_eq!(remove(&source, a, false), Ok(Removal::Later));
    // The removal is to be another time than theirs.
    tick(&trees.source.join("a"));
    let Ok(Removal::Gone { left: Some(left) }) = remove(&source, a, true) else {
        panic!("it has another name")
    };
    assert_eq!(left, thalweg_wire::Evidence { ctime: left.ctime, ..b.evidence });
    assert_eq!(remove(&source, b, true).unwrap_err().kind, FailureKind::Changed);
    assert_eq!(source.remove(&b.path, &left, true), Ok(Removal::Gone { left: None }));
    assert_eq!(fs::read_dir(&trees.source).unwrap().count(), 0);
}

#[test]
fn a_link_goes_and_what_it_leads_to_stays() {
    let trees = trees();
    let outside = trees.target.with_extension("outside");
    fs::write(&outside, "x").unwrap();
    symlink(&outside, trees.source.join("link")).unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    assert_eq!(remove(&source, found.entry("link"), false), Ok(Removal::Gone { left: None }));
    assert!(trees.source.join("link").symlink_metadata().is_err() && outside.exists());
}

#[test]
fn another_file_under_the_name_stays_and_so_does_a_directory() {
    let trees = trees();
    for name in ["replaced", "directory", "touched"] {
        fs::write(trees.source.join(name), "x").unwrap();
    }
    symlink("a", trees.source.join("link")).unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    // Another link can be as long, and get the number and the time of the one before: only its ctime tells.
    let link = found.entry("link");
    let earlier = thalweg_wire::Time { seconds: link.evidence.ctime.seconds - 1, ..link.evidence.ctime };
    let seen = thalweg_wire::Evidence { ctime: earlier, ..link.evidence };
    let failure = source.remove(&link.path, &seen, true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed, "{failure}");
    fs::write(trees.source.join("new"), "x").unwrap();
    fs::rename(trees.source.join("new"), trees.source.join("replaced")).unwrap();
    fs::remove_file(trees.source.join("directory")).unwrap();
    fs::create_dir(trees.source.join("directory")).unwrap();
    set_mtime(&trees.source.join("touched"), 5, 0);
    for name in ["replaced", "directory", "touched"] {
        let failure = remove(&source, found.entry(name), true).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Changed, "{failure}");
        assert!(trees.source.join(name).exists(), "{name}");
    }
}

#[test]
fn what_somebody_has_open_for_writing_stays_until_he_closes_it() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    let writer = fs::OpenOptions::new().append(true).open(trees.source.join("f")).unwrap();
    let looked = Dir::open(&trees.source).and_then(|dir| dir.open_read(b"f")?.has_writers());
    if !matches!(looked, Ok(true)) {
        eprintln!("skipped: nobody tells who writes here: {looked:?}");
        return;
    }
    let failure = remove(&source, found.entry("f"), true).unwrap_err();
    let why = (failure.kind, failure.reason);
    assert_eq!(why, (FailureKind::Changed, Reason::StillWritten), "{failure}");
    assert!(failure.cause.contains("open for writing"), "{failure}");
    drop(writer);
    assert_eq!(remove(&source, found.entry("f"), true), Ok(Removal::Gone { left: None }));
}

#[test]
fn a_source_in_another_one_is_seen_whatever_leads_there() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("a/b")).unwrap();
    fs::create_dir(trees.source.join("ab")).unwrap();
    fs::write(trees.source.join("a/f"), "x").unwrap();
    symlink("a/b", trees.source.join("way")).unwrap();
    for (names, contents, is_nested) in [
        (["a", "a/b"], false, true),
        (["a/b", "a"], false, true),
        (["a", "a/f"], false, true),
        (["a", "way"], true, true),
        // The link itself is in no other.
        (["a", "way"], false, false),
        (["a", "ab"], false, false),
    ] {
        let root = |name| SourceRoot { path: trees.source.join(name), contents, below: None };
        let in_export = |name: &str| {
            let below = Some(Dir::open(&trees.source).unwrap());
            SourceRoot { path: name.into(), contents, below }
        };
        for roots in [names.map(root), names.map(in_export)] {
            let source = LocalSource::open(roots.into(), options()).unwrap();
            assert_eq!(source.nested().is_some(), is_nested, "{names:?}, {contents}");
        }
    }
}

#[test]
fn where_names_are_removed_the_destination_is_not_copied_and_neither_is_what_nfs_keeps() {
    const KEPT: &str = ".nfs00000000000a1b2c00000007";
    let trees = trees();
    fs::create_dir_all(trees.source.join("d/to")).unwrap();
    for name in ["d/to/f", KEPT, ".nfs", ".nfs-notes"] {
        fs::write(trees.source.join(name), "x").unwrap();
    }
    for removes in [false, true] {
        let mut source = contents(&trees.source);
        // As where it is a bind mount of that.
        source.stay_out_of(&trees.source.join("d/to"));
        if removes {
            source.expect_removal();
        }
        let (found, totals) = scan(&source);
        let has = |name: &str| found.entries.iter().any(|entry| entry.path.as_bytes() == name.as_bytes());
        assert_eq!((has("d/to/f"), has(KEPT)), (!removes, !removes));
        assert!(has("d") && has(".nfs") && has(".nfs-notes"));
        assert_eq!(totals.failed, u64::from(removes), "{:?}", found.troubles);
        if removes {
            let (path, failure) = &found.troubles[0];
            assert!(path.as_bytes() == b"d/to" && failure.cause.contains("is the destination"), "{failure}");
            assert!(found.reason(KEPT).contains("NFS"));
        }
    }
}

/// Another attempt of the same copy looks for it.
#[test]
fn what_the_user_named_goes_at_the_end() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    for name in ["f", "d/g"] {
        fs::write(trees.source.join(name), "x").unwrap();
    }
    let root = |name| SourceRoot { path: trees.source.join(name), contents: false, below: None };
    let named = LocalSource::open(vec![root("f"), root("d")], options()).unwrap();
    let (found, _) = scan(&named);
    assert_eq!(remove(&named, found.entry("f"), false), Ok(Removal::Later));
    assert_eq!(remove(&named, found.entry("d/g"), false), Ok(Removal::Gone { left: None }));
    assert_eq!(remove(&named, found.entry("f"), true), Ok(Removal::Gone { left: None }));

    fs::write(trees.source.join("d/g"), "x").unwrap();
    let listed = contents_with(&trees.source, ScanOptions { only: vec![path(b"d/g")], ..options() });
    let (found, _) = scan(&listed);
    assert_eq!(remove(&listed, found.entry("d/g"), false), Ok(Removal::Later));
    assert!(trees.source.join("d/g").exists());
}

/// By a daemon on this machine, say.
#[test]
fn what_may_be_the_source_itself_is_left_alone_where_that_is_to_be_removed() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    symlink("f", trees.source.join("link")).unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    for removes_source in [false, true] {
        let terms = Terms { removes_source, check: Check::Digest, ..terms() };
        let itself = To { terms, ..to(&trees.source) };
        let destination = open(itself, &source.form()).unwrap();
        destination.decide(&found.entries[0], &|_, _| true);
        for name in ["f", "link"] {
            let is_left = matches!(
                destination.decide(found.entry(name), &|_, _| true),
                Decision::Settled { outcome: Outcome::Skipped(_), .. }
            );
            assert_eq!(is_left, removes_source, "{name}");
        }
        destination.close(false);
    }
}

/// What is looked at again when its content is found the same, and second names that stand there already.
#[test]
fn what_turns_out_to_be_the_source_after_it_was_compared_and_its_second_names_are_left_alone_too() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    fs::hard_link(trees.source.join("f"), trees.source.join("second")).unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    for removes_source in [false, true] {
        let terms = Terms { removes_source, check: Check::Digest, ..terms() };
        let itself = To { terms, ..to(&trees.source) };
        let destination = open(itself, &source.form()).unwrap();
        destination.decide(&found.entries[0], &|_, _| true);
        // With another time of change, as who remembers attributes tells it: when it is decided it is not seen to be
        // it.
        let first = found.entries.iter().find(|entry| matches!(entry.kind, Kind::File { .. })).unwrap();
        let other = thalweg_wire::Time { seconds: 1, nanos: 0 };
        let evidence = thalweg_wire::Evidence { ctime: other, ..first.evidence };
        let strange = Entry { evidence, ..first.clone() };
        assert!(matches!(destination.decide(&strange, &|_, _| true), Decision::Wanted { .. }));
        let kept = destination.keep(first, Digest(*blake3::hash(b"x").as_bytes()));
        assert_eq!(is_left_alone(&kept), removes_source);
        let second = found.entries.iter().find(|entry| matches!(entry.kind, Kind::HardLink { .. })).unwrap();
        let linked = destination.link(second);
        assert_eq!(is_left_alone(&linked), removes_source);
        destination.close(false);
    }
}

/// Pages that a sync failed to write look there as what was copied.
#[test]
fn what_the_source_goes_for_is_compared_with_the_medium_and_not_with_the_page_cache() {
    const BYTES: u64 = 8 << 20;
    // /dev/shm and /tmp may have no medium; the working directory usually has one.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let (source, target) = (scratch.path().join("source"), scratch.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("f"), noise(BYTES as usize, 1)).unwrap();
    let source = contents(&source);
    copy(&source, to(&target)).assert_whole();
    let (found, _) = scan(&source);
    let file = Dir::open(&target).unwrap().open_read(b"f").unwrap();
    file.sync_all().unwrap();
    let cached = || file.cached_bytes(0, BYTES).ok();
    let _ = file.advise(thalweg_sys::Advice::DontNeed, 0, 0);
    if cached() != Some(0) {
        eprintln!("skipped: what is cached is not told here, or cannot be dropped");
        return;
    }
    for removes_source in [false, true] {
        let terms = Terms { removes_source, check: Check::Digest, ..terms() };
        let mut destination = open(To { terms, ..to(&target) }, &source.form()).unwrap();
        destination.stand_beside_source();
        destination.decide(&found.entries[0], &|_, _| true);
        let decision = destination.decide(found.entry("f"), &|_, _| true);
        assert!(matches!(decision, Decision::Wanted { candidate: Some(BYTES), .. }));
        fs::read(target.join("f")).unwrap();
        let _there = destination.existing(found.entry("f")).unwrap();
        assert_eq!(cached() == Some(0), removes_source);
        destination.close(false);
    }
}

/// Whoever gave it: as after a copy that was killed before its sync.
#[test]
fn a_second_name_that_stands_there_is_synced_before_the_source_goes_for_it() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    fs::hard_link(trees.source.join("f"), trees.source.join("second")).unwrap();
    tick(&trees.source.join("f"));
    let source = contents(&trees.source);
    copy(&source, to(&trees.target)).assert_whole();
    let (found, _) = scan(&source);
    for removes_source in [false, true] {
        let again = To { terms: Terms { removes_source, ..terms() }, ..to(&trees.target) };
        let mut destination = open(again, &source.form()).unwrap();
        destination.stand_beside_source();
        let mut linked = 0;
        for entry in &found.entries {
            let decision = match &entry.kind {
                Kind::HardLink { .. } => destination.link(entry),
                _ => destination.decide(entry, &|_, _| true),
            };
            if matches!(entry.kind, Kind::HardLink { .. }) {
                let is_there = matches!(
                    decision,
                    Decision::Settled { outcome: Outcome::Unchanged { .. }, made } if made == removes_source
                );
                assert!(is_there, "{removes_source}");
                linked += 1;
            }
        }
        assert_eq!(linked, 1);
        destination.close(false);
    }
}

fn is_left_alone(decision: &Decision) -> bool {
    matches!(decision, Decision::Settled { outcome: Outcome::Skipped(_), .. })
}
