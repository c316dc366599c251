//! What stands there, where its list is too long, empty at first, or older than what is asked.

use super::*;

fn conflicts(to: &ObjectDestination, entry: &Entry) -> bool {
    matches!(outcome(to, entry), Outcome::Failed(failure) if failure.kind == FailureKind::Conflict)
}

#[test]
fn in_a_directory_of_too_many_names_its_directories_and_their_markers_are_seen() {
    let bucket = Memory::new();
    ["to/d/a", "to/d/b", "to/d/x/f"].iter().for_each(|key| bucket.set(key, b""));
    let about = About { mode: Some(0o700), ..About::default() };
    bucket.set_about("to/d/e/", b"", about, None);
    let open = |directory_markers| {
        let options = DestinationOptions { directory_markers, ..DestinationOptions::default() };
        let mut to = open_as(&bucket, terms(), None, options).unwrap();
        to.standing.names_max = 2;
        to
    };
    let marked = entry(1, b"d/e", Kind::Directory, 0);
    assert!(matches!(outcome(&open(true), &marked), Outcome::Done { .. }));
    assert_eq!(bucket.get("to/d/e/").unwrap().about.mode, Some(0o640));
    assert!(matches!(outcome(&open(true), &marked), Outcome::Unchanged { .. }));
    let to = open(false);
    assert!(matches!(outcome(&to, &entry(2, b"d/x", Kind::Directory, 0)), Outcome::Unchanged { .. }));
    assert!(conflicts(&to, &file(3, "d/x", 1)));
    assert_fresh(&to, &file(4, "d/new", 1));
}

#[test]
fn a_name_that_is_offered_again_is_still_that_of_a_directory() {
    let bucket = Memory::new();
    bucket.set("to/d/x", b"");
    let to = open(&bucket, None);
    for id in 1..=2 {
        let entry = file(id, "d", 1);
        assert!(conflicts(&to, &entry));
        to.offered_before(&entry.path);
    }
}

#[test]
fn what_is_listed_behind_pages_that_are_empty_is_there() {
    let memory = Memory::new();
    memory.set("x/new/y", b"");
    let bucket: AnyBucket = memory.clone();
    let single = SourceForm::Single { name: b"a".to_vec() };
    for (key, prefix) in [("x/new", "x/new/"), ("x/other", "x/")] {
        memory.empty_pages.store(2, Ordering::Relaxed);
        assert_eq!(place(&bucket, key, &single).unwrap().0, prefix);
    }
}
