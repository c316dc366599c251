//! Chance with a seed that is printed, and the sizes that differ between a quick run and torture.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Numbers from a seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// From `THALWEG_SEED`, else from the clock; printed either way, past the capture of the test runner.
    pub fn new(row: &str) -> Random {
        let asked = std::env::var("THALWEG_SEED").ok().and_then(|text| text.parse().ok());
        let seed = asked.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
        });
        say(&format!("{row}: THALWEG_SEED={seed}"));
        Random(seed)
    }

    /// A generator of its own, for another thread.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Whether the long forms shall run.
pub fn is_torture() -> bool {
    std::env::var_os("THALWEG_TORTURE").is_some_and(|value| value == "1")
}

/// The first number in a quick run, the second in torture.
pub fn quick_or_torture<T>(quick: T, torture: T) -> T {
    if is_torture() { torture } else { quick }
}

/// How often each is killed or cut at a random moment: as `THALWEG_STRIKES` says (`cargo xtask torture --kills`), else
/// `quick` times, or 50 in torture.
pub fn strikes(quick: u64) -> u64 {
    strikes_asked().unwrap_or_else(|| quick_or_torture(quick, 50))
}

/// The number that was asked for, if one was: then a test goes on until it has struck so often.
pub fn strikes_asked() -> Option<u64> {
    std::env::var("THALWEG_STRIKES").ok().and_then(|text| text.parse().ok())
}

/// A line on the real stderr: a skipped test must not look like one that passed.
pub fn say(line: &str) {
    // In one piece: other tests say something at the same time.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says why a test does nothing here.
pub fn skipped(row: &str, why: &str) {
    say(&format!("skipped: {row}: {why}"));
}

/// Whether something took no longer than is promised. Promises are for a machine that is not held up: one that is now
/// slower than that gets as much longer, and one that stood still some time [`HELD_UP_TIMES`] as much more, at most
/// [`STOOD_MAX`], besides [`HELD_UP`] for each; that is told. How slow it is is measured only when it was too late.
pub fn in_time(what: &str, took: Duration, promised: Duration) -> bool {
    if took <= promised {
        return true;
    }
    let factor = slowness(&std::env::temp_dir());
    let stood = Duration::from_millis(LONGEST_STOOD_MS.load(Ordering::Relaxed));
    let allowed = promised.mul_f64(factor) + HELD_UP + STOOD_MAX.min(HELD_UP_TIMES * stood);
    say(&format!(
        "{what}: {took:.1?}, promised {promised:?}; this machine is {factor:.1} x as slow as is usual, and stood \
         still for {stood:.1?}: {allowed:.1?}"
    ));
    took <= allowed
}

/// Notes from now on, for [`in_time`], how long the machine stands still, or its disk keeps everybody waiting. Once a
/// program: begun by its first scratch directory.
pub fn watch_the_machine() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        std::thread::spawn(watch_processors);
        std::thread::spawn(watch_disk);
    });
}

fn watch_processors() {
    loop {
        let begun = Instant::now();
        std::thread::sleep(LOOK);
        note_stood(begun.elapsed().saturating_sub(LOOK));
    }
}

fn watch_disk() {
    let Ok(mut file) = tempfile::tempfile() else { return };
    loop {
        std::thread::sleep(LOOK_AT_DISK);
        let begun = Instant::now();
        let _ = file.write_all(&[7; 4 << 10]).and_then(|()| file.sync_data());
        note_stood(begun.elapsed());
    }
}

fn note_stood(still: Duration) {
    LONGEST_STOOD_MS.fetch_max(still.as_millis() as u64, Ordering::Relaxed);
}

/// Longest that the machine was seen to stand still.
static LONGEST_STOOD_MS: AtomicU64 = AtomicU64::new(0);
/// How often is looked whether it does.
const LOOK: Duration = Duration::from_millis(100);
/// How often the disk is: more would slow down what is tested.
const LOOK_AT_DISK: Duration = Duration::from_secs(1);

/// How many times as long as usual this machine takes now to start a program, or to make a little data durable in
/// `place`; from 1 to [`SLOWNESS_MAX`].
fn slowness(place: &Path) -> f64 {
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let _ = Command::new("true").stdin(Stdio::null()).status();
    }
    let programs = begun.elapsed().as_secs_f64() / PROGRAM_USUAL.as_secs_f64();
    let begun = Instant::now();
    if let Ok(mut file) = tempfile::tempfile_in(place) {
        for _ in 0..ROUNDS {
            let _ = file.write_all(&[7; 256 << 10]).and_then(|()| file.sync_data());
        }
    }
    let syncs = begun.elapsed().as_secs_f64() / SYNC_USUAL.as_secs_f64();
    (programs.max(syncs) / f64::from(ROUNDS)).clamp(1.0, SLOWNESS_MAX)
}

/// How often each is tried.
const ROUNDS: u32 = 10;
/// Starting `true`, on two cores that are busy with the rest of the test.
const PROGRAM_USUAL: Duration = Duration::from_millis(4);
/// Writing and syncing 256 KiB.
const SYNC_USUAL: Duration = Duration::from_millis(10);
/// What is due to both sides waking up, to programs that start, and to other work at the same time.
const HELD_UP: Duration = Duration::from_secs(5);
/// A virtual machine stands still, or a disk keeps everybody waiting, and is as quick as ever when it is measured. One
/// wait that was cut in two by that may begin anew, at both sides.
const HELD_UP_TIMES: u32 = 3;
/// However long it stood still: more would hide what hangs.
const STOOD_MAX: Duration = Duration::from_secs(25);
/// Slower than that, a machine says nothing.
const SLOWNESS_MAX: f64 = 20.0;

/// Whether we are root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether a program is there to be run.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/sbin".into(), "/usr/sbin".into()])
        .any(|directory| directory.join(program).is_file())
}
