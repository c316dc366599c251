//! `cargo xtask gen`: what is written from the code and committed, so that nobody needs a compiler to read it.
//!
//! A module makes one page, or one family of files; [`files`] has them all. With `--check` nothing is written: a file
//! that would change is an error. (`gen` is a keyword of Rust and can be no module.)

use crate::checkout;
use anyhow::{Context, bail};
use clap::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thalweg_cli::config;

/// packaging/man.
mod man;

/// packaging/completions.
mod completions;

/// Of docs/reference: cli.md, configuration.md, exit-codes.md and metrics.md.
mod reference;

/// What of committed results several pages need.
mod results;

/// The table of all goals, whichever page judges them.
mod goals;

/// README.md: the table and the sentences on how fast.
mod readme;

/// docs/performance.md.
mod performance;

/// docs/figures.
mod figures;

/// docs/guide/bench.md: what each suite found.
mod bench_guide;

/// docs/guide/testbed.md: how well it keeps what it is asked to.
mod testbed_guide;

/// docs/faults.md: what was killed and cut, and what became of it.
mod faults;

#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if a committed file is stale
    #[arg(long)]
    check: bool,
}

/// Directories in which every file is made here: what is not made any more is removed.
const OWN: [&str; 4] = [man::DIRECTORY, completions::DIRECTORY, VECTORS, figures::DIRECTORY];

/// The golden vectors.
const VECTORS: &str = "crates/wire/vectors";

pub fn run(options: &Args) -> anyhow::Result<()> {
    let root = checkout::root();
    let files = files()?;
    let mut stale: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, content) in &files {
        let there = std::fs::read(root.join(path)).ok();
        if there.as_deref() != Some(content) {
            stale.insert(path.clone());
        }
    }
    let mut gone = Vec::new();
    for directory in OWN {
        for entry in std::fs::read_dir(root.join(directory)).into_iter().flatten() {
            let path = Path::new(directory).join(entry?.file_name());
            if !files.contains_key(&path) {
                gone.push(path);
            }
        }
    }
    if options.check {
        let all: Vec<_> = stale.iter().chain(&gone).map(|path| path.display().to_string()).collect();
        if !all.is_empty() {
            bail!("stale, run `cargo xtask gen`: {}", all.join(", "));
        }
        return Ok(());
    }
    for path in &stale {
        let to = root.join(path);
        std::fs::create_dir_all(to.parent().context("a parent")?)?;
        std::fs::write(&to, &files[path]).with_context(|| to.display().to_string())?;
        println!("{}", path.display());
    }
    for path in gone {
        std::fs::remove_file(root.join(&path))?;
        println!("{} (removed)", path.display());
    }
    Ok(())
}

/// All files that are made, by their path from the root of the checkout.
fn files() -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut command = config::command();
    command.build();
    let mut files = man::files(&command)?;
    files.extend(completions::files()?);
    files.insert("docs/reference/cli.md".into(), reference::command_line(&command).into_bytes());
    files.insert("docs/reference/exit-codes.md".into(), reference::exit_codes().into_bytes());
    files.insert("docs/reference/configuration.md".into(), reference::configuration(&command).into_bytes());
    files.insert("docs/reference/metrics.md".into(), reference::metrics().into_bytes());
    for family in thalweg_wire::vectors::families() {
        let path = Path::new(VECTORS).join(family.name).with_extension("txt");
        files.insert(path, family.to_text().into_bytes());
    }
    if let Some(page) = readme::page()? {
        files.insert(readme::PAGE.into(), page.into_bytes());
    }
    files.insert(performance::PAGE.into(), performance::page()?.into_bytes());
    files.extend(figures::files()?);
    files.insert(bench_guide::PAGE.into(), bench_guide::page()?.into_bytes());
    files.insert(testbed_guide::PAGE.into(), testbed_guide::page()?.into_bytes());
    files.insert(faults::PAGE.into(), faults::page()?.into_bytes());
    Ok(files)
}

/// Commands below one that a reader is to see.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// A help text in one line; nothing where there is none.
fn text(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(|help| help.to_string().replace('\n', " ")).unwrap_or_default()
}
