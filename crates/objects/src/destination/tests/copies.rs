//! Whole copies, from a store and to one that goes away.

use super::*;
use crate::source::{ObjectSource, SourceOptions};
use crate::testing::{BUCKET, Fake, Fault};
use std::path::PathBuf;
use thalweg_mover::event;
use thalweg_mover::link::Identity;
use thalweg_mover::run::copy::{From, GivenDestination, GivenSource, Report, Stop, To, Watch, Wishes, copy};

/// Copies between a directory and a store that is told to fail.
fn copy_with_fake(fake: &Fake, from: From, to: To) -> Result<Report> {
    let identity = Identity::generate("somebody").unwrap();
    let watch = Watch {
        events: event::nobody(),
        is_behind: None,
        link_events: event::nobody(),
        meter: Arc::default(),
        evidence: None,
    };
    let copied = copy(&from, &to, &Wishes::default(), &identity, &watch, &Stop::default());
    assert!(!fake.asked().is_empty());
    copied
}

fn to_fake(store: &Arc<Store>) -> To {
    let store = store.clone();
    To::Given(GivenDestination {
        open: Arc::new(move |form, terms, _| {
            let location = Location { bucket: BUCKET.to_owned(), key: "to/".to_owned() };
            let options = DestinationOptions::default();
            let to = ObjectDestination::open(store.clone(), &location, form, terms.clone(), None, options)?;
            Ok(Arc::new(to))
        }),
        note: Arc::new(|| None),
        name: b"s3://bucket/to/".to_vec(),
        place: thalweg_wire::message::Place { export: None, path: b"s3://bucket/to/".to_vec() },
        way: "s3://bucket".to_owned(),
        below: b"to/".to_vec(),
        chunk_bytes: Some(chunk_bytes_for),
        finds_renames: false,
        give_up: None,
    })
}

const FILES: usize = 2000;

#[test]
fn a_store_that_goes_away_ends_the_copy_once_and_not_each_entry() {
    let from = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        std::fs::write(from.path().join(number.to_string()), b"x").unwrap();
    }
    let from = PathBuf::from(format!("{}/", from.path().display()));
    for fault in [Fault::HangUp, Fault::refuse(503, "SlowDown")] {
        let fake = Fake::start().unwrap();
        let store = Arc::new(fake.store().unwrap());
        fake.fail("PutObject", usize::MAX, fault.clone());
        fake.fail("HeadBucket", usize::MAX, fault);
        // Lists are answered: the look at the place is, and nobody lists later.
        let failure = copy_with_fake(&fake, From::Local(vec![from.clone()]), to_fake(&store)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
        let keys: HashSet<String> = fake.asked_to("PutObject").into_iter().map(|asked| asked.key).collect();
        assert!(keys.len() < FILES / 2, "{} were asked for", keys.len());
    }
}

#[test]
fn a_bucket_that_is_not_to_be_looked_at_is_told_when_it_is_opened() {
    let fake = Fake::start().unwrap();
    let store = Arc::new(fake.store().unwrap());
    for (fault, kind) in [
        (Fault::refuse(404, "NoSuchBucket"), FailureKind::NotFound),
        (Fault::refuse(403, "AccessDenied"), FailureKind::Permission),
    ] {
        fake.fail("ListObjectsV2", 1, fault);
        let from = tempfile::tempdir().unwrap();
        std::fs::write(from.path().join("f"), b"x").unwrap();
        let from = PathBuf::from(format!("{}/", from.path().display()));
        let failure = copy_with_fake(&fake, From::Local(vec![from]), to_fake(&store)).unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(fake.keys().is_empty());
    }
}

#[test]
fn a_store_that_goes_away_while_it_is_read_ends_the_copy_once() {
    let fake = Fake::start().unwrap();
    let store = Arc::new(fake.store().unwrap());
    (0..FILES).for_each(|number| drop(fake.put(&format!("from/{number}"), b"x")));
    fake.fail("GetObject", usize::MAX, Fault::HangUp);
    fake.fail("HeadObject", usize::MAX, Fault::HangUp);
    fake.fail("HeadBucket", usize::MAX, Fault::HangUp);
    let location = Location { bucket: BUCKET.to_owned(), key: "from/".to_owned() };
    let (source, form) = ObjectSource::open(store, &location, SourceOptions::default()).unwrap();
    let from = From::Given(GivenSource {
        open: GivenSource::same(Arc::new(source), form),
        chooses: false,
        name: b"s3://bucket/from/".to_vec(),
        way: "s3://bucket".to_owned(),
        keeps: None,
        streams: 16,
        chunk_bytes: Some(16 << 20),
        tops: vec![Vec::new()],
        give_up: None,
    });
    let to = tempfile::tempdir().unwrap();
    let to = To::Local(to.path().to_owned());
    let failure = copy_with_fake(&fake, from, to).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
}
