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
use thalweg_sys::process::forbid_core_dumps;

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

/// Streams that read a bucket, if nobody asks for a number: each waits for an answer most of the time.
const STREAMS: u16 = 16;

/// What is not a name in the place of what was meant: no store takes it.
const NO_KEY: char = '\0';

impl Bucket {
    /// Opens its store, which is asked for nothing yet. `patience`: how long a store that does not answer is tried
    /// again. From then on no core dump is made of this process, or of its children: there are secret keys in it.
    ///
    /// # Errors
    /// `Usage` for a key that is no path, and for settings, also those of the environment and of profiles, that make no
    /// sense; what a file of theirs says.
    pub fn open(location: &Location, settings: &Settings, patience: Duration) -> Result<Bucket> {
        check(location)?;
        let _ = forbid_core_dumps();
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

    /// It as the source of a copy, whose chunks have so many bytes: each is one request. Default: 16 MiB.
    ///
    /// # Errors
    /// `NotFound` where nothing has this key or begins with it; what the store says.
    pub fn source(&self, chunk_bytes: Option<u64>) -> Result<GivenSource> {
        check(&self.location)?;
        let default = SourceOptions::default();
        let chunk_bytes = chunk_bytes.unwrap_or(default.chunk_bytes);
        let options = SourceOptions { chunk_bytes, server_times: self.settings.server_times };
        let (source, form) = ObjectSource::open(self.store.clone(), &self.location, options)?;
        let source: Arc<dyn Source> = Arc::new(source);
        let (name, way) = (self.name(), self.store.name());
        Ok(GivenSource { source, form, name, way, streams: STREAMS, chunk_bytes })
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

/// Whether a copy from one key to another of the same bucket may write what it reads: the destination is at the source
/// or inside it, or the source is what it becomes there, or one of these is inside the other.
pub(crate) fn keys_meet(from: &str, to: &str) -> bool {
    let [source, end] = [from, to].map(|key| key.strip_suffix('/').unwrap_or(key));
    let is_in = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let name = match from.is_empty() || from.ends_with('/') {
        true => "",
        false => source.rsplit('/').next().unwrap_or_default(),
    };
    let becomes = key_below(end, name.as_bytes());
    is_in(end, source) || is_in(&becomes, source) || is_in(source, &becomes)
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
    use thalweg_mover::event;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::copy::{From, Stop, To, Watch, Wishes, copy};
    use thalweg_objects::testing::Fake;

    #[test]
    fn a_bucket_is_read_by_chunks_as_large_as_those_of_the_copy() {
        let fake = Fake::start().unwrap();
        fake.put("a", &vec![7; 20 << 20]);
        let (store, location) = (Arc::new(fake.store().unwrap()), fake.location("a"));
        let bucket = Bucket { store, location, settings: Settings::default() };
        let mut wishes = Wishes::default();
        wishes.movement.asked.chunk_bytes = Some(8 << 20);
        let from = From::Given(bucket.source(wishes.movement.asked.chunk_bytes).unwrap());
        let identity = Identity::generate("somebody").unwrap();
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        copy(&from, &To::Null, &wishes, &identity, &watch, &Stop::default()).unwrap();
        let asked = fake.asked_to("GetObject");
        let mut ranges: Vec<&str> = asked.iter().filter_map(|asked| asked.header("range")).collect();
        ranges.sort_unstable();
        assert_eq!(ranges, ["bytes=0-8388607", "bytes=16777216-20971519", "bytes=8388608-16777215"]);
    }

    #[test]
    fn keys_meet_where_one_is_what_the_other_becomes_or_is_inside_of_it() {
        for (from, to) in [
            ("run7/", "run7/z/"),
            ("run7/", "run7/"),
            ("run7", "run7/"),
            ("run7", ""),
            ("a/run7", "a"),
            ("a/a/a", "a/"),
            ("", "z/"),
            ("run7/", ""),
            ("a/b/", "a/"),
        ] {
            assert!(keys_meet(from, to), "{from} {to}");
        }
        for (from, to) in
            [("run7/", "run70/"), ("run70/", "run7/"), ("a", "z/"), ("a/b", ""), ("a/b/c", "a/"), ("a", "b")]
        {
            assert!(!keys_meet(from, to), "{from} {to}");
        }
    }

    /// Secret keys are in its memory.
    #[test]
    fn a_process_that_opens_a_bucket_leaves_no_core_dump() {
        let endpoint = Some("http://127.0.0.1:1".to_owned());
        let options = Options { endpoint, anonymous: true, ..Options::default() };
        let settings = Settings { options, ..Settings::default() };
        let location = Location { bucket: "data".to_owned(), key: String::new() };
        Bucket::open(&location, &settings, Duration::ZERO).unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        let words: Vec<&str> = core.split_whitespace().take(2).collect();
        assert!(words.iter().all(|most| ["0", "1"].contains(most)), "{core}");
    }

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
