//! Files with secrets: for their owner alone, whole or not there, durable.

use crate::failure::{of_io, shown_path};
use crate::{Failure, FailureKind, Result};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use thalweg_sys::Replace;
use thalweg_sys::atomic_file::{self, AtomicFile, Durability};
use zeroize::Zeroizing;

/// Reads at most `bytes_max` bytes, following links. The check is made on the open file, not on the name.
///
/// # Errors
/// `Conflict` for a directory; `Permission` if the group or others have any right to it or it belongs to somebody else;
/// `Usage` if it is longer; else what the kernel says.
pub fn read(path: &Path, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>> {
    let fail = |error: &io::Error| place(of_io("read", error), path);
    let file = std::fs::File::open(path).map_err(|error| fail(&error))?;
    let metadata = file.metadata().map_err(|error| fail(&error))?;
    if metadata.is_dir() {
        return Err(place(Failure::new(FailureKind::Conflict, "read", "it is a directory"), path));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7777;
        let mut why = format!("it holds a secret, and its mode {mode:04o} lets others at it");
        // Of a device, many programs need the mode that it has.
        why.push_str(match metadata.is_file() {
            true => "; run `chmod 600` on it",
            false => "; name a file of mode 0600, or a pipe of your own",
        });
        return Err(place(Failure::new(FailureKind::Permission, "read", why), path));
    }
    let owner = metadata.uid();
    if owner != thalweg_sys::user::effective_uid() && owner != 0 {
        let why = format!("it holds a secret, and it belongs to user {owner}, who is somebody else");
        return Err(place(Failure::new(FailureKind::Permission, "read", why), path));
    }
    // Of its final size from the start: a vector that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max + 1));
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    if bytes.len() > bytes_max {
        let why = format!("it is longer than {bytes_max} bytes");
        return Err(place(Failure::new(FailureKind::Usage, "read", why), path));
    }
    Ok(bytes)
}

/// Writes a new file of mode 0600. It appears with all its bytes, durable, or not at all.
///
/// # Errors
/// `Conflict` if there is a file of that name; else what the kernel says.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<()> {
    atomic_file::write_new(path, bytes, 0o600, Durability::Synced).map_err(not_written)
}

/// Writes a file of mode 0600, in place of one of that name.
///
/// # Errors
/// `Usage` in place of a device, a FIFO or a socket; else what the kernel says.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    atomic_file::write(path, bytes, 0o600, Durability::Synced).map_err(not_written)
}

/// Room on the disk for such a file, which is given back if it is dropped. Where a block is never written twice (btrfs,
/// ZFS) it may not do: then [`Room::fill`] fails, and what was there stands.
#[derive(Debug)]
pub struct Room {
    file: AtomicFile,
    path: PathBuf,
}

impl Room {
    /// That for a file of this name and of so many bytes.
    ///
    /// # Errors
    /// As [`replace`]; above all that there is none.
    pub fn of(path: &Path, bytes: usize) -> Result<Room> {
        let room = Room {
            file: AtomicFile::begin(path, 0o600, Durability::Synced).map_err(not_written)?,
            path: path.to_owned(),
        };
        room.note(room.file.file().write_all_at(&filler(bytes), 0))?;
        room.note(room.file.file().sync_all())?;
        Ok(room)
    }

    /// Has the file appear with these bytes, which are at most as many, in place of one of its name.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn fill(self, bytes: &[u8]) -> Result<()> {
        self.note(self.file.file().write_all_at(bytes, 0))?;
        self.note(self.file.file().set_len(bytes.len() as u64))?;
        self.file.finish(Replace::Existing).map_err(not_written)
    }

    fn note(&self, done: io::Result<()>) -> Result<()> {
        done.map_err(|error| place(of_io("write", &error), &self.path))
    }
}

/// Bytes that take as much room as a secret does, also where a file system compresses.
fn filler(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(bytes).collect()
}

fn not_written(error: atomic_file::Error) -> Failure {
    place(of_io("write", &error.cause), &error.path)
}

/// A [`Failure`] has places inside a transfer only; this file is outside of any, so it goes into the sentence.
fn place(mut failure: Failure, path: &Path) -> Failure {
    let shown = shown_path(path.as_os_str().as_encoded_bytes());
    failure.operation = format!("{} `{shown}`", failure.operation);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_of_a_file_the_mode_is_said_to_be_changed() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "secret").unwrap();
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&file, open_to_all).unwrap();
        let told = |path: &Path| read(path, 64).unwrap_err();
        assert!(told(&file).cause.contains("chmod 600"));
        for (path, kind, why) in [
            (scratch.path(), FailureKind::Conflict, "it is a directory"),
            (Path::new("/dev/null"), FailureKind::Permission, "name a file of mode 0600"),
        ] {
            let refused = told(path);
            assert_eq!(refused.kind, kind, "{refused}");
            assert!(refused.cause.contains(why) && !refused.cause.contains("chmod"), "{refused}");
        }
    }

    #[test]
    fn room_is_on_the_disk_before_it_is_filled_and_is_given_back() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let hidden = || {
            let entries = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap());
            let others = entries.filter(|entry| entry.file_name() != "file");
            others.map(|entry| entry.metadata().unwrap().blocks() * 512).sum::<u64>()
        };
        let room = Room::of(&path, 40_000).unwrap();
        assert!(hidden() >= 40_000);
        drop(room);
        assert_eq!((hidden(), std::fs::read_to_string(&path).unwrap().as_str()), (0, "old"));
        Room::of(&path, 40_000).unwrap().fill(b"new").unwrap();
        assert_eq!((hidden(), std::fs::read_to_string(&path).unwrap().as_str()), (0, "new"));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_pipe_of_ones_own_is_read() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"secret").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(&read(Path::new(&path), 64).unwrap()[..], b"secret");
    }
}
