//! After the last entry: deletions, then the directories' own metadata, deepest first, then one sync of it all.

use super::LocalDestination;
use super::ajar::is_kept_out;
use super::spool::Spooled;
use crate::endpoint::local::metadata::{Has, apply, differs, look_what_stayed};
use crate::endpoint::local::{failed, lock, sys_time};
use crate::endpoint::{Conclusion, Listing, Revised};
use crate::failure::{self, Failure, FailureKind};
use std::io;
use std::sync::atomic::Ordering;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{Loss, Outcome};

/// Directories that are told one by one of those whose metadata were not kept in full; the others are told as a number.
pub(super) const TOLD_MAX: usize = 100_000;

/// In a spooled mode: the directory's own, which was opened for us for the time being.
pub(super) const RESTORE: u32 = 1 << 31;

impl LocalDestination {
    pub(super) fn conclude_all(&self, listing: Listing, goes_on: &dyn Fn() -> bool) -> Conclusion {
        self.conclude_telling(listing, TOLD_MAX, goes_on)
    }

    fn conclude_telling(&self, listing: Listing, told_max: usize, goes_on: &dyn Fn() -> bool) -> Conclusion {
        let mut conclusion = Conclusion::default();
        if let Err(failure) = self.durability.check() {
            conclusion.failed = Some(failure);
            return conclusion;
        }
        self.delete_all(listing, goes_on, &mut conclusion);
        self.remove_aside(goes_on, &mut conclusion);
        let mut untold = 0;
        loop {
            // Also of a transfer that is over: no other attempt may come that would give them.
            goes_on();
            let popped = lock(&self.spool).pop();
            match popped {
                Ok(Some(item)) => match self.conclude_directory(&item) {
                    None => {}
                    Some(outcome) if conclusion.revised.len() < told_max => {
                        let Spooled { path, was_unchanged, .. } = item;
                        conclusion.revised.push(Revised { path, was_unchanged, outcome });
                    }
                    Some(_) => untold += 1,
                },
                Ok(None) => break,
                Err(error) => {
                    conclusion.troubles.push(failure::of_io("read the metadata of directories", &error));
                    break;
                }
            }
        }
        if untold > 0 {
            let untold = failure::counted(untold, "more directory", "more directories");
            let cause = format!("{untold} did not keep all of theirs");
            conclusion.troubles.push(Failure::new(FailureKind::Unsupported, "set metadata", cause));
        }
        self.close_what_was_opened();
        if !self.terms.dry_run {
            conclusion.failed = self.sync_written(&[]).err();
        }
        conclusion
    }

    /// What is worse of a directory than was told before; `None` if nothing is.
    fn conclude_directory(&self, item: &Spooled) -> Option<Outcome> {
        let apply = || self.apply_directory(item);
        match self.past_closed(item.path.as_bytes(), is_kept_out, apply) {
            Ok(losses) if losses.is_empty() => None,
            Ok(losses) => Some(Outcome::Done { digest: None, losses }),
            Err(failure) => Some(Outcome::Failed(failure)),
        }
    }

    fn apply_directory(&self, item: &Spooled) -> Result<Vec<Loss>, Failure> {
        let of_io = |error: io::Error| failed("set metadata", &item.path, &error);
        let place = self.place(item.path.as_bytes()).map_err(of_io)?;
        if self.terms.part.is_some() && place.dir.is_passage().map_err(of_io)? {
            // Another part had closed it.
            return Err(of_io(io::ErrorKind::PermissionDenied.into()));
        }
        let preserve = &self.terms.preserve;
        let stat = place.dir.stat_self().map_err(of_io)?;
        let is_top = place.territory.is_top(&stat);
        if is_top && preserve.times {
            // Removing our staging will change them once more.
            lock(&self.top_times).insert(place.territory.key, sys_time(item.wanted.mtime));
        }
        if item.path == RelativePath::root() {
            place.territory.top_is_changed.store(true, Ordering::Release);
        }
        let mut wanted = item.wanted.clone();
        let mut preserve = *preserve;
        let dir = place.dir.as_file().map_err(of_io)?;
        let xattrs = preserve.xattrs.then(|| dir.xattrs()).transpose().map_err(of_io)?;
        if wanted.mode & RESTORE != 0 {
            wanted.mode &= !RESTORE;
            preserve.mode = true;
            // With its mode it keeps what goes with that.
            wanted.keep_acls(xattrs.as_deref().unwrap_or_default());
            if !preserve.owner {
                (wanted.uid, wanted.gid) = (stat.uid, stat.gid);
            }
        }
        let preserve = &preserve;
        if is_top && preserve.mode {
            lock(&place.territory.mode_before).take();
        }
        if !differs(&stat, xattrs.as_deref(), &wanted, preserve, self.grain(&place)) {
            if preserve.mode {
                self.has_its_mode(item.path.as_bytes());
            }
            return Ok(Vec::new());
        }
        let has = Has { may_have_xattrs: preserve.xattrs, ..Has::of(&stat) };
        let (mut losses, is_changed) =
            apply(&dir, &has, &wanted, preserve, &self.rights, true).map_err(of_io)?;
        if preserve.mode {
            self.has_its_mode(item.path.as_bytes());
        }
        if self.is_forgetful(&place) {
            look_what_stayed(&dir, &wanted, preserve, self.grain(&place), &mut losses).map_err(of_io)?;
        }
        if is_changed {
            self.changed_dir(item.path.as_bytes(), &place.dir, &place.territory);
        }
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::DestinationPlace;
    use crate::endpoint::local::staging::Staging;
    use crate::endpoint::{Decision, Destination};
    use crate::filter::Filter;
    use std::os::unix::fs::PermissionsExt;
    use thalweg_wire::entry::Xattr;
    use thalweg_wire::message::{Preserve, SourceForm, Terms};
    use thalweg_wire::{Entry, EntryId, Evidence, Kind};

    /// Of another user, in whose name set-id bits work.
    fn foreign_directory() -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(b"d".to_vec()).unwrap(),
            kind: Kind::Directory,
            mode: 0o2755,
            uid: thalweg_sys::user::effective_uid() + 1,
            gid: thalweg_sys::user::effective_gid(),
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    /// A destination there, of an account that can give nothing away.
    fn of_an_account(to: std::path::PathBuf, dry_run: bool) -> LocalDestination {
        let place = DestinationPlace { path: to, below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { dry_run, preserve, ..Terms::of(4 << 20, 1 << 20) };
        let opened = LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default());
        let mut to = opened.unwrap();
        to.rights.can_chown = false;
        to
    }

    fn losses_of(conclusion: Conclusion) -> Vec<String> {
        let losses = conclusion.revised.into_iter().flat_map(|revised| match revised.outcome {
            Outcome::Done { losses, .. } => losses,
            other => panic!("{other:?}"),
        });
        losses.map(|loss| loss.what).collect()
    }

    #[test]
    fn of_a_directory_that_an_attempt_made_and_did_not_conclude_the_next_one_tells_what_is_not_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let entry = foreign_directory();
        let begin = || of_an_account(scratch.path().join("to"), false);
        let ended = begin();
        ended.decide(&entry, &|_, _| true);
        ended.close(false);
        for losses in [&["owner", "set-id bits"][..], &[]] {
            let to = begin();
            to.decide(&entry, &|_, _| true);
            assert_eq!(losses_of(to.conclude_all(Listing::Whole, &|| true)), losses);
            to.close(true);
        }
    }

    #[test]
    fn of_a_directory_what_only_a_better_right_could_give_is_told_when_it_is_made_and_not_again() {
        let scratch = tempfile::tempdir().unwrap();
        let entry = foreign_directory();
        let copy = |entry: &Entry, dry_run: bool| {
            let to = of_an_account(scratch.path().join("to"), dry_run);
            let decided = to.decide(entry, &|_, _| true);
            let conclusion = to.conclude_all(Listing::Whole, &|| true);
            to.close(true);
            let losses = losses_of(conclusion);
            let is_unchanged =
                matches!(decided, Decision::Settled { outcome: Outcome::Unchanged { .. }, .. });
            (is_unchanged, losses)
        };
        assert_eq!(copy(&entry, false), (false, vec!["owner".to_owned(), "set-id bits".to_owned()]));
        assert_eq!(copy(&entry, true), (true, Vec::new()), "a dry run");
        assert_eq!(copy(&entry, false), (true, Vec::new()));
        let mtime = thalweg_wire::Time { seconds: 1_000_000_000, nanos: 0 };
        let touched = Entry { evidence: Evidence { mtime, ..Evidence::default() }, ..entry };
        // Its time is given, and its owner not told again.
        assert_eq!(copy(&touched, false), (false, Vec::new()));
        assert_eq!(copy(&touched, false), (true, Vec::new()));
    }

    /// As by SMB, where the server takes the group of a link and keeps its own.
    #[test]
    fn a_link_whose_group_a_server_refuses_is_not_made_anew_each_time() {
        const GROUP: u32 = 12345;
        let scratch = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("x", scratch.path().join("l")).unwrap();
        let there = thalweg_sys::Dir::open(scratch.path()).unwrap().stat(b"l").unwrap();
        let mtime = crate::endpoint::local::wire_time(there.mtime);
        let link = Entry {
            path: RelativePath::new(b"l".to_vec()).unwrap(),
            kind: Kind::Symlink { target: b"x".to_vec() },
            mode: 0o777,
            uid: thalweg_sys::user::effective_uid(),
            gid: GROUP,
            evidence: Evidence { mtime, ..Evidence::default() },
            ..foreign_directory()
        };
        for is_forgetful in [true, false] {
            let mut to = of_an_account(scratch.path().to_path_buf(), false);
            to.rights.groups = vec![GROUP];
            let root = to.root.clone().unwrap();
            let staging = Staging::open(&root.dir, &to.claim.job).unwrap();
            staging.pretend(is_forgetful);
            root.territory.adopt(staging);
            let decided = to.decide(&link, &|_, _| true);
            let is_unchanged =
                matches!(decided, Decision::Settled { outcome: Outcome::Unchanged { .. }, .. });
            assert_eq!(is_unchanged, is_forgetful, "elsewhere it may be had");
            to.close(true);
        }
    }

    #[test]
    fn every_directory_gets_its_mode_however_many_cannot_keep_all_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let place = DestinationPlace { path: scratch.path().join("to"), below: None };
        let terms = Terms::of(4 << 20, 1 << 20);
        let to =
            LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap();
        for number in 0..5 {
            let entry = Entry {
                id: EntryId(number),
                path: RelativePath::new(format!("d{number}").into_bytes()).unwrap(),
                kind: Kind::Directory,
                mode: 0o500,
                uid: thalweg_sys::user::effective_uid(),
                gid: thalweg_sys::user::effective_gid(),
                evidence: Evidence::default(),
                // No system has such attributes.
                xattrs: vec![Xattr { name: b"nowhere.x".to_vec(), value: b"1".to_vec() }],
            };
            to.decide(&entry, &|_, _| true);
        }
        let conclusion = to.conclude_telling(Listing::Whole, 2, &|| true);
        assert_eq!(conclusion.revised.len(), 2);
        let [trouble] = &conclusion.troubles[..] else { panic!("{:?}", conclusion.troubles) };
        assert!(trouble.to_string().contains("set metadata failed: 3 more directories did not"), "{trouble}");
        for number in 0..5 {
            let mode = scratch.path().join(format!("to/d{number}")).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o500, "d{number}");
        }
        to.close(true);
    }
}
