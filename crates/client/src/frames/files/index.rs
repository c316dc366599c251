//! Indexes: what each line names, and the frames that are read by one.

use super::super::{NewFrame, Payload};
use super::{REUSED_BYTES_MAX, at, no_memory, regular_bytes};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result, at_path};
use thalweg_mover::memory::Shelf;
use thalweg_wire::hex::unhex;
use thalweg_wire::limits;

/// The longest line of an index: what the longest head can be, written as JSON.
pub(in crate::frames) const LINE_BYTES_MAX: u64 = 4 * limits::ITEM_HEAD_BYTES_MAX as u64;

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

/// Reads the frames that an index names, from the files beside it, as they were delivered.
///
/// # Errors
/// What `sink` says; `Damage` for a frame that is not what its digest says; `Usage` for what is no index.
pub fn by_index(index: &Path, sink: &mut dyn FnMut(NewFrame) -> Result<()>) -> Result<()> {
    by_lines(index, &mut open(index)?, sink)
}

/// As [`by_index`], with the lines of the index from somebody who has it open: a pipe gives them once.
///
/// # Errors
/// As [`by_index`].
pub fn by_lines(
    index: &Path,
    lines: &mut dyn Read,
    sink: &mut dyn FnMut(NewFrame) -> Result<()>,
) -> Result<()> {
    let directory = index.parent().unwrap_or(Path::new("."));
    let mut open: Option<(String, File)> = None;
    let shelf = Shelf::new(REUSED_BYTES_MAX);
    // Memory grows with what is read, not with what a line says.
    let mut usual = 0;
    each_line(index, lines, &mut |number, row| {
        if open.as_ref().is_none_or(|(name, _)| *name != row.file) {
            let path = directory.join(&row.file);
            let file = File::open(&path).map_err(|error| not_beside(&path, &error))?;
            open = Some((row.file.clone(), file));
        }
        let Some((_, file)) = &mut open else { return Ok(()) };
        let mut payload = shelf.room(usual).map_err(|_| no_memory())?;
        let read =
            file.seek(SeekFrom::Start(row.offset)).and_then(|_| payload.read_all(file.take(row.bytes)));
        read.map_err(|error| at("read frames", index, &error))?;
        if payload.len() as u64 != row.bytes || blake3::hash(&payload).to_string() != row.digest {
            let mut failure = bad_line(index, number, "the frame is not what its digest says");
            failure.kind = FailureKind::Damage;
            return Err(failure.in_range(row.offset, row.offset + row.bytes));
        }
        usual = payload.len();
        sink(NewFrame { payload: Payload::new(payload), ..row.frame })
    })
}

/// Reads the lines of an index that name frames, each with its number from 1 on.
pub(super) fn each_row(index: &Path, sink: &mut dyn FnMut(u64, Row) -> Result<()>) -> Result<()> {
    each_line(index, &mut open(index)?, sink)
}

fn open(index: &Path) -> Result<File> {
    File::open(index).map_err(|error| at(READ_INDEX, index, &error))
}

/// A file that an index names is not to be had.
fn not_beside(path: &Path, error: &std::io::Error) -> Failure {
    at("read what an index names", path, error).because(Reason::NotBesideIndex)
}

/// What reading an index is called where it fails.
pub const READ_INDEX: &str = "read an index";

fn each_line(index: &Path, lines: &mut dyn Read, sink: &mut dyn FnMut(u64, Row) -> Result<()>) -> Result<()> {
    let mut lines = BufReader::new(lines);
    let mut number = 0u64;
    loop {
        let mut line = String::new();
        let read = lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| at(READ_INDEX, index, &error))? == 0 {
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
pub(super) fn is_note(row: &Value) -> bool {
    row.get("lost").is_some() || row.get("set_over").is_some()
}

fn bad_line(index: &Path, number: u64, what: &str) -> Failure {
    let cause = format!("line {number}: {what}");
    at_path(Failure::new(FailureKind::Usage, READ_INDEX, cause), index)
}

/// A line of an index.
pub(super) struct Row {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) digest: String,
    /// Who made it, and its sequence, where the index says so.
    pub(super) made: Option<(String, u64)>,
    pub(super) frame: NewFrame,
}

impl Row {
    pub(super) fn read(row: &Value) -> Option<Row> {
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
