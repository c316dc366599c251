//! `thalweg probe`: bottlenecks made on purpose are named before anything is moved, the source stays as it was, and
//! nothing is left at the destination, whatever becomes of the probe. More of them: `cargo xtask bottlenecks --probe`.

mod support;

#[path = "support/sshd.rs"]
#[allow(dead_code)]
mod sshd;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::chance;
use support::job::Strace;
use support::nets::Cable;
use support::page_cache::forget_cached;
use support::proxy::Proxy;
use support::testbed::Testbed;
use support::volume::{Volume, can_mount};
use support::{Scratch, assert_no_litter, facts, finish, noise, wait_until};

/// The answer of a probe that measures everything. Where too little came of some part in the time there was, it gets
/// more.
fn whole(command: Command) -> Value {
    for (time, is_last) in [(None, false), (Some("20s"), false), (Some("60s"), true)] {
        let out = start(with_time(&command, time));
        if out.status.code() == Some(0) {
            return parsed(&out);
        }
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(!is_last && out.status.code() == Some(2), "{:?}: {said}", out.status);
        chance::say(&format!(
            "not all of it was measured, once more with more time: {}",
            parsed(&out)["missing"]
        ));
    }
    unreachable!("the last time is the last")
}

/// The same command, with another time if there is one.
fn with_time(command: &Command, time: Option<&str>) -> Command {
    let mut again = Command::new(command.get_program());
    again.stdin(Stdio::null());
    let mut is_time = false;
    for word in command.get_args() {
        match time {
            Some(time) if is_time => again.arg(time),
            _ => again.arg(word),
        };
        is_time = word == "--seconds";
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    again
}

fn parsed(out: &Output) -> Value {
    let text = String::from_utf8_lossy(&out.stdout);
    let last = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&out.stderr)));
    serde_json::from_str(last).expect("JSON")
}

fn start(mut command: Command) -> Output {
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A probe as JSON, in the shortest time.
fn probe(scratch: &Scratch) -> Command {
    probe_for(scratch, "4s")
}

fn probe_for(scratch: &Scratch, time: &str) -> Command {
    let mut command = scratch.thalweg();
    command.args(["probe", "--json", "--seconds", time]);
    command
}

/// Reasons for what is missing, all in one.
fn reasons(answer: &Value) -> String {
    answer["missing"].to_string()
}

fn rate(answer: &Value, way: &str) -> f64 {
    answer["ways"][way]["bits_per_s"].as_f64().unwrap_or_else(|| panic!("{way}: {answer}"))
}

/// Content, owner, mode, times.
fn untouched(root: &Path, work: impl FnOnce()) {
    let before = facts(root);
    work();
    assert_eq!(facts(root), before);
}

#[test]
fn every_part_is_measured_and_neither_side_is_changed() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/deep")).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("from/large"), noise(1, 24 << 20)).unwrap();
    for number in 0..200 {
        std::fs::write(scratch.path(&format!("from/deep/{number}")), noise(number, 3000)).unwrap();
    }
    std::fs::write(scratch.path("to/large"), b"what is here stays").unwrap();
    let daemon = scratch.daemon(&[("from", &scratch.path("from")), ("to", &scratch.path("to"))]);
    let ticket = daemon.ticket.to_str().unwrap();
    let picture = scratch.path("basin.svg");
    untouched(scratch.root().join("from").as_path(), || {
        untouched(scratch.root().join("to").as_path(), || {
            let mut push = probe(&scratch);
            push.args(["--ticket", ticket, "--svg"]).arg(&picture);
            push.arg(scratch.path("from")).arg(daemon.place("to", "new/place"));
            let mut pull = probe(&scratch);
            pull.args(["--ticket", ticket]).arg(daemon.place("from", "")).arg(scratch.path("to"));
            let mut local = probe(&scratch);
            local.arg(scratch.path("from")).arg(scratch.path("to"));
            for (way, command) in [("push", push), ("pull", pull), ("local", local)] {
                let answer = whole(command);
                assert_eq!(answer["event"], "probe");
                assert_eq!(answer["stages"].as_array().unwrap().len(), 5);
                for part in ["read", "digest", "verify", "write", "sync"] {
                    let part = &answer["parts"][part];
                    assert!(part["bits_per_s"].as_f64() > Some(0.0), "{way} {part}");
                    assert!(
                        part["low_bits_per_s"].as_f64() <= part["high_bits_per_s"].as_f64(),
                        "{way} {part}"
                    );
                    assert!(
                        part["bytes"].as_u64() > Some(0) && part["seconds"].as_f64() > Some(0.0),
                        "{way}"
                    );
                }
                for name in ["wire", "without_ends", "without_destination", "without_source", "full"] {
                    assert!(rate(&answer, name) > 0.0, "{way} {name}");
                }
                assert!(answer["narrowest"].is_string() && answer["decided_by"].is_string(), "{way}");
                let is_linked = way != "local";
                assert_eq!(answer["parts"]["encrypt"]["bits_per_s"].is_number(), is_linked, "{way}");
                assert_eq!(answer["stages"][2]["alone"]["bits_per_s"].is_number(), is_linked, "{way}");
            }
        });
    });
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.matches(">narrowest<").count() == 1);

    // In words: the sentence first, a drawing that is plain where there is no terminal.
    let (from, to) = (scratch.path("from"), daemon.place("to", ""));
    let out = scratch.run(["probe", "--seconds", "4", "-v", "--ticket", ticket, from.to_str().unwrap(), &to]);
    // 2: too little came of some part.
    assert!(matches!(out.status.code(), Some(0 | 2)), "{out:?}");
    let words = String::from_utf8_lossy(&out.stdout);
    assert!(words.starts_with("narrowest stage: ") && words.contains('<') && words.contains(" #"), "{words}");
    assert!(words.contains("page cache") && !words.contains('\x1b'), "{words}");
}

/// On one machine, and of a daemon near by, whom the client tells what requests a copy would make.
#[test]
fn what_the_page_cache_lacks_is_read_past_it_as_by_a_copy_and_what_it_has_from_there() {
    let row = "a probe past the page cache";
    let scratch = Scratch::new();
    let volume = can_mount(row).then(|| Volume::new(scratch.root(), "ext4", "ext4", 400)).flatten();
    let Some(volume) = volume else { return chance::skipped(row, "needs ext4") };
    let (from, to) = (volume.path.join("file"), volume.path.join("to"));
    std::fs::write(&from, noise(1, 24 << 20)).unwrap();
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon(&[("data", &volume.path)]);
    for (is_far, is_warm) in [(false, false), (false, true), (true, false)] {
        forget_cached(&from);
        if is_warm {
            std::fs::read(&from).unwrap();
        }
        let mut command = probe(&scratch);
        match is_far {
            true => command.arg("--ticket").arg(&daemon.ticket).arg(daemon.place("data", "file")),
            false => command.arg(&from),
        };
        command.arg(&to);
        let answer = whole(command);
        let (read, write) = (&answer["parts"]["read"], &answer["parts"]["write"]);
        let Some(cached) = read["cached"].as_f64() else {
            return chance::skipped(row, "what is cached is not told here");
        };
        // The kernel may take a few pages of its own accord where memory is short, and keep some of what is to be
        // forgotten.
        match is_warm {
            true if cached > 0.95 => {
                assert!(read["past_cache"].as_f64().is_some_and(|share| share < 0.25), "{answer}");
            }
            false if cached == 0.0 => assert_eq!(read["past_cache"], 1.0, "{answer}"),
            _ => chance::say(&format!("{row}: {cached} of it was in the page cache")),
        }
        assert_eq!(write["past_cache"], 1.0, "{answer}");
        assert!(answer["parts"]["digest"]["past_cache"].is_null(), "{answer}");
    }
    forget_cached(&from);
    let out = scratch.run(["probe", "--seconds", "4", from.to_str().unwrap(), to.to_str().unwrap()]);
    // 2: too little came of some part.
    assert!(matches!(out.status.code(), Some(0 | 2)), "{out:?}");
    let words = String::from_utf8_lossy(&out.stdout);
    match words.contains("until durable") {
        true => assert!(words.contains("until durable, past the page cache"), "{words}"),
        false => chance::say(&format!("{row}: nothing was written in the time: {words}")),
    }
    // Of what is to be forgotten the kernel may keep some, and all.
    let is_cold = words.contains("; cold: not in the page cache");
    assert!(!is_cold || words.contains(" read past it"), "{words}");
    assert_no_litter(&to);
}

/// In so short a time a machine that is busy with other things may hold up one of the parts: then once more, three
/// times at most.
fn undisturbed(probed: impl Fn() -> Value, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut answer = probed();
    for _ in 0..3 {
        if is_right(&answer) {
            break;
        }
        chance::say(&format!("something was held up, once more: {answer}"));
        answer = probed();
    }
    answer
}

#[test]
fn a_thin_link_is_the_narrowest_of_both_directions() {
    let Some(cable) = Cable::new("a thin link") else { return };
    cable.limit("100mbit");
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 24 << 20)).unwrap();
    let listen = format!("{}:8487", Cable::ADDRESS_B);
    let daemon = scratch.daemon_at(&listen, &[("data", scratch.root())], &[], |c| cable.enter_b(&c));
    let far = |path: &str| format!("tw://{listen}/data/{path}");
    for places in [
        [scratch.path("file").display().to_string(), far("to/")],
        [far("file"), scratch.path("to").display().to_string()],
    ] {
        // Long enough for its transfers to come to their ends over such a link.
        let probed = || {
            let mut command = probe_for(&scratch, "10s");
            command.arg("--ticket").arg(&daemon.ticket).args(&places);
            whole(cable.enter_a(&command))
        };
        let bits = |answer: &Value| answer["stages"][2]["alone"]["bits_per_s"].as_f64().unwrap();
        let answer = undisturbed(probed, |answer| {
            answer["narrowest"] == "network" && (60e6..130e6).contains(&bits(answer))
        });
        assert_eq!(answer["narrowest"], "network", "{answer}");
        assert!((60e6..130e6).contains(&bits(&answer)), "{answer}");
        assert_eq!(answer["stages"][2]["alone"]["is_at_least"], false);
    }
    // A thinner one, in the shortest time: transfers come to their ends all the same, or are cut where they were
    // steady.
    cable.limit("20mbit");
    let probed = || {
        let mut command = probe_for(&scratch, "4s");
        command.arg("--ticket").arg(&daemon.ticket).arg(scratch.path("file")).arg(far("to/"));
        whole(cable.enter_a(&command))
    };
    // The same line for all; a burst of it may pass at once.
    let is_one_line = |answer: &Value| {
        let ways = ["without_ends", "without_destination", "without_source", "full"];
        let rates = ways.map(|name| rate(answer, name));
        let (least, most) =
            rates.iter().fold((f64::MAX, 0.0f64), |(least, most), &rate| (least.min(rate), most.max(rate)));
        most < 30e6 && least > most / 3.0
    };
    let answer = undisturbed(probed, |answer| answer["narrowest"] == "network" && is_one_line(answer));
    assert_eq!(answer["narrowest"], "network", "{answer}");
    assert!(is_one_line(&answer), "{answer}");
    assert_no_litter(&scratch.path("to"));
}

/// What no terminal and no parser may stumble over.
const ODD: &str = "a \"name\"\nof $(touch pwned) <b> \u{1b}[31m \u{e9}";

#[test]
fn by_ssh_every_part_is_measured_both_ways_whatever_the_names_and_no_process_is_left() {
    let scratch = Scratch::new();
    let Some(sshd) = sshd::Sshd::start(&scratch) else { return };
    let (from, to) = (scratch.path("from").join(ODD), scratch.path("to").join(ODD));
    for directory in [&from, &to] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(from.join(ODD), noise(1, 8 << 20)).unwrap();
    for places in [
        [from.clone().into_os_string(), sshd.url(&to).into()],
        [sshd.url(&from).into(), to.clone().into_os_string()],
    ] {
        let picture = scratch.path("basin.svg");
        let mut command = probe(&scratch);
        command.args(["-e", &sshd.rsh, "--svg"]).arg(&picture).args(&places);
        let answer = whole(command);
        assert_eq!(answer["missing"], serde_json::json!([]), "{answer}");
        for name in ["wire", "without_ends", "without_destination", "without_source", "full"] {
            assert!(rate(&answer, name) > 0.0, "{name}");
        }
        let picture = std::fs::read_to_string(picture).unwrap();
        assert!(!picture.contains("<b>") && !picture.contains('\u{1b}'), "{picture}");
        let mut command = scratch.thalweg();
        command.args(["probe", "--seconds", "4s", "-e", &sshd.rsh]).args(&places);
        let out = start(command);
        let words = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(words.starts_with("narrowest stage: ") && !words.contains('\u{1b}'), "{out:?}");
    }
    sshd.assert_no_movers(Duration::from_secs(60));
    assert_no_litter(&scratch.path("to"));
    assert!(!scratch.path("pwned").exists() && !Path::new("pwned").exists());
}

#[test]
fn a_path_that_loses_packets_is_measured_all_the_same() {
    let Some(testbed) =
        Testbed::up("a lossy path", &["--rtt", "10ms", "--rate", "100Mbit/s", "--loss", "1%"])
    else {
        return;
    };
    let scratch = &testbed.scratch;
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 16 << 20)).unwrap();
    let daemon = scratch.daemon_at("right:8487", &[("data", scratch.root())], &[], |command| {
        testbed.enter("right", &command)
    });
    let mut command = probe_for(scratch, "10s");
    command.arg("--ticket").arg(&daemon.ticket).arg(scratch.path("file")).arg("tw://right:8487/data/to/");
    let answer = whole(testbed.enter("left", &command));
    // Everything else is in memory.
    assert_eq!(answer["narrowest"], "network", "{answer}");
    let bits = answer["stages"][2]["alone"]["bits_per_s"].as_f64().unwrap();
    // The line carries 100 Mbit/s, and eight streams or more fill it.
    assert!((40e6..130e6).contains(&bits), "{bits}");
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn a_source_that_may_not_be_read_is_said_and_the_rest_is_measured() {
    if !chance::is_root() || !chance::has("setpriv") {
        return chance::skipped("an unreadable source", "needs root to become nobody, and setpriv");
    }
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    for name in ["from/closed", "half", "to"] {
        std::fs::create_dir_all(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/closed/file"), noise(1, 4 << 20)).unwrap();
    std::fs::write(scratch.path("half/open"), noise(2, 4 << 20)).unwrap();
    std::fs::write(scratch.path("half/closed"), noise(3, 4 << 20)).unwrap();
    let modes = [(".", 0o777), ("to", 0o777), ("from/closed", 0o700), ("half/closed", 0o600)];
    for (name, mode) in modes {
        std::fs::set_permissions(scratch.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let program = scratch.path("thalweg-of-all");
    std::fs::copy(scratch.thalweg().get_program(), &program).unwrap();
    let ask = |from: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["probe", "--json", "--seconds", "4s"]).arg(scratch.path(from)).arg(scratch.path("to"));
        command.env("THALWEG_STATE", scratch.path("state-of-nobody")).env("HOME", scratch.root());
        start(command)
    };
    let out = ask("from");
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(reasons(&parsed(&out)).contains("ermission"), "{out:?}");
    assert!(rate(&parsed(&out), "without_source") > 0.0, "{out:?}");
    // What can be read is measured.
    let out = ask("half");
    let answer = parsed(&out);
    assert!(answer["parts"]["read"]["bytes"].as_u64() >= Some(4 << 20), "{answer}");
    for name in ["without_destination", "full"] {
        let way = &answer["ways"][name];
        assert!(way["bits_per_s"].is_number() || way["missing"].is_string(), "{answer}");
    }
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn slow_reads_and_slow_writes_are_named_before_anything_is_moved() {
    if !Strace::available("slow disks") {
        return;
    }
    for (calls, is_push, narrowest) in
        [("pread64", true, "source-storage"), ("pwrite64", false, "destination-storage")]
    {
        let scratch = Scratch::in_memory();
        std::fs::create_dir(scratch.path("to")).unwrap();
        // Small enough to be written through the page cache: writes of an io_uring cannot be delayed.
        std::fs::write(scratch.path("file"), noise(1, 15 << 20)).unwrap();
        let daemon = scratch.daemon(&[("data", scratch.root())]);
        let mut command = probe(&scratch);
        command.arg("--ticket").arg(&daemon.ticket);
        match is_push {
            true => command.arg(scratch.path("file")).arg(daemon.place("data", "to/")),
            false => command.arg(daemon.place("data", "file")).arg(scratch.path("to")),
        };
        let slow = Strace::inject(&format!("{calls}:delay_exit=60000"));
        let answer = whole(slow.around(&command));
        assert_eq!(answer["narrowest"], narrowest, "{answer}");
        assert!(answer["factor"].as_f64() > Some(1.15), "{answer}");
        assert_no_litter(&scratch.path("to"));
    }
}

#[test]
fn what_cannot_be_measured_is_said_and_the_rest_is_measured() {
    let scratch = Scratch::new();
    for name in ["from", "to", "empty"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/one-byte"), b"x").unwrap();
    let read_only = format!("ro={}:ro", scratch.path("to").display());
    let daemon = scratch.daemon_with(&[("data", scratch.root())], &["--export", &read_only]);
    let ask = |places: [String; 2]| {
        let mut command = probe(&scratch);
        command.arg("--ticket").arg(&daemon.ticket).args(places);
        start(command)
    };
    let here = |name: &str| scratch.path(name).display().to_string();

    let out = ask([here("from"), daemon.place("ro", "x")]);
    assert_eq!(out.status.code(), Some(2));
    let answer = parsed(&out);
    assert!(reasons(&answer).contains("read-only"), "{answer}");
    assert!(rate(&answer, "without_ends") > 0.0 && rate(&answer, "without_destination") > 0.0);
    assert!(answer["ways"]["full"]["missing"].is_string());

    for empty in [here("empty"), daemon.place("data", "empty")] {
        let to = if empty.starts_with("tw:") { here("to") } else { daemon.place("data", "to") };
        let out = ask([empty, to]);
        assert_eq!(out.status.code(), Some(2));
        let answer = parsed(&out);
        assert!(reasons(&answer).contains("no file with content"), "{answer}");
        assert!(rate(&answer, "without_source") > 0.0, "{answer}");
    }

    // One byte is little, and is measured for what it is.
    let out = ask([here("from"), daemon.place("data", "to")]);
    let answer = parsed(&out);
    assert_eq!(answer["parts"]["read"]["bytes"], 1, "{answer}");

    let out = ask([here("absent"), daemon.place("data", "to")]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    let out = ask([here("from"), daemon.place("none", "to")]);
    assert_eq!(out.status.code(), Some(2), "hosts are measured, whatever the place");
    assert!(reasons(&parsed(&out)).contains("no export"));
    let out = ask([here("from"), "tw://127.0.0.1:1/data/x".to_owned()]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    for made in [["zero:1GiB".to_owned(), here("to")], [here("from"), "null:".to_owned()]] {
        assert_eq!(ask(made).status.code(), Some(1));
    }
    assert_no_litter(scratch.root().join("to").as_path());
}

#[test]
fn a_destination_without_room_is_left_alone() {
    if !can_mount("a full destination") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 4 << 20)).unwrap();
    let volume = Volume::in_memory(scratch.root(), "full", "size=24m");
    let mut command = probe(&scratch);
    command.arg(scratch.path("file")).arg(&volume.path);
    let out = start(command);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(reasons(&parsed(&out)).contains("free"), "{out:?}");
    assert_eq!(std::fs::read_dir(&volume.path).unwrap().count(), 0);
}

/// Looked at all the time while it writes as much as it may, on a disk that would take much more in that time.
#[test]
fn no_more_than_a_quarter_of_the_free_room_is_taken_at_any_time() {
    const FREE_BYTES: u64 = 128 << 20;
    if !can_mount("a probe of a small destination") {
        return;
    }
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("file"), noise(1, 4 << 20)).unwrap();
    let volume = Volume::in_memory(scratch.root(), "small", &format!("size={FREE_BYTES}"));
    let dir = thalweg_sys::Dir::open(&volume.path).unwrap();
    let free = || dir.file_system().unwrap().bytes_available;
    let before = free();
    let mut command = probe(&scratch);
    command.arg(scratch.path("file")).arg(&volume.path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut least = before;
    let is_over = wait_until(Duration::from_secs(120), || {
        least = least.min(free());
        !matches!(child.try_wait(), Ok(None))
    });
    assert!(is_over, "the probe does not end");
    let out = finish(child);
    // 2: too little came of some part.
    assert!(matches!(out.status.code(), Some(0 | 2)), "{out:?}");
    let answer = parsed(&out);
    let written = answer["parts"]["write"]["bytes"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    assert!(written > 0 && written <= before / 4, "{written} bytes were written: {answer}");
    // Directories and what is noted take a little too.
    assert!(before - least <= before / 4 + (1 << 20), "{} of {before} bytes were taken", before - least);
    assert_eq!(std::fs::read_dir(&volume.path).unwrap().count(), 0);
}

/// A wrong name costs no measurement, a full disk no answer.
#[test]
fn a_drawing_that_cannot_be_written_is_known_before_and_costs_no_answer() {
    let scratch = Scratch::new();
    for name in ["from", "to"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/file"), noise(1, 4 << 20)).unwrap();
    let drawn = |picture: &Path| {
        let mut command = probe(&scratch);
        command.arg("--svg").arg(picture).arg(scratch.path("from")).arg(scratch.path("to"));
        let out = start(command);
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        (out.status.code(), told.contains("\"event\":\"probe\""), told)
    };
    let (code, is_answered, told) = drawn(&scratch.path("no/such/basin.svg"));
    assert!(code == Some(3) && !is_answered && told.contains("write the drawing"), "{code:?}: {told}");
    if !can_mount("a full disk for a drawing") {
        return;
    }
    let volume = Volume::in_memory(scratch.root(), "full", "size=64k");
    // As much as there is room for.
    std::fs::write(volume.path.join("filler"), noise(2, 1 << 20)).unwrap_err();
    let (code, is_answered, told) = drawn(&volume.path.join("basin.svg"));
    assert!(code == Some(6) && is_answered && told.contains("write the drawing"), "{code:?}: {told}");
    assert_eq!(std::fs::read_dir(&volume.path).unwrap().count(), 1);
}

#[test]
fn a_link_that_is_cut_ends_a_probe_with_what_it_has() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 24 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let proxy = Proxy::new(&daemon.address());
    let mut command = probe(&scratch);
    command.arg("--ticket").arg(&daemon.ticket).arg(scratch.path("file")).arg(proxy.place("data", "to/"));
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first transfer is under way.
    assert!(wait_until(Duration::from_secs(60), || proxy.passed() > 8 << 20));
    proxy.refuse(true);
    proxy.cut();
    let out = finish(running);
    assert!(matches!(out.status.code(), Some(2 | 3)), "{out:?}");
    let answer = parsed(&out);
    assert!(answer["event"] == "error" || !answer["missing"].as_array().unwrap().is_empty(), "{answer}");
    assert!(wait_until(Duration::from_secs(60), || !scratch.path("to/.thalweg-staging").exists()));
}

#[test]
fn what_a_killed_probe_leaves_goes_with_the_next_one_or_with_gc() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("to")).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 24 << 20)).unwrap();
    let staging = scratch.path("to/.thalweg-staging");
    let has_begun = || std::fs::read_dir(&staging).is_ok_and(|mut names| names.next().is_some());
    // By a daemon: it clears up as soon as its client is gone.
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let mut command = probe(&scratch);
    command.arg("--ticket").arg(&daemon.ticket).arg(scratch.path("file")).arg(daemon.place("data", "to/"));
    let mut killed = command.stdout(Stdio::null()).spawn().unwrap();
    assert!(wait_until(Duration::from_secs(60), has_begun));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(wait_until(Duration::from_secs(60), || !staging.exists()));

    for clears in ["gc", "probe"] {
        let mut command = probe(&scratch);
        command.arg(scratch.path("file")).arg(scratch.path("to"));
        let mut killed = command.stdout(Stdio::null()).spawn().unwrap();
        assert!(wait_until(Duration::from_secs(60), has_begun));
        killed.kill().unwrap();
        killed.wait().unwrap();
        if !staging.exists() {
            chance::say("what was killed was between two measurements");
            continue;
        }
        match clears {
            "gc" => {
                let told = scratch.ok(["gc", "--yes", scratch.path("to").to_str().unwrap()]);
                // Killed while it was clearing up, it left no job.
                assert!(told.is_empty() || told.starts_with("removed"), "{told}");
            }
            _ => {
                let mut again = probe(&scratch);
                again.arg(scratch.path("file")).arg(scratch.path("to"));
                whole(again);
            }
        }
        assert_no_litter(&scratch.path("to"));
    }
}
