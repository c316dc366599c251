//! `cargo xtask bench`: what thalweg promises about speed, measured, beside others, in one run, on one machine.
//!
//! `--list` names the suites; `--suite NAME` runs one and writes `bench/results/NAME.jsonl`, in the form of `thalweg
//! bench`; `cargo xtask gen` makes docs/performance.md of these files, and the table in README.md. With `--name` it is
//! a trial, which is shown nowhere. Rules for all of them:
//!
//! - Whatever is compared runs interleaved, in rounds, each beginning with another one (A B C, B C A, …), after one
//!   round that does not count; ratios are taken within a round.
//! - Wall time includes making the copy durable: thalweg does that itself, for others `sync -f` on the destination
//!   follows inside the time (and for thalweg too, where it finds nothing to do). The time before it is told as well.
//! - CPU is that of all processes of both sides, read from a control group that they run in. The kernel's own threads
//!   (write-back) are not in it, which favours tools that write through the page cache.
//! - Each copy is compared with its source afterwards, outside the time.
//! - All of it runs in name spaces of its own (network, mounts, processes), with one congestion control for all tools
//!   (cubic, or reno where there is no cubic): comparisons over loopback under bbr measure bbr. So that cubic can be
//!   used there, the machine's list of what is permitted has it for the time of the run.
//! - What cannot run is left out, and the result says so and why.
//!
//! It needs root, and installs the peers from Debian's packages; what Debian has not, for `beside-zeromq` and the
//! object stores, from Python's and Go's. Everything is below `target/` and goes at the end, but for what was
//! installed there.

use crate::scratch::Scratch;
use crate::servers;
use crate::{cargo, command, packages, stores};
use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_lab::bench::record::About;

pub mod control_group;

mod data;

pub mod workspace;

mod peers;

pub mod record;

pub mod rows;

mod network;

mod copies;

pub mod suite;

pub mod tell;

pub mod stale;

use record::Log;
use suite::{SUITES, Suite};
use workspace::Workspace;

/// Options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Show the suites, what each answers, and how long it takes
    #[arg(long)]
    list: bool,
    /// Which suite
    #[arg(long, value_name = "NAME", required_unless_present = "list")]
    suite: Option<String>,
    /// Counted runs of each tool in each scenario (default: the suite's own)
    #[arg(long)]
    runs: Option<usize>,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only tools whose name contains this (thalweg is always there)
    #[arg(long, default_value = "")]
    tool: String,
    /// Bytes of the large file, in MiB (default: the suite's own)
    #[arg(long)]
    large_mib: Option<u64>,
    /// Tree of the mixed scenario of `beside-rsync` (default: the Rust toolchain)
    #[arg(long, value_name = "DIR")]
    mixed: Option<PathBuf>,
    /// Only with a warm page cache, in `beside-rsync`
    #[arg(long)]
    warm_only: bool,
    /// A trial: the result is not for committing, and goes to target/bench/NAME.jsonl (default: bench/results, with the
    /// suite's name)
    #[arg(long)]
    name: Option<String>,
    /// The program to measure (default: this checkout's, built for release)
    #[arg(long, value_name = "PROGRAM")]
    thalweg: Option<PathBuf>,
    /// Already in name spaces of its own, with this scratch directory
    #[arg(long, hide = true, value_name = "DIR")]
    inside: Option<PathBuf>,
}

/// What a suite runs with.
pub struct Bench<'a> {
    args: &'a Args,
    suite: &'a Suite,
    workspace: Workspace,
    log: Log,
}

impl Bench<'_> {
    /// Counted rounds.
    fn runs(&self) -> usize {
        self.args.runs.unwrap_or(self.suite.runs)
    }

    /// Bytes of the large file, where the suite itself has `mib`.
    fn large_bytes(&self, mib: u64) -> u64 {
        self.args.large_mib.unwrap_or(mib) << 20
    }

    fn wants(&self, scenario: &str) -> bool {
        scenario.contains(&self.args.only)
    }
}

/// Runs it.
///
/// # Errors
/// If thalweg fails, or a copy is not the same as its source.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        for suite in SUITES {
            println!("{:<14} {}\n{:14} {} runs, {}", suite.name, suite.asks, "", suite.runs, suite.takes);
        }
        return Ok(());
    }
    let wanted = args.suite.as_deref().unwrap_or_default();
    let suite = SUITES.iter().find(|suite| suite.name == wanted);
    let suite = suite.with_context(|| format!("there is no suite `{wanted}`; see --list"))?;
    let thalweg = match &args.thalweg {
        Some(program) => fs::canonicalize(program).with_context(|| program.display().to_string())?,
        None => cargo::build_release()?,
    };
    let Some(scratch) = &args.inside else {
        install_peers();
        cargo::build_primitives()?;
        if suite.name == suite::beside_zeromq::NAME {
            suite::beside_zeromq::prepare()?;
        }
        if [suite::objects::NAME, suite::objects::distance::NAME].contains(&suite.name) {
            stores::install_for_bench()?;
        }
        return go_inside();
    };
    command::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    choose_congestion_control()?;
    let about = record::about(suite.name, &command())?;
    let about = About {
        question: suite.asks.to_owned(),
        program: version(&thalweg)?,
        path: (suite.path)(),
        iterations: u32::try_from(args.runs.unwrap_or(suite.runs)).unwrap_or(u32::MAX),
        ..about
    };
    let path = match &args.name {
        Some(name) => record::path_of_trial(name),
        None => record::path(suite.name),
    };
    let mut bench = Bench {
        args,
        suite,
        workspace: Workspace::new(thalweg, Scratch::at(scratch))?,
        log: Log::begin(path, about)?,
    };
    (suite.run)(&mut bench)?;
    let path = bench.log.end()?;
    println!("{}", path.display());
    println!("{}", (suite.tell)(&record::Results::read_at(&path)?)?);
    Ok(())
}

/// Its name and version, without its commit: that is the checkout's.
fn version(thalweg: &Path) -> Result<String> {
    let told = command::says(Command::new(thalweg).arg("--version"))?;
    Ok(told.split(" (commit ").next().unwrap_or_default().to_owned())
}

/// All at once, or else one by one: a package that cannot be had must not keep the others away. Tools that are missing
/// are left out later, and the result says so.
fn install_peers() {
    if packages::install(&peers::PACKAGES).is_ok() {
        return;
    }
    for package in peers::PACKAGES {
        if let Err(error) = packages::install(&[package]) {
            eprintln!("{}: {error:#}", package.0);
        }
    }
}

/// What was typed.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).take_while(|word| word != INSIDE).collect();
    format!("cargo xtask {}", words.join(" "))
}

const INSIDE: &str = "--inside";

/// Runs this program again in name spaces of its own: network, mounts and processes, so that nothing stays when it ends
/// or is stopped.
fn go_inside() -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let scratch = Scratch::new("bench")?;
    let _permitted = Permitted::cubic();
    let mut again = Command::new("unshare");
    again.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    again.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).arg(INSIDE).arg(scratch.path(""));
    let mut inside = again.spawn().context("unshare (util-linux)")?;
    loop {
        if let Some(status) = inside.try_wait()? {
            ensure!(status.success(), "the suite failed");
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            servers::end(&mut inside);
            bail!("stopped");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The machine's list of permitted congestion controls, with cubic; as it was when the value goes.
struct Permitted(String);

impl Permitted {
    const LIST: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    fn cubic() -> Permitted {
        let before = fs::read_to_string(Self::LIST).unwrap_or_default().trim().to_owned();
        // Where it cannot be, suites use what can and say so.
        let _ = fs::write(Self::LIST, format!("{before} cubic"));
        Permitted(before)
    }
}

impl Drop for Permitted {
    fn drop(&mut self) {
        let _ = fs::write(Self::LIST, &self.0);
    }
}

fn choose_congestion_control() -> Result<()> {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    let set = ["cubic", "reno"].iter().any(|name| fs::write(path, name).is_ok());
    if !set {
        bail!("neither cubic nor reno is permitted in {path}");
    }
    Ok(())
}
