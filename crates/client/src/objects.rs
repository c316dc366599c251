//! Buckets as ends of copies, and as places that questions are about: the only module that opens what
//! `thalweg_objects` has.

use crate::place::joined;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_mover::endpoint::{Destination, Source};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{GivenDestination, GivenSource};
use thalweg_objects::destination::{DestinationOptions, ObjectDestination, chunk_bytes_for};
use thalweg_objects::location::why_no_path;
use thalweg_objects::options::Surroundings;
use thalweg_objects::source::{ObjectSource, SourceOptions};
use thalweg_objects::store::Store;

pub use thalweg_objects::destination::KEEPS_NO;
pub use thalweg_objects::location::{Location, SCHEME};
pub use thalweg_objects::options::{Options, Style};

/// What is there, its bytes and digests, and removing it.
mod questions;

pub use questions::{Cleaning, LeftUpload, UploadState};

/// What the configuration says of a bucket. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How its store is reached, and who we are to it.
    pub options: Options,
    /// Directories are kept as objects without content whose keys end in a slash. Default: those without files are
    /// lost.
    pub directory_markers: bool,
    /// Files have the time at which the store got them, so that nothing is asked of each of them. Default: the time
    /// that is kept beside the object, where there is one.
    pub server_times: bool,
}

/// A place in a bucket whose store was opened. Copies share the store.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<Store>,
    location: Location,
    settings: Settings,
}

/// Streams that read a bucket, if nobody asks for a number: each waits for an answer most of the time. As many requests
/// are under way where objects are written.
const STREAMS: u16 = 16;

/// What is not a name in the place of what was meant: no store takes it.
const NO_KEY: char = '\0';

impl Bucket {
    /// Opens its store, which is asked for nothing yet. `patience`: how long a store that does not answer is tried
    /// again.
    ///
    /// # Errors
    /// `Usage` for a key that is no path, and for settings, also those of the environment and of profiles, that make no
    /// sense; what a file of theirs says.
    pub fn open(location: &Location, settings: &Settings, patience: Duration) -> Result<Bucket> {
        check(location)?;
        // A number that nobody foresees; the standard library keys its hashes with one.
        let surroundings = Surroundings::of_process(patience, RandomState::new().hash_one(patience));
        let store = Arc::new(Store::open(location, &settings.options, &surroundings)?);
        Ok(Bucket { store, location: location.clone(), settings: settings.clone() })
    }

    /// Another place in the same bucket.
    #[must_use]
    pub fn at(&self, location: &Location) -> Bucket {
        Bucket { location: location.clone(), ..self.clone() }
    }

    /// Whether another place with these settings is in this bucket.
    pub(crate) fn holds(&self, location: &Location, settings: &Settings) -> bool {
        self.location.bucket == location.bucket && self.settings == *settings
    }

    /// It as the source of a copy.
    ///
    /// # Errors
    /// `NotFound` where nothing has this key or begins with it; what the store says.
    pub fn source(&self) -> Result<GivenSource> {
        check(&self.location)?;
        let options = SourceOptions { server_times: self.settings.server_times, ..SourceOptions::default() };
        let (source, form) = ObjectSource::open(self.store.clone(), &self.location, options)?;
        let source: Arc<dyn Source> = Arc::new(source);
        Ok(GivenSource { source, form, name: self.name(), way: self.store.name(), streams: STREAMS })
    }

    /// It as the destination of a copy; `state` is where uploads that were not completed are noted.
    ///
    /// # Errors
    /// `Usage` for a key that is no path. What the store says comes when it is opened.
    pub fn destination(&self, state: &Path) -> Result<GivenDestination> {
        check(&self.location)?;
        let (store, location, state) = (self.store.clone(), self.location.clone(), state.to_owned());
        let options = DestinationOptions { directory_markers: self.settings.directory_markers };
        // Of the last attempt, for its last word.
        let last: Arc<Mutex<Option<Arc<ObjectDestination>>>> = Arc::default();
        let opened = last.clone();
        Ok(GivenDestination {
            open: Arc::new(move |form, terms| {
                let (store, terms, options) = (store.clone(), terms.clone(), options.clone());
                let destination =
                    ObjectDestination::open(store, &location, form, terms, Some(state.as_path()), options)?;
                let destination = Arc::new(destination);
                *lock(&opened) = Some(destination.clone());
                let destination: Arc<dyn Destination> = destination;
                Ok(destination)
            }),
            note: Arc::new(move || lock(&last).take()?.note()),
            name: self.name(),
            way: self.store.name(),
            chunk_bytes: |asked| chunk_bytes_for(asked, None),
        })
    }

    /// What tells it from places in other stores, too.
    fn name(&self) -> Vec<u8> {
        let bucket = format!("{SCHEME}{}", self.location.bucket);
        let store = self.store.name();
        let endpoint = store.strip_prefix(&bucket).unwrap_or(&store);
        format!("{}{endpoint}", self.location).into_bytes()
    }
}

/// The key of what has this name below another key. A name that is no text gets one that is refused, or not found.
pub(crate) fn key_below(key: &str, name: &[u8]) -> String {
    String::from_utf8(joined(key.as_bytes().to_vec(), name)).unwrap_or_else(|error| {
        let mut shown = String::from_utf8_lossy(error.as_bytes()).into_owned();
        shown.push(NO_KEY);
        shown
    })
}

/// # Errors
/// `Usage` for a key that is no path; the bucket itself is one.
fn check(location: &Location) -> Result<()> {
    let key = location.key.strip_suffix('/').unwrap_or(&location.key);
    match why_no_path(key).filter(|_| !location.key.is_empty()) {
        Some(why) => {
            let shown = thalweg_mover::failure::shown_path(location.key.as_bytes());
            let cause = format!("the key `{shown}` {why}, so that it is no path");
            Err(Failure::new(FailureKind::Usage, "read place", cause))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_a_key_are_keys_and_what_is_no_text_is_none() {
        assert_eq!(key_below("run7", b"a/b"), "run7/a/b");
        assert_eq!(key_below("run7/", b"a"), "run7/a");
        assert_eq!(key_below("", b"a"), "a");
        let key = key_below("run7", b"\xff");
        let refused = check(&Location { bucket: "data".to_owned(), key }).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage, "{refused}");
        for key in ["", "a", "a/", "a/b"] {
            check(&Location { bucket: "data".to_owned(), key: key.to_owned() }).unwrap();
        }
    }
}
