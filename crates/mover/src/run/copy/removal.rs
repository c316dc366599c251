//! Copies that remove their source files: which may, and what is said of files that stay.

use super::{From, Job, To, Wishes};
use crate::endpoint::local::source::LocalSource;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result, shown_path};
use crate::run::sender::{SendRun, Sources};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Refuses the removal of source files where nothing would keep their content, and where the same copy once
/// more would delete it.
///
/// # Errors
/// `Usage`, with what stands in the way; `Unsupported` for files of another machine.
pub(super) fn check(from: &From, to: &To, wishes: &Wishes) -> Result<()> {
    if !wishes.removes_sources {
        return Ok(());
    }
    match (from, to) {
        (From::Far(..), _) => {
            let cause = "they are on another machine: run thalweg there";
            refused(FailureKind::Unsupported, cause)
        }
        (From::Zero(_) | From::Noise(..) | From::Dataset(_) | From::Simulated(_), _) => {
            refused(FailureKind::Usage, "there are none in this source")
        }
        (From::Local(_), To::Null | To::Scratch(..) | To::Simulated(_)) => {
            refused(FailureKind::Usage, "the destination keeps nothing")
        }
        (From::Local(_), To::Local(_) | To::Far(..)) if wishes.fidelity.delete_max.is_some() => {
            let cause = "the next time --delete would delete at the destination what is gone here";
            refused(FailureKind::Usage, cause)
        }
        (From::Local(_), To::Local(_) | To::Far(..)) if wishes.selection.follow_links => {
            let cause = "with --copy-links (-L) what is copied has its name elsewhere";
            refused(FailureKind::Usage, cause)
        }
        (From::Local(_), To::Local(_) | To::Far(..)) => Ok(()),
    }
}

/// Refuses it where the contents of several directories are copied as those of one: when the first of two
/// files with one name is gone, the same copy once more would put the second in its place. And where one source
/// is in another: one file would be found by two names.
///
/// # Errors
/// `Usage`.
pub(super) fn check_source(source: &LocalSource, wishes: &Wishes) -> Result<()> {
    if wishes.removes_sources && source.is_merged() {
        let cause = "the contents of several directories become those of one: copy one after the other";
        return refused(FailureKind::Usage, cause);
    }
    if wishes.removes_sources
        && let Some((inner, outer)) = source.nested()
    {
        let (inner, outer) = (shown_path(bytes(inner)), shown_path(bytes(outer)));
        let cause = format!("`{inner}` is in `{outer}`, and would be copied twice: name one of the two");
        return refused(FailureKind::Usage, &cause);
    }
    Ok(())
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn refused(kind: FailureKind, cause: &str) -> Result<()> {
    let cause = format!("source files cannot be removed (--remove-source-files): {cause}");
    Err(Failure::new(kind, "copy", cause))
}

/// Nothing more is removed when this goes: another attempt finds what stays.
pub(super) struct StopsRemoving<'a>(pub &'a SendRun);

impl Drop for StopsRemoving<'_> {
    fn drop(&mut self) {
        self.0.stop_removing();
    }
}

impl Job<'_> {
    /// What counts the source files removed, if some are to be.
    pub(super) fn removed(&self) -> Option<Arc<AtomicU64>> {
        self.wishes.removes_sources.then(|| self.removed.clone())
    }

    /// Says why source files stay.
    pub(super) fn tell_left(&self, sources: &Sources) {
        if sources.left == 0 {
            return;
        }
        let stay = if sources.left == 1 { "source file stays" } else { "source files stay" };
        let text = format!(
            "{} {stay}: left alone at the destination; or there before and not compared by content (--check digest \
             does that); or there without all of its metadata or links (--no-owner, --no-xattrs); or second to a name \
             that stays; or one of too many to be kept in mind until both sides had agreed; or not come to before the \
             stop",
            sources.left
        );
        (self.watch.events)(Event::Note(text));
    }
}
