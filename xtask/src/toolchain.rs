//! The installed Rust toolchain: real data that everybody has who builds this.

use crate::{checkout, trees};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its directory.
///
/// # Errors
/// If rustc does not answer.
pub fn directory() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(checkout::root()).output()?;
    let path = String::from_utf8(output.stdout).context("the path of the toolchain")?;
    Ok(PathBuf::from(path.trim()))
}

/// A file of `bytes`, made of the files of a tree, one after the other.
///
/// # Errors
/// What the file system says.
pub fn make_large_file(tree: &Path, file: &Path, bytes: u64) -> Result<()> {
    let mut out = File::create(file)?;
    let mut left = bytes;
    let mut files: Vec<PathBuf> = trees::files_below(tree)?;
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
