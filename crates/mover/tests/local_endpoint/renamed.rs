//! Files that the destination lacks, looked for there under other names.

use super::*;
use std::ffi::OsStr;

const BYTES: usize = 3 * CHUNK as usize;

/// A source with "new", and a destination that has it at `old`; both as old.
fn renamed(old: &Path) -> Trees {
    let trees = trees();
    fs::create_dir(&trees.target).unwrap();
    let old = trees.target.join(old);
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    for path in [trees.source.join("new"), old] {
        fs::write(&path, noise(BYTES, 7)).unwrap();
        set_mtime(&path, 1_000_000_000, 5);
    }
    trees
}

fn asked(trees: &Trees) -> To {
    To { terms: Terms { finds_renames: true, ..terms() }, ..to(&trees.target) }
}

/// "new", and what is decided of it.
fn decided(destination: &LocalDestination, trees: &Trees) -> (Entry, Decision) {
    let (found, _) = scan(&contents(&trees.source));
    destination.decide(&found.entries[0], &|_, _| true);
    let entry = found.entry("new").clone();
    let decision = destination.decide(&entry, &|_, _| true);
    (entry, decision)
}

#[test]
fn what_changes_while_it_is_used_is_read_as_it_is_and_what_takes_its_name_is_not_read() {
    let trees = renamed(Path::new("old"));
    let destination = open(asked(&trees), &SourceForm::Many).unwrap();
    let (entry, decision) = decided(&destination, &trees);
    assert!(matches!(decision, Decision::Elsewhere { left: None }));
    assert!(destination.elsewhere(&entry, 1).is_none());
    let first = || {
        let file = destination.elsewhere(&entry, 0).expect("one was found").ok()?;
        let mut byte = [0];
        file.read_at(&mut byte, 0).unwrap();
        Some(byte[0])
    };
    let old = trees.target.join("old");
    fs::File::options().write(true).open(&old).unwrap().write_all_at(b"!", 0).unwrap();
    assert_eq!(first(), Some(b'!'));
    fs::rename(&old, trees.target.join("older")).unwrap();
    assert_eq!(first(), None);
    fs::write(&old, noise(BYTES, 8)).unwrap();
    assert_eq!(first(), None);
    fs::remove_file(&old).unwrap();
    symlink("older", &old).unwrap();
    assert_eq!(first(), None);
    destination.close(false);
}

#[test]
fn what_links_lead_to_and_what_is_unfinished_is_not_found() {
    let unfinished = PathBuf::from(OsStr::from_bytes(&[STAGING_NAME, b"-7"].concat())).join("old");
    let (plain, beyond) = (Path::new("dir/old"), Path::new("../outside/old"));
    for (old, is_found) in [(plain, true), (unfinished.as_path(), false), (beyond, false)] {
        let trees = renamed(old);
        if old == beyond {
            symlink("../outside", trees.target.join("dir")).unwrap();
            symlink("../outside/old", trees.target.join("link")).unwrap();
        }
        let destination = open(asked(&trees), &SourceForm::Many).unwrap();
        let (entry, decision) = decided(&destination, &trees);
        assert_eq!(matches!(decision, Decision::Elsewhere { .. }), is_found, "{}", old.display());
        assert_eq!(destination.elsewhere(&entry, 0).is_some(), is_found, "{}", old.display());
        destination.close(false);
    }
}

#[test]
fn who_sends_all_or_only_asks_looks_for_none() {
    let nothing = thalweg_wire::message::Check::Nothing;
    let rows = [
        (Terms { finds_renames: true, ..terms() }, true),
        (terms(), false),
        (Terms { finds_renames: true, check: nothing, ..terms() }, false),
        (Terms { finds_renames: true, dry_run: true, ..terms() }, false),
    ];
    for (number, (terms, is_found)) in rows.into_iter().enumerate() {
        let trees = renamed(Path::new("old"));
        let destination = open(To { terms, ..to(&trees.target) }, &SourceForm::Many).unwrap();
        let (_, decision) = decided(&destination, &trees);
        assert_eq!(matches!(decision, Decision::Elsewhere { .. }), is_found, "{number}");
        destination.close(false);
    }
}

/// Else whoever may write one name learns which files beside it have a given content.
#[test]
fn for_a_single_file_what_is_in_its_directory_is_looked_at_and_not_what_is_beside_its_new_name() {
    let form = SourceForm::Single { name: b"new".to_vec() };
    for is_found in [true, false] {
        let trees = renamed(Path::new("old"));
        let path = if is_found { trees.target.clone() } else { trees.target.join("newer") };
        let destination = open(To { path, ..asked(&trees) }, &form).unwrap();
        let (found, _) = scan(&contents(&trees.source));
        let decision = destination.decide(found.entry("new"), &|_, _| true);
        assert_eq!(matches!(decision, Decision::Elsewhere { .. }), is_found);
        destination.close(false);
    }
}

/// Who withdrew the entry, or is gone: another one has it listed then.
#[test]
fn a_listing_that_nobody_waits_for_ends() {
    let trees = renamed(Path::new("old"));
    (0..1000).for_each(|number| fs::write(trees.target.join(number.to_string()), "").unwrap());
    let destination = open(asked(&trees), &SourceForm::Many).unwrap();
    let (found, _) = scan(&contents(&trees.source));
    destination.decide(&found.entries[0], &|_, _| true);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let waits = |_: u64, _: u64| asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
    assert!(matches!(destination.decide(found.entry("new"), &waits), Decision::Fresh));
    assert!(matches!(destination.decide(found.entry("new"), &waits), Decision::Elsewhere { .. }));
    destination.close(false);
}
