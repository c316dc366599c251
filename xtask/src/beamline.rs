//! `cargo xtask beamline`: the example in examples/beamline, with a wheel and a program of this checkout.

use crate::{checkout, python};
use anyhow::Result;
use std::process::Command;
use thalweg_sys::child::dies_with_us;

/// Options of the example.
#[derive(clap::Args)]
pub struct Args {
    /// Do not install Debian packages that are missing
    #[arg(long)]
    no_install: bool,
    /// Build optimised
    #[arg(long)]
    release: bool,
    /// Arguments for run.py, for instance --pixels 256 --frames 96 --image 128
    #[arg(last = true)]
    run: Vec<String>,
}

/// Builds, installs, runs; what it made stands in target/beamline.
///
/// # Errors
/// At the first thing that fails.
pub fn run(args: &Args) -> Result<()> {
    let installed = python::install(args.no_install, args.release)?;
    println!("==> beamline");
    let mut command = Command::new(&installed.python);
    command
        .arg("examples/beamline/run.py")
        .args(["--out", "target/beamline"])
        .args(&args.run)
        .env("THALWEG_PROGRAM", &installed.program)
        .current_dir(checkout::root());
    python::succeed(dies_with_us(&mut command))
}
