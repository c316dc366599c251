//! Listing, summing, printing, removing, comparing and cleaning up, here and at a daemon, by the real program.

mod support;

#[path = "places/outages.rs"]
mod outages;

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Daemon, Scratch, facts, finish, make_tree, noise};

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A daemon with the directory `export` as `data`, and again, read-only, as `ro`; it logs.
fn daemon(scratch: &Scratch) -> Daemon {
    let export = scratch.path("export");
    std::fs::create_dir_all(&export).unwrap();
    let read_only = format!("ro={}:ro", export.display());
    scratch.daemon_with(&[("data", &export)], &["--export", &read_only, "--log-format", "json"])
}

fn with_ticket(scratch: &Scratch, daemon: &Daemon) -> Command {
    let mut command = scratch.thalweg();
    command.env("THALWEG_TICKET", &daemon.ticket).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ask(scratch: &Scratch, daemon: &Daemon, words: &[&str]) -> Output {
    finish(with_ticket(scratch, daemon).args(words).spawn().unwrap())
}

#[test]
fn a_listing_is_the_same_here_and_at_a_daemon_and_shows_every_name_inert() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("export"));
    let daemon = daemon(&scratch);
    let here = scratch.ok(["ls".into(), "-lR".into(), scratch.path("export")]);
    let there = ask(&scratch, &daemon, &["ls", "-lR", &daemon.place("data", "")]);
    assert_eq!(code(&there), 0, "{}", text(&there.stderr));
    assert_eq!(here, text(&there.stdout));
    assert_eq!(here.lines().count(), facts(&scratch.path("export")).len());
    assert!(here.contains("not utf-8 \\xff\\xfe") && here.contains("line\\x0abreak and \\x1b[31m"), "{here}");
    assert!(!here.bytes().any(|byte| byte < 0x20 && byte != b'\n'));
    let one = ask(&scratch, &daemon, &["ls", &daemon.place("ro", "deep")]);
    assert!(text(&one.stdout).lines().all(|line| !line.trim_end_matches('/').contains('/')));
}

/// An answer of many more pieces than a server may be ahead: each comes once, in order, and a client that stops reading
/// holds nobody up.
#[test]
fn a_listing_of_more_pieces_than_the_client_has_room_for_is_whole() {
    let scratch = Scratch::new();
    let pieces = thalweg_wire::limits::REPLIES_AHEAD_MAX as usize * 3;
    // Names of this length fill a piece of 256 KiB with some hundreds.
    let long = "n".repeat(240);
    std::fs::create_dir_all(scratch.path("export/tree")).unwrap();
    for number in 0..pieces * 400 {
        std::fs::write(scratch.path("export/tree").join(format!("{long}-{number:06}")), b"").unwrap();
    }
    let daemon = daemon(&scratch);
    let here = scratch.ok(["ls".into(), "-R".into(), scratch.path("export/tree")]);
    let out = ask(&scratch, &daemon, &["ls", "-R", &daemon.place("ro", "tree")]);
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    assert!(text(&out.stdout) == here && here.lines().count() == pieces * 400);
    for _ in 0..3 {
        let mut child =
            with_ticket(&scratch, &daemon).args(["ls", "-R", &daemon.place("ro", "tree")]).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(code(&finish(child)), 0);
    }
    let checked = ask(
        &scratch,
        &daemon,
        &["check", &scratch.path("export/tree").display().to_string(), &daemon.place("ro", "tree")],
    );
    assert_eq!(code(&checked), 0, "{}", text(&checked.stdout));
}

/// A daemon holds its exports open, and would go on with what nobody sees any more.
#[test]
fn an_export_whose_directory_was_removed_is_said_to_be_by_every_command() {
    let scratch = Scratch::new();
    let daemon = daemon(&scratch);
    std::fs::remove_dir(scratch.path("export")).unwrap();
    std::fs::create_dir(scratch.path("here")).unwrap();
    let here = scratch.path("here").display().to_string();
    for export in ["data", "ro"] {
        let there = daemon.place(export, "");
        let commands: [&[&str]; 4] =
            [&["ls", &there], &["du", &there], &["check", &here, &there], &["cp", &there, &here]];
        for words in commands {
            let out = ask(&scratch, &daemon, words);
            let told = text(&out.stderr);
            assert_eq!(code(&out), 3, "{words:?}: {told}");
            assert!(told.contains("the export's directory was removed or replaced"), "{words:?}: {told}");
        }
    }
}

#[test]
fn usage_counts_a_file_with_two_names_once() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export")).unwrap();
    std::fs::write(scratch.path("export/a"), noise(1, 5000)).unwrap();
    std::fs::hard_link(scratch.path("export/a"), scratch.path("export/b")).unwrap();
    let daemon = daemon(&scratch);
    assert!(scratch.ok(["du".into(), scratch.path("export")]).contains("(5,000 bytes) in 1 file,"));
    assert!(
        text(&ask(&scratch, &daemon, &["du", &daemon.place("ro", "")]).stdout)
            .contains("(5,000 bytes) in 1 file,")
    );
}

#[test]
fn a_printed_file_has_exactly_its_bytes() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export")).unwrap();
    // More than two windows, and exactly one.
    for (name, bytes) in [("large", (17 << 20) + 3), ("window", 8 << 20), ("empty", 0)] {
        let content = noise(bytes as u64, bytes);
        std::fs::write(scratch.path("export").join(name), &content).unwrap();
        let daemon = daemon(&scratch);
        let out = ask(&scratch, &daemon, &["cat", &daemon.place("ro", name)]);
        assert_eq!(code(&out), 0, "{}", text(&out.stderr));
        assert!(out.stdout == content, "{name}");
    }
    assert_eq!(scratch.run(["cat".into(), scratch.path("export/window")]).stdout, noise(8 << 20, 8 << 20));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export")).unwrap();
    std::fs::write(scratch.path("export/large"), noise(1, 20 << 20)).unwrap();
    let daemon = daemon(&scratch);
    for place in [scratch.path("export/large").display().to_string(), daemon.place("ro", "large")] {
        let mut child = with_ticket(&scratch, &daemon).args(["cat", &place]).spawn().unwrap();
        drop(child.stdout.take());
        let out = finish(child);
        assert_eq!(code(&out), 0, "{}", text(&out.stderr));
        assert_eq!(text(&out.stderr), "");
    }
}

/// A command here whose output nobody reads.
fn unread(scratch: &Scratch, words: &[&str]) -> Command {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = scratch.thalweg();
    command.args(words).current_dir(scratch.root()).stdout(writer).stderr(Stdio::piped());
    command
}

/// Nothing was interrupted, and there is nothing to go on with: no word says so.
#[test]
fn who_prints_for_nobody_ends_well_and_says_nothing_and_who_answers_answers() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let set = scratch.path("set").display().to_string();
    scratch.ok(["dataset", "make", "--size", "4KiB", &set]);
    std::fs::write(scratch.path("set/d000000/f0000000"), b"rotten").unwrap();
    let result = scratch.path("result.jsonl").display().to_string();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/src/bench/import/iperf3.json");
    scratch.ok(["bench", "import", real, "--out", &result]);
    let late =
        ["advise", "--data", "1TB", "--bandwidth", "1Gbit/s", "--efficiency", "0.5", "--deadline", "1s"];
    for (words, expected) in [
        (&["mark", "file"][..], 0),
        (&["model", "window", "--window", "1MiB", "--rtt", "10ms"][..], 0),
        (&["doctor"][..], 0),
        (&["bench", "show", &result][..], 0),
        (&["report", &result, "-o", "page.html"][..], 0),
        (&["plot", &result, "--list"][..], 0),
        (&["dataset", "check", "set"][..], 4),
        (&late[..], 2),
    ] {
        for json in [&["--json"][..], &[]] {
            if !json.is_empty() && matches!(words[0], "report" | "plot") {
                continue;
            }
            let out = finish(unread(&scratch, &[words, json].concat()).spawn().unwrap());
            assert_eq!(code(&out), expected, "{words:?}: {}", text(&out.stderr));
            assert!(!text(&out.stderr).contains("error"), "{words:?}: {}", text(&out.stderr));
        }
    }
}

/// Who only prints is done when nobody reads; who acts or compares answers by the exit code too.
#[test]
fn what_failed_is_in_the_exit_code_also_where_nobody_reads() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let unread = |words: &[&str]| unread(&scratch, words);
    for json in [&["--json"][..], &[]] {
        std::fs::create_dir_all(scratch.path("here")).unwrap();
        let out = finish(unread(&[&["rm", "-r"][..], json, &["here", "absent"]].concat()).spawn().unwrap());
        assert_eq!(code(&out), 2, "{}", text(&out.stderr));
        assert!(!scratch.path("here").exists());
    }
    let Some(as_nobody) = scratch.as_nobody("check of nobody") else { return };
    let closed = ["a/closed", "b/closed"].map(|name| scratch.path(name));
    for directory in &closed {
        std::fs::create_dir_all(directory).unwrap();
        mode(directory, 0);
    }
    let codes = [&["check"][..], &["check", "--json"]].map(|words| {
        let command = unread(&[words, &["a", "b"]].concat());
        code(&finish(as_nobody(command).spawn().unwrap()))
    });
    closed.iter().for_each(|directory| mode(directory, 0o755));
    assert_eq!(codes, [2, 2]);
}

#[test]
fn output_that_does_not_fit_is_exit_6() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 1 << 20)).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = scratch.thalweg();
    command.arg("cat").arg(scratch.path("file")).stdout(full).stderr(Stdio::piped());
    let out = finish(command.spawn().unwrap());
    assert_eq!(code(&out), 6, "{}", text(&out.stderr));
}

#[test]
fn removing_goes_no_further_than_it_was_asked_and_a_read_only_export_stays() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("export/tree"));
    std::os::unix::fs::symlink(scratch.path("outside"), scratch.path("export/tree/out")).unwrap();
    std::fs::create_dir(scratch.path("outside")).unwrap();
    std::fs::write(scratch.path("outside/kept"), b"x").unwrap();
    let daemon = daemon(&scratch);
    let refused = ask(&scratch, &daemon, &["rm", "-r", &daemon.place("ro", "tree")]);
    assert_eq!(code(&refused), 3);
    assert!(text(&refused.stderr).contains("error: ") && text(&refused.stderr).contains("read-only"));
    std::fs::create_dir(scratch.path("export/empty")).unwrap();
    for name in ["tree", "tree/", "empty", "empty/"] {
        assert_eq!(code(&ask(&scratch, &daemon, &["rm", &daemon.place("data", name)])), 3, "{name}");
    }
    assert!(scratch.path("export/empty").exists());
    assert_eq!(code(&ask(&scratch, &daemon, &["rm", "-r", &daemon.place("data", "")])), 1);
    let out = ask(&scratch, &daemon, &["rm", "-r", &daemon.place("data", "tree")]);
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    assert!(!scratch.path("export/tree").exists() && scratch.path("outside/kept").exists());
}

/// Every place is read and reached before anything is removed, wherever on the command line the bad one stands.
#[test]
fn what_cannot_be_named_costs_nothing_that_could_be() {
    let scratch = Scratch::new();
    let daemon = daemon(&scratch);
    let keep = scratch.path("keep/k1");
    std::fs::create_dir_all(&keep).unwrap();
    std::fs::write(keep.join("file"), b"x").unwrap();
    let kept = keep.display().to_string();
    let above = format!("{kept}/../..");
    for bad in [
        "@nosite/x",
        "s3a://bucket/x",
        "s3://bucket",
        "tw://h",
        "zero:1",
        ".",
        "/",
        &above,
        &daemon.place("data", ""),
        &daemon.place("data", "a/../../b"),
        "localhost:x/..",
    ] {
        for places in [[&kept, bad], [bad, &kept]] {
            let out = ask(&scratch, &daemon, &[&["rm", "-r"], &places[..]].concat());
            let (told, error) = (text(&out.stdout), text(&out.stderr));
            assert_eq!((code(&out), told.as_str()), (1, ""), "{bad}: {error}");
            assert!(keep.join("file").exists(), "{bad}");
        }
    }
    // Nobody is there.
    let unreachable = ask(&scratch, &daemon, &["rm", "-r", &kept, "tw://127.0.0.1:1/data/x"]);
    assert!(code(&unreachable) == 3 && keep.join("file").exists(), "{}", text(&unreachable.stderr));
    // It is the same with what copies left.
    let left = keep.join(".thalweg-staging/0123");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("lock"), b"").unwrap();
    assert_eq!(code(&ask(&scratch, &daemon, &["gc", "--yes", &kept, "@nosite/x"])), 1);
    assert!(left.join("lock").exists());
}

#[test]
fn what_cannot_be_removed_keeps_nothing_else_and_what_went_is_told() {
    let scratch = Scratch::new();
    let daemon = daemon(&scratch);
    for directory in ["export/a", "export/b", "export/c", "here"] {
        std::fs::create_dir_all(scratch.path(directory)).unwrap();
        std::fs::write(scratch.path(directory).join("file"), b"x").unwrap();
    }
    let at = |name: &str| daemon.place("data", name);
    let here = scratch.path("here").display().to_string();
    let out = ask(
        &scratch,
        &daemon,
        &["rm", "-r", &at("a"), &at("absent"), &daemon.place("ro", "b"), &at("c"), &here],
    );
    assert_eq!((code(&out), text(&out.stdout).as_str()), (2, "6 entries removed\n"), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("absent") && text(&out.stderr).contains("read-only"));
    let standing = ["export/a", "export/b", "export/c", "here"].map(|name| scratch.path(name).exists());
    assert_eq!(standing, [false, true, false, false]);
    let nothing = ask(&scratch, &daemon, &["rm", &at("absent"), &at("b")]);
    assert_eq!((code(&nothing), text(&nothing.stdout).as_str()), (3, "0 entries removed\n"));
}

/// Two trees with the same names in them.
#[test]
fn what_could_not_be_removed_is_named_with_the_place_that_it_is_in() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("rm of nobody") else { return };
    for name in ["a/k", "b/k", "closed"] {
        std::fs::create_dir_all(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join("f"), b"x").unwrap();
    }
    mode(&scratch.path("a/k"), 0o555);
    mode(&scratch.path("b/k"), 0o555);
    mode(&scratch.path("closed"), 0o111);
    let remove = |words: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["rm", "-r"]).args(words).current_dir(scratch.root());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(as_nobody(command).spawn().unwrap())
    };
    let errors = text(&remove(&["a", "b"]).stderr);
    for place in ["a", "b"] {
        assert!(errors.contains(&format!("error: `{place}`: remove failed on `k/f`: ")), "{errors}");
    }
    // The place itself is no `.`.
    let errors = text(&remove(&["closed"]).stderr);
    assert!(errors.contains("`closed`: ") && !errors.contains("`.`"), "{errors}");
    let events = text(&remove(&["--json", "a"]).stdout);
    let error: serde_json::Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    for (key, expected) in [("event", "error"), ("place", "a"), ("path", "k/f")] {
        assert_eq!(error[key], expected, "{events}");
    }
    for name in ["a/k", "b/k", "closed"] {
        mode(&scratch.path(name), 0o755);
    }
}

#[test]
fn a_file_that_cannot_be_printed_keeps_no_other_and_is_in_the_exit_code() {
    let scratch = Scratch::new();
    for name in ["first", "last"] {
        std::fs::write(scratch.path(name), name).unwrap();
    }
    let cat = |words: &[&str]| {
        let mut command = scratch.thalweg();
        command.arg("cat").args(words).current_dir(scratch.root());
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let out = cat(&["first", "absent", "last"]);
    assert_eq!((code(&out), text(&out.stdout).as_str()), (2, "firstlast"), "{}", text(&out.stderr));
    assert_eq!(text(&out.stderr).matches("error: ").count(), 1, "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("absent"));
    let none = cat(&["absent", "gone"]);
    let errors = text(&none.stderr);
    assert_eq!((code(&none), errors.matches("error: ").count()), (3, 2), "{errors}");
    // Events are no part of what is printed.
    let out = cat(&["--json", "first", "absent"]);
    assert_eq!((code(&out), text(&out.stdout).as_str()), (2, "first"));
    assert!(text(&out.stderr).contains(r#""place":"absent""#), "{}", text(&out.stderr));
}

#[test]
fn what_is_outside_of_an_export_fails_in_the_words_of_what_is_not_there() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export")).unwrap();
    std::fs::write(scratch.path("secret"), b"canary").unwrap();
    std::os::unix::fs::symlink(scratch.path("secret"), scratch.path("export/absolute")).unwrap();
    std::os::unix::fs::symlink("../secret", scratch.path("export/up")).unwrap();
    std::os::unix::fs::symlink("..", scratch.path("export/dir")).unwrap();
    let daemon = daemon(&scratch);
    let absent = ask(&scratch, &daemon, &["cat", &daemon.place("data", "absent")]);
    assert_eq!(code(&absent), 3);
    for path in ["absolute", "up", "dir/secret", "dir/absent"] {
        let out = ask(&scratch, &daemon, &["cat", &daemon.place("data", path)]);
        let words = text(&out.stderr).replace(path, "absent");
        assert_eq!(
            (code(&out), words, &out.stdout[..]),
            (3, text(&absent.stderr).to_string(), &b""[..]),
            "{path}"
        );
    }
    let up = ask(&scratch, &daemon, &["cat", &daemon.place("data", "../secret")]);
    assert!(code(&up) != 0 && up.stdout.is_empty());
    let outside = ask(&scratch, &daemon, &["ls", "-R", &daemon.place("data", "dir")]);
    assert!(!text(&outside.stdout).contains("secret"));
}

/// Whatever a command does there, for whoever reads or writes.
#[test]
fn a_link_out_of_an_export_and_a_loop_of_links_lead_to_no_place() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export")).unwrap();
    std::os::unix::fs::symlink("..", scratch.path("export/out")).unwrap();
    std::os::unix::fs::symlink("loop", scratch.path("export/loop")).unwrap();
    std::fs::create_dir(scratch.path("tree")).unwrap();
    std::fs::write(scratch.path("tree/file"), b"x").unwrap();
    let daemon = daemon(&scratch);
    let here = |name: &str| scratch.path(name).display().to_string();
    let (file, tree, back) = (here("tree/file"), here("tree/"), here("back/"));
    for path in ["out/export", "loop/x"] {
        let there = daemon.place("data", path);
        let contents = format!("{there}/");
        let commands = [
            &["cat", there.as_str()][..],
            &["cp", &there, &back],
            &["sync", &contents, &back],
            &["stream", &there, &back],
            &["cp", &file, &there],
            &["cp", "--dry-run", &file, &there],
            &["sync", &tree, &contents],
            &["stream", &file, &there],
        ];
        for words in commands {
            let out = ask(&scratch, &daemon, words);
            let told = text(&out.stderr);
            assert_eq!(code(&out), 3, "{words:?}: {told}");
            assert!(told.contains(&format!("the export has no `{path}")), "{words:?}: {told}");
        }
    }
    let around = scratch.thalweg().args(["cp", &here("export/loop/x"), &back]).output().unwrap();
    assert_eq!(code(&around), 3, "{}", text(&around.stderr));
    assert!(text(&around.stderr).contains("Too many levels of symbolic links"));
}

#[test]
fn check_finds_what_is_missing_extra_and_different_and_changes_nothing() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    make_tree(&scratch.path("export"));
    let daemon = daemon(&scratch);
    let from = scratch.path("from").display().to_string();
    let far = daemon.place("ro", "");
    let same = ask(&scratch, &daemon, &["check", &from, &far]);
    assert_eq!(code(&same), 0, "{}{}", text(&same.stdout), text(&same.stderr));
    std::fs::remove_file(scratch.path("export/deep/small-7")).unwrap();
    std::fs::write(scratch.path("export/deep/zz"), b"x").unwrap();
    // One bit, and the time it had.
    let large = scratch.path("export/deep/er/large");
    let mut content = std::fs::read(&large).unwrap();
    content[5 << 20] ^= 1;
    std::fs::write(&large, &content).unwrap();
    std::fs::remove_file(scratch.path("export/dangling")).unwrap();
    std::os::unix::fs::symlink("/elsewhere", scratch.path("export/dangling")).unwrap();
    let before = facts(&scratch.path("export"));
    for destination in [far, scratch.path("export").display().to_string()] {
        let out = ask(&scratch, &daemon, &["check", &from, &destination]);
        let told = text(&out.stdout);
        assert_eq!(code(&out), 2, "{told}");
        for line in
            ["missing  deep/small-7 ", "extra  deep/zz ", "differs  deep/er/large ", "differs  dangling "]
        {
            assert!(told.contains(line), "{line}: {told}");
        }
        // The large file has a second name.
        assert_eq!(told.lines().count(), 6, "{told}");
    }
    assert_eq!(facts(&scratch.path("export")), before);
}

/// Who removes what is told to be extra would remove what the other side has too.
#[test]
fn check_does_not_call_missing_or_extra_what_a_side_could_not_list() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("check of what nobody may list") else { return };
    for side in ["a", "b"] {
        std::fs::create_dir_all(scratch.path(side).join("k")).unwrap();
        std::fs::write(scratch.path(side).join("k/f"), b"content").unwrap();
        std::fs::write(scratch.path(side).join("same"), b"content").unwrap();
    }
    let check = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.arg("check").args(more).args(["a", "b"]).current_dir(scratch.root());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let out = finish(as_nobody(command).spawn().unwrap());
        assert_eq!(code(&out), 2, "{}{}", text(&out.stdout), text(&out.stderr));
        (text(&out.stdout), text(&out.stderr))
    };
    // A directory that cannot be listed, and a file that cannot be read: nothing is known to differ.
    for closed in ["a/k", "b/k", "a/same"] {
        let (side, name) = closed.split_once('/').unwrap();
        mode(&scratch.path(closed), 0);
        let (told, errors) = check(&[]);
        let (events, _) = check(&["--json"]);
        mode(&scratch.path(closed), 0o755);
        assert!(told.starts_with("not comparable in full: ") && told.lines().count() == 1, "{told}");
        assert!(told.contains("0 missing, 0 extra, 0 differ, 1 unreadable"), "{told}");
        assert_eq!(errors.matches("error: ").count(), 1, "{errors}");
        assert!(errors.contains(&format!("error: `{side}`: ")) && errors.contains(name), "{errors}");
        let events: Vec<serde_json::Value> =
            events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Of what takes long it is told how far it is.
        let events: Vec<_> = events.iter().filter(|event| event["event"] != "progress").collect();
        let [error, checked] = &events[..] else { panic!("{events:?}") };
        for (key, expected) in [("event", "error"), ("place", side), ("path", name)] {
            assert_eq!(error[key], expected, "{error}");
        }
        for (key, expected) in [("missing", 0), ("extra", 0), ("differing", 0), ("unreadable", 1)] {
            assert_eq!(checked[key], expected, "{key}: {checked}");
        }
    }
}

/// What a copy left out, as nobody asked for it, is no difference.
#[test]
fn check_after_a_copy_passes_over_the_fifos_that_it_left_out() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"content").unwrap();
    assert!(Command::new("mkfifo").arg(scratch.path("from/fifo")).status().unwrap().success());
    let (from, to) = (scratch.path("from/"), scratch.path("to"));
    scratch.ok(["cp".into(), from.clone(), to.clone()]);
    let told = scratch.ok(["check".into(), from.clone(), to.clone()]);
    assert!(told.contains("same: ") && told.contains(" left out: FIFOs and devices"), "{told}");
    let with_devices = scratch.run(["check".into(), "--devices".into(), from.clone(), to.clone()]);
    assert_eq!(code(&with_devices), 2);
    assert!(text(&with_devices.stdout).contains("missing  fifo"), "{}", text(&with_devices.stdout));
    scratch.ok(["cp".into(), "--devices".into(), from.clone(), to.clone()]);
    let told = scratch.ok(["check".into(), "--devices".into(), from, to]);
    assert!(told.contains("same: ") && !told.contains("left out"), "{told}");
}

/// Nobody can read them, and nobody has to.
#[test]
fn check_reads_no_content_of_what_it_knows_to_be_missing_or_different() {
    let scratch = Scratch::new();
    for name in ["a/same", "a/other", "a/single", "b/same", "b/other"] {
        std::fs::create_dir_all(scratch.path(name).parent().unwrap()).unwrap();
        std::fs::write(scratch.path(name), noise(1, if name == "b/other" { 7 } else { 8 })).unwrap();
    }
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("check of what nobody may read") else { return };
    let check = || {
        let mut command = scratch.thalweg();
        command.args(["check", "a", "b"]).current_dir(scratch.root());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(as_nobody(command).spawn().unwrap())
    };
    for name in ["a/other", "a/single", "b/other"] {
        mode(&scratch.path(name), 0);
    }
    let out = check();
    let told = text(&out.stdout);
    assert_eq!((code(&out), text(&out.stderr).as_str()), (2, ""), "{told}");
    assert!(told.contains("missing  single ") && told.contains("differs  other "), "{told}");
    assert!(told.contains("in 1 file compared by digest"), "{told}");
    // Nothing is alike: nothing is read at all.
    std::fs::remove_file(scratch.path("b/same")).unwrap();
    mode(&scratch.path("a/same"), 0);
    let out = check();
    assert_eq!((code(&out), text(&out.stderr).as_str()), (2, ""), "{}", text(&out.stdout));
}

#[test]
fn check_compares_two_files_whatever_their_names() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a"), noise(1, 70000)).unwrap();
    std::fs::write(scratch.path("b"), noise(1, 70000)).unwrap();
    std::fs::write(scratch.path("c"), noise(2, 70000)).unwrap();
    scratch.ok(["check".into(), scratch.path("a"), scratch.path("b")]);
    assert_eq!(code(&scratch.run(["check".into(), scratch.path("a"), scratch.path("c")])), 2);
}

#[test]
fn what_was_copied_by_following_links_is_compared_listed_and_summed_by_following_them() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("export/real")).unwrap();
    std::fs::write(scratch.path("export/real/f"), noise(1, 5000)).unwrap();
    for (name, says) in [("dir", "real"), ("file", "dir/f")] {
        std::os::unix::fs::symlink(says, scratch.path("export").join(name)).unwrap();
    }
    let daemon = daemon(&scratch);
    let (here, far) = (scratch.path("export").display().to_string(), daemon.place("ro", ""));
    let copy = scratch.path("copy").display().to_string();
    scratch.ok(["cp", "-L", &format!("{here}/"), &copy]);
    for place in [&here, &far] {
        let same = ask(&scratch, &daemon, &["check", "-L", place, &copy]);
        assert_eq!(code(&same), 0, "{}{}", text(&same.stdout), text(&same.stderr));
        assert_eq!(code(&ask(&scratch, &daemon, &["check", place, &copy])), 2);
        let listed = ask(&scratch, &daemon, &["ls", "-RL", place]);
        assert_eq!(text(&listed.stdout), "dir/\ndir/f\nfile\nreal/\nreal/f\n");
        let summed = text(&ask(&scratch, &daemon, &["du", "-L", place]).stdout);
        assert!(summed.contains("(5,000 bytes) in 1 file, 6 entries"), "{summed}");
    }
    std::fs::write(scratch.path("copy/dir/f"), noise(2, 5000)).unwrap();
    std::os::unix::fs::symlink("absent", scratch.path("export/nowhere")).unwrap();
    for place in [&here, &far] {
        let out = ask(&scratch, &daemon, &["check", "-L", place, &copy]);
        let (told, why) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(code(&out), 2, "{told}");
        assert!(told.contains("differs  dir/f ") && told.contains("1 unreadable"), "{told}");
        assert!(why.contains("it leads to `absent`, and nothing is there"), "{why}");
    }
}

#[test]
fn leftovers_are_listed_kept_while_they_are_locked_and_removed_if_asked() {
    let scratch = Scratch::new();
    let job = scratch.path("dst/sub/.thalweg-staging/0123");
    std::fs::create_dir_all(job.join("lane-0")).unwrap();
    std::fs::write(job.join("lane-0/1"), b"x").unwrap();
    std::fs::write(job.join("partial-7"), noise(1, 100_000)).unwrap();
    std::fs::write(job.join("lock"), b"").unwrap();
    let dst = scratch.path("dst");
    let listed = scratch.ok(["gc".into(), dst.clone()]);
    assert!(listed.starts_with("left  ") && listed.contains("sub/.thalweg-staging/0123"), "{listed}");
    assert!(listed.contains("  (changed ") && listed.ends_with(" ago; remove it with --yes)\n"), "{listed}");
    let lock = std::fs::File::open(job.join("lock")).unwrap();
    lock.lock().unwrap();
    assert!(scratch.ok(["gc".into(), "--yes".into(), dst.clone()]).starts_with("in-use  "));
    assert!(job.join("partial-7").exists());
    drop(lock);
    // A copy may resume from it.
    let cleaned = |age: &str| {
        let words = ["gc", "--yes", "--json", "--older-than", age].map(OsString::from);
        let said = scratch.ok(words.into_iter().chain([dst.clone().into_os_string()]));
        let event: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(event["age_s"].as_u64().is_some_and(|age| age < 86_400), "{said}");
        event["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(cleaned("7d"), "recent");
    assert!(job.join("partial-7").exists());
    assert_eq!(cleaned("0s"), "removed");
    assert!(!scratch.path("dst/sub/.thalweg-staging").exists() && scratch.path("dst/sub").exists());
}

#[test]
fn a_listing_of_many_entries_comes_whole() {
    let scratch = Scratch::new();
    for directory in 0..8 {
        let directory = scratch.path(&format!("export/d{directory}"));
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..2500 {
            std::fs::File::create(directory.join(format!("a-rather-long-name-of-a-file-{file}"))).unwrap();
        }
    }
    let daemon = daemon(&scratch);
    let out = ask(&scratch, &daemon, &["ls", "-R", &daemon.place("ro", "")]);
    assert_eq!(text(&out.stdout).lines().count(), 8 * 2501);
}

#[test]
fn a_name_that_is_an_option_is_a_name_after_two_dashes() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("d")).unwrap();
    std::fs::write(scratch.path("d").join(OsStr::from_bytes(b"-rf")), b"x").unwrap();
    let child = scratch
        .thalweg()
        .current_dir(scratch.path("d"))
        .args(["rm", "--", "-rf"])
        .stdout(Stdio::piped())
        .spawn();
    assert_eq!(code(&finish(child.unwrap())), 0);
    assert!(!scratch.path("d/-rf").exists());
}

/// A directory for all of a group, or for everybody, in which somebody else's copy is under way or was stopped.
#[test]
fn where_somebody_else_has_something_unfinished_others_copy_all_the_same_and_into_the_directory_s_group() {
    use std::os::unix::fs::{MetadataExt, chown};
    let row = "a directory that several users share";
    let scratch = Scratch::new();
    if !support::chance::is_root() || !support::chance::has("setpriv") {
        return support::chance::skipped(row, "needs root and setpriv");
    }
    // Where nobody may not come the program cannot be run.
    if scratch.as_nobody(row).is_none() {
        return;
    }
    let (group, nobody) = (support::NOBODY - 1, support::NOBODY);
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/small"), "small").unwrap();
    std::fs::write(scratch.path("from/large"), vec![7; 20 << 20]).unwrap();
    std::os::unix::fs::symlink("small", scratch.path("from/link")).unwrap();
    let to = scratch.path("to");
    std::fs::create_dir_all(to.join(".thalweg-staging/0123")).unwrap();
    std::fs::write(to.join(".thalweg-staging/0123/partial-1"), "somebody else's").unwrap();
    std::fs::set_permissions(to.join(".thalweg-staging"), Permissions::from_mode(0o700)).unwrap();
    chown(&to, Some(0), Some(group)).unwrap();
    std::fs::set_permissions(&to, Permissions::from_mode(0o2777)).unwrap();
    let copy = || {
        let inner = scratch.thalweg();
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={nobody}"), format!("--regid={nobody}"), format!("--groups={group}")]);
        command.arg(inner.get_program()).args(["cp", "--quiet", "--state"]).arg(scratch.path("nobody-state"));
        command.arg(scratch.path("from/")).arg(scratch.path("to/")).current_dir(scratch.root());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    std::fs::create_dir(scratch.path("nobody-state")).unwrap();
    chown(scratch.path("nobody-state"), Some(nobody), Some(nobody)).unwrap();
    let done = copy();
    assert_eq!(code(&done), 0, "{}", String::from_utf8_lossy(&done.stderr));
    for name in ["small", "large", "link"] {
        let copied = to.join(name);
        assert!(std::fs::read(&copied).unwrap() == std::fs::read(scratch.path("from").join(name)).unwrap());
        let stat = copied.symlink_metadata().unwrap();
        assert_eq!((stat.uid(), stat.gid()), (nobody, group), "{name}: the group of its directory");
    }
    assert_eq!(std::fs::read(to.join(".thalweg-staging/0123/partial-1")).unwrap(), b"somebody else's");
    assert!(!to.join(format!(".thalweg-staging-{nobody}")).exists(), "ours goes with its copy");
    // What a copy of that user left goes, and what is somebody else's stays.
    let own = to.join(format!(".thalweg-staging-{nobody}"));
    std::fs::create_dir_all(own.join("4567")).unwrap();
    std::fs::write(own.join("4567/lock"), "").unwrap();
    for path in [own.clone(), own.join("4567"), own.join("4567/lock")] {
        chown(path, Some(nobody), Some(nobody)).unwrap();
    }
    std::fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    let mut gc = scratch.thalweg();
    gc.args(["gc", "--yes"]).arg(&to).current_dir(scratch.root());
    gc.stdout(Stdio::piped()).stderr(Stdio::piped());
    let cleaned = finish(as_nobody(gc).spawn().unwrap());
    assert_eq!((code(&cleaned), text(&cleaned.stderr).as_str()), (0, ""));
    assert!(text(&cleaned.stdout).starts_with("removed  ") && !own.exists(), "{}", text(&cleaned.stdout));
    assert!(to.join(".thalweg-staging/0123/partial-1").exists());
    // Nobody's own is no content of anybody's tree.
    std::fs::create_dir(to.join(format!(".thalweg-staging-{nobody}"))).unwrap();
    let listed = scratch.run([OsStr::new("ls"), to.as_os_str()]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(".thalweg-staging"));
}

/// That it is another user's, and stays as it is, is no news.
#[test]
fn a_fifo_of_another_user_that_this_account_cannot_change_is_told_by_no_copy() {
    use std::os::unix::fs::chown;
    use support::copies::LIMIT;
    use support::job::Running;
    let row = "a FIFO of another user's";
    if !support::chance::is_root() {
        return support::chance::skipped(row, "needs root");
    }
    let scratch = Scratch::new();
    for name in ["from", "mine", "mine/to"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    for (name, mode) in [("from/fifo", "640"), ("mine/to/fifo", "600")] {
        let made = Command::new("mkfifo").args(["-m", mode]).arg(scratch.path(name)).status();
        assert!(made.unwrap().success());
    }
    for name in ["mine", "mine/to"] {
        chown(scratch.path(name), Some(support::NOBODY), Some(support::NOBODY)).unwrap();
    }
    std::fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).unwrap();
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    for round in 0..2 {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json", "--devices"]).arg("--state").arg(scratch.path("mine/state"));
        command.arg(scratch.path("from/")).arg(scratch.path("mine/to/")).current_dir(scratch.root());
        let ran = Running::start(as_nobody(command)).end(LIMIT).expect(0);
        assert!(!ran.stderr.contains("not kept"), "{round}: {}", ran.stderr);
    }
}

/// Of what is ours, as of a file.
#[test]
fn a_link_and_a_fifo_get_the_group_that_this_account_may_give_and_are_unchanged_then() {
    use std::os::unix::fs::{MetadataExt, lchown};
    use support::copies::LIMIT;
    use support::job::Running;
    let row = "the group of a link and of a FIFO";
    if !support::chance::is_root() {
        return support::chance::skipped(row, "needs root");
    }
    let scratch = Scratch::new();
    for name in ["from", "mine"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", scratch.path("from/link")).unwrap();
    let made = Command::new("mkfifo").args(["-m", "640"]).arg(scratch.path("from/fifo")).status();
    assert!(made.unwrap().success());
    let (ours, others) = (support::NOBODY, support::NOBODY - 1);
    for name in ["from/link", "from/fifo", "mine"] {
        lchown(scratch.path(name), Some(ours), Some(ours)).unwrap();
    }
    std::fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).unwrap();
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    let copied = || {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json", "--devices"]).arg("--state").arg(scratch.path("mine/state"));
        command.arg(scratch.path("from/")).arg(scratch.path("mine/to/")).current_dir(scratch.root());
        Running::start(as_nobody(command)).end(LIMIT).expect(0).number("done")
    };
    copied();
    let there = ["link", "fifo"].map(|name| scratch.path("mine/to").join(name));
    for path in &there {
        lchown(path, Some(ours), Some(others)).unwrap();
    }
    for changed in [2, 0] {
        assert_eq!(copied(), changed);
        for path in &there {
            assert_eq!(path.symlink_metadata().unwrap().gid(), ours, "{}", path.display());
        }
    }
}

#[test]
fn a_source_that_may_be_entered_and_not_read_fails_once_and_as_a_listing() {
    use support::copies::LIMIT;
    use support::job::Running;
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("a source that may not be read") else { return };
    let (from, to) = (scratch.path("from/"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    mode(&from, 0o311);
    let mut command = scratch.thalweg();
    command.args(["cp", "--json"]).arg(&from).arg(&to);
    let ran = Running::start(as_nobody(command)).end(LIMIT).expect(2);
    for path in [&from, &to] {
        mode(path, 0o755);
    }
    let events = ran.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let failed: Vec<_> = events.filter(|event| event["outcome"] == "failed").collect();
    let [failed] = &failed[..] else { panic!("{}", ran.stdout) };
    let told = ["path", "kind", "operation"].map(|key| failed[key].as_str());
    assert_eq!(told, [Some("."), Some("permission"), Some("list")]);
}

/// Somebody copies a tree of another user's, as behind sshd.
#[test]
fn what_an_account_may_not_keep_is_told_once_and_no_change_to_a_dry_run_or_the_next_copy() {
    use std::os::unix::fs::{MetadataExt, chown};
    use support::copies::LIMIT;
    use support::job::{Ran, Running};
    let row = "files of another user's";
    if !support::chance::is_root() {
        return support::chance::skipped(row, "needs root");
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/a/deep")).unwrap();
    for name in ["from/a/f", "from/a/deep/g"] {
        std::fs::write(scratch.path(name), noise(3, 2 << 20)).unwrap();
    }
    std::os::unix::fs::symlink("a/f", scratch.path("from/link")).unwrap();
    std::fs::set_permissions(scratch.path("from/a"), Permissions::from_mode(0o2755)).unwrap();
    std::fs::create_dir(scratch.path("mine")).unwrap();
    chown(scratch.path("mine"), Some(support::NOBODY), Some(support::NOBODY)).unwrap();
    std::fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).unwrap();
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    let run = |more: &[&str]| -> Ran {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json"]).args(more).arg("--state").arg(scratch.path("mine/state"));
        command.arg(scratch.path("from/")).arg(scratch.path("mine/to/")).current_dir(scratch.root());
        Running::start(as_nobody(command)).end(LIMIT).expect(0)
    };
    let numbers = |ran: &Ran| ["done", "bytes_done", "unchanged"].map(|key| ran.number(key));
    let first = run(&[]);
    assert!(first.stderr.contains("owner not kept"), "{}", first.stderr);
    let entries = first.number("done");
    for more in [&["--dry-run"][..], &[]] {
        let ran = run(more);
        assert_eq!(numbers(&ran), [0, 0, entries], "{more:?}: {}", ran.finished());
        assert!(!ran.stderr.contains("not kept"), "{more:?}: {}", ran.stderr);
    }
    // A file that gets another mode is looked at, and nothing of it comes.
    std::fs::set_permissions(scratch.path("from/a/f"), Permissions::from_mode(0o604)).unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let ran = run(more);
        assert_eq!(numbers(&ran)[..2], [0, 0], "{more:?}: {}", ran.finished());
        assert!(!ran.stderr.contains("not kept"), "{more:?}: {}", ran.stderr);
    }
    assert_eq!(scratch.path("mine/to/a/f").metadata().unwrap().mode() & 0o777, 0o604);
}
