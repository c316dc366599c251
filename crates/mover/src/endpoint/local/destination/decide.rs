//! Looks at what stands at an entry's path and decides; makes directories, links, FIFOs and devices at once.

use super::conclude::RESTORE;
use super::flight::Seen;
use super::foretold::Outlook;
use super::guard::CAPABILITY;
use super::spool::Spooled;
use super::{LocalDestination, Place, Spot};
use crate::endpoint::deletion::{as_directory, as_unlisted};
use crate::endpoint::left_alone::LeftAlone;
use crate::endpoint::local::metadata::{
    Has, Named, Target, Wanted, apply_surely, are_same, differs, is_bare,
};
use crate::endpoint::local::overlap::MAY_BE_SOURCE;
use crate::endpoint::local::staging::partial::Caching;
use crate::endpoint::local::staging::{Abilities, Grain, Staging};
use crate::endpoint::local::{conflict, evidence_of, failed, lock, mounted, of_room, sys_time, wire_time};
use crate::endpoint::{Decision, Reading};
use crate::failure::{Failure, FailureKind};
use crate::journal::catalogue::{Remembered, bind};
use std::io;
use std::sync::RwLockReadGuard;
use std::sync::atomic::Ordering;
use thalweg_sys::{Advice, Dir, File, Links, Stat};
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::{Check, Loss, Outcome, VerifyLevel};
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

impl LocalDestination {
    pub(super) fn decide_entry(&self, entry: &Entry, reading: Reading<'_>) -> Decision {
        let names = self.while_names_stay();
        self.note_offered(entry);
        // A sender that knows the terms does not offer these; another one does not get its way.
        if matches!(entry.kind, Kind::Fifo | Kind::Device { .. }) && !self.terms.preserve.devices {
            return settled(Outcome::Skipped("entries of this kind are not asked for".to_owned()), false);
        }
        let decided = match &entry.kind {
            Kind::Directory if entry.path.is_root() => self.root_directory(entry),
            Kind::Directory => self.directory(entry),
            Kind::File { .. } => self.file(entry, names, reading),
            Kind::Symlink { .. } | Kind::Fifo | Kind::Device { .. } => self.special(entry),
            Kind::HardLink { .. } => Ok(self.link_entry(entry)),
        };
        self.foretell(entry, &decided);
        let decided = decided.and_then(|decision| self.on_the_past(entry, decision));
        decided.unwrap_or_else(|failure| settled(Outcome::Failed(failure), false))
    }

    /// Remembers in a dry run what would become of an entry, for its second names. What is told as done can be a FIFO
    /// or device that stays and gets other metadata: [`Self::dress_special`] says so.
    fn foretell(&self, entry: &Entry, decided: &Result<Decision, Failure>) {
        if !self.terms.dry_run || matches!(entry.kind, Kind::Directory | Kind::HardLink { .. }) {
            return;
        }
        let outlook = match decided {
            Ok(Decision::Fresh | Decision::Wanted { .. } | Decision::Elsewhere { .. }) => Outlook::Comes,
            Ok(Decision::Settled { outcome: Outcome::Unchanged { .. }, .. }) => Outlook::Stays,
            Ok(Decision::Settled { outcome: Outcome::Done { .. }, .. }) => {
                if self.hard_links.foretold(entry.id).is_some() {
                    return;
                }
                Outlook::Comes
            }
            Ok(Decision::Settled { outcome: Outcome::Skipped(_) | Outcome::Failed(_), .. }) | Err(_) => {
                Outlook::Left
            }
        };
        self.hard_links.foretell(entry.id, kind_of(&entry.kind), outlook);
    }

    /// Remembers that an entry failed or was left alone, for its second names.
    pub(super) fn note_left(&self, entry: &Entry) {
        self.hard_links.foretell(entry.id, kind_of(&entry.kind), Outlook::Left);
    }

    /// Remembers the name, so that it is not deleted at the end.
    pub(super) fn note_offered(&self, entry: &Entry) {
        let is_dir = matches!(entry.kind, Kind::Directory);
        if self.terms.delete_max.is_some() {
            self.deletion.tops.offer(&self.final_path(&entry.path));
        }
        self.note_name(&entry.path, is_dir);
    }

    /// Remembers that the source has this name and does not send what is below it, even if it sends the directory
    /// itself.
    pub(super) fn note_unlisted(&self, path: &RelativePath) {
        if self.terms.delete_max.is_some() {
            self.deletion.tops.fill(&self.final_path(path));
        }
        self.note_name(path, false);
        self.deletion.keep(|offered| offered.insert(&as_unlisted(self.final_path(path).as_bytes())));
    }

    /// Remembers that the source has this name. `is_dir`: what is below it is named one by one; otherwise whatever the
    /// destination has there stays, with all that is in it.
    pub(super) fn note_name(&self, path: &RelativePath, is_dir: bool) {
        self.deletion.keep(|offered| {
            let path = self.final_path(path);
            offered.insert(path.as_bytes())?;
            // Such an entry fails; what stands under the name that would become of it is not the worse for
            // that.
            if let Some(kept) = self.root.as_ref().and_then(|root| self.kept_as(root, path.as_bytes())) {
                offered.insert(&kept)?;
            }
            match is_dir {
                true => offered.insert(&as_directory(path.as_bytes())),
                false => Ok(()),
            }
        });
    }

    fn root_directory(&self, entry: &Entry) -> Result<Decision, Failure> {
        let Some(root) = &self.root else { return Ok(done(false)) };
        if entry.is_implied() && !self.resolved.is_new {
            return Ok(unchanged(None, false));
        }
        let mut stat = root.dir.stat_self().map_err(|error| failed("read metadata", &entry.path, &error))?;
        if !root.territory.top_is_changed.load(Ordering::Acquire) {
            // Nothing but our staging has changed it.
            stat.mtime = root.territory.top_mtime;
        }
        if let Some(mode) = *lock(&root.territory.mode_before) {
            // Its own, which it has again at the end.
            stat.mode = mode;
        }
        let xattrs = match self.terms.preserve.xattrs {
            true => root.dir.as_file().and_then(|dir| dir.xattrs()).ok(),
            false => None,
        };
        let (wanted, is_same) = match self.resolved.is_new {
            true => (Wanted::of(entry), false),
            false => self.wanted_there(entry, root, &stat, xattrs.as_deref()),
        };
        self.spool(entry, wanted, is_same)?;
        Ok(if is_same { unchanged(None, false) } else { done(self.resolved.is_new) })
    }

    fn directory(&self, entry: &Entry) -> Result<Decision, Failure> {
        let path = &entry.path;
        let Some((place, name)) = self.parent_or_dry(path)? else { return Ok(done(false)) };
        let mut stat = self.look(&place, &name, entry, false)?;
        let mut aside = None;
        if let Some(found) = stat.as_ref().filter(|found| found.kind != thalweg_sys::Kind::Dir) {
            aside = self.make_way_for_directory(&place, &name, found, path)?;
            stat = None;
        }
        if stat.is_none() && !self.terms.dry_run {
            match place.dir.make_dir(&name, self.mode_made(entry) | 0o700) {
                Ok(()) => {
                    let made = self.with_descriptors(|| place.dir.open_beneath(&name, Links::Refuse));
                    let bytes = self.final_path(path).as_bytes().to_vec();
                    made.and_then(|dir| self.hold(&bytes, dir, true))
                        .map_err(|error| failed("open", path, &error))?;
                    self.changed_parent(path, &place);
                    self.spool(entry, Wanted::of(entry), false)?;
                    return Ok(done(true));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    stat = self.look(&place, &name, entry, true)?;
                    if stat.as_ref().is_some_and(|stat| stat.kind != thalweg_sys::Kind::Dir) {
                        return Err(conflict(path, "it appeared at the destination while it was copied"));
                    }
                }
                Err(error) => {
                    if let Some(aside) = aside {
                        self.put_back(&aside, &place, &name);
                    }
                    return Err(failed("make the directory", path, &of_room(&place.dir, error)));
                }
            }
        }
        let Some(stat) = stat else { return Ok(done(false)) };
        let xattrs =
            self.terms.preserve.xattrs.then(|| self.with_descriptors(|| place.dir.xattrs(&name))).transpose();
        let xattrs = xattrs.map_err(|error| failed("read the attributes", path, &error))?;
        let preserve = &self.terms.preserve;
        let keeps_its_own = entry.is_implied();
        let (mut wanted, is_same) = match keeps_its_own {
            true => (Wanted::of_existing(&stat, xattrs.as_deref().unwrap_or_default()), true),
            false => self.wanted_there(entry, &place, &stat, xattrs.as_deref()),
        };
        if self.terms.dry_run {
            return Ok(if is_same { unchanged(None, false) } else { done(false) });
        }
        // Opened for ourselves for the time being; its mode comes at the end.
        let mut made = false;
        if self.rights.uid != 0 && stat.uid == self.rights.uid && stat.mode & 0o700 != 0o700 {
            let opened = place.dir.set_mode(&name, stat.mode | 0o700);
            opened.map_err(|error| failed("open the directory for writing", path, &error))?;
            self.changed_loosely(&place.territory);
            made = true;
            if !preserve.mode || keeps_its_own {
                wanted.mode = stat.mode | RESTORE;
            }
        }
        if !keeps_its_own || made {
            self.spool(entry, wanted, is_same)?;
        }
        // What goes at the source may be below it, and there no sync of that covers its name.
        let waits = self.lasts_for_part(path, &place);
        let made = made || waits || (!place.territory.syncs_whole && self.lasts_for_source(path, &place));
        Ok(if is_same { unchanged(None, made) } else { done(made) })
    }

    /// What a directory that stands there and looks so is to have, and whether it has it.
    fn wanted_there(
        &self,
        entry: &Entry,
        place: &Place,
        stat: &Stat,
        xattrs: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> (Wanted, bool) {
        let preserve = &self.terms.preserve;
        let wanted = Wanted::of(entry).within_reach(stat, preserve, &self.rights);
        if !differs(stat, xattrs, &wanted, preserve, self.grain(place)) {
            return (wanted, true);
        }
        // An attempt that did not come to its end told nothing of directories, and may have made this one.
        (if self.goes_on() { Wanted::of(entry) } else { wanted }, false)
    }

    /// Keeps a directory's metadata for the end, and whether it is told as unchanged until then.
    fn spool(&self, entry: &Entry, wanted: Wanted, was_unchanged: bool) -> Result<(), Failure> {
        if self.terms.dry_run {
            return Ok(());
        }
        let path = self.final_path(&entry.path).into_owned();
        let item = Spooled { id: entry.id, path, was_unchanged, wanted };
        let pushed = lock(&self.spool).push(&item, || self.nameless_file());
        pushed.map_err(|error| failed("keep metadata", &entry.path, &error))
    }

    /// Lets go of `names` before what an earlier attempt left is read: other files get their names meanwhile.
    fn file(
        &self,
        entry: &Entry,
        names: RwLockReadGuard<'_, ()>,
        reading: Reading<'_>,
    ) -> Result<Decision, Failure> {
        let path = &entry.path;
        let Some((place, name)) = self.parent_or_dry(path)? else { return Ok(Decision::Fresh) };
        let Some(stat) = self.look(&place, &name, entry, false)? else {
            drop(names);
            let decision = self.resume(entry, &place, None, reading)?;
            return Ok(self.or_elsewhere(entry, decision, self.grain(&place), reading));
        };
        let mut candidate = None;
        let source = match self.terms.check {
            Check::Evidence | Check::Nothing => (entry.evidence.device, entry.evidence.inode),
            // One name may be given its time while another is compared, which would take that for a change.
            Check::Digest => (0, 0),
        };
        // Before it may be left alone: then it is not changed under its other name either.
        // Where nothing is replaced none gets a file of its own.
        let is_of_another = !self.guard.no_replace && self.hard_links.is_of_another(&stat, path, source);
        if let Some(skipped) = self.left_alone(entry, &stat) {
            return Ok(skipped);
        }
        check_replaceable(path, &stat, thalweg_sys::Kind::File)?;
        match stat.kind {
            thalweg_sys::Kind::Dir => self.check_way(&place, &name, path)?,
            // What is not kept is written anew, as a file of its own.
            thalweg_sys::Kind::File if !is_of_another => match self.terms.check {
                Check::Evidence => {
                    if let Some(remembered) = self.is_unchanged(entry, &stat, &place) {
                        let digest = remembered.map(|remembered| remembered.digest);
                        return self.keep(entry, &place, &name, &stat, digest, remembered.is_some());
                    }
                    // Something about one of the two changed, perhaps only its mode; or it never had the source's time.
                    let may_be_same = stat.size == entry.evidence.size
                        && (!self.terms.preserve.times
                            || self.grain(&place).is_same(entry.evidence.mtime, stat.mtime));
                    candidate = may_be_same.then_some(stat.size);
                }
                Check::Digest => candidate = Some(stat.size),
                Check::Nothing => {}
            },
            _ => {}
        }
        if place.is_mounted_over(&stat) {
            return Err(mounted("put in place", path));
        }
        // Of what is as long only its content tells.
        if candidate != Some(entry.evidence.size) {
            self.check_replacing(path)?;
        }
        let seen = if is_of_another { Seen::of_another(&stat) } else { Seen::of(&stat) };
        self.flights.with(entry.id, |flight| flight.seen = Some(seen));
        drop(names);
        self.resume(entry, &place, candidate, reading)
    }

    fn left_alone(&self, entry: &Entry, stat: &Stat) -> Option<Decision> {
        let reason = self.reason_to_leave(entry, stat)?;
        Some(settled(Outcome::Skipped(reason.to_owned()), false))
    }

    /// Why what stands there is left alone, whatever it is.
    pub(super) fn reason_to_leave(&self, entry: &Entry, stat: &Stat) -> Option<&'static str> {
        if self.may_be_source(entry, stat) {
            return Some(MAY_BE_SOURCE);
        }
        let mtime = (stat.kind == thalweg_sys::Kind::File).then(|| wire_time(stat.mtime));
        LeftAlone::of(&self.terms).reason(entry, mtime)
    }

    /// Whether size, time and what the catalogue remembers say that it is the same content. `Some(None)` without
    /// the catalogue's word.
    fn is_unchanged(&self, entry: &Entry, stat: &Stat, place: &Place) -> Option<Option<Remembered>> {
        if stat.size != entry.evidence.size {
            return None;
        }
        let remembered = match &*lock(&self.catalogue) {
            Some(catalogue) => catalogue.find(&self.final_path(&entry.path)).ok().flatten(),
            None => None,
        };
        match remembered {
            Some(remembered) if remembered.evidence == bind(&entry.evidence, &evidence_of(stat)) => {
                Some(Some(remembered))
            }
            Some(_) => None,
            None => self.grain(place).is_same(entry.evidence.mtime, stat.mtime).then_some(None),
        }
    }

    /// The content stays; only metadata may have to follow. `is_remembered`: the catalogue says that nothing changed on
    /// either side since we made it.
    fn keep(
        &self,
        entry: &Entry,
        place: &Place,
        name: &[u8],
        stat: &Stat,
        digest: Option<Digest>,
        is_remembered: bool,
    ) -> Result<Decision, Failure> {
        let of_io = |error: io::Error| failed("set metadata", &entry.path, &error);
        let preserve = &self.terms.preserve;
        let mut wanted = self.wanted_of_file(entry).within_reach(stat, preserve, &self.rights);
        // Then an entry without attributes has none there either.
        let may_differ = preserve.xattrs && (!is_remembered || !entry.xattrs.is_empty());
        let xattrs = may_differ
            .then(|| self.with_descriptors(|| place.dir.xattrs(name)))
            .transpose()
            .map_err(of_io)?;
        self.leave_rights(&mut wanted, stat, xattrs.as_deref(), || {
            let found = self.with_descriptors(|| place.dir.xattr(name, CAPABILITY));
            found.is_ok_and(|capability| capability.is_some())
        });
        // Nothing goes at the source for what was not compared.
        let missed = digest.map_or_else(Vec::new, |_| self.missed_by_file(entry, stat, &wanted));
        // A copy tells the same of a file that gets other metadata: nothing of its content comes.
        if self.terms.dry_run || !differs(stat, xattrs.as_deref(), &wanted, preserve, self.grain(place)) {
            return Ok(self.kept(entry, Outcome::Done { digest, losses: missed }));
        }
        let has = Has { may_have_xattrs: may_differ, ..Has::of(stat) };
        let goes = self.terms.removes_source && digest.is_some();
        let forgets = self.forgets(place).filter(|_| goes);
        let (mut losses, is_changed) = match self.with_descriptors(|| place.dir.open_read(name)) {
            Ok(file) => {
                if !file.stat().map_err(of_io)?.is_same_entry(stat) {
                    return Err(conflict(&entry.path, "it was replaced while it was looked at"));
                }
                apply_surely(&file, &has, &wanted, preserve, &self.rights, true, forgets).map_err(of_io)?
            }
            // A file that we own and may not read. By name, for it has no descriptor; not as root, who may.
            Err(_) if self.rights.uid != 0 => {
                let named = Named(&place.dir, name);
                apply_surely(&named, &has, &wanted, preserve, &self.rights, true, forgets).map_err(of_io)?
            }
            Err(error) => return Err(of_io(error)),
        };
        // What cannot be kept was told when the file was made; and nothing is remembered of a file of which only size
        // and time were looked at, so that each copy would tell it again.
        if !is_changed && !goes && (is_remembered || losses.is_empty() || digest.is_none()) {
            return Ok(unchanged(digest, false));
        }
        losses.extend(missed);
        if !is_changed {
            return Ok(self.kept(entry, Outcome::Done { digest, losses }));
        }
        self.changed_by_name(&entry.path, place, name);
        let now = place.dir.stat(name).map_err(of_io)?;
        if digest.is_some()
            && now.is_same_entry(stat)
            && (now.size, now.mtime) == (stat.size, wanted_mtime(&wanted, stat, preserve.times))
        {
            self.flights.with(entry.id, |flight| flight.finished = Some((evidence_of(&now), digest)));
        }
        Ok(if losses.is_empty() {
            unchanged(digest, true)
        } else {
            settled(Outcome::Done { digest, losses }, true)
        })
    }

    /// The file that stood there when the entry was decided, if it still does.
    fn seen_file(&self, entry: &Entry) -> Result<Option<(Spot, Stat)>, Failure> {
        let seen = self.flights.seen(entry.id);
        let (place, name) = self.parent_of(&entry.path)?;
        let stat = place.dir.stat(&name).map_err(|error| failed("read metadata", &entry.path, &error))?;
        let is_still = stat.kind == thalweg_sys::Kind::File && seen.is_some_and(|seen| seen.is_still(&stat));
        Ok(is_still.then_some(((place, name), stat)))
    }

    pub(super) fn open_existing(&self, entry: &Entry) -> Result<File, Failure> {
        let changed = || {
            let cause = "something else stands at the destination than when it was decided";
            Failure::new(FailureKind::Changed, "compare", cause).at(&entry.path)
        };
        let of_io = |error: io::Error| failed("open", &entry.path, &error);
        let ((place, name), stat) = self.seen_file(entry)?.ok_or_else(changed)?;
        let file = self.with_descriptors(|| place.dir.open_read(&name)).map_err(of_io)?;
        if !file.stat().map_err(of_io)?.is_same_entry(&stat) {
            return Err(changed());
        }
        if self.terms.verify >= VerifyLevel::Readback || self.terms.removes_source {
            // What is kept counts as read back; and no source goes for pages that a sync failed to write.
            let _ = file.advise(Advice::DontNeed, 0, 0);
        }
        Ok(file)
    }

    /// The content was compared and is the same.
    pub(super) fn keep_compared(&self, entry: &Entry, digest: Digest) -> Decision {
        let kept = self.seen_file(entry).and_then(|seen| {
            let Some(((place, name), stat)) = seen else { return Ok(Decision::Fresh) };
            let is_remembered = self.is_unchanged(entry, &stat, &place).flatten().is_some();
            let decision = self.keep(entry, &place, &name, &stat, Some(digest), is_remembered)?;
            if self.terms.dry_run {
                self.hard_links.foretell(entry.id, thalweg_sys::Kind::File, Outlook::Stays);
                return Ok(decision);
            }
            // Before the sync, which may take seconds: who writes into the file meanwhile changes what is seen now.
            let now = self.stat_there(&place.dir, &name);
            let now = now.map_err(|error| failed("read metadata", &entry.path, &error))?;
            if self.may_be_source(entry, &now) {
                return Ok(settled(Outcome::Skipped(MAY_BE_SOURCE.to_owned()), false));
            }
            let is_dressed = matches!(decision, Decision::Settled { made: true, .. });
            let times = self.terms.preserve.times;
            let is_given = |mtime| times && self.grain(&place).is_same(entry.evidence.mtime, mtime);
            if !is_still_compared(&stat, &now, is_dressed, is_given) {
                return Ok(Decision::Fresh);
            }
            let decision = self.after_the_past(entry, decision)?;
            // What is remembered has no attributes but those of its entry: `keep` relies on that.
            let are_compared = self.terms.preserve.xattrs && self.terms.preserve.mode;
            let is_known = are_compared || place.dir.xattrs(&name).is_ok_and(|there| is_bare(&there));
            self.flights.with(entry.id, |flight| {
                flight.finished = Some((evidence_of(&now), is_known.then_some(digest)));
            });
            Ok(match decision {
                // The source goes for it: so it is durable first, whoever wrote it.
                Decision::Settled { outcome, .. } if self.terms.removes_source => {
                    self.changed_by_name(&entry.path, &place, &name);
                    self.changed_parent(&entry.path, &place);
                    settled(outcome, true)
                }
                decision => decision,
            })
        });
        kept.unwrap_or_else(|failure| settled(Outcome::Failed(failure), false))
    }

    /// Links, FIFOs and devices: made in staging, with all they need, and renamed into place. A FIFO or device that
    /// stands there already stays, for somebody may have it open.
    fn special(&self, entry: &Entry) -> Result<Decision, Failure> {
        let path = &entry.path;
        let only_root = || Failure::new(FailureKind::Permission, "make the device", "only root may").at(path);
        // A copy leaves it to the kernel.
        let foretell = || match self.rights.can_make_devices || !needs_right(&entry.kind) {
            true => Ok(done(false)),
            false => Err(only_root()),
        };
        let Some((place, name)) = self.parent_or_dry(path)? else { return foretell() };
        let stat = self.look(&place, &name, entry, false)?;
        if let Some(stat) = &stat {
            let source = (entry.evidence.device, entry.evidence.inode);
            let is_of_another = !self.guard.no_replace && self.hard_links.is_of_another(stat, path, source);
            if let Some(skipped) = self.left_alone(entry, stat) {
                return Ok(skipped);
            }
            check_replaceable(path, stat, kind_of(&entry.kind))?;
            if stat.kind == thalweg_sys::Kind::Dir {
                self.check_way(&place, &name, path)?;
            }
            // What another entry keeps is made anew, as a file is.
            if self.is_link_that_stays(entry, &place, &name)
                || (!is_of_another && self.is_same_special(entry, &place, &name, stat))
            {
                let losses = self.missed_by_link(entry, &place, &name, stat);
                if !losses.is_empty() {
                    return Ok(self.kept(entry, Outcome::Done { digest: None, losses }));
                }
                // As of a file that was compared.
                return Ok(unchanged(None, self.lasts_for_source(path, &place)));
            }
            if !is_of_another && is_same_node(&entry.kind, stat) {
                return self.dress_special(entry, &place, &name, stat);
            }
            if place.is_mounted_over(stat) {
                return Err(mounted("put in place", path));
            }
            self.check_replacing(path)?;
        }
        if self.terms.dry_run {
            return foretell();
        }
        let of_io = |error: io::Error| failed("make", path, &of_room(&place.dir, error));
        let staging = self.staging_at(&place).map_err(of_io)?;
        let temporary = self.claim.made_name();
        let made = self.make_special(entry, &place, &staging.dir, &temporary);
        let losses = made.map_err(|error| match &entry.kind {
            Kind::Device { .. } if error.kind() == io::ErrorKind::PermissionDenied => only_root(),
            _ => of_io(error),
        });
        let put = losses.and_then(|losses| {
            let seen = stat.as_ref().map(Seen::of);
            self.put_in_place(&staging.dir, &temporary, &place, &name, seen, path).map(|()| losses)
        });
        match put {
            Ok(mut losses) => {
                losses.extend(self.lost_link(path));
                self.changed_parent(path, &place);
                // The inode itself has no descriptor that could be synced.
                self.changed_loosely(&place.territory);
                Ok(settled(Outcome::Done { digest: None, losses }, true))
            }
            Err(failure) => {
                let _ = staging.dir.remove_file(&temporary);
                Err(failure)
            }
        }
    }

    /// Gives a FIFO or device that stands there the metadata of its entry.
    fn dress_special(
        &self,
        entry: &Entry,
        place: &Place,
        name: &[u8],
        stat: &Stat,
    ) -> Result<Decision, Failure> {
        let path = &entry.path;
        if self.terms.dry_run {
            self.hard_links.foretell(entry.id, kind_of(&entry.kind), Outlook::Stays);
            return Ok(done(false));
        }
        let of_io = |error: io::Error| failed("set metadata", path, &error);
        // Held: as root what takes its name meanwhile would be given away.
        let node = self.with_descriptors(|| place.dir.pin(name)).map_err(of_io)?;
        let found = node.stat().map_err(of_io)?;
        if !found.is_same_entry(stat) || found.kind != stat.kind {
            return Err(conflict(path, "it was replaced while it was looked at"));
        }
        let preserve = &self.terms.preserve;
        let has = Has { may_have_xattrs: preserve.xattrs, ..Has::of(stat) };
        let wanted = Wanted::of(entry).within_reach(stat, preserve, &self.rights);
        let (mut losses, is_changed) =
            apply_surely(&node, &has, &wanted, preserve, &self.rights, true, self.forgets(place))
                .map_err(of_io)?;
        if !is_changed {
            // That of another user, to whom it is left: each copy would tell it again.
            return Ok(unchanged(None, false));
        }
        losses.extend(self.lost_link(path));
        self.changed_loosely(&place.territory);
        if !place.territory.syncs_whole {
            // It cannot be synced by itself: its directory is the nearest thing that can be.
            self.changed_parent(path, place);
        }
        Ok(settled(Outcome::Done { digest: None, losses }, true))
    }

    fn make_special(&self, entry: &Entry, place: &Place, dir: &Dir, name: &[u8]) -> io::Result<Vec<Loss>> {
        let mut has_mode = true;
        match &entry.kind {
            Kind::Symlink { target } => {
                has_mode = false;
                dir.make_symlink(target, name)?;
            }
            Kind::Fifo => dir.make_fifo(name, self.mode_made(entry))?,
            Kind::Device { block, major, minor } => {
                dir.make_device(name, self.mode_made(entry), *block, *major, *minor)?;
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        let target = Named(dir, name);
        let mut has = Has { may_have_xattrs: false, mtime: None, ..Has::of(&target.look()?) };
        self.inherit_group(&target, &mut has, place);
        let wanted = Wanted::of(entry);
        let (preserve, rights) = (&self.terms.preserve, &self.rights);
        let (losses, _) =
            apply_surely(&target, &has, &wanted, preserve, rights, has_mode, self.forgets(place))?;
        Ok(losses)
    }

    fn is_same_special(&self, entry: &Entry, place: &Place, name: &[u8], stat: &Stat) -> bool {
        let preserve = &self.terms.preserve;
        // What only a better right could set is not tried again each time.
        let wanted = Wanted::of(entry).within_reach(stat, preserve, &self.rights);
        // A link gets another group only by being made anew: where a server refuses that it would be so each time.
        let is_kept =
            matches!(entry.kind, Kind::Symlink { .. }) && !self.rights.can_chown && self.is_forgetful(place);
        let same_owner = !preserve.owner || is_kept || (stat.uid, stat.gid) == (wanted.uid, wanted.gid);
        let same_time = !preserve.times || self.grain(place).is_same(entry.evidence.mtime, stat.mtime);
        let same_mode = !preserve.mode || stat.mode == wanted.mode;
        let same = match &entry.kind {
            Kind::Symlink { target } => {
                stat.kind == thalweg_sys::Kind::Symlink
                    && same_time
                    && place.dir.read_link(name).is_ok_and(|found| found == *target)
            }
            kind => is_same_node(kind, stat) && same_mode && same_time,
        };
        same && same_owner
            && (!preserve.xattrs
                || place
                    .dir
                    .xattrs(name)
                    .is_ok_and(|found| self.are_same_without_label(found, &entry.xattrs)))
    }

    /// Whether these are the attributes wanted, but for the label that SELinux gives each file itself: where it cannot
    /// be set, everything would be made again at each copy.
    fn are_same_without_label(&self, mut found: Vec<(Vec<u8>, Vec<u8>)>, wanted: &[Xattr]) -> bool {
        let is_label = |name: &[u8]| name.starts_with(b"security.selinux");
        found.retain(|(name, _)| !is_label(name));
        let wanted: Vec<Xattr> = wanted.iter().filter(|xattr| !is_label(&xattr.name)).cloned().collect();
        are_same(&found, &wanted, &self.terms.preserve)
    }

    /// Where the entry is; `None` in a dry run whose directory is not there, or not yet one.
    pub(super) fn parent_or_dry(&self, path: &RelativePath) -> Result<Option<Spot>, Failure> {
        match self.parent_of(path) {
            Err(failure)
                if self.terms.dry_run
                    && (failure.kind == FailureKind::NotFound || self.is_below_future_directory(path)) =>
            {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// What stands at a name; nothing without looking in a directory that is new, unless `surely`.
    pub(super) fn look(
        &self,
        place: &Place,
        name: &[u8],
        entry: &Entry,
        surely: bool,
    ) -> Result<Option<Stat>, Failure> {
        if place.is_new() && !surely && !self.flights.is_finished(entry.id) {
            return Ok(None);
        }
        match self.stat_there(&place.dir, name) {
            Ok(stat) => {
                self.check_case(place, name, &entry.path)?;
                Ok(Some(stat))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read metadata", &entry.path, &error)),
        }
    }

    pub(super) fn grain(&self, place: &Place) -> Grain {
        self.abilities(place).grain
    }

    pub(super) fn is_forgetful(&self, place: &Place) -> bool {
        self.abilities(place).is_forgetful
    }

    /// How finely times are kept where what was given must be looked at again.
    fn forgets(&self, place: &Place) -> Option<Grain> {
        let abilities = self.abilities(place);
        abilities.is_forgetful.then_some(abilities.grain)
    }

    fn abilities(&self, place: &Place) -> Abilities {
        let abilities = place.territory.abilities();
        abilities.or_else(|| self.root.as_ref()?.territory.abilities()).unwrap_or_default()
    }

    /// What writing this entry does to the page cache.
    pub(super) fn caching(&self, entry: &Entry, staging: &Staging) -> Caching {
        let kind = staging.abilities().kind;
        let asked = self.terms.disk.destination.direct;
        Caching::choose(asked, kind, entry.evidence.size, is_sparse(entry))
    }
}

/// Whether zeros of this entry become holes.
pub(super) fn is_sparse(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File { sparse: true, .. })
}

/// As root a copy to `/dev/null` would take it away from everybody: only what is of the same kind takes such a name.
pub(super) fn check_replaceable(
    path: &RelativePath,
    there: &Stat,
    new: thalweg_sys::Kind,
) -> Result<(), Failure> {
    use thalweg_sys::Kind::{BlockDevice, CharDevice, Fifo, Socket};
    if !matches!(there.kind, Fifo | Socket | BlockDevice | CharDevice) || there.kind == new {
        return Ok(());
    }
    Err(conflict(path, "a device, FIFO or socket stands there, which nothing of another kind replaces"))
}

/// Whether this is the FIFO, or the device, that an entry of this kind is.
fn is_same_node(kind: &Kind, stat: &Stat) -> bool {
    let is_it = match kind {
        Kind::Fifo => true,
        Kind::Device { major, minor, .. } => (stat.rdev_major, stat.rdev_minor) == (*major, *minor),
        _ => false,
    };
    is_it && stat.kind == kind_of(kind)
}

/// Whether only root may make it: a device, but for the whiteout of overlays, which anybody may.
fn needs_right(kind: &Kind) -> bool {
    matches!(kind, Kind::Device { .. }) && !matches!(kind, Kind::Device { block: false, major: 0, minor: 0 })
}

/// What stands at the path of an entry of this kind.
pub(super) fn kind_of(kind: &Kind) -> thalweg_sys::Kind {
    match kind {
        Kind::Directory => thalweg_sys::Kind::Dir,
        Kind::File { .. } | Kind::HardLink { .. } => thalweg_sys::Kind::File,
        Kind::Symlink { .. } => thalweg_sys::Kind::Symlink,
        Kind::Fifo => thalweg_sys::Kind::Fifo,
        Kind::Device { block: true, .. } => thalweg_sys::Kind::BlockDevice,
        Kind::Device { block: false, .. } => thalweg_sys::Kind::CharDevice,
    }
}

/// Whether a file is still the one that was compared and looked so `before`. `is_dressed`: we changed its metadata
/// since; `is_given`: whether that gave it this time.
fn is_still_compared(
    before: &Stat,
    now: &Stat,
    is_dressed: bool,
    is_given: impl Fn(thalweg_sys::Time) -> bool,
) -> bool {
    if !is_dressed {
        return Seen::of(before).is_still(now);
    }
    // Its ctime is ours; who writes into it changes its mtime.
    now.is_same_entry(before) && now.size == before.size && (now.mtime == before.mtime || is_given(now.mtime))
}

fn wanted_mtime(wanted: &Wanted, stat: &Stat, times: bool) -> thalweg_sys::Time {
    if times { sys_time(wanted.mtime) } else { stat.mtime }
}

pub(super) fn settled(outcome: Outcome, made: bool) -> Decision {
    Decision::Settled { outcome, made }
}

pub(super) fn done(made: bool) -> Decision {
    settled(Outcome::Done { digest: None, losses: Vec::new() }, made)
}

pub(super) fn unchanged(digest: Option<Digest>, made: bool) -> Decision {
    settled(Outcome::Unchanged { digest }, made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Destination;
    use crate::endpoint::Listing;
    use crate::endpoint::local::DestinationPlace;
    use crate::filter::Filter;
    use thalweg_wire::message::{Preserve, SourceForm, Terms};
    use thalweg_wire::{EntryId, Evidence};

    fn open(to: &std::path::Path, dry_run: bool) -> LocalDestination {
        let place = DestinationPlace { path: to.to_path_buf(), below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { dry_run, preserve, ..Terms::of(4 << 20, 1 << 20) };
        LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap()
    }

    /// Owned as what we make.
    fn entry(path: &str, kind: Kind, mode: u32) -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(path.into()).unwrap(),
            kind,
            mode,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn a_root_that_was_opened_for_us_is_unchanged_where_its_own_mode_is() {
        let scratch = tempfile::tempdir().unwrap();
        let to = open(scratch.path(), false);
        let root = to.root.clone().unwrap();
        *lock(&root.territory.mode_before) = Some(0o555);
        let stat = root.dir.stat_self().unwrap();
        let mtime = wire_time(root.territory.top_mtime);
        let offered = Entry {
            path: RelativePath::root(),
            uid: stat.uid,
            gid: stat.gid,
            evidence: Evidence { mtime, ..Evidence::default() },
            ..entry("x", Kind::Directory, 0o555)
        };
        let decided = to.decide_entry(&offered, &|_, _| true);
        assert!(matches!(decided, Decision::Settled { outcome: Outcome::Unchanged { .. }, .. }));
        let conclusion = to.conclude_all(Listing::Whole, &|| true);
        assert!(conclusion.revised.is_empty(), "{conclusion:?}");
        to.close(true);
        assert_eq!(root.dir.stat_self().unwrap().mode, 0o555);
        root.dir.as_file().unwrap().set_mode(0o755).unwrap();
    }

    #[test]
    fn a_dry_run_foretells_that_only_root_may_make_a_device() {
        let scratch = tempfile::tempdir().unwrap();
        let device = |block, major, minor| Kind::Device { block, major, minor };
        let rows = [
            (device(false, 1, 3), false, false),
            (device(true, 7, 0), false, false),
            (device(true, 0, 0), false, false),
            // A whiteout of overlays.
            (device(false, 0, 0), false, true),
            (Kind::Fifo, false, true),
            (device(false, 1, 3), true, true),
        ];
        for (kind, can_make_devices, is_done) in rows {
            let mut to = open(scratch.path(), true);
            to.rights.can_make_devices = can_make_devices;
            for path in ["x", "missing/x"] {
                let decided = to.decide_entry(&entry(path, kind.clone(), 0o600), &|_, _| true);
                let Decision::Settled { outcome, made: false } = decided else { panic!("{path}: {kind:?}") };
                let is_as_told = match &outcome {
                    Outcome::Done { .. } => is_done,
                    Outcome::Failed(failure) => !is_done && failure.kind == FailureKind::Permission,
                    _ => false,
                };
                assert!(is_as_told, "{path}, {kind:?}: {outcome:?}");
            }
        }
    }

    #[test]
    fn who_writes_into_a_file_after_it_was_compared_has_it_sent_again() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("f"), "x").unwrap();
        let before = Dir::open(scratch.path()).unwrap().stat(b"f").unwrap();
        let given = thalweg_sys::Time { seconds: before.mtime.seconds + 100, nanos: 0 };
        let later = thalweg_sys::Time { seconds: before.mtime.seconds + 200, nanos: 0 };
        let is_given = |time: thalweg_sys::Time| time == given;
        let is_still = |now: &Stat, is_dressed| is_still_compared(&before, now, is_dressed, is_given);
        assert!(is_still(&before, false));
        // In place: the same file, as long as before.
        let written = Stat { mtime: later, ctime: later, ..before };
        assert!(!is_still(&written, false) && !is_still(&written, true));
        // With the time put back, only its ctime tells; unless that is our doing.
        let put_back = Stat { ctime: later, ..before };
        assert!(!is_still(&put_back, false) && is_still(&put_back, true));
        assert!(is_still(&Stat { mtime: given, ctime: later, ..before }, true));
        assert!(!is_still(&Stat { inode: before.inode + 1, ..before }, true));
        assert!(!is_still(&Stat { size: 2, ..before }, true));
    }
}
