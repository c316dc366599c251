//! The files of a spill log.
//!
//! 1. One thread appends records, in the order of their positions, and starts a new file when one is full.
//! 2. When nothing waits, or a second after the last time, it syncs; what was written before is durable then.
//! 3. What cannot be written, for want of room or because some is kept free, is tried again until it can, and nothing
//!    after it is written meanwhile; files that nobody needs are removed all the same, which may be the room that
//!    lacks. A sync that fails is final, and so is one of a log that lost its name: the next hub does not find it.
//!
//! A log that records everything is found again by the next hub: its whole records are, and what is torn behind them is
//! cut off; if whole records stand in that, which a kill does not leave, it is kept beside them. It notes how large it
//! may be, because the next hub has it before who said so comes back. A log that only held what memory did not is
//! removed: who knew its order is gone.

use crate::endpoint::local::destination::guard::MinFree;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::frames::channel::{HeldFrame, Record};
use crate::frames::spill::Location;
use crate::frames::{OPEN_CHANNEL, OPEN_LOG, Payload, READ_SIZE, SYNC_LOG};
use crate::journal::staging_names::is_staging;
use crate::memory::Shelf;
use crate::mutex::lock;
use crate::run::thread;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_sys::dir::{Links, Replace};
use thalweg_sys::{Advice, Dir, File, Stat, errno};
use thalweg_wire::RelativePath;
use thalweg_wire::limits;
use thalweg_wire::message::Item;
use thalweg_wire::spill::{SPILL_HEAD_BYTES, SpillLengths, SpillRecord};

// Logs that nobody can go on with.
mod deserted;

pub use deserted::{log_signature, remove_deserted, remove_deserted_below};

/// Where a channel's log is: a directory that is held open, and the channel's path below it.
pub struct StorePlace {
    /// Nothing outside of it is touched.
    pub below: Dir,
    /// Path of the channel; the log is a directory beside it.
    pub path: Vec<u8>,
    /// So much is kept free there: no file is begun for which too little would be left, and none goes on where too
    /// little is.
    pub min_free: Option<MinFree>,
    /// Of a recorded log nothing is forgotten to make room.
    pub keeps_all: bool,
    /// The most that a log may have there. One that was recorded with more keeps it.
    pub spill_bytes_max: u64,
}

impl StorePlace {
    /// One that may take all room, and forget what is oldest.
    pub fn of(below: Dir, path: Vec<u8>) -> StorePlace {
        StorePlace { below, path, min_free: None, keeps_all: false, spill_bytes_max: u64::MAX }
    }

    /// Refuses a log of so many bytes.
    ///
    /// # Errors
    /// `Usage` if that is more than one may have there.
    pub fn check_size(&self, bytes: u64) -> Result<()> {
        let most = self.spill_bytes_max;
        if bytes <= most {
            return Ok(());
        }
        let cause = format!(
            "the daemon keeps at most {most} bytes of a log of frames here, and {bytes} were asked for: a smaller \
             --spill-size is taken, and its owner may allow more (`serve --max-spill`, or max-spill of the export)"
        );
        Err(Failure::new(FailureKind::Usage, OPEN_LOG, cause))
    }

    /// Refuses a channel whose log would be a staging directory or in one: what is unfinished there is cleared up with
    /// its directory, which a log would keep for ever.
    ///
    /// # Errors
    /// `Conflict` if it would be.
    pub fn check(path: &[u8]) -> Result<()> {
        match path.split(|&byte| byte == b'/').any(is_staging) {
            true => {
                let cause = "the name belongs to thalweg's staging directory";
                Err(Failure::new(FailureKind::Conflict, OPEN_CHANNEL, cause))
            }
            false => Ok(()),
        }
    }
}

/// What a thread that writes is told.
pub enum Job {
    /// Append.
    Write(u64, Record),
    /// Remove a file.
    Forget(u64),
    /// End.
    Stop,
}

/// Hears what became of jobs.
pub trait Heard: Send + Sync {
    /// This record stands there.
    fn written(&self, position: u64, at: Location, record: &Record);
    /// Everything below this position is durable.
    fn synced(&self, position: u64);
    /// Whether anybody waits for that.
    fn wants_sync(&self) -> bool;
    /// It cannot be written for now.
    fn trouble(&self, why: &Failure);
    /// It can never be believed again.
    fn broken(&self, why: Failure);
}

/// See the module.
pub struct Store {
    parent: Dir,
    name: Vec<u8>,
    /// Its path below the export.
    path: Vec<u8>,
    dir: Dir,
    min_free: Option<MinFree>,
    files: Mutex<BTreeMap<u64, Arc<File>>>,
    is_stopped: AtomicBool,
    /// Held as long as the log is ours.
    _lock: File,
}

/// Behind the name of a channel.
const SUFFIX: &[u8] = b".frames";
/// In the log's directory: who has it; that it records everything, with the bytes that it may have; and that before it
/// has its name.
const LOCK: &[u8] = b"lock";
const RECORDED: &[u8] = b"recorded";
const RECORDED_NEW: &[u8] = b"recorded.new";
/// Digits of the largest size.
const RECORDED_BYTES_MAX: usize = 20;
/// Behind the number of a file.
const FILE_SUFFIX: &str = ".spill";
/// For messages: what is left where a log does not keep what was written.
const IS_FINAL: &str = "; the channel takes nothing more, what is in memory is still handed out";
/// Between two tries to write.
const AGAIN: Duration = Duration::from_millis(500);
/// Between two syncs that nobody waits for.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Bytes after which it looks again whether what is kept free still is.
const LOOK_BYTES: u64 = 4 << 20;
/// Bytes after which it syncs though more waits.
const SYNC_BYTES: u64 = 64 << 20;
/// Read at once where digests are checked.
const READ_BYTES: usize = 1 << 20;

impl Store {
    /// Opens the log of a channel, which is made if need be.
    ///
    /// # Errors
    /// `Busy` if another hub has it; `Conflict` as [`StorePlace::check`]; why it cannot be had.
    pub fn open(place: &StorePlace) -> Result<Store> {
        StorePlace::check(&place.path)?;
        let of_io = |error: io::Error| failure::of_io(OPEN_LOG, &error);
        let at = place.path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = match at {
            Some(at) => {
                let parent = place.below.open_beneath(&place.path[..at], Links::Refuse).map_err(of_io)?;
                (parent, &place.path[at + 1..])
            }
            None => (place.below.try_clone().map_err(of_io)?, &place.path[..]),
        };
        let name = [name, SUFFIX].concat();
        match parent.make_dir(&name, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(of_io(error)),
            _ => {}
        }
        let dir = parent.open_beneath(&name, Links::Refuse).map_err(of_io)?;
        let Some(lock) = dir.lock(LOCK).map_err(of_io)? else {
            let cause = "another hub has the spill log of this channel";
            return Err(Failure::new(FailureKind::Busy, OPEN_LOG, cause).because(Reason::LogTaken));
        };
        deserted::sign(&lock).map_err(of_io)?;
        parent.sync().map_err(of_io)?;
        Ok(Store {
            parent,
            name,
            path: [&place.path, SUFFIX].concat(),
            dir,
            min_free: place.min_free,
            files: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            _lock: lock,
        })
    }

    /// Whether a recorded log is there for this channel.
    ///
    /// # Errors
    /// When nobody can say: without its log a channel would begin anew, and say that what is in there never was.
    pub fn is_recorded_at(place: &StorePlace) -> Result<bool> {
        let name = [&place.path, SUFFIX].concat();
        let found = place.below.open_beneath(&name, Links::Refuse).and_then(|dir| dir.stat(RECORDED));
        match found {
            Ok(_) => Ok(true),
            // Nor is a log ever behind a link, or by a name that nothing can have.
            Err(error) if error.raw_os_error() == Some(errno::LOOP) => Ok(false),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
                    Ok(false)
                }
                _ => {
                    let failure = failure::of_io(OPEN_LOG, &error);
                    Err(match RelativePath::new(name) {
                        Ok(path) => failure.at(&path),
                        Err(_) => failure,
                    })
                }
            },
        }
    }

    /// Bytes that a hub gave it when it was recorded; `None` if it is not.
    ///
    /// # Errors
    /// When that cannot be read: with less than it had, frames would be forgotten.
    pub fn recorded_bytes_max(&self) -> Result<Option<u64>> {
        let mut text = [0; RECORDED_BYTES_MAX];
        let have = match self.dir.open_read(RECORDED).and_then(|file| read_some(&file, &mut text, 0)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.failed(READ_SIZE, RECORDED, &error))?,
        };
        let number = std::str::from_utf8(&text[..have]).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| {
            let cause = "it does not say how many bytes the log may have";
            let failure = Failure::new(FailureKind::Damage, READ_SIZE, cause);
            self.at(RECORDED, failure.because(Reason::LogSizeUnknown))
        })
    }

    /// What it has, in order: told one after the other. What it had as the overflow of another hub is removed first.
    ///
    /// # Errors
    /// When it cannot be read, or made ready.
    pub fn recover(&self, was_recorded: bool, found: &mut dyn FnMut(SpillRecord, Location)) -> Result<()> {
        let of_io = |error: io::Error| failure::of_io("read the spill log", &error);
        let mut numbers = Vec::new();
        for entry in self.dir.entries().map_err(of_io)? {
            let entry = entry.map_err(of_io)?;
            numbers.extend(number_of(&entry.name));
        }
        numbers.sort_unstable();
        let last = numbers.last().copied();
        for number in numbers {
            if !was_recorded {
                self.dir.remove_file(&file_name(number)).map_err(of_io)?;
                continue;
            }
            let name = file_name(number);
            let unread = |error: io::Error| self.unread(&name, &error);
            let file = Arc::new(self.dir.open_read_write(&name).map_err(unread)?);
            let sync = || file.sync_all().map_err(|error| self.failed(SYNC_LOG, &name, &error));
            if Some(number) == last {
                // A hub that was killed had not synced all of it; ours tells producers that it is durable. What an
                // earlier sync lost is still in the page cache, and no sync tells that again: the medium is read.
                sync()?;
                let _ = file.advise(Advice::DontNeed, 0, 0);
            }
            let end = scan(&file, number, Some(number) == last, found).map_err(unread)?;
            let size = file.stat().map_err(unread)?.size;
            if end < size && Some(number) != last {
                tracing::warn!(
                    number,
                    end,
                    "a file of a spill log is damaged: what follows in it is not handed out"
                );
            } else if end < size {
                tracing::warn!(number, end, "what is torn of a spill log is cut off");
                if has_whole_behind(&file, number, end, size).map_err(unread)? {
                    // No kill does that: something damaged what had been written.
                    let kept = self.keep_torn(&file, number, end, size);
                    kept.map_err(|error| self.unkept(&name, size - end, &error))?;
                }
                file.truncate(end).map_err(unread)?;
                sync()?;
            }
            self.files().insert(number, file);
        }
        Ok(())
    }

    /// Keeps what is cut off beside the file, for people: producers that still have it send it again, and nobody else
    /// has it. Where there is no room for that, it takes none.
    fn keep_torn(&self, file: &File, number: u64, from: u64, end: u64) -> io::Result<()> {
        let name = torn_name(number, from);
        // What a hub left that was killed here.
        match self.dir.remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let torn = self.dir.create_new(&name, 0o600)?;
        let copied = copy_range(file, &torn, from, end);
        if copied.is_err() {
            let _ = self.dir.remove_file(&name);
        }
        copied?;
        self.dir.sync()
    }

    /// From now on it records everything, in so many bytes.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn mark_recorded(&self, bytes_max: u64) -> Result<()> {
        let mark = || {
            // What a hub left that was killed here.
            match self.dir.remove_file(RECORDED_NEW) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.dir.create_new(RECORDED_NEW, 0o600)?;
            file.write_all_at(bytes_max.to_string().as_bytes(), 0)?;
            file.sync_all()?;
            self.dir.rename(RECORDED_NEW, &self.dir, RECORDED, Replace::Existing)?;
            self.dir.sync()
        };
        mark().map_err(|error| self.failed("write the spill log", RECORDED, &error))
    }

    /// Begins to write, on a thread of its own. If that panics, the log is broken.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        self: &Arc<Self>,
        file_bytes: u64,
        heard: std::sync::Weak<dyn Heard>,
    ) -> Result<(Sender<Job>, std::thread::JoinHandle<()>)> {
        // The channel counts what waits here as its memory until it is written.
        let (jobs, queue) = mpsc::channel();
        let next = self.files().keys().next_back().map_or(0, |last| last + 1);
        let (store, hears) = (self.clone(), heard.clone());
        let writer = Writer {
            store,
            file_bytes,
            heard,
            next,
            now: None,
            dirty: 0,
            unseen: 0,
            position: 0,
            waiting: VecDeque::new(),
            is_over: false,
        };
        let on_panic = move |why| {
            if let Some(heard) = hears.upgrade() {
                heard.broken(why);
            }
        };
        let thread = thread::guarded("spill", on_panic, move || writer.run(&queue))?;
        Ok((jobs, thread))
    }

    /// A frame, if it is there and what it was.
    pub fn read(&self, position: u64, at: Location, shelf: &Shelf) -> Option<HeldFrame> {
        let file = self.files().get(&at.file)?.clone();
        let mut head = vec![0; (SPILL_HEAD_BYTES + limits::ITEM_HEAD_BYTES_MAX).min(at.bytes as usize)];
        read_exact(&file, &mut head, at.offset).ok()?;
        let (record, lengths) = SpillRecord::decode(&head, at.file, at.offset).ok()?;
        let Item::Frame(frame) = record.item else { return None };
        if record.position != position {
            return None;
        }
        let payload_at = SPILL_HEAD_BYTES + lengths.head;
        let there = head.get(payload_at..).unwrap_or_default();
        let mut payload = shelf.room(lengths.payload as usize).ok()?;
        payload.resize(lengths.payload as usize);
        let have = there.len().min(payload.len());
        payload[..have].copy_from_slice(&there[..have]);
        read_exact(&file, &mut payload[have..], at.offset + (payload_at + have) as u64).ok()?;
        let is_sound = blake3::hash(&payload).as_bytes() == &frame.digest.0;
        is_sound.then(|| HeldFrame { head: *frame, payload: Payload::new(payload) })
    }

    /// What the kernel said, with where.
    fn failed(&self, operation: &str, name: &[u8], error: &io::Error) -> Failure {
        self.at(name, failure::of_io(operation, error))
    }

    /// A file of the log cannot be read. Where its disk fails, and goes on failing, no hub would ever begin.
    fn unread(&self, name: &[u8], error: &io::Error) -> Failure {
        let mut failure = failure::of_io("read the spill log", error);
        if failure.reason == Reason::DiskFailed {
            failure.cause += "; if it stays so, move this file away: the hub begins without its frames";
        }
        self.at(name, failure)
    }

    /// What is torn of a file, so many bytes, cannot be kept. The file is as it was, and the next hub tries again.
    fn unkept(&self, name: &[u8], bytes: u64, error: &io::Error) -> Failure {
        let mut failure = failure::of_io("keep what is torn of the spill log", error);
        failure.cause += &format!(
            "; whole frames behind damage are kept beside their file before it is cut, and take {bytes} bytes more: \
             make room for them, or move this file away and the hub begins without its frames"
        );
        self.at(name, failure)
    }

    /// With the path of a file of the log.
    fn at(&self, name: &[u8], failure: Failure) -> Failure {
        match RelativePath::new([&self.path[..], b"/", name].concat()) {
            Ok(path) => failure.at(&path),
            Err(_) => failure,
        }
    }

    /// Whether the log's directory is where the next hub looks for it.
    fn is_there(&self) -> io::Result<bool> {
        is_held(&self.parent, &self.name, &self.dir.stat_self()?)
    }

    /// The same of a file in it.
    fn has(&self, name: &[u8], file: &File) -> io::Result<bool> {
        Ok(self.is_there()? && is_held(&self.dir, name, &file.stat()?)?)
    }

    /// Final: what is synced there nobody finds.
    fn gone(&self, name: &[u8]) -> Failure {
        let why = "it is not there any more: somebody removed it, moved it away or replaced it";
        let cause = format!("{why}{IS_FINAL}");
        self.at(name, Failure::new(FailureKind::Damage, SYNC_LOG, cause).because(Reason::LogChanged))
    }

    /// Nobody writes any more; a writer that waits for room gives up.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Removes a file.
    fn forget(&self, number: u64) {
        self.files().remove(&number);
        let _ = self.dir.remove_file(&file_name(number));
    }

    /// Removes all of it.
    pub fn remove(&self) {
        let numbers: Vec<u64> = std::mem::take(&mut *self.files()).into_keys().collect();
        for number in numbers {
            let _ = self.dir.remove_file(&file_name(number));
        }
        // What is not ours stays, and the directory with it.
        let _ = self.dir.remove_file(RECORDED_NEW);
        let _ = self.dir.remove_file(LOCK);
        let _ = self.parent.remove_dir(&self.name);
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<File>>> {
        lock(&self.files)
    }
}

/// Tells the records of a file, and returns where the last whole one ends. Payloads are held against their digests
/// where they may be torn.
fn scan(
    file: &File,
    number: u64,
    may_be_torn: bool,
    found: &mut dyn FnMut(SpillRecord, Location),
) -> io::Result<u64> {
    let size = file.stat()?.size;
    let mut offset = 0;
    let mut head = vec![0; SPILL_HEAD_BYTES + limits::ITEM_HEAD_BYTES_MAX];
    while offset < size {
        let have = read_some(file, &mut head, offset)?;
        let Ok((record, lengths)) = SpillRecord::decode(&head[..have], number, offset) else { break };
        let bytes = lengths.record();
        if offset + bytes > size {
            break;
        }
        if may_be_torn
            && let Item::Frame(frame) = &record.item
            && !is_sound(file, offset + bytes - lengths.payload, lengths.payload, &frame.digest.0)?
        {
            break;
        }
        found(record, Location { file: number, offset, bytes });
        offset += bytes;
    }
    Ok(offset)
}

/// Copies the bytes from `from` to `end` of a file to the begin of another one, and makes them durable there.
fn copy_range(file: &File, to: &File, from: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = from;
    while offset < end {
        let want = buffer.len().min((end - offset) as usize);
        let have = read_some(file, &mut buffer[..want], offset)?;
        if have == 0 {
            break;
        }
        to.write_all_at(&buffer[..have], offset - from)?;
        offset += have as u64;
    }
    to.sync_all()
}

/// Whether a record begins behind `from`, up to `end`, that stands where it was written.
fn has_whole_behind(file: &File, number: u64, from: u64, end: u64) -> io::Result<bool> {
    let mut buffer = vec![0; READ_BYTES];
    let mut head = vec![0; SPILL_HEAD_BYTES + limits::ITEM_HEAD_BYTES_MAX];
    let mut offset = from + 1;
    while offset + SPILL_HEAD_BYTES as u64 <= end {
        let have = read_some(file, &mut buffer, offset)?;
        let Some(starts) = have.checked_sub(SPILL_HEAD_BYTES - 1) else { break };
        for start in 0..starts {
            if SpillLengths::read(&buffer[start..have]).is_err() {
                continue;
            }
            let at = offset + start as u64;
            let read = read_some(file, &mut head, at)?;
            if SpillRecord::decode(&head[..read], number, at)
                .is_ok_and(|(_, lengths)| at + lengths.record() <= end)
            {
                return Ok(true);
            }
        }
        // What may begin at the end of the buffer is looked at with the next.
        offset += starts.max(1) as u64;
    }
    Ok(false)
}

fn is_sound(file: &File, mut offset: u64, bytes: u64, digest: &[u8; 32]) -> io::Result<bool> {
    let end = offset + bytes;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES.min(bytes as usize)];
    while offset < end {
        let want = buffer.len().min((end - offset) as usize);
        let read = file.read_at(&mut buffer[..want], offset)?;
        if read == 0 {
            return Ok(false);
        }
        hasher.update(&buffer[..read]);
        offset += read as u64;
    }
    Ok(hasher.finalize().as_bytes() == digest)
}

fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read_at(&mut buffer[have..], offset + have as u64)? {
            0 => break,
            read => have += read,
        }
    }
    Ok(have)
}

fn read_exact(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    match read_some(file, buffer, offset)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Whether this name leads to what was opened by it.
fn is_held(dir: &Dir, name: &[u8], held: &Stat) -> io::Result<bool> {
    match dir.stat(name) {
        Ok(named) => Ok(named.is_same_entry(held)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn file_name(number: u64) -> Vec<u8> {
    format!("{number:016x}{FILE_SUFFIX}").into_bytes()
}

/// Of what was cut off a file from there on.
fn torn_name(number: u64, from: u64) -> Vec<u8> {
    format!("{number:016x}-{from:016x}.torn").into_bytes()
}

fn number_of(name: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(name).ok()?.strip_suffix(FILE_SUFFIX)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The thread that writes.
struct Writer {
    store: Arc<Store>,
    file_bytes: u64,
    heard: std::sync::Weak<dyn Heard>,
    /// Number of the next file.
    next: u64,
    /// The file that is written: its number, and how long it is.
    now: Option<(u64, Arc<File>, u64)>,
    /// Bytes written and not synced.
    dirty: u64,
    /// Bytes written since it was looked how much is free.
    unseen: u64,
    /// Everything below this position is written.
    position: u64,
    /// What was to be appended while something else could not be, in order.
    waiting: VecDeque<(u64, Record)>,
    /// Nothing more comes.
    is_over: bool,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        let mut synced_at = Instant::now();
        loop {
            let job = match self.waiting.pop_front() {
                Some((position, record)) => Ok(Job::Write(position, record)),
                None if self.is_over => Ok(Job::Stop),
                None if self.dirty == 0 => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                None => queue.recv_timeout(Duration::ZERO),
            };
            let is_due = |wants: bool| wants || synced_at.elapsed() >= SYNC_EVERY;
            let done = match job {
                Ok(Job::Write(position, record)) => self.write(position, &record, queue),
                Ok(Job::Forget(number)) => {
                    self.store.forget(number);
                    Ok(())
                }
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return self.sync_last(),
                Err(RecvTimeoutError::Timeout) => {
                    let Some(heard) = self.heard.upgrade() else { return };
                    if is_due(heard.wants_sync()) {
                        synced_at = Instant::now();
                        self.sync()
                    } else {
                        drop(heard);
                        std::thread::sleep(Duration::from_millis(5));
                        Ok(())
                    }
                }
            };
            let done = done.and_then(|()| match self.dirty >= SYNC_BYTES {
                true => self.sync(),
                false => Ok(()),
            });
            if let Err(failure) = done {
                if failure.kind == FailureKind::Stopped {
                    // What was written is as good as ever, and durable when the hub has ended.
                    self.sync_last();
                } else if let Some(heard) = self.heard.upgrade() {
                    heard.broken(failure);
                }
                return;
            }
        }
    }

    /// Writes a record, as often as it takes.
    fn write(&mut self, position: u64, record: &Record, queue: &Receiver<Job>) -> Result<()> {
        loop {
            let error = match self.try_write(position, record) {
                Ok(Ok(at)) => {
                    // What is spilled for want of memory may stand before what was recorded already.
                    self.position = self.position.max(position + 1);
                    self.dirty += at.bytes;
                    if let Some(heard) = self.heard.upgrade() {
                        heard.written(position, at, record);
                    }
                    return Ok(());
                }
                Ok(Err(error)) => error,
                Err(failure) => return Err(failure),
            };
            let Some(heard) = self.heard.upgrade() else { return Ok(()) };
            let number = self.now.as_ref().map_or(self.next, |(number, ..)| *number);
            heard.trouble(&self.store.failed("write the spill log", &file_name(number), &error));
            drop(heard);
            if self.store.is_stopped.load(Ordering::Acquire) {
                return Err(Failure::new(FailureKind::Stopped, "write the spill log", "the hub ends"));
            }
            self.wait(queue);
        }
    }

    /// Until the next try to write: at once when a file was removed, which may be the room that lacked.
    fn wait(&mut self, queue: &Receiver<Job>) {
        let until = Instant::now() + AGAIN;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_over {
                return std::thread::sleep(left);
            }
            match queue.recv_timeout(left) {
                Ok(Job::Write(position, record)) => self.waiting.push_back((position, record)),
                Ok(Job::Forget(number)) => return self.store.forget(number),
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.is_over = true;
                    return;
                }
                Err(RecvTimeoutError::Timeout) => return,
            }
        }
    }

    /// The outer failure is final.
    fn try_write(&mut self, position: u64, record: &Record) -> Result<io::Result<Location>> {
        if self.now.as_ref().is_some_and(|(.., bytes)| *bytes >= self.file_bytes) {
            self.sync()?;
            self.now = None;
        }
        let (number, file, offset) = match &self.now {
            Some((number, file, bytes)) => (*number, file.clone(), *bytes),
            None => {
                let kept = self.store.min_free.map(|kept| kept.check(&self.store.dir, self.file_bytes));
                if let Some(Err(error)) = kept {
                    return Ok(Err(error));
                }
                self.unseen = 0;
                let made = self.store.dir.create_new(&file_name(self.next), 0o600);
                let file = match made.and_then(|file| self.store.dir.sync().map(|()| file)) {
                    Ok(file) => Arc::new(file),
                    Err(error) => {
                        let _ = self.store.dir.remove_file(&file_name(self.next));
                        // Without its directory it would be tried for ever.
                        if self.store.is_there().is_ok_and(|is_there| !is_there) {
                            return Err(self.store.gone(&file_name(self.next)));
                        }
                        return Ok(Err(error));
                    }
                };
                let number = self.next;
                self.next += 1;
                self.store.files().insert(number, file.clone());
                self.now = Some((number, file.clone(), 0));
                (number, file, 0)
            }
        };
        let (item, payload) = match record {
            Record::Frame(held) => (Item::Frame(Box::new(held.head.clone())), &held.payload[..]),
            Record::Note(item) => (item.clone(), &[][..]),
        };
        let head = SpillRecord { position, item }.encode(number, offset);
        let head = head
            .map_err(|error| Failure::new(FailureKind::Internal, "write the spill log", error.to_string()))?;
        let bytes = (head.len() + payload.len()) as u64;
        if let Err(error) = self.look(bytes) {
            return Ok(Err(error));
        }
        // The payload first: what a crash leaves of it is no record.
        let written = file
            .write_all_at(payload, offset + head.len() as u64)
            .and_then(|()| file.write_all_at(&head, offset));
        Ok(match written {
            Ok(()) => {
                self.now = Some((number, file, offset + bytes));
                Ok(Location { file: number, offset, bytes })
            }
            Err(error) => {
                let _ = file.truncate(offset);
                Err(error)
            }
        })
    }

    /// So many bytes more are to be written, into a file that was begun when there was room: others may have taken it.
    fn look(&mut self, bytes: u64) -> io::Result<()> {
        self.unseen = self.unseen.saturating_add(bytes);
        if let Some(kept) = self.store.min_free.filter(|_| self.unseen > LOOK_BYTES) {
            kept.check(&self.store.dir, bytes)?;
            self.unseen = 0;
        }
        Ok(())
    }

    /// Nobody hears any more that it failed: the log does, with the channel's path.
    fn sync_last(&mut self) {
        let Err(why) = self.sync() else { return };
        match self.heard.upgrade() {
            Some(heard) => heard.trouble(&why),
            None => tracing::warn!(%why, "the spill log"),
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.dirty == 0 {
            return Ok(());
        }
        if let Some((number, file, _)) = &self.now {
            let name = file_name(*number);
            let is_there = file.sync_data().and_then(|()| self.store.has(&name, file)).map_err(|error| {
                let mut failure = self.store.failed(SYNC_LOG, &name, &error);
                failure.cause += IS_FINAL;
                failure
            })?;
            if !is_there {
                return Err(self.store.gone(&name));
            }
        }
        self.dirty = 0;
        if let Some(heard) = self.heard.upgrade() {
            heard.synced(self.position);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
