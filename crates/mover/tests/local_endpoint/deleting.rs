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

/// A source that changes after all was settled is offered again, and there is another end.
#[test]
fn what_goes_at_another_end_counts_with_what_went_before_it() {
    let trees = prepared();
    let source = contents(&trees.source);
    let destination = open(delete(&trees.target, 6), &source.form()).unwrap();
    let (found, totals) = scan(&source);
    for entry in &found.entries {
        match destination.decide(entry, &|_, _| true) {
            Decision::Settled { outcome, .. } => destination.settled(entry, &outcome),
            _ => panic!("{} is wanted", entry.path),
        }
    }
    let first = destination.conclude(totals.listing(), &|| true);
    assert!(first.troubles.is_empty(), "{:?}", first.troubles);
    assert_eq!((first.deleted, first.deleted_names.len()), (5, 5));
    fs::write(trees.target.join("extra"), "x").unwrap();
    let second = destination.conclude(totals.listing(), &|| true);
    assert!(second.troubles.is_empty(), "{:?}", second.troubles);
    assert_eq!((second.deleted, second.deleted_names), (6, vec![path(b"extra")]));
    // All that may go went.
    fs::write(trees.target.join("extra"), "x").unwrap();
    let third = destination.conclude(totals.listing(), &|| true);
    assert_eq!(third.troubles[0].kind, FailureKind::Usage, "{:?}", third.troubles);
    assert!(third.deleted == 6 && trees.target.join("extra").exists());
    destination.close(true);
    assert!(!trees.target.join(std::ffi::OsStr::from_bytes(STAGING_NAME)).exists());
}

/// Many take long, on a network file system above all: who waits for the end is to know that it gets on.
#[test]
fn the_end_tells_that_it_gets_on_with_each_name_that_it_counts_or_removes() {
    let trees = prepared();
    for number in 0..100 {
        fs::write(trees.target.join(format!("extra-{number}")), "x").unwrap();
    }
    // Not counted, and as many names to remove.
    let left = leave_unfinished(&trees.target.join("kept/gone"), &our_job(), "partial-0");
    for number in 1..1000 {
        fs::write(left.join(format!("partial-{number}")), "x").unwrap();
    }
    let copied = copy(&contents(&trees.source), delete(&trees.target, 1000));
    assert_eq!(copied.assert_whole().conclusion.deleted, 105);
    assert!(copied.end_steps >= 210 + 1000, "{}", copied.end_steps);
    assert!(!left.exists());
}

/// As many as there are may take minutes, and nobody waits for them any more.
#[test]
fn who_is_stopped_deletes_no_more() {
    let trees = prepared();
    fs::create_dir(trees.target.join("old")).unwrap();
    for number in 0..100 {
        fs::write(trees.target.join(format!("old/{number}")), "x").unwrap();
    }
    let left = || fs::read_dir(trees.target.join("old")).map_or(0, Iterator::count);
    // From the beginning, and when something went.
    for (bound, is_begun) in [(101, false), (100, true)] {
        let source = contents(&trees.source);
        let destination = open(delete(&trees.target, 1000), &source.form()).unwrap();
        let (found, totals) = scan(&source);
        for entry in &found.entries {
            match destination.decide(entry, &|_, _| true) {
                Decision::Settled { outcome, .. } => destination.settled(entry, &outcome),
                _ => panic!("{} is wanted", entry.path),
            }
        }
        let told = destination.conclude(totals.listing(), &|| left() >= bound);
        let [trouble] = &told.troubles[..] else { panic!("{:?}", told.troubles) };
        assert_eq!(trouble.kind, FailureKind::Stopped, "{trouble}");
        assert_eq!(told.deleted > 0, is_begun);
        assert_eq!(left(), if is_begun { 99 } else { 100 });
        destination.close(false);
    }
}

#[test]
fn one_too_many_and_nothing_goes() {
    let trees = prepared();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 4));
    assert_eq!(copied.conclusion.deleted, 0);
    assert_eq!(copied.conclusion.troubles[0].kind, FailureKind::Usage);
    let cause = &copied.conclusion.troubles[0].cause;
    assert!(cause.contains("5 entries") && cause.ends_with("`, 2 more, which a dry run names"), "{cause}");
    assert_eq!(cause.matches('`').count(), 6, "three names: {cause}");
    assert!(trees.target.join("kept/gone/deep/f").exists() && trees.target.join("extra").exists());
}

/// That is when somebody looks at what would go.
#[test]
fn a_dry_run_names_what_is_too_much_to_be_deleted_and_refuses_it_all_the_same() {
    let trees = prepared();
    let before = picture(&trees.target);
    let terms = Terms { delete_max: Some(4), dry_run: true, ..terms() };
    let copied = copy(&contents(&trees.source), To { terms, ..to(&trees.target) });
    assert_eq!((copied.conclusion.deleted, copied.conclusion.deleted_names.len()), (5, 5));
    let troubles = &copied.conclusion.troubles;
    assert!(troubles.len() == 1 && troubles[0].kind == FailureKind::Usage, "{troubles:?}");
    assert!(troubles[0].cause.ends_with("5 entries would be, and 4 are allowed"), "{troubles:?}");
    assert_eq!(picture(&trees.target), before);
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

/// As a mount point with `--one-file-system`.
#[test]
fn what_is_in_a_directory_that_was_offered_and_not_listed_stays() {
    let trees = prepared();
    let source = contents(&trees.source);
    let destination = open(delete(&trees.target, 5), &source.form()).unwrap();
    let (found, _) = scan(&source);
    for entry in found.entries.iter().filter(|entry| entry.path.as_bytes() != b"kept/sub") {
        match destination.decide(entry, &|_, _| true) {
            Decision::Settled { outcome, .. } => destination.settled(entry, &outcome),
            _ => panic!("{} is wanted", entry.path),
        }
    }
    destination.skipped(&path(b"kept"));
    let conclusion = destination.conclude(Listing::Whole, &|| true);
    assert!(conclusion.troubles.is_empty(), "{:?}", conclusion.troubles);
    assert_eq!(conclusion.deleted_names, [path(b"extra")]);
    assert!(trees.target.join("kept/gone/deep/f").exists());
    destination.close(true);
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

/// Sources below `trees.source`, each with its content's place, or named.
fn several(trees: &Trees, names: &[&str], contents: bool) -> LocalSource {
    let root = |name: &&str| SourceRoot { path: trees.source.join(name), contents, below: None };
    LocalSource::open(names.iter().map(root).collect(), options()).unwrap()
}

/// What it was mounted on is an empty directory.
#[test]
fn in_a_named_directory_that_is_empty_nothing_goes_and_beside_it_all_that_is_lacking() {
    let trees = trees();
    for name in ["run7", "run8"] {
        fs::create_dir_all(trees.source.join(name)).unwrap();
        fs::create_dir_all(trees.target.join(name).join("deep")).unwrap();
        fs::write(trees.target.join(name).join("deep/old"), "x").unwrap();
    }
    fs::write(trees.source.join("run7/new"), "x").unwrap();
    let copied = copy(&several(&trees, &["run7", "run8"], false), delete(&trees.target, 10));
    assert_eq!(copied.conclusion.deleted, 2);
    let [trouble] = &copied.conclusion.troubles[..] else { panic!("{:?}", copied.conclusion.troubles) };
    assert!(trouble.cause.contains("it is empty at the source, and has 1 entry here"), "{trouble}");
    assert_eq!(trouble.path, Some(path(b"run8")));
    assert!(trees.target.join("run8/deep/old").exists() && !trees.target.join("run7/deep").exists());
    // One in which a name is left out is not empty.
    fs::write(trees.source.join("run8/left.out"), "x").unwrap();
    fs::create_dir(trees.source.join("run9")).unwrap();
    let root = |name| SourceRoot { path: trees.source.join(name), contents: false, below: None };
    let scanned = ScanOptions { filter: filter(&[(false, "*.out")]), ..options() };
    let source = LocalSource::open(["run8", "run9"].map(root).into_iter().collect(), scanned).unwrap();
    let copied = copy(&source, delete(&trees.target, 10));
    assert_eq!(copied.assert_whole().conclusion.deleted, 2);
}

#[test]
fn of_several_sources_with_one_that_is_empty_nothing_goes() {
    let trees = trees();
    for name in ["a", "b"] {
        fs::create_dir_all(trees.source.join(name)).unwrap();
        fs::write(trees.source.join(name).join(format!("of-{name}")), "x").unwrap();
    }
    let both = || several(&trees, &["a", "b"], true);
    copy(&both(), delete(&trees.target, 10)).assert_whole();
    fs::remove_file(trees.source.join("b/of-b")).unwrap();
    let copied = copy(&both(), delete(&trees.target, 10));
    let [trouble] = &copied.conclusion.troubles[..] else { panic!("{:?}", copied.conclusion.troubles) };
    assert!(trouble.cause.contains("one of the sources is empty, and 1 entry would go"), "{trouble}");
    assert!(copied.conclusion.deleted == 0 && trees.target.join("of-b").exists());
    // Where nothing would go nothing is said.
    fs::remove_file(trees.target.join("of-b")).unwrap();
    copy(&both(), delete(&trees.target, 10)).assert_whole();
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

/// As stores keep what is named by its content.
#[test]
fn what_goes_does_so_also_where_we_may_change_nothing_and_what_stays_is_closed_again() {
    if is_root() {
        eprintln!("skipped: root may write where it is closed");
        return;
    }
    let trees = prepared();
    fs::create_dir_all(trees.target.join("objects/ab")).unwrap();
    fs::create_dir(trees.target.join("mine")).unwrap();
    for name in ["objects/ab/1", "objects/ab/2", "mine/a.keep", "mine/b"] {
        fs::write(trees.target.join(name), "x").unwrap();
    }
    let chmod = |name: &str, mode| {
        fs::set_permissions(trees.target.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    ["objects/ab", "objects", "mine"].into_iter().for_each(|name| chmod(name, 0o555));
    let rules = || filter(&[(false, "*.keep")]);
    let source = contents_with(&trees.source, ScanOptions { filter: rules(), ..options() });
    let terms = Terms { delete_max: Some(10), dry_run: true, ..terms() };
    let dry = copy(&source, To { protect: rules(), terms, ..to(&trees.target) });
    assert_eq!(dry.conclusion.deleted, 10);
    let copied = copy(&source, To { protect: rules(), ..delete(&trees.target, 10) });
    assert_eq!(copied.assert_whole().conclusion.deleted, 10);
    assert!(!trees.target.join("objects").exists() && !trees.target.join("mine/b").exists());
    assert!(trees.target.join("mine/a.keep").exists());
    assert_eq!(fs::metadata(trees.target.join("mine")).unwrap().mode() & 0o7777, 0o555);
    chmod("mine", 0o755);
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

/// A file `a` and a directory `b/c/f` at the source; the other way round at the destination, with more.
fn crossed() -> Trees {
    let trees = trees();
    fs::write(trees.source.join("a"), "file now").unwrap();
    fs::create_dir_all(trees.source.join("b/c")).unwrap();
    fs::write(trees.source.join("b/c/f"), "x").unwrap();
    fs::create_dir_all(trees.target.join("a/deep")).unwrap();
    fs::write(trees.target.join("a/deep/1"), "x").unwrap();
    symlink("/etc", trees.target.join("a/link-to-etc")).unwrap();
    fs::write(trees.target.join("b"), "was a file").unwrap();
    trees
}

#[test]
fn a_file_takes_the_place_of_a_directory_and_a_directory_that_of_a_file() {
    let trees = crossed();
    // Four of the directory, one file.
    let copied = copy(&contents(&trees.source), delete(&trees.target, 5));
    assert_eq!(copied.assert_whole().conclusion.deleted, 5);
    assert_eq!(picture(&trees.source), picture(&trees.target));
    assert!(Path::new("/etc/passwd").exists());
    let names: Vec<&[u8]> = copied.conclusion.deleted_names.iter().map(|path| path.as_bytes()).collect();
    assert!(names.contains(&&b"b"[..]) && names.contains(&&b"a/deep/1"[..]), "{names:?}");
}

#[test]
fn without_being_asked_to_delete_neither_takes_the_others_place() {
    let trees = crossed();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    for path in ["a", "b", "b/c", "b/c/f"] {
        assert_eq!(copied.failure(path).kind, FailureKind::Conflict, "{path}");
    }
    assert_eq!(fs::read(trees.target.join("b")).unwrap(), b"was a file");
    assert!(trees.target.join("a/deep/1").exists());
}

#[test]
fn a_dry_run_counts_what_would_make_way_and_touches_nothing() {
    let trees = crossed();
    let before = picture(&trees.target);
    let dry =
        |max| To { terms: Terms { delete_max: Some(max), dry_run: true, ..terms() }, ..to(&trees.target) };
    let copied = copy(&contents(&trees.source), dry(5));
    assert_eq!(copied.assert_whole().conclusion.deleted, 5);
    assert_eq!(copied.conclusion.deleted_names.len(), 5);
    assert_eq!(picture(&trees.target), before);
    let copied = copy(&contents(&trees.source), dry(4));
    assert_eq!(copied.failure("b").kind, FailureKind::Usage);
}

#[test]
fn what_makes_way_counts_as_deleted_and_no_more_goes_than_may() {
    let trees = crossed();
    fs::write(trees.target.join("z-extra"), "x").unwrap();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 4));
    // The directory went, the file has no room any more, and neither has what the source lacks.
    assert_eq!(copied.failure("b").kind, FailureKind::Usage);
    assert!(copied.failure("b").cause.contains("0 more"), "{:?}", copied.failure("b"));
    assert_eq!(copied.conclusion.deleted, 4);
    assert!(copied.conclusion.troubles[0].cause.contains("4 made way"), "{:?}", copied.conclusion.troubles);
    assert_eq!(fs::read(trees.target.join("a")).unwrap(), b"file now");
    assert!(trees.target.join("z-extra").exists());
}

/// Else an outage between two would let twice as many go.
#[test]
fn what_made_way_in_an_attempt_that_did_not_end_counts_in_the_next_one() {
    // Before its end, and at it.
    for is_at_end in [false, true] {
        let trees = crossed();
        let source = contents(&trees.source);
        let destination = open(delete(&trees.target, 4), &source.form()).unwrap();
        let (found, _) = scan(&source);
        for entry in found.entries.iter().filter(|entry| matches!(entry.path.as_bytes(), b"" | b"a")) {
            if !matches!(destination.decide(entry, &|_, _| true), Decision::Settled { .. }) {
                let outcome = move_file(&source, &destination, entry, None, &mut |_: &Entry| {});
                assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
            }
        }
        if is_at_end {
            let told = destination.conclude(Listing::Whole, &|| false);
            let [trouble] = &told.troubles[..] else { panic!("{:?}", told.troubles) };
            assert_eq!(trouble.kind, FailureKind::Stopped, "{trouble}");
        }
        destination.close(false);
        assert_eq!(fs::read(trees.target.join("a")).unwrap(), b"file now");
        let copied = copy(&source, delete(&trees.target, 4));
        assert_eq!(copied.failure("b").kind, FailureKind::Usage);
        assert!(copied.failure("b").cause.contains("0 more"), "{:?}", copied.failure("b"));
        assert_eq!(copied.conclusion.deleted, 4);
        assert_eq!(fs::read(trees.target.join("b")).unwrap(), b"was a file");
        // It went at that end, and counts no more.
        let last = copy(&source, delete(&trees.target, 1));
        assert_eq!(last.assert_whole().conclusion.deleted, 1);
    }
}

#[test]
fn a_directory_with_excluded_names_does_not_make_way() {
    let trees = crossed();
    fs::write(trees.target.join("a/deep/mine.keep"), "x").unwrap();
    let rules = || filter(&[(false, "*.keep")]);
    let source = contents_with(&trees.source, ScanOptions { filter: rules(), ..options() });
    let copied = copy(&source, To { protect: rules(), ..delete(&trees.target, 100) });
    assert_eq!(copied.failure("a").kind, FailureKind::Conflict);
    assert!(copied.failure("a").cause.contains("excluded"), "{:?}", copied.failure("a"));
    assert!(trees.target.join("a/deep/mine.keep").exists() && trees.target.join("a/deep/1").exists());
    // A rule for directories alone excludes the directory that stands there, and not the source's file.
    let rules = || filter(&[(false, "a/")]);
    let source = contents_with(&trees.source, ScanOptions { filter: rules(), ..options() });
    let copied = copy(&source, To { protect: rules(), ..delete(&trees.target, 100) });
    assert_eq!(copied.failure("a").kind, FailureKind::Conflict);
    assert!(trees.target.join("a/deep/1").exists());
}

#[test]
fn links_and_hard_links_take_the_place_of_directories_too() {
    let trees = trees();
    fs::write(trees.source.join("first"), "x").unwrap();
    fs::hard_link(trees.source.join("first"), trees.source.join("second")).unwrap();
    symlink("first", trees.source.join("link")).unwrap();
    for name in ["second", "link"] {
        fs::create_dir_all(trees.target.join(name).join("inside")).unwrap();
    }
    symlink("/etc", trees.target.join("to-be-a-directory")).unwrap();
    fs::create_dir(trees.source.join("to-be-a-directory")).unwrap();
    fs::write(trees.source.join("to-be-a-directory/f"), "x").unwrap();
    let copied = copy(&contents(&trees.source), delete(&trees.target, 5));
    assert_eq!(copied.assert_whole().conclusion.deleted, 5);
    assert_eq!(picture(&trees.source), picture(&trees.target));
    assert!(!Path::new("/etc/f").exists());
}

/// What a killed copy has unfinished in a directory: its root, or one with flags of its own.
fn leave_unfinished(directory: &Path, job: &str, name: &str) -> PathBuf {
    let own = directory.join(std::ffi::OsStr::from_bytes(STAGING_NAME)).join(job);
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join(name), "x").unwrap();
    own
}

fn our_job() -> String {
    terms().job_key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_a_killed_copy_has_unfinished_in_a_directory_that_goes_does_so_with_it_unless_a_copy_uses_it() {
    let trees = prepared();
    let gone = trees.target.join("kept/gone");
    leave_unfinished(&gone.join("deep"), &our_job(), "partial-7");
    let begun_in_it = leave_unfinished(&gone, "begun in it", "lock");
    leave_unfinished(&gone.join("deep"), "begun in it", "partial-1");
    let begun_above = leave_unfinished(&trees.target, "begun above", "lock");
    leave_unfinished(&gone, "begun above", "partial-1");
    let unknown = leave_unfinished(&gone, "unknown", "partial-1");
    let again = |dry_run| {
        let terms = Terms { dry_run, delete_max: Some(5), ..terms() };
        let copied = copy(&contents(&trees.source), To { terms, ..to(&trees.target) });
        copied.assert_whole().conclusion.deleted
    };
    let lock = |own: &Path| {
        let lock = Dir::open(own).unwrap().open_read_write(b"lock").unwrap();
        assert!(lock.lock_exclusive().unwrap());
        lock
    };
    // Nobody can say whose lock keeps it: all but that directory goes, with what is unfinished below it.
    assert_eq!((again(true), again(false)), (4, 4));
    assert!(!gone.join("deep").exists() && unknown.join("partial-1").exists());
    fs::remove_dir_all(unknown).unwrap();
    for own in [&begun_in_it, &begun_above] {
        let held = lock(own);
        assert_eq!((again(true), again(false)), (0, 0), "a copy uses it");
        assert!(begun_in_it.join("lock").exists() && own.join("lock").exists());
        drop(held);
    }
    assert_eq!(again(true), 1);
    assert!(begun_in_it.join("lock").exists(), "a dry run");
    assert_eq!(again(false), 1);
    assert!(!gone.exists() && begun_above.join("lock").exists());
}

#[test]
fn what_makes_way_takes_along_what_this_job_left_unfinished_in_it_and_nobody_else_s() {
    for (job, is_ours) in [(our_job(), true), ("other".to_owned(), false)] {
        let trees = trees();
        fs::write(trees.source.join("d"), "file now").unwrap();
        let left = leave_unfinished(&trees.target.join("d"), &job, "lock");
        let copied = copy(&contents(&trees.source), delete(&trees.target, 10));
        match is_ours {
            true => assert_eq!(fs::read(trees.target.join("d")).unwrap(), b"file now"),
            false => {
                assert_eq!(copied.failure("d").kind, FailureKind::Conflict);
                assert!(left.join("lock").exists());
            }
        }
        assert!(!trees.target.join(std::ffi::OsStr::from_bytes(STAGING_NAME)).exists());
    }
}

/// An attempt of the same job whose root is further down.
#[test]
fn what_has_the_name_of_this_job_and_is_in_use_stays() {
    let trees = trees();
    fs::write(trees.source.join("d"), "file now").unwrap();
    let left = leave_unfinished(&trees.target.join("d"), &our_job(), "lock");
    let lock = Dir::open(&left).unwrap().open_read_write(b"lock").unwrap();
    assert!(lock.lock_exclusive().unwrap());
    let copied = copy(&contents(&trees.source), delete(&trees.target, 10));
    assert_eq!(copied.failure("d").kind, FailureKind::Conflict);
    assert!(left.join("lock").exists());
}

#[test]
fn what_fills_a_directory_between_decision_and_name_counts() {
    let trees = trees();
    fs::write(trees.source.join("a"), "file now").unwrap();
    fs::create_dir_all(trees.target.join("a")).unwrap();
    fs::write(trees.target.join("a/1"), "x").unwrap();
    let late = trees.target.join("a/2");
    let copied = copy_with(&contents(&trees.source), delete(&trees.target, 2), |entry| {
        if entry.path.as_bytes() == b"a" {
            fs::write(&late, "x").unwrap();
        }
    });
    assert_eq!(copied.failure("a").kind, FailureKind::Usage);
    assert!(late.exists() && trees.target.join("a/1").exists());
    assert!(!trees.target.join(".thalweg-staging").exists());
}

#[test]
fn a_very_deep_directory_makes_way() {
    let trees = trees();
    fs::write(trees.source.join("a"), "file now").unwrap();
    fs::create_dir_all(&trees.target).unwrap();
    // Deeper than a path may be long.
    let mut at = std::sync::Arc::new(Dir::open(&trees.target).unwrap());
    let name = [b'd'; 200];
    for depth in 0..40 {
        let name: &[u8] = if depth == 0 { b"a" } else { &name };
        at.make_dir(name, 0o700).unwrap();
        at = std::sync::Arc::new(at.open_beneath(name, Links::Refuse).unwrap());
    }
    drop(at);
    let copied = copy(&contents(&trees.source), delete(&trees.target, 40));
    assert_eq!(copied.assert_whole().conclusion.deleted, 40);
    assert_eq!(fs::read(trees.target.join("a")).unwrap(), b"file now");
}
