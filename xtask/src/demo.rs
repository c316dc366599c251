//! `cargo xtask demo`: the main job on real data. A real directory tree (the installed Rust toolchain) and a large
//! file go through an encrypted daemon on loopback, are compared by content, and come back.

use crate::tools::{self, Scratch};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options of the demo.
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of the large file, in GiB
    #[arg(long, default_value_t = 2)]
    large_gib: u64,
}

/// Runs it; leaves nothing behind.
///
/// # Errors
/// If anything is not as it should be.
pub fn run(args: &Args) -> Result<()> {
    step("building thalweg (release)");
    let thalweg = tools::build_release()?;
    let scratch = Scratch::new("demo")?;
    let toolchain = tools::rust_toolchain()?;
    let large = scratch.path("large-file");
    step(&format!("making a large file of {} GiB out of the toolchain's own bytes", args.large_gib));
    make_large_file(&toolchain, &large, args.large_gib << 30)?;

    let export = scratch.path("export");
    std::fs::create_dir(&export)?;
    let daemon = Daemon::start(&thalweg, &scratch, &export)?;
    println!("    daemon at {}, TLS 1.3, data in sealed AES-GCM frames", daemon.address);
    let place = format!("tw://{}/demo/", daemon.address);

    step(&format!("1. the tree {} to the daemon", toolchain.display()));
    daemon.copy(&[&toolchain.display().to_string(), &place])?;
    step("2. the same command again: nothing is sent twice");
    daemon.copy(&[&toolchain.display().to_string(), &place])?;
    step("3. the large file to the daemon, and back under a new name");
    daemon.copy(&[&large.display().to_string(), &place])?;
    let back = scratch.path("back-again");
    daemon.copy(&[&format!("{place}large-file"), &back.display().to_string()])?;

    step("4. comparing everything by content, with a program that knows nothing of thalweg");
    let name = toolchain.file_name().context("the toolchain has a name")?;
    tools::same_tree(&toolchain, &export.join(name))?;
    tools::same_file(&large, &back)?;
    println!("    the same, to the last byte");
    daemon.stop()?;
    Ok(())
}

fn step(text: &str) {
    println!("\n==> {text}");
}

/// A file of `bytes`, made of the files of a tree, one after the other.
///
/// # Errors
/// What the file system says.
pub fn make_large_file(tree: &Path, file: &Path, bytes: u64) -> Result<()> {
    let mut out = File::create(file)?;
    let mut left = bytes;
    let mut files: Vec<PathBuf> = tools::files_below(tree)?;
    files.sort();
    while left > 0 {
        let before = left;
        for file in &files {
            left -= std::io::copy(&mut File::open(file)?.take(left), &mut out)?;
            if left == 0 {
                break;
            }
        }
        if left == before {
            bail!("{} has no bytes", tree.display());
        }
    }
    out.flush()?;
    Ok(())
}

struct Daemon {
    child: Child,
    address: String,
    thalweg: PathBuf,
    ticket: PathBuf,
    state: PathBuf,
}

impl Daemon {
    fn start(thalweg: &Path, scratch: &Scratch, export: &Path) -> Result<Daemon> {
        let ticket = scratch.path("ticket");
        let mut child = Command::new(thalweg)
            .args(["serve", "--listen", "127.0.0.1:0", "--export", &format!("demo={}", export.display())])
            .arg("--ticket-file")
            .arg(&ticket)
            .env("THALWEG_STATE", scratch.path("server-state"))
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the daemon")?;
        let stdout = child.stdout.take().context("the daemon has an output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .split_whitespace()
            .find_map(|word| word.strip_suffix(',').filter(|word| word.starts_with("127.0.0.1:")))
            .with_context(|| format!("no address in {line:?}"))?
            .to_owned();
        let state = scratch.path("client-state");
        Ok(Daemon { child, address, thalweg: thalweg.to_owned(), ticket, state })
    }

    fn copy(&self, places: &[&str]) -> Result<()> {
        let status = Command::new(&self.thalweg)
            .arg("cp")
            .args(places)
            .env("THALWEG_TICKET", &self.ticket)
            .env("THALWEG_STATE", &self.state)
            .status()?;
        if !status.success() {
            bail!("the copy ended with {status}");
        }
        Ok(())
    }

    fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the daemon did not stop within 10 s");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
