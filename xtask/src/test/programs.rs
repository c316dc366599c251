//! The programs of tests, several at once. Most of them wait most of the time, for a link, a daemon or a clock: one
//! after the other, as `cargo test` runs them, they leave two cores idle for four fifths of half an hour. Tests that
//! failed beside others run once more by themselves ([`Ended::take_second`]), and at the end, as nobody, what root
//! cannot test.

use super::{is_ci, skips};
use crate::cargo::{self, Built};
use crate::command;
use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many run at once, each with its own threads. More would make those wait that have work to do.
const AT_ONCE: usize = 3;

/// Hold what they measure against what must be: of other work beside them they may have measured that. They may fail
/// beside others.
const MEASURING: [&str; 9] =
    ["doctor", "long_way", "path", "predict", "probe", "slots", "testbed", "tune", "why"];

/// How many tests of other programs may fail beside others and succeed by themselves. Each is told at the end, and is a
/// fault to be mended, of the test or of what it tests; but one is no reason to leave untested what comes behind.
const UNSTEADY_MAX: usize = 2;

/// Run before all others, alone: they need settings of the machine as they are, and benches change these while they run
/// (`bench` permits a congestion control to everybody).
const ALONE: [&str; 1] = ["congestion"];

/// Last longest, and begin first: else they would end last, alone.
const LONG: [&str; 11] = [
    "bench",
    "ssh",
    "hostile",
    "network",
    "slots",
    "doctor",
    "stream",
    "why",
    "objects",
    "predict",
    "thalweg_mover",
];

/// A program that runs longer is ended, and has failed.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// How often is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Whom modes keep out, unlike root: the number of his user and of his group.
const NOBODY: u32 = 65534;

/// What root cannot test, by program, in full as the program names it.
const AS_NOBODY: [(&str, &[&str]); 4] = [
    (
        "local_endpoint",
        &[
            "deleting::what_goes_does_so_also_where_we_may_change_nothing_and_what_stays_is_closed_again",
            "parts::a_directory_that_one_part_closed_is_filled_by_the_others_and_closed_by_the_last",
            "parts::a_part_goes_on_where_the_way_was_closed_altogether_and_keeps_hard_links",
            "parts::where_modes_are_not_kept_a_directory_gets_the_one_again_that_it_was_closed_with",
            "scanning::an_unreadable_directory_is_trouble_and_the_rest_goes_on",
            "staging::a_file_that_its_owner_may_not_read_is_read_back_all_the_same",
            "what_a_user_may_not_keep_is_a_loss_and_takes_the_set_id_bits_with_it",
        ],
    ),
    (
        "thalweg_mover",
        &[
            "endpoint::conformance::local::a_local_source_keeps_what_sources_promise",
            "endpoint::local::destination::ajar::tests::\
             a_directory_that_was_held_while_it_could_not_be_read_gets_its_mode_all_the_same",
            "endpoint::local::staging::leftover::tests::\
             a_tree_that_is_longer_than_a_path_may_be_goes_also_where_we_may_change_nothing",
            "endpoint::local::staging::territory::tests::\
             what_final_modes_keep_us_out_of_is_cleared_up_all_the_same_and_closed_again",
            "run::frames::spill_files::tests::a_log_that_nobody_can_look_at_is_not_one_that_is_not_there",
        ],
    ),
    (
        "thalweg_client",
        &["staged::place::tests::\
           what_is_gone_is_set_aside_also_where_we_may_change_nothing_and_the_rest_is_left_as_it_was"],
    ),
    ("kinds", &["a_directory_that_may_not_be_read_can_be_passed"]),
];

/// Builds and runs the tests of all crates, but those in the documentation.
///
/// # Errors
/// If they do not build; at the end, with the names of those that failed, and in CI with what they skipped though it
/// has what that takes.
pub fn run() -> Result<()> {
    let all = cargo::built(&["test", "--workspace"])?;
    for name in MEASURING.iter().chain(&ALONE).chain(&LONG).chain(AS_NOBODY.iter().map(|(name, _)| name)) {
        ensure!(
            all.iter().any(|built| built.name == *name),
            "no program of tests has the name {name} any more"
        );
    }
    let home = tempfile::tempdir().context("a directory of nobody's")?;
    let mut ended = Ended::default();
    let by_nobody = by_nobody(&all, home.path(), &mut ended.skipped)?;
    let mut beside = all;
    beside.sort_by_key(|built| LONG.iter().position(|long| *long == built.name).unwrap_or(LONG.len()));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Before what sets it: so the first does nothing here, and the second ends at once.
        flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    let program = static_program();
    let job = |built: &Built| Job::new(built, program.as_deref());
    let (alone, others): (Vec<&Built>, Vec<&Built>) =
        beside.iter().partition(|built| ALONE.contains(&built.name.as_str()));
    at_once(alone.into_iter().map(job).collect(), 1, &stop, &mut ended)?;
    at_once(others.into_iter().map(job).collect(), AT_ONCE, &stop, &mut ended)?;
    let second = ended.take_second();
    if !second.is_empty() {
        println!("==> by themselves, for they failed beside others: {}", tests_of(&second));
    }
    let again = second.iter().filter_map(|failed| {
        let built = beside.iter().find(|built| built.program == failed.program)?;
        Some(Job::again(built, program.as_deref(), &failed.tests))
    });
    at_once(again.collect(), 1, &stop, &mut ended)?;
    at_once(by_nobody, 1, &stop, &mut ended)?;
    let unexpected = skips::tell(&ended.skipped);
    let unsteady = ended.unsteady(second);
    if !unsteady.is_empty() {
        println!("unsteady (failed beside others, see above, and succeeded alone): {}", tests_of(&unsteady));
    }
    let failed: Vec<&str> = ended.failed.iter().map(|failed| failed.name.as_str()).collect();
    let failed = failed.join(", ");
    ensure!(
        failed.is_empty(),
        "tests failed in {failed}: `cargo test --workspace` with that name runs them alone"
    );
    ensure!(
        !is_ci() || unexpected == 0,
        "tests skipped what CI has to test, {unexpected} times, see above: install what they lack, or add \
         the reason to xtask/src/test/skips.rs"
    );
    Ok(())
}

/// The variable that names a static program of ours.
const STATIC: &str = "THALWEG_STATIC";

/// A static program for the tests of `--bootstrap`, as it is given away: without symbols, for each of these tests sends
/// it. `None` where it is named, or cannot be made: then they say so.
fn static_program() -> Option<PathBuf> {
    if std::env::var_os(STATIC).is_some() {
        return None;
    }
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    // It only has to start, and shares no library with what is built beside it: unoptimised it takes half the time.
    let quick = ["--config", "profile.dev.opt-level = 0"];
    let build = [&["build", "--quiet", "--package", "thalweg", "--target", &triple], &quick[..]].concat();
    command::run(Command::new(cargo::program()).args(build)).ok()?;
    let built = cargo::target().join(triple).join("debug/thalweg");
    let stripped = built.with_file_name("thalweg-static");
    command::run(Command::new("strip").arg("-o").args([&stripped, &built])).ok()?;
    Some(stripped)
}

/// Jobs that nobody does, for root; another is kept out by modes in any case. Those that nobody can run are skipped.
fn by_nobody(all: &[Built], home: &Path, skipped: &mut Vec<(String, String)>) -> Result<Vec<Job>> {
    if thalweg_sys::user::effective_uid() != 0 {
        return Ok(Vec::new());
    }
    std::os::unix::fs::chown(home, Some(NOBODY), Some(NOBODY)).context("give nobody a directory")?;
    let mut jobs = Vec::new();
    for (name, wanted) in AS_NOBODY {
        for built in all.iter().filter(|built| built.name == name) {
            let name = format!("{name} as nobody");
            match within_reach(&built.program, home)? {
                Some(program) => jobs.push(Job::by_nobody(name, program, wanted, home)),
                None => skipped.push((name, "skipped: TMPDIR is closed to nobody".to_owned())),
            }
        }
    }
    Ok(jobs)
}

/// A program where nobody can run it: where it is or, if a directory above that is closed to others, a copy in `home`;
/// `None`: neither.
fn within_reach(program: &Path, home: &Path) -> Result<Option<PathBuf>> {
    let may_run = |program: &Path| -> Result<bool> {
        let status = as_nobody(home).args(["test", "-x"]).arg(program).status().context("start setpriv")?;
        Ok(status.success())
    };
    if may_run(program)? {
        return Ok(Some(program.to_owned()));
    }
    let copy = home.join(program.file_name().context("a program of tests without a name")?);
    std::fs::copy(program, &copy).context("copy a program to where nobody can run it")?;
    std::fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    Ok(may_run(&copy)?.then_some(copy))
}

/// What runs the program that is named next as nobody.
fn as_nobody(home: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]).arg("--clear-groups");
    command.current_dir(home).env("TMPDIR", home);
    command
}

/// A program to be run, and how.
struct Job {
    name: String,
    program: PathBuf,
    command: Command,
    /// Tests that have to be among those that succeed: a filter that fits none is no error to libtest.
    wanted: Vec<String>,
    /// What it skips nobody else does.
    is_last: bool,
}

impl Job {
    fn new(built: &Built, static_program: Option<&Path>) -> Job {
        let mut command = Command::new(&built.program);
        command.current_dir(&built.directory);
        command.envs(static_program.map(|program| (STATIC, program)));
        Job {
            name: built.name.clone(),
            program: built.program.clone(),
            command,
            wanted: Vec::new(),
            is_last: false,
        }
    }

    /// Of these tests alone.
    fn again(built: &Built, static_program: Option<&Path>, tests: &[String]) -> Job {
        let mut job = Job::new(built, static_program);
        job.command.arg("--exact").args(tests);
        job.wanted = tests.to_vec();
        job
    }

    fn by_nobody(name: String, program: PathBuf, wanted: &'static [&'static str], home: &Path) -> Job {
        let mut command = as_nobody(home);
        command.arg(&program).arg("--exact").args(wanted);
        let wanted = wanted.iter().map(|&test| test.to_owned()).collect();
        Job { name, program, command, wanted, is_last: true }
    }
}

/// What became of programs.
#[derive(Default)]
struct Ended {
    failed: Vec<Failed>,
    /// What was skipped, behind the name of the program.
    skipped: Vec<(String, String)>,
}

/// A program that failed.
#[derive(Debug, Clone, PartialEq)]
struct Failed {
    name: String,
    /// Of which several may have one name.
    program: PathBuf,
    /// Those of its tests that did; none where the program itself did.
    tests: Vec<String>,
}

impl Failed {
    fn measures(&self) -> bool {
        MEASURING.contains(&self.name.as_str())
    }
}

impl Ended {
    /// Those that get a second run, no longer among the failed: of programs that measure all, of others as long as
    /// there are no more tests than may be unsteady. None of those that nobody ran, which were alone.
    fn take_second(&mut self) -> Vec<Failed> {
        let others = self.failed.iter().filter(|failed| !failed.measures()).map(|failed| failed.tests.len());
        let has_few = others.sum::<usize>() <= UNSTEADY_MAX;
        let may = |failed: &mut Failed| !failed.tests.is_empty() && (failed.measures() || has_few);
        self.failed.extract_if(.., may).collect()
    }

    /// Of those that got a second run and did not fail again, what does not measure.
    fn unsteady(&self, mut second: Vec<Failed>) -> Vec<Failed> {
        let fails = |program: &Path| self.failed.iter().any(|failed| failed.program == program);
        second.retain(|failed| !failed.measures() && !fails(&failed.program));
        second
    }
}

/// All of them, each with its program.
fn tests_of(programs: &[Failed]) -> String {
    let each = programs.iter().map(|failed| format!("{}: {}", failed.name, failed.tests.join(", ")));
    each.collect::<Vec<String>>().join("; ")
}

/// Runs all of them, so many at a time, in their order, until they are to `stop`.
fn at_once(jobs: Vec<Job>, limit: usize, stop: &AtomicBool, ended: &mut Ended) -> Result<()> {
    let mut running: Vec<Running> = Vec::new();
    let mut left = jobs.into_iter();
    loop {
        while running.len() < limit
            && let Some(job) = left.next()
        {
            running.push(Running::start(job)?);
        }
        if running.is_empty() {
            return Ok(());
        }
        let mut still = Vec::new();
        for mut one in running {
            match one.ended()? {
                None => still.push(one),
                Some(is_good) => {
                    let (has_run_all, tests) = one.tell(&mut ended.skipped)?;
                    if !(is_good && has_run_all) {
                        let (name, program) = (one.job.name.clone(), one.job.program.clone());
                        ended.failed.push(Failed { name, program, tests });
                    }
                }
            }
        }
        running = still;
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        std::thread::sleep(LOOK);
    }
}

/// A program that runs, with all that it started in a process group of its own, which ends with it where it is ended.
/// What it says goes into a file without a name, and is told in one piece.
struct Running {
    job: Job,
    child: Child,
    said: File,
    since: Instant,
}

impl Running {
    fn start(mut job: Job) -> Result<Running> {
        let said = tempfile::tempfile().context("a file for what the tests say")?;
        let child = job
            .command
            .arg("--show-output")
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", job.program.display()))?;
        Ok(Running { job, child, said, since: Instant::now() })
    }

    /// Whether it went well, once it has ended.
    fn ended(&mut self) -> Result<Option<bool>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if self.since.elapsed() < LIMIT {
            return Ok(None);
        }
        println!("{} did not end within {} minutes", self.job.name, LIMIT.as_secs() / 60);
        self.end();
        Ok(Some(false))
    }

    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = thalweg_sys::child::kill_group(&self.child);
            let _ = self.child.wait();
        }
    }

    /// Tells what it said; whether all ran that had to, and the tests that failed and may run again.
    fn tell(&mut self, skipped: &mut Vec<(String, String)>) -> Result<(bool, Vec<String>)> {
        let mut said = Vec::new();
        self.said.seek(SeekFrom::Start(0))?;
        self.said.read_to_end(&mut said)?;
        let said = String::from_utf8_lossy(&said);
        let seconds = self.since.elapsed().as_secs();
        println!("{}, {seconds} s:{}", self.job.program.display(), skips::shown(&said));
        skipped.extend(skips::lines(&said).map(|line| (self.job.name.clone(), line.to_owned())));
        let lacking = lacking(&self.job.wanted, self.job.is_last, &said);
        lacking.iter().for_each(|what| println!("{}: {what}", self.job.name));
        let failed = if self.job.is_last { Vec::new() } else { failed_tests(&said) };
        Ok((lacking.is_empty(), failed))
    }
}

/// The tests that failed, as libtest lists them at its end; none of a program that did not get there.
fn failed_tests(said: &str) -> Vec<String> {
    let Some((_, list)) = said.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// What is missing of tests that had to run, by what their program said: nobody else does what they skip.
fn lacking(wanted: &[String], is_last: bool, said: &str) -> Vec<String> {
    let has_run = |test: &&String| said.lines().any(|line| line == format!("test {test} ... ok"));
    let not_run = wanted.iter().filter(|test| !has_run(test));
    let not_run = not_run.map(|test| format!("{test} did not run, or failed"));
    let skips = skips::lines(said).filter(|_| is_last);
    not_run.chain(skips.map(|line| format!("it {line}"))).collect()
}

/// Whatever else went wrong, none runs on.
impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str, tests: &[&str]) -> Failed {
        let tests = tests.iter().map(|&test| test.to_owned()).collect();
        Failed { name: name.to_owned(), program: PathBuf::from(name), tests }
    }

    #[test]
    fn what_measures_runs_again_and_of_others_few_tests_and_they_are_told() {
        let (measures, other) = (failed("slots", &["a", "b", "c"]), failed("copy", &["d"]));
        // A program that did not get to its end, and one that was alone.
        let not_again = [failed("bench", &[]), failed("kinds as nobody", &[])];
        let all = [vec![measures.clone(), other.clone()], not_again.to_vec()].concat();
        let mut ended = Ended { failed: all, ..Ended::default() };
        let second = ended.take_second();
        assert_eq!(second, [measures.clone(), other.clone()]);
        assert_eq!(ended.failed, not_again);
        assert_eq!(ended.unsteady(second.clone()), second[1..]);
        ended.failed.push(other.clone());
        assert!(ended.unsteady(second).is_empty(), "it failed again");
        // Many that fail are no accident.
        let many = failed("crash", &["e", "f"]);
        let mut ended = Ended { failed: vec![measures.clone(), other, many], ..Ended::default() };
        assert_eq!(ended.take_second(), [measures]);
        assert_eq!(ended.failed.len(), 2);
    }

    #[test]
    fn tests_that_failed_are_those_of_the_list_at_the_end() {
        let said = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n    not this\n\nfailures:\n    a::b\n    \
                    c\n\ntest result: FAILED. 3 passed; 2 failed\n";
        assert_eq!(failed_tests(said), ["a::b", "c"]);
        assert!(failed_tests("test a ... ok\n\ntest result: ok. 1 passed\n").is_empty());
        assert!(failed_tests("test a ... \nSegmentation fault\n").is_empty());
    }

    #[test]
    fn what_nobody_has_to_test_is_lacking_if_it_did_not_run_or_was_skipped_in_part() {
        let said = "running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n";
        let lacking = |wanted: &[&str], is_last, said| {
            let wanted: Vec<String> = wanted.iter().map(|&test| test.to_owned()).collect();
            lacking(&wanted, is_last, said)
        };
        assert!(lacking(&["a"], true, said).is_empty());
        assert_eq!(lacking(&["a", "b::c", "d"], false, said).len(), 2);
        let skipped = "skipped in part: root may read everything\ntest a ... ok\n";
        assert_eq!(lacking(&["a"], true, skipped), ["it skipped in part: root may read everything"]);
        // Of others the list of what may be skipped says whether it may.
        assert!(lacking(&[], false, skipped).is_empty());
    }
}
