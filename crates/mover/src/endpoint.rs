//! Where bytes rest. The engine knows only the traits here.
//!
//! A [`Source`] is scanned and read, a [`Destination`] decides what it lacks, takes bytes into hidden
//! partial files, makes them durable, and gives them their names. Neither chooses an order, retries, or
//! waits for a peer: that is the transfer's work.

#[cfg(doc)]
use self::together::TOGETHER_MAX;
use self::together::Together;
use crate::failure::{self, FailureKind, Result};
use crate::order::Placed;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use thalweg_sys::{DirectAlignment, File};
pub use thalweg_wire::message::Listing;
use thalweg_wire::message::{Failure, Outcome, ScanTotals};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, RelativePath};

mod acl;

pub mod deletion;

pub mod left_alone;

pub mod flow_destination;

pub mod feed;

pub mod reread;

pub mod local;

pub mod together;

pub mod content;

pub mod synthetic;

pub mod dataset;

pub mod simulated;

mod around;

pub mod sparing;

pub mod filtered;

#[cfg(any(test, feature = "sim"))]
pub mod testing;

#[cfg(test)]
mod conformance;

/// What fails where a name is not there, or what it leads to cannot be had.
pub const OPEN: &str = "open";

/// What fails where a destination cannot be had.
pub const OPEN_DESTINATION: &str = "open the destination";

/// What fails where a name of the source is not removed.
pub const REMOVE: &str = "remove the source file";

/// A small file as it came: whole, its digest compared.
#[derive(Clone, Copy)]
pub struct Small<'a> {
    /// What it is.
    pub entry: &'a Entry,
    /// All of its bytes.
    pub content: &'a [u8],
}

/// Where a transfer reads.
pub trait Source: Send + Sync {
    /// Walks everything that is to be moved, parents before children, and hands it to `sink` as it is
    /// found. Entry ids are 0: the transfer numbers them. Returns what was found; `complete` is false as
    /// soon as one directory could not be listed in full. Memory does not grow with the tree.
    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals;

    /// Opens the content of a regular file.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`; `Changed` if something else than a regular file stands there now.
    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>>;

    /// Looks at one entry again, after it changed. Same path and id, everything else as it is now.
    ///
    /// # Errors
    /// As [`Source::open`].
    fn look_again(&self, entry: &Entry) -> Result<Entry>;

    /// Why it cannot be reached at all any more: then the transfer ends with this, once, and not each entry. Asked
    /// when something failed; takes no time.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// Hears whether most of what it offers will be read as a whole, as far as that is foreseen: before the scan, and
    /// while the answers to what was offered show it. Where it is, a source may read content with its look at a file:
    /// then [`read_small`](Self::read_small), and what [`open`](Self::open) gives, have what the file was when it was
    /// offered, all of one moment. Takes no time.
    fn expect_reads(&self, _are_likely: bool) {}

    /// Hears how many bytes most requests will have for the content of large files that are opened from now on. It may
    /// choose by that how it reads them, and gives the same bytes whatever it hears. Takes no time.
    fn expect_requests(&self, _bytes: u64) {}

    /// Number of the device that it rests on, as `st_dev`; `None` if there is none, or there are several.
    fn device(&self) -> Option<u64> {
        None
    }

    /// Memory of what is said to be read and what is left out, in bytes; about. Takes no time.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Whether a file that was opened so far was to be read past the page cache and cannot be: its file system refuses
    /// that, or is in memory.
    fn direct_is_missed(&self) -> bool {
        false
    }

    /// Removes a name of a file or symbolic link that showed `seen` when it was offered, after another look
    /// at it. `is_end`: nobody looks for anything in this source any more; before that a name that may be
    /// looked for stays ([`Removal::Later`]).
    ///
    /// # Errors
    /// `Changed` if it is not what it was, or is open for writing ([`Reason::StillWritten`](crate::failure::Reason));
    /// `Unsupported` where nothing can be removed; `NotFound`, `Permission`, `Io`.
    fn remove(&self, path: &RelativePath, _seen: &Evidence, _is_end: bool) -> Result<Removal> {
        let cause = "there is nothing to remove here";
        Err(Failure::new(FailureKind::Unsupported, REMOVE, cause).at(path))
    }

    /// Where the content of a file lies, as far as that can be known; a bounded number of runs.
    ///
    /// # Errors
    /// `Unsupported` where it cannot be known; as [`Source::open`].
    fn layout(&self, entry: &Entry) -> Result<ExtentMap> {
        Err(Failure::new(FailureKind::Unsupported, "look up the layout", "it is not known here")
            .at(&entry.path))
    }

    /// The disks that a file lies on, by the names that the kernel gives them; `None` where that cannot be found out.
    /// Takes some small reads: asked once for each number of a device (`evidence.device`).
    fn disks(&self, _entry: &Entry) -> Option<Vec<String>> {
        None
    }

    /// Reads the whole content of a small file, all of one moment, into the front of `buffer`, which holds at
    /// least `evidence.size` bytes. Returns that size.
    ///
    /// # Errors
    /// As [`Source::open`]; `Changed` unless the file shows `entry.evidence` before and after the read, but for what
    /// was read when it was offered ([`Source::expect_reads`]).
    fn read_small(&self, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
        let file = self.open(entry)?;
        let now = file.evidence().map_err(|error| failure::of_io("read metadata", &error).at(&entry.path))?;
        if now != entry.evidence {
            return Err(changed(entry));
        }
        read_whole(&*file, entry, buffer)
    }
}

/// What became of a name that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Gone {
        /// What the other names of its file show now, if there are some: the removal changed their ctime.
        left: Option<Evidence>,
    },
    /// It stays until the end, for it may be looked for: the user named it, or its file has other names.
    Later,
}

/// Where the content of a file lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentMap {
    /// What has a place. Holes have none, and need none.
    pub placed: Vec<Placed>,
    /// Bytes of the content that have no place, or none yet.
    pub unplaced_bytes: u64,
}

/// Reads all of a file that just showed `entry.evidence`, and makes sure that it still does.
pub(crate) fn read_whole(file: &dyn SourceFile, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
    let of_io = |error: io::Error| failure::of_io("read", &error).at(&entry.path);
    let bytes = usize::try_from(entry.evidence.size).ok().filter(|bytes| *bytes <= buffer.len());
    let Some(bytes) = bytes else {
        let cause = "the buffer is smaller than the file";
        return Err(Failure::new(FailureKind::Internal, "read", cause).at(&entry.path));
    };
    let read = if bytes == 0 { 0 } else { file.read_at(&mut buffer[..bytes], 0).map_err(of_io)? };
    // Files of /proc have content and a size of 0.
    if bytes == 0 && file.read_at(&mut [0], 0).map_err(of_io)? > 0 {
        let cause = "it has content but does not tell its size";
        return Err(Failure::new(FailureKind::Unsupported, "read", cause).at(&entry.path));
    }
    if read != bytes || file.evidence().map_err(of_io)? != entry.evidence {
        return Err(changed(entry));
    }
    Ok(bytes)
}

fn changed(entry: &Entry) -> Failure {
    Failure::new(FailureKind::Changed, "read", "the file changed since it was scanned").at(&entry.path)
}

/// Whether an error of a request past the page cache says that it may do through it: the file system does not take it
/// that way, or there is no memory for it.
pub fn is_direct_refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::OutOfMemory | io::ErrorKind::Unsupported
    )
}

/// Takes what a scan finds.
pub trait ScanSink {
    /// An entry. Returns the number it got (hard links name it); `None`: stop scanning.
    fn entry(&mut self, entry: Entry) -> Option<EntryId>;
    /// A name that cannot be offered.
    fn trouble(&mut self, path: RelativePath, failure: Failure);
    /// A name left out on purpose, and why.
    fn skipped(&mut self, path: RelativePath, reason: &str);
}

/// An open regular file of a source.
pub trait SourceFile: Send + Sync {
    /// Fills `buffer` from `offset` on; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// What the kernel says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Hears that so many bytes from `offset` on are to be read next, before whoever reads them waits for its turn. May
    /// take up to a second; what is read is the same with it and without.
    fn prepare(&self, _offset: u64, _bytes: u64) {}

    /// What the open file shows now.
    ///
    /// # Errors
    /// What the kernel says.
    fn evidence(&self) -> io::Result<Evidence>;

    /// First offset at or after `offset` that holds data; `None` if only a hole follows. Where holes are
    /// not known: `offset`.
    ///
    /// # Errors
    /// What the kernel says.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;

    /// First offset at or after `offset` that lies in a hole; the end of the file counts as one.
    ///
    /// # Errors
    /// What the kernel says.
    fn next_hole(&self, offset: u64) -> io::Result<u64>;

    /// Whether [`SourceFile::direct`] may give it for some range: where not, nobody needs to ask for each. Takes no
    /// time.
    fn has_direct(&self) -> bool {
        false
    }

    /// The file, open for direct I/O, if a request for so many bytes at `offset` is best made that way; else, where it
    /// does not fit the alignment, and where the file system refuses it ([`is_direct_refused`]),
    /// [`SourceFile::read_at`].
    fn direct(&self, _offset: u64, _bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        None
    }

    /// Has what was read forgotten by every cache that can be told so: the next read comes from the medium.
    /// Best effort.
    fn forget_cached(&self) {}

    /// Bytes of it that are in the page cache now; `None` where nobody says.
    fn cached_bytes(&self) -> Option<u64> {
        None
    }
}

/// What a destination makes of an offered entry.
pub enum Decision {
    /// Nothing needs to be sent. `made`: names or metadata were changed just now and want a sync before the
    /// outcome may be told.
    Settled {
        /// The final word.
        outcome: Outcome,
        /// Whether something was changed for it.
        made: bool,
    },
    /// All of its content is wanted.
    Fresh,
    /// Chunks of it may be here.
    Wanted {
        /// What an earlier attempt left.
        left: Option<Left>,
        /// Size of the file that stands there, if it is worth comparing: see [`Destination::existing`].
        candidate: Option<u64>,
    },
    /// Nothing stands there, and files of other names, as large, may have its content: see [`Destination::elsewhere`].
    Elsewhere {
        /// What an earlier attempt left.
        left: Option<Left>,
    },
}

impl Decision {
    /// What an earlier attempt left.
    pub fn left(&self) -> Option<&Left> {
        match self {
            Decision::Wanted { left, .. } | Decision::Elsewhere { left } => left.as_ref(),
            Decision::Settled { .. } | Decision::Fresh => None,
        }
    }
}

/// Files of other names in which the content of one entry is looked for, at most. Each that is another file costs some
/// chunks that are read in vain.
pub const ELSEWHERE_MAX: usize = 4;

/// Smaller files are sent: at 100 Mbit/s this takes 10 ms, and a file that is compared costs a question, a partial and
/// a record of its own, where others share a pack.
pub const ELSEWHERE_BYTES_MIN: u64 = 128 << 10;

/// A partial from an earlier attempt.
pub struct Left {
    /// Its file.
    pub partial: Arc<dyn PartialFile>,
    /// The chunks in it that are sound: read and digested again just now.
    pub present: Vec<(u64, Digest)>,
}

/// A hidden file that will become an entry.
pub trait PartialFile: Send + Sync {
    /// Its number in the journal.
    fn number(&self) -> u64;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// What the kernel says; `Damage` ([`failure::to_io`]) if what came of this chunk before is lost: it is sent again,
    /// a bounded number of times.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Hears that so many bytes at `offset` are to be written next, before whoever writes them waits for its turn. May
    /// take up to a second; what is written is the same with it and without.
    fn prepare(&self, _offset: u64, _bytes: u64) {}

    /// The file, open for direct I/O, if whole blocks of it are to be written that way; every other byte goes through
    /// [`PartialFile::write_at`].
    fn direct(&self) -> Option<(Arc<File>, DirectAlignment)> {
        None
    }

    /// The file system refused direct I/O after all.
    fn refuse_direct(&self) {}

    /// Hears of a hole of the source that is not written: so many bytes at `offset` are the zeros that the file is made
    /// of.
    ///
    /// # Errors
    /// As [`PartialFile::write_at`].
    fn leave_zeros(&self, _bytes: u64, _offset: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a chunk that was synced is known to rest as it was written without being read back: whoever keeps it
    /// compared a checksum. `None`: it is to be read.
    fn is_checked(&self, _chunk: u64) -> Option<bool> {
        None
    }

    /// What was synced of it is read back from now on: what a cache may answer with in the medium's stead is dropped.
    /// Called once in each round, before the first read. Best effort.
    fn expect_read_back(&self) {}

    /// A read of the file of [`PartialFile::to_read_back`] was refused ([`is_direct_refused`]): from now on there is
    /// none, and [`PartialFile::read_back`] goes through the page cache, dropped before.
    fn refuse_direct_reads(&self) {}

    /// Reads back from the medium, past the page cache where that can be had.
    ///
    /// # Errors
    /// What the kernel says.
    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The file that has these bytes, and what reads of it must be aligned to, if several may be in flight: a read from
    /// now on gives what [`PartialFile::read_back`] would. `None`: by that, one at a time.
    fn to_read_back(&self, _offset: u64, _bytes: u64) -> Option<(Arc<File>, DirectAlignment)> {
        None
    }
}

/// A small file, written, closed and waiting for its sync and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Which staging lane holds it.
    pub lane: u32,
    /// Its number there.
    pub number: u64,
    /// Its name there, if that is not its number.
    pub name: Option<Box<[u8]>>,
    /// What about its metadata could not be kept.
    pub losses: Vec<thalweg_wire::message::Loss>,
}

/// Content that is ready for its name.
pub enum Ready {
    /// A staged small file.
    Staged(Staged),
    /// A complete partial.
    Partial(Arc<dyn PartialFile>),
}

/// Hears how many bytes are read again, of how many, from several threads at once. False: nobody waits for it any more.
pub type Reading<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

/// Where a transfer writes.
pub trait Destination: Send + Sync {
    /// Looks at what stands at the entry's path and decides. Makes directories, links, FIFOs and devices
    /// at once (they have no content). Called for parents before children, from one thread at a time. While what an
    /// earlier attempt left is read again, `reading` hears how far that is; when it says false, nobody waits for the
    /// decision, which may be anything then, and what was left stays.
    fn decide(&self, entry: &Entry, reading: Reading<'_>) -> Decision;

    /// Notes a name that the source has and does not send: it is not what the source lacks, so it is not deleted.
    fn skipped(&self, _path: &RelativePath) {}

    /// The next [`decide`](Self::decide) for this path is of an entry that replaces another of this transfer, which
    /// may have its name by now: the directory may be new and the name is taken all the same.
    fn offered_before(&self, _path: &RelativePath) {}

    /// Hears of an entry that it came to nothing: it failed, or what stands there was left alone. What stands under its
    /// name is not what was offered, however alike it looks. Called before [`link`](Self::link) for another name of it,
    /// and takes no time; [`settled`](Self::settled) comes later.
    fn came_to_nothing(&self, _entry: &Entry) {}

    /// Links a hard link to its first name, which is settled by now; or to a second name that came by itself, where it
    /// could not be linked to the first. [`Decision::Fresh`] where no link can be made, or not to what was offered:
    /// then the sender offers the same path again, as what it is by itself.
    fn link(&self, entry: &Entry) -> Decision;

    /// Begins a partial file for `entry`, preallocated unless sparse, and notes it in the journal.
    ///
    /// # Errors
    /// `Space`, `Permission`, `Io`.
    fn begin(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>>;

    /// Opens the file that stood at the entry's path when it was decided.
    ///
    /// # Errors
    /// `Changed` if something else stands there by now; `NotFound`, `Permission`, `Io`.
    fn existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>>;

    /// Opens a file of another name that may have the entry's content, where it was decided that there are some: the
    /// likeliest is number 0, and there are [`ELSEWHERE_MAX`] at most. `None` behind the last.
    ///
    /// # Errors
    /// As [`Destination::existing`].
    fn elsewhere(&self, _entry: &Entry, _number: usize) -> Option<Result<Arc<dyn SourceFile>>> {
        None
    }

    /// Whether more files stand there than are looked at for the content of others.
    fn is_elsewhere_cut(&self) -> bool {
        false
    }

    /// Memory of what it has listed of what stands there, and of what is not to be deleted, in bytes; about. Takes no
    /// time.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The file that stood there when the entry was decided was found to have the entry's content, of this digest.
    /// Gives it the entry's metadata. [`Decision::Fresh`] if something else stands there by now.
    fn keep(&self, entry: &Entry, digest: Digest) -> Decision;

    /// Writes whole small files, each with its metadata, into staging; at most [`TOGETHER_MAX`]. `lane` and `together`
    /// are the calling stream's own. One answer for each, in their order.
    ///
    /// # Errors
    /// `Space`, `Permission`, `Io`.
    fn stage(&self, lane: u32, files: &[Small<'_>], together: &mut Together) -> Vec<Result<Staged>>;

    /// The transfer takes the file that was staged in this lane with this number: it is the one that is to have its
    /// name. Before that, it may be thrown away, for another stream may have brought the same, or its entry have been
    /// withdrawn. May come when the file has got its final word already, and does nothing then.
    fn taken(&self, _lane: u32, _number: u64) {}

    /// Whether this may have its name before [`finish`](Self::finish), together with others. Then throwing it away
    /// takes no longer than to remove a name.
    fn may_be_named_early(&self, _staged: &Staged) -> bool {
        false
    }

    /// Whether a staged file had better get its name after the next round, with others: then [`finish`](Self::finish)
    /// costs less. Not for ever.
    fn is_worth_waiting(&self, _entry: &Entry, _staged: &Staged) -> bool {
        false
    }

    /// Makes durable everything that was written to `partials`, staged, or named before the call. An error
    /// is final: nothing of it may be believed, now or later.
    ///
    /// # Errors
    /// `Space`, `Io`.
    fn sync(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()>;

    /// Reads a staged file of `bytes` back from the medium and digests it. Several are read at the same time.
    ///
    /// # Errors
    /// `Io`.
    fn read_staged_back(&self, staged: &Staged, bytes: u64) -> Result<Digest>;

    /// Notes chunks of partials as durable, and makes the note durable. Called after their [`sync`](Self::sync).
    ///
    /// # Errors
    /// `Space`, `Io`.
    fn record(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()>;

    /// As [`Source::lost`].
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// As [`Source::device`].
    fn device(&self) -> Option<u64> {
        None
    }

    /// Whether its root was made when it was opened: what is offered is wanted.
    fn is_new(&self) -> bool {
        false
    }

    /// Bytes that an ordinary user can still write there, quotas not counted; `None` where that is not known, or
    /// nothing is kept.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Gives an entry its final name and metadata, atomically, over what stood there when it was decided.
    ///
    /// # Errors
    /// `Conflict` if something else stands there by now; `Permission`, `Io`, `Space`.
    fn finish(&self, entry: &Entry, ready: Ready, digest: Digest)
    -> Result<Vec<thalweg_wire::message::Loss>>;

    /// How many may get their names at the same time, each by a thread of its own: more than one where a name costs the
    /// wait for somebody else's answer.
    fn finishes_at_once(&self) -> usize {
        1
    }

    /// So many streams at least keep it busy, as far as is known when it is opened: more than one where what a stream
    /// brings waits for somebody else's answer. Asked where both ends are of this process, and nobody asked for a
    /// number.
    fn streams(&self) -> u16 {
        1
    }

    /// While [`finish`](Self::finish) reads again what has its name: when that went on last. Takes no time. The peer
    /// hears that this is no stall.
    fn reads_on(&self) -> Option<Instant> {
        None
    }

    /// Throws away a partial or a staged file. Best effort: what stays is cleaned up later.
    fn discard(&self, ready: Ready);

    /// Notes that an entry is settled and durable, for the catalogue.
    fn settled(&self, entry: &Entry, outcome: &Outcome);

    /// An entry is never settled: it changed at the source, and another replaces it. Called behind all else of that
    /// number, by the thread that decides.
    fn gone(&self, _id: EntryId) {}

    /// After the last entry: deletes what the source lacks (if asked, and as far as its `listing` lets), gives
    /// directories their times and modes, makes it durable. Calls `goes_on` with each step of what may take long:
    /// where that says `false`, the transfer is over, and what is left need not be done.
    fn conclude(&self, listing: Listing, goes_on: &dyn Fn() -> bool) -> Conclusion;

    /// Ends the transfer. After success nothing hidden stays; otherwise all of it stays for the next
    /// attempt.
    fn close(&self, success: bool);
}

/// An entry whose outcome is worse than it was told before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revised {
    /// Where it is.
    pub path: RelativePath,
    /// It was told as unchanged; else as done.
    pub was_unchanged: bool,
    /// What it is now.
    pub outcome: Outcome,
}

/// What happened at the end.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// Entries whose outcome is worse than it was told before.
    pub revised: Vec<Revised>,
    /// Entries removed, at this end and those before it; in a dry run those that would be.
    pub deleted: u64,
    /// The names of the first of them that no end has told yet,
    /// [`DELETED_TOLD_MAX`](thalweg_wire::limits::DELETED_TOLD_MAX) at most.
    pub deleted_names: Vec<RelativePath>,
    /// What could not be removed or finished, with its path.
    pub troubles: Vec<Failure>,
    /// The sync of it all failed: nothing of the end counts, and the transfer fails.
    pub failed: Option<Failure>,
}
