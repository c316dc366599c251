//! From one tree to another, and what is in the way.

use super::*;

#[test]
fn a_varied_tree_arrives_exactly_and_the_second_run_sends_nothing() {
    let trees = trees();
    varied(&trees.source);
    let source = contents(&trees.source);
    let first = copy(&source, to(&trees.target));
    first.assert_whole();
    assert!(first.losses().is_empty(), "{:?}", first.losses());
    assert_eq!(picture(&trees.source), picture(&trees.target));
    assert_eq!(
        fs::metadata(trees.target.join("a/small")).unwrap().ino(),
        fs::metadata(trees.target.join("z-second-name")).unwrap().ino()
    );
    assert!(!trees.target.join(".thalweg-staging").exists());

    let second = copy(&source, to(&trees.target));
    second.assert_whole();
    assert_eq!(second.fresh, 0);
    assert!(second.outcomes.values().all(|outcome| matches!(outcome, Outcome::Unchanged { .. })));
    assert_eq!(picture(&trees.source), picture(&trees.target));
}

#[test]
fn it_works_on_every_file_system_here() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    for (make, kind) in
        [("mkfs.ext4 -qF", "ext4"), ("mkfs.xfs -qf", "xfs"), ("mkfs.btrfs -qf", "btrfs"), ("", "tmpfs")]
    {
        let Some(mount) = Mount::new(make, kind) else {
            eprintln!("skipped: {kind} cannot be mounted here");
            continue;
        };
        let trees = trees();
        varied(&trees.source);
        let holes = fs::File::create(trees.source.join("holes")).unwrap();
        holes.set_len(40 << 20).unwrap();
        holes.write_all_at(b"island", 20 << 20).unwrap();
        drop(holes);
        let target = mount.path.join("made/by/us");
        let source = contents(&trees.source);
        let first = copy(&source, to(&target));
        first.assert_whole();
        assert!(first.losses().is_empty(), "{kind}: {:?}", first.losses());
        assert_eq!(picture(&trees.source), picture(&target), "{kind}");
        assert!(fs::metadata(target.join("holes")).unwrap().blocks() * 512 < 1 << 20, "{kind}");
        let second = copy(&source, to(&target));
        assert_eq!(second.assert_whole().fresh, 0, "{kind}");
    }
}

#[test]
fn a_mount_below_the_root_gets_a_staging_directory_of_its_own() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(mount) = Mount::new("", "tmpfs") else {
        eprintln!("skipped: tmpfs cannot be mounted here");
        return;
    };
    let trees = trees();
    fs::create_dir_all(trees.source.join("mount/below/deeper")).unwrap();
    fs::write(trees.source.join("mount/below/deeper/small"), "s").unwrap();
    fs::write(trees.source.join("mount/large"), noise(3 * CHUNK as usize, 5)).unwrap();
    symlink("x", trees.source.join("mount/below/link")).unwrap();
    let target = mount.path.parent().unwrap().to_path_buf();
    let copied = copy(&contents(&trees.source), to(&target));
    copied.assert_whole();
    assert_eq!(fs::read(mount.path.join("below/deeper/small")).unwrap(), b"s");
    assert!(!mount.path.join(".thalweg-staging").exists());
    assert!(!target.join(".thalweg-staging").exists());
    assert_eq!(
        fs::metadata(&mount.path).unwrap().modified().unwrap(),
        fs::metadata(trees.source.join("mount")).unwrap().modified().unwrap()
    );
}

#[test]
fn a_single_file_takes_the_name_of_a_path_that_is_no_directory() {
    let trees = trees();
    let file = trees.source.join("f");
    fs::write(&file, "x").unwrap();
    let source = || {
        let root = SourceRoot { path: file.clone(), contents: false, below: None };
        LocalSource::open(vec![root], options()).unwrap()
    };
    copy(&source(), to(&trees.target.join("deep/renamed"))).assert_whole();
    assert_eq!(fs::read(trees.target.join("deep/renamed")).unwrap(), b"x");
    copy(&source(), to(&trees.target.join("deep"))).assert_whole();
    assert_eq!(fs::read(trees.target.join("deep/f")).unwrap(), b"x");
    copy(&source(), To { trailing_slash: true, ..to(&trees.target.join("dir")) }).assert_whole();
    assert_eq!(fs::read(trees.target.join("dir/f")).unwrap(), b"x");
    // Over another file, and again.
    fs::write(trees.target.join("other"), "old and longer").unwrap();
    copy(&source(), to(&trees.target.join("other"))).assert_whole();
    assert_eq!(fs::read(trees.target.join("other")).unwrap(), b"x");
    assert_eq!(copy(&source(), to(&trees.target.join("other"))).fresh, 0);
}

#[test]
fn a_destination_that_is_a_file_is_no_directory() {
    let trees = trees();
    fs::write(&trees.target, "in the way").unwrap();
    for path in [trees.target.clone(), trees.target.join("below")] {
        let failure = open(to(&path), &SourceForm::Many).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
    }
    let dangling = trees.source.join("dangling");
    symlink("nowhere", &dangling).unwrap();
    assert_eq!(open(to(&dangling), &SourceForm::Many).err().unwrap().kind, FailureKind::Conflict);
    assert!(!trees.source.join("nowhere").exists());
}

#[test]
fn a_dry_run_decides_and_makes_nothing() {
    let trees = trees();
    varied(&trees.source);
    let source = contents(&trees.source);
    let dry = |path: &Path| To { terms: Terms { dry_run: true, ..terms() }, ..to(path) };
    let copied = copy(&source, dry(&trees.target));
    copied.assert_whole();
    assert!(copied.fresh > 10);
    assert!(!trees.target.exists());
    copy(&source, to(&trees.target)).assert_whole();
    fs::write(trees.target.join("extra"), "").unwrap();
    let before = picture(&trees.target);
    fs::write(trees.source.join("a/small"), "other").unwrap();
    let delete = To { terms: Terms { dry_run: true, delete_max: Some(5), ..terms() }, ..to(&trees.target) };
    let copied = copy(&source, delete);
    assert_eq!((copied.fresh, copied.conclusion.deleted), (1, 1));
    assert_eq!(picture(&trees.target), before);
}

#[test]
fn metadata_alone_is_put_right_without_sending() {
    let trees = trees();
    varied(&trees.source);
    let source = contents(&trees.source);
    copy(&source, to(&trees.target)).assert_whole();
    fs::set_permissions(trees.target.join("a/small"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(trees.target.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    let dir = Dir::open(&trees.target.join("a")).unwrap();
    let has_xattrs = dir.set_xattr(b"none", b"user.extra", b"1").is_ok();
    let copied = copy(&source, to(&trees.target));
    assert_eq!(copied.assert_whole().fresh, 0);
    assert_eq!(picture(&trees.source), picture(&trees.target));
    if has_xattrs {
        assert!(dir.xattrs(b"none").unwrap().iter().all(|(name, _)| name != b"user.extra"));
    }
}

#[test]
fn attributes_acls_owners_and_set_id_bits_are_kept_where_allowed() {
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 9)).unwrap();
    fs::create_dir(trees.source.join("d")).unwrap();
    let from = Dir::open(&trees.source).unwrap();
    if from.set_xattr(b"f", b"user.k", b"v").is_err() {
        eprintln!("skipped: no attributes on this file system");
        return;
    }
    // user::rw-, user:1234:r--, group::r--, mask::r--, other::---
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let acl = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 6, none),
        entry(2, 4, 1234),
        entry(4, 4, none),
        entry(16, 4, none),
        entry(32, 0, none),
    ]
    .concat();
    from.set_xattr(b"f", b"system.posix_acl_access", &acl).unwrap();
    from.set_xattr(b"d", b"system.posix_acl_default", &acl).unwrap();
    from.set_xattr(b"large", b"user.big", &[7; 3000]).unwrap();
    if is_root() {
        from.set_owner(b"f", Some(1234), Some(2345)).unwrap();
        from.set_owner(b"large", Some(1234), Some(2345)).unwrap();
    }
    from.set_mode(b"large", 0o6755).unwrap();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    copied.assert_whole();
    assert!(copied.losses().is_empty(), "{:?}", copied.losses());
    let there = Dir::open(&trees.target).unwrap();
    for name in [&b"f"[..], b"large", b"d"] {
        assert_eq!(there.xattrs(name).unwrap(), from.xattrs(name).unwrap());
        let (a, b) = (there.stat(name).unwrap(), from.stat(name).unwrap());
        assert_eq!((a.mode, a.uid, a.gid, a.mtime), (b.mode, b.uid, b.gid, b.mtime));
    }
    assert_eq!(copy(&contents(&trees.source), to(&trees.target)).fresh, 0);
}

#[test]
fn fifos_devices_and_links_are_made_and_replaced() {
    let trees = trees();
    let from = Dir::open(&trees.source).unwrap();
    from.make_fifo(b"fifo", 0o640).unwrap();
    from.make_symlink(b"target", b"link").unwrap();
    if is_root() {
        from.make_device(b"null", 0o666, false, 1, 3).unwrap();
    }
    fs::create_dir(&trees.target).unwrap();
    fs::write(trees.target.join("fifo"), "a file").unwrap();
    symlink("elsewhere", trees.target.join("link")).unwrap();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    copied.assert_whole();
    assert_eq!(fs::read_link(trees.target.join("link")).unwrap(), Path::new("target"));
    let there = Dir::open(&trees.target).unwrap();
    for name in [&b"fifo"[..], b"link"] {
        let (a, b) = (there.stat(name).unwrap(), from.stat(name).unwrap());
        assert_eq!((a.kind, a.mode, a.mtime), (b.kind, b.mode, b.mtime));
    }
    if is_root() {
        assert_eq!(there.stat(b"null").unwrap().rdev_minor, 3);
    }
    let again = copy(&contents(&trees.source), to(&trees.target));
    let changed: Vec<_> =
        again.outcomes.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Unchanged { .. })).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn what_is_in_the_way_is_a_conflict_and_stays() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("dir/sub")).unwrap();
    fs::write(trees.source.join("dir/sub/f"), "x").unwrap();
    fs::write(trees.source.join("file"), "x").unwrap();
    fs::write(trees.source.join("over-empty"), "x").unwrap();
    symlink("t", trees.source.join("link")).unwrap();
    symlink("t", trees.source.join("link-over-empty")).unwrap();
    fs::create_dir(&trees.target).unwrap();
    let outside = trees.source.parent().unwrap().join("outside");
    fs::create_dir_all(outside.join("sub")).unwrap();
    symlink(&outside, trees.target.join("dir")).unwrap();
    fs::create_dir_all(trees.target.join("file/full")).unwrap();
    fs::create_dir(trees.target.join("over-empty")).unwrap();
    fs::create_dir_all(trees.target.join("link/full")).unwrap();
    fs::create_dir(trees.target.join("link-over-empty")).unwrap();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    for path in ["dir", "dir/sub", "dir/sub/f", "file", "link"] {
        assert_eq!(copied.failure(path).kind, FailureKind::Conflict, "{path}");
    }
    assert_eq!(fs::read_dir(outside.join("sub")).unwrap().count(), 0);
    assert!(trees.target.join("file/full").is_dir());
    assert!(trees.target.join("link/full").is_dir());
    assert_eq!(fs::read(trees.target.join("over-empty")).unwrap(), b"x");
    assert_eq!(fs::read_link(trees.target.join("link-over-empty")).unwrap(), Path::new("t"));
}

#[test]
fn an_entry_in_our_staging_directory_is_refused() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("f"), "x").unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    for bad in [&b".thalweg-staging"[..], b".thalweg-staging/x", b"d/.thalweg-staging/journal"] {
        let entry = Entry { path: path(bad), ..found.entry("f").clone() };
        let decided = destination.decide(&entry, &|_, _| true);
        let Decision::Settled { outcome: Outcome::Failed(failure), .. } = decided else { panic!("taken") };
        assert_eq!(failure.kind, FailureKind::Conflict);
    }
}

#[test]
fn what_appears_or_changes_while_it_is_copied_is_a_conflict_and_stays() {
    let trees = trees();
    fs::write(trees.source.join("appears"), "x").unwrap();
    fs::write(trees.source.join("changes"), "x").unwrap();
    fs::write(trees.source.join("goes"), "x").unwrap();
    fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 4)).unwrap();
    fs::create_dir(&trees.target).unwrap();
    fs::write(trees.target.join("changes"), "old").unwrap();
    fs::write(trees.target.join("goes"), "old").unwrap();
    let target = trees.target.clone();
    let copied =
        copy_with(&contents(&trees.source), to(&trees.target), |entry| match entry.path.as_bytes() {
            b"goes" => fs::remove_file(target.join("goes")).unwrap(),
            name => fs::write(target.join(std::ffi::OsStr::from_bytes(name)), "somebody else's").unwrap(),
        });
    for path in ["appears", "changes", "large"] {
        assert_eq!(copied.failure(path).kind, FailureKind::Conflict);
        assert_eq!(fs::read(trees.target.join(path)).unwrap(), b"somebody else's");
    }
    assert_eq!(fs::read(trees.target.join("goes")).unwrap(), b"x");
    assert!(!trees.target.join(".thalweg-staging").exists());
}

#[test]
fn existing_and_newer_ones_are_left_alone_when_asked() {
    let trees = trees();
    for name in ["old", "new", "none"] {
        fs::write(trees.source.join(name), "source").unwrap();
    }
    fs::create_dir(&trees.target).unwrap();
    for name in ["old", "new"] {
        fs::write(trees.target.join(name), "target").unwrap();
    }
    set_mtime(&trees.source.join("old"), 1_000_000_000, 0);
    set_mtime(&trees.target.join("new"), 1_000_000_000, 0);
    let with = |terms: Terms| To { terms, ..to(&trees.target) };
    let source = contents(&trees.source);
    let copied = copy(&source, with(Terms { update: true, ..terms() }));
    assert!(matches!(copied.outcomes[&b"old"[..]], Outcome::Skipped(_)));
    assert_eq!(fs::read(trees.target.join("new")).unwrap(), b"source");
    let copied = copy(&source, with(Terms { ignore_existing: true, ..terms() }));
    assert!(matches!(copied.outcomes[&b"old"[..]], Outcome::Skipped(_)));
    assert_eq!(fs::read(trees.target.join("old")).unwrap(), b"target");
    copy(&source, to(&trees.target)).assert_whole();
    assert_eq!(fs::read(trees.target.join("old")).unwrap(), b"source");
}

#[test]
fn two_transfers_of_one_job_exclude_each_other() {
    let trees = trees();
    let first = open(to(&trees.target), &SourceForm::Many).unwrap();
    let failure = open(to(&trees.target), &SourceForm::Many).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Busy);
    assert!(failure.cause.contains("lock"), "{failure}");
    let other = To { terms: Terms { job_key: [6; 16], ..terms() }, ..to(&trees.target) };
    let other = open(other, &SourceForm::Many).unwrap();
    first.close(true);
    let first = open(to(&trees.target), &SourceForm::Many).unwrap();
    first.close(true);
    assert!(trees.target.join(".thalweg-staging").exists());
    other.close(true);
    assert!(!trees.target.join(".thalweg-staging").exists());
}

#[test]
fn a_run_that_changes_nothing_leaves_the_time_of_the_root() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::create_dir_all(trees.target.join("source")).unwrap();
    let root = || SourceRoot { path: trees.source.clone(), contents: false, below: None };
    let source = LocalSource::open(vec![root()], options()).unwrap();
    copy(&source, to(&trees.target)).assert_whole();
    set_mtime(&trees.target, 1_000_000_000, 5);
    copy(&source, to(&trees.target)).assert_whole();
    assert_eq!(fs::metadata(&trees.target).unwrap().mtime(), 1_000_000_000);
}

#[test]
fn an_export_is_not_left_by_the_destination() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("export/in")).unwrap();
    symlink("..", trees.source.join("export/up")).unwrap();
    symlink("in", trees.source.join("export/alias")).unwrap();
    let open = |path: &str| {
        let below = Some(Dir::open(&trees.source.join("export")).unwrap());
        let place = DestinationPlace { path: path.into(), below };
        LocalDestination::open(place, &SourceForm::Many, false, terms(), None, Filter::default())
    };
    for bad in ["..", "../x", "up", "up/x", "in/../../x"] {
        assert!(open(bad).is_err(), "{bad}");
    }
    assert!(!trees.source.join("x").exists());
    open("/in/new/deeper").unwrap().close(true);
    assert!(trees.source.join("export/in/new/deeper").is_dir());
    open("alias/two").unwrap().close(true);
    assert!(trees.source.join("export/in/two").is_dir());
}

#[test]
fn what_is_offered_again_replaces_what_got_its_name_in_a_new_directory() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("d/f"), "old").unwrap();
    let source = contents(&trees.source);
    let destination = open(to(&trees.target), &source.form()).unwrap();
    let (found, _) = scan(&source);
    let name = |entry: &Entry, content: &[u8]| {
        let staged = stage(&destination, entry, content).unwrap();
        destination.sync(&[]).unwrap();
        destination.finish(entry, Ready::Staged(staged), Digest(*blake3::hash(content).as_bytes()))
    };
    found.entries.iter().for_each(|entry| drop(destination.decide(entry, &|_, _| true)));
    let first = found.entry("d/f");
    name(first, b"old").unwrap();
    let mut again = Entry { id: EntryId(99), ..first.clone() };
    again.evidence.size = 5;
    destination.offered_before(&again.path);
    assert!(matches!(destination.decide(&again, &|_, _| true), Decision::Fresh));
    name(&again, b"newer").unwrap();
    assert_eq!(fs::read(trees.target.join("d/f")).unwrap(), b"newer");
    destination.close(true);
}

/// An ACL by which this user may read and write, and the owning group read.
fn acl_for(user: u32) -> Vec<u8> {
    acl_beside(user, 4)
}

/// An ACL by which this user may read and write, and the owning group has these permissions.
fn acl_beside(user: u32, group: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let mut acl = 2u32.to_le_bytes().to_vec();
    let entries =
        [(1u16, 6u16, nobody), (2, 6, user), (4, group, nobody), (0x10, 6, nobody), (0x20, 0, nobody)];
    for (tag, permissions, id) in entries {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&permissions.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    acl
}

#[test]
fn a_fifo_whose_acl_names_somebody_else_gets_that_acl() {
    const ACL: &[u8] = b"system.posix_acl_access";
    let trees = trees();
    let from = Dir::open(&trees.source).unwrap();
    from.make_fifo(b"fifo", 0o660).unwrap();
    if from.set_xattr(b"fifo", ACL, &acl_for(1234)).is_err() {
        eprintln!("skipped: no ACLs here");
        return;
    }
    copy(&contents(&trees.source), to(&trees.target)).assert_whole();
    let there = Dir::open(&trees.target).unwrap();
    let before = there.stat(b"fifo").unwrap();
    from.set_xattr(b"fifo", ACL, &acl_for(1235)).unwrap();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    assert!(matches!(copied.assert_whole().outcomes[&b"fifo"[..]], Outcome::Done { .. }));
    assert!(there.stat(b"fifo").unwrap().is_same_entry(&before));
    assert_eq!(there.xattrs(b"fifo").unwrap(), [(ACL.to_vec(), acl_for(1235))]);
    let again = copy(&contents(&trees.source), to(&trees.target));
    assert!(matches!(again.outcomes[&b"fifo"[..]], Outcome::Unchanged { .. }));
}

#[test]
fn neither_a_link_nor_a_second_name_replaces_a_fifo_or_a_device() {
    let trees = trees();
    fs::write(trees.source.join("a"), "x").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    symlink("a", trees.source.join("link")).unwrap();
    symlink("a", trees.source.join("null")).unwrap();
    fs::create_dir(&trees.target).unwrap();
    let there = Dir::open(&trees.target).unwrap();
    there.make_fifo(b"b", 0o600).unwrap();
    there.make_fifo(b"link", 0o600).unwrap();
    // Only root may make one.
    let is_device = there.make_device(b"null", 0o666, false, 1, 3).is_ok();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    for path in ["b", "link", "null"].into_iter().filter(|path| *path != "null" || is_device) {
        assert_eq!(copied.failure(path).kind, FailureKind::Conflict, "{path}");
    }
    assert_eq!(there.stat(b"b").unwrap().kind, thalweg_sys::Kind::Fifo);
    assert_eq!(there.stat(b"link").unwrap().kind, thalweg_sys::Kind::Fifo);
    if is_device {
        assert_eq!(there.stat(b"null").unwrap().kind, thalweg_sys::Kind::CharDevice);
    }
}

#[test]
fn without_modes_a_file_leaves_its_acl_to_what_replaces_it_and_gets_no_other() {
    const ACL: &[u8] = b"system.posix_acl_access";
    let trees = trees();
    fs::create_dir(&trees.target).unwrap();
    let (from, there) = (Dir::open(&trees.source).unwrap(), Dir::open(&trees.target).unwrap());
    for (name, bytes) in [("small", 5), ("large", 2 * CHUNK as usize), ("new", 5)] {
        fs::write(trees.source.join(name), noise(bytes, 1)).unwrap();
        if from.set_xattr(name.as_bytes(), ACL, &acl_for(1235)).is_err() {
            eprintln!("skipped: no ACLs here");
            return;
        }
    }
    fs::write(trees.source.join("plain"), "new content").unwrap();
    for name in ["small", "large", "plain"] {
        fs::write(trees.target.join(name), "old").unwrap();
        there.set_xattr(name.as_bytes(), ACL, &acl_for(1234)).unwrap();
    }
    let preserve = Preserve { mode: false, ..Preserve::ALL };
    let to = |terms| To { terms, state: Some(trees.state.clone()), ..to(&trees.target) };
    copy(&contents(&trees.source), to(Terms { preserve, ..terms() })).assert_whole();
    for name in [&b"small"[..], b"large", b"plain"] {
        assert_eq!(there.stat(name).unwrap().size, from.stat(name).unwrap().size);
        assert_eq!(there.xattrs(name).unwrap(), [(ACL.to_vec(), acl_for(1234))]);
    }
    assert!(there.xattrs(b"new").unwrap().is_empty());
    let again = copy(&contents(&trees.source), to(Terms { preserve, ..terms() }));
    assert!(again.outcomes.values().all(|outcome| matches!(outcome, Outcome::Unchanged { .. })));
    // Nor is it taken to be without one afterwards.
    copy(&contents(&trees.source), to(terms())).assert_whole();
    assert!(there.xattrs(b"plain").unwrap().is_empty());
}

#[test]
fn what_comes_without_its_acl_gives_the_owning_group_no_more_than_that_did() {
    const ACL: &[u8] = b"system.posix_acl_access";
    let trees = trees();
    let from = Dir::open(&trees.source).unwrap();
    fs::write(trees.source.join("small"), noise(5, 1)).unwrap();
    fs::write(trees.source.join("large"), noise(2 * CHUNK as usize, 1)).unwrap();
    fs::create_dir(trees.source.join("directory")).unwrap();
    from.make_fifo(b"fifo", 0o600).unwrap();
    let names = [&b"small"[..], b"large", b"directory", b"fifo"];
    for name in names {
        if from.set_xattr(name, ACL, &acl_beside(1234, 0)).is_err() {
            eprintln!("skipped: no ACLs here");
            return;
        }
        // The most that the ACL gives to anybody.
        assert_eq!(from.stat(name).unwrap().mode & 0o070, 0o060);
    }
    let preserved = [
        Preserve { xattrs: false, ..Preserve::ALL },
        Preserve { mode: false, ..Preserve::ALL },
        Preserve { mode: false, xattrs: false, ..Preserve::ALL },
    ];
    for (number, preserve) in preserved.into_iter().enumerate() {
        let target = trees.target.with_file_name(format!("target-{number}"));
        let source = contents_with(&trees.source, ScanOptions { preserve, ..options() });
        copy(&source, To { terms: Terms { preserve, ..terms() }, ..to(&target) }).assert_whole();
        let there = Dir::open(&target).unwrap();
        for name in names {
            assert!(there.xattrs(name).unwrap().is_empty(), "{preserve:?}");
            assert_eq!(there.stat(name).unwrap().mode & 0o070, 0, "{preserve:?}");
        }
        let again = copy(&source, To { terms: Terms { preserve, ..terms() }, ..to(&target) });
        assert_eq!(again.assert_whole().fresh, 0, "{preserve:?}");
    }
}
