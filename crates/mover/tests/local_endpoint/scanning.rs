//! What a scan offers, leaves out and reports, and how it is read.

use super::*;
use thalweg_wire::message::Reason;

#[test]
fn names_come_in_byte_order_and_parents_first() {
    let trees = trees();
    varied(&trees.source);
    let (found, totals) = scan(&contents(&trees.source));
    assert!(totals.complete);
    assert_eq!(totals.failed, 0);
    let as_components = |path: &[u8]| path.split(|&b| b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let got: Vec<_> = found.paths().iter().skip(1).map(|path| as_components(path)).collect();
    let mut sorted = got.clone();
    sorted.sort();
    assert_eq!(got, sorted);
    assert!(found.entries[0].path.is_root());
}

#[test]
fn without_a_trailing_slash_the_name_of_the_root_comes_first() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("d/f"), "x").unwrap();
    let root = SourceRoot { path: trees.source.clone(), contents: false, below: None };
    let source = LocalSource::open(vec![root], options()).unwrap();
    assert_eq!(source.form(), SourceForm::Many);
    let (found, _) = scan(&source);
    assert_eq!(found.paths(), [&b"source"[..], b"source/d", b"source/d/f"]);
    let mut buffer = [0; 1];
    source.read_small(found.entry("source/d/f"), &mut buffer).unwrap();
    assert_eq!(&buffer, b"x");
}

#[test]
fn a_single_file_has_a_form_of_its_own() {
    let trees = trees();
    let file = trees.source.join("f");
    fs::write(&file, "x").unwrap();
    let root = SourceRoot { path: file, contents: false, below: None };
    let source = LocalSource::open(vec![root], options()).unwrap();
    assert_eq!(source.form(), SourceForm::Single { name: b"f".to_vec() });
    assert_eq!(scan(&source).0.paths(), [b"f"]);
}

#[test]
fn two_roots_of_one_name_are_refused_and_both_named() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("x/same")).unwrap();
    fs::create_dir_all(trees.source.join("y/same")).unwrap();
    let root = |path: &str| SourceRoot { path: trees.source.join(path), contents: false, below: None };
    let failure = LocalSource::open(vec![root("x/same"), root("y/same")], options()).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Usage);
    assert!(failure.cause.contains("x/same") && failure.cause.contains("y/same"), "{failure}");
    assert!(LocalSource::open(vec![root("x"), root("y")], options()).is_ok());
}

#[test]
fn merged_roots_give_each_name_once_and_say_so() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("x/both")).unwrap();
    fs::create_dir_all(trees.source.join("y/both")).unwrap();
    fs::write(trees.source.join("y/mine"), "m").unwrap();
    let root = |path: &str| SourceRoot { path: trees.source.join(path), contents: true, below: None };
    let source = LocalSource::open(vec![root("x"), root("y")], options()).unwrap();
    let (found, totals) = scan(&source);
    assert_eq!(found.paths(), [&b""[..], b"both", b"mine"]);
    assert_eq!((found.troubles.len(), totals.complete), (1, false));
    source.read_small(found.entry("mine"), &mut [0]).unwrap();
}

#[test]
fn an_excluded_directory_is_named_once_and_not_entered() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("skip/deep")).unwrap();
    fs::write(trees.source.join("keep.o"), "").unwrap();
    fs::write(trees.source.join("a.o"), "").unwrap();
    let filter = filter(&[(true, "keep.o"), (false, "*.o"), (false, "skip/")]);
    let (found, totals) = scan(&contents_with(&trees.source, ScanOptions { filter, ..options() }));
    assert_eq!(found.paths(), [&b""[..], b"keep.o"]);
    assert_eq!(found.reason("skip"), "excluded by `skip/`");
    assert_eq!(found.reason("a.o"), "excluded by `*.o`");
    assert_eq!(found.skipped.len(), 2);
    assert!(totals.complete);
}

#[test]
fn only_what_is_listed_comes_with_the_directories_above_it() {
    let trees = trees();
    varied(&trees.source);
    let only = vec![path(b"a/b/large"), path(b"link"), path(b"a/small"), path(b"empty"), path(b"missing")];
    let (found, totals) = scan(&contents_with(&trees.source, ScanOptions { only, ..options() }));
    assert_eq!(found.paths(), [&b""[..], b"a", b"a/b", b"a/b/large", b"link", b"a/small", b"empty"]);
    assert_eq!(totals.failed, 1);
    assert_eq!(found.troubles[0].1.kind, FailureKind::NotFound);
    assert!(!totals.complete);
}

#[test]
fn second_names_name_the_first() {
    let trees = trees();
    varied(&trees.source);
    let (found, _) = scan(&contents(&trees.source));
    let first = found.entry("a/small").id;
    assert_eq!(found.entry("z-second-name").kind, Kind::HardLink { first: path(b"a/small"), of: first });
}

#[test]
fn sockets_and_what_was_not_asked_for_are_skipped_with_a_reason() {
    let trees = trees();
    let _socket = std::os::unix::net::UnixListener::bind(trees.source.join("socket")).unwrap();
    let dir = Dir::open(&trees.source).unwrap();
    dir.make_fifo(b"fifo", 0o600).unwrap();
    symlink("x", trees.source.join("link")).unwrap();
    for (more, is_ours) in [("", true), ("-1000", true), ("-", false), ("-10a", false), ("1000", false)] {
        let name = [STAGING_NAME, more.as_bytes()].concat();
        assert_eq!(is_staging(&name), is_ours, "{more}");
        if is_ours {
            fs::create_dir(trees.source.join(std::ffi::OsStr::from_bytes(&name))).unwrap();
        }
    }
    let (found, totals) = scan(&contents(&trees.source));
    assert_eq!(found.paths(), [&b""[..], b"fifo", b"link"]);
    assert_eq!(found.skipped.len(), 3);
    assert!(totals.complete);
    let preserve = Preserve { devices: false, ..Preserve::ALL };
    let (found, _) = scan(&contents_with(&trees.source, ScanOptions { preserve, ..options() }));
    assert_eq!(found.paths(), [&b""[..], b"link"]);
    assert!(found.reason("fifo").contains("FIFO"));
    assert_eq!(found.reason("socket"), "a socket");
    // Who names one is not told that all is well.
    let unasked = Preserve { devices: false, ..Preserve::ALL };
    for (name, preserve, why, reason) in [
        ("fifo", unasked, "it is a FIFO, and those are not asked for", Reason::NotAskedFor),
        ("socket", Preserve::ALL, "it is a socket", Reason::Other),
    ] {
        let root = SourceRoot { path: trees.source.join(name), contents: false, below: None };
        let (found, totals) =
            scan(&LocalSource::open(vec![root], ScanOptions { preserve, ..options() }).unwrap());
        assert_eq!((found.troubles.len(), totals.failed, totals.complete), (1, 1, false));
        let failure = &found.troubles[0].1;
        assert_eq!((failure.kind, &*failure.cause), (FailureKind::Unsupported, why));
        assert_eq!(failure.reason, reason, "{name}");
    }
}

#[test]
fn holes_are_seen() {
    let trees = trees();
    let file = fs::File::create(trees.source.join("holes")).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(b"island", 2 << 30).unwrap();
    fs::write(trees.source.join("full"), noise(8192, 3)).unwrap();
    let (found, totals) = scan(&contents(&trees.source));
    assert_eq!(found.entry("holes").kind, Kind::File { sparse: true, marked: true });
    assert_eq!(found.entry("full").kind, Kind::File { sparse: false, marked: false });
    assert_eq!(totals.bytes, (1 << 40) + 8192);
}

#[test]
fn attributes_and_acls_come_along() {
    let trees = trees();
    let dir = Dir::open(&trees.source).unwrap();
    fs::write(trees.source.join("f"), "x").unwrap();
    if dir.set_xattr(b"f", b"user.k", b"v\0w").is_err() {
        eprintln!("skipped: no attributes on this file system");
        return;
    }
    let (found, _) = scan(&contents(&trees.source));
    let xattrs = &found.entry("f").xattrs;
    assert!(xattrs.iter().any(|x| x.name == b"user.k" && x.value == b"v\0w"));
}

#[test]
fn an_unreadable_directory_is_trouble_and_the_rest_goes_on() {
    if is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let trees = trees();
    fs::create_dir(trees.source.join("closed")).unwrap();
    fs::write(trees.source.join("z"), "").unwrap();
    fs::set_permissions(trees.source.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let (found, totals) = scan(&contents(&trees.source));
    fs::set_permissions(trees.source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found.paths(), [&b""[..], b"closed", b"z"]);
    assert_eq!(found.troubles[0].1.kind, FailureKind::Permission);
    assert!(!totals.complete && totals.failed == 1);
}

#[test]
fn two_thousand_levels_are_scanned_and_read() {
    let trees = trees();
    let name = b"level-with-a-name-of-forty-bytes--------";
    let mut dir = Dir::open(&trees.source).unwrap();
    for _ in 0..2000 {
        dir.make_dir(name, 0o755).unwrap();
        dir = dir.open_beneath(name, Links::Refuse).unwrap();
    }
    dir.create_new(b"bottom", 0o644).unwrap().write_all_at(b"deep", 0).unwrap();
    drop(dir);
    let source = contents(&trees.source);
    let (found, totals) = scan(&source);
    assert!(totals.complete, "{:?}", found.troubles);
    assert_eq!(found.entries.len(), 2002);
    let bottom = found.entries.last().unwrap();
    let mut buffer = [0; 4];
    source.read_small(bottom, &mut buffer).unwrap();
    assert_eq!(&buffer, b"deep");
    // And written again at the other side.
    copy(&source, to(&trees.target)).assert_whole();
    let (there, _) = scan(&contents(&trees.target));
    assert_eq!(there.paths(), found.paths());
    for root in [&trees.source, &trees.target] {
        remove_deep(root);
    }
}

/// std removes trees by recursion with one descriptor a level.
fn remove_deep(root: &Path) {
    let status = std::process::Command::new("rm").arg("-rf").arg(root).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_flat_directory_of_many_names_is_bounded_and_quick_to_begin() {
    let trees = trees();
    let dir = Dir::open(&trees.source).unwrap();
    dir.create_new(b"original", 0o644).unwrap();
    // Links are the quickest names to make; a file takes 65,000 of them on ext4.
    for number in 0..70_000u32 {
        if number % 30_000 == 0 {
            dir.create_new(format!("base{number}").as_bytes(), 0o644).unwrap();
        }
        let base = format!("base{}", number / 30_000 * 30_000);
        dir.make_link(base.as_bytes(), &dir, format!("{number:08}").as_bytes()).unwrap();
    }
    // What was computed when the first name came, of how many. Not the time: a disk or a core may be waited for at any
    // moment.
    struct First(Duration, Option<Duration>, u64);
    impl ScanSink for First {
        fn entry(&mut self, _: Entry) -> Option<EntryId> {
            self.1.get_or_insert_with(|| thread_cpu() - self.0);
            self.2 += 1;
            Some(EntryId(self.2))
        }
        fn trouble(&mut self, _: RelativePath, failure: Failure) {
            panic!("{failure}");
        }
        fn skipped(&mut self, _: RelativePath, _: &str) {}
    }
    let source = contents(&trees.source);
    let mut first = First(thread_cpu(), None, 0);
    let totals = source.scan(&mut first);
    let all = thread_cpu() - first.0;
    assert!(totals.complete);
    assert_eq!(first.2, 70_000 + 3 + 1 + 1);
    // However slow the machine: the first name does not wait for the others.
    assert!(first.1.unwrap() < all / 5, "{:?} of {all:?}", first.1);
}

#[test]
fn a_file_that_changed_since_the_scan_is_not_read() {
    let trees = trees();
    let file = trees.source.join("f");
    fs::write(&file, "one").unwrap();
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    let entry = found.entry("f");
    let mtime = fs::metadata(&file).unwrap().modified().unwrap();
    // Same length, and the time set back.
    fs::write(&file, "two").unwrap();
    fs::File::open(&file).unwrap().set_modified(mtime).unwrap();
    assert_eq!(source.read_small(entry, &mut [0; 3]).unwrap_err().kind, FailureKind::Changed);
    assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
    let now = source.look_again(entry).unwrap();
    assert_eq!((now.id, &now.path), (entry.id, &entry.path));
    source.read_small(&now, &mut [0; 3]).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(source.look_again(entry).unwrap_err().kind, FailureKind::NotFound);
    symlink("/etc/passwd", &file).unwrap();
    assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
    fs::remove_file(&file).unwrap();
    Dir::open(&trees.source).unwrap().make_fifo(b"f", 0o600).unwrap();
    assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
}

#[test]
fn a_file_changed_just_now_is_left_to_age_before_it_is_read() {
    let trees = trees();
    let source = contents(&trees.source);
    // From before it is written: what passes between the two is part of its age.
    let start = Instant::now();
    fs::write(trees.source.join("f"), "x").unwrap();
    let (found, _) = scan(&source);
    source.read_small(found.entry("f"), &mut [0]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(10), "{:?}", start.elapsed());
    // It is old enough now; one that waits for a core may still take long, all of a hundred hardly.
    let quickest = (0..100).map(|_| {
        let start = Instant::now();
        source.read_small(found.entry("f"), &mut [0]).unwrap();
        start.elapsed()
    });
    let quickest = quickest.min().unwrap();
    assert!(quickest < Duration::from_millis(10), "{quickest:?}");
}

#[test]
fn links_are_followed_when_asked_and_loops_end() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("real/sub")).unwrap();
    fs::write(trees.source.join("real/sub/f"), "x").unwrap();
    symlink("real", trees.source.join("to-dir")).unwrap();
    symlink("to-dir/sub/f", trees.source.join("to-file")).unwrap();
    symlink("..", trees.source.join("real/loop")).unwrap();
    symlink("nowhere", trees.source.join("dangling")).unwrap();
    let source = contents_with(&trees.source, ScanOptions { follow_links: true, ..options() });
    let (found, totals) = scan(&source);
    let paths = found.paths();
    for expected in [&b"to-dir/sub/f"[..], b"to-file", b"real/sub/f"] {
        assert!(paths.contains(&expected));
    }
    assert_eq!(found.entry("to-file").evidence.size, 1);
    source.read_small(found.entry("to-file"), &mut [0]).unwrap();
    source.read_small(found.entry("to-dir/sub/f"), &mut [0]).unwrap();
    let said = |path: &str| {
        let (_, failure) =
            found.troubles.iter().find(|(of, _)| of.as_bytes() == path.as_bytes()).expect(path);
        (failure.kind, failure.to_string())
    };
    let again = "it leads to a directory that it is in";
    for path in ["real/loop", "to-dir/loop"] {
        let text = format!("follow links failed on `{path}`: {again}");
        assert_eq!(said(path), (FailureKind::Unsupported, text));
        assert!(!paths.contains(&path.as_bytes()), "{path}: nobody makes an empty directory of it");
    }
    let nowhere = "follow links failed on `dangling`: it leads to `nowhere`, and nothing is there";
    assert_eq!(said("dangling"), (FailureKind::NotFound, nowhere.to_owned()));
    assert_eq!((found.troubles.len(), totals.failed, totals.complete), (3, 3, false));
    // What is left out need not lead anywhere.
    let filter = filter(&[(false, "dangling"), (false, "loop")]);
    let left_out = ScanOptions { filter, follow_links: true, ..options() };
    let (found, totals) = scan(&contents_with(&trees.source, left_out));
    assert_eq!((found.troubles.len(), totals.complete), (0, true));
    assert_eq!(found.reason("dangling"), "excluded by `dangling`");
}

#[test]
fn a_directory_above_the_source_that_a_link_leads_to_ends_where_the_source_comes_again() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("f"), "x").unwrap();
    symlink("..", trees.source.join("d/up")).unwrap();
    let source = contents_with(&trees.source.join("d"), ScanOptions { follow_links: true, ..options() });
    let (found, totals) = scan(&source);
    assert_eq!(found.paths(), [&b""[..], b"up", b"up/f"]);
    assert_eq!((found.troubles.len(), totals.failed), (1, 1));
    assert_eq!(found.troubles[0].0.as_bytes(), b"up/d");
}

#[test]
fn names_of_one_file_stay_so_where_a_link_to_it_comes_first() {
    let trees = trees();
    fs::write(trees.source.join("n"), "x").unwrap();
    fs::hard_link(trees.source.join("n"), trees.source.join("z")).unwrap();
    fs::write(trees.source.join("alone"), "x").unwrap();
    for (name, says) in [("a", "n"), ("b", "alone")] {
        symlink(says, trees.source.join(name)).unwrap();
    }
    let (found, _) = scan(&contents_with(&trees.source, ScanOptions { follow_links: true, ..options() }));
    let of = found.entry("a").id;
    for name in ["n", "z"] {
        assert_eq!(found.entry(name).kind, Kind::HardLink { first: path(b"a"), of }, "{name}");
    }
    for name in ["alone", "b"] {
        assert!(matches!(found.entry(name).kind, Kind::File { .. }), "{name}");
    }
}

#[test]
fn a_link_that_leads_elsewhere_than_when_it_was_looked_at_is_a_change() {
    let trees = trees();
    for (name, content) in [("one", "1"), ("two", "2")] {
        fs::write(trees.source.join(name), content).unwrap();
    }
    symlink("one", trees.source.join("link")).unwrap();
    let source = contents_with(&trees.source, ScanOptions { follow_links: true, ..options() });
    let (found, _) = scan(&source);
    let entry = found.entry("link");
    source.read_small(entry, &mut [0]).unwrap();
    fs::remove_file(trees.source.join("link")).unwrap();
    symlink("two", trees.source.join("link")).unwrap();
    assert_eq!(source.read_small(entry, &mut [0]).unwrap_err().kind, FailureKind::Changed);
    assert_eq!(source.open(entry).err().unwrap().kind, FailureKind::Changed);
    let now = source.look_again(entry).unwrap();
    let mut buffer = [0];
    source.read_small(&now, &mut buffer).unwrap();
    assert_eq!(&buffer, b"2");
}

#[test]
fn a_listed_link_whose_words_end_in_dots_comes_as_the_directory_that_it_leads_to() {
    let trees = trees();
    fs::create_dir_all(trees.source.join("d/in")).unwrap();
    symlink("../..", trees.source.join("d/in/up")).unwrap();
    symlink("d/in/..", trees.source.join("dots")).unwrap();
    let only = vec![path(b"dots"), path(b"d/in/up")];
    let options = ScanOptions { follow_links: true, only, ..options() };
    let (found, totals) = scan(&contents_with(&trees.source, options));
    assert_eq!(found.paths(), [&b""[..], b"dots", b"d", b"d/in", b"d/in/up"]);
    assert_eq!(totals.failed, 0, "{:?}", found.troubles);
    assert_eq!(found.entry("dots").kind, Kind::Directory);
}

#[test]
fn no_link_leads_into_what_is_copied_to() {
    let trees = trees();
    fs::create_dir_all(trees.target.join("in/deep")).unwrap();
    fs::write(trees.target.join("f"), "x").unwrap();
    symlink(&trees.target, trees.source.join("all")).unwrap();
    symlink(trees.target.join("in"), trees.source.join("part")).unwrap();
    symlink(trees.target.join("f"), trees.source.join("file")).unwrap();
    symlink(trees.target.parent().unwrap(), trees.source.join("round")).unwrap();
    let mut source = contents_with(&trees.source, ScanOptions { follow_links: true, ..options() });
    source.stay_out_of(&trees.target);
    let (found, _) = scan(&source);
    let mut told: Vec<_> = found.troubles.iter().map(|(path, _)| path.to_string()).collect();
    told.sort();
    assert_eq!(told, ["all", "part", "round/source", "round/target"]);
    assert_eq!(found.entry("file").evidence.size, 1);
}

#[test]
fn a_link_that_is_followed_does_not_lead_to_what_is_unfinished() {
    let trees = trees();
    let staging = trees.source.join(std::ffi::OsStr::from_bytes(STAGING_NAME));
    fs::create_dir_all(staging.join("job")).unwrap();
    fs::write(staging.join("job/partial-1"), "half of it").unwrap();
    symlink(staging.file_name().unwrap(), trees.source.join("to-all")).unwrap();
    symlink(staging.join("job"), trees.source.join("to-job")).unwrap();
    symlink(staging.join("job/partial-1"), trees.source.join("to-partial")).unwrap();
    symlink("to-partial", trees.source.join("to-link")).unwrap();
    let follow = || ScanOptions { follow_links: true, ..options() };
    let names = ["to-all", "to-job", "to-partial", "to-link"];
    let (found, totals) = scan(&contents_with(&trees.source, follow()));
    assert_eq!((found.paths(), totals.failed), (vec![&b""[..]], 0));
    for name in names {
        assert_eq!(found.reason(name), "it leads into thalweg's own staging directory", "{name}");
    }
    // Who names one is told that it is not copied.
    for name in names {
        let root = SourceRoot { path: trees.source.join(name), contents: false, below: None };
        let refused = LocalSource::open(vec![root], follow()).map(drop).unwrap_err();
        assert!(refused.cause.contains("what is unfinished"), "{name}: {refused}");
        let only = vec![path(name.as_bytes())];
        let (found, totals) = scan(&contents_with(&trees.source, ScanOptions { only, ..follow() }));
        assert_eq!((found.paths(), totals.failed), (vec![&b""[..]], 1), "{name}");
    }
}

#[test]
fn an_export_is_not_left() {
    let trees = trees();
    fs::write(trees.source.join("secret"), "x").unwrap();
    fs::create_dir_all(trees.source.join("export/d")).unwrap();
    symlink("../secret", trees.source.join("export/out")).unwrap();
    symlink("..", trees.source.join("export/up")).unwrap();
    let open = |path: &str, contents: bool| {
        let below = Some(Dir::open(&trees.source.join("export")).unwrap());
        let root = SourceRoot { path: path.into(), contents, below };
        LocalSource::open(vec![root], options())
    };
    assert!(open("../secret", false).is_err());
    assert!(open("up/secret", false).is_err());
    assert!(open("up", true).is_err());
    assert!(open("/d", true).is_ok());
    let source = open("", true).unwrap();
    let (found, _) = scan(&source);
    assert_eq!(found.paths(), [&b""[..], b"d", b"out", b"up"]);
    let mut stolen = found.entry("out").clone();
    stolen.kind = Kind::File { sparse: false, marked: false };
    assert!(source.open(&stolen).is_err());
    stolen.path = path(b"up/secret");
    assert!(source.open(&stolen).is_err());
}

#[test]
fn in_an_export_links_are_followed_that_stay_there_and_no_other() {
    let trees = trees();
    let export = trees.source.join("export");
    fs::create_dir_all(export.join("run/d")).unwrap();
    fs::create_dir(export.join("other")).unwrap();
    fs::write(export.join("other/f"), "in").unwrap();
    fs::write(trees.source.join("secret"), "out").unwrap();
    let absolute = export.join("other/f");
    for (name, says) in [
        ("run/d/file", Path::new("../../other/f")),
        ("run/dir", Path::new("../other")),
        ("run/out", Path::new("../../secret")),
        ("run/up", Path::new("../..")),
        ("run/absolute", absolute.as_path()),
        ("run/nowhere", Path::new("../absent")),
        ("named", Path::new("other")),
    ] {
        symlink(says, export.join(name)).unwrap();
    }
    let open = |path: &str, contents: bool| {
        let root = SourceRoot { path: path.into(), contents, below: Some(Dir::open(&export).unwrap()) };
        LocalSource::open(vec![root], ScanOptions { follow_links: true, ..options() })
    };
    for place in ["run", "/run/"] {
        let source = open(place, true).unwrap();
        let (found, totals) = scan(&source);
        assert_eq!(found.paths(), [&b""[..], b"d", b"d/file", b"dir", b"dir/f"]);
        for name in ["d/file", "dir/f"] {
            let mut buffer = [0; 2];
            source.read_small(found.entry(name), &mut buffer).unwrap();
            assert_eq!(&buffer, b"in", "{name}");
        }
        let told: Vec<_> =
            found.troubles.iter().map(|(path, failure)| (path.to_string(), failure.kind)).collect();
        let out = |name: &str| (name.to_owned(), FailureKind::Permission);
        let nowhere = ("nowhere".to_owned(), FailureKind::NotFound);
        assert_eq!(told, [out("absolute"), nowhere, out("out"), out("up")]);
        assert!(!totals.complete);
        // One that is swapped for a way out after it was looked at.
        fs::remove_file(export.join("run/d/file")).unwrap();
        symlink("../../../secret", export.join("run/d/file")).unwrap();
        let refused = source.open(found.entry("d/file")).err().unwrap();
        assert!(!refused.to_string().contains("secret"), "{refused}");
        fs::remove_file(export.join("run/d/file")).unwrap();
        symlink("../../other/f", export.join("run/d/file")).unwrap();
    }
    // A link that is named itself.
    let (found, _) = scan(&open("named", false).unwrap());
    assert_eq!(found.paths(), [&b"named"[..], b"named/f"]);
    assert_eq!(open("run/d/file", false).unwrap().form(), SourceForm::Single { name: b"file".to_vec() });
    for place in ["run/out", "run/up", "run/absolute", "run/nowhere", "run/none"] {
        let refused = open(place, false).err().expect(place);
        assert_eq!(refused.cause, format!("the export has no `{place}`"));
    }
}

#[test]
fn where_a_file_lies_is_what_the_file_system_says() {
    const PIECE: u64 = 256 << 10;
    // Beside the sources: where the system keeps scratch files there may be no map.
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = fs::File::create(scratch.path().join("f")).unwrap();
    file.set_len(64 << 20).unwrap();
    let starts = [8 << 20, 1 << 20, 40 << 20];
    for start in starts {
        file.write_all_at(&vec![7; PIECE as usize], start).unwrap();
    }
    // Before that the pieces have no place.
    file.sync_all().unwrap();
    let source = contents(scratch.path());
    let (found, _) = scan(&source);
    let placed = match source.layout(found.entry("f")) {
        Ok(places) => {
            assert_eq!(places.unplaced_bytes, 0, "all of it was synced");
            places.placed
        }
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
            println!("skipped: the layout of a file: {}", failure.cause);
            return;
        }
    };
    for start in starts {
        let end = start + PIECE;
        let of_piece = placed.iter().filter(|run| run.logical < end && run.logical + run.length > start);
        let covered: u64 =
            of_piece.map(|run| (run.logical + run.length).min(end) - run.logical.max(start)).sum();
        assert_eq!(covered, PIECE, "{start}: {placed:?}");
    }
    let held: u64 = placed.iter().map(|run| run.length).sum();
    assert!(held < 2 * starts.len() as u64 * PIECE, "holes have no place: {placed:?}");
    // One place holds one byte.
    let mut places: Vec<_> = placed.iter().map(|run| (run.device, run.physical, run.length)).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[0].1 + pair[0].2 <= pair[1].1), "{placed:?}");
    let held = Dir::open(scratch.path()).unwrap().open_read(b"f").unwrap();
    let told = thalweg_sys::extents(&held, 1000).unwrap();
    let told: Vec<_> =
        told.iter().filter(|run| !run.unplaced && !run.inline).map(|run| run.physical).collect();
    assert_eq!(placed.iter().map(|run| run.physical).collect::<Vec<_>>(), told);
}
