//! What is at the destination already is compared, and only what differs is sent.

mod support;

use std::fs::{FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use support::job::{Ran, Running, with};
use support::{Scratch, assert_no_litter, assert_same, make_tree, noise};

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// The three ways to the same destination: locally, and through a daemon in both directions.
#[derive(Clone, Copy, Debug)]
enum Way {
    Local,
    Push,
    Pull,
}

const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

/// Copies `from/` to `to` below the scratch directory, with a daemon that exports it where one is needed.
fn copy(scratch: &Scratch, way: Way, options: &[&str]) -> Ran {
    run(scratch, way, "cp", options)
}

/// The same with this command.
fn run(scratch: &Scratch, way: Way, command: &str, options: &[&str]) -> Ran {
    let mut command = with(scratch.thalweg(), [command, "--json", "--quiet"]);
    command.args(options);
    let daemon = match way {
        Way::Local => None,
        _ => Some(scratch.daemon(&[("all", scratch.root())])),
    };
    let (mut from, mut to) =
        (format!("{}/", scratch.path("from").display()), scratch.path("to").display().to_string());
    if let Some(daemon) = &daemon {
        command.arg("--ticket").arg(&daemon.ticket);
        match way {
            Way::Pull => from = daemon.place("all", "from/"),
            _ => to = daemon.place("all", "to"),
        }
    }
    let ran = Running::start(with(command, [from, to])).end(PATIENCE);
    if let Some(daemon) = daemon {
        daemon.terminate();
    }
    ran
}

fn set_mtime(path: &Path, seconds: u64) {
    let file = std::fs::File::options().read(true).open(path).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn is_file_with_content(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

fn files(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        let path = entry.path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(files(&path));
        } else if is_file_with_content(&path) {
            found.push(path);
        }
    }
    found
}

#[test]
fn content_that_is_there_is_not_sent_whatever_the_times_say() {
    for way in WAYS {
        let scratch = Scratch::new();
        make_tree(&scratch.path("from"));
        copy(&scratch, way, &[]).expect(0);
        files(&scratch.path("to")).iter().for_each(|path| set_mtime(path, 1_000_000_000));
        let ran = copy(&scratch, way, &["--check", "digest"]).expect(0);
        assert_eq!(ran.number("bytes_received"), 0, "{way:?}: {}", ran.finished());
        assert!(ran.number("bytes_same") > 0, "{way:?}: {}", ran.finished());
        assert_same(&scratch.path("from"), &scratch.path("to"));
        assert_no_litter(&scratch.path("to"));
        // Now times and the catalogue say so too.
        let ran = copy(&scratch, way, &[]).expect(0);
        assert_eq!((ran.number("bytes_received"), ran.number("bytes_same")), (0, 0), "{way:?}");
    }
}

#[test]
fn one_changed_chunk_is_sent_alone_and_the_others_are_copied() {
    for way in WAYS {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("from")).unwrap();
        let content = noise(1, 9 * MIB as usize + 1234);
        std::fs::write(scratch.path("from/file"), &content).unwrap();
        std::fs::write(scratch.path("from/small"), noise(2, 5000)).unwrap();
        copy(&scratch, way, &["--chunk", "1MiB"]).expect(0);
        // The same size and the same times: only a look at the content can tell.
        for name in ["file", "small"] {
            let path = scratch.path("to").join(name);
            let before = path.metadata().unwrap().modified().unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"!", if name == "file" { 3 * MIB + 77 } else { 4000 }).unwrap();
            file.set_times(FileTimes::new().set_modified(before)).unwrap();
        }
        let ran = copy(&scratch, way, &["--chunk", "1MiB", "--check", "digest"]).expect(0);
        assert_eq!(ran.number("bytes_received"), MIB + 5000, "{way:?}: {}", ran.finished());
        assert_eq!(ran.number("bytes_same"), 8 * MIB + 1234, "{way:?}: {}", ran.finished());
        // What the stages went by: all of both files was compared, and only what differed came.
        let evidence = &ran.finished()["evidence"];
        assert_eq!(evidence["bytes"], MIB + 5000, "{way:?}: {evidence}");
        assert_eq!(evidence["compared_bytes"], 9 * MIB + 1234 + 5000, "{way:?}: {evidence}");
        assert_eq!(std::fs::read(scratch.path("to/file")).unwrap(), content, "{way:?}");
        assert_same(&scratch.path("from"), &scratch.path("to"));
        assert_no_litter(&scratch.path("to"));
    }
}

#[test]
fn names_of_one_file_stay_so_whether_or_not_the_content_that_is_there_differs() {
    for way in WAYS {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("from")).unwrap();
        std::fs::write(scratch.path("from/a"), noise(1, 5 * MIB as usize)).unwrap();
        for name in ["from/b", "from/c"] {
            std::fs::hard_link(scratch.path("from/a"), scratch.path(name)).unwrap();
        }
        copy(&scratch, way, &["--chunk", "1MiB"]).expect(0);
        for differs in [false, true] {
            let path = scratch.path("to/b");
            if differs {
                let before = path.metadata().unwrap().modified().unwrap();
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.write_all_at(b"!", 3 * MIB + 77).unwrap();
                file.set_times(FileTimes::new().set_modified(before)).unwrap();
            }
            let ran = copy(&scratch, way, &["--chunk", "1MiB", "--check", "digest"]).expect(0);
            let sent = if differs { MIB } else { 0 };
            assert_eq!(ran.number("bytes_received"), sent, "{way:?}: {}", ran.finished());
            assert_same(&scratch.path("from"), &scratch.path("to"));
            assert_eq!(path.metadata().unwrap().nlink(), 3, "{way:?}, differs: {differs}");
        }
    }
}

#[test]
fn a_file_that_grew_or_shrank_costs_only_its_new_chunks() {
    for (before, after, sent) in
        [(5 * MIB, 8 * MIB + 9, 3 * MIB + 9), (8 * MIB + 9, 5 * MIB, 0), (5 * MIB + 7, 6 * MIB, MIB)]
    {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("from")).unwrap();
        let content = noise(3, before.max(after) as usize);
        std::fs::write(scratch.path("from/file"), &content[..before as usize]).unwrap();
        copy(&scratch, Way::Push, &["--chunk", "1MiB"]).expect(0);
        std::fs::write(scratch.path("from/file"), &content[..after as usize]).unwrap();
        let ran = copy(&scratch, Way::Push, &["--chunk", "1MiB", "--check", "digest"]).expect(0);
        assert_eq!(ran.number("bytes_received"), sent, "{before} to {after}: {}", ran.finished());
        assert_same(&scratch.path("from"), &scratch.path("to"));
    }
}

#[test]
fn a_change_of_mode_at_the_source_sends_no_content() {
    for way in WAYS {
        let scratch = Scratch::new();
        make_tree(&scratch.path("from"));
        copy(&scratch, way, &[]).expect(0);
        for path in files(&scratch.path("from")) {
            let mode = path.metadata().unwrap().mode();
            std::fs::set_permissions(&path, Permissions::from_mode(mode ^ 0o001)).unwrap();
        }
        let ran = copy(&scratch, way, &[]).expect(0);
        assert_eq!(ran.number("bytes_received"), 0, "{way:?}: {}", ran.finished());
        assert_same(&scratch.path("from"), &scratch.path("to"));
    }
}

#[test]
fn without_times_what_has_the_same_size_is_compared_once_and_not_sent_again() {
    for way in WAYS {
        let scratch = Scratch::new();
        make_tree(&scratch.path("from"));
        files(&scratch.path("from")).iter().for_each(|path| set_mtime(path, 1_000_000_000));
        copy(&scratch, way, &["--no-times"]).expect(0);
        for path in files(&scratch.path("to")) {
            assert!(path.metadata().unwrap().mtime() > 1_000_000_000, "{way:?}: {}", path.display());
        }
        let ran = copy(&scratch, way, &["--no-times"]).expect(0);
        assert_eq!(ran.number("bytes_received"), 0, "{way:?}: {}", ran.finished());
        assert!(ran.number("bytes_same") > 0, "{way:?}: {}", ran.finished());
        let ran = copy(&scratch, way, &["--no-times"]).expect(0);
        assert_eq!((ran.number("bytes_received"), ran.number("bytes_same")), (0, 0), "{way:?}");
        // Who wants them after all gets them, and no content.
        let ran = copy(&scratch, way, &[]).expect(0);
        assert_eq!(ran.number("bytes_received"), 0, "{way:?}: {}", ran.finished());
        assert_same(&scratch.path("from"), &scratch.path("to"));
    }
}

#[test]
fn a_dry_run_compares_and_changes_nothing() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    for name in ["same", "other"] {
        std::fs::write(scratch.path("from").join(name), noise(4, 2 * MIB as usize)).unwrap();
    }
    copy(&scratch, Way::Push, &[]).expect(0);
    set_mtime(&scratch.path("to/other"), 1_000_000_000);
    std::fs::File::options()
        .write(true)
        .open(scratch.path("to/other"))
        .unwrap()
        .write_all_at(b"!", MIB)
        .unwrap();
    let before = std::fs::read(scratch.path("to/other")).unwrap();
    let ran = copy(&scratch, Way::Push, &["--check", "digest", "--dry-run"]).expect(0);
    // The directory and `same` on one side, `other` on the other.
    assert_eq!((ran.number("done"), ran.number("unchanged")), (1, 2), "{}", ran.finished());
    assert_eq!(std::fs::read(scratch.path("to/other")).unwrap(), before);
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn holes_are_compared_as_holes() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    let file = std::fs::File::create(scratch.path("from/hole")).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(b"island", 700 << 30).unwrap();
    copy(&scratch, Way::Push, &[]).expect(0);
    set_mtime(&scratch.path("to/hole"), 1_000_000_000);
    let ran = copy(&scratch, Way::Push, &["--check", "digest"]).expect(0);
    assert_eq!(ran.number("bytes_received"), 0, "{}", ran.finished());
    // Data where the source has a hole make a difference, and leave nothing behind.
    let copied = std::fs::File::options().write(true).open(scratch.path("to/hole")).unwrap();
    copied.write_all_at(b"reef", 100 << 30).unwrap();
    copy(&scratch, Way::Push, &["--check", "digest"]).expect(0);
    let mut found = [0xff; 4];
    let copied = std::fs::File::open(scratch.path("to/hole")).unwrap();
    copied.read_exact_at(&mut found, 100 << 30).unwrap();
    assert_eq!(found, [0; 4]);
    let mut island = [0; 6];
    copied.read_exact_at(&mut island, 700 << 30).unwrap();
    assert_eq!(&island, b"island");
    assert!(copied.metadata().unwrap().blocks() * 512 <= MIB);
}

#[test]
fn a_comparison_that_was_killed_goes_on() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    let content = noise(5, 48 * MIB as usize);
    std::fs::write(scratch.path("from/file"), &content).unwrap();
    let mut old = content.clone();
    (0..48).step_by(3).for_each(|chunk| old[chunk * MIB as usize] ^= 1);
    std::fs::create_dir_all(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("to/file"), &old).unwrap();
    let options = ["cp", "--quiet", "--json", "--chunk", "1MiB", "--check", "digest"];
    let places = [scratch.path("from/"), scratch.path("to")];
    for after in [20, 60, 120] {
        let running = Running::start(with(with(scratch.thalweg(), options), &places));
        std::thread::sleep(Duration::from_millis(after));
        running.kill();
        let now = std::fs::read(scratch.path("to/file")).unwrap();
        assert!(now == old || now == content, "a mixture stands under the name");
    }
    Running::start(with(with(scratch.thalweg(), options), &places)).end(PATIENCE).expect(0);
    assert!(std::fs::read(scratch.path("to/file")).unwrap() == content);
    assert_no_litter(&scratch.path("to"));
}

/// What `from/dir/file` has, and what stands at the destination under these names; all as old.
fn put_alike(scratch: &Scratch, content: &[u8], there: &[(&str, &[u8])]) {
    let there = there.iter().map(|&(name, content)| (format!("to/{name}"), content));
    for (name, content) in there.chain([("from/dir/file".to_owned(), content)]) {
        let path = scratch.path(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        set_mtime(&path, 1_000_000_000);
    }
}

/// Bytes that were sent, files and bytes that were found under other names.
fn renamed(ran: &Ran) -> (u64, u64, u64) {
    (ran.number("bytes_received"), ran.number("files_renamed"), ran.number("bytes_renamed"))
}

const FIND: [&str; 3] = ["--chunk", "1MiB", "--find-renames"];

#[test]
fn renamed_files_and_moved_trees_are_found_and_not_sent_and_old_names_go_only_at_the_end_of_a_sync() {
    for way in WAYS {
        for is_sync in [false, true] {
            let scratch = Scratch::new();
            let files = [("run/a", 3 * MIB + 1), ("run/deep/er/b", MIB), ("c", 200 << 10)];
            for (seed, (name, bytes)) in files.into_iter().enumerate() {
                let path = scratch.path("from").join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, noise(seed as u64, bytes as usize)).unwrap();
            }
            copy(&scratch, way, &[]).expect(0);
            std::fs::create_dir(scratch.path("from/old")).unwrap();
            for (from, to) in [("from/run", "from/old/shots"), ("from/c", "from/d")] {
                std::fs::rename(scratch.path(from), scratch.path(to)).unwrap();
            }
            let more: &[&str] = if is_sync { &["--delete"] } else { &[] };
            let options = [&FIND[..], more].concat();
            let ran = run(&scratch, way, if is_sync { "sync" } else { "cp" }, &options).expect(0);
            let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(renamed(&ran), (0, 3, bytes), "{way:?}: {}", ran.finished());
            assert_eq!(ran.number("bytes_same"), bytes, "{way:?}");
            if is_sync {
                // Three files and the three directories that they were in.
                assert_eq!(ran.number("deleted"), 6, "{way:?}");
                assert_same(&scratch.path("from"), &scratch.path("to"));
            } else {
                assert!(files.iter().all(|(name, _)| scratch.path("to").join(name).exists()), "{way:?}");
                assert_same(&scratch.path("from/old"), &scratch.path("to/old"));
                let (there, here) = (scratch.path("to/d"), scratch.path("from/d"));
                assert!(std::fs::read(there).unwrap() == std::fs::read(here).unwrap(), "{way:?}");
            }
            assert_no_litter(&scratch.path("to"));
        }
    }
}

#[test]
fn without_the_option_and_below_its_size_a_renamed_file_is_sent() {
    for (options, bytes) in [(&[][..], MIB), (&FIND[..], 100 << 10)] {
        let scratch = Scratch::new();
        let content = noise(1, bytes as usize);
        put_alike(&scratch, &content, &[("old", &content[..])]);
        let ran = copy(&scratch, Way::Push, options).expect(0);
        assert_eq!(renamed(&ran), (bytes, 0, 0), "{}", ran.finished());
    }
}

/// With one stream the first chunk is compared first.
#[test]
fn what_only_looks_like_a_renamed_file_is_sent_and_what_has_its_beginning_is_copied_from() {
    let options = [&FIND[..], &["--streams", "1"][..]].concat();
    let bytes = 3 * MIB + 5;
    let content = noise(1, bytes as usize);
    let mut differs_at_end = content.clone();
    differs_at_end[3 * MIB as usize] ^= 1;
    let other = noise(2, bytes as usize);
    for way in WAYS {
        for (there, expected) in [(&other, (bytes, 0, 0)), (&differs_at_end, (5, 1, 3 * MIB))] {
            let scratch = Scratch::new();
            put_alike(&scratch, &content, &[("old", &there[..])]);
            let ran = copy(&scratch, way, &options).expect(0);
            assert_eq!(renamed(&ran), expected, "{way:?}: {}", ran.finished());
            assert!(std::fs::read(scratch.path("to/dir/file")).unwrap() == content, "{way:?}");
            assert!(std::fs::read(scratch.path("to/old")).unwrap() == *there, "{way:?}");
            assert_no_litter(&scratch.path("to"));
        }
    }
}

#[test]
fn of_files_that_look_alike_the_name_decides_and_else_the_content() {
    let (content, other) = (noise(1, 2 * MIB as usize), noise(2, 2 * MIB as usize));
    let wrong = ["a", "b", "c", "e", "f", "g"].map(|name| (name, &other[..]));
    for (right, others) in [("moved/file", 6), ("d", 3)] {
        let scratch = Scratch::new();
        put_alike(&scratch, &content, &[&wrong[..others], &[(right, &content[..])][..]].concat());
        let ran = copy(&scratch, Way::Push, &FIND).expect(0);
        assert_eq!(renamed(&ran), (0, 1, 2 * MIB), "{right}: {}", ran.finished());
        assert!(std::fs::read(scratch.path("to/dir/file")).unwrap() == content);
    }
}

#[test]
fn names_of_one_file_are_one_guess_and_a_source_is_not_found_in_itself() {
    let (content, other) = (noise(1, 2 * MIB as usize), noise(2, 2 * MIB as usize));
    let scratch = Scratch::new();
    put_alike(&scratch, &content, &[("a", &other[..]), ("z", &content[..])]);
    for number in 0..8 {
        std::fs::hard_link(scratch.path("to/a"), scratch.path(&format!("to/b{number}"))).unwrap();
    }
    let ran = copy(&scratch, Way::Local, &FIND).expect(0);
    assert_eq!(renamed(&ran), (0, 1, 2 * MIB), "{}", ran.finished());
    // Above its own source.
    let mut command = with(scratch.thalweg(), ["cp", "--json", "--quiet", "--find-renames"]);
    command.args([scratch.path("from/dir/file"), scratch.path("from")]);
    let ran = Running::start(command).end(PATIENCE).expect(0);
    assert_eq!(renamed(&ran), (2 * MIB, 0, 0), "{}", ran.finished());
}

#[test]
fn a_dry_run_looks_for_no_renamed_files_and_ends() {
    let scratch = Scratch::new();
    let content = noise(1, 2 * MIB as usize);
    put_alike(&scratch, &content, &[("old", &content[..])]);
    let ran = copy(&scratch, Way::Push, &["--dry-run", "--find-renames"]).expect(0);
    assert_eq!(renamed(&ran), (0, 0, 0), "{}", ran.finished());
    assert!(!scratch.path("to/dir").exists());
}

#[test]
fn where_no_renamed_files_are_looked_for_the_user_is_told() {
    let text = "without effect in a bucket, nowhere, in a dry run, or with --check nothing: --find-renames";
    let content = noise(1, 2 * MIB as usize);
    let rows = [(&["--dry-run"][..], true), (&["--check", "nothing"][..], true), (&[][..], false)];
    for (options, is_told) in rows {
        let scratch = Scratch::new();
        put_alike(&scratch, &content, &[("old", &content[..])]);
        let ran = copy(&scratch, Way::Local, &[&FIND[..], options].concat()).expect(0);
        assert_eq!(ran.stdout.matches(text).count(), usize::from(is_told), "{options:?}: {}", ran.stdout);
        assert_eq!(renamed(&ran).1, u64::from(!is_told), "{options:?}");
    }
}

#[test]
fn a_copy_from_another_name_that_was_killed_goes_on() {
    let scratch = Scratch::new();
    let content = noise(5, 48 * MIB as usize);
    put_alike(&scratch, &content, &[("old", &content[..])]);
    let options = ["cp", "--quiet", "--json"].into_iter().chain(FIND);
    let places = [scratch.path("from/"), scratch.path("to")];
    for after in [20, 60, 120] {
        let running = Running::start(with(with(scratch.thalweg(), options.clone()), &places));
        std::thread::sleep(Duration::from_millis(after));
        running.kill();
        let named = std::fs::read(scratch.path("to/dir/file"));
        assert!(named.is_err() || named.is_ok_and(|now| now == content), "half of it stands under its name");
    }
    let ran = Running::start(with(with(scratch.thalweg(), options), &places)).end(PATIENCE).expect(0);
    assert_eq!(ran.number("bytes_received"), 0, "{}", ran.finished());
    assert!(std::fs::read(scratch.path("to/dir/file")).unwrap() == content);
    assert_no_litter(&scratch.path("to"));
}
