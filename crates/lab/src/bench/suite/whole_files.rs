//! `whole-files`: the same data in more and more files, where each file is checked whole after its transfer, beside
//! the transfer of the next (001 section 4, Fig 8). 001 Eqs 3 to 6 are of such a mover, and of none that checks chunks
//! while they come (`files`).
//!
//! 1. One file at a time goes over the path, each by a command of its own: `b_trs` is its start, its round trips and
//!    its syncs.
//! 2. When a file has its name, both copies of it are read whole and their digests compared, no faster than at the
//!    rate of a check. That stands for a slow digest or a slow disk, whatever this machine has: `a_ck` is 8 over it.
//! 3. The check of the last file stands alone: few large files leave much of it.
//!
//! 001 sends a file again that was damaged. Here that ends the suite: nothing damages any.

use super::{
    MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, count, encrypted, scaled, sets, testbed_kind, words,
};
use crate::bench::network::{Host, PathWish};
use crate::bench::record::{Quantity, Sample};
use crate::bench::workspace::{Daemon, Workspace};
use crate::bench::{Bench, Prepared, Wishes, stopped};
use crate::plot::unit::Unit;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, at_path, of_io};
use thalweg_sys::cpu_time::thread_cpu;
use thalweg_wire::digest::{Digest, PieceHasher};

pub const SUITE: Suite = Suite {
    name: "whole-files",
    asks: "which number of files is best for a mover that checks whole files? (001 Fig 9, Eqs 3 to 6)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
    run,
};

/// Parameter of a sample: bits in a second at which whole files were checked.
pub const CHECK_RATE: &str = "check_rate";

const SERIES: &str = "one at a time, whole files checked";

/// The best number is to be between the ends: below it the last check costs, above it starts do.
const COUNTS: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The smallest files, of 2 MiB, fill it eight times: slow start costs each file the same.
const RTT: Duration = Duration::from_millis(20);
const RATE_BITS_PER_S: u64 = 100_000_000;

/// How much faster a check is than the line: `a_ck < a_trs`, as Eqs 5 and 6 want it, and not so much that the last
/// check costs nothing.
const CHECK_OVER_LINE: f64 = 1.25;

/// How often a check looks whether it is to go on.
const PIECES_PER_S: f64 = 20.0;

/// What is in memory of a file at once, at most.
const BUFFER_BYTES: usize = 1 << 20;

/// As many as the set may have.
fn counts(files_max: u64) -> Vec<u64> {
    COUNTS.into_iter().filter(|files| *files <= files_max.max(1)).collect()
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, RTT, RATE_BITS_PER_S)
}

fn check_bits_per_s(path: &PathWish) -> f64 {
    // A check at no rate would never end.
    (path.payload_bits_per_s() * CHECK_OVER_LINE).max(8.0)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let (path, counts) = (path(wishes), counts(wishes.files_max()));
    let check = Unit::BitsPerS.show(check_bits_per_s(&path));
    let mut changes = sets::changes(&counts, "one at a time", SUITE.budget_bytes(wishes));
    changes.extend([
        scaled("line", "100 Gbit/s", format!("{} Gbit/s", path.rate_bits_per_s as f64 / 1e9)),
        scaled("mover", "processes that live on (001 section 4)", "a command for each file".to_owned()),
        scaled("check", "as fast as storage and processors of both sides are", {
            format!("no faster than {check}: {CHECK_OVER_LINE} times what the line carries")
        }),
    ]);
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: format!(
            "{VERIFIED}; then BLAKE3 of both copies of the whole file, beside the transfer of the next"
        ),
        changes,
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let wishes = bench.wishes;
    let (path, counts) = (path(wishes), counts(wishes.files_max()));
    let check_bits_per_s = check_bits_per_s(&path);
    sets::measure(bench, &counts, &path, |turn| {
        let copy = turn.daemon.path("copy");
        for directory in turn.spec.directories() {
            let made = copy.join(directory);
            fs::create_dir_all(&made).map_err(|error| at_path(of_io("make a directory", &error), &made))?;
        }
        turn.workspace.settle()?;
        let mover = Mover {
            workspace: turn.workspace,
            client: &turn.testbed.left,
            daemon: turn.daemon,
            check: Check {
                source: turn.source.clone(),
                copy,
                spec: turn.spec.clone(),
                bytes_per_s: check_bits_per_s / 8.0,
                stop: &wishes.stop,
            },
        };
        let sample = super::over(turn.testbed, || mover.sample(turn.series(SERIES)))?;
        let sample = sample.with("concurrency", count(1.0));
        Ok(sample.with(CHECK_RATE, Quantity::number(check_bits_per_s, "bit/s")))
    })
}

/// Moves files one by one, and has each checked while the next moves.
struct Mover<'a> {
    workspace: &'a Workspace,
    client: &'a Host,
    daemon: &'a Daemon,
    check: Check<'a>,
}

impl Mover<'_> {
    /// All files, from the start of the first command until the last file is checked.
    fn sample(&self, series: String) -> Result<Sample> {
        let (check, spec) = (&self.check, &self.check.spec);
        let began = Instant::now();
        let (moved, checked) = std::thread::scope(|scope| {
            // Room for all: who moves never waits for who checks.
            let (done, to_check) = mpsc::sync_channel(spec.files as usize);
            let checking = scope.spawn(move || check.all(to_check));
            let moved = self.transfer(&done);
            let moved_s = began.elapsed().as_secs_f64();
            drop(done);
            (moved.map(|cpu_s| (cpu_s, moved_s)), checking.join())
        });
        let lost = |_| Failure::new(FailureKind::Internal, MEASURE, "a thread panicked");
        // Where a check failed no more was moved: that it did is the cause.
        let check_cpu_s = checked.map_err(lost)??.as_secs_f64();
        let (cpu_s, moved_s) = moved?;
        let wall_s = began.elapsed().as_secs_f64();
        let sample = Sample {
            series,
            bytes: spec.bytes(),
            files: spec.files,
            wall_s,
            cpu_s: cpu_s.map(|cpu_s| cpu_s + check_cpu_s),
            ..Sample::default()
        };
        Ok(sample.measured("last_check", wall_s - moved_s, "s"))
    }

    /// One file after the other; gives the CPU of all commands. Ends where nobody checks any more.
    fn transfer(&self, done: &mpsc::SyncSender<u64>) -> Result<Option<f64>> {
        let mut cpu_s = Some(0.0);
        for number in 0..self.check.spec.files {
            let name = self.check.spec.file(number).path;
            let mut line = words(&["cp", "--no-tune", "--concurrency", "1", "--streams", "1"]);
            let from = self.check.source.join(&name).display().to_string();
            line.extend([from, self.daemon.url(&format!("copy/{name}"))]);
            let copied = self.workspace.copy(Some(self.client), Some(self.daemon), &line)?;
            cpu_s = cpu_s.zip(copied.cpu_s).map(|(before, more)| before + more);
            if done.send(number).is_err() {
                break;
            }
        }
        Ok(cpu_s)
    }
}

/// Compares both copies of whole files.
struct Check<'a> {
    source: PathBuf,
    copy: PathBuf,
    spec: DatasetSpec,
    bytes_per_s: f64,
    stop: &'a AtomicBool,
}

impl Check<'_> {
    /// Each file that comes, in turn, until no more do; gives the CPU that it took.
    fn all(&self, numbers: mpsc::Receiver<u64>) -> Result<Duration> {
        numbers.into_iter().try_for_each(|number| self.file(number))?;
        Ok(thread_cpu())
    }

    /// # Errors
    /// `Damage` if the copies differ; `Stopped`; what the file system says.
    fn file(&self, number: u64) -> Result<()> {
        const OPERATION: &str = "check a whole file";
        let failed = |path: &Path, error: &io::Error| at_path(of_io(OPERATION, error), path);
        let made = self.spec.file(number);
        let began = Instant::now();
        let mut sides = Vec::new();
        for directory in [&self.source, &self.copy] {
            let path = directory.join(&made.path);
            let file = File::open(&path).map_err(|error| failed(&path, &error))?;
            let bytes = file.metadata().map_err(|error| failed(&path, &error))?.len();
            if bytes != made.bytes {
                let cause = format!("it has {bytes} bytes, and should have {}", made.bytes);
                return Err(at_path(Failure::new(FailureKind::Damage, OPERATION, cause), &path));
            }
            sides.push((path, file, PieceHasher::new(0, bytes, bytes)));
        }
        let mut buffer = vec![0; ((self.bytes_per_s / PIECES_PER_S) as usize).clamp(1, BUFFER_BYTES)];
        let mut at = 0;
        while at < made.bytes {
            if self.stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let piece_bytes = (made.bytes - at).min(buffer.len() as u64);
            let piece = &mut buffer[..piece_bytes as usize];
            for (path, file, hasher) in &mut sides {
                file.read_exact_at(piece, at).map_err(|error| failed(path, &error))?;
                hasher.update(piece);
            }
            at += piece_bytes;
            // By what is done so far, not by the piece: what one is late by, the next is not.
            let due = Duration::from_secs_f64(at as f64 / self.bytes_per_s);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        let digests: Vec<Digest> = sides.into_iter().map(|(.., hasher)| hasher.finish()).collect();
        if digests[0] == digests[1] {
            return Ok(());
        }
        let cause = format!("its digest is {} at the source, {} here", digests[0], digests[1]);
        Err(at_path(Failure::new(FailureKind::Damage, OPERATION, cause), &self.copy.join(&made.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::sets::Set;
    use super::*;
    use crate::dataset;
    use thalweg_mover::model::files::{Bound, Costs, Work};
    use thalweg_mover::model::fit::{Condition, Measurement, fit};

    #[test]
    fn numbers_of_files_are_as_many_as_may_be_and_at_least_one() {
        assert_eq!((counts(4096).len(), counts(6), counts(0)), (10, vec![1, 2, 3, 4, 6], vec![1]));
    }

    /// What the suite makes of its line, with starts that take ten round trips: both ends take a fifth longer than the
    /// best number, and with two sizes it is known whether the condition holds.
    #[test]
    fn both_costs_show_in_the_numbers_of_files_and_the_condition_holds() {
        let path = path(&Wishes::default());
        let costs = Costs {
            transfer_s_per_byte: 8.0 / path.payload_bits_per_s(),
            transfer_start_s: 10.0 * path.rtt.as_secs_f64(),
            check_s_per_byte: 8.0 / check_bits_per_s(&path),
            once_s: 0.01,
        };
        let sets = Set::all(&counts(4096), SUITE.budget_bytes);
        let of = |set: &Set| {
            let work = Work { bytes: set.spec(0).bytes() as f64, concurrency: 1.0 };
            let files = set.files as f64;
            Measurement { files, work, time_s: costs.time_s(work, files).unwrap() }
        };
        let all: Vec<Measurement> = sets.iter().map(of).collect();
        let fitted = fit(&all).unwrap();
        assert_eq!((fitted.is_split_known, fitted.condition()), (true, Condition::Holds));
        let best = fitted.optimum(fitted.bytes.1, 32.0).unwrap();
        assert!(best.bound == Bound::Balance && (3.0..=8.0).contains(&best.files), "{best:?}");
        for end in [&all[0], &all[COUNTS.len() - 1]] {
            assert!(end.time_s > 1.2 * best.time_s, "{end:?}");
        }
        // Four rounds of all of it, the first of which does not count.
        let round_s: f64 = all.iter().map(|one| one.time_s).sum();
        assert!(4.0 * round_s < 720.0, "{round_s}");
    }

    #[test]
    fn a_check_finds_what_differs_by_a_bit_or_by_its_length_and_ends_when_asked_to() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 2, sizes: vec![(300_000, 1)], ..DatasetSpec::default() };
        let (source, copy) = (scratch.path().join("source"), scratch.path().join("copy"));
        for directory in [&source, &copy] {
            dataset::make(directory, &spec).unwrap();
        }
        let stop = AtomicBool::new(false);
        // Several pieces of each file.
        let check = Check { source, copy: copy.clone(), spec: spec.clone(), bytes_per_s: 2e6, stop: &stop };
        let checked = |numbers: &[u64]| {
            let (done, to_check) = mpsc::sync_channel(numbers.len());
            numbers.iter().for_each(|number| done.send(*number).unwrap());
            drop(done);
            check.all(to_check).map(drop).map_err(|failure| (failure.kind, failure.cause))
        };
        let began = Instant::now();
        assert_eq!(checked(&[0, 1]), Ok(()));
        assert!(began.elapsed() >= Duration::from_millis(300), "no faster than it is to be");
        let second = copy.join(spec.file(1).path);
        let mut content = fs::read(&second).unwrap();
        content[250_000] ^= 1;
        fs::write(&second, &content).unwrap();
        assert_eq!(checked(&[0]), Ok(()));
        let (kind, cause) = checked(&[0, 1]).unwrap_err();
        assert!(kind == FailureKind::Damage && cause.contains("digest"), "{cause}");
        fs::write(&second, &content[1..]).unwrap();
        let (kind, cause) = checked(&[1]).unwrap_err();
        assert!(kind == FailureKind::Damage && cause.contains("299999 bytes"), "{cause}");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(checked(&[0]).unwrap_err().0, FailureKind::Stopped);
    }
}
