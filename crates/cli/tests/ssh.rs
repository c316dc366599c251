//! Copies by ssh: the real program, the system's ssh, a real sshd.

mod support;

#[path = "support/sshd.rs"]
mod sshd;

#[path = "ssh/program.rs"]
mod program;

#[path = "ssh/third_party.rs"]
mod third_party;

use sshd::Sshd;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::canary::{Secrets, key_files, leaves_no_core_dump};
use support::chance::{has, in_time, skipped};
use support::job::{Running, bytes_allocated, journal_bytes, priorities};
use support::machine::{elsewhere, in_place_of_ssh};
use support::volume::{Volume, may_mount};
use support::{Scratch, assert_no_litter, assert_same, finish, make_tree, noise, wait_until};
use thalweg_lab::wrap::wrap;

/// Long enough for what ends by itself, far below the patience of what does not.
const GONE: Duration = Duration::from_secs(30);
/// Long enough for bytes to be durable on a disk that is slow.
const ARRIVES: Duration = Duration::from_secs(300);

/// Runs `thalweg cp` with the options that lead to `sshd`.
fn cp<S: AsRef<OsStr>>(scratch: &Scratch, sshd: &Sshd, arguments: &[S]) -> Output {
    finish(command(scratch, sshd, arguments).spawn().expect("start"))
}

fn command<S: AsRef<OsStr>>(scratch: &Scratch, sshd: &Sshd, arguments: &[S]) -> Command {
    let mut command = scratch.thalweg();
    command.args(["cp", "-e", &sshd.rsh]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ok<S: AsRef<OsStr>>(scratch: &Scratch, sshd: &Sshd, arguments: &[S]) -> String {
    let output = cp(scratch, sshd, arguments);
    assert!(output.status.success(), "{}\n{}", output.status, said(&output));
    said(&output)
}

/// Everything that a command said.
fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_tree_goes_by_ssh_and_comes_back_the_same() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("from"));
    let out = ok(&scratch, &sshd, &[text(&scratch.path("from")), sshd.url(&scratch.path("far/"))]);
    assert!(!out.contains("ride in ssh"), "{out}");
    assert_same(&scratch.path("from"), &scratch.path("far/from"));
    assert_no_litter(&scratch.path("far"));
    ok(&scratch, &sshd, &[sshd.url(&scratch.path("far/from/")), text(&scratch.path("back"))]);
    assert_same(&scratch.path("from"), &scratch.path("back"));
    assert_no_litter(&scratch.path("back"));
    sshd.assert_no_movers(GONE);
}

/// What only asks, by ssh: the same answers as here.
#[test]
fn places_by_ssh_are_listed_summed_printed_compared_verified_and_removed() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("tree"));
    let tree = text(&scratch.path("tree"));
    let ask = |words: &[&str]| {
        let mut command = scratch.thalweg();
        let (verb, rest) = words.split_first().expect("a command");
        command.args([verb, "-e", sshd.rsh.as_str()]).args(rest);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"))
    };
    let answer = |words: &[&str]| {
        let out = ask(words);
        assert!(out.status.success(), "{words:?}: {}", said(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let there = sshd.url(&scratch.path("tree"));
    assert_eq!(answer(&["ls", "-lR", &there]), scratch.ok(["ls", "-lR", &tree]));
    assert_eq!(answer(&["du", &there]), scratch.ok(["du", &tree]));
    let large = ask(&["cat", &format!("{there}/deep/er/large"), &format!("{there}/one-byte")]);
    assert!(large.stdout == [noise(1000, 9 << 20 | 12345), b"x".to_vec()].concat(), "{}", said(&large));
    ok(
        &scratch,
        &sshd,
        &["--receipt", &text(&scratch.path("receipt")), &format!("{tree}/"), &sshd.url(&scratch.path("far"))],
    );
    let far = sshd.url(&scratch.path("far"));
    assert!(answer(&["check", &tree, &far]).contains("same: "));
    // Both at one host: one mover for both.
    let logins = sshd.logins();
    assert!(answer(&["check", &there, &far]).contains("same: "));
    assert_eq!(sshd.logins(), logins + 1);
    assert!(answer(&["verify", &text(&scratch.path("receipt")), &far]).contains("verified: "));
    assert_eq!(answer(&["rm", "-r", &format!("{far}/deep"), &format!("{far}/link")]).lines().count(), 1);
    assert!(!scratch.path("far/deep").exists() && scratch.path("far/one-byte").exists());
    assert_eq!(ask(&["check", &tree, &far]).status.code(), Some(2));
    assert_eq!(ask(&["verify", &text(&scratch.path("receipt")), &far]).status.code(), Some(2));
    assert_eq!(ask(&["cat", &format!("{there}/absent")]).status.code(), Some(3));
    sshd.assert_no_movers(GONE);
}

#[test]
fn by_ssh_links_that_are_followed_lead_wherever_the_user_may_go() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::create_dir_all(scratch.path("far/run")).unwrap();
    std::fs::write(scratch.path("beside"), "content").unwrap();
    std::os::unix::fs::symlink(scratch.path("beside"), scratch.path("far/run/link")).unwrap();
    let far = sshd.url(&scratch.path("far/run/"));
    ok(&scratch, &sshd, &["-L".to_owned(), far, text(&scratch.path("to"))]);
    assert!(!std::fs::symlink_metadata(scratch.path("to/link")).unwrap().is_symlink());
    assert_eq!(std::fs::read(scratch.path("to/link")).unwrap(), b"content");
}

#[test]
fn by_ssh_source_files_go_when_they_are_here() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("kept"));
    scratch.ok(["cp".to_owned(), text(&scratch.path("kept/")), text(&scratch.path("far"))]);
    let far = sshd.url(&scratch.path("far/"));
    let said = ok(&scratch, &sshd, &["--remove-source-files".to_owned(), far, text(&scratch.path("to"))]);
    assert!(said.contains(" source files") && !said.contains(", left "), "{said}");
    assert_same(&scratch.path("kept"), &scratch.path("to"));
    assert!(!scratch.path("far/one-byte").exists() && scratch.path("far/deep").is_dir());
    sshd.assert_no_movers(GONE);
}

#[test]
fn paths_without_a_slash_in_front_are_below_the_far_home() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::write(scratch.path("file"), noise(1, 100_000)).unwrap();
    let file = text(&scratch.path("file"));
    let port = sshd.port.to_string();
    ok(&scratch, &sshd, &["--port", &port, &file, "127.0.0.1:one"]);
    ok(&scratch, &sshd, &["--port", &port, &file, "127.0.0.1:sub/~/two"]);
    ok(&scratch, &sshd, &["--port", &port, &file, "127.0.0.1:~/three"]);
    ok(&scratch, &sshd, &["--port", &port, &file, "127.0.0.1:"]);
    ok(&scratch, &sshd, &[&file, &format!("ssh://127.0.0.1:{port}/~/four")]);
    for name in ["one", "sub/~/two", "three", "file", "four"] {
        assert_eq!(std::fs::read(sshd.home.join(name)).unwrap(), noise(1, 100_000), "{name}");
    }
    ok(
        &scratch,
        &sshd,
        &["--port", &port, "127.0.0.1:sub/~/two", "127.0.0.1:one", &text(&scratch.path("all"))],
    );
    assert_eq!(std::fs::read(scratch.path("all/two")).unwrap(), noise(1, 100_000));
    assert_eq!(std::fs::read(scratch.path("all/one")).unwrap(), noise(1, 100_000));
}

#[test]
fn names_with_blanks_quotes_and_new_lines_reach_the_far_side_unharmed() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    let name = OsStr::from_bytes(b"it's a \"name\"\nof $(touch pwned) `id` \\ ; \xff");
    let from = scratch.path("from").join(name);
    make_tree(&from);
    let mut place = OsString::from(format!("ssh://127.0.0.1:{}", sshd.port));
    place.push(scratch.path("far").join(name));
    ok(&scratch, &sshd, &[&from.join("").into_os_string(), &place]);
    assert_same(&from, &scratch.path("far").join(name));
    place.push("/");
    ok(&scratch, &sshd, &[&place, scratch.path("back").as_os_str()]);
    assert_same(&from, &scratch.path("back"));
    assert!(!sshd.home.join("pwned").exists());
}

#[test]
fn what_login_scripts_print_is_skipped() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    let line = "THALWEG-MOVER? THALWEG-BRIDGE \\033[31mWelcome to the machine\\n";
    let script = format!(
        "printf '{line}'; for i in $(seq 500); do echo 'line of a long greeting'; done; printf 'no end'\n"
    );
    for name in [".bashrc", ".zshenv", ".profile"] {
        std::fs::write(sshd.home.join(name), &script).unwrap();
    }
    let banner = Command::new("ssh").args(["-V"]).output().expect("ssh");
    assert!(banner.status.success());
    std::fs::write(scratch.path("file"), noise(2, 3 << 20)).unwrap();
    let file = text(&scratch.path("file"));
    ok(&scratch, &sshd, &[&file, &sshd.url(&scratch.path("far-1"))]);
    ok(&scratch, &sshd, &["--via-ssh", &file, &sshd.url(&scratch.path("far-2"))]);
    for name in ["far-1", "far-2"] {
        assert_eq!(std::fs::read(scratch.path(name)).unwrap(), noise(2, 3 << 20));
    }
    // Endless noise costs a bounded time and names itself.
    std::fs::write(sshd.home.join(".bashrc"), "yes noise\n").unwrap();
    let begun = Instant::now();
    let out = cp(&scratch, &sshd, &[&file, &sshd.url(&scratch.path("far-3"))]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(in_time("endless noise", begun.elapsed(), Duration::from_secs(20)), "{:?}", begun.elapsed());
}

#[test]
fn with_every_port_shut_data_ride_in_ssh_and_the_user_is_told() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("from"));
    let more =
        ["--via-ssh", "--class", "scavenger", "--window", "1MiB", "--via", "127.0.0.1", "--bind", "lo"];
    let places = [text(&scratch.path("from/")), sshd.url(&scratch.path("far"))];
    let out =
        ok(&scratch, &sshd, &more.into_iter().chain(places.iter().map(String::as_str)).collect::<Vec<_>>());
    assert!(out.contains("ride in ssh") && out.contains("2 MB per round trip"), "{out}");
    let unused =
        "where data ride in ssh: --class scavenger (but for nice and I/O priority), --window, --via, --bind";
    assert_eq!(out.matches(unused).count(), 1, "{out}");
    assert_same(&scratch.path("from"), &scratch.path("far"));
    ok(&scratch, &sshd, &["--via-ssh", &sshd.url(&scratch.path("far/")), &text(&scratch.path("back"))]);
    assert_same(&scratch.path("from"), &scratch.path("back"));
    sshd.assert_no_movers(GONE);
}

/// The first stream carries all of it: the others are still being dialled when it is over.
#[test]
fn a_small_copy_that_rides_in_ssh_takes_its_logins_along_and_says_nothing_of_them() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::write(scratch.path("file"), noise(5, 5000)).unwrap();
    let told = |number: u32| scratch.path(&format!("told-{number}"));
    for number in 0..10 {
        let mut small = command(&scratch, &sshd, &["--via-ssh"]);
        small.arg(scratch.path("file")).arg(sshd.url(&scratch.path(&format!("far-{number}"))));
        // A file: who reads a pipe waits for everybody who has it.
        small.stdout(Stdio::null()).stderr(std::fs::File::create(told(number)).unwrap());
        let out = finish(small.spawn().unwrap());
        let left = sshd.clients();
        assert!(out.status.success(), "{}", std::fs::read_to_string(told(number)).unwrap());
        assert!(left.is_empty(), "they outlive copy {number}: {left:?}");
    }
    sshd.assert_no_movers(GONE);
    for number in 0..10 {
        let text = std::fs::read_to_string(told(number)).unwrap();
        let is_error = |line: &str| line.starts_with("error: ");
        assert!(text.contains("ride in ssh") && !text.lines().any(is_error), "{text}");
    }
}

#[test]
fn a_bridge_that_finds_nobody_tells_its_client_and_not_the_user() {
    let scratch = Scratch::new();
    // Free again when it is dialled.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut bridge = scratch.thalweg();
    bridge.args(["mover", "--bridge", &port.to_string()]);
    let out = finish(bridge.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(String::from_utf8_lossy(&out.stdout), "\nTHALWEG-BRIDGE gone\n");
    assert!(out.stderr.is_empty(), "{}", said(&out));
}

/// A far `thalweg` that tells untruths about itself: `edit` is for sed.
fn lying_program(sshd: &Sshd, edit: &str) {
    let far = sshd.bin().join("thalweg");
    // Bridges are left as they are: sed would spoil what they carry.
    let script = format!(
        "#!/bin/sh\ncase \"$2\" in --bridge) exec {program} \"$@\";; esac\n{program} \"$@\" | sed -u '{edit}'\n",
        program = env!("CARGO_BIN_EXE_thalweg")
    );
    std::fs::write(&far, script).unwrap();
    std::fs::set_permissions(&far, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_far_side_whose_port_is_shut_dials_back_and_else_data_ride_in_ssh() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    make_tree(&scratch.path("from"));
    // Port 1 is shut.
    lying_program(&sshd, r#"s/"port":[0-9]*/"port":1/"#);
    let out = ok(&scratch, &sshd, &[text(&scratch.path("from/")), sshd.url(&scratch.path("far-1"))]);
    assert!(!out.contains("ride in ssh"), "{out}");
    assert_same(&scratch.path("from"), &scratch.path("far-1"));
    ok(&scratch, &sshd, &[sshd.url(&scratch.path("far-1/")), text(&scratch.path("back-1"))]);
    assert_same(&scratch.path("from"), &scratch.path("back-1"));
    // At the ports that it may, of which another program has all or none.
    let free = || std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let (taken, port) = (free(), free().local_addr().unwrap().port());
    for (port, rides, to) in [(port, false, "far-3"), (taken.local_addr().unwrap().port(), true, "far-4")] {
        let ports = ["--near-ports".to_owned(), format!("{port}-{port}")];
        let places = [text(&scratch.path("from/")), sshd.url(&scratch.path(to))];
        let out = ok(&scratch, &sshd, &[ports, places].concat());
        assert_eq!(out.contains("ride in ssh (no port of 127.0.0.1"), rides, "{out}");
        assert_same(&scratch.path("from"), &scratch.path(to));
    }
    lying_program(&sshd, r#"s/"port":[0-9]*/"port":1/;s/"dials_back":true/"dials_back":false/"#);
    let out = ok(&scratch, &sshd, &[text(&scratch.path("from/")), sshd.url(&scratch.path("far-2"))]);
    assert!(out.contains("ride in ssh (no port of 127.0.0.1"), "{out}");
    assert_same(&scratch.path("from"), &scratch.path("far-2"));
    sshd.assert_no_movers(GONE);
}

#[test]
fn another_machine_at_the_far_port_is_not_taken_for_the_far_mover() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    std::fs::write(scratch.path("file"), noise(3, 1 << 20)).unwrap();
    // It accepts and is silent, like many a firewall; then a mover with the wrong certificate would be refused as well.
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    lying_program(
        &sshd,
        &format!(r#"s/"port":[0-9]*/"port":{port}/;s/"dials_back":true/"dials_back":false/"#),
    );
    let begun = Instant::now();
    let out = ok(&scratch, &sshd, &[text(&scratch.path("file")), sshd.url(&scratch.path("far"))]);
    assert!(out.contains("ride in ssh"), "{out}");
    assert!(in_time("a stranger", begun.elapsed(), Duration::from_secs(15)), "{:?}", begun.elapsed());
    lying_program(&sshd, r#"s/"fingerprint":"..../"fingerprint":"0000/"#);
    let out = cp(&scratch, &sshd, &[text(&scratch.path("file")), sshd.url(&scratch.path("far-2"))]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(!scratch.path("far-2").exists());
}

#[test]
fn a_range_of_ports_is_kept() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, port) = (free(), free().local_addr().unwrap().port());
    let told = sshd.home.join("told");
    lying_program(&sshd, &format!("w {}", told.display()));
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let arguments = [text(&scratch.path("file")), sshd.url(&scratch.path("far"))];
    let ports = format!("{port}-{port}");
    ok(&scratch, &sshd, &[&["--far-ports".to_owned(), ports], arguments.as_slice()].concat());
    let line = std::fs::read_to_string(&told).unwrap();
    assert!(line.contains(&format!("\"port\":{port},")), "{line}");
    let taken = taken.local_addr().unwrap().port();
    let ports = format!("{taken}-{taken}");
    let out = cp(&scratch, &sshd, &[&["--far-ports".to_owned(), ports], arguments.as_slice()].concat());
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
}

/// A static program of ours: as `THALWEG_STATIC` names it, else made here, once. `None`, with the reason told, where it
/// cannot be made.
fn static_program() -> Option<std::path::PathBuf> {
    if let Some(named) = std::env::var_os("THALWEG_STATIC") {
        return Some(named.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::path::absolute(env!("CARGO_BIN_EXE_thalweg")).unwrap();
    let target = target.ancestors().nth(2).unwrap().to_owned();
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let made = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "thalweg", "--target", &triple, "--target-dir"])
        .arg(&target)
        .current_dir(root)
        .status()
        .expect("cargo");
    if !made.success() {
        let how = "apt-get install musl-tools, or name one with THALWEG_STATIC";
        skipped("bootstrap", &format!("no static program: rustup target add {triple}, {how}"));
        return None;
    }
    Some(target.join(triple).join("debug/thalweg"))
}

#[test]
fn bootstrap_places_our_own_program_once_and_never_a_damaged_one() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    let Some(program) = static_program() else { return };
    make_tree(&scratch.path("from"));
    let bootstrap = |name: &str| {
        let mut command = command(&scratch, &sshd, &["--bootstrap"]);
        command.env("THALWEG_STATIC", &program).arg(scratch.path("from/")).arg(sshd.url(&scratch.path(name)));
        finish(command.spawn().unwrap())
    };
    let out = bootstrap("far-1");
    assert!(out.status.success(), "{}", said(&out));
    assert_same(&scratch.path("from"), &scratch.path("far-1"));
    let cache = sshd.cache().join("thalweg");
    let entries =
        || std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let [directory] = entries().try_into().expect("one program in the cache");
    let placed = directory.join("thalweg");
    assert_eq!(std::fs::read(&placed).unwrap(), std::fs::read(&program).unwrap());
    assert_eq!(placed.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "nothing else");

    // A second time it is there; a damaged one is replaced.
    let before = placed.metadata().unwrap().modified().unwrap();
    assert!(bootstrap("far-2").status.success());
    assert_eq!(placed.metadata().unwrap().modified().unwrap(), before);
    std::fs::OpenOptions::new().append(true).open(&placed).unwrap().set_len(1000).unwrap();
    let out = bootstrap("far-3");
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(std::fs::read(&placed).unwrap(), std::fs::read(&program).unwrap());
    sshd.assert_no_movers(GONE);

    // Bytes that change on the way in are neither started nor left there.
    std::fs::remove_dir_all(&cache).unwrap();
    let cat = sshd.bin().join("cat");
    std::fs::write(&cat, "#!/bin/sh\nhead -c 100000\n").unwrap();
    std::fs::set_permissions(&cat, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = bootstrap("far-4");
    assert_eq!(out.status.code(), Some(4), "{}", said(&out));
    assert!(said(&out).contains("did not arrive whole"), "{}", said(&out));
    assert_eq!(std::fs::read_dir(&entries()[0]).unwrap().count(), 0);
    std::fs::remove_file(&cat).unwrap();

    // Another kind of machine.
    let uname = sshd.bin().join("uname");
    std::fs::write(&uname, "#!/bin/sh\necho Plan9 vax\n").unwrap();
    std::fs::set_permissions(&uname, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = bootstrap("far-5");
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("`Plan9 vax`"), "{}", said(&out));
}

#[test]
fn a_cache_that_cannot_hold_or_run_the_program_is_named_and_not_to_be_tried_again() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    let Some(program) = static_program() else { return };
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let refused = |exit: i32, why: &str| {
        let mut command = command(&scratch, &sshd, &["--bootstrap"]);
        command.env("THALWEG_STATIC", &program).arg(scratch.path("file")).arg(sshd.url(&scratch.path("far")));
        let out = finish(command.spawn().unwrap());
        let told = said(&out);
        assert_eq!(out.status.code(), Some(exit), "{told}");
        let place = format!("`{}/thalweg` at 127.0.0.1:{} {why}", sshd.cache().display(), sshd.port);
        assert!(told.contains(&place) && told.contains("hint: "), "{told}");
        assert!(told.contains("--far-path") && !told.contains("--bootstrap"), "{told}");
    };
    // In the way even of root.
    std::fs::remove_dir(sshd.cache()).unwrap();
    std::fs::write(sshd.cache(), b"").unwrap();
    refused(6, "does not take it");
    if !may_mount() {
        return skipped("bootstrap without the right to run", "file systems may not be mounted here");
    }
    let volume = Volume::in_memory(scratch.root(), "no-programs", "noexec,size=1g");
    std::fs::remove_file(sshd.cache()).unwrap();
    std::os::unix::fs::symlink(&volume.path, sshd.cache()).unwrap();
    refused(3, "does not let programs run");
    assert!(!scratch.path("far").exists());
}

#[test]
fn bootstrap_without_a_static_program_says_how_to_get_one() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let arguments = ["--bootstrap".to_owned(), text(&scratch.path("file")), sshd.url(&scratch.path("far"))];
    let mut named = command(&scratch, &sshd, &arguments);
    let out = finish(named.env("THALWEG_STATIC", "/bin/sh").spawn().unwrap());
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("`/bin/sh`: it is no static program"), "{}", said(&out));
    if cfg!(target_env = "gnu") {
        let mut unnamed = command(&scratch, &sshd, &arguments);
        let out = finish(unnamed.env_remove("THALWEG_STATIC").spawn().unwrap());
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains("thalweg-static"), "{}", said(&out));
    }
}

#[test]
fn hosts_that_are_options_or_commands_never_reach_ssh() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let proof = scratch.path("pwned");
    let touch = format!("touch {}", proof.display());
    // Stands for ssh and tells that it was started at all.
    let trap = scratch.path("trap");
    std::fs::write(&trap, format!("#!/bin/sh\n{touch}\n")).unwrap();
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    for host in [
        format!("-oProxyCommand={touch}"),
        "-oProxyCommand=x".into(),
        format!("me@-oProxyCommand={touch}"),
        "-lroot".into(),
        "host;id".into(),
        "$(id)".into(),
        "a`id`".into(),
        "me$(id)@host".into(),
        "host\nProxyCommand".into(),
        "@host".into(),
        "me@".into(),
    ] {
        for place in [format!("{host}:x"), format!("ssh://{host}/x"), format!("ssh://{host}:22/x")] {
            let mut command = scratch.thalweg();
            command.args(["cp", "-e"]).arg(&trap).arg("--").arg(scratch.path("file")).arg(&place);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(scratch.path(""));
            let out = finish(command.spawn().expect("start"));
            // With a slash before its colon it is a local path; nothing is started for that either.
            let is_local = !place.starts_with("ssh://") && place.split(':').next().unwrap().contains('/');
            assert!(is_local || out.status.code() == Some(1), "{place}: {}", said(&out));
            assert!(!proof.exists(), "{place}");
        }
    }
}

#[test]
fn a_far_side_without_thalweg_is_told_from_a_host_that_is_not_reached() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let file = text(&scratch.path("file"));
    let out = cp(&scratch, &sshd, &[&file, &sshd.url(&scratch.path("far"))]);
    assert_eq!(out.status.code(), Some(3));
    assert!(said(&out).contains("no `thalweg` at 127.0.0.1"), "{}", said(&out));
    assert!(said(&out).contains("--bootstrap"), "{}", said(&out));
    let out = cp(&scratch, &sshd, &["--far-path", "/bin/false", &file, &sshd.url(&scratch.path("far"))]);
    assert_eq!(out.status.code(), Some(3));
    assert!(said(&out).contains("ended with exit code 1 before it was ready"), "{}", said(&out));
    let shut = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let out = cp(&scratch, &sshd, &[&file, &format!("ssh://127.0.0.1:{shut}/x")]);
    assert_eq!(out.status.code(), Some(3));
    assert!(said(&out).contains("ssh did not reach 127.0.0.1"), "{}", said(&out));
    let mut command = scratch.thalweg();
    command.args(["cp", "-e", "/nonexistent/ssh", &file, "host:x"]).stderr(Stdio::piped());
    let out = finish(command.spawn().unwrap());
    assert_eq!(out.status.code(), Some(3));
    assert!(said(&out).contains("/nonexistent/ssh"), "{}", said(&out));
    assert!(!scratch.path("far").exists());
}

/// For what it does not find csh has exit code 1, and words on stderr only.
#[test]
fn a_far_csh_without_thalweg_is_told_how_to_get_it_there() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let csh = scratch.path("csh.sh");
    std::fs::write(&csh, "echo 'thalweg: Command not found.' >&2\nexit 1\n").unwrap();
    let mut command = scratch.thalweg();
    command.args(["cp", "-e", &format!("sh '{}'", csh.display()), &text(&scratch.path("file")), "host:x"]);
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    for way in ["install it there", "--far-path", "--bootstrap"] {
        assert!(said(&out).contains(way), "{way}: {}", said(&out));
    }
}

#[test]
fn a_far_side_of_another_version_says_which_to_update() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let far = sshd.bin().join("thalweg");
    let ready = format!(
        r#"{{"port":1,"addresses":[],"bridge_port":1,"dials_back":false,"fingerprint":"{}","versions":[700,701],"version":"9.0"}}"#,
        "ab".repeat(32)
    );
    for (line, expected) in [
        (format!("THALWEG-MOVER 1 {ready}"), "speaks protocol versions 700 to 701"),
        ("THALWEG-MOVER 2 {}".to_owned(), "started in another way"),
        ("THALWEG-MOVER 1 {\"port\":".to_owned(), "not what was expected"),
    ] {
        std::fs::write(&far, format!("#!/bin/sh\necho '{line}'\ncat >/dev/null\n")).unwrap();
        std::fs::set_permissions(&far, std::fs::Permissions::from_mode(0o755)).unwrap();
        let out = cp(&scratch, &sshd, &[text(&scratch.path("file")), sshd.url(&scratch.path("far"))]);
        assert_eq!(out.status.code(), Some(3));
        assert!(said(&out).contains(expected), "{}", said(&out));
    }
}

#[test]
fn a_client_that_was_killed_leaves_nothing_behind_and_its_next_attempt_resumes() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::create_dir(scratch.path("from")).unwrap();
    for i in 0..12 {
        std::fs::write(scratch.path(&format!("from/file-{i}")), noise(i, 8 << 20)).unwrap();
    }
    let arguments = ["--json".to_owned(), text(&scratch.path("from/")), sshd.url(&scratch.path("far"))];
    let mut slow = command(&scratch, &sshd, &["--bwlimit", "20MB"]);
    slow.args(&arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = slow.spawn().unwrap();
    let durable = || std::fs::read_dir(scratch.path("far")).map_or(0, |names| names.flatten().count());
    assert!(wait_until(ARRIVES, || durable() >= 4), "no progress");
    assert!(matches!(child.try_wait(), Ok(None)), "it was over too soon");
    child.kill().unwrap();
    child.wait().unwrap();
    let out = ok(&scratch, &sshd, &arguments);
    let last = out.lines().rfind(|line| line.contains("\"finished\"")).expect("a last event");
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert!(last["bytes_received"].as_u64().unwrap() < 80 << 20, "{last}");
    assert_same(&scratch.path("from"), &scratch.path("far"));
    assert_no_litter(&scratch.path("far"));
    sshd.assert_no_movers(GONE);
}

#[test]
fn an_ssh_that_dies_in_the_middle_costs_a_copy_nothing() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::write(scratch.path("file"), noise(7, 48 << 20)).unwrap();
    let mut slow = command(&scratch, &sshd, &["--bwlimit", "20MB"]);
    slow.arg(scratch.path("file")).arg(sshd.url(&scratch.path("far")));
    let child = slow.spawn().unwrap();
    kill_ssh_of(child.id(), &scratch, &scratch.path("far"));
    let out = finish(child);
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(std::fs::read(scratch.path("far")).unwrap(), noise(7, 48 << 20));
    sshd.assert_no_movers(GONE);
}

#[test]
fn bridges_that_are_cut_and_a_far_mover_that_is_killed_are_replaced() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    for (number, options) in
        [["--via-ssh", "--bwlimit", "20MB"].as_slice(), &["--bwlimit", "20MB"]].iter().enumerate()
    {
        let far = scratch.path(&format!("far-{number}"));
        std::fs::write(scratch.path("file"), noise(8, 48 << 20)).unwrap();
        let mut slow = command(&scratch, &sshd, options);
        slow.arg(scratch.path("file")).arg(sshd.url(&far));
        let child = slow.spawn().unwrap();
        moves(&scratch, &far);
        for pid in sshd.movers() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        let out = finish(child);
        assert!(out.status.success(), "{}", said(&out));
        assert!(said(&out).contains("starting another"), "{}", said(&out));
        assert_eq!(std::fs::read(&far).unwrap(), noise(8, 48 << 20));
        sshd.assert_no_movers(GONE);
    }
}

/// Nothing gets across meanwhile: the pipe is at rest.
#[test]
fn a_far_side_on_which_every_mover_ends_is_given_up() {
    let scratch = Scratch::new();
    let dying = scratch.path("dying.sh");
    let program = env!("CARGO_BIN_EXE_thalweg");
    // What a shell starts beside itself has no stdin of its own.
    let script = format!(
        "case \"$2\" in --bridge) exec {program} \"$@\";; esac\nexec 3<&0\n{program} \"$@\" <&3 3<&- &\n\
         sleep 8\nkill -9 $!\n"
    );
    std::fs::write(&dying, script).unwrap();
    let mut command = scratch.thalweg();
    command.args(["stream", "--via-ssh", "-e", &in_place_of_ssh(&scratch)]);
    command.args(["--far-path", &format!("sh '{}'", dying.display()), "-"]);
    command.arg(format!("host:{}", scratch.path("far").display()));
    let (running, pipe) = Running::fed(command);
    let ran = running.end(ARRIVES);
    drop(pipe);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("host: the far mover ends again and again"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("starting another").count(), 1, "{}", ran.stderr);
}

/// As login nodes have it; of 64 MiB for each of many threads there is room for few.
#[test]
fn a_bounded_address_space_at_both_sides_is_enough_for_many_files() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for i in 0..3000 {
        std::fs::write(scratch.path(&format!("from/small-{i}")), noise(i, 900)).unwrap();
    }
    for i in 0..3 {
        std::fs::write(scratch.path(&format!("from/large-{i}")), noise(i, 24 << 20)).unwrap();
    }
    let mut command = scratch.thalweg();
    command.args(["cp", "--via-ssh", "-e", &in_place_of_ssh(&scratch)]);
    command.args(["--far-path", env!("CARGO_BIN_EXE_thalweg")]);
    command.arg(scratch.path("from/")).arg(format!("host:{}", scratch.path("far").display()));
    let mut bounded = Command::new("sh");
    bounded.args(["-c", "ulimit -v 400000 && exec \"$@\"", "sh"]);
    let ran = Running::start(wrap(bounded, &command)).end(ARRIVES);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_same(&scratch.path("from"), &scratch.path("far"));
}

#[test]
fn a_far_mover_stands_back_as_its_client_does() {
    if !has("ionice") {
        return skipped("nice, ionice", "needs ionice");
    }
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::write(scratch.path("file"), noise(8, 32 << 20)).unwrap();
    let asked = ["--nice", "11", "--ionice", "best-effort:6"];
    for (options, expected) in
        [(&asked[..], (11, "best-effort: prio 6")), (&["--class", "scavenger"], (19, "idle"))]
    {
        let mut slow = command(&scratch, &sshd, options);
        slow.args(["--bwlimit", "1MB"]).arg(scratch.path("file")).arg(sshd.url(&scratch.path("far")));
        let mut child = slow.spawn().unwrap();
        // One thread began before it heard how to stand: that which hears it.
        let stand_back = |pid: u32| {
            let found = priorities(pid);
            let those = found.iter().filter(|(nice, io)| (*nice, io.as_str()) == expected).count();
            those > 3 && those + 1 >= found.len()
        };
        let all_do = wait_until(GONE, || sshd.movers().into_iter().any(stand_back));
        let found: Vec<_> = sshd.movers().into_iter().map(priorities).collect();
        child.kill().unwrap();
        let _ = finish(child);
        assert!(all_do, "{options:?}: {found:?}");
        sshd.assert_no_movers(GONE);
    }
}

#[test]
fn a_copy_that_is_stopped_in_order_leaves_no_process_behind_and_resumes() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    std::fs::write(scratch.path("file"), noise(9, 32 << 20)).unwrap();
    for (number, way) in [&["--via-ssh"][..], &[]].iter().enumerate() {
        let far = scratch.path(&format!("far-{number}"));
        let mut slow = command(&scratch, &sshd, &["--bwlimit", "10MB"]);
        slow.args(*way).arg(scratch.path("file")).arg(sshd.url(&far));
        let child = slow.spawn().unwrap();
        moves(&scratch, &far);
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let out = finish(child);
        assert_eq!(out.status.code(), Some(143), "{}", said(&out));
        sshd.assert_no_movers(GONE);
        ok(&scratch, &sshd, &[&text(&scratch.path("file")), &sshd.url(&far)]);
        assert_eq!(std::fs::read(&far).unwrap(), noise(9, 32 << 20));
    }
}

/// Waits until bytes of a copy to `far` have arrived.
#[track_caller]
fn moves(scratch: &Scratch, far: &Path) {
    // Beside `far`: it is one file.
    let has_begun = || bytes_allocated(&scratch.path(".thalweg-staging")) > 1 << 20;
    assert!(wait_until(ARRIVES, has_begun), "nothing arrives at {}", far.display());
}

/// Waits until `client` moves something, then kills its ssh.
fn kill_ssh_of(client: u32, scratch: &Scratch, far: &Path) {
    moves(scratch, far);
    let children = std::fs::read_to_string(format!("/proc/{client}/task/{client}/children")).unwrap();
    assert!(!children.trim().is_empty(), "ssh has ended already");
    for pid in children.split_whitespace() {
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    }
}

/// Who works on one login node today and on another of the same file system tomorrow.
#[test]
fn the_same_command_on_another_machine_of_the_same_files_resumes() {
    let scratch = Scratch::new();
    let (file, far) = (scratch.path("file"), scratch.path("far"));
    std::fs::write(&file, noise(9, 32 << 20)).unwrap();
    let rsh = in_place_of_ssh(&scratch);
    let copy = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "--json", "-e", &rsh, "--far-path", env!("CARGO_BIN_EXE_thalweg")]).args(more);
        command.arg(&file).arg(format!("host:{}", far.display()));
        command
    };
    let Some(second) = elsewhere("another login node", &scratch, &copy(&[])) else { return };
    let mut first = Running::start(copy(&["--bwlimit", "8MB"]));
    // Some chunks are recorded: a digest of each has 32 bytes.
    let some = || journal_bytes(scratch.root()) > 500;
    assert!(wait_until(ARRIVES, || some() || first.is_over()) && !first.is_over(), "{:?}", first.said());
    first.kill();
    let ran = Running::start(second).end(ARRIVES);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.number("bytes_resumed") > 0, "{}", ran.finished());
    assert_eq!(std::fs::read(&far).unwrap(), noise(9, 32 << 20));
}

/// A name service that does not answer, or a second factor: each login takes longer than a dial may.
#[test]
fn logins_that_take_longer_than_a_dial_carry_a_copy_all_the_same() {
    let scratch = Scratch::new();
    let (file, far, slow) = (scratch.path("file"), scratch.path("far"), scratch.path("slow-login.sh"));
    std::fs::write(&file, noise(4, 1 << 20)).unwrap();
    std::fs::write(&slow, format!("sleep 12\nexec {} \"$@\"\n", in_place_of_ssh(&scratch))).unwrap();
    let mut command = scratch.thalweg();
    command.args(["cp", "--via-ssh", "--streams", "1", "-e", &format!("sh '{}'", slow.display())]);
    command.args(["--far-path", env!("CARGO_BIN_EXE_thalweg")]);
    command.arg(&file).arg(format!("host:{}", far.display()));
    let ran = Running::start(command).end(ARRIVES);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(std::fs::read(&far).unwrap(), noise(4, 1 << 20));
}

#[test]
fn a_mover_whose_client_says_nothing_or_does_not_come_ends() {
    let scratch = Scratch::new();
    let mut command = scratch.thalweg();
    let mut child = command
        .arg("mover")
        .env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let order = format!(
        r#"{{"versions":[1,1],"client":"{}","patience_ms":60000,"stall_timeout_ms":30000}}"#,
        "cd".repeat(32)
    );
    use std::io::Write;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(order.as_bytes()).unwrap();
    stdin.write_all(b"\n").unwrap();
    // The client may still be on its way: longer than one is waited for that was there.
    std::thread::sleep(Duration::from_secs(12));
    assert!(matches!(child.try_wait(), Ok(None)), "it does not wait for its client while ssh stands");
    let begun = Instant::now();
    drop(stdin);
    let out = finish(child);
    assert!(out.status.success(), "{}", said(&out));
    assert!(said(&out).contains("THALWEG-MOVER 1 {"), "{}", said(&out));
    let took = begun.elapsed();
    assert!(in_time("a mover without a client", took, Duration::from_secs(5)), "{took:?}");
    // Nonsense instead of an order, and none.
    for order in ["nonsense\n", ""] {
        let mut child =
            scratch.thalweg().arg("mover").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
        assert!(!finish(child).status.success());
    }
}

/// With everything logged that can be, at both sides, and as many core dumps as the machine allows.
#[test]
fn by_ssh_neither_keys_nor_content_are_in_logs_state_or_processes_and_a_mover_leaves_no_core_dump() {
    const CONTENT: &str = "canary-of-the-content\n";
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    let far = sshd.bin().join("thalweg");
    let script = "#!/bin/sh\nulimit -c unlimited 2>/dev/null\nexport THALWEG_LOG=trace\n";
    std::fs::write(&far, format!("{script}exec {} \"$@\"\n", env!("CARGO_BIN_EXE_thalweg"))).unwrap();
    std::fs::set_permissions(&far, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/large"), CONTENT.repeat(100_000)).unwrap();
    std::fs::write(scratch.path("from/small"), CONTENT).unwrap();
    let mut secrets = Secrets::default();
    secrets.add("content", CONTENT.trim_end().as_bytes());
    let begin = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.env("THALWEG_LOG", "trace").args(["cp", "-e", &sshd.rsh, "--json"]).args(more);
        command
    };
    let (from, there) = (text(&scratch.path("from/")), sshd.url(&scratch.path("far/")));
    let (receipt, back) = (text(&scratch.path("receipt")), text(&scratch.path("back")));
    // The first copy makes the keys that copies are signed with.
    let slowly = ["--bwlimit", "1MB/s", "--chunk", "64KiB", "--receipt", &receipt, &from, &there];
    let (first, _) = secrets.watch(begin(&slowly), scratch.root(), &[]);
    let keys = key_files(scratch.root());
    assert!(!keys.is_empty() && keys.iter().all(|file| file.ends_with("identity.pem")), "{keys:?}");
    secrets.add_keys(&keys);
    let mut again = Running::start(begin(&["--bwlimit", "1MB/s", "--chunk", "64KiB", &there, &back]));
    // It forbids them before it knows a key, and until then says nothing.
    let forbids = || sshd.movers().iter().any(|&pid| leaves_no_core_dump(pid));
    let is_forbidden = wait_until(ARRIVES, || forbids() || again.is_over());
    assert!(is_forbidden && !again.is_over(), "a far mover may leave a core dump");
    let back_again = again.end(ARRIVES);
    let (third, seen) = secrets.watch(begin(&[from.as_str(), &there]), scratch.root(), &[]);
    assert!(seen.contains("thalweg"), "{seen:?}");
    for ran in [first, back_again, third] {
        secrets.assert_not_said(&ran);
        assert!(ran.stderr.contains(" TRACE "), "{}", ran.stderr);
        ran.expect(0);
    }
    assert_same(&scratch.path("from"), &scratch.path("back"));
    assert_eq!(key_files(scratch.root()), keys);
    let belongs = ["from", "far", "back"].map(|name| scratch.path(name));
    let belongs: Vec<_> = belongs.into_iter().chain(keys).collect();
    secrets.assert_not_below(scratch.root(), &belongs);
}
