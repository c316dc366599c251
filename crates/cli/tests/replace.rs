//! `sync --delete` where something of another kind stands: a file for a directory, a directory for a file. And where
//! the source says too little to delete by.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use support::{Scratch, assert_no_litter, assert_same, facts, finish};

/// A source, and a destination in which kinds are the other way round.
fn crossed(from: &Path, to: &Path) {
    std::fs::create_dir_all(from.join("b/c")).unwrap();
    std::fs::write(from.join("a"), support::noise(1, 3 << 20)).unwrap();
    std::fs::write(from.join("small"), "small").unwrap();
    std::fs::write(from.join("b/c/f"), "content").unwrap();
    symlink("a", from.join("link")).unwrap();
    fill(to);
}

fn fill(to: &Path) {
    for name in ["a/deep/er", "small/in", "link/in"] {
        std::fs::create_dir_all(to.join(name)).unwrap();
    }
    std::fs::write(to.join("a/deep/er/f"), "old").unwrap();
    std::fs::write(to.join("b"), "old").unwrap();
}

/// `a` 4, `small` 2, `link` 2, `b` 1.
const GOES: [&str; 9] =
    ["a", "a/deep", "a/deep/er", "a/deep/er/f", "b", "link", "link/in", "small", "small/in"];

fn deleted(out: &str) -> BTreeSet<String> {
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = events.filter(|event| event["event"] == "deleted");
    named.map(|event| event["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sync_delete_replaces_a_directory_by_a_file_and_a_file_by_a_directory() {
    let scratch = Scratch::new();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    crossed(&scratch.path("from"), &scratch.path("here"));
    fill(&scratch.path("pushed"));
    fill(&scratch.path("pulled"));
    let at = |name: &str| format!("{}/", scratch.path(name).display());
    let ways = [
        ("here", at("from"), at("here")),
        ("pushed", at("from"), daemon.place("data", "pushed/")),
        ("pulled", daemon.place("data", "from/"), at("pulled")),
    ];
    for (name, from, to) in ways {
        let target = scratch.path(name);
        let words = |more: &[&str]| {
            let fixed = ["sync", "--json", "--delete", "--max-delete", "9", "--ticket", &ticket];
            [&fixed, more, &[&from, &to]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let before = facts(&target);
        let goes: BTreeSet<String> = GOES.iter().map(|name| name.to_string()).collect();
        // A dry run says it and does nothing.
        assert_eq!(deleted(&scratch.ok(words(&["-n"]))), goes, "{name}");
        assert_eq!(facts(&target), before, "{name}");
        assert_eq!(deleted(&scratch.ok(words(&[]))), goes, "{name}");
        assert_same(&scratch.path("from"), &target);
        assert_no_litter(&target);
        assert!(deleted(&scratch.ok(words(&[]))).is_empty(), "{name}");
    }
}

#[test]
fn what_may_not_be_deleted_does_not_make_way() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    crossed(&from, &to);
    let sync = |more: &[&str]| {
        let words = [format!("{}/", from.display()), format!("{}/", to.display())];
        let output = scratch.run(["sync"].iter().chain(more).map(|s| s.to_string()).chain(words));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Nobody asked for it.
    let (code, said) = sync(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a directory that is not empty stands there"), "{said}");
    assert!(to.join("a/deep/er/f").exists() && to.join("b").is_file());
    // More than may go.
    let (code, said) = sync(&["--delete", "--max-delete", "0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("have to make way for it, and 0 more may be deleted"), "{said}");
    assert!(to.join("a/deep/er/f").exists() && to.join("b").is_file() && to.join("small/in").exists());
    // A name in it is excluded.
    let (code, said) = sync(&["--delete", "--exclude", "er"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("excluded"), "{said}");
    assert!(to.join("a/deep/er/f").exists());
    // All else was done, and with the exclusion gone the rest is.
    assert!(to.join("b/c/f").exists() && to.join("small").is_file());
    let (code, said) = sync(&["--delete"]);
    assert_eq!(code, Some(0), "{said}");
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// A volume that is not mounted is an empty directory, and one that cannot be listed may hold anything.
#[test]
fn nothing_is_deleted_for_a_source_that_is_empty_or_could_not_be_listed_in_full() {
    let scratch = Scratch::new();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    let at = |name: &str| format!("{}/", scratch.path(name).display());
    let mode = |name: &str, mode| {
        std::fs::set_permissions(scratch.path(name), Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(scratch.path("empty")).unwrap();
    // Without the slash the directory itself is the source's, and all that is in it.
    let named = scratch.path("empty").display().to_string();
    for (name, from, to) in [
        ("named/empty", named, at("named")),
        ("sent/empty", scratch.path("empty").display().to_string(), daemon.place("data", "sent/")),
        ("fetched/empty", daemon.place("data", "empty"), at("fetched")),
        ("here", at("empty"), at("here")),
        ("pushed", at("empty"), daemon.place("data", "pushed/")),
        ("pulled", daemon.place("data", "empty/"), at("pulled")),
    ] {
        fill(&scratch.path(name));
        let out = scratch.run(["sync", "--delete", "--ticket", &ticket, &from, &to]);
        let said = String::from_utf8_lossy(&out.stderr);
        let is_told = said.contains("the source is empty") || said.contains("is empty at the source");
        assert!(!out.status.success() && is_told, "{name}: {said}");
        let stays = ["a/deep/er/f", "small/in", "link/in", "b"].map(|path| scratch.path(name).join(path));
        assert!(stays.iter().all(|path| path.exists()), "{name}: {said}");
    }
    let Some(as_nobody) = scratch.as_nobody("a source that may not be listed") else { return };
    for name in ["", "from", "from/closed", "to", "to/closed"] {
        let _ = std::fs::create_dir(scratch.path(name));
        mode(name, 0o777);
    }
    for name in ["from/new", "from/closed/inside", "to/extra", "to/closed/inside"] {
        std::fs::write(scratch.path(name), name).unwrap();
    }
    mode("from/closed", 0);
    let mut command = scratch.thalweg();
    command.args(["sync", "--delete", "--state"]).arg(scratch.path("nobody-state"));
    command.args([at("from"), at("to")]).current_dir(scratch.root());
    let command = as_nobody(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let out = finish(command.unwrap());
    // If they are ours, they have the mode of the source by now.
    ["from/closed", "to/closed", "to"].iter().for_each(|name| mode(name, 0o777));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("could not be listed in full"), "{said}");
    for name in ["to/extra", "to/closed/inside", "to/new"] {
        assert!(scratch.path(name).exists(), "{name}: {said}");
    }
}
