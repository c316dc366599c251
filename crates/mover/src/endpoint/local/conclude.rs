//! After the last entry: deletions, then the directories' own metadata, deepest first, then one sync of it all.

use super::destination::LocalDestination;
use super::metadata::{Has, apply, differs, look_what_stayed};
use super::spool::Spooled;
use super::{failed, lock, sys_time};
use crate::endpoint::Conclusion;
use crate::failure::{self, Failure};
use std::io;
use std::sync::atomic::Ordering;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{Loss, Outcome};

/// Losses and troubles kept for the report; what is beyond is counted.
const TROUBLES_MAX: usize = 100_000;

/// In a spooled mode: the directory's own, which was opened for us for the time being.
pub(super) const RESTORE: u32 = 1 << 31;

impl LocalDestination {
    pub(super) fn conclude_all(&self, complete: bool) -> Conclusion {
        let mut conclusion = Conclusion::default();
        if let Err(failure) = self.check_sound() {
            conclusion.failed = Some(failure);
            return conclusion;
        }
        self.delete_all(complete, &mut conclusion);
        self.remove_aside(&mut conclusion);
        loop {
            let popped = lock(&self.spool).pop();
            match popped {
                Ok(Some(item)) => self.conclude_directory(&item, &mut conclusion),
                Ok(None) => break,
                Err(error) => {
                    conclusion.troubles.push(failure::of_io("read the metadata of directories", &error));
                    break;
                }
            }
        }
        if !self.terms.dry_run {
            conclusion.failed = self.sync_written(&[]).err();
        }
        conclusion
    }

    fn conclude_directory(&self, item: &Spooled, conclusion: &mut Conclusion) {
        if conclusion.revised.len() >= TROUBLES_MAX {
            return;
        }
        match self.apply_directory(item) {
            Ok(losses) if losses.is_empty() => {}
            Ok(losses) => {
                conclusion.revised.push((item.path.clone(), Outcome::Done { digest: None, losses }))
            }
            Err(failure) => conclusion.revised.push((item.path.clone(), Outcome::Failed(failure))),
        }
    }

    fn apply_directory(&self, item: &Spooled) -> Result<Vec<Loss>, Failure> {
        let of_io = |error: io::Error| failed("set the metadata of", &item.path, &error);
        let place = self.place(item.path.as_bytes()).map_err(of_io)?;
        let preserve = &self.terms.preserve;
        let stat = place.dir.stat_self().map_err(of_io)?;
        let is_top = place.territory.top.stat_self().is_ok_and(|top| top.is_same_entry(&stat));
        if is_top && preserve.times {
            // Removing our staging will change them once more.
            lock(&self.top_times).insert(place.territory.key, sys_time(item.wanted.mtime));
        }
        if item.path == RelativePath::root() {
            place.territory.top_is_changed.store(true, Ordering::Release);
        }
        let mut wanted = item.wanted.clone();
        let mut preserve = *preserve;
        if wanted.mode & RESTORE != 0 {
            wanted.mode &= !RESTORE;
            preserve.mode = true;
        }
        let preserve = &preserve;
        let dir = place.dir.as_file().map_err(of_io)?;
        let xattrs = preserve.xattrs.then(|| dir.xattrs()).transpose().map_err(of_io)?;
        if is_top && preserve.mode {
            lock(&place.territory.mode_before).take();
        }
        if !differs(&stat, xattrs.as_deref(), &wanted, preserve, self.grain(&place)) {
            return Ok(Vec::new());
        }
        let has = Has { may_have_xattrs: preserve.xattrs, ..Has::of(&stat) };
        let (mut losses, is_changed) =
            apply(&dir, &has, &wanted, preserve, &self.rights, true).map_err(of_io)?;
        if self.is_forgetful(&place) {
            look_what_stayed(&dir, &wanted, preserve, self.grain(&place), &mut losses).map_err(of_io)?;
        }
        if is_changed {
            self.changed_dir(item.path.as_bytes(), &place.dir, &place.territory);
        }
        Ok(losses)
    }
}
