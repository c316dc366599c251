//! Frames in files: raw bytes one behind the other, and an index beside them.
//!
//! `NAME-000000.raw` has the payloads; `NAME-000000.jsonl` has one JSON object on a line for each: `file`, `offset`, `bytes`,
//! `producer`, `sequence`, `set`, `time_ns`, `dtype`, `shape`, `metadata` (hexadecimal), `digest` (BLAKE3); and for what was
//! lost or over in between, `lost` and `set_over`. A file has its name when it is whole and synced, the index first; before,
//! it is `.NAME-000000.raw.part`, which the next writer in the directory may overwrite.

use super::{Frame, LostRange, NewFrame, Payload, SetReport};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
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
}

/// The file that is written.
struct Open {
    raw: BufWriter<File>,
    index: BufWriter<File>,
    frames: u64,
    bytes: u64,
}

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest line of an index: what the longest head can be, written as JSON.
const LINE_BYTES_MAX: u64 = 4 * limits::ITEM_HEAD_BYTES_MAX as u64;

impl FrameFiles {
    /// In this directory, which is made if need be; files are `NAME-NNNNNN`, numbered behind those that stand there.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub fn new(directory: &Path, name: &str, every: u64) -> Result<FrameFiles> {
        std::fs::create_dir_all(directory).map_err(|error| at("make a directory", directory, &error))?;
        let mut number = 0;
        for entry in
            std::fs::read_dir(directory).map_err(|error| at("read a directory", directory, &error))?
        {
            let entry = entry.map_err(|error| at("read a directory", directory, &error))?;
            let known = entry.file_name().to_str().and_then(|file| number_of(file, name));
            number = known.map_or(number, |known| number.max(known + 1));
        }
        Ok(FrameFiles {
            directory: directory.to_owned(),
            name: name.to_owned(),
            every,
            number,
            open: None,
            finished: 0,
        })
    }

    /// Appends a frame. A file that is full with it gets its name.
    ///
    /// # Errors
    /// When it cannot be written, synced or named.
    pub fn frame(&mut self, frame: &Frame) -> Result<()> {
        let file = self.file_name("raw");
        let (every, directory) = (self.every, self.directory.clone());
        let open = self.open()?;
        let line = json!({
            "file": file, "offset": open.bytes, "bytes": frame.payload.len(), "producer": frame.producer,
            "sequence": frame.sequence, "set": frame.set, "time_ns": frame.time_ns, "dtype": frame.dtype,
            "shape": frame.shape, "metadata": hex(&frame.metadata), "digest": frame.digest.to_string(),
        });
        let written = open.raw.write_all(&frame.payload).and_then(|()| writeln!(open.index, "{line}"));
        written.map_err(|error| at("write frames", &directory, &error))?;
        open.bytes += frame.payload.len() as u64;
        open.frames += 1;
        if every > 0 && open.frames >= every { self.close() } else { Ok(()) }
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
        let finish = |file: BufWriter<File>| -> Result<()> {
            let file = file.into_inner().map_err(|error| failed(error.error()))?;
            file.sync_all().map_err(|error| failed(&error))
        };
        finish(open.raw)?;
        finish(open.index)?;
        for kind in ["jsonl", "raw"] {
            let name = self.directory.join(self.file_name(kind));
            // A second name, and the first goes: what stands there is never replaced.
            std::fs::hard_link(self.part(kind), &name).map_err(|error| at("name a file", &name, &error))?;
            std::fs::remove_file(self.part(kind)).map_err(|error| at("name a file", &name, &error))?;
        }
        let directory = File::open(&self.directory).and_then(|directory| directory.sync_all());
        directory.map_err(|error| failed(&error))?;
        self.number += 1;
        self.finished += 1;
        Ok(())
    }

    /// Files that have their names.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    fn open(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let make = |kind| {
                let path = self.part(kind);
                let made = File::create(&path).map_err(|error| at("make a file", &path, &error))?;
                Ok(BufWriter::with_capacity(BUFFER_BYTES, made))
            };
            self.open = Some(Open { raw: make("raw")?, index: make("jsonl")?, frames: 0, bytes: 0 });
        }
        let gone = || Failure::new(FailureKind::Internal, "write frames", "no file is open");
        self.open.as_mut().ok_or_else(gone)
    }

    fn file_name(&self, kind: &str) -> String {
        format!("{}-{:06}.{kind}", self.name, self.number)
    }

    fn part(&self, kind: &str) -> PathBuf {
        self.directory.join(format!(".{}.part", self.file_name(kind)))
    }
}

fn number_of(file: &str, name: &str) -> Option<u64> {
    let rest = file.strip_prefix(name)?.strip_prefix('-')?;
    rest.strip_suffix(".raw").or_else(|| rest.strip_suffix(".jsonl"))?.parse().ok()
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
        if row.get("lost").is_some() || row.get("set_over").is_some() {
            continue;
        }
        sink(number, Row::read(&row).ok_or_else(|| bad_line(index, number, "it does not name a frame"))?)?;
    }
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
            frame: NewFrame {
                set,
                time_ns: Some(number("time_ns")?),
                deadline_ns: None,
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
