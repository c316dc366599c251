//! Directories that another part of the same copy closed while this one still fills them.
//!
//! Each part gives a directory its own mode when all that it brings is there. One that keeps out its owner, who is not
//! root, keeps out the other parts too. Whoever finds it so opens it for the time being, as is done with one that stood
//! there before, and goes on. At its own end it gets its mode again: what was spooled of it, or what it had when it was
//! opened. So the part that ends last leaves it as it is to be, and none waits for another.
//!
//! A part closes each directory once, so there is an end to it. Not done: for a copy without parts, where nobody else
//! is expected.

use super::LocalDestination;
use crate::endpoint::Decision;
use crate::endpoint::local::lock;
use crate::failure::{Failure, FailureKind};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Kind, Links, Stat};
use thalweg_wire::message::Outcome;

/// What the owner of a directory needs to fill it.
const OWNERS: u32 = 0o700;
/// Directories whose own mode is remembered here. Further ones are opened only where modes are kept: then what was
/// spooled has it.
const AJAR_MAX: usize = 10_000;

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
            if !matches!(decided, Decision::Fresh) || !self.open_way(first) {
                break;
            }
            decided = self.past_closed(path, is_refused, &mut act);
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

    fn may_be_kept_out(&self) -> bool {
        self.rights.uid != 0 && !self.terms.dry_run
    }

    /// Opens what is closed to us of our own directories from the root down to `path`. Whether there was any.
    fn open_way(&self, path: &[u8]) -> bool {
        let Some(root) = &self.root else { return false };
        let mut dir = root.dir.clone();
        let set_root = |mode| root.dir.as_file().and_then(|root| root.set_mode(mode));
        let mut is_opened = root.dir.stat_self().is_ok_and(|stat| self.open_one(b"", &stat, &set_root));
        let mut start = 0;
        while start < path.len() {
            let end = path[start..].iter().position(|&byte| byte == b'/').map_or(path.len(), |at| start + at);
            let name = &path[start..end];
            let Some(stat) = dir.stat(name).ok().filter(|stat| stat.kind == Kind::Dir) else { break };
            is_opened |= self.open_one(&path[..end], &stat, &|mode| dir.set_mode(name, mode));
            let Ok(child) = dir.open_beneath(name, Links::Refuse) else { break };
            dir = Arc::new(child);
            start = end + 1;
        }
        is_opened
    }

    fn open_one(&self, path: &[u8], stat: &Stat, set_mode: &dyn Fn(u32) -> io::Result<()>) -> bool {
        if stat.uid != self.rights.uid || stat.mode & OWNERS == OWNERS {
            return false;
        }
        let mut ajar = lock(&self.ajar);
        let is_known = ajar.contains_key(path);
        if !is_known && ajar.len() >= AJAR_MAX && !self.terms.preserve.mode {
            return false;
        }
        let is_opened = set_mode(stat.mode | OWNERS).is_ok();
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

/// Whether this is the failure of who was kept out.
pub(super) fn is_kept_out<T>(done: &Result<T, Failure>) -> bool {
    done.as_ref().is_err_and(is_permission)
}

fn is_permission(failure: &Failure) -> bool {
    failure.kind == FailureKind::Permission
}
