//! Refuses copies and streams on this machine that would copy into themselves, or delete what they read.
//!
//! Directories and files are compared by device and inode, so links, other names and bind mounts hide nothing. Looked
//! at before anything is made:
//!
//! 1. A source and what it would become are one and the same.
//! 2. The destination is inside a source: what is copied would be found and copied again. Allowed where the filter
//!    leaves out the way to it.
//! 3. With deletion: a source is inside the destination, and would be deleted as something that the source lacks.
//! 4. With removal of what is copied: a source is at or below what it becomes. What is under its name there would take
//!    the place of what is copied from it, and that is gone.
//!
//! What links in a source lead to is looked at when they are followed ([`LocalSource::stay_out_of`]). So is, where what
//! is copied is removed, a directory that is the destination by a bind mount.
//!
//! Not seen: a destination that is a bind mount of a directory inside a source that stays; places of a daemon or of an
//! sshd on this same machine.

use super::destination::LocalDestination;
use super::place::parent_words;
use super::source::{LocalSource, Root};
use super::{evidence_of, shown};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_sys::{Dir, Kind, Stat};
use thalweg_wire::message::SourceForm;
use thalweg_wire::{Entry, RelativePath, Time};

/// Directories above a place that are looked at: a path has no more components than this.
const LEVELS_MAX: usize = 2048;

/// So far apart two ways to one file may tell its time of change: SFTP has whole seconds, SMB steps of 100 ns.
const CTIME_STEP_NANOS: u128 = 1_000_000_000;

/// Why what stands there is left alone where the source's names are removed.
pub const MAY_BE_SOURCE: &str = "it may be the source itself, which is to be removed";

/// Refuses as the module says. `to`: the destination as the user wrote it; `deletes`: what the source lacks is deleted;
/// `removes`: what is copied is removed at the source.
///
/// # Errors
/// `Usage`, with the places. What cannot be looked at is left to those who open it.
pub fn refuse(
    source: &LocalSource,
    to: &Path,
    trailing_slash: bool,
    deletes: bool,
    removes: bool,
) -> Result<()> {
    let there = Dir::open(to).ok().and_then(|dir| dir.stat_self().ok());
    let is_single = matches!(source.form(), SourceForm::Single { .. });
    for root in &source.roots {
        let stat = root.stat;
        let becomes = match &there {
            _ if root.top.is_empty() => there,
            Some(_) => stat_at(&to.join(std::ffi::OsStr::from_bytes(&root.top))),
            // The new name of a single file.
            None if is_single && !trailing_slash => stat_at(to),
            None => None,
        };
        if becomes.is_some_and(|becomes| becomes.is_same_entry(&stat)) {
            let cause = format!("{} and the destination {} are the same", shown(&root.words), shown(to));
            return Err(refused(cause));
        }
        // Only named entries are copied of `--files-from`, nothing is found on the way. But one of them might be what
        // another becomes.
        if stat.kind == Kind::Dir
            && (removes || source.options.only.is_empty())
            && is_at_or_below(to, &stat)
            && !is_left_out(source, root, to)
        {
            let cause = format!(
                "the destination {} is inside the source {}, and would be copied into itself; exclude it if the rest \
                 is meant",
                shown(to),
                shown(&root.words)
            );
            return Err(refused(cause));
        }
        if deletes
            && root.top.is_empty()
            && let Some(there) = &there
            && is_at_or_below(&root.words, there)
        {
            let cause = format!(
                "the source {} is inside the destination {}, and would be deleted there",
                shown(&root.words),
                shown(to)
            );
            return Err(refused(cause));
        }
        if removes
            && stat.kind == Kind::Dir
            && let Some(becomes) = &becomes
            && is_at_or_below(&root.words, becomes)
        {
            let cause = format!(
                "the source {} is inside what it becomes at the destination {}: a file of it would take the place of \
                 another that is removed (--remove-source-files)",
                shown(&root.words),
                shown(to)
            );
            return Err(refused(cause));
        }
    }
    Ok(())
}

/// The same for a stream: a directory into one that is inside of it, or into itself; a file into itself.
///
/// # Errors
/// `Usage`, with the places. What cannot be looked at is left to those who open it.
pub(crate) fn refuse_stream(from: &Path, to: &Path) -> Result<()> {
    let is_contents = from.as_os_str().as_bytes().ends_with(b"/");
    let becomes = match (Dir::open(to), from.file_name()) {
        (Ok(_), Some(name)) if !is_contents => to.join(name),
        _ => to.to_owned(),
    };
    let Some(stat) = stat_at(from) else { return Ok(()) };
    if stat_at(&becomes).is_some_and(|becomes| becomes.is_same_entry(&stat)) {
        let cause = format!("{} and the destination {} are the same", shown(from), shown(to));
        return Err(Failure::new(FailureKind::Usage, "stream", cause));
    }
    if stat.kind == Kind::Dir && is_at_or_below(to, &stat) {
        let cause = format!(
            "the destination {} is inside the source {}, and would be streamed into itself",
            shown(to),
            shown(from)
        );
        return Err(Failure::new(FailureKind::Usage, "stream", cause));
    }
    Ok(())
}

impl LocalDestination {
    /// Whether what stands there may be the source itself, where that is to be removed.
    pub(super) fn may_be_source(&self, entry: &Entry, stat: &Stat) -> bool {
        self.terms.removes_source && may_be_itself(entry, stat, self.is_beside_source)
    }

    /// What stands at a name; where the source is to be removed, whatever the kernel remembers of it.
    pub(super) fn stat_there(&self, dir: &Dir, name: &[u8]) -> io::Result<Stat> {
        if self.terms.removes_source { dir.stat_now(name) } else { dir.stat(name) }
    }
}

/// Whether what stands at a destination may be the very file or link that is offered, reached by another way:
/// by a daemon or an sshd on this machine, or by a file system that both sides share, each with a device
/// number of its own. Each way tells the ctime in its own steps, so what was changed within [`CTIME_STEP_NANOS`] of the
/// source may be it. Two inodes of one device, by numbers of one kernel (`is_beside`), are told apart by any step. Not
/// seen where a file system makes up the ctimes that it tells (sshfs).
fn may_be_itself(entry: &Entry, stat: &Stat, is_beside: bool) -> bool {
    let (ours, there) = (&entry.evidence, evidence_of(stat));
    // How long a link is each file system says in its own way.
    let is_link = stat.kind == Kind::Symlink && !matches!(entry.kind, thalweg_wire::Kind::File { .. });
    let is_other = is_beside && there.device == ours.device && there.inode != ours.inode;
    let apart = nanos(there.ctime).abs_diff(nanos(ours.ctime));
    (is_link || there.size == ours.size) && apart <= if is_other { 0 } else { CTIME_STEP_NANOS }
}

fn nanos(time: Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// `path` without links, as far as it is there.
pub fn resolved(path: &Path) -> PathBuf {
    let whole = || {
        let (there, rest) = existing(path)?;
        Some(std::fs::canonicalize(there).ok()?.join(rest))
    };
    whole().unwrap_or_else(|| path.to_owned())
}

fn refused(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "copy", cause)
}

/// What stands at a path, links followed.
fn stat_at(path: &Path) -> Option<Stat> {
    if let Ok(dir) = Dir::open(path) {
        return dir.stat_self().ok();
    }
    let path = std::fs::canonicalize(path).ok()?;
    Dir::open(&parent_words(&path)).ok()?.stat(path.file_name()?.as_bytes()).ok()
}

/// Whether `path`, or as much of it as there is, is the directory `above` or somewhere below it.
pub(super) fn is_at_or_below(path: &Path, above: &Stat) -> bool {
    is_any_above(path, |stat| stat.is_same_entry(above))
}

/// Whether `path`, or as much of it as there is, or any directory above it is one of those that `are` wanted.
pub(super) fn is_any_above(path: &Path, mut are: impl FnMut(&Stat) -> bool) -> bool {
    let Some((mut words, _)) = existing(path) else { return false };
    let mut last: Option<Stat> = None;
    for _ in 0..LEVELS_MAX {
        let Ok(stat) = Dir::open(&words).and_then(|dir| dir.stat_self()) else { return false };
        if are(&stat) {
            return true;
        }
        // The root is its own parent.
        if last.is_some_and(|last| last.is_same_entry(&stat)) {
            return false;
        }
        last = Some(stat);
        words.push("..");
    }
    false
}

/// The directories of `path` that are there, and the rest.
fn existing(path: &Path) -> Option<(PathBuf, PathBuf)> {
    for above in path.ancestors() {
        let words = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match Dir::open(words) {
            Ok(_) => return Some((words.to_owned(), path.strip_prefix(above).ok()?.to_owned())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Whether the filter leaves out a directory on the way from a root down to the destination.
fn is_left_out(source: &LocalSource, root: &Root, to: &Path) -> bool {
    let below = || {
        let (there, rest) = existing(to)?;
        let to = std::fs::canonicalize(there).ok()?.join(rest);
        Some(to.strip_prefix(std::fs::canonicalize(&root.words).ok()?).ok()?.to_owned())
    };
    let Some(below) = below() else { return false };
    let mut path = RelativePath::new(root.top.clone()).unwrap_or_default();
    below.iter().any(|name| match path.join(name.as_bytes()) {
        Ok(deeper) => {
            path = deeper;
            !source.options.filter.decide(&path, true).included
        }
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::{EntryId, Evidence};

    #[test]
    fn what_another_way_tells_in_coarser_steps_may_be_the_source_and_another_inode_of_its_device_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("f"), "x").unwrap();
        let found = Dir::open(scratch.path()).unwrap().stat(b"f").unwrap();
        let offered = |seconds: i64, nanos: u32, inode: u64| Entry {
            id: EntryId(0),
            path: RelativePath::new(b"f".to_vec()).unwrap(),
            kind: thalweg_wire::Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { ctime: Time { seconds, nanos }, inode, ..evidence_of(&found) },
            xattrs: Vec::new(),
        };
        let there = |nanos: u32| Stat { ctime: thalweg_sys::Time { seconds: 1000, nanos }, ..found };
        let other = found.inode + 1;
        for (ours, theirs, inode, by_another_way, beside) in [
            ((1000, 123_456_789), 123_456_789, found.inode, true, true),
            // As SMB tells it, cut off or rounded, and SFTP.
            ((1000, 123_456_789), 123_456_700, found.inode, true, true),
            ((1000, 123_456_789), 123_456_700, other, true, false),
            ((1000, 123_456_789), 123_456_800, other, true, false),
            ((1000, 123_456_789), 0, other, true, false),
            ((1000, 999_999_999), 0, other, true, false),
            ((1000, 123_456_789), 123_456_789, other, true, true),
            // A copy, made later.
            ((998, 999_999_999), 0, other, false, false),
            ((1002, 0), 999_999_999, other, false, false),
        ] {
            let entry = offered(ours.0, ours.1, inode);
            assert_eq!(may_be_itself(&entry, &there(theirs), false), by_another_way, "{ours:?}, {theirs}");
            assert_eq!(may_be_itself(&entry, &there(theirs), true), beside, "{ours:?}, {theirs}");
        }
        let longer = Stat { size: 2, ..there(0) };
        assert!(!may_be_itself(&offered(1000, 0, found.inode), &longer, false));
    }
}
