//! Metadata of directories until the end, when nothing changes their times any more: in memory as long as it is
//! little, then in a file without a name, and back in reverse order, so that children come before parents.

use crate::endpoint::local::metadata::Wanted;
use std::io;
use thalweg_sys::File;
use thalweg_wire::entry::Xattr;
use thalweg_wire::{EntryId, RelativePath, Time};

/// Kept in memory; what is older is in the file.
const MEMORY_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Spool {
    recent: Vec<u8>,
    file: Option<File>,
    file_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spooled {
    pub(super) id: EntryId,
    pub(super) path: RelativePath,
    /// It was told as unchanged; else as done.
    pub(super) was_unchanged: bool,
    pub(super) wanted: Wanted,
}

impl Spool {
    /// Adds one. `make_file` makes an empty file without a name, when it is needed.
    pub(super) fn push(
        &mut self,
        item: &Spooled,
        make_file: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let start = self.recent.len();
        encode(item, &mut self.recent);
        let length = (self.recent.len() - start) as u32;
        self.recent.extend_from_slice(&length.to_le_bytes());
        if self.recent.len() > MEMORY_BYTES {
            let file = match self.file.take() {
                Some(file) => file,
                None => make_file()?,
            };
            file.write_all_at(&self.recent, self.file_bytes)?;
            self.file_bytes += self.recent.len() as u64;
            self.file = Some(file);
            self.recent.clear();
        }
        Ok(())
    }

    /// Takes the one added last.
    pub(super) fn pop(&mut self) -> io::Result<Option<Spooled>> {
        if self.recent.is_empty() && !self.refill()? {
            return Ok(None);
        }
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the spooled metadata is damaged");
        let (rest, length) = self.recent.split_last_chunk::<4>().ok_or_else(damaged)?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize).ok_or_else(damaged)?;
        let item = decode(&rest[start..]).ok_or_else(damaged)?;
        self.recent.truncate(start);
        Ok(Some(item))
    }

    /// Reads the last part of the file back; false if there is none. One entry has less than 2 MiB, and the
    /// part begins at an entry because whole buffers were written.
    fn refill(&mut self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        if self.file_bytes == 0 {
            return Ok(false);
        }
        // Find where an entry begins, at least MEMORY_BYTES back or at the start.
        let mut start = self.file_bytes;
        let floor = self.file_bytes.saturating_sub(MEMORY_BYTES as u64);
        while start > floor {
            let mut length = [0; 4];
            if file.read_at(&mut length, start - 4)? != 4 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = u64::from(u32::from_le_bytes(length)) + 4;
            start = start.checked_sub(bytes).ok_or(io::ErrorKind::InvalidData)?;
        }
        self.recent.resize((self.file_bytes - start) as usize, 0);
        if file.read_at(&mut self.recent, start)? != self.recent.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file_bytes = start;
        Ok(true)
    }
}

fn encode(item: &Spooled, out: &mut Vec<u8>) {
    let Wanted { mode, uid, gid, mtime, xattrs } = &item.wanted;
    out.extend_from_slice(&item.id.0.to_le_bytes());
    out.push(item.was_unchanged.into());
    for word in [mode, uid, gid, &mtime.nanos] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&mtime.seconds.to_le_bytes());
    let mut bytes = |bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    bytes(item.path.as_bytes());
    for xattr in xattrs {
        bytes(&xattr.name);
        bytes(&xattr.value);
    }
}

fn decode(bytes: &[u8]) -> Option<Spooled> {
    let mut rest = bytes;
    let id = u64::from_le_bytes(take(&mut rest)?);
    let [was_unchanged] = take(&mut rest)?;
    let [mode, uid, gid, nanos] = {
        let mut word = || Some(u32::from_le_bytes(take(&mut rest)?));
        [word()?, word()?, word()?, word()?]
    };
    let seconds = i64::from_le_bytes(take(&mut rest)?);
    let path = RelativePath::new(take_bytes(&mut rest)?).ok()?;
    let mut xattrs = Vec::new();
    while !rest.is_empty() {
        xattrs.push(Xattr { name: take_bytes(&mut rest)?, value: take_bytes(&mut rest)? });
    }
    let wanted = Wanted { mode, uid, gid, mtime: Time { seconds, nanos }, xattrs };
    Some(Spooled { id: EntryId(id), path, was_unchanged: was_unchanged != 0, wanted })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_first_comes_out_last_through_memory_and_file() {
        let item = |number: u64| Spooled {
            id: EntryId(number),
            path: RelativePath::new(format!("dir/{number}").into_bytes()).unwrap(),
            was_unchanged: number.is_multiple_of(3),
            wanted: Wanted {
                mode: number as u32,
                uid: 1,
                gid: 2,
                mtime: Time { seconds: -5, nanos: 6 },
                xattrs: vec![Xattr { name: b"user.x".to_vec(), value: vec![7; number as usize % 300] }; 2],
            },
        };
        let mut spool = Spool::default();
        let make_file = || Ok(File::from_fd(tempfile::tempfile()?.into()));
        for number in 0..20_000 {
            spool.push(&item(number), make_file).unwrap();
        }
        assert!(spool.file_bytes > 2 * MEMORY_BYTES as u64);
        for number in (0..20_000).rev() {
            assert_eq!(spool.pop().unwrap(), Some(item(number)));
        }
        assert_eq!(spool.pop().unwrap(), None);
    }
}
