//! `cargo xtask fuzz`: runs the fuzz targets one after the other, and keeps a small corpus.
//!
//! Needs nightly Rust and cargo-fuzz. A finding is written to `fuzz/artifacts/TARGET/`; copy it into
//! `fuzz/corpus/TARGET/` when it is fixed, where `cargo test --test corpus` runs it for ever.

use crate::tools;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub struct Args {
    /// Minutes for each target
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Only this target
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Files of a corpus that are kept; the smallest ones
    #[arg(long, default_value_t = 50)]
    keep: usize,
}

/// All targets; those of the mover need its feature.
const TARGETS: [(&str, bool); 12] = [
    ("hello", false),
    ("server_hello", false),
    ("message", false),
    ("frame_inner", false),
    ("pack", false),
    ("journal_record", false),
    ("path_unescape", false),
    ("receipt", false),
    ("ticket", true),
    ("opener", true),
    ("filter", true),
    ("unpacker", true),
];

pub fn run(args: &Args) -> anyhow::Result<()> {
    let fuzz = tools::root().join("fuzz");
    let wanted: Vec<_> = TARGETS
        .iter()
        .filter(|(name, _)| args.target.as_deref().is_none_or(|wanted| wanted == *name))
        .collect();
    if wanted.is_empty() {
        bail!("there is no such target; there are {}", TARGETS.map(|(name, _)| name).join(", "));
    }
    for (name, needs_mover) in wanted {
        println!("{name}: {} minutes", args.minutes);
        let cargo_fuzz = |what: &str| {
            let mut command = Command::new("cargo");
            // The pinned stable toolchain of this folder would win over `+nightly` of an outer cargo.
            command.current_dir(&fuzz).env("RUSTUP_TOOLCHAIN", "nightly").args(["fuzz", what, name]);
            if *needs_mover {
                command.args(["--features", "mover"]);
            }
            command
        };
        let corpus = fuzz.join("corpus").join(name);
        std::fs::create_dir_all(&corpus)?;
        let seconds = format!("-max_total_time={}", args.minutes * 60);
        // A hang is an input that takes more than a second on a quiet machine.
        let limits = ["--", &seconds, "-timeout=5", "-rss_limit_mb=1024", "-print_final_stats=1"];
        let status = cargo_fuzz("run").args(limits).status().context("run cargo fuzz")?;
        if !status.success() {
            bail!("{name}: a finding, see {}", fuzz.join("artifacts").join(name).display());
        }
        let status = cargo_fuzz("cmin").status().context("run cargo fuzz")?;
        if !status.success() {
            bail!("{name}: the corpus could not be minimised");
        }
        keep_smallest(&corpus, args.keep)?;
    }
    Ok(())
}

fn keep_smallest(corpus: &Path, keep: usize) -> anyhow::Result<()> {
    let mut files = std::fs::read_dir(corpus)?
        .map(|file| {
            let file = file?;
            Ok((file.metadata()?.len(), file.path()))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    for (_, path) in files.iter().skip(keep) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
