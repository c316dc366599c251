//! Flows into files of this machine, which may be read while they grow.
//!
//! Bytes appear under the final name, in order; how far they are durable says the file of marks
//! ([`crate::journal::marks`]). Nothing that stands there is ever cut, replaced or written over below its mark: what
//! does not begin as it does is refused, and a file that was replaced or cut at the source goes under a name of its
//! own, `NAME.~2~`, as the next one does under `NAME.~3~`.
//!
//! The sender judges whether its source begins with what stands there. Where nothing is replaced
//! ([`guard`](super::destination::guard)) nobody takes its word: only files that flows made are gone on with (before
//! the first mark their inodes tell which those are), and behind a mark what stands there already has to be what comes,
//! or zeros: a power cut leaves such where less was written than the file is long.
//!
//! What comes quickly comes in large pieces: the whole blocks of such go past the page cache, as those of copies do,
//! where that pays and nobody else has the file open at that moment. Through it, each byte costs a new page and is
//! written back later, by a sync that the next mark waits for. A program that has the file open finds what is written
//! from then on in memory.

use super::destination::guard::{Guard, REPLACE, no_replace};
use super::place::{self, DestinationPlace};
use super::staging::Staging;
use super::staging::partial::{BLOCK_BYTES, pays, write_direct};
use super::{KEEP_NAME, MARK_GROWING, OPEN_STAGING, failed, is_staging, lock, of_room, shown};
use crate::endpoint::flow_destination::{FlowDestination, FlowFile, Standing};
use crate::endpoint::{OPEN_DESTINATION, is_direct_refused};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::journal::marks::{Known, Marks};
use crate::plan::DIRECT_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use thalweg_sys::{Dir, DirectAlignment, File, Kind, Links, Stat, user};
use thalweg_wire::message::{FlowBegin, FlowLeft, Origin, SourceForm};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, RelativePath, limits};

/// Read at once of what is there.
const READ_BYTES: usize = 1 << 20;
/// What we need of a file that we write, whatever its source has: it is taken away when the file is complete.
const OWNERS: u32 = 0o600;
/// Names that are tried for a file that was replaced.
const GENERATIONS_MAX: u32 = 10_000;

/// See the module.
pub struct LocalFlows {
    root: Arc<Dir>,
    words: PathBuf,
    job: String,
    /// The one file, whatever its flow is called.
    single: Option<Vec<u8>>,
    staging: Staging,
    marks: Arc<Mutex<Marks>>,
    /// Held as long as the transfer.
    lock_file: Mutex<Option<File>>,
    /// Directories in which names were made, until they are synced.
    made_in: Mutex<Vec<Arc<Dir>>>,
    /// See [`DestinationPlace::made_mode`].
    made_mode: u32,
    /// See [`Guard::no_replace`].
    no_replace: bool,
    /// What is open, by its number; and some that were.
    opened: Mutex<BTreeMap<u64, Weak<Grown>>>,
    /// What earlier attempts did not complete, and nobody has asked for since.
    unasked: Mutex<BTreeSet<u64>>,
    /// Of these the sender told that nothing more comes; noted when the transfer is over.
    given_up: Mutex<BTreeSet<(RelativePath, Origin)>>,
}

struct Grown {
    file: File,
    /// Below this its name is looked at: the directory in between is not kept open for each file.
    root: Arc<Dir>,
    path: RelativePath,
    number: u64,
    marks: Arc<Mutex<Marks>>,
    /// Its name may not be durable yet.
    made_in: Option<Arc<Dir>>,
    is_named: AtomicBool,
    /// How to write past the page cache, where that pays.
    direct: Option<DirectAlignment>,
    /// The file system took no such write after all.
    no_direct: AtomicBool,
    /// What it is to have when it is complete, if its owner may not write it then.
    mode: Option<u32>,
    /// See [`Guard::no_replace`].
    no_replace: bool,
}

/// A flow's file, before what is in it was looked at.
struct Opened {
    number: u64,
    name: RelativePath,
    /// What is known of it, if what stands there is ours.
    marked: Option<Known>,
    file: File,
    /// See [`Grown::made_in`].
    made_in: Option<Arc<Dir>>,
}

/// What is left of a flow that was complete, and whose file somebody has taken away since.
struct TakenAway {
    path: RelativePath,
}

impl LocalFlows {
    /// Opens a destination by the rules of copies: a single flow that goes to something that is no directory gets that
    /// as its name.
    ///
    /// # Errors
    /// `Busy` if another stream writes there; `Conflict` if something is in the way; `Permission`, `Space`, `Io`.
    pub fn open(
        place: DestinationPlace,
        source: &SourceForm,
        trailing_slash: bool,
        job_key: &[u8; 16],
    ) -> Result<LocalFlows> {
        let resolved = place::resolve(&place, source, trailing_slash, false)?;
        let single = match (&resolved.rename, source) {
            (Some((_, new)), _) => Some(new.clone()),
            (None, SourceForm::Single { name }) => Some(name.clone()),
            (None, SourceForm::Many) => None,
        };
        let Some(root) = resolved.root else {
            return Err(Failure::new(FailureKind::Internal, OPEN_DESTINATION, "it was not made"));
        };
        let job: String = job_key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (staging, lock_file) = Staging::locked(&root, &job).map_err(|failure| match failure.kind {
            FailureKind::Busy => {
                let cause = "another stream goes to the same place, and one at a time marks what grows there";
                Failure::new(FailureKind::Busy, MARK_GROWING, cause).because(Reason::GrowingTaken)
            }
            _ => failure,
        })?;
        let marks = Marks::open(staging.dir.clone())?;
        let unasked = marks.unfinished().map(|(number, _)| number).collect();
        staging
            .sync_names()
            .and_then(|()| root.sync())
            .map_err(|error| failure::of_io(OPEN_STAGING, &error))?;
        Ok(LocalFlows {
            root,
            words: resolved.words,
            job,
            single,
            staging,
            marks: Arc::new(Mutex::new(marks)),
            lock_file: Mutex::new(Some(lock_file)),
            made_in: Mutex::new(resolved.made_in),
            made_mode: place.made_mode(),
            no_replace: false,
            opened: Mutex::default(),
            unasked: Mutex::new(unasked),
            given_up: Mutex::default(),
        })
    }

    /// The same, which replaces nothing if the guard says so. Room is kept free by who runs the transfer.
    pub fn guarded(mut self, guard: Guard) -> LocalFlows {
        self.no_replace = guard.no_replace;
        self
    }

    /// Of a flow whose file is not there any more. If it was complete, who took it away had all of it.
    fn taken_away(&self, number: u64, path: &RelativePath, known: &Known) -> Result<Standing> {
        let nothing = (known.bytes == 0).then(|| Digest(*blake3::hash(b"").as_bytes()));
        let Some(digest) = known.digest.or(nothing).filter(|_| known.is_complete) else {
            let cause = format!(
                "its {} bytes that were durable are not there any more, and it was not complete: somebody took it away",
                known.bytes
            );
            let failure = Failure::new(FailureKind::Damage, "go on with the stream", cause);
            return Err(failure.at(&known.name).in_range(0, known.bytes));
        };
        lock(&self.unasked).remove(&number);
        Ok(Standing {
            number,
            bytes: known.bytes,
            digest,
            hasher: blake3::Hasher::new(),
            is_ours: true,
            is_over: true,
            file: Arc::new(TakenAway { path: known.name.clone() }),
            name: (known.name != *path).then(|| known.name.clone()),
            renamed: None,
        })
    }

    /// What a flow is called here.
    fn path_of(&self, begin: &RelativePath) -> Result<RelativePath> {
        match &self.single {
            None => Ok(begin.clone()),
            Some(name) => RelativePath::new(name.clone())
                .map_err(|error| Failure::new(FailureKind::Usage, OPEN_DESTINATION, error.to_string())),
        }
    }

    /// The flow of this path and origin; or, in a directory, the one that its source had under another name.
    ///
    /// # Errors
    /// `Busy` if something writes that now: a second file would have part of what it is.
    fn known(&self, marks: &Marks, path: &RelativePath, begin: &FlowBegin) -> Result<Option<(u64, Known)>> {
        if let Some((number, known)) = marks.find(path, &begin.origin) {
            return Ok(Some((number, known.clone())));
        }
        if !begin.is_certain || self.single.is_some() {
            return Ok(None);
        }
        let Some((number, known)) = marks.find_renamed(&begin.origin) else { return Ok(None) };
        let is_open = lock(&self.opened).get(&number).is_some_and(|grown| grown.strong_count() > 0);
        match is_open {
            true => Err(another_writes(&known.name)),
            false => Ok(Some((number, known.clone()))),
        }
    }

    /// Notes what nothing more comes of. Says whether there was anything.
    fn note_given_up(&self) -> bool {
        let given_up = std::mem::take(&mut *lock(&self.given_up));
        let (mut marks, unasked) = (lock(&self.marks), lock(&self.unasked));
        for (path, origin) in &given_up {
            let is_it = |(number, known): &(u64, &Known)| match *origin == Origin::default() {
                true => unasked.contains(number) && known.path == *path,
                false => known.origin == *origin,
            };
            let numbers: Vec<u64> = marks.unfinished().filter(is_it).map(|(number, _)| number).collect();
            // What cannot be noted is told again.
            numbers.into_iter().for_each(|number| drop(marks.end(number)));
        }
        !given_up.is_empty()
    }

    /// The directory of a name, made with all that is missing, and the last component.
    fn directory(&self, path: &RelativePath) -> Result<(Arc<Dir>, Vec<u8>)> {
        let mut dir = self.root.clone();
        let (parent, name) = path.split().unwrap_or((b"", path.as_bytes()));
        for component in parent.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
            let of_io = |error: io::Error| failed("make a directory", path, &of_room(&dir, error));
            let next = match dir.open_beneath(component, Links::Refuse) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match dir.make_dir(component, self.made_mode) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(of_io(error));
                        }
                        _ => {}
                    }
                    lock(&self.made_in).push(dir.clone());
                    dir.open_beneath(component, Links::Refuse).map_err(of_io)?
                }
                other => other.map_err(of_io)?,
            };
            dir = Arc::new(next);
        }
        Ok((dir, name.to_vec()))
    }

    /// The name of a flow that is not known: its own, or one beside that of an older flow that had it.
    fn name_for(&self, marks: &Marks, path: &RelativePath) -> Result<RelativePath> {
        for generation in 1..=GENERATIONS_MAX {
            let name = generation_of(path, generation)?;
            if marks.has_name(&name) {
                continue;
            }
            let (dir, last) = self.directory(&name)?;
            // What nobody knows is another's. Of the first name the sender judges.
            if generation == 1 || dir.stat(&last).is_err() {
                return Ok(name);
            }
        }
        let cause = format!("it was replaced more than {GENERATIONS_MAX} times");
        Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause).at(path))
    }

    /// Whether nothing stands at this name, or the directories above it are not there.
    fn is_gone(&self, name: &RelativePath) -> bool {
        stat_below(&self.root, name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Opens the file of a flow that is known, or makes it anew.
    fn open_known(&self, number: u64, known: Known, is_ours: bool, mode: u32) -> Result<Opened> {
        let name = known.name.clone();
        let has_no_mark = self.no_replace && is_ours && known.bytes == 0;
        // Before it is opened, which may change its mode.
        if has_no_mark
            && let Ok(stat) = stat_below(&self.root, &name)
            && stat.kind == Kind::File
        {
            check_made(&known, &stat)?;
        }
        let (file, mut made_in) = self.open_file(&name, mode, is_ours)?;
        if has_no_mark {
            let stat = file.stat().map_err(|error| failed("look at a file", &name, &error))?;
            if made_in.is_none() {
                check_made(&known, &stat)?;
            }
            if known.inode != Some(stat.inode) {
                lock(&self.marks).made(number, stat.inode)?;
            }
        }
        // Only a mark comes behind a sync of its directory: a kill may have come before that.
        if made_in.is_none() && known.bytes == 0 {
            made_in = Some(self.directory(&name)?.0);
        }
        Ok(Opened { number, name, marked: Some(known).filter(|_| is_ours), file, made_in })
    }

    /// Makes the file of a flow that is not known, and notes that it begins.
    fn open_new(
        &self,
        mut marks: MutexGuard<'_, Marks>,
        path: &RelativePath,
        begin: &FlowBegin,
    ) -> Result<Opened> {
        let name = self.name_for(&marks, path)?;
        let (dir, last) = self.directory(&name)?;
        if self.no_replace && self.is_gone(&name) {
            return self.make_known(marks, path, begin, name);
        }
        // An empty one may be what a kill left, just below.
        let is_free = dir.stat(&last).map_or(true, |stat| stat.kind == Kind::File && stat.size == 0);
        let (file, mut made_in) = self.open_file(&name, begin.mode, false)?;
        // Behind that, so that no file which somebody else puts there is ever taken for ours; and before a byte is
        // in it, so that whatever a kill leaves of it is known to be ours.
        let number = marks.begin(path.clone(), begin.origin, name.clone(), !is_free);
        if is_free {
            made_in.get_or_insert(dir);
            marks.record(&[])?;
        }
        Ok(Opened { number, name, marked: None, file, made_in })
    }

    /// Notes that a flow begins, and then makes its file: where nothing is replaced one that a kill left unknown would
    /// be another's for ever. What somebody else puts there between the two is not ours: see [`check_made`].
    fn make_known(
        &self,
        mut marks: MutexGuard<'_, Marks>,
        path: &RelativePath,
        begin: &FlowBegin,
        name: RelativePath,
    ) -> Result<Opened> {
        let number = marks.begin(path.clone(), begin.origin, name.clone(), false);
        let opened = marks.record(&[]).and_then(|()| self.open_file(&name, begin.mode, false));
        if opened.is_err() {
            // What cannot be noted now is, before the next flow is opened.
            drop(marks.withdraw(number));
        }
        let (file, made_in) = opened?;
        // Before a byte is in it. An empty one that is not noted is found again as such.
        let stat = file.stat().map_err(|error| failed("look at a file", &name, &error))?;
        marks.made(number, stat.inode)?;
        Ok(Opened { number, name, marked: None, file, made_in })
    }

    fn open_file(&self, name: &RelativePath, mode: u32, is_ours: bool) -> Result<(File, Option<Arc<Dir>>)> {
        let (dir, last) = self.directory(name)?;
        let of_io = |error: &io::Error| failed(OPEN_DESTINATION, name, error);
        match dir.create_new(&last, mode & 0o777 | OWNERS) {
            Ok(file) => Ok((file, Some(dir))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let kind = dir.stat(&last).map_err(|error| of_io(&error))?.kind;
                if kind != Kind::File {
                    let cause = "what stands there is no regular file";
                    return Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause).at(name));
                }
                if self.no_replace && !is_ours {
                    return Err(no_replace(name));
                }
                let opened = match dir.open_read_write(&last) {
                    // It was complete, and has the mode of its source.
                    Err(error) if is_ours && error.kind() == io::ErrorKind::PermissionDenied => {
                        let file = dir.open_read(&last).map_err(|error| of_io(&error))?;
                        file.set_mode(mode & 0o777 | OWNERS).map_err(|error| of_io(&error))?;
                        dir.open_read_write(&last)
                    }
                    opened => opened,
                };
                Ok((opened.map_err(|error| of_io(&error))?, None))
            }
            Err(error) => Err(of_io(&of_room(&dir, error))),
        }
    }
}

impl Opened {
    /// Takes the file for us alone, reads again what is in it and counts, and compares that with its mark. So many
    /// bytes, their digest, and what hashed them.
    ///
    /// # Errors
    /// `Busy` if another stream writes it; `Damage` if it is not what was marked; `Stopped` when `reading` says so;
    /// `Io`.
    fn read_again(&self, reading: &dyn Fn(u64, u64) -> bool) -> Result<(u64, Digest, blake3::Hasher)> {
        let (file, name, marked) = (&self.file, &self.name, self.marked.as_ref());
        if !file.lock_exclusive().map_err(|error| failed("lock", name, &error))? {
            return Err(another_writes(name));
        }
        let size = file.stat().map_err(|error| failed("look at a file", name, &error))?.size;
        // What is behind the mark may be torn, and is written again.
        let bytes = marked.map_or(size, |known| known.bytes);
        let hasher = read_again(file, bytes, name, reading)?;
        let found = Digest(*hasher.finalize().as_bytes());
        let digest = marked.and_then(|known| known.digest);
        if digest.is_some_and(|digest| digest != found) {
            let cause = "what is there is not what was durable: it was changed, or the disk lost it";
            let failure = Failure::new(FailureKind::Damage, "read what is there", cause);
            return Err(failure.at(name).in_range(0, bytes));
        }
        Ok((bytes, found, hasher))
    }
}

/// One at a time writes a file.
fn another_writes(name: &RelativePath) -> Failure {
    let failure = Failure::new(FailureKind::Busy, OPEN_DESTINATION, "another stream writes it");
    failure.at(name).because(Reason::DestinationTaken)
}

/// Where nothing is replaced: whether what stands at the name of a flow that has no mark is the file that was made for
/// it. One of which that was not noted any more is empty, and ours alone.
///
/// # Errors
/// `Permission` if it is another's.
fn check_made(known: &Known, stat: &Stat) -> Result<()> {
    let is_left = stat.size == 0 && stat.links == 1 && stat.uid == user::effective_uid();
    match known.inode.map_or(is_left, |inode| inode == stat.inode) {
        true => Ok(()),
        false => Err(no_replace(&known.name)),
    }
}

/// Looks at what stands at this name.
fn stat_below(root: &Dir, name: &RelativePath) -> io::Result<Stat> {
    let (above, last) = name.split().unwrap_or((b"", name.as_bytes()));
    match above.is_empty() {
        true => root.stat(last),
        false => root.open_beneath(above, Links::Refuse).and_then(|dir| dir.stat(last)),
    }
}

/// `NAME`, `NAME.~2~`, `NAME.~3~`: as GNU tools number what they keep.
fn generation_of(path: &RelativePath, generation: u32) -> Result<RelativePath> {
    if generation == 1 {
        return Ok(path.clone());
    }
    let mut bytes = path.as_bytes().to_vec();
    bytes.extend_from_slice(format!(".~{generation}~").as_bytes());
    RelativePath::new(bytes)
        .map_err(|error| Failure::new(FailureKind::Unsupported, OPEN_DESTINATION, error.to_string()).at(path))
}

impl FlowDestination for LocalFlows {
    fn open(&self, begin: &FlowBegin, reading: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        let path = self.path_of(&begin.path)?;
        if path.as_bytes().split(|&byte| byte == b'/').any(is_staging) {
            let cause = "the name belongs to thalweg's staging directory";
            return Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause).at(&path));
        }
        let mut marks = lock(&self.marks);
        marks.make_certain()?;
        let known = self.known(&marks, &path, begin)?;
        let opened = match known {
            Some((number, known)) => {
                let is_ours = marks.is_ours(number);
                drop(marks);
                if is_ours && (known.bytes > 0 || known.is_complete) && self.is_gone(&known.name) {
                    return self.taken_away(number, &path, &known);
                }
                self.open_known(number, known, is_ours, begin.mode)?
            }
            None => self.open_new(marks, &path, begin)?,
        };
        let (bytes, found, hasher) = opened.read_again(reading)?;
        let Opened { number, name, marked, file, made_in } = opened;
        let renamed = (name != path).then(|| format!("{}/{}", shown(&self.words), Escaped(name.as_bytes())));
        let told = (name != begin.path).then(|| name.clone());
        let is_named = AtomicBool::new(made_in.is_none());
        let (is_ours, is_over) = (marked.is_some(), marked.is_some_and(|known| known.is_complete));
        let does_pay = self.root.file_system().is_ok_and(|system| pays(system.kind));
        let direct = if does_pay { file.direct_alignment().unwrap_or(None) } else { None };
        let grown = Grown {
            file,
            root: self.root.clone(),
            path: name,
            number,
            marks: self.marks.clone(),
            made_in,
            is_named,
            direct,
            no_direct: AtomicBool::new(false),
            mode: Some(begin.mode & 0o777).filter(|mode| mode & OWNERS != OWNERS),
            no_replace: self.no_replace,
        };
        let file = Arc::new(grown);
        lock(&self.unasked).remove(&number);
        let mut opened = lock(&self.opened);
        opened.insert(number, Arc::downgrade(&file));
        if opened.len() > 2 * limits::FLOWS_MAX {
            opened.retain(|_, grown| grown.strong_count() > 0);
        }
        drop(opened);
        Ok(Standing { number, bytes, digest: found, hasher, is_ours, is_over, file, name: told, renamed })
    }

    fn record(&self, marks: &[(u64, u64, Digest)]) -> Result<()> {
        // Names first: what is marked is found after a power cut.
        let made_in = std::mem::take(&mut *lock(&self.made_in));
        for (index, dir) in made_in.iter().enumerate() {
            if let Err(error) = dir.sync() {
                lock(&self.made_in).extend_from_slice(&made_in[index..]);
                return Err(failure::of_io("sync a directory", &error));
            }
        }
        lock(&self.marks).record(marks)
    }

    fn left(&self) -> (Vec<FlowLeft>, u64) {
        let marks = lock(&self.marks);
        let single = self.single.as_deref();
        // A pipe is not looked for anywhere.
        let mut unfinished = marks.unfinished().map(|(_, known)| known).filter(|known| {
            known.origin != Origin::default() && single.is_none_or(|name| known.path.as_bytes() == name)
        });
        let left = unfinished.by_ref().take(limits::FLOWS_LEFT_MAX).map(|known| FlowLeft {
            path: known.path.clone(),
            origin: known.origin,
            name: known.name.clone(),
            bytes: known.bytes,
        });
        let left = left.collect();
        (left, unfinished.count() as u64)
    }

    fn given_up(&self, begin: &FlowBegin) {
        if let Ok(path) = self.path_of(&begin.path) {
            let mut given_up = lock(&self.given_up);
            // What is not noted is told again.
            if given_up.len() < limits::FLOWS_LEFT_MAX {
                given_up.insert((path, begin.origin));
            }
        }
    }

    fn close(&self, success: bool) {
        // What was given up is known until a transfer goes through without that: what is streamed next has a name
        // beside it.
        let is_given_up = self.note_given_up();
        // Flows that failed keep their marks, for the next attempt.
        if success && !is_given_up && lock(&self.marks).is_complete() {
            lock(&self.marks).close();
            self.staging.discard(&self.root, &self.job, lock(&self.lock_file).take());
            let _ = self.root.sync();
        }
    }

    fn device(&self) -> Option<u64> {
        self.root.stat_self().ok().map(|stat| stat.device)
    }
}

/// Digests the first bytes of a file.
fn read_again(
    file: &File,
    bytes: u64,
    name: &RelativePath,
    reading: &dyn Fn(u64, u64) -> bool,
) -> Result<blake3::Hasher> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < bytes {
        if !reading(at, bytes) {
            let cause = "nobody waits for it any more";
            return Err(Failure::new(FailureKind::Stopped, "read what is there", cause).at(name));
        }
        let most = (bytes - at).min(READ_BYTES as u64) as usize;
        let read = file.read_at(&mut buffer[..most], at);
        let read =
            read.map_err(|error| failed("read what is there", name, &error).in_range(at, at + most as u64))?;
        if read == 0 {
            let cause =
                format!("it has {at} bytes of {bytes} that were durable: it was cut, or the disk lost them");
            return Err(Failure::new(FailureKind::Damage, "read what is there", cause)
                .at(name)
                .in_range(at, bytes));
        }
        hasher.update(&buffer[..read]);
        at += read as u64;
    }
    Ok(hasher)
}

impl Grown {
    /// Which of these bytes go past the page cache: whole blocks, if there are enough of them and nobody else has the
    /// file open, who would have to read from the disk what is still in memory.
    fn whole_blocks(&self, bytes: usize, offset: u64) -> Option<(Range<usize>, DirectAlignment)> {
        let alignment = self.direct.filter(|_| !self.no_direct.load(Ordering::Relaxed))?;
        let unit = u64::from(alignment.offset).max(BLOCK_BYTES as u64);
        let end = offset + bytes as u64;
        let (from, to) = (offset.next_multiple_of(unit), end - end % unit);
        let is_worth_it = to >= from + DIRECT_BYTES && !self.file.has_others().unwrap_or(true);
        is_worth_it.then(|| ((from - offset) as usize..(to - offset) as usize, alignment))
    }

    /// From front to back, so that who follows the file never finds what is behind a gap.
    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some((whole, alignment)) = self.whole_blocks(bytes.len(), offset) else {
            return self.file.write_all_at(bytes, offset);
        };
        self.file.write_all_at(&bytes[..whole.start], offset)?;
        let at = offset + whole.start as u64;
        let written = write_direct(&self.file, &bytes[whole.clone()], at, alignment);
        self.file.set_direct(false)?;
        match written {
            Err(error) if is_direct_refused(&error) => {
                self.no_direct.store(true, Ordering::Relaxed);
                self.file.write_all_at(&bytes[whole.start..], at)
            }
            Err(error) => Err(error),
            Ok(()) => self.file.write_all_at(&bytes[whole.end..], offset + whole.end as u64),
        }
    }

    /// Where nothing is replaced: what stands there of these bytes already is the same, or zero. An attempt that was
    /// killed leaves such behind its mark, and zeros where the disk had not all of it yet; somebody here may have
    /// written there since.
    fn check_standing(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if !self.no_replace {
            return Ok(());
        }
        let of_io = |error: io::Error| failed("read what is there", &self.path, &error);
        let behind = self.file.stat().map_err(of_io)?.size.saturating_sub(offset);
        let mut there = vec![0; behind.min(bytes.len() as u64) as usize];
        let read = self.file.read_at(&mut there, offset).map_err(of_io)?;
        let stands = |(there, comes): (&u8, &u8)| there == comes || *there == 0;
        match there[..read] == bytes[..read] || there[..read].iter().zip(bytes).all(stands) {
            true => Ok(()),
            false => Err(self.stays("what stands there behind its mark is not what comes")),
        }
    }

    /// The failure of what would change what stands there, and may not.
    fn stays(&self, why: &str) -> Failure {
        let cause = format!("{why}, and nothing that stands there is replaced or cut (no-replace)");
        Failure::new(FailureKind::Permission, REPLACE, cause).at(&self.path).because(Reason::NotReplaced)
    }

    /// Refuses to go on with a file that has lost its name: nobody finds there what was written, however durable it is.
    fn check_name(&self) -> Result<()> {
        let of_io = |error: &io::Error| failed(KEEP_NAME, &self.path, error);
        let written = self.file.stat().map_err(|error| of_io(&error))?;
        let cause = match stat_below(&self.root, &self.path) {
            Ok(named) if named.is_same_entry(&written) => return Ok(()),
            Ok(_) => "another stands at its name: somebody replaced it while it was written",
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "it is not there any more: somebody removed it, or moved it away, while it was written"
            }
            Err(error) => return Err(of_io(&error)),
        };
        let failure = Failure::new(FailureKind::Damage, KEEP_NAME, cause).at(&self.path);
        Err(failure.in_range(0, written.size).because(Reason::NameLost))
    }
}

impl FlowFile for TakenAway {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let cause =
            "it was complete and was taken away since, and goes on now: what comes has no file to go to";
        let failure = Failure::new(FailureKind::NotFound, "write", cause).at(&self.path);
        Err(failure.in_range(offset, offset + bytes.len() as u64))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn complete(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

impl FlowFile for Grown {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.check_standing(bytes, offset)?;
        self.put(bytes, offset).map_err(|error| {
            failed("write", &self.path, &error).in_range(offset, offset + bytes.len() as u64)
        })
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))?;
        if let Some(dir) = &self.made_in
            && !self.is_named.load(Ordering::Acquire)
        {
            dir.sync().map_err(|error| failed("sync", &self.path, &error))?;
            self.is_named.store(true, Ordering::Release);
        }
        self.check_name()
    }

    fn complete(&self, bytes: u64) -> Result<()> {
        let of_io = |error: &io::Error| failed("complete the stream", &self.path, error);
        let stat = self.file.stat().map_err(|error| of_io(&error))?;
        if stat.size < bytes {
            let cause = format!("it has {} bytes of {bytes} that were written: somebody cut it", stat.size);
            let failure = Failure::new(FailureKind::Damage, "complete the stream", cause).at(&self.path);
            return Err(failure.in_range(stat.size, bytes));
        }
        // What an attempt that was killed wrote behind its last mark.
        if stat.size > bytes {
            if self.no_replace {
                return Err(self.stays("it has more than was sent"));
            }
            self.file.truncate(bytes).map_err(|error| of_io(&error))?;
        }
        // Somebody may have given it another since.
        if let Some(mode) = self.mode.filter(|mode| stat.mode & 0o777 == mode | OWNERS) {
            self.file.set_mode(mode).map_err(|error| of_io(&error))?;
        }
        self.sync()?;
        self.file.sync_all().map_err(|error| of_io(&error))?;
        self.check_name()?;
        lock(&self.marks).end(self.number)
    }
}

#[cfg(test)]
mod tests;
