//! Hidden directories for what is unfinished, one in each file system below the root, so that every rename stays
//! inside one; and one in each directory that hands something else down than its file system's top does (a project, no
//! copy on write), so that what is made for it gets that.
//!
//! ```text
//! .thalweg-staging/<job key>/   mode 0700
//!   lock                        in the root's only; held as long as the transfer
//!   journal                     in the root's only
//!   partial-<number>            large files
//!   lane-<lane>/<number>        small files, a few in each directory: see [`lanes`](super::lanes)
//!   lane-<lane>/<name>          small files of a new directory, which this will be: see [`nursery`](super::nursery)
//!   made-<number>               links, FIFOs and devices on their way to their names
//!   aside-<number>              what made way for an entry of another kind, until the end
//! ```
//!
//! A staging directory must be ours and closed to others; another one is refused, because whoever can change
//! names in it chooses what is renamed into place.

use super::lanes::Lanes;
use super::nursery::Nurseries;
use super::partial::ASSUMED;
use super::way::remove_tree;
use super::{NOT_OURS, lock, of_room};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::journal::staging::{STAGING_NAME, own_name};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use thalweg_sys::{Dir, DirectAlignment, File, FileSystemKind, Inheritance, Kind, Links, Stat, Time, usage};

/// A file system that is mounted at the root or below it.
pub(super) struct Mount {
    pub(super) key: MountKey,
    kind: FileSystemKind,
    /// What its top directory hands down, and almost all others.
    pub(super) inheritance: Inheritance,
    /// Its top directory below the root. Opened before anything is written there, so that its sync reports
    /// every error since.
    pub(super) top: Arc<Dir>,
    /// Something was written that no sync covers yet.
    pub(super) is_dirty: AtomicBool,
    /// What stood there before us was synced by us.
    pub(super) past_is_durable: AtomicBool,
}

/// Device and mount: a bind mount shares its device, and renames do not cross it all the same.
pub(super) type MountKey = (u64, Option<u64>);

pub(super) fn key_of(stat: &Stat) -> MountKey {
    (stat.device, stat.mount_id)
}

impl Mount {
    pub(super) fn new(top: Arc<Dir>, stat: &Stat) -> Mount {
        // Of one that does not say nothing is promised.
        let kind = top.file_system().map_or(FileSystemKind::Other(0), |system| system.kind);
        Mount {
            key: key_of(stat),
            kind,
            inheritance: inheritance_of(&top, kind),
            top,
            is_dirty: AtomicBool::new(false),
            past_is_durable: AtomicBool::new(false),
        }
    }

    /// What a directory on it hands down.
    pub(super) fn inheritance_of(&self, dir: &Dir) -> Inheritance {
        inheritance_of(dir, self.kind)
    }
}

/// Of a directory that may not be read nobody can say it: nothing, as of almost all.
fn inheritance_of(dir: &Dir, kind: FileSystemKind) -> Inheritance {
    dir.inheritance(kind).unwrap_or_default()
}

/// One file system below the root, as far as renames reach and what is made gets the same as in its top directory.
pub(super) struct Territory {
    pub(super) key: TerritoryKey,
    pub(super) mount: Arc<Mount>,
    /// What its directories hand down to what is made in them.
    pub(super) inheritance: Inheritance,
    /// Its top directory below the root, in which its staging directory is.
    pub(super) top: Arc<Dir>,
    /// The path of that.
    pub(super) path: Vec<u8>,
    /// What it looked like before us.
    pub(super) top_mtime: Time,
    /// The entry of the top directory will be given its times at the end; until then ours do not matter.
    pub(super) top_is_changed: AtomicBool,
    /// One call syncs all of its file system; otherwise each file and directory must be synced by itself.
    pub(super) syncs_whole: bool,
    /// The top directory's own mode, where it was opened for us for the time being.
    pub(super) mode_before: Mutex<Option<u32>>,
    staging: Mutex<Option<Arc<Staging>>>,
}

/// A territory is that of a mount's top directory, and of all on the mount that hand the same down; or that of one which
/// hands something else down than that, and of those below it that do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TerritoryKey {
    pub(super) mount: MountKey,
    /// Inode of its top directory, where that is not the mount's. By itself, not by what it hands down: the next attempt
    /// may meet two that are alike in another order, and has to find what this one left.
    apart: Option<u64>,
}

/// Lets go of a job's lock, so that the next attempt has it at once.
pub(super) fn let_go(held: Option<File>) {
    if let Some(Err(error)) = held.as_ref().map(File::unlock) {
        tracing::debug!(%error, "a lock goes with its last handle");
    }
}

impl TerritoryKey {
    /// Of what is like the mount's top directory.
    pub(super) fn of_mount(mount: &Mount) -> TerritoryKey {
        TerritoryKey { mount: mount.key, apart: None }
    }
}

impl Territory {
    /// That of the root.
    pub(super) fn new(top: Arc<Dir>, stat: &Stat) -> Territory {
        let mount = Arc::new(Mount::new(top.clone(), stat));
        Territory::below(mount.clone(), mount.inheritance, b"", top, stat)
    }

    /// One whose top directory is at `path`, and hands that down.
    pub(super) fn below(
        mount: Arc<Mount>,
        inheritance: Inheritance,
        path: &[u8],
        top: Arc<Dir>,
        stat: &Stat,
    ) -> Territory {
        let apart = (inheritance != mount.inheritance).then_some(stat.inode);
        Territory {
            key: TerritoryKey { apart, ..TerritoryKey::of_mount(&mount) },
            inheritance,
            syncs_whole: mount.kind.syncs_whole(),
            mount,
            top,
            path: path.to_vec(),
            top_mtime: stat.mtime,
            top_is_changed: AtomicBool::new(false),
            mode_before: Mutex::new(None),
            staging: Mutex::new(None),
        }
    }

    pub(super) fn touch(&self) {
        self.mount.is_dirty.store(true, Ordering::Release);
    }

    /// The staging directory here, made if it is not there. `is_new` sees it before anyone else does.
    ///
    /// Only for who holds the job's lock: what small files an earlier attempt left is removed.
    pub(super) fn staging(&self, job: &str, is_new: impl FnOnce(&Staging)) -> io::Result<Arc<Staging>> {
        let mut staging = lock(&self.staging);
        if let Some(staging) = &*staging {
            return Ok(staging.clone());
        }
        let opened = match Staging::open(&self.top, job) {
            // Another job just removed what they share.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Staging::open(&self.top, job)?,
            other => other?,
        };
        opened.prepare()?;
        is_new(&opened);
        let opened = Arc::new(opened);
        *staging = Some(opened.clone());
        self.touch();
        Ok(opened)
    }

    /// Takes over a staging directory that was opened to get at the lock in it.
    pub(super) fn adopt(&self, staging: Staging) -> Arc<Staging> {
        let staging = Arc::new(staging);
        *lock(&self.staging) = Some(staging.clone());
        self.touch();
        staging
    }

    /// Whether an earlier attempt left a staging directory here.
    pub(super) fn staging_is_there(&self, job: &str) -> bool {
        let has_job = |name: &[u8]| {
            let shared = self.top.open_beneath(name, Links::Refuse);
            shared.is_ok_and(|shared| shared.stat(job.as_bytes()).is_ok())
        };
        has_job(&own_name()) || has_job(STAGING_NAME)
    }

    pub(super) fn open_staging(&self) -> Option<Arc<Staging>> {
        lock(&self.staging).clone()
    }

    /// Removes the staging directory with all that is in it, and gives the top directory the time it had if
    /// nothing else was done there. `times`: what its entry says, if it has one. `held`: the job's lock, where it is in
    /// this one.
    pub(super) fn clean_up(&self, job: &str, times: Option<Time>, held: Option<File>) {
        let Some(staging) = lock(&self.staging).take() else { return };
        // By now it may have got a mode that keeps ourselves out.
        let mode =
            self.top.stat_self().ok().filter(|stat| stat.uid == usage::effective_uid()).map(|s| s.mode);
        let closed = mode.filter(|mode| mode & 0o300 != 0o300 && usage::effective_uid() != 0);
        let set_mode = |mode| self.top.as_file().and_then(|top| top.set_mode(mode));
        if let Some(mode) = closed {
            let _ = set_mode(mode | 0o300);
        }
        self.remove(&staging, job, times, held);
        if let Some(mode) = closed.or(lock(&self.mode_before).take()) {
            let _ = set_mode(mode);
        }
        let _ = self.top.sync();
    }

    /// Gives the top directory its own mode again, if it was opened for us for the time being.
    pub(super) fn close_top(&self) {
        if let Some(mode) = lock(&self.mode_before).take() {
            let _ = self.top.as_file().and_then(|top| top.set_mode(mode));
            let _ = self.top.sync();
        }
    }

    fn remove(&self, staging: &Staging, job: &str, times: Option<Time>, held: Option<File>) {
        staging.remove_own(job, held);
        // Other jobs may have theirs in it.
        if self.top.remove_dir(&staging.name).is_err() {
            return;
        }
        let before = (!self.top_is_changed.load(Ordering::Acquire)).then_some(self.top_mtime);
        if let Some(mtime) = times.or(before)
            && let Ok(top) = self.top.as_file()
        {
            let _ = top.set_times(None, Some(mtime));
        }
    }
}

/// Also where a destination could not be opened.
impl Drop for Territory {
    fn drop(&mut self) {
        self.close_top();
    }
}

pub(super) struct Staging {
    /// Of the directory that all our jobs share.
    name: Vec<u8>,
    shared: Dir,
    pub(super) dir: Arc<Dir>,
    lanes: Lanes,
    pub(super) nurseries: Nurseries,
    abilities: OnceLock<Abilities>,
    /// Names in it changed since they were synced.
    pub(super) names_are_new: AtomicBool,
}

/// What a file system does, found out by trying.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    /// Which one it is, for what cannot be tried: what pays.
    pub(super) kind: FileSystemKind,
    /// What direct I/O must be aligned to, where there is any.
    pub(super) direct: Option<DirectAlignment>,
    /// Files get the mode they are created with: no umask, no default ACL.
    pub(super) mode_is_exact: bool,
    /// Names that differ in case only are one name.
    pub(super) folds_case: bool,
    /// Dots at the end of a name are left out, as are spaces.
    strips_dots: bool,
    strips_spaces: bool,
    pub(super) grain: Grain,
    /// Owner and group of what we create here; not ours where a server maps them.
    pub(super) owner: Option<(u32, u32)>,
    /// What is left of mode 0777 when a file is created: the umask shows here.
    pub(super) mode_of_0777: Option<u32>,
    /// It may take metadata without keeping them, and say nothing: what it has in the end must be looked at.
    pub(super) is_forgetful: bool,
}

/// Before anything was tried.
impl Default for Abilities {
    fn default() -> Self {
        Abilities {
            kind: FileSystemKind::Other(0),
            direct: None,
            is_forgetful: false,
            mode_is_exact: false,
            folds_case: false,
            strips_dots: false,
            strips_spaces: false,
            grain: Grain::FINEST,
            owner: None,
            mode_of_0777: None,
        }
    }
}

impl Abilities {
    /// The path that becomes of `path` here, if that is another one: two entries would be one, and what is deleted is
    /// told by its name.
    pub(super) fn kept_as(&self, path: &[u8]) -> Option<Vec<u8>> {
        let is_stripped = |byte: u8| match byte {
            b'.' => self.strips_dots,
            b' ' => self.strips_spaces,
            _ => false,
        };
        let names = path.split(|&byte| byte == b'/').map(|name| {
            let length = name.iter().rposition(|&byte| !is_stripped(byte)).map_or(0, |last| last + 1);
            &name[..length]
        });
        let kept = names.collect::<Vec<_>>().join(&b'/');
        (kept != path).then_some(kept)
    }
}

/// Whether a name of the path ends in what some file systems leave out.
pub(super) fn may_be_stripped(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|name| matches!(name.last(), Some(b'.' | b' ')))
}

/// How finely a file system keeps times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grain(pub(super) u64);

impl Default for Grain {
    fn default() -> Self {
        Grain::FINEST
    }
}

impl Grain {
    pub(super) const FINEST: Grain = Grain(1);

    /// Whether `kept` is what is left of `wanted` on a file system of this grain.
    pub(super) fn is_same(self, wanted: thalweg_wire::Time, kept: Time) -> bool {
        let floor = |seconds: i64, nanos: u32| {
            (i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).div_euclid(i128::from(self.0))
        };
        floor(wanted.seconds, wanted.nanos) == floor(kept.seconds, kept.nanos)
    }
}

impl Staging {
    pub(super) fn open(top: &Dir, job: &str) -> io::Result<Staging> {
        let (name, shared) = own_shared(top)?;
        let dir = Arc::new(own_dir(&shared, job.as_bytes())?);
        Ok(Staging {
            name,
            shared,
            dir,
            lanes: Lanes::new(),
            nurseries: Nurseries::default(),
            abilities: OnceLock::new(),
            names_are_new: AtomicBool::new(true),
        })
    }

    /// Opens it and takes the job's lock in it, which lasts as long as the file is open.
    ///
    /// # Errors
    /// `Busy` if another transfer of this job has it; `NotFound` where no directory can be made (`/proc`); `Permission`,
    /// `Space`, `Io`.
    pub(super) fn locked(top: &Dir, job: &str) -> Result<(Staging, File)> {
        /// How often the lock file may be removed under our hands by transfers that just end.
        const ROUNDS: usize = 16;
        let of_io = |error: io::Error| failure::of_io("open the staging directory", &of_room(top, error));
        let mut never_made = None;
        for round in 0..ROUNDS {
            let staging = match Staging::open(top, job) {
                // Another job just removed what they share; or no directory can be made there, which the same answer again
                // and again says.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    never_made = (round == 0 || never_made.is_some()).then_some(error);
                    continue;
                }
                other => other.map_err(of_io)?,
            };
            never_made = None;
            let file = match staging.dir.create_new(b"lock", 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    staging.dir.open_read_write(b"lock")
                }
                other => other,
            };
            let file = match file {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(of_io)?,
            };
            if !file.lock_exclusive().map_err(of_io)? {
                let words = format!("{}/{job}", String::from_utf8_lossy(&staging.name));
                let cause = format!("another transfer of this job holds its lock `{words}/lock`");
                return Err(Failure::new(FailureKind::Busy, "open the staging directory", cause));
            }
            // Its holder may have removed it before we got it.
            let is_there = match (staging.dir.stat(b"lock"), file.stat()) {
                (Ok(named), Ok(held)) => named.is_same_entry(&held),
                _ => false,
            };
            if is_there {
                return Ok((staging, file));
            }
        }
        if let Some(error) = never_made {
            return Err(failure::of_io("make the staging directory", &error));
        }
        let cause = format!("`{}/{job}` comes and goes", String::from_utf8_lossy(STAGING_NAME));
        Err(Failure::new(FailureKind::Busy, "open the staging directory", cause))
    }

    /// Removes it with all that is in it, and what it shares with other jobs if they have nothing there.
    /// `held`: the job's lock.
    pub(super) fn discard(&self, top: &Dir, job: &str, held: Option<File>) {
        self.remove_own(job, held);
        let _ = top.remove_dir(&self.name);
    }

    /// Removes the job's directory. Its lock is let go of only when nothing is in there any more: who takes it from then
    /// on begins anew, and keeps his directory by what he makes in it.
    fn remove_own(&self, job: &str, held: Option<File>) {
        self.remove_all();
        let_go(held);
        if let Err(error) = remove_emptied(&self.shared, job.as_bytes()) {
            tracing::debug!(%error, "a staging directory stays");
        }
    }

    /// Clears what an earlier attempt left and finds out what the file system does. Only for who holds the job's
    /// lock.
    pub(super) fn prepare(&self) -> io::Result<()> {
        self.remove_small();
        let abilities = self.probe()?;
        let _ = self.abilities.set(abilities);
        Ok(())
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.abilities.get().copied().unwrap_or_default()
    }

    pub(super) fn sync_names(&self) -> io::Result<()> {
        self.dir.sync()?;
        self.shared.sync()
    }

    /// The lane for the next small file of a stream, and its directory.
    pub(super) fn next_lane(&self, stream: u32) -> io::Result<(u32, Arc<Dir>)> {
        self.lanes.next(&self.dir, stream)
    }

    /// The directory of a lane that a file is in.
    pub(super) fn lane(&self, lane: u32) -> io::Result<Arc<Dir>> {
        self.lanes.get(&self.dir, lane)
    }

    /// A small file has left its lane.
    pub(super) fn left_lane(&self, lane: u32) {
        self.lanes.gone(lane);
    }

    /// Whether there is such a lane here.
    pub(super) fn has_lane(&self, lane: u32) -> bool {
        self.lanes.has(lane)
    }

    /// Numbers of the partial files here.
    pub(super) fn partials(&self) -> io::Result<Vec<u64>> {
        let names = self.dir.entries()?.collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().filter_map(|entry| partial_number(&entry.name)).collect())
    }

    /// Removes what no later attempt can use.
    fn remove_small(&self) {
        let Ok(entries) = self.dir.entries() else { return };
        for entry in entries.flatten() {
            if entry.name.starts_with(b"lane-") {
                remove_flat(&self.dir, &entry.name);
            } else if entry.name.starts_with(b"made-") || entry.name.starts_with(b"probe-") {
                let _ = self.dir.remove_file(&entry.name);
            }
        }
    }

    fn remove_all(&self) {
        self.remove_small();
        let Ok(entries) = self.dir.entries() else { return };
        for entry in entries.flatten() {
            let _ = remove_tree(&self.dir, &entry.name);
        }
    }

    /// Tries what the file system does, once, instead of asking which one it is.
    fn probe(&self) -> io::Result<Abilities> {
        const NAME: &[u8] = b"probe-case";
        /// Odd seconds, and nanoseconds that no coarser clock keeps.
        const TIME: Time = Time { seconds: 1_000_000_001, nanos: 123_456_789 };
        let file = self.dir.create_new(NAME, 0o777)?;
        let stat = file.stat()?;
        let mut abilities = Abilities {
            kind: self.dir.file_system()?.kind,
            direct: direct_alignment(&file),
            mode_is_exact: stat.mode == 0o777,
            folds_case: self.dir.stat(b"PROBE-CASE").is_ok(),
            strips_dots: self.dir.stat(b"probe-case.").is_ok(),
            strips_spaces: self.dir.stat(b"probe-case ").is_ok(),
            grain: Grain::FINEST,
            owner: Some((stat.uid, stat.gid)),
            mode_of_0777: Some(stat.mode),
            is_forgetful: self.dir.file_system()?.kind.may_lack_modes(),
        };
        // Both, because some of FUSE know only both at once.
        if file.set_times(Some(TIME), Some(TIME)).is_ok() {
            let kept = file.stat()?.mtime;
            let grains = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];
            let wanted = thalweg_wire::Time { seconds: TIME.seconds, nanos: TIME.nanos };
            let grain = grains.into_iter().map(Grain).find(|grain| {
                let whole = (i128::from(kept.seconds) * 1_000_000_000 + i128::from(kept.nanos))
                    % i128::from(grain.0)
                    == 0;
                whole && grain.is_same(wanted, kept)
            });
            abilities.grain = grain.unwrap_or(Grain::FINEST);
        }
        self.dir.remove_file(NAME)?;
        Ok(abilities)
    }
}

pub(super) fn lane_name(lane: u32) -> String {
    format!("lane-{lane}")
}

pub(super) fn partial_name(number: u64) -> String {
    format!("partial-{number}")
}

/// What direct I/O on this file must be aligned to, tried where nobody says; `None` where it is refused.
fn direct_alignment(file: &File) -> Option<DirectAlignment> {
    let alignment = file.direct_alignment_or(ASSUMED).ok()??;
    file.set_direct(true).ok()?;
    file.set_direct(false).ok()?;
    Some(alignment)
}

pub(super) fn aside_name(number: u64) -> String {
    format!("aside-{number}")
}

pub(super) fn is_aside(name: &[u8]) -> bool {
    name.starts_with(b"aside-")
}

/// Waits for what was removed while it was open, on file systems that keep a name for it as long.
const EMPTIED_TRIES: u32 = 10;
const EMPTIED_PAUSE: Duration = Duration::from_millis(10);

/// Removes a directory of ours in which there is nothing more. FUSE and NFS keep a hidden name for what was removed while
/// it was open, and their server hears only a moment later that it was closed. What somebody else has there by now stays.
pub(super) fn remove_emptied(parent: &Dir, name: &[u8]) -> io::Result<()> {
    for _ in 1..EMPTIED_TRIES {
        match parent.remove_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(EMPTIED_PAUSE);
            }
            other => return other,
        }
    }
    parent.remove_dir(name)
}

fn partial_number(name: &[u8]) -> Option<u64> {
    std::str::from_utf8(name).ok()?.strip_prefix("partial-")?.parse().ok()
}

/// Opens or makes the directory in `top` that all our jobs share, with its name: the common one, or where somebody else has
/// that, one with our number, so that nobody keeps others out of a directory in which all may write. One with our number
/// that is there stays the one: in it is what an earlier attempt left.
pub(super) fn own_shared(top: &Dir) -> io::Result<(Vec<u8>, Dir)> {
    let own = own_name();
    // What somebody else called so keeps nobody from the common one.
    let has_own =
        top.stat(&own).is_ok_and(|stat| stat.kind == Kind::Dir && stat.uid == usage::effective_uid());
    if !has_own {
        match own_dir(top, STAGING_NAME) {
            Ok(dir) => return Ok((STAGING_NAME.to_vec(), dir)),
            // Somebody's directory, or what he put in its place.
            Err(error) if is_taken(&error) && top.stat(STAGING_NAME).is_ok() => {}
            // His went meanwhile, or none may be made here.
            Err(error) if is_taken(&error) => {
                return own_dir(top, STAGING_NAME).map(|dir| (STAGING_NAME.to_vec(), dir));
            }
            Err(error) => return Err(error),
        }
    }
    own_dir(top, &own).map(|dir| (own, dir))
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory)
        || super::is_errno(error, super::errno::LOOP)
}

/// Opens or makes a directory that is ours alone.
pub(super) fn own_dir(parent: &Dir, name: &[u8]) -> io::Result<Dir> {
    let is_new = match parent.make_dir(name, 0o700) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let dir = parent.open_beneath(name, Links::Refuse)?;
    let mut stat = dir.stat_self()?;
    if stat.uid == usage::effective_uid() && (is_new || stat.mode != 0o700) {
        let own = dir.as_file()?;
        if is_new {
            // What it inherited would be inherited by everything that is made in it.
            let _ = own.remove_xattr(b"system.posix_acl_default");
            let _ = own.remove_xattr(b"system.posix_acl_access");
        }
        // Set-group-id is inherited too.
        if stat.mode != 0o700 {
            // Where there are no modes this fails, or does nothing.
            let set = own.set_mode(0o700);
            stat = dir.stat_self()?;
            if stat.mode & 0o077 != 0 && !is_closed_as_its_parent(parent, &dir, &stat)? {
                set?;
            }
        }
    }
    let is_ours_alone = stat.uid == usage::effective_uid() && stat.mode & 0o077 == 0;
    if stat.kind != Kind::Dir || !(is_ours_alone || is_closed_as_its_parent(parent, &dir, &stat)?) {
        if is_new {
            // The file system gives what we make to somebody else: it would keep the name from everybody.
            let _ = parent.remove_dir(name);
        }
        let cause =
            format!("`{}` there belongs to user {}, {NOT_OURS}", String::from_utf8_lossy(name), stat.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
    }
    Ok(dir)
}

/// On a file system without modes (a memory stick): nobody gets in here who does not get in beside it.
fn is_closed_as_its_parent(parent: &Dir, dir: &Dir, stat: &Stat) -> io::Result<bool> {
    if !dir.file_system()?.kind.may_lack_modes() {
        return Ok(false);
    }
    let beside = parent.stat_self()?;
    let key = |stat: &Stat| (key_of(stat), stat.uid, stat.gid, stat.mode);
    Ok(key(stat) == key(&beside))
}

/// Removes a directory of files.
fn remove_flat(parent: &Dir, name: &[u8]) {
    if let Ok(dir) = parent.open_beneath(name, Links::Refuse)
        && let Ok(entries) = dir.entries()
    {
        for entry in entries.flatten() {
            let _ = dir.remove_file(&entry.name);
        }
    }
    let _ = parent.remove_dir(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_finely_as_they_are_kept() {
        let wanted = |seconds, nanos| thalweg_wire::Time { seconds, nanos };
        let kept = |seconds, nanos| Time { seconds, nanos };
        assert!(!Grain(1).is_same(wanted(5, 1), kept(5, 0)));
        assert!(Grain(100).is_same(wanted(5, 199), kept(5, 100)));
        assert!(Grain(1_000_000_000).is_same(wanted(-5, 7), kept(-5, 0)));
        assert!(Grain(2_000_000_000).is_same(wanted(7, 999), kept(6, 0)));
        assert!(!Grain(2_000_000_000).is_same(wanted(8, 0), kept(6, 0)));
    }

    #[test]
    fn a_name_that_is_kept_as_another_is_known_by_its_end() {
        let dots = Abilities { strips_dots: true, ..Abilities::default() };
        let kept = |path: &[u8]| dots.kept_as(path).map(|kept| String::from_utf8(kept).unwrap());
        assert_eq!(kept(b"Acme Inc./a").as_deref(), Some("Acme Inc/a"));
        assert_eq!(kept(b"a/b..").as_deref(), Some("a/b"));
        assert_eq!((kept(b"a.b/.c"), kept(b"a ")), (None, None));
        assert!(may_be_stripped(b"Acme Inc./a") && may_be_stripped(b"a ") && !may_be_stripped(b"a.b/.c"));
        let both = Abilities { strips_spaces: true, ..dots };
        assert_eq!(both.kept_as(b"a. ."), Some(b"a".to_vec()));
        assert_eq!(Abilities::default().kept_as(b"a."), None);
    }

    #[test]
    fn a_top_directory_that_was_opened_for_us_is_closed_again_however_it_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Arc::new(Dir::open(scratch.path()).unwrap());
        let territory = Territory::new(top.clone(), &top.stat_self().unwrap());
        *lock(&territory.mode_before) = Some(0o555);
        drop(territory);
        assert_eq!(top.stat_self().unwrap().mode, 0o555);
        top.as_file().unwrap().set_mode(0o755).unwrap();
    }

    #[test]
    fn a_staging_directory_of_somebody_else_is_his_and_ours_has_our_number() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let (common, own) = (scratch.path().join(".thalweg-staging"), own_name());
        std::os::unix::fs::symlink("/tmp", &common).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        assert!(staging.name == own && top.stat(&own).unwrap().kind == Kind::Dir);
        // It is found again, whatever becomes of the common one meanwhile.
        std::fs::remove_file(&common).unwrap();
        assert_eq!(Staging::open(&top, "job").unwrap().name, own);
        staging.discard(&top, "job", None);
        assert!(top.stat(&own).is_err());
        assert_eq!(Staging::open(&top, "job").unwrap().name, STAGING_NAME);
        if usage::effective_uid() != 0 {
            eprintln!("skipped in part: needs root to give a directory away");
            return;
        }
        std::os::unix::fs::chown(&common, Some(12345), None).unwrap();
        assert_eq!(Staging::open(&top, "job").unwrap().name, own);
        // Nobody is believed to be us for his directory's name.
        let path = scratch.path().join(String::from_utf8(own).unwrap());
        std::os::unix::fs::chown(path, Some(12345), None).unwrap();
        let error = Staging::open(&top, "job").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("12345"), "{error}");
    }

    /// As in `/proc`, and in a directory that was removed: nobody comes and goes there.
    #[test]
    fn where_no_directory_can_be_made_nobody_is_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("gone")).unwrap();
        let top = Dir::open(&scratch.path().join("gone")).unwrap();
        std::fs::remove_dir(scratch.path().join("gone")).unwrap();
        let failure = Staging::locked(&top, "job").err().unwrap();
        assert_eq!(
            (failure.kind, failure.operation.as_str(), failure.cause.as_str()),
            (FailureKind::NotFound, "make the staging directory", "No such file or directory")
        );
    }

    /// As where a hidden name goes only when the server hears that the last handle is closed.
    #[test]
    fn a_directory_that_is_emptied_a_moment_later_goes_and_one_that_is_not_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let parent = Dir::open(scratch.path()).unwrap();
        let hidden = scratch.path().join("job/.nfs01");
        let make = || {
            std::fs::create_dir_all(scratch.path().join("job")).unwrap();
            std::fs::write(&hidden, "").unwrap();
        };
        make();
        let error = remove_emptied(&parent, b"job").unwrap_err();
        assert!(error.kind() == io::ErrorKind::DirectoryNotEmpty && hidden.exists());
        // However late the other thread comes: one of these removals meets it in the middle.
        let gone = (0..100).any(|_| {
            make();
            let hidden = hidden.clone();
            let closed = std::thread::spawn(move || {
                std::thread::sleep(EMPTIED_PAUSE / 2);
                std::fs::remove_file(hidden).unwrap();
            });
            let removed = remove_emptied(&parent, b"job");
            closed.join().unwrap();
            removed.is_ok()
        });
        assert!(gone);
    }

    #[test]
    fn what_is_left_of_small_files_goes_and_partials_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        staging.next_lane(3).unwrap().1.create_new(b"1", 0o600).unwrap();
        staging.dir.create_new(b"partial-7", 0o600).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        staging.prepare().unwrap();
        assert!(staging.dir.stat(b"lane-0").is_err());
        assert_eq!(staging.partials().unwrap(), [7]);
        assert_eq!(staging.abilities().grain, Grain::FINEST);
    }
}
