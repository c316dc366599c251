//! Buckets as ends of copies, and as places that questions are about: the only module that opens what
//! `thalweg_objects` has.

use crate::place::joined;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_mover::endpoint::Destination;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{GiveUp, GivenDestination, GivenSource};
use thalweg_objects::destination::{DestinationOptions, ObjectDestination, chunk_bytes_for};
use thalweg_objects::location::why_no_path;
use thalweg_objects::options::Surroundings;
use thalweg_objects::source::{ObjectSource, ObjectSources, READS_AT_ONCE, SourceOptions};
use thalweg_objects::store::Store;
use thalweg_sys::process::forbid_core_dumps;
use thalweg_wire::message::{self, SourceForm};

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
    /// It is a directory that is there, though nothing may be in it.
    is_directory: bool,
    /// What is written comes out of a stage.
    is_behind_stage: bool,
}

/// Bytes of a chunk of several places, if nobody asks for a size.
const CHUNK_BYTES: u64 = 16 << 20;

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
        let (location, settings) = (location.clone(), settings.clone());
        Ok(Bucket { store, location, settings, is_directory: false, is_behind_stage: false })
    }

    /// Another place in the same bucket.
    #[must_use]
    pub fn at(&self, location: &Location) -> Bucket {
        Bucket { location: location.clone(), ..self.clone() }
    }

    /// The same place as a directory that is there, though nothing may be in it yet.
    #[must_use]
    pub fn as_directory(self) -> Bucket {
        Bucket { is_directory: true, ..self }
    }

    /// The same place, written with copies of files that lie in a stage: the copy that ends all finds them there.
    #[must_use]
    pub(crate) fn behind_stage(self) -> Bucket {
        Bucket { is_behind_stage: true, ..self }
    }

    /// Whether another place with these settings is in this bucket.
    pub(crate) fn holds(&self, location: &Location, settings: &Settings) -> bool {
        self.location.bucket == location.bucket && self.settings == *settings
    }

    /// It as the source of a copy, whose chunks have so many bytes: each is one request. Default: as suits what there
    /// is, 4 to 16 MiB.
    ///
    /// # Errors
    /// `NotFound` where nothing has this key or begins with it; what the store says.
    pub fn source(&self, chunk_bytes: Option<u64>) -> Result<GivenSource> {
        let (source, form) = self.open_source(chunk_bytes)?;
        let chunk_bytes = source.chunk_bytes();
        let open = GivenSource::same(Arc::new(source), form);
        let (name, way) = (self.name(), self.store.name());
        let chunk_bytes = Some(chunk_bytes);
        let tops = vec![self.top()];
        let (keeps, streams, give_up) = (None, READS_AT_ONCE, Some(gives_up(slice::from_ref(self))));
        Ok(GivenSource { open, chooses: false, name, way, keeps, streams, chunk_bytes, tops, give_up })
    }

    /// What it becomes at the top of a destination: nothing where its content is meant, or all of a bucket.
    fn top(&self) -> Vec<u8> {
        name_of_key(&self.location.key).as_bytes().to_vec()
    }

    fn open_source(&self, chunk_bytes: Option<u64>) -> Result<(ObjectSource, SourceForm)> {
        check(&self.location)?;
        let options = SourceOptions { chunk_bytes, server_times: self.settings.server_times };
        ObjectSource::open(self.store.clone(), &self.location, options)
    }

    /// Whether a copy of it, and of `other`, to a third place may write what it reads here; whatever settings name one
    /// store. Not seen: one store under two addresses.
    pub(crate) fn meets(&self, other: &Bucket, to: &Bucket) -> bool {
        self.store.name() == to.store.name()
            && keys_meet(&self.location.key, &other.location.key, &to.location.key)
    }

    /// It as the destination of a copy; `state` is where uploads that were not completed are noted.
    ///
    /// # Errors
    /// `Usage` for a key that is no path. What the store says comes when it is opened.
    pub fn destination(&self, state: &Path) -> Result<GivenDestination> {
        check(&self.location)?;
        let (store, location, state) = (self.store.clone(), self.location.clone(), state.to_owned());
        let (directory_markers, of_stage) = (self.settings.directory_markers, self.is_behind_stage);
        let below = self.location.key.clone().into_bytes();
        // Of the last attempt, for its last word.
        let last: Arc<Mutex<Option<Arc<ObjectDestination>>>> = Arc::default();
        let opened = last.clone();
        Ok(GivenDestination {
            open: Arc::new(move |form, terms, protect| {
                let (store, terms) = (store.clone(), terms.clone());
                let options = DestinationOptions { directory_markers, protect: protect.to_vec(), of_stage };
                let destination =
                    ObjectDestination::open(store, &location, form, terms, Some(state.as_path()), options)?;
                let destination = Arc::new(destination);
                *lock(&opened) = Some(destination.clone());
                let destination: Arc<dyn Destination> = destination;
                Ok(destination)
            }),
            note: Arc::new(move || lock(&last).take()?.note()),
            name: self.name(),
            place: message::Place { export: None, path: self.name() },
            way: self.store.name(),
            below,
            chunk_bytes: Some(chunk_bytes_for),
            finds_renames: false,
            give_up: Some(gives_up(slice::from_ref(self))),
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

/// Several places as the source of one copy, as [`Bucket::source`] is one: each gives another name.
///
/// # Errors
/// As [`Bucket::source`].
pub(crate) fn source_of(buckets: &[Bucket], chunk_bytes: Option<u64>) -> Result<GivenSource> {
    if let [bucket] = buckets {
        return bucket.source(chunk_bytes);
    }
    let chunk_bytes = chunk_bytes.unwrap_or(CHUNK_BYTES);
    let open = |bucket: &Bucket| bucket.open_source(Some(chunk_bytes)).map(|(source, _)| source);
    let sources = ObjectSources::of(buckets.iter().map(open))?;
    let names: Vec<Vec<u8>> = buckets.iter().map(Bucket::name).collect();
    let mut ways: Vec<String> = buckets.iter().map(|bucket| bucket.store.name()).collect();
    ways.dedup();
    Ok(GivenSource {
        open: GivenSource::same(Arc::new(sources), SourceForm::Many),
        chooses: false,
        // All of them together may be longer than a name may be.
        name: format!("{SCHEME}{}", blake3::hash(&names.join(&0)).to_hex()).into_bytes(),
        way: ways.join(" "),
        keeps: nested(buckets),
        streams: READS_AT_ONCE,
        chunk_bytes: Some(chunk_bytes),
        tops: buckets.iter().map(Bucket::top).collect(),
        give_up: Some(gives_up(buckets)),
    })
}

/// Gives their stores up: see [`Store::give_up`]. Other places in them are, too, which the same stop ends.
fn gives_up(buckets: &[Bucket]) -> GiveUp {
    let stores: Vec<Arc<Store>> = buckets.iter().map(|bucket| bucket.store.clone()).collect();
    Arc::new(move || stores.iter().for_each(|store| store.give_up()))
}

/// Two of these of which one is, or is in, the other: what is in both would be found under two names.
fn nested(buckets: &[Bucket]) -> Option<String> {
    buckets.iter().enumerate().find_map(|(at, inner)| {
        let mut others = buckets.iter().enumerate().filter(|(other, _)| *other != at);
        let (_, outer) = others.find(|&(_, outer)| {
            let [key, above] = [inner, outer].map(|bucket| without_slash(&bucket.location.key));
            inner.store.name() == outer.store.name() && is_in(key, above)
        })?;
        let (inner, outer) = (&inner.location, &outer.location);
        Some(format!("`{inner}` is in `{outer}`, and would be copied twice: name one of the two"))
    })
}

/// What a key is called where it is copied to; nothing if what is below it is meant.
pub(crate) fn name_of_key(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

fn without_slash(key: &str) -> &str {
    key.strip_suffix('/').unwrap_or(key)
}

/// Whether a key is another one, or below it.
fn is_in(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The key of what has this name below another key. A name that is no text gets one that is refused, or not found.
pub(crate) fn key_below(key: &str, name: &[u8]) -> String {
    String::from_utf8(joined(key.as_bytes().to_vec(), name)).unwrap_or_else(|error| {
        let mut shown = String::from_utf8_lossy(error.as_bytes()).into_owned();
        shown.push(NO_KEY);
        shown
    })
}

/// Whether a copy to a key of the same bucket may write what it reads at `from`, when it copies `other` (the same, or
/// another source of it): the destination is at the source or inside it, or the source is what `other` becomes there,
/// or one of these is inside the other.
pub(crate) fn keys_meet(from: &str, other: &str, to: &str) -> bool {
    let [source, end] = [from, to].map(without_slash);
    let becomes = key_below(end, name_of_key(other).as_bytes());
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
pub(crate) mod tests {
    use super::*;
    use thalweg_mover::event;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::copy::{From, Stop, To, Watch, Wishes, copy};
    use thalweg_objects::testing::Fake;
    use thalweg_wire::message::FilterRule;

    /// A place in the bucket of a store in memory.
    pub(crate) fn bucket(fake: &Fake, key: &str) -> Bucket {
        let (store, location, settings) =
            (Arc::new(fake.store().unwrap()), fake.location(key), Settings::default());
        Bucket { store, location, settings, is_directory: false, is_behind_stage: false }
    }

    fn copied(from: &From, to: &To, wishes: &Wishes) -> Result<()> {
        let identity = Identity::generate("somebody").unwrap();
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        copy(from, to, wishes, &identity, &watch, &Stop::default()).map(drop)
    }

    #[test]
    fn a_bucket_is_read_by_chunks_as_large_as_those_of_the_copy() {
        let fake = Fake::start().unwrap();
        fake.put("a", &vec![7; 20 << 20]);
        let bucket = bucket(&fake, "a");
        let mut wishes = Wishes::default();
        wishes.movement.asked.chunk_bytes = Some(8 << 20);
        let from = From::Given(bucket.source(wishes.movement.asked.chunk_bytes).unwrap());
        copied(&from, &To::Null, &wishes).unwrap();
        let asked = fake.asked_to("GetObject");
        let mut ranges: Vec<&str> = asked.iter().filter_map(|asked| asked.header("range")).collect();
        ranges.sort_unstable();
        assert_eq!(ranges, ["bytes=0-8388607", "bytes=16777216-20971519", "bytes=8388608-16777215"]);
    }

    #[test]
    fn into_a_new_directory_a_small_object_costs_one_request_and_the_second_time_its_content_none() {
        const OBJECTS: usize = 100;
        let (fake, scratch) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..OBJECTS {
            fake.put(&format!("t/{number}"), number.to_string().as_bytes());
        }
        let to = scratch.path().join("to");
        let copy = || {
            let from = From::Given(bucket(&fake, "t/").source(None).unwrap());
            copied(&from, &To::Local(to.clone()), &Wishes::default()).unwrap();
            ["HeadObject", "GetObject"].map(|operation| fake.asked_to(operation).len())
        };
        assert_eq!(copy(), [0, OBJECTS]);
        for number in 0..OBJECTS {
            assert_eq!(std::fs::read_to_string(to.join(number.to_string())).unwrap(), number.to_string());
        }
        assert_eq!(copy(), [OBJECTS, OBJECTS]);
    }

    #[test]
    fn what_the_source_lacks_is_deleted_in_a_bucket_and_what_is_excluded_stays() {
        let (fake, scratch) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        for key in ["t/a", "t/old", "t/d/old", "t/keep.log", "other"] {
            fake.put(key, b"old");
        }
        let from = scratch.path().join("from");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("a"), "new").unwrap();
        let mut wishes = Wishes::default();
        wishes.fidelity.delete_max = Some(2);
        wishes.selection.filter = vec![FilterRule { include: false, pattern: "*.log".to_owned() }];
        let from = From::Local(vec![format!("{}/", from.display()).into()]);
        let to = To::Given(bucket(&fake, "t/").destination(&scratch.path().join("state")).unwrap());
        copied(&from, &to, &wishes).unwrap();
        assert_eq!(fake.keys(), ["other", "t/a", "t/keep.log"]);
        assert_eq!(fake.content("t/a").unwrap(), b"new");
    }

    #[test]
    fn what_was_copied_from_buckets_is_removed_there_and_not_where_it_would_be_found_twice() {
        let (fake, scratch) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        for key in ["x/a", "x/d/b", "y", "z"] {
            fake.put(key, key.as_bytes());
        }
        let wishes = Wishes { removes_sources: true, ..Wishes::default() };
        let to = To::Local(scratch.path().join("to"));
        let nested = [bucket(&fake, "x"), bucket(&fake, "x/d")];
        let failure = copied(&From::Given(source_of(&nested, None).unwrap()), &to, &wishes).unwrap_err();
        assert!(failure.kind == FailureKind::Usage && failure.cause.contains("copied twice"), "{failure}");
        let several = [bucket(&fake, "x"), bucket(&fake, "y")];
        copied(&From::Given(source_of(&several, None).unwrap()), &to, &wishes).unwrap();
        assert_eq!(fake.keys(), ["z"]);
        for (name, content) in [("x/a", "x/a"), ("x/d/b", "x/d/b"), ("y", "y")] {
            let found = std::fs::read_to_string(scratch.path().join("to").join(name)).unwrap();
            assert_eq!(found, content);
        }
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
            assert!(keys_meet(from, from, to), "{from} {to}");
        }
        for (from, to) in
            [("run7/", "run70/"), ("run70/", "run7/"), ("a", "z/"), ("a/b", ""), ("a/b/c", "a/"), ("a", "b")]
        {
            assert!(!keys_meet(from, from, to), "{from} {to}");
        }
        // Of several sources one may become what another is.
        assert!(!keys_meet("y/x/deep", "y/x/deep", "y/") && keys_meet("y/x/deep", "x", "y/"));
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
