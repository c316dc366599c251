//! Hidden directories for what is unfinished, one in each file system below the root, so that every rename stays
//! inside one; and one in each directory that hands something else down than its file system's top does (a project, no
//! copy on write), so that what is made for it gets that.
//!
//! ```text
//! .thalweg-staging/<job key>/   mode 0700
//!   lock                        in the root's only; held as long as the transfer
//!   journal                     in the root's only
//!   partial-<number>            large files
//!   lane-<mark>-<lane>/<number> small files, a few in each directory: see `lanes`
//!   lane-<mark>-<lane>/<name>   small files of a new directory, which this will be: see `nursery`
//!   made-<mark>-<number>        links, FIFOs and devices on their way to their names
//!   aside-<number>              what made way for an entry of another kind, until the end
//! ```
//!
//! Where a lock does not reach other machines (`flock` of BeeGFS and FUSE as they come, Lustre with `localflock`, NFS
//! with `nolock`) two attempts of a job may be at work in one at the same time. So that none gives a name to a small
//! file, link, FIFO or device of the other's, each has a random mark in the names of those. Not guaranteed there: the
//! journal and the partials are both attempts'. One that goes on with a partial makes holes of what the other has
//! written and not recorded, and each writes into what the other has given its name.
//!
//! A staging directory must be ours and closed to others; another one is refused, because whoever can change
//! names in it chooses what is renamed into place.
//!
//! [`territory`] says which parts of a destination have one each. [`partial`] is a large file in it; [`lanes`] have
//! small ones, and [`nursery`] those of new directories. [`leftover`] finds and removes what no transfer uses any more,
//! and [`abandoned`] what is in directories that are to be deleted. [`scratch`] is a destination for measurements.

use self::partial::ASSUMED;
use self::territory::key_of;
use super::destination::displace::remove_tree;
use super::{OPEN_STAGING, errno, is_errno, lock, of_room};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::journal::staging_names::{STAGING_NAME, own_name};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use thalweg_sys::{Dir, DirectAlignment, File, FileSystemKind, Kind, Links, Stat, Time, user};

pub(super) mod territory;

pub(super) mod partial;

pub(super) mod lanes;

pub(super) mod nursery;

pub mod scratch;

pub mod leftover;

pub(super) mod abandoned;

/// Lets go of a job's lock, so that the next attempt has it at once.
pub(super) fn let_go(held: Option<File>) {
    if let Some(Err(error)) = held.as_ref().map(File::unlock) {
        tracing::debug!(%error, "a lock goes with its last handle");
    }
}

/// What a job has of staging directories while it runs: its name in them, its lock, and who stages there.
pub(super) struct Claim {
    /// Its key, in hexadecimal digits.
    pub(super) job: String,
    lock_file: Mutex<Option<File>>,
    /// Held for reading by whoever stages something; true once the staging directories are gone.
    is_closed: RwLock<bool>,
    /// Of this attempt.
    mark: u64,
    next_number: AtomicU64,
}

impl Claim {
    /// Without the lock. `mark`: a random number.
    pub(super) fn new(job_key: &[u8; 16], mark: u64) -> Claim {
        let job = job_key.iter().map(|byte| format!("{byte:02x}")).collect();
        let next_number = AtomicU64::new(1);
        Claim { job, lock_file: Mutex::default(), is_closed: RwLock::default(), mark, next_number }
    }

    /// Keeps the job's lock.
    pub(super) fn hold(&self, lock_file: File) {
        *lock(&self.lock_file) = Some(lock_file);
    }

    /// The lock, for who removes what it is in and lets go of it then.
    pub(super) fn take_lock(&self) -> Option<File> {
        lock(&self.lock_file).take()
    }

    /// Lets go of the lock, if it is still held.
    pub(super) fn let_go(&self) {
        let_go(self.take_lock());
    }

    /// A number for a hidden name, which no other one of this job has.
    pub(super) fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// A hidden name that no other entry has, of any attempt.
    pub(super) fn made_name(&self) -> Vec<u8> {
        format!("made-{:016x}-{}", self.mark, self.new_number()).into_bytes()
    }

    /// Whoever stages something keeps this as long as that takes: what stages is not cleared up, and what was
    /// cleared up is not staged in. A second copy of content may come when all is over, by a stream that was
    /// slow.
    ///
    /// # Errors
    /// `Stopped` when it is closed.
    pub(super) fn while_open(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        match *is_closed {
            true => Err(Failure::new(FailureKind::Stopped, "write", "the transfer is over")),
            false => Ok(is_closed),
        }
    }

    /// Nothing is staged from here on. Waits for those who stage.
    pub(super) fn close(&self) {
        *self.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// Times that a lock which is held is tried again: a process that removes what killed transfers left, or looks whether
/// it may, has it for a moment.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Takes a lock, if nobody holds it for longer than a moment. Whether we have it.
fn lock_soon(file: &File) -> io::Result<bool> {
    for _ in 1..LOCK_TRIES {
        if file.lock_exclusive()? {
            return Ok(true);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    file.lock_exclusive()
}

/// What a lock failed of. Lustre without `flock` has no such call, NFS without its lock daemon no locks.
fn of_lock(error: &io::Error) -> Failure {
    let without = [errno::NO_SYSTEM_CALL, errno::NO_LOCKS, errno::NOT_SUPPORTED];
    let failure = failure::of_io(OPEN_STAGING, error);
    match without.iter().any(|&number| is_errno(error, number)) {
        true => failure.because(Reason::NoLocks),
        false => failure,
    }
}

/// Whether an earlier attempt left a staging directory in this one.
pub(super) fn is_there(top: &Dir, job: &str) -> bool {
    let has_job = |name: &[u8]| {
        let shared = top.open_beneath(name, Links::Refuse);
        shared.is_ok_and(|shared| shared.stat(job.as_bytes()).is_ok())
    };
    has_job(&own_name()) || has_job(STAGING_NAME)
}

/// One that is open.
pub(super) struct Staging {
    shared: Dir,
    pub(super) dir: Arc<Dir>,
    state: Arc<State>,
}

/// What is known of a staging directory, open or not.
pub(super) struct State {
    /// Of the directory that all our jobs share.
    pub(super) name: Vec<u8>,
    number: usize,
    abilities: OnceLock<Abilities>,
    /// Names in it changed since they were synced.
    pub(super) names_are_new: AtomicBool,
    /// Something may be in it that made way for another entry.
    pub(super) has_asides: AtomicBool,
}

impl State {
    pub(super) fn abilities(&self) -> Abilities {
        self.abilities.get().copied().unwrap_or_default()
    }
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
    /// Names that differ only in how Unicode composes their characters are one name.
    pub(super) folds_forms: bool,
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
            folds_forms: false,
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
        Staging::numbered(top, job, 0)
    }

    /// One of several: `number` is its own.
    pub(super) fn numbered(top: &Dir, job: &str, number: usize) -> io::Result<Staging> {
        let (name, shared) = own_shared(top)?;
        let dir = Arc::new(own_dir(&shared, job.as_bytes())?);
        let (abilities, names_are_new) = (OnceLock::new(), AtomicBool::new(true));
        let has_asides = AtomicBool::new(false);
        let state = Arc::new(State { name, number, abilities, names_are_new, has_asides });
        Ok(Staging { shared, dir, state })
    }

    /// The same one again, with all that is in it.
    pub(super) fn again(top: &Dir, job: &str, state: &Arc<State>) -> io::Result<Staging> {
        let shared = own_dir(top, &state.name)?;
        let dir = Arc::new(own_dir(&shared, job.as_bytes())?);
        Ok(Staging { shared, dir, state: state.clone() })
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Among those of a destination.
    pub(super) fn number(&self) -> usize {
        self.state.number
    }

    /// Opens it and takes the job's lock in it, which lasts as long as the file is open.
    ///
    /// # Errors
    /// `Busy` if another transfer of this job has it; `NotFound` where no directory can be made (`/proc`);
    /// `Permission`, `Space`, `Io`.
    pub(super) fn locked(top: &Dir, job: &str) -> Result<(Staging, File)> {
        /// How often the lock file may be removed under our hands by transfers that just end.
        const ROUNDS: usize = 16;
        let of_io = |error: io::Error| failure::of_io(OPEN_STAGING, &of_room(top, error));
        let mut never_made = None;
        for round in 0..ROUNDS {
            let staging = match Staging::open(top, job) {
                // Another job just removed what they share; or no directory can be made there, which the same answer
                // again and again says.
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
            if !lock_soon(&file).map_err(|error| of_lock(&error))? {
                let words = format!("{}/{job}", String::from_utf8_lossy(&staging.state.name));
                let cause = format!("another transfer of this job holds its lock `{words}/lock`");
                let failure = Failure::new(FailureKind::Busy, OPEN_STAGING, cause);
                return Err(failure.because(Reason::DestinationTaken));
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
        Err(Failure::new(FailureKind::Busy, OPEN_STAGING, cause).because(Reason::DestinationTaken))
    }

    /// Removes it with all that is in it, and what it shares with other jobs if they have nothing there.
    /// `held`: the job's lock.
    pub(super) fn discard(&self, top: &Dir, job: &str, held: Option<File>) {
        self.remove_own(job, held);
        let _ = top.remove_dir(&self.state.name);
    }

    /// Removes the job's directory. Its lock is let go of only when nothing is in there any more: a process that takes
    /// it from then on begins anew, and keeps its directory by what it makes in there.
    pub(super) fn remove_own(&self, job: &str, held: Option<File>) {
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
        let _ = self.state.abilities.set(abilities);
        Ok(())
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.state.abilities()
    }

    /// In place of what trying shows.
    #[cfg(test)]
    pub(super) fn pretend(&self, is_forgetful: bool) {
        let _ = self.state.abilities.set(Abilities { is_forgetful, ..Abilities::default() });
    }

    /// Something got a name in it.
    pub(super) fn names_changed(&self) {
        self.state.names_are_new.store(true, Ordering::Release);
    }

    /// Something that made way for another entry got a name in it, or is about to.
    pub(super) fn sets_aside(&self) {
        self.state.has_asides.store(true, Ordering::Release);
        self.names_changed();
    }

    pub(super) fn sync_names(&self) -> io::Result<()> {
        self.dir.sync()?;
        self.shared.sync()
    }

    /// Numbers of the partial files here.
    pub(super) fn partials(&self) -> io::Result<Vec<u64>> {
        let names = self.dir.entries()?.collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().filter_map(|entry| partial_number(&entry.name)).collect())
    }

    /// Removes what no later attempt can use.
    fn remove_small(&self) {
        let Ok(entries) = self.dir.entries() else {
            // Nobody can say.
            self.state.has_asides.store(true, Ordering::Release);
            return;
        };
        for entry in entries.flatten() {
            if is_aside(&entry.name) {
                self.state.has_asides.store(true, Ordering::Release);
            } else if entry.name.starts_with(b"lane-") {
                remove_flat(&self.dir, &entry.name);
            } else if entry.name.starts_with(b"made-") || entry.name.starts_with(b"probe-") {
                let _ = self.dir.remove_file(&entry.name);
            }
        }
    }

    /// The lock's name goes last: a process that finds none makes a lock of its own, and what it makes beside it would
    /// go too.
    fn remove_all(&self) {
        self.remove_small();
        let Ok(entries) = self.dir.entries() else { return };
        for entry in entries.flatten().filter(|entry| entry.name != b"lock") {
            let _ = remove_tree(&self.dir, &entry.name, &|| true);
        }
        let _ = self.dir.remove_file(b"lock");
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
            folds_forms: self.folds_forms(),
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

    /// Not where it takes no such name at all.
    fn folds_forms(&self) -> bool {
        let (composed, decomposed) = ("probe-\u{e9}".as_bytes(), "probe-e\u{301}".as_bytes());
        let _ = self.dir.create_new(composed, 0o600);
        let folds = self.dir.stat(decomposed).is_ok();
        let _ = self.dir.remove_file(composed);
        folds
    }
}

pub(super) fn lane_name(mark: u64, lane: u32) -> String {
    format!("lane-{mark:016x}-{lane}")
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

/// Removes a directory of ours in which there is nothing more. FUSE and NFS keep a hidden name for what was removed
/// while it was open, and their server hears only a moment later that it was closed. What somebody else has there by
/// now stays.
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

/// Opens or makes the directory in `top` that all our jobs share, with its name: the common one, or where somebody else
/// has that, one with our number, so that nobody keeps others out of a directory in which all may write. One with our
/// number that is there stays the one: in it is what an earlier attempt left.
pub(super) fn own_shared(top: &Dir) -> io::Result<(Vec<u8>, Dir)> {
    let own = own_name();
    // What somebody else called so keeps nobody from the common one.
    let has_own =
        top.stat(&own).is_ok_and(|stat| stat.kind == Kind::Dir && stat.uid == user::effective_uid());
    if !has_own {
        match own_dir(top, STAGING_NAME) {
            Ok(dir) => return Ok((STAGING_NAME.to_vec(), dir)),
            // The directory of somebody else, or what they put in its place.
            Err(error) if is_taken(&error) && top.stat(STAGING_NAME).is_ok() => {}
            // Theirs went meanwhile, or none may be made here.
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
        || is_errno(error, errno::LOOP)
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
    if stat.uid == user::effective_uid() && (is_new || stat.mode != 0o700) {
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
    let is_ours_alone = stat.uid == user::effective_uid() && stat.mode & 0o077 == 0;
    if stat.kind != Kind::Dir || !(is_ours_alone || is_closed_as_its_parent(parent, &dir, &stat)?) {
        if is_new {
            // The file system gives what we make to somebody else: it would keep the name from everybody.
            let _ = parent.remove_dir(name);
        }
        let cause = format!(
            "`{}` there belongs to user {}, who is somebody else, or is open to others",
            String::from_utf8_lossy(name),
            stat.uid
        );
        return Err(failure::io_because(io::ErrorKind::PermissionDenied, Reason::NotOurs, cause));
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
    fn a_staging_directory_of_somebody_else_is_his_and_ours_has_our_number() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let (common, own) = (scratch.path().join(".thalweg-staging"), own_name());
        std::os::unix::fs::symlink("/tmp", &common).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        assert!(staging.state.name == own && top.stat(&own).unwrap().kind == Kind::Dir);
        // It is found again, whatever becomes of the common one meanwhile.
        std::fs::remove_file(&common).unwrap();
        assert_eq!(Staging::open(&top, "job").unwrap().state.name, own);
        staging.discard(&top, "job", None);
        assert!(top.stat(&own).is_err());
        assert_eq!(Staging::open(&top, "job").unwrap().state.name, STAGING_NAME);
        if user::effective_uid() != 0 {
            eprintln!("skipped in part: needs root to give a directory away");
            return;
        }
        std::os::unix::fs::chown(&common, Some(12345), None).unwrap();
        assert_eq!(Staging::open(&top, "job").unwrap().state.name, own);
        // Nobody is taken for us because of a directory's name.
        let path = scratch.path().join(String::from_utf8(own).unwrap());
        std::os::unix::fs::chown(path, Some(12345), None).unwrap();
        let error = Staging::open(&top, "job").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("12345"), "{error}");
        assert_eq!(failure::of_io(OPEN_STAGING, &error).reason, Reason::NotOurs);
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
    fn two_attempts_of_a_job_that_are_at_work_at_the_same_time_make_nothing_under_the_same_name() {
        let made = [1, 2].map(|mark| Claim::new(&[7; 16], mark).made_name());
        assert_ne!(made[0], made[1]);
        assert_ne!(lane_name(1, 0), lane_name(2, 0));
    }

    #[test]
    fn what_is_closed_is_not_staged_in_any_more() {
        let claim = Claim::new(&[7; 16], 1);
        assert_eq!(claim.job, "07".repeat(16));
        assert_ne!(claim.new_number(), claim.new_number());
        drop(claim.while_open().unwrap());
        claim.close();
        assert_eq!(claim.while_open().map(drop).unwrap_err().kind, FailureKind::Stopped);
    }

    /// As by who looks in passing whether what a killed transfer left may go.
    #[test]
    fn a_lock_that_is_held_for_a_moment_is_waited_for_and_one_that_is_held_for_longer_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let (_, held) = Staging::locked(&top, "job").unwrap();
        assert_eq!(Staging::locked(&top, "job").err().unwrap().kind, FailureKind::Busy);
        let_go(Some(held));
        // However late the other thread comes: one of these attempts meets it in the middle.
        let waited = (0..100).any(|_| {
            let (_, held) = Staging::locked(&top, "job").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(2 * LOCK_PAUSE);
                    let_go(Some(held));
                });
                Staging::locked(&top, "job").is_ok()
            })
        });
        assert!(waited);
    }

    #[test]
    fn a_file_system_without_locks_is_said_to_have_none() {
        for (number, reason) in [
            (errno::NO_SYSTEM_CALL, Reason::NoLocks),
            (errno::NO_LOCKS, Reason::NoLocks),
            (errno::IO, Reason::DiskFailed),
        ] {
            assert_eq!(of_lock(&io::Error::from_raw_os_error(number)).reason, reason);
        }
    }

    /// However many are looked at after its name: the next one would come upon some of them.
    #[test]
    fn nobody_gets_the_lock_of_a_job_while_what_is_beside_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let (staging, held) = Staging::locked(&top, "job").unwrap();
        for number in 0..2000 {
            staging.dir.create_new(partial_name(number).as_bytes(), 0o600).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| staging.discard(&top, "job", Some(held)));
            let (next, _held) = loop {
                match Staging::locked(&top, "job") {
                    Ok(locked) => break locked,
                    Err(failure) => assert_eq!(failure.kind, FailureKind::Busy, "{failure}"),
                }
            };
            let names: Vec<_> = next.dir.entries().unwrap().map(|entry| entry.unwrap().name).collect();
            assert_eq!(names, [b"lock"]);
        });
    }

    #[test]
    fn what_is_left_of_small_files_goes_and_partials_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        own_dir(&staging.dir, b"lane-0").unwrap().create_new(b"1", 0o600).unwrap();
        staging.dir.create_new(b"partial-7", 0o600).unwrap();
        let staging = Staging::open(&top, "job").unwrap();
        staging.prepare().unwrap();
        assert!(staging.dir.stat(b"lane-0").is_err());
        assert_eq!(staging.partials().unwrap(), [7]);
        assert_eq!(staging.abilities().grain, Grain::FINEST);
    }
}
