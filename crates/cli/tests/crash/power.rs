//! Power cuts, and disks that stop syncing: rows C-5 and C-6 of docs/faults.md.

use crate::support::chance::{Random, quick_or_torture};
use crate::support::copies::{LIMIT, digests, local_copy, make_small_source, make_source, push, wrong_names};
use crate::support::job::{Running, Strace, bytes_written, with};
use crate::support::syncs::{Sync, Syncs, can_watch, held_until, is_zombie};
use crate::support::volume::{Volume, can_mount};
use crate::support::{Daemon, Scratch, assert_no_litter, assert_same, wait_until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// File systems whose power can be cut.
fn kinds() -> &'static [&'static str] {
    quick_or_torture(&["ext4"], &["ext4", "xfs", "btrfs"])
}

fn volume(scratch: &Scratch, name: &str, kind: &str) -> Option<Volume> {
    let mebibytes = if kind == "xfs" { 400 } else { 256 };
    Volume::new(scratch.root(), name, kind, mebibytes)
}

#[test]
fn c5_a_power_cut_right_after_exit_0_loses_nothing() {
    let row = "C-5";
    if !can_mount(row) {
        return;
    }
    for kind in kinds() {
        let scratch = Scratch::new();
        make_source(&scratch.path("from"));
        let Some(disk) = volume(&scratch, &format!("{kind}.img"), kind) else { continue };
        // The state directory is on it as well; new directories above the destination too.
        let to = disk.path.join("new/and/newer/to");
        let command = with(with(local_copy(&scratch, &to), ["--state"]), [disk.path.join("state")]);
        Running::start(command).end(LIMIT).expect(0);
        if !disk.cut_power(row) {
            continue;
        }
        let after = disk.after_the_cut(&format!("{kind}-after.img"));
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        // And what is remembered of it is no hindrance.
        let again = with(with(local_copy(&scratch, &to), ["--state"]), [after.path.join("state")]);
        assert_eq!(Running::start(again).end(LIMIT).expect(0).number("bytes_received"), 0);
    }
}

#[test]
fn c5_a_power_cut_at_the_daemon_right_after_the_client_ended_loses_nothing() {
    let row = "C-5 daemon";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let Some(disk) = volume(&scratch, "ext4.img", "ext4") else { return };
    let daemon = scratch.daemon(&[("data", &disk.path)]);
    Running::start(push(&scratch, &daemon.place("data", "x/y"))).end(LIMIT).expect(0);
    if !disk.cut_power(row) {
        return;
    }
    daemon.kill();
    let after = disk.after_the_cut("after.img");
    assert_same(&scratch.path("from"), &after.path.join("x/y"));
}

#[test]
fn c6_a_power_cut_at_any_moment_leaves_only_whole_names_and_resumes() {
    let row = "C-6";
    if !can_mount(row) || !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    for kind in kinds() {
        for cut in 0..quick_or_torture(3, 70) {
            let scratch = Scratch::new();
            let total = make_source(&scratch.path("from"));
            let expected = digests(&scratch.path("from"));
            let Some(disk) = volume(&scratch, &format!("{kind}.img"), kind) else { break };
            let to = disk.path.join("to");
            let state = |disk: &Volume| disk.path.join("state");
            let command = with(with(local_copy(&scratch, &to), ["--state"]), [state(&disk)]);
            let mut job = Running::start(Strace::inject("pwrite64:delay_enter=12000").around(&command));
            let moment = random.below(total);
            let pid = job.pid();
            let is_there = || bytes_written(pid).is_none_or(|bytes| bytes >= moment);
            assert!(wait_until(LIMIT, || is_there() || job.is_over()));
            if !disk.cut_power(row) {
                break;
            }
            let ran = job.end(LIMIT);
            let words = format!("{kind}: power cut {cut} after {moment} bytes");
            let after = disk.after_the_cut(&format!("{kind}-after.img"));
            if ran.code == Some(0) {
                assert_same(&scratch.path("from"), &to);
                continue;
            }
            assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
            let again = with(with(local_copy(&scratch, &to), ["--state"]), [state(&after)]);
            let ran = Running::start(again).end(LIMIT);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
            assert_same(&scratch.path("from"), &to);
            assert_no_litter(&to);
        }
    }
}

/// What a power cut leaves, and what had been promised by then.
struct Cut {
    image: PathBuf,
    /// Files that the copy had told to be done.
    told: Vec<PathBuf>,
}

/// Files that are told to be done in what `--json` said so far.
fn told_done(stdout: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(stdout).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|event| event["event"] == "entry" && event["outcome"] == "done" && event["type"] == "file")
        .map(|event| PathBuf::from(event["path"].as_str().expect("a path")))
        .collect()
}

/// From its n-th sync on, for every n, nothing more becomes durable, though the copy is told so and goes on to its
/// end; then the power is cut. One run serves for all n: what the disk holds at the entry of the n-th sync is what such
/// a cut leaves. `pid` is of the program that syncs; it stands still when its sync is looked at.
///
/// A file that was told to be done before that sync must be there, whole; the same command again does the rest.
fn stops_syncing(row: &str, kind: &str, is_push: bool) {
    let scratch = Scratch::new();
    make_small_source(&scratch.path("from"));
    let expected = digests(&scratch.path("from"));
    // No commits of its own meanwhile: only what is asked for becomes durable.
    let calm = if kind == "xfs" { "" } else { "commit=600" };
    let mebibytes = if kind == "ext4" { 64 } else { 400 };
    let name = format!("{kind}.img");
    let Some(disk) = Volume::with_options(scratch.root(), &name, kind, mebibytes, &[], calm) else { return };
    let mount = disk.path.clone();
    let to = mount.join("new/to");

    let daemon = is_push.then(|| scratch.daemon(&[("data", &mount)]));
    let command = |daemon: Option<&Daemon>| match daemon {
        Some(daemon) => push(&scratch, &daemon.place("data", "new/to")),
        None => with(with(local_copy(&scratch, &to), ["--state"]), [mount.join("state")]),
    };
    // Slow enough for several rounds within a file.
    let first = with(command(daemon.as_ref()), ["--bwlimit", "4MiB"]);
    let (go, stdout) = (scratch.path("go"), scratch.path("stdout"));
    let mut first = held_until(&go, &first);
    first.stdin(Stdio::null()).stdout(std::fs::File::create(&stdout).unwrap());
    let mut first = first.spawn().unwrap();
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let (made, image) = (cuts.clone(), disk.image.clone().unwrap());
    let at_each = move |number: u32| {
        // What was said before this sync may still be on its way through the client.
        std::thread::sleep(Duration::from_millis(if is_push { 50 } else { 0 }));
        let told = told_done(&stdout);
        let copy = image.with_file_name(format!("cut-{number}.img"));
        let copied = Command::new("cp").arg("--sparse=always").args([&image, &copy]).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        made.lock().unwrap().push(Cut { image: copy, told });
        Sync::Done
    };
    let pid = daemon.as_ref().map_or(first.id(), Daemon::pid);
    let syncs = Syncs::watch(pid, Box::new(at_each));
    std::fs::write(&go, "").unwrap();
    // While it is traced from this process, waiting for its end would show its stops.
    assert!(wait_until(LIMIT, || is_zombie(first.id())), "the first run hangs");
    let count = syncs.end();
    assert!(first.wait().unwrap().success(), "the first run failed");
    assert_same(&scratch.path("from"), &to);
    drop(daemon);
    drop(disk);

    let (mut told, mut resumed) = (0, 0);
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    assert_eq!(cuts.len(), count as usize);
    for (number, cut) in (1..).zip(cuts) {
        let words = format!("{row}, {kind}: nothing durable from sync {number} of {count} on");
        let disk = Volume::mount_at(cut.image.clone(), mount.clone(), kind, calm);
        assert_eq!(wrong_names(&to, &expected, &mut BTreeMap::new()), Vec::<String>::new(), "{words}");
        for path in &cut.told {
            assert!(to.join(path).is_file(), "{words}: {path:?} was told to be done and is gone");
        }
        told += cut.told.len();
        let daemon = is_push.then(|| scratch.daemon(&[("data", &mount)]));
        let ran = Running::start(command(daemon.as_ref())).end(LIMIT);
        assert_eq!(ran.code, Some(0), "{words}: {}\n{}", ran.stdout, ran.stderr);
        resumed += ran.number("bytes_resumed");
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        drop(daemon);
        drop(disk);
        let _ = std::fs::remove_file(cut.image);
    }
    assert!(
        count >= 10 && told > 0 && resumed > 0,
        "{count} syncs, {told} files told, {resumed} bytes resumed"
    );
}

fn stops_syncing_on_each(row: &str, is_push: bool) {
    if !can_mount(row) || !can_watch(row) {
        return;
    }
    for kind in kinds() {
        stops_syncing(row, kind, is_push);
    }
}

#[test]
fn c6_a_disk_that_stops_syncing_at_any_sync_of_a_local_copy() {
    stops_syncing_on_each("C-6 syncs", false);
}

#[test]
fn c6_a_disk_that_stops_syncing_at_any_sync_of_a_daemon() {
    stops_syncing_on_each("C-6 syncs of a daemon", true);
}
