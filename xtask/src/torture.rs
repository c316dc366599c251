//! `cargo xtask torture`: the tests of faults on real processes in their long form, again and again, each time with
//! another seed, and a table of rows at the end.
//!
//! A row is a row of the test catalogue; a test belongs to the row that its name begins with (`c1_…` is C-1), else to its suite. What a
//! test skips for want of a privilege is counted as skipped, never as passed. A failure prints the seed that repeats it.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The test binaries of `crates/cli` that torture.
const SUITES: [&str; 8] = ["crash", "disk", "frames", "network", "races", "names", "stream", "watch"];

#[derive(clap::Args)]
pub struct Args {
    /// Begin no new test after so many minutes; each test runs at least once
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Only this row of the catalogue, for instance C-1, or tests whose name contains this
    #[arg(long, value_name = "ROW")]
    only: Option<String>,
    /// Seed of the first round (default: from the clock); a seed given runs one round
    #[arg(long)]
    seed: Option<u64>,
    /// The short forms, as in every run of the tests
    #[arg(long)]
    quick: bool,
}

#[derive(Default)]
struct Tally {
    runs: u32,
    skipped: u32,
    failures: Vec<u64>,
    time: Duration,
}

struct Test {
    binary: String,
    name: String,
    row: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let tests = tests(args.only.as_deref())?;
    ensure!(!tests.is_empty(), "no test of that row");
    let until = Instant::now() + Duration::from_secs(args.minutes * 60);
    let clock =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos()
            as u64;
    let first = args.seed.unwrap_or(clock);
    let mut rows: BTreeMap<String, Tally> = BTreeMap::new();
    'rounds: for round in 0.. {
        let seed = first.wrapping_add(round);
        for test in &tests {
            if round > 0 && Instant::now() >= until {
                break 'rounds;
            }
            one(test, seed, args.quick, rows.entry(test.row.clone()).or_default())?;
        }
        if args.seed.is_some() || Instant::now() >= until {
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
    if failures > 0 {
        bail!("{failures} failed");
    }
    Ok(())
}

fn one(test: &Test, seed: u64, quick: bool, tally: &mut Tally) -> anyhow::Result<()> {
    let since = Instant::now();
    let mut command = Command::new(&test.binary);
    command.args([&test.name, "--exact", "--test-threads", "1"]).current_dir("crates/cli");
    command.env("THALWEG_SEED", seed.to_string()).stdin(Stdio::null());
    if !quick {
        command.env("THALWEG_TORTURE", "1");
    }
    let output = command.output().with_context(|| format!("start {}", test.binary))?;
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
    println!("{:<6} {} ... {word} after {:.1} s", test.row, test.name, since.elapsed().as_secs_f64());
    if word == "FAILED" {
        println!("{text}\nrepeat: cargo xtask torture --only {} --seed {seed}", test.name);
    } else if word == "skipped" {
        text.lines().filter(|line| line.contains("skipped: ")).for_each(|line| println!("       {line}"));
    }
    Ok(())
}

/// Builds the suites and lists their tests.
fn tests(only: Option<&str>) -> anyhow::Result<Vec<Test>> {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["test", "--locked", "-p", "thalweg", "--no-run", "--message-format=json"]);
    for suite in SUITES {
        build.args(["--test", suite]);
    }
    let built = build.stderr(Stdio::inherit()).output().context("build the tests")?;
    ensure!(built.status.success(), "the tests do not build");
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&built.stdout).lines() {
        let Some((suite, binary)) = executable(line) else { continue };
        let listed = Command::new(&binary).args(["--list", "--format", "terse"]).output()?;
        for name in
            String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test"))
        {
            let row = row_of(name, suite);
            if only.is_none_or(|only| row.eq_ignore_ascii_case(only) || name.contains(only)) {
                tests.push(Test { binary: binary.clone(), name: name.to_owned(), row });
            }
        }
    }
    Ok(tests)
}

/// The program that a line of cargo's JSON tells of, if it is a test. Only this one field is wanted, and cargo writes no
/// escapes into a path without quotes and backslashes.
fn executable(line: &str) -> Option<(&'static str, String)> {
    let suite = SUITES.into_iter().find(|suite| line.contains(&format!("\"name\":\"{suite}\"")))?;
    let (_, rest) = line.split_once("\"executable\":\"")?;
    Some((suite, rest.split_once('"')?.0.to_owned()))
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
