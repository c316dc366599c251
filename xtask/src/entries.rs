//! `cargo xtask entries`: trees of very many entries, and what they cost.
//!
//! Three trees: directories of a thousand files; one directory with all of them; and the first once more, with one
//! large file that comes before all others, sent slowly, so that everything waits behind it. Each is copied on this
//! machine, pushed to a daemon and pulled from one. Told of each copy:
//!
//! - *first*: seconds from the start of the program until the first file with content stands, verified, in the
//!   destination's staging directory. SPEC.md promises less than one for a million entries.
//! - *client*, *daemon*: the most memory that each ever had (`VmHWM`). It must not grow with the tree.
//! - *CPU*: seconds of both sides.

use crate::bench::group::Group;
use crate::servers::Daemon;
use crate::tools::{self, Scratch};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files of a directory in the trees that have many.
const FILES_IN_DIRECTORY: u64 = 1000;
/// Time between two looks at the copy.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// How fast the large file goes.
const SLOWLY: &str = "40MB/s";

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Files of each tree
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 1024)]
    large_mib: u64,
    /// Only this tree: `deep`, `flat` or `behind`
    #[arg(long, default_value = "")]
    only: String,
    /// Where copies go (default: below target/)
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// If a copy fails or is not whole.
pub fn run(args: &Args) -> Result<()> {
    let thalweg = tools::build_release()?;
    let scratch = Scratch::new("entries")?;
    let bench =
        Bench { group: Group::new()?, to: args.to.clone().unwrap_or(scratch.path("export")), thalweg };
    println!(
        "{:<7} {:<6} {:>9} {:>8} {:>8} {:>10} {:>11} {:>11} {:>8}",
        "tree", "way", "entries", "first s", "all s", "entries/s", "client MiB", "daemon MiB", "CPU s"
    );
    let wanted = |name: &str| name.contains(&args.only);
    let deep = scratch.path("deep");
    if wanted("deep") || wanted("behind") {
        for directory in 0..args.files.div_ceil(FILES_IN_DIRECTORY) {
            let left = args.files - directory * FILES_IN_DIRECTORY;
            make_files(&deep.join(format!("d{directory:05}")), left.min(FILES_IN_DIRECTORY))?;
        }
    }
    if wanted("deep") {
        bench.tree("deep", &deep, &scratch, &[])?;
    }
    if wanted("behind") {
        // First in the order of names.
        let large = deep.join("a-large");
        crate::demo::make_large_file(&tools::rust_toolchain()?, &large, args.large_mib << 20)?;
        bench.tree("behind", &deep, &scratch, &["--bwlimit", SLOWLY])?;
    }
    if wanted("flat") {
        let flat = scratch.path("flat");
        make_files(&flat, args.files)?;
        bench.tree("flat", &flat, &scratch, &[])?;
    }
    Ok(())
}

fn make_files(directory: &Path, files: u64) -> Result<()> {
    fs::create_dir_all(directory)?;
    for number in 0..files {
        fs::write(directory.join(format!("f{number:07}")), b"x")?;
    }
    Ok(())
}

struct Bench {
    group: Group,
    /// Where copies go.
    to: PathBuf,
    thalweg: PathBuf,
}

impl Bench {
    fn tree(&self, name: &str, from: &Path, scratch: &Scratch, options: &[&str]) -> Result<()> {
        for way in ["local", "push", "pull"] {
            self.copy(name, from, way, scratch, options)?;
        }
        Ok(())
    }

    fn copy(&self, name: &str, from: &Path, way: &str, scratch: &Scratch, options: &[&str]) -> Result<()> {
        let copy = self.to.join("copy");
        fs::create_dir_all(&self.to)?;
        // A daemon for each, so that its peak is of this copy.
        let exports = [format!("in={}", self.to.display()), format!("out={}:ro", from.display())];
        let daemon = Daemon::start(&self.thalweg, scratch, &exports, |command| self.group.enter(command))?;
        let (here, there) = (format!("{}/", from.display()), copy.display().to_string());
        let places = match way {
            "push" => [here, format!("tw://{}/in/copy", daemon.address)],
            "pull" => [format!("tw://{}/out/", daemon.address), there],
            _ => [here, there],
        };
        let mut command = Command::new(&self.thalweg);
        command.args(["cp", "--json", "--ticket"]).arg(&daemon.ticket).args(options).args(&places);
        command.env("THALWEG_STATE", scratch.path("client-state"));
        let told = scratch.path("told");
        let cpu = self.group.cpu()?;
        let started = Instant::now();
        let mut client =
            self.group.enter(command).stdin(Stdio::null()).stdout(fs::File::create(&told)?).spawn()?;
        let (mut first, mut most) = (None, 0);
        let status = loop {
            if first.is_none() && has_content(&copy) {
                first = Some(started.elapsed());
            }
            most = most.max(peak_memory(client.id()).unwrap_or(most));
            if let Some(status) = client.try_wait()? {
                break status;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let seconds = started.elapsed().as_secs_f64();
        let cpu_s = (self.group.cpu()? - cpu).as_secs_f64();
        let told = fs::read_to_string(told)?;
        let last = told.lines().last().unwrap_or_default();
        ensure!(status.success(), "{name}, {way}: {status}: {last}");
        let last: serde_json::Value = serde_json::from_str(last)?;
        let entries = last["done"].as_f64().with_context(|| format!("no `done` in {last}"))?;
        let of_daemon = peak_memory(daemon.pid()).context("the daemon's memory")?;
        daemon.stop()?;
        println!(
            "{name:<7} {way:<6} {entries:>9} {:>8.2} {seconds:>8.1} {:>10.0} {:>11} {:>11} {cpu_s:>8.1}",
            first.map_or(f64::NAN, |first| first.as_secs_f64()),
            entries / seconds,
            most >> 20,
            if way == "local" { "-".to_owned() } else { (of_daemon >> 20).to_string() },
        );
        fs::remove_dir_all(&copy)?;
        Ok(())
    }
}

/// Whether a small file with content stands in the staging directory of a copy.
fn has_content(copy: &Path) -> bool {
    let below = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let jobs = below(&copy.join(".thalweg-staging"));
    let lanes = jobs.flat_map(|job| below(&job.path()).collect::<Vec<_>>());
    let mut lanes = lanes.filter(|lane| lane.file_name().to_string_lossy().starts_with("lane-"));
    lanes.any(|lane| below(&lane.path()).any(|file| file.metadata().is_ok_and(|meta| meta.len() > 0)))
}

/// The most memory that a process ever had, in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
