//! Files, names and clocks that change under a copy's hands. Rows F-5, X-1, X-2, S-1 and K-1 of
//! docs/faults.md.

mod support;

#[path = "support/mapping.rs"]
mod mapping;

use mapping::{Mapping, stamps};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::chance::{Random, is_root, quick_or_torture, say};
use support::job::{Ran, Running, journal_bytes, with};
use support::volume::{Volume, can_mount};
use support::{Daemon, NOBODY, Scratch, assert_no_litter, facts, noise};

const LIMIT: Duration = Duration::from_secs(120);

fn copy(scratch: &Scratch, daemon: Option<&Daemon>, flags: &[&str]) -> Command {
    let job = with(scratch.thalweg(), flags);
    match daemon {
        Some(daemon) => with(with(job, ["--ticket"]), [&daemon.ticket]),
        None => job,
    }
}

/// Runs `work` on a thread of its own, again and again, while it lives.
struct Meanwhile {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Meanwhile {
    fn start(mut work: impl FnMut(u64) + Send + 'static) -> Meanwhile {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                work(counted.fetch_add(1, Ordering::Relaxed));
            }
        });
        Meanwhile { stop, rounds, thread: Some(thread) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.rounds.load(Ordering::Relaxed)
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Bytes of a file in the state `version`: every 4 KiB begin with the number, so a mixture shows.
const BLOCK: usize = 4096;
/// Versions of one round begin at a multiple of this.
const ROUND: u64 = 1_000_000;

fn content(version: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0; blocks * BLOCK];
    for block in bytes.chunks_mut(BLOCK) {
        block.fill(version as u8);
        block[..8].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// Versions of the blocks, runs of the same together; `None` for a block that is a mixture or cut.
fn versions(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut versions: Vec<u64> = Vec::new();
    for block in bytes.chunks(BLOCK) {
        let version = u64::from_le_bytes(*block.first_chunk::<8>()?);
        if block != content(version, 1) {
            return None;
        }
        if versions.last() != Some(&version) {
            versions.push(version);
        }
    }
    Some(versions)
}

/// Whether these bytes are of one moment. A file that is written in place from the first block to the last shows, at a
/// moment, the new state up to some block and the old one from there on; never the other way round.
///
/// Such a file may be delivered with exit 0, and that is no fault: between two of the writer's calls it is exactly what
/// the source holds. It takes a writer that rests there for longer than the grain of time stamps, which happens when
/// the machine is busy; every call after that changes the ctime and is noticed. Whole and half-written states are
/// counted apart below.
fn is_one_moment(bytes: &[u8]) -> bool {
    match versions(bytes).as_deref() {
        Some([] | [_]) => true,
        // The first state of a round follows the last of the round before, whatever its number.
        Some(&[new, old]) => new == old + 1 || (new % ROUND == 1 && old < new),
        _ => false,
    }
}

/// A way in which somebody works on a file while it is copied.
#[derive(Debug, Clone, Copy)]
enum Writer {
    Grows,
    Shrinks,
    Replaced,
    Rewritten,
    TouchedBack,
}

impl Writer {
    /// From one whole state to the next. Between two states the file is torn, and whoever reads it then must notice.
    fn step(self, path: &Path, version: u64, blocks: usize) {
        let now = content(version, blocks);
        match self {
            Writer::Replaced => {
                let beside = path.with_extension("new");
                std::fs::write(&beside, &now).unwrap();
                std::fs::rename(&beside, path).unwrap();
            }
            Writer::Grows => {
                let blocks = 1 + (version as usize % blocks);
                std::fs::write(path, content(version, blocks)).unwrap();
            }
            Writer::Shrinks => {
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&now, 0).unwrap();
                file.set_len(((version as usize % blocks) * BLOCK) as u64).unwrap();
            }
            Writer::Rewritten | Writer::TouchedBack => {
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                let time = file.metadata().unwrap().modified().unwrap();
                for (at, block) in now.chunks(BLOCK).enumerate() {
                    file.write_all_at(block, (at * BLOCK) as u64).unwrap();
                }
                if matches!(self, Writer::TouchedBack) {
                    file.set_modified(time).unwrap();
                }
            }
        }
    }
}

const WRITERS: [Writer; 5] =
    [Writer::Grows, Writer::Shrinks, Writer::Replaced, Writer::Rewritten, Writer::TouchedBack];

/// A writer changes three files of different sizes while they are copied: what is delivered with exit 0 is of one
/// moment; what is not says so.
fn f5(by_daemon: bool) {
    let row = if by_daemon { "F-5 by daemon" } else { "F-5 local" };
    let mut random = Random::new(row);
    let (mut changed, mut well, mut steps, mut between) = (0, 0, 0, 0);
    for writer in WRITERS {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("from")).unwrap();
        let sizes = [1, 40, 1500];
        let files: Vec<(PathBuf, usize)> =
            sizes.iter().map(|&blocks| (scratch.path(&format!("from/f{blocks}")), blocks)).collect();
        files.iter().for_each(|(path, blocks)| std::fs::write(path, content(0, *blocks)).unwrap());
        let daemon = by_daemon.then(|| {
            std::fs::create_dir(scratch.path("export")).unwrap();
            scratch.daemon(&[("data", &scratch.path("export"))])
        });
        for round in 0..quick_or_torture(8u64, 200) {
            let pause = Duration::from_micros(random.below(40_000));
            let changing = files.clone();
            let mut version = round * ROUND;
            let meanwhile = Meanwhile::start(move |_| {
                version += 1;
                changing.iter().for_each(|(path, blocks)| writer.step(path, version, *blocks));
                std::thread::sleep(pause);
            });
            let job =
                copy(&scratch, daemon.as_ref(), &["cp", "--quiet", "--chunk", "64KiB", "--streams", "2"]);
            let to = match &daemon {
                Some(daemon) => daemon.place("data", ""),
                None => scratch.path("to/").display().to_string(),
            };
            let job = with(with(job, [scratch.path("from/")]), [to]);
            let ran = Running::start(job).end(LIMIT);
            steps += meanwhile.end();
            assert!(matches!(ran.code, Some(0 | 2 | 5)), "{writer:?}: {:?}\n{}", ran.code, ran.stderr);
            let there = if by_daemon { scratch.path("export") } else { scratch.path("to") };
            for (path, _) in &files {
                let copy = there.join(path.file_name().unwrap());
                // Old content may stand there; torn content never, whatever the exit code.
                let Ok(bytes) = std::fs::read(&copy) else {
                    assert_ne!(ran.code, Some(0), "{writer:?}: {} is missing", copy.display());
                    continue;
                };
                between += u32::from(versions(&bytes).is_some_and(|versions| versions.len() > 1));
                assert!(
                    is_one_moment(&bytes),
                    "{writer:?}: torn, exit {:?}, {} bytes of {:?}\n{}",
                    ran.code,
                    bytes.len(),
                    versions(&bytes),
                    ran.stderr
                );
            }
            if ran.code == Some(0) { well += 1 } else { changed += 1 }
        }
        // When nobody writes any more, the next run gets everything.
        let job = copy(&scratch, daemon.as_ref(), &["cp", "--quiet"]);
        let to = match &daemon {
            Some(daemon) => daemon.place("data", ""),
            None => scratch.path("to/").display().to_string(),
        };
        Running::start(with(with(job, [scratch.path("from/")]), [to])).end(LIMIT).expect(0);
        let there = if by_daemon { scratch.path("export") } else { scratch.path("to") };
        for (path, _) in &files {
            assert_eq!(
                std::fs::read(path).unwrap(),
                std::fs::read(there.join(path.file_name().unwrap())).unwrap()
            );
        }
        assert_no_litter(&there);
    }
    assert!(steps > 0 && changed > 0, "{row}: {steps} changes, {changed} told: nothing raced");
    say(&format!(
        "{row}: {steps} changes, {well} copies whole, {changed} told as changed, {between} files between two states"
    ));
}

#[test]
fn f5_a_torn_file_is_never_delivered_locally() {
    f5(false);
}

#[test]
fn f5_a_torn_file_is_never_delivered_by_a_daemon() {
    f5(true);
}

/// F-5 by proof: a writer that rests in the middle of its work shows a moment of it, and only that moment is delivered;
/// as soon as it goes on while the file is read, the copy notices.
#[test]
fn f5_a_writer_that_rests_shows_a_moment_and_one_that_goes_on_is_noticed() {
    const BLOCKS: usize = 1500;
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let path = scratch.path("from/file");
    std::fs::write(&path, content(0, BLOCKS)).unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let write = |from: usize, to: usize, version: u64| {
        for block in from..to {
            file.write_all_at(&content(version, 1), (block * BLOCK) as u64).unwrap();
        }
        file.set_modified(time).unwrap();
    };
    let job = |flags: &[&str]| {
        let job = with(copy(&scratch, None, &["cp", "--quiet", "--chunk", "64KiB"]), flags);
        Running::start(with(job, [scratch.path("from/"), scratch.path("to/")]))
    };
    // It rests: half of the new state is what the source holds at this moment.
    write(0, BLOCKS / 2, 1);
    job(&[]).end(LIMIT).expect(0);
    let there = std::fs::read(scratch.path("to/file")).unwrap();
    assert_eq!(versions(&there), Some(vec![1, 0]));
    assert_eq!(there, std::fs::read(&path).unwrap());
    // It goes on behind the reader's back, a block each millisecond, its time set back each time.
    std::fs::remove_file(scratch.path("to/file")).unwrap();
    let mut running = job(&["--bwlimit", "4MiB"]);
    let mut block = BLOCKS;
    while !running.is_over() && block > 0 {
        block -= 1;
        write(block, block + 1, 2);
        std::thread::sleep(Duration::from_millis(1));
    }
    let ran = running.end(LIMIT);
    if let Ok(there) = std::fs::read(scratch.path("to/file")) {
        assert_eq!(there, std::fs::read(&path).unwrap(), "exit {:?}", ran.code);
    } else {
        assert!(matches!(ran.code, Some(2 | 5)), "{:?} {}", ran.code, ran.stderr);
    }
}

/// F-5 where times are whole seconds, as on ext3: all that is written within one second has the same times.
#[test]
fn f5_what_is_written_within_a_second_of_a_copy_is_neither_torn_nor_missed() {
    const BLOCKS: usize = 6000;
    let row = "F-5 whole seconds";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let small_inodes = ["-I", "128"];
    let Some(volume) = Volume::with_options(scratch.root(), "seconds.img", "ext4", 128, &small_inodes, "")
    else {
        return;
    };
    let (from, to) = (volume.path.join("file"), scratch.path("copy"));
    std::fs::write(&from, content(1, BLOCKS)).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&from).unwrap();
    let job = |flags: &[&str]| {
        let job = with(copy(&scratch, None, &["cp", "--quiet"]), flags);
        Running::start(with(job, [&from, &to]))
    };
    // As soon as a second begins, so that much is done within it.
    let second = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = second();
    while second() == before {
        std::thread::sleep(Duration::from_millis(1));
    }
    file.write_all_at(&content(2, BLOCKS), 0).unwrap();
    let running = job(&["--bwlimit", "60MB/s"]);
    std::thread::sleep(Duration::from_millis(250));
    file.write_all_at(&content(3, BLOCKS), 0).unwrap();
    let ran = running.end(LIMIT);
    assert!(matches!(ran.code, Some(0 | 2 | 5)), "{:?}\n{}", ran.code, ran.stderr);
    if let Ok(there) = std::fs::read(&to) {
        assert!(is_one_moment(&there), "torn, exit {:?}: {:?}", ran.code, versions(&there));
    }
    // As many bytes as before, as soon as a copy has ended.
    for version in 4..8 {
        file.write_all_at(&content(version, BLOCKS), 0).unwrap();
        job(&[]).end(LIMIT).expect(0);
        assert_eq!(versions(&std::fs::read(&to).unwrap()), Some(vec![version]));
    }
}

/// Whether a store through a mapping can show on the file system of `scratch`; tells why not.
fn stores_show(row: &str, scratch: &Scratch) -> bool {
    let kind = thalweg_sys::Dir::open(scratch.root()).and_then(|dir| dir.file_system()).unwrap().kind;
    let shows = kind != thalweg_sys::FileSystemKind::Tmpfs;
    if !shows {
        say(&format!("skipped: {row}: on tmpfs stores through a mapping leave no trace"));
    }
    shows
}

/// A writer stamps a file through a mapping, again and again: what is delivered is of one moment, and what is not says
/// so.
fn f5_mapped(by_daemon: bool) {
    const BLOCKS: usize = 1500;
    let scratch = Scratch::new();
    if !stores_show("F-5 mapped", &scratch) {
        return;
    }
    std::fs::create_dir(scratch.path("from")).unwrap();
    let mut mapping = Mapping::new(&scratch.path("from/file"), BLOCKS);
    mapping.stamp(1);
    let daemon = by_daemon.then(|| {
        std::fs::create_dir(scratch.path("export")).unwrap();
        scratch.daemon(&[("data", &scratch.path("export"))])
    });
    let there = if by_daemon { scratch.path("export/file") } else { scratch.path("to/file") };
    let start = |more: &[&str]| {
        let job = copy(&scratch, daemon.as_ref(), &["cp", "--quiet", "--chunk", "64KiB"]);
        let to = match &daemon {
            Some(daemon) => daemon.place("data", ""),
            None => scratch.path("to/").display().to_string(),
        };
        Running::start(with(with(with(job, more), [scratch.path("from/")]), [to]))
    };
    let mut number = 1;
    let meanwhile = Meanwhile::start(move |_| {
        number += 1;
        mapping.stamp(number);
        std::thread::sleep(Duration::from_millis(1));
    });
    // Slow enough for very many numbers while it is read.
    let ran = start(&["--bwlimit", "16MiB"]).end(LIMIT);
    assert!(meanwhile.end() > 1, "it was written while it was copied");
    assert!(matches!(ran.code, Some(0 | 2 | 5)), "{:?}\n{}", ran.code, ran.stderr);
    if let Ok(bytes) = std::fs::read(&there) {
        let stamps = stamps(&bytes);
        let is_one_moment = matches!(stamps[..], [_]) || matches!(stamps[..], [new, old] if new == old + 1);
        assert!(is_one_moment, "torn, exit {:?}: {stamps:?}\n{}", ran.code, ran.stderr);
    }
    // When nobody writes any more, the next run gets it.
    start(&[]).end(LIMIT).expect(0);
    assert!(std::fs::read(scratch.path("from/file")).unwrap() == std::fs::read(&there).unwrap());
}

#[test]
fn f5_a_file_that_is_written_through_a_mapping_is_never_delivered_torn_locally() {
    f5_mapped(false);
}

#[test]
fn f5_a_file_that_is_written_through_a_mapping_is_never_delivered_torn_by_a_daemon() {
    f5_mapped(true);
}

#[test]
fn f5_what_is_stored_through_a_mapping_after_a_copy_is_in_the_next_one() {
    let scratch = Scratch::new();
    if !stores_show("F-5 mapped", &scratch) {
        return;
    }
    let (from, to) = (scratch.path("file"), scratch.path("copy"));
    let start = || Running::start(with(copy(&scratch, None, &["cp", "--quiet"]), [&from, &to]));
    let mut mapping = Mapping::new(&from, 16);
    mapping.stamp(1);
    start().end(LIMIT).expect(0);
    assert_eq!(stamps(&std::fs::read(&to).unwrap()), [1]);
    // The pages were stored to before, and nobody wrote them back but the copy.
    mapping.stamp(2);
    drop(mapping);
    start().end(LIMIT).expect(0);
    assert_eq!(stamps(&std::fs::read(&to).unwrap()), [2]);
}

/// somebody removes, moves or closes the destination while a copy writes there. The copy may fail and says so;
/// what stands under a final name is whole, nothing is written elsewhere, and the next run makes everything good.
#[test]
fn x2_a_destination_that_is_moved_removed_or_closed_under_a_copy() {
    let mut random = Random::new("X-2");
    let (mut struck, mut told) = (0, 0);
    for round in 0..quick_or_torture(6u32, 120) {
        let scratch = Scratch::new();
        let from = scratch.path("from");
        std::fs::create_dir_all(from.join("below")).unwrap();
        for i in 0..6u64 {
            std::fs::write(from.join(format!("below/large-{i}")), noise(i, 2 << 20)).unwrap();
            std::fs::write(from.join(format!("small-{i}")), noise(i, 9000)).unwrap();
        }
        if is_root() {
            give_to_nobody(scratch.root());
        }
        // No mode closes anything to root: whoever copies is nobody then, and owns what is there.
        let by = scratch.as_nobody("X-2 closed");
        if by.is_none() && round % 3 == 2 {
            continue;
        }
        let to = scratch.path("to");
        let start = |more: &[&str]| {
            let job = with(copy(&scratch, None, &["cp", "--quiet", "--chunk", "64KiB"]), more);
            let mut job = with(job, [scratch.path("from/"), scratch.path("to/")]);
            job.current_dir(scratch.root());
            Running::start(match &by {
                Some(by) => by(job),
                None => job,
            })
        };
        let mut job = start(&["--bwlimit", "12MiB"]);
        assert!(support::wait_until(LIMIT, || to.exists() || job.is_over()));
        std::thread::sleep(Duration::from_millis(random.below(700)));
        struck += u32::from(!job.is_over());
        let run = |program: &str, args: &[&str]| {
            let _ = Command::new(program).args(args).current_dir(scratch.root()).output().unwrap();
        };
        match round % 3 {
            0 => run("rm", &["-rf", "to"]),
            1 => run("mv", &["to", "elsewhere"]),
            _ => run("chmod", &["-R", "0", "to"]),
        }
        let ran = job.end(LIMIT);
        told += u32::from(ran.code != Some(0));
        assert!(matches!(ran.code, Some(0 | 2 | 3 | 6)), "round {round}: {:?} {}", ran.code, ran.stderr);
        assert!(ran.code == Some(0) || ran.stderr.contains("error:"), "{}", ran.stderr);
        run("chmod", &["-R", "u+rwX", "to"]);
        for place in ["to", "elsewhere"] {
            for i in 0..6u64 {
                for (name, bytes) in [(format!("below/large-{i}"), 2 << 20), (format!("small-{i}"), 9000)] {
                    if let Ok(content) = std::fs::read(scratch.path(place).join(&name)) {
                        assert!(content == noise(i, bytes), "round {round}: {place}/{name} is not whole");
                    }
                }
            }
        }
        start(&[]).end(LIMIT).expect(0);
        assert_eq!(facts(&from), facts(&to), "round {round}");
    }
    say(&format!("X-2: {struck} copies were under way, {told} told that they failed"));
    assert!(struck > 0, "all copies were over before anything was done to their destinations");
}

/// This, and all that is in it.
fn give_to_nobody(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give_to_nobody(&entry.unwrap().path()));
    }
}

/// a second copy of the same job. (A second daemon on the same state directory: `service/state.rs`.)
#[test]
fn x2_the_same_job_twice_at_once_is_refused_once() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), noise(1, 12 << 20)).unwrap();
    let start = |more: &[&str]| {
        let job = with(copy(&scratch, None, &["cp", "--quiet", "--chunk", "64KiB"]), more);
        Running::start(with(job, [scratch.path("from/"), scratch.path("to/")]))
    };
    let first = start(&["--bwlimit", "1MiB"]);
    // It has the job, with its journal, when something is durable.
    assert!(support::wait_until(LIMIT, || journal_bytes(&scratch.path("to")) > 0));
    let second = start(&[]).end(LIMIT);
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    assert!(second.stderr.contains("another transfer of this job"), "{}", second.stderr);
    first.end(LIMIT).expect(0);
    assert_eq!(facts(&scratch.path("from")), facts(&scratch.path("to")));
}

/// K-1: the wall clock jumps by hours and years, there and back, while a copy runs: no wait ends early or late, no time
/// of a file is wrong.
#[test]
fn k1_a_wall_clock_that_jumps_ends_nothing() {
    for is_push in [true, false] {
        let scratch = Scratch::in_memory();
        let Some(clock) = WallClock::new("K-1", &scratch) else { return };
        std::fs::create_dir(scratch.path("from")).unwrap();
        std::fs::create_dir(scratch.path("to")).unwrap();
        std::fs::write(scratch.path("from/file"), noise(1, 20 << 20)).unwrap();
        let jumping = |command: Command| clock.given_to(command);
        let export = scratch.path(if is_push { "to" } else { "from" });
        let daemon =
            scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &["--stall-timeout", "5s"], jumping);
        let job = jumping(copy(&scratch, Some(&daemon), &["cp", "--quiet", "--bwlimit", "4MiB"]));
        let job = with(job, ["--stall-timeout", "5s", "--patience", "20s"]);
        let mut job = Running::start(match is_push {
            true => with(with(job, [scratch.path("from/")]), [daemon.place("data", "")]),
            false => with(with(job, [daemon.place("data", "")]), [scratch.path("to/")]),
        });
        for offset in JUMPS {
            std::thread::sleep(Duration::from_millis(300));
            clock.set(offset);
        }
        assert!(!job.is_over(), "it was over before the clock had jumped");
        let ran = job.end(LIMIT);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, scratch.server_log());
        clock.set("+0");
        assert_eq!(facts(&scratch.path("from")), facts(&scratch.path("to")));
    }
}

/// Windows of a slot go by clocks that only go on.
#[test]
fn k1_a_slot_outlives_a_wall_clock_that_jumps_at_either_side() {
    let scratch = Scratch::in_memory();
    let Some(clock) = WallClock::new("K-1", &scratch) else { return };
    std::fs::create_dir(scratch.path("to")).unwrap();
    let jumping = |command: Command| clock.given_to(command);
    let export = scratch.path("to");
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &["--slots", "20Mbit/s"], jumping);
    let job = copy(&scratch, Some(&daemon), &["stream", "--json", "--slot", "500ms:100kB:5s"]);
    let mut job = with(job, ["-".to_owned(), daemon.place("data", "x")]);
    job.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = jumping(job).spawn().unwrap();
    let mut pipe = job.stdin.take().unwrap();
    let content = noise(1, 800_000);
    for (burst, offset) in content.chunks(100_000).zip(JUMPS.into_iter().chain(["+0"])) {
        pipe.write_all(burst).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        clock.set(offset);
    }
    drop(pipe);
    let output = support::finish(job);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let events = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let taken = events.filter(|event| event["event"] == "slot").count();
    assert_eq!(taken, 1, "its slot is the one that it took: {said}");
    assert!(std::fs::read(export.join("x")).unwrap() == content);
}

/// A wall clock that jumps, for programs that are told to go by it.
struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

/// By hours and years, there and back.
const JUMPS: [&str; 7] = ["+3600", "-3600", "+315360000", "-315360000", "+0", "-1700000000", "+1d"];

impl WallClock {
    /// At first that of the machine. `None`, with the reason told, where there is none that jumps.
    fn new(row: &str, scratch: &Scratch) -> Option<WallClock> {
        let Some(library) = faketime() else {
            support::chance::skipped(row, "no libfaketime");
            return None;
        };
        let clock = WallClock { library, offset: scratch.path("clock") };
        clock.set("+0");
        Some(clock)
    }

    fn set(&self, offset: &str) {
        let next = self.offset.with_extension("next");
        std::fs::write(&next, offset).unwrap();
        std::fs::rename(&next, &self.offset).unwrap();
    }

    /// A program that goes by it.
    fn given_to(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.offset);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }
}

/// libfaketime, where it is installed.
fn faketime() -> Option<PathBuf> {
    let name = "faketime/libfaketimeMT.so.1";
    let triple = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    ["/usr/lib", "/usr/lib64", &triple]
        .iter()
        .map(|place| Path::new(place).join(name))
        .find(|path| path.exists())
}

#[test]
fn x1_of_two_copies_to_one_name_the_whole_of_one_remains() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let (one, two) = (noise(1, 900_000), noise(2, 700_001));
    std::fs::write(scratch.path("one"), &one).unwrap();
    std::fs::write(scratch.path("two"), &two).unwrap();
    let mut losers = 0;
    for round in 0..30 {
        let start = |name: &str| {
            let job = copy(&scratch, Some(&daemon), &["cp", "--quiet", "--chunk", "64KiB"]);
            Running::start(with(with(job, [scratch.path(name)]), [daemon.place("data", "same")]))
        };
        let jobs = [start("one"), start("two")];
        let ran: Vec<Ran> = jobs.into_iter().map(|job| job.end(LIMIT)).collect();
        let there = std::fs::read(scratch.path("export/same")).unwrap();
        assert!(there == one || there == two, "round {round}: {} bytes of neither", there.len());
        let codes: Vec<_> = ran.iter().map(|ran| ran.code).collect();
        assert!(codes.contains(&Some(0)), "round {round}: nobody won\n{}\n{}", ran[0].stderr, ran[1].stderr);
        for ran in ran.iter().filter(|ran| ran.code != Some(0)) {
            assert!(!ran.stderr.trim().is_empty(), "round {round}: a loser that says nothing");
            losers += 1;
        }
        if round % 3 == 0 {
            std::fs::remove_file(scratch.path("export/same")).unwrap();
        }
    }
    assert_no_litter(&scratch.path("export"));
    say(&format!("X-1: 30 rounds, {losers} losers said so"));
}

/// A directory that is a link to the outside every other moment. Each swap is two renames.
fn swap(real: PathBuf, aside: PathBuf, link: PathBuf, outside: &Path) -> Meanwhile {
    symlink(outside, &link).unwrap();
    Meanwhile::start(move |_| {
        // The name is never missing for long: away with the directory, the link in, and back.
        if std::fs::rename(&real, &aside).is_ok() {
            let _ = std::fs::rename(&link, &real);
            std::thread::yield_now();
            let _ = std::fs::rename(&real, &link);
            let _ = std::fs::rename(&aside, &real);
        }
    })
}

fn make_outside(scratch: &Scratch) -> PathBuf {
    let outside = scratch.path("outside");
    std::fs::create_dir_all(outside.join("sub")).unwrap();
    // Names as the source has them: what is written, changed or deleted through the link would be these.
    for at in 0..20 {
        std::fs::write(outside.join(format!("f{at}")), b"canary").unwrap();
    }
    std::fs::write(outside.join("secret"), b"the secret of the outside").unwrap();
    std::fs::write(outside.join("sub/f0"), b"canary").unwrap();
    outside
}

#[test]
fn s1_a_destination_that_becomes_a_link_leads_nobody_out() {
    // In memory, where names change as quickly as they can.
    let scratch = Scratch::in_memory();
    let outside = make_outside(&scratch);
    let before = facts(&outside);
    std::fs::create_dir_all(scratch.path("export/dir/sub")).unwrap();
    std::fs::create_dir_all(scratch.path("from/dir/sub")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let swapper =
        swap(scratch.path("export/dir"), scratch.path("export/aside"), scratch.path("export/link"), &outside);
    let wanted = quick_or_torture(20_000, 400_000);
    let until = Instant::now() + Duration::from_secs(quick_or_torture(60, 1200));
    let mut copies = 0;
    while swapper.rounds.load(Ordering::Relaxed) < wanted && Instant::now() < until {
        copies += 1;
        for at in 0..20u64 {
            let name = scratch.path(&format!("from/dir/f{at}"));
            std::fs::write(&name, noise(copies * 100 + at, 3000 + 9000 * at as usize)).unwrap();
            use std::os::unix::fs::PermissionsExt;
            let mode = if copies % 2 == 0 { 0o600 } else { 0o664 };
            std::fs::set_permissions(&name, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::write(scratch.path("from/dir/sub/f0"), noise(copies, 70_000)).unwrap();
        let flags: &[&str] = match copies % 3 {
            0 => &["sync", "--quiet", "--delete", "--chunk", "64KiB"],
            1 => &["cp", "--quiet", "--chunk", "64KiB"],
            _ => &["cp", "--quiet", "--check", "digest"],
        };
        let place = if copies % 2 == 0 { "" } else { "dir/" };
        let from = if copies % 2 == 0 { "from/" } else { "from/dir/" };
        let job = copy(&scratch, Some(&daemon), flags);
        // It may fail, and fail as a whole: it must end, and nothing outside may know of it.
        let ran =
            Running::start(with(with(job, [scratch.path(from)]), [daemon.place("data", place)])).end(LIMIT);
        assert!(ran.code.is_some(), "{}", ran.stderr);
        assert_eq!(facts(&outside), before, "after {copies} copies: {}", ran.stderr);
    }
    let swaps = swapper.end();
    // And one that nobody disturbs succeeds.
    let job = with(copy(&scratch, Some(&daemon), &["cp", "--quiet"]), [scratch.path("from/")]);
    Running::start(with(job, [daemon.place("data", "")])).end(LIMIT).expect(0);
    let content = |root: &str| std::fs::read(scratch.path(root).join("dir/f19")).unwrap();
    assert!(content("export") == content("from"));
    say(&format!("S-1 destination: {swaps} swaps, {copies} copies"));
    assert_eq!(facts(&outside), before);
    assert!(swaps >= 2000, "only {swaps} swaps: the machine is too busy for this to say anything");
}

#[test]
fn s1_a_source_that_becomes_a_link_gives_nothing_of_the_outside() {
    let scratch = Scratch::in_memory();
    let outside = make_outside(&scratch);
    std::fs::create_dir_all(scratch.path("export/dir/sub")).unwrap();
    for at in 0..20u64 {
        std::fs::write(scratch.path(&format!("export/dir/f{at}")), noise(at, 5000 + 7000 * at as usize))
            .unwrap();
    }
    std::fs::write(scratch.path("export/dir/sub/f0"), noise(99, 70_000)).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let swapper =
        swap(scratch.path("export/dir"), scratch.path("export/aside"), scratch.path("export/link"), &outside);
    let wanted = quick_or_torture(20_000, 400_000);
    let until = Instant::now() + Duration::from_secs(quick_or_torture(60, 1200));
    let mut copies = 0u64;
    while swapper.rounds.load(Ordering::Relaxed) < wanted && Instant::now() < until {
        copies += 1;
        let to = scratch.path(&format!("to-{copies}"));
        let job = copy(&scratch, Some(&daemon), &["cp", "--quiet", "--chunk", "64KiB"]);
        // Where links are followed as well: this one leads out.
        let job = if copies % 4 < 2 { job } else { with(job, ["-L"]) };
        let place = if copies.is_multiple_of(2) { "" } else { "dir/" };
        let ran = Running::start(with(with(job, [daemon.place("data", place)]), [to.clone()])).end(LIMIT);
        assert!(ran.code.is_some(), "{}", ran.stderr);
        // Neither content nor a name that only the outside has.
        if to.exists() {
            for (name, fact) in facts(&to) {
                assert!(!name.ends_with(b"secret"), "a name of the outside\n{}", ran.stderr);
                let path = to.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name));
                if fact.starts_with("file") {
                    let bytes = std::fs::read(&path).unwrap();
                    assert!(
                        bytes != b"canary" && !bytes.starts_with(b"the secret"),
                        "content of the outside"
                    );
                }
            }
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    let swaps = swapper.end();
    // And one that nobody disturbs succeeds.
    let job = with(copy(&scratch, Some(&daemon), &["cp", "--quiet"]), [daemon.place("data", "")]);
    Running::start(with(job, [scratch.path("to")])).end(LIMIT).expect(0);
    assert!(std::fs::read(scratch.path("to/dir/f19")).unwrap() == noise(19, 5000 + 7000 * 19));
    say(&format!("S-1 source: {swaps} swaps, {copies} copies"));
    assert!(swaps >= 2000, "only {swaps} swaps: the machine is too busy for this to say anything");
    let _ = std::io::stderr().flush();
}
