//! What the exports of a daemon let be done, and how they are listed.

use super::asked;
use super::support::job::{Running, bytes_allocated};
use super::support::volume::{Volume, can_mount};
use super::support::{Scratch, noise, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use thalweg_mover::run::frames::log_signature;

#[test]
fn the_exports_of_a_daemon_are_listed_with_their_rights() {
    let scratch = Scratch::new();
    for name in ["srv", "shut"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    let shut = format!("shut={}:ro", scratch.path("shut").display());
    let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], &["--export", &shut]);
    let ticket = daemon.ticket.display().to_string();
    let server = format!("tw://{}", daemon.address());
    let listed = |words: &[&str]| scratch.ok(["ls", "--ticket", &ticket].iter().chain(words).copied());
    let sorted = |text: String| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(listed(&[&server])), ["data/", "shut/"]);
    assert_eq!(sorted(listed(&["-l", &format!("{server}/")])), ["ro shut/", "rw data/"]);
    let told: Vec<serde_json::Value> =
        listed(&["--json", &server]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| told.iter().find(|line| line["name"] == name).expect("it is told");
    assert_eq!((&of("data")["writable"], &of("shut")["writable"]), (&true.into(), &false.into()));
    assert_eq!(of("data")["event"], "export");
    // What is in all of them is not one list; and a place for files is in an export.
    let refused = |words: &[&str]| {
        let out = scratch.run([words, &["--ticket", &ticket, &server]].concat());
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert_eq!(refused(&["ls", "-R"]).0, Some(1));
    let (code, said) = refused(&["cp", &ticket]);
    assert!(code == Some(1) && said.contains("tw://host"), "{said}");
}

#[test]
fn where_nothing_is_deleted_or_replaced_what_is_there_stays_and_what_is_new_comes() {
    let scratch = Scratch::new();
    for name in ["srv", "from"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    let old = |name: &str| std::fs::write(scratch.path("srv").join(name), "old").unwrap();
    for (name, content) in [("longer", "much newer"), ("as-long", "new"), ("fresh", "new")] {
        let path = scratch.path("from").join(name);
        std::fs::write(&path, content).unwrap();
        // Not in one tick of the clock with what stands there.
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    ["longer", "as-long", "alone"].into_iter().for_each(old);
    let there = |name: &str| std::fs::read_to_string(scratch.path("srv").join(name)).ok();
    let stands = |names: &[&str]| names.iter().all(|name| there(name).as_deref() == Some("old"));
    let of = |name: &str, flags: &str| format!("{name}={}:{flags}", scratch.path("srv").display());
    let (kept, once) = (of("kept", "no-delete"), of("once", "no-replace"));
    let daemon =
        scratch.daemon_with(&[("data", &scratch.path("srv"))], &["--export", &kept, "--export", &once]);
    let run = |words: &[&str]| asked(&scratch, &daemon.ticket, words);
    let from = format!("{}/", scratch.path("from").display());

    // Nothing is replaced, whether its size or only its content tells that it is another one.
    let to_once = daemon.place("once", "");
    for how in ["evidence", "digest"] {
        let (code, said) = run(&["cp", "--check", how, &from, &to_once]);
        assert_eq!(code, Some(2), "{how}: {said}");
        for name in ["longer", "as-long"] {
            assert!(said.contains(&format!("replace failed on `{name}`")), "{how}: {said}");
        }
        assert!(said.contains("(no-replace)"), "{how}: {said}");
        assert!(stands(&["longer", "as-long", "alone"]), "{how}");
        assert_eq!(there("fresh").as_deref(), Some("new"), "{how}: what is new comes, and is no replacement");
    }
    let (code, said) = run(&["cp", "--dry-run", &from, &to_once]);
    assert!(code == Some(2) && said.contains("(no-replace)"), "{said}");
    let (code, said) = run(&["cp", "--ignore-existing", &from, &to_once]);
    assert_eq!(code, Some(0), "{said}");

    // Nothing is deleted, by either command; what is refused has moved nothing.
    std::fs::remove_file(scratch.path("srv/fresh")).unwrap();
    for words in [
        &["rm", &daemon.place("kept", "alone")][..],
        &["sync", "--delete", &from, &daemon.place("kept", "")],
        &["sync", "--delete", "--dry-run", &from, &daemon.place("kept", "")],
    ] {
        let (code, said) = run(words);
        assert_eq!(code, Some(3), "{words:?}: {said}");
        assert!(said.contains("in the export `kept` nothing is deleted (no-delete)"), "{words:?}: {said}");
        assert!(stands(&["longer", "as-long", "alone"]) && there("fresh").is_none(), "{words:?}");
    }
    // Each forbids what it says, and nothing else.
    let (code, said) = run(&["cp", &from, &daemon.place("kept", "")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(there("longer").as_deref(), Some("much newer"));
    let (code, said) = run(&["rm", &daemon.place("once", "alone")]);
    assert_eq!((code, there("alone")), (Some(0), None), "{said}");
}

#[test]
fn room_that_is_kept_free_is_left_by_what_begins_by_what_is_large_and_by_what_runs() {
    if !can_mount("room kept free") {
        return;
    }
    const LIMIT: Duration = Duration::from_secs(120);
    let scratch = Scratch::new();
    for (name, mebibytes) in [("large", 48), ("small", 24)] {
        std::fs::write(scratch.path(name), noise(7, mebibytes << 20)).unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "disk", "size=64m");
    let export = |name: &str, free: &str| format!("{name}={}:min-free={free}", volume.path.display());
    let (half, all) = (export("half", "50%"), export("all", "1PiB"));
    let daemon = scratch.daemon_with(&[("data", &volume.path)], &["--export", &half, "--export", &all]);
    let run = |words: &[&str]| asked(&scratch, &daemon.ticket, words);
    let (large, small) = (scratch.path("large"), scratch.path("small"));
    let (large, small) = (large.display().to_string(), small.display().to_string());

    // Less is free than is kept: nothing begins, and what makes room may be done.
    std::fs::write(volume.path.join("old"), "old").unwrap();
    let (code, said) = run(&["cp", &small, &daemon.place("all", "x")]);
    assert!(code == Some(6) && said.contains("the export `all`") && said.contains("(min-free)"), "{said}");
    assert!(said.contains("hint:"), "{said}");
    let (code, said) = run(&["rm", &daemon.place("all", "old")]);
    assert!(code == Some(0) && !volume.path.join("old").exists(), "{said}");

    // One file would take more than may be taken: it is given back before anything of it came.
    let (code, said) = run(&["cp", &large, &daemon.place("half", "large")]);
    assert!(code == Some(6) && said.contains("(min-free)"), "{said}");
    assert!(bytes_allocated(&volume.path) < 1 << 20 && !volume.path.join("large").exists());

    // Another program takes the room while a file comes that has its own already.
    let to = daemon.place("half", "small");
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "1MB/s", &small, &to]).env("THALWEG_TICKET", &daemon.ticket);
    let copy = Running::start(copy);
    assert!(wait_until(LIMIT, || bytes_allocated(&volume.path) >= 24 << 20));
    std::fs::write(volume.path.join("ballast"), noise(8, 33 << 20)).unwrap();
    let ran = copy.end(LIMIT);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(ran.stderr.contains("the export `half`") && ran.stderr.contains("(min-free)"), "{}", ran.stderr);
    assert!(!volume.path.join("small").exists());
    std::fs::remove_file(volume.path.join("ballast")).unwrap();
    let (code, said) = run(&["cp", &small, &to]);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(volume.path.join("small")).unwrap() == noise(7, 24 << 20));
}

#[test]
fn a_daemon_that_is_started_removes_what_channels_of_a_killed_one_left_that_were_not_recorded() {
    let scratch = Scratch::new();
    let made = |path: &str, files: &[&str]| {
        let log = scratch.path(path);
        std::fs::create_dir_all(&log).unwrap();
        files.iter().for_each(|file| std::fs::write(log.join(file), "").unwrap());
        std::fs::write(log.join("lock"), log_signature()).unwrap();
        std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o700)).unwrap();
        log
    };
    let spill = "0000000000000000.spill";
    let gone = [made("srv/scan.frames", &["lock", spill]), made("srv/run7/scan.frames", &["lock", spill])];
    let stays =
        [made("srv/kept.frames", &["lock", spill, "recorded"]), made("shut/scan.frames", &["lock", spill])];
    let shut = format!("shut={}:ro", scratch.path("shut").display());
    let _daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], &["--export", &shut]);
    gone.iter().for_each(|log| assert!(!log.exists(), "{}", log.display()));
    stays.iter().for_each(|log| assert!(log.join(spill).exists(), "{}", log.display()));
}
