//! What changes in directories, as the kernel tells it (inotify). It is a reason to look, never a description: events
//! are lost when there are too many, and file systems of other machines tell none.

use crate::{Dir, uninterrupted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
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
    /// If this user has too many of them, or this process too many open files; the error names the setting.
    pub fn new() -> io::Result<Watch> {
        let made = uninterrupted(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK));
        made.map(Watch).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::MFILE) => limited(&error, "fs.inotify.max_user_instances, or that of open files"),
            _ => error,
        })
    }

    /// Watches the entries of a directory, not those of directories in it. Says the same number for the same directory.
    ///
    /// # Errors
    /// `StorageFull` when this user watches too many; the error names the setting.
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
        let added = uninterrupted(|| inotify::add_watch(&self.0, path.as_str(), flags));
        added.map(WatchId).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => limited(&error, "fs.inotify.max_user_watches"),
            _ => error,
        })
    }

    /// Waits for changes, at most so long, and returns those that came. Without any after the time.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn changes(&self, at_most: Duration) -> io::Result<Vec<Changed>> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(at_most).map_err(|_| crate::invalid("a wait beyond all clocks"))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
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
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The same, with the setting that stands in the way: what the kernel says of it sounds like a full disk.
fn limited(error: &io::Error, setting: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{error}; the limit is {setting}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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

    #[test]
    fn more_changes_than_the_kernel_keeps_are_told_to_be_more() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let watch = Watch::new().unwrap();
        let id = watch.add(&dir).unwrap();
        /// Of a kernel that keeps more, none are made to be too many.
        const KEPT_MAX: u64 = 1 << 20;
        let kept = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap_or_default();
        let Some(kept) = kept.trim().parse::<u64>().ok().filter(|kept| *kept <= KEPT_MAX) else {
            return eprintln!("skipped: the kernel keeps any number of events, or none");
        };
        // Two files in turns: the same event twice in a row is one.
        let mut files = ["a", "b"].map(|name| std::fs::File::create(scratch.path().join(name)).unwrap());
        for _ in 0..=kept / 2 {
            files.iter_mut().for_each(|file| file.write_all(b"x").unwrap());
        }
        let changes = watch.changes(Duration::from_secs(120)).unwrap();
        assert_eq!(changes.last(), Some(&Changed::Overflow));
        assert!(changes.contains(&Changed::Entry(id, b"a".to_vec())));
        // From then on they are told again.
        files[0].write_all(b"x").unwrap();
        let changes = watch.changes(Duration::from_secs(120)).unwrap();
        assert_eq!(changes, [Changed::Entry(id, b"a".to_vec())]);
    }
}
