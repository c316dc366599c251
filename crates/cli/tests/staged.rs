//! Copies through a directory of this machine: `cp --stage`, `sync --stage`.

mod support;

use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs::{File, FileTimes};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::job::{Ran, Running, bytes_allocated, signal, with};
use support::proxy::Proxy;
use support::volume::{Volume, can_mount};
use support::{Daemon, Scratch, assert_no_litter, assert_same, make_tree, noise, wait_until};

/// Long enough for what ends by itself.
const LIMIT: Duration = Duration::from_secs(240);
const MIB: u64 = 1 << 20;

/// A command with a stage of this machine; `size` is what stands behind its directory.
fn staged(scratch: &Scratch, verb: &str, size: &str) -> Command {
    let stage = scratch.path("stage");
    std::fs::create_dir_all(&stage).unwrap();
    let mut words = OsString::from(&stage);
    words.push(size);
    let mut command = with(scratch.thalweg(), [verb, "--stage"]);
    command.arg(words);
    command
}

fn run(command: Command) -> Ran {
    Running::start(command).end(LIMIT)
}

/// Nothing is left in the stage.
#[track_caller]
fn assert_cleared(scratch: &Scratch) {
    let left: Vec<_> = std::fs::read_dir(scratch.path("stage")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The last event.
#[track_caller]
fn last(ran: &Ran) -> serde_json::Value {
    let event: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(event["event"], "staged", "{}", ran.stdout);
    event
}

/// Two daemons, each with a ticket of its own, that the configuration calls `@a` and `@b`.
struct Site {
    here: Scratch,
    a: Scratch,
    b: Scratch,
    daemons: [Daemon; 2],
}

impl Site {
    fn start() -> Site {
        let (here, a, b) = (Scratch::new(), Scratch::new(), Scratch::new());
        for scratch in [&a, &b] {
            std::fs::create_dir(scratch.path("data")).unwrap();
        }
        let daemons = [&a, &b].map(|scratch| scratch.daemon(&[("data", &scratch.path("data"))]));
        let place = |name: &str, daemon: &Daemon| {
            let (address, ticket) = (daemon.address(), daemon.ticket.display());
            format!("[place.{name}]\nurl = \"tw://{address}/data\"\nticket = \"{ticket}\"\n")
        };
        std::fs::create_dir_all(here.path("config/thalweg")).unwrap();
        let text = place("a", &daemons[0]) + &place("b", &daemons[1]);
        std::fs::write(here.path("config/thalweg/config.toml"), text).unwrap();
        Site { here, a, b, daemons }
    }
}

#[test]
fn a_tree_goes_through_a_stage_and_is_the_same_with_all_that_the_stage_is_no_place_for() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    let copy = |verb: &str, size: &str, more: &[&str], from: &str, to: &str| {
        let command = with(staged(&scratch, verb, size), more);
        run(with(command, [scratch.path(from), scratch.path(to)])).expect(0)
    };
    let ran = copy("cp", ":64MiB", &[], "from", "to/");
    assert!(ran.stdout.contains("copied through the stage in"), "{}", ran.stdout);
    assert!(ran.stdout.contains("verified from end to end, durable; narrower leg: "), "{}", ran.stdout);
    assert_same(&scratch.path("from"), &scratch.path("to/from"));
    assert_no_litter(&scratch.path("to"));
    assert_cleared(&scratch);
    // The second time nothing passes.
    let told = last(&copy("cp", "", &["--json"], "from", "to/"));
    assert_eq!((told["done"].as_u64(), told["bytes_past"].as_u64()), (Some(0), Some(0)), "{told}");
    // As another name, a single file, and with deletion.
    copy("cp", "", &[], "from/one-byte", "other-name");
    assert_eq!(std::fs::read(scratch.path("other-name")).unwrap(), b"x");
    std::fs::write(scratch.path("to/from/extra"), b"extra").unwrap();
    std::fs::write(scratch.path("from/deep/new"), noise(5, 70_000)).unwrap();
    let told = last(&copy("sync", "", &["--delete", "--json"], "from/", "to/from"));
    assert_eq!((told["done"].as_u64(), told["deleted"].as_u64()), (Some(1), Some(1)), "{told}");
    assert_same(&scratch.path("from"), &scratch.path("to/from"));
    assert_cleared(&scratch);
}

#[test]
fn a_tree_goes_through_a_stage_to_a_daemon_and_comes_back() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("data")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("data"))]);
    let copy = |from: OsString, to: OsString| {
        let command = with(staged(&scratch, "cp", ":64MiB"), ["--json", "--ticket"]);
        let told = last(&run(with(with(command, [&daemon.ticket]), [from, to])).expect(0));
        assert!(told["done"].as_u64() > Some(300), "{told}");
        assert_cleared(&scratch);
    };
    copy(scratch.path("from").into(), daemon.place("data", "to/").into());
    assert_same(&scratch.path("from"), &scratch.path("data/to/from"));
    copy(daemon.place("data", "to/from/").into(), scratch.path("back").into());
    assert_same(&scratch.path("from"), &scratch.path("back"));
    assert_no_litter(&scratch.path("data"));
}

#[test]
fn a_copy_through_a_stage_ends_with_predicted_against_actual_and_teaches_the_next() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..3 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 1 << 20)).unwrap();
    }
    let report = scratch.path("report");
    let copy = |more: &[&str], to: &str| {
        let command =
            with(with(staged(&scratch, "cp", ":64MiB"), more), [scratch.path("from"), scratch.path(to)]);
        run(command).expect(0)
    };
    let told =
        |more: &[&str], to: &str| last(&copy(&[&["--json"][..], more].concat(), to))["prediction"].clone();
    assert_eq!(told(&[], "first/")["missing"], "profile");
    let second = told(&["--report", report.to_str().unwrap()], "second/");
    assert!(second["wrong"].is_string() && second["within"].is_boolean(), "{second}");
    assert_eq!(second["rests_on"], 1, "{second}");
    let report = std::fs::read_to_string(&report).unwrap();
    let predictions = report.lines().filter(|line| line.contains("\"event\":\"prediction\""));
    assert_eq!(predictions.count(), 1, "{report}");
    let words = copy(&[], "third/").stdout;
    assert!(words.contains("; predicted "), "{words}");
    // Another limit is another way; and where nothing passes there is nothing to hold against anything.
    assert_eq!(told(&["--bwlimit", "1GB/s"], "fourth/")["missing"], "profile");
    assert_eq!(told(&[], "first/")["missing"], "little-moved");
    assert!(told(&["--no-profile"], "fifth/").is_null());
}

#[test]
fn a_copy_between_two_daemons_through_a_stage_ends_with_predicted_against_actual() {
    let site = Site::start();
    std::fs::create_dir(site.a.path("data/run7")).unwrap();
    std::fs::write(site.a.path("data/run7/file"), noise(1, 3 << 20)).unwrap();
    let report = site.here.path("report");
    let told = |to: &str| {
        let words = ["--json", "--report", report.to_str().unwrap(), "@a/run7", to];
        last(&run(with(staged(&site.here, "cp", ":64MiB"), words)).expect(0))["prediction"].clone()
    };
    assert_eq!(told("@b/first")["missing"], "profile");
    let second = told("@b/second");
    assert!(second["wrong"].is_string() && second["rests_on"] == 1, "{second}");
    let report = std::fs::read_to_string(&report).unwrap();
    assert!(report.lines().last().unwrap().contains("\"event\":\"prediction\""), "{report}");
}

#[test]
fn a_tree_goes_from_one_daemon_to_another_through_a_stage() {
    let site = Site::start();
    make_tree(&site.a.path("data/run7"));
    let copy = |more: &[&str]| {
        let command = with(staged(&site.here, "cp", ":512MiB"), more);
        run(with(command, ["@a/run7", "@b/in/"])).expect(0)
    };
    let ran = copy(&["--dry-run"]);
    assert!(ran.stdout.contains("would pass through the stage"), "{}", ran.stdout);
    assert!(!site.b.path("data/in").exists());
    copy(&[]);
    assert_same(&site.a.path("data/run7"), &site.b.path("data/in/run7"));
    assert_no_litter(&site.b.path("data"));
    assert_cleared(&site.here);
    // What changed passes, and no more.
    std::fs::write(site.a.path("data/run7/deep/new"), noise(7, 70_000)).unwrap();
    let told = last(&copy(&["--json"]));
    assert_eq!(told["bytes_done"].as_u64(), Some(70_000), "{told}");
    assert_same(&site.a.path("data/run7"), &site.b.path("data/in/run7"));
    // A single file, by its name and by another one.
    let one = |to: &str| run(with(staged(&site.here, "cp", ""), ["@a/run7/one-byte", to])).expect(0);
    one("@b/in/");
    one("@b/renamed");
    for name in ["in/one-byte", "renamed"] {
        assert_eq!(std::fs::read(site.b.path("data").join(name)).unwrap(), b"x");
    }
}

#[test]
fn without_a_stage_two_places_at_a_daemon_are_told_of_one_and_with_it_what_cannot_be_done_is_refused() {
    let scratch = Scratch::new();
    let refused = |words: &[&str], code: i32, told: &str| {
        let ran = run(with(scratch.thalweg(), words)).expect(code);
        assert!(ran.stderr.contains(told), "{words:?}: {}", ran.stderr);
    };
    let far = ["tw://a.example/data/x", "tw://b.example/data/y"];
    refused(&["cp", far[0], "tw://a.example/data/y"], 3, "--stage DIR");
    let stage = scratch.path("stage").display().to_string();
    std::fs::create_dir(&stage).unwrap();
    for (option, told) in [
        ("--receipt=r", "nobody signs what passes between two far places"),
        ("--remove-source-files", "not done between two far places"),
        ("--no-times", "not done between two far places"),
        ("--check=digest", "not done between two far places"),
        ("--part=1/2", "one copy, from and to one host each"),
    ] {
        refused(&["cp", "--stage", &stage, option, far[0], far[1]], 1, told);
    }
    refused(&["sync", "--stage", &stage, "--delete", far[0], far[1]], 1, "not done between two far places");
    let [from, to] = ["from", "to"].map(|name| scratch.path(name).display().to_string());
    std::fs::create_dir(&from).unwrap();
    for option in ["--remove-source-files", "--receipt=r"] {
        refused(&["cp", "--stage", &stage, option, &from, &to], 1, "takes --check digest");
        let words = ["cp", "--stage", &stage, option, "--check=digest", "--update", &from, &to];
        refused(&words, 1, "--update is not done through one");
    }
    refused(&["cp", "--stage", &format!("{stage}:9"), &from, &to], 1, "at least 1.00 MiB");
    refused(&["cp", "--stage", &stage, "zero:1MiB", &to], 1, "is on no disk");
    let to_ticket = "--to-ticket is for a copy between two daemons";
    refused(&["cp", "--stage", &stage, "--to-ticket=t", &from, &to], 1, to_ticket);
    refused(&["cp", "--stage", &stage, "--to-ticket=t", far[0], &to], 1, to_ticket);
    refused(&["cp", "--stage", &stage, &from, "null:"], 1, "keeps nothing");
    refused(&["cp", "--stage", &stage, "s3://bucket/x", &to], 3, "not looked up in a bucket");
    let inside = scratch.path("from/stage");
    std::fs::create_dir(&inside).unwrap();
    let inside = inside.display().to_string();
    refused(&["cp", "--stage", &inside, &from, &to], 1, "one inside the other");
    refused(&["cp", "--stage", &inside, far[0], &from], 1, "one inside the other");
    let both = ["tw://a.example/data/x/run", "tw://a.example/data/y/run"];
    refused(&["cp", "--stage", &stage, both[0], both[1], far[1]], 3, "would both give the same name");
    // A place that is not reached leaves no stage behind.
    refused(&["cp", "--stage", &stage, "--rsh", "false", &from, "host:there"], 3, "error: ");
    assert_cleared(&scratch);
    refused(&["cp", "--stage", "/nowhere/at/all", &from, &to], 3, "open the stage");
}

#[test]
fn what_the_user_leaves_alone_at_the_destination_does_not_pass_through_a_stage() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    for option in ["--update", "--ignore-existing"] {
        for (places, instead) in [
            (["from/", "to"], "Copy without --stage: then"),
            (["tw://a.example/data/x", "tw://b.example/in/"], "and from there with"),
        ] {
            let command = with(staged(&scratch, "cp", ""), [option]);
            let ran = run(with(command, places)).expect(1);
            assert!(ran.stderr.contains("is not done through one"), "{}", ran.stderr);
            assert!(ran.stderr.contains(&format!("{instead} {option}")), "{}", ran.stderr);
        }
    }
    assert!(!scratch.path("to").exists());
}

/// A pipe gives what is in it once.
#[test]
fn a_dry_run_of_a_copy_through_a_stage_goes_by_a_list_that_comes_from_a_pipe() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a", "b"] {
        std::fs::write(scratch.path("from").join(name), name).unwrap();
    }
    for (option, piped) in [("--files-from", "a\n"), ("--exclude-from", "b\n")] {
        let command = with(staged(&scratch, "cp", ""), ["-n", "--json", option, "-"]);
        let (running, mut pipe) = Running::fed(with(command, [scratch.path("from/"), scratch.path("to")]));
        pipe.write_all(piped.as_bytes()).unwrap();
        drop(pipe);
        let ran = running.end(LIMIT).expect(0);
        let events = ran.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let done: Vec<String> = events
            .filter(|event| event["type"] == "file" && event["outcome"] == "done")
            .map(|event| event["path"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(done, ["a"], "{option}: {}", ran.stdout);
    }
    assert!(!scratch.path("to").exists());
    assert_cleared(&scratch);
}

#[test]
fn a_receipt_of_a_copy_through_a_stage_says_what_its_end_compared() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    let command = with(staged(&scratch, "cp", ""), ["--check", "digest", "--receipt"]);
    run(with(with(command, [&receipt]), [&scratch.path("from/"), &to])).expect(0);
    assert_same(&scratch.path("from"), &to);
    assert_cleared(&scratch);
    let verify = || run(with(with(scratch.thalweg(), ["verify", "--strict"]), [&receipt, &to]));
    // All content has a digest in it, also what passed through the stage.
    verify().expect(0);
    std::fs::write(to.join("one-byte"), b"y").unwrap();
    verify().expect(4);
}

/// As a disk does that loses bits of each file with this name that comes to it: size and times stay.
fn damage(stage: &Path, name: &str) {
    const DAMAGED: &[u8; 7] = b"damaged";
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    for batch in below(stage).flat_map(|stage| below(&stage.path())) {
        let path = batch.path().join("tree").join(name);
        let Ok(file) = File::options().read(true).write(true).open(path) else { continue };
        let mut there = [0; DAMAGED.len()];
        file.read_exact_at(&mut there, 99).unwrap();
        if there != *DAMAGED {
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(DAMAGED, 99).unwrap();
            file.set_times(FileTimes::new().set_modified(modified)).unwrap();
        }
    }
}

/// A leg out reads nothing before the destination has answered, so that what it reads is damaged each time.
#[test]
fn damage_that_stays_is_exit_4_and_names_the_file_and_the_same_command_repairs_it() {
    let site = Site::start();
    std::fs::create_dir(site.a.path("data/run7")).unwrap();
    for (name, seed) in [("damaged", 1), ("whole", 2)] {
        std::fs::write(site.a.path("data/run7").join(name), noise(seed, MIB as usize)).unwrap();
    }
    let proxy = Proxy::new(&site.daemons[1].address());
    let configuration = site.here.path("config/thalweg/config.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let [direct, by_proxy] = [site.daemons[1].address(), proxy.address.to_string()];
    std::fs::write(&configuration, text.replace(&format!("{direct}/"), &format!("{by_proxy}/"))).unwrap();
    let copy = || run(with(staged(&site.here, "cp", ""), ["@a/run7", "@b/"]));
    let stage = site.here.path("stage");
    proxy.before_each(move || damage(&stage, "run7/damaged"));
    let ran = copy().expect(4);
    let is_named = |line: &str| line.starts_with("error: ") && line.contains("`run7/damaged`");
    assert!(ran.stderr.lines().any(is_named) && !ran.stderr.contains("run7/whole"), "{}", ran.stderr);
    let there = |name: &str| std::fs::read(site.b.path("data/run7").join(name)).unwrap();
    assert!(there("damaged") != noise(1, MIB as usize) && there("whole") == noise(2, MIB as usize));
    proxy.before_each(|| ());
    copy().expect(0);
    assert_same(&site.a.path("data/run7"), &site.b.path("data/run7"));
    assert_cleared(&site.here);
}

/// Full before anything came, and in the middle, where it takes no more files.
#[test]
fn a_full_disk_under_a_stage_is_named_loses_nothing_and_the_same_command_finishes_once_there_is_room() {
    if !can_mount("a full stage") {
        return;
    }
    let site = Site::start();
    let (from, to) = (site.a.path("data/run7"), site.b.path("data/run7"));
    std::fs::create_dir(&from).unwrap();
    for number in 0..300 {
        std::fs::write(from.join(number.to_string()), noise(number, 2000)).unwrap();
    }
    let volume = Volume::in_memory(site.here.root(), "small", "size=8m,nr_inodes=120");
    let copy = || {
        let command = with(with(site.here.thalweg(), ["cp", "--stage"]), [&volume.path]);
        run(with(command, ["@a/run7", "@b/"]))
    };
    let refused = || {
        let ran = copy().expect(6);
        let stage = format!("`{}/thalweg-stage-", volume.path.display());
        assert!(ran.stderr.contains(&stage) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    };
    let filler = volume.path.join("filler");
    std::fs::write(&filler, vec![0; 15 << 19]).unwrap();
    refused();
    assert!(!to.exists());
    std::fs::remove_file(&filler).unwrap();
    refused();
    for arrived in std::fs::read_dir(&to).into_iter().flatten().flatten() {
        // What is hidden has no number.
        let Ok(number) = arrived.file_name().to_str().unwrap().parse() else { continue };
        assert!(std::fs::read(arrived.path()).unwrap() == noise(number, 2000), "{number}");
    }
    volume.remount("nr_inodes=4000");
    copy().expect(0);
    assert_same(&from, &to);
    assert_no_litter(&site.b.path("data"));
    assert_eq!(std::fs::read_dir(&volume.path).unwrap().count(), 0);
}

/// What lies there is looked at all the time.
#[test]
fn no_more_lies_in_a_stage_than_may() {
    const SIZE: u64 = 8 * MIB;
    /// Lists, journals and directories.
    const BESIDE: u64 = MIB;
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..30 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, MIB as usize)).unwrap();
    }
    std::fs::write(scratch.path("from/large"), noise(99, 7 * MIB as usize)).unwrap();
    std::fs::write(scratch.path("from/too-large"), noise(100, 9 * MIB as usize)).unwrap();
    let (most, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watches = std::thread::spawn({
        let (stage, most, is_over) = (scratch.path("stage"), most.clone(), is_over.clone());
        move || {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(bytes_allocated(&stage), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let command = with(staged(&scratch, "cp", ":8MiB"), ["--json"]);
    let ran = run(with(command, [scratch.path("from"), scratch.path("to/")]));
    is_over.store(true, Ordering::Relaxed);
    watches.join().unwrap();
    let told = last(&ran.expect(0));
    assert_same(&scratch.path("from"), &scratch.path("to/from"));
    assert_eq!((told["done"].as_u64(), told["files_past"].as_u64()), (Some(31), Some(1)), "{told}");
    assert_eq!(told["bytes_past"].as_u64(), Some(9 * MIB), "{told}");
    let most = most.load(Ordering::Relaxed);
    assert!(most > 0 && most <= SIZE + BESIDE, "{most} bytes lay there");
    assert_cleared(&scratch);
}

#[test]
fn between_two_daemons_a_file_that_is_larger_than_the_stage_is_named_and_the_others_arrive() {
    let site = Site::start();
    std::fs::create_dir(site.a.path("data/run7")).unwrap();
    std::fs::write(site.a.path("data/run7/large"), noise(1, 3 * MIB as usize)).unwrap();
    std::fs::write(site.a.path("data/run7/small"), noise(2, 70_000)).unwrap();
    // Both names at a time have no room.
    std::fs::write(site.a.path("data/run7/one"), noise(3, 2 * MIB as usize)).unwrap();
    std::fs::hard_link(site.a.path("data/run7/one"), site.a.path("data/run7/other")).unwrap();
    let ran = run(with(staged(&site.here, "cp", ":2MiB"), ["@a/run7", "@b/"])).expect(2);
    assert!(ran.stderr.contains("run7/large") && ran.stderr.contains("larger than what may lie"), "{ran:?}");
    assert_eq!(std::fs::read(site.b.path("data/run7/small")).unwrap(), noise(2, 70_000));
    assert!(!site.b.path("data/run7/large").exists());
    for name in ["one", "other"] {
        let there = std::fs::read(site.b.path("data/run7").join(name)).unwrap();
        assert!(there == noise(3, 2 * MIB as usize), "{name}");
    }
}

/// Killed, and stopped in order.
#[test]
fn the_same_command_goes_on_through_its_stage_after_a_kill() {
    let site = Site::start();
    std::fs::create_dir(site.a.path("data/run7")).unwrap();
    for number in 0..24 {
        let name = format!("data/run7/{number}");
        std::fs::write(site.a.path(&name), noise(number, MIB as usize)).unwrap();
    }
    let command = |more: &[&str]| with(with(staged(&site.here, "cp", ":8MiB"), more), ["@a/run7", "@b/"]);
    let arrived = || std::fs::read_dir(site.b.path("data/run7")).map_or(0, |names| names.flatten().count());
    for (at_least, how) in [(1, Signal::SIGKILL), (8, Signal::SIGTERM)] {
        let mut running = Running::start(command(&["--bwlimit", "4MB"]));
        assert!(wait_until(LIMIT, || arrived() > at_least || running.is_over()), "nothing arrives");
        signal(running.pid(), how);
        let ran = running.end(LIMIT);
        assert_eq!(ran.code, (how == Signal::SIGTERM).then_some(143), "{ran:?}");
        assert!(std::fs::read_dir(site.here.path("stage")).unwrap().count() == 1, "{ran:?}");
    }
    // Another command does not take it for its own, and gc finds it.
    let gc = |more: &[&str]| with(site.here.thalweg(), [&["gc"][..], more].concat());
    let stage = site.here.path("stage").display().to_string();
    let listed = run(gc(&[&stage])).expect(0);
    assert!(listed.stdout.contains("left") && listed.stdout.contains("thalweg-stage-"), "{listed:?}");
    let told = last(&run(command(&["--json"])).expect(0));
    assert_eq!(told["failed"].as_u64(), Some(0), "{told}");
    assert_same(&site.a.path("data/run7"), &site.b.path("data/run7"));
    assert_no_litter(&site.b.path("data"));
    assert_cleared(&site.here);
    assert!(run(gc(&["--yes", &stage])).expect(0).stdout.is_empty());
}

#[test]
fn source_files_go_once_they_were_compared_with_the_destination() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for number in 0..5 {
        std::fs::write(scratch.path(&format!("from/{number}")), noise(number, 90_000)).unwrap();
    }
    let command = with(staged(&scratch, "cp", ""), ["--remove-source-files", "--check", "digest", "--json"]);
    let told = last(&run(with(command, [scratch.path("from"), scratch.path("to/")])).expect(0));
    assert_eq!((told["done"].as_u64(), told["sources_removed"].as_u64()), (Some(5), Some(5)), "{told}");
    assert_eq!(std::fs::read_dir(scratch.path("from")).unwrap().count(), 0);
    for number in 0..5 {
        let there = std::fs::read(scratch.path(&format!("to/from/{number}"))).unwrap();
        assert_eq!(there, noise(number, 90_000));
    }
}
