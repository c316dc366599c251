//! Writes that happen only where what stands there is what was seen.
//!
//! The store is asked to see to it. One that refuses conditions, or takes and does not heed them, is looked at just
//! before: what comes in between is not noticed, and that is told. Behind a PUT it is looked at, too: of two that write
//! one key at once the one that is overwritten by then hears of it. Whether PUTs are heeded shows in one of the first:
//! it is made twice, the second time in place of a version that cannot be there. Completions are looked at always.

use super::Shared;
use super::decide::may_be_source;
use crate::store::{About, Head, If, NO_VERSION, Seen};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::{Digest, EntryId, Evidence};

/// Longer content is not put twice to see what the store does: a look before costs less.
const TRIED_BYTES_MAX: usize = 1 << 20;
/// So often it is tried, if the trial itself fails: some stores fail at a version that is none of theirs.
const TRIALS_MAX: u32 = 3;

/// What is written under a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// A whole object.
    Put,
    /// The name of an object in parts.
    Complete,
}

/// What the store makes of conditions, as it showed.
#[derive(Default)]
pub(super) struct Conditions {
    /// PUTs with one do what those without do.
    put_is_unheeded: AtomicBool,
    completion_is_unheeded: AtomicBool,
    /// Somebody tries it.
    is_tried: AtomicBool,
    /// Trials that failed.
    failed: AtomicU32,
    /// It refused a PUT for its condition.
    is_heeded: AtomicBool,
}

impl Conditions {
    fn of(&self, write: Write) -> &AtomicBool {
        match write {
            Write::Put => &self.put_is_unheeded,
            Write::Complete => &self.completion_is_unheeded,
        }
    }

    fn is_unheeded(&self, write: Write) -> bool {
        self.of(write).load(Ordering::Relaxed)
    }

    fn unheeded(&self, write: Write) {
        if !self.of(write).swap(true, Ordering::Relaxed) {
            tracing::warn!("the store heeds no conditions");
        }
    }

    /// Whether some write was made without one.
    pub(super) fn lack(&self) -> bool {
        self.is_unheeded(Write::Put) || self.is_unheeded(Write::Complete)
    }
}

impl Shared {
    /// Does `act` if what stands at the key is what `stood` there.
    pub(super) fn conditional(
        &self,
        write: Write,
        key: &str,
        stood: Option<&Seen>,
        act: impl Fn(&If) -> Result<Seen>,
    ) -> Result<Seen> {
        let only = match stood {
            None => If::Absent,
            // It has no name that the store could go by.
            Some(seen) if seen.etag.is_empty() => If::Any,
            Some(seen) => If::Is(seen.etag.clone()),
        };
        let is_ours_to_see = only == If::Any || self.conditions.is_unheeded(write);
        if is_ours_to_see || write == Write::Complete {
            self.look(key, stood, 0)?;
        }
        if is_ours_to_see {
            let made = act(&If::Any)?;
            return self.look_behind(write, key, stood, made);
        }
        match act(&only) {
            Err(failure) if failure.kind == FailureKind::Unsupported => {}
            made => return made,
        }
        self.look(key, stood, 0)?;
        let made = act(&If::Any)?;
        self.conditions.unheeded(write);
        self.look_behind(write, key, stood, made)
    }

    /// What was just put without a condition, if it stands there still: somebody else may have written the same key at
    /// once. What stood there before is what a store says for a while that is slow to tell. Of an object in parts some
    /// stores tell another version when it is made than when it is looked at.
    fn look_behind(&self, write: Write, key: &str, stood: Option<&Seen>, made: Seen) -> Result<Seen> {
        if write == Write::Complete {
            return Ok(made);
        }
        let Ok(Some(Head { seen, .. })) = self.bucket.head(key) else { return Ok(made) };
        let is_known = |known: &Seen| known.etag.is_empty() || known.etag == seen.etag;
        if is_known(&made) || stood.is_some_and(is_known) {
            return Ok(made);
        }
        let cause = "somebody else wrote the same key just then, and the store heeds no conditions";
        Err(Failure::new(FailureKind::Conflict, "write the object", cause))
    }

    /// Whether what stands at a key is what stood there, before so many bytes are put there.
    fn look(&self, key: &str, stood: Option<&Seen>, bytes: u64) -> Result<()> {
        let head = self.bucket.head_before(key, bytes)?;
        let holds = match (stood, &head) {
            (None, None) => true,
            // Lists and looks may tell more or less of a second.
            (Some(stood), Some(Head { seen, .. })) if stood.etag.is_empty() => {
                (seen.size, seen.modified.seconds) == (stood.size, stood.modified.seconds)
            }
            (Some(stood), Some(head)) => head.seen.etag == stood.etag,
            _ => false,
        };
        let cause = "something else stands there than when it was decided";
        if holds { Ok(()) } else { Err(Failure::new(FailureKind::Conflict, "write the object", cause)) }
    }

    /// Puts a whole object of an entry where `stood` is what stands. One that stands there with the same content and
    /// time is ours: an answer was lost and the store asked again, or the file came twice. But one that may be the very
    /// object that was `read`, which is to be removed, is a conflict.
    pub(super) fn put(
        &self,
        id: EntryId,
        key: &str,
        content: &[u8],
        about: &About,
        stood: Option<&Seen>,
        read: &Evidence,
    ) -> Result<Seen> {
        let put = |stood: Option<&Seen>| self.put_tried(key, content, about, stood);
        match self.over_own(id, key, stood, put) {
            Err(failure) if failure.kind == FailureKind::Conflict => {
                let found = self.bucket.head(key).ok().flatten().filter(|head| {
                    about.blake3.is_some()
                        && head.about.blake3 == about.blake3
                        && head.about.mtime == about.mtime
                        && head.seen.size == content.len() as u64
                        && !(self.removes_source && may_be_source(read, &head.seen))
                });
                found.map(|head| head.seen).ok_or(failure)
            }
            put => put,
        }
    }

    /// Does `act` where `stood` is what stands; or what an entry put that this one replaces, whose put was under way
    /// when this one was decided.
    pub(super) fn over_own(
        &self,
        id: EntryId,
        key: &str,
        stood: Option<&Seen>,
        act: impl Fn(Option<&Seen>) -> Result<Seen>,
    ) -> Result<Seen> {
        match act(stood) {
            Err(failure) if failure.kind == FailureKind::Conflict => match self.own_before(id, key) {
                Some(head) => act(Some(&head.seen)),
                None => Err(failure),
            },
            made => made,
        }
    }

    /// Puts a whole object, and once sees by it whether the store heeds conditions.
    pub(super) fn put_tried(
        &self,
        key: &str,
        content: &[u8],
        about: &About,
        stood: Option<&Seen>,
    ) -> Result<Seen> {
        let put = |only: &If| self.bucket.put(key, content, about, only);
        let conditions = &self.conditions;
        if content.len() > TRIED_BYTES_MAX && !conditions.is_heeded.load(Ordering::Relaxed) {
            self.look(key, stood, content.len() as u64)?;
        }
        let made = self.conditional(Write::Put, key, stood, put)?;
        if content.len() > TRIED_BYTES_MAX
            || made.etag.is_empty()
            || conditions.is_unheeded(Write::Put)
            || conditions.is_tried.swap(true, Ordering::Relaxed)
        {
            return Ok(made);
        }
        match put(&If::Is(NO_VERSION.to_owned())) {
            // It is the same content, of another version perhaps.
            Ok(again) => {
                conditions.unheeded(Write::Put);
                return self.look_behind(Write::Put, key, Some(&made), again);
            }
            Err(failure) if failure.kind == FailureKind::Conflict => {
                conditions.is_heeded.store(true, Ordering::Relaxed);
            }
            // It was refused as damaged; or made all the same, and what arrived took the place of the first.
            Err(failure) if matches!(failure.kind, FailureKind::Damage | FailureKind::Protocol) => {
                let stands = self.bucket.head(key).ok().flatten();
                if stands.is_none_or(|head| head.seen.etag != made.etag) {
                    conditions.unheeded(Write::Put);
                    return Err(failure);
                }
            }
            // It says nothing of those that were taken.
            Err(failure) => {
                tracing::debug!(%failure, "whether the store heeds conditions is not known");
                let may_pass = failure.kind == FailureKind::Connection;
                if may_pass && conditions.failed.fetch_add(1, Ordering::Relaxed) + 1 < TRIALS_MAX {
                    conditions.is_tried.store(false, Ordering::Relaxed);
                }
            }
        }
        Ok(made)
    }

    /// A small file of this content is about to be put.
    pub(super) fn note_own(&self, id: EntryId, key: &str, content: Digest) {
        let mut own = lock(&self.own);
        let of_key = own.entry(key.to_owned()).or_default();
        if !of_key.contains(&(id, content)) {
            of_key.push((id, content));
        }
    }

    /// The last entry of this key is settled.
    pub(super) fn forget_own(&self, key: &str) {
        lock(&self.own).remove(key);
    }

    /// What stands there, if an entry put it that this one replaces.
    pub(super) fn own_before(&self, id: EntryId, key: &str) -> Option<Head> {
        let own = lock(&self.own);
        let before: Vec<Digest> = own.get(key)?.iter().filter(|own| own.0 < id).map(|own| own.1).collect();
        drop(own);
        if before.is_empty() {
            return None;
        }
        let head = self.bucket.head(key).ok()??;
        head.about.blake3.is_some_and(|digest| before.contains(&digest)).then_some(head)
    }
}
