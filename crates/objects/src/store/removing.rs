//! Removal of the very version that was seen.
//!
//! The store is asked to see to it. Whether it heeds that shows with the first: it is asked to remove a version that
//! cannot be there. One that refuses such a condition, or removes all the same, is looked at just before each removal:
//! what comes in between is not noticed.

use super::asking::{Refused, Wish};
use super::writing::refuses_headers;
use super::{NO_VERSION, Seen, Store};
use crate::answers::quoted_etag;
use rusty_s3::Method;
use std::sync::atomic::Ordering;
use thalweg_mover::failure::Result;

const REMOVE: &str = "remove the object";

/// What the store makes of conditions on removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heeds {
    /// Nobody tried.
    Unknown,
    Yes,
    No,
}

impl Store {
    /// Removes an object, if what stands there is the version that was `seen`; whether nothing stands there any more.
    /// One that is gone is removed. `false`: something else stands there, and stays.
    ///
    /// # Errors
    /// What the store says, if it refuses.
    pub fn remove_seen(&self, key: &str, seen: &Seen) -> Result<bool> {
        let heeds = self.removals.load(Ordering::Relaxed);
        // A weak name matches nothing.
        let is_named = !seen.etag.is_empty() && !seen.etag.starts_with("W/");
        if !is_named || heeds == Heeds::No as u8 {
            return self.remove_looked_at(key, seen);
        }
        if heeds == Heeds::Unknown as u8 {
            match self.head(key)? {
                None => return Ok(true),
                Some(head) if !is_same(&head.seen, seen) => return Ok(false),
                Some(_) => {}
            }
            match self.delete(key, Some(NO_VERSION)) {
                // It was looked at.
                Ok(()) => {
                    self.heed_removals(Heeds::No);
                    return Ok(true);
                }
                Err(refused) if refused.status == 412 => self.heed_removals(Heeds::Yes),
                Err(refused) if refuses_headers(&refused) => {
                    self.heed_removals(Heeds::No);
                    return self.remove_looked_at(key, seen);
                }
                // A condition may take a right that a removal does not.
                Err(Refused { status: 403, .. }) => return self.remove_looked_at(key, seen),
                // It is gone since the look, or something else stands there: the second trial tells.
                Err(Refused { status: 404 | 409, .. }) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        match self.delete(key, Some(&seen.etag)) {
            Ok(()) => Ok(true),
            // It is gone, whose answer ever was lost; or something else stands there.
            Err(Refused { status: 404 | 409 | 412, .. }) => Ok(self.head(key)?.is_none()),
            Err(refused) => Err(refused.into()),
        }
    }

    fn remove_looked_at(&self, key: &str, seen: &Seen) -> Result<bool> {
        match self.head(key)? {
            None => Ok(true),
            Some(head) if !is_same(&head.seen, seen) => Ok(false),
            Some(_) => match self.delete(key, None) {
                Ok(()) | Err(Refused { status: 404, .. }) => Ok(true),
                Err(refused) => Err(refused.into()),
            },
        }
    }

    fn delete(&self, key: &str, version: Option<&str>) -> std::result::Result<(), Refused> {
        let mut wish = Wish::new(REMOVE, "s3:DeleteObject", Method::Delete, Some(key));
        wish.headers.extend(version.map(|etag| ("if-match", quoted_etag(etag).into())));
        self.ask(&wish).map(drop)
    }

    fn heed_removals(&self, heeds: Heeds) {
        if self.removals.swap(heeds as u8, Ordering::Relaxed) != heeds as u8 && heeds == Heeds::No {
            tracing::info!("the store heeds no conditions on removals: each object is looked at before");
        }
    }
}

/// Whether both are one version. Lists and looks may tell more or less of a second.
fn is_same(stands: &Seen, seen: &Seen) -> bool {
    match seen.etag.is_empty() {
        true => (stands.size, stands.modified.seconds) == (seen.size, seen.modified.seconds),
        false => stands.etag == seen.etag,
    }
}
