//! `whole-files`: the same data in more and more files, where each file is checked whole after its transfer, beside
//! the transfer of the next (001 section 4, Fig 8). 001 Eqs 3 to 6 are of such a mover, and of none that checks chunks
//! while they come (`files`).
//!
//! 1. So many files at a time go over the path as Eq 6 has processes (`cc`), each file by a command of its own: `b_trs`
//!    is its start, its round trips and its syncs. A process has every cc-th file, one after the other.
//! 2. When a file has its name, both copies of it are read whole and their digests compared, beside the transfer of the
//!    next of its process, and no faster than at the rate of a check. That stands for a slow digest or a slow disk,
//!    whatever this machine has: `a_ck` is 8 over it. As it is more than what the line carries, `a_ck < a_trs` holds by
//!    construction; with `--free-check` it is this machine's digest, and holds or not.
//! 3. The check of the last file stands alone: few large files leave much of it.
//!
//! The four parameters are those of one `cc`, as in 001: processes share the line, so that `a_trs` grows with them.
//! Each `cc` is fitted by itself.
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
use std::any::Any;
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
    takes: Takes { max_files: Values::One, at_once: Values::Many, free_check: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
    run,
};

/// Parameter of a sample: bits in a second at which whole files were checked.
pub const CHECK_RATE: &str = "check_rate";

/// Files under way at once, unless others are asked for: of Eq 6's `S/cc` and `N/cc` nothing is known by one alone.
const AT_ONCE: [u64; 3] = [1, 2, 4];

/// Files of each process. The best number is to be between the ends: below it the last check costs, above it starts do.
const COUNTS: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Files of all processes, at most, where those are numbers enough.
const FILES_MOST: u64 = 32;

/// A fit takes four numbers of files.
const COUNTS_MIN: usize = 4;

/// The smallest files, of 2 MiB, fill it eight times: slow start costs each file the same.
const RTT: Duration = Duration::from_millis(20);
const RATE_BITS_PER_S: u64 = 100_000_000;

/// How much faster the check of a process is than the line: `a_ck < a_trs`, as Eqs 5 and 6 want it, and not so much
/// that the last check costs nothing.
const CHECK_OVER_LINE: f64 = 1.25;

/// How often a check looks whether it is to go on.
const PIECES_PER_S: f64 = 20.0;

/// What is in memory of a file at once, at most.
const BUFFER_BYTES: usize = 1 << 20;

/// No more than there may be files.
fn at_once(wishes: &Wishes) -> Vec<u64> {
    match wishes.at_once[..] {
        [] => AT_ONCE.into_iter().filter(|at_once| *at_once <= wishes.files_max().max(1)).collect(),
        _ => wishes.at_once.clone(),
    }
}

/// Numbers of files for so many at once: as many for each process, and as many as the set may have; at least one each.
fn counts(files_max: u64, at_once: u64) -> Vec<u64> {
    let all = COUNTS.into_iter().map(|files| files * at_once).enumerate();
    let fits = |(at, files): &(usize, u64)| *at < COUNTS_MIN || *files <= FILES_MOST;
    all.filter(fits).map(|(_, files)| files).filter(|files| *files <= files_max.max(at_once)).collect()
}

/// Of each number at once.
fn all_counts(wishes: &Wishes) -> Vec<(u64, Vec<u64>)> {
    let of = |at_once: u64| (at_once, counts(wishes.files_max(), at_once));
    at_once(wishes).into_iter().map(of).collect()
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, RTT, RATE_BITS_PER_S)
}

fn check_bits_per_s(path: &PathWish) -> f64 {
    // A check at no rate would never end.
    (path.payload_bits_per_s() * CHECK_OVER_LINE).max(8.0)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    if let Some(many) = at_once(wishes).into_iter().find(|at_once| *at_once > wishes.files_max().max(1)) {
        let cause = format!("`whole-files` with {many} --at-once takes a --max-files of at least {many}");
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let path = path(wishes);
    let check = Unit::BitsPerS.show(check_bits_per_s(&path));
    let each: Vec<String> = at_once(wishes).iter().map(u64::to_string).collect();
    let mut counts: Vec<u64> = all_counts(wishes).into_iter().flat_map(|(_, counts)| counts).collect();
    counts.sort_unstable();
    let told = format!("{} at once", each.join(", "));
    let mut changes = sets::changes(&counts, &told, SUITE.budget_bytes(wishes));
    changes.extend([
        scaled("line", "100 Gbit/s", format!("{} Gbit/s", path.rate_bits_per_s as f64 / 1e9)),
        scaled("mover", "processes that live on (001 section 4)", "a command for each file".to_owned()),
    ]);
    if !wishes.is_check_free {
        changes.push(scaled("check", "as fast as storage and processors of both sides are", {
            format!(
                "of each process no faster than {check}: {CHECK_OVER_LINE} times what the line carries, so that \
                 a_ck < a_trs by construction"
            )
        }));
    }
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
    let path = path(wishes);
    let check_bits_per_s = (!wishes.is_check_free).then(|| check_bits_per_s(&path));
    sets::measure(bench, &all_counts(wishes), &path, |turn| {
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
                bytes_per_s: check_bits_per_s.map_or(f64::INFINITY, |rate| rate / 8.0),
                stop: &wishes.stop,
            },
            at_once: turn.at_once,
        };
        let series = turn.series(&series(turn.at_once));
        let sample = super::over(turn.testbed, || mover.sample(series))?;
        let sample = sample.with("concurrency", count(turn.at_once as f64));
        Ok(match check_bits_per_s {
            Some(rate) => sample.with(CHECK_RATE, Quantity::number(rate, "bit/s")),
            None => sample,
        })
    })
}

fn series(at_once: u64) -> String {
    let each = if at_once == 1 { "one".to_owned() } else { at_once.to_string() };
    format!("{each} at a time, whole files checked")
}

/// Moves files, so many at once, each process one by one, and has each checked while the next moves.
struct Mover<'a> {
    workspace: &'a Workspace,
    client: &'a Host,
    daemon: &'a Daemon,
    check: Check<'a>,
    at_once: u64,
}

impl Mover<'_> {
    /// All files, from the start of the first command until the last file is checked.
    fn sample(&self, series: String) -> Result<Sample> {
        let (spec, before_s, began) = (&self.check.spec, self.workspace.cpu_s(), Instant::now());
        let processes: Vec<Result<(Duration, f64)>> = std::thread::scope(|scope| {
            let start = |process: u64| scope.spawn(move || self.process(process, began));
            let started: Vec<_> = (0..self.at_once).map(start).collect();
            started.into_iter().map(|process| process.join().map_err(lost)?).collect()
        });
        let wall_s = began.elapsed().as_secs_f64();
        let (mut check_cpu, mut moved_s) = (Duration::ZERO, 0.0_f64);
        for process in processes {
            let (cpu, at_s) = process?;
            (check_cpu, moved_s) = (check_cpu + cpu, moved_s.max(at_s));
        }
        let sample = Sample {
            series,
            bytes: spec.bytes(),
            files: spec.files,
            wall_s,
            cpu_s: Some(self.workspace.cpu_s() - before_s + check_cpu.as_secs_f64()),
            ..Sample::default()
        };
        Ok(sample.measured("last_check", wall_s - moved_s, "s"))
    }

    /// The files of one process: the CPU of their checks, and after how many seconds the last had its name.
    fn process(&self, process: u64, began: Instant) -> Result<(Duration, f64)> {
        let check = &self.check;
        let (moved, checked) = std::thread::scope(|scope| {
            // Room for all: who moves never waits for who checks.
            let (done, to_check) = mpsc::sync_channel(check.spec.files as usize);
            let checking = scope.spawn(move || check.all(to_check));
            let moved = self.transfer(process, &done);
            let moved_s = began.elapsed().as_secs_f64();
            drop(done);
            (moved.map(|()| moved_s), checking.join())
        });
        // Where a check failed no more was moved: that it did is the cause.
        let check_cpu = checked.map_err(lost)??;
        Ok((check_cpu, moved?))
    }

    /// Every file of a process, one after the other. Ends where nobody checks any more.
    fn transfer(&self, process: u64, done: &mpsc::SyncSender<u64>) -> Result<()> {
        for number in (process..self.check.spec.files).step_by(self.at_once as usize) {
            let name = self.check.spec.file(number).path;
            let mut line = words(&["cp", "--no-tune", "--concurrency", "1", "--streams", "1"]);
            let from = self.check.source.join(&name).display().to_string();
            line.extend([from, self.daemon.url(&format!("copy/{name}"))]);
            self.workspace.copy(Some(self.client), Some(self.daemon), &line)?;
            if done.send(number).is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn lost(_: Box<dyn Any + Send>) -> Failure {
    Failure::new(FailureKind::Internal, MEASURE, "a thread panicked")
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
    fn numbers_of_files_are_multiples_of_those_at_once_four_or_as_many_as_may_be() {
        assert_eq!((counts(4096, 1).len(), counts(6, 1), counts(0, 1)), (10, vec![1, 2, 3, 4, 6], vec![1]));
        assert_eq!(counts(4096, 2), [2, 4, 6, 8, 12, 16, 24, 32]);
        assert_eq!(counts(4096, 4), [4, 8, 12, 16, 24, 32]);
        assert_eq!((counts(4096, 16), counts(3, 4)), (vec![16, 32, 48, 64], vec![4]));
        let few = Wishes { files_max: Some(3), ..Wishes::default() };
        assert_eq!(all_counts(&few), [(1, vec![1, 2, 3]), (2, vec![2])]);
        let asked = Wishes { at_once: vec![8], ..Wishes::default() };
        let refused = prepare(&Wishes { files_max: Some(4), ..asked.clone() }).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Usage, "{}", refused.cause);
        assert_eq!(all_counts(&asked), [(8, vec![8, 16, 24, 32])]);
        assert_eq!(
            all_counts(&Wishes::default()).iter().map(|(at_once, _)| *at_once).collect::<Vec<_>>(),
            AT_ONCE
        );
    }

    /// What the suite makes of its line, with starts that take ten round trips: with two sizes it is known whether the
    /// condition holds, for each number at once. One at a time, both ends take a fifth longer than the best number.
    #[test]
    fn both_costs_show_in_the_numbers_of_files_and_the_condition_holds() {
        let path = path(&Wishes::default());
        let mut round_s = 0.0;
        for (at_once, counts) in all_counts(&Wishes::default()) {
            let concurrency = at_once as f64;
            let costs = Costs {
                transfer_s_per_byte: concurrency * 8.0 / path.payload_bits_per_s(),
                transfer_start_s: 10.0 * path.rtt.as_secs_f64(),
                check_s_per_byte: 8.0 / check_bits_per_s(&path),
                once_s: 0.01,
            };
            let sets = Set::all(&counts, SUITE.budget_bytes);
            let of = |set: &Set| {
                let work = Work { bytes: set.spec(0).bytes() as f64, concurrency };
                let files = set.files as f64;
                Measurement { files, work, time_s: costs.time_s(work, files).unwrap() }
            };
            let all: Vec<Measurement> = sets.iter().map(of).collect();
            let fitted = fit(&all).unwrap();
            assert_eq!((fitted.is_split_known, fitted.condition()), (true, Condition::Holds), "{at_once}");
            let best = fitted.optimum(fitted.bytes.1, FILES_MOST as f64).unwrap();
            // The root of cc times 22.5.
            let wanted = (concurrency * 22.5).sqrt();
            assert!(best.bound == Bound::Balance, "{best:?}");
            assert!((0.7 * wanted..=1.5 * wanted).contains(&best.files), "{best:?}");
            for end in [&all[0], &all[counts.len() - 1]] {
                let longer = if at_once == 1 { 1.2 } else { 1.02 };
                assert!(end.time_s > longer * best.time_s, "{end:?} of {at_once} at once");
            }
            round_s += all.iter().map(|one| one.time_s).sum::<f64>();
        }
        // Four rounds of all of it, the first of which does not count: twenty minutes.
        assert!(4.0 * round_s < 1200.0, "{round_s}");
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
