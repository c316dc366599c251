//! Directories that another part of the same copy closed while this one still fills them.
//!
//! Each part gives a directory its own mode when all that it brings is there. One that keeps out its owner, who is not
//! root, keeps out the other parts too. Whoever finds it so opens it for the time being, as is done with one that stood
//! there before, and goes on. At its own end it gets its mode again: what was spooled of it, or what it had when it was
//! opened; also where the part is stopped. So the part that ends last leaves it as it is to be, and none waits for
//! another.
//!
//! A part closes each directory once, so there is an end to it. Not done: for a copy without parts, where nobody else
//! is expected.

use super::LocalDestination;
use crate::endpoint::Decision;
use crate::endpoint::local::lock;
use crate::failure::{Failure, FailureKind, Reason};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Kind, Links, Stat};
use thalweg_wire::message::Outcome;

/// What the owner of a directory needs to fill it.
const OWNERS: u32 = 0o700;
/// Directories whose own mode is remembered here. Further ones are opened only where modes are kept: then what was
/// spooled has it.
const AJAR_MAX: usize = 10_000;
/// Times that a mode is given until it is seen: another part may close the directory between the two. Where it is not
/// seen then, the file system does not take it.
const OPEN_TRIES: usize = 3;

impl LocalDestination {
    /// Does `act`, and again where `is_kept_out` says so of what came of it and a directory on the way to what is at
    /// `path` below the root, or that itself, was closed.
    pub(super) fn past_closed<T>(
        &self,
        path: &[u8],
        is_kept_out: impl Fn(&T) -> bool,
        mut act: impl FnMut() -> T,
    ) -> T {
        let mut done = act();
        let Some(part) = self.terms.part.filter(|_| self.may_be_kept_out()) else { return done };
        let depth = path.iter().filter(|&&byte| byte == b'/').count() + 2;
        for _ in 0..(part.count as usize).saturating_mul(depth) {
            if !is_kept_out(&done) {
                break;
            }
            let is_opened = self.open_way(path);
            // Also where there was none: another part may have opened it just now.
            done = act();
            if !is_opened {
                break;
            }
        }
        done
    }

    /// As [`Self::past_closed`], of the decision on a hard link: in a closed directory its first name looks as if it
    /// were not there, and it would come as a file of its own.
    pub(super) fn linked_past_closed(
        &self,
        (first, path): (&[u8], &[u8]),
        mut act: impl FnMut() -> Decision,
    ) -> Decision {
        let mut decided = self.past_closed(path, is_refused, &mut act);
        let Some(part) = self.terms.part.filter(|_| self.may_be_kept_out()) else { return decided };
        for _ in 0..part.count {
            if !matches!(decided, Decision::Fresh) {
                break;
            }
            let is_opened = self.open_way(first);
            // Also where there was none: another part may have opened it just now.
            decided = self.past_closed(path, is_refused, &mut act);
            if !is_opened {
                break;
            }
        }
        decided
    }

    /// Gives what was opened here its own mode again, what is in a directory before that; unless it has another by now.
    pub(super) fn close_what_was_opened(&self) {
        let opened = std::mem::take(&mut *lock(&self.ajar));
        for (path, mode) in opened.into_iter().rev() {
            let closed = self.place(&path).and_then(|place| {
                let stat = place.dir.stat_self()?;
                if stat.mode == mode | OWNERS {
                    place.dir.as_file()?.set_mode(mode)?;
                    self.changed_dir(&path, &place.dir, &place.territory);
                }
                Ok(())
            });
            if let Err(error) = closed {
                tracing::debug!(%error, "a directory that was opened again is out of reach");
            }
        }
    }

    /// The directory at `path` has the mode that it is to have: not the one that it was closed with.
    pub(super) fn has_its_mode(&self, path: &[u8]) {
        lock(&self.ajar).remove(path);
    }

    fn may_be_kept_out(&self) -> bool {
        self.rights.uid != 0 && !self.terms.dry_run
    }

    /// Opens what is closed to us of our own directories from the root down to `path`. Whether there was any.
    fn open_way(&self, path: &[u8]) -> bool {
        let Some(root) = &self.root else { return false };
        let mut dir = root.dir.clone();
        let set_root = |mode| root.dir.as_file().and_then(|root| root.set_mode(mode));
        let mut is_opened = self.open_one(b"", &|| root.dir.stat_self(), &set_root);
        let mut start = 0;
        while start < path.len() {
            let end = path[start..].iter().position(|&byte| byte == b'/').map_or(path.len(), |at| start + at);
            let name = &path[start..end];
            let look = || dir.stat(name);
            if !look().is_ok_and(|stat| stat.kind == Kind::Dir) {
                break;
            }
            is_opened |= self.open_one(&path[..end], &look, &|mode| dir.set_mode(name, mode));
            // A handle from when it could not be read gives no mode and syncs nothing.
            self.held.forget(&path[..end]);
            let Ok(child) = dir.open_beneath(name, Links::Refuse) else { break };
            dir = Arc::new(child);
            start = end + 1;
        }
        is_opened
    }

    /// Whether the directory at `path` was closed, and is seen to be open now.
    fn open_one(
        &self,
        path: &[u8],
        look: &dyn Fn() -> io::Result<Stat>,
        set_mode: &dyn Fn(u32) -> io::Result<()>,
    ) -> bool {
        let Ok(stat) = look() else { return false };
        if stat.uid != self.rights.uid || stat.mode & OWNERS == OWNERS {
            return false;
        }
        let mut ajar = lock(&self.ajar);
        let is_known = ajar.contains_key(path);
        if !is_known && ajar.len() >= AJAR_MAX && !self.terms.preserve.mode {
            return false;
        }
        let is_open = || look().is_ok_and(|stat| stat.mode & OWNERS == OWNERS);
        let is_opened = (0..OPEN_TRIES).any(|_| set_mode(stat.mode | OWNERS).is_ok() && is_open());
        if is_opened && !is_known && ajar.len() < AJAR_MAX {
            ajar.insert(path.to_vec(), stat.mode);
        }
        is_opened
    }
}

/// Whether it failed for want of a right.
pub(super) fn is_refused(decided: &Decision) -> bool {
    match decided {
        Decision::Settled { outcome: Outcome::Failed(failure), .. } => is_permission(failure),
        _ => false,
    }
}

/// Whether this is the failure of who was kept out by modes.
pub(super) fn is_kept_out<T>(done: &Result<T, Failure>) -> bool {
    done.as_ref().is_err_and(is_permission)
}

fn is_permission(failure: &Failure) -> bool {
    failure.kind == FailureKind::Permission && failure.reason != Reason::NotReplaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::DestinationPlace;
    use crate::endpoint::{Destination, Listing};
    use crate::filter::Filter;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use thalweg_wire::message::{PartOf, Preserve, SourceForm, Terms};
    use thalweg_wire::{Entry, EntryId, Evidence, RelativePath};

    /// With a directory `d` of this mode in it, which we may fill.
    fn of_a_part(to: &Path, mode: u32) -> LocalDestination {
        std::fs::create_dir_all(to.join("d")).unwrap();
        chmod(&to.join("d"), mode);
        let place = DestinationPlace { path: to.to_owned(), below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { part: PartOf::new(1, 2), preserve, ..Terms::of(4 << 20, 1 << 20) };
        LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap()
    }

    fn directory() -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(b"d".to_vec()).unwrap(),
            kind: thalweg_wire::Kind::Directory,
            mode: 0o755,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        }
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_a_part_opened_is_closed_again_where_it_is_stopped_or_just_dropped() {
        let scratch = tempfile::tempdir().unwrap();
        let d = scratch.path().join("d");
        for is_closed in [true, false] {
            let to = of_a_part(scratch.path(), 0o555);
            assert!(to.open_way(b"d/f"));
            assert_eq!(mode(&d), 0o755);
            if is_closed {
                to.close(false);
            }
            drop(to);
            assert_eq!(mode(&d), 0o555, "closed: {is_closed}");
        }
        chmod(&d, 0o755);
    }

    #[test]
    fn a_mode_that_is_given_stays_though_it_is_the_one_that_we_opened_the_directory_with() {
        let scratch = tempfile::tempdir().unwrap();
        let to = of_a_part(scratch.path(), 0o755);
        to.decide(&directory(), &|_, _| true);
        // Another part gave it what it had before.
        chmod(&scratch.path().join("d"), 0o555);
        assert!(to.open_way(b"d/f"));
        drop(to.conclude(Listing::Partial, &|| true));
        to.close(true);
        assert_eq!(mode(&scratch.path().join("d")), 0o755);
    }

    #[test]
    fn a_directory_counts_as_opened_only_if_its_mode_says_so_and_is_held_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let to = of_a_part(scratch.path(), 0o755);
        to.place(b"d").unwrap();
        chmod(&scratch.path().join("d"), 0o555);
        let root = to.root.clone().unwrap();
        let tries = std::cell::Cell::new(0);
        let set_mode = |_: u32| -> io::Result<()> {
            tries.set(tries.get() + 1);
            Ok(())
        };
        assert!(!to.open_one(b"d", &|| root.dir.stat(b"d"), &set_mode), "it takes no mode");
        assert_eq!(tries.get(), OPEN_TRIES);
        assert!(to.held.get(b"d").is_some() && lock(&to.ajar).is_empty());
        assert!(to.open_way(b"d/f") && to.held.get(b"d").is_none());
        assert!(!to.open_way(b"d/f"), "it is open");
        to.close(false);
        chmod(&scratch.path().join("d"), 0o755);
    }

    #[test]
    fn a_directory_that_was_held_while_it_could_not_be_read_gets_its_mode_all_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let to = of_a_part(scratch.path(), 0o755);
        if to.rights.uid == 0 {
            eprintln!("skipped: root may read what is closed");
            return;
        }
        to.decide(&directory(), &|_, _| true);
        chmod(&scratch.path().join("d"), 0o311);
        to.place(b"d").unwrap();
        let conclusion = to.conclude(Listing::Partial, &|| true);
        assert!(
            conclusion.failed.is_none() && conclusion.revised.is_empty(),
            "{:?} {:?}",
            conclusion.failed,
            conclusion.revised
        );
        to.close(true);
        assert_eq!(mode(&scratch.path().join("d")), 0o755);
    }

    #[test]
    fn what_is_not_replaced_is_not_kept_out_by_modes() {
        let failure = || Failure::new(FailureKind::Permission, "replace", "it stands there");
        assert!(is_kept_out::<()>(&Err(failure())));
        assert!(!is_kept_out::<()>(&Err(failure().because(Reason::NotReplaced))));
    }

    #[test]
    fn a_hard_link_is_decided_once_more_where_another_part_opened_the_way_just_now() {
        let scratch = tempfile::tempdir().unwrap();
        let mut to = of_a_part(scratch.path(), 0o755);
        // Whom modes keep out.
        to.rights.uid = thalweg_sys::user::effective_uid().max(1);
        let mut is_first = true;
        let decided = to.linked_past_closed((b"d/f", b"g"), || match std::mem::take(&mut is_first) {
            true => Decision::Fresh,
            false => Decision::Settled { outcome: Outcome::Unchanged { digest: None }, made: false },
        });
        assert!(matches!(decided, Decision::Settled { .. }));
        to.close(false);
    }
}
