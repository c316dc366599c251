//! Removes what the source does not have: only below directories that it offered, only after it was listed in
//! full, counted first and bounded, children before parents.
//!
//! Left alone: names that the filter excludes and the directories that hold them, the staging of transfers that run,
//! other file systems. Links are removed, never followed. What a killed transfer has unfinished in a directory that
//! goes does so with it, and is not counted ([`abandoned`](crate::endpoint::local::staging::abandoned)). A directory of
//! our own that goes, and in which we may change nothing, is opened, and closed again if it stays after all.

use super::conclude::TOLD_MAX;
use super::displace::Replaced;
use super::{LocalDestination, split};
use crate::endpoint::deletion::{self, DELETE, Doomed, Offered, Spared, Tops, as_directory, as_unlisted};
use crate::endpoint::local::staging::abandoned::Taking;
use crate::endpoint::local::staging::leftover::open_for_us;
use crate::endpoint::local::staging::territory::{MountKey, key_of};
use crate::endpoint::local::walk::{Step, Walk};
use crate::endpoint::local::{failed, failed_to_take, is_staging, lock, mounted};
use crate::endpoint::{Conclusion, Listing};
use crate::failure::{self, Failure, FailureKind};
use crate::filter::Filter;
use crate::journal::staging_names::{STAGING_NAME, own_name};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use thalweg_sys::{Dir, Kind, Links, Stat};
use thalweg_wire::RelativePath;
use thalweg_wire::limits::DELETED_TOLD_MAX;

/// What the owner of a directory needs to have its names counted.
const LISTS: u32 = 0o500;

/// What says which names may be deleted, and what was.
pub(super) struct Deletion {
    /// Names that are never deleted: those that the source leaves out.
    protect: Filter,
    /// `None`: nothing is deleted.
    pub(super) offered: Mutex<Option<Offered>>,
    pub(super) tops: Tops,
    /// Counted as deleted: something of another kind took its name, or it was removed at an end.
    pub(super) replaced: Mutex<Replaced>,
}

impl Deletion {
    /// Of nothing, so far. Names that `protect` excludes stay.
    pub(super) fn new(protect: Filter) -> Deletion {
        Deletion { protect, offered: Mutex::default(), tops: Tops::default(), replaced: Mutex::default() }
    }

    /// From now on it keeps the names offered here: what has none is deleted at the end.
    pub(super) fn keeps(&self, offered: Offered) {
        *lock(&self.offered) = Some(offered);
    }

    /// Keeps more of the names offered, if it keeps any. Without the whole list nothing may be deleted.
    pub(super) fn keep(&self, add: impl FnOnce(&mut Offered) -> io::Result<()>) {
        let mut offered = lock(&self.offered);
        let Some(set) = &mut *offered else { return };
        if let Err(error) = add(set) {
            tracing::warn!(%error, "the names offered cannot be kept; nothing will be deleted");
            *offered = None;
        }
    }

    /// Memory of what says which names stay.
    pub(super) fn protect_bytes(&self) -> usize {
        self.protect.bytes()
    }

    /// Whether this name stays, whatever the source has.
    pub(super) fn is_protected(&self, path: &RelativePath, is_dir: bool) -> bool {
        !self.protect.decide(path, is_dir).included
    }

    /// Lets go of the names: FUSE and NFS keep one for a file that has none any more as long as somebody
    /// holds it.
    pub(super) fn forget(&self) {
        lock(&self.offered).take();
    }
}

impl LocalDestination {
    pub(super) fn delete_all(
        &self,
        listing: Listing,
        goes_on: &dyn Fn() -> bool,
        conclusion: &mut Conclusion,
    ) {
        let Some(delete_max) = self.terms.delete_max else { return };
        {
            let mut replaced = lock(&self.deletion.replaced);
            conclusion.deleted = replaced.count;
            conclusion.deleted_names = std::mem::take(&mut replaced.names);
        }
        if self.root.is_none() {
            return;
        }
        if listing == Listing::Partial {
            conclusion.troubles.push(deletion::not_listed());
            return;
        }
        // Held to the end: a name that is offered meanwhile waits, and another end finds it among the others.
        let offered = lock(&self.deletion.offered);
        let Some(offered) = &*offered else {
            conclusion.troubles.push(deletion::not_kept());
            return;
        };
        let mut troubles = Vec::new();
        let doomed = match self.sweep((offered, listing), None, goes_on, &mut troubles) {
            Ok((doomed, true)) => doomed,
            Ok((_, false)) => {
                conclusion.troubles.push(stopped());
                return;
            }
            Err(error) => {
                conclusion.troubles.push(failure::of_io(DELETE, &error));
                return;
            }
        };
        let source = (&self.deletion.tops, listing);
        if !doomed.may_go(source, delete_max, self.terms.dry_run, conclusion) {
            return;
        }
        let left_max = delete_max.saturating_sub(conclusion.deleted);
        match self.sweep((offered, listing), Some(left_max), goes_on, &mut conclusion.troubles) {
            Ok((deleted, is_whole)) => {
                // Of all ends together no more may go.
                lock(&self.deletion.replaced).count += deleted.count;
                deleted.tell(conclusion);
                if !is_whole {
                    conclusion.troubles.push(stopped());
                }
            }
            Err(error) => conclusion.troubles.push(failure::of_io(DELETE, &error)),
        }
    }

    /// Counts a directory with all that is in it; `None` if something in it has to stay.
    pub(super) fn count_tree(
        &self,
        path: &RelativePath,
        dir: Arc<Dir>,
        key: MountKey,
    ) -> io::Result<Option<Doomed>> {
        let mut troubles = Vec::new();
        let doomed = Level::new(true);
        let mut sweep = self.sweeping(None, None, &mut troubles, key, doomed)?;
        sweep.walk.enter(path.as_bytes(), dir)?;
        sweep.run(&|| true)?;
        Ok((!sweep.keeps).then_some(Doomed {
            count: sweep.count,
            names: sweep.names,
            spared: Spared::default(),
        }))
    }

    /// Counts what is to go, or removes up to `remove_max` of it; names the first of it. `false`: it was
    /// stopped before the end.
    fn sweep(
        &self,
        offered: (&Offered, Listing),
        remove_max: Option<u64>,
        goes_on: &dyn Fn() -> bool,
        troubles: &mut Vec<Failure>,
    ) -> io::Result<(Doomed, bool)> {
        let root = self.root.clone().ok_or(io::ErrorKind::NotFound)?;
        let kept = Level::new(false);
        let mut sweep = self.sweeping(Some(offered), remove_max, troubles, root.territory.key.mount, kept)?;
        sweep.walk.enter(b"", root.dir.clone())?;
        let went = sweep.run(goes_on);
        while let Some(level) = sweep.levels.pop() {
            sweep.close_again(level.opened);
        }
        let is_whole = went?;
        if sweep.untold > 0 {
            let untold = failure::counted(sweep.untold, "more entry", "more entries");
            let cause = format!("{untold} could not be deleted");
            sweep.troubles.push(Failure::new(FailureKind::Io, "delete", cause));
        }
        Ok((Doomed { count: sweep.count, names: sweep.names, spared: sweep.spared }, is_whole))
    }

    /// Nothing is entered yet.
    fn sweeping<'a>(
        &'a self,
        offered: Option<(&'a Offered, Listing)>,
        remove_max: Option<u64>,
        troubles: &'a mut Vec<Failure>,
        key: MountKey,
        level: Level,
    ) -> io::Result<Sweep<'a>> {
        let root = self.root.clone().ok_or(io::ErrorKind::NotFound)?;
        let reopen = move |path: &[u8]| root.dir.open_beneath(path, Links::Refuse);
        Ok(Sweep {
            destination: self,
            offered,
            remove_max,
            troubles,
            key,
            walk: Walk::new(Box::new(reopen)),
            levels: vec![level],
            keeps: false,
            count: 0,
            spared: Spared::default(),
            names: Vec::new(),
            untold: 0,
        })
    }
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, DELETE, "it was stopped before all went that the source lacks")
}

/// Whether a staging directory has a name that ours have.
fn may_be_ours(name: &[u8]) -> bool {
    name == STAGING_NAME || name == own_name()
}

struct Sweep<'a> {
    destination: &'a LocalDestination,
    /// `None`: everything is doomed.
    offered: Option<(&'a Offered, Listing)>,
    /// `None`: only count.
    remove_max: Option<u64>,
    troubles: &'a mut Vec<Failure>,
    /// The file system that it stays on.
    key: MountKey,
    walk: Walk<'a>,
    /// For each directory on the way.
    levels: Vec<Level>,
    /// Something stays somewhere.
    keeps: bool,
    count: u64,
    /// See [`Doomed::spared`].
    spared: Spared,
    names: Vec<RelativePath>,
    /// Troubles beyond those that are told one by one.
    untold: u64,
}

struct Level {
    /// To be removed, with everything in it.
    is_doomed: bool,
    /// Something in it stays, so it does.
    keeps: bool,
    /// Our staging directories in it: after all else, for in them may be the lock of what is unfinished further down.
    stagings: Vec<Vec<u8>>,
    /// It was opened for us: where it is, and the mode that it had.
    opened: Option<(Vec<u8>, u32)>,
}

impl Level {
    fn new(is_doomed: bool) -> Level {
        Level { is_doomed, keeps: false, stagings: Vec::new(), opened: None }
    }
}

impl Sweep<'_> {
    /// Goes on to the end, or until `goes_on`, which is asked before each step, says `false`: then that is returned.
    fn run(&mut self, goes_on: &dyn Fn() -> bool) -> io::Result<bool> {
        loop {
            if !goes_on() {
                return Ok(false);
            }
            match self.walk.next() {
                Step::End => return Ok(true),
                Step::Trouble(error) => {
                    self.trouble(self.walk.path().to_vec(), "list", &error);
                    self.keep();
                }
                Step::Name(name, _) => self.name(&name)?,
                Step::Left(name) => {
                    let Some(level) = self.levels.pop() else { continue };
                    if !level.is_doomed {
                        continue;
                    }
                    let stays = level.keeps || !self.takes_along(&name, &level.stagings, goes_on);
                    if stays {
                        self.keep();
                    }
                    if stays || !self.remove(&name, true) {
                        self.close_again(level.opened);
                    }
                }
            }
        }
    }

    fn name(&mut self, name: &[u8]) -> io::Result<()> {
        if is_staging(name) {
            match self.levels.last_mut() {
                Some(level) if level.is_doomed && may_be_ours(name) => level.stagings.push(name.to_vec()),
                _ => self.keep(),
            }
            return Ok(());
        }
        let path = self.walk.path_of(name);
        let is_doomed = self.levels.last().is_some_and(|level| level.is_doomed);
        let dir = match self.walk.dir() {
            Ok(dir) => dir,
            Err(error) => {
                self.trouble(self.walk.path().to_vec(), "open", &error);
                self.keep();
                self.walk.abandon();
                return Ok(());
            }
        };
        let stat = match dir.stat(name) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.trouble(path, "read metadata", &error);
                self.keep();
                return Ok(());
            }
        };
        let is_dir = stat.kind == Kind::Dir;
        let is_foreign = is_dir && self.key != key_of(&stat);
        if let (false, Some((offered, _))) = (is_doomed, self.offered)
            && offered.contains(&path)?
        {
            if is_dir
                && !is_foreign
                && offered.contains(&as_directory(&path))?
                && !offered.contains(&as_unlisted(&path))?
            {
                self.enter(name, &path, &stat, false);
            }
            return Ok(());
        }
        let at_top = self.walk.depth() == 1;
        let deletion = &self.destination.deletion;
        if at_top && !is_doomed && !deletion.tops.has_root() {
            // The root itself is not the source's: what else is in it is not our business.
            return Ok(());
        }
        let is_protected =
            RelativePath::new(path.clone()).map_or(true, |path| deletion.is_protected(&path, is_dir));
        if is_protected {
            self.keep();
            return Ok(());
        }
        if self.offered.is_some_and(|(_, listing)| deletion.tops.is_in_empty(&path, listing)) {
            self.spared.add(&path);
            self.keep();
            return Ok(());
        }
        if is_foreign {
            self.tell(mounted("delete", &RelativePath::new(path).unwrap_or_default()));
            self.keep();
            return Ok(());
        }
        if is_dir {
            self.enter(name, &path, &stat, true);
        } else {
            self.remove(name, false);
        }
        Ok(())
    }

    /// Whether staging directories go with the directory `name` that they are in, or would.
    fn takes_along(&self, name: &[u8], stagings: &[Vec<u8>], goes_on: &dyn Fn() -> bool) -> bool {
        let Some(root) = self.destination.root.as_ref().filter(|_| !stagings.is_empty()) else {
            return stagings.is_empty();
        };
        // What makes way for something goes at the end: until then we hold no lock but our own.
        let taking = Taking { removes: self.remove_max.is_some(), only_ours: self.offered.is_none() };
        let path = self.walk.path_of(name);
        let taken = root.dir.open_beneath(&path, Links::Refuse).and_then(|dir| {
            for staging in stagings {
                if !self.destination.take_along((&dir, &path), staging, taking, goes_on)? {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        taken.unwrap_or_else(|error| {
            tracing::debug!(%error, "a staging directory stays");
            false
        })
    }

    fn enter(&mut self, name: &[u8], path: &[u8], stat: &Stat, is_doomed: bool) {
        let entered = self.walk.dir().and_then(|dir| {
            let child = dir.open_beneath(name, Links::Refuse)?;
            self.walk.enter(name, Arc::new(child))?;
            Ok(dir)
        });
        match entered {
            Ok(parent) => {
                let mut level = Level::new(is_doomed);
                // Of what cannot be listed nothing was counted: it stays, as a dry run says.
                let opens = is_doomed && self.remove_max.is_some() && stat.mode & LISTS == LISTS;
                // What is refused here is told of what is in it.
                if opens && open_for_us(&parent, name, stat).unwrap_or(false) {
                    level.opened = Some((path.to_vec(), stat.mode));
                }
                self.levels.push(level);
            }
            Err(error) => {
                self.trouble(path.to_vec(), "list", &error);
                self.keep();
            }
        }
    }

    /// A directory that was opened here stays: it gets its own mode again. Best effort.
    fn close_again(&self, opened: Option<(Vec<u8>, u32)>) {
        let (Some((path, mode)), Some(root)) = (opened, &self.destination.root) else { return };
        let (above, name) = split(&path);
        let parent = root.dir.open_beneath(above, Links::Refuse);
        if let Err(error) = parent.and_then(|parent| parent.set_mode(name, mode)) {
            tracing::debug!(%error, "a directory that was opened is out of reach");
        }
    }

    /// Counts one entry of the current directory, or removes it. Whether it is gone, or would be.
    fn remove(&mut self, name: &[u8], is_dir: bool) -> bool {
        let Some(remove_max) = self.remove_max else {
            self.count(name);
            return true;
        };
        // More may have come since they were counted.
        if self.count >= remove_max {
            self.keep();
            return false;
        }
        let removed =
            self.walk.dir().and_then(|dir| if is_dir { dir.remove_dir(name) } else { dir.remove_file(name) });
        match removed {
            Ok(()) => {
                self.count(name);
                if let Some(root) = &self.destination.root {
                    self.destination.changed_loosely(&root.territory);
                    if let Ok(dir) = self.walk.dir() {
                        self.destination.changed_dir(self.walk.path(), &dir, &root.territory);
                    }
                    if self.walk.depth() == 1 {
                        root.territory.top_is_changed.store(true, Ordering::Release);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = RelativePath::new(self.walk.path_of(name)).unwrap_or_default();
                let failure = match self.walk.dir() {
                    Ok(dir) => failed_to_take("delete", &path, &dir, name, &error),
                    Err(_) => failed("delete", &path, &error),
                };
                self.tell(failure);
                self.keep();
                return false;
            }
        }
        true
    }

    fn count(&mut self, name: &[u8]) {
        self.count += 1;
        if self.names.len() < DELETED_TOLD_MAX
            && let Ok(path) = RelativePath::new(self.walk.path_of(name))
        {
            self.names.push(path);
        }
    }

    fn keep(&mut self) {
        self.keeps = true;
        if let Some(level) = self.levels.last_mut() {
            level.keeps = true;
        }
    }

    fn trouble(&mut self, path: Vec<u8>, operation: &str, error: &io::Error) {
        self.tell(failed(operation, &RelativePath::new(path).unwrap_or_default(), error));
    }

    fn tell(&mut self, failure: Failure) {
        match self.troubles.len() < TOLD_MAX {
            true => self.troubles.push(failure),
            false => self.untold += 1,
        }
    }
}
