//! Questions about a place that need no transfer: what is there, its bytes, its digests, and removing it.
//!
//! One implementation for the user's own paths and for exports. Every function finds the place first (below an
//! export by [`Links::Beneath`], so that no link leads out), then works downwards from held directories and
//! follows no link, unless it is to list or digest what links lead to. What is found goes to a sink piece by piece;
//! memory does not grow with the tree. A sink that fails ends the work with its failure.
//!
//! In an export everything that is absent, that a link hides outside, or that is ours alone (the staging
//! directory) fails with the same words. Sockets are not listed: they are never moved.

use super::source::follow::{FOLLOW_MAX, LEADS_ABOVE, leads_into_staging, not_followed};
use super::source::read_once::ReadOnce;
use super::source::scan::listed;
use super::walk::{Step, Walk};
use super::{
    FOLLOW_LINKS, READ_ON, at_words, errno, evidence_of, failed, failed_at_words, is_in_staging, is_staging,
    leads_nowhere, not_in_export, of_source,
};
use crate::endpoint::OPEN;
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::part;
use following::End;
use several::{Job, digest_several};
use std::cmp::Ordering;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_sys::{Dir, File, Kind, Links, Stat};
use thalweg_wire::digest::{HASHED_HOLE_BYTES_MAX, Rule, Tree, hole_mark};
use thalweg_wire::message::PartOf;
use thalweg_wire::{Digest, Entry, Evidence, RelativePath, limits};

/// Where links lead.
mod following;

/// Several files digested at a time.
mod several;

/// A place that a question is about.
pub struct SurveyPlace {
    /// The path as the user wrote it; relative to `below` if that is given.
    pub path: PathBuf,
    /// The export that it must not leave.
    pub below: Option<Dir>,
    /// What symbolic links lead to, the place itself and at all levels, is listed and digested instead of the links. In
    /// an export none that leads out of it. A link that leads nowhere, or to a directory that it is in, is trouble.
    pub follow_links: bool,
}

/// A piece of a listing.
#[derive(Debug)]
pub enum Found {
    /// An entry, its path relative to the place. Of a directory the first one is the directory itself, with the
    /// root's path; anything else is one entry with its own name.
    Entry(Entry),
    /// Something that could not be looked at; the listing goes on.
    Trouble(Failure),
}

/// A piece of a listing whose order matters: a directory before what is in it, and its names in the order of their
/// bytes.
#[derive(Debug)]
pub enum Listed {
    /// The next thing in the listing.
    Found(Found),
    /// This directory has so many names that they come in no order; what is in each of them follows it none the less.
    Unordered(RelativePath),
}

/// A piece of an answer about digests.
#[derive(Debug)]
pub enum Digested {
    /// A file: path as in a listing, bytes, digest.
    File(RelativePath, u64, Digest),
    /// Something that could not be read; the answer goes on.
    Trouble(Failure),
    /// As of a listing: what comes next is in this directory.
    Unordered(RelativePath),
    /// Still at work on a large file.
    Alive,
}

/// A piece of a removal.
#[derive(Debug)]
pub enum Removed {
    /// One more entry is gone.
    One,
    /// Something that could not be removed; the rest goes on.
    Trouble(Failure),
}

/// How a file is digested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAs {
    /// BLAKE3 of its bytes: what `b3sum` prints.
    Plain,
    /// As `Plain`, but files above [`HASHED_HOLE_BYTES_MAX`] have their zero segments marked, whatever the disk
    /// keeps for them: a function of content and segment size, fast for huge holes.
    Marked {
        /// Bytes of a segment: a power of two within the limits of the wire.
        segment_bytes: u64,
    },
}

impl DigestAs {
    /// From the number in a question: 0 is plain.
    ///
    /// # Errors
    /// `Usage` for a segment size that no transfer has.
    pub fn of_question(segment_bytes: u64) -> Result<DigestAs> {
        let fits = (limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX).contains(&segment_bytes);
        match segment_bytes {
            0 => Ok(DigestAs::Plain),
            _ if fits && segment_bytes.is_power_of_two() => Ok(DigestAs::Marked { segment_bytes }),
            _ => Err(Failure::new(FailureKind::Usage, "digest", "no segment has that size")),
        }
    }
}

/// Files digested at a time: one core digests less than a disk, or a file system of many, gives.
pub const WORKERS: usize = 4;
/// Bytes read at once; also the largest piece that [`read`] hands on.
pub const PIECE_BYTES: usize = 256 << 10;
/// Between two signs of life from a large file.
const ALIVE_EVERY: Duration = Duration::from_secs(2);
/// Readings of a file that changes before that is told.
const READINGS_MAX: u32 = 3;

/// Lists what is at a place; all levels if `recursive`.
///
/// # Errors
/// `NotFound`, `Permission`, `Io` for the place itself; what the sink says.
pub fn list(place: &SurveyPlace, recursive: bool, sink: &mut dyn FnMut(Found) -> Result<()>) -> Result<()> {
    list_in_order(place, recursive, &mut |listed| match listed {
        Listed::Found(found) => sink(found),
        Listed::Unordered(_) => Ok(()),
    })
}

/// As [`list`], and says where names come in no order.
///
/// # Errors
/// As [`list`].
pub fn list_in_order(
    place: &SurveyPlace,
    recursive: bool,
    sink: &mut dyn FnMut(Listed) -> Result<()>,
) -> Result<()> {
    list_behind(place, recursive, None, sink)
}

/// As [`list_in_order`], of what comes behind `after`: for one who has seen all that is before it. Of directories on
/// the way there it is told again whether they have an order, and what could not be looked at.
///
/// # Errors
/// As [`list`].
pub fn list_behind(
    place: &SurveyPlace,
    recursive: bool,
    after: Option<&RelativePath>,
    sink: &mut dyn FnMut(Listed) -> Result<()>,
) -> Result<()> {
    visit(place, recursive, after, &mut |seen| {
        sink(match seen {
            Seen::Name { dir, name, path, stat } => match listed(dir, name, path, stat) {
                Ok(entry) => Listed::Found(Found::Entry(entry)),
                Err(failure) => Listed::Found(Found::Trouble(failure)),
            },
            Seen::Root(stat) => Listed::Found(Found::Entry(directory(stat))),
            Seen::Trouble(failure) => Listed::Found(Found::Trouble(failure)),
            Seen::Unordered(directory) => Listed::Unordered(directory),
            Seen::Passed => return Ok(()),
        })
    })
}

/// What stands at a place, told as in a listing, without what is in it. A link is the link; with `follow` one that
/// leads to a directory is that directory.
///
/// # Errors
/// `NotFound`, `Permission`, `Io`; `Unsupported` for what is not listed.
pub fn look(place: &SurveyPlace, follow: bool) -> Result<Entry> {
    let spot = if follow { place.find()? } else { place.find_name()? };
    let (dir, name, stat) = match spot {
        Spot::Directory(dir) => {
            let stat = dir.stat_self().map_err(|error| place.failed("read metadata", &error))?;
            return Ok(directory(&stat));
        }
        Spot::Name { dir, name, stat } => (dir, name, stat),
    };
    match stat.kind {
        Kind::Dir => Ok(directory(&stat)),
        Kind::Socket => {
            Err(place.refused(FailureKind::Unsupported, "list", "it is of a kind that is not listed"))
        }
        _ => listed(&dir, &name, RelativePath::new(name.clone()).unwrap_or_default(), &stat),
    }
}

/// A directory as the root of its listing.
fn directory(stat: &Stat) -> Entry {
    Entry {
        id: thalweg_wire::EntryId(0),
        path: RelativePath::root(),
        kind: thalweg_wire::Kind::Directory,
        mode: stat.mode,
        uid: stat.uid,
        gid: stat.gid,
        evidence: evidence_of(stat),
        xattrs: Vec::new(),
    }
}

/// Reads a file from `offset` on, at most `bytes` (0: all) in pieces of up to [`PIECE_BYTES`]. Links of the place
/// itself are followed. All of the bytes are of what was `seen`, if that is given and no failure follows them.
///
/// # Errors
/// `NotFound`, `Permission`, `Io`; `Conflict` for what is no regular file; `Changed` if it is not what was `seen`; what
/// the sink says.
pub fn read(
    place: &SurveyPlace,
    offset: u64,
    bytes: u64,
    seen: Option<Evidence>,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let file = open_file(place)?;
    let compare = || {
        let Some(seen) = seen else { return Ok(()) };
        let stat = file.stat().map_err(|error| place.failed("read", &error))?;
        match evidence_of(&stat) == seen {
            true => Ok(()),
            false => {
                let cause = "it is not the file that was opened any more";
                Err(place.refused(FailureKind::Changed, READ_ON, cause).because(Reason::NameReplaced))
            }
        }
    };
    compare()?;
    let mut buffer = vec![0; PIECE_BYTES];
    let end = if bytes == 0 { u64::MAX } else { offset.saturating_add(bytes) };
    let mut at = offset;
    while at < end {
        let want = (end - at).min(PIECE_BYTES as u64) as usize;
        let got = file
            .read_at(&mut buffer[..want], at)
            .map_err(|error| place.failed("read", &error).in_range(at, end))?;
        if got == 0 {
            break;
        }
        sink(&buffer[..got])?;
        at += got as u64;
    }
    compare()
}

/// Digests the regular files at or below a place, up to `workers` at a time, read from the medium as far as that can be
/// had; the page cache is as it was. They are told in the order of a listing. A link that is the place itself is
/// followed, others only where that is asked for.
///
/// # Errors
/// As [`list`].
pub fn digest(
    place: &SurveyPlace,
    how: DigestAs,
    workers: usize,
    sink: &mut dyn FnMut(Digested) -> Result<()>,
) -> Result<()> {
    digest_wanted(place, how, workers, &|_| true, sink)
}

/// As [`digest`], of what comes behind `after`, as of [`list_behind`], and whose name is in this part.
///
/// # Errors
/// As [`digest`].
pub fn digest_behind(
    place: &SurveyPlace,
    how: DigestAs,
    workers: usize,
    (after, part): (Option<&RelativePath>, Option<PartOf>),
    sink: &mut dyn FnMut(Digested) -> Result<()>,
) -> Result<()> {
    let in_part: &dyn Fn(&RelativePath) -> bool = &|path| part.is_none_or(|part| part::has_name(part, path));
    digest_chosen(place, how, workers, (in_part, after), sink)
}

/// As [`digest`], of the files whose paths, as in a listing, are wanted; others are not even opened.
///
/// # Errors
/// As [`digest`].
pub fn digest_wanted(
    place: &SurveyPlace,
    how: DigestAs,
    workers: usize,
    wanted: &dyn Fn(&RelativePath) -> bool,
    sink: &mut dyn FnMut(Digested) -> Result<()>,
) -> Result<()> {
    digest_chosen(place, how, workers, (wanted, None), sink)
}

/// What is wanted, and behind which path.
type Chosen<'a> = (&'a dyn Fn(&RelativePath) -> bool, Option<&'a RelativePath>);

fn digest_chosen(
    place: &SurveyPlace,
    how: DigestAs,
    workers: usize,
    (wanted, after): Chosen<'_>,
    sink: &mut dyn FnMut(Digested) -> Result<()>,
) -> Result<()> {
    if let Spot::Name { dir, name, stat } = place.find()? {
        let path = RelativePath::new(name.clone()).unwrap_or_default();
        let (dir, name, stat) = place.end(dir, name, stat)?;
        let file = match stat.kind {
            _ if !wanted(&path) || turn(&path, after) != Turn::Next => return sink(Digested::Alive),
            Kind::Symlink => open_file(place)?,
            Kind::File => match dir.open_read(&name) {
                Ok(file) => file,
                Err(error) => return sink(Digested::Trouble(failed(OPEN, &path, &error))),
            },
            _ => return Ok(()),
        };
        drop(dir);
        let digested = digested(&file, path, how, &mut || sink(Digested::Alive));
        // A sink that is gone fails again when it is told.
        return sink(digested);
    }
    digest_several(how, workers, sink, |several| {
        visit(place, true, after, &mut |seen| match seen {
            // A sink that is gone says so at what nobody wants, too.
            Seen::Name { path, .. } if !wanted(&path) => several.alive(),
            Seen::Name { dir, name, path, stat } if stat.kind == Kind::File => {
                several.digest(Job { dir: dir.clone(), name: name.to_vec(), path })
            }
            Seen::Trouble(failure) => several.trouble(failure),
            Seen::Unordered(directory) => several.unordered(directory),
            Seen::Passed => several.alive(),
            Seen::Name { .. } | Seen::Root(_) => several.tell_what_came(),
        })
    })
}

fn digested(
    file: &File,
    path: RelativePath,
    how: DigestAs,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Digested {
    match digest_file(file, how, alive) {
        Ok((bytes, digest)) => Digested::File(path, bytes, digest),
        Err(failure) => Digested::Trouble(failure.at(&path)),
    }
}

/// Digests one open file, of one moment, as [`ReadOnce`] reads it: no other handle may use the open file meanwhile.
/// `alive` is called every few seconds. A file that changes meanwhile is read again, a few times.
///
/// # Errors
/// `Io`; `Changed` if it changed each time; what `alive` says.
fn digest_file(file: &File, how: DigestAs, alive: &mut dyn FnMut() -> Result<()>) -> Result<(u64, Digest)> {
    of_one_moment(file, |before| {
        let mut once = ReadOnce::new(file, before.size);
        let digest = match how {
            DigestAs::Marked { segment_bytes } if before.size > HASHED_HOLE_BYTES_MAX => {
                digest_marked(file, &mut once, before.size, segment_bytes, alive)?
            }
            _ => digest_plain(file, &mut once, before, alive)?,
        };
        Ok((before.size, digest))
    })
}

/// What is read of a file that is the same before and after. File systems in user space may show late what was done to
/// it before, so that one difference is no proof of a writer.
fn of_one_moment<T>(file: &File, mut read: impl FnMut(&Stat) -> Result<T>) -> Result<T> {
    let look = || file.stat_now().map_err(|error| crate::failure::of_io("read", &error));
    let mut before = look()?;
    for _ in 0..READINGS_MAX {
        let outcome = read(&before);
        let after = look()?;
        match outcome {
            Ok(read) if evidence_of(&after) == evidence_of(&before) => return Ok(read),
            Err(failure) if failure.kind != FailureKind::Changed => return Err(failure),
            _ => before = after,
        }
    }
    Err(Failure::new(FailureKind::Changed, "read", "the file changed while it was read"))
}

fn digest_plain(
    file: &File,
    once: &mut ReadOnce<'_>,
    stat: &Stat,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<Digest> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let of_io = |error: io::Error| crate::failure::of_io("read", &error);
    let sparse = stat.blocks_512.saturating_mul(512) < stat.size;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE_BYTES.min(usize::try_from(stat.size).unwrap_or(PIECE_BYTES).max(1))];
    let mut told = Instant::now();
    let mut at = 0;
    while at < stat.size {
        if told.elapsed() > ALIVE_EVERY {
            alive()?;
            told = Instant::now();
        }
        let want = (stat.size - at).min(buffer.len() as u64);
        if sparse {
            let data = file.next_data(at).map_err(of_io)?.unwrap_or(stat.size).min(stat.size);
            if data > at {
                let step = (data - at).min(ZEROS.len() as u64);
                hasher.update(&ZEROS[..step as usize]);
                at += step;
                continue;
            }
        }
        let got = once.read_at(&mut buffer[..want as usize], at).map_err(of_io)?;
        if got == 0 {
            return Err(Failure::new(FailureKind::Changed, "read", "the file became shorter"));
        }
        hasher.update(&buffer[..got]);
        at += got as u64;
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

fn digest_marked(
    file: &File,
    once: &mut ReadOnce<'_>,
    bytes: u64,
    segment_bytes: u64,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<Digest> {
    let of_io = |error: io::Error| crate::failure::of_io("read", &error);
    let rule = Rule { file_bytes: bytes, segment_bytes, marked: true };
    let mut tree = Tree::new(bytes, segment_bytes);
    let mut buffer = vec![0; segment_bytes as usize];
    let mut told = Instant::now();
    let mut at = 0;
    while at < bytes {
        if told.elapsed() > ALIVE_EVERY {
            alive()?;
            told = Instant::now();
        }
        let data = file.next_data(at).map_err(of_io)?.unwrap_or(bytes).min(bytes);
        let holes = (data - at) / segment_bytes;
        if holes > 0 {
            tree.insert_marked_holes(at / segment_bytes, holes, hole_mark(segment_bytes));
            at += holes * segment_bytes;
            continue;
        }
        let want = (bytes - at).min(segment_bytes) as usize;
        let got = once.read_at(&mut buffer[..want], at).map_err(of_io)?;
        let digest = rule.segment(at, &buffer[..got]).filter(|_| got == want);
        let Some(digest) = digest else {
            return Err(Failure::new(FailureKind::Changed, "read", "the file became shorter"));
        };
        tree.insert(at / segment_bytes, digest);
        at += want as u64;
    }
    tree.root().ok_or_else(|| Failure::new(FailureKind::Internal, "digest", "segments are missing"))
}

/// Removes a file, link or other object, or with `recursive` a tree. Without it a directory goes only where a `/` ends
/// its name, and nothing is in it: in one step, so that nothing goes that came since somebody looked. What has such a
/// name goes only if it is a directory: what took its place since then stays. A link that is the place itself goes, not
/// what it leads to. Directories of other file systems, and the staging of unfinished transfers, stay with what holds
/// them.
///
/// # Errors
/// `Conflict` for a directory without `recursive` that has something in it or no `/` behind its name, and for what is
/// none and has one; `Usage` for the root of an export or of the machine; as [`list`].
pub fn remove(
    place: &SurveyPlace,
    recursive: bool,
    sink: &mut dyn FnMut(Removed) -> Result<()>,
) -> Result<()> {
    let Some((parent, name)) = place.parent_and_name() else {
        let cause = "a place that has no name of its own is not removed: name what is in it";
        return Err(place.refused(FailureKind::Usage, "remove", cause));
    };
    place.refuse_staging()?;
    let parent = place.open_dir(&parent).map_err(|error| place.failed("remove", &error))?;
    let stat = parent.stat(&name).map_err(|error| place.failed("remove", &error))?;
    let is_named_directory = place.path.as_os_str().as_bytes().ends_with(b"/");
    if stat.kind != Kind::Dir {
        if is_named_directory {
            let cause = "it is no directory, as the `/` behind its name says";
            return Err(place.refused(FailureKind::Conflict, "remove", cause));
        }
        parent.remove_file(&name).map_err(|error| place.failed("remove", &error))?;
        return sink(Removed::One);
    }
    if !recursive {
        if !is_named_directory {
            return Err(place.refused(FailureKind::Conflict, "remove", "it is a directory: use -r"));
        }
        parent.remove_dir(&name).map_err(|error| place.failed("remove", &error))?;
        return sink(Removed::One);
    }
    let root = parent.open_beneath(&name, Links::Refuse).map_err(|error| place.failed("remove", &error))?;
    let root = Arc::new(root);
    let keeps = remove_below(&root, (stat.device, stat.mount_id), sink)?;
    if keeps {
        return Ok(());
    }
    match parent.remove_dir(&name) {
        Ok(()) => sink(Removed::One),
        Err(error) => sink(Removed::Trouble(place.failed("remove", &error))),
    }
}

/// Removes everything below `root`; says whether something stayed.
fn remove_below(
    root: &Arc<Dir>,
    home: (u64, Option<u64>),
    sink: &mut dyn FnMut(Removed) -> Result<()>,
) -> Result<bool> {
    let reopen = |path: &[u8]| root.open_beneath(path, Links::Refuse);
    let mut walk = Walk::new(Box::new(reopen));
    let trouble = |path: Vec<u8>, error: &io::Error| {
        Removed::Trouble(failed("remove", &RelativePath::new(path).unwrap_or_default(), error))
    };
    if let Err(error) = walk.enter(b"", root.clone()) {
        sink(trouble(Vec::new(), &error))?;
        return Ok(true);
    }
    // For each directory on the way: whether something in it stays.
    let mut keeps = vec![false];
    loop {
        let step = walk.next();
        let path = walk.path().to_vec();
        let result = match step {
            Step::End => return Ok(keeps.pop().unwrap_or(true)),
            Step::Trouble(error) => Err((path, error)),
            Step::Left(_) if walk.depth() == 0 => continue,
            Step::Left(name) => {
                let below = keeps.pop().unwrap_or(true);
                let path = walk.path_of(&name);
                match below {
                    true => {
                        mark(&mut keeps);
                        continue;
                    }
                    false => walk.dir().and_then(|dir| dir.remove_dir(&name)).map_err(|error| (path, error)),
                }
            }
            Step::Name(name, _) => {
                let path = walk.path_of(&name);
                let removed = walk.dir().and_then(|dir| {
                    if is_staging(&name) {
                        return Err(io::Error::other(
                            "an unfinished transfer is kept there: see `thalweg gc`",
                        ));
                    }
                    let stat = dir.stat(&name)?;
                    if stat.kind != Kind::Dir {
                        return dir.remove_file(&name).map(|()| false);
                    }
                    if (stat.device, stat.mount_id) != home {
                        return Err(io::Error::other("another file system is mounted there"));
                    }
                    let child = dir.open_beneath(&name, Links::Refuse)?;
                    walk.enter(&name, Arc::new(child)).map(|()| true)
                });
                match removed {
                    Ok(true) => {
                        keeps.push(false);
                        continue;
                    }
                    Ok(false) => Ok(()),
                    Err(error) => Err((path, error)),
                }
            }
        };
        match result {
            Ok(()) => sink(Removed::One)?,
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err((path, error)) => {
                mark(&mut keeps);
                sink(trouble(path, &error))?;
            }
        }
    }
}

fn mark(keeps: &mut [bool]) {
    if let Some(last) = keeps.last_mut() {
        *last = true;
    }
}

enum Seen<'a> {
    Root(&'a Stat),
    Name {
        dir: &'a Arc<Dir>,
        name: &'a [u8],
        path: RelativePath,
        stat: &'a Stat,
    },
    Trouble(Failure),
    /// The names of this directory come in no order.
    Unordered(RelativePath),
    /// Something that comes before what is visited.
    Passed,
}

/// Where a path stands to the one behind which a visit goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Before it, with all that is in it.
    Passed,
    /// It is that path, or a directory on the way there: of what is in it something may be next.
    OnTheWay,
    /// Behind it.
    Next,
}

fn turn(path: &RelativePath, after: Option<&RelativePath>) -> Turn {
    let Some(after) = after else { return Turn::Next };
    match path.cmp_in_listing(after) {
        Ordering::Greater => Turn::Next,
        Ordering::Equal => Turn::OnTheWay,
        Ordering::Less if after.is_below(path) => Turn::OnTheWay,
        Ordering::Less => Turn::Passed,
    }
}

fn visit(
    place: &SurveyPlace,
    recursive: bool,
    after: Option<&RelativePath>,
    see: &mut dyn FnMut(Seen<'_>) -> Result<()>,
) -> Result<()> {
    let root = match place.find()? {
        Spot::Directory(dir) => Arc::new(dir),
        Spot::Name { dir, name, stat } => {
            let path = RelativePath::new(name.clone()).unwrap_or_default();
            let (dir, name, stat) = place.end(dir, name, stat)?;
            return match turn(&path, after) {
                Turn::Next => see(Seen::Name { dir: &dir, name: &name, path, stat: &stat }),
                Turn::Passed | Turn::OnTheWay => see(Seen::Passed),
            };
        }
    };
    let stat = root.stat_self().map_err(|error| place.failed("read metadata", &error))?;
    if after.is_none() {
        see(Seen::Root(&stat))?;
    }
    let reopen = |path: &[u8]| match place.follow_links {
        true => place.open_dir(&place.words_of(path)),
        false => root.open_beneath(path, Links::Refuse),
    };
    let mut walk = Walk::new(Box::new(reopen));
    walk.enter(b"", root.clone()).map_err(|error| place.failed("list", &error))?;
    if walk.is_unordered() {
        see(Seen::Unordered(RelativePath::root()))?;
    }
    loop {
        let (name, kind) = match walk.next() {
            Step::End => return Ok(()),
            Step::Left(_) => continue,
            Step::Trouble(error) => {
                let path = RelativePath::new(walk.path().to_vec()).unwrap_or_default();
                see(Seen::Trouble(failed("list", &path, &error)))?;
                continue;
            }
            Step::Name(name, kind) => (name, kind),
        };
        if is_staging(&name) || kind == Kind::Socket {
            continue;
        }
        let path = match RelativePath::new(walk.path_of(&name)) {
            Ok(path) => path,
            Err(error) => {
                see(Seen::Trouble(Failure::new(FailureKind::Unsupported, "list", error)))?;
                continue;
            }
        };
        let turn = turn(&path, after);
        if turn == Turn::Passed {
            see(Seen::Passed)?;
            continue;
        }
        let looked = walk.dir().and_then(|dir| dir.stat(&name).map(|stat| (dir, stat)));
        let (dir, stat) = match looked {
            Ok(looked) => looked,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                see(Seen::Trouble(failed("read metadata", &path, &error)))?;
                continue;
            }
        };
        let (dir, end, stat, child) = match place.follow_links && stat.kind == Kind::Symlink {
            false => (dir, None, stat, None),
            true => match place.follow(&place.words_of(path.as_bytes()), &dir, &name) {
                Ok(End::Name(dir, end, stat)) => (dir, Some(end), stat, None),
                Ok(End::Directory(child, stat)) => (dir, None, stat, Some(child)),
                Err(error) if leads_into_staging(&error).is_some() => continue,
                Err(error) => {
                    let failure = match dir.read_link(&name) {
                        Ok(says) => not_followed(&path, &says, &error),
                        Err(_) => failed("read metadata", &path, &error),
                    };
                    see(Seen::Trouble(failure))?;
                    continue;
                }
            },
        };
        if stat.kind == Kind::Socket {
            continue;
        }
        let descends = recursive && stat.kind == Kind::Dir;
        let is_above = |walk: &Walk<'_>| walk.identities().any(|above| above == (stat.device, stat.inode));
        if descends && place.follow_links && is_above(&walk) {
            let failure = Failure::new(FailureKind::Unsupported, FOLLOW_LINKS, LEADS_ABOVE).at(&path);
            see(Seen::Trouble(failure.because(Reason::NotFollowed)))?;
            continue;
        }
        let at = end.as_deref().unwrap_or(&name);
        see(match turn {
            Turn::Next => Seen::Name { dir: &dir, name: at, path: path.clone(), stat: &stat },
            Turn::Passed | Turn::OnTheWay => Seen::Passed,
        })?;
        if descends {
            let child = child.map_or_else(|| dir.open_beneath(&name, Links::Refuse), Ok);
            match child.and_then(|child| walk.enter(&name, Arc::new(child))) {
                Ok(()) if walk.is_unordered() => see(Seen::Unordered(path))?,
                Ok(()) => {}
                Err(error) => see(Seen::Trouble(failed("list", &path, &error)))?,
            }
        }
    }
}

enum Spot {
    Directory(Dir),
    Name { dir: Dir, name: Vec<u8>, stat: Stat },
}

impl From<(Dir, Vec<u8>, Stat)> for Spot {
    fn from((dir, name, stat): (Dir, Vec<u8>, Stat)) -> Spot {
        Spot::Name { dir, name, stat }
    }
}

impl SurveyPlace {
    /// What stands at the place: a directory (through links), or one name that is none.
    fn find(&self) -> Result<Spot> {
        self.refuse_staging()?;
        let error = match self.open_dir(&self.path) {
            Ok(dir) => return Ok(Spot::Directory(dir)),
            Err(error) => error,
        };
        match self.named()? {
            Some(named) if named.2.kind != Kind::Dir => Ok(Spot::from(named)),
            // There, but closed to us; or without a name of its own.
            _ => Err(self.failed(OPEN, &error)),
        }
    }

    /// What has the last name of the place, a link as such; a place without a name of its own is a directory.
    fn find_name(&self) -> Result<Spot> {
        self.refuse_staging()?;
        match self.named()? {
            Some(named) => Ok(Spot::from(named)),
            None => self.open_dir(&self.path).map(Spot::Directory).map_err(|error| self.failed(OPEN, &error)),
        }
    }

    /// What has the last name of the place; `None` if it has no name of its own.
    fn named(&self) -> Result<Option<(Dir, Vec<u8>, Stat)>> {
        let Some((parent, name)) = self.parent_and_name() else { return Ok(None) };
        let dir = self.open_dir(&parent).map_err(|error| self.failed(OPEN, &error))?;
        let stat = dir.stat(&name).map_err(|error| self.failed(OPEN, &error))?;
        Ok(Some((dir, name, stat)))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        let dir = match &self.below {
            Some(below) => below.open_beneath(path.as_os_str().as_bytes(), Links::Beneath)?,
            None if path.as_os_str().is_empty() => Dir::open(Path::new("."))?,
            None => Dir::open(path)?,
        };
        // A client may have made a link that leads there.
        if is_in_staging(&dir, self.below.as_ref()) { Err(absent()) } else { Ok(dir) }
    }

    fn parent_and_name(&self) -> Option<(PathBuf, Vec<u8>)> {
        let name = self.path.file_name()?.as_bytes().to_vec();
        Some((self.path.parent().map(Path::to_path_buf).unwrap_or_default(), name))
    }

    fn refuse_staging(&self) -> Result<()> {
        let ours = self.path.components().any(|part| is_staging(part.as_os_str().as_bytes()));
        if ours { Err(self.failed(OPEN, &absent())) } else { Ok(()) }
    }

    /// What is there is not to be had in this way.
    fn refused(&self, kind: FailureKind, operation: &str, cause: &str) -> Failure {
        at_words(Failure::new(kind, operation, cause), &self.path)
    }

    /// In an export one sentence for all that a client need not tell apart.
    fn failed(&self, operation: &str, error: &io::Error) -> Failure {
        let is_no_name = matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename);
        let failure = match self.below.is_some() {
            false => failed_at_words(operation, &self.path, error),
            true if is_no_name || leads_nowhere(error) => not_in_export(operation, &self.path),
            true => return crate::failure::of_io(operation, error),
        };
        of_source(failure, &self.path)
    }
}

/// In the kernel's own words.
fn absent() -> io::Error {
    io::Error::from_raw_os_error(errno::NO_ENTRY)
}

/// Opens the regular file at a place, following links of its last component.
fn open_file(place: &SurveyPlace) -> Result<File> {
    let mut path = place.path.clone();
    for _ in 0..FOLLOW_MAX {
        let step = SurveyPlace {
            follow_links: false,
            below: match &place.below {
                Some(below) => Some(below.try_clone().map_err(|error| place.failed(OPEN, &error))?),
                None => None,
            },
            path: path.clone(),
        };
        let (dir, name, stat) = match step.find() {
            Ok(Spot::Name { dir, name, stat }) => (dir, name, stat),
            Ok(Spot::Directory(_)) => {
                return Err(place.refused(FailureKind::Conflict, OPEN, "it is a directory"));
            }
            // By the name that was asked for: where a link leads is not told here.
            Err(failure) if failure.kind == FailureKind::NotFound => {
                return Err(place.failed(OPEN, &absent()));
            }
            Err(failure) => return Err(failure),
        };
        if stat.kind != Kind::Symlink {
            if stat.kind != Kind::File {
                return Err(place.refused(FailureKind::Conflict, OPEN, "it is not a regular file"));
            }
            return dir.open_read(&name).map_err(|error| place.failed(OPEN, &error));
        }
        let target = dir.read_link(&name).map_err(|error| place.failed(OPEN, &error))?;
        let target = PathBuf::from(std::ffi::OsString::from_vec(target));
        let leads_out = target.is_absolute() || target.components().any(|part| part.as_os_str() == "..");
        if place.below.is_some() && leads_out {
            return Err(place.failed(OPEN, &io::ErrorKind::CrossesDevices.into()));
        }
        path = path.parent().map(Path::to_path_buf).unwrap_or_default().join(target);
    }
    Err(place.failed(OPEN, &io::Error::from_raw_os_error(errno::LOOP)))
}

#[cfg(test)]
mod tests;
