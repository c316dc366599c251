//! Trees and single objects, there and back.

use super::servers::{Kind, Server, each, with};
use super::support::noise;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

const MIB: usize = 1 << 20;

/// Files of all sizes with modes and times of their own: what a bucket can keep.
fn make_files(root: &Path) {
    let times = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    let sizes = [0, 1, 4095, 70_000, 9 * MIB + 17];
    for (number, bytes) in sizes.into_iter().enumerate() {
        for directory in ["", "deep/", "deep/er still/"] {
            let path = root.join(format!("{directory}file {number} é+&%"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, noise(number as u64, bytes)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640 - number as u32)).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(times + Duration::from_secs(number as u64)).unwrap();
        }
    }
}

/// What a bucket keeps of files: content, mode, time.
fn files(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.push(path);
                continue;
            }
            let content = blake3::hash(&std::fs::read(&path).unwrap());
            let (mode, seconds, nanos) = (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec());
            let name = path.strip_prefix(root).unwrap().display().to_string();
            all.insert(name, format!("{content} mode {mode:o} time {seconds}.{nanos:09}"));
        }
    }
    all
}

fn done(server: &Server, words: &[&str]) -> u64 {
    server.ok(&[&["cp", "--json"][..], words].concat()).number("done")
}

#[test]
fn a_tree_goes_into_a_bucket_and_comes_back_the_same_and_the_second_time_nothing_moves() {
    each("tree", |server| {
        make_files(&server.scratch.path("from"));
        let (from, there, back) = (server.path("from/"), server.place("run7/"), server.path("back/"));
        server.ok(&["cp", &from, &there]);
        server.ok(&["cp", &there, &back]);
        let sent = files(&server.scratch.path("from"));
        assert_eq!(files(&server.scratch.path("back")), sent);
        assert_eq!(server.keys().len(), sent.len(), "{:?}", server.keys());
        assert_eq!(server.unfinished_bytes(), 0);
        for (from, to) in [(&from, &there), (&there, &back)] {
            let again = server.ok(&["cp", "--json", from, to]);
            assert_eq!((again.number("bytes_done"), again.number("bytes_received")), (0, 0), "{from} {to}");
        }
        // In parts it comes back the same.
        for part in ["1/3", "2/3", "3/3"] {
            server.ok(&["cp", "--part", part, &there, &server.path("parts/")]);
            let alone = server.path(&format!("part-{}/", &part[..1]));
            server.ok(&["cp", "--part", part, &there, &alone]);
        }
        assert_eq!(files(&server.scratch.path("parts")), sent);
        let alone = |number: usize| files(&server.scratch.path(&format!("part-{number}")));
        assert_eq!((1..=3).map(|number| alone(number).len()).sum::<usize>(), sent.len());
        // In parts it goes there too, each once.
        for (part, is_new) in [("1/2", true), ("2/2", true), ("1/2", false), ("2/2", false)] {
            let there = server.place("in-parts/");
            let told = server.ok(&["cp", "--json", "--part", part, &from, &there]);
            assert_eq!(told.number("bytes_done") > 0, is_new, "{part}");
        }
        server.ok(&["cp", &server.place("in-parts/"), &server.path("of-parts/")]);
        assert_eq!(files(&server.scratch.path("of-parts")), sent);
        // What changed moves, and nothing else.
        std::fs::write(server.scratch.path("from/file 1 é+&%"), b"other").unwrap();
        assert_eq!(done(server, &[&from, &there]), 1);
        assert_eq!(server.get("run7/file 1 é+&%").as_deref(), Some(&b"other"[..]));
    });
}

/// The copy that ends it finds there what passed, also of files that were copied directly before.
#[test]
fn what_goes_into_a_bucket_through_a_stage_is_uploaded_once() {
    each("stage", |server| {
        make_files(&server.scratch.path("from"));
        let (from, stage) = (server.path("from/"), server.path("stage"));
        std::fs::create_dir(&stage).unwrap();
        for (there, time) in [("run7/", None), ("timeless/", Some("--no-times"))] {
            let there = server.place(there);
            let command = |words: &[&str]| {
                let places = [from.as_str(), there.as_str()];
                let words: Vec<&str> = words.iter().copied().chain(time).chain(places).collect();
                server.ok(&words)
            };
            let copy = || {
                let ran = command(&["cp", "--json", "--stage", &stage]);
                let told: serde_json::Value =
                    serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
                ["bytes_done", "bytes_past"].map(|key| told[key].as_u64().unwrap())
            };
            let all_bytes = 3 * (1 + 4095 + 70_000 + 9 * MIB + 17);
            assert_eq!(copy(), [all_bytes as u64, 0], "{there}");
            let changed = server.scratch.path("from/file 1 é+&%");
            std::fs::write(&changed, format!("directly to {there}")).unwrap();
            command(&["cp"]);
            let content = format!("by a stage to {there}");
            std::fs::write(&changed, &content).unwrap();
            assert_eq!(copy(), [content.len() as u64, 0], "{there}");
            std::fs::write(&changed, b"x").unwrap();
        }
        server.ok(&["cp", "--stage", &stage, &from, &server.place("run7/")]);
        server.ok(&["cp", &server.place("run7/"), &server.path("back/")]);
        assert_eq!(files(&server.scratch.path("back")), files(&server.scratch.path("from")));
        assert_eq!(server.unfinished_bytes(), 0);
    });
}

#[test]
fn a_directory_without_a_slash_goes_with_its_name_both_ways() {
    each("names of trees", |server| {
        std::fs::create_dir_all(server.scratch.path("tree/in")).unwrap();
        std::fs::write(server.scratch.path("tree/in/a"), b"a").unwrap();
        server.ok(&["cp", &server.path("tree"), &server.place("up/")]);
        assert_eq!(server.keys(), ["up/tree/in/a"]);
        server.ok(&["cp", &server.place("up/tree"), &server.path("down/")]);
        assert_eq!(std::fs::read(server.scratch.path("down/tree/in/a")).unwrap(), b"a");
        server.ok(&["cp", &server.place("up/tree/"), &server.path("contents/")]);
        assert_eq!(std::fs::read(server.scratch.path("contents/in/a")).unwrap(), b"a");
    });
}

#[test]
fn single_objects_get_the_name_that_is_written_or_keep_their_own() {
    each("single objects", |server| {
        std::fs::write(server.scratch.path("f"), b"content").unwrap();
        let file = server.path("f");
        server.ok(&["cp", &file, &server.place("new-name")]);
        server.ok(&["cp", &file, &server.place("dir/")]);
        server.ok(&["cp", &file, "s3://data"]);
        assert_eq!(server.keys(), ["dir/f", "f", "new-name"]);
        server.ok(&["cp", &server.place("new-name"), &server.path("renamed")]);
        std::fs::create_dir(server.scratch.path("into")).unwrap();
        server.ok(&["cp", &server.place("dir/f"), &server.path("into/")]);
        for name in ["renamed", "into/f"] {
            assert_eq!(std::fs::read(server.scratch.path(name)).unwrap(), b"content", "{name}");
        }
        assert_eq!(server.ok(&["cat", &server.place("dir/f")]).stdout, "content");
    });
}

#[test]
fn a_large_object_is_made_of_parts_as_large_as_chunks() {
    each("parts", |server| {
        std::fs::write(server.scratch.path("large"), noise(1, 40 * MIB)).unwrap();
        server.ok(&["cp", "--chunk", "8MiB", &server.path("large"), &server.place("large")]);
        let etag = server.objects()[0].1.replace('"', "");
        assert!(etag.ends_with("-5"), "{etag}");
        server.ok(&["cp", &server.place("large"), &server.path("back")]);
        assert!(std::fs::read(server.scratch.path("back")).unwrap() == noise(1, 40 * MIB));
        assert_eq!(server.unfinished_bytes(), 0);
        // Chunks that would be too small for a part are as large as one has to be.
        server.ok(&["cp", "--chunk", "1MiB", &server.path("large"), &server.place("again")]);
        assert!(server.get("again").unwrap() == noise(1, 40 * MIB));
    });
}

#[test]
fn two_thousand_small_objects_go_there_and_back() {
    each("small objects", |server| {
        for number in 0..2000u64 {
            let path = server.scratch.path(&format!("from/{}/{number}", number % 20));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, noise(number, 100)).unwrap();
        }
        server.ok(&["cp", &server.path("from/"), &server.place("small/")]);
        assert_eq!(server.keys().len(), 2000);
        server.ok(&["cp", &server.place("small/"), &server.path("back/")]);
        assert_eq!(files(&server.scratch.path("back")), files(&server.scratch.path("from")));
    });
}

/// As where a gateway is put before a file system that is there already: it names no versions, and times of files have
/// parts of a second that it does not show.
#[test]
fn files_that_lie_behind_a_gateway_come_as_objects_without_versions() {
    with(Kind::Versity, "objects without versions", |server| {
        let there = server.files().join("run");
        std::fs::create_dir_all(there.join("d")).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 999_000_000);
        let names = [("small", 4096), ("d/whole", 3 * MIB), ("d/parts", 40 * MIB)];
        for (name, bytes) in names {
            let path = there.join(name);
            std::fs::write(&path, noise(bytes as u64, bytes)).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert!(server.objects().iter().all(|(_, version)| version.is_empty()), "it names versions");
        let (from, to) = (server.place("run/"), server.path("back/"));
        server.ok(&["cp", &from, &to]);
        for (name, bytes) in names {
            let path = server.scratch.path("back").join(name);
            assert!(std::fs::read(path).unwrap() == noise(bytes as u64, bytes), "{name}");
        }
        assert_eq!(done(server, &[&from, &to]), 0, "what is there is known by size and time");
    });
}

#[test]
fn a_dry_run_writes_nothing_and_what_exists_is_left_alone_where_that_is_asked() {
    each("dry run", |server| {
        std::fs::create_dir(server.scratch.path("from")).unwrap();
        for name in ["a", "b"] {
            std::fs::write(server.scratch.path("from").join(name), b"new").unwrap();
        }
        server.put("t/a", b"older content");
        let (from, there) = (server.path("from/"), server.place("t/"));
        server.ok(&["cp", "-n", &from, &there]);
        assert_eq!(server.keys(), ["t/a"]);
        server.ok(&["cp", "--ignore-existing", &from, &there]);
        assert_eq!(server.get("t/a").as_deref(), Some(&b"older content"[..]));
        assert_eq!(server.get("t/b").as_deref(), Some(&b"new"[..]));
        server.ok(&["cp", &from, &there]);
        assert_eq!(server.get("t/a").as_deref(), Some(&b"new"[..]));
    });
}

#[test]
fn excluded_names_stay_where_they_are() {
    each("filters", |server| {
        for key in ["run/keep", "run/raw/1", "run/raw/2"] {
            server.put(key, b"x");
        }
        server.ok(&["cp", "--exclude", "raw/", &server.place("run/"), &server.path("down/")]);
        assert!(server.scratch.path("down/keep").exists() && !server.scratch.path("down/raw").exists());
    });
}

#[test]
fn a_receipt_of_a_bucket_verifies_until_an_object_is_another() {
    each("receipts", |server| {
        make_files(&server.scratch.path("from"));
        let (receipt, there) = (server.path("receipt"), server.place("kept/"));
        server.ok(&["cp", "--receipt", &receipt, &server.path("from/"), &there]);
        server.ok(&["verify", &receipt, &there]);
        server.put("kept/file 2 é+&%", &noise(9, 4095));
        let verified = server.run(&["verify", &receipt, &there]);
        assert_ne!(verified.code, Some(0), "{}", verified.stdout);
        assert!(format!("{}{}", verified.stdout, verified.stderr).contains("file 2"), "{verified:?}");
    });
}

#[test]
fn a_bucket_is_listed_summed_compared_and_removed() {
    each("questions", |server| {
        make_files(&server.scratch.path("from"));
        let (from, there) = (server.path("from/"), server.place("q/"));
        server.ok(&["cp", &from, &there]);
        let top = server.ok(&["ls", &there]).stdout;
        assert!(top.contains("deep/\n") && !top.contains("er still"), "{top}");
        assert!(server.ok(&["ls", "-R", &there]).stdout.contains("deep/er still/file 4"));
        assert!(server.ok(&["du", &there]).stdout.contains("15 files"));
        server.ok(&["check", &from, &there]);
        server.ok(&["check", &there, &from]);
        server.put("q/deep/file 3 é+&%", &noise(9, 70_000));
        server.put("q/more", b"x");
        let differs = server.run(&["check", &from, &there]).expect(2);
        assert!(differs.stdout.contains("deep/file 3") && differs.stdout.contains("more"), "{differs:?}");
        server.run(&["rm", &server.place("q")]).expect(3);
        server.ok(&["rm", &server.place("q/more")]);
        server.put("other", b"x");
        server.ok(&["rm", "-r", &server.place("q")]);
        assert_eq!(server.keys(), ["other"]);
        server.run(&["ls", &there]).expect(3);
    });
}

#[test]
fn what_the_source_lacks_is_deleted_in_a_bucket_within_what_is_allowed() {
    each("deletion in buckets", |server| {
        let from = server.scratch.path("from");
        std::fs::create_dir_all(from.join("d")).unwrap();
        for name in ["a", "d/b"] {
            std::fs::write(from.join(name), b"new").unwrap();
        }
        for key in ["t/a", "t/old", "t/d/old", "t/gone/x", "t/kept/raw", "t2/x", "x"] {
            server.put(key, b"before");
        }
        let (from, there) = (server.path("from/"), server.place("t/"));
        let sync = |words: &[&str]| {
            let fixed = ["sync", "--delete", "--exclude", "raw", &from, &there];
            server.run(&[&fixed[..], words].concat())
        };
        let refused = sync(&["--max-delete", "2"]);
        assert!(refused.code != Some(0) && refused.stderr.contains("3 entries would be"), "{refused:?}");
        // It names them and removes none.
        let told = sync(&["-n"]).expect(0);
        let told = format!("{}{}", told.stdout, told.stderr);
        assert!(["old", "d/old", "gone/x"].iter().all(|name| told.contains(name)), "{told}");
        assert!(server.get("t/old").is_some() && server.get("t/gone/x").is_some());
        sync(&["--max-delete", "3"]).expect(0);
        assert_eq!(server.keys(), ["t/a", "t/d/b", "t/kept/raw", "t2/x", "x"]);
        // Below a name that is copied, nothing beside it is looked at.
        server.ok(&["sync", "--delete", &server.path("from"), &server.place("t2")]);
        assert_eq!(server.keys(), ["t/a", "t/d/b", "t/kept/raw", "t2/from/a", "t2/from/d/b", "t2/x", "x"]);
    });
}

#[test]
fn several_places_in_a_bucket_are_copied_in_one_copy() {
    each("several sources", |server| {
        for key in ["run/a", "run/d/b", "one", "more"] {
            server.put(key, key.as_bytes());
        }
        let down = server.path("down");
        server.ok(&["cp", &server.place("run"), &server.place("one"), &down]);
        for name in ["run/a", "run/d/b", "one"] {
            let found = std::fs::read_to_string(server.scratch.path("down").join(name)).unwrap();
            assert_eq!(found, name);
        }
        assert!(!server.scratch.path("down/more").exists());
        let again = server.ok(&["cp", "--json", &server.place("run"), &server.place("one"), &down]);
        assert_eq!(again.number("bytes_done"), 0);
        // And where they are removed, only what was copied goes.
        let moved = server.path("moved");
        server.ok(&["cp", "--remove-source-files", &server.place("run"), &server.place("one"), &moved]);
        assert_eq!(server.keys(), ["more"]);
        assert_eq!(std::fs::read(server.scratch.path("moved/run/d/b")).unwrap(), b"run/d/b");
    });
}

/// A bucket says nothing of its directories: those that are here stay as they are, and lose what the bucket has not.
#[test]
fn what_a_bucket_lacks_is_deleted_at_the_top_too_and_directories_keep_their_modes() {
    each("deletion", |server| {
        for key in ["t/a", "t/d/b"] {
            server.put(key, b"x");
        }
        let down = server.scratch.path("down");
        std::fs::create_dir_all(down.join("d")).unwrap();
        for name in ["", "d"] {
            std::fs::set_permissions(down.join(name), std::fs::Permissions::from_mode(0o700)).unwrap();
            std::fs::write(down.join(name).join("extra"), b"x").unwrap();
        }
        let (from, to) = (server.place("t/"), server.path("down/"));
        server.ok(&["cp", &from, &to]);
        assert!(down.join("extra").exists());
        // What tells of it would go with the rest; beside what a prefix becomes nothing does.
        let report = server.path("down/x.report");
        let words = ["sync", "--delete", "--report", &report];
        let refused = server.run(&[&words[..], &[&from, &to]].concat());
        assert!(refused.code != Some(0) && down.join("extra").exists(), "{}", refused.stderr);
        server.ok(&[&words[..], &[&server.place("t"), &to]].concat());
        assert!(down.join("t/a").exists() && down.join("x.report").exists() && down.join("extra").exists());
        server.ok(&["sync", "--delete", &from, &to]);
        assert_eq!(files(&down).into_keys().collect::<Vec<_>>(), ["a", "d/b"]);
        for name in ["", "d"] {
            assert_eq!(std::fs::metadata(down.join(name)).unwrap().mode() & 0o777, 0o700, "`{name}`");
        }
    });
}
