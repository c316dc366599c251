//! Removal of the very version that was seen.
//!
//! The store is asked to see to it. Whether it heeds that shows with the first: it is asked to remove a version that
//! cannot be there. One that refuses such a condition, or twice removes all the same, is looked at just before each
//! request, also before one that is made again: what comes in between is not noticed.
//!
//! A version is known by its ETag. Where it is looked at, its length and time count, too: the same content that was
//! written since is another version.

use super::asking::Wish;
use super::writing::refuses_headers;
use super::{NO_VERSION, Seen, Store};
use crate::answers::quoted_etag;
use rusty_s3::Method;
use std::sync::atomic::Ordering;
use thalweg_mover::failure::Result;

const REMOVE: &str = "remove the object";

/// What became of an object that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It went as it was asked for.
    Ours,
    /// It was gone before.
    Gone,
    /// Something else stands there, and stays.
    Other,
}

/// What the store makes of conditions on removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heeds {
    /// Nobody tried.
    Unknown,
    /// One that could not hold kept nobody from a removal. That object may have gone by itself just then.
    Perhaps,
    Yes,
    No,
}

impl Store {
    /// Removes an object, if what stands there is the version that was `seen`.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn remove_seen(&self, key: &str, seen: &Seen) -> Result<Removed> {
        let heeds = self.removals.load(Ordering::Relaxed);
        // A weak name matches nothing.
        let is_named = !seen.etag.is_empty() && !seen.etag.starts_with("W/");
        if is_named && heeds == Heeds::Yes as u8 {
            return self.remove_named(key, seen, false);
        }
        self.remove_looked_at(key, seen, is_named && heeds != Heeds::No as u8)
    }

    /// Looks before each request; the first one `tries` what the store makes of a condition, if that is wanted.
    fn remove_looked_at(&self, key: &str, seen: &Seen, mut tries: bool) -> Result<Removed> {
        let (mut budget, before) = (self.budget(), self.before());
        let mut lost = false;
        loop {
            match self.look_within(key, 0, &mut budget)? {
                None => return Ok(gone(lost)),
                Some((head, _)) if !is_same(&head.seen, seen) => return Ok(Removed::Other),
                Some(_) => {}
            }
            let wish = Wish { once: true, ..removal(key, tries.then_some(NO_VERSION)) };
            let refused = match self.ask_within(&wish, &mut budget) {
                Ok(_) => {
                    if tries {
                        self.note_unheeded();
                    }
                    return Ok(Removed::Ours);
                }
                Err(refused) => refused,
            };
            lost |= refused.lost;
            match refused.status {
                _ if refused.again.is_some() => self.wait_again(&wish, &mut budget, before, refused)?,
                412 if tries => {
                    self.heed_removals(Heeds::Yes);
                    return self.remove_named(key, seen, lost);
                }
                _ if tries && refuses_headers(&refused) => {
                    self.heed_removals(Heeds::No);
                    tries = false;
                }
                // A condition may take a right that a removal does not. Or it is gone since the look, or something
                // else stands there: another look tells.
                403 | 404 | 409 if tries => tries = false,
                404 => return Ok(gone(lost)),
                _ => return Err(refused.into()),
            }
        }
    }

    /// The store sees to it. `lost`: a request before may have been carried out.
    fn remove_named(&self, key: &str, seen: &Seen, lost: bool) -> Result<Removed> {
        let refused = match self.ask(&removal(key, Some(&seen.etag))) {
            Ok(_) => return Ok(Removed::Ours),
            Err(refused) if matches!(refused.status, 404 | 409 | 412) => refused,
            Err(refused) => return Err(refused.into()),
        };
        match self.head(key)? {
            None => Ok(gone(lost || refused.lost)),
            // It may not go: somebody keeps it, perhaps.
            Some(head) if is_same(&head.seen, seen) => Err(refused.into()),
            Some(_) => Ok(Removed::Other),
        }
    }

    fn heed_removals(&self, heeds: Heeds) {
        if self.removals.swap(heeds as u8, Ordering::Relaxed) != heeds as u8 && heeds == Heeds::No {
            tracing::info!("the store heeds no conditions on removals: each object is looked at before");
        }
    }

    /// A condition that cannot hold kept nobody from a removal.
    fn note_unheeded(&self) {
        let (unknown, perhaps, order) = (Heeds::Unknown as u8, Heeds::Perhaps as u8, Ordering::Relaxed);
        if self.removals.compare_exchange(unknown, perhaps, order, order) == Err(perhaps) {
            self.heed_removals(Heeds::No);
        }
    }
}

fn removal<'a>(key: &'a str, version: Option<&str>) -> Wish<'a> {
    let mut wish = Wish::new(REMOVE, "s3:DeleteObject", Method::Delete, Some(key));
    wish.headers.extend(version.map(|etag| ("if-match", quoted_etag(etag).into())));
    wish
}

/// What nothing stands for any more: ours, if it may have gone by a request whose answer was `lost`.
fn gone(lost: bool) -> Removed {
    if lost { Removed::Ours } else { Removed::Gone }
}

/// Whether both are one version. Lists and looks may tell more or less of a second, and round it.
fn is_same(stands: &Seen, seen: &Seen) -> bool {
    let [at, known_at] = [stands, seen].map(|seen| seen.modified.seconds);
    let is_near = at.abs_diff(known_at) <= 1 || at == 0 || known_at == 0;
    let is_of_then = at == known_at || (!seen.etag.is_empty() && is_near);
    stands.size == seen.size && is_of_then && (seen.etag.is_empty() || stands.etag == seen.etag)
}
