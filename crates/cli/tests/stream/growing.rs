//! Files that somebody writes while they are streamed: as they grow, rest, come, go and are cut.

use crate::support::job::{Running, signal};
use crate::support::volume::Volume;
use crate::support::{Scratch, assert_no_litter, chance, finish, noise, wait_until};
use crate::{IMPATIENT, LIMIT, REST, Writer, append, command, holds, mark};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use thalweg_lab::wrap::wrap;

fn start(scratch: &Scratch, args: &[&str], from: &Path, to: &Path) -> Running {
    let mut command = command(scratch);
    command.args(args).arg(from).arg(to);
    Running::start(command)
}

#[test]
fn a_file_is_there_as_it_grows_up_to_its_mark_and_is_complete_when_its_writer_closes_it() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let content = noise(1, 300_000);
    let mut writer = Writer::new(from.clone());
    writer.write(&content[..1000]);
    let mut job = start(&scratch, &[], &from, &to);
    let mut last = 0;
    for end in [1000, 5000, 5001, 200_000, 300_000] {
        if end > 1000 {
            writer.write(&content[mark_end(&from)..end]);
        }
        assert!(holds(&to, &content[..end]));
        assert!(wait_until(LIMIT, || mark(&scratch, &to) == (end as u64, false)));
        assert!(mark(&scratch, &to).0 >= last);
        last = end as u64;
    }
    assert!(!job.is_over());
    drop(writer);
    job.end(LIMIT).expect(0);
    assert!(holds(&to, &content));
    assert_eq!(mark(&scratch, &to), (300_000, true));
    assert_no_litter(scratch.root());
}

/// As over a network: who writes is not seen by the kernel, which believes what it saw before.
#[test]
fn what_grows_below_a_mount_is_there_to_its_end_though_the_kernel_remembers_it_shorter() {
    let scratch = Scratch::new();
    let (below, to) = (scratch.path("below"), scratch.path("to"));
    std::fs::create_dir(&below).unwrap();
    let Some(volume) = Volume::by_fuse(scratch.root(), "stream-by-fuse", &below) else { return };
    let content = noise(3, 150_000);
    append(&below.join("log"), &content[..1000]);
    // In a directory it is complete as soon as nobody above has it open.
    for (marker, name, place, there) in [("done", "", "all", "all/log"), ("DONE", "log", "one", "one")] {
        std::fs::create_dir_all(&to).unwrap();
        let from = volume.path.join(name);
        let job = start(&scratch, &["--until-marker", marker], &from, &to.join(place));
        let there = to.join(there);
        let before = std::fs::read(below.join("log")).unwrap();
        assert!(holds(&there, &before));
        let more = &content[before.len()..before.len() + 50_000];
        append(&below.join("log"), more);
        append(&below.join(marker), b"");
        job.end(LIMIT).expect(0);
        assert!(std::fs::read(&there).unwrap() == [&before[..], more].concat(), "{}", there.display());
    }
    assert_no_litter(&to);
}

/// Nothing is noted of a stream that is over, nor of what never was one: neither is said to be complete.
#[test]
fn what_no_stream_writes_is_not_said_to_be_complete() {
    let scratch = Scratch::new();
    let said = |path: &Path| scratch.run([OsStr::new("mark"), OsStr::new("--json"), path.as_os_str()]);
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut writer = Writer::new(from.clone());
    writer.write(b"five!");
    let state = || -> serde_json::Value { serde_json::from_slice(&said(&to).stdout).unwrap() };
    let job = start(&scratch, &[], &from, &to);
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (5, false)));
    let growing = state();
    assert_eq!((&growing["state"], &growing["complete"]), (&"growing".into(), &false.into()));
    // By another way to the same file.
    std::os::unix::fs::symlink(scratch.root(), scratch.path("way")).unwrap();
    assert_eq!(mark(&scratch, &scratch.path("way/to")), (5, false));
    drop(writer);
    job.end(LIMIT).expect(0);
    let over = state();
    assert_eq!((&over["state"], &over["bytes"]), (&"no-stream".into(), &5.into()));
    assert!(over["complete"].is_null());

    std::fs::create_dir(scratch.path("directory")).unwrap();
    std::os::unix::fs::symlink("to", scratch.path("link")).unwrap();
    let far = Path::new("tw://host/data/to");
    for (path, exit, why) in [
        (scratch.path("mistyped"), 3, "No such file or directory"),
        (scratch.path("directory"), 3, "it is a directory"),
        (scratch.path("link"), 3, "it is a link"),
        ("/dev/null".into(), 3, "no regular file"),
        (far.into(), 1, "with the path that the file has on that machine"),
    ] {
        let out = said(&path);
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(exit), "{error}");
        assert!(error.contains(why) && error.contains(&format!("`{}`", path.display())), "{error}");
    }
    // What was looked up before the one that is not there is told.
    let both = scratch.run([OsStr::new("mark"), to.as_os_str(), OsStr::new("mistyped")]);
    assert!(both.stdout.starts_with(b"5\tno-stream\t") && both.status.code() == Some(3));
}

/// Who may not read what a stream notes is not told that there is none.
#[test]
fn a_mark_that_is_closed_to_who_asks_is_no_file_without_a_stream() {
    let scratch = Scratch::new();
    if thalweg_sys::user::effective_uid() != 0 {
        return chance::skipped("a mark that is closed", "needs root, to ask as somebody else");
    }
    std::fs::set_permissions(scratch.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut writer = Writer::new(from.clone());
    writer.write(b"five!");
    let job = start(&scratch, &[], &from, &to);
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (5, false)));
    let ask = || {
        let mut command = scratch.thalweg();
        command.uid(NOBODY).arg("mark").arg(&to).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(finish)
    };
    let Ok(out) = ask() else {
        return chance::skipped("a mark that is closed", "nobody else may run the program where it is");
    };
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(3) && error.contains("may read it"), "{error}");
    drop(writer);
    job.end(LIMIT).expect(0);
    assert!(ask().unwrap().stdout.starts_with(b"5\tno-stream\t"));
}

/// A user with no rights.
const NOBODY: u32 = 65_534;

fn mark_end(path: &Path) -> usize {
    std::fs::metadata(path).unwrap().len() as usize
}

#[test]
fn it_ends_by_size_by_idle_time_and_by_a_marker() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let content = noise(2, 100_000);
    append(&from, &content[..10_000]);
    let job = start(&scratch, &["--until-size", "50000"], &from, &to);
    append(&from, &content[10_000..]);
    job.end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == content[..50_000]);

    let job = start(&scratch, &["--until-idle", "500ms", "--poll", "20ms"], &from, &to);
    let ran = job.end(LIMIT).expect(0);
    assert!(ran.stderr.contains("were there already"), "{}", ran.stderr);
    assert!(std::fs::read(&to).unwrap() == content);

    let mut job = start(&scratch, &["--until-marker", "done"], &from, &to);
    append(&from, b"more");
    assert!(wait_until(LIMIT, || mark_end(&to) == 100_004));
    assert!(!job.is_over());
    append(&scratch.path("done"), b"");
    job.end(LIMIT).expect(0);
}

#[test]
fn a_file_that_grows_is_not_idle_however_seldom_it_is_looked_at() {
    // In memory: a disk that holds its writer up for long would make it rest.
    let scratch = Scratch::in_memory();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let mut writers = ["a", "b"].map(|name| Writer::new(from.join(name)));
    let source = scratch.path("from/");
    let seldom = ["--poll", "6s", "--until-idle", "3s"];
    let single = start(&scratch, &seldom, &from.join("a"), &scratch.path("single"));
    let whole = start(&scratch, &seldom, &source, &to);
    let content = noise(23, 30_000);
    for piece in content.chunks(1000) {
        writers.iter_mut().for_each(|writer| writer.write(piece));
        std::thread::sleep(Duration::from_millis(400));
    }
    single.end(LIMIT).expect(0);
    whole.end(LIMIT).expect(0);
    for path in [scratch.path("single"), to.join("a"), to.join("b")] {
        assert!(std::fs::read(&path).unwrap() == content, "{}", path.display());
    }
}

#[test]
fn who_waits_for_a_file_does_not_count_that_as_rest() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut job = start(&scratch, &["--wait", "--until-idle", "500ms"], &from, &to);
    std::thread::sleep(Duration::from_secs(2));
    assert!(!job.is_over());
    // It comes as a whole: who is held up between making and writing it would have let it rest.
    append(&scratch.path("made"), &noise(24, 10_000));
    std::fs::rename(scratch.path("made"), &from).unwrap();
    job.end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == noise(24, 10_000));
}

#[test]
fn a_tree_grows_many_files_at_once_new_ones_and_in_new_directories() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(from.join("deep")).unwrap();
    let mut writers: Vec<Writer> = (0..20).map(|i| Writer::new(from.join(format!("deep/{i}")))).collect();
    let daemon_root = scratch.path("export");
    std::fs::create_dir(&daemon_root).unwrap();
    let daemon = scratch.daemon(&[("data", &daemon_root)]);
    let mut stream = command(&scratch);
    stream.args(["--until-marker", "DONE"]).arg(format!("{}/", from.display()));
    let job = Running::start({
        stream.arg(daemon.place("data", "to"));
        stream
    });
    for round in 0..10u64 {
        for (writer, number) in writers.iter_mut().zip(0..) {
            writer.write(&noise(round * 100 + number, 3000));
        }
        std::fs::create_dir(from.join(format!("new-{round}"))).unwrap();
        append(&from.join(format!("new-{round}/file")), &noise(round, 2000));
        std::thread::sleep(Duration::from_millis(30));
    }
    drop(writers);
    append(&from.join("DONE"), b"");
    job.end(LIMIT).expect(0);
    std::fs::remove_file(from.join("DONE")).unwrap();
    let contents = |root: &Path| {
        let mut all = std::collections::BTreeMap::new();
        let mut left = vec![root.to_owned()];
        while let Some(dir) = left.pop() {
            for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    left.push(path);
                } else {
                    let name = path.strip_prefix(root).unwrap().to_owned();
                    all.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
        all
    };
    assert!(contents(&from) == contents(&daemon_root.join("to")));
    assert_eq!(contents(&from).len(), 30);
    assert_no_litter(&daemon_root);
    drop((to, daemon));
}

#[test]
fn a_writer_may_rest_longer_than_a_stall_and_than_all_patience_wherever_its_file_is() {
    let scratch = Scratch::new();
    let (here, export) = (scratch.path("here"), scratch.path("export"));
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon_with(&[("data", &export)], &["--stall-timeout", "5s"]);
    let far = |name: &str| std::path::PathBuf::from(daemon.place("data", name));
    let ways = [
        (here.join("push"), here.join("push"), far("pushed"), export.join("pushed")),
        (export.join("pull"), far("pull"), here.join("pulled"), here.join("pulled")),
    ];
    let content = noise(10, 100_000);
    let begun = ways.map(|(written, from, to, arrives)| {
        let mut writer = Writer::new(written);
        writer.write(&content[..60_000]);
        let job = start(&scratch, &IMPATIENT, &from, &to);
        (writer, job, arrives)
    });
    assert!(begun.iter().all(|(.., arrives)| holds(arrives, &content[..60_000])));
    std::thread::sleep(REST);
    for (mut writer, mut job, arrives) in begun {
        assert!(!job.is_over());
        writer.write(&content[60_000..]);
        drop(writer);
        let ran = job.end(LIMIT).expect(0);
        assert!(!ran.stderr.contains("acknowledged nothing"), "{}", ran.stderr);
        assert!(std::fs::read(&arrives).unwrap() == content);
    }
    assert_no_litter(&export);
    assert_no_litter(&here);
}

#[test]
fn a_writer_that_cuts_its_file_makes_another_stream_of_it_and_nothing_goes_back() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    append(&from, &noise(3, 50_000));
    let job = start(&scratch, &["--until-idle", "2s"], &from, &to);
    assert!(holds(&to, &noise(3, 50_000)));
    std::fs::OpenOptions::new().write(true).open(&from).unwrap().set_len(0).unwrap();
    append(&from, &noise(4, 20_000));
    let ran = job.end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == noise(3, 50_000));
    assert!(std::fs::read(scratch.path("to.~2~")).unwrap() == noise(4, 20_000));
    assert!(
        ran.stderr.contains("was cut or written anew: the 50000 bytes read of it stay"),
        "{}",
        ran.stderr
    );
    assert_no_litter(scratch.root());
}

#[test]
fn a_complete_file_that_is_cut_and_grows_again_is_two_complete_files() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let log = from.join("log");
    append(&log, &noise(30, 20_000));
    let job = start(&scratch, &["--until-marker", "DONE"], &scratch.path("from/"), &to);
    let arrives = |name: &str, content: &[u8]| {
        assert!(holds(&to.join(name), content), "{name}");
        assert!(wait_until(LIMIT, || mark(&scratch, &to.join(name)).1), "{name}");
        // The word of it is on its way back.
        std::thread::sleep(Duration::from_millis(300));
    };
    arrives("log", &noise(30, 20_000));
    // Fewer bytes, and then more than there were: both are told from what is there.
    for (number, length) in [(31, 5000), (32, 30_000)] {
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
        append(&log, &noise(number, length));
        let name = format!("log.~{}~", number - 29);
        arrives(&name, &noise(number, length));
        append(&log, b"more");
        arrives(&name, &[&noise(number, length)[..], b"more"].concat());
    }
    append(&from.join("DONE"), b"");
    let ran = job.end(LIMIT).expect(0);
    assert!(std::fs::read(to.join("log")).unwrap() == noise(30, 20_000));
    assert_eq!(ran.stderr.matches("was cut or written anew").count(), 2, "{}", ran.stderr);
    assert_no_litter(&to);
}

#[test]
fn a_file_that_is_rotated_is_read_to_its_end_and_its_successor_has_a_name_of_its_own() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut old = Writer::new(from.clone());
    old.write(&noise(5, 30_000));
    let job = start(&scratch, &["--until-idle", "10s"], &from, &to);
    assert!(holds(&to, &noise(5, 30_000)));
    std::fs::rename(&from, scratch.path("from.1")).unwrap();
    let mut new = Writer::new(from.clone());
    new.write(&noise(6, 10_000));
    // Who holds it open writes on, as programs do until they hear of it.
    old.write(b"the last words");
    let ran = job.end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == [&noise(5, 30_000)[..], b"the last words"].concat());
    assert!(std::fs::read(scratch.path("to.~2~")).unwrap() == noise(6, 10_000));
    // Whether the successor is there already when the first look finds the old one gone, is the writer's doing.
    let is_told = ran.stderr.contains("was replaced") || ran.stderr.contains("was moved away");
    assert!(is_told, "{}", ran.stderr);
}

#[test]
fn who_follows_a_file_or_waits_for_a_marker_goes_on_with_what_takes_its_name() {
    let ways: [(&[&str], i32); 2] = [(&["-f"], 130), (&["--until-marker", "DONE"], 0)];
    for (args, code) in ways {
        let scratch = Scratch::new();
        let (from, to) = (scratch.path("run.log"), scratch.path("to"));
        append(&from, &noise(20, 30_000));
        let mut job = start(&scratch, args, &from, &to);
        assert!(holds(&to, &noise(20, 30_000)));
        // Closed, moved away, and for a while there is none.
        std::fs::rename(&from, scratch.path("run.log.1")).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        assert!(!job.is_over(), "{args:?}");
        append(&from, &noise(21, 10_000));
        let second = scratch.path("to.~2~");
        assert!(holds(&second, &noise(21, 10_000)), "{args:?}");
        // Removed and made again at once, and closed.
        std::fs::remove_file(&from).unwrap();
        append(&from, &noise(22, 5000));
        let third = scratch.path("to.~3~");
        assert!(holds(&third, &noise(22, 5000)), "{args:?}");
        append(&from, b"more");
        assert!(holds(&third, &[&noise(22, 5000)[..], b"more"].concat()), "{args:?}");
        assert!(!job.is_over(), "{args:?}");
        match code {
            0 => append(&scratch.path("DONE"), b""),
            _ => signal(job.pid(), Signal::SIGINT),
        }
        job.end(LIMIT).expect(code);
        assert!(std::fs::read(&to).unwrap() == noise(20, 30_000));
        assert!(std::fs::read(&second).unwrap() == noise(21, 10_000));
    }
}

#[test]
fn a_directory_follows_a_file_that_is_renamed_in_it_and_sends_it_once() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let mut writer = Writer::new(from.join("log"));
    writer.write(&noise(7, 30_000));
    let source = scratch.path("from/");
    let job = start(&scratch, &["--until-idle", "6s", "--json"], &source, &to);
    assert!(holds(&to.join("log"), &noise(7, 30_000)));
    std::fs::rename(from.join("log"), from.join("log.1")).unwrap();
    writer.write(b"on and on");
    append(&from.join("log"), b"anew");
    let ran = job.end(LIMIT).expect(0);
    assert!(std::fs::read(to.join("log")).unwrap() == [&noise(7, 30_000)[..], b"on and on"].concat());
    assert_eq!(std::fs::read(to.join("log.~2~")).unwrap(), b"anew");
    assert!(!to.join("log.1").exists());
    assert_eq!(ran.number("bytes_received"), 30_000 + 9 + 4);
}

#[test]
fn another_file_that_stands_there_is_left_alone() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    append(&from, &noise(8, 1000));
    append(&to, b"mine");
    let ran = start(&scratch, &[], &from, &to).end(LIMIT).expect(2);
    assert!(ran.stderr.contains("another file of 4 bytes stands there"), "{}", ran.stderr);
    assert_eq!(std::fs::read(&to).unwrap(), b"mine");
    start(&scratch, &[], &scratch.path("absent"), &to).end(LIMIT).expect(3);
}

#[test]
fn another_file_that_stands_there_is_left_alone_however_often_it_is_tried() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    for (dir, name, bytes) in
        [(&from, "mine", &noise(8, 1000)[..]), (&from, "other", &noise(9, 1000)), (&to, "mine", b"mine")]
    {
        std::fs::create_dir_all(dir).unwrap();
        append(&dir.join(name), bytes);
    }
    let source = scratch.path("from/");
    for attempt in 0..3u64 {
        let job = start(&scratch, &["--until-marker", "DONE"], &source, &to);
        let (first, second) = (format!("first-{attempt}"), format!("second-{attempt}"));
        // It grows while others come: each look finds it again.
        for name in [&first, &second] {
            append(&from.join("mine"), b"more");
            append(&from.join(name), b"new");
            assert!(holds(&to.join(name), b"new"));
        }
        append(&from.join("DONE"), b"");
        let ran = job.end(LIMIT).expect(2);
        assert!(ran.stderr.contains("another file of 4 bytes stands there"), "{}", ran.stderr);
        assert!(ran.stderr.matches("another file of 4 bytes").count() <= 3, "{}", ran.stderr);
        std::fs::remove_file(from.join("DONE")).unwrap();
        assert_eq!(std::fs::read(to.join("mine")).unwrap(), b"mine");
        assert!(holds(&to.join("other"), &noise(9, 1000)));
        assert!(!to.join("mine.~2~").exists());
    }
    // Nothing of ours is kept for it.
    assert_no_litter(&to);
    // One that begins as the source does is gone on with.
    let whole = std::fs::read(from.join("mine")).unwrap();
    std::fs::write(to.join("mine"), &whole[..500]).unwrap();
    start(&scratch, &["--until-idle", "500ms"], &source, &to).end(LIMIT).expect(0);
    assert!(std::fs::read(to.join("mine")).unwrap() == whole);
}

#[test]
fn a_directory_with_more_files_than_may_be_open_at_once_arrives_whole() {
    const FILES: u64 = 300;
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    for number in 0..FILES {
        append(&from.join(format!("{number}")), &noise(number, 100));
    }
    append(&from.join("DONE"), b"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 200 && exec \"$0\" \"$@\""]);
    let mut job = wrap(shell, &command(&scratch));
    job.args(["--until-marker", "DONE"]).arg(scratch.path("from/")).arg(&to);
    Running::start(job).end(LIMIT).expect(0);
    for number in 0..FILES {
        assert!(std::fs::read(to.join(format!("{number}"))).unwrap() == noise(number, 100), "{number}");
    }
    assert_no_litter(&to);
}

#[test]
fn what_cannot_be_read_costs_exit_0_and_whose_file_it_is_does_not() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("stream unreadable") else { return };
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(from.join("locked")).unwrap();
    std::fs::create_dir(&to).unwrap();
    mode(&to, 0o777);
    for name in ["good", "secret", "DONE", "locked/file"] {
        append(&from.join(name), &noise(1, 5000));
    }
    mode(&from.join("secret"), 0);
    mode(&from.join("locked"), 0);
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &from)], &[], &as_nobody);
    let run = |from: &str, to: &Path| {
        let mut job = command(&scratch);
        job.args(["--until-marker", "DONE", "--json"]).arg(from).arg(to);
        Running::start(as_nobody(job)).end(LIMIT)
    };
    // Who writes a file of somebody else cannot be told: it is complete when the directory is.
    for (number, place) in [format!("{}/", from.display()), daemon.place("data", "")].iter().enumerate() {
        let to = to.join(format!("{number}"));
        let ran = run(place, &to).expect(2);
        for name in ["secret", "locked"] {
            assert!(ran.stderr.contains(&format!("`{name}`")), "{name}: {}", ran.stderr);
        }
        assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
        assert_eq!(ran.number("files_failed"), 2);
        assert!(std::fs::read(to.join("good")).unwrap() == noise(1, 5000));
        assert!(!to.join("secret").exists() && !to.join("locked").exists());
    }
    // Alone it is waited for no longer than it takes to see.
    let secret = from.join("secret").display().to_string();
    for place in [secret, daemon.place("data", "secret")] {
        let ran = run(&place, &to.join("x")).expect(3);
        assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    }
    mode(&from.join("locked"), 0o755);
}

#[test]
fn what_a_writer_changes_after_it_was_sent_is_told_and_not_passed_as_good() {
    use std::os::unix::fs::FileExt;
    for (is_changed, code) in [(true, 5), (false, 0)] {
        let scratch = Scratch::new();
        let (from, to) = (scratch.path("from"), scratch.path("to"));
        let mut writer = Writer::new(from.clone());
        writer.write(&noise(9, 200_000));
        let job = start(&scratch, &[], &from, &to);
        assert!(holds(&to, &noise(9, 200_000)));
        // Time for a look at what rests.
        std::thread::sleep(Duration::from_millis(1500));
        let file = std::fs::OpenOptions::new().write(true).open(&from).unwrap();
        match is_changed {
            true => file.write_all_at(b"another header", 100).unwrap(),
            // What sets only times has changed nothing.
            false => file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap(),
        }
        drop((file, writer));
        let ran = job.end(LIMIT).expect(code);
        assert_eq!(ran.stderr.contains("were changed afterwards"), is_changed, "{}", ran.stderr);
        assert!(std::fs::read(&to).unwrap().starts_with(&noise(9, 200_000)));
    }
}

#[test]
fn a_directory_is_waited_for_and_streamed_with_its_files() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let slash = Path::new(&format!("{}/", from.display())).to_owned();
    let mut job = start(&scratch, &["--wait", "--until-marker", "DONE"], &slash, &to);
    until_it_watches(&job);
    assert!(!job.is_over());
    std::fs::create_dir(&from).unwrap();
    append(&from.join("a"), b"content");
    append(&from.join("DONE"), b"");
    job.end(LIMIT).expect(0);
    assert!(holds(&to.join("a"), b"content"));

    // What comes there is no directory.
    let file = scratch.path("file");
    let slash = Path::new(&format!("{}/", file.display())).to_owned();
    let job = start(&scratch, &["--wait"], &slash, &to);
    until_it_watches(&job);
    append(&file, b"content");
    let ran = job.end(LIMIT).expect(3);
    assert!(ran.stderr.contains(&format!("`{}/`: Not a directory", file.display())), "{}", ran.stderr);

    // Without a slash it is a file that is waited for.
    let (from, to) = (scratch.path("other"), scratch.path("other-to"));
    let job = start(&scratch, &["--wait"], &from, &to);
    until_it_watches(&job);
    std::fs::create_dir(&from).unwrap();
    let ran = job.end(LIMIT).expect(1);
    assert!(ran.stderr.contains("with a slash at its end"), "{}", ran.stderr);
}

/// Until a stream has looked, and watches for what is to come; not for ever where there is nothing to watch with.
fn until_it_watches(job: &Running) {
    let descriptors = format!("/proc/{}/fdinfo", job.pid());
    let is_watch = |about: std::fs::DirEntry| {
        std::fs::read_to_string(about.path()).is_ok_and(|about| about.contains("inotify wd:"))
    };
    let watches = || std::fs::read_dir(&descriptors).is_ok_and(|all| all.flatten().any(is_watch));
    let _ = wait_until(Duration::from_secs(30), watches);
}

#[test]
fn what_would_be_streamed_into_itself_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.path("run");
    std::fs::create_dir(&dir).unwrap();
    append(&dir.join("a"), b"content");
    let slash = Path::new(&format!("{}/", dir.display())).to_owned();
    for (from, to, why) in [
        (slash.clone(), dir.join("backup"), "is inside the source"),
        (dir.clone(), dir.join("backup/"), "is inside the source"),
        (slash, dir.clone(), "are the same"),
        (dir.clone(), scratch.root().to_owned(), "are the same"),
        (dir.join("a"), dir.clone(), "are the same"),
        (dir.join("a"), dir.join("a"), "are the same"),
    ] {
        let ran = start(&scratch, &["--until-idle", "100ms"], &from, &to).end(LIMIT).expect(1);
        assert!(ran.stderr.contains(why), "{}: {}", to.display(), ran.stderr);
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn what_no_marker_can_be_called_is_refused() {
    let scratch = Scratch::new();
    for name in ["", "..", "sub/DONE"] {
        let args = ["--until-marker", name];
        start(&scratch, &args, scratch.root(), &scratch.path("to")).end(LIMIT).expect(1);
    }
}
