//! Directory trees: their files, and comparison of two by others' means.

use crate::command;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All regular files below a directory.
///
/// # Errors
/// What the file system says.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Compares two trees by content and metadata: with rsync's checksum dry run where there is rsync, else with
/// `diff`.
///
/// # Errors
/// If they differ.
pub fn same_tree(a: &Path, b: &Path) -> Result<()> {
    same(a, b, "-aHnc")
}

/// Compares two trees by content only, for tools that keep no more.
///
/// # Errors
/// If they differ.
pub fn same_content(a: &Path, b: &Path) -> Result<()> {
    same(a, b, "-rnc")
}

fn same(a: &Path, b: &Path, options: &str) -> Result<()> {
    let slash = |path: &Path| format!("{}/", path.display());
    let rsync = Command::new("rsync")
        .args([options, "--delete", "--itemize-changes"])
        .args([slash(a), slash(b)])
        .output();
    match rsync {
        Ok(output) if output.status.success() && output.stdout.is_empty() => Ok(()),
        Ok(output) => bail!("they differ: {}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => command::run(Command::new("diff").args(["-r", "--no-dereference"]).args([a, b])),
    }
}
