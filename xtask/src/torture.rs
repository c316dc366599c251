//! `cargo xtask torture`: the tests of faults on real processes in their long form, again and again, each time with
//! another seed, and a table of rows at the end.
//!
//! `--kills` is one part of it by itself: of streams, of frames and of watches, each side and the link killed or cut so
//! many times at random moments, with what held told for each; `--out FILE` has it in numbers, one JSON object for
//! each, from which `cargo xtask gen` makes the tables of docs/faults.md. What a test counted is in it although it
//! failed: then there are losses to be seen.
//!
//! A row is a row of docs/faults.md, by its key; a test belongs to the row that its name begins with (`c1_…` is C-1),
//! else to its suite. What a test skips for want of a privilege is counted as skipped, never as passed. A failure
//! prints the seed that repeats it.

use crate::bench::{record, rows};
use crate::cargo;
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The test binaries of `crates/cli` that torture.
const SUITES: [&str; 8] = ["crash", "disk", "frames", "network", "races", "names", "stream", "watch"];

/// What strikes at random moments: producers, consumers, movers at both sides, watches and the keepers of what they
/// run, links.
pub const KILLS: [(&str, &str); 16] = [
    ("stream", "a_growing_file_outlives_kills_of_either_side_and_cuts_of_the_link"),
    ("stream", "a_file_that_grows_far_away_outlives_kills_of_either_side_and_cuts_of_the_link"),
    ("stream", "a_pipe_outlives_cuts_and_restarts_of_the_daemon"),
    ("stream", "a_consumer_outlives_restarts_of_the_daemon_that_it_pulls_from"),
    ("stream", "a_producer_killed_at_any_moment_leaves_the_beginning_of_what_the_next_one_says"),
    ("stream", "a_consumer_killed_at_any_moment_got_the_beginning_and_the_next_gets_the_whole"),
    ("frames", "durable_frames_outlive_kills_of_their_hub_and_come_exactly_once"),
    ("frames", "frames_in_the_memory_of_a_hub_that_is_killed_are_delivered_or_named"),
    ("frames", "cuts_of_the_link_lose_nothing_and_double_nothing"),
    ("frames", "a_producer_killed_at_any_moment_leaves_whole_frames_and_goes_on_in_turn"),
    ("frames", "a_consumer_killed_at_any_moment_goes_on_and_misses_no_more_than_it_had_in_hand"),
    ("frames", "a_consumer_killed_in_the_middle_of_a_file_of_frames_has_all_of_them_once"),
    ("frames", "a_consumer_killed_with_all_frames_in_one_file_has_all_of_them_once"),
    ("watch", "killed_at_any_moment_nothing_is_lost_and_nothing_analysed_twice"),
    ("watch", "killed_at_any_moment_items_in_order_are_analysed_one_after_the_other_and_once"),
    (
        "watch",
        "keepers_guards_watchers_and_links_that_go_at_any_moment_lose_nothing_and_analyse_nothing_twice",
    ),
];

#[derive(clap::Args)]
pub struct Args {
    /// Begin no new test after so many minutes; each test runs at least once
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Only this row of docs/faults.md, for instance C-1, or tests whose name contains this
    #[arg(long, value_name = "ROW")]
    only: Option<String>,
    /// Seed of the first round (default: from the clock); a seed given runs one round
    #[arg(long)]
    seed: Option<u64>,
    /// The short forms, as in every run of the tests
    #[arg(long)]
    quick: bool,
    /// Only what kills and cuts streams, frames and watches at random moments: each so many times that count, which are
    /// those that met something under way and were seen to be survived before the next, in one round
    #[arg(long, value_name = "TIMES", num_args = 0..=1, default_missing_value = "50", conflicts_with = "quick")]
    kills: Option<u64>,
    /// What was killed and cut how often, and what became of it, as JSON lines. bench/results/kills.jsonl is shown in
    /// docs/faults.md. Written when all is over
    #[arg(long, value_name = "FILE", requires = "kills")]
    out: Option<PathBuf>,
}

#[derive(Default)]
struct Tally {
    runs: u32,
    skipped: u32,
    failures: Vec<u64>,
    time: Duration,
}

struct Test {
    suite: &'static str,
    binary: PathBuf,
    name: String,
    row: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut tests = tests(args.only.as_deref(), args.kills.is_some())?;
    if args.kills.is_some() {
        let is_one = |test: &Test, kill: &(&str, &str)| is_kill(*kill, test.suite, &test.name);
        tests.retain(|test| KILLS.iter().any(|kill| is_one(test, kill)));
        let is_there = |kill: &&(&str, &str)| tests.iter().any(|test| is_one(test, kill));
        let missing = KILLS.iter().find(|kill| args.only.is_none() && !is_there(kill));
        ensure!(missing.is_none(), "there is no such test: {missing:?}");
    }
    ensure!(!tests.is_empty(), "no test of that row");
    let until = Instant::now() + Duration::from_secs(args.minutes * 60);
    let clock =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos()
            as u64;
    let first = args.seed.unwrap_or(clock);
    // Of the machine as it was before.
    let about = args.out.as_ref().map(|_| record::about("kills", &repeat(args))).transpose()?;
    let mut outcomes = Vec::new();
    let mut rows: BTreeMap<String, Tally> = BTreeMap::new();
    'rounds: for round in 0.. {
        let seed = first.wrapping_add(round);
        for test in &tests {
            if round > 0 && Instant::now() >= until {
                break 'rounds;
            }
            outcomes.push(one(test, seed, args, rows.entry(test.row.clone()).or_default())?);
        }
        if args.seed.is_some() || args.kills.is_some() || Instant::now() >= until {
            break;
        }
    }
    println!("{:<8} {:>5} {:>8} {:>9} {:>8}", "row", "runs", "skipped", "failures", "seconds");
    let mut failures = 0;
    for (row, tally) in &rows {
        failures += tally.failures.len();
        let seconds = tally.time.as_secs();
        println!("{row:<8} {:>5} {:>8} {:>9} {seconds:>8}", tally.runs, tally.skipped, tally.failures.len());
    }
    if let (Some(path), Some(about)) = (&args.out, about) {
        rows::write(path, &about, &outcomes)?;
    }
    if failures > 0 {
        bail!("{failures} failed");
    }
    Ok(())
}

/// Whether the test of this suite and name, which has those of its modules, is this one of [`KILLS`].
pub fn is_kill(kill: (&str, &str), suite: &str, name: &str) -> bool {
    suite == kill.0 && name.rsplit("::").next() == Some(kill.1)
}

/// The command, as it may be given again.
fn repeat(args: &Args) -> String {
    let mut command = "cargo xtask torture".to_owned();
    if let Some(times) = args.kills {
        command += &format!(" --kills {times}");
    }
    if let Some(only) = &args.only {
        command += &format!(" --only {only}");
    }
    if let Some(out) = &args.out {
        command += &format!(" --out {}", out.display());
    }
    command
}

/// Runs one test. How it ended, with what it counted.
fn one(test: &Test, seed: u64, args: &Args, tally: &mut Tally) -> anyhow::Result<Value> {
    let since = Instant::now();
    let mut command = Command::new(&test.binary);
    command.args([&test.name, "--exact", "--test-threads", "1"]).current_dir("crates/cli");
    command.env("THALWEG_SEED", seed.to_string()).stdin(Stdio::null());
    if !args.quick {
        command.env("THALWEG_TORTURE", "1");
    }
    if let Some(times) = args.kills {
        command.env("THALWEG_STRIKES", times.to_string());
    }
    let output = command.output().with_context(|| format!("start {}", test.binary.display()))?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    tally.runs += 1;
    tally.time += since.elapsed();
    let word = if !output.status.success() {
        tally.failures.push(seed);
        "FAILED"
    } else if text.contains("skipped: ") {
        tally.skipped += 1;
        "skipped"
    } else {
        "ok"
    };
    let seconds = since.elapsed().as_secs_f64();
    println!("{:<6} {} ... {word} after {seconds:.1} s, seed {seed}", test.row, test.name);
    text.lines().filter(|line| line.starts_with("struck: ")).for_each(|line| println!("       {line}"));
    if word == "FAILED" {
        let kills = args.kills.map_or(String::new(), |times| format!(" --kills {times}"));
        println!("{text}\nrepeat: cargo xtask torture{kills} --only {} --seed {seed}", test.name);
    } else if word == "skipped" {
        text.lines().filter(|line| line.contains("skipped: ")).for_each(|line| println!("       {line}"));
    }
    Ok(outcome((test.suite, &test.name), seed, (word, seconds), &text))
}

/// How a test says what it counted.
const COUNTED: &str = "counted: ";

/// How a test of this suite and name ended, and what it said.
///
/// `test`, `seed`, `outcome` (`ok`, `skipped`, `FAILED`), `seconds`, and what the test counted (`Count` in
/// crates/cli/tests/support/count.rs), however it ended: `ended` says whether it came to its end. `strikes` has each by
/// itself: `of`, `under_way` (whether there was anything to break), `had` (what was marked, delivered or done by then),
/// `from` (where it was seen to go on before the next strike, or null). A strike counts that has both; the tests make
/// those that do not again (`Plan` in crates/cli/tests/support/plan.rs).
pub fn outcome(test: (&str, &str), seed: u64, ended: (&str, f64), said: &str) -> Value {
    let counted = said.lines().filter_map(|line| line.split_once(COUNTED)).map(|(_, counted)| counted);
    let counted = counted.filter_map(|counted| serde_json::from_str::<Value>(counted).ok()).next_back();
    let mut outcome = json!({
        "test": format!("{} {}", test.0, test.1), "seed": seed, "outcome": ended.0, "seconds": ended.1,
    });
    // A test that failed counted too: that is what it is asked for.
    if let (Value::Object(outcome), Some(Value::Object(counted))) = (&mut outcome, counted) {
        outcome.extend(counted);
    }
    outcome
}

/// Builds the suites, or those that kill, and lists their tests.
fn tests(only: Option<&str>, only_kills: bool) -> anyhow::Result<Vec<Test>> {
    let suites = SUITES.iter().filter(|suite| !only_kills || KILLS.iter().any(|(kills, _)| kills == *suite));
    let mut words = vec!["test", "--locked", "-p", "thalweg"];
    words.extend(suites.flat_map(|suite| ["--test", suite]));
    let mut tests = Vec::new();
    for built in cargo::built(&words)? {
        let Some(suite) = SUITES.into_iter().find(|suite| *suite == built.name) else { continue };
        let binary = built.program;
        let listed = Command::new(&binary).args(["--list", "--format", "terse"]).output()?;
        for name in
            String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test"))
        {
            let row = row_of(name, suite);
            if only.is_none_or(|only| row.eq_ignore_ascii_case(only) || name.contains(only)) {
                tests.push(Test { suite, binary: binary.clone(), name: name.to_owned(), row });
            }
        }
    }
    Ok(tests)
}

/// `c1_a_push…` is of row C-1, `p12_…` of P12; what has no row is of its suite.
fn row_of(name: &str, suite: &str) -> String {
    let start = name.split('_').next().unwrap_or(name).to_uppercase();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match start.split_at_checked(1) {
        Some(("P", number)) if is_number(number) => start,
        Some((letter, number)) if is_number(number) => format!("{letter}-{number}"),
        _ => suite.to_owned(),
    }
}
