//! What is copied.

use crate::{command, toolchain, trees};
use anyhow::Result;
use std::fs;
use std::path::Path;

/// Files that do not compress, in 16 directories.
///
/// # Errors
/// What the file system says.
pub fn make_small_files(directory: &Path, files: u32, bytes: usize) -> Result<()> {
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut content = vec![0; bytes];
    for number in 0..files {
        let below = directory.join(format!("d{:02}", number % 16));
        if number < 16 {
            fs::create_dir_all(&below)?;
        }
        for word in content.chunks_exact_mut(8) {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(noise ^ (noise >> 29)).to_le_bytes());
        }
        fs::write(below.join(format!("f{number:05}")), &content)?;
    }
    Ok(())
}

/// Reads everything once, so that it is in the page cache, and lets no write of others be under way.
///
/// # Errors
/// What the file system says.
pub fn warm(source: &Path) -> Result<()> {
    command::run(&mut std::process::Command::new("sync"))?;
    for file in trees::files_below(source)? {
        std::io::copy(&mut fs::File::open(file)?, &mut std::io::sink())?;
    }
    Ok(())
}

/// Drops these files, and only these, from the page cache.
///
/// # Errors
/// What the file system says.
pub fn cool(source: &Path) -> Result<()> {
    for file in trees::files_below(source)? {
        let mut dd = std::process::Command::new("dd");
        dd.arg(format!("if={}", file.display())).args(["iflag=nocache", "count=0", "status=none"]);
        command::run(&mut dd)?;
    }
    Ok(())
}

/// Files of `bytes` each, made of the files of a tree, one after the other.
///
/// # Errors
/// What the file system says.
pub fn make_files(tree: &Path, directory: &Path, files: u64, bytes: u64) -> Result<()> {
    let all = directory.with_extension("all");
    toolchain::make_large_file(tree, &all, files * bytes)?;
    let mut from = fs::File::open(&all)?;
    for number in 0..files {
        let below = directory.join(format!("d{:02}", number % 16));
        if number < 16 {
            fs::create_dir_all(&below)?;
        }
        let mut file = fs::File::create(below.join(format!("f{number:05}")))?;
        std::io::copy(&mut std::io::Read::take(&mut from, bytes), &mut file)?;
    }
    Ok(fs::remove_file(&all)?)
}

/// Frees what a copy takes on the disk, before the next run. Many files keep their inodes and lose only their bytes:
/// creating files on ext4 is slow for minutes after many were deleted.
///
/// # Errors
/// What the file system says.
pub fn free(destination: &Path) -> Result<()> {
    let files = trees::files_below(destination)?;
    if files.len() < DELETED_AT_ONCE {
        return Ok(fs::remove_dir_all(destination)?);
    }
    for file in files {
        fs::OpenOptions::new().write(true).open(file)?.set_len(0)?;
    }
    Ok(())
}

/// So many files are deleted without harm.
const DELETED_AT_ONCE: usize = 100;
