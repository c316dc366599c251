//! Frames in files: raw bytes one behind the other, and an index beside them.
//!
//! `NAME-000000.raw` has the payloads; `NAME-000000.jsonl` has one JSON object on a line for each: `file`, `offset`, `bytes`,
//! `producer`, `sequence`, `set`, `time_ns`, `deadline_ns`, `dtype`, `shape`, `metadata` (hexadecimal), `digest` (BLAKE3); and
//! for what was lost or over in between, `lost` and `set_over`. A file has its name when it is whole and synced, the index
//! first; before, it is `.NAME-000000.raw.part`, which its writer has locked.
//!
//! What a writer that was killed left is never written over. The next one gives it its name: the frames that are whole, by
//! their digests, and the lines of the index that name them. What is behind them, and no line names, is kept beside it as
//! `NAME-000000.torn`.

use super::{Frame, LostRange, NewFrame, Payload, SetReport};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_wire::limits;
use thalweg_wire::path::Escaped;

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
    /// Frames that stand here already, and may come again: of each producer when they were made, and their digests.
    standing: BTreeMap<String, BTreeMap<u64, (u64, String)>>,
    stood: u64,
}

/// The file that is written.
struct Open {
    raw: BufWriter<File>,
    index: BufWriter<File>,
    frames: u64,
    bytes: u64,
    /// Bytes since they were last flushed.
    unflushed: u64,
    /// Not all frames of it are synced. For what says that frames were lost nobody waits: there may be far more of it.
    is_dirty: bool,
    /// Its names in the directory are synced.
    is_entered: bool,
}

/// What a writer that was killed had left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// `NAME-NNNNNN`.
    pub name: String,
    /// Whole frames, which are in `NAME-NNNNNN.raw` now.
    pub frames: u64,
    /// Bytes that no line of the index names, which are in `NAME-NNNNNN.torn` now.
    pub torn_bytes: u64,
}

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line of an index: what the longest head can be, written as JSON.
const LINE_BYTES_MAX: u64 = 4 * limits::ITEM_HEAD_BYTES_MAX as u64;
/// Of so many frames that stand here it is known whether they come again: as many as a hub may not have heard of.
const STANDING_MAX: usize = limits::LANE_ITEMS_MAX as usize;
/// Files in which those are looked for.
const STANDING_FILES_MAX: u64 = 1024;

impl FrameFiles {
    /// In this directory, which is made if need be; files are `NAME-NNNNNN`, numbered behind those that stand there or were left.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub fn new(directory: &Path, name: &str, every: u64) -> Result<FrameFiles> {
        std::fs::create_dir_all(directory).map_err(|error| at("make a directory", directory, &error))?;
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
            standing: BTreeMap::new(),
            stood: 0,
        })
    }

    /// Gives what writers that were killed left its name, frame by frame held against their digests: that takes as long as
    /// reading it.
    ///
    /// # Errors
    /// `Busy` if one of them is at work; `Conflict` if somebody else made a file of that name; when it cannot be read, synced or
    /// named.
    pub fn recover(&mut self) -> Result<Vec<Recovered>> {
        let mut all = Vec::new();
        while let Some(&number) = self.left.first() {
            all.extend(self.recover_one(number)?);
            self.left.remove(&number);
        }
        Ok(all)
    }

    fn recover_one(&self, number: u64) -> Result<Option<Recovered>> {
        let (raw, index) = (Left::open(self.part(number, "raw"))?, Left::open(self.part(number, "jsonl"))?);
        if raw.is_none() && index.is_none() {
            return Ok(None);
        }
        let name = self.stem(number);
        let recovered = match std::fs::symlink_metadata(self.path(number, "jsonl")).is_ok() {
            // Both were whole and synced before the index got its name.
            true => {
                let frames = count_indexed([self.path(number, "jsonl").as_path()])?.unwrap_or(0);
                Recovered { name, frames, torn_bytes: 0 }
            }
            false => {
                let (whole, torn_bytes) = self.cut_torn(number, raw.as_ref(), index.as_ref())?;
                if whole.index_bytes == 0 {
                    for left in [index, raw].into_iter().flatten() {
                        let removed = std::fs::remove_file(&left.path);
                        removed.map_err(|error| at("remove an empty file", &left.path, &error))?;
                    }
                    return Ok((torn_bytes > 0).then_some(Recovered { name, frames: 0, torn_bytes }));
                }
                Recovered { name, frames: whole.frames, torn_bytes }
            }
        };
        for (left, kind) in [(index, "jsonl"), (raw, "raw")] {
            if let Some(left) = left {
                give_name(&left.path, &self.path(number, kind))?;
            }
        }
        self.sync_directory()?;
        Ok(Some(recovered))
    }

    /// Cuts off what is not whole, and keeps of it what no line names: so many bytes.
    fn cut_torn(&self, number: u64, raw: Option<&Left>, index: Option<&Left>) -> Result<(Whole, u64)> {
        let whole = match (raw, index) {
            (Some(raw), Some(index)) => Whole::read(index, raw, &self.file_name(number, "raw"))?,
            _ => Whole::default(),
        };
        let mut torn_bytes = 0;
        if let Some(raw) = raw {
            torn_bytes = raw.bytes()?.saturating_sub(whole.raw_bytes);
            if torn_bytes > 0 {
                self.keep_torn(number, raw, whole.raw_bytes)?;
            }
            raw.cut(whole.raw_bytes)?;
        }
        if let Some(index) = index {
            index.cut(whole.index_bytes)?;
        }
        Ok((whole, torn_bytes))
    }

    /// Keeps what is behind the last whole frame, before it is cut off.
    fn keep_torn(&self, number: u64, raw: &Left, from: u64) -> Result<()> {
        let path = self.path(number, "torn");
        let kept = || -> std::io::Result<()> {
            let mut kept = File::create(&path)?;
            let mut raw = &raw.file;
            raw.seek(SeekFrom::Start(from))?;
            std::io::copy(&mut raw, &mut kept)?;
            kept.sync_all()
        };
        kept().map_err(|error| at("keep what is torn", &path, &error))?;
        self.sync_directory()
    }

    /// Frames that stand in the last files here and come again are not written again: for who goes on where a writer was killed
    /// that may have put away more than it could tell. A producer's count as new from the first on that does not stand here.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn expect_again(&mut self) -> Result<()> {
        let mut known = VecDeque::new();
        for number in (0..self.number).rev().take(STANDING_FILES_MAX as usize) {
            let mut rows = VecDeque::new();
            let read = each_row(&self.path(number, "jsonl"), &mut |_, row| {
                if let Some(((producer, sequence), time_ns)) = row.made.zip(row.frame.time_ns) {
                    rows.push_back((producer, sequence, time_ns, row.digest));
                }
                if rows.len() > STANDING_MAX {
                    rows.pop_front();
                }
                Ok(())
            });
            match read {
                Err(failure) if !matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage) => {
                    return Err(failure);
                }
                // What has no index, or one that is not ours, is not ours.
                _ => {}
            }
            rows.append(&mut known);
            known = rows;
            if known.len() >= STANDING_MAX {
                break;
            }
        }
        for (producer, sequence, time_ns, digest) in known {
            self.standing.entry(producer).or_default().insert(sequence, (time_ns, digest));
        }
        Ok(())
    }

    /// Frames that came again and stood here already.
    pub fn stood(&self) -> u64 {
        self.stood
    }

    fn stands(&mut self, frame: &Frame) -> bool {
        let Some(known) = self.standing.get(&frame.producer) else { return false };
        let is_it = known
            .get(&frame.sequence)
            .is_some_and(|(made, digest)| *made == frame.time_ns && *digest == frame.digest.to_string());
        if !is_it {
            self.standing.remove(&frame.producer);
        }
        is_it
    }

    /// Appends a frame. A file that is full with it gets its name.
    ///
    /// # Errors
    /// When it cannot be written, synced or named; `Conflict` if another writer is at work.
    pub fn frame(&mut self, frame: &Frame) -> Result<()> {
        if self.stands(frame) {
            self.stood += 1;
            return Ok(());
        }
        let file = self.file_name(self.number, "raw");
        let (every, directory) = (self.every, self.directory.clone());
        let open = self.open()?;
        let line = json!({
            "file": file, "offset": open.bytes, "bytes": frame.payload.len(), "producer": frame.producer,
            "sequence": frame.sequence, "set": frame.set, "time_ns": frame.time_ns,
            "deadline_ns": frame.deadline_ns, "dtype": frame.dtype, "shape": frame.shape,
            "metadata": hex(&frame.metadata), "digest": frame.digest.to_string(),
        });
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

    /// What was written so far outlives this process, though not the machine: the payloads, and then the lines that name them.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn flush(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.unflushed = 0;
        let flushed = open.raw.flush().and_then(|()| open.index.flush());
        flushed.map_err(|error| at("write frames", &self.directory, &error))
    }

    /// The frames that were written so far are durable: who writes here next gives them their name, if this process is killed.
    /// What was lost is [flushed](FrameFiles::flush).
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let Some(open) = &mut self.open else { return Ok(()) };
        if !std::mem::replace(&mut open.is_dirty, false) {
            return Ok(());
        }
        let synced = open.raw.get_ref().sync_data().and_then(|()| open.index.get_ref().sync_data());
        synced.map_err(|error| at("sync frames", &self.directory, &error))?;
        if !std::mem::replace(&mut open.is_entered, true) {
            self.sync_directory()?;
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
        let line = json!({
            "lost": {"producer": lost.producer.as_str(), "first": lost.first, "end": lost.end,
                "reason": super::reason_name(lost.reason)},
        });
        self.note(&line)
    }

    /// Notes that a set is over.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`].
    pub fn set_over(&mut self, set: &SetReport) -> Result<()> {
        let line = json!({
            "set_over": {"set": set.set, "frames": set.frames, "delivered": set.delivered, "missing": set.missing},
        });
        self.note(&line)
    }

    fn note(&mut self, line: &Value) -> Result<()> {
        let directory = self.directory.clone();
        let open = self.open()?;
        writeln!(open.index, "{line}").map_err(|error| at("write frames", &directory, &error))
    }

    /// Gives the file that is written its name.
    ///
    /// # Errors
    /// As [`FrameFiles::frame`]; `Conflict` if somebody else made a file of that name.
    pub fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let failed = |error: &std::io::Error| at("write frames", &self.directory, error);
        let finish = |file: BufWriter<File>| -> Result<File> {
            let file = file.into_inner().map_err(|error| failed(error.error()))?;
            file.sync_all().map_err(|error| failed(&error))?;
            Ok(file)
        };
        // Locked until they have their names.
        let (_raw, _index) = (finish(open.raw)?, finish(open.index)?);
        for kind in ["jsonl", "raw"] {
            give_name(&self.part(self.number, kind), &self.path(self.number, kind))?;
        }
        self.sync_directory()?;
        self.number += 1;
        self.finished += 1;
        Ok(())
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
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
                Ok(BufWriter::with_capacity(BUFFER_BYTES, made))
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

/// A second name, and the first goes: what stands there is never replaced, unless it is the same file.
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
        other => other.map_err(failed)?,
    }
    std::fs::remove_file(part).map_err(failed)
}

/// Whether this file still is what has that name.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let named = std::fs::symlink_metadata(path).map(|named| (named.dev(), named.ino()));
    let open = file.metadata().map(|open| (open.dev(), open.ino()));
    named.is_ok_and(|named| open.is_ok_and(|open| open == named))
}

/// Has the file as long as it is open.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let cause = format!("{}: another writer is at work there", shown(path));
            Err(Failure::new(FailureKind::Busy, "write frames", cause))
        }
        // Where a file system has no locks nobody is kept out.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// For so long a writer that was just killed may still be there, and how often that is looked at.
const GOES: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A file that was left without its name, and is nobody else's now.
struct Left {
    file: File,
    path: PathBuf,
}

impl Left {
    /// `None`: there is none, or not any more: its writer gave it its name.
    fn open(path: PathBuf) -> Result<Option<Left>> {
        let since = Instant::now();
        loop {
            let file = match File::options().read(true).write(true).open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                opened => opened.map_err(|error| at("read what was left", &path, &error))?,
            };
            match lock(&file, &path) {
                Err(failure) if since.elapsed() >= GOES => return Err(failure),
                Ok(()) if is_at(&file, &path) => return Ok(Some(Left { file, path })),
                _ => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn bytes(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|error| at("read what was left", &self.path, &error))?.len())
    }

    /// It ends there, durably.
    fn cut(&self, bytes: u64) -> Result<()> {
        let cut = match self.bytes()? > bytes {
            true => self.file.set_len(bytes),
            false => Ok(()),
        };
        let synced = cut.and_then(|()| self.file.sync_all());
        synced.map_err(|error| at("sync what was left", &self.path, &error))
    }
}

/// What of a file and its index is whole: up to there every line names a frame that is there.
#[derive(Default)]
struct Whole {
    frames: u64,
    raw_bytes: u64,
    index_bytes: u64,
}

impl Whole {
    fn read(index: &Left, raw: &Left, file: &str) -> Result<Whole> {
        let mut whole = Whole::default();
        let mut lines = BufReader::new(&index.file);
        let mut payloads = BufReader::with_capacity(BUFFER_BYTES, &raw.file);
        loop {
            let mut line = Vec::new();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| at("read what was left", &index.path, &error))?;
            if line.last() != Some(&b'\n') {
                return Ok(whole);
            }
            let Ok(row) = serde_json::from_slice::<Value>(&line) else { return Ok(whole) };
            if !is_note(&row) {
                let row = Row::read(&row).filter(|row| row.file == file && row.offset == whole.raw_bytes);
                let Some(row) = row else { return Ok(whole) };
                let mut hasher = blake3::Hasher::new();
                let mut payload = payloads.by_ref().take(row.bytes);
                let read = std::io::copy(&mut payload, &mut hasher);
                let read = read.map_err(|error| at("read what was left", &raw.path, &error))?;
                if read != row.bytes || hasher.finalize().to_string() != row.digest {
                    return Ok(whole);
                }
                whole.frames += 1;
                whole.raw_bytes += row.bytes;
            }
            whole.index_bytes += line.len() as u64;
        }
    }
}

/// How a file is cut into frames.
#[derive(Debug, Clone, Default)]
pub struct Cut {
    /// Bytes of each; the last may have fewer.
    pub frame_bytes: u64,
    /// Type of the elements of each.
    pub dtype: String,
    /// Elements of each along each axis; only where the frame is whole.
    pub shape: Vec<u64>,
}

/// Reads all of `from` as frames of a size.
///
/// # Errors
/// What `sink` says; when it cannot be read; `Usage` for frames beyond the limits.
pub fn cut(from: &mut dyn Read, cut: &Cut, sink: &mut dyn FnMut(NewFrame) -> Result<()>) -> Result<()> {
    if cut.frame_bytes == 0 || cut.frame_bytes > limits::FRAME_PAYLOAD_BYTES_MAX {
        return Err(Failure::new(FailureKind::Usage, "cut frames", "a frame has from 1 byte to 1 GiB"));
    }
    // As large as the one before: memory grows with what is read, not with what was asked for.
    let mut usual = 0;
    loop {
        let mut payload = Vec::with_capacity(usual);
        let read = from.take(cut.frame_bytes).read_to_end(&mut payload);
        read.map_err(|error| failure::of_io("read frames", &error))?;
        if payload.is_empty() {
            return Ok(());
        }
        usual = payload.len();
        let is_whole = usual as u64 == cut.frame_bytes;
        let shape = if is_whole { cut.shape.clone() } else { Vec::new() };
        sink(NewFrame { dtype: cut.dtype.clone(), shape, payload: payload.into(), ..NewFrame::default() })?;
        if !is_whole {
            return Ok(());
        }
    }
}

/// Frames that [`cut`] makes of these files as they are now. `None` where that cannot be known before they are read: of a
/// pipe, and of an empty file, which may be one of the kernel's that does not tell its size.
pub fn count_cut<'a>(files: impl IntoIterator<Item = &'a Path>, frame_bytes: u64) -> Option<u64> {
    files.into_iter().try_fold(0u64, |frames, file| {
        let bytes = regular_bytes(file).filter(|&bytes| bytes > 0 && frame_bytes > 0)?;
        frames.checked_add(bytes.div_ceil(frame_bytes))
    })
}

/// Frames that [`by_index`] reads by these indexes; `None` where one of them is a pipe, which can be read only once.
///
/// # Errors
/// When one cannot be read; `Usage` for what is no index.
pub fn count_indexed<'a>(indexes: impl IntoIterator<Item = &'a Path>) -> Result<Option<u64>> {
    let mut frames = 0;
    for index in indexes {
        if regular_bytes(index).is_none() {
            return Ok(None);
        }
        each_row(index, &mut |_, _| {
            frames += 1;
            Ok(())
        })?;
    }
    Ok(Some(frames))
}

/// Size of a regular file, also by a link to it.
fn regular_bytes(file: &Path) -> Option<u64> {
    std::fs::metadata(file).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

/// Reads the frames that an index names, from the files beside it, as they were delivered.
///
/// # Errors
/// What `sink` says; `Damage` for a frame that is not what its digest says; `Usage` for what is no index.
pub fn by_index(index: &Path, sink: &mut dyn FnMut(NewFrame) -> Result<()>) -> Result<()> {
    let directory = index.parent().unwrap_or(Path::new("."));
    let mut open: Option<(String, File)> = None;
    each_row(index, &mut |number, row| {
        if open.as_ref().is_none_or(|(name, _)| *name != row.file) {
            let path = directory.join(&row.file);
            let file = File::open(&path).map_err(|error| at("read frames", &path, &error))?;
            open = Some((row.file.clone(), file));
        }
        let Some((_, file)) = &mut open else { return Ok(()) };
        let mut payload = Vec::new();
        let read = file
            .seek(SeekFrom::Start(row.offset))
            .and_then(|_| file.take(row.bytes).read_to_end(&mut payload));
        read.map_err(|error| at("read frames", index, &error))?;
        if payload.len() as u64 != row.bytes || blake3::hash(&payload).to_string() != row.digest {
            let mut failure = bad_line(index, number, "the frame is not what its digest says");
            failure.kind = FailureKind::Damage;
            return Err(failure.in_range(row.offset, row.offset + row.bytes));
        }
        sink(NewFrame { payload: Payload::from(payload), ..row.frame })
    })
}

/// Reads the lines of an index that name frames, each with its number from 1 on.
fn each_row(index: &Path, sink: &mut dyn FnMut(u64, Row) -> Result<()>) -> Result<()> {
    let file = File::open(index).map_err(|error| at("read an index", index, &error))?;
    let mut lines = BufReader::new(file);
    let mut number = 0u64;
    loop {
        let mut line = String::new();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| at("read an index", index, &error))? == 0 {
            return Ok(());
        }
        number += 1;
        let row: Value =
            serde_json::from_str(&line).map_err(|_| bad_line(index, number, "it is not JSON"))?;
        if is_note(&row) {
            continue;
        }
        sink(number, Row::read(&row).ok_or_else(|| bad_line(index, number, "it does not name a frame"))?)?;
    }
}

/// Whether a line of an index names no frame.
fn is_note(row: &Value) -> bool {
    row.get("lost").is_some() || row.get("set_over").is_some()
}

fn bad_line(index: &Path, number: u64, what: &str) -> Failure {
    let cause = format!("{}, line {number}: {what}", shown(index));
    Failure::new(FailureKind::Usage, "read an index", cause)
}

/// A line of an index.
struct Row {
    file: String,
    offset: u64,
    bytes: u64,
    digest: String,
    /// Who made it, and its sequence, where the index says so.
    made: Option<(String, u64)>,
    frame: NewFrame,
}

impl Row {
    fn read(row: &Value) -> Option<Row> {
        let number = |key: &str| row.get(key)?.as_u64();
        let text = |key: &str| row.get(key)?.as_str().map(str::to_owned);
        let file = text("file")?;
        // Beside the index, and nowhere else.
        if file.is_empty() || file.contains(['/', '\0']) || file == "." || file == ".." {
            return None;
        }
        let set = match row.get("set")? {
            Value::Null => None,
            set => Some((set.get(0)?.as_u64()?, u32::try_from(set.get(1)?.as_u64()?).ok()?)),
        };
        let bytes = number("bytes").filter(|&bytes| bytes <= limits::FRAME_PAYLOAD_BYTES_MAX)?;
        let shape: Option<Vec<u64>> = row.get("shape")?.as_array()?.iter().map(Value::as_u64).collect();
        Some(Row {
            file,
            offset: number("offset")?,
            bytes,
            digest: text("digest")?,
            made: text("producer").zip(number("sequence")),
            frame: NewFrame {
                set,
                time_ns: Some(number("time_ns")?),
                deadline_ns: number("deadline_ns"),
                dtype: text("dtype")?,
                shape: shape?,
                metadata: unhex(&text("metadata")?)?,
                payload: Payload::default(),
            },
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    if digits.len().is_multiple_of(2) { pairs.collect() } else { None }
}

fn shown(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("`{}`", Escaped(path.as_os_str().as_bytes()))
}

fn at(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    let mut failure = failure::of_io(operation, error);
    failure.cause = format!("{}: {}", shown(path), failure.cause);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::Digest;

    fn frame(sequence: u64, bytes: &[u8]) -> Frame {
        Frame {
            producer: "cam".into(),
            sequence,
            set: Some((4, sequence as u32)),
            time_ns: 7,
            deadline_ns: None,
            latency_ns: None,
            dtype: "|u1".into(),
            shape: vec![bytes.len() as u64],
            metadata: b"\x00\xff".to_vec(),
            payload: bytes.to_vec().into(),
            digest: Digest(*blake3::hash(bytes).as_bytes()),
        }
    }

    #[test]
    fn frames_come_out_of_files_as_they_went_in_and_no_file_has_its_name_too_early() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = FrameFiles::new(directory.path(), "frames", 2).unwrap();
        for sequence in 0..3 {
            files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
        }
        let names = || -> Vec<String> {
            let mut names: Vec<_> = std::fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| !name.starts_with('.'))
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["frames-000000.jsonl", "frames-000000.raw"]);
        files.close().unwrap();
        assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().number, 2);
        let mut seen = Vec::new();
        for number in 0..2 {
            let index = directory.path().join(format!("frames-00000{number}.jsonl"));
            by_index(&index, &mut |frame| {
                seen.push(frame);
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(seen.len(), 3);
        assert_eq!((seen[2].set, &seen[2].payload[..]), (Some((4, 2)), &[2u8; 5][..]));
        assert_eq!((&seen[1].metadata[..], &seen[1].dtype[..]), (&b"\x00\xff"[..], "|u1"));
    }

    /// What is in a directory, hidden or not.
    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Sequences and payloads that an index names.
    fn named(index: &Path) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        by_index(index, &mut |frame| {
            all.push(frame.payload.to_vec());
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn what_a_killed_writer_left_gets_its_name_as_far_as_it_is_whole_and_nothing_of_it_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let left = || {
            let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
            for sequence in 0..3 {
                files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
            }
            files.sync().unwrap();
            files
        };
        drop(left());
        // Of the next frame a part, with and without a line that names it; then all of it, and half a line.
        let raw = path(".frames-000000.raw.part");
        let mut torn = std::fs::read(&raw).unwrap();
        torn.extend([3; 4]);
        std::fs::write(&raw, &torn).unwrap();
        let index = path(".frames-000000.jsonl.part");
        let text = std::fs::read_to_string(&index).unwrap();
        let fourth = text.lines().last().unwrap().replace("\"offset\":10", "\"offset\":15");
        std::fs::write(&index, format!("{text}{fourth}\n{fourth}")).unwrap();
        let mut next = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        assert_eq!(next.number, 1, "it does not go on in what it does not know");
        let recovered = next.recover().unwrap();
        let of = |name: &str, frames, torn_bytes| Recovered { name: name.to_owned(), frames, torn_bytes };
        assert_eq!(recovered, [of("frames-000000", 3, 4)]);
        assert_eq!(
            names(directory.path()),
            ["frames-000000.jsonl", "frames-000000.raw", "frames-000000.torn"]
        );
        assert_eq!(named(&path("frames-000000.jsonl")), [vec![0; 5], vec![1; 5], vec![2; 5]]);
        assert_eq!(
            (std::fs::read(path("frames-000000.torn")).unwrap(), next.recover().unwrap()),
            (vec![3; 4], vec![])
        );
        // Killed while names were given: before the first, between the two, and after.
        for given in 0..3 {
            let number = 1 + given;
            drop(left());
            let part = |kind: &str| path(&format!(".frames-{number:06}.{kind}.part"));
            let whole = |kind: &str| path(&format!("frames-{number:06}.{kind}"));
            if given >= 1 {
                std::fs::hard_link(part("jsonl"), whole("jsonl")).unwrap();
            }
            if given >= 2 {
                std::fs::remove_file(part("jsonl")).unwrap();
                std::fs::hard_link(part("raw"), whole("raw")).unwrap();
            }
            let recovered = FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap();
            assert_eq!(recovered, [of(&format!("frames-{number:06}"), 3, 0)]);
            assert_eq!(named(&whole("jsonl")).len(), 3);
            assert!(names(directory.path()).iter().all(|name| !name.starts_with('.')));
        }
        // One that wrote nothing leaves nothing, and one without an index what it wrote.
        FrameFiles::new(directory.path(), "frames", 0).unwrap().open().unwrap();
        assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap(), []);
        std::fs::write(path(".frames-000004.raw.part"), b"what is it").unwrap();
        let recovered = FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap();
        assert_eq!(recovered, [of("frames-000004", 0, 10)]);
        assert_eq!(std::fs::read(path("frames-000004.torn")).unwrap(), b"what is it");
        assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().number, 5);
    }

    #[test]
    fn two_writers_do_not_write_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        let mut other = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        files.frame(&frame(0, b"first")).unwrap();
        assert_eq!(other.frame(&frame(1, b"second")).unwrap_err().kind, FailureKind::Conflict);
        let mut third = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        assert_eq!(third.recover().unwrap_err().kind, FailureKind::Busy);
        // Who waited, and saw it come to its end, finds nothing that was left.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| third.recover());
            std::thread::sleep(LOOK_AGAIN);
            files.close().unwrap();
            assert_eq!(waits.join().unwrap().unwrap(), []);
        });
        assert_eq!(named(&directory.path().join("frames-000000.jsonl")), [b"first"]);
    }

    #[test]
    fn a_frame_that_comes_again_is_not_written_again_and_another_of_its_number_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = FrameFiles::new(directory.path(), "frames", 2).unwrap();
        for sequence in 0..5 {
            files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
        }
        files.close().unwrap();
        // Wherever the hub goes on.
        for first in [2, 3, 5] {
            let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
            files.expect_again().unwrap();
            for sequence in first..7 {
                assert_eq!(files.stands(&frame(sequence, &[sequence as u8; 5])), sequence < 5, "{sequence}");
            }
        }
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        files.expect_again().unwrap();
        files.frame(&frame(3, b"3333")).unwrap();
        files.frame(&frame(4, &[4; 5])).unwrap();
        assert_eq!(files.stood(), 0, "a producer that begins anew");
        files.close().unwrap();
        assert_eq!(named(&directory.path().join("frames-000003.jsonl")), [&b"3333"[..], &[4; 5]]);
    }

    #[test]
    fn a_deadline_goes_through_an_index_and_one_without_any_is_still_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        files.frame(&Frame { deadline_ns: Some(5), ..frame(0, b"soon") }).unwrap();
        files.frame(&frame(1, b"whenever")).unwrap();
        files.close().unwrap();
        let index = directory.path().join("frames-000000.jsonl");
        let deadlines = || {
            let mut all = Vec::new();
            by_index(&index, &mut |frame| {
                all.push(frame.deadline_ns);
                Ok(())
            })
            .unwrap();
            all
        };
        assert_eq!(deadlines(), [Some(5), None]);
        let text = std::fs::read_to_string(&index).unwrap();
        std::fs::write(&index, text.replace("\"deadline_ns\":5,", "").replace("\"deadline_ns\":null,", ""))
            .unwrap();
        assert_eq!(deadlines(), [None, None]);
    }

    #[test]
    fn a_frame_that_rotted_in_its_file_is_damage_and_an_index_does_not_lead_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        files.frame(&frame(0, b"sound")).unwrap();
        files.close().unwrap();
        std::fs::write(directory.path().join("frames-000000.raw"), b"wound").unwrap();
        let index = directory.path().join("frames-000000.jsonl");
        let mut nothing = |_| Ok(());
        assert_eq!(by_index(&index, &mut nothing).unwrap_err().kind, FailureKind::Damage);
        let text = std::fs::read_to_string(&index).unwrap();
        for bad in ["../x", "/etc/passwd", "..", ""] {
            std::fs::write(&index, text.replace("frames-000000.raw", bad)).unwrap();
            assert_eq!(by_index(&index, &mut nothing).unwrap_err().kind, FailureKind::Usage);
        }
    }

    #[test]
    fn the_frames_of_files_are_counted_before_they_are_read_where_their_sizes_say_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: usize| {
            let path = directory.path().join(name);
            std::fs::write(&path, vec![7; bytes]).unwrap();
            path
        };
        let (whole, with_rest, empty) = (file("whole", 8), file("rest", 9), file("empty", 0));
        for (path, truth) in [(&whole, 2), (&with_rest, 3)] {
            let mut frames = 0;
            let how = Cut { frame_bytes: 4, ..Cut::default() };
            cut(&mut File::open(path).unwrap(), &how, &mut |_| {
                frames += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!((frames, count_cut([path.as_path()], 4)), (truth, Some(truth)));
        }
        assert_eq!(count_cut([whole.as_path(), &with_rest], 4), Some(5));
        assert_eq!(count_cut([whole.as_path(), &empty], 4), None);
        assert_eq!(count_cut([whole.as_path(), Path::new("/dev/null")], 4), None);
        assert_eq!(count_cut([whole.as_path(), &directory.path().join("missing")], 4), None);
        assert_eq!(count_cut([whole.as_path()], 0), None);
        // Of an index by its lines, and not by those of what was lost.
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        for sequence in 0..3 {
            files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
        }
        let report = SetReport { set: 4, frames: 4, delivered: 3, taken: 3, missing: vec![(3, 4)] };
        files.set_over(&report).unwrap();
        files.close().unwrap();
        let index = directory.path().join("frames-000000.jsonl");
        assert_eq!(count_indexed([index.as_path(), &index]).unwrap(), Some(6));
        assert_eq!(count_indexed([index.as_path(), Path::new("/dev/null")]).unwrap(), None);
        assert_eq!(count_indexed([whole.as_path()]).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn a_file_is_cut_and_its_rest_is_a_shorter_frame() {
        let mut sizes = Vec::new();
        let how = Cut { frame_bytes: 4, dtype: "<u2".into(), shape: vec![2] };
        cut(&mut &b"0123456789"[..], &how, &mut |frame| {
            sizes.push((frame.payload.len(), frame.shape.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!(sizes, [(4, 1), (4, 1), (2, 0)]);
    }
}
