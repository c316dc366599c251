//! What was written and not looked at, or could not be.

use super::*;
use crate::testing::{BUCKET, Fake, Fault};

#[test]
fn what_was_put_and_not_read_back_is_compared_by_the_next_attempt_that_wants_it_read() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    let open = || {
        let terms = Terms { verify: VerifyLevel::Readback, ..terms() };
        open_as(&bucket, terms, Some(state.path()), DestinationOptions::default()).unwrap()
    };
    let to = open();
    assert_fresh(&to, &entry);
    assert!(stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).is_ok());
    to.close(false);
    let to = open();
    assert!(matches!(decide(&to, &entry), Decision::Wanted { left: None, candidate: Some(1000) }));
    let Decision::Settled { outcome: kept, .. } = to.keep(&entry, digest_of(&bytes)) else { panic!() };
    assert!(matches!(kept, Outcome::Unchanged { .. }), "{kept:?}");
    to.settled(&entry, &kept);
    to.close(true);
    // It was read: that is remembered.
    assert!(matches!(outcome(&open(), &entry), Outcome::Unchanged { digest: Some(_) }));
}

#[test]
fn what_is_damaged_and_cannot_be_removed_is_sent_again_by_the_next_attempt() {
    for is_away in [false, true] {
        let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
        let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
        let to = open(&bucket, Some(state.path()));
        assert_fresh(&to, &entry);
        let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
        bucket.denies_removal.store(true, Ordering::Relaxed);
        bucket.is_away.store(is_away, Ordering::Relaxed);
        bucket.damages.store(1, Ordering::Relaxed);
        assert_ne!(to.read_staged_back(&staged, 1000).unwrap(), digest_of(&bytes));
        assert_eq!(bucket.keys(), ["to/a"]);
        to.close(false);
        bucket.is_away.store(false, Ordering::Relaxed);
        let to = open(&bucket, Some(state.path()));
        assert_fresh(&to, &entry);
        let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
        name(&to, &entry, Ready::Staged(staged), &bytes).unwrap();
        to.close(true);
        let to = open(&bucket, Some(state.path()));
        assert!(matches!(outcome(&to, &entry), Outcome::Unchanged { digest: Some(_) }));
    }
}

/// Two commands that write one key, at a store that keeps no order between them.
#[test]
fn who_is_overwritten_at_once_where_no_condition_holds_hears_of_it() {
    for refuses in [false, true] {
        let bucket = Memory::new();
        bucket.refuses_conditions.store(refuses, Ordering::Relaxed);
        bucket.ignores_conditions.store(!refuses, Ordering::Relaxed);
        let to = open(&bucket, None);
        for id in 1..=2 {
            let (entry, bytes) = (file(id, &format!("f{id}"), 1000), noise(1000, id as u8));
            assert_fresh(&to, &entry);
            bucket.overwrites.store(id == 2, Ordering::Relaxed);
            let staged = stage(&to, &[(entry, bytes)]).remove(0);
            assert_eq!(staged.err().map(|failure| failure.kind), (id == 2).then_some(FailureKind::Conflict));
        }
        assert_eq!(content(&bucket, "to/f2").unwrap(), b"somebody else's");
    }
}

#[test]
fn what_is_damaged_goes_only_if_nobody_else_wrote_there_since() {
    let bucket = Memory::new();
    let to = open(&bucket, None);
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    assert_fresh(&to, &entry);
    let staged = stage(&to, &[(entry, bytes.clone())]).remove(0).unwrap();
    bucket.damages.store(1, Ordering::Relaxed);
    // Between the look and the removal.
    *lock(&bucket.overwritten) = vec!["to/a".to_owned()];
    assert_ne!(to.read_staged_back(&staged, 1000).unwrap(), digest_of(&bytes));
    assert_eq!(content(&bucket, "to/a").unwrap(), b"somebody else's");
}

/// A destination at a store that is told to fail.
fn open_at(fake: &Fake, patience: Duration) -> ObjectDestination {
    let store = Store::open(&fake.location(""), &fake.options(), &fake.surroundings(patience)).unwrap();
    let location = Location { bucket: BUCKET.to_owned(), key: "to/".to_owned() };
    let (options, budget) = (DestinationOptions::default(), Budget::new(MEMORY, STALE, STALL));
    let store: AnyBucket = Arc::new(store);
    ObjectDestination::of(store, &location, &SourceForm::Many, terms(), None, options, budget).unwrap()
}

#[test]
fn a_trial_of_conditions_that_fails_once_ends_none_and_is_made_again_with_the_next_file() {
    // A store that is asked again, and one that is not: then the next file shows it, and none behind it is put twice.
    for (patience, puts) in [(60, [3, 4, 5]), (0, [2, 4, 5])] {
        let fake = Fake::start().unwrap();
        let to = open_at(&fake, Duration::from_secs(patience));
        // The first is put all the same, and looked at.
        fake.fail("PutObject", 1, Fault::Anonymous);
        fake.fail("PutObject", 1, Fault::refuse(500, "InternalError"));
        for (id, puts) in (1..).zip(puts) {
            let (entry, bytes) = (file(id, &format!("f{id}"), 1000), noise(1000, id as u8));
            assert_fresh(&to, &entry);
            let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
            assert!(name(&to, &entry, Ready::Staged(staged), &bytes).unwrap().is_empty());
            assert!(!to.shared.conditions.lack());
            assert_eq!(fake.asked_to("PutObject").len(), puts, "{patience} s, {id}");
        }
    }
}

/// Where no condition holds, the trial takes the place of what arrived before it.
#[test]
fn a_trial_of_conditions_that_arrives_damaged_fails_its_file_which_is_put_again() {
    let fake = Fake::start().unwrap();
    fake.ignore_conditions_of_puts();
    let to = open_at(&fake, Duration::from_secs(60));
    fake.fail("PutObject", 1, Fault::Anonymous);
    fake.fail("PutObject", 1, Fault::Misread);
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    assert_fresh(&to, &entry);
    let failure = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Damage, "{failure}");
    assert!(fake.keys().is_empty(), "it is removed");
    assert!(to.shared.conditions.lack());
    let staged = stage(&to, &[(entry.clone(), bytes.clone())]).remove(0).unwrap();
    name(&to, &entry, Ready::Staged(staged), &bytes).unwrap();
    assert!(fake.content("to/a") == Some(bytes));
}

/// Else the copy would end, and its requests were still made.
#[test]
fn who_waits_for_a_store_has_more_patience_than_its_requests() {
    let (fake, patience) = (Fake::start().unwrap(), Duration::from_secs(7200));
    let store = Store::open(&fake.location(""), &fake.options(), &fake.surroundings(patience)).unwrap();
    let (terms, options) = (Terms::of(CHUNK_BYTES_MIN, CHUNK as u32), DestinationOptions::default());
    let (to, form) = (fake.location("to/"), SourceForm::Many);
    let to = ObjectDestination::open(Arc::new(store), &to, &form, terms, None, options).unwrap();
    assert!(to.shared.budget.stall > patience);
}

#[test]
fn who_waits_for_a_store_waits_on_while_content_gets_across() {
    // For parts that are under way, and for memory that they have.
    for (memory, moves) in [(MEMORY, false), (MEMORY, true), (CHUNK, false), (CHUNK, true)] {
        let bucket = Memory::new();
        let location = Location { bucket: "memory".to_owned(), key: "to/".to_owned() };
        let (options, form) = (DestinationOptions::default(), SourceForm::Many);
        // The first look that sees nothing move ends it.
        let budget = Budget::new(memory, STALE, Duration::ZERO);
        let to =
            ObjectDestination::of(bucket.clone(), &location, &form, terms(), None, options, budget).unwrap();
        let bytes = noise(2 * CHUNK as usize, 1);
        let entry = file(1, "a", bytes.len());
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        bucket.moves.store(moves, Ordering::Relaxed);
        bucket.hold(true);
        let written = write(&to, &partial, &bytes, &[0, 1]);
        bucket.hold(false);
        match moves {
            true => written.unwrap(),
            false => {
                let failure = written.unwrap_err();
                assert!(failure.cause.contains("s3://memory has taken nothing for"), "{failure}");
            }
        }
        to.close(true);
    }
}
