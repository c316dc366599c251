//! Names of a source that go when the destination has them.

use super::*;
use thalweg_mover::endpoint::Removal;
use thalweg_wire::message::Check;

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
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
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
