//! `cargo xtask demo`: the main job on real data. A real directory tree (the installed Rust toolchain) and a large
//! file go through an encrypted daemon on loopback, are compared by content, and come back.

use crate::scratch::Scratch;
use crate::servers::Daemon;
use crate::{cargo, command, toolchain, trees};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

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
    step("building thalweg (release; the first time that takes some minutes)");
    let thalweg = cargo::build_release()?;
    let scratch = Scratch::new("demo")?;
    let toolchain = toolchain::directory()?;
    let large = scratch.path("large-file");
    step(&format!("making a large file of {} GiB out of the toolchain's own bytes", args.large_gib));
    toolchain::make_large_file(&toolchain, &large, args.large_gib << 30)?;

    let export = scratch.path("export");
    std::fs::create_dir(&export)?;
    let exports = [format!("demo={}", export.display())];
    let daemon = Daemon::start(&thalweg, &scratch, &exports, |command| command)?;
    let copy = |places: &[&str]| {
        command::run(
            Command::new(&thalweg)
                .arg("cp")
                .args(places)
                .env("THALWEG_TICKET", &daemon.ticket)
                .env("THALWEG_STATE", scratch.path("client-state")),
        )
    };
    println!("    daemon at {}, TLS 1.3, data in sealed AES-GCM frames", daemon.address);
    let place = format!("tw://{}/demo/", daemon.address);

    step(&format!("1. the tree {} to the daemon", toolchain.display()));
    copy(&[&toolchain.display().to_string(), &place])?;
    step("2. the same command again: nothing is sent twice");
    copy(&[&toolchain.display().to_string(), &place])?;
    step("3. the large file to the daemon, and back under a new name");
    copy(&[&large.display().to_string(), &place])?;
    let back = scratch.path("back-again");
    copy(&[&format!("{place}large-file"), &back.display().to_string()])?;

    step("4. comparing everything by content, with a program that knows nothing of thalweg");
    let name = toolchain.file_name().context("the toolchain has a name")?;
    trees::same_tree(&toolchain, &export.join(name))?;
    same_file(&large, &back)?;
    println!("    the same, to the last byte");
    daemon.stop()?;
    Ok(())
}

fn step(text: &str) {
    println!("\n==> {text}");
}

/// Compares two files byte by byte.
///
/// # Errors
/// If they differ.
fn same_file(a: &Path, b: &Path) -> Result<()> {
    let (mut one, mut two) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let got = one.read(&mut left)?;
        if got == 0 {
            return if two.read(&mut right)? == 0 { Ok(()) } else { bail!("{} is longer", b.display()) };
        }
        two.read_exact(&mut right[..got]).with_context(|| format!("{} is shorter", b.display()))?;
        if left[..got] != right[..got] {
            bail!("{} and {} differ", a.display(), b.display());
        }
    }
}
