//! Measurements: suites that run this program as real processes, and what becomes of their figures.
//!
//! 1. A suite says what it asks, over which path, and what it makes smaller than its source has it, before it begins.
//! 2. Its cases take turns (A B C, B C A, …), so that neither drift nor order favours one; the first round does not
//!    count.
//! 3. Each raw sample is written at once. Tables, plots and fits are made of the result file only.
//!
//! What this machine cannot do is left out, and the result says so and why; nothing is invented. CPU seconds are those
//! of the clients, exactly, and of the servers, to a tick of the kernel (10 ms); of what the kernel does on its own
//! (write-back) none.

// The result file.
pub mod record;

// What is said of a handful of samples.
pub mod statistics;

// A result file as a table.
pub mod table;

// Whether a result is one that its suite would give today.
pub mod stale;

// Other programs' results, as samples.
pub mod import;

// The suites: one file for each question.
pub mod suite;

// Where a suite works: a directory, servers and clients.
mod workspace;

// What a child says while it runs.
mod child_output;

// A stream whose source we are.
mod producer;

// A directory that is watched.
mod watcher;

// Hosts and the path between them.
mod network;

// What a path carries and what it costs, moment by moment.
pub(crate) mod timeline;

// Traffic of TCP without a program around it.
mod traffic;

// Requests to a disk, timed one by one.
mod requests;

// What all of it runs on.
pub mod machine;

pub use network::{Carried, MTU_BYTES, payload_share, segment_bytes};
pub use suite::{SUITES, Suite};

use record::{About, Log, Results, Sample, Scaled, Scaling};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Reason, Result, at_path, of_io};
use workspace::Workspace;

/// What a user can say about a run.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// The program that is run and measured.
    pub program: PathBuf,
    /// That is not this one: the user named it.
    pub is_another: bool,
    /// Its name and version.
    pub version: String,
    /// See [`About::commit`].
    pub commit: Option<String>,
    /// The command line, as it can be repeated.
    pub command: String,
    /// When it begins, RFC 3339.
    pub date: String,
    /// Data go into a directory in here, which is removed.
    pub directory: PathBuf,
    /// Most bytes of one data set; without, the suite's own.
    pub budget_bytes: Option<u64>,
    /// Most files of one data set; without, [`FILES_MAX`].
    pub files_max: Option<u64>,
    /// Files under way at once, 1 or more each; none: the suite's own.
    pub at_once: Vec<u64>,
    /// Whole files are checked as fast as this machine digests them.
    pub is_check_free: bool,
    /// Counted runs of each case; without, the suite's own.
    pub runs: Option<u32>,
    /// Where chance comes from; without, 0.
    pub seed: Option<u64>,
    /// Round trip times of emulated paths; none: the suite's own, loopback where it has none.
    pub rtts: Vec<Duration>,
    /// Rate of the emulated line; without, the suite's own.
    pub rate_bits_per_s: Option<u64>,
    /// Shares of packets lost; none: the suite's own.
    pub losses: Vec<f64>,
    /// How long traffic is measured where a suite has it flow for a time; without, the suite's own.
    pub time: Option<Duration>,
    /// How long a consumer stands still; without, the suite's own.
    pub stall: Option<Duration>,
    /// Throughput that a disk is to have, for the storage rule.
    pub target_bits_per_s: Option<u64>,
    /// Asked to end.
    pub stop: Arc<AtomicBool>,
}

/// Most files of one data set, unless others are asked for.
pub const FILES_MAX: u64 = 4096;

impl Wishes {
    /// Most files of one data set.
    fn files_max(&self) -> u64 {
        self.files_max.unwrap_or(FILES_MAX)
    }

    /// Where chance comes from.
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }
}

/// What a suite says before it begins.
pub struct Prepared {
    /// See [`About::path`].
    pub path: record::PathKind,
    /// See [`About::encryption`].
    pub encryption: String,
    /// See [`About::verification`].
    pub verification: String,
    /// See [`Scaling::changes`].
    pub changes: Vec<Scaled>,
}

/// A suite at work.
pub struct Bench<'a> {
    wishes: &'a Wishes,
    suite: &'a Suite,
    workspace: Workspace,
    log: Log,
    hear: &'a mut dyn FnMut(&str),
    left_out: BTreeSet<String>,
}

/// Runs a suite, writes `out`, and gives what is in it. `hear` is told of what is made smaller, and of each sample.
///
/// # Errors
/// `Unsupported` or `Permission` with what this machine lacks; `Stopped`; what went wrong with a copy.
pub fn run(suite: &Suite, wishes: &Wishes, out: &Path, hear: &mut dyn FnMut(&str)) -> Result<Results> {
    suite.check(wishes)?;
    let mut prepared = (suite.prepare)(wishes)?;
    (suite.needs)(wishes, &mut prepared)?;
    // `congest` has both ends of a thousand connections at its worst; what cannot be raised is met with an error there.
    let _ = thalweg_sys::process::raise_open_files();
    let about = About {
        suite: suite.name.to_owned(),
        question: suite.asks.to_owned(),
        date: wishes.date.clone(),
        program: wishes.version.clone(),
        commit: wishes.commit.clone(),
        command: wishes.command.clone(),
        machine: machine::here(&wishes.directory),
        path: prepared.path,
        iterations: wishes.runs.unwrap_or(suite.runs),
        encryption: prepared.encryption,
        verification: prepared.verification,
        scaling: Scaling {
            budget_bytes: Some(wishes.budget_bytes.unwrap_or(suite.budget_bytes)),
            files_max: suite.has_many_files().then(|| wishes.files_max()),
            seed: wishes.seed(),
            changes: prepared.changes,
        },
        more: BTreeMap::new(),
        is_unfinished: false,
    };
    let workspace = Workspace::new(wishes, suite.budget_bytes(wishes), hear)?;
    let changes = about.scaling.changes.clone();
    let log = Log::begin(out, about).map_err(|error| of_out(out, &error))?;
    // Who does not want them so small need not wait for the end to see it.
    changes.iter().for_each(|change| hear(&table::smaller(change)));
    let mut bench = Bench { wishes, suite, workspace, log, hear, left_out: BTreeSet::new() };
    match (suite.run)(&mut bench) {
        Ok(()) => bench.log.end().map_err(|(error, kept)| with_kept(of_out(out, &error), kept)),
        Err(failure) => Err(with_kept(failure, bench.log.give_up())),
    }
}

/// Writes results that were made elsewhere.
///
/// # Errors
/// What the file system says.
pub fn write(results: &Results, out: &Path) -> Result<Results> {
    let of = |error: std::io::Error| of_out(out, &error);
    let mut log = Log::begin(out, results.about.clone()).map_err(of)?;
    for sample in &results.samples {
        log.sample(sample.clone()).map_err(of)?;
    }
    for line in &results.left_out {
        log.left_out(&line.what, &line.why).map_err(of)?;
    }
    log.end().map_err(|(error, kept)| with_kept(of(error), kept))
}

/// The same, with where the samples are that were written before.
fn with_kept(mut failure: Failure, kept: Option<PathBuf>) -> Failure {
    if let Some(kept) = kept {
        failure.cause = format!("{}; samples until then are in `{}`", failure.cause, kept.display());
    }
    failure
}

fn of_out(out: &Path, error: &std::io::Error) -> Failure {
    at_path(of_io("write the result file", error), out)
}

impl Bench<'_> {
    fn runs(&self) -> u32 {
        self.wishes.runs.unwrap_or(self.suite.runs)
    }

    fn budget_bytes(&self) -> u64 {
        self.suite.budget_bytes(self.wishes)
    }

    /// Whether it was told that this does not run.
    fn is_left_out(&self, what: &str) -> bool {
        self.left_out.contains(what)
    }

    /// Tells of something that does not run, once.
    fn leave_out(&mut self, what: &str, why: &str) -> Result<()> {
        if !self.left_out.insert(what.to_owned()) {
            return Ok(());
        }
        (self.hear)(&format!("left out: {what}: {why}"));
        self.log.left_out(what, why).map_err(|error| of_io("write the result file", &error))
    }

    /// All rounds of all cases. `one` measures; `None` if the case was left out.
    fn take_turns<T>(
        &mut self,
        cases: Vec<T>,
        mut one: impl FnMut(&mut Self, u32, &T) -> Result<Option<Sample>>,
    ) -> Result<()> {
        rounds(self.runs() as usize, cases, |run, case| {
            if self.wishes.stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let run = u32::try_from(run).unwrap_or(u32::MAX);
            let Some(sample) = one(self, run, case)? else { return Ok(()) };
            if run == 0 {
                return Ok(());
            }
            let sample = Sample { run, ..sample };
            (self.hear)(&table::told(&sample));
            self.log.sample(sample).map_err(|error| of_io("write the result file", &error))
        })
    }
}

/// Somebody asked us to end.
fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, MEASURE, "asked to stop").because(Reason::BeginsAnew)
}

/// Every item once in each round, interleaved; each round begins with another one (A B C, B C A, …). Round 0 warms up.
///
/// # Errors
/// The first of `one`.
pub fn rounds<T, E>(
    runs: usize,
    mut items: Vec<T>,
    mut one: impl FnMut(usize, &T) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    for run in 0..=runs {
        for item in &items {
            one(run, item)?;
        }
        if !items.is_empty() {
            items.rotate_left(1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_take_turns_each_first_for_once_and_the_round_that_warms_up_is_the_first() {
        let mut seen = vec![String::new(); 4];
        let all = rounds(3, vec!['A', 'B', 'C'], |run, case| {
            seen[run].push(*case);
            Ok::<_, ()>(())
        });
        assert_eq!((all, seen), (Ok(()), ["ABC", "BCA", "CAB", "ABC"].map(str::to_owned).to_vec()));
        let mut count = 0;
        let failed = rounds(3, vec![1, 2], |run, case| {
            count += 1;
            if run == 1 { Err(*case) } else { Ok(()) }
        });
        assert_eq!((failed, count), (Err(2), 3), "the first that fails ends it");
        assert_eq!(rounds(3, Vec::<u8>::new(), |_, _| Err(())), Ok(()));
    }

    #[test]
    fn a_bench_that_fails_at_its_very_end_says_where_its_samples_are() {
        let scratch = tempfile::tempdir().unwrap();
        let suite = Suite {
            name: "test",
            asks: "what is said?",
            runs: 1,
            budget_bytes: 1,
            takes: suite::ON_THIS_MACHINE,
            prepare: |_| {
                let (encryption, verification) = ("none".to_owned(), "none".to_owned());
                let path = record::PathKind::Loopback;
                Ok(Prepared { path, encryption, verification, changes: Vec::new() })
            },
            needs: |_, _| Ok(()),
            plan: |_| Vec::new(),
            run: |bench| {
                bench.log.sample(Sample { wall_s: 1.0, ..Sample::default() }).unwrap();
                // No file takes its place any more.
                std::fs::create_dir(bench.wishes.directory.join("out.jsonl")).unwrap();
                Ok(())
            },
        };
        let wishes = Wishes { directory: scratch.path().to_owned(), ..Wishes::default() };
        let out = scratch.path().join("out.jsonl");
        let failure = run(&suite, &wishes, &out, &mut |_| {}).unwrap_err();
        let partial = record::partial(&out);
        let said = format!("; samples until then are in `{}`", partial.display());
        assert!(failure.cause.ends_with(&said), "{}", failure.cause);
        assert_eq!(Results::read(&partial).unwrap().samples.len(), 1);
    }
}
