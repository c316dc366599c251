//! What writers that were killed left: the frames that are whole get their name, the rest is kept beside them.

use super::index::{LINE_BYTES_MAX, Row, count_indexed, is_note};
use super::{BUFFER_BYTES, FrameFiles, at, give_name, lock};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path};
use thalweg_sys::Advice;

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

impl FrameFiles {
    /// Gives what writers that were killed left its name, frame by frame held against their digests: that takes as long
    /// as reading it.
    ///
    /// # Errors
    /// `Busy` if one of them is at work; `Conflict` if somebody else made a file of that name; when it cannot be read,
    /// synced or named.
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
        let (part, path) = (self.part(number, "torn"), self.path(number, "torn"));
        let failed = |error: std::io::Error| at("keep what is torn", &path, &error);
        // Of an attempt that was killed.
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let digest = |mut from: &File| -> std::io::Result<blake3::Hash> {
            let mut hasher = blake3::Hasher::new();
            std::io::copy(&mut from, &mut hasher).map(|_| hasher.finalize())
        };
        let kept = || -> std::io::Result<File> {
            let mut kept = File::options().read(true).write(true).create_new(true).open(&part)?;
            let mut raw = &raw.file;
            raw.seek(SeekFrom::Start(from))?;
            std::io::copy(&mut raw, &mut kept)?;
            kept.sync_all()?;
            kept.seek(SeekFrom::Start(0))?;
            Ok(kept)
        };
        let kept = kept().map_err(failed)?;
        match Left::open(path.clone())? {
            // It was kept before, by one that was killed before it cut.
            Some(there) if digest(&there.file).map_err(failed)? == digest(&kept).map_err(failed)? => {
                std::fs::remove_file(&part).map_err(failed)?;
            }
            // What stands there is never replaced.
            _ => give_name(&part, &path)?,
        }
        self.sync_directory()
    }
}

/// Whether this file still is what has that name.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let named = std::fs::symlink_metadata(path).map(|named| (named.dev(), named.ino()));
    let open = file.metadata().map(|open| (open.dev(), open.ino()));
    named.is_ok_and(|named| open.is_ok_and(|open| open == named))
}

fn in_the_way(path: &Path) -> Failure {
    let cause = "something else than a file of frames stands there; remove it, or use another directory";
    at_path(Failure::new(FailureKind::Conflict, "read what was left", cause), path)
}

/// For so long a writer that was just killed may still be there, and how often that is looked at.
const GOES: Duration = Duration::from_secs(2);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

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
            // Nothing is read, cut or waited for by way of a link, a pipe or a device that somebody put there.
            match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(at("read what was left", &path, &error)),
                Ok(found) if !found.is_file() => return Err(in_the_way(&path)),
                Ok(_) => {}
            }
            let file = match File::options().read(true).write(true).open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                opened => opened.map_err(|error| at("read what was left", &path, &error))?,
            };
            match lock(&file, &path) {
                Err(failure) if since.elapsed() >= GOES => return Err(failure),
                Ok(()) if is_at(&file, &path) => return Ok(Some(Left { file, path })),
                Ok(()) if since.elapsed() >= GOES => return Err(in_the_way(&path)),
                _ => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// What is read of it from here on is what the medium has: what an earlier sync lost is still in the page cache,
    /// and no sync tells that again.
    fn leave_cache(&self) -> Result<()> {
        let synced = self.file.sync_all().and_then(|()| self.file.try_clone());
        let file = synced.map_err(|error| at("sync what was left", &self.path, &error))?;
        let _ = thalweg_sys::File::from_fd(file.into()).advise(Advice::DontNeed, 0, 0);
        Ok(())
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
    /// From the medium.
    fn read(index: &Left, raw: &Left, file: &str) -> Result<Whole> {
        index.leave_cache()?;
        raw.leave_cache()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::Dir;

    #[test]
    fn what_was_left_is_held_against_its_digests_as_the_medium_has_it() {
        const BYTES: u64 = 8 << 20;
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let left = |name: &str, content: &[u8]| {
            std::fs::write(scratch.path().join(name), content).unwrap();
            Left::open(scratch.path().join(name)).unwrap().unwrap()
        };
        let raw = left("raw", &vec![7; BYTES as usize]);
        let index = left("index", b"no line of an index\n");
        let file = Dir::open(scratch.path()).unwrap().open_read(b"raw").unwrap();
        let cached = || file.cached_bytes(0, BYTES).ok();
        raw.leave_cache().unwrap();
        if cached() != Some(0) {
            eprintln!("skipped: what is cached is not told here, or cannot be dropped");
            return;
        }
        std::fs::write(&raw.path, vec![7u8; BYTES as usize]).unwrap();
        assert_ne!(cached(), Some(0));
        let whole = Whole::read(&index, &raw, "raw").unwrap();
        assert_eq!((whole.frames, cached()), (0, Some(0)));
    }
}
