//! A hidden file that grows in any order and becomes an entry.

use super::lock;
use super::staging::{Staging, Territory, partial_name};
use crate::endpoint::PartialFile;
use std::io;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Advice, Buffer, Dir, DirectAlignment, File};
use thalweg_wire::RelativePath;
use thalweg_wire::digest::is_zero;

/// Runs of zeros shorter than a block of every usual file system are written, not left out.
const BLOCK_BYTES: usize = 4096;
/// Longest piece read at once where the caller's memory cannot be used.
const BOUNCE_BYTES_MAX: usize = 1 << 20;

pub(super) struct LocalPartial {
    number: u64,
    /// Of the entry it becomes.
    pub(super) path: RelativePath,
    pub(super) file: Arc<File>,
    /// Zeros become holes.
    is_sparse: bool,
    /// Where its name is.
    pub(super) dir: Arc<Dir>,
    pub(super) territory: Arc<Territory>,
    readback: Mutex<Readback>,
}

enum Readback {
    Untried,
    /// A second descriptor, past the page cache.
    Direct(File, DirectAlignment),
    /// Only advice can be given here.
    Cached,
}

impl LocalPartial {
    pub(super) fn new(
        number: u64,
        path: RelativePath,
        file: File,
        is_sparse: bool,
        staging: &Staging,
        territory: Arc<Territory>,
    ) -> LocalPartial {
        let dir = staging.dir.clone();
        let readback = Mutex::new(Readback::Untried);
        LocalPartial { number, path, file: Arc::new(file), is_sparse, dir, territory, readback }
    }

    pub(super) fn name(&self) -> String {
        partial_name(self.number)
    }

    fn open_direct(&self) -> Readback {
        let opened = self.dir.open_read(self.name().as_bytes()).and_then(|file| {
            let alignment = file.direct_alignment()?;
            file.set_direct(true)?;
            Ok((file, alignment))
        });
        match opened {
            Ok((file, Some(alignment))) => Readback::Direct(file, alignment),
            _ => Readback::Cached,
        }
    }
}

impl PartialFile for LocalPartial {
    fn number(&self) -> u64 {
        self.number
    }

    /// Whole blocks of zeros become holes where the source had some. They are punched rather than skipped, so
    /// that nothing an earlier attempt left there shows through.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.is_sparse {
            return self.file.write_all_at(bytes, offset);
        }
        for (start, end, is_hole) in runs(bytes, offset) {
            let (run, at) = (&bytes[start..end], offset + start as u64);
            if is_hole && self.file.punch_hole(at, run.len() as u64).is_ok() {
                continue;
            }
            self.file.write_all_at(run, at)?;
        }
        Ok(())
    }

    /// By direct I/O where the file system has it, whatever the alignment of the arguments. Elsewhere the clean
    /// pages of the range are dropped first; pages not yet written back are read from memory, so sync before.
    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut readback = lock(&self.readback);
        if matches!(*readback, Readback::Untried) {
            *readback = self.open_direct();
        }
        let Readback::Direct(file, alignment) = &*readback else {
            drop(readback);
            let _ = self.file.advise(Advice::DontNeed, offset, buffer.len() as u64);
            return self.file.read_at(buffer, offset);
        };
        let file = file.try_clone()?;
        let alignment = *alignment;
        drop(readback);
        read_direct(&file, alignment, buffer, offset)
    }
}

/// Writes `bytes` to the start of a new file, its whole blocks of zeros left out.
pub(super) fn write_with_holes(file: &File, bytes: &[u8]) -> io::Result<()> {
    for (start, end, is_hole) in runs(bytes, 0) {
        if !is_hole {
            file.write_all_at(&bytes[start..end], start as u64)?;
        }
    }
    Ok(())
}

/// All of a file of at most `bytes` from the medium, past the page cache where that can be had. Memory for all of it.
pub(super) fn read_back_whole(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?];
    let read = match file.direct_alignment()? {
        Some(alignment) if file.set_direct(true).is_ok() => read_direct(file, alignment, &mut content, 0)?,
        _ => {
            let _ = file.advise(Advice::DontNeed, 0, 0);
            file.read_at(&mut content, 0)?
        }
    };
    content.truncate(read);
    Ok(content)
}

/// Splits `bytes`, which go to `offset`, into runs `(start, end, all zero blocks)`; blocks are those of the file.
fn runs(bytes: &[u8], offset: u64) -> Vec<(usize, usize, bool)> {
    let mut runs: Vec<(usize, usize, bool)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let into_block = ((offset + at as u64) % BLOCK_BYTES as u64) as usize;
        let end = (at + BLOCK_BYTES - into_block).min(bytes.len());
        let is_hole = end - at == BLOCK_BYTES && is_zero(&bytes[at..end]);
        match runs.last_mut() {
            Some(last) if last.2 == is_hole => last.1 = end,
            _ => runs.push((at, end, is_hole)),
        }
        at = end;
    }
    runs
}

fn read_direct(file: &File, alignment: DirectAlignment, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let memory = alignment.memory as usize;
    let unit = u64::from(alignment.offset);
    let fits = (buffer.as_ptr() as usize).is_multiple_of(memory)
        && offset.is_multiple_of(unit)
        && (buffer.len() as u64).is_multiple_of(unit);
    if fits {
        return file.read_at(buffer, offset);
    }
    let mut bounce = Buffer::new(
        BOUNCE_BYTES_MAX.min((buffer.len() + 2 * unit as usize).next_multiple_of(unit as usize)),
    )?;
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        let start = at - at % unit;
        let skip = (at - start) as usize;
        let wanted = (skip + buffer.len() - filled).next_multiple_of(unit as usize).min(bounce.len());
        let read = file.read_at(&mut bounce[..wanted], start)?;
        let take = read.saturating_sub(skip).min(buffer.len() - filled);
        if take == 0 {
            break;
        }
        buffer[filled..filled + take].copy_from_slice(&bounce[skip..skip + take]);
        filled += take;
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_of_the_file_count_as_holes() {
        let mut bytes = vec![0; 5 * BLOCK_BYTES];
        bytes[2 * BLOCK_BYTES + 7] = 1;
        let b = BLOCK_BYTES;
        assert_eq!(runs(&bytes, 0), [(0, 2 * b, true), (2 * b, 3 * b, false), (3 * b, 5 * b, true)]);
        assert_eq!(runs(&bytes, 100)[0], (0, b - 100, false));
        assert_eq!(runs(&bytes[..b - 1], 0), [(0, b - 1, false)]);
        assert_eq!(runs(&[], 0), []);
    }

    #[test]
    fn direct_reads_serve_any_range() {
        // /dev/shm and /tmp may lack direct I/O; the working directory usually has it.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"x", 0o600).unwrap();
        let content: Vec<u8> = (0..2_500_000u32).map(|i| (i % 251) as u8).collect();
        file.write_all_at(&content, 0).unwrap();
        let reader = dir.open_read(b"x").unwrap();
        let Some(alignment) = reader.direct_alignment().unwrap() else {
            eprintln!("skipped: no direct I/O here");
            return;
        };
        reader.set_direct(true).unwrap();
        for (offset, length) in
            [(0, 2_500_000), (1, 10), (4095, 2), (100, 1_500_000), (2_499_990, 100), (3_000_000, 5)]
        {
            let mut buffer = vec![0; length];
            let read = read_direct(&reader, alignment, &mut buffer, offset as u64).unwrap();
            let expected = &content[offset.min(content.len())..(offset + length).min(content.len())];
            assert_eq!(&buffer[..read], expected, "{offset} {length}");
        }
    }
}
