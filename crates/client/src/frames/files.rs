//! Frames in files: raw bytes one behind the other, and an index beside them.
//!
//! `NAME-000000.raw` has the payloads; `NAME-000000.jsonl` has one JSON object on a line for each: `file`, `offset`,
//! `bytes`, `producer`, `sequence`, `set`, `time_ns`, `deadline_ns`, `dtype`, `shape`, `metadata` (hexadecimal),
//! `digest` (BLAKE3); and for what was lost or over in between, `lost` and `set_over`. A file has its name when it is
//! whole and synced, the index first; before, it is `.NAME-000000.raw.part`, which its writer has locked.
//!
//! What a writer that was killed left is never written over. The next one gives it its name: the frames that are whole,
//! by their digests, and the lines of the index that name them. What is behind them, and no line names, is kept beside
//! it as `NAME-000000.torn`.

// Cut into frames of a size.
mod cut;

// Read by an index.
mod index;

// Left by a writer that was killed.
mod left;

// Standing here when it comes again.
mod standing;

#[cfg(test)]
mod tests;

pub use cut::{Cut, count_cut, cut};
pub(super) use index::LINE_BYTES_MAX;
pub use index::{READ_INDEX, by_index, by_lines, count_indexed};
pub use left::Recovered;

use super::{Frame, LostRange, SetReport, framed};
use serde_json::Value;
use standing::Standing;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::dir::make_lasting;
use thalweg_sys::process::user_directory_mode;
use thalweg_sys::{Dir, Replace};
use thalweg_wire::limits;

/// Writes frames into files of a directory.
pub struct FrameFiles {
    directory: PathBuf,
    name: String,
    /// Frames of a file; 0: all in one.
    every: u64,
    number: u64,
    open: Option<Open>,
    finished: u64,
    /// Numbers of what was left without a name.
    left: BTreeSet<u64>,
    /// Frames that stand here already, where they may come again.
    standing: Option<Standing>,
    stood: u64,
    /// The first sync or naming that failed: nothing is told as durable after it, for no later one tells what it lost.
    failed: Option<Failure>,
}

/// The file that is written.
struct Open {
    raw: BufWriter<File>,
    index: BufWriter<File>,
    frames: u64,
    bytes: u64,
    /// Bytes since they were last flushed.
    unflushed: u64,
    /// Not all frames and ends of sets of it are synced. For what says that frames were lost nobody waits: there may be
    /// far more of it.
    is_dirty: bool,
    /// Its names in the directory are synced.
    is_entered: bool,
}

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;
/// Memory of frames that were pushed, which later ones are read into: as much as may be under way.
pub(super) const REUSED_BYTES_MAX: usize = limits::LANE_BYTES_MAX as usize;
/// Of so many frames that stand here it is known whether they come again: as many as a hub holds, which hands all of
/// them out again if it does not know who took them.
const STANDING_MAX: usize = limits::CHANNEL_FRAMES_MAX;
/// Files in which those are looked for.
const STANDING_FILES_MAX: u64 = 64 << 10;

/// What tells a frame from others of its producer and sequence: when it was made, and its digest, in short.
type Mark = u64;

fn mark_of(time_ns: u64, digest: &str) -> Mark {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&time_ns.to_le_bytes()).update(digest.as_bytes());
    let mut bytes = [0; size_of::<Mark>()];
    hasher.finalize_xof().fill(&mut bytes);
    Mark::from_le_bytes(bytes)
}

pub(super) fn no_memory() -> Failure {
    Failure::new(FailureKind::Space, "read frames", "no memory for one")
}

impl FrameFiles {
    /// In this directory, which is made if need be; files are `NAME-NNNNNN`, numbered behind those that stand there or
    /// were left.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub fn new(directory: &Path, name: &str, every: u64) -> Result<FrameFiles> {
        // Frames that are synced in it are found again.
        make_lasting(directory, user_directory_mode())
            .map_err(|error| at("make a directory", directory, &error))?;
        let (mut number, mut left) = (0, BTreeSet::new());
        for entry in
            std::fs::read_dir(directory).map_err(|error| at("read a directory", directory, &error))?
        {
            let entry = entry.map_err(|error| at("read a directory", directory, &error))?;
            let file = entry.file_name();
            let Some(file) = file.to_str() else { continue };
            let part = file.strip_prefix('.').and_then(|file| file.strip_suffix(PART));
            if let Some(known) = number_of(part.unwrap_or(file), name) {
                number = number.max(known + 1);
                left.extend(part.map(|_| known));
            }
        }
        Ok(FrameFiles {
            directory: directory.to_owned(),
            name: name.to_owned(),
            every,
            number,
            open: None,
            finished: 0,
            left,
            standing: None,
            stood: 0,
            failed: None,
        })
    }

    /// Frames that stand in the last files here and come again are not written again: for who goes on where a writer
    /// ended that may have put away more than it could tell, or whose hub is another by now. A producer's count as new
    /// from the first on that does not stand here. Indexes are read when a frame comes that may be in them.
    pub fn expect_again(&mut self) {
        self.standing = Some(Standing::below(self.number));
    }

    /// Frames that came again and stood here already.
    pub fn stood(&self) -> u64 {
        self.stood
    }

    fn stands(&mut self, frame: &Frame) -> Result<bool> {
        let Some(mut standing) = self.standing.take() else { return Ok(false) };
        let stands = standing.has(frame, |number| self.path(number, "jsonl"));
        self.standing = Some(standing);
        stands
    }

    /// Appends a frame. A file that is full with it gets its name.
    ///
    /// # Errors
    /// When it cannot be written, synced or named, or what [may stand here](FrameFiles::expect_again) cannot be read;
    /// `Conflict` if another writer is at work.
    pub fn frame(&mut self, frame: &Frame) -> Result<()> {
        if self.stands(frame)? {
            self.stood += 1;
            return Ok(());
        }
        let file = self.file_name(self.number, "raw");
        let (every, directory) = (self.every, self.directory.clone());
        let open = self.open()?;
        let mut line = framed::frame_line(frame);
        (line["file"], line["offset"]) = (file.into(), open.bytes.into());
        let written = open.raw.write_all(&frame.payload).and_then(|()| writeln!(open.index, "{line}"));
        written.map_err(|error| at("write frames", &directory, &error))?;
        open.bytes += frame.payload.len() as u64;
        open.frames += 1;
        open.is_dirty = true;
        open.unflushed += frame.payload.len() as u64;
        let is_due = open.unflushed >= BUFFER_BYTES as u64;
        match every > 0 && open.frames >= every {
            true => self.close(),
            false if is_due => self.flush(),
            false => Ok(()),
        }
    }

    /// What was written so far outlives this process, though not the machine: the payloads, and then the lines that
    /// name them.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn flush(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.unflushed = 0;
        let flushed = open.raw.flush().and_then(|()| open.index.flush());
        flushed.map_err(|error| at("write frames", &self.directory, &error))
    }

    /// The frames and the ends of sets that were written so far are durable: who writes here next gives them their
    /// name, if this process is killed. What was lost is [flushed](FrameFiles::flush).
    ///
    /// # Errors
    /// As [`FrameFiles::frame`]. A sync that failed is final: every later one gives the same.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.flush()?;
        let Some(open) = &self.open else { return Ok(()) };
        if !open.is_dirty {
            return Ok(());
        }
        let is_entered = open.is_entered;
        let synced = open.raw.get_ref().sync_data().and_then(|()| open.index.get_ref().sync_data());
        let synced = synced.map_err(|error| at("sync frames", &self.directory, &error));
        self.or_final(synced)?;
        if !is_entered {
            let synced = self.sync_directory();
            self.or_final(synced)?;
        }
        if let Some(open) = &mut self.open {
            (open.is_dirty, open.is_entered) = (false, true);
        }
        Ok(())
    }

    /// Whether a file is begun that has no name yet.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Notes what was lost.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn lost(&mut self, lost: &LostRange) -> Result<()> {
        self.note(&framed::lost_line(lost))
    }

    /// Notes that a set is over. Where a file has a number of frames it gets its name with that, full or not: who
    /// waits for the set waits for no frame of the next.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn set_over(&mut self, set: &SetReport) -> Result<()> {
        self.note(&framed::set_line(set))?;
        if let Some(open) = &mut self.open {
            open.is_dirty = true;
        }
        if self.every > 0 { self.close() } else { Ok(()) }
    }

    fn note(&mut self, line: &Value) -> Result<()> {
        let directory = self.directory.clone();
        let open = self.open()?;
        writeln!(open.index, "{line}").map_err(|error| at("write frames", &directory, &error))
    }

    /// Gives the file that is written its name.
    ///
    /// # Errors
    /// As [`FrameFiles::sync`]; `Conflict` if somebody else made a file of that name.
    pub fn close(&mut self) -> Result<()> {
        self.check()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        let failed = |error: &std::io::Error| at("write frames", &self.directory, error);
        let finish = |file: BufWriter<File>| -> Result<File> {
            let file = file.into_inner().map_err(|error| failed(error.error()))?;
            file.sync_all().map_err(|error| failed(&error))?;
            Ok(file)
        };
        let finished = finish(open.raw).and_then(|raw| finish(open.index).map(|index| (raw, index)));
        // Locked until they have their names.
        let _locked = self.or_final(finished)?;
        for kind in ["jsonl", "raw"] {
            let named = give_name(&self.part(self.number, kind), &self.path(self.number, kind));
            self.or_final(named)?;
        }
        let synced = self.sync_directory();
        self.or_final(synced)?;
        self.number += 1;
        self.finished += 1;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// What a sync says, or a naming; a failure for good.
    fn or_final<T>(&mut self, synced: Result<T>) -> Result<T> {
        synced.inspect_err(|failure| {
            self.failed.get_or_insert_with(|| failure.clone());
        })
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = Dir::open(&self.directory).and_then(|directory| directory.sync());
        synced.map_err(|error| at("sync a directory", &self.directory, &error))
    }

    /// Files that have their names.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    fn open(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let make = |kind| {
                let path = self.part(self.number, kind);
                let made = File::create_new(&path).map_err(|error| at("make a file", &path, &error))?;
                lock(&made, &path)?;
                Ok::<_, Failure>(BufWriter::with_capacity(BUFFER_BYTES, made))
            };
            self.open = Some(Open {
                raw: make("raw")?,
                index: make("jsonl")?,
                frames: 0,
                bytes: 0,
                unflushed: 0,
                is_dirty: false,
                is_entered: false,
            });
        }
        let gone = || Failure::new(FailureKind::Internal, "write frames", "no file is open");
        self.open.as_mut().ok_or_else(gone)
    }

    fn stem(&self, number: u64) -> String {
        format!("{}-{number:06}", self.name)
    }

    fn file_name(&self, number: u64, kind: &str) -> String {
        format!("{}.{kind}", self.stem(number))
    }

    fn path(&self, number: u64, kind: &str) -> PathBuf {
        self.directory.join(self.file_name(number, kind))
    }

    fn part(&self, number: u64, kind: &str) -> PathBuf {
        self.directory.join(format!(".{}{PART}", self.file_name(number, kind)))
    }
}

/// Behind the name of a file that is not whole.
const PART: &str = ".part";

fn number_of(file: &str, name: &str) -> Option<u64> {
    let rest = file.strip_prefix(name)?.strip_prefix('-')?;
    [".raw", ".jsonl", ".torn"].iter().find_map(|kind| rest.strip_suffix(kind))?.parse().ok()
}

/// A second name, and the first goes: what stands there is never replaced, unless it is the same file. Where a file
/// system has no second names (exFAT, some network file systems) it is renamed to what is not there.
fn give_name(part: &Path, name: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let failed = |error| at("name a file", name, &error);
    match std::fs::hard_link(part, name) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let id = |path| std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()));
            if id(part).map_err(failed)? != id(name).map_err(failed)? {
                return Err(failed(error));
            }
        }
        Err(error) if has_no_links(&error) => return rename_to_free(part, name).map_err(failed),
        other => other.map_err(failed)?,
    }
    std::fs::remove_file(part).map_err(failed)
}

fn has_no_links(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, Unsupported};
    // FAT says EPERM, link(2); a right that is missing is missing for the renaming as well.
    matches!(error.kind(), PermissionDenied | Unsupported)
}

fn rename_to_free(part: &Path, name: &Path) -> std::io::Result<()> {
    let place = |path: &Path| {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let last = path.file_name().unwrap_or_default().as_bytes().to_vec();
        Dir::open(above).map(|dir| (dir, last))
    };
    let ((from, part), (to, name)) = (place(part)?, place(name)?);
    from.rename(&part, &to, &name, Replace::Never)
}

/// Has the file as long as it is open.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let cause = "another writer is at work there";
            Err(failure::at_path(Failure::new(FailureKind::Busy, "write frames", cause), path))
        }
        // Where a file system has no locks nobody is kept out.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Size of a regular file, also by a link to it.
fn regular_bytes(file: &Path) -> Option<u64> {
    std::fs::metadata(file).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

fn at(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    failure::at_path(failure::of_io(operation, error), path)
}
