//! What the command of a job said, bounded: when `log` has [`LOG_BYTES_MAX`] it becomes `log.1`, and what was called so
//! goes. What cannot be written is not kept, and the command goes on; of that is told how much it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thalweg_sys::atomic_file;

/// Bytes of one of the two files, at most; a piece that is written is never parted.
pub const LOG_BYTES_MAX: u64 = 4 << 20;

const LOG: &str = "log";
const EARLIER: &str = "log.1";

/// The files of a job's log, the earlier one first; they need not be there.
pub fn logs(directory: &Path) -> [PathBuf; 2] {
    [directory.join(EARLIER), directory.join(LOG)]
}

/// Writes the log of a job, behind what is there.
#[derive(Debug)]
pub struct Log {
    files: [PathBuf; 2],
    open: Option<(File, u64)>,
    lost_bytes: u64,
}

impl Log {
    /// Of the job that is recorded there.
    pub fn of(directory: &Path) -> Log {
        Log { files: logs(directory), open: None, lost_bytes: 0 }
    }

    /// Writes a piece.
    pub fn write(&mut self, piece: &[u8]) {
        if self.try_write(piece).is_err() {
            self.lost_bytes += piece.len() as u64;
            // Of a file that was removed, or took a part of it, we know nothing more.
            self.open = None;
        }
    }

    fn try_write(&mut self, piece: &[u8]) -> io::Result<()> {
        let note = match self.lost_bytes {
            0 => Vec::new(),
            lost => format!("(thalweg: {lost} bytes of this log could not be written)\n").into_bytes(),
        };
        let bytes = (note.len() + piece.len()) as u64;
        let (mut file, before) = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let before = match before > 0 && before + bytes > LOG_BYTES_MAX {
            true => {
                fs::rename(&self.files[1], &self.files[0])?;
                let (next, before) = self.begin()?;
                file = next;
                before
            }
            false => before,
        };
        file.write_all(&[note.as_slice(), piece].concat())?;
        self.lost_bytes = 0;
        self.open = Some((file, before + bytes));
        Ok(())
    }

    fn begin(&self) -> io::Result<(File, u64)> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.files[1])?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }
}

/// The last bytes of a job's log, at most so many; empty where there is none.
pub fn last_bytes(directory: &Path, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let [_, log] = logs(directory);
    let _ = atomic_file::open(&log).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        file.take(most).read_to_end(&mut bytes)
    });
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_its_bound_and_keeps_what_was_said_last() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = Log::of(scratch.path());
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..11 {
            log.write(&piece);
        }
        log.write(b"last\n");
        let bytes = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let files = logs(scratch.path());
        assert!(files.iter().all(|file| bytes(file) <= LOG_BYTES_MAX), "{:?}", files.each_ref().map(bytes));
        assert_eq!(last_bytes(scratch.path(), 5), b"last\n");
        // Another run goes on behind it.
        Log::of(scratch.path()).write(b"again\n");
        assert_eq!(last_bytes(scratch.path(), 11), b"last\nagain\n");
    }

    #[test]
    fn what_could_not_be_written_is_counted_and_told_when_there_is_room_again() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("job");
        let mut log = Log::of(&directory);
        log.write(b"lost\n");
        assert_eq!(last_bytes(&directory, 100), b"");
        fs::create_dir(&directory).unwrap();
        log.write(b"kept\n");
        let told = String::from_utf8(last_bytes(&directory, 100)).unwrap();
        assert_eq!(told, "(thalweg: 5 bytes of this log could not be written)\nkept\n");
    }
}
