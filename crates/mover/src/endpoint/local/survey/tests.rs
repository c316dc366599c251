use super::*;
use thalweg_sys::Advice;

fn listed(place: &SurveyPlace) -> Vec<String> {
    let mut names = Vec::new();
    list(place, true, &mut |found| {
        if let Found::Entry(entry) = found {
            names.push(entry.path.to_string());
        }
        Ok(())
    })
    .unwrap();
    names
}

#[test]
fn a_link_that_leads_out_of_an_export_is_as_absent_as_what_is_not_there() {
    let scratch = tempfile::tempdir().unwrap();
    let export = scratch.path().join("export");
    std::fs::create_dir(&export).unwrap();
    std::fs::write(scratch.path().join("secret"), b"x").unwrap();
    for (link, target) in [("up", "../secret"), ("away", "/etc/passwd"), ("dir", ".."), ("gone", "nowhere")] {
        std::os::unix::fs::symlink(target, export.join(link)).unwrap();
    }
    let ask = |path: &str| {
        let below = Some(Dir::open(&export).unwrap());
        let place = SurveyPlace { path: path.into(), below, follow_links: false };
        let failure = read(&place, 0, 0, None, &mut |_| panic!("bytes of {path}")).unwrap_err();
        Failure { cause: failure.cause.replace(path, "PATH"), ..failure }
    };
    let absent = ask("not-there");
    for path in ["up", "away", "dir/secret", "gone", "../secret", ".thalweg-staging/x"] {
        assert_eq!(ask(path), absent, "{path}");
    }
}

#[test]
fn a_look_sees_a_link_as_such_unless_it_is_to_be_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    std::fs::create_dir_all(root.join("export/run7/below")).unwrap();
    std::os::unix::fs::symlink("run7", root.join("export/latest")).unwrap();
    std::os::unix::fs::symlink("..", root.join("export/out")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("export/socket")).unwrap();
    let below = || SurveyPlace {
        path: PathBuf::new(),
        below: Some(Dir::open(&root.join("export")).unwrap()),
        follow_links: false,
    };
    let own = || SurveyPlace { path: root.join("export"), below: None, follow_links: false };
    for place in [&below as &dyn Fn() -> SurveyPlace, &own] {
        let look = |path: &str, follow| {
            let place = place();
            look(&SurveyPlace { path: place.path.join(path), ..place }, follow)
        };
        let is_link = |entry: Entry| matches!(entry.kind, thalweg_wire::Kind::Symlink { .. });
        let is_directory = |entry: Entry| entry.kind == thalweg_wire::Kind::Directory && entry.path.is_root();
        assert!(is_link(look("latest", false).unwrap()));
        assert!(is_directory(look("latest", true).unwrap()));
        // On the way a link leads on, as everywhere.
        assert!(is_directory(look("latest/below", false).unwrap()));
        for follow in [false, true] {
            assert!(is_directory(look("run7", follow).unwrap()));
            assert!(is_directory(look("", follow).unwrap()));
            assert_eq!(look("absent", follow).unwrap_err().kind, FailureKind::NotFound);
            assert_eq!(look("socket", follow).unwrap_err().kind, FailureKind::Unsupported);
        }
        assert!(is_link(look("out", false).unwrap()));
    }
    let place = below();
    let out = SurveyPlace { path: "out/export".into(), ..place };
    assert_eq!(look(&out, false).unwrap_err().kind, FailureKind::NotFound);
}

#[test]
fn what_is_read_of_a_file_is_of_the_one_that_was_seen_or_there_is_a_failure() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    std::fs::write(&path, vec![7; 2 * PIECE_BYTES]).unwrap();
    let place = SurveyPlace { path: path.clone(), below: None, follow_links: false };
    let seen = || {
        let file = Dir::open(scratch.path()).unwrap().open_read(b"file").unwrap();
        Some(evidence_of(&file.stat().unwrap()))
    };
    let before = seen();
    let mut got = 0;
    read(&place, 5, 0, before, &mut |piece| {
        got += piece.len();
        Ok(())
    })
    .unwrap();
    assert_eq!(got, 2 * PIECE_BYTES - 5);
    // While it is read, in place, by who makes sure that a coarse clock has gone on.
    let failure = read(&place, 0, 0, before, &mut |_| {
        while seen() == before {
            std::fs::write(&path, vec![8; 2 * PIECE_BYTES]).unwrap();
        }
        Ok(())
    })
    .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed);
    // Another one under its name.
    let before = seen();
    std::fs::write(scratch.path().join("new"), vec![9; 2 * PIECE_BYTES]).unwrap();
    std::fs::rename(scratch.path().join("new"), &path).unwrap();
    let failure = read(&place, 0, 1, before, &mut |_| panic!("bytes of another file")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed);
    assert!(failure.cause.contains("file"), "{failure}");
    read(&place, 0, 1, None, &mut |_| Ok(())).unwrap();
}

#[test]
fn digesting_a_file_leaves_nothing_of_it_in_the_page_cache() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    let bytes = (32 << 20) + 12_345;
    std::fs::write(&path, vec![7; bytes as usize]).unwrap();
    let file = Dir::open(scratch.path()).unwrap().open_read(b"file").unwrap();
    file.sync_all().unwrap();
    file.advise(Advice::DontNeed, 0, 0).unwrap();
    // A file system in memory keeps it, and an older kernel does not tell.
    if file.cached_bytes(0, bytes).ok() != Some(0) {
        return;
    }
    for how in [DigestAs::Plain, DigestAs::Marked { segment_bytes: 1 << 20 }] {
        assert_eq!(digest_file(&file, how, &mut || Ok(())).unwrap().0, bytes);
        assert_eq!(file.cached_bytes(0, bytes).unwrap(), 0);
    }
}

#[test]
fn a_file_that_looks_changed_once_is_read_again_and_one_that_always_does_has_changed() {
    let file = File::from_fd(tempfile::tempfile().unwrap().into());
    let mut readings = 0;
    let bytes = of_one_moment(&file, |seen| {
        readings += 1;
        if readings == 1 {
            file.write_all_at(b"x", 0).unwrap();
        }
        Ok(seen.size)
    })
    .unwrap();
    assert_eq!((bytes, readings), (1, 2));
    let failure = of_one_moment(&file, |seen| {
        file.write_all_at(b"x", seen.size).unwrap();
        Ok(())
    })
    .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed);
    assert_eq!(file.stat().unwrap().size, 1 + u64::from(READINGS_MAX));
    // What cannot be read is no change.
    let mut readings = 0;
    let failure = of_one_moment(&file, |_| {
        readings += 1;
        Err::<(), _>(Failure::new(FailureKind::Io, "read", "a test"))
    })
    .unwrap_err();
    assert_eq!((failure.kind, readings), (FailureKind::Io, 1));
}

#[test]
fn where_links_are_followed_what_they_lead_to_is_listed_and_digested_and_loops_end() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    std::fs::create_dir_all(tree.join("real/sub")).unwrap();
    std::fs::create_dir(tree.join(".thalweg-staging")).unwrap();
    std::fs::write(tree.join("real/sub/f"), b"x").unwrap();
    std::fs::write(scratch.path().join("beside"), b"x").unwrap();
    for (name, says) in [
        ("again", "real"),
        ("into", ".thalweg-staging"),
        ("nowhere", "absent"),
        ("out", "../beside"),
        ("real/back", "../to-file"),
        ("real/up", ".."),
        ("to-file", "again/sub/f"),
    ] {
        std::os::unix::fs::symlink(says, tree.join(name)).unwrap();
    }
    let own = |path: &str| SurveyPlace { path: tree.join(path), below: None, follow_links: true };
    let below = |path: &str| SurveyPlace {
        path: path.into(),
        below: Some(Dir::open(&tree).unwrap()),
        follow_links: true,
    };
    let places: [&dyn Fn(&str) -> SurveyPlace; 2] = [&own, &below];
    for (place, leads_out) in places.into_iter().zip([true, false]) {
        let (mut names, mut troubles) = (Vec::new(), Vec::new());
        list(&place(""), true, &mut |found| {
            match found {
                Found::Entry(entry) if entry.path.is_root() => {}
                Found::Entry(entry) => {
                    assert!(!matches!(entry.kind, thalweg_wire::Kind::Symlink { .. }), "{}", entry.path);
                    names.push(entry.path.to_string());
                }
                Found::Trouble(failure) => {
                    assert_eq!(failure.reason, Reason::NotFollowed, "{failure}");
                    troubles.push(failure.path.unwrap().to_string());
                }
            }
            Ok(())
        })
        .unwrap();
        let of = |all: &[&'static str]| -> Vec<&'static str> {
            all.iter().copied().filter(|name| *name != "out" || leads_out).collect()
        };
        let again = ["again", "again/back", "again/sub", "again/sub/f", "out"];
        let real = ["real", "real/back", "real/sub", "real/sub/f", "to-file"];
        assert_eq!(names, of(&[again, real].concat()));
        troubles.retain(|name| name != "out");
        assert_eq!(troubles, ["again/up", "nowhere", "real/up"]);
        let files = |path: &str| {
            let mut files = Vec::new();
            digest(&place(path), DigestAs::Plain, 1, &mut |digested| {
                if let Digested::File(path, 1, _) = digested {
                    files.push(path.to_string());
                }
                Ok(())
            })
            .unwrap();
            files
        };
        let all = ["again/back", "again/sub/f", "out", "real/back", "real/sub/f", "to-file"];
        assert_eq!(files(""), of(&all));
        assert_eq!(files("real/back"), ["back"]);
    }
}

#[test]
fn removing_a_tree_follows_no_link_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    std::fs::create_dir(scratch.path().join("other")).unwrap();
    std::fs::write(scratch.path().join("other/kept"), b"x").unwrap();
    std::fs::write(tree.join("a/b/file"), b"x").unwrap();
    std::os::unix::fs::symlink("../other", tree.join("link")).unwrap();
    let place = SurveyPlace { path: tree.clone(), below: None, follow_links: false };
    assert_eq!(remove(&place, false, &mut |_| Ok(())).unwrap_err().kind, FailureKind::Conflict);
    let mut count = 0;
    remove(&place, true, &mut |removed| {
        assert!(matches!(removed, Removed::One), "{removed:?}");
        count += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(count, 5);
    assert!(!tree.exists() && scratch.path().join("other/kept").exists());
}

#[test]
fn a_directory_alone_goes_only_while_nothing_is_in_it_and_where_its_name_says_that_it_is_one() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("d")).unwrap();
    std::fs::write(scratch.path().join("d/came"), b"x").unwrap();
    let gone = |path: &str| {
        let below = Some(Dir::open(scratch.path()).unwrap());
        let place = SurveyPlace { path: path.into(), below, follow_links: false };
        remove(&place, false, &mut |_| Ok(())).map_err(|failure| failure.kind)
    };
    assert_eq!(gone("d/"), Err(FailureKind::Conflict), "something is in it");
    assert!(scratch.path().join("d/came").exists());
    assert_eq!(gone("d/came"), Ok(()));
    assert_eq!(gone("d"), Err(FailureKind::Conflict), "its name does not say so");
    assert_eq!(gone("d/"), Ok(()));
    assert!(!scratch.path().join("d").exists());
}

/// Somebody may have put it there since the directory was seen.
#[test]
fn what_is_no_directory_does_not_go_by_the_name_of_one() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("other")).unwrap();
    std::fs::write(scratch.path().join("file"), b"x").unwrap();
    std::os::unix::fs::symlink("other", scratch.path().join("link")).unwrap();
    for name in ["file/", "link/"] {
        for is_export in [true, false] {
            for recursive in [true, false] {
                let below = is_export.then(|| Dir::open(scratch.path()).unwrap());
                let path = if is_export { name.into() } else { scratch.path().join(name) };
                let place = SurveyPlace { path, below, follow_links: false };
                let failure = remove(&place, recursive, &mut |_| Ok(())).unwrap_err();
                assert_eq!(failure.kind, FailureKind::Conflict, "{name}: {failure}");
            }
        }
    }
    assert!(scratch.path().join("file").exists() && scratch.path().join("link/").exists());
}

#[test]
fn listings_are_in_order_with_the_directory_first_and_without_staging() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(scratch.path().join(".thalweg-staging/job")).unwrap();
    std::fs::create_dir(scratch.path().join("d")).unwrap();
    std::fs::write(scratch.path().join("d/x"), b"").unwrap();
    std::fs::write(scratch.path().join("a"), b"").unwrap();
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    assert_eq!(listed(&place), [".", "a", "d", "d/x"]);
    let place = SurveyPlace { path: scratch.path().join("a"), below: None, follow_links: false };
    assert_eq!(listed(&place), ["a"]);
}

#[test]
fn a_directory_of_more_names_than_are_sorted_at_once_says_that_they_come_in_no_order() {
    let scratch = tempfile::tempdir().unwrap();
    for directory in ["few", "many"] {
        std::fs::create_dir(scratch.path().join(directory)).unwrap();
    }
    std::fs::write(scratch.path().join("few/x"), b"").unwrap();
    for number in 0..=super::super::walk::SORTED_NAMES_MAX {
        std::fs::File::create(scratch.path().join(format!("many/{number}"))).unwrap();
    }
    let unordered = |path: PathBuf| {
        let (mut last, mut unordered) = (String::new(), Vec::new());
        list_in_order(&SurveyPlace { path, below: None, follow_links: false }, true, &mut |listed| {
            match listed {
                Listed::Found(Found::Entry(entry)) => last = entry.path.to_string(),
                Listed::Unordered(directory) => {
                    assert_eq!(directory.to_string(), last);
                    unordered.push(last.clone());
                }
                Listed::Found(Found::Trouble(failure)) => panic!("{failure}"),
            }
            Ok(())
        })
        .unwrap();
        unordered
    };
    assert_eq!(unordered(scratch.path().to_owned()), ["many"]);
    assert_eq!(unordered(scratch.path().join("many")), ["."]);
    assert!(unordered(scratch.path().join("few")).is_empty());
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    let mut told = Vec::new();
    digest_wanted(&place, DigestAs::Plain, WORKERS, &|_| false, &mut |piece| {
        if let Digested::Unordered(directory) = piece {
            told.push(directory.to_string());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(told, ["many"], "digests");
    // Behind a path: of the directory itself all of it again, of a name in it those that are greater.
    let behind = |after: &str| {
        let after = RelativePath::new(after.as_bytes().to_vec()).unwrap();
        let (mut unordered, mut names) = (0, 0);
        list_behind(&place, true, Some(&after), &mut |listed| {
            match listed {
                Listed::Found(Found::Entry(_)) => names += 1,
                Listed::Unordered(_) => unordered += 1,
                Listed::Found(Found::Trouble(failure)) => panic!("{failure}"),
            }
            Ok(())
        })
        .unwrap();
        (unordered, names)
    };
    let all = super::super::walk::SORTED_NAMES_MAX + 1;
    assert_eq!(behind("few/x"), (1, 1 + all));
    assert_eq!(behind("many"), (1, all));
    assert_eq!(behind("many/9"), (1, 10 + 100 + 1000));
    assert_eq!(behind("n"), (0, 0));
}

#[test]
fn what_comes_behind_a_path_is_told_and_nothing_that_is_before_it() {
    let scratch = tempfile::tempdir().unwrap();
    for path in ["a", "b/c/d", "b/c/e", "b/f", "b-g", "h/i"] {
        let path = scratch.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    let listed = |after: Option<&RelativePath>| {
        let mut all = Vec::new();
        list_behind(&place, true, after, &mut |listed| {
            match listed {
                Listed::Found(Found::Entry(entry)) => all.push(entry.path),
                other => panic!("{other:?}"),
            }
            Ok(())
        })
        .unwrap();
        all
    };
    let digested = |after: Option<&RelativePath>, workers| {
        let mut all = Vec::new();
        digest_behind(&place, DigestAs::Plain, workers, (after, None), &mut |piece| {
            if let Digested::File(path, ..) = piece {
                all.push(path);
            }
            Ok(())
        })
        .unwrap();
        all
    };
    let all = listed(None);
    assert_eq!(all.len(), 10);
    for (at, after) in all.iter().enumerate() {
        assert_eq!(listed(Some(after)), &all[at + 1..], "{after}");
        let is_file = |path: &&RelativePath| scratch.path().join(path.to_string()).is_file();
        let files: Vec<RelativePath> = all[at + 1..].iter().filter(is_file).cloned().collect();
        for workers in [0, WORKERS] {
            assert_eq!(digested(Some(after), workers), files, "{after}");
        }
    }
    // Whether or not it is still there.
    let gone = RelativePath::new(b"b/c/dd".to_vec()).unwrap();
    assert_eq!(listed(Some(&gone)), &all[5..]);
    // A place that is one file.
    let place = SurveyPlace { path: scratch.path().join("a"), below: None, follow_links: false };
    list_behind(&place, true, Some(&all[1]), &mut |listed| panic!("{listed:?}")).unwrap();
}

#[test]
fn only_files_that_are_wanted_are_digested() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("d")).unwrap();
    for name in ["a", "b", "d/a"] {
        std::fs::write(scratch.path().join(name), name).unwrap();
    }
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    let mut digested = Vec::new();
    let wanted = |path: &RelativePath| path.as_bytes() != b"a";
    digest_wanted(&place, DigestAs::Plain, WORKERS, &wanted, &mut |piece| {
        if let Digested::File(path, ..) = piece {
            digested.push(path.to_string());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(digested, ["b", "d/a"]);
    // Of parts each file is in one, and what another part has is not told.
    let mut of_parts = Vec::new();
    for number in 1..=3 {
        let part = PartOf::new(number, 3).unwrap();
        digest_behind(&place, DigestAs::Plain, WORKERS, (None, Some(part)), &mut |piece| {
            if let Digested::File(path, ..) = piece {
                assert!(part::has_name(part, &path), "{path} in {part}");
                of_parts.push(path.to_string());
            }
            Ok(())
        })
        .unwrap();
    }
    of_parts.sort_unstable();
    assert_eq!(of_parts, ["a", "b", "d/a"]);
}

/// More of them than may be ahead of what is told; the first are the largest.
#[test]
fn files_are_told_in_the_order_of_a_listing_however_many_are_digested_at_a_time() {
    const FILES: usize = 1500;
    let scratch = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("d{}/{number:04}", number / 500);
    let content = |number: usize| vec![number as u8; if number < 8 { 1 << 20 } else { number }];
    for number in 0..FILES {
        let path = scratch.path().join(name(number));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content(number)).unwrap();
    }
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    for workers in [0, 1, WORKERS] {
        let mut next = 0;
        digest(&place, DigestAs::Plain, workers, &mut |piece| {
            match piece {
                Digested::File(path, bytes, digest) => {
                    let content = content(next);
                    assert_eq!((path.to_string(), bytes), (name(next), content.len() as u64), "{workers}");
                    assert_eq!(digest, Digest(*blake3::hash(&content).as_bytes()), "{path}");
                    next += 1;
                }
                Digested::Alive => {}
                other => panic!("{other:?}"),
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(next, FILES, "{workers}");
    }
}

/// More files than wait for a worker are behind one of eight terabytes, none of them on the disk: who comes to the last
/// has had others digested meanwhile.
#[test]
fn files_behind_a_large_one_are_digested_meanwhile_and_a_sink_that_fails_ends_all() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::File::create(scratch.path().join("a")).unwrap().set_len(8 << 40).unwrap();
    for number in 0..100 {
        std::fs::write(scratch.path().join(format!("b{number:02}")), "small").unwrap();
    }
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    let is_last_seen = std::cell::Cell::new(false);
    let wanted = |path: &RelativePath| {
        is_last_seen.set(is_last_seen.get() || path.as_bytes() == b"b99");
        true
    };
    let mut signs = 0;
    let ended = digest_wanted(&place, DigestAs::Plain, WORKERS, &wanted, &mut |piece| {
        assert!(matches!(piece, Digested::Alive), "its turn has not come: {piece:?}");
        signs += 1;
        // One after the other, it would be hours.
        match is_last_seen.get() || signs > 30 {
            true => Err(Failure::new(FailureKind::Stopped, "digest", "enough")),
            false => Ok(()),
        }
    });
    assert_eq!((ended.unwrap_err().cause.as_str(), is_last_seen.get()), ("enough", true));
}

/// Else the end of its thread would wait for that of eight terabytes.
#[test]
fn a_sink_that_panics_ends_all_as_one_that_fails() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::File::create(scratch.path().join("a")).unwrap().set_len(8 << 40).unwrap();
    let place = SurveyPlace { path: scratch.path().to_owned(), below: None, follow_links: false };
    let mut sink = |_: Digested| -> Result<()> { panic!("as the test wants it") };
    let digests = || digest(&place, DigestAs::Plain, WORKERS, &mut sink);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(digests)).is_err());
}

#[test]
fn a_marked_digest_depends_on_content_and_not_on_what_the_disk_keeps() {
    let file = tempfile::tempfile().unwrap();
    let bytes = HASHED_HOLE_BYTES_MAX + (3 << 20) + 5;
    file.set_len(bytes).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"island", 700 << 20).unwrap();
    let how = DigestAs::Marked { segment_bytes: 1 << 20 };
    let file = File::from_fd(file.into());
    let sparse = digest_file(&file, how, &mut || Ok(())).unwrap();
    file.write_all_at(&vec![0; 2 << 20], 5 << 20).unwrap();
    assert_eq!(digest_file(&file, how, &mut || Ok(())).unwrap(), sparse);
    file.write_all_at(b"!", 6 << 20).unwrap();
    assert_ne!(digest_file(&file, how, &mut || Ok(())).unwrap(), sparse);
}

/// One file stands on the medium only, and of one some pages are somebody's.
#[test]
fn what_is_digested_leaves_the_page_cache_as_it_was() {
    const BYTES: u64 = 40 << 20;
    // /dev/shm and /tmp may have no medium; the working directory usually has one.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let content: Vec<u8> = (0..BYTES).map(|at| (at >> 9) as u8).collect();
    let put = |name: &[u8]| {
        let file = dir.create_new(name, 0o600).unwrap();
        file.write_all_at(&content, 0).unwrap();
        file.sync_all().unwrap();
        file
    };
    let (out, there, small) = (put(b"out"), put(b"there"), dir.create_new(b"small", 0o600).unwrap());
    small.write_all_at(b"small", 0).unwrap();
    small.sync_all().unwrap();
    for file in [&out, &there, &small] {
        file.advise(Advice::DontNeed, 0, 0).unwrap();
    }
    let cached = |file: &File| file.cached_bytes(0, BYTES).unwrap_or(u64::MAX);
    let mut piece = vec![0; 4 << 20];
    there.read_at(&mut piece, 20 << 20).unwrap();
    let there_before = cached(&there);
    if cached(&out) > 0 || cached(&small) > 0 || !(4 << 20..16 << 20).contains(&there_before) {
        eprintln!("skipped: what is cached is not told here, or cannot be dropped");
        return;
    }
    let has_direct = there.direct_alignment().unwrap().is_some();
    for how in [DigestAs::Plain, DigestAs::Marked { segment_bytes: 1 << 20 }] {
        for (name, bytes) in [("out", BYTES), ("there", BYTES), ("small", 5)] {
            let place = SurveyPlace { path: scratch.path().join(name), below: None, follow_links: false };
            let mut answers = Vec::new();
            let mut take = |answer| {
                answers.push(answer);
                Ok(())
            };
            digest(&place, how, WORKERS, &mut take).unwrap();
            let plain = if bytes == BYTES { &content[..] } else { b"small" };
            let plain = Digest(*blake3::hash(plain).as_bytes());
            let is_right = |answer: &Digested| match answer {
                Digested::File(_, seen, digest) => *seen == bytes && *digest == plain,
                _ => false,
            };
            assert!(answers.len() == 1 && is_right(&answers[0]), "{how:?} {name}: {answers:?}");
        }
        assert_eq!((cached(&out), cached(&small)), (0, 0), "{how:?}: what was not there");
        if has_direct {
            // The kernel may take a few pages of its own accord, and read ahead at the border of two regions.
            let there_after = cached(&there);
            assert!(there_after.abs_diff(there_before) <= 2 << 20, "{how:?}: {there_before} {there_after}");
        }
    }
}
