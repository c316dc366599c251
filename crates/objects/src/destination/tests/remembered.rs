//! What an earlier run remembers of files, and of what it put beside them.

use super::*;
use thalweg_mover::journal::catalogue::{Remembered, bind};

const TIMES: Preserve = Preserve { mode: false, owner: false, ..Preserve::ALL };

fn open_to(bucket: &Arc<Memory>, preserve: Preserve, check: Check, state: &Path) -> ObjectDestination {
    let terms = Terms { preserve, check, ..terms() };
    open_as(bucket, terms, Some(state), DestinationOptions::default()).unwrap()
}

fn is_unchanged(found: &Outcome) -> bool {
    matches!(found, Outcome::Unchanged { digest: Some(_) })
}

#[test]
fn what_is_wanted_beside_an_object_later_is_told_as_lost_and_what_is_there_is_not_asked_for() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
    let to = open_to(&bucket, TIMES, Check::Evidence, state.path());
    send(&to, &entry, &bytes);
    to.close(true);
    // Each time, and as without a state directory.
    for state in [Some(state.path()), Some(state.path()), None] {
        let to = open(&bucket, state);
        let Outcome::Done { losses, .. } = outcome(&to, &entry) else { panic!("nothing is told: {state:?}") };
        assert_eq!(losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["metadata"]);
        to.close(true);
    }
    let asks = |preserve: Preserve| {
        let before = bucket.count("head");
        let to = open_to(&bucket, preserve, Check::Evidence, state.path());
        let found = outcome(&to, &entry);
        assert!(is_unchanged(&found), "{found:?}");
        to.close(true);
        bucket.count("head") - before
    };
    // Who wants no more than there is.
    let none = Preserve { times: false, ..TIMES };
    assert_eq!([TIMES, none].map(asks), [0, 0]);
    // Sent again it has all, which is enough for everybody.
    let to = open_to(&bucket, Preserve::ALL, Check::Nothing, state.path());
    send(&to, &entry, &bytes);
    to.close(true);
    assert_eq!([Preserve::ALL, TIMES, none].map(asks), [0, 0, 0]);
    assert_eq!(bucket.get("to/a").unwrap().about.mode, Some(0o640));
}

#[test]
fn a_record_of_an_earlier_version_counts_for_the_content_and_not_for_what_is_beside_it() {
    for (preserve, has_all) in [(Preserve::ALL, true), (TIMES, false)] {
        let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
        let (entry, bytes) = (file(1, "a", 1000), noise(1000, 1));
        let to = open_to(&bucket, preserve, Check::Evidence, state.path());
        send(&to, &entry, &bytes);
        let inode = crate::bucket::version_of(&bucket.get("to/a").unwrap().seen.etag);
        let evidence = bind(&entry.evidence, &Evidence { size: 1000, inode, ..Evidence::default() });
        let old = Remembered { evidence, digest: digest_of(&bytes) };
        lock(&to.catalogue).as_mut().unwrap().put(&entry.path, old, Instant::now()).unwrap();
        to.close(true);
        for is_first in [true, false] {
            let before = bucket.count("head");
            let to = open(&bucket, Some(state.path()));
            // It is not wanted.
            let found = outcome(&to, &entry);
            assert_eq!(is_unchanged(&found), has_all, "{found:?}");
            assert_eq!(bucket.count("head") - before, u64::from(is_first || !has_all));
            to.close(true);
        }
        let mut changed = entry.clone();
        changed.evidence.ctime.seconds += 1;
        assert_fresh(&open(&bucket, Some(state.path())), &changed);
    }
}
