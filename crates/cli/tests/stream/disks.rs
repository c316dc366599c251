//! Disks that are full, and power that is cut at any sync: what was told to be durable is there, and the same command
//! goes on.

use crate::support::job::{Running, signal, with};
use crate::support::syncs::{Sync, Syncs, can_watch, held_until, is_zombie};
use crate::support::volume::{Volume, can_mount};
use crate::support::{Scratch, assert_no_litter, finish, noise, wait_until};
use crate::{LIMIT, append, command, holds, mark, piped};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

#[test]
fn a_disk_that_fills_up_under_a_stream_is_told_and_the_same_command_goes_on_when_there_is_room() {
    if !can_mount("stream full") {
        return;
    }
    for is_far in [false, true] {
        let scratch = Scratch::new();
        let volume = Volume::in_memory(scratch.root(), "small", "size=4m");
        let from = scratch.path("from");
        let content = noise(1, 9 << 20);
        std::fs::write(&from, &content).unwrap();
        let daemon = is_far.then(|| scratch.daemon(&[("data", &volume.path)]));
        let to = volume.path.join("x");
        let place = daemon.as_ref().map_or(to.display().to_string(), |daemon| daemon.place("data", "x"));
        let ran =
            Running::start(with(command(&scratch), [from.to_str().unwrap(), &place])).end(LIMIT).expect(6);
        assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
        let there = std::fs::read(&to).unwrap();
        let (marked, is_over) = mark(&scratch, &to);
        assert!(!is_over && marked as usize <= there.len(), "{marked} of {}", there.len());
        assert!(there[..marked as usize] == content[..marked as usize]);
        // As long as it is full the mark does not go back.
        Running::start(with(command(&scratch), [from.to_str().unwrap(), &place])).end(LIMIT).expect(6);
        assert!(mark(&scratch, &to).0 >= marked);
        volume.remount("size=32m");
        Running::start(with(command(&scratch), [from.to_str().unwrap(), &place])).end(LIMIT).expect(0);
        assert!(std::fs::read(&to).unwrap() == content);
        drop(daemon);
        assert_no_litter(&volume.path);
    }
}

#[test]
fn a_stream_that_only_its_user_ends_goes_on_by_itself_when_a_full_disk_has_room_again() {
    if !can_mount("stream full follow") {
        return;
    }
    let goes_on = |way: &'static str| {
        let scratch = Scratch::new();
        let volume = Volume::in_memory(scratch.root(), "small", "size=4m");
        let (source, to, report) = (scratch.path("source"), volume.path.join("log"), scratch.path("report"));
        std::fs::create_dir(&source).unwrap();
        let from = source.join("log");
        let mut content = noise(4, 9 << 20);
        std::fs::write(&from, &content).unwrap();
        let exports: [(&str, &Path); 2] = [("in", &volume.path), ("out", &source)];
        let mut daemon = (way != "local").then(|| scratch.daemon(&exports));
        let mut places = [from.display().to_string(), to.display().to_string()];
        match (&daemon, way) {
            (Some(daemon), "push") => places[1] = daemon.place("in", "log"),
            (Some(daemon), _) => places[0] = daemon.place("out", "log"),
            (None, _) => {}
        }
        let stream = || {
            let mut job = with(command(&scratch), ["-f", "-q", "--report"]);
            job.arg(&report).args(&places);
            Running::start(job)
        };
        let told = |job: &Running| -> Vec<String> {
            let lines = job.said().into_iter().map(|(_, line)| line);
            lines.filter(|line| line.contains("tried again in")).collect()
        };
        let waits = |job: &Running| {
            let is_it = |line: &String| line.contains("No space left on device; tried again in 1 s");
            let is_told = || told(job).iter().any(is_it);
            assert!(wait_until(LIMIT, is_told), "{way}: {:?}", job.said());
        };
        let errors = |text: &str| {
            text.lines().filter(|line| line.starts_with("error:") && line.contains("No space")).count()
        };
        let reported = || std::fs::read_to_string(&report).unwrap();
        // Ended while it is full, it names the file.
        let job = stream();
        waits(&job);
        signal(job.pid(), Signal::SIGINT);
        let ran = job.end(LIMIT).expect(130);
        assert_eq!(errors(&ran.stderr), 1, "{way}: {}", ran.stderr);
        assert_eq!(reported().matches("\"failed\"").count(), 1, "{way}: {}", reported());
        std::fs::remove_file(&report).unwrap();
        // Ended after there was room, it does not, and has told of it once.
        let job = stream();
        waits(&job);
        // With a session that ends meanwhile, too.
        let _another = daemon.take().map(|before| {
            let address = before.address();
            before.kill();
            scratch.daemon_at(&address, &exports, &[], |command| command)
        });
        volume.remount("size=32m");
        assert!(holds(&to, &content), "{way}: {:?}", job.said());
        append(&from, b"and more");
        content.extend_from_slice(b"and more");
        assert!(
            wait_until(LIMIT, || mark(&scratch, &to).0 == content.len() as u64),
            "{way}: {:?}",
            job.said()
        );
        assert!(std::fs::read(&to).unwrap() == content);
        let told = told(&job);
        assert_eq!(told.len(), 1, "{way}: {told:?}");
        signal(job.pid(), Signal::SIGINT);
        let ran = job.end(LIMIT).expect(130);
        assert_eq!(errors(&ran.stderr), 0, "{way}: {}", ran.stderr);
        assert!(!reported().contains("\"failed\""), "{way}: {}", reported());
    };
    std::thread::scope(|scope| {
        for way in ["local", "push", "pull"] {
            scope.spawn(move || goes_on(way));
        }
    });
}

/// Fills a disk, so that not even a name can begin there, until nobody gives back any more what he had there: a daemon
/// ends a session a moment after its client.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut is_full = || {
        let mut pieces = 0;
        while file.write_all(&[1; 4096]).is_ok() {
            pieces += 1;
        }
        pieces == 0
    };
    assert!(wait_until(LIMIT, || {
        is_full();
        std::thread::sleep(std::time::Duration::from_millis(500));
        is_full()
    }));
}

#[test]
fn a_stream_that_cannot_begin_on_a_full_disk_begins_when_there_is_room_if_only_its_user_ends_it() {
    if !can_mount("stream full start") {
        return;
    }
    let begins = |way: &'static str| {
        let scratch = Scratch::new();
        let volume = Volume::in_memory(scratch.root(), "small", "size=1m");
        let (source, filler) = (scratch.path("source"), volume.path.join("filler"));
        std::fs::create_dir(&source).unwrap();
        let (from, to) = (source.join("log"), volume.path.join("log"));
        let content = noise(6, 100_000);
        std::fs::write(&from, &content).unwrap();
        fill(&filler);
        let exports: [(&str, &Path); 2] = [("in", &volume.path), ("out", &source)];
        let daemon = (way != "local").then(|| scratch.daemon(&exports));
        let mut places = [from.display().to_string(), to.display().to_string()];
        match (&daemon, way) {
            (Some(daemon), "push") => places[1] = daemon.place("in", "log"),
            (Some(daemon), _) => places[0] = daemon.place("out", "log"),
            (None, _) => {}
        }
        // A single file that has an end: the same command goes on.
        let ran = Running::start(with(command(&scratch), &places)).end(LIMIT).expect(6);
        assert!(ran.stderr.contains("No space left on device"), "{way}: {}", ran.stderr);
        let job = Running::start(with(with(command(&scratch), ["-f", "-q"]), &places));
        let told = || {
            let lines = job.said().into_iter().map(|(_, line)| line);
            lines.filter(|line| line.contains("tried again in")).collect::<Vec<String>>()
        };
        let is_told =
            || told().iter().any(|line| line.contains("No space left on device; tried again in 1 s"));
        assert!(wait_until(LIMIT, is_told), "{way}: {:?}", job.said());
        // It fails again meanwhile, which is no news.
        std::thread::sleep(std::time::Duration::from_secs(2));
        std::fs::remove_file(&filler).unwrap();
        assert!(holds(&to, &content), "{way}: {:?}", job.said());
        assert_eq!(told().len(), 1, "{way}: {:?}", job.said());
        signal(job.pid(), Signal::SIGINT);
        job.end(LIMIT).expect(130);
        // Asked to stop while it waits, it does.
        std::fs::remove_file(&to).unwrap();
        let _ = std::fs::remove_dir_all(volume.path.join(".thalweg-staging"));
        fill(&filler);
        let job = Running::start(with(with(command(&scratch), ["-f", "-q"]), &places));
        let waits = || job.said().iter().any(|(_, line)| line.contains("tried again in"));
        assert!(wait_until(LIMIT, waits), "{way}: {:?}", job.said());
        signal(job.pid(), Signal::SIGINT);
        job.end(LIMIT).expect(130);
    };
    std::thread::scope(|scope| {
        for way in ["local", "push", "pull"] {
            scope.spawn(move || begins(way));
        }
    });
}

#[test]
fn a_tree_with_an_end_that_cannot_begin_on_a_full_disk_is_tried_three_times() {
    if !can_mount("stream full start") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "small", "size=1m");
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("DONE"), "").unwrap();
    fill(&volume.path.join("filler"));
    let job = with(command(&scratch), ["--json", "--until-marker", "DONE"]);
    let job = with(job, [format!("{}/", from.display()), format!("{}/", volume.path.display())]);
    let ran = Running::start(job).end(LIMIT).expect(6);
    assert_eq!(ran.stdout.matches("\"event\":\"tried-again\"").count(), 1, "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("\"event\":\"error\"").count(), 1, "{}", ran.stdout);
}

#[test]
fn of_a_directory_with_an_end_a_file_for_which_there_is_no_room_is_tried_three_times_and_named_once() {
    if !can_mount("stream full tree") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "small", "size=4m");
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("large"), noise(5, 9 << 20)).unwrap();
    std::fs::write(from.join("DONE"), "").unwrap();
    let job = with(command(&scratch), ["--json", "--until-marker", "DONE"]);
    let job = with(job, [format!("{}/", from.display()), format!("{}/", volume.path.display())]);
    let ran = Running::start(job).end(LIMIT).expect(6);
    let of = |event: &str, words: &str| {
        let lines = ran.stdout.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\"")));
        lines.filter(|line| line.contains(words)).count()
    };
    assert_eq!((of("tried-again", "No space left"), of("entry", "\"failed\"")), (1, 1), "{}", ran.stdout);
    assert_eq!((ran.number("files_failed"), ran.number("files_complete")), (1, 0));
}

#[test]
fn a_pipe_into_a_disk_that_fills_up_ends_with_the_reason() {
    if !can_mount("stream pipe full") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "small", "size=4m");
    let to = volume.path.join("x");
    let content = noise(2, 9 << 20);
    let mut child = piped(&scratch, to.to_str().unwrap(), &[]);
    // Who writes into it sees that nobody reads any more, or has written all.
    let _ = child.stdin.take().unwrap().write_all(&content);
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    volume.remount("size=32m");
    let mut child = piped(&scratch, to.to_str().unwrap(), &[]);
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(&to).unwrap() == content);
}

/// What a power cut leaves, and how many bytes were told to be durable by then.
struct Cut {
    image: PathBuf,
    told: u64,
}

/// Durable bytes by the last event of `--json`.
fn told_durable(stdout: &Path) -> u64 {
    let text = std::fs::read_to_string(stdout).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    events.filter_map(|event| event["bytes_durable"].as_u64()).max().unwrap_or(0)
}

/// As `c6_a_disk_that_stops_syncing_at_any_sync_of_a_local_copy`: one run, looked at when it syncs for the n-th time,
/// for every n.
#[test]
fn a_power_cut_at_any_sync_of_a_stream_takes_nothing_that_was_told_to_be_durable() {
    let row = "stream power";
    if !can_mount(row) || !can_watch(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    let content = noise(3, 12 << 20);
    std::fs::write(&from, &content).unwrap();
    // No commits of its own meanwhile: only what is asked for becomes durable.
    let made = Volume::with_options(scratch.root(), "ext4.img", "ext4", 64, &[], "commit=600");
    let Some(disk) = made else { return };
    let mount = disk.path.clone();
    let to = mount.join("new/x");
    let stream = || {
        let job = with(command(&scratch), ["--json", "--mark-every", "150ms"]);
        with(job, [&from, &to])
    };
    let (go, stdout) = (scratch.path("go"), scratch.path("stdout"));
    let mut first = held_until(&go, &with(stream(), ["--bwlimit", "3MB/s"]));
    first.stdin(Stdio::null()).stdout(std::fs::File::create(&stdout).unwrap()).stderr(Stdio::null());
    let mut first = first.spawn().unwrap();
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let (made, image) = (cuts.clone(), disk.image.clone().unwrap());
    let at_each = move |number: u32| {
        let told = told_durable(&stdout);
        let copy = image.with_file_name(format!("cut-{number}.img"));
        let copied = Command::new("cp").arg("--sparse=always").args([&image, &copy]).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        made.lock().unwrap().push(Cut { image: copy, told });
        Sync::Done
    };
    let syncs = Syncs::watch(first.id(), Box::new(at_each));
    std::fs::write(&go, "").unwrap();
    assert!(wait_until(LIMIT, || is_zombie(first.id())), "the first run hangs");
    let count = syncs.end();
    assert!(first.wait().unwrap().success(), "the first run failed");
    assert!(std::fs::read(&to).unwrap() == content);
    drop(disk);
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert_eq!(cuts.len(), count as usize);
    let (mut told, mut resumed) = (0, 0);
    for (number, cut) in (1..).zip(cuts) {
        let words = format!("nothing durable from sync {number} of {count} on");
        let disk = Volume::mount_at(cut.image.clone(), mount.clone(), "ext4", "commit=600");
        let there = std::fs::read(&to).unwrap_or_default();
        let bytes = cut.told as usize;
        assert!(
            there.len() >= bytes && there[..bytes] == content[..bytes],
            "{words}: {bytes} bytes were told"
        );
        told += u32::from(bytes > 0);
        let ran = Running::start(stream()).end(LIMIT);
        assert_eq!(ran.code, Some(0), "{words}: {}\n{}", ran.stdout, ran.stderr);
        resumed += ran.number("bytes_resumed");
        assert!(std::fs::read(&to).unwrap() == content, "{words}");
        assert_no_litter(&mount.join("new"));
        drop(disk);
        let _ = std::fs::remove_file(cut.image);
    }
    assert!(count >= 10 && told > 0 && resumed > 0, "{count} syncs, {told} told, {resumed} bytes resumed");
}
