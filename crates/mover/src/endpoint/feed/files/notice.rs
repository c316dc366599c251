//! Hearing of changes: what events of the file system name is looked at, or everything is.

use super::super::Taker;
use super::super::file::Identity;
use super::{FilesFeed, POLL};
use crate::failure::Result;
use crate::journal::staging_names::is_staging;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};
use thalweg_sys::{Changed, Dir, Kind, Links, Watch, WatchId};
use thalweg_wire::RelativePath;

/// Names that events tell, which are looked at one by one; of more everything is looked at.
const NOTICED_MAX: usize = 1024;

/// What the file system tells by itself.
#[derive(Default)]
pub(super) struct Watching {
    pub watch: Option<Watch>,
    /// The directories that are watched.
    pub dirs: HashMap<WatchId, RelativePath>,
    /// Names that events told, of what is not under way.
    noticed: BTreeSet<RelativePath>,
    /// Not all events are to be had, which was told.
    pub is_polling: bool,
}

impl FilesFeed {
    /// Waits for changes, at most so long. Forgets that everything was `looked` at if it is to be looked at again.
    pub(super) fn wait(&mut self, pause: Duration, looked: &mut Option<Instant>, taker: &dyn Taker) {
        let Some(watch) = &self.watching.watch else {
            std::thread::sleep(pause);
            return;
        };
        let changes = match watch.changes(pause) {
            Ok(changes) => changes,
            Err(error) => {
                self.watching.watch = None;
                self.say_polling("the file system's events are not to be had any more", &error, taker);
                return;
            }
        };
        for change in changes {
            let Changed::Entry(dir, name) = change else {
                *looked = None;
                continue;
            };
            let path = self.watching.dirs.get(&dir).and_then(|dir| dir.join(&name).ok());
            match path.as_ref().and_then(|path| self.found.names.get(path)) {
                Some(identity) if self.flows.files.contains_key(identity) => {
                    self.flows.busy.insert(*identity);
                }
                // New, or not what it was. Beside a single file there may be many.
                _ if self.spec.name.as_ref().is_some_and(|single| *single != name) => {}
                _ => match path.filter(|_| self.watching.noticed.len() < NOTICED_MAX) {
                    Some(path) => drop(self.watching.noticed.insert(path)),
                    None => *looked = None,
                },
            }
        }
    }

    /// Looks at what events named, where that is all that has to be looked at.
    pub(super) fn look_at_noticed(&mut self, looked: &mut Option<Instant>, taker: &dyn Taker) -> Result<()> {
        for path in std::mem::take(&mut self.watching.noticed) {
            if !self.look_at(&path, taker)? {
                *looked = None;
            }
        }
        Ok(())
    }

    /// Looks at a file that is new, or not what it was. `false`: everything is to be looked at.
    fn look_at(&mut self, path: &RelativePath, taker: &dyn Taker) -> Result<bool> {
        let (at, name) = path.split().unwrap_or((b"", path.as_bytes()));
        let name = name.to_vec();
        let is_marker = at == self.spec.prefix.as_bytes() && self.spec.until.marker.as_deref() == Some(&name);
        if is_staging(&name) || is_marker {
            return Ok(true);
        }
        let is_under_way = |identity: &Identity| self.flows.files.contains_key(identity);
        if self.found.names.get(path).is_some_and(is_under_way) {
            return Ok(false);
        }
        let Ok(at) = RelativePath::new(at.to_vec()) else { return Ok(false) };
        let below = at.as_bytes().strip_prefix(self.spec.prefix.as_bytes()).unwrap_or(at.as_bytes());
        let below = below.strip_prefix(b"/").unwrap_or(below).to_vec();
        let dir = match below.is_empty() {
            true => self.spec.dir.try_clone(),
            false => self.spec.dir.open_beneath(&below, Links::Refuse),
        };
        let Ok(dir) = dir else { return Ok(false) };
        match dir.stat(&name) {
            // It was renamed, and what has its name now is new.
            Ok(stat) if self.flows.files.contains_key(&Identity::of(&stat)) => return Ok(false),
            Ok(stat) if stat.kind == Kind::File => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.found.names.remove(path);
                self.found.unread.remove(path);
                return Ok(true);
            }
            _ => return Ok(false),
        }
        self.found.unread.remove(path);
        let mut names = BTreeMap::new();
        self.consider(&dir, &at, &name, &mut names, taker)?;
        self.found.names.append(&mut names);
        Ok(true)
    }

    pub(super) fn watch_dir(&mut self, dir: &Dir, at: &RelativePath) -> io::Result<()> {
        if let Some(watch) = &self.watching.watch {
            let id = watch.add(dir)?;
            self.watching.dirs.insert(id, at.clone());
        }
        Ok(())
    }

    pub(super) fn say_unwatched(&mut self, error: &io::Error, taker: &dyn Taker) {
        self.say_polling("not every directory can be watched", error, taker);
    }

    /// From now on everything is looked at more often; told the first time.
    pub(super) fn say_polling(&mut self, what: &str, error: &io::Error, taker: &dyn Taker) {
        if !std::mem::replace(&mut self.watching.is_polling, true) {
            taker.note(format!(
                "{what} ({error}): looking every {} ms, or at a tenth of a core",
                POLL.as_millis()
            ));
        }
    }
}
