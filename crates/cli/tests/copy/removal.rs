//! Copies that remove their source files.

use super::support::job::{Running, with};
use super::support::proxy::Proxy;
use super::support::{Scratch, assert_same, facts, make_tree, noise, wait_until};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Far more than a daemon takes to log a line.
const LIMIT: Duration = Duration::from_secs(60);

/// What is no directory in it.
fn files_below(root: &Path) -> Vec<String> {
    let facts = facts(root).into_iter().filter(|(_, fact)| !fact.starts_with("directory"));
    facts.map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect()
}

#[test]
fn source_files_go_when_the_destination_has_them_and_directories_stay() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let ticket = daemon.ticket.display().to_string();
    let slash = |name: &str| scratch.path(name).display().to_string() + "/";
    make_tree(&scratch.path("kept"));
    for (to, place) in [("to", slash("to")), ("export/pushed", daemon.place("data", "pushed/"))] {
        let from = slash("from");
        scratch.ok(["cp", &slash("kept"), &from]);
        let names = files_below(&scratch.path("from"));
        let report = scratch.path("report").display().to_string();
        let fixed = ["cp", "--remove-source-files", "--ticket", &ticket, "--report", &report];
        let dry = scratch.ok(fixed.iter().copied().chain(["-n", &from, &place]));
        assert!(dry.contains(&format!("would remove {} source files", names.len())), "{dry}");
        assert_eq!(files_below(&scratch.path("from")), names, "it was a dry run");
        std::fs::remove_file(&report).unwrap();
        let said = scratch.ok(fixed.iter().copied().chain([&*from, &place]));
        assert!(said.contains(&format!(", removed {} source files", names.len())), "{said}");
        assert_same(&scratch.path("kept"), &scratch.path(to));
        assert_eq!(files_below(&scratch.path("from")), [""; 0]);
        assert!(scratch.path("from/deep/er/and/deeper").is_dir());
        let told = std::fs::read_to_string(&report).unwrap();
        let gone = told.lines().filter(|line| line.contains(r#""event":"source-removed""#)).count();
        assert_eq!(gone, names.len(), "{told}");
        // Once more there is nothing to do.
        let again = scratch.ok(fixed.iter().copied().chain([&*from, &place]));
        assert!(!again.contains("source file"), "{again}");
        std::fs::remove_dir_all(scratch.path("from")).unwrap();
    }
}

/// With a receipt all of them go when both sides have signed.
#[test]
fn source_files_of_a_daemon_go_when_they_are_here_and_each_is_told() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name).display().to_string();
    make_tree(&scratch.path("kept"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon_with(&[("data", &scratch.path("export"))], &["--log-format", "json"]);
    let ticket = daemon.ticket.display().to_string();
    let (place, to) = (daemon.place("data", "from/"), at("to"));
    let (report, receipt) = (at("report"), at("receipt"));
    let (plain, signed): (&[&str], &[&str]) = (&[], &["--receipt", &receipt]);
    for (round, more) in [plain, signed].into_iter().enumerate() {
        scratch.ok(["cp", &at("kept/"), &at("export/from/")]);
        let names = files_below(&scratch.path("export/from"));
        let fixed = ["cp", "--remove-source-files", "--ticket", &ticket, "--report", &report];
        let dry = scratch.ok(fixed.iter().copied().chain(["-n", &place, &to]));
        assert!(dry.contains(&format!("would remove {} source files", names.len())), "{dry}");
        assert_eq!(files_below(&scratch.path("export/from")), names, "it was a dry run");
        std::fs::remove_file(&report).unwrap();
        let words = fixed.iter().chain(more).copied().chain([&*place, &*to]);
        let said = scratch.ok(words);
        assert!(said.contains(&format!(", removed {} source files", names.len())), "{said}");
        assert_same(&scratch.path("kept"), &scratch.path("to"));
        assert_eq!(files_below(&scratch.path("export/from")), [""; 0]);
        assert!(scratch.path("export/from/deep/er/and/deeper").is_dir());
        let told = std::fs::read_to_string(&report).unwrap();
        let gone = told.lines().filter(|line| line.contains(r#""event":"source-removed""#)).count();
        assert_eq!(gone, names.len(), "{told}");
        let logged = format!(r#""removed":{}"#, names.len());
        // One in each round: a dry run has removed none.
        let lines = || scratch.server_log().matches(&logged).count();
        assert!(wait_until(LIMIT, || lines() == round + 1), "{}", scratch.server_log());
        ["export/from", "to"].iter().for_each(|name| std::fs::remove_dir_all(scratch.path(name)).unwrap());
        std::fs::remove_file(&report).unwrap();
    }
}

/// The receipt would take the place of what was delivered, and then the source go; a report would grow in it.
#[test]
fn a_receipt_or_report_that_might_take_the_place_of_what_is_delivered_is_refused() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name).display().to_string();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::create_dir(scratch.path("there")).unwrap();
    std::os::unix::fs::symlink("there", scratch.path("link")).unwrap();
    std::fs::write(scratch.path("from/receipt.json"), "data").unwrap();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    for from in [at("from/"), daemon.place("data", "from/")] {
        // There, by a link, and where the destination is not there yet.
        let named = [("there/", "there/receipt.json"), ("there/", "link/receipt.json"), ("link/", "there/x")];
        for (to, file) in named.into_iter().chain([("there/new", "there/new")]) {
            let (to, path) = (at(to), at(file));
            for option in ["--receipt", "--report"] {
                let words = ["cp", "--remove-source-files", "--ticket", &ticket, option, &path, &from, &to];
                let out = scratch.run(words);
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                let is_refused = !out.status.success() && said.contains("is in the destination");
                assert!(is_refused, "{option} {file}, {from}: {said}");
                assert_eq!(std::fs::read_dir(scratch.path("there")).unwrap().count(), 0, "{option} {file}");
            }
        }
        assert_eq!(std::fs::read_to_string(scratch.path("from/receipt.json")).unwrap(), "data");
    }
    // Beside it is another place.
    let (receipt, to) = (at("there.json"), at("there/"));
    scratch.ok(["cp", "--remove-source-files", "--receipt", &receipt, &at("from/"), &to]);
    assert_eq!(std::fs::read_to_string(scratch.path("there/receipt.json")).unwrap(), "data");
    assert!(!scratch.path("from/receipt.json").exists());
}

/// Pulled, pushed and on one machine. That its name is taken shows when all is copied.
#[test]
fn where_the_receipt_cannot_be_completed_no_source_file_goes() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir_all(export.join("from")).unwrap();
    std::fs::write(export.join("from/f"), noise(1, 8 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let proxy = Proxy::new(&daemon.address());
    let ticket = daemon.ticket.display().to_string();
    let here = |name: &str| scratch.path(name).display().to_string();
    let pulled = (proxy.place("data", "from/"), here("to"));
    let pushed = (here("export/from/"), proxy.place("data", "pushed/"));
    let local = (here("export/from/"), here("copied/"));
    let receipt = here("receipt");
    let fixed = ["cp", "--remove-source-files", "--ticket", &ticket, "--receipt", &receipt];
    let (none, slow): (&[&str], &[&str]) = (&[], &["--bwlimit", "64KiB"]);
    for ((from, to), rate) in [(pulled, none), (pushed, none), (local, slow)] {
        let words = fixed.iter().chain(rate).copied().chain([&*from, &*to]);
        // Until its name is taken.
        proxy.limit(64 << 10);
        let job = Running::start(with(scratch.thalweg(), words));
        let is_hidden = |name: &OsStr| name.to_string_lossy().starts_with(".receipt.");
        let names = || std::fs::read_dir(scratch.root()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(wait_until(LIMIT, || names().any(|name| is_hidden(&name))), "no receipt is begun");
        std::fs::create_dir(&receipt).unwrap();
        proxy.limit(0);
        if !rate.is_empty() {
            let is_lifted = || scratch.run(["limit", "none"]).status.success();
            assert!(wait_until(LIMIT, is_lifted), "its rate cannot be changed");
        }
        let ran = job.end(LIMIT);
        assert!(ran.code.is_some_and(|code| code != 0), "{ran:?}");
        let why = format!("`{receipt}`: Is a directory");
        assert!(ran.stderr.contains(&why), "{}", ran.stderr);
        assert!(export.join("from/f").exists(), "{from}");
        std::fs::remove_dir(&receipt).unwrap();
    }
}

#[test]
fn a_daemon_that_lets_nothing_be_removed_says_so_before_anything_is_copied() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    std::fs::write(export.join("f"), "content").unwrap();
    let [shut, kept] = ["ro", "no-delete"].map(|flag| format!("{flag}={}:{flag}", export.display()));
    let daemon = scratch.daemon_with(&[("data", &export)], &["--export", &shut, "--export", &kept]);
    let (ticket, to) = (daemon.ticket.display().to_string(), scratch.path("to").display().to_string());
    let fixed = ["cp", "--remove-source-files", "--ticket", &ticket];
    for (name, why) in [("ro", "is read-only"), ("no-delete", "nothing is deleted (no-delete)")] {
        let (real, dry): (&[&str], &[&str]) = (&[], &["-n"]);
        for more in [real, dry] {
            let place = daemon.place(name, "");
            let out = scratch.run(fixed.iter().chain(more).copied().chain([&*place, &*to]));
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(3), "{name}: {said}");
            let hint = "hint: without --remove-source-files";
            assert!(said.contains(why) && said.contains(hint), "{name}: {said}");
            assert!(export.join("f").exists() && !scratch.path("to").exists(), "{name}");
        }
    }
    // What is only read is.
    scratch.ok(["cp", "--ticket", &ticket, &daemon.place("ro", ""), &to]);
}

/// Here, and at a daemon; a tree, and a file that is named, which goes at the end.
#[test]
fn what_was_there_by_size_and_time_stays_until_its_content_is_compared() {
    let scratch = Scratch::new();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    let here = |name: &str| scratch.path(name).display().to_string();
    let far = |path: &str| daemon.place("data", path);
    let ways = [here("from/"), far("from/"), here("from/f"), far("from/f")];
    for (number, from) in ways.iter().enumerate() {
        std::fs::create_dir_all(scratch.path("from")).unwrap();
        std::fs::write(scratch.path("from/f"), "content").unwrap();
        // What was changed within a second of it may be the source itself, by a daemon on this machine.
        std::thread::sleep(Duration::from_millis(1500));
        let to = here(&format!("to-{number}/"));
        scratch.ok(["cp", "--ticket", &ticket, from, &to]);
        let fixed = ["cp", "--remove-source-files", "--ticket", &ticket];
        let out = scratch.run(fixed.iter().copied().chain([&**from, &*to]));
        let (said, noted) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let why =
            "left 1 source file: 1 was there before and not compared by content (--check digest does that)";
        assert!(out.status.success() && said.contains(", left 1 source file"), "{from}: {said}{noted}");
        assert!(noted.contains(why), "{noted}");
        assert!(scratch.path("from/f").exists(), "{from}");
        let said = scratch.ok(fixed.iter().copied().chain(["--check", "digest", from, &to]));
        assert!(said.contains(", removed 1 source file"), "{from}: {said}");
        assert!(!scratch.path("from/f").exists() && Path::new(&to).join("f").exists(), "{from}");
    }
}

#[test]
fn where_the_removal_of_source_files_would_lose_them_it_is_refused_before_anything_is_done() {
    let scratch = Scratch::new();
    for name in ["a", "b", "far"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join("f"), name).unwrap();
    }
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    let slash = |name: &str| scratch.path(name).display().to_string() + "/";
    let (a, b, to, root) = (slash("a"), slash("b"), slash("to"), slash("."));
    // What is named `x` becomes `a/x`, which it is in.
    std::fs::create_dir_all(scratch.path("a/x/x")).unwrap();
    let named = |name: &str| scratch.path(name).display().to_string();
    let (inner, whole, part) = (named("a/x/x"), named("a"), named("a/f"));
    let far = |path: &str| daemon.place("data", path);
    let (far_a, far_b, far_whole, far_inner) = (far("a/"), far("b/"), far("a"), far("a/x/x"));
    for (words, why) in [
        (&["cp", &a, "null:"][..], "the destination keeps nothing"),
        (&["cp", "zero:1MiB", &to], "there are none in this source"),
        (&["cp", "--ticket", &ticket, &far_a, "null:"], "the destination keeps nothing"),
        (&["cp", "--ticket", &ticket, &far_a, &far_b, &to], "several directories"),
        (&["cp", "--ticket", &ticket, &far_whole, &far_inner, &to], "would be copied twice"),
        (&["sync", "--ticket", &ticket, &far_a, &to], "`sync` keeps its source"),
        (&["cp", &a, &b, &to], "several directories"),
        (&["sync", &a, &to], "`sync` keeps its source"),
        (&["cp", &a, &to, "--and", &a, &b], "--and"),
        (&["cp", &a, &a], "are the same"),
        (&["cp", &a, &root], "is inside what it becomes"),
        (&["cp", &inner, &a], "is inside what it becomes"),
        (&["cp", &whole, &part, &to], "would be copied twice"),
    ] {
        let out = scratch.run(words.iter().copied().chain(["--remove-source-files"]));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(why), "{words:?}: {said}");
        for name in ["a", "b", "far"] {
            assert_eq!(std::fs::read_to_string(scratch.path(name).join("f")).unwrap(), name, "{words:?}");
        }
        assert!(!scratch.path("to").exists(), "{words:?}");
    }
    // By a daemon on this machine a directory is not seen to be the source.
    std::fs::hard_link(scratch.path("a/f"), scratch.path("a/second")).unwrap();
    std::os::unix::fs::symlink("f", scratch.path("a/link")).unwrap();
    let itself = daemon.place("data", "a/");
    let fixed = ["cp", "--remove-source-files", "--ticket", &ticket, "--check"];
    for check in ["evidence", "digest", "nothing"] {
        let said = scratch.ok(fixed.iter().copied().chain([check, &*a, &itself]));
        assert!(said.contains(", left 3 source files") && !said.contains(", removed"), "{check}: {said}");
        for name in ["f", "second", "link"] {
            assert_eq!(std::fs::read_to_string(scratch.path("a").join(name)).unwrap(), "a", "{check}");
        }
    }
}
