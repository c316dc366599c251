//! What killed transfers have unfinished in directories that are to be deleted: it goes with them, where nobody uses
//! it.
//!
//! A job's lock is in the staging directory of its root. Where a directory below has flags of its own, what is
//! unfinished in there lies beside no lock: that is looked for in the directories above, up to the root of this
//! transfer.
//!
//! Left alone: what a transfer works in, also this one; what is somebody else's, who may do with locks what they like;
//! and that of which no lock is found, for nobody can say: its root may be further up.

use super::leftover::sweep;
use super::{let_go, remove_emptied};
use crate::endpoint::local::destination::LocalDestination;
use crate::journal::staging_names::{STAGING_NAME, own_name};
use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, File, Links, user};

/// What is to become of a staging directory.
#[derive(Clone, Copy)]
pub(in crate::endpoint::local) struct Taking {
    /// It is not only asked whether it may go.
    pub(in crate::endpoint::local) removes: bool,
    /// Only that of our own job may: it goes later, when no other job's lock is held.
    pub(in crate::endpoint::local) only_ours: bool,
}

/// Who has a job.
enum Hold {
    /// We are it.
    Ours,
    /// Nobody had its lock, and we have it now.
    Taken(File),
    /// A transfer has it, or nobody can say.
    Another,
}

impl LocalDestination {
    /// Whether the staging directory `name` may go with the directory that it is in, which is at the path `above`.
    /// `goes_on` is asked before each step; where it says `false`, what is left stays.
    ///
    /// # Errors
    /// Of what cannot be looked at or removed. It stays then, in part.
    pub(in crate::endpoint::local) fn take_along(
        &self,
        (parent, above): (&Dir, &[u8]),
        name: &[u8],
        taking: Taking,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let shared = parent.open_beneath(name, Links::Refuse)?;
        if shared.stat_self()?.uid != user::effective_uid() || self.works_in(parent)? {
            return Ok(false);
        }
        let jobs = shared.entries()?.collect::<io::Result<Vec<_>>>()?;
        for job in &jobs {
            if !goes_on() {
                return Ok(false);
            }
            let own = shared.open_beneath(&job.name, Links::Refuse)?;
            match self.hold_job(&own, above, &job.name, taking)? {
                Hold::Ours => {}
                // Closed alone it may stay held: a program that is just being started has it open as well.
                Hold::Taken(lock) => let_go(Some(lock)),
                Hold::Another => return Ok(false),
            }
        }
        if !taking.removes {
            return Ok(true);
        }
        for job in &jobs {
            let own = Arc::new(shared.open_beneath(&job.name, Links::Refuse)?);
            let held = match self.hold_job(&own, above, &job.name, taking)? {
                Hold::Ours => None,
                Hold::Taken(lock) => Some(lock),
                Hold::Another => return Ok(false),
            };
            sweep(&own, true, goes_on)?;
            let_go(held);
            remove_emptied(&shared, &job.name)?;
        }
        parent.remove_dir(name).map(|()| true)
    }

    /// Whether this transfer has its own staging directory in this one.
    fn works_in(&self, parent: &Dir) -> io::Result<bool> {
        let stat = parent.stat_self()?;
        Ok(self.territories.all().iter().any(|territory| territory.has_staging() && territory.is_top(&stat)))
    }

    /// `own`: what the job has in the staging directory below `above`.
    fn hold_job(&self, own: &Dir, above: &[u8], job: &[u8], taking: Taking) -> io::Result<Hold> {
        let is_ours = job == self.claim.job.as_bytes();
        // A dry run has no lock.
        if is_ours && !self.terms.dry_run {
            // The lock that we hold is in our own staging, and that is not in here.
            return Ok(lock_in(own)?.unwrap_or(Hold::Ours));
        }
        if taking.only_ours && !is_ours {
            return Ok(Hold::Another);
        }
        if let Some(hold) = lock_in(own)? {
            return Ok(hold);
        }
        let (root, ours) = (self.root.as_ref().ok_or(io::ErrorKind::NotFound)?, own_name());
        let slashes = above.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in std::iter::once(0).chain(slashes).chain([above.len()]) {
            for name in [STAGING_NAME, &ours[..]] {
                let parts = [&above[..end], name, job];
                let path = parts[usize::from(end == 0)..].join(&b'/');
                // Where there is none, or somebody else's.
                let Ok(dir) = root.dir.open_beneath(&path, Links::Refuse) else { continue };
                if let Some(hold) = lock_in(&dir)? {
                    return Ok(hold);
                }
            }
        }
        Ok(if is_ours { Hold::Ours } else { Hold::Another })
    }
}

/// Takes the lock in a job's directory, if there is one.
fn lock_in(own: &Dir) -> io::Result<Option<Hold>> {
    let lock = match own.open_read_write(b"lock") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    // Its holder may have removed it before we got it.
    let is_held = lock.lock_exclusive()? && own.stat(b"lock")?.is_same_entry(&lock.stat()?);
    Ok(Some(if is_held { Hold::Taken(lock) } else { Hold::Another }))
}
