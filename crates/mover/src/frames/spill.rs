//! The spill log of a channel: which files it has, and how much is in them. Its records are laid out in
//! [`thalweg_wire::spill`]; the writing and reading is done by `run::frames`.

use std::collections::BTreeMap;
use thalweg_wire::limits;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Number of the file.
    pub file: u64,
    /// Where the record begins in it.
    pub offset: u64,
    /// Bytes of the record.
    pub bytes: u64,
}

/// How a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillTerms {
    /// Everything is written, for later; else only what memory does not hold.
    pub is_recorded: bool,
    /// The most that it may have.
    pub bytes_max: u64,
}

impl SpillTerms {
    /// Bytes after which a file is full: an eighth of all, because whole files are forgotten.
    pub fn file_bytes(&self) -> u64 {
        (self.bytes_max / 8).clamp(limits::SPILL_BYTES_MIN / 8, 64 << 20)
    }
}

#[derive(Debug, Clone, Copy)]
struct Spilled {
    bytes: u64,
    last_position: u64,
    /// Records in it that were handed out and not read yet.
    pins: u32,
}

/// The files of a log.
#[derive(Debug, Default)]
pub struct Files {
    files: BTreeMap<u64, Spilled>,
    /// Handed out to be written, and not yet told where.
    writing_bytes: u64,
}

impl Files {
    /// A record of about this size will be written.
    pub fn begin(&mut self, bytes: u64) {
        self.writing_bytes += bytes;
    }

    /// It is.
    pub fn written(&mut self, position: u64, at: Location, begun_bytes: u64) {
        self.writing_bytes = self.writing_bytes.saturating_sub(begun_bytes);
        self.found(position, at);
    }

    /// A record stands there.
    pub fn found(&mut self, position: u64, at: Location) {
        let new = Spilled { bytes: 0, last_position: position, pins: 0 };
        let file = self.files.entry(at.file).or_insert(new);
        file.bytes = file.bytes.max(at.offset + at.bytes);
        file.last_position = file.last_position.max(position);
    }

    /// Bytes that were handed out to be written, and are not yet.
    pub fn writing_bytes(&self) -> u64 {
        self.writing_bytes
    }

    /// Bytes that the log has, and will have when all is written.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum::<u64>() + self.writing_bytes
    }

    /// A record in a file was handed out, or is read.
    pub fn pin(&mut self, file: u64, is_handed_out: bool) {
        if let Some(file) = self.files.get_mut(&file) {
            file.pins = if is_handed_out { file.pins + 1 } else { file.pins.saturating_sub(1) };
        }
    }

    /// The oldest file, if it is not the one that is written and nothing in it is to be read: its number and its last
    /// position.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        let (&number, file) = self.files.first_key_value()?;
        (self.files.len() > 1 && file.pins == 0).then_some((number, file.last_position))
    }

    /// It is gone.
    pub fn forget(&mut self, number: u64) {
        self.files.remove(&number);
    }
}
