//! Parts of one copy: what each offers, and that they do not keep each other out.

use super::*;
use std::collections::BTreeSet;
use thalweg_wire::message::PartOf;

fn part_of(trees: &Trees, part: Option<PartOf>) -> LocalSource {
    contents_with(&trees.source, ScanOptions { part, ..options() })
}

/// A place for it, with a job of its own.
fn to_part(trees: &Trees, part: Option<PartOf>) -> To {
    let number = part.map_or(0, |part| part.number);
    to_by(trees, Terms { part, job_key: [number as u8; 16], ..terms() })
}

fn to_by(trees: &Trees, terms: Terms) -> To {
    To { terms, ..to(&trees.target) }
}

/// The only part that there is: others are expected all the same.
fn alone() -> Option<PartOf> {
    PartOf::new(1, 1)
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Files in directories that may not be written, one in the other.
fn closed_tree(trees: &Trees) {
    fs::create_dir_all(trees.source.join("d/e")).unwrap();
    for number in 0..40 {
        fs::write(trees.source.join(format!("d/f{number}")), number.to_string()).unwrap();
        fs::write(trees.source.join(format!("d/e/g{number}")), number.to_string()).unwrap();
    }
    for (at, name) in ["d/e", "d"].into_iter().enumerate() {
        set_mtime(&trees.source.join(name), 1_000_000_000 + at as u64, 7);
        chmod(&trees.source.join(name), 0o555);
    }
}

/// So that both trees can be removed.
fn open_up(trees: &Trees) {
    for root in [&trees.source, &trees.target] {
        for name in ["", "d", "d/e"] {
            if root.join(name).exists() {
                chmod(&root.join(name), 0o755);
            }
        }
    }
}

#[test]
fn parts_of_any_number_are_disjoint_and_together_all_of_a_tree() {
    let trees = trees();
    varied(&trees.source);
    fs::hard_link(trees.source.join("a/b/large"), trees.source.join("another-name")).unwrap();
    let (all, _) = scan(&contents(&trees.source));
    let is_dir = |entry: &&Entry| matches!(entry.kind, Kind::Directory);
    let dirs = |found: &Found| found.entries.iter().filter(is_dir).count();
    for count in [1, 2, 3, 8, 50] {
        let mut met = BTreeSet::new();
        for number in 1..=count {
            let (found, totals) = scan(&part_of(&trees, PartOf::new(number, count)));
            assert!(!totals.complete, "what another part has would be taken for gone");
            assert!(found.troubles.is_empty() && found.skipped.is_empty(), "{:?}", found.skipped);
            assert_eq!(dirs(&found), dirs(&all));
            for entry in found.entries.iter().filter(|entry| !is_dir(entry)) {
                assert!(met.insert(entry.path.clone()), "{} is in two parts of {count}", entry.path);
                if let Kind::HardLink { first, of } = &entry.kind {
                    assert_eq!(&found.entries[of.0 as usize].path, first);
                }
            }
        }
        let files = all.entries.iter().filter(|entry| !is_dir(entry)).count();
        assert_eq!(met.len(), files, "of {count} parts");
    }
}

#[test]
fn parts_one_after_the_other_and_each_within_the_one_before_make_the_tree_that_one_copy_makes() {
    const COUNT: u32 = 3;
    for is_nested in [false, true] {
        let trees = trees();
        varied(&trees.source);
        copy_parts(&trees, 1, COUNT, is_nested);
        assert_eq!(picture(&trees.source), picture(&trees.target), "nested: {is_nested}");
        for number in 1..=COUNT {
            let part = PartOf::new(number, COUNT);
            let again = copy(&part_of(&trees, part), to_part(&trees, part));
            assert_eq!(again.assert_whole().fresh, 0, "part {number} once more");
        }
    }
}

/// Copies this part and those behind it: when it is done, or when its first file is about to get its name.
fn copy_parts(trees: &Trees, number: u32, count: u32, is_nested: bool) {
    let part = PartOf::new(number, count);
    let mut are_others_left = number < count;
    let copied = copy_with(&part_of(trees, part), to_part(trees, part), |_| {
        if is_nested && std::mem::take(&mut are_others_left) {
            copy_parts(trees, number + 1, count, is_nested);
        }
    });
    copied.assert_whole();
    if are_others_left {
        copy_parts(trees, number + 1, count, is_nested);
    }
}

#[test]
fn a_directory_that_one_part_closed_is_filled_by_the_others_and_closed_by_the_last() {
    if is_root() {
        eprintln!("skipped: root may write where it is closed");
        return;
    }
    for (is_nested, root) in [(false, 0o755), (true, 0o755), (false, 0o555), (true, 0o555)] {
        let trees = trees();
        closed_tree(&trees);
        chmod(&trees.source, root);
        copy_parts(&trees, 1, 4, is_nested);
        let (from, to) = (picture(&trees.source), picture(&trees.target));
        assert_eq!(from, to, "nested: {is_nested}, root: {root:o}");
        open_up(&trees);
    }
}

#[test]
fn a_part_goes_on_where_the_way_was_closed_altogether_and_keeps_hard_links() {
    if is_root() {
        eprintln!("skipped: root may pass what is closed");
        return;
    }
    let trees = trees();
    closed_tree(&trees);
    chmod(&trees.source.join("d"), 0o755);
    fs::hard_link(trees.source.join("d/f7"), trees.source.join("z-second-name")).unwrap();
    fs::write(trees.source.join("y-between"), "y").unwrap();
    chmod(&trees.source.join("d"), 0o555);
    set_mtime(&trees.source.join("d"), 1_000_000_000, 7);
    let close = |names: &'static [&'static str], mode| {
        let target = trees.target.clone();
        move |_: &Entry| {
            for name in names.iter().filter(|name| target.join(name).exists()) {
                chmod(&target.join(name), mode);
            }
        }
    };
    // Of no part: nobody else is expected, and it is told.
    let copied = copy_with(&part_of(&trees, None), to_part(&trees, None), close(&["d"], 0o555));
    assert_eq!(copied.failure("d/f7").kind, FailureKind::Permission);
    open_up(&trees);
    chmod(&trees.source.join("d/e"), 0o555);
    chmod(&trees.source.join("d"), 0o555);
    fs::remove_dir_all(&trees.target).unwrap();
    let closes = close(&["d/e", "d", ""], 0o000);
    let copied = copy_with(&part_of(&trees, alone()), to_part(&trees, alone()), closes);
    copied.assert_whole();
    assert_eq!(picture(&trees.source), picture(&trees.target));
    let inode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().ino();
    assert_eq!(inode("d/f7"), inode("z-second-name"));
    open_up(&trees);
}

#[test]
fn where_modes_are_not_kept_a_directory_gets_the_one_again_that_it_was_closed_with() {
    if is_root() {
        eprintln!("skipped: root may write where it is closed");
        return;
    }
    let trees = trees();
    closed_tree(&trees);
    fs::create_dir_all(trees.target.join("d/e")).unwrap();
    ["d", "d/e"].iter().for_each(|name| chmod(&trees.target.join(name), 0o755));
    let preserve = Preserve { mode: false, ..Preserve::ALL };
    let to = to_by(&trees, Terms { part: alone(), preserve, ..terms() });
    let source = contents_with(&trees.source, ScanOptions { part: alone(), preserve, ..options() });
    let mut is_first = true;
    let copied = copy_with(&source, to, |_| {
        // As another part at its end, which had found it so.
        if std::mem::take(&mut is_first) {
            chmod(&trees.target.join("d"), 0o511);
        }
    });
    copied.assert_whole();
    let mode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d"), mode("d/e")), (0o511, 0o755));
    open_up(&trees);
}

/// Who holds the empty directory would go on in what is replaced.
#[test]
fn what_comes_into_a_new_directory_of_a_part_does_not_take_its_place_as_a_whole() {
    for part in [None, alone()] {
        let trees = trees();
        fs::create_dir(trees.source.join("d")).unwrap();
        for number in 0..16 {
            fs::write(trees.source.join(format!("d/f{number}")), "x").unwrap();
        }
        let source = part_of(&trees, part);
        let destination = open(to_part(&trees, part), &source.form()).unwrap();
        let (found, _) = scan(&source);
        found.entries.iter().for_each(|entry| drop(destination.decide(entry, &|_, _| true)));
        let files = found.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. }));
        let small: Vec<Small<'_>> = files.map(|entry| Small { entry, content: b"x" }).collect();
        let staged = destination.stage(3, &small, &mut Together::new(&Disk::default()));
        // There it has its final name already.
        let is_nursed = staged.iter().any(|staged| staged.as_ref().unwrap().name.is_some());
        assert_eq!(is_nursed, part.is_none());
        destination.close(true);
    }
}
