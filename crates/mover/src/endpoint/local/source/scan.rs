//! The scan: every name below the roots is offered, left out with a reason, or reported as trouble.
//!
//! Nothing is opened but directories, and where holes are told files that may have some ([`super::holes`]); FIFOs and
//! devices are only looked at. Links are not followed unless asked; then a directory that is on the way already, or
//! that is copied into, is trouble and not gone into.

use super::follow::{LEADS_ABOVE, leads_into_staging, not_followed};
use super::holes::Holes;
use super::{LocalSource, Root};
use crate::endpoint::ScanSink;
use crate::endpoint::acl::{ACL, mode_without};
use crate::endpoint::local::metadata::stays_where_it_is;
use crate::endpoint::local::overlap::is_at_or_below;
use crate::endpoint::local::walk::{Reopen, Step, Walk};
use crate::endpoint::local::{FOLLOW_LINKS, evidence_of, failed, is_staging};
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::filter::EXCLUDED_BY;
use crate::part;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, Kind, Links, Stat};
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::{PartOf, Preserve, ScanTotals};
use thalweg_wire::{Entry, EntryId, RelativePath};

/// Memory for files with several names whose other names were not seen yet. Beyond it first names are forgotten
/// and later names of theirs are moved as files of their own; nothing is lost but the link.
pub const LINK_BYTES_MAX: usize = 32 << 20;

pub(super) struct Scan<'a> {
    source: &'a LocalSource,
    sink: &'a mut dyn ScanSink,
    totals: ScanTotals,
    links: OpenLinks,
    stopped: bool,
    /// Some name was found below the root that is looked at.
    has_names: bool,
    root_offered: bool,
    /// Where links are followed: device and inode of the directories on the way to what is looked at.
    above: Vec<(u64, u64)>,
    /// The directory that nothing is to lead into.
    stays_out_of: Option<Stat>,
}

/// How a name came to be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundBy {
    /// Whoever asked for the copy named it: without it the copy is not whole.
    Name,
    /// A name that was asked for is below it: no rule leaves such a directory out, or the name would have no place.
    Way,
    /// It is in a directory that is copied.
    Tree,
}

/// What to do with a name after it was looked at.
enum Next {
    Descend(Arc<Dir>),
    Go,
}

impl<'a> Scan<'a> {
    pub(super) fn new(source: &'a LocalSource, sink: &'a mut dyn ScanSink) -> Self {
        let totals = ScanTotals { complete: true, ..ScanTotals::default() };
        // A link that is followed is one name more of a file than the file system counts.
        let links = OpenLinks { keeps_all: source.options.follow_links, ..OpenLinks::default() };
        let stays_out_of = source.stays_out_of();
        let above = Vec::new();
        Scan {
            source,
            sink,
            totals,
            links,
            stopped: false,
            has_names: false,
            root_offered: false,
            above,
            stays_out_of,
        }
    }

    pub(super) fn run(mut self) -> ScanTotals {
        let source = self.source;
        // What is not named was not looked for, and the other parts are not told: nobody may conclude that it is gone.
        let is_partial = !source.options.only.is_empty() || source.options.part.is_some();
        self.totals.complete &= !is_partial;
        if !source.options.only.is_empty() {
            self.only();
            return self.totals;
        }
        for (index, root) in source.roots.iter().enumerate() {
            if self.stopped {
                break;
            }
            self.root(root, index);
        }
        if self.stopped {
            self.totals.complete = false;
        }
        self.totals
    }

    fn root(&mut self, root: &Root, index: usize) {
        let mut device = None;
        let source = self.source;
        let prefix = root.top.clone();
        let reopen: Reopen<'a> =
            Box::new(move |path: &[u8]| source.open_dir(root_at(source, index), &joined(&prefix, path)));
        let mut walk = Walk::new(reopen);
        let dir = if root.top.is_empty() {
            self.offer_transfer_root(&root.dir);
            Some(root.dir.clone())
        } else {
            let path = RelativePath::root().join(&root.top).unwrap_or_default();
            self.above.clear();
            match self.name(&root.dir, &root.top, Kind::Unknown, path, &mut device, FoundBy::Name) {
                Next::Descend(dir) => Some(dir),
                Next::Go => None,
            }
        };
        let Some(dir) = dir else { return };
        let path = RelativePath::new(root.top.clone()).unwrap_or_default();
        match dir.stat_self() {
            Ok(stat) => device = Some(stat.device),
            Err(error) => return self.trouble(path, failed("read metadata", &RelativePath::root(), &error)),
        }
        if let Err(error) = walk.enter(b"", dir) {
            let failure = failed("list", &path, &error);
            return self.trouble(path, failure);
        }
        self.has_names = false;
        self.walk(root, index, &mut walk, &mut device);
        self.totals.empty += u64::from(!self.has_names && !self.stopped);
    }

    fn walk(&mut self, root: &Root, index: usize, walk: &mut Walk<'a>, device: &mut Option<u64>) {
        let source = self.source;
        while !self.stopped {
            let (name, kind) = match walk.next() {
                Step::End => return,
                Step::Left(_) => continue,
                Step::Trouble(error) => {
                    let path = self.shown(root, walk.path());
                    let failure = failed("list", &path, &error);
                    self.trouble(path, failure);
                    continue;
                }
                Step::Name(name, kind) => (name, kind),
            };
            self.has_names = true;
            let path = match RelativePath::new(joined(&root.top, &walk.path_of(&name))) {
                Ok(path) => path,
                Err(error) => {
                    let path = self.shown(root, walk.path());
                    let failure = Failure::new(FailureKind::Unsupported, "scan", error).at(&path);
                    self.trouble(path, failure);
                    continue;
                }
            };
            let dir = match walk.dir() {
                Ok(dir) => dir,
                Err(error) => {
                    // Once said for the directory, its other names need not be said.
                    let path = self.shown(root, walk.path());
                    let failure = failed("open", &path, &error);
                    self.trouble(path, failure);
                    walk.abandon();
                    continue;
                }
            };
            if walk.depth() == 1 && self.is_taken(&name, index) {
                let cause = "two sources have an entry of this name; only the first is moved";
                let failure = Failure::new(FailureKind::Conflict, "scan", cause).at(&path);
                self.trouble(path, failure);
                continue;
            }
            if source.options.follow_links && kind != Kind::File {
                self.above.clear();
                self.above.extend(walk.identities());
            }
            if let Next::Descend(child) = self.name(&dir, &name, kind, path.clone(), device, FoundBy::Tree)
                && let Err(error) = source.with_descriptors(|| walk.enter(&name, child.clone()))
            {
                let failure = failed("list", &path, &error);
                self.trouble(path, failure);
            }
        }
    }

    /// The entry for the root of the transfer itself.
    fn offer_transfer_root(&mut self, dir: &Dir) {
        if std::mem::replace(&mut self.root_offered, true) {
            return;
        }
        let path = RelativePath::root();
        match entry_of_root(dir, &self.source.options.preserve) {
            Ok(entry) => {
                self.offer(entry);
            }
            Err(error) => self.trouble(path, failed("read metadata", &RelativePath::root(), &error)),
        }
    }

    /// Looks at one name and offers it or says why not.
    fn name(
        &mut self,
        dir: &Arc<Dir>,
        name: &[u8],
        kind: Kind,
        path: RelativePath,
        device: &mut Option<u64>,
        found_by: FoundBy,
    ) -> Next {
        let source = self.source;
        let options = &source.options;
        if is_staging(name) {
            self.sink.skipped(path, "thalweg's own staging directory");
            return Next::Go;
        }
        if source.removes && is_kept_by_nfs(name) {
            self.sink.skipped(path, "an NFS client's name for what was removed while it was open");
            return Next::Go;
        }
        let Some((end, stat)) = self.look_if_included(dir, name, kind, &path, found_by) else {
            return Next::Go;
        };
        if stat.kind == Kind::Dir
            && let Some(cause) = self.no_end(&path, &stat, &end)
        {
            let (operation, reason) = match options.follow_links {
                true => (FOLLOW_LINKS, Reason::NotFollowed),
                false => ("scan", Reason::Other),
            };
            let failure = Failure::new(FailureKind::Unsupported, operation, cause).at(&path);
            self.trouble(path, failure.because(reason));
            return Next::Go;
        }
        let (dir, name) = match &end {
            End::Here => (&**dir, name),
            End::Elsewhere(dir, name) => (&**dir, &name[..]),
            End::Directory(child) => {
                let child = child.clone();
                return self.directory(child, None, path, &stat, *device);
            }
        };
        // The others are another host's to tell.
        if options.part.is_some_and(|part| !is_of_part(part, &path, &stat)) {
            return Next::Go;
        }
        if let Some((what, reason)) = unwanted(stat.kind, &options.preserve) {
            // Links are left out only where that was asked for.
            match found_by != FoundBy::Tree && stat.kind != Kind::Symlink {
                true => {
                    let failure = Failure::new(FailureKind::Unsupported, "copy", format!("it is {what}"));
                    self.trouble(path.clone(), failure.at(&path).because(reason));
                }
                false => self.sink.skipped(path, &what),
            }
            return Next::Go;
        }
        if stat.kind == Kind::Dir {
            let child = match source.with_descriptors(|| dir.open_beneath(name, Links::Refuse)) {
                Ok(child) => Arc::new(child),
                Err(error) => {
                    let failure = failed("open", &path, &error);
                    self.totals.complete = false;
                    let entry = source.entry_of(dir, name, path.clone(), &stat);
                    self.offer_or_trouble(entry, &path);
                    self.trouble(path, failure);
                    return Next::Go;
                }
            };
            return self.directory(child, Some((dir, name)), path, &stat, *device);
        }
        match source.entry_of(dir, name, path.clone(), &stat) {
            Ok(entry) => self.offer_file(entry, &stat),
            Err(failure) => self.trouble(path, failure),
        }
        Next::Go
    }

    /// Why a directory is not gone into because links led to it, or it is the destination, if it is not: there would be
    /// no end of it.
    fn no_end(&self, path: &RelativePath, stat: &Stat, end: &End) -> Option<&'static str> {
        if self.above.contains(&(stat.device, stat.inode)) {
            return Some(LEADS_ABOVE);
        }
        let to = self.stays_out_of.as_ref()?;
        // What is in a directory is looked at in its turn.
        let is_in = |root: &Root| is_at_or_below(&root.words_of(path.as_bytes()), to);
        let is_link = !matches!(end, End::Here);
        let is_copy = stat.is_same_entry(to) || (is_link && self.source.root_of(path).is_some_and(is_in));
        let cause = match is_link {
            true => "it leads to the destination, which would be copied into itself",
            false => "it is the destination, which would be copied into itself",
        };
        is_copy.then_some(cause)
    }

    /// As [`look`](Self::look), of a name that the filter lets through; says of others that they are left out.
    fn look_if_included(
        &mut self,
        dir: &Arc<Dir>,
        name: &[u8],
        kind: Kind,
        path: &RelativePath,
        found_by: FoundBy,
    ) -> Option<(End, Stat)> {
        let source = self.source;
        let options = &source.options;
        let stays = |is_dir| is_dir && found_by == FoundBy::Way;
        let unclear = kind == Kind::Unknown || (options.follow_links && kind == Kind::Symlink);
        let is_included = |is_dir| stays(is_dir) || options.filter.decide(path, is_dir).included;
        // Where the listing tells the kind, or no rule asks for it, an excluded name costs no look: a link that
        // leads nowhere can be left out.
        let matters = unclear && is_included(true) != is_included(false);
        let looked = match matters || options.filter.is_empty() {
            true => Some(self.look(dir, name, path)?),
            false => None,
        };
        let kind = looked.as_ref().map_or(kind, |(_, stat)| stat.kind);
        let verdict = options.filter.decide(path, kind == Kind::Dir);
        if !verdict.included && !stays(kind == Kind::Dir) {
            let pattern = verdict.rule.map(|rule| options.filter.pattern(rule)).unwrap_or_default();
            self.sink.skipped(path.clone(), &format!("{EXCLUDED_BY} `{pattern}`"));
            return None;
        }
        looked.or_else(|| self.look(dir, name, path))
    }

    /// Offers a directory and says whether to go down. `at`: where to read its attributes if not from itself.
    fn directory(
        &mut self,
        child: Arc<Dir>,
        at: Option<(&Dir, &[u8])>,
        path: RelativePath,
        stat: &Stat,
        device: Option<u64>,
    ) -> Next {
        let preserve = &self.source.options.preserve;
        let entry = match at {
            Some((dir, name)) => self.source.entry_of(dir, name, path.clone(), stat),
            None => entry_of_root(&child, preserve)
                .map(|entry| Entry { path: path.clone(), ..entry })
                .map_err(|error| failed("read metadata", &path, &error)),
        };
        self.offer_or_trouble(entry, &path);
        if self.source.options.one_file_system && device.is_some_and(|device| device != stat.device) {
            // Like an excluded name: what the destination has in it stays.
            self.sink.skipped(path, "what is in it is on another file system");
            return Next::Go;
        }
        if self.stopped { Next::Go } else { Next::Descend(child) }
    }

    /// A name as it is, or where following leads; says itself what goes wrong.
    fn look(&mut self, dir: &Arc<Dir>, name: &[u8], path: &RelativePath) -> Option<(End, Stat)> {
        let looked = dir.stat(name).and_then(|stat| {
            if stat.kind != Kind::Symlink || !self.source.options.follow_links {
                return Ok((End::Here, stat));
            }
            let root = self.source.root_of(path).ok_or(io::ErrorKind::NotFound)?;
            if let Ok(child) = self.source.open_dir(root, path.as_bytes()) {
                let stat = child.stat_self()?;
                return Ok((End::Directory(Arc::new(child)), stat));
            }
            let spot = self.source.spot(path)?;
            let stat = spot.dir.stat(&spot.name)?;
            Ok((End::Elsewhere(spot.dir, spot.name), stat))
        });
        match looked {
            Ok(found) => Some(found),
            Err(error) => {
                let is_gone = error.kind() == io::ErrorKind::NotFound && dir.stat(name).is_err();
                let gone = is_gone.then_some("it was removed while the source was scanned");
                match leads_into_staging(&error).or(gone) {
                    Some(reason) => self.sink.skipped(path.clone(), reason),
                    None => self.trouble(path.clone(), unseen(self.source, dir, name, path, &error)),
                }
                None
            }
        }
    }

    fn offer_file(&mut self, mut entry: Entry, stat: &Stat) {
        let may_be_linked = stat.links > 1;
        if may_be_linked && let Some((first, of)) = self.links.take_one(stat) {
            entry.kind = thalweg_wire::Kind::HardLink { first, of };
            self.offer(entry);
            return;
        }
        let path = may_be_linked.then(|| entry.path.clone());
        if let (Some(id), Some(path)) = (self.offer(entry), path) {
            self.links.open(stat, path, id);
        }
    }

    fn offer(&mut self, entry: Entry) -> Option<EntryId> {
        let bytes = entry.content_bytes();
        let id = self.sink.entry(entry);
        match id {
            Some(_) => {
                self.totals.entries += 1;
                self.totals.bytes += bytes;
            }
            None => self.stopped = true,
        }
        id
    }

    fn offer_or_trouble(&mut self, entry: Result<Entry>, path: &RelativePath) {
        match entry {
            Ok(entry) => {
                self.offer(entry);
            }
            Err(failure) => self.trouble(path.clone(), failure),
        }
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        self.totals.failed += 1;
        self.totals.complete = false;
        self.sink.trouble(path, failure);
    }

    fn shown(&self, root: &Root, path: &[u8]) -> RelativePath {
        RelativePath::new(joined(&root.top, path)).unwrap_or_default()
    }

    /// Whether an earlier root that is merged into the transfer's root has this name already.
    fn is_taken(&self, name: &[u8], index: usize) -> bool {
        let roots = &self.source.roots;
        roots[index].top.is_empty()
            && roots[..index].iter().any(|root| root.top.is_empty() && root.dir.stat(name).is_ok())
    }

    /// `--files-from`: each name with the directories above it, in the order given, once.
    fn only(&mut self) {
        let source = self.source;
        let names = &source.options.only;
        let on_the_way: HashSet<&[u8]> = names.iter().flat_map(RelativePath::directories_above).collect();
        let mut done: HashSet<&[u8]> = HashSet::new();
        if let Some(root) = source.roots.iter().find(|root| root.top.is_empty()) {
            self.offer_transfer_root(&root.dir);
        }
        for name in names {
            for bytes in name.directories_above().chain([name.as_bytes()]) {
                if self.stopped || bytes.is_empty() || !done.insert(bytes) {
                    continue;
                }
                let Ok(path) = RelativePath::new(bytes.to_vec()) else { continue };
                let found_by = if on_the_way.contains(bytes) { FoundBy::Way } else { FoundBy::Name };
                let spot = source.spot(&path).or_else(|error| match error.kind() {
                    // It leads to a directory without a name in its words, as `..`: followed when it is looked at.
                    io::ErrorKind::IsADirectory => source.unfollowed(&path),
                    _ => Err(error),
                });
                match spot.and_then(|spot| spot.dir.stat(&spot.name).map(|_| spot)) {
                    Ok(spot) => {
                        self.name(&spot.dir, &spot.name, Kind::Unknown, path, &mut None, found_by);
                    }
                    Err(error) => {
                        let failure = match source.unfollowed(&path) {
                            Ok(spot) => unseen(source, &spot.dir, &spot.name, &path, &error),
                            Err(_) => failed("read metadata", &path, &error),
                        };
                        self.trouble(path, failure);
                    }
                }
            }
        }
    }
}

/// Whether an NFS client gave this name to a file that was removed while somebody had it open: it goes when they close
/// it.
fn is_kept_by_nfs(name: &[u8]) -> bool {
    /// Of the file's number alone.
    const DIGITS_MIN: usize = 16;
    let digits = name.strip_prefix(b".nfs").unwrap_or_default();
    digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Whether it is this part that has the name.
fn is_of_part(part: PartOf, path: &RelativePath, stat: &Stat) -> bool {
    match stat.kind {
        Kind::Dir => true,
        _ if stat.links > 1 => part::has_inode(part, stat.inode),
        _ => part::has_name(part, path),
    }
}

/// Where a looked-at name leads.
enum End {
    Here,
    Elsewhere(Arc<Dir>, Vec<u8>),
    Directory(Arc<Dir>),
}

/// What of this kind is called and why it is not copied, if it is not.
fn unwanted(kind: Kind, preserve: &Preserve) -> Option<(String, Reason)> {
    let unasked = |what: &str| Some((format!("{what}, and those are not asked for"), Reason::NotAskedFor));
    match kind {
        Kind::Socket => Some(("a socket".to_owned(), Reason::Other)),
        Kind::Fifo if !preserve.devices => unasked("a FIFO"),
        Kind::BlockDevice | Kind::CharDevice if !preserve.devices => unasked("a device"),
        Kind::Unknown => Some(("of a kind that the file system does not tell".to_owned(), Reason::Other)),
        _ => None,
    }
}

fn root_at(source: &LocalSource, index: usize) -> &Root {
    &source.roots[index]
}

/// The failure of a name that could not be looked at: of a link that is followed, of what it says.
fn unseen(source: &LocalSource, dir: &Dir, name: &[u8], path: &RelativePath, error: &io::Error) -> Failure {
    match dir.read_link(name).ok().filter(|_| source.options.follow_links) {
        Some(says) => not_followed(path, &says, error),
        None => failed("read metadata", path, error),
    }
}

fn joined(top: &[u8], path: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if top.is_empty() || path.is_empty() { b"" } else { b"/" };
    [top, slash, path].concat()
}

impl LocalSource {
    /// The entry for `name` as `stat` shows it. Without attributes it has no ACL, and a mode for what has none. Where
    /// holes are told, a file that takes less room than its size is opened and asked for them.
    ///
    /// # Errors
    /// `Io`, `Permission` for link target or attributes; `Unsupported` where they exceed what a transfer carries.
    pub(super) fn entry_of(&self, dir: &Dir, name: &[u8], path: RelativePath, stat: &Stat) -> Result<Entry> {
        let preserve = &self.options.preserve;
        let unread = |error: io::Error| failed("read the attributes", &path, &error);
        // Links have no ACL, and a mode that says nothing.
        let entry = if !preserve.xattrs && stat.kind != Kind::Symlink {
            let acl = dir.xattr(name, ACL).map_err(unread)?;
            listed(dir, name, path, &without(stat, acl.as_deref()))?
        } else {
            let xattrs = if preserve.xattrs { dir.xattrs(name).map_err(unread)? } else { Vec::new() };
            dressed(dir, name, path, stat, xattrs)?
        };
        Ok(match Holes::told(dir, name, stat, &self.tellers) {
            Some(Holes { sparse, marked }) => {
                Entry { kind: thalweg_wire::Kind::File { sparse, marked }, ..entry }
            }
            None => entry,
        })
    }
}

/// The entry for `name` as `stat` shows it, without its attributes: to look at, not to be copied by.
///
/// # Errors
/// As [`LocalSource::entry_of`].
pub(in crate::endpoint::local) fn listed(
    dir: &Dir,
    name: &[u8],
    path: RelativePath,
    stat: &Stat,
) -> Result<Entry> {
    dressed(dir, name, path, stat, Vec::new())
}

fn dressed(
    dir: &Dir,
    name: &[u8],
    path: RelativePath,
    stat: &Stat,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
) -> Result<Entry> {
    let kind = match stat.kind {
        Kind::Symlink => {
            let target = dir.read_link(name).map_err(|error| failed("read the link", &path, &error))?;
            thalweg_wire::Kind::Symlink { target }
        }
        _ => kind_of(stat, &path)?,
    };
    let is_plain = xattrs.is_empty() && !matches!(kind, thalweg_wire::Kind::Symlink { .. });
    let entry = built(path, kind, stat, xattrs);
    if !is_plain {
        entry
            .check()
            .map_err(|error| Failure::new(FailureKind::Unsupported, "scan", error).at(&entry.path))?;
    }
    Ok(entry)
}

/// The entry for a held directory, with the path of the transfer's root.
fn entry_of_root(dir: &Dir, preserve: &Preserve) -> io::Result<Entry> {
    let stat = dir.stat_self()?;
    let (stat, xattrs) = match preserve.xattrs {
        true => (stat, dir.xattrs_self()?),
        false => (without(&stat, dir.xattr_self(ACL)?.as_deref()), Vec::new()),
    };
    let entry = built(RelativePath::root(), thalweg_wire::Kind::Directory, &stat, xattrs);
    entry.check().map_err(io::Error::other)?;
    Ok(entry)
}

/// What has this ACL, as it is without.
fn without(stat: &Stat, acl: Option<&[u8]>) -> Stat {
    Stat { mode: acl.map_or(stat.mode, |acl| mode_without(stat.mode, acl)), ..*stat }
}

fn built(
    path: RelativePath,
    kind: thalweg_wire::Kind,
    stat: &Stat,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
) -> Entry {
    let sent = xattrs.into_iter().filter(|(name, _)| !stays_where_it_is(name));
    Entry {
        id: EntryId(0),
        path,
        kind,
        mode: stat.mode,
        uid: stat.uid,
        gid: stat.gid,
        evidence: evidence_of(stat),
        xattrs: sent.map(|(name, value)| Xattr { name, value }).collect(),
    }
}

fn kind_of(stat: &Stat, path: &RelativePath) -> Result<thalweg_wire::Kind> {
    let device = |block| thalweg_wire::Kind::Device { block, major: stat.rdev_major, minor: stat.rdev_minor };
    Ok(match stat.kind {
        Kind::File => {
            let Holes { sparse, marked } = Holes::by_room(stat);
            thalweg_wire::Kind::File { sparse, marked }
        }
        Kind::Dir => thalweg_wire::Kind::Directory,
        Kind::Fifo => thalweg_wire::Kind::Fifo,
        Kind::BlockDevice => device(true),
        Kind::CharDevice => device(false),
        Kind::Socket | Kind::Symlink | Kind::Unknown => {
            let cause = "it is something else now";
            return Err(Failure::new(FailureKind::Changed, "read metadata", cause).at(path));
        }
    })
}

/// Files with several names of which not all were seen yet.
#[derive(Default)]
struct OpenLinks {
    /// More names may come than the file system counts: no set is ever complete.
    keeps_all: bool,
    /// Device and inode -> first name, its number, names still to come.
    sets: HashMap<(u64, u64), (RelativePath, EntryId, u64)>,
    bytes: usize,
    overflowed: bool,
}

/// What a set costs beside its path.
const LINK_SET_BYTES: usize = 96;

impl OpenLinks {
    fn open(&mut self, stat: &Stat, path: RelativePath, id: EntryId) {
        let bytes = path.as_bytes().len() + LINK_SET_BYTES;
        if self.bytes + bytes > LINK_BYTES_MAX {
            if !std::mem::replace(&mut self.overflowed, true) {
                tracing::warn!("too many hard links wait for their other names; further ones become files");
            }
            return;
        }
        self.bytes += bytes;
        self.sets.insert((stat.device, stat.inode), (path, id, stat.links - 1));
    }

    /// The first name of this file, if there was one. Forgets the set with the last of its names.
    fn take_one(&mut self, stat: &Stat) -> Option<(RelativePath, EntryId)> {
        let key = (stat.device, stat.inode);
        let (path, id, left) = self.sets.get_mut(&key)?;
        if !self.keeps_all {
            *left -= 1;
        }
        let found = (path.clone(), *id);
        if *left == 0 {
            self.bytes -= path.as_bytes().len() + LINK_SET_BYTES;
            self.sets.remove(&key);
        }
        Some(found)
    }
}
