//! Disks that are full, read-only, or lose what they took: the copy ends in time, says where and why, harms nothing
//! that was done, and comes to its end with the same command when there is room. Rows D-1 to D-8 and P12 of
//! docs/faults.md, promises 16, 17 and 19 of SPEC.md.
//!
//! `THALWEG_TORTURE=1` runs the long forms. Everything here needs root for its volumes, but the size limit.

mod support;

#[path = "disk/state.rs"]
mod state;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::chance::{in_time, quick_or_torture, skipped};
use support::copies::LIMIT;
use support::job::{Ran, Running, Strace, bytes_allocated, with};
use support::proxy::Proxy;
use support::syncs::{Sync, Syncs, can_watch, held_until, is_zombie};
use support::volume::{Volume, can_mount};
use support::{Scratch, assert_no_litter, assert_same, facts, noise, wait_until};
use thalweg_lab::wrap::wrap;

const STAGING: &str = ".thalweg-staging";

fn copy(scratch: &Scratch, from: &Path, to: &Path) -> Command {
    with(
        with(scratch.thalweg(), ["cp", "--json", "--quiet", "--chunk", "1MiB"]),
        [slashed(from), to.to_owned()],
    )
}

fn slashed(path: &Path) -> PathBuf {
    path.join("")
}

/// A refusal as it must be: in time, code 6, one line with the path and the cause, and a hint.
#[track_caller]
fn assert_refused(ran: &Ran, cause: &[&str], place: &[&str]) {
    assert_eq!(ran.code, Some(6), "{}\n{}", ran.stdout, ran.stderr);
    assert!(in_time("a refusal", ran.took, Duration::from_secs(30)), "{:?}", ran.took);
    let line = ran.stderr.lines().find(|line| line.starts_with("error:")).unwrap_or("").to_owned();
    assert!(cause.iter().any(|cause| line.contains(cause)), "no cause in `{}`", ran.stderr);
    assert!(place.iter().any(|place| line.contains(place)), "no place in `{}`", ran.stderr);
    assert!(ran.stderr.contains("hint:"), "no hint in `{}`", ran.stderr);
}

/// P12: all that is hidden is in one named place, and everything with a final name is whole.
#[track_caller]
fn assert_only_whole_names(from: &Path, to: &Path) {
    let expected = facts(from);
    for (name, fact) in facts(to) {
        let text = String::from_utf8_lossy(&name).into_owned();
        if text == "lost+found" || text.split('/').next() == Some(STAGING) {
            continue;
        }
        let kind = |fact: &str| {
            fact.split(" of inode").next().unwrap_or("").split(" mode").next().unwrap_or("").to_owned()
        };
        let whole = expected.get(&name).unwrap_or_else(|| panic!("{text} is not of the source"));
        assert_eq!(kind(&fact), kind(whole), "{text}");
    }
}

/// A mount has things of its own in it; the copy goes below.
fn inside(volume: &Volume) -> PathBuf {
    volume.path.join("to")
}

#[test]
fn d1_a_disk_that_fills_up_in_the_middle() {
    let row = "D-1 full";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..24u64 {
        std::fs::write(from.join(format!("file-{i:02}")), noise(i, (2 << 20) + 5)).unwrap();
    }
    for kind in quick_or_torture(&["ext4"][..], &["ext4", "xfs", "btrfs"]) {
        // What is reserved when a file system is nearly full differs; the filler leaves room for a part in each.
        let size = if *kind == "ext4" { 64 } else { 320 };
        let Some(volume) = Volume::new(scratch.root(), &format!("{kind}.img"), kind, size) else { continue };
        let filler = volume.path.join("filler");
        fill_up_to(&volume.path, &filler, 20 << 20);
        let to = inside(&volume);
        // What is there from before must survive it.
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join("file-00"), b"old").unwrap();
        let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
        assert_refused(&ran, &["No space left"], &["file-", "to"]);
        let old = std::fs::read(to.join("file-00")).unwrap();
        assert!(old == b"old" || old == noise(0, (2 << 20) + 5));
        if old == b"old" {
            std::fs::remove_file(to.join("file-00")).unwrap();
        }
        assert_only_whole_names(&from, &to);
        // Full again: nothing is harmed, nothing grows.
        let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
        assert_refused(&ran, &["No space left"], &["file-", "to"]);
        std::fs::remove_file(&filler).unwrap();
        Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
        assert_same(&from, &to);
        assert_no_litter(&to);
    }
}

/// Leaves so many bytes free.
fn fill_up_to(mount: &Path, filler: &Path, leave: u64) {
    let free = || {
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(mount).output().unwrap().stdout;
        let text = String::from_utf8_lossy(&output).into_owned();
        let mut numbers = text.split_whitespace().map(|text| text.parse::<u64>().unwrap());
        numbers.next().unwrap() * numbers.next().unwrap()
    };
    let bytes = free().saturating_sub(leave);
    let made = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "conv=fsync", "status=none"])
        .arg(format!("count={}", bytes >> 20))
        .arg(format!("of={}", filler.display()))
        .output()
        .unwrap();
    assert!(made.status.success());
}

#[test]
fn d1_a_file_that_does_not_fit_is_refused_before_its_bytes_come() {
    let row = "D-1 preallocation";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("a-small"), noise(1, 100_000)).unwrap();
    std::fs::write(from.join("too-large"), noise(2, 40 << 20)).unwrap();
    let volume = Volume::in_memory(scratch.root(), "small", "size=24m");
    let to = inside(&volume);
    let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
    assert_refused(&ran, &["No space left"], &["too-large"]);
    assert_only_whole_names(&from, &to);
    assert!(bytes_allocated(&to) < 4 << 20, "{} bytes stay", bytes_allocated(&to));
    volume.remount("size=96m");
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// Here and at a daemon, of a directory that is there and of one that would be made.
#[test]
fn d1_what_does_not_fit_is_foretold_and_what_is_there_already_needs_no_room() {
    let row = "D-1 foretold";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), noise(1, 40 << 20)).unwrap();
    let volume = Volume::in_memory(scratch.root(), "small", "size=24m");
    let to = inside(&volume);
    let daemon = scratch.daemon(&[("data", &volume.path)]);
    let far = daemon.place("data", "to");
    let ticket = scratch.path("ticket");
    let said = |place: &Path| {
        let command = with(scratch.thalweg(), ["cp", "-n", "--ticket"]);
        let ran = Running::start(with(command, [&*ticket, &*slashed(&from), place])).end(LIMIT);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stderr
    };
    let foretold = "the copy needs 40.00 MiB, and the destination has room for 24.00 MiB: ";
    for is_there in [false, true] {
        if is_there {
            std::fs::create_dir(&to).unwrap();
        }
        for place in [&*to, Path::new(&far)] {
            let told = said(place);
            assert_eq!(told.matches(foretold).count(), 1, "{is_there}: {told}");
        }
    }
    let predicted = with(scratch.thalweg(), ["predict", "--json", "--no-measure"]);
    let ran = Running::start(with(predicted, [&slashed(&from), &to])).end(LIMIT);
    let told: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap_or("")).unwrap();
    assert!((23 << 20..=24 << 20).contains(&told["room_bytes"].as_u64().unwrap_or(0)), "{told}");
    volume.remount("size=48m");
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    let told = said(&to);
    assert!(!told.contains("the copy needs"), "{told}");
}

/// Holes cost nothing until they are filled: the disk fills while it is written, not when room is asked for.
#[test]
fn d1_a_sparse_file_fills_the_disk_while_it_is_written() {
    let row = "D-1 mid-file";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    let file = std::fs::File::create(from.join("sparse")).unwrap();
    file.set_len(200 << 20).unwrap();
    for island in 0..10u64 {
        let content = noise(island, 3 << 20);
        std::os::unix::fs::FileExt::write_all_at(&file, &content, island * (20 << 20)).unwrap();
    }
    drop(file);
    let volume = Volume::in_memory(scratch.root(), "small", "size=16m");
    let to = inside(&volume);
    // What was verified more than a moment before the disk was full is not sent again.
    let slow = with(copy(&scratch, &from, &to), ["--bwlimit", "8MiB"]);
    let ran = Running::start(slow).end(LIMIT);
    assert_refused(&ran, &["No space left"], &["sparse"]);
    assert_only_whole_names(&from, &to);
    volume.remount("size=64m");
    let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert!(ran.number("bytes_resumed") > 0, "{}", ran.stdout);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d1_a_call_that_finds_no_room_ends_the_copy_in_order() {
    let row = "D-1 calls";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("below")).unwrap();
    std::fs::write(from.join("below/large"), noise(1, 24 << 20)).unwrap();
    let to = scratch.path("to");
    let place = to.display().to_string();
    // The first start makes a key for itself.
    Running::start(copy(&scratch, &from.join("below"), &scratch.path("before"))).end(LIMIT).expect(0);
    // Slow enough for rounds within the file, which need the journal. What an io_uring does is no call that could fail.
    let slow = || with(copy(&scratch, &from, &to), ["--bwlimit", "16MiB", "--no-io-uring"]);
    let refused = |inject: Strace, what: &str| {
        let ran = Running::start(inject.around(&slow())).end(LIMIT);
        assert_eq!(ran.code, Some(6), "{what}: {}\n{}", ran.stdout, ran.stderr);
        assert_refused(&ran, &["No space left"], &[place.as_str(), "large", "`below`"]);
        assert_only_whole_names(&from, &to);
        ran
    };
    for what in
        ["pwrite64:error=ENOSPC:when=5+", "fdatasync:error=ENOSPC:when=3+", "fsync:error=ENOSPC:when=2+"]
    {
        // What was kept would leave too few calls for one of them to fail.
        let _ = std::fs::remove_dir_all(&to);
        refused(Strace::inject(what), what);
    }
    // It may have its name by now, whole, when only the sync of that failed.
    let _ = std::fs::remove_file(to.join("below/large"));
    let staging = std::fs::read_dir(to.join(STAGING)).unwrap().next().expect("a job's directory").unwrap();
    let journal = Strace::inject("pwrite64:error=ENOSPC").with(["-P"]).with([staging.path().join("journal")]);
    let ran = refused(journal, "the journal");
    assert!(ran.stderr.contains("write the journal"), "{}", ran.stderr);
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d1_a_full_disk_at_the_daemon_is_told_to_the_client() {
    let row = "D-1 daemon";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..20u64 {
        std::fs::write(from.join(format!("file-{i:02}")), noise(i, 2 << 20)).unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "small", "size=16m");
    let daemon = scratch.daemon(&[("data", &volume.path)]);
    let ticket = scratch.path("ticket").display().to_string();
    let place = daemon.place("data", "to");
    let push = || {
        let command =
            with(scratch.thalweg(), ["cp", "--json", "--quiet", "--chunk", "1MiB", "--ticket", &ticket]);
        Running::start(with(with(command, [slashed(&from)]), [&place])).end(LIMIT)
    };
    let ran = push();
    assert_refused(&ran, &["No space left"], &["file-", "to"]);
    let to = inside(&volume);
    assert_only_whole_names(&from, &to);
    volume.remount("size=96m");
    push().expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d2_a_limit_on_file_sizes_is_no_signal_and_costs_the_files_that_are_too_large_and_no_other() {
    let row = "D-2 size limit";
    if !support::chance::has("prlimit") {
        skipped(row, "no prlimit");
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("fits"), noise(1, 3 << 20)).unwrap();
    std::fs::write(from.join("large"), noise(2, 12 << 20)).unwrap();
    let to = scratch.path("to");
    let plain = copy(&scratch, &from, &to);
    let mut limited = Command::new("prlimit");
    limited.args(["--fsize=8388608", "--"]);
    let ran = Running::start(wrap(limited, &plain)).end(LIMIT);
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.stdout, ran.stderr);
    let line = ran.stderr.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
    assert!(line.contains("on `large`") && line.contains("File too large"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint:") && ran.stderr.contains("`ulimit -f`"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("make room"), "{}", ran.stderr);
    assert_eq!(std::fs::read(to.join("fits")).unwrap(), noise(1, 3 << 20));
    assert!(!to.join("large").exists());
    assert_only_whole_names(&from, &to);
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d2_a_disk_without_inodes() {
    let row = "D-2 inodes";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..300u64 {
        std::fs::write(from.join(format!("file-{i:03}")), noise(i, 200)).unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "few", "size=64m,nr_inodes=120");
    let to = inside(&volume);
    let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
    assert_refused(&ran, &["no inodes left"], &["file-", "to"]);
    assert!(ran.stderr.contains("remove files") && !ran.stderr.contains("make room"), "{}", ran.stderr);
    assert_only_whole_names(&from, &to);
    volume.remount("nr_inodes=2000");
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d2_a_quota_that_is_used_up() {
    let row = "D-2 quota";
    if !can_mount(row) {
        return;
    }
    if !support::chance::has("btrfs") {
        return skipped(row, "needs btrfs (package btrfs-progs)");
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..12u64 {
        std::fs::write(from.join(format!("file-{i:02}")), noise(i, 2 << 20)).unwrap();
    }
    let Some(volume) = Volume::new(scratch.root(), "btrfs.img", "btrfs", 192) else { return };
    let to = inside(&volume);
    let btrfs = |args: &[&str]| {
        let output = Command::new("btrfs").args(args).arg(&to).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    btrfs(&["subvolume", "create"]);
    btrfs(&["quota", "enable"]);
    btrfs(&["qgroup", "limit", "10M"]);
    let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
    assert_refused(&ran, &["quota"], &["file-", "to"]);
    assert_only_whole_names(&from, &to);
    btrfs(&["qgroup", "limit", "none"]);
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

#[test]
fn d3_a_file_system_that_becomes_read_only() {
    let row = "D-3 read-only";
    if !can_mount(row) || !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..10u64 {
        std::fs::write(from.join(format!("file-{i}")), noise(i, 6 << 20)).unwrap();
    }
    let Some(volume) =
        Volume::with_options(scratch.root(), "ext4.img", "ext4", 128, &[], "errors=remount-ro")
    else {
        return;
    };
    let to = inside(&volume);
    let slow = Strace::inject("pwrite64:delay_enter=25000").around(&copy(&scratch, &from, &to));
    let mut job = Running::start(slow);
    assert!(wait_until(LIMIT, || bytes_allocated(&to) > 12 << 20 || job.is_over()));
    assert!(!job.is_over());
    // As the kernel does after an error: writers do not hold it off.
    let forced = Command::new("mount").args(["-o", "remount,abort"]).arg(&volume.path).output().unwrap();
    if !forced.status.success() && !is_read_only(&volume.path) {
        skipped(row, &format!("cannot be aborted: {}", String::from_utf8_lossy(&forced.stderr).trim()));
        return;
    }
    let ran = job.end(LIMIT).expect(6);
    assert!(ran.stderr.contains("hint:") && ran.stderr.contains("error:"), "{}", ran.stderr);
    // What finds the journal broken off is told of an error of the disk.
    let causes = ["Read-only file system", "Input/output error"];
    assert!(causes.iter().any(|cause| ran.stderr.contains(cause)), "{}", ran.stderr);
}

fn is_read_only(path: &Path) -> bool {
    std::fs::write(path.join("probe"), b"x").is_err()
}

#[test]
fn d3_a_read_only_destination_is_said_at_once() {
    let row = "D-3 from the start";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), b"x").unwrap();
    let volume = Volume::in_memory(scratch.root(), "ro", "size=8m");
    let to = inside(&volume);
    std::fs::create_dir(&to).unwrap();
    volume.remount("ro");
    let since = Instant::now();
    let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
    assert_refused(&ran, &["Read-only file system"], &["to", "staging"]);
    assert!(in_time(row, since.elapsed(), Duration::from_secs(5)), "{:?}", since.elapsed());
    volume.remount("rw");
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
}

/// The file system takes every write; the disk below it is smaller than it says, and loses them at write-back.
#[test]
fn d4_a_disk_that_loses_what_it_took_is_never_believed() {
    let row = "D-4";
    if !can_mount(row) {
        return;
    }
    for kind in quick_or_torture(&["ext4"][..], &["ext4", "xfs", "btrfs"]) {
        let scratch = Scratch::new();
        let from = scratch.path("from");
        std::fs::create_dir(&from).unwrap();
        for i in 0..4u64 {
            std::fs::write(from.join(format!("large-{i}")), noise(i, 12 << 20)).unwrap();
        }
        for i in 0..200u64 {
            std::fs::write(from.join(format!("small-{i:03}")), noise(i, 30_000)).unwrap();
        }
        // What mkfs itself writes must fit: xfs writes its log.
        let (thin_bytes, bytes) = if *kind == "xfs" { (96, 320) } else { (24, 192) };
        let thin = Volume::in_memory(scratch.root(), "thin", &format!("size={thin_bytes}m"));
        if *kind == "xfs" {
            // And what is left is too little for the copy.
            std::fs::write(thin.path.join("filler"), vec![7; 8 << 20]).unwrap();
        }
        let Some(mut volume) = Volume::new(&thin.path, &format!("{kind}.img"), kind, bytes) else { continue };
        let to = inside(&volume);
        let ran = Running::start(copy(&scratch, &from, &to)).end(LIMIT);
        assert!(in_time(row, ran.took, Duration::from_secs(60)), "{:?}", ran.took);
        if ran.code == Some(0) {
            volume.mount_again();
            assert_same(&from, &to);
        } else {
            assert_refused(
                &ran,
                &["Input/output error", "No space left", "Read-only"],
                &["to", "large", "small"],
            );
        }
        drop(volume);
        drop(thin);
    }
}

/// From the n-th sync on every one fails, for every n: nothing of it is believed, the line says where, and the same
/// command comes to its end when the disk works again.
#[test]
fn d5_a_sync_that_fails_is_final_whichever_it_is() {
    let row = "D-5 syncs";
    if !can_watch(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("below")).unwrap();
    std::fs::write(from.join("below/large"), noise(1, 6 << 20)).unwrap();
    std::fs::write(from.join("below/large-too"), noise(2, (2 << 20) + 77)).unwrap();
    for i in 0..12u64 {
        std::fs::write(from.join(format!("small-{i}")), noise(i, 900 * i as usize)).unwrap();
    }
    let to = scratch.path("to");
    // What a first start makes durable for itself is another matter.
    Running::start(copy(&scratch, &from.join("below"), &scratch.path("before"))).end(LIMIT).expect(0);
    // Slow enough for several rounds.
    let slow = || with(copy(&scratch, &from, &to), ["--bwlimit", "8MiB"]);
    for first_refused in 1.. {
        assert!(first_refused < 200, "it never comes to its end");
        let go = scratch.path(&format!("go-{first_refused}"));
        let job = Running::start(held_until(&go, &slow()));
        let refuse = move |number| if number < first_refused { Sync::Done } else { Sync::Refused };
        let syncs = Syncs::watch(job.pid(), Box::new(refuse));
        std::fs::write(&go, "").unwrap();
        let pid = job.pid();
        assert!(wait_until(LIMIT, || is_zombie(pid)), "{row}: hangs when sync {first_refused} fails");
        let count = syncs.end();
        let ran = job.end(LIMIT);
        if count < first_refused {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(count > 10, "only {count} syncs");
            break;
        }
        let words = format!("sync {first_refused} and what follows fail: {}", ran.stderr);
        if ran.code == Some(0) {
            // Only the very last one may: all is durable by then but that our own hidden directory is gone.
            assert!(count == first_refused && count > 10, "{words}: {count} syncs");
            assert_same(&from, &to);
            assert_no_litter(&to);
            break;
        }
        assert_eq!(ran.code, Some(6), "{words}");
        assert!(ran.stderr.contains("sync") || ran.stderr.contains("journal"), "{words}");
        assert_refused(&ran, &["Input/output error"], &["to", "large", "below", "small"]);
        assert_only_whole_names(&from, &to);
        Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
        assert_same(&from, &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// A source whose medium has a bad spot: the file that has it is listed, everything else is copied.
#[test]
fn d5_a_source_that_cannot_be_read_costs_that_file_and_no_other() {
    let row = "D-5 reads";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("bad"), noise(1, 6 << 20)).unwrap();
    for i in 0..10u64 {
        std::fs::write(from.join(format!("good-{i}")), noise(i, 40_000)).unwrap();
    }
    let to = scratch.path("to");
    let plain = copy(&scratch, &from, &to);
    // Every read of this one file fails.
    let mut failing =
        Strace::inject("pread64:error=EIO").with(["-P"]).with([from.join("bad")]).around(&plain);
    failing.env("RUST_BACKTRACE", "0");
    let ran = Running::start(failing).end(LIMIT);
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("`bad`") && ran.stderr.contains("Input/output error"), "{}", ran.stderr);
    assert!(!to.join("bad").exists());
    for i in 0..10u64 {
        assert_eq!(std::fs::read(to.join(format!("good-{i}"))).unwrap(), noise(i, 40_000));
    }
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// Calls that are interrupted, again and again, on either side of a copy.
#[test]
fn d6_calls_that_are_interrupted_are_made_again() {
    let row = "D-6";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    support::make_tree(&from);
    let to = scratch.path("to");
    let calls = [
        "pread64",
        "pwrite64",
        "openat2",
        "fallocate",
        "ftruncate",
        "fdatasync",
        "fsync",
        "syncfs",
        "getdents64",
        "copy_file_range",
        "read",
        "write",
        "lseek",
        "statx",
        "utimensat",
        "renameat2",
        "linkat",
    ];
    for call in calls {
        // The first ones are the loader's, which takes no interruption well.
        let first = if ["pread64", "read", "openat2"].contains(&call) { 8 } else { 2 };
        let inject = Strace::inject(&format!("{call}:error=EINTR:when={first}+3"));
        let ran = Running::start(inject.around(&copy(&scratch, &from, &to))).end(LIMIT);
        if ran.code == Some(0) {
            assert_same(&from, &to);
        } else {
            // POSIX gives this error to some of them only; then it is told, and nothing is wrong.
            assert!(matches!(ran.code, Some(2 | 3 | 6)), "{call}: {:?} {}", ran.code, ran.stderr);
            assert!(ran.stderr.contains("error:"), "{call}: {}", ran.stderr);
        }
        let is_basic =
            ["pread64", "pwrite64", "read", "write", "openat2", "fsync", "fdatasync"].contains(&call);
        assert!(!is_basic || ran.code == Some(0), "{call}: {:?} {}", ran.code, ran.stderr);
        Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
        assert_same(&from, &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// One call that takes longer than a stall is borne is no stall: its mover says what it waits for.
#[test]
fn d7_a_disk_that_takes_its_time_is_no_stall() {
    let row = "D-7";
    if !Strace::available(row) {
        return;
    }
    let seconds = quick_or_torture(8, 90);
    let slow = |call: &str, nth: u32| format!("{call}:delay_enter={}:when={nth}", seconds * 1_000_000);
    let one = |slow: String, is_push, at_daemon| SlowCall {
        slow,
        is_push,
        at_daemon,
        streams: 2,
        options: &[],
        small_files: 0,
    };
    let mut calls = vec![
        one(slow("pwrite64", 2), true, true),
        one(slow("pread64", 2), false, true),
        one(slow("fdatasync", 2), true, true),
        one(slow("pread64", 2), true, false),
    ];
    // In the middle of the second read of a file, and of a pack. One thread reads, and its calls are counted.
    for (is_push, at_daemon) in [(true, false), (false, true)] {
        let again = one(slow("pread64", 18), is_push, at_daemon);
        let options = &["--verify", "paranoid", "--request", "1MiB"];
        calls.push(SlowCall { streams: 1, options, ..again });
        let open = one(slow("openat", 200), is_push, at_daemon);
        calls.push(SlowCall { streams: 1, small_files: 512, ..open });
    }
    std::thread::scope(|scope| {
        for call in &calls {
            scope.spawn(move || call.run(row, Duration::from_secs(seconds)));
        }
    });
}

/// At the daemon, or at the client. A slow read is in the middle of a chunk: what came of that is not acknowledged
/// before the rest.
struct SlowCall {
    /// What is slow, in words of strace.
    slow: String,
    is_push: bool,
    at_daemon: bool,
    streams: u32,
    /// More options of the copy.
    options: &'static [&'static str],
    /// To be copied in place of a large one.
    small_files: u64,
}

impl SlowCall {
    fn run(&self, row: &str, takes: Duration) {
        // In memory: no other call is slow.
        let scratch = Scratch::in_memory();
        let from = scratch.path("from");
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(scratch.path("to")).unwrap();
        match self.small_files {
            0 => std::fs::write(from.join("large"), noise(1, 12 << 20)).unwrap(),
            count => {
                (0..count).for_each(|at| std::fs::write(from.join(format!("f{at}")), noise(at, 100)).unwrap())
            }
        }
        let export = if self.is_push { scratch.path("to") } else { from.clone() };
        let inject = Strace::inject(&self.slow);
        let daemon =
            scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &["--stall-timeout", "5s"], |command| {
                if self.at_daemon { inject.around(&command) } else { command }
            });
        let options = ["cp", "--json", "--quiet", "--chunk", "1MiB", "--bwlimit", "16MiB"];
        let command = with(with(scratch.thalweg(), options), self.options);
        let streams = self.streams.to_string();
        let command = with(command, ["--streams", &streams[..], "--stall-timeout", "5s"]);
        let command = with(with(command, ["--ticket"]), [&daemon.ticket]);
        let command = match self.is_push {
            true => with(with(command, [slashed(&from)]), [daemon.place("data", "")]),
            false => with(with(command, [daemon.place("data", "")]), [scratch.path("to")]),
        };
        let command = if self.at_daemon { command } else { inject.around(&command) };
        let ran = Running::start(command).end(LIMIT * 3).expect(0);
        assert!(ran.took >= takes, "{row}: {} was not slow", self.slow);
        assert_eq!(ran.number("attempts"), 1);
        assert!(!ran.stdout.contains("link-lost"), "{row}: {}: {}", self.slow, ran.stdout);
        assert_same(&from, &scratch.path("to"));
        assert_no_litter(&scratch.path("to"));
    }
}

/// P12: whatever a copy over the wire leaves when it is stopped is in one place, and goes with the next one.
#[test]
fn p12_after_a_failure_all_that_is_hidden_is_in_one_place() {
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("a/b/c")).unwrap();
    for (i, place) in ["one", "a/two", "a/b/three", "a/b/c/four"].iter().enumerate() {
        std::fs::write(from.join(place), noise(i as u64, 8 << 20)).unwrap();
        std::fs::write(from.join(format!("{place}-small")), noise(i as u64, 800)).unwrap();
    }
    std::fs::create_dir(scratch.path("to")).unwrap();
    let to = scratch.path("to");
    let daemon = scratch.daemon(&[("data", &to)]);
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(12 << 20);
    let push = || {
        let command = with(scratch.thalweg(), ["cp", "--json", "--quiet", "--chunk", "1MiB", "--ticket"]);
        with(with(with(command, [scratch.path("ticket")]), [slashed(&from)]), [proxy.place("data", "")])
    };
    let mut job = Running::start(push());
    assert!(wait_until(LIMIT, || bytes_allocated(&to) > 8 << 20 || job.is_over()));
    std::thread::sleep(Duration::from_millis(300));
    job.kill();
    daemon.kill();
    let hidden: Vec<_> =
        facts(&to).into_keys().map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
    assert!(hidden.iter().any(|name| name.starts_with(STAGING)), "{hidden:?}");
    assert_only_whole_names(&from, &to);
    let daemon = scratch.daemon(&[("data", &to)]);
    let place = daemon.place("data", "");
    let again = with(scratch.thalweg(), ["cp", "--quiet", "--json", "--chunk", "1MiB", "--ticket"]);
    let again = with(with(with(again, [scratch.path("ticket")]), [slashed(&from)]), [place]);
    Running::start(again).end(LIMIT).expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// D-1: however fast the disk fills, the files that are whole by then stay, and are not sent again.
#[test]
fn d1_what_is_whole_when_space_runs_out_is_kept() {
    if !can_mount("D-1") {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    (0..40).for_each(|at| std::fs::write(from.join(format!("f{at}")), noise(at, 1 << 20)).unwrap());
    let volume = Volume::in_memory(scratch.root(), "small", "size=24m");
    let to = volume.path.join("to");
    Running::start(copy(&scratch, &slashed(&from), &to)).end(LIMIT).expect(6);
    assert_only_whole_names(&from, &to);
    let whole = std::fs::read_dir(&to).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()).count();
    assert!(whole >= 5, "{whole} files are there");
    volume.remount("size=64m");
    let ran = Running::start(copy(&scratch, &slashed(&from), &to)).end(LIMIT).expect(0);
    assert!(ran.number("unchanged") >= whole as u64, "{}", ran.finished());
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// D-8: a file system that cannot reserve space, make links or keep modes and owners gets what it can hold, and the
/// rest is listed.
#[test]
fn d8_a_file_system_of_few_abilities_gets_what_it_can_hold() {
    let row = "D-8";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("below")).unwrap();
    std::fs::write(from.join("below/large"), noise(1, 5_000_000)).unwrap();
    std::fs::write(from.join("small"), b"small").unwrap();
    std::fs::hard_link(from.join("small"), from.join("second-name")).unwrap();
    let Some(volume) = Volume::exfat(scratch.root(), "exfat", 64) else { return };
    let to = volume.path.join("to");
    let ran = Running::start(copy(&scratch, &slashed(&from), &to)).end(LIMIT).expect(0);
    assert!(ran.stdout.contains("\"losses\":[{"), "nothing is said to be lost: {}", ran.stdout);
    assert_eq!(ran.stdout.matches("\"what\":\"hard link\"").count(), 1, "{}", ran.stdout);
    for file in ["below/large", "small", "second-name"] {
        assert!(std::fs::read(to.join(file)).unwrap() == std::fs::read(from.join(file)).unwrap(), "{file}");
    }
    let ran = Running::start(copy(&scratch, &slashed(&from), &to)).end(LIMIT).expect(0);
    assert_eq!(ran.number("bytes_received"), 0, "the times are kept, coarsely: {}", ran.finished());
    // What it cannot hold at all fails by name, and nothing else does.
    std::os::unix::fs::symlink("small", from.join("link")).unwrap();
    let ran = Running::start(copy(&scratch, &slashed(&from), &to)).end(LIMIT).expect(2);
    assert_eq!(ran.number("failed"), 1, "{}", ran.finished());
    assert!(ran.stderr.contains("`link`"), "{}", ran.stderr);
}

/// D-8: FUSE keeps a hidden name for what is removed while it is open; and a link's time that comes alone is taken
/// there and forgotten.
#[test]
fn d8_by_fuse_no_litter_stays_and_a_link_keeps_its_time() {
    let scratch = Scratch::new();
    let (from, below) = (scratch.path("from"), scratch.path("below"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&below).unwrap();
    std::fs::write(from.join("file"), "content").unwrap();
    std::os::unix::fs::symlink("file", from.join("link")).unwrap();
    let touched = Command::new("touch").args(["-h", "-d", "@1000000000"]).arg(from.join("link")).status();
    assert!(touched.unwrap().success());
    let Some(volume) = Volume::by_fuse(scratch.root(), "fuse", &below) else { return };
    let to = inside(&volume);
    let link = || std::fs::symlink_metadata(below.join("to/link")).unwrap();
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_no_litter(&to);
    let before = link();
    assert_eq!(before.mtime(), 1_000_000_000);
    Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
    assert_no_litter(&to);
    assert_eq!(link().ino(), before.ino(), "it was made again");
}

/// Lists ACLs to root a second time, under names that the other file system does not have.
#[test]
fn acls_stay_the_same_however_often_they_are_copied_to_xfs_and_from_it() {
    let row = "ACLs on XFS";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("dir")).unwrap();
    std::fs::write(from.join("f"), "x").unwrap();
    let setfacl = |at: &Path, args: &[&str]| {
        let ran = Command::new("setfacl").args(args).current_dir(at).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    if !setfacl(&from, &["-m", "u:1234:rw", "f"])
        || !setfacl(&from, &["-m", "u:1234:rwx,d:u:1234:rwx", "dir"])
    {
        skipped(row, "no ACLs here");
        return;
    }
    let acls = |at: &Path| {
        let ran = Command::new("getfacl").args(["-n", "f", "dir"]).current_dir(at).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let Some(volume) = Volume::new(scratch.root(), "xfs.img", "xfs", 320) else { return };
    let (to, back, again) = (inside(&volume), scratch.path("back"), volume.path.join("again"));
    for round in 0..3 {
        Running::start(copy(&scratch, &from, &to)).end(LIMIT).expect(0);
        assert_eq!(acls(&to), acls(&from), "round {round}");
    }
    // What is taken back on the way does not return.
    Running::start(copy(&scratch, &to, &back)).end(LIMIT).expect(0);
    assert_eq!(acls(&back), acls(&from));
    assert!(setfacl(&back, &["-x", "u:1234", "f"]) && setfacl(&back, &["-m", "u:7:r", "f"]));
    for round in 0..3 {
        Running::start(copy(&scratch, &back, &again)).end(LIMIT).expect(0);
        assert_eq!(acls(&again), acls(&back), "round {round}");
    }
}
