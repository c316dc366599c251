//! What changes in directories, as the kernel tells it (inotify). It is a reason to look, never a description: events are lost
//! when there are too many, and file systems of other machines tell none.

use crate::{Dir, uninterrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Memory for events that are read at once: some two hundred of usual names.
const EVENTS_BYTES: usize = 8 << 10;

/// Directories that are watched.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// A directory in a [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(i32);

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Something about the entry of this name: made, removed, moved, written, closed after writing.
    Entry(WatchId, Vec<u8>),
    /// More than the kernel kept: look at everything.
    Overflow,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// If this user has no more of them.
    pub fn new() -> io::Result<Watch> {
        uninterrupted(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)).map(Watch)
    }

    /// Watches the entries of a directory, not those of directories in it. Says the same number for the same directory.
    ///
    /// # Errors
    /// `StorageFull` when this user watches too many (`fs.inotify.max_user_watches`).
    pub fn add(&self, dir: &Dir) -> io::Result<WatchId> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR;
        // By the directory that is held, whatever its name leads to by now.
        let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        uninterrupted(|| inotify::add_watch(&self.0, path.as_str(), flags)).map(WatchId)
    }

    /// Waits for changes, at most so long, and returns those that came. Without any after the time.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn changes(&self, at_most: Duration) -> io::Result<Vec<Changed>> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(at_most).map_err(|_| crate::invalid("a wait beyond all clocks"))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut memory = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = inotify::Reader::new(&self.0, &mut memory);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    changes.push(Changed::Overflow);
                }
                Ok(event) => {
                    if let Some(name) = event.file_name() {
                        changes.push(Changed::Entry(WatchId(event.wd()), name.to_bytes().to_vec()));
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(changes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_and_written_in_a_directory_is_told_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let watch = Watch::new().unwrap();
        let id = watch.add(&dir).unwrap();
        assert_eq!(watch.add(&dir).unwrap(), id);
        assert!(watch.changes(Duration::ZERO).unwrap().is_empty());
        std::fs::write(scratch.path().join("a"), "x").unwrap();
        let changes = watch.changes(Duration::from_secs(120)).unwrap();
        assert!(changes.contains(&Changed::Entry(id, b"a".to_vec())), "{changes:?}");
    }
}
