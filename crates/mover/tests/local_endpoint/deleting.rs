//! What the source does not have.

use super::*;

fn delete(path: &Path, max: u64) -> To {
    To { terms: Terms { delete_max: Some(max), ..terms() }, ..to(path) }
}

fn prepared() -> Trees {
    let trees = trees();
    fs::create_dir_all(trees.source.join("kept/sub")).unwrap();
    fs::write(trees.source.join("kept/f"), "x").unwrap();
    copy(&contents(&trees.source), to(&trees.target)).assert_whole();
    fs::create_dir_all(trees.target.join("kept/gone/deep")).unwrap();
    fs::write(trees.target.join("kept/gone/deep/f"), "x").unwrap();
    fs::write(trees.target.join("extra"), "x").unwrap();
    symlink("/etc", trees.target.join("kept/link-to-etc")).unwrap();
    trees
}

#[test]
fn what_the_source_lacks_goes_and_the_rest_is_exact() {
    let trees = prepared();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 5));
    assert_eq!(copied.assert_whole().conclusion.deleted, 5);
    assert_eq!(picture(&trees.source), picture(&trees.target));
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn one_too_many_and_nothing_goes() {
    let trees = prepared();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 4));
    assert_eq!(copied.conclusion.deleted, 0);
    assert_eq!(copied.conclusion.troubles[0].kind, FailureKind::Usage);
    assert!(copied.conclusion.troubles[0].cause.contains("5 entries"), "{:?}", copied.conclusion.troubles);
    assert!(trees.target.join("kept/gone/deep/f").exists() && trees.target.join("extra").exists());
}

#[test]
fn an_incomplete_listing_deletes_nothing() {
    let trees = prepared();
    let only = vec![path(b"kept/f")];
    let source = contents_with(&trees.source, ScanOptions { only, ..options() });
    let copied = copy(&source, delete(&trees.target, 1000));
    assert_eq!(copied.conclusion.deleted, 0);
    assert!(trees.target.join("extra").exists());
}

#[test]
fn an_empty_source_deletes_nothing() {
    let trees = prepared();
    fs::remove_dir_all(trees.source.join("kept")).unwrap();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 1000));
    assert_eq!(copied.conclusion.deleted, 0);
    assert_eq!(copied.conclusion.troubles[0].kind, FailureKind::Usage);
    assert!(trees.target.join("extra").exists());
}

#[test]
fn excluded_names_and_the_directories_that_hold_them_stay() {
    let trees = prepared();
    fs::write(trees.target.join("kept/gone/deep/mine.keep"), "x").unwrap();
    fs::write(trees.target.join("top.keep"), "x").unwrap();
    let rules = || filter(&[(false, "*.keep")]);
    let source = contents_with(&trees.source, ScanOptions { filter: rules(), ..options() });
    let copied = copy(&source, To { protect: rules(), ..delete(&trees.target, 3) });
    assert_eq!(copied.assert_whole().conclusion.deleted, 3);
    assert!(trees.target.join("kept/gone/deep/mine.keep").exists() && trees.target.join("top.keep").exists());
    assert!(!trees.target.join("kept/gone/deep/f").exists());
}

#[test]
fn beside_a_named_source_nothing_is_touched() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::create_dir_all(trees.target.join("source/extra")).unwrap();
    fs::create_dir_all(trees.target.join("neighbour/inside")).unwrap();
    let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
    let source = LocalSource::open(vec![root], options()).unwrap();
    let copied = copy(&source, delete(&trees.target, 10));
    assert_eq!(copied.assert_whole().conclusion.deleted, 1);
    assert!(trees.target.join("neighbour/inside").exists());
}

#[test]
fn many_names_are_compared_without_keeping_them_in_memory() {
    let trees = trees();
    for number in 0..6000 {
        fs::write(trees.source.join(format!("{number}")), "").unwrap();
    }
    fs::create_dir(&trees.target).unwrap();
    for number in 5990..6010 {
        fs::write(trees.target.join(format!("{number}")), "").unwrap();
    }
    let copied = copy(&contents(&trees.source), delete(&trees.target, 10));
    assert_eq!(copied.assert_whole().conclusion.deleted, 10);
    assert_eq!(fs::read_dir(&trees.target).unwrap().count(), 6000);
}
