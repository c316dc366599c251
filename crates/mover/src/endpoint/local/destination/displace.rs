//! Makes way for an entry where something of another kind stands: for a file (or link) where a directory is, and for a
//! directory where a file or link is. An empty directory always gives way; everything else only where deleting was
//! asked for, and as deletion: what is excluded stays, nothing beyond `delete_max` goes.
//!
//! 1. When the entry is decided all that would go is counted, and refused if it may not; a dry run tells it.
//! 2. When the entry is ready for its name it is counted again and taken from what may be deleted; then both change
//!    places in one step, the old one into staging.
//! 3. With the other deletions, after everything is durable, it is removed from there.
//!
//! That the source was listed in full is no condition here: what has the name of a directory's file, or the other way
//! round, the source cannot have.
//!
//! Not guaranteed: that a directory's name is there at every moment while a file makes way for it; and what somebody
//! puts into a directory between 2's count and the step after it goes with it.

use super::{LocalDestination, Place};
use crate::endpoint::Conclusion;
use crate::endpoint::deletion::{Doomed, Spared};
use crate::endpoint::local::staging::leftover::{entries_in, open_for_us, sweep};
use crate::endpoint::local::staging::{Staging, aside_name, is_aside};
use crate::endpoint::local::{conflict, errno, failed, failed_to_take, is_errno, lock, mounted};
use crate::failure::{self, Failure, FailureKind, Result};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, Kind, Links, Replace, Stat};
use thalweg_wire::RelativePath;
use thalweg_wire::limits::DELETED_TOLD_MAX;

/// What was set aside for others, also by earlier attempts, or would be in a dry run; and what was removed at the ends
/// so far.
#[derive(Default)]
pub(super) struct Replaced {
    pub(super) count: u64,
    /// The first of what no end has told yet.
    pub(super) names: Vec<RelativePath>,
}

/// Something that was moved out of the way, and back where its successor cannot be made.
pub(super) struct Aside {
    staging: Arc<Staging>,
    name: Vec<u8>,
    doomed: Doomed,
}

impl LocalDestination {
    /// Something that is no directory is to stand where a directory does.
    ///
    /// # Errors
    /// `Conflict` if it may not go; `Usage` if more than may be deleted would.
    pub(super) fn check_way(&self, place: &Place, name: &[u8], path: &RelativePath) -> Result<()> {
        let opened = place.dir.open_beneath(name, Links::Refuse);
        if opened.as_ref().is_ok_and(|dir| dir.stat_self().is_ok_and(|stat| place.is_mounted_over(&stat))) {
            return Err(mounted("make way", path));
        }
        let first = opened.and_then(|dir| dir.entries()?.next().transpose());
        match first {
            Ok(None) => return Ok(()),
            Ok(Some(_)) if self.terms.delete_max.is_none() => {
                return Err(conflict(path, "a directory that is not empty stands there"));
            }
            Ok(Some(_)) => {}
            Err(error) => return Err(failed("read metadata", path, &error)),
        }
        let doomed = self.doomed(place, name, true, path)?;
        self.check_count(doomed, path)
    }

    /// A directory is to stand where something else does. In a dry run what will be below it is not looked for.
    ///
    /// # Errors
    /// As [`LocalDestination::check_way`].
    pub(super) fn make_way_for_directory(
        &self,
        place: &Place,
        name: &[u8],
        stat: &Stat,
        path: &RelativePath,
    ) -> Result<Option<Aside>> {
        let is_replaceable = matches!(stat.kind, Kind::File | Kind::Symlink);
        if !is_replaceable || self.terms.delete_max.is_none() || self.terms.ignore_existing {
            let cause = "something that is not a directory stands where the source has one";
            return Err(conflict(path, cause));
        }
        self.check_replacing(path)?;
        let doomed = self.doomed(place, name, false, path)?;
        if self.terms.dry_run {
            self.check_count(doomed, path)?;
            if let Some(offered) = &mut *lock(&self.deletion.offered) {
                let key = as_future_directory(self.final_path(path).as_bytes());
                offered.insert(&key).map_err(|error| failed("read metadata", path, &error))?;
            }
            return Ok(None);
        }
        let staging = self.staging_at(place).map_err(|error| failed("make way", path, &error))?;
        self.reserve(&doomed, path)?;
        match self.move_aside(&place.dir, name, &staging) {
            Ok(aside) => Ok(Some(Aside { staging, name: aside, doomed })),
            Err(error) => {
                self.release(&doomed);
                Err(failed_to_take("make way", path, &place.dir, name, &error))
            }
        }
    }

    /// The directory could not be made after all. Best effort: what cannot be put back stays in staging.
    pub(super) fn put_back(&self, aside: &Aside, place: &Place, name: &[u8]) {
        match aside.staging.dir.rename(&aside.name, &place.dir, name, Replace::Never) {
            Ok(()) => self.release(&aside.doomed),
            Err(error) => tracing::warn!(%error, "what made way for a directory cannot be put back"),
        }
    }

    /// Whether `path` is below a directory that this dry run would make of something else.
    pub(super) fn is_below_future_directory(&self, path: &RelativePath) -> bool {
        let offered = lock(&self.deletion.offered);
        let Some(offered) = &*offered else { return false };
        let path = self.final_path(path);
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut above = slashes.map(|at| &bytes[..at]);
        above.any(|above| offered.contains(&as_future_directory(above)).unwrap_or(false))
    }

    /// Gives `temporary` its final name, which a directory with something in it has; that goes into staging.
    pub(super) fn replace_tree(
        &self,
        from: &Dir,
        temporary: &[u8],
        place: &Place,
        name: &[u8],
        path: &RelativePath,
    ) -> Result<()> {
        let of_io = |error: io::Error| failed("make way", path, &error);
        let staging = self.staging_at(place).map_err(of_io)?;
        let doomed = self.doomed(place, name, true, path)?;
        self.reserve(&doomed, path)?;
        let replaced = place.dir.stat(name).and_then(|stat| {
            // Who moves a directory elsewhere writes in it: its way up changes.
            let is_opened = open_for_us(&place.dir, name, &stat)?;
            let changed = self.change_places(from, temporary, &place.dir, name, &staging);
            if changed.is_err() && is_opened {
                let _ = place.dir.set_mode(name, stat.mode);
            }
            changed
        });
        if replaced.is_err() {
            self.release(&doomed);
        }
        replaced.map_err(of_io)
    }

    /// The new one takes the name under which the old one is to lie in staging; then they change names.
    fn change_places(
        &self,
        from: &Dir,
        temporary: &[u8],
        dir: &Dir,
        name: &[u8],
        staging: &Staging,
    ) -> io::Result<()> {
        let aside = self.free_aside(|aside| from.rename(temporary, &staging.dir, aside, Replace::Never))?;
        staging.sets_aside();
        let changed = match staging.dir.rename(&aside, dir, name, Replace::Exchange) {
            Err(error) if is_not_known(&error) => self.in_two_steps(&aside, dir, name, staging),
            other => other,
        };
        if changed.is_err() {
            staging.dir.rename(&aside, from, temporary, Replace::Never)?;
        }
        changed
    }

    /// Where the file system cannot exchange names: for a moment there is none.
    fn in_two_steps(&self, new: &[u8], dir: &Dir, name: &[u8], staging: &Staging) -> io::Result<()> {
        let aside = self.move_aside(dir, name, staging)?;
        let named = staging.dir.rename(new, dir, name, Replace::Never);
        if named.is_err() {
            staging.dir.rename(&aside, dir, name, Replace::Never)?;
        }
        named
    }

    fn move_aside(&self, dir: &Dir, name: &[u8], staging: &Staging) -> io::Result<Vec<u8>> {
        let aside = self.free_aside(|aside| dir.rename(name, &staging.dir, aside, Replace::Never))?;
        staging.sets_aside();
        Ok(aside)
    }

    /// A name that nothing has which an earlier attempt set aside.
    fn free_aside(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Vec<u8>> {
        loop {
            let name = aside_name(self.claim.new_number()).into_bytes();
            match take(&name) {
                Ok(()) => return Ok(name),
                // Numbers only grow, and what is there is finite.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// All that would go with what stands at `name`.
    fn doomed(&self, place: &Place, name: &[u8], is_dir: bool, path: &RelativePath) -> Result<Doomed> {
        let at = self.final_path(path);
        if self.deletion.is_protected(&at, is_dir) {
            return Err(conflict(path, "what stands there is excluded from deletion, and of another kind"));
        }
        if !is_dir {
            return Ok(Doomed { count: 1, names: vec![at.into_owned()], spared: Spared::default() });
        }
        let dir = place.dir.open_beneath(name, Links::Refuse);
        let dir = dir.map_err(|error| failed("read metadata", path, &error))?;
        let counted = self.count_tree(&at, Arc::new(dir), place.territory.key.mount);
        let counted = counted.map_err(|error| failed("read metadata", path, &error))?;
        counted.ok_or_else(|| {
            let cause = "a directory stands there which holds what may not be deleted: names that are excluded, \
                         another file system, or what cannot be listed";
            conflict(path, cause)
        })
    }

    /// Counted against what may still be deleted. A dry run takes it as done.
    fn check_count(&self, doomed: Doomed, path: &RelativePath) -> Result<()> {
        if self.terms.dry_run {
            return self.reserve(&doomed, path);
        }
        let before = lock(&self.deletion.replaced).count;
        self.is_within(before, doomed.count, path)
    }

    fn is_within(&self, before: u64, more: u64, path: &RelativePath) -> Result<()> {
        let max = self.terms.delete_max.unwrap_or(0);
        if before.saturating_add(more) <= max {
            return Ok(());
        }
        let left = max.saturating_sub(before);
        let cause = format!(
            "{} have to make way for it, and {left} more may be deleted",
            failure::counted(more, "entry would", "entries would")
        );
        Err(Failure::new(FailureKind::Usage, "make way", cause).at(path))
    }

    fn reserve(&self, doomed: &Doomed, path: &RelativePath) -> Result<()> {
        let mut replaced = lock(&self.deletion.replaced);
        self.is_within(replaced.count, doomed.count, path)?;
        replaced.count += doomed.count;
        let room = DELETED_TOLD_MAX.saturating_sub(replaced.names.len());
        replaced.names.extend(doomed.names.iter().take(room).cloned());
        Ok(())
    }

    fn release(&self, doomed: &Doomed) {
        let mut replaced = lock(&self.deletion.replaced);
        replaced.count = replaced.count.saturating_sub(doomed.count);
        replaced.names.retain(|name| !doomed.names.contains(name));
    }

    /// What earlier attempts set aside counts as what this one does: it goes at the same end. Of more than may be
    /// deleted no more is counted, for nothing else goes then. Where an attempt was killed while two changed places,
    /// one too many is.
    pub(super) fn count_earlier_asides(&self, staging: &Staging) {
        let (Some(delete_max), Ok(entries)) = (self.terms.delete_max, staging.dir.entries()) else { return };
        let most = delete_max.saturating_add(1);
        let mut count = 0;
        for name in entries.flatten().map(|entry| entry.name).filter(|name| is_aside(name)) {
            count += entries_in(&staging.dir, &name, most.saturating_sub(count));
        }
        let mut replaced = lock(&self.deletion.replaced);
        replaced.count = replaced.count.saturating_add(count);
    }

    /// Removes what was set aside, by this attempt and by earlier ones. Not in a dry run. What is left when it is
    /// stopped goes at the end of another attempt.
    pub(super) fn remove_aside(&self, goes_on: &dyn Fn() -> bool, conclusion: &mut Conclusion) {
        if self.terms.dry_run {
            return;
        }
        let stays = |error: &io::Error| {
            let mut failure = failure::of_io("delete", error);
            failure.cause = format!("what made way for another entry stays in staging: {}", failure.cause);
            failure
        };
        for territory in self.territories.all().into_iter().filter(|territory| territory.has_asides()) {
            let opened = self.with_descriptors(|| territory.staging_again(&self.claim.job));
            let listed = opened.and_then(|staging| match staging {
                Some(staging) => staging.dir.entries().map(|entries| Some((staging, entries))),
                None => Ok(None),
            });
            let (staging, entries) = match listed {
                Ok(Some(listed)) => listed,
                Ok(None) => continue,
                Err(error) => {
                    let top = RelativePath::new(territory.path.clone()).unwrap_or_default();
                    conclusion.troubles.push(stays(&error).at(&top));
                    continue;
                }
            };
            for name in entries.flatten().map(|entry| entry.name).filter(|name| is_aside(name)) {
                if !goes_on() {
                    return;
                }
                match remove_tree(&staging.dir, &name, goes_on) {
                    Err(_) if !goes_on() => return,
                    Err(error) => conclusion.troubles.push(stays(&error)),
                    Ok(()) => {}
                }
            }
        }
    }
}

/// Removes an entry, with all that is in it. `goes_on` is asked before each step.
///
/// # Errors
/// What the kernel says, and `Interrupted` where that said `false`; the rest stays.
pub(in crate::endpoint::local) fn remove_tree(
    parent: &Dir,
    name: &[u8],
    goes_on: &dyn Fn() -> bool,
) -> io::Result<()> {
    let stat = parent.stat(name)?;
    match stat.kind {
        Kind::Dir => {
            open_for_us(parent, name, &stat)?;
            sweep(&Arc::new(parent.open_beneath(name, Links::Refuse)?), true, goes_on)?;
            parent.remove_dir(name)
        }
        _ => parent.remove_file(name),
    }
}

/// The kernel or the file system cannot exchange names.
fn is_not_known(error: &io::Error) -> bool {
    [errno::INVALID, errno::NO_SYSTEM_CALL, errno::NOT_SUPPORTED]
        .into_iter()
        .any(|number| is_errno(error, number))
}

/// What stands, in the set of names offered, for a directory that a dry run would make of something else.
fn as_future_directory(path: &[u8]) -> Vec<u8> {
    [path, b"//"].concat()
}
