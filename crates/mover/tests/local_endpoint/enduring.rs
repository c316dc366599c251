//! What an adversary or a poor file system does.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn while_directories_are_swapped_for_links_nothing_leaves_the_root() {
    let trees = trees();
    for number in 0..40 {
        let dir = trees.source.join(format!("d{}/sub", number % 4));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{number}")), "x").unwrap();
        symlink("t", dir.join(format!("l{number}"))).unwrap();
    }
    let outside = trees.source.parent().unwrap().join("outside");
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(outside.join("sub/canary"), "alive").unwrap();
    fs::create_dir(&trees.target).unwrap();
    let before = picture(&outside);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..4 {
                    let (dir, aside) = (trees.target.join(format!("d{number}")), trees.target.join("aside"));
                    let _ = fs::rename(&dir, &aside);
                    let _ = symlink(&outside, &dir);
                    let _ = fs::remove_file(&dir);
                    let _ = fs::rename(&aside, &dir);
                }
            }
        });
        for _ in 0..10 {
            let delete = Terms { delete_max: Some(1000), ..terms() };
            copy(&contents(&trees.source), To { terms: delete, ..to(&trees.target) });
            // And as a source.
            let (found, _) = scan(&contents(&trees.target));
            assert!(found.entries.iter().all(|entry| entry.path.name() != b"canary"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(picture(&outside), before);
}

#[test]
fn a_default_acl_of_the_destination_does_not_leak_into_what_is_kept_exactly() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 2)).unwrap();
    fs::set_permissions(trees.source.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(&trees.target).unwrap();
    let status = std::process::Command::new("setfacl")
        .args(["-d", "-m", "u:1234:rwx,g::---,o::---"])
        .arg(&trees.target)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no ACLs here");
        return;
    }
    // The root keeps its own ACL, for it is not an entry here.
    let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
    let source = LocalSource::open(vec![root], options()).unwrap();
    copy(&source, to(&trees.target)).assert_whole();
    assert_eq!(picture(&trees.source), picture(&trees.target.join("source")));
    let there = Dir::open(&trees.target.join("source")).unwrap();
    for name in [&b"f"[..], b"large"] {
        assert!(there.xattrs(name).unwrap().is_empty());
    }
}

/// How file systems are made, which, and what has their directories `a` and `b` hand down a project each.
const PROJECTS: [(&str, &str, &str); 2] = [
    (
        "mkfs.xfs -qf",
        "xfs",
        "xfs_io -c 'chproj 42' -c 'chattr +P' a && xfs_io -c 'chproj 43' -c 'chattr +P' b",
    ),
    ("mkfs.ext4 -qF -O quota,project", "ext4", "chattr -p 42 a && chattr -p 43 b && chattr +P a b"),
];

fn sh(at: &Path, script: &str) -> std::process::Output {
    std::process::Command::new("sh").args(["-c", script]).current_dir(at).output().unwrap()
}

/// A project on XFS and ext4, which refuse renames from another one; no copy on write on btrfs, which says nothing.
#[test]
fn what_is_copied_into_a_directory_has_what_that_hands_down_to_what_is_made_in_it() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let trees = trees();
    for (name, content) in [("a", 1u8), ("b", 2)] {
        let dir = trees.source.join(name);
        fs::create_dir_all(dir.join("new")).unwrap();
        fs::write(dir.join("small"), "x").unwrap();
        fs::write(dir.join("new/large"), vec![content; 3 * CHUNK as usize]).unwrap();
        symlink("small", dir.join("link")).unwrap();
        (0..20).for_each(|at| fs::write(dir.join(format!("new/{at}")), "y").unwrap());
    }
    fs::write(trees.source.join("beside"), "x").unwrap();
    let not_copied_on_write = ("mkfs.btrfs -qf", "btrfs", "chattr +C a b");
    for (make, kind, hand_down) in PROJECTS.into_iter().chain([not_copied_on_write]) {
        let Some(mount) = Mount::new(make, kind) else {
            eprintln!("skipped in part: what `{make}` makes cannot be mounted here");
            continue;
        };
        let target = mount.path.join("t");
        fs::create_dir_all(target.join("a")).unwrap();
        fs::create_dir_all(target.join("b")).unwrap();
        if !sh(&target, hand_down).status.success() {
            eprintln!("skipped in part: nothing to set that with on {kind}");
            continue;
        }
        let copied = copy(&contents(&trees.source), to(&target));
        copied.assert_whole();
        assert_eq!(picture(&trees.source), picture(&target), "{kind}");
        assert_eq!(copy(&contents(&trees.source), to(&target)).assert_whole().fresh, 0, "{kind}");
        for dir in ["a", "b"] {
            let attributes = |name: &str| {
                let listed = sh(&target, &format!("lsattr -p {dir}/{name}"));
                let listed = String::from_utf8(listed.stdout).unwrap();
                listed.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
            };
            fs::write(target.join(dir).join("made-there"), "x").unwrap();
            let made_there = attributes("made-there");
            assert_eq!(made_there.len(), 2, "{kind}");
            for name in ["small", "new/large", "new/0", "new/19"] {
                assert_eq!(attributes(name), made_there, "{kind}: {dir}/{name}");
            }
        }
    }
}

#[test]
fn a_dry_run_foretells_that_no_hard_link_leads_from_one_project_into_another() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    for (make, kind, hand_down) in PROJECTS {
        let Some(mount) = Mount::new(make, kind) else {
            eprintln!("skipped in part: what `{make}` makes cannot be mounted here");
            continue;
        };
        let (trees, target) = (trees(), mount.path.join("t"));
        fs::create_dir_all(target.join("a")).unwrap();
        fs::create_dir_all(target.join("b")).unwrap();
        if !sh(&target, hand_down).status.success() {
            eprintln!("skipped in part: nothing to set that with on {kind}");
            continue;
        }
        for dir in ["a", "b/new", "c"] {
            fs::create_dir_all(trees.source.join(dir)).unwrap();
        }
        let at = |name: &str| trees.source.join(name);
        fs::write(at("a/first"), "content").unwrap();
        for name in ["a/second", "b/second", "b/new/second", "c/second"] {
            fs::hard_link(at("a/first"), at(name)).unwrap();
        }
        let fresh = |names: &[&str], dry_run: bool| {
            let only = names.iter().map(|name| path(name.as_bytes())).collect();
            let source = contents_with(&trees.source, ScanOptions { only, ..options() });
            let copied = copy(&source, To { terms: Terms { dry_run, ..terms() }, ..to(&target) });
            copied.assert_whole().fresh
        };
        let comes = ["a/first", "a/second", "b/second", "b/new/second", "c/second"];
        // The first name stands there by then.
        let stays = ["a/first", "b/second"];
        for (names, expected) in [(&comes[..], 3), (&stays[..], 1)] {
            for dry_run in [true, false] {
                assert_eq!(fresh(names, dry_run), expected, "{kind}: {names:?}, dry run: {dry_run}");
            }
            fs::remove_file(target.join("b/second")).unwrap();
        }
    }
}

/// An immutable directory: not even root makes a staging directory in it.
#[test]
fn who_may_not_write_where_a_directory_hands_down_its_flags_stages_beside_it() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let cases = [
        ("mkfs.btrfs -qf", "btrfs", "chattr +C a"),
        ("mkfs.ext4 -qF -O casefold -E encoding=utf8", "ext4", "chattr +F a"),
    ];
    for (make, kind, hand_down) in cases {
        let Some(mount) = Mount::new(make, kind) else {
            eprintln!("skipped in part: what `{make}` makes cannot be mounted here");
            continue;
        };
        let trees = trees();
        fs::create_dir_all(trees.source.join("a/sub")).unwrap();
        fs::write(trees.source.join("a/sub/small"), "x").unwrap();
        fs::write(trees.source.join("a/sub/large"), noise(3 * CHUNK as usize, 1)).unwrap();
        symlink("small", trees.source.join("a/sub/link")).unwrap();
        let target = mount.path.join("t");
        fs::create_dir_all(target.join("a")).unwrap();
        let script = format!("{hand_down} && mkdir a/sub && chattr +i a");
        let set = std::process::Command::new("sh").args(["-c", &script]).current_dir(&target).output();
        if !set.unwrap().status.success() {
            eprintln!("skipped in part: nothing to set that with on {kind}");
            continue;
        }
        // Nor are its times and its mode anybody's to set.
        let there = fs::metadata(target.join("a")).unwrap();
        fs::set_permissions(trees.source.join("a"), there.permissions()).unwrap();
        fs::File::open(trees.source.join("a")).unwrap().set_modified(there.modified().unwrap()).unwrap();
        copy(&contents(&trees.source), to(&target)).assert_whole();
        assert_eq!(picture(&trees.source), picture(&target), "{kind}");
        assert_eq!(copy(&contents(&trees.source), to(&target)).assert_whole().fresh, 0, "{kind}");
    }
}

#[test]
fn names_that_fold_into_one_are_a_conflict_and_none_is_overwritten() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (image, mount) = (scratch.path().join("image"), scratch.path().join("mount"));
    fs::create_dir(&mount).unwrap();
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let script = format!(
        "mkfs.ext4 -qF -O casefold -E encoding=utf8 {0} && mount -o loop {0} {1} && mkdir {1}/t && chattr +F {1}/t",
        image.display(),
        mount.display()
    );
    if !std::process::Command::new("sh").args(["-c", &script]).output().unwrap().status.success() {
        let _ = std::process::Command::new("umount").arg(&mount).output();
        eprintln!("skipped: no file system here folds case");
        return;
    }
    let trees = trees();
    fs::write(trees.source.join("Name"), "upper").unwrap();
    fs::write(trees.source.join("name"), "lower").unwrap();
    fs::create_dir(trees.source.join("Dir")).unwrap();
    fs::write(trees.source.join("Dir/f"), "x").unwrap();
    let target = mount.join("t");
    let copied = copy(&contents(&trees.source), to(&target));
    let content = fs::read(target.join("Name")).unwrap();
    let again = copy(&contents(&trees.source), to(&target));
    let _ = std::process::Command::new("umount").arg(&mount).status();
    assert_eq!(content, b"upper");
    assert_eq!(copied.failure("name").kind, FailureKind::Conflict);
    assert_eq!(again.failure("name").kind, FailureKind::Conflict);
    assert!(matches!(again.outcomes[&b"Dir/f"[..]], Outcome::Unchanged { .. }));
}

#[test]
fn a_full_file_system_is_a_matter_of_space_and_resumes_when_there_is_room() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let trees = trees();
    fs::create_dir(&trees.target).unwrap();
    let run =
        |command: &str| std::process::Command::new("sh").args(["-c", command]).status().unwrap().success();
    let target = trees.target.display();
    if !run(&format!("mount -t tmpfs -o size=1m none {target}")) {
        eprintln!("skipped: tmpfs cannot be mounted here");
        return;
    }
    fs::write(trees.source.join("large"), noise(2 << 20, 1)).unwrap();
    fs::write(trees.source.join("small"), "x").unwrap();
    let source = contents(&trees.source);
    let form = source.form();
    let destination = open(to(&trees.target), &form).unwrap();
    let (found, _) = scan(&source);
    for entry in &found.entries {
        destination.decide(entry, &|_, _| true);
    }
    let failure = destination.begin(found.entry("large")).err().unwrap();
    let partials = fs::read_dir(trees.target.join(".thalweg-staging").join("05".repeat(16)))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().as_bytes().starts_with(b"partial"))
        .count();
    destination.close(false);
    drop(destination);
    let room = run(&format!("mount -o remount,size=8m {target}"));
    let copied = copy(&source, to(&trees.target));
    let same = fs::read(trees.target.join("large")).ok() == fs::read(trees.source.join("large")).ok();
    run(&format!("umount {target}"));
    assert_eq!((failure.kind, partials), (FailureKind::Space, 0));
    assert!(room && same);
    copied.assert_whole();
}

#[test]
fn hard_links_are_remembered_and_not_sent_again() {
    let trees = trees();
    fs::write(trees.source.join("a"), "one").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("c")).unwrap();
    let remembered = || To { state: Some(trees.state.clone()), ..to(&trees.target) };
    copy(&contents(&trees.source), remembered()).assert_whole();
    let again = copy(&contents(&trees.source), remembered());
    assert_eq!(again.assert_whole().fresh, 0);
    assert!(matches!(again.outcomes[&b"a"[..]], Outcome::Unchanged { digest: Some(_) }));
}

#[test]
fn directories_that_keep_their_owner_out_are_filled_all_the_same() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("closed/inner")).unwrap();
    fs::write(trees.source.join("closed/f"), "x").unwrap();
    for dir in ["closed/inner", "closed", ""] {
        fs::set_permissions(trees.source.join(dir), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let copied = copy(&contents(&trees.source), to(&trees.target));
    copied.assert_whole();
    let first = picture(&trees.target);
    assert_eq!(first, picture(&trees.source));
    assert!(!trees.target.join(".thalweg-staging").exists());
    let again = copy(&contents(&trees.source), to(&trees.target));
    assert!(again.outcomes.values().all(|outcome| matches!(outcome, Outcome::Unchanged { .. })));
    again.assert_whole();
    assert_eq!(picture(&trees.target), first);
    for tree in [&trees.source, &trees.target] {
        for dir in ["", "closed", "closed/inner"] {
            fs::set_permissions(tree.join(dir), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

#[test]
fn kinds_that_were_not_asked_for_are_not_made() {
    let trees = trees();
    Dir::open(&trees.source).unwrap().make_fifo(b"fifo", 0o600).unwrap();
    let preserve = Preserve { devices: false, ..Preserve::ALL };
    let copied =
        copy(&contents(&trees.source), To { terms: Terms { preserve, ..terms() }, ..to(&trees.target) });
    assert!(matches!(copied.outcomes[&b"fifo"[..]], Outcome::Skipped(_)));
    assert!(fs::symlink_metadata(trees.target.join("fifo")).is_err());
}

#[test]
fn without_preserving_the_mode_of_what_stands_there_stays() {
    let trees = trees();
    let preserve = Preserve { mode: false, owner: false, ..Preserve::ALL };
    let to = || To { terms: Terms { preserve, ..terms() }, ..to(&trees.target) };
    for name in ["old", "old-large", "new"] {
        fs::write(trees.source.join(name), "source").unwrap();
        fs::set_permissions(trees.source.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(trees.source.join("old-large"), noise(2 * CHUNK as usize, 1)).unwrap();
    fs::create_dir(&trees.target).unwrap();
    for name in ["old", "old-large"] {
        fs::write(trees.target.join(name), "t").unwrap();
        fs::set_permissions(trees.target.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    copy(&contents(&trees.source), to()).assert_whole();
    let mode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("old"), mode("old-large")), (0o600, 0o600));
    assert_eq!(mode("new") & 0o700, 0o700);
}

/// Two names of one file, copied once.
fn linked() -> Trees {
    let trees = trees();
    fs::write(trees.source.join("a"), "old").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    copy(&contents(&trees.source), to(&trees.target)).assert_whole();
    trees
}

#[test]
fn a_second_name_is_not_unchanged_while_both_have_what_stood_there_before() {
    let trees = linked();
    fs::write(trees.source.join("a"), "newer").unwrap();
    let source = contents(&trees.source);
    let destination = open(to(&trees.target), &source.form()).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    // Nor is it linked to that: what it has is wanted.
    assert!(matches!(destination.link(found.entry("b")), Decision::Fresh));
    destination.close(false);
    drop(destination);
    copy(&source, to(&trees.target)).assert_whole();
    assert_eq!(picture(&trees.target), picture(&trees.source));
    assert_eq!(fs::read(trees.target.join("b")).unwrap(), b"newer");
}

#[test]
fn what_the_source_has_apart_by_now_becomes_a_file_each_and_stays_so() {
    let trees = linked();
    let (a, b) = (trees.source.join("a"), trees.source.join("b"));
    let time = fs::metadata(&a).unwrap().modified().unwrap();
    fs::remove_file(&b).unwrap();
    fs::write(&b, "old").unwrap();
    fs::File::open(&b).unwrap().set_modified(time).unwrap();
    fs::set_permissions(&a, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&b, fs::Permissions::from_mode(0o644)).unwrap();
    // A name that is no entry stays one of the file.
    fs::hard_link(trees.target.join("a"), trees.target.parent().unwrap().join("outside")).unwrap();
    for round in 0..3 {
        let copied = copy(&contents(&trees.source), to(&trees.target));
        assert_eq!(picture(&trees.target), picture(&trees.source), "round {round}");
        assert_eq!(copied.assert_whole().fresh, u64::from(round == 0), "one of the two, once");
    }
    let inode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().ino();
    assert_ne!(inode("a"), inode("b"));
}

/// A source of two names of one file, in this order.
fn in_order(trees: &Trees, order: [&str; 2]) -> LocalSource {
    let only = order.map(|name| path(name.as_bytes())).to_vec();
    contents_with(&trees.source, ScanOptions { only, ..options() })
}

#[test]
fn a_second_name_arrives_though_the_first_is_left_alone_or_refused() {
    for order in [["a", "b"], ["b", "a"]] {
        for is_refused in [false, true] {
            let trees = trees();
            fs::write(trees.source.join("a"), "source").unwrap();
            fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
            set_mtime(&trees.source.join("a"), 1_000_000_000, 0);
            fs::create_dir(&trees.target).unwrap();
            match is_refused {
                true => Dir::open(&trees.target).unwrap().make_fifo(b"a", 0o600).unwrap(),
                false => fs::write(trees.target.join("a"), "newer").unwrap(),
            }
            for round in 0..2 {
                let update = To { terms: Terms { update: true, ..terms() }, ..to(&trees.target) };
                let copied = copy(&in_order(&trees, order), update);
                let outcomes = (&copied.outcomes[&b"a"[..]], &copied.outcomes[&b"b"[..]]);
                let is_right = match &outcomes {
                    (Outcome::Failed(failure), _) if is_refused => failure.kind == FailureKind::Conflict,
                    (Outcome::Skipped(_), _) => !is_refused,
                    _ => false,
                };
                let has_arrived = match round {
                    0 => matches!(outcomes.1, Outcome::Done { .. }),
                    _ => matches!(outcomes.1, Outcome::Unchanged { .. }),
                };
                assert!(is_right && has_arrived, "{order:?}: {outcomes:?}");
                assert_eq!(fs::read(trees.target.join("b")).unwrap(), b"source");
            }
        }
    }
}

/// What the destination has under the first of two names has the size and the time of the source's, and other content.
fn looking_alike() -> Trees {
    let trees = trees();
    fs::write(trees.source.join("a"), "right").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    fs::create_dir(&trees.target).unwrap();
    fs::write(trees.target.join("a"), "wrong").unwrap();
    for tree in [&trees.source, &trees.target] {
        set_mtime(&tree.join("a"), 1_000_000_000, 0);
    }
    trees
}

#[test]
fn a_second_name_is_not_linked_to_what_was_left_alone_however_alike_it_looks() {
    use thalweg_wire::message::Check;
    for check in [Check::Evidence, Check::Digest, Check::Nothing] {
        for has_both in [false, true] {
            let trees = looking_alike();
            if has_both {
                fs::hard_link(trees.target.join("a"), trees.target.join("b")).unwrap();
            }
            for dry_run in [true, false] {
                let terms = Terms { ignore_existing: true, check, dry_run, ..terms() };
                let copied = copy(&contents(&trees.source), To { terms, ..to(&trees.target) });
                let outcomes = (&copied.outcomes[&b"a"[..]], &copied.outcomes[&b"b"[..]]);
                let is_right = match outcomes {
                    (Outcome::Skipped(_), Outcome::Skipped(_)) => has_both,
                    (Outcome::Skipped(_), Outcome::Done { .. }) => !has_both,
                    _ => false,
                };
                assert!(is_right, "{check:?}, both: {has_both}, dry run: {dry_run}: {outcomes:?}");
            }
            let content = ["a", "b"].map(|name| fs::read_to_string(trees.target.join(name)).unwrap());
            assert_eq!(content, ["wrong", if has_both { "wrong" } else { "right" }], "{check:?}");
        }
    }
}

#[test]
fn a_second_name_is_not_linked_to_what_stands_under_a_first_that_failed() {
    let trees = looking_alike();
    fs::write(trees.target.join("b"), "mine").unwrap();
    let source = contents(&trees.source);
    let by_digest = Terms { check: thalweg_wire::message::Check::Digest, ..terms() };
    let destination = open(To { terms: by_digest, ..to(&trees.target) }, &source.form()).unwrap();
    let (found, _) = scan(&source);
    let (first, second) = (found.entry("a"), found.entry("b"));
    destination.decide(&found.entries[0], &|_, _| true);
    assert!(matches!(destination.decide(first, &|_, _| true), Decision::Wanted { .. }));
    // As one that the source cannot read.
    destination.came_to_nothing(first);
    assert!(matches!(destination.link(second), Decision::Fresh));
    destination.close(false);
    let content = ["a", "b"].map(|name| fs::read_to_string(trees.target.join(name)).unwrap());
    assert_eq!(content, ["wrong", "mine"]);
}

#[test]
fn second_names_of_one_file_stay_one_file_though_the_first_is_left_alone() {
    let trees = trees();
    fs::write(trees.source.join("a"), "source").unwrap();
    for name in ["b", "c"] {
        fs::hard_link(trees.source.join("a"), trees.source.join(name)).unwrap();
    }
    set_mtime(&trees.source.join("a"), 1_000_000_000, 0);
    copy(&contents(&trees.source), to(&trees.target)).assert_whole();
    fs::remove_file(trees.target.join("a")).unwrap();
    fs::write(trees.target.join("a"), "newer, and longer").unwrap();
    let inode = |name: &str| fs::metadata(trees.target.join(name)).unwrap().ino();
    let before = inode("b");
    let update = To { terms: Terms { update: true, ..terms() }, ..to(&trees.target) };
    let copied = copy(&contents(&trees.source), update);
    assert!(matches!(copied.outcomes[&b"a"[..]], Outcome::Skipped(_)));
    for name in ["b", "c"] {
        let outcome = &copied.outcomes[name.as_bytes()];
        assert!(matches!(outcome, Outcome::Unchanged { .. }), "{name}: {outcome:?}");
        assert_eq!(inode(name), before, "{name}");
    }
    assert_eq!(copied.fresh, 0);
}

#[test]
fn a_second_name_on_another_file_system_is_a_file_of_its_own_and_says_so_once() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let trees = trees();
    fs::create_dir(trees.source.join("m")).unwrap();
    fs::write(trees.source.join("a"), "content").unwrap();
    symlink("target", trees.source.join("a-link")).unwrap();
    Dir::open(&trees.source).unwrap().make_fifo(b"a-fifo", 0o640).unwrap();
    for (name, second) in [("a", "m/b"), ("a-link", "m/b-link"), ("a-fifo", "m/b-fifo")] {
        fs::hard_link(trees.source.join(name), trees.source.join(second)).unwrap();
    }
    fs::create_dir_all(trees.target.join("m")).unwrap();
    let mount = trees.target.join("m");
    let run = |command: &str| {
        std::process::Command::new("sh").args(["-c", command]).status().is_ok_and(|status| status.success())
    };
    if !run(&format!("mount -t tmpfs -o size=1m none {}", mount.display())) {
        eprintln!("skipped: tmpfs cannot be mounted here");
        return;
    }
    let first = copy(&contents(&trees.source), to(&trees.target));
    let same = picture(&trees.source) == picture(&trees.target);
    let second = copy(&contents(&trees.source), to(&trees.target));
    run(&format!("umount {}", mount.display()));
    assert!(same);
    assert_eq!(first.assert_whole().losses(), ["hard link: its first name is on another file system"; 3]);
    assert_eq!(second.assert_whole().fresh, 0);
    assert!(second.losses().is_empty(), "{:?}", second.losses());
}

#[test]
fn second_names_of_links_and_fifos_are_linked_too() {
    let trees = trees();
    symlink("target", trees.source.join("link-a")).unwrap();
    Dir::open(&trees.source).unwrap().make_fifo(b"fifo-a", 0o640).unwrap();
    for kind in ["link", "fifo"] {
        let at = |end: &str| trees.source.join(format!("{kind}-{end}"));
        fs::hard_link(at("a"), at("b")).unwrap();
    }
    for round in 0..2 {
        let copied = copy(&contents(&trees.source), to(&trees.target));
        copied.assert_whole();
        let there = Dir::open(&trees.target).unwrap();
        for kind in ["link", "fifo"] {
            let names = ["a", "b"].map(|end| format!("{kind}-{end}"));
            let [a, b] = names.each_ref().map(|name| there.stat(name.as_bytes()).unwrap());
            assert!(a.is_same_entry(&b), "{kind}: {a:?} {b:?}");
            let stays = |name: &String| matches!(copied.outcomes[name.as_bytes()], Outcome::Unchanged { .. });
            assert!(round == 0 || names.iter().all(stays), "{kind}");
        }
    }
}

#[test]
fn a_fifo_or_device_that_stands_there_stays_and_its_second_name_is_linked_to_it() {
    for is_fifo in [true, false] {
        let trees = trees();
        fs::create_dir(&trees.target).unwrap();
        let (from, there) = (Dir::open(&trees.source).unwrap(), Dir::open(&trees.target).unwrap());
        let make = |dir: &Dir, mode| match is_fifo {
            true => dir.make_fifo(b"a", mode),
            false => dir.make_device(b"a", mode, false, 1, 3),
        };
        if make(&from, 0o640).is_err() {
            eprintln!("skipped: only root may make a device");
            continue;
        }
        make(&there, 0o600).unwrap();
        fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
        let long_ago = thalweg_sys::Time { seconds: 1_000_000_000, nanos: 0 };
        there.set_times(b"a", None, Some(long_ago)).unwrap();
        let before = there.stat(b"a").unwrap();
        for (run, is_done) in [true, true, false].into_iter().enumerate() {
            let terms = Terms { dry_run: run == 0, ..terms() };
            let copied = copy(&in_order(&trees, ["a", "b"]), To { terms, ..to(&trees.target) });
            for outcome in ["a", "b"].map(|name| &copied.outcomes[name.as_bytes()]) {
                assert_eq!(matches!(outcome, Outcome::Done { .. }), is_done, "run {run}: {outcome:?}");
                assert_eq!(matches!(outcome, Outcome::Unchanged { .. }), !is_done, "run {run}: {outcome:?}");
            }
            if run > 0 {
                let source = from.stat(b"a").unwrap();
                let [a, b] = [b"a", b"b"].map(|name| there.stat(name).unwrap());
                assert!(a.is_same_entry(&before) && a.is_same_entry(&b), "run {run}");
                assert_eq!((a.mode, a.mtime), (source.mode, source.mtime), "run {run}");
            }
        }
    }
}

#[test]
fn fifos_that_the_source_has_apart_come_apart() {
    let trees = trees();
    let from = Dir::open(&trees.source).unwrap();
    from.make_fifo(b"a", 0o600).unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    copy(&contents(&trees.source), to(&trees.target)).assert_whole();
    from.remove_file(b"b").unwrap();
    from.make_fifo(b"b", 0o640).unwrap();
    for round in 0..2 {
        copy(&contents(&trees.source), to(&trees.target)).assert_whole();
        assert_eq!(picture(&trees.target), picture(&trees.source), "round {round}");
    }
}

/// A FIFO, a link to what stands behind `->`, or a file of this content; nothing for nothing.
fn make(path: &Path, what: &str) {
    match (what, what.strip_prefix("->")) {
        ("", _) => {}
        ("fifo", _) => {
            let name = path.file_name().unwrap().as_bytes();
            Dir::open(path.parent().unwrap()).unwrap().make_fifo(name, 0o600).unwrap();
        }
        (_, Some(target)) => symlink(target, path).unwrap(),
        (content, None) => fs::write(path, content).unwrap(),
    }
}

#[test]
fn a_dry_run_tells_of_the_names_of_one_file_what_a_copy_does() {
    let told = |copied: &Copied| {
        let word = |name: &str| match &copied.outcomes[name.as_bytes()] {
            Outcome::Done { .. } => "done",
            Outcome::Unchanged { .. } => "unchanged",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "failed",
        };
        (word("a"), word("b"), copied.fresh)
    };
    let ignore = || Terms { ignore_existing: true, ..terms() };
    let anew = || Terms { check: thalweg_wire::message::Check::Nothing, ..terms() };
    // What both names are of at the source, and what has them at the destination: `=` is another name of the first.
    let rows = [
        ("file", "", "", terms(), ("done", "done", 1)),
        ("file", "other", "", ignore(), ("skipped", "done", 1)),
        ("file", "fifo", "", terms(), ("failed", "done", 1)),
        ("newer", "old", "=", terms(), ("done", "done", 1)),
        ("file", "file", "=", anew(), ("done", "done", 1)),
        ("fifo", "", "fifo", terms(), ("done", "done", 0)),
        ("fifo", "file", "fifo", terms(), ("done", "done", 0)),
        ("fifo", "->x", "fifo", terms(), ("done", "done", 0)),
        ("->x", "->other", "", terms(), ("done", "done", 0)),
    ];
    for (source, first, second, terms, expected) in rows {
        let trees = trees();
        fs::create_dir(&trees.target).unwrap();
        make(&trees.source.join("a"), source);
        fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
        make(&trees.target.join("a"), first);
        match second {
            "=" => fs::hard_link(trees.target.join("a"), trees.target.join("b")).unwrap(),
            _ => make(&trees.target.join("b"), second),
        }
        for dry_run in [true, false] {
            let terms = Terms { dry_run, ..terms.clone() };
            let copied = copy(&in_order(&trees, ["a", "b"]), To { terms, ..to(&trees.target) });
            assert_eq!(told(&copied), expected, "{source}: {first}, {second}, dry run: {dry_run}");
        }
    }
}

#[test]
fn two_names_of_a_newer_file_are_both_left_alone_when_asked() {
    let trees = linked();
    set_mtime(&trees.target.join("a"), 2_000_000_000, 0);
    let update = Terms { update: true, ..terms() };
    let copied = copy(&contents(&trees.source), To { terms: update, ..to(&trees.target) });
    for name in ["a", "b"] {
        let outcome = &copied.outcomes[name.as_bytes()];
        assert!(matches!(outcome, Outcome::Skipped(_)), "{name}: {outcome:?}");
    }
}

#[test]
fn what_a_file_that_stands_cannot_keep_is_told() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    let source = contents(&trees.source);
    copy(&source, to(&trees.target)).assert_whole();
    let by_digest = Terms { check: thalweg_wire::message::Check::Digest, ..terms() };
    let destination = open(To { terms: by_digest, ..to(&trees.target) }, &source.form()).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    let mut entry = found.entry("f").clone();
    // No system has such attributes.
    entry.xattrs = vec![thalweg_wire::entry::Xattr { name: b"nowhere.x".to_vec(), value: b"1".to_vec() }];
    let Decision::Wanted { candidate: Some(1), .. } = destination.decide(&entry, &|_, _| true) else {
        panic!("its content is not compared");
    };
    let decision = destination.keep(&entry, thalweg_wire::Digest([0; 32]));
    let Decision::Settled { outcome: Outcome::Done { losses, .. }, made: false } = decision else {
        panic!("told as unchanged");
    };
    assert_eq!(losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["xattr nowhere.x"]);
    destination.close(true);
}

#[test]
fn where_dots_at_the_end_are_left_out_such_a_name_is_refused_and_nothing_is_deleted_for_it() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(mount) = Mount::new("mkfs.vfat", "vfat") else {
        eprintln!("skipped: vfat cannot be mounted here");
        return;
    };
    let trees = trees();
    fs::create_dir(trees.source.join("Acme Inc.")).unwrap();
    fs::write(trees.source.join("Acme Inc./f"), "x").unwrap();
    fs::write(trees.source.join("g"), "x").unwrap();
    let target = mount.path.join("to");
    fs::create_dir(&target).unwrap();
    if fs::write(target.join("probe"), "").is_err() || !target.join("probe.").exists() {
        eprintln!("skipped: dots at the end are kept here");
        return;
    }
    fs::remove_file(target.join("probe")).unwrap();
    // As an earlier copy left it.
    fs::create_dir(target.join("Acme Inc")).unwrap();
    fs::write(target.join("Acme Inc/f"), "x").unwrap();
    let delete = Terms { delete_max: Some(1000), ..terms() };
    let copied = copy(&contents(&trees.source), To { terms: delete, ..to(&target) });
    for path in ["Acme Inc.", "Acme Inc./f"] {
        let failure = copied.failure(path);
        assert_eq!(failure.kind, FailureKind::Conflict, "{path}");
        assert!(failure.cause.contains("keep it as `Acme Inc"), "{failure}");
    }
    assert_eq!(fs::read(target.join("g")).unwrap(), b"x");
    assert_eq!(fs::read(target.join("Acme Inc/f")).unwrap(), b"x");
    assert_eq!(copied.conclusion.deleted, 0);
}
