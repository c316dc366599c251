//! Large files past the page cache: any size, any alignment, either engine, any order, and every option with its
//! bounds.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use support::chance::{say, skipped};
use support::job::{Ran, Running, Strace, journal_bytes, with};
use support::page_cache::{cached_bytes, forget_cached};
use support::volume::{Volume, can_mount};
use support::{Scratch, assert_no_litter, noise, wait_until};

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(180);

/// Bytes that differ everywhere, quicker than [`noise`] for many of them.
fn large(path: &Path, bytes: usize) {
    let mut content = noise(bytes as u64, MIB).into_iter().cycle().take(bytes).collect::<Vec<u8>>();
    for (number, block) in content.chunks_mut(4096).enumerate() {
        let stamp = (number as u64).to_le_bytes();
        let length = stamp.len().min(block.len());
        block[..length].copy_from_slice(&stamp[..length]);
    }
    std::fs::write(path, content).unwrap();
}

fn copy(scratch: &Scratch, far: bool, options: &[&str], to: &str) -> Ran {
    let mut command = with(scratch.thalweg(), ["cp", "--json", "--quiet"]);
    command.args(options);
    let from = format!("{}/", scratch.path("from").display());
    let daemon = far.then(|| scratch.daemon(&[("all", scratch.root())]));
    let to = match &daemon {
        Some(daemon) => {
            command.arg("--ticket").arg(&daemon.ticket);
            daemon.place("all", to)
        }
        None => scratch.path(to).display().to_string(),
    };
    let ran = Running::start(with(command, [from, to])).end(PATIENCE);
    if let Some(daemon) = daemon {
        daemon.terminate();
    }
    ran
}

fn assert_files_same(a: &Path, b: &Path) {
    let mut seen = 0;
    for entry in std::fs::read_dir(a).unwrap().flatten() {
        let (x, y) =
            (std::fs::read(entry.path()).unwrap(), std::fs::read(b.join(entry.file_name())).unwrap());
        assert!(x == y, "{:?} differs", entry.file_name());
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn every_size_and_alignment_arrives_by_either_engine_and_any_order() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for bytes in [16 * MIB, 16 * MIB + 1, 17 * MIB + 511, 17 * MIB - 4097, 20 * MIB + 4096, 3 * MIB + 7] {
        large(&scratch.path("from").join(bytes.to_string()), bytes);
    }
    for (number, (far, options)) in [
        (false, &["--direct", "on"][..]),
        (false, &["--direct", "on", "--no-io-uring"]),
        (false, &["--direct", "off"]),
        (true, &["--direct", "auto", "--io-depth", "1"]),
        (true, &["--direct", "on", "--no-io-uring", "--io-depth", "8"]),
        (true, &["--request", "64KiB", "--direct", "destination=on", "--order", "serial"]),
        (true, &["--request", "8MiB", "--streams", "3", "--order", "source=layout,destination=loose"]),
        (true, &["--order", "strict", "--streams", "4", "--compress", "--cipher", "tls"]),
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("to{number}");
        copy(&scratch, far, options, &to).expect(0);
        assert_files_same(&scratch.path("from"), &scratch.path(&to));
        assert_no_litter(&scratch.path(&to));
        std::fs::remove_dir_all(scratch.path(&to)).unwrap();
    }
}

#[test]
fn a_copy_past_the_page_cache_resumes_after_a_kill() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    large(&scratch.path("from").join("x"), 96 * MIB + 333);
    let slow = with(scratch.thalweg(), ["cp", "--json", "--quiet", "--direct", "on", "--bwlimit", "40MB/s"]);
    let from = format!("{}/", scratch.path("from").display());
    let to = scratch.path("to");
    let mut running = Running::start(with(slow, [from, to.display().to_string()]));
    // Some chunks are recorded: a digest of each has 32 bytes.
    assert!(wait_until(PATIENCE, || journal_bytes(&to) > 500 || running.is_over()) && !running.is_over());
    running.kill();
    let ran = copy(&scratch, false, &["--direct", "on"], "to").expect(0);
    assert_files_same(&scratch.path("from"), &to);
    assert_no_litter(&to);
    assert!(ran.number("bytes_resumed") > 0, "{}", ran.finished());
}

/// Another size of chunks, because somebody says so or because trials found it better meanwhile, throws nothing away.
#[test]
fn a_copy_in_other_chunks_resumes_what_is_durable() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    large(&scratch.path("from").join("x"), 96 * MIB + 333);
    let to = scratch.path("to");
    let from = format!("{}/", scratch.path("from").display());
    let cp = |more: &[&str]| {
        let words = ["cp", "--json", "--quiet"].iter().chain(more).map(|word| (*word).to_owned());
        Running::start(with(scratch.thalweg(), words.chain([from.clone(), to.display().to_string()])))
    };
    // Smaller ones after some ten of the usual ones, each of which takes 32 bytes and more; then much larger ones.
    let mut goal = 500;
    for chunk in ["4MiB", "1MiB", "16MiB"] {
        let mut running = cp(&["--chunk", chunk, "--bwlimit", "40MB/s"]);
        assert!(wait_until(PATIENCE, || journal_bytes(&to) > goal || running.is_over()));
        assert!(!running.is_over(), "{chunk}");
        running.kill();
        goal = journal_bytes(&to);
    }
    let ran = cp(&["--chunk", "4MiB"]).end(PATIENCE).expect(0);
    assert_files_same(&scratch.path("from"), &to);
    assert_no_litter(&to);
    assert!(ran.number("bytes_resumed") >= 16 * MIB as u64, "{}", ran.finished());
}

/// On a memory stick: what is durable there is not sent again, though nothing can be taken out of a file.
#[test]
fn a_copy_resumes_where_no_hole_can_be_punched() {
    if !can_mount("no holes") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let Some(volume) = Volume::exfat(scratch.root(), "no-holes", 160) else { return };
    let to = volume.path.join("to");
    let from = format!("{}/", scratch.path("from").display());
    let cp = |more: &[&str]| {
        let words =
            ["cp", "--json", "--quiet", "--chunk", "1MiB"].iter().chain(more).map(|word| (*word).to_owned());
        Running::start(with(scratch.thalweg(), words.chain([from.clone(), to.display().to_string()])))
    };
    for has_hole in [false, true] {
        let path = scratch.path("from").join("x");
        large(&path, 48 * MIB + 333);
        if has_hole {
            // From 40 MiB to 46 MiB.
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(40 * MIB as u64).unwrap();
            file.set_len(48 * MIB as u64).unwrap();
            file.write_all_at(&noise(3, 2 * MIB), 46 * MIB as u64).unwrap();
        }
        let mut running = cp(&["--bwlimit", "2MB/s"]);
        assert!(wait_until(PATIENCE, || journal_bytes(&to) > 300 || running.is_over()) && !running.is_over());
        running.kill();
        if has_hole {
            // As if another version of the file had come so far.
            let partial = partial(&to);
            let file = std::fs::File::options().write(true).open(partial).unwrap();
            file.write_all_at(&noise(4, MIB), 42 * MIB as u64).unwrap();
        }
        let ran = cp(&[]).end(PATIENCE).expect(0);
        assert_files_same(&scratch.path("from"), &to);
        assert!(ran.number("bytes_resumed") > 0, "{}", ran.finished());
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// What of a file of a copy to this directory that was killed is there.
fn partial(to: &Path) -> std::path::PathBuf {
    let jobs = std::fs::read_dir(to.join(".thalweg-staging")).unwrap();
    let files = jobs.flatten().flat_map(|job| std::fs::read_dir(job.path()).into_iter().flatten().flatten());
    let mut partials = files.filter(|file| file.file_name().to_string_lossy().starts_with("partial-"));
    partials.next().expect("a partial file").path()
}

#[test]
fn holes_stay_holes_past_the_page_cache() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let file = std::fs::File::create(scratch.path("from").join("x")).unwrap();
    file.set_len(64 * MIB as u64).unwrap();
    file.write_all_at(&noise(1, 2 * MIB), 30 * MIB as u64 + 5).unwrap();
    file.sync_all().unwrap();
    copy(&scratch, false, &["--direct", "on"], "to").expect(0);
    assert_files_same(&scratch.path("from"), &scratch.path("to"));
    assert!(support::job::bytes_allocated(&scratch.path("to")) < 8 * MIB as u64);
}

#[test]
fn large_files_past_the_page_cache_leave_nothing_in_it_at_either_side() {
    let row = "page cache";
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let volume = can_mount(row).then(|| Volume::new(scratch.root(), "ext4", "ext4", 160)).flatten();
    let Some(volume) = volume else { return skipped(row, "needs ext4") };
    let bytes = 24 * MIB + 4096 * 3;
    let from = volume.path.join("from");
    std::fs::create_dir(&from).unwrap();
    large(&from.join("x"), bytes);
    let copied = |options: &[&str], to: &str| {
        forget_cached(&from.join("x"));
        let command = with(with(scratch.thalweg(), ["cp", "--json"]), options);
        let command = with(command, [from.join("x"), volume.path.join(to)]);
        Running::start(command).end(PATIENCE).expect(0);
        Some((cached_bytes(&from.join("x"))?, cached_bytes(&volume.path.join(to))?))
    };
    let Some((read, written)) = copied(&["--direct", "source=on"], "direct") else {
        return skipped(row, "needs fincore");
    };
    assert_eq!((read, written), (0, 0));
    // By itself, too, where the kernel says what is cached. Smaller requests go through it; what can be seen is seen.
    let held = thalweg_sys::Dir::open(&from).unwrap();
    let is_told = held.open_read(b"x").unwrap().cached_bytes(0, 1).is_ok();
    let left = if is_told { 0 } else { bytes as u64 };
    assert_eq!(copied(&[], "by itself"), Some((left, 0)));
    assert_eq!(copied(&["--request", "512KiB"], "by small requests"), Some((bytes as u64, 0)));
    let (_, written) = copied(&["--direct", "off"], "off").unwrap();
    assert!(written >= bytes as u64 / 2, "{written}");
    assert!(std::fs::read(volume.path.join("direct")).unwrap() == std::fs::read(from.join("x")).unwrap());
}

/// What somebody has in the page cache is memory: it is read from there, also beside what is not, and stays.
#[test]
fn what_is_in_the_page_cache_is_read_from_there_and_stays() {
    let row = "a source in the page cache";
    let scratch = Scratch::new();
    let volume = can_mount(row).then(|| Volume::new(scratch.root(), "ext4", "ext4", 200)).flatten();
    let Some(volume) = volume else { return skipped(row, "needs ext4") };
    let bytes = 40 * MIB + 777;
    let from = volume.path.join("x");
    large(&from, bytes);
    for (to, warm) in [("all", 0..bytes), ("in part", 5 * MIB..21 * MIB), ("nothing", 0..0)] {
        forget_cached(&from);
        let file = std::fs::File::open(&from).unwrap();
        let mut piece = vec![0; MIB];
        for start in warm.clone().step_by(MIB) {
            let end = warm.end.min(start + MIB);
            file.read_exact_at(&mut piece[..end - start], start as u64).unwrap();
        }
        let Some(before) = cached_bytes(&from) else { return skipped(row, "needs fincore") };
        assert!(before >= warm.len() as u64, "{to}: {before}");
        let to = volume.path.join(to);
        let command = with(with(scratch.thalweg(), ["cp", "--json", "--quiet"]), [&from, &to]);
        Running::start(command).end(PATIENCE).expect(0);
        // The kernel may take a few pages of its own accord where memory is short.
        let after = cached_bytes(&from).unwrap();
        assert!(after >= warm.len() as u64 / 4 * 3, "{to:?}: {before} before, {after} after");
        assert!(std::fs::read(&to).unwrap() == std::fs::read(&from).unwrap(), "{to:?}");
        std::fs::remove_file(to).unwrap();
    }
}

/// Where direct I/O does not pay, or holes are to be made: a large file is written through the page cache and does not
/// stay there. The kernel drops it where it can (`RWF_DONTCACHE`), and is told to where it cannot.
#[test]
fn what_goes_through_the_page_cache_leaves_it_again() {
    const BYTES: usize = 64 * MIB;
    let row = "uncached writes";
    if !can_mount(row) {
        return;
    }
    for (kind, is_sparse) in [("btrfs", false), ("ext4", true), ("xfs", true)] {
        let scratch = Scratch::new();
        let from = scratch.path("x");
        large(&from, BYTES);
        if is_sparse {
            let file = std::fs::File::options().write(true).open(&from).unwrap();
            file.set_len(2 * BYTES as u64).unwrap();
        }
        let Some(volume) = Volume::new(scratch.root(), kind, kind, 400) else { continue };
        let probe =
            thalweg_sys::Dir::open(&volume.path).and_then(|dir| dir.create_new(b"probe", 0o600)).unwrap();
        let is_dropped = match probe.write_uncached_at(b"probe", 0) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{kind}: {error}");
                say(&format!("{row}: this kernel has none on {kind}: it is told what to drop"));
                false
            }
        };
        let (log, is_seen) = (scratch.path("calls"), Strace::available(row));
        let copied = |options: &[&str], to: &str| {
            let command = with(with(scratch.thalweg(), ["cp", "--json", "--quiet"]), options);
            let command = with(command, [&from, &volume.path.join(to)]);
            let command = if is_seen { Strace::log("pwritev2", &log).around(&command) } else { command };
            Running::start(command).end(PATIENCE).expect(0);
            // What is dirty cannot be dropped: on disk first.
            let file = std::fs::File::open(volume.path.join(to)).unwrap();
            file.sync_all().unwrap();
            let calls = std::fs::read_to_string(&log).unwrap_or_default();
            let is_uncached = |call: &&str| call.contains("RWF_DONTCACHE") || call.contains(", 0x80");
            (cached_bytes(&volume.path.join(to)), calls.lines().filter(is_uncached).count(), calls)
        };
        let (cached, uncached, calls) = copied(&[], "to");
        let Some(cached) = cached else { return skipped(row, "needs fincore") };
        if is_dropped {
            assert!(!is_seen || uncached >= BYTES / MIB, "{kind}: {uncached} uncached writes\n{calls}");
            assert!(!calls.contains("EOPNOTSUPP"), "{kind}: {calls}");
            assert!(cached <= BYTES as u64 / 16, "{kind}: {cached} bytes stayed");
        } else {
            // Told each 16 MiB, of what it began to write 16 MiB before.
            assert!(cached <= BYTES as u64 * 3 / 4, "{kind}: {cached} bytes stayed");
        }
        // And what can be seen is seen.
        let (cached, uncached, _) = copied(&["--direct", "off"], "off");
        assert!(cached.unwrap() >= BYTES as u64 / 2 && uncached == 0, "{kind}: {cached:?}, {uncached}");
        assert!(std::fs::read(volume.path.join("to")).unwrap() == std::fs::read(&from).unwrap(), "{kind}");
        assert!(std::fs::read(volume.path.join("off")).unwrap() == std::fs::read(&from).unwrap(), "{kind}");
    }
}

#[test]
fn the_plan_says_how_disks_are_used_and_why() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from").join("x"), b"x").unwrap();
    let plan = |options: &[&str]| {
        let options = [&["--dry-run"], options].concat();
        copy(&scratch, false, &options, "to").expect(0).finished()["plan"].clone()
    };
    let asked = plan(&["--no-io-uring", "--io-depth", "7", "--direct", "source=off", "--order", "serial"]);
    assert_eq!(asked["engine"], serde_json::json!({"value": "threads", "why": "as asked"}));
    assert_eq!(asked["io_depth"]["value"], 7);
    assert_eq!(asked["direct"]["source"]["value"], "off");
    assert_eq!(asked["direct"]["destination"]["value"], "auto");
    assert_eq!(asked["order"]["destination"]["value"], "serial");
    let automatic = plan(&[]);
    assert_eq!(automatic["direct"]["source"]["value"], "auto");
    let why = automatic["direct"]["source"]["why"].as_str().unwrap();
    assert!(why.contains("what the page cache lacks is read past it, from 16 MiB on"), "{why}");
    let small = plan(&["--request", "512KiB"]);
    let why = small["direct"]["source"]["why"].as_str().unwrap();
    assert!(why.contains("through the page cache"), "{why}");
    assert_eq!(automatic["order"]["source"]["value"], "loose");
    assert_eq!(automatic["order"]["destination"]["value"], "none");
    let engine = automatic["engine"]["value"].as_str().unwrap();
    assert!(["io_uring", "threads"].contains(&engine) && automatic["engine"]["why"] != "");
}

#[test]
fn bad_options_of_disks_are_refused_with_what_is_good() {
    let scratch = Scratch::new();
    for (options, good) in [
        (&["--request", "3MiB"][..], "power of two from 64KiB to 64MiB"),
        (&["--request", "128MiB"], "power of two from 64KiB to 64MiB"),
        (&["--request", "8MiB", "--chunk", "1MiB"], "at most a chunk"),
        (&["--io-depth", "0"], "from 1 to 64"),
        (&["--direct", "sometimes"], "auto, on or off"),
        (&["--direct", "far=on"], "source or destination"),
        (&["--order", "sideways"], "strict, serial, loose, none or layout"),
        (&["--order", "destination=layout"], "orders of the source"),
        (&["--order", "source=none,source=loose"], "named twice"),
    ] {
        let command = with(with(scratch.thalweg(), ["cp"]), options);
        let output = support::finish(
            with(command, ["zero:1", "null:"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{options:?}: {told}");
        assert!(told.contains(good), "{options:?}: {told}");
    }
}

/// Asked for by layout, where nobody says where bytes lie: read by offset, and that is told once, with the reason.
#[test]
fn a_layout_that_cannot_be_read_is_told_and_the_usual_way_is_taken() {
    let scratch = Scratch::in_memory();
    let place = thalweg_sys::Dir::open(scratch.root()).and_then(|root| root.file_system()).unwrap();
    if place.kind != thalweg_sys::FileSystemKind::Tmpfs {
        return support::chance::skipped("a layout that cannot be read", "needs a tmpfs in /dev/shm");
    }
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a", "b"] {
        std::fs::write(scratch.path("from").join(name), support::noise(1, 9 * MIB)).unwrap();
    }
    let from = format!("{}/", scratch.path("from").display());
    let out = scratch.run(["cp", "--order", "layout", &from, &scratch.path("to").display().to_string()]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{told}");
    assert_eq!(
        told.matches("order layout: 2 of 2 files by offset instead: look up the layout failed").count(),
        1,
        "{told}"
    );
    support::assert_same(&scratch.path("from"), &scratch.path("to"));
    // A daemon that is pulled from tells it in its log.
    let daemon = scratch.daemon_with(&[("from", &scratch.path("from"))], &["--log-format", "json"]);
    let pulled = scratch.path("pulled");
    let ticket = daemon.ticket.to_str().unwrap();
    let words = ["cp", "-q", "--ticket", ticket, "--order", "layout", &daemon.place("from", "")];
    let out = scratch.run(words.into_iter().chain([pulled.to_str().unwrap()]));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let log = scratch.server_log();
    assert_eq!(log.matches("order layout: 2 of 2 files by offset instead").count(), 1, "{log}");
    support::assert_same(&scratch.path("from"), &pulled);
}

/// One of two files lies where nobody says so: that is told with the number, and nothing where all have their places.
#[test]
fn of_files_that_have_no_place_on_the_medium_it_is_told_how_many_they_are() {
    let (memory, disk) = (Scratch::in_memory(), Scratch::new());
    for scratch in [&memory, &disk] {
        let file = std::fs::File::create(scratch.path("file")).unwrap();
        std::io::Write::write_all(&mut &file, &support::noise(1, 9 * MIB)).unwrap();
        file.sync_all().unwrap();
    }
    let has_places = |scratch: &Scratch| {
        let root = thalweg_sys::Dir::open(scratch.root()).unwrap();
        let extents = thalweg_sys::extents(&root.open_read(b"file").unwrap(), 100);
        extents.is_ok_and(|extents| extents.iter().all(|extent| !extent.unplaced))
    };
    if has_places(&memory) || !has_places(&disk) {
        return skipped(
            "files without a place",
            "needs a file system that tells places, and one that does not",
        );
    }
    std::fs::rename(memory.path("file"), memory.path("other")).unwrap();
    let [on_disk, other] = [disk.path("file"), memory.path("other")].map(|path| path.display().to_string());
    let copy = |sources: &[&str], to: &str| {
        let to = memory.path(to).display().to_string();
        let out = memory.run([&["cp", "--order", "layout"], sources, &[to.as_str()]].concat());
        let told = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{told}");
        told
    };
    let told = copy(&[&on_disk, &other], "both/");
    let note = "order layout: 1 of 2 files by offset instead: look up the layout failed on `other`";
    assert_eq!(told.matches(note).count(), 1, "{told}");
    assert_eq!(std::fs::read(memory.path("both/file")).unwrap(), std::fs::read(&other).unwrap());
    assert_eq!(std::fs::read(memory.path("both/other")).unwrap(), std::fs::read(&other).unwrap());
    let told = copy(&[&on_disk], "one");
    assert!(!told.contains("by offset"), "{told}");
}

/// A mount point in the tree, and a second source: each device has a queue of its own, and all of it arrives.
#[test]
fn a_tree_on_several_devices_arrives_by_layout() {
    let row = "several devices by layout";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("mounted")).unwrap();
    let Some(volume) = Volume::new(scratch.root(), "other", "ext4", 96) else { return };
    let _bound = Volume::bound(&volume.path, &from.join("mounted"));
    for (number, place) in [&from, &from.join("mounted")].into_iter().enumerate() {
        (0..3).for_each(|at| large(&place.join(at.to_string()), 9 * MIB + number * 4096 + at));
    }
    for (streams, to) in [("1", "to1"), ("4", "to4")] {
        copy(&scratch, false, &["--order", "layout", "--streams", streams], to).expect(0);
        support::assert_same(&from, &scratch.path(to));
        assert_no_litter(&scratch.path(to));
    }
}

/// A btrfs on two devices, with a subvolume: the copy tells of it once, or a daemon that is pulled from, in its log.
#[test]
fn a_file_system_on_several_devices_is_told_where_it_is_read_by_layout() {
    let row = "a file system on several devices by layout";
    if !can_mount(row) {
        return;
    }
    if !support::chance::has("btrfs") {
        return skipped(row, "needs btrfs (package btrfs-progs)");
    }
    let scratch = Scratch::new();
    let Some((volume, mut devices)) = Volume::on_two_devices(scratch.root(), "two", 256) else { return };
    let (first, sub) = (volume.path.join("first"), volume.path.join("sub"));
    let made = std::process::Command::new("btrfs").args(["subvolume", "create"]).arg(&sub).output();
    assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
    for file in [&first, &sub.join("second")] {
        large(file, 9 * MIB);
        // Before that it has no place.
        std::fs::File::open(file).unwrap().sync_all().unwrap();
    }
    devices.sort();
    let on_both = format!("on 2 devices ({}): one queue", devices.join(", "));
    let by_layout = |words: &[&str], from: &str, to: &str| {
        let to = scratch.path(to);
        let out = scratch.run([&["cp", "--order", "layout"], words, &[from, to.to_str().unwrap()]].concat());
        let told = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{told}");
        assert!(!told.contains("by offset"), "{told}");
        told
    };
    let told = by_layout(&[], first.to_str().unwrap(), "one");
    let note = format!("order layout: one file system lies {on_both} serves them");
    assert_eq!(told.matches(&note).count(), 1, "{told}");
    assert!(std::fs::read(scratch.path("one")).unwrap() == std::fs::read(&first).unwrap());
    // A queue for each subvolume; and a daemon tells it in its log.
    let note = format!("order layout: 2 file systems or subvolumes lie {on_both} of each serves them");
    let told = by_layout(&[], &format!("{}/", volume.path.display()), "all");
    assert_eq!(told.matches(&note).count(), 1, "{told}");
    let daemon = scratch.daemon_with(&[("two", &volume.path)], &["--log-format", "json"]);
    by_layout(&["--ticket", daemon.ticket.to_str().unwrap()], &daemon.place("two", ""), "pulled");
    let log = scratch.server_log();
    assert_eq!(log.matches(&note).count(), 1, "{log}");
    // Files of two subvolumes may have one number.
    for (to, name) in ["all", "pulled"].into_iter().flat_map(|to| [(to, "first"), (to, "sub/second")]) {
        let (was, is) = (volume.path.join(name), scratch.path(to).join(name));
        assert!(std::fs::read(was).unwrap() == std::fs::read(is).unwrap(), "{to}/{name}");
    }
    daemon.terminate();
}

/// Asked for on a file system in memory, where there is nothing to go past: the copy is whole, and each side is told of
/// once.
#[test]
fn direct_io_that_cannot_be_had_is_told_for_each_side_that_asked() {
    let scratch = Scratch::in_memory();
    let place = thalweg_sys::Dir::open(scratch.root()).and_then(|root| root.file_system()).unwrap();
    if place.kind != thalweg_sys::FileSystemKind::Tmpfs {
        return skipped("direct I/O that cannot be had", "needs a tmpfs in /dev/shm");
    }
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a", "b"] {
        large(&scratch.path("from").join(name), 17 * MIB + 5);
    }
    for (asked, at_source, at_destination) in [
        (&["--direct", "on"][..], 1, 1),
        (&["--direct", "source=on"], 1, 0),
        (&["--direct", "destination=on"], 0, 1),
        (&["--direct", "off"], 0, 0),
        (&[], 0, 0),
    ] {
        let ran = copy(&scratch, false, asked, "to").expect(0);
        let count = |side: &str| ran.stdout.matches(&format!("--direct {side}=on: ")).count();
        assert_eq!(
            (count("source"), count("destination")),
            (at_source, at_destination),
            "{asked:?}: {}",
            ran.stdout
        );
        assert_files_same(&scratch.path("from"), &scratch.path("to"));
        std::fs::remove_dir_all(scratch.path("to")).unwrap();
    }
}

#[test]
fn a_simulated_disk_is_a_source_that_verifies_and_a_destination() {
    let scratch = Scratch::new();
    let array = "sim:seek=1ms,rate=500MB,devices=4,size=6MiB,seed=5";
    let target = |name: &str| scratch.path(name).display().to_string();
    let copy = |from: &str, to: &str, options: &[&str]| {
        let command = with(with(scratch.thalweg(), ["cp", "--quiet"]), options);
        Running::start(with(command, [from, to])).end(PATIENCE).expect(0)
    };
    copy(array, &target("a"), &["--order", "layout"]);
    copy(array, &target("b"), &["--order", "serial", "--request", "64KiB", "--streams", "4"]);
    let (a, b) = (std::fs::read(target("a")).unwrap(), std::fs::read(target("b")).unwrap());
    assert!(a.len() == 6 * MIB && a == b);
    // One that sorts, for threads that are late, gives the same.
    let late = format!("{array},queue=4,host=1GB");
    for order in ["strict", "serial", "loose", "none"] {
        let order = format!("source={order}");
        let small = ["--request", "64KiB", "--chunk", "64KiB", "--streams", "8", "--order", &order];
        copy(&late, &target("c"), &small);
        assert!(std::fs::read(target("c")).unwrap() == a, "{order}");
        std::fs::remove_file(target("c")).unwrap();
    }
    copy(&target("a"), "sim:scattered,stripe=1MiB", &["--order", "destination=loose"]);
    copy(&target("a"), "sim:eonstor,seek=1ms", &["--order", "destination=none", "--streams", "8"]);
}

/// Whether some call on what `is_it` says was entered while another one was under way, in a log of strace.
fn overlaps(log: &Path, is_it: impl Fn(&str) -> bool) -> bool {
    let mut under_way = std::collections::HashSet::new();
    let (mut calls, mut any) = (0, false);
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let Some((thread, call)) = line.trim_start().split_once(' ') else { continue };
        if call.trim_start().starts_with("<...") {
            under_way.remove(thread);
        } else if is_it(call) {
            calls += 1;
            any |= !under_way.is_empty();
            if call.contains("<unfinished") {
                under_way.insert(thread.to_owned());
            }
        }
    }
    assert!(calls >= 48, "{calls} calls");
    any
}

/// Each call takes 20 ms longer: without an order four streams are in it at the same time.
#[test]
fn serial_requests_of_the_real_program_never_overlap() {
    if !Strace::available("requests that overlap") {
        return;
    }
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    // More chunks than are looked for: a tracer that stands aside may write its last lines late.
    large(&scratch.path("from").join("x"), 64 << 16);
    for (side, call) in [("source", "pread64"), ("destination", "pwrite64")] {
        for (order, is_expected) in [("serial", false), ("none", true)] {
            let (log, to) = (scratch.path(&format!("{side}-{order}.log")), scratch.path("to"));
            let order = format!("{side}={order}");
            let small = ["--chunk", "64KiB", "--request", "64KiB", "--direct", "off", "--streams", "4"];
            let command = with(with(scratch.thalweg(), ["cp", "--json", "--quiet"]), small);
            let command = with(command, ["--order", &order]);
            let command = with(command, [&scratch.path("from").join("x"), &to]);
            let inject = format!("inject={call}:delay_enter=20000");
            // Else the length of a read is told only when it ends.
            let raw = format!("raw={call}");
            let traced = Strace::log(call, &log).with(["-e", &inject, "-e", &raw]).around(&command);
            let ran = Running::start(traced).end(PATIENCE).expect(0);
            let any = overlaps(&log, |line| line.contains(call) && line.contains(", 0x10000, "));
            if ran.stdout.contains("went out of turn") {
                say(&format!("{order}: the machine stood still"));
            } else {
                assert_eq!(any, is_expected, "{order}");
            }
            assert!(std::fs::read(&to).unwrap() == std::fs::read(scratch.path("from").join("x")).unwrap());
            std::fs::remove_file(&to).unwrap();
        }
    }
}
