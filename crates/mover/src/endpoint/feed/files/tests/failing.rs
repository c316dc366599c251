//! Files that fail, and come right or do not.

use super::*;
use crate::failure::Reason;

/// A feed and the time that it goes by.
struct Driven {
    feed: FilesFeed,
    looks: Looks,
    buffer: Vec<u8>,
    millis: Arc<AtomicU64>,
}

impl Driven {
    fn new(mut feed: FilesFeed) -> Driven {
        let (millis, began) = (Arc::<AtomicU64>::default(), Instant::now());
        let clock = millis.clone();
        feed.eyes.clock = Box::new(move || began + Duration::from_millis(clock.load(Ordering::Acquire)));
        feed.flows.grew_at = began;
        Driven { feed, looks: Looks::default(), buffer: vec![0; 64 << 10], millis }
    }

    fn pass(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::AcqRel);
    }

    /// Some rounds at the same moment. `false`: it is over.
    fn rounds(&mut self, taker: &Fake) -> bool {
        (0..5).all(|_| self.feed.round(&mut self.looks, taker, &mut self.buffer).unwrap().is_some())
    }

    /// Rounds until the last word was said.
    fn end(&mut self, taker: &Fake) {
        for _ in 0..1000 {
            if !self.rounds(taker) {
                return;
            }
            self.pass(100);
        }
        panic!("it does not end: {:?}", taker.lock().notes);
    }
}

fn until_ended_by_the_user() -> Until {
    Until { forever: true, ..Until::default() }
}

fn flows(taker: &Fake) -> usize {
    taker.lock().flows.len()
}

/// What was said last of the latest flow that failed: after how many milliseconds it is begun again, and whether that
/// is news.
fn again(taker: &Fake) -> Option<(u128, bool)> {
    let state = taker.lock();
    let (flow, again) = state.again.last().expect("nothing is said of what failed");
    let latest = state.flows.iter().rposition(|flow| matches!(flow.phase, Phase::Failed(_)));
    assert_eq!(Some(flow.0 as usize), latest);
    again.map(|again| (again.pause.as_millis(), again.is_news))
}

#[test]
fn what_only_its_user_ends_is_begun_again_however_often_it_fails_and_though_it_does_not_grow() {
    for single in [Some("log"), None] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("log"), &[1; 1000]);
        let mut driven = Driven::new(feed_of(scratch.path(), single, until_ended_by_the_user()));
        driven.rounds(&taker);
        assert!(taker.lock().is(0, &Phase::Open, &[1; 1000]));
        for (failures, pause_s) in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60].into_iter().enumerate() {
            taker.fails(failures, FailureKind::Space);
            assert!(driven.rounds(&taker), "it is given up");
            assert_eq!(again(&taker), Some((pause_s * 1000, failures == 0)));
            driven.pass(pause_s as u64 * 1000 - 1);
            driven.rounds(&taker);
            assert_eq!(flows(&taker), failures + 1, "before its time");
            driven.pass(1);
            driven.rounds(&taker);
            assert!(taker.lock().is(failures + 1, &Phase::Open, &[1; 1000]), "after {failures} failures");
        }
        // Another reason is news; and it goes on.
        taker.fails(10, FailureKind::Permission);
        driven.rounds(&taker);
        assert_eq!(again(&taker), Some((60_000, true)));
        append(&scratch.path().join("log"), &[2; 10]);
        driven.pass(60_000);
        driven.rounds(&taker);
        assert!(taker.lock().is(11, &Phase::Open, &[&[1; 1000][..], &[2; 10]].concat()));
        // For as long as no pause is: then it is as if it had never failed.
        driven.pass(60_000);
        driven.rounds(&taker);
        taker.fails(11, FailureKind::Space);
        driven.rounds(&taker);
        assert_eq!(again(&taker), Some((1000, true)));
        assert!(!taker.lock().is_last && taker.lock().missed.is_empty());
    }
}

/// As of a file that another program has leased, or a file server's client has for itself.
#[test]
fn a_read_that_finds_its_file_in_use_is_tried_again_and_what_another_stream_has_not_completed_is_not() {
    for (reason, pause) in [(Reason::Other, Some((1000, true))), (Reason::StillWritten, None)] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("log"), &[1; 1000]);
        let mut driven = Driven::new(feed_of(scratch.path(), None, until_ended_by_the_user()));
        driven.rounds(&taker);
        // Said by who reads it.
        driven.feed.flows.files.values_mut().for_each(|file| file.is_ended = true);
        let failure = Failure::new(FailureKind::Busy, "read", "a test");
        taker.give_up(EntryId(0), failure.because(reason));
        driven.rounds(&taker);
        assert_eq!(again(&taker), pause, "{reason:?}");
    }
}

#[test]
fn a_file_whose_handle_is_stale_when_it_is_to_be_begun_again_begins_by_its_name() {
    for single in [Some("log"), None] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("log"), &[1; 1000]);
        let mut driven = Driven::new(feed_of(scratch.path(), single, until_ended_by_the_user()));
        driven.rounds(&taker);
        taker.fails(0, FailureKind::Space);
        driven.rounds(&taker);
        assert_eq!(driven.feed.retries.open(), 1);
        driven.feed.eyes.stat_of = Box::new(|_: &File| Err(io::Error::other("a test")));
        driven.pass(1000);
        assert!(driven.rounds(&taker), "one file ends all");
        let FilesFeed { retries, flows: under_way, .. } = &driven.feed;
        assert!(retries.open() == 0 && !retries.awaits(!under_way.files.is_empty()));
        assert_eq!(flows(&taker), 1);
        driven.feed.eyes.stat_of = Box::new(File::stat);
        driven.pass(1000);
        driven.rounds(&taker);
        assert!(taker.lock().is(1, &Phase::Open, &[1; 1000]), "{:?}", taker.lock().notes);
    }
}

#[test]
fn a_file_that_is_rotated_while_it_waits_to_be_begun_again_is_read_to_its_end() {
    for single in [Some("log"), None] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        let (log, elsewhere) = (scratch.path().join("log"), tempfile::tempdir_in(scratch.path()).unwrap());
        append(&log, &[1; 1000]);
        let mut driven = Driven::new(feed_of(scratch.path(), single, until_ended_by_the_user()));
        driven.rounds(&taker);
        taker.fails(0, FailureKind::Space);
        driven.rounds(&taker);
        // Out of what is looked at, with what came while the disk was full.
        append(&log, &[2; 10]);
        let rotated = elsewhere.path().join("log.1");
        std::fs::rename(&log, &rotated).unwrap();
        let gone = tempfile::tempdir().unwrap();
        std::fs::rename(elsewhere.path(), gone.path().join("elsewhere")).unwrap();
        append(&log, &[3; 5]);
        for _ in 0..10 {
            driven.pass(1000);
            driven.rounds(&taker);
        }
        let state = taker.lock();
        let has = |content: &[u8], phase: &Phase| {
            state.flows.iter().any(|flow| flow.content == content && flow.phase == *phase)
        };
        assert!(has(&[&[1; 1000][..], &[2; 10]].concat(), &Phase::Ended), "the old one");
        assert!(has(&[3; 5], &Phase::Open) || has(&[3; 5], &Phase::Ended), "the new one");
    }
}

#[test]
fn what_has_an_end_waits_for_what_may_come_right_and_gives_up_after_three_failures() {
    for failures in [1, 2, 3] {
        let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
        append(&scratch.path().join("log"), &[1; 1000]);
        append(&scratch.path().join("DONE"), b"");
        taker.is_late.store(true, Ordering::Release);
        let mut driven = Driven::new(feed_of(scratch.path(), None, until_done()));
        for failure in 0..failures {
            driven.rounds(&taker);
            assert_eq!(flows(&taker), failure + 1);
            taker.fails(failure, FailureKind::Space);
            driven.rounds(&taker);
            let pause = [Some((1000, true)), Some((2000, false)), None][failure];
            assert_eq!(again(&taker), pause);
            assert_eq!(taker.lock().is_last, pause.is_none(), "after {} failures", failure + 1);
            driven.pass(pause.map_or(0, |(millis, _)| millis as u64));
        }
        if failures < 3 {
            driven.rounds(&taker);
            taker.let_go(failures, true);
        }
        driven.end(&taker);
        assert_eq!(flows(&taker), 3.min(failures + 1));
        assert_eq!(taker.lock().is(failures, &Phase::Ended, &[1; 1000]), failures < 3);
    }
}

#[test]
fn what_cannot_pass_is_not_tried_again_before_the_file_grows_nor_with_a_single_file_that_has_an_end() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let log = scratch.path().join("log");
    append(&log, &[1; 10]);
    let mut driven = Driven::new(feed_of(scratch.path(), None, until_ended_by_the_user()));
    for failures in 0..3 {
        driven.rounds(&taker);
        taker.fails(failures, FailureKind::Conflict);
        driven.rounds(&taker);
        assert_eq!(again(&taker), None);
        driven.pass(600_000);
        driven.rounds(&taker);
        assert_eq!(flows(&taker), failures + 1, "it did not grow");
        append(&log, &[1; 10]);
        driven.pass(600_000);
    }
    driven.rounds(&taker);
    assert_eq!(flows(&taker), 3);
    // The stream ends with a single file.
    let (taker, idle) = (Fake::default(), Until { idle_ms: Some(1 << 30), ..Until::default() });
    let mut driven = Driven::new(feed_of(scratch.path(), Some("log"), idle));
    driven.rounds(&taker);
    taker.fails(0, FailureKind::Space);
    driven.end(&taker);
    assert!(taker.lock().is_last && flows(&taker) == 1);
    assert_eq!(again(&taker), None);
}

#[test]
fn more_files_than_may_be_open_are_found_again_by_their_names_and_one_that_is_gone_is_not_waited_for() {
    let (scratch, taker) = (tempfile::tempdir().unwrap(), Fake::default());
    let at = |name: &str| scratch.path().join(name);
    append(&at("gone"), &[1; 10]);
    append(&at("stays"), &[2; 10]);
    let mut feed = feed_of(scratch.path(), None, until_done());
    // None stays open that failed.
    feed.at_once = 3;
    taker.is_late.store(true, Ordering::Release);
    let mut driven = Driven::new(feed);
    driven.rounds(&taker);
    assert_eq!(flows(&taker), 2);
    (0..2).for_each(|flow| taker.fails(flow, FailureKind::Io));
    driven.rounds(&taker);
    assert_eq!(driven.feed.retries.open(), 0);
    std::fs::remove_file(at("gone")).unwrap();
    std::fs::rename(at("stays"), at("renamed")).unwrap();
    append(&at("DONE"), b"");
    driven.pass(1500);
    driven.rounds(&taker);
    assert_eq!(flows(&taker), 3);
    taker.is_late.store(false, Ordering::Release);
    taker.let_go(2, true);
    driven.end(&taker);
    let state = taker.lock();
    assert!(state.is(2, &Phase::Ended, &[2; 10]) && state.flows.len() == 3 && state.is_last);
}

#[test]
fn a_directory_whose_name_leads_to_another_is_told_once_and_read_on() {
    let scratch = tempfile::tempdir().unwrap();
    let (today, other) = (scratch.path().join("today"), scratch.path().join("yesterday"));
    std::fs::create_dir(&today).unwrap();
    for single in [Some("log"), None] {
        let taker = Fake::default();
        let mut feed = feed_of(&today, single, until_ended_by_the_user());
        feed.spec.place = Some(GrowingPlace { path: today.clone(), below: None });
        append(&today.join("log"), &[1; 10]);
        let mut driven = Driven::new(feed);
        driven.rounds(&taker);
        std::fs::rename(&today, &other).unwrap();
        driven.pass(1000);
        driven.rounds(&taker);
        assert!(taker.lock().notes.is_empty(), "nothing has its name yet");
        std::fs::create_dir(&today).unwrap();
        append(&today.join("log"), &[9; 10]);
        append(&other.join("log"), &[2; 10]);
        for _ in 0..3 {
            driven.pass(1000);
            driven.rounds(&taker);
        }
        let state = taker.lock();
        let told =
            state.notes.iter().filter(|note| note.contains("today leads to another directory now")).count();
        assert_eq!((told, state.notes.len()), (1, 1), "{:?}", state.notes);
        assert!(state.is(0, &Phase::Open, &[[1; 10], [2; 10]].concat()) && state.flows.len() == 1);
        std::fs::remove_dir_all(&other).unwrap();
        std::fs::remove_file(today.join("log")).unwrap();
    }
}
