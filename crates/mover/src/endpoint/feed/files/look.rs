//! Looking at what is there: what is new begins, what has another name or none is told.

use super::super::Taker;
use super::super::file::{Growing, Identity};
use super::retry::Begins;
use super::{DONE_MAX, Done, FilesFeed, TOLD_MAX, limit_of, missed, short};
use crate::endpoint::OPEN;
use crate::endpoint::acl::mode_beside;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::journal::staging_names::is_staging;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use thalweg_sys::{Dir, Kind, Links, Stat};
use thalweg_wire::RelativePath;
use thalweg_wire::path::Escaped;

/// Entries of its directory among which a single file is looked for that was renamed.
const LOOKED_FOR_MAX: usize = 100_000;
/// Cuts since its flow began that such a file may have had.
const CUTS_LOOKED_FOR: u32 = 8;
/// Of a file that is complete.
const OTHER_NAME: &str = "is a file that was streamed under another name, which it has at the destination";
/// Deepest directory that is looked into.
const DEPTH_MAX: usize = 512;
/// So many files that are over and gone are not worth a look at all of them.
pub(super) const GONE_MIN: usize = 1024;

impl FilesFeed {
    /// Whether the marker's name leads to something, whatever it is: a file, a link, a directory.
    pub(super) fn marker_is_named(&self) -> bool {
        let marker = self.spec.until.marker.as_ref();
        marker.is_some_and(|name| (self.eyes.stat_at)(&self.spec.dir, name).is_ok())
    }

    /// Looks at everything, and opens what is new.
    pub(super) fn look(&mut self, taker: &dyn Taker) -> Result<()> {
        let mut names = BTreeMap::new();
        self.found.unread.clear();
        self.found.waiting = 0;
        // A single file is looked at by its name, and nothing is listed.
        self.found.is_marker_listed = self.spec.name.is_some();
        self.look_where_the_name_leads(taker);
        // Those that are there have the same numbers again.
        self.watching.dirs.clear();
        match self.spec.name.clone() {
            Some(name) => self.look_at_single(&name, &mut names, taker)?,
            None => {
                let dir = self.spec.dir.try_clone().map_err(|error| failure::of_io(OPEN, &error))?;
                self.look_into(Arc::new(dir), self.spec.prefix.clone(), &mut names, taker)?;
            }
        }
        // What nobody could look at is where it was, as far as anybody knows.
        for (path, identity) in self.unseen() {
            // The end does not wait for it.
            if self.retries.begins(&identity, self.now()) == Begins::Again {
                let cuts = self.done.get(&identity).map_or(0, |done| done.cuts);
                self.begins_when_found(&path, identity, cuts);
            }
            names.entry(path).or_insert(identity);
        }
        self.tell_replaced(&names, taker);
        self.found.names = names;
        let is_crowded = self.found.waiting > 0 && self.told.is_blind;
        if is_crowded && !std::mem::replace(&mut self.told.is_crowded, true) {
            taker.note(format!(
                "{} until some of the {} that are open are complete, and nobody can see here who writes them: they come \
                 when the directory is (--until-idle, --until-marker)",
                files_wait(self.found.waiting),
                self.flows.files.len()
            ));
        }
        if self.found.waiting > 0 && !self.told.is_full && !taker.has_room() {
            self.told.is_full = true;
            taker.note(format!(
                "{} until some of those that still grow are complete: too much of the receipt waits for these",
                files_wait(self.found.waiting)
            ));
        }
        self.tell_left(taker);
        if self.found.unread.is_empty() {
            self.retries.give_up_gone(&self.found.names);
            self.forget_gone();
        }
        Ok(())
    }

    /// Looks at the name of a single file, which is there or is waited for.
    fn look_at_single(
        &mut self,
        name: &[u8],
        names: &mut BTreeMap<RelativePath, Identity>,
        taker: &dyn Taker,
    ) -> Result<()> {
        let root = RelativePath::default();
        let dir = self.spec.dir.try_clone().map_err(|error| failure::of_io(OPEN, &error))?;
        if let Err(error) = self.watch_dir(&dir, &root) {
            self.say_unwatched(&error, taker);
        }
        let is_no_file = self.consider(&dir, &root, name, names, taker)?;
        if !self.left.by_origin.is_empty() && !self.left.is_told {
            self.look_for_renamed(&dir, name, taker)?;
        }
        if let Some(path) = is_no_file {
            if !self.end.has_begun && dir.stat(name).is_ok_and(|stat| stat.kind == Kind::Dir) {
                let cause = "it was waited for, and is a directory: with a slash at its end what is in it is streamed";
                return Err(Failure::new(FailureKind::Usage, OPEN, cause).at(&path));
            }
            self.note_once(&path, "is no regular file: it is not streamed", taker);
        } else if names.is_empty()
            && self.found.unread.is_empty()
            && !self.end.has_begun
            && !self.spec.until.wait
        {
            let cause = format!("{}: No such file", Escaped(name));
            return Err(Failure::new(FailureKind::NotFound, OPEN, cause));
        }
        if !self.end.has_begun && !self.spec.until.wait {
            // There is nothing else to wait for.
            self.found.unread.pop_first().map_or(Ok(()), |(_, failure)| Err(failure))?;
        }
        Ok(())
    }

    /// Tells of files under way whose names lead elsewhere now, or nowhere; once of each.
    fn tell_replaced(&mut self, names: &BTreeMap<RelativePath, Identity>, taker: &dyn Taker) {
        for (path, identity) in &self.found.names {
            if names.get(path) != Some(identity)
                && let Some(file) = self.flows.files.get_mut(identity)
                && file.path == *path
                && !names.values().any(|other| other == identity)
                && !std::mem::replace(&mut file.is_replaced, true)
            {
                let text = match names.contains_key(path) {
                    true => {
                        "was replaced: it is read to its end, and what has its name now is another stream"
                    }
                    false => "was moved away or removed: it is read to its end",
                };
                taker.note(format!("{} {text}", Escaped(path.as_bytes())));
            }
        }
    }

    /// Names of the last look at which, or above which, nobody could look this time.
    pub(super) fn unseen(&self) -> Vec<(RelativePath, Identity)> {
        let unread: BTreeSet<&[u8]> = self.found.unread.keys().map(RelativePath::as_bytes).collect();
        let is_unread = |path: &RelativePath| {
            let bytes = path.as_bytes();
            let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            [0, bytes.len()].into_iter().chain(slashes).any(|end| unread.contains(&bytes[..end]))
        };
        let unseen = self.found.names.iter().filter(|&(path, _)| !unread.is_empty() && is_unread(path));
        unseen.map(|(path, identity)| (path.clone(), *identity)).collect()
    }

    /// Directories are made anew under the same name, one for each day: who streams one goes on with what it began
    /// with, and is told.
    fn look_where_the_name_leads(&mut self, taker: &dyn Taker) {
        let Some(place) = self.spec.place.as_ref().filter(|_| !self.told.is_elsewhere) else { return };
        // Where it leads nowhere now, another may come yet.
        let Some(there) = place.there() else { return };
        let Ok(ours) = self.spec.dir.stat_self() else { return };
        if Identity::of(&there) != Identity::of(&ours) {
            self.told.is_elsewhere = true;
            taker.note(format!(
                "{} leads to another directory now: what this stream reads is the one that it began with; for the other one \
                 begin another stream",
                Escaped(place.path.as_os_str().as_bytes())
            ));
        }
    }

    /// A single file that an earlier attempt did not complete, and whose name leads elsewhere now, is mostly beside it.
    fn look_for_renamed(&mut self, dir: &Dir, single: &[u8], taker: &dyn Taker) -> Result<()> {
        let Ok(path) = RelativePath::new(single.to_vec()) else { return Ok(()) };
        let Ok(entries) = dir.entries() else { return Ok(()) };
        for entry in entries.take(LOOKED_FOR_MAX).flatten() {
            if entry.name == single || !matches!(entry.kind, Kind::File | Kind::Unknown) {
                continue;
            }
            let Some(cuts) = dir.stat(&entry.name).ok().and_then(|stat| self.cuts_left(&stat)) else {
                continue;
            };
            let Ok(file) = dir.open_read(&entry.name) else { continue };
            // What is not found so is told in the end.
            let Ok(stat) = (self.eyes.stat_of)(&file) else { continue };
            if self.cuts_left(&stat) != Some(cuts) {
                continue;
            }
            let identity = Identity::of(&stat);
            taker.note(format!(
                "{} was renamed to {}: that is read to its end, and what has its name now is another stream",
                Escaped(single),
                Escaped(&entry.name)
            ));
            self.begin(path.clone(), file, identity, cuts, taker)?;
            self.flows.files.entry(identity).and_modify(|file| file.is_replaced = true);
            if self.left.by_origin.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// As which flow, after how many cuts, an earlier attempt did not complete this file, if it is one and none that we
    /// know.
    fn cuts_left(&self, stat: &Stat) -> Option<u32> {
        let identity = Identity::of(stat);
        let is_known = self.flows.files.contains_key(&identity);
        let may_be = stat.kind == Kind::File && identity.is_certain() && !is_known;
        let is_left = |cuts: &u32| self.left.by_origin.contains_key(&identity.origin(*cuts));
        (0..CUTS_LOOKED_FOR).rev().filter(|_| may_be).find(is_left)
    }

    /// Tells what earlier attempts did not complete and is not there, once, after the first look. It may come back;
    /// what has not is told again in the end.
    fn tell_left(&mut self, taker: &dyn Taker) {
        if std::mem::replace(&mut self.left.is_told, true) {
            return;
        }
        // What was cut comes when its beginning was compared.
        let mut coming = BTreeSet::new();
        for identity in self.flows.files.keys() {
            coming.extend((0..CUTS_LOOKED_FOR).map(|cuts| identity.origin(cuts)));
        }
        let left = self.left.by_origin.values().filter(|left| !coming.contains(&left.origin));
        for left in left.take(TOLD_MAX) {
            taker.note(missed(left).to_string());
        }
    }

    /// Forgets files that are over and gone, once they are as many as those that are there. One that comes back is
    /// compared with what the destination has of it; so what was cut is remembered longer, because it would be compared
    /// with what it was before.
    fn forget_gone(&mut self) {
        if self.done.len() <= GONE_MIN.max(2 * self.found.names.len()) {
            return;
        }
        let there = self.found.names.values().chain(self.flows.files.keys());
        let there: BTreeSet<Identity> = there.copied().collect();
        self.done.retain(|identity, done| there.contains(identity) || done.cuts > 0);
        if self.done.len() > DONE_MAX / 2 {
            self.done.retain(|identity, _| there.contains(identity));
        }
        self.retries.forget(&there);
    }

    fn look_into(
        &mut self,
        dir: Arc<Dir>,
        at: RelativePath,
        names: &mut BTreeMap<RelativePath, Identity>,
        taker: &dyn Taker,
    ) -> Result<()> {
        // Before it is listed: what comes in between is told by an event.
        let watched = self.watch_dir(&dir, &at);
        let listed = dir.entries().and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                // That is told in the end, which does not wait for a listing then.
                self.found.is_marker_listed |= at == self.spec.prefix;
                self.note_once(&at, &format!("cannot be listed: {error}"), taker);
                self.found.unread.insert(at.clone(), failure::of_io("list", &error).at(&at));
                return Ok(());
            }
        };
        // Of what cannot be listed that was told.
        if let Err(error) = watched {
            self.say_unwatched(&error, taker);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let is_marker = at == self.spec.prefix && self.spec.until.marker.as_deref() == Some(&entry.name);
            self.found.is_marker_listed |= is_marker;
            if is_staging(&entry.name) || is_marker {
                continue;
            }
            let Some(path) = self.path_of(&at, &entry.name, taker) else { continue };
            let is_dir = match entry.kind {
                Kind::Unknown => match (self.eyes.stat_at)(&dir, &entry.name) {
                    Ok(stat) => stat.kind == Kind::Dir,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => {
                        self.cannot_look(&path, &error, taker);
                        continue;
                    }
                },
                kind => kind == Kind::Dir,
            };
            if is_dir && path.depth() <= DEPTH_MAX {
                match dir.open_beneath(&entry.name, Links::Refuse) {
                    Ok(below) => self.look_into(Arc::new(below), path, names, taker)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        self.note_once(&path, &format!("cannot be opened: {error}"), taker);
                        self.found.unread.insert(path.clone(), failure::of_io(OPEN, &error).at(&path));
                    }
                }
            } else if let Some(path) = self.consider(&dir, &at, &entry.name, names, taker)? {
                self.note_once(&path, "is no regular file: it is not streamed", taker);
            }
        }
        Ok(())
    }

    /// What an entry of a directory is called; `None`, which is told, if it cannot be sent under that name.
    fn path_of(&mut self, at: &RelativePath, name: &[u8], taker: &dyn Taker) -> Option<RelativePath> {
        let joined = at.join(name);
        if let Err(error) = &joined {
            self.note_once(at, &format!("has an entry that is not streamed: {error}"), taker);
        }
        joined.ok()
    }

    /// What cannot be looked at may be there all the same: it is told, now and in the end.
    fn cannot_look(&mut self, path: &RelativePath, error: &io::Error, taker: &dyn Taker) {
        self.note_once(path, &format!("cannot be looked at: {error}"), taker);
        self.found.unread.insert(path.clone(), failure::of_io("look at a file", error).at(path));
    }

    /// Opens a file that is not known. Says its path if it is no file.
    pub(super) fn consider(
        &mut self,
        dir: &Dir,
        at: &RelativePath,
        name: &[u8],
        names: &mut BTreeMap<RelativePath, Identity>,
        taker: &dyn Taker,
    ) -> Result<Option<RelativePath>> {
        let Some(path) = self.path_of(at, name, taker) else { return Ok(None) };
        let stat = match (self.eyes.stat_at)(dir, name) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                self.cannot_look(&path, &error, taker);
                return Ok(None);
            }
        };
        if stat.kind != Kind::File {
            return Ok(Some(path));
        }
        let identity = Identity::of(&stat);
        names.insert(path.clone(), identity);
        if !self.left.by_origin.is_empty()
            && let Some(left) = self.left.by_origin.remove(&identity.origin(0))
            && left.path != path
            && self.spec.name.is_none()
        {
            taker.note(format!(
                "{} was {} before: it goes on under that name",
                Escaped(path.as_bytes()),
                Escaped(left.path.as_bytes())
            ));
        }
        if !self.is_under_way(&path, &identity, taker) && self.is_to_begin((dir, name), &path, &stat, taker) {
            self.open_and_begin((dir, name), path, identity, taker)?;
        }
        Ok(None)
    }

    /// Whether the file that has this name is one of those under way.
    fn is_under_way(&mut self, path: &RelativePath, identity: &Identity, taker: &dyn Taker) -> bool {
        let Some(file) = self.flows.files.get_mut(identity) else { return false };
        if file.path == *path {
            // Its name may have led elsewhere in between.
            file.is_replaced = false;
        } else if !file.is_replaced {
            let text = format!("is streamed as {}: that name it began with", Escaped(file.path.as_bytes()));
            self.note_once(path, &text, taker);
        }
        true
    }

    /// Whether a file that is not under way begins now: it is not over, its pause is, and there is room for it.
    fn is_to_begin(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        path: &RelativePath,
        stat: &Stat,
        taker: &dyn Taker,
    ) -> bool {
        if self.end.is_last {
            return false;
        }
        let identity = Identity::of(stat);
        let limit = limit_of(&self.spec.until, None);
        let size = stat.size.min(limit);
        let begins = self.retries.begins(&identity, self.now());
        if begins == Begins::No {
            return false;
        }
        let is_still = |done: &&Done| {
            // Where that decides the end, it is to be so now.
            let is_now = || dir.stat_now(name).is_ok_and(|now| done.is_still(now.size.min(limit), now.mtime));
            let is_kept = begins == Begins::Yes && done.is_still(size, stat.mtime);
            is_kept && (!self.end.is_near || is_now())
        };
        if let Some(done) = self.done.get(&identity).filter(is_still) {
            if done.name != short(path) && self.spec.name.is_none() {
                self.note_once(path, OTHER_NAME, taker);
            }
            return false;
        }
        let has_room = self.flows.files.len() + self.retries.open() < self.at_once && taker.has_room();
        self.found.waiting += usize::from(!has_room);
        has_room
    }

    /// Begins what has the name now: it may be another than was looked at (`seen`), or one under way.
    fn open_and_begin(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        path: RelativePath,
        seen: Identity,
        taker: &dyn Taker,
    ) -> Result<()> {
        let file = match dir.open_read(name) {
            Ok(file) => file,
            // It may be gone, or another, by now: the next look shows.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.note_once(&path, &format!("cannot be read: {error}"), taker);
                self.found.unread.insert(path.clone(), failure::of_io(OPEN, &error).at(&path));
                return Ok(());
            }
        };
        let stat = match (self.eyes.stat_of)(&file) {
            Ok(stat) => stat,
            Err(error) => {
                let cuts = self.done.get(&seen).map_or(0, |done| done.cuts);
                self.cannot_look(&path, &error, taker);
                self.begins_when_found(&path, seen, cuts);
                return Ok(());
            }
        };
        let identity = Identity::of(&stat);
        if self.flows.files.contains_key(&identity) {
            return Ok(());
        }
        let cuts = self.done.get(&identity).map_or(0, |done| done.cuts);
        self.begin(path, file, identity, cuts, taker)
    }

    /// What cannot be looked at does not begin now, and ends nothing else.
    pub(super) fn begin(
        &mut self,
        path: RelativePath,
        file: thalweg_sys::File,
        identity: Identity,
        cuts: u32,
        taker: &dyn Taker,
    ) -> Result<()> {
        let stat = match (self.eyes.stat_of)(&file) {
            Ok(stat) => stat,
            Err(error) => {
                self.cannot_look(&path, &error, taker);
                self.begins_when_found(&path, identity, cuts);
                return Ok(());
            }
        };
        let origin = identity.origin(cuts);
        self.left.by_origin.remove(&origin);
        let mode = mode_beside(stat.mode, &file) & 0o777;
        let flow = taker.begin(path.clone(), (origin, identity.is_certain()), mode)?;
        self.end.changes.0 += 1;
        self.retries.has_begun(&identity);
        self.end.has_begun = true;
        let file = Growing::new(path, file, flow, cuts, self.spec.until.recheck);
        self.flows.begin(identity, file, self.now());
        Ok(())
    }
}

/// So many that have no turn yet.
fn files_wait(waiting: usize) -> String {
    failure::counted(waiting as u64, "more file waits", "more files wait")
}
