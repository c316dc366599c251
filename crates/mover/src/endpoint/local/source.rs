//! A source on local file systems: one or more roots, scanned as one tree and read by descriptor.
//!
//! One moment: an open file is compared with what the scan saw before its first byte is read, and the engine compares
//! again after the last. A change within the same tick of the file system's clock would show in neither, so a file
//! whose ctime is younger than [`clocks::RACY`] is left to age that long before it is read (git calls such files
//! racy), or until its second is over where times are whole seconds (ext3, ext4 with small inodes, sshfs). Where their
//! clock is ahead of ours, what the scan saw tells how far at least, so that all files together wait once or twice.
//! Linux 6.13 stamps more finely when somebody looks; this does not rely on it. What the kernel remembers of a file of
//! another machine does not count: both looks ask who keeps it.
//!
//! A store through a shared mapping changes the ctime only where its page was written back before. So a file that may
//! have such pages is written back before its first byte is read (decision 0015). On tmpfs, which has nothing to write
//! back to, no store through a mapping ever shows.
//!
//! [`clocks`] knows when a file is old enough, [`scan`] finds what there is, and [`follow`](mod@self::follow) where links
//! lead that are followed. [`file`] is one that is open for reading; [`way`] says what of it goes past the page cache,
//! and [`drop_behind`] drops what it brings in there. [`remove`] takes away names that the destination has. What only
//! asks a question reads by [`read_once`].

use self::clocks::{Clocks, Watched};
use self::drop_behind::Brought;
use self::file::LocalFile;
use self::follow::{LeadsIntoStaging, end_of, follow, follow_beneath};
use self::holes::Tellers;
use self::scan::Scan;
use self::way::Grounds;
use super::held::Held;
use super::staging::partial::pays;
use super::{OPEN_SOURCE, evidence_of, failed, failed_at_place, is_in_staging, is_staging, of_source, shown};
use crate::endpoint::{ExtentMap, Removal, ScanSink, Source, SourceFile};
use crate::failure::{Failure, FailureKind, Result};
use crate::filter::Filter;
use crate::order::Placed;
use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_sys::{Dir, Extent, File, FileSystemKind, Kind, Links, Stat};
use thalweg_wire::message::{Direct, PartOf, Preserve, ScanTotals, SourceForm};
use thalweg_wire::{Entry, Evidence, RelativePath};

mod clocks;

pub(super) mod file;

pub(super) mod way;

pub(super) mod drop_behind;

pub(super) mod read_once;

pub(super) mod scan;

pub(super) mod follow;

mod holes;

mod remove;

/// Longer than Linux by default leaves a page dirty: what was changed longer ago costs mostly nothing to write back.
const DIRTY: Duration = Duration::from_secs(60);

/// One place to read from.
pub struct SourceRoot {
    /// The path as the user wrote it; relative to `below` if that is given.
    pub path: PathBuf,
    /// It ended in a slash: what is in it is meant, and it is the root of the transfer itself.
    pub contents: bool,
    /// The export that `path` must not leave.
    pub below: Option<Dir>,
}

/// What of the roots is meant.
pub struct ScanOptions {
    /// Names to leave out.
    pub filter: Filter,
    /// Only these entries, relative to the roots, and the directories above them; everything if empty. The
    /// directories among them are not descended into.
    pub only: Vec<RelativePath>,
    /// What entries are to carry and which kinds are wanted.
    pub preserve: Preserve,
    /// Stay on the file system of each root.
    pub one_file_system: bool,
    /// Move what symbolic links lead to instead of the links. In an export none that leads out of it.
    pub follow_links: bool,
    /// Only this part of what is found, and all directories.
    pub part: Option<PartOf>,
    /// Whether content is read past the page cache.
    pub direct: Direct,
}

/// Local files and directories as a source.
pub struct LocalSource {
    pub(super) roots: Vec<Root>,
    pub(super) options: ScanOptions,
    form: SourceForm,
    held: Held<Dir>,
    clocks: Clocks,
    tellers: Tellers,
    /// A root is on overlayfs, or may be, where only a sync reaches the pages.
    is_layered: bool,
    /// Devices of roots on tmpfs.
    in_memory: Vec<u64>,
    brought: Arc<Brought>,
    /// Bytes of most requests for the content of large files; 0 until somebody tells.
    request_bytes: AtomicU64,
    /// A file was to be read past the page cache and cannot be.
    direct_is_missed: AtomicBool,
    /// Memory of the names of its roots, and of the options.
    held_bytes: usize,
    /// The destination, where it is of this machine.
    to: Option<PathBuf>,
    /// What is copied is removed here.
    pub(super) removes: bool,
    /// See [`LocalSource::keeping`].
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

/// A root, resolved: `name` in `parent`, or a directory that is itself the root of the transfer.
pub(super) struct Root {
    /// Name of the root in entry paths; empty where it is the root of the transfer.
    pub(super) top: Vec<u8>,
    /// The root itself for contents, else the directory it is in.
    pub(super) dir: Arc<Dir>,
    /// Where it stands, as the user wrote it, for links that are followed.
    pub(super) words: PathBuf,
    /// What it was when it was opened; of a link that is followed what that leads to.
    pub(super) stat: Stat,
    /// The export that links which are followed must not leave.
    below: Option<Arc<Dir>>,
    /// The words are of an export.
    pub(super) is_in_export: bool,
}

/// Where an entry is.
pub(super) struct Spot {
    pub(super) dir: Arc<Dir>,
    pub(super) name: Vec<u8>,
}

/// A way to open what has this name in that directory, and what it is.
type Opens = fn(&Dir, &[u8]) -> io::Result<(File, Stat)>;

impl LocalSource {
    /// Opens the roots. Nothing is listed yet.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io` for a root that cannot be had; `Usage` for two that would give the same
    /// name, and for `..` below an export.
    pub fn open(roots: Vec<SourceRoot>, options: ScanOptions) -> Result<LocalSource> {
        let usage = |cause: String| Failure::new(FailureKind::Usage, OPEN_SOURCE, cause);
        if roots.is_empty() {
            return Err(usage("no source is given".to_owned()));
        }
        let mut opened: Vec<Root> = Vec::new();
        let mut shared = Shared::default();
        let mut is_directory = false;
        for root in &roots {
            let root = open_root(root, &options, &mut shared)?;
            is_directory = root.stat.kind == Kind::Dir;
            opened.push(root);
        }
        for (index, root) in opened.iter().enumerate() {
            for other in &opened[..index] {
                let clash = match (root.top.is_empty(), other.top.is_empty()) {
                    (false, false) => root.top == other.top,
                    (false, true) => other.dir.stat(&root.top).is_ok(),
                    (true, false) => root.dir.stat(&other.top).is_ok(),
                    // Names are compared as they are listed.
                    (true, true) => false,
                };
                if clash {
                    let (a, b) = (shown(&other.words), shown(&root.words));
                    return Err(usage(format!(
                        "{a} and {b} would both give the same name at the destination"
                    )));
                }
            }
        }
        let form = match &opened[..] {
            [root] if !is_directory && options.only.is_empty() => {
                SourceForm::Single { name: root.top.clone() }
            }
            _ => SourceForm::Many,
        };
        let direct_is_missed = AtomicBool::new(false);
        let is_on = |root: &Root, kind: FileSystemKind| {
            root.dir.file_system().is_ok_and(|system| system.kind == kind)
        };
        // What links lead to may be on one as well.
        let is_layered =
            options.follow_links || opened.iter().any(|root| is_on(root, FileSystemKind::Overlay));
        let memories = opened.iter().filter(|root| is_on(root, FileSystemKind::Tmpfs));
        let in_memory = memories.filter_map(|root| Some(root.dir.stat_self().ok()?.device)).collect();
        let only_bytes = |path: &RelativePath| size_of::<RelativePath>() + path.as_bytes().len();
        let root_bytes = |root: &Root| size_of::<Root>() + root.words.as_os_str().len() + root.top.len();
        let held_bytes = options.filter.bytes()
            + options.only.iter().map(only_bytes).sum::<usize>()
            + opened.iter().map(root_bytes).sum::<usize>();
        Ok(LocalSource {
            held_bytes,
            roots: opened,
            options,
            form,
            held: Held::new(),
            clocks: Clocks::default(),
            tellers: Tellers::default(),
            is_layered,
            in_memory,
            brought: Brought::of_a_copy(),
            request_bytes: AtomicU64::new(0),
            direct_is_missed,
            to: None,
            removes: false,
            _kept: None,
        })
    }

    /// Keeps this for as long as it holds its roots open.
    #[must_use]
    pub fn keeping(self, kept: impl Any + Send + Sync) -> LocalSource {
        LocalSource { _kept: Some(Box::new(kept)), ..self }
    }

    /// Has links that lead into this directory, once it is there, refused by name: what is copied would be found
    /// and copied again.
    pub fn stay_out_of(&mut self, to: &Path) {
        self.to = Some(to.to_path_buf());
    }

    /// Has the scan pass by what an NFS client keeps of removed files, and refuse by name what is the destination
    /// ([`LocalSource::stay_out_of`]) also where no link leads there: what is copied is removed.
    pub fn expect_removal(&mut self) {
        self.removes = true;
    }

    /// The directory that nothing is to lead into.
    pub(super) fn stays_out_of(&self) -> Option<Stat> {
        let to = self.to.as_ref().filter(|_| self.options.follow_links || self.removes)?;
        Dir::open(to).and_then(|dir| dir.stat_self()).ok()
    }

    /// What names at the destination depend on.
    pub fn form(&self) -> SourceForm {
        self.form.clone()
    }

    /// Where `path` is, or what it leads to: the directory that is in, held, and its name there.
    pub(super) fn spot(&self, path: &RelativePath) -> io::Result<Spot> {
        self.followed(path, self.unfollowed(path)?)
    }

    /// Where `path` itself is; directories above it may be behind links.
    pub(super) fn unfollowed(&self, path: &RelativePath) -> io::Result<Spot> {
        let (parent, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        let root = self.root_of(path).ok_or(io::ErrorKind::NotFound)?;
        let dir = match parent {
            [] => root.dir.clone(),
            _ => self.held.get_or(parent, || self.open_dir(root, parent))?,
        };
        Ok(Spot { dir, name: name.to_vec() })
    }

    /// Opens the directory at `path` of a root; of a deep path from the nearest directory held above it.
    pub(super) fn open_dir(&self, root: &Root, path: &[u8]) -> io::Result<Dir> {
        if self.options.follow_links {
            let dir = root.open_words(&root.words_of(path))?;
            let is_staging = is_in_staging(&dir, root.below.as_deref());
            return if is_staging { Err(LeadsIntoStaging.into()) } else { Ok(dir) };
        }
        if let Some(slash) = path.iter().rposition(|&byte| byte == b'/')
            && let Some(above) = self.held.get(&path[..slash])
        {
            return above.open_beneath(&path[slash + 1..], Links::Refuse);
        }
        root.dir.open_beneath(path, Links::Refuse)
    }

    /// Does something that needs a descriptor, with fewer directories held if there is none left.
    pub(super) fn with_descriptors<T>(&self, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.held.with_descriptors(act)
    }

    /// The root that an entry is from.
    pub(super) fn root_of(&self, path: &RelativePath) -> Option<&Root> {
        let top = path.as_bytes().split(|&byte| byte == b'/').next()?;
        let mut contents = self.roots.iter().filter(|root| root.top.is_empty());
        if let Some(root) = self.roots.iter().find(|root| !root.top.is_empty() && root.top == top) {
            return Some(root);
        }
        if contents.clone().count() > 1 {
            return contents.find(|root| root.dir.stat(top).is_ok());
        }
        contents.next()
    }

    /// Where a link is to be followed: the end of the chain.
    fn followed(&self, path: &RelativePath, spot: Spot) -> io::Result<Spot> {
        if !self.options.follow_links || spot.dir.stat(&spot.name)?.kind != Kind::Symlink {
            return Ok(spot);
        }
        let root = self.root_of(path).ok_or(io::ErrorKind::NotFound)?;
        end_of(&root.words_of(path.as_bytes()), spot, root.below.as_deref())
    }

    /// Whether there is nothing but the page cache to read an entry from.
    fn is_in_memory(&self, entry: &Entry) -> bool {
        let root = self.root_of(&entry.path);
        root.is_some_and(|root| {
            root.dir.file_system().is_ok_and(|system| system.kind == FileSystemKind::Tmpfs)
        })
    }

    /// The file of an entry, by `open`, as the scan saw it.
    fn open_now(&self, entry: &Entry, open: Opens) -> Result<File> {
        let spot = self.spot(&entry.path).map_err(|error| failed("open", &entry.path, &error))?;
        let opened = self.with_descriptors(|| open(&spot.dir, &spot.name));
        let (file, stat) = opened.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => changed(entry, "it is not a regular file any more"),
            _ => failed("open", &entry.path, &error),
        })?;
        let mut seen = evidence_of(&stat);
        if let Some(rest) = self.clocks.racy(&seen, SystemTime::now(), Instant::now()) {
            std::thread::sleep(rest);
            seen = look(&file, entry)?;
        }
        if seen != entry.evidence {
            return Err(changed(entry, "it is not what the scan saw"));
        }
        self.protect(&file, &seen, SystemTime::now());
        Ok(file)
    }

    /// Has every store through a mapping from now on change the file's ctime, which is compared after the last byte.
    ///
    /// Only who has a file open for writing can have it mapped so; to ask for that costs less than to write back one
    /// that was changed just now, and more than to find that an old one has nothing to write back.
    fn protect(&self, file: &File, seen: &Evidence, wall: SystemTime) {
        if self.in_memory.contains(&seen.device) {
            return;
        }
        let asks = self.is_layered || !is_settled(seen, wall);
        let has_writers = if asks { file.has_writers() } else { Ok(true) };
        let done = match Protection::choose(&has_writers, self.is_layered) {
            Protection::Needless => return,
            Protection::WriteBack => file.write_back(),
            Protection::Sync => file.sync_data(),
        };
        // An error of an earlier write ends the first attempt before it begins, and is told once. Pages that cannot be
        // written are protected all the same; their content is what is read.
        if done.is_err() {
            let _ = file.write_back();
        }
    }
}

impl Source for LocalSource {
    fn device(&self) -> Option<u64> {
        let device = |root: &Root| Some(root.dir.stat_self().ok()?.device);
        let first = self.roots.first().and_then(device)?;
        self.roots.iter().all(|root| device(root) == Some(first)).then_some(first)
    }

    fn scan(&self, sink: &mut dyn ScanSink) -> ScanTotals {
        Scan::new(self, &mut Watched::new(&self.clocks, sink)).run()
    }

    /// Waits up to [`clocks::RACY`] for a file that was changed just now; where times are whole seconds, a second or
    /// two more.
    fn open(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let again = || {
            let spot = self.spot(&entry.path)?;
            self.with_descriptors(|| spot.dir.open_read(&spot.name))
        };
        let does_pay = || {
            let system = self.spot(&entry.path).and_then(|spot| spot.dir.file_system());
            system.is_ok_and(|system| pays(system.kind))
        };
        let file = self.open_now(entry, Dir::open_looked)?;
        let grounds = Grounds {
            asked: self.options.direct,
            bytes: entry.evidence.size,
            request_bytes: self.request_bytes.load(Ordering::Relaxed),
        };
        let file = LocalFile::new(file, grounds, &self.brought, does_pay, again);
        if self.options.direct == Direct::On && (!file.has_direct() || self.is_in_memory(entry)) {
            self.direct_is_missed.store(true, Ordering::Relaxed);
        }
        Ok(Arc::new(file))
    }

    fn expect_requests(&self, bytes: u64) {
        self.request_bytes.store(bytes, Ordering::Relaxed);
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn direct_is_missed(&self) -> bool {
        self.direct_is_missed.load(Ordering::Relaxed)
    }

    /// A hard link is looked at where it cannot be made: as what it is by itself.
    fn look_again(&self, entry: &Entry) -> Result<Entry> {
        if entry.path.is_root() {
            return Ok(entry.clone());
        }
        let of_io = |error: io::Error| failed("read metadata", &entry.path, &error);
        let spot = self.spot(&entry.path).map_err(of_io)?;
        let stat = spot.dir.stat_now(&spot.name).map_err(of_io)?;
        let mut now = self.entry_of(&spot.dir, &spot.name, entry.path.clone(), &stat)?;
        now.id = entry.id;
        Ok(now)
    }

    fn remove(&self, path: &RelativePath, seen: &Evidence, is_end: bool) -> Result<Removal> {
        self.remove_name(path, seen, is_end)
    }

    /// By FIEMAP: within a file all lies on one device, its file system, whatever that is made of.
    fn layout(&self, entry: &Entry) -> Result<ExtentMap> {
        /// 32 bytes each, and as much again below.
        const EXTENTS_MAX: usize = 1 << 18;
        let spot = self.spot(&entry.path).map_err(|error| failed("open", &entry.path, &error))?;
        let extents = self
            .with_descriptors(|| spot.dir.open_read(&spot.name))
            .and_then(|file| thalweg_sys::extents(&file, EXTENTS_MAX + 1))
            .map_err(|error| failed("look up the layout", &entry.path, &error))?;
        if extents.len() > EXTENTS_MAX {
            let cause = format!("the file has more than {EXTENTS_MAX} pieces");
            return Err(Failure::new(FailureKind::Unsupported, "look up the layout", cause).at(&entry.path));
        }
        let places = places_of(&extents, entry.evidence.size);
        if places.placed.is_empty() && places.unplaced_bytes > 0 {
            let cause = "the file system has not decided yet where it lies: it was written a moment ago";
            return Err(Failure::new(FailureKind::Unsupported, "look up the layout", cause).at(&entry.path));
        }
        Ok(places)
    }

    fn disks(&self, entry: &Entry) -> Option<Vec<String>> {
        let spot = self.spot(&entry.path).ok()?;
        let file = self.with_descriptors(|| spot.dir.open_read(&spot.name)).ok()?;
        thalweg_sys::disks::of(&file)
    }

    fn read_small(&self, entry: &Entry, buffer: &mut [u8]) -> Result<usize> {
        let file = self.open_now(entry, Dir::open_once)?;
        // Small enough to be read the ordinary way, whatever was asked for.
        let asked = if self.options.direct == Direct::Off { Direct::Off } else { Direct::Auto };
        let grounds = Grounds { asked, bytes: entry.evidence.size, request_bytes: 0 };
        let again = || Err(io::ErrorKind::Unsupported.into());
        let file = LocalFile::new(file, grounds, &self.brought, || false, again);
        crate::endpoint::read_whole(&file, entry, buffer)
    }
}

/// The extents of a file of so many bytes as places on one device.
fn places_of(extents: &[Extent], bytes: u64) -> ExtentMap {
    let mut places = ExtentMap::default();
    for extent in extents {
        if extent.inline || extent.unplaced {
            // The last one may reach past the end.
            let end = extent.logical.saturating_add(extent.length).min(bytes);
            let unplaced_bytes = end.saturating_sub(extent.logical);
            places.unplaced_bytes = places.unplaced_bytes.saturating_add(unplaced_bytes);
            continue;
        }
        places.placed.push(Placed {
            logical: extent.logical,
            length: extent.length,
            device: 0,
            physical: extent.physical,
        });
    }
    places
}

/// What write-protects the pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// Nobody can store into them.
    Needless,
    WriteBack,
    Sync,
}

impl Protection {
    /// Where writers cannot be asked for, as with files of others, there may be some.
    fn choose(has_writers: &io::Result<bool>, is_layered: bool) -> Protection {
        match has_writers {
            Ok(false) => Protection::Needless,
            // To write back does nothing there.
            _ if is_layered => Protection::Sync,
            _ => Protection::WriteBack,
        }
    }
}

/// Whether what was changed last is most likely written back by now.
fn is_settled(seen: &Evidence, wall: SystemTime) -> bool {
    let ctime = u64::try_from(seen.ctime.seconds).unwrap_or(0);
    let now = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now > ctime.saturating_add(DIRTY.as_secs())
}

fn look(file: &File, entry: &Entry) -> Result<Evidence> {
    Ok(evidence_of(&file.stat_now().map_err(|error| failed("read metadata", &entry.path, &error))?))
}

fn changed(entry: &Entry, cause: &str) -> Failure {
    Failure::new(FailureKind::Changed, "open", cause).at(&entry.path)
}

impl Root {
    /// Opens a directory by words, links followed: in an export those that do not leave it.
    fn open_words(&self, words: &Path) -> io::Result<Dir> {
        match &self.below {
            Some(export) => export.open_beneath(relative(words), Links::Beneath),
            None if words.as_os_str().is_empty() => Dir::open(Path::new(".")),
            None => Dir::open(words),
        }
    }

    /// The words that lead to `path` of this root.
    pub(super) fn words_of(&self, path: &[u8]) -> PathBuf {
        let below = match path.strip_prefix(&self.top[..]) {
            Some(below) if !self.top.is_empty() => below.strip_prefix(b"/").unwrap_or(below),
            _ => path,
        };
        // For a named root the words name it; its parent is wanted where the path is empty.
        let base =
            if !self.top.is_empty() && path.is_empty() { parent_of(&self.words) } else { self.words.clone() };
        if below.is_empty() { base } else { base.join(std::ffi::OsStr::from_bytes(below)) }
    }
}

pub(super) fn parent_of(words: &Path) -> PathBuf {
    match words.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Directories of roots that are open: one descriptor for each, however many roots are in it.
#[derive(Default)]
struct Shared(HashMap<(u64, u64), Arc<Dir>>);

impl Shared {
    fn one(&mut self, dir: Dir) -> Arc<Dir> {
        let Ok(stat) = dir.stat_self() else { return Arc::new(dir) };
        self.0.entry((stat.device, stat.inode)).or_insert_with(|| Arc::new(dir)).clone()
    }
}

fn open_root(root: &SourceRoot, options: &ScanOptions, shared: &mut Shared) -> Result<Root> {
    let of_io = |error: io::Error| {
        of_source(failed_at_place(OPEN_SOURCE, &root.path, root.below.is_some(), &error), &root.path)
    };
    let name = root.path.file_name().map(|name| name.as_bytes().to_vec());
    // `.`, `..` and `/` have no name of their own to give.
    let ends_in_dot = root.path.as_os_str().as_bytes().ends_with(b"/.") || name.is_none();
    let open = |path: &Path| match &root.below {
        Some(below) => below.open_beneath(relative(path), Links::Beneath),
        None if path.as_os_str().is_empty() => Dir::open(Path::new(".")),
        None => Dir::open(path),
    };
    // Later only links that are followed are looked up below it.
    let below = |shared: &mut Shared| {
        let export = root.below.as_ref().filter(|_| options.follow_links);
        let export = export.map(Dir::try_clone).transpose().map_err(of_io)?;
        Ok::<_, Failure>(export.map(|export| shared.one(export)))
    };
    let words = || root.path.clone();
    let is_in_export = root.below.is_some();
    let as_contents = |shared: &mut Shared| -> Result<Root> {
        let dir = open(&root.path).map_err(of_io)?;
        not_staging(&dir, root)?;
        let stat = dir.stat_self().map_err(of_io)?;
        let top = Vec::new();
        let (dir, below) = (shared.one(dir), below(shared)?);
        Ok(Root { top, dir, words: words(), stat, below, is_in_export })
    };
    let Some(name) = name.filter(|_| !root.contents && !ends_in_dot) else {
        return as_contents(shared);
    };
    let parent = open(root.path.parent().unwrap_or(Path::new(""))).map_err(of_io)?;
    not_staging(&parent, root)?;
    if is_staging(&name) {
        return Err(in_staging(&root.path));
    }
    let mut stat = parent.stat(&name).map_err(of_io)?;
    if options.follow_links && stat.kind == Kind::Symlink {
        stat = match open(&root.path) {
            Ok(dir) => {
                not_staging(&dir, root)?;
                dir.stat_self().map_err(of_io)?
            }
            Err(_) => {
                let spot = Spot { dir: Arc::new(parent.try_clone().map_err(of_io)?), name: name.clone() };
                let end = match &root.below {
                    Some(export) => follow_beneath(export, relative(&root.path)),
                    None => follow(parent_of(&root.path), spot),
                };
                let end = end.map_err(of_io)?;
                not_staging(&end.dir, root)?;
                end.dir.stat(&end.name).map_err(of_io)?
            }
        };
    }
    if stat.kind == Kind::Dir && !options.only.is_empty() {
        return as_contents(shared);
    }
    let (dir, below) = (shared.one(parent), below(shared)?);
    Ok(Root { top: name, dir, words: words(), stat, below, is_in_export })
}

/// What is unfinished is nobody's source, whatever links lead to it.
fn not_staging(dir: &Dir, root: &SourceRoot) -> Result<()> {
    if is_in_staging(dir, root.below.as_ref()) { Err(in_staging(&root.path)) } else { Ok(()) }
}

fn in_staging(words: &Path) -> Failure {
    let cause = format!("{} is where thalweg keeps what is unfinished", shown(words));
    Failure::new(FailureKind::NotFound, OPEN_SOURCE, cause)
}

/// A path below an export: a leading slash means the export.
fn relative(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    let start = bytes.iter().take_while(|&&byte| byte == b'/').count();
    &bytes[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever names one directory a thousand times would have as many descriptors held.
    #[test]
    fn roots_of_one_directory_share_its_descriptor() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(scratch.path().join(name), "content").unwrap();
        }
        std::fs::create_dir(scratch.path().join("sub")).unwrap();
        std::fs::write(scratch.path().join("sub/d"), "content").unwrap();
        for follow_links in [false, true] {
            let options = ScanOptions {
                filter: Filter::default(),
                only: Vec::new(),
                preserve: Preserve::ALL,
                one_file_system: false,
                follow_links,
                part: None,
                direct: Direct::Auto,
            };
            let below = || Some(Dir::open(scratch.path()).unwrap());
            let root = |path: &str| SourceRoot { path: path.into(), contents: false, below: below() };
            let source = LocalSource::open(["a", "b", "c", "sub/d"].map(root).into(), options).unwrap();
            let [a, b, c, d] = &source.roots[..] else { panic!("four roots") };
            assert!(
                Arc::ptr_eq(&a.dir, &b.dir) && Arc::ptr_eq(&a.dir, &c.dir) && !Arc::ptr_eq(&a.dir, &d.dir)
            );
            let exports: Vec<_> = source.roots.iter().filter_map(|root| root.below.as_ref()).collect();
            assert_eq!(exports.len(), if follow_links { 4 } else { 0 });
            assert!(exports.iter().all(|export| Arc::ptr_eq(export, &a.dir)));
        }
    }

    #[test]
    fn of_a_file_that_lies_nowhere_in_part_the_rest_has_its_places() {
        let extent = |logical: u64, length: u64, unplaced: bool| Extent {
            logical,
            physical: logical + 4096,
            length,
            unwritten: false,
            inline: false,
            encoded: false,
            unplaced,
            shared: false,
            last: false,
        };
        // Two runs with a hole between them, and what was appended a moment ago.
        let places = places_of(&[extent(0, 100, false), extent(300, 50, false), extent(350, 64, true)], 400);
        let placed: Vec<_> =
            places.placed.iter().map(|run| (run.logical, run.physical, run.length)).collect();
        assert_eq!(placed, [(0, 4096, 100), (300, 4396, 50)]);
        // The last one reaches past the end.
        assert_eq!(places.unplaced_bytes, 50);
        let inline = Extent { inline: true, ..extent(0, 10, false) };
        assert_eq!(places_of(&[inline], 10), ExtentMap { placed: Vec::new(), unplaced_bytes: 10 });
        assert_eq!(places_of(&[], 10), ExtentMap::default(), "holes need no place");
    }

    #[test]
    fn on_overlayfs_a_file_whose_writers_cannot_be_asked_for_is_synced() {
        let denied = || -> io::Result<bool> { Err(io::ErrorKind::PermissionDenied.into()) };
        assert_eq!(Protection::choose(&denied(), true), Protection::Sync);
        assert_eq!(Protection::choose(&denied(), false), Protection::WriteBack);
        assert_eq!(Protection::choose(&Ok(true), true), Protection::Sync);
        assert_eq!(Protection::choose(&Ok(true), false), Protection::WriteBack);
        for is_layered in [false, true] {
            assert_eq!(Protection::choose(&Ok(false), is_layered), Protection::Needless);
        }
    }

    #[test]
    fn what_was_changed_just_now_or_by_a_clock_ahead_is_not_settled() {
        const NOW: u64 = 1_700_000_000;
        let settled = |ctime: u64| {
            let ctime = thalweg_wire::Time { seconds: ctime as i64, nanos: 0 };
            let seen = Evidence { ctime, ..Evidence::default() };
            is_settled(&seen, UNIX_EPOCH + Duration::from_secs(NOW))
        };
        assert!(settled(0));
        assert!(settled(NOW - DIRTY.as_secs() - 1));
        assert!(!settled(NOW - DIRTY.as_secs()));
        assert!(!settled(NOW));
        assert!(!settled(NOW + 3600));
    }
}
