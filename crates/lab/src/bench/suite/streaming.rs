//! `sweep streaming`: files that grow while they move, by size, powers of two from 4 MiB to 1 TiB (000 section II-B,
//! Figs 6 and 9). How far behind is the copy, and how long after the last byte was written is it whole?
//!
//! Threads append to some files at once; `thalweg stream` carries them; what stands at the destination is looked at
//! every few milliseconds. A byte's lag is the time since it had been written. Written at a steady rate, half of the
//! line's, files show lag; written as fast as the disk takes them they show throughput, beside that of the same files
//! when they are there from the beginning and are copied.

use super::{
    MIB, OVER_A_PATH, Suite, Takes, Values, bytes, encrypted, kind_of_paths, of_copy, paths_by_rtt, scaled,
    seconds, size,
};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::record::Sample;
use crate::bench::workspace::Copied;
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::dataset::{DatasetSpec, Made};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};
use thalweg_mover::mutex::lock;

pub const SUITE: Suite = Suite {
    name: "sweep streaming",
    asks: "how far behind is a copy of files that grow? (000 section II-B, Figs 6 and 9)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { rtt: Values::Many, is_path_by_rtt: true, max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs,
    plan: super::untold,
    run,
};

/// 4 MiB to 1 TiB: 19 sets.
const EXPONENTS: std::ops::RangeInclusive<u32> = 22..=40;

/// Files that grow at once.
const FILES: u64 = 4;

/// Of the line, where it is an emulated one; and of the writers, where there is none.
const RATE_BITS_PER_S: u64 = super::GBIT;

/// What is appended at once.
const PIECE_BYTES: u64 = 256 << 10;

/// How often the destination is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What series are called.
const STEADY: &str = "files that grow, at half of the line's rate";
const AT_ONCE: &str = "files that grow as fast as the disk takes them";

/// What both are held against.
const AT_REST: &str = "the same files at rest, copied";

/// Says that nothing more comes.
const MARKER: &str = "over";

struct Set {
    file_bytes: u64,
    files: u64,
}

/// A set over a path; none: the loopback.
struct Case {
    set: usize,
    path: Option<PathWish>,
    way: Way,
}

/// How files come to be, and travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They grow steadily, and are streamed.
    Steady,
    /// They grow as fast as they can, and are streamed.
    AtOnce,
    /// They are there, and are copied.
    AtRest,
}

impl Way {
    const ALL: [Way; 3] = [Way::Steady, Way::AtOnce, Way::AtRest];

    fn name(self) -> &'static str {
        match self {
            Way::Steady => STEADY,
            Way::AtOnce => AT_ONCE,
            Way::AtRest => AT_REST,
        }
    }
}

fn sets(budget_bytes: u64, files_max: u64) -> Vec<Set> {
    let fits = EXPONENTS.map(|exponent| 1u64 << exponent).filter(|file_bytes| *file_bytes <= budget_bytes);
    fits.map(|file_bytes| Set { file_bytes, files: FILES.min(budget_bytes / file_bytes).min(files_max) })
        .collect()
}

fn paths(wishes: &Wishes) -> Vec<PathWish> {
    paths_by_rtt(wishes, RATE_BITS_PER_S)
}

/// Half of the line: what is measured is lag, not how fast a queue grows.
fn writers_bits_per_s(wishes: &Wishes) -> f64 {
    paths(wishes).first().map_or(RATE_BITS_PER_S, |path| path.rate_bits_per_s) as f64 / 2.0
}

fn needs(wishes: &Wishes, prepared: &mut Prepared) -> Result<()> {
    super::a_testbed_by_rtt(wishes, prepared)?;
    // Another one, given with --program, may be older.
    let asked = Command::new(&wishes.program).args(["stream", "--help"]).output();
    if asked.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let cause = "the program that is measured has no `stream`";
    Err(Failure::new(FailureKind::Unsupported, MEASURE, cause))
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let sets = sets(SUITE.budget_bytes(wishes), wishes.files_max());
    let Some(largest) = sets.last() else {
        let cause = "no file of this sweep has room in this --budget: at least 4MiB";
        return Err(Failure::new(FailureKind::Usage, MEASURE, cause));
    };
    let paths = paths(wishes);
    Ok(Prepared {
        path: kind_of_paths(&paths),
        encryption: encrypted(),
        verification: "a digest of every segment before it is written; whole files compared with their seed"
            .to_owned(),
        changes: vec![
            scaled("sizes of files", "4 MiB to 1 TiB, 19 sets (000 section III-B.2)", {
                format!("4 MiB to {}, {} sets", size(largest.file_bytes), sets.len())
            }),
            scaled("files that grow at once", "as a detector makes them", format!("at most {FILES}")),
            scaled("how fast they grow, together", "as fast as the detector", {
                format!(
                    "{} Gbit/s, each piece when it is due, and as fast as the disk takes them",
                    writers_bits_per_s(wishes) / 1e9
                )
            }),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let sets = sets(bench.budget_bytes(), bench.wishes.files_max());
    bench.workspace.needs(2 * FILES * bench.budget_bytes())?;
    let mut paths: Vec<Option<PathWish>> = paths(bench.wishes).into_iter().map(Some).collect();
    let first = paths.first().copied().flatten();
    let testbed = first.map(|path| Testbed::up(&bench.workspace, "streaming", &path, TUNED)).transpose()?;
    if paths.is_empty() {
        paths.push(None);
    }
    let (client, server) = testbed.as_ref().map(|testbed| (&testbed.left, &testbed.right)).unzip();
    let daemon = bench.workspace.daemon(server)?;
    let seed = bench.wishes.seed();
    let mut cases = Vec::new();
    for set in 0..sets.len() {
        for &path in &paths {
            cases.extend(Way::ALL.map(|way| Case { set, path, way }));
        }
    }
    bench.take_turns(cases, |bench, _, case| {
        let set = &sets[case.set];
        if let (Some(testbed), Some(path)) = (&testbed, &case.path) {
            testbed.set(path)?;
        }
        let spec = DatasetSpec {
            files: set.files,
            sizes: vec![(set.file_bytes, 1)],
            seed,
            ..DatasetSpec::default()
        };
        let source = bench.workspace.path("source");
        fs::create_dir_all(&source).map_err(|error| of_io("make a directory", &error))?;
        if case.way == Way::AtRest {
            dataset::make(&source, &spec)?;
            bench.workspace.settle()?;
        }
        let places = [format!("{}/", source.display()), daemon.url("copy")];
        let rate = match case.way {
            Way::Steady => writers_bits_per_s(bench.wishes) / 8.0,
            _ => f64::INFINITY,
        };
        let measure = || -> Result<Sample> {
            let carry = |what: &str, end: &[&str]| {
                let words = [&[what.to_owned()], &places[..], &super::words(end)].concat();
                bench.workspace.copy(client, Some(&daemon), &words)
            };
            let sample = |copied: &Copied| {
                let sample = of_copy(case.way.name(), copied, spec.bytes(), spec.files);
                sample.with("file_size", bytes(set.file_bytes))
            };
            if case.way == Way::AtRest {
                return Ok(sample(&carry("cp", &[])?));
            }
            let (copied, grown) = grow_beside([&source, &daemon.path("copy")], &spec, rate, || {
                carry("stream", &["--until-marker", MARKER])
            })?;
            Ok(sample(&copied)
                .measured("lag_at_the_end", copied.wall_s - grown.written_s, "s")
                .measured("written", grown.written_s, "s")
                .distributed("lag", "s", grown.lags_s))
        };
        let sample = match (&testbed, case.path) {
            (Some(testbed), Some(path)) => {
                super::over(testbed, measure)?.with("rtt", seconds(path.rtt.as_secs_f64()))
            }
            _ => measure()?,
        };
        super::sound(&daemon.path("copy"), &spec)?;
        bench.workspace.remove(&source)?;
        bench.workspace.remove(&daemon.path("copy"))?;
        Ok(Some(sample))
    })
}

/// What was seen while files grew.
struct Grown {
    /// From the beginning until the last byte was written.
    written_s: f64,
    /// Of the youngest byte at the destination, whenever it was looked at.
    lags_s: Vec<f64>,
}

/// Lets files grow in `source` while `carry` runs, and looks at how far behind `copy` is.
fn grow_beside(
    [source, copy]: [&Path; 2],
    spec: &DatasetSpec,
    bytes_per_s: f64,
    carry: impl FnOnce() -> Result<Copied>,
) -> Result<(Copied, Grown)> {
    let failed = |error: io::Error| of_io("let files grow", &error);
    let files: Vec<Made> = (0..spec.files).map(|number| spec.file(number)).collect();
    // When each file had how many bytes, for as long as it may be asked.
    let grown: Vec<Mutex<Vec<(f64, u64)>>> = files.iter().map(|_| Mutex::default()).collect();
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let share = bytes_per_s / spec.files as f64;
        let writers: Vec<_> = files
            .iter()
            .zip(&grown)
            .map(|(made, grown)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    // What one cannot write the others need not.
                    grow(source, made, share, began, grown, is_over)
                        .inspect_err(|_| is_over.store(true, Ordering::Relaxed))
                })
            })
            .collect();
        let looking = scope.spawn(|| look(copy, &files, &grown, began, &is_over));
        let marking = scope.spawn(move || -> io::Result<()> {
            let lost = |_| Err(io::Error::other("a thread panicked"));
            let written: Vec<io::Result<()>> =
                writers.into_iter().map(|writer| writer.join().unwrap_or_else(lost)).collect();
            // Where one failed, too: the stream would wait for more.
            let marked = File::create(source.join(MARKER));
            written.into_iter().collect::<io::Result<()>>()?;
            marked.map(drop)
        });
        let copied = carry();
        is_over.store(true, Ordering::Relaxed);
        let lost = |_| Failure::new(FailureKind::Internal, "let files grow", "a thread panicked");
        marking.join().map_err(lost)?.map_err(failed)?;
        let lags_s = looking.join().map_err(lost)?;
        let ends = grown.iter().filter_map(|grown| lock(grown).last().map(|(written_at, _)| *written_at));
        Ok((copied?, Grown { written_s: ends.fold(0.0, f64::max), lags_s }))
    })
}

/// Writes a file piece by piece, each when those before it have taken their time. Behind the last one nothing is waited
/// for: what comes then is lag.
fn grow(
    source: &Path,
    made: &Made,
    bytes_per_s: f64,
    began: Instant,
    grown: &Mutex<Vec<(f64, u64)>>,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let path = source.join(&made.path);
    fs::create_dir_all(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    let mut file = File::create(path)?;
    let mut piece = vec![0; PIECE_BYTES as usize];
    let mut at = 0;
    while at < made.bytes && !is_over.load(Ordering::Relaxed) {
        let due = at as f64 / bytes_per_s;
        std::thread::sleep(Duration::from_secs_f64((due - began.elapsed().as_secs_f64()).max(0.0)));
        let now = piece.len().min((made.bytes - at) as usize);
        made.fill(at, &mut piece[..now]);
        file.write_all(&piece[..now])?;
        at += now as u64;
        lock(grown).push((began.elapsed().as_secs_f64(), at));
    }
    Ok(())
}

/// Lags until it is over.
fn look(
    copy: &Path,
    files: &[Made],
    grown: &[Mutex<Vec<(f64, u64)>>],
    began: Instant,
    is_over: &AtomicBool,
) -> Vec<f64> {
    let mut lags = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        for (made, grown) in files.iter().zip(grown) {
            let arrived = fs::metadata(copy.join(&made.path)).map_or(0, |metadata| metadata.len());
            let now = began.elapsed().as_secs_f64();
            let history = lock(grown);
            lags.extend(lag(&history, arrived, now));
        }
        std::thread::sleep(LOOK);
    }
    lags
}

/// For how long there have been bytes that are not at the destination; none if all are, or none was written yet.
fn lag(history: &[(f64, u64)], arrived: u64, now: f64) -> Option<f64> {
    let first_missing = history.partition_point(|(_, bytes)| *bytes <= arrived);
    history.get(first_missing).map(|(written_at, _)| now - written_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream ends at its marker, or after an hour.
    #[test]
    fn where_a_file_cannot_be_written_the_stream_is_ended_and_the_error_told() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 2, sizes: vec![(1 << 20, 1)], ..DatasetSpec::default() };
        // A directory stands where the first is to be.
        fs::create_dir_all(scratch.path().join(&spec.file(0).path)).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let mut is_marked = false;
        let stream = || {
            while !is_marked && Instant::now() < until {
                is_marked = scratch.path().join(MARKER).exists();
                std::thread::sleep(LOOK);
            }
            Ok(Copied { wall_s: 1.0, cpu_s: None, finished: serde_json::Value::Null })
        };
        let copy = scratch.path().join("copy");
        let grown = grow_beside([scratch.path(), &copy], &spec, f64::INFINITY, stream);
        assert_eq!(grown.map(drop).unwrap_err().operation, "let files grow");
        assert!(is_marked, "the stream waits for more");
    }

    /// A piece that takes its writer a minute is written at once, and what lags behind it lags from then on.
    #[test]
    fn what_is_written_is_written_when_its_last_piece_is() {
        const PIECE_S: f64 = 60.0;
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 1, sizes: vec![(1000, 1)], ..DatasetSpec::default() };
        let copy = scratch.path().join("copy");
        let stream = || {
            let until = Instant::now() + Duration::from_secs(120);
            while !scratch.path().join(MARKER).exists() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
            Ok(Copied { wall_s: 1.0, cpu_s: None, finished: serde_json::Value::Null })
        };
        let (_, grown) = grow_beside([scratch.path(), &copy], &spec, 1000.0 / PIECE_S, stream).unwrap();
        assert!(grown.written_s < PIECE_S, "{}", grown.written_s);
        assert_eq!(fs::metadata(scratch.path().join(&spec.file(0).path)).unwrap().len(), 1000);
    }

    #[test]
    fn without_a_budget_the_sets_are_those_of_the_paper() {
        let sets = sets(1 << 40, 1 << 20);
        let sizes: Vec<u64> = sets.iter().map(|set| set.file_bytes).collect();
        assert_eq!((sizes.len(), sizes[0], sizes[18]), (19, 4 * MIB, 1 << 40));
        assert!(sizes.windows(2).all(|pair| pair[1] == 2 * pair[0]));
    }

    #[test]
    fn a_lag_is_the_age_of_the_oldest_byte_that_has_not_arrived() {
        let history = [(1.0, 100), (2.0, 200), (3.0, 300)];
        assert_eq!(lag(&history, 0, 3.5), Some(2.5));
        assert_eq!(lag(&history, 100, 3.5), Some(1.5));
        assert_eq!(lag(&history, 250, 3.5), Some(0.5));
        assert_eq!(lag(&history, 300, 3.5), None);
        assert_eq!(lag(&[], 0, 1.0), None);
    }
}
