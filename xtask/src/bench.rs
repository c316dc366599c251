//! `cargo xtask bench`: thalweg beside rsync, on the same machine, in the same run.
//!
//! Every scenario is copied by every tool in turn, several times over, each time beginning with another one
//! (A B C D, B C D A, …), so that neither drift nor order favours one. Equal terms:
//!
//! - Wall time includes making the copy durable: thalweg does that itself, for rsync `sync -f` on the destination
//!   follows inside the time (and for thalweg too, where it finds nothing to do).
//! - CPU is that of all processes of both sides, read from a control group that they run in.
//! - rsync keeps what thalweg keeps (`-aHAX`), holes excepted, which cost it more; nobody compresses.
//! - Each copy is compared with its source afterwards, outside the time.
//!
//! Not equal, and said beside the figures: rsync's daemon does not encrypt.
//!
//! Samples go to `bench/results/NAME.jsonl`: what it was measured on, then one object a sample. The tables, the one in
//! README.md too, are made from these files only.

use crate::servers::{self, Daemon, Sshd};
use crate::tools::{self, Scratch};
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

pub mod group;

pub mod table;

use group::Group;

/// Options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Counted runs of each tool in each scenario
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only tools whose name contains this (thalweg is always there)
    #[arg(long, default_value = "")]
    tool: String,
    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 2048)]
    large_mib: u64,
    /// Files of the small scenario
    #[arg(long, default_value_t = 20_000)]
    small_files: u32,
    /// Tree of the mixed scenario (default: the Rust toolchain)
    #[arg(long, value_name = "DIR")]
    mixed: Option<PathBuf>,
    /// Only with a warm page cache
    #[arg(long)]
    warm_only: bool,
    /// Name of the result file below bench/results, without ending
    #[arg(long, default_value = "latest")]
    name: String,
}

/// The tools, as they are called in results.
pub const TOOLS: [&str; 4] = ["thalweg daemon", "rsync daemon", "thalweg ssh", "rsync ssh"];

/// Bytes of a file of the small scenario.
const SMALL_BYTES: usize = 4096;

struct Scenario {
    name: &'static str,
    source: PathBuf,
    bytes: u64,
    files: u64,
}

struct Sample {
    wall_s: f64,
    cpu_s: f64,
}

/// Runs it.
///
/// # Errors
/// If a tool fails, or a copy is not the same as its source.
pub fn run(args: &Args) -> Result<()> {
    let thalweg = tools::build_release()?;
    let scratch = Scratch::new("bench")?;
    let group = Group::new()?;
    let servers = Servers::start(&thalweg, &scratch, &group)?;
    let scenarios = make_scenarios(&scratch, args)?;
    let path = table::results(&args.name);
    fs::create_dir_all(path.parent().context("bench/results")?)?;
    let mut out = fs::File::create(&path)?;
    writeln!(out, "{}", about()?)?;
    let caches: &[&str] = if args.warm_only { &["warm"] } else { &["warm", "cold"] };
    for scenario in &scenarios {
        for cache in caches {
            rounds(args, &servers, scenario, cache, &mut out)?;
            // Not between runs: creating after a mass deletion is slow on ext4. The first round warms up.
            for entry in fs::read_dir(&servers.export)? {
                fs::remove_dir_all(entry?.path())?;
            }
        }
    }
    println!("{}", table::table(&path)?);
    Ok(())
}

/// All runs of a scenario.
fn rounds(
    args: &Args,
    servers: &Servers<'_>,
    scenario: &Scenario,
    cache: &str,
    out: &mut fs::File,
) -> Result<()> {
    let mut tools: Vec<&str> = TOOLS.to_vec();
    tools.retain(|tool| tool.starts_with("thalweg") || tool.contains(&args.tool));
    for run in 0..=args.runs {
        for tool in &tools {
            let destination = servers.export.join(format!("{run}-{}", tool.replace(' ', "-")));
            prepare(&scenario.source, cache)?;
            let sample = servers.copy(tool, &scenario.source, &destination)?;
            tools::same_tree(&scenario.source, &destination)?;
            // One large file is deleted in no time, and many of them would fill the disk.
            if scenario.files == 1 {
                fs::remove_dir_all(&destination)?;
            }
            eprintln!("{} {cache} {tool} {run}: {:.2} s", scenario.name, sample.wall_s);
            if run > 0 {
                let line = json!({
                    "scenario": scenario.name, "cache": cache, "tool": tool, "run": run,
                    "bytes": scenario.bytes, "files": scenario.files,
                    "wall_s": sample.wall_s, "cpu_s": sample.cpu_s,
                });
                writeln!(out, "{line}")?;
            }
        }
        tools.rotate_left(1);
    }
    Ok(())
}

/// What it was measured on.
fn about() -> Result<serde_json::Value> {
    let says = |program: &str, words: &[&str]| -> Result<String> {
        let output = Command::new(program).args(words).current_dir(tools::root()).output();
        let output = output.with_context(|| program.to_owned())?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
    };
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let target = tools::root().join("target").display().to_string();
    Ok(json!({"about": {
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism()?.get(),
        "kernel": says("uname", &["-sr"])?,
        "file_system": says("findmnt", &["-n", "-o", "FSTYPE", "-T", &target])?,
        "rsync": says("rsync", &["--version"])?,
        "commit": says("git", &["describe", "--always", "--dirty"])?,
        "date": says("date", &["-u", "+%F"])?,
    }}))
}

fn make_scenarios(scratch: &Scratch, args: &Args) -> Result<Vec<Scenario>> {
    let toolchain = tools::rust_toolchain()?;
    let mut scenarios = Vec::new();
    let wanted = |name: &str| name.contains(&args.only);
    if wanted("large") {
        let (source, bytes) = (scratch.path("large"), args.large_mib << 20);
        fs::create_dir(&source)?;
        crate::demo::make_large_file(&toolchain, &source.join("file"), bytes)?;
        scenarios.push(Scenario { name: "large", source, bytes, files: 1 });
    }
    if wanted("small") {
        let source = scratch.path("small");
        make_small_files(&source, args.small_files)?;
        let files = u64::from(args.small_files);
        scenarios.push(Scenario { name: "small", source, bytes: files * SMALL_BYTES as u64, files });
    }
    if wanted("mixed") {
        let source = args.mixed.clone().unwrap_or(toolchain);
        let (mut bytes, mut files) = (0, 0);
        for file in tools::files_below(&source)? {
            bytes += fs::metadata(file)?.len();
            files += 1;
        }
        scenarios.push(Scenario { name: "mixed", source, bytes, files });
    }
    ensure!(!scenarios.is_empty(), "there is no scenario `{}`", args.only);
    Ok(scenarios)
}

/// Files of [`SMALL_BYTES`] that do not compress, in 16 directories.
fn make_small_files(directory: &Path, files: u32) -> Result<()> {
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    for number in 0..files {
        let below = directory.join(format!("d{:02}", number % 16));
        if number < 16 {
            fs::create_dir_all(&below)?;
        }
        let mut content = [0; SMALL_BYTES];
        for word in content.chunks_exact_mut(8) {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(noise ^ (noise >> 29)).to_le_bytes());
        }
        fs::write(below.join(format!("f{number:05}")), content)?;
    }
    Ok(())
}

/// Warm: read everything once. Cold: drop the caches.
fn prepare(source: &Path, cache: &str) -> Result<()> {
    tools::run(&mut Command::new("sync"))?;
    if cache == "cold" {
        return fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the page cache (needs root)");
    }
    for file in tools::files_below(source)? {
        std::io::copy(&mut fs::File::open(file)?, &mut std::io::sink())?;
    }
    Ok(())
}

/// The daemons, in the control group.
struct Servers<'a> {
    group: &'a Group,
    daemon: Daemon,
    sshd: Sshd,
    rsyncd: Child,
    rsync_address: String,
    export: PathBuf,
    thalweg: PathBuf,
    state: PathBuf,
}

impl<'a> Servers<'a> {
    fn start(thalweg: &Path, scratch: &Scratch, group: &'a Group) -> Result<Servers<'a>> {
        let export = scratch.path("export");
        fs::create_dir(&export)?;
        let enter = |command| group.enter(command);
        let exports = [format!("bench={}", export.display())];
        let rsync_port = servers::free_port()?;
        let rsync_address = format!("127.0.0.1:{rsync_port}");
        let config = scratch.path("rsyncd.conf");
        // A control group needs root, so the daemon is root's, and would change its user without these.
        let users = "uid = root\ngid = root";
        let text =
            format!("use chroot = no\n{users}\n[bench]\npath = {}\nread only = no\n", export.display());
        fs::write(&config, text)?;
        let mut rsyncd = Command::new("rsync");
        rsyncd.args(["--daemon", "--no-detach", "--address=127.0.0.1", &format!("--port={rsync_port}")]);
        rsyncd.arg(format!("--config={}", config.display()));
        Ok(Servers {
            group,
            daemon: Daemon::start(thalweg, scratch, &exports, enter)?,
            sshd: Sshd::start(scratch, enter)?,
            rsyncd: servers::start(group.enter(rsyncd), &rsync_address, "rsync's daemon")?,
            rsync_address,
            export,
            thalweg: thalweg.to_owned(),
            state: scratch.path("client-state"),
        })
    }

    fn copy(&self, tool: &str, source: &Path, destination: &Path) -> Result<Sample> {
        let name = destination.file_name().and_then(|name| name.to_str()).context("a name")?;
        let from = format!("{}/", source.display());
        let at_ssh = format!("127.0.0.1:{}", destination.display());
        let rsh = self.sshd.rsh();
        let (thalweg, rsync) = (|| Command::new(&self.thalweg), || Command::new("rsync"));
        let command = match tool {
            "thalweg daemon" => {
                let mut command = thalweg();
                command.args(["cp", "-q", "--ticket"]).arg(&self.daemon.ticket);
                command.args([&from, &format!("tw://{}/bench/{name}", self.daemon.address)]);
                command
            }
            "thalweg ssh" => {
                let mut command = thalweg();
                command.args(["cp", "-q", "-e", &rsh, "--far-path"]).arg(&self.thalweg);
                command.args([&from, &at_ssh]);
                command
            }
            "rsync daemon" => {
                let mut command = rsync();
                command.args(["-aHAXW", &from, &format!("rsync://{}/bench/{name}", self.rsync_address)]);
                command
            }
            "rsync ssh" => {
                let mut command = rsync();
                command.args(["-aHAXW", "-e", &rsh, &from, &at_ssh]);
                command
            }
            _ => bail!("no tool {tool}"),
        };
        let mut sync = Command::new("sync");
        sync.arg("-f").arg(destination);
        let cpu = self.group.cpu()?;
        let started = Instant::now();
        for mut command in [command, sync] {
            command.env("THALWEG_STATE", &self.state);
            let mut command = self.group.enter(command);
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "{tool}: {command:?} ended with {status}");
        }
        let wall_s = started.elapsed().as_secs_f64();
        // Far sides of ssh may still be ending.
        Ok(Sample { wall_s, cpu_s: (self.group.cpu()? - cpu).as_secs_f64() })
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        servers::end(&mut self.rsyncd);
    }
}
