//! Writes a data set.

use super::{BUFFER_BYTES, Pieces, UNFINISHED_NAME, by_all_cores, described, described_by};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::dataset::{DESCRIPTION_NAME, DatasetSpec};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};
use thalweg_sys::cpu_time::thread_cpu;

/// What was made, and what it took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Generated {
    /// Files.
    pub files: u64,
    /// Bytes in them, holes included.
    pub bytes: u64,
    /// Bytes that were made: without holes.
    pub made_bytes: u64,
    /// From the first to the last.
    pub wall_s: f64,
    /// CPU that making the bytes took, without writing them, on all cores together.
    pub making_cpu_s: f64,
}

impl Generated {
    /// How fast one core makes bytes.
    pub fn bytes_per_s_of_a_core(&self) -> f64 {
        self.made_bytes as f64 / self.making_cpu_s
    }
}

/// Writes the set into `directory`, which is made if it is not there. Nothing is synced.
///
/// # Errors
/// `Usage` for numbers out of their bounds, or if something else than this set is there; what the file system says.
pub fn make(directory: &Path, spec: &DatasetSpec) -> Result<Generated> {
    let refused = |cause: String| Failure::new(FailureKind::Usage, "make a data set", cause);
    let of = |path: &Path, error: std::io::Error| at_path(of_io("make a data set", &error), path);
    spec.check().map_err(|why| refused(why.to_owned()))?;
    fs::create_dir_all(directory).map_err(|error| of(directory, error))?;
    let (whole, unfinished) = (directory.join(DESCRIPTION_NAME), directory.join(UNFINISHED_NAME));
    let is_empty = fs::read_dir(directory)
        .map_err(|error| of(directory, error))?
        .all(|entry| entry.is_ok_and(|entry| entry.file_name() == UNFINISHED_NAME));
    let is_whole = described(directory).ok().as_ref() == Some(spec);
    let is_begun = !whole.exists() && described_by(&unfinished).ok().as_ref() == Some(spec);
    if !is_empty && !is_whole && !is_begun {
        let cause =
            "it is not empty, and what it holds is not this set: name another directory, or remove it";
        return Err(at_path(refused(cause.to_owned()), directory));
    }
    let began = Instant::now();
    if !is_whole && !is_begun {
        fs::write(&unfinished, spec.description()).map_err(|error| of(&unfinished, error))?;
    }
    for name in spec.directories() {
        let path = directory.join(name);
        fs::create_dir_all(&path).map_err(|error| of(&path, error))?;
    }
    let parts = by_all_cores(spec, |pieces| write_some(directory, pieces, !is_empty))?;
    if !is_whole {
        fs::rename(&unfinished, &whole).or_else(|error| {
            // Somebody else made the same set.
            let is_made = described(directory).ok().as_ref() == Some(spec);
            if is_made { Ok(()) } else { Err(of(&whole, error)) }
        })?;
    }
    Ok(Generated {
        files: spec.files,
        bytes: spec.bytes(),
        made_bytes: parts.iter().map(|(bytes, _)| bytes).sum(),
        wall_s: began.elapsed().as_secs_f64(),
        making_cpu_s: parts.iter().map(|(_, cpu)| cpu.as_secs_f64()).sum(),
    })
}

/// Bytes that were made, and the CPU for it. `is_again`: there may be files already, whose holes are not empty.
fn write_some(directory: &Path, pieces: &Pieces<'_>, is_again: bool) -> Result<(u64, Duration)> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut made_bytes, mut cpu) = (0, Duration::ZERO);
    while let Some(piece) = pieces.take() {
        let of = |error: std::io::Error| {
            let mut failure = of_io("write a data set", &error);
            failure.cause = format!("{}: {}", piece.made.path, failure.cause);
            failure
        };
        // Other pieces of the same file are written at the same time.
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(&piece.made.path));
        let file = opened.map_err(of)?;
        if piece.offset == 0 {
            file.set_len(piece.made.bytes).map_err(of)?;
        }
        for (offset, bytes) in piece.buffers() {
            // Holes begin and end where buffers do.
            if piece.made.is_hole(offset) {
                if is_again {
                    empty(&file, offset, bytes).map_err(of)?;
                }
                continue;
            }
            let before = thread_cpu();
            piece.made.fill(offset, &mut buffer[..bytes]);
            cpu += thread_cpu() - before;
            made_bytes += bytes as u64;
            file.write_all_at(&buffer[..bytes], offset).map_err(of)?;
        }
    }
    Ok((made_bytes, cpu))
}

/// Makes a hole, or zeros where the file system has none.
fn empty(file: &File, offset: u64, bytes: usize) -> std::io::Result<()> {
    let hole = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
    match retry_on_intr(|| fallocate(file, hole, offset, bytes as u64)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all_at(&vec![0; bytes], offset),
        punched => Ok(punched?),
    }
}

const _: () = assert!(BUFFER_BYTES as u64 == thalweg_mover::endpoint::dataset::EXTENT_BYTES);
const _: () = assert!(super::PIECE_BYTES.is_multiple_of(BUFFER_BYTES as u64));
