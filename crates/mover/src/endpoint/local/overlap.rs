//! Refuses copies and streams on this machine that would copy into themselves, or delete what they read.
//!
//! Directories and files are compared by device and inode, so links, other names and bind mounts hide nothing. Looked
//! at before anything is made:
//!
//! 1. A source and what it would become are one and the same.
//! 2. The destination is inside a source: what is copied would be found and copied again. Allowed where the filter
//!    leaves out the way to it.
//! 3. With deletion: a source is inside the destination, and would be deleted as something that the source lacks.
//!
//! What links in a source lead to is looked at when they are followed ([`LocalSource::stay_out_of`]).
//!
//! Not seen: a destination that is a bind mount of a directory inside the source; places of a daemon or of an sshd on
//! this same machine.

use super::place::parent_words;
use super::source::{LocalSource, Root};
use super::{evidence_of, shown};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_sys::{Dir, Kind, Stat};
use thalweg_wire::message::SourceForm;
use thalweg_wire::{Entry, RelativePath};

/// Directories above a place that are looked at: a path has no more components than this.
const LEVELS_MAX: usize = 2048;

/// Refuses as the module says. `to`: the destination as the user wrote it; `deletes`: what the source lacks is deleted.
///
/// # Errors
/// `Usage`, with the places. What cannot be looked at is left to those who open it.
pub fn refuse(source: &LocalSource, to: &Path, trailing_slash: bool, deletes: bool) -> Result<()> {
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
        // Only named entries are copied of `--files-from`, nothing is found on the way.
        if stat.kind == Kind::Dir
            && source.options.only.is_empty()
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

/// Whether what stands at a destination may be the very file or link that is offered, reached by another way:
/// by a daemon or an sshd on this machine, or by a file system that both sides share, each with a device
/// number of its own. A copy has a ctime of its own, later than the source's by more than a tick. Not seen
/// where a file system makes up the ctimes that it tells (sshfs).
pub(super) fn may_be_itself(entry: &Entry, stat: &Stat) -> bool {
    let (ours, there) = (&entry.evidence, evidence_of(stat));
    // As finely as both tell it.
    let is_whole = ours.ctime.nanos == 0 || there.ctime.nanos == 0;
    there.size == ours.size
        && there.ctime.seconds == ours.ctime.seconds
        && (is_whole || there.ctime.nanos == ours.ctime.nanos)
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
    let Some((mut words, _)) = existing(path) else { return false };
    let mut last: Option<Stat> = None;
    for _ in 0..LEVELS_MAX {
        let Ok(stat) = Dir::open(&words).and_then(|dir| dir.stat_self()) else { return false };
        if stat.is_same_entry(above) {
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
