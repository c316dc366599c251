//! Compares a data set with the numbers that it was made of.

use super::{BUFFER_BYTES, Piece, Pieces, by_all_cores};
use serde::Serialize;
use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use thalweg_mover::endpoint::dataset::{DESCRIPTION_NAME, DatasetSpec};
use thalweg_mover::failure::{Result, counted, of_io};

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// Files that should be there.
    pub files: u64,
    /// Bytes that should be in them.
    pub bytes: u64,
    /// Files and directories that are not as they should be.
    pub damaged: u64,
    /// The first of them, by name; at most [`DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// How long it took.
    pub wall_s: f64,
}

/// So many are named.
pub const DAMAGE_MAX: usize = 1000;

/// A file that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Damage {
    /// Its name below the set's directory.
    pub path: String,
    /// What is wrong.
    pub what: Wrong,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// This byte is the first that is another one.
    DiffersAt(u64),
    /// It is not there.
    Missing,
    /// It has another length.
    Length {
        /// What it has.
        is: u64,
        /// What it should have.
        should_be: u64,
    },
    /// It is not of the set.
    Extra,
    /// A directory, a link or something else has its name.
    NoFile,
    /// It is a directory of the set, and a link or something else has its name. Files behind it are missing.
    NoDirectory,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.escape_debug())?;
        match &self.what {
            Wrong::DiffersAt(byte) => write!(f, "differs from byte {byte} on"),
            Wrong::Missing => f.write_str("is missing"),
            Wrong::Length { is, should_be } => {
                write!(f, "has {} instead of {should_be}", counted(*is, "byte", "bytes"))
            }
            Wrong::Extra => f.write_str("does not belong to the set"),
            Wrong::NoFile => f.write_str("is no file"),
            Wrong::NoDirectory => f.write_str("is no directory"),
            Wrong::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// Reads all of the set and compares it with what it should be; no second copy is needed.
///
/// # Errors
/// What the file system says about directories; a file that cannot be read is damage.
pub fn check(directory: &Path, spec: &DatasetSpec) -> Result<Checked> {
    let began = Instant::now();
    let mut damage: Vec<Damage> =
        by_all_cores(spec, |pieces| compare_some(directory, pieces))?.into_iter().flatten().collect();
    damage.extend(extra(directory, spec)?);
    damage.sort();
    // Several pieces of one file: the first says it.
    damage.dedup_by(|later, first| later.path == first.path);
    let damaged = damage.len() as u64;
    damage.truncate(DAMAGE_MAX);
    Ok(Checked {
        files: spec.files,
        bytes: spec.bytes(),
        damaged,
        damage,
        wall_s: began.elapsed().as_secs_f64(),
    })
}

fn compare_some(directory: &Path, pieces: &Pieces<'_>) -> Result<Vec<Damage>> {
    let (mut is, mut should_be) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut damage = Vec::new();
    while let Some(piece) = pieces.take() {
        let wrong = match compare(directory, &piece, &mut is, &mut should_be) {
            Ok(wrong) => wrong,
            // Something else has the name of its directory.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Some(Wrong::Missing)
            }
            // One file that a disk does not give back hides no other.
            Err(error) => Some(Wrong::Unreadable(error.to_string())),
        };
        damage.extend(wrong.map(|what| Damage { path: piece.made.path.clone(), what }));
    }
    Ok(damage)
}

fn compare(
    directory: &Path,
    piece: &Piece,
    is: &mut [u8],
    should_be: &mut [u8],
) -> std::io::Result<Option<Wrong>> {
    let below = Path::new(&piece.made.path).parent().filter(|below| !below.as_os_str().is_empty());
    // What a link leads to is no part of the set; the link itself is told as what it is.
    if let Some(below) = below
        && !fs::symlink_metadata(directory.join(below))?.is_dir()
    {
        return Ok(Some(Wrong::Missing));
    }
    let path = directory.join(&piece.made.path);
    let metadata = fs::symlink_metadata(&path)?;
    // A pipe would be waited for.
    if !metadata.is_file() {
        return Ok(Some(Wrong::NoFile));
    }
    let length = metadata.len();
    if length != piece.made.bytes {
        return Ok(Some(Wrong::Length { is: length, should_be: piece.made.bytes }));
    }
    let file = File::open(&path)?;
    for (offset, bytes) in piece.buffers() {
        let (is, should_be) = (&mut is[..bytes], &mut should_be[..bytes]);
        file.read_exact_at(is, offset)?;
        piece.made.fill(offset, should_be);
        if is != should_be {
            let at = is.iter().zip(should_be.iter()).position(|(one, other)| one != other).unwrap_or(0);
            return Ok(Some(Wrong::DiffersAt(offset + at as u64)));
        }
    }
    Ok(None)
}

/// Names that are not of the set, and those of its directories that are none.
fn extra(directory: &Path, spec: &DatasetSpec) -> Result<Vec<Damage>> {
    let of = |error: std::io::Error| of_io("list a data set", &error);
    let mut extra = Vec::new();
    let names_in = |below: &str| -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory.join(below)).map_err(of)? {
            names.push(entry.map_err(of)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    };
    let tell = |path: String| Damage { path, what: Wrong::Extra };
    let directories: Vec<String> = spec.directories().collect();
    let is_ours = |name: &String| name == DESCRIPTION_NAME || directories.binary_search(name).is_ok();
    extra.extend(names_in("")?.into_iter().filter(|name| !is_ours(name)).map(tell));
    for (number, below) in (0..).zip(&directories) {
        let known: std::collections::HashSet<String> =
            spec.files_of(number).map(|file| spec.file(file).path).collect();
        match fs::symlink_metadata(directory.join(below)) {
            Ok(about) if about.is_dir() => {}
            Ok(_) => {
                extra.push(Damage { path: below.clone(), what: Wrong::NoDirectory });
                continue;
            }
            // Its files are missing.
            Err(_) => continue,
        }
        let paths = names_in(below)?.into_iter().map(|name| format!("{below}/{name}"));
        extra.extend(paths.filter(|path| !known.contains(path)).map(tell));
    }
    Ok(extra)
}
