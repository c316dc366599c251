//! Parts of a destination that renames do not leave: file systems, and what hands something else down than its file
//! system's top directory does. In the top directory of each is a staging directory.
//!
//! Where each user's directory is a project, or a file system, there are as many of them: beside the root's only the
//! [`OPEN_MAX`] used last are held open. Another one is opened again, and is as it was.

use super::leftover::open_for_us;
use super::{Abilities, Staging, State};
use crate::endpoint::local::held::Held;
use crate::endpoint::local::{leads_nowhere, lock};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_sys::{Dir, File, FileSystemKind, Inheritance, Links, Stat, Time, user};
use thalweg_wire::path::Escaped;

/// A file system that is mounted at the root or below it.
pub(in crate::endpoint::local) struct Mount {
    pub(in crate::endpoint::local) key: MountKey,
    kind: FileSystemKind,
    /// What its top directory hands down, and almost all others.
    pub(super) inheritance: Inheritance,
    /// Its top directory below the root. Opened before anything is written there, so that its sync reports
    /// every error since.
    pub(in crate::endpoint::local) top: Arc<Dir>,
    /// Something was written that no sync covers yet.
    pub(in crate::endpoint::local) is_dirty: AtomicBool,
    /// What stood there before us was synced by us.
    pub(in crate::endpoint::local) past_is_durable: AtomicBool,
}

/// Device and mount: a bind mount shares its device, and renames do not cross it all the same.
pub(in crate::endpoint::local) type MountKey = (u64, Option<u64>);

pub(in crate::endpoint::local) fn key_of(stat: &Stat) -> MountKey {
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
    pub(in crate::endpoint::local) fn inheritance_of(&self, dir: &Dir) -> Inheritance {
        inheritance_of(dir, self.kind)
    }
}

/// Of a directory that may not be read nobody can say it: nothing, as of almost all.
fn inheritance_of(dir: &Dir, kind: FileSystemKind) -> Inheritance {
    dir.inheritance(kind).unwrap_or_default()
}

/// One file system below the root, as far as renames reach and what is made gets the same as in its top directory.
pub(in crate::endpoint::local) struct Territory {
    pub(in crate::endpoint::local) key: TerritoryKey,
    pub(in crate::endpoint::local) mount: Arc<Mount>,
    /// What its directories hand down to what is made in them.
    pub(in crate::endpoint::local) inheritance: Inheritance,
    /// The path of its top directory below the root, in which its staging directory is.
    pub(in crate::endpoint::local) path: Vec<u8>,
    /// Of that directory.
    inode: u64,
    /// Of its staging directory, among those of a destination.
    pub(super) number: usize,
    /// What it looked like before us.
    pub(in crate::endpoint::local) top_mtime: Time,
    /// The entry of the top directory will be given its times at the end; until then ours do not matter.
    pub(in crate::endpoint::local) top_is_changed: AtomicBool,
    /// One call syncs all of its file system; otherwise each file and directory must be synced by itself.
    pub(in crate::endpoint::local) syncs_whole: bool,
    /// The top directory's own mode, where it was opened for us for the time being.
    pub(in crate::endpoint::local) mode_before: Mutex<Option<u32>>,
    common: Arc<Common>,
    staging: Mutex<Option<Known>>,
    /// Held while the names in the staging directory are synced: who finds none that is new counts on it.
    syncing: Mutex<()>,
}

/// Staging directories held open beside the root's, with their top directories: three descriptors each. More than
/// streams are usually in at once.
const OPEN_MAX: usize = 32;

/// What the territories of a destination have in common.
struct Common {
    root: Arc<Dir>,
    /// By number.
    open: Held<Open>,
    /// Numbers that were given.
    numbers: AtomicUsize,
}

/// A staging directory, and the one that it is in.
struct Open {
    top: Arc<Dir>,
    staging: Arc<Staging>,
}

/// A staging directory that this transfer opened at some time.
struct Known {
    state: Arc<State>,
    /// The root's stays open.
    open: Option<Arc<Open>>,
}

/// A territory is that of a mount's top directory, and of all on the mount that hand the same down; or that of one
/// which hands something else down than that, and of those below it that do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::endpoint::local) struct TerritoryKey {
    pub(in crate::endpoint::local) mount: MountKey,
    /// Inode of its top directory, where that is not the mount's. By itself, not by what it hands down: the next
    /// attempt may meet two that are alike in another order, and has to find what this one left.
    apart: Option<u64>,
}

impl TerritoryKey {
    /// Of what is like the mount's top directory.
    pub(in crate::endpoint::local) fn of_mount(mount: &Mount) -> TerritoryKey {
        TerritoryKey { mount: mount.key, apart: None }
    }
}

impl Territory {
    /// That of the root.
    pub(in crate::endpoint::local) fn new(top: Arc<Dir>, stat: &Stat) -> Territory {
        let mount = Arc::new(Mount::new(top.clone(), stat));
        let (open, numbers) = (Held::with_max(OPEN_MAX), AtomicUsize::new(0));
        let common = Arc::new(Common { root: top, open, numbers });
        Territory::of(common, mount.clone(), mount.inheritance, b"", stat)
    }

    /// One whose top directory is at `path` below the root, which is in this one, and hands that down.
    pub(in crate::endpoint::local) fn below(
        &self,
        mount: Arc<Mount>,
        inheritance: Inheritance,
        path: &[u8],
        stat: &Stat,
    ) -> Territory {
        Territory::of(self.common.clone(), mount, inheritance, path, stat)
    }

    fn of(
        common: Arc<Common>,
        mount: Arc<Mount>,
        inheritance: Inheritance,
        path: &[u8],
        stat: &Stat,
    ) -> Territory {
        let apart = (inheritance != mount.inheritance).then_some(stat.inode);
        Territory {
            key: TerritoryKey { apart, ..TerritoryKey::of_mount(&mount) },
            inheritance,
            syncs_whole: mount.kind.syncs_whole(),
            mount,
            path: path.to_vec(),
            inode: stat.inode,
            // The root's is 0.
            number: common.numbers.fetch_add(1, Ordering::Relaxed),
            common,
            top_mtime: stat.mtime,
            top_is_changed: AtomicBool::new(false),
            mode_before: Mutex::new(None),
            staging: Mutex::new(None),
            syncing: Mutex::default(),
        }
    }

    pub(in crate::endpoint::local) fn touch(&self) {
        self.mount.is_dirty.store(true, Ordering::Release);
    }

    /// Whether this is its top directory.
    pub(in crate::endpoint::local) fn is_top(&self, stat: &Stat) -> bool {
        key_of(stat) == self.key.mount && stat.inode == self.inode
    }

    /// Its top directory.
    fn top(&self) -> io::Result<Arc<Dir>> {
        if self.path.is_empty() {
            return Ok(self.common.root.clone());
        }
        let top = self.common.root.open_beneath(&self.path, Links::Refuse)?;
        match self.is_top(&top.stat_self()?) {
            true => Ok(Arc::new(top)),
            false => {
                let cause = "the directory that its staging directory is in was replaced";
                Err(io::Error::new(io::ErrorKind::NotFound, cause))
            }
        }
    }

    /// The staging directory here, made if it is not there. `is_new` sees it before anyone else does.
    ///
    /// Only for who holds the job's lock: what small files an earlier attempt left is removed.
    pub(in crate::endpoint::local) fn staging(
        &self,
        job: &str,
        is_new: impl FnOnce(&Staging),
    ) -> io::Result<Arc<Staging>> {
        let mut known = lock(&self.staging);
        if let Some(known) = &*known {
            return self.opened(known, job).map(|open| open.staging.clone());
        }
        let top = self.top()?;
        let opened = match Staging::numbered(&top, job, self.number) {
            // Another job just removed what they share.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Staging::numbered(&top, job, self.number)?
            }
            other => other?,
        };
        opened.prepare()?;
        is_new(&opened);
        Ok(self.know(&mut known, top, opened))
    }

    /// Takes over a staging directory that was opened to get at the lock in it: the root's.
    pub(in crate::endpoint::local) fn adopt(&self, staging: Staging) -> Arc<Staging> {
        self.know(&mut lock(&self.staging), self.common.root.clone(), staging)
    }

    fn know(&self, known: &mut Option<Known>, top: Arc<Dir>, staging: Staging) -> Arc<Staging> {
        let staging = Arc::new(staging);
        let open = Arc::new(Open { top, staging: staging.clone() });
        let is_root = self.path.is_empty();
        if !is_root {
            self.common.open.put(&self.number.to_le_bytes(), open.clone());
        }
        *known = Some(Known { state: staging.state().clone(), open: is_root.then_some(open) });
        self.touch();
        staging
    }

    /// What is known, opened again where it was let go of.
    fn opened(&self, known: &Known, job: &str) -> io::Result<Arc<Open>> {
        if let Some(open) = &known.open {
            return Ok(open.clone());
        }
        self.common.open.get_or(&self.number.to_le_bytes(), || {
            let top = self.top()?;
            let staging = Arc::new(Staging::again(&top, job, &known.state)?);
            Ok(Open { top, staging })
        })
    }

    /// The root's staging directory, which is open all the time.
    pub(in crate::endpoint::local) fn open_staging(&self) -> Option<Arc<Staging>> {
        lock(&self.staging).as_ref()?.open.as_ref().map(|open| open.staging.clone())
    }

    /// The staging directory here; `None` if this transfer has none.
    pub(in crate::endpoint::local) fn staging_again(&self, job: &str) -> io::Result<Option<Arc<Staging>>> {
        match &*lock(&self.staging) {
            Some(known) => self.opened(known, job).map(|open| Some(open.staging.clone())),
            None => Ok(None),
        }
    }

    /// Whether this transfer has a staging directory here.
    pub(super) fn has_staging(&self) -> bool {
        lock(&self.staging).is_some()
    }

    /// Whether something was set aside in the staging directory, by this attempt or an earlier one.
    pub(in crate::endpoint::local) fn has_asides(&self) -> bool {
        let known = lock(&self.staging);
        known.as_ref().is_some_and(|known| known.state.has_asides.load(Ordering::Acquire))
    }

    /// What the file system does; `None` before it was tried.
    pub(in crate::endpoint::local) fn abilities(&self) -> Option<Abilities> {
        lock(&self.staging).as_ref().map(|known| known.state.abilities())
    }

    /// Syncs the names in the staging directory that are new, and its own. Streams go on staging in it meanwhile.
    ///
    /// One that was let go of, and is not where it was any more or is closed to us by now, is left as it is: the next
    /// attempt does not come upon it either, and has what is in it sent anew. What is to be placed from there fails by
    /// itself.
    pub(in crate::endpoint::local) fn sync_names(&self, job: &str) -> io::Result<()> {
        let _syncing = lock(&self.syncing);
        let open = {
            let known = lock(&self.staging);
            let Some(known) = &*known else { return Ok(()) };
            if !known.state.names_are_new.load(Ordering::Acquire) {
                return Ok(());
            }
            let open = match self.opened(known, job) {
                Err(error) if leads_nowhere(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
                    let path = Escaped(&self.path);
                    tracing::debug!(%error, %path, "a staging directory is out of reach");
                    return Ok(());
                }
                other => other?,
            };
            // Cleared before: what is new from here on is for the next one.
            known.state.names_are_new.store(false, Ordering::Release);
            open
        };
        let synced = open.staging.sync_names().and_then(|()| open.top.sync());
        if synced.is_err() {
            open.staging.names_changed();
        }
        synced
    }

    /// Removes the staging directory with all that is in it, and gives the top directory the time it had if
    /// nothing else was done there. `times`: what its entry says, if it has one. `held`: the job's lock, where it is in
    /// this one.
    pub(in crate::endpoint::local) fn clean_up(&self, job: &str, times: Option<Time>, held: Option<File>) {
        let Some(known) = lock(&self.staging).take() else { return };
        let mut way = Ajar::default();
        let opened = match self.opened(&known, job) {
            // By now the way to it may have got modes that keep ourselves out.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                way.open(&self.common.root, &self.path).and_then(|()| self.opened(&known, job))
            }
            other => other,
        };
        let open = match opened {
            Ok(open) => open,
            Err(error) => {
                let path = Escaped(&self.path);
                tracing::warn!(%error, %path, "a staging directory stays");
                return;
            }
        };
        let top = &open.top;
        // By now it may have got a mode that keeps ourselves out.
        let mode = top.stat_self().ok().filter(|stat| stat.uid == user::effective_uid()).map(|s| s.mode);
        let closed = mode.filter(|mode| mode & 0o300 != 0o300 && user::effective_uid() != 0);
        let set_mode = |mode| top.as_file().and_then(|top| top.set_mode(mode));
        if let Some(mode) = closed {
            let _ = set_mode(mode | 0o300);
        }
        self.remove(&open, job, times, held);
        drop(way);
        if let Some(mode) = closed.or(lock(&self.mode_before).take()) {
            let _ = set_mode(mode);
        }
        let _ = top.sync();
    }

    /// Gives the top directory its own mode again, if it was opened for us for the time being.
    pub(in crate::endpoint::local) fn close_top(&self) {
        if let Some(mode) = lock(&self.mode_before).take()
            && let Ok(top) = self.top()
        {
            let _ = top.as_file().and_then(|top| top.set_mode(mode));
            let _ = top.sync();
        }
    }

    fn remove(&self, open: &Open, job: &str, times: Option<Time>, held: Option<File>) {
        open.staging.remove_own(job, held);
        let remove = || open.top.remove_dir(&open.staging.state().name);
        let mut closed = None;
        let removed = match remove() {
            // By now another part of the same copy may have given it its mode.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                closed = opened_again(&open.top);
                remove()
            }
            removed => removed,
        };
        // Other jobs may have theirs in it.
        if removed.is_ok() {
            self.give_times(open, times);
        }
        if let Some(mode) = closed {
            let _ = open.top.as_file().and_then(|top| top.set_mode(mode));
        }
    }

    fn give_times(&self, open: &Open, times: Option<Time>) {
        let before = (!self.top_is_changed.load(Ordering::Acquire)).then_some(self.top_mtime);
        if let Some(mtime) = times.or(before)
            && let Ok(top) = open.top.as_file()
        {
            let _ = top.set_times(None, Some(mtime));
        }
    }
}

/// Opens a top directory of our own for us for the time being; its mode, if it was closed.
fn opened_again(top: &Dir) -> Option<u32> {
    let stat = top.stat_self().ok()?;
    let is_closed = stat.uid == user::effective_uid() && stat.mode & 0o300 != 0o300;
    let opened = is_closed.then(|| top.as_file().and_then(|top| top.set_mode(stat.mode | 0o300)))?;
    opened.ok().map(|()| stat.mode)
}

/// Directories of our own that were opened for us for the time being, each with its own mode, which it gets again.
#[derive(Default)]
struct Ajar(Vec<(Arc<Dir>, u32)>);

impl Ajar {
    /// Opens what is closed to us of the directories from `root` down to `path`.
    fn open(&mut self, root: &Arc<Dir>, path: &[u8]) -> io::Result<()> {
        let stat = root.stat_self()?;
        if stat.uid == user::effective_uid() && stat.mode & 0o700 != 0o700 {
            root.as_file()?.set_mode(stat.mode | 0o700)?;
            self.0.push((root.clone(), stat.mode));
        }
        let mut parent = root.clone();
        for name in path.split(|&byte| byte == b'/') {
            let stat = parent.stat(name)?;
            let is_opened = open_for_us(&parent, name, &stat)?;
            let opened = parent.open_beneath(name, Links::Refuse);
            if is_opened && opened.is_err() {
                let _ = parent.set_mode(name, stat.mode);
            }
            parent = Arc::new(opened?);
            if is_opened {
                self.0.push((parent.clone(), stat.mode));
            }
        }
        Ok(())
    }
}

impl Drop for Ajar {
    fn drop(&mut self) {
        for (dir, mode) in self.0.drain(..) {
            let closed = dir.as_file().and_then(|file| file.set_mode(mode)).and_then(|()| dir.sync());
            if let Err(error) = closed {
                tracing::warn!(%error, "a directory does not get its mode again");
            }
        }
    }
}

/// Also where a destination could not be opened.
impl Drop for Territory {
    fn drop(&mut self) {
        self.close_top();
    }
}

/// The file systems that one transfer works in, and the territories on them.
#[derive(Default)]
pub(in crate::endpoint::local) struct Territories {
    mounts: Mutex<HashMap<MountKey, Arc<Mount>>>,
    all: Mutex<HashMap<TerritoryKey, Arc<Territory>>>,
}

impl Territories {
    /// Begins with that of the root.
    pub(in crate::endpoint::local) fn begin(&self, root: &Arc<Territory>) {
        lock(&self.mounts).insert(root.mount.key, root.mount.clone());
        lock(&self.all).insert(root.key, root.clone());
    }

    /// The territory of a directory that inherits what the top of its mount does, if it is known.
    pub(in crate::endpoint::local) fn of_whole_mount(
        &self,
        dir: &Dir,
        stat: &Stat,
    ) -> Option<Arc<Territory>> {
        let mount = lock(&self.mounts).get(&key_of(stat)).cloned();
        let mount = mount.filter(|mount| mount.inheritance_of(dir) == mount.inheritance)?;
        self.of_mount(&mount)
    }

    /// The mount that a directory is on. The first one that is seen of it counts as its top.
    pub(in crate::endpoint::local) fn mount(&self, dir: &Arc<Dir>, stat: &Stat) -> Arc<Mount> {
        let mut mounts = lock(&self.mounts);
        let mount = mounts.entry(key_of(stat));
        mount.or_insert_with(|| Arc::new(Mount::new(dir.clone(), stat))).clone()
    }

    /// Adds one. Another thread may have made it meanwhile: of two each would clear what is in the other's
    /// staging.
    pub(in crate::endpoint::local) fn add(&self, territory: Territory) -> Arc<Territory> {
        let territory = Arc::new(territory);
        lock(&self.all).entry(territory.key).or_insert(territory).clone()
    }

    /// The one that reaches as far as its mount does.
    pub(in crate::endpoint::local) fn of_mount(&self, mount: &Mount) -> Option<Arc<Territory>> {
        lock(&self.all).get(&TerritoryKey::of_mount(mount)).cloned()
    }

    /// All that were worked in.
    pub(in crate::endpoint::local) fn all(&self) -> Vec<Arc<Territory>> {
        lock(&self.all).values().cloned().collect()
    }

    /// The one whose staging directory has this number.
    pub(in crate::endpoint::local) fn numbered(&self, staging: usize) -> Option<Arc<Territory>> {
        lock(&self.all).values().find(|territory| territory.number == staging).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::staging::own_dir;

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

    /// So many that the first of them are let go of, each with its staging directory, and named by its number.
    fn many(scratch: &std::path::Path, top: &Arc<Dir>) -> Vec<Territory> {
        let root = Territory::new(top.clone(), &top.stat_self().unwrap());
        let project = Inheritance { project: Some(4_000_000_000), ..root.inheritance };
        let make = |number: usize| {
            let name = number.to_string();
            std::fs::create_dir(scratch.join(&name)).unwrap();
            let stat = top.stat(name.as_bytes()).unwrap();
            let territory = root.below(root.mount.clone(), project, name.as_bytes(), &stat);
            territory.staging("job", |_| {}).unwrap();
            territory
        };
        (0..2 * OPEN_MAX).map(make).collect()
    }

    #[test]
    fn a_staging_directory_that_was_let_go_of_and_is_elsewhere_by_now_fails_no_sync() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Arc::new(Dir::open(scratch.path()).unwrap());
        let territories = many(scratch.path(), &top);
        let first = &territories[0];
        let is_new = || lock(&first.staging).as_ref().unwrap().state.names_are_new.load(Ordering::Acquire);
        let (here, away) = (scratch.path().join("0"), scratch.path().join("away"));
        std::fs::rename(&here, &away).unwrap();
        first.sync_names("job").unwrap();
        std::fs::create_dir(&here).unwrap();
        first.sync_names("job").unwrap();
        let error = first.staging_again("job").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "of one entry, not of all: {error}");
        assert!(is_new());
        std::fs::remove_dir(&here).unwrap();
        std::fs::rename(&away, &here).unwrap();
        first.sync_names("job").unwrap();
        assert!(!is_new());
    }

    #[test]
    fn what_final_modes_keep_us_out_of_is_cleared_up_all_the_same_and_closed_again() {
        if user::effective_uid() == 0 {
            eprintln!("skipped: root may enter everything");
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let top = Arc::new(Dir::open(scratch.path()).unwrap());
        let territories = many(scratch.path(), &top);
        top.set_mode(b"0", 0).unwrap();
        territories[0].clean_up("job", None, None);
        assert_eq!(top.stat(b"0").unwrap().mode, 0);
        top.set_mode(b"0", 0o700).unwrap();
        assert_eq!(std::fs::read_dir(scratch.path().join("0")).unwrap().count(), 0);
    }

    /// As where each user's directory is a project of its own.
    #[test]
    fn of_very_many_staging_directories_few_are_open_and_each_is_found_again_as_it_was() {
        let scratch = tempfile::tempdir().unwrap();
        let top = Arc::new(Dir::open(scratch.path()).unwrap());
        let root = Territory::new(top.clone(), &top.stat_self().unwrap());
        let project = Inheritance { project: Some(4_000_000_000), ..root.inheritance };
        let make = |number: usize| {
            let name = number.to_string();
            std::fs::create_dir(scratch.path().join(&name)).unwrap();
            root.below(root.mount.clone(), project, name.as_bytes(), &top.stat(name.as_bytes()).unwrap())
        };
        let territories: Vec<Territory> = (0..3 * OPEN_MAX).map(make).collect();
        let begin = |territory: &Territory| {
            let staging = territory.staging("job", |_| {}).unwrap();
            staging.dir.create_new(b"partial-7", 0o600).unwrap();
            own_dir(&staging.dir, b"lane-0").unwrap();
            Arc::downgrade(&staging)
        };
        let begun: Vec<_> = territories.iter().map(begin).collect();
        assert_eq!(begun.iter().filter(|staging| staging.strong_count() > 0).count(), OPEN_MAX);
        for territory in &territories {
            let staging = territory.staging("job", |_| panic!("it is not new")).unwrap();
            assert_eq!((staging.number(), staging.partials().unwrap()), (territory.number, vec![7]));
            assert!(staging.dir.stat(b"lane-0").is_ok(), "what is on its way was taken for what is left");
            assert!(staging.abilities().owner.is_some(), "it was tried before");
        }
        territories.iter().for_each(|territory| territory.clean_up("job", None, None));
        for number in 0..territories.len() {
            let names = std::fs::read_dir(scratch.path().join(number.to_string())).unwrap();
            assert_eq!(names.count(), 0, "{number}");
        }
    }
}
