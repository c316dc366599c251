//! What could not be looked at is not what is not there.

use super::*;

/// What no call gets through to.
fn broken() -> io::Error {
    io::Error::other("a test")
}

/// While it is set, looks at this name fail.
fn unseen_while(feed: &mut FilesFeed, name: &'static [u8], fails: &Arc<AtomicBool>) {
    let fails = fails.clone();
    feed.eyes.stat_at = Box::new(move |dir: &Dir, at: &[u8]| {
        let is_unseen = at == name && fails.load(Ordering::Acquire);
        if is_unseen { Err(broken()) } else { dir.stat(at) }
    });
}

/// While it is set, looks at open files fail.
fn stale_while(feed: &mut FilesFeed, fails: &Arc<AtomicBool>) {
    let fails = fails.clone();
    feed.eyes.stat_of = Box::new(move |file: &File| match fails.load(Ordering::Acquire) {
        true => Err(broken()),
        false => file.stat(),
    });
}

/// The marker's name leads to something, whatever is listed; and the feed's time is the taker's.
fn ended_by_name_only(root: &Path, taker: &Fake) -> FilesFeed {
    let mut feed = feed_of(root, None, until_done());
    feed.eyes.stat_at = Box::new(|dir: &Dir, name: &[u8]| match name == b"DONE" {
        true => dir.stat_self(),
        false => dir.stat(name),
    });
    let (seconds, began) = (taker.seconds.clone(), Instant::now());
    feed.eyes.clock = Box::new(move || began + Duration::from_secs(seconds.load(Ordering::Acquire)));
    feed.flows.grew_at = began;
    feed
}

/// So many rounds, two seconds apart. `false`: it is over.
fn rounds(count: u64, feed: &mut FilesFeed, looks: &mut Looks, taker: &Fake) -> bool {
    let mut buffer = vec![0; 64 << 10];
    (0..count).all(|_| {
        taker.seconds.fetch_add(2, Ordering::AcqRel);
        feed.round(looks, taker, &mut buffer).unwrap().is_some()
    })
}

fn is_replaced(feed: &FilesFeed) -> bool {
    feed.flows.files.values().any(|file| file.is_replaced)
}

#[test]
fn a_file_that_cannot_be_looked_at_is_told_and_missed() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    for name in ["log", "other", "DONE"] {
        append(&scratch.path().join(name), name.as_bytes());
    }
    let mut feed = feed_of(scratch.path(), None, until_done());
    unseen_while(&mut feed, b"log", &Arc::new(AtomicBool::new(true)));
    feed.work(&taker).unwrap();
    let state = taker.lock();
    assert!(state.is_last && state.is(0, &Phase::Ended, b"other") && state.flows.len() == 1);
    let [(path, failure)] = &state.missed[..] else { panic!("{:?}", state.missed) };
    assert!(path.as_bytes() == b"log" && failure.kind == FailureKind::Io, "{failure}");
    let [note] = &state.notes[..] else { panic!("{:?}", state.notes) };
    assert!(note.starts_with("log cannot be looked at"), "{note}");
}

/// As where listings are kept for a while, and names are not.
#[test]
fn a_marker_ends_nothing_before_a_listing_has_it_and_what_came_before_it() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, mut looks) = (ended_by_name_only(scratch.path(), &taker), Looks::default());
    assert!(rounds(20, &mut feed, &mut looks, &taker), "nothing was listed yet");
    assert!(!taker.lock().is_last);
    append(&scratch.path().join("log"), &[1; 100]);
    append(&scratch.path().join("DONE"), b"");
    assert!(!rounds(20, &mut feed, &mut looks, &taker), "it does not end");
    let state = taker.lock();
    assert!(state.is_last && state.is(0, &Phase::Ended, &[1; 100]) && state.flows.len() == 1);
    assert!(state.notes.is_empty(), "{:?}", state.notes);
}

#[test]
fn a_marker_that_no_listing_ever_has_ends_all_and_is_told() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("log"), &[1; 100]);
    let (mut feed, mut looks) = (ended_by_name_only(scratch.path(), &taker), Looks::default());
    assert!(rounds(LISTED_WITHIN.as_secs() / 2, &mut feed, &mut looks, &taker), "before its time");
    assert!(!rounds(20, &mut feed, &mut looks, &taker), "it does not end");
    let state = taker.lock();
    assert!(state.is_last && state.is(0, &Phase::Ended, &[1; 100]) && state.flows.len() == 1);
    let [note] = &state.notes[..] else { panic!("{:?}", state.notes) };
    assert!(note.starts_with("DONE is there, and no listing"), "{note}");
}

#[test]
fn a_directory_that_was_removed_is_told_in_the_words_of_the_source() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let path = scratch.path().join("run");
    std::fs::create_dir(&path).unwrap();
    let mut feed = feed_of(&path, None, until_done());
    feed.spec.place = Some(GrowingPlace { path: path.clone(), below: None });
    std::fs::remove_dir(&path).unwrap();
    feed.look(&taker).unwrap();
    let notes = taker.lock().notes.clone();
    let begins = format!("{} cannot be listed: ", path.display());
    assert!(notes.iter().any(|note| note.starts_with(&begins)), "{notes:?}");
}

#[test]
fn a_single_file_that_cannot_be_looked_at_fails_as_that_and_not_as_none() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    append(&scratch.path().join("log"), b"some");
    let mut feed = feed_of(scratch.path(), Some("log"), until_closed());
    unseen_while(&mut feed, b"log", &Arc::new(AtomicBool::new(true)));
    let failure = feed.look(&taker).unwrap_err();
    assert_eq!((failure.kind, failure.operation.as_str()), (FailureKind::Io, "look at a file"));
}

#[test]
fn a_file_that_could_not_be_looked_at_for_a_moment_was_not_moved_away() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, _) = at_rest(scratch.path(), &taker);
    let fails = Arc::new(AtomicBool::new(true));
    unseen_while(&mut feed, b"log", &fails);
    for is_unseen in [true, false] {
        fails.store(is_unseen, Ordering::Release);
        feed.look(&taker).unwrap();
        assert!(!is_replaced(&feed));
        assert_eq!((feed.found.names.len(), feed.found.unread.len()), (1, usize::from(is_unseen)));
    }
    let state = taker.lock();
    assert!(state.notes.iter().all(|note| note.contains("cannot be looked at")), "{:?}", state.notes);
}

#[test]
fn what_is_below_a_directory_that_could_not_be_opened_was_not_seen() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, _) = at_rest(scratch.path(), &taker);
    let path = |name: &[u8]| RelativePath::new(name.to_vec()).unwrap();
    let unseen = |feed: &FilesFeed| feed.unseen().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    for name in [&b"run/a/log"[..], b"run/b", b"running/log"] {
        feed.found.names.insert(path(name), Identity::NONE);
    }
    assert!(unseen(&feed).is_empty());
    feed.found.unread.insert(path(b"run"), Failure::new(FailureKind::Permission, "open", "a test"));
    assert_eq!(unseen(&feed), [path(b"run/a/log"), path(b"run/b")]);
    feed.found.unread.insert(path(b""), Failure::new(FailureKind::Permission, "list", "a test"));
    assert_eq!(unseen(&feed).len(), 4);
}

#[test]
fn a_file_that_has_its_name_back_is_not_replaced_any_more() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let root = scratch.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let (mut feed, _) = at_rest(&root, &taker);
    std::fs::rename(root.join("log"), scratch.path().join("away")).unwrap();
    feed.look(&taker).unwrap();
    assert!(is_replaced(&feed));
    std::fs::rename(scratch.path().join("away"), root.join("log")).unwrap();
    feed.look(&taker).unwrap();
    assert!(!is_replaced(&feed));
}

#[test]
fn a_complete_file_whose_handle_is_stale_ends_nothing_else_and_goes_on_by_its_name() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let (mut feed, mut buffer) = at_rest(scratch.path(), &taker);
    let fails = Arc::new(AtomicBool::new(true));
    stale_while(&mut feed, &fails);
    feed.flows.files.values_mut().for_each(|file| file.end(&taker));
    feed.hear(Duration::ZERO, &taker, &mut buffer).unwrap();
    assert!(feed.flows.files.is_empty() && taker.lock().flows.len() == 1);
    // It is what it was; then it grows, and is opened by its name.
    feed.look(&taker).unwrap();
    assert!(feed.found.unread.is_empty());
    append(&scratch.path().join("log"), &[2; 10]);
    feed.look(&taker).unwrap();
    assert!(feed.found.unread.len() == 1 && taker.lock().flows.len() == 1);
    fails.store(false, Ordering::Release);
    feed.look(&taker).unwrap();
    assert!(feed.found.unread.is_empty() && taker.lock().flows.len() == 2);
}
