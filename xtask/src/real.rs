//! `cargo xtask real`: real data, every way, compared with programs that know nothing of thalweg.
//!
//! The installed Rust toolchain and the source of Debian's kernel are each copied on this machine, pushed and pulled
//! by ssh (an sshd of its own), and pushed and pulled with a daemon. After each copy:
//!
//! 1. `rsync -n -aHAX --checksum --delete --itemize-changes` must have nothing to say.
//! 2. `b3sum` of every regular file must be what the receipt says, and the receipt must have every file.
//! 3. The same command again must send nothing.

use crate::scratch::Scratch;
use crate::servers::{Daemon, Sshd};
use crate::{cargo, checkout, packages, toolchain, trees};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_wire::receipt::Line;

/// What it needs: Debian packages, and a program of each.
const PACKAGES: &[(&str, &str)] = &[
    ("openssh-server", "/usr/sbin/sshd"),
    ("openssh-client", "/usr/bin/ssh"),
    ("rsync", "/usr/bin/rsync"),
    ("b3sum", "/usr/bin/b3sum"),
    ("xz-utils", "/usr/bin/xz"),
];

/// Files whose digests are asked for at once.
const FILES_AT_ONCE: usize = 500;

/// Options of the proof with real input.
#[derive(clap::Args)]
pub struct Args {
    /// Only this tree: `toolchain` or `kernel`
    #[arg(long, default_value = "")]
    only: String,
    /// A kernel source tree that is there; without it Debian's package is fetched and kept below target/
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,
    /// Do not install what is missing
    #[arg(long)]
    no_install: bool,
}

/// Runs it.
///
/// # Errors
/// If any copy fails, differs, or is sent again.
pub fn run(args: &Args) -> Result<()> {
    if !args.no_install {
        packages::install(PACKAGES)?;
    }
    let thalweg = cargo::build_release()?;
    let mut trees = Vec::new();
    if "toolchain".contains(&args.only) {
        trees.push(("toolchain", toolchain::directory()?));
    }
    if "kernel".contains(&args.only) {
        let kernel = args.kernel.clone().map_or_else(kernel_source, Ok)?;
        trees.push(("kernel", kernel));
    }
    ensure!(!trees.is_empty(), "there is no tree `{}`", args.only);

    let scratch = Scratch::new("real")?;
    let export = scratch.path("export");
    fs::create_dir(&export)?;
    let mut exports = vec![format!("in={}:setid", export.display())];
    exports.extend(trees.iter().map(|(name, tree)| format!("{name}={}:ro", tree.display())));
    let bench = Bench {
        daemon: Daemon::start(&thalweg, &scratch, &exports, |command| command)?,
        sshd: Sshd::start(&scratch, |command| command)?,
        thalweg,
        scratch,
        export,
    };

    println!(
        "{:<10} {:<7} {:<5} {:>8} {:>14} {:>9} {:>9} {:>11} {:>6}",
        "tree", "way", "", "entries", "bytes", "seconds", "again s", "differences", "b3sum"
    );
    let mut wrong = Vec::new();
    for (name, tree) in &trees {
        for way in WAYS {
            wrong.extend(bench.prove(name, tree, way).with_context(|| format!("{name}, {way:?}"))?);
        }
    }
    bench.daemon.stop()?;
    if wrong.is_empty() {
        println!("no differences");
        return Ok(());
    }
    bail!("{} differences:\n{}", wrong.len(), wrong.join("\n"))
}

/// How a tree is copied.
#[derive(Debug, Clone, Copy)]
enum Way {
    Local,
    SshPush,
    SshPull,
    DaemonPush,
    DaemonPull,
}

const WAYS: [Way; 5] = [Way::Local, Way::SshPush, Way::SshPull, Way::DaemonPush, Way::DaemonPull];

impl Way {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Way::Local => ("local", ""),
            Way::SshPush => ("ssh", "push"),
            Way::SshPull => ("ssh", "pull"),
            Way::DaemonPush => ("daemon", "push"),
            Way::DaemonPull => ("daemon", "pull"),
        }
    }
}

/// The program, its servers, and where copies go.
struct Bench {
    daemon: Daemon,
    sshd: Sshd,
    thalweg: PathBuf,
    scratch: Scratch,
    export: PathBuf,
}

impl Bench {
    /// Copies a tree one way, twice, and tells what is not as it should be.
    fn prove(&self, name: &str, tree: &Path, way: Way) -> Result<Vec<String>> {
        let (word, direction) = way.words();
        let label = format!("{name}-{word}{direction}");
        let to = self.export.join(&label);
        let receipt = self.scratch.path(&format!("{label}.receipt"));
        let places = self.places(name, tree, &to, way);
        let first = self.copy(&places, way, &receipt)?;
        let mut wrong = differences(tree, &to)?;
        let found = wrong.len();
        let compared = digests(&receipt, &to, &mut wrong)?;
        let again = self.copy(&places, way, &self.scratch.path("again.receipt"))?;
        for key in ["bytes_received", "done", "failed"] {
            if again.number(key)? != 0.0 {
                wrong.push(format!("{label}: the second run has {key} {}", again.number(key)?));
            }
        }
        println!(
            "{name:<10} {word:<7} {direction:<5} {:>8} {:>14} {:>9.2} {:>9.2} {found:>11} {compared:>6}",
            first.number("done")?,
            first.number("bytes_done")?,
            first.number("seconds")?,
            again.number("seconds")?,
        );
        fs::remove_dir_all(&to)?;
        Ok(wrong)
    }

    fn places(&self, name: &str, tree: &Path, to: &Path, way: Way) -> [String; 2] {
        let (from, to_here) = (format!("{}/", tree.display()), to.display().to_string());
        let below = to.strip_prefix(&self.export).unwrap_or(to).display().to_string();
        match way {
            Way::Local => [from, to_here],
            Way::SshPush => [from, format!("127.0.0.1:{to_here}")],
            Way::SshPull => [format!("127.0.0.1:{from}"), to_here],
            Way::DaemonPush => [from, format!("tw://{}/in/{below}", self.daemon.address)],
            Way::DaemonPull => [format!("tw://{}/{name}/", self.daemon.address), to_here],
        }
    }

    /// Runs a copy; gives its last event.
    fn copy(&self, places: &[String; 2], way: Way, receipt: &Path) -> Result<Finished> {
        let mut command = Command::new(&self.thalweg);
        command.args(["cp", "--json", "--receipt"]).arg(receipt);
        match way {
            Way::Local => {}
            Way::SshPush | Way::SshPull => {
                command.args(["-e", &self.sshd.rsh(), "--far-path"]).arg(&self.thalweg);
            }
            Way::DaemonPush | Way::DaemonPull => {
                command.arg("--ticket").arg(&self.daemon.ticket);
            }
        }
        command.args(places).env("THALWEG_STATE", self.scratch.path("client-state"));
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8(output.stdout).context("what the copy says")?;
        let last = text.lines().last().unwrap_or_default();
        ensure!(output.status.success(), "{command:?} ended with {}: {last}", output.status);
        Ok(Finished(serde_json::from_str(last).with_context(|| last.to_owned())?))
    }
}

/// The last event of a copy.
struct Finished(serde_json::Value);

impl Finished {
    fn number(&self, key: &str) -> Result<f64> {
        self.0[key].as_f64().with_context(|| format!("no {key} in {}", self.0))
    }
}

/// What rsync would still do.
fn differences(from: &Path, to: &Path) -> Result<Vec<String>> {
    let slash = |path: &Path| format!("{}/", path.display());
    let output = Command::new("rsync")
        .args(["-n", "-aHAX", "--checksum", "--delete", "--itemize-changes"])
        .args([slash(from), slash(to)])
        .stderr(Stdio::inherit())
        .output()
        .context("rsync")?;
    ensure!(output.status.success(), "rsync ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| format!("rsync: {line}")).collect())
}

/// Compares the digests of a receipt with those that `b3sum` finds in what was copied; tells how many files that
/// were. Every regular file must be in the receipt: with its digest, or as another name of one that has it.
fn digests(receipt: &Path, to: &Path, wrong: &mut Vec<String>) -> Result<usize> {
    let mut said = BTreeMap::new();
    for line in fs::read_to_string(receipt)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        if let Some(text) = value["line"].as_str() {
            let line: Line = text.parse()?;
            said.insert(line.path.as_bytes().to_vec(), line);
        }
    }
    let files = trees::files_below(to)?;
    let mut compared = 0;
    for files in files.chunks(FILES_AT_ONCE) {
        let output = Command::new("b3sum").arg("--no-names").args(files).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "b3sum ended with {}", output.status);
        let found = String::from_utf8(output.stdout)?;
        ensure!(found.lines().count() == files.len(), "b3sum did not answer for every file");
        for (file, found) in files.iter().zip(found.lines()) {
            let name = file.strip_prefix(to)?.as_os_str().as_bytes();
            let known = said.get(name);
            match known.map(|line| (line.kind.as_str(), line.digest.map(|digest| digest.to_string()))) {
                Some(("file", Some(digest))) if digest == found => compared += 1,
                Some(("hardlink", None)) => {}
                other => wrong.push(format!("{}: b3sum {found}, receipt {other:?}", file.display())),
            }
        }
    }
    Ok(compared)
}

/// The source tree of Debian's kernel, fetched by apt once and kept.
fn kernel_source() -> Result<PathBuf> {
    let kept = checkout::root().join("target/real-input");
    let tree = kept.join("linux-source");
    if tree.is_dir() {
        return Ok(tree);
    }
    fs::create_dir_all(&kept)?;
    // `linux-source` depends on the one of this release.
    let depends = Command::new("apt-cache").args(["depends", "--important", "linux-source"]).output();
    let depends = depends.context("apt-cache; name a kernel source tree with --kernel")?;
    let text = String::from_utf8(depends.stdout)?;
    let package = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.context("apt knows no linux-source; name a kernel source tree with --kernel")?;
    println!("==> fetching and unpacking {package}, once");
    let step = |program: &str, words: &[&str]| -> Result<()> {
        let status =
            Command::new(program).args(words).current_dir(&kept).status().context(program.to_owned())?;
        ensure!(status.success(), "{program} {words:?} ended with {status}");
        Ok(())
    };
    step("apt-get", &["-qq", "download", package])?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    let mut files = fs::read_dir(&kept)?.flatten().map(|entry| entry.path());
    let file = files.find(is_package).context("apt-get left no package")?;
    step("dpkg-deb", &["-x", &file.display().to_string(), "package"])?;
    step("tar", &["-xf", &format!("package/usr/src/{package}.tar.xz")])?;
    fs::remove_file(file)?;
    fs::remove_dir_all(kept.join("package"))?;
    // The name that says that it is whole.
    fs::rename(kept.join(package), &tree)?;
    Ok(tree)
}
