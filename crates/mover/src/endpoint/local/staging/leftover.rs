//! Staging directories that no transfer uses any more: found, and removed if asked.
//!
//! A job's staging is in use while somebody holds the lock in it. Staging on other file systems of the same job has
//! no lock of its own: it goes with the one that has, and stays where none is found below the place, unless there has
//! been nothing in it for an hour.

use super::scratch::{is_scratch, open_lock};
use super::{let_go, remove_emptied};
use crate::endpoint::OPEN;
use crate::endpoint::local::walk::{Step, Walk};
use crate::endpoint::local::{failed, failed_at_words, is_staging};
use crate::failure::{Failure, Result};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_sys::{Dir, File, Kind, Links, Stat, Time, user};
use thalweg_wire::RelativePath;

/// What one job left in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The staging of the job, below the place.
    pub path: RelativePath,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Time since something of the job changed last, in whichever of its directories below the place; `None` if one of
    /// them cannot be looked at.
    pub age: Option<Duration>,
    /// What is to become of it.
    pub state: LeftoverState,
}

/// Whether a staging directory may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverState {
    /// A transfer uses it.
    InUse,
    /// Its lock is not below the place: nobody can say.
    Unknown,
    /// Nobody uses it. The next attempt of the same command would resume from it.
    Left,
    /// The same, and younger than what is to go.
    Recent,
    /// It was removed.
    Removed,
}

/// A directory without a lock in which nothing came or went for so long is not one between two files of a transfer.
const UNUSED: Duration = Duration::from_secs(3600);

/// Looks for staging directories at and below `path`, and removes those that nobody uses `now` if `remove`, of jobs of
/// which nothing has changed for `older_than`. What belongs to another user and is closed to this one is passed over.
///
/// # Errors
/// For the place itself; what could not be looked at or removed goes to `trouble`.
pub fn leftovers(
    path: &Path,
    remove: bool,
    older_than: Duration,
    now: SystemTime,
    trouble: &mut dyn FnMut(Failure),
) -> Result<Vec<Leftover>> {
    let root = Arc::new(Dir::open(path).map_err(|error| failed_at_words(OPEN, path, &error))?);
    let mut found = Vec::new();
    for staging in find(&root, trouble).map_err(|error| failed_at_words("list", path, &error))? {
        let jobs = root.open_beneath(staging.as_bytes(), Links::Refuse).and_then(|dir| {
            let names = dir.entries()?.collect::<io::Result<Vec<_>>>()?;
            Ok((dir, names))
        });
        match jobs {
            Ok((dir, names)) => {
                let dir = Arc::new(dir);
                if names.is_empty() && remove {
                    remove_empty(&root, &staging);
                }
                found.extend(names.into_iter().map(|entry| (staging.clone(), dir.clone(), entry.name)));
            }
            // Its owner's own `gc` cleans it up.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && is_of_another(&root, &staging) => {}
            Err(error) => trouble(failed(OPEN, &staging, &error)),
        }
    }
    // With its lock goes what keeps others from a job: after all that it guards.
    found.sort_by_cached_key(|(_, dir, job)| {
        dir.open_beneath(job, Links::Refuse).is_ok_and(|own| own.stat(b"lock").is_ok())
    });
    // Locks are taken here; those of what goes are held until the end.
    let mut held: HashMap<Vec<u8>, File> = HashMap::new();
    let mut in_use: HashSet<Vec<u8>> = HashSet::new();
    for (staging, dir, job) in &found {
        let lock = dir.open_beneath(job, Links::Refuse).and_then(|own| match is_scratch(job) {
            true => open_lock(&own),
            false => own.open_read_write(b"lock"),
        });
        match lock.and_then(|lock| Ok((lock.lock_exclusive()?, lock))) {
            Ok((true, lock)) => drop(held.insert(job.clone(), lock)),
            Ok((false, _)) => drop(in_use.insert(job.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => trouble(failed("lock", staging, &error)),
        }
    }
    let look = |(_, dir, job): &(RelativePath, Arc<Dir>, Vec<u8>)| {
        let looked =
            dir.open_beneath(job, Links::Refuse).and_then(|own| sweep(&Arc::new(own), false, &|| true));
        looked.unwrap_or_default()
    };
    let looked: Vec<Swept> = found.iter().map(look).collect();
    // A job goes as a whole, or its next attempt would find a part.
    let mut changed: HashMap<&[u8], Option<Time>> = HashMap::new();
    for ((_, _, job), looked) in found.iter().zip(&looked) {
        let last = changed.entry(job.as_slice()).or_insert(looked.changed);
        *last = last.zip(looked.changed).map(|(one, other)| one.max(other));
    }
    let age_of = |job: &[u8]| changed.get(job).copied().flatten().map(|last| since(last, now));
    let is_old = |job: &[u8]| older_than.is_zero() || age_of(job).is_some_and(|age| age >= older_than);
    // What stays is its next attempt's at once, however long the rest takes to remove.
    let free: HashSet<Vec<u8>> = held.keys().cloned().collect();
    let (held, stay): (HashMap<_, _>, HashMap<_, _>) =
        held.into_iter().partition(|(job, _)| remove && is_old(job));
    stay.into_values().for_each(|lock| let_go(Some(lock)));
    let mut left: Vec<Leftover> = Vec::new();
    let mut emptied = Vec::new();
    for ((staging, dir, job), looked) in found.iter().zip(&looked) {
        let path = staging.join(job).unwrap_or_else(|_| staging.clone());
        let mut state = match (in_use.contains(job), free.contains(job)) {
            (true, _) => LeftoverState::InUse,
            (false, true) => LeftoverState::Left,
            (false, false) if is_unused(dir, job, now) => LeftoverState::Left,
            (false, false) => LeftoverState::Unknown,
        };
        if state == LeftoverState::Left && !is_old(job) {
            state = LeftoverState::Recent;
        }
        if remove && state == LeftoverState::Left {
            // Without the lock nothing in it is ours to remove.
            let swept = match held.contains_key(job) {
                true => {
                    let own = dir.open_beneath(job, Links::Refuse);
                    own.and_then(|own| sweep(&Arc::new(own), true, &|| true))
                }
                false => Ok(Swept::default()),
            };
            let removed = swept.and_then(|_| dir.remove_dir(job));
            match removed {
                Ok(()) => {
                    state = LeftoverState::Removed;
                    remove_empty(&root, staging);
                }
                // Its lock, which we hold: FUSE and NFS keep a hidden name for it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    emptied.push((left.len(), staging, dir, job));
                }
                Err(error) => trouble(failed("remove", &path, &error)),
            }
        }
        left.push(Leftover { path, bytes: looked.bytes, age: age_of(job), state });
    }
    drop(held);
    for (at, staging, dir, job) in emptied {
        match remove_emptied(dir, job) {
            Ok(()) => {
                left[at].state = LeftoverState::Removed;
                remove_empty(&root, staging);
            }
            Err(error) => trouble(failed("remove", &left[at].path, &error)),
        }
    }
    left.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    Ok(left)
}

/// Whether nothing is in a job's directory, and has not been for long.
fn is_unused(dir: &Dir, job: &[u8], now: SystemTime) -> bool {
    let Ok(own) = dir.open_beneath(job, Links::Refuse) else { return false };
    let is_empty =
        own.entries().and_then(|mut names| names.next().transpose()).is_ok_and(|first| first.is_none());
    is_empty && own.stat_self().is_ok_and(|stat| since(stat.mtime, now) >= UNUSED)
}

/// How long that is ago; of what is to come, nothing.
fn since(at: Time, now: SystemTime) -> Duration {
    let at = Duration::new(u64::try_from(at.seconds).unwrap_or(0), at.nanos);
    UNIX_EPOCH.checked_add(at).and_then(|at| now.duration_since(at).ok()).unwrap_or(Duration::ZERO)
}

fn is_of_another(root: &Dir, staging: &RelativePath) -> bool {
    let stat = root.open_beneath(staging.as_bytes(), Links::Refuse).and_then(|dir| dir.stat_self());
    stat.is_ok_and(|stat| stat.uid != user::effective_uid())
}

/// Paths of the staging directories.
fn find(root: &Arc<Dir>, trouble: &mut dyn FnMut(Failure)) -> io::Result<Vec<RelativePath>> {
    let reopen = |path: &[u8]| root.open_beneath(path, Links::Refuse);
    let mut walk = Walk::new(Box::new(reopen));
    walk.enter(b"", root.clone())?;
    let mut found = Vec::new();
    loop {
        match walk.next() {
            Step::End => return Ok(found),
            Step::Left(_) => {}
            Step::Trouble(error) => {
                trouble(failed("list", &RelativePath::new(walk.path().to_vec()).unwrap_or_default(), &error));
            }
            Step::Name(name, Kind::Dir | Kind::Unknown) => {
                let Ok(path) = RelativePath::new(walk.path_of(&name)) else { continue };
                let child = walk.dir().and_then(|dir| match dir.stat(&name)?.kind {
                    Kind::Dir => dir.open_beneath(&name, Links::Refuse).map(Some),
                    _ => Ok(None),
                });
                match child {
                    Ok(Some(_)) if is_staging(&name) => found.push(path),
                    Ok(Some(child)) => {
                        if let Err(error) = walk.enter(&name, Arc::new(child)) {
                            trouble(failed("list", &path, &error));
                        }
                    }
                    Ok(None) => {}
                    Err(error) => trouble(failed(OPEN, &path, &error)),
                }
            }
            Step::Name(..) => {}
        }
    }
}

/// What was in a directory of ours.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::endpoint::local) struct Swept {
    bytes: u64,
    /// When it or something in it changed last, by the kernel's own time of that: that of content is the source's where
    /// a file is about to get its name. `None`: nobody looked.
    changed: Option<Time>,
}

/// Looks at what is in a directory of ours, or removes it, however deep it is. A lock in it goes last: a process that
/// finds none makes its own, and something beside it.
///
/// `goes_on` is asked before each step.
///
/// # Errors
/// Of the first that cannot be listed, looked at or removed, and `Interrupted` where `goes_on` said `false`; the rest
/// stays.
pub(in crate::endpoint::local) fn sweep(
    dir: &Arc<Dir>,
    remove: bool,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<Swept> {
    let mut swept = Swept { bytes: 0, changed: dir.stat_self().ok().map(|stat| stat.ctime) };
    let mut walk = Walk::new(Box::new(|path: &[u8]| dir.open_beneath(path, Links::Refuse)));
    walk.enter(b"", dir.clone())?;
    let mut has_lock = false;
    loop {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match walk.next() {
            Step::End if has_lock => return dir.remove_file(b"lock").map(|()| swept),
            Step::End => return Ok(swept),
            Step::Trouble(error) => return Err(error),
            Step::Left(name) if remove && walk.depth() > 0 => walk.dir()?.remove_dir(&name)?,
            Step::Left(_) => {}
            Step::Name(name, _) => {
                let here = walk.dir()?;
                let stat = here.stat(&name)?;
                swept.changed = swept.changed.max(Some(stat.ctime));
                if stat.kind == Kind::Dir {
                    if remove {
                        open_for_us(&here, &name, &stat)?;
                    }
                    walk.enter(&name, Arc::new(here.open_beneath(&name, Links::Refuse)?))?;
                } else {
                    swept.bytes += stat.blocks_512.saturating_mul(512);
                    if remove && walk.depth() == 1 && name == b"lock" {
                        has_lock = true;
                    } else if remove {
                        here.remove_file(&name)?;
                    }
                }
            }
        }
    }
}

/// Removes what has this name, a directory of ours with all that is in it, however deep it is, and also where we may
/// change nothing; none is as good. A lock in it goes last.
///
/// # Errors
/// Of the first that cannot be listed, looked at or removed; the rest stays.
pub fn remove_tree(parent: &Dir, name: &[u8]) -> io::Result<()> {
    let stat = match parent.stat(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if stat.kind != Kind::Dir {
        return parent.remove_file(name);
    }
    open_for_us(parent, name, &stat)?;
    sweep(&Arc::new(parent.open_beneath(name, Links::Refuse)?), true, &|| true)?;
    remove_emptied(parent, name)
}

/// Bytes that a directory takes with all that is in it, however deep it is, as far as it can be looked at.
pub fn bytes_taken(dir: &Arc<Dir>) -> u64 {
    let bytes_of = |stat: Stat| stat.blocks_512.saturating_mul(512);
    let mut bytes = dir.stat_self().map_or(0, bytes_of);
    let mut walk = Walk::new(Box::new(|path: &[u8]| dir.open_beneath(path, Links::Refuse)));
    if walk.enter(b"", dir.clone()).is_err() {
        return bytes;
    }
    loop {
        match walk.next() {
            Step::End => return bytes,
            Step::Trouble(_) | Step::Left(_) => {}
            Step::Name(name, _) => {
                let Ok(here) = walk.dir() else { continue };
                let Ok(stat) = here.stat(&name) else { continue };
                bytes = bytes.saturating_add(bytes_of(stat));
                if stat.kind == Kind::Dir
                    && let Ok(below) = here.open_beneath(&name, Links::Refuse)
                {
                    // What cannot be listed has no bytes that we know of.
                    let _ = walk.enter(&name, Arc::new(below));
                }
            }
        }
    }
}

/// Entries of a tree, itself with them, as far as it can be listed, without what is unfinished in it. Of more than
/// `most` only so many are counted.
pub(in crate::endpoint::local) fn entries_in(parent: &Dir, name: &[u8], most: u64) -> u64 {
    let mut count = most.min(1);
    let is_dir = parent.stat(name).is_ok_and(|stat| stat.kind == Kind::Dir);
    let Some(dir) = is_dir.then(|| parent.open_beneath(name, Links::Refuse).ok()).flatten() else {
        return count;
    };
    let dir = Arc::new(dir);
    let mut walk = Walk::new(Box::new(|path: &[u8]| dir.open_beneath(path, Links::Refuse)));
    if walk.enter(b"", dir.clone()).is_err() {
        return count;
    }
    while count < most {
        match walk.next() {
            Step::End => break,
            Step::Trouble(_) | Step::Left(_) => {}
            Step::Name(name, _) if is_staging(&name) => {}
            Step::Name(name, _) => {
                count += 1;
                let Ok(here) = walk.dir() else { continue };
                if here.stat(&name).is_ok_and(|stat| stat.kind == Kind::Dir)
                    && let Ok(below) = here.open_beneath(&name, Links::Refuse)
                {
                    // What cannot be listed has no entries that we know of.
                    let _ = walk.enter(&name, Arc::new(below));
                }
            }
        }
    }
    count
}

/// A directory of our own in which we may change nothing is opened, if it is to be emptied, or something in it moved.
/// Returns whether it was.
///
/// # Errors
/// What the kernel says.
pub fn open_for_us(parent: &Dir, name: &[u8], stat: &Stat) -> io::Result<bool> {
    let us = user::effective_uid();
    let is_closed = us != 0 && stat.uid == us && stat.mode & 0o700 != 0o700;
    if is_closed {
        parent.set_mode(name, stat.mode | 0o700)?;
    }
    Ok(is_closed)
}

/// Removes a staging directory if no job is left in it.
fn remove_empty(root: &Dir, staging: &RelativePath) {
    if let Some((parent, name)) = staging.split()
        && let Ok(parent) = root.open_beneath(parent, Links::Refuse)
    {
        let _ = parent.remove_dir(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::staging::Staging;
    use std::os::unix::fs::MetadataExt;

    /// As on another file system, which is come upon later.
    #[test]
    fn nobody_gets_the_lock_of_a_job_while_what_it_left_elsewhere_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let elsewhere = scratch.path().join("elsewhere/.thalweg-staging/job");
        std::fs::create_dir_all(&elsewhere).unwrap();
        for number in 0..2000 {
            std::fs::write(elsewhere.join(format!("partial-{number}")), "").unwrap();
        }
        let (staging, held) = Staging::locked(&top, "job").unwrap();
        let_go(Some(held));
        let has_begun = || {
            let is_whole = std::fs::read_dir(&elsewhere).is_ok_and(|names| names.count() == 2000);
            !is_whole || staging.dir.stat(b"lock").is_err()
        };
        let now = SystemTime::now();
        std::thread::scope(|scope| {
            // That a lock is there again is told as what could not be removed.
            scope.spawn(|| leftovers(scratch.path(), true, Duration::ZERO, now, &mut |_| {}).unwrap());
            while !has_begun() {
                std::thread::yield_now();
            }
            while Staging::locked(&top, "job").is_err() {
                std::thread::yield_now();
            }
            assert!(!elsewhere.exists());
        });
    }

    #[test]
    fn a_tree_that_is_longer_than_a_path_may_be_goes_also_where_we_may_change_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let below = |parent: &Dir, name: &[u8]| {
            parent.make_dir(name, 0o700).unwrap();
            parent.open_beneath(name, Links::Refuse).unwrap()
        };
        let mut dir = below(&top, b"tree");
        for _ in 0..2500 {
            dir = below(&dir, b"d");
        }
        let closed = below(&dir, b"closed");
        closed.create_new(b"file", 0o600).unwrap().write_all_at(&[1; 9000], 0).unwrap();
        let taken = |top: &Dir| bytes_taken(&Arc::new(top.try_clone().unwrap()));
        assert!(taken(&top) >= 9000);
        dir.set_mode(b"closed", 0o555).unwrap();
        remove_tree(&top, b"tree").unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        remove_tree(&top, b"tree").unwrap();
    }

    /// To remove a large one takes minutes.
    #[test]
    fn a_job_that_is_left_can_be_resumed_while_an_older_one_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Dir::open(scratch.path()).unwrap();
        let [old, recent] = ["old", "recent"].map(|job| {
            let (staging, held) = Staging::locked(&top, job).unwrap();
            let_go(Some(held));
            staging
        });
        let path = |name: &str| scratch.path().join(".thalweg-staging").join(name);
        let changed = |name: &str| {
            let meta = std::fs::metadata(path(name)).unwrap();
            UNIX_EPOCH + Duration::new(meta.ctime() as u64, meta.ctime_nsec() as u32)
        };
        for number in 0..2000 {
            std::fs::write(path(&format!("old/partial-{number}")), "").unwrap();
        }
        let last = changed("old").max(changed("old/partial-1999"));
        std::fs::write(path("recent/partial-1"), "x").unwrap();
        while changed("recent/partial-1") <= last {
            std::thread::yield_now();
            std::fs::write(path("recent/partial-1"), "x").unwrap();
        }
        let lock = recent.dir.open_read_write(b"lock").unwrap();
        let count = || std::fs::read_dir(path("old")).map_or(0, Iterator::count);
        let whole = count();
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| {
                leftovers(scratch.path(), true, UNUSED, last + UNUSED, &mut |failure| panic!("{failure}"))
            });
            while count() == whole {
                std::thread::yield_now();
            }
            assert!(lock.lock_exclusive().unwrap());
            let left = removing.join().unwrap().unwrap();
            let states: Vec<_> = left.into_iter().map(|left| left.state).collect();
            assert_eq!(states, [LeftoverState::Removed, LeftoverState::Recent]);
        });
        assert!(old.dir.stat(b"lock").is_err() && path("recent/partial-1").exists());
    }

    /// What a transfer was killed over, or a file system kept as long as a handle was open.
    #[test]
    fn a_job_s_directory_with_nothing_in_it_is_left_and_goes_and_one_with_something_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let staging = scratch.path().join(".thalweg-staging");
        std::fs::create_dir_all(staging.join("empty")).unwrap();
        std::fs::create_dir_all(staging.join("full")).unwrap();
        std::fs::write(staging.join("full/partial-1"), "x").unwrap();
        let states_at = |remove, now| {
            let left =
                leftovers(scratch.path(), remove, Duration::ZERO, now, &mut |failure| panic!("{failure}"));
            let mut left = left.unwrap();
            left.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
            left.into_iter().map(|left| left.state).collect::<Vec<_>>()
        };
        let states = |remove| states_at(remove, SystemTime::now() + UNUSED);
        // Between two of its files that of a transfer is as empty.
        assert_eq!(states_at(true, SystemTime::now()), [LeftoverState::Unknown; 2]);
        assert_eq!(states(false), [LeftoverState::Left, LeftoverState::Unknown]);
        assert_eq!(states(true), [LeftoverState::Removed, LeftoverState::Unknown]);
        assert!(!staging.join("empty").exists() && staging.join("full/partial-1").exists());
        std::fs::remove_dir_all(staging.join("full")).unwrap();
        std::fs::create_dir(staging.join("empty")).unwrap();
        assert_eq!(states(true), [LeftoverState::Removed]);
        assert!(!staging.exists());
    }

    /// Its next attempt would go on from all of it.
    #[test]
    fn a_job_goes_as_a_whole_when_nothing_of_it_has_changed_for_as_long_as_is_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| scratch.path().join(name).join(".thalweg-staging/job"));
        for own in [&first, &second] {
            std::fs::create_dir_all(own).unwrap();
        }
        std::fs::write(first.join("lock"), "").unwrap();
        let partial = std::fs::File::create(second.join("partial-1")).unwrap();
        let changed = |file: &std::fs::File| {
            let meta = file.metadata().unwrap();
            UNIX_EPOCH + Duration::new(meta.ctime() as u64, meta.ctime_nsec() as u32)
        };
        let before = changed(&std::fs::File::open(&first).unwrap());
        // As where it has its times already, and waits for its name.
        let set_times = || {
            partial.set_modified(UNIX_EPOCH).unwrap();
            changed(&partial)
        };
        let mut last = set_times();
        while last <= before {
            std::thread::yield_now();
            last = set_times();
        }
        let looked = |remove, now| {
            let left = leftovers(scratch.path(), remove, UNUSED, now, &mut |failure| panic!("{failure}"));
            left.unwrap().into_iter().map(|left| (left.state, left.age.unwrap())).collect::<Vec<_>>()
        };
        let moment = Duration::from_nanos(1);
        let young = [(LeftoverState::Recent, UNUSED - moment); 2];
        assert_eq!(looked(false, last + UNUSED - moment), young);
        assert_eq!(looked(true, last + UNUSED - moment), young);
        assert!(first.join("lock").exists() && second.join("partial-1").exists());
        assert_eq!(looked(false, last + UNUSED), [(LeftoverState::Left, UNUSED); 2]);
        assert_eq!(looked(true, last + UNUSED), [(LeftoverState::Removed, UNUSED); 2]);
        assert!(!first.exists() && !second.exists());
        // A clock that is set back makes nothing old.
        std::fs::create_dir_all(&first).unwrap();
        std::fs::write(first.join("lock"), "").unwrap();
        assert_eq!(looked(true, UNIX_EPOCH), [(LeftoverState::Recent, Duration::ZERO)]);
    }
}
