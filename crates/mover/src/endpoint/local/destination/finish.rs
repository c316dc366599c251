//! Content into hidden files, and hidden files under their names.

use super::ajar::is_kept_out;
use super::decide::{check_replaceable, done, is_sparse, settled, unchanged};
use super::flight::{Flight, Seen};
use super::foretold::Outlook;
use super::guard::no_replace;
use super::{LocalDestination, Place, Spot};
use crate::endpoint::acl::{ACL, GROUP, mode_without_acl};
use crate::endpoint::local::metadata::{Has, Named, Target, apply, is_bare, look_what_stayed, take_over};
use crate::endpoint::local::overlap::MAY_BE_SOURCE;
use crate::endpoint::local::staging::nursery::{Fate, is_nursery};
use crate::endpoint::local::staging::partial::{LocalPartial, digest_back, pays};
use crate::endpoint::local::staging::{Staging, partial_name};
use crate::endpoint::local::{
    DRY_RUN, conflict, errno, evidence_of, failed, failed_to_take, is_errno, is_no_room, lock, of_room,
};
use crate::endpoint::{Decision, PartialFile, Ready, Staged};
use crate::failure::{Failure, FailureKind, Result};
use crate::journal::catalogue::{Remembered, bind};
use std::io;
use std::sync::Arc;
use std::time::Instant;
use thalweg_sys::{Dir, File, Kind, Replace, Stat};
use thalweg_wire::message::{Loss, Outcome};
use thalweg_wire::{Digest, Entry, EntryId, RelativePath};

impl LocalDestination {
    pub(super) fn begin_partial(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>> {
        if self.terms.dry_run {
            return Err(Failure::new(FailureKind::Internal, "preallocate", DRY_RUN));
        }
        let _open = self.claim.while_open()?;
        self.durability.check()?;
        let of_io = |error: io::Error| failed("preallocate", &entry.path, &error);
        let (place, _) = self.parent_of(&entry.path)?;
        let staging = self.staging_at(&place).map_err(|error| of_io(of_room(&place.dir, error)))?;
        let (number, older) = match &mut *lock(&self.journal) {
            Some(journal) => {
                let older = journal.find_path(&entry.path);
                if let Some(older) = older {
                    journal.end(older);
                }
                (journal.begin(&entry.path, &entry.evidence), older)
            }
            None => {
                return Err(Failure::new(FailureKind::Internal, "preallocate", "it has no journal"));
            }
        };
        if let Some(older) = older {
            self.flights.close(older);
            let _ = staging.dir.remove_file(partial_name(older).as_bytes());
        }
        let name = partial_name(number);
        let sparse = is_sparse(entry);
        let created = self.with_descriptors(|| staging.dir.create_new(name.as_bytes(), 0o600));
        let file = created.and_then(|file| {
            let size = entry.evidence.size;
            // The length must be right from the beginning, for writes come in any order; space may fail to be reserved.
            let reserve = |bytes| match file.preallocate(0, bytes) {
                Err(error) if is_no_room(&error) => Err(error),
                _ => Ok(()),
            };
            let reserved = if sparse { 0 } else { size };
            // What is reserved and given back again would end what others have under way.
            let has_room = self.check_room(&staging.dir, reserved);
            let sized = has_room.and_then(|()| file.truncate(size)).and_then(|()| reserve(reserved));
            // Two may have looked at the same time.
            match sized.and_then(|()| self.check_room(&staging.dir, 0)) {
                Ok(()) => Ok(file),
                Err(error) => {
                    let _ = staging.dir.remove_file(name.as_bytes());
                    Err(error)
                }
            }
        });
        let file = file.map_err(|error| {
            if let Some(journal) = &mut *lock(&self.journal) {
                journal.end(number);
            }
            of_io(of_room(&staging.dir, error))
        })?;
        staging.names_changed();
        place.territory.touch();
        let partial = self.partial_of(entry, number, file, &staging, &place);
        self.flights.opened(number, partial.clone());
        Ok(partial)
    }

    /// The hidden file of this number, open, that becomes `entry`.
    pub(super) fn partial_of(
        &self,
        entry: &Entry,
        number: u64,
        file: File,
        staging: &Staging,
        place: &Place,
    ) -> Arc<LocalPartial> {
        let (path, territory) = (entry.path.clone(), place.territory.clone());
        let (is_sparse, caching) = (is_sparse(entry), self.caching(entry, staging));
        Arc::new(LocalPartial::new(number, path, file, is_sparse, caching, staging, territory))
    }

    /// Owner, attributes, mode and times of a file that is still hidden.
    pub(super) fn dress(
        &self,
        file: &File,
        has: &Has,
        entry: &Entry,
        place: &Place,
    ) -> io::Result<Vec<Loss>> {
        let preserve = &self.terms.preserve;
        let mut has = *has;
        self.inherit_group(file, &mut has, place);
        if !preserve.mode && preserve.xattrs && !entry.xattrs.is_empty() {
            // It may have to be opened for them, and has then again what the kernel left of its mode.
            has.mode = Some(file.stat()?.mode);
        }
        let wanted = self.wanted_of_file(entry);
        let (mut losses, _) = apply(file, &has, &wanted, preserve, &self.rights, true)?;
        losses.extend(self.lost_by_guard(entry, (has.uid, has.gid)));
        if !preserve.mode
            && let Some(seen) = self.flights.seen(entry.id)
            && seen.kind == Kind::File
        {
            // The name keeps the mode that it has.
            let path = self.final_path(&entry.path);
            let name = path.split().map_or(&b""[..], |(_, name)| name);
            match self.with_descriptors(|| place.dir.xattr(name, ACL)) {
                Ok(acl) => take_over(file, seen.mode, acl.as_deref())?,
                // That it is gone is noticed when the new one gets the name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // What it gave to the owning group nobody tells.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    file.set_mode(seen.mode & 0o777 & !GROUP)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(losses)
    }

    /// The permission bits that what is made gets at first, when it has no ACL yet. Where modes are not kept, it gets
    /// no others, and no ACL.
    pub(super) fn mode_made(&self, entry: &Entry) -> u32 {
        let bits = if self.terms.preserve.mode { 0o777 } else { self.unmasked };
        mode_without_acl(entry.mode, &entry.xattrs) & bits
    }

    /// What is made in a directory that says so gets its group, and keeps it where that of its entry cannot be had.
    pub(super) fn inherit_group(&self, target: &impl Target, has: &mut Has, place: &Place) {
        let may_stay = !self.terms.preserve.owner || !self.rights.can_chown;
        if let Some(gid) = place.gid.filter(|_| may_stay)
            && target.own(None, Some(gid)).is_ok()
        {
            has.gid = gid;
            // The kernel takes set-id bits off with it.
            has.mode = has.mode.filter(|mode| mode & 0o6000 == 0);
        }
    }

    pub(super) fn finish_entry(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        let partial = match &ready {
            Ready::Partial(partial) => Some(partial.clone()),
            Ready::Staged(_) => None,
        };
        let finished = self.give_name(entry, ready, digest).map(|mut losses| {
            losses.extend(self.lost_link(&entry.path));
            losses
        });
        if let (Err(failure), Some(partial)) = (&finished, partial) {
            // What fails the whole transfer leaves it for the next attempt; otherwise nobody has it any more.
            let is_of_all = matches!(failure.kind, FailureKind::Space | FailureKind::Io);
            if !is_of_all && self.durability.check().is_ok() {
                self.discard_ready(Ready::Partial(partial));
            }
        }
        finished
    }

    fn give_name(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        self.durability.check()?;
        let path = &entry.path;
        let nursery = match self.nursery_of(path, &ready) {
            Ok(nursery) => nursery,
            Err(failure) => return Err(self.without_place(ready, failure)),
        };
        let _names = self.while_names_stay();
        let (place, name) = match self.parent_of(path) {
            Ok(found) => found,
            Err(failure) => return Err(self.without_place(ready, failure)),
        };
        let seen = self.flights.seen(entry.id);
        let mut losses = match ready {
            Ready::Staged(Staged { lane, number, losses, .. }) if nursery.is_some() => {
                let Some((dir, fate)) = nursery else { return Err(no_content(path)) };
                if fate == Fate::Apart
                    && let Err(failure) = self.put_in_place(&dir, &name, &place, &name, seen, path)
                {
                    let _ = dir.remove_file(&name);
                    self.nurseries.gone(lane, number);
                    return Err(failure);
                }
                self.nurseries.gone(lane, number);
                losses
            }
            Ready::Staged(staged) => {
                let of_io = |error: io::Error| failed("finish", path, &error);
                let staging = self.staging_at(&place).map_err(of_io)?;
                let dir = self.with_descriptors(|| self.lanes.get(&staging, staged.lane)).map_err(of_io)?;
                let temporary = staged.number.to_string().into_bytes();
                if let Err(failure) = self.put_in_place(&dir, &temporary, &place, &name, seen, path) {
                    self.remove_staged(staged.lane, &dir, &temporary);
                    return Err(failure);
                }
                self.lanes.gone(staged.lane);
                staged.losses
            }
            Ready::Partial(partial) => self.finish_partial(entry, partial.number(), &place, &name, seen)?,
        };
        self.changed_parent(path, &place);
        if self.is_forgetful(&place) {
            let named = Named(&place.dir, &name);
            look_what_stayed(
                &named,
                &self.wanted_of_file(entry),
                &self.terms.preserve,
                self.grain(&place),
                &mut losses,
            )
            .map_err(|error| failed("set metadata", path, &error))?;
            self.changed_by_name(path, &place, &name);
        }
        if self.has_catalogue
            && let Ok(stat) = place.dir.stat(&name)
            && stat.size == entry.evidence.size
            && (!self.terms.preserve.times || self.grain(&place).is_same(entry.evidence.mtime, stat.mtime))
        {
            // A write by somebody else since the rename would have changed the time we gave it. What is remembered has
            // no attributes but those of its entry: an ACL that it took over is another's.
            let preserve = &self.terms.preserve;
            let is_bare = || place.dir.xattrs(&name).is_ok_and(|there| is_bare(&there));
            let digest = (preserve.times && (preserve.mode || is_bare())).then_some(digest);
            self.flights.with(entry.id, |flight| flight.finished = Some((evidence_of(&stat), digest)));
        }
        Ok(losses)
    }

    /// The nursery that a staged file is in, and what became of it. What is not staged in one, and comes into a
    /// directory that one could be by now, has it take that place first: later it is not empty any more.
    fn nursery_of(&self, path: &RelativePath, ready: &Ready) -> Result<Option<Nursed>> {
        let decide = |number: u32| -> Result<Option<Nursed>> {
            // By the first of its files.
            if let Some(decided) = self.nurseries.decided(number) {
                return Ok(Some(decided));
            }
            let (place, _) = self.parent_of(path)?;
            let staging = self.staging_at(&place).map_err(|error| failed("finish", path, &error))?;
            Ok(self.decide_nursery(&staging, number))
        };
        match ready {
            Ready::Staged(staged) if is_nursery(staged.lane) => {
                decide(staged.lane)?.ok_or_else(|| no_content(path)).map(Some)
            }
            _ => {
                let above = self.final_path(path);
                let above = above.split().map_or(&[][..], |(above, _)| above);
                if let Some(number) = self.nurseries.ripe(above) {
                    decide(number)?;
                }
                Ok(None)
            }
        }
    }

    fn finish_partial(
        &self,
        entry: &Entry,
        number: u64,
        place: &Place,
        name: &[u8],
        seen: Option<Seen>,
    ) -> Result<Vec<Loss>> {
        let path = &entry.path;
        let Some(partial) = self.flights.partial(number) else {
            return Err(Failure::new(FailureKind::Internal, "finish", "its partial is not open").at(path));
        };
        let of_io = |error: io::Error| failed("set metadata", path, &error);
        let stat = partial.file.stat().map_err(of_io)?;
        let mut has = Has { may_have_xattrs: false, mtime: None, ..Has::of(&stat) };
        if !self.terms.preserve.mode {
            partial.file.set_mode(self.mode_made(entry) & !self.umask_guess(place)).map_err(of_io)?;
            has.mode = None;
        }
        let losses = self.dress(&partial.file, &has, entry, place).map_err(of_io)?;
        // What was verified is the file that is held, and what gets the name is the one under the partial's.
        if !partial.dir.stat(partial.name().as_bytes()).map_err(of_io)?.is_same_entry(&stat) {
            return Err(conflict(path, "somebody else replaced its partial while it was copied"));
        }
        self.put_in_place(&partial.dir, partial.name().as_bytes(), place, name, seen, path)?;
        self.changed_file(&partial.file, &place.territory);
        self.flights.close(number);
        self.flights.with(entry.id, |flight| flight.partial = Some(number));
        Ok(losses)
    }

    /// What a new file would not get, as the probe file showed.
    fn umask_guess(&self, place: &Place) -> u32 {
        let mode = place.territory.abilities().and_then(|abilities| abilities.mode_of_0777);
        !mode.unwrap_or(0o755) & 0o777
    }

    /// Renames `temporary` to its final name, over exactly what was seen there.
    pub(super) fn put_in_place(
        &self,
        from: &Dir,
        temporary: &[u8],
        place: &Place,
        name: &[u8],
        seen: Option<Seen>,
        path: &RelativePath,
    ) -> Result<()> {
        let put = || self.put_in_open_place(from, temporary, place, name, seen, path);
        self.past_closed(self.final_path(path).as_bytes(), is_kept_out, put)
    }

    fn put_in_open_place(
        &self,
        from: &Dir,
        temporary: &[u8],
        place: &Place,
        name: &[u8],
        seen: Option<Seen>,
        path: &RelativePath,
    ) -> Result<()> {
        let of_io = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                conflict(path, "it appeared at the destination while it was copied")
            }
            _ => failed_to_take("rename", path, &place.dir, name, &error),
        };
        let mut replace = Replace::Never;
        if let Some(seen) = seen {
            match place.dir.stat(name) {
                Ok(now) if !seen.is_still(&now) => {
                    return Err(conflict(path, "it was changed at the destination while it was copied"));
                }
                Ok(_) if self.guard.no_replace => return Err(no_replace(path)),
                // Nothing is renamed over a directory, not even an empty one.
                Ok(_) if seen.kind == Kind::Dir => match place.dir.remove_dir(name) {
                    Err(error)
                        if error.kind() == io::ErrorKind::DirectoryNotEmpty
                            && self.terms.delete_max.is_some() =>
                    {
                        return self.replace_tree(from, temporary, place, name, path);
                    }
                    removed => removed.map_err(of_io)?,
                },
                Ok(_) => replace = Replace::Existing,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(of_io(error)),
            }
        }
        from.rename(temporary, &place.dir, name, replace).map_err(of_io)
    }

    /// No place is found for this: what lies in a nursery goes out of it, for it would be shown with the others.
    fn without_place(&self, ready: Ready, failure: Failure) -> Failure {
        if matches!(&ready, Ready::Staged(Staged { name: Some(_), .. })) {
            self.discard_ready(ready);
        }
        failure
    }

    pub(super) fn discard_ready(&self, ready: Ready) {
        match ready {
            Ready::Staged(Staged { lane, number, name: Some(name), .. }) => {
                let Some(dir) = self.nurseries.dir(lane) else { return };
                // What cannot be removed stays one that nobody took: it is never shown.
                match dir.remove_file(&name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                    _ => self.nurseries.gone(lane, number),
                }
            }
            Ready::Staged(staged) => {
                let name = staged.number.to_string().into_bytes();
                if let Ok(Some(dir)) = self.lane_of(&staged) {
                    self.remove_staged(staged.lane, &dir, &name);
                }
            }
            Ready::Partial(partial) => {
                let number = partial.number();
                if let Some(partial) = self.flights.close(number) {
                    let _ = partial.dir.remove_file(partial.name().as_bytes());
                }
                if let Some(journal) = &mut *lock(&self.journal) {
                    journal.end(number);
                }
            }
        }
    }

    pub(super) fn digest_staged(&self, staged: &Staged, bytes: u64) -> Result<Digest> {
        let of_io = |error: io::Error| crate::failure::of_io("read back", &error);
        let name = match &staged.name {
            Some(name) => name.to_vec(),
            None => staged.number.to_string().into_bytes(),
        };
        let dir = self.lane_of(staged).map_err(of_io)?;
        let dir = dir.ok_or_else(|| of_io(io::ErrorKind::NotFound.into()))?;
        let is_from_medium = dir.file_system().is_ok_and(|system| pays(system.kind));
        open_own(&dir, &name).and_then(|file| digest_back(&file, bytes, is_from_medium)).map_err(of_io)
    }

    /// The directory that holds a staged file; `None` if none does.
    fn lane_of(&self, staged: &Staged) -> io::Result<Option<Arc<Dir>>> {
        if is_nursery(staged.lane) {
            return Ok(self.nurseries.dir(staged.lane));
        }
        let number = self.lanes.staging_of(staged.lane);
        let Some(territory) = number.and_then(|number| self.territories.numbered(number)) else {
            return Ok(None);
        };
        let staging = self.with_descriptors(|| territory.staging_again(&self.claim.job))?;
        let Some(staging) = staging else { return Ok(None) };
        self.with_descriptors(|| self.lanes.get(&staging, staged.lane)).map(Some)
    }

    pub(super) fn link_entry(&self, entry: &Entry) -> Decision {
        self.note_offered(entry);
        self.linked(entry).unwrap_or_else(|failure| settled(Outcome::Failed(failure), false))
    }

    /// Where no link can be made, or not to what was offered, the content is wanted: it comes as a file of its own.
    fn linked(&self, entry: &Entry) -> Result<Decision> {
        let path = &entry.path;
        let thalweg_wire::Kind::HardLink { first, of } = &entry.kind else {
            let failure = Failure::new(FailureKind::Internal, "make a hard link", "it is no hard link");
            return Err(failure.at(path));
        };
        let first_spot = self.parent_of(first);
        let first_stat = first_spot.as_ref().ok().and_then(|(place, name)| place.dir.stat(name).ok());
        let foretold = self.hard_links.foretold(*of);
        let stands = first_spot.as_ref().ok().zip(first_stat.as_ref());
        let is_as_offered = self.is_first_as_offered(entry, foretold, stands);
        // It failed, was left alone, or somebody changed it. A dry run that does not remember it hopes for the best.
        let is_by_itself = match self.terms.dry_run {
            true if is_as_offered => self.would_be_kept_apart(path, first, foretold),
            true => foretold.is_some(),
            false => !is_as_offered,
        };
        let Some(spot) = self.parent_or_dry(path)? else {
            return Ok(if is_by_itself { Decision::Fresh } else { done(false) });
        };
        let (place, name) = &spot;
        let there = self.look(place, name, entry, true)?;
        if there.as_ref().is_some_and(|there| self.may_be_source(entry, there)) {
            return Ok(settled(Outcome::Skipped(MAY_BE_SOURCE.to_owned()), false));
        }
        let is_linked = match (&first_stat, &there) {
            (Some(first), Some(there)) => {
                first.is_same_entry(there) && !matches!(foretold, Some((Outlook::Comes, _)))
            }
            _ => false,
        };
        // Under both names may be what stood there before.
        if is_linked && is_as_offered {
            return Ok(unchanged(None, self.lasts_for_source(path, place)));
        }
        if let Some(there) = &there
            && let Some(reason) = self.reason_to_leave(entry, there)
        {
            return Ok(settled(Outcome::Skipped(reason.to_owned()), false));
        }
        // By itself it stays if it is the same, and is refused if it is not.
        if is_by_itself || (there.is_some() && self.guard.no_replace) {
            return Ok(Decision::Fresh);
        }
        if let Some(there) = &there {
            let kind = match foretold {
                Some((Outlook::Comes | Outlook::Stays, kind)) => kind,
                _ => first_stat.filter(|_| is_as_offered).map_or(Kind::File, |first| first.kind),
            };
            check_replaceable(path, there, kind)?;
            if there.kind == Kind::Dir {
                self.check_way(place, name, path)?;
            }
        }
        if let Ok((first_place, _)) = &first_spot
            && first_place.territory.key.mount != place.territory.key.mount
        {
            return Ok(self.unlinked(entry, "its first name is on another file system".to_owned()));
        }
        if self.terms.dry_run {
            return Ok(done(false));
        }
        self.make_hard_link(entry, (&first_spot?, first_stat), &spot, there.as_ref().map(Seen::of))
    }

    /// Whether what has the first name of a hard link, or gets it, is what was offered: by what was `foretold` of it,
    /// or by what stands there.
    fn is_first_as_offered(
        &self,
        entry: &Entry,
        foretold: Option<(Outlook, Kind)>,
        stands: Option<(&Spot, &Stat)>,
    ) -> bool {
        let stands_as_offered = stands.is_some_and(|((place, _), first)| {
            // Only its time tells a FIFO that stands in a file's way from one that was offered.
            first.size == entry.evidence.size
                && self.is_asked_for(first.kind)
                && ((!self.terms.preserve.times && first.kind == Kind::File)
                    || self.grain(place).is_same(entry.evidence.mtime, first.mtime))
        });
        let shows_by_time = |kind: Kind| self.terms.preserve.times || kind == Kind::File;
        match foretold {
            Some((Outlook::Comes, kind)) => shows_by_time(kind),
            Some((Outlook::Stays, kind)) => shows_by_time(kind) || stands_as_offered,
            // What stands there may look like it and is another: nobody compared its content.
            Some((Outlook::Left, _)) => false,
            None => stands_as_offered,
        }
    }

    /// Gives the file of the first name, as it was looked at, a second one, over exactly what was seen there.
    fn make_hard_link(
        &self,
        entry: &Entry,
        ((first_place, first_name), first_stat): (&Spot, Option<Stat>),
        (place, name): &Spot,
        seen: Option<Seen>,
    ) -> Result<Decision> {
        let path = &entry.path;
        let of_io = |error: io::Error| failed("make a hard link", path, &error);
        let staging = self.staging_at(place).map_err(of_io)?;
        let temporary = self.claim.made_name();
        if let Err(error) = first_place.dir.make_link(first_name, &staging.dir, &temporary) {
            return match is_no_link(&error) {
                true => Ok(self.unlinked(entry, of_io(error).cause)),
                false => Err(of_io(error)),
            };
        }
        if let Err(failure) = self.put_in_place(&staging.dir, &temporary, place, name, seen, path) {
            let _ = staging.dir.remove_file(&temporary);
            return Err(failure);
        }
        self.changed_parent(path, place);
        if let (Some(before), Ok(now)) = (first_stat, first_place.dir.stat(first_name)) {
            self.remember_linked(entry, &before, &now);
        }
        Ok(done(true))
    }

    /// As a sender that knows the terms offers it.
    fn is_asked_for(&self, kind: Kind) -> bool {
        match kind {
            Kind::File | Kind::Symlink => true,
            Kind::Fifo | Kind::BlockDevice | Kind::CharDevice => self.terms.preserve.devices,
            Kind::Dir | Kind::Socket | Kind::Unknown => false,
        }
    }

    /// Has a hard link sent as what it is by itself. That it is no link is told when it has its name.
    fn unlinked(&self, entry: &Entry, why: String) -> Decision {
        self.hard_links.unlink(&entry.path, why);
        Decision::Fresh
    }

    /// What an entry lost that should have been a link and came by itself.
    pub(super) fn lost_link(&self, path: &RelativePath) -> Option<Loss> {
        let why = self.hard_links.why_unlinked(path)?;
        Some(Loss { what: "hard link".to_owned(), why })
    }

    /// A second name changes the first one's ctime; what is remembered of that follows, if nothing else changed.
    fn remember_linked(&self, entry: &Entry, before: &Stat, now: &Stat) {
        let thalweg_wire::Kind::HardLink { first, of } = &entry.kind else { return };
        if !self.has_catalogue
            || !before.is_same_entry(now)
            || (before.size, before.mtime) != (now.size, now.mtime)
        {
            return;
        }
        let (before, now) = (evidence_of(before), evidence_of(now));
        let follow = |flight: &mut Flight| {
            let Some((finished, _)) = &mut flight.finished else { return false };
            if *finished == before {
                *finished = now;
            }
            true
        };
        if self.flights.with_known(*of, follow) == Some(true) {
            return;
        }
        if let Some(catalogue) = &mut *lock(&self.catalogue) {
            let first = self.final_path(first);
            if let Ok(Some(remembered)) = catalogue.find(&first)
                && remembered.evidence == bind(&entry.evidence, &before)
            {
                let evidence = bind(&entry.evidence, &now);
                let _ = catalogue.put(&first, Remembered { evidence, ..remembered }, Instant::now());
            }
        }
    }

    /// An entry is settled, or another replaces it: what was known of it, which the journal need not tell any more.
    pub(super) fn end_flight(&self, id: EntryId) -> Flight {
        let flight = self.flights.end(id);
        if let (Some(number), Some(journal)) = (flight.partial, &mut *lock(&self.journal)) {
            journal.end(number);
        }
        flight
    }

    pub(super) fn note_settled(&self, entry: &Entry, outcome: &Outcome) {
        self.hard_links.end(&entry.path);
        let flight = self.end_flight(entry.id);
        let digest = match outcome {
            Outcome::Done { digest, .. } | Outcome::Unchanged { digest } => *digest,
            Outcome::Skipped(_) | Outcome::Failed(_) => return,
        };
        let Some((evidence, Some(named))) = flight.finished else { return };
        // The entry's last word must be about the bytes that were named.
        if digest != Some(named) {
            return;
        }
        if let Some(catalogue) = &mut *lock(&self.catalogue) {
            let remembered = Remembered { evidence: bind(&entry.evidence, &evidence), digest: named };
            if let Err(error) = catalogue.put(&self.final_path(&entry.path), remembered, Instant::now()) {
                tracing::warn!(%error, "the catalogue cannot be written");
            }
        }
    }
}

/// Where a nursery is, and what became of it.
type Nursed = (Arc<Dir>, Fate);

/// Opens a file in staging for reading. One whose mode keeps ourselves out is opened for us for the time being: nobody
/// else gets at it there.
fn open_own(dir: &Dir, name: &[u8]) -> io::Result<File> {
    match dir.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = dir.stat(name)?.mode;
            dir.set_mode(name, mode | 0o400)?;
            let opened = dir.open_read(name);
            dir.set_mode(name, mode)?;
            let file = opened?;
            // What was synced before had its final mode; so has this.
            file.sync_all()?;
            Ok(file)
        }
        other => other,
    }
}

/// Whether this file system, or this file, can have no link: the content it can have all the same.
fn is_no_link(error: &io::Error) -> bool {
    let numbers = [errno::CROSS_DEVICE, errno::TOO_MANY_LINKS, errno::NOT_SUPPORTED];
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
        || numbers.iter().any(|&number| is_errno(error, number))
}

fn no_content(path: &RelativePath) -> Failure {
    Failure::new(FailureKind::Internal, "finish", "what it was staged in is gone").at(path)
}
