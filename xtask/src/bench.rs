//! `cargo xtask bench`: thalweg beside rsync, on the same machine, in the same run.
//!
//! Every scenario is copied by every tool in turn, several times over (A B C D, A B C D, …), so that drift favours
//! none. Wall time includes making the copy durable: thalweg does that itself, for rsync `sync -f` on the destination
//! follows inside the time (and for thalweg too, where it finds nothing to do). CPU is that of all processes of both
//! sides, read from a control group that they run in. Each copy is compared with its source afterwards, outside the
//! time. Samples go to `bench/results/*.jsonl`, one JSON object a line; the table shows medians and ratios.

use crate::tools::{self, Scratch};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
    /// Bytes of the large file, in GiB
    #[arg(long, default_value_t = 4)]
    large_gib: u64,
    /// Also with a cold page cache (needs root)
    #[arg(long)]
    cold: bool,
    /// Name of the result file below bench/results, without ending
    #[arg(long, default_value = "latest")]
    name: String,
}

const TOOLS: [&str; 4] = ["thalweg daemon", "rsync daemon", "thalweg ssh", "rsync ssh"];

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
    let sources = make_sources(&scratch, args)?;
    let results = tools::root().join("bench/results");
    fs::create_dir_all(&results)?;
    let mut out = fs::File::create(results.join(format!("{}.jsonl", args.name)))?;

    let mut table: BTreeMap<String, BTreeMap<&str, Vec<Sample>>> = BTreeMap::new();
    let caches: &[&str] = if args.cold { &["warm", "cold"] } else { &["warm"] };
    for (scenario, source, bytes) in &sources {
        for cache in caches {
            let row = format!("{scenario}, {cache}");
            for run in 0..=args.runs {
                for tool in
                    TOOLS.iter().filter(|tool| tool.starts_with("thalweg") || tool.contains(&args.tool))
                {
                    let destination = servers.export.join(format!("{run}-{}", tool.replace(' ', "-")));
                    prepare(source, cache)?;
                    let sample = servers.copy(tool, source, &destination, &group)?;
                    verify(source, &destination)?;
                    // Not between runs of small files: creating after a mass deletion is slow on ext4.
                    if *scenario == "large" {
                        fs::remove_dir_all(&destination)?;
                    }
                    // The first round warms up.
                    if run > 0 {
                        let line = format!(
                            "{{\"scenario\":\"{scenario}\",\"cache\":\"{cache}\",\"tool\":\"{tool}\",\"run\":{run},\"bytes\":{bytes},\"wall_s\":{:.4},\"cpu_s\":{:.4}}}",
                            sample.wall_s, sample.cpu_s
                        );
                        writeln!(out, "{line}")?;
                        table.entry(row.clone()).or_default().entry(tool).or_default().push(sample);
                    }
                }
            }
        }
        for entry in fs::read_dir(&servers.export)? {
            fs::remove_dir_all(entry?.path())?;
        }
    }
    show(&table, &sources);
    Ok(())
}

fn show(table: &BTreeMap<String, BTreeMap<&str, Vec<Sample>>>, sources: &[(&str, PathBuf, u64)]) {
    println!(
        "\n{:<16} {:<16} {:>9} {:>9} {:>12} {:>14}",
        "scenario", "tool", "wall s", "Gbit/s", "CPU-s/GB", "wall vs first"
    );
    for (row, tools) in table {
        let bytes =
            sources.iter().find(|(name, ..)| row.starts_with(name)).map_or(0, |(_, _, bytes)| *bytes) as f64;
        let first = tools.get(TOOLS[0]).map(|samples| median(samples.iter().map(|s| s.wall_s)));
        for (tool, samples) in tools {
            let wall = median(samples.iter().map(|s| s.wall_s));
            let cpu = median(samples.iter().map(|s| s.cpu_s));
            let ratio = first.map_or(f64::NAN, |first| wall / first);
            println!(
                "{row:<16} {tool:<16} {wall:>9.2} {:>9.2} {:>12.2} {ratio:>13.2}x",
                bytes * 8.0 / wall / 1e9,
                cpu / (bytes / 1e9)
            );
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn make_sources(scratch: &Scratch, args: &Args) -> Result<Vec<(&'static str, PathBuf, u64)>> {
    let toolchain = tools::rust_toolchain()?;
    let mut sources = Vec::new();
    let wanted = |name: &str| name.contains(&args.only);
    if wanted("large") {
        let directory = scratch.path("large");
        fs::create_dir(&directory)?;
        crate::demo::make_large_file(&toolchain, &directory.join("file"), args.large_gib << 30)?;
        sources.push(("large", directory, args.large_gib << 30));
    }
    if wanted("small") {
        let directory = scratch.path("small");
        let mut noise = 0x9e37_79b9_7f4a_7c15u64;
        for number in 0..20_000u32 {
            let below = directory.join(format!("d{:02}", number % 16));
            if number < 16 {
                fs::create_dir_all(&below)?;
            }
            let mut content = [0; 4096];
            for word in content.chunks_exact_mut(8) {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&(noise ^ (noise >> 29)).to_le_bytes());
            }
            fs::write(below.join(format!("f{number:05}")), content)?;
        }
        sources.push(("small", directory, 20_000 * 4096));
    }
    if wanted("mixed") {
        let bytes = tools::files_below(&toolchain)?
            .iter()
            .filter_map(|file| fs::metadata(file).ok())
            .map(|m| m.len())
            .sum();
        sources.push(("mixed", toolchain, bytes));
    }
    Ok(sources)
}

/// Warm: read everything once. Cold: drop the caches.
fn prepare(source: &Path, cache: &str) -> Result<()> {
    Command::new("sync").status()?;
    if cache == "cold" {
        return fs::write("/proc/sys/vm/drop_caches", "3").context("dropping the page cache (needs root)");
    }
    for file in tools::files_below(source)? {
        std::io::copy(&mut fs::File::open(file)?, &mut std::io::sink())?;
    }
    Ok(())
}

fn verify(source: &Path, destination: &Path) -> Result<()> {
    tools::same_tree(source, destination)
}

/// The daemons, in the control group.
struct Servers {
    children: Vec<Child>,
    export: PathBuf,
    thalweg: PathBuf,
    state: PathBuf,
    ticket: PathBuf,
    address: String,
    rsync_port: u16,
    ssh_port: u16,
    ssh_key: PathBuf,
}

impl Servers {
    fn start(thalweg: &Path, scratch: &Scratch, group: &Group) -> Result<Servers> {
        let export = scratch.path("export");
        fs::create_dir(&export)?;
        let (rsync_port, ssh_port, thalweg_port) = (free_port()?, free_port()?, free_port()?);
        let address = format!("127.0.0.1:{thalweg_port}");
        let ticket = scratch.path("ticket");
        let mut children = Vec::new();
        let mut serve = Command::new(thalweg);
        serve.args([
            "serve",
            "--listen",
            &address,
            "--export",
            &format!("bench={}", export.display()),
            "--ticket-file",
        ]);
        serve.arg(&ticket).env("THALWEG_STATE", scratch.path("server-state")).stdout(Stdio::null());
        children.push(group.spawn(serve)?);

        let config = scratch.path("rsyncd.conf");
        let text = format!(
            "use chroot = no\n[bench]\npath = {}\nread only = no\nuid = {}\n",
            export.display(),
            user()?
        );
        fs::write(&config, text)?;
        let mut rsyncd = Command::new("rsync");
        rsyncd.args(["--daemon", "--no-detach", "--address=127.0.0.1", &format!("--port={rsync_port}")]);
        rsyncd.arg(format!("--config={}", config.display())).stdout(Stdio::null());
        children.push(group.spawn(rsyncd)?);

        let ssh_key = scratch.path("key");
        for key in [&ssh_key, &scratch.path("host-key")] {
            tools::run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key))?;
        }
        let config = scratch.path("sshd_config");
        fs::write(
            &config,
            format!(
                "ListenAddress 127.0.0.1:{ssh_port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n",
                scratch.path("host-key").display(),
                scratch.path("key.pub").display()
            ),
        )?;
        fs::create_dir_all("/run/sshd").ok();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-f"]).arg(&config);
        children.push(group.spawn(sshd)?);
        let servers = Servers {
            children,
            export,
            thalweg: thalweg.to_owned(),
            state: scratch.path("client-state"),
            ticket,
            address: address.clone(),
            rsync_port,
            ssh_port,
            ssh_key,
        };
        for port in [rsync_port, ssh_port, thalweg_port] {
            wait_for(port)?;
        }
        Ok(servers)
    }

    fn copy(&self, tool: &str, source: &Path, destination: &Path, group: &Group) -> Result<Sample> {
        let name = destination.file_name().and_then(|name| name.to_str()).context("a name")?;
        let from = format!("{}/", source.display());
        let ssh = format!(
            "ssh -p {} -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            self.ssh_port,
            self.ssh_key.display()
        );
        let at_ssh = format!("127.0.0.1:{}", destination.display());
        let mut command = match tool {
            "thalweg daemon" => {
                let mut command = Command::new(&self.thalweg);
                command
                    .args(["cp", "-q", "--ticket"])
                    .arg(&self.ticket)
                    .args([&from, &format!("tw://{}/bench/{name}", self.address)]);
                command
            }
            "thalweg ssh" => {
                let mut command = Command::new(&self.thalweg);
                command
                    .args(["cp", "-q", "-e", &ssh, "--far-path"])
                    .arg(&self.thalweg)
                    .args([&from, &at_ssh]);
                command
            }
            "rsync daemon" => {
                let mut command = Command::new("rsync");
                command.args(["-aHW", &from, &format!("rsync://127.0.0.1:{}/bench/{name}", self.rsync_port)]);
                command
            }
            "rsync ssh" => {
                let mut command = Command::new("rsync");
                command.args(["-aHW", "-e", &ssh, &from, &at_ssh]);
                command
            }
            _ => bail!("no tool {tool}"),
        };
        command.env("THALWEG_STATE", &self.state).stdout(Stdio::null());
        let cpu = group.cpu()?;
        let started = Instant::now();
        let status = group.spawn(command)?.wait()?;
        if !status.success() {
            bail!("{tool} ended with {status}");
        }
        let mut sync = Command::new("sync");
        sync.arg("-f").arg(destination);
        if !group.spawn(sync)?.wait()?.success() {
            bail!("sync failed");
        }
        let wall_s = started.elapsed().as_secs_f64();
        Ok(Sample { wall_s, cpu_s: (group.cpu()? - cpu).as_secs_f64() })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A control group whose CPU time is counted, children and grandchildren included.
struct Group {
    directory: PathBuf,
    is_v1: bool,
}

impl Group {
    fn new() -> Result<Group> {
        let name = format!("thalweg-bench-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpuacct");
        let (parent, is_v1) = if v1.is_dir() { (v1, true) } else { (Path::new("/sys/fs/cgroup"), false) };
        let directory = parent.join(name);
        fs::create_dir(&directory).context("making a control group to count CPU time (needs root)")?;
        Ok(Group { directory, is_v1 })
    }

    fn spawn(&self, mut command: Command) -> Result<Child> {
        let shown = format!("{command:?}");
        // Through a shell that enters the group and becomes the program: no child escapes the count.
        let mut wrapped = Command::new("sh");
        wrapped.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.directory.join("cgroup.procs"));
        wrapped.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        wrapped.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command.stdin(Stdio::null());
        wrapped.spawn().context(shown)
    }

    fn cpu(&self) -> Result<Duration> {
        if self.is_v1 {
            let nanos: u64 = fs::read_to_string(self.directory.join("cpuacct.usage"))?.trim().parse()?;
            return Ok(Duration::from_nanos(nanos));
        }
        let stat = fs::read_to_string(self.directory.join("cpu.stat"))?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).context("cpu.stat")?;
        Ok(Duration::from_micros(usage.parse()?))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes were ended before; the kernel needs a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > until {
            bail!("nothing listens at port {port}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn user() -> Result<String> {
    let output = Command::new("id").arg("-un").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
